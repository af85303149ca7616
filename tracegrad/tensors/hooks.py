"""Calls of the hooks of tensors and nodes, in PyTorch's order.

A gradient passes the hooks of its tensor, is kept where ``retain_grad`` asks for it, and passes the pre-hooks of the
node; then the node runs, and its hooks.  The node of a leaf (``AccumulateGrad``) adds to ``.grad`` and calls the
post-accumulate hooks.  Hooks run without recording, unless with ``create_graph``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .modes import STATE
from .node import AccumulateGrad, TapeNode
from .tensor import Tensor

_Hooks = Any  # OrderedDict[int, hook]


def called(hook: Any, *args: Any) -> Any:
    """``hook(*args)``; in a step that is being recorded as its run calls functions of the user's."""
    capture = STATE.capture
    return hook(*args) if capture is None else capture.log.call(hook, *args)


def of_tensor(hooks: _Hooks, ct: Tensor) -> Tensor:
    """The gradient of a tensor after its hooks."""
    for hook in list(hooks.values()):
        found = called(hook, ct)
        if found is not None:
            ct = _checked(hook, found, ct)
    return ct


def before(hooks: _Hooks, cts: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The gradients of a node's results after its pre-hooks."""
    for hook in list(hooks.values()):
        cts = _all_checked(hook, called(hook, tuple(cts)), cts)
    return cts


def after(hooks: _Hooks, grads: Sequence[Tensor | None], cts: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The gradients of a node's operands after its hooks."""
    for hook in list(hooks.values()):
        grads = _all_checked(hook, called(hook, tuple(grads), tuple(cts)), grads)
    return grads


def _all_checked(hook: Any, found: Any, former: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    if found is None:
        return former
    if not isinstance(found, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(found).__name__}'")
    if len(found) != len(former):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(found)}, but expected "
            f"{len(former)})"
        )
    return [None if new is None else _checked(hook, new, old) for new, old in zip(found, former, strict=True)]


def _checked(hook: Any, new: Any, old: Tensor | None) -> Tensor:
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if not isinstance(new, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if new.dtype != old.dtype:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {old.dtype.name} got {new.dtype.name})"
        )
    if new.shape != old.shape:
        raise RuntimeError(f"hook '{_name(hook)}' has changed the size of value")
    return new


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")


def end_of(leaf: Tensor) -> AccumulateGrad | None:
    """The node of *leaf*, where somebody holds it and has given it hooks."""
    end = None if leaf._end is None else leaf._end()
    return end if end is not None and (end.hooks or end.pre_hooks) else None


def at_node(node: TapeNode) -> bool:
    """Whether something is to be done when the gradients of *node* are known."""
    return bool(node.tensor_hooks or node.hooks or node.pre_hooks or node.retained)


def at_leaf(leaf: Tensor) -> bool:
    """Whether hooks run when the gradient of *leaf* has arrived."""
    return bool(leaf._hooks or leaf._after) or end_of(leaf) is not None
