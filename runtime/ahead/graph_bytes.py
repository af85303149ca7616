"""Programs as bytes: nodes by the names of their primitives, values by number.

What is read is checked as a recording is: each node's results are inferred anew, and have to be those that were
written.  So a file of a version whose primitives were others is refused, and is not taken for another program.  Start
reading at :func:`graph_to_parts`.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from ...tracer.ir.aval import Aval
from ...tracer.ir.graph import Atom, Graph, Guard, Lit, Node, Var
from ...tracer.ir.primitive import PRIMITIVES, Primitive
from ..disk.encoding import EncodingError, encode


def graph_to_parts(graph: Graph) -> tuple[Any, ...]:
    """*graph* as plain values, for ``encode``.

    Raises:
        EncodingError: it runs a function of this process.
    """
    numbers: dict[Var, int] = {}

    def define(var: Var) -> tuple[Any, ...]:
        numbers[var] = len(numbers)
        return _aval(var.aval)

    def operand(atom: Atom) -> Any:
        if isinstance(atom, Lit):
            return atom.value, atom.aval.dtype, atom.aval.weak, atom.structural
        return numbers[atom]

    inputs = tuple(map(define, graph.inputs))
    consts = tuple([(define(var), array) for var, array in graph.consts])
    nodes = []
    for node in graph.nodes:
        if PRIMITIVES.get(node.prim.name) is not node.prim:
            raise EncodingError(f"the operation {node.prim.name}, which is of this process")
        operands = tuple(map(operand, node.inputs))
        params = {name: _param(value) for name, value in node.params.items()}
        nodes.append((node.prim.name, operands, params, tuple(map(define, node.outs))))
    guards = tuple([(operand(g.atom), g.expected, g.kind) for g in graph.guards])
    return inputs, consts, tuple(nodes), tuple(map(operand, graph.outputs)), guards


def graph_of(parts: Any) -> Graph:
    """The graph of which :func:`graph_to_parts` has made *parts*.

    Raises:
        EncodingError: there is none in this version.
    """
    try:
        return _graph(*parts)
    except EncodingError:
        raise
    except Exception as error:  # of rules that are given what they do not know
        raise EncodingError(f"{type(error).__name__}: {error}") from error


def _graph(inputs: Any, consts: Any, nodes: Any, outputs: Any, guards: Any) -> Graph:
    values: list[Var] = []

    def define(aval: Any) -> Var:
        values.append(Var(Aval(*aval)))
        return values[-1]

    def operand(part: Any) -> Atom:
        if type(part) is int:
            return values[part]
        value, dtype, weak, structural = part
        return Lit(value, dtype, weak=weak, structural=structural)

    given = [define(aval) for aval in inputs]
    arrays = []
    for aval, array in consts:
        var = define(aval)
        if (array.dtype, array.shape) != (var.aval.dtype, var.aval.shape):
            raise EncodingError("an array of another shape")
        arrays.append((var, array))
    made = []
    for name, operands, shown, avals in nodes:
        prim, params = _primitive(name), {key: _value(x) for key, x in shown.items()}
        atoms = tuple(map(operand, operands))
        found = prim.infer(*[a.aval for a in atoms], **params)
        found = found if isinstance(found, tuple) else (found,)
        if [(a.dtype, a.shape) for a in found] != [(dtype, shape) for dtype, shape, _ in avals]:
            raise EncodingError(f"{name} with other results")
        made.append(Node(prim, atoms, params, tuple([define(aval) for aval in avals]), None))
    checks = [Guard(operand(atom), expected, kind, None) for atom, expected, kind in guards]
    return Graph(given, made, [operand(part) for part in outputs], checks, arrays)


def _aval(aval: Aval) -> tuple[Any, ...]:
    return aval.dtype, aval.shape, aval.weak


def _param(value: Any) -> Any:
    """A parameter, whose form is marked: a program, or a plain value."""
    if isinstance(value, Graph):
        return "graph", graph_to_parts(value)
    encode(value)  # EncodingError where that can't be
    return "plain", value


def _value(part: Any) -> Any:
    form, value = part
    return graph_of(value) if form == "graph" else np.array(value) if isinstance(value, np.ndarray) else value


def _primitive(name: str) -> Primitive:
    if name not in PRIMITIVES:  # those of scipy.special come when they are asked for
        importlib.import_module("...tracer.ops.special_tables", __package__)
    if name not in PRIMITIVES:
        raise EncodingError(f"the operation {name}")
    return PRIMITIVES[name]
