"""The arguments of a run, as objects outside that are known from the start.

The function gets the caller's own containers; what they hold is what the call's leaves are in this run.  Their
structure is in the key of the call, so nothing of them is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import optree

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
        self.originals: dict[int, Any] = {}  # as `Arguments` has it: nothing stands for a container here
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
        if spec.kind == _KINDS.NONE:
            return value
        if id(value) in self.places:
            raise not_closed(f"`{name}`, which is among the arguments twice")
        node = StateNode("argument", value, name, name)
        self._reads.known(node)
        self.places[id(value)] = place
        as_object = is_object(spec)
        if not (as_object or spec.kind in _BY_INDEX or spec.kind in _BY_KEY):
            raise not_closed(f"`{name}`, of a class that is registered")
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
