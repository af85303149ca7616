"""Recursive filters of signals that are rows, (..., 1, n), and correlations of matrices, (..., n, k).

    all_pole    y[t] = x[t] - a[0] y[t - 1] - ... - a[p - 1] y[t - p]    for coefficients (..., 1, p)
    correlate   y[s, t] = the sum of x[s + i, t + j] w[i, j]             where all of w lies within x

Their derivatives are made of the same two: the transpose of a filter is the filter backward in time, and that of a
correlation one with the weights turned round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import LAPACK, Primitive, register
from .elementwise import F
from .linalg import blas, matrix_axes, per_matrix, routine
from .shape import PAD, SLICE, slice_axis

_ANY = (-3.0, 3.0)


def backward(x: Atom) -> Atom:
    """*x* turned round, along both axes."""
    shape = x.aval.shape
    start = (*[0] * (len(shape) - 2), shape[-2] - 1, shape[-1] - 1)
    return bind(SLICE, x, start=start, step=(*[1] * (len(shape) - 2), -1, -1), shape=shape)


def among_zeros(x: Atom, rows: int, before: int, after: int) -> Atom:
    """*x* with *rows* of zeros above and below, and so many columns *before* and *after*."""
    *batch, n, k = x.aval.shape
    start = (*[0] * len(batch), rows, before)
    return bind(PAD, x, start=start, step=(1,) * x.aval.ndim, shape=(*batch, n + 2 * rows, k + before + after))


def _late(x: Atom, order: int) -> Atom:
    """The signal whose correlation with *order* weights sums x[t - 1], ..., x[t - order]."""
    return among_zeros(slice_axis(x, x.aval.ndim - 1, 0, x.aval.shape[-1] - 1), 0, order, 0)


def _alike(x: Aval, y: Aval) -> bool:
    return (
        x.ndim > 1 and x.shape[:-2] == y.shape[:-2] and x.dtype == y.dtype and 0 not in (*x.shape[-2:], *y.shape[-2:])
    )


# ---- recursive filters ---------------------------------------------------------------------------------------------


def _infer_all_pole(a: Aval, x: Aval) -> Aval:
    if not _alike(a, x) or a.shape[-2] != 1 or x.shape[-2] != 1:
        raise GraphError(f"all-pole filter {a} of {x}")
    return x


def _all_pole(a: np.ndarray, x: np.ndarray) -> Any:
    """By the triangular matrix of the filter, in bands."""
    (a,), (x,) = a, x
    bands = np.empty((a.size + 1, x.size), x.dtype, "F")
    bands[0], bands[1:] = 1, a[:, None]
    return routine(blas, "tbsv", x.dtype)(a.size, bands, x, lower=1, diag=1)


def _all_pole_vjp(ct: Atom, out: Var, a: Atom, x: Atom) -> tuple[Atom, Atom]:
    of_x = backward(all_pole(a, backward(ct)))
    return F.neg(backward(correlate(_late(out, a.aval.shape[-1]), of_x))), of_x


def _all_pole_jvp(tangents: Any, out: Var, a: Atom, x: Atom) -> Atom:
    of_a, moved = tangents
    if of_a is not None:
        share = correlate(_late(out, a.aval.shape[-1]), backward(of_a))
        moved = F.neg(share) if moved is None else F.sub(moved, share)
    return all_pole(a, moved)


ALL_POLE: Primitive = register(
    Primitive(
        "all_pole", LAPACK, per_matrix(_all_pole, _infer_all_pole), _infer_all_pole, vjp=_all_pole_vjp,
        jvp=_all_pole_jvp, axes=matrix_axes("kp", "kt", "kt"), domain=((-0.4, 0.4), _ANY),
        test={"shapes": ((2, 1, 2), (2, 1, 6))},
    )
)  # fmt: skip


def all_pole(a: Atom, x: Atom) -> Atom:
    return bind(ALL_POLE, a, x)


# ---- correlations --------------------------------------------------------------------------------------------------


def _infer_correlate(x: Aval, w: Aval) -> Aval:
    rows, columns = (n - m + 1 for n, m in zip(x.shape[-2:], w.shape[-2:], strict=True))
    if not _alike(x, w) or min(rows, columns) < 1:
        raise GraphError(f"correlation of {x} with {w}")
    return Aval(x.dtype, (*x.shape[:-2], rows, columns))


def _correlate(x: np.ndarray, w: np.ndarray) -> Any:
    """One call of ``np.correlate`` for each row of *w*, or for each column of a high one: rows of *x* that lie one
    after another are one row, and what comes of two of them is dropped."""
    if w.shape[0] > w.shape[1]:
        return _correlate(x.T, w.T).T
    rows, columns = (n - m + 1 for n, m in zip(x.shape, w.shape, strict=True))
    total = np.zeros((rows, columns), x.dtype)
    beyond = np.zeros(w.shape[1] - 1, x.dtype)
    for i, weights in enumerate(w):
        found = np.correlate(np.ascontiguousarray(x[i : i + rows]).ravel(), weights)
        total += np.concatenate([found, beyond]).reshape(rows, -1)[:, :columns]
    return total


def _correlate_vjp(ct: Atom, out: Var, x: Atom, w: Atom) -> tuple[Atom, Atom]:
    rows, columns = (m - 1 for m in w.aval.shape[-2:])
    return correlate(among_zeros(ct, rows, columns, columns), backward(w)), correlate(x, ct)


def _correlate_jvp(tangents: Any, out: Var, x: Atom, w: Atom) -> Atom:
    of_x, of_w = tangents
    shares = [correlate(*pair) for pair in ((of_x, w), (x, of_w)) if None not in pair]
    return shares[0] if len(shares) == 1 else F.add(*shares)


CORRELATE: Primitive = register(
    Primitive(
        "correlate", LAPACK, per_matrix(_correlate, _infer_correlate), _infer_correlate, vjp=_correlate_vjp,
        jvp=_correlate_jvp, axes=matrix_axes("np", "mq", "st"), domain=(_ANY, _ANY),
        test={"shapes": ((2, 3, 7), (2, 2, 3))},
    )
)  # fmt: skip


def correlate(x: Atom, w: Atom) -> Atom:
    return bind(CORRELATE, x, w)
