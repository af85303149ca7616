"""Python counters of loops that data ends: recorded integers after the loop, wherever that is proven.

Every compiled call is compared with the interpreter (``config.check``), the plain function and finite differences.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from agreement import numerical_gradient
from selection import some

from tracegrad import compile_grad, config
from tracegrad.runtime.launch.kernel_cache import kernels

POINTS = [5.0, 0.3, 900.0, 41.0, 1e5, 7.0, 1e-3, 2.5, 1e7]


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setattr(config, "check", True)
    kernels.clear()


def agree(plain, points=POINTS):
    f = compile_grad(plain)
    for x in (*points, *points[::-1], *points):
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(plain(x), rel=1e-9, abs=1e-12)
        assert gradient == pytest.approx(numerical_gradient(plain, (x,)), rel=1e-5, abs=1e-7)
    assert not f.stats.live
    return f


def rolled(f):
    return [p for variants in f._both.variants.values() for v in variants for p in v.paths]


def counts(x):
    y, n = x, 0
    while y > 1.0:
        y = y * 0.5
        n += 1
    return y * n


def after_a_break(x):
    y, n = x, 10
    while True:
        y = y * 0.5
        n -= 3
        if y < 1.0:
            break
    return y * y / (n + 0.5)


def loop_variable(x):
    y = x
    for i in range(100):  # noqa: B007
        y = y * 0.5
        if y < 1.0:
            break
    return y * (i + 1) ** 2


def two_counters(x):
    y, n, m = x, 0, 7
    while y > 1.0:
        y = y * 0.5
        n, m = n + 1, m - 2
    return y * n + m * x


def in_a_helper(x):
    y, n = halved(x)
    return y * n


def halved(x):
    y, n = x, 0
    while y > 1.0:
        y = y * 0.5
        n += 1
    return y, n


def used_by_python(x):
    y, n = x, 0
    while y > 1.0:
        y = y * 0.5
        n += 1
    z = y * (1.0, 2.0, 3.0)[n % 3] + math.sqrt(n) + float(f"{2.5}")
    for _ in range(n):
        z = z + 0.1 * y
    return z * 2 if n > 5 else z


def then_another(x):
    y, n = x, 0
    while y > 1.0:
        y = y * 0.5
        n += 1
    z = y + n
    while z > 0.5:
        z = z * 0.7
        n += 2
    return z * n


@pytest.mark.parametrize("plain", [counts, after_a_break, loop_variable, two_counters, in_a_helper, then_another])
def test_one_path_whatever_is_counted(plain):
    f = agree(plain)
    # below four turns a loop is no loop
    assert len(rolled(f)) <= 5
    assert any(node.prim.name == "loop" for path in rolled(f) for node in path.recording.graph.nodes)


def test_a_counter_that_only_counts_sets_no_bound():
    f = compile_grad(counts)
    for x in (1e2, 1e2):
        assert f(x) == pytest.approx(counts(x))
    traces = f.stats.traces
    for x in (1e300, 3e-5 * 2.0**400, 50.0, 1e200):
        assert f(x) == pytest.approx(counts(x), rel=1e-12)
    assert f.stats.traces == traces and f.stats.compiles == 1


def test_python_may_do_with_it_what_it_does_with_integers():
    agree(used_by_python)


def test_types():
    def aux(x):
        y, n = x, 0
        while y > 1.0:
            y = y * 0.5
            n += 1
        return y, n

    def single(x):
        y, n = x, 0
        while y[0] > 1.0:
            y = y * np.float32(0.5)
            n += 1
        return np.sum(y * n)

    f, g = compile_grad(aux, has_aux=True), compile_grad(single)
    for x in POINTS:
        (value, n), _ = f.value_and_grad(x)
        assert (value, n) == aux(x) and isinstance(n, (int, np.integer))
        array = np.array([x, 2 * x], np.float32)
        value, gradient = g.value_and_grad(array)
        assert value.dtype == gradient.dtype == np.float32  # as beside Python's integers
        assert value == pytest.approx(single(array), rel=1e-5)


# ---- what only looks like a counter ----------------------------------------------------------------------------------


def jumps(x):
    y, n = x, 0
    while y > 1.0:
        y = y * 0.5
        n += 1 if n < 6 else 2
    return y * n


def read_within(x):
    y, n = x, 0
    while y > 1.0:
        y = y * (0.5 if n != 7 else 0.25)
        n += 1
    return y * n


def by_data(x):
    y, n = x, 0
    while y > 1.0:
        y = y * 0.5
        if y > 10.0:
            n += 1
    return y * n


def of_floats(x):
    y, t = x, 0.0
    while y > 1.0:
        y = y * 0.5
        t += 0.1
    return y * t


def in_a_cell(x):
    n = 0

    def one():
        return n

    y = x
    while y > 1.0:
        y = y * 0.5
        n += 1
    return y * one()


def reset(x):
    total, z = 0, x
    for k in range(6):
        y, n = z + k, 0
        while y > 1.0:
            y = y * 0.5
            n += 1
        total += n
        z = z * 0.9 + 0.01 * y * n
    return z * total


def counts_on(x):
    n, z = 0, x
    for _ in range(5):
        while z > 1.0:
            z = z * 0.5
            n += 1
        z = z * 20.0
    return z * n


def with_a_list(x):
    y, n, kept = x, 0, []
    while y > 1.0:
        y = y * 0.5
        kept.append(y)
        n += 1
    return y * n + sum(kept)


@pytest.mark.parametrize(
    "plain", some([jumps, by_data, read_within, of_floats, in_a_cell, reset, counts_on, with_a_list], quick=2)
)
def test_what_only_looks_like_a_counter(plain):
    agree(plain)


def test_second_order():
    f = compile_grad(lambda x: compile_grad(counts).grad(x) ** 2 * x)
    for x in POINTS:
        slope = counts(x) / x
        assert f.grad(x) == pytest.approx(slope**2, rel=1e-6)


def test_the_users_frame_is_the_only_thing_that_changes():
    """Outside variables and what helpers have been given stay Python's."""
    seen = []

    def plain(x):
        y, n = x, 0
        while y > 1.0:
            y = y * 0.5
            n += 1
        seen.append(type(n) is int or n.__class__)
        return y * n

    f = compile_grad(plain)
    for x in (100.0, 100.0, 1000.0):
        assert f(x) == pytest.approx(counts(x))
    plain(100.0)
    assert seen[-1] is True


# ---- blocks of several turns -----------------------------------------------------------------------------------------


def two_kinds_of_turns(x):
    y, n = x, 0
    while y > 1.0:
        y = y * 0.5 if n % 2 else y * 0.6 - 0.01 * y
        n += 1
    return y * n


def swapped(x):
    y, v, w, n = x, x * 0.1, x, 5
    while y > 1.0:
        y = y * 0.5 - 1e-9 * v
        v, w = w, v
        n += 3
    return y * v + n * x


def rotated(x):
    y, n, (u, v, w) = x, 0, (x, x * 0.1, x * 0.2)
    while True:
        y = y * 0.7 - 1e-9 * u
        u, v, w = v, w, u
        n -= 2
        if y < 1.0:
            break
    return y * u + n * x


@pytest.mark.parametrize("plain", [two_kinds_of_turns, swapped, rotated])
def test_turns_are_counted_not_blocks(plain):
    agree(plain, [1000.0 * 1.5**k for k in range(12)])
