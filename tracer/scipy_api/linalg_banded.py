"""scipy.linalg: banded and tridiagonal matrices, given by their diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..numpy_api.linalg import must_hold
from ..numpy_api.linalg_factors import eigh_of
from ..numpy_api.registry import atom_of, reject
from ..ops import linalg as ops
from ..ops.complex import conjugate, real_part
from ..ops.elementwise import F, like
from ..ops.linalg_banded import shifted, solve_banded
from ..ops.linalg_complex import hermitian_cholesky_of_bands
from ..ops.reduce import reduce
from ..ops.shape import concat, full, reshape, slice_axis
from ..record.array import to_atom, wrap
from ..record.recorder import require_recorder
from .linalg import hooked
from .linalg_solvers import given, operands, right_sides

# ---- symmetric matrices ----------------------------------------------------------------------------------------------


def _turned(bands: Atom, lower: bool) -> Atom:
    """The diagonals of a Hermitian matrix from the main one down, of those that stand for it *lower* or upper; the
    contrary, too.

    What is no element of the matrix is 0.
    """
    count, n = bands.aval.shape
    rows = [reshape(slice_axis(bands, 0, k, 1), (n,)) for k in range(count)]
    if not lower:
        rows = [shifted(conjugate(row), k) for k, row in enumerate(reversed(rows))]
    inside = np.arange(count)[:, None] + np.arange(n) < n
    found = concat([reshape(row, (1, n)) for row in rows], 0)
    return F.select(atom_of(inside), found, like(0, found))


def _upper(bands: Atom) -> Atom:
    """The contrary of ``_turned``: upper diagonals, the main one last."""
    count, n = bands.aval.shape
    rows = [shifted(reshape(slice_axis(conjugate(bands), 0, k, 1), (n,)), -k) for k in range(count)]
    return concat([reshape(row, (1, n)) for row in reversed(rows)], 0)


def _root_of(bands: Atom, lower: bool, end: str) -> Atom:
    """The lower Cholesky factor's diagonals, from the main one down."""
    found = hermitian_cholesky_of_bands(_turned(bands, lower))
    pivots = F.stop_gradient(slice_axis(real_part(found), 0, 0, 1))

    def error() -> str:
        values = np.asarray(require_recorder("linear algebra").value(pivots))[0]
        return f"{np.argmin(values > 0) + 1}{end} leading minor not positive definite"

    must_hold(F.gt(pivots, like(0, pivots)), error)
    return found


def _solved(root: Atom, right: Atom) -> Atom:
    """The solutions (n, k) by a lower factor."""
    below = root.aval.shape[0] - 1
    rows = solve_banded(root, ops.transposed(right), below, 0)
    return ops.adjoint(solve_banded(root, conjugate(rows), below, 0, True))


def _bands(value: Any, check_finite: bool) -> Atom:
    (x,) = operands(check_finite, value)
    if x.aval.ndim != 2:
        raise UnsupportedError.here("diagonals are supported as one array of two dimensions")
    return x


@hooked("cholesky_banded")
def _cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    root = _root_of(_bands(ab, check_finite), lower, "-th")
    return wrap(root if lower else _upper(root))


@hooked("cho_solve_banded")
def _cho_solve_banded(cb_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    bands, lower = cb_and_lower
    root, y = operands(check_finite, wrap(_turned(_bands(bands, check_finite), lower)), b)
    right, vector = right_sides(y, root.aval.shape[-1], "shapes of cb and b are not compatible.")
    return given(_solved(root, right), vector)


@hooked("solveh_banded")
def _solveh_banded(
    ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    x, y = operands(check_finite, wrap(_bands(ab, False)), b)
    right, vector = right_sides(y, x.aval.shape[-1], "shapes of ab and b are not compatible.")
    return given(_solved(_root_of(x, lower, "th"), right), vector)


def _dense(bands: Atom) -> Atom:
    """The lower triangle of the matrix with the diagonals *bands*, from the main one down."""
    count, n = bands.aval.shape
    offset = np.arange(n)[:, None] - np.arange(n)
    inside = (offset >= 0) & (offset < count)
    flat = concat([reshape(bands, (count * n,)), full(like(0, bands), (1,))], 0)
    return to_atom(wrap(flat)[np.where(inside, offset * n + np.arange(n), count * n)])


def _chosen(values: Atom, select: Any, select_range: Any, name: str) -> Any:
    if select in ("v", "value", 1):
        reject(f"scipy.linalg.{name}", "choose from all eigenvalues afterwards", select=select)
    if select in ("i", "index", 2):
        first, last = (int(k) for k in select_range)
        return wrap(values)[first : last + 1]
    if select not in ("a", "all", 0):
        raise ValueError("invalid argument for select")
    return wrap(values)


@hooked("eigvals_banded")
def _eigvals_banded(
    a_band: Any, lower: bool = False, overwrite_a_band: bool = False, select: Any = "a", select_range: Any = None,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    return _eig_banded(a_band, lower, True, False, select, select_range, 0, check_finite)


@hooked("eig_banded")
def _eig_banded(
    a_band: Any, lower: bool = False, eigvals_only: bool = False, overwrite_a_band: bool = False, select: Any = "a",
    select_range: Any = None, max_ev: int = 0, check_finite: bool = True,
) -> Any:  # fmt: skip
    if not eigvals_only:
        reject("scipy.linalg.eig_banded", "choose from all vectors afterwards", select=select not in ("a", "all", 0))
    values, vectors = eigh_of(_dense(_turned(_bands(a_band, check_finite), lower)))
    chosen = _chosen(values, select, select_range, "eig_banded")
    return chosen if eigvals_only else (chosen, wrap(vectors))


@hooked("eigh_tridiagonal")
def _eigh_tridiagonal(
    d: Any, e: Any, eigvals_only: bool = False, select: Any = "a", select_range: Any = None,
    check_finite: bool = True, tol: float = 0.0, lapack_driver: str = "auto",
) -> Any:  # fmt: skip
    main, beside = operands(check_finite, d, e)
    for x in (main, beside):
        if x.aval.ndim != 1:
            raise ShapeError.here("expected a 1-D array")
    n = main.aval.size
    if n != beside.aval.size + 1:
        raise ShapeError.here(f"d ({n}) must have one more element than e ({beside.aval.size})")
    if not eigvals_only:
        reject("scipy.linalg.eigh_tridiagonal", "choose from all vectors afterwards", select=select not in ("a", 0))
    rest = full(like(0, main), (1,))
    bands = concat([reshape(x, (1, n)) for x in (main, concat([beside, rest], 0))], 0)
    values, vectors = eigh_of(_dense(bands), driver="stevd")
    chosen = _chosen(values, select, select_range, "eigh_tridiagonal")
    return chosen if eigvals_only else (chosen, wrap(vectors))


@hooked("eigvalsh_tridiagonal")
def _eigvalsh_tridiagonal(d: Any, e: Any, *args: Any, **options: Any) -> Any:
    return _eigh_tridiagonal(d, e, True, *args, **options)


# ---- general ones ----------------------------------------------------------------------------------------------------


@hooked("solve_banded")
def _solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    x, y = operands(check_finite, ab, b)
    below, above = (int(k) for k in l_and_u)
    if x.aval.shape[-2:] != (below + above + 1, x.aval.shape[-1]) or x.aval.ndim != 2:
        raise ShapeError.here(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({below + above + 1}) does not equal "
            f"ab.shape[0] ({x.aval.shape[0]})"
        )
    right, vector = right_sides(y, x.aval.shape[-1], "shapes of ab and b are not compatible.")
    found = solve_banded(x, ops.transposed(right), below, above)
    quiet = F.stop_gradient(real_part(found))
    must_hold(reduce("any", F.ne(quiet, like(-np.inf, quiet)), (0, 1)), "singular matrix")
    return given(ops.transposed(found), vector)
