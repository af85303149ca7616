"""Parameters that a function only adds to: a list that it appends to, a dict whose items it stores.

Such a container is no part of the call's key, which would be another one in each call: the run is given the caller's
own, and the log has what is added.  What the function's text does with the parameter says so.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Set
from types import CodeType
from typing import Any

from ...tracer.convert.uses import ADD, APPEND, ITEM, OF_ITEM, READ, UPDATE, uses

_OF_MAPPINGS = {ITEM, UPDATE, OF_ITEM}
SINKS: dict[Any, set[str]] = {
    list: {APPEND}, deque: {APPEND}, set: {ADD, UPDATE},
    dict: _OF_MAPPINGS, OrderedDict: _OF_MAPPINGS, defaultdict: _OF_MAPPINGS, Counter: _OF_MAPPINGS,
}  # fmt: skip
_SEES_VARIABLES = frozenset(("locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"))


def is_sink(value: Any, uses: Set[str]) -> bool:
    """Whether *value* is a container that a function with these *uses* of it only adds to."""
    return bool(uses) and uses <= SINKS.get(type(value), set())


def sink_parameters(fn: Any, names: list[str]) -> dict[str | int, Set[str]]:
    """The uses of parameters of *fn* that it may only add to, by name and by place in *names*."""
    code = getattr(fn, "__code__", None)
    if not isinstance(code, CodeType) or not _SEES_VARIABLES.isdisjoint(code.co_names):
        return {}
    parameters = {*names, *code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}
    found: dict[str | int, Set[str]] = {
        name: used for name, used in uses(code).of.items() if READ not in used and name in parameters
    }
    return found | {k: found[name] for k, name in enumerate(names) if name in found}
