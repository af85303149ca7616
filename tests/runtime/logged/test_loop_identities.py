"""Which array a place has after a loop: loops that pass arrays on leave the very objects that plain Python leaves."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tracegrad import compile_grad

NAMES = ("now", "old", "a", "b", "c")


def shift(s, x):
    for _ in range(50):
        s.old = s.now
        s.now = x


def counted_shift(s, x):
    w = 0
    while w < len(s.few):
        w += 1
        s.old = s.now
        s.now = x


def swap(s, x):
    for _ in range(51):
        s.a, s.b = s.b, s.a


def rotate(s, x):
    for _ in range(50):
        s.a, s.b, s.c = s.c, s.a, s.b


def local_names(s, x):
    now = s.now
    for _ in range(50):
        last = now
        now = x
    s.old, s.now = last, now


def made_each_time(s, x):
    for _ in range(50):
        s.old = s.now
        s.a = s.now
        s.now = s.now * x


def swap_until(s, x):
    e = np.sum(x)
    while e > 0.01:
        e = e * 0.5
        s.a, s.b = s.b, s.a


def shift_until(s, x):
    e = np.sum(x)
    while e > 0.01:
        e = e * 0.5
        s.old = s.now
        s.now = x


def left_early(s, x):
    for k in range(50):
        s.a, s.b = s.b, s.a
        if k == 2:
            break


def objects_of(state, before, x):
    """{name: (which object it is, its sum)} of the arrays of *state*."""
    known = {id(value): f"what was {name}" for name, value in before.items()} | {id(x): "x"}
    now = {name: getattr(state, name) for name in NAMES}
    return {name: (known.setdefault(id(value), name), float(np.sum(value))) for name, value in now.items()}


LOOPS = [
    shift, counted_shift, swap, rotate, local_names, made_each_time, swap_until, shift_until, left_early,
]  # fmt: skip


@pytest.mark.parametrize("change", LOOPS, ids=lambda f: f.__name__)
def test_a_loop_leaves_the_arrays_that_plain_python_leaves(change):
    def state():
        return SimpleNamespace(**{name: np.arange(3.0) + k for k, name in enumerate(NAMES)}, few=[1, 2, 3])

    traced, plain = state(), state()
    x = np.ones(3) * 1.5

    @compile_grad
    def f(x):
        change(traced, x)
        return np.sum(x)

    for _ in range(3):
        before, as_before = [{name: getattr(s, name) for name in NAMES} for s in (traced, plain)]
        f(x)
        change(plain, x)
        assert objects_of(traced, before, x) == objects_of(plain, as_before, x)


def test_a_result_is_the_array_that_a_loop_has_passed_on():
    a, b = np.arange(3.0), np.ones(3)

    @compile_grad(has_aux=True)
    def f(x):
        first, second = a, b
        e = np.sum(x)
        while e > 0.01:
            e = e * 0.5
            first, second = second, first
        return np.sum(x), [first, second, first]

    plain = f.__wrapped__(np.ones(3))[1]
    for _ in range(3):
        found = f(np.ones(3))[1]
        assert [id(part) for part in found] == [id(part) for part in plain]


NONE: dict[int, int] = {}


def reads_itself(x):
    w = 0
    while w < len(NONE) % 5:
        w += 1
        missing = missing  # noqa: F821, F841
    return np.sum(x)


def keeps_itself(x):
    kept = []
    for k in range(len(NONE)):
        kept.append(later)  # noqa: F821
        later = x * k  # noqa: F841
    return np.sum(x) + len(kept)


def returns_it(x):
    for k in range(len(NONE) * 10):
        if k > 50:
            late = x
    return late


@pytest.mark.parametrize("fn", [reads_itself, keeps_itself, returns_it], ids=lambda f: f.__name__)
@pytest.mark.parametrize("count", [1, 4])
def test_a_name_without_a_value_is_an_error_in_a_loop_as_in_plain_python(monkeypatch, fn, count):
    monkeypatch.setitem(globals(), "NONE", {})
    f = compile_grad(fn)
    if fn is not returns_it:
        assert np.ndim(f(np.ones(3))) == 0
    NONE.update({k: k for k in range(count)})
    with pytest.raises(UnboundLocalError, match=r"missing|later|late"):
        f(np.ones(3))


NOT_A_NUMBER = float("nan")


def writes_it(s):
    w = 0
    while w < len(s.few):
        w += 1
        s.v = math.nan
        s.v = NOT_A_NUMBER


def passes_it_on(s):
    for _ in range(51):
        s.v, s.w = s.w, s.v


@pytest.mark.parametrize("change", [writes_it, passes_it_on], ids=lambda f: f.__name__)
@pytest.mark.parametrize("few", [1, 40])
def test_a_nan_that_a_loop_writes_is_the_very_object(change, few):
    state = SimpleNamespace(v=NOT_A_NUMBER, w=float("nan"), few=[1] * few)
    plain = SimpleNamespace(**vars(state))

    @compile_grad
    def f(x):
        change(state)
        return np.sum(x)

    for _ in range(3):
        f(np.ones(3))
        change(plain)
        assert state.v is plain.v and state.w is plain.w
