"""Graphs run as CUDA kernels in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fake_cupy import runtime
from selection import TIMES
from simulator import SMALL, Simulator, simulate

from tracegrad.codegen.cuda.assemble import assemble
from tracegrad.codegen.cuda.mapping import Geometry
from tracegrad.codegen.cuda.program import CudaProgram
from tracegrad.codegen.lower.canonical import Canonical, canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.runtime.cuda.load import Loaded
from tracegrad.tracer.ir.graph import Graph

Launches = list[tuple[str, int, int]]


def cuda_program(graph: Graph, geometry: Geometry = SMALL) -> tuple[CudaProgram, Canonical]:
    """The program of *graph*, and its canonical form with this graph's numbers."""
    canonical = canonicalise(simplify(graph))
    return assemble(canonical, len(graph.inputs), geometry), canonical


def simulated(
    graph: Graph, inputs: Sequence[Any], geometry: Geometry = SMALL
) -> tuple[int, list[np.ndarray], Launches]:
    """(failed guard or -1, outputs, launches) of *graph*."""
    program, canonical = cuda_program(graph, geometry)
    arrays = [
        np.ascontiguousarray(x, v.aval.dtype).reshape(v.aval.shape) for x, v in zip(inputs, graph.inputs, strict=True)
    ]
    return simulate(program, canonical, [*arrays, *(a for _, a in graph.consts)])


def simulated_load(canonical: Canonical, arguments: int, xp: Any) -> Loaded:
    """What ``runtime.cuda.loading.make`` gives, over the simulator."""
    program = assemble(canonical, arguments, SMALL)
    machine = Simulator(program, optimised=TIMES > 1)

    def launcher(name: str) -> Any:
        def launch(grid: tuple[int], block: tuple[int], arguments: tuple[int, ...]) -> None:
            runtime.current.submit(lambda: machine.launch_at(name, grid[0], block[0], arguments))

        return launch

    return Loaded(program, {name: launcher(name) for name in program.kernels}, dict.fromkeys(program.kernels, 3))


_simulators: dict[Any, Simulator] = {}


def simulated_canonical(canonical: Canonical, arguments: int, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of *canonical*; programs with one signature are compiled once."""
    key = canonical.key, arguments
    if key not in _simulators:
        _simulators[key] = Simulator(assemble(canonical, arguments, SMALL), most_blocks=3, optimised=TIMES > 1)
    machine = _simulators[key]
    return simulate(machine.program, canonical, arrays, machine)[1]


def cuda_tier(graph: Graph, inputs: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of *graph*, as ``support.TIERS`` have it."""
    arrays = [
        np.ascontiguousarray(x, v.aval.dtype).reshape(v.aval.shape) for x, v in zip(inputs, graph.inputs, strict=True)
    ]
    arguments, graph = len(graph.inputs), simplify(graph)
    return simulated_canonical(canonicalise(graph), arguments, [*arrays, *(a for _, a in graph.consts)])
