"""The turns of a loop merged into one tree; where all of them have had the same answers, it has a single way.

A turn goes from one question to the next one that has the same answer and leads to the same instruction.  Between them
Python is a function of the local variables that are live there (``purity.py``); its way depends on answers to
questions alone.  So turns that have had the same answers have recorded the same items, and are merged: an operand is,
in every one of them,

- the value of an earlier item of the same turn, or
- the value of one *class* of local variables at its start (a class: those that are the same at every cut), or
- one value from before the loop, or one constant.

If all turns have had the same answers, Python values may differ from turn to turn.  Then an operand may also be a
number that follows from that of the turn, as a position may, and what an item of one of the two turns before defined.

Where none of these is right in all turns, or two that may differ in turns that were not seen, there is no tree.
``branchy_loops.py`` makes a block of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..bytecode.control_flow import flow_of
from ..bytecode.frame_snapshot import Many, Other, Plain, Traced
from ..bytecode.purity import Proof
from ..ir.aval import BOOL, Aval
from ..ir.equality import same_params
from ..ir.graph import Atom, Guard, Lit, Node, Var, answered, building, by_value, structural
from ..ir.refusals import Reason, Refusal
from ..ops.custom import runs_python
from ..ops.elementwise import F
from .ended_loops import EndedLoop, Name, states_of
from .loop_body import Lines, affine
from .loop_monitor import LoopMonitor
from .prove import VARYING, number_slot, varying_params
from .repeats import FEW_TRIPS, Item, VaryingConstant

MOST_VARIANTS = 8
#: dtypes among which it makes no difference whether a value was a Python number
_PLAIN_DTYPES = frozenset(map(np.dtype, ("float64", "int64", "bool", "complex128")))
TRUE = structural(True, BOOL)
Values = list[tuple[Atom, ...]]  # results of the items of a turn


class RefusedError(Exception):
    """The turns of a loop are no tree, for a *reason*; perhaps they are without the *first* ones."""

    def __init__(self, reason: Reason, first: int = 0):
        self.reason, self.first = reason, first


@dataclass(slots=True)
class Part:
    """A node of the tree, common to some turns: what is *held* is true in all, and was asked before some node of the
    pool.  Then either the turn ends with *results* (whether the loop goes on, then the value of each class, or why it
    is unknown), or *chosen* selects one of *ways* (if True, if False)."""

    held: list[tuple[int, Guard]]
    results: list[Any] | None = None
    chosen: Atom | None = None
    ways: tuple[Part, ...] = ()


class Tree:
    """The turns of *loop* as a tree: ``root``.  Its atoms are defined outside of the loop, by ``fixed``, loop-invariant
    nodes, or by ``pool`` in order; or they are ``begins``, values of classes at the start of a turn, with those in the
    first turn, or ``numbers``, which follow from that of the turn."""

    def __init__(self, monitor: LoopMonitor, first: Mapping[Var, int], loop: EndedLoop, proof: Proof):
        self.items, self.first, self.asked = monitor.recorder.items, first, monitor.asked
        self.consts = dict(monitor.recorder.consts)
        self.proof = proof
        self.start = flow_of(self.asked[loop.at[-1]].frame.f_code).live(loop.head)
        self.cuts = self._uniform(loop) if proof.differ else loop
        self._split()
        self.pool = Lines()
        self.fixed: dict[Any, Node] = {}
        self.asked_once: list[Guard] = []  # loop-invariant questions
        self.starts: dict[Var, np.ndarray] = {}  # of slices, updates and pads whose ``start`` differs
        self.begins: dict[Var, tuple[Name, tuple[Atom, ...]]] = {}
        self.numbers: dict[Var, VaryingConstant] = {}
        self.inner: set[Atom] = set()  # values that differ from turn to turn
        self.truths: list[Atom] = []
        self.leaves: list[list[Any]] = []  # results of all ways
        self._constants: dict[Any, Atom] = {}
        self._made: dict[Any, Var] = {}
        self._defined: dict[int, tuple[int, dict[Var, list[tuple[int, int]]]]] = {}
        self.variants = 1
        self._classes()
        values: Values = []
        self._carried: dict[Name, tuple[int, int]] = {}  # a class of its own -> the item that defines it
        self.root = self._part(list(range(len(self.turns))), 0, values)
        for name, (position, i) in self._carried.items():
            self.classes.append(name)
            self.leaves[0].append(values[position][i])

    def _split(self) -> None:
        """The items of each turn.  Where turns differ, casts of Python numbers to NumPy's of the same dtype are left
        out: they happen in the first turns only."""
        self.renamed: dict[Atom, Atom] = {}
        self.turns = [self.items[start + 1 : end + 1] for start, end in itertools.pairwise(self.cuts.at)]
        for t, turn in enumerate(self.turns if self.proof.differ else ()):
            for item in turn:
                if isinstance(item, Node) and item.prim.name == "cast" and item.out.aval.like(item.inputs[0].aval):
                    self.renamed[item.out] = self.plain(item.inputs[0])
            self.turns[t] = [item for item in turn if isinstance(item, Guard) or item.out not in self.renamed]

    def plain(self, atom: Atom) -> Atom:
        return self.renamed.get(atom, atom)

    # ---- local variables -----------------------------------------------------------------------------------------

    def _uniform(self, cuts: EndedLoop) -> EndedLoop:
        """*cuts* without the first turns, where local variables are of other kinds than later."""
        live = sorted(self.start | self.proof.live)
        exact = not self._only_plain_dtypes(cuts)
        shapes = [tuple([_shape(a.values.get(name), exact) for name in live]) for a in cuts.asked if a is not None]
        k = len(shapes) - 1
        while k and shapes[k - 1] == shapes[-1]:
            k -= 1
        if len(shapes) - k <= FEW_TRIPS:
            differing = [n for n, a, b in zip(live, shapes[-1], shapes[k - 1], strict=True) if a != b]
            raise RefusedError(Refusal.BRANCH_KIND(name=differing[0]))
        return replace(cuts, at=cuts.at[k:], asked=cuts.asked[k:])

    def _only_plain_dtypes(self, cuts: EndedLoop) -> bool:
        nodes = (item for item in self.items[cuts.start : cuts.end] if isinstance(item, Node))
        return {a.aval.dtype for n in nodes for a in (*n.inputs, *n.outs)} <= _PLAIN_DTYPES

    def _classes(self) -> None:
        """Classes of local variables with traced values: those that are equal at every cut."""
        proof, found = self.proof, states_of(self.cuts.asked, self.start | self.proof.live)
        self.states: list[dict[Name, Atom]] = []
        for state in found:
            written = [name for name, v in state.items() if v.atom is None or (proof.differ and v.written)]
            if written and proof.differ:
                raise RefusedError(Refusal.BRANCH_WRITTEN(name=written[0][0]))
            self.states.append({name: self.plain(v.atom) for name, v in state.items() if v.atom is not None})
        classes: dict[Any, Name] = {}
        self.class_of: dict[Name, Name] = {}
        self.steady: list[Name] = []
        self.unknown: list[Atom] = []  # values of variables that are of no class
        self._begun: dict[Name, None] = {}  # classes that are read in a turn
        self._started: dict[int, dict[Any, list[Name]]] = {}
        for name, last in self.states[-1].items():
            column = [state.get(name) for state in self.states]
            if any(a is None or not a.aval.like(last.aval) for a in column[1:]):
                if name[0] in proof.live:
                    self.unknown.append(last)
                continue
            keys = tuple([None if a is None else self._identity(a) for a in column])
            known = column[column[0] is None :]
            if self._same(known):  # type: ignore[arg-type]
                self.steady += [name] if name[0] in proof.stored and proof.differ else []
                continue  # always the same one, which is read itself
            if name[0] not in proof.stored:
                raise RefusedError(Refusal.WHILE_UNASSIGNED(name=name[0]))
            changed = last is not known[0] and all(a is known[0] for a in known[:-1])
            if changed and name[0] in self.start and not proof.differ:  # turns may read it, or its value so far
                raise RefusedError(Refusal.WHILE_CHANGED_LAST(name=name[0]))
            cls = self.class_of[name] = classes.setdefault(keys, name)
            if name[0] in self.start:
                self._begun.setdefault(cls)
        self.classes: list[Name] = list(classes.values())

    # ---- turns ---------------------------------------------------------------------------------------------------

    def _part(self, turns: list[int], position: int, values: Values) -> Part:
        """The tree of *turns* from *position* on; *values*: the results of the items before it."""
        part = Part([])
        while True:
            column = [self.turns[t][position] for t in turns]
            pattern = column[-1]
            if isinstance(pattern, Node):
                values.append(self._node(pattern, column, turns, values))
                position += 1
                continue
            asked = self._asked(pattern, column, turns, values)
            values.append(())
            groups: dict[bool, list[int]] = {}
            for t, guard in zip(turns, column, strict=True):
                groups.setdefault(bool(guard.expected), []).append(t)  # type: ignore[union-attr]
            ends = {a: self._end(group, position) for a, group in groups.items()}
            position += 1
            if (
                len(groups) == 1
                and asked not in self.inner
                and len(turns) == len(self.turns)
                and not any(ends.values())
            ):
                self.asked_once.append(Guard(asked, pattern.expected, pattern.kind, pattern.site))
                continue
            truth = self._truth(asked, pattern)
            if all(ends.values()) and self._decides(turns):
                part.results = self._results(turns, values, truth if self.cuts.continuing else self._not(truth))
                return part
            if len(groups) == 1:
                (answer,) = groups
                holds = truth if answer else self._not(truth)
                right = Guard(holds, np.bool_(True), "bool", pattern.site, said=answered("bool", answer, "iteration"))
                part.held.append((len(self.pool.nodes), right))
                if ends[answer]:
                    part.results = self._results(turns, values, TRUE)
                    return part
                continue
            if not self.proof.differ:
                raise RefusedError(Refusal.WHILE_ANSWERS(site=pattern.site))
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
        last = self.asked[self.cuts.at[-1]].instruction
        return all(self.asked[self.cuts.at[t + 1]].instruction == last for t in turns)

    def _results(self, turns: list[int], values: Values, going: Atom) -> list[Any]:
        results: list[Any] = [going]
        for name in self.steady:  # nothing else may fit
            self._operand([self.states[t + 1][name] for t in turns], turns, values, name[0])
        for name in self.classes:
            try:
                results.append(self._operand([self.states[t + 1][name] for t in turns], turns, values, name[0]))
            except RefusedError as error:
                results.append(error)
        self.leaves.append(results)
        return results

    def _asked(self, guard: Guard, column: Sequence[Item], turns: list[int], values: Values) -> Atom:
        if any(not isinstance(item, Guard) or item.kind != guard.kind for item in column):
            raise RefusedError(Refusal.BRANCH_UNLIKE())
        if guard.kind != "bool":
            raise RefusedError(Refusal.ROLL_NUMBER(kind=guard.kind, site=guard.site))
        return self._operand([self.plain(item.atom) for item in column], turns, values, guard.site)  # type: ignore[union-attr]

    def _truth(self, atom: Atom, guard: Guard) -> Atom:
        if atom.aval.dtype != BOOL:
            atom = self._emit(lambda: F.ne(atom, structural(0, atom.aval.dtype)), guard)
        self.truths.append(atom)
        return atom

    def _not(self, atom: Atom) -> Atom:
        return self._emit(lambda: F.logical_not(atom), None)

    # ---- one item ------------------------------------------------------------------------------------------------

    def _node(self, pattern: Node, column: Sequence[Item], turns: list[int], values: Values) -> tuple[Atom, ...]:
        here = {"operation": pattern.prim.name, "site": pattern.site}
        if runs_python(pattern):
            raise RefusedError(Refusal.ROLL_FUNCTION(**here))
        starts: np.ndarray | None = None
        for k, item in enumerate(column):
            if not isinstance(item, Node) or item.prim is not pattern.prim or len(item.outs) != len(pattern.outs):
                raise RefusedError(Refusal.BRANCH_UNLIKE())
            if item.params is not pattern.params and starts is None and not same_params(item.params, pattern.params):
                if not self.proof.differ and pattern.prim.name in VARYING:
                    starts, valid = varying_params(pattern, column)  # type: ignore[arg-type]
                    if valid == len(column) and starts is not None and (np.diff(starts, n=2, axis=0) == 0).all():
                        continue
                    raise RefusedError(Refusal.WHILE_POSITIONS(site=pattern.site))
                raise RefusedError(Refusal.ROLL_SETTINGS(**here, where="some turn"), turns[k] + 1)
            for a, b in zip(item.outs, pattern.outs, strict=True):
                if a.aval is not b.aval and not a.aval.like(b.aval):
                    raise RefusedError(Refusal.ROLL_SHAPES(**here, where="some turn"), turns[k] + 1)
        operands = tuple(
            [
                self._operand([self.plain(node.inputs[o]) for node in column], turns, values, pattern.site)  # type: ignore[union-attr]
                for o in range(len(pattern.inputs))
            ]
        )
        if starts is not None:
            out = self._new(pattern.out.aval)
            self.starts[out] = starts
            self.pool.append(Node(pattern.prim, operands, pattern.params, (out,), pattern.site))
            return (out,)
        if any(a in self.inner for a in operands):
            return self._emit(lambda: self.pool.emit(pattern.prim, operands, pattern.params), pattern)
        key: Any = pattern.out
        outs = pattern.outs
        if self.proof.differ:  # after some ways these may be values of local variables that change
            key = (pattern.prim, tuple(map(self._identity, operands)), tuple(pattern.params.values()))
            outs = tuple([Var(out.aval) for out in outs])
        return self.fixed.setdefault(key, Node(pattern.prim, operands, pattern.params, outs, pattern.site)).outs

    def _emit(self, make: Any, item: Item | None) -> Any:
        """The result of *make*, whose nodes are appended to the pool."""
        count, self.pool.site_override = len(self.pool.nodes), item.site if item else None
        with building(self.pool):
            made = make()
        for node in self.pool.nodes[count:]:
            if any(a in self.inner for a in node.inputs):
                self.inner.update(node.outs)
        return made

    def _new(self, aval: Aval) -> Var:
        """A value that differs from turn to turn."""
        var = Var(Aval(aval.dtype, aval.shape))
        self.inner.add(var)
        return var

    # ---- operands ------------------------------------------------------------------------------------------------

    def _operand(self, atoms: list[Atom], turns: list[int], values: Values, where: Any) -> Atom:
        """The common operand of *turns* for *atoms*, one for each, in terms of the tree."""
        atom = atoms[-1]
        wrong = [len(turns)]  # turns up to the last for which a candidate is wrong
        found: dict[Any, Atom] = {}
        if isinstance(atom, Var):
            for position, i in self._definitions(turns[-1], len(values)).get(atom, ()):
                wrong.append(last_other(atoms, [self.turns[t][position].outs[i] for t in turns]))  # type: ignore[union-attr]
                if not wrong[-1]:
                    found[values[position][i]] = values[position][i]
                    if not self.proof.differ:
                        return values[position][i]
        elif not self.proof.differ:
            return self._number(atom, atoms, where)
        if self._same(atoms) and self.inner.issuperset(found):
            key = self._identity(atom)
            found[key] = self._constants.setdefault(key, atoms[0])
        for name in self._beginning(turns[-1]).get(self._identity(atom), ()):
            column = [self.states[t].get(name) for t in turns]
            init = self.states[0].get(name)
            if column[0] is None and self._outside(atoms[0]) and atoms[0].aval.like(atom.aval):
                init = column[0] = atoms[0]
            wrong.append(last_other(atoms, column))
            if wrong[-1]:
                wrong[-1] = last_other([*map(self._identity, atoms)], [a and self._identity(a) for a in column])
            if not wrong[-1]:
                begin = self._begin(name, init, atom)
                found[begin] = begin
        if not found and not self.proof.differ:
            found = self._earlier(atoms, turns)
        if len(found) != 1:
            refusal = Refusal.BRANCH_TOO_FEW if found else Refusal.BRANCH_SOURCE
            raise RefusedError(refusal(site=where), turns[min(wrong) - 1] + 1 if not found else 0)
        return next(iter(found.values()))

    def _beginning(self, turn: int) -> dict[Any, list[Name]]:
        """The classes that are read in a turn, by their values at the start of this one."""
        found = self._started.get(turn)
        if found is None:
            found = self._started[turn] = {}
            for name in self._begun:
                found.setdefault(self._identity(self.states[turn][name]), []).append(name)
        return found

    def _begin(self, name: Name, init: Atom | None, like: Atom) -> Var:
        """The value of the class *name* at the start of a turn; *init* in the first one."""
        key = name, None if init is None else self._identity(init)
        if key not in self._made:
            self._made[key] = self._new(like.aval)
            self.begins[self._made[key]] = name, (init,)  # type: ignore[assignment]
        return self._made[key]

    def _number(self, atom: Lit, atoms: list[Atom], where: Any) -> Atom:
        """A constant, or a number that follows from that of the turn."""
        slot, valid = number_slot(atom, atoms)
        if valid < len(atoms) or (isinstance(slot, VaryingConstant) and affine(slot.values) is None):
            raise RefusedError(Refusal.WHILE_NUMBERS(site=where), valid + 1 if valid < len(atoms) else 0)
        if not isinstance(slot, VaryingConstant):
            return self._constants.setdefault(self._identity(atom), atom)
        key = atom.aval, slot.values.tobytes()
        if key not in self._made:
            self._made[key] = self._new(atom.aval)
            self.numbers[self._made[key]] = slot
        return self._made[key]

    def _earlier(self, atoms: list[Atom], turns: list[int]) -> dict[Any, Atom]:
        """A value that an item of the turn before has defined, or of the one before that."""
        for back in (1, 2):
            inits = tuple(atoms[:back])
            if not all(self._outside(a) and a.aval.like(atoms[-1].aval) for a in inits):
                break
            for position, i in self._definitions(turns[-1] - back, len(self.turns[0])).get(atoms[-1], ()):  # type: ignore[arg-type]
                if not last_other(atoms[back:], [self.turns[t - back][position].outs[i] for t in turns[back:]]):  # type: ignore[union-attr]
                    key = position, i, *map(self._identity, inits)
                    if key not in self._made:
                        self._made[key] = var = self._new(atoms[-1].aval)
                        self.begins[var] = ("", (position, i)), inits
                        self._carried["", (position, i)] = position, i
                    return {0: self._made[key]}
        return {}

    def _definitions(self, turn: int, count: int) -> dict[Var, list[tuple[int, int]]]:
        """Var -> the (position, output) pairs at which the first *count* items of *turn* define it."""
        until, found = self._defined.get(turn, (0, {}))
        if until > count:
            until, found = 0, {}
        for position in range(until, count):
            item = self.turns[turn][position]
            if isinstance(item, Node):
                for i, out in enumerate(item.outs):
                    found.setdefault(out, []).append((position, i))
        self._defined[turn] = count, found
        return found

    def _same(self, atoms: Sequence[Atom]) -> bool:
        """Whether *atoms* are one value from before the loop, or one constant."""
        first = self._identity(atoms[0])
        return self._outside(atoms[0]) and all(a is atoms[0] or self._identity(a) == first for a in atoms)

    def _outside(self, atom: Atom) -> bool:
        """Whether *atom* is defined before the loop."""
        return isinstance(atom, Lit) or (atom not in self.inner and self.first.get(atom, -1) < self.cuts.start)

    def _identity(self, atom: Atom) -> Any:
        array = self.consts.get(atom) if isinstance(atom, Var) else None
        return by_value(atom) if array is None else (atom.aval.dtype, atom.aval.shape, array.tobytes())


def last_other(atoms: Sequence[Any], others: Sequence[Any]) -> int:
    """The number of turns up to the last one in which *atoms* differ from *others*."""
    for k in range(len(atoms), 0, -1):
        if atoms[k - 1] is not others[k - 1] and atoms[k - 1] != others[k - 1]:
            return k
    return 0


def _shape(seen: Any, exact: bool) -> Any:
    """The properties of a local variable that have to be the same in every turn."""
    if isinstance(seen, Many):
        return type(seen.owner), tuple([_shape(v, exact) for v in seen.items])
    if isinstance(seen, Traced):
        aval = seen.atom.aval if seen.atom is not None else None
        return aval and (aval.dtype, aval.shape, exact and aval.weak)
    if isinstance(seen, Plain):
        return (type(seen.value), repr(seen.value))
    return id(seen.value) if isinstance(seen, Other) else None
