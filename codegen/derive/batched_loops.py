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
    return _loop(node, view, spread, rows)


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


def _loop(node: Node, view: LoopView, spread: RowSpread, rows: StackedRows) -> list[Atom | None]:
    """The rows of the results of the loop *node*, by a loop."""
    body, params = view.body, node.params
    inputs = {v: rows_var(v, rows.size) if v in spread.values else Var(v.aval) for v in body.inputs}
    shapes = {v: shape for v, shape in indexed(view).items() if v in spread.values}
    inputs.update((v, Var(Aval(v.dtype, (m, rows.size, *rest)))) for v, (m, *rest) in shapes.items())
    turns = _Turns(node, view, rows) if spread.ragged else None
    consts, carries = ([], []) if turns is None else (turns.consts, turns.carries)
    mask: Var | None = None
    if turns is None and rows.alive is not None and any(n.prim.kind in (LOOP, HOST) for n in body.nodes):
        mask = Var(rows.alive.aval)
        consts.append((mask, rows.alive))
    steps = (None if view.steps is None else rows.one(view.steps)) if turns is None else turns.steps
    stops = view.go_on is not None
    asking, working = split_body(body) if stops else ([], body.nodes)
    now: Atom | None = None
    with building(Builder()) as builder:
        builder.notes = current_builder().notes
        whole = {v: first(x, v.shape) if v in shapes else x for v, x in inputs.items() if v in spread.values}
        inside = rows.within(
            whole,
            {v: x for v, x in inputs.items() if v not in spread.values},
            turns.alive if turns is not None and stops else mask, second=True,
        )  # fmt: skip
        inside.enter(asking, anew=True)
        outputs: list[Atom] = []
        if turns is not None:
            now = inside.alive = turns.now(inside, view.go_on)
            outputs += [*[reduce("any", now, (0,))] * stops, *turns.ends(now)]
        elif view.go_on is not None:
            outputs.append(inside.one(view.go_on))
        inside.enter(working, anew=True)

        def result(value: Atom, differs: bool, otherwise: Atom | None) -> Atom:
            x = inside.whole(value) if differs else inside.one(value)
            return x if now is None or not differs else _where(now, x, otherwise)

        for v, end in zip(view.inner.carries, view.ends, strict=True):
            x = result(end, v in spread.values, whole.get(v))
            outputs.append(second(x, shapes[v]) if v in shapes else x)
        different = spread.outs[before_rows(params) :]
        outputs += [result(row, differs, None) for row, differs in zip(view.rows, different, strict=True)]

    def outside(v: Var, x: Atom) -> Atom:
        if v not in spread.values:
            return rows.one(x)
        shape = x.aval.shape if v in steps_of else shapes.get(v)
        return rows.whole(x) if shape is None else second(rows.whole(x), shape)

    steps_of = {*view.inner.xs}
    order = [
        *[v for v, _ in consts], *[inputs[v] for v in view.inner.consts],
        *[v for v, _ in carries], *[inputs[v] for v in (*view.inner.carries, *view.inner.xs)],
    ]  # fmt: skip
    found = loop(
        Graph(order, live_nodes(builder.nodes, outputs), outputs),
        [*[x for _, x in consts], *map(outside, view.inner.consts, view.outer.consts)],
        [*[x for _, x in carries], *map(outside, view.inner.carries, view.outer.carries)],
        list(map(outside, view.inner.xs, view.outer.xs)), params["length"], params["reverse"], steps=steps, stops=stops,
    )  # fmt: skip
    own, count = len(carries), len(view.finals)
    finals, rest = found[own : own + count], found[own + count :]
    ran = [found[own - 1] if turns is not None else rest[0]] if stops else []
    results = [*finals, *ran, *rest[stops:]]
    turned = {*view.stacked, *[out for v, out in zip(view.inner.carries, view.finals, strict=True) if v in shapes]}
    given: list[Atom | None] = []
    for out, x, differs in zip(node.outs, results, spread.outs, strict=False):
        if not differs:
            rows.same[out] = x
        given.append((first(x, out.shape) if out in turned else x) if differs else None)
    return given
