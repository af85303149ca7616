"""A language model of characters: an LSTM whose weights are diagonal, its mean loss over a text, and the gradient.

A character is the bits of its number. There is a hidden and a cell state for each layer, one number for each bit.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent / "data"


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def cell_step(weight, bias, hidden, cell, x):
    """One layer at one character: its new states."""
    gates = np.concatenate((x, hidden, x, hidden)) * weight + bias
    forget, ingate, outgate, change = np.split(gates, 4)
    cell = cell * sigmoid(forget) + sigmoid(ingate) * np.tanh(change)
    return sigmoid(outgate) * np.tanh(cell), cell


def predict(main, extra, state, x):
    """The logits of the next character's bits, and the states after this one: (2 layers, bits)."""
    after = []
    x = x * extra[0]
    for layer in range(0, len(state), 2):
        hidden, cell = cell_step(main[layer], main[layer + 1], state[layer], state[layer + 1], x)
        after += [hidden, cell]
        x = hidden
    return x * extra[1] + extra[2], np.stack(after)


def objective(main, extra, state, text):
    """main: (2 layers, 4 bits), weights and biases; extra: (3, bits); state: (2 layers, bits); text: (n, bits)."""
    total = 0.0
    for x, following in pairwise(text):
        logits, state = predict(main, extra, state, x)
        total += np.sum(following * (logits - np.log(np.sum(np.exp(logits)) + 2.0)))
    return -total / text[1:].size


def read(file):
    """(main, extra, state, text) of a problem in ADBench's format."""
    with open(file, encoding="utf-8") as lines:
        layers, characters, bits = (int(word) for word in lines.readline().split())
        tables = []
        for rows in (2 * layers, 3, 2 * layers):
            lines.readline()
            tables.append(np.array([[float(word) for word in lines.readline().split()] for _ in range(rows)]))
        lines.readline()
        text = lines.read()[:characters]
    numbers = np.array([ord(character) for character in text])
    return *tables, (numbers[:, None] >> np.arange(bits)[::-1] & 1).astype(float)


def main() -> int:
    from tracegrad import compile_grad  # the objective itself is plain NumPy

    problem = read(DATA / "lstm_l2_c128.txt")
    compiled = compile_grad(objective, argnums=(0, 1))
    begin = time.perf_counter()
    value, gradients = compiled.value_and_grad(*problem)
    seconds = time.perf_counter() - begin
    print(f"mean loss {value:.6f}; first call, which compiles: {seconds:.2f} s")

    rng = np.random.default_rng(0)
    moves = [rng.standard_normal(g.shape) for g in gradients]
    high, low = (
        objective(*(p + h * m for p, m in zip(problem, moves, strict=False)), *problem[2:]) for h in (1e-6, -1e-6)
    )
    slope = sum(np.sum(g * m) for g, m in zip(gradients, moves, strict=True))
    good = bool(abs(value - objective(*problem)) < 1e-12)
    good &= abs((high - low) / 2e-6 - slope) < 1e-6 * max(1.0, abs(slope))
    print(f"slope along a random direction {slope:.6f}, by a central difference {(high - low) / 2e-6:.6f}")
    print("OK: value and gradient are right." if good else "FAILED: value or gradient is off.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
