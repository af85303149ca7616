"""Conversions of traced arrays to plain values, allowed or refused by their caller.

``int(t)`` becomes a guard, and ``float(t)`` is a traced number (``shown_names.py``).  ``math.frexp(t)`` and
``captured[0] = t`` call ``__float__`` from C code, and would go on with a number that has lost its gradient: they are
refused, unless the value has none.  For the message, the instruction that the innermost Python frame is executing is
looked at: its opcode, and for a call the callable, found by walking back over the instructions that pushed it."""

from __future__ import annotations

import builtins
import dis
import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..convert.transparent import OWN
from ..ir.errors import UnsupportedError
from ..ir.site import OWN_FOLDER, Site, is_internal, is_own
from .instructions import NULL_ABOVE, plain_instructions
from .versions import PYTHON

# Callables that convert to a number openly.  np.arange is one: it refuses float arguments before it comes to ask.
HARMLESS = (int, bool, round, np.arange)
UNKNOWN = object()


class Request(NamedTuple):
    """The operation of a frame: its ``opcode``; for calls the ``callee`` (UNKNOWN where it cannot be found) and the
    name it was called by."""

    opcode: str
    callee: Any
    name: str | None
    frame: FrameType


Path = tuple[tuple[str, Any], ...]  # how an object was loaded: ("global", "np"), ("attr", "sin")


class Called(NamedTuple):
    """The callee of a call: an object, ``through`` attributes of these names.  ``takes_list``: of the code's own."""

    through: tuple[str, ...]
    takes_list: bool


class _Instructions:
    """The instructions of a code object with the height of the stack before each."""

    def __init__(self, code: CodeType):
        self.all = list(plain_instructions(code))
        self.index = {i.offset: k for k, i in enumerate(self.all)}
        self.before: dict[int, int] = {}
        self.jumps: list[tuple[int, int]] = []
        todo = [(0, 0)]
        for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
            todo.append((self.index[entry.target], entry.depth + entry.lasti + 1))
        while todo:
            k, height = todo.pop()
            while k < len(self.all) and k not in self.before:
                self.before[k] = height
                instruction = self.all[k]
                if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
                    target = self.index[instruction.argval]
                    self.jumps.append((k, target))
                    todo.append((target, height + self.effect(k, jump=True)))
                height += self.effect(k, jump=False)
                if instruction.opname in _NO_FALL_THROUGH:
                    break
                k += 1

    def at(self, lasti: int) -> int:
        """The instruction that a frame is in, whose ``f_lasti`` may be that of a cache of it."""
        known = self.index.get(lasti)
        return bisect_right(self.all, lasti, key=lambda i: i.offset) - 1 if known is None else known

    def effect(self, k: int, *, jump: bool) -> int:
        instruction = self.all[k]
        return dis.stack_effect(
            instruction.opcode, instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None, jump=jump
        )

    def loads_below(self, end: int, above: int, null: int) -> Path | None:
        """The loads of the stack entry *above* entries under the top before instruction *end* (*null* of them a NULL or
        self); None if unknown."""
        k = self.pushed_by(end, above, null)
        return None if k is None else self._chain(k)

    def called(self) -> dict[int, Called]:
        """The call to which each LOAD_GLOBAL leads, by its offset."""
        found: dict[int, Called] = {}
        stores = [k for k in range(1, len(self.all)) if self.all[k].opname.startswith("STORE_")]
        lists = {self.all[k].argval for k in stores if self._makes_list(k - 1)}
        for at, instruction in enumerate(self.all):
            arg = instruction.arg or 0
            if instruction.opname == "CALL_FUNCTION_EX":
                above = 1 + (arg & 1)
            elif instruction.opname == "CALL":
                above = arg
                at -= self.all[at - 1].opname == "PRECALL"
            else:
                continue
            k, names = self.pushed_by(at, above + NULL_ABOVE, NULL_ABOVE), []
            while k is not None and k >= 0 and self.all[k].opname in ("LOAD_ATTR", "LOAD_METHOD", "PUSH_NULL"):
                if self.all[k].opname != "PUSH_NULL":
                    names.append(self.all[k].argval)
                k -= 1
            if k is not None and k >= 0 and self.all[k].opname == "LOAD_GLOBAL":
                given = [self.pushed_by(at, j, 0) for j in range(arg if instruction.opname == "CALL" else 0)]
                takes = any(self._makes_list(j) or self.all[j].argval in lists for j in given if j is not None)
                found[self.all[k].offset] = Called(tuple(reversed(names)), takes)
        return found

    def _makes_list(self, k: int) -> bool:
        """Whether instruction *k* leaves a list or tuple that the code makes, by a comprehension perhaps."""
        if self.all[k].opname != "CALL":
            return self.all[k].opname in _LISTS
        return self.all[k - 1 - (self.all[k - 1].opname == "PRECALL")].opname == "GET_ITER"

    def pushed_by(self, end: int, above: int, null: int) -> int | None:
        """The instruction that pushed that stack entry; None if unknown."""
        if end not in self.before:
            return None
        level = self.before[end] - above
        for k in range(end - 1, -1, -1):
            if k not in self.before or self.all[k].opname == "KW_NAMES":
                continue
            if self.all[k].opname.startswith(_ONLY_POP):
                continue
            if self.before[k] + self.effect(k, jump=False) <= level + null and self.all[k].opname != "PUSH_NULL":
                another_way = any(source < k < target <= end for source, target in self.jumps)  # (f if test else g)(x)
                return None if another_way else k
        return None

    def _chain(self, k: int) -> Path:
        chain: list[tuple[str, Any]] = []
        while k >= 0:
            name, value = self.all[k].opname, self.all[k].argval
            if name in ("LOAD_ATTR", "LOAD_METHOD"):
                chain.append(("attr", value))
            elif name == "LOAD_CONST":
                return (("const", value), *reversed(chain))
            elif name == "LOAD_GLOBAL":
                return (("global", value), *reversed(chain))
            elif name == "LOAD_NAME" or name.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")):
                return (("name", value), *reversed(chain))
            elif name != "PUSH_NULL":
                break
            k -= 1
        return (("opaque", None), *reversed(chain))


_NO_FALL_THROUGH = frozenset(
    "RETURN_VALUE RAISE_VARARGS RERAISE JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_ABSOLUTE".split()
)
_LISTS = frozenset(("BUILD_LIST", "BUILD_TUPLE", "LIST_EXTEND", "LIST_APPEND"))
_ONLY_POP = ("POP_", "STORE_", "DELETE_", "JUMP_", "END_FOR", "NOP")
instructions_of = lru_cache(maxsize=256)(_Instructions)


@lru_cache(maxsize=4096)
def _instruction_path(code: CodeType, lasti: int) -> tuple[str, Path | None]:
    """Opcode at *lasti*, and the loads of the callable (or of the left operand of an operator)."""
    if PYTHON is None:
        return "", None
    found = instructions_of(code)
    at = found.at(lasti)
    if at < 0:
        return "", None
    here = found.all[at]
    if here.opname == "BINARY_OP":
        return f"BINARY_OP {here.argrepr}", found.loads_below(at, 1, 0)
    if here.opname in ("CALL", "PRECALL"):
        if here.opname == "CALL" and found.all[at - 1].opname == "PRECALL":
            at -= 1
        return "CALL", found.loads_below(at, (here.arg or 0) + NULL_ABOVE, NULL_ABOVE)
    return here.opname, None


def called_path(code: CodeType, at: int) -> Path | None:
    """The loads of the callable that the call at the offset *at* calls; None where that can't be told."""
    return _instruction_path(code, at)[1]


@lru_cache(maxsize=4096)
def ranges_over(code: CodeType) -> dict[str, Site]:
    """The local variables that *code* hands to ``range`` as they are, whose values it is sure to ask for."""
    found: dict[str, Site] = {}
    if "range" not in code.co_names:
        return found
    instructions = instructions_of(code)
    for at, instruction in enumerate(instructions.all):
        positions = instruction.positions
        if instruction.opname != "CALL" or _instruction_path(code, instruction.offset)[1] != (("global", "range"),):
            continue
        at -= instructions.all[at - 1].opname == "PRECALL"
        for above in range(instruction.arg or 0):
            loaded = instructions.loads_below(at, above, 0)
            if loaded is not None and len(loaded) == 1 and loaded[0][0] == "name":
                line = None if positions is None else positions.lineno
                found[loaded[0][1]] = Site(code.co_filename, line or code.co_firstlineno, code.co_name)
    return found


def resolve(path: Path, frame: FrameType, *, plain: bool = False) -> Any:
    """The object that *path* leads to in *frame*, or UNKNOWN.  *plain*: by what instances hold in their ``__dict__``
    too."""
    (kind, name), *attributes = path
    if kind == "opaque":
        return UNKNOWN
    if kind == "const":
        return name
    spaces: tuple[Any, ...] = (frame.f_globals, vars(builtins))
    found = _found(name, spaces if kind == "global" else (frame.f_locals, *spaces))
    return found_by(attributes, found, plain=plain)


def found_by(attributes: Sequence[tuple[str, Any]], found: Any, *, plain: bool) -> Any:
    """The object that the *attributes* lead to, or UNKNOWN; *plain*: as for ``resolve``."""
    for _, attribute in attributes:
        if isinstance(found, (ModuleType, type)) or _draws(found):
            found = getattr(found, attribute, UNKNOWN)
        elif plain and attribute == "__class__" and found is not UNKNOWN:
            found = type(found)
        else:
            held = _held(found) if plain and found is not UNKNOWN else {}
            found = held.get(attribute, UNKNOWN)
    return found


def _held(obj: Any) -> dict[str, Any]:
    try:
        found = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _found(name: Any, spaces: tuple[Any, ...]) -> Any:
    for space in spaces:  # an overlay of globals finds what it does not contain
        try:
            return space[name]
        except KeyError:
            continue
    return UNKNOWN


def _draws(obj: Any) -> bool:
    """Whether *obj* is one of NumPy's random generators."""
    return type(obj).__module__.startswith("numpy.random")


def request(depth: int) -> Request:
    """The request of the Python frame *depth* levels up."""
    frame = sys._getframe(depth + 1)
    opcode, path = _instruction_path(frame.f_code, frame.f_lasti)
    if opcode == "CALL" and (callee := called_by_copy(frame)) is not UNKNOWN:
        return Request(opcode, callee, getattr(callee, "__name__", None), frame)
    if path is None:
        return Request(opcode, UNKNOWN, None, frame)
    return Request(opcode, resolve(path, frame), path[-1][1] if path[-1][0] != "const" else None, frame)


def called_by_copy(frame: FrameType) -> Any:
    """The function that *frame* of a copy (``tracer/convert``) calls, as its code does not tell; UNKNOWN of others."""
    of = frame.f_locals.get(OWN) if OWN in frame.f_code.co_freevars else None
    return UNKNOWN if of is None else getattr(of.run, "called", UNKNOWN)


def called_by_name(method: str) -> bool:
    """Whether the caller's caller calls the *method* itself: ``t.__float__()``."""
    asked = request(2)
    by_python = not asked.opcode  # before 3.13 a frame that has called Python code stands behind the instruction
    own = is_own(asked.frame.f_code.co_filename) or PYTHON is None
    return not own and (by_python or asked.name == method)


def check_number_allowed(has_gradient: Callable[[], bool]) -> None:
    """Check of ``__float__``: raise where C code asks for the number and would go on without its gradient."""
    asked = request(2)
    filename = asked.frame.f_code.co_filename
    if is_own(filename) and filename.startswith(OWN_FOLDER):
        return
    if not is_own(filename):
        if asked.opcode == "CALL" and any(asked.callee is harmless for harmless in HARMLESS):
            return
        if asked.opcode == "BINARY_OP %" and isinstance(asked.callee, (str, bytes)):
            return
    if has_gradient():
        raise UnsupportedError.here(_float_message(asked))


TAKERS = frozenset(("dot", "take", "choose", "clip", "repeat", "searchsorted"))  # methods that may be given traced ones
_OPERATORS = ("STORE_", "BINARY_SUBSCR", "BINARY_OP [")
_WRITERS = frozenset(("fill", "put", "itemset", "__setitem__"))
ASSIGN_HINT = (
    "a traced value cannot be written into a plain NumPy array, which could not carry its gradient; "
    "make the array in the function, by np.zeros(n) or np.zeros_like(x), and assign into that"
)


_NUMPY_NAMES = {
    "pow": "power",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "fabs": "abs",
    "fsum": "sum",
    "gamma": "scipy.special.gamma",
    "lgamma": "scipy.special.gammaln",
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
}


def lost_by(name: str) -> str:
    """The message for a function that takes plain numbers."""
    return (
        f"{name} would turn a traced value into a plain number and lose its gradient; use the NumPy function on the "
        "traced value, or tracegrad.stop_gradient(t) where a number without a gradient is meant"
    )


def lost_by_math(name: str) -> str:
    """The message for a function of ``math``."""
    twin = _NUMPY_NAMES.get(name, name)
    if name == "remainder" or ("." not in twin and not hasattr(np, twin)):  # NumPy's remainder is another one
        return lost_by(f"math.{name}")
    twin = twin if "." in twin else f"np.{twin}"
    return f"math.{name} would turn a traced value into a plain number and lose its gradient; use {twin}"


def _float_message(asked: Request) -> str:
    if asked.opcode in ("STORE_SUBSCR", "STORE_SLICE"):
        return ASSIGN_HINT
    callee = asked.callee
    name = getattr(callee, "__name__", None)
    if asked.opcode == "CALL" and callee is not UNKNOWN and name:
        return lost_by_math(name) if getattr(math, name, None) is callee else lost_by(name)
    return (
        "code outside NumPy asked for the plain number behind a traced value, which would lose its gradient; use NumPy "
        "functions on it, "
        "or tracegrad.stop_gradient(t) where a number without a gradient is meant"
    )


_DRAW_HINT = (
    "{} of np.random draws with parameters that are traced here, so their gradients would be lost: draw standard "
    "numbers and write loc + scale * np.random.standard_normal(size), or use tracegrad.random, which takes such "
    "parameters"
)
_FOREIGN_HINT = (
    "{} needs plain NumPy arrays and was given a traced one, whose gradient it would lose: write what it does with "
    "functions of NumPy, scipy.linalg, scipy.special and the like (docs/coverage.md has them), or give its derivative "
    "(tracegrad.pure_callback within a tracegrad.custom_vjp); a list of traced numbers becomes an array by np.stack"
)
_ARRAY_HINTS = {
    "array": "a list that holds traced arrays cannot go through np.array: write np.stack([...]) or "
    "tracegrad.array([...]); for one traced array write t.copy()",
    "asarray": "np.asarray cannot convert a traced array: leave the call out, or write np.stack([...]) or "
    "tracegrad.asarray(...)",
    "asanyarray": "np.asanyarray cannot convert a traced array: leave the call out, or write tracegrad.asarray(...)",
    "ascontiguousarray": "np.ascontiguousarray cannot convert a traced array: leave the call out",
    "int64": "np.int64 cannot convert a traced value: write int(t), or t.astype(np.int64)",
    "asfarray": "leave the call out, or write t.astype(float)",
    "full": "np.full cannot hold a traced value: write tracegrad.full(shape, value), or value * np.ones(shape)",
    "arange": "np.arange of a traced value has a size that depends on data: write np.arange(n) * step + start with a "
    "plain n",
    "where": "np.where with a list of traced arrays: write np.stack([...]) around the list",
    "dot": "plain.dot(traced) cannot be traced: write np.dot(a, b) or a @ b",
    "choose": "plain.choose([traced, ...]) cannot be traced: write np.choose(index, [...])",
    "take": "plain.take(traced) cannot be traced: write np.take(a, indices)",
}


def array_refusal() -> UnsupportedError:
    """The error for ``__array__``: some code needs a plain array."""
    asked = request(2)
    if asked.opcode in ("STORE_SUBSCR", "STORE_SLICE"):
        return UnsupportedError.here(ASSIGN_HINT)
    if (
        asked.opcode in ("BINARY_SUBSCR", "BINARY_SLICE")
        or asked.opcode.startswith("BINARY_OP [")
        or asked.opcode == "BINARY_OP []"
    ):
        return UnsupportedError.here(
            "a plain NumPy array was indexed with a traced array: write np.take(a, index, axis=0), or make the "
            "indexed array an argument"
        )
    name, frame, outermost = asked.name if asked.opcode == "CALL" else None, asked.frame, None
    if _draws(getattr(asked.callee, "__self__", None)):
        return UnsupportedError.here(_DRAW_HINT.format(name))
    while is_internal(frame.f_code.co_filename) and frame.f_back is not None:  # the NumPy function that the user called
        name, outermost = frame.f_code.co_name, frame
        frame = frame.f_back
    path = called_path(frame.f_code, frame.f_lasti)
    called = path[-1][1] if path is not None and path[-1][0] in ("attr", "global") else name
    if (callee := called_by_copy(frame)) is not UNKNOWN:
        path, called = None, getattr(callee, "__name__", None)
    if called in _ARRAY_HINTS:
        return UnsupportedError.here(_ARRAY_HINTS[called])
    shown = _public_name(callee if path is None else resolve(path, frame))
    if shown is None and outermost is not None and not outermost.f_code.co_filename.startswith(OWN_FOLDER):
        shown = _public(outermost.f_globals.get("__name__", ""), outermost.f_code.co_qualname)
    known = shown or called
    hint = _FOREIGN_HINT.format(known or "code outside NumPy and SciPy")
    return UnsupportedError.here(hint if known else f"{hint}; arrays to assign into by np.zeros_like(x)")


def _public_name(function: Any) -> str | None:
    """The name by which users know a *function* of a library; None for another one."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if function is UNKNOWN or not isinstance(module, str) or not isinstance(name, str) or module.startswith("__"):
        return None
    return None if module.startswith("tracegrad") else _public(module, name)


def _public(module: str, name: str) -> str:
    """The name of a thing in a *module*, whose private parts are those of a public one."""
    return ".".join([*[part for part in module.split(".") if not part.startswith("_")], name])
