"""Operations with a backward of one's own: log(1 + exp(x)) without overflow, rounding that lets gradients through.

Both are ``autograd.Function``s. They are checked against finite differences, used on Tensors, and used, unchanged, in
plain NumPy code under ``@compile_grad``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import matplotlib
import numpy as np

import tracegrad as torch
from tracegrad import compile_grad

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).resolve().parent / "out"
LEVELS = 4  # steps of the quantised weights between 0 and 1


class Log1pExp(torch.autograd.Function):
    """log(1 + exp(x)); exp only ever sees what is not positive."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.clamp(x, min=0) + torch.log1p(torch.exp(-torch.abs(x)))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(x)


class Quantise(torch.autograd.Function):
    """Round to multiples of 1/levels. The derivative is 0 almost everywhere; backward claims 1 instead."""

    @staticmethod
    def forward(ctx, x, levels):
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def check_log1pexp():
    """Whether all is well, and the printed report."""
    x = torch.randn(20, dtype=torch.float64, requires_grad=True)
    checked = torch.autograd.gradcheck(Log1pExp.apply, (x,)) and torch.autograd.gradgradcheck(Log1pExp.apply, (x,))
    print(f"log(1 + exp(x)): gradcheck and gradgradcheck {'pass' if checked else 'FAIL'}\n")
    print(f"  {'x':>8}{'textbook':>12}{'gradient':>12}{'stable':>12}{'gradient':>12}")
    good = checked
    for value in (-1000.0, -30.0, 0.0, 30.0, 1000.0):
        row = []
        for function in (lambda t: torch.log(1 + torch.exp(t)), Log1pExp.apply):
            t = torch.tensor(value, requires_grad=True)
            result = function(t)
            result.backward()
            row += [result.item(), t.grad.item()]
        print(f"  {value:8g}" + "".join(f"{number:12.4g}" for number in row))
        good &= np.allclose(row[2:], [np.logaddexp(0.0, value), 0.5 * (1.0 + np.tanh(0.5 * value))], rtol=1e-12)
    return good


@compile_grad
def logistic_loss(w, X, y):
    """Plain NumPy, apart from the operation of our own."""
    return np.mean(Log1pExp.apply(-y * (X @ w)))


def check_compiled():
    """The same loss and gradient from Tensors, compiled, and by the formula, with margins in the thousands."""
    rng = np.random.default_rng(0)
    X, w = 300.0 * rng.normal(size=(200, 5)), rng.normal(size=5)
    y = np.sign(X @ rng.normal(size=5))
    value, gradient = logistic_loss.value_and_grad(w, X, y)
    leaf = torch.tensor(w, requires_grad=True)
    eager = Log1pExp.apply(-torch.tensor(y) * (torch.tensor(X) @ leaf)).mean()
    eager.backward()
    margins = y * (X @ w)
    expected = -X.T @ (y * 0.5 * (1.0 - np.tanh(0.5 * margins))) / len(y)
    error = max(
        abs(value - np.mean(np.logaddexp(0.0, -margins))) / value,
        abs(eager.item() - value) / value,
        float(np.max(np.abs(gradient - expected)) / np.max(np.abs(expected))),
        float(np.max(np.abs(leaf.grad.numpy() - gradient)) / np.max(np.abs(expected))),
    )
    print(
        f"\nIn @compile_grad, on Tensors, by hand: logistic loss {value:.4f}; largest relative difference {error:.1e}"
    )
    return error < 1e-12


def fit_quantised(steps):
    """Coefficients that are multiples of 1/LEVELS, found by gradient descent through the rounding.

    Near the answer a weight may step over the next threshold and back: what counts is the best of all steps.
    """
    X = torch.randn(200, 6)
    true = torch.tensor([1.0, -0.5, 0.25, 0.0, 0.75, -1.25])
    y = X @ true + 0.1 * torch.randn(200)
    w = torch.zeros(6, requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.02)
    rounded, latent, losses = [], [], []
    for _ in range(steps):
        optimizer.zero_grad()
        quantised = Quantise.apply(w, LEVELS)
        loss = ((X @ quantised - y) ** 2).mean()
        loss.backward()
        latent.append(w.tolist())
        rounded.append(quantised.tolist())
        losses.append(loss.item())
        optimizer.step()
    best = int(np.argmin(losses))
    print(f"\nWeights that are multiples of 1/{LEVELS}, by gradients through the rounding; {steps} steps of Adam:")
    print(f"  true        {true.tolist()}")
    print(f"  found       {rounded[best]}   mean squared error {losses[0]:.3f} -> {losses[best]:.3f}")
    print(f"  underneath  {[round(value, 3) for value in latent[best]]}")
    return np.array(rounded), np.array(latent), rounded[best] == true.tolist()


def picture(path, rounded, latent):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    x = torch.linspace(-6, 6, 241, requires_grad=True)
    values = Log1pExp.apply(x)
    values.sum().backward()
    left.plot(x.detach(), values.detach(), label="log(1 + exp(x))")
    left.plot(x.detach(), x.grad, label="its derivative")
    left.set_xlabel("x")
    left.legend()
    for k in range(latent.shape[1]):
        (line,) = right.plot(latent[:, k], linewidth=0.8)
        right.plot(rounded[:, k], color=line.get_color(), linestyle=":")
    right.set_xlabel("step")
    right.set_ylabel("weight (dotted: rounded)")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"\n  picture: {os.path.relpath(path)}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps")
    parser.add_argument("--out", type=Path, default=OUT, help="where the picture goes (default: examples/out)")
    options = parser.parse_args()

    torch.manual_seed(0)
    good = check_log1pexp()
    good &= check_compiled()
    rounded, latent, found = fit_quantised(150 if options.quick else 300)
    picture(options.out / "eager_custom_function.png", rounded, latent)
    good &= found
    print("OK: both operations do what they should." if good else "FAILED: see above.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
