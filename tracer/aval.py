"""Abstract values: what is known of an array before it has contents.

Sizes are plain integers here: a recording has real shapes.  They turn into symbols only when a finished graph is
given its signature (``codegen/canonical.py``), so everything up to there may look at numbers freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .errors import ShapeError, UnsupportedError
from .site import at_site

FLOATS = (np.dtype("float64"), np.dtype("float32"))
_SUPPORTED_NAMES = "float64 float32 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool"
SUPPORTED = frozenset(np.dtype(name) for name in _SUPPORTED_NAMES.split())
BOOL = np.dtype(bool)
INT = np.dtype("int64")
FLOAT = np.dtype("float64")


@dataclass(frozen=True, slots=True)
class Aval:
    """dtype and shape of a value; ``weak`` marks Python scalars, which follow their partners' dtype (NEP 50)."""

    dtype: np.dtype
    shape: tuple[int, ...]
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    def like(self, other: Aval) -> bool:
        """The same dtype and shape?"""
        return self.dtype == other.dtype and self.shape == other.shape

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}{'*' if self.weak else ''}[{','.join(map(str, self.shape))}]"


_scalars: dict[tuple[np.dtype, bool], Aval] = {}


def scalar_aval(dtype: np.dtype, weak: bool) -> Aval:
    """The aval of a scalar: one object for each dtype, since a recording asks for it at every number in it."""
    found = _scalars.get((dtype, weak))
    if found is None:
        found = _scalars[dtype, weak] = Aval(dtype, (), weak)
    return found


_SHORT = {"float64": "f64", "float32": "f32", "bool": "bool"} | {
    f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
_LONG = {short: np.dtype(name) for name, short in _SHORT.items()}


def short_name(dtype: np.dtype) -> str:
    return _SHORT[dtype.name]


def from_short_name(name: str) -> np.dtype:
    return _LONG[name]


def check_dtype(dtype: np.dtype, what: str) -> np.dtype:
    """*dtype* itself if tracegrad handles it; a teaching error otherwise."""
    if dtype in SUPPORTED:
        return dtype if dtype.isnative else dtype.newbyteorder("=")
    hint = {
        "O": "an object array holds Python objects; build it from numbers, e.g. np.array(..., dtype=float)",
        "c": "complex numbers are not supported; carry real and imaginary parts as two arrays",
        "f": "use float32 or float64: x.astype(np.float64)",
    }.get(dtype.kind, "use a float, integer or bool array")
    raise UnsupportedError(at_site(f"{what} has dtype {dtype}: {hint}"))


def broadcast_shapes(*shapes: Sequence[int], what: str = "operands") -> tuple[int, ...]:
    """NumPy's broadcasting of shapes; a ShapeError that names the user's line where they do not fit."""
    result: list[int] = []
    for axis in range(-max((len(s) for s in shapes), default=0), 0):
        dim = 1
        for shape in shapes:
            here = shape[axis] if -axis <= len(shape) else 1
            if here == 1 or here == dim:
                continue
            if dim != 1:
                listed = " ".join(str(tuple(s)) for s in shapes)
                raise ShapeError(
                    at_site(
                        f"{what} could not be broadcast together with shapes {listed}; "
                        "reshape one of them, e.g. with x[:, None]"
                    )
                )
            dim = here
        result.append(dim)
    return tuple(result)


def promote_dtypes(*avals: Aval) -> tuple[np.dtype, bool]:
    """NumPy 2 promotion of *avals*: (dtype, weak), where Python scalars yield to arrays."""
    strong = [a.dtype for a in avals if not a.weak]
    weak = [_WEAK_SCALAR[a.dtype.kind] for a in avals if a.weak]
    if len(set(strong)) == 1 and not weak:
        return strong[0], False
    return np.result_type(*strong, *weak), not strong


_WEAK_SCALAR = {"f": 0.0, "i": 0, "u": 0, "b": False}


def canonical_axes(axes: int | Sequence[int] | None, ndim: int, what: str) -> tuple[int, ...]:
    """Non-negative, sorted, distinct axes; None means all."""
    if axes is None:
        return tuple(range(ndim))
    listed = (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    result = []
    for axis in listed:
        axis = int(axis)
        if not -ndim <= axis < ndim:
            raise ShapeError(at_site(f"{what}: axis {axis} is out of bounds for an array of {ndim} dimensions"))
        result.append(axis % ndim)
    if len(set(result)) != len(result):
        raise ShapeError(at_site(f"{what}: an axis is named twice in {listed}"))
    return tuple(sorted(result))
