"""Recorded steps on a CUDA device: one call computes everything, and writes only when all of it is known to hold.

A step's recording (``step_recording.py``) has inputs and results on the device, and some on the host: learning rates,
counts of steps, batches that NumPy has made.  ``StepProgram`` has it in two parts
(``codegen/lower/host_device_split.py``): a kernel of the CPU for the part that depends on the host alone, and a
``DeviceProgram`` (``run.py``) for the rest.  A path of a step calls ``launch``, with the protocol of
``binding.compiled``:

1. the arguments are checked, as by the native launcher;
2. the host's part runs: its guards may fail before the device has been asked for anything;
3. the device's part runs, and copies its results into the memory of parameters when its guards have held;
4. the host's results are written.

A failed guard or too little memory ends it before anything is written.  Nothing waits for the device but its guards.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..codegen.lower.canonical import canonicalise
from ..codegen.lower.host_device_split import Divided, divide
from ..runtime.cuda.availability import require_cuda
from ..runtime.cuda.run import program_of
from ..runtime.launch.binding import argument_records, compiled, launched
from ..runtime.record.call_key import TENSOR, Call
from ..runtime.state.state_graph import StateGraph
from ..tensors.device import on_cuda
from ..tracer.ir.graph import Graph


def is_given_there(call: Call) -> bool:
    """Whether a tensor among the arguments lies on a device."""
    return any(kind == TENSOR and on_cuda(t._data) for t, kind in zip(call.leaves, call.kinds, strict=True))


def has_leaves_on_host(call: Call, graph: StateGraph) -> bool:
    """Whether a tensor on the host, of the arguments or of *graph*, requires gradients."""
    tensors = [x for x, kind in zip(call.leaves, call.kinds, strict=True) if kind == TENSOR]
    return bool(graph.leaves_on_host) or any(t._requires and not on_cuda(t._data) for t in tensors)


class StepProgram:
    """*graph*, whose first results are *written* into the inputs of these positions.

    *scalars*: the types of inputs that are numbers, None for arrays; *inputs_on_host*, *results_on_host*: flags of
    those that lie there.  ``cached``: nothing had to be compiled.
    """

    def __init__(
        self, graph: Graph, scalars: Sequence[type | None], inputs_on_host: Sequence[bool],
        results_on_host: Sequence[bool], written: Sequence[int], counts: np.ndarray,
    ) -> None:  # fmt: skip
        parts = divide(graph, inputs_on_host, results_on_host)
        assert parts is not None, "a recording that the host cannot have its results of is not kept"
        self.parts: Divided = parts
        self.on_host: Callable[..., Any] | None = None
        hit: int = True
        if parts.host.outputs or parts.host.guards:
            args = argument_records(parts.host.inputs, [scalars[k] for k in parts.host_reads])
            self.on_host, hit = compiled(parts.host, args)  # simplified again: no products of half precision there
        targets = [k for k, here in zip(written, results_on_host, strict=False) if not here]
        self.canonical = canonicalise(parts.device)
        self.device = program_of(parts.device, self.canonical, len(parts.device.inputs), len(targets))
        self.cached = bool(hit and self.device.cached)
        self._targets = targets
        self._counts = counts  # as in ``Path.counts``
        self._host_targets = [k for k, here in zip(written, results_on_host, strict=False) if here]
        self._others = list(results_on_host[len(written) :])
        self._xp = require_cuda("a step on the device").modules.xp
        self._home = self._xp.cuda.Device().id
        self._written = frozenset(written)
        self._known: list[Callable[[], Any]] = [lambda: None] * len(graph.inputs)
        self._accepted: list[tuple[type, Any, tuple[int, ...]]] = [
            (np.ndarray if here else self._xp.ndarray, v.aval.dtype, v.aval.shape) if kind is None else (kind, None, ())
            for v, kind, here in zip(graph.inputs, scalars, inputs_on_host, strict=True)
        ]

    def launch(self, *values: Any) -> Any:
        """The results that are not written, as arrays where they lie; the number of a guard that failed; None where
        *values* are not of the recorded kinds, or targets are read-only or not in C order."""
        found = self._launch(values)
        if found is not None:
            self._counts[1 + found if type(found) is int else 0] += 1
        return found

    def _launch(self, values: Sequence[Any]) -> Any:
        if not self._accepts(values):
            return None
        parts = self.parts
        found: Sequence[Any] = ()
        if self.on_host is not None:
            found = launched(self.on_host, [values[k] for k in parts.host_reads])
            if type(found) is int:
                return parts.host_guards[found]
        kept = len(found) - len(parts.numbers)
        given = [*[values[k] for k in parts.device_reads], *found[kept:]]
        failed, results = self.device.execute(given, [values[k] for k in self._targets])
        if failed >= 0:
            return parts.device_guards[failed]
        for target, value in zip(self._host_targets, found, strict=False):
            values[target][...] = value
        ours, theirs = iter(found[len(self._host_targets) : kept]), iter(results)
        return tuple([next(ours if here else theirs) for here in self._others])

    def _accepts(self, values: Sequence[Any]) -> bool:
        """Whether *values* are of the recorded kinds; device arrays of the last call are recognised by identity."""
        if self._xp.cuda.Device().id != self._home:
            return False
        for k, value in enumerate(values):
            kind, dtype, shape = self._accepted[k]
            found = type(value)
            if found is not kind or (dtype is not None and value.shape != shape):
                return False
            if dtype is None or self._known[k]() is value:
                continue
            if value.dtype != dtype or (k in self._written and not self._writable(value)):
                return False
            if found is not np.ndarray:
                self._known[k] = weakref.ref(value)
        return True

    def _writable(self, array: Any) -> bool:
        if type(array) is np.ndarray:
            return bool(array.flags.writeable)
        return array.flags.c_contiguous and array.device.id == self._home

    def describe(self) -> str:
        """For ``explain()``: how it runs."""
        count = len(self.parts.host.nodes)
        lines = [f"on the host, before: {count} operation{'s' * (count != 1)} on numbers"] * (self.on_host is not None)
        return "\n".join([*lines, self.device.describe()])
