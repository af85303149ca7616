"""Algebraic Riccati equations, continuous and discrete in time, solved by SciPy; derivatives by the implicit function.

With the gain K, F = A - B K and the symmetric solution X,

    A' X + X A - K' R K + Q = 0,            K = inv(R) B' X                    (continuous)
    A' X A - X - K' (R + B' X B) K + Q = 0, K = inv(R + B' X B) B' X A         (discrete)

a change D = dA - dB K of F, dQ and dR give W = dQ + K' dR K + M' D + D' M with M = X, or M = X F, and dX solves
F' dX + dX F = -W, or F' dX F - dX = -W.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import GraphError
from ..ir.graph import Atom, Var, bind
from ..ir.late_modules import LateModule
from ..ir.primitive import HOST, Primitive, register
from .elementwise import F, like
from .linalg import lu, lu_inverse, lu_solve, matrix_axes, order, per_matrix, transposed
from .linalg_functions import sylvester
from .linalg_gaps import diagonal_mask
from .product import matmul

scipy_linalg: Any = LateModule("scipy.linalg")


def _infer(a: Aval, b: Aval, q: Aval, r: Aval, discrete: bool) -> Aval:
    if b.shape[-2:] != (order(a, "riccati"), order(r, "riccati")) or q.shape != a.shape:
        raise GraphError(f"riccati of {a}, {b}, {q}, {r}")
    return q


def _solve(a: np.ndarray, b: np.ndarray, q: np.ndarray, r: np.ndarray, discrete: bool) -> Any:
    solve = scipy_linalg.solve_discrete_are if discrete else scipy_linalg.solve_continuous_are
    try:
        return solve(a, b, (q + q.T) / 2, (r + r.T) / 2)
    except (np.linalg.LinAlgError, ValueError):  # there is none
        return np.full(a.shape, np.nan)


def _unit(x: Atom) -> Atom:
    return F.select(diagonal_mask(x.aval.shape), F.add(F.mul(x, like(0, x)), like(1, x)), like(0, x))


def _closed(x: Atom, a: Atom, b: Atom, r: Atom, discrete: bool) -> tuple[Atom, Atom, Atom]:
    """K, F and M."""
    seen, moved = r, x
    if discrete:
        moved = matmul(x, a)
        seen = F.add(r, matmul(b, matmul(x, b), True, False))
    gain = lu_solve(lu(seen), matmul(b, moved, True, False))
    closed = F.sub(a, matmul(b, gain))
    return gain, closed, matmul(x, closed) if discrete else x


def _propagated(f: Atom, w: Atom, discrete: bool) -> Atom:
    """X with F' X + X F = -W, or F' X F - X = -W: of stable F the latter is brought to the former."""
    if not discrete:
        return sylvester(transposed(f), f, F.neg(w))
    unit = _unit(f)
    inverse = lu_inverse(lu(F.add(f, unit)))
    turned = matmul(F.sub(f, unit), inverse)
    inner = matmul(matmul(inverse, F.mul(like(-2, w), w), True, False), inverse)
    return sylvester(transposed(turned), turned, inner)


def _vjp(ct: Atom, out: Var, a: Atom, b: Atom, q: Atom, r: Atom, discrete: bool) -> tuple[Atom, Atom, Atom, Atom]:
    gain, closed, m = _closed(out, a, b, r, discrete)
    of_q = _propagated(transposed(closed), ct, discrete)
    of_f = matmul(m, F.add(of_q, transposed(of_q)))
    of_r = matmul(matmul(gain, of_q), gain, False, True)
    return of_f, F.neg(matmul(of_f, gain, False, True)), of_q, of_r


def _jvp(tangents: Any, out: Var, a: Atom, b: Atom, q: Atom, r: Atom, discrete: bool) -> Atom:
    of_a, of_b, of_q, of_r = tangents
    gain, closed, m = _closed(out, a, b, r, discrete)
    moved = of_a
    if of_b is not None:
        lost = matmul(of_b, gain)
        moved = F.neg(lost) if moved is None else F.sub(moved, lost)
    shares = [] if of_q is None else [of_q]
    if of_r is not None:
        shares.append(matmul(gain, matmul(of_r, gain), True, False))
    if moved is not None:
        turned = matmul(m, moved, True, False)
        shares.append(F.add(turned, transposed(turned)))
    total = shares[0]
    for share in shares[1:]:
        total = F.add(total, share)
    return _propagated(closed, total, discrete)


def _stable(x: Atom) -> Atom:
    """Positive definite matrices made of any, for tests."""
    return F.add(matmul(x, x, False, True), _unit(x))


RICCATI = register(
    Primitive(
        "riccati", HOST, per_matrix(_solve, _infer), _infer, vjp=_vjp, jvp=_jvp,
        axes=matrix_axes("ij", "ik", "ij", "kl", "ij"), domain=((-1.0, 1.0),) * 4,
        test={
            "shapes": ((2, 2, 2), (2, 2, 1), (2, 2, 2), (2, 1, 1)), "params": {"discrete": True},
            "of": {2: _stable, 3: _stable},
        },
    )
)  # fmt: skip


def riccati(a: Atom, b: Atom, q: Atom, r: Atom, discrete: bool) -> Var:
    """The stabilising solutions of the equations for *a* (..., n, n), *b* (..., n, k), and symmetric *q* and *r*; NaN
    where there is none."""
    return bind(RICCATI, a, b, q, r, discrete=discrete)
