"""Batched loops: one loop for all rows, whatever differs from row to row, also the number of steps.

Every loop is run for each choice of the operands that differ, and judged by one run for each row; so are its
derivatives, and random programs of loops within loops and branches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from batched import batched, judge, row_by_row, stacked
from support import F64, I64, assert_close, evaluate, make_graph, random_like, vjp_graph

from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.codegen.schedule.in_place import carries_in_place
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import Atom, Builder, Graph, Node, Var, bind, building, structural
from tracegrad.tracer.ir.primitive import LOOP
from tracegrad.tracer.ops.control import UNLIMITED, loop
from tracegrad.tracer.ops.elementwise import F, broadcast_to, cast
from tracegrad.tracer.ops.host_call import HostFunction, host_call
from tracegrad.tracer.ops.indexing import SCATTER_ADD, SCATTER_SET, gather
from tracegrad.tracer.ops.product import contract_last
from tracegrad.tracer.ops.reduce import reduce
from tracegrad.tracer.ops.shape import iota, reshape, slice_axis

ROWS = 4
NUMBER, VECTOR, COUNT = Aval(F64, ()), Aval(F64, (3,)), Aval(I64, ())


def body(avals: list[Aval], step: Callable[..., Any]) -> Graph:
    inputs = [Var(a) for a in avals]
    with building(Builder()) as builder:
        outs = step(*inputs)
    return Graph(inputs, builder.nodes, list(outs))


def step(c: Any, x: Any, t: Any, row: Any) -> tuple[Any, ...]:
    return F.sin(x * c) + row, t + 0.5, x * row, t * 2.0


def scan(reverse: bool, counted: bool) -> Callable[..., Any]:
    def program(*operands: Any) -> Any:
        steps, c, x, t, xs = operands if counted else (None, *operands)
        made = body([VECTOR, VECTOR, NUMBER, VECTOR], step)
        return loop(made, [c], [x, t], [xs], 5, reverse, steps=steps)

    return program


def stopping(limit: Any, x: Any, k: Any, xs: Any) -> Any:
    """A condition that also reads a row: it may hold again after it did not."""
    made = body(
        [NUMBER, NUMBER, NUMBER, NUMBER],
        lambda limit, x, k, row: (F.lt(x * row, limit), x * 1.5 + row * row, k + 1.0, x * k),
    )
    return loop(made, [limit], [x, k], [xs], 6, stops=True)


def unlimited(limit: Any, x: Any, k: Any) -> Any:
    made = body([NUMBER] * 3, lambda limit, x, k: (F.lt(x, limit), x * 2.0, k + x))
    return loop(made, [limit], [x, k], [], UNLIMITED, stops=True)


def counted_too(steps: Any, limit: Any, x: Any, xs: Any) -> Any:
    made = body([NUMBER] * 3, lambda limit, x, row: (F.lt(x, limit), x * 2.0 + row * row, x))
    return loop(made, [limit], [x], [xs], 6, steps=steps, stops=True)


def nested(steps: Any, limit: Any, x: Any, xs: Any) -> Any:
    inner = body([NUMBER] * 3, lambda limit, x, k: (F.lt(x, limit), x * 2.0, k + 1.0))

    def outer(limit: Any, x: Any, row: Any) -> Any:
        y, k, turns = loop(inner, [limit], [x, structural(0)], [], UNLIMITED, stops=True)
        return y * 0.1 + row * row, k, turns

    return loop(body([NUMBER] * 3, outer), [limit], [x], [xs], 5, steps=steps)


def branch(steps: Any, c: Any, x: Any) -> Any:
    """The two arms of a choice, of which the second keeps the result of the first."""
    one = body([VECTOR, VECTOR], lambda c, x: (F.sin(x * c),))
    (y,) = loop(one, [c], [x], [], 1, steps=steps)
    two = body([VECTOR, VECTOR], lambda c, y: (broadcast_to(reduce("sum", y * c, (0,)), (3,)),))
    return loop(two, [c], [y], [], 1, steps=F.sub(1, steps))


def exchange(x: Any, y: Any, z: Any) -> Any:
    """What differs in one carry comes into the next, a step later; one stays what it is."""
    made = body([NUMBER] * 3, lambda x, y, z: (y + 1.0, x * 2.0, z))
    return loop(made, [], [x, y, z], [], 3)


def indexed(u: Any, table: Any, at: Any, x: Any) -> Any:
    """Elements are read of a carry and of a const, and written to the carry, which an inner loop adds to."""
    flat = Aval(F64, (10,))
    add = body([Aval(I64, (2,)), flat], lambda at, u: (bind(SCATTER_ADD, u, at, gather(u, at)),))

    def step(table: Any, u: Any, at: Any, x: Any) -> Any:
        flat = reshape(u, (10,))
        found = gather(flat, at) * x + gather(table, at)
        flat = bind(SCATTER_SET, flat, at, found)
        (flat,) = loop(add, [slice_axis(at, 0, 0, 2)], [flat], [], 2)
        return reshape(flat, (5, 2)), gather(flat, at)

    made = body([flat, Aval(F64, (5, 2)), Aval(I64, (3,)), NUMBER], step)
    return loop(made, [table], [u], [at, x], 4)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def draws(*avals: Aval) -> list[list[Any]]:
    return [random_like(avals, rng(k)) for k in range(ROWS)]


SCAN = [VECTOR, VECTOR, NUMBER, Aval(F64, (5, 3))]
SIX = Aval(F64, (6,))
INDEXED = [Aval(F64, (5, 2)), Aval(F64, (10,)), Aval(I64, (4, 3)), Aval(F64, (4,))]
LIMITS = [np.array(x) for x in (0.0, 3.0, 20.0, 1e9)]
STEPS = [np.array(n) for n in (0, 3, 5, 7)]
LOOPS: dict[str, tuple[Callable[..., Any], list[Aval], list[list[Any]]]] = {
    "scan": (scan(False, False), SCAN, draws(*SCAN)),
    "backward": (scan(True, False), SCAN, draws(*SCAN)),
    "counted": (scan(False, True), [COUNT, *SCAN], [[n, *xs] for n, xs in zip(STEPS, draws(*SCAN), strict=True)]),
    "counted backward": (
        scan(True, True), [COUNT, *SCAN], [[n, *xs] for n, xs in zip(STEPS, draws(*SCAN), strict=True)]),
    "stopping": (
        stopping, [NUMBER, NUMBER, NUMBER, SIX],
        [[x, 1 + x / 10, *xs] for x, xs in zip(LIMITS, draws(NUMBER, SIX), strict=True)]),
    "unlimited": (unlimited, [NUMBER] * 3, [[x, 1 + x / 10, *xs] for x, xs in zip(LIMITS, draws(NUMBER), strict=True)]),
    "counted and stopping": (
        counted_too, [COUNT, NUMBER, NUMBER, SIX],
        [[n, x, 1 + x / 10, *xs] for n, x, xs in zip(STEPS, LIMITS, draws(SIX), strict=True)]),
    "nested": (
        nested, [COUNT, NUMBER, NUMBER, Aval(F64, (5,))],
        [[n, x / 1e3, 1 + x / 1e9, *xs] for n, x, xs in zip(STEPS, LIMITS, draws(Aval(F64, (5,))), strict=True)]),
    "branch": (branch, [COUNT, VECTOR, VECTOR], [[np.array(k % 2), *xs] for k, xs in enumerate(draws(VECTOR, VECTOR))]),
    "exchange": (exchange, [NUMBER] * 3, draws(NUMBER, NUMBER, NUMBER)),
    "indexed": (
        indexed, INDEXED,
        [[u, table, rng(k).integers(0, 5, (4, 3)), x]
         for k, (u, table, x) in enumerate(draws(INDEXED[0], INDEXED[1], INDEXED[3]))]),
}  # fmt: skip


def choices(count: int) -> list[tuple[bool, ...]]:
    return [which for which in itertools.product([True, False], repeat=count) if any(which)]


def loops_of(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.prim.kind == LOOP]


@pytest.mark.parametrize("name", LOOPS)
def test_one_loop_for_all_rows(name: str) -> None:
    program, avals, values = LOOPS[name]
    graph = make_graph(avals, program)
    for which in choices(len(avals)):
        judge(graph, values, which, rtol=1e-12)
        assert len(loops_of(batched(graph, which, ROWS))) <= len(loops_of(graph))


@pytest.mark.slow
def test_loops_in_kernels(kernel: Any) -> None:
    inputs, nodes, outputs = [], [], []
    given, expected = [], []
    for program, avals, values in LOOPS.values():
        graph = make_graph(avals, program)
        for which in ((True,) * len(avals), (False,) * (len(avals) - 1) + (True,)):
            many = batched(graph, which, ROWS)
            inputs, nodes, outputs = inputs + many.inputs, nodes + many.nodes, outputs + many.outputs
            given += stacked(values, which)
            expected += row_by_row(graph, values, which)
    for ours, theirs in zip(kernel(Graph(inputs, nodes, outputs), given), expected, strict=True):
        assert_close(np.broadcast_to(ours, theirs.shape), theirs, 1e-12, 1e-12)


@pytest.mark.parametrize("name", [name for name in LOOPS if "unlimited" not in name and "nested" not in name])
def test_derivatives_of_loops(name: str) -> None:
    program, avals, values = LOOPS[name]

    def total(*operands: Any) -> Atom:
        outs = [x for x in program(*operands) if x.aval.is_float]
        sums = [reduce("sum", F.sin(x), tuple(range(x.aval.ndim))) for x in outs]
        found = sums[0]
        for more in sums[1:]:
            found = F.add(found, more)
        return found

    graph = make_graph(avals, total)
    row, which = vjp_graph(graph), (True,) * (len(avals) + 1)
    points = [[*xs, np.array(0.5 + k)] for k, xs in enumerate(values)]
    expected = row_by_row(row, points, which)
    judge(row, points, which, rtol=1e-10, atol=1e-10)
    judge(row, points, (*[False] * len(avals), True), rtol=1e-10, atol=1e-10)  # a Jacobian
    found = evaluate(vjp_graph(batched(graph, which[:-1], ROWS)), stacked(points, which))
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, 1e-10, 1e-10)


def test_what_is_the_same_in_all_rows_stays_so() -> None:
    """The time of an integration is carried once, and so is what depends on it alone."""
    graph = make_graph(SCAN, scan(False, False))
    (node,) = loops_of(batched(graph, (False, True, False, False), ROWS))
    assert [out.aval.shape for out in node.outs] == [(4, 3), (), (5, 4, 3), (5,)]
    graph = make_graph([NUMBER] * 3, exchange)
    (node,) = loops_of(batched(graph, (True, False, False), ROWS))
    assert [out.aval.shape for out in node.outs] == [(4,), (4,), ()]


def test_a_loop_that_ends_in_no_row_that_is_not_chosen_ends() -> None:
    """Halving infinity never ends; the rows of which that is so are in no branch that is taken."""
    halve = body([NUMBER], lambda x: (F.gt(x, structural(0.5)), x * 0.5))
    arm = body([NUMBER], lambda x: loop(halve, [], [x], [], UNLIMITED, stops=True)[:1])
    graph = make_graph([COUNT, NUMBER], lambda taken, x: loop(arm, [], [x], [], 1, steps=taken))
    judge(graph, [[np.array(n), np.array(x)] for n, x in ((1, 3.0), (0, np.inf), (1, 7.0), (0, np.inf))], (True, True))


def test_python_is_not_called_for_rows_that_have_ended(run: Any) -> None:
    calls: list[float] = []

    def halved(x: np.ndarray) -> Any:
        assert x > 1
        calls.append(float(x))
        return np.array(x / 2)

    made = HostFunction(halved, [NUMBER], "halved")
    halve = body([NUMBER], lambda x: (F.gt(x, structural(1.0)), *host_call(made, [x], relied=False)))
    graph = make_graph([NUMBER], lambda x: loop(halve, [], [x], [], UNLIMITED, stops=True))
    values = [[np.array(x)] for x in (3.0, 0.5, 7.0, 1.5)]
    judge(graph, values, (True,), run)
    assert len(calls) == 2 * (2 + 0 + 3 + 1)


def test_products_in_a_loop_become_one_product(kernel: Any) -> None:
    square, vector = Aval(F64, (12, 12)), Aval(F64, (12,))
    made = body([square, vector], lambda w, x: (F.tanh(contract_last(w, x)),))
    graph = make_graph([square, vector], lambda w, x: loop(made, [w], [x], [], 4))
    many = batched(graph, (False, True), 9)
    (node,) = loops_of(many)
    assert [n.prim.name for n in node.params["body"].nodes].count("matmul") == 1
    values = [random_like([square, vector], rng(k)) for k in range(9)]
    judge(graph, values, (False, True), kernel, rtol=1e-11)


@pytest.mark.parametrize("own", [False, True])
def test_arrays_that_a_step_writes_to_are_written_in_place(own: bool) -> None:
    program, avals, _ = LOOPS["indexed"]
    many = batched(make_graph(avals, program), (True, True, own, True), ROWS)
    canonical = canonicalise(simplify(many))
    (op,) = [op for op in canonical.ops if op.prim.kind == LOOP]
    held = carries_in_place(op)
    (carry,) = op.params["body"].program.inputs[op.params["consts"] :][: op.params["carries"]]
    assert held.versions[carry] is carry


# ---- random programs ------------------------------------------------------------------------------------------------


class Grower:
    """A random program of vectors and numbers, with loops within loops."""

    def __init__(self, seed: int) -> None:
        self.rng = rng(seed)

    def block(self, known: list[Any], depth: int) -> list[Any]:
        known = list(known)
        for _ in range(self.rng.integers(1, 4)):
            made = self.loop(known, depth) if depth and self.rng.random() < 0.6 else [self.operation(known)]
            known += made
        return known

    def pick(self, known: list[Any]) -> Any:
        return known[int(self.rng.integers(len(known)))]

    def operation(self, known: list[Any]) -> Any:
        x, y = self.pick(known), self.pick(known)
        kind = self.rng.integers(5)
        if kind == 0:
            return F.sin(x)
        if kind == 1 and x.aval.shape:
            return reduce("sum", F.tanh(x), (0,))
        if kind == 2:
            return F.select(F.gt(x, y), x, y * 0.5)
        return F.tanh(x + y) if kind == 3 else F.tanh(x * y)

    def loop(self, known: list[Any], depth: int) -> list[Any]:
        length, kind = int(self.rng.integers(1, 4)), self.rng.integers(4)
        consts, carries = [[self.pick(known) for _ in range(self.rng.integers(1, 3))] for _ in range(2)]
        rows = [broadcast_to(x, (length, *x.aval.shape)) for x in [self.pick(known)] if self.rng.random() < 0.5]
        xs = [F.mul(x, broadcast_to(self.weights(length, x.aval.ndim), x.aval.shape)) for x in rows]
        steps = cast(F.floor(F.abs(self.number(known)) * 4.0), I64) if kind == 1 else None
        stops = kind == 2
        inputs = [Var(x.aval) for x in (*consts, *carries)] + [Var(Aval(F64, x.aval.shape[1:])) for x in xs]
        with building(Builder()) as builder:
            made = self.block(inputs, depth - 1)
            ends = [self.fitting(made, x.aval) for x in carries]
            going = [F.lt(self.number(made), structural(0.4))] if stops else []
            ys = [self.pick(made) for _ in range(self.rng.integers(0, 2))]
        graph = Graph(inputs, builder.nodes, [*going, *ends, *ys])
        backward = bool(self.rng.random() < 0.3 and not stops)
        outs = loop(graph, consts, carries, xs, length, backward, steps=steps, stops=stops)
        found = list(outs[: len(carries)])
        return found + [reduce("sum", y, (0,)) for y in outs[len(carries) + stops :]]

    def weights(self, length: int, rank: int) -> Any:
        return reshape(F.sin(iota(length, F64)), (length, *[1] * (rank - 1)))

    def number(self, known: list[Any]) -> Any:
        x = self.pick(known)
        return reduce("max", x, (0,)) if x.aval.shape else x

    def fitting(self, known: list[Any], aval: Aval) -> Any:
        x = self.pick([x for x in known if x.aval.shape in ((), aval.shape)])
        return broadcast_to(x, aval.shape) if aval.shape else self.number([x])


def grown(seed: int) -> tuple[Graph, list[list[np.ndarray]], tuple[bool, ...]]:
    avals = [VECTOR, NUMBER, VECTOR]
    graph = make_graph(avals, lambda *inputs: Grower(seed).block(list(inputs), 3)[-3:])
    which = tuple(bool(b) for b in rng(seed).random(3) < 0.6)
    return graph, draws(*avals), which if any(which) else (True, True, True)


@pytest.mark.parametrize("seed", [*range(59), 1359])
def test_random_loops(seed: int) -> None:
    graph, values, which = grown(seed)
    judge(graph, values, which, rtol=1e-10, atol=1e-10)
