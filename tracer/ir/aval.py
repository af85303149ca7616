"""Abstract values (avals): dtype and shape of an array, without contents.

Sizes are plain integers here: a recording has real shapes.  They turn into symbols only when a finished graph is
given its signature (``codegen/lower/canonical.py``), so everything up to there may look at numbers freely.

float16 and bfloat16 (``HALF``) are dtypes of arrays, not of arithmetic: values between a load and a store are float32
(``held_dtype``), and are rounded where they are stored or explicitly cast (``codegen/lower/half_precision.py``).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .errors import ShapeError, UnsupportedError

Ints = tuple[int, ...]  # shapes, axes

FLOATS = (np.dtype("float64"), np.dtype("float32"))
FLOAT16, BFLOAT16 = np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)
HALF = frozenset((FLOAT16, BFLOAT16))
_REAL_NAMES = "float64 float32 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool"
COMPLEX: dict[Any, np.dtype] = dict(zip(map(np.dtype, ("complex128", "complex64")), FLOATS, strict=True))  # -> of lanes
REAL = HALF | {np.dtype(name) for name in _REAL_NAMES.split()}  # of what a graph holds
SUPPORTED = REAL | COMPLEX.keys()
BOOL = np.dtype(bool)
INT = np.dtype("int64")
FLOAT = np.dtype("float64")
FLOAT32 = np.dtype("float32")
FLOAT_KINDS = "fV"  # of the dtypes here: bfloat16, which is not one of NumPy's own, has kind V
INEXACT_KINDS = "fVc"


def is_float(dtype: np.dtype) -> bool:
    """Whether *dtype*, any of NumPy's, is a floating one."""
    return dtype.kind == "f" or dtype == BFLOAT16


def is_number(dtype: np.dtype) -> bool:
    """Whether *dtype*, any of NumPy's, is one of real numbers or bools."""
    return dtype.kind in "biuf" or dtype == BFLOAT16


def held_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which numbers of *dtype* are computed with."""
    return FLOAT32 if dtype in HALF else dtype


def finfo(dtype: np.dtype) -> Any:
    """``np.finfo`` of a floating dtype, bfloat16 too."""
    return ml_dtypes.finfo(dtype) if dtype == BFLOAT16 else np.finfo(dtype)


@dataclass(frozen=True, slots=True)
class Aval:
    """dtype and shape of a value; ``weak`` marks Python scalars, which follow their partners' dtype (NEP 50)."""

    dtype: np.dtype
    shape: Ints
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

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def like(self, other: Aval) -> bool:
        """Whether dtype and shape are the same."""
        return self.dtype == other.dtype and self.shape == other.shape

    @property
    def is_float(self) -> bool:
        return self.dtype.kind in FLOAT_KINDS

    @property
    def is_inexact(self) -> bool:
        return self.dtype.kind in INEXACT_KINDS

    @property
    def is_complex(self) -> bool:
        return self.dtype.kind == "c"

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}{'*' if self.weak else ''}[{','.join(map(str, self.shape))}]"


_scalars: dict[tuple[np.dtype, bool], Aval] = {}


def scalar_aval(dtype: np.dtype, weak: bool) -> Aval:
    """The aval of a scalar: one object for each dtype, since a recording asks for it at every number in it."""
    found = _scalars.get((dtype, weak))
    if found is None:
        found = _scalars[dtype, weak] = Aval(dtype, (), weak)
    return found


_SHORT = {"bfloat16": "bf16", "bool": "bool", "complex128": "c128", "complex64": "c64"} | {
    f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)
}


def short_name(dtype: np.dtype) -> str:
    return _SHORT[dtype.name]


def check_dtype(dtype: np.dtype, what: str) -> np.dtype:
    """*dtype* itself if tracegrad handles it; a teaching error otherwise."""
    if dtype in SUPPORTED:
        return dtype if dtype.isnative else dtype.newbyteorder("=")
    hint = {
        "O": "an object array holds Python objects; build it from numbers, e.g. np.array(..., dtype=float)",
        "c": "use complex128 or complex64: z.astype(np.complex128)",
        "f": "use float64, float32, float16 or bfloat16: x.astype(np.float64)",
    }.get(dtype.kind, "use a float, integer or bool array")
    raise UnsupportedError.here(f"{what} has dtype {dtype}: {hint}")


def broadcast_shapes(*shapes: Sequence[int], what: str = "operands") -> Ints:
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
                raise ShapeError.here(
                    f"{what} could not be broadcast together with shapes {listed}; "
                    "reshape one of them, e.g. with x[:, None]"
                )
            dim = here
        result.append(dim)
    return tuple(result)


def promote_dtypes(*avals: Aval) -> tuple[np.dtype, bool]:
    """NumPy 2 promotion of *avals*: (dtype, weak), where Python scalars yield to arrays."""
    strong = [a.dtype for a in avals if not a.weak]
    weak = [_WEAK_SCALAR[a.dtype.kind] for a in avals if a.weak]
    if len(set(strong)) == 1 and (not weak or (strong[0].kind in INEXACT_KINDS and complex not in map(type, weak))):
        return strong[0], False
    if BFLOAT16 in strong:
        return _with_bfloat16([*strong, np.dtype("complex64")] if complex in map(type, weak) else strong), False
    return np.result_type(*strong, *weak), not strong


_WEAK_SCALAR = {"f": 0.0, "i": 0, "u": 0, "b": False, "c": 0j}


def _with_bfloat16(dtypes: Sequence[np.dtype]) -> np.dtype:
    """Promotion where NumPy has no rule: integers and Python numbers yield to bfloat16, as in JAX and PyTorch; with
    another floating dtype it is promoted as float32 is."""
    floats = {d for d in dtypes if d.kind in INEXACT_KINDS} - {BFLOAT16}
    return np.result_type(FLOAT32, *floats) if floats else BFLOAT16


def promote_types(a: np.dtype, b: np.dtype) -> np.dtype:
    """``np.promote_types``, also for bfloat16."""
    return _with_bfloat16((a, b)) if BFLOAT16 in (a, b) else np.promote_types(a, b)


def can_cast(source: np.dtype, target: np.dtype, casting: str) -> bool:
    """``np.can_cast``, also between bfloat16 and float16, of which NumPy knows only that it is unsafe."""
    if casting == "same_kind" and {source, target} == HALF:
        return True
    return np.can_cast(source, target, casting)  # type: ignore[arg-type]


def canonical_axes(axes: int | Sequence[int] | None, ndim: int, what: str) -> Ints:
    """Non-negative, sorted, distinct axes; None means all."""
    if axes is None:
        return tuple(range(ndim))
    try:
        listed: tuple[int, ...] = (operator.index(axes),)  # type: ignore[arg-type]
    except TypeError:
        listed = tuple(axes)  # type: ignore[arg-type]
    result = []
    for axis in listed:
        axis = operator.index(axis)
        if not -ndim <= axis < ndim:
            raise ShapeError.here(f"{what}: axis {axis} is out of bounds for an array of {ndim} dimensions")
        result.append(axis % ndim)
    if len(set(result)) != len(result):
        raise ShapeError.here(f"{what}: an axis is named twice in {listed}")
    return tuple(sorted(result))
