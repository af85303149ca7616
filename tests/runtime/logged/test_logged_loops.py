"""Python loops in logged runs: loop nodes at the cost of one iteration, equal to plain Python."""

from __future__ import annotations

import math
from functools import reduce
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from test_closed import agrees

from tracegrad import compile_grad
from tracegrad.runtime.paths import dispatcher
from tracegrad.tracer.loops import for_loop

X = np.linspace(0.1, 0.9, 24)
M = np.random.default_rng(0).normal(size=(24, 3)) * 0.3


def over_a_range(x):
    s = np.sum(x)
    for i in range(40):
        s = s + 0.01 * np.sin(s) * i
    return s


def over_rows(x):
    h = np.zeros(3)
    for row in M:
        h = np.tanh(h * x[:3] + row)
    return np.sum(h)


def over_pairs(x):
    s = 0.0
    for i, (a, b) in enumerate(zip(x, reversed(x))):  # noqa: B905
        s += a * b * i
    return s


def item_by_item(x):
    z = np.zeros(24)
    z[0] = x[0]
    for i in range(1, 24):
        z[i] = 0.9 * z[i - 1] + x[i]
    return np.sum(z**2)


def a_table(x):
    n = len(x)
    table = np.zeros((n + 1, n + 1))
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            table[i, j] = 0.5 * (table[i - 1, j] + table[i, j - 1]) + x[i - 1] * x[j - 1]
    return table[n, n]


def triangular(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            s = s + x[i] * x[j] * 0.1
    return s


def appended(x):
    kept = []
    for v in x:
        kept.append(np.sin(v))
    return np.sum(np.array(kept) ** 2)


def comprehended(x):
    return sum(np.sin(v) * k for k, v in enumerate(x)) + sum([v * v for v in x])


def reduced(x):
    return reduce(lambda a, b: a * 0.9 + b, x, 0.0)


def mapped(x):
    return sum(map(lambda v: math.sin(v) * 2.0, x))  # noqa: C417


def generated(x):
    def doubled():
        for v in x:
            yield v * 2.0

    s = 0.0
    for v in doubled():
        s += v
    return s


class Cell:
    def __init__(self, x):
        self.w, self.h, self.steps = x[:3], np.zeros(3), 0

    def step(self, row):
        self.h = np.tanh(self.h * self.w + row)
        self.steps += 1
        return self.h


def an_attribute(x):
    cell = Cell(x)
    for row in M:
        y = cell.step(row)
    return np.sum(y) + cell.steps


def fields_in_a_list(x):
    fields = [x, x * 0.0]
    for _ in range(30):
        fields[1] = fields[1] - 0.01 * fields[0]
        fields[0] = fields[0] + 0.02 * fields[1]
    return np.sum(fields[0] ** 2)


def until_it_is_small(x):
    s, n = np.sum(x), 0
    while s > 1e-2:
        s = s * 0.8
        n += 1
    return s * n


def a_type_that_changes(x):
    s: Any = 0
    for v in x:
        s = s + v
    return s


def lists_of_its_own(x):
    s, kept = 0.0, [x[0], x[1]]
    for v in x:
        shape, more, part, held = [1] * 2, [*kept, s], kept[:], kept.copy()
        shape[1] = 24
        more[2] = more[2] * 0.5 + v
        part[0] = held[1] * 0.9
        held[0] = part[0] + v
        s = more[2] + np.sum(x.reshape(shape)) + part[0] * held[0]
    return s + kept[0]


def one_of_two_lists(x):
    short, long = [x[0]], [x[1], 1.0]
    for v in x:
        found = max(short, long, key=len)
        found[0] = found[0] * v + 1.0
    return long[0] + short[0]


def elements_before(x):
    kept = [x[0], x[1], x[2] * 0.5]
    for v in x:
        kept.append(np.sin(kept[-1] * 0.5 + kept[-3]) + v)
    return sum(kept) * kept[-2]


def counting_inside(x):
    k, s = 0, x[0]

    def step():
        nonlocal k, s
        s = np.sin(s) * 0.9 + x[k]
        k += 1

    for _ in x:
        step()
    return s * k


def deleted_and_made_again(x):
    cell = Cell(x)
    for row in M:
        old = cell.h
        del cell.h
        cell.h = np.tanh(old + row * x[:3])
        kept = {"a": old}
        del kept["a"]
    return np.sum(cell.h)


def deleted_inside(x):
    k, s = x[0], x[1]

    def step():
        nonlocal k
        found = k
        del k
        return found

    for v in x:
        s = s * 0.9 + step()
        k = v
    return s * k


LOOPS = [
    over_a_range, over_rows, over_pairs, item_by_item, a_table, triangular, appended, comprehended, reduced, mapped,
    generated, an_attribute, fields_in_a_list, until_it_is_small, a_type_that_changes,
    lists_of_its_own, one_of_two_lists, elements_before, counting_inside,
    deleted_and_made_again, deleted_inside,
]  # fmt: skip


@pytest.mark.parametrize("fn", LOOPS, ids=lambda fn: fn.__name__)
def test_loops_are_those_of_plain_python(fn):
    f = agrees(fn, X, calls=2)
    assert f.stats.traces == 1 and not f.stats.live


def operations(fn, *args):
    """The number of operations that are recorded, those in bodies of loops among them."""
    f = compile_grad(FunctionType(fn.__code__, fn.__globals__))
    f(*args)
    (path,) = [p for d in _dispatchers(f) for e in d.endpoints.values() for p in e.paths]
    return _count(path.recording.graph)


def _dispatchers(f):
    return [d for d in dispatcher._dispatchers if d.fn is f.__wrapped__]


def _count(graph):
    return sum(1 + (_count(n.params["body"]) if "body" in n.params else 0) for n in graph.nodes)


def over_arrays(x):
    s = 0.0
    for v in x:
        s = s + np.sin(v) * s
    return s


def writes(x):
    z = np.zeros(len(x))
    for i in range(1, len(x)):
        z[i] = z[i - 1] * 0.5 + x[i]
    return np.sum(z)


def appends(x):
    kept = []
    for v in x:
        kept.append(v * v)
    return np.sum(np.array(kept))


def remembers(x):
    kept = [x[0], x[1]]
    for v in x:
        kept.append(kept[-1] * 0.5 + kept[-2] * 0.1 + v)
    return kept[-1]


@pytest.mark.parametrize("fn", [over_arrays, writes, appends, remembers, counting_inside], ids=lambda fn: fn.__name__)
def test_a_recording_does_not_grow_with_the_iterations(fn):
    assert operations(fn, np.linspace(0, 1, 50)) == operations(fn, np.linspace(0, 1, 5000))


def test_lists_that_an_iteration_makes_are_carried_by_no_loop(monkeypatch):
    refused = []
    monkeypatch.setattr(for_loop, "note_refusal", lambda recorder, reason, attempts: refused.append(str(reason)))
    compile_grad(lists_of_its_own)(X)
    assert not [reason for reason in refused if "list[" in reason]


def test_what_a_loop_asks_of_data_is_right_whatever_the_answers():
    def f(x):
        s = 0.0
        for v in x:
            if v > 0.5:
                s = s + v
            else:
                s = s - 0.5 * v
        return s

    g = compile_grad(f)
    for x in (X, -X, X[::-1].copy(), np.abs(X) + 1.0):
        for _ in range(2):
            np.testing.assert_allclose(g(x), f(x), rtol=1e-12)
