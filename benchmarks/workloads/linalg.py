"""Linear algebra: a Kalman filter with ``np.linalg.inv`` in its loop, a batch of small systems, a Cholesky factor.

The filter has four states and two observed numbers a step; differentiated are the transition matrix and both
covariances, of each step's 500.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Workload

# ---- the filter ------------------------------------------------------------------------------------------------------


def update(m, P, likelihood, y, F, Q, R, H):
    """One step: predict, compare with the observation, correct."""
    m = F @ m
    P = F @ P @ F.T + Q
    S = H @ P @ H.T + R
    v = y - H @ m
    inverse = np.linalg.inv(S)
    gain = P @ H.T @ inverse
    likelihood = likelihood - 0.5 * (np.linalg.slogdet(S)[1] + v @ inverse @ v)
    return m + gain @ v, P - gain @ H @ P, likelihood


def kalman(F, Q, R, H, m0, P0, ys):
    """ys: (steps, observed)."""
    m, P, likelihood = m0, P0, 0.0
    for y in ys:
        m, P, likelihood = update(m, P, likelihood, y, F, Q, R, H)
    return likelihood


def jax_scan() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    from ..workload import rebind

    step = rebind(update, np=jnp)

    def loss(F, Q, R, H, m0, P0, ys):
        (_, _, likelihood), _ = jax.lax.scan(lambda c, y: (step(*c, y, F, Q, R, H), None), (m0, P0, 0.0), ys)
        return likelihood

    return loss


def step_by_hand(F, Q, R, H, m, P, y):
    """One step of the filter: the state after it, the determinant and the squared error, and what its derivative
    reads."""
    moved, predicted = F @ m, F @ P @ F.T + Q
    HP = H @ predicted
    S, v = HP @ H.T + R, y - H @ moved
    det = S[0, 0] * S[1, 1] - S[0, 1] * S[1, 0]
    Si = np.array([[S[1, 1] / det, -S[0, 1] / det], [-S[1, 0] / det, S[0, 0] / det]])
    gain = predicted @ H.T @ Si
    return moved + gain @ v, predicted - gain @ HP, det, v @ (Si @ v), (m, P, predicted, gain, Si, v)


def step_back_by_hand(F, H, kept, dm, dP):
    """The cotangents of F, Q and R in one step, and of m and P before it."""
    m, P, predicted, gain, Si, v = kept
    dgain = np.outer(dm, v) - dP @ (H @ predicted).T
    dpredicted = dP - H.T @ (gain.T @ dP) + dgain @ Si.T @ H
    dSi = H @ (predicted.T @ dgain) - np.outer(v, v) * 0.5
    dS = -(Si.T @ dSi @ Si.T) - Si.T * 0.5
    dpredicted = dpredicted + H.T @ dS @ H
    dmoved = dm - H.T @ (gain.T @ dm - (Si + Si.T) @ v * 0.5)
    dF = dpredicted @ F @ P.T + dpredicted.T @ F @ P + np.outer(dmoved, m)
    return dF, dpredicted, dS, F.T @ dmoved, F.T @ dpredicted @ F


def _filter_in_numpy(F, Q, R, H, m, P, ys):
    value, kept = 0.0, []
    for y in ys:
        m, P, det, error, residuals = step_by_hand(F, Q, R, H, m, P, y)
        value -= 0.5 * (np.log(abs(det)) + error)
        kept.append(residuals)
    total = [np.zeros_like(a) for a in (F, Q, R)]
    dm, dP = np.zeros_like(m), np.zeros_like(P)
    for residuals in reversed(kept):
        *parts, dm, dP = step_back_by_hand(F, H, residuals, dm, dP)
        for a, part in zip(total, parts, strict=True):
            a += part
    return value, tuple(total)


class Scalar:
    """A number of straight-line code: each operation becomes one of its *lines*."""

    def __init__(self, text: str, lines: list[str]):
        self.text, self.lines = text, lines

    def _line(self, text: str) -> Scalar:
        self.lines.append(f"t{len(self.lines)} = {text}")
        return Scalar(f"t{len(self.lines) - 1}", self.lines)

    def __neg__(self) -> Scalar:
        return self._line(f"-{self.text}")

    def __add__(self, other: Scalar) -> Scalar:
        return self._line(f"{self.text} + {other.text}")

    def __sub__(self, other: Scalar) -> Scalar:
        return self._line(f"{self.text} - {other.text}")

    def __mul__(self, other: Scalar | float) -> Scalar:
        return self._line(f"{self.text} * {getattr(other, 'text', other)}")

    def __truediv__(self, other: Scalar) -> Scalar:
        return self._line(f"{self.text} / {other.text}")


def straight_line_filter(n: int, k: int) -> str:
    """The two steps for *n* states and *k* observed numbers with every item of a matrix in a variable of its own."""
    shapes = {"F": (n, n), "Q": (n, n), "R": (k, k), "H": (k, n), "m": (n,), "P": (n, n)}
    sums = {"dF": (n, n), "dQ": (n, n), "dR": (k, k), "dm": (n,), "dP": (n, n)}

    def scalars(name: str, shape: tuple[int, ...], lines: list[str]) -> np.ndarray:
        found = np.empty(shape, object)
        for place in np.ndindex(shape):
            found[place] = Scalar("_".join([name, *map(str, place)]), lines)
        return found

    def moves(name: str, values: np.ndarray) -> list[str]:
        return [f"{'_'.join([name, *map(str, place)])} = {values[place].text}" for place in np.ndindex(values.shape)]

    def items(name: str, shape: tuple[int, ...], text: str) -> list[str]:
        return [text.format("_".join([name, *map(str, i)]), name, ", ".join(map(str, i))) for i in np.ndindex(shape)]

    ahead: list[str] = []
    state = [scalars(name, shape, ahead) for name, shape in shapes.items()]
    m, P, det, error, residuals = step_by_hand(*state, scalars("y", (k,), ahead))
    kept = [item.text for part in residuals for item in part.flat]
    ahead += [f"kept[t, {i}] = {text}" for i, text in enumerate(kept)]
    ahead += [f"value -= 0.5 * (np.log(abs({det.text})) + {error.text})", *moves("m", m), *moves("P", P)]

    back: list[str] = []
    read = iter(range(len(kept)))
    rows = [np.array([Scalar(f"kept[t, {next(read)}]", back) for _ in part.flat], object).reshape(part.shape)
            for part in residuals]  # fmt: skip
    before = [scalars(name, sums[name], back) for name in ("dm", "dP")]
    F, H = (scalars(name, shapes[name], back) for name in "FH")
    dF, dQ, dR, dm, dP = step_back_by_hand(F, H, rows, *before)
    for name, part in {"dF": dF, "dQ": dQ, "dR": dR}.items():
        back += moves(name, scalars(name, part.shape, back) + part)
    back += [*moves("dm", dm), *moves("dP", dP)]

    lines = [
        "def kernel(F, Q, R, H, m, P, ys):",
        *["    " + line for name, shape in shapes.items() for line in items(name, shape, "{0} = {1}[{2}]")],
        f"    value, kept = 0.0, np.empty((len(ys), {len(kept)}))",
        "    for t in range(len(ys)):",
        *[f"        y_{i} = ys[t, {i}]" for i in range(k)],
        *["        " + line for line in ahead],
        *["    " + line for name, shape in sums.items() for line in items(name, shape, "{0} = 0.0")],
        "    for t in range(len(ys) - 1, -1, -1):",
        *["        " + line for line in back],
        "    dF, dQ, dR = np.empty_like(F), np.empty_like(Q), np.empty_like(R)",
        *["    " + line for name in ("dF", "dQ", "dR") for line in items(name, sums[name], "{1}[{2}] = {0}")],
        "    return value, (dF, dQ, dR)",
    ]
    return "\n".join(lines)


def _filter_limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST

    names: dict[str, Any] = {"np": np}
    exec(straight_line_filter(4, 2), names)
    return njit(**FAST)(names["kernel"])


def _filter_args(steps: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    F = 0.98 * (np.eye(4) + 0.1 * np.eye(4, k=2) - 0.05 * np.eye(4, k=-2))
    H = np.array([[1.0, 0.5, 0.0, 0.2], [0.0, 0.3, 1.0, 0.0]])
    noise = 0.05 * np.eye(4) + 0.01, 0.5 * np.eye(2)
    return F, *noise, H, np.zeros(4), np.eye(4), rng.standard_normal((steps, 2))


def kalman_workload(steps: int) -> Workload:
    return Workload(
        name=f"kalman_inv_{steps}",
        group="linalg",
        fn=kalman,
        make_args=lambda: _filter_args(steps),
        argnums=(0, 1, 2),
        hand_gradient=_filter_in_numpy,
        limit=_filter_limit,
        spellings={"jax": jax_scan},
        reasons={"jax": "lax.scan"},
    )


# ---- small systems -------------------------------------------------------------------------------------------------


def solves(a, b):
    """a: (batch, 3, 3), b: (batch, 3, 1)."""
    x = np.linalg.solve(a, b)
    return np.sum(x * x)


def _solves_in_numpy(a: Any, b: Any) -> Any:
    x = np.linalg.solve(a, b)
    w = np.linalg.solve(np.swapaxes(a, -1, -2), 2.0 * x)
    return np.sum(x * x), (-w @ np.swapaxes(x, -1, -2), w)


def solves_by_hand(a, b):
    """By cofactors, without pivots."""
    value, da, db = 0.0, np.empty_like(a), np.empty_like(b)
    for t in range(len(a)):
        m = a[t]
        c00 = m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1]
        c01 = m[1, 2] * m[2, 0] - m[1, 0] * m[2, 2]
        c02 = m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0]
        c10 = m[0, 2] * m[2, 1] - m[0, 1] * m[2, 2]
        c11 = m[0, 0] * m[2, 2] - m[0, 2] * m[2, 0]
        c12 = m[0, 1] * m[2, 0] - m[0, 0] * m[2, 1]
        c20 = m[0, 1] * m[1, 2] - m[0, 2] * m[1, 1]
        c21 = m[0, 2] * m[1, 0] - m[0, 0] * m[1, 2]
        c22 = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        scale = 1.0 / (m[0, 0] * c00 + m[0, 1] * c01 + m[0, 2] * c02)
        p, q, r = b[t, 0, 0], b[t, 1, 0], b[t, 2, 0]
        x, y, z = ((c00 * p + c10 * q + c20 * r) * scale, (c01 * p + c11 * q + c21 * r) * scale,
                   (c02 * p + c12 * q + c22 * r) * scale)  # fmt: skip
        value += x * x + y * y + z * z
        w0 = 2.0 * scale * (c00 * x + c01 * y + c02 * z)
        w1 = 2.0 * scale * (c10 * x + c11 * y + c12 * z)
        w2 = 2.0 * scale * (c20 * x + c21 * y + c22 * z)
        db[t, 0, 0], db[t, 1, 0], db[t, 2, 0] = w0, w1, w2
        da[t, 0, 0], da[t, 0, 1], da[t, 0, 2] = -w0 * x, -w0 * y, -w0 * z
        da[t, 1, 0], da[t, 1, 1], da[t, 1, 2] = -w1 * x, -w1 * y, -w1 * z
        da[t, 2, 0], da[t, 2, 1], da[t, 2, 2] = -w2 * x, -w2 * y, -w2 * z
    return value, (da, db)


def _solves_limit() -> Callable[..., Any]:
    from numba import njit

    from ..vecmath import FAST

    return njit(**FAST)(solves_by_hand)


def _systems(batch: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((batch, 3, 3)) + 6.0 * np.eye(3), rng.standard_normal((batch, 3, 1))


# ---- a large factor ------------------------------------------------------------------------------------------------


def cholesky(a, weights):
    return np.sum(weights * np.linalg.cholesky(0.5 * (a + a.T)))


def _cholesky_in_numpy(a: Any, weights: Any) -> Any:
    from scipy.linalg import solve_triangular

    root = np.linalg.cholesky(0.5 * (a + a.T))
    inner = root.T @ np.tril(weights)
    inner = 0.5 * (np.tril(inner, -1) + np.tril(inner).T)
    half = solve_triangular(root, inner, lower=True, trans=1)
    return np.sum(weights * root), solve_triangular(root, half.T, lower=True, trans=1).T


def _symmetric(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((n, n))
    return a @ a.T + n * np.eye(n), rng.standard_normal((n, n))


WORKLOADS = [
    Workload("solves_100000x3x3", "linalg", solves, lambda: _systems(100_000), (0, 1),
             hand_gradient=_solves_in_numpy, limit=_solves_limit),
    Workload("cholesky_500", "linalg", cholesky, lambda: _symmetric(500), hand_gradient=_cholesky_in_numpy),
]  # fmt: skip
FILTERS = [kalman_workload(500)]
SMALL = [kalman_workload(8)]
