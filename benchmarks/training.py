"""One training step (forward, backward, Adam) of SimpleNet, eager and compiled, beside PyTorch eager and JAX jit; and
the resident memory over 100,000 steps.

Everybody trains the same network from the same weights on the same batch; before the clock starts, the losses of the
first steps are compared.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from . import report
from .memory import MEGABYTE, _status
from .workloads.simplenet import BATCH, LAYERS

RATE = 1e-3
CHECKED = 20
STEPS = 100_000
Step = Callable[[], Any]


def start(seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """(weights and biases, as (out, in) and (out,)), inputs, targets: float64."""
    rng = np.random.default_rng(seed)
    parameters = []
    for inner, outer in pairwise(LAYERS):
        parameters += [rng.normal(size=(outer, inner)) / np.sqrt(inner), 0.1 * rng.normal(size=outer)]
    return parameters, rng.normal(size=(BATCH, LAYERS[0])), rng.normal(size=(BATCH, LAYERS[-1]))


def in_torch(torch: Any, **options: Any) -> tuple[Step, Step]:
    """(the step, its loss as a float) in PyTorch or, under the same names, in tracegrad."""
    parameters, inputs, targets = start()
    modules: list[Any] = []
    for inner, outer in pairwise(LAYERS):
        modules += [torch.nn.Linear(inner, outer), torch.nn.Tanh()]
    model = torch.nn.Sequential(*modules[:-1])
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), parameters, strict=True):
            parameter.copy_(torch.tensor(value))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, **options)
    loss_fn = torch.nn.MSELoss()
    x, y = torch.tensor(inputs), torch.tensor(targets)

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return (lambda: train(x, y)), train


def tracegrad_eager() -> Step:
    import tracegrad

    return in_torch(tracegrad)[0]


def tracegrad_compiled() -> Step:
    import tracegrad

    parameters_step = in_torch(tracegrad)[1]
    step = tracegrad.compile(parameters_step)
    _, inputs, targets = start()
    x, y = tracegrad.tensor(inputs), tracegrad.tensor(targets)
    return lambda: step(x, y)


def torch_eager() -> Step:
    return _pytorch()


def torch_fused() -> Step:
    """With PyTorch's fused Adam, its fastest on small parameters."""
    return _pytorch(fused=True)


def _pytorch(**options: Any) -> Step:
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        return in_torch(torch, **options)[0]
    finally:
        torch.set_default_dtype(torch.float32)


def jax_jit() -> Step:
    """Adam written out, as JAX users without Optax do; buffers are donated, so parameters are updated in place."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    parameters, inputs, targets = start()

    def loss(parameters: list[Any], x: Any, y: Any) -> Any:
        h = x
        for k in range(0, len(parameters), 2):
            h = h @ parameters[k].T + parameters[k + 1]
            h = jnp.tanh(h) if k + 2 < len(parameters) else h
        return jnp.mean((h - y) ** 2)

    def update(state: Any, x: Any, y: Any) -> Any:
        parameters, first, second, count = state
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        count = count + 1
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients, strict=True)]
        rate = RATE / (1.0 - 0.9**count)
        scale = jnp.sqrt(1.0 - 0.999**count)
        parameters = [
            p - rate * m / (jnp.sqrt(v) / scale + 1e-8) for p, m, v in zip(parameters, first, second, strict=True)
        ]
        return (parameters, first, second, count), value

    compiled = jax.jit(update, donate_argnums=0)
    zeros = [jnp.zeros(p.shape) for p in parameters]
    state = ([jnp.asarray(p) for p in parameters], zeros, [jnp.zeros(p.shape) for p in parameters], jnp.asarray(0.0))
    x, y = jnp.asarray(inputs), jnp.asarray(targets)

    def step() -> Any:
        nonlocal state
        state, value = compiled(state, x, y)
        return jax.block_until_ready(value)

    return step


CONTENDERS: dict[str, tuple[str, Callable[[], Step]]] = {
    "tracegrad, eager": ("tracegrad", tracegrad_eager),
    "tracegrad.compile": ("tracegrad", tracegrad_compiled),
    "PyTorch, eager": ("torch", torch_eager),
    "PyTorch, eager, Adam(fused=True)": ("torch", torch_fused),
    "JAX, jit of the whole step": ("jax", jax_jit),
}


def compare(steps: dict[str, Step]) -> None:
    """Raise unless everybody's losses agree."""
    losses = {name: [step().item() for _ in range(CHECKED)] for name, step in steps.items()}
    (first, expected), *others = losses.items()
    for name, found in others:
        if not np.allclose(found, expected, rtol=1e-9):
            raise AssertionError(f"{name} and {first} train differently: {found[-1]} and {expected[-1]}")


def time_steps(steps: dict[str, Step], rounds: int, calls: int = 200) -> dict[str, float]:
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


def run(options: argparse.Namespace) -> int:
    """Print the tables, and keep them in RESULTS.md."""
    steps: dict[str, Step] = {}
    for name, (_, make) in CONTENDERS.items():
        try:
            steps[name] = make()
        except ImportError as problem:
            print(f"{name}: skipped ({problem})")
    compare(steps)
    found = time_steps(steps, options.rounds or (5 if options.quick else 25))
    eager = found.get("PyTorch, eager")
    rows = []
    for name, time_of_step in found.items():
        rows.append([name, f"{time_of_step:.0f}", "" if eager is None else f"{eager / time_of_step:.1f}x"])
    text = report.table(["SimpleNet 10-50-20-1, batch 32, Adam, float64", "µs a step", "PyTorch eager / this"], rows)
    count = STEPS // 20 if options.quick else STEPS
    rows = []
    for name in ("tracegrad, eager", "tracegrad.compile"):
        early, late = resident(steps[name], count)
        rows.append([name, f"{early:.1f}", f"{late:.1f}", f"{late - early:+.2f}"])
    text += "\n\n" + report.table(["Resident MB", f"after {count // 10:,} steps", f"after {count:,}", "change"], rows)
    print(text)
    if options.save or not (options.no_save or options.quick):
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        report.keep(
            "training",
            f"{text}\n\n{report.versions('numpy', 'numba', 'torch', 'jax')}. Measured {date}, one thread, one core.",
        )
    return 0
