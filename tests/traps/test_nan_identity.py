"""Traps: containers ask for identity before they compare, so of two NaNs it matters which one stands there."""

from __future__ import annotations

import time
import types
from decimal import Decimal

import numpy as np
import pytest

import tracegrad
from tracegrad import UnsupportedError, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")


def nan():
    return float("nan")


def index_in(values, n):
    try:
        return values.index(n)
    except ValueError:
        return 10


def removed(values, n):
    values = list(values)
    if n in values:
        values.remove(n)
    return len(values)


#: name -> (how a number is made of two values, the values before, what stands there afterwards)
ASKED = {
    "in a list": (lambda a, b: 1.0 if a in b else 2.0, lambda n: (n, [n]), lambda n: (nan(), [n])),
    "in a tuple": (lambda a, b: 1.0 if a in b else 2.0, lambda n: (n, (n, 1.0)), lambda n: (n, (nan(), 1.0))),
    "in a set": (lambda a, b: 1.0 if a in b else 2.0, lambda n: (n, {n}), lambda n: (nan(), {n})),
    "in a frozenset": (lambda a, b: 1.0 if a in b else 2.0, lambda n: (n, frozenset([n])), lambda n: (nan(), {n})),
    "not in": (lambda a, b: 1.0 if a not in b else 2.0, lambda n: (n, [1.0, n]), lambda n: (n, [1.0, nan()])),
    "index": (lambda a, b: index_in(b, a), lambda n: (n, [1.0, n]), lambda n: (n, [1.0, nan()])),
    "count": (lambda a, b: b.count(a), lambda n: (n, [n, n, nan()]), lambda n: (n, [n, nan(), nan()])),
    "remove": (lambda a, b: removed(b, a), lambda n: (n, [n, 2.0]), lambda n: (n, [nan(), 2.0])),
    "lists": (lambda a, b: 1.0 if a == b else 2.0, lambda n: ([n], [n]), lambda n: ([n], [nan()])),
    "tuples in lists": (lambda a, b: 1.0 if a == b else 2.0, lambda n: ([(n,)],) * 2, lambda n: ([(n,)], [(nan(),)])),
    "dicts": (lambda a, b: 1.0 if a == b else 2.0, lambda n: ({"k": n}, {"k": n}), lambda n: ({"k": nan()}, {"k": n})),
    "a key": (lambda a, b: b.get(a, 7.0), lambda n: (n, {n: 3.0}), lambda n: (nan(), {n: 3.0})),
    "another key": (lambda a, b: b.get(a, 7.0), lambda n: (n, {n: 3.0}), lambda n: (n, {nan(): 3.0})),
    "NumPy's": (lambda a, b: 2.0 - (a in b), lambda n: (m := np.float64(n), [m]), lambda n: (np.float64(n), [1, n])),
    "complex": (lambda a, b: 1.0 if a in b else 2.0, lambda n: (m := complex(n), [m]), lambda n: (complex(n), [1, n])),
    "decimal": (lambda a, b: 1.0 if a in b else 2.0, lambda n: (m := Decimal(n), [m]), lambda n: (Decimal(n), [1, n])),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("where", ["variables", "attributes", "defaults"])
def test_another_nan(name, where):
    ask, before, after = ASKED[name]
    held = types.SimpleNamespace()
    if where == "variables":

        def make(a, b):
            def f(x):
                return np.sum(x) * ask(a, b)

            def put(*values):
                nonlocal a, b
                a, b = values

            return f, put

        f, put = make(None, None)
    elif where == "attributes":

        def f(x):
            return np.sum(x) * ask(held.a, held.b)

        def put(a, b):
            held.a, held.b = a, b
    else:

        def f(x, a=None, b=None):
            return np.sum(x) * ask(a, b)

        def put(a, b):
            f.__defaults__ = a, b

    compiled = compile_grad(f)
    n = nan()
    for values in (before(n), after(n), before(n), after(n)):
        put(*values)
        for _ in range(3):
            assert compiled(np.ones(3)) == f(np.ones(3))


def test_numbers_that_vary_beside_a_nan():
    n, factor = nan(), 1.5
    values = [n]
    f = compile_grad(lambda x: np.sum(x) * factor * (1.0 if n in values else 2.0))
    for factor in (1.5, 2.5, 3.5, 4.5):
        assert [f(np.ones(2)) for _ in range(3)] == [2 * factor] * 3
    n = nan()
    assert [f(np.ones(2)) for _ in range(3)] == [4 * factor] * 3
    values[0] = n
    assert [f(np.ones(2)) for _ in range(3)] == [2 * factor] * 3


def test_the_same_nan_is_no_reason_to_record_again():
    n = nan()
    f = compile_grad(lambda x: np.sum(np.where(x > 2, n, x)))
    for k in range(5):
        f(np.ones(3) + k)
    assert (f.stats.traces, f.stats.live) == (1, "")


VALUES = [nan()]

#: Of an argument, or of a number that is stored, it is not known which object it is: Python alone answers.
REFUSED = {
    "an argument": (lambda x, m: 1.0 if m in VALUES else 2.0, (VALUES[0],)),
    "two arguments": (lambda x, m, k: 1.0 if m in [1.0, k] else 2.0, (nan(), nan())),
    "lists of arguments": (lambda x, a, b: 1.0 if a == b else 2.0, ([nan()], [nan()])),
    "an index": (lambda x, m: VALUES.index(m), (VALUES[0],)),
    "a count": (lambda x, m: VALUES.count(m), (nan(),)),
    "a value of a dict": (lambda x, m: 1.0 if m in {"k": VALUES[0]}.values() else 2.0, (VALUES[0],)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_are_given(name):
    function, given = REFUSED[name]
    compiled = compile_grad(function)
    others = tuple([[float(k)] if isinstance(v, list) else float(k) for k, v in enumerate(given)])
    if name != "an index":
        for _ in range(3):
            assert compiled(np.ones(2), *others) == function(np.ones(2), *others)
    for _ in range(2):
        assert compiled(np.ones(2), *given) == function(np.ones(2), *given)  # by plain Python
    with pytest.raises(UnsupportedError, match=r"compares two NaNs here.*math.isnan"):
        compiled.grad(np.ones(2), *given)
    if name != "an index":
        assert compiled(np.ones(2), *others) == function(np.ones(2), *others)


def test_a_number_that_is_stored():
    held = types.SimpleNamespace(n=nan())
    values = [held.n]

    @compile_grad
    def f(x):
        found = np.sum(x) * (1.0 if held.n in values else 2.0)
        held.n = nan()
        return found

    assert [f(np.ones(2)) for _ in range(4)] == [2.0, 4.0, 4.0, 4.0]
    np.testing.assert_array_equal(f.grad(np.ones(2)), [2.0, 2.0])
    held.n = values[0]
    np.testing.assert_array_equal(f.grad(np.ones(2)), [1.0, 1.0])
    assert held.n is not values[0]


def test_a_nan_that_is_asked_for_by_its_value():
    f = compile_grad(lambda x, m: np.sum(x) * (1.0 if m != m else 2.0) * (3.0 if m in (0.5, 1.5) else 5.0))
    for m in (1.0, 1.0, nan(), nan(), 0.5, VALUES[0], 1.0):
        assert f(np.ones(2), m) == 2 * (1.0 if m != m else 2.0) * (3.0 if m in (0.5, 1.5) else 5.0)


#: What a run does to ``s.kept`` with NaNs of its own and of outside: (what it does, what is asked in each call)
STORED = {
    "of outside": (lambda s, x: s.kept.__setitem__(0, s.other), lambda s: [s.first] == s.kept[:1]),
    "the first again": (lambda s, x: s.kept.__setitem__(0, s.first), lambda s: s.kept.count(s.first)),
    "a new one": (lambda s, x: s.kept.append(nan()), lambda s: s.kept.count(s.kept[-1])),
    "one in two places": (lambda s, x: put_twice(s, nan()), lambda s: (s.kept[-1] in s.last, s.last in [s.kept])),
    "in a tuple": (lambda s, x: setattr(s, "last", (nan(), x[0])), lambda s: s.last[:1] == (s.first,)),
    "of outside in a tuple": (lambda s, x: setattr(s, "last", (s.first, 1.0)), lambda s: s.last[:1] == (s.first,)),
    "NumPy's constant": (lambda s, x: s.kept.append(np.nan), lambda s: s.kept.count(np.nan)),
    "a key of outside": (lambda s, x: s.table.__setitem__(s.other, x[0]), lambda s: (s.other in s.table, len(s.table))),
    "a new key": (lambda s, x: s.table.__setitem__(nan(), x[0]), lambda s: len(s.table)),
}  # fmt: skip


def put_twice(s, value):
    s.kept.append(value)
    s.last = [value]


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("live", [False, True])
def test_nans_that_runs_store(name, live):
    do, ask = STORED[name]

    def made():
        n = nan()
        s = types.SimpleNamespace(first=n, other=nan(), kept=[n, 1.0], last=(n, 2.0), table={n: 1.0}, seen=[])

        def f(x):
            s.seen.append(str(ask(s)))
            if live:
                s.time = time.time()
            do(s, x)
            return np.sum(x * x)

        return s, f

    (mine, f), (plain, g) = made(), made()
    f = compile_grad(f)
    for k in range(6):
        x = np.ones(3) + k % 2
        if k == 4:
            mine.other, plain.other = nan(), nan()
        assert f(x) == g(x)
        assert mine.seen == plain.seen
        assert ask(mine) == ask(plain)


#: Numbers that are stored, and asked for by identity.
BY_IS = {
    "nan": (lambda s: s.value is s.unset, nan(), lambda s: setattr(s, "value", nan())),
    "a number": (lambda s: s.value is s.unset, 1e9, lambda s: setattr(s, "value", s.value + 1.0)),
    "through a variable": (lambda s: is_one(s.value, s.unset), nan(), lambda s: setattr(s, "value", nan())),
    "is not": (lambda s: s.value is not s.unset, nan(), lambda s: setattr(s, "value", 3.0)),
    "set back": (lambda s: s.value is s.unset, nan(), lambda s: setattr(s, "value", s.unset)),
    "in a list": (lambda s: s.values[0] is s.unset, nan(), lambda s: s.values.__setitem__(0, nan())),
}


def is_one(a, b):
    first, second = a, b
    return first is second


@pytest.mark.parametrize("name", BY_IS)
@pytest.mark.parametrize("steps", [False, True])
def test_stored_numbers_that_are_asked_for_by_identity(name, steps):
    ask, unset, do = BY_IS[name]

    def made():
        s = types.SimpleNamespace(unset=unset, value=unset, values=[unset], count=0.0)

        def f(x):
            s.count += 1.0
            if ask(s):
                do(s)
                return (x * x).sum()
            if s.count % 3 < 1:
                s.value = s.values[0] = s.unset
            return (x * x).sum() * 2.0

        return f

    f, g = (tracegrad.compile if steps else compile_grad)(made()), made()
    for k in range(8):
        x = np.ones(3) + k
        x = tracegrad.tensor(x) if steps else x
        assert float(f(x)) == float(g(x))
