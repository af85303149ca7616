"""Rerolling of loops that data ends: their turns become one loop node that stops by itself.

Such a loop was recorded as turns of which the last got another answer to its condition.  Where the turns are proven to
repeat (``prove.py``), and the user's bytecode proves that recorded values alone decide their number (``purity.py``),
they become one loop node that stops when the answer changes.  Blocks begin after the question, so items before the
first question stay as they are; the node's body computes a turn and the next answer, which is carried.

Values read after the loop have to be those of local variables then, in the same way for every number of turns: the
value of an item of the last turn, or of the turn before it.  A variable that first had another value after the last
turn is refused: what turns read may be that variable, or the value that it began all of them with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..bytecode.control_flow import flow_of
from ..bytecode.frame_snapshot import Asked, Many, Traced, traced_in
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
from .branchy_loops import folded_tree
from .ended_loops import EndedLoop, Replacement, Uses, find_ended, replace_items
from .find import item_marks
from .followed_loop import wholes_of
from .loop_body import Block, Ending, Lines, affine
from .loop_monitor import LoopMonitor
from .prove import first_items, match
from .repeats import FEW_TRIPS, Carried, Item, Key, Repeat, Rows, Slot, Step, VaryingConstant, part_of
from .rewrite import fold_items

MOST_TURNS = 8  # that a block may consist of, where Python's values make turns differ


def fold_ended(monitor: LoopMonitor, roots: Sequence[Atom]) -> bool:
    """Replace loops that data ends by loop nodes, innermost first; whether there were any."""
    changed = False
    while monitor.asked:
        made = _replacements(monitor, roots)
        if not made:
            break
        replace_items(monitor, made)
        changed = True
    return changed


def _replacements(monitor: LoopMonitor, roots: Sequence[Atom]) -> list[Replacement]:
    """Loop nodes for loops that data ends, but for those around one that gets a node now."""
    items, sites = monitor.recorder.items, monitor.recorder.sites
    loops, made = find_ended(monitor), list[Replacement]()
    if not loops:
        return made
    first = first_items(items, lambda atom: wholes_of(monitor.followed, atom))
    uses, marks = Uses(items, first, roots), item_marks(items, sites)
    for loop in loops:
        if _overlaps(made, loop):
            continue
        where = f"the loop that ends at {sites[loop.end - 1]}"
        tree = folded_tree(monitor, loop, first, uses) if _differ(items, loop) else None
        if isinstance(tree, Reason):
            monitor.refuse(tree.within(f"{where}, with branches: "))
        elif tree is not None:
            made.append(tree)
            continue
        for start, period, trips in _alike(marks, loop):
            repeat = match(items, first, start, period, trips, whole=True)
            if isinstance(repeat, Reason):
                monitor.refuse(repeat)
            elif not _overlaps(made, repeat):
                found = _folded(monitor, loop, repeat, uses)
                if not isinstance(found, Reason):
                    made.append(found)
                    break
                monitor.refuse(found.within(f"{where}: "))
    return made


def _overlaps(made: Sequence[Replacement], loop: EndedLoop | Repeat) -> bool:
    return any(start < loop.end and loop.start < after for start, after, _ in made)


def _differ(items: Sequence[Item], loop: EndedLoop) -> bool:
    """Whether enough turns of *loop*, from question to question, had different answers."""
    if len(loop.at) <= FEW_TRIPS:
        return False
    turns = [items[before + 1 : at] for before, at in pairwise(loop.at)]
    return len({tuple([bool(i.expected) for i in turn if isinstance(i, Guard)]) for turn in turns}) > 1


def _alike(marks: np.ndarray, loop: EndedLoop) -> Iterator[tuple[int, int, int]]:
    """The last blocks of *loop* that look alike, each one turn or several: (start, items of a block, blocks)."""
    ends = set(loop.at)
    for before in loop.at[-2 : -2 - MOST_TURNS : -1]:
        period = loop.end - 1 - before
        differing = np.flatnonzero(marks[: loop.end - period] != marks[period : loop.end])
        same = loop.end - period - (int(differing[-1]) + 1 if len(differing) else 0)
        trips = same // period + 1
        trips = next((k for k in range(1, trips) if loop.end - 1 - k * period not in ends), trips)
        if trips >= FEW_TRIPS:
            yield loop.end - trips * period, period, trips


def _folded(monitor: LoopMonitor, loop: EndedLoop, repeat: Repeat, uses: Uses) -> Replacement | Reason:
    """*repeat*, turns of *loop*, as a loop node for any number of turns, or the reason why it is none."""
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
    before = [monitor.asked[repeat.start - 1]] if repeat.start - 1 in loop.at else []
    reason = _uneven(repeat) or _changed_last(loop, [*before, *asked])
    if reason:
        return reason
    places = _after(items, repeat, asked, proof)
    if isinstance(places, Reason):
        return places
    finals: dict[Key, Var] = {}
    for var in uses.after(repeat.start, repeat.end):
        if var not in places:
            return Refusal.WHILE_READ_AFTER()
        finals[places[var]] = var
    carried = {
        (~s.item, s.out) for step in repeat.steps for s in step.slots if isinstance(s, Carried) and s.distance == 1
    }
    if not carried.issuperset([key for key in finals if key[0] < 0]):
        return Refusal.WHILE_EARLIER()
    ending = Ending(not bool(last.expected), _length(monitor.recorder, repeat, proof))
    nodes = _nodes(monitor, repeat, ending, finals, counters)
    return repeat.start, repeat.end + len(counters), nodes


def counters_after(monitor: LoopMonitor, end: int) -> list[Node]:
    """The items from *end* on that stand for Python counters of the loop before them."""
    found: list[Node] = []
    for item in monitor.recorder.items[end:]:
        if not isinstance(item, Node) or item.out not in monitor.counters.found:
            break
        found.append(item)
    return found


def _after(items: Sequence[Item], repeat: Repeat, asked: Sequence[Asked], proof: Proof) -> dict[Var, Key] | Reason:
    """The final values of the local variables that are read later: items of the last turn, or ``~item`` of the one
    before."""
    defined: dict[Var, list[Key]] = {}
    for j in range(repeat.period):
        item = items[repeat.end - repeat.period + j]
        before = items[repeat.end - 2 * repeat.period + j]
        for node in (item, before):
            if isinstance(node, Node):
                for i, out in enumerate(node.outs):
                    defined.setdefault(out, []).append((j, i))
    found: dict[Var, Key] = {}
    for name in proof.live:
        refusal = _place([a.values.get(name) for a in asked], items, repeat, defined, found)
        if refusal is not None:
            return refusal(name=name)
    return found


def _place(
    values: Sequence[Any], items: Sequence[Item], repeat: Repeat, defined: dict[Var, list[Key]],
    found: dict[Var, Key],
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
    if last.atom not in defined and all(a is last.atom for a in atoms):
        return None
    for j, i in defined.get(last.atom, ()):  # type: ignore[arg-type]
        outs = [node.outs[i] for node in items[repeat.start + j : repeat.end : repeat.period]]  # type: ignore[union-attr]
        for lag in (0, 1):
            if all(a is o for a, o in zip(atoms[lag:], outs[: len(outs) - lag], strict=True)):
                place = (~j if lag else j), i
                return None if found.setdefault(last.atom, place) == place else Refusal.WHILE_CHANGED_LAST  # type: ignore[arg-type]
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


def _changed_last(loop: EndedLoop, asked: Sequence[Asked]) -> Reason | None:
    """The reason if a local variable began every turn with one value, and has another one now.

    What turns read may be the variable or the value: both fit what was seen.  A value that goes through variables for
    more turns than were seen (``a, b, c, d = b, c, d, y``) is found so, since it reaches one of them in the last turn.
    """

    def held(a: Asked, name: str) -> list[Atom | None]:
        return [seen.atom for _, seen in traced_in(a.values.get(name))]

    for name in sorted(flow_of(asked[-1].frame.f_code).live(loop.head)):
        for k, (start, end) in enumerate(zip(held(asked[0], name), held(asked[-1], name), strict=False)):
            if end is not start and all(held(a, name)[k : k + 1] == [start] for a in asked[1:-1]):
                return Refusal.WHILE_CHANGED_LAST(name=name)
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


def _nodes(
    monitor: LoopMonitor, repeat: Repeat, ending: Ending, finals: dict[Key, Var], counters: Sequence[Node]
) -> list[Item]:
    """The items that stand for *repeat*.  They define *finals* and *counters*."""
    recorder, bounded = monitor.recorder, ending.length != UNLIMITED
    block = recorder.items[repeat.start : repeat.start + repeat.period]
    fixed = [item for item, step in zip(block, repeat.steps, strict=True) if step.fixed]
    same = list[Node]()  # names of loop-invariant values
    for j, i in [key for key in sorted(finals) if key[0] >= 0 and repeat.steps[key[0]].fixed]:
        var, known = finals.pop((j, i)), block[j].outs[i]  # type: ignore[union-attr]
        if var is not known:
            same.append(Node(PRIMITIVES["alias"], (known,), {}, (var,), block[j].site))
    out = Lines()
    length = ending.length if bounded else repeat.trips
    steps = [_stretched(step, length) for step in repeat.steps]
    body = Block(steps, block, length, _stack, recorder.const, fold_items, ending)
    site = repeat.steps[-1].item.site
    with building(out):
        out.site_override = site
        made = body.loop(out, (), finals)
    items: list[Item] = [*fixed, *out.nodes, *same]
    if made.held is not None:
        items.append(Guard(made.held, np.bool_(True), "bool", made.asked))
        recorder.env[made.held] = np.array(True)
    if bounded:
        assert made.going is not None
        with building(Lines()) as last:
            last.site_override = site
            done = F.logical_not(made.going)
        items += [*last.nodes, Guard(done, np.bool_(True), CAPACITY, site)]
        recorder.env[done] = np.array(True)
    for node in counters:
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


__all__ = ["fold_ended"]
