"""What a peer is: a library that prepares a workload, calls it, and hands the result to NumPy."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .workload import Workload, leaves, rebind

#: the value and the gradient's leaves, as NumPy has them
Result = tuple[float, list[np.ndarray]]


class NotSpelledError(Exception):
    """This peer has no spelling of this workload."""


@dataclass
class Prepared:
    """A workload ready to be called: `call` takes no arguments and returns only when the result is there."""

    call: Callable[[], Any]
    to_numpy: Callable[[Any], Result]


#: makes a call without arguments out of one set of the workload's NumPy arguments
Bind = Callable[[tuple[Any, ...]], Callable[[], Any]]


class Peer:
    """One library. Creating it imports the library: ImportError means that the peer is skipped."""

    name = ""
    distributions: tuple[str, ...] = ()
    #: whether a first call differs from a later one
    compiles = True
    #: whether it may take the process down with it: tried in a process of its own first
    aborts = False
    #: whether every call does the same: one is checked, and slow ones get fewer rounds
    eager = False

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def versions(self) -> dict[str, str]:
        """The versions of what this peer consists of."""
        return {name: importlib.metadata.version(name) for name in self.distributions}

    def function(self, workload: Workload) -> Callable[..., Any]:
        """The loss in this peer's spelling."""
        if self.name in workload.spellings:
            maker = workload.spellings[self.name]
            if maker is None:
                raise NotSpelledError(workload.reasons.get(self.name, "no spelling"))
            return maker()
        return rebind(workload.fn, **self.namespaces())

    def spells(self, workload: Workload) -> bool:
        """Whether there is anything to run."""
        if workload.prepared:
            return self.name in workload.prepared
        return workload.spellings.get(self.name, self.prepare) is not None

    def namespaces(self) -> dict[str, Any]:
        """What stands for `np` and for `special` in the plain NumPy function."""
        return {}

    def bind(self, workload: Workload) -> Bind:
        """The workload made ready for any arguments: what comes back converts them and compiles nothing yet."""
        raise NotImplementedError

    def read(self, workload: Workload, result: Any) -> Result:
        """What a call returned, in NumPy."""
        value, gradients = result
        return as_result(value, gradients)

    def prepare(self, workload: Workload) -> Prepared:
        """Convert the inputs and make the callable; compile nothing yet."""
        if workload.prepared:
            if self.name not in workload.prepared:
                raise NotSpelledError(workload.reasons.get(self.name, "no spelling"))
            return workload.prepared[self.name](self)
        bind = self.bind(workload)
        calls = [bind(args) for args in workload.all_args()]
        if len(calls) == 1:
            return Prepared(calls[0], lambda result: self.read(workload, result))

        def to_numpy(results: list[Any]) -> Result:
            return joined([self.read(workload, result) for result in results])

        return Prepared(lambda: [call() for call in calls], to_numpy)

    def warm(self) -> None:
        """Compile and run something unrelated, so that what is paid once per process is paid."""
        prepared = self.prepare(WARM_UP)
        for _ in range(2):
            prepared.call()


def _warm_loss(x, A):
    return np.sum(np.cosh(A @ x) - x)


def _warm_by_hand(x, A):
    t = A @ x
    return np.sum(np.cosh(t) - x), A.T @ np.sinh(t) - 1.0


def _warm_limit() -> Callable[..., Any]:
    from numba import njit

    return njit(_warm_by_hand)


#: the unrelated function that every peer runs before the first call of a workload is timed
WARM_UP = Workload(
    name="warm_up",
    group="warm_up",
    fn=_warm_loss,
    make_args=lambda: (np.linspace(0.0, 1.0, 16), np.eye(16)),
    hand_gradient=_warm_by_hand,
    limit=_warm_limit,
)


def as_result(value: Any, gradients: Any) -> Result:
    return float(value), [np.asarray(leaf) for leaf in leaves(gradients)]


def joined(results: list[Result]) -> Result:
    """Several calls' results as one: the sum of the values, all gradients."""
    return sum(value for value, _ in results), [leaf for _, gradients in results for leaf in gradients]
