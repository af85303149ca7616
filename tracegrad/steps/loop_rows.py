"""Rows of tensors in the loops of a step: at positions that follow from an iteration, and those that loops give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensors.apply import apply
from ..tensors.inplace import apply_views, inplace
from ..tensors.node import TapeNode, node_class
from ..tensors.op import EagerOp
from ..tensors.ops_join import CAT
from ..tensors.ops_parts import UNBIND
from ..tensors.ops_pick import AT, PUT, picked, refreshed
from ..tensors.tensor import Tensor, origins
from ..tracer.record.array import TracedArray
from ..tracer.record.stacked_rows import run_of_rows
from .loop_history import TapedIteration

_FEW = 4  # rows that are not worth a look
ROW = EagerOp("Select", lambda x, k: x[k])


class LoopRows:
    """The part of the tape of loops that knows rows."""

    def __init__(self) -> None:
        self.open: list[TapedIteration] = []
        # by id: rows that loops have put into lists, their histories then, what they are rows of, and their numbers
        self.listed: dict[int, tuple[Tensor, TapeNode | None, Tensor, int]] = {}
        # by id: rows at positions that follow from an iteration, what they are rows of, and where
        self.picked: dict[int, tuple[Tensor, Tensor, Any, tuple[Any, ...]]] = {}

    # ---- rows at positions that follow from an iteration -------------------------------------------------------------

    def is_row(self, row: Tensor, t: Tensor, code: Any, positions: Sequence[Any]) -> bool:
        """Whether *row* is what ``t[index]`` has given."""
        known = self.picked.get(id(row))
        if known is None or known[1] is not t or known[2] != code:
            return False
        return [x.atom for x in known[3]] == [x.atom for x in positions]

    def wrote_row(self, row: Tensor, new: Tensor) -> bool:
        """Write *new* into *row*, if it is a row of a tensor: into that."""
        known = self.picked.get(id(row))
        if known is None:
            return False
        _, t, code, positions = known
        inplace(PUT, t, (new, *positions), (code,))
        refreshed(row, t, code, positions)
        return True

    def row(self, t: Tensor, index: Any) -> Tensor:
        """Row *index* of *t*, which is iterated over."""
        if type(index) is int:
            (row,) = apply_views(UNBIND, t, [(0, index)])
            return row
        if self.open:
            self.open[-1].iterated.append((t, t._counter[0]))
        return picked(t, (AT,), (index,), self)

    # ---- stacks of rows --------------------------------------------------------------------------------------------

    def stack_of(self, tensors: Sequence[Tensor]) -> Tensor | None:
        """The stack of *tensors*, where many of them are the rows of one that a loop has given; else None."""
        parts: list[Tensor] = []
        k = most = 0
        while k < len(tensors):
            whole, start, count = self.rows_from(tensors, k)
            if whole is None:
                parts.append(tensors[k][None])
            else:
                parts.append(whole if count == len(whole) else whole[start : start + count])
            k, most = k + count, max(most, count if whole is not None else 0)
        if most < _FEW:
            return None
        return parts[0] if len(parts) == 1 else apply(CAT, tuple(parts), (0,))

    def stacked(self, items: Sequence[Tensor]) -> Tensor | None:
        """The rows of one tensor, from one to another, that *items* are; None where they are none."""
        whole, start, count = self.rows_from(items, 0)
        return whole[start : start + count] if whole is not None and count == len(items) else None

    def rows_from(self, tensors: Sequence[Tensor], k: int) -> tuple[Tensor | None, int, int]:
        """(the tensor whose rows *tensors* are from *k* on, the first of them, how many)"""
        return run_of_rows(lambda at: self._row_place(tensors[at]), k, len(tensors))

    def _row_place(self, t: Tensor) -> tuple[Tensor, int] | None:
        """(the tensor of which *t* is a row, its number), if it was not written since."""
        _, node, whole, k = self.listed.get(id(t), (None, None, None, 0))
        if whole is None or type(t._data) is not TracedArray or t._data._storage.version or t._counter[0]:
            return None
        return (whole, k) if t._node is node and t._requires == whole._requires else None


def row_node(whole: Tensor, t: Tensor, k: int) -> TapeNode:
    """The node by which *t* is row *k* of *whole*."""
    return node_class(ROW.name)(ROW, (k,), *origins([whole]), (whole._data,), (t._data,), (None, (t._counter, 0)))
