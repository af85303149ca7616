"""Search for loops that data ends: in each turn some question was answered in one way, in the last turn in another.

``find_ended`` looks for them in the user's bytecode and the frames that asked: a turn goes from one question to the
next one that has the same answer and leads to the same instruction.  ``while_loops.py`` makes loop nodes of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from types import CodeType, MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from ..bytecode.control_flow import flow_of
from ..bytecode.frame_snapshot import Asked, Traced, traced_in
from ..ir.graph import Atom, Guard, Lit, Node, Var, by_value
from ..ir.refusals import Reason, Refusal
from ..ir.site import Site
from .loop_body import Ending
from .loop_monitor import LoopMonitor
from .repeats import FEW_TRIPS, Item, Key, Step

Replacement: TypeAlias = tuple[int, int, Sequence[Item]]  # first item, the one after the last, others for them

Name: TypeAlias = tuple[str, tuple[int, ...]]  # a local variable; where in it, if it is a tuple


@dataclass(slots=True)
class EndedLoop:
    """A loop in a recording: the items *at* which its turns end, the first of which may be the question before the
    first turn, and the local variables there."""

    at: list[int]
    asked: list[Asked | None]  # None where the first turn does not begin with a question
    continuing: bool  # the last question's answer with which it would have gone on
    head: int  # the instruction at which a turn begins
    left: int  # the instruction after the loop
    differ: bool = False  # whether turns had different answers

    @property
    def start(self) -> int:
        return self.at[0] + 1

    @property
    def end(self) -> int:
        return self.at[-1] + 1


class Turns(NamedTuple):
    """The items from *start* to *end*, turns of a loop, as *trips* blocks that do the same.  *finals*: what is read
    after the loop, by the item that defines it; *inits*: the first values of some of these; *names*: other names for
    them; *counters*: items that stand for Python counters, and by how much a block counts."""

    start: int
    end: int
    trips: int
    steps: list[Step]
    ending: Ending
    finals: dict[Key, Var]
    inits: dict[Key, Atom]
    names: Sequence[Node] = ()
    counters: Mapping[Node, int] = MappingProxyType({})


def find_ended(monitor: LoopMonitor) -> list[EndedLoop]:
    """Loops of which the last question left it, the shortest first."""
    loops: list[EndedLoop] = []
    by_frame: dict[int, list[int]] = {}
    for k in sorted(monitor.asked):
        by_frame.setdefault(id(monitor.asked[k].frame), []).append(k)
    for asked in by_frame.values():
        turns = [_after(monitor, k) for k in asked]
        for k in range(len(asked) - 1, 0, -1):
            loop = _ends_at(monitor, asked, turns, k)
            if loop is not None:
                loops.append(loop)
    return sorted(loops, key=lambda loop: loop.end - loop.start)


def _after(monitor: LoopMonitor, k: int) -> int | None:
    guard, asked = monitor.recorder.items[k], monitor.asked[k]
    assert isinstance(guard, Guard)
    return flow_of(asked.frame.f_code).turn(asked.instruction, bool(guard.expected))


def _ends_at(monitor: LoopMonitor, asked: list[int], turns: list[int | None], k: int) -> EndedLoop | None:
    """The loop that question *k* of one frame has ended."""
    guard, last = monitor.recorder.items[asked[k]], monitor.asked[asked[k]]
    assert isinstance(guard, Guard)
    continuing = not guard.expected
    left, (head, between) = turns[k], _turn_before(last.frame.f_code, last.instruction, continuing)
    if left is None or head is None:
        return None
    cuts = [asked[k]]
    for j in range(k - 1, -1, -1):
        if turns[j] == head:
            cuts.append(asked[j])
        elif turns[j] not in between:  # the loop was left here, and entered again later
            break
    if len(cuts) < FEW_TRIPS:
        return None
    cuts.reverse()
    return EndedLoop(cuts, [monitor.asked[c] for c in cuts], continuing, head, left)


@lru_cache(maxsize=256)
def _turn_before(code: CodeType, offset: int, continuing: bool) -> tuple[int | None, Set[int]]:
    """(where a turn begins, the instructions of a turn) of the loop that was left by an answer to the question at
    *offset*, which would have gone on by the answer *continuing*; (None, nothing) if that has left no loop"""
    flow = flow_of(code)
    head, left, at = flow.turn(offset, continuing), flow.turn(offset, not continuing), flow.asks(offset)
    loop = flow.loop_left_at(at) if at is not None else None
    if head is None or left is None or loop is None or left in loop:
        return None, frozenset()
    return head, flow.between(head, left)


def states_of(asked: Iterable[Asked | None], names: Iterable[str]) -> list[dict[Name, Traced]]:
    """The traced values of the local variables *names* at each question."""
    ordered = sorted(names)
    values = [{} if a is None else a.values for a in asked]
    return [{(name, path): v for name in ordered for path, v in traced_in(seen.get(name))} for seen in values]


class Uses:
    """Uses of the values of *items*, by later items or as *roots*; *open*: or by others that nobody knows yet."""

    def __init__(self, items: Sequence[Item], first: dict[Var, int], roots: Sequence[Atom], open: bool = False):
        self.items, self.first, self.roots, self.open = items, first, roots, open

    def finals(
        self, start: int, end: int, held: Iterable[tuple[Sequence[Atom], Any]],
        renamed: Mapping[Atom, Atom] = MappingProxyType({}),
    ) -> dict[Any, list[Var]] | Reason:  # fmt: skip
        """Values of the items from *start* to *end* that later ones read, by their sources.

        Each has to be what a local variable holds then, whatever the number of turns.  *held*: for each variable that
        is read later its values after the turns, and their source, None where it is unknown.
        """
        holders: dict[Atom, set[Any]] = {}
        for column, source in held:
            last = column[-1]
            if not self.outside(last, start) or any(by_value(a) != by_value(last) for a in column):
                holders.setdefault(last, set()).add(source)
        finals: dict[Any, list[Var]] = {}
        for var in self.after(start, end):
            sources = holders.get(renamed.get(var, var), {None})
            if len(sources) != 1 or None in sources:
                return Refusal.WHILE_READ_AFTER()
            finals.setdefault(next(iter(sources)), []).append(var)
        read = {a for item in self.items[end:] for a in (item.inputs if isinstance(item, Node) else (item.atom,))}
        read.update(self.roots)
        for atom in holders:
            if isinstance(atom, Lit) or ((self.open or atom in read) and self.outside(atom, start)):
                return Refusal.BRANCH_BEFORE()
        return finals

    def outside(self, atom: Atom, start: int) -> bool:
        """Whether *atom* is defined before item *start*."""
        return isinstance(atom, Lit) or self.first.get(atom, -1) < start

    def after(self, start: int, end: int) -> set[Var]:
        """Values of the items from *start* to *end* that later ones read.  An operation that is recorded again later is
        computed again there, so its results do not count."""
        again: set[Atom] = set()
        read: set[Var] = set()

        def note(atom: Atom) -> None:
            if isinstance(atom, Var) and start <= self.first.get(atom, -1) < end and atom not in again:
                read.add(atom)

        for item in self.items[end:]:
            if isinstance(item, Guard):
                note(item.atom)
                continue
            for atom in item.inputs:
                note(atom)
            again.update(item.outs)
        for atom in self.roots:
            note(atom)
        return read


def replace_items(monitor: LoopMonitor, made: Sequence[Replacement]) -> None:
    """Put other items in the place of those from one number to another, in any order."""
    recorder = monitor.recorder
    items: list[Item] = []
    sites: list[Site | None] = []
    asked: dict[int, Asked] = {}
    at = 0
    for start, after, instead in [*sorted(made, key=itemgetter(0)), (len(recorder.items), 0, ())]:
        for k in range(at, start):
            if k in monitor.asked:
                asked[len(items)] = monitor.asked[k]
            items.append(recorder.items[k])
            sites.append(recorder.sites[k])
        items += instead
        sites += [item.site for item in instead]
        at = after
    recorder.items, recorder.sites, monitor.asked = items, sites, asked
    recorder.nodes = _defined(items)


def _defined(items: Sequence[Item]) -> list[Node]:
    seen: set[Var] = set()
    nodes = []
    for item in items:
        if isinstance(item, Node) and item.outs[0] not in seen:
            seen.update(item.outs)
            nodes.append(item)
    return nodes
