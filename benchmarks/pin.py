"""Pin a process to a number of cores and threads. Must run before any numerical library is imported."""

from __future__ import annotations

import os
import sys

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TRACEGRAD_NUM_THREADS",
)


def pin(threads: int) -> list[int]:
    """Restrict this process and its children to `threads` cores; return the cores, empty where that can't be done."""
    loaded = {"numpy", "jax", "torch", "numba", "drjit"} & sys.modules.keys()
    if loaded:
        raise RuntimeError(f"pin() must come before the import of {', '.join(sorted(loaded))}")
    for name in THREAD_VARIABLES:
        os.environ[name] = str(threads)
    os.environ["XLA_FLAGS"] = (
        f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'} intra_op_parallelism_threads={threads}"
    )
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if not hasattr(os, "sched_setaffinity"):
        return []
    # The highest-numbered cores: core 0 is the one that most systems hand their interrupts to.
    cores = sorted(os.sched_getaffinity(0))[-threads:]
    os.sched_setaffinity(0, cores)
    return cores
