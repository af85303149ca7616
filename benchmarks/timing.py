"""Cross-check, then steady-state timing interleaved between peers."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .peer import NotSpelledError, Peer, Prepared, Result, joined
from .workload import Workload, leaves

Cell = dict[str, Any]

#: the first calls record and compile; the later ones are what is timed: all must be right
CHECKED_CALLS = 4
#: seconds that the rounds of one peer may take for one workload: a slow one gets fewer, but not less than SLOW_ROUNDS
PEER_SECONDS = 20.0
SLOW_ROUNDS = 3
#: calls, or seconds, until a library has settled: tracegrad's first 64 may be answered by the recording on disk, each
#: of which takes some 0.5 ms more than one of those that are to be timed
SETTLING_CALLS, SETTLING_SECONDS = 100, 1.0


def deviation(result: Result, reference: Result) -> float:
    """The largest relative error of value and gradients.

    Each element's error is measured against the larger of its own size and its array's root mean square, so that an
    element which is zero by cancellation doesn't count as infinitely wrong.
    """
    worst = abs(result[0] - reference[0]) / max(abs(reference[0]), 1e-300) if result[0] != reference[0] else 0.0
    if len(result[1]) != len(reference[1]):
        return float("inf")
    for got, want in zip(result[1], reference[1], strict=True):
        if got.shape != want.shape:
            return float("inf")
        scale = np.maximum(np.abs(want), np.sqrt(np.mean(np.square(want))))
        worst = max(worst, float(np.max(np.abs(got - want) / np.maximum(scale, 1e-300), initial=0.0)))
    return worst if worst == worst else float("inf")


def reference(workload: Workload) -> Result:
    """Value and gradient by hand in float64, the gradient confirmed by a central difference of the plain function; or
    what the workload itself expects."""
    if workload.expected is not None:
        return workload.expected()
    return joined([_reference(workload, [_double(arg) for arg in args]) for args in workload.all_args()])


def _reference(workload: Workload, args: list[Any]) -> Result:
    assert workload.hand_gradient is not None
    value, gradient = workload.hand_gradient(*args)
    plain = workload.exact or workload.fn
    flat = [np.asarray(leaf) for leaf in leaves(gradient)]
    if abs(plain(*args) - value) > 1e-9 * abs(value):
        raise AssertionError(f"{workload.name}: the value derived by hand is wrong")
    rng = np.random.default_rng(1)
    directions = [rng.standard_normal(leaf.shape) for leaf in flat]
    slope = sum(float(np.sum(g * d)) for g, d in zip(flat, directions, strict=True))
    size = float(np.sqrt(sum(float(np.sum(g * g)) for g in flat)))
    errors = []
    for step in (1e-5, 1e-6, 1e-7):  # a kink (ReLU) between the two points spoils the long steps, rounding the short
        high, low = (plain(*_moved(workload, args, directions, sign * step)) for sign in (1.0, -1.0))
        errors.append(abs((high - low) / (2.0 * step) - slope))
    if min(errors) > 1e-5 * size:
        raise AssertionError(f"{workload.name}: the gradient derived by hand is wrong")
    return float(value), flat


def _double(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _double(item) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_double(item) for item in tree)
    return tree.astype(np.float64) if isinstance(tree, np.ndarray) and tree.dtype.kind == "f" else tree


def _moved(workload: Workload, args: list[Any], directions: list[np.ndarray], step: float) -> list[Any]:
    """The arguments with the differentiated ones moved along the directions."""
    left: Iterator[np.ndarray] = iter(directions)

    def move(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: move(tree[key]) for key in sorted(tree)}
        if isinstance(tree, list | tuple):
            return type(tree)(move(item) for item in tree)
        return tree + step * next(left)

    moved = list(args)
    for i in workload.argtuple:
        moved[i] = move(args[i])
    return moved


@contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection while the clock runs."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def seconds_of(call: Callable[[], Any], count: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Mean seconds of `count` calls in a row; each result is dropped when the next one is there."""
    repeat = range(count)
    begin = clock()
    for _ in repeat:
        call()
    return (clock() - begin) / count


def settle(call: Callable[[], Any]) -> None:
    """Call it until what happens in first calls is over."""
    begin = time.perf_counter()
    for _ in range(SETTLING_CALLS):
        call()
        if time.perf_counter() - begin > SETTLING_SECONDS:
            break


def check(workload: Workload, peers: dict[str, Peer]) -> tuple[dict[str, Prepared], dict[str, Cell]]:
    """Prepare each peer and compare it with the reference; what is wrong or fails is not timed."""
    expected = reference(workload)
    ready: dict[str, Prepared] = {}
    cells: dict[str, Cell] = {}
    for name, peer in peers.items():
        try:
            prepared = peer.prepare(workload)
            calls = 1 if peer.eager else CHECKED_CALLS
            error = max(deviation(prepared.to_numpy(prepared.call()), expected) for _ in range(calls))
        except NotSpelledError as reason:
            cells[name] = {"status": "none", "note": str(reason)}
            continue
        except Exception as problem:
            first = (str(problem).splitlines() or [""])[0]
            cells[name] = {"status": "failed", "note": f"{type(problem).__name__}: {first}"}
            continue
        if error <= workload.tolerance:
            cells[name] = {"status": "ok", "error": error}
            ready[name] = prepared
        else:
            cells[name] = {"status": "wrong", "error": error, "note": f"relative error {error:.1e}, not timed"}
    return ready, cells


def steady(ready: dict[str, Prepared], rounds: int, batch_seconds: float) -> dict[str, list[float]]:
    """Seconds a call for each peer, one figure a round; the rounds go around the peers so that noise hits all alike."""
    counts, turns = {}, {}
    for name, prepared in ready.items():
        settle(prepared.call)
        once = seconds_of(prepared.call, 1)
        if once < 1.0:
            once = seconds_of(prepared.call, 1)
        counts[name] = max(1, round(batch_seconds / max(once, 1e-7)))
        if counts[name] > 1:  # a better estimate where a single call is too short for one
            counts[name] = max(1, round(batch_seconds / max(seconds_of(prepared.call, counts[name]), 1e-9)))
        turns[name] = min(rounds, max(SLOW_ROUNDS, int(PEER_SECONDS / (2.0 * max(once, batch_seconds)))))
    samples: dict[str, list[float]] = {name: [] for name in ready}
    names = list(ready)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if turn >= turns[name]:
                continue
            call = ready[name].call
            with quiet_collector():
                if turns[name] == rounds:
                    call()  # its code and data back into cache
                samples[name].append(seconds_of(call, counts[name]))
    return samples


def measure(workload: Workload, peers: dict[str, Peer], rounds: int, batch_seconds: float) -> dict[str, Cell]:
    """One row of the table, steady state only."""
    ready, cells = check(workload, peers)
    for name, samples in steady(ready, rounds, batch_seconds).items():
        low, _, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else samples * 3
        cells[name] |= {"steady": statistics.median(samples), "best": min(samples), "quartiles": [low, high]}
    return cells
