"""Capacity of the residuals of a loop whose trip count depends on data.

The trip count is known in the run that is being recorded: NumPy runs the loop once.  The capacity is more than twice
that, and a guard of the kind "capacity" checks it: a call that needs more is recorded again with a larger one, and
finds the same kernel, because the length of a loop is one of its run-time arguments.

The steps of a loop in the body of another differ from one run of it to the next: the one around it carries the
greatest number so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...tracer.ir.aval import INT, Aval
from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.graph import Atom, Builder, Graph, Guard, Lit, Node, Var, building, current_builder, structural
from ...tracer.ir.primitive import LOOP
from ...tracer.ir.settings import loop_memory
from ...tracer.ops.control import CAPACITY, UNLIMITED, before_consts, loop_view
from ...tracer.ops.elementwise import F
from ...tracer.ops.reduce import reduce
from ...tracer.record.recorder import Recorder
from .batch import batch

LEAST = 1024  # steps that there is room for, where memory allows


class Need(NamedTuple):
    """Capacity that an unbounded loop needs."""

    steps: Atom  # the largest trip count
    row: int  # bytes of the carries


def give_capacity(node: Node) -> None:
    """Let the loop *node* of the recording in progress, and those in its body, have finite lengths.

    The node may grow by carries, which say how many steps the loops in its body take.  Raises UnsupportedError in the
    body of another loop.
    """
    if not unlimited(node):
        return
    recorder = current_builder()
    if not isinstance(recorder, Recorder):
        raise UnsupportedError.here(_IN_SOLVER, node.site)
    needs = _reported(node)
    if recorder.parent is not None:
        raise UnsupportedError.here(_NESTED, node.site)
    lengths = []
    for need in needs:
        length = _length(recorder, need)
        recorder.add_guard(Guard(F.lt(need.steps, Lit(length, INT)), np.True_, CAPACITY, node.site))
        lengths.append(length)
    _limit(node, iter(lengths))


def unlimited(node: Node) -> bool:
    """Whether *node* is an unbounded loop, or has one in its body."""
    if node.prim.kind != LOOP:
        return False
    return node.params["length"] == UNLIMITED or any(unlimited(n) for n in node.params["body"].nodes)


def _reported(node: Node) -> list[Need]:
    """Needs of the loop *node* and those in its body, as values outside of it; *node* gets carries that count them."""
    view = loop_view(node)
    needs: list[Need] = []
    carries: list[Var] = []
    found: list[Var] = []
    ends: list[Atom] = []
    with building(Builder()) as builder:
        for within in view.body.nodes:
            if not unlimited(within):
                builder.append(within)
                continue
            copy = Node(within.prim, within.inputs, within.params, within.outs, within.site)
            builder.append(copy)
            for need in _reported(copy):
                most = Var(Aval(INT, ()))
                carries.append(most)
                ends.append(F.maximum(most, need.steps))
                found.append(Var(Aval(INT, ())))
                needs.append(Need(found[-1], need.row))
    if carries:
        lead, inner, outer = before_consts(node.params), view.inner, view.outer
        asked = [] if view.go_on is None else [view.go_on]
        body = Graph(
            [*inner.consts, *inner.carries, *carries, *inner.xs], builder.nodes,
            [*asked, *view.ends, *ends, *view.rows],
        )  # fmt: skip
        node.params = {**node.params, "body": body, "carries": len(view.finals) + len(carries)}
        starts = [structural(0, INT)] * len(carries)
        node.inputs = (*node.inputs[:lead], *outer.consts, *outer.carries, *starts, *outer.xs)
        node.outs = (*view.finals, *found, *node.outs[len(view.finals) :])
        current_builder().claim(found)
    if node.params["length"] == UNLIMITED:
        count = loop_view(node).ran
        assert count is not None
        needs.append(Need(count, sum(v.aval.nbytes for v in view.inner.carries)))
    return needs


def _limit(node: Node, lengths: Iterator[int]) -> None:
    """Give *node* and the loops in its body their *lengths*, in the order of ``_reported``."""
    body = node.params["body"]
    for inner in body.nodes:
        if unlimited(inner):  # made by _reported: nobody else has it
            _limit(inner, lengths)
    if node.params["length"] == UNLIMITED:
        node.params = {**node.params, "length": next(lengths)}


def _length(recorder: Recorder, need: Need) -> int:
    """Room for the steps of this run."""
    length = capacity(_most(recorder, need.steps), need.row)
    recorder.capacities.append(length)
    return length


def _most(recorder: Recorder, steps: Atom) -> int:
    """The most *steps* in this run: of all rows of a batch."""
    for rows in filter(None, reversed(recorder.stand_ins.rows)):
        size = next(iter(rows.values())).aval.shape[0]
        found = batch(recorder.nodes, rows, size).get(steps) if isinstance(steps, Var) and size else None
        steps = steps if found is None else reduce("max", found, (0,))
    return int(recorder.value(steps))


def capacity(steps: int, row: int) -> int:
    """Room for *steps* steps and as many again, of *row* bytes each, within the budget; for one more at least."""
    wanted = max(LEAST, 1 << max(2 * steps - 1, 0).bit_length())
    return max(steps + 1, min(wanted, loop_memory.budget // max(row, 1)))


_IN_SOLVER = (
    "the gradient of a while_loop may not be taken in a function that is given to a solver within the function of "
    "another; write fori_loop or scan with a fixed number of steps"
)
_NESTED = (
    "this takes the gradient of a while_loop inside the body of another loop or a branch, where the number of its "
    "steps is not known while the body is recorded; take the gradient of the whole outside, or write the inner loop "
    "as tracegrad.scan over a fixed length, choosing with np.where"
)
