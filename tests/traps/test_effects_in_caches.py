"""Traps: functions with a cache (``functools.lru_cache``) that change something, called by code that changes the same.

The cache keeps the result and the change is made once: whoever makes the call again, or makes it on copies, loses it.
"""

from __future__ import annotations

import functools
import time
from collections import Counter, defaultdict, deque

import numpy as np
import pytest
from leftovers import leftovers
from same_state import difference
from with_source import code_of

import tracegrad
from tracegrad import UnsupportedError, compile_grad

pytestmark = [pytest.mark.usefixtures("fresh_kernels"), pytest.mark.filterwarnings("ignore")]

CLASS = """
class Table:
    total = 0
    def __init__(self): self.n, self.m, self.l = 0, 0, []
    def up(self): self.n += 1
    @functools.lru_cache(None)
    def kept(self, n):
        {}
        return n * 2
table = Table()
"""
FUNCTION = """
N, L, D, C, S, Q = 0, [], {{'a': 0}}, Counter(), set(), deque()
@functools.lru_cache({})
def kept(n):
    global N
    {}
    return n * 2
kept.n = 0
"""
#: (what stands around, what the function with the cache does, what the compiled function does)
CASES = {
    "an attribute": (CLASS, "self.n += 1", "table.n += 1"),
    "an attribute, by a method": (CLASS, "self.up()", "table.up()"),
    "another attribute": (CLASS, "self.m += 1", "table.n += 1"),
    "a list in an attribute": (CLASS, "self.l.append(n)", "table.l.append(9)"),
    "an attribute of the class": (CLASS, "Table.total += 1", "Table.total += 1"),
    "nothing beside it": (CLASS, "self.n += 1", "pass"),
    "a global": (FUNCTION, "N += 1", "N += 1"),
    "a list": (FUNCTION, "L.append(n)", "L.append(9)"),
    "an item": (FUNCTION, "D['a'] += 1", "D['a'] += 1"),
    "a new key": (FUNCTION, "D[n] = 1", "D['x'] = 2"),
    "a counter": (FUNCTION, "C[n] += 1", "C[5] += 1"),
    "a set": (FUNCTION, "S.add(n)", "S.add(7)"),
    "a queue": (FUNCTION, "Q.append(n)", "Q.append(7)"),
    "an attribute of the function": (FUNCTION, "kept.n += 1", "kept.n += 1"),
    "another name of a list": (FUNCTION, "m = L; m.append(n)", "L.append(9)"),
    "none": (FUNCTION, "l = []; l.append(n); l[0] += 1", "L.append(9)"),
}
ORDERS = {"before": "{0}\n    r = {1}", "behind": "r = {1}\n    {0}", "around": "{0}\n    r = {1}\n    {0}"}


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_functions_with_a_cache_that_change_something(name, steps):
    around, kept, own = CASES[name]
    for order, size, key in [("before", None, "k"), ("behind", 1, "3 - k"), ("around", 2, "dd['n'] % 3")]:
        sides = []
        for _ in range(2):
            space = {"np": tracegrad if steps else np, "functools": functools, "Counter": Counter, "deque": deque}
            space |= {"dd": defaultdict(int), "__name__": "made"}
            exec(around.format(kept) if around is CLASS else around.format(size, kept), space)
            call = f"{'table.' * (around is CLASS)}kept({key})"
            body = ORDERS[order].format(own, call)
            exec(f"def f(x, k):\n    global N\n    {body}\n    return np.sum(x * x) * r", space)
            sides.append(((space["f"]), space))
        (mine, ours), (plain, theirs) = sides
        mine = (tracegrad.compile if steps else compile_grad)(mine)
        names = ("table", "N", "L", "D", "C", "S", "Q", "dd")
        for turn, k in enumerate((1, 1, 1, 2, 2, 1)):
            x = tracegrad.ones(3) * (1 + turn % 2) if steps else np.ones(3) * (1 + turn % 2)
            found, right = (
                {"r": float(f(x, k)), **{n: space.get(n) for n in names}, "kept.n": getattr(space.get("kept"), "n", 0)}
                for f, space in ((mine, ours), (plain, theirs))
            )
            assert difference(found, right) == "", (order, turn)
            assert not leftovers(found)


@pytest.mark.parametrize("size", [1, 2, 3, None])
def test_a_cache_keeps_its_results_where_python_runs(size):
    """One that forgets, too: results that a run has made are replaced in their links."""
    made = []

    @functools.lru_cache(size)
    def table(n):
        made.append(n)
        return np.arange(float(n)), [np.ones(n), {"a": np.zeros(n)}]

    f = compile_grad(lambda x: np.sum(x * table(2)[0]) + np.sum(table(2)[1][0]) + table(2)[1][1]["a"][0])
    for k in range(5):
        assert f(np.ones(2) * k) == k + 2.0
    assert made == [2] and table.cache_info().currsize == 1
    found = table(2)
    assert type(found[0]) is np.ndarray and not leftovers({"found": found})


READS = """
FAC, TOTAL, N = 0.5, np.zeros(2), 0
class Model:
    f = 0.5
    @functools.lru_cache(None)
    def scaled(self, n): return n * self.f
model = Model()
@functools.lru_cache(maxsize=2)
def scaled(n):
    return n * FAC
@functools.lru_cache
def both(n):
    return n * FAC, [TOTAL[0] * n]
def f(x):
    global FAC, TOTAL, N
    {}
    return np.sum(x * x) + 0.1 * {}
"""


@pytest.mark.parametrize("also", ["", "; time.time()", "; scaled.cache_info()"])
@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        ("FAC = x[-1] * 0.5", "scaled(2)"),
        ("TOTAL = TOTAL + x", "both(3)[1][0]"),
        ("model.f = x[0]", "model.scaled(2)"),
    ],
)
def test_a_cache_keeps_numbers_that_were_computed_with_what_a_run_changes(writes, reads, also):
    def made(wrap):
        space = {"np": np, "functools": functools, "time": time}
        exec(code_of(READS.format(writes + also, reads), "caches"), space)
        return wrap(space["f"]), space

    (ours, space), (plain, theirs) = made(compile_grad), made(lambda f: f)
    for turn, x in enumerate(([1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [3.0, 5.0])):
        if also and turn == 0:  # Python has had effects before
            with pytest.raises(UnsupportedError, match="keeps its results"):
                ours(np.array(x))
            assert not leftovers(space)
            return
        assert ours(np.array(x)) == plain(np.array(x))
        assert not leftovers(space)
        assert difference({"FAC": space["FAC"]}, {"FAC": theirs["FAC"]}) == ""
        for name in ("scaled", "both"):
            assert space[name].cache_info() == theirs[name].cache_info()


def test_gradients_through_such_a_cache_are_an_error():
    space = {"np": np, "functools": functools}
    exec(code_of(READS.format("FAC = x[-1] * 0.5", "scaled(2)"), "caches"), space)
    ours = compile_grad(space["f"])
    with pytest.raises(UnsupportedError, match="keeps its results"):
        ours.value_and_grad(np.array([1.0, 2.0]))
    assert not leftovers(space)


def test_gradients_past_a_cache_that_reads_what_a_run_changes_plainly():
    def made(wrap):
        space = {"np": np, "functools": functools}
        exec(code_of(READS.format("N += 1; FAC = N * 0.5", "scaled(N % 3) * x[0]"), "caches"), space)
        return wrap(space["f"])

    ours, plain = made(compile_grad), made(lambda f: f)
    for k in range(7):
        x = np.array([1.0 + k, 2.0])
        value, gradient = ours.value_and_grad(x)
        right = plain(x)
        assert value == pytest.approx(right)
        assert gradient[0] == pytest.approx(2 * x[0] + (right - np.sum(x * x)) / x[0])


KEPT_OBJECT = """
class Record:
    def __init__(self, v): self.v = v
first, second = Record(0.5), Record(1.5)
now = first
@functools.lru_cache
def kept(): return now
def f(x):
    global now
    record = kept()
    now = second
    record.v = np.sum(x)
    return 0.1 * np.sum(x * x)
"""


def test_a_cache_keeps_the_object_into_which_a_value_of_the_run_was_written():
    def made(wrap):
        space = {"np": np, "functools": functools}
        exec(code_of(KEPT_OBJECT, "kept object"), space)
        return wrap(space["f"]), space

    (ours, space), (plain, theirs) = made(lambda f: compile_grad(f).value_and_grad), made(lambda f: f)
    for k in range(3):
        x = np.array([0.5, 1.0]) + k
        assert ours(x)[0] == pytest.approx(plain(x))
        assert [space[name].v for name in ("first", "second")] == [theirs[name].v for name in ("first", "second")]
        assert space["kept"]() is space["first"] and space["kept"].cache_info().misses == 1
    assert not leftovers(space)
