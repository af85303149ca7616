"""A function run within the recording in force, for a transform of it: over variables of its own in place of some of
its arguments, so that the transform can rewrite what the function has recorded and nothing else.

Each of those arguments is renamed first (``renamed``), so that a closure over the same value stays constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...tracer.ir.graph import Atom, Lit, Node, Pair, Var
from ...tracer.ir.primitive import PRIMITIVES
from ...tracer.numpy_api.python_builtins import refuse_numbers_of_text
from ...tracer.ops.complex import real_atoms
from ...tracer.ops.elementwise import whole_lanes
from ...tracer.record.array import TracedArray, to_atom
from ...tracer.record.recorder import Recorder
from .arguments import positional_names
from .call_key import Call
from .differentiable import split_aux, unlabelled
from .outputs import returned
from .rows import first_row, rows_by_lane
from .unwrap_tracers import Settled


@dataclass(slots=True, eq=False)
class InnerRun:
    """One run of a function within *recorder*: its result *out* (and *aux*), the *variables* that stood for the leaves
    *wrt* of the *call*, and where in the recording it begins."""

    recorder: Recorder
    call: Call
    wrt: Sequence[int]
    variables: list[Var]
    start: int  # the number of nodes before
    first_guard: int  # the number of guards before
    out: Any = None
    aux: Any = None
    own: list[Node] = field(default_factory=list)  # the nodes behind its results and its guards
    end: int = 0  # the number of nodes when it was over

    @property
    def nodes(self) -> list[Node]:
        """The nodes behind its results and its guards, with those that have been recorded since."""
        return [*self.own, *self.recorder.nodes[self.end :]]

    @property
    def lanes(self) -> list[Var]:
        """The real variables: the lanes of complex ones, one after the other."""
        return real_atoms(self.variables)  # type: ignore[return-value]


def run_within(
    fn: Callable[..., Any], call: Call, wrt: Sequence[int], recorder: Recorder, *, has_aux: bool = False,
    stacked: Sequence[Atom] | None = None,
) -> InnerRun:  # fmt: skip
    """Run *fn* on the arguments of *call*, with variables in place of its leaves *wrt*, which have their values, or are
    one row of each of *stacked*, whose value nobody may learn."""
    leaves = list(call.leaves)
    start, first_guard, variables = len(recorder.nodes), len(recorder.guards), list[Var]()
    for place, k in enumerate(wrt):
        variables.append(renamed(to_atom(leaves[k]) if stacked is None else first_row(stacked[place]), recorder))
        leaves[k] = TracedArray(variables[-1], recorder, owner="an argument of the inner function")
    for k, first in call.repeated.items():
        leaves[k] = leaves[first]
    given = call.arguments_over(leaves, positional_names(fn), wrt)
    found = InnerRun(recorder, call, wrt, variables, start, first_guard)
    if stacked is not None:
        recorder.stand_ins.rows.append(rows_by_lane(variables, stacked))
    first, first_guard = len(recorder.nodes), len(recorder.guards)
    with recorder.differentiating(found.lanes):
        try:
            found.out = unlabelled(fn(*given.args, **given.kwargs))
        finally:
            given.write_back(Settled(lambda value: value, given.originals))
        if has_aux:
            found.out, found.aux = split_aux(fn, found.out)
        refuse_numbers_of_text(recorder, found.out, start)
        if stacked is not None:
            recorder.settle_premise()
    results = [*returned(found.out), *returned(found.aux)]
    found.own, found.end = recorder.part_behind(real_atoms(results), first, first_guard), len(recorder.nodes)
    return found


def renamed(atom: Atom, recorder: Recorder) -> Var:
    """*atom* under a name that nothing else has: equal nodes would be shared, and two arguments with one value
    confused."""
    if atom.aval.is_complex:
        re, im = [renamed(lane, recorder) for lane in whole_lanes(atom)]
        return Pair(re, im, atom.aval.dtype)
    if isinstance(atom, Lit):
        atom = recorder.const(np.asarray(atom.value))
    alias = Var(atom.aval)
    recorder.append(Node(PRIMITIVES["alias"], (atom,), {}, (alias,), recorder.site()))
    return alias
