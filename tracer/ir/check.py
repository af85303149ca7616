"""Typechecking of graphs: well-formedness, and avals against those that the primitives infer."""

from __future__ import annotations

import numpy as np

from .aval import Aval, held_dtype
from .errors import GraphError
from .graph import Atom, Graph, Lit, Node, Var
from .primitive import ELEMENTWISE, PRIMITIVES
from .text import print_graph


def check_graph(graph: Graph, *, weak: bool = True) -> None:
    """Raise GraphError unless *graph* is well-formed.

    Every Var is defined once and before its use, each node's avals are those that its primitive infers (with
    ``weak=False`` up to weakness), outputs and guards refer to what exists, guards are 0-d, and consts hold what they
    declare.
    """
    defined: set[Var] = set()

    def define(var: Var, where: str) -> None:
        if var in defined:
            raise GraphError(f"{where}: a value is defined twice{_show(graph)}")
        defined.add(var)

    def use(atom: Atom, where: str) -> None:
        if isinstance(atom, Lit):
            if atom.aval.shape or atom.value.dtype != held_dtype(atom.aval.dtype):
                raise GraphError(f"{where}: a literal {atom} that is no scalar of its dtype{_show(graph)}")
        elif atom not in defined:
            raise GraphError(f"{where}: an operand ({atom.aval}) is not defined before its use{_show(graph)}")

    for position, var in enumerate(graph.inputs):
        define(var, f"input {position}")
    for position, (var, array) in enumerate(graph.consts):
        define(var, f"const {position}")
        if array.shape != var.aval.shape or array.dtype != var.aval.dtype:
            held = f"{array.dtype}{list(array.shape)}"
            raise GraphError(f"const {position}: declared {var.aval}, holds {held}{_show(graph)}")
    for position, node in enumerate(graph.nodes):
        where = f"node {position} ({node.prim.name})"
        if PRIMITIVES.get(node.prim.name) is not node.prim:
            raise GraphError(f"{where}: not in the registry of primitives{_show(graph)}")
        for atom in node.inputs:
            use(atom, where)
        _check_avals(graph, node, where, weak)
        for value in node.params.values():
            if isinstance(value, Graph):
                check_graph(value, weak=weak)
        for out in node.outs:
            define(out, where)
    for position, atom in enumerate(graph.outputs):
        use(atom, f"output {position}")
    for position, guard in enumerate(graph.guards):
        use(guard.atom, f"guard {position}")
        if guard.atom.aval.shape or np.ndim(guard.expected) != 0:
            raise GraphError(f"guard {position}: {guard.atom.aval} is not 0-d{_show(graph)}")


def _check_avals(graph: Graph, node: Node, where: str, weak: bool) -> None:
    arity = len(node.prim.domain)
    if node.prim.kind == ELEMENTWISE and len(node.inputs) != arity:
        raise GraphError(f"{where}: {len(node.inputs)} operands instead of {arity}{_show(graph)}")
    try:
        inferred = node.prim.infer(*[a.aval for a in node.inputs], **node.params)
    except GraphError as error:
        raise GraphError(f"{where}: {error}{_show(graph)}") from error
    except TypeError as error:
        raise GraphError(f"{where}: operands or params do not fit the primitive: {error}{_show(graph)}") from error
    avals = inferred if isinstance(inferred, tuple) else (inferred,)
    recorded = tuple(out.aval for out in node.outs)
    if not weak:
        avals, recorded = (tuple(Aval(a.dtype, a.shape) for a in group) for group in (avals, recorded))
    if avals != recorded:
        found, declared = (", ".join(map(str, group)) for group in (avals, recorded))
        raise GraphError(f"{where}: declared {declared}, but its operands give {found}{_show(graph)}")


def _show(graph: Graph) -> str:
    try:
        return "\n" + print_graph(graph)
    except GraphError:
        return ""
