"""A marked iteration cut out of the recording, as the body of a loop node.

What depends on no symbol stays, before the loop; the rest is emitted again, into the body.  Conditions on which the
iteration rests become one flag that is carried, with one guard after the loop; its value in this run is looked at, and
where it does not hold everything is put back as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ir.aval import BOOL, FLOAT_KINDS
from ..ir.graph import Atom, Guard, Lit, Node, answered, building, structural
from ..ir.refusals import Reason, Refusal
from ..ops.control import CAPACITY, UNLIMITED
from ..ops.elementwise import F
from ..record.recorder_parts import Premise
from .body import greatest
from .loop_node import make_loop
from .marked import Marked
from .parts import Cut, LoopResults, Wanted

_HELD = "what was asked in each iteration had the same answer", "what was asked had another answer in some iteration"


def _conditions(parts: Cut) -> list[Atom] | Reason:
    """Conditions that have to hold in every iteration, for what was asked in this one."""
    found: list[Atom] = []
    for guard in parts.guards():
        condition = _condition(guard)
        if isinstance(condition, Reason):
            return condition
        found.append(condition)
    premise = parts.recorder.premise
    return [*found, premise.atom] if premise is not None and parts.depends(premise.atom) else found


def _condition(guard: Guard) -> Atom | Reason:
    """That *guard* holds, as a value of the iteration."""
    atom, expected, dtype = guard.atom, guard.expected, guard.atom.aval.dtype
    if guard.kind == CAPACITY:
        return Refusal.LOOP_NUMBER(kind=guard.kind, site=guard.site)
    if guard.kind == "bool" and dtype.kind != "b":
        atom, expected, dtype = F.ne(atom, structural(0, dtype)), bool(expected != 0), BOOL
    if dtype.kind == "b":
        return atom if expected else F.logical_not(atom)
    if dtype.kind in FLOAT_KINDS:
        return Refusal.LOOP_NUMBER(kind=guard.kind, site=guard.site)
    return F.eq(atom, Lit(expected, dtype))


def _told(asked: Sequence[Guard], conditions: int) -> tuple[str, str]:
    """The words for a guard on all that was *asked* in the iterations of a loop."""
    said = {guard.said or answered(guard.kind, guard.expected, "iteration") for guard in asked}
    return said.pop() if len(said) == 1 and len(asked) == conditions else _HELD


def cut(marked: Marked, wanted: Wanted) -> LoopResults | Reason:
    """The loop in the place of the iteration, and of all that would follow; or why there is none, with nothing
    changed."""
    recorder = marked.recorder
    with building(recorder):
        conditions = _conditions(Cut(marked, wanted))
    if isinstance(conditions, Reason):
        return conditions
    if wanted.stops and wanted.go_on is None and not conditions:
        return Refusal.LOOP_ENDLESS(site=marked.site)
    parts = Cut(marked, wanted)  # what the conditions have added belongs to the iteration
    if wanted.rows and greatest(marked.length, recorder.open_loops) >= UNLIMITED and not wanted.stops:
        return Refusal.LOOP_COUNT(site=marked.site)
    if parts.keeps_row():  # which is refused when the run is over
        return marked.seen("a value of one row of a batch is kept")
    before = recorder.nodes[marked.nodes :], recorder.guards[marked.guards :], recorder.premise
    asked = parts.guards()
    told, lines = _told(asked, len(conditions)), {guard.site for guard in asked}
    line = lines.pop() if len(lines) == 1 else marked.site
    site, recorder.site_override = recorder.site_override, marked.site
    done = False
    try:
        with building(recorder):
            _take_out(parts)
            found, flags = make_loop(parts, conditions)
            done = all(recorder.holds(flag, conditions) for flag, _ in flags)
            if not done:
                return Refusal.LOOP_ANSWERS(site=asked[0].site if asked else marked.site)
            found.told = (told, line) if found.asks else None
            for flag, held in flags:
                answers = b"".join([asked[k].answer for k in held if k < len(asked)])  # (one may be a premise)
                recorder.add_guard(Guard(flag, np.True_, "bool", line, len(recorder.nodes), told, answers))
    finally:
        recorder.site_override = site
        if not done:
            _put_back(marked, *before)
    return found


def _take_out(parts: Cut) -> None:
    """Leave of the iteration what depends on no symbol."""
    recorder, marked = parts.recorder, parts.marked
    nodes, guards = recorder.nodes[marked.nodes :], recorder.guards[marked.guards :]
    kept = [parts.outside[id(node)] for node in nodes if id(node) in parts.outside]
    recorder.disown(nodes, guards)
    spots = recorder.loops.spots
    for out in [out for node in parts.outside.values() for out in node.outs]:
        if out in spots and spots[out].x in parts.known:  # which is gone
            spots[out] = spots[out]._replace(x=parts.known[spots[out].x])
    asked = [replace(g, atom=parts.known.get(g.atom, g.atom)) for g in guards if not parts.depends(g.atom)]
    recorder.rewrite(marked.nodes, marked.guards, kept, [g for g in asked if not isinstance(g.atom, Lit)])
    if recorder.premise is not None and parts.depends(recorder.premise.atom):
        recorder.premise = None


def _put_back(marked: Marked, nodes: Sequence[Node], guards: Sequence[Guard], premise: Premise | None) -> None:
    """Undo what was done since the iteration was taken out, which had these *nodes* and *guards*."""
    recorder = marked.recorder
    recorder.disown(recorder.nodes[marked.nodes :], recorder.guards[marked.guards :])
    recorder.rewrite(marked.nodes, marked.guards, nodes, guards)
    recorder.premise = premise
