"""Binding a compiled program to the sizes and constants of one graph: a callable from arrays to results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...codegen.cpu.program import Program, host_step
from ...codegen.lower.canonical import Canonical, canonicalise
from ...codegen.lower.simplify import simplify
from ...codegen.lower.strips import in_strips
from ...tracer.ir.graph import Graph, Var
from . import bind as launch
from .kernel_cache import kernels


def compiled(
    graph: Graph, args: Sequence[launch.Arg] | None = None, single: bool = False
) -> tuple[Callable[..., Any], int]:
    """(*graph* as a callable of *args*, as ``bind_graph`` makes it, how its kernel was come by: ``KernelCache.get``)"""
    graph, _ = in_strips(simplify(graph))
    canonical = canonicalise(graph)
    program, hit = kernels.get(canonical, len(graph.inputs))
    return bind_graph(graph, canonical, program, single, args), hit


def bind_graph(
    graph: Graph, canonical: Canonical, program: Program, single: bool, args: Sequence[launch.Arg] | None = None,
    counts: np.ndarray | None = None, donated: Mapping[int, int] = MappingProxyType({}), native: bool = True,
) -> Callable[..., Any]:  # fmt: skip
    """*program* bound to the sizes and constants of *graph*, as a callable of *args* (default: those of its inputs).

    *counts* (int64): its runs are counted in ``counts[0]``, failures of guard k in ``counts[1 + k]``.  Result k is
    written into argument ``donated[k]`` once every guard has held; a call returns the others.  *native*: as in
    ``launch.bind``, of a program that is one function.
    """
    if args is None:
        args = argument_records(graph.inputs)
    sizes = canonical.sizes
    shapes = [tuple([int(sizes[d]) for d in s.dims]) for s in program.results]
    consts = [array for _, array in graph.consts]
    outs = [
        launch.ArrayOut(s.dtype, shape) if shape or k in donated else launch.ScalarOut(s.dtype)
        for k, (s, shape) in enumerate(zip(program.results, shapes, strict=True))
    ]
    offsets, total = program.plan(sizes)
    rest: dict[str, Any] = {
        "extra": [a.ctypes.data for a in consts], "temp_offsets": offsets, "sizes": sizes, "consts": canonical.consts,
        "keep_alive": (program.code, *consts), "single": single, "arena_bytes": total, "counts": counts,
    }  # fmt: skip
    if program.address and not donated:
        return launch.bind(program.address, args, outs, native=native, **rest)
    steps = [step if isinstance(step, int) else host_step(program, step, canonical) for step in program.steps]
    return launch.bind_steps(steps, args, outs, donated, **rest)


def array_records(inputs: Sequence[Var]) -> list[launch.Arg]:
    """Argument records of *inputs* that are all arrays."""
    return argument_records(inputs, [None] * len(inputs))


def argument_records(inputs: Sequence[Var], scalars: Sequence[type | None] | None = None) -> list[launch.Arg]:
    """Argument records of *inputs*: arrays, or numbers of the type in *scalars* (default: weak inputs are Python
    floats)."""
    kinds = [float if v.aval.weak else None for v in inputs] if scalars is None else scalars
    return [
        launch.ArrayArg(v.aval.dtype, v.aval.shape) if kind is None else launch.ScalarArg(v.aval.dtype, (kind,))
        for v, kind in zip(inputs, kinds, strict=True)
    ]


def normalised(values: Sequence[Any], kept: Collection[int] = ()) -> list[Any]:
    """The same values as a launcher accepts them: C-contiguous, aligned arrays, but for those at the places *kept*."""
    result = []
    for k, value in enumerate(values):
        if type(value) is np.ndarray and not (value.flags.c_contiguous and value.flags.aligned) and k not in kept:
            value = np.array(value, order="C")
        result.append(value)
    return result


def launched(launch: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The result of *launch* for *values* of any memory layout."""
    found = launch(*values)
    if found is None:
        found = launch(*normalised(values))
    if found is None:
        raise AssertionError("a compiled program did not accept the values that its signature promises")
    return found
