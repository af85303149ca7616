"""Fixed points and their derivatives, by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import make_vjp
from ..primitives import defvjp, primitive
from ..vspace import vspace


@primitive
def fixed_point(f: Callable[[Any], Callable[[Any], Any]], a: Any, x0: Any, distance: Any, tol: float) -> Any:
    """The x that ``f(a)(x)`` leaves where it is, to a *distance* of *tol*, by iteration from *x0*."""
    step = f(a)
    x, x_prev = step(x0), x0
    while distance(x, x_prev) > tol:
        x, x_prev = step(x), x
    return x


def _fixed_point_vjp(ans: Any, f: Any, a: Any, x0: Any, distance: Any, tol: float) -> Any:
    def rev_iter(params: Any) -> Any:
        a, x_star, x_star_bar = params
        vjp_x, _ = make_vjp(f(a), x_star)
        vs = vspace(x_star)
        return lambda g: vs.add(vjp_x(g), x_star_bar)

    vjp_a, _ = make_vjp(lambda pair: f(pair[0])(pair[1]), (a, ans))
    return lambda g: vjp_a(fixed_point(rev_iter, (a, ans, g), vspace(x0).zeros(), distance, tol))[0]


defvjp(fixed_point, None, _fixed_point_vjp, None)
