"""Blocks from trees of turns: a loop that data ends as steps, with branches where its turns differ.

``turn_tree.py`` has merged the turns into a tree.  Here the tree becomes the steps of one block.  Values common to all
ways through a part of it are computed before the choice; the rest of each way runs only if it is chosen (a counted
loop of at most one step, as in ``branches.py``), or both run and ``select`` chooses, where that is less work than a
choice.

Values read after the loop have to be those of one class of local variables.  An answer that was always the same is
held: the loop ends where it is another one, and a guard after it checks that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..ir.aval import FLOAT_KINDS, INT, Aval
from ..ir.graph import Atom, Graph, Guard, Node, Var, building, live_nodes, strong, structural
from ..ir.primitive import ELEMENTWISE, PRIMITIVES
from ..ir.refusals import Reason
from ..ops.closure_conversion import closed
from ..ops.control import UNLIMITED, loop
from ..ops.elementwise import F, cast
from ..ops.shape import zeros
from .ended_loops import Name, Turns, Uses
from .loop_body import Ending, Lines
from .repeats import TOLD, Carried, Invariant, Item, Key, Local, Slot, Step
from .turn_tree import TRUE, Part, RefusedError, Tree, last_other

SELECTED = 256  # flops of elementwise work in a branch that are less than a choice


def tree_block(tree: Tree, uses: Uses) -> Turns:
    """The turns of *tree* as one block."""
    return _Block(tree, uses).turns()


class _Block:
    """One tree as a block."""

    def __init__(self, tree: Tree, uses: Uses):
        self.tree = tree
        self.producer = {out: node for node in tree.pool.nodes for out in node.outs}
        self.numbers = {name: k for k, name in enumerate(tree.classes, 1)}  # of results
        self.read = self._read_after(uses)
        self.needed = self._needed()

    def _read_after(self, uses: Uses) -> dict[Name, list[Var]]:
        """Values that are read after the loop, by the class of local variables that holds them."""
        tree, cuts = self.tree, self.tree.cuts
        states = tree.states if tree.proof.differ else tree.states[1:]
        known: dict[Any, Name] = {}  # classes that end each turn alike are one
        same = {
            cls: known.setdefault(tuple([id(leaf[k]) for leaf in tree.leaves]), cls) for cls, k in self.numbers.items()
        }
        held = [([state[name] for state in states], same[cls])
                for name, cls in tree.class_of.items() if name[0] in tree.proof.live]  # fmt: skip
        found = uses.finals(cuts.start, cuts.end, [*held, *(([atom], None) for atom in tree.unknown)], tree.renamed)
        if isinstance(found, Reason):
            first = [last_other(column, [column[-1]] * len(column)) for column, _ in held]
            raise RefusedError(found, min(filter(None, first), default=0))
        return found

    def _needed(self) -> list[int]:
        """The classes that decide anything: numbers among results."""
        tree = self.tree
        todo: list[Any] = [*tree.truths]
        needed, seen = set[int](), set[Any]()
        more = {0, *(self.numbers[name] for name in self.read)}
        while todo or more:
            todo += [leaf[k] for leaf in tree.leaves for k in more]
            needed |= more
            more = set()
            while todo:
                atom = todo.pop()
                if isinstance(atom, RefusedError):
                    raise atom
                if atom in seen:
                    continue
                seen.add(atom)
                if atom in tree.begins:
                    more |= {self.numbers[tree.begins[atom][0]]} - needed
                elif atom in self.producer:
                    todo += self.producer[atom].inputs
        return sorted(needed)

    def turns(self) -> Turns:
        """The turns of the tree."""
        tree, cuts = self.tree, self.tree.cuts
        lines, site = Lines(), tree.items[cuts.at[-1]].site
        lines.site_override = site
        held, (going, *results) = self._emit(tree.root, set(), lines)
        made = {out for node in (*tree.fixed.values(), *lines.nodes) for out in node.outs}
        ends: dict[Name, Atom] = {}  # values of classes at the end of a turn
        given = dict(zip([tree.classes[k - 1] for k in self.needed[1:]], results, strict=True))
        for name, result in given.items():
            ends[name] = result
            if result not in made:
                ends[name] = Var(Aval(result.aval.dtype, result.aval.shape))
                lines.append(Node(PRIMITIVES["alias"], (strong(result),), {}, (ends[name],), site))  # type: ignore[arg-type]
        order = {id(node): 2 * k + 1 for k, node in enumerate(tree.pool.nodes)}
        order.update((id(guard), 2 * k) for k, guard in held)
        body: list[Item] = [*lines.nodes, *[guard for _, guard in held]]
        body.sort(key=lambda item: order.get(id(item), 2 * len(tree.pool.nodes)))
        once: list[Item] = [*tree.fixed.values(), *tree.asked_once]
        block: list[Item] = [*once, *body, Guard(going, np.bool_(True), "bool", site)]
        places: dict[Atom, Key] = {}
        for j, item in enumerate(block):
            if isinstance(item, Node):
                places.update((out, (j, i)) for i, out in enumerate(item.outs))

        def slot(atom: Atom) -> Slot:
            if atom in tree.begins:
                name, inits = tree.begins[atom]  # type: ignore[index]
                return Carried(*places[ends[name]], len(inits), inits)
            return Local(*places[atom]) if atom in places else tree.numbers.get(atom, Invariant(atom))  # type: ignore[arg-type]

        steps = [
            Step(item, [*map(slot, item.inputs)], tree.starts.get(item.out), fixed=j < len(once))
            if isinstance(item, Node)
            else Step(item, [slot(item.atom)], expected=np.full(len(tree.turns), item.expected), fixed=j < len(once))
            for j, item in enumerate(block)
        ]
        finals, names = dict[Key, Var](), list[Node]()
        inits = {places[ends[name]]: tree.begins[a][1][0] for name, a in given.items() if a in tree.begins}
        for name, read in self.read.items():
            place = places[ends[name]]
            for var in read:
                source = ends[name] if steps[place[0]].fixed else finals.setdefault(place, var)
                if source is not var:
                    names.append(Node(PRIMITIVES["alias"], (source,), {}, (var,), site))
        ending = Ending(True, UNLIMITED)
        return Turns(cuts.start, cuts.end, len(tree.turns), steps, ending, finals, inits, names)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def _emit(self, part: Part, defined: set[Var], out: Lines) -> tuple[list[tuple[int, Guard]], list[Atom]]:
        """(what has to hold in *part*, the turn's results), appended to *out*, with *defined*."""
        must = self._must(part)
        for node in self.tree.pool.nodes:
            if node.out in must and node.out not in defined:
                out.append(node)
                defined.update(node.outs)
        if part.results is not None:
            return part.held, [part.results[k] for k in self.needed]
        assert part.chosen is not None
        ways = []
        for way in part.ways:
            lines = Lines()
            lines.site_override = out.site_override
            held, given = self._emit(way, set(defined), lines)
            with building(lines):
                ways.append((lines.nodes, [reduce(F.logical_and, [guard.atom for _, guard in held], TRUE), *given]))
        right, *results = _choose(out, part.chosen, *ways[0], *ways[1])
        end = len(self.tree.pool.nodes) + 1, Guard(right, np.bool_(True), "bool", out.site_override, said=TOLD)
        return [*part.held, *([end] if right is not TRUE else ())], results

    def _must(self, part: Part) -> set[Atom]:
        """Values that every way through *part* computes."""
        roots = [guard.atom for _, guard in part.held]
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
