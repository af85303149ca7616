"""Loops that append tuples, lists, dicts and objects: their numbers are stacked, the containers made after the loop."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from selection import some

from tracegrad import compile_grad, make_graph

X = np.array([0.5, 0.9, 1.1])
Point = namedtuple("Point", "p v")


@dataclass
class Data:
    p: Any
    v: Any = None


@dataclass(frozen=True)
class Frozen:
    p: Any
    v: Any


class Plain:
    def __init__(self, p: Any, v: Any) -> None:
        self.p, self.v = p, v


def moved(p, v):
    v = v - 0.01 * p
    return p + 0.01 * v, v


# ---- loops whose cost does not depend on the number of iterations ---------------------------------------------------


def lists_as_an_array(x):
    p, v, out = x[0], x[1], []
    for _ in range(100):
        p, v = moved(p, v)
        out.append([p, v])
    out = np.array(out)
    return np.sum(out[:, 0] ** 2) + np.sum(out[:, 1])


def tuples_in_a_sum(x):
    p, v, out = x[0], x[1], []
    for _ in range(100):
        p, v = moved(p, v)
        out.append((p, v))
    return sum(a * a + b for a, b in out)


def tuples_in_a_loop(x):
    p, v, out, s = x[0], x[1], [], 0.0
    for k in range(100):
        p, v = moved(p, v)
        out.append((k, p, v))
    for k, a, b in out:
        s = s * 0.9 + a * b * k
    return s


def state_and_vector(x):
    h, out = x, [(x[0], x)]
    for t in range(100):
        h = np.tanh(h * 0.9 + 0.01 * t)
        out.append((np.sum(h), h))
    return np.sum(np.array([a for a, _ in out])) + np.sum(np.stack([b for _, b in out]) ** 2)


def last_list_read(x):
    out = [[x[0], x[1]]]
    for _ in range(100):
        p, v = out[-1]
        out.append([*moved(p, v)])
    return np.sum(np.array(out) ** 2)


def last_tuple_read(x):
    out = [(x[0], x[1])]
    for _ in range(100):
        out.append(moved(*out[-1]))
    return np.sum(np.array(out) ** 2)


def rows_of_three(x):
    out = []
    for k in range(100):
        out.append([x[0] * k, np.sin(x[1] * k), 1.0])
    return np.sum(np.array(out) @ x)


def nested_lists(x):
    p, v, out = x[0], x[1], []
    for _ in range(100):
        p, v = moved(p, v)
        out.append([[p, v], [v, p * 0.5]])
    return np.sum(np.array(out) * np.array([[1.0, 2.0], [3.0, 4.0]]))


def named(x):
    p, v, out = x[0], x[1], []
    for _ in range(100):
        p, v = moved(p, v)
        out.append(Point(p, v))
    return out[-1].p * out[3].v + np.sum(np.array([q.v for q in out]))


def frozen_objects(x):
    p, v, out = x[0], x[1], []
    for _ in range(100):
        p, v = moved(p, v)
        out.append(Frozen(p, v))
    return out[-1].p * out[3].v + np.sum(np.array([q.v for q in out]))


def objects(x):
    p, v, out = x[0], x[1], []
    for _ in range(100):
        p, v = moved(p, v)
        out.append(Plain(p, v))
    return out[-1].p * out[3].v + np.sum(np.array([q.v for q in out]))


def objects_changed_after(x):
    out = []
    for k in range(100):
        out.append(Data(x[0] * k, x[1]))
    out[3].p = out[3].p + 5.0 * x[2]
    out[-1].v = out[-1].v * 7.0
    return np.sum(np.array([q.p * q.v for q in out]))


def dicts(x):
    p, v, out = x[0], x[1], []
    for k in range(100):
        p, v = moved(p, v)
        out.append({"k": k, "p": p, "v": v})
    return np.sum(np.array([d["p"] * d["v"] for d in out])) + out[7]["k"] * out[8]["p"]


def two_lists(x):
    p, v, out, more = x[0], x[1], [], []
    for _ in range(100):
        p, v = moved(p, v)
        pair = (p, v)
        out.append(pair)
        more.append((pair, p * v))
    return np.sum(np.array(out)) + sum(a[0] * b for a, b in more)


def lists_in_a_loop(x):
    p, v, out, s = x[0], x[1], [], 0.0
    for _ in range(100):
        p, v = moved(p, v)
        out.append([p, v])
    for a, b in out:
        s = s * 0.9 + a * b
    return s


def states(x):
    state = Data(x[0], x[1])
    found = [state]
    for _ in range(100):
        state = Data(*moved(state.p, state.v))
        found.append(state)
    state.p = state.p * 3.0
    return np.sum(np.array([s.p for s in found[1:]])) * state.v


def integers_of_the_loop(x):
    out = []
    for k in range(100):
        out.append([k, x[0] * k])
    a = np.array(out)
    return np.sum(a[:, 0] * a[:, 1])


ROLLED = (
    lists_as_an_array, tuples_in_a_sum, tuples_in_a_loop, state_and_vector, last_list_read, last_tuple_read,
    rows_of_three, nested_lists, named, frozen_objects, objects, two_lists, integers_of_the_loop, states,
    dicts, lists_in_a_loop,
)  # fmt: skip

# ---- which object is which, and what is changed, is as in Python ---------------------------------------------------


def changed_after_the_loop(x):
    p, v, out = x[0], x[1], []
    for _ in range(30):
        p, v = moved(p, v)
        row = [p, v]
        out.append(row)
    row[0] = row[0] + 5.0
    out[3][1] = out[3][1] * 7.0
    return np.sum(np.array(out) ** 2)


def first_kept(x):
    p, v, out, first = x[0], x[1], [], None
    for k in range(30):
        p, v = moved(p, v)
        row = [p, v]
        if k == 0:
            first = row
        out.append(row)
    first[0] = first[0] * 3.0
    return np.sum(np.array(out) ** 2)


def before_it_changes(x):
    state, out = [x[0], x[1]], []
    begun = state
    for _ in range(30):
        out.append(state)
        state = [*moved(*state)]
    begun[0] = begun[0] + 2.0
    out[1][1] = out[1][1] * 3.0
    state[0] = state[0] + 7.0
    return np.sum(np.array(out) ** 2) + state[0]


def twice_in_a_list(x):
    p, v, out = x[0], x[1], []
    for _ in range(30):
        p, v = moved(p, v)
        row = [p, v]
        out.append(row)
        out.append(row)
    out[4][0] = out[4][0] * 9.0
    return np.sum(np.array(out) ** 2)


def in_two_lists(x):
    p, v, out, more = x[0], x[1], [], []
    for _ in range(30):
        p, v = moved(p, v)
        row = [p, v]
        out.append(row)
        more.append([row, p])
    out[4][0] = out[4][0] * 9.0
    return np.sum(np.array(out) ** 2) + sum(row[0] * q for row, q in more)


def told_by_identity(x):
    p, v, out, more = x[0], x[1], [], []
    for _ in range(30):
        p, v = moved(p, v)
        row = (p, [v])
        out.append(row)
        more.append(row[1])
    same = sum(a[1] is b for a, b in zip(out, more, strict=True))
    return out[-1][0] * same + (3.0 if row is out[-1] else 0.0) * x[2]


def changed_in_the_next_iteration(x):
    p, v, out = x[0], x[1], [[x[2], x[2]]]
    for _ in range(30):
        p, v = moved(p, v)
        out[-1][0] = out[-1][0] + p
        out.append([p, v])
    return np.sum(np.array(out) ** 2)


def grown_in_the_iteration(x):
    p, v, out = x[0], x[1], []
    for _ in range(30):
        p, v = moved(p, v)
        row = [p]
        out.append(row)
        row.append(v * 2.0)
    return np.sum(np.array(out) ** 2)


def one_row_again_and_again(x):
    p, v, out, row = x[0], x[1], [], [0.0, 0.0]
    for _ in range(30):
        p, v = moved(p, v)
        row[0], row[1] = p, v
        out.append(row)
    return np.sum(np.array(out) ** 2)


def unlike_lengths(x):
    p, v, out = x[0], x[1], []
    for k in range(30):
        p, v = moved(p, v)
        out.append([p, v] if k % 3 else [p])
    return sum(sum(row) for row in out)


def unlike_at_first(x):
    p, v, out = x[0], 0, []
    for _ in range(30):
        out.append([p, v])
        p, v = moved(p, v)
    return sum(row[0] * row[1] for row in out)


def arrays_written_after(x):
    h, out = x, []
    for _ in range(30):
        h = np.tanh(h * 0.9)
        out.append((h, np.sum(h)))
    out[4][0][0] = 3.0 * x[1]
    h[1] = 2.0 * x[0]
    return sum(np.sum(a) * b for a, b in out)


def array_of_before(x):
    h, z, out = x * 1.0, np.zeros(3), []
    for _ in range(30):
        h = np.tanh(h * 0.9)
        out.append([h, z])
    z[0] = x[0]
    return sum(np.sum(a) * np.sum(b) for a, b in out)


def written_in_place(x):
    h, out = x * 1.0, []
    for _ in range(30):
        h *= 0.9
        out.append((h, h[0]))
    return sum(np.sum(a) * b for a, b in out)


def an_attribute_has_it(x):
    keeper, p, v, out = Plain(None, 0), x[0], x[1], []
    for _ in range(30):
        p, v = moved(p, v)
        keeper.p = [p, v]
        out.append(keeper.p)
    keeper.p[0] = keeper.p[0] + 4.0
    return np.sum(np.array(out) ** 2)


def lists_changed_in_a_loop(x):
    p, v, out = x[0], x[1], []
    for _ in range(30):
        p, v = moved(p, v)
        out.append([p, v])
    for row in out:
        row[0] = row[0] * x[2]
        out[2][1] = out[2][1] + row[0]
    return np.sum(np.array(out) ** 2)


def lists_kept_in_a_loop(x):
    p, v, out, kept = x[0], x[1], [], []
    for _ in range(30):
        p, v = moved(p, v)
        out.append([p, v])
    for row in out:
        kept.append(row)
        last = row
    out[3][0] = out[3][0] * 5.0
    last[1] = last[1] * 3.0
    return np.sum(np.array(kept) ** 2) + np.sum(np.array(out))


def part_of_the_one_before(x):
    keep, seen = {"a": [x[0]]}, []
    for k in range(20):
        keep = {"a": keep["a"], "b": [x[1] * k]}
        seen.append(keep)
    seen[3]["a"][0] = x[2]
    return seen[7]["a"][0] * keep["b"][0]


def the_one_before(x):
    p, v, row, out = x[0], x[1], [x[2], x[2]], []
    for _ in range(30):
        before = row
        p, v = moved(p, v)
        row = [p, v]
        out.append(row)
    before[0] = before[0] * 5.0
    return np.sum(np.array(out) ** 2)


AS_PYTHON = (
    changed_after_the_loop, first_kept, before_it_changes, twice_in_a_list, in_two_lists, told_by_identity,
    changed_in_the_next_iteration, grown_in_the_iteration, one_row_again_and_again, unlike_lengths, unlike_at_first,
    arrays_written_after, array_of_before, written_in_place, an_attribute_has_it, lists_changed_in_a_loop,
    lists_kept_in_a_loop, objects_changed_after, part_of_the_one_before, the_one_before,
)  # fmt: skip


def check(f: Any) -> None:
    compiled, move = compile_grad(f), np.array([0.6, -0.3, 0.7])
    for given in (X, X * 0.7):
        for _ in range(2):
            value, gradient = compiled.value_and_grad(given.copy())
            np.testing.assert_allclose(value, f(given.copy()), rtol=1e-12)
        slope = (f(given + 1e-6 * move) - f(given - 1e-6 * move)) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * move), slope, rtol=1e-6, atol=1e-8)
    assert not compiled.stats.live


@pytest.mark.parametrize("f", some(ROLLED, quick=8))
def test_appended_containers_are_stacked(f):
    check(f)
    assert len(make_graph(f)(X).graph.nodes) < 90


@pytest.mark.parametrize("f", some(AS_PYTHON, quick=8))
def test_containers_are_those_of_python(f):
    check(f)


def of_which_the_caller_has_one(x):
    p, v, out, row = x[0], x[1], [], None
    for _ in range(30):
        p, v = moved(p, v)
        row = [p, v]
        out.append(row)
    return row, out


def of_which_the_caller_has_one_before(x):
    p, v, out, row = x[0], x[1], [], None
    for _ in range(30):
        before = row
        p, v = moved(p, v)
        row = [p, v]
        out.append(row)
    return before, out


def in_both_lists(x):
    p, v, out, row = x[0], x[1], [], []
    for _ in range(30):
        p, v = moved(p, v)
        part = [v]
        row.append(part)
        out.append([p, part])
    return row, out


@pytest.mark.parametrize(
    "f, same",
    [
        (of_which_the_caller_has_one, lambda row, out: row is out[-1]),
        (of_which_the_caller_has_one_before, lambda row, out: row is out[-2]),
        (in_both_lists, lambda row, out: all(a is b[1] for a, b in zip(row, out, strict=True))),
    ],
)
def test_the_caller_gets_one_object(f, same):
    compiled = compile_grad(f)
    for _ in range(3):
        found, expected = compiled(X), f(X)
        assert same(*expected) and same(*found)
        np.testing.assert_allclose(np.array(found[1][-1][0]), expected[1][-1][0])
