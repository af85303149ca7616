"""Induction variables: Python counters of a loop that data ends, as recorded integers behind it.

    n = 0
    while abs(f(x)) > 1e-9:
        x, n = x - f(x) / df(x), n + 1
    return x, n

How many turns there are is data, and so is ``n`` after the loop.  While it runs, ``n`` is a Python integer; when the
question that ends the loop gets its other answer, a traced integer takes its place in the user's frame.  It is a
constant of the recording, which the guards of the turns warrant, until the turns become a loop node
(``while_loops.py``); then it follows from the node's number of steps.

A variable is a counter if it was a Python integer in every turn and grew by the same number from each to the next, and
if the loop is otherwise proven to depend on recorded values alone (``purity.py``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import FrameType
from typing import Any

import numpy as np

from ..bytecode.control_flow import flow_of
from ..bytecode.frame_snapshot import Asked
from ..bytecode.purity import Proof, counters, prove
from ..bytecode.versions import FORM
from ..ir.aval import INT, Aval
from ..ir.graph import Lit, Node, Var
from ..ir.primitive import PRIMITIVES
from ..record.array import wrap
from ..record.recorder import Recorder
from .repeats import FEW_TRIPS

LARGEST = 1 << 53  # of a counter: what a float64 can still count


class InductionVariables:
    """Traced integers for the counters of loops that were left: ``found`` has the name and the step of each."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.found: dict[Var, tuple[str, int]] = {}
        self._equal: dict[tuple[int, int], tuple[bool, list[Asked]]] = {}  # to each question, the last equal answers

    def answered(self, asked: Asked, answer: bool) -> None:
        """Replace the counters of a loop that ends by the answer to *asked*."""
        key = id(asked.frame), asked.instruction
        before, same = self._equal.get(key, (not answer, []))
        if answer == before:
            same.append(asked)
            return
        self._equal[key] = answer, [asked]
        if len(same) + 1 >= FEW_TRIPS:
            self._promote([*same, asked], answer)

    def _promote(self, iterations: Sequence[Asked], answer: bool) -> None:
        recorder, frame, last = self.recorder, iterations[-1].frame, iterations[-1]
        flow = flow_of(frame.f_code)
        at, onward = flow.asks(last.instruction), flow.turn(last.instruction, answer)
        loop = flow.loop_left_at(at) if at is not None else None
        if at is None or loop is None or onward is None or onward in loop:
            return
        found = counters(iterations)
        proof = prove(iterations, frozenset(found)) if found else None
        if not isinstance(proof, Proof):
            return
        for name in sorted(found.keys() & proof.counted):
            value = last.values[name].value
            if abs(value) > LARGEST:
                continue
            var = Var(Aval(INT, (), weak=True))
            recorder.append(Node(PRIMITIVES["cast"], (Lit(value, INT),), {"dtype": INT}, (var,), recorder.site()))
            recorder.env[var] = np.array(value)
            self.found[var] = name, found[name]
            assign(frame, name, wrap(var))


def assign(frame: FrameType, name: str, value: Any) -> None:
    """Set a local variable of a function that is running, as debuggers do."""
    frame.f_locals[name] = value
    if not FORM.writes_locals:
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
