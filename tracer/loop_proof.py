"""What the user's bytecode says of a loop that data ends: does nothing but recorded values decide how often it goes?

A loop is recorded as so many turns, of which the last asked a question whose answer was another one.  That another
number of turns would have gone the same way follows from two things, and both are proven here:

- A turn changes nothing but local variables: no item, attribute, global or cell is stored, and all that is called is
  known to change nothing (NumPy's functions, methods that arrays have, helpers of which the same is true).
- Those local variables are traced values, or Python values that nobody reads after the loop.  Python values that
  change (a counter) went, turn by turn, through values that do not hang on data; so the proof holds for as many turns
  as were seen, and the loop is ``bounded`` by that.  Without any there is no bound.

Whatever is not known to be harmless is a refusal, which has a name; the number of turns is then a branch like others.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import math
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .frames import Asked, Many, Other, Plain, Traced

Code = types.CodeType
_ANY = object()  # a traced value, or a new one that only the loop has
_UNKNOWN = object()
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_DATA = frozenset("T mT shape ndim size dtype real".split())

_QUIET = frozenset(
    "NOP CACHE RESUME EXTENDED_ARG PUSH_NULL PRECALL CALL KW_NAMES LOAD_FAST LOAD_FAST_CHECK LOAD_CONST LOAD_GLOBAL "
    "LOAD_DEREF LOAD_ATTR LOAD_METHOD STORE_FAST POP_TOP COPY SWAP BINARY_OP COMPARE_OP IS_OP UNARY_NEGATIVE UNARY_NOT "
    "UNARY_POSITIVE UNARY_INVERT BINARY_SUBSCR BINARY_SLICE BUILD_TUPLE BUILD_LIST BUILD_SLICE LIST_EXTEND "
    "UNPACK_SEQUENCE GET_ITER FOR_ITER END_FOR POP_ITER JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT TO_BOOL "
    "JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP LOAD_FAST_LOAD_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST "
    "COPY_FREE_VARS"
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
_WRITERS = frozenset("copyto put place putmask fill_diagonal put_along_axis".split())
_MODULES = ("numpy", "scipy")
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type, type(np.sum))


@dataclass(frozen=True, slots=True)
class Proof:
    """*bounded*: only as many turns as were seen are proven.  *live*: the local variables that are read afterwards."""

    bounded: bool
    live: frozenset[str]


def prove(asked: Sequence[Asked]) -> Proof | str:
    """The proof for the loop in which the question was *asked* once in each turn, or why there is none."""
    first = asked[0]
    if any(a.frame is not first.frame or a.instruction != first.instruction for a in asked):
        return "the question is not asked by the loop itself"
    code = first.frame.f_code
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return "the loop is in a generator"
    flow = _flow(code)
    at = flow.asks(first.instruction)
    loop = flow.loop_left_at(at) if at is not None else None
    if loop is None or at is None:
        return "the question does not decide whether a loop goes on"
    names = dict(first.values)
    renewed = frozenset(name for name, value in names.items() if not isinstance(value, Other))
    body = [flow.code[k] for k in sorted(loop)]
    reason = _harmless(body, lambda name: _value(names.get(name)), first.frame.f_globals, renewed)
    if not reason and flow.handled(loop):
        reason = "the loop handles exceptions"
    if reason:
        return reason
    live = frozenset(name for k in flow.after(at, loop) for name in _loads(flow.code[k]))
    stored = {name for k in loop for name in _stores(flow.code[k])}
    changed = [name for name in _names(asked) if not _steady([a.values.get(name) for a in asked])]
    for name in changed:
        if not all(_traced(a.values.get(name)) for a in asked) and name in live:
            return f"the Python value `{name}`, which the loop changes, is read after it"
        if name not in stored and not all(_traced(a.values.get(name)) for a in asked):
            return f"`{name}` changes, and the loop does not assign it"
    for name in _names(asked):
        value = asked[-1].values.get(name)
        if isinstance(value, Other) and hasattr(value.value, "__next__"):
            return f"`{name}` is an iterator"
    counts = any(flow.code[k].opname == "FOR_ITER" for k in loop if flow.closes(k, loop))
    python = counts or any(not all(_traced(a.values.get(n)) for a in asked) for n in changed)
    return Proof(python, frozenset(live & (stored | set(changed))))


def _names(asked: Sequence[Asked]) -> list[str]:
    return sorted({name for a in asked for name in a.values})


def _traced(value: Any) -> bool:
    """Is it made of traced values alone?"""
    if isinstance(value, Many):
        return bool(value.items) and all(_traced(v) or isinstance(v, Plain) for v in value.items)
    return isinstance(value, Traced) and value.atom is not None


def _steady(values: Sequence[Any]) -> bool:
    """Is it the same in every turn?"""
    return all(_same(v, values[0]) for v in values)


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, Traced):
        return a.atom is b.atom and a.atom is not None
    if isinstance(a, Plain):
        return type(a.value) is type(b.value) and (a.value == b.value or (a.value != a.value and b.value != b.value))
    if isinstance(a, Many):
        return len(a.items) == len(b.items) and all(map(_same, a.items, b.items))
    return a is b if a is None else a.value is b.value


def _value(seen: Any) -> Any:
    """What a local variable holds, where that is something that may be called."""
    return seen.value if isinstance(seen, Other) else _ANY


# ---- control flow ----------------------------------------------------------------------------------------------------


class _Flow:
    """The instructions of a function and what may follow each."""

    def __init__(self, code: Code):
        self.code = list(dis.get_instructions(code))
        self.place = {i.offset: k for k, i in enumerate(self.code)}
        self.exceptions: Sequence[Any] = getattr(dis.Bytecode(code), "exception_entries", ())
        self.following: list[list[int]] = []
        self.before: list[list[int]] = [[] for _ in self.code]
        for k, i in enumerate(self.code):
            following = []
            jumps = i.opcode in dis.hasjrel or i.opcode in dis.hasjabs
            if jumps:
                following.append(self.place[i.argval])
            goes_on = not i.opname.startswith(("JUMP_FORWARD", "JUMP_BACKWARD", "RETURN", "RAISE", "RERAISE"))
            if goes_on and k + 1 < len(self.code):
                following.append(k + 1)
            self.following.append(following)
            for n in following:
                self.before[n].append(k)

    def asks(self, offset: int) -> int | None:
        """The conditional jump that the truth value asked for at *offset* decides."""
        k = self.place.get(offset)
        while k is not None and k < len(self.code):
            name = self.code[k].opname
            if name.startswith("POP_JUMP"):
                return k
            if name not in ("UNARY_NOT", "TO_BOOL", "CACHE", "NOP", "EXTENDED_ARG"):
                return None
            k += 1
        return None

    def loop_left_at(self, at: int) -> set[int] | None:
        """The innermost loop that the jump *at* belongs to, if one of its ways leaves it."""
        best: set[int] | None = None
        for end, following in enumerate(self.following):
            for head in following:
                if head <= end:
                    loop = self._natural(head, end)
                    if at in loop and (best is None or len(loop) < len(best)):
                        best = loop
        if best is None or all(n in best for n in self.following[at]):
            return None
        return best

    def _natural(self, head: int, end: int) -> set[int]:
        """What leads to the backward jump at *end* without passing *head*."""
        loop, todo = {head}, [end]
        while todo:
            k = todo.pop()
            if k not in loop:
                loop.add(k)
                todo += self.before[k]
        return loop

    def closes(self, k: int, loop: set[int]) -> bool:
        """Does the iterator at *k* end this loop, rather than one within it?"""
        return any(n not in loop for n in self.following[k])

    def after(self, at: int, loop: set[int]) -> set[int]:
        """What may run once the jump *at* has left the loop."""
        found: set[int] = set()
        todo = [n for n in self.following[at] if n not in loop]
        while todo:
            k = todo.pop()
            if k not in found:
                found.add(k)
                todo += self.following[k]
        return found

    def handled(self, loop: Iterable[int]) -> bool:
        offsets = [self.code[k].offset for k in loop]
        return any(e.start <= o < e.end for e in self.exceptions for o in offsets)


@lru_cache(maxsize=256)
def _flow(code: Code) -> _Flow:
    return _Flow(code)


def _loads(i: Any) -> tuple[str, ...]:
    if i.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "DELETE_FAST", "STORE_FAST_LOAD_FAST")):
        return i.argval if isinstance(i.argval, tuple) else (i.argval,)
    return ()


def _stores(i: Any) -> tuple[str, ...]:
    if i.opname.startswith("STORE_FAST"):
        return i.argval if isinstance(i.argval, tuple) else (i.argval,)
    return ()


# ---- what instructions do --------------------------------------------------------------------------------------------


def _harmless(
    code: Sequence[Any], local: Callable[[str], Any], names: dict[str, Any], renewed: frozenset[str], depth: int = 8
) -> str:
    """Why one of these instructions may change more than local variables; "" if none does.  *renewed*: the local
    variables for which ``x += ...`` is known to change nothing that a Python list or array holds."""
    base: Any = _ANY
    for k, i in enumerate(code):
        name, value = i.opname, _ANY
        if name not in _QUIET and not name.startswith("POP_JUMP"):
            return f"the loop does more than compute ({name} in line {_line(code, k)})"
        if name == "LOAD_GLOBAL":
            value = names.get(i.argval, getattr(builtins, i.argval, _ANY))
        elif name in ("LOAD_FAST", "LOAD_DEREF", "LOAD_FAST_CHECK"):
            value = local(i.argval)
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            if base is not _ANY:
                value = _attribute(base, i.argval)
                if value is _UNKNOWN:
                    return f"`.{i.argval}` in line {_line(code, k)} is not a plain attribute"
            elif i.argval not in _METHODS and i.argval not in _DATA:
                return f"`.{i.argval}` in line {_line(code, k)} may change something"
        elif name == "KW_NAMES" and "out" in (i.argval if isinstance(i.argval, tuple) else ()):
            return f"`out=` in line {_line(code, k)}"
        elif name == "BINARY_OP" and i.argrepr.endswith("=") and not _renews(code, k, renewed):
            return f"`{i.argrepr}` in line {_line(code, k)} may change something"
        elif name == "GET_ITER" and not _fresh(code, k, local):
            return f"what the loop in line {_line(code, k)} goes over may change"
        if value is not _ANY:
            reason = _callable(value, depth)
            if not reason and _of_users(value) and code[min(k + 1, len(code) - 1)].opname not in _ATTRIBUTE:
                reason = "is an object of a class of yours"
            if reason:
                return f"`{i.argval}` in line {_line(code, k)} {reason}"
        base = value if name != "PUSH_NULL" else base
    return ""


def _callable(value: Any, depth: int) -> str:
    """Why a value that is called, or may be, is not known to be harmless."""
    if isinstance(value, types.ModuleType):
        return ""
    if isinstance(value, np.ufunc) or value is getattr(math, getattr(value, "__name__", ""), None):
        return ""
    if isinstance(value, types.FunctionType) and not (value.__module__ or "").startswith(_MODULES):
        return _helper(value, depth)
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, _FUNCTIONS) and module.startswith(_MODULES):
        return "writes into an array" if getattr(value, "__name__", "") in _WRITERS or "random" in module else ""
    if isinstance(value, (types.BuiltinFunctionType, type)):
        name = getattr(value, "__name__", "")
        known = name in _BUILTINS and getattr(builtins, name, None) is value
        return "" if known else "is not known to change nothing"
    if callable(value) and not isinstance(value, (np.ndarray, np.generic)):
        return "is an object that is called"
    if hasattr(value, "__next__"):
        return "is an iterator"
    return ""


def _helper(fn: types.FunctionType, depth: int) -> str:
    code = fn.__code__
    if not depth:
        return "calls itself, or helpers of helpers"
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return "is a generator"
    flow = _flow(code)
    if flow.exceptions:
        return "handles exceptions"
    cells = {}
    for name, cell in zip(code.co_freevars, fn.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            return "reads a variable that is not set"
    body = [i for i in flow.code if i.opname != "RETURN_VALUE" and i.opname != "RETURN_CONST"]
    for k, i in enumerate(body):
        if i.opname == "PUSH_NULL" and k + 1 < len(body) and body[k + 1].opname.startswith("LOAD_FAST"):
            return "calls one of its arguments"
    reason = _harmless(body, lambda name: cells.get(name, _ANY), fn.__globals__, frozenset(), depth - 1)
    return f"is a helper in which {reason}" if reason else ""


def _attribute(base: Any, name: str) -> Any:
    """What a module or an object has under *name*, if reading it runs no code."""
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
    """Is it an object whose operators and items may run code of the user's?"""
    if callable(value) or isinstance(value, (types.ModuleType, np.generic)):
        return False
    return type(value) not in (int, float, bool, str, bytes, tuple, list, dict, range, slice, np.ndarray, type(None))


def _renews(code: Sequence[Any], k: int, renewed: frozenset[str]) -> bool:
    """Is what ``x += ...`` at *k* changes kept in a local variable alone?"""
    names = _stores(code[k + 1]) if k + 1 < len(code) else ()
    return bool(names) and names[0] in renewed


def _fresh(code: Sequence[Any], k: int, local: Callable[[str], Any]) -> bool:
    """Does GET_ITER *k* make an iterator that nobody else has?  Of range(...) and its like, over plain variables."""
    j = k - 1
    if code[j].opname.startswith("LOAD_FAST") or code[j].opname == "LOAD_DEREF":
        return True  # no variable is an iterator: see prove
    if code[j].opname != "CALL":
        return False
    count, j = code[j].arg, j - 1
    while j >= 0 and code[j].opname in ("PRECALL", "CACHE", "EXTENDED_ARG"):
        j -= 1
    while count and j >= 0 and code[j].opname in ("LOAD_FAST", "LOAD_CONST", "LOAD_DEREF"):
        count, j = count - 1, j - 1
    return not count and j >= 0 and code[j].opname == "LOAD_GLOBAL" and code[j].argval in _ITERABLES


def _line(code: Sequence[Any], k: int) -> Any:
    while k >= 0:
        line = getattr(code[k], "line_number", None) or code[k].starts_line
        if line and line is not True:
            return line
        k -= 1
    return "?"


__all__ = ["Proof", "prove"]
