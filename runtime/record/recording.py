"""Recordings of runs of the user's Python, and their equality.

A ``Mode`` is value, gradient or both.  A ``Recording`` is a run that is ready for a kernel: its graph with the
derivative, and the expression for the user's results.  ``Pieces`` are a run that is not yet differentiated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optree

from ...codegen.lower.canonical import Canonical
from ...tracer.ir.evaluate import Env
from ...tracer.ir.graph import Atom, Graph, Guard, Node, Var
from ...tracer.ir.refusals import Reason
from .outputs import Output

VALUE, GRAD, VALUE_AND_GRAD = "value", "grad", "value_and_grad"


@dataclass(slots=True, frozen=True)
class Mode:
    """The requested results: a function's value, its gradient with respect to *argnums*, or both."""

    kind: str
    argnums: int | tuple[int, ...] = 0
    has_aux: bool = False

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.argnums,) if isinstance(self.argnums, int) else self.argnums


@dataclass(slots=True)
class Recording:
    graph: Graph
    canonical: Canonical
    arguments: int  # graph inputs that are arguments or captured arrays; the rest are constants
    captured: list[np.ndarray]  # values of the captured arrays; emptied when the recording has been used
    output: Output
    numbers: list[Guard]  # guards on floats, by their bits: the last results of the graph
    names: list[str]  # the user's expressions for the graph's inputs
    changes: list[Reason] = field(default_factory=list)
    capacities: tuple[int, ...] = ()  # capacities of its loops
    notes: tuple[str | Reason, ...] = ()  # decisions about its loops
    seconds: dict[str, float] = field(default_factory=dict)
    draws: int = 0  # draws from the default stream of random numbers, whose state is then the last captured array

    def same_program(self, other: Recording) -> bool:
        """Whether two recordings denote the same computation, constants included."""
        return (
            same_computation(self, other)
            and self.draws == other.draws
            and self.output.text == other.output.text
            and self.output.single == other.output.single
            and equal_statics(self.output.statics, other.output.statics)
            and len(self.numbers) == len(other.numbers)
        )

    @property
    def facts(self) -> list[tuple[str, bytes]]:
        """The guards that control flow relied on, as comparable (kind, bytes)."""
        return [(g.kind, np.asarray(g.expected).tobytes()) for g in (*self.graph.guards, *self.numbers)]


@dataclass(slots=True, eq=False)
class Pieces:
    """A run of the user's Python, not yet differentiated, for ``segments.py`` to cut."""

    nodes: list[Node]
    guards: list[Guard]  # in the order of the run
    sources: list[Var]  # inputs and constants
    env: Env  # values of the sources, and of whatever Python asked for
    results: list[Atom]
    loss: Atom | None  # the scalar to differentiate, if gradients are wanted
    wrt: list[Var]  # the sources that gradients are taken of
    gradients: list[Var]  # placeholders of the gradients among the results
    output: Output

    def assembled(self, found: tuple[Any, ...]) -> Any:
        """The user's result from the values of the graph's results."""
        if self.output.text is None:
            return found[0] if self.output.single else found
        return self.output.function()(found)


def same_computation(one: Any, other: Any) -> bool:
    """Whether the graphs of two recordings are the same, sizes, constants and constant arrays included."""
    a, b = one.canonical, other.canonical
    arrays = [(x, y) for (_, x), (_, y) in zip(one.graph.consts, other.graph.consts, strict=False)]
    return (
        a.key == b.key
        and a.sizes.tobytes() == b.sizes.tobytes()
        and a.consts.tobytes() == b.consts.tobytes()
        and len(one.graph.consts) == len(other.graph.consts)
        and all(x.tobytes() == y.tobytes() for x, y in arrays)
    )


def equal_statics(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(type(x) is type(y) and _equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if isinstance(x, np.ndarray):
        return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
    if isinstance(x, float):
        return np.float64(x).tobytes() == np.float64(y).tobytes()
    return isinstance(x, (int, str, bytes, bool, np.generic, optree.PyTreeSpec)) and bool(x == y)
