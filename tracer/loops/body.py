"""The body of a loop, emitted anew from the nodes of an iteration.

Reads of arrays from outside at evenly spaced places become rows that the loop steps through.  Of arrays that are
written place by place (``row_writes.py``) a read is what an iteration has written, or such a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..ir.aval import INT, Aval
from ..ir.graph import Atom, Builder, Node, Var, building, strong, structural
from ..ops.control import UNLIMITED
from ..ops.elementwise import F, cast
from ..ops.indexing import GATHER
from ..ops.shape import iota, move_axis, reshape, take_slice
from ..record.buffers import PickStep, Spot
from .parts import Cut
from .positions import Affine, bounds
from .row_writes import PlaceRead, PlacewiseArray, picked, value_of
from .whole import AllIterations

Row = tuple[Atom, int, int]  # an array from outside, the slope and the offset of the position along its first axis

MOST_ROWS = 1 << 24  # iterations for each of which an array may have a row


class IterationBody:
    """The body for *parts*, with so many iterations *before*, and *starts* of carries there.  *written*: the carries
    that are arrays which are written place by place."""

    def __init__(
        self, parts: Cut, written: Sequence[PlacewiseArray] = (), before: int = 0,
        starts: Mapping[Var, Atom] = MappingProxyType({}),
    ):  # fmt: skip
        self.parts, self.marked, self.recorder, self.before = parts, parts.marked, parts.recorder, before
        self.lines = Builder()
        self.known: dict[Atom, Atom] = dict(parts.known)
        self.row = Var(Aval(INT, (), weak=True))  # the number of the iteration
        self.known[self.marked.number] = self.row
        self.rows: dict[Row, Var] = {}
        self.length = greatest(self.marked.length, self.recorder.open_loops)
        self.makers = {out: node for node in parts.body for out in node.outs}
        self.written = {w.symbol: w for w in written}
        self.reads = {result: (w, read) for w in written for result, read in w.reads.items()}
        self.inner = {x for w in written for x in w.inner}
        self.starts = {c.symbol: strong(starts.get(c.symbol, c.before)) for c in parts.carries}
        self.carries: dict[Var, Var] = {}  # symbol: input of the body
        for carry in parts.carries:
            if carry.symbol not in self.written:
                aval = carry.symbol.aval
                self.carries[carry.symbol] = self.known[carry.symbol] = Var(Aval(aval.dtype, aval.shape, aval.weak))
        self.spot_of: dict[Atom, tuple[Atom, dict[int, Any]]] = {}  # reads of arrays from outside, and where they are
        self.backs: dict[
            tuple[PlacewiseArray, int, int], tuple[Var, Atom]
        ] = {}  # earlier values: (input, what it begins with)
        for node in parts.body:
            self._emit(node)

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def atom(self, atom: Atom) -> Atom:
        """*atom* in the body."""
        found = self.known.get(atom)
        if found is not None:
            return found
        form = self.marked.forms.get(atom) if isinstance(atom, Var) else None
        if form is None:
            return atom
        with building(self.lines):
            found = self.known[atom] = value_of(form, self.known)
        return found

    def ended(self, atom: Atom, aval: Aval) -> Atom:
        """*atom* as what an iteration ends with."""
        with building(self.lines):
            return cast(strong(self.atom(atom)), aval.dtype)

    def _emit(self, node: Node) -> None:
        self.lines.site_override = node.site
        out = node.outs[0]
        if out in self.reads:
            self.known[out] = self._read(*self.reads[out])
            return
        if out in self.inner:
            return
        spot = self.recorder.loops.spots.get(out)
        if spot is not None and spot.value is None and spot.x not in self.parts.inside:
            found = self._from_outside(spot, self.parts.known.get(spot.x, spot.x))
            if found is not None:
                self.known[out] = found
                return
        if node.prim is GATHER:
            with building(self.lines):
                row = self._row_at(*node.inputs) or self._slice_at(*node.inputs)
                if row is not None:
                    self.known[out] = reshape(row, out.aval.shape)
                    return
        outs = self.lines.emit(node.prim, tuple([self.atom(x) for x in node.inputs]), node.params)
        self.known.update(zip(node.outs, outs, strict=False))

    def form(self, atom: Atom) -> Affine | None:
        """The form of a value of the iteration."""
        return self.marked.reader(self.makers).form(atom)

    # ---- rows of arrays from outside -------------------------------------------------------------------------------

    def _row_at(self, x: Atom, index: Atom) -> Var | None:
        """The row of *x* at *index*, if that is from outside, and the position evenly spaced; else None."""
        if x in self.parts.inside or index.aval.size != 1:
            return None
        form = self.form(index)
        return None if form is None else self._row(x, form)

    def _slice_at(self, x: Atom, index: Atom) -> Atom | None:
        """The slice of *x* that it is at *index*, if that is one known position; else None."""
        form = self.form(index) if index.aval.size == 1 else None
        if form is None or form.constant is None or not 0 <= form.constant < x.aval.shape[0]:
            return None
        rest = x.aval.shape[1:]
        return take_slice(self.atom(x), (form.constant, *[0] * len(rest)), (1,) * x.aval.ndim, (1, *rest))

    def _row(self, x: Atom, form: Affine) -> Var | None:
        slope = form.slopes.get(self.marked.number)
        if slope is None or len(form.slopes) > 1 or self.length >= UNLIMITED:
            return None
        ends = form.offset - slope * self.before, form.offset + slope * (self.length - 1)
        if min(ends) < 0 or max(ends) >= x.aval.shape[0]:
            return None
        key = x, slope, form.offset
        found = self.rows.get(key)
        if found is None:
            found = self.rows[key] = Var(Aval(x.aval.dtype, x.aval.shape[1:]))
        return found

    def _from_outside(self, spot: Spot, x: Atom) -> Atom | None:
        """The value that *spot* reads of *x*, an array from outside: a row of what is cut out of it before the loop;
        None where positions move along several axes, or are data."""
        fixed: list[tuple[int, Any]] = []
        moving: list[tuple[int, Affine]] = []
        for axis, position in zip(spot.axes, spot.positions, strict=True):
            form = self.form(position)
            if form is not None and self.marked.number in form.slopes:
                moving.append((axis, form))
            elif form is not None:
                fixed.append((axis, form))
            elif position in self.parts.inside:
                return None
            else:
                fixed.append((axis, self.parts.known.get(position, position)))
        if len(moving) > 1 or (moving and len(moving[0][1].slopes) > 1):
            return None
        if moving and self._reads_few(x, [p for _, p in fixed]):
            return None
        every: dict[int, Any] = dict([*fixed, *moving])
        part = picked(x, dict(fixed))
        found: Atom | None = part
        if moving:
            axis, form = moving[0]
            found = self._row(move_axis(part, axis - sum(a < axis for a, _ in fixed), 0), form)
        if found is not None:
            self.spot_of[found] = x, every
        return found

    def _reads_few(self, x: Atom, fixed: Sequence[Any]) -> bool:
        """Whether fewer elements may be read of a line of *x* than it has, and the line is cut out again in each
        iteration of the loop around: reading them where they are is less work."""
        length, known = self.marked.length, [isinstance(p, Affine) and p.constant is not None for p in fixed]
        return length is not None and bool(length.slopes) and not all(known) and x.aval.ndim == len(fixed) + 1

    def sliced(self, row: Row) -> Atom:
        """The array that the loop steps through for *row*."""
        x, slope, offset = row
        rest = x.aval.shape[1:]
        first = (offset - slope * self.before, *[0] * len(rest))
        return take_slice(x, first, (slope, *[1] * len(rest)), (self.length + self.before, *rest))

    def numbers(self) -> Atom:
        """The numbers of the iterations."""
        found: Atom = iota(self.length + self.before)
        return F.add(found, structural(-self.before, INT)) if self.before else found

    def whole(self, carried: set[Var]) -> AllIterations:
        """The values of all iterations at once, as far as none of those *carried* is read."""
        keys = {row: key for key, row in self.rows.items()}
        sliced: dict[Var, Atom] = {}

        def rows(var: Var) -> Atom | None:
            if var not in sliced and (var is self.row or var in keys):
                sliced[var] = self.numbers() if var is self.row else self.sliced(keys[var])
            return sliced.get(var)

        makers = {out: node for node in self.lines.nodes for out in node.outs}
        return AllIterations(self.length + self.before, makers, rows, carried, {self.row, *keys})

    # ---- arrays that are written place by place --------------------------------------------------------------------

    def _read(self, written: PlacewiseArray, read: PlaceRead) -> Atom:
        """The value that *read* finds."""
        spot, start = read.spot, self.starts[written.symbol]
        if read.k < 0:
            found = self._from_outside(spot, start)
            if found is None:
                with building(self.lines):
                    found = PickStep(spot.axes, tuple(map(self.atom, spot.positions))).apply(start)
            return found
        found = self.value(written, read.k) if not read.back else self._back(written, read.k, read.back)
        left = [(a, p) for a, p in zip(spot.axes, spot.positions, strict=True) if a not in written.axes]
        if left:
            axes = tuple([a - sum(w < a for w in written.axes) for a, _ in left])
            with building(self.lines):
                found = PickStep(axes, tuple([self.atom(p) for _, p in left])).apply(found)
        return found

    def value(self, written: PlacewiseArray, k: int) -> Atom:
        """The value that write *k* writes in the iteration."""
        value = written.writes[k][0].value
        assert value is not None
        with building(self.lines):
            return reshape(self.atom(value), value.aval.shape[1:])

    def _back(self, written: PlacewiseArray, k: int, back: int) -> Var:
        """The value that write *k* has written so many iterations before: a carry."""
        key = written, k, back
        if key not in self.backs:
            if back > 1:
                self._back(written, k, back - 1)
            spot, place = written.writes[k]
            assert spot.value is not None
            forms = {**written.fixed, written.axis: place.at(self.marked.number, Affine(-self.before - back))}
            with building(self.recorder):
                init = picked(self.starts[written.symbol], forms)
            self.backs[key] = Var(Aval(spot.value.aval.dtype, spot.value.aval.shape[1:])), init
        return self.backs[key][0]


def greatest(length: Affine | None, outer: Sequence[Any]) -> int:
    """The greatest number of iterations, where that is one for which there may be rows."""
    if length is None:
        return UNLIMITED
    high = bounds(length, outer)[1]
    assert high is not None
    return UNLIMITED if length.slopes and high > MOST_ROWS else max(high, 0)
