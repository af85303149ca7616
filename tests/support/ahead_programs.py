"""Functions that are compiled ahead of time, with the arguments of a call: name -> (function, arguments)."""

from __future__ import annotations

import numpy as np

from tracegrad import compile_grad

rng = np.random.default_rng(19)
SCALE = np.linspace(0.0, 1.0, 10)  # from outside


def logistic(w, X, s):
    return np.mean(np.log1p(np.exp(-(X @ w)))) * s + np.sum(np.sin(w * SCALE))


def number(x):
    return x * x + np.sin(x)


def in_a_loop(y, h):
    for _ in range(200):
        y = y + h * np.array([y[1], -y[0]])
    return y[0] ** 2


def until(x):
    while np.sum(x**2) > 1:
        x = x * 0.5
    return np.sum(x**3)


def branch(x):
    if x[0] < 0:  # which has to be asked: there is no value to choose
        raise ValueError("negative")
    return np.sum(x**2)


def arms(x):
    total = 0.0
    for element in x:
        if abs(element) < 1:
            total = total + 0.5 * element**2
        elif element > 5:
            total = total + 5.0
        else:
            total = total + abs(element) - 0.5
    return total


def products(A, B):
    return np.sum(np.tanh(A @ B))


def factors(K):
    return np.sum(np.log(np.diag(np.linalg.cholesky(K @ K.T + np.eye(len(K))))))


def picked(x, places):
    return np.sum(x[places] ** 3)


def of_float32(x):
    return np.sum(np.exp(-x * x))


PROGRAMS = {
    "logistic": (logistic, (rng.normal(size=10), rng.normal(size=(500, 10)), 0.5)),
    "number": (number, (0.3,)),
    "in_a_loop": (in_a_loop, (np.array([1.0, 0.0]), 0.01)),
    "until": (until, (np.array([1.0, 2.0, 3.0]),)),
    "branch": (branch, (np.array([1.0, 2.0, 3.0]),)),
    "arms": (arms, (rng.normal(size=12) * 4,)),
    "products": (products, (rng.normal(size=(64, 64)), rng.normal(size=(64, 64)))),
    "factors": (factors, (rng.normal(size=(20, 20)),)),
    "picked": (picked, (rng.normal(size=5), np.array([0, 3, 3]))),
    "of_float32": (of_float32, (rng.normal(size=100).astype(np.float32),)),
    "divided": (of_float32, (rng.normal(size=500_000),)),  # several threads share it, and there is a large workspace
}
COMPILED = {name: compile_grad(f) for name, (f, _) in PROGRAMS.items()}
