"""Byte offsets of the fields of Python objects for the native launcher, verified on live objects.

The launcher reads a few fields of floats, bytes and ndarrays at fixed byte offsets, as any C extension does after
its compiler has read the headers; ``runtime/state/pins.py`` reads those of lists.  There is no compiler here, so the
offsets come from ``__basicsize__`` where Python tells, else from the ABI that NumPy keeps stable; and :func:`fault`
compares every one with live objects, at import.  Where anything differs (another interpreter, a free-threaded or
reference-tracing build) there is no native launcher.

Start reading at :func:`offsets`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
import sys
import types
import weakref

import numpy as np

from ...codegen.cpu.symbols import capsule_address
from ...tracer.bytecode.versions import doubt

#: NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED.  (The byte order is part of the dtype.)
CARRAY_FLAGS = 0x0001 | 0x0100

# Positions in NumPy's C function table.  They never change: compiled extensions rely on them.
_API = {
    "ndarray": 2, "dtype": 3, "PyArray_Scalar": 60, "PyArray_NewFromDescr": 94, "PyArray_EquivTypes": 182,
    "PyDataMem_SetHandler": 304, "PyDataMem_DefaultHandler": 306,
}  # fmt: skip

_WORD = 8


def offsets() -> dict[str, int]:
    """Byte offsets of the fields that the launcher and other native code read."""
    head = object.__basicsize__  # PyObject_HEAD: reference count, type
    return {
        "ob_refcnt": head - 2 * _WORD,
        "ob_type": head - _WORD,
        "ob_sval": bytes.__basicsize__ - 1,  # bytes end in one counted NUL
        "ob_item": tuple.__basicsize__,
        "list_size": head,
        "list_items": head + _WORD,  # followed by the number of items that there is room for
        "ob_fval": float.__basicsize__ - _WORD,  # also where np.float64 and np.float32 have their value
        # PyArrayObject_fields: data, nd, dimensions, strides, base, descr, flags, weakreflist
        "array_data": head,
        "array_nd": head + 1 * _WORD,
        "array_dims": head + 2 * _WORD,
        "array_base": head + 4 * _WORD,
        "array_descr": head + 5 * _WORD,
        "array_flags": head + 6 * _WORD,
        "array_weakrefs": np.ndarray.__weakrefoffset__,
    }


def numpy_api() -> dict[str, int]:
    """Addresses of NumPy's C functions for the launcher, through the capsule which extension modules use too."""
    core = np._core._multiarray_umath  # type: ignore[attr-defined]
    table = (ctypes.c_int64 * (max(_API.values()) + 1)).from_address(capsule_address(core._ARRAY_API))
    return {name: table[position] for name, position in _API.items()}


def python_api(name: str) -> int:
    """Address of a function of CPython's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@functools.lru_cache(maxsize=1024)
def slot_offsets(cls: type) -> dict[str, int]:
    """Where an object of *cls* has its slots, but for those that hold no object."""
    members = [n for c in cls.__mro__ for n, v in vars(c).items() if type(v) is types.MemberDescriptorType]
    names = [name for name in members if name != "__dict__"]
    made = object.__new__(cls) if names else None
    found: dict[str, int] = {}
    for name in names:
        with contextlib.suppress(AttributeError, TypeError):  # a read-only member
            object.__setattr__(made, name, mark := object())
            words = struct.unpack(f"{cls.__basicsize__ // _WORD}q", ctypes.string_at(id(made), cls.__basicsize__))
            if id(mark) in words:
                found[name] = _WORD * words.index(id(mark))
    return found


def fault() -> str | None:
    """The reason why the native launcher can't be used in this process; None if every field is at its offset."""
    if (reason := doubt()) is not None:
        return reason
    if struct.calcsize("P") != _WORD:
        return "pointers are not 64 bits wide"
    if sys.platform == "win32":
        return "the stack probes that Windows wants of JIT-compiled code are not handled"
    if object.__basicsize__ != 2 * _WORD:
        return f"objects have a header of {object.__basicsize__} bytes (a free-threaded or reference-tracing build)"
    return _scalar_fault() or _array_fault() or _api_fault()


def _field(obj: object, name: str, code: str) -> object:
    """The field where :func:`offsets` has it; None outside the object, so that a wrong guess reads nothing foreign."""
    size = obj.__sizeof__() if isinstance(obj, (bytes, tuple)) else type(obj).__basicsize__
    at = offsets()[name]
    if at + struct.calcsize(code) > size:
        return None
    return struct.unpack_from(code, ctypes.string_at(id(obj), size), at)[0]


def _scalar_fault() -> str | None:
    for value in (b"tracegrad", 1.25, np.float64(-2.5), np.float32(0.75)):
        if _field(value, "ob_type", "q") != id(type(value)):
            return f"the type of a {type(value).__name__} is not where it was expected"
    if _field(object(), "ob_refcnt", "q") != 1:
        return "the number of references to an object is not where it was expected"
    if _field(b"tracegrad", "ob_sval", "9s") != b"tracegrad":
        return "the data of a bytes object is not where it was expected"
    if _field((one := object(), 2), "ob_item", "q") != id(one):
        return "the items of a tuple are not where they were expected"
    items = [one, one]
    room = (items.__sizeof__() - list.__basicsize__) // _WORD
    if (_field(items, "list_size", "q"), _field(items, "list_items", f"{_WORD}xq")) != (2, room):
        return "the items of a list are not where they were expected"
    for value, code in ((1.25, "d"), (np.float64(-2.5), "d"), (np.float32(0.75), "f")):
        if _field(value, "ob_fval", code) != value:
            return f"the value of a {type(value).__name__} is not where it was expected"
    return None


def _array_fault() -> str | None:
    plain = np.zeros((3, 5), np.float32)
    unaligned = np.zeros(17, np.uint8)[1:].view(np.int64)
    for a in (plain, plain.T, plain[:, ::2], np.zeros(()), unaligned):
        expected = {"array_nd": ("i", a.ndim), "array_descr": ("q", id(a.dtype)), "array_flags": ("i", a.flags.num)}
        expected["array_data"] = ("q", a.__array_interface__["data"][0])
        expected["array_base"] = ("q", 0 if a.base is None else id(a.base))
        for name, (code, value) in expected.items():
            if _field(a, name, code) != value:
                return f"{name} is not where it was expected"
        if bool(a.flags.num & CARRAY_FLAGS == CARRAY_FLAGS) != bool(a.flags.c_contiguous and a.flags.aligned):
            return "the flag bits of an ndarray have another meaning"
        dims = _field(a, "array_dims", "q")
        # Dimensions and strides stand in one block.  Only an address that the strides confirm is followed.
        strides = struct.unpack_from("q", ctypes.string_at(id(a), offsets()["array_dims"] + 2 * _WORD), -_WORD)[0]
        if a.ndim and (not isinstance(dims, int) or strides != dims + a.ndim * _WORD):
            return "array_dims is not where it was expected"
        if a.ndim and tuple((ctypes.c_int64 * a.ndim).from_address(dims)) != a.shape:  # type: ignore[arg-type]
            return "array_dims is not where it was expected"
    weak = weakref.ref(plain)
    if (_field(plain, "array_weakrefs", "q"), _field(plain.T, "array_weakrefs", "q")) != (id(weak), 0):
        return "array_weakrefs is not where it was expected"
    return None


def _api_fault() -> str | None:
    api = numpy_api()
    if api["ndarray"] != id(np.ndarray) or api["dtype"] != id(np.dtype):
        return "NumPy's C function table is not laid out as expected"
    return None
