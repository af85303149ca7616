"""Equality of graphs up to renaming of Vars, and keys that are equal for equal ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from .graph import Atom, Graph, Lit, Node, Pair, Var, live_nodes


def same_params(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if a.keys() != b.keys():
        return False
    for x, y in zip(a.values(), b.values(), strict=True):  # no generator: a search for repeats asks a million times
        if isinstance(x, Graph) and isinstance(y, Graph):
            if not same_graph(x, y):
                return False
        elif type(x) is not type(y) or x != y:
            return False
    return True


def same_graph(a: Graph, b: Graph) -> bool:
    """Whether two bodies of loops are equal up to renaming of Vars."""
    if a is b:
        return True
    if len(a.inputs) != len(b.inputs) or len(a.nodes) != len(b.nodes) or len(a.outputs) != len(b.outputs):
        return False
    names: dict[Var, Var] = {}

    def same(x: Atom, y: Atom) -> bool:
        if isinstance(x, Lit) or isinstance(y, Lit):
            return (
                isinstance(x, Lit) and isinstance(y, Lit) and x.aval == y.aval and x.structural == y.structural
                and x.value.tobytes() == y.value.tobytes()
            )  # fmt: skip
        return names.get(x) is y

    for x, y in zip(a.inputs, b.inputs, strict=True):
        if x.aval != y.aval:
            return False
        names[x] = y
    for m, n in zip(a.nodes, b.nodes, strict=True):
        if m.prim is not n.prim or len(m.inputs) != len(n.inputs) or len(m.outs) != len(n.outs):
            return False
        if not same_params(m.params, n.params) or not all(map(same, m.inputs, n.inputs)):
            return False
        names.update(zip(m.outs, n.outs, strict=True))
    return all(map(same, a.outputs, b.outputs))


def program_key(inputs: Sequence[Any], nodes: Sequence[Node], *roots: Sequence[Atom]) -> Hashable:
    """The key of a program with these lists of *roots*: operations, parameters, types, numbers and wiring, where each
    value is named by its place in the order of the nodes."""
    numbers: dict[Any, int] = {}
    for var in inputs:
        numbers[var] = len(numbers)
    steps = []
    for node in nodes:
        operands = tuple([_name(x, numbers) for x in node.inputs])
        for var in node.outs:
            numbers[var] = len(numbers)
        forms = tuple([var.aval for var in node.outs])
        steps.append((node.prim, operands, forms, *map(_parameter, node.params.values())))
    named = [tuple([_name(x, numbers) for x in atoms]) for atoms in roots]
    return tuple([var.aval for var in inputs]), tuple(steps), tuple(named)


def _name(x: Any, numbers: dict[Any, int]) -> Hashable:
    if isinstance(x, Lit):
        return x.aval, x.value.tobytes(), x.structural
    if isinstance(x, Pair):
        return _name(x.re, numbers), _name(x.im, numbers), x.aval.dtype
    return numbers[x]


def _parameter(value: Any) -> Hashable:
    if isinstance(value, Graph):
        return program_key(value.inputs, value.nodes, value.outputs)
    if isinstance(value, tuple | list):
        return tuple(map(_parameter, value))
    return value  # type: ignore[no-any-return]


def value_keys(graph: Graph, atoms: Sequence[Atom]) -> list[int]:
    """A number for each of *atoms*, values of *graph*: it is the same for values that the same operations make of the
    same inputs, also in another graph of the same function."""
    numbers: dict[Any, int] = {var: k for k, var in enumerate((*graph.inputs, *[var for var, _ in graph.consts]))}
    for node in live_nodes(graph.nodes, atoms):
        made = node.prim.name, *[_name(x, numbers) for x in node.inputs], *map(_parameter, node.params.values())
        for k, var in enumerate(node.outs):
            numbers[var] = hash((made, k))
    return [hash(_name(x, numbers)) for x in atoms]
