"""Families: paths of one variant that one launch tries, so that inputs which take turns cost no Python.

The launcher runs the kernel of the path that answered last. Where a guard of it fails, it goes straight to a path that
gave that very question another answer, on the same arguments and into the same results; only when none is left does
Python hear of it. Which path comes next stands in a table, made anew when a path is added (:func:`successors`).

As in ``siblings``, the order is a heuristic: every path that answers has had all of its own guards checked.
``apart`` says which paths can't share a launch, and why; ``explain()`` shows it.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...tracer.ir.refusals import Reason, Refusal
from ..launch.bind import MAX_FAMILY, bind_family
from ..record.recording import equal_statics
from .paths import Path, Variant
from .shared_prefix import SharedPrefix, describe_merged, merge
from .siblings import possible


@dataclass(eq=False, slots=True)
class Family:
    """``launch`` answers as that of a path does; a failed guard is counted on from one of ``members`` to the next."""

    variant: Variant
    members: tuple[Path, ...]
    launch: Callable[..., Any]
    merged: SharedPrefix | None = None  # where there are several members
    missed: tuple[int, int, Path, int] | None = None  # (call, thread, path, guard): the last miss in a slot
    known: list[Any] = field(default_factory=lambda: [None])  # what the dispatcher tells the slot

    def miss(self, call: int, number: int) -> None:
        """Note for the dispatcher that no member holds in this *call* of this thread; *number*: the launch's answer."""
        starts = [0, *itertools.accumulate(len(path.guards) for path in self.members)]
        k = bisect_right(starts, number) - 1
        self.missed = (call, threading.get_ident(), self.members[k], number - starts[k])

    def number_miss(self, call: int, k: int) -> None:
        """As ``miss``, for float *k* of the only member."""
        (path,) = self.members
        self.missed = (call, threading.get_ident(), path, path.number_failed(k))

    def taken(self, call: int) -> tuple[Path, int] | None:
        """The :meth:`miss` of this *call*, which is taken out: the last path that failed, and its guard; or None."""
        missed, self.missed = self.missed, None
        return missed[2:] if missed is not None and missed[:2] == (call, threading.get_ident()) else None


def make_family(variant: Variant, path: Path, families: Sequence[Family]) -> Family:
    """The family of *path*: all verified paths of *variant* that can share a launch with it and are in none of the
    *families* that are full."""
    full = {id(p) for family in families if len(family.members) == MAX_FAMILY for p in family.members}
    others = [p for p in tuple(variant.paths) if p is not path and p.verified and id(p) not in full]
    members = (path, *[p for p in others if not apart(path, p)])[:MAX_FAMILY]
    if len(members) == 1:
        return Family(variant, members, path.launch)
    following = successors(members)
    if any(p.recording.exact or p.program is None or not p.program.is_native for p in members):
        return Family(variant, members, bind_family([p.launch for p in members], following))
    merged = merge(members, following, variant.steps)
    return Family(variant, members, bind_family([p.launch for p in members], following, merged), merged)


def apart(path: Path, other: Path) -> Reason | None:
    """The reason why two paths of one variant can't share a launch; None where they can."""
    mine, theirs = path.recording, other.recording
    if mine.numbers or theirs.numbers:
        return Refusal.LAUNCH_NUMBERS()
    if mine.draws != theirs.draws:
        return Refusal.LAUNCH_DRAWS()
    if mine.relies_on != theirs.relies_on:
        return Refusal.LAUNCH_INPUTS()
    if [effect.key for effect in mine.effects] != [effect.key for effect in theirs.effects]:
        return Refusal.LAUNCH_EFFECTS()
    if [(x.aval.dtype, x.aval.shape) for x in mine.graph.outputs] != [
        (x.aval.dtype, x.aval.shape) for x in theirs.graph.outputs
    ]:
        return Refusal.LAUNCH_RESULTS()
    a, b = mine.output, theirs.output
    same = (a.text, a.single) == (b.text, b.single) and equal_statics(a.statics, b.statics)
    if not same or [type(x) for x in a.statics] != [type(x) for x in b.statics]:
        return Refusal.LAUNCH_STRUCTURE()
    return None


def successors(paths: Sequence[Path]) -> list[list[int]]:
    """For each path and guard that fails, the position of the path to try next (-1: none).

    The answers of the paths form a tree, a node for each question that was asked after the same answers.  The successor
    is the busiest path that gave the next one of the answers known at that node, in turn.
    """
    result = [[-1] * len(path.guards) for path in paths]
    edges: dict[tuple[int, Any], tuple[int, int]] = {}  # (node, answer): the node it leads to, its place at the first
    firsts: list[list[int]] = [[]]  # for each node and answer there, the first path that gave it
    steps: list[tuple[int, int, int, int]] = []
    for k, path in sorted(enumerate(paths), key=lambda item: -int(item[1].counts[0])):
        node = 0
        for question, answer, guard in path.questions:
            key = (node, (question, answer))
            if key not in edges:
                edges[key] = (len(firsts), len(firsts[node]))
                firsts[node].append(k)
                firsts.append([])
            steps.append((k, guard, node, edges[key][1]))
            node = edges[key][0]
        firsts[node].append(k)  # asks no more
    for k, guard, node, place in steps:
        if len(firsts[node]) > 1:
            result[k][guard] = firsts[node][(place + 1) % len(firsts[node])]
        else:  # a path that was asked something else before (a question for all turns of a loop)
            others = (j for j, path in enumerate(paths) if j != k and possible(path, paths[k], guard))
            result[k][guard] = next(others, -1)
    return result


def describe_families(families: Sequence[Family], variants: Sequence[Variant]) -> list[str]:
    """Lines for ``explain()``: paths of *variants* that share launches, and the reasons why others don't."""
    lines: list[str] = []
    for variant in variants:
        mine = [family for family in families if family.variant is variant]
        for family in [f for f in mine if len(f.members) > 1]:
            lines.append(f"{len(family.members)} of the paths are tried in one launch")
            lines += [] if family.merged is None else describe_merged(family.merged)
        leader = mine[0].members[0] if mine else None
        reasons = [apart(leader, p) for p in variant.paths if leader is not None and p is not leader and p.verified]
        lines += [f"not in one launch with others: {reason}" for reason in dict.fromkeys(reasons) if reason]
    return lines


__all__ = ["Family", "apart", "describe_families", "make_family", "successors"]
