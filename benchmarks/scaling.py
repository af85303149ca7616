"""Kernels with several threads beside one: ``python -m benchmarks --scaling --threads 2``.

Everybody has so many cores. tracegrad's two take turns in one process, round by round, with JAX and its threads, where
that is installed; BLAS has as many as tracegrad (by threadpoolctl). Results of one and of several threads must be the
same bits, with BLAS's threads as they are.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from . import report, timing
from .peer import NotSpelledError, Prepared
from .peers import available
from .workload import Workload, leaves
from .workloads import ALL, SMALL_LOOPS, black_scholes


def _softmax_layernorm(x, scale, shift):  # of 4,096 rows of 1,024
    centred = x - x.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * scale + shift
    e = np.exp(normed - normed.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return np.sum(p * p) / len(x)


def _softmax_arguments() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((4096, 1024)), rng.random(1024) + 0.5, rng.standard_normal(1024)


SOFTMAX = Workload(
    name="softmax_layernorm", group="scaling", fn=_softmax_layernorm, make_args=_softmax_arguments, argnums=(0, 1, 2)
)
ROWS = (
    ALL["black_scholes_1e6"],
    black_scholes.row(10_000_000, "1e7"),
    ALL["gmm_10k_d10_K25"],
    SOFTMAX,
    *[w for name, w in ALL.items() if name not in SMALL_LOOPS and name not in ("black_scholes_1e6", "gmm_10k_d10_K25")],
)
ROUND = 2e-3  # seconds, at least, of a round


def _bits(result: Any) -> bytes:
    return b"".join([np.asarray(x.data if hasattr(x, "tocsr") else x).tobytes() for x in leaves(result)])


def run(options: argparse.Namespace) -> int:
    """Print the table, and keep it in RESULTS.md; returns 1 where bits differ."""
    from threadpoolctl import ThreadpoolController

    from tracegrad import config

    count = options.threads
    peers, missing = available(["tracegrad", *(options.peers.split(",") if options.peers else ["jax"])], count)
    for name, reason in missing.items():
        print(f"{name}: skipped ({reason})")

    def use(threads: int) -> None:
        config.num_threads = threads
        blas.limit(limits=threads)  # for good, unlike the context that it is, too

    blas = ThreadpoolController().select(user_api="blas")
    words = [word for word in options.only.split(",") if word]
    rows, differ = [], []
    for workload in ROWS:
        if words and not any(workload.name.startswith(word) for word in words):
            continue
        mine = peers["tracegrad"].prepare(workload).call
        calls: dict[str, tuple[int, Callable[[], Any]]] = {"1 thread": (1, mine), f"{count} threads": (count, mine)}
        use(count)
        timing.settle(mine)
        bits = set()
        for config.num_threads in (1, count):  # BLAS's own results depend on the number of its threads
            bits.add(_bits(mine()))
        if len(bits) > 1:
            differ.append(workload.name)
        for name, peer in peers.items():
            if name != "tracegrad":
                try:
                    prepared: Prepared = peer.prepare(workload)
                    timing.settle(prepared.call)
                    calls[name] = count, prepared.call
                except NotSpelledError:
                    continue
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        with timing.quiet_collector():
            for _ in range(options.rounds or (5 if options.quick else 21)):
                for name, (threads, call) in calls.items():
                    use(threads)
                    once = timing.seconds_of(call, 1)  # threads that have slept, and caches that others have filled
                    seconds[name].append(timing.seconds_of(call, max(1, int(ROUND / once))))
        found = {name: statistics.median(times) for name, times in seconds.items()}
        one, several = found["1 thread"], found[f"{count} threads"]
        others = [report.duration(found[name]) if name in found else "" for name in peers if name != "tracegrad"]
        rows.append([workload.name, report.duration(one), report.duration(several), f"{one / several:.2f}", *others])
        print(rows[-1], flush=True)
    titles = [f"{report.TITLES.get(name, name)}, {count} threads" for name in peers if name != "tracegrad"]
    text = report.table(["", "1 thread", f"{count} threads", "ratio", *titles], rows)
    print(text)
    for name in differ:
        print(f"{name}: other bits with {count} threads")
    if not (options.no_save or options.quick or words):
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        report.keep(
            "scaling", f"{text}\n\nValue and gradient, the same bits with one thread and with {count}. Measured {date}."
        )
    return 1 if differ else 0
