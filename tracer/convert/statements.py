"""Statements of a copy, and the whole function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import partial
from typing import Any

from .arms import Choosing
from .expressions import CHOICE, MIDDLE
from .nodes import (
    STORE,
    NotConvertibleError,
    Place,
    ask,
    constant,
    forget,
    function,
    is_asked,
    name,
    parameters,
    place_of,
)
from .scopes import certainly_bound
from .source import first_line
from .transparent import OWN

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Delete, ast.Assert)
_CONTEXT = OWN + "context"


class Converter(Choosing):
    """The rewriting of one function."""

    def function(self) -> Any:
        """The statement that makes the copy."""
        node, self.loops, self.arms = self.source.node, [], []
        at = place_of(node)
        if isinstance(node, ast.Lambda):
            where = place_of(node.body)
            body = self.block([ast.Return(node.body, **where)])
            first: list[Any] = []
        else:
            body, first = self.block(node.body), first_line(node)
        own = [self.unbound(text, at) for text in self.bindings.in_comprehensions]
        documented = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        body[documented:documented] = own
        return function(self.code.co_name, parameters(node.args), body, at, first)

    def block(self, statements: Sequence[Any]) -> list[Any]:
        made: list[Any] = []
        certain = set(self.certain)
        for statement in statements:
            line, self.line = self.line, _first_of(statement)
            made += self.alone(partial(self._statement, statement))
            self.line = line
            self.certain.update(certainly_bound(statement))
        self.certain = certain
        return made

    def _statement(self, statement: Any) -> list[Any]:
        self.parts, before, around = 0, self.choices, self.temporaries
        self.temporaries = []
        made = self.visit(statement)
        if isinstance(statement, _SIMPLE):
            own = [CHOICE, MIDDLE] if self.choices > before else []
            made += forget([*own, *self.temporaries], place_of(statement))
        self.temporaries = around
        return made

    # ---- simple statements

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant):
            return [node]
        found = self.visit(node.value)
        if self.direct and isinstance(node.value, ast.Call) and is_asked(found, "result"):
            (found,) = found.args  # which nobody has
        return [ast.Expr(found, **place_of(node))]

    def visit_Pass(self, node: Any) -> Any:
        return [node]

    visit_Global = visit_Nonlocal = visit_Pass

    def visit_Assert(self, node: ast.Assert) -> Any:
        text = None if node.msg is None else self.visit(node.msg)
        return [ast.Assert(self.truth(node.test), text, **place_of(node))]

    def visit_Raise(self, node: ast.Raise) -> Any:
        parts = [None if x is None else self.visit(x) for x in (node.exc, node.cause)]
        return [ast.Raise(*parts, **place_of(node))]

    def visit_Import(self, node: ast.Import) -> Any:
        made: list[Any] = [node]
        for alias in node.names:
            text = alias.asname or alias.name.split(".")[0]
            made += self._imported(text, alias.name if alias.asname else text, None, place_of(alias))
        return made

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        module = "." * node.level + (node.module or "")
        made: list[Any] = [node]
        for alias in node.names:
            made += self._imported(alias.asname or alias.name, module, alias.name, place_of(alias))
        return made

    def _imported(self, text: str, module: str, attribute: str | None, at: Place) -> list[Any]:
        parts = [constant(module, at), constant(attribute, at), name(text, at)]
        return self.stored(ast.Name(text, STORE, **at), ask("imported", parts, at))

    # ---- compound statements

    def visit_With(self, node: ast.With) -> Any:
        targets = [item.optional_vars for item in node.items]
        if all(t is None or self.is_local(t) for t in targets):
            items = [ast.withitem(self._context(item), item.optional_vars) for item in node.items]
            return [ast.With(items, self.block(node.body), None, **place_of(node))]
        item, *others = node.items
        context, target = self._context(item), item.optional_vars
        target, stores = (None, []) if target is None else self.in_place_of(target, _CONTEXT)
        if others:
            inner = self.alone(lambda: self.visit_With(ast.With(others, node.body, None, **place_of(node))))
        else:
            inner = self.block(node.body)
        return [ast.With([ast.withitem(context, target)], [*stores, *inner], None, **place_of(node))]

    def _context(self, item: ast.withitem) -> Any:
        return ask("context", [self.visit(item.context_expr)], place_of(item.context_expr))

    def visit_Try(self, node: Any) -> Any:
        handlers = []
        for h in node.handlers:
            if h.name is not None and self.scope.kind(h.name) != "local":
                raise NotConvertibleError("it catches an exception as a variable that is not local")
            caught = None if h.type is None else self.visit(h.type)
            handlers.append(ast.ExceptHandler(caught, h.name, self.block(h.body), **place_of(h)))
        parts = [self.block(part) for part in (node.body, node.orelse, node.finalbody)]
        return [type(node)(parts[0], handlers, parts[1], parts[2], **place_of(node))]

    visit_TryStar = visit_Try

    # ---- functions

    def visit_FunctionDef(self, node: Any) -> Any:
        decorators = [ask("decorator", [self.visit(d)], place_of(d)) for d in node.decorator_list]
        args, returns = self.parameters(node.args), self.annotation(node.returns)
        at = place_of(node)
        made = function(node.name, args, node.body, at, decorators)
        made.returns = returns
        kind = self.scope.kind(node.name)
        if kind == "local":
            return [made]
        return [made, ast.Expr(self.store_name(node.name, kind, name(node.name, at), at), **at)]


def _first_of(statement: Any) -> Place:
    """The place where a statement begins, decorators included."""
    decorators = getattr(statement, "decorator_list", ())
    return place_of(decorators[0] if decorators else statement)
