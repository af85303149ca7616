"""Legendre functions and spherical harmonics of scipy.special, which are no ufuncs: ``legendre_p``, ``sph_harm_y``.

By recurrences over the degree in cos(theta) and sin(theta), which are regular at the poles, as are their derivatives.
Degrees and orders are plain integers or arrays of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import UnsupportedError
from ..numpy_api.hooks import hook
from ..numpy_api.registry import reject
from ..ops import scipy_ufuncs as sp
from ..record.array import is_traced

# ---- values for one degree and order -------------------------------------------------------------------------------


def _column(m: int, top: int, x: Any, s: Any) -> list[Any]:
    """The normalised functions of order *m* >= 0 and degrees m to *top* of x = cos(theta), *s* = sin(theta)."""
    value = math.sqrt(1 / (4 * math.pi)) + 0 * x
    for k in range(1, m + 1):
        value = -math.sqrt((2 * k + 1) / (2 * k)) * s * value
    found, before = [value], None
    for n in range(m + 1, top + 1):
        a = math.sqrt((4 * n * n - 1) / (n * n - m * m))
        following = a * x * value
        if before is not None:
            following = following - a * math.sqrt(((n - 1) ** 2 - m * m) / (4 * (n - 1) ** 2 - 1)) * before
        before, value = value, following
        found.append(value)
    return found


class _Spherical:
    """The normalised functions of one angle, made as they are asked for; of orders above the degree they are 0.

    SciPy takes the size of the sine, so that they are even in the angle."""

    def __init__(self, x: Any, s: Any):
        self.x, self.s, self.turn = x, np.abs(s), np.where(s < 0, -1.0, 1.0)
        self.columns: dict[int, list[Any]] = {}

    def value(self, n: int, m: int) -> Any:
        if abs(m) > n:
            return 0 * self.x
        known = self.columns.get(abs(m), [])
        if len(known) <= n - abs(m):
            known = self.columns[abs(m)] = _column(abs(m), n, self.x, self.s)
        found = known[n - abs(m)]
        return -found if m < 0 and m % 2 else found

    def slope(self, n: int, m: int, order: int) -> Any:
        """The derivative of *order* by the angle."""
        if order == 0 or abs(m) > n:
            return self.value(n, m)
        total = 0 * self.x
        if m + 1 <= n:
            total = total + 0.5 * math.sqrt((n - m) * (n + m + 1)) * self.slope(n, m + 1, order - 1)
        if m - 1 >= -n:
            total = total - 0.5 * math.sqrt((n + m) * (n - m + 1)) * self.slope(n, m - 1, order - 1)
        return total * self.turn


def _norm(n: int, m: int) -> float:
    """The factor from a normalised function to the one that is not."""
    return math.sqrt(4 * math.pi / (2 * n + 1) * math.exp(math.lgamma(n + m + 1) - math.lgamma(n - m + 1)))


def _associated(x: Any, norm: bool) -> Callable[[int, int], Any]:
    functions = _Spherical(x, np.sqrt(1 - x * x))

    def value(n: int, m: int) -> Any:
        found = functions.value(n, m)
        return found * (math.sqrt(2 * math.pi) if norm else _norm(n, m) if abs(m) <= n else 1)

    return value


def _polynomial(n: int, x: Any, order: int) -> Any:
    """The derivative of *order* of the Legendre polynomial of degree *n*."""
    if n < order:
        return 0 * x
    factor = math.prod(range(1, 2 * order, 2))
    return factor * sp.eval_gegenbauer(n - order, order + 0.5, x) if order else sp.eval_legendre(n, x)


# ---- of arrays of degrees and orders -------------------------------------------------------------------------------


def _each(function: Callable[[int, int], Any], n: Any, m: Any, shape: tuple[int, ...]) -> Any:
    """*function* of each pair of integers, along axes that broadcast with the *shape* of its results."""
    if is_traced(n) or is_traced(m):
        raise UnsupportedError.here("degree and order of Legendre functions are plain integers: they are traced here")
    degrees, orders = np.broadcast_arrays(n, m)
    if degrees.dtype.kind not in "iu" or orders.dtype.kind not in "iu":
        raise UnsupportedError.here("degree and order of Legendre functions are integers: write them as ints")
    if not degrees.ndim:
        return function(int(degrees), int(orders))
    wide = np.broadcast_shapes(degrees.shape, shape)
    total: Any = np.zeros(wide)
    for pair in sorted(set(zip(degrees.ravel().tolist(), orders.ravel().tolist(), strict=True))):
        here = (degrees == pair[0]) & (orders == pair[1])
        total = np.where(here, function(*pair), total)
    return total


def _derivatives(diff_n: int, value: Callable[[int], Any]) -> Any:
    return np.stack([value(k) for k in range(diff_n + 1)])


def _all_orders(n: int, m: int, value: Callable[[int, int], Any]) -> Any:
    """An axis of degrees 0 to *n*, and one of orders 0, ..., *m*, -*m*, ..., -1."""
    orders = [*range(abs(m) + 1), *range(-abs(m), 0)]
    return np.stack([np.stack([value(degree, order) for order in orders]) for degree in range(n + 1)])


# ---- SciPy's functions ---------------------------------------------------------------------------------------------


def _legendre_p(n: Any, z: Any, *, diff_n: int = 0) -> Any:
    return _derivatives(diff_n, lambda k: _each(lambda degree, _: _polynomial(degree, z, k), n, 0, np.shape(z)))


def _legendre_p_all(n: int, z: Any, *, diff_n: int = 0) -> Any:
    return _derivatives(diff_n, lambda k: np.stack([_polynomial(degree, z, k) for degree in range(n + 1)]))


def _only_value(name: str, diff_n: int) -> None:
    reject(f"scipy.special.{name}", "differentiate the function itself", diff_n=diff_n or None)


def _assoc_legendre_p(n: Any, m: Any, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0) -> Any:
    _only_value("assoc_legendre_p", diff_n)
    return _each(_associated(z, norm), n, m, np.shape(z))[None]


def _assoc_legendre_p_all(
    n: int, m: int, z: Any, *, branch_cut: Any = 2, norm: bool = False, diff_n: int = 0
) -> Any:  # fmt: skip
    _only_value("assoc_legendre_p_all", diff_n)
    return _all_orders(n, m, _associated(z, norm))[None]


def _sph_legendre_p(n: Any, m: Any, theta: Any, *, diff_n: int = 0) -> Any:
    functions = _Spherical(np.cos(theta), np.sin(theta))
    return _derivatives(
        diff_n, lambda k: _each(lambda degree, order: functions.slope(degree, order, k), n, m, np.shape(theta))
    )


def _sph_legendre_p_all(n: int, m: int, theta: Any, *, diff_n: int = 0) -> Any:
    functions = _Spherical(np.cos(theta), np.sin(theta))
    return _derivatives(diff_n, lambda k: _all_orders(n, m, lambda degree, order: functions.slope(degree, order, k)))


def _harmonics(theta: Any, phi: Any) -> Callable[[int, int], Any]:
    functions = _Spherical(np.cos(theta), np.sin(theta))
    return lambda n, m: functions.value(n, m) * (np.cos(m * phi) + 1j * np.sin(m * phi))


def _sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    _only_value("sph_harm_y", diff_n)
    return _each(_harmonics(theta, phi), n, m, np.broadcast_shapes(np.shape(theta), np.shape(phi)))


def _sph_harm_y_all(n: int, m: int, theta: Any, phi: Any, *, diff_n: int = 0) -> Any:
    _only_value("sph_harm_y_all", diff_n)
    return _all_orders(n, m, _harmonics(theta, phi))


_MULTIPLE: dict[str, Callable[..., Any]] = {
    "legendre_p": _legendre_p, "legendre_p_all": _legendre_p_all, "assoc_legendre_p": _assoc_legendre_p,
    "assoc_legendre_p_all": _assoc_legendre_p_all, "sph_legendre_p": _sph_legendre_p,
    "sph_legendre_p_all": _sph_legendre_p_all, "sph_harm_y": _sph_harm_y, "sph_harm_y_all": _sph_harm_y_all,
}  # fmt: skip
HOOKED = dict.fromkeys(_MULTIPLE, True)
_implementations = {id(getattr(sp, name)): ours for name, ours in _MULTIPLE.items()}  # which share one method
hook(type(sp.sph_harm_y).__call__, lambda self, *args, **kwargs: _implementations[id(self)](*args, **kwargs))
