"""The C code behind a ufunc of NumPy or SciPy: its inner loops, and SciPy's function of one element.

The inner loop of a ufunc of SciPy asks the processor for its floating-point state and clears it, which takes as long as
ten multiplications: nothing for a million elements in one call, much for one.  The functions of one element that these
loops call are those of ``scipy.special.cython_special``, SciPy's interface for compiled code; their addresses and C
signatures stand in its capsules.  Where there is none of floats, SciPy's loop computes in double, too.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import re
import sys
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from scipy.special import cython_special


class _UFuncObject(ctypes.Structure):
    """The stable head of PyUFuncObject (numpy/ufuncobject.h)."""

    _fields_ = [
        ("refcount", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    ]


def ufunc_loop(function: Any, signature: str) -> tuple[int, int]:
    """(address, data) of the inner loop of *function* for *signature* such as ``"d->d"``."""
    position = function.types.index(signature)
    head = _UFuncObject.from_address(id(function))
    if head.nin != function.nin or head.ntypes != function.ntypes:
        raise RuntimeError(f"the layout of ufunc objects is not the expected one (NumPy {np.__version__})")
    return head.functions[position] or 0, (head.data[position] or 0) if head.data else 0


class CFunction(NamedTuple):
    """SciPy's function of one element: floats, doubles, complex doubles and longs in; results are returned, or written
    through pointers."""

    address: int
    flag: bool  # whether a last int argument is expected, 0
    pointers: int  # to which the results are written; 0 where the one result is returned


_C_TYPES = {"d": ("double",), "f": ("float",), "l": ("long", "Py_ssize_t")}
# where a complex double is passed and returned in two registers of doubles
if sys.platform != "win32" and platform.machine() in ("x86_64", "aarch64", "arm64"):
    _C_TYPES["D"] = ("__pyx_t_double_complex",)
_FLAG = "int __pyx_skip_dispatch"


@functools.cache
def _by_name() -> dict[str, list[tuple[str, Any]]]:
    """Name -> (C signature, capsule) of each of its variants."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for name, capsule in cython_special.__pyx_capi__.items():
        plain = re.sub(r"^__pyx_fuse_\d+(_\d+)?", "", name)
        found.setdefault(plain, []).append((_capsule_name(capsule).decode(), capsule))
    return found


@functools.cache
def c_function(function: Any, signature: str) -> CFunction | None:
    """SciPy's C function of one element of a ufunc; None where there is none of these types."""
    ins, outs = signature.split("->")
    name: str = function.__name__
    if not set(ins + outs) <= _C_TYPES.keys() or getattr(scipy.special, name, None) is not function:
        return None  # np.expm1 is no scipy.special.expm1
    for c_signature, capsule in _by_name().get(name, ()):
        result, _, rest = c_signature.partition(" (")
        types = rest.removesuffix(")").split(", ")
        flag = types[-1] == _FLAG
        types = types[: len(types) - flag]
        pointers = [f"{_C_TYPES[outs[0]][0]} *"] * len(outs) if len(outs) > 1 else []
        if result != ("void" if pointers else _C_TYPES[outs][0]) or types[len(ins) :] != pointers:
            continue
        if all(t in _C_TYPES[c] for t, c in zip(types, ins, strict=False)):
            return CFunction(capsule_address(capsule), flag, len(pointers))
    return None


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def capsule_address(capsule: Any) -> int:
    """The address of the C function in a *capsule* of Cython's (``__pyx_capi__``)."""
    return _capsule_pointer(capsule, _capsule_name(capsule))
