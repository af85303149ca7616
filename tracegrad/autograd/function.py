"""``Function``: an operation whose forward and backward the user writes, as in PyTorch.

``MyFn.apply(x)`` runs ``forward`` without recording and gives all its results one ``FunctionNode``, whose derivative
is ``backward``.  Tensors given to ``ctx.save_for_backward`` come back with their history, so a backward that is itself
recorded can be differentiated; saved results are linked to the node only when they are asked for, so the graph has
no cycles.  In functions of NumPy code (``compile_grad``) the rule goes into the recording: ``function_traced.py``.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..tensors import tensor as core
from ..tensors.inplace import CUSTOM, NO_GRAD, SEVERAL
from ..tensors.modes import STATE, no_grad
from ..tensors.node import TapeNode
from ..tensors.on_device import filled
from ..tensors.op import aval_of
from ..tensors.tensor import Tensor, changed, make, origins, raw
from ..tracer.ir.aval import INEXACT_KINDS, Aval
from . import function_traced
from .function_context import (
    FunctionCtx,
    alias,
    backward_of,
    bound,
    fitted,
    gradients,
    no_backward,
    no_setup,
    run_forward,
)

_LEGACY = (
    "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function "
    "with static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
)


class Function:
    """A differentiable operation with a backward of its own.

    Subclasses define static methods: ``forward(ctx, *args)``, or ``forward(*args)`` with
    ``setup_context(ctx, inputs, output)``; and ``backward(ctx, *grads)``, which gets a gradient for each result and
    returns one for each argument (None for arguments that are no tensors).  It is called as ``MyFn.apply(*args)``.
    """

    # Methods that our own code calls: a logged run takes them for functions of the user's, and converts them.
    _tracegrad_helpers = ("backward", "forward", "setup_context", "vjp")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(_LEGACY)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The computation, to be defined by the subclass."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    setup_context = staticmethod(no_setup)
    backward = staticmethod(no_backward)
    vjp = staticmethod(no_backward)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the operation, and record it where an argument requires gradients."""
        args, kwargs = bound(cls, args, kwargs)
        if function_traced.wanted(args):
            return function_traced.apply(cls, args, kwargs)
        return _apply(cls, args, kwargs)


class FunctionNode(TapeNode):
    """A ``Function`` that was recorded.  Attributes of the ctx can be read from it, as in PyTorch."""

    plain = False
    function: Any
    ctx: FunctionCtx

    @property
    def logged(self) -> bool:  # type: ignore[override]
        """Whether what runs are the copies of a run."""
        return hasattr(self.function, "_tracegrad_of")

    def custom_vjp(self, cts: Sequence[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        """The user's backward: a cotangent for each operand."""
        ctx = self.ctx
        given: list[Tensor | None] = []
        for ct, aval in zip(cts, self.outputs, strict=True):
            if ct is None and aval is not None and ctx._materialize:
                beside = next((raw(c) for c in cts if c is not None), None)
                ct = make(filled(0, aval.shape, aval.dtype, beside))
            given.append(ct)
        result = backward_of(self.function)(ctx, *given)
        found = gradients(self.label, result, self.statics)
        for k, g in enumerate(found):
            if g is None or self.edges[k] is None:
                found[k] = None
                continue
            g = fitted(self.label, g, self.inputs[k], k)
            found[k] = alias(g) if g._requires and not create_graph else g
        return found

    def custom_free(self) -> None:
        """Release the saved tensors."""
        self.ctx._release()
        self.inputs = tuple([aval_of(x) for x in self.inputs[: len(self.edges)]])
        self.outputs = tuple([None if x is None else aval_of(x) for x in self.outputs])

    def __getattr__(self, name: str) -> Any:
        ctx = self.__dict__.get("ctx")
        if ctx is None or name.startswith("__"):
            raise AttributeError(name)
        return getattr(ctx, name)


_node_classes: weakref.WeakKeyDictionary[type, type[FunctionNode]] = weakref.WeakKeyDictionary()


def _node_class(cls: Any) -> type[FunctionNode]:
    cls = getattr(cls, "_tracegrad_of", cls)  # in a run that is logged: the user's class
    found = _node_classes.get(cls)
    if found is None:
        label = f"{cls.__name__}Backward"
        found = _node_classes[cls] = type(label, (FunctionNode,), {"label": label})
    return found


def _apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ctx = FunctionCtx()
    tensors = [a for a in args if isinstance(a, Tensor)]
    for t in tensors:
        if t._base is not None:
            core.refresh(t)
    ctx.needs_input_grad = tuple([isinstance(a, Tensor) and a._requires for a in args])
    recorded = STATE.grad and any(ctx.needs_input_grad)
    edges, outs = origins(tensors)  # now: an argument may be written
    avals = tuple([aval_of(raw(t)) for t in tensors])
    result = run_forward(cls, ctx, args, kwargs)
    given = result if isinstance(result, tuple) else (result,)
    if recorded:
        check_results(cls, given)
    results = _results(ctx, given, tensors, recorded)
    if recorded:
        node = _node_class(cls)(
            None, tuple([isinstance(a, Tensor) for a in args]), edges, outs, avals, _avals(results), ()
        )
        node.function, node.ctx = cls, ctx
        if STATE.anomaly:
            node.site = core._ENGINE["site"]()
        linked: dict[int, int] = {}
        views: list[tuple[Tensor, Tensor, int]] = []
        for k, (r, t) in enumerate(zip(results, given, strict=True)):
            if isinstance(t, Tensor) and raw(t).dtype.kind in INEXACT_KINDS and not _among(t, ctx._non_differentiable):
                r._node, r._out, r._requires = node, k, True
                linked[id(t)] = k
                if r is not t and (t._base is not None or _among(t, tensors)) and not _among(t, ctx._dirty):
                    views.append((r, t, k))
        for r, t, k in views:  # a view with a derivative of its own
            _as_view(r, t, CUSTOM if len(linked) == 1 else SEVERAL, k)
        ctx._keep(node, tensors, linked)
    return tuple(results) if isinstance(result, tuple) else results[0]


def _as_view(result: Tensor, given: Tensor, made: str, number: int) -> None:
    """Note that *result* shares the memory of *given*, which is an argument or a view."""
    result._base = given if given._base is None else given._base
    result._chain, result._attr_version, result._made = given._chain, result._counter[0], (made, number)


def _avals(results: Sequence[Any]) -> tuple[Aval | None, ...]:
    return tuple([aval_of(raw(r)) if isinstance(r, Tensor) else None for r in results])


def _among(t: Tensor, others: Sequence[Tensor]) -> bool:
    return any(t is other for other in others)


def check_results(cls: Any, given: tuple[Any, ...]) -> None:
    """Raise where no result of forward could have a gradient, which would go unnoticed."""
    if any(isinstance(t, Tensor) for t in given) or all(t is None for t in given):
        return
    found = ", ".join(type(t).__name__ for t in given)
    raise TypeError(
        f"{cls.__name__}.forward: expected a Tensor or a tuple with Tensors (got {found}), since an argument requires "
        "gradients"
    )


def _results(ctx: FunctionCtx, given: tuple[Any, ...], tensors: Sequence[Tensor], recorded: bool) -> list[Any]:
    """The results for the user: tensors of their own, none of which has a history yet."""
    for t in ctx._dirty:
        if not _among(t, given):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function."
            )
    results: list[Any] = []
    for t in given:
        if not isinstance(t, Tensor):
            results.append(t)
        elif _among(t, ctx._dirty):
            results.append(_written(t, recorded))
        elif t._base is not None or t._requires or _among(t, tensors) or _among(t, results):
            results.append(alias(t))
            if not recorded and (t._base is not None or (STATE.grad and _among(t, tensors))):
                _as_view(results[-1], t, NO_GRAD, 0)
        else:
            results.append(t)
    return results


def _written(t: Tensor, recorded: bool) -> Tensor:
    """The result for an argument that forward has changed in place."""
    if recorded and t._base is not None:
        raise NotImplementedError(
            "mark_dirty() of a view is not supported: write into a copy (y = x.clone()) and return that"
        )
    if recorded and t._requires and t._node is None:
        raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
    t._counter[0] += 1
    if recorded:
        t._node, t._out, t._requires = None, 0, False
        changed()
    return t


# ---- derivatives that are not recorded -----------------------------------------------------------------------------


class _Error(TapeNode):
    """A node whose derivative is an error."""

    label = "Error"
    plain = False

    def custom_vjp(self, cts: Sequence[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        raise RuntimeError(function_traced.ONCE)

    def custom_free(self) -> None:
        pass


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a ``backward`` without a derivative: it runs unrecorded, and a second derivative is an error."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            result = fn(ctx, *args)
        watched = [a for a in args if isinstance(a, Tensor) and a._requires]
        if not STATE.grad or not watched:
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        avals = tuple([aval_of(raw(o)) if isinstance(o, Tensor) else None for o in outputs])
        node = _Error(None, (), *origins(watched), (), avals, ())
        ends: list[Any] = []
        for k, o in enumerate(outputs):
            if isinstance(o, Tensor):
                o = alias(o)
                o._node, o._out, o._requires = node, k, True
            ends.append(o)
        return tuple(ends) if isinstance(result, tuple) else ends[0]

    wrapper._tracegrad_once = True  # type: ignore[attr-defined]
    return wrapper


__all__ = ["Function", "FunctionCtx", "once_differentiable"]
