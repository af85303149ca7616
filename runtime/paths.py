"""Paths: recordings of one kind of call, bound to their kernels.

A ``Variant`` is one call key under one outside state; it holds the ``Path`` objects that its branches have shown so far, most recent first.  A
path is ``unverified`` until a second recording has given the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..codegen.program import Program, execute
from . import launch
from .calls import ARRAY, FLOAT, OBJECT, SCALAR, Call
from .recording import Recording
from .state import Snapshot


@dataclass(eq=False, slots=True)
class Path:
    """One recording with its kernel, ready to run: ``launch(*leaves, *captured arrays)`` as in ``launch.bind``."""

    recording: Recording
    program: Program
    launch: Callable[..., Any]
    constants: dict[int, Any]  # the launcher compares these arguments by identity: position -> object
    verified: bool = False
    runs: int = 0

    @property
    def guards(self) -> list[Any]:
        return self.recording.graph.guards


@dataclass(eq=False, slots=True)
class Variant:
    snapshot: Snapshot
    paths: list[Path] = field(default_factory=list)


def bind_path(recording: Recording, program: Program, call: Call) -> Path:
    """The path of *recording*: its kernel bound to this call's shapes and constants."""
    canonical = recording.canonical
    args: list[Any] = []
    inputs = iter(recording.graph.inputs)
    for leaf, kind in zip(call.leaves, call.kinds, strict=True):
        if kind == ARRAY:
            args.append(launch.ArrayArg((var := next(inputs)).aval.dtype, var.aval.shape))
        elif kind in (FLOAT, SCALAR):
            args.append(launch.ScalarArg(next(inputs).aval.dtype, (type(leaf),)))
        elif kind != OBJECT:
            args.append(launch.ConstArg(leaf))
    args += [launch.ArrayArg(var.aval.dtype, var.aval.shape) for var in list(inputs)]
    sizes = canonical.sizes
    shapes = [tuple(int(sizes[d]) for d in s.dims) for s in program.results]
    consts = [array for _, array in recording.graph.consts]
    if program.is_native:
        outs = [launch.ArrayOut(s.dtype, shape) if shape else launch.ScalarOut(s.dtype) for s, shape in zip(program.results, shapes, strict=True)]
        offsets, total = program.plan(sizes)
        bound = launch.bind(
            program.segments[0].address, args, outs, [a.ctypes.data for a in consts], offsets, sizes, canonical.consts,
            (program, consts), recording.single, total,
        )  # fmt: skip
    else:
        bound = _interleaved(recording, program, args, consts)
    return Path(recording, program, bound, {k: a.value for k, a in enumerate(args) if isinstance(a, launch.ConstArg)})


def _interleaved(recording: Recording, program: Program, args: Sequence[Any], consts: Sequence[np.ndarray]) -> Callable[..., Any]:
    """The callable of a program in which NumPy does some steps: same protocol as a native binding."""
    canonical = recording.canonical

    def call(*values: Any) -> Any:
        if len(values) != len(args):
            return None
        arrays = []
        for value, expected in zip(values, args, strict=True):
            if isinstance(expected, launch.ArrayArg):
                if type(value) is not np.ndarray or value.dtype != expected.dtype or value.shape != expected.shape or not value.flags.carray_ro:
                    return None
                arrays.append(value)
            elif isinstance(expected, launch.ScalarArg):
                if type(value) not in expected.accept:
                    return None
                arrays.append(np.array(value, expected.dtype))
            elif value is not expected.value:
                return None
        failed, results = execute(program, canonical, [*arrays, *consts])
        if failed >= 0:
            return failed
        final = [r if r.shape else r[()] for r in results]
        return final[0] if recording.single else tuple(final)

    return call


def launch_arguments(call: Call) -> list[Any]:
    """The leaves that a path's launcher takes: all but objects."""
    return [x for x, k in zip(call.leaves, call.kinds, strict=True) if k != OBJECT]


def normalised(values: Sequence[Any]) -> list[Any]:
    """The same values as a launcher accepts them: C-contiguous, aligned arrays in native byte order."""
    result = []
    for value in values:
        if type(value) is np.ndarray and not (value.flags.c_contiguous and value.flags.aligned and value.dtype.isnative):
            value = np.array(value, dtype=value.dtype.newbyteorder("="), order="C")
        result.append(value)
    return result


def run_path(path: Path, call: Call, captured: Sequence[np.ndarray]) -> Any:
    """What the launcher of *path* says: results, or the number of a failed guard.  Values are brought into the layout it wants."""
    values = launch_arguments(call)
    found = path.launch(*values, *captured)
    if found is not None:
        return found
    # equal values that are not the same object (a large int), or arrays that are not contiguous
    fixed = normalised([*values, *captured])
    for position, value in path.constants.items():
        fixed[position] = value
    found = path.launch(*fixed)
    if found is None:
        raise AssertionError("a path did not accept the arguments that its key promises")
    return found
