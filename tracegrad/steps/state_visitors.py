"""Visitors of the state walk (``runtime/state/walker.py``) for tensors, modules, optimizers and schedulers.

A tensor counts by its identity; its contents are read anew when a recording runs.  The facts about tensors
(``requires_grad``, hooks) are part of the key but not of the checker: changes of them count in ``tensors/tensor.py``
(``epoch``), and a compiled step whose epoch has moved on compares keys.  Modules and optimizers count by their
identity; their dicts (attributes, registries of members, hooks, states of parameters) are pinned, entry by entry
(``runtime/state/pins.py``), and what the entries hold is checked like any other state.  An optimizer's numbers are
read by its recordings themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..nn.module import Module
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from ..optim.optimizer import Optimizer
from ..runtime.state import objects
from ..runtime.state.effect_places import HELD, store_at
from ..runtime.state.state_graph import Leaf, Names, StateNode
from ..runtime.state.state_plan import Snapshot
from ..runtime.state.uses import COUNT, STORE
from ..runtime.state.values import is_leaf
from ..runtime.state.walker import OF_SUBCLASSES, Walker
from ..tensors.device import on_cuda
from ..tensors.hooks import at_leaf, end_of
from ..tensors.op import EagerOp
from ..tensors.tensor import Tensor
from ..tracer.ir.refusals import Refusal

_OWN = Tensor.__annotations__.keys() | vars(Tensor).keys()
_REGISTRIES = {"_parameters", "_buffers", "_modules"}  # their members are in the module's attributes too
_OF_OPTIMIZERS = {"defaults", "state", "param_groups", "_pre_hooks", "_post_hooks", "_opt_called"}
_CALLED_BY_US = ("forward",)


def _tensor(walker: Walker, value: Tensor, label: str, site: str) -> StateNode:
    _named(walker, value, label)
    walker.leaf(None, True)  # counts
    node = walker.node("const", value, label, site)
    node.edge("quiet", "facts", walker.leaf(tensor_facts(value), True))
    walker.later(lambda: _fill_tensor(walker, node, value, label, site))
    return node


def _fill_tensor(walker: Walker, node: StateNode, value: Tensor, label: str, site: str) -> None:
    """Attributes that the user has given to a tensor, or may give to it."""
    names, store = walker.names, value.__dict__
    for name in sorted(store if names.everything else store.keys() & names.attrs.keys()):
        if not hasattr(Tensor, name) and not name.startswith("_"):
            node.edge("attr", name, walker.visit(store[name], f"{label}.{name}", site), fixed=True)
    absent = {name for name in names.asked - store.keys() if not hasattr(Tensor, name)}
    if absent:
        node.edge("noitems", absent, Leaf(None, False))


def _filled_later(fill: Callable[..., None]) -> Callable[..., StateNode]:
    """The visitor of objects whose parts *fill* walks once the objects around them have been met."""

    def visit(walker: Walker, value: Any, label: str, site: str) -> StateNode:
        node = walker.node("pinned", value, label, site)
        walker.later(lambda: fill(walker, node, value, label, site))
        return node

    return visit


def _operation(walker: Walker, value: EagerOp, label: str, site: str) -> Leaf:
    return walker.leaf(value, False)


def _scheduler(walker: Walker, value: LRScheduler, label: str, site: str) -> Leaf | StateNode:
    """A scheduler whose steps are taken by its own Python, in each call."""
    names, own = walker.names, value.__dict__
    asked = (own.keys() | {"get_lr", "state_dict", "load_state_dict"}) - {"optimizer"}
    ours = type(value).step in (LRScheduler.step, ReduceLROnPlateau.step) and "step" not in own
    if not ours or not names.effects or names.everything or not asked.isdisjoint(names.attrs):
        return walker.unknown(Refusal.STATE_SCHEDULER, value, label, site)
    node = walker.node("pinned", value, label, site)
    walker.pin_class(type(value))
    node.edge("quiet", "scheduler", walker.leaf(value, False))
    node.edge("const", "optimizer", walker.visit(value.optimizer, f"{label}.optimizer", site), fixed=True)
    for fn in own.get("lr_lambdas", ()):
        node.edge("const", "lr_lambda", walker.visit(fn, f"a function of {label}", site), fixed=True)
    return node


def _named(walker: Walker, t: Tensor, label: str) -> None:
    """Remember the shortest of the names under which a tensor was met."""
    walker.met[id(t)] += 1
    walker.memory += [t._data] if type(t._data) is np.ndarray else []
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
    flags = (t._requires, t._node is None, bool(t._hooks), bool(t._after), end_of(t) is not None, on_cuda(data))
    return (id(t), *flags, data.shape, data.dtype.char)


def held_facts(t: Any) -> Any:
    """The facts about a tensor that is an input, whichever it is; None where its identity counts: it has history,
    attributes, or memory that is not its own."""
    if type(t) is not Tensor or t._requires or t._node is not None or t._base is not None or t._grad is not None:
        return None
    data = t._data
    on_device = on_cuda(data)
    if not (type(data) is np.ndarray or on_device) or at_leaf(t) or not t.__dict__.keys() <= _OWN:
        return None
    return data.dtype, data.shape, on_device, t._inference, data.flags.c_contiguous or data.strides


def optimizer_numbers(optimizers: Iterable[Optimizer]) -> list[tuple[dict[str, Any], str, Any]]:
    """(group, key, value) of each number of these optimizers, which the walk leaves to the recording."""
    return [
        (group, key, value)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for key, value in group.items()
        if _is_number(value)
    ]


def named_numbers(snapshot: Snapshot) -> list[tuple[dict[str, Any], str]]:
    """(group, key) of the numbers of optimizers that the user's code may read and set by name."""
    names = snapshot.graph.names
    if not _looks_into_groups(names):
        return []
    groups = [group for optimizer in snapshot.graph.optimizers for group in optimizer.param_groups]
    return [(group, key) for group in groups for key, value in group.items() if _is_named(names, key, value)]


def _looks_into_groups(names: Names) -> bool:
    return "param_groups" in names.attrs or "defaults" in names.attrs


def _is_named(names: Names, key: str, value: Any) -> bool:
    return names.effects and type(value) is float and key in names.texts


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is tuple and bool(value) and all(type(v) is float for v in value))


def _fill_module(walker: Walker, node: StateNode, module: Module, label: str, site: str) -> None:
    short = label.removeprefix("global ").removeprefix("closure ")
    cls, names = type(module), walker.names
    for name in _CALLED_BY_US:
        names.attrs.setdefault(name)
    if not walker.trust.cls(cls):
        objects.class_edges(walker, node, cls, site, instance_only=True)
        for name in sorted(names.attrs):
            if name not in module.__dict__:
                raw = objects.lookup(cls, name)
                if raw is not objects.MISSING and is_leaf(raw):
                    objects.class_part(walker, node, cls, name, raw, site)
    walker.pin_class(cls)
    node.edge("quiet", "module", walker.leaf(module, False))
    own = module.__dict__
    walker.stores.append((module, own, None))
    buffers = own.get("_buffers", {})
    alike = {name: value for name, value in own.items() if buffers.get(name, value) is value}
    numbers = {name: value for name, value in alike.items() if type(value) in (int, float)} if names.holders else {}
    walker.numbers.update({(label, name): value for name, value in numbers.items()})
    varying = {name for name in numbers if (label, name) in names.varying}
    places = {name for name, value in alike.items() if _is_place(walker, cls, name, value, name in varying)}
    for name, value in own.items():
        if name in _REGISTRIES:
            _registry(walker, node, own, value, f"{short}.{name}", site, places)
        elif name in places:
            both = (own, buffers if name in buffers else None, name)
            for store in both[:2]:
                walker.loose.setdefault(id(store), set()).add(name)
            node.edge("member", both, walker.visit(value, f"{short}.{name}", site), fixed=True)
            counts = COUNT in names.used("attr", name)
            store_at(walker, node, node.edges[-1], f"{short}.{name}", counts or name in varying, name in varying)
        elif isinstance(value, Tensor):
            _tensor_within(walker, node, value, f"{short}.{name}")
        elif isinstance(value, dict) and name.endswith("_hooks"):
            walker.stores.append((None, value, None))
            for hook in value.values():
                node.edge("const", name, walker.visit(hook, f"{short}.{name}", site), fixed=True)
        else:
            node.edge("const", name, walker.visit(value, f"{short}.{name}", site), fixed=True)


def _is_place(walker: Walker, cls: type, name: str, value: Any, varies: bool) -> bool:
    """Whether the code may store another value in this attribute of a module, of which a run has none of its own, or it
    is a number that *varies*."""
    stored = walker.names.holders and (varies or not {STORE, COUNT}.isdisjoint(walker.names.used("attr", name)))
    plain = cls.__setattr__ is Module.__setattr__ and not hasattr(type(objects.lookup(cls, name)), "__set__")
    return stored and plain and (is_leaf(value) or type(value) is Tensor)


def _registry(
    walker: Walker, node: StateNode, own: dict[str, Any], members: dict[str, Any], label: str, site: str,
    places: set[str],
) -> None:  # fmt: skip
    """Members that are in the module's attributes too, unless somebody has written into the registry itself.
    *places*: attributes in which the code may store another value."""
    walker.stores.append((None, members, None))
    for name, member in members.items():
        node.edge("quiet", name, walker.leaf(name, True))
        if name in places:
            continue
        node.edge("quiet", name, walker.leaf(member, False))
        if own.get(name) is member:
            continue
        if isinstance(member, Tensor):
            _tensor_within(walker, node, member, f"{label}[{name!r}]")
        else:
            node.edge("const", name, walker.visit(member, f"{label}[{name!r}]", site), fixed=True)


def _tensor_within(walker: Walker, node: StateNode, value: Tensor, label: str) -> None:
    _named(walker, value, label)
    node.edge("quiet", label, walker.leaf(value, False))
    node.edge("quiet", label, walker.leaf(tensor_facts(value), True))


def _fill_optimizer(walker: Walker, node: StateNode, optimizer: Optimizer, label: str, site: str) -> None:
    """Groups (parameters and settings) and state; numbers only where the user's own code looks into the groups."""
    walker.optimizers.append(optimizer)
    walker.pin_class(type(optimizer))
    node.edge("quiet", "optimizer", walker.leaf(optimizer, False))
    short = label.removeprefix("global ").removeprefix("closure ")
    everything = _looks_into_groups(walker.names)
    own = optimizer.__dict__
    walker.stores.append((optimizer, own, None))
    for name, value in own.items():
        if name not in _OF_OPTIMIZERS or (name == "defaults" and everything):
            node.edge("const", name, walker.visit(value, f"{short}.{name}", site), fixed=True)
        elif isinstance(value, dict):
            walker.stores.append((None, value, None))
    for hook in (*optimizer._pre_hooks.values(), *optimizer._post_hooks.values()):
        node.edge("const", "hook", walker.visit(hook, f"{short}'s hook", site), fixed=True)
    walker.lists.append(optimizer.param_groups)
    for index, group in enumerate(optimizer.param_groups):
        at = f"{short}.param_groups[{index}]"
        part = walker.node("dict", group, at, site, extra=tuple(group))
        node.edge("const", at, part, fixed=True)
        part.edge("quiet", "group", walker.leaf(group, False))  # recordings read its numbers
        for key, value in group.items():
            if key == "params":
                _parameters(walker, part, value, site)
            elif everything and _is_named(walker.names, key, value):
                part.edge("quiet", key, walker.leaf(None, False))
            elif not _is_number(value) or everything:
                part.edge("key", key, walker.visit(value, f"{at}[{key!r}]", site), fixed=True)
    for parameter, entry in optimizer.state.items():
        node.edge("quiet", "state", walker.leaf(parameter, False))
        if isinstance(entry, dict):
            walker.stores.append((None, entry, None))
            for key, value in entry.items():
                name = f"{short}.state[...][{key!r}]"
                node.edge("quiet", "state", walker.leaf(key, is_leaf(key)))
                node.edge("const", "state", walker.visit(value, name, site), fixed=True)


def _parameters(walker: Walker, group: StateNode, parameters: list[Any], site: str) -> None:
    name = f"{group.label}['params']"
    part = walker.node("pinned", parameters, name, site)
    walker.lists.append(parameters)
    group.edge("key", "params", part, fixed=True)
    for index, parameter in enumerate(parameters):
        part.edge("const", index, walker.visit(parameter, f"{name}[{index}]", site), fixed=True)


OF_SUBCLASSES.update({
    Tensor: _tensor, Module: _filled_later(_fill_module), Optimizer: _filled_later(_fill_optimizer),
    EagerOp: _operation,
    LRScheduler: _scheduler,
})  # fmt: skip

HELD[Tensor] = held_facts
