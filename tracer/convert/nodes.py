"""Nodes of a copy's syntax tree, each at the place of what it stands for, so that tracebacks show the user's lines."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .transparent import OWN

Place = dict[str, Any]  # the attributes of a node that say where it is
LOAD, STORE = ast.Load(), ast.Store()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)  # with names of their own
# What the typing of the standard library calls other things in each version of Python.
FunctionDef: Any = ast.FunctionDef
ClassDef: Any = ast.ClassDef


class NotConvertibleError(Exception):
    """The function has a construct that copies do not have; the text is the reason."""


def place_of(node: Any) -> Place:
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }


def attribute_place(node: ast.Attribute) -> Place:
    """The place of a load or store of an attribute: that of its name, if the expression is of several lines."""
    at = place_of(node)
    if node.lineno != node.end_lineno:
        at["lineno"] = at["end_lineno"]
        at["col_offset"] = max(0, at["end_col_offset"] - len(node.attr))
    return at


def start_of(at: Place) -> Place:
    line, column = at["lineno"], at["col_offset"]
    return {"lineno": line, "col_offset": column, "end_lineno": line, "end_col_offset": column}


def ask(method: str, args: Sequence[Any], at: Place, keywords: Sequence[Any] = ()) -> Any:
    """The call of a method of the frame."""
    start = start_of(at)
    of = ast.Attribute(ast.Name(OWN, LOAD, **start), method, LOAD, **start)
    return ast.Call(of, list(args), list(keywords), **at)


def is_asked(node: Any, method: str) -> bool:
    """Whether *node* is a call of that method of the frame."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def name(text: str, at: Place) -> Any:
    return ast.Name(text, LOAD, **at)


def constant(value: Any, at: Place) -> Any:
    return ast.Constant(value, **at)


def bind(text: str, value: Any, at: Place) -> Any:
    """The statement ``text = value``."""
    return ast.Assign([ast.Name(text, STORE, **at)], value, **at)


def forget(texts: Sequence[str], at: Place) -> list[Any]:
    """A statement after which names of the copy keep nothing alive."""
    if not texts:
        return []
    return [ast.Assign([ast.Name(text, STORE, **at) for text in texts], constant(None, at), **at)]


def walrus(text: str, value: Any, at: Place) -> Any:
    return ast.NamedExpr(ast.Name(text, STORE, **at), value, **at)


def of_own(text: str, attribute: str, at: Place) -> Any:
    """An attribute of an object that a name of the copy holds."""
    start = start_of(at)
    return ast.Attribute(ast.Name(text, LOAD, **start), attribute, LOAD, **start)


def function(text: str, args: Any, body: list[Any], at: Place, decorators: Sequence[Any] = ()) -> Any:
    """A function without annotations."""
    return FunctionDef(
        name=text,
        args=args,
        body=body,
        decorator_list=list(decorators),
        returns=None,
        type_comment=None,
        type_params=[],
        **at,
    )


def positional(names: Sequence[str], at: Place) -> Any:
    """The arguments of a function that takes these."""
    return arguments([], [ast.arg(text, None, **at) for text in names], None, [], [], None, [])


def arguments(posonly: Any, args: Any, vararg: Any, kwonly: Any, kw_defaults: Any, kwarg: Any, defaults: Any) -> Any:
    return ast.arguments(posonly, args, vararg, kwonly, kw_defaults, kwarg, defaults)


def parameters(args: ast.arguments) -> Any:
    """Parameters alone, without default values and annotations."""

    def bare(a: Any) -> Any:
        return None if a is None else ast.arg(a.arg, None, **place_of(a))

    every = [[bare(a) for a in group] for group in (args.posonlyargs, args.args, args.kwonlyargs)]
    return arguments(every[0], every[1], bare(args.vararg), every[2], [None] * len(every[2]), bare(args.kwarg), [])


def parameter_names(args: ast.arguments) -> list[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [a.arg for a in every if a is not None]


def is_one_item(node: ast.AST) -> bool:
    """Whether *node* is ``a[index]``, and no slice."""
    return isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice | ast.Tuple)


def own_nodes(node: ast.AST) -> Iterator[Any]:
    """*node* and all in it, in the order of the text, but for the bodies of functions and classes."""
    yield node
    parts: Iterable[Any] = ast.iter_child_nodes(node)
    if isinstance(node, ast.ClassDef):
        parts = [*node.decorator_list, *node.bases]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        defaults = [x for x in (*node.args.defaults, *node.args.kw_defaults) if x is not None]
        parts = [*getattr(node, "decorator_list", ()), *defaults]
    for part in parts:
        yield from own_nodes(part)
