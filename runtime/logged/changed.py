"""Places that a run has read and then changed: the next run like it reads something else there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..state.pins import MISSING
from ..state.state_graph import Leaf, StateGraph, StateNode
from ..state.values import is_leaf, unchanged
from .run import LoggedRun
from .writes import WrittenElements, WrittenItems, WrittenKeys, WrittenNames


def changed(run: LoggedRun, graph: StateGraph) -> Iterator[tuple[str, bool]]:
    """(place, whether what was read there may be there again) of the places that the run has read and changed."""
    for entry in run.writes.values():
        node = run.reads.node_of(entry.owner)
        if isinstance(entry, WrittenNames):
            read = _read_names(run, graph, entry.owner, node)
            for name, value in entry.values.items():
                if name in read and not _same(read[name], value):
                    yield f"`{_label(entry.owner, node, name)}`", isinstance(read[name], Leaf)
        elif node is not None and node.kind not in ("sink", "history") and not _same_items(entry, node):
            yield f"`{node.label}`", False


def _label(owner: Any, node: StateNode | None, name: str) -> str:
    if node is not None:
        return f"{node.label}.{name}"
    return f"global {name}" if type(owner) is dict else name or "a variable of an outer function"


def _same_items(entry: WrittenKeys | WrittenItems | WrittenElements, node: StateNode) -> bool:
    """Whether a container that was read is read as it was once it is written."""
    if isinstance(entry, WrittenElements):
        return entry.whole == entry.owner
    known = {edge.arg: edge.child for edge in node.edges if edge.how in ("key", "item")}
    if isinstance(entry, WrittenItems) or entry.whole is not None:
        left = entry.whole
        items = left.items() if isinstance(left, dict) else enumerate(left or entry.owner)
        sizes = (
            len(entry.owner) == len(left) if left is not None else isinstance(entry, WrittenItems) and not entry.tail
        )
    else:
        items, sizes = entry.values.items(), entry.values.keys() <= entry.owner.keys()
    return sizes and all(at not in known or _same(known[at], value) for at, value in items)


def _read_names(run: LoggedRun, graph: StateGraph, owner: Any, node: StateNode | None) -> dict[str, Any]:
    """The names of an object, a module or a cell that the run has read, with what it has found; absent ones, too."""
    found: dict[str, Any] = {}
    for n in graph.nodes:
        for edge in n.edges:
            if n is node and edge.how == "attr":
                found[edge.arg] = edge.child
            elif edge.how in ("global", "class") and edge.arg[0] is owner:
                found[edge.arg[1]] = edge.child
            elif edge.how == "cell" and edge.arg is owner:
                found[""] = edge.child
    shadow, absent = run.reads._instances.get(id(node), ((), ()))
    return {**found, **dict.fromkeys([*shadow, *absent], Leaf(MISSING, False))}


def _same(read: Any, value: Any) -> bool:
    """Whether a place that holds *value* is read as it was."""
    if isinstance(read, Leaf):
        return unchanged(value, read.value) if is_leaf(read.value) else value is read.value
    return read.kind in ("number", "held", "array") or value is read.obj
