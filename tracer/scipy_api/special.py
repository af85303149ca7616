"""scipy.special functions that are plain Python, not ufuncs: logsumexp, softmax, log_softmax, softplus, polygamma.

NumPy's protocols never see a call of these: they convert their arguments at once (``hooks.py``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sp

from ..ir.aval import canonical_axes
from ..ir.graph import Atom, Lit
from ..numpy_api.hooks import hook
from ..numpy_api.reduce import extreme, logsumexp_of
from ..numpy_api.registry import float_atom, reject
from ..ops.elementwise import F, like, promote
from ..ops.reduce import reduce
from ..ops.shape import reshape
from ..record.array import TracedArray, to_atom, wrap

# ---- implementations ----------------------------------------------------------------------------------------------


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    reject("scipy.special.logsumexp", "take the sign apart yourself", return_sign=return_sign)
    x = float_atom(a)
    if b is None:
        return wrap(logsumexp_of(x, canonical_axes(axis, x.aval.ndim, "logsumexp"), bool(keepdims)))
    x, weights = promote(x, to_atom(b), floating=True)
    shape = np.broadcast_shapes(x.aval.shape, weights.aval.shape)
    x, weights = (F.add(v, like(0, v)) if not v.aval.shape else v for v in (x, weights))
    x, weights = (to_atom(np.broadcast_to(wrap(v), shape)) for v in (x, weights))
    # an element of weight 0 adds nothing, even where it is infinite
    x = F.select(F.eq(weights, like(0, weights)), like(-np.inf, x), x)
    return wrap(logsumexp_of(x, canonical_axes(axis, len(shape), "logsumexp"), bool(keepdims), weights))


def softmax(x: Any, axis: Any = None) -> Any:
    atom = float_atom(x)
    axes = canonical_axes(axis, atom.aval.ndim, "softmax")
    terms = F.exp(F.sub(atom, F.stop_gradient(extreme("max", atom, axes, True))))  # NaN where that is infinite
    return wrap(F.div(terms, reduce("sum", terms, axes, True)))


def log_softmax(x: Any, axis: Any = None) -> Any:
    atom = float_atom(x)
    axes = canonical_axes(axis, atom.aval.ndim, "log_softmax")
    top = extreme("max", atom, axes, True)
    shifted = F.sub(atom, F.stop_gradient(F.select(F.isfinite(top), top, like(0, top))))
    return wrap(F.sub(shifted, F.log(reduce("sum", F.exp(shifted), axes, True))))


def softplus(x: Any, **kwargs: Any) -> Any:
    reject("scipy.special.softplus", "apply np.where to the result", **kwargs)
    atom = float_atom(x)
    return wrap(F.logaddexp(like(0, atom), atom))


def polygamma(n: Any, x: Any) -> Any:
    order = np.asarray(n) if not isinstance(n, TracedArray) else None
    if order is None or order.ndim or order < 0 or order != int(order):
        reject("scipy.special.polygamma", "the order must be one plain integer", n=True)
    atom = float_atom(x)
    return wrap(F.psi(atom) if int(order) == 0 else F.polygamma(atom, n=int(order)))  # type: ignore[arg-type]


def multigammaln(a: Any, d: Any) -> Any:
    atom = float_atom(a)
    size = int(d)
    steps = np.arange(size) / 2
    terms = [F.gammaln(F.sub(atom, Lit(s, atom.aval.dtype))) for s in steps]
    total = Lit(size * (size - 1) * 0.25 * np.log(np.pi), atom.aval.dtype)
    result: Atom = F.add(terms[0], total)
    for term in terms[1:]:
        result = F.add(result, term)
    return wrap(reshape(result, atom.aval.shape))


HOOKED = {
    name: hook(getattr(sp, name), implementation)
    for name, implementation in (
        ("logsumexp", logsumexp), ("softmax", softmax), ("log_softmax", log_softmax), ("softplus", softplus),
        ("polygamma", polygamma), ("multigammaln", multigammaln),
    )
    if hasattr(sp, name) and not isinstance(getattr(sp, name), np.ufunc)
}  # fmt: skip
