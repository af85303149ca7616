"""Operations on tensors that lie on a CUDA device.

An ``EagerOp`` is recorded there instead of run: the same function, on traced arrays, gives a small graph of primitives,
which the device computes.  So every operation that has a derivative runs on the device, and its derivative too, by the
same rows (``tracer/ops``).  A graph is kept as a ``Recorded`` for operands of its kind, unless the function looked at
values; start reading at ``compute``.

Views and functions without a derivative (``argmax``, ``isclose``) are no ``EagerOp`` and need nothing here: CuPy's
arrays compute them by NumPy's protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..codegen.evaluate.cupy_backend import CupyBackend
from ..runtime.config import config
from ..runtime.cuda.arrays import full, upload
from ..runtime.cuda.availability import require_cuda
from ..runtime.recent import Recent
from ..tracer.ir.aval import Aval
from ..tracer.ir.graph import Atom, Graph, Pair, Var
from ..tracer.ops.complex import taken_apart
from ..tracer.record.array import TracedArray, to_atom
from ..tracer.record.autocast import off
from ..tracer.record.recorder import Recorder, recording
from .device import device_of, on_cuda
from .modes import STATE
from .op import EagerOp, LocalVjp, aval_of, joined
from .tensor import Tensor, make

PER_OP = 16  # this cache is for all operations, config.max_derivatives for one


@dataclass(frozen=True, slots=True)
class Recorded:
    """An operation for operands of one kind.  *places*: for each result its position among those of the graph, None
    where the function gave None; *single*: it gave no tuple.  The graph has lanes in place of complex values, those of
    results of these *avals*."""

    graph: Graph
    places: tuple[int | None, ...]
    single: bool
    avals: tuple[Aval, ...]


class _Recorder(Recorder):
    """Notes whether the function looked at values: then its graph is good for these operands only."""

    looked = False

    def value(self, atom: Atom) -> Any:
        self.looked = True
        return super().value(atom)


_recorded: Recent[Any, Recorded] = Recent(lambda: PER_OP * config.max_derivatives)


def compute(op: EagerOp, raws: Sequence[Any], statics: tuple[Any, ...] = (), *, numbers: bool = False) -> Any:
    """The result of *op*, at least one of whose operands is on the device: an array there, or a tuple of such.  With
    *numbers*, results that depend on numbers alone are NumPy scalars.

    :raises RuntimeError: in PyTorch's words, where another operand is an array on the host with dimensions.
    :raises OutOfMemoryError: nothing has been changed.
    """
    backend = require_cuda("a tensor on a CUDA device")
    for x in raws:
        if type(x) is np.ndarray and x.ndim:
            raise different_devices(next(r.device.id for r in raws if on_cuda(r)))
    empty = backend.modules.xp.empty
    if isinstance(op, LocalVjp):
        return tuple(joined(backend.execute(op.graph, _lanes(raws))[1], op.given, empty))
    found = _find(op, raws, statics, backend)
    _, results = backend.execute(found.graph, _lanes(raws), numbers=numbers)
    results = joined(results, found.avals, empty)
    given = tuple([None if k is None else results[k] for k in found.places])
    return given[0] if found.single else given


def _lanes(raws: Sequence[Any]) -> list[Any]:
    """Raw operands with both lanes of complex arrays in their place."""
    return [x for raw in raws for x in ((raw.real, raw.imag) if is_complex_array(raw) else (raw,))]


def is_complex_array(x: Any) -> bool:
    """Whether *x* is an array of complex numbers."""
    return not isinstance(x, (float, int)) and x.dtype.kind == "c"


def different_devices(index: int | None) -> RuntimeError:
    """The error for operands on the host and on the device of this *index*."""
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, cuda:{index} and cpu!"
    )


def _find(op: EagerOp, raws: Sequence[Any], statics: tuple[Any, ...], backend: CupyBackend) -> Recorded:
    key = (op, tuple([type(x) if isinstance(x, bool) else aval_of(x) for x in raws]), statics)
    known = _recorded.find(key)
    if known is not None:
        return known
    made, looked = _record(op, raws, statics, backend)
    if not looked:
        _recorded.keep(key, made)
    return made


def _record(op: EagerOp, raws: Sequence[Any], statics: tuple[Any, ...], backend: CupyBackend) -> tuple[Recorded, bool]:
    recorder = _Recorder()
    recorder.backend = backend
    atoms: list[Atom] = []
    places: list[int | None] = []
    with off(), recording(recorder):
        operands = [_operand(recorder, x) for x in raws]
        out = op.fn(*[TracedArray(v, recorder) for v in operands], *statics)
        for result in out if type(out) is tuple else (out,):
            places.append(None if result is None else len(atoms))
            if result is not None:
                atoms.append(to_atom(result))
        recorder.guards.clear()  # the guards hold in this run, and the graph is for no other
        graph = recorder.finish(taken_apart(atoms))
    avals = tuple([atom.aval for atom in atoms])
    return Recorded(graph, tuple(places), type(out) is not tuple, avals), recorder.looked


def _operand(recorder: Recorder, x: Any) -> Var:
    if not is_complex_array(x):
        return recorder.add_input(x, "an operand", weak=type(x) in (int, float))
    re, im = [recorder.add_input(lane, "an operand") for lane in (x.real, x.imag)]
    return Pair(re, im, x.dtype)


# ---- what else the eager layer needs of raw arrays, wherever they lie ------------------------------------------------


def filled(value: float, shape: Sequence[int], dtype: Any, beside: Any) -> Any:
    """An array full of *value* where the array *beside* lies."""
    if STATE.capture is not None:
        return STATE.capture.filled(value, shape, dtype, beside)
    if on_cuda(beside):
        return full(shape, value, dtype)
    return np.full(tuple(shape), value, dtype)


def put_beside(array: Any, beside: Any) -> Any:
    """An array that the host has made, where the array *beside* lies."""
    if STATE.capture is not None:
        return STATE.capture.put_beside(array, beside)
    return upload(array) if type(array) is np.ndarray and on_cuda(beside) else array


def moved_beside(t: Tensor, beside: Any) -> Tensor:
    """An index tensor where the array *beside* lies: an index may be on the host."""
    array = put_beside(t._data, beside)
    return t if array is t._data else make(array)


def calculated(function: Callable[..., Any], data: Any, *statics: Any) -> Any:
    """``function(data, *statics)`` for a raw array wherever it lies; *function* stands in a module."""
    if not on_cuda(data):
        return function(data, *statics)
    return compute(_operation(function), [data], statics)


@cache
def _operation(function: Callable[..., Any]) -> EagerOp:
    return EagerOp(function.__name__, function)


def by_the_host(name: str, array: np.ndarray, beside: Any) -> Any:
    """*array*, which NumPy has computed, moved to where *beside* lies; on a device *name* is counted."""
    if device_of(beside).type == "cpu":
        return array
    require_cuda("a tensor on a CUDA device").host_steps[name] += 1
    return put_beside(array, beside)


def check_positions(data: Any, size: int, dim: int) -> None:
    """Raise IndexError where integers on a device are no positions in *size* elements; waits for the device, which
    itself would read out of bounds."""
    if data.size and bool(((data < -size) | (data >= size)).any()):
        raise IndexError(f"index out of bounds for dimension {dim} with size {size}")


def repeats(data: Any) -> bool:
    """Whether elements of a device array may overlap in memory (expanded, or windows), so that it must not be
    written."""
    reach = 0
    if not data.size:
        return False
    for stride, n in sorted((abs(s), n) for s, n in zip(data.strides, data.shape, strict=True) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (n - 1)
    return False
