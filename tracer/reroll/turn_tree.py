"""The turns of a loop, which differ by branches, merged into one tree.

A turn goes from one question to the next one that has the same answer and leads to the same instruction.  Between them
Python is a function of the local variables that are live there (``purity.prove_turns``); its way depends on answers to
questions alone.  So turns that have had the same answers have recorded the same items, and are merged: an operand is,
in every one of them,

- the value of an earlier item of the same turn, or
- the value of one *class* of local variables at its start (a class: those that are the same at every cut), or
- one value from before the loop, or one constant.

Where none of these is right in all turns, or two that may differ in turns that were not seen, there is no tree.
``branchy_loops.py`` makes a loop node of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..bytecode.frame_snapshot import Many, Other, Plain, Traced, traced_in
from ..bytecode.purity import Places
from ..ir.aval import BOOL, Aval
from ..ir.equality import same_params
from ..ir.graph import Atom, Guard, Lit, Node, Var, building, by_value, structural
from ..ir.primitive import CUSTOM
from ..ir.refusals import Reason, Refusal
from ..ops.elementwise import F
from .ended_loops import EndedLoop
from .loop_body import Lines
from .loop_monitor import LoopMonitor
from .repeats import FEW_TRIPS, Item

MOST_VARIANTS = 8
#: dtypes among which it makes no difference whether a value was a Python number
_PLAIN_DTYPES = frozenset(map(np.dtype, ("float64", "int64", "bool", "complex128")))
TRUE = structural(True, BOOL)

Name: TypeAlias = tuple[str, tuple[int, ...]]  # a local variable; where in it, if it is a tuple


class RefusedError(Exception):
    """The turns of a loop are no tree, for a *reason*."""

    def __init__(self, reason: Reason):
        self.reason = reason


@dataclass(slots=True)
class Part:
    """A node of the tree, common to some turns: *held* is true in all.  Then either the turn ends with *results*
    (whether the loop goes on, then the value of each class), or *chosen* selects one of *ways* (if True, if False)."""

    held: list[Atom]
    results: list[Atom] | None = None
    chosen: Atom | None = None
    ways: tuple[Part, ...] = ()


class Tree:
    """The turns of *loop* as a tree: ``root``, whose atoms are defined by ``pool`` in order, by ``incoming`` (the
    value of a class at the start of a turn) or outside of the loop."""

    def __init__(self, monitor: LoopMonitor, first: Mapping[Var, int], loop: EndedLoop, places: Places):
        recorder = monitor.recorder
        self.items, self.first, self.asked = recorder.items, first, monitor.asked
        self.consts = {var: array.tobytes() for var, array in recorder.consts}
        self.places = places
        self.cuts = self._uniform(loop)
        self.at = self.cuts.at
        self._split()
        self.pool: list[Node] = []
        self.inner: set[Atom] = set()  # values that differ from turn to turn
        self._known: dict[Any, Node] = {}
        self._cached: tuple[int, int, dict[Var, list[tuple[int, int]]]] = (-1, 0, {})
        self.variants = 1
        self._classes()
        self.root = self._part(list(range(len(self.turns))), 0, [])

    def _split(self) -> None:
        """The items of each turn.  That a Python number becomes one of NumPy's of the same dtype is not looked at: it
        happens in the first turns only."""
        self.renamed: dict[Atom, Atom] = {}
        self.turns: list[list[Item]] = []
        for start, end in itertools.pairwise(self.at):
            turn = []
            for item in self.items[start + 1 : end + 1]:
                if isinstance(item, Node) and item.prim.name == "cast" and item.out.aval.like(item.inputs[0].aval):
                    self.renamed[item.out] = self.plain(item.inputs[0])
                else:
                    turn.append(item)
            self.turns.append(turn)

    def plain(self, atom: Atom) -> Atom:
        return self.renamed.get(atom, atom)

    # ---- local variables -----------------------------------------------------------------------------------------

    def _uniform(self, cuts: EndedLoop) -> EndedLoop:
        """*cuts* without the first turns, where local variables are of other kinds than later."""
        live = sorted(self.places.start | self.places.end)
        exact = not self._only_plain_dtypes(cuts)
        shapes = [tuple([_shape(a.values.get(name), exact) for name in live]) for a in cuts.asked]
        k = len(shapes) - 1
        while k and shapes[k - 1] == shapes[-1]:
            k -= 1
        if len(shapes) - k <= FEW_TRIPS:
            differing = [n for n, a, b in zip(live, shapes[-1], shapes[k - 1], strict=True) if a != b]
            raise RefusedError(Refusal.BRANCH_KIND(name=differing[0]))
        self.live = live
        return replace(cuts, at=cuts.at[k:], asked=cuts.asked[k:])

    def _only_plain_dtypes(self, cuts: EndedLoop) -> bool:
        nodes = (item for item in self.items[cuts.start : cuts.end] if isinstance(item, Node))
        return {a.aval.dtype for n in nodes for a in (*n.inputs, *n.outs)} <= _PLAIN_DTYPES

    def _classes(self) -> None:
        """Classes of local variables with traced values: those that are equal at every cut."""
        self.states: list[dict[Name, Atom]] = []
        for asked in self.cuts.asked:
            state: dict[Name, Atom] = {}
            for name in self.live:
                for path, value in traced_in(asked.values.get(name)):
                    if value.atom is None or value.written:
                        raise RefusedError(Refusal.BRANCH_WRITTEN(name=name))
                    state[name, path] = self.plain(value.atom)
            self.states.append(state)
        classes: dict[Any, Name] = {}
        self.class_of: dict[Name, Name] = {}
        for key in self.states[0]:
            column = [state[key] for state in self.states]
            if key[0] not in self.places.stored:
                if any(a is not column[0] for a in column):
                    raise RefusedError(Refusal.WHILE_UNASSIGNED(name=key[0]))
                continue
            self.class_of[key] = classes.setdefault(tuple(map(self._identity, column)), key)
        self.classes: list[Name] = list(classes.values())
        begins = {self.class_of[n] for n in self.class_of if n[0] in self.places.start}
        self.incoming: dict[Name, Atom] = {}
        for key in self.classes:
            column = [state[key] for state in self.states]
            if self._same(column):  # always the same one, which is read itself
                self.incoming[key] = column[0]
            elif key in begins:
                self.incoming[key] = Var(Aval(column[0].aval.dtype, column[0].aval.shape))
                self.inner.add(self.incoming[key])

    # ---- turns ---------------------------------------------------------------------------------------------------

    def _part(self, turns: list[int], position: int, values: list[tuple[Atom, ...]]) -> Part:
        """The tree of *turns* from *position* on; *values*: the results of the items before it."""
        part = Part([])
        while True:
            column = [self.turns[t][position] for t in turns]
            pattern = column[0]
            if isinstance(pattern, Node):
                values.append(self._node(pattern, column, turns, values))
                position += 1
                continue
            truth = self._truth(pattern, column, turns, values)
            values.append(())
            groups: dict[bool, list[int]] = {}
            for t, guard in zip(turns, column, strict=True):
                groups.setdefault(bool(guard.expected), []).append(t)  # type: ignore[union-attr]
            ends = {a: self._end(group, position) for a, group in groups.items()}
            position += 1
            if all(ends.values()) and self._decides(turns):
                part.results = self._results(turns, values, truth if self.cuts.continuing else self._not(truth))
                return part
            if len(groups) == 1:
                (answer,) = groups
                part.held.append(truth if answer else self._not(truth))
                if ends[answer]:
                    part.results = self._results(turns, values, TRUE)
                    return part
                continue
            self.variants += 1
            if self.variants > MOST_VARIANTS:
                raise RefusedError(Refusal.BRANCH_VARIANTS(count=MOST_VARIANTS))
            part.chosen = truth
            part.ways = tuple(
                [
                    Part([], self._results(groups[a], [*values], TRUE))
                    if ends[a]
                    else self._part(groups[a], position, [*values])
                    for a in (True, False)
                ]
            )
            return part

    def _end(self, turns: Sequence[int], position: int) -> bool:
        ends = {position + 1 == len(self.turns[t]) for t in turns}
        if len(ends) > 1:
            raise RefusedError(Refusal.BRANCH_UNLIKE())
        return ends.pop()

    def _decides(self, turns: Sequence[int]) -> bool:
        """Whether the question at the end of *turns* is the one that has ended the loop."""
        last = self.cuts.asked[-1].instruction
        return all(self.asked[self.at[t + 1]].instruction == last for t in turns)

    def _results(self, turns: list[int], values: list[tuple[Atom, ...]], going: Atom) -> list[Atom]:
        ends = [self._operand([self.states[t + 1][name] for t in turns], turns, values, name[0])
                for name in self.classes]  # fmt: skip
        return [going, *ends]

    def _truth(self, guard: Guard, column: Sequence[Item], turns: list[int], values: list[tuple[Atom, ...]]) -> Atom:
        if any(not isinstance(item, Guard) or item.kind != guard.kind for item in column):
            raise RefusedError(Refusal.BRANCH_UNLIKE())
        if guard.kind != "bool":
            raise RefusedError(Refusal.ROLL_NUMBER(kind=guard.kind, site=guard.site))
        atom = self._operand([self.plain(item.atom) for item in column], turns, values, guard.site)  # type: ignore[union-attr]
        if atom.aval.dtype == BOOL:
            return atom
        return self._derived(lambda: F.ne(atom, structural(0, atom.aval.dtype)), guard)

    def _not(self, atom: Atom) -> Atom:
        return self._derived(lambda: F.logical_not(atom), None)

    def _derived(self, make: Any, guard: Guard | None) -> Atom:
        with building(Lines()) as lines:
            lines.site_override = guard.site if guard else None
            out = make()
        (node,) = lines.nodes
        return self._add(node, node.inputs)[0] if out is node.out else out

    # ---- one item ------------------------------------------------------------------------------------------------

    def _node(
        self, pattern: Node, column: Sequence[Item], turns: list[int], values: list[tuple[Atom, ...]]
    ) -> tuple[Atom, ...]:
        here = {"operation": pattern.prim.name, "site": pattern.site}
        if pattern.prim.kind == CUSTOM:
            raise RefusedError(Refusal.ROLL_FUNCTION(**here))
        for item in column:
            if not isinstance(item, Node) or item.prim is not pattern.prim or len(item.outs) != len(pattern.outs):
                raise RefusedError(Refusal.BRANCH_UNLIKE())
            if item.params is not pattern.params and not same_params(item.params, pattern.params):
                raise RefusedError(Refusal.ROLL_SETTINGS(**here, where="some turn"))
            if any(not a.aval.like(b.aval) for a, b in zip(item.outs, pattern.outs, strict=True)):
                raise RefusedError(Refusal.ROLL_SHAPES(**here, where="some turn"))
        operands = tuple(
            [
                self._operand([self.plain(node.inputs[o]) for node in column], turns, values, pattern.site)  # type: ignore[union-attr]
                for o in range(len(pattern.inputs))
            ]
        )
        if all(self._outside(a) for a in (*operands, *pattern.outs)):  # known before the loop
            return pattern.outs
        return self._add(pattern, operands)

    def _add(self, node: Node, operands: tuple[Atom, ...]) -> tuple[Atom, ...]:
        """The results of *node* with these *operands*."""
        key = (node.prim, tuple(map(self._identity, operands)), tuple(node.params.values()))
        known = self._known.get(key)
        if known is None:
            outs = tuple([Var(Aval(o.aval.dtype, o.aval.shape)) for o in node.outs])
            known = self._known[key] = Node(node.prim, operands, node.params, outs, node.site)
            self.pool.append(known)
            if any(a in self.inner for a in operands if isinstance(a, Var)):
                self.inner.update(outs)
        return known.outs

    def _operand(self, atoms: list[Atom], turns: list[int], values: list[tuple[Atom, ...]], where: Any) -> Atom:
        """The common operand of *turns* for *atoms*, one for each, in terms of the tree."""
        found: list[Atom] = []
        atom = atoms[0]
        if self._same(atoms):
            found.append(atom)
        if isinstance(atom, Var):
            for position, i in self._defined(turns[0], len(values)).get(atom, ()):
                nodes = [self.turns[t][position] for t in turns]
                if all(n.outs[i] is a for n, a in zip(nodes, atoms, strict=True)):  # type: ignore[union-attr]
                    found.append(values[position][i])
        for name, var in self.incoming.items():
            if all(
                self._identity(self.states[t][name]) == self._identity(a) for t, a in zip(turns, atoms, strict=True)
            ):
                found.append(var)
        distinct = {self._identity(a): a for a in found}
        if len(distinct) > 1:
            raise RefusedError(Refusal.BRANCH_TOO_FEW(site=where))
        if not distinct:
            raise RefusedError(Refusal.BRANCH_SOURCE(site=where))
        return found[0]

    def _defined(self, turn: int, count: int) -> dict[Var, list[tuple[int, int]]]:
        """Var -> the (position, output) pairs at which the first *count* items of *turn* define it."""
        known, until, found = self._cached
        if known != turn or until > count:
            until, found = 0, {}
        for position in range(until, count):
            item = self.turns[turn][position]
            if isinstance(item, Node):
                for i, out in enumerate(item.outs):
                    found.setdefault(out, []).append((position, i))
        self._cached = turn, count, found
        return found

    def _same(self, atoms: Sequence[Atom]) -> bool:
        """Whether *atoms* are one value from before the loop, or one constant."""
        first = self._identity(atoms[0])
        return self._outside(atoms[0]) and all(a is atoms[0] or self._identity(a) == first for a in atoms)

    def _outside(self, atom: Atom) -> bool:
        """Whether *atom* is defined before the loop."""
        return isinstance(atom, Lit) or (atom not in self.inner and self.first.get(atom, -1) < self.cuts.start)

    def _identity(self, atom: Atom) -> Any:
        bits = self.consts.get(atom) if isinstance(atom, Var) else None
        return by_value(atom) if bits is None else (atom.aval.dtype, atom.aval.shape, bits)


def _shape(seen: Any, exact: bool) -> Any:
    """The properties of a local variable that have to be the same in every turn."""
    if isinstance(seen, Many):
        return tuple([_shape(v, exact) for v in seen.items])
    if isinstance(seen, Traced):
        aval = seen.atom.aval if seen.atom is not None else None
        return aval and (aval.dtype, aval.shape, exact and aval.weak)
    if isinstance(seen, Plain):
        return (type(seen.value), repr(seen.value))
    return id(seen.value) if isinstance(seen, Other) else None


__all__ = ["MOST_VARIANTS", "TRUE", "Name", "Part", "RefusedError", "Tree"]
