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

from ...tracer.ir.equality import program_key
from ...tracer.ir.graph import Atom
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
        key = (program_key([*recorder.inputs, *consts], recorder.nodes, roots), *others)
        hash(key)
    except TypeError:  # a parameter that has no hash
        return None
    return key
