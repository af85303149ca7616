"""Assignments and deletions: local names stay, all else is a call of the frame, from left to right."""

from __future__ import annotations

import ast
from typing import Any

from .expressions import OPERATORS, Expressions
from .nodes import LOAD, STORE, ask, attribute_place, bind, constant, forget, name, place_of, walrus
from .transparent import OWN

_VALUE, _OBJECT, _INDEX = OWN + "value", OWN + "object", OWN + "index"


class Targets(Expressions):
    """The rewriting of statements that bind; ``visit`` of a statement gives a list of them."""

    def is_local(self, target: Any) -> bool:
        return isinstance(target, ast.Name) and self.scope.kind(target.id) == "local"

    def in_place_of(self, target: Any, text: str) -> tuple[Any, list[Any]]:
        """(the target of a statement that binds *target*: where that is no local name this one of the copy; the
        statements that assign it then)"""
        if self.is_local(target):
            return target, []
        at = place_of(target)
        return ast.Name(text, STORE, **at), [*self.stored(target, name(text, at)), *forget([text], at)]

    def stored(self, target: Any, value: Any) -> list[Any]:
        """The statements that assign *value*, an expression of the copy."""
        at = place_of(target)
        if isinstance(target, ast.Name):
            if self.is_local(target):
                return [ast.Assign([target], value, **at)]
            made = self.store_name(target.id, self.scope.kind(target.id), value, at)
        elif isinstance(target, ast.Attribute):
            at, text = attribute_place(target), self.scope.mangled(target.attr)
            made = ask("set_attr", [value, self.visit(target.value), constant(text, at)], at)
        elif isinstance(target, ast.Subscript):
            made = ask("set_item", [value, self.visit(target.value), self.index(target.slice)], at)
        else:
            return self._unpacked(target, value)
        return [ast.Expr(made, **at)]

    def _unpacked(self, target: Any, value: Any) -> list[Any]:
        at, elts = place_of(target), target.elts
        star = next((k for k, x in enumerate(elts) if isinstance(x, ast.Starred)), None)
        if star is None:
            value = ask("unpack", [value, constant(len(elts), at)], at)
        else:
            counts = [constant(n, at) for n in (star, len(elts) - star - 1)]
            value = ask("unpack_star", [value, *counts], at)
        bare = [x.value if isinstance(x, ast.Starred) else x for x in elts]
        if all(map(self.is_local, bare)):
            return [ast.Assign([target], value, **at)]
        names = [f"{OWN}part{self.parts + k}" for k in range(len(elts))]
        self.parts += len(elts)
        parts: list[Any] = [ast.Name(text, STORE, **at) for text in names]
        if star is not None:
            parts[star] = ast.Starred(parts[star], STORE, **at)
        made: list[Any] = [ast.Assign([ast.Tuple(parts, STORE, **at)], value, **at)]
        for text, x in zip(names, bare, strict=True):
            made += self.stored(x, name(text, place_of(x)))
        return made + forget(names, at)

    parts = 0  # names given out in this statement

    def visit_Assign(self, node: ast.Assign) -> Any:
        at, value, targets = place_of(node), self.visit(node.value), node.targets
        if all(map(self.is_local, targets)):
            return [ast.Assign(targets, value, **at)]
        if len(targets) == 1:
            target: Any = targets[0]
            if self._matches(target, value):
                return [ast.Assign(targets, value, **at)]
            return self.stored(target, value)
        made = [bind(_VALUE, value, at)]
        for target in targets:
            made += self.stored(target, name(_VALUE, place_of(target)))
        return made + forget([_VALUE], at)

    def _matches(self, target: Any, value: Any) -> bool:
        """Whether local names are assigned from a tuple of as many expressions."""
        if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
            return False
        return all(map(self.is_local, target.elts)) and not any(isinstance(x, ast.Starred) for x in value.elts)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        at = place_of(node)
        if node.value is not None:
            return self.stored(node.target, self.visit(node.value))
        if isinstance(node.target, ast.Name):
            return [self.unbound(node.target.id, at)]
        evaluated = [self.visit(node.target.value)]
        if isinstance(node.target, ast.Subscript):
            evaluated.append(self.index(node.target.slice))
        return [ast.Expr(x, **at) for x in evaluated]

    def unbound(self, text: str, at: Any) -> Any:
        """A statement that makes *text* a local variable, and nothing else."""
        return ast.AnnAssign(ast.Name(text, STORE, **at), constant(None, at), None, 1, **at)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        at, target = place_of(node), node.target
        method = "i" + OPERATORS[type(node.op)].rstrip("_")
        value = self.visit(node.value)
        if isinstance(target, ast.Name):
            where, kind = place_of(target), self.scope.kind(target.id)
            if kind == "local":
                changed = ask(method, [ast.Name(target.id, LOAD, **where), value], at)
                return [ast.Assign([target], changed, **at)]
            changed = ask(method, [self.load(target.id, kind, where), value], at)
            return [ast.Expr(self.store_name(target.id, kind, changed, at), **at)]
        of, again = self._twice(target.value, _OBJECT)
        if isinstance(target, ast.Attribute):
            where, text = attribute_place(target), self.scope.mangled(target.attr)
            old = ask("attr", [of, constant(text, where)], where)
            made = ask("set_attr", [ask(method, [old, value], at), again, constant(text, where)], where)
        else:
            where = place_of(target)
            index, same = self._twice(target.slice, _INDEX)
            old = ask("item", [of, index], where)
            made = ask("set_item", [ask(method, [old, value], at), again, same], where)
        own = [x.id for x in (again, *made.args[2:]) if isinstance(x, ast.Name) and x.id in (_OBJECT, _INDEX)]
        return [ast.Expr(made, **at), *forget(own, at)]

    def _twice(self, node: Any, text: str) -> tuple[Any, Any]:
        """An expression to be evaluated, and one that gives the same object afterwards."""
        if isinstance(node, ast.Constant):
            return node, node
        steady = isinstance(node, ast.Name) and self.is_local(node) and not self.bindings.walruses
        if steady and node.id not in self.code.co_cellvars and node.id not in self.bindings.captured:
            return node, node
        at = place_of(node)
        return walrus(text, self.index(node), at), name(text, at)

    def visit_Delete(self, node: ast.Delete) -> Any:
        return [made for target in node.targets for made in self._deleted(target)]

    def _deleted(self, target: Any) -> list[Any]:
        at = place_of(target)
        if isinstance(target, ast.Tuple | ast.List):
            return [made for x in target.elts for made in self._deleted(x)]
        if isinstance(target, ast.Name):
            kind = self.scope.kind(target.id)
            if kind == "local":
                return [ast.Delete([target], **at)]
            method = "del_global" if kind == "global" else "del_free"
            made = ask(method, [constant(self.scope.mangled(target.id), at)], at)
        elif isinstance(target, ast.Attribute):
            at, text = attribute_place(target), self.scope.mangled(target.attr)
            made = ask("del_attr", [self.visit(target.value), constant(text, at)], at)
        else:
            made = ask("del_item", [self.visit(target.value), self.index(target.slice)], at)
        return [ast.Expr(made, **at)]
