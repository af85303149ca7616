"""Linear algebra on each matrix of a batch, by LAPACK inside the kernel; small matrices by code of their own.

LAPACK comes from SciPy's Cython bindings, as BLAS does.  To it a matrix in row-major order is the transpose: what can
be told by a flag (which triangle, transposed or not, from which side) is, and nothing is copied for it.

To add a routine: a row of the kind LAPACK (``tracer/ops/linalg.py``), and a function here under the row's name in
``BY_LAPACK``.  It writes the work on one matrix: ``m.ins`` and ``m.out`` are the addresses of the operands and of the
result, ``m.size(x, axis)`` is the length of one of the last two axes of an operand, ``m.call("potrf", "U", n, m.out,
n)`` calls dpotrf or spotrf with letters, numbers (i64) and addresses in LAPACK's order, without the last argument
``info``, which it returns.  ``m.work(count)`` is memory for *count* elements, ``m.integers(count)`` for pivots.  The
functions of ``OF_COMPLEX`` call zpotrf or cpotrf.  Fourier transforms (``fourier.py``) and filters (``filters.py``) are
written in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, reduce
from typing import Any

import llvmlite.ir as ir

from ..lower.canonical import ONE, CanonicalOp
from .filters import BY_LOOPS
from .fourier import BY_INNER_LOOPS, takes_all
from .lapack_factors import BY_LAPACK as FACTORS
from .lapack_factors import OF_COMPLEX
from .scalar import I8, I32, I64, PTR, constant, counting, declare, memory_type, ranging
from .small_matrices import is_small, small
from .symbols import capsule_symbol, capsules

BLAS, LAPACK = "scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"


@cache
def library_function(name: str) -> str:
    """The symbol of BLAS's or LAPACK's function *name*, ``dgemm``, in kernels."""
    return capsule_symbol(BLAS if name in capsules(BLAS) else LAPACK, name)


class PerMatrix:
    """Writes *op* into the kernel, by the pointers and sizes of *calls* (a ``CallEmitter``)."""

    def __init__(self, calls: Any, op: CanonicalOp):
        self.calls, self.op, self.b, self.entry = calls, op, calls.b, calls.entry
        self.params = op.params
        self.kind = memory_type(op.out.dtype)
        self.wide = op.out.dtype.itemsize == 8
        self.parts = 2 if op.prim.name in OF_COMPLEX else 1  # of a number
        self.letter = ("zc" if self.parts == 2 else "ds")[not self.wide]
        self.ins: list[ir.Value] = []
        self.out: ir.Value = I64(0)
        self.count: ir.Value = I64(1)  # of the matrices
        self._allocated: list[ir.Value] = []

    def emit(self) -> None:
        op, b = self.op, self.b
        batch = op.ins[0].dims[:-2]
        starts = [self.calls._buffer(x) for x in op.ins]
        values = [*op.ins, op.out]
        spans = [self.calls._count(x.dims[len(batch) :]) for x in values]
        static = self.calls.program.static
        each = small(b.module, op, static) if is_small(op, static) else None
        self.count = self.calls._count(batch)
        first, end = (I64(0), I64(1)) if takes_all(op, static) else self.calls.batch(batch)
        with ranging(b, first, end, I64(1)) as i:
            places = [
                b.gep(start, [b.mul(i, span)], source_etype=self.kind)
                for start, span in zip([*starts, self.calls.pointer(op.out)], spans, strict=True)
            ]
            if each is not None:
                b.call(each, places)
            else:
                *self.ins, self.out = places
                BY_LAPACK[op.prim.name](self)
                for memory in self._allocated:
                    b.call(declare(b.module, "free", ir.VoidType(), PTR), [memory])

    # ---- for the functions below ---------------------------------------------------------------------------------

    def size(self, operand: int, axis: int) -> ir.Value:
        """The length of the *axis*, -1 or -2, of the matrices of an operand."""
        length = self.calls.size(self.op.ins[operand].dims[axis])
        return length if self.parts == 1 or axis == -2 else self.b.udiv(length, I64(self.parts))

    def is_one(self, operand: int, axis: int) -> bool:
        return self.op.ins[operand].dims[axis] == ONE

    def each(self, n: ir.Value) -> AbstractContextManager[ir.Value]:
        return counting(self.b, n)

    def at(self, place: ir.Value, *index: ir.Value) -> ir.Value:
        """The address *index* elements on; two numbers are a row and its length, a third the column."""
        b = self.b
        offset = index[0] if len(index) == 1 else b.mul(index[0], index[1])
        offset = b.add(offset, index[2]) if len(index) == 3 else offset
        return self.part(place, offset if self.parts == 1 else b.mul(offset, I64(self.parts)))

    def part(self, place: ir.Value, index: ir.Value) -> ir.Value:
        """The address *index* real numbers on."""
        return self.b.gep(place, [index], source_etype=self.kind)

    def load(self, place: ir.Value) -> ir.Value:
        return self.b.load(place, typ=self.kind)

    def number(self, value: float) -> ir.Constant:
        return constant(self.op.out.dtype, value)

    def call(self, name: str, *args: Any) -> ir.Value:
        """LAPACK's *name* on *args*; the value of ``info`` (i32)."""
        info = self.entry.alloca(I32)
        self.b.store(I32(0), info)
        self.blas(name, *args, info)
        return self.b.load(info, typ=I32)

    def blas(self, name: str, *args: Any) -> None:
        """BLAS's *name*, all of whose arguments are given.  It is not called where a size is 0."""
        b, symbol = self.b, library_function(self.letter + name)
        sizes = [x for x in args if isinstance(x, ir.Value) and x.type == I64]
        with b.if_then(b.icmp_signed("!=", reduce(b.mul, sizes), I64(0))):
            places = [self._argument(x) for x in args]
            b.call(declare(b.module, symbol, ir.VoidType(), *[PTR] * len(args)), places)

    def _argument(self, x: Any) -> ir.Value:
        if isinstance(x, str):
            x = I8(ord(x))
        elif isinstance(x, int):
            x = I32(x)
        if x.type == PTR:
            return x
        if x.type == I64:
            x = self.b.trunc(x, I32)
        cell = self.entry.alloca(x.type)
        self.b.store(x, cell)
        return cell

    def integers(self, count: ir.Value) -> ir.Value:
        """Memory for *count* integers of LAPACK's."""
        return self._memory(count, 4)

    def work(self, count: ir.Value) -> ir.Value:
        """Memory for *count* elements."""
        return self._memory(count, (8 if self.wide else 4) * self.parts)

    def real_work(self, count: ir.Value) -> ir.Value:
        """Memory for *count* real numbers."""
        return self._memory(count, 8 if self.wide else 4)

    def _memory(self, count: ir.Value, itemsize: int) -> ir.Value:
        b = self.b
        size = b.mul(b.add(count, I64(1)), I64(itemsize))
        memory = b.call(declare(b.module, "malloc", PTR, I64), [size])
        self._allocated.append(memory)
        return memory

    def copy(self, source: ir.Value, target: ir.Value, count: ir.Value) -> None:
        with self.each(count) as i:
            here, there = self.at(source, i), self.at(target, i)
            for k in range(self.parts):
                self.b.store(self.load(self.part(here, I64(k))), self.part(there, I64(k)))

    def fill(self, target: ir.Value, count: ir.Value, value: float) -> None:
        """Write *value* to *count* real numbers."""
        with self.each(count) as i:
            self.b.store(self.number(value), self.part(target, i))

    def swap(self, x: ir.Value, y: ir.Value, count: ir.Value, step: ir.Value) -> None:
        """Exchange *count* elements from the addresses *x* and *y* on, *step* apart."""
        b = self.b
        with self.each(count) as i:
            here, there = self.at(x, i, step), self.at(y, i, step)
            kept = self.load(here)
            b.store(self.load(there), here)
            b.store(kept, there)


# ---- P L U = A ---------------------------------------------------------------------------------------------------


def _lu(m: PerMatrix) -> None:
    b, n = m.b, m.size(0, -1)
    (a,), out = m.ins, m.out
    with m.each(n) as j, m.each(n) as i:
        b.store(m.load(m.at(a, i, n, j)), m.at(out, j, n, i))
    pivots = m.integers(n)
    m.call("getrf", n, n, out, n, pivots)
    last = m.at(out, n, n)
    with m.each(n) as i:
        pivot = b.sub(b.load(b.gep(pivots, [i], source_etype=I32), typ=I32), I32(1))
        b.store(b.sitofp(pivot, m.kind), m.at(last, i))


def _interchange(m: PerMatrix, backward: bool, row: ir.Value, column: ir.Value, count: ir.Value) -> None:
    """Apply the interchanges to lines of the result: *row* elements from one to the next, each of *count* elements that
    are *column* apart."""
    b, n = m.b, m.size(0, -1)
    last = m.at(m.ins[0], n, n)
    with m.each(n) as step:
        i = b.sub(b.sub(n, I64(1)), step) if backward else step
        other = b.fptosi(m.load(m.at(last, i)), I64)
        with b.if_then(b.icmp_signed("!=", other, i)):
            m.swap(m.at(m.out, i, row), m.at(m.out, other, row), count, column)


def _lu_solve(m: PerMatrix) -> None:
    n, k = m.size(0, -1), m.size(1, -1)
    m.copy(m.ins[1], m.out, m.b.mul(n, k))
    _solve_in_place(m, k, m.params["trans"])


def _solve_in_place(m: PerMatrix, k: ir.Value, trans: bool) -> None:
    """X.T of LAPACK's, in place of the right-hand sides (n, k): those of X.T (P L U).T, or of X.T (P L U)."""
    n, factors, one = m.size(0, -1), m.ins[0], m.number(1)
    if not trans:
        _interchange(m, False, k, I64(1), k)
    for letter, unit in (("L", "U"), ("U", "N")) if not trans else (("U", "N"), ("L", "U")):
        m.blas("trsm", "R", letter, "N" if trans else "T", unit, k, n, one, factors, n, m.out, k)
    if trans:
        _interchange(m, True, k, I64(1), k)


def _lu_inverse(m: PerMatrix) -> None:
    n = m.size(0, -1)
    _unit(m, n)
    _solve_in_place(m, n, False)


def _unit(m: PerMatrix, n: ir.Value) -> None:
    m.fill(m.out, m.b.mul(n, n), 0)
    with m.each(n) as i:
        m.b.store(m.number(1), m.at(m.out, i, m.b.add(n, I64(1))))


def _lu_permutation(m: PerMatrix) -> None:
    n = m.size(0, -1)
    _unit(m, n)
    _interchange(m, True, n, I64(1), n)


def _over_pivots(m: PerMatrix, start: list[ir.Value], step: Callable[..., list[ir.Value]]) -> list[ir.Value]:
    """Totals over the pivots: *step* (totals, pivot, whether its row was interchanged) gives the next ones."""
    b, n, factors = m.b, m.size(0, -1), m.ins[0]
    cells = [m.entry.alloca(m.kind) for _ in start]
    for cell, value in zip(cells, start, strict=True):
        b.store(value, cell)
    with m.each(n) as i:
        pivot = m.load(m.at(factors, i, b.add(n, I64(1))))
        moved = b.fcmp_unordered("!=", m.load(m.at(factors, n, n, i)), b.sitofp(i, m.kind))
        for cell, value in zip(cells, step([m.load(c) for c in cells], pivot, moved), strict=True):
            b.store(value, cell)
    return [m.load(c) for c in cells]


def _lu_det(m: PerMatrix) -> None:
    b = m.b

    def step(totals: list[ir.Value], pivot: ir.Value, moved: ir.Value) -> list[ir.Value]:
        return [b.fmul(totals[0], b.select(moved, b.fneg(pivot), pivot))]

    b.store(_over_pivots(m, [m.number(1)], step)[0], m.out)


def _lu_slogdet(m: PerMatrix) -> None:
    b, zero, one = m.b, m.number(0), m.number(1)
    suffix = "f64" if m.wide else "f32"

    def step(totals: list[ir.Value], pivot: ir.Value, moved: ir.Value) -> list[ir.Value]:
        negative = b.xor(b.fcmp_ordered("<", pivot, zero), moved)
        sign = b.select(negative, m.number(-1), one)
        sign = b.select(b.fcmp_ordered("==", pivot, zero), zero, sign)
        sign = b.select(b.fcmp_unordered("uno", pivot, pivot), pivot, sign)
        size = b.call(declare(b.module, f"llvm.fabs.{suffix}", m.kind, m.kind), [pivot])
        log = b.call(declare(b.module, f"llvm.log.{suffix}", m.kind, m.kind), [size])
        return [b.fmul(totals[0], sign), b.fadd(totals[1], log)]

    sign, log = _over_pivots(m, [one, zero], step)
    b.store(sign, m.out)
    b.store(log, m.at(m.out, I64(1)))


def _lu_adjugate(m: PerMatrix) -> None:
    """See ``tracer/ops/linalg.py``; rows of c are made from the last one up, each of those below it."""
    b, n, (factors,), out = m.b, m.size(0, -1), m.ins, m.out
    one, beside = m.number(1), b.add(n, I64(1))
    m.fill(out, b.mul(n, n), 0)
    factor = m.entry.alloca(m.kind)
    with m.each(n) as step:
        i = b.sub(b.sub(n, I64(1)), step)
        b.store(one, m.at(out, i, beside))
        b.store(m.number(-1), factor)
        with m.each(step) as below:
            k = b.add(b.add(i, below), I64(1))
            share = b.fmul(m.load(factor), m.load(m.at(factors, k, n, i)))
            with m.each(n) as j:
                target = m.at(out, i, n, j)
                b.store(b.fadd(m.load(target), b.fmul(share, m.load(m.at(out, k, n, j)))), target)
            b.store(b.fmul(m.load(factor), m.load(m.at(factors, k, beside))), factor)
    (sign,) = _over_pivots(m, [one], lambda t, pivot, moved: [b.select(moved, b.fneg(t[0]), t[0])])
    for first, rows in ((sign, True), (one, False)):  # times the pivots before each row, and after each column
        b.store(first, factor)
        with m.each(n) as step:
            k = step if rows else b.sub(b.sub(n, I64(1)), step)
            with m.each(n) as other:
                place = m.at(out, k, n, other) if rows else m.at(out, other, n, k)
                b.store(b.fmul(m.load(place), m.load(factor)), place)
            b.store(b.fmul(m.load(factor), m.load(m.at(factors, k, beside))), factor)
    m.blas("trsm", "L", "L", "T", "U", n, n, one, factors, n, out, n)
    _interchange(m, True, I64(1), n, n)


# ---- triangular matrices -----------------------------------------------------------------------------------------


def _solve_triangular(m: PerMatrix) -> None:
    b, (a, right_sides), out, params = m.b, m.ins, m.out, m.params
    n, rows, columns = m.size(0, -1), m.size(1, -2), m.size(1, -1)
    m.copy(right_sides, out, b.mul(rows, columns))
    letter, trans = "U" if params["lower"] else "L", "T" if params["trans"] else "N"
    unit = "U" if params["unit"] else "N"
    if params["right"]:
        m.blas("trsm", "L", letter, trans, unit, n, rows, m.number(1), a, n, out, n)
    elif m.is_one(1, -1):
        m.blas("trsv", letter, "N" if params["trans"] else "T", unit, n, a, n, out, 1)
    else:
        m.blas("trsm", "R", letter, trans, unit, columns, n, m.number(1), a, n, out, columns)


def _solve_banded(m: PerMatrix) -> None:
    b, (bands, right_sides), out, params = m.b, m.ins, m.out, m.params
    n, k = m.size(0, -1), m.size(1, -2)
    below = I64(params["below"])
    given, lead = params["below"] + params["above"] + 1, I64(2 * params["below"] + params["above"] + 1)
    work, pivots = m.work(b.mul(lead, n)), m.integers(n)
    with m.each(n) as j, m.each(I64(given)) as row:
        b.store(m.load(m.at(bands, row, n, j)), m.at(work, j, lead, b.add(row, below)))
    m.copy(right_sides, out, b.mul(n, k))
    info = m.call("gbtrf", n, n, params["below"], params["above"], work, lead, pivots)
    with b.if_then(b.icmp_signed("!=", info, I32(0))):
        m.fill(out, b.mul(n, k), float("-inf"))
    with b.if_then(b.icmp_signed("==", info, I32(0))):
        trans = "T" if params["trans"] else "N"
        m.call("gbtrs", trans, n, params["below"], params["above"], k, work, lead, pivots, out, n)


# ---- L L.T = A ---------------------------------------------------------------------------------------------------


def _cholesky(m: PerMatrix) -> None:
    b, n, (a,), out = m.b, m.size(0, -1), m.ins, m.out
    with m.each(n) as i, m.each(n) as j:
        below = b.icmp_signed("<=", j, i)
        b.store(b.select(below, m.load(m.at(a, i, n, j)), m.number(0)), m.at(out, i, n, j))
    info = m.call("potrf", "U", n, out, n)
    with b.if_then(b.icmp_signed("!=", info, I32(0))):
        m.fill(out, b.mul(n, n), float("nan"))
        b.store(m.number(float("-inf")), out)


_BLOCK = 64  # rows of a block of the gradient


def _cholesky_pullback(m: PerMatrix) -> None:
    """Blocks are taken from the last one up.  *d* is one on the diagonal, beside it lie *left*, *under* and *corner*;
    their cotangents stand in the same places of the result."""
    b, n, (root, ct), out = m.b, m.size(0, -1), m.ins, m.out
    minus, one, zero = m.number(-1), m.number(1), m.number(0)
    m.copy(ct, out, b.mul(n, n))
    inner = m.work(I64(_BLOCK * _BLOCK))
    blocks = b.sdiv(b.add(n, I64(_BLOCK - 1)), I64(_BLOCK))
    with m.each(blocks) as step:
        k = b.sub(n, b.mul(step, I64(_BLOCK)))
        j = b.sub(k, I64(_BLOCK))
        j = b.select(b.icmp_signed(">", j, I64(0)), j, I64(0))
        w, r = b.sub(k, j), b.sub(n, k)

        def at(place: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
            return m.at(place, row, n, column)

        start = I64(0)
        d, left, under, corner = at(root, j, j), at(root, j, start), at(root, k, j), at(root, k, start)
        of_d, of_left, of_under, of_corner = at(out, j, j), at(out, j, start), at(out, k, j), at(out, k, start)
        m.blas("trsm", "L", "U", "N", "N", w, r, one, d, n, of_under, n)
        m.blas("gemm", "N", "N", j, r, w, minus, left, n, of_under, n, one, of_corner, n)
        m.blas("gemm", "N", "T", w, w, r, minus, under, n, of_under, n, one, of_d, n)
        m.blas("gemm", "N", "T", w, w, w, one, of_d, n, d, n, zero, inner, w)
        _mirror(m, inner, w, w, 0.5)
        m.blas("trsm", "R", "U", "T", "N", w, w, one, d, n, inner, w)
        m.blas("trsm", "L", "U", "N", "N", w, w, one, d, n, inner, w)
        m.blas("gemm", "N", "T", j, w, r, minus, corner, n, of_under, n, one, of_left, n)
        m.blas("gemm", "N", "N", j, w, w, m.number(-2), left, n, inner, w, one, of_left, n)
        with m.each(w) as row, m.each(w) as column:
            twice = b.fmul(m.load(m.at(inner, row, w, column)), m.number(2))
            b.store(twice, m.at(of_d, row, n, column))
    _mirror(m, out, n, n, 0.5)


def _mirror(m: PerMatrix, place: ir.Value, n: ir.Value, lead: ir.Value, scale: float) -> None:
    """Write the lower triangle, scaled, over the upper one, too."""
    b = m.b
    with m.each(n) as i, m.each(b.add(i, I64(1))) as j:
        value = b.fmul(m.load(m.at(place, i, lead, j)), m.number(scale))
        b.store(value, m.at(place, i, lead, j))
        b.store(value, m.at(place, j, lead, i))


_ROWS = (
    _lu, _lu_solve, _lu_inverse, _lu_permutation, _lu_det, _lu_slogdet, _lu_adjugate, _solve_triangular, _solve_banded,
    _cholesky, _cholesky_pullback,
)  # fmt: skip
BY_LAPACK: dict[str, Callable[[PerMatrix], None]] = {
    **{write.__name__[1:]: write for write in _ROWS}, **FACTORS, **OF_COMPLEX, **BY_INNER_LOOPS,
    **BY_LOOPS,
}  # fmt: skip
