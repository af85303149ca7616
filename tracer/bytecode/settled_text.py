"""Where a text that a frame is making goes, and whether a mark may stand in it until the values are known.

The text of a traced value may be a mark, to be replaced in each call, only where nothing but the outside can depend on
it: where it goes into ``print``, or into a place that the function never reads (a status line, a history).  Bytecode
tells: ``ends_of`` follows the text from the instruction that makes it, through the making of longer texts and through
local variables, to all its ends.  Any other text is that of the value, with a guard on it.
"""

from __future__ import annotations

import dataclasses
import dis
import re
from collections.abc import Collection
from functools import lru_cache
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from ..ir.site import is_internal
from .concretize import UNKNOWN, Path, called_path, instructions_of, resolve
from .shown_names import CALLED_AS, is_shown, shown_builtins
from .stack_flow import StackFlow

PRINT, SINK, ATTRIBUTE, GLOBAL, OUTER, REPORT = "print", "sink", "attr", "global", "outer", "report"
CALLED, TEXT, RETURNED = "called", "text", "returned"
TEXT_METHODS = frozenset(("__str__", "__repr__", "__format__"))  # of a class
LOG_METHODS = frozenset(("debug", "info", "warning", "warn", "error", "critical", "fatal", "log"))
WRITES = frozenset(("write", "writelines", "writerow", "writerows"))  # methods of files, and of writers into files
_REPORTING = ("logging", "warnings", "_warnings")
REPORTERS: set[type] = set()  # classes of objects whose methods of these names keep texts until values are known
_GROWS = frozenset(("append", "extend", "update", "add"))
_MAKERS = frozenset((("global", "str"), ("global", "repr"), ("global", "format")))
_PRINT: Path = (("global", "print"),)
_PADS = re.compile(r"%(\([^)]*\))?([#0 +*.\d-]+[hlL]?[sra]|[hlL]?a)")  # the text of a value is padded, cut or changed
_CHANGES = re.compile(r"!|\{[^{}]*\{")  # the same in the fields of str.format: a conversion, a field in a field
_MAX_CALLS = 4  # of functions within functions through which a text is followed
_WITH_SPEC = 4  # of FORMAT_VALUE; beside it a conversion, in the lower two bits
_flow_of = lru_cache(maxsize=256)(StackFlow)


class End(NamedTuple):
    """A place where a text goes: *kind* PRINT, SINK (a container that *path* leads to), ATTRIBUTE *name* of the object
    that *path* leads to, GLOBAL or OUTER (a variable *name*), REPORT (a function that *path* leads to, or the method
    *name* of a logger there), PRINT with a *path* to its file, CALLED (a function that *path* leads to, as the argument
    *given*: its position or name), RETURNED (by a method that makes the text of an object), TEXT (joined to what *path*
    leads to, if that is a text)."""

    kind: str
    path: Path = ()
    name: str = ""
    given: int | str = 0


_PRINT_TO = End(PRINT, (("opaque", ""),))


def settled(frame: FrameType, places: Collection[tuple[Any, str]]) -> bool:
    """Whether the text that *frame* is making at its current instruction goes only to ``print``, as recorded code finds
    it, and into *places*.

    These are (id of an owner, name of an attribute), (id of a container, ""), (id of globals, name of a variable), (a
    code object, name of an outer variable)."""
    ends = ends_of(frame.f_code, frame.f_lasti)
    return ends is not None and all(_is_place(end, frame, places) for end in ends)


def printed(frame: FrameType) -> bool:
    """Whether the text goes to ``print`` alone."""
    ends = ends_of(frame.f_code, frame.f_lasti)
    return ends is not None and all(end.kind == PRINT for end in ends) and resolve(_PRINT, frame) is print


def template(frame: FrameType) -> str | None:
    """The constant text on the left of the `%` that *frame* is executing, if it is."""
    found = instructions_of(frame.f_code)
    index = found.index.get(frame.f_lasti)
    if index is None or found.all[index].opname != "BINARY_OP" or found.all[index].argrepr != "%":
        return None
    return _constant(found.loads_below(index, 1, 0))


def is_dropped(frame: FrameType) -> bool:
    """Whether *frame* makes no use of the result of the call that it is executing."""
    flow, at = _flow_of(frame.f_code), frame.f_lasti
    while at not in flow.offsets and at > 0:  # behind the caches of the call
        at -= 2
    return flow.opname(flow.offsets.get(at, -2) + 1) == "POP_TOP"


def _is_place(end: End, frame: Any, places: Collection[tuple[Any, str]], depth: int = 0) -> bool:
    if end.kind == PRINT:
        to_file = not end.path or type(resolve(end.path, frame, plain=True)) in REPORTERS
        return to_file and is_shown(frame) and resolve(_PRINT, frame) is print
    if end.kind == RETURNED:
        return depth == 0 and _returned(frame, places)
    if end.kind == CALLED:
        return depth < _MAX_CALLS and _goes_to_places(end.path, end.given, frame, places, depth + 1)
    if end.kind == GLOBAL:
        return (id(frame.f_globals), end.name) in places
    if end.kind == OUTER:
        return (frame.f_code, end.name) in places
    owner = resolve(end.path, frame, plain=True)
    if end.kind == TEXT:
        return type(owner) is str
    if end.kind == REPORT:
        if type(owner) in REPORTERS:
            return True
        if end.name and not isinstance(owner, ModuleType):
            return _is_place(End(CALLED, (*end.path, ("attr", end.name)), "", end.given), frame, places, depth)
        function = vars(owner).get(end.name) if isinstance(owner, ModuleType) else owner
        return is_shown(frame) and id(function) in CALLED_AS and function.__module__ in _REPORTING
    return owner is not UNKNOWN and (id(owner), end.name) in places


def _goes_to_places(path: Path, given: int | str, frame: Any, places: Collection[tuple[Any, str]], depth: int) -> bool:
    """Whether the text goes only into *places* from a parameter of a function of the user's."""
    function: Any = resolve(path, frame, plain=True)
    bound: tuple[Any, ...] = ()
    if function is UNKNOWN and len(path) > 1:
        owner, name = resolve(path[:-1], frame, plain=True), path[-1][1]
        if type(owner) in REPORTERS:
            return name in WRITES
        function = next((vars(base)[name] for base in type(owner).__mro__ if name in vars(base)), None)
        bound = (owner,)
    elif isinstance(function, MethodType):
        function, bound = function.__func__, (function.__self__,)
    if not isinstance(function, FunctionType) or given == -1:
        return False
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    place = len(bound) + given if isinstance(given, int) else 0
    name = given if isinstance(given, str) else names[place] if place < code.co_argcount else ""
    ends = _ends_of_parameter(code, name) if name in names else None
    if ends is None:
        return False
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    outer = {name: cell.cell_contents for name, cell in cells if cell != CellType()}
    space = function.__globals__
    known = SimpleNamespace(
        f_code=code, f_globals=space, f_locals=dict(zip(names, bound, strict=False)) | outer,
        f_builtins=shown_builtins(code, space),
    )  # fmt: skip
    return all(_is_place(one, known, places, depth) for one in ends)


def _returned(frame: FrameType, places: Collection[tuple[Any, str]]) -> bool:
    """Whether the text of an object, which *frame* makes, goes only to ``print`` and into *places*."""
    caller = frame.f_back
    while caller is not None and caller.f_code.co_filename == dataclasses.__file__:  # around a `__repr__` of theirs
        caller = caller.f_back
    if caller is None:
        return False
    own = is_internal(caller.f_code.co_filename)
    while own and caller is not None and caller.f_code.co_name != "_print":
        caller = caller.f_back if is_internal(caller.f_code.co_filename) else None
    return caller is not None and (own or settled(caller, places))


@lru_cache(maxsize=4096)
def _ends_of_parameter(code: CodeType, name: str) -> frozenset[End] | None:
    """The ends of a text that is given to a function; None where it may be used."""
    flow, ends = _flow_of(code), set[End]()
    uses = [k for k, one in enumerate(flow.code) if one.argval == name and one.opname.endswith("_FAST")]
    plain = name not in code.co_cellvars and all(flow.opname(k) == "LOAD_FAST" for k in uses)
    found = plain and all(_follow(code, k, ends, {name}, in_container=False) for k in uses)
    return frozenset(ends) if found else None


@lru_cache(maxsize=4096)
def ends_of(code: CodeType, at: int) -> frozenset[End] | None:
    """The ends of the text that the instruction at the offset *at* makes of a value; None where it may be used."""
    flow = _flow_of(code)
    index = flow.offsets.get(at)
    if index is None or index >= len(flow.code):
        return None
    ins = flow.code[index]
    path = called_path(code, at) if ins.opname == "CALL" else None
    if path == _PRINT:
        return frozenset((End(PRINT),)) if "file" not in flow.keywords.get(index, ()) else None
    if not _makes_all(code, ins, at, path):
        return None
    ends: set[End] = set()
    return frozenset(ends) if _follow(code, index, ends, set(), in_container=False) else None


def _makes_all(code: CodeType, ins: dis.Instruction, at: int, path: Path | None) -> bool:
    """Whether the instruction makes its result of texts as they are: none is padded or cut.  *path*: of its callee."""
    arg = ins.arg or 0
    if ins.opname == "FORMAT_VALUE":
        return not (arg & 3 and arg & _WITH_SPEC)
    if ins.opname == "BINARY_OP":
        left = _constant(instructions_of(code).loads_below(instructions_of(code).index[at], 1, 0))
        return ins.argrepr == "%" and left is not None and not _PADS.search(left)
    if path is not None and len(path) == 1:
        return path[0] in _MAKERS and arg in (1, 2)
    if path is not None and len(path) == 2 and path[1] == ("attr", "format"):
        text = _constant(path[:1])
        return text is not None and not _CHANGES.search(text)
    return ins.opname in ("FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")


def _constant(path: Path | None) -> str | None:
    """The constant text that *path* is."""
    found = path[0][1] if path is not None and len(path) == 1 and path[0][0] == "const" else None
    return found if isinstance(found, str) else None


def _follow(code: CodeType, index: int, ends: set[End], seen: set[str], *, in_container: bool) -> bool:
    """Whether what the instruction *index* leaves on the stack goes to *ends*, which are added, and nowhere else."""
    flow, found = _flow_of(code), instructions_of(code)
    while True:
        index, depth = flow.taken(index, 0)
        ins = flow.at(index)
        if ins is None:
            return False
        arg, at = ins.arg or 0, found.index[ins.offset]
        if ins.opname == "POP_TOP":
            return True
        if ins.opname == "RETURN_VALUE" and code.co_name in TEXT_METHODS and not in_container:
            ends.add(End(RETURNED))
            return True
        if ins.opname == "BUILD_STRING" or (ins.opname in ("FORMAT_VALUE", "FORMAT_SIMPLE") and arg <= 1):
            if in_container or depth >= max(1, arg):
                return False
        elif ins.opname == "BINARY_OP":
            if in_container or ins.argrepr not in ("+", "+="):
                return False
            if not _joins(code, index, at, depth):
                other = found.loads_below(at, 1 - depth, 0)
                if other is None:
                    return False
                ends.add(End(TEXT, other))
        elif ins.opname in ("BUILD_TUPLE", "BUILD_LIST") or _is_value(ins, depth):
            in_container = True
        elif ins.opname == "CALL":
            path = called_path(code, ins.offset)
            if path is not None and _constant(path[:1]) is not None and path[1:] == (("attr", "join"),) and arg == 1:
                if flow.opname(index - 1) not in ("BUILD_TUPLE", "BUILD_LIST"):
                    return False
                in_container = False
                continue
            end = _call_end(flow, index, arg, depth, path, in_container)
            if end == _PRINT_TO:
                names = flow.keywords[index]
                first = at - (found.all[at - 1].opname == "PRECALL")
                file = found.loads_below(first, len(names) - 1 - names.index("file"), 0)
                end = _PRINT_TO if file is None else End(PRINT, file)
            if end is not None:
                ends.add(end)
            return end is not None
        elif ins.opname == "STORE_FAST":
            if in_container or ins.argval in code.co_cellvars:
                return False
            if ins.argval in seen:
                return True
            seen.add(ins.argval)
            loads = [
                k for k, one in enumerate(flow.code) if one.opname.startswith("LOAD_FAST") and one.argval == ins.argval
            ]
            return all(
                flow.opname(k) == "LOAD_FAST" and _follow(code, k, ends, seen, in_container=False) for k in loads
            )
        else:
            end = _store_end(found.loads_below, ins, at, depth)
            if end is not None:
                ends.add(end)
            return end is not None


def _is_value(ins: dis.Instruction, depth: int) -> bool:
    """Whether the text becomes a value of a dict."""
    return (ins.opname == "BUILD_MAP" and depth % 2 == 0) or (ins.opname == "BUILD_CONST_KEY_MAP" and depth > 0)


def _call_end(flow: StackFlow, index: int, count: int, depth: int, path: Path | None, in_container: bool) -> End | None:
    """The end of an argument of a call."""
    keywords = flow.keywords.get(index, ())
    if path is None or depth >= count:
        return None
    if path == _PRINT:
        if in_container or depth < len(keywords):
            return None
        return _PRINT_TO if "file" in keywords else End(PRINT)
    after = flow.opname(index + 1)
    place = count - 1 - depth
    given = keywords[place - count] if place >= count - len(keywords) else place
    if path[-1][1] in LOG_METHODS and not in_container and depth >= len(keywords):
        return End(REPORT, path[:-1], path[-1][1], given) if len(path) > 1 else End(REPORT, path)
    if len(path) in (2, 3) and path[-1][0] == "attr" and path[-1][1] in _GROWS and count == 1 and not keywords:
        return End(SINK, path[:-1]) if after == "POP_TOP" else None
    if path[0][0] == "const" or (path[-1][1] in WRITES and after != "POP_TOP"):
        return None
    return None if in_container and path[-1][1] not in WRITES else End(CALLED, path, "", -1 if in_container else given)


def _store_end(loads_below: Any, ins: dis.Instruction, at: int, depth: int) -> End | None:
    """The end of a value that is stored."""
    if ins.opname == "STORE_ATTR" and depth == 1:
        path = loads_below(at, 0, 0)
        return None if path is None else End(ATTRIBUTE, path, ins.argval)
    if ins.opname == "STORE_SUBSCR" and depth == 2:
        path = loads_below(at, 1, 0)
        return None if path is None else End(SINK, path)
    if ins.opname == "STORE_GLOBAL":
        return End(GLOBAL, (), ins.argval)
    if ins.opname == "STORE_DEREF":
        return End(OUTER, (), ins.argval)
    return None


def _joins(code: CodeType, index: int, at: int, depth: int) -> bool:
    """Whether the other operand of an addition is a text as well."""
    flow, found = _flow_of(code), instructions_of(code)
    other = found.pushed_by(at, 1, 0) if depth == 0 else at - 1
    if other is None or other < 0:
        return False
    ins = found.all[other]
    if ins.opname == "LOAD_CONST":
        return isinstance(ins.argval, str)
    if ins.opname in ("BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"):
        return True
    if ins.opname == "CALL":
        path = called_path(code, ins.offset)
        return path is not None and len(path) == 1 and path[0] in _MAKERS
    return ins.opname == "BINARY_OP" and ins.argrepr == "+" and _joins(code, flow.offsets[ins.offset], other, 0)


__all__ = ["ends_of", "printed", "settled", "template"]
