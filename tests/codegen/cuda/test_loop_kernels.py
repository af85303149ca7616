"""Loops over a body as CUDA kernels, in the simulator, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from simulated import cuda_program, simulated
from support import assert_agree, evaluate
from tracing import Traced

import tracegrad as tg
from benchmarks.ptx_report import resources
from tracegrad.codegen.cuda import loop_strategy, ptx
from tracegrad.codegen.cuda.intrinsics import device_text
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.codegen.cuda.program import Library
from tracegrad.tracer.ir.primitive import LOOP

rng = np.random.default_rng(11)
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32"])
BATCH, SMALL, WIDE = rng.normal(size=(19, 3)), rng.normal(size=3), rng.normal(size=21)
ROWS, MATRIX = rng.normal(size=(6, 19)), rng.normal(size=(18, 18)) * 0.2


def said(program):
    return [line for line in map(str, program.schedule.notes) if "(loop)" in line]


def agree(f, args, dtype, expected, gradient=True):
    """The value and gradient of *f* as kernels, which say how they run their loops."""
    args = [a.astype(dtype) if a.dtype.kind == "f" else a for a in args]
    outputs = Traced(f, args).outputs
    weights = [rng.normal(size=o.aval.shape).astype(dtype) for o in outputs] if gradient else None
    graph = Traced(f, args, weights).graph
    program, canonical = cuda_program(graph)
    steps = [step for step in program.steps if step.launched(canonical.sizes)]
    library = [program.canonical.ops[step.position] for step in steps if isinstance(step, Library)]
    assert not any(op.prim.kind == LOOP for op in library)
    found = said(program)
    assert found and {e for e in expected for way in found if e in way} == set(expected), found
    failed, found, launches = simulated(graph, args)
    assert failed == -1
    for actual, wanted in zip(found, evaluate(graph, args), strict=True):
        assert_agree(actual, wanted, ulps=256, atol=256 * float(np.finfo(dtype).eps))
    return launches


def van_der_pol(x):
    """Independent trajectories of two numbers each."""

    def step(state, _):
        p, q = state[:, 0], state[:, 1]
        return state + 0.1 * np.stack([q, (1 - p * p) * q - p], axis=1), np.sqrt(1 + p * p)

    return tg.scan(step, x[:, :2], None, length=5)


def driven(x, rows):
    """A row of xs for each step, with one number for each trajectory."""
    last, ys = tg.scan(lambda c, u: (np.tanh(c * u), c + u), x[:, 0], rows)
    return last, ys


def whole_state(x):
    """Each element depends on all others."""
    return tg.scan(lambda c, _: (np.tanh(c * np.sum(c)) + c, np.max(c)), x, None, length=4)


def nested(x, rows):
    """A loop in each step, of each trajectory."""

    def step(c, u):
        inner, ys = tg.scan(lambda d, _: (np.sin(d) + c, d * d), u, None, length=3)
        return c + 0.1 * inner, np.sum(ys, axis=0)

    return tg.scan(step, x[:, 0], rows)


def nested_together(x, weights):
    def step(c, _):
        inner, ys = tg.scan(lambda d, _: (np.tanh(d @ weights), np.sum(d)), c, None, length=2)
        return 0.5 * (c + inner), np.sum(ys)

    return tg.scan(step, x, None, length=3)


def layers(x, weights):
    """Products, rows that are reduced, and sums over rows."""

    def step(c, _):
        h = np.tanh(c @ weights)
        h = h - h.mean(axis=1, keepdims=True)
        return h, (np.sum(h, axis=0), np.max(h, axis=1), np.sum(h))

    return tg.scan(step, x, None, length=3, reverse=True)


def few_rows(x):
    """Rows that the whole block works on, one after the other."""
    return tg.scan(lambda c, _: (c / np.sum(c * c, axis=1, keepdims=True), np.sum(c, axis=1)), x, None, length=3)


def running(x):
    """A recurrence along the state, and one along rows of it."""
    return tg.scan(lambda c, _: (np.cumsum(c) * 0.3, np.cumsum(np.outer(c, c), axis=1)[:, -1]), x, None, length=3)


def reading(x, table):
    """Each trajectory reads from a shared table, and writes into a part of its own state."""

    def step(c, number):
        row = table[number]
        return np.concatenate([c[:, 1:], (c[:, :1] * row)], axis=1), c[:, 0] ** 2

    return tg.scan(step, x, np.arange(5) % 3)


def joining(x, more, weights):
    """The state is a part of a longer axis, over which it is reduced."""

    def step(c, _):
        return np.tanh(c * np.sum(np.concatenate([c, more]) * weights)), c

    return tg.scan(step, x, None, length=3)


def writing(x, places):
    """Indexed writes into the state."""

    def step(c, number):
        c = c.copy()
        c[places] = c[places] * 0.5 + 1.0
        return c, c[number]

    return tg.scan(step, x, np.arange(4))


def until(x):
    """A loop that data ends; its steps are data in the loop of the gradient."""
    return tg.while_loop(lambda c: np.sum(c * c) < 40.0, lambda c: c * 1.5 + 0.1, x)


def counting(x):
    """It carries a number besides the trajectories, which is the same for all."""
    start = x[:, 0], np.zeros((), x.dtype)
    return tg.scan(lambda c, _: ((c[0] * np.cos(c[1]), c[1] + 1.0), c[0] * c[1]), start, None, length=5)


def shared_parameter(x, p):
    """All trajectories read one parameter, whose gradient is a sum over them."""
    return tg.scan(lambda c, _: (c + 0.1 * np.sin(p * c), None), x[:, 0], None, length=4)[0]


def looking_up(x, table):
    """Each trajectory reads where its own state says; that all of them stay within the table is asked in each step."""

    def step(c, _):
        return 0.5 * c + table[np.floor(np.abs(c)).astype(np.int64) % 33], None

    return tg.scan(step, x[:, 0], None, length=3)[0]


def energy(x):
    """A sum over all trajectories and all steps, which begins with a number."""

    def step(carry, _):
        c, total = carry
        return (c * np.cos(c), total + np.sum(c * c)), None

    return tg.scan(step, (x[:, 0], x[0, 0]), None, length=3)[0]


def recurrent(x, weights, inputs):
    """A recurrent network: sequences do not depend on each other, but are too much for a thread."""
    return tg.scan(lambda h, u: (np.tanh(h @ weights + u), None), x, inputs)[0]


def count_of_steps(x):
    """Trajectories in a loop that stops, for all of them at once; that of its gradient is counted."""
    return tg.while_loop(lambda s: s[1] < 4, lambda s: (np.sin(s[0]) + 0.5, s[1] + 1), (x[:, 0], 0))[0]


def branches(x, choice):
    """A branch in each step, the same for all trajectories."""

    def step(c, k):
        return tg.cond(k > 0, lambda c: c * c, lambda c: np.sin(c), c), None

    return tg.scan(step, x[:, 0], choice)[0]


THREADS, BLOCKS, BLOCK, THREAD = "a thread for each", "a block for each", "one block", "one thread"
CASES = [
    (van_der_pol, [BATCH], [THREADS]), (driven, [BATCH, ROWS], [THREADS]), (nested, [BATCH, ROWS], [THREADS]),
    (counting, [BATCH], [THREADS]), (reading, [BATCH, SMALL], [THREADS, BLOCK]),
    (whole_state, [WIDE], [BLOCK]), (whole_state, [SMALL], [THREAD]),
    (layers, [rng.normal(size=(19, 18)), MATRIX], [BLOCK]),
    (layers, [rng.normal(size=(5, 4)), MATRIX[:4, :4]], [BLOCK]), (nested_together, [WIDE[:18], MATRIX], [BLOCK]),
    (nested_together, [SMALL, MATRIX[:3, :3]], [THREAD]), (few_rows, [rng.normal(size=(3, 21))], [BLOCKS]),
    (running, [WIDE], [BLOCK]), (writing, [WIDE, np.array([3, 0, 20])], [BLOCK]),
    (recurrent, [rng.normal(size=(5, 18)), MATRIX, rng.normal(size=(3, 5, 18))], [BLOCKS]),
    (joining, [BATCH[:, 0], WIDE[:4], rng.normal(size=23)], [BLOCK]),
    (van_der_pol, [BATCH[:5]], [THREADS]), (looking_up, [BATCH, rng.normal(size=33)], [THREADS, BLOCK]),
    (energy, [BATCH], [THREADS]), (energy, [rng.normal(size=(3, 70))], [THREADS]),
    (count_of_steps, [BATCH], [THREADS]), (branches, [BATCH, np.array([1, 0, 1, 1])], [THREADS]),
    (until, [SMALL], [THREAD]), (until, [WIDE * 0.1], [BLOCK]), (shared_parameter, [BATCH, np.array(0.7)], [THREADS]),
]  # fmt: skip


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("f, args, by", CASES, ids=[f"{f.__name__}-{k}" for k, (f, _, _) in enumerate(CASES)])
def test_values_and_gradients(f, args, by, dtype):
    agree(f, args, dtype, by)


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("f", [driven, nested])
def test_few_steps(f, steps):
    agree(f, [BATCH, ROWS[:steps]], "float64", [THREADS])


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("x", [SMALL, WIDE])
def test_few_steps_of_one_state(x, steps):
    agree(lambda x: tg.scan(lambda c, _: (c * np.sum(c), np.max(c)), x, None, length=steps), [x], "float64", [""])


def test_a_loop_whose_guard_fails():
    def f(x):
        last, _ = tg.scan(lambda c, _: (c * 2.0, None), x, None, length=3)
        return last if np.sum(last) > 0 else -last

    graph = Traced(f, [SMALL**2]).graph
    assert simulated(graph, [SMALL**2])[0] == -1
    assert simulated(graph, [-(SMALL**2)])[0] == 0


def test_trajectories_are_a_thread_each_in_blocks_that_do_not_wait():
    launches = agree(van_der_pol, [BATCH], "float64", [THREADS], gradient=False)
    assert [(blocks, threads) for _, blocks, threads in launches][-1] == (5, 4)


def test_a_host_step_in_a_body_keeps_the_loop_with_the_array_module():
    graph = Traced(lambda x: tg.scan(lambda c, _: (np.sort(c) * 2.0, None), x, None, length=2)[0], [WIDE]).graph
    program, _ = cuda_program(graph)
    assert "argsort) in its body is the array module's" in said(program)[0]
    assert_agree(simulated(graph, [WIDE])[1][0], evaluate(graph, [WIDE])[0])


@pytest.mark.slow
@pytest.mark.parametrize("cc", [(8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize("f, args, _", CASES, ids=[f"{f.__name__}-{k}" for k, (f, _, _) in enumerate(CASES)])
def test_machine_code_keeps_what_is_small_in_registers(f, args, _, cc):
    indexed = f is reading  # its gradient adds into four numbers at positions that are computed: no registers do that
    outputs = Traced(f, args).outputs
    program, _ = cuda_program(Traced(f, args, [np.ones(o.aval.shape) for o in outputs]).graph, Geometry())
    text = ptx.compile_ptx(device_text(program), program.kernels, cc, max_threads=Geometry().threads)
    for needs in resources(text, cc).values():
        assert not needs.spill_loads and not needs.spill_stores
        assert indexed or not needs.local


def test_what_is_too_much_for_a_block_is_left_to_the_array_module():
    def launches(n):
        x = np.full(n, 0.01)
        graph = Traced(lambda x: tg.scan(lambda c, _: (c[::-1] * 0.5, None), x, None, length=3)[0], [x]).graph
        _, found, launched = simulated(graph, [x])
        assert_agree(found[0], evaluate(graph, [x])[0])
        return len(launched)

    assert launches(40) == launches(loop_strategy.REACH + 1) + 1


def test_positions_out_of_bounds_in_one_trajectory_are_found():
    def f(x, table):
        return tg.scan(lambda c, _: (c + table[c.astype(np.int64)], None), x, None, length=3)[0]

    args = [np.linspace(0.0, 3.0, 19), np.ones(33)]
    graph = Traced(f, args).graph
    assert "a thread for each" in said(cuda_program(graph)[0])[0]
    assert simulated(graph, args)[0] == -1
    args[0][7] = 31.0
    assert simulated(graph, args)[0] == 0
