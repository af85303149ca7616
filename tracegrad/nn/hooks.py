"""Hooks of modules: functions of the user's that run before and after ``forward``, and in the backward of a module.

``call`` is ``Module.__call__`` for a module with hooks.  For backward hooks the inputs and outputs of ``forward`` pass
through identities on the tape (``_Watch``), whose nodes run when their gradients are known.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..tensors.apply import apply
from ..tensors.node import RemovableHandle, registered
from ..tensors.on_device import filled
from ..tensors.op import EagerOp
from ..tensors.tensor import Tensor, counts_with, make, raw
from ..tracer.ir.site import warn_at_site

IDENTITY = EagerOp("BackwardHookFunctionBackward", lambda *arrays: arrays)


def register(hooks: OrderedDict[int, Any], entry: Any, prepend: bool) -> RemovableHandle:
    """Add *entry* at the end of *hooks*, or at their beginning."""
    handle = registered(hooks, entry, True)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``module.forward`` between its hooks."""
    result = None
    finished: set[int] = set()
    try:
        args, kwargs = _before(module, args, kwargs)
        watch = _Watch(module) if module._backward_hooks or module._backward_pre_hooks else None
        if watch is not None:
            args = watch.inputs(args)
        result = module.forward(*args, **kwargs)
        for key, (hook, with_kwargs, _) in list(module._forward_hooks.items()):
            finished.add(key)
            replaced = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
            if replaced is not None:
                result = replaced
        return result if watch is None else watch.outputs(result)
    except Exception:
        for key, (hook, with_kwargs, always) in list(module._forward_hooks.items()):
            if always and key not in finished:
                hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
        raise


def _before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for hook, with_kwargs in list(module._forward_pre_hooks.values()):
        if not with_kwargs:
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
            continue
        replaced = hook(module, args, kwargs)
        if replaced is not None:
            if not (isinstance(replaced, tuple) and len(replaced) == 2):
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
                )
            args, kwargs = replaced
    return args, kwargs


class _Watch:
    """The backward hooks of one call of a module."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.hooks = list(module._backward_hooks.values())
        self.pre_hooks = list(module._backward_pre_hooks.values())
        self.inputs_passed = _Passed((), [])
        self.outputs_passed = _Passed((), [])
        self.grad_outputs: tuple[Any, ...] | None = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        args, self.inputs_passed = _through_identity(args, hook=self._on_inputs)
        return args

    def outputs(self, result: Any) -> Any:
        if not isinstance(result, Tensor | tuple):
            warn_at_site(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result).__name__}",
            )
            return result
        items = (result,) if isinstance(result, Tensor) else result
        items, self.outputs_passed = _through_identity(items, pre_hook=self._on_outputs)
        return items[0] if isinstance(result, Tensor) else type(result)(items)

    def _on_outputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Run the hooks on the gradients of the module's results."""
        full = self.outputs_passed.spread(grads)
        for hook in self.pre_hooks:
            replaced = hook(self.module, full)
            if replaced is not None:
                full = _as_many(replaced, full, "grad_output")
        self.grad_outputs = full
        if not self.inputs_passed.places:  # no input has a gradient to wait for
            for hook in self.hooks:
                replaced = hook(self.module, (None,) * len(self.inputs_passed.avals), full)
                if replaced is not None and any(g is not None for g in replaced):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        "for all gradients."
                    )
            self.grad_outputs = None
        return tuple([full[k] for k in self.outputs_passed.places])

    def _on_inputs(self, grads: tuple[Any, ...], _: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Run the hooks on the gradients of the module's arguments."""
        if self.grad_outputs is None:
            raise RuntimeError(
                "Module backward hook for grad_input is called before the grad_output one. This happens because the "
                "gradient in your nn.Module flows to the Module's input without passing through the Module's output."
            )
        full = self.inputs_passed.spread(grads)
        for hook in self.hooks:
            replaced = hook(self.module, full, self.grad_outputs)
            if replaced is not None:
                full = _as_many(replaced, full, "grad_input")
        self.grad_outputs = None
        return tuple([full[k] for k in self.inputs_passed.places])


@dataclass(slots=True)
class _Passed:
    """Signature of the values that went through an identity: the kind of each item (None: no tensor), and the indices
    of them require gradients."""

    avals: Sequence[tuple[Any, Any] | None]
    places: list[int]

    def spread(self, grads: Sequence[Any]) -> tuple[Any, ...]:
        """A gradient for each item: zeros for tensors that require none, None for items that are no tensors."""
        beside = next((raw(g) for g in grads if g is not None), None)
        full: list[Any] = [None if a is None else make(filled(0, *a, beside)) for a in self.avals]
        for k, g in zip(self.places, grads, strict=True):
            full[k] = g
        return tuple(full)


def _through_identity(
    items: tuple[Any, ...], *, hook: Any = None, pre_hook: Any = None
) -> tuple[tuple[Any, ...], _Passed]:
    """*items*, those that require gradients behind an identity."""
    avals = [(tuple(t.shape), t.dtype) if isinstance(t, Tensor) else None for t in items]
    places = [k for k, t in enumerate(items) if isinstance(t, Tensor) and t.requires_grad]
    results = apply(IDENTITY, tuple([items[k] for k in places])) if places else ()
    if not results or results[0].grad_fn is None:  # gradients are not recorded here
        return items, _Passed(avals, [])
    node = results[0].grad_fn
    if hook is not None:
        node.register_hook(hook)
    if pre_hook is not None:
        node.register_prehook(pre_hook)
    passed = list(items)
    for k, t in zip(places, results, strict=True):
        counts_with(t, items[k])
        passed[k] = t
    return tuple(passed), _Passed(avals, places)


def _as_many(replaced: Any, full: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    given = tuple(replaced) if isinstance(replaced, tuple | list) else (replaced,)
    if len(given) != len(full):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {what}, got {len(given)}, but expected {len(full)}"
        )
    return given
