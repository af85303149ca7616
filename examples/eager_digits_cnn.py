"""A convolutional network on scikit-learn's digits: mini-batches, dropout, Adam with a cosine schedule.

The training step is compiled as a whole by ``torch.compile``; with --eager it runs operation by operation.
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
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

import tracegrad as torch
from tracegrad import nn

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).resolve().parent / "out"
EPOCHS, BATCH, RATE = 20, 32, 3e-3


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(64, 10),
    )


def digits():
    """Training and test images, (n, 1, 8, 8) in [0, 1], each with its labels."""
    data = load_digits()
    images = (data.images[:, None] / 16.0).astype(np.float32)
    X, X_test, y, y_test = train_test_split(images, data.target, test_size=0.25, random_state=0, stratify=data.target)
    return torch.tensor(X), torch.tensor(y), torch.tensor(X_test), torch.tensor(y_test)


def evaluate(model, X, y):
    """The guesses, and the share that is right."""
    model.eval()
    with torch.no_grad():
        guesses = model(X).argmax(dim=1)
    model.train()
    return guesses, (guesses == y).float().mean().item()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--eager", action="store_true", help="do not compile the step")
    parser.add_argument("--quick", action="store_true", help="two epochs")
    parser.add_argument("--out", type=Path, default=OUT, help="where the picture goes (default: examples/out)")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float32)
    X, y, X_test, y_test = digits()
    model = network()
    epochs = 2 if options.quick else EPOCHS
    steps = epochs * -(-len(X) // BATCH)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)

    def step(images, labels):
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    train_step = step if options.eager else torch.compile(step)
    losses, test_curve, seconds = [], [], []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("loss {task.fields[loss]:.4f}, test {task.fields[test]:.1%}")) as progress:
        task = progress.add_task("epochs", total=epochs, loss=float("nan"), test=float("nan"))
        for _ in range(epochs):
            for chosen in torch.randperm(len(X)).split(BATCH):  # the last batch is smaller
                images, labels = X[chosen], y[chosen]
                begin = time.perf_counter()
                loss = train_step(images, labels).item()
                seconds.append(time.perf_counter() - begin)
                losses.append(loss)
                scheduler.step()
            test_curve.append(evaluate(model, X_test, y_test)[1])
            progress.update(task, advance=1, loss=np.mean(losses[-steps // epochs :]), test=test_curve[-1])

    guesses, accuracy = evaluate(model, X_test, y_test)
    print(f"\nDigits: {len(X)} to train on, {len(X_test)} to test on.\n{model}\n")
    print(f"  {sum(p.numel() for p in model.parameters()):,} parameters, {len(losses)} steps of Adam")
    print(f"  {'eager' if options.eager else 'compiled'}: {np.median(seconds) * 1e3:.2f} ms a step (median)")
    if not options.eager:
        print(f"  {train_step.stats.live or f'{train_step.stats.compiles} kernels compiled'}")
    print(f"  learning rate at the end: {optimizer.param_groups[0]['lr']:.1e}")
    print(f"  test accuracy: {accuracy:.1%}")

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
    left.semilogy(np.arange(1, len(losses) + 1) / len(losses) * epochs, losses, linewidth=0.4, alpha=0.5)
    means = np.array(losses).reshape(epochs, -1).mean(axis=1)
    left.semilogy(np.arange(1, epochs + 1), means, "o-", color="C0", markersize=3, label="training loss")
    left.semilogy(
        np.arange(1, epochs + 1), 1.0 - np.array(test_curve), "ko-", markersize=3, label="share of test digits misread"
    )
    left.set_xlabel("epoch")
    left.legend()
    counts = confusion_matrix(y_test, guesses)
    right.imshow(counts, cmap="Blues")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            right.text(column, row, count, ha="center", va="center", fontsize=7, color="w" if row == column else "r")
    right.set_xticks(range(10))
    right.set_yticks(range(10))
    right.set_xlabel("read as")
    right.set_ylabel("digit")
    figure.tight_layout()
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "eager_digits_cnn.png"
    figure.savefig(picture, dpi=120)
    print(f"  picture: {os.path.relpath(picture)}\n")

    wanted = 0.8 if options.quick else 0.97
    good = accuracy > wanted
    print(
        f"{'OK' if good else 'FAILED'}: {accuracy:.1%} of the test digits are right; more than {wanted:.0%} is wanted."
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
