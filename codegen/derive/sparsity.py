"""Sparsity patterns: which elements of the inputs each element of a program's results may depend on.

Conservative: an entry of the Jacobian that is not in its pattern is zero at every point.  A dependence is one through
which a derivative flows; what only decides a branch is none.  Most rules follow from the table of primitives:

- elementwise: the union of the operands' sets;
- views: the primitive's own ``impl``, run on the numbers of the elements, says where each one comes from;
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
from typing import Any

import numpy as np

from ...tracer.ir.aval import Ints
from ...tracer.ir.evaluate import HOST, as_stored, params_of
from ...tracer.ir.graph import Atom, Lit, Node, Var
from ...tracer.ir.primitive import ELEMENTWISE, LOOP, differentiable
from .index_sets import IndexSets, TooManyError, as_csr, nothing, numbers, stacked, union

VIEWS = frozenset(("broadcast", "reshape", "transpose", "slice", "pad", "update", "concat", "gather", "scatter"))
_PLACED = {"gather": 1, "scatter": 1, "scatter_add": 1}  # the operand that holds positions
_FEW = 24  # parts of one value


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
        indptr, indices = as_csr(stacked(rows or [nothing(0)]), columns)
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
        parts = tuple(dict.fromkeys(map(self.one, sets)))
        if len(parts) > _FEW:
            try:
                parts = (self.one(union(parts)),)
            except TooManyError:
                self.sets[var] = EVERYTHING
                return
        self.sets[var] = parts

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
        places = _PLACED.get(prim.name)
        index = None if places is None else self._positions(node, places)
        if places is None or index is not None:
            if prim.name in VIEWS:
                return [self._viewed(node, index)]
            if prim.name == "scatter_add" and index is not None:
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
        return tuple([s.taken(np.zeros(out.aval.size, np.int64)) for s in sets])

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
        parts: Any = tables[0] if len(tables) == 1 else (stacked([self.one(union(t)) for t in tables]),)  # type: ignore[arg-type]
        return tuple([s.taken(places) for s in parts])

    def _added(self, node: Node, index: np.ndarray) -> Sets:
        """``scatter_add``: an element has the sets of all that is added to it."""
        x, _, v = node.inputs
        added = self.of(v)
        if not added or isinstance(added, Everything):
            return joined([self.of(x), added])
        row = math.prod(x.aval.shape[1:])
        places = (index.reshape(-1, 1) * row + np.arange(row)).reshape(-1)
        return joined([self.of(x), (union(added).summed(places, x.aval.size),)])

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
        groups = np.arange(size).reshape(inner).transpose(kept + others).reshape(lone, size // lone if lone else 0)
        wide = np.arange(lone).reshape([n if b in alone else 1 for b, n in enumerate(shape)])
        places = np.broadcast_to(wide, shape).reshape(-1)
        found = [s.grouped(groups) for s in sets]
        return tuple(found if len(places) == lone else [s.taken(places) for s in found])


def joined(found: Sequence[Sets]) -> Sets:
    """The union of sets of one value."""
    parts: dict[IndexSets, None] = {}
    for sets in found:
        if isinstance(sets, Everything):
            return EVERYTHING
        parts.update(dict.fromkeys(sets))
    return tuple(parts)
