"""scipy.sparse.linalg: equations with sparse matrices, of traced entries or right-hand sides.

SuperLU factorises in each call, between kernels (``ops/host_call.py``).  The adjoint of a solution is a solution for
the transposed matrix, by the same factors, and the gradient of the matrix has its pattern.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, INT, Aval
from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..numpy_api.hooks import hook, hook_to_source, when_loaded
from ..numpy_api.linalg import must_hold
from ..numpy_api.registry import reject
from ..numpy_api.shape import as_traced
from ..ops.elementwise import F, cast
from ..ops.host_call import HostFunction, host_call
from ..ops.indexing import gather
from ..ops.reduce import reduce
from ..ops.shape import reshape
from ..record.array import is_traced, to_atom, wrap, wrap_array
from ..record.recorder import require_recorder
from ..record.shown_names import OBJECTS
from .sparse import _applies, _entries, _in_coordinates, _is_sparse, _sums

_MOST_KEPT = 2  # factors, which the adjoint uses again
_kept: list[tuple[Any, ...]] = []


def _module() -> Any:
    return sys.modules["scipy.sparse.linalg"]


def _matrix(rows: Any, columns: Any, data: Any, n: int) -> Any:
    return sys.modules["scipy.sparse"].csc_array((data, (rows, columns)), shape=(n, n))


def _factors(rows: Any, columns: Any, data: Any, n: int, options: tuple[Any, ...]) -> Any:
    """SuperLU's factors of the matrix; None where it is singular."""
    given = rows, columns, data
    for known in _kept[:]:
        if known[1] == (n, options) and all(map(np.array_equal, known[0], given)):
            return known[2]
    try:
        found = _module().splu(_matrix(*given, n), **dict(options))
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        found = None
    copies = tuple([np.array(x) for x in given])
    _kept[:] = [(copies, (n, options), found), *_kept][:_MOST_KEPT]
    return found


def _solved(
    rows: Any, columns: Any, data: Any, b: Any, *, n: int, options: tuple[Any, ...], transposed: bool, quiet: bool
) -> Any:
    found = _factors(rows, columns, data, n, options)
    if found is None:
        if not quiet:
            raise RuntimeError("Factor is exactly singular")
        warnings.warn("Matrix is exactly singular", _module().MatrixRankWarning, stacklevel=2)
        return np.full(b.shape, np.nan)
    return found.solve(np.asarray(b, np.float64), "T" if transposed else "N")


def _solve(
    rows: Atom, columns: Atom, data: Atom, b: Atom, *, n: int, options: tuple[Any, ...] = (), transposed: bool = False,
    quiet: bool = True, relied: bool = True,
) -> Atom:  # fmt: skip
    """The x of A x = b, or of A.T x = b; NaN where A is singular, if *quiet*."""

    def rule(cotangents: Any, outs: Any, operands: Any) -> Sequence[Atom | None]:
        return _adjoint(cotangents[0], outs[0], operands, n, options, transposed)

    function = partial(_solved, n=n, options=options, transposed=transposed, quiet=quiet)
    made = HostFunction(
        function, [Aval(FLOAT, b.aval.shape)], "spsolve", rule=rule, key=("spsolve", n, options, transposed, quiet)
    )
    return host_call(made, [rows, columns, data, b], relied=relied)[0]


def _adjoint(
    ct: Atom | None, x: Atom, operands: Sequence[Atom], n: int, options: tuple[Any, ...] = (), transposed: bool = False
) -> Sequence[Atom | None]:
    """The cotangents of rows, columns, entries and right-hand sides."""
    if ct is None:
        return [None] * 4
    rows, columns, data, _ = operands
    w = _solve(rows, columns, data, ct, n=n, options=options, transposed=not transposed, relied=False)
    i, j = (columns, rows) if transposed else (rows, columns)
    of_data = F.neg(F.mul(gather(w, i), gather(x, j)))
    return [None, None, reduce("sum", of_data, (1,)) if of_data.aval.ndim == 2 else of_data, w]


def _real(x: Atom, what: str) -> Atom:
    if x.aval.is_complex:
        raise UnsupportedError.here(f"{what} of complex numbers: solve for real and imaginary part as one real system")
    return cast(x, FLOAT)


def _system(A: Any, what: str) -> tuple[Atom, Atom, Atom, int]:
    """(rows, columns, values, size) of a square matrix."""
    if not _is_sparse(A):
        raise UnsupportedError.here(f"{what} of a dense matrix of traced entries: use np.linalg.solve")
    if A.shape[0] != A.shape[1]:
        raise ShapeError.here(f"matrix must be square (has shape {A.shape})")
    rows, columns, data = _entries(A)
    return rows, columns, _real(data.atom, what), A.shape[0]


def _spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    rows, columns, data, n = _system(A, "spsolve")
    sparse = _is_sparse(b)
    right = _real(to_atom(b.toarray() if sparse else as_traced(b)), "spsolve")
    if right.aval.ndim not in (1, 2) or right.aval.shape[0] != n:
        raise ShapeError.here(f"matrix - rhs dimension mismatch ({A.shape} - {right.aval.shape[0]})")
    vector = right.aval.ndim == 1 or right.aval.shape[1] == 1
    options = (("permc_spec", permc_spec),) if permc_spec is not None else ()
    found = _solve(rows, columns, data, reshape(right, (n,)) if vector else right, n=n, options=options)
    if sparse and not vector:  # all of its elements
        rows, columns = map(to_atom, np.indices(found.aval.shape).reshape(2, -1))
        flat = wrap_array(reshape(found, (found.aval.size,)))
        return _in_coordinates(A, found.aval.shape, rows, columns, flat).asformat(A.format)
    return wrap_array(found)


class SparseFactors:
    """SparseFactors of a sparse matrix while a function is recorded, as ``splu`` gives them; those made outside are
    *known*."""

    def __init__(self, matrix: Any = None, options: tuple[Any, ...] = (), known: Any = None) -> None:
        self._known, self._options = known, options
        self._parts: tuple[
            Any, ...
        ] = ()  # rows, columns and values of the matrix: arrays, which are settled after a run
        if matrix is not None:
            self._parts = tuple(map(wrap_array, _system(matrix, "splu")[:3]))
        self.shape = matrix.shape if known is None else known.shape
        if matrix is not None:  # raises where it is singular
            self.solve(np.zeros(self.shape[0]))

    def plain(self) -> Any:
        """The object that this stands for."""
        return self._known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._known is None:
            raise UnsupportedError.here(f".{name} of sparse factors with traced entries is not supported: use .solve")
        return getattr(self._known, name)

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """``SuperLU.solve``."""
        if trans not in ("N", "T", "H"):
            raise ValueError("trans must be N, T, or H")
        if not is_traced((rhs, *self._parts)):
            if self._known is None:
                rows, columns, data = self._parts
                self._known = _module().splu(_matrix(rows, columns, data, self.shape[0]), **dict(self._options))
            return self._known.solve(rhs, trans)
        b = _real(to_atom(as_traced(rhs)), "splu")
        if b.aval.ndim not in (1, 2) or b.aval.shape[0] != self.shape[0]:
            raise ShapeError.here("rhs is of incompatible size")
        if self._parts:
            rows, columns, data = map(to_atom, self._parts)
            n, transposed = self.shape[0], trans != "N"
            found = _solve(rows, columns, data, b, n=n, options=self._options, transposed=transposed, quiet=False)
        else:
            found = _solve_by(self._known, b, trans != "N")
        return wrap_array(found)


def _solve_by(known: Any, b: Atom, transposed: bool, relied: bool = True) -> Atom:
    """The solution by factors that are an object of SciPy's, which never changes."""

    def rule(cotangents: Any, outs: Any, operands: Any) -> Sequence[Atom | None]:
        return [None if cotangents[0] is None else _solve_by(known, cotangents[0], not transposed, False)]

    def function(b: Any) -> Any:
        return known.solve(np.asarray(b, np.float64), "T" if transposed else "N")

    made = HostFunction(function, [Aval(FLOAT, b.aval.shape)], "splu.solve", rule=rule, key=(id(known), transposed))
    return host_call(made, [b], relied=relied)[0]


def _splu(A: Any, permc_spec: Any = None, diag_pivot_thresh: Any = None, relax: Any = None, panel_size: Any = None,
          options: Any = None) -> Any:  # fmt: skip
    given = {"permc_spec": permc_spec, "diag_pivot_thresh": diag_pivot_thresh, "relax": relax, "panel_size": panel_size}
    if options is not None:
        raise UnsupportedError.here("splu of traced entries with options= is not supported")
    return SparseFactors(A, tuple([item for item in given.items() if item[1] is not None]))


def _factorized(A: Any) -> Any:
    return SparseFactors(A).solve


# ---- other solvers ---------------------------------------------------------------------------------------------------


def _triangular(A: Any, b: Any, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False,
                unit_diagonal: bool = False) -> Any:  # fmt: skip
    reject("scipy.sparse.linalg.spsolve_triangular", "put ones on the diagonal", unit_diagonal=unit_diagonal)
    rows, columns, _, _ = _system(A, "spsolve_triangular")
    kept = F.ge(rows, columns) if lower else F.le(rows, columns)
    must_hold(kept, f"A is not triangular: it has entries {'above' if lower else 'below'} the diagonal")
    return _spsolve(A, b)


def _iterative(name: str) -> Any:
    """The solver of this name: SciPy's solution, and a derivative by SuperLU."""

    def solve(A: Any, b: Any, x0: Any = None, *, callback: Any = None, **options: Any) -> Any:
        what = f"scipy.sparse.linalg.{name}"
        reject(what, "look at the solution afterwards", callback=callback is not None)
        if is_traced((x0, *options.values())) or isinstance(A, _module().LinearOperator):
            error = UnsupportedError.here(
                f"{what} of traced values in a LinearOperator, x0= or an option is not supported: give a sparse "
                "matrix, and plain options"
            )
            raise _unless_data(error, b, x0, *options.values())
        if _is_sparse(A):
            rows, columns, data, n = _system(A, what)
        else:
            dense = as_traced(A)
            n = len(dense)
            rows, columns = (to_atom(part.ravel()) for part in np.indices(dense.shape))
            data = _real(to_atom(dense.reshape(-1)), what)
        right = _real(to_atom(as_traced(b).reshape(n)), what)
        start = None if x0 is None else np.array(x0)

        def function(rows: Any, columns: Any, data: Any, b: Any) -> Any:
            x, info = getattr(_module(), name)(_matrix(rows, columns, data, n).tocsr(), b, start, **options)
            return x, np.int64(info)

        def rule(cotangents: Any, outs: Any, operands: Any) -> Sequence[Atom | None]:
            return _adjoint(cotangents[0], outs[0], operands, n)

        chosen = tuple([(k, v if isinstance(v, (int, float, str)) else id(v)) for k, v in sorted(options.items())])
        key = name, n, chosen, None if start is None else (start.dtype, start.tobytes())
        made = HostFunction(function, [Aval(FLOAT, (n,)), Aval(INT, ())], name, rule=rule, key=key)
        x, info = host_call(made, [rows, columns, data, right])
        return wrap_array(x), wrap(info).item()

    return solve


def _norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    reject("scipy.sparse.linalg.norm", "use np.linalg.norm of x.toarray()", axis=axis)
    sizes = abs(x)
    if ord in (None, "fro", "f"):
        return np.sqrt(np.sum(sizes.data**2))
    if ord not in (1, -1, np.inf, -np.inf):
        raise UnsupportedError.here(f"scipy.sparse.linalg.norm with ord={ord!r}: use np.linalg.norm of x.toarray()")
    rows, columns, data = _entries(sizes)
    along, size = (columns, x.shape[1]) if abs(ord) == 1 else (rows, x.shape[0])
    found = _sums((size,), along, data)
    return np.max(found) if ord > 0 else np.min(found)


_REFUSED = {
    "lsqr": "solve A.T @ A x = A.T @ b by spsolve", "lsmr": "solve A.T @ A x = A.T @ b by spsolve",
    "eigsh": "use np.linalg.eigh of A.toarray()", "eigs": "use np.linalg.eig of A.toarray()",
    "svds": "use np.linalg.svd of A.toarray()", "lobpcg": "use np.linalg.eigh of A.toarray()",
    "spilu": "use splu", "expm": "use scipy.linalg.expm of A.toarray()",
}  # fmt: skip


def _unless_data(error: UnsupportedError, *given: Any) -> UnsupportedError:
    """*error*; where what is *given* is data, the run is made again over its contents."""
    for x in given:
        array = getattr(x, "data", None) if _is_sparse(x) else x
        if is_traced(array):
            error = require_recorder("scipy.sparse.linalg").refused(to_atom(as_traced(array)), error)
    return error


def _refused(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        error = UnsupportedError.here(f"scipy.sparse.linalg.{name} is not supported on traced arrays: {_REFUSED[name]}")
        raise _unless_data(error, *args, *kwargs.values())

    return refuse


# ---- hooks -----------------------------------------------------------------------------------------------------------


@when_loaded("scipy.sparse.linalg", "use_solver")
def _install(module: Any) -> None:
    OBJECTS[module.SuperLU] = lambda known: SparseFactors(known=known)
    own = {"spsolve": _spsolve, "splu": _splu, "factorized": _factorized, "spsolve_triangular": _triangular,
           "norm": _norm}  # fmt: skip
    for name in "cg bicg bicgstab cgs gmres lgmres minres qmr gcrotmk tfqmr".split():
        own[name] = _iterative(name)
    for name, ours in {**own, **{name: _refused(name) for name in _REFUSED}}.items():
        hook(getattr(module, name), ours, _applies)
    hook_to_source(module.inv, _applies)
