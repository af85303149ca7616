"""Loops over a body as CUDA kernels, in the simulator, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba.cuda.simulator", reason="kernels are simulated by numba-cuda: pip install 'tracegrad[cuda]'")

from simulated import cuda_program, simulated
from support import assert_agree, evaluate
from tracing import Traced

import tracegrad as tg
from tracegrad.codegen.cuda.program import Library

rng = np.random.default_rng(11)
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32"])
BATCH, SMALL, WIDE = rng.normal(size=(19, 3)), rng.normal(size=3), rng.normal(size=21)
ROWS, MATRIX = rng.normal(size=(6, 19)), rng.normal(size=(18, 18)) * 0.2


def ways(program):
    return [line.split(": ", 1)[1] for line in program.schedule.notes if "(loop)" in line]


def agree(f, args, dtype, expected_ways, gradient=True):
    """The value and gradient of *f* as kernels, which say how they run their loops."""
    args = [a.astype(dtype) for a in args]
    outputs = Traced(f, args).outputs
    weights = [rng.normal(size=o.aval.shape).astype(dtype) for o in outputs] if gradient else None
    graph = Traced(f, args, weights).graph
    program, _ = cuda_program(graph)
    assert not any(isinstance(step, Library) for step in program.steps)
    found_ways = ways(program)
    assert found_ways and all(any(e in way for e in expected_ways) for way in found_ways), found_ways
    failed, found, launches = simulated(graph, args)
    assert failed == -1
    for actual, expected in zip(found, evaluate(graph, args), strict=True):
        assert_agree(actual, expected, ulps=256, atol=256 * float(np.finfo(dtype).eps))
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


CASES = [
    (van_der_pol, [BATCH], ["for each index"]),
    (driven, [BATCH, ROWS], ["for each index"]),
    (whole_state, [WIDE], ["one block"]),
    (whole_state, [SMALL], ["one thread"]),
]


@DTYPES
@pytest.mark.parametrize("f, args, by", CASES, ids=[f"{f.__name__}-{by[0]}" for f, _, by in CASES])
def test_values_and_gradients(f, args, by, dtype):
    agree(f, args, dtype, by)
