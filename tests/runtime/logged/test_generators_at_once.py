"""Generator expressions and ``map`` that a builtin goes over: their loops run over symbols, whatever their length."""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np
import pytest
from test_closed import agrees

from tracegrad import compile_grad

X = np.linspace(0.1, 0.9, 24)
LONG = np.linspace(0.1, 0.9, 6000)
WEIGHTS = [0.1 * k for k in range(24)]


def of_positions(x):
    return sum(np.sin(x[i]) * i for i in range(24))


def of_elements(x):
    return sum(2.0 * v for v in x)


def of_pairs(x):
    return sum(a * b for a, b in zip(x, WEIGHTS, strict=True))


def from_a_start(x):
    return sum((v * v for v in x), start=x[0])


def nested(x):
    return sum(sum(x[i] * x[j] for j in range(i)) for i in range(12))


def by_map(x):
    return sum(map(np.sin, x)) + sum(map(lambda a, b: a * b, x, WEIGHTS))


def by_reduce(x):
    return reduce(lambda a, b: 0.5 * a + b, x) + reduce(operator.mul, (1.0 + v for v in x), 2.0)


def of_the_array(x):
    return sum(x) + sum(x[:3], 1.0)


def lists(x):
    doubled = list(v * 2.0 for v in x)  # noqa: C400
    return sum(doubled) + len(tuple(v for v in x)) + doubled[3]


def with_conditions(x):
    return sum(x[k] for k in range(24) if k % 3)


def with_a_walrus(x):
    total = sum((last := v) * 2.0 for v in x)
    return total + last


def of_vectors(x):
    return np.sum(sum(x * k for k in range(24)))


FUNCTIONS = [
    of_positions, of_elements, of_pairs, from_a_start, nested, by_map, by_reduce, of_the_array, lists, with_conditions,
    with_a_walrus, of_vectors,
]  # fmt: skip


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_generators_are_loops(fn):
    f = agrees(fn, X)
    assert f.stats.traces == 1 and not f.stats.live


@pytest.mark.parametrize("fn", [of_elements, of_the_array, by_reduce], ids=lambda f: f.__name__)
def test_what_is_recorded_does_not_grow_with_the_number_of_elements(fn):
    sizes = []
    for x in (LONG[:5000], LONG):
        f = compile_grad(fn)
        assert f(x) == pytest.approx(fn(x), rel=1e-10)
        assert f.stats.traces == 1
        sizes.append(len(f.explain(x, level="program").split("\n")))
    assert sizes[0] == sizes[1] < 100


def test_a_generator_that_was_begun_goes_on():
    def f(x):
        squares = (v * v for v in x)
        first = next(squares)
        doubled = map(lambda v: 2.0 * v, x)  # noqa: C417
        second = next(doubled)
        return first - sum(squares) + second * sum(doubled) + sum(squares)

    assert agrees(f, X).stats.traces == 1


def test_plain_numbers_stay_pythons():
    def f(x):
        n = sum(k * k for k in range(100))
        assert type(n) is int
        big = sum(10**k for k in range(30))
        return np.sum(x) * n + (big % 7) * sum(WEIGHTS) + len(sum([[k] for k in range(5)], []))  # noqa: RUF017

    assert agrees(f, X).stats.traces == 1


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda x: sum("ab"), TypeError),
        (lambda x: sum(["a"], ""), TypeError),
        (lambda x: sum(x, 1, 2), TypeError),
        (lambda x: sum(x[i] for i in range(30)), IndexError),
        (lambda x: reduce(operator.add, []), TypeError),
        (lambda x: sum(v for v in 3), TypeError),
    ],
)
def test_errors_are_pythons(f, error):
    with pytest.raises(error) as plain:
        f(X)
    with pytest.raises(error) as found:
        compile_grad(f)(X)
    assert str(found.value).partition(" (")[0] in str(plain.value) or str(plain.value) in str(found.value)


SEEN: list[float] = []


def test_effects_are_in_the_order_of_python():
    def note(v):
        SEEN.append(v)
        return v * 2.0

    def f(x):
        return sum(note(v) for v in x[:4]) + reduce(lambda a, b: note(a) + b, x[:3])

    SEEN.clear()
    f(X)
    want = [float(v) for v in SEEN]
    g = compile_grad(f)
    for _ in range(2):
        SEEN.clear()
        g(X)
        assert [float(v) for v in SEEN] == want


def test_loops_of_plain_numbers_run_once():
    def f(x):
        c = 0.0
        for k in range(500):
            c += 1.0 / (k + 1)
        e = 1.0
        while e > 1e-6:
            e /= 2.0
        return np.sum(x) * c + e

    g = agrees(f, X)
    assert "loop" not in g.explain(X, level="program").partition("--- recorded")[2]
