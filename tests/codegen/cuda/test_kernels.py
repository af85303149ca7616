"""Loop nests as CUDA kernels, in the simulator, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from selection import some

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from simulated import cuda_program, simulated
from support import assert_agree, evaluate
from tracing import Traced

from benchmarks.ptx_report import resources
from tracegrad.codegen.cuda import mapping, ptx, row_reduce
from tracegrad.codegen.cuda.intrinsics import device_text
from tracegrad.codegen.cuda.mapping import BLOCK, COLUMNS, SPREAD, THREAD, Geometry, mapping_of, parts_of_columns
from tracegrad.codegen.schedule.loop_tree import Loop

rng = np.random.default_rng(5)
VECTOR, MATRIX = rng.normal(size=23), rng.normal(size=(9, 21))
CUBE = rng.normal(size=(3, 5, 7))


def elementwise(x):
    return np.sin(x) * x + np.exp(-x)


def total(x):
    return np.sum(x * x)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)


def over_rows(x):
    return np.sum(x * x, axis=0)


def inner_axis(x):
    return x.sum(axis=(0, 2)), x.max(axis=1)


def total_of_rows(x):
    return np.sum(np.sqrt(1 + np.sum(x * x, axis=1)))


def shifted(x):
    return 100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2


def where_largest(x):
    return np.argmax(x, axis=1), np.argmin(x), np.argmax(x, axis=0), x.min(axis=0), np.prod(x, axis=1)


def questions(x):
    return np.any(x > 2, axis=0), np.all(x > -9), np.sum(x > 0, axis=1)


def running(x):
    return np.cumsum(x, axis=-1)


def gathered(x):
    return x[np.array([0, 3, 3, 1])] ** 2


CASES = [
    (elementwise, VECTOR), (elementwise, MATRIX.T), (elementwise, CUBE), (elementwise, np.array(0.3)),
    (total, VECTOR), (total, MATRIX), (softmax, MATRIX), (layer_norm, MATRIX), (over_rows, MATRIX), (over_rows, CUBE),
    (inner_axis, CUBE), (total_of_rows, MATRIX), (shifted, VECTOR), (where_largest, MATRIX), (questions, MATRIX),
    (running, MATRIX), (running, VECTOR), (gathered, MATRIX),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("f, x", CASES, ids=[f"{f.__name__}-{x.ndim}d" for f, x in CASES])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_and_gradients(f, x, dtype):
    x = x.astype(dtype)
    outputs = Traced(f, [x]).outputs
    traced = Traced(f, [x], [rng.normal(size=o.aval.shape).astype(dtype) for o in outputs])
    failed, found, _ = simulated(traced.graph, [x])
    assert failed == -1
    for actual, expected in zip(found, evaluate(traced.graph, [x]), strict=True):
        assert_agree(actual, expected, ulps=64, atol=64 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_empty_arrays(shape):
    x = np.zeros(shape)
    graph = Traced(lambda x: (np.sum(x), np.sum(x, axis=0), np.sum(x, axis=1), np.sin(x)), [x]).graph
    failed, found, _ = simulated(graph, [x])
    assert failed == -1
    for actual, expected in zip(found, evaluate(graph, [x]), strict=True):
        assert_agree(actual, expected)


@pytest.mark.parametrize("value", some([np.nan, -np.inf, np.inf, 0.0], quick=1))
def test_extremes_of_nan_and_of_equal_elements(value):
    x = np.full((5, 19), value)
    x[2, 7] = np.nan
    x[3, 4] = 1.0
    graph = Traced(lambda x: (x.max(axis=1), x.min(axis=1), np.argmax(x, axis=1), np.argmin(x, axis=1)), [x]).graph
    _, found, _ = simulated(graph, [x])
    for actual, expected in zip(found, evaluate(graph, [x]), strict=True):
        assert_agree(actual, expected)


@pytest.mark.slow
def test_a_real_block_with_warps_of_32():
    x = rng.normal(size=(2, 70))
    graph = Traced(softmax, [x]).graph
    _, found, launches = simulated(graph, [x], Geometry(threads=64, warp=32))
    assert_agree(found[0], evaluate(graph, [x])[0], ulps=16)
    assert [threads for _, _, threads in launches] == [64]


@pytest.mark.slow
def test_results_do_not_depend_on_what_ran_before():
    x = rng.normal(size=300)
    graph = Traced(total, [x], [np.array(1.0)]).graph
    first = simulated(graph, [x])[1]
    again = simulated(graph, [x])[1]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))


def nest_of(f, x):
    program, canonical = cuda_program(Traced(f, [x]).graph)
    return [mapping_of(canonical, item) for item in program.schedule.body if isinstance(item, Loop)]


def test_mappings():
    assert [(m.by, m.loops) for m in nest_of(elementwise, MATRIX)] == [(THREAD, 2)]
    assert [(m.by, m.loops, m.partial) for m in nest_of(softmax, rng.normal(size=(9, 40)))] == [(BLOCK, 1, False)]
    assert [(m.by, m.partial) for m in nest_of(total, VECTOR)] == [(THREAD, True)]
    assert [m.by for m in nest_of(over_rows, MATRIX)] == [COLUMNS]
    assert [(m.by, m.loops) for m in nest_of(lambda x: np.sum(x, axis=1), rng.normal(size=(9, 3)))] == [(THREAD, 1)]


def test_softmax_with_its_gradient_is_one_kernel():
    x = rng.normal(size=(9, 40))
    assert launched(softmax, [x], gradient=True) == 1


def test_softmax_with_its_gradient_stores_no_matrix_but_the_gradient():
    x = rng.normal(size=(40, 90))
    program, canonical = cuda_program(Traced(softmax, [x], [rng.normal(size=x.shape)]).graph)
    assert program.plan(canonical.sizes)[1] < x.nbytes


def several_over_rows(x):
    first = np.sum(x * x, axis=0)
    return first, np.max(np.sin(x), axis=0), np.sum(x - first, axis=0)


def test_sums_over_the_same_rows_share_a_kernel():
    x = rng.normal(size=(150, 21))
    graph = Traced(several_over_rows, [x]).graph
    program, _ = cuda_program(graph)
    assert len(program.kernels) == 4, "the last needs the first, finished"
    for found, expected in zip(simulated(graph, [x])[1], evaluate(graph, [x]), strict=True):
        assert_agree(found, expected, ulps=64, atol=1e-12)


def test_parts_of_a_sum_over_outer_axes():
    assert parts_of_columns(units=1, length=64) == 1
    assert parts_of_columns(units=1, length=1_000_000) == 1024
    assert parts_of_columns(units=SPREAD, length=1_000_000) == 1
    assert parts_of_columns(units=0, length=0) == 1


def normalised(x):
    """Numbers that follow from a sum, and the sum's own loop."""
    mean = np.sum(x) / x.size
    return mean, np.sqrt(mean * mean + 1.0), x - mean


def launched(f, args, gradient=False):
    outputs = Traced(f, args).outputs
    weights = [rng.normal(size=o.aval.shape) for o in outputs] if gradient else None
    graph = Traced(f, args, weights).graph
    _, found, launches = simulated(graph, args)
    for actual, expected in zip(found, evaluate(graph, args), strict=True):
        assert_agree(actual, expected, ulps=64, atol=1e-12)
    return len(launches)


def test_what_follows_from_a_sum_is_done_where_the_sum_ends():
    assert launched(lambda x: np.sqrt(np.sum(x * x) / x.size), [VECTOR]) == 2
    assert launched(lambda x: np.sqrt(np.sum(x * x) / x.size), [VECTOR], gradient=True) == 3
    assert launched(normalised, [VECTOR]) == 3
    assert launched(lambda x, p: (np.sum(x) * np.exp(p), np.max(x) + p), [VECTOR, np.array(0.3)]) == 2


def test_numbers_that_are_ready_before_a_loop_do_not_wait_for_it():
    def f(x, y):
        total = np.sum(x)
        return np.sum(np.sin(y) * 3.0, axis=0), np.log(total * total + 1.0)

    assert launched(f, [VECTOR, MATRIX]) == 4


@pytest.mark.slow
def test_few_long_rows_are_cut_in_parts(monkeypatch):
    for module in (mapping, row_reduce):
        monkeypatch.setattr(module, "PART_COLUMNS", 16)
        monkeypatch.setattr(module, "ROW_BLOCKS", 12)
    long = rng.normal(size=(3, 40))
    assert launched(lambda x: np.sum(x * x, axis=1), [long]) == 2
    assert launched(lambda x: np.sum(x * x, axis=1), [MATRIX[:, :15]]) == 1
    assert launched(softmax, [long]) == 5
    assert launched(layer_norm, [long], gradient=True) > 5
    assert launched(lambda x: (np.argmax(x, axis=1), np.max(x, axis=1)), [long]) == 2
    assert launched(lambda x: np.sum(x, axis=(1, 2)), [rng.normal(size=(2, 40, 3))]) == 2
    many = rng.normal(size=(mapping.ROW_BLOCKS, 20))
    assert launched(lambda x: np.sum(x * x, axis=1), [many]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("cc", [(8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize("f", [softmax, layer_norm, over_rows, normalised, total_of_rows])
def test_machine_code(f, cc):
    x = rng.normal(size=(9, 40))
    outputs = Traced(f, [x]).outputs
    program, _ = cuda_program(Traced(f, [x], [np.ones(o.aval.shape) for o in outputs]).graph, Geometry())
    text = ptx.compile_ptx(device_text(program), program.kernels, cc, max_threads=Geometry().threads)
    for needs in resources(text, cc).values():
        assert not needs.spill_loads and not needs.spill_stores and not needs.local
