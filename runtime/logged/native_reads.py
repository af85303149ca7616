"""Reads of objects that are compared by identity, compared natively: the names and items that a run has read of them.

An object of such a kind is found by no way, so the dict of its names, and the dicts and lists that stand there, are the
same ones in each call: the pins (``state/pins.py``) compare their entries in one native call.  What varies from call to
call, or is written by the run, is *loose*, and compared in the text of the checker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...tracer.ir.own_attributes import dict_of
from ..state.pins import ReadNames
from ..state.state_graph import Leaf, StateGraph, StateNode

_BY_PART = ("dict", "list")
_FIXED = (*_BY_PART, "function", "class", "module", "library", "const", "pinned")


def pin_reads(
    graph: StateGraph, absent: Mapping[int, Collection[str]], written: Mapping[int, Collection[Any] | None]
) -> dict[int, Collection[Any]]:  # fmt: skip
    """Have the reads of a log's nodes compared natively where they can be; the loose names of each dict, by its id.

    :param absent: names that an object lacks, by the id of its node.
    :param written: names, keys or indices that the run writes, by the id of the owner; None: any.
    """
    loose: dict[int, Collection[Any]] = {}
    stack = [node for node in graph.nodes if node.kind == "pinned" and type(dict_of(node.obj)) is dict]
    while stack:
        node = stack.pop()
        writes = written.get(id(node.obj), ())
        if node.native or writes is None:
            continue
        parts = {edge.arg: edge.child for edge in node.edges if edge.how in ("attr", "key", "item")}
        if node.kind != "list":
            store, wanted = _pin_names(node, parts, writes, absent)
            graph.stores.append((node.obj if wanted else None, store, wanted))
            loose[id(store)] = node.loose
        elif len(parts) >= len(node.obj) and not writes and all(map(_is_fixed, parts.values())):
            graph.lists.append(node.obj)
        else:
            continue
        node.native = True
        fixed = [child for key, child in parts.items() if key not in node.loose and isinstance(child, StateNode)]
        stack += [child for child in fixed if child.kind in _BY_PART]
    return loose


def _pin_names(
    node: StateNode, parts: Mapping[Any, Leaf | StateNode], writes: Collection[Any],
    absent: Mapping[int, Collection[str]],
) -> tuple[dict[Any, Any], ReadNames | None]:  # fmt: skip
    """(the dict of the names or items of *node*, what an object's names are to be); its loose ones are noted."""
    pinned = node.kind == "pinned"
    store: Any = dict_of(node.obj) if pinned else node.obj
    node.loose = {key for key in store if key not in parts or key in writes or not _is_fixed(parts[key])}
    node.loose |= parts.keys() - store.keys()
    known = {key: _known(parts[key]) for key in store.keys() - node.loose}
    return store, ReadNames(frozenset(absent.get(id(node), ())), known) if pinned else None


def _is_fixed(child: Leaf | StateNode) -> bool:
    """Whether a part is compared as a whole by its identity, or as a leaf; what is in it may vary."""
    return isinstance(child, Leaf) or child.kind in _FIXED


def _known(child: Leaf | StateNode) -> tuple[Any, bool]:
    return (child.value, child.by_value) if isinstance(child, Leaf) else (child.obj, False)


def named_entries(
    graph: StateGraph, written: Mapping[int, Collection[Any] | None]
) -> Iterator[tuple[dict[str, Any], str, Any, bool]]:  # fmt: skip
    """The names of modules that were read, but for globals of the function's own module, which Python compares as
    quickly: (dict, name, value, whether it is compared by value)."""
    for node in graph.nodes:
        for edge in node.edges:
            if edge.how == "attr" and node.kind in ("module", "library"):
                owner, store, name = node.obj, dict_of(node.obj), edge.arg
            elif edge.how == "global":
                owner = store = edge.arg[0]
                name = edge.arg[-1]
            else:
                continue
            writes = [written.get(id(of), ()) for of in (owner, store)]
            loose = any(names is None or name in names for names in writes)
            if type(store) is dict and store is not graph.main and not loose and _is_held(edge.child):
                yield store, name, *_known(edge.child)


def _is_held(child: Leaf | StateNode) -> bool:
    """Whether another object in the place of a part is another state."""
    return _is_fixed(child) and (isinstance(child, Leaf) or child.kind not in _BY_PART)
