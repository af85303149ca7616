"""Linear algebra on matrices of at most 8 rows whose size is known: straight-line code in place of LAPACK's.

For each operation, size and dtype a module has one function of the addresses of operands and result.  A row of a
matrix is a vector in registers, and a pivot row is chosen by selects.  Factors are laid out as LAPACK's
(``tracer/ops/linalg.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import llvmlite.ir as ir

from ..lower.canonical import CanonicalOp
from .scalar import I32, PTR, constant, declare, memory_type

LARGEST = 8  # rows and columns


def is_small(op: CanonicalOp, static: Mapping[int, int]) -> bool:
    """Whether *op* is done by such code."""
    return op.prim.name in STRAIGHT and max(_sizes(op, static)) <= LARGEST


def _sizes(op: CanonicalOp, static: Mapping[int, int]) -> list[int]:
    """n, and k where there are right-hand sides (n, k); of a product the result's rows and columns, and the length of
    its sums.  A size that is not known is a large one."""
    dims = [op.ins[0].dims[-1]]
    if op.prim.name == "matmul":
        dims = [*op.out.dims[-2:], op.ins[0].dims[-2 if op.params["ta"] else -1]]
    elif len(op.ins) > 1:
        dims.append(op.ins[1].dims[-2 if op.params.get("right") else -1])
    return [static.get(d, LARGEST + 1) for d in dims]


def small(module: ir.Module, op: CanonicalOp, static: Mapping[int, int]) -> ir.Function:
    """The function that does *op*, which is small, for one matrix."""
    sizes = _sizes(op, static)
    flags = "".join(str(int(flag)) for flag in op.params.values())
    name = f"tg_{op.prim.name}_{op.out.dtype.char}_{'_'.join(map(str, sizes))}_{flags}"
    function = declare(module, name, ir.VoidType(), *[PTR] * (len(op.ins) + 1))
    if function.is_declaration:
        function.linkage = "internal"
        function.attributes.add("nounwind")
        for arg in function.args:
            arg.add_attribute("noalias")
        straight = Straight(function, op, sizes)
        STRAIGHT[op.prim.name](straight)
        straight.b.ret_void()
    return function


class Straight:
    """Writes one function: arithmetic on numbers and on rows (vectors), which need not be told apart."""

    def __init__(self, function: ir.Function, op: CanonicalOp, sizes: Sequence[int]):
        self.b = ir.IRBuilder(function.append_basic_block())
        *self.ins, self.out = function.args
        self.sizes, self.n, self.k = sizes, sizes[0], sizes[-1]
        self.params, self.dtype, self.kind = op.params, op.out.dtype, memory_type(op.out.dtype)
        self.suffix = "f64" if self.dtype.itemsize == 8 else "f32"

    # ---- memory --------------------------------------------------------------------------------------------------

    def _at(self, place: ir.Value, offset: int) -> ir.Value:
        return self.b.gep(place, [I32(offset)], source_etype=self.kind)

    def load(self, place: ir.Value, offset: int) -> ir.Value:
        return self.b.load(self._at(place, offset), typ=self.kind)

    def row(self, place: ir.Value, offset: int, length: int) -> ir.Value:
        """Elements from *offset* on; one of them is a number."""
        kind = ir.VectorType(self.kind, length) if length > 1 else self.kind
        return self.b.load(self._at(place, offset), typ=kind, align=self.dtype.itemsize)

    def store(self, value: ir.Value, offset: int) -> None:
        self.b.store(value, self._at(self.out, offset), align=self.dtype.itemsize)

    def store_rows(self, rows: Sequence[ir.Value]) -> None:
        for i, row in enumerate(rows):
            self.store(row, i * self.k)

    def column(self, place: ir.Value, j: int, n: int, k: int) -> ir.Value:
        """Column *j* of the matrix (k, n) at *place*."""
        if k == 1:
            return self.load(place, j)
        value: ir.Value = ir.Constant(ir.VectorType(self.kind, k), ir.Undefined)
        for i in range(k):
            value = self.b.insert_element(value, self.load(place, i * n + j), I32(i))
        return value

    # ---- arithmetic ----------------------------------------------------------------------------------------------

    def number(self, value: float) -> ir.Constant:
        return constant(self.dtype, value)

    def unit(self, i: int) -> ir.Value:
        """Row *i* of the unit matrix."""
        values = [self.number(i == j) for j in range(self.n)]
        return ir.Constant(ir.VectorType(self.kind, self.n), values) if self.n > 1 else values[0]

    def part(self, row: ir.Value, j: int) -> ir.Value:
        return self.b.extract_element(row, I32(j)) if isinstance(row.type, ir.VectorType) else row

    def _like(self, x: ir.Value, row: ir.Value) -> ir.Value:
        """The number *x* in each element of what is like *row*."""
        if not isinstance(row.type, ir.VectorType):
            return x
        b, kind = self.b, row.type
        first = b.insert_element(ir.Constant(kind, ir.Undefined), x, I32(0))
        same = ir.Constant(ir.VectorType(I32, kind.count), [I32(0)] * kind.count)
        return b.shuffle_vector(first, ir.Constant(kind, ir.Undefined), same)

    def minus(self, x: ir.Value, factor: ir.Value, y: ir.Value) -> ir.Value:
        """x - factor * y for rows *x* and *y*."""
        b = self.b
        return b.fsub(x, b.fmul(self._like(factor, y), y, flags=("contract",)), flags=("contract",))

    def plus(self, x: ir.Value, factor: ir.Value, y: ir.Value) -> ir.Value:
        """x + factor * y"""
        b = self.b
        return b.fadd(x, b.fmul(self._like(factor, y), y, flags=("contract",)), flags=("contract",))

    def times(self, row: ir.Value, x: ir.Value) -> ir.Value:
        return self.b.fmul(row, self._like(x, row))

    def over(self, row: ir.Value, x: ir.Value) -> ir.Value:
        return self.b.fdiv(row, self._like(x, row))

    def intrinsic(self, name: str, x: ir.Value) -> ir.Value:
        return self.b.call(declare(self.b.module, f"llvm.{name}.{self.suffix}", self.kind, self.kind), [x])

    def choose(self, rows: list[ir.Value], k: int, other: ir.Value) -> None:
        """Exchange row *k* for row number *other* (i32), which is not before it."""
        b, kept = self.b, rows[k]
        for i in range(k + 1, len(rows)):
            here = b.icmp_signed("==", other, I32(i))
            rows[k] = b.select(here, rows[i], rows[k])
            rows[i] = b.select(here, kept, rows[i])

    def after(self, row: ir.Value, k: int) -> ir.Value:
        """*row* with zeros in place of its elements up to *k*."""
        if not isinstance(row.type, ir.VectorType):
            return self.number(0)
        n = row.type.count
        mask = [I32(j if j > k else n + j) for j in range(n)]
        zeros = ir.Constant(row.type, [self.number(0)] * n)
        return self.b.shuffle_vector(row, zeros, ir.Constant(ir.VectorType(I32, n), mask))

    # ---- factors -------------------------------------------------------------------------------------------------

    def factor(self, i: int, j: int) -> ir.Value:
        """Element (i, j) of L and U."""
        return self.load(self.ins[0], j * self.n + i)

    def interchange(self, k: int) -> ir.Value:
        return self.b.fptosi(self.load(self.ins[0], self.n * self.n + k), I32)

    def moved(self, k: int) -> ir.Value:
        """Whether row *k* was interchanged."""
        return self.b.fcmp_unordered("!=", self.load(self.ins[0], self.n * self.n + k), self.number(k))

    def signed(self, x: ir.Value) -> ir.Value:
        """*x* with the sign of the permutation."""
        for k in range(self.n - 1):
            x = self.b.select(self.moved(k), self.b.fneg(x), x)
        return x


# ---- P L U = A ---------------------------------------------------------------------------------------------------


def _lu(s: Straight) -> None:
    b, n = s.b, s.n
    rows = [s.row(s.ins[0], i * n, n) for i in range(n)]
    for k in range(n):
        best, which = s.intrinsic("fabs", s.part(rows[k], k)), I32(k)
        for i in range(k + 1, n):
            size = s.intrinsic("fabs", s.part(rows[i], k))
            larger = b.fcmp_ordered(">", size, best)
            best, which = b.select(larger, size, best), b.select(larger, I32(i), which)
        s.choose(rows, k, which)
        pivot, tail = s.part(rows[k], k), s.after(rows[k], k)
        divisor = b.select(b.fcmp_ordered("==", pivot, s.number(0)), s.number(1), pivot)
        for i in range(k + 1, n):
            ratio = b.fdiv(s.part(rows[i], k), divisor)
            rows[i] = b.insert_element(s.minus(rows[i], ratio, tail), ratio, I32(k))
        s.store(b.sitofp(which, s.kind), n * n + k)
    for i in range(n):
        for j in range(n):
            s.store(s.part(rows[i], j), j * n + i)


def _solve(s: Straight, rows: list[ir.Value], trans: bool) -> list[ir.Value]:
    """The solutions for right-hand sides *rows*."""
    n = s.n
    if not trans:
        for k in range(n - 1):
            s.choose(rows, k, s.interchange(k))
        for j in range(n):
            for i in range(j + 1, n):
                rows[i] = s.minus(rows[i], s.factor(i, j), rows[j])
        for j in range(n - 1, -1, -1):
            rows[j] = s.over(rows[j], s.factor(j, j))
            for i in range(j):
                rows[i] = s.minus(rows[i], s.factor(i, j), rows[j])
        return rows
    for i in range(n):
        rows[i] = s.over(rows[i], s.factor(i, i))
        for j in range(i + 1, n):
            rows[j] = s.minus(rows[j], s.factor(i, j), rows[i])
    for i in range(n - 1, -1, -1):
        for j in range(i):
            rows[j] = s.minus(rows[j], s.factor(i, j), rows[i])
    for k in range(n - 2, -1, -1):
        s.choose(rows, k, s.interchange(k))
    return rows


def _lu_solve(s: Straight) -> None:
    rows = [s.row(s.ins[1], i * s.k, s.k) for i in range(s.n)]
    s.store_rows(_solve(s, rows, s.params["trans"]))


def _lu_inverse(s: Straight) -> None:
    s.store_rows(_solve(s, [s.unit(i) for i in range(s.n)], False))


def _lu_det(s: Straight) -> None:
    total = s.signed(s.number(1))
    for k in range(s.n):
        total = s.b.fmul(total, s.factor(k, k))
    s.store(total, 0)


def _lu_slogdet(s: Straight) -> None:
    b, zero = s.b, s.number(0)
    sign, log = s.signed(s.number(1)), zero
    for k in range(s.n):
        pivot = s.factor(k, k)
        one = b.select(b.fcmp_ordered("<", pivot, zero), s.number(-1), s.number(1))
        nothing = b.fcmp_unordered("ueq", pivot, zero)  # zero, or NaN
        sign = b.fmul(sign, b.select(nothing, pivot, one))
        log = b.fadd(log, s.intrinsic("log", s.intrinsic("fabs", pivot)))
    s.store(sign, 0)
    s.store(log, 1)


def _lu_adjugate(s: Straight) -> None:
    b, n = s.b, s.n
    u = [s.factor(k, k) for k in range(n)]
    rows = [s.unit(i) for i in range(n)]
    for i in range(n - 2, -1, -1):
        between = s.number(1)
        for k in range(i + 1, n):
            rows[i] = s.minus(rows[i], b.fmul(between, s.factor(i, k)), rows[k])
            between = b.fmul(between, u[k])
    before = s.signed(s.number(1))
    for i in range(n):
        rows[i] = s.times(rows[i], before)
        before = b.fmul(before, u[i])
    after = s.number(1)
    columns = [[s.part(row, j) for row in rows] for j in range(n)]
    for j in range(n - 1, -1, -1):
        columns[j] = [b.fmul(x, after) for x in columns[j]]
        after = b.fmul(after, u[j])
    for j in range(n - 1, -1, -1):  # times the inverse of L, then of the permutation
        for i in range(j):
            columns[i] = [s.minus(x, s.factor(j, i), y) for x, y in zip(columns[i], columns[j], strict=True)]
    for k in range(n - 2, -1, -1):
        other = s.interchange(k)
        for row in range(n):
            line = [column[row] for column in columns]
            s.choose(line, k, other)
            for column, x in zip(columns, line, strict=True):
                column[row] = x
    for j, column in enumerate(columns):
        for i, x in enumerate(column):
            s.store(x, i * n + j)


# ---- triangular matrices, L L.T = A ------------------------------------------------------------------------------


def _solve_triangular(s: Straight) -> None:
    n, k, params = s.n, s.k, s.params
    right, unit = params["right"], params["unit"]
    if right:  # the columns of X, by the transposed matrix
        rows = [s.column(s.ins[1], j, n, k) for j in range(n)]
    else:
        rows = [s.row(s.ins[1], i * k, k) for i in range(n)]
    flipped = params["trans"] != right

    def element(i: int, j: int) -> ir.Value:
        return s.load(s.ins[0], j * n + i if flipped else i * n + j)

    order = range(n) if params["lower"] != flipped else range(n - 1, -1, -1)
    done: list[int] = []
    for i in order:
        for j in done:
            rows[i] = s.minus(rows[i], element(i, j), rows[j])
        if not unit:
            rows[i] = s.over(rows[i], element(i, i))
        done.append(i)
    if right:
        for j, column in enumerate(rows):
            for i in range(k):
                s.store(s.part(column, i), i * n + j)
    else:
        s.store_rows(rows)


def _cholesky(s: Straight) -> None:
    b, n, zero = s.b, s.n, s.number(0)
    found: dict[tuple[int, int], ir.Value] = {}
    failed: ir.Value = ir.Constant(ir.IntType(1), 0)
    for j in range(n):
        square = s.load(s.ins[0], j * n + j)
        for k in range(j):
            square = s.minus(square, found[j, k], found[j, k])
        failed = b.or_(failed, b.fcmp_ordered("<=", square, zero))
        found[j, j] = s.intrinsic("sqrt", square)
        for i in range(j + 1, n):
            value = s.load(s.ins[0], i * n + j)
            for k in range(j):
                value = s.minus(value, found[i, k], found[j, k])
            found[i, j] = b.fdiv(value, found[j, j])
    for i in range(n):
        for j in range(n):
            none = s.number(float("nan") if i or j else float("-inf"))
            s.store(b.select(failed, none, found.get((i, j), zero)), i * n + j)


def _matmul(s: Straight) -> None:
    (x, y), (m, n, inner) = s.ins, s.sizes
    ta, tb = s.params["ta"], s.params["tb"]
    rows = [s.column(y, k, inner, n) if tb else s.row(y, k * n, n) for k in range(inner)]
    for i in range(m):
        total = None
        for k, row in enumerate(rows):
            factor = s.load(x, k * m + i if ta else i * inner + k)
            total = s.times(row, factor) if total is None else s.plus(total, factor, row)
        s.store(total, i * n)


STRAIGHT: dict[str, Callable[[Straight], None]] = {
    "matmul": _matmul,
    "lu": _lu,
    "lu_solve": _lu_solve,
    "lu_inverse": _lu_inverse,
    "lu_det": _lu_det,
    "lu_slogdet": _lu_slogdet,
    "lu_adjugate": _lu_adjugate,
    "solve_triangular": _solve_triangular,
    "cholesky": _cholesky,
}
