"""Steps that are not loop nests of ours: matrix products (``products.py``), LAPACK, indexed writes."""

from __future__ import annotations

import math
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
from ..schedule.division import MOVED
from .expressions import Numbers
from .fourier import takes_all
from .hints import REPEATED, SIMPLE
from .host_rows import EMITTED
from .lapack import PerMatrix
from .loop_values import Frame
from .products import OF_ONE_THREAD, ProductKind, batch_work, element, product_function
from .scalar import I1, I64, counting, least, memory_type, ranging, to_memory
from .small_matrices import is_small

SCATTERS = ("scatter", "scatter_add", "scatter_max", "scatter_min")
COLUMNS = 16  # that are written at once, if not all: two lines of the cache


def native(op: CanonicalOp) -> bool:
    """Whether the call can run inside the kernel (otherwise NumPy runs it between kernels)."""
    if op.prim.kind in (LAPACK, PRODUCT):
        return op.out.dtype.kind in FLOAT_KINDS
    if op.prim.kind == LOOP:
        return all(native(inner) for inner in op.params["body"].program.ops if is_call(inner))
    if op.prim.name in EMITTED:
        return True
    return op.prim.name in SCATTERS and op.out.dtype.kind in ("i", "u", *FLOAT_KINDS)


def has_parts(program: Canonical, op: CanonicalOp) -> bool:
    """Whether parts of *op* can be done alone: matrices of a batch, or columns of an indexed write to many of them."""
    static = program.static
    if op.prim.kind == LAPACK or (op.prim.kind == PRODUCT and is_small(op, static)):
        return any(d not in static for d in op.ins[0].dims[:-2] if d != ONE) and not takes_all(op, static)
    if op.prim.name not in SCATTERS:
        return False
    columns = [static.get(d) for d in op.out.dims[1:] if d != ONE]
    return None in columns or math.prod(filter(None, columns)) > COLUMNS


def parts_work(frame: Frame, op: CanonicalOp) -> tuple[ir.Value, ir.Value]:
    """(the number of parts of *op*, flops of all, or 0 where BLAS is to divide each between its own threads)"""
    b, numbers, x = frame.b, frame.numbers, op.ins[0]
    if op.prim.name in SCATTERS:
        width, rows = numbers.count(b, x.dims[1:]), numbers.count(b, op.ins[1].dims)
        written = b.add(b.mul(rows, I64(2)), numbers.count(b, x.dims[:1]))
        parts = b.udiv(b.add(width, I64(COLUMNS - 1)), I64(COLUMNS))
        return parts, b.mul(b.mul(written, width), I64(MOVED))
    batch, sides = numbers.count(b, x.dims[:-2]), [numbers.size(d) for d in x.dims[-2:]]
    third = op.out.dims[-1] if op.prim.kind == PRODUCT else x.dims[-1]
    each = b.mul(b.mul(*sides), numbers.size(third))
    alone = b.icmp_signed("<=", each, I64(OF_ONE_THREAD))
    return batch, b.select(alone, batch_work(b, batch, each), I64(0))


def product_dims(op: CanonicalOp) -> tuple[Dim, Dim, Dim]:
    """Rows and columns of the product *op*, and the length of its sums."""
    rows, columns = op.out.dims[-2:]
    return rows, columns, op.ins[0].dims[-2 if op.params["ta"] else -1]


class CallEmitter:
    """Writes library steps into the kernel's entry function."""

    def __init__(
        self, program: Canonical, stored: set[Sym], b: ir.IRBuilder, pointer: Any, numbers: Numbers,
        parts: tuple[ir.Value, ir.Value] | None = None, divides: bool = False, has_gil: bool = False,
    ):  # fmt: skip
        """*parts*: the range of those that are meant, if not all; *divides*: whether products may be
        divided among threads; *has_gil*: whether the GIL is held there."""
        self.program, self.stored, self.parts = program, stored, parts
        self.divides, self.has_gil = divides, has_gil
        self.b, self.entry, self.pointer = b, numbers.entry, pointer
        self.size, self.const, self._count = numbers.size, numbers.const, partial(numbers.count, b)

    def emit(self, op: CanonicalOp) -> None:
        if op.prim.kind == LAPACK:
            PerMatrix(self, op).emit()
        elif op.prim.kind == PRODUCT:
            self._matmul(op)
        elif op.prim.name in EMITTED:
            EMITTED[op.prim.name](self, op)
        else:
            self._scatter(op)

    def batch(self, dims: Sequence[Dim]) -> tuple[ir.Value, ir.Value]:
        """The range of matrices of a batch with these *dims*."""
        return self.parts or (I64(0), self._count(dims))

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
        m, n, k = map(self.size, product_dims(op))
        return m, n, k

    def _element(self, op: CanonicalOp, place: ir.Value) -> None:
        """Element number *place* of the product *op*."""
        operands = [*map(self._buffer, op.ins), *[I1(op.params[name]) for name in ("ta", "tb")]]
        found = element(self.b, self.entry, ProductKind.of(op), operands, self._sizes(op), place)
        self.b.store(found, self.b.gep(self.pointer(op.out), [place], source_etype=memory_type(op.out.dtype)))

    def _scatter(self, op: CanonicalOp) -> None:
        b, (x, index, _) = self.b, op.ins
        width = self._count(x.dims[1:])
        columns = I64(0), width, I64(1)
        if self.parts is not None:
            low, high = (b.mul(part, I64(COLUMNS)) for part in self.parts)
            columns = low, least(b, high, width), I64(1)
        if filled(self.program, op, 0) is not None or self._buffer(x) is not self.pointer(op.out):  # else in place
            if self.parts is None:
                with counting(b, self._count(x.dims), SIMPLE) as i:
                    self._begin(op, i)
            else:
                with counting(b, self.size(x.dims[0]), REPEATED) as row, ranging(b, *columns, SIMPLE) as c:
                    self._begin(op, b.add(b.mul(row, width), c))
        places = counting(b, self._count(index.dims), REPEATED)
        with places as r, self._position(op, r) as position, ranging(b, *columns, SIMPLE) as c:
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
        if op.prim.name != "scatter":
            new = self._combined(op, b.load(target, typ=kind), new)
        b.store(new, target)

    def _combined(self, op: CanonicalOp, old: ir.Value, new: ir.Value) -> ir.Value:
        """The value of a position after a write of *new*."""
        b, kind = self.b, op.out.dtype.kind
        if op.prim.name == "scatter_add":
            return b.fadd(old, new) if kind in FLOAT_KINDS else b.add(old, new)
        order = ">=" if op.prim.name == "scatter_max" else "<="
        if kind in FLOAT_KINDS:  # NaN stays
            stays = b.or_(b.fcmp_ordered(order, old, new), b.fcmp_unordered("uno", old, old))
        else:
            stays = (b.icmp_signed if kind == "i" else b.icmp_unsigned)(order, old, new)
        return b.select(stays, old, new)
