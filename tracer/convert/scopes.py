"""The variables of a function: those that it binds, those of functions around it, global ones, and who reads them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .nodes import FUNCTIONS, NotConvertibleError, parameter_names
from .transparent import OWN

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
REFUSED = {
    "ClassDef": "it has a class",
    "AsyncFunctionDef": "it has a coroutine",
    "AsyncFor": "it is a coroutine",
    "AsyncWith": "it is a coroutine",
    "Await": "it is a coroutine",
    "TypeAlias": "it has a type alias",
    "TemplateStr": "it has a template string",
}


@dataclass(slots=True)
class Bindings:
    """The variables of one function, as they are written."""

    bound: dict[str, None] = field(default_factory=dict)  # local ones, in their order
    declared: dict[str, str] = field(default_factory=dict)  # by ``global`` or ``nonlocal``
    captured: set[str] = field(default_factory=set)  # read or written by code that may run later
    in_comprehensions: dict[str, None] = field(default_factory=dict)  # bound by walruses there
    unbound: set[str] = field(default_factory=set)  # by ``del`` or at the end of an ``except`` clause
    walruses: bool = False


class _Finder(ast.NodeVisitor):
    """Fills the bindings of a function; refuses statements that copies do not have."""

    def __init__(self, bindings: Bindings) -> None:
        self.bindings = bindings
        self.depth = 0  # of comprehensions

    def visit(self, node: Any) -> None:
        kind = type(node)
        if kind is ast.Name:
            self._name(node)
        elif kind is ast.Constant:
            return
        elif kind.__name__ in REFUSED:
            raise NotConvertibleError(REFUSED[kind.__name__])
        else:
            special = getattr(self, "visit_" + kind.__name__, None)
            if special is not None:
                special(node)
            else:
                for child in ast.iter_child_nodes(node):
                    self.visit(child)

    def _name(self, node: ast.Name) -> None:
        if type(node.ctx) is not ast.Load and not self.depth:
            self.bindings.bound[node.id] = None
        if type(node.ctx) is ast.Del:
            self.bindings.unbound.add(node.id)

    def visit_NamedExpr(self, node: Any) -> None:
        self.bindings.walruses = True
        if self.depth:
            self.bindings.in_comprehensions[node.target.id] = None
        self.bindings.bound[node.target.id] = None
        self.visit(node.value)

    def visit_FunctionDef(self, node: Any) -> None:
        self.bindings.bound[node.name] = None
        if getattr(node, "type_params", None):
            raise NotConvertibleError("it has a function with type parameters")
        for child in (*node.decorator_list, node.args, node.returns):
            if child is not None:
                self.visit(child)
        self.bindings.captured |= free_names(node)

    def visit_Lambda(self, node: Any) -> None:
        self.visit(node.args)
        self.bindings.captured |= free_names(node)

    def visit_ListComp(self, node: Any) -> None:
        first, *others = node.generators
        self.visit(first.iter)
        if any(g.is_async for g in node.generators):
            raise NotConvertibleError("it is a coroutine")
        self.depth += 1
        for part in (first.target, *first.ifs, *others, *elements(node)):
            self.visit(part)
        self.depth -= 1

    visit_SetComp = visit_DictComp = visit_ListComp

    def visit_GeneratorExp(self, node: Any) -> None:
        self.visit_ListComp(node)
        self.bindings.captured.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name))

    def visit_Global(self, node: Any) -> None:
        self.bindings.declared.update(dict.fromkeys(node.names, "global"))

    def visit_Nonlocal(self, node: Any) -> None:
        self.bindings.declared.update(dict.fromkeys(node.names, "free"))

    def visit_Import(self, node: Any) -> None:
        for alias in node.names:
            self.bindings.bound[alias.asname or alias.name.split(".")[0]] = None

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: Any) -> None:
        if node.name is not None:
            self.bindings.bound[node.name] = None
            self.bindings.unbound.add(node.name)
        for child in ast.iter_child_nodes(node):
            self.visit(child)


def free_names(function: Any) -> set[str]:
    """The names of a FunctionDef or Lambda that are not its own variables, those of functions in it included."""
    bound, used, outer = set(parameter_names(function.args)), set(), set()
    todo = [*function.body] if isinstance(function.body, list) else [function.body]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            used |= free_names(node)
            bound.add(getattr(node, "name", ""))
            todo += [node.args, *getattr(node, "decorator_list", ())]
            continue
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.Nonlocal):
            outer.update(node.names)
        elif isinstance(node, (ast.ClassDef, *COMPREHENSIONS)):  # whose names are not the function's
            outer.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        todo += ast.iter_child_nodes(node)
    return used - bound | outer


def elements(comprehension: Any) -> list[Any]:
    """The expressions that a comprehension makes its elements of."""
    if isinstance(comprehension, ast.DictComp):
        return [comprehension.key, comprehension.value]
    return [comprehension.elt]


def bindings_of(function: Any) -> Bindings:
    """The variables of a FunctionDef or Lambda."""
    bindings = Bindings()
    finder = _Finder(bindings)
    bindings.bound.update(dict.fromkeys(parameter_names(function.args)))
    for part in function.body if isinstance(function.body, list) else [function.body]:
        finder.visit(part)
    if any(text.startswith(OWN) for text in bindings.bound):
        raise NotConvertibleError(f"it has a variable whose name begins with {OWN}")
    for text in bindings.declared:
        bindings.bound.pop(text, None)
        bindings.in_comprehensions.pop(text, None)
    return bindings


def certainly_bound(statement: Any) -> list[str]:
    """The variables that are bound once a statement is done."""
    if isinstance(statement, ast.Assign):
        return stored_in(statement.targets)
    if isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.AnnAssign) and statement.value is not None):
        return [statement.target.id] if isinstance(statement.target, ast.Name) else []
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    return []


def stored_in(targets: Sequence[Any]) -> list[str]:
    """The variables among *targets*, and in them."""
    return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and _is_stored(n)]


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def assigned_in(parts: Sequence[Any], bound: dict[str, None]) -> list[str]:
    """The variables among *bound* that statements or expressions may assign and keep, in the order of appearance."""
    finder = _Assigned()
    for part in parts:
        finder.visit(part)
    return [text for text in finder.names if text in bound and not text.startswith("@py")]


class _Assigned(ast.NodeVisitor):
    """Names that are bound; variables of ``except`` clauses are not, which are unbound behind them."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def visit_Name(self, node: Any) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names[node.id] = None

    def visit_Constant(self, node: Any) -> None:
        return

    def visit_FunctionDef(self, node: Any) -> None:
        for child in (*node.decorator_list, node.args):
            self.visit(child)
        self.names[node.name] = None

    def visit_Lambda(self, node: Any) -> None:
        self.visit(node.args)

    def visit_Import(self, node: Any) -> None:
        self.names.update(dict.fromkeys(a.asname or a.name.split(".")[0] for a in node.names))

    visit_ImportFrom = visit_Import

    def visit_ListComp(self, node: Any) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.NamedExpr):
                self.names[child.target.id] = None
        self.visit(node.generators[0].iter)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp


def written_into(parts: Sequence[Any]) -> list[str]:
    """The variables whose values are changed in place, by an item or by ``+=``, and that are bound to no others."""
    found: dict[str, None] = {}
    bound: set[str] = set()
    nodes = [node for part in parts for node in ast.walk(part)]
    changed = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.value.id] = None
        elif isinstance(node, ast.Name) and id(node) in changed:
            found[node.id] = None
        elif isinstance(node, ast.Name) and _is_stored(node):
            bound.add(node.id)
    return [text for text in found if text not in bound]


def _is_near(index: ast.expr) -> bool:
    """Whether *index* is a variable and a number: a counter, most likely, so the element is always as far from the last
    one."""
    return (
        isinstance(index, ast.BinOp)
        and isinstance(index.left, ast.Name)
        and isinstance(index.right, ast.Constant)
        and isinstance(index.op, ast.Add | ast.Sub)
    )


def filled_in(parts: Sequence[Any]) -> dict[str, int]:
    """The variables to which *parts* append, and of which they read an element that is not always the same one, and how
    many calls append."""
    nodes = [node for part in parts for node in ast.walk(part)]
    called = [node.func for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    targets = [x.value.id for x in called if x.attr == "append" and isinstance(x.value, ast.Name)]
    read = {
        node.value.id for node in nodes
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load)
        and any(isinstance(x, ast.Name) for x in ast.walk(node.slice)) and not _is_near(node.slice)
    }  # fmt: skip
    return {text: targets.count(text) for text in dict.fromkeys(targets) if text in read}


def only_summed(parts: Sequence[Any]) -> tuple[str, ...]:
    """The variables with which *parts* do nothing but add, subtract and multiply, and assign them."""
    operators = ast.Add | ast.Sub | ast.Mult
    nodes = [node for part in parts for node in ast.walk(part)]
    operands: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, operators):
            operands += node.left, node.right
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, operators):
            operands += node.target, node.value
    summed = {id(node) for node in operands if isinstance(node, ast.Name)}
    found = dict.fromkeys([node.id for node in operands if isinstance(node, ast.Name)])
    inside = {id(x) for node in nodes if isinstance(node, FUNCTIONS) for x in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.Name) and (id(node) in inside or (id(node) not in summed and not _is_stored(node))):
            found.pop(node.id, None)
    return tuple(found)


@dataclass(slots=True)
class Scope:
    """Names of the function, or of a comprehension in it, as the copy has them."""

    bindings: Bindings
    free: frozenset[str]  # of the code object
    cls: str | None
    local: frozenset[str] = frozenset()  # variables of this comprehension and of those around it
    first: str | None = None  # the parameter that ``super()`` looks at
    is_comprehension: bool = False
    loops: list[str] = field(default_factory=list)  # names of the loops around the statement

    def kind(self, text: str) -> str:
        """``"local"``, ``"free"`` or ``"global"``."""
        bindings = self.bindings
        if text in self.local or text in bindings.bound:
            return "local"
        declared = bindings.declared.get(text)
        if declared is not None:
            return declared
        return "free" if self.mangled(text) in self.free else "global"

    def mangled(self, text: str) -> str:
        """A name as the class knows it, if it is private."""
        if self.cls is None or not text.startswith("__") or text.endswith("__") or "." in text:
            return text
        cls = self.cls.lstrip("_")
        return f"_{cls}{text}" if cls else text
