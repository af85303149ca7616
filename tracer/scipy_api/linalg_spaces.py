"""scipy.linalg: pseudo-inverses, norms, and spaces of columns, made of singular values."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from ..ir.aval import COMPLEX, INT, Ints
from ..ir.errors import ShapeError
from ..ir.graph import Atom, Lit
from ..numpy_api.linalg import must_hold, squares
from ..numpy_api.linalg_factors import lstsq_of, pinv_of, question, svd_of, values_of
from ..numpy_api.registry import atom_of
from ..ops import linalg as ops
from ..ops.elementwise import F, cast, like, promote
from ..ops.linalg_eigen import hermitian
from ..ops.linalg_pinv import above
from ..ops.reduce import reduce
from ..record.array import FUNCTIONS, wrap
from .linalg import for_scipy, hooked, matrix


@hooked("pinv")
def _pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    x = matrix(a, check_finite)
    lane = COMPLEX.get(x.aval.dtype, x.aval.dtype)
    share = max(x.aval.shape[-2:]) * float(np.finfo(x.aval.dtype).eps) if rtol is None else float(rtol)
    cutoff: Atom = Lit(share, lane)
    if atol:
        cutoff = F.add(cutoff, F.div(Lit(float(atol), lane), ops.part(F.stop_gradient(values_of(x)), 0)))
    inverse, s = pinv_of(x, cutoff)
    if not return_rank:
        return wrap(inverse)
    return wrap(inverse), question(reduce("sum", cast(above(F.stop_gradient(s), cutoff), INT), (0,)))


@hooked("pinvh")
def _pinvh(
    a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    x = matrix(a, check_finite)
    squares(x)
    return _pinv(wrap(hermitian(x, lower)), atol=atol, rtol=rtol, return_rank=return_rank, check_finite=False)


def _rank(s: Atom, shape: Ints, rcond: Any) -> int:
    """How many of the singular values of one matrix of *shape* count."""
    share = max(shape) * float(np.finfo(s.aval.dtype).eps) if rcond is None else float(rcond)
    return question(reduce("sum", cast(above(F.stop_gradient(s), like(share, s)), INT), (0,)))


@hooked("orth")
def _orth(A: Any, rcond: Any = None) -> Any:
    x = matrix(A, True)
    u, s, _ = svd_of(x)
    return wrap(u)[:, : _rank(s, x.aval.shape, rcond)]


@hooked("null_space")
def _null_space(
    A: Any, rcond: Any = None, *, overwrite_a: bool = False, check_finite: bool = True, lapack_driver: str = "gesdd"
) -> Any:
    x = matrix(A, check_finite)
    _, s, vh = svd_of(x, True)
    return np.conj(wrap(vh)[_rank(s, x.aval.shape, rcond) :].T)


@hooked("subspace_angles")
def _subspace_angles(A: Any, B: Any) -> Any:
    first, second = scipy.linalg.orth(wrap(atom_of(A))), scipy.linalg.orth(wrap(atom_of(B)))
    if len(first) != len(second):
        raise ShapeError.here(f"A and B must have the same number of rows, got {first.shape[0]} and {second.shape[0]}")
    inner = np.conj(first.T) @ second
    outside = second - first @ inner if first.shape[1] >= second.shape[1] else first - second @ np.conj(inner.T)
    cosines, sines = scipy.linalg.svdvals(inner), scipy.linalg.svdvals(outside)
    small = cosines**2 >= 0.5
    return np.where(small, np.arcsin(np.clip(sines, -1.0, 1.0)), np.arccos(np.clip(cosines[::-1], -1.0, 1.0)))


@hooked("orthogonal_procrustes")
def _orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> Any:
    x, y = matrix(A, check_finite), matrix(B, check_finite)
    if x.aval.ndim != 2 or x.aval.shape != y.aval.shape:
        raise ShapeError.here(f"the shapes of A and B differ ({x.aval.shape} vs {y.aval.shape})")
    x, y = promote(x, y)
    u, s, vh = map(wrap, svd_of(ops.times(x, y, True)))
    return u @ vh, np.sum(s)


@hooked("lstsq")
def _lstsq(
    a: Any, b: Any, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
    lapack_driver: Any = None,
) -> Any:  # fmt: skip
    x, y = for_scipy(a, b)
    *found, rank, s = lstsq_of(x, y, float(np.finfo(x.aval.dtype).eps) if cond is None else cond)
    return *found, int(rank), s


@hooked("norm")
def _norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    x = atom_of(a)
    if check_finite:
        must_hold(F.isfinite(x), "array must not contain infs or NaNs")
    return FUNCTIONS[np.linalg.norm](wrap(x), ord, axis, keepdims)
