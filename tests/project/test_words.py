"""The house speaks plainly: docstrings of the library say the noun, and are no questions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracegrad.tracer.ir.gc_pause import fewer_collections

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("tracegrad", "runtime", "codegen", "tracer")
FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))  # rglob follows no links
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """(line, docstring) of a module and of everything defined in it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and (found := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), found


def fault(docstring: str) -> str | None:
    """The offence of a docstring, or None; code in backticks and later paragraphs don't count."""
    summary = re.sub(r"``.*?``", "", docstring.split("\n\n")[0], flags=re.DOTALL)
    if re.match(r"What\b", docstring):
        return "begins with 'What': say the noun"
    return "asks a question: say 'Whether ...', or the noun" if "?" in summary else None


def test_docstrings_say_the_noun():
    assert len(FILES) > 200
    with fewer_collections():  # which would look at each tree several times
        faults = [
            f"{path.relative_to(ROOT)}:{line}: {found}"
            for path in FILES
            for line, text in docstrings(path.read_text())
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
    assert {found for _, found in docstrings(text)} == {"Head.", "Class.", "Method.", "Coroutine.", "Inner."}
