"""Removal of traced arrays from the user's own objects after a run.

A function that runs in each call may keep what it computes (``self.last = loss``, ``history.append(loss)``).  During
a recording that is a traced array, which is of no use once the recording is over; ``settle`` puts the value in its
place, as plain NumPy would have left it there.
"""

from __future__ import annotations

import dis
import types
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...tracer.record.array import TracedArray
from ..state.state_graph import Edge, Leaf, StateNode
from ..state.state_plan import Snapshot, StatePlan

Unwrap = Callable[[Any], Any]


def settle(plan: StatePlan, after: Snapshot, unwrap: Unwrap) -> None:
    """Replace traced arrays in everything that *after*, a snapshot taken since the run, has reached."""
    graph = after._graph
    if graph is None:
        return
    for node in graph.nodes:
        obj = node.obj
        if node.kind == "list":
            _items(obj, unwrap)
        elif node.kind == "dict":
            for key, value in list(obj.items()):
                if (new := _settled(value, unwrap)) is not value:
                    obj[key] = new
        elif node.kind == "function" and not node.extra:
            _function(obj, unwrap)
        for edge in node.edges:
            _edge(node, edge, unwrap)


def _settled(value: Any, unwrap: Unwrap, depth: int = 0) -> Any:
    if type(value) is TracedArray:
        return unwrap(value)
    if isinstance(value, tuple) and depth < 20:
        parts = [_settled(v, unwrap, depth + 1) for v in value]
        if any(a is not b for a, b in zip(parts, value, strict=True)):
            make: Any = tuple.__new__
            return make(type(value), parts)
    return value


def _items(values: list[Any] | deque[Any], unwrap: Unwrap) -> None:
    for index, value in enumerate(list(values)):
        if (new := _settled(value, unwrap)) is not value:
            values[index] = new


def _edge(node: StateNode, edge: Edge, unwrap: Unwrap) -> None:
    child = edge.child
    value = child.value if isinstance(child, Leaf) else child.obj
    if not isinstance(value, TracedArray | tuple):
        return
    new = _settled(value, unwrap)
    if new is value:
        return
    if edge.how == "attr":
        store = getattr(node.obj, "__dict__", None)
        if store is not None and edge.arg in store and isinstance(store, dict):
            store[edge.arg] = new
        else:
            object.__setattr__(node.obj, edge.arg, new)
    elif edge.how == "cell":
        edge.arg.cell_contents = new
    elif edge.how == "global":
        space, name = edge.arg
        space[name] = new
    elif edge.how == "class":
        setattr(edge.arg[0], edge.arg[1], new)


def _function(fn: types.FunctionType, unwrap: Unwrap) -> None:
    """Globals and outer variables that the function assigns without reading them."""
    space = fn.__globals__
    for name in _stored_globals(fn.__code__):
        if name in space and (new := _settled(space[name], unwrap)) is not space[name]:
            space[name] = new
    for cell in fn.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if (new := _settled(value, unwrap)) is not value:
            cell.cell_contents = new


@lru_cache(maxsize=4096)
def _stored_globals(code: types.CodeType) -> tuple[str, ...]:
    names = [i.argval for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL"]
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names += _stored_globals(const)
    return tuple(dict.fromkeys(names))
