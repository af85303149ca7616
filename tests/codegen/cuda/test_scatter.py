"""Indexed writes as CUDA kernels, in the simulator: the same as NumPy's, whichever thread comes first."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from simulated import cuda_program, simulated
from simulator import SMALL
from support import assert_agree, evaluate, make_graph
from tracing import Traced

from benchmarks.ptx_report import resources
from tracegrad.codegen.cuda import ptx
from tracegrad.codegen.cuda.intrinsics import device_text
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.codegen.cuda.program import Kernel, Library, Order
from tracegrad.codegen.cuda.scatter import BY_ADDING, BY_LOOKING, BY_ORDER, BY_WINNER, how_to_write
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import bind
from tracegrad.tracer.ir.primitive import SCATTER
from tracegrad.tracer.ops.indexing import SCATTER_ADD, SCATTER_MAX, SCATTER_MIN, SCATTER_SET

rng = np.random.default_rng(3)
UNORDERED = Geometry(threads=SMALL.threads, warp=SMALL.warp, deterministic=False)
SHAPES = [
    ((9,), (40,)), ((9, 5), (40,)), ((9, 3), (6, 7)), ((1, 4), (20,)), ((9, 5), (3,)), ((9, 5), ()), ((9, 0), (20,)),
]  # fmt: skip


def graph_and_arguments(prim, shape, positions, dtype):
    dtype, index = np.dtype(dtype), rng.integers(0, shape[0], positions)
    given = [np.asarray(rng.normal(size=s) * 9).astype(dtype) for s in (shape, (*positions, *shape[1:]))]
    avals = [Aval(dtype, shape), Aval(np.dtype("int64"), positions), Aval(dtype, (*positions, *shape[1:]))]
    return make_graph(avals, lambda x, i, v: bind(prim, x, i, v)), [given[0], np.asarray(index), given[1]]


@pytest.mark.parametrize("shape, positions", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("prim", [SCATTER_ADD, SCATTER_SET, SCATTER_MAX, SCATTER_MIN], ids=lambda p: p.name)
def test_bit_for_bit_like_numpy(prim, dtype, shape, positions):
    graph, given = graph_and_arguments(prim, shape, positions, dtype)
    _, found, _ = simulated(graph, given)
    assert found[0].tobytes() == evaluate(graph, given)[0].tobytes()


def test_atomic_additions_where_order_may_be_any():
    graph, given = graph_and_arguments(SCATTER_ADD, (9, 5), (40,), "float64")
    program, _ = cuda_program(graph, UNORDERED)
    assert [type(step) for step in program.steps] == [Kernel, Kernel]
    assert "atomicrmw fadd" in program.text  # simulated threads are never in the middle of an addition
    assert_agree(simulated(graph, given, UNORDERED)[1][0], evaluate(graph, given)[0], ulps=64, atol=1e-13)


def test_how():
    def how(prim, shape, positions, dtype="float64", geometry=SMALL):
        program, _ = cuda_program(graph_and_arguments(prim, shape, positions, dtype)[0], geometry)
        assert not any(isinstance(step, Library) for step in program.steps)
        (op,) = [op for op in program.canonical.ops if op.prim.kind == SCATTER]
        return how_to_write(program.canonical, op, geometry), [type(step) for step in program.steps]

    assert how(SCATTER_ADD, (9, 5), (40,)) == (BY_ORDER, [Order, Kernel])
    assert how(SCATTER_ADD, (9, 5), (40,), "int64") == (BY_ADDING, [Kernel, Kernel])
    assert how(SCATTER_ADD, (9, 5), (40,), "uint8") == (BY_ORDER, [Order, Kernel])
    assert how(SCATTER_ADD, (9, 5), (40,), geometry=UNORDERED) == (BY_ADDING, [Kernel, Kernel])
    assert how(SCATTER_ADD, (9, 5), ()) == (BY_LOOKING, [Kernel])
    assert how(SCATTER_SET, (9, 5), (40,)) == (BY_WINNER, [Kernel] * 3)
    assert how(SCATTER_MAX, (9, 5), (40,)) == how(SCATTER_MIN, (9, 5), (40,), "int64") == (BY_ORDER, [Order, Kernel])


def test_an_embedding_and_its_gradient():
    def f(table, numbers):
        return np.sum(table[numbers] ** 2, axis=0)

    args = [rng.normal(size=(7, 4)), rng.integers(0, 7, 30)]
    graph = Traced(f, args, [np.ones(4)]).graph
    failed, found, _ = simulated(graph, args)
    assert failed == -1
    for actual, expected in zip(found, evaluate(graph, args), strict=True):
        assert_agree(actual, expected, ulps=64, atol=1e-12)


@pytest.mark.parametrize("cc", [(8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize("geometry", [Geometry(), Geometry(deterministic=False)], ids=["ordered", "unordered"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("prim", [SCATTER_ADD, SCATTER_SET, SCATTER_MAX, SCATTER_MIN], ids=lambda p: p.name)
def test_machine_code(prim, dtype, geometry, cc):
    program, _ = cuda_program(graph_and_arguments(prim, (9, 5), (40,), dtype)[0], geometry)
    text = ptx.compile_ptx(device_text(program), program.kernels, cc, max_threads=geometry.threads)
    for needs in resources(text, cc).values():
        assert not needs.spill_loads and not needs.spill_stores and not needs.local
