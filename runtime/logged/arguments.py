"""The arguments of a run, as objects outside that are known from the start.

The function gets the caller's own containers; what they hold is what the call's leaves are in this run.  Their
structure is in the key of the call, so nothing of them is compared.  Of an object of a registered class, the function
gets a twin, made of other parts, where its attributes are these parts and texts that are in its structure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import optree

from ...tracer.ir.own_attributes import attributes_of
from ...tracer.ir.trees import NAMESPACE, tree_flatten, tree_unflatten
from ..record.call_key import Call, unwrap
from ..record.plain_objects import is_object
from ..record.trees import one_level
from ..state.state_graph import StateNode
from .reads import ReadLog, not_closed

_KINDS = optree.PyTreeKind
_BY_INDEX = (_KINDS.TUPLE, _KINDS.LIST, _KINDS.NAMEDTUPLE, _KINDS.DEQUE)
_BY_KEY = (_KINDS.DICT, _KINDS.ORDEREDDICT, _KINDS.DEFAULTDICT)


class Given:
    """``args`` and ``kwargs`` of *call* over other *leaves*; ``places``: the expression for each container, by id."""

    def __init__(self, reads: ReadLog, call: Call, leaves: Sequence[Any], names: Sequence[str]) -> None:
        self._reads, self.leaves, self._names = reads, leaves, names
        self.places: dict[int, str] = {}
        self.originals: dict[int, Any] = {}  # id of a twin -> the caller's object
        self._twins: list[tuple[Any, str, dict[str, Any]]] = []  # (a twin, its name, its attributes)
        positional, keywords = call.tree.children()
        start, args = 0, []
        for k, (value, spec) in enumerate(zip(call.arguments[0], positional.children(), strict=True)):
            args.append(self._build(value, spec, start, self._name(k), f"args[{k}]"))
            start += spec.num_leaves
        kwargs = {}
        for name, spec in zip(keywords.entries(), keywords.children(), strict=True):
            kwargs[name] = self._build(call.arguments[1][name], spec, start, name, f"kwargs[{name!r}]")
            start += spec.num_leaves
        self.args, self.kwargs = tuple(args), {name: kwargs[name] for name in call.arguments[1]}

    def _name(self, k: int) -> str:
        return self._names[k] if k < len(self._names) else f"argument {k}"

    def _build(self, value: Any, spec: Any, start: int, name: str, place: str) -> Any:
        if spec.kind == _KINDS.LEAF:
            return unwrap(self.leaves[start])
        if spec.kind == _KINDS.NONE or (isinstance(value, tuple) and spec.num_leaves == 0):
            return value  # one object for all that have nothing in them
        if id(value) in self.places:
            raise not_closed(f"`{name}`, which is among the arguments twice")
        node = StateNode("argument", value, name)
        self._reads.known(node)
        self.places[id(value)] = place
        as_object = is_object(spec)
        if not (as_object or spec.kind in _BY_INDEX or spec.kind in _BY_KEY):
            return self._twin(value, spec, start, name, place)
        parts, _ = one_level(value, spec)
        for k, (part, inner, entry) in enumerate(zip(parts, spec.children(), spec.entries(), strict=True)):
            key = k if spec.kind in _BY_INDEX and not as_object else entry
            at = f"{place}.{entry}" if as_object else f"{place}[{key!r}]"
            within = f"{name}.{entry}" if as_object else f"{name}[{key!r}]"
            if not as_object and type(key) not in (int, str) and inner.kind != _KINDS.LEAF:
                raise not_closed(f"`{within}`, a container under a key that is no text")
            shown = self._build(part, inner, start, within, at)
            self._reads.answer(node, "attr" if as_object else "item" if spec.kind in _BY_INDEX else "key", key, shown)
            start += inner.num_leaves
        return value

    def _twin(self, value: Any, spec: Any, start: int, name: str, place: str) -> Any:
        """An object like *value*, of a registered class, over other parts."""
        parts, made_of = one_level(value, spec)
        built = []
        for k, (part, inner) in enumerate(zip(parts, spec.children(), strict=True)):
            built.append(self._build(part, inner, start, f"{name}.{spec.entry(k)}", f"{place}.{spec.entry(k)}"))
            start += inner.num_leaves
        found = tree_unflatten(made_of, built) if parts else value
        held, own = attributes_of(found), attributes_of(value)
        stand_in = {id(part): new for part, new in zip(parts, built, strict=True)}
        in_key = {id(text) for text in _texts(optree.register_pytree_node.get(spec.type, namespace=NAMESPACE), value)}
        known = all(held[n] is stand_in[id(x)] if id(x) in stand_in else id(x) in in_key for n, x in own.items())
        if found is value or held.keys() != own.keys() or not known:
            raise not_closed(f"`{name}`, of a class that is registered, and whose objects hold more than their parts")
        self.originals[id(found)] = value
        self._twins.append((found, name, held))
        return found

    def check_twins(self, out: Any) -> None:
        """An error where the run has changed a twin, or gives one out."""
        for twin, name, before in self._twins:
            now = attributes_of(twin)
            if now.keys() != before.keys() or any(now[key] is not part for key, part in before.items()):
                raise not_closed(f"`{name}`, of a class that is registered, which is changed")
        if self._twins:
            leaves = tree_flatten(out, lambda x: id(x) in self.originals, namespace=NAMESPACE)[0]
            if any(id(x) in self.originals for x in leaves):
                raise not_closed("a result that is an argument, of a class that is registered")


def _texts(registered: Any, value: Any) -> list[str]:
    """The texts that are beside the parts of *value* in its structure."""
    beside = registered.flatten_func(value)[1]
    return [x for x in (beside if type(beside) is tuple else (beside,)) if type(x) is str]
