"""Matrix products and indexed writes inside a kernel: by one thread, or by the threads of a block.

A product is a sum for each element of the result, in the order of the inner axis.  An indexed write takes the rows
that it is given in their order, each column for itself: the last row that is written to a position wins, and sums are
the same however many threads there are.
"""

from __future__ import annotations

import llvmlite.ir as ir

from ..cpu.library_calls import CallEmitter
from ..cpu.loop_values import Frame
from ..cpu.scalar import I64, cell, constant, counting, memory_type
from ..lower.canonical import CanonicalOp
from .threads import ThreadEmitter


class ThreadCalls(CallEmitter):
    """By one thread."""

    def _matmul(self, op: CanonicalOp) -> None:
        with counting(self.b, self._count(op.out.dims)) as place:
            self._element(op, place)

    def _element(self, op: CanonicalOp, place: ir.Value) -> None:
        """Element number *place* of the product *op*."""
        b, (x, y) = self.b, op.ins
        ta, tb = op.params["ta"], op.params["tb"]
        kind = memory_type(op.out.dtype)
        m, n = (self.size(d) for d in op.out.dims[-2:])
        k = self.size(x.dims[-2 if ta else -1])
        column, rest = b.urem(place, n), b.udiv(place, n)
        row, batch = b.urem(rest, m), b.udiv(rest, m)
        # the first element of the row and of the column, and how far it is to the next one
        at_x = b.add(b.mul(batch, b.mul(m, k)), row if ta else b.mul(row, k))
        at_y = b.add(b.mul(batch, b.mul(k, n)), b.mul(column, k) if tb else column)
        step_x, step_y = (m if ta else I64(1)), (I64(1) if tb else n)
        px, py = self._buffer(x), self._buffer(y)
        total = cell(self.entry, b, constant(op.out.dtype, 0))
        with counting(b, k) as i:
            one = b.load(b.gep(px, [b.add(at_x, b.mul(i, step_x))], source_etype=kind), typ=kind)
            other = b.load(b.gep(py, [b.add(at_y, b.mul(i, step_y))], source_etype=kind), typ=kind)
            b.store(b.fadd(b.load(total, typ=kind), b.fmul(one, other)), total)
        b.store(b.load(total, typ=kind), b.gep(self.pointer(op.out), [place], source_etype=kind))


class BlockCalls(ThreadCalls):
    """By the threads of a block."""

    def __init__(self, frame: Frame, kernel: ThreadEmitter):
        super().__init__(frame.program, frame.schedule.stored, frame.b, frame.pointer, frame.numbers)
        self.kernel = kernel

    def _matmul(self, op: CanonicalOp) -> None:
        with self.kernel.shared_out(self._count(op.out.dims)) as place:
            self._element(op, place)

    def _scatter(self, op: CanonicalOp) -> None:
        with self.kernel.shared_out(self._count(op.out.dims)) as place:
            self._begin(op, place)
        self.kernel.barrier()
        with self.kernel.shared_out(self._count(op.out.dims[1:])) as c:  # noqa: SIM117 (another kind of loop)
            with counting(self.b, self._count(op.ins[1].dims)) as r, self._position(op, r) as position:
                self._write(op, r, position, c)
