"""Linear regression by hand, on Tensors: forward, ``loss.backward()``, a step against the gradient, and again.

The data is y = 3 x + 2 with noise. The loop must find both numbers back, and the answer of least squares exactly.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import matplotlib
import numpy as np

import tracegrad as torch

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).resolve().parent / "out"
TRUE_W, TRUE_B, NOISE = 3.0, 2.0, 0.5
POINTS = 500
RATE = 0.05


def train(x, y, steps):
    """w, b and the loss before each step."""
    w = torch.zeros(1, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    losses = []
    for _ in range(steps):
        loss = ((w * x + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= RATE * w.grad
            b -= RATE * b.grad
            w.grad.zero_()
            b.grad.zero_()
        losses.append(loss.item())
    return w.item(), b.item(), losses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--out", type=Path, default=OUT, help="where the picture goes (default: examples/out)")
    options = parser.parse_args()

    torch.manual_seed(0)
    x = torch.rand(POINTS) * 4.0 - 2.0
    y = TRUE_W * x + TRUE_B + NOISE * torch.randn(POINTS)
    w, b, losses = train(x, y, 120 if options.quick else 200)
    best_w, best_b = np.polyfit(x.numpy(), y.numpy(), 1)

    print(f"y = {TRUE_W:g} x + {TRUE_B:g} with noise of {NOISE:g}: {POINTS} points, {len(losses)} steps.\n")
    for name, found, true, best in (("w", w, TRUE_W, best_w), ("b", b, TRUE_B, best_b)):
        print(f"  {name} = {found:.4f}   error {abs(found - true):.4f}   from least squares {abs(found - best):.1e}")
    print(f"  loss {losses[0]:.4f} -> {losses[-1]:.4f} (the noise alone is {NOISE**2:.4f})")

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    left.plot(x, y, ".", markersize=3, color="lightsteelblue", label="data")
    ends = np.array([-2.0, 2.0])
    left.plot(ends, w * ends + b, "k", label=f"{w:.3f} x + {b:.3f}")
    left.set_xlabel("x")
    left.set_ylabel("y")
    left.legend()
    right.semilogy(losses)
    right.axhline(NOISE**2, color="grey", linestyle=":", label="noise")
    right.set_xlabel("step")
    right.set_ylabel("mean squared error")
    right.legend()
    figure.tight_layout()
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "eager_linear_regression.png"
    figure.savefig(picture, dpi=120)
    print(f"  picture: {os.path.relpath(picture)}\n")

    near = max(abs(w - TRUE_W), abs(b - TRUE_B)) < 0.1 and max(abs(w - best_w), abs(b - best_b)) < 1e-4
    print("OK: w and b are found back." if near else "FAILED: w or b is off.")
    return 0 if near else 1


if __name__ == "__main__":
    sys.exit(main())
