"""Loops over symbols: values and gradients as of plain Python, and the number of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from converted_loops import converted
from tracing import check_gradient, check_value

from tracegrad.tracer.ir.text import print_graph

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 3))
W = RNG.normal(size=(3, 3)) * 0.3
V = RNG.normal(size=40)
K5 = RNG.normal(size=5)
PLAIN = RNG.normal(size=40)


def loops_in(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.prim.name == "loop"]


def check(f: Callable[..., Any], *args: Any, loops: int | None = 1, most: int = 60) -> Any:
    g = converted(f)
    given = [np.asarray(a) for a in args]
    traced = check_value(g, given)
    found = loops_in(traced.graph)
    if loops is not None:
        assert len(found) == loops, print_graph(traced.graph)[:3000]
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


def cumulated(x):
    z = np.zeros_like(x)
    for i in range(1, 40):
        z[i] = z[i - 1] * 0.9 + x[i]
    return z


def cumulated_twice(x):
    z = np.zeros_like(x)
    y = x * 1.0
    for i in range(2, 40):
        z[i] = z[i - 1] * 0.9 + x[i] - z[i - 2] * 0.1
        y[i - 1] = z[i] * y[i]
    return z, y


def in_place(X):
    s = np.zeros_like(X[0])
    for row in X:
        s += np.sin(row) * s + row
    return s


def table(X):
    D = np.zeros_like(X)
    for i in range(1, 40):
        for j in range(1, 3):
            D[i, j] = D[i - 1, j - 1] * 0.5 + np.sin(D[i, j - 1]) + X[i, j]
    return D


def wide_table(X):
    D = np.zeros((20, 20)) * X[0, 0]
    for i in range(1, 20):
        for j in range(1, 20):
            D[i, j] = D[i - 1, j - 1] * 0.5 + np.sin(D[i, j - 1]) + X[i, 1] * X[j, 2] - D[i - 1, j] * 0.1
    return D


def triangle(x):
    s = 0.0
    for i in range(40):
        t = 0.0
        for j in range(i):
            t = t * 0.5 + x[j] * x[i - j]
        s = s + np.sin(t)
    return s


def whole_number(x):
    s, prev = 0.0, 0
    for i in range(1, 40):
        s = s * 0.9 + x[i] * x[prev]
        prev = i
    return s, prev, i


def zipped(X):
    s = 0.0
    for k, (row, v) in enumerate(zip(X, X[:, 0], strict=True)):
        s = np.sin(s + row[1] * v * k * 0.01)
    return s, k, v, row


def backwards_zip(x):
    s = 0.0
    for a in reversed(list(range(3, 40))):
        s = s * 0.9 + x[a] * a
    return s


def listed(x):
    ws = [0.1 * k for k in range(40)]
    s = 0.0
    for w, v in zip(ws, x, strict=False):
        s = np.tanh(s * w + v)
    return s


def asked(x):
    s = 0.0
    for i in range(40):
        if i > 0:
            s = s * 0.9 + x[i]
        if s > -1000.0:
            s = np.sin(s + x[i])
    return s


def divided(x):
    s = 1.0
    for i in range(40):
        s = s + float(x[i]) / (i + 1) + 1.0 / (i + 2)
    return s


def dynamic(X):
    o = np.argsort(X[:, 0])
    s = 0.0
    for k in o:
        s = np.sin(s + X[k, 1])
    return s


def complex_carry(x):
    z = x[0] + 1j * x[1]
    for i in range(2, 40):
        z = z * (0.9 + 0.1j) + x[i]
    return np.abs(z)


def newton(a):
    x = a * 1.0
    n = 0
    while np.abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
        n += 1
    return x, n


def counting_while(x):
    s, k = 0.0, 0
    while k < 40:
        s = s * 0.9 + x[k] * np.sin(s) + 0.1
        k += 1
    return s, k


def two_conditions(a):
    x, k = a, 0
    while np.abs(x) > 1e-3 and k < 100:
        x = x * 0.9
        k += 1
    return x


def broken(a):
    x = a
    while True:
        y = np.sin(x) * 0.7
        if y < 0.01:
            break
        x = y
    return x + y


class Cell:
    def __init__(self, h):
        self.h = h
        self.count = 0

    def step(self, x):
        raise NotImplementedError


def attributes(x):
    cell = Cell(x[0])
    for v in x:
        cell.h = np.tanh(cell.h * 0.5 + v)
        cell.count += 1
    return cell.h, cell.count


def items_of_objects(x):
    state = {"a": x[0], "b": 1.0}
    last = [0.0, x[1]]
    for i in range(40):
        state["a"] = state["a"] * 0.5 + x[i]
        last[1] = np.sin(last[1] + state["a"])
    return state["a"] + last[1], state["b"]


def rebuilt(x):
    state = {"a": x[0], "b": [x[1], 1.0]}
    for i in range(40):
        state = {"a": np.sin(state["b"][0]), "b": [state["a"] * 0.9 + x[i], state["b"][1] * 0.99]}
    return state["a"] + state["b"][0] + state["b"][1]


def appended(x):
    hs = []
    h = 0.0
    for v in x:
        h = np.tanh(h * 0.5 + v)
        hs.append(h)
    return np.sum(np.stack(hs) ** 2) + hs[-1] * hs[3], len(hs)


def appended_rows(X):
    hs, k = [], []
    h = X[0]
    for i in range(40):
        h = np.tanh(h * 0.5 + X[i])
        hs.append(h)
        hs.append(h * 2.0)
        k.append(i)
    s = 0.0
    for a in hs:
        s = s * 0.9 + np.sum(a)
    return s, k[7]


def windows(x):
    s = 0.0
    z = np.zeros_like(x)
    for i in range(2, 38):
        s = np.sin(s + np.sum(x[i - 2 : i + 3] * K5))
        z[i : i + 2] = s * x[i : i + 2]
    return s + np.sum(z)


def lists_by_index(x):
    s = 0.0
    ws = [0.1, 0.2] * 20
    tables = [x[:3] * k for k in range(40)]
    for i in range(1, 40):
        s = np.tanh(s * ws[i] + np.sum(tables[i - 1]) * PLAIN[i])
    return s


def stencil(X):
    U = np.zeros_like(X, shape=(30, 40))
    U[0] = X[:, 0]
    for t in range(29):
        U[t + 1, 1:-1] = U[t, 1:-1] + 0.1 * (U[t, 2:] - 2 * U[t, 1:-1] + U[t, :-2])
    return U


def history(x):
    hs = [x[0], x[1] * 0.5]
    for i in range(2, 40):
        hs.append(np.sin(hs[-1] * 0.5 + hs[-2]) + x[i])
    return np.sum(np.stack(hs)), len(hs)


def history_by_number(x):
    hs = [x[0]]
    for i in range(1, 40):
        hs.append(hs[i - 1] * 0.5 + x[len(hs)])
        hs[-1] + 1.0
    return np.sum(np.stack(hs) ** 2)


def elements_with_a_gap(x):
    hs = [x[0], x[1], x[2] * 0.5]
    for i in range(3, 40):
        hs.append(np.sin(hs[-1] * 0.5 + hs[-3]) + x[i])
    return np.sum(np.stack(hs)), hs[-2]


def elements_with_a_gap_by_number(x):
    hs = [x[0]] * 4
    for i in range(4, 40):
        hs.append(hs[i - 4] * 0.5 + hs[i - 2] * x[i])
    return hs[-1], hs[7]


def folded_within_another(x):
    s = x[1]
    for _ in range(20):
        kept = [x[0] * 0.5]
        for j in range(20):
            s = s * 0.9 + 0.1 * kept[-1]
            kept.append(s * x[j])
    return s


def triangle_of_a_table(x):
    n = 18
    low = np.outer(x[:n], np.zeros(n))
    for i in range(n):
        for j in range(i + 1):
            t = x[i] * x[j]
            for k in range(j):
                t = t - low[i, k] * low[j, k] * 0.1
            low[i, j] = np.sin(t)
    return low


def first_and_last(x):
    s, first = 0.0, None
    for i in range(40):
        if i == 0:
            s = x[0] * 2.0
            first = s
        elif i == 39:
            s = s + 1.0
        elif i < 39:
            s = s * 0.9 + x[i + 1]
    return s, i, first


def two_halves(x):
    s = 0.0
    for i in range(40):
        if i < 20:
            s = np.sin(s + x[i])
        else:
            s = s * 0.9 + x[i]
    return s, i


def test_number_of_nodes():
    def f(x, n):
        for i in range(n):
            x = x + 0.1 * np.sin(x) / (i + 1)
        return x

    counts = [len(check_value(lambda x, n=n: converted(f)(x, n), [np.array(0.3)]).graph.nodes) for n in (50, 2000)]
    assert counts[0] == counts[1]


OF_NUMBERS = {counted: 0.3, two_carries: 0.3, newton: 2.0, two_conditions: 0.7, broken: 0.9}
OF_ROWS = (matrix_rows, in_place, wide_table, zipped, dynamic, appended_rows, stencil)
OF_ELEMENTS = (
    float_from_int, rows, neighbours, counter, backwards, tuples, nested, cumulated, cumulated_twice, triangle,
    whole_number, backwards_zip, listed, asked, divided, complex_carry, counting_while, attributes, items_of_objects,
    rebuilt, appended, windows, history, history_by_number, elements_with_a_gap,
    elements_with_a_gap_by_number, folded_within_another, triangle_of_a_table,
    lists_by_index, first_and_last, two_halves,
)  # fmt: skip
CASES = [*OF_NUMBERS.items(), (counted, X[0]), *[(f, X) for f in OF_ROWS], *[(f, V) for f in OF_ELEMENTS]]


@pytest.mark.parametrize(("f", "arg"), CASES)
def test_loop(f, arg):
    check(f, arg, loops=2 if f in (appended_rows, two_halves) else 1, most=200 if f is lists_by_index else 60)
