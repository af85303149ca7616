"""Static scan of a code object's bytecode, and of the functions nested in it, for what it can read.

One data structure, ``CodeFacts``; start reading at ``scan``. Nothing is run and no value is looked at: the scan says
which global names and closure cells the code loads, through which attribute chains (``np.random.rand``), which
attribute names occur anywhere, and which instructions write outside state or look names up while running. The
values behind the names are the business of ``state_graph.py``.
"""

from __future__ import annotations

import dis
import functools
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType

from ...tracer.bytecode.control_flow import flow_of
from ...tracer.bytecode.instructions import plain_instructions, pushes_null
from ...tracer.bytecode.versions import PYTHON
from .libraries import DATES, is_date_type, is_moment
from .readers import fields
from .uses import Place, Uses, uses

# Start of a chain of attributes: ("global", name), ("deref", name), ("import", module), ("local", "").
Root = tuple[str, str]

_GLOBAL_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_DEREF_LOADS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_BESIDE_NULL = _GLOBAL_LOADS | _DEREF_LOADS | {"LOAD_ATTR", "LOAD_FAST"}  # in front of or behind a PUSH_NULL
_ATTR_LOADS = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_ATTR"}
_ATTR_WRITES = {"STORE_ATTR", "DELETE_ATTR"}
_RAISE = dis.opmap["RAISE_VARARGS"]
_SILENT = {"CACHE", "NOP", "PUSH_NULL", "EXTENDED_ARG", "RESUME"}
BY_NAME = {"getattr", "hasattr", "setattr", "delattr"}
_OPAQUE_ATTRS = {
    "__dict__", "__globals__", "__closure__", "__code__", "__builtins__", "__subclasses__", "__getattribute__",
    "f_locals", "f_globals", "f_back", "gi_frame", "tb_frame", "cell_contents", "__defaults__", "__kwdefaults__",
}  # fmt: skip
# Attributes that may be read, but whose change is none of the object's own `__dict__`.
UNWRITTEN = {"__class__", "__bases__", "default_factory"}
_DYNAMIC_ATTRS = {"attrgetter", "methodcaller", "asdict", "astuple", "deepcopy", "getmembers", "__getstate__"}
_MAKE_TEXT = {"str", "repr", "ascii", "format", "print", "format_map", "__str__", "__repr__", "__format__"}
_ORDER = set(
    "sorted min max sort heapq heapify heappush heappop heapreplace heappushpop nsmallest nlargest bisect bisect_left "
    "bisect_right insort insort_left insort_right".split()
)  # names of what asks objects for their order
_NUMBER = r"(.?[<>=^])?[-+ ]?z?#?0?\d*[,_]?(\.\d+)?n"  # a format by the locale
_LOCAL_NUMBER, _LOCAL_FIELD = re.compile(_NUMBER), re.compile(r"\{[^{}]*:" + _NUMBER + r"\}")


@dataclass(slots=True)
class CodeFacts:
    """Outside reads and writes of one function's code and the code nested in it."""

    code: CodeType
    globals: dict[str, int] = field(default_factory=dict)  # name -> line of its first load
    chains: dict[Root, dict[tuple[str, ...], int]] = field(default_factory=dict)  # attribute chains -> line
    needed: set[tuple[Root, tuple[str, ...]]] = field(default_factory=set)  # chains not only called where code fails
    imports: list[tuple[str, int, int]] = field(default_factory=list)  # (module, level, line)
    attrs: dict[str, int] = field(default_factory=dict)  # every attribute name -> line
    uses: Uses = field(default_factory=dict)  # of names, over all codes
    writes: list[tuple[Place, int]] = field(default_factory=list)  # writes to globals and outer variables
    opaque: list[tuple[str, int]] = field(default_factory=list)  # `x.__dict__` and the like
    dynamic: bool = False  # attribute names that are computed: all attributes count as read
    matches: bool = False  # has a pattern of a mapping or a sequence
    excepts: bool = False  # has an except clause
    sees_absence: bool = False  # may notice that an attribute is missing (getattr, hasattr, try)
    asked: set[str] = field(default_factory=set)  # names given to getattr and hasattr
    compares: set[str] = field(default_factory=set)  # comparison operators in use, and "in"
    called: set[str] = field(default_factory=set)  # names that are called directly
    formats: bool = False  # makes text of values, which depends on how NumPy prints
    by_locale: bool = False  # makes text of numbers as people write them where they live
    dates: bool = False  # mentions NumPy's dates
    moment: int = 0  # line of a text that is the present time to NumPy
    texts: set[str] = field(default_factory=set)  # constants that are short texts: keys of dicts
    codes: list[CodeType] = field(default_factory=list)  # this code and all nested ones

    file: str = ""  # where the code stands, without the folder

    def __post_init__(self) -> None:
        self.file = os.path.basename(self.code.co_filename)

    def at(self, line: int) -> str:
        """``model.py:12``."""
        return f"{self.file}:{line or self.code.co_firstlineno}"


_cache: dict[int, CodeFacts] = {}  # id(code) -> facts, which keep the code object (and so its id) alive
_CACHE_LIMIT = 4096
_LONGEST_KEY = 40


def scan(code: CodeType) -> CodeFacts:
    """The facts of a function's code object; scanned once."""
    facts = _cache.get(id(code))
    if facts is None:
        facts = CodeFacts(code)
        _scan_into(facts, code, frozenset())
        if len(_cache) >= _CACHE_LIMIT:
            _cache.clear()
        _cache[id(code)] = facts
    return facts


def _scan_into(facts: CodeFacts, code: CodeType, local_cells: frozenset[str]) -> None:
    facts.codes.append(code)
    facts.texts.update([text for text in code.co_consts if type(text) is str and len(text) <= _LONGEST_KEY])
    for place, found in uses(code).items():
        facts.uses.setdefault(place, set()).update(found)
    if getattr(code, "co_exceptiontable", b""):
        facts.sees_absence = True
    everything = list(plain_instructions(code))
    instructions = [i for i in everything if i.opname not in _SILENT]
    fails = failing(code)
    to_call = _beside_nulls(everything) if fails else set()
    facts.called |= _called(everything)
    outer = set(code.co_freevars) - local_cells  # variables of a function around the analysed one
    line = chain_line = code.co_firstlineno
    root: Root | None = None
    chain: tuple[str, ...] = ()
    imported = ""
    first = 0  # index of the chain's root

    def end_chain(last: int) -> None:
        assert root is not None
        _end_chain(facts, root, chain, chain_line)
        if not (instructions[last].offset in fails and {instructions[k].offset for k in (first, last)} & to_call):
            facts.needed.add((root, chain))

    for index, ins in enumerate(instructions):
        line = (ins.positions.lineno if ins.positions else None) or line
        op, name = ins.opname, ins.argval
        if root is not None and not (op in _ATTR_LOADS or op in _ATTR_WRITES):
            end_chain(index - 1)
            root = None
        if op in _GLOBAL_LOADS:
            facts.globals.setdefault(name, line)
            root, chain, chain_line, first = ("global", name), (), line, index
            if name in BY_NAME:
                _attribute_by_name(facts, instructions, index, line)
        elif op in _DEREF_LOADS:
            root, chain, chain_line, first = (("deref", name) if name in outer else ("local", "")), (), line, index
        elif op in _ATTR_LOADS or op in _ATTR_WRITES:
            facts.attrs.setdefault(name, line)
            if name in _OPAQUE_ATTRS or (op in _ATTR_WRITES and name in UNWRITTEN):
                facts.opaque.append((name, line))
            if name in _DYNAMIC_ATTRS:
                facts.dynamic = True
            if name in ("format", "format_map"):
                _format_fields(facts, instructions[index - 1] if index else None, line)
            if root is None:
                root, chain, first = ("local", ""), (), index
            chain, chain_line = (*chain, name), line
            if op in _ATTR_WRITES or not op.startswith(("LOAD_ATTR", "LOAD_METHOD")):
                end_chain(index)
                root = None
        elif op == "IMPORT_NAME":
            level = instructions[index - 2].argval if index >= 2 else 0
            whole = index >= 1 and instructions[index - 1].argval is None  # `import a.b as c`: the module is handed on
            imported = "" if whole else name
            facts.imports.append((name, level if isinstance(level, int) else 0, line))
            if index + 1 >= len(instructions) or instructions[index + 1].opname != "IMPORT_FROM":
                _end_chain(facts, ("import", name), (), line)
        elif op == "IMPORT_FROM" and imported:
            facts.attrs.setdefault(name, line)
            _end_chain(facts, ("import", imported), (name,), line)
        elif op in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            facts.writes.append((("global", name), line))
        elif op in ("STORE_DEREF", "DELETE_DEREF"):
            if name in outer:
                facts.writes.append((("outer", name), line))
        elif op in ("MATCH_MAPPING", "MATCH_SEQUENCE"):
            facts.matches = True
        elif op == "MATCH_CLASS":
            facts.dynamic = facts.sees_absence = True
            facts.attrs.setdefault("__match_args__", line)
        elif op == "COMPARE_OP":
            facts.compares.add(str(name).removeprefix("bool(").removesuffix(")"))
        elif op == "CONTAINS_OP":
            facts.compares.add("in")
        elif op.startswith("FORMAT_"):
            facts.formats = True
            before = instructions[index - 1].argval if index else None
            facts.by_locale |= isinstance(before, str) and _LOCAL_NUMBER.fullmatch(before) is not None
        elif op == "BINARY_OP" and ins.argrepr.startswith("%"):
            facts.formats |= any("%" in const for const in code.co_consts if type(const) is str)
    if root is not None:
        end_chain(len(instructions) - 1)
    if any(i.opname == "CHECK_EXC_MATCH" or (i.opname == "PUSH_EXC_INFO" and j.opname == "POP_TOP")
           for i, j in itertools.pairwise(instructions)):  # fmt: skip
        facts.excepts = True
    if not _ORDER.isdisjoint(facts.globals.keys() | facts.attrs.keys()):
        facts.compares.add("<")
    facts.formats |= not _MAKE_TEXT.isdisjoint(facts.globals.keys() | facts.attrs.keys())
    facts.dates |= not DATES.isdisjoint(facts.globals.keys() | facts.attrs.keys())
    for const in _texts(code.co_consts):
        facts.dates |= is_date_type(const)
        facts.by_locale |= _LOCAL_FIELD.search(const) is not None
        facts.by_locale |= "format" in facts.globals and _LOCAL_NUMBER.fullmatch(const) is not None
        if is_moment(const):
            facts.moment = facts.moment or code.co_firstlineno
    inner = local_cells | set(code.co_cellvars)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            _scan_into(facts, const, inner)


@functools.lru_cache(4096)
def failing(code: CodeType) -> frozenset[int]:
    """The offsets in *code* from which every way leads to a ``raise``, as far as no handler catches it."""
    if PYTHON is None or _RAISE not in code.co_code[::2]:
        return frozenset()
    flow = flow_of(code)
    stack = [k for k, i in enumerate(flow.code) if i.opname.startswith(("RETURN_", "YIELD_"))]
    ends = set(stack)
    while stack:
        new = set(flow.before[stack.pop()]) - ends
        ends |= new
        stack += new
    offsets = [*[i.offset for i in flow.code], len(code.co_code)]  # a frame may stand at what follows one, too
    return frozenset([at for k in range(len(flow.code)) if k not in ends for at in range(*offsets[k : k + 2])])


def _beside_nulls(instructions: list[dis.Instruction]) -> set[int]:
    """The offsets of loads beside a NULL: the first or last ones of an expression that is called."""
    found = set()
    loads = [i for i in instructions if i.opname not in _SILENT or i.opname == "PUSH_NULL"]
    for k, ins in enumerate(loads):
        if ins.opname == "PUSH_NULL":
            found.update([i.offset for i in loads[max(k - 1, 0) : k + 2]])
        elif pushes_null(ins):
            found.add(ins.offset)
    return found


def _texts(constants: tuple[object, ...]) -> Iterator[str]:
    for const in constants:
        if type(const) is str:
            yield const
        elif type(const) is tuple:
            yield from _texts(const)


def _called(instructions: list[dis.Instruction]) -> set[str]:
    """The names that are loaded in order to be called: the interpreter pushes a NULL beside them."""
    names: set[str] = set()
    for index, ins in enumerate(instructions):
        op = ins.opname
        called = pushes_null(ins)
        if not called and op in _BESIDE_NULL:
            around = instructions[max(index - 1, 0) : index] + instructions[index + 1 : index + 2]
            called = any(i.opname == "PUSH_NULL" for i in around)
        if called:  # for `module.Class(...)` the NULL is before the module
            attributes = itertools.takewhile(lambda i: i.opname == "LOAD_ATTR", _from(instructions, index + 1))
            names.update([ins.argval, *(i.argval for i in attributes)])
    return names


def _from(instructions: list[dis.Instruction], start: int) -> Iterator[dis.Instruction]:
    """The *instructions* from *start* on, of which few are asked for: no copy of thousands."""
    return map(instructions.__getitem__, range(start, len(instructions)))


def _end_chain(facts: CodeFacts, root: Root, chain: tuple[str, ...], line: int) -> None:
    facts.chains.setdefault(root, {}).setdefault(chain, line)


def _attribute_by_name(facts: CodeFacts, instructions: list[dis.Instruction], index: int, line: int) -> None:
    """``getattr(obj, "name")``: a constant name is an attribute read like another; any other one is dynamic."""
    facts.sees_absence = True
    args = list(_simple_arguments(instructions, index + 1))
    if len(args) >= 2 and isinstance(args[1], str):
        facts.attrs.setdefault(args[1], line)
        facts.asked.add(args[1])
        if args[1] in _OPAQUE_ATTRS or (instructions[index].argval == "setattr" and args[1] in UNWRITTEN):
            facts.opaque.append((args[1], line))
    else:
        facts.dynamic = True


def _format_fields(facts: CodeFacts, before: dis.Instruction | None, line: int) -> None:
    """``"{0.rate}".format(cfg)``: a constant text says which attributes it reads."""
    text = before.argval if before is not None and before.opname == "LOAD_CONST" else None
    found = fields(text) if isinstance(text, str) else None
    if found is None:
        facts.dynamic = True
    else:
        facts.attrs.update({name: facts.attrs.get(name, line) for name in found})


def _simple_arguments(instructions: list[dis.Instruction], start: int) -> Iterator[object]:
    """The arguments of a call where they are plain loads: constants as themselves, the rest as None."""
    pending: list[object] = []
    for ins in _from(instructions, start):
        op = ins.opname
        if op in ("LOAD_CONST",):
            pending.append(ins.argval)
        elif op in _ATTR_LOADS:
            if pending:
                pending[-1] = None
        elif op.startswith("LOAD_") and not op.startswith(("LOAD_SUPER", "LOAD_BUILD")):
            pending.append(None)
        elif op in ("PRECALL", "CALL") and ins.arg == len(pending):
            yield from pending
            return
        else:
            return
