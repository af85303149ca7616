"""Jacobians and Hessians, and products with Hessians, as users call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Never

from ...tracer.ir.tracebacks import for_users
from ..declare import positions, refuse_arguments
from ..wrapper import P
from .transform import Transform, TransformRule, rule_of, transformed

FORWARD, REVERSE, CHEAPEST = "forward", "reverse", "cheapest"


@dataclass(frozen=True, eq=False)
class Jacobian(TransformRule):
    """The Jacobian, by forward or by reverse mode, or by what is cheapest."""

    argnums: int | tuple[int, ...]
    mode: str
    has_aux: bool = False
    holomorphic: bool = False

    @property
    def name(self) -> str:
        return {FORWARD: "jacfwd", REVERSE: "jacrev", CHEAPEST: "jacobian"}[self.mode]


@dataclass(frozen=True, eq=False)
class Hessian(TransformRule):
    """The forward Jacobian of the reverse one."""

    argnums: int | tuple[int, ...]
    has_aux: bool = False
    holomorphic: bool = False
    name = "hessian"


@dataclass(frozen=True, eq=False)
class HessianProduct(TransformRule):
    """``(x, v, ...) -> H @ v``, the vector after the arguments that are differentiated; *reverse*: ``v @ H``."""

    argnums: int | tuple[int, ...]
    has_aux: bool = False
    reverse: bool = False

    @property
    def name(self) -> str:
        return "vhp" if self.reverse else "hvp"


# ---- what users call ---------------------------------------------------------------------------------------------


def jacobian(
    fn: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    **unknown: Never,
) -> Transform[P, Any]:  # fmt: skip
    """The Jacobian of *fn* with respect to the arguments *argnums*: arrays of the shape of the result, then of the
    argument, in the structure of the result, then of the arguments.

        jacobian(lambda w, x: np.tanh(w @ x), argnums=(0, 1))(w, x)      # (4, 3), (3,): of shapes (4, 4, 3) and (4, 3)
        least_squares(residuals, x0, jac=jacobian(residuals))

    It is taken by forward or by reverse mode, by what is cheaper for the sizes, or, where most of it is known to be
    zero, by compressed products as :func:`sparse_jacobian` has them; ``explain`` says which.

    :param has_aux: *fn* returns (value, aux); the result is (Jacobian, aux).
    :param holomorphic: the complex derivative of a function of complex numbers.
    :raises DifferentiationError: where an argument or a result is not floating point.
    """
    if unknown:
        with for_users:
            refuse_arguments("jacobian", unknown, fn)
    return transformed(rule_of(Jacobian, positions(argnums), CHEAPEST, has_aux, holomorphic), fn)


def jacfwd(
    fn: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    **unknown: Never,
) -> Transform[P, Any]:  # fmt: skip
    """As :func:`jacobian`, by forward mode: one tangent for each input."""
    if unknown:
        with for_users:
            refuse_arguments("jacfwd", unknown, fn)
    return transformed(rule_of(Jacobian, positions(argnums), FORWARD, has_aux, holomorphic), fn)


def jacrev(
    fn: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    **unknown: Never,
) -> Transform[P, Any]:  # fmt: skip
    """As :func:`jacobian`, by reverse mode: one cotangent for each result."""
    if unknown:
        with for_users:
            refuse_arguments("jacrev", unknown, fn)
    return transformed(rule_of(Jacobian, positions(argnums), REVERSE, has_aux, holomorphic), fn)


def hessian(
    fn: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    **unknown: Never,
) -> Transform[P, Any]:  # fmt: skip
    """The second derivatives of *fn*: the forward Jacobian of the reverse one.  Of a scalar function of one array an
    array (*shape, *shape); of trees, or of several *argnums*, a tree of the structure of the arguments in each place of
    such a tree; of a function that returns an array, with the shape of that in front.

        hessian(lambda x: np.sum(x**3))(np.ones(2))                                         # [[6, 0], [0, 6]]
        hessian(lambda p: p["a"] * p["b"])({"a": 1.0, "b": 2.0})["a"]["b"]                                # 1.0

    :param has_aux: *fn* returns (value, aux); the result is (Hessian, aux).
    :raises DifferentiationError: where an argument or a result is not floating point.
    """
    if unknown:
        with for_users:
            refuse_arguments("hessian", unknown, fn)
    return transformed(rule_of(Hessian, positions(argnums), has_aux, holomorphic), fn)


def hvp(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Transform[..., Any]:
    """Products of the Hessian of *fn* with a vector: ``hvp(f)(x, v)`` is ``H(x) @ v``, without H, at the price of a
    few values of *fn*.  The vector stands after the arguments *argnums*, in their structure; others follow it, as in
    ``scipy.optimize.minimize(..., hessp=hvp(f))``.  Forward mode over reverse mode.

    :raises DifferentiationError: where the result is no scalar, or the vector does not fit."""
    return transformed(rule_of(HessianProduct, positions(argnums), has_aux), fn)


def vhp(fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Transform[..., Any]:
    """As :func:`hvp`, ``v @ H(x)``, by reverse mode over reverse mode."""
    return transformed(rule_of(HessianProduct, positions(argnums), has_aux, True), fn)
