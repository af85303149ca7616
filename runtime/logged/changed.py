"""Places that a run has read and then changed: the next run like it reads something else there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..state.pins import MISSING
from ..state.state_graph import Leaf, StateGraph, StateNode
from ..state.values import is_leaf, unchanged
from .run import LoggedRun
from .writes import WrittenElements, WrittenItems, WrittenKeys, WrittenNames


class Change(NamedTuple):
    """A place that a run has *read*, and in which there is another *value* now."""

    label: str
    read: Leaf | StateNode
    value: Any


def changed(run: LoggedRun, graph: StateGraph) -> Iterator[Change]:
    """The places that the run has read and changed."""
    for entry in run.writes.values():
        node = run.reads.node_of(entry.owner)
        if isinstance(entry, WrittenNames):
            read = _read_names(run, graph, entry.owner, node)
            for name, value in entry.values.items():
                if name in read:
                    yield from _changes(run, _label(entry.owner, node, name), read[name], value)
        elif isinstance(entry, WrittenItems) and node is not None and node.kind == "history":
            yield from _changed_ends(run, entry, node)
        elif node is not None and node.kind not in ("sink", "history", "argument"):  # which is in the key of the call
            yield from _changed_items(run, entry, node)


def _label(owner: Any, node: StateNode | None, name: str) -> str:
    if node is not None:
        return f"{node.label}.{name}"
    return f"global {name}" if type(owner) is dict else name or "a variable of an outer function"


def _changed_ends(run: LoggedRun, entry: WrittenItems, node: StateNode) -> Iterator[Change]:
    """The items that were read from the end of a list which are others once it has grown."""
    owner, tail = entry.owner, entry.tail
    for edge in node.edges:
        if edge.how == "item" and edge.arg < 0:
            value = tail[edge.arg] if -edge.arg <= len(tail) else owner[edge.arg + len(tail)]
            yield from _changes(run, run.label_of(node, edge.arg), edge.child, value)


def _changed_items(
    run: LoggedRun, entry: WrittenKeys | WrittenItems | WrittenElements, node: StateNode
) -> Iterator[Change]:
    """The items of a container that was read which are others once it is written."""
    items: Any
    if isinstance(entry, WrittenElements):
        items, sizes = (), entry.whole == entry.owner
    elif isinstance(entry, WrittenItems) or entry.whole is not None:
        left = entry.whole
        items = left.items() if isinstance(left, dict) else enumerate(left or entry.owner)
        sizes = (
            len(entry.owner) == len(left) if left is not None else isinstance(entry, WrittenItems) and not entry.tail
        )
    else:
        items, sizes = entry.values.items(), entry.values.keys() <= entry.owner.keys()
    if not sizes:
        yield Change(node.label, node, entry)
        return
    known = {edge.arg: edge.child for edge in node.parts() if edge.how in ("key", "item")}
    for at, value in items:
        if at in known:
            yield from _changes(run, run.label_of(node, at), known[at], value)


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


def _changes(run: LoggedRun, label: str, read: Leaf | StateNode, value: Any) -> Iterator[Change]:
    """The changes of a place that holds *value* now: of its parts, where it holds a container like the one before."""
    if isinstance(read, Leaf):
        if not (unchanged(value, read.value) if is_leaf(read.value) else value is read.value):
            yield Change(label, read, value)
    elif read.kind in ("number", "held", "array") or value is read.obj:
        return
    elif _is_like(run, read, value):
        for edge in read.parts():
            yield from _changes(run, f"{label}[{edge.arg!r}]", edge.child, value[edge.arg])
    else:
        yield Change(read.label, read, value)


def _is_like(run: LoggedRun, read: StateNode, value: Any) -> bool:
    """Whether *value* is a tuple or list which a place may hold in place of that before."""
    alike = read.kind in ("tuple", "list") and type(value) is type(read.obj) and len(value) == len(read.obj)
    return alike and run.writes.keys().isdisjoint((id(value), id(read.obj)))
