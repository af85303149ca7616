"""Plain values to bytes and back: a letter for the type, then the value; nothing else is ever made of them.

Equal values of equal types have equal bytes in each process, so the bytes serve as keys.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_U32 = struct.Struct("<I")
_F64 = struct.Struct("<d")
_C128 = struct.Struct("<dd")
_ALIGN = 16  # bytes, of the place of an array's data


class EncodingError(Exception):
    """A value of another type than these, or bytes that no value has."""


def encode(value: Any) -> bytes:
    """None, bools, numbers, texts, bytes, dtypes, NumPy's scalars and arrays; tuples, lists, dicts and frozensets of
    them.  Arrays come back read-only.

    Raises:
        EncodingError: *value* is, or holds, something else.
    """
    data = bytearray()
    _write(value, data)
    return bytes(data)


def decode(data: bytes | memoryview) -> Any:
    """The value of which *data* was made.

    Raises:
        EncodingError: of none.
    """
    try:
        value, end = _read(memoryview(data), 0)
    except (struct.error, ValueError, TypeError, IndexError) as error:
        raise EncodingError(str(error)) from error
    if end != len(data):
        raise EncodingError("more than one value")
    return value


def _sized(letter: bytes, data: bytes) -> bytes:
    return letter + _U32.pack(len(data)) + data


def _write(value: Any, data: bytearray) -> None:
    kind, add = type(value), data.extend
    if value is None or kind is bool:
        add({None: b"N", True: b"T", False: b"F"}[value])
    elif kind is int:
        add(_sized(b"i", str(value).encode()))
    elif kind is float:
        add(b"f" + _F64.pack(value))
    elif kind is complex:
        add(b"c" + _C128.pack(value.real, value.imag))
    elif kind is str:
        add(_sized(b"s", value.encode("utf-8", "surrogatepass")))
    elif kind is bytes:
        add(_sized(b"b", value))
    elif kind is tuple or kind is list:
        add((b"(" if kind is tuple else b"[") + _U32.pack(len(value)))
        for item in value:
            _write(item, data)
    elif kind is dict:
        add(b"{" + _U32.pack(len(value)))
        for pair in value.items():
            _write(pair, data)
    elif kind is frozenset:
        add(b"<" + _U32.pack(len(value)))
        for item in sorted(map(encode, value)):
            add(item)
    elif isinstance(value, np.dtype) and value.subdtype is None and _is_plain(value):
        add(_sized(b"d", _dtype_name(value).encode()))
    elif isinstance(value, np.generic) and _is_plain(value.dtype):
        add(_sized(b"n", _dtype_name(value.dtype).encode()) + _sized(b"b", value.tobytes()))
    elif kind is np.ndarray and _is_plain(value.dtype):
        add(b"a")
        _write((value.dtype, value.shape), data)
        gap = -(len(data) + 6) % _ALIGN
        add(bytes([gap]) + bytes(gap) + _sized(b"b", value.tobytes()))
    else:
        raise EncodingError(f"a {kind.__qualname__}")


def _is_plain(dtype: np.dtype) -> bool:
    """Whether elements are their bytes, and no records."""
    return dtype.names is None and not dtype.hasobject


def _dtype_name(dtype: np.dtype) -> str:
    """With byte order and length, or the name of a type that other packages define (bfloat16)."""
    name = dtype.str if np.dtype(dtype.str) == dtype else dtype.name
    if np.dtype(name) != dtype or dtype.metadata:
        raise EncodingError(f"the dtype {dtype}")
    return name


def _copied(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _text(data: memoryview, at: int) -> tuple[memoryview, int]:
    (length,) = _U32.unpack_from(data, at)
    end = at + 4 + length
    if end > len(data):
        raise ValueError("cut off")
    return data[at + 4 : end], end


def _read(data: memoryview, at: int) -> tuple[Any, int]:
    letter, at = bytes(data[at : at + 1]), at + 1
    if letter in _SINGLE:
        return _SINGLE[letter], at
    if letter == b"f":
        return _F64.unpack_from(data, at)[0], at + 8
    if letter == b"c":
        return complex(*_C128.unpack_from(data, at)), at + 16
    if letter in _SIZED:
        found, at = _text(data, at)
        return _SIZED[letter](found), at
    if letter == b"n":
        name, at = _text(data, at)
        found, at = _text(data, at + 1)
        return np.frombuffer(found, np.dtype(str(name, "utf-8")))[0], at
    if letter == b"a":
        (dtype, shape), at = _read(data, at)
        found, at = _text(data, at + 2 + data[at])
        array = np.frombuffer(found, dtype).reshape(shape)
        return (array if array.ctypes.data % _ALIGN == 0 and found.readonly else _copied(array)), at
    if letter in _MANY:
        (count,) = _U32.unpack_from(data, at)
        at += 4
        items = []
        for _ in range(count):
            item, at = _read(data, at)
            items.append(item)
        return _MANY[letter](items), at
    raise ValueError(f"no value begins with {letter!r}")


_SINGLE = {b"N": None, b"T": True, b"F": False}
_SIZED: dict[bytes, Any] = {
    b"i": lambda text: int(bytes(text)),
    b"s": lambda text: str(text, "utf-8", "surrogatepass"),
    b"b": bytes,
    b"d": lambda text: np.dtype(str(text, "utf-8")),
}
_MANY: dict[bytes, Any] = {b"(": tuple, b"[": list, b"{": dict, b"<": frozenset}
