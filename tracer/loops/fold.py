"""Iterations before a loop that did what its body does, and become its first ones.

The first iterations of a loop stand alone where something had to be learned of them: that a sum that begins as the
int 0 is a float, that an array is written.  If the values with which the loop begins come from nodes like those of
the body, from values that the carries could have had before, the loop may as well begin there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..ir.equality import same_params
from ..ir.graph import Atom, Lit, Node, Pair, Var, strong
from ..ir.primitive import PRIMITIVES
from ..ops.control import LOOP_OVER
from ..ops.elementwise import CAST, cast
from ..ops.indexing import GATHER
from ..ops.shape import RESHAPE
from .body import IterationBody, Row
from .positions import Affine, Reader

_ALIAS = PRIMITIVES["alias"]
Makers = Callable[[Any], Node | None]


def folded(
    body: IterationBody, carries: Sequence[tuple[Atom, Var, Atom]], rows: Sequence[Atom]
) -> tuple[int, dict[Var, Atom]]:
    """(how many iterations before become the first ones of the loop, what its carries begin with then)

    *carries*: what each ends as, its input, what it begins with.  *rows*: what is stacked."""
    marked, earlier = body.marked, body.parts.wanted.earlier
    starts: dict[Var, Atom] = {}
    most = min([marked.earlier, *map(len, earlier)])
    inside = {out: node for node in body.lines.nodes for out in node.outs}
    around = {x for loop in body.recorder.open_loops for x in (*loop.carries, *loop.forms)}

    def outside(x: Any) -> Node | None:
        """The node of the recording that makes *x*; none for symbols of loops around, which are other values in each of
        their iterations, and for what a transform has given a name of its own."""
        node = None if x in around else marked.node_of(x)
        return None if node is not None and node.prim is _ALIAS and x not in body.recorder.symbols else node

    every = {row: key for key, row in body.rows.items()}
    before = 0
    while before < most and _in_bounds(every.values(), before + 1):

        def form(atom: Atom, at: int = -1 - before) -> Affine | None:
            found = Reader({body.row: Affine(0, {body.row: 1})}.get, inside.get).form(atom)
            found = marked.reader(inside).form(atom) if found is None else found
            return None if found is None else found.at(body.row, Affine(at))

        moved = {row: (x, slope, offset - slope * before) for row, (x, slope, offset) in every.items()}
        match = Match(body.carries.values(), inside, outside, moved, form, marked.reader().form, body, -1 - before)
        pairs = [(end, starts.get(var, init)) for end, var, init in carries]
        if not match.all([*pairs, *[(row, was[before]) for row, was in zip(rows, earlier, strict=True)]]):
            break
        starts.update((var, strong(init)) for var, init in match.bound.items())
        before += 1
    return before, starts


def _in_bounds(rows: Iterable[Row], before: int) -> bool:
    """Whether *rows* have so many elements *before* those with which they begin."""
    return all(0 <= offset - slope * before < x.aval.shape[0] for x, slope, offset in rows)


class Match:
    """The values of *carries* one iteration before those for which the loop was to begin.

    *inside*: the nodes of the body, *outside* finds those of the recording.  *rows* are the inputs that are rows.
    *form* and *formed* give the forms of values of the body, one iteration before the first, and of the recording."""

    def __init__(
        self, carries: Iterable[Var], inside: Mapping[Var, Node], outside: Makers, rows: Mapping[Var, Row],
        form: Callable[[Atom], Affine | None], formed: Callable[[Atom], Affine | None], body: IterationBody, at: int,
    ):  # fmt: skip
        self.carries, self.inside, self.outside, self.rows = set(carries), inside, outside, rows
        self.form, self.formed = form, formed
        self.bound: dict[Var, Atom] = {}
        self.body, self.at = body, at

    def all(self, pairs: Sequence[tuple[Atom, Atom]]) -> bool:
        """Whether the values of the body, the first of each pair, can have been the others."""
        seen: set[tuple[Atom, Atom]] = set()
        left = list(pairs)
        while left:
            pair = left.pop()
            if pair in seen:
                continue
            seen.add(pair)
            further = self._matched(*pair)
            if further is None:
                return False
            left += further
        return True

    def _matched(self, b: Atom, p: Atom) -> Sequence[tuple[Atom, Atom]] | None:
        """The pairs that have to match for *b* to match *p*; None where it does not."""
        if isinstance(b, Pair) or isinstance(p, Pair) or b.aval.shape != p.aval.shape:
            return None
        if b.aval.dtype.kind in "iu" and not b.aval.shape and (form := self.form(b)) is not None:
            return () if form == self.formed(p) else None
        b, p = unaliased(b, self.inside.get), unaliased(p, self.outside)
        if isinstance(b, Var) and b in self.carries:
            return self._bind(b, p)
        if b in self.body.spot_of and self._same_spot(*self.body.spot_of[b], p):
            return ()
        if isinstance(b, Lit):
            return () if _is_same(b, p) else None
        node = self.inside.get(b)
        if node is not None and node.prim is RESHAPE:
            return self._reshaped(node, b, p)
        if b in self.rows:
            return self._row(self.rows[b], _unshaped(p, self.outside))
        if node is None:
            return () if b is p else None
        return self._made(node, b, p)

    def _reshaped(self, node: Node, b: Atom, p: Atom) -> Sequence[tuple[Atom, Atom]] | None:
        """The same of *b*, which *node* reshapes."""
        made = self._maker(p)
        if made is None or made.prim is not RESHAPE:
            return None
        source, other = _unshaped(b, self.inside.get), _unshaped(p, self.outside)
        row = self.rows.get(source) if isinstance(source, Var) else None
        return [(node.inputs[0], made.inputs[0])] if row is None else self._row(row, other)

    def _made(self, node: Node, b: Atom, p: Atom) -> Sequence[tuple[Atom, Atom]] | None:
        """The same of *b*, which *node* makes."""
        if node.prim is LOOP_OVER and node.params.get("counted") and (before := self._before(node, b)) is not None:
            return [(before, p)]
        made = self._maker(p)
        if made is None or made.prim is not node.prim or len(made.inputs) != len(node.inputs):
            return None
        if node.outs.index(b) != made.outs.index(p) or not same_params(node.params, made.params):  # type: ignore[arg-type]
            return None
        return list(zip(node.inputs, made.inputs, strict=True))

    def _maker(self, p: Atom) -> Node | None:
        return self.outside(p) if isinstance(p, Var) else None

    def _same_spot(self, x: Atom, positions: Mapping[int, Any], p: Atom) -> bool:
        """Whether *p* was read of *x*, at *positions* one iteration before the first."""
        spot = self.body.recorder.loops.spots.get(p) if isinstance(p, Var) else None
        if (
            spot is None
            or set(spot.axes) != set(positions)
            or unaliased(spot.x, self.outside) is not unaliased(x, self.outside)
        ):
            return False
        for axis, position in zip(spot.axes, spot.positions, strict=True):
            here = positions[axis]
            if not isinstance(here, Affine):
                if here is not position:
                    return False
            elif here.at(self.body.marked.number, Affine(self.at)) != self.formed(position):
                return False
        return True

    def _before(self, node: Node, b: Atom) -> Atom | None:
        """The value with which the carry *b* of the loop *node* begins, where that has no iteration; else None."""
        given = node.inputs[0]
        counted = self.inside.get(given) if isinstance(given, Var) else None
        least = counted is not None and counted.prim.name == "maximum"
        steps = self.form(counted.inputs[0] if counted is not None and least else given)
        k = next(k for k, out in enumerate(node.outs) if out is b)
        if steps is None or steps.constant is None or steps.constant > 0 or k >= node.params["carries"]:
            return None
        return node.inputs[1 + node.params["consts"] + k]

    def _bind(self, carry: Var, p: Atom) -> Sequence[tuple[Atom, Atom]] | None:
        if isinstance(p, Lit) and p.aval.dtype.kind in "iub" and carry.aval.is_float:
            p = cast(p, carry.aval.dtype)
        if not p.aval.like(carry.aval):
            return None
        return () if _is_same(self.bound.setdefault(carry, p), p) else None

    def _row(self, row: Row, p: Atom) -> Sequence[tuple[Atom, Atom]] | None:
        x, slope, offset = row
        made = self._maker(p)
        if made is None or made.prim is not GATHER:
            return None
        if unaliased(made.inputs[0], self.outside) is not unaliased(x, self.outside):
            return None
        return () if self.formed(made.inputs[1]) == Affine(offset - slope) else None


def _is_same(x: Atom, y: Atom) -> bool:
    """Whether these are one variable, or equal literals."""
    if not (isinstance(x, Lit) and isinstance(y, Lit)):
        return x is y
    return x.aval.dtype == y.aval.dtype and x.value.tobytes() == y.value.tobytes()


def unaliased(x: Atom, maker: Makers) -> Atom:
    """*x* without aliases of it, and without casts that say no more than whose number it is."""
    while isinstance(x, Var) and (node := maker(x)) is not None:
        if node.prim is not _ALIAS and not (node.prim is CAST and node.inputs[0].aval.dtype == x.aval.dtype):
            break
        x = node.inputs[0]
    return x


def _unshaped(x: Atom, maker: Makers) -> Atom:
    while isinstance(x, Var) and (node := maker(x)) is not None and node.prim is RESHAPE:
        x = unaliased(node.inputs[0], maker)
    return x
