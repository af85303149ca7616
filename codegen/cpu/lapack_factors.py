"""Decompositions by LAPACK inside the kernel: eigenvalues, singular values, QR.

LAPACK gets what NumPy gives it, a matrix in column-major order, so that signs of vectors are NumPy's.  The rows of the
table pack the results as LAPACK writes them.  Where it finds none (``info``), the result is all NaN.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from .scalar import I32, I64


def _columns_first(m: Any, target: ir.Value, rows: ir.Value, columns: ir.Value) -> None:
    """Write the first operand, (rows, columns), to *target* in column-major order."""
    with m.each(rows) as i, m.each(columns) as j:
        m.b.store(m.load(m.at(m.ins[0], i, columns, j)), m.at(target, j, rows, i))


def _with_work(m: Any, name: str, *args: Any, after: tuple[Any, ...] = ()) -> ir.Value:
    """``info`` of LAPACK's *name*, which takes its workspace and the length of that behind *args*; it is asked for the
    length first."""
    query = m.entry.alloca(m.kind)
    m.b.store(m.number(1), query)
    m.call(name, *args, query, -1, *after)
    length = m.b.fptosi(m.load(query), I64)
    return m.call(name, *args, m.work(length), length, *after)


def nan_unless_found(m: Any, info: ir.Value, count: ir.Value) -> None:
    with m.b.if_then(m.b.icmp_signed("!=", info, I32(0))):
        m.fill(m.out, count, float("nan"))


def _least(m: Any, x: ir.Value, y: ir.Value) -> ir.Value:
    return m.b.select(m.b.icmp_signed("<", x, y), x, y)


def _eigh(m: Any) -> None:
    b, n = m.b, m.size(0, -1)
    square = b.mul(n, n)
    uplo, values = "L" if m.params["lower"] else "U", m.at(m.out, square)
    count = b.add(b.mul(n, I64(10)), I64(3))
    after = (m.integers(count), count)
    if m.params["driver"] == "syevd":
        _columns_first(m, m.out, n, n)
        info = _with_work(m, "syevd", "V", uplo, n, m.out, n, values, after=after)
    elif m.params["driver"] == "syevr":
        a, found, zero = m.work(square), m.integers(b.mul(n, I64(2))), m.number(0)
        _columns_first(m, a, n, n)
        info = _with_work(
            m, "syevr", "V", "A", uplo, n, a, n, zero, zero, 1, 1, zero, m.entry.alloca(I32), values, m.out, n, found,
            after=after,
        )  # fmt: skip
    else:
        beside = m.work(n)
        with m.each(n) as i:
            place = m.at(m.ins[0], i, b.add(n, I64(1)))
            b.store(m.load(place), m.at(values, i))
            with b.if_then(b.icmp_signed("<", b.add(i, I64(1)), n)):
                b.store(m.load(m.at(place, n if m.params["lower"] else I64(1))), m.at(beside, i))
        info = _with_work(m, "stevd", "V", n, values, beside, m.out, n, after=after)
    nan_unless_found(m, info, b.add(square, n))


def _eig(m: Any) -> None:
    b, n = m.b, m.size(0, -1)
    square = b.mul(n, n)
    a = m.work(square)
    _columns_first(m, a, n, n)
    values = m.at(m.out, square)
    info = _with_work(m, "geev", "N", "V", n, a, n, values, m.at(values, n), a, 1, m.out, n)
    nan_unless_found(m, info, b.add(square, b.add(n, n)))


def _svd(m: Any) -> None:
    b, rows, columns = m.b, m.size(0, -2), m.size(0, -1)
    k = _least(m, rows, columns)
    whole = m.params["whole"]
    a = m.work(b.mul(rows, columns))
    _columns_first(m, a, rows, columns)
    of_u, of_v = (rows, columns) if whole else (k, k)
    vh = m.at(m.out, b.mul(rows, of_u))
    values = m.at(vh, b.mul(of_v, columns))
    integers = m.integers(b.mul(k, I64(8)))
    info = _with_work(
        m, "gesdd", "A" if whole else "S", rows, columns, a, rows, values, m.out, rows, vh, of_v, after=(integers,)
    )
    nan_unless_found(m, info, b.add(b.add(b.mul(rows, of_u), b.mul(of_v, columns)), k))


def _qr(m: Any) -> None:
    b, rows, columns = m.b, m.size(0, -2), m.size(0, -1)
    k = _least(m, rows, columns)
    of_q = rows if m.params["whole"] else k
    factors, tau = m.work(b.mul(rows, columns)), m.work(k)
    _columns_first(m, factors, rows, columns)
    _with_work(m, "geqrf", rows, columns, factors, rows, tau)
    r = m.at(m.out, b.mul(of_q, rows))
    with m.each(of_q) as i, m.each(columns) as j:
        upper = b.and_(b.icmp_signed("<=", i, j), b.icmp_signed("<", i, k))
        place = m.at(factors, b.select(upper, b.add(b.mul(j, rows), i), I64(0)))
        b.store(b.select(upper, m.load(place), m.number(0)), m.at(r, i, columns, j))
    m.copy(factors, m.out, b.mul(k, rows))
    _with_work(m, "orgqr", rows, of_q, k, m.out, rows, tau)


BY_LAPACK = {"eigh": _eigh, "eig": _eig, "svd": _svd, "qr": _qr}
