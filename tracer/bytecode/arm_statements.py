"""Statements in the arms of a choice: what they assign, and how they end loops.

Whether the code that such statements call changes anything is proven elsewhere (``purity.harmless_arms``); for that,
``Plainly`` makes expressions of assignments of items, and ``arms_alone`` a function of an arm.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import deepcopy
from types import CodeType
from typing import Any

from .function_source import SCOPES

OWN = "_tg_"  # names that begin so are ours
_ASSIGNS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def loops_in(function: Any) -> list[Any]:
    return [n for n in own_nodes(function) if isinstance(n, ast.While | ast.For)]


def ends_of(loop: Any) -> Iterator[int]:
    """The lines whose truths end a loop."""
    if isinstance(loop, ast.While):
        yield from range(loop.test.lineno, (loop.test.end_lineno or loop.test.lineno) + 1)
    for n in own_nodes(loop):
        jumps = isinstance(n, ast.If) and any(
            isinstance(x, ast.Break | ast.Return) for s in n.body + n.orelse for x in ast.walk(s)
        )
        if jumps:
            yield from range(n.test.lineno, (n.test.end_lineno or n.test.lineno) + 1)


def own_nodes(tree: Any) -> Iterator[Any]:
    """The nodes of *tree*, but for those of scopes in it."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, SCOPES):
            yield from own_nodes(child)


def assigned(statements: Sequence[Any]) -> tuple[str, ...]:
    """The local variables that *statements* assign."""
    names = [
        n.id for s in statements for n in [s, *_names_in(s)] if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    return tuple(dict.fromkeys(names))


def _names_in(tree: Any) -> Iterator[Any]:
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, (*SCOPES, *_COMPREHENSIONS)):
            yield child
            yield from _names_in(child)


def renewed(statements: Sequence[Any]) -> set[str]:
    """The local variables that *statements* assign on every way."""
    found: set[str] = set()
    for s in statements:
        if isinstance(s, ast.If):
            found |= renewed(s.body) & renewed(s.orelse)
        elif isinstance(s, _ASSIGNS):
            found.update(assigned([s]))
    return found


# ---- without assignments of items


class Plainly(ast.NodeTransformer):
    """Statements as expressions of what they compute: a proof that they are harmless is one for the arms, whose
    assignments are choices.  *shared*: variables that other functions may assign."""

    def __init__(self, shared: frozenset[str] = frozenset()) -> None:
        self.shared = shared

    def visit_body(self, function: Any) -> None:
        if not isinstance(function, ast.Lambda):
            function.body = [self.visit(s) for s in function.body]

    def visit_Assign(self, node: ast.Assign) -> Any:
        every = [t for target in node.targets for t in ast.walk(target)]
        stored = [t for t in every if isinstance(getattr(t, "ctx", None), ast.Store)]
        plain = not any(isinstance(t, ast.Starred | ast.Attribute) for t in stored)
        if not (plain and any(isinstance(t, ast.Subscript) for t in stored)):
            return node
        parts = [p for t in node.targets for p in _parts(t)]
        return ast.copy_location(ast.Expr(ast.Tuple([node.value, *parts], ast.Load())), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        read = deepcopy(node.target)
        read.ctx = ast.Load()
        value = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        name = node.target
        if isinstance(name, ast.Attribute) or (isinstance(name, ast.Name) and name.id in self.shared):
            return node
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_FunctionDef(self, node: Any) -> Any:
        outer, self.shared = self.shared, self.shared | declared(node)
        self.visit_body(node)
        self.shared = outer
        return node

    def visit_ClassDef(self, node: Any) -> Any:
        return node

    visit_AsyncFunctionDef = visit_ClassDef  # noqa: N815


def declared(function: Any) -> frozenset[str]:
    """The variables of other functions, or of the module, that *function* assigns."""
    found = [n for n in own_nodes(function) if isinstance(n, ast.Global | ast.Nonlocal)]
    return frozenset(name for n in found for name in n.names)


def _parts(target: Any) -> list[Any]:
    if isinstance(target, ast.Tuple | ast.List):
        return [p for t in target.elts for p in _parts(t)]
    return (
        [target.value, target.slice]
        if isinstance(target, ast.Subscript) and not _sliced(target.slice)
        else ([target.value] if isinstance(target, ast.Subscript) else [])
    )


def _sliced(index: Any) -> bool:
    return any(isinstance(n, ast.Slice) for n in ast.walk(index))


def arms_alone(statements: list[Any], names: Sequence[str], jump: str = "") -> CodeType | None:
    """The code of a function of the local variables *names* that does as an arm does."""
    body = [Plainly().visit(deepcopy(s)) for s in statements if not isinstance(s, ast.Continue | ast.Pass)]
    args = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    function = ast.FunctionDef("arms", args, body or [ast.Pass()], [])
    function.type_params = []  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.Module([function], []))
    try:
        compiled = compile(module, "<arms>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return next(c for c in compiled.co_consts if isinstance(c, CodeType))
