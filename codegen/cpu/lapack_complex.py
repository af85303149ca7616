"""Factors of complex matrices by LAPACK inside the kernel.

Operands are rows of numbers, (..., m, 2 n): the real and the imaginary part one beside the other, as LAPACK has them.
``m.at`` and ``m.work`` count parts; sizes that LAPACK gets count numbers.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from .lapack_factors import nan_unless_found
from .scalar import I32, I64, declare


def _columns_first(m: Any, target: ir.Value, rows: ir.Value, columns: ir.Value) -> None:
    """Write the first operand, (rows, columns), to *target* in column-major order."""
    b, two = m.b, I64(2)
    with m.each(rows) as i, m.each(columns) as j:
        source, place = m.at(m.ins[0], b.add(b.mul(i, columns), j), two), m.at(target, b.add(b.mul(j, rows), i), two)
        m.copy(source, place, two)


def _slogdet(m: Any) -> None:
    """The sign and the logarithm of the size.  Pivots are divided by their larger part before they are squared."""
    b, n, zero, one = m.b, m.size(0, -2), m.number(0), m.number(1)
    suffix = "f64" if m.wide else "f32"

    def call(name: str, x: ir.Value) -> ir.Value:
        return b.call(declare(b.module, f"llvm.{name}.{suffix}", m.kind, m.kind), [x])

    count = b.mul(b.mul(n, n), I64(2))
    factors, pivots = m.work(count), m.integers(n)
    m.copy(m.ins[0], factors, count)
    m.call("getrf", n, n, factors, n, pivots)
    cells = [m.at(m.out, I64(k)) for k in range(3)]
    for cell, value in zip(cells, (one, zero, zero), strict=True):
        b.store(value, cell)
    with m.each(n) as i:
        place = m.at(factors, b.mul(i, I64(2)), b.add(n, I64(1)))
        pivot = [m.load(place), m.load(m.at(place, I64(1)))]
        sizes = [call("fabs", x) for x in pivot]
        first = b.fcmp_ordered(">", sizes[0], sizes[1])
        large, little = b.select(first, *sizes), b.select(first, *reversed(sizes))
        nothing = b.fcmp_ordered("==", large, zero)
        ratio = b.fdiv(little, b.select(nothing, one, large))
        size = b.fmul(large, call("sqrt", b.fadd(one, b.fmul(ratio, ratio))))
        here = b.add(b.trunc(i, I32), I32(1))
        moved = b.icmp_signed("!=", b.load(b.gep(pivots, [i], source_etype=I32), typ=I32), here)
        below = b.select(nothing, one, b.select(moved, b.fneg(size), size))
        c, d = (b.fdiv(x, below) for x in pivot)
        re, im, log = (m.load(cell) for cell in cells)
        b.store(b.fsub(b.fmul(re, c), b.fmul(im, d)), cells[0])
        b.store(b.fadd(b.fmul(re, d), b.fmul(im, c)), cells[1])
        b.store(b.fadd(log, call("log", size)), cells[2])


def _eigh(m: Any) -> None:
    b, n = m.b, m.size(0, -2)
    square = b.mul(n, n)
    _columns_first(m, m.out, n, n)
    values = m.at(m.out, b.mul(square, I64(2)))
    m.fill(values, b.mul(n, I64(2)), 0)
    count = b.add(square, b.mul(n, I64(66)))
    real = b.add(b.add(b.mul(square, I64(2)), b.mul(n, I64(5))), I64(1))
    integers = b.add(b.mul(n, I64(5)), I64(3))
    info = m.call(
        "heevd", "V", "L" if m.params["lower"] else "U", n, m.out, n, values, m.work(b.mul(count, I64(2))), count,
        m.work(real), real, m.integers(integers), integers,
    )  # fmt: skip
    nan_unless_found(m, info, b.mul(b.add(square, n), I64(2)))


BY_LAPACK = {"complex_slogdet": _slogdet, "complex_eigh": _eigh}
