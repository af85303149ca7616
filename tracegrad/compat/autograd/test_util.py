"""Derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from .core import make_jvp, make_vjp, vspace
from .wrap_util import get_name, unary_to_nary

TOL = 1e-6
RTOL = 1e-6
EPS = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def make_numerical_jvp(f: Callable[..., Any], x: Any) -> Callable[[Any], Any]:
    y = f(x)
    x_vs, y_vs = vspace(x), vspace(y)

    def jvp(v: Any) -> Any:
        f_x_plus = f(x_vs.add(x, x_vs.scalar_mul(v, EPS / 2)))
        f_x_minus = f(x_vs.add(x, x_vs.scalar_mul(v, -EPS / 2)))
        return y_vs.scalar_mul(y_vs.add(f_x_plus, y_vs.scalar_mul(f_x_minus, -1.0)), 1.0 / EPS)

    return jvp


def check_vjp(f: Callable[..., Any], x: Any) -> None:
    vjp, y = make_vjp(f, x)
    jvp = make_numerical_jvp(f, x)
    x_vs, y_vs = vspace(x), vspace(y)
    x_v, y_v = x_vs.randn(), y_vs.randn()
    vjp_y = x_vs.covector(vjp(y_vs.covector(y_v)))
    assert vspace(vjp_y) == x_vs
    vjv_exact = x_vs.inner_prod(x_v, vjp_y)
    vjv_numeric = y_vs.inner_prod(y_v, jvp(x_v))
    assert scalar_close(vjv_numeric, vjv_exact), (
        f"Derivative (VJP) check of {get_name(f)} failed with arg {x}:\nanalytic: {vjv_exact}\nnumeric:  {vjv_numeric}"
    )


def check_jvp(f: Callable[..., Any], x: Any) -> None:
    jvp = make_jvp(f, x)
    jvp_numeric = make_numerical_jvp(f, x)
    x_v = vspace(x).randn()
    check_equivalent(jvp(x_v)[1], jvp_numeric(x_v))


def check_equivalent(x: Any, y: Any) -> None:
    x_vs, y_vs = vspace(x), vspace(y)
    assert x_vs == y_vs, f"VSpace mismatch:\nx: {x_vs}\ny: {y_vs}"
    v = x_vs.randn()
    assert scalar_close(x_vs.inner_prod(x, v), x_vs.inner_prod(y, v)), f"Value mismatch:\nx: {x}\ny: {y}"


@unary_to_nary
def check_grads(f: Callable[..., Any], x: Any, modes: Sequence[str] = ("fwd", "rev"), order: int = 2) -> None:
    """Compare the derivatives of *f* up to *order* with differences."""
    assert all(m in ["fwd", "rev"] for m in modes)
    if "fwd" in modes:
        check_jvp(f, x)
        if order > 1:

            def jvp_of(x: Any, v: Any) -> Any:
                return make_jvp(f, x)(v)[1]

            jvp_of.__name__ = f"jvp_{get_name(f)}"
            check_grads(jvp_of, (0, 1), modes, order=order - 1)(x, vspace(x).randn())
    if "rev" in modes:
        check_vjp(f, x)
        if order > 1:

            def vjp_of(x: Any, v: Any) -> Any:
                return make_vjp(f, x)[0](v)

            vjp_of.__name__ = f"vjp_{get_name(f)}"
            check_grads(vjp_of, (0, 1), modes, order=order - 1)(x, vspace(f(x)).randn())


def combo_check(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., None]:
    """Tests all combinations of args and kwargs given."""

    def _combo_check(*values: Any, **options: Any) -> None:
        columns = [[(k, x) for x in xs] for k, xs in options.items()]
        for _args in product(*values):
            for _kwargs in product(*columns):
                check_grads(fun, *args, **kwargs)(*_args, **dict(_kwargs))

    return _combo_check
