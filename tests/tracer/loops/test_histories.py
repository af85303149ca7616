"""Lists that a loop fills and reads at positions that data says: a loop node, whose values, gradients and errors are
those of plain Python."""

from __future__ import annotations

import linecache
import random
import traceback
from typing import Any

import numpy as np
import pytest
from selection import seeds

from tracegrad import compile_grad

PARENTS = [0, 0, 0, 1, 1, 0, 3, 2, 5, 5, 8, 1, 3, 10, 13, 0, 7, 16, 2, 4, 19, 20, 1, 22, 21]
ROOTED = (-1, *PARENTS[1:])
FROM_THE_END = [-1] + [-k if k % 3 else 0 for k in range(1, 25)]
OUT_OF_RANGE = [0] * 20 + [40] + [0] * 4
TOO_FAR_BACK = [0] * 20 + [-21] + [0] * 4
CHILDREN = [min(24, k + 1 + (k * 7) % 5) for k in range(25)]
CLASSES = np.array([(k * 11) % 7 for k in range(25)])
AS_ARRAY = np.array(PARENTS)
X = np.linspace(0.1, 1.0, 25)


# ---- one loop node -------------------------------------------------------------------------------------------------


def numbers(x):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[PARENTS[k]]) + x[k])
    return done[-1] + done[3]


def iterated_parents(x):
    done = [x[0]]
    for p, v in zip(PARENTS, x, strict=True):
        done.append(np.sin(done[p]) + v)
    return np.sum(np.stack(done) ** 2)


def arrays(x):
    done = [x[:3]]
    for k in range(1, 25):
        q = done[PARENTS[k]]
        done.append(np.sin(q) + x[k])
    return np.sum(np.stack(done) ** 2) + q[0]


def bones(x):
    """The root has no parent."""
    done = []
    for k, parent in enumerate(ROOTED):
        own = np.sin(x[k] * np.arange(1, 5).reshape(2, 2))
        done.append(own if parent < 0 else done[parent] @ own)
    return np.sum(np.stack(done) ** 2)


def plain_root(x):
    done = [np.eye(3)]
    for k in range(1, 25):
        done.append(done[PARENTS[k]] @ np.outer(x[:3], x[1:4]) * x[k] + 0.1)
    return np.sum(np.stack(done))


def computed(x):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[k // 2]) + x[k] * done[k * 7 % 11 % k])
    return np.sum(np.stack(done))


def before_it(x):
    done = [x[0], x[1], x[0] * x[1]]
    for k in range(3, 25):
        done.append(np.sin(done[k // 3]) + x[k] * done[k - 2] + done[-1] * 0.1 + done[-3] + done[1])
    return np.sum(np.stack(done)) + done[4]


def from_the_end(x):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[FROM_THE_END[k]]) + x[k])
    return done[-1] + done[3]


def by_array(x):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[AS_ARRAY[k]]) + x[k])
    return np.sum(np.stack(done))


def by_int_of_array(x):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[int(AS_ARRAY[k])]) + x[k] * done[AS_ARRAY[k].item()])
    return np.sum(np.stack(done))


def by_length(x):
    done = [x[0]]
    for v in x:
        done.append(np.sin(done[len(done) // 2]) + v)
    return done[-1] + done[7]


def two_lists(x):
    a, b = [x[0]], [x[1], x[2]]
    for k in range(1, 25):
        a.append(np.tanh(a[k // 2] * x[3] + b[PARENTS[k]]))
        b.append(b[k // 3] + a[PARENTS[k]] * a[k] + x[k])
    return a[-1] + b[-1] + sum(a) * sum(b[3:9])


def twice_in_an_iteration(x):
    a = [x[0]]
    for k in range(1, 25):
        a.append(np.tanh(a[k // 2] * x[3]))
        a.append(a[PARENTS[k]] * x[k] + a[-1])
    return sum(a) + a[-1]


def pairs(x):
    done = [(x[0], x[:2])]
    for k in range(1, 25):
        a, b = done[PARENTS[k]]
        done.append((np.sin(a) + x[k], b * a))
    return done[-1][0] + done[3][1][1] + sum(np.sum(b) for a, b in done)


def complex_numbers(x):
    z = [x[0] * 1j]
    for k in range(1, 25):
        z.append(z[PARENTS[k]] * (0.5 + 0.5j) + x[k])
    return np.abs(z[-1]) + z[3].real


def asked(x):
    done = [x[0]]
    for k in range(1, 25):
        p = done[PARENTS[k]]
        if p > 50.0:
            p = -p
        done.append(p * 0.9 + x[k])
    return done[-1] + done[-4]


def empty_at_first(x):
    done = []
    for k in range(25):
        done.append(x[k] if k == 0 else done[PARENTS[k]] * x[k])
    return done[-1] + done[7]


def of_another_list(x):
    table, s = [x[k] * x[24 - k] for k in range(25)], 0.0
    for k in range(25):
        s = s * 0.9 + table[PARENTS[PARENTS[k]]] * PARENTS[24 - k]
    return s


def name_of_the_last(x):
    done, h = [x[:3] * 1.0], x[:3] * 1.0
    for k in range(1, 25):
        h = np.sin(h) + done[PARENTS[k]]
        done.append(h)
    h += 1.0
    done[4] *= 2.0
    return np.sum(np.stack(done))


def read_in_an_inner_loop(x):
    best = [x[0]]
    for k in range(1, 25):
        s = x[k]
        for q in range(k):
            s = s + best[q] * 0.1 * x[q]
        best.append(s)
    return best[-1]


def made_in_a_loop(x):
    s = 0.0
    for i in range(20):
        done = [x[i]]
        for k in range(1, 20):
            done.append(np.sin(done[PARENTS[k]]) + x[k])
        s = s * 0.9 + done[-1] * done[5]
    return s


def long_list(x):
    done = [x[0]]
    for k in range(1, 400):
        done.append(np.cos(done[k * 31 % 97 % k]) * x[k % 25] + 0.1)
    return np.sum(np.stack(done)) + done[399]


def from_a_python_float(x):
    done = [0.0]
    for k in range(1, 25):
        done.append(done[PARENTS[k]] * 0.5 + x[k])
    return done[-1]


def dicts(x):
    done = [{"a": x[0], "b": x[1]}]
    for k in range(1, 25):
        d = done[PARENTS[k]]
        done.append({"a": d["a"] * x[k], "b": d["b"] + x[k] * d["a"]})
    return done[-1]["b"]


def table(x):
    T = [None] * 25
    T[0] = x[0]
    for k in range(1, 25):
        T[k] = np.sin(T[PARENTS[k]]) + x[k]
    return T[-1] + T[3] + sum(T)


def table_from_none(x):
    T = [None] * 25
    for k in range(25):
        T[k] = x[0] if k == 0 else T[PARENTS[k]] * 0.5 + x[k]
    return T[-1] + T[3] + sum(T)


def table_of_matrices(x):
    T = [None] * 25
    T[0] = np.eye(2)
    for k in range(1, 25):
        T[k] = T[PARENTS[k]] @ np.array([[np.cos(x[k]), -np.sin(x[k])], [np.sin(x[k]), np.cos(x[k])]])
    return np.sum(T[-1]) + np.sum(T[3]) + np.sum(np.stack(T) ** 3)


def table_from_the_end(x):
    T = [None] * 25
    T[24] = x[0]
    for k in range(23, -1, -1):
        T[k] = np.sin(T[CHILDREN[k]]) + x[k]
    return T[0] + sum(T)


def table_of_floats(x):
    T = [0.0] * 25
    for k in range(1, 25):
        T[k] = T[PARENTS[k]] * 0.5 + x[k] + T[k - 1] * 0.1
    return T[24] + T[5]


def table_of_one_array(x):
    T = [np.zeros(2)] * 25
    for k in range(1, 25):
        T[k] = T[PARENTS[k]] * 0.5 + x[k] + T[k - 1] * 0.1
    return np.sum(T[24]) + np.sum(T[5])


def table_read_near(x):
    T = [None] * 26
    T[0] = x[0]
    T[1] = x[1]
    for k in range(2, 25):
        T[k] = np.sin(T[k - 1]) * T[k - 2] + x[k]
    return T[24] + T[5]


def table_and_name(x):
    T = [None] * 25
    T[0] = x[:3] * 1.0
    for k in range(1, 25):
        h = T[PARENTS[k]] * 0.5 + x[k]
        T[k] = h
    h += 1.0
    T[3] *= 2.0
    return np.sum(np.stack(T))


def table_read_ahead(x):
    T = [x[0]] * 25
    for k in range(1, 25):
        T[k] = T[CHILDREN[k]] * 0.5 + x[k]
    return T[24] + sum(T)


def ring(x):
    s = [x[0], x[1] * 2, x[2], x[0] * x[1], x[3] + 1]
    e = 0.0
    for t in range(25):
        d = x[t] - s[t % 5]
        e = e + d**2 * s[t % 5]
        s[t % 5] = s[t % 5] + x[1] * d
    return e + s[3]


def assigned_anywhere(x):
    s = [x[k] for k in range(7)]
    for t in range(25):
        s[CLASSES[t]] = np.sin(s[PARENTS[t] // 4]) + x[t]
    return sum(s) + s[2]


def arrays_assigned_anywhere(x):
    s = [x[:3] * k for k in range(7)]
    for t in range(25):
        h = np.sin(s[PARENTS[t] // 4]) + x[t]
        s[CLASSES[t]] = h
    return sum(np.sum(q) for q in s)


def elements_swapped(x):
    s = [x[k] for k in range(25)]
    for t in range(24):
        i, j = t, PARENTS[t]
        s[i], s[j] = s[j] * 0.9, s[i]
    return sum(v * k for k, v in enumerate(s))


def sums_by_class(x):
    acc = [0.0] * 7
    for t in range(25):
        acc[CLASSES[t]] += x[t]
    return sum(a * a for a in acc)


def first_and_last_assigned(x):
    acc = [x[0]] * 7
    for t in range(25):
        acc[CLASSES[t]] = acc[PARENTS[t] // 4] * 0.3 + x[t]
        acc[0] = acc[0] * 0.9 + acc[-1]
    return sum(a * a for a in acc)


def assigned_in_an_inner_loop(x):
    s = [x[k] for k in range(20)]
    e = 0.0
    for t in range(20):
        for c in range(18):
            s[CLASSES[c]] = np.sin(s[PARENTS[c] // 4]) + x[t] * s[c]
        e = e * 0.9 + s[PARENTS[t]]
    return e + sum(s)


def read_after_another_kind(x):
    done = [0.0]
    s = 0.0
    for k in range(1, 25):
        done.append(done[PARENTS[k]] * 0.5 + x[k])
        s = s * 0.9 + done[-1] + done[k]
    return s


def table_of_floats_read_again(x):
    T = [0.0] * 25
    s = 0.0
    for k in range(1, 25):
        T[k] = T[PARENTS[k]] * 0.5 + x[k]
        s = s * 0.9 + T[k] * 2.0 + T[PARENTS[k]]
    return s


def kinds_of_parts(x):
    done = [(x[0], x[:2])]
    for k in range(1, 25):
        a, b = done[PARENTS[k]]
        done.append((np.sin(a) + x[k], b * a))
    assert type(done[0][0]) is np.float64 and type(done[4][0]) is np.float64 and type(a) is np.float64
    return done[-1][0]


ROLLED = (
    numbers, iterated_parents, arrays, bones, plain_root, computed, before_it, from_the_end, by_array, by_int_of_array,
    by_length, two_lists, twice_in_an_iteration, pairs, complex_numbers, asked, empty_at_first, of_another_list,
    name_of_the_last, read_in_an_inner_loop, made_in_a_loop, long_list, from_a_python_float, dicts, table,
    table_from_none, table_of_matrices, table_from_the_end, table_of_floats, table_of_one_array, table_read_near,
    table_and_name, table_read_ahead, ring, assigned_anywhere, arrays_assigned_anywhere, elements_swapped,
    sums_by_class, first_and_last_assigned, assigned_in_an_inner_loop, read_after_another_kind,
    table_of_floats_read_again, kinds_of_parts,
)  # fmt: skip


# ---- iteration by iteration, since arrays are changed that have several names ---------------------------------------


def row_written(x):
    done = [x[:3] * 1.0]
    for k in range(1, 25):
        q = done[PARENTS[k]]
        done.append(q * 0.9 + x[k])
        q += 1.0
    return np.sum(np.stack(done))


def element_written_after(x):
    done = [x[:3] * 1.0]
    for k in range(1, 25):
        q = done[PARENTS[k]]
        done.append(q * 0.9 + x[k])
    done[PARENTS[24]] += 5.0 * x[1]
    return np.sum(q) + np.sum(done[-1])


def appended_again(x):
    done = [x[:3] * 1.0]
    for k in range(1, 25):
        done.append(done[PARENTS[k]])
    done[3] += 1.0
    return np.sum(np.stack(done))


def written_once_appended(x):
    done = [x[:3] * 1.0]
    for k in range(1, 25):
        h = np.sin(done[PARENTS[k]])
        done.append(h)
        h += x[k]
    return np.sum(np.stack(done))


def written_from_before(x):
    first = x[:3] * 1.0
    done = [first]
    for k in range(1, 25):
        done.append(np.sin(done[PARENTS[k]]) + x[k])
        first += x[k]
    return np.sum(np.stack(done))


def now_and_then(x):
    done = [x[0]]
    for k in range(1, 25):
        if k % 3:
            done.append(np.sin(done[PARENTS[k] // 2]) + x[k])
    return done[-1]


def now_this_and_now_that(x):
    done, total = [x[0]], 0.0
    for k in range(1, 25):
        done.append(done[-1] * 0.9 + np.sin(x[k]))
        total = total + done[k if k % 3 else k // 2]
    return total


def left_early(x):
    done = [x[0]]
    for k in range(1, 25):
        q = done[PARENTS[k]]
        done.append(q + x[k])
        if done[-1] > 4.0:
            break
    return done[-1] + done[len(done) // 2] + q


def python_float_divides(x):
    done = [0.5]
    for k in range(1, 25):
        done.append(x[k] / done[PARENTS[k]])
    return done[-1]


def python_float_kept(x):
    done = [0.0]
    for k in range(1, 25):
        q = done[PARENTS[k]]
        done.append(q * 0.5 + x[k])
    return done[-1] + q


def dicts_changed_after(x):
    done = [{"a": x[0], "b": x[1]}]
    for k in range(1, 25):
        d = done[PARENTS[k]]
        n = {"a": d["a"] * x[k], "b": d["b"] + x[k] * d["a"]}
        done.append(n)
    n["a"] = 5.0 * x[3]
    done[3]["b"] = x[7] * 7.0
    return sum(q["b"] + q["a"] for q in done) + n["a"]


def never_appended(x):
    flag = False
    done = [x[0]]
    for k in range(25):
        if flag:
            done.append(x[k] * done[k // 2])
        s = x[k] + done[0]
    return s + len(done)


def names_of_arrays_assigned(x):
    s = [x[:3] * k for k in range(7)]
    a = s[6]
    for t in range(25):
        h = np.sin(s[PARENTS[t] // 4]) + x[t]
        s[CLASSES[t]] = h
    h += 1.0
    a *= 2.0
    s[1] += 5.0
    return sum(np.sum(q) for q in s) + np.sum(a)


def kinds_that_change(x):
    done = [0.0, 1.0]
    s = 0.0
    for k in range(2, 25):
        done.append(done[PARENTS[k]] / 2.0 * x[k] if k != 4 else np.array([1.0, 2.0]) @ x[:2] * np.ones(1)[0])
        s = s * 0.9 + done[-1] + done[k]
    return s


def int_assigned_once(x):
    T = [x[k] for k in range(20)]
    s = 0.0
    for t in range(20):
        for c in range(18):
            T[CLASSES[c]] = T[PARENTS[c] // 2] * 0.5 + x[c]
        if t == 7:
            T[3] = 5
        s = s * 0.9 + T[PARENTS[t]] * 2.0 + T[3]
    return s


def arrays_assigned_in_an_inner_loop(x):
    T = [x[:2] * k for k in range(20)]
    s = 0.0
    for t in range(20):
        for c in range(18):
            h = T[PARENTS[c] // 2] * 0.5 + x[c]
            T[CLASSES[c]] = h
        h += 1.0
        s = s * 0.9 + np.sum(T[PARENTS[t]]) * 2.0 + np.sum(T[3])
    return s


def table_filled_by_a_nest(x):
    T = [None] * 400
    s = 0.0
    T[0] = x[0]
    for t in range(18):
        for c in range(20):
            k = t * 20 + c + 1
            T[k] = T[(k * 7) % k // 2] * 0.5 + x[c]
        s = s * 0.9 + T[k // 2]
    return s


def knapsack(x):
    best = [x[0] * 0.0] * 20
    for t in range(25):
        w = 1 + t % 3
        for c in range(19, w - 1, -1):
            best[c] = np.maximum(best[c], best[c - w] + x[t])
    return best[19]


def root_assigned_again(x):
    T = [None] * 25
    s = 0.0
    T[0] = x[0]
    for k in range(1, 25):
        T[0] = x[k] * 2.0
        T[k] = T[PARENTS[k]] * 0.5 + x[k]
        s = s * 0.9 + T[PARENTS[k]]
    return s


def reversed_once(x):
    T = [x[k] for k in range(20)]
    s = 0.0
    for k in range(20):
        T[CLASSES[k]] = T[PARENTS[k] // 2] * 0.5 + x[k]
        s = s * 0.9 + sum(T) * 0.1 + T[PARENTS[k] // 2]
        if k == 9:
            T.reverse()
    return s


def first_assigned_again(x):
    done = [x[0]]
    s = 0.0
    for k in range(1, 25):
        done.append(done[PARENTS[k]] * 0.5 + x[k])
        done[0] = x[k]
        s = s * 0.9 + done[PARENTS[k]]
    return s


def inserted(x):
    done = [x[0], x[1]]
    s = 0.0
    for k in range(1, 25):
        done.append(done[PARENTS[k]] * 0.5 + x[k])
        done.insert(0, x[k])
        s = s * 0.9 + done[PARENTS[k]]
    return s


def assigned_and_appended(x):
    T = [x[k] for k in range(20)]
    s = 0.0
    for k in range(20):
        T[CLASSES[k]] = T[PARENTS[k] // 2] * 0.5 + x[k]
        T.append(x[k])
        s = s * 0.9 + T[PARENTS[k] // 2] + T[-1]
    return s


def summed_behind_a_loop(x):
    T = [x[k] for k in range(20)]
    s = 0.0
    for _ in range(20):
        for c in range(17):
            T[CLASSES[c]] = T[PARENTS[c] // 2] * 0.5 + x[c]
        s = s * 0.9 + sum(T)
    return s


def sliced_behind_a_loop(x):
    T = [x[k] for k in range(20)]
    s = 0.0
    for _ in range(20):
        for c in range(17):
            T[CLASSES[c]] = T[PARENTS[c] // 2] * 0.5 + x[c]
        a, b = T[2:4]
        U = list(T)
        s = s * 0.9 + a * b + U[3]
    return s


def iterated_behind_a_loop(x):
    T = [x[k] for k in range(20)]
    s = 0.0
    for _ in range(20):
        for c in range(17):
            T[CLASSES[c]] = T[PARENTS[c] // 2] * 0.5 + x[c]
        for v in T:
            s = s * 0.9 + v * 0.1
        s += max(T, key=float) * 0.0 + len(T)
    return s


AS_PYTHON = (
    row_written, element_written_after, appended_again, written_once_appended, written_from_before, now_and_then,
    now_this_and_now_that, left_early, python_float_divides, python_float_kept, dicts_changed_after, never_appended,
    names_of_arrays_assigned, kinds_that_change, int_assigned_once, arrays_assigned_in_an_inner_loop,
    table_filled_by_a_nest, knapsack, root_assigned_again, reversed_once, first_assigned_again, inserted,
    assigned_and_appended, summed_behind_a_loop, sliced_behind_a_loop, iterated_behind_a_loop,
)  # fmt: skip


def check(f: Any, x: np.ndarray, rolled: bool | None, *more: Any) -> None:
    compiled, move = compile_grad(f), np.random.default_rng(0).normal(size=x.shape)
    for given in (x, x * 0.7):
        for _ in range(2):
            value, gradient = compiled.value_and_grad(given.copy(), *more)
            np.testing.assert_allclose(value, f(given, *more), rtol=1e-12)
        slope = (f(given + 1e-6 * move, *more) - f(given - 1e-6 * move, *more)) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * move), slope, rtol=1e-6, atol=1e-8)
    if rolled is not None:
        assert ("rolled: the loop at" in compiled.explain(x, *more, level="all")) == rolled


@pytest.mark.parametrize("f", ROLLED)
def test_a_list_that_is_read_anywhere_is_an_array(f):
    check(f, X, True)


@pytest.mark.parametrize("f", AS_PYTHON)
def test_objects_are_those_of_python(f):
    check(f, X, None)


# ---- positions that are arguments ----------------------------------------------------------------------------------


def by_argument(x, parents):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[parents[k]]) + x[k])
    return np.sum(np.stack(done))


def test_positions_of_an_argument():
    compiled = compile_grad(by_argument)
    for parents in (AS_ARRAY, np.arange(25) // 3, AS_ARRAY.astype(np.int32), -(np.arange(25) % 2)):
        value, gradient = compiled.value_and_grad(X, parents)
        np.testing.assert_allclose(value, by_argument(X, parents), rtol=1e-12)
        shifts = 1e-6 * np.eye(25)
        slopes = [(by_argument(X + s, parents) - by_argument(X - s, parents)) / 2e-6 for s in shifts]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6)
    for bad in (30, -30):
        wrong = AS_ARRAY.copy()
        wrong[17] = bad
        with pytest.raises(IndexError, match="list index out of range"):
            compiled.value_and_grad(X, wrong)
    np.testing.assert_allclose(compiled.value_and_grad(X, AS_ARRAY)[0], by_argument(X, AS_ARRAY), rtol=1e-12)


# ---- errors --------------------------------------------------------------------------------------------------------


def too_high(x):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[OUT_OF_RANGE[k]]) + x[k])
    return done[-1]


def too_low(x):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[TOO_FAR_BACK[k]]) + x[k])
    return done[-1]


def next_one(x):
    done = [x[0]]
    for k in range(1, 25):
        done.append(np.sin(done[k]) + x[k])
    return done[-1]


def of_none(x):
    done = []
    for k in range(25):
        done.append(done[PARENTS[k]] + x[k])
    return done[-1]


def not_assigned_yet(x):
    T = [None] * 25
    T[0] = x[0]
    for k in range(1, 25):
        T[k] = T[CHILDREN[k]] * 0.5 + x[k]
    return T[24]


def table_too_short(x):
    T = [None] * 20
    T[0] = x[0]
    for k in range(1, 25):
        T[k] = T[PARENTS[k]] * 0.5 + x[k]
    return T[19]


def never_appended_and_read(x):
    flag = False
    done = [x[0]]
    s = x[0]
    for k in range(20):
        if flag:
            done.append(x[k])
        s = s * 0.5 + done[PARENTS[k] // 9]
    return s


def assigned_too_far(x):
    acc = [x[0]] * 7
    for t in range(25):
        acc[PARENTS[t]] = acc[0] * 0.3 + x[t]
    return sum(a * a for a in acc)


@pytest.mark.parametrize(
    "f",
    [
        assigned_too_far,
        too_high,
        too_low,
        next_one,
        of_none,
        not_assigned_yet,
        table_too_short,
        never_appended_and_read,
    ],
)
def test_errors_are_those_of_python(f):
    places = []
    for g in (f, compile_grad(f)):
        with pytest.raises((IndexError, TypeError), match=r"out of range|unsupported operand") as caught:
            g(X)
        frames = [x for x in traceback.extract_tb(caught.value.__traceback__) if x.filename == __file__]
        places.append(frames[-1].lineno)
    assert places[0] == places[1]


# ---- programs that are drawn ---------------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[Any, str]:
    """A random function that fills lists and reads them anywhere, and its text."""
    rng = random.Random(seed)
    count = rng.choice([18, 20, 24])
    shape = rng.choice(["", "", ":3", "0:2"])
    lists = ["a", "b"][: rng.choice([1, 1, 2])]
    starts = {name: rng.choice([1, 1, 2, 3]) for name in lists}
    element = (lambda k: f"x[{k}]") if not shape else (lambda k: f"x[{shape}] * {k + 1}.0")
    lines = ["def f(x):"]
    for name in lists:
        lines.append(f"    {name} = [{', '.join(element(k) for k in range(starts[name]))}]")
    tables = [[rng.randrange(k + 1) for k in range(count)] for _ in range(2)]
    lines += [f"    p, q = {tables[0]}, np.array({tables[1]})", "    s = 0.0", f"    for k in range({count}):"]

    def read(name: str) -> str:
        places = ["p[k]", "q[k]", "k // 2", "-1", "k", "-(p[k] + 1)", "p[k] // 2", "int(q[k])", "k * 5 % (k + 1)", "0"]
        return f"{name}[{rng.choice(places)}]"

    for name in lists:
        for _ in range(rng.choice([1, 1, 2])):
            reads = [read(rng.choice(lists)) for _ in range(rng.choice([1, 2, 3]))]
            parts = [f"{rng.choice(['0.5', 'x[k]'])} * {text}" for text in reads]
            wrapped = rng.choice(["np.sin({})", "np.tanh({})", "{}", "{} + x[k]"]).format(" + ".join(parts))
            lines.append(f"        {name}.append({wrapped})")
    if rng.random() < 0.5:
        lines.append(f"        s = s * 0.5 + np.sum({read(lists[0])})")
    total = " + ".join([f"np.sum(np.stack({name}) ** 2) + np.sum({name}[{rng.randrange(5)}])" for name in lists])
    lines.append(f"    return s + {total}")
    return compiled_text("\n".join(lines) + "\n", f"<random histories {seed}>")


def compiled_text(text: str, name: str) -> tuple[Any, str]:
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), scope)
    return scope["f"], text


def drawn_table(seed: int) -> tuple[Any, str]:
    """A random function that assigns the elements of a list in order, from either end, and reads those before."""
    rng = random.Random(seed)
    count, first, shape = rng.choice([18, 22, 25]), rng.choice([1, 1, 2]), rng.choice(["", ":3"])
    backwards = rng.random() < 0.4
    element = (lambda k: f"x[{k}]") if not shape else (lambda k: f"x[{shape}] * {k + 1}.0")
    at = (lambda k: f"{count} - 1 - ({k})") if backwards else str
    lines = ["def f(x):", f"    t = {rng.choice(['[None]', '[0.0]', '[x[0]]'])} * {count}"]
    lines += [f"    t[{at(k)}] = {element(k)}" for k in range(first)]
    lines.append(f"    p, q = {[rng.randrange(max(k, 1)) for k in range(count)]}, np.arange({count}) // 3")
    numbers = f"range({count - first - 1}, -1, -1)" if backwards else f"range({first}, {count})"
    lines += [f"    for k in {numbers}:", f"        j = {at('k')}"]
    reads = [f"t[{at(rng.choice(['p[j]', 'q[j]', 'j // 2', 'j - 1', '0']))}]" for _ in range(rng.choice([1, 2, 3]))]
    parts = " + ".join([f"{rng.choice(['0.5', 'x[j]'])} * {text}" for text in reads])
    lines.append(f"        t[k] = {rng.choice(['np.sin({})', '{}', '{} + x[k]']).format(parts)}")
    lines.append(f"    return np.sum(np.stack(t) ** 2) + np.sum(t[{rng.randrange(5)}]) + np.sum(t[-2])")
    return compiled_text("\n".join(lines) + "\n", f"<random tables {seed}>")


def drawn_anywhere(seed: int) -> tuple[Any, str]:
    """A random function that assigns elements of a list anywhere, some in an inner loop."""
    rng = random.Random(seed)
    size, shape = rng.choice([5, 8, 20]), rng.choice(["", "", ":3"])
    element = "x[j]" if not shape else f"x[{shape}] * (j + 1.0)"
    tables = [[rng.randrange(size) for _ in range(40)] for _ in range(2)]
    lines = ["def f(x):", f"    t = [{element} for j in range({size})]", "    s = 0.0"]
    lines += [f"    p, q = {tables[0]}, np.array({tables[1]})", f"    for k in range({rng.choice([18, 22])}):"]
    places = [
        "p[k]",
        "q[k]",
        f"k % {size}",
        f"-(p[k] % {size}) - 1",
        "0",
        "-1",
        f"(k * 3 + 1) % {size}",
        "int(q[k + 1])",
    ]

    def write(depth: int, counter: str) -> None:
        here = [text.replace("k", counter) for text in places]
        reads = [f"t[{rng.choice(here)}]" for _ in range(rng.choice([1, 2]))]
        parts = " + ".join([f"{rng.choice(['0.5', f'x[{counter}]'])} * {text}" for text in reads])
        value = rng.choice(["np.sin({})", "{} * 0.9", "{} * 0.5 + x[" + counter + "]"]).format(f"({parts})")
        lines.append("    " * depth + f"t[{rng.choice(here[:4])}] {rng.choice(['=', '=', '+='])} {value}")

    for _ in range(rng.choice([1, 2])):
        write(2, "k")
    if rng.random() < 0.3:
        lines.append("        for i in range(17):")
        write(3, "i")
    lines.append(f"        s = s * 0.5 + np.sum(t[{rng.choice(places)}])")
    lines.append("    return s + np.sum(np.stack(t) ** 2) + np.sum(t[3])")
    return compiled_text("\n".join(lines) + "\n", f"<random assignments {seed}>")


@pytest.mark.parametrize("draw", [drawn, drawn_table, drawn_anywhere])
@pytest.mark.parametrize("seed", seeds(20, quick=1))
def test_random_program(seed, draw):
    f, _ = draw(seed)
    check(f, np.random.default_rng(seed).uniform(0.2, 0.9, 25), None)
