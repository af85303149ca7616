"""Steps that are not loop nests of ours: matrix products by BLAS, indexed writes.

BLAS comes from SciPy's Cython bindings, as in numba.  A row-major product C = A B is the column-major C' = B' A'.

A product A' B that sums over many rows, as for the gradient of a weight, is taken as a sum of products of few rows
each: OpenBLAS has kernels for small products that read their operands where they lie, while it copies those of large
ones.  Where the result is small, the copying takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import llvmlite.ir as ir

from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.ir.primitive import LAPACK, LOOP, PRODUCT
from ..lower.canonical import ONE, Canonical, CanonicalOp, Dim, Sym
from ..schedule.buffers import buffer_of, filled
from ..schedule.dependences import is_call
from .expressions import Numbers
from .fourier import takes_all
from .lapack import PerMatrix, library_function
from .loop_values import Frame
from .scalar import I8, I32, I64, PTR, cell, constant, counting, declare, least, memory_type, ranging, to_memory
from .small_matrices import is_small

SMALL_PRODUCT = 1_000_000  # multiplications up to which OpenBLAS copies nothing
OF_ONE_THREAD = 1 << 18  # multiplications up to which OpenBLAS uses one thread
LONG_PRODUCT = 1 << 24  # multiplications of a product that lets go of the GIL: some 1 ms
MATRIX_WORK = 500  # flops, about, of a call for a matrix of a batch
FEWEST, MOST = 64, 128  # rows of A and B that are multiplied at once in A' B, if not all


def native(op: CanonicalOp) -> bool:
    """Whether the call can run inside the kernel (otherwise NumPy runs it between kernels)."""
    if op.prim.kind in (LAPACK, PRODUCT):
        return op.out.dtype.kind in FLOAT_KINDS
    if op.prim.kind == LOOP:
        return all(native(inner) for inner in op.params["body"].program.ops if is_call(inner))
    return op.prim.name in ("scatter", "scatter_add") and op.out.dtype.kind in ("i", "u", *FLOAT_KINDS)


def is_batched(program: Canonical, op: CanonicalOp) -> bool:
    """Whether *op* is done for each matrix of a batch."""
    batch = [d for d in op.ins[0].dims[:-2] if d != ONE]
    return (
        op.prim.kind in (LAPACK, PRODUCT) and any(d not in program.static for d in batch)
        and not takes_all(op, program.static)
    )  # fmt: skip


def batch_work(frame: Frame, op: CanonicalOp) -> tuple[ir.Value, ir.Value]:
    """(the number of matrices in *op*, flops of all, or 0 where BLAS is to divide each between its own threads)"""
    b, numbers, x = frame.b, frame.numbers, op.ins[0]
    batch, sides = numbers.count(b, x.dims[:-2]), [numbers.size(d) for d in x.dims[-2:]]
    third = op.out.dims[-1] if op.prim.kind == PRODUCT else x.dims[-1]
    each = b.mul(b.mul(*sides), numbers.size(third))
    alone = b.icmp_signed("<=", each, I64(OF_ONE_THREAD))
    return batch, b.select(alone, b.mul(batch, b.add(b.mul(each, I64(2)), I64(MATRIX_WORK))), I64(0))


class CallEmitter:
    """Writes library steps into the kernel's entry function."""

    def __init__(
        self, program: Canonical, stored: set[Sym], b: ir.IRBuilder, pointer: Any, numbers: Numbers,
        matrices: tuple[ir.Value, ir.Value] | None = None, has_gil: bool = False,
    ):  # fmt: skip
        """*matrices*: the range of those of a batch that are meant, if not all; *has_gil*: whether the GIL is held
        there."""
        self.program, self.stored, self.matrices, self.has_gil = program, stored, matrices, has_gil
        self.b, self.entry, self.pointer = b, numbers.entry, pointer
        self.size, self.const, self._count = numbers.size, numbers.const, partial(numbers.count, b)

    def emit(self, op: CanonicalOp) -> None:
        if op.prim.kind == LAPACK:
            PerMatrix(self, op).emit()
        elif op.prim.kind == PRODUCT:
            self._matmul(op)
        else:
            self._scatter(op)

    def batch(self, dims: Sequence[Dim]) -> tuple[ir.Value, ir.Value]:
        """The range of matrices of a batch with these *dims*."""
        return self.matrices or (I64(0), self._count(dims))

    @contextmanager
    def _without_gil(self, work: ir.Value) -> Iterator[None]:
        """A context in which other threads of Python run, where there is *work* for long enough."""
        if not self.has_gil:
            yield
            return
        b, module = self.b, self.b.module
        long, state = b.icmp_signed(">=", work, I64(LONG_PRODUCT)), self.entry.alloca(PTR)
        with b.if_then(long, likely=False):
            b.store(b.call(declare(module, "PyEval_SaveThread", PTR), []), state)
        yield
        with b.if_then(long, likely=False):
            b.call(declare(module, "PyEval_RestoreThread", ir.VoidType(), PTR), [b.load(state, typ=PTR)])

    def _buffer(self, x: Any) -> ir.Value:
        return self.pointer(buffer_of(self.program, self.stored, x))

    def _matmul(self, op: CanonicalOp) -> None:
        if is_small(op, self.program.static):
            PerMatrix(self, op).emit()
            return
        b = self.b
        x, y = op.ins
        ta, tb = op.params["ta"], op.params["tb"]
        rows, inner = (x.dims[-1], x.dims[-2]) if ta else (x.dims[-2], x.dims[-1])
        columns = y.dims[-2] if tb else y.dims[-1]
        m, k, n = self.size(rows), self.size(inner), self.size(columns)
        kind = memory_type(op.out.dtype)
        name = "dgemm" if op.out.dtype.itemsize == 8 else "sgemm"
        gemm = declare(b.module, library_function(name), ir.VoidType(), *[PTR] * 13)
        px, py, pc = self._buffer(x), self._buffer(y), self.pointer(op.out)

        def leading(value: ir.Value) -> ir.Value:
            return b.select(b.icmp_signed(">", value, I64(1)), value, I64(1))

        numbers = (n, m, k, leading(k if tb else n), leading(m if ta else k), leading(n))
        n_cell, m_cell, k_cell, ldy, ldx, ldc = [cell(self.entry, b, b.trunc(x, I32)) for x in numbers]
        letter_y, letter_x = [cell(self.entry, b, I8(ord("T" if turned else "N"))) for turned in (tb, ta)]
        one, zero = [cell(self.entry, b, constant(op.out.dtype, value)) for value in (1, 0)]
        empty = b.icmp_signed("==", b.mul(m, n), I64(0))
        begin, end = self.batch(op.out.dims[:-2])
        with (
            self._without_gil(b.mul(b.mul(m, n), k)),
            b.if_then(b.not_(empty)),
            ranging(b, begin, end, I64(1)) as batch,
        ):
            at_x = b.gep(px, [b.mul(batch, b.mul(m, k))], source_etype=kind)
            at_y = b.gep(py, [b.mul(batch, b.mul(k, n))], source_etype=kind)
            at_c = b.gep(pc, [b.mul(batch, b.mul(m, n))], source_etype=kind)
            operands = [letter_y, letter_x, n_cell, m_cell, k_cell, one]
            if not ta or tb:
                b.call(gemm, [*operands, at_y, ldy, at_x, ldx, zero, at_c, ldc])
            else:
                at_once, pieces = self._pieces(m, k, n)
                with counting(b, pieces) as piece:
                    first = b.mul(piece, at_once)
                    b.store(b.trunc(least(b, at_once, b.sub(k, first)), I32), k_cell)
                    scale = b.select(b.icmp_signed("==", piece, I64(0)), zero, one)
                    from_x = b.gep(at_x, [b.mul(first, m)], source_etype=kind)
                    from_y = b.gep(at_y, [b.mul(first, n)], source_etype=kind)
                    b.call(gemm, [*operands, from_y, ldy, from_x, ldx, scale, at_c, ldc])
        if op.prim.name == "matmulz":
            with ranging(b, b.mul(begin, b.mul(m, n)), b.mul(end, b.mul(m, n)), I64(1)) as place:
                found = b.load(b.gep(pc, [place], source_etype=kind), typ=kind)
                with b.if_then(b.fcmp_unordered("uno", found, found), likely=False):
                    self._element(op, place)

    def _element(self, op: CanonicalOp, place: ir.Value) -> None:
        """Element number *place* of the product *op*, as a sum of terms in the order of the inner axis."""
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
            term = b.fmul(one, other)
            if op.prim.name == "matmulz":
                zero = constant(op.out.dtype, 0)
                none = b.or_(b.fcmp_ordered("==", one, zero), b.fcmp_ordered("==", other, zero))
                term = b.select(none, zero, term)
            b.store(b.fadd(b.load(total, typ=kind), term), total)
        b.store(b.load(total, typ=kind), b.gep(self.pointer(op.out), [place], source_etype=kind))

    def _pieces(self, m: ir.Value, k: ir.Value, n: ir.Value) -> tuple[ir.Value, ir.Value]:
        """(how many of the *k* rows of A and B are multiplied at once in A' B, how many times); m n is not 0."""
        b = self.b
        room = b.sdiv(I64(SMALL_PRODUCT), b.mul(m, n))
        whole = b.or_(b.icmp_signed("<=", k, room), b.icmp_signed("<", room, I64(FEWEST)))
        at_once = b.select(whole, k, least(b, room, I64(MOST)))
        # where there are no rows, one product of none sets the result to zero
        at_once = b.select(b.icmp_signed(">", at_once, I64(1)), at_once, I64(1))
        pieces = b.sdiv(b.sub(b.add(k, at_once), I64(1)), at_once)
        return at_once, b.select(b.icmp_signed(">", pieces, I64(1)), pieces, I64(1))

    def _scatter(self, op: CanonicalOp) -> None:
        b, (x, index, _) = self.b, op.ins
        if filled(self.program, op, 0) is not None or self._buffer(x) is not self.pointer(op.out):  # else in place
            with counting(b, self._count(x.dims)) as i:
                self._begin(op, i)
        width = self._count(x.dims[1:])
        with counting(b, self._count(index.dims)) as r, self._position(op, r) as position, counting(b, width) as c:
            self._write(op, r, position, c)

    def _begin(self, op: CanonicalOp, place: ir.Value) -> None:
        """Write element number *place* of an indexed write's target."""
        kind = memory_type(op.out.dtype)
        self.b.store(self._initial(op, place), self.b.gep(self.pointer(op.out), [place], source_etype=kind))

    def _initial(self, op: CanonicalOp, place: ir.Value) -> ir.Value:
        """Element number *place* of the target before anything is written."""
        b, kind = self.b, memory_type(op.out.dtype)
        fill = filled(self.program, op, 0)
        if fill is not None:
            return to_memory(b, self.const(fill), fill.dtype)
        return b.load(b.gep(self._buffer(op.ins[0]), [place], source_etype=kind), typ=kind)

    @contextmanager
    def _position(self, op: CanonicalOp, r: ir.Value) -> Iterator[ir.Value]:
        """The target index of row *r*, for a body that is skipped where it is out of bounds (a guard fails then, and
        the results are dropped)."""
        b = self.b
        position = b.load(b.gep(self._buffer(op.ins[1]), [r], source_etype=I64), typ=I64)
        with b.if_then(b.icmp_unsigned("<", position, self.size(op.ins[0].dims[0]))):
            yield position

    def _write(self, op: CanonicalOp, r: ir.Value, position: ir.Value, c: ir.Value) -> None:
        """Column *c* of row *r*, to row *position*."""
        b, kind, width = self.b, memory_type(op.out.dtype), self._count(op.out.dims[1:])
        target = b.gep(self.pointer(op.out), [b.add(b.mul(position, width), c)], source_etype=kind)
        new = b.load(b.gep(self._buffer(op.ins[2]), [b.add(b.mul(r, width), c)], source_etype=kind), typ=kind)
        if op.prim.name == "scatter_add":
            old = b.load(target, typ=kind)
            new = b.fadd(old, new) if op.out.dtype.kind in FLOAT_KINDS else b.add(old, new)
        b.store(new, target)
