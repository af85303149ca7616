"""Whole programs as machine code: each primitive, and its derivative, at the geometry of a real GPU.

The simulator runs the same IR (``test_registry.py``); here it is seen that libNVVM and the assembler take it, and that
what comes out is no slower than it need be: nothing is spilled, and no access has to find out which memory it is in.
"""

from __future__ import annotations

import pytest
from support import F32, F64, operand_avals, primitive_graph, prims, vjp_graph
from test_primitives import has_derivative, smooth_graph

from tracegrad.tracer.aval import Aval
from tracegrad.tracer.ir import Graph
from tracegrad.tracer.primitive import PRIMITIVES, Primitive

pytest.importorskip("cuda.bindings.nvvm", reason="numba-cuda is not installed")
from tracegrad.codegen.canonical import canonicalise
from tracegrad.codegen.cuda import ptx
from tracegrad.codegen.cuda.device import device_text
from tracegrad.codegen.cuda.program import assemble
from tracegrad.codegen.simplify import simplify

# sine and cosine of huge arguments take digits of pi from a table, by an index: that needs addressable memory
SLOW_PATHS = {"sin", "cos", "tan"}


def compiled(graph: Graph, cc: tuple[int, int]) -> tuple[str, dict[str, ptx.Resources]] | None:
    """(PTX, what its kernels take) of *graph*, or nothing where it has no kernels."""
    program = assemble(canonicalise(simplify(graph)), len(graph.inputs))
    if not program.kernels:
        return None
    text = ptx.compile_ptx(device_text(program), program.kernels, cc)
    assembled = ptx.assemble(text, cc)
    assert set(assembled.resources) == set(program.kernels) and assembled.cubin[:4] == b"\x7fELF"
    return text, assembled.resources


def check(graph: Graph, cc: tuple[int, int], local: bool) -> None:
    found = compiled(graph, cc)
    if found is None:
        return
    text, resources = found
    memories = {name.partition(".")[2] for name in ptx.instruction_mix(text) if name.startswith(("load.", "store."))}
    assert memories <= {"global", "shared", "param", *(["local"] if local else [])}
    for needs in resources.values():
        assert not needs.spill_loads and not needs.spill_stores
        assert needs.registers <= 64, "a multiprocessor shall have room for 1024 threads"


@pytest.mark.parametrize("prim", prims(lambda p: True), ids=lambda p: p.name)
def test_primitives(prim: Primitive):
    check(primitive_graph(prim, operand_avals(prim, F32)), (8, 0), prim.name in SLOW_PATHS)
    if has_derivative(prim):
        check(vjp_graph(smooth_graph(prim, F64)), (9, 0), prim.name in SLOW_PATHS)


def test_a_reduction_meets_in_shared_memory():
    found = compiled(primitive_graph(PRIMITIVES["reduce_sum"], [Aval(F64, (1000,))], axes=(0,)), (9, 0))
    assert found is not None
    mix = ptx.instruction_mix(found[0])
    assert mix["sync"] and mix["load.shared"] and mix["store.shared"] and mix["fp64"]
