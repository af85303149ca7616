"""Visitors of the state walk (``runtime/state/walker.py``) for tensors, modules, optimizers and schedulers.

A tensor counts by its identity; its contents are read anew when a recording runs.  A module's plain attributes and the
facts about tensors (``requires_grad``, hooks) are part of the key but not of the checker: changes of them count in
``tensors/tensor.py`` (``epoch``), and a compiled step whose epoch has moved on compares keys.  Containers
and objects in a module are checked like any other state.  An optimizer's numbers are read by its recordings themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..nn.module import Module
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer
from ..runtime.state import objects
from ..runtime.state.state_graph import Leaf, StateNode
from ..runtime.state.values import is_leaf
from ..runtime.state.walker import OF_SUBCLASSES, Walker
from ..tensors.device import on_cuda
from ..tensors.op import EagerOp
from ..tensors.tensor import Tensor
from ..tracer.ir.refusals import Refusal

_REGISTRIES = {"_parameters", "_buffers", "_modules"}  # their members are in the module's attributes too
_CALLED_BY_US = ("forward",)


def _tensor(walker: Walker, value: Tensor, label: str, site: str) -> StateNode:
    _named(walker, value, label)
    walker.leaf(None, True)  # counts
    node = walker.node("const", value, label, site)
    node.edge("quiet", "facts", walker.leaf(tensor_facts(value), True))
    return node


def _filled_later(fill: Callable[..., None]) -> Callable[..., StateNode]:
    """The visitor of objects whose parts *fill* walks once the objects around them have been met."""

    def visit(walker: Walker, value: Any, label: str, site: str) -> StateNode:
        node = walker.node("instance", value, label, site, extra=(frozenset(), frozenset(), None))
        walker.pending.append(lambda: fill(walker, node, value, label, site))
        return node

    return visit


def _operation(walker: Walker, value: EagerOp, label: str, site: str) -> Leaf:
    return walker.leaf(value, False)


def _scheduler(walker: Walker, value: LRScheduler, label: str, site: str) -> Leaf:
    return walker.unknown(Refusal.STATE_SCHEDULER, value, label, site)


def _named(walker: Walker, t: Tensor, label: str) -> None:
    """Remember the shortest of the names under which a tensor was met."""
    label = label.removeprefix("global ").removeprefix("closure ")
    if on_cuda(t._data):
        walker.on_device.append(label)
    elif t._requires:
        walker.leaves_on_host.append(label)
    known = walker.tensors.get(id(t))
    if known is None or len(label) < len(known):
        walker.tensors[id(t)] = label


def tensor_facts(t: Tensor) -> tuple[Any, ...]:
    """The facts that a recording relies on about a tensor from outside, contents aside."""
    data = t._data
    flags = (t._requires, t._node is None, bool(t._hooks), bool(t._after), on_cuda(data))
    return (id(t), *flags, data.shape, data.dtype.char)


def optimizer_numbers(optimizers: Iterable[Optimizer]) -> list[tuple[dict[str, Any], str, Any]]:
    """(group, key, value) of each number of these optimizers, which the walk leaves to the recording."""
    return [
        (group, key, value)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for key, value in group.items()
        if _is_number(value)
    ]


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is tuple and bool(value) and all(type(v) is float for v in value))


def _fill_module(walker: Walker, node: StateNode, module: Module, label: str, site: str) -> None:
    short = label.removeprefix("global ").removeprefix("closure ")
    cls = type(module)
    for name in _CALLED_BY_US:
        walker.names.attrs.setdefault(name)
    if not walker.trust.cls(cls):
        objects.class_edges(walker, node, cls, site, instance_only=True)
        for name in sorted(walker.names.attrs):
            if name not in module.__dict__:
                raw = objects.lookup(cls, name)
                if raw is not objects.MISSING and is_leaf(raw):
                    objects.class_part(walker, node, cls, name, raw, site)
    for name, value in module.__dict__.items():
        if name in _REGISTRIES:
            continue
        if is_leaf(value):
            node.edge("quiet", name, walker.leaf(value, True))
        elif isinstance(value, Tensor):
            _named(walker, value, f"{short}.{name}")
            node.edge("quiet", name, walker.leaf(tensor_facts(value), True))
        elif isinstance(value, dict) and not value and name.endswith("_hooks"):
            node.edge("quiet", name, walker.leaf((), True))
        else:
            node.edge("attr", name, walker.visit(value, f"{short}.{name}", site), fixed=True)


def _fill_optimizer(walker: Walker, node: StateNode, optimizer: Optimizer, label: str, site: str) -> None:
    """Groups (parameters and settings) and state; numbers only where the user's own code looks into the groups."""
    walker.optimizers.append(optimizer)
    short = label.removeprefix("global ").removeprefix("closure ")
    everything = "param_groups" in walker.names.attrs or "defaults" in walker.names.attrs
    groups = walker.node("list", optimizer.param_groups, f"{short}.param_groups", site)
    node.edge("attr", "param_groups", groups, fixed=True)
    for index, group in enumerate(optimizer.param_groups):
        at = f"{short}.param_groups[{index}]"
        part = walker.node("dict", group, at, site, extra=tuple(group))
        groups.edge("item", index, part, fixed=True)
        for key, value in group.items():
            if _is_number(value) and not everything:
                continue
            part.edge("key", key, walker.visit(value, f"{at}[{key!r}]", site), fixed=True)
    for name, value in optimizer.__dict__.items():
        if name.endswith("_hooks") and value:
            node.edge("attr", name, walker.visit(value, f"{short}.{name}", site), fixed=True)
    for parameter, entry in optimizer.state.items():
        if isinstance(entry, dict) and isinstance(parameter, Tensor):
            part = walker.node("dict", entry, f"{short}.state[...]", site, extra=tuple(entry))
            node.edge("const", "state", part, fixed=True)
            for key, value in entry.items():
                part.edge("key", key, walker.visit(value, f"{short}.state[...][{key!r}]", site), fixed=True)


OF_SUBCLASSES.update({
    Tensor: _tensor, Module: _filled_later(_fill_module), Optimizer: _filled_later(_fill_optimizer),
    EagerOp: _operation,
    LRScheduler: _scheduler,
})  # fmt: skip

__all__ = ["optimizer_numbers", "tensor_facts"]
