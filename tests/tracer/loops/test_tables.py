"""Tables that are lists of lists: loops that read and assign their elements are loop nodes, whose values, gradients and
objects are those of plain Python."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
from selection import seeds

from tracegrad import compile_grad

X = np.random.default_rng(3).uniform(0.2, 0.9, 64)
PLACES = [3, 0, 5, 1, 4, 2, 7, 6, 2, 5, 1, 0, 3, 6, 7, 4, 2, 1, 0, 5, 6, 3, 4, 7]
N = 20
A = [[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]]


def matrix(x, n=8):
    return [[np.sin(x[i * n + j]) + (2.0 * n if i == j else 0.0) for j in range(n)] for i in range(n)]


# ---- loop nodes ----------------------------------------------------------------------------------------------------


def forward(x):
    T = [[0.0] * 3 for _ in range(N)]
    for k in range(3):
        T[0][k] = x[k] * 0.5
    for t in range(1, N):
        for k in range(3):
            s = 0.0
            for j in range(3):
                s += T[t - 1][j] * (A[j][k] + x[3 * j + k])
            T[t][k] = s * x[t]
    return np.log(sum(T[N - 1]))


def forward_of_sums(x):
    T = [[x[k] for k in range(4)]] + [[0.0] * 4 for _ in range(N - 1)]
    for t in range(1, N):
        for k in range(4):
            T[t][k] = sum(T[t - 1][j] * x[4 * j + k] for j in range(4)) + np.exp(T[t - 1][k] * -0.5)
    return sum(sum(row) for row in T)


def gauss(x):
    n, rows = 8, matrix(x)
    for k in range(n):
        for i in range(k + 1, n):
            f = rows[i][k] / rows[k][k]
            for j in range(k, n):
                rows[i][j] -= f * rows[k][j]
    return sum(np.log(np.abs(rows[i][i])) for i in range(n))


def gauss_by_names(x):
    n, rows = 8, matrix(x)
    for k in range(n):
        pivot = rows[k]
        for i in range(k + 1, n):
            row = rows[i]
            f = row[k] / pivot[k]
            for j in range(k, n):
                row[j] -= f * pivot[j]
    if row is not rows[-1] or pivot is not rows[-1]:
        return x[0]
    row[-1] = row[-1] * x[0]
    return sum(np.log(np.abs(rows[i][i])) for i in range(n))


def cholesky(x):
    n, a = 8, matrix(x)
    low = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            s = (a[i][j] + a[j][i]) * 0.5
            for k in range(j):
                s -= low[i][k] * low[j][k]
            if i == j:
                low[i][j] = np.sqrt(s)
            else:
                low[i][j] = s / low[j][j]
    return sum(np.log(low[i][i]) for i in range(n)) + sum(sum(row) for row in low)


def product(x):
    n, a = 8, matrix(x)
    c = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                c[i][j] += a[i][k] * a[k][j]
    return sum(np.sin(c[i][j]) for i in range(n) for j in range(n))


def edit_distance(x):
    n, m = 12, 15
    D = [[0.0] * (m + 1) for _ in range(n + 1)]
    for i in range(n + 1):
        D[i][0] = float(i)
    for j in range(m + 1):
        D[0][j] = float(j)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = np.tanh((x[i] - x[m + j]) ** 2)
            D[i][j] = np.minimum(np.minimum(D[i - 1][j] + 0.3, D[i][j - 1] + 0.3), D[i - 1][j - 1] + cost)
    return D[n][m] + D[3][4]


def warping(x):
    n, m = 9, 11
    D = [[1e9] * (m + 1) for _ in range(n + 1)]
    D[0][0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            D[i][j] = (x[i] - x[20 + j]) ** 2 + min(D[i - 1][j], D[i][j - 1], D[i - 1][j - 1])
    return D[-1][-1]


def soft_warping(x):
    n, m, g = 9, 11, 0.1
    D = [[1e3] * (m + 1) for _ in range(n + 1)]
    D[0][0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a, b, c = -D[i - 1][j] / g, -D[i][j - 1] / g, -D[i - 1][j - 1] / g
            top = np.maximum(np.maximum(a, b), c)
            soft = np.exp(a - top) + np.exp(b - top) + np.exp(c - top)
            D[i][j] = (x[i] - x[20 + j]) ** 2 - g * (np.log(soft) + top)
    return D[n][m]


def sweeps(x):
    u = [[x[0]] * 7 for _ in range(7)]
    for j in range(7):
        u[0][j] = x[j]
    for _ in range(6):
        for i in range(1, 6):
            for j in range(1, 6):
                u[i][j] = 0.25 * np.sin(u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1])
    return sum(v * v for row in u for v in row)


def previous_and_current(x):
    T = [[x[0] * j for j in range(6)] for _ in range(N)]
    for t in range(1, N):
        before, now = T[t - 1], T[t]
        for j in range(1, 6):
            now[j] = np.tanh(before[j - 1] + now[j - 1] * x[t])
    return sum(now) + before[2] if now is T[-1] and before is T[-2] else x[0]


def rows_gone_over(x):
    T = [[x[0] * j for j in range(6)] for _ in range(N)]
    for t in range(1, N):
        s = 0.0
        for v in T[t - 1]:
            s = s + v * v
        for j, v in enumerate(T[t - 1]):
            T[t][j] = np.tanh(v * s) + x[j]
    return sum(T[-1])


def pairs_of_rows(x):
    a, b = [[x[i + j] for j in range(6)] for i in range(N)], [[x[i * j % 60] for j in range(6)] for i in range(N)]
    s = 0.0
    for i in range(N):
        for u, v in zip(a[i], b[i], strict=True):
            s = s + u * v
        a[i][2] = s * 0.1
    return s + sum(sum(row) for row in a)


def by_data(x):
    T = [[x[i + j] for j in range(8)] for i in range(8)]
    for t in range(24):
        T[PLACES[t]][PLACES[23 - t]] = np.sin(T[PLACES[t] // 2][3]) + x[t] * T[t % 8][PLACES[t]]
    return sum(sum(row) * k for k, row in enumerate(T))


def from_the_end(x):
    T = [[x[j] for j in range(6)] for _ in range(N)]
    for t in range(N - 2, -1, -1):
        for j in range(6):
            T[t][-1 - j] = np.sin(T[t + 1][j] + T[t - N + 1][j - 5]) * x[t]
    return sum(sum(row) for row in T)


def two_tables(x):
    F, B = [[0.0] * 4 for _ in range(N)], [[0.0] * 4 for _ in range(N)]
    for k in range(4):
        F[0][k], B[N - 1][k] = x[k], x[k + 4]
    for t in range(1, N):
        for k in range(4):
            F[t][k] = F[t - 1][k] * x[t] + F[t - 1][(k + 1) % 4] * 0.3
    for t in range(N - 2, -1, -1):
        for k in range(4):
            B[t][k] = B[t + 1][k] * x[t] + F[t][k] * B[t + 1][3 - k]
    return sum(F[t][k] * B[t][k] for t in range(N) for k in range(4))


def table_of_an_iteration(x):
    total = 0.0
    for r in range(N):
        T = [[x[r] * k for k in range(5)] for _ in range(6)]
        for i in range(1, 6):
            for j in range(5):
                T[i][j] = np.sin(T[i - 1][j] + x[r + j])
        total = total * 0.9 + T[5][4] + sum(T[2])
    return total


def in_a_function(x):
    def relax(row, before, w):
        for j in range(1, 6):
            row[j] = row[j - 1] * w + before[j]

    T = [[x[j] for j in range(6)] for _ in range(N)]
    for t in range(1, N):
        relax(T[t], T[t - 1], x[t])
    return sum(T[-1])


def lengths_of_rows(x):
    T = [[x[i + j] for j in range(6)] for i in range(N)]
    for t in range(1, len(T)):
        for j in range(len(T[t])):
            T[t][j] = T[t - 1][j] * x[j] + T[0][j] / len(T)
    return sum(T[-1])


def of_a_while(x):
    T = [[x[j] for j in range(6)] for _ in range(N)]
    t = 1
    while t < N:
        for j in range(6):
            T[t][j] = np.sin(T[t - 1][j]) + x[t]
        t += 1
    return sum(T[-1])


def with_a_table_of_arrays(x):
    u, T = np.zeros((N, 6)), [[x[j] for j in range(6)] for _ in range(N)]
    for t in range(1, N):
        for j in range(6):
            u[t, j] = T[t - 1][j] * x[t]
            T[t][j] = u[t, j] + np.cos(T[t - 1][j])
        u[t] += np.array(T[t])
    return np.sum(u**2)


def kept_sums(x):
    T, norms = [[x[j] for j in range(3)] for _ in range(N)], []
    for t in range(1, N):
        for j in range(3):
            T[t][j] = T[t - 1][j - 1] * x[t] + T[t - 1][j]
        c = sum(T[t])
        norms.append(c)
        for j in range(3):
            T[t][j] = T[t][j] / c
    return sum(np.log(c) for c in norms) + T[-1][0]


def pascal(x):
    T = [[1.0] * N for _ in range(N)]
    for i in range(1, N):
        T[i][0] = x[i]
        for j in range(1, i):
            T[i][j] = (T[i - 1][j - 1] + T[i - 1][j]) * 0.5 * x[j]
    return sum(sum(row) for row in T)


def assigned_where(x):
    T = [[x[i + j] for j in range(5)] for i in range(N)]
    for t in range(1, 20):
        for j in range(5):
            if T[t - 1][j] * 2.0 < T[t][j] + x[t]:
                T[t][j] = T[t - 1][j] * 2.0
    return sum(sum(row) for row in T)


def relaxed(x):
    """Bellman and Ford's: a list of numbers, some of which are replaced."""
    edges = [(i, (i * 7 + 3) % 12) for i in range(12)] + [(i, (i + 1) % 12) for i in range(12)]
    d = [x[0] * 0 + 1e9] * 12
    d[0] = x[0] * 0
    for _ in range(11):
        for k, (a, b) in enumerate(edges):
            c = d[a] + x[k]
            if c < d[b]:
                d[b] = c
    return sum(d)


ROLLED = (
    forward, forward_of_sums, gauss, gauss_by_names, product, edit_distance, warping, soft_warping, sweeps,
    previous_and_current, rows_gone_over, pairs_of_rows, by_data, from_the_end, two_tables, table_of_an_iteration,
    in_a_function, lengths_of_rows, of_a_while, with_a_table_of_arrays, kept_sums, pascal, assigned_where, relaxed,
)  # fmt: skip


# ---- objects, and numbers of Python's ------------------------------------------------------------------------------


def one_row_many_times(x):
    T = [[x[0]] * 5] * 20
    for t in range(1, 20):
        for j in range(5):
            T[t][j] = T[t - 1][j] * 0.5 + x[t]
    return sum(T[3])


def row_of_two_tables(x):
    T = [[x[i + j] for j in range(5)] for i in range(N)]
    U = [T[19 - i] for i in range(N)]
    for t in range(1, 20):
        for j in range(5):
            T[t][j] = U[t - 1][j] * 0.5 + x[t]
    return sum(T[3]) + sum(U[2])


def name_of_a_row(x):
    T = [[x[i + j] for j in range(5)] for i in range(N)]
    first = T[0]
    for t in range(1, 20):
        for j in range(5):
            first[j] = first[j] * 0.9 + T[t][j]
            T[t][j] = T[t - 1][j] * 0.5 + first[j - 1]
    return sum(T[3]) + sum(first)


def name_carried(x):
    T = [[x[i + j] for j in range(5)] for i in range(N)]
    before = T[0]
    for t in range(1, 20):
        now = T[t]
        for j in range(5):
            now[j] = before[j] * 0.5 + x[t]
            T[t - 1][j] = now[j] * 2.0
        before = now
    return sum(T[3]) + sum(before)


def row_kept(x):
    T, kept = [[x[i + j] for j in range(5)] for i in range(N)], []
    for t in range(1, 20):
        row = T[t]
        for j in range(5):
            row[j] = T[t - 1][j] * 0.5 + x[t]
        kept.append(row)
    kept[4][2] = x[0] * 7.0
    return sum(T[5]) + sum(kept[4]) if all(a is b for a, b in zip(kept, T[1:], strict=True)) else x[0]


def row_in_a_dict(x):
    T, kept = [[x[i + j] for j in range(5)] for i in range(N)], {"row": None}
    for t in range(1, 20):
        T[t][1] = T[t - 1][1] * 0.5 + x[t]
        kept["row"] = T[t]
        T[t][2] = kept["row"][1] + 1.0
    kept["row"][0] = x[1]
    return sum(T[5]) + sum(T[19])


def rows_swapped(x):
    T = [[x[i + j] for j in range(2)] for i in range(N)]
    for t in range(1, 10):
        for j in range(2):
            T[t][j] = T[t - 1][j] * 0.5 + x[t]
        T[t], T[0] = T[0], T[t]
    return sum(T[5]) + sum(T[0]) * 2.0


def row_replaced(x):
    T = [[x[i + j] for j in range(5)] for i in range(N)]
    for t in range(1, 20):
        T[t] = [T[t - 1][j] * 0.5 + x[t] for j in range(5)]
        T[t][2] = T[t][1] * x[0]
    return sum(T[5]) + sum(T[0]) * 2.0


def row_grows(x):
    T = [[x[i + j] for j in range(5)] for i in range(N)]
    for t in range(1, 20):
        T[t][2] = T[t - 1][2] * 0.5 + x[t]
        T[t].append(x[t])
    return sum(T[5]) + sum(T[0]) * 2.0


def last_row_shrinks(x):
    T = [[x[i + j] for j in range(5)] for i in range(N)]
    for t in range(1, 18):
        T[t][2] = T[t - 1][2] * 0.5 + x[t]
        if t == 9:
            T[19].pop()
    return sum(T[5]) + sum(T[19]) * 2.0


def told_apart(x):
    T, s = [[x[i + j] for j in range(5)] for i in range(N)], 0.0
    for t in range(1, 20):
        for j in range(5):
            T[t][j] = T[t - 1][j] * 0.5 + x[t]
        s = s * 0.9 + (x[0] if T[t] is T[7] else x[1])
    return sum(T[5]) + s


def element_kept(x):
    T, best = [[0.0] * 5 for _ in range(N)], 0.0
    T[0][0] = x[0]
    for t in range(1, 20):
        for j in range(5):
            T[t][j] = T[t - 1][j] * 0.5 + x[t]
        best = T[t - 1][3]
    return sum(T[5]) + best


def element_copied(x):
    T = [[0.0] * 5 for _ in range(N)]
    for t in range(1, 20):
        T[t][0] = T[t - 1][0] * 0.5 + x[t]
        T[t][1] = T[t - 1][1]
    return sum(T[5])


def divided_by_elements(x):
    T = [[1.0] * 5 for _ in range(N)]
    for t in range(1, 20):
        for j in range(5):
            T[t][j] = x[t] / T[t - 1][j] + 1.0 / (T[t - 1][j] + T[0][j])
    return sum(T[5])


def python_floats_written(x):
    T = [[x[j] for j in range(4)] for _ in range(N)]
    for t in range(1, 10):
        for j in range(3):
            T[t][j] = T[t - 1][j] * 0.5 + x[t]
        T[t][3] = 0.0
    return sum(T[5]) + sum(T[9])


def unlike_elements(x):
    T = [[x[0], x[:2], None] for _ in range(N)]
    for t in range(1, 20):
        T[t][0] = T[t - 1][0] * 0.5 + np.sum(T[t - 1][1])
    return T[-1][0] + T[3][0]


def left_early(x):
    T = [[x[j] for j in range(5)] for _ in range(N)]
    for t in range(1, 20):
        row = T[t]
        for j in range(5):
            row[j] = T[t - 1][j] * 0.9 + x[t]
        if row[2] > 1.5:
            break
    row[0] = x[0] * 3.0
    return sum(sum(r) for r in T) + t


def caught(x):
    T = [[x[j] for j in range(5)] for _ in range(N)]
    t = 0
    try:
        for t in range(1, 30):
            T[t][2] = T[t - 1][2] * 0.5 + x[t]
    except IndexError:
        T[3][1] = x[40]
    return sum(sum(row) for row in T) + t


def read_otherwise(x):
    T, s = [[x[j] * i for j in range(5)] for i in range(N)], 0.0
    for t in range(1, 20):
        T[t][2] = T[t - 1][2] * 0.5 + x[t]
        s = s * 0.9 + max(T[3]) + sum(T[t]) + np.sum(np.array(T)) + T[4][-1] + len(T[t][1:3]) + (T[0] + T[1])[7]
        a, b, *_ = T[t]
        s = s + a * b
    return s


def integers(x):
    D = [[0] * 9 for _ in range(12)]
    for i in range(12):
        D[i][0] = i
    for j in range(9):
        D[0][j] = j
    for i in range(1, 12):
        for j in range(1, 9):
            D[i][j] = min(D[i - 1][j] + 1, D[i][j - 1] + 1, D[i - 1][j - 1] + np.tanh(x[i] * x[j + 20]))
    return D[-1][-1] + D[0][3]


AS_PYTHON = (
    cholesky, one_row_many_times, row_of_two_tables, name_of_a_row, name_carried, row_kept, row_in_a_dict, rows_swapped,
    row_replaced, row_grows, last_row_shrinks, told_apart, element_kept, element_copied, divided_by_elements,
    python_floats_written, unlike_elements, left_early, caught, read_otherwise, integers,
)  # fmt: skip


def check(f: Any, x: np.ndarray, rolled: bool | None) -> None:
    compiled, move = compile_grad(f), np.random.default_rng(0).normal(size=x.shape)
    for given in (x, x * 0.7):
        for _ in range(2):
            value, gradient = compiled.value_and_grad(given.copy())
            np.testing.assert_allclose(value, f(given), rtol=1e-12)
        slope = (f(given + 1e-6 * move) - f(given - 1e-6 * move)) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * move), slope, rtol=1e-6, atol=1e-8)
    if rolled is not None:
        assert ("rolled: the loop at" in compiled.explain(x, level="all")) == rolled


@pytest.mark.parametrize("f", ROLLED)
def test_a_table_is_an_array(f):
    check(f, X, True)


@pytest.mark.parametrize("f", AS_PYTHON)
def test_objects_are_those_of_python(f):
    check(f, X, None)


def a_row_with_a_name_gone_over(x):
    T = [[x[j] for j in range(20)] for _ in range(20)]
    s = 0.0
    for t in range(1, 20):
        row = T[t - 1]
        for k in range(20):
            T[t][k] = row[k] * 0.5 + x[t]
        for value in row:
            s = s + value * x[t]
    return s


def test_a_row_with_a_name_is_gone_over_in_one_run():
    check(a_row_with_a_name_gone_over, X, True)
    g = compile_grad(a_row_with_a_name_gone_over)
    g(X)
    assert not g.stats.retries


def test_a_table_of_floats_takes_the_dtype_of_others():
    def f(x):
        T = [[0.5] * N for _ in range(N)]
        for t in range(1, N):
            for k in range(N):
                T[t][k] = T[t - 1][k] * x[t] + x[k]
        return np.sum(np.array(T[-1]))

    x = X.astype(np.float32)
    g = compile_grad(f)
    for _ in range(2):
        np.testing.assert_allclose(g(x), f(x), rtol=1e-5)
        assert g(x).dtype == f(x).dtype == np.float32


# ---- programs that are drawn ---------------------------------------------------------------------------------------


def drawn(seed: int) -> Any:
    """A random function that fills tables in nested loops: along rows and columns, through names, where data says."""
    rng = random.Random(seed)
    n, m = rng.choice([6, 9, 18]), rng.choice([3, 5, 8])
    start = rng.choice(["0.0", "x[i + j]", "x[i] * j", "1.5 if i else x[j]", "0 if j else 1.0"])
    lines = ["def f(x):", f"    T = [[{start} for j in range({m})] for i in range({n})]"]
    lines += [f"    U = [[x[i * j % 60] for j in range({m})] for i in range({n})]", "    s = 0.0"]
    lines += [f"    p, q = {[rng.randrange(n) for _ in range(40)]}, np.array({[rng.randrange(m) for _ in range(40)]})"]
    lines += ["    first = T[0]"] if rng.random() < 0.2 else []
    ends = rng.choice([f"1, {n}", f"{n - 1}", f"{n - 2}, -1, -1"])
    lines += [f"    for i in range({ends}):"]
    before = "i - 1" if ends.startswith("1,") else "i + 1"
    rows = ["i", before, "0", "-1", "p[i]", f"i * 2 % {n}", f"i - {n}"]
    columns = ["j", "j", "j - 1", "0", "-1", "q[j]", f"(j + 1) % {m}"]
    depth, names = 2, []
    if rng.random() < 0.4:
        names = ["now", "old"]
        lines.append(f"        now, old = T[i], {rng.choice(['T', 'U'])}[{before}]")
    for _ in range(rng.choice([1, 1, 2])):
        inner = rng.choice([f"range({m})", f"range(1, {m})", f"range({m} - 1, -1, -1)", "range(i + 1)", "T", "none"])
        if inner == "T":
            lines.append(f"        for j, v in enumerate({rng.choice(['T', 'U'])}[{rng.choice(rows)}]):")
        elif inner == "none":
            lines.append(f"        j = {rng.randrange(m)}")
        else:
            inner = inner if inner != "range(i + 1)" else f"range(min(i + 1, {m}))" if m < n else "range(i + 1)"
            lines.append(f"        for j in {inner}:")
        depth = 2 if inner == "none" else 3

        def element(column: str | None = None) -> str:
            if names and rng.random() < 0.4:
                return f"{rng.choice(names)}[{column or rng.choice(columns)}]"
            return f"{rng.choice('TTU')}[{rng.choice(rows)}][{column or rng.choice(columns)}]"

        for _ in range(rng.choice([1, 2])):
            parts = [f"{rng.choice(['0.5', 'x[i]', 'x[j]'])} * {element()}" for _ in range(rng.choice([1, 2, 3]))]
            parts += ["v * 0.3"] if inner == "T" else []
            form = rng.choice(
                ["np.sin({})", "{} + x[j]", "np.minimum({}, x[i])", "np.exp(-({}) / 2.0) + x[0]", "({}) / x[3]"]
            )
            target = (
                element(rng.choice(columns[:4]))
                if rng.random() < 0.4
                else rng.choice(["T[i][j]", "T[i][j]", *[f"{x}[j]" for x in names[:1]]])
            )
            lines.append("    " * depth + f"{target} {rng.choice(['=', '=', '+='])} {form.format(' + '.join(parts))}")
        if rng.random() < 0.3:
            lines.append("    " * depth + f"s = s * 0.5 + {element()} * x[1]")
    for text in (
        "s = s + sum(T[i])",
        "s = s + max(T[0]) * 0.1",
        "s = s * 0.9 + T[i][0] / 3.0",
        "s += np.sum(np.array(T[i]))",
    ):
        lines += [f"        {text}"] if rng.random() < 0.2 else []
    lines += ["    now[0] = now[1] * 2.0"] if names and rng.random() < 0.4 else []
    lines += ["    first[1] = first[0] * 3.0"] if any("first" in x for x in lines) else []
    lines.append("    return s + sum(sum(r) * k for k, r in enumerate(T)) + sum(U[1]) + T[-1][0] * x[2]")
    text, name = "\n".join(lines) + "\n", f"<random tables of lists {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), scope)
    return scope["f"]


@pytest.mark.parametrize("seed", seeds(12, quick=1))
def test_random_program(seed):
    check(drawn(seed), np.random.default_rng(seed).uniform(0.2, 0.9, 64), None)
