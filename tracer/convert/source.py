"""The syntax tree of a code object's function, proven: compiled again, it gives that very code.

The tree is parsed from the lines of the function alone where that is possible, else from its whole file.  It is
compiled among as little as gives the same code: the class around it, which private names and ``__class__`` ask for, a
function that has the variables of the functions around it, and the imports of its module, whose calls are other
instructions.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import functools
import inspect
import linecache
import re
import sys
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from .nodes import FUNCTIONS, STORE, ClassDef, Place, constant, function, parameters, place_of
from .sent_texts import SentLines, known_for
from .transparent import OWN

_FUTURE = 0
for _feature in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _feature).compiler_flag
PLACE_FLAGS = inspect.CO_NESTED | 0x8000000  # and CO_METHOD: which say where a function stands, not what it does
_TOP: Place = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
_COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
_FILES = 64  # whose trees are kept
_RECENT = 32  # functions whose trees are kept: each is asked for by several, one after the other


@dataclass(slots=True)
class Around:
    """The surroundings of a function that decide which code it gives."""

    file: str
    flags: int  # those of the ``__future__`` that hold for it
    free: tuple[str, ...]  # variables of the functions around it
    cls: str | None  # the class that its private names are of
    imports: tuple[str, ...]  # names that the module imports, of those that the function has

    def compiled(self, statement: Any) -> CodeType:
        """The code of the one function that *statement* makes."""
        own = [text for text in self.free if self.cls is None or text != "__class__"]
        names: list[Any] = [ast.Name(text, STORE, **_TOP) for text in (*own, OWN)]
        body: list[Any] = [ast.Assign(names, constant(None, _TOP), **_TOP)]
        outer: Any = self.cls or getattr(statement, "name", OWN)
        if outer not in (*own, OWN):
            body.insert(0, ast.Global([outer], **_TOP))  # what the function finds by this name is not here
        if self.cls is None:
            body.append(statement)
        else:
            body.append(ClassDef(self.cls, [], [], [statement], [], type_params=[], **_TOP))
        no_arguments = ast.arguments([], [], None, [], [], None, [])
        module: list[Any] = [ast.Import([ast.alias(text, None, **_TOP)], **_TOP) for text in self.imports]
        module.append(function(OWN, no_arguments, body, _TOP))
        with _quietly():
            code = compile(ast.Module(module, []), self.file, "exec", self.flags, dont_inherit=True)
        for _ in range(2 if self.cls is None else 3):
            code = next(c for c in code.co_consts if isinstance(c, CodeType))
        return code


@dataclass(slots=True)
class ProvenSource:
    """The proven source of a function."""

    node: Any  # FunctionDef or Lambda; nobody may change it
    around: Around
    imported: frozenset[str]  # all names that the module imports


@dataclass(slots=True)
class _File:
    lines: list[str]
    imported: frozenset[str]
    functions: dict[tuple[int, str], list[Any]] | None = None  # by first line and name
    exactly: frozenset[str] = field(default_factory=frozenset)
    lambdas: tuple[tuple[int, int], dict[int, list[Any]]] = ((0, 0), {})  # of the lines parsed last, by their line


_WARNINGS = [("ignore", None, kind, None, 0) for kind in (SyntaxWarning, DeprecationWarning)]


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """No warnings of the user's code, which has been compiled before.

    ``warnings.catch_warnings`` would show all others again that are shown once.
    """
    warnings.filters[:0] = _WARNINGS  # type: ignore[index]
    try:
        yield
    finally:
        for entry in _WARNINGS:
            warnings.filters.remove(entry)  # type: ignore[attr-defined]


_files: OrderedDict[str, _File] = OrderedDict()
_recent: OrderedDict[int, tuple[weakref.ref[CodeType], ProvenSource]] = OrderedDict()  # by the id of the code


def found(code: CodeType) -> ProvenSource | str:
    """The source of *code*, or the reason why it is not known."""
    known = _recent.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    made = _search(code)
    if isinstance(made, ProvenSource):
        _recent[id(code)] = weakref.ref(code), made
        while len(_recent) > _RECENT:
            _recent.popitem(last=False)
    return made


def _search(code: CodeType) -> ProvenSource | str:
    if code.co_name in (*_COMPREHENSIONS, "<module>") or not code.co_flags & inspect.CO_NEWLOCALS:
        return "it is no function"
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE):
        return "it is a coroutine"
    before = None
    for _ in range(2):
        file = _file(code.co_filename)
        if file is before:
            break
        if file is not None and (known := _found(code, file)) is not None:
            return known
        linecache.checkcache(code.co_filename)  # the lines may be those of an older file
        before = file
    for sent in known_for(code):
        known = _found(code, _File(["\n"] * sent.start + [*sent.lines], frozenset(sent.imported)))
        if known is not None:
            return known
    # every exec names its code so, and since 3.13 the program of ``python -c`` has its lines there
    nowhere = before is None or code.co_filename == "<string>"
    return "there is no source" if nowhere else "the source gives other code"


@functools.lru_cache(maxsize=1024)
def lines_of(code: CodeType, path: str) -> SentLines | None:
    """The lines in which the source of *code* may be found elsewhere; *path*: its file, which equal codes may not
    share."""
    file, known = _file(path), known_for(code)
    if file is None:
        return known[0] if known else None
    start, end = _statement(code, file.lines)
    parts = [*parts_of(code)]
    names = {text for p in parts for text in (*p.co_names, *p.co_varnames)}
    functions = [(p.co_name, p.co_firstlineno) for p in parts if p.co_name not in _COMPREHENSIONS]
    return SentLines(start, tuple(file.lines[start:end]), tuple(sorted(file.imported & names)), tuple(functions))


def nested(code: CodeType) -> Iterator[CodeType]:
    """The functions in *code*, those in its comprehensions too, but none that are in another function."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            if const.co_name in _COMPREHENSIONS:
                yield from nested(const)
            else:
                yield const


def parts_of(code: CodeType) -> Iterator[CodeType]:
    """*code* and all that is nested in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from parts_of(const)


def _file(path: str) -> _File | None:
    lines = linecache.getlines(path)
    if not lines:
        return None
    known = _files.get(path)
    if known is None or known.lines is not lines:
        if known is not None and known.lines == lines:
            known.lines = lines
        else:
            known = _files[path] = _File(lines, _imported(lines))
        while len(_files) > _FILES:
            _files.popitem(last=False)
    _files.move_to_end(path)
    return known


def _found(code: CodeType, file: _File) -> ProvenSource | None:
    key = code.co_firstlineno, code.co_name
    for node in _nearby(code, file):
        for imported in (file.imported, frozenset[str]()):  # none: the lines were compiled part by part
            known = _proven(code, node, imported)
            if known is not None:
                return known
    if file.functions is None:
        _read_whole(file)
    assert file.functions is not None
    for node in file.functions.get(key, ()):
        known = _proven(code, node, file.exactly)
        if known is not None:
            return known
    return None


def _proven(code: CodeType, node: Any, imported: frozenset[str]) -> ProvenSource | None:
    parts = [*parts_of(code)]
    names = {text for p in parts for text in (*p.co_names, *p.co_varnames, *p.co_cellvars, *p.co_freevars)}
    if any(text.startswith("@py") for text in names) and not isinstance(node, ast.Lambda):
        node = _rewritten_by_pytest(node, code.co_filename)
        imported |= {"@py_builtins", "@pytest_ar"}
    around = Around(
        code.co_filename,
        code.co_flags & _FUTURE,
        code.co_freevars,
        _class_of(code.co_qualname),
        tuple(sorted(imported & names)),
    )
    try:
        same = around.compiled(_bare(node))
    except (SyntaxError, ValueError):
        return None
    if (same.co_flags ^ code.co_flags) & ~PLACE_FLAGS:
        return None
    return ProvenSource(node, around, imported) if same.replace(co_flags=code.co_flags) == code else None


def _bare(node: Any) -> Any:
    """The statement of a function without all that is evaluated outside of it."""
    at = place_of(node)
    if isinstance(node, ast.Lambda):
        made = ast.Lambda(parameters(node.args), node.body, **at)
        return ast.Assign([ast.Name(OWN, STORE, **at)], made, **at)
    return function(node.name, parameters(node.args), node.body, at, first_line(node))


def first_line(node: Any) -> list[Any]:
    """Decorators that do nothing, where those of *node* are: a function's lines begin there."""
    return [constant(None, place_of(d)) for d in node.decorator_list[:1]]


def _class_of(qualname: str) -> str | None:
    """The innermost class around a function."""
    parts = qualname.split(".")
    for k in range(len(parts) - 2, -1, -1):
        if parts[k] != "<locals>" and parts[k + 1] != "<locals>":
            return parts[k]
    return None


# ---- parsing


def _statement(code: CodeType, lines: Sequence[str]) -> tuple[int, int]:
    """The lines (from, up to) of the function, or of the statement around it, as far as that is easily told; none where
    there are none."""
    start = code.co_firstlineno - 1
    if not 0 <= start < len(lines):
        return 0, 0
    last = max((end for part in parts_of(code) for _, end, _, _ in part.co_positions() if end), default=0)
    if code.co_name == "<lambda>":
        while start and not _begins(lines[start]):
            start -= 1
    margin = _margin(lines[start])
    end = max(last, start + 1)
    while end < len(lines) and (_margin(lines[end]) > margin or not _begins(lines[end].lstrip())):
        end += 1
    return start, end


def _nearby(code: CodeType, file: _File) -> list[Any]:
    """The function, parsed from its own lines, or from those of the statement around it; none where that is not so
    easy."""
    lines = file.lines
    start, end = _statement(code, lines)
    if start == end:
        return []
    margin = _margin(lines[start])
    if code.co_name == "<lambda>" and file.lambdas[0] == (start, end):
        return file.lambdas[1].get(code.co_firstlineno, [])
    text = "".join(lines[start:end])
    text = "\n" * (start - 1) + "if 1:\n" + text if margin and start else "\n" * start + text
    try:
        with _quietly():
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if code.co_name == "<lambda>":
        found: dict[int, list[Any]] = {}
        for n in ast.walk(tree):
            if isinstance(n, ast.Lambda):
                found.setdefault(n.lineno, []).append(n)
        file.lambdas = (start, end), found
        return found.get(code.co_firstlineno, [])
    body: Any = tree.body
    if not body:  # the file has been written anew
        return []
    node = body[0].body[0] if margin and start else body[0]
    return [node] if isinstance(node, ast.FunctionDef) and node.name == code.co_name else []


_ONWARD = re.compile(r"\s|[#)\]}]|$|(?:else|elif|except|finally)\b")  # what begins no statement


def _begins(line: str) -> bool:
    return _ONWARD.match(line) is None


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip(" \t\f"))


_IMPORT = re.compile(r"[ \t]*(?:import|from)\s")


def _imported(lines: Sequence[str]) -> frozenset[str]:
    """The names that a module imports, read line by line."""
    names: set[str] = set()
    inside = False  # of a function or class
    for k, line in enumerate(lines):
        if not line[0].isspace() and line[0] not in "#)]}":
            inside = line.startswith(("def ", "class ", "async ", "@"))
        if not inside and _IMPORT.match(line):
            text = line.strip()
            for more in lines[k + 1 : k + 200]:
                if text.count("(") <= text.count(")") and not text.endswith("\\"):
                    break
                text = (text[:-1] if text.endswith("\\") else text) + "\n" + more.strip()
            try:
                names.update(_bound_by(ast.parse(text).body))
            except SyntaxError:
                continue  # a line of a text, perhaps
    return frozenset(names)


def _bound_by(statements: Sequence[Any]) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                yield alias.asname or alias.name.split(".")[0]


def _read_whole(file: _File) -> None:
    """Set the functions of a file, and the names that it imports."""
    file.functions = {}
    try:
        with _quietly():
            tree = ast.parse("".join(file.lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    names: set[str] = set()
    todo: list[tuple[Any, bool]] = [(tree, True)]
    while todo:
        node, outside = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            line = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
            key = line, getattr(node, "name", "<lambda>")
            file.functions.setdefault(key, []).append(node)
        elif outside:
            names.update(_bound_by([node]))
        outside &= not isinstance(node, FUNCTIONS)
        todo += [(child, outside) for child in ast.iter_child_nodes(node)]
    file.exactly = frozenset(names)


# ---- pytest


def _rewritten_by_pytest(node: Any, path: str) -> Any:
    """The function with its assertions rewritten, as pytest compiles those of test modules."""
    rewrite: Any = sys.modules.get("_pytest.assertion.rewrite")
    if rewrite is None:
        return node
    config = next((f.config for f in sys.meta_path if isinstance(f, rewrite.AssertionRewritingHook)), None)
    module = ast.Module([deepcopy(node)], [])
    try:
        rewrite.rewrite_asserts(module, "".join(linecache.getlines(path)).encode(), path, config)
    except Exception:
        return node
    return next(n for n in module.body if isinstance(n, ast.FunctionDef))
