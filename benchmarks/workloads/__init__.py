"""The workloads, one module per idea; each module offers a list WORKLOADS."""

from __future__ import annotations

from ..workload import Workload
from . import (
    adbench,
    black_scholes,
    branches,
    chain,
    dispatch,
    gmm,
    hmm,
    kalman,
    linalg,
    logistic,
    lotka_volterra,
    lstm,
    mlp,
    newton,
    passes,
    rk4,
    rk45,
    rosenbrock,
    simplenet,
    transforms,
)

_STRAIGHT = (dispatch, chain, rosenbrock, black_scholes, logistic, simplenet, mlp, gmm, linalg, passes)
_LOOPS = (rk4, lstm, kalman, hmm, newton, branches, rk45, lotka_volterra)

STRAIGHT: dict[str, Workload] = {workload.name: workload for module in _STRAIGHT for workload in module.WORKLOADS}
#: control flow: loops, `while`, `if`
LOOPS: dict[str, Workload] = {workload.name: workload for module in _LOOPS for workload in module.WORKLOADS}
LOOPS |= {workload.name: workload for workload in linalg.FILTERS}
#: the same with few steps, for ``--quick``
SMALL_LOOPS: dict[str, Workload] = {w.name: w for module in (*_LOOPS, linalg) for w in module.SMALL}
#: other derivatives than a gradient, and the objectives of ADBench
DERIVATIVES: dict[str, Workload] = {w.name: w for module in (transforms, adbench) for w in module.WORKLOADS}
ALL: dict[str, Workload] = STRAIGHT | LOOPS | SMALL_LOOPS | DERIVATIVES


def is_loop(name: str) -> bool:
    """Whether a row is one of control flow."""
    return name in LOOPS or name in SMALL_LOOPS


def kind(name: str) -> str:
    """The table that a row belongs to: "loops", "derivatives" or "straight"."""
    return "loops" if is_loop(name) else "derivatives" if name in DERIVATIVES else "straight"


def select(only: list[str], loops: bool = False, quick: bool = False, groups: tuple[str, ...] = ()) -> list[Workload]:
    """The workloads whose name or group is among `only`, or begins with one of them; all for an empty list.

    With `loops` those of control flow alone; with `quick` their small sizes, unless a name is given in full; with
    `groups` those of these groups alone.
    """
    sized = SMALL_LOOPS if quick else LOOPS
    offered = sized if loops else STRAIGHT | sized | DERIVATIVES
    if groups:
        offered = {name: workload for name, workload in ALL.items() if workload.group in groups}
    chosen = dict(offered) if not only else {}
    for word in only:
        if word in ALL:
            found = {word: ALL[word]}
        else:
            found = {w.name: w for w in offered.values() if w.group == word or w.name.startswith(word)}
        if not found:
            raise SystemExit(f"no workload is named {word}; there are: {', '.join(ALL)}")
        chosen |= found
    return list(chosen.values())
