"""scipy.special functions that are plain Python, not ufuncs: logsumexp, softmax, polygamma, comb, spherical_jn.

NumPy's protocols never see a call of these: they convert their arguments at once (``hooks.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import _ufuncs

from ..ir.aval import canonical_axes
from ..ir.graph import Atom, Lit
from ..numpy_api.hooks import hook
from ..numpy_api.reduce import extreme, logsumexp_of
from ..numpy_api.registry import float_atom, reject
from ..ops import scipy_ufuncs as sp
from ..ops.elementwise import F, like, promote
from ..ops.reduce import reduce
from ..ops.shape import reshape
from ..record.array import TracedArray, to_atom, wrap

# ---- implementations ----------------------------------------------------------------------------------------------


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    x = float_atom(a)
    if b is None:
        found = wrap(logsumexp_of(x, canonical_axes(axis, x.aval.ndim, "logsumexp"), bool(keepdims)))
        return (found, np.where(found == -np.inf, 0.0, 1.0)) if return_sign else found
    x, weights = promote(x, to_atom(b), floating=True)
    shape = np.broadcast_shapes(x.aval.shape, weights.aval.shape)
    x, weights = (F.add(v, like(0, v)) if not v.aval.shape else v for v in (x, weights))
    x, weights = (to_atom(np.broadcast_to(wrap(v), shape)) for v in (x, weights))
    # an element of weight 0 adds nothing, even where it is infinite
    x = F.select(F.eq(weights, like(0, weights)), like(-np.inf, x), x)
    axes = canonical_axes(axis, len(shape), "logsumexp")
    if not return_sign:
        return wrap(logsumexp_of(x, axes, bool(keepdims), weights))
    top = F.stop_gradient(extreme("max", x, axes, True))
    top = F.select(F.isfinite(top), top, like(0, top))
    total = reduce("sum", F.mul(weights, F.exp(F.sub(x, top))), axes, True)
    sign = F.sign(total)
    found, sign = wrap(F.add(F.log(F.abs(total)), top)), wrap(sign)
    return (found, sign) if keepdims else (np.squeeze(found, axes), np.squeeze(sign, axes))


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
    if order is None or np.any(order < 0) or np.any(order != np.floor(order)):
        reject("scipy.special.polygamma", "the order must be a plain integer, or an array of them", n=True)
    if order is not None and order.ndim:
        found: Any = np.zeros(np.broadcast_shapes(order.shape, np.shape(x)))
        for k in np.unique(order).tolist():
            found = np.where(order == k, polygamma(int(k), x), found)
        return found
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


def _reflected(name: str, sign: int) -> Callable[..., Any]:
    """A spherical Bessel function; of negative numbers *sign* (-1)**n times that of the positive one, or for 0 the
    complex one."""
    private = getattr(_ufuncs, f"_{name}")
    slope = getattr(_ufuncs, f"_{name}_d")

    def spherical(n: Any, z: Any, derivative: bool = False) -> Any:
        n = n if isinstance(n, TracedArray) else np.asarray(n, dtype=int)
        function = slope if derivative else private
        if to_atom(z).aval.is_complex:
            return function(n, z)
        left = z < 0
        if not sign:
            return np.where(left, function(n, z + 0j).real, function(n, np.where(left, -z, z)))
        turn = np.where(left, sign * (1 - 2 * (n % 2)) * (-1 if derivative else 1), 1)
        return function(n, np.where(left, -z, z)) * turn

    return spherical


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    reject("scipy.special.comb", "it counts plain integers", exact=exact or None)
    if repetition:
        return np.where((k == 0) & (N >= 0), 1.0, comb(N + k - 1, k))
    return np.where((k <= N) & (N >= 0) & (k >= 0), sp.binom(N, k), 0.0)


def perm(N: Any, k: Any, exact: bool = False) -> Any:
    reject("scipy.special.perm", "it counts plain integers", exact=exact or None)
    return np.where((k <= N) & (N >= 0) & (k >= 0), sp.poch(N - k + 1, k), 0.0)


def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    reject("scipy.special.factorial", "it counts plain integers", exact=exact or None)
    found = sp.gamma(n + 1.0)
    return found if extend == "complex" else np.where(n < 0, 0.0, found)


def diric(x: Any, n: Any) -> Any:
    """sin(n x / 2) / (n sin(x / 2)), a polynomial of cos(x / 2)."""
    order = np.asarray(n) if not isinstance(n, TracedArray) else None
    if order is None:
        reject("scipy.special.diric", "n is a plain integer", n=True)
        return None
    whole = np.where((order > 0) & (order == np.floor(order)), order, 1).astype(int)
    found = sp.eval_chebyu(whole - 1, np.cos(x / 2)) / whole
    return np.where((order > 0) & (order == np.floor(order)), found, np.nan)


HOOKED = {
    name: hook(getattr(sp, name), implementation)
    for name, implementation in (
        ("logsumexp", logsumexp), ("softmax", softmax), ("log_softmax", log_softmax), ("softplus", softplus),
        ("polygamma", polygamma), ("multigammaln", multigammaln),
        ("comb", comb), ("perm", perm), ("factorial", factorial), ("diric", diric),
        ("spherical_jn", _reflected("spherical_jn", 1)), ("spherical_yn", _reflected("spherical_yn", -1)),
        ("spherical_in", _reflected("spherical_in", 1)), ("spherical_kn", _reflected("spherical_kn", 0)),
    )
    if hasattr(sp, name) and not isinstance(getattr(sp, name), np.ufunc)
}  # fmt: skip
