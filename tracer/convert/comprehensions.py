"""Comprehensions and generator expressions: functions of the copy, whose loops are loops as others are.

They stand before the statement that has them and are called at their place.
"""

from __future__ import annotations

import ast
import sys
from functools import partial
from typing import Any

from .loops import PLACE_OF_WHOLE, Loops, LoopStatement
from .nodes import LOAD, Place, ask, bind, constant, function, name, one_argument, place_of
from .scopes import Scope, assigned_in, elements
from .transparent import OWN

_MADE, _KEY, _FIRST = OWN + "made", OWN + "key", ".0"
_NAMES: dict[type, str] = {
    ast.ListComp: "<listcomp>",
    ast.SetComp: "<setcomp>",
    ast.DictComp: "<dictcomp>",
    ast.GeneratorExp: "<genexpr>",
}
_INLINE = sys.version_info >= (3, 12)  # where ``super()`` is the function's in all but generator expressions


class Comprehensions(Loops):
    """The rewriting of comprehensions."""

    def visit_ListComp(self, node: Any) -> Any:
        at, kind = place_of(node), type(node)
        outer, hoisted = self.scope, self.hoisted
        first = node.generators[0].iter
        iterable = ask("first_iterable", [self.visit(first)], at if PLACE_OF_WHOLE else place_of(first))
        targets = {t for g in node.generators for t in _stored(g.target)}
        self.scope = Scope(
            outer.bindings,
            outer.free,
            outer.cls,
            outer.local.union(targets),
            outer.first if _INLINE and kind is not ast.GeneratorExp else _FIRST,
            is_comprehension=True,
        )
        outside = [text for text in assigned_in([node], self.bindings.bound) if text not in self.scope.local]
        body: list[Any] = [ast.Nonlocal(outside, **at)] if outside else []
        if kind is ast.GeneratorExp:
            body += self._over(node, 0, at)
        else:
            empty = ast.Dict([], [], **at) if kind is ast.DictComp else ast.List([], LOAD, **at)
            made: Any = ask("made", [empty], at)
            if kind is ast.SetComp:
                nothing = ast.Starred(ast.Tuple([], LOAD, **at), LOAD, **at)
                made = ask("made", [ast.Set([nothing], **at)], at)
            body += [bind(_MADE, made, at), *self._over(node, 0, at), ast.Return(name(_MADE, at), **at)]
        self.scope, self.hoisted = outer, hoisted
        text = f"{OWN}comprehension{len(self.names)}"
        self.names[text] = _NAMES[kind]
        hoisted.append(function(text, one_argument(_FIRST, at), body, self.line))
        return ast.Call(name(text, at), [iterable], [], **at)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def _over(self, node: Any, k: int, at: Place) -> list[Any]:
        """The statements of the loops from the one numbered *k* on."""
        if k == len(node.generators):
            return self.alone(lambda: self._element(node, at))
        g = node.generators[k]
        number = self.new_loop()
        text = f"{OWN}loop{number}"
        local = dict.fromkeys((*self.scope.local, *self.bindings.bound))
        of_targets = [x.target for x in node.generators[k:]]
        inner = [part for x in node.generators[k:] for part in x.ifs] + elements(node)
        inner += [x.iter for x in node.generators[k + 1 :]]
        walruses = [t for t in assigned_in(inner, self.bindings.bound) if t not in self.scope.local]
        targets = assigned_in(of_targets, local)
        mine = tuple(assigned_in([g.target], local))
        yields = isinstance(node, ast.GeneratorExp)
        self.loops[number] = LoopStatement(
            (*targets, *walruses), tuple(walruses), node.lineno, node.end_lineno, mine, has_yield=yields
        )

        def statements() -> list[Any]:
            iterable = self.visit(g.iter) if k else name(_FIRST, place_of(g.iter))
            target: Any = g.target
            body = self.rebinding(text, "symbols", walruses, at)
            if not self.is_local(target):
                where, element = place_of(target), OWN + f"element{k}"
                body += self.stored(target, name(element, where))
                body.append(bind(element, constant(None, where), where))
                target = ast.Name(element, ast.Store(), **where)
            inside = self._over(node, k + 1, at)
            for test in reversed(g.ifs):
                inside = self.alone(partial(self._filtered, test, inside))
            ended = self.rebinding(text, "results", self.loops[number].assigned, at)
            return self.for_statement(number, text, iterable, target, body + inside, ended, at)

        return self.alone(statements)

    def _filtered(self, test: Any, inside: list[Any]) -> list[Any]:
        return [ast.If(self.truth(test), inside, [], **place_of(test))]

    def _element(self, node: Any, at: Place) -> list[Any]:
        made = name(_MADE, at)
        if _INLINE:
            at = place_of(elements(node)[0])
            at.update({k: v for k, v in place_of(elements(node)[-1]).items() if k.startswith("end_")})
        if isinstance(node, ast.GeneratorExp):
            return [ast.Expr(ast.Yield(self.visit(node.elt), **at), **at)]
        if isinstance(node, ast.DictComp):
            key, value = self.visit(node.key), self.visit(node.value)
            kept = ask("set_item", [value, made, name(_KEY, at)], at)
            return [bind(_KEY, key, at), ast.Expr(kept, **at)]
        method = constant("append" if isinstance(node, ast.ListComp) else "add", at)
        return [ast.Expr(ask("call_method", [made, method, self.visit(node.elt)], at), **at)]


def _stored(target: Any) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
