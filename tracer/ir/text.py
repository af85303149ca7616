"""Graphs as text.

    graph(a:f64[5], b:f64[]) {
      const k:f64[5]                          # an array that travels with the graph; its contents are not printed
      c:f64[5] = sin a                        # model.py:12 in loss
      d:f64[5] = mul c 2.5:f64*               # a literal: data; ``*`` marks a weak (Python) scalar
      e:f64[5] = sub d 1.0!:f64               # ``!`` marks a structural literal
      f:f64[] = reduce_sum[axes=(0,)] e
      g:bool[] = gt f 0!:f64
      guard bool g == True                    # model.py:13 in loss
      return f
    }

The text is exact: floats keep every bit (NaN payloads and -0.0 too), a comment is a line of the user's.  Params are
ints, floats, bools, None, strings, dtypes by short name, tuples and graphs.  ``graph.py`` defines what is printed here,
``tests/support/ir_parser.py`` reads it, but for functions of Python's, which are ``<their name>``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any

import numpy as np

from .aval import FLOAT_KINDS, short_name
from .errors import GraphError
from .graph import Atom, Graph, Guard, Lit, Node, Var
from .site import Site

_KEYWORDS = frozenset({"const", "guard", "return", "graph", "inf", "nan", "True", "False", "None"})
_COMMENT_COLUMN = 44


# ---- names and scalars -----------------------------------------------------------------------------------------


def _fresh_names() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ..."""
    for length in itertools.count(1):
        for letters in itertools.product(ascii_lowercase, repeat=length):
            if (name := "".join(letters)) not in _KEYWORDS:
                yield name


_BITS: dict[int, np.dtype] = {8: np.dtype("uint64"), 4: np.dtype("uint32"), 2: np.dtype("uint16")}


def print_scalar(value: Any) -> str:
    """A NumPy scalar from which the same bits can be read."""
    value = np.asarray(value)[()]
    if value.dtype.kind not in FLOAT_KINDS:
        return str(value.item())
    if np.isnan(value):
        plain = value.tobytes() == value.dtype.type(np.nan).tobytes()
        return "nan" if plain else f"nan({int(value.view(_BITS[value.dtype.itemsize])):#x})"
    text = repr(float(value)) if value.dtype.itemsize == 8 else str(value)
    return text if value.dtype.type(float(text)) == value else float(value).hex()


# ---- printing --------------------------------------------------------------------------------------------------


class _Printer:
    """*fresh* names go on in the bodies of loops, so that one name is one value."""

    def __init__(self, fresh: Iterator[str] | None = None) -> None:
        self.names: dict[Var, str] = {}
        self.fresh = _fresh_names() if fresh is None else fresh
        self.bodies: dict[int, dict[Var, str]] = {}  # id of a body's graph -> names in it

    def define(self, var: Var) -> str:
        name = self.names.get(var)
        if name is None:
            name = self.names[var] = next(self.fresh)
        return f"{name}:{var.aval}"

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Lit):
            mark = "!" if atom.structural else ""
            return f"{print_scalar(atom.value)}{mark}:{short_name(atom.aval.dtype)}{'*' if atom.aval.weak else ''}"
        return self.names.get(atom, "undefined")

    def param(self, value: Any, indent: int) -> str:
        if isinstance(value, Graph):
            body = _Printer(self.fresh)
            text = body.graph(value, indent + 2).lstrip()
            self.bodies |= {**body.bodies, id(value): body.names}
            return text
        if isinstance(value, np.dtype):
            return short_name(value)
        if isinstance(value, tuple):
            inner = ", ".join(self.param(v, indent) for v in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if value is None or isinstance(value, (bool, str, int)):
            return repr(value)
        if isinstance(value, (np.bool_, np.integer)):
            return repr(value.item())
        if isinstance(value, (float, np.floating)):
            return print_scalar(np.float64(value))
        if callable(value):
            return f"<{value}>"
        raise GraphError(f"a param of type {type(value).__name__} has no text form")

    def node(self, node: Node, indent: int) -> str:
        outs = ", ".join(self.define(out) for out in node.outs)
        params = ", ".join(f"{k}={self.param(v, indent)}" for k, v in node.params.items())
        operands = "".join(f" {self.atom(a)}" for a in node.inputs)
        return f"{outs} = {node.prim.name}{f'[{params}]' if params else ''}{operands}"

    def guard(self, guard: Guard) -> str:
        expected = np.asarray(guard.expected)
        suffix = "" if expected.dtype == guard.atom.aval.dtype else f":{short_name(expected.dtype)}"
        return f"guard {guard.kind} {self.atom(guard.atom)} == {print_scalar(expected)}{suffix}"

    def graph(self, graph: Graph, indent: int = 0) -> str:
        margin = " " * indent
        lines = [f"{margin}graph({', '.join(self.define(v) for v in graph.inputs)}) {{"]

        def line(text: str, site: Site | None = None) -> None:
            text = f"{margin}  {text}"
            lines.append(text if site is None else f"{text:<{indent + _COMMENT_COLUMN}}  # {site}")

        for var, _ in graph.consts:
            line(f"const {self.define(var)}")
        for node in graph.nodes:
            line(self.node(node, indent), node.site)
        for guard in graph.guards:
            line(self.guard(guard), guard.site)
        line(" ".join(["return", *[self.atom(a) for a in graph.outputs]]))
        lines.append(f"{margin}}}")
        return "\n".join(lines)


def print_graph(graph: Graph) -> str:
    """*graph* as text; see the module's docstring for the form."""
    return _Printer().graph(graph) + "\n"


def print_with_names(graph: Graph) -> tuple[str, list[str], list[str]]:
    """(*graph* as text, the names of its inputs there, its outputs as they are named there)."""
    printer = _Printer()
    text = printer.graph(graph)
    return text, [printer.names[var] for var in graph.inputs], [printer.atom(x) for x in graph.outputs]


def printed_names(graph: Graph) -> tuple[dict[Var, str], dict[int, dict[Var, str]]]:
    """The names that the values of *graph* have in its text, its inputs first, and by the ``id`` of their graphs those
    in the bodies of its loops."""
    printer = _Printer()
    printer.graph(graph)
    return printer.names, printer.bodies
