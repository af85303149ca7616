"""``fused_update``: many arrays written in place by one rule, in one native launch.

A *rule* is a pure elementwise function of the arrays of one parameter, ``rule((p, g, ...), *numbers, *statics)``, which
gives as many entries: the new array, or None for one that is only read.  Eagerly it is recorded once for flat arrays of
any length, so that one kernel serves every parameter of every model, and a *tape* (``tape.py``) calls that kernel for
each row: in blocks, whose results go through the arena and are copied into the arrays' own memory while they are in the
cache.  Numbers (learning rates and so on) are arguments of the kernel: a new value compiles nothing.

Start reading at ``fused_update``.  Its one data structure is ``_families``: bound launchers by rule and number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ..codegen.cpu.program import Program
from ..codegen.lower.canonical import Canonical, canonicalise
from ..codegen.lower.simplify import simplify
from ..runtime.config import config
from ..runtime.cuda.availability import IN_USE
from ..runtime.launch import bind
from ..runtime.launch.kernel_cache import kernels
from ..runtime.launch.tape import Tape
from ..runtime.paths.paths import compare_result
from ..runtime.recent import Recent
from ..tracer.ir.aval import FLOAT32, HALF
from ..tracer.record.array import TracedArray, to_atom
from ..tracer.record.autocast import off
from ..tracer.record.recorder import Recorder, recording
from .device import on_cuda
from .dtypes import lane_of
from .modes import STATE
from .on_device import compute
from .op import EagerOp, for_kernel
from .tensor import Tensor

Rule = Callable[..., tuple[Any, ...]]
Place = tuple[Any, ...]  # place of a number: (group, "lr") or (group, "betas", 0)

BLOCK = 8192  # elements of a row that are done at a time: what Adam reads and writes of them fits into a cache
_FLAT = 1009  # the length of the arrays that a rule is recorded with; stands for any other
_MAX_FAMILIES, _MAX_MEMBERS = 128, 16


def fused_update(
    rule: Rule, rows: Sequence[tuple[Tensor, ...]], hyper: Sequence[Place], statics: tuple[Any, ...] = ()
) -> None:
    """Write ``rule(row, *numbers, *statics)`` into the tensors of each row.

    :param rule: see above.  Arrays of a row have one shape, or are 0-d.  It uses NumPy functions only and does not look
        at values.  Complex arrays are real ones of their lanes.  Of two rows that share memory the first is done first.
    :param rows: a tuple of tensors for each parameter.
    :param hyper: places of the numbers, as paths of keys; they are read at each call.
    :param statics: settings that are part of the program.
    """
    if not rows:
        return
    if STATE.capture is not None:
        _capture(STATE.capture, rule, rows, hyper, statics)
        return
    tensors = list(chain.from_iterable(rows))
    values: list[Any] = [t._data for t in tensors]
    if IN_USE[0] and any(map(on_cuda, values)):
        numbers = [float(p[0][p[1]]) if len(p) == 2 else float(p[0][p[1]][p[2]]) for p in hyper]
        _on_device(rule, rows, numbers, statics)
        return
    values += [float(p[0][p[1]]) if len(p) == 2 else float(p[0][p[1]][p[2]]) for p in hyper]
    family = None if config.check else _families.get((rule, statics, len(rows)))
    if family is not None and _launched(family, tensors, values):
        return
    if any(t._data.dtype.kind == "c" for t in tensors):
        values[: len(tensors)] = [for_kernel(t._data) for t in tensors]
        if family is not None and _launched(family, tensors, values):
            return
    for k in _slowly(rule, len(rows), values, len(hyper), statics):
        tensors[k]._counter[0] += 1


def _launched(family: Sequence[_Member], tensors: Sequence[Tensor], values: Sequence[Any]) -> bool:
    """Whether a launcher has taken *values*, and written into *tensors*."""
    for member in family:
        run = member.run
        if run is not None and run(*values) is not None:
            for k in member.written:
                tensors[k]._counter[0] += 1
            return True
    return False


def _capture(capture: Any, rule: Rule, rows: Sequence[Any], hyper: Sequence[Place], statics: tuple[Any, ...]) -> None:
    """``fused_update`` recorded as part of a larger program."""
    numbers = [capture.number(place) for place in hyper]
    for row in rows:
        arrays = tuple([_lanes(capture.raw(t)) for t in row])
        for t, array, new in zip(row, arrays, rule(held(arrays), *numbers, *statics), strict=True):
            if new is not None:
                array[...] = new
                t._counter[0] += 1


def _lanes(x: TracedArray) -> TracedArray:
    """*x*; of complex numbers their lanes, as a view."""
    return x if x.dtype.kind != "c" else x[..., None].view(lane_of(x.dtype))


def held(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays that a rule gets: float32 in place of half precision."""
    return tuple([a.astype(FLOAT32) if a.dtype in HALF else a for a in arrays])


def _on_device(rule: Rule, rows: Sequence[tuple[Tensor, ...]], numbers: list[float], statics: tuple[Any, ...]) -> None:
    """``fused_update`` of tensors on a CUDA device.  Every row is computed before any is written, so that an
    OutOfMemoryError changes nothing; but rows that share tensors are done one after the other."""
    if any(t._data.dtype.kind == "c" for row in rows for t in row):
        raise NotImplementedError(
            "optimizers do not take complex parameters on a CUDA device: pass tracegrad.view_as_real(z) as a leaf, and "
            "make z = tracegrad.view_as_complex(p) of it"
        )
    width = len(rows[0])
    op = _device_op(rule, width, statics)
    shared = len({id(t._data) for row in rows for t in row}) < width * len(rows)
    for part in [[row] for row in rows] if shared else [rows]:
        found = [compute(op, [*[t._data for t in row], *numbers], numbers=True) for row in part]
        for row, results in zip(part, found, strict=True):
            for t, new in zip(row, results, strict=True):
                if new is not None:
                    t._data[...] = new
                    t._counter[0] += 1


@cache
def _device_op(rule: Rule, width: int, statics: tuple[Any, ...]) -> EagerOp:
    return EagerOp("Update", lambda *values: rule(held(values[:width]), *values[width:], *statics))


# ---- what is bound -------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Member:
    """Rows of one kind.  ``run`` is a launcher; None before the second call, and where only NumPy can do it."""

    signature: tuple[Any, ...]  # dtype and shape of each array
    run: Callable[..., Any] | None = None
    written: tuple[int, ...] = ()  # positions among all arrays
    refused: bool = False


_families: Recent[tuple[Rule, tuple[Any, ...], int], tuple[_Member, ...]] = Recent(lambda: _MAX_FAMILIES)


def _slowly(rule: Rule, rows: int, values: list[Any], numbers: int, statics: tuple[Any, ...]) -> Sequence[int]:
    """Positions of the arrays that have been written: by NumPy in the first call, later by a kernel."""
    arrays = values[: len(values) - numbers]
    width = len(arrays) // rows
    signature = tuple([(a.dtype, a.shape) for a in arrays])
    key = (rule, statics, rows)
    with _families.lock:
        family = _families.get(key, ())
        member = next((m for m in family if m.signature == signature), None)
        known = member is not None
        if member is None:
            member = _Member(signature)
        _families.keep(key, (member, *[m for m in family if m is not member][: _MAX_MEMBERS - 1]))
    if known and member.run is None and not member.refused:
        bound = _bind(rule, arrays, width, numbers, statics)
        if bound is None:
            member.refused = True
        else:
            member.run, member.written = bound
    run = member.run
    if run is not None:
        expected = _expected(rule, values, width, numbers, statics) if config.check else ()
        if run(*values) is not None or run(*_readable(values, member.written)) is not None:
            for ours, theirs in zip(arrays, expected, strict=False):
                compare_result(ours, theirs)
            return member.written
    return _by_numpy(rule, arrays, width, values[len(arrays) :], statics)


def _readable(values: Sequence[Any], written: Sequence[int]) -> list[Any]:
    """*values* with C-ordered copies of arrays that are only read: gradients often lie in another order."""
    kept = set(written)
    return [
        np.array(v, order="C") if type(v) is np.ndarray and k not in kept and not v.flags.carray else v
        for k, v in enumerate(values)
    ]


def _by_numpy(
    rule: Rule, arrays: Sequence[np.ndarray], width: int, numbers: Sequence[float], statics: tuple[Any, ...]
) -> list[int]:
    """Apply the rule by NumPy, row after row; returns the positions of the written arrays."""
    written: list[int] = []
    for first in range(0, len(arrays), width):
        row = held(arrays[first : first + width])
        with np.errstate(all="ignore"):
            results = rule(row, *numbers, *statics)
        changes = [(first + k, new) for k, new in enumerate(results) if new is not None]
        for k, _ in changes:
            if not arrays[k].flags.writeable:
                raise ValueError(
                    f"a tensor of shape {list(arrays[k].shape)} is to be updated in place, but its memory is "
                    "read-only: make it of a copy of the NumPy array"
                )
        for k, new in changes:
            arrays[k][...] = new
            written.append(k)
    return written


def _expected(
    rule: Rule, values: Sequence[Any], width: int, numbers: int, statics: tuple[Any, ...]
) -> list[np.ndarray]:
    """The results of NumPy on copies of the arrays (TRACEGRAD_CHECK=1); arrays of one memory have one copy."""
    copy_at: dict[Any, np.ndarray] = {}
    copies = [
        copy_at.setdefault((v.__array_interface__["data"][0], v.shape, v.dtype), v.copy())
        for v in values[: len(values) - numbers]
    ]
    _by_numpy(rule, copies, width, values[len(copies) :], statics)
    return copies


# ---- from a rule to a launcher -------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Kernel:
    """A rule compiled for rows of one kind, of any length."""

    program: Program
    canonical: Canonical
    columns: list[int]  # positions in a row of the arrays that are written
    sizes: dict[int, np.ndarray]  # length -> the table of sizes

    @property
    def owned(self) -> tuple[object, ...]:
        """The objects that the addresses on a tape point to."""
        return (self.program.code, self.canonical.consts, *self.sizes.values())

    def sizes_for(self, count: int) -> np.ndarray:
        found = self.sizes.get(count)
        if found is None:
            sizes = self.canonical.sizes
            found = self.sizes[count] = np.where(sizes == _FLAT, count, sizes)
        return found


def _compile(
    rule: Rule, kinds: Sequence[tuple[np.dtype, bool]], numbers: int, statics: tuple[Any, ...]
) -> _Kernel | None:
    """The kernel for rows whose arrays are of *kinds* (dtype, whether 0-d); None where a kernel cannot do it."""
    recorder = Recorder()
    outputs, columns = [], []
    with off(), recording(recorder):
        stand_ins = [np.zeros(() if single else (_FLAT,), dtype) for dtype, single in kinds]
        arrays = tuple([TracedArray(recorder.add_input(a, f"array {k}"), recorder) for k, a in enumerate(stand_ins)])
        scalars = [TracedArray(recorder.add_input(1.0, f"number {k}", weak=True), recorder) for k in range(numbers)]
        for k, (array, new) in enumerate(zip(arrays, rule(held(arrays), *scalars, *statics), strict=True)):
            if new is None:
                continue
            if not isinstance(new, TracedArray) or new.shape != array.shape:
                return None
            outputs.append(to_atom(new if new.dtype == array.dtype else new.astype(array.dtype)))
            columns.append(k)
    if recorder.guards or not outputs:
        return None
    graph = simplify(recorder.finish(outputs))
    canonical = canonicalise(graph)
    program, _ = kernels.get(canonical, len(graph.inputs))
    if not program.address or graph.consts or len(program.results) != len(columns):
        return None
    return _Kernel(program, canonical, columns, {})


def _bind(
    rule: Rule, arrays: Sequence[np.ndarray], width: int, numbers: int, statics: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[int, ...]] | None:
    """(launcher for rows like these, positions of the arrays that it writes); None where there is no kernel."""
    compiled: dict[Any, _Kernel] = {}
    tape = Tape(len(arrays) + numbers)
    written: list[int] = []
    longest = min(BLOCK, max([a.size for a in arrays]))
    stride = -(-max(longest, 1) * max([a.itemsize for a in arrays]) // 64) * 64
    used = width * stride  # of the arena: a place for the results of each column, then temporaries
    for first in range(0, len(arrays), width):
        row = arrays[first : first + width]
        kind = tuple([(a.dtype, not a.shape) for a in row])
        kernel = compiled.get(kind) or _compile(rule, kind, numbers, statics)
        lengths = {a.size for a in row if a.shape}
        if kernel is None or len(lengths) > 1:
            return None
        compiled[kind] = kernel
        written += [first + k for k in kernel.columns]
        used = max(used, _write_row(tape, kernel, row, first, len(arrays), numbers, stride, max(lengths, default=1)))
    marked = set(written)
    args: list[bind.Arg] = [bind.ArrayArg(a.dtype, a.shape, k in marked) for k, a in enumerate(arrays)]
    args += [bind.ScalarArg(np.dtype(np.float64), (float,))] * numbers
    owned = [part for kernel in compiled.values() for part in kernel.owned]
    run = bind.bind_tape(tape, args, keep_alive=owned, space=used)
    return run, tuple(written)


def _write_row(
    tape: Tape,
    kernel: _Kernel,
    row: Sequence[np.ndarray],
    first: int,
    total: int,
    numbers: int,
    stride: int,
    length: int,
) -> int:
    """Put one row on the tape; bytes of the arena that it takes.

    The launcher's buffers are *total* arrays, of which the row's begin at *first*, then the numbers, then the arena.
    """
    arena = total + numbers
    address, consts = kernel.program.address, kernel.canonical.consts.ctypes.data
    staged = {k: (arena, k * stride) for k in kernel.columns}
    used = 0
    for start in range(0, max(length, 1), BLOCK):
        count = min(BLOCK, length - start)
        sizes = kernel.sizes_for(count)
        offsets, nbytes = kernel.program.plan(sizes)
        base = len(row) * stride
        used = max(used, base + nbytes)
        places = [(first + k, start * a.itemsize if a.shape else 0) for k, a in enumerate(row)]
        places += [(total + k, 0) for k in range(numbers)]
        places += staged.values()
        places += [(arena, base + offset) for offset in offsets]
        tape.call(address, sizes.ctypes.data, consts, places)
        for k in kernel.columns:
            if row[k].shape:
                tape.copy(staged[k], (first + k, start * row[k].itemsize), count * row[k].itemsize)
            elif start + BLOCK >= length:  # each block reads the old number
                tape.copy(staged[k], (first + k, 0), row[k].itemsize)
    return used
