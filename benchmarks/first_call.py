"""First calls, each in a process of its own that has compiled something unrelated before."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from typing import Any

from .workload import Workload

Cell = dict[str, Any]


def child(workload_name: str, peer_name: str, threads: int) -> None:
    """The body of the child process: print one line of JSON."""
    from .peers import PEERS  # NumPy and SciPy, which every peer has anyway, are loaded here
    from .workloads import ALL

    begin = time.perf_counter()
    peer = PEERS[peer_name](threads)
    imported = time.perf_counter()
    peer.warm()
    warmed = time.perf_counter()
    prepared = peer.prepare(ALL[workload_name])
    start = time.perf_counter()
    prepared.call()
    first = time.perf_counter()
    prepared.call()
    second = time.perf_counter()
    print(
        json.dumps(
            {
                "import": imported - begin,
                "warm": warmed - imported,
                "first": first - start,
                "second": second - first,
            }
        )
    )


def environment(home: str, disk_cache: bool = False) -> dict[str, str]:
    """Each library's cache on disk goes into `home`: empty, unless a run before has filled it."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    environment |= {"HOME": home, "XDG_CACHE_HOME": home, "TRACEGRAD_CACHE_DIR": os.path.join(home, "tracegrad")}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": os.path.join(home, "inductor")}
    if disk_cache:  # JAX's is off by default
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": os.path.join(home, "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    return environment


def _spawn(name: str, peer: str, threads: int, home: str, disk_cache: bool, timeout: float) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks", "--threads", str(threads), "--child", name, peer]
    done = subprocess.run(
        command, env=environment(home, disk_cache), capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        told = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
        raise RuntimeError(f"exit status {done.returncode}: {told[:200]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(
    workload: Workload,
    peers: list[str],
    threads: int,
    repeats: int,
    disk_cache: bool = False,
    timeout: float = 300.0,
    once: Collection[str] = (),
) -> dict[str, Cell]:
    """Medians of first call, second call, import and warm-up for each peer, of one process for those in `once`; of
    tracegrad, with `disk_cache` of all, of a process that finds the files which the one before it left, too."""
    samples: dict[str, list[dict[str, float]]] = {peer: [] for peer in peers}
    found: dict[str, list[float]] = {peer: [] for peer in peers}
    cells: dict[str, Cell] = {}
    for turn in range(repeats):
        for peer in peers:
            if peer in cells or (turn and peer in once):
                continue
            with tempfile.TemporaryDirectory() as home:
                try:
                    samples[peer].append(_spawn(workload.name, peer, threads, home, False, timeout))
                    if disk_cache or peer == "tracegrad":  # which always keeps files
                        if peer == "jax":  # fill it: the run above had none
                            _spawn(workload.name, peer, threads, home, True, timeout)
                        found[peer].append(_spawn(workload.name, peer, threads, home, True, timeout)["first"])
                except subprocess.TimeoutExpired:
                    note = f"start and first two calls took more than the limit of {timeout:g} s"
                    cells[peer] = {"outcome": "too long", "first_note": note}
                except RuntimeError as problem:
                    cells[peer] = {"outcome": "failed", "first_note": str(problem)}
    for peer, runs in samples.items():
        if runs:
            cell = {key: statistics.median(run[key] for run in runs) for key in ("import", "warm", "first", "second")}
            if found[peer]:
                cell["first_from_disk"] = statistics.median(found[peer])
            cells[peer] = cell
    return cells
