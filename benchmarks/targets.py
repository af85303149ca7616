"""The project's promises against what was measured: rows of text, needed, measured, met."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

#: beginnings of names of rows
BY_HAND = (
    "gmm", "adbench_lstm", "rk4_", "mlp", "logistic", "attention", "student", "poisson", "spline", "lennard_jones",
)  # fmt: skip

Row = Mapping[str, dict[str, Any]]
Rows = Mapping[str, Row]


def _verdict(text: str, needed: float, got: float, at_least: bool = True) -> list[str]:
    met = got >= needed if at_least else got <= needed
    return [text, f"{'≥' if at_least else '≤'} {needed:g}", f"{got:.2f}", "yes" if met else "**no**"]


def _time(rows: Rows, row: str, peer: str, key: str) -> float | None:
    return rows.get(row, {}).get(peer, {}).get(key)


def _ratio(rows: Rows, row: str, peer: str, key: str = "steady") -> float | None:
    """The peer's time in units of tracegrad's."""
    ours, theirs = _time(rows, row, "tracegrad", key), _time(rows, row, peer, key)
    return theirs / ours if ours and theirs else None


def means(rows: Rows) -> list[list[str]]:
    """Those of all rows together: geometric means over the rows that a peer has."""
    body = []
    for peer, title, needed in (("jax", "JAX", 6.0), ("drjit", "Dr.Jit", 3.0)):
        found = [value for row in rows if (value := _ratio(rows, row, peer)) is not None]
        if found:
            mean = math.exp(math.fsum(map(math.log, found)) / len(found))
            body.append(_verdict(f"geometric mean of {len(found)} rows, {title} / tracegrad", needed, mean))
    return body


def limits(rows: Rows) -> list[list[str]]:
    """Those of the rows whose kernel by hand is as good as we can write it."""
    body = []
    for row in rows:
        by_hand = _ratio(rows, row, "numba") if row.startswith(BY_HAND) else None
        if by_hand is not None:
            body.append(_verdict(f"{row}, tracegrad / numba by hand", 1.3, 1.0 / by_hand, at_least=False))
    return body


def straight(rows: Rows) -> list[list[str]]:
    """Those of functions without loops; what was not measured has no verdict."""
    body: list[list[str]] = []

    def add(text: str, needed: float, got: float | None, at_least: bool = True) -> None:
        if got is not None:
            body.append(_verdict(text, needed, got, at_least))

    add("Black-Scholes 1e6, JAX / tracegrad", 6.0, _ratio(rows, "black_scholes_1e6", "jax"))
    add("Black-Scholes 1e6, Dr.Jit / tracegrad", 1.3, _ratio(rows, "black_scholes_1e6", "drjit"))
    for row in ("dispatch_scalar", "dispatch_100"):
        ours = _time(rows, row, "tracegrad", "steady")
        add(f"{row}, µs a call", 2.0, ours * 1e6 if ours else None, at_least=False)
        add(f"{row}, JAX / tracegrad", 3.0, _ratio(rows, row, "jax"))
    add("Rosenbrock 1e6, JAX / tracegrad", 3.0, _ratio(rows, "rosenbrock_1e6", "jax"))
    for row in rows:
        if row.startswith("gmm"):
            add(f"{row}, JAX / tracegrad", 2.0, _ratio(rows, row, "jax"))
    for key, title, needed in (("steady", "steady state", 1.0 / 1.3), ("first", "first call", 1.0)):
        ratios = {row: value for row in rows if (value := _ratio(rows, row, "jax", key)) is not None}
        worst = min(ratios, key=ratios.__getitem__, default=None)
        for row, value in ratios.items():  # the worst row, and every row that misses
            if row == worst or value < needed:
                add(f"{title}, no row much slower than JAX: {row}, JAX / tracegrad", round(needed, 2), value)
    return body


def derivatives(rows: Rows) -> list[list[str]]:
    """Those of Jacobians, Hessians and ADBench."""
    body: list[list[str]] = []

    def add(text: str, needed: float, got: float | None, at_least: bool = True) -> None:
        if got is not None:
            body.append(_verdict(text, needed, got, at_least))

    for row in rows:
        ours = _time(rows, row, "tracegrad", "steady")
        if row.endswith("small_4"):
            add(f"{row}, µs a call", 2.0, ours * 1e6 if ours else None, at_least=False)
        if row.endswith(("rosenbrock_50", "rosenbrock_1e3")):
            by_hand = _ratio(rows, row, "numba")
            add(f"{row}, tracegrad / numba by hand", 2.0, 1.0 / by_hand if by_hand else None, at_least=False)
        if row.startswith("sparse_hessian"):
            add(f"{row}, ms a call", 20.0, ours * 1e3 if ours else None, at_least=False)
        if row.startswith("hand"):
            add(f"first call of {row}, s", 4.0, _time(rows, row, "tracegrad", "first"), at_least=False)
        faster = 3.0 if row.endswith(("rosenbrock_50", "rosenbrock_1e3")) else 5.0 if row.startswith("ba") else 1.0
        add(f"{row}, JAX / tracegrad", faster, _ratio(rows, row, "jax"))
        add(f"first call of {row}, JAX / tracegrad", 0.5, _ratio(rows, row, "jax", "first"))
    return body


def loops(rows: Rows) -> list[list[str]]:
    """Those of control flow, of every row that was run; where tracegrad has no time, its outcome stands there."""
    body: list[list[str]] = []

    def add(row: str, text: str, needed: float, got: float | None, at_least: bool = True) -> None:
        if got is not None:
            body.append(_verdict(text, needed, got, at_least))
            return
        outcome = rows.get(row, {}).get("tracegrad", {}).get("status", "ok")
        if outcome != "ok":  # a peer that has no time is no failure of ours
            body.append([text, f"{'≥' if at_least else '≤'} {needed:g}", outcome, "**no**"])

    for row in rows:
        add(row, f"{row}, JAX / tracegrad", 3.0, _ratio(rows, row, "jax"))
        if not row.startswith("branches"):
            add(row, f"{row}, PyTorch eager / tracegrad", 100.0, _ratio(rows, row, "torch"))
        by_hand = _ratio(rows, row, "numba") if not row.startswith(BY_HAND) else None
        add(row, f"{row}, tracegrad / numba by hand", 2.0, 1.0 / by_hand if by_hand else None, at_least=False)

    firsts = {row: _time(rows, row, "tracegrad", "first") for row in rows}
    cached = {row: _time(rows, row, "tracegrad", "steady") or 0.0 for row in rows}
    few, many, most = "rk4_50", "rk4_1000", "rk4_20000"
    if few in rows and many in rows:
        ratio = firsts[many] / firsts[few] if firsts[few] and firsts[many] else None
        add(many, "first call of rk4_1000 / of rk4_50", 2.0, ratio, at_least=False)
    if many in rows:
        add(many, "first call of rk4_1000, s", 1.5, firsts[many], at_least=False)
    if most in rows:
        add(most, "first call of rk4_20000, s", 5.0, firsts[most], at_least=False)
    if few in rows and most in rows:
        compiling = {row: firsts[row] - cached[row] if firsts[row] else None for row in (few, most)}
        ratio = compiling[most] / compiling[few] if compiling[few] and compiling[most] else None
        text = "compile time independent of the steps: first call less a cached one, of rk4_20000 / of rk4_50"
        add(most, text, 2.0, ratio, at_least=False)
    return body
