"""Forward mode, as users call it: ``jvp``, ``linearize``, ``derivative``, ``make_jvp``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from ..declare import positions
from ..wrapper import P, R
from .transform import Transform, TransformRule, rule_of, transformed


@dataclass(frozen=True, eq=False)
class Jvp(TransformRule):
    """``(primals, tangents) -> (value, tangent of the value)``; with *argnums* the tangents are those of these
    arguments alone, and others may be passed by name."""

    has_aux: bool = False
    argnums: int | tuple[int, ...] | None = None
    name = "jvp"


@dataclass(frozen=True, eq=False)
class Linearize(TransformRule):
    """``primals -> (value, the linear map of tangents)``."""

    has_aux: bool = False
    name = "linearize"


@dataclass(frozen=True, eq=False)
class Directional(TransformRule):
    """The derivative along ones: of a function of a number its derivative."""

    argnums: int | tuple[int, ...]
    name = "derivative"


# ---- what users call ---------------------------------------------------------------------------------------------


@overload
def jvp(
    fn: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[R, R]: ...


@overload
def jvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> tuple[Any, ...]: ...


def jvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """``(fn(*primals), J @ tangents)``: the value and its directional derivative, in one forward pass.

        value, tangent = jvp(lambda x: np.sin(x) * x[::-1], (x,), (v,))                # both of the shape of the value

    :param primals: the arguments, a tuple or list: trees of floats and float arrays.
    :param tangents: the direction, in the structure, shapes and dtypes of *primals*.
    :param has_aux: *fn* returns (value, aux); the result is (value, tangent, aux).
    :returns: (value, tangent), the tangent in the structure of the value.
    :raises DifferentiationError: where an argument is no float or a tangent does not fit.
    """
    return transformed(rule_of(Jvp, has_aux), fn, ("primals", "tangents"))(primals, tangents)


@overload
def linearize(fn: Callable[..., R], *primals: Any, has_aux: Literal[False] = False) -> tuple[R, Callable[..., R]]: ...


@overload
def linearize(fn: Callable[..., Any], *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...


def linearize(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``(fn(*primals), f_jvp)``, where ``f_jvp(*tangents)`` is the tangent of the value: the linear map at *primals*,
    which may be called many times.  What it needs of the values is kept, and not computed again.

        value, push = linearize(f, x)
        columns = vmap(push, out_axes=1)(np.eye(x.size))                                               # the Jacobian

    With *has_aux*, of a function that returns (value, aux), the result is (value, f_jvp, aux).

    :raises DifferentiationError: where an argument is no float or a tangent does not fit.
    """
    return transformed(rule_of(Linearize, has_aux), fn)(*primals)


def derivative(fn: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Transform[P, Any]:
    """The derivative of *fn* with respect to a number, by forward mode: of the shape of the value.

    Of a function of an array that works element by element it is the array of the derivatives (the derivative along
    ones).
    """
    return transformed(rule_of(Directional, positions(argnums)), fn)


def make_jvp(fn: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """As in HIPS autograd: ``make_jvp(f)(x)(v)`` is ``(f(x), J(x) @ v)``, with J with respect to argument *argnum*."""
    rule = rule_of(Jvp, False, positions(argnum))

    def jvp_maker(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        return lambda v: transformed(rule, fn, ("primals", "tangents", "keywords"))(args, v, kwargs)

    return jvp_maker
