"""Statements that can be the arm of a choice, and blocks made so: what stands behind an ``if`` that returns is its
other arm.

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


def is_no_arm(tree: Any) -> bool:
    """Whether there is something in *tree* that no arm can do: to suspend the frame, or to assign within an
    expression."""
    return any(
        isinstance(n, ast.Yield | ast.YieldFrom | ast.Await)
        or (isinstance(n, ast.NamedExpr) and not n.target.id.startswith(OWN))
        for n in ast.walk(tree)
    )


def are_arm(statements: Sequence[Any], within: str = "") -> bool:
    """Whether *statements* do nothing but assign variables and items, as far as that can be seen; *within*: the jump
    (``Return``, ``Continue``) that may end them."""
    return all(_may_stand(s, within) for s in statements)


def _may_stand(s: Any, within: str) -> bool:
    if type(s).__name__ == within:
        return not is_no_arm(s)
    if isinstance(s, ast.If):
        return not is_no_arm(s.test) and are_arm([*s.body, *s.orelse], within)
    if isinstance(s, ast.For):
        plain = not s.orelse and _is_target(s.target) and not is_no_arm(s.iter)
        return plain and are_arm(s.body)
    if isinstance(s, ast.Pass):
        return True
    if not isinstance(s, (*_ASSIGNS, ast.Expr)) or is_no_arm(s) or any(isinstance(n, SCOPES) for n in ast.walk(s)):
        return False
    if isinstance(s, ast.Expr):
        return True
    if isinstance(s, ast.AnnAssign) and not isinstance(s.target, ast.Name):
        return False
    return s.value is not None and all(_is_target(t) for t in _targets(s))


def _targets(s: Any) -> list[Any]:
    return s.targets if isinstance(s, ast.Assign) else [s.target]


def _is_target(target: Any) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_target, target.elts))
    return isinstance(target, ast.Name | ast.Subscript)


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


def _always(statements: Sequence[Any], jump: type) -> bool:
    """Whether *statements* end in that jump on every way."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _always(last.body, jump) and _always(last.orelse, jump)
    return isinstance(last, jump)


def _has(statements: Sequence[Any], jump: type) -> bool:
    def inside(s: Any) -> bool:
        if isinstance(s, jump):
            return True
        return isinstance(s, ast.If) and any(map(inside, [*s.body, *s.orelse]))

    return any(map(inside, statements))


def folded(block: list[Any], jump: Any, result: str) -> list[Any]:
    """*block* with the rest behind an ``if`` that jumps as its other arm, where both can be arms."""
    for k, s in enumerate(block):
        if not (isinstance(s, ast.If) and _has([s], jump)):
            continue
        rest = deepcopy(block[k + 1 :])
        if _always(s.body, jump):
            body, orelse = s.body, s.orelse if _always(s.orelse, jump) else [*s.orelse, *rest]
        elif _always(s.orelse, jump):
            body, orelse = [*s.body, *rest], s.orelse
        else:
            continue
        if not (are_arm(body, jump.__name__) and are_arm(orelse, jump.__name__)):
            continue
        ended = [_without(folded(arm, jump, result), jump, result) for arm in (body, orelse)]
        if not all(are_arm(arm) for arm in ended):
            continue
        joined = ast.copy_location(ast.If(s.test, *ended), s)
        value = ast.Name(result, ast.Load())
        after = [] if jump is ast.Continue else [ast.copy_location(ast.Return(ast.copy_location(value, s)), s)]
        return [*block[:k], joined, *after]
    return block


def _without(arm: list[Any], jump: Any, result: str) -> list[Any]:
    """*arm*, with an assignment in place of the ``return`` that ends it, or nothing in place of ``continue``."""
    arm = list(arm)
    last = arm[-1] if arm else None
    if isinstance(last, jump):
        arm.pop()
    if jump is ast.Return and not (isinstance(last, ast.Return) and getattr(last.value, "id", "") == result):
        value = last.value if isinstance(last, ast.Return) and last.value is not None else ast.Constant(None)
        if last is None or not isinstance(last, ast.Return) or last.value is None:
            ast.fix_missing_locations(value)
        target = ast.Name(result, ast.Store())
        at = last or arm
        found = ast.Assign([target], value)
        arm.append(ast.copy_location(found, at) if isinstance(at, ast.AST) else found)
        if isinstance(last, ast.Return):
            ast.copy_location(target, last)
    return arm or [ast.Pass()]


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
