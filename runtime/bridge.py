"""Compiled functions of tensors: ``compile_grad`` functions called with Tensors, or reading Tensors (a Module's
parameters) from outside.

Such a call is a compiled step (``step.py``) that gives the function's value together with its gradients with respect
to every tensor that requires them, and whose result is linked to those tensors by one node of the eager graph.  Where
the saved gradients are not enough (a result that is no scalar, ``create_graph``), the node runs the function's Python
again, eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..tracer.errors import DifferentiationError
from ..tracer.site import at_site
from .eager import backward as engine
from .eager.capture import Capture
from .eager.modes import STATE, enable_grad
from .eager.node import Node
from .eager.ops_basic import MUL
from .eager.tensor import Tensor, apply, make, raw
from .nn.module import Module
from .recording import GRAD, VALUE, Mode, name_of, split_aux
from .step import CompiledStep
from .trees import NAMESPACE


class CompiledFunctionBackward(Node):
    """A compiled function as one operation of the eager graph."""

    label = "CompiledFunctionBackward"
    plain = False

    def __init__(
        self, wanted: Sequence[Tensor], results: Sequence[Tensor], gradients: Sequence[Tensor | None] | None,
        again: Callable[[], Any],
    ):  # fmt: skip
        edges = tuple([t._node or t for t in wanted])
        outs = tuple([t._out for t in wanted])
        versions = tuple([(t._counter, t._counter[0]) for t in wanted])
        super().__init__(None, (), edges, outs, (), tuple([r._data for r in results]), versions)
        self.wanted: Sequence[Tensor] = wanted
        self.gradients = gradients
        self.again: Callable[[], Any] | None = again

    def custom_vjp(self, cts: list[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        if self.gradients is not None and not create_graph:
            (ct,) = cts
            return [None if g is None else apply(MUL, (ct, g)) for g in self.gradients]
        for t, saved in zip(self.wanted, self.versions, strict=True):
            if saved[0][0] != saved[1]:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"an operand of a compiled function, of shape {list(t.shape)}"
                )
        assert self.again is not None
        with enable_grad():
            results = [r for r in _tensors(self.again()) if r._requires]
        pairs = [(r, ct) for r, ct in zip(results, cts, strict=True) if ct is not None]
        return list(
            engine.grad(
                [r for r, _ in pairs],
                self.wanted,
                [ct for _, ct in pairs],
                create_graph=create_graph,
                allow_unused=True,
            )
        )

    def custom_free(self) -> None:
        self.freed = True
        self.gradients = self.again = None
        self.wanted = ()


def _tensors(tree: Any) -> list[Tensor]:
    leaves = optree.tree_leaves(tree, none_is_leaf=True, namespace=NAMESPACE)
    return [x for x in leaves if isinstance(x, Tensor)]


class TensorFunction(CompiledStep):
    """The form of a compiled function that takes and gives Tensors."""

    _counted = 0  # the compiled function counts its calls itself

    def _derive(self, capture: Capture, out: Any) -> Any:
        """(what the function returned, its gradients if it is one scalar), inside the capture."""
        wanted = [root.tensor for root in capture.roots if root.tensor._requires]
        if not STATE.grad or not wanted:
            return out, None
        results = [t for t in _tensors(out) if t._requires]
        if len(results) != 1 or raw(results[0]).size != 1 or results[0]._node is None:
            return out, None
        found = engine.grad(results[0], wanted, allow_unused=True, retain_graph=True)
        return out, tuple([None if g is None else make(raw(g)) for g in found])

    def _settled(self, out: Any) -> Any:
        return out[0]

    def _linked(self, found: Any, wanted: tuple[Tensor, ...], requires: list[bool], again: Callable[[], Any]) -> Any:
        out, gradients = found
        results = [t for t, r in zip(_tensors(out), requires, strict=False) if r]
        if wanted and results and STATE.grad:
            node = CompiledFunctionBackward(wanted, results, gradients, again)
            for k, result in enumerate(results):
                result._node, result._out, result._requires = node, k, True
        return out


def call_tensors(form: TensorFunction, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a call of a compiled function with Tensors: its value, gradient or both.

    Gradients have the structure of the arguments: a Tensor for a Tensor, an array for an array; for a Module a dict
    from the names of its parameters to Tensors.
    """
    if mode.kind == VALUE:
        return form(*args, **kwargs)
    places: list[Any] = []
    wanted: list[Tensor] = []
    changed = list(args)
    for position in mode.positions:
        if not -len(args) <= position < len(args):
            raise DifferentiationError(
                at_site(f"argnums={mode.argnums}: the call has {len(args)} positional arguments")
            )
        argument = args[position]
        if isinstance(argument, Module):
            named = dict(argument.named_parameters())
            places.append(lambda grads, names=tuple(named): {n: next(grads) for n in names})
            wanted += named.values()
            continue
        leaves, spec = optree.tree_flatten(argument, namespace=NAMESPACE)
        aliases = [_differentiable(leaf, form, position) for leaf in leaves]
        wanted += aliases
        changed[position] = optree.tree_unflatten(spec, aliases)
        places.append(_rebuild(spec, [isinstance(leaf, Tensor) for leaf in leaves]))
    with enable_grad():
        out = form(*changed, **kwargs)
        loss, aux = split_aux(form, out) if mode.has_aux else (out, None)
        if not isinstance(loss, Tensor) or loss.numel() != 1 or loss.dtype.kind != "f":
            found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise DifferentiationError(at_site(f"a gradient needs a scalar loss, but {name_of(form)} returned {found}"))
        if loss._requires:
            grads = engine.grad(loss, wanted, allow_unused=True, materialize_grads=True)
        else:
            grads = tuple([make(np.zeros_like(t._data)) for t in wanted])
    iterator = iter(grads)
    parts = [place(iterator) for place in places]
    tree = parts[0] if isinstance(mode.argnums, int) else tuple(parts)
    value = loss.detach()
    if mode.kind == GRAD:
        return (tree, aux) if mode.has_aux else tree
    return ((value, aux), tree) if mode.has_aux else (value, tree)


def _differentiable(leaf: Any, form: Any, position: int) -> Tensor:
    """A tensor of the same contents, of which the gradient is taken."""
    data = leaf._data if isinstance(leaf, Tensor) else np.asarray(leaf)
    if data.dtype.kind != "f":
        raise DifferentiationError(
            at_site(
                f"cannot differentiate {name_of(form)} with respect to argument {position}, which holds {data.dtype}: "
                "only floats have gradients"
            )
        )
    alias = make(data)
    alias._requires = True
    return alias


def _rebuild(spec: Any, tensors: list[bool]) -> Callable[[Any], Any]:
    def rebuild(grads: Any) -> Any:
        return optree.tree_unflatten(
            spec, [g if is_tensor else g._data[()] for is_tensor, g in zip(tensors, grads, strict=False)]
        )

    return rebuild
