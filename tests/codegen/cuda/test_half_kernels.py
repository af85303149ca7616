"""float16 and bfloat16 in CUDA kernels: 16 bits in memory, float32 in registers, in the simulator and as PTX."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from simulated import cuda_tier
from simulator import SMALL, simulate
from support import F32, F64, assert_agree, evaluate
from tracing import Traced

from tracegrad.codegen.cuda import ptx
from tracegrad.codegen.cuda.assemble import assemble
from tracegrad.codegen.cuda.intrinsics import device_text
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.codegen.cuda.program import CudaProgram, Library
from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.half_precision import CUDA_PRODUCTS
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.tracer.ir.aval import BFLOAT16, FLOAT16
from tracegrad.tracer.ir.graph import Graph

DTYPES = pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
rng = np.random.default_rng(11)


def elementwise(x):
    return np.sin(x) * x + np.exp(-x) + 1e-8


def total(x):
    return np.sum(x * x), np.mean(x)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def over_rows(x):
    return np.sum(x * x, axis=0), x.max(axis=0)


def where_largest(x):
    return np.argmax(x, axis=1), x.min(axis=0), np.prod(x, axis=1)


def running(x):
    return np.cumsum(x, axis=1)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize(
    "f", [elementwise, total, softmax, over_rows, where_largest, running], ids=lambda f: f.__name__
)
def test_values_and_gradients(f, dtype):
    x = rng.normal(size=(9, 21)).astype(dtype)
    weights = [rng.normal(size=o.aval.shape).astype(dtype) for o in Traced(f, [x]).outputs]
    graph = Traced(f, [x], weights).graph
    for found, expected in zip(cuda_tier(graph, [x]), evaluate(graph, [x]), strict=True):
        assert_agree(found, expected, ulps=1, atol=1e-5)


@pytest.mark.slow
@DTYPES
def test_long_sums_are_added_up_in_float32(dtype):
    x = np.abs(rng.normal(size=(160, 7))).astype(dtype)
    graph = Traced(lambda x: (np.sum(x), np.sum(x, axis=0)), [x]).graph
    exact = x.astype(F64).sum(), x.astype(F64).sum(axis=0)
    for found, wanted in zip(cuda_tier(graph, [x]), exact, strict=True):
        assert_agree(found, np.asarray(wanted).astype(dtype), ulps=1)


def with_half_products(graph: Graph) -> tuple[CudaProgram, list[np.dtype]]:
    """The program of *graph* for a GPU, and the dtypes that it multiplies."""
    canonical = canonicalise(simplify(graph, CUDA_PRODUCTS))
    program = assemble(canonical, len(graph.inputs), SMALL)
    return program, [canonical.ops[s.position].ins[0].dtype for s in program.steps if isinstance(s, Library)]


@pytest.mark.parametrize(("dtype", "multiplied"), [(FLOAT16, FLOAT16), (BFLOAT16, F32)], ids=str)
def test_products(dtype, multiplied):
    x, w = rng.normal(size=(6, 40)).astype(dtype), rng.normal(size=(40, 5)).astype(dtype)
    graph = Traced(lambda x, w: np.tanh(x @ w), [x, w], [np.ones((6, 5), dtype)]).graph
    program, dtypes = with_half_products(graph)
    assert set(dtypes) == {multiplied}
    _, found, _ = simulate(program, canonicalise(simplify(graph, CUDA_PRODUCTS)), [x, w, *(a for _, a in graph.consts)])
    for actual, expected in zip(found, evaluate(graph, [x, w]), strict=True):
        assert_agree(actual, expected, ulps=2, atol=2e-2)  # a product that is stored is rounded


@pytest.mark.parametrize("cc", [(8, 0), (9, 0)], ids=str)
@DTYPES
def test_elements_are_16_bits_wide_and_move_four_at_once(dtype, cc):
    x = rng.normal(size=(9, 21)).astype(dtype)
    graph = Traced(lambda x: x * x - x, [x]).graph
    program = assemble(canonicalise(simplify(graph)), 1, Geometry())
    text = ptx.compile_ptx(device_text(program), program.kernels, cc)
    accesses = re.findall(r"(ld|st)\.global(?:\.nc)?\.((?:v4\.)?[a-z]\d+)", text)
    four = {"v4.b16", "v4.u16", "u64", "b64"}
    assert {form for _, form in accesses} <= {"b16", "u16", "b32"} | four  # b32: two at once
    assert four & {form for kind, form in accesses if kind == "st"}
    assert "mul.rn.f32" in text and not re.search(r"\b(?:add|sub|mul|fma|neg)\.\S*f16", text)
    assert ptx.assemble(text, cc)[0][:4] == b"\x7fELF"
