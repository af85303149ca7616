"""Loops of many rows at once: one loop, whose carries have the rows of the batch.

Which carries differ from row to row, and how their rows lie in memory, says ``batched_carries.py``.

A loop is *ragged* where the rows take different numbers of steps: the number of steps differs, or the answer that ends
it.  It then runs until the last row has ended, and a row that has ended keeps its carries (``select``).  A branch is a
loop of at most one step; one that computes little is done for all rows without a loop, and ``select`` chooses.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...tracer.ir.aval import BOOL, INT, Aval
from ...tracer.ir.graph import Atom, Builder, Graph, Lit, Node, Var, building, current_builder, live_nodes, structural
from ...tracer.ir.primitive import ELEMENTWISE, HOST, LOOP, REDUCE, VIEW
from ...tracer.ops.control import LoopView, before_consts, before_rows, loop, loop_view, split_body
from ...tracer.ops.elementwise import F, cast
from ...tracer.ops.reduce import reduce
from ...tracer.ops.shape import full, reshape, zeros
from .batched_carries import RowSpread, first, indexed, row_spread, second
from .batched_rows import StackedRows, behind, in_front, rows_var

_NUMBER = Aval(INT, ())
_INLINED = (ELEMENTWISE, VIEW, REDUCE)  # kinds of which a branch may be that all rows compute


def loop_rows(node: Node, rows: StackedRows) -> Sequence[Atom | None]:
    """The rows of the results of the loop *node*."""
    view = loop_view(node)
    spread = row_spread(node, rows.differ(node.inputs))
    if _is_branch(node) and spread.ragged:
        return _both(view, spread, rows)
    return _RowLoop(node, view, spread, rows).results()


def _is_branch(node: Node) -> bool:
    """Whether *node* is a branch that computes little, and can't fail to end."""
    params = node.params
    counted = params["length"] == 1 and before_consts(params) and not params.get("stops")
    return bool(counted) and all(n.prim.kind in _INLINED for n in params["body"].nodes)


def _both(view: LoopView, spread: RowSpread, rows: StackedRows) -> list[Atom | None]:
    """The results of a branch that some rows take: it is computed for all."""
    assert view.steps is not None
    taken = F.gt(rows.whole(view.steps), structural(0, INT))
    stacked, same = {}, {}
    for var, operand in zip(view.body.inputs, (*view.outer.consts, *view.outer.carries, *view.outer.xs), strict=True):
        whole = rows.of(operand)
        if whole is None:
            same[var] = reshape(rows.one(operand), var.aval.shape)
        else:
            stacked[var] = reshape(whole, (rows.size, *var.aval.shape))
    inside = rows.within(stacked, same, rows.alive)
    inside.enter(view.body.nodes, anew=True)
    found: list[Atom | None] = []
    for var, out, end, start in zip(view.inner.carries, view.finals, view.ends, view.outer.carries, strict=True):
        if var in spread.values:
            found.append(_where(taken, inside.whole(end), rows.whole(start)))
        else:  # it stays what it was
            rows.same[out] = rows.one(start)
            found.append(None)
    ys = [_where(taken, inside.whole(row), None) for row in view.rows]
    return [*found, *[reshape(y, (rows.size, 1, *y.aval.shape[1:])) for y in ys]]


def _where(chosen: Atom, x: Atom, other: Atom | None) -> Atom:
    """The rows of *x* that are *chosen*, else those of *other*, or zeros."""
    rest: Atom = structural(0, x.aval.dtype) if other is None else other
    return x if x is other else F.select(behind(chosen, x.aval.shape), x, rest)


# ---- a loop --------------------------------------------------------------------------------------------------------


class _Turns:
    """The rows of a ragged loop that take part in a step, by consts and carries of its own: pairs of the value in the
    body and the operand."""

    def __init__(self, node: Node, view: LoopView, rows: StackedRows) -> None:
        n, length, self.reverse = rows.size, node.params["length"], node.params["reverse"]
        self.steps = None if view.steps is None else rows.one(view.steps)
        self.consts: list[tuple[Var, Atom]] = []
        self.carries: list[tuple[Var, Atom]] = []
        self.number, self.alive, self.count = Var(_NUMBER), Var(Aval(BOOL, (n,))), Var(Aval(INT, (n,)))
        self.counted = view.steps is not None and rows.of(view.steps) is not None
        self.stops = view.go_on is not None
        if self.counted:
            assert view.steps is not None
            limits = rows.whole(view.steps)
            if rows.alive is not None:
                limits = F.select(rows.alive, limits, structural(0, INT))
            self.steps = reduce("max", limits, (0,)) if n else structural(0, INT)
            self.consts.append((self.count, limits))
            first = F.sub(F.minimum(self.steps, Lit(length, INT)), 1) if self.reverse else structural(0, INT)
            self.carries.append((self.number, first))
        if self.stops:
            self.taken = Var(Aval(INT, (n,)))
            everyone = full(structural(True, BOOL), (n,)) if rows.alive is None else rows.alive
            self.carries += [(self.alive, everyone), (self.taken, zeros((n,), INT))]

    def now(self, inside: StackedRows, go_on: Atom | None) -> Atom:
        """Whether each row takes part."""
        asked: list[Atom] = []
        if self.stops:
            assert go_on is not None
            asked += [self.alive, inside.whole(go_on)]
        if self.counted:
            asked.append(F.lt(in_front(self.number, inside.size), self.count))
        return functools.reduce(F.logical_and, asked)

    def ends(self, now: Atom) -> list[Atom]:
        """The carries after a step, in which the rows *now* take part."""
        found: list[Atom] = []
        if self.counted:
            found.append(F.sub(self.number, 1) if self.reverse else F.add(self.number, 1))
        return [*found, now, F.add(self.taken, cast(now, INT))] if self.stops else found


class _RowLoop:
    """The loop *node* for all rows.  ``shapes``: of values that are indexed, which lie in another order of axes.
    ``consts`` and ``carries``: pairs, beside those of *node*, of the value in the body and the operand."""

    def __init__(self, node: Node, view: LoopView, spread: RowSpread, rows: StackedRows) -> None:
        self.node, self.view, self.spread, self.rows = node, view, spread, rows
        differ = spread.values
        self.shapes = {v: shape for v, shape in indexed(view).items() if v in differ}
        self.inputs = {v: rows_var(v, rows.size) if v in differ else Var(v.aval) for v in view.body.inputs}
        self.inputs.update((v, Var(Aval(v.dtype, (m, rows.size, *rest)))) for v, (m, *rest) in self.shapes.items())
        self.stops = view.go_on is not None
        self.turns = turns = _Turns(node, view, rows) if spread.ragged else None
        self.consts, self.carries = ([], []) if turns is None else (turns.consts, turns.carries)
        self.alive: Var | None = turns.alive if turns is not None and self.stops else None
        if turns is None and rows.alive is not None and any(n.prim.kind in (LOOP, HOST) for n in view.body.nodes):
            self.alive = Var(rows.alive.aval)
            self.consts.append((self.alive, rows.alive))
        self.steps = turns.steps if turns is not None else None if view.steps is None else rows.one(view.steps)

    def _body(self) -> tuple[Builder, list[Atom]]:
        """(a body under construction, its results)."""
        view, turns, differ, shapes = self.view, self.turns, self.spread.values, self.shapes
        asking, working = split_body(view.body) if self.stops else ([], view.body.nodes)
        with building(Builder()) as builder:
            builder.notes = current_builder().notes
            whole = {v: first(x, v.shape) if v in shapes else x for v, x in self.inputs.items() if v in differ}
            same = {v: x for v, x in self.inputs.items() if v not in differ}
            inside = self.rows.within(whole, same, self.alive, second=True)
            inside.enter(asking, anew=True)
            outputs: list[Atom] = []
            now: Atom | None = None
            if turns is not None:
                now = inside.alive = turns.now(inside, view.go_on)
                outputs += [*[reduce("any", now, (0,))] * self.stops, *turns.ends(now)]
            elif view.go_on is not None:
                outputs.append(inside.one(view.go_on))
            inside.enter(working, anew=True)

            def result(value: Atom, differs: bool, otherwise: Atom | None) -> Atom:
                x = inside.whole(value) if differs else inside.one(value)
                return x if now is None or not differs else _where(now, x, otherwise)

            for v, end in zip(view.inner.carries, view.ends, strict=True):
                x = result(end, v in differ, whole.get(v))
                outputs.append(second(x, shapes[v]) if v in shapes else x)
            different = self.spread.outs[before_rows(self.node.params) :]
            outputs += [result(row, differs, None) for row, differs in zip(view.rows, different, strict=True)]
        return builder, outputs

    def _operands(self, own: Sequence[tuple[Var, Atom]], values: Sequence[Var], operands: Sequence[Atom]) -> list[Atom]:
        """Those of the pairs that the loop has of its *own*, then *operands*, in whose places the body has *values*."""
        return [*[x for _, x in own], *map(self._operand, values, operands)]

    def _operand(self, v: Var, x: Atom) -> Atom:
        if v not in self.spread.values:
            return self.rows.one(x)
        shape = x.aval.shape if v in self.view.inner.xs else self.shapes.get(v)
        return self.rows.whole(x) if shape is None else second(self.rows.whole(x), shape)

    def results(self) -> list[Atom | None]:
        """The rows of the results of the node; those of results that are the same in all rows are noted."""
        node, rows, turns, (inner, outer) = self.node, self.rows, self.turns, (self.view.inner, self.view.outer)
        builder, outputs = self._body()
        order = [v for v, _ in self.consts] + [self.inputs[v] for v in inner.consts]
        order += [v for v, _ in self.carries] + [self.inputs[v] for v in (*inner.carries, *inner.xs)]
        found = loop(
            Graph(order, live_nodes(builder.nodes, outputs), outputs),
            self._operands(self.consts, inner.consts, outer.consts),
            self._operands(self.carries, inner.carries, outer.carries), self._operands((), inner.xs, outer.xs),
            node.params["length"], node.params["reverse"], steps=self.steps, stops=self.stops,
        )  # fmt: skip
        own, count = len(self.carries), len(self.view.finals)
        finals, rest = found[own : own + count], found[own + count :]
        ran = [found[own - 1] if turns is not None else rest[0]] if self.stops else []
        indexed_ends = [out for v, out in zip(inner.carries, self.view.finals, strict=True) if v in self.shapes]
        turned = {*self.view.stacked, *indexed_ends}
        given: list[Atom | None] = []
        for out, x, differs in zip(node.outs, [*finals, *ran, *rest[self.stops :]], self.spread.outs, strict=False):
            if not differs:
                rows.same[out] = x
            given.append((first(x, out.shape) if out in turned else x) if differs else None)
        return given
