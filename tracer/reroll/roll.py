"""Rolling: the conversion of a recording of unrolled Python loops to a program with loop nodes.

Three steps, each in files of its own: loops that data ends (``ended_loops.py`` finds them, ``while_loops.py`` replaces
them), repeats (``find.py`` finds them, ``rewrite.py`` replaces them), and unread results of loops that were followed
(``loop_follower.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.graph import Atom, Graph, Node
from ..ir.primitive import LOOP
from ..ir.site import Site
from ..ops.loop_pruning import prune_loops
from ..record.recorder import Recorder, recording
from .find import find_repeats
from .followed_loop import wholes_of
from .histories import with_histories
from .inner_loops import collapsed
from .loop_monitor import detach
from .repeats import Item
from .rewrite import Rewriter
from .unrolled import drop_unread
from .while_loops import fold_ended

MOST_NOTES = 8  # of what was not rolled


def roll(recorder: Recorder, roots: Sequence[Atom], *, guarded: bool = True) -> bool:
    """Make loop nodes of the repeats in *recorder*, of which *roots* are still needed; whether there were any.  Not
    *guarded*: the guards are dropped, because Python runs in each call."""
    monitor = detach(recorder)
    drop_unread(monitor, roots)
    followed = monitor.followed
    if guarded:
        changed = fold_ended(monitor, roots)
    else:
        changed = False
        recorder.drop_guards()
    inner = collapsed(recorder.items, recorder.sites, roots, recorder.const)
    items: Sequence[Item]
    sites: Sequence[Site | None]
    items, sites = inner or (recorder.items, recorder.sites)
    found = find_repeats(items, sites, lambda atom: wholes_of(followed, atom))
    if not followed:
        items, sites, found = with_histories(items, sites, found)
    for reason in found.refusals:
        monitor.refuse(reason)
    recorder.notes += [reason.within("not-rolled: ") for reason in monitor.refusals[:MOST_NOTES]]
    if not found.repeats and not followed and not changed and inner is None:
        if recorder.iterations:  # of loops over symbols
            _tell(recorder)
        return False
    fold = Rewriter(items, found, roots, recorder.const, followed, dict(recorder.consts), sites)
    nodes, guards = fold.run()
    if followed:  # a followed loop defines all that its turns did
        pruned = prune_loops(Graph([], nodes, list(roots), guards), lambda body: body)
        if all(a is b for a, b in zip(pruned.outputs, roots, strict=True)):
            nodes, guards = pruned.nodes, pruned.guards
    recorder.replace(nodes, guards)
    recorder.notes += [note for note in fold.out.notes if note not in recorder.notes]
    for guard in fold.held:
        recorder.env[guard] = np.array(True)
    _tell(recorder)
    return True


def _tell(recorder: Recorder) -> None:
    """Note the loops, those that were recorded as such among them."""
    notes = [_note(node) for node in recorder.nodes if node.prim.kind == LOOP and "body" in node.params]
    recorder.notes += [note for note in dict.fromkeys(notes) if note not in recorder.notes]


def rolled(recorder: Recorder, roots: Sequence[Atom]) -> Recorder:
    """A copy of *recorder* with loop nodes in place of repeats, in which *roots* are defined.  *recorder*
    itself still has every value."""
    monitor = detach(recorder)
    result = recorder.copy()
    result.observer = monitor.copy(result)
    defined = [set(loop.defined) for loop in monitor.followed]
    with recording(result):
        roll(result, roots)
    for loop, before in zip(monitor.followed, defined, strict=True):
        loop.defined = before  # what the nodes of *recorder* define
    recorder.observer = monitor.evaluator()
    return result


def _note(node: Node) -> str:
    params = node.params
    turns = "turns until it stops by itself" if params.get("stops") else f"{params['length']} turns"
    return f"rolled: the loop at {node.site}, {len(params['body'].nodes)} operations a turn, {turns}"
