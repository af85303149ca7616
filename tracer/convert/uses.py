"""Uses of the names in a function, by its syntax tree: which it writes into, loops over, adds to or calls.

Nothing follows from these for a result: they are guesses to begin with (arrays that will hold traced values), or say
what may be left out of a key because nobody reads it.  A function without a source has no entry in them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

from .nodes import FUNCTIONS
from .source import found

End = tuple[int | None, int | None]  # line and column where the text of an expression ends

# NumPy's functions that write into their first argument; ufunc.at
_WRITERS = frozenset(("at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"))
APPEND, UPDATE, ADD, ITEM, OF_ITEM = "append", "update", "add", "item", "of an item"  # x[k].append(v)
READ = "read"
_GROWS = {"append": APPEND, "extend": APPEND, "update": UPDATE, "add": ADD}


@dataclass(slots=True)
class Uses:
    """The uses that a function makes of names.  Those of variables and of attributes are not told apart.

    ``written``: names of what is written into: ``z[i] = ...``, ``self.z += ...``, ``np.put(z, ...)``.
    ``stored``: (the name that gets it, where the expression ends, the name of the function that it calls)
    ``returned``: where the expressions end that are returned.
    ``ranges``: the variables that ``range`` gets as they are, with the line.
    ``of``: for each variable how it is used: in ways that only add to it, or ``READ``.
    ``called``: the names that are only called."""

    written: Set[str] = frozenset()
    stored: list[tuple[str, End, str]] = field(default_factory=list)
    returned: list[End] = field(default_factory=list)
    ranges: dict[str, int] = field(default_factory=dict)
    of: dict[str, set[str]] = field(default_factory=dict)
    called: Set[str] = frozenset()


_NONE = Uses()


@lru_cache(maxsize=1024)
def uses(code: CodeType) -> Uses:
    """The uses of names in *code*, without those in functions that it makes; none where its source is not known."""
    source = found(code)
    if isinstance(source, str):
        return _NONE
    body = source.node.body if isinstance(source.node.body, list) else [source.node.body]
    nodes = [inner for statement in body for inner in _own_nodes(statement)]
    result = Uses()
    called: set[int] = set()  # ids of the nodes of names
    written: set[str] = set()
    for node in nodes:
        _note_store(result, written, node)
        if isinstance(node, ast.Call):
            called.add(id(node.func))
            _note_call(result, written, node)
        elif isinstance(node, ast.Return) and node.value is not None:
            result.returned += _ends(node.value)
    for name, value in reversed([*_aliases(nodes)]):  # w = z; w[0] = ...
        if name in written:
            written.add(value)
    result.written = written
    result.of = _uses_of(nodes)
    loads = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    result.called = {n.id for n in loads} - {n.id for n in loads if id(n) not in called}
    return result


def assigned(code: CodeType, elsewhere: Set[str] = frozenset()) -> Set[End]:
    """The ends of the expressions whose values get a name under which *code* writes.  *elsewhere*: names of attributes
    and of results of functions (``result_of``) into which other code writes."""
    known = uses(code)
    ends = {end for name, end, _ in known.stored if name in known.written or name in elsewhere}
    return ends.union(known.returned) if result_of(code.co_name) in elsewhere else ends


def result_of(name: str) -> str:
    """The name of what functions of this *name* return."""
    return f"{name}()"


def written_results(code: CodeType) -> Set[str]:
    """The names of functions whose results *code* writes into (``result_of``): ``u = f(n)``, then ``u[0] = ...``."""
    known = uses(code)
    return {result_of(function) for name, _, function in known.stored if function and name in known.written}


def _own_nodes(node: ast.AST) -> Iterator[Any]:
    """*node* and all in it, in the order of the text, but for the bodies of functions and classes."""
    yield node
    parts: Iterable[Any] = ast.iter_child_nodes(node)
    if isinstance(node, ast.ClassDef):
        parts = [*node.decorator_list, *node.bases]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        defaults = [x for x in (*node.args.defaults, *node.args.kw_defaults) if x is not None]
        parts = [*getattr(node, "decorator_list", ()), *defaults]
    for part in parts:
        yield from _own_nodes(part)


def _name(node: Any) -> str:
    """The name of a variable or an attribute; "" of another expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _ends(node: Any) -> list[End]:
    if isinstance(node, ast.IfExp):
        return _ends(node.body) + _ends(node.orelse)
    return [(node.end_lineno, node.end_col_offset)]


def _note_store(result: Uses, written: set[str], node: Any) -> None:
    """Note what *node* stores, if it is an assignment or stands for an item that gets a value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            result.stored += _pairs(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        result.stored += _pairs(node.target, node.value)
    elif isinstance(node, ast.AugAssign):
        written.add(_name(node.target))
        result.stored += [(_name(node.target), end, "") for end in _ends(node)]
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        written.add(_name(node.value))
    written.discard("")


def _pairs(target: Any, value: Any) -> Iterator[tuple[str, End, str]]:
    """The entries of ``Uses.stored`` for an assignment; of ``u, v = f(), g()`` one for each."""
    if isinstance(target, ast.Tuple | ast.List):
        several = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for part, its in zip(target.elts, value.elts if several else [value] * len(target.elts), strict=True):
            yield from _pairs(part, its)
    elif name := _name(target):
        for end in _ends(value):
            yield name, end, _name(value.func) if isinstance(value, ast.Call) else ""


def _note_call(result: Uses, written: set[str], call: ast.Call) -> None:
    if _name(call.func) in _WRITERS and call.args:
        written.add(_name(call.args[0]))
        written.discard("")
    if isinstance(call.func, ast.Name) and call.func.id == "range":
        result.ranges.update({x.id: x.lineno for x in call.args if isinstance(x, ast.Name)})


def _aliases(nodes: list[Any]) -> Iterator[tuple[str, str]]:
    """(name, the name whose value it gets)."""
    for node in nodes:
        if isinstance(node, ast.Assign) and (value := _name(node.value)):
            yield from [(name, value) for target in node.targets if (name := _name(target))]


def _uses_of(nodes: list[Any]) -> dict[str, set[str]]:
    """The uses of each variable."""
    found: dict[str, set[str]] = {}
    ways: dict[int, str] = {}  # id of the node of a name -> its use
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWS:
            ways.setdefault(*_of(node.func.value, _GROWS[node.func.attr]))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            ways.setdefault(*_of(node.value, ITEM))
        elif isinstance(node, ast.AugAssign):
            ways.update({id(inner): READ for inner in ast.walk(node.target)})
        if isinstance(node, ast.Name):
            way = ways.get(id(node), READ) if isinstance(node.ctx, ast.Load) else READ
            found.setdefault(node.id, set()).add(way)
        elif isinstance(node, FUNCTIONS):  # it may do anything
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name):
                    found.setdefault(inner.id, set()).add(READ)
    return found


def _of(node: Any, way: str) -> tuple[int, str]:
    """(the node of a name, the *way* it is used) of a container that grows: ``x`` or ``x[k]``."""
    if isinstance(node, ast.Subscript):
        return id(node.value), OF_ITEM
    return id(node), way
