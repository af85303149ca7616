"""Reverse mode of functions of any results, as users call it: ``vjp``, ``elementwise_grad``, ``make_vjp``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Never, overload

from ...tracer.ir.tracebacks import for_users
from ..declare import positions, refuse_arguments
from ..wrapper import P, R
from .transform import Transform, TransformRule, rule_of, transformed


@dataclass(frozen=True, eq=False)
class Vjp(TransformRule):
    """``primals -> (value, the linear map of cotangents)``; with *argnums* to those of these arguments alone."""

    has_aux: bool = False
    argnums: int | tuple[int, ...] | None = None
    name = "vjp"


@dataclass(frozen=True, eq=False)
class ElementwiseGrad(TransformRule):
    """The gradient of the sum of the results."""

    argnums: int | tuple[int, ...]
    name = "elementwise_grad"


# ---- what users call ---------------------------------------------------------------------------------------------


@overload
def vjp(
    fn: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...


@overload
def vjp(fn: Callable[..., Any], *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...


def vjp(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fn(*primals), vjp_fn)``, where ``vjp_fn(cotangent)`` is the tuple of the cotangents of *primals*.

        value, pull = vjp(f, w, x)
        of_w, of_x = pull(np.ones_like(value))

    The cotangent has the structure, shapes and dtypes of the value.  What the backward pass needs of the forward pass
    is kept; ``vjp_fn`` may be called many times, in compiled functions too.  With *has_aux*, of a function that returns
    (value, aux), the result is (value, vjp_fn, aux).

    :raises DifferentiationError: where an argument or a result is no float.
    """
    return transformed(rule_of(Vjp, has_aux), fn)(*primals)


def elementwise_grad(fn: Callable[P, Any], argnums: int | Sequence[int] = 0, **unknown: Never) -> Transform[P, Any]:
    """The gradient of the sum of the results of *fn*: where *fn* works element by element the derivatives of all
    elements, by one reverse pass."""
    if unknown:
        with for_users:
            refuse_arguments("elementwise_grad", unknown, fn)
    return transformed(rule_of(ElementwiseGrad, positions(argnums)), fn)


def make_vjp(fn: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """As in HIPS autograd: ``make_vjp(f)(x)`` is ``(vjp_fn, f(x))``, with the cotangent of argument *argnum* alone."""
    rule = rule_of(Vjp, False, positions(argnum))

    def vjp_maker(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        value, pullback = transformed(rule, fn)(*args, **kwargs)
        return pullback, value

    return vjp_maker
