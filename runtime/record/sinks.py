"""Parameters that a function only adds to: a list that it appends to, a dict whose items it stores.

Such a container is no part of the call's key, which would be another one in each call: the run is given the caller's
own, and the log has what is added.  That is a question about bytecode alone: which instruction takes the parameter from
the stack, and what becomes of it.  What is not recognised may read it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Set
from functools import lru_cache
from types import CodeType
from typing import Any

from ...tracer.bytecode.stack_flow import StackFlow, pushes

_APPEND, _UPDATE, _ADD, _ITEM, _OF_ITEM = "append", "update", "add", "item", "of an item"  # x[k].append(v)
_READ = "read"
_GROWS = {"append": _APPEND, "extend": _APPEND, "update": _UPDATE, "add": _ADD}
_OF_MAPPINGS = {_ITEM, _UPDATE, _OF_ITEM}
SINKS: dict[Any, set[str]] = {
    list: {_APPEND}, deque: {_APPEND}, set: {_ADD, _UPDATE},
    dict: _OF_MAPPINGS, OrderedDict: _OF_MAPPINGS, defaultdict: _OF_MAPPINGS, Counter: _OF_MAPPINGS,
}  # fmt: skip


def is_sink(value: Any, uses: Set[str]) -> bool:
    """Whether *value* is a container that a function with these *uses* of it only adds to."""
    return bool(uses) and uses <= SINKS.get(type(value), set())


def sink_parameters(fn: Any, names: list[str]) -> dict[str | int, Set[str]]:
    """The uses of parameters of *fn* that it may only add to, by name and by place in *names*."""
    code = getattr(fn, "__code__", None)
    uses = _uses(code) if isinstance(code, CodeType) else {}
    found: dict[str | int, Set[str]] = {name: used for name, used in uses.items() if _READ not in used}
    return found | {k: found[name] for k, name in enumerate(names) if name in found}


@lru_cache(4096)
def _uses(code: CodeType) -> dict[str, Set[str]]:
    """The uses that *code* makes of each of its local variables."""
    flow, found = StackFlow(code), dict[str, set[str]]()
    for index, ins in enumerate(flow.code):
        if ins.opname == "LOAD_FAST":
            found.setdefault(ins.argval, set()).add(_use(flow, index))
        elif "FAST" in ins.opname or ins.argval in code.co_cellvars:
            for name in ins.argval if isinstance(ins.argval, tuple) else (ins.argval,):
                found.setdefault(str(name), set()).add(_READ)
    found.update({name: {_READ} for name in code.co_cellvars})  # an inner function may do anything
    return dict(found)


def _use(flow: StackFlow, index: int) -> str:
    """The use of the variable that the instruction at *index* loads."""
    at, depth = flow.taken(index, 0)
    if depth == 0 and (grown := _growth(flow, at)):
        return grown
    if depth == 1 and flow.opname(at) == "STORE_SUBSCR":
        return _ITEM
    if depth == 1 and flow.opname(at) == "BINARY_SUBSCR":
        taker, below = flow.taken(at, 0)
        if (flow.opname(taker) == "STORE_SUBSCR" and below == 1) or (below == 0 and _growth(flow, taker)):
            return _OF_ITEM
    return _READ


def _growth(flow: StackFlow, index: int) -> str:
    """The use of a method that adds, whose call starts at *index* and whose result is None; "" where it is none."""
    ins = flow.at(index)
    if ins is None or ins.opname not in ("LOAD_METHOD", "LOAD_ATTR") or pushes(ins) != 2:
        return ""
    call, _ = flow.taken(index, 1)
    return _GROWS.get(ins.argval, "") if flow.opname(call) == "CALL" else ""
