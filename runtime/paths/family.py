"""Families: the paths of a variant as trees of answers, each of which one launch walks.

A ``Variant`` is one call key under one outside state. Its paths are the branches of one deterministic function: as long
as two of them have had the same answers, they were asked the same questions. So a path that misses at a guard tells of
the others without running them: what can hold parts from it at that very question, which it has answered otherwise.

The launcher runs the kernel of the path that answered last. Where a guard of it fails, it goes straight to such a path,
on the same arguments and into the same results; only when none is left does Python hear of it. So inputs that take
turns cost no Python. Which path comes next stands in a table, made anew when a path is added (:func:`successors`).

The order is a heuristic: two kernels may compute a number that differs in its last bit, and a branch may hang on that
bit. Every path that answers has had all of its own guards checked; one that is passed over wrongly costs a recording.
``apart`` says which paths can't share a launch, and why; ``explain()`` shows it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...tracer.ir.graph import Guard
from ...tracer.ir.refusals import Reason, Refusal
from ..launch.bind import MAX_FAMILY, bind_family, natively
from ..record.recording import Recording, equal_statics
from ..state.snapshot import Snapshot
from .paths import Path
from .shared_prefix import SharedPrefix, describe_merged, merge


@dataclass(eq=False, slots=True)
class Variant:
    """``paths`` are what its branches have shown so far, newest first; each is in one of ``families``, the one that
    answered last first."""

    snapshot: Snapshot
    paths: list[Path] = field(default_factory=list)
    families: list[Family] = field(default_factory=list)
    steps: dict[Any, int] = field(default_factory=dict)  # value numbers of its paths' steps (``shared_prefix.py``)
    reads: Any = None  # ``logged.joined.KnownReads`` of a function's runs

    def join(self, path: Path) -> Family:
        """The family of *path*, which is new: it joins the first that has room and can share a launch."""
        fits = (f for f in self.families if len(f.members) < MAX_FAMILY and not apart(f.members[0], path))
        known = next(fits, None)
        family = make_family(self, (path, *(known.members if known is not None else ())))
        self.families = [family, *[f for f in self.families if f is not known]]
        return family

    def forget(self, paths: Collection[Path]) -> None:
        """Remove *paths*."""
        self.paths = [p for p in self.paths if p not in paths]
        kept = [(family, tuple([p for p in family.members if p not in paths])) for family in self.families]
        self.families = [f if left == f.members else make_family(self, left) for f, left in kept if left]


@dataclass(eq=False, slots=True)
class Family:
    """``launch`` answers as that of a path does; a failed guard is counted on from one of ``members`` to the next."""

    variant: Variant
    members: tuple[Path, ...]
    launch: Callable[..., Any]
    merged: SharedPrefix | None = None  # where there are several members
    missed: tuple[int, int, int] | None = None  # (call, thread, answer of the launch): the last miss in a slot
    known: list[Any] = field(default_factory=lambda: [None])  # what the dispatcher tells the slot

    def miss(self, call: int, number: int) -> None:
        """Note for the dispatcher that no member holds in this *call* of this thread; *number*: the launch's answer."""
        self.missed = (call, threading.get_ident(), number)

    def taken(self, call: int) -> int | None:
        """The :meth:`miss` of this *call*, which is taken out: the launch's answer; or None."""
        missed, self.missed = self.missed, None
        return missed[2] if missed is not None and missed[:2] == (call, threading.get_ident()) else None

    def failed(self, number: int) -> Guard:
        """The guard at which the last member failed, by the launch's answer."""
        path, guard = self._missed(number)
        return path.guards[guard]

    def _missed(self, number: int) -> tuple[Path, int]:
        """(the last member, the guard at which it failed), by the launch's answer."""
        return [(path, k) for path in self.members for k in range(len(path.guards))][number]

    def left(self, number: int) -> list[Path]:
        """The members that may hold, by what the last one has told until it failed, by the launch's answer; but for
        those that gave another answer where it did: the launch has run them."""
        last, guard = self._missed(number)
        held = {question: answer for question, answer, k in last.questions if k < guard}  # which are checked in order
        at = next(k for k, (*_, index) in enumerate(last.questions) if index == guard)
        asked, failed, _ = last.questions[at]
        before = [told[:2] for told in last.questions[:at]]

        def possible(path: Path) -> bool:
            told = [told[:2] for told in path.questions]
            run = told[:at] == before and len(told) > at and told[at][0] == asked
            return not run and (asked, failed) not in told and all(held.get(q, a) == a for q, a in told)

        return [path for path in self.members if possible(path)]


def make_family(variant: Variant, members: tuple[Path, ...]) -> Family:
    """The family of *members*, which can share a launch."""
    for path in members:
        path.launch = natively(path.launch)
    if len(members) == 1:
        return Family(variant, members, members[0].launch)
    following, launches = successors(members), [path.launch for path in members]
    if any(p.recording.exact or p.program is None or not p.program.address for p in members):
        return Family(variant, members, bind_family(launches, following))
    merged = merge(members, following, variant.steps)
    return Family(variant, members, bind_family(launches, following, merged), merged)


_TOLD: dict[Refusal, Callable[[Recording], Any]] = {  # of paths that share a launch, one and the same
    Refusal.LAUNCH_DRAWS: lambda recording: recording.draws,
    Refusal.LAUNCH_INPUTS: lambda recording: recording.relies_on,
    Refusal.LAUNCH_EFFECTS: lambda recording: [effect.key for effect in recording.effects],
    Refusal.LAUNCH_RESULTS: lambda recording: [(x.aval.dtype, x.aval.shape) for x in recording.graph.outputs],
}


def apart(path: Path, other: Path) -> Reason | None:
    """The reason why two paths of one variant can't share a launch; None where they can."""
    mine, theirs = path.recording, other.recording
    if mine.numbers or theirs.numbers:
        return Refusal.LAUNCH_NUMBERS()
    for refusal, told in _TOLD.items():
        if told(mine) != told(theirs):
            return refusal()
    a, b = mine.output, theirs.output
    same = (a.text, a.single) == (b.text, b.single) and equal_statics(a.statics, b.statics)
    makers, others = [[*map(id, filter(callable, output.names.values()))] for output in (a, b)]  # by number in the text
    if not same or makers != others or [type(x) for x in a.statics] != [type(x) for x in b.statics]:
        return Refusal.LAUNCH_STRUCTURE()
    return None


def successors(paths: Sequence[Path]) -> list[list[int]]:
    """For each path and guard that fails, the position of the path to try next (-1: none).

    The answers of the paths form a tree, a node for each question that was asked after the same answers.  The successor
    is the busiest path that gave the next one of the answers known there, in turn.  After these come paths that were
    asked something else there, and those that were before (for all iterations of a loop at once, or beside a branch
    both of whose arms run), of which nothing can be told.
    """
    result = [[-1] * len(path.guards) for path in paths]
    edges: dict[tuple[int, Any], int] = {}  # (node, answer): the node it leads to
    firsts: list[dict[Any, list[int]]] = [{}]  # for each node, by question: the first paths that gave its answers
    above: list[tuple[int, Any]] = [(0, None)]  # for each node, that before it, and its question
    leads = [0]  # for each node, the first path that came there
    steps: list[tuple[int, int, int, int]] = []
    for k, path in sorted(enumerate(paths), key=lambda item: -int(item[1].counts[0])):
        node = 0
        for question, answer, guard in path.questions:
            key = (node, (question, answer))
            if key not in edges:
                edges[key] = len(firsts)
                firsts[node].setdefault(question, []).append(k)
                firsts.append({})
                above.append((node, question))
                leads.append(k)
            steps.append((k, guard, node, edges[key]))
            node = edges[key]
        firsts[node].setdefault(None, []).append(k)  # asks no more
    others: list[list[int]] = [[]]  # for each node, paths that were asked something else before
    for before, question in above[1:]:
        groups = list(firsts[before])
        place = groups.index(question) + 1
        others.append([*[firsts[before][x][0] for x in (*groups[place:], *groups[: place - 1])], *others[before]])
    for k, guard, node, child in steps:
        ring = [*itertools.chain(*firsts[node].values()), *others[node]]
        place = ring.index(leads[child]) + 1
        result[k][guard] = ring[place % len(ring)] if len(ring) > 1 else -1
    return result


def describe_families(variants: Sequence[Variant]) -> list[str]:
    """Lines for ``explain()``: paths of *variants* that share launches, and the reasons why others don't."""
    lines: list[str] = []
    for variant in variants:
        for family in [f for f in variant.families if len(f.members) > 1]:
            lines.append(f"{len(family.members)} of the paths are tried in one launch")
            lines += [] if family.merged is None else describe_merged(family.merged)
        leaders = [family.members[0] for family in variant.families]
        reasons = [apart(leaders[0], leader) for leader in leaders[1:]]
        lines += [f"not in one launch with others: {reason}" for reason in dict.fromkeys(reasons) if reason]
    return lines
