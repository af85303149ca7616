"""Recurrences in parallel, in the simulator: those of one thread, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from simulated import cuda_program, simulated
from support import assert_agree, evaluate, make_graph
from tracing import Traced

from benchmarks.ptx_report import resources
from tracegrad.codegen.cuda import mapping, ptx
from tracegrad.codegen.cuda.intrinsics import device_text
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ops.reduce import linrec

rng = np.random.default_rng(17)
LONG = 3 * mapping.PART_ROWS + 7  # four parts


def both(graph, given):
    _, found, launches = simulated(graph, given)
    return found, evaluate(graph, given), launches


def recurrence(a, b, reverse=False):
    avals = [Aval(x.dtype, x.shape) for x in (a, b)]
    return make_graph(avals, lambda a, b: linrec(a, b, reverse))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
@pytest.mark.parametrize("shape", [(LONG,), (3, LONG), (2, 2, 130), (5, 30), (40,), (0, 200), (2, 0)], ids=str)
def test_running_sums(shape, dtype):
    x = np.asarray(rng.normal(size=shape) * 9).astype(dtype)
    graph = Traced(lambda x: np.cumsum(x, axis=-1), [x]).graph
    found, expected, launches = both(graph, [x])
    assert_agree(found[0], expected[0], ulps=64, atol=1e-12 if dtype == "float64" else 1e-4)
    assert len(launches) == (3 if shape[-1] > mapping.PART_ROWS else 1)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(LONG,), (3, LONG)], ids=str)
def test_recurrences(shape, reverse, dtype):
    scale = 3 if dtype == "int64" else 1.1
    a, b = (np.asarray(rng.uniform(-scale, scale, size=shape)).astype(dtype) for _ in range(2))
    found, expected, _ = both(recurrence(a, b, reverse), [a, b])
    assert_agree(found[0], expected[0], ulps=1 << 14, atol=1e-10 if dtype == "float64" else 1e-2)


def test_gradient():
    x = rng.normal(size=(2, LONG))
    graph = Traced(lambda x: np.cumsum(np.sin(x), axis=1), [x], [rng.normal(size=x.shape)]).graph
    found, expected, _ = both(graph, [x])
    for actual, wanted in zip(found, expected, strict=True):
        assert_agree(actual, wanted, ulps=64, atol=1e-11)


def with_at(value, places, numbers):
    result = np.full(LONG, value)
    result[list(places)] = numbers
    return result


HARD = {
    "a product that overflows": (with_at(1e200, [3, 70], 0.5), with_at(0.0, [], [])),
    "a small number grows through it": (with_at(1.0, [65, 66], 1e200), with_at(0.0, [10], [1e-300])),
    "a product that gets lost and comes back": (
        with_at(1.0, range(60, 66), [1e-200] * 3 + [1e200] * 3), with_at(0.0, [10], [1e300]),
    ),
    "a decay": (np.full(LONG, 1e-8), with_at(1.0, [], [])),
    "a decay of something large": (with_at(1.0, range(50, 95), 1e-8), with_at(0.0, [10], [1e300])),
    "zeros": (with_at(1.5, [70, 71, 130], 0.0), rng.normal(size=LONG)),
    "nan": (np.ones(LONG) * 0.5, with_at(1.0, [80], [np.nan])),
    "inf": (np.ones(LONG) * 0.5, with_at(1.0, [80, 150], [np.inf, -np.inf])),
    "inf among factors": (with_at(0.5, [80], [np.inf]), with_at(0.0, [150], [1.0])),
    "the limit passed on the way": (np.ones(LONG), with_at(0.0, [10, 70, 75, 90], [1.7e308, 1e308, -1e308, -1e308])),
}  # fmt: skip


@pytest.mark.parametrize("case", HARD)
def test_numbers_near_the_limits(case):
    a, b = HARD[case]
    found, expected, launches = both(recurrence(a, b), [a, b])
    assert len(launches) == 3
    assert_agree(found[0], expected[0], ulps=256)


def test_running_sums_near_the_limits():
    for places, numbers in [([10, 70, 75, 90], [1.7e308, 1e308, -1e308, -1e308]), ([70, 140], [np.inf, -np.inf])]:
        x = with_at(0.0, places, numbers)
        found, expected, _ = both(Traced(np.cumsum, [x]).graph, [x])
        assert_agree(found[0], expected[0])


@pytest.mark.slow
@pytest.mark.parametrize("cc", [(8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_machine_code(dtype, cc):
    a = np.ones((3, LONG), dtype)
    for graph in (recurrence(a, a), Traced(lambda x: np.cumsum(np.sqrt(x), axis=1), [a]).graph):
        program, _ = cuda_program(graph, Geometry())
        text = ptx.compile_ptx(device_text(program), program.kernels, cc, max_threads=Geometry().threads)
        for needs in resources(text, cc).values():
            assert not needs.spill_loads and not needs.spill_stores and not needs.local
