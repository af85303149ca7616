"""Loops over the rows of a list of lists, of several lengths: a loop node whose number of iterations is data."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

N = 24
X = np.linspace(0.2, 1.1, N)
ROWS = [[(3 * k + m * m) % N for m in range(1 + (k * 5) % 4)] for k in range(N)]
WITH_NONE = [row[: len(row) - 1] for row in ROWS]
PAIRS = [[(j, 0.1 * j) for j in row] for row in WITH_NONE]
FIXED = tuple(tuple(row) for row in WITH_NONE)
NUMBERS = [[0.5 * j for j in row] for row in WITH_NONE]
EVEN = [[(k + m) % N for m in range(3)] for k in range(N)]
CHILDREN = [[j for j in (2 * k + 1, 2 * k + 2) if j < N] for k in range(N)]


def neighbours(x):
    s = 0.0
    for i in range(N):
        for j in ROWS[i]:
            s = s + (x[i] - x[j]) ** 2
    return s


def rows_without_items(x):
    s = 0.0
    for i in range(N):
        for j in WITH_NONE[i]:
            s = s * 0.9 + x[i] * x[j]
    return s


def names_after_it(x):
    """The last rows may be empty, so the names are of an earlier one."""
    s, j, t = 0.0, -1, x[0]
    for i in range(N):
        for j in WITH_NONE[i]:
            t = x[i] * x[j]
            s = s + t
    return s * j + t


def weighted(x):
    s = 0.0
    for i in range(N):
        for j, w in PAIRS[i]:
            s = s + w * x[i] * np.sin(x[j])
    return s


def tuples(x):
    s = 0.0
    for i in range(N - 1, -1, -1):
        for j in FIXED[i]:
            s = s * 0.95 + x[i] * x[j]
    return s


def plain_numbers(x):
    s = 0.0
    for i in range(N):
        for v in NUMBERS[i]:
            s = s + x[i] * v
    return s


def of_one_length(x):
    s = 0.0
    for i in range(N):
        for j in EVEN[i]:
            s = s + x[i] * x[j]
    return s


def shifted(x):
    s = 0.0
    for i in range(N - 2):
        for j in ROWS[i + 2]:
            s = s + x[i] * x[j]
    return s


def messages(x):
    h = x
    for _ in range(3):
        new = []
        for i in range(N):
            total = 0.0
            for j in ROWS[i]:
                total = total + np.tanh(h[j])
            new.append(total / len(ROWS[i]) + 0.1 * h[i])
        h = np.stack(new)
    return np.sum(h * h)


def counted(x):
    s = 0.0
    for i in range(N):
        s = s + x[i] * len(WITH_NONE[i])
    return s


def tree(x):
    """The first rows are empty."""
    message = [0.0] * N
    for i in range(N - 1, -1, -1):
        s = x[i]
        for c in CHILDREN[i]:
            s = s + np.tanh(message[c])
        message[i] = s
    return message[0]


def own_lists(x):
    rows = [[] for _ in range(N)]
    for i in range(N):
        rows[(7 * i) % N].append(i)
        rows[(5 * i) % N].append(N - 1 - i)
    s = 0.0
    for i in range(N):
        for j in rows[i]:
            s = s * 0.9 + x[i] * x[j]
    return s


def rows_that_grow(x):
    rows, s = [[k] for k in range(N)], 0.0
    for i in range(N - 1):
        for j in rows[i]:
            s = s + x[j] * x[i]
        rows[i + 1].append(i)
    return s


def left(x):
    s = 0.0
    for i in range(N):
        for j in ROWS[i]:
            if j > i:
                break
            s = s + x[i] * x[j]
        else:
            s = s * 0.5
    return s


def asked(x):
    s = 0.0
    for i in range(N):
        for j in ROWS[i]:
            if x[j] > x[i]:
                s = s + x[i] * x[j]
    return s


def into_an_array(x):
    out = np.zeros(N)
    for i in range(N):
        for j in WITH_NONE[i]:
            out[i] = out[i] + x[j] * x[i]
    return np.sum(np.sin(out))


def found_by_data(x):
    s, at = 0.0, 0
    for i in range(N):
        at = int(np.argmax(x * np.cos(i))) if i % 2 else i
        for j in ROWS[at]:
            s = s + x[j] * x[i]
    return s


def from_the_end(x):
    s = 0.0
    for i in range(N):
        for j in ROWS[i - 3]:
            s = s + x[j] * x[i]
    return s


def inner_ones(x):
    s = 0.0
    for i in range(N):
        for j in WITH_NONE[i]:
            for k in ROWS[j]:
                s = s + x[i] * x[j] * x[k]
    return s


PROGRAMS = [
    neighbours, rows_without_items, names_after_it, weighted, tuples, plain_numbers, of_one_length, shifted, messages,
    counted, tree, own_lists, rows_that_grow, left, asked, into_an_array, found_by_data, from_the_end, inner_ones,
]  # fmt: skip
ONE_NODE = [
    neighbours, rows_without_items, weighted, tuples, plain_numbers, of_one_length, shifted, messages,
    counted, tree, own_lists,
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_value_and_gradient(f):
    g = compile_grad(f)
    for x in (X, X[::-1] * 0.7):
        value, gradient = g.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-11)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-7)
    assert not g.stats.live


@pytest.mark.parametrize("f", ONE_NODE, ids=lambda f: f.__name__)
def test_no_loop_is_recorded_iteration_by_iteration(f):
    g = compile_grad(f)
    g.value_and_grad(X)
    assert "not-rolled" not in str(g.explain(X))
    assert not any("iteration by iteration" in reason for reason in g.stats.retraces)


def test_rows_that_change_between_calls():
    rows = [list(row) for row in WITH_NONE]

    def f(x):
        s = 0.0
        for i in range(N):
            for j in rows[i]:
                s = s + x[i] * x[j]
        return s

    g = compile_grad(f)
    for change in (lambda: None, lambda: rows[3].append(7), lambda: rows[0].clear(), lambda: rows.reverse()):
        change()
        assert g(X) == pytest.approx(f(X), rel=1e-12)


def len_of_the_test(row):
    return 2.5


def test_another_len(monkeypatch):
    g = compile_grad(counted)
    assert g(X) == pytest.approx(counted(X), rel=1e-12)
    monkeypatch.setitem(globals(), "len", len_of_the_test)
    assert g(X) == pytest.approx(2.5 * np.sum(X), rel=1e-12)
    assert compile_grad(counted)(X) == pytest.approx(2.5 * np.sum(X), rel=1e-12)


def test_a_row_beyond_the_end():
    def f(x):
        s = 0.0
        for i in range(N + 1):
            for j in ROWS[i]:
                s = s + x[j]
        return s

    with pytest.raises(IndexError, match="list index out of range"):
        compile_grad(f)(X)


def test_loops_over_a_table_of_lists_end_in_one_kernel():
    """Elimination on a list of lists: its iterations are recorded as they are, and are repeats."""

    def solved(m):
        n = len(m)
        rows = [[m[i, j] + (15.0 if i == j else 0.0) for j in range(n)] for i in range(n)]
        b = [1.0] * n
        for k in range(n):
            for i in range(k + 1, n):
                f = rows[i][k] / rows[k][k]
                for j in range(k, n):
                    rows[i][j] = rows[i][j] - f * rows[k][j]
                b[i] = b[i] - f * b[k]
        x = [0.0] * n
        for i in range(n - 1, -1, -1):
            s = b[i]
            for j in range(i + 1, n):
                s = s - rows[i][j] * x[j]
            x[i] = s / rows[i][i]
        return sum(x)

    m = np.random.default_rng(0).normal(size=(8, 8))
    g = compile_grad(solved)
    for _ in range(2):
        assert g.value_and_grad(m)[0] == pytest.approx(solved(m), rel=1e-12)
    assert not g.stats.live
