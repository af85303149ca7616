"""Results that are written part by part: where they are, where they are not, and that the numbers are right."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_graph import CompiledGraph, compile_graph

from tracegrad import compile_grad
from tracegrad.codegen.evaluate.interpreter import evaluate
from tracegrad.codegen.schedule.loop_tree import Loop
from tracegrad.tracer.ir.graph import Graph, bind, structural
from tracegrad.tracer.ir.primitive import PRIMITIVES
from tracegrad.tracer.ops import reduce
from tracegrad.tracer.ops.elementwise import F
from tracegrad.tracer.ops.shape import concat, reshape, zeros
from tracegrad.tracer.record.recorder import Recorder, recording

RNG = np.random.default_rng(0)


def program(fn, *arrays) -> Graph:
    recorder = Recorder()
    with recording(recorder):
        found = fn(*[recorder.add_input(a, f"a{k}") for k, a in enumerate(arrays)])
        return recorder.finish([*found])


def compiled(fn, *arrays) -> CompiledGraph:
    """Compiled, run, and compared with the interpreter bit for bit but for what sums."""
    graph = program(fn, *arrays)
    result = compile_graph(graph)
    for ours, theirs in zip(result.run(arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14, atol=0)
    return result


def columns(x, count, shift=0.0):
    """Unlike functions of *x*, each a column."""
    functions = [F.sin, F.cos, F.exp, F.tanh, F.square, F.sqrt, F.log, F.neg]
    found = []
    for k in range(count):
        value = functions[k % len(functions)](F.add(x, structural(shift + 1.0)))
        for _ in range(k // len(functions)):
            value = F.mul(value, x)
        found.append(reshape(value, (*x.shape, 1)))
    return found


X, Y = RNG.uniform(0.5, 1.5, 203), RNG.uniform(0.5, 1.5, (203, 20))
A, B = RNG.standard_normal((40, 30)), RNG.standard_normal((30, 25))

PROGRAMS = {
    "columns": (lambda x: [concat(columns(x, 28), 1)], [X]),
    "columns in a row": (lambda x: [concat([reshape(concat(columns(x, 5), 1), (1015,)), x], 0)], [X]),
    "runs of runs": (
        lambda x: [concat([concat([x, F.sin(x)], 0), reshape(concat(columns(x, 3), 1), (609,)), F.cos(x)], 0)],
        [X],
    ),
    "one part twice": (lambda x: [concat([x, F.sin(x), x, F.sin(x)], 0)], [X]),
    "a part that is read": (lambda x: [concat([y := F.sin(x), F.exp(y)], 0), F.square(y)], [X]),
    "two results": (lambda x: [concat(columns(x, 3), 1), concat(columns(x, 4), 1)], [X]),
    "blocks": (lambda x, y: [concat([F.sin(y), y, F.mul(y, y)], 1)], [X, Y]),
    "a block and columns": (lambda x, y: [concat([F.sin(y), *columns(x, 2)], 1)], [X, Y]),
    "sums": (lambda y: [concat([reduce.reduce("sum", y, (0,)), reduce.reduce("max", y, (1,))], 0)], [Y]),
    "a product": (lambda a, b: [concat([bind(PRIMITIVES["matmul"], a, b, ta=False, tb=False), F.sin(a)], 1)], [A, B]),
    "numbers": (lambda x: [concat([zeros((3,), x.dtype), x, reshape(reduce.reduce("sum", x, (0,)), (1,))], 0)], [X]),
    "the middle axis": (
        lambda y: [concat([reshape(v, (203, 1, 20)) for v in (F.sin(y), y, F.cos(y))], 1)],
        [Y],
    ),
    "float32": (lambda x: [concat([reshape(F.sqrt(x), (203, 1)), reshape(x, (203, 1))], 1)], [X.astype(np.float32)]),
    "truth": (lambda x: [concat([F.gt(x, structural(1.0)), F.lt(x, structural(1.0))], 0)], [X]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    fn, arrays = PROGRAMS[name]
    result = compiled(fn, *arrays)
    apart = name in ("a block and columns",)  # rows of a length that is not known, with single columns in them
    assert bool(result.program.schedule.windows) != apart


def test_columns_are_written_by_the_loop_that_computes_them():
    schedule = compiled(*PROGRAMS["columns in a row"][:1], X).program.schedule
    assert len(schedule.body) == 1
    assert isinstance(schedule.body[0], Loop)
    assert len(schedule.windows) == 6


def test_other_sizes_find_the_same_kernel():
    def of(n):
        x = RNG.uniform(0.5, 1.5, n)
        graph = program(lambda v: [concat([reshape(concat(columns(v, 5), 1), (5 * n,)), v], 0)], x)
        return compile_graph(graph), graph, x

    first, _, _ = of(203)
    for n in (17, 64, 65, 1000):
        other, graph, x = of(n)
        assert other.canonical.key == first.canonical.key
        for ours, theirs in zip(other.run([x]), evaluate(graph, [x]), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-14)


def test_columns_that_many_loops_would_write_are_put_together_in_one():
    def fn(y):
        parts = []
        for _ in range(4):  # each needs the sum of the one before
            y = F.add(F.sin(y), reshape(reduce.reduce("sum", y, (0,)), (1,)))
            parts.append(reshape(y, (203, 1)))
        return [concat(parts, 1)]

    assert not compiled(fn, X).program.schedule.windows


def test_small_results_are_left_as_they_are():
    def fn(y):
        return [concat([reshape(reduce.reduce(kind, y, (0, 1)), (1,)) for kind in ("sum", "max")], 0)]

    assert not compiled(fn, Y).program.schedule.windows


def of_two_paths(x, limit):
    y = np.sin(x)
    total = np.sum(np.exp(y) * y)
    parts = np.concatenate([y * total, np.exp(y) / total])
    return parts if total > limit else np.concatenate([y * total, -y])


def test_paths_that_share_steps():
    """Steps that leave parts of a result behind are run again by the path that is taken."""
    f = compile_grad(of_two_paths)
    for _ in range(3):
        for limit in (-300.0, 1e6, 1.0, 400.0):
            np.testing.assert_allclose(f(X, limit), of_two_paths(X, limit), rtol=1e-13)


def of_two_tables(x):
    table = np.stack([np.sin(x), np.cos(x), x], axis=1)
    return np.concatenate([table.ravel(), -x]) if x[0] > 1.0 else table[:, ::-1].ravel()


def test_a_function_that_returns_one_of_two_tables():
    f = compile_grad(of_two_tables)
    for x in (X, X + 1.0, X, X + 1.0, X - 0.2):
        np.testing.assert_allclose(f(x), of_two_tables(x), rtol=1e-14)
