"""Correlation of arrays with windows of many elements; those of few are sums of shifted parts in the kernel.

Sizes are those of "valid": ``x.shape - w.shape + 1`` on each axis.  It is linear in each operand, and both derivatives
are correlations.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.axes import unrelated
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.primitive import HOST, Primitive, register
from .elementwise import F
from .shape import PAD, slice_axis


def _infer(x: Aval, w: Aval) -> Aval:
    if x.dtype != w.dtype or x.ndim != w.ndim or any(k < 1 or n < k for n, k in zip(x.shape, w.shape, strict=True)):
        raise GraphError(f"correlation of {x} with {w}")
    return Aval(x.dtype, tuple([n - k + 1 for n, k in zip(x.shape, w.shape, strict=True)]))


def _correlate(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """One call of ``np.correlate`` for each row of the window: rows of *x* that lie one after another are one row, and
    what comes of two of them is dropped."""
    last = int(np.argmax(w.shape))
    x, w = np.moveaxis(x, last, -1), np.moveaxis(w, last, -1)
    *outer, count = [n - k + 1 for n, k in zip(x.shape, w.shape, strict=True)]
    total = np.zeros((*outer, count), x.dtype)
    for offset in itertools.product(*map(range, w.shape[:-1])):
        part = np.ascontiguousarray(x[tuple([slice(k, k + n) for k, n in zip(offset, outer, strict=True)])])
        row = np.correlate(part.ravel(), w[offset])
        row = np.concatenate([row, np.zeros(w.shape[-1] - 1, x.dtype)])
        total += row.reshape(*outer, x.shape[-1])[..., :count]
    return np.moveaxis(total, -1, last)


def _turned(w: Atom) -> Atom:
    """*w* with each axis from its end."""
    for axis, n in enumerate(w.aval.shape):
        w = slice_axis(w, axis, n - 1, n, -1)
    return w


def _vjp(ct: Atom, out: Var, x: Atom, w: Atom) -> tuple[Var, Var]:
    start = tuple([k - 1 for k in w.aval.shape])
    shape = tuple([n + 2 * k for n, k in zip(ct.aval.shape, start, strict=True)])
    around = bind(PAD, ct, start=start, step=(1,) * len(shape), shape=shape)
    return correlate(around, _turned(w)), correlate(x, ct)


def _jvp(tangents: Any, out: Var, x: Atom, w: Atom) -> Atom:
    of_x, of_w = tangents
    if of_x is None or of_w is None:
        return correlate(x if of_x is None else of_x, w if of_w is None else of_w)
    return F.add(correlate(of_x, w), correlate(x, of_w))


CORRELATE: Primitive = register(
    Primitive(
        "correlate", HOST, _correlate, _infer, vjp=_vjp, jvp=_jvp,
        axes=unrelated, domain=((-3.0, 3.0), (-3.0, 3.0)), test={"shapes": ((3, 7), (2, 4))},
    )
)  # fmt: skip


def correlate(x: Atom, w: Atom) -> Var:
    """sum over k of w[k] x[i + k], both of as many axes."""
    return bind(CORRELATE, x, w)
