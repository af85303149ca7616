"""Arrays that a loop writes place by place: ``z[i] = f(z[i - 1])``.

If no place is written in two iterations, and each read finds what this iteration has written, or the one a constant
number before, or what was there before the loop, the array need not be carried: the loop gives what is written as
stacked results, and the array is updated once after it.  Positions are forms, so this is proven whatever the number of
iterations.  Else the array is carried, and kernels have it in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..ir.aval import INT
from ..ir.graph import Atom, Lit, Node, Var, bind, current_builder
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import F, cast
from ..ops.indexing import SCATTER_SET
from ..ops.shape import UPDATE, iota, move_axis, reshape, take_slice
from ..record.buffers import PickStep, Spot
from .positions import Affine, bounds

MAX_BACK = 16  # iterations back that values are kept
MAX_WRITES = 8  # of one array in an iteration
Forms = Callable[[Atom], Affine | None]


class PlaceRead(NamedTuple):
    """A read of an array: of what write ``k`` has written ``back`` iterations before (0: in this one), or, where ``k``
    is -1, of what was there before the loop."""

    spot: Spot
    k: int
    back: int


@dataclass(eq=False)
class PlacewiseArray:
    """An array that is written along ``axis`` at ``slope`` positions more in each iteration, at ``fixed`` positions
    along other axes.  ``writes``: the values and the first positions; ``reads`` by their results; ``inner``: the values
    that are nothing but the array, and views of it."""

    symbol: Var
    number: Var
    axis: int
    slope: int
    fixed: dict[int, Affine]
    writes: list[tuple[Spot, Affine]]
    reads: dict[Var, PlaceRead] = field(default_factory=dict)
    inner: set[Atom] = field(default_factory=set)

    @property
    def axes(self) -> set[int]:
        return {self.axis, *self.fixed}


class Search:
    """Looks for such arrays among the carries of a body of *nodes*, which are live; *ends*: the values that are
    wanted of it.  *loops*: all that are open, the body's own with *number* the last."""

    def __init__(
        self, nodes: Sequence[Node], ends: Sequence[Atom], spots: dict[Var, Spot], form: Forms, number: Var,
        iterations: int, loops: Sequence[Any],
    ):  # fmt: skip
        self.nodes, self.ends, self.spots, self.form, self.number = nodes, ends, spots, form, number
        self.iterations, self.loops = iterations, loops
        self.users: dict[Atom, list[Node]] = {}
        for node in nodes:
            for x in node.inputs:
                self.users.setdefault(x, []).append(node)

    def find(self, symbol: Var, end: Atom) -> PlacewiseArray | Reason | None:
        """The carry *symbol* that ends as *end*, if it is such an array; else why not, or None where it is not
        written at all."""
        chain = self._chain(symbol, end)
        if not chain:
            return None
        found = self._found(symbol, end, chain)
        if isinstance(found, PlacewiseArray):
            return found
        site = next((node.site for node in self.nodes if chain[-1][0] in node.outs), None)
        return found.within(f"the array written at {site} is carried: ")

    def _found(self, symbol: Var, end: Atom, chain: Sequence[tuple[Var, Spot]]) -> PlacewiseArray | Reason:
        written = self._frame(symbol, [spot for _, spot in chain])
        if isinstance(written, Reason):
            return written
        versions: list[Atom] = [symbol, *[version for version, _ in chain]]
        made = {out for node in self.nodes for out in node.outs}
        reads = {
            result: spot for result, spot in self.spots.items()
            if spot.value is None and spot.x in versions and result in made
        }  # fmt: skip
        written.inner = {*versions, *[x for _, spot in chain for x in spot.inner]}
        written.inner |= {x for spot in reads.values() for x in spot.inner}
        if [x for x in self.ends if x in written.inner] != [end]:
            return Refusal.ROWS_KEPT()
        whole = self._use_of_whole(written.inner, set(reads))
        if whole is not None:
            return Refusal.ROWS_WHOLE(operation=whole.prim.name, site=whole.site)
        for result, spot in reads.items():
            found = self._read(written, spot, versions.index(spot.x))
            if found is None:
                return Refusal.ROWS_BACK_VARIES()
            written.reads[result] = found
        return written

    def _chain(self, symbol: Var, end: Atom) -> list[tuple[Var, Spot]]:
        """The writes that make *end* of *symbol*, in order; empty where it is made otherwise."""
        found: list[tuple[Var, Spot]] = []
        at = end
        while at is not symbol:
            spot = self.spots.get(at) if isinstance(at, Var) else None
            if spot is None or spot.value is None or len(found) == MAX_WRITES:
                return []
            assert isinstance(at, Var)
            found.append((at, spot))
            at = spot.x
        return found[::-1]

    def _frame(self, symbol: Var, writes: Sequence[Spot]) -> PlacewiseArray | Reason:
        """Where the writes are; why not where two of them may meet, or their places are not known."""
        first = self._forms(writes[0])
        moving = [a for a, f in first.items() if f is not None and self.number in f.slopes]
        if None in first.values() or len(moving) != 1:
            return Refusal.ROWS_AXES() if len(moving) > 1 else Refusal.ROWS_SPACING()
        axis = moving[0]
        start = first.pop(axis)
        assert start is not None
        fixed = {a: f for a, f in first.items() if f is not None}
        found = PlacewiseArray(symbol, self.number, axis, start.slopes[self.number], fixed, [])
        for spot in writes:
            forms = self._forms(spot)
            place = forms.pop(axis, None)
            if place is None or forms != fixed or place.slopes.get(self.number) != found.slope:
                return Refusal.ROWS_SPACING()
            found.writes.append((spot, place))
            between = place.plus(start, -1).constant
            if between is None or (between and between % found.slope == 0 and self._reaches(between // found.slope)):
                return Refusal.ROWS_OVERLAP()
        return found

    def _reaches(self, back: int) -> bool:
        return abs(back) < self.iterations

    def _forms(self, spot: Spot) -> dict[int, Affine | None]:
        return {axis: self.form(x) for axis, x in zip(spot.axes, spot.positions, strict=True)}

    def _use_of_whole(self, inner: set[Atom], results: set[Var]) -> Node | None:
        """An operation that sees the array, and is no read or write of places."""
        of_places = inner | results
        seen = {id(user) for x in inner if x not in results for user in self.users.get(x, ())}
        return next((node for node in self.nodes if id(node) in seen and not of_places.issuperset(node.outs)), None)

    def _read(self, written: PlacewiseArray, spot: Spot, version: int) -> PlaceRead | None:
        """The write that *spot* reads, of the array after so many writes of the iteration; None where that is not
        known."""
        forms = self._forms(spot)
        for axis, fixed in written.fixed.items():
            here = forms.get(axis)
            between = None if here is None else here.plus(fixed, -1)
            if between is not None and between.constant != 0:
                low, high = bounds(between, self.loops)
                apart = (low is not None and low > 0) or (high is not None and high < 0)
                return PlaceRead(spot, -1, 0) if apart else None
            if between is None:
                return None
        place = forms.get(written.axis)
        if place is None:
            return None
        if place.slopes.get(self.number, 0) != written.slope:
            return PlaceRead(spot, -1, 0) if self._apart(written, place) else None
        found: list[tuple[int, int]] = []
        for k, (_, start) in enumerate(written.writes):
            between = start.plus(place, -1)
            if between.constant is None:
                return None
            back, rest = divmod(between.constant, written.slope)
            if not rest and ((back == 0 and k < version) or 0 < back < self.iterations):
                found.append((back, -k))
        if not found:
            return PlaceRead(spot, -1, 0)
        back, k = min(found)
        return PlaceRead(spot, -k, back) if back <= MAX_BACK else None

    def _apart(self, written: PlacewiseArray, place: Affine) -> bool:
        """Whether what is at *place* is written in no iteration."""
        low, high = bounds(place, self.loops)
        for _, start in written.writes:
            least, most = bounds(start, self.loops)
            if None in (low, high, least, most):
                return False
            if not (high < least or most < low):  # type: ignore[operator]
                return False
        return True


def place_of(form: Affine) -> Atom:
    """*form*, which no iteration of the loop changes, as a position."""
    return cast(value_of(form, {}), INT)


def picked(x: Atom, positions: Mapping[int, Any]) -> Atom:
    """*x* at these positions along these axes, forms or values: of an iteration of an open loop, where that may look
    for them as ``Spot``, else a slice where they are known."""
    known = {axis: p.constant for axis, p in positions.items() if isinstance(p, Affine) and p.constant is not None}
    others = {axis: p for axis, p in positions.items() if axis not in known}
    recorder: Any = current_builder()
    if not others and recorder.open_loops:
        known, others = {}, dict(positions)
    if others:
        axes = tuple(sorted(others))
        places = [place_of(p) if isinstance(p, Affine) else p for p in (others[a] for a in axes)]
        x = PickStep(axes, tuple(places)).apply(x)
        known = {axis - sum(a < axis for a in axes): p for axis, p in known.items()}
    if known:
        shape = x.aval.shape
        start = tuple([known.get(a, 0) for a in range(len(shape))])
        part = take_slice(x, start, (1,) * len(shape), tuple([1 if a in known else n for a, n in enumerate(shape)]))
        x = reshape(part, tuple([n for a, n in enumerate(shape) if a not in known]))
    return x


def final(written: PlacewiseArray, start: Atom, stacks: Sequence[Atom | None], first: int, count: int) -> Atom:
    """The array after the loop, that was *start*: *stacks* are what each write has written in *count* iterations, the
    first of which has the number *first*."""
    fixed = tuple(sorted(written.fixed))
    pick = PickStep(fixed, tuple([place_of(written.fixed[a]) for a in fixed])) if fixed else None
    line = start if pick is None else picked(start, written.fixed)
    axis = written.axis - sum(a < written.axis for a in fixed)
    line = move_axis(line, axis, 0)
    for (_, place), stack in zip(written.writes, stacks, strict=True):
        if stack is None:
            continue
        begin = place.at(written.number, Affine(first))
        rest = line.aval.shape[1:]
        if begin.constant is None:
            numbers = F.mul(iota(count), Lit(written.slope, INT)) if written.slope != 1 else iota(count)
            line = bind(SCATTER_SET, line, F.add(numbers, place_of(begin)), stack)
        elif written.slope == 1 and count == line.aval.shape[0]:
            line = stack
        else:
            line = bind(
                UPDATE, line, stack, start=(begin.constant, *[0] * len(rest)), step=(written.slope, *[1] * len(rest))
            )
    line = move_axis(line, 0, axis)
    return line if pick is None else pick.put(start, line)


def value_of(form: Affine, known: dict[Atom, Atom]) -> Atom:
    """The value of *form*, a Python integer."""
    total: Atom | None = None
    for var, slope in form.slopes.items():
        x: Atom = known.get(var, var)
        if slope != 1:
            x = F.mul(x, Lit(slope, INT, weak=True))
        total = x if total is None else F.add(total, x)
    if total is None:
        return Lit(form.offset, INT, weak=True)
    return F.add(total, Lit(form.offset, INT, weak=True)) if form.offset else total
