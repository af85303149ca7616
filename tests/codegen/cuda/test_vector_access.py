"""Vector loads and stores: which nests have them, tails, arrays that are not aligned; and what the PTX says."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from simulated import cuda_program, cuda_tier
from support import assert_same_bits, evaluate, layouts
from tracing import Traced

from tracegrad.codegen.cuda import ptx
from tracegrad.codegen.cuda.intrinsics import device_text
from tracegrad.codegen.cuda.mapping import Geometry

rng = np.random.default_rng(11)


def polynomial(x):
    return x * x + x


def several(x):
    return x > 0, x * 2, np.where(x > 1, x, -x)


def with_a_row(x):
    return x * x[0] + x[..., :1]


def turned(x):
    return x.T * 2 + x.T


def shifted(x):
    return x[1:] - x[:-1]


SHAPES = [(0,), (1,), (3,), (4,), (5,), (8,), (33,), (130,), (7, 3), (5, 18), (3, 4, 5), (2, 3, 19)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "int8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_have_the_same_bits(shape, dtype):
    x = (rng.normal(size=shape) * 3).astype(dtype)
    functions = [polynomial, several] + [turned] * (len(shape) > 1) + [with_a_row, shifted] * (0 not in shape)
    for f in functions:
        graph = Traced(f, [x]).graph
        for name, given in layouts(x).items():
            for found, expected in zip(cuda_tier(graph, [given]), evaluate(graph, [x]), strict=True):
                assert_same_bits(found, expected, f"{f.__name__}, {name}")


def test_a_temporary_that_is_written_and_read():
    x = rng.normal(size=(6, 21))
    graph = Traced(lambda x: (y := np.exp(x), y * y, y[::-1] + 1), [x]).graph
    for found, expected in zip(cuda_tier(graph, [x]), evaluate(graph, [x]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def program_of(f, *args):
    return cuda_program(Traced(f, list(args)).graph, Geometry())[0]


def lanes(f, *args):
    return [step.extent.lanes for step in program_of(f, *args).steps]


def test_which_nests_have_lanes():
    x = rng.normal(size=(5, 40))
    assert lanes(polynomial, x) == [2]
    assert lanes(polynomial, x.astype(np.float32)) == [4]
    assert lanes(polynomial, x.astype(np.int8)) == [4]
    assert lanes(lambda x, y: x * y, x, x.astype(np.float32)) == [2], "the widest array decides"
    assert lanes(lambda x: np.exp(np.sin(x)) * np.log(x) + np.tanh(x), x) == [1], "a long body"
    assert set(lanes(lambda x: np.sum(x, axis=1), x)) == {1}
    assert set(lanes(lambda x: x.sum(), x)) == {1}


@pytest.mark.parametrize("dtype, vector", [("float32", "v4.f32"), ("float64", "v2.f64")])
def test_the_ptx_has_vector_loads(dtype, vector):
    x = rng.normal(size=100).astype(dtype)
    program = program_of(polynomial, x)
    text = ptx.compile_ptx(device_text(program), program.kernels)
    assert text.count(f"ld.global.nc.{vector}") == 1 and text.count(f"st.global.{vector}") == 1
    assert text.count("ld.global.nc.f") == 1, "the loop over single units, which is not unrolled"


def test_a_thread_has_one_group():
    (step,) = program_of(polynomial, np.zeros(100)).steps
    blocks, threads = step.extent.launch({step.extent.units[0]: 1_000_001}, Geometry())
    assert blocks == -(-500_001 // threads)
