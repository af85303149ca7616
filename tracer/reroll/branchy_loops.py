"""Rerolling of loops with data-dependent trip counts and branches: turns that differ become a body with branches.

``turn_tree.py`` has merged the turns into a tree.  Here the tree becomes the body of a loop that stops by itself.
Values common to all ways through a part of it are computed before the choice; the rest of each way runs only if it is
chosen (a counted loop of at most one step, as in ``branches.py``), or both run and ``select`` chooses, where that is
less work than a choice.

Values read after the loop have to be those of one class of local variables.  An answer that was always the same is
held: the loop ends where it is another one, and a guard after it checks that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..bytecode.purity import prove_turns
from ..ir.aval import BOOL, FLOAT_KINDS, INT, Aval
from ..ir.graph import Atom, Graph, Guard, Lit, Node, Var, building, live_nodes, read_vars, strong, structural
from ..ir.primitive import ELEMENTWISE, PRIMITIVES
from ..ir.refusals import Reason, Refusal
from ..ops.closure_conversion import closed, needed_carries
from ..ops.control import LOOP_OVER, UNLIMITED, loop
from ..ops.elementwise import F, cast
from ..ops.shape import zeros
from ..record.recorder import Recorder
from .ended_loops import EndedLoop, Replacement, Uses
from .loop_body import Lines
from .loop_monitor import LoopMonitor
from .repeats import Item
from .turn_tree import TRUE, Name, Part, RefusedError, Tree

SELECTED = 256  # flops of elementwise work in a branch that are less than a choice


def folded_tree(
    monitor: LoopMonitor, loop: EndedLoop, first: Mapping[Var, int], uses: Uses
) -> Replacement | Reason | None:
    """*loop*, whose turns differ, as a loop node; or why it is none.  None if only its first turns differ."""
    places = prove_turns(loop.asked[-1], loop.head, loop.left)
    if isinstance(places, Reason):
        return places
    try:
        tree = Tree(monitor, first, loop, places)
        if tree.variants == 1:
            return None
        return tree.cuts.start, tree.cuts.end, _TreeLoop(monitor.recorder, tree, uses).run()
    except RefusedError as error:
        return error.reason


# ---- one loop --------------------------------------------------------------------------------------------------------


class _TreeLoop:
    """One tree as a loop node."""

    def __init__(self, recorder: Recorder, tree: Tree, uses: Uses):
        self.recorder, self.tree = recorder, tree
        self.producer = {out: node for node in tree.pool for out in node.outs}
        self.read = self._read_after(uses)
        self.needed = self._needed()

    def _read_after(self, uses: Uses) -> dict[Name, list[Var]]:
        """Values that are read after the loop, by the class of local variables that holds them."""
        tree, cuts = self.tree, self.tree.cuts
        holders: dict[Atom, set[Name]] = {}
        for name, cls in tree.class_of.items():
            steady = cls in tree.incoming and tree.incoming[cls] not in tree.inner
            if name[0] in tree.places.end and not steady:
                holders.setdefault(tree.states[-1][name], set()).add(cls)
        read: dict[Name, list[Var]] = {}
        for var in uses.after(cuts.start, cuts.end):
            found = holders.get(tree.plain(var), set())
            if len(found) != 1:
                raise RefusedError(Refusal.WHILE_READ_AFTER())
            read.setdefault(next(iter(found)), []).append(var)
        after = {
            a for item in uses.items[cuts.end :] for a in (item.inputs if isinstance(item, Node) else (item.atom,))
        }
        for atom in holders:
            outside = isinstance(atom, Lit) or tree.first.get(atom, -1) < cuts.start
            if outside and (isinstance(atom, Lit) or atom in after):
                raise RefusedError(Refusal.BRANCH_BEFORE())
        return read

    def _leaves(self, part: Part) -> list[Part]:
        return [part] if part.results is not None else [leaf for way in part.ways for leaf in self._leaves(way)]

    def _parts(self, part: Part) -> list[Part]:
        return [part, *(p for way in part.ways for p in self._parts(way))]

    def _needed(self) -> list[int]:
        """The classes that decide anything: numbers among results."""
        tree = self.tree
        parts = self._parts(tree.root)
        always = [a for p in parts for a in (*p.held, *([p.chosen] if p.chosen is not None else ()))]
        leaves = self._leaves(tree.root)
        found = [tree.incoming.get(name) for name in tree.classes]
        carries = [None, *[v if isinstance(v, Var) and v in tree.inner else None for v in found]]

        def read_for(needed: Collection[int]) -> set[Var]:
            roots = [*always, *(leaf.results[k] for leaf in leaves for k in needed)]  # type: ignore[index]
            return read_vars(live_nodes(tree.pool, roots), roots)

        return needed_carries(carries, [0, *(1 + tree.classes.index(name) for name in self.read)], read_for)[0]

    def run(self) -> list[Item]:
        """The items that stand for the loop."""
        tree = self.tree
        site = self.recorder.items[tree.at[-1]].site
        out = Lines()
        out.site_override = site
        for node in tree.pool:  # loop-invariant nodes
            if node.out not in tree.inner:
                out.append(node)
        body = Lines()
        body.site_override = site
        defined = {o for node in tree.pool if node.out not in tree.inner for o in node.outs}
        held, results = self._emit(tree.root, defined, body)
        names = [tree.classes[k - 1] for k in self.needed[1:]]
        with building(body):
            going = results[0] if held is TRUE else F.logical_and(results[0], held)
        ends: list[Atom] = [going, *results[1:]]
        inits: list[Atom] = [TRUE, *[strong(tree.states[0][name]) for name in names]]
        incoming = [Var(Aval(a.aval.dtype, a.aval.shape)) for a in inits]
        for k, name in enumerate(names, 1):
            known = tree.incoming.get(name)
            incoming[k] = known if isinstance(known, Var) and known in tree.inner else incoming[k]
        outs = [Var(a.aval) for a in incoming]
        outs[1:] = [self.read.get(name, [var])[0] for name, var in zip(names, outs[1:], strict=True)]
        if held is not TRUE:
            flag = Var(Aval(BOOL, ()))
            incoming.append(Var(Aval(BOOL, ())))
            inits.append(TRUE)
            ends.append(held)
            outs.append(flag)
        graph, consts = _body(body.nodes, [incoming[0], *ends], incoming)
        params: dict[str, Any] = {
            "body": graph, "consts": len(consts), "carries": len(incoming), "length": UNLIMITED, "reverse": False,
            "stops": True,
        }  # fmt: skip
        out.append(Node(LOOP_OVER, (*consts, *inits), params, (*outs, Var(Aval(INT, ()))), site))
        for same in self.read.values():
            for var in same[1:]:
                out.append(Node(PRIMITIVES["alias"], (same[0],), {}, (var,), site))
        items: list[Item] = [*out.nodes]
        if held is not TRUE:
            items.append(Guard(flag, np.bool_(True), "bool", site))
            self.recorder.env[flag] = np.array(True)
        return items

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _emit(self, part: Part, defined: set[Var], out: Lines) -> tuple[Atom, list[Atom]]:
        """(whether the held answers of *part* are right, the turn's results), appended to *out*, with *defined*."""
        must = self._must(part)
        for node in self.tree.pool:
            if node.out in must and node.out not in defined:
                out.append(node)
                defined.update(node.outs)
        held: Atom
        if part.results is not None:
            held, results = TRUE, [part.results[k] for k in self.needed]
        else:
            assert part.chosen is not None
            ways = []
            for way in part.ways:
                lines = Lines()
                lines.site_override = out.site_override
                inside, given = self._emit(way, set(defined), lines)
                ways.append((lines.nodes, [inside, *given]))
            held, *results = _choose(out, part.chosen, *ways[0], *ways[1])
        with building(out):
            for atom in part.held:
                held = atom if held is TRUE else F.logical_and(held, atom)
        return held, results

    def _must(self, part: Part) -> set[Atom]:
        """Values that every way through *part* computes."""
        roots = list(part.held)
        if part.results is not None:
            roots += [part.results[k] for k in self.needed]
            common: set[Atom] = set()
        else:
            assert part.chosen is not None
            roots.append(part.chosen)
            common = self._must(part.ways[0]) & self._must(part.ways[1])
        todo = roots
        while todo:
            atom = todo.pop()
            node = self.producer.get(atom)  # type: ignore[arg-type]
            if node is not None and atom not in common:
                common.update(node.outs)
                todo += node.inputs
        return common


def _choose(
    out: Lines, chosen: Atom, nodes: Sequence[Node], yes: list[Atom], others: Sequence[Node], no: list[Atom]
) -> list[Atom]:
    """*yes* if *chosen* else *no*, which *nodes* and *others* compute, appended to *out*."""
    differing = [k for k in range(len(yes)) if yes[k] is not no[k]]
    results = list(yes)
    with building(out):
        if _cheap(nodes) and _cheap(others):
            here: set[Var] = set()
            for node in (*nodes, *others):
                if node.out not in here:
                    out.append(node)
                    here.update(node.outs)
            for k in differing:
                results[k] = F.select(chosen, strong(yes[k]), strong(no[k]))
            return results
        own, other = ({o for n in way for o in n.outs} for way in (nodes, others))
        for k in differing:
            if no[k] not in other:
                results[k] = strong(no[k])
            elif yes[k] in own:
                aval = yes[k].aval
                results[k] = zeros(aval.shape, aval.dtype) if aval.shape else structural(0, aval.dtype)
        mine = [k for k in differing if no[k] not in other or yes[k] in own]
        _run_if(chosen, nodes, yes, mine, results)
        theirs = [k for k in differing if no[k] in other]
        _run_if(F.logical_not(chosen), others, no, theirs, results)
    return results


def _run_if(
    choice: Atom, nodes: Sequence[Node], ends: Sequence[Atom], which: Sequence[int], results: list[Atom]
) -> None:
    """Put *ends* in the place of *results*, as far as told, if *choice* is True: a loop of one step or none."""
    if not which:
        return
    carries = [Var(Aval(results[k].aval.dtype, results[k].aval.shape)) for k in which]
    body, consts = _body(nodes, [ends[k] for k in which], carries)
    outs = loop(body, consts, [results[k] for k in which], (), 1, steps=cast(choice, INT))
    for k, result in zip(which, outs, strict=True):
        results[k] = result


def _cheap(nodes: Sequence[Node]) -> bool:
    """Whether computing *nodes* for nothing is less work than a choice (a heuristic)."""
    return (
        all(n.prim.kind == ELEMENTWISE and n.out.aval.dtype.kind in ("b", *FLOAT_KINDS) for n in nodes)
        and sum(n.prim.cost * max(n.out.aval.size, 1) for n in nodes) <= SELECTED
    )


def _body(nodes: Sequence[Node], outputs: Sequence[Atom], carries: Sequence[Var]) -> tuple[Graph, list[Var]]:
    """(the body of a loop that computes *outputs* by *nodes*, the values that it reads from outside)"""
    return closed(live_nodes(nodes, outputs), [strong(a) for a in outputs], carries)


__all__ = ["folded_tree"]
