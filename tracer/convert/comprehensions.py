"""Comprehensions and generator expressions: functions of the copy, whose loops are loops as others are.

They stand before the statement that has them and are called at their place.
"""

from __future__ import annotations

import ast
import sys
from functools import partial
from typing import Any

from .loops import PLACE_OF_WHOLE, Loops, LoopStatement, nested_loops, read_in
from .nodes import LOAD, Place, ask, bind, constant, function, name, place_of, positional
from .scopes import Scope, assigned_in, elements, stored_in
from .transparent import OWN

_MADE, _KEY, _STEP, _FIRST = OWN + "made", OWN + "key", OWN + "step", ".0"
_NAMES: dict[type, str] = {
    ast.ListComp: "<listcomp>",
    ast.SetComp: "<setcomp>",
    ast.DictComp: "<dictcomp>",
    ast.GeneratorExp: "<genexpr>",
}
_INLINE = sys.version_info >= (3, 12)  # where ``super()`` is the function's in all but generator expressions


class Folded:
    """In the place of a class of nodes: a generator expression whose elements become one value."""


class Comprehensions(Loops):
    """The rewriting of comprehensions."""

    def visit_ListComp(self, node: Any) -> Any:
        at, iterable = place_of(node), self._first(node)
        return ast.Call(name(self._function(node, type(node)), at), [iterable], [], **at)

    visit_SetComp = visit_DictComp = visit_ListComp

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        at, iterable = place_of(node), self._first(node)
        functions = [name(self._function(node, kind), at) for kind in (ast.GeneratorExp, ast.ListComp, Folded)]
        return ask("generator", [*functions, iterable], at)

    def _first(self, node: Any) -> Any:
        """The iterable that is evaluated where *node* stands."""
        first = node.generators[0].iter
        return ask("first_iterable", [self.visit(first)], place_of(node if PLACE_OF_WHOLE else first))

    def _function(self, node: Any, kind: type) -> str:
        """The name of a function that makes what *node* is; or of what a generator expression would give a list, or one
        value, by a function of it and each element."""
        at, outer, hoisted = place_of(node), self.scope, self.hoisted
        targets = set(stored_in([g.target for g in node.generators]))
        self.scope = Scope(
            outer.bindings,
            outer.free,
            outer.cls,
            outer.local.union(targets),
            outer.first if _INLINE and type(node) is not ast.GeneratorExp else _FIRST,
            is_comprehension=True,
        )
        outside = [text for text in assigned_in([node], self.bindings.bound) if text not in self.scope.local]
        body: list[Any] = [ast.Nonlocal(outside, **at)] if outside else []
        if kind is ast.GeneratorExp:
            body += self._over(node, kind, 0, at)
        elif kind is Folded:
            body += [*self._over(node, kind, 0, at), ast.Return(name(_MADE, at), **at)]
        else:
            empty = ast.Dict([], [], **at) if kind is ast.DictComp else ast.List([], LOAD, **at)
            made: Any = ask("made", [empty], at)
            if kind is ast.SetComp:
                nothing = ast.Starred(ast.Tuple([], LOAD, **at), LOAD, **at)
                made = ask("made", [ast.Set([nothing], **at)], at)
            body += [bind(_MADE, made, at), *self._over(node, kind, 0, at), ast.Return(name(_MADE, at), **at)]
        self.scope, self.hoisted = outer, hoisted
        text = f"{OWN}comprehension{len(self.names)}"
        self.names[text] = _NAMES[type(node)]
        given = (_FIRST, _STEP, _MADE) if kind is Folded else (_FIRST,)
        hoisted.append(function(text, positional(given, at), body, self.line))
        return text

    def _over(self, node: Any, kind: type, k: int, at: Place) -> list[Any]:
        """The statements of the loops from the one numbered *k* on."""
        if k == len(node.generators):
            return self.alone(lambda: self._element(node, kind, at))
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
        again = [*walruses, *[_MADE] * (kind is Folded)]
        self.loops[number] = LoopStatement(
            (*targets, *again), tuple(again), node.lineno, node.end_lineno, mine,
            has_yield=kind is ast.GeneratorExp, reads=read_in(inner, mine), unread=tuple(targets),
            depth=len(node.generators) - k + nested_loops(inner) if kind is Folded else 1,  # no list of an inner loop's
        )  # fmt: skip

        def statements() -> list[Any]:
            iterable = self.visit(g.iter) if k else name(_FIRST, place_of(g.iter))
            body = self.rebinding(text, "symbols", again, at)
            target, stores = self.in_place_of(g.target, OWN + f"element{k}")
            body += stores
            inside = self._over(node, kind, k + 1, at)
            for test in reversed(g.ifs):
                inside = self.alone(partial(self._filtered, test, inside))
            ended = self.rebinding(text, "results", self.loops[number].assigned, at)
            return self.for_statement(number, text, iterable, target, body + inside, ended, at)

        return self.alone(statements)

    def _filtered(self, test: Any, inside: list[Any]) -> list[Any]:
        return [ast.If(self.truth(test), inside, [], **place_of(test))]

    def _element(self, node: Any, kind: type, at: Place) -> list[Any]:
        made = name(_MADE, at)
        if _INLINE:
            at = place_of(elements(node)[0])
            at.update({k: v for k, v in place_of(elements(node)[-1]).items() if k.startswith("end_")})
        if kind is ast.GeneratorExp:
            return [ast.Expr(ast.Yield(self.visit(node.elt), **at), **at)]
        if kind is Folded:
            return [bind(_MADE, ask("call", [name(_STEP, at), made, self.visit(node.elt)], at), at)]
        if isinstance(node, ast.DictComp):
            key, value = self.visit(node.key), self.visit(node.value)
            kept = ask("set_item", [value, made, name(_KEY, at)], at)
            return [bind(_KEY, key, at), ast.Expr(kept, **at)]
        method = constant("append" if kind is ast.ListComp else "add", at)
        return [ast.Expr(ask("call_method", [made, method, self.visit(node.elt)], at), **at)]
