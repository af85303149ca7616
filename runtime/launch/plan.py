"""Launch plans: everything that one binding of a kernel knows, and a launch in plain Python.

:func:`run` does what the native launcher does (``launcher_ir.py``), more legibly and some fifty times slower. It needs
neither LLVM nor a launcher, so a first call whose kernel is on disk is made by it.  Start reading there.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...codegen.cpu import symbols
from ...codegen.cpu.cpython import function_address, immortal
from ..memory import address_of
from ..threads import threads

#: ``int64 kernel(void **bufs, int64 *sizes, void *consts, int64 done)``.  It holds the GIL.
KERNEL_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
SLOT_BYTES = 16  # of the buffer of a number; two words, so that a complex result fits


#: The addresses of the pool's functions (``pool.py``), once a kernel has asked for them.
_pool = (ctypes.c_void_p * 2)()


@ctypes.PYFUNCTYPE(ctypes.c_int64)
def _resolve() -> int:
    """Fill the cells; they stay empty where there can be no pool, and kernels do without."""
    with contextlib.suppress(Exception):
        pool = importlib.import_module(".pool", __package__)
        _pool[:] = [pool.function("run"), pool.function("poll")]
    return 0


immortal(_pool)
immortal(_resolve)
symbols.provide("pool:cells", lambda: ctypes.addressof(_pool))
symbols.provide("pool:resolve", lambda: function_address(_resolve))
symbols.provide("pool:threads", lambda: ctypes.addressof(threads.cell))

# --------------------------------------------------------------------------------------------------- records


class ArrayArg(NamedTuple):
    """An ndarray (no subclass) of this dtype and shape, C-contiguous and aligned.  It may be read-only, unless it is
    *written*."""

    dtype: np.dtype
    shape: tuple[int, ...]
    written: bool = False


class ScalarArg(NamedTuple):
    """A float, np.float64 or np.float32, handed to the kernel as *dtype* (float64 or float32).

    *accept* narrows the types, for where they don't mean the same: a Python float takes on the precision of the
    arrays it meets, ``np.float64`` does not.
    """

    dtype: np.dtype
    accept: tuple[type, ...] = (float, np.float64, np.float32)


class ConstArg(NamedTuple):
    """This very object (a singleton or an interned value).  The kernel does not see it."""

    value: object


class ArrayOut(NamedTuple):
    """A new C-contiguous ndarray."""

    dtype: np.dtype
    shape: tuple[int, ...]


class ScalarOut(NamedTuple):
    """A NumPy scalar, never a Python int: the caller can tell a result from the index of a guard by its type."""

    dtype: np.dtype


Arg = ArrayArg | ScalarArg | ConstArg
Out = ArrayOut | ScalarOut


class LaunchPlan(NamedTuple):
    """The arguments of ``bind.bind``; *owned* is what all of its addresses point to, *space* the bytes of the
    workspace that temporaries are in."""

    kernel_address: int
    args: tuple[Arg, ...]
    outs: tuple[Out, ...]
    extra: tuple[int, ...]
    temp_offsets: tuple[int, ...]
    sizes: np.ndarray | None
    consts: bytes | np.ndarray
    owned: tuple[object, ...]
    single: bool
    counts: np.ndarray | None
    scratch: int
    space: int = 0

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Of the sizes, the constants and the counters; 0 where there are none."""
        held = (self.sizes, self.consts if len(self.consts) else None, self.counts)
        sizes, consts, counts = [0 if x is None else address_of(x) for x in held]
        return sizes, consts, counts


# ------------------------------------------------------------------------------------------------------ launch


def run(plan: LaunchPlan, values: Sequence[object], workspace: int) -> object:
    """The answer of the kernel of *plan* to *values*, as ``bind.bind`` says; temporaries lie from the address
    *workspace* on."""
    if len(values) != len(plan.args):
        return None
    bufs: list[int] = []
    slots: list[np.ndarray] = []

    def slot() -> np.ndarray:
        slots.append(np.zeros(SLOT_BYTES, np.uint8))
        bufs.append(address_of(slots[-1]))
        return slots[-1]

    for value, arg in zip(values, plan.args, strict=True):
        if isinstance(arg, ArrayArg):
            if type(value) is not np.ndarray or value.dtype != arg.dtype or value.shape != arg.shape:
                return None
            if not (value.flags.c_contiguous and value.flags.aligned and value.flags.writeable >= arg.written):
                return None
            bufs.append(address_of(value))
        elif isinstance(arg, ScalarArg):
            if type(value) not in arg.accept:
                return None
            c_type = ctypes.c_double if arg.dtype == np.float64 else ctypes.c_float  # which rounds without a warning
            c_type.from_buffer(slot().data).value = value  # type: ignore[assignment]
        elif value is not arg.value:
            return None
    results: list[np.ndarray] = []
    for out in plan.outs:
        if isinstance(out, ArrayOut):
            results.append(np.empty(out.shape, out.dtype))
            bufs.append(address_of(results[-1]))
        else:
            results.append(slot()[: out.dtype.itemsize].view(out.dtype))
    scratch = np.empty(plan.scratch, np.uint8)
    bufs.extend([address_of(scratch)] * bool(plan.scratch))
    bufs.extend(plan.extra)
    bufs.extend(workspace + offset for offset in plan.temp_offsets)
    pointers = (ctypes.c_void_p * len(bufs))(*bufs)
    failed = KERNEL_TYPE(plan.kernel_address)(ctypes.addressof(pointers), *plan.addresses[:2], 0)
    if plan.counts is not None:
        plan.counts[1 + failed] += 1
    if failed >= 0:
        return failed
    given = [r if isinstance(out, ArrayOut) else r[0] for r, out in zip(results, plan.outs, strict=True)]
    return given[0] if plan.single else tuple(given)
