"""Rerolling of loops that data ends: their turns become one loop node that stops by itself.

Such a loop was recorded as turns of which the last got another answer to its condition.  Where the user's bytecode
proves that recorded values alone decide their number (``purity.py``), and the turns can be merged (``turn_tree.py``),
``branchy_loops.py`` makes one block of them, from which comes a loop node that stops when the answer changes.  Blocks
begin after the question, so items before the first question stay as they are; the node's body computes a turn and the
next answer, which is carried.

Values read after the loop have to be those of local variables then, in the same way for every number of turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..bytecode.purity import Proof, counters, prove, prove_turns
from ..ir.aval import INT
from ..ir.errors import GraphError
from ..ir.graph import Atom, Guard, Lit, Node, Var, building
from ..ir.primitive import PRIMITIVES
from ..ir.refusals import Reason
from ..ir.site import Site
from ..ops.control import CAPACITY, UNLIMITED
from ..ops.elementwise import F
from ..record.recorder import Recorder
from .branchy_loops import tree_block
from .ended_loops import EndedLoop, Replacement, Turns, Uses, find_ended, replace_items
from .find import item_marks
from .loop_body import Block, Ending, Lines
from .loop_monitor import LoopMonitor
from .prove import first_items
from .repeats import FEW_TRIPS, Item, Slot, Step, VaryingConstant, part_of, told
from .rewrite import fold_items
from .turn_tree import RefusedError, Tree

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
    first = first_items(items)
    uses, marks = Uses(items, first, roots, monitor.within), item_marks(items, sites)
    for loop in loops:
        for turns in _tries(monitor, loop, marks):
            if any(start < turns.end and turns.start < after for start, after, _ in made):
                continue
            found = _turns(monitor, turns, first, uses)
            if found is None:
                continue
            if isinstance(found, Turns):
                made.append((found.start, found.end, _nodes(monitor, found)))
                break
            where = ", with branches" if turns.differ else ""
            monitor.refuse(found.within(f"the loop that ends at {sites[loop.end - 1]}{where}: "))
    return made


def _tries(monitor: LoopMonitor, loop: EndedLoop, marks: np.ndarray) -> Iterator[EndedLoop]:
    """The turns of *loop*, if enough of them have had different answers; its last turns that look alike, one by one or
    several together."""
    items, ends = monitor.recorder.items, set(loop.at)
    if len(loop.at) > FEW_TRIPS:
        turns = [items[before + 1 : at] for before, at in pairwise(loop.at)]
        if len({tuple([bool(i.expected) for i in turn if isinstance(i, Guard)]) for turn in turns}) > 1:
            yield replace(loop, differ=True)
    for before in loop.at[-2 : -2 - MOST_TURNS : -1]:
        period = loop.end - 1 - before
        differing = np.flatnonzero(marks[: loop.end - period] != marks[period : loop.end])
        same = loop.end - period - (int(differing[-1]) + 1 if len(differing) else 0)
        trips = same // period + 1
        trips = next((k for k in range(1, trips) if loop.end - 1 - k * period not in ends), trips)
        if trips >= FEW_TRIPS:
            at = [*range(loop.end - 1 - trips * period, loop.end, period)]
            asked = [monitor.asked[k] if k in ends else None for k in at]
            yield replace(loop, at=at, asked=asked)


def _turns(monitor: LoopMonitor, loop: EndedLoop, first: dict[Var, int], uses: Uses) -> Turns | Reason | None:
    """The turns of *loop* as one block, without the first ones if only they are not like the others; or why they are
    none.  None if they differ in the first ones only."""
    counting = {node: monitor.counters.found[node.out][0] for node in counters_after(monitor, loop.end)}
    for tries in range(FEW_TRIPS, -1, -1):
        if loop.differ:
            proof = prove_turns(loop.asked[-1], loop.head, loop.left)  # type: ignore[arg-type]
        else:
            proof = prove(loop.asked[1:], frozenset(counting.values()))  # type: ignore[arg-type]
        if isinstance(proof, Reason):
            return proof
        try:
            tree = Tree(monitor, first, loop, proof)
            if loop.differ and tree.variants == 1:
                return None
            block = tree_block(tree, uses)
        except RefusedError as error:
            if not (tries and error.first) or len(loop.at) - error.first <= FEW_TRIPS:
                return error.reason
            loop = replace(loop, at=loop.at[error.first :], asked=loop.asked[error.first :])
            continue
        steps = counters(loop.asked[1:]) if counting else {}  # type: ignore[arg-type]
        counted = {node: steps[name] for node, name in counting.items()}  # by block, which may be several turns
        ending = Ending(True, _length(monitor.recorder, block, proof))
        return block._replace(end=block.end + len(counted), ending=ending, counters=counted)
    return None


def counters_after(monitor: LoopMonitor, end: int) -> list[Node]:
    """The items from *end* on that stand for Python counters of the loop before them."""
    found: list[Node] = []
    for item in monitor.recorder.items[end:]:
        if not isinstance(item, Node) or item.out not in monitor.counters.found:
            break
        found.append(item)
    return found


def _length(recorder: Recorder, turns: Turns, proof: Proof) -> int:
    """The length of the loop node: the number of turns seen, now or in a recording that this one verifies."""
    if not proof.bounded and all(step.starts is None for step in turns.steps):
        return UNLIMITED
    place = len(recorder.capacities)
    known = recorder.known_capacities[place] if place < len(recorder.known_capacities) else 0
    length = max(turns.trips, known)
    if any(not _within(step, length) for step in turns.steps):
        length = turns.trips
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


def _nodes(monitor: LoopMonitor, turns: Turns) -> list[Item]:
    """The items that stand for *turns*."""
    recorder, ending = monitor.recorder, turns.ending
    bounded = ending.length != UNLIMITED
    fixed = [step.item for step in turns.steps if step.fixed]
    out = Lines()
    length = ending.length if bounded else turns.trips
    steps = [_stretched(step, length) for step in turns.steps]
    body = Block(steps, [step.item for step in steps], length, _stack, recorder.const, fold_items, ending)
    site = turns.steps[-1].item.site
    with building(out):
        out.site_override = site
        made = body.loop(out, (), turns.finals, turns.inits)
    items: list[Item] = [*fixed, *out.nodes, *turns.names]
    if made.held is not None:
        items.append(Guard(made.held, np.bool_(True), "bool", made.asked, said=told(turns.steps[:-1])))
        recorder.env[made.held] = np.array(True)
    if bounded:
        assert made.going is not None
        with building(Lines()) as last:
            last.site_override = site
            done = F.logical_not(made.going)
        items += [*last.nodes, Guard(done, np.bool_(True), CAPACITY, site)]
        recorder.env[done] = np.array(True)
    for node, step in turns.counters.items():
        items += _counter(monitor, node, step, turns.trips, made.taken, site)
    return items


def _counter(
    monitor: LoopMonitor, node: Node, step: int, trips: int, count: Var | None, site: Site | None
) -> list[Node]:
    """Nodes that compute the counter *node*, which grows by *step*, from the trip count, which was *trips* in this
    run."""
    assert count is not None
    monitor.recorder.env[count] = np.array(trips)
    (last,) = node.inputs
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
