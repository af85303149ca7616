"""Paths: recordings of one kind of call, bound to their kernels.

A ``Variant`` is one call key under one outside state; it holds the ``Path`` objects that its branches have shown so
far, most recent first.  A path is not ``verified`` until a second recording has given the same program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..codegen.interpreter import evaluate
from ..codegen.program import Program, execute
from ..tracer.errors import TracegradError
from . import launch
from .calls import ARRAY, DATA, Call
from .recording import Recording
from .state import Snapshot


@dataclass(eq=False, slots=True)
class Path:
    """One recording with its kernel, ready to run: ``launch(*data, *captured arrays)`` as in ``launch.bind``.

    ``numbers`` are the bits of the floats that Python looked at, as the kernel computed them in the run that was
    recorded; an empty entry has yet to be filled in.
    """

    recording: Recording
    program: Program
    launch: Callable[..., Any]
    assemble: Callable[[Sequence[Any]], Any] | None
    numbers: list[bytes]
    verified: bool = False

    @property
    def guards(self) -> list[Any]:
        return [*self.recording.graph.guards, *self.recording.numbers]


@dataclass(eq=False, slots=True)
class Variant:
    snapshot: Snapshot
    paths: list[Path] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Missed:
    """A guard that did not hold: its index among ``Path.guards``."""

    guard: int


def bind_path(recording: Recording, program: Program, call: Call) -> Path:
    """The path of *recording*: its kernel bound to this call's shapes and constants."""
    canonical = recording.canonical
    args: list[Any] = []
    inputs = iter(recording.graph.inputs)
    for leaf, kind in zip(call.leaves, call.kinds, strict=True):
        if kind == ARRAY:
            args.append(launch.ArrayArg((var := next(inputs)).aval.dtype, var.aval.shape))
        elif kind in DATA:
            args.append(launch.ScalarArg(next(inputs).aval.dtype, (type(leaf),)))
    args += [launch.ArrayArg(var.aval.dtype, var.aval.shape) for var in inputs]
    sizes = canonical.sizes
    shapes = [tuple([int(sizes[d]) for d in s.dims]) for s in program.results]
    consts = [array for _, array in recording.graph.consts]
    single = recording.output.single
    if program.is_native:
        outs = [
            launch.ArrayOut(s.dtype, shape) if shape else launch.ScalarOut(s.dtype)
            for s, shape in zip(program.results, shapes, strict=True)
        ]
        offsets, total = program.plan(sizes)
        bound = launch.bind(
            program.segments[0].address, args, outs, [a.ctypes.data for a in consts], offsets, sizes, canonical.consts,
            (program, consts), single, total,
        )  # fmt: skip
    else:
        bound = _interleaved(recording, program, args, consts)
    assemble = None if recording.output.text is None else recording.output.function()
    return Path(recording, program, bound, assemble, [b""] * len(recording.numbers))


def _interleaved(
    recording: Recording, program: Program, args: Sequence[Any], consts: Sequence[np.ndarray]
) -> Callable[..., Any]:
    """The callable of a program in which NumPy does some steps: same protocol as a native binding."""
    canonical, single = recording.canonical, recording.output.single

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


def run_path(path: Path, call: Call, captured: Sequence[np.ndarray]) -> Any:
    """The results of *path* (a tuple, or the only one), or ``Missed``."""
    values = [*call.data, *captured]
    found = path.launch(*values)
    if found is None:
        found = path.launch(*normalised(values))
    if found is None:
        raise AssertionError("a path did not accept the arguments that its key promises")
    if type(found) is int:
        return Missed(found)
    if path.numbers:
        return _check_numbers(path, found)
    return found


def _check_numbers(path: Path, found: tuple[Any, ...]) -> Any:
    first = len(found) - len(path.numbers)
    for k, expected in enumerate(path.numbers):
        value = found[first + k]
        if not expected:
            if not _close(value, path.recording.numbers[k].expected):
                return Missed(len(path.recording.graph.guards) + k)
            path.numbers[k] = value.tobytes()
        elif value.tobytes() != expected:
            return Missed(len(path.recording.graph.guards) + k)
    return found


def _close(a: Any, b: Any) -> bool:
    """Does a kernel's number agree with NumPy's, rounding aside?"""
    tolerance = 1e-4 if a.dtype == np.float32 else 1e-9
    return bool(np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def interpret(recording: Recording, call: Call, captured: Sequence[np.ndarray]) -> Any:
    """The results of *recording* by NumPy, in the form in which a kernel gives them."""
    values = [np.array(v)[()] for v in evaluate(recording.graph, [*call.data, *captured])]
    return values[0] if recording.output.single else tuple(values)


def compare(path: Path, call: Call, captured: Sequence[np.ndarray], found: Any) -> None:
    """TRACEGRAD_CHECK=1: the interpreter's results against the kernel's."""
    expected = evaluate(path.recording.graph, [*call.data, *captured])
    results = found if isinstance(found, tuple) else (found,)
    for ours, theirs in zip(results, expected, strict=True):
        tolerance = 1e-4 if theirs.dtype == np.float32 else 1e-9
        scale = np.max(np.abs(theirs[np.isfinite(theirs)]), initial=1.0) if theirs.dtype.kind == "f" else 1.0
        if not np.allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            worst = np.nanmax(np.abs(np.asarray(ours, float) - theirs))
            raise TracegradError(
                f"TRACEGRAD_CHECK: kernel and interpreter disagree by {worst} in a result of shape {theirs.shape}; "
                "please report this"
            )
