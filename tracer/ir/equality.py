"""Equality of graphs up to renaming of Vars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .graph import Atom, Graph, Lit, Var


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
