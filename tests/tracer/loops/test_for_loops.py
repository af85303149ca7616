"""Loops over symbols: values and gradients as of plain Python, and the number of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from converted_loops import converted
from tracing import check_gradient, check_value

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 3))
W = RNG.normal(size=(3, 3)) * 0.3
V = RNG.normal(size=40)


def loops_in(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.prim.name == "loop"]


def check(f: Callable[..., Any], *args: Any, loops: int | None = 1, most: int = 60) -> Any:
    g = converted(f)
    given = [np.asarray(a) for a in args]
    traced = check_value(g, given)
    found = loops_in(traced.graph)
    if loops is not None:
        assert len(found) == loops, [n.prim.name for n in traced.graph.nodes]
        assert len(traced.graph.nodes) <= most
    check_gradient(g, given)
    return traced


def counted(x):
    for i in range(50):
        x = x + 0.01 * np.sin(x) * i
    return x, i


def two_carries(x):
    a, b = x, 0.0
    for _ in range(50):
        a, b = np.cos(b), a * 0.5 + b * 0.1
    return a + b


def float_from_int(x):
    s = 0
    for i in range(40):
        s = s + x[i] * np.exp(-s * 0.1)
    return s


def rows(x):
    s = 0.0
    for v in x:
        s = np.tanh(s * 0.5 + v)
    return s


def matrix_rows(X):
    h = np.zeros(3)
    for row in X:
        h = np.tanh(W @ h + row)
    return h


def neighbours(x):
    s = 0.0
    for i in range(1, 40):
        s = s * 0.9 + x[i] * x[i - 1]
    return s


def counter(x):
    s, k = 0.0, 0
    for v in x:
        s = s * 0.9 + v * x[k]
        k += 1
    return s, k


def backwards(x):
    s = 0.0
    for i in range(39, -1, -1):
        s = s * 0.9 + x[i]
    return s


def tuples(x):
    state = (x[0], (x[1], 0.5))
    for i in range(2, 40):
        a, (b, c) = state
        state = (np.sin(b), (a * 0.9 + x[i], c * 0.99))
    return state[0] + state[1][0] + state[1][1]


def nested(x):
    s = 0.0
    for i in range(40):
        t = x[i]
        for j in range(30):
            t = np.sin(t + x[j] * 0.1)
        s = s + t
    return s


def test_number_of_nodes():
    def f(x, n):
        for i in range(n):
            x = x + 0.1 * np.sin(x) / (i + 1)
        return x

    counts = [len(check_value(lambda x, n=n: converted(f)(x, n), [np.array(0.3)]).graph.nodes) for n in (50, 2000)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("f", "arg"),
    [(counted, 0.3), (counted, X[0]), (two_carries, 0.3), (float_from_int, V), (rows, V), (matrix_rows, X),
     (neighbours, V), (counter, V), (backwards, V), (tuples, V), (nested, V)],
)  # fmt: skip
def test_loop(f, arg):
    check(f, arg)
