"""Linear maps that ``vjp`` and ``linearize`` return: a program of its own over residuals, the values that it needs.

A ``LinearMap`` is a node of trees whose leaves are the residuals, so that it leaves a compiled function as a result and
enters another one as an argument.  Called on arrays it is a compiled function; within a recording its program becomes
part of that.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import optree

from ...tracer.ir.equality import same_graph
from ...tracer.ir.graph import Atom, Graph, Node, Var, live_nodes
from ...tracer.ir.tracebacks import for_users
from ...tracer.ir.trees import NAMESPACE
from ...tracer.ops.closure_conversion import closed, inlined
from ...tracer.ops.complex import put_together
from ...tracer.record.array import to_atom, wrap
from ...tracer.record.recorder import Recorder
from ..compiled import CompiledFunction
from .values import Form, Values, fitting, lanes_like


class LinearProgram:
    """The program of a linear map: *graph* of the residuals, then the real lanes of the operands.  Equal ones have
    equal graphs, and structures of operands and results."""

    __slots__ = ("_key", "_results", "graph", "like", "names", "owner", "results", "single", "structure", "what")

    def __init__(
        self, graph: Graph, like: Sequence[Atom], structure: Any, names: Sequence[str], what: str, owner: str,
        results: Form, single: bool,
    ) -> None:  # fmt: skip
        self.graph, self.like, self.structure, self.names = graph, list(like), structure, tuple(names)
        self.what, self.owner, self.results, self.single = what, owner, results, single
        self._results = [Var(aval) for aval in results.avals]
        avals = tuple([x.aval for x in (*graph.inputs, *graph.outputs)])
        self._key = (avals, structure, results, tuple([n.prim.name for n in graph.nodes]), what, single)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is LinearProgram and self._key == other._key and same_graph(self.graph, other.graph)
        )

    def __hash__(self) -> int:
        return hash(self._key[0])

    def __call__(self, residuals: Sequence[Any], operands: tuple[Any, ...]) -> Any:
        """The results for *operands*, within the recording in force."""
        if self.single and len(operands) != 1:
            raise TypeError(f"the function that vjp returns takes one {self.what}, but {len(operands)} were given")
        given = operands[0] if self.single else operands
        atoms = fitting(given, self.like, self.structure, self.names, self.what, self.owner)
        found = inlined(self.graph, [*map(to_atom, residuals), *lanes_like(atoms)])
        return self.results.tree(put_together(found, self._results))


class LinearMap:
    """A linear function: the derivative of a function at a point.  Made by ``vjp`` and ``linearize``."""

    __slots__ = ("program", "residuals")

    def __init__(self, program: LinearProgram, residuals: Sequence[Any]) -> None:
        self.program, self.residuals = program, tuple(residuals)

    def __call__(self, *operands: Any) -> Any:
        """The image of *operands*: tangents of the arguments, or one cotangent of the value."""
        with for_users:
            return _apply(self, *operands)

    def __copy__(self) -> LinearMap:
        return self

    def __deepcopy__(self, memo: Any) -> LinearMap:
        return self

    def __reduce__(self) -> Any:
        raise pickle.PicklingError(
            "a function that vjp or linearize has returned holds a recorded program, which can't be sent to another "
            "process: call vjp or linearize there"
        )

    def __repr__(self) -> str:
        return f"<linear map of {self.program.what}s, {len(self.residuals)} residuals>"


def _applied(linear: LinearMap, *operands: Any) -> Any:
    return linear.program(linear.residuals, operands)


_apply = CompiledFunction(_applied, target="auto")


def _flatten(linear: Any) -> Any:
    return linear.residuals, linear.program, None


def _unflatten(program: Any, residuals: Any) -> Any:
    return LinearMap(program, tuple(residuals))


_LINEAR: Any = LinearMap  # optree's types want a collection
optree.register_pytree_node(_LINEAR, _flatten, _unflatten, namespace=NAMESPACE)


def split_linear(
    recorder: Recorder, start: int, operands: Sequence[Var], found: Sequence[Atom], results: Values, structure: Any,
    names: Sequence[str], what: str, owner: str, *, single: bool,
) -> LinearMap:  # fmt: skip
    """The linear map from *operands* to *found*, which was recorded from node *start* on and belongs to *results*.
    What does not depend on the operands stays in the recording: the residuals.  *structure*, *names*, *what* and
    *owner* are for operands that do not fit; *single*: it takes one cotangent."""
    lanes = lanes_like(operands)
    nodes, inputs = _depending(recorder.nodes[start:], lanes), list(dict.fromkeys(lanes))
    outputs = [x for part in found for x in lanes_like([part])]
    graph, residuals = closed(live_nodes(nodes, outputs), outputs, inputs)  # type: ignore[arg-type]
    program = LinearProgram(graph, operands, structure, names, what, owner, results.form, single)
    return LinearMap(program, [wrap(x) for x in residuals])


def _depending(nodes: Iterable[Node], sources: Sequence[Atom]) -> list[Node]:
    known, found = set(sources), []
    for node in nodes:
        if not known.isdisjoint(node.inputs):
            known.update(node.outs)
            found.append(node)
    return found
