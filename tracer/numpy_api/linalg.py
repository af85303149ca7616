"""np.linalg: solutions, inverses, determinants, Cholesky factors, powers.

As in NumPy, integers become float64, float32 stays, and matrices that have no solution raise LinAlgError at the user's
line: that they have one is a guard.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, FLOAT, FLOAT32, HALF, broadcast_shapes
from ..ir.errors import LinAlgError, ShapeError, UnsupportedError, unrecordable
from ..ir.graph import Atom
from ..ops import linalg as ops
from ..ops.complex import from_blocks
from ..ops.elementwise import F, broadcast_to, cast, like
from ..ops.linalg_cholesky import cholesky, is_positive
from ..ops.linalg_det import lu_det
from ..ops.linalg_det_complex import complex_slogdet
from ..ops.reduce import reduce
from ..ops.shape import concat, full, reshape, slice_axis, transpose
from ..record.array import TracedArray, public_name, unsupported, wrap
from ..record.constants import by_numpy
from ..record.recorder import current_recorder, require_recorder
from .product import dot_of, matmul_of
from .registry import atom_of, implements, into, one_axis

_SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


def matrix_function(function: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the implementation of *function*, but for operands that depend on no argument:
    those are NumPy's business, once for all calls."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        @implements(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            recorder = current_recorder()
            atoms = [x.atom for x in args if type(x) is TracedArray]
            if recorder is not None and recorder.outside and recorder.outside_alone(atoms):
                error = unsupported(public_name(function))
                try:
                    return by_numpy(error, function, args, kwargs)
                except UnsupportedError:
                    unrecordable.discard(error)
            return implementation(*args, **kwargs)

        return call

    return register


# ---- arguments ----------------------------------------------------------------------------------------------------


def matrices(*values: Any) -> tuple[Atom, ...]:
    """*values* as atoms of the one dtype that NumPy's linear algebra computes in: float32 or float64, or of complex
    numbers."""
    atoms = [atom_of(value) for value in values]
    for atom in atoms:
        if atom.aval.dtype in HALF:
            raise TypeError(f"array type {atom.aval.dtype} is unsupported in linalg")
    single = all(COMPLEX.get(atom.aval.dtype, atom.aval.dtype) == FLOAT32 for atom in atoms)
    dtype = FLOAT32 if single else FLOAT
    if any(atom.aval.is_complex for atom in atoms):
        dtype = next(c for c, lane in COMPLEX.items() if lane == dtype)
    return tuple([cast(atom, dtype) for atom in atoms])


def squares(x: Atom) -> int:
    """The order of the matrices *x*."""
    shape = x.aval.shape
    if len(shape) < 2:
        raise LinAlgError.here(f"{len(shape)}-dimensional array given. Array must be at least two-dimensional")
    if shape[-1] != shape[-2]:
        raise LinAlgError.here("Last 2 dimensions of the array must be square")
    return shape[-1]


Words = str | Callable[[], str]  # an error's; a function of no argument where they tell of values


def must_hold(condition: Atom, error: Words) -> None:
    """Raise LinAlgError with the words *error* where one of the bools *condition* is False."""
    every = reduce("all", condition, tuple(range(condition.aval.ndim)))

    def raised() -> LinAlgError:
        return LinAlgError.here(error if isinstance(error, str) else error())

    require_recorder("linear algebra").rely(every, raised)


def factors(a: Atom, error: Words = "Singular matrix") -> Atom:
    """The factors of *a*, which must not be singular."""
    found = ops.lu(a)
    diagonal = ops.pivots(found)
    must_hold(F.ne(diagonal, like(0, diagonal)), error)
    return found


# ---- solutions ----------------------------------------------------------------------------------------------------


def in_one_batch(a: Atom, b: Atom, what: str) -> tuple[Atom, Atom]:
    """*a* and the matrices *b* with equal batch axes."""
    batch = broadcast_shapes(a.aval.shape[:-2], b.aval.shape[:-2], what=f"batch dimensions of {what}")
    return broadcast_to(a, (*batch, *a.aval.shape[-2:])), broadcast_to(b, (*batch, *b.aval.shape[-2:]))


def columns_of(b: Atom) -> tuple[Atom, tuple[int, ...]]:
    """A batch of matrices (..., n, k) as one (n, columns), and the shape that takes it back."""
    *batch, n, k = b.aval.shape
    rank = len(batch)
    side_by_side = transpose(b, (rank, *range(rank), rank + 1))
    return reshape(side_by_side, (n, math.prod(batch) * k)), (n, *batch, k)


def taken_back(x: Atom, shape: tuple[int, ...]) -> Atom:
    rank = len(shape) - 2
    return transpose(reshape(x, shape), (*range(1, rank + 1), 0, rank + 1))


def solve_by(found: Atom, b: Atom, trans: bool = False) -> Atom:
    """The solutions for matrices *b* by the factors *found*, of one matrix or of as many."""
    if found.aval.ndim == 2 and b.aval.ndim > 2:
        columns, shape = columns_of(b)
        return taken_back(ops.lu_solve(found, columns, trans), shape)
    return ops.lu_solve(*in_one_batch(found, b, "np.linalg.solve"), trans)


@matrix_function(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    x, y = matrices(a, b)
    n = squares(x)
    vector = y.aval.ndim == 1
    if not y.aval.ndim:
        raise ShapeError.here(
            "solve1: Input operand 1 does not have enough dimensions (has 0, gufunc core with signature (m,m),(m)->(m) "
            "requires 1)"
        )
    if y.aval.shape[-1 if vector else -2] != n:
        signature = "(m,m),(m)->(m)" if vector else "(m,m),(m,n)->(m,n)"
        raise ShapeError.here(
            f"solve{'1' * vector}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
            f"{signature} (size {y.aval.shape[-1 if vector else -2]} is different from {n})"
        )
    found = solve_by(factors(x), reshape(y, (n, 1)) if vector else y)
    return wrap(reshape(found, found.aval.shape[:-1]) if vector else found)


@implements(np.linalg.tensorsolve)
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    x, y = matrices(a, b)
    if axes is not None:
        last = [one_axis(k, x.aval.ndim, "np.linalg.tensorsolve") for k in axes]
        x = transpose(x, (*[k for k in range(x.aval.ndim) if k not in last], *last))
    shape = x.aval.shape[y.aval.ndim :]
    n = math.prod(shape)
    if x.aval.size != n * n:
        raise LinAlgError.here(
            "Input arrays must satisfy the requirement             prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    found = ops.lu_solve(factors(reshape(x, (n, n))), reshape(y, (n, 1)))
    return wrap(reshape(found, shape))


def inverse_of(x: Atom, error: Words = "Singular matrix") -> Atom:
    squares(x)
    found = ops.lu_inverse(factors(x, error))
    return from_blocks(found, x.aval.dtype) if x.aval.is_complex else found


@matrix_function(np.linalg.inv)
def _inv(a: Any) -> Any:
    return wrap(inverse_of(matrices(a)[0]))


# ---- determinants --------------------------------------------------------------------------------------------------


@matrix_function(np.linalg.det)
def _det(a: Any) -> Any:
    (x,) = matrices(a)
    squares(x)
    return wrap(det_of(x))


def det_of(x: Atom) -> Atom:
    """The determinants of square matrices."""
    if not x.aval.is_complex:
        return lu_det(ops.lu(x))
    if x.aval.shape[-1] <= 3:
        return _expanded(x)
    sign, log = complex_slogdet(x)
    return sign * F.exp(log)


def _expanded(x: Atom) -> Atom:
    """The determinants of small matrices by their first rows."""
    *batch, n, _ = x.aval.shape
    if n == 0:
        return full(like(1, x), tuple(batch))
    rank, total = len(batch), None
    for k in range(n):
        entry = reshape(slice_axis(slice_axis(x, rank, 0, 1), rank + 1, k, 1), tuple(batch))
        columns = [slice_axis(x, rank + 1, j, 1) for j in range(n) if j != k]
        if columns:
            entry = entry * _expanded(slice_axis(concat(columns, rank + 1), rank, 1, n - 1))
        total = entry if total is None else total - entry if k % 2 else total + entry
    assert total is not None
    return total


@matrix_function(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    (x,) = matrices(a)
    if x.aval.is_complex:
        if not squares(x):
            return np.linalg.slogdet(np.empty(x.aval.shape, x.aval.dtype))
        return _SlogdetResult(*map(wrap, complex_slogdet(x)))
    squares(x)
    found = ops.lu_slogdet(ops.lu(x))
    return _SlogdetResult(wrap(F.stop_gradient(ops.part(found, 0))), wrap(ops.part(found, 1)))


# ---- factors -------------------------------------------------------------------------------------------------------


def cholesky_of(x: Atom, error: Words) -> Atom:
    """The lower Cholesky factors of *x*, which must be positive definite."""
    squares(x)
    found = cholesky(x)
    must_hold(is_positive(found), error)
    return found


@matrix_function(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Any:
    (x,) = matrices(a)
    squares(x)
    x = ops.adjoint(x) if upper else x
    found = cholesky_of(x, "Matrix is not positive definite")
    return wrap(ops.adjoint(found) if upper else found)


# ---- products ------------------------------------------------------------------------------------------------------


@implements(np.linalg.matrix_power)
def _matrix_power(a: Any, n: int) -> Any:
    x = atom_of(a)
    size = squares(x)
    power = int(n)
    if power == 0:
        return wrap(broadcast_to(atom_of(np.eye(size, dtype=x.aval.dtype)), x.aval.shape))
    square = inverse_of(matrices(x)[0]) if power < 0 else x
    result, power = None, abs(power)
    while power:
        if power & 1:
            result = square if result is None else matmul_of(result, square)
        power >>= 1
        square = matmul_of(square, square) if power else square
    assert result is not None
    return wrap(result)


@implements(np.linalg.multi_dot)
def _multi_dot(arrays: Any, *, out: Any = None) -> Any:
    first, *others = map(atom_of, arrays)
    if not others:
        raise ShapeError.here("Expecting at least two arrays.")
    ends = {0, len(others)}
    for k, x in enumerate([first, *others]):
        if len(others) > 1 and x.aval.ndim != 2 and not (k in ends and x.aval.ndim == 1):
            raise LinAlgError.here(f"{x.aval.ndim}-dimensional array given. Array must be two-dimensional")
    return into(wrap(functools.reduce(dot_of, others, first)), out)
