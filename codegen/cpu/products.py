"""Matrix products by BLAS, and their division among threads.

BLAS is the one that NumPy is linked with (``symbols.py``).  A row-major product C = A B is the column-major
C' = B' A'.  At small products OpenBLAS is half as fast where B lies transposed (42 GFlop/s for (250, 10) (200, 10)',
70 for (250, 10) (10, 200)): a small B is copied then (``_turned``).

A product is *narrow* where two of its three sizes are small.  It is done in tiles of 64 x 64 x 64: OpenBLAS multiplies
such matrices where they lie and in one thread, while it copies the operands of larger products, which takes longer than
to multiply them.  Chunks are ranges of the long size, so bits depend neither on our threads nor on BLAS's.  Other large
products are BLAS's, with its own threads.  A batch of small matrices is divided by matrices.

How many times as fast as one call tiles are, one thread, float64 (one core of a Xeon, family 6 model 167):

    ==============================  =====  ==============================  =====
    (250, 10000) (10000, 10)         2.1   (250, 10) (10000, 10)'           0.9
    (10000, 100) (100, 100)          1.5   (6250, 64) (64, 64)'             0.85
    (100, 10000) (10000, 100)        1.5   (4000, 100) (100, 100)'          0.8
    (64, 64) (64, 6250)              1.1   (32, 10) (12500, 10)'            0.95
    (1562, 160) (160, 256)           1.0   (12500, 10) (32, 10)'            1.6
    (160, 160) (160, 2500)           0.85  (1000, 1000) (1000, 1000)        0.8
    ==============================  =====  ==============================  =====
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce

import llvmlite.ir as ir
import numpy as np

from ..lower.canonical import CanonicalOp, Dim, Sym
from .divided import CHUNK_WORK, PARTS, DividedWork, Own, once_in_a_chunk, total_function
from .scalar import I1, I8, I64, PTR, cell, constant, counting, declare, least, memory_type, ranging
from .symbols import blas_symbol

SIDE = 64  # of a tile
OF_ONE_THREAD = 1 << 18  # multiplications up to which OpenBLAS uses one thread
NARROW = {False: 1 << 14, True: 1 << 12}  # the product of the two smaller sizes, by whether B is transposed
TURNED_ROWS = 64  # of A from which on it is worth it to transpose a small B before BLAS sees it
MOST_TURNED = 1 << 13  # elements of such a B
SMALL_PRODUCT = 1_000_000  # multiplications up to which OpenBLAS leaves its operands where they are
LONG_PRODUCT = 1 << 24  # multiplications of a product that lets go of the GIL: some 1 ms
MATRIX_WORK = 500  # flops, about, of a call for a matrix of a batch
ARGUMENTS = [*[PTR] * 3, *[I64] * 4, *[I1] * 2]  # x, y, out, m, n, k, batch, whether x and y are transposed
ROWS, COLUMNS, SUMS, BATCH, ELEMENTS = range(5)  # what is divided; the first four are the sizes of a product, too


@dataclass(frozen=True, slots=True)
class ProductKind:
    """A kind of products; *zeros*: a factor 0 makes a term 0."""

    dtype: np.dtype
    zeros: bool

    @staticmethod
    def of(op: CanonicalOp) -> ProductKind:
        return ProductKind(op.out.dtype, op.prim.name == "matmulz")

    def function(self, module: ir.Module, name: str, result: ir.Type, *args: ir.Type) -> ir.Function:
        """The function called *name* for this kind; a declaration, if it has no body so far."""
        name = f"tg_{name}_{self.dtype.char}{'z' * self.zeros}"
        function = declare(module, name, result, *args)
        once_in_a_chunk(function)
        return function


class _Writer:
    """Writes one function of a *product*, whose arguments begin with x, y, out, the sizes, and whether x and y are
    transposed (one function serves all, as it runs once in a chunk)."""

    def __init__(self, function: ir.Function, product: ProductKind):
        function.linkage = "internal"
        self.product, self.kind, self.module = product, memory_type(product.dtype), function.module
        self.entry = ir.IRBuilder(function.append_basic_block("entry"))
        self.b = ir.IRBuilder(function.append_basic_block("start"))
        self.x, self.y, self.out, *self.sizes = function.args[:7]
        self.m, self.n, self.k, self.batch = self.sizes
        self.ta, self.tb, *self.rest = function.args[7:]

    def done(self, answer: ir.Value | None = None) -> None:
        if answer is None:
            self.b.ret_void()
        else:
            self.b.ret(answer)
        self.entry.branch(self.b.function.blocks[1])

    def at(self, base: ir.Value, *terms: ir.Value) -> ir.Value:
        """The address of the element of *base* whose number is the sum of *terms*."""
        return self.b.gep(base, [reduce(self.b.add, terms)], source_etype=self.kind)

    def matrices(self, i: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """x, y and out of number *i* of the batch."""
        b, m, n, k = self.b, self.m, self.n, self.k
        spans = [b.mul(m, k), b.mul(k, n), b.mul(m, n)]
        first, second, third = [
            self.at(p, b.mul(i, span)) for p, span in zip((self.x, self.y, self.out), spans, strict=True)
        ]
        return first, second, third

    def gemm(self, places: Sequence[ir.Value], sizes: Sequence[ir.Value], more: ir.Value) -> None:
        """One call of BLAS for these places and sizes of parts of the product; *more*: out is added to."""
        b = self.b
        leading = [b.select(self.ta, self.m, self.k), b.select(self.tb, self.k, self.n), self.n]
        b.call(_gemm(self.module, self.product), [*places, *sizes, *leading, self.ta, self.tb, more])


def _gemm(module: ir.Module, product: ProductKind) -> ir.Function:
    """``(x, y, out, m, n, k, leading sizes of the three, which are transposed, add)``: a call of BLAS, whose arguments
    are in memory."""
    function = product.function(module, "gemm", ir.VoidType(), *[PTR] * 3, *[I64] * 6, *[I1] * 3)
    if not function.is_declaration:
        return function
    function.linkage = "internal"
    x, y, out, m, n, k, *leading, ta, tb, more = function.args
    b = ir.IRBuilder(function.append_basic_block())
    y, leading[1], tb = _turned(b, product, y, (m, n, k), leading[1], tb)
    name = "dgemm" if product.dtype.itemsize == 8 else "sgemm"
    gemm = declare(module, blas_symbol(name), ir.VoidType(), *[PTR] * 13)
    letters = [cell(b, b, b.select(turned, I8(ord("T")), I8(ord("N")))) for turned in (tb, ta)]
    one, zero = [constant(product.dtype, value) for value in (1, 0)]
    sizes = [cell(b, b, v) for v in (n, m, k)]
    ldx, ldy, ldc = [cell(b, b, b.select(b.icmp_signed(">", v, I64(1)), v, I64(1))) for v in leading]
    b.call(gemm, [*letters, *sizes, cell(b, b, one), y, ldy, x, ldx, cell(b, b, b.select(more, one, zero)), out, ldc])
    b.ret_void()
    return function


def _turned(
    b: ir.IRBuilder, product: ProductKind, y: ir.Value, sizes: Sequence[ir.Value], ldy: ir.Value, tb: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """y, its leading size, and whether it lies transposed, for BLAS: OpenBLAS is slow at small products with such a
    factor, so that one is copied where that is worth it."""
    (m, n, k), kind = sizes, memory_type(product.dtype)
    short, long = least(b, n, k), _largest(b, n, k)
    tests = [
        tb, b.icmp_signed(">=", m, I64(TURNED_ROWS)), b.icmp_signed("<", short, I64(SIDE)),
        b.icmp_signed("<=", b.mul(n, k), I64(MOST_TURNED)),
        b.icmp_signed("<=", b.mul(m, b.mul(n, k)), I64(SMALL_PRODUCT)),
    ]  # fmt: skip
    if product.dtype.itemsize == 4:
        tests.append(b.icmp_signed(">=", long, I64(SIDE)))
    room = b.alloca(kind, MOST_TURNED)
    turns = reduce(b.and_, tests)
    with b.if_then(turns):
        step = I64(1)
        with ranging(b, I64(0), k, step) as i, ranging(b, I64(0), n, step) as j:
            value = b.load(b.gep(y, [b.add(b.mul(j, ldy), i)], source_etype=kind), typ=kind)
            b.store(value, b.gep(room, [b.add(b.mul(i, n), j)], source_etype=kind))
    return b.select(turns, room, y), b.select(turns, n, ldy), b.and_(tb, b.not_(turns))


def _tiles(module: ir.Module, product: ProductKind) -> ir.Function:
    """``(x, y, out, sizes, axis, low, high)``: that range of tiles along the axis, or of the matrices of a batch."""
    function = product.function(module, "tiles", ir.VoidType(), *ARGUMENTS, *[I64] * 3)
    if not function.is_declaration:
        return function
    w = _Writer(function, product)
    b, (axis, low, high) = w.b, w.rest
    with b.if_else(b.icmp_signed("==", axis, I64(BATCH))) as (whole, parts):
        with whole, ranging(b, low, high, I64(1)) as i:
            w.gemm(w.matrices(i), w.sizes[:BATCH], I1(False))
        with parts:
            begin, end = b.mul(low, I64(SIDE)), b.mul(high, I64(SIDE))
            ranges = []
            for number, size in enumerate(w.sizes[:BATCH]):
                here = b.icmp_signed("==", axis, I64(number))
                ranges.append((b.select(here, begin, I64(0)), b.select(here, least(b, end, size), size), I64(SIDE)))
            rows, columns, sums = ranges
            with ranging(b, *rows) as i, ranging(b, *columns) as j, ranging(b, *sums) as t:
                x = b.select(w.ta, w.at(w.x, b.mul(t, w.m), i), w.at(w.x, b.mul(i, w.k), t))
                y = b.select(w.tb, w.at(w.y, b.mul(j, w.k), t), w.at(w.y, b.mul(t, w.n), j))
                ends = zip((i, j, t), ranges, strict=True)
                sides = [least(b, I64(SIDE), b.sub(end, start)) for start, (_, end, _) in ends]
                w.gemm([x, y, w.at(w.out, b.mul(i, w.n), j)], sides, b.icmp_signed(">", t, sums[0]))
    w.done()
    return function


def _elements(module: ir.Module, product: ProductKind) -> ir.Function:
    """``(x, y, out, sizes, axis, low, high)``: what is no number among these elements of out is added up anew, with
    terms 0 where a factor is 0."""
    function = product.function(module, "elements", ir.VoidType(), *ARGUMENTS, *[I64] * 3)
    if not function.is_declaration:
        return function
    w = _Writer(function, product)
    _, low, high = w.rest
    with ranging(w.b, low, high, I64(1)) as place:
        at = w.at(w.out, place)
        found = w.b.load(at, typ=w.kind)
        with w.b.if_then(w.b.fcmp_unordered("uno", found, found), likely=False):
            operands, sizes = (w.x, w.y, w.ta, w.tb), (w.m, w.n, w.k)
            w.b.store(element(w.b, w.entry, product, operands, sizes, place), at)
    w.done()
    return function


def element(
    b: ir.IRBuilder, entry: ir.IRBuilder, product: ProductKind, operands: Sequence[ir.Value], sizes: Sequence[ir.Value],
    place: ir.Value,
) -> ir.Value:  # fmt: skip
    """Element number *place* of a product, as a sum of terms in the order of the inner axis. *operands*: where the two
    are, and whether they are transposed; *sizes*: m, n, k."""
    (px, py, ta, tb), (m, n, k), kind = operands, sizes, memory_type(product.dtype)
    column, rest = b.urem(place, n), b.udiv(place, n)
    row, batch = b.urem(rest, m), b.udiv(rest, m)
    # the first element of the row and of the column, and how far it is to the next one
    at_x = b.add(b.mul(batch, b.mul(m, k)), b.select(ta, row, b.mul(row, k)))
    at_y = b.add(b.mul(batch, b.mul(k, n)), b.select(tb, b.mul(column, k), column))
    step_x, step_y = b.select(ta, m, I64(1)), b.select(tb, I64(1), n)
    zero = constant(product.dtype, 0)
    total = cell(entry, b, zero)
    with counting(b, k) as i:
        one = b.load(b.gep(px, [b.add(at_x, b.mul(i, step_x))], source_etype=kind), typ=kind)
        other = b.load(b.gep(py, [b.add(at_y, b.mul(i, step_y))], source_etype=kind), typ=kind)
        term = b.fmul(one, other)
        if product.zeros:
            none = b.or_(b.fcmp_ordered("==", one, zero), b.fcmp_ordered("==", other, zero))
            term = b.select(none, zero, term)
        b.store(b.fadd(b.load(total, typ=kind), term), total)
    return b.load(total, typ=kind)


def product_function(module: ir.Module, product: ProductKind, divides: bool, has_gil: bool) -> ir.Function:
    """``(x, y, out, m, n, k, batch, ta, tb)``: products of m x k and k x n matrices, one after the other in memory;
    *ta*, *tb*: they lie there transposed. It returns what ends the kernel, or -1.

    *divides*: among threads; *has_gil*: whether the GIL is held there."""
    name = "product" + "_divided" * divides + "_gil" * has_gil
    function = product.function(module, name, I64, *ARGUMENTS)
    if not function.is_declaration:
        return function
    w = _Writer(function, product)
    b, (m, n, k, batch), tiles = w.b, w.sizes, _tiles(module, product)
    elements, each = b.mul(m, n), b.mul(b.mul(m, n), k)

    def run(axis: ir.Value, count: ir.Value, work: ir.Value, part: ir.Function, sums: bool = False) -> None:
        if divides:
            _DividedProduct(w, axis, count, work, part, sums).emit()
        else:
            b.call(part, [w.x, w.y, w.out, *w.sizes, w.ta, w.tb, axis, I64(0), count])

    with b.if_then(b.icmp_signed("==", elements, I64(0)), likely=False):
        b.ret(I64(-1))
    with b.if_else(b.icmp_signed("<=", each, I64(OF_ONE_THREAD))) as (small, large):
        with small:
            run(I64(BATCH), batch, batch_work(b, batch, each), tiles)
        with large:
            longest, narrow = _longest_of(b, (m, n, k), w.tb)
            pieces = b.udiv(b.add(longest, I64(SIDE - 1)), I64(SIDE))
            first = w.x, w.y, w.out
            with counting(b, batch) as i:
                w.x, w.y, w.out = w.matrices(i)
                with b.if_else(narrow) as (in_tiles, whole):
                    with in_tiles, b.if_else(b.icmp_signed("==", longest, k)) as (of_sums, of_others):
                        with of_sums:
                            run(I64(SUMS), pieces, b.mul(each, I64(2)), tiles, sums=True)
                        with of_others:
                            axis = b.select(b.icmp_signed("==", longest, m), I64(ROWS), I64(COLUMNS))
                            run(axis, pieces, b.mul(each, I64(2)), tiles)
                    with whole, _without_gil(w, each, has_gil):
                        w.gemm([w.x, w.y, w.out], [m, n, k], I1(False))
                w.x, w.y, w.out = first
    if product.zeros:
        count = b.mul(batch, elements)
        run(I64(ELEMENTS), count, b.mul(count, I64(2)), _elements(module, product))
    w.done(I64(-1))
    return function


def _longest_of(b: ir.IRBuilder, sizes: Sequence[ir.Value], tb: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(the longest of m, n, k, whether such a product is narrow)"""
    longest = reduce(partial(_largest, b), sizes, I64(1))
    others = b.udiv(reduce(b.mul, sizes), longest)
    return longest, b.icmp_signed("<=", others, b.select(tb, I64(NARROW[True]), I64(NARROW[False])))


def batch_work(b: ir.IRBuilder, batch: ir.Value, each: ir.Value) -> ir.Value:
    """Flops, about, of a batch of calls with *each* so many multiplications."""
    return b.mul(batch, b.add(b.mul(each, I64(2)), I64(MATRIX_WORK)))


def product_work(
    b: ir.IRBuilder, batch: ir.Value, sizes: Sequence[ir.Value], tb: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """(flops of a batch of products of the *sizes* m, n, k; whether each is done in one thread)"""
    each, (_, narrow) = reduce(b.mul, sizes), _longest_of(b, sizes, tb)
    alone = b.or_(narrow, b.icmp_signed("<=", each, I64(OF_ONE_THREAD)))
    return batch_work(b, batch, each), alone


def _largest(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed(">", x, y), x, y)


@contextmanager
def _without_gil(w: _Writer, work: ir.Value, has_gil: bool) -> Iterator[None]:
    """A context in which other threads of Python run, where there is *work* for long enough."""
    if not has_gil:
        yield
        return
    b, long, state = w.b, w.b.icmp_signed(">=", work, I64(LONG_PRODUCT)), w.entry.alloca(PTR)
    with b.if_then(long, likely=False):
        b.store(b.call(declare(w.module, "PyEval_SaveThread", PTR), []), state)
    yield
    with b.if_then(long, likely=False):
        b.call(declare(w.module, "PyEval_RestoreThread", ir.VoidType(), PTR), [b.load(state, typ=PTR)])


class _DividedProduct(DividedWork):
    """Parts of a product along an *axis*, by a *function* as ``_tiles`` and ``_elements`` are."""

    def __init__(
        self, w: _Writer, axis: ir.Value, n: ir.Value, work: ir.Value, function: ir.Function, sums: bool
    ):  # fmt: skip
        """*sums*: the axis is theirs, and what chunks add up is put together."""
        super().__init__(w.b, w.entry, {})
        self.args, self.sizes = [w.x, w.y, w.out, *w.sizes, w.ta, w.tb, axis], w.sizes
        self.n, self._work, self.function = n, work, function
        self.out = Sym(0, w.product.dtype, (ROWS, COLUMNS))
        self.totals = [Own(self.out, self.out.dims, w.product.dtype.itemsize)] if sums else []

    def count(self, dims: Sequence[Dim]) -> ir.Value:
        return reduce(self.b.mul, [self.sizes[d] for d in dims])

    def work(self) -> ir.Value:
        return self._work

    def least_work(self) -> ir.Value:
        b = self.b
        return reduce(b.add, [b.mul(I64(PARTS), self.count(x.dims)) for x in self.totals], I64(CHUNK_WORK))

    def call(self, b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> None:
        b.call(self.function, [*self.args, low, high])

    def words(self, totals: dict[Sym, ir.Value], private: dict[Sym, ir.Value]) -> list[ir.Value]:
        x, y, out, *rest = self.args
        return [x, y, totals.get(self.out, out), *rest]

    def chunk(
        self, b: ir.IRBuilder, words: list[ir.Value], low: ir.Value, high: ir.Value, total: ir.Value, own: ir.Value
    ) -> None:
        x, y, out, *rest = words
        b.call(self.function, [x, y, b.gep(out, [total], source_etype=I8), *rest, low, high])

    def likeness(self) -> str:
        return self.function.name

    def put_together(self, parts: dict[Sym, ir.Value], chunks: ir.Value, stride: ir.Value) -> None:
        for x in self.totals:
            together = total_function(self.b.module, "reduce_sum", x.sym.dtype, many=True)
            self.b.call(together, [parts[x.sym], stride, chunks, self.args[2], self.count(x.dims)])
