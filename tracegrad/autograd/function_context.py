"""The context that ``Function`` hands to the user's forward and backward, and checks of their results.

``FunctionCtx`` is the ``ctx``: it keeps the saved tensors, without history where that would lead back to the node that
owns the ctx.  Below it are the checks of gradients, worded as PyTorch's.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..tensors.apply import apply
from ..tensors.messages import INFERENCE_SAVED
from ..tensors.modes import no_grad
from ..tensors.node import TapeNode
from ..tensors.node_vjp import AGAIN, linked
from ..tensors.op import EagerOp
from ..tensors.ops_basic import to_dtype
from ..tensors.tensor import Tensor, make, raw
from ..tracer.ir.aval import Aval
from ..tracer.record.array import TracedArray


class Saved(NamedTuple):
    """A saved tensor, and its version.  Its array is among the node's own, so that the graph holds no intermediate
    tensors: ``where`` is "input" (an argument, or a later entry), "output" or "tensor"."""

    where: str
    place: Any  # index among the node's inputs or outputs; or the tensor itself
    counter: list[int]
    version: int


class FunctionCtx:
    """The ``ctx`` of one application of a ``Function``.  Takes attributes of the user's own."""

    needs_input_grad: tuple[bool, ...] = ()
    _to_save: tuple[Tensor | None, ...] = ()
    _non_differentiable: tuple[Tensor, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _materialize = True
    _saved: tuple[Saved | None, ...] | None = None  # None: the forward is still running, or nothing was recorded
    _given: tuple[Tensor | None, ...] | None = None  # the saved_tensors while a traced backward runs
    _freed = False
    _node: Callable[[], TapeNode | None] | None = None  # weak

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``backward``, which finds them in ``saved_tensors``."""
        for k, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {k} is of type {type(t).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """No effect: it is for ``jvp``, which is not supported."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Mark arguments that forward has changed in place; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Mark results that have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for results that nobody used."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors given to ``save_for_backward``.

        :raises RuntimeError: after the buffers were freed, or where one of the tensors was written to since.
        """
        if self._given is not None:
            return self._given
        if self._saved is None:
            return self._to_save
        node = None if self._node is None else self._node()
        found = tuple([None if s is None else _restored(s, node) for s in self._saved]) if node is not None else ()
        if node is None or self._freed:  # asked once they are read: another thread may be freeing them
            raise RuntimeError(AGAIN)
        return found

    # ---- for FunctionNode ----------------------------------------------------------------------------------------

    def _keep(self, node: TapeNode, tensors: Sequence[Tensor], outputs: dict[int, int]) -> None:
        """Hand the saved tensors over to the node.  *outputs*: ids of differentiable results -> their indices."""
        inputs, results = list(node.inputs), list(node.outputs)
        arguments = {id(t): k for k, t in enumerate(tensors)}
        kept: list[Saved | None] = []
        for t in self._to_save:
            if t is None:
                kept.append(None)
                continue
            if t._inference:
                raise RuntimeError(INFERENCE_SAVED)
            where: str = "output"
            place: Any = outputs.get(id(t))
            if place is not None:
                results[place] = raw(t)
            elif id(t) in arguments:
                where, place = "input", arguments[id(t)]
                inputs[place] = raw(t)
            elif t._requires:
                where, place = "tensor", t
            else:
                where, place = "input", len(inputs)
                inputs.append(raw(t))
            kept.append(Saved(where, place, t._counter, t._counter[0]))
        node.inputs, node.outputs = tuple(inputs), tuple(results)
        self._saved, self._node = tuple(kept), weakref.ref(node)
        self._to_save = self._non_differentiable = self._dirty = ()

    def _release(self) -> None:
        self._freed = True  # before they go
        self._saved = ()


def alias(t: Tensor) -> Tensor:
    """Another tensor over the same memory, without history; writes are counted for both."""
    result = make(raw(t))
    result._counter = t._counter
    return result


def _restored(saved: Saved, node: TapeNode) -> Tensor:
    """The saved tensor, with the history that it had."""
    where, place, counter, version = saved
    source: Any = place
    number = 0
    if where == "output":
        source, number, data = node, place, node.outputs[place]
    elif where == "input":
        known = place < len(node.edges)
        source, number = (node.edges[place], node.edge_outs[place]) if known else (None, 0)
        data = node.inputs[place]
    if counter[0] != version:
        shape = list(place.shape if where == "tensor" else data.shape)
        what = f", which is output {number} of {source.label}," if isinstance(source, TapeNode) else ""
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[tensor of shape {shape}]{what} is at version {counter[0]}; expected version {version} instead. Hint: "
            "enable anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True)."
        )
    if isinstance(source, Tensor):
        return source
    result = make(data) if source is None else linked(data, source, number)
    result._counter = counter
    return result


# ---- calling the user's methods ------------------------------------------------------------------------------------


def no_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
    """The setup_context of a Function that has none: its forward takes the ctx itself."""
    raise NotImplementedError("setup_context is not implemented.")


def no_backward(ctx: Any, *grad_outputs: Any) -> Any:
    """The backward of a Function that has none."""
    raise NotImplementedError(
        "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
        "backward mode AD."
    )


def run_forward(cls: Any, ctx: FunctionCtx, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of the user's forward, in which nothing is recorded."""
    with no_grad():
        if cls.setup_context is no_setup:
            return cls.forward(ctx, *args, **kwargs)
        result = cls.forward(*args)
        cls.setup_context(ctx, args, result)
        return result


def bound(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with defaults filled in, where forward and setup_context are apart."""
    if cls.setup_context is no_setup:
        return args, kwargs
    found = inspect.signature(cls.forward).bind(*args, **kwargs)
    found.apply_defaults()
    return found.args, {}


def backward_of(cls: Any) -> Callable[..., Any]:
    """The user's ``backward``, or ``vjp``, which is the same."""
    if cls.backward is not no_backward and cls.vjp is not no_backward:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
            "one of them."
        )
    return cls.backward if cls.backward is not no_backward else cls.vjp


# ---- checking gradients --------------------------------------------------------------------------------------------


def gradients(label: str, result: Any, tensors: Sequence[bool]) -> list[Tensor | None]:
    """The result of backward for the arguments that are tensors; *tensors* marks those among all arguments."""
    given = result if isinstance(result, tuple) else (result,)
    expected = len(tensors)
    if len(given) > expected and all(g is None for g in given[expected:]):
        given = given[:expected]
    if len(given) != expected:
        raise RuntimeError(
            f"function {label} returned an incorrect number of gradients (expected {expected}, got {len(given)})"
        )
    found: list[Tensor | None] = []
    for position, (g, is_tensor) in enumerate(zip(given, tensors, strict=True), 1):
        if isinstance(g, TracedArray):
            g = make(g)
        if g is not None and not isinstance(g, Tensor):
            raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
        if is_tensor:
            found.append(g)
        elif g is not None:
            raise RuntimeError(
                f"function {label} returned a gradient different than None at position {position}, but the "
                "corresponding forward input was not a Variable"
            )
    return found


def fitted(label: str, g: Tensor, aval: Aval, index: int) -> Tensor:
    """The gradient *g* in the shape and dtype of its tensor: broadcast gradients are summed."""
    shape, found = aval.shape, raw(g).shape
    if found != shape:
        lead = len(found) - len(shape)
        if lead < 0 or any(n not in (m, 1) for n, m in zip(shape, found[lead:], strict=True)):
            raise RuntimeError(
                f"Function {label} returned an invalid gradient at index {index} - got {list(found)} but expected "
                f"shape compatible with {list(shape)}"
            )
        g = apply(SUM_TO, (g,), (shape,))
    return to_dtype(g, aval.dtype)


def _sum_to(g: Any, shape: tuple[int, ...]) -> Any:
    lead = g.ndim - len(shape)
    axes = [k + lead for k, n in enumerate(shape) if n == 1 and g.shape[k + lead] != 1]
    return np.sum(g, axis=(*range(lead), *axes)).reshape(shape)


SUM_TO = EagerOp("SumToSize", _sum_to)
