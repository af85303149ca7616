"""Where a text that a frame is making goes, and whether a mark may stand in it until the values are known.

The text of a traced value may be a mark, to be replaced in each call, only where nothing but the outside can depend on
it: where it goes into ``print``, or into a place that the function never reads (a status line, a history).  Bytecode
tells: ``ends_of`` follows the text from the instruction that makes it, through the making of longer texts and through
local variables, to all its ends; where a frame returns it, it is followed in the frame that has called (``_returned``),
and where it is handed to a function, in that (``_goes_to_places``).  Any other text is that of the value, with a guard.
"""

from __future__ import annotations

import dataclasses
import dis
import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from ..ir.site import is_internal
from .concretize import UNKNOWN, Path, called_path, instructions_of, offset_of, resolve
from .shown_names import CALLED_AS, RECORDED_BUILTINS
from .stack_flow import StackFlow
from .versions import PYTHON

PRINT, SINK, ATTRIBUTE, GLOBAL, OUTER, REPORT = "print", "sink", "attr", "global", "outer", "report"
CALLED, TEXT, RETURNED, YIELDED = "called", "text", "returned", "yielded"
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
_PLAIN_FIELDS = re.compile(r"(?:[^{}]|\{\{|\}\}|\{\w*\})*")  # of str.format, which take texts as they are
_MAX_CALLS = 8  # calls and returns through which a text is followed
_GENERATOR = 0x20 | 0x80 | 0x200  # flags of code whose frames are left more than once
_COMPREHENSIONS = "<listcomp>", "<genexpr>"
ROW, DEEP = "row", "deep"  # what a text is in: a list or tuple, anything else
_WITH_SPEC = 4  # of FORMAT_VALUE; beside it a conversion, in the lower two bits
_flow_of = lru_cache(maxsize=256)(StackFlow)


class End(NamedTuple):
    """A place where a text goes: *kind* PRINT, SINK (a container that *path* leads to), ATTRIBUTE *name* of the object
    that *path* leads to, GLOBAL or OUTER (a variable *name*), REPORT (a function that *path* leads to, or the method
    *name* of a logger there), PRINT with a *path* to its file, CALLED (a function that *path* leads to, as the argument
    *given*: its position or name, by the call *at* an offset), RETURNED or YIELDED (by the frame), TEXT (joined to what
    *path* leads to, if that is a text).  *inside*: what the text is in there."""

    kind: str
    path: Path = ()
    name: str = ""
    given: int | str = 0
    at: int = 0
    inside: str = ""


_PRINT_TO = End(PRINT, (("opaque", ""),))


def settled(frame: FrameType, places: Collection[tuple[Any, str]]) -> bool:
    """Whether the text that *frame* is making at its current instruction goes only to ``print``, as recorded code finds
    it, and into *places*.

    These are (id of an owner, name of an attribute), (id of a container, ""), (id of globals, name of a variable), (a
    code object, name of an outer variable), (the code object whose result may hold texts, RETURNED)."""
    return _are_places(ends_of(frame.f_code, frame.f_lasti), frame, places, 0)


def printed(frame: FrameType) -> bool:
    """Whether the text goes to ``print`` alone."""
    ends = ends_of(frame.f_code, frame.f_lasti)
    return ends is not None and all(end.kind == PRINT for end in ends) and resolve(_PRINT, frame) is print


def template(frame: FrameType) -> str | None:
    """The constant text on the left of the `%` that *frame* is executing, if it is."""
    found = instructions_of(frame.f_code)
    index = found.index.get(frame.f_lasti)
    if index is None or PYTHON is None or found.all[index].opname != "BINARY_OP" or found.all[index].argrepr != "%":
        return None
    return _constant(found.loads_below(index, 1, 0))


def is_dropped(frame: FrameType) -> bool:
    """Whether *frame* makes no use of the result of the call that it is executing."""
    flow = _flow_of(frame.f_code)
    return PYTHON is not None and flow.opname(flow.offsets.get(offset_of(frame), -2) + 1) == "POP_TOP"


def _are_places(ends: Collection[End] | None, frame: Any, places: Collection[tuple[Any, str]], depth: int) -> bool:
    return ends is not None and all(_is_place(end, frame, places, depth) for end in ends)


def _is_place(end: End, frame: Any, places: Collection[tuple[Any, str]], depth: int) -> bool:
    """*depth*: calls and returns through which the text has come to *frame*."""
    if end.kind == PRINT:
        to_file = not end.path or type(_found(end.path, frame)) in REPORTERS
        return to_file and frame.f_builtins is RECORDED_BUILTINS and resolve(_PRINT, frame) is print
    if end.kind in (RETURNED, YIELDED):
        return depth < _MAX_CALLS and _returned(end, frame, places, depth + 1)
    if end.kind == CALLED:
        return depth < _MAX_CALLS and _goes_to_places(end, frame, places, depth + 1)
    if end.kind == GLOBAL:
        return (id(frame.f_globals), end.name) in places
    if end.kind == OUTER:
        return (frame.f_code, end.name) in places
    if end.kind == TEXT:
        return type(resolve(end.path, frame, plain=True)) is str
    owner = _found(end.path, frame)
    if end.kind == REPORT:
        if type(owner) in REPORTERS:
            return True
        if end.name and not isinstance(owner, ModuleType):
            path = (*end.path, ("attr", end.name))
            return _is_place(end._replace(kind=CALLED, path=path, name=""), frame, places, depth)
        function = vars(owner).get(end.name) if isinstance(owner, ModuleType) else owner
        return frame.f_builtins is RECORDED_BUILTINS and id(function) in CALLED_AS and function.__module__ in _REPORTING
    return owner is not UNKNOWN and (id(owner), end.name) in places


def _goes_to_places(end: End, frame: Any, places: Collection[tuple[Any, str]], depth: int) -> bool:
    """Whether the text goes only into *places* from a parameter of a function of the user's."""
    if len(end.path) > 1 and end.path[-1][1] in WRITES and type(_found(end.path[:-1], frame)) in REPORTERS:
        return True
    function, bound = _function_at(end.path, frame)
    if function is None:
        return False
    code, name = function.__code__, end.given
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if isinstance(name, int):
        name = names[name + len(bound)] if name + len(bound) < code.co_argcount else ""
    if name not in names or code.co_flags & _GENERATOR:
        return False
    found = instructions_of(frame.f_code)
    call = found.index[end.at]
    first = call - (found.all[call - 1].opname == "PRECALL")
    paths = [found.loads_below(first, above, 0) for above in reversed(range(found.all[call].arg or 0))]
    values = [*bound, *[UNKNOWN if path is None else _found(path, frame) for path in paths]]
    flow = _flow_of(frame.f_code)
    keywords = flow.keywords.get(flow.offsets[end.at], ())
    by_position = [*code.co_varnames[: min(len(values) - len(keywords), code.co_argcount)]]
    outer = zip(code.co_freevars, function.__closure__ or (), strict=True)
    known = dict(
        zip(
            [*by_position, *keywords],
            [*values[: len(by_position)], *values[len(values) - len(keywords) :]],
            strict=True,
        )
    )
    known |= {name: cell.cell_contents for name, cell in outer if cell != CellType()}
    space = function.__globals__
    callee = SimpleNamespace(
        f_code=code, f_globals=space, f_back=frame, at=end.at, f_builtins=RECORDED_BUILTINS,
        f_locals={name: x for name, x in known.items() if x is not UNKNOWN and name not in _stored(code)},
    )  # fmt: skip
    return _are_places(_ends_of_parameter(code, name, end.inside), callee, places, depth)


def _found(path: Path, frame: Any) -> Any:
    """The object that *path* leads to in *frame*, whenever it gets there; or UNKNOWN."""
    (kind, name), code = path[0], frame.f_code
    if kind == "name" and name in (*code.co_varnames, *code.co_freevars, *code.co_cellvars):
        is_parameter = name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if name not in frame.f_locals or is_parameter + _stored(code)[name] > 1:
            return UNKNOWN
    return resolve(path, frame, plain=True)


def _function_at(path: Path | None, frame: Any) -> tuple[FunctionType | None, tuple[Any, ...]]:
    """(the function of the user's that *path* leads to, what it is bound to)."""
    if path is None:
        return None, ()
    found: Any = _found(path, frame)
    bound: tuple[Any, ...] = ()
    if found is UNKNOWN and len(path) > 1:
        owner, name = _found(path[:-1], frame), path[-1][1]
        if owner is UNKNOWN or type(owner).__getattribute__ is not object.__getattribute__:
            return None, ()
        found = next((vars(base)[name] for base in type(owner).__mro__ if name in vars(base)), UNKNOWN)
        bound = (owner,)
    elif isinstance(found, MethodType):
        found, bound = found.__func__, (found.__self__,)
    return (found, bound) if type(found) is FunctionType else (None, ())


def _returned(end: End, frame: Any, places: Collection[tuple[Any, str]], depth: int) -> bool:
    """Whether a text that *frame* gives goes only to ``print`` and into *places*."""
    code, caller = frame.f_code, frame.f_back
    if isinstance(frame, SimpleNamespace):
        return _are_places(_ends_after(caller.f_code, frame.at, end.inside), caller, places, depth)
    if code.co_name in TEXT_METHODS and end == End(RETURNED) and not _calls(caller, code):
        return _shown_as_text(caller, places, depth)
    if (code, RETURNED) in places and is_internal(caller.f_code.co_filename):
        return end.kind == RETURNED and not _runs_above(code, caller)
    if is_internal(caller.f_code.co_filename):
        return False
    at = offset_of(caller)
    if code.co_name in _COMPREHENSIONS:
        inside = "" if end.kind == YIELDED else end.inside
        gives = _runs_nested(caller.f_code, at, code, end.kind == YIELDED)
        return gives and _are_places(_ends_after(caller.f_code, at, inside), caller, places, depth)
    calls = end.kind == RETURNED and _calls(caller, code)
    return calls and _are_places(_ends_after(caller.f_code, at, end.inside), caller, places, depth)


def _calls(frame: FrameType, code: CodeType) -> bool:
    """Whether *frame* calls a function of this code, by an expression that leads to it, at its current instruction."""
    if is_internal(frame.f_code.co_filename) or frame.f_code.co_filename == dataclasses.__file__:
        return False
    function, _ = _function_at(called_path(frame.f_code, offset_of(frame)), frame)
    return function is not None and function.__code__ is code


def _shown_as_text(caller: FrameType | None, places: Collection[tuple[Any, str]], depth: int) -> bool:
    """Whether the text of an object, which *caller* asks for, goes only to ``print`` and into *places*."""
    while caller is not None and caller.f_code.co_filename == dataclasses.__file__:  # around a `__repr__` of theirs
        caller = caller.f_back
    if caller is None:
        return False
    own = is_internal(caller.f_code.co_filename)
    while own and caller is not None and caller.f_code.co_name != "_print":
        caller = caller.f_back if is_internal(caller.f_code.co_filename) else None
    return caller is not None and (own or _are_places(ends_of(caller.f_code, offset_of(caller)), caller, places, depth))


def _runs_above(code: CodeType, frame: FrameType | None) -> bool:
    """Whether *frame* or one that has called it runs *code*: what is below is not the result of the run."""
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _runs_nested(caller: CodeType, at: int, code: CodeType, joins: bool) -> bool:
    """Whether the call at the offset *at* runs the comprehension *code*, which stands there, or *joins* what it
    yields."""
    flow = _flow_of(caller)
    index = flow.offsets.get(at, 0)
    if joins:
        ins = flow.at(index)
        if ins is None or ins.opname != "CALL" or ins.arg != 1 or not _joins_row(called_path(caller, at)):
            return False
        index -= 1
    return code in caller.co_consts and (flow.opname(index), flow.opname(index - 1)) == ("CALL", "GET_ITER")


def _joins_row(path: Path | None) -> bool:
    """Whether *path* is the method `join` of a constant text."""
    return path is not None and _constant(path[:1]) is not None and path[1:] == (("attr", "join"),)


@lru_cache(maxsize=4096)
def _ends_after(code: CodeType, at: int, inside: str) -> frozenset[End] | None:
    """The ends of what the call at the offset *at* gives: a text, or what one is *inside*."""
    ends: set[End] = set()
    index = _flow_of(code).offsets.get(at)
    return frozenset(ends) if index is not None and _follow(code, index, ends, set(), inside) else None


@lru_cache(maxsize=4096)
def _ends_of_parameter(code: CodeType, name: str, inside: str) -> frozenset[End] | None:
    """The ends of a text that is given to a function; None where it may be used."""
    ends: set[End] = set()
    return frozenset(ends) if _follow_local(code, name, ends, set(), inside) else None


@lru_cache(maxsize=4096)
def _stored(code: CodeType) -> Counter[str]:
    """The names of local and outer variables that *code* stores, and how often."""
    return Counter(i.argval for i in _flow_of(code).code if i.opname in ("STORE_FAST", "DELETE_FAST", "STORE_DEREF"))


@lru_cache(maxsize=4096)
def ends_of(code: CodeType, at: int) -> frozenset[End] | None:
    """The ends of the text that the instruction at the offset *at* makes of a value; None where it may be used."""
    flow = _flow_of(code)
    index = flow.offsets.get(at)
    if index is None or index >= len(flow.code) or PYTHON is None:
        return None
    ins = flow.code[index]
    path = called_path(code, at) if ins.opname == "CALL" else None
    if path == _PRINT:
        return frozenset((End(PRINT),)) if "file" not in flow.keywords.get(index, ()) else None
    if not _makes_all(code, ins, at, path):
        return None
    ends: set[End] = set()
    return frozenset(ends) if _follow(code, index, ends, set()) else None


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


def _follow(code: CodeType, index: int, ends: set[End], seen: set[tuple[str, str]], inside: str = "") -> bool:
    """Whether what the instruction *index* leaves on the stack goes to *ends*, which are added, and nowhere else.
    *inside*: what the text is in there."""
    flow, found = _flow_of(code), instructions_of(code)
    while True:
        made = index
        index, depth = flow.taken(index, 0)
        ins = flow.at(index)
        if ins is None:
            return False
        arg, at = ins.arg or 0, found.index[ins.offset]
        path = called_path(code, ins.offset) if ins.opname == "CALL" else None
        if ins.opname == "POP_TOP":
            return True
        is_text = ins.opname in ("FORMAT_VALUE", "FORMAT_SIMPLE", "CONVERT_VALUE") and arg <= 1  # or str() of it
        if ins.opname == "BUILD_STRING" or is_text:
            if inside or depth >= max(1, arg):
                return False
        elif ins.opname == "BINARY_OP" and ins.argrepr == "%":
            left = _constant(found.loads_below(at, 1, 0)) if depth == 0 else None
            if left is None or _PADS.search(left) or (inside and flow.opname(made) != "BUILD_TUPLE") or inside == DEEP:
                return False
            inside = ""
        elif ins.opname == "BINARY_OP":
            if inside == DEEP or ins.argrepr not in ("+", "+="):
                return False
            if inside and not _grows_row(code, at, depth):
                return False
            if not inside and not _joins(code, index, at, depth):
                other = found.loads_below(at, 1 - depth, 0)
                if other is None:
                    return False
                ends.add(End(TEXT, other))
        elif ins.opname in ("BUILD_TUPLE", "BUILD_LIST") or _is_value(ins, depth):
            inside = DEEP if inside or ins.opname.endswith("MAP") else ROW
        elif ins.opname == "LIST_APPEND" and code.co_name == "<listcomp>":
            ends.add(End(RETURNED, inside=DEEP if inside else ROW))
            return True
        elif ins.opname in ("RETURN_VALUE", "YIELD_VALUE"):
            yields = ins.opname == "YIELD_VALUE"
            ends.add(End(YIELDED if yields else RETURNED, inside=inside))
            return not inside if yields else not code.co_flags & _GENERATOR
        elif path is not None and len(path) == 2 and (text := _constant(path[:1])) is not None and depth < arg:
            formats = path[1][1] == "format" and not inside and _PLAIN_FIELDS.fullmatch(text)
            if not formats and not (inside == ROW and arg == 1 and _joins_row(path)):
                return False
            inside = ""
        elif ins.opname == "CALL":
            end = _call_end(flow, index, arg, depth, path, inside)
            if end == _PRINT_TO:
                names = flow.keywords[index]
                first = at - (found.all[at - 1].opname == "PRECALL")
                file = found.loads_below(first, len(names) - 1 - names.index("file"), 0)
                end = _PRINT_TO if file is None else End(PRINT, file)
            if end is not None:
                ends.add(end)
            return end is not None
        elif ins.opname == "STORE_FAST":
            return inside != DEEP and _follow_local(code, ins.argval, ends, seen, inside)
        elif inside == ROW and ins.opname in ("LOAD_METHOD", "LOAD_ATTR") and depth == 0:
            index, depth = flow.taken(index, 0)
            grows = ins.argval in _GROWS and flow.opname(index) == "CALL" and flow.opname(index + 1) == "POP_TOP"
            return grows and called_path(code, flow.code[index].offset) is not None
        else:
            end = _store_end(found.loads_below, ins, at, depth)
            if end is not None:
                ends.add(end)
            return end is not None


def _follow_local(code: CodeType, name: str, ends: set[End], seen: set[tuple[str, str]], inside: str) -> bool:
    """The same of what the local variable *name* holds."""
    if name in code.co_cellvars:
        return False
    if (name, inside) in seen:
        return True
    seen.add((name, inside))
    flow = _flow_of(code)
    loads = [k for k, one in enumerate(flow.code) if one.opname.startswith("LOAD_FAST") and one.argval == name]
    return all(flow.opname(k) == "LOAD_FAST" and _follow(code, k, ends, seen, inside) for k in loads)


def _grows_row(code: CodeType, at: int, depth: int) -> bool:
    """Whether the other operand of an addition is a list that the code has made as well."""
    flow, found = _flow_of(code), instructions_of(code)
    other = found.pushed_by(at, 1, 0) if depth == 0 else at - 1
    if other is None or other < 0:
        return False
    ins = found.all[other]
    if not ins.opname.startswith("LOAD_FAST"):
        return _makes_row(flow, flow.offsets[ins.offset])
    stores = [k for k, one in enumerate(flow.code) if one.opname == "STORE_FAST" and one.argval == ins.argval]
    is_parameter = ins.argval in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return not is_parameter and all(_makes_row(flow, k - 1) for k in stores)


def _makes_row(flow: StackFlow, index: int) -> bool:
    """Whether the instruction *index* leaves a list: a new one, or one with more."""
    ins = flow.at(index)
    comprehends = (flow.opname(index), flow.opname(index - 1)) == ("CALL", "GET_ITER")
    return ins is not None and (comprehends or ins.opname in ("BUILD_LIST", "LIST_EXTEND") or ins.argrepr == "+=")


def _is_value(ins: dis.Instruction, depth: int) -> bool:
    """Whether the text becomes a value of a dict."""
    return (ins.opname == "BUILD_MAP" and depth % 2 == 0) or (ins.opname == "BUILD_CONST_KEY_MAP" and depth > 0)


def _call_end(flow: StackFlow, index: int, count: int, depth: int, path: Path | None, inside: str) -> End | None:
    """The end of an argument of a call."""
    keywords = flow.keywords.get(index, ())
    if path is None or depth >= count:
        return None
    if path == _PRINT:
        if inside or depth < len(keywords):
            return None
        return _PRINT_TO if "file" in keywords else End(PRINT)
    after, at = flow.opname(index + 1), flow.code[index].offset
    place = count - 1 - depth
    given = keywords[place - count] if place >= count - len(keywords) else place
    if path[-1][1] in LOG_METHODS and not inside and depth >= len(keywords):
        return End(REPORT, path[:-1], path[-1][1], given, at) if len(path) > 1 else End(REPORT, path)
    if len(path) in (2, 3) and path[-1][0] == "attr" and path[-1][1] in _GROWS and count == 1 and not keywords:
        return End(SINK, path[:-1]) if after == "POP_TOP" else None
    if path[0][0] == "const" or (path[-1][1] in WRITES and after != "POP_TOP"):
        return None
    return End(CALLED, path, "", given, at, inside)


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


__all__ = ["RETURNED", "ends_of", "printed", "settled", "template"]
