"""The programs of the test matrix as machine code for real GPUs: libNVVM takes them, the assembler takes its PTX, and
no kernel spills registers, but for loops of which each thread runs one with all its state.  No GPU is needed."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.bindings.nvvm", reason="numba-cuda is not installed: pip install 'tracegrad[cuda]'")


from matrix import registry
from simulated import cuda_program
from support import F32, F64

from benchmarks.ptx_report import instruction_mix, resources
from benchmarks.recorded import recorded
from benchmarks.workloads import SMALL_LOOPS, STRAIGHT
from tracegrad.codegen.cuda import ptx
from tracegrad.codegen.cuda.assemble import assemble
from tracegrad.codegen.cuda.intrinsics import device_text
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.codegen.cuda.program import Kernel
from tracegrad.tracer.ir.graph import Graph

pytestmark = pytest.mark.slow

LIKE_OTHERS = ("1e6", "10k_d10_K25", "kalman_inv_8")  # in kernels
WORKLOADS = {name: w for name, w in (STRAIGHT | SMALL_LOOPS).items() if not name.endswith(LIKE_OTHERS)}


def assembled(program, cc):
    """What each kernel of *program* takes."""
    text = ptx.compile_ptx(device_text(program), program.kernels, cc, program.geometry.threads)
    needs = resources(text, cc)
    generic = [kind for kind in instruction_mix(text) if kind.endswith(".generic")]
    assert not generic, "libNVVM has not seen which memory an address is in: each access has to find out"
    assert set(needs) == {step.name for step in program.steps if isinstance(step, Kernel)}
    return needs


def report(what, program, needs):
    own = {step.name for step in program.steps if isinstance(step, Kernel) and step.extent.lonely}
    most = max(needs.values(), key=lambda r: r.registers)
    print(f"{what}: {len(needs)} kernels, at most {most.registers} registers")
    spilling = {name: r for name, r in needs.items() if r.spill_stores and name not in own}
    assert not spilling, f"{what}: kernels that spill: {spilling}"
    assert most.registers <= 65536 // Geometry().threads  # else not even one block could run


@pytest.mark.parametrize(("dtype", "every"), [(F64, ((9, 0), (8, 0))), (F32, ((9, 0),))], ids=str)
def test_registry(dtype, every):
    graphs = [graph for _, graph in registry(dtype)]
    joined = Graph(*([x for graph in graphs for x in part(graph)] for part in (_inputs, _nodes, _outputs)))
    program, _ = cuda_program(joined, Geometry())
    assert len(program.kernels) > len(graphs)
    for cc in every:
        report(f"registry, {dtype}, sm_{cc[0]}{cc[1]}", program, assembled(program, cc))


def _inputs(graph):
    return graph.inputs


def _nodes(graph):
    return graph.nodes


def _outputs(graph):
    return graph.outputs


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name):
    cc = (9, 0)
    workload = WORKLOADS[name]
    recording, _ = recorded(workload.fn, workload.make_args(), workload.argnums)
    program = assemble(recording.canonical, recording.arguments)
    report(f"{name}, sm_{cc[0]}{cc[1]}", program, assembled(program, cc))
