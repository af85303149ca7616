"""Binding a compiled program to the sizes and constants of one graph: a callable from arrays to results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...codegen.cpu.assemble import Program, execute
from ...codegen.lower.canonical import Canonical
from ...tracer.ir.graph import Graph, Var
from . import bind as launch


def bind_graph(
    graph: Graph, canonical: Canonical, program: Program, single: bool, args: Sequence[launch.Arg] | None = None,
    counts: np.ndarray | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """*program* bound to the sizes and constants of *graph*, as a callable of *args* (default: those of its inputs).

    *counts* (int64): its runs are counted in ``counts[0]``, failures of guard k in ``counts[1 + k]``.
    """
    if args is None:
        args = argument_records(graph.inputs)
    sizes = canonical.sizes
    shapes = [tuple([int(sizes[d]) for d in s.dims]) for s in program.results]
    consts = [array for _, array in graph.consts]
    if not program.is_native:
        return _interleaved(canonical, single, program, args, consts, counts)
    outs = [
        launch.ArrayOut(s.dtype, shape) if shape else launch.ScalarOut(s.dtype)
        for s, shape in zip(program.results, shapes, strict=True)
    ]
    offsets, total = program.plan(sizes)
    return launch.bind(
        program.segments[0].address, args, outs, [a.ctypes.data for a in consts], offsets, sizes, canonical.consts,
        (program.code, *consts), single, total, counts=counts,
    )  # fmt: skip


def argument_records(inputs: Sequence[Var], scalars: Sequence[type | None] | None = None) -> list[launch.Arg]:
    """Argument records of *inputs*: arrays, or numbers of the type in *scalars* (default: weak inputs are Python
    floats)."""
    kinds = [float if v.aval.weak else None for v in inputs] if scalars is None else scalars
    return [
        launch.ArrayArg(v.aval.dtype, v.aval.shape) if kind is None else launch.ScalarArg(v.aval.dtype, (kind,))
        for v, kind in zip(inputs, kinds, strict=True)
    ]


def _interleaved(
    canonical: Canonical, single: bool, program: Program, args: Sequence[Any], consts: Sequence[np.ndarray],
    counts: np.ndarray | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The callable of a program in which NumPy does some steps: same protocol as a native binding."""

    def call(*values: Any) -> Any:
        if len(values) != len(args):
            return None
        arrays = []
        for value, expected in zip(values, args, strict=True):
            if isinstance(expected, launch.ArrayArg):
                if type(value) is not np.ndarray or value.dtype != expected.dtype or value.shape != expected.shape:
                    return None
                if not (value.flags.c_contiguous and value.flags.aligned):
                    return None
                arrays.append(value)
            elif type(value) in expected.accept:
                arrays.append(np.array(value, expected.dtype))
            else:
                return None
        failed, results = execute(program, canonical, [*arrays, *consts])
        if counts is not None:
            counts[1 + failed] += 1
        if failed >= 0:
            return failed
        final = [r if r.shape else r[()] for r in results]
        return final[0] if single else tuple(final)

    return call


def normalised(values: Sequence[Any]) -> list[Any]:
    """The same values as a launcher accepts them: C-contiguous, aligned arrays."""
    result = []
    for value in values:
        if type(value) is np.ndarray and not (value.flags.c_contiguous and value.flags.aligned):
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


def bind_program(
    graph: Graph, canonical: Canonical, program: Program, args: Sequence[launch.Arg], donated: dict[int, int],
    counts: np.ndarray | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """As :func:`bind_graph`, but result k is written into argument ``donated[k]`` once every guard has held; a call
    returns the tuple of the others."""
    if not donated:
        return bind_graph(graph, canonical, program, False, args, counts)
    consts = [array for _, array in graph.consts]
    if not program.is_native:
        return _copied(_interleaved(canonical, False, program, args, consts, counts), donated)
    sizes = canonical.sizes
    shapes = [tuple([int(sizes[d]) for d in s.dims]) for s in program.results]
    outs = [
        launch.ArrayOut(s.dtype, shape) if shape or k in donated else launch.ScalarOut(s.dtype)
        for k, (s, shape) in enumerate(zip(program.results, shapes, strict=True))
    ]
    offsets, total = program.plan(sizes)
    return launch.bind_donated(
        program.segments[0].address, args, outs, donated, [a.ctypes.data for a in consts], offsets, sizes,
        canonical.consts, (program.code, *consts), False, total, counts=counts,
    )  # fmt: skip


def _copied(call: Callable[..., Any], donated: dict[int, int]) -> Callable[..., Any]:
    """*call*, with some results copied into arguments."""

    def run(*values: Any) -> Any:
        if any(not values[target].flags.writeable for target in donated.values()):
            return None
        found = call(*values)
        if found is None or type(found) is int:
            return found
        for result, target in donated.items():
            values[target][...] = found[result]
        return tuple([r for k, r in enumerate(found) if k not in donated])

    return run
