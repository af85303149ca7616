"""Programs on a CUDA device: recordings bound to a launch there, in the place of the native launcher.

A *program* here is whatever has ``execute(values, targets) -> (failed guard or -1, results)`` over arrays of the device
(``DeviceProgram``): kernels (``bound_program.py``), or CuPy, operation by operation (``Interpreted``), where numba-cuda
is not installed.  ``program_of`` is the one place that chooses.

``launcher`` puts such a program behind the protocol of ``launch.bind``: a callable of arguments and captured arrays
that gives the results, or the number of a failed guard.  Results of arguments on the device stay there, as Tensors, and
nothing waits for them; where all arguments are NumPy arrays, results are NumPy's.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...codegen.evaluate.cupy_backend import CupyBackend
from ...codegen.lower.canonical import Canonical
from ...tracer.ir.errors import DeviceError
from ...tracer.ir.graph import Graph
from ...tracer.ir.refusals import Refusal
from ..tensor_library import TENSORS
from .availability import require_cuda


class DeviceProgram(Protocol):
    """Something that computes the outputs of a graph on the current device; *program*: its kernels, if there are any;
    *cached*: they were there already."""

    program: Any
    cached: bool

    def execute(self, values: Sequence[Any], targets: Sequence[Any] = ()) -> tuple[int, list[Any]]:
        """(index of the first guard that does not hold or -1, the outputs as arrays of the device).

        *values*: arrays of the device or of NumPy, or numbers, as the graph's inputs have it.  The first outputs are
        not given, but copied into *targets*, C-contiguous arrays of the device, once every guard has held.
        OutOfMemoryError: nothing has been changed.
        """

    def describe(self) -> str:
        """For ``explain()``: how it runs."""


class Interpreted:
    """A graph run by CuPy, operation by operation."""

    program = None
    cached = True

    def __init__(self, graph: Graph, backend: CupyBackend, why: str) -> None:
        self.graph, self._backend, self._why = graph, backend, why

    def execute(self, values: Sequence[Any], targets: Sequence[Any] = ()) -> tuple[int, list[Any]]:
        failed, results = self._backend.execute(self.graph, values)
        if failed >= 0:
            return failed, results
        for target, result in zip(targets, results, strict=False):
            target.data.copy_from_device_async(result.data, result.nbytes)
        return failed, results[len(targets) :]

    def describe(self) -> str:
        """For ``explain()``: how it runs."""
        lines = [f"CuPy, operation by operation ({self._why}): {len(self.graph.nodes)} operations"]
        lines += [str(Refusal.KERNEL_CUPY(operation=name)) for name in self._backend.runs_on_host(self.graph)]
        return "\n".join(lines)


@functools.cache
def compiler() -> Any:
    """The module ``bound_program``, or a string: the reason why it can't be imported."""
    try:
        return importlib.import_module(f"{__package__}.bound_program")
    except (DeviceError, ImportError) as error:  # numba-cuda, or a part of it
        return str(error)


def program_of(graph: Graph, canonical: Canonical, arguments: int, written: int = 0) -> DeviceProgram:
    """The device program of *graph*, whose canonical form is *canonical*.  *arguments*: the number of inputs without
    constants; *written*: the number of leading outputs that go into targets."""
    backend, found = require_cuda("a recorded program"), compiler()
    if isinstance(found, str):
        return Interpreted(graph, backend, found)
    return found.BoundProgram(canonical, arguments, [array for _, array in graph.consts], backend, written)


def launcher(
    program: DeviceProgram, inputs: int, captured: Sequence[Any], *, single: bool, stays: bool, numbers: int,
    counts: np.ndarray,
) -> Callable[..., Any]:  # fmt: skip
    """*program*, which takes so many *inputs*, as a callable of them.  *captured*: what those after the arguments were;
    the answer is None where such a one is of another type, dtype or shape, or on another device.

    *single*: it has one result, handed over bare.  *stays*: results are Tensors on the device, else NumPy arrays.  The
    last *numbers* results are what Python looked at to the last bit: NumPy scalars, read back.  Runs are counted in
    ``counts[0]``, failures of guard k in ``counts[1 + k]``.
    """

    xp = require_cuda("a recorded program").modules.xp
    here, arguments = xp.cuda.Device().id, inputs - len(captured)
    looks = [(type(x), getattr(x, "dtype", None), getattr(x, "shape", None)) for x in captured]

    def alike(values: Sequence[Any]) -> bool:
        for value, (kind, dtype, shape) in zip(values, looks, strict=True):
            if type(value) is not kind or (shape is not None and (value.shape != shape or value.dtype != dtype)):
                return False
            if kind is xp.ndarray and value.device.id != here:
                return False
        return True

    def launch(*values: Any) -> Any:
        if len(values) != inputs or (looks and not alike(values[arguments:])):
            return None
        failed, results = program.execute(values)
        counts[1 + failed] += 1
        if failed >= 0:
            return failed
        first = len(results) - numbers
        given = [TENSORS.wrap(r) for r in results[:first]] if stays else [r.get()[()] for r in results[:first]]
        given += [r.get()[()] for r in results[first:]]
        return given[0] if single else tuple(given)

    return launch


def for_slot(launch: Callable[..., Any], example: Sequence[Any], inputs: int) -> Callable[..., Any]:
    """*launch* for a slot: with checks of the arguments' types, dtypes, shapes and layouts.

    *example*: the data of a call that *launch* answers for; so many *inputs*, the rest of which *launch* looks at.
    None where anything is of another type, dtype, shape or layout, on another device, or asks for a gradient through
    the call.
    """
    xp = require_cuda("a recorded program").modules.xp
    here = xp.cuda.Device().id
    kinds = [type(x) for x in example]
    looks = [(x.dtype, x.shape) if isinstance(x, (np.ndarray, xp.ndarray)) else None for x in example]

    def checked(*values: Any) -> Any:
        if len(values) != inputs or xp.cuda.Device().id != here:
            return None
        given = []
        for value, kind, look in zip(values, kinds, looks, strict=False):
            if kind is xp.ndarray and isinstance(value, TENSORS.types):
                if TENSORS.requires_grad(value):
                    return None
                value = TENSORS.data(value)
            if type(value) is not kind:
                return None
            if look is not None and ((value.dtype, value.shape) != look or not value.flags.c_contiguous):
                return None
            if kind is xp.ndarray and value.device.id != here:
                return None
            given.append(value)
        return launch(*given, *values[len(given) :])

    return checked
