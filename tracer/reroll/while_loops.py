"""Rerolling of loops that data ends: their turns become one loop node that stops by itself.

Such a loop was recorded as turns of which the last got another answer to its condition.  Where the turns are proven to
repeat (``prove.py``), and the user's bytecode proves that recorded values alone decide their number (``purity.py``),
they become one loop node that stops when the answer changes.  Blocks begin after the question, so items before the
first question stay as they are; the node's body computes a turn and the next answer, which is carried.

Values read after the loop have to be those of local variables then, in the same way for every number of turns: the
value of an item of the last turn, or of the turn before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..bytecode.frame_snapshot import Asked, Many, Traced
from ..bytecode.purity import Proof, prove
from ..ir.aval import INT
from ..ir.errors import GraphError
from ..ir.graph import Atom, Guard, Lit, Node, Var, building
from ..ir.primitive import PRIMITIVES
from ..ir.refusals import Reason, Refusal
from ..ir.site import Site
from ..ops.control import CAPACITY, UNLIMITED
from ..ops.elementwise import F
from ..record.recorder import Recorder
from .find import alike
from .followed_loop import wholes_of
from .loop_body import Block, Ending, Lines, affine
from .loop_monitor import LoopMonitor
from .prove import first_items, match
from .repeats import FEW_TRIPS, Carried, Item, Key, Repeat, Rows, Slot, Step, VaryingConstant, part_of
from .rewrite import fold_items


class _WhileLoop(NamedTuple):
    repeat: Repeat
    continuing: bool  # the answer with which another turn follows
    length: int
    finals: dict[Key, Var]  # values of the last turn that are read after the loop
    lagging: dict[Key, Var]  # values of the turn before the last that are read after the loop
    counters: list[Node]  # the items after it that stand for Python counters


def fold_whiles(monitor: LoopMonitor, roots: Sequence[Atom], spared: Collection[int] = ()) -> bool:
    """Replace loops that data ends by loop nodes, but those whose last item is *spared*; whether there were any."""
    loops = _find(monitor, roots, spared)
    replace_items(monitor, [(k.repeat.start, k.repeat.end + len(k.counters), _made(monitor, k)) for k in loops])
    return bool(loops)


# ---- finding --------------------------------------------------------------------------------------------------------


def _find(monitor: LoopMonitor, roots: Sequence[Atom], spared: Collection[int]) -> list[_WhileLoop]:
    items, sites = monitor.recorder.items, monitor.recorder.sites
    first = first_items(items, lambda atom: wholes_of(monitor.followed, atom))
    used: Uses | None = None
    found: list[_WhileLoop] = []
    for run in sorted(alike(items, sites), key=lambda run: run.period):
        trips = _turns(monitor, run.start, run.end, run.period)
        if trips < FEW_TRIPS or run.end - 1 in spared:
            continue
        start = run.end - trips * run.period
        if any(start < k.repeat.end and k.repeat.start < run.end for k in found):
            continue
        repeat = match(items, first, start, run.period, trips, whole=True)
        if isinstance(repeat, Reason):
            monitor.refuse(repeat)
            continue
        if used is None:
            used = Uses(items, first, roots)
        loop = _proven(monitor, repeat, used)
        if isinstance(loop, Reason):
            monitor.refuse(loop.within(f"the loop that ends at {sites[run.end - 1]}: "))
        else:
            found.append(loop)
    return sorted(found, key=lambda loop: loop.repeat.start)


def _turns(monitor: LoopMonitor, start: int, end: int, period: int) -> int:
    """The number of blocks that end with one question, the last one with another answer; 0 if there are none."""
    items = monitor.recorder.items
    last = items[end - 1]
    if not isinstance(last, Guard) or last.kind != "bool":
        return 0
    trips = (end - start) // period
    for k in range(1, trips):
        at = end - 1 - k * period
        guard = items[at]
        if not isinstance(guard, Guard) or at not in monitor.asked or bool(guard.expected) == bool(last.expected):
            return k if k > 1 else 0
    return trips


class Uses:
    """Uses of the values of *items*, by later items or as *roots*."""

    def __init__(self, items: Sequence[Item], first: dict[Var, int], roots: Sequence[Atom]):
        self.items, self.first, self.roots = items, first, roots

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


def _proven(monitor: LoopMonitor, repeat: Repeat, uses: Uses) -> _WhileLoop | Reason:
    """*repeat* as a loop for any number of turns, or the reason why it is none."""
    ends = range(repeat.start + repeat.period - 1, repeat.end, repeat.period)
    asked = [monitor.asked[k] for k in ends]
    items = monitor.recorder.items
    last = items[repeat.end - 1]
    assert isinstance(last, Guard)
    for step in repeat.steps[:-1]:
        if isinstance(step.item, Guard):
            if step.item.kind != "bool":
                return Refusal.ROLL_NUMBER(kind=step.item.kind, site=step.item.site)
            assert step.expected is not None
            if not (step.expected.astype(bool) == bool(step.expected[0])).all():
                return Refusal.WHILE_ANSWERS(site=step.item.site)
    counters = counters_after(monitor, repeat.end)
    proof = prove(asked, frozenset([monitor.counters.found[node.out][0] for node in counters]))
    if isinstance(proof, Reason):
        return proof
    uneven = _uneven(repeat)
    if uneven:
        return uneven
    places = _after(items, repeat, asked, proof)
    if isinstance(places, Reason):
        return places
    finals: dict[Key, Var] = {}
    lagging: dict[Key, Var] = {}
    for var in uses.after(repeat.start, repeat.end):
        if var not in places:
            return Refusal.WHILE_READ_AFTER()
        key, lag = places[var]
        (lagging if lag else finals)[key] = var
    carried = {
        (s.item, s.out) for step in repeat.steps for s in step.slots if isinstance(s, Carried) and s.distance == 1
    }
    if not carried.issuperset(lagging):
        return Refusal.WHILE_EARLIER()
    length = _length(monitor.recorder, repeat, proof)
    return _WhileLoop(repeat, not bool(last.expected), length, finals, lagging, counters)


def counters_after(monitor: LoopMonitor, end: int) -> list[Node]:
    """The items from *end* on that stand for Python counters of the loop before them."""
    found: list[Node] = []
    for item in monitor.recorder.items[end:]:
        if not isinstance(item, Node) or item.out not in monitor.counters.found:
            break
        found.append(item)
    return found


def _after(
    items: Sequence[Item], repeat: Repeat, asked: Sequence[Asked], proof: Proof
) -> dict[Var, tuple[Key, int]] | Reason:
    """The final values of the local variables that are read later: (item of a turn, number of turns ago)."""
    defined: dict[Var, list[Key]] = {}
    for j in range(repeat.period):
        item = items[repeat.end - repeat.period + j]
        before = items[repeat.end - 2 * repeat.period + j]
        for node in (item, before):
            if isinstance(node, Node):
                for i, out in enumerate(node.outs):
                    defined.setdefault(out, []).append((j, i))
    found: dict[Var, tuple[Key, int]] = {}
    for name in proof.live:
        refusal = _place([a.values.get(name) for a in asked], items, repeat, defined, found)
        if refusal is not None:
            return refusal(name=name)
    return found


def _place(
    values: Sequence[Any], items: Sequence[Item], repeat: Repeat, defined: dict[Var, list[Key]],
    found: dict[Var, tuple[Key, int]],
) -> Refusal | None:  # fmt: skip
    """Note the item that defines one variable's value in *found*; returns the reason if it differs between turns."""
    last = values[-1]
    if isinstance(last, Many):
        if not all(isinstance(v, Many) and len(v.items) == len(last.items) for v in values):
            return Refusal.WHILE_LENGTH
        for column in zip(*[v.items for v in values], strict=True):
            refusal = _place(column, items, repeat, defined, found)
            if refusal is not None:
                return refusal
        return None
    if not isinstance(last, Traced):
        alike = all(type(v) is type(last) for v in values)
        if alike and (last is None or all(v.value is last.value or v.value == last.value for v in values)):
            return None
        return Refusal.WHILE_PYTHON_VALUE
    atoms = [v.atom if isinstance(v, Traced) else None for v in values]
    if last.atom is None or any(a is None for a in atoms):
        return Refusal.WHILE_UNTRACED
    if all(a is last.atom for a in atoms):
        return None
    for key in defined.get(last.atom, ()):  # type: ignore[arg-type]
        j, i = key
        outs = [node.outs[i] for node in items[repeat.start + j : repeat.end : repeat.period]]  # type: ignore[union-attr]
        for lag in (0, 1):
            if all(a is o for a, o in zip(atoms[lag:], outs[: len(outs) - lag], strict=True)):
                found[last.atom] = key, lag  # type: ignore[index]
                return None
    return Refusal.WHILE_COMPUTED


def _uneven(repeat: Repeat) -> Reason | None:
    """The reason why a turn reads values that do not follow from its number, or ""."""
    for step in repeat.steps:
        if any(isinstance(slot, Rows) for slot in step.slots):
            return Refusal.WHILE_LIST(site=step.item.site)
        if any(isinstance(slot, VaryingConstant) and affine(slot.values) is None for slot in step.slots):
            return Refusal.WHILE_NUMBERS(site=step.item.site)
        if step.starts is not None and (np.diff(step.starts, n=2, axis=0) != 0).any():
            return Refusal.WHILE_POSITIONS(site=step.item.site)
    return None


def _length(recorder: Recorder, repeat: Repeat, proof: Proof) -> int:
    """The length of the loop node: the number of turns seen, now or in a recording that this one verifies."""
    if not proof.bounded and all(step.starts is None for step in repeat.steps):
        return UNLIMITED
    place = len(recorder.capacities)
    known = recorder.known_capacities[place] if place < len(recorder.known_capacities) else 0
    length = max(repeat.trips, known)
    if any(not _within(step, length) for step in repeat.steps):
        length = repeat.trips
    recorder.capacities.append(length)
    return length


def _extended(values: np.ndarray, length: int) -> np.ndarray:
    """The evenly spaced *values*, extrapolated to *length*."""
    count = np.arange(length).reshape(-1, *[1] * (values.ndim - 1))
    return (values[0] + (values[1] - values[0]) * count).astype(values.dtype)


def _within(step: Step, length: int) -> bool:
    """Whether the positions of *length* turns are in bounds."""
    if step.starts is None:
        return True
    node = step.item
    assert isinstance(node, Node)
    sizes = part_of(node)
    whole = node.params["shape"] if node.prim.name == "pad" else node.inputs[0].aval.shape
    reach = [(n - 1) * s for n, s in zip(sizes, node.params["step"], strict=True)]
    starts = _extended(step.starts, length)
    ends = starts + np.array(reach)
    return bool((np.minimum(starts, ends) >= 0).all() and (np.maximum(starts, ends) < whole).all())


def _stretched(step: Step, length: int) -> Step:
    """*step* extrapolated to *length* turns."""
    slots = [
        VaryingConstant(slot.like, _extended(slot.values, length)) if isinstance(slot, VaryingConstant) else slot
        for slot in step.slots
    ]
    starts = None if step.starts is None else _extended(step.starts, length)
    return Step(step.item, slots, starts, step.expected, step.fixed)


# ---- replacing ------------------------------------------------------------------------------------------------------


def replace_items(monitor: LoopMonitor, made: Sequence[tuple[int, int, Sequence[Item]]]) -> None:
    """Put other items in the place of those from one number to another: (start, end, items), in order."""
    recorder = monitor.recorder
    items: list[Item] = []
    sites: list[Site | None] = []
    asked: dict[int, Asked] = {}
    at = 0
    for start, after, instead in [*made, (len(recorder.items), 0, ())]:
        for k in range(at, start):
            if k in monitor.asked:
                asked[len(items)] = monitor.asked[k]
            items.append(recorder.items[k])
            sites.append(recorder.sites[k])
        items += instead
        sites += [item.site for item in instead]
        at = after
    recorder.items, recorder.sites, monitor.asked = items, sites, asked
    recorder.counts = [0] * len(items)  # nothing is followed any more
    recorder.nodes = _defined(items)


def _defined(items: Sequence[Item]) -> list[Node]:
    seen: set[Var] = set()
    nodes = []
    for item in items:
        if isinstance(item, Node) and item.outs[0] not in seen:
            seen.update(item.outs)
            nodes.append(item)
    return nodes


def _made(monitor: LoopMonitor, loop: _WhileLoop) -> list[Item]:
    """The items that stand for *loop*."""
    recorder, repeat = monitor.recorder, loop.repeat
    block = recorder.items[repeat.start : repeat.start + repeat.period]
    fixed = [item for item, step in zip(block, repeat.steps, strict=True) if step.fixed]
    out = Lines()
    ending = Ending(loop.continuing, loop.length, loop.lagging)
    length = repeat.trips if loop.length == UNLIMITED else loop.length
    steps = [_stretched(step, length) for step in repeat.steps]
    body = Block(steps, block, length, _stack, recorder.const, fold_items, ending)
    site = repeat.steps[-1].item.site
    with building(out):
        out.site_override = site
        made = body.loop(out, (), dict(loop.finals))
    items: list[Item] = [*fixed, *out.nodes]
    if made.held is not None:
        items.append(Guard(made.held, np.bool_(True), "bool", made.asked))
        recorder.env[made.held] = np.array(True)
    if loop.length != UNLIMITED:
        assert made.going is not None
        with building(Lines()) as last:
            last.site_override = site
            done = F.logical_not(made.going)
        items += [*last.nodes, Guard(done, np.bool_(True), CAPACITY, site)]
        recorder.env[done] = np.array(True)
    for node in loop.counters:
        items += _counter(monitor, node, repeat.trips, made.taken, site)
    return items


def _counter(monitor: LoopMonitor, node: Node, trips: int, count: Var | None, site: Site | None) -> list[Node]:
    """Nodes that compute the counter *node* from the trip count, which was *trips* in this run."""
    assert count is not None
    monitor.recorder.env[count] = np.array(trips)
    (_, step), (last,) = monitor.counters.found[node.out], node.inputs
    assert isinstance(last, Lit)
    with building(Lines()) as out:
        out.site_override = site
        grown = count if step == 1 else F.mul(count, Lit(step, INT))
    return [
        *out.nodes,
        Node(PRIMITIVES["add"], (grown, Lit(int(last.value) - step * trips, INT)), {}, (node.out,), site),
    ]


def _stack(slot: Slot) -> Atom:
    raise GraphError("a loop that data ends steps through no list")


__all__ = ["Uses", "fold_whiles", "replace_items"]
