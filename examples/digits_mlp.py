"""A small neural network on scikit-learn's digits: plain NumPy forward pass, compiled gradient, Adam in NumPy.

The same training runs twice, with tracegrad's gradient and with one derived by hand, and is compared.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib
import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tracegrad import compile_grad

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).resolve().parent / "out"
HIDDEN = 64
EPOCHS = 40
BATCH = 64
RATE = 3e-3
DECAY = 1e-4


def logits(params, X):
    hidden = np.tanh(X @ params["W1"] + params["b1"])
    return hidden @ params["W2"] + params["b2"]


@compile_grad
def loss(params, X, labels):
    """Softmax cross entropy with a little weight decay."""
    z = logits(params, X)
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    penalty = np.sum(params["W1"] ** 2) + np.sum(params["W2"] ** 2)
    return -np.mean(logp[np.arange(len(labels)), labels]) + DECAY * penalty


def value_and_grad_by_hand(params, X, labels):
    """What `loss.value_and_grad` spares you."""
    hidden = np.tanh(X @ params["W1"] + params["b1"])
    z = hidden @ params["W2"] + params["b2"]
    z -= z.max(axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    rows = np.arange(len(labels))
    value = -np.mean(logp[rows, labels]) + DECAY * (np.sum(params["W1"] ** 2) + np.sum(params["W2"] ** 2))
    d2 = np.exp(logp)
    d2[rows, labels] -= 1.0
    d2 /= len(labels)
    d1 = (d2 @ params["W2"].T) * (1.0 - hidden**2)
    return value, {
        "W1": X.T @ d1 + 2.0 * DECAY * params["W1"],
        "b1": d1.sum(axis=0),
        "W2": hidden.T @ d2 + 2.0 * DECAY * params["W2"],
        "b2": d2.sum(axis=0),
    }


def initial(rng):
    return {
        "W1": rng.standard_normal((64, HIDDEN)) / 8.0,
        "b1": np.zeros(HIDDEN),
        "W2": rng.standard_normal((HIDDEN, 10)) / np.sqrt(HIDDEN),
        "b2": np.zeros(10),
    }


def train(value_and_grad, X, labels, title):
    """Adam over shuffled batches; the parameters, the loss of each epoch, the seconds spent in value_and_grad."""
    rng = np.random.default_rng(0)
    params = initial(rng)
    mean = {name: np.zeros_like(p) for name, p in params.items()}
    square = {name: np.zeros_like(p) for name, p in params.items()}
    step, curve, inside = 0, [], 0.0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("loss {task.fields[loss]:.4f}")) as progress:
        task = progress.add_task(f"{title:10}", total=EPOCHS, loss=float("nan"))
        for _ in range(EPOCHS):
            order, losses = rng.permutation(len(labels)), []
            for first in range(0, len(labels), BATCH):
                chosen = order[first : first + BATCH]  # the last batch is smaller: no new compile
                batch, targets = X[chosen], labels[chosen]
                begin = time.perf_counter()
                value, gradient = value_and_grad(params, batch, targets)
                inside += time.perf_counter() - begin
                step += 1
                for name, g in gradient.items():
                    mean[name] += 0.1 * (g - mean[name])
                    square[name] += 0.001 * (g * g - square[name])
                    scale = np.sqrt(square[name] / (1.0 - 0.999**step)) + 1e-8
                    params[name] = params[name] - RATE * mean[name] / (1.0 - 0.9**step) / scale
                losses.append(value)
            curve.append(float(np.mean(losses)))
            progress.update(task, advance=1, loss=curve[-1])
    return params, curve, inside, step


def main() -> int:
    data = load_digits()
    X, X_test, labels, labels_test = train_test_split(
        data.data / 16.0, data.target, test_size=0.25, random_state=0, stratify=data.target
    )
    begin = time.perf_counter()
    loss.value_and_grad(initial(np.random.default_rng(0)), X[:BATCH], labels[:BATCH])
    first_call = time.perf_counter() - begin

    params, curve, seconds, steps = train(loss.value_and_grad, X, labels, "tracegrad")
    other, other_curve, other_seconds, _ = train(value_and_grad_by_hand, X, labels, "by hand")

    guesses = np.argmax(logits(params, X_test), axis=1)
    accuracy = np.mean(guesses == labels_test)
    apart = max(float(np.max(np.abs(params[name] - other[name]))) for name in params)
    print(
        f"\nDigits: {len(labels)} to train on, {len(labels_test)} to test on; 64-{HIDDEN}-10, {steps} steps of Adam.\n"
    )
    print(f"  first call, which compiles      {first_call:8.2f} s")
    print(f"  gradients by tracegrad          {seconds / steps * 1e6:8.0f} µs a step")
    print(f"  gradients by hand in NumPy      {other_seconds / steps * 1e6:8.0f} µs a step")
    print(f"  the two trainings end {apart:.1e} apart (largest difference of a parameter)")
    print(f"  test accuracy: {accuracy:.1%}")

    figure = plt.figure(figsize=(11, 4.5))
    left, right = figure.subfigures(1, 2, squeeze=False)[0]
    axis = left.subplots()
    axis.semilogy(curve, label="tracegrad")
    axis.semilogy(other_curve, "--", label="by hand")
    axis.set_xlabel("epoch")
    axis.set_ylabel("training loss")
    axis.legend()
    wrong = np.flatnonzero(guesses != labels_test)[:12]
    right.suptitle(f"digits that the network got wrong ({np.sum(guesses != labels_test)} of {len(labels_test)})")
    for cell, index in zip(right.subplots(3, 4).flat, wrong, strict=False):
        cell.imshow(X_test[index].reshape(8, 8), cmap="gray_r")
        cell.set_title(f"{labels_test[index]} read as {guesses[index]}", fontsize=8)
    for cell in right.axes:
        cell.axis("off")
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "digits_mlp.png", dpi=120)
    print("  picture: examples/out/digits_mlp.png\n")

    good = accuracy >= 0.95
    print("OK: at least 95% of the test digits are right." if good else "FAILED: fewer than 95% are right.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
