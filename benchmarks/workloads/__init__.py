"""The workloads, one module per idea; each module offers a list WORKLOADS."""

from __future__ import annotations

from ..workload import Workload
from . import black_scholes, chain, dispatch, gmm, logistic, mlp, rosenbrock, simplenet

ALL: dict[str, Workload] = {
    workload.name: workload
    for module in (dispatch, chain, rosenbrock, black_scholes, logistic, simplenet, mlp, gmm)
    for workload in module.WORKLOADS
}


def select(only: list[str]) -> list[Workload]:
    """The workloads whose name or group is among `only`, or begins with one of them; all for an empty list."""
    if not only:
        return list(ALL.values())
    chosen = [w for w in ALL.values() if any(w.group == word or w.name.startswith(word) for word in only)]
    unknown = [word for word in only if not any(w.group == word or w.name.startswith(word) for w in chosen)]
    if unknown:
        raise SystemExit(f"no workload is named {', '.join(unknown)}; there are: {', '.join(ALL)}")
    return chosen
