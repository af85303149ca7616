"""Copies in which both arms of an ``if`` can run: the frame says at each choice whether they do.

``convert(code, by_arms=True)`` takes every ``if`` statement, conditional expression and ``and``/``or`` apart whose arms
do nothing but assign::

    _tg_arms0 = FRAME.branch(0, test)
    if _tg_arms0.body(): ...                    # the first arm
    if _tg_arms0.merges: x, = _tg_arms0.swap()  # what it has assigned is kept, and is as it was before
    if _tg_arms0.orelse(): ...                  # the other arm
    if _tg_arms0.merges: x, y = _tg_arms0.merge()

``return`` and ``continue`` in an arm make the rest of the block the other arm.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from .comprehensions import Comprehensions
from .nodes import FUNCTIONS, LOAD, STORE, Place, ask, bind, constant, forget, name, of_own, place_of, walrus
from .scopes import assigned_in
from .transparent import OWN

_ASSIGNS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_FEW = 4  # statements that may stand in both arms
RESULTS = OWN + "results"  # the variable for the results of arms that return


@dataclass(frozen=True, slots=True)
class ChoiceStatement:
    """One choice: the lines of its test, from *line* to *end*; the variables to set back before the second arm, and to
    merge after it."""

    line: int
    end: int
    resets: tuple[str, ...] = ()
    merges: tuple[str, ...] = ()


class Choosing(Comprehensions):
    """The rewriting of choices, where the copy is made *by_arms*."""

    by_arms = False
    arms: list[ChoiceStatement]

    # ---- statements

    def visit_If(self, node: ast.If) -> Any:
        at = place_of(node)
        both = [*node.body, *node.orelse]
        if not (self.by_arms and are_arm(both) and not is_no_arm(node.test) and self._are_own(both)):
            return [ast.If(self.truth(node.test), self.block(node.body), self.block(node.orelse), **at)]
        bound, live = self.bindings.bound, self.liveness()
        first, second = assigned_in(node.body, bound), assigned_in(node.orelse, bound)
        resets, merges = live.at_choice(node, first, [*first, *[text for text in second if text not in first]])
        where = place_of(node.test)
        k, text = self._choice(where, resets, merges)
        before, self.temporaries = self.temporaries, []
        begun = bind(text, self._branch(k, self._whole_truth(node.test), where), where)
        used, self.temporaries = self.temporaries, before
        return [
            begun,
            *forget(used, where),
            ast.If(_of(text, "body", where), self.block(node.body), [], **at),
            *self._taken(text, "swap", resets, where),
            ast.If(_of(text, "orelse", where), self.block(node.orelse) or [ast.Pass(**where)], [], **where),
            *self._taken(text, "merge", merges, where),
            bind(text, constant(None, where), where),
        ]

    def _are_own(self, arms: Sequence[Any]) -> bool:
        """Whether all variables that the *arms* assign are local ones that nobody else has."""
        names = [n for s in arms for n in ast.walk(s) if isinstance(n, ast.Name)]
        stored = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
        return all(self.scope.kind(text) == "local" for text in stored) and stored.isdisjoint(self.bindings.captured)

    def _taken(self, text: str, method: str, variables: Sequence[str], at: Place) -> list[Any]:
        """The statement that takes *variables* from the choice, if both of its arms run."""
        value = _of(text, method, at)
        what: Any = ast.Expr(value, **at)
        if variables:
            target = ast.Tuple([ast.Name(v, STORE, **at) for v in variables], STORE, **at)
            what = ast.Assign([target], value, **at)
        return [ast.If(of_own(text, "merges", at), [what], [], **at)]

    # ---- expressions

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if not self.by_arms or is_no_arm(node):
            return super().visit_IfExp(node)
        return self._picked(self._whole_truth(node.test), self.visit(node.body), self.visit(node.orelse), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if not self.by_arms or is_no_arm(node):
            return super().visit_BoolOp(node)
        first, *others = node.values
        at = place_of(node)
        value_of = f"{OWN}value{len(self.arms)}"
        self.temporaries.append(value_of)
        test = walrus(value_of, self.visit(first), place_of(first))
        rest = self.visit(others[0] if len(others) == 1 else ast.BoolOp(node.op, others, **at))
        value = name(value_of, at)
        body, orelse = (rest, value) if isinstance(node.op, ast.And) else (value, rest)
        return self._picked(test, body, orelse, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if not (self.by_arms and isinstance(node.op, ast.Not)) or is_no_arm(node):
            return super().visit_UnaryOp(node)
        at = place_of(node)
        k, _ = self._choice(at)
        return ask("no", [constant(k, at), self._whole_truth(node.operand)], at)

    def _picked(self, test: Any, body: Any, orelse: Any, node: Any) -> Any:
        at = place_of(node)
        k, text = self._choice(place_of(getattr(node, "test", node)))
        nothing = constant(None, at)
        self.temporaries.append(text)
        first = ast.IfExp(self._begun(text, k, test, "body", at), body, nothing, **at)
        second = ast.IfExp(_of(text, "orelse", at), orelse, nothing, **at)
        return ask("pick", [first, second, name(text, at)], at)

    def _whole_truth(self, node: Any) -> Any:
        """A value of which nothing counts but whether it is true, and which is not asked yet."""
        if is_no_arm(node):
            return self.truth(node)
        at = place_of(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.visit_UnaryOp(node)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self._all_of([(x, True) for x in self._compared(node)], ast.And(), at)
        if isinstance(node, ast.BoolOp):
            return self._all_of([(x, False) for x in node.values], node.op, at)
        return self.visit(node)

    def _all_of(self, values: Sequence[tuple[Any, bool]], op: Any, at: Place) -> Any:
        """The truth of ``and`` or ``or`` over *values*, each with whether it is an expression of the copy."""
        (first, made), *others = values
        test = first if made else self._whole_truth(first)
        if not others:
            return test
        k, text = self._choice(at)
        self.temporaries.append(text)
        both = isinstance(op, ast.And)
        rest = self._all_of(others, op, at)
        then = ast.IfExp(self._begun(text, k, test, "body" if both else "orelse", at), rest, constant(None, at), **at)
        return ask("both" if both else "either", [then, name(text, at)], at)

    # ---- parts

    def _choice(self, at: Place, resets: Sequence[str] = (), merges: Sequence[str] = ()) -> tuple[int, str]:
        """(the number of a new choice, whose test is *at* this place; the name of its object in the copy)"""
        self.arms.append(ChoiceStatement(at["lineno"], at["end_lineno"], tuple(resets), tuple(merges)))
        number = len(self.arms) - 1
        return number, f"{OWN}arms{number}"

    def _branch(self, k: int, test: Any, at: Place) -> Any:
        return ask("branch", [constant(k, at), test], at)

    def _begun(self, text: str, k: int, test: Any, method: str, at: Place) -> Any:
        begun = walrus(text, self._branch(k, test, at), at)
        return ast.Call(ast.Attribute(begun, method, LOAD, **at), [], [], **at)


def _of(text: str, method: str, at: Place) -> Any:
    return ast.Call(of_own(text, method, at), [], [], **at)


# ---- what can be an arm


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
    if not isinstance(s, (*_ASSIGNS, ast.Expr)) or is_no_arm(s) or any(isinstance(n, FUNCTIONS) for n in ast.walk(s)):
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


# ---- jumps in arms


def by_arms(function: Any) -> Any:
    """A copy of a FunctionDef in which the rest behind an ``if`` that returns, or goes on with the next iteration of a
    loop, is its other arm."""
    made = deepcopy(function)
    made.body = folded([_Folded().visit(s) for s in made.body], ast.Return, RESULTS)
    return made


class _Folded(ast.NodeTransformer):
    def visit_For(self, node: Any) -> Any:
        self.generic_visit(node)
        node.body = folded(node.body, ast.Continue, "")
        return node

    visit_While = visit_For

    def visit_Lambda(self, node: Any) -> Any:
        return node

    visit_FunctionDef = visit_Lambda


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
        elif len(rest) <= _FEW:
            body, orelse = [*s.body, *rest], [*s.orelse, *deepcopy(rest)]
        else:
            continue
        if not (are_arm(body, jump.__name__) and are_arm(orelse, jump.__name__)):
            continue
        ended = [_without(folded(arm, jump, result), jump, result, s) for arm in (body, orelse)]
        if not all(are_arm(arm) for arm in ended):
            continue
        at = place_of(s)
        after = [] if jump is ast.Continue else [ast.Return(name(result, at), **at)]
        return [*block[:k], ast.If(s.test, *ended, **at), *after]
    return block


def _without(arm: list[Any], jump: Any, result: str, around: Any) -> list[Any]:
    """*arm*, with an assignment in place of the ``return`` that ends it, or nothing in place of ``continue``."""
    arm = list(arm)
    last = arm[-1] if arm else None
    if isinstance(last, jump):
        arm.pop()
    if jump is ast.Return and not (isinstance(last, ast.Return) and getattr(last.value, "id", "") == result):
        at = place_of(last if last is not None else around)
        value = last.value if isinstance(last, ast.Return) and last.value is not None else constant(None, at)
        arm.append(ast.Assign([ast.Name(result, STORE, **at)], value, **at))
    return arm or [ast.Pass(**place_of(around))]
