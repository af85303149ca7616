"""Optimizers of trees of arrays, as functions in optax's manner: ``init(params)`` is a state, ``update(grads, state,
params)`` gives what is to be added, and the next state.

They are plain NumPy code, so they run as they are, and as part of compiled functions.  The formulas are those of the
optimizers of tensors: a rule gets a zero for the parameter, so that its result is the change alone.  States are dicts
and tuples of arrays (``tracegrad.save`` takes them).  Start reading at ``_of_rule``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ..tensors.update import held
from ..tracer.ir.trees import tree_flatten, tree_unflatten
from ..tracer.numpy_api.creation import asarray
from .adam import adam_rule
from .optimizer import check_not_negative, check_option, descended
from .rmsprop import rmsprop_rule
from .sgd import momentum_rule, plain_rule

__all__ = [
    "GradientTransformation", "adam", "adamw", "add_decayed_weights", "apply_updates", "chain", "clip",
    "clip_by_global_norm", "rmsprop", "scale", "sgd",
]  # fmt: skip

Schedule = Callable[[Any], Any]


class GradientTransformation(NamedTuple):
    """``init(params) -> state`` and ``update(grads, state, params=None) -> (updates, state)``."""

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def apply_updates(params: Any, updates: Any) -> Any:
    """``params + updates``, leaf by leaf, in the dtypes of *params*."""
    leaves, structure = tree_flatten(params)
    changes = structure.flatten_up_to(updates)
    moved = [np.add(p, u) for p, u in zip(leaves, changes, strict=True)]
    return tree_unflatten(structure, [_cast(new, p) for new, p in zip(moved, leaves, strict=True)])


def _cast(x: Any, like: Any) -> Any:
    dtype = getattr(like, "dtype", x.dtype)
    return x if x.dtype == dtype else x.astype(dtype)


# ---- optimizers --------------------------------------------------------------------------------------------------


def sgd(
    lr: float | Schedule = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False,
    maximize: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Gradient descent; see :class:`tracegrad.optim.SGD`.

    :param lr: a number, or a function of the number of steps done, a float64 without axes.
    """
    check_not_negative(momentum=momentum, weight_decay=weight_decay)
    if nesterov and momentum <= 0:
        raise ValueError("Nesterov momentum requires a momentum")

    def rule(arrays: tuple[Any, ...], lr: Any) -> Any:
        p, g, _, *buffers = arrays
        if not buffers:
            return *plain_rule((p, g), lr, 0.0, False, False), None
        p, _, buffer = momentum_rule((p, g, *buffers), lr, 0.0, momentum, 0.0, False, False, nesterov, False, False)
        return p, None, None, buffer

    return _of_rule(rule, ("momentum_buffer",) * (momentum > 0), lr, weight_decay, maximize)


def adam(
    lr: float | Schedule = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 0.0, amsgrad: bool = False, maximize: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Adam; see :class:`tracegrad.optim.Adam`.  *lr* as in :func:`sgd`."""
    check_not_negative(epsilon=eps, weight_decay=weight_decay)
    for k in (0, 1):
        check_option(f"beta parameter at index {k}", betas[k], 0.0 <= betas[k] < 1.0)
    small = 1 - betas[0] < 0.5

    def rule(arrays: tuple[Any, ...], lr: Any) -> Any:
        return adam_rule(arrays, lr, *betas, eps, 0.0, False, None, small)

    names = ("exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * amsgrad)
    return _of_rule(rule, names, lr, weight_decay, maximize)


def adamw(
    lr: float | Schedule = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
    weight_decay: float = 1e-2, amsgrad: bool = False, maximize: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Adam with decoupled weight decay; see :class:`tracegrad.optim.AdamW`.  *lr* as in :func:`sgd`."""
    inner = adam(lr, betas, eps, 0.0, amsgrad, maximize)
    check_not_negative(weight_decay=weight_decay)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        factor = -_rate(lr, state["step"]) * weight_decay
        updates, state = inner.update(grads, state)
        return _mapped(lambda u, p: u + _cast(np.multiply(factor, p), u), updates, _required(params)), state

    return GradientTransformation(inner.init, update)


def rmsprop(
    lr: float | Schedule = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
    momentum: float = 0.0, centered: bool = False, maximize: bool = False,
) -> GradientTransformation:  # fmt: skip
    """RMSprop; see :class:`tracegrad.optim.RMSprop`.  *lr* as in :func:`sgd`."""
    check_not_negative(epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
    moves, small = momentum > 0, 1 - alpha < 0.5

    def rule(arrays: tuple[Any, ...], lr: Any) -> Any:
        return rmsprop_rule(arrays, lr, alpha, eps, 0.0, momentum, False, False, moves, centered, small)

    names = ("square_avg", *["momentum_buffer"] * moves, *["grad_avg"] * centered)
    return _of_rule(rule, names, lr, weight_decay, maximize)


def _of_rule(
    rule: Callable[[tuple[Any, ...], Any], Any], names: tuple[str, ...], lr: float | Schedule, weight_decay: float,
    maximize: bool,
) -> GradientTransformation:  # fmt: skip
    """The transformation that *rule* is: ``rule((p, g, step, *state), lr)`` gives as many entries, the new arrays.

    :param names: of the trees in the state, beside "step".
    """
    if not callable(lr):
        check_option("learning rate", lr, bool(lr >= 0.0))

    def init(params: Any) -> dict[str, Any]:
        return {"step": np.zeros(()), **{name: _mapped(np.zeros_like, params) for name in names}}

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        leaves, structure = tree_flatten(grads)
        beside = structure.flatten_up_to(_required(params)) if weight_decay else leaves
        columns = [structure.flatten_up_to(state[name]) for name in names]
        step, rate = state["step"], _rate(lr, state["step"])
        rows = []
        for given, p, *own in zip(leaves, beside, *columns, strict=True):
            g, p, *own = held([asarray(x) for x in (given, p, *own)])
            g = descended(p, g, weight_decay, maximize, weight_decay != 0)
            row = rule((np.zeros((), g.dtype), g, step, *own), rate)
            rows.append([_cast(x, given) for x in (row[0], *row[3:])])
        parts = [tree_unflatten(structure, column) for column in zip(*rows, strict=True)]
        updates, *trees = parts or [grads, *[state[name] for name in names]]
        return updates, {"step": step + 1, **dict(zip(names, trees, strict=True))}

    return GradientTransformation(init, update)


def _rate(lr: float | Schedule, step: Any) -> Any:
    return lr(step) if callable(lr) else lr


def _required(params: Any) -> Any:
    if params is None:
        raise ValueError("this transformation needs the parameters: update(grads, state, params)")
    return params


# ---- what gradients go through -----------------------------------------------------------------------------------


def chain(*transformations: GradientTransformation) -> GradientTransformation:
    """One after the other: each gets the updates of the one before.  The state is a tuple of theirs."""

    def init(params: Any) -> tuple[Any, ...]:
        return tuple([part.init(params) for part in transformations])

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        states = []
        for part, its in zip(transformations, state, strict=True):
            grads, new = part.update(grads, its, params)
            states.append(new)
        return grads, tuple(states)

    return GradientTransformation(init, update)


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """All gradients times one factor, so that their norm together is at most *max_norm*."""

    def limited(grads: Any, params: Any) -> Any:
        leaves, structure = tree_flatten(grads)
        if not leaves:
            return grads
        norm = np.sqrt(reduce(add, [np.sum(np.square(g)) for g in leaves]))
        factor = max_norm / np.maximum(norm, max_norm)
        return tree_unflatten(structure, [_cast(np.multiply(g, factor), g) for g in leaves])

    return _stateless(limited)


def clip(limit: float) -> GradientTransformation:
    """All elements brought into [-limit, limit]."""
    return _stateless(lambda grads, params: _mapped(lambda g: np.clip(g, -limit, limit), grads))


def scale(factor: float) -> GradientTransformation:
    """All gradients times *factor*."""
    return _stateless(lambda grads, params: _mapped(lambda g: np.multiply(g, factor), grads))


def add_decayed_weights(weight_decay: float) -> GradientTransformation:
    """Gradients plus *weight_decay* times the parameters."""
    return _stateless(
        lambda grads, params: _mapped(lambda g, p: g + _cast(np.multiply(weight_decay, p), g), grads, _required(params))
    )


def _stateless(function: Callable[[Any, Any], Any]) -> GradientTransformation:
    return GradientTransformation(lambda params: (), lambda grads, state, params=None: (function(grads, params), state))


def _mapped(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    leaves, structure = tree_flatten(tree)
    others = [structure.flatten_up_to(other) for other in rest]
    return tree_unflatten(structure, [function(*parts) for parts in zip(leaves, *others, strict=True)])
