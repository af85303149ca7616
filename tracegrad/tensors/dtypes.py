"""The dtypes of tensors, which are NumPy's; the default dtype; PyTorch's promotion; the dtype of ``tensor(data)``.

``as_dtype`` reads a user's spelling of a dtype. Promotion (``promote``) differs from NumPy's in two ways:
between categories (bool < int < float < complex) the higher one decides alone, so int64 with float32 is float32 (but
lanes of complex numbers are as wide as the floats that they meet); and a tensor without axes does not widen one with
axes. ``float_``, ``int_`` and ``bool_`` are exported as ``tracegrad.float`` (float32), ``tracegrad.int`` (int32) and
``tracegrad.bool``; *Python's* ``float`` as a dtype is the default dtype, its ``int`` is int64, its ``complex`` has
lanes of the default dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..runtime.config import default_dtype
from ..tracer.ir.aval import BFLOAT16, COMPLEX, FLOAT16, FLOAT_KINDS, SUPPORTED, promote_types
from ..tracer.record.array import TracedArray

float64 = double = np.dtype("float64")
float32 = float_ = np.dtype("float32")
float16 = half = FLOAT16
bfloat16 = BFLOAT16
int64 = long = np.dtype("int64")
int32 = int_ = np.dtype("int32")
int16 = short = np.dtype("int16")
int8 = np.dtype("int8")
uint64 = np.dtype("uint64")
uint32 = np.dtype("uint32")
uint16 = np.dtype("uint16")
uint8 = np.dtype("uint8")
bool_ = np.dtype("bool")
complex128 = cdouble = np.dtype("complex128")
complex64 = cfloat = np.dtype("complex64")

_NAMES: dict[str, np.dtype] = {
    "float64": float64, "double": float64, "float32": float32, "float": float32, "float16": float16, "half": float16,
    "bfloat16": bfloat16,
    "int64": int64, "long": int64, "int32": int32, "int": int32, "int16": int16, "short": int16, "int8": int8,
    "uint64": uint64, "uint32": uint32, "uint16": uint16, "uint8": uint8, "bool": bool_,
    "complex128": complex128, "cdouble": cdouble, "complex64": complex64, "cfloat": cfloat,
}  # fmt: skip
_SCALAR_NAMES: dict[np.dtype, str] = {
    float64: "Double", float32: "Float", float16: "Half", bfloat16: "BFloat16", int64: "Long", int32: "Int",
    int16: "Short", int8: "Char", uint64: "UInt64", uint32: "UInt32", uint16: "UInt16", uint8: "Byte", bool_: "Bool",
    complex128: "ComplexDouble", complex64: "ComplexFloat",
}  # fmt: skip
_PLAIN: dict[type, np.dtype | None] = {bool: bool_, int: int64, float: None}  # None: the default dtype
CATEGORIES = {"b": 0, "i": 1, "u": 1, "c": 3} | dict.fromkeys(FLOAT_KINDS, 2)


# ---- reading a dtype ----------------------------------------------------------------------------------------------


def as_dtype(spec: Any) -> np.dtype:
    """The dtype that *spec* denotes: an np.dtype, a NumPy scalar type, Python's float, int, bool or complex, or a name
    ("float32", "long"). Always in native byte order. TypeError for anything else, and for dtypes that tensors cannot
    have."""
    if isinstance(spec, np.dtype):
        return supported(spec)
    if spec is float:
        return default_dtype.dtype
    if spec is int:
        return int64
    if spec is bool:
        return bool_
    if isinstance(spec, str) and spec in _NAMES:
        return supported(_NAMES[spec])
    if isinstance(spec, type) and issubclass(spec, np.generic):
        return supported(np.dtype(spec))
    if spec is complex:
        return default_complex()
    found = f"{spec!r}" if isinstance(spec, str | type) else type(spec).__name__
    raise TypeError(f"dtype must be a dtype such as tracegrad.float32, not {found}; there are {', '.join(_NAMES)}")


def supported(dtype: np.dtype) -> np.dtype:
    """*dtype* in native byte order, if tensors can have it; TypeError otherwise."""
    if dtype in SUPPORTED:
        return dtype
    native = dtype.newbyteorder("=")
    if native in SUPPORTED:
        return native
    raise TypeError(f"tensors of dtype {dtype} are not supported; there are {', '.join(sorted(map(str, SUPPORTED)))}")


def scalar_name(dtype: np.dtype) -> str:
    """The name of *dtype* in PyTorch's error messages: ``Long``, ``Double``."""
    return _SCALAR_NAMES[dtype]


# ---- the default dtype --------------------------------------------------------------------------------------------


def get_default_dtype() -> np.dtype:
    """The dtype that Python floats become; float64 unless ``set_default_dtype`` was called."""
    return default_dtype.dtype


def default_complex() -> np.dtype:
    """The dtype that Python's complex numbers become: with lanes of the default dtype."""
    return complex_with(default_dtype.dtype)


def complex_with(dtype: np.dtype) -> np.dtype:
    """The complex dtype whose lanes hold floats of *dtype*; there are none narrower than float32."""
    return complex128 if dtype == float64 else complex64


def lane_of(dtype: np.dtype) -> np.dtype:
    """The dtype of the lanes of a complex *dtype*; *dtype* itself if it is real."""
    return COMPLEX.get(dtype, dtype)


def set_default_dtype(d: Any) -> None:
    """Make the floating dtype *d* the default of the whole process (one assignment, which threads see at once).

    TypeError where *d* is no floating dtype; Python's ``float`` is none, since it denotes the default itself.
    """
    if d is float or not isinstance(d, np.dtype | str | type):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    dtype = as_dtype(d)
    if dtype.kind not in FLOAT_KINDS:
        raise TypeError("only floating-point types are supported as the default type")
    default_dtype.set(dtype)


# ---- promotion ----------------------------------------------------------------------------------------------------


def promote(a: np.dtype, a_ndim: int, b: np.dtype, b_ndim: int) -> np.dtype:
    """The dtype of an operation on operands of dtypes *a* and *b* with so many axes.

    An ndim of -1 stands for a Python number, which yields to a tensor without axes as that one yields to a tensor
    with axes. RuntimeError for uint64 with a signed integer, which no integer dtype holds.
    """
    if a == b:
        return a
    rank_a, rank_b = CATEGORIES[a.kind], CATEGORIES[b.kind]
    priority_a, priority_b = min(a_ndim, 1), min(b_ndim, 1)
    if rank_a != rank_b:
        higher, lower = (a, b) if rank_a > rank_b else (b, a)
        if higher.kind != "c" or lower.kind not in FLOAT_KINDS:
            return higher
        a, b = (complex_with(x) if x is lower else x for x in (a, b))
    if priority_a != priority_b:
        return a if priority_a > priority_b else b
    both = promote_types(a, b)
    if both.kind in FLOAT_KINDS and a.kind not in FLOAT_KINDS:
        raise RuntimeError(
            f"Promotion for uint64 and signed integers is not supported, attempted to promote {scalar_name(a)} "
            f"and {scalar_name(b)}"
        )
    return both


# ---- what tensor(data) makes of its argument ----------------------------------------------------------------------


def infer(data: Any) -> np.dtype:
    """The dtype of ``tensor(data)``: of Python floats the default dtype, of ints int64, of bools bool; arrays, NumPy
    scalars and tensors keep theirs; nested sequences have that of all their elements together.

    TypeError or RuntimeError where *data* holds something else, ValueError where sequences are ragged.
    """
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    return infer_leaves(flatten(data)[1]) if is_sequence(data) else _infer_one(data)


def infer_leaves(leaves: list[Any]) -> np.dtype:
    """The dtype of all *leaves* of a nested sequence together; the default dtype if there are none."""
    kinds = set(map(type, leaves))
    found = {_PLAIN[kind] or default_dtype.dtype for kind in kinds if kind in _PLAIN}
    if not kinds <= _PLAIN.keys():
        found |= {_infer_one(leaf) for leaf in leaves if type(leaf) not in _PLAIN}
    dtypes = sorted(found, key=lambda dtype: CATEGORIES[dtype.kind])
    result = dtypes[0] if dtypes else default_dtype.dtype
    for dtype in dtypes[1:]:
        result = promote(result, 0, dtype, 0)
    return result


def _infer_one(value: Any) -> np.dtype:
    if isinstance(value, TracedArray) and value.aval.weak:  # stands for a Python number
        if value.aval.is_complex:
            return default_complex()
        return {"i": int64, "b": bool_}.get(value.dtype.kind, default_dtype.dtype)
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype):
        return supported(dtype)
    for kind, plain in _PLAIN.items():
        if isinstance(value, kind):
            return default_dtype.dtype if plain is None else plain
    if isinstance(value, complex):
        return default_complex()
    if isinstance(value, str):
        raise ValueError("too many dimensions 'str'")
    if is_sequence(value):
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
    raise RuntimeError(f"Could not infer dtype of {type(value).__name__}")


def is_sequence(value: Any) -> bool:
    """Whether ``tensor(value)`` makes an axis of *value*: lists, tuples, ranges and their like; no text, no arrays."""
    kind = type(value)
    if kind is list or kind is tuple:
        return True
    return kind not in _PLAIN and isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def flatten(data: Any) -> tuple[tuple[int, ...], list[Any]]:
    """(sizes, elements in C order) of nested sequences; the first elements decide how deep they go.

    ValueError where lengths differ, TypeError where an element is no sequence and its neighbours are.
    """
    sizes: list[int] = []
    level = [data]
    while level and is_sequence(level[0]):
        length = len(level[0])
        for item in level:
            if not is_sequence(item):
                raise TypeError("not a sequence")
            if len(item) != length:
                raise ValueError(f"expected sequence of length {length} at dim {len(sizes)} (got {len(item)})")
        sizes.append(length)
        if len(sizes) > 64:
            raise ValueError("too many dimensions")
        level = list(chain.from_iterable(level))
    return tuple(sizes), level


__all__ = [
    "bfloat16", "cdouble", "cfloat", "complex64", "complex128", "double", "float16", "float32", "float64",
    "get_default_dtype", "half", "int8", "int16", "int32", "int64", "long", "set_default_dtype", "short", "uint8",
]  # fmt: skip
