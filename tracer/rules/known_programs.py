"""Programs of rules that are known: the one of a call that is being recorded, and those of calls before.

A rule that calls its own function finds the program that it belongs to (``opened``).  A call like an earlier one has
its program, for as long as all that its rule reads is the same (``rule_of``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Graph, Var
from ..ir.interrupts import kept
from ..ir.site import Site, is_internal
from ..ops.complex import taken_apart
from ..record.array import TracedArray
from ..record.recorder import Recorder
from .arguments import function_key
from .programs import (
    DEPTH,
    FORWARD,
    Apply,
    Deferred,
    FailedRule,
    LaterRule,
    Layout,
    OwnRule,
    PythonRule,
    RuleProgram,
    may_ask,
)

_state = threading.local()


@dataclass(slots=True)
class _Open:
    """A program that is being recorded: variables for its operands and results."""

    key: Any
    program: RuleProgram
    body: Recorder
    operands: Sequence[Atom]
    outs: Sequence[Atom]
    given: Sequence[Atom]  # lanes of the tangents or cotangents
    results: Any
    part: Any  # of a rule by parts


def open_programs() -> list[_Open]:
    """The programs that are being recorded, the innermost last."""
    if not hasattr(_state, "open"):
        _state.open = []
    return _state.open


def _close(before: int) -> None:
    del open_programs()[before:]


kept(lambda: len(open_programs()), _close)


def opened(key: Any) -> _Open | None:
    """The program of *key* that is being recorded, if there is one."""
    return next((x for x in reversed(open_programs()) if x.key == key), None)


def linear_in_tangents(recorder: Recorder, operands: Sequence[Atom], key: Any) -> bool:
    """Whether the call of *key* stands in a rule for tangents, of values that depend on these, and its own rule would
    lead back to that one, or too deep.

    A rule is linear in the tangents, so what it does with them is their derivative too, and the rule of such a call
    (``t -> f(t)``, of a linear f) would be asked for its transpose without end."""
    opened = open_programs()
    if not opened or opened[-1].program.layout.direction != FORWARD:
        return False
    if len(opened) < DEPTH and all(x.key[:-2] != key[:-2] for x in opened):  # whatever the shapes and settings
        return False
    needed = {x for x in taken_apart(operands) if isinstance(x, Var)}
    now: Recorder | None = recorder
    while now is not None:
        made: set[Var] = set()
        for node in reversed(now.nodes):
            made.update(node.outs)
            if not needed.isdisjoint(node.outs):
                needed.update([x for x in node.inputs if isinstance(x, Var)])
        if now is opened[-1].body:
            return not needed.isdisjoint(opened[-1].given)  # type: ignore[arg-type]
        if not needed.isdisjoint(getattr(now, "own", set()) - made):
            return True  # values of a loop, which may come from anywhere
        now = now.parent
    return False


# of each recorder: the programs in it by key, with the objects that their rules saw
_known: WeakKeyDictionary[Recorder, dict[Any, tuple[OwnRule, list[Any], list[Any]]]] = WeakKeyDictionary()


def rule_of(
    recorder: Recorder, label: str, layout: Layout, key: Any, alive: list[Any], functions: Sequence[Any], apply: Apply,
    site: Site | None, results: Any, strict: bool = True, part: Any = None, later: bool = False,
) -> OwnRule:  # fmt: skip
    """The rule *apply* for calls of *layout*: a program, unless it asks for values.

    *key* tells calls apart that the rule may, with the objects *alive* in it; *functions* are those of the rule: a
    program is known again for as long as all that they read is the same.  *results*: the ``Results`` of the call;
    *part*: which part of a rule this is; *later*: it is a program only where a derivative is taken."""
    seen = _seen(functions)
    known = _known.setdefault(recorder, {})
    found = known.get((key, layout, part))
    if seen is not None and found is not None and [*map(id, seen)] == [*map(id, found[2])]:
        return found[0]
    if later or len(open_programs()) >= DEPTH:
        unrecorded = LaterRule(label, layout, apply, site, (label, part, *map(function_key, functions)))
        unrecorded.strict = strict
        return unrecorded
    program = RuleProgram(label, layout, site)

    @contextmanager
    def in_progress(body: Recorder, operands: Any, outs: Any, given: Any) -> Iterator[None]:
        open_programs().append(_Open(key, program, body, operands, outs, given, results, part))
        try:
            yield
        finally:
            open_programs().pop()

    rule: OwnRule = program
    errors: list[Exception]
    try:
        program.record(recorder, apply, in_progress)
        errors = [x.error for x in (*program.present, *program.missing.values()) if isinstance(x, Deferred)]
    except Exception as error:
        rule, errors = FailedRule(label, layout, site, Deferred(error)), [error]
    if any(isinstance(x, UnsupportedError) for x in errors) and may_ask(recorder):
        rule = PythonRule(label, layout, apply, site)
    rule.strict = strict
    if seen is not None:
        known[key, layout, part] = (rule, alive, seen)
    return rule


_CONSTANTS = (
    Graph, int, float, complex, str, bytes, type(None), type, ModuleType, BuiltinFunctionType, np.ufunc, np.generic,
    np.dtype, range, slice, type(Ellipsis),
)  # fmt: skip


def _seen(functions: Sequence[Any]) -> list[Any] | None:
    """All that *functions* read from outside by name; None where something of it may have changed since."""
    found: list[Any] = []
    todo, visited = list(functions), set()
    while todo:
        x = todo.pop()
        if id(x) in visited:
            continue
        visited.add(id(x))
        found.append(x)
        if isinstance(x, MethodType):
            todo += [x.__func__, x.__self__]
        elif isinstance(x, FunctionType):
            if not is_internal(x.__code__.co_filename):
                todo += [*_cells(x), *_globals(x), *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
        elif isinstance(x, tuple):
            todo += x
        elif not isinstance(x, _CONSTANTS) and not (type(x) is TracedArray and x._storage.owner is not None):
            return None
    return found


def _cells(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield None


def _globals(function: FunctionType) -> Iterator[Any]:
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if hasattr(c, "co_names")]
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
