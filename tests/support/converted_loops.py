"""Functions with their loops spelled as the converted copy of recorded code has them (``tracer/loops/for_loop.py``).

``converted(f)`` runs *f* as it is where nothing is recorded."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from tracegrad.tracer.convert.loops import LoopStatement
from tracegrad.tracer.loops import for_loop, items, while_loop
from tracegrad.tracer.loops.iterables import symbolic_range
from tracegrad.tracer.record.recorder import current_recorder


def _recorder() -> Any:
    found = current_recorder()
    assert found is not None
    return found


def _innermost() -> Any:
    loops = _recorder().open_loops
    return loops[-1] if loops else None


class Calls:
    """What the copy calls."""

    @staticmethod
    def loop(description: LoopStatement, iterable: Any) -> Any:
        return for_loop.begin(_recorder(), iterable, description)

    @staticmethod
    def while_loop(description: LoopStatement) -> Any:
        return while_loop.begin_while(_recorder(), description)

    @staticmethod
    def range(*args: Any) -> Any:
        return symbolic_range(_recorder(), *args)

    @staticmethod
    def item(a: Any, index: Any) -> Any:
        return items.item(_recorder(), a, index)

    @staticmethod
    def made(value: Any) -> Any:
        loop = _innermost()
        if loop is not None:
            loop.made_here(value)
        return value

    @staticmethod
    def length(a: Any) -> Any:
        return items.length(_recorder(), a)

    @staticmethod
    def set_item(value: Any, a: Any, index: Any) -> None:
        loop = _innermost()
        if loop is not None and isinstance(a, (list, dict)):
            loop.wrote(a, index)
        items.set_item(_recorder(), value, a, index)

    @staticmethod
    def set_attr(value: Any, obj: Any, name: str) -> None:
        loop = _innermost()
        if loop is not None:
            loop.wrote(obj, name)
        setattr(obj, name, value)

    @staticmethod
    def append(a: Any, value: Any) -> None:
        loop = _innermost()
        if loop is None or not isinstance(a, list):
            a.append(value)
        else:
            loop.append(a, value)


class _Names(ast.NodeVisitor):
    """Names that statements assign, and those that may be read before they are assigned."""

    def __init__(self) -> None:
        self.assigned: dict[str, None] = {}
        self.sure: set[str] = set()
        self.early: dict[str, None] = {}
        self.stored: dict[str, None] = {}

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.assigned[node.id] = None
            self.sure.add(node.id)
        elif node.id not in self.sure:
            self.early[node.id] = None

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.visit(ast.Name(node.target.id, ast.Load()))
            self.stored[node.target.id] = None
        self.visit(node.value)
        self.visit(node.target)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            self.stored[node.value.id] = None
        self.generic_visit(node)

    def branches(self, *bodies: list[ast.stmt]) -> None:
        before, each = set(self.sure), []
        for body in bodies:
            self.sure = set(before)
            for statement in body:
                self.visit(statement)
            each.append(self.sure)
        self.sure = set.intersection(*each)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self.branches(node.body, node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self.branches(node.body, [])

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.branches([ast.Expr(node.target), *node.body], [])  # type: ignore[list-item]
        self.branches([], [])


class _Convert(ast.NodeTransformer):
    def __init__(self, function: ast.AST) -> None:
        self.loops: list[LoopStatement] = []
        self.function = copy.deepcopy(function)

    @staticmethod
    def reads(name: str, tree: ast.AST) -> int:
        """How often *name* is read in *tree*."""
        every = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
        return sum(isinstance(node.ctx, ast.Load) for node in every)

    def _describe(
        self, statements: Iterable[ast.AST], line: int, target: Any = None
    ) -> tuple[str, LoopStatement]:  # fmt: skip
        names = _Names()
        for statement in statements:
            names.visit(statement)
        early = names.early
        assigned = tuple(names.assigned)
        # a name that is not assigned in each iteration goes on being what it was, if anybody reads it elsewhere
        elsewhere = {n for n in assigned if self.reads(n, self.function) > sum(self.reads(n, s) for s in statements)}
        carried = tuple(n for n in assigned if n in early or (n not in names.sure and n in elsewhere))
        every = [node for statement in statements for node in ast.walk(statement)]
        leaves = [any(isinstance(node, kind) for node in every) for kind in (ast.Break, ast.Return)]
        targets = tuple(n.id for n in ast.walk(target) if isinstance(n, ast.Name)) if target is not None else ()
        yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in every)
        self.loops.append(
            LoopStatement(
                assigned, carried, line, 0, targets, leaves[0], leaves[1], has_yield=yields, stored=tuple(names.stored)
            )
        )
        return f"_l{len(self.loops) - 1}", self.loops[-1]

    def visit_For(self, node: ast.For) -> Any:
        inner_target = ast.Expr(node.target)
        name, described = self._describe([inner_target, *node.body], node.lineno, node.target)
        number = len(self.loops) - 1
        self.generic_visit(node)
        node.body = [*_rebinding(name, "symbols", described.carried), *_leaving(node.body, name)]
        node.orelse = [*_rebinding(name, "results", described.assigned), *node.orelse]
        begin = ast.parse(f"{name} = _tg.loop(_tg_loops[{number}], None)").body[0]
        begin.value.args[1] = node.iter  # type: ignore[attr-defined]
        node.iter = ast.Name(name, ast.Load())
        return [begin, node]

    def visit_While(self, node: ast.While) -> Any:
        name, described = self._describe([node], node.lineno)
        number = len(self.loops) - 1
        self.generic_visit(node)
        test = ast.parse(f"if not {name}.test(None): break").body[0]
        test.test.operand.args[0] = node.test  # type: ignore[attr-defined]
        begin = ast.parse(f"{name} = _tg.while_loop(_tg_loops[{number}])").body[0]
        loop = ast.For(
            ast.Name("_", ast.Store()), ast.Name(name, ast.Load()),
            [*_rebinding(name, "symbols", described.carried), test, *_leaving(node.body, name)], [],
        )  # fmt: skip
        after = ast.If(
            ast.parse(f"{name}.ended", mode="eval").body,
            [*_rebinding(name, "results", described.assigned), *node.orelse, ast.Pass()], [],
        )  # fmt: skip
        return [begin, loop, after]

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            return _call("item", node.value, _index(node.slice))
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return ast.Expr(_call("set_item", node.value, target.value, _index(target.slice)))
        if isinstance(target, ast.Attribute):
            return ast.Expr(_call("set_attr", node.value, target.value, ast.Constant(target.attr)))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        target = node.target
        if isinstance(target, ast.Subscript):
            old = _call("item", _load(target.value), _index(target.slice))
            return ast.Expr(
                _call("set_item", ast.BinOp(old, node.op, node.value), _load(target.value), _index(target.slice))
            )
        if isinstance(target, ast.Attribute):
            old = ast.Attribute(_load(target.value), target.attr, ast.Load())
            value = ast.BinOp(old, node.op, node.value)
            return ast.Expr(_call("set_attr", value, _load(target.value), ast.Constant(target.attr)))
        return node

    def visit_List(self, node: ast.List) -> Any:
        self.generic_visit(node)
        return _call("made", node) if isinstance(node.ctx, ast.Load) else node

    def visit_Dict(self, node: ast.Dict) -> Any:
        self.generic_visit(node)
        return _call("made", node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            return _call("append", node.func.value, *node.args)
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            return _call("range", *node.args)
        if isinstance(node.func, ast.Name) and node.func.id == "len":
            return _call("length", *node.args)
        if isinstance(node.func, ast.Name) and node.func.id[0].isupper():
            return _call("made", node)
        return node


def _load(node: ast.expr) -> ast.expr:
    return node


def _index(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Slice):
        return ast.Call(
            ast.Name("slice", ast.Load()), [x or ast.Constant(None) for x in (node.lower, node.upper, node.step)], []
        )
    if isinstance(node, ast.Tuple):
        return ast.Tuple([_index(x) for x in node.elts], ast.Load())
    return node


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name("_tg", ast.Load()), name, ast.Load()), list(args), [])


def _rebinding(loop: str, what: str, names: tuple[str, ...]) -> list[ast.stmt]:
    if not names:
        return [ast.Pass()]
    return ast.parse(f"if {loop}.rebinds: {', '.join(names)}, = {loop}.{what}()").body


class _Leave(ast.NodeTransformer):
    def __init__(self, loop: str) -> None:
        self.leave = f"{loop}.leave()"

    def visit_For(self, node: ast.For) -> Any:
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        value = ast.Assign([ast.Name("_value", ast.Store())], node.value or ast.Constant(None))
        return [value, *ast.parse(self.leave).body, ast.Return(ast.Name("_value", ast.Load()))]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    def visit_Break(self, node: ast.Break) -> Any:
        return [*ast.parse(self.leave).body, node]


def _leaving(body: list[ast.stmt], loop: str) -> list[ast.stmt]:
    return [s for statement in body for s in _as_list(_Leave(loop).visit(statement))]


def _as_list(found: Any) -> list[ast.stmt]:
    return found if isinstance(found, list) else [found]


def converted(f: Callable[..., Any], source: str | None = None) -> Callable[..., Any]:
    """*f*, which while something is recorded runs with converted loops."""
    tree = ast.parse(textwrap.dedent(source or inspect.getsource(f)))
    convert = _Convert(tree)
    tree = ast.fix_missing_locations(convert.visit(tree))
    definition: Any = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    definition.decorator_list = []
    scope = {**f.__globals__, **inspect.getclosurevars(f).nonlocals, "_tg": Calls, "_tg_loops": convert.loops}
    exec(compile(tree, f.__code__.co_filename, "exec"), scope)
    twin = scope[f.__name__]

    @functools.wraps(f)
    def either(*args: Any, **kwargs: Any) -> Any:
        return (f if current_recorder() is None else twin)(*args, **kwargs)

    either.loops = convert.loops  # type: ignore[attr-defined]
    return either
