"""Paths: recordings of one kind of call, bound to their kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...codegen.cpu.program import Program
from ...codegen.derive.capacity import CAPACITY
from ...codegen.evaluate.interpreter import evaluate, tolerance
from ...tracer.ir.aval import FLOAT_KINDS, held_dtype
from ...tracer.ir.equality import value_keys
from ...tracer.ir.errors import TracegradError
from ...tracer.ir.graph import Guard, told_value
from ...tracer.ops.host_call import calls_python
from ..cuda.arrays import download, on_device, upload
from ..cuda.run import launcher, program_of
from ..launch import bind as launch
from ..launch.binding import argument_records, bind_graph, launched
from ..record.call_key import ARRAY, COMPLEX_DATA, DATA, INTEGER, Call
from ..record.recording import Recording
from ..record.trees import Source, make_function
from ..stats import PathStats
from ..tensor_library import TENSORS


@dataclass(eq=False, slots=True)
class Path:
    """One recording with its kernel, ready to run: ``launch(*operands)`` as in ``launch.bind``.

    ``numbers`` are the bits of the floats that Python looked at, as the kernel computed them in the run that was
    recorded; an empty entry has yet to be filled in.  ``counts`` are kept by the launcher: how often the path ran to
    its end, then how often each of ``guards`` was the first that failed.
    """

    recording: Recording
    program: Program | None  # None: on a CUDA device, where `launch` has its own
    launch: Callable[..., Any]
    numbers: list[bytes]
    counts: np.ndarray
    guards: list[Guard]  # guards in the order of the kernel's checks, then those on floats
    questions: list[tuple[Any, bytes, int]]  # guards in the order of the run: (which question, answer, index in guards)
    steps: list[int] | None = None  # value numbers of its steps (``shared_prefix.py``)
    _finish: dict[bool, Callable[..., Any]] = field(default_factory=dict)

    def finish(self, call: Call, values: Sequence[Any], found: Any, recorded: bool = False) -> Any:
        """Do what a call does once its kernel, run on *values*, has *found* results; returns the user's result.
        *recorded*: the call has just been recorded."""
        if self.recording.plain:
            return found
        if recorded not in self._finish:
            source = Source()
            source.lines.append(f"arrays = {self.recording.arrays_among(call)}")
            texts = [f"leaves[{k}]" for k in range(len(call.leaves))]
            for effect in self.recording.effects:
                effect.write(source, texts, recorded)
            operands = [f"values[{k}]" for k in range(len(values))]
            source.lines.append(f"return {self.recording.result(source, texts, operands)}")
            self._finish[recorded] = make_function("def finish(r, leaves, values, args, kwargs):", source)
        return self._finish[recorded](found, call.leaves_as_given, values, *call.arguments)

    def number_failed(self, k: int) -> int:
        """Count a run in which float *k* had other bits than recorded; returns the index of that guard."""
        guard = len(self.guards) - len(self.numbers) + k
        self.counts[0] -= 1
        self.counts[1 + guard] += 1
        return guard

    def uncount(self, found: Any) -> None:
        """Take a run that has *found* this out of the counts."""
        self.counts[0 if type(found) is not Missed else 1 + found.guard] -= 1

    @property
    def told(self) -> Any:
        """The questions of the run with their answers, and the facts that it relies on beside them."""
        return [(question, answer) for question, answer, _ in self.questions], self.recording.premises

    def stats(self, mode: str) -> PathStats:
        """The path's counters, by the lines of its guards."""
        runs, *failed = self.counts.tolist()
        misses: Counter[str] = Counter()
        for guard, count in zip(self.guards, failed, strict=True):
            if count:
                misses[describe_guard(guard)] += count
        return PathStats(mode, runs, tuple([describe_guard(self.guards[k]) for *_, k in self.questions]), misses)


def describe_guard(guard: Guard, other: str = "") -> str:
    """A guard as text: ``bool() gave True at m.py:3 in f``."""
    if guard.kind == CAPACITY:
        return f"a loop {'takes more than the' if other else 'ended within the'} room for its steps at {guard.site}"
    if guard.said is not None:
        return f"{guard.said[bool(other)]} at {guard.site}"
    return f"{guard.kind}() gave {other}{told_value(guard.kind, guard.expected)} at {guard.site}"


@dataclass(frozen=True, slots=True)
class Missed:
    """A guard that did not hold: the answer of the launch; -1: the operands are laid out otherwise."""

    guard: int


def bind_path(recording: Recording, program: Program, call: Call) -> Path:
    """The path of *recording*: its kernel bound to this call's shapes and constants."""
    given = [(leaf, kind) for leaf, kind in zip(call.leaves, call.kinds, strict=True) if kind in DATA]
    scalars = [None if k in (ARRAY, COMPLEX_DATA) else float if k == INTEGER else type(leaf) for leaf, k in given]
    scalars += [None if isinstance(value, np.ndarray) else type(value) for value in recording.captured]
    args = argument_records(recording.graph.inputs, scalars)
    counts = new_counts(recording)
    bound = bind_graph(
        recording.graph, recording.canonical, program, recording.output.single, args, counts,
        native=launch.launcher_is_made(),
    )  # fmt: skip
    return make_path(recording, program, bound, counts)


def bind_device_path(recording: Recording, stays: bool) -> tuple[Path, bool]:
    """(the path of *recording* on the CUDA device, were its kernels there already); *stays*: its results stay there."""
    counts, graph = new_counts(recording), recording.graph
    program = program_of(graph, recording.canonical, recording.arguments)
    bound = launcher(
        program, len(graph.inputs), recording.captured, single=recording.output.single, stays=stays,
        numbers=len(recording.numbers), counts=counts,
    )  # fmt: skip
    return make_path(recording, None, bound, counts), program.cached


def new_counts(recording: Recording) -> np.ndarray:
    """Counters for the launcher, as in ``Path.counts``."""
    return np.zeros(1 + len(recording.graph.guards) + len(recording.numbers), np.int64)


def make_path(recording: Recording, program: Program | None, bound: Callable[..., Any], counts: np.ndarray) -> Path:
    """The path of *recording*, whose kernel *bound* counts its runs in *counts*."""
    guards = [*recording.graph.guards, *recording.numbers]
    order = sorted(enumerate(guards), key=lambda item: item[1].position)
    graph = recording.graph
    floats = graph.outputs[len(graph.outputs) - len(recording.numbers) :]  # results of the kernel, the last ones
    asked = value_keys(graph, [*[g.atom for g in graph.guards], *floats])
    questions = [((g.kind, g.site, asked[index]), g.answer, index) for index, g in order]
    return Path(recording, program, bound, [b""] * len(recording.numbers), counts, guards, questions)


def outgrown(path: Path, recording: Recording) -> bool:
    """Whether *path* is the same program as the new *recording*, but for smaller capacities of its loops."""
    known = path.recording
    return (
        known.capacities != recording.capacities
        and known.canonical.key == recording.canonical.key
        and known.facts == recording.facts
    )


def run_path(path: Path, launch: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The results (a tuple, or the only one) of *launch*, that of *path* or of its family, for these operands, or
    ``Missed``."""
    found = launch(*values) if path.recording.exact else launched(launch, values)
    if found is None:
        return Missed(-1)
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
                return Missed(path.number_failed(k))
            path.numbers[k] = value.tobytes()
        elif value.tobytes() != expected:
            return Missed(path.number_failed(k))
    return found


def _close(a: Any, b: Any) -> bool:
    """Whether a kernel's number agrees with NumPy's up to rounding."""
    limit = tolerance(a.dtype)
    return bool(np.isclose(a, b, rtol=limit, atol=limit, equal_nan=True))


def interpret(recording: Recording, call: Call, values: Sequence[Any]) -> Any:
    """The results of *recording* by NumPy, in the form in which a kernel gives them."""
    found: list[Any] = [np.array(v)[()] for v in evaluate(recording.graph, _on_host(values))]
    if call.device is not None and call.device.stays:
        found = [TENSORS.wrap(upload(np.asarray(v))) for v in found]
    return found[0] if recording.output.single else tuple(found)


def compare(path: Path, values: Sequence[Any], found: Any) -> None:
    """TRACEGRAD_CHECK=1: the interpreter's results against the kernel's."""
    expected = evaluate(path.recording.graph, _on_host(values))
    results = found if isinstance(found, tuple) else (found,)
    for ours, theirs in zip(results, expected, strict=True):
        ours = download(TENSORS.data(ours)) if isinstance(ours, TENSORS.types) else ours
        compare_result(ours, theirs, solves=calls_python(path.recording.graph.nodes))


_SOLVED = 1e-4  # how far solutions may differ


def _on_host(values: Sequence[Any]) -> list[Any]:
    return [download(x) if on_device(x) else x for x in values]


def compare_result(ours: Any, theirs: np.ndarray, *, solves: bool = False) -> None:
    """An error where a kernel's result is not the interpreter's, rounding aside.  A solver of SciPy's (*solves*) stops
    somewhere within its own tolerance, and rounding decides where."""
    limit = max(tolerance(theirs.dtype), _SOLVED if solves else 0)
    ours, theirs = (np.asarray(x).astype(held_dtype(theirs.dtype), copy=False) for x in (ours, theirs))
    scale = np.max(np.abs(theirs[np.isfinite(theirs)]), initial=1.0) if theirs.dtype.kind in FLOAT_KINDS else 1.0
    if not np.allclose(ours, theirs, rtol=limit, atol=limit * scale, equal_nan=True):
        worst = np.nanmax(np.abs(np.asarray(ours, float) - theirs))
        raise TracegradError(
            f"TRACEGRAD_CHECK: kernel and interpreter disagree by {worst} in a result of shape {theirs.shape}; "
            "please report this"
        )
