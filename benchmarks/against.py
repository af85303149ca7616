"""This checkout beside another one, row by row: ``python -m benchmarks --against PATH``.

Each runs the rows of this checkout in a process of its own, by ``PATH/.venv`` where there is one; the two take turns on
one core. Clocks count processor time, which others on the machine disturb least. Figures: import (after NumPy and
SciPy), first calls, cached calls (the median of rounds). A process keeps its luck with addresses, so there are several
pairs of processes: the ratio, this checkout's time in units of the other's, is their median, beside their quartiles.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from . import first_call, report, timing, training
from .peer import Prepared
from .peers import PEERS
from .training_tasks import SIMPLENET
from .workloads import ALL, select

HERE = Path(__file__).resolve().parent.parent
ROWS = ("dispatch_scalar", "dispatch_100", "black_scholes_1e6", "gmm_1k_d10_K25", "rk4_1000", "lstm_128")
#: rows that are no workloads
STEPS = {
    "training_eager": partial(training.tracegrad_eager, SIMPLENET),
    "training_compiled": partial(training.tracegrad_compiled, SIMPLENET),
}
#: a ratio above it is too much, if it is not noise: if three quarters of the pairs are above 1
TOLERANCE = 1.03


def worker(checkout: str) -> None:
    """The body of a process: import the checkout's tracegrad, then answer requests for a row's time."""
    sys.path.insert(0, checkout)
    begin = time.process_time()
    import tracegrad

    imported = time.process_time() - begin
    sys.path.remove(checkout)  # the benchmarks are this checkout's
    assert Path(tracegrad.__file__).is_relative_to(checkout), tracegrad.__file__
    print(json.dumps([imported, report.versions("numpy", "scipy", "numba", "llvmlite")]), flush=True)
    peer = PEERS["tracegrad"](1)
    peer.warm()
    ready: dict[str, Prepared] = {}
    for request in sys.stdin:
        name, count = json.loads(request)
        if name not in ready:
            ready[name] = Prepared(STEPS[name](), Any) if name in STEPS else peer.prepare(ALL[name])
        print(json.dumps(_seconds(ready[name], count) if count else _error(ready[name], name)), flush=True)


def _seconds(prepared: Prepared, count: int) -> float:
    with timing.quiet_collector():
        return timing.seconds_of(prepared.call, count, time.process_time)


def _error(prepared: Prepared, name: str) -> float:
    """The relative error of a call, raising if it is too large; steps are compared by ``--training``."""
    if name in STEPS:
        return 0.0
    error = timing.deviation(prepared.to_numpy(prepared.call()), timing.reference(ALL[name]))
    assert error <= ALL[name].tolerance, f"{name}: relative error {error:.1e}"
    return error


class Checkout:
    """A process that imports a checkout's tracegrad, and runs it when asked to."""

    def __init__(self, path: Path, home: str) -> None:
        own = path / ".venv" / "bin" / "python"
        python = own if path != HERE and own.exists() else sys.executable
        program = f"import sys; sys.path.insert(0, {str(HERE)!r}); from benchmarks.against import worker"
        self.path = path
        self.process = subprocess.Popen(
            [python, "-P", "-c", f"{program}; worker({str(path)!r})"],
            env=first_call.environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.imported, self.versions = self._answer()

    def ask(self, name: str, count: int) -> float:
        """Processor seconds of a call, the mean of *count*; its relative error for a count of 0."""
        assert self.process.stdin
        print(json.dumps([name, count]), file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.path}: its process ended, see above")
        return json.loads(line)


Figures = dict[str, dict[Path, float]]


def pair(paths: list[Path], names: list[str], rounds: int, batch_seconds: float) -> tuple[Figures, dict[Path, str]]:
    """Seconds of each figure for each of two checkouts, the first of which begins; the versions of what they use."""
    with tempfile.TemporaryDirectory() as home:
        sides = [Checkout(path, os.path.join(home, str(i))) for i, path in enumerate(paths)]
        figures = {"import": {side.path: side.imported for side in sides}}
        for name in names:
            figures[f"{name}, first call"] = {side.path: side.ask(name, 1) for side in sides}
            for side in sides:
                side.ask(name, 0)
            once = min(side.ask(name, timing.CHECKED_CALLS) for _ in range(3) for side in sides)
            count = max(1, round(batch_seconds / once))
            samples: dict[Path, list[float]] = {path: [] for path in paths}
            for turn in range(rounds):
                for side in sides[:: -1 if turn % 2 else 1]:
                    samples[side.path].append(side.ask(name, count))
            figures[name] = {path: statistics.median(found) for path, found in samples.items()}
        for side in sides:
            side.process.communicate()  # no more requests: it ends
    return figures, {side.path: side.versions for side in sides}


def run(options: argparse.Namespace) -> int:
    """Print the table; returns 1 if a figure is worse by more than the tolerance."""
    words = [word for word in options.only.split(",") if word] or [*ROWS, *STEPS]
    workloads = [word for word in words if word not in STEPS]
    names = [workload.name for workload in select(workloads, quick=options.quick)] if workloads else []
    names += [word for word in words if word in STEPS]
    paths = [HERE, Path(options.against).resolve()]
    rounds, pairs, batch_seconds = (5, 3, 0.005) if options.quick else (15, 7, 0.02)
    found = []
    for turn in range(pairs):
        print(f"pair {turn + 1} of {pairs}", file=sys.stderr)
        figures, versions = pair(paths[:: -1 if turn % 2 else 1], names, options.rounds or rounds, batch_seconds)
        found.append(figures)
    for path in paths:
        print(f"{path}: {versions[path]}")
    body, worse = [], []
    for figure in found[0]:
        times = [[figures[figure][path] for figures in found] for path in paths]
        low, ratio, high = statistics.quantiles((ours / theirs for ours, theirs in zip(*times, strict=True)), n=4)
        if ratio > TOLERANCE and low > 1.0:
            worse.append(figure)
        shown = [report.duration(statistics.median(samples)) for samples in times]
        body.append([figure, *shown, f"{ratio:.3f}", f"{low:.3f} to {high:.3f}"])
    print(report.table(["processor time", "this", "the other", "ratio", "quartiles"], body))
    if worse:
        print(f"worse by more than {TOLERANCE - 1.0:.0%}, in three quarters of the pairs slower: {', '.join(worse)}")
    return 1 if worse else 0
