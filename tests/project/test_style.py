"""Functions and classes stay of a size that a reader takes in; docstrings say the noun, and are no questions."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator

import pytest
from test_layers import MODULES, forgotten, statements, trees

__all__ = ["forgotten"]

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
    every = (node for tree in trees().values() for node, _ in statements(tree))
    return {node.name: node for node in every if isinstance(node, ast.ClassDef)}


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
        for node, _ in statements(tree):
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


# ---- docstrings ---------------------------------------------------------------------------------------------------

DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, docstring) of a module and of everything defined in it."""
    for node in (tree, *(statement for statement, _ in statements(tree) if isinstance(statement, DOCUMENTED))):
        if found := ast.get_docstring(node):
            yield getattr(node, "lineno", 1), found


def fault(docstring: str) -> str | None:
    """The offence of a docstring, or None; code in backticks and later paragraphs don't count."""
    summary = re.sub(r"``.*?``", "", docstring.split("\n\n")[0], flags=re.DOTALL)
    if re.match(r"What\b", docstring):
        return "begins with 'What': say the noun"
    return "asks a question: say 'Whether ...', or the noun" if "?" in summary else None


def test_docstrings_say_the_noun():
    assert len(MODULES) > 200
    faults = [
        f"{module}:{line}: {found}"
        for module, tree in trees().items()
        for line, text in docstrings(tree)
        if (found := fault(text))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("docstring", "faulty"),
    [
        ("What a loop stores.", True),
        ("Does it hold?", True),
        ("Does it hold?  Any answer will do.", True),
        ("Who asks for\na plain value?\n\nMore.", True),
        ("Residuals of one step.", False),
        ("Whether it holds.", False),
        ("Whatever is left.", False),
        ("The text ``a ? b : c``.", False),
        ("A summary.\n\nIs this a question?  It may be.", False),
    ],
)
def test_faults_are_found(docstring, faulty):
    assert bool(fault(docstring)) is faulty


def test_every_kind_of_docstring_is_read():
    text = '"""Head."""\nclass A:\n    """Class."""\n    def f(self):\n        """Method."""\n'
    text += 'async def g():\n    """Coroutine."""\n    def h():\n        """Inner."""\n'
    assert {found for _, found in docstrings(ast.parse(text))} == {"Head.", "Class.", "Method.", "Coroutine.", "Inner."}
