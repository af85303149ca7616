"""Expressions of a copy: each becomes a call of the frame, evaluated in Python's order and at its place."""

from __future__ import annotations
import __future__

import ast
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from .matches import PatternParts
from .nodes import (
    LOAD,
    NotConvertibleError,
    Place,
    arguments,
    ask,
    attribute_place,
    constant,
    is_one_item,
    name,
    parameter_names,
    place_of,
    walrus,
)
from .scopes import Bindings, Scope
from .source import ProvenSource
from .transparent import ARITHMETIC, COMPARED, OWN

OPERATORS: dict[type, str] = dict(zip((
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.BitAnd, ast.BitOr, ast.BitXor,
    ast.LShift, ast.RShift,
), ARITHMETIC, strict=True))  # fmt: skip
_UNARY: dict[type, str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
_COMPARISONS: dict[type, str] = {
    **dict(zip((ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq), COMPARED, strict=True)),
    ast.Is: "is_", ast.IsNot: "is_not", ast.In: "in_", ast.NotIn: "not_in",
}  # fmt: skip
_ANNOTATIONS = __future__.annotations.compiler_flag
_LAZY_ANNOTATIONS = sys.version_info >= (3, 14)
# Names for what an expression needs twice.  They are free again once it is evaluated.
CHOICE, MIDDLE = OWN + "choice", OWN + "middle"
_OF_FRAMES = frozenset(("locals", "eval", "exec", "super"))  # builtins that look at the frame of their caller


class Expressions(ast.NodeVisitor):
    """The rewriting of expressions; ``visit`` gives the new one, and leaves the old one as it is."""

    def __init__(self, code: CodeType, source: ProvenSource, bindings: Bindings) -> None:
        self.code, self.source, self.bindings = code, source, bindings
        first = code.co_varnames[0] if code.co_argcount else None
        self.scope = Scope(bindings, frozenset(code.co_freevars), source.around.cls, first=first)
        self.certain = set(parameter_names(source.node.args))  # local names that are bound here
        self.uncertain = bindings.unbound | bindings.captured
        self.hoisted: list[Any] = []  # functions that stand before the statement
        self.names: dict[str, str] = {}  # of those functions, as the user knows them
        self.line: Place = {}  # of the statement
        self.choices = 0
        self.direct = False  # whether the copy itself calls what ``call`` gives
        self.temporaries: list[str] = []  # names of the copy that the statement has values in
        self.evaluates_annotations = not _LAZY_ANNOTATIONS and not source.around.flags & _ANNOTATIONS

    def generic_visit(self, node: Any) -> Any:
        raise NotConvertibleError(f"it has a {type(node).__name__}")

    def each(self, nodes: Any) -> list[Any]:
        return [self.visit(node) for node in nodes]

    def alone(self, make: Callable[[], list[Any]]) -> list[Any]:
        """Statements, and before them the functions of the comprehensions in them."""
        hoisted, self.hoisted = self.hoisted, []
        made = make()
        made[:0] = self.hoisted
        self.hoisted = hoisted
        return made

    # ---- names and constants

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        kind = self.scope.kind(node.id)
        if kind == "local" or node.id == "__debug__":
            return node
        if kind == "global" and node.id in _OF_FRAMES:
            raise NotConvertibleError(f"it hands on {node.id}")
        return self.load(node.id, kind, place_of(node))

    def load(self, text: str, kind: str, at: Place) -> Any:
        """A variable that is no local one."""
        return ask("load_global" if kind == "global" else "load_free", [constant(self.scope.mangled(text), at)], at)

    def store_name(self, text: str, kind: str, value: Any, at: Place) -> Any:
        """The expression that assigns a variable that is no local one."""
        method = "store_global" if kind == "global" else "store_free"
        return ask(method, [constant(self.scope.mangled(text), at), value], at)

    def visit_PatternParts(self, node: PatternParts) -> Any:
        return ask(node.method, [self.visit(part) for part in node.args], place_of(node))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value, at = self.visit(node.value), place_of(node)
        kind = self.scope.kind(node.target.id)
        if kind == "local":
            return ast.NamedExpr(node.target, value, **at)
        return self.store_name(node.target.id, kind, value, at)

    # ---- attributes and items

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        at = attribute_place(node)
        return ask("attr", [self.visit(node.value), constant(self.scope.mangled(node.attr), at)], at)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return ask("item", [self.visit(node.value), self.index(node.slice)], place_of(node))

    def index(self, node: Any) -> Any:
        """The object that an item is asked for by."""
        if isinstance(node, ast.Slice):
            at = place_of(node)
            parts = [constant(None, at) if x is None else self.visit(x) for x in (node.lower, node.upper, node.step)]
            return ask("slice", parts, at)
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self.index(x) for x in node.elts], LOAD, **place_of(node))
        return self.visit(node)

    # ---- calls

    def visit_Call(self, node: ast.Call) -> Any:
        func = node.func
        if isinstance(func, ast.Name) and self.scope.kind(func.id) == "global":
            special = self._of_frames(func.id, node)
            if special is not None:
                return special
        if isinstance(func, ast.Attribute):
            return self._method(node, func)
        return self._called(self.visit(func), node, place_of(node))

    def _called(self, func: Any, node: ast.Call, at: Place) -> Any:
        """The call of what *func*, an expression of the copy, gives."""
        if _is_plain_call(node):
            given = self.each(node.args)
            is_len = isinstance(node.func, ast.Name) and node.func.id == "len" and self.scope.kind("len") == "global"
            if is_len and len(node.args) == 1 and is_one_item(node.args[0]):
                given[0].func.attr = "item_measured"
            return self._done("call", [func, *given], at, self._keywords(node))
        if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            args = self.visit(node.args[0].value)
        else:
            args = ast.Tuple(self.each(node.args), LOAD, **at)
        parts: list[Any] = []
        for k in node.keywords:
            value, where = self.visit(k.value), place_of(k)
            if k.arg is None:
                parts.append(ask("mapping", [value], where))
                continue
            if not parts or not isinstance(parts[-1], ast.Dict):
                parts.append(ast.Dict([], [], **where))
            parts[-1].keys.append(constant(k.arg, where))
            parts[-1].values.append(value)
        return self._done("call_ex", [func, args, ast.Tuple(parts, LOAD, **at)], at, [])

    def _done(self, method: str, args: list[Any], at: Place, keywords: list[Any]) -> Any:
        """A call by the frame; where the copy itself calls, of what the frame gives for it."""
        if not self.direct:
            return ask(method, args, at, keywords)
        return ask("result", [ast.Call(ask(f"to_{method}", args, at, keywords), [], [], **at)], at)

    def _keywords(self, node: ast.Call) -> list[Any]:
        return [ast.keyword(k.arg, self.visit(k.value), **place_of(k)) for k in node.keywords]

    def visit_Starred(self, node: ast.Starred) -> Any:
        at = place_of(node)
        return ast.Starred(ask("splat", [self.visit(node.value)], at), LOAD, **at)

    def _method(self, node: ast.Call, func: ast.Attribute) -> Any:
        at, text = place_of(node), self.scope.mangled(func.attr)
        given = [*node.args, *[k.value for k in node.keywords]]
        plain = _is_plain_call(node)
        imported = isinstance(func.value, ast.Name) and func.value.id in self.source.imported
        if plain and not imported and len(given) < 29 and func.lineno != func.end_lineno:
            at.update({k: v for k, v in attribute_place(func).items() if not k.startswith("end_")})
        of, where = self.visit(func.value), attribute_place(func)
        method = constant(text, where)
        if plain and not self.direct and all(map(self._is_plain, given)):
            return ask("call_method", [of, method, *self.each(node.args)], at, self._keywords(node))
        return self._called(ask("method", [of, method], where), node, at)

    def _is_plain(self, node: Any) -> bool:
        """Whether the value is there without running any code."""
        if isinstance(node, ast.Name):
            bound = node.id in self.scope.local or (node.id in self.certain and node.id not in self.uncertain)
            return bound and self.scope.kind(node.id) == "local"
        return isinstance(node, ast.Constant) or _is_number(node)

    def _of_frames(self, text: str, node: ast.Call) -> Any:
        """The call of a builtin that asks for the frame of its caller; None if it is another one."""
        at, bare = place_of(node), not node.args and not node.keywords
        if text == "super" and bare:
            first = self.scope.first
            if first is None or "__class__" not in self.code.co_freevars:
                return node  # which raises
            return ask("super", [self.load("__class__", "free", at), name(first, at)], at)
        if text in ("eval", "exec") and len(node.args) + len(node.keywords) < 2 and not self.direct:
            raise NotConvertibleError(f"it calls {text} without namespaces")
        if text == "globals" and bare:
            return ask("globals", [], at)
        if text in ("locals", "vars", "dir") and bare:
            if self.scope.is_comprehension:
                raise NotConvertibleError("it asks for the variables of a comprehension")
            found = ask("locals", [ast.Call(name("locals", at), [], [], **at)], at)
            return ask("dir", [found], at) if text == "dir" else found
        if text in _OF_FRAMES:
            return self._called(self.load(text, "global", place_of(node.func)), node, at)
        return None

    # ---- operators

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        if _is_number(node):
            return node
        method = OPERATORS[type(node.op)]
        return ask(method, [self.visit(node.left), self.visit(node.right)], place_of(node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(node.op, self.truth(node.operand), **place_of(node))
        if _is_number(node):
            return node
        return ask(_UNARY[type(node.op)], [self.visit(node.operand)], place_of(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        *firsts, last = node.values
        return self._chosen(self.each(firsts), self.visit(last), isinstance(node.op, ast.And), place_of(node))

    def _chosen(self, firsts: list[Any], last: Any, goes_on: bool, at: Place) -> Any:
        """The value of ``and``, which goes on where a value is true, or of ``or``."""
        self.choices += 1
        for value in reversed(firsts):
            test = ask("test", [walrus(CHOICE, value, at)], at)
            kept = name(CHOICE, at)
            last = ast.IfExp(test, last, kept, **at) if goes_on else ast.IfExp(test, kept, last, **at)
        return last

    def visit_Compare(self, node: ast.Compare) -> Any:
        *firsts, last = self._compared(node)
        return self._chosen(firsts, last, True, place_of(node)) if firsts else last

    def _compared(self, node: ast.Compare) -> list[Any]:
        """The comparisons of a chain, one after the other."""
        at, made, left = place_of(node), [], self.visit(node.left)
        for k, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            value = self.visit(right)
            if k < len(node.ops) - 1:
                self.choices += 1
                value = walrus(MIDDLE, value, at)
            made.append(ask(_COMPARISONS[type(op)], [left, value], at))
            left = name(MIDDLE, at)
        return made

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test = self.truth(node.test)
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse), **place_of(node))

    def truth(self, node: Any, unwrapped: bool = False) -> Any:
        """An expression of which nothing counts but whether it is true; the last value as it is, if *unwrapped*."""
        at = place_of(node)
        if isinstance(node, ast.BoolOp):
            *firsts, last = node.values
            return ast.BoolOp(node.op, [*map(self.truth, firsts), self.truth(last, unwrapped)], **at)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.UnaryOp(node.op, self.truth(node.operand), **at)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            made = self._compared(node)
            tests = [ask("test", [x], at) for x in made[: len(made) - unwrapped]]
            return ast.BoolOp(ast.And(), [*tests, *made[len(tests) :]], **at)
        value = self.visit(node)
        return value if unwrapped or isinstance(node, ast.Constant) else ask("test", [value], at)

    # ---- texts and displays

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        at = place_of(node)
        made = ast.JoinedStr(self.each(node.values), **at)
        asked = any(isinstance(part, ast.FormattedValue) for part in node.values)
        return ask("text", [made], at) if asked else made

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        at, spec = place_of(node), node.format_spec
        conversion = "" if node.conversion < 0 else chr(node.conversion)
        made = [
            self.visit(node.value),
            constant(conversion, at),
            constant("", at) if spec is None else self.visit(spec),
        ]
        return ast.FormattedValue(ask("format", made, at), -1, None, **at)

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return ast.Tuple(self.each(node.elts), LOAD, **place_of(node))

    def visit_List(self, node: ast.List) -> Any:
        at = place_of(node)
        return ask("made", [ast.List(self.each(node.elts), LOAD, **at)], at)

    def visit_Set(self, node: ast.Set) -> Any:
        at = place_of(node)
        return ask("made", [ast.Set(self.each(node.elts), **at)], at)

    def visit_Dict(self, node: ast.Dict) -> Any:
        at = place_of(node)
        keys: list[Any] = []
        values: list[Any] = []
        for key, value in zip(node.keys, node.values, strict=True):
            keys.append(None if key is None else self.visit(key))
            given = self.visit(value)
            values.append(ask("mapping", [given], place_of(value)) if key is None else given)
        return ask("made", [ast.Dict(keys, values, **at)], at)

    # ---- functions

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return ast.Lambda(self.parameters(node.args), node.body, **place_of(node))

    def parameters(self, args: ast.arguments) -> Any:
        """The parameters of a function in this one, whose default values and annotations are evaluated here."""
        defaults = self.each(args.defaults)
        kw_defaults = [None if d is None else self.visit(d) for d in args.kw_defaults]
        groups = [[self._parameter(a) for a in group] for group in (args.posonlyargs, args.args, args.kwonlyargs)]
        vararg, kwarg = self._parameter(args.vararg), self._parameter(args.kwarg)
        return arguments(groups[0], groups[1], vararg, groups[2], kw_defaults, kwarg, defaults)

    def _parameter(self, a: ast.arg | None) -> Any:
        if a is None or a.annotation is None or not self.evaluates_annotations:
            return a
        return ast.arg(a.arg, self.annotation(a.annotation), **place_of(a))

    def annotation(self, node: Any) -> Any:
        return self.visit(node) if node is not None and self.evaluates_annotations else node

    # ---- generators

    def visit_Yield(self, node: ast.Yield) -> Any:
        return ast.Yield(None if node.value is None else self.visit(node.value), **place_of(node))

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        at = place_of(node)
        return ast.YieldFrom(ask("iter", [self.visit(node.value)], at), **at)


def _is_plain_call(node: ast.Call) -> bool:
    """Whether a call has neither ``*`` nor ``**``."""
    return not any(isinstance(a, ast.Starred) for a in node.args) and all(k.arg for k in node.keywords)


def _is_number(node: Any) -> bool:
    """Whether an expression is of numbers alone, which the compiler computes."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float | complex)
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not) and _is_number(node.operand)
    return isinstance(node, ast.BinOp) and _is_number(node.left) and _is_number(node.right)
