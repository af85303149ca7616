"""Sparse matrices of SciPy: products with traced arrays, and matrices whose arrays are traced.

SciPy's classes are Python over three arrays.  A matrix from outside of the function is recorded as such a Python object
over inputs, so that its entries are read anew in each call; one that the function makes is over constants.  The methods
below are those in which SciPy calls C code: a product becomes a gather, a multiplication and a scatter.  ``install``
sends them here once ``scipy.sparse`` is loaded, which this module does not import.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..ir.aval import INT
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit
from ..numpy_api.hooks import hook, when_loaded
from ..ops.elementwise import F, bind, cast
from ..ops.indexing import SCATTER_ADD, gather
from ..ops.reduce import reduce
from ..ops.shape import zeros
from ..record.array import TracedArray, is_traced, to_atom, unsupported, wrap, wrap_array
from ..record.constants import by_numpy
from ..record.recorder import require_recorder

OF_TWO: dict[str, Callable[..., Any]] = {}  # products of two sparse matrices (sparse_structure.py)
_FORMATS = ("csr", "csc", "coo", "bsr", "dia")


def _holds_traced(matrix: Any) -> bool:
    """Whether *matrix* is a sparse one over traced arrays."""
    return type(getattr(matrix, "__dict__", {}).get("data")) is TracedArray


def _applies(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return is_traced(args) or any(map(_holds_traced, args)) or is_traced(tuple(kwargs.values()))


# ---- the entries of a matrix ----------------------------------------------------------------------------------------


def _expanded(pointers: np.ndarray) -> np.ndarray:
    """The row of each entry of a compressed matrix."""
    return np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))


def _in_blocks(pointers: np.ndarray, indices: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of each entry of blocks of this size."""
    shape = (len(indices), height, width)
    rows = _expanded(pointers)[:, None, None] * height + np.arange(height)[:, None]
    columns = indices[:, None, None] * width + np.arange(width)
    return np.broadcast_to(rows, shape).ravel(), np.broadcast_to(columns, shape).ravel()


def _on_diagonals(offsets: np.ndarray, size: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, column, place in the stored diagonals) of each entry; *size*: the length of a stored diagonal."""
    column = np.broadcast_to(np.arange(size), (len(offsets), size))
    row = column - offsets[:, None]
    inside = ((row >= 0) & (row < rows) & (column < columns)).ravel()
    return row.ravel()[inside], column.ravel()[inside], np.flatnonzero(inside)


def _outside(function: Callable[..., Any], *args: Any) -> Any:
    """*function*'s result, computed by NumPy where arrays from outside are among *args*."""
    if not is_traced(args):
        return function(*args)
    return by_numpy(unsupported(f"a sparse matrix ({function.__name__})"), function, args, {})


def _entries(matrix: Any) -> tuple[Atom, Atom, TracedArray]:
    """(row, column, value) of each entry that is stored."""
    kind, (height, width) = matrix.format, matrix.shape
    if kind in ("csr", "csc"):
        major, minor = cast(to_atom(_outside(_expanded, matrix.indptr)), INT), matrix.indices
        columns = _places(minor, width if kind == "csr" else height)
        return (*((major, columns) if kind == "csr" else (columns, major)), wrap_array(to_atom(matrix.data)))
    if kind == "coo":
        if len(matrix.coords) != 2:
            raise _needs_contents(matrix, "a sparse array of other than two axes")
        rows, columns = matrix.coords
        return _places(rows, height), _places(columns, width), wrap_array(to_atom(matrix.data))
    if kind not in ("bsr", "dia"):
        return _entries(matrix.tocoo())
    data = wrap_array(to_atom(matrix.data))
    values = to_atom(data.reshape(-1))
    if kind == "bsr":
        rows, columns = _outside(_in_blocks, matrix.indptr, matrix.indices, *data.shape[1:])
        return cast(to_atom(rows), INT), _places(columns, width), wrap(values)
    rows, columns, places = _outside(_on_diagonals, matrix.offsets, data.shape[1], height, width)
    rows, columns, places = [cast(to_atom(index), INT) for index in (rows, columns, places)]
    return rows, columns, wrap(gather(values, places))


def _places(index: Any, size: int) -> Atom:
    """*index*, an array of the matrix, as positions in *size* elements."""
    atom = cast(to_atom(index), INT)
    if is_traced(index):
        fits = F.logical_and(F.ge(atom, Lit(0, INT, structural=True)), F.lt(atom, Lit(size, INT)))
        inside = bool(require_recorder("a sparse matrix").guard(reduce("all", fits, (0,)), "index"))
    else:
        inside = not index.size or (index.min() >= 0 and index.max() < size)
    if not inside:
        raise ValueError("the indices of a sparse matrix must be non-negative and within its shape")
    return atom


def _needs_contents(matrix: Any, what: str) -> Exception:
    """The error for what is not recorded; where *matrix* is from outside, the run is made again over the real one."""
    error = unsupported(f"{what} of {type(matrix).__name__}")
    if not _holds_traced(matrix):
        return error
    return require_recorder("a sparse matrix").refused(matrix.data.atom, error)


def _sums(shape: tuple[int, ...], places: Atom, values: TracedArray) -> TracedArray:
    """An array of *shape* with the sums of the *values* at each of the *places* on its first axis."""
    return wrap_array(bind(SCATTER_ADD, zeros(shape, values.dtype), places, values.atom))


# ---- the methods ----------------------------------------------------------------------------------------------------


def _is_sparse(other: Any) -> bool:
    return hasattr(other, "tocsr")


def _product(matrix: Any, other: Any) -> Any:
    if _is_sparse(other):
        return OF_TWO["product"](matrix, other)
    if not np.ndim(other):
        return matrix._mul_scalar(other)
    return _multiplied(*_entries(matrix), matrix.shape, other)


def _multiplied(rows: Atom, columns: Atom, data: TracedArray, shape: tuple[int, ...], other: Any) -> TracedArray:
    given = wrap_array(to_atom(other))
    if given.ndim not in (1, 2) or given.shape[0] != shape[1]:
        k, length = shape[1], given.shape[0]
        raise ShapeError.here(f"matmul: dimension mismatch with signature (n,k={k}),(k={length},m)->(n,m)")
    scaled = data if given.ndim == 1 else data[:, np.newaxis]
    return _sums((shape[0], *given.shape[1:]), rows, scaled * wrap_array(gather(given.atom, columns)))


def _product_from_left(matrix: Any, other: Any) -> Any:
    if _is_sparse(other):
        return OF_TWO["product"](other, matrix)
    if not np.ndim(other):
        return matrix._mul_scalar(other)
    rows, columns, data = _entries(matrix)
    return _multiplied(columns, rows, data, matrix.shape[::-1], wrap_array(to_atom(other)).T).T


def _multiply(matrix: Any, other: Any) -> Any:
    """Elementwise: the entries that are stored, in coordinates, as SciPy gives them."""
    if _is_sparse(other):
        return OF_TWO["multiply"](matrix, other)
    if not np.ndim(other):
        return matrix._mul_scalar(other)
    rows, columns, data = _entries(matrix)
    given, shape = wrap_array(to_atom(other)), matrix.shape
    wide = given.reshape((1,) * (2 - given.ndim) + given.shape)
    if wide.ndim > 2 or any(a not in (1, b) for a, b in zip(wide.shape, shape, strict=True)):
        raise ShapeError.here("inconsistent shapes")
    steps = [(rows, wide.shape[1]), (columns, 1)]
    parts = [F.mul(at, Lit(step, INT)) for (at, step), n in zip(steps, wide.shape, strict=True) if n > 1]
    places = functools.reduce(F.add, parts) if parts else F.mul(rows, Lit(0, INT))
    factors = gather(to_atom(wide.reshape(-1)), places)
    return _in_coordinates(matrix, shape, rows, columns, data * wrap(factors))


def _over(cls: type, like: Any, shape: tuple[int, ...] | None = None, **parts: Any) -> Any:
    """A sparse matrix of *cls* over these arrays, past its ``__init__``, which would convert them."""
    found: Any = object.__new__(cls)
    found.__dict__.update(_shape=like._shape if shape is None else shape, maxprint=like.maxprint, **parts)
    return found


def _in_coordinates(like: Any, shape: tuple[int, ...], rows: Atom, columns: Atom, data: TracedArray) -> Any:
    coords: Any = wrap_array(rows), wrap_array(columns)
    if not is_traced([part for name, part in vars(like).items() if name != "data"]):  # places that are known stay plain
        recorder = require_recorder("a sparse matrix")
        coords = tuple([np.array(recorder.value(x)) for x in (rows, columns)])
    return _over(like._coo_container, like, shape, coords=coords, data=data, has_canonical_format=False)


def _with_data(matrix: Any, data: Any, copy: bool = True) -> Any:
    parts = {k: v for k, v in vars(matrix).items() if k not in ("_shape", "maxprint")}
    return _over(type(matrix), matrix, **{**parts, "data": data})


def _transpose(matrix: Any, axes: Any = None, copy: bool = False) -> Any:
    if axes is not None and tuple(axes) != (1, 0):
        raise ValueError("Sparse arrays/matrices do not support an 'axes' parameter because swapping dimensions is the "
                         "only logical permutation.")  # fmt: skip
    shape = matrix.shape[::-1]
    if matrix.format in ("csr", "csc"):
        cls = matrix._csc_container if matrix.format == "csr" else matrix._csr_container
        return _over(cls, matrix, shape, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr)
    rows, columns, data = _entries(matrix)
    return _in_coordinates(matrix, shape, columns, rows, data)


def _toarray(matrix: Any, order: Any = None, out: Any = None) -> Any:
    if out is not None:
        raise unsupported("toarray with out=")
    rows, columns, data = _entries(matrix)
    height, width = matrix.shape
    return _sums((height * width,), F.add(F.mul(rows, Lit(width, INT)), columns), data).reshape(matrix.shape)


def _sum(matrix: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    rows, columns, data = _entries(matrix)
    if axis is None:
        return np.sum(data, dtype=dtype)
    if out is not None:
        raise _needs_contents(matrix, "sum with out=")
    axis = axis + 2 if axis < 0 else axis
    values = data if dtype is None else data.astype(dtype)
    found = _sums((matrix.shape[1 - axis],), rows if axis == 1 else columns, values)
    if isinstance(matrix, sys.modules["scipy.sparse"].spmatrix):
        return SumsOfMatrix(found[:, None] if axis == 1 else found[None], matrix)
    return found


class SumsOfMatrix:
    """The sums along an axis of a ``spmatrix``, which are a ``np.matrix``: as an array, or by ``.A1`` and ``.A``."""

    __array_ufunc__ = None

    def __init__(self, array: TracedArray, of: Any) -> None:
        self._array, self._of = array, of
        self.shape, self.ndim, self.dtype = array.shape, 2, array.dtype

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array

    @property
    def A(self) -> Any:  # noqa: N802
        return self._array

    @property
    def A1(self) -> Any:  # noqa: N802
        return self._array.reshape(-1)

    @property
    def T(self) -> Any:  # noqa: N802
        return SumsOfMatrix(self._array.T, self._of)

    def ravel(self) -> Any:
        return SumsOfMatrix(self._array.reshape(1, -1), self._of)

    flatten = ravel

    def tolist(self) -> Any:
        return self._array.tolist()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _needs_contents(self._of, f".{name} of the np.matrix of sums (write np.asarray(S.sum(axis=1)).ravel())")


_METHODS: dict[str, Callable[..., Any]] = {
    "_matmul_dispatch": _product, "_rmatmul_dispatch": _product_from_left, "dot": _product, "multiply": _multiply,
    "_with_data": _with_data, "transpose": _transpose, "toarray": _toarray, "sum": _sum,
}  # fmt: skip


@when_loaded("scipy.sparse", "dia_array")
def _install(sparse: Any) -> None:
    classes = [getattr(sparse, f"{name}_{form}") for name in (*_FORMATS, "lil", "dok") for form in ("array", "matrix")]
    for base in dict.fromkeys([base for cls in classes for base in cls.__mro__]):
        for name, implementation in _METHODS.items():
            if type(vars(base).get(name)) is FunctionType:
                hook(vars(base)[name], implementation, _applies)
