"""Uses of the names in a function, by its syntax tree: which it writes into, loops over, adds to or calls.

Nothing follows from these for a result: they are guesses to begin with (arrays that will hold traced values), or say
what may be left out of a key because nobody reads it.  A function without a source has no entry in them.
"""

from __future__ import annotations

import ast
from collections.abc import Set
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any

from .nodes import FUNCTIONS, own_nodes
from .source import found

End = tuple[int | None, int | None]  # line and column where the text of an expression ends

# NumPy's functions that write into their first argument; ufunc.at
_WRITERS = frozenset(("at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"))
# what gives the array that it is given, or shows it, or goes over it
_PASSES_ON = frozenset((
    "asarray", "atleast_1d", "atleast_2d", "diagonal", "enumerate", "get", "items", "iter", "list", "ravel", "reshape",
    "reversed", "squeeze", "swapaxes", "transpose", "tuple", "values", "view", "zip",
))  # fmt: skip
_HOLDS = frozenset(("append", "appendleft", "extend", "insert", "setdefault"))
APPEND, UPDATE, ADD, ITEM, OF_ITEM = "append", "update", "add", "item", "of an item"  # x[k].append(v)
READ = "read"
_GROWS = {"append": APPEND, "extend": APPEND, "update": UPDATE, "add": ADD}


@dataclass(slots=True)
class Uses:
    """The uses that a function makes of names.  Those of variables and of attributes are not told apart.

    ``written``: names of what is written into: ``z[i] = ...``, ``self.z += ...``, ``np.put(z, ...)``.
    ``stored``: (the name that gets it, where the expression ends, the name of the function that it calls)
    ``flows``: (a name, a name whose array it may get, or show): ``w = z``, ``for row in z``, ``w = z[1:]``
    ``passed``: (the argument of a function (``argument_of``), a name whose array it gets)
    ``returned``: where the expressions end that are returned.
    ``ranges``: the variables that ``range`` gets as they are, with the line.
    ``of``: for each variable how it is used: in ways that only add to it, or ``READ``.
    ``called``: the names that are only called."""

    written: Set[str] = frozenset()
    stored: list[tuple[str, End, str]] = field(default_factory=list)
    flows: list[tuple[str, str]] = field(default_factory=list)
    passed: list[tuple[str, str]] = field(default_factory=list)
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
    nodes = [inner for statement in body for inner in own_nodes(statement)]
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
    result.written = _with_sources(result, written)
    result.of = _uses_of(nodes)
    loads = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    result.called = {n.id for n in loads} - {n.id for n in loads if id(n) not in called}
    return result


@lru_cache(maxsize=1024)
def assigned(code: CodeType, elsewhere: frozenset[str] = frozenset()) -> Set[End]:
    """The ends of the expressions whose values get a name under which *code* writes.  *elsewhere*: names of attributes
    and of results of functions (``result_of``) into which other code writes."""
    known = uses(code)
    passed = {name for argument, name in known.passed if argument in elsewhere}
    written = _with_sources(known, known.written | elsewhere | passed)
    ends = {end for name, end, _ in known.stored if name in written}
    return ends.union(known.returned) if result_of(code.co_name) in elsewhere else ends


def _with_sources(known: Uses, written: Set[str]) -> Set[str]:
    """The names *written* and those of arrays that are written into under them."""
    found, before = set(written), -1
    while len(found) > before:
        before = len(found)
        found.update([value for name, value in known.flows if name in found])
    return found


def result_of(name: str) -> str:
    """The name of what functions of this *name* return."""
    return f"{name}()"


def argument_of(name: str, place: int | str | None) -> str:
    """The name of an argument of functions of this *name*, by its position or keyword."""
    return f"{name}({place})"


def written_elsewhere(code: CodeType) -> Set[str]:
    """The names of functions whose results *code* writes into (``result_of``): ``u = f(n)``, then ``u[0] = ...``; and
    of its own arguments into which it does (``argument_of``)."""
    known = uses(code)
    found = {result_of(function) for name, _, function in known.stored if function and name in known.written}
    for k, name in enumerate(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        if name in known.written:
            found |= {argument_of(code.co_name, k), argument_of(code.co_name, name)}
    return found


def _name(node: Any) -> str:
    """The name of a variable or an attribute; "" of another expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _names(node: Any) -> list[str]:
    """The names of what *node* may be, be in or be a part of: of ``self.z[k]`` both."""
    if isinstance(node, ast.Name | ast.Attribute):
        return [_name(node), *(_names(node.value) if isinstance(node, ast.Attribute) else ())]
    if isinstance(node, ast.Call):
        if _name(node.func) not in _PASSES_ON:
            return []
        of = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [name for part in (*of, *node.args) for name in _names(part)]
    if isinstance(node, ast.Subscript | ast.Starred | ast.NamedExpr):
        return _names(node.value)
    return [name for part in _elements(node) for name in _names(part)]


def _elements(node: Any) -> list[Any]:
    """The expressions one of which *node* is, or all of which are in it."""
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return node.values if isinstance(node, ast.Dict) else getattr(node, "elts", [])  # type: ignore[no-any-return]


def _ends(node: Any) -> list[End]:
    """Where *node* ends, and where what it may be, or be made of, does."""
    if isinstance(node, ast.IfExp):
        return _ends(node.body) + _ends(node.orelse)
    parts = [*node.args, *[x.value for x in node.keywords]] if isinstance(node, ast.Call) else _elements(node)
    return [(x.end_lineno, x.end_col_offset) for x in (node, *parts)]


def _note_store(result: Uses, written: set[str], node: Any) -> None:
    """Note what *node* stores, if it is an assignment or stands for an item that gets a value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _note_pairs(result, target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        _note_pairs(result, node.target, node.value)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        _note_pairs(result, node.target, node.iter)
    elif isinstance(node, ast.AugAssign):
        written.update(_names(node.target))
        result.stored += [(_name(node.target), end, "") for end in _ends(node)]
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        written.update(_names(node.value))


def _note_pairs(result: Uses, target: Any, value: Any) -> None:
    """Note the entries of ``Uses.stored`` for an assignment; of ``u, v = f(), g()`` one for each."""
    if isinstance(target, ast.Tuple | ast.List):
        several = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        for part, its in zip(target.elts, value.elts if several else [value] * len(target.elts), strict=True):
            _note_pairs(result, part, its)
        return
    function = _name(value.func) if isinstance(value, ast.Call) else ""
    for name in _names(target):
        result.stored += [(name, end, function) for end in _ends(value)]
        result.flows += [(name, source) for source in _names(value)]


def _note_call(result: Uses, written: set[str], call: ast.Call) -> None:
    function, method = _name(call.func), isinstance(call.func, ast.Attribute)
    if function in _WRITERS and call.args:
        written.update(_names(call.args[0]))
    if isinstance(call.func, ast.Attribute) and function in ("fill", "itemset", "put", "sort"):
        written.update(_names(call.func.value))
    if isinstance(call.func, ast.Attribute) and function in _HOLDS:
        for x in call.args:
            _note_pairs(result, call.func.value, x)
    for place, x in [*enumerate(call.args), *[(x.arg, x.value) for x in call.keywords]]:
        if place == "out":
            written.update(_names(x))
        places = {place, place + 1} if method and isinstance(place, int) else {place}
        result.passed += [(argument_of(function, k), name) for k in places for name in _names(x)]
        result.stored += [(argument_of(function, k), end, "") for k in places for end in _ends(x)]
    if isinstance(call.func, ast.Name) and call.func.id == "range":
        result.ranges.update({x.id: x.lineno for x in call.args if isinstance(x, ast.Name)})


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
