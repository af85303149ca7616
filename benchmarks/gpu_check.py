"""``python -m benchmarks --gpu`` (``make gpu-check``): everything that needs a GPU, in one run.

The tests marked ``gpu``; NVIDIA's compute-sanitizer over a handful of kernels, where it is installed; then the
benchmarks: what the device can do (copying memory, float64 arithmetic), value and gradient of each workload beside the
peers that are installed, the memory that is held after 10,000 calls of changing shapes, and what a cached call costs
the host.  The tables go to RESULTS.md.

Without a GPU it says so in a line, touches nothing and exits with status 2.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.metadata
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import report
from .gpu_peers import PEERS, Call, GpuPeer, Ours, available
from .gpu_workloads import FULL, WORKLOADS, small
from .peer import NotSpelledError
from .workload import Workload, leaves

ROOT = Path(__file__).resolve().parent.parent
# compiling takes cores
TESTS = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-n", "auto", str(ROOT / "tests" / "gpu")]
SANITIZED = [*TESTS, "-n", "0", "-k", "handful"]
QUICK = 1000  # with --quick, sizes are divided by this
Clock = Callable[[], float]


def missing() -> str:
    """Why nothing can be checked here; "" if all can."""
    from tracegrad.runtime.cuda.availability import cuda_status
    from tracegrad.runtime.cuda.run import compiler

    found = cuda_status().missing
    if not found and isinstance(why := compiler(), str):
        return why
    return found


# ---- tests ---------------------------------------------------------------------------------------------------------


def outcome(command: list[str]) -> tuple[bool, str]:
    """(did it end well, its last line), its output shown as it comes."""
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line.strip("= \n") or last
    return process.returncode == 0, last


def tests() -> tuple[bool, list[list[str]]]:
    """(did all pass, rows for the table)."""
    good, last = outcome(TESTS)
    rows = [["pytest -m gpu", last, "yes" if good else "**no**"]]
    sanitizer = shutil.which("compute-sanitizer")
    for tool in ("memcheck", "racecheck"):
        if sanitizer is None:
            rows.append([f"compute-sanitizer, {tool}", "not installed", "–"])
            continue
        clean, last = outcome([sanitizer, "--tool", tool, "--error-exitcode", "1", *SANITIZED])
        rows.append([f"compute-sanitizer, {tool}", last, "yes" if clean else "**no**"])
        good &= clean
    return good, rows


# ---- time ----------------------------------------------------------------------------------------------------------


def seconds_of(call: Call, wait: Callable[[], None], count: int, clock: Clock = time.perf_counter) -> float:
    """Mean seconds of *count* calls in a row, the device's work included."""
    wait()
    begin = clock()
    for _ in range(count):
        call()
    wait()
    return (clock() - begin) / count


def steady(
    ready: dict[str, tuple[Call, Callable[[], None]]], rounds: int, batch: float, clock: Clock = time.perf_counter
) -> dict[str, Any]:
    """Median seconds a call, or what went wrong; rounds go around the peers, in batches of about *batch* seconds."""
    counts: dict[str, int] = {}
    samples: dict[str, list[float]] = {name: [] for name in ready}
    failed: dict[str, str] = {}
    names = list(ready)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if name in failed:
                continue
            try:
                if name not in counts:
                    seconds_of(*ready[name], 2, clock)
                    counts[name] = max(1, round(batch / max(seconds_of(*ready[name], 3, clock), 1e-7)))
                samples[name].append(seconds_of(*ready[name], counts[name], clock))
            except Exception as problem:  # no memory, most likely: others go on
                failed[name] = f"failed: {type(problem).__name__}"
    return {name: failed.get(name) or statistics.median(samples[name]) for name in names}


def deviation(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest error relative to each array's root mean square, or to the element where that is larger."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        b = b.astype(np.float64)
        scale = np.maximum(np.abs(b), np.sqrt(np.mean(b * b))) + 1e-300
        worst = max(worst, float(np.max(np.abs(a.reshape(b.shape) - b) / scale, initial=0.0)))
    return worst if worst == worst else float("inf")


def reference(workload: Workload, args: tuple[Any, ...]) -> list[np.ndarray]:
    """The value and the gradients' leaves, by the CPU's kernels."""
    from tracegrad import compile_grad

    value, gradients = compile_grad(workload.fn, argnums=workload.argnums).value_and_grad(*args)
    return [np.asarray(x) for x in (value, *leaves(gradients))]


def measure(
    workload: Workload, peers: dict[str, GpuPeer], rounds: int, batch: float, clock: Clock = time.perf_counter
) -> dict[str, Any]:
    """Seconds a call by peer, or why there is none.  What is not as on the CPU is not timed."""
    args = workload.make_args()
    expected = reference(workload, args)
    ready: dict[str, tuple[Call, Callable[[], None]]] = {}
    cells: dict[str, Any] = {}
    for name, peer in peers.items():
        try:
            call = peer.prepare(workload, args)
            for _ in range(3):  # record, cached
                result = call()
            error = deviation(peer.to_numpy(result), expected)
            del result
        except NotSpelledError:
            cells[name] = "–"
            continue
        except Exception as problem:
            cells[name] = f"failed: {type(problem).__name__}"
            continue
        if error > workload.tolerance:
            cells[name] = f"wrong: {error:.1e}"
        else:
            ready[name] = call, peer.wait
    return cells | steady(ready, rounds, batch, clock)


# ---- what the device can do ------------------------------------------------------------------------------------------

CHAINS, STEPS = 8, 4096
ARITHMETIC = """
extern "C" __global__ void chains(double *out, double b, double c, int steps) {
  double a[8];
  for (int k = 0; k < 8; ++k) a[k] = threadIdx.x + k;
  for (int i = 0; i < steps; ++i)
    for (int k = 0; k < 8; ++k) a[k] = fma(a[k], b, c);
  double total = 0;
  for (int k = 0; k < 8; ++k) total += a[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
"""


def ceilings(cupy: Any, elements: int) -> dict[str, float]:
    """Bytes a second that a copy on the device moves, and float64 operations a second of independent chains."""
    stream = cupy.cuda.get_current_stream()
    source, target = cupy.ones(elements), cupy.empty(elements)
    copy = steady({"copy": (lambda: cupy.copyto(target, source), stream.synchronize)}, 7, 0.1)["copy"]
    kernel = cupy.RawKernel(ARITHMETIC, "chains")
    blocks, threads = 8 * cupy.cuda.Device().attributes["MultiProcessorCount"], 256
    out = cupy.empty(blocks * threads)

    def arithmetic() -> None:
        kernel((blocks,), (threads,), (out, 0.999999, 1e-6, np.int32(STEPS)))

    once = steady({"arithmetic": (arithmetic, stream.synchronize)}, 7, 0.1)["arithmetic"]
    return {"bytes": 2 * source.nbytes / copy, "flops": 2.0 * CHAINS * STEPS * blocks * threads / once}


def held_memory(cupy: Any, calls: int) -> tuple[int, int]:
    """(bytes that CuPy's pool holds after a tenth of *calls* of fifty sizes, and after all)."""
    import tracegrad

    f = tracegrad.compile_grad(small, target="cuda")
    arrays = [cupy.ones(1000 + 100 * k) for k in range(50)]
    pool, early = cupy.get_default_memory_pool(), 0
    for k in range(calls):
        f.value_and_grad(arrays[k % len(arrays)])
        if k == calls // 10:
            early = pool.total_bytes()
    return early, pool.total_bytes()


def host_cost(peer: GpuPeer, count: int) -> str:
    """What the host spends on one cached call of a small function, not waiting for the device."""
    workload = WORKLOADS["small_f64"](100)
    try:
        call = peer.prepare(workload, workload.make_args())
        seconds_of(call, peer.wait, 20)
        begin = time.perf_counter()
        for _ in range(count):
            call()
        cost = (time.perf_counter() - begin) / count
        peer.wait()
    except Exception as problem:
        return f"failed: {type(problem).__name__}"
    return report.duration(cost)


# ---- the report ----------------------------------------------------------------------------------------------------


def least_bytes(workload: Workload) -> int:
    """Arguments read once, gradients written once."""
    args = workload.make_args()
    read = sum(np.asarray(leaf).nbytes for leaf in leaves(args))
    return read + sum(np.asarray(leaf).nbytes for k in workload.argtuple for leaf in leaves(args[k]))


def text(
    device: str, checks: list[list[str]], limits: dict[str, float], rows: dict[str, dict[str, Any]],
    least: dict[str, int], facts: list[list[str]], versions: str,
) -> str:  # fmt: skip
    """The section of RESULTS.md."""
    peers = [name for name in PEERS if any(name in cells for cells in rows.values())]
    body = []
    for name, cells in rows.items():
        ours = cells.get("tracegrad")
        share = f"{least[name] / ours / limits['bytes']:.0%}" if isinstance(ours, float) else "–"
        shown = [report.duration(c) if isinstance(c := cells.get(p, "–"), float) else c for p in peers]
        body.append([name, *shown, f"{least[name] / 1e6:.1f}", share])
    head = ["value and gradient", *(report.TITLES.get(p, p) for p in peers), "MB at least", "of the copy's bandwidth"]
    made = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {device}, {versions}."
    ceiling = (
        f"In the same run a copy on the device moved {limits['bytes'] / 1e9:.0f} GB/s, and independent chains of "
        f"float64 multiplications and additions did {limits['flops'] / 1e12:.1f} TFLOP/s."
    )  # fmt: skip
    parts = [made, report.table(["check", "outcome", "passed"], checks), ceiling]
    parts += [report.table(head, body), report.table(["", "measured"], facts)]
    return "\n\n".join(parts)


def run(options: argparse.Namespace) -> int:
    """All of it; returns 2 where there is no GPU, 1 where something was wrong."""
    if reason := missing():
        print(f"no GPU to check on, nothing was done: {reason}")
        return 2
    good, checks = tests()
    names = [name for name in options.peers.split(",") if name] or list(PEERS)
    peers, absent = available(list(dict.fromkeys(["tracegrad", *names])))
    for name, reason in absent.items():
        print(f"{name}: skipped ({reason})")
    ours = peers["tracegrad"]
    assert isinstance(ours, Ours)
    cupy, shrink = ours.cupy, QUICK if options.quick else 1
    limits = ceilings(cupy, 2**27 // shrink)
    wanted = [word for word in options.only.split(",") if word]
    rows: dict[str, dict[str, Any]] = {}
    least: dict[str, int] = {}
    for name, make in WORKLOADS.items():
        if wanted and not any(name.startswith(word) for word in wanted):
            continue
        workload = make(max(FULL[name] // shrink, 64))
        least[name] = least_bytes(workload)
        rows[name] = measure(workload, peers, options.rounds or (5 if options.quick else 15), 0.05)
        print(name, rows[name], flush=True)
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()
    early, late = held_memory(cupy, 10_000)
    facts = [
        ["memory held after 1,000 and after 10,000 calls of 50 sizes", f"{early / 1e6:.2f} MB, {late / 1e6:.2f} MB"],
        *[[f"host time of a cached call, {name}", host_cost(p, 2000)] for name, p in peers.items()],
    ]
    distributions = list(dict.fromkeys(d for peer in peers.values() for d in peer.distributions))
    installed = [d for d in distributions if _installed(d)]
    section = text(ours.device(), checks, limits, rows, least, facts, report.versions(*installed))
    print(f"\n{section}")
    if not options.no_save and (options.save or not (options.quick or wanted)):
        report.keep("gpu", section)
    wrong = any(isinstance(c, str) and c.startswith("wrong") for cells in rows.values() for c in cells.values())
    return 0 if good and not wrong and late <= early else 1


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
