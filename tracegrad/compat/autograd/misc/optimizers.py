"""Optimizers over ``grad(x, i)``, where i is the number of the step; *x* is any tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..wrap_util import wraps
from .flatten import flatten

Gradient = Callable[[Any, int], Any]


def unflatten_optimizer(optimize: Callable[..., Any]) -> Callable[..., Any]:
    """*optimize*, which works on vectors, for trees."""

    @wraps(optimize)
    def _optimize(grad: Gradient, x0: Any, callback: Any = None, *args: Any, **kwargs: Any) -> Any:
        start, unflatten = flatten(x0)

        def _grad(x: Any, i: int) -> Any:
            return flatten(grad(unflatten(x), i))[0]

        def _callback(x: Any, i: int, g: Any) -> Any:
            return callback(unflatten(x), i, unflatten(g))

        return unflatten(optimize(_grad, start, _callback if callback else None, *args, **kwargs))

    return _optimize


@unflatten_optimizer
def sgd(
    grad: Gradient, x: Any, callback: Any = None, num_iters: int = 200, step_size: float = 0.1, mass: float = 0.9
) -> Any:
    """Stochastic gradient descent with momentum.
    grad() must have signature grad(x, i), where i is the iteration number."""
    velocity = np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        velocity = mass * velocity - (1.0 - mass) * g
        x = x + step_size * velocity
    return x


@unflatten_optimizer
def rmsprop(
    grad: Gradient, x: Any, callback: Any = None, num_iters: int = 100, step_size: float = 0.1, gamma: float = 0.9,
    eps: float = 10**-8,
) -> Any:  # fmt: skip
    """Root mean squared prop: See Adagrad paper for details."""
    avg_sq_grad = np.ones(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        avg_sq_grad = avg_sq_grad * gamma + g**2 * (1 - gamma)
        x = x - step_size * g / (np.sqrt(avg_sq_grad) + eps)
    return x


@unflatten_optimizer
def adam(
    grad: Gradient, x: Any, callback: Any = None, num_iters: int = 100, step_size: float = 0.001, b1: float = 0.9,
    b2: float = 0.999, eps: float = 10**-8,
) -> Any:  # fmt: skip
    """Adam as described in http://arxiv.org/pdf/1412.6980.pdf.
    It's basically RMSprop with momentum and some correction terms."""
    m = np.zeros(len(x))
    v = np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        m = (1 - b1) * g + b1 * m  # first moment
        v = (1 - b2) * (g**2) + b2 * v  # second moment
        mhat = m / (1 - b1 ** (i + 1))  # without the bias of the start
        vhat = v / (1 - b2 ** (i + 1))
        x = x - step_size * mhat / (np.sqrt(vhat) + eps)
    return x
