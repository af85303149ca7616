"""The source of a code object: the statements of its file that lead to the function, if they give that very code.

A function whose code asks for its own variables or globals by name (``locals()``) has no source here, since other code
would have other ones.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import lru_cache
from types import CodeType
from typing import Any

from ..ir.data_classes import dataclass

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_READERS = frozenset(("locals", "vars", "dir", "eval", "exec", "globals", "_getframe"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(slots=True)
class FunctionSource:
    """The statements of a file that lead to one function."""

    file: str
    tree: ast.Module
    place: tuple[int, int]  # line and column of the function in the file
    code: CodeType
    order: int = 0

    def compiled(self, change: Callable[[Any], Any]) -> CodeType | None:
        """The code of the function after *change* of its tree."""
        tree = deepcopy(self.tree)
        change(_function_at(tree, self.place))
        ast.fix_missing_locations(tree)
        try:
            module = compile(tree, self.file, "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return None
        return _same_place(module, self.code, self.order)

    def function(self) -> Any:
        return _function_at(deepcopy(self.tree), self.place)


@lru_cache(maxsize=1024)
def located(code: CodeType) -> FunctionSource | None:
    """The source of *code*, which gives that very code."""
    lines = linecache.getlines(code.co_filename)
    if not lines or not _READERS.isdisjoint(code.co_names):
        return None
    module = _parsed("".join(lines))
    if module is None:
        return None
    for function in ast.walk(module):
        if isinstance(function, _FUNCTIONS) and _first_line(function) == code.co_firstlineno:
            if getattr(function, "name", "<lambda>") != code.co_name:
                continue
            place = function.lineno, function.col_offset
            tree = ast.Module(_leading_to(deepcopy(module.body), place), [])
            found = FunctionSource(code.co_filename, tree, place, code)
            try:
                compiled = compile(tree, code.co_filename, "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            same = [c for c in parts_of(compiled) if _named_alike(c, code)]
            for order, other in enumerate(same):
                if other == code and (len(same) == 1 or _is_at(other, function)):
                    found.order = order
                    return found
    return None


@lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _first_line(function: Any) -> int:
    return min([function.lineno, *[d.lineno for d in getattr(function, "decorator_list", ())]])


def _leading_to(body: list[Any], place: tuple[int, int]) -> list[Any]:
    """The statements of a module, or of a class, that lead to the function at *place*."""
    kept = []
    for statement in body:
        imports = not isinstance(statement, SCOPES) and any(
            isinstance(n, ast.Import | ast.ImportFrom) for n in ast.walk(statement)
        )
        if imports:
            kept.append(statement)  # calls of imported modules are other instructions
        elif any(isinstance(n, _FUNCTIONS) and (n.lineno, n.col_offset) == place for n in ast.walk(statement)):
            if isinstance(statement, ast.ClassDef):
                statement.body = _leading_to(statement.body, place)
            kept.append(statement)
    return kept


def _function_at(tree: ast.Module, place: tuple[int, int]) -> Any:
    return next(n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS) and (n.lineno, n.col_offset) == place)


def parts_of(code: CodeType) -> Iterator[CodeType]:
    """*code* and those of the functions in it, these very objects."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from parts_of(const)


def _named_alike(code: CodeType, other: CodeType) -> bool:
    return (code.co_qualname, code.co_firstlineno) == (other.co_qualname, other.co_firstlineno)


def _same_place(module: CodeType, code: CodeType, order: int) -> CodeType | None:
    found = [c for c in parts_of(module) if _named_alike(c, code)]
    return found[order] if order < len(found) else None


def _is_at(code: CodeType, function: Any) -> bool:
    """Whether *code* is of the lambda *function*, among others in its line."""
    columns = [c for line, _, c, _ in code.co_positions() if line == function.lineno and c]
    ends = function.end_lineno > function.lineno or function.end_col_offset
    return bool(columns) and min(columns) >= function.col_offset and (ends is True or max(columns) < ends)
