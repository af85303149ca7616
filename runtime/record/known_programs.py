"""Programs that live runs of a function have recorded before: their derivatives and kernels serve again.

A run that records the same operations on inputs of the same forms has the same derivative, whatever the values are.
Arrays of the user's Python, which are others in each run, become inputs; numbers among the operands are part of what is
the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...tracer.ir.graph import Atom, Graph, Lit, Node, Pair, live_nodes
from ...tracer.record.recorder import Recorder
from ..recent import Recent
from .recording import Recording

_MOST = 64  # of one function


class KnownPrograms:
    """The recordings of one function's live runs, by what they have in common."""

    def __init__(self) -> None:
        self._known: Recent[Hashable, Recording] = Recent(lambda: _MOST)

    def find(self, key: Hashable, values: list[Any]) -> Recording | None:
        """The recording of a run with this *key*, for *values* of the inputs after the arguments."""
        found = self._known.find(key)
        return None if found is None else replace(found, captured=values, seconds={})

    def keep(self, key: Hashable, recording: Recording) -> None:
        """Keep a *recording*, without the values of its run."""
        if not (recording.output.statics or recording.changes or recording.capacities or recording.draws):
            self._known.keep(key, replace(recording, captured=[]))


def constants_as_inputs(recorder: Recorder) -> list[np.ndarray]:
    """Make the arrays of the user's Python inputs; their values."""
    consts, recorder.consts = recorder.consts, []
    recorder.inputs += [var for var, _ in consts]
    recorder.input_names += ["an array of the function's"] * len(consts)
    return [array for _, array in consts]


def key_of(recorder: Recorder, consts: Sequence[Any], roots: Sequence[Atom], *others: Hashable) -> Hashable | None:
    """A key that two runs share that have the same program up to the *roots*, over inputs and *consts*, and the
    *others*; None where that is not known."""
    if recorder.guards or recorder.reasons or recorder.drawn.stream is not None or recorder.stand_ins.rows:
        return None
    try:
        key = (program_of([*recorder.inputs, *consts], recorder.nodes, roots), *others)
        hash(key)
    except TypeError:  # a parameter that has no hash
        return None
    return key


def program_of(inputs: Sequence[Any], nodes: Sequence[Node], *roots: Sequence[Atom]) -> Hashable:
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
        return program_of(value.inputs, value.nodes, value.outputs)
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
