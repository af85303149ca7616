"""scipy.linalg.schur: A = Z T Z', T upper triangular.

LAPACK makes it between kernels (``ops/host_call.py``).  The derivative is that of real matrices with real eigenvalues
that differ: with M = Z' dA Z and the skew-symmetric X = Z' dZ = L - L',

    the part of L T - T L below the diagonal is that of M,      dT = the rest of M - X T + T X,      dZ = Z X

so L is found column by column, by solving with triangular matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
import scipy.linalg

from ..ir.aval import INT, Aval
from ..ir.errors import DifferentiationError, UnsupportedError
from ..ir.graph import Atom
from ..ops.custom import Rule
from ..ops.elementwise import F, broadcast_to, cast, like
from ..ops.host_call import HostFunction, host_call
from ..ops.linalg import lu, lu_solve, times, transposed, triangle
from ..ops.reduce import reduce
from ..ops.shape import concat, full, reshape, slice_axis
from ..record.array import TracedArray, to_atom, wrap, wrap_array
from ..record.recorder import require_recorder
from .linalg import hooked

_ORDERS = ("lhp", "rhp", "iuc", "ouc")


@hooked("schur")
def _schur(
    a: Any, output: str = "real", lwork: Any = None, overwrite_a: bool = False, sort: Any = None,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    if sort is not None and sort not in _ORDERS:
        raise UnsupportedError.here(f"scipy.linalg.schur of a traced matrix sorts by one of {', '.join(_ORDERS)}")
    if np.ndim(a) > 2:
        parts = [_schur(x, output, lwork, overwrite_a, sort, check_finite) for x in a.reshape(-1, *a.shape[-2:])]
        shapes = [(*a.shape[:-2], *x.shape) if isinstance(x, TracedArray) else a.shape[:-2] for x in parts[0]]
        return tuple([np.stack(x).reshape(shape) for x, shape in zip(zip(*parts, strict=True), shapes, strict=True)])
    matrix = to_atom(a)
    single = matrix.aval.dtype.itemsize == 4 * (1 + matrix.aval.is_complex) and matrix.aval.is_inexact
    real, both = (np.dtype("float32"), np.dtype("complex64")) if single else (np.dtype(float), np.dtype(complex))
    matrix = cast(matrix, both if matrix.aval.is_complex else real)
    dtype = both if matrix.aval.is_complex or output in ("complex", "c") else real
    results = [Aval(dtype, matrix.aval.shape)] * 2 + [Aval(INT, ())] * (sort is not None)
    settings = output, sort, check_finite

    def call(rule: Rule | None) -> list[Atom]:
        made, key = partial(_made, *settings), ("schur", *settings, rule)
        return host_call(HostFunction(made, results, "scipy.linalg.schur", key=key, rule=rule), [matrix])

    found = call(_rule if dtype == real else None)
    if dtype == real and _has_pairs(found[0]):
        found = call(_no_rule)
    return tuple([wrap_array(x) if x.aval.shape else wrap(x).item() for x in found])


def _has_pairs(t: Atom) -> bool:
    """Whether there are complex eigenvalues, which stand in blocks of two: a question, but for rows of a batch,
    which may differ: there the derivative is NaN."""
    recorder = require_recorder("scipy.linalg.schur")
    of_row = recorder.stand_ins.is_of_row(t, recorder.nodes)
    return not of_row and bool(np.any(np.diagonal(wrap(t), -1) != 0))


def _no_rule(*_: Any) -> NoReturn:
    raise DifferentiationError.here(
        "scipy.linalg.schur has a derivative only where all eigenvalues are real; np.linalg.eig has one for others, too"
    )


def _made(output: str, sort: Any, check_finite: bool, a: np.ndarray) -> Any:
    t, z, *count = scipy.linalg.schur(a, output, sort=sort, check_finite=check_finite)
    return [t, z, *[np.array(n, np.int64) for n in count]]


def _rule(cotangents: Sequence[Atom | None], outs: Sequence[Atom], operands: Sequence[Atom]) -> list[Atom]:
    t, z = outs[:2]
    of_t = full(like(0, t), t.aval.shape) if cotangents[0] is None else triangle(cotangents[0], False)
    turn = F.sub(times(t, of_t, True), times(of_t, t, False, True))
    if len(cotangents) > 1 and cotangents[1] is not None:
        turn = F.add(turn, times(z, cotangents[1], True))
    inner = F.add(of_t, _solved(t, triangle(F.sub(turn, transposed(turn)), True, False)))
    pairs = reduce("any", F.ne(triangle(t, True, False), like(0, t)), (0, 1))
    found = times(times(z, inner), z, False, True)
    return [F.select(broadcast_to(pairs, found.aval.shape), full(like(np.nan, found), found.aval.shape), found)]


def _solved(t: Atom, below: Atom) -> Atom:
    """The P with nothing on and above the diagonal, for which the part of P T' - T' P below it is *below*."""
    n = t.aval.shape[-1]
    found: Atom = full(like(0, t), (n, 1))
    for j in range(n - 2, -1, -1):
        count = n - 1 - j

        def part(x: Atom, row: int, rows: int, column: int, columns: int) -> Atom:
            return slice_axis(slice_axis(x, 0, row, rows), 1, column, columns)

        known = times(slice_axis(found, 0, j + 1, count), part(t, j, 1, j + 1, count), False, True)
        ones = triangle(triangle(full(like(1, t), (count, count)), True), False)
        value = broadcast_to(reshape(part(t, j, 1, j, 1), ()), (count, count))
        matrix = F.sub(F.mul(value, ones), transposed(part(t, j + 1, count, j + 1, count)))
        column = lu_solve(lu(matrix), F.sub(part(below, j + 1, count, j, 1), known))
        found = concat([concat([full(like(0, t), (j + 1, 1)), column], 0), found], 1)
    return found
