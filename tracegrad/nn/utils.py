"""Clipping of gradients, and all parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..tensors import create
from ..tensors.apply import apply
from ..tensors.inplace import inplace
from ..tensors.modes import no_grad
from ..tensors.op import EagerOp
from ..tensors.ops_basic import MUL, copy_, no_order
from ..tensors.ops_reduce import squared_size
from ..tensors.tensor import METHODS, Tensor, raw


def _total_norm(*arrays_and_order: Any) -> Any:
    *arrays, order = arrays_and_order
    if order == math.inf:
        return reduce(np.maximum, (abs(a).max() for a in arrays))
    if order == 2.0:
        return np.sqrt(reduce(add, (squared_size(a).sum() for a in arrays)))
    return reduce(add, ((abs(a) ** order).sum() for a in arrays)) ** (1.0 / order)


TOTAL_NORM = EagerOp("LinalgVectorNorm", _total_norm)
LIMIT = EagerOp("Clamp", lambda total, most: np.minimum(most / (total + 1e-6), 1.0))
CLAMP = EagerOp("Clamp", lambda x, low, high: np.clip(x, low, high))
TO_VECTOR = EagerOp("Cat", lambda *arrays: np.concatenate([a.reshape(-1) for a in arrays]))


def _gradients(parameters: Any) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in given if p.grad is not None]


# ---- gradients -------------------------------------------------------------------------------------------------------


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all *tensors* together, as if they were one vector."""
    order = float(norm_type)
    given = [tensors] if isinstance(tensors, Tensor) else [t for t in tensors if math.prod(t.shape)]
    if not given:
        return create.tensor(0.0)
    if not order:
        raise ValueError("norm_type must not be 0")
    total = apply(TOTAL_NORM, tuple(given), (order,))
    if error_if_nonfinite and not bool(np.isfinite(raw(total))):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale all gradients in place so that their norm together is at most *max_norm*.

    :param norm_type: the order of the norm; ``inf`` for the largest element.
    :param error_if_nonfinite: raise RuntimeError where the norm is NaN or infinite.
    :returns: the norm before, a tensor without axes.
    """
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    if gradients:
        factor = apply(LIMIT, (total,), (float(max_norm),))
        for grad in gradients:
            inplace(MUL, grad, (factor,))
    return total


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Bring all elements of all gradients in place into [-clip_value, clip_value]."""
    bound = float(clip_value)
    for grad in _gradients(parameters):
        if grad.is_complex():
            raise no_order("clip_grad_value_")
        inplace(CLAMP, grad, (), (-bound, bound))


# ---- parameters as one vector ----------------------------------------------------------------------------------------


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, one after the other: a tensor of one axis, with their history."""
    return apply(TO_VECTOR, tuple(parameters))


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of *vec* into the parameters, in the order of ``parameters_to_vector``."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    with no_grad():
        for p in parameters:
            count = math.prod(p.shape)
            part = METHODS["narrow"](vec, 0, start, count)
            copy_(p, METHODS["reshape"](part, tuple(p.shape)))
            start += count


__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector", "vector_to_parameters",
]  # fmt: skip
