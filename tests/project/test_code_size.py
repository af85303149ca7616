"""Functions and classes stay of a size that a reader takes in."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable

from test_layers import trees

COMPLEXITY, LINES, ATTRIBUTES = 25, 80, 40
BRANCHES: dict[type[ast.AST], Callable[..., int]] = {
    **dict.fromkeys((ast.If, ast.IfExp, ast.Assert, ast.match_case), lambda node: 1),
    **dict.fromkeys((ast.For, ast.While), lambda node: 1 + bool(node.orelse)),
    ast.Try: lambda node: len(node.handlers) + bool(node.orelse),
    ast.BoolOp: lambda node: len(node.values) - 1,
    ast.comprehension: lambda node: 1 + len(node.ifs),
}


def complexity(function: ast.AST) -> int:
    """One, and one for each branch, but of functions within."""
    found, stack = 1, [function]
    while stack:
        for part in ast.iter_child_nodes(stack.pop()):
            if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found += BRANCHES[type(part)](part) if type(part) in BRANCHES else 0
                stack.append(part)
    return found


@functools.cache
def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


@functools.cache
def attributes(name: str) -> frozenset[str]:
    """The names that a class declares with a value or a type, and those that its methods set, but for constants and
    those of its bases."""
    cls, found = classes()[name], set[str]()
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found.update(map(ast.unparse, targets))
    for node in ast.walk(cls):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.add(node.attr)
    bases = [attributes(base.id) for base in cls.bases if isinstance(base, ast.Name) and base.id in classes()]
    return frozenset(name for name in found if not name.isupper()).difference(*bases)


def test_functions_are_small() -> None:
    large = {}
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                size = complexity(node), (node.end_lineno or 0) - node.lineno + 1
                if size[0] > COMPLEXITY or size[1] > LINES:
                    large[f"{module}.{node.name}"] = size
    assert large == {}, "(complexity, lines) of functions"


def test_classes_have_few_attributes() -> None:
    large = {name: len(attributes(name)) for name in classes() if len(attributes(name)) > ATTRIBUTES}
    assert large == {}


def test_what_is_counted() -> None:
    function = ast.parse(
        "def f(a):\n if a and b or c: return 1\n try: pass\n except E: pass\n return [x for x in a if x]"
    )
    assert complexity(function.body[0]) == 1 + 1 + 2 + 1 + 2
    assert len(attributes("Recorder")) > 20 and "guards" in attributes("Recorder")
