"""One training step (forward, backward, Adam) of two networks, eager and compiled, beside PyTorch eager and JAX jit;
and the resident memory over 100,000 steps of the small one.

Everybody trains the same network (``training_tasks.py``) from the same weights on the same batch; before the clock
starts, the losses of the first steps are compared.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from . import report
from .memory import MEGABYTE, _status
from .training_tasks import SIMPLENET, TRANSFORMER, Step, Task

CHECKED = 20
STEPS = 100_000


def tracegrad_eager(task: Task) -> Step:
    import tracegrad

    train, x, y = task.in_torch(tracegrad)
    return lambda: train(x, y)


def tracegrad_compiled(task: Task) -> Step:
    import tracegrad

    train, x, y = task.in_torch(tracegrad)
    step = tracegrad.compile(train)
    return lambda: step(x, y)


def torch_eager(task: Task, **options: Any) -> Step:
    import torch

    torch.set_num_threads(1)
    train, x, y = task.in_torch(torch, **options)
    return lambda: train(x, y)


def torch_fused(task: Task) -> Step:
    """With PyTorch's fused Adam, its fastest on small parameters."""
    return torch_eager(task, fused=True)


def jax_jit(task: Task) -> Step:
    """Adam written out, as JAX users without Optax do; buffers are donated, so parameters are updated in place."""
    return task.in_jax()


CONTENDERS: dict[str, tuple[str, Callable[[Task], Step]]] = {
    "tracegrad, eager": ("tracegrad", tracegrad_eager),
    "tracegrad.compile": ("tracegrad", tracegrad_compiled),
    "PyTorch, eager": ("torch", torch_eager),
    "PyTorch, eager, Adam(fused=True)": ("torch", torch_fused),
    "JAX, jit of the whole step": ("jax", jax_jit),
}


def compare(task: Task, steps: dict[str, Step]) -> None:
    """Raise unless everybody's losses agree."""
    losses = {name: [step().item() for _ in range(CHECKED)] for name, step in steps.items()}
    (first, expected), *others = losses.items()
    for name, found in others:
        if not np.allclose(found, expected, rtol=task.tolerance):
            raise AssertionError(f"{name} and {first} train differently: {found[-1]} and {expected[-1]}")


def time_steps(steps: dict[str, Step], rounds: int, calls: int) -> dict[str, float]:
    """Median microseconds of a step, in rounds that go around the contenders."""
    samples: dict[str, list[float]] = {name: [] for name in steps}
    gc.collect()
    for _ in range(rounds):
        for name, step in steps.items():
            for _ in range(5):
                step()
            begun = time.perf_counter()
            for _ in range(calls):
                step()
            samples[name].append((time.perf_counter() - begun) / calls * 1e6)
    return {name: statistics.median(values) for name, values in samples.items()}


def resident(step: Step, steps: int) -> tuple[float, float]:
    """Resident megabytes after a tenth of *steps*, and after all."""
    for _ in range(steps // 10):
        step()
    gc.collect()
    early = _status("VmRSS") / MEGABYTE
    for _ in range(steps - steps // 10):
        step()
    gc.collect()
    return early, _status("VmRSS") / MEGABYTE


def steps_of(task: Task) -> dict[str, Step]:
    """A step of each contender that is installed, which have taken the first ones alike."""
    steps: dict[str, Step] = {}
    for name, (_, make) in CONTENDERS.items():
        try:
            steps[name] = make(task)
        except ImportError as problem:
            print(f"{name}: skipped ({problem})")
    compare(task, steps)
    return steps


def run(options: argparse.Namespace) -> int:
    """Print the tables, and keep them in RESULTS.md."""
    tables: list[str] = []
    small: dict[str, Step] = {}
    for task in (SIMPLENET, TRANSFORMER):
        steps = steps_of(task)
        small = small or steps
        found = time_steps(steps, options.rounds or (5 if options.quick else 25), task.calls)
        eager = found.get("PyTorch, eager")
        rows = [
            [name, f"{seconds:.0f}", "" if eager is None else f"{eager / seconds:.1f}x"]
            for name, seconds in found.items()
        ]
        tables.append(report.table([task.title, "µs a step", "PyTorch eager / this"], rows))
    count = STEPS // 20 if options.quick else STEPS
    rows = []
    for name in ("tracegrad, eager", "tracegrad.compile"):
        early, late = resident(small[name], count)
        rows.append([name, f"{early:.1f}", f"{late:.1f}", f"{late - early:+.2f}"])
    tables.append(report.table(["Resident MB", f"after {count // 10:,} steps", f"after {count:,}", "change"], rows))
    text = "\n\n".join(tables)
    print(text)
    if options.save or not (options.no_save or options.quick):
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        report.keep(
            "training",
            f"{text}\n\n{report.versions('numpy', 'numba', 'torch', 'jax')}. Measured {date}, one thread, one core.",
        )
    return 0
