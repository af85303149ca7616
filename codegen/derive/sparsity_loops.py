"""Sparsity patterns of loops: all steps at once.

The body is batched (``batch.py``), a row for each step, so that rows of xs and of ys keep their steps, and positions
that depend on the step are known.  What remains are the carries:

- one that a step only adds to, or writes parts of (``_writes``), has everything that any step gives it, and what a step
  reads of it may be all that: a sum over steps, an array that is filled;
- any other has in step i what the step before gave it.  That is found in a few rounds for what is handed on a few steps
  (the element before); what goes on growing is taken to be the same in all steps, too.

Where steps cannot be told apart (their number is not limited, or all would be too large) nothing is batched, and a row
of xs is any row.  Loops of a few steps are run step by step, which is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...tracer.ir.aval import Aval
from ...tracer.ir.graph import Atom, Builder, Node, Var, building
from ...tracer.ops.control import LoopView, loop_view
from .batch import batch
from .index_sets import IndexSets, RowNumbers, TooManyError, nothing, stacked, union
from .sparsity import EVERYTHING, Analysis, Everything, Known, Sets, joined

STEPS = 8  # of a loop that is run step by step
LARGEST = 1 << 25  # elements of a value of all steps
_ROUNDS = 3  # in which a carry may be handed on, step by step
_GROWTH = 12  # rounds after which all carries depend on everything


def loop_sets(analysis: Analysis, node: Node) -> None:
    """Find the sets of the results of the loop *node*."""
    length = node.params["length"]
    if length <= STEPS:
        _step_by_step(analysis, node)
        return
    try:
        found = _Steps(analysis, node, length if length <= LARGEST else None).results()
    except TooManyError:
        found = _Steps(analysis, node, None).results()
    for out in node.outs:
        if out.aval.is_float:
            analysis.give(out, analysis.mixed(node.inputs, out) if found is None else found.get(out, ()))


# ---- step by step ----------------------------------------------------------------------------------------------------


def _step_by_step(analysis: Analysis, node: Node) -> None:
    view = loop_view(node)
    length = node.params["length"]
    steps = range(length)[::-1] if node.params["reverse"] else range(length)
    ends: list[Sets] = [analysis.of(x) for x in view.outer.carries]
    finals: list[list[Sets]] = [[sets] for sets in ends]
    rows: list[list[Sets]] = [[()] * length for _ in view.stacked]
    for i in steps:
        inner = _inside(analysis, view, i)
        for v, sets in zip(view.inner.carries, ends, strict=True):
            if sets and v.aval.is_float:
                inner.sets[v] = sets
        inner.run(view.body.nodes)
        ends = [inner.of(x) for x in view.ends]
        for found, sets in zip(finals, ends, strict=True):
            found.append(sets)
        for k, x in enumerate(view.rows):
            rows[k][i] = inner.of(x)
    for out, found in zip(view.finals, finals, strict=True):
        if out.aval.is_float:
            analysis.give(out, joined(found) if view.ran is not None else found[-1])
    for out, found in zip(view.stacked, rows, strict=True):
        if out.aval.is_float:
            analysis.give(out, _one_after_the_other(found, out.aval.size // max(length, 1)))


def _one_after_the_other(found: Sequence[Sets], size: int) -> Sets:
    """The sets of rows of this *size*, in one value."""
    parts: list[IndexSets] = []
    for sets in found:
        if isinstance(sets, Everything):
            return EVERYTHING
        parts.append(union(sets) if sets else nothing(size))
    return (stacked(parts),) if any(found) else ()


def _inside(analysis: Analysis, view: LoopView, step: int) -> Analysis:
    """An analysis of the body in *step*."""
    outer: dict[Var, Atom] = dict(zip(view.inner.consts, view.outer.consts, strict=True))
    rows: dict[Var, Atom] = dict(zip(view.inner.xs, view.outer.xs, strict=True))

    def known(var: Var) -> np.ndarray | None:
        if var in outer:
            return analysis.known.value(outer[var])
        value = analysis.known.value(rows[var]) if var in rows else None
        return None if value is None else value[step]

    inner = Analysis(Known(view.body.nodes, known), analysis.loop_rule)
    for v, x in outer.items():
        inner.sets[v] = analysis.of(x)
    for v, x in rows.items():
        sets = analysis.of(x)
        if not isinstance(sets, Everything):
            sets = tuple([s.taken(np.arange(step * v.aval.size, (step + 1) * v.aval.size)) for s in sets])
        inner.sets[v] = sets
    return inner


# ---- all steps at once -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Written:
    """A carry that a step adds to, or writes parts of: by these ``nodes``, whose results are versions of it."""

    nodes: list[Node] = field(default_factory=list)
    added: list[tuple[Node, int]] = field(default_factory=list)  # and the operand that is added or written


def _writes(end: Atom, carry: Var, producers: Mapping[Var, Node], found: _Written) -> bool:
    """Whether *end* is a version of *carry*; then *found* has the writes that make it one."""
    todo = [end]
    while todo:
        value = todo.pop()
        if value is carry or any(value in n.outs for n in found.nodes):
            continue
        node = producers.get(value) if isinstance(value, Var) else None
        if node is None or value.aval.shape != carry.aval.shape:
            return False
        name = node.prim.name
        if name in ("scatter_add", "scatter", "update"):
            found.added.append((node, len(node.inputs) - 1))
            todo.append(node.inputs[0])
        elif name == "add" and (places := [k for k in (0, 1) if _leads(node.inputs[k], carry, producers)]):
            found.added.append((node, 1 - places[0]))
            todo.append(node.inputs[places[0]])
        elif name == "select":
            todo += node.inputs[1:]
        else:
            return False
        found.nodes.append(node)
    return True


def _leads(value: Atom, carry: Var, producers: Mapping[Var, Node]) -> bool:
    return value.aval.shape == carry.aval.shape and _writes(value, carry, producers, _Written())


class _Steps:
    """The analysis of a loop; *length* None: of any step."""

    def __init__(self, analysis: Analysis, node: Node, length: int | None) -> None:
        self.outer, self.node, self.view, self.length = analysis, node, loop_view(node), length
        body = self.view.body
        producers = {o: n for n in body.nodes for o in n.outs}
        self.written: dict[int, _Written] = {}
        for k, (carry, end) in enumerate(zip(self.view.inner.carries, self.view.ends, strict=True)):
            found = _Written()
            if carry.aval.is_float and _writes(end, carry, producers, found):
                self.written[k] = found
        # the carries that are the same in all steps
        self.same = set(range(len(self.view.ends)) if length is None else self.written)

    def results(self) -> dict[Var, Sets] | None:
        """The sets of the results; None where they cannot be told."""
        carries = self.view.inner.carries
        starts = [_canonical(self.outer.of(x)) for x in self.view.outer.carries]
        now: list[Sets] = [s if k in self.same else self._before(s, ()) for k, s in enumerate(starts)]
        for turn in range(_GROWTH):
            inner = self._analysed(now)
            found: list[Sets] = []
            for k, end in enumerate(self.view.ends):
                if not carries[k].aval.is_float:
                    found.append(())
                elif k in self.same:
                    found.append(_canonical(joined([starts[k], now[k], self._given(inner, k)])))
                else:
                    found.append(_canonical(self._before(starts[k], self._of(inner, end))))
            changed = [k for k in range(len(now)) if found[k] != now[k]]
            if not changed:
                return self._results(inner, starts, now)
            now = found
            if turn >= _ROUNDS:
                for k in set(changed) - self.same:
                    self.same.add(k)
                    now[k] = joined([starts[k], self._of_any(now[k], carries[k].aval.size)])
        return None

    def _body(self) -> list[Node]:
        """The body over the carries that stay the same, in place of their versions (``versions``)."""
        carries = self.view.inner.carries
        versions = {o: k for k in self.same & self.written.keys() for n in self.written[k].nodes for o in n.outs}
        self.versions = versions
        body = []
        for n in self.view.body.nodes:
            inputs = tuple([carries[versions[a]] if a in versions else a for a in n.inputs])  # type: ignore[index]
            if versions.keys().isdisjoint(n.outs):
                body.append(Node(n.prim, inputs, n.params, n.outs, n.site))
        return body

    def _analysed(self, now: Sequence[Sets]) -> Analysis:
        view, length, body = self.view, self.length, self._body()
        rows: dict[Var, Var] = {}
        if length is not None:
            moving = [v for k, v in enumerate(view.inner.carries) if k not in self.same]
            rows = {v: Var(Aval(v.aval.dtype, (length, *v.aval.shape))) for v in (*moving, *view.inner.xs)}
        with building(Builder()) as builder:
            self.rows: dict[Var, Atom] = {**rows, **batch(body, rows, length)} if length is not None else {}
        if any(o.aval.size > LARGEST for n in builder.nodes for o in n.outs):
            raise TooManyError
        nodes = [n for n in body if not all(o in self.rows for o in n.outs)] + builder.nodes
        consts: dict[Var, Atom] = dict(zip(view.inner.consts, view.outer.consts, strict=True))
        if length is not None:
            consts.update((rows[v], x) for v, x in zip(view.inner.xs, view.outer.xs, strict=True))
        outer = self.outer
        inner = Analysis(Known(nodes, lambda v: outer.known.value(consts[v]) if v in consts else None), outer.loop_rule)
        inner.sets.update((v, outer.of(x)) for v, x in consts.items())
        for k, v in enumerate(view.inner.carries):
            inner.sets[rows.get(v, v)] = now[k]
        if length is None:
            for v, x in zip(view.inner.xs, view.outer.xs, strict=True):
                inner.sets[v] = self._of_any(outer.of(x), v.aval.size)
        inner.run(nodes)
        return inner

    def _value(self, atom: Atom) -> Atom:
        """The value of all steps that stands for *atom*, a value of the body; itself, where it is the same in all."""
        if atom in self.versions:
            atom = self.view.inner.carries[self.versions[atom]]  # type: ignore[index]
        return self.rows.get(atom, atom) if isinstance(atom, Var) else atom

    def _of(self, inner: Analysis, atom: Atom) -> Sets:
        """The sets of *atom* in all steps, one after the other."""
        value = self._value(atom)
        sets = inner.of(value)
        if value.aval.shape != atom.aval.shape or self.length is None or isinstance(sets, Everything):
            return sets
        places = np.tile(np.arange(atom.aval.size), self.length)
        return tuple([s.taken(places) for s in sets])

    def _of_any(self, sets: Sets, size: int) -> Sets:
        """The sets of all rows of this *size*, of a value that has one for each step."""
        if isinstance(sets, Everything):
            return sets
        return tuple([s.grouped(RowNumbers(np.arange(len(s)).reshape(-1, size).T.reshape(-1)), size) for s in sets])

    def _any_step(self, inner: Analysis, atom: Atom) -> Sets:
        """The sets of *atom* in any step."""
        value = self._value(atom)
        sets = inner.of(value)
        return sets if value.aval.shape == atom.aval.shape else self._of_any(sets, atom.aval.size)

    def _before(self, start: Sets, ends: Sets) -> Sets:
        """A carry as it comes into the steps, where *ends* is what it is after them."""
        if isinstance(start, Everything) or isinstance(ends, Everything):
            return EVERYTHING
        if not start and not ends:
            return ()
        assert self.length is not None
        first = union(start) if start else None
        after = union(ends) if ends else None
        size = len(first) if first is not None else len(after) // self.length  # type: ignore[arg-type]
        first = nothing(size) if first is None else first
        if after is None:
            after = nothing(size * self.length)
        rest = np.arange(size * (self.length - 1))
        parts = [after.taken(rest + size), first] if self.node.params["reverse"] else [first, after.taken(rest)]
        return (stacked(parts),)

    def _given(self, inner: Analysis, k: int) -> Sets:
        """The sets that the steps give a carry that is the same in all."""
        carry, end = self.view.inner.carries[k], self.view.ends[k]
        if k not in self.written:
            return self._any_step(inner, end)
        return joined([self._written(inner, node, place, carry) for node, place in self.written[k].added])

    def _written(self, inner: Analysis, node: Node, place: int, carry: Var) -> Sets:
        value = node.inputs[place]
        sets = inner.of(self._value(value))
        if not sets or isinstance(sets, Everything):
            return sets
        if node.prim.name == "add":
            found = self._any_step(inner, value)
            if value.aval.shape == carry.aval.shape or isinstance(found, Everything):
                return found
            return tuple([s.taken(np.zeros(carry.aval.size, np.int64)) for s in found])
        if node.prim.name == "update":
            found = self._any_step(inner, value)
            assert not isinstance(found, Everything)
            numbers = np.arange(1, value.aval.size + 1).reshape(value.aval.shape)
            places = node.prim.impl(np.zeros(carry.aval.shape, np.int64), numbers, **node.params).reshape(-1) - 1
            return tuple([s.taken(places) for s in found])
        index, whole = self._value(node.inputs[1]), self._value(value)
        positions = inner.known.value(index)
        if positions is None or not carry.aval.shape[0]:
            return inner.mixed([whole], carry)
        row = carry.aval.size // carry.aval.shape[0]
        places = np.clip(positions, 0, carry.aval.shape[0] - 1).reshape(-1, 1) * row + np.arange(row)
        count = whole.aval.size // value.aval.size if value.aval.size else 1
        steps = places.size // max(value.aval.size, 1)
        numbers = np.arange(whole.aval.size).reshape(-1)
        if steps > count:  # what is written is the same in all steps
            numbers = np.tile(numbers, steps)
        elif count > steps:
            places = np.tile(places.reshape(-1), count)
        return (union(sets).taken(numbers).summed(places.reshape(-1), carry.aval.size),)

    def _results(self, inner: Analysis, starts: Sequence[Sets], now: Sequence[Sets]) -> dict[Var, Sets]:
        found: dict[Var, Sets] = {}
        for k, (out, end) in enumerate(zip(self.view.finals, self.view.ends, strict=True)):
            if k in self.same:
                found[out] = now[k]
                continue
            ends = self._of(inner, end)
            if self.view.ran is not None:
                found[out] = joined([starts[k], self._of_any(ends, out.aval.size)])
            elif isinstance(ends, Everything):
                found[out] = ends
            else:
                assert self.length is not None
                last = 0 if self.node.params["reverse"] else self.length - 1
                places = np.arange(last * out.aval.size, (last + 1) * out.aval.size)
                found[out] = tuple([s.taken(places) for s in ends])
        for out, row in zip(self.view.stacked, self.view.rows, strict=True):
            sets = self._of(inner, row)
            if self.length is None and not isinstance(sets, Everything):
                sets = tuple([s.taken(np.tile(np.arange(row.aval.size), self.node.params["length"])) for s in sets])
            found[out] = sets
        return found


def _canonical(sets: Sets) -> Sets:
    """The same sets in one form."""
    if isinstance(sets, Everything) or not sets:
        return sets
    return (union(sets).distinct(),)
