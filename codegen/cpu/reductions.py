"""Accumulators of reductions and recurrences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.ir.primitive import PRIMITIVES, RECURRENCE, REDUCE, Primitive
from ..lower.canonical import ONE, Dim
from ..schedule.affine import ZERO, loop_var
from ..schedule.dependences import reduced_depths
from ..schedule.index_maps import Indices
from ..schedule.loop_tree import Statement
from ..schedule.tiles import TILE
from .expressions import ValueEmitter
from .hints import SIMPLE
from .scalar import F64, I64, Scalars, cell, constant, counting, declare, register_type

EXTREMES = ("reduce_max", "reduce_min")
CHUNK = 1024  # elements of one partial sum: partial sums are added up in order, whatever the number of threads


@contextmanager
def accumulating(totals: Sequence[Accumulator]) -> Iterator[None]:
    """A context in which these *totals* are added up, and at whose end they are stored."""
    for total in totals:
        total.start()
    yield
    for total in totals:
        total.close()


class Accumulator:
    """The accumulator of a reduction or recurrence: a register, or the result's buffer where an inner axis is kept."""

    def __init__(self, emitter: ValueEmitter, statement: Statement):
        self.e, self.statement = emitter, statement
        self.op = statement.op
        self.dtype = self.op.ins[0].dtype
        depths = sorted(reduced_depths(self.op)) if self.op.prim.kind == REDUCE else []
        loops = len(statement.path)
        self.in_register = self.op.prim.kind == RECURRENCE or depths == list(range(loops - len(depths), loops))
        self.slot: ir.Value | None = None
        self.partial: ir.Value | None = None
        self.lost: ir.Value | None = None
        self.count: ir.Value | None = None
        self.length: ir.Value | None = None
        self.where: ir.Value | None = None
        emitter.accumulators[self.op.out] = self

    @property
    def chunkable(self) -> bool:
        return self.in_register and self.op.prim.name == "reduce_sum" and self.dtype.kind in FLOAT_KINDS

    def identity(self) -> ir.Constant:
        name, dtype = self.op.prim.name, self.dtype
        if name in ("reduce_max", "argmax"):
            low: Any = -np.inf if dtype.kind in FLOAT_KINDS else (0 if dtype.kind in "bu" else np.iinfo(dtype).min)
            return constant(dtype, low)
        if name in ("reduce_min", "argmin"):
            high: Any = np.inf if dtype.kind in FLOAT_KINDS else (1 if dtype.kind == "b" else np.iinfo(dtype).max)
            return constant(dtype, high)
        if self.op.prim.kind == RECURRENCE:
            return constant(dtype, -0.0)  # keeps the sign of the first drive
        return constant(dtype, 1 if name in ("reduce_prod", "reduce_and") else 0)

    def start(self) -> None:
        e = self.e
        if self.in_register:
            self.slot = cell(e.entry, e.b, self.identity())
            if self.op.prim.name in ("argmax", "argmin"):
                self.where = cell(e.entry, e.b, I64(0))
        else:
            self._fill()

    def _fill(self) -> None:
        """Set the result's elements below the current loops to the identity."""
        e, b = self.e, self.e.b
        out = self.op.out
        wide = [d for d in out.dims if d != ONE]
        outer = len(e.loops)
        count = e.numbers.count(b, wide[outer:])
        at = tuple(
            ZERO if d == ONE else (loop_var(k) if k < outer else ZERO)
            for d, k in zip(out.dims, _places(out.dims), strict=True)
        )
        base = e._offset(out, at, ())
        step = TILE if e.apart(out) else 1
        with counting(b, count, SIMPLE) as i:
            e.put(out, b.add(base, b.mul(i, I64(step), flags=("nsw",)), flags=("nsw",)), self.identity())

    def combine(self, total: ir.Value, value: ir.Value) -> ir.Value:
        name = self.op.prim.name
        if self.dtype.kind in FLOAT_KINDS and name in EXTREMES:
            return self.extreme(name == "reduce_max", total, value)
        return combined(self.e.b, name, self.dtype, total, value)

    def extreme(self, largest: bool, x: ir.Value, y: ir.Value) -> ir.Value:
        return extreme(self.e.b, largest, x, y)

    def update(self, at: Indices) -> None:
        e, op = self.e, self.op
        b = e.b
        if op.prim.kind == RECURRENCE:
            factor, drive = e.value(op.ins[0], at), e.value(op.ins[1], at)
            assert self.slot is not None
            carried = b.load(self.slot, typ=register_type(self.dtype))
            one = isinstance(factor, ir.Constant) and factor.constant == 1
            s = Scalars(b, self.dtype, self.dtype)
            value = s.add(carried if one else product(s, op.prim, factor, carried), drive)
            b.store(value, self.slot)
            e.store(op.out, at, value)
            return
        value = e.value(op.ins[0], at)
        if op.prim.name in ("argmax", "argmin"):
            self._update_arg(value, at)
        elif self.in_register:
            slot = self.partial or self.slot
            b.store(self.combine(b.load(slot, typ=register_type(self.dtype)), value), slot)
        else:
            kept = tuple(i for a, i in enumerate(at) if a not in op.params["axes"])
            offset = e._offset(op.out, kept, ())
            e.put(op.out, offset, self.combine(e.get(op.out, offset), value))

    def _update_arg(self, value: ir.Value, at: Indices) -> None:
        b = self.e.b
        assert self.slot is not None and self.where is not None
        s = Scalars(b, self.dtype, self.dtype)
        best = b.load(self.slot, typ=register_type(self.dtype))
        better = s.cmp(">" if self.op.prim.name == "argmax" else "<", value, best)
        if self.dtype.kind in FLOAT_KINDS:
            better = b.or_(better, b.and_(s.isnan(value), b.not_(s.isnan(best))))
        position = self.e.index(at[self.op.params["axes"][0]])
        b.store(b.select(better, value, best), self.slot)
        b.store(b.select(better, position, b.load(self.where, typ=I64)), self.where)

    # ---- partial sums ------------------------------------------------------------------------------------------

    def begin_partials(self, length: ir.Value | None) -> None:
        """Add up partial sums of CHUNK elements from now on, and those with the rounding errors taken into account;
        *length*: of the loop, where it is this accumulator's only one."""
        e = self.e
        self.length = length
        self.partial, self.lost = [cell(e.entry, e.b, self.identity()) for _ in range(2)]
        if length is None:
            self.count = cell(e.entry, e.b, I64(0))

    def end_partial(self, elements: ir.Value, last: ir.Value) -> None:
        """Add the partial sum, to which so many *elements* have gone, to the total: of the only loop one that is not
        the *last*, else one that is complete."""
        b = self.e.b
        if self.count is None:
            complete = b.not_(last)
        else:
            count = b.add(b.load(self.count, typ=I64), elements, flags=("nsw",))
            b.store(count, self.count)
            complete = b.icmp_signed(">=", count, I64(CHUNK))
        with b.if_then(complete):
            total, lost = self.added()
            b.store(total, self.slot)
            b.store(lost, self.lost)
            b.store(self.identity(), self.partial)
            if self.count is not None:
                b.store(I64(0), self.count)

    def added(self) -> tuple[ir.Value, ir.Value]:
        """(the total with the partial sum, the sum of what rounding took from it), so that the error does not grow with
        the number of partial sums."""
        b, kind = self.e.b, register_type(self.dtype)
        return compensated(b, *[b.load(cell, typ=kind) for cell in (self.slot, self.partial, self.lost)])

    def close(self) -> None:
        """End the accumulation and store a reduction that ran in a register."""
        del self.e.accumulators[self.op.out]
        if self.in_register and self.op.prim.kind != RECURRENCE:
            self.finish(self.total())

    def total(self) -> ir.Value:
        """The accumulated value (position, for argmax and argmin) in the register."""
        if self.where is not None:
            return self.e.b.load(self.where, typ=I64)
        b = self.e.b
        if self.partial is None:
            return b.load(self.slot, typ=register_type(self.dtype))
        if self.length is None:
            return self._corrected()
        only = b.load(self.partial, typ=register_type(self.dtype))
        before = b.block
        with b.if_then(b.icmp_signed(">", self.length, I64(CHUNK))):
            several, ended = self._corrected(), b.block
        total = b.phi(only.type)
        total.add_incoming(only, before)
        total.add_incoming(several, ended)
        return total

    def _corrected(self) -> ir.Value:
        return corrected(self.e.b, self.dtype, *self.added())

    def finish(self, value: ir.Value) -> None:
        """Store the result, and keep it in the scope for later readers."""
        at = self.result_indices()
        self.e.store(self.op.out, at, value)
        self.e.scopes[-1][(self.op.out, at, ())] = value

    def result_indices(self) -> Indices:
        source = self.op.ins[0]
        return tuple(
            ZERO if d == ONE else loop_var(k)
            for a, (d, k) in enumerate(zip(source.dims, _places(source.dims), strict=True))
            if a not in self.op.params["axes"]
        )


def combined(b: ir.IRBuilder, name: str, dtype: np.dtype, total: ir.Value, value: ir.Value) -> ir.Value:
    """The two put together by the reduction called *name*."""
    is_float = dtype.kind in FLOAT_KINDS
    if name == "reduce_sum":
        return b.fadd(total, value, flags=("reassoc",)) if is_float else b.add(total, value)
    if name == "reduce_prod":  # in order, as NumPy's: its parts may leave the range of numbers
        return b.fmul(total, value) if is_float else b.mul(total, value)
    if name == "reduce_or":
        return b.or_(total, value)
    if name == "reduce_and":
        return b.and_(total, value)
    largest = name == "reduce_max"
    if is_float:
        return extreme(b, largest, total, value)
    s = Scalars(b, dtype, dtype)
    return s.select(s.cmp(">" if largest else "<", value, total), value, total)


def extreme(b: ir.IRBuilder, largest: bool, x: ir.Value, y: ir.Value) -> ir.Value:
    """The larger or smaller of two floats; nan wins, as in NumPy."""
    suffix = "f64" if x.type == F64 else "f32"
    intrinsic = f"llvm.{'maximum' if largest else 'minimum'}.{suffix}"
    return b.call(declare(b.module, intrinsic, x.type, x.type, x.type), [x, y])


def compensated(b: ir.IRBuilder, before: ir.Value, more: ir.Value, lost: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(*before* + *more*, *lost* + what rounding took from that sum)"""
    total = b.fadd(before, more)
    taken = b.fsub(total, before)
    off = b.fadd(b.fsub(before, b.fsub(total, taken)), b.fsub(more, taken))  # exactly
    return total, b.fadd(lost, off)


def corrected(b: ir.IRBuilder, dtype: np.dtype, total: ir.Value, lost: ir.Value) -> ir.Value:
    """A total with what rounding took from its sums."""
    finite = Scalars(b, dtype, dtype).isfinite(total)  # else what was lost is no number
    return b.select(finite, b.fadd(total, lost), total)


def product(s: Scalars, prim: Primitive, factor: ir.Value, carried: ir.Value) -> ir.Value:
    """The product in a step of the recurrence *prim*."""
    rule: Any = PRIMITIVES["mulz"].lower
    return rule(s, factor, carried) if prim.name == "linrecz" else s.mul(factor, carried)


def _places(dims: tuple[Dim, ...]) -> list[int]:
    """The loop depth of each axis (axes of size 1 have none: the number is not used)."""
    result, depth = [], 0
    for d in dims:
        result.append(depth)
        depth += d != ONE
    return result
