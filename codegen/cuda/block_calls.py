"""Matrix products and indexed writes inside a kernel: by one thread, or by the threads of a block.

A product is a sum for each element of the result, in the order of the inner axis.  An indexed write takes the rows
that it is given in their order, each column for itself: the last row that is written to a position wins, and sums are
the same however many threads there are.
"""

from __future__ import annotations

from ..cpu.library_calls import CallEmitter
from ..cpu.loop_values import Frame
from ..cpu.scalar import counting
from ..lower.canonical import CanonicalOp
from .threads import ThreadEmitter


class ThreadCalls(CallEmitter):
    """By one thread."""

    def _matmul(self, op: CanonicalOp) -> None:
        with counting(self.b, self._count(op.out.dims)) as place:
            self._element(op, place)


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
