"""Steps that are not loop nests of ours: matrix products (``products.py``), LAPACK, indexed writes."""

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
from .lapack import PerMatrix
from .loop_values import Frame
from .products import MATRIX_WORK, OF_ONE_THREAD, ProductKind, element, product_function
from .scalar import I1, I64, counting, memory_type, to_memory
from .small_matrices import is_small


def native(op: CanonicalOp) -> bool:
    """Whether the call can run inside the kernel (otherwise NumPy runs it between kernels)."""
    if op.prim.kind in (LAPACK, PRODUCT):
        return op.out.dtype.kind in FLOAT_KINDS
    if op.prim.kind == LOOP:
        return all(native(inner) for inner in op.params["body"].program.ops if is_call(inner))
    return op.prim.name in ("scatter", "scatter_add") and op.out.dtype.kind in ("i", "u", *FLOAT_KINDS)


def is_batched(program: Canonical, op: CanonicalOp) -> bool:
    """Whether *op* is done for each matrix of a batch, by itself."""
    batch = [d for d in op.ins[0].dims[:-2] if d != ONE]
    by_itself = op.prim.kind == LAPACK or (op.prim.kind == PRODUCT and is_small(op, program.static))
    return by_itself and any(d not in program.static for d in batch) and not takes_all(op, program.static)


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
        matrices: tuple[ir.Value, ir.Value] | None = None, divides: bool = False, has_gil: bool = False,
    ):  # fmt: skip
        """*matrices*: the range of those of a batch that are meant, if not all; *divides*: whether products may be
        divided among threads; *has_gil*: whether the GIL is held there."""
        self.program, self.stored, self.matrices = program, stored, matrices
        self.divides, self.has_gil = divides, has_gil
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

    def _buffer(self, x: Any) -> ir.Value:
        return self.pointer(buffer_of(self.program, self.stored, x))

    def _matmul(self, op: CanonicalOp) -> None:
        if is_small(op, self.program.static):
            PerMatrix(self, op).emit()
            return
        b, (x, y) = self.b, op.ins
        function = product_function(b.module, ProductKind.of(op), self.divides, self.has_gil)
        operands = [self._buffer(x), self._buffer(y), self.pointer(op.out)]
        batch, turned = self._count(op.out.dims[:-2]), [I1(op.params[name]) for name in ("ta", "tb")]
        answer = b.call(function, [*operands, *self._sizes(op), batch, *turned])
        if self.divides:
            with b.if_then(b.icmp_signed("!=", answer, I64(-1)), likely=False):
                b.ret(answer)

    def _sizes(self, op: CanonicalOp) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Rows and columns of the product *op*, and the length of its sums."""
        inner = op.ins[0].dims[-2 if op.params["ta"] else -1]
        m, n, k = map(self.size, (*op.out.dims[-2:], inner))
        return m, n, k

    def _element(self, op: CanonicalOp, place: ir.Value) -> None:
        """Element number *place* of the product *op*."""
        operands = [*map(self._buffer, op.ins), *[I1(op.params[name]) for name in ("ta", "tb")]]
        found = element(self.b, self.entry, ProductKind.of(op), operands, self._sizes(op), place)
        self.b.store(found, self.b.gep(self.pointer(op.out), [place], source_etype=memory_type(op.out.dtype)))

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
