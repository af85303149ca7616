"""How much new memory one cached value-and-gradient call takes at its peak, against the size of its outputs."""

from __future__ import annotations

import argparse
import datetime
import gc
import resource
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from . import report
from .peer import NotSpelledError
from .peers import available
from .workload import leaves
from .workloads import ALL

MEGABYTE = 1e6
ROWS = ("black_scholes_1e6", "mlp_784_256_256_10_f32")
PEERS = ("tracegrad", "numba", "numpy", "autograd")  # whose arrays are NumPy's: tracemalloc sees them

LEGEND = """Allocated: by NumPy or numba, as tracemalloc sees it. Kept: what NumPy holds when the results are gone.
tracegrad keeps memory of results of 4 MB or more for the next ones besides, so the next call makes nothing resident.
Newly resident: VmHWM after the call less VmRSS before it, which sees every allocator, but not what was mapped already.
"""


def _status(field: str) -> int:
    """A field of /proc/self/status in bytes, 0 where there is none."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def _reset_peak() -> bool:
    """Let the peak of the resident set (VmHWM) start anew from here."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _numpy_bytes() -> int:
    """What NumPy holds now of what it has allocated since tracemalloc started."""
    domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    traces = tracemalloc.take_snapshot().filter_traces([domain]).traces
    return sum(trace.size for trace in traces)


def measure(call: Any) -> dict[str, float]:
    """Bytes of one cached call: its outputs, the peak that NumPy allocated, the peak that became resident; and what
    NumPy still holds after the calls when their results are gone (a pooled workspace would be in there)."""
    tracemalloc.start()
    for _ in range(3):  # record, cached
        result = call()
    outputs = sum(np.asarray(leaf).nbytes for leaf in leaves(list(result)))
    del result
    gc.collect()
    kept = _numpy_bytes()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    result = call()
    allocated = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    del result

    gc.collect()
    possible = _reset_peak()
    resident = _status("VmRSS")
    high_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = call()
    grown = _status("VmHWM") - resident if possible else float("nan")
    rise = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - high_before)
    del result
    return {"outputs": outputs, "allocated": allocated, "kept": kept, "resident": grown, "maxrss": rise}


def run(options: argparse.Namespace) -> int:
    """Print the table, and keep it in RESULTS.md."""
    peers, missing = available(list(PEERS), options.threads)
    for name, reason in missing.items():
        print(f"{name}: skipped ({reason})")
    body = []
    for row in ROWS:
        for name, peer in peers.items():
            try:
                prepared = peer.prepare(ALL[row])
                figures = measure(prepared.call)
            except NotSpelledError:
                continue
            except Exception as problem:
                print(f"{row}, {name}: {type(problem).__name__}: {problem}")
                continue
            columns = [f"{size / MEGABYTE:.2f}" for size in figures.values()]
            ratio = f"{figures['allocated'] / figures['outputs']:.3f}"
            body.append([f"{row}, {report.TITLES.get(name, name)}", *columns, ratio])
    columns = [
        "outputs",
        "allocated at the peak",
        "kept between calls",
        "newly resident at the peak",
        "rise of ru_maxrss",
    ]
    text = report.table(["MB", *columns, "peak / outputs"], body)
    print(text)
    if options.save or ("tracegrad" in peers and not options.no_save and not options.quick):
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        report.keep("memory", f"{text}\n\n{LEGEND}Measured {date}.")
    return 0
