"""Compiled functions of tensors: ``compile_grad`` functions called with Tensors, or reading Tensors (a Module's
parameters) from outside.

Such a call is a compiled step (``step.py``), whose results are linked to the tensors that they depend on by one node of
the eager graph (``step_autograd.py``); gradients are asked of that node.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from ..nn.module import Module
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer
from ..runtime.cuda.arrays import as_device, on_device
from ..runtime.mode import GRAD, VALUE, Mode
from ..runtime.paths.dispatcher import on_the_host
from ..runtime.record.differentiable import name_of, split_aux
from ..runtime.stats import Stats
from ..runtime.tensor_library import TENSORS
from ..tensors.modes import STATE, enable_grad
from ..tensors.on_device import filled
from ..tensors.tensor import Tensor, make
from ..tracer.ir.aval import FLOAT_KINDS
from ..tracer.ir.errors import DifferentiationError
from ..tracer.ir.trees import tree_flatten, tree_leaves, tree_unflatten
from .differentiated import Argument, derivatives
from .step import CompiledStep


class TensorFunction(CompiledStep):
    """The form of a compiled function for *target* that takes and gives Tensors."""

    _counted = 0  # the compiled function counts its calls itself

    def __init__(self, fn: Callable[..., Any], static: frozenset[int | str], target: str, stats: Stats) -> None:
        super().__init__(fn, static, stats)
        self._target = target

    def answer(self, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value, gradient or both.

        Gradients have the structure of the arguments: a Tensor for a Tensor, an array for an array; for a Module a
        dict from the names of its parameters to Tensors.
        """
        if self._target == "cuda" and STATE.capture is None:
            _check_all_on_device((args, kwargs))
        return self(*args, **kwargs) if mode.kind == VALUE else _differentiate(self, mode, args, kwargs)


def _differentiate(form: TensorFunction, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    connect = STATE.grad
    places: list[Any] = []
    wanted: list[Tensor] = []
    own: set[int] = set()
    changed = list(args)
    for position in mode.positions:
        if not -len(args) <= position < len(args):
            raise DifferentiationError.here(f"argnums={mode.argnums}: the call has {len(args)} positional arguments")
        argument = args[position]
        if isinstance(argument, Module):
            named = dict(argument.named_parameters())
            places.append(lambda grads, names=tuple(named): {n: next(grads) for n in names})
            wanted += named.values()
            continue
        leaves, spec = tree_flatten(argument)
        aliases = [_differentiable(leaf, form, position, connect) for leaf in leaves]
        wanted += aliases
        own |= {id(t) for t in aliases if t._node is None}
        changed[position] = tree_unflatten(spec, aliases)
        places.append(_rebuild(spec, [isinstance(leaf, Tensor) or on_device(leaf) for leaf in leaves]))
    with enable_grad():
        out = form(*changed, **kwargs)
        loss, aux = split_aux(form, out) if mode.has_aux else (out, None)
        if not isinstance(loss, Tensor) or loss.numel() != 1 or loss.dtype.kind not in FLOAT_KINDS:
            found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise DifferentiationError.here(f"a gradient needs a scalar loss, but {name_of(form)} returned {found}")
        if loss._requires:
            value, *grads = derivatives(loss, wanted, own, connect)
        else:
            value, grads = loss.detach(), [make(filled(0, t.shape, t.dtype, t._data)) for t in wanted]
    iterator = iter(grads)
    parts = [place(iterator) for place in places]
    tree = parts[0] if isinstance(mode.argnums, int) else tuple(parts)
    if mode.kind == GRAD:
        return (tree, aux) if mode.has_aux else tree
    return ((value, aux), tree) if mode.has_aux else (value, tree)


def _check_all_on_device(arguments: Any) -> None:
    """DeviceError where a Tensor among *arguments* is on the host: a target does not copy tensors."""
    for leaf in tree_leaves(arguments):
        if isinstance(leaf, Tensor) and not leaf.is_cuda:
            raise on_the_host("an argument")


def _differentiable(leaf: Any, form: Any, position: int, connect: bool) -> Tensor:
    """A tensor of the same contents, to differentiate with respect to: with *connect* one that *leaf*, where it
    requires gradients, receives the gradients of."""
    if isinstance(leaf, Tensor):
        data = leaf._data
    else:
        data = as_device(leaf) if on_device(leaf) else np.asarray(leaf)
    if data.dtype.kind == "c":
        raise DifferentiationError.here(
            f"cannot differentiate {name_of(form)} with respect to argument {position}, a tensor of {data.dtype}: call "
            ".backward() of its result, whose gradients have PyTorch's convention; or pass NumPy arrays"
        )
    if data.dtype.kind not in FLOAT_KINDS:
        raise DifferentiationError.here(
            f"cannot differentiate {name_of(form)} with respect to argument {position}, which holds {data.dtype}: "
            "only floats have gradients"
        )
    alias = make(data)
    alias._requires = True
    if connect and isinstance(leaf, Tensor) and leaf.requires_grad:
        alias._counter = leaf._counter
        alias._node = Argument(leaf)
    return alias


def _rebuild(spec: Any, tensors: list[bool]) -> Callable[[Any], Any]:
    def rebuild(grads: Any) -> Any:
        return tree_unflatten(
            spec, [g if is_tensor else g._data[()] for is_tensor, g in zip(tensors, grads, strict=False)]
        )

    return rebuild


def _within(found: Any) -> dict[str, Tensor]:
    if isinstance(found, Tensor):
        return {"": found}
    return {f".{name}": t for name, t in found.named_parameters()} if isinstance(found, Module) else {}


TENSORS.types = (Tensor,)
TENSORS.kinds = (Tensor, Module, Optimizer, LRScheduler)
TENSORS.within = _within
TENSORS.data = attrgetter("_data")
TENSORS.requires_grad = attrgetter("requires_grad")
TENSORS.wrap = make
TENSORS.grad_enabled = lambda: STATE.grad
TENSORS.capturing = lambda: STATE.capture is not None
TENSORS.form = TensorFunction
