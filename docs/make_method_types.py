"""Write the signatures of tensors' methods for type checkers and editors: ``python docs/make_method_types.py``.

Methods come from tables (``tracegrad/tensors/ops_*.py``), which checkers can't read. The stub has what they are told:
a class ``Methods``, from which ``Tensor`` seems to inherit, and functions, most of which are its methods. A test
compares it with the methods that there are.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STUB = ROOT / "tracegrad" / "tensors" / "method_types.pyi"
sys.path[:0] = [str(ROOT)]

from tracegrad.tensors import methods  # noqa: E402
from tracegrad.tensors.tensor import METHODS, PROPERTIES  # noqa: E402

HEAD = '''"""Signatures of tensors' methods, and of the functions of their names. Made by docs/make_method_types.py."""

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from .tensor import Size, Tensor

Dim = builtins.int
Dims = builtins.int | Sequence[builtins.int]
Dtype = Any
'''
_SYNONYMS = {"axis": "dim", "keepdims": "keepdim"}  # NumPy's names, which readers take beside PyTorch's
_EMPTY = inspect.Parameter.empty


def render() -> str:
    """The stub."""
    named = {name: method for name, method in METHODS.items() if name not in PROPERTIES}
    told = [line for name, method in sorted(named.items()) for line in _told(name, method, "    ")]
    for name, found in sorted(PROPERTIES.items()):
        told += ["    @property", f"    def {name}(self) -> Tensor: ..."]
        if found.fset is not None:
            told += [f"    @{name}.setter", f"    def {name}(self, value: Any) -> None: ..."]
    exported = ["__all__ = [", *(f'    "{name}",' for name in sorted(methods.PUBLIC)), "]"]
    functions = []
    for name, function in sorted(methods.PUBLIC.items()):
        if function is named.get(name):
            functions.append(f"{name} = Methods.{name}")
        else:
            functions += _told(name, function, "")
    return "\n".join([HEAD, *exported, "", "class Methods:", *told, "", *functions]) + "\n"


def _told(name: str, function: Callable[..., Any], indent: str) -> list[str]:
    """The lines of one signature, and what its docstring says first."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    kinds = {p.name: p.annotation for p in parameters}
    parts = [_parameter(p, kinds) for p in parameters]
    only = [p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters]
    if any(only) and not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        parts.insert(only.index(True), "*")
    if indent and not parts[0].startswith("*"):
        parts[0] = parameters[0].name
    result = "Any" if signature.return_annotation is _EMPTY else _qualified(signature.return_annotation)
    doc = " ".join((function.__doc__ or "").split("\n\n")[0].split())
    quotes = 'r"""' if "\\" in doc else '"""'
    body = f'{quotes}{doc}"""' if doc else "..."
    return [f"{indent}def {name}({', '.join(parts)}) -> {result}:", f"{indent}    {body}"]


def _parameter(p: inspect.Parameter, kinds: dict[str, Any]) -> str:
    star = "*" * (p.kind is inspect.Parameter.VAR_POSITIONAL) + "**" * (p.kind is inspect.Parameter.VAR_KEYWORD)
    kind = p.annotation
    if kind is _EMPTY:
        kind = kinds.get(_SYNONYMS.get(p.name, ""), "Any")
    if p.default is None and "None" not in kind and kind not in ("Any", "Dtype"):
        kind += " | None"  # one of two synonyms is given
    text = f"{star}{p.name}: {_qualified(kind)}"
    return text if p.default is _EMPTY else f"{text} = {p.default!r}"


def _qualified(annotation: str) -> str:
    """*annotation* with ``builtins.`` before names that methods have, too (``float``, ``bool``)."""
    tree = ast.parse(annotation, mode="eval")
    return ast.unparse(_Builtins().visit(tree))


class _Builtins(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        if hasattr(builtins, node.id):
            return ast.Attribute(ast.Name("builtins"), node.id)
        return node


if __name__ == "__main__":
    STUB.write_text(render())
