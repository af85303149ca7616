"""Functions of the user's as programs of their own, which a solver of SciPy's calls as often as it likes.

``record_function`` runs a function once on traced variables, in a recorder within the recorder (``body_recorder.py``);
the traced values that it closes over become operands.  A ``SubProgram`` computes it for arrays, by a kernel where the
runtime is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, Aval
from ..ir.equality import same_graph
from ..ir.errors import BadIndexError, UnsupportedError
from ..ir.evaluate import run_nodes, stored
from ..ir.graph import Atom, Graph, Var, building
from ..ir.site import Site
from ..numpy_api.assemble import nested_atom
from ..ops.elementwise import F, cast
from ..record.recorder import Recorder, recording
from .body_recorder import BodyRecorder
from .trees import as_result

# a graph as a function: of its inputs, to its only output or the tuple of them
Evaluator = Callable[..., Any]
# what makes a kernel of a graph whose first inputs are arrays: registered by a higher layer (launch/sub_kernels.py)
kernel_makers: list[Callable[[Graph, int], Evaluator]] = []


class FunctionRecorder(BodyRecorder):
    """The recorder of a function that is called with values which nobody knows yet."""

    hint = (
        "of something that depends on the argument of a function given to {}, which is recorded once for all calls: "
        "choose with np.where(condition, a, b) or tracegrad.cond"
    )

    def variable(self, aval: Aval) -> Var:
        """A variable of the function; a weak one stands for Python floats."""
        var = Var(aval)
        self.own.add(var)
        return var

    def held(self, function: str, site: Site | None = None) -> tuple[list[Atom], Callable[[], Exception] | None]:
        """(whether all holds that the function relies on, if there is such; the error where that is not so).
        *function*, *site*: its name and line, for the error."""
        if not self.checks:
            return [], None
        error = lambda: BadIndexError.here(f"an index in {function} is out of bounds", site)  # noqa: E731
        return [reduce(F.logical_and, self.checks)], self.error(error)


class SubProgram:
    """A function with ``graph``: its inputs are the values from outside, then the variables, and its outputs those of
    the function, then whether all held that it relies on, if there is such.  Equal ones have equal graphs."""

    __slots__ = ("_error", "_evaluate", "_key", "graph", "several")

    def __init__(self, graph: Graph, several: bool, error: Callable[[], Exception] | None) -> None:
        self.graph, self.several, self._error = graph, several, error
        names = tuple([node.prim.name for node in graph.nodes])
        self._key = (several, tuple([v.aval for v in graph.inputs]), names)
        self._evaluate: Evaluator | None = None

    def __eq__(self, other: object) -> bool:
        return type(other) is SubProgram and self._key == other._key and same_graph(self.graph, other.graph)

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def size(self) -> int:
        """The size of the last variable."""
        return self.graph.inputs[-1].aval.size

    @property
    def values(self) -> Graph:
        """The graph without what it relies on."""
        graph = self.graph
        return Graph(graph.inputs, graph.nodes, graph.outputs[: len(graph.outputs) - (self._error is not None)])

    def over(self, given: Sequence[np.ndarray]) -> Callable[..., Any]:
        """The function where it closes over the values *given*: of the variables, to a value or a tuple of values."""
        if self._evaluate is None:
            self._evaluate = (kernel_makers[0] if kernel_makers else _interpreter)(self.graph, len(given))
        if self._error is None and not (self.several and len(self.graph.outputs) == 1):
            return partial(self._evaluate, *given)
        return partial(self._checked, *given)

    def _checked(self, *values: Any) -> Any:
        assert self._evaluate is not None
        found = self._evaluate(*values)
        parts = list(found) if type(found) is tuple else [found]
        if self._error is not None and not parts.pop():
            raise self._error()
        return tuple(parts) if self.several else parts[0]


def _interpreter(graph: Graph, arrays: int) -> Evaluator:
    def evaluate(*values: Any) -> Any:
        env: Any = {v: np.asarray(x, dtype=v.aval.dtype) for v, x in zip(graph.inputs, values, strict=True)}
        run_nodes(graph.nodes, env)
        found = [np.array(stored(env, out))[()] for out in graph.outputs]
        return found[0] if len(found) == 1 else tuple(found)

    return evaluate


def record_function(
    parent: Recorder, what: str, function: Callable[..., Any], variables: Sequence[Aval]
) -> tuple[SubProgram, list[Var]]:
    """*function* of *variables* as a program, and the values from outside that it reads.  Its value may be a number, an
    array, a list of numbers, or a tuple of these.  *what*: the name of its caller, for errors."""
    body = FunctionRecorder(parent, 0, what)
    given = [body.variable(aval) for aval in variables]
    with recording(body):
        found = function(*[as_result(v) for v in given])
        several = isinstance(found, tuple)
        outputs: list[Atom] = [nested_atom(x) for x in (found if several else (found,))]
        for k, x in enumerate(outputs):
            if x.aval.is_complex:
                raise UnsupportedError.here(f"a function given to {what} has a complex value")
            outputs[k] = x if x.aval.is_float else cast(x, FLOAT)
        held, error = body.held(f"the function given to {what}")
    with building(parent):
        closed = body.close(given, {}, [*outputs, *held])
    return SubProgram(closed.graph, several, error), closed.consts
