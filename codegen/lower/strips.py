"""Strips: what is done for each row of a long axis is done for some hundred rows at a time, from the first operation to
the last, where it would go through memory between matrix products otherwise.

A mixture's likelihood multiplies points by matrices, reduces, and multiplies what its adjoint makes of that by the
points again; a small network over a long batch does the same.  As they stand, each product and each loop nest passes
over all rows, and what goes from one to the next is as long as the data.  Here it becomes a loop whose body does all of
it for a *strip* of rows, which stays in cache:

* values **within** strips have the long axis, and row i of them depends on row i of what they are made of;
* **totals** are reductions over the long axis (``X.T @ r`` is one): each strip makes a part;
* all else stands **before** the loop, or **after** it, where it needs totals, or rows in another order.

The axis is a class of ``EqualAxes``; ``Axes`` says of each operation what its result's rows depend on.  ``_RowSplit``
is about what is correct; ``worth_it`` decides whether it is worth it, and how many rows a strip has.  Both see this
run's sizes: a short batch has another program.  Strips are steps of a loop without carries (``tracer/ops/control.py``),
so that threads divide them, or of loops in the steps of one where there are many; borders depend on sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.ir.graph import (
    Atom,
    Builder,
    Graph,
    Lit,
    Node,
    Var,
    bind,
    building,
    current_builder,
    live_graph,
    live_nodes,
    read_vars,
)
from ...tracer.ir.primitive import ELEMENTWISE, LOOP, PRODUCT, REDUCE, VIEW
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.ops.control import loop
from ...tracer.ops.elementwise import F
from ...tracer.ops.reduce import REDUCE_SUM
from ...tracer.ops.shape import concat, full, move_axis, reshape, slice_axis
from .equal_axes import EqualAxes, Place, size_of

CACHE = 1 << 20  # bytes that a strip may take, of a second-level cache of 1 or 2 MB
FEWEST, MOST = 64, 1024  # rows of a strip
MAX_ROW = CACHE // FEWEST  # bytes of a row
WHOLE = 1 << 15  # elements of the factor that all strips share, or of a total: larger ones had better be BLAS's at once
CHUNKS = 64  # steps of the outer loop, which threads take
STACKED = 1 << 20  # bytes of the parts of totals
ENOUGH = 16  # chunks, for threads
TRIED = 4  # axes that are looked at

_VIEW_PARAMS = frozenset({"shape", "dims", "perm", "start", "step", "axis"})
_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "reduce_sum": lambda x, y: x + y, "matmul": lambda x, y: x + y, "matmulz": lambda x, y: x + y,
    "reduce_max": lambda x, y: F.maximum(x, y), "reduce_min": lambda x, y: F.minimum(x, y),
    "reduce_and": lambda x, y: F.logical_and(x, y), "reduce_or": lambda x, y: F.logical_or(x, y),
}  # fmt: skip


def in_strips(graph: Graph) -> tuple[Graph, list[str | Reason]]:
    """(*graph* with its longest chain of products over rows as a loop over strips, or itself; what was decided)"""
    if sum(node.prim.kind == PRODUCT for node in graph.nodes) < 2:
        return graph, []
    if any(node.prim.kind == LOOP for node in graph.nodes):
        return graph, []
    leading = list(_leading(graph))
    if not leading:
        return graph, []
    classes = EqualAxes(graph, {})
    best: tuple[_RowSplit, _StripPlan] | None = None
    notes: list[str | Reason] = []
    for root in _most_used(graph, classes, leading):
        split = _RowSplit(graph, classes, root)
        split.run()
        plan = worth_it(split)
        if isinstance(plan, Reason):
            notes.append(plan)
        elif plan is not None and (best is None or plan.saved > best[1].saved):
            best = split, plan
    if best is None:
        return graph, notes
    split, plan = best
    text = f"an axis of {plan.n} is taken in strips of {plan.rows} rows, each of which stays in cache"
    return _InStrips(graph, split, plan).run(), [text]


def _leading(graph: Graph) -> Iterator[Place]:
    """The leading axes of operands that are long enough."""
    for v in (*graph.inputs, *[v for v, _ in graph.consts]):
        for axis, n in enumerate(v.shape):
            if n >= 2 * FEWEST:
                yield v, axis
            if n != 1:
                break


def _most_used(graph: Graph, classes: EqualAxes, axes: Sequence[Place]) -> list[Any]:
    """The classes of *axes* that most products have."""
    found = {classes.find(place): 0 for place in axes}
    for node in graph.nodes:
        if node.prim.kind == PRODUCT:
            for root in {classes.find((node.out, axis)) for axis in range(node.out.ndim)} & found.keys():
                found[root] += 1
    return sorted(found, key=found.__getitem__, reverse=True)[:TRIED]


# ---- what is correct ----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _RowSplit:
    """The nodes of *graph* by how they depend on the axes of the class *root*."""

    graph: Graph
    classes: EqualAxes
    root: Any
    within: dict[Var, int] = field(default_factory=dict)  # values in strips -> the long axis
    totals: dict[Var, Node] = field(default_factory=dict)
    after: set[Var] = field(default_factory=set)  # what needs totals, or strips in another order; totals, too
    makers: dict[Var, Node] = field(default_factory=dict)
    again: list[Node] = field(default_factory=list)  # of cheap values within strips that are computed as a whole, too
    kept: list[Var] = field(default_factory=list)  # values within strips that are read outside
    parts: list[Var] = field(default_factory=list)  # totals that are read
    nodes: list[Node] = field(default_factory=list)  # that make these

    def run(self) -> None:
        for node in self.graph.nodes:
            self.makers.update(dict.fromkeys(node.outs, node))
            if any(x in self.after for x in node.inputs):
                self.after.update(node.outs)
            elif (axis := self._row_of(node)) is not None:
                self.within[node.out] = axis
            elif self._is_total(node):
                self.totals[node.out] = node
                self.after.add(node.out)
            elif any(x in self.within for x in node.inputs):
                self.after.update(node.outs)
        self._results()

    def along(self, x: Atom) -> list[int]:
        """The axes of *x* that are the long one."""
        if not isinstance(x, Var):
            return []
        return [a for a in range(x.ndim) if self.classes.find((x, a)) is self.root]

    def _row_of(self, node: Node) -> int | None:
        """The long axis of the result of *node*, if its row i needs nothing but rows i of operands, and what has no
        rows."""
        if len(node.outs) != 1 or not _known(node):
            return None
        mine = self.along(node.out)
        axes = node.axes
        if len(mine) != 1 or mine[0] in axes.across:
            return None
        for x, numbers in zip(node.inputs, axes.operands, strict=True):
            theirs = self.along(x)
            if len(theirs) > 1 or (theirs and numbers[theirs[0]] != mine[0]):
                return None
            if theirs and not self._has_strips(x, theirs[0]):
                return None
        return mine[0]

    def _is_total(self, node: Node) -> bool:
        """Whether *node* reduces the long axis of what is within strips, or rows of an array."""
        if node.prim.name not in _MERGES or self.along(node.out):
            return False
        theirs = [self.along(x) for x in node.inputs]
        if any(len(axes) != 1 for axes in theirs):
            return False
        if node.prim.kind == PRODUCT:
            inner = {numbers[axis] for (axis,), numbers in zip(theirs, node.axes.operands, strict=True)}
            if len(inner) != 1 or inner.pop() != node.out.ndim:
                return False
        return all(self._has_strips(x, axis) for x, (axis,) in zip(node.inputs, theirs, strict=True))

    def _has_strips(self, x: Atom, axis: int) -> bool:
        """Whether strips of *x* are at hand: made within, or rows of an array that is there before."""
        assert isinstance(x, Var)
        return x in self.within or (x not in self.after and all(n == 1 for n in x.shape[:axis]))

    def _results(self) -> None:
        """Find what of the strips is read outside of them, and what they do for it."""
        roots = [*self.graph.outputs, *[g.atom for g in self.graph.guards]]
        outside = [n for n in self.graph.nodes if n.out not in self.within and n.out not in self.totals]
        read = read_vars(outside, roots)
        self.again = self._again(read)
        read |= read_vars(self.again, ())
        twice = {node.out for node in self.again}
        self.kept = [v for v in self.within if v in read and v not in twice]
        self.parts = [v for v in self.totals if v in read]
        wanted = {*self.kept, *self.parts}
        for node in reversed(self.graph.nodes):
            if node.out in wanted and (node.out in self.within or node.out in self.totals):
                self.nodes.append(node)
                wanted.update(x for x in node.inputs if isinstance(x, Var))
        self.nodes.reverse()

    def _again(self, read: set[Var]) -> list[Node]:
        """The nodes within strips that are read outside of them and made of nothing but whole arrays."""
        cheap: dict[Var, Node] = {}
        for node in self.graph.nodes:
            plain = node.out in self.within and node.prim.kind in (ELEMENTWISE, VIEW)
            if plain and all(x in cheap for x in node.inputs if x in self.within):
                cheap[node.out] = node
        wanted = set(read)
        found = []
        for node in reversed(cheap.values()):
            if node.out in wanted:
                found.append(node)
                wanted.update(x for x in node.inputs if isinstance(x, Var))
        return found[::-1]

    def computed(self, x: Atom) -> Var | None:
        """*x*, or what it is a view of, if that is computed within strips; else None."""
        while isinstance(x, Var) and x in self.within:
            node = self.makers[x]
            if node.prim.kind != VIEW:
                return x
            x = node.inputs[0]
        return None


def _known(node: Node) -> bool:
    """Whether the lengths of the node's axes stand in no other param than ``shape``."""
    if node.prim.kind == VIEW:
        return node.prim.lower is None and _VIEW_PARAMS.issuperset(node.params)
    return node.prim.kind in (ELEMENTWISE, REDUCE, PRODUCT)


# ---- what is worth it -----------------------------------------------------------------------------------------------


class _StripPlan(NamedTuple):
    """*chunks* x *strips* x *rows* of the *n* rows, and the rest of them; *saved*: bytes that need not be stored."""

    n: int
    rows: int
    strips: int
    chunks: int
    saved: int


def worth_it(split: _RowSplit) -> _StripPlan | Reason | None:
    """The strips that *split* is worth, or the reason why there are none; None where nothing would be gained.

    What is gained are values between matrix products and reductions, which are stored for all rows otherwise.
    """
    kept: dict[Var, None] = {}
    factor, chained = 0, False
    for node in split.nodes:
        if node.prim.kind == PRODUCT:
            made = [x for x in map(split.computed, node.inputs) if x is not None]
            chained |= bool(made)
            kept.update(dict.fromkeys(made))
            factor = max(factor, _factor(split, node))
        if node.prim.kind in (PRODUCT, REDUCE) and node.out in split.within:
            kept[node.out] = None
    if not chained:
        return None
    n = size_of(split.root)
    row_bytes = sum(x.aval.nbytes // n for x in kept)
    saved = row_bytes * n
    if saved <= CACHE or n < 2 * FEWEST:
        return Refusal.STRIP_SMALL(count=n, size=saved)
    if factor > WHOLE or row_bytes > MAX_ROW:
        return Refusal.STRIP_LARGE(count=n, size=max(factor, row_bytes))
    most = max(FEWEST, min(MOST, CACHE // max(row_bytes, 1), n // 2))
    parts = sum(x.aval.nbytes for x in split.parts)
    rows, chunks = _borders(n, most, max(1, min(CHUNKS, STACKED // max(parts, 1))))
    return _StripPlan(n, rows, n // rows // chunks, chunks, saved)


def _borders(n: int, most: int, most_chunks: int) -> tuple[int, int]:
    """(rows of a strip, at most *most* of the *n*; chunks of as many strips each): if possible none is left over, rows
    are eights, and there are chunks enough."""

    def chunks(rows: int) -> int:
        strips = n // rows
        return next(c for c in range(min(most_chunks, strips), 0, -1) if strips % c == 0)

    wanted = sorted(range(max(FEWEST, most // 2), most + 1), key=lambda rows: (n % rows != 0, rows % 8 != 0, -rows))
    found = next((rows for rows in wanted if chunks(rows) >= min(ENOUGH, most_chunks, n // rows)), wanted[0])
    return found, chunks(found)


def _factor(split: _RowSplit, node: Node) -> int:
    """Elements of the factor that the product *node* has in common for all rows, or of a total."""
    if node.out in split.totals:
        return node.out.aval.size
    return max([x.aval.size for x in node.inputs if not split.along(x)], default=0)


# ---- the rewriting -----------------------------------------------------------------------------------------------


class _InStrips:
    """The graph with a loop over strips."""

    def __init__(self, graph: Graph, split: _RowSplit, plan: _StripPlan):
        self.graph, self.split, self.plan = graph, split, plan
        self.builder = Builder()
        self.renamed: dict[Var, Atom] = {}
        inside = {node.out for node in split.nodes}
        operands = {x: None for node in split.nodes for x in node.inputs if isinstance(x, Var) and x not in inside}
        self.rows = [x for x in operands if split.along(x)]
        self.whole = [x for x in operands if not split.along(x)]

    def run(self) -> Graph:
        split, graph = self.split, self.graph
        early = {node.out for node in split.again}
        late: list[Node] = []
        with building(self.builder):
            for node in graph.nodes:
                if node.out in split.within or node.out in split.totals:
                    if node.out in early:
                        self._copy(node)
                elif node.out in split.after:
                    late.append(node)
                else:
                    self._copy(node)
            self.builder.site_override = split.nodes[0].site
            self._loop()
            for node in late:
                self._copy(node)
        return live_graph(graph, self.builder.nodes, self._now)

    def _now(self, atom: Atom) -> Atom:
        return self.renamed.get(atom, atom) if isinstance(atom, Var) else atom

    def _copy(self, node: Node) -> None:
        self.builder.nodes.append(node.on(tuple(map(self._now, node.inputs))))

    # -- the loops

    def _loop(self) -> None:
        """The loop over chunks, and what is made of its results; the rows that no strip has are done apart."""
        plan = self.plan
        done = plan.chunks * plan.strips * plan.rows
        whole = {v: self._now(v) for v in self.whole}
        firsts = {v: self._part(v, 0, done) for v in self.rows}
        stacked = self._steps(
            whole | firsts, plan.chunks, plan.strips * plan.rows, [], lambda values, _: self._chunk(values)
        )
        parts: list[Atom] = [
            bind(_reduction(self.split.totals[v]), x, axes=(0,))
            for v, x in zip(self.split.parts, stacked, strict=False)
        ]
        kept = [self._joined(x) for x in stacked[len(self.split.parts) :]]
        if done < plan.n:
            rest = self._strip(whole | {v: self._part(v, done, plan.n) for v in self.rows}, plan.n - done)
            parts = [self._merged(v, x, y) for v, x, y in zip(self.split.parts, parts, rest, strict=False)]
            kept = [concat([x, y], 0) for x, y in zip(kept, rest[len(self.split.parts) :], strict=True)]
        self.renamed.update(zip(self.split.parts, parts, strict=True))
        for v, x in zip(self.split.kept, kept, strict=True):
            self.renamed[v] = move_axis(x, 0, self.split.within[v])

    def _steps(
        self, values: Mapping[Var, Atom], steps: int, length: int, inits: Sequence[Atom],
        step: Callable[[dict[Var, Atom], Sequence[Var]], list[Atom]],
    ) -> Sequence[Atom]:  # fmt: skip
        """The results of a loop whose *step* is given the operands for one of *steps* stretches of this *length* in
        their *values*, and the carries, which begin as *inits*."""
        whole = [values[v] for v in self.whole]
        rows = [self._cut(values[v], v, steps, length) for v in self.rows]
        consts, before = [Var(x.aval) for x in whole], [Var(replace(x.aval, weak=False)) for x in inits]
        xs = [Var(replace(x.aval, shape=x.aval.shape[1:])) for x in rows]
        with building(Builder()) as inner:
            outs = step(dict(zip([*self.whole, *self.rows], [*consts, *xs], strict=True)), before)
        body = Graph([*consts, *before, *xs], live_nodes(inner.nodes, outs), outs)
        return loop(body, whole, inits, rows, steps)

    def _chunk(self, values: dict[Var, Atom]) -> list[Atom]:
        """Totals of the strips of one chunk, and the kept values, the long axis first."""
        plan = self.plan
        if plan.strips == 1:
            return self._strip(values, plan.rows)
        nodes = [self.split.totals[v] for v in self.split.parts]
        exact = [k for k, node in enumerate(nodes) if _is_exact(node)]
        inits = [*map(_neutral, nodes), *[_neutral(nodes[k]) for k in exact]]
        count = len(nodes)

        def step(values: dict[Var, Atom], before: Sequence[Var]) -> list[Atom]:
            found = self._strip(values, plan.rows)
            merged = [self._merged(v, x, y) for v, x, y in zip(self.split.parts, before, found, strict=False)]
            lost = [_lost(before[k], found[k], merged[k], b) for k, b in zip(exact, before[count:], strict=True)]
            return [*merged, *lost, *found[count:]]

        results = self._steps(values, plan.strips, plan.rows, inits, step)
        totals: list[Atom] = [*results[:count]]
        for k, rest in zip(exact, results[count:], strict=False):
            totals[k] = F.select(F.isfinite(totals[k]), totals[k] + rest, totals[k])  # else what was lost is no number
        return [*totals, *[self._joined(x) for x in results[len(inits) :]]]

    def _strip(self, values: dict[Var, Atom], length: int) -> list[Atom]:
        """Parts of totals, and kept values with the long axis first, of a strip of this *length*."""
        for node in self.split.nodes:
            current_builder().site_override = node.site
            inputs = [values[x] if isinstance(x, Var) else x for x in node.inputs]
            params = node.params
            if node.out in self.split.within and "shape" in params:
                axis, shape = self.split.within[node.out], params["shape"]
                params = {**params, "shape": (*shape[:axis], length, *shape[axis + 1 :])}
            values[node.out] = bind(node.prim, *inputs, **params)
        kept = [move_axis(values[v], self.split.within[v], 0) for v in self.split.kept]
        return [*[values[v] for v in self.split.parts], *kept]

    # -- pieces of arrays

    def _part(self, v: Var, low: int, high: int) -> Atom:
        """Rows *low* to *high* of the operand *v*."""
        (axis,) = self.split.along(v)
        return slice_axis(self._now(v), axis, low, high - low)

    def _cut(self, x: Atom, v: Var, steps: int, length: int) -> Atom:
        """*x*, rows of the operand *v*, in *steps* stretches of this *length*."""
        (axis,) = self.split.along(v)
        return reshape(x, (steps, *v.shape[:axis], length, *v.shape[axis + 1 :]))

    def _joined(self, x: Atom) -> Atom:
        """Stretches of rows as one array of them."""
        shape = x.aval.shape
        return reshape(x, (shape[0] * shape[1], *shape[2:]))

    def _merged(self, v: Var, x: Atom, y: Atom) -> Atom:
        result: Atom = _MERGES[self.split.totals[v].prim.name](x, y)
        return result


def _is_exact(node: Node) -> bool:
    """Whether what rounding takes from the total *node* is added up aside: as in one loop over all rows, where it is a
    single number."""
    return node.prim is REDUCE_SUM and node.out.dtype.kind in FLOAT_KINDS and not node.out.ndim


def _lost(x: Any, y: Any, total: Any, before: Any) -> Atom:
    """*before*, and what rounding took from *total*, the sum of *x* and *y* (Knuth's TwoSum)."""
    taken = total - x
    result: Atom = before + ((x - (total - taken)) + (y - taken))
    return result


def _reduction(node: Node) -> Any:
    """The reduction that puts together parts of the total *node*."""
    return node.prim if node.prim.kind == REDUCE else REDUCE_SUM


def _neutral(node: Node) -> Atom:
    """A total of no rows."""
    dtype, name = node.out.dtype, node.prim.name
    value: Any = name == "reduce_and"
    if name in ("reduce_max", "reduce_min"):
        least = -np.inf if dtype.kind in FLOAT_KINDS else np.iinfo(dtype).min
        most = np.inf if dtype.kind in FLOAT_KINDS else np.iinfo(dtype).max
        value = least if name == "reduce_max" else most
    return full(Lit(value, dtype, structural=True), node.out.shape)
