"""Loops over lists of arrays: an array of the list and the name that the loop gives it are one object, in the loop and
after it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from with_source import code_of

from tracegrad import compile_grad

X = np.random.default_rng(5).uniform(0.2, 0.9, 25)


def arrays(x):
    return [x[:3] * (k + 1) for k in range(25)]


def total(a):
    return sum(np.sum(q) * (k + 1) for k, q in enumerate(a))


def written_by_name(x):
    a = arrays(x)
    for r in a:
        r[0] = x[3] * 2.0
    return total(a)


def written_by_index(x):
    a = arrays(x)
    for i in range(25):
        a[i][0] = x[i] * 2.0
    return total(a)


def plain_arrays_written(x):
    a = [np.zeros(3) for _ in range(25)]
    for i in range(25):
        r = a[i]
        r[0] = x[i]
    return total(a)


def written_in_pairs(x):
    a = arrays(x)
    for v, r in zip(x, a, strict=True):
        r += v
    return total(a)


def written_from_the_end(x):
    a = arrays(x)
    for k, r in enumerate(reversed(a)):
        r *= x[k]
    return total(a)


def values_of_a_dict(x):
    d = {k: x[:3] * (k + 1) for k in range(25)}
    for v in d.values():
        v[0] = 7.0 * x[1]
    return total(d.values())


def name_written_after(x):
    a, s = arrays(x), 0.0
    for r in a:
        s = s + np.sum(r)
    r += x[5]
    return s + total(a)


def array_written_after(x):
    a, s = arrays(x), 0.0
    for i in range(25):
        r = a[24 - i]
        s = s + np.sum(r)
    a[0] += 7.0 * x[2]
    return s + np.sum(r)


def carried_name(x):
    a, old, s = arrays(x), x[:3] * 1.0, 0.0
    for r in a:
        s = s + np.sum(old)
        old = r
    a[24] += 7.0 * x[2]
    return np.sum(old) + s


def two_back(x):
    a = arrays(x)
    first = second = x[:3] * 1.0
    for r in a:
        first, second = second, r
    a[23] *= 3.0
    return np.sum(first) + 2.0 * np.sum(second)


def carried_name_written(x):
    a, old, s = arrays(x), x[:3] * 1.0, 0.0
    for r in a:
        s += np.sum(old)
        old += 1.0
        old = r
    return np.sum(old) + s + total(a)


def appended(x):
    a, b = arrays(x), []
    for r in a:
        b.append(r)
    a[24] += 7.0
    b[3] *= 2.0
    return total(b) + 3.0 * total(a)


def appended_in_another_order(x):
    a, b = arrays(x), []
    for i in range(25):
        b.append(a[24 - i])
    a[24] += 7.0 * x[1]
    b[3] *= 2.0
    return total(b) + 3.0 * total(a)


def appended_in_turn(x):
    a, b = arrays(x), []
    for k in range(25):
        b.append(a[k])
        b.append(a[24 - k])
    a[3] += 7.0 * x[1]
    return sum(np.sum(q) * (k + 1) for k, q in enumerate(b))


def left_where_data_decides(x):
    a, s = arrays(x), 0.0
    for r in a:
        s = s + np.sum(r)
        if s > 40.0:
            break
    a[4] += 5.0 * x[0]
    for k in range(25):
        a[k] += x[k]
    return np.sum(r) + s


def other_name_in_the_loop(x):
    a, s = arrays(x), 0.0
    b = a[3]
    for k in range(25):
        r = a[k]
        b += x[k]
        s = s + np.sum(r)
    return s + total(a)


def within_another_loop(x):
    a, s = arrays(x), 0.0
    for i in range(12):
        for j in range(12):
            r = a[i + j]
            s = s * 0.9 + np.sum(r)
        a[11 + i] += x[i]
        s = s + np.sum(r)
    return s


def first_iteration_apart(x):
    a, b = arrays(x), []
    s = None
    for r in a:
        s = np.sum(r) if s is None else s * 0.5 + np.sum(r)
        b.append(r)
    a[0] += 5.0 * x[1]
    return s + total(b)


def plain_array_changed_after(x):
    a, b, s = [np.ones(3) * k for k in range(25)], [], 0
    for r in a:
        s = s + np.sum(r * x[:3])
        b.append(r)
    a[0] += 5.0
    a[7] += 2.0
    return s + total(b) * x[0]


def part_of_a_row_written_after(x):
    a = arrays(x)
    for r in a:
        w = r[1:]
    w += x[3]
    return np.sum(w) * x[0] + total(a)


def part_of_a_plain_row_written_after(x):
    a = [np.ones(3) * k for k in range(25)]
    for r in a:
        w = r[1:]
    w += x[0]
    return total(a) + a[-1][1]


def parts_of_pairs(x):
    a = arrays(x)
    for q, r in itertools.pairwise(a):
        v, w = q[:2], r[1:]
    w += x[0]
    v *= 2.0
    return np.sum(w) * x[1] + total(a)


def part_of_the_row_before(x):
    a, q = arrays(x), np.tanh(x[:3])
    for r in a:
        w = q[1:]
        q = r
    w += x[0]
    return np.sum(w) + total(a) + q[1]


def part_of_a_row_at_a_place(x):
    a = arrays(x)
    for k in range(25):
        w = a[k * 7 % 25][1:]
    w += x[0]
    return np.sum(w) + total(a)


def part_where_data_ends(x):
    a = arrays(x)
    for r in a:
        w = r[1:]
        if w[0] > 3.0:
            break
    w += x[0]
    return np.sum(w) + total(a)


def of_a_list_that_is_filled(x):
    a = [x[:3] * 1.0]
    for k in range(25):
        a.append(np.tanh(a[k // 2] * 0.9))
        w = a[k // 2][1:]
    w += x[0]
    return total(a)


EVERY = (
    written_by_name, written_by_index, plain_arrays_written, written_in_pairs, written_from_the_end, values_of_a_dict,
    name_written_after, array_written_after, carried_name, two_back, carried_name_written, appended,
    appended_in_another_order, appended_in_turn, left_where_data_decides, other_name_in_the_loop, within_another_loop,
    first_iteration_apart, plain_array_changed_after, part_of_a_row_written_after, part_of_a_plain_row_written_after,
    parts_of_pairs, part_of_the_row_before, part_of_a_row_at_a_place, part_where_data_ends,
    of_a_list_that_is_filled,
)  # fmt: skip


@pytest.mark.parametrize("f", EVERY)
def test_an_array_of_a_list_is_one_object(f):
    compiled, move = compile_grad(f), np.random.default_rng(1).normal(size=25)
    for x in (X, X * 0.7):
        for _ in range(2):
            value, gradient = compiled.value_and_grad(x.copy())
            np.testing.assert_allclose(value, f(x), rtol=1e-12)
        slope = (f(x + 1e-6 * move) - f(x - 1e-6 * move)) / 2e-6
        np.testing.assert_allclose(gradient @ move, slope, rtol=1e-6)


@pytest.mark.parametrize("f", [part_of_the_row_before, part_of_a_row_at_a_place, of_a_list_that_is_filled])
def test_a_write_into_what_a_loop_has_taken_has_that_loop_recorded_as_it_is(f):
    compiled = compile_grad(f)
    compiled(X)
    assert not compiled.stats.live


def layers():
    return [(np.eye(3) * (0.4 + 0.02 * k), np.linspace(0.1, 0.1 * k, 3)) for k in range(20)]


TUPLES = {
    "gone over": "for W, b in LAYERS:\n    h = np.tanh(W @ h + b)",
    "with others": "for k, (W, b) in enumerate(LAYERS):\n    h = np.tanh(W @ h + b * k)",
    "two lists": "for (W, _), (_, b) in zip(LAYERS, reversed(LAYERS)):\n    h = np.tanh(W @ h + b)",
    "at places": "for k in range(20):\n    W, b = LAYERS[k * 7 % 20]\n    h = np.tanh(W @ h + b)",
    "items of a dict": "for k, (W, b) in TABLE.items():\n    h = np.tanh(W @ h + b * k)",
    "within": "for (W, b), c in NESTED:\n    h = np.tanh(W @ h + b * c)",
}


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("name", TUPLES)
def test_arrays_in_tuples_outside_are_read_in_each_call(name, inner):
    body = TUPLES[name].split("\n")
    body[1:1] = ["    for _ in [1]: n = 0"] if inner else []  # a loop within, for which a loop node is made of few
    text = "def f(x):\n    h = x * 0.5\n" + "".join(f"    {line}\n" for line in body) + "    return np.sum(h * x)\n"
    world = {"np": np, "LAYERS": layers()}
    world["TABLE"] = dict(enumerate(world["LAYERS"]))
    world["NESTED"] = [(pair, 0.1 * k) for k, pair in world["TABLE"].items()]
    exec(code_of(text, "layers"), world)
    compiled = compile_grad(world["f"])
    for k in range(3):
        np.testing.assert_allclose(compiled.value_and_grad(X[:3].copy())[0], world["f"](X[:3]), rtol=1e-12)
        world["LAYERS"][3 + k][0][0, 1] = 0.9
        world["LAYERS"][5 * k][1][:] = -0.3
    assert not compiled.stats.live
