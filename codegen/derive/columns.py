"""A program that does the same for each of many rows, column by column.

A value of shape (rows, *few) is replaced by its columns, arrays (rows,): views then move nothing, sums of a row are
additions, and in derivatives what is zero is not computed.  Each operation is one loop over all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...tracer.ir.evaluate import params_of
from ...tracer.ir.graph import Atom, Node, Var, bind, current_builder, structural
from ...tracer.ir.primitive import ELEMENTWISE, PRIMITIVES
from ...tracer.ops.elementwise import F
from ...tracer.ops.shape import reshape, slice_axis

FEW = 16  # columns of a value
MOST = 2_000  # operations
_VIEWS = frozenset(("broadcast", "reshape", "transpose", "slice", "pad", "update", "concat"))
Columns = list[Atom]


class Columnwise:
    """The columns of values of *nodes*, which depend on *sources*, all with the same number of rows.

    ``of`` has them, where ``found`` says that all could be taken apart; their operations are appended to the builder in
    force."""

    def __init__(self, nodes: Sequence[Node], sources: Sequence[Var]) -> None:
        self.rows = sources[0].aval.shape[0] if sources and sources[0].aval.shape else 0
        self.of: dict[Atom, Columns] = {}
        self.found = self.rows > FEW and all(map(self._fits, sources)) and self._all(nodes, sources)

    def _fits(self, x: Atom) -> bool:
        shape = x.aval.shape
        return bool(shape) and shape[0] == self.rows and 0 < math.prod(shape[1:]) <= FEW

    def _all(self, nodes: Sequence[Node], sources: Sequence[Var]) -> bool:
        start = len(current_builder().nodes)
        for v in sources:
            self.of[v] = [bind(PRIMITIVES["alias"], c) for c in self.cut(v)]
        varied = set[Atom](sources)
        for node in nodes:
            if varied.isdisjoint(node.inputs):
                continue
            columns = None if len(node.outs) > 1 or not self._fits(node.out) else self._columns(node)
            if columns is None or len(current_builder().nodes) - start > MOST:
                return False
            self.of[node.out] = columns
            varied.add(node.out)
        return True

    def cut(self, x: Atom) -> Columns:
        """The columns of *x*, which is not taken apart."""
        count = x.aval.size // self.rows
        flat = reshape(x, (self.rows, count))
        return [reshape(slice_axis(flat, 1, k, 1), (self.rows,)) for k in range(count)]

    def _of(self, x: Atom) -> Columns | None:
        found = self.of.get(x)
        if found is None and self._fits(x):
            found = self.of[x] = self.cut(x)
        return found

    def _columns(self, node: Node) -> Columns | None:
        if node.prim.kind == ELEMENTWISE:
            return self._elementwise(node)
        if node.prim.name in _VIEWS:
            return self._moved(node)
        if node.prim.name == "reduce_sum" and 0 not in node.params["axes"]:
            return self._summed(node)
        return None

    def _elementwise(self, node: Node) -> Columns | None:
        count = node.out.aval.size // self.rows
        operands: list[Columns] = []
        for x in node.inputs:
            found = [x] * count if not x.aval.shape else self._of(x)
            if found is None:
                return None
            operands.append(found)
        found = []
        for k in range(count):
            inputs = tuple([columns[k] for columns in operands])
            if not any(x.aval.shape for x in inputs):
                return None
            found.append(current_builder().emit(node.prim, inputs, node.params)[0])
        return found

    def _moved(self, node: Node) -> Columns | None:
        """A view within each row: the ``impl`` moves numbers of elements, from 1 on."""
        given, first = [], [1]
        for x in node.inputs:
            given.append(np.arange(first[-1], first[-1] + x.aval.size).reshape(x.aval.shape))
            first.append(first[-1] + x.aval.size)
        places = np.asarray(node.prim.impl(*given, **params_of(node))).reshape(self.rows, -1)
        found: Columns = []
        turns = np.arange(self.rows)
        for k, place in enumerate(places[0]):
            if not place:
                if places[:, k].any():
                    return None
                found.append(structural(0, node.out.aval.dtype))
                continue
            which = int(np.searchsorted(first, place, side="right")) - 1
            x = node.inputs[which]
            columns = self._of(x)
            if columns is None or not np.array_equal(places[:, k], place + turns * len(columns)):
                return None
            found.append(columns[place - first[which]])
        return found

    def _summed(self, node: Node) -> Columns | None:
        (x,) = node.inputs
        columns = self._of(x)
        if columns is None:
            return None
        shape = x.aval.shape[1:]
        numbers = np.empty(len(columns), object)
        numbers[:] = columns
        axes = tuple([a - 1 for a in node.params["axes"]])
        kept = [a for a in range(len(shape)) if a not in axes]
        groups = numbers.reshape(shape).transpose([*kept, *axes]).reshape(math.prod([shape[a] for a in kept]), -1)
        found: Columns = []
        for group in groups:
            total = group[0]
            for term in group[1:]:
                total = F.add(total, term)
            found.append(total)
        return found
