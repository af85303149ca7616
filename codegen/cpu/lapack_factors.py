"""Decompositions by LAPACK inside the kernel: eigenvalues, singular values, QR.

LAPACK gets what NumPy gives it, a matrix in column-major order, so that signs and phases of vectors are NumPy's.  The
rows of the table pack the results as LAPACK writes them.  Where it finds none (``info``), the result is all NaN.

Complex matrices are rows of numbers, (..., m, 2 n): the real and the imaginary part one beside the other, as LAPACK has
them.  Their primitives are written by the same functions: ``m.at``, ``m.work`` and ``m.copy`` count numbers, and so
do sizes; ``m.part`` counts parts of numbers.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir as ir

from .scalar import I32, I64, declare, least


def _columns_first(m: Any, target: ir.Value, rows: ir.Value, columns: ir.Value) -> None:
    """Write the first operand, (rows, columns), to *target* in column-major order."""
    with m.each(rows) as i, m.each(columns) as j:
        m.copy(m.at(m.ins[0], i, columns, j), m.at(target, j, rows, i), I64(1))


def _with_work(m: Any, name: str, *args: Any, after: tuple[Any, ...] = ()) -> ir.Value:
    """``info`` of LAPACK's *name*, which takes its workspace and the length of that behind *args*; it is asked for the
    length first."""
    query = m.entry.alloca(m.kind, 2)
    m.b.store(m.number(1), query)
    m.call(name, *args, query, -1, *after)
    length = m.b.fptosi(m.load(query), I64)
    return m.call(name, *args, m.work(length), length, *after)


def _nan_unless_found(m: Any, info: ir.Value, numbers: ir.Value, parts: ir.Value) -> None:
    """Fill *numbers*, and then *parts* of some, with NaN."""
    with m.b.if_then(m.b.icmp_signed("!=", info, I32(0))):
        m.fill(m.out, m.b.add(m.b.mul(numbers, I64(m.parts)), parts), float("nan"))


def _eigh(m: Any) -> None:
    b, n = m.b, m.size(0, -2)
    square = b.mul(n, n)
    uplo, values = "L" if m.params["lower"] else "U", m.at(m.out, square)
    m.fill(values, b.mul(n, I64(m.parts)), 0)
    count = b.add(b.mul(n, I64(10)), I64(3))
    after: tuple[Any, ...] = (m.integers(count), count)
    driver, job = m.params["driver"], "V" if m.params["vectors"] else "N"
    if m.parts == 2:
        driver = {"syevd": "heevd", "syevr": "heevr"}[driver]
        length = b.add(b.add(b.mul(square, I64(2)), b.mul(n, I64(24))), I64(1))
        after = (m.real_work(length), length, *after)
    if driver in ("syevd", "heevd"):
        _columns_first(m, m.out, n, n)
        info = _with_work(m, driver, job, uplo, n, m.out, n, values, after=after)
    elif driver in ("syevr", "heevr"):
        a, found, zero = m.work(square), m.integers(b.mul(n, I64(2))), m.number(0)
        _columns_first(m, a, n, n)
        info = _with_work(
            m, driver, job, "A", uplo, n, a, n, zero, zero, 1, 1, zero, m.entry.alloca(I32), values, m.out, n, found,
            after=after,
        )  # fmt: skip
    else:
        beside = m.work(n)
        with m.each(n) as i:
            place = m.at(m.ins[0], i, b.add(n, I64(1)))
            b.store(m.load(place), m.at(values, i))
            with b.if_then(b.icmp_signed("<", b.add(i, I64(1)), n)):
                b.store(m.load(m.at(place, n if m.params["lower"] else I64(1))), m.at(beside, i))
        info = _with_work(m, driver, job, n, values, beside, m.out, n, after=after)
    if not m.params["vectors"]:
        m.fill(m.out, b.mul(square, I64(m.parts)), float("nan"))
    _nan_unless_found(m, info, square, b.mul(n, I64(m.parts)))


def _eig(m: Any) -> None:
    """Real and imaginary parts of eigenvalues stand apart."""
    b, n = m.b, m.size(0, -2)
    square = b.mul(n, n)
    a = m.work(square)
    _columns_first(m, a, n, n)
    values = m.at(m.out, square)
    if m.parts == 1:
        info = _with_work(m, "geev", "N", "V", n, a, n, values, m.at(values, n), a, 1, m.out, n)
    else:
        found, real = m.work(n), m.real_work(b.mul(n, I64(2)))
        info = _with_work(m, "geev", "N", "V", n, a, n, found, a, 1, m.out, n, after=(real,))
        with m.each(n) as i, m.each(I64(2)) as k:
            b.store(m.load(m.part(m.at(found, i), k)), m.part(values, b.add(b.mul(k, n), i)))
    _nan_unless_found(m, info, square, b.mul(n, I64(2)))


def _svd(m: Any) -> None:
    b, rows, columns = m.b, m.size(0, -2), m.size(0, -1)
    k = least(m.b, rows, columns)
    whole = m.params["whole"]
    a = m.work(b.mul(rows, columns))
    _columns_first(m, a, rows, columns)
    of_u, of_v = (rows, columns) if whole else (k, k)
    vh = m.at(m.out, b.mul(rows, of_u))
    values = m.at(vh, b.mul(of_v, columns))
    after = [m.integers(b.mul(k, I64(8)))]
    if m.parts == 2:
        most = b.add(rows, columns)  # as large as the larger one
        after.insert(0, m.real_work(b.mul(k, b.add(b.mul(I64(5), b.add(most, k)), I64(7)))))
    if not m.params["vectors"]:
        m.fill(m.out, b.mul(b.add(b.mul(rows, of_u), b.mul(of_v, columns)), I64(m.parts)), float("nan"))
    args = (
        "N" if not m.params["vectors"] else "A" if whole else "S",
        rows,
        columns,
        a,
        rows,
        values,
        m.out,
        rows,
        vh,
        of_v,
    )
    info = _with_work(m, "gesdd", *args, after=tuple(after))
    _nan_unless_found(m, info, b.add(b.mul(rows, of_u), b.mul(of_v, columns)), k)


def _qr(m: Any) -> None:
    b, rows, columns = m.b, m.size(0, -2), m.size(0, -1)
    k = least(m.b, rows, columns)
    of_q = rows if m.params["whole"] else k
    factors, tau = m.work(b.mul(rows, columns)), m.work(k)
    _columns_first(m, factors, rows, columns)
    _with_work(m, "geqrf", rows, columns, factors, rows, tau)
    r = m.at(m.out, b.mul(of_q, rows))
    m.fill(r, b.mul(b.mul(of_q, columns), I64(m.parts)), 0)
    with m.each(k) as i, m.each(columns) as j, b.if_then(b.icmp_signed("<=", i, j)):
        m.copy(m.at(factors, j, rows, i), m.at(r, i, columns, j), I64(1))
    m.copy(factors, m.out, b.mul(k, rows))
    _with_work(m, "orgqr" if m.parts == 1 else "ungqr", rows, of_q, k, m.out, rows, tau)


def _complex_lu(m: Any) -> None:
    """L and U row by row, then the interchanges."""
    b, n = m.b, m.size(0, -2)
    square = b.mul(n, n)
    factors, pivots, last = m.work(square), m.integers(n), m.at(m.out, square)
    _columns_first(m, factors, n, n)
    m.call("getrf", n, n, factors, n, pivots)
    m.fill(last, b.mul(n, I64(2)), 0)
    with m.each(n) as i:
        pivot = b.sub(b.load(b.gep(pivots, [i], source_etype=I32), typ=I32), I32(1))
        b.store(b.sitofp(pivot, m.kind), m.part(last, i))
        with m.each(n) as j:
            m.copy(m.at(factors, j, n, i), m.at(m.out, i, n, j), I64(1))


def _complex_slogdet(m: Any) -> None:
    """The sign and the logarithm of the size.  Pivots are divided by their larger part before they are squared."""
    b, n, zero, one = m.b, m.size(0, -2), m.number(0), m.number(1)
    suffix = "f64" if m.wide else "f32"

    def call(name: str, x: ir.Value) -> ir.Value:
        return b.call(declare(b.module, f"llvm.{name}.{suffix}", m.kind, m.kind), [x])

    factors, pivots = m.work(b.mul(n, n)), m.integers(n)
    m.copy(m.ins[0], factors, b.mul(n, n))
    m.call("getrf", n, n, factors, n, pivots)
    cells = [m.part(m.out, I64(k)) for k in range(3)]
    for cell, value in zip(cells, (one, zero, zero), strict=True):
        b.store(value, cell)
    with m.each(n) as i:
        place = m.at(factors, i, b.add(n, I64(1)))
        pivot = [m.load(m.part(place, I64(k))) for k in range(2)]
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


def _sylvester(m: Any) -> None:
    """By the Schur forms of the transposes, as which LAPACK sees the operands."""
    b, n, k = m.b, m.size(0, -1), m.size(1, -1)
    one, zero, forms = m.number(1), m.number(0), []
    for source, size in zip(m.ins, (n, k), strict=False):
        square = b.mul(size, size)
        form, basis, values = m.work(square), m.work(square), m.work(b.mul(size, I64(2)))
        m.copy(source, form, square)
        unused = m.integers(size)
        _with_work(
            m, "gees", "V", "N", unused, size, form, size, m.entry.alloca(I32), values, m.at(values, size), basis, size,
            after=(unused,),
        )  # fmt: skip
        forms.append((form, basis))
    (a, of_a), (c, of_c) = forms
    inner, scale = m.work(b.mul(n, k)), m.entry.alloca(m.kind)
    b.store(one, scale)
    m.blas("gemm", "N", "N", k, n, n, one, m.ins[2], k, of_a, n, zero, inner, k)
    m.blas("gemm", "T", "N", k, n, k, one, of_c, k, inner, k, zero, m.out, k)
    m.call("trsyl", "N", "N", 1, k, n, c, k, a, n, m.out, k, scale)
    m.blas("gemm", "N", "N", k, n, k, b.fdiv(one, m.load(scale)), of_c, k, m.out, k, zero, inner, k)
    m.blas("gemm", "N", "T", k, n, n, one, inner, k, of_a, n, zero, m.out, k)


def _pivots(m: Any) -> None:
    b, rows, columns = m.b, m.size(0, -2), m.size(0, -1)
    a, k = m.work(b.mul(rows, columns)), least(m.b, rows, columns)
    _columns_first(m, a, rows, columns)
    by_columns = m.params["by"] == "geqp3"
    found = m.integers(columns if by_columns else k)

    def place(i: ir.Value) -> ir.Value:
        return b.gep(found, [i], source_etype=I32)

    def number(i: ir.Value) -> ir.Value:
        return b.sub(b.load(place(i), typ=I32), I32(1))

    if by_columns:
        with m.each(columns) as j:
            b.store(I32(0), place(j))
        _with_work(m, "geqp3", rows, columns, a, rows, found, m.work(k))
        with m.each(columns) as j:
            b.store(b.sitofp(number(j), m.kind), m.at(m.out, j))
        return
    m.call("getrf", rows, columns, a, rows, found)
    with m.each(rows) as i:
        b.store(b.sitofp(i, m.kind), m.at(m.out, i))
    with m.each(k) as i:
        m.swap(m.at(m.out, i), m.at(m.out, b.sext(number(i), I64)), I64(1), I64(1))


_BOTH = {"eigh": _eigh, "eig": _eig, "svd": _svd, "qr": _qr}  # of real and of complex matrices
BY_LAPACK = {**_BOTH, "sylvester": _sylvester, "pivots": _pivots}
OF_COMPLEX = {
    **{f"complex_{name}": function for name, function in _BOTH.items()},
    "complex_lu": _complex_lu,
    "complex_slogdet": _complex_slogdet,
}
