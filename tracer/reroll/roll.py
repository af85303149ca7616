"""Rolling: the conversion of a recording of unrolled Python loops to a program with loop nodes.

Loops over symbols (``tracer/loops``) are recorded as loop nodes.  Those that ran iteration by iteration are repeats:
``find.py`` finds them, ``rewrite.py`` replaces them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.graph import Atom, Guard, Node
from ..ir.primitive import LOOP
from ..ir.site import Site
from ..record.recorder import Recorder, recording
from .find import find_repeats
from .repeats import Item
from .rewrite import Rewriter

MOST_NOTES = 8  # of what was not rolled


def roll(recorder: Recorder, roots: Sequence[Atom], *, guarded: bool = True) -> bool:
    """Make loop nodes of the repeats in *recorder*, of which *roots* are still needed; whether there were any.  Not
    *guarded*: the guards are dropped, because Python runs in each call."""
    if not guarded:
        recorder.drop_guards()
    items: Sequence[Item] = recorder.items
    sites: Sequence[Site | None] = recorder.sites
    if recorder.symbols:
        items, sites = _without_symbols(recorder, roots)
    if recorder.stand_ins.rows:
        items, sites = _without_rows(recorder, roots, items, sites)
    found = find_repeats([], [])
    refusals = list(dict.fromkeys(found.refusals))
    recorder.notes += [reason.within("not-rolled: ") for reason in refusals[:MOST_NOTES]]
    if not found.repeats:
        if recorder.loops.iterations:  # of loops over symbols
            _tell(recorder)
        return False
    fold = Rewriter(items, found, roots, recorder.const, dict(recorder.consts), sites)
    nodes, guards = fold.run()
    recorder.replace(nodes, guards)
    recorder.notes += [note for note in fold.out.notes if note not in recorder.notes]
    for guard in fold.held:
        recorder.env[guard] = np.array(True)
    _tell(recorder)
    return True


def _without_symbols(recorder: Recorder, roots: Sequence[Atom]) -> tuple[list[Item], list[Site | None]]:
    """The items and their sites, with values in the place of the symbols of iterations of which no loop node was made:
    so these are like those that came after them."""
    kept = {*roots, *(item.atom for item in recorder.items if isinstance(item, Guard))}
    stand_for: dict[Atom, Atom] = {}
    made: dict[int, Node] = {}  # by the id of a node: it with these values
    items: list[Item] = []
    sites: list[Site | None] = []
    for item, site in zip(recorder.items, recorder.sites, strict=True):
        if isinstance(item, Node) and id(item) not in made:
            inputs = tuple([stand_for.get(x, x) for x in item.inputs])
            same = all(x is y for x, y in zip(inputs, item.inputs, strict=True))
            made[id(item)] = item if same else Node(item.prim, inputs, item.params, item.outs, item.site)
            if item.out in recorder.symbols:
                stand_for[item.out] = inputs[0]
        if isinstance(item, Guard) or item.out in kept or item.out not in stand_for:
            items.append(item if isinstance(item, Guard) else made[id(item)])
            sites.append(site)
    return items, sites


def _without_rows(
    recorder: Recorder, roots: Sequence[Atom], items: Sequence[Item], sites: Sequence[Site | None]
) -> tuple[Sequence[Item], Sequence[Site | None]]:
    """The *items* and their *sites* but for the nodes of single rows of batches, which are no part of the program: a
    loop of them would be, for the sake of what is the same in all rows."""
    asked = [item.atom for item in items if isinstance(item, Guard)]
    if any(map(recorder.of_row, [*roots, *asked])):  # which is refused when the run is over
        return items, sites
    kept = [k for k, item in enumerate(items) if isinstance(item, Guard) or not recorder.of_row(item.outs[0])]
    return [items[k] for k in kept], [sites[k] for k in kept]


def _tell(recorder: Recorder) -> None:
    """Note the loops, those that were recorded as such among them."""
    notes = [_note(node) for node in recorder.nodes if node.prim.kind == LOOP and "body" in node.params]
    recorder.notes += [note for note in dict.fromkeys(notes) if note not in recorder.notes]


def rolled(recorder: Recorder, roots: Sequence[Atom]) -> Recorder:
    """A copy of *recorder* with loop nodes in place of repeats, in which *roots* are defined.  *recorder*
    itself still has every value."""
    result = recorder.copy()
    with recording(result):
        roll(result, roots)
    return result


def _note(node: Node) -> str:
    params = node.params
    turns = "turns until it stops by itself" if params.get("stops") else f"{params['length']} turns"
    return f"rolled: the loop at {node.site}, {len(params['body'].nodes)} operations a turn, {turns}"
