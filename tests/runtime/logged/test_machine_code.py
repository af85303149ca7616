"""Functions that numba compiles, in closed runs: a change between calls of what they are, or read, is seen."""

# ruff: noqa: E501  (a row of a table is a line)
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from closed_kinds import check

WORLD = """import numba
@numba.njit
def g(t): return t * t * 0.5
@numba.njit
def h(t): return t * 3.0 if t > 0 else -t
@numba.njit
def twice(u, t): return u(t) + u(t)
@numba.njit
def add(out, t):
    for i in range(len(out)): out[i] += t * i
@numba.njit
def table(n):
    r = np.zeros(n)
    for i in range(n): r[i] = i * 2.0
    return r
@numba.njit
def up(a): a += 1.0
o = types.SimpleNamespace(f=g)
"""

# what is outside, what the function does with it, changes between calls, the most traces
CALLS = {
    "a function of a number": ("", "s = g(s) + o.f(x[0])", [], 1),
    "another function": ("", "s = g(s) + o.f(x[0])", ["o.f = h", "g, h = h, g"], 0),
    "a function of Python's in its place": ("", "s = g(s) + o.f(x[0])", ["o.f = lambda t: t * 7.0", "o.f = numba.njit(lambda t: t + 1.0)"], 0),
    "a branch that data decides": ("", "for k in range(20): s = s * 0.5 + h(x[k % 2])", ["h = g"], 0),
    "one that is handed on": ("", "s = twice(g, s)", ["g = h"], 0),
    "by the other names it has": ("", "s = g.py_func(s) + [*map(g, [s])][0]", ["g = h"], 0),
    "other settings": (
        "def q(a, b): return a / b\nfast, slow = numba.njit(error_model='numpy')(q), numba.njit(q)\no.f = slow",
        "s = np.minimum(o.f(1.0 + s * s, 2.0), 5.0)", ["o.f = fast"], 0),
    "signatures that are declared": ("@numba.njit('float64(float64)')\ndef d(t): return t * t", "s = d(s)", [], 1),
    "arrays of the run's own": ("", "out, ones = np.zeros(3), np.ones(3)\nadd(out, s)\nup(ones)\ns = np.sum(out * ones) + table(3)[2]", ["table = numba.njit(lambda n: np.ones(n))"], 0),
    "plain arrays in a loop": ("", "z = np.zeros(2)\nfor k in range(20):\n    up(z)\n    s = s + np.sum(z * x[:2])", [], 0),
    "what the source reads": ("W, rate = np.ones(3), 2.0\n@numba.njit\ndef w(t): return t * rate + W[1]", "s = w(s)", [], 1),
    "one that calls others": ("@numba.njit\ndef outer(t): return h(g(t))", "s = outer(s)", [], 0),
    "one that is made in the function": ("", "k = s * 2\n@numba.njit\ndef inner(y): return y * k\ns = inner(3.0) + inner(s)", [], 1),
    "one in a class": ("class M:\n    @staticmethod\n    @numba.njit\n    def f(a, t): return np.sum(a) * t\nm = M()\na = np.ones(3)", "s = m.f(a, s)", ["a[0] = 5.0\nM.f = staticmethod(numba.njit(lambda a, t: t))"], 0),
    "an elementwise function": ("@numba.vectorize\ndef v(a, b): return a * b if a > b else b * b\nW = np.array([0.1, 5.0, -1.0])[:2]", "s = np.sum(v(x[:2], W))", ["W[0] = 2.1"], 0),
    "types of numba's": ("", "s = numba.float64(2.0) * s", [], 0),
    "one that prints": ("@numba.njit\ndef shout(t):\n    print('called', t)\n    return t * 2.0", "s = s * shout(1.0)", [], 1),
}  # fmt: skip


@contextmanager
def interpreted() -> Iterator[None]:
    """Python runs what numba would compile, in each of some forty runs anew."""

    def as_it_is(*given, **settings):
        def decorated(f):
            f.py_func = f
            return f

        return decorated(given[0]) if given and callable(given[0]) else decorated

    with mock.patch("numba.njit", as_it_is):
        yield


@pytest.mark.parametrize(("world", "body", "changes", "most"), CALLS.values(), ids=[*CALLS])
def test_calls(world, body, changes, most):
    check(f"{WORLD}{world}", body, changes, most=most, for_slopes=interpreted)
