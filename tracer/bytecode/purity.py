"""Purity of loops whose trip count depends on data: a proof that recorded values alone decide it.

A loop is recorded as a number of turns (iterations), of which the last got another answer to its condition.  Another
number of turns would have gone the same way if two things hold, which are proven here:

- A turn changes nothing but local variables: no item, attribute, global or cell is stored, and all that is called is
  known to change nothing (NumPy's functions, methods that arrays have, helpers of which the same is true).
- Those local variables are traced values, or Python values that nobody reads after the loop, or counters, for which
  recorded integers stand after it (``induction_variables.py``).  Python values that change took, turn by turn, values
  that do not depend on data; so the proof holds for as many turns as were seen, and the loop is ``bounded`` by that.
  Without any there is no bound, and none where the loop does nothing with a counter but count.

Anything else is a refusal, which has a name; the number of turns is then a branch like others.
"""

from __future__ import annotations

import builtins
import inspect
import itertools
import math
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.refusals import Reason, Refusal
from .control_flow import Flow, flow_of, loads, stores
from .frame_snapshot import Asked, Many, Other, Plain, Traced, is_array_like
from .instructions import NULL_ABOVE, pushes_null
from .records import HEAP_TYPE, constructors, fields_of, is_record_class, operators
from .versions import PYTHON

Code = types.CodeType
_DEPTH = 8  # of helpers in helpers
_CALLEE = -1 if NULL_ABOVE else 1  # where the callee's load stands, from PUSH_NULL
_NAME_LOADS = ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_CONST")
_METHOD = (types.FunctionType, staticmethod, classmethod)
_ANY = object()  # a traced value, or a new one that only the loop has
_UNKNOWN = object()
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_DATA = frozenset("T mT shape ndim size dtype real".split())

_QUIET = frozenset(
    "NOP CACHE RESUME EXTENDED_ARG PUSH_NULL PRECALL CALL KW_NAMES LOAD_FAST LOAD_CONST LOAD_GLOBAL "
    "LOAD_DEREF LOAD_ATTR LOAD_METHOD STORE_FAST POP_TOP COPY SWAP BINARY_OP COMPARE_OP IS_OP UNARY_NEGATIVE UNARY_NOT "
    "UNARY_POSITIVE UNARY_INVERT BINARY_SUBSCR BINARY_SLICE BUILD_TUPLE BUILD_LIST BUILD_SLICE LIST_EXTEND "
    "UNPACK_SEQUENCE GET_ITER FOR_ITER END_FOR POP_ITER JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT TO_BOOL "
    "JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP COPY_FREE_VARS"
    .split()
)  # fmt: skip
_BUILTINS = frozenset(
    "abs min max len range float int bool sum round zip enumerate reversed tuple isinstance pow divmod".split()
)
_ITERABLES = frozenset("range zip enumerate reversed".split())
_METHODS = frozenset(
    "all any argmax argmin astype clip copy cumprod cumsum diagonal dot flatten max mean min prod ravel repeat reshape "
    "round squeeze std sum swapaxes take trace transpose var item".split()
)
LIBRARY_METHODS: set[str] = set()  # those of tensors that change nothing
LIBRARY_FUNCTIONS: list[Callable[[Any], bool]] = []  # whether a function of a library above changes nothing
COMPILED_FROM: list[Callable[[Any], Any]] = []  # the Python function that a library has compiled, or None
_CALLED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_WRITERS = frozenset("copyto put place putmask fill_diagonal put_along_axis".split())
_MODULES = ("numpy", "scipy")
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type, type(np.sum))


@dataclass(slots=True)
class _Met:
    """The classes of records that a loop may meet, (method, whether it is given a new one) of those looked at, and
    the ids of containers that are looked at."""

    classes: dict[type, None] = field(default_factory=dict)
    codes: set[tuple[types.FunctionType, bool]] = field(default_factory=set)
    containers: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Proof:
    """*bounded*: only as many turns as were seen are proven.  *stored*: the local variables that the loop assigns;
    *live*: those that are read afterwards, except *counted*, which are counters.  *differ*: turns may differ."""

    bounded: bool
    stored: frozenset[str]
    live: frozenset[str]
    counted: frozenset[str] = frozenset()
    differ: bool = False


def counters(asked: Sequence[Asked]) -> dict[str, int]:
    """The local variables that are Python integers which grew by the same number, given here, from each turn to the
    next."""
    found: dict[str, int] = {}
    for name in asked[-1].values:
        seen = [a.values.get(name) for a in asked]
        if all(isinstance(v, Plain) and type(v.value) is int for v in seen):
            steps = {b.value - a.value for a, b in itertools.pairwise(seen)}  # type: ignore[union-attr]
            if len(steps) == 1 and steps != {0}:
                found[name] = steps.pop()
    return found


def prove(asked: Sequence[Asked], counting: frozenset[str] = frozenset()) -> Proof | Reason:
    """The proof for the loop in which the question was *asked* once in each turn, or why there is none.  *counting*:
    the variables for which recorded integers stand after the loop, if they are read there."""
    if PYTHON is None:
        return Refusal.CODE_PYTHON()
    first = asked[0]
    if any(a.frame is not first.frame or a.instruction != first.instruction for a in asked):
        return Refusal.WHILE_ELSEWHERE()
    flow = flow_of(first.frame.f_code)
    at = flow.asks(first.instruction)
    loop = flow.loop_left_at(at) if at is not None else None
    if loop is None or at is None:
        return Refusal.WHILE_NO_LOOP()
    renewed = frozenset(name for name, v in first.values.items() if not isinstance(v, Other) and not _held(v))
    reason = _impure(first, loop, renewed)
    if reason is not None:
        return reason
    live = frozenset(name for k in flow.after(at, loop) for name in loads(flow.code[k]))
    stored = {name for k in loop for name in stores(flow.code[k])}
    changed = [name for name in _names(asked) if not _steady([a.values.get(name) for a in asked])]
    kept = [name for name in changed if not _steady([a.values.get(name) for a in asked], traced=True)]
    for name in kept:
        if name in live - counting:
            return Refusal.WHILE_PYTHON_VALUE(name=name)
        if name not in stored:
            return Refusal.WHILE_UNASSIGNED(name=name)
    reason = _iterator(asked[-1], _names(asked))
    if reason is not None:
        return reason
    counts = any(flow.code[k].opname == "FOR_ITER" for k in loop if flow.closes(k, loop))
    linear = counters(asked)
    python = counts or any(not (n in linear and _only_counts(flow, loop, n)) for n in kept)
    counted = live & counting & set(changed)
    return Proof(python, frozenset(stored), frozenset(live & (stored | set(changed))) - counted, frozenset(counted))


def _only_counts(flow: Flow, loop: Iterable[int], name: str) -> bool:
    """Whether the loop uses the variable in ``name += constant`` only."""
    for k in loop:
        if name in loads(flow.code[k]):
            after = flow.code[k : k + 4]
            if [i.opname for i in after] != ["LOAD_FAST", "LOAD_CONST", "BINARY_OP", "STORE_FAST"]:
                return False
            if after[2].argrepr not in ("+", "+=", "-", "-=") or after[3].argval != name:
                return False
    return True


def prove_turns(asked: Asked, head: int, end: int) -> Proof | Reason:
    """The proof that a turn, from instruction *head* to it or to *end*, depends on the local variables at its start
    alone and changes nothing but them; or why that is not so."""
    if PYTHON is None:
        return Refusal.CODE_PYTHON()
    code = asked.frame.f_code
    flow = flow_of(code)
    loop = flow.between(head, end)
    if flow.code[end].opname == "POP_TOP":
        return Refusal.WHILE_WITHIN()
    if any(flow.code[k].opname == "FOR_ITER" and flow.closes(k, loop) for k in loop):
        return Refusal.WHILE_COUNTS()
    start = flow.live(head)
    body = sorted(loop)
    stored = frozenset(name for k in body for name in stores(flow.code[k]))
    renewed = frozenset(name for name in stored if _replaced(flow.code, body, name, asked.values.get(name)))
    reason = _impure(asked, loop, renewed, flow.lists(_arguments(code)) - start) or _iterator(asked, start)
    return reason or Proof(False, stored, flow.live(end), differ=True)


def _impure(
    asked: Asked, loop: Iterable[int], renewed: frozenset[str], lists: frozenset[str] = frozenset()
) -> Reason | None:
    """The reason why the *loop* in which the question was *asked* may change more than local variables, or None.  The
    others as in ``_harmless``."""
    code = asked.frame.f_code
    flow = flow_of(code)
    if _suspends(code):
        return Refusal.CODE_GENERATOR(what="the function around it")
    body = [flow.code[k] for k in sorted(loop)]
    records = _Met()
    for seen in asked.values.values():
        _note_records(seen, records)
    known, reason = -1, None
    while reason is None and len(records.classes) > known:  # some are found on the way
        known = len(records.classes)
        records.codes.clear()
        reason = _harmless(
            body, lambda name: _value(asked.values.get(name)), asked.frame.f_globals, renewed, records, lists=lists
        )
        others = [cls for cls in records.classes if not is_record_class(cls)]  # any more
        if reason is None and others:
            reason = Refusal.CODE_OBJECT(what=f"`{others[0].__name__}`")
        methods = [(cls, method) for cls in list(records.classes) for method in operators(cls)]
        reason = reason or next((r for cls, m in methods if (r := _method(m, cls, _DEPTH, records))), None)
    return Refusal.CODE_EXCEPTIONS(what="the loop") if reason is None and flow.handled(loop) else reason


def _note_records(seen: Any, records: _Met) -> None:
    if isinstance(seen, Many):
        if seen.owner is not None:
            records.classes[type(seen.owner)] = None
        for item in seen.items:
            _note_records(item, records)


def _iterator(asked: Asked, names: Iterable[str]) -> Reason | None:
    """The reason if one of the local variables *names* is an iterator."""
    for name in names:
        value = asked.values.get(name)
        if isinstance(value, Other) and hasattr(value.value, "__next__"):
            return Refusal.CODE_ITERATOR(what=f"`{name}`")
    return None


def _suspends(code: Code) -> bool:
    return bool(code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))


def _replaced(code: Sequence[Any], loop: Sequence[int], name: str, value: Any) -> bool:
    """Whether the local variable is a scalar that the loop changes by ``x += y`` only: none shares its memory then."""
    if not (isinstance(value, Traced) and value.replaced):
        return False
    return all(
        code[k - 1].opname == "BINARY_OP" and code[k - 1].argrepr.endswith("=") for k in loop if name in stores(code[k])
    )


def _names(asked: Sequence[Asked]) -> list[str]:
    return sorted({name for a in asked for name in a.values})


def _steady(values: Sequence[Any], *, traced: bool = False) -> bool:
    """Whether *values*, one for each turn, are all the same; with *traced*, but for traced values."""
    return all(_same(v, values[0], traced) for v in values)


def _same(a: Any, b: Any, traced: bool) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, Traced):
        return (traced or a.atom is b.atom) and a.atom is not None and b.atom is not None
    if isinstance(a, Plain):
        return type(a.value) is type(b.value) and (a.value == b.value or (a.value != a.value and b.value != b.value))
    if isinstance(a, Many):
        if type(a.owner) is not type(b.owner):
            return False
        return len(a.items) == len(b.items) and all(_same(x, y, traced) for x, y in zip(a.items, b.items, strict=True))
    return a is b if a is None else a.value is b.value


def _value(seen: Any) -> Any:
    """The value of a local variable, if it may be a callable; else ``_ANY``."""
    if isinstance(seen, Many):
        return tuple([_value(v) for v in seen.items]) if seen.owner is None else _ANY
    return seen.value if isinstance(seen, Other) else _ANY


def _held(seen: Any) -> bool:
    return any(map(_held, seen.items)) if isinstance(seen, Many) else isinstance(seen, Traced) and seen.held


# ---- what instructions do --------------------------------------------------------------------------------------------


def _harmless(
    code: Sequence[Any], local: Callable[[str], Any], names: dict[str, Any], renewed: frozenset[str],
    records: _Met, depth: int = _DEPTH, lists: frozenset[str] = frozenset(), own: str = "",
) -> Reason | None:  # fmt: skip
    """The reason why one of these instructions may change more than local variables, or None.  *renewed*: the local
    variables for which ``x += ...`` is known to change nothing that a Python list or array holds; *lists*: those that
    hold lists made here; *own*: the one that holds a new record.  *records*: those that may be met; other classes
    are added."""
    base: Any = _ANY
    for k, i in enumerate(code):
        name, value = i.opname, _ANY
        if name == "STORE_ATTR" and own and code[k - 1].opname == "LOAD_FAST" and code[k - 1].argval == own:
            continue
        if name not in _QUIET and not name.startswith("POP_JUMP"):
            return Refusal.CODE_INSTRUCTION(instruction=name, line=_line(code, k))
        if name == "LOAD_GLOBAL":
            value = names.get(i.argval, getattr(builtins, i.argval, _ANY))
        elif name in ("LOAD_FAST", "LOAD_DEREF"):
            value = local(i.argval) if i.argval not in lists else _ANY
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            if base is not _ANY:
                value = _attribute(base, i.argval)
                if value is _UNKNOWN:
                    return Refusal.CODE_ATTRIBUTE(name=i.argval, line=_line(code, k))
            elif i.argval == "append" and code[k - 1].opname == "LOAD_FAST" and code[k - 1].argval in lists:
                pass
            else:
                where = f"`.{i.argval}` in line {_line(code, k)}"
                found = _of_records(i.argval, where, name == "LOAD_METHOD" or pushes_null(i), depth, records)
                if isinstance(found, Reason):
                    return found
                array = i.argval in _METHODS or i.argval in _DATA or i.argval in LIBRARY_METHODS
                if not (found or array):
                    return Refusal.CODE_CHANGES(what=f".{i.argval}", line=_line(code, k))
        elif name == "PUSH_NULL" and records.classes and not code[k + _CALLEE].opname.startswith(_NAME_LOADS):
            if not NULL_ABOVE or base is _ANY:  # a field, perhaps; the function of a module has been looked at
                return Refusal.CODE_INSTRUCTION(instruction=name, line=_line(code, k))
        elif name == "KW_NAMES" and not {"out", "inplace"}.isdisjoint(i.argval if isinstance(i.argval, tuple) else ()):
            return Refusal.CODE_CHANGES(what="out=", line=_line(code, k))
        elif name == "BINARY_OP" and i.argrepr.endswith("=") and not _renews(code, k, renewed):
            return Refusal.CODE_CHANGES(what=i.argrepr, line=_line(code, k))
        elif name == "GET_ITER" and not _fresh(code, k, names):
            return Refusal.CODE_ITERATED(line=_line(code, k))
        if is_array_like(value):
            value = _ANY
        if value is not _ANY:
            what = f"`{i.argval}` in line {_line(code, k)}"
            owner = code[min(k + 1, len(code) - 1)].opname in _ATTRIBUTE  # of an attribute, which is looked at itself
            reason = None if owner and not isinstance(value, _CALLED) else _callable(value, what, depth, records)
            if reason is None and _of_users(value) and not owner:
                reason = Refusal.CODE_OBJECT(what=what)
            if reason is not None:
                return reason
        base = value if name != "PUSH_NULL" else base
    return None


def _of_records(name: str, what: str, called: bool, depth: int, records: _Met) -> bool | Reason:
    """Whether *name* is an attribute of one of these *records*, if reading it, and calling it where it is *called*, is
    harmless for all of them; else the reason."""
    known = False
    for cls in list(records.classes):
        found = inspect.getattr_static(cls, name, _UNKNOWN)
        kept = name in fields_of(cls)
        if (found is not _UNKNOWN or kept) and called and not isinstance(found, _METHOD):
            return Refusal.CODE_CALLED(what=what)
        if isinstance(found, (*_METHOD, property)):
            reason = _method(found.fget if isinstance(found, property) else found, cls, depth, records)
            if reason is not None:
                return reason
        elif found is not _UNKNOWN and not (kept or type(found) in (int, float, bool, str)):
            return Refusal.CODE_CHANGES(what=what, line="?")
        known |= kept or found is not _UNKNOWN
    return known


def _method(method: Any, cls: type, depth: int, records: _Met, own: bool = False) -> Reason | None:
    """The reason why a method of a record is not known to be harmless, or None; *own*: it is given a new one."""
    function = getattr(method, "__func__", method)
    what = f"`{cls.__name__}.{getattr(function, '__name__', '?')}`"
    if not isinstance(function, types.FunctionType):
        return Refusal.CODE_UNKNOWN(what=what)
    if (function, own) in records.codes:
        return None
    records.codes.add((function, own))
    return _helper(function, what, depth, records, own)


def _callable(value: Any, what: str, depth: int, records: _Met) -> Reason | None:
    """The reason why a value that may be called is not known to be harmless, or None; *what*: its text in the code."""
    data = hasattr(type(value), "__array_ufunc__") and not callable(value)  # a traced array has no other attributes
    if isinstance(value, types.ModuleType) or data:
        return None
    if isinstance(value, np.ufunc) or value is getattr(math, getattr(value, "__name__", ""), None):
        return None
    if any(changes_nothing(value) for changes_nothing in LIBRARY_FUNCTIONS):
        return None
    value = next((source for of in COMPILED_FROM if (source := of(value)) is not None), value)
    if isinstance(value, types.FunctionType) and not (value.__module__ or "").startswith(_MODULES):
        return _helper(value, what, depth, records)
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, _FUNCTIONS) and module.startswith(_MODULES):
        writes = getattr(value, "__name__", "") in _WRITERS or "random" in module
        return Refusal.CODE_WRITES(what=what) if writes else None
    if isinstance(value, type) and is_record_class(value):
        records.classes[value] = None
        return next((r for made in constructors(value) if (r := _method(made, value, depth, records, own=True))), None)
    if isinstance(value, (types.BuiltinFunctionType, type)):
        name = getattr(value, "__name__", "")
        known = name in _BUILTINS and getattr(builtins, name, None) is value
        return None if known else Refusal.CODE_UNKNOWN(what=what)
    if type(value) in (tuple, list, dict):
        if id(value) in records.containers:  # it may hold itself
            return None
        records.containers.add(id(value))
        held = value.values() if type(value) is dict else value
        return next((r for v in held if (r := _item(v, f"{what} holds what", depth, records))), None)
    if callable(value) and not isinstance(value, (np.ndarray, np.generic)):
        return Refusal.CODE_CALLED(what=what)
    if hasattr(value, "__next__"):
        return Refusal.CODE_ITERATOR(what=what)
    return None


def _item(value: Any, what: str, depth: int, records: _Met) -> Reason | None:
    """As ``_callable``, of what a container holds; of objects of the user's it may hold records alone."""
    kind = type(value)
    if is_record_class(kind) and not callable(value):
        records.classes[kind] = None
    elif kind.__flags__ & HEAP_TYPE and not (callable(value) or hasattr(kind, "__array_ufunc__")):
        return Refusal.CODE_OBJECT(what=what)
    return _callable(value, what, depth, records)


def _helper(fn: types.FunctionType, what: str, depth: int, records: _Met, own: bool = False) -> Reason | None:
    code = fn.__code__
    if not depth:
        return Refusal.CODE_DEPTH(what=what)
    if _suspends(code):
        return Refusal.CODE_GENERATOR(what=what)
    flow = flow_of(code)
    if flow.exceptions:
        return Refusal.CODE_EXCEPTIONS(what=what)
    cells = {}
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            return Refusal.CODE_UNSET(what=what)
    body = [i for i in flow.code if i.opname != "RETURN_VALUE"]
    if any(i.opname == "PUSH_NULL" and body[k + _CALLEE].opname == "LOAD_FAST" for k, i in enumerate(body)):
        return Refusal.CODE_ARGUMENT(what=what)
    lists = flow.lists(_arguments(code))
    first = code.co_varnames[0] if own and code.co_argcount else ""
    if any(i.opname == "STORE_FAST" and i.argval == first for i in body):
        first = ""
    reason = _harmless(
        body, lambda name: cells.get(name, _ANY), fn.__globals__, frozenset(), records, depth - 1, lists, first
    )
    return None if reason is None else reason.within(f"{what} is a helper in which ")


def _arguments(code: Code) -> Sequence[str]:
    others = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + others]


def _attribute(base: Any, name: str) -> Any:
    """The attribute *name* of a module or an object, if reading it runs no code; else ``_UNKNOWN``."""
    if isinstance(base, types.ModuleType):
        return getattr(base, name, _UNKNOWN)
    if isinstance(base, (np.ndarray, np.generic, int, float)):
        return _ANY if name in _METHODS or name in _DATA else _UNKNOWN
    kind = type(base)
    if kind.__getattribute__ is not object.__getattribute__ or hasattr(kind, "__getattr__"):
        return _UNKNOWN
    found = inspect.getattr_static(base, name, _UNKNOWN)
    if isinstance(found, types.FunctionType):
        return found
    if hasattr(type(found), "__get__") and not isinstance(found, types.MemberDescriptorType):
        return _UNKNOWN
    return getattr(base, name) if isinstance(found, types.MemberDescriptorType) else found


def _of_users(value: Any) -> bool:
    """Whether operators and items of *value* may run code of the user's."""
    if callable(value) or isinstance(value, (types.ModuleType, np.generic)):
        return False
    return type(value) not in (int, float, bool, str, bytes, tuple, list, dict, range, slice, np.ndarray, type(None))


def _renews(code: Sequence[Any], k: int, renewed: frozenset[str]) -> bool:
    """Whether the target of ``x += ...`` at *k* is one of the local variables *renewed*."""
    names = stores(code[k + 1]) if k + 1 < len(code) else ()
    return bool(names) and names[0] in renewed


def _fresh(code: Sequence[Any], k: int, names: dict[str, Any]) -> bool:
    """Whether GET_ITER *k* makes a new iterator: of containers, alone or in range(...) or zip(...)."""

    def contained(i: Any) -> bool:  # no variable is an iterator: see prove
        if i.opname == "LOAD_GLOBAL":
            return type(names.get(i.argval)) in (tuple, list, range, np.ndarray)
        return i.opname in ("LOAD_FAST", "LOAD_CONST", "LOAD_DEREF")

    j = k - 1
    if contained(code[j]):
        return True
    if code[j].opname != "CALL":
        return False
    count, j = code[j].arg, j - 1
    while j >= 0 and code[j].opname in ("PRECALL", "CACHE", "EXTENDED_ARG", "KW_NAMES"):
        j -= 1
    while count and j >= 0 and contained(code[j]):
        count, j = count - 1, j - 1
    return not count and j >= 0 and code[j].opname == "LOAD_GLOBAL" and code[j].argval in _ITERABLES


def _line(code: Sequence[Any], k: int) -> Any:
    while k >= 0:
        line = getattr(code[k], "line_number", None) or code[k].starts_line
        if line and line is not True:
            return line
        k -= 1
    return "?"
