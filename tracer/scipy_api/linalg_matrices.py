"""scipy.linalg: matrices of a structure, made of vectors, and equations with them."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg

from ..ir.aval import Ints, broadcast_shapes
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..numpy_api.hooks import hook_to_source
from ..numpy_api.linalg import must_hold
from ..numpy_api.registry import atom_of
from ..ops.complex import conjugate
from ..ops.elementwise import F, broadcast_to, like, promote
from ..ops.shape import concat, full, reshape, slice_axis
from ..record.array import to_atom, wrap
from .linalg import HOOKED, hooked, in_double


def _vector(value: Any) -> Atom:
    x = atom_of(value)
    return x if x.aval.ndim else reshape(x, (1,))


def _picked(values: Atom, index: np.ndarray) -> Any:
    return wrap(values)[..., index]


def _first_and_last(name: str, c: Any, r: Any, unit: Any) -> tuple[Atom, Atom]:
    """The first columns and the other vectors of a batch of matrices, along the last axis."""
    column = _vector(c)
    row = unit(column) if r is None else _vector(r)
    column, row = promote(column, row)
    if max(column.aval.ndim, row.aval.ndim) > 1 and not _makes_batches(name):
        return reshape(column, (column.aval.size,)), reshape(row, (row.aval.size,))
    batch = broadcast_shapes(column.aval.shape[:-1], row.aval.shape[:-1], what=f"scipy.linalg.{name}")
    return broadcast_to(column, (*batch, column.aval.shape[-1])), broadcast_to(row, (*batch, row.aval.shape[-1]))


@lru_cache(None)
def _makes_batches(name: str) -> bool:
    """Whether this SciPy takes further axes for those of a batch, and does not flatten them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(scipy.linalg, name)(np.zeros((2, 1)), np.zeros((2, 1))).ndim == 3


def toeplitz_of(c: Any, r: Any) -> Any:
    column, row = _first_and_last("toeplitz", c, r, conjugate)
    axis, m, n = column.aval.ndim - 1, column.aval.shape[-1], row.aval.shape[-1]
    values = concat([slice_axis(column, axis, m - 1, m, -1), slice_axis(row, axis, 1, n - 1)], axis)
    return _picked(values, m - 1 + np.arange(n) - np.arange(m)[:, None])


@hooked("toeplitz")
def _toeplitz(c: Any, r: Any = None) -> Any:
    return toeplitz_of(c, r)


@hooked("hankel")
def _hankel(c: Any, r: Any = None) -> Any:
    column, row = _first_and_last("hankel", c, r, lambda x: full(like(0, x), x.aval.shape))
    axis, m, n = column.aval.ndim - 1, column.aval.shape[-1], row.aval.shape[-1]
    return _picked(concat([column, slice_axis(row, axis, 1, n - 1)], axis), np.arange(m)[:, None] + np.arange(n))


@hooked("circulant")
def _circulant(c: Any) -> Any:
    column = _vector(c)
    n = column.aval.shape[-1]
    return _picked(column, (np.arange(n)[:, None] - np.arange(n)) % max(n, 1))


@hooked("solve_toeplitz")
def _solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return np.linalg.solve(wrap(in_double(to_atom(toeplitz_of(c, r)))), b)


@hooked("block_diag")
def _block_diag(*arrs: Any) -> Any:
    blocks = [atom_of(x) for x in arrs]
    blocks = [x if x.aval.ndim > 1 else reshape(x, (1, x.aval.size)) for x in promote(*blocks)]
    batch = broadcast_shapes(*[x.aval.shape[:-2] for x in blocks], what="batch dimensions of scipy.linalg.block_diag")
    width, axis, at, rows = sum(x.aval.shape[-1] for x in blocks), len(batch) + 1, 0, []
    for x in blocks:
        m, n = x.aval.shape[-2:]
        shape: Ints = (*batch, m)
        sides = [full(like(0, x), (*shape, k)) for k in (at, width - at - n)]
        rows.append(concat([sides[0], broadcast_to(x, (*shape, n)), sides[1]], axis))
        at += n
    return wrap(concat(rows, axis - 1))


@hooked("companion")
def _companion(a: Any) -> Any:
    x = wrap(_vector(a))
    if x.shape[-1] < 2:
        raise ShapeError.here("The length of `a` along the last axis must be at least 2.")
    first = to_atom(x[..., 0])
    error = "The first coefficient(s) of `a` (i.e. elements of `a[..., 0]`) must not be zero."
    must_hold(F.ne(first, like(0, first)), error)
    row = -x[..., 1:] / (1.0 * x[..., :1])
    n = row.shape[-1]
    below = np.broadcast_to(np.eye(n - 1, n, dtype=row.dtype), (*row.shape[:-1], n - 1, n))
    return np.concatenate([row[..., None, :], below], axis=-2)


@hooked("diagsvd")
def _diagsvd(s: Any, M: int, N: int) -> Any:
    x = wrap(_vector(s))
    n = x.shape[-1]
    if n not in (M, N):
        raise ShapeError.here("Length of s must be M or N.")
    sizes = [(0, 0)] * (x.ndim - 1)
    return np.pad(x[..., :, None] * np.eye(n, dtype=x.dtype), [*sizes, (0, M - n), (0, N - n)])


@hooked("leslie")
def _leslie(f: Any, s: Any) -> Any:
    first, rates = (wrap(_vector(x)) for x in (f, s))
    if first.shape[-1] != rates.shape[-1] + 1:
        raise ShapeError.here(
            "Incorrect lengths for f and s. The length of s along the last axis must be one less than the length of f."
        )
    if not rates.shape[-1]:
        raise ShapeError.here("The length of s must be at least 1.")
    below = rates[..., :, None] * np.eye(first.shape[-1], dtype=rates.dtype)[:-1]
    return np.concatenate([first[..., None, :], below], axis=-2)


@hooked("fiedler")
def _fiedler(a: Any) -> Any:
    x = wrap(_vector(a))
    return np.abs(x[..., :, None] - x[..., None, :])


@hooked("convolution_matrix")
def _convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    x = _vector(a)
    size, n = x.aval.shape[-1], int(n)
    if n <= 0:
        raise ShapeError.here("n must be a positive integer.")
    if not x.aval.size:
        raise ShapeError.here("len(a) must be at least 1.")
    if mode not in ("full", "valid", "same"):
        raise ShapeError.here("'mode' argument must be one of ('full', 'valid', 'same')")
    cut = {"full": 0, "same": min(n, size) - 1, "valid": 2 * (min(n, size) - 1)}[mode]
    rows = np.arange(size + n - 1)[cut // 2 : size + n - 1 - (cut - cut // 2)]
    zeros = full(like(0, x), (*x.aval.shape[:-1], 1))
    at = rows[:, None] - np.arange(n)
    return _picked(concat([x, zeros], x.aval.ndim - 1), np.where((at >= 0) & (at < size), at, size))


@hooked("khatri_rao")
def _khatri_rao(a: Any, b: Any) -> Any:
    x, y = (wrap(atom_of(v)) for v in (a, b))
    if x.ndim < 2 or y.ndim < 2:
        raise ShapeError.here("The both arrays should be 2-dimensional.")
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError.here("The number of columns for both arrays should be equal.")
    found = x[..., :, None, :] * y[..., None, :, :]
    return found.reshape(*found.shape[:-3], -1, found.shape[-1])


# ---- products, equations -----------------------------------------------------------------------------------------


@hooked("matmul_toeplitz")
def _matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> Any:
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    column, row = (wrap(in_double(v)) for v in _first_and_last("toeplitz", c, r, conjugate))
    if column.ndim > 1:
        raise UnsupportedError.here("matmul_toeplitz takes one column and one row: write toeplitz(c, r) @ x for many")
    vectors = wrap(in_double(_vector(x)))
    columns = vectors[:, None] if vectors.ndim == 1 else vectors
    if columns.shape[0] != row.size:
        raise ShapeError.here("Incompatible dimensions.")
    circle: Any = np.concatenate([column, row[:0:-1]])
    n = circle.size
    if np.iscomplexobj(circle) or np.iscomplexobj(columns):
        found: Any = np.fft.ifft(np.fft.fft(circle)[:, None] * np.fft.fft(columns, n, axis=0), axis=0)
    else:
        found = np.fft.irfft(np.fft.rfft(circle)[:, None] * np.fft.rfft(columns, n, axis=0), n, axis=0)
    return found[: column.size].reshape(column.size, *vectors.shape[1:])


for _name in ("fiedler_companion", "solve_circulant"):
    hook_to_source(getattr(scipy.linalg, _name))
    HOOKED[_name] = True
