"""A 10-50-20-1 ReLU network as an ``nn.Module``: gradient norms of each layer, then the same training step compiled.

``torch.compile`` takes the whole step (zero_grad, forward, backward, optimizer) as one kernel. Both trainings start
from the same weights and see the same batches; their losses must agree.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices of this size are slower with BLAS threads

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

import tracegrad as torch
from tracegrad import nn

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).resolve().parent / "out"
SAMPLES, BATCH = 2048, 64
RATE = 0.05


class ReLUNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 50)
        self.second = nn.Linear(50, 20)
        self.last = nn.Linear(20, 1)
        self.relu = nn.ReLU()

    def forward(self, x):
        x = self.relu(self.first(x))
        x = self.relu(self.second(x))
        return self.last(x)


def data():
    """Ten inputs, of which a smooth function of five is to be learned (Friedman's first problem, standardised)."""
    x = torch.rand(SAMPLES, 10)
    y = 10 * torch.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y = y + torch.randn(SAMPLES)
    return x * 2 - 1, ((y - y.mean()) / y.std()).unsqueeze(1)


def make_step(seed=1):
    """A new network and its training step."""
    torch.manual_seed(seed)
    model = ReLUNetwork()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    criterion = nn.MSELoss()

    def step(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def gradient_norms(model):
    return {name: p.grad.norm().item() for name, p in model.named_parameters()}


def train(step, batches, after=lambda: None):
    """The loss of each step, and the seconds each took; ``after()`` runs off the clock."""
    losses, seconds = [], []
    for x, y in batches:
        begin = time.perf_counter()
        loss = step(x, y).item()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss)
        after()
    return np.array(losses), np.array(seconds)


def smooth(values):
    return np.convolve(values, np.ones(32) / 32, mode="valid")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer epochs")
    parser.add_argument("--out", type=Path, default=OUT, help="where the picture goes (default: examples/out)")
    options = parser.parse_args()

    torch.manual_seed(0)
    x, y = data()
    batches = []
    for _ in range(3 if options.quick else 40):
        order = torch.randperm(SAMPLES)
        batches += [(x[chosen], y[chosen]) for chosen in order.split(BATCH)]

    model, step = make_step()
    history = []
    losses, seconds = train(step, batches, lambda: history.append(gradient_norms(model)))
    _, other = make_step()
    compiled = torch.compile(other)
    compiled_losses, compiled_seconds = train(compiled, batches)

    console = Console()
    console.print(
        f"{model}\n{sum(p.numel() for p in model.parameters()):,} parameters, {len(batches)} steps of {BATCH}\n"
    )
    table = Table(title="gradient norms")
    table.add_column("parameter")
    table.add_column("shape")
    for label in ("first step", "median", "last step"):
        table.add_column(label, justify="right")
    norms = {name: np.array([each[name] for each in history]) for name in history[0]}
    for name, p in model.named_parameters():
        values = norms[name]
        numbers = (values[0], np.median(values), values[-1])
        table.add_row(name, str(tuple(p.shape)), *[f"{v:.2e}" for v in numbers])
    console.print(table)

    apart = float(np.max(np.abs(losses - compiled_losses) / np.abs(losses)))
    usual, fast = np.median(seconds), np.median(compiled_seconds)
    print(f"\n  loss {losses[0]:.3f} -> {np.mean(losses[-32:]):.3f} (variance left unexplained)")
    print(f"  eager      {usual * 1e6:8.0f} µs a step (median)")
    print(f"  compiled   {fast * 1e6:8.0f} µs a step (median): {usual / fast:.1f} times as fast")
    started, compiled_started = sum(seconds[:3]), sum(compiled_seconds[:3])
    print(f"  first three steps, kernels included: eager {started:.2f} s, compiled {compiled_started:.2f} s")
    print(f"  largest relative difference between the losses: {apart:.1e}")
    if compiled.stats.live:
        print(f"  the step was not compiled: {compiled.stats.live}")

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    left.semilogy(smooth(losses), color="lightsteelblue", linewidth=5, label="eager")
    left.semilogy(smooth(compiled_losses), "k", linewidth=0.8, label="compiled")
    left.set_xlabel("step")
    left.set_ylabel("loss (mean of 32 steps)")
    left.legend()
    for name, values in norms.items():
        if name.endswith("weight"):
            right.semilogy(smooth(values), label=name)
    right.set_xlabel("step")
    right.set_ylabel("norm of the gradient (mean of 32 steps)")
    right.legend()
    figure.tight_layout()
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "eager_relu_network.png"
    figure.savefig(picture, dpi=120)
    print(f"  picture: {os.path.relpath(picture)}\n")

    good = apart < 1e-6 and np.mean(losses[-32:]) < 0.3 and not compiled.stats.live
    print("OK: it learns, and compiled training is eager training." if good else "FAILED: see the losses above.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
