"""Recurrences x[t] = a[t] x[t-1] + b[t] along a long axis, in parallel.

The axis is cut in parts, as many as sizes alone say.  Over one part the last x is A x' + B of the x' before it, so:

1. ``compose``: a thread for each part but the last finds A and B.
2. ``starts``: a thread for each row goes over its parts and leaves what x is before each.
3. ``run``: a thread for each part runs the recurrence from there, as one thread would.

With one part there is only the last kernel.  Floats are not associative, and a product of many a may leave the range
of numbers though no x does.  So ``compose`` also finds, over its part, the largest of |A| and of |B| so far, and by
how much A may be wrong where it has become too small: ``starts`` goes through a part number by number where these
could matter.  Results are then those of the plain recurrence up to rounding, infinities and NaN included.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir
import numpy as np

from ..cpu.reductions import product
from ..cpu.scalar import I64, Scalars, cell, constant, ranging, register_type
from ..lower.canonical import Const, Dim, Sym
from ..schedule.dependences import domain, domain_indices
from ..schedule.loop_tree import Loop, Statement, statements_of
from .kernels import KernelEmitter
from .mapping import THREAD, Extent, Mapping


def axes_of(statement: Statement) -> tuple[tuple[Dim, ...], Dim]:
    """The rows of a recurrence, and the axis along which it goes."""
    dims = domain(statement.op)
    return dims[:-1], dims[-1]


def worth_cutting(static: dict[Dim, int], nest: Loop) -> bool:
    """Whether the axis of the recurrence in *nest* may be long."""
    (statement,) = statements_of(nest)
    return statement.complete < len(domain(statement.op)) and axes_of(statement)[1] not in static


def extents(statement: Statement) -> tuple[Extent, Extent]:
    """A thread for each part of each row, and one for each row."""
    rows, axis = axes_of(statement)
    return (
        Extent(Mapping(THREAD, len(rows)), rows, cut=axis, lonely=True),
        Extent(Mapping(THREAD, len(rows)), rows, cut=axis, lonely=True, whole=True),
    )


def shares_of(statement: Statement) -> list[np.dtype]:
    """The dtypes of a part's shares: B and A, and for floats the largest |B|, the largest |A|, the error of A.

    A running sum has no A.
    """
    dtype = statement.op.out.dtype
    names = ["B"] if _sums(statement) else ["B", "A"]
    return [dtype] * (len(names) if dtype.kind != "f" else 2 if _sums(statement) else 5)


def _sums(statement: Statement) -> bool:
    factor = statement.op.ins[0]
    return isinstance(factor, Const) and factor.slot is None and factor.value == 1


class Scan:
    """Writes one of the three kernels of a recurrence into *kernel*; *shares*: the buffers of ``shares_of``."""

    def __init__(self, kernel: KernelEmitter, statement: Statement, shares: list[Sym]):
        self.e, self.b, self.statement, self.shares = kernel, kernel.b, statement, shares
        self.op, self.dtype = statement.op, statement.op.out.dtype
        self.kind, self.floats = register_type(self.dtype), self.dtype.kind == "f"
        self.sums = _sums(statement)
        rows, axis = axes_of(statement)
        self.dims, self.rows, self.length = rows, kernel.count(rows), kernel.size(axis)
        self.parts = kernel.parts(self.rows, self.length)
        self.s = Scalars(kernel.b, self.dtype, self.dtype)

    # ---- the kernels -----------------------------------------------------------------------------------------------

    def compose(self) -> None:
        b, e = self.b, self.e
        with e.spread(b.mul(self.rows, b.sub(self.parts, I64(1)))) as unit:
            part, row = b.udiv(unit, self.rows), b.urem(unit, self.rows)
            begin = [-0.0, 0] if self.sums else [-0.0, 1, 0, 1, 0]
            held = [self.cell(constant(self.dtype, v)) for v in begin[: len(self.shares)]]

            def step(a: ir.Value, drive: ir.Value) -> None:
                old = [self.get(cell) for cell in held]
                new = [self.next(a, old[0], drive)]
                if not self.sums:
                    new.append(self.times(a, old[1]))
                if self.floats:
                    most = [self.larger(b_most, self.size(x)) for b_most, x in zip(old[len(new) :], new, strict=False)]
                    new += most
                    if not self.sums:
                        new.append(self.error(a, old[1], new[1], old[4]))
                for cell, value in zip(held, new, strict=True):
                    b.store(value, cell)

            self.each(row, part, step)
            for buffer, cell in zip(self.shares, held, strict=True):
                e.put(buffer, unit, self.get(cell))

    def starts(self) -> None:
        b, e = self.b, self.e
        with e.spread(self.rows) as row:
            x = self.cell(constant(self.dtype, -0.0))
            with ranging(b, I64(0), b.sub(self.parts, I64(1)), I64(1)) as part:
                place = b.add(b.mul(part, self.rows), row)
                found, before = [e.get(buffer, place) for buffer in self.shares], self.get(x)
                e.put(self.shares[0], place, before)
                after = self.s.add(before if self.sums else self.times(found[1], before), found[0])
                self.go_on(x, after, row, part, self.sure(before, after, found) if self.floats else None)
            last = b.add(b.mul(b.sub(self.parts, I64(1)), self.rows), row)
            e.put(self.shares[0], last, self.get(x))

    def go_on(self, x: ir.Value, after: ir.Value, row: ir.Value, part: ir.Value, sure: ir.Value | None) -> None:
        """Set *x* to its value behind the part: *after* where *sure*, else by the plain recurrence."""
        if sure is None:
            self.b.store(after, x)
            return
        with self.b.if_else(sure) as (yes, no):
            with yes:
                self.b.store(after, x)
            with no:
                self.each(row, part, lambda a, drive: self.b.store(self.next(a, self.get(x), drive), x))

    def run(self) -> None:
        b, e = self.b, self.e
        with e.spread(b.mul(self.rows, self.parts)) as unit:
            part, row = b.udiv(unit, self.rows), b.urem(unit, self.rows)
            x = self.cell(constant(self.dtype, -0.0))
            with b.if_then(b.icmp_signed(">", part, I64(0))):
                b.store(e.get(self.shares[0], unit), x)

            def step(a: ir.Value, drive: ir.Value) -> None:
                b.store(self.next(a, self.get(x), drive), x)
                e.store(self.op.out, domain_indices(self.op), self.get(x))

            self.each(row, part, step)

    # ---- their steps -----------------------------------------------------------------------------------------------

    def each(self, row: ir.Value, part: ir.Value, step: Callable[[ir.Value, ir.Value], None]) -> None:
        """*step* on a and b at each place of the part of the row."""
        b, e = self.b, self.e
        places: list[ir.Value] = []
        for d in reversed(self.dims):
            places.insert(0, b.urem(row, e.size(d)))
            row = b.udiv(row, e.size(d))
        with ranging(b, *e.stretch(self.length, self.parts, part), I64(1)) as t, e.at([*places, t]):
            at = domain_indices(self.op)
            step(e.value(self.op.ins[0], at if self.op.ins[0].dims else ()), e.value(self.op.ins[1], at))

    def next(self, a: ir.Value, x: ir.Value, drive: ir.Value) -> ir.Value:
        return self.s.add(x if self.sums else self.times(a, x), drive)

    def times(self, a: ir.Value, x: ir.Value) -> ir.Value:
        return product(self.s, self.op.prim, a, x)

    def error(self, a: ir.Value, before: ir.Value, after: ir.Value, old: ir.Value) -> ir.Value:
        """Error bound of A: the smallest normal number for each step that takes A below it, scaled as A is."""
        b, s = self.b, self.s
        tiny, zero = s.const(float(np.finfo(self.dtype).tiny)), s.const(0)
        lost = b.and_(s.cmp("<", self.size(after), tiny), s.cmp("!=", before, zero))
        off = b.or_(lost, s.cmp(">", old, zero))
        grown = s.select(off, s.add(s.mul(self.size(a), old), tiny), zero)
        return s.select(s.cmp("==", a, zero), zero, grown)

    def sure(self, before: ir.Value, after: ir.Value, found: list[ir.Value]) -> ir.Value:
        """Whether *after* is the recurrence's value up to rounding (i1); NaN stays NaN in any case."""
        b, s = self.b, self.s
        if self.sums:
            largest, exact = s.add(self.size(before), found[1]), None
        else:
            largest = s.add(s.mul(found[3], self.size(before)), found[2])
            allowed = s.mul(s.const(float(np.finfo(self.dtype).eps)), self.size(after))
            exact = b.or_(s.cmp("==", found[4], s.const(0)), s.cmp("<=", s.mul(found[4], self.size(before)), allowed))
        fine = s.cmp("<", largest, s.const(np.inf))
        return b.or_(s.isnan(before), fine if exact is None else b.and_(fine, exact))

    def larger(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger one; NaN, once met, stays."""
        return self.s.select(self.b.or_(self.s.cmp(">", x, y), self.s.isnan(x)), x, y)

    def size(self, x: ir.Value) -> ir.Value:
        return self.s.select(self.s.cmp("<", x, self.s.const(0)), self.s.neg(x), x)

    def cell(self, value: ir.Value) -> ir.Value:
        return cell(self.e.entry, self.b, value)

    def get(self, cell: ir.Value) -> ir.Value:
        return self.b.load(cell, typ=self.kind)
