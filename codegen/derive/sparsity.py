"""Sparsity patterns: which elements of the inputs each element of a program's results may depend on.

Conservative: an entry of the Jacobian that is not in its pattern is zero at every point.  A dependence is one through
which a derivative flows; what only decides a branch is none.  Most rules follow from the table of primitives:

- elementwise: the union of the operands' sets;
- views: the primitive's own ``impl``, run on the numbers of the elements, says where each one comes from;
- cumulative ones: what comes before along the last axis;
- values with a rule of the user's own: the rule is run on stand-ins, and its program is looked at in turn;
- all others by their ``axes``: independent along the axes that are known to correspond, everything along the others.

A value holds its sets as a few ``IndexSets`` of which it is the union (``Sets``); equal ones are one object, so that
a long elementwise program costs no more than its views.  Positions that are data (a gather) have to be known; the
pattern holds for these values alone, and ``Pattern.relies_on`` names them.  Where they are not known any element can
be meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from ...tracer.ir.aval import Ints
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.evaluate import HOST, as_stored, params_of
from ...tracer.ir.graph import Atom, Builder, Lit, Node, Var, building
from ...tracer.ir.primitive import CUSTOM, ELEMENTWISE, LOOP, RECURRENCE, differentiable
from ...tracer.ops.custom import runs_python
from .index_sets import IndexSets, RowNumbers, TooManyError, as_csr, nothing, numbers, taken_from, union
from .transpose import LinearPart, linear_part, pull_of, push_of

VIEWS = frozenset(("broadcast", "reshape", "transpose", "slice", "pad", "update", "concat", "gather", "scatter"))
_PLACED = {
    "gather": 1,
    "scatter": 1,
    "scatter_add": 1,
    "scatter_max": 1,
    "scatter_min": 1,
}  # the operand that holds positions
_FEW = 24  # parts of one value
_TRIANGLE = 1 << 22  # numbers in the sets of a cumulative sum; beyond that all along its axis may meet


class Everything:
    """The sets of a value each of whose elements may depend on every input element."""


EVERYTHING = Everything()
Sets = tuple[IndexSets, ...] | Everything
LoopRule = Callable[["Analysis", Node], None]
Lookup = Callable[[Var], np.ndarray | None]  # the value of a Var, where it is known


@dataclass(slots=True, eq=False)
class Pattern:
    """A sparsity pattern as the structure of a CSR matrix; ``relies_on``: the positions for whose values it holds."""

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    relies_on: dict[Var, np.ndarray] = field(default_factory=dict)

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @property
    def rows(self) -> np.ndarray:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), np.diff(self.indptr))


def pattern_of(
    nodes: Sequence[Node], outputs: Sequence[Atom], wrt: Sequence[Var], known: Lookup, loop_rule: LoopRule
) -> Pattern | None:
    """The pattern of the Jacobian of the elements of *outputs*, one output after the other, with respect to those of
    *wrt*; None where it is dense.  *known*: the values that may be relied on, of what *nodes* read from before them."""
    analysis = Analysis(Known(nodes, known), loop_rule)
    columns = 0
    for var in wrt:
        analysis.sets[var] = (numbers(var.aval.size, columns),)
        columns += var.aval.size
    analysis.run(nodes)
    try:
        rows = []
        for out in outputs:
            sets = analysis.of(out)
            if isinstance(sets, Everything):
                return None
            rows.append(union(sets) if sets else nothing(out.aval.size))
        indptr, indices = as_csr(rows or [nothing(0)], columns)
    except TooManyError:
        return None
    return Pattern((sum([o.aval.size for o in outputs]), columns), indptr, indices, analysis.known.asked)


class Known:
    """Values of integers that are known before a call, computed where they are asked for."""

    def __init__(self, nodes: Sequence[Node], outer: Lookup) -> None:
        self.asked: dict[Var, np.ndarray] = {}
        self._env: dict[Var, Any] = {}
        self._outer, self._unknown = outer, set[Var]()
        self._nodes, self._producers = nodes, {out: n for n in nodes for out in n.outs}

    def value(self, atom: Atom) -> np.ndarray | None:
        """The value of *atom*, on which the pattern relies from now on; None where it is not known."""
        if isinstance(atom, Lit):
            return np.asarray(atom.value)
        if not self._find(atom):
            return None
        found = as_stored(np.asarray(self._env[atom]), atom)
        self.asked[atom] = found
        return found

    def _find(self, wanted: Var) -> bool:
        """Whether *wanted* is known; then it is computed."""
        needed, todo = set[Node](), [wanted]
        while todo:
            var = todo.pop()
            if var in self._env:
                continue
            node = self._producers.get(var)
            if node is None and (value := self._outer(var)) is not None:
                self._env[var] = value
                continue
            if node is None or var in self._unknown or node.prim.kind == LOOP or "function" in node.params:
                self._unknown |= {var, wanted}
                return False
            if node not in needed:
                needed.add(node)
                todo += [a for a in node.inputs if isinstance(a, Var)]
        HOST.run_nodes([n for n in self._nodes if n in needed], self._env)
        return True


class Analysis:
    """The index sets of the values of a program, found node by node."""

    def __init__(self, known: Known, loop_rule: LoopRule) -> None:
        self.known, self.loop_rule = known, loop_rule
        self.sets: dict[Var, Sets] = {}
        self._same: dict[int, list[IndexSets]] = {}

    def of(self, atom: Atom) -> Sets:
        return self.sets.get(atom, ()) if isinstance(atom, Var) else ()

    def run(self, nodes: Sequence[Node]) -> None:
        """Find the sets of the results of *nodes*."""
        for node in nodes:
            if not differentiable(node.prim) or not any(self.of(a) for a in node.inputs):
                continue
            try:
                if node.prim.kind == LOOP:
                    self.loop_rule(self, node)
                    continue
                found = self._results(node)
            except TooManyError:
                found = [EVERYTHING] * len(node.outs)
            for out, sets in zip(node.outs, found, strict=True):
                if out.aval.is_float:
                    self.give(out, sets)

    def give(self, var: Var, sets: Sets) -> None:
        if isinstance(sets, Everything):
            self.sets[var] = sets
            return
        try:
            parts = tuple(dict.fromkeys(map(self.one, sets)))
            self.sets[var] = parts if len(parts) <= _FEW else (self.one(union(parts)),)
        except TooManyError:
            self.sets[var] = EVERYTHING

    def one(self, sets: IndexSets) -> IndexSets:
        """*sets*, or equal ones that were there before."""
        known = self._same.setdefault(hash(sets), [])
        for other in known:
            if other is sets or other == sets:
                return other
        known.append(sets)
        return sets

    def _results(self, node: Node) -> list[Sets]:
        prim = node.prim
        if prim.kind == ELEMENTWISE:
            through = [not prim.partials or p is not None for p in prim.partials or node.inputs]
            pairs = [(x, self.of(x)) for x, open_ in zip(node.inputs, through, strict=True) if open_]
            return [joined([self._stretched(x, sets, node.out) for x, sets in pairs])]
        if prim.kind == CUSTOM:
            return self._by_own_rule(node)
        if prim.kind == RECURRENCE:
            return [joined([self._scanned(node, k) for k in range(len(node.inputs))])]
        places = _PLACED.get(prim.name)
        index = None if places is None else self._positions(node, places)
        if places is None or index is not None:
            if prim.name in VIEWS:
                return [self._viewed(node, index)]
            if prim.name.startswith("scatter_") and index is not None:
                return [self._added(node, index)]
        rest: list[Sets] = [self.mixed(node.inputs, out) for out in node.outs[1:]]
        return [joined([self._by_axes(node, k) for k in range(len(node.inputs))]), *rest]

    def _positions(self, node: Node, k: int) -> np.ndarray | None:
        """The positions on axis 0 that operand *k* holds, if they are known; within bounds, also where no step of a
        loop that is run reads them."""
        found = self.known.value(node.inputs[k])
        rows = node.inputs[0].aval.shape[0]
        return None if found is None or not rows else np.clip(found, 0, rows - 1)

    def _stretched(self, x: Atom, sets: Sets, out: Var) -> Sets:
        """The sets of *x*, a number or of the shape of *out*."""
        if isinstance(sets, Everything) or x.aval.shape == out.aval.shape:
            return sets
        first = _rows(np.zeros(out.aval.size, np.int64), out.aval.shape)
        return tuple([s.taken(first) for s in sets])

    def _viewed(self, node: Node, index: np.ndarray | None) -> Sets:
        """A view: its ``impl`` moves the numbers of the operands' elements, from 1 on; 0 is no element."""
        given, tables, first = [], list[Sets](), 1
        for k, x in enumerate(node.inputs):
            sets = self.of(x)
            if index is not None and k == _PLACED[node.prim.name]:
                given.append(index)
            elif sets:
                given.append(np.arange(first, first + x.aval.size).reshape(x.aval.shape))
                tables.append(sets)
                first += x.aval.size
            else:
                given.append(np.zeros(x.aval.shape, np.int64))
        if any(isinstance(sets, Everything) for sets in tables):
            return EVERYTHING
        params = {name: np.dtype(np.int64) if name == "dtype" else v for name, v in params_of(node).items()}
        places = np.asarray(node.prim.impl(*given, **params)).reshape(-1) - 1
        rows = _rows(places, node.out.aval.shape)
        if len(tables) == 1:
            return tuple([s.taken(rows) for s in tables[0]])  # type: ignore[union-attr]
        return (taken_from([self.one(union(t)) for t in tables], rows),)  # type: ignore[arg-type]

    def _added(self, node: Node, index: np.ndarray) -> Sets:
        """``scatter_add``: an element has the sets of all that is added to it."""
        x, _, v = node.inputs
        added = self.of(v)
        if not added or isinstance(added, Everything):
            return joined([self.of(x), added])
        row = math.prod(x.aval.shape[1:])
        places = (index.reshape(-1, 1) * row + np.arange(row)).reshape(-1)
        return joined([self.of(x), (union(added).summed(places, x.aval.size),)])

    def _scanned(self, node: Node, k: int) -> Sets:
        """The sets that a linear recurrence has of operand *k*: step i reads the steps to i, itself included."""
        sets, shape = self.of(node.inputs[k]), node.out.aval.shape
        steps, size = shape[-1], node.out.aval.size
        if not sets or isinstance(sets, Everything) or size * steps * sum([s.width for s in sets]) > 2 * _TRIANGLE:
            return self._by_axes(node, k)
        ends = np.tile(np.arange(1, steps + 1), size // steps) if steps else np.zeros(0, np.int64)
        counts = ends[::-1] if node.params["reverse"] else ends
        indptr = np.append(0, np.cumsum(counts))
        own = np.arange(size)
        first = own if node.params["reverse"] else own - own % max(steps, 1)
        places = np.repeat(first - indptr[:-1], counts) + np.arange(indptr[-1])
        return tuple([united(s, places, indptr) for s in sets])

    # ---- rules of the user's own

    def _by_own_rule(self, node: Node) -> list[Sets]:
        """The sets of values that have a rule of their own.

        A rule is linear in its tangents, or cotangents, so the pattern of its program with respect to these is that of
        the Jacobian that it stands for, at all points: what it computes of the primals alone are coefficients.  That
        holds for what flows through derivatives.  Where the program looks at a tangent in another way (a comparison,
        ``stop_gradient``, a loop) it may have entries that no derivative shows, and anything may depend on anything;
        also where it is no program, or there is none of it here."""
        places = [k for k, x in enumerate(node.inputs) if k >= node.params["count"] and self.of(x)]
        if runs_python(node):
            return self._dense(node, places)
        forward = node.params["push"] is not None
        try:
            with building(Builder()):
                part = linear_part(*(push_of(node, places) if forward else pull_of(node, places)))
        except DifferentiationError:  # that a derivative will say, if one is taken
            return self._dense(node, places)
        inner = Analysis(Known(part.nodes, self.known.value), self.loop_rule)
        if forward:
            inner.sets.update({v: self.of(node.inputs[k]) for v, k in zip(part.given, places, strict=True)})
            inner.run(part.nodes)
            if inner.hides(part):
                return self._dense(node, places)
            return [() if t is None else inner.of(t) for t in part.found]
        starts = np.append(0, np.cumsum([v.aval.size for v in part.given]))
        inner.sets.update({v: (numbers(v.aval.size, at),) for v, at in zip(part.given, starts, strict=False)})
        inner.run(part.nodes)
        if inner.hides(part):
            return self._dense(node, places)
        read = [self._read_by(part.found[k], self.of(node.inputs[k]), inner, starts[-1]) for k in places]
        sets = joined(read)  # of all results, one after the other
        if isinstance(sets, Everything):
            return [EVERYTHING] * len(node.outs)
        rows = [np.arange(*span) for span in pairwise(starts)]
        return [tuple([x.taken(own) for x in sets]) for own in rows]

    def _dense(self, node: Node, places: Sequence[int]) -> list[Sets]:
        return [self.mixed([node.inputs[k] for k in places], out) for out in node.outs]

    def _read_by(self, ct: Any, sets: Sets, inner: Analysis, count: int) -> Sets:
        """The *sets* of an operand of a rule as those of its *count* results: of the elements from whose cotangents
        that of the operand is made, its cotangent *ct*."""
        made_of = () if ct is None else inner.of(ct)
        if not made_of:
            return ()
        if isinstance(sets, Everything) or isinstance(made_of, Everything):
            return EVERYTHING
        indptr, results = as_csr([union(made_of)], count)
        order = np.argsort(results, kind="stable")
        places = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[order]
        ends = np.append(0, np.cumsum(np.bincount(results, minlength=count)))
        return tuple([united(s, places, ends) for s in sets])

    def hides(self, part: LinearPart) -> bool:
        """Whether a value of *part* may depend on what was given in a way that these sets do not show."""
        moving = set[Any](part.given)
        for node in part.nodes:
            read = [k for k, x in enumerate(node.inputs) if x in moving]
            if not read:
                continue
            partials = node.prim.partials if node.prim.kind == ELEMENTWISE else ()
            if any(not self.of(out) for out in node.outs) or any(partials and partials[k] is None for k in read):
                return True
            if node.prim.kind in (LOOP, CUSTOM):
                return True
            moving.update(node.outs)
        return False

    def _by_axes(self, node: Node, k: int) -> Sets:
        """The sets that the result has of operand *k*, by the correspondence of axes."""
        sets = self.of(node.inputs[k])
        if not sets or isinstance(sets, Everything):
            return sets
        axes, shape, inner = node.axes, node.out.aval.shape, node.inputs[k].aval.shape
        alone = {
            b: a
            for a, b in enumerate(axes.operands[k])
            if b is not None and b < len(shape) and b not in axes.across and inner[a] == shape[b]
        }
        return self._across(sets, inner, alone, shape)

    def mixed(self, operands: Sequence[Atom], out: Var) -> Sets:
        """The sets of *out*, each of whose elements may depend on all elements of the *operands*."""
        return joined([self._whole(x, out) for x in operands])

    def _whole(self, x: Atom, out: Var) -> Sets:
        sets = self.of(x)
        if not sets or isinstance(sets, Everything):
            return sets
        return self._across(sets, x.aval.shape, {}, out.aval.shape)

    def _across(self, sets: tuple[IndexSets, ...], inner: Ints, alone: Mapping[int, int], shape: Ints) -> Sets:
        """The union along all axes of a value of shape *inner* but those that go with an axis of *shape* (axis of
        *shape* -> axis of the value), spread over *shape*."""
        kept = [alone[b] for b in sorted(alone)]
        others = [a for a in range(len(inner)) if a not in kept]
        size, lone = math.prod(inner), math.prod([inner[a] for a in kept])
        groups = np.arange(size).reshape(inner).transpose(kept + others).reshape(-1)
        rows = _rows(groups, shape)
        found = tuple([s.grouped(rows, lone) for s in sets])
        wide = np.arange(lone).reshape([n if b in alone else 1 for b, n in enumerate(shape)])
        places = _rows(np.broadcast_to(wide, shape).reshape(-1), shape)
        return found if len(places.numbers) == lone else tuple([s.taken(places) for s in found])


def _rows(places: np.ndarray, shape: Ints) -> RowNumbers:
    """The *places* that a value of this *shape*, whose rows may be alike, is made of."""
    return RowNumbers(places, shape[0] if shape else 1)


def joined(found: Sequence[Sets]) -> Sets:
    """The union of sets of one value."""
    parts: dict[IndexSets, None] = {}
    for sets in found:
        if isinstance(sets, Everything):
            return EVERYTHING
        parts.update(dict.fromkeys(sets))
    return tuple(parts)


def united(sets: IndexSets, places: np.ndarray, indptr: np.ndarray) -> IndexSets:
    """The unions of the sets of the rows ``places[indptr[k] : indptr[k + 1]]``."""
    found = sets.taken(places).ragged()
    assert found.indptr is not None
    return IndexSets(found.indices, found.indptr[indptr]).distinct()
