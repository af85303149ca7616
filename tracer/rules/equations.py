"""Equations as programs: functions of a tree of floats, which are recorded once.

What a function reads besides, arguments or values that it closes over, are the ``consts`` of its program, operands of
the rules in ``roots.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from ..control.sub_program import FunctionRecorder
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom, Graph, building
from ..ir.site import user_site
from ..ir.trees import tree_flatten, tree_leaves, tree_unflatten
from ..ops.closure_conversion import inlined
from ..ops.elementwise import cast
from ..ops.host_call import derivatives
from ..record.array import to_atom
from ..record.recorder import Recorder, current_recorder, recording
from .arguments import fitted, is_data, leaves_like, strong
from .custom_rules import traced

Function = Callable[..., Any]


class Equation:
    """A function of a tree, recorded as a graph of the ``consts`` that it reads from outside, then the tree's leaves;
    its outputs are the leaves of its result."""

    def __init__(self, recorder: Recorder, function: Function, like: Any, what: str) -> None:
        leaves, self.structure = tree_flatten(like)
        self.like = leaves
        self.avals = [strong(to_atom(x).aval) for x in leaves]
        if any(a.is_complex for a in self.avals):
            raise UnsupportedError.here(f"{what} of complex numbers: write the real and the imaginary parts apart")
        body = FunctionRecorder(recorder, 0, what)
        given = [body.variable(aval) for aval in self.avals]
        with recording(body):
            found = function(self.tree(given))
            outputs = [_checked(x, what) for x in tree_leaves(found)]
            held, self.error = body.held(f"the function given to {what}", user_site())
        with building(recorder):
            closed = body.close(given, {}, [*outputs, *held])
        graph = closed.graph
        self.whole, self.graph = graph, Graph(graph.inputs, graph.nodes, graph.outputs[: len(outputs)])
        self.result, self.consts = tree_flatten(found)[1], closed.consts
        self.flipped: Equation | None = None  # of a linear one

    def tree(self, atoms: Sequence[Atom]) -> Any:
        """The tree with *atoms* for leaves, as the user's functions get it."""
        return tree_unflatten(self.structure, [traced(x, leaf) for x, leaf in zip(atoms, self.like, strict=True)])

    def leaves(self, tree: Any, what: str) -> list[Atom]:
        """The atoms of a *tree* like that of the function's argument."""
        found: list[Atom] = []
        for x, aval in zip(leaves_like(tree, self.structure, what), self.avals, strict=True):
            atom = fitted(x, aval, what)
            found.append(cast(to_atom(0.0), aval.dtype) if atom is None else atom)
        return found

    def over(self, consts: Sequence[Atom], what: str) -> Function:
        """The function where it reads *consts*."""

        def function(x: Any) -> Any:
            found = inlined(self.graph if self.error is None else self.whole, [*consts, *self.leaves(x, what)])
            if self.error is not None:
                recorder = current_recorder()
                assert recorder is not None
                recorder.rely(found.pop(), self.error)
            return tree_unflatten(self.result, [traced(y) for y in found])

        return function

    def transposed(self) -> Equation:
        """That of the transpose of a linear function, of the same consts: made once, so that rules know each other's
        programs."""
        if self.flipped is None:
            graph, count, n = self.graph, len(self.consts), len(self.avals)
            pulled = derivatives[0].pullback(graph, range(count, count + n))
            at = set(graph.inputs[count:])
            if any(not at.isdisjoint(node.inputs) for node in pulled.nodes):
                raise UnsupportedError.here("the matvec given to custom_linear_solve is not linear")
            found = self.flipped = copy(self)
            inputs = [*graph.inputs[:count], *pulled.inputs[len(graph.inputs) :]]
            found.graph, found.flipped, found.error = Graph(inputs, pulled.nodes, pulled.outputs), self, None
        return self.flipped


def _checked(value: Any, what: str) -> Atom:
    if not is_data(value):
        raise ShapeError.here(f"the function given to {what} returned a {type(value).__name__}: return arrays")
    atom = to_atom(value)
    if not atom.aval.is_float:
        raise ShapeError.here(f"the function given to {what} returned {atom.aval.dtype}: return floats")
    return atom
