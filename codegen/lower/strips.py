"""Strips: what is done for each row of a long axis is done for some hundred rows at a time, from the first operation to
the last, where it would go through memory between matrix products otherwise.

A mixture's likelihood multiplies points by matrices, reduces, and multiplies what its adjoint makes of that by the
points again; a small network over a long batch does the same.  As they stand, each product and each loop nest passes
over all rows, and what goes from one to the next is as long as the data.  Here it becomes a loop whose body does all of
it for a *strip* of rows, which stays in cache:

``RowSplit`` (``row_split.py``) is about what is correct.  Two heuristics decide whether strips are worth it, and how
many rows one has: ``worth_it`` for chains of products, ``worth_lanes`` for what is done to short rows without any,
where the rows of a strip had better be in the lanes (``strip_body.py``).  All see this run's sizes: a short batch has
another program.  Strips are steps of a loop without carries (``tracer/ops/control.py``), so that threads divide them,
or of loops in the steps of one where there are many; borders depend on sizes alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
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
)
from ...tracer.ir.primitive import ELEMENTWISE, LOOP, PRODUCT, REDUCE
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.ops.control import loop
from ...tracer.ops.elementwise import F
from ...tracer.ops.reduce import REDUCE_SUM
from ...tracer.ops.shape import concat, full, move_axis, reshape, slice_axis
from .canonical import STATIC_LIMIT
from .equal_axes import EqualAxes, Place, size_of
from .row_split import MERGES, RowSplit
from .strip_body import RowsLastBody, StripBody

CACHE = 1 << 20  # bytes, of a second-level cache of 1 or 2 MB: what is no more stays there without strips
STRIP = 1 << 19  # bytes of a strip: a mixture takes 1.1 times as long with 1 MB, 1.03 with 256 KB, 1.2 with 2 MB
FEWEST, MOST = 64, 1024  # rows of a strip
MAX_ROW = CACHE // FEWEST  # bytes of a row
WHOLE = 1 << 15  # elements of the factor that all strips share, or of a total: larger ones had better be BLAS's at once
CHUNKS = 64  # steps of the outer loop, which threads take
STACKED = 1 << 20  # bytes of the parts of totals
ENOUGH = 16  # chunks, for threads
TRIED = 4  # axes that are looked at

# rows in the lanes: with 20, 30, 50, 64, 128 numbers of a row, mixtures, distances to centres, radial functions and
# sums of sines take 0.3 to 0.95 of the time (one core of a Xeon, family 6 model 167), but for a few: 1.05 to 1.2
MOST_COLUMNS = 128  # numbers of a row: longer ones fill the lanes themselves
LEAST_WIDE = 1 << 15  # elements of all rows
LANE_WORK = 4  # operations for each
LANE_CACHE = 1 << 17  # bytes of one value in a strip


def in_strips(graph: Graph) -> tuple[Graph, list[str | Reason]]:
    """(*graph* with what it does for the rows of one axis as a loop over strips, or itself; what was decided)"""
    kinds = Counter(node.prim.kind for node in graph.nodes)
    if kinds[LOOP] or max(kinds[PRODUCT], kinds[REDUCE]) < 2:
        return graph, []
    leading = list(_leading(graph))
    if not leading:
        return graph, []
    classes = EqualAxes(graph, {})
    splits = [RowSplit(graph, classes, root) for root in _most_used(graph, classes, leading)]
    for split in splits:
        split.run()
    notes: list[str | Reason] = []
    for heuristic in (worth_it, worth_lanes):
        plans = [(split, heuristic(split)) for split in splits]
        notes += [plan for _, plan in plans if isinstance(plan, Reason)]
        found = [(split, plan) for split, plan in plans if isinstance(plan, _StripPlan)]
        if found:
            split, plan = max(found, key=lambda item: item[1].saved)
            return _InStrips(graph, split, plan).run(), [str(plan)]
    return graph, notes


def _leading(graph: Graph) -> Iterator[Place]:
    """The leading axes of operands that are long enough."""
    for v in (*graph.inputs, *[v for v, _ in graph.consts]):
        for axis, n in enumerate(v.shape):
            if n >= 2 * FEWEST:
                yield v, axis
            if n != 1:
                break


def _most_used(graph: Graph, classes: EqualAxes, axes: Sequence[Place]) -> list[Any]:
    """The classes of *axes* that most products have, or else most reductions."""
    found = {classes.find(place): (0, 0) for place in axes}
    for node in graph.nodes:
        if node.prim.kind in (PRODUCT, REDUCE):
            places = [(x, a) for x in (node.out, *node.inputs) if isinstance(x, Var) for a in range(x.ndim)]
            for root in {classes.find(place) for place in places} & found.keys():
                products, reductions = found[root]
                product = node.prim.kind == PRODUCT
                found[root] = products + product, reductions + (not product)
    return sorted(found, key=found.__getitem__, reverse=True)[:TRIED]


# ---- what is worth it -----------------------------------------------------------------------------------------------


class _StripPlan(NamedTuple):
    """*chunks* x *strips* x *rows* of the *n* rows, and the rest of them; *saved*: bytes that need not be stored,
    or need no work across lanes; *body*: how values are laid out."""

    n: int
    rows: int
    strips: int
    chunks: int
    saved: int
    body: type[StripBody]

    def __str__(self) -> str:
        where = "each of which stays in cache" if self.body is StripBody else "which are in the lanes of vectors"
        return f"an axis of {self.n} is taken in strips of {self.rows} rows, {where}"


def worth_it(split: RowSplit) -> _StripPlan | Reason | None:
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
    return _plan(split, STRIP // max(row_bytes, 1), saved, StripBody)


def worth_lanes(split: RowSplit) -> _StripPlan | Reason | None:
    """Strips with rows in the lanes, or the reason why there are none; None where nothing would be gained.

    What is gained are reductions across lanes, and rests of rows.  It costs transposing what has rows already.
    """
    n = size_of(split.root)
    work = columns = wide = 0
    for node in split.nodes:
        if node.prim.kind == PRODUCT:
            return None
        size = node.out.aval.size // n if node.out in split.within else 0
        if node.prim.kind == ELEMENTWISE:
            work += node.prim.cost * size
        elif node.prim.kind == REDUCE and size:
            elements = node.inputs[0].aval.size // n
            if elements // size > STATIC_LIMIT:  # others are written out, with rows in the lanes
                columns, wide = max(columns, elements // size), max(wide, elements)
    moved = sum(x.aval.size // n for x in {*split.kept, *split.operands()[0]})
    if not 0 < columns <= MOST_COLUMNS or work < LANE_WORK * wide or moved * 4 > wide:
        return None
    if n < 2 * FEWEST or n * wide < LEAST_WIDE:
        return Refusal.STRIP_SMALL(count=n, size=8 * n * wide)
    return _plan(split, LANE_CACHE // (8 * wide), 8 * n * wide, RowsLastBody)


def _plan(split: RowSplit, most: int, saved: int, body: type[StripBody]) -> _StripPlan:
    """The strips of *split*, of at most so many rows."""
    n, parts = size_of(split.root), sum(x.aval.nbytes for x in split.parts)
    most_chunks = max(1, min(CHUNKS, STACKED // max(parts, 1)))
    rows, chunks = _borders(n, max(FEWEST, min(MOST, most, n // 2)), most_chunks)
    return _StripPlan(n, rows, n // rows // chunks, chunks, saved, body)


def _borders(n: int, most: int, most_chunks: int) -> tuple[int, int]:
    """(rows of a strip, at most *most* of the *n*; chunks of as many strips each): if possible none is left over, rows
    are eights, and there are chunks enough."""

    def chunks(rows: int) -> int:
        strips = n // rows
        return next(c for c in range(min(most_chunks, strips), 0, -1) if strips % c == 0)

    wanted = sorted(range(max(FEWEST, most // 2), most + 1), key=lambda rows: (n % rows != 0, rows % 8 != 0, -rows))
    found = next((rows for rows in wanted if 2 * chunks(rows) >= min(ENOUGH, most_chunks, n // rows)), wanted[0])
    return found, chunks(found)


def _factor(split: RowSplit, node: Node) -> int:
    """Elements of the factor that the product *node* has in common for all rows, or of a total."""
    if node.out in split.totals:
        return node.out.aval.size
    return max([x.aval.size for x in node.inputs if not split.along(x)], default=0)


# ---- the rewriting -----------------------------------------------------------------------------------------------


class _InStrips:
    """The graph with a loop over strips."""

    def __init__(self, graph: Graph, split: RowSplit, plan: _StripPlan):
        self.graph, self.split, self.plan = graph, split, plan
        self.builder = Builder()
        self.renamed: dict[Var, Atom] = {}
        self.rows, self.whole = split.operands()

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
        strip = self.plan.body(self.split, values, length)
        for node in self.split.nodes:
            current_builder().site_override = node.site
            strip.add(node)
        return [*[values[v] for v in self.split.parts], *[strip.leading(v) for v in self.split.kept]]

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
        result: Atom = MERGES[self.split.totals[v].prim.name](x, y)
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
