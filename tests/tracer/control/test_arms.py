"""Both arms of an `if` on data: one program for all outcomes, with the values and gradients of plain Python."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import autograd, compile_grad, config


def one_or_other(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            s = s + x[i] ** 2
        else:
            s = s - 2 * x[i]
    return s


def accept_or_reject(x):
    theta, accepted, s = x[0], 0, 0.0
    for i in range(len(x)):
        proposal = theta + 0.5 * x[i]
        if np.log(0.05 + 0.07 * i) < -0.5 * proposal**2 + 0.5 * theta**2:
            theta = proposal
            accepted += 1
        s = s + theta * theta
    return s + accepted * 0.1 * x[1]


def one_of_many(x):
    s = 0.0
    for v in x:
        if v > 1:
            s += v**2
        elif v > 0:
            s += v
        elif v > -1:
            t = v * 3
            s -= t
        else:
            if v > -1.5:
                s += np.sin(v)
    return s


def _huber(r):
    if abs(r) < 1:
        return 0.5 * r * r
    return abs(r) - 0.5


def helper(x):
    s = sum([_huber(v) for v in x])
    for v in x:
        s += _huber(2 * v)
    return s


def within_expressions(x):
    s = sum([v * v if v > 0 else -v for v in x])
    for v in x:
        s += 2.0 * v if (v > 0 and v < 1) or v < -1 else 0.5
        s *= 1.1 if 0 < v < 0.5 else 0.9
        if not (v > -1):
            s -= v
    return s


def next_turn(x):
    s = 1.0
    for v in x:
        if v < 0:
            continue
        if v < 0.5:
            s = s + v
            continue
        s = s * (1 + v)
    return s


def into_arrays(x):
    z, count, plain = np.zeros(len(x)), np.zeros(2), np.zeros(1)
    for i in range(1, len(x)):
        if x[i] > 0:
            z[i] = z[i - 1] + x[i] ** 2
            count[0] += x[i]
            plain[0] += 1
        else:
            z[i] = 0.5 * z[i - 1]
            count[1], count[0] = count[0], count[1]
    return z[-1] + np.sum(z) * count[0] + count[1] * plain[0]


def never_leaks(x):
    s = 0.0
    for v in x:
        if v > 0:
            s += np.sqrt(v) * np.log(v)
        else:
            s += 1 / v
    for v in x.tolist():
        if v > 0:
            s += math.sqrt(v) / v
        elif v != 0:
            s -= 1 / v
    return s


def flags_and_counts(x):
    alive, n, best, at, s = True, 0, x[0], 0, 0
    for i, v in enumerate(x):
        if v > 1.5:
            alive = False
        if alive:
            s += v * v
            n += 1
        if v > best:
            best, at = v, i
    return s / n + best * x[at] if n else s


def largest_of_mixed(x):
    return sum([max(0.0, v) for v in x]) + sum(max(v, 0) ** 2 for v in x * 2) + min(1.0, max(-1.0, x[0]))


class Net:
    def __init__(self):
        self.w, self.slope = np.array([0.3, -0.2, 0.7]), 0.2

    def act(self, v):
        return v if v > 0 else self.slope * v

    def __call__(self, x):
        hidden = [self.act(self.w[k] * x[k] + x[k + 3]) for k in range(3)]
        return self.act(sum(hidden)) * x[0]


_net = Net()


def method(x):
    return _net(x) ** 2 + _net(2 * x)


def bounces(x):
    p, v = np.array([0.0, 1.0]) + 0.1 * x[:2], np.array([1.0, 0.0]) + 0.1 * x[2:4]
    for _ in range(40):
        v[1] -= 0.5
        p += 0.05 * v
        if p[1] < 0:
            p[1] = -p[1]
            v[1] = -0.8 * v[1]
        if p[0] > 1.2 or p[0] < -1.2:
            v[0] = -v[0]
    return p @ p + v @ v


def sorts(x):
    a = list(x[:4])
    for i in range(4):
        for j in range(3 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a[0] + 2 * a[1] + 3 * a[2] + 4 * a[3]


def whole_arrays(x):
    turn = np.array([[0.9, 0.1], [-0.1, 0.9]])
    z = x[:2]
    for v in x:
        z = turn @ z if v > 0 else 0.5 * (turn.T @ z) + v
    return z @ z


def friction(x):
    v, p = 2.0 + x[0], 0.0 * x[1]
    for _ in range(30):
        if v > 0.5:
            f = -0.3 * v * v
        elif v > -0.5:
            f = -0.3 * v
        else:
            f = 0.3 * v * v
        v = v + 0.1 * (f - np.sin(p * x[1]))
        p = p + 0.1 * v
    return p


def barrier(x):
    spot, alive = 1.0, True
    for e in x:
        spot = spot * np.exp(0.1 * e)
        if spot > 1.2:
            alive = False
    return spot * spot if alive else 0.1 * spot


def closures(x):
    def steps():
        for v in x:
            if v > 0:
                w = v * v
            else:
                w = -v
            yield w

    clip = lambda v: 1.0 if v > 1 else v  # noqa: E731
    return sum(steps()) + sum(map(clip, x))


def into_one_array(x):
    z = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 0:
            z[i] = x[i] ** 2
    return z @ x


PROGRAMS = [
    one_or_other, accept_or_reject, helper, within_expressions, into_one_array, never_leaks, flags_and_counts,
    method,
    *[
        pytest.param(f, marks=pytest.mark.slow)
        for f in (
            into_arrays, one_of_many, next_turn, largest_of_mixed, bounces, sorts, whole_arrays, friction, barrier,
            closures,
        )
    ],
]  # fmt: skip


def _inputs(count: int, start: int = 0) -> list[np.ndarray]:
    drawn = [np.random.default_rng(seed).normal(size=8) for seed in range(start, start + count)]
    return [*drawn, abs(drawn[0]), -abs(drawn[1])]


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_program_for_all_outcomes(f: Any) -> None:
    compiled, compiles = compile_grad(f), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of plain numbers
        for k, x in enumerate([*_inputs(5), *_inputs(3, 5)]):
            value, slope = compiled.value_and_grad(x)
            assert value == pytest.approx(f(x), rel=1e-12), k
            assert slope == pytest.approx(numerical_gradient(f, (x,)), rel=1e-5, abs=1e-6), k
            if k == 6:
                compiles = compiled.stats.compiles
    assert compiled.stats.compiles == compiles <= 4 and not compiled.stats.live


@pytest.mark.parametrize("f", [one_or_other, pytest.param(into_arrays, marks=pytest.mark.slow), helper])
def test_second_derivatives(f: Any) -> None:
    direction = np.linspace(0.5, 1.5, 8)
    slope = autograd.grad(f)
    second = autograd.grad(lambda x: slope(x) @ direction)
    for x in _inputs(3):
        expected = numerical_gradient(lambda y: slope(y) @ direction, (x,))
        assert second(x) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_a_loop_over_it_is_rolled() -> None:
    compiled, x = compile_grad(one_or_other), np.random.default_rng(0).normal(size=200)
    for k in range(4):
        y = np.roll(x, k) * (-1) ** k
        np.testing.assert_array_equal(compiled.grad(y), np.where(y > 0, 2 * y, -2.0))
    shown = compiled.explain(x, level="all")
    assert "both arms run: the `if` at test_arms.py" in shown and "200 turns" in shown
    assert compiled.stats.compiles == 1


def test_few_branches_are_paths() -> None:
    """Of which only one is computed."""
    compiled = compile_grad(lambda x: x[0] ** 2 if x[0] > 0 else -x[0])
    for v in (1.0, -1.0, 2.0, -2.0, 3.0):
        compiled.grad(np.array([v, 1.0]))
    assert compiled.stats.compiles == 2 and "both arms" not in compiled.explain(np.ones(2), level="all")


def _asks(x):
    s = 0.0
    for v in x:
        s = s + int(3 * v) * v if v > 0 else s - v
    return s


def _raises(x):
    s = 0.0
    for v in x.tolist():
        s = s + math.sqrt(v - 0.1) if v > 0.1 else s - v
        if v > 0.5:
            s += [v, v * v][-3 if v < 0.2 else -1]
    return s


def _appends(x):
    kept = []
    for v in x:
        if v > 0:
            kept.append(v)
    return sum(kept) + x[0]


def _unset(x):
    s = 0.0
    for v in x:
        if v > 0:
            t = v
        if v > 0.5:
            s += t * t
    return s + x[0]


def _texts(x):
    mode, s = "a", 0.0
    for v in x:
        if v > 0:
            mode = "b"
        s += v if mode == "a" else v * v
    return s


def _one_of_two_arrays(x):
    a, b = x * 1.0, x * 2.0
    for i in range(6):
        y = a if x[i] > 0 else b
        y[i] = 5.0 * x[0]
    return np.sum(a) + 2 * np.sum(b)


def _shown_by_another(x):
    a, b, s = x * 1.0, x * 2.0, 0.0
    for i in range(6):
        y = a if x[i] > 0 else b
        a[i] = 7.0 * x[1]
        s = s + y[i]
    return s


def _class_shows(x):
    n, s = 0, 0.0
    for v in x:
        if v > 0:
            n += 1
        s += n % 3 * v
    return s


REFUSED = {
    _asks: "choice/asks",
    _appends: "choice/stores",
    _unset: "choice/unset",
    _texts: "choice/unlike",
    _one_of_two_arrays: "choice/written",
    _shown_by_another: "choice/written",
    _class_shows: "choice/class",
}


_OTHERS = (_appends, _unset, _texts, _one_of_two_arrays, _shown_by_another, _raises)


@pytest.mark.parametrize("f", [_asks, _class_shows, *[pytest.param(f, marks=pytest.mark.slow) for f in _OTHERS]])
def test_what_is_no_choice_is_a_question(f: Any) -> None:
    compiled = compile_grad(f)
    for x in _inputs(3):
        value, slope = compiled.value_and_grad(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        assert slope == pytest.approx(numerical_gradient(f, (x,)), rel=1e-5, abs=1e-6)
    assert f is _raises or f"({REFUSED[f]})" in compiled.explain(x, level="all")


def test_exceptions_and_classes_are_those_of_python() -> None:
    def divides(x):
        s = 0.0
        for v in x.tolist():
            s = s + 1 / v if v != 1 else s + 1 / (v - 1)
        return s

    def counts(x):
        n = 0
        for v in x:
            if v > 0:
                n += 1
        return n

    divided, counted = compile_grad(divides), compile_grad(counts)
    for x in (*_inputs(4), np.array([2.0, 1.0, 3.0, -1.0]), np.array([2.0, 0.0, 3.0, -1.0])):
        found = []
        for f in (divides, divided):
            try:
                found.append(f(x))
            except ZeroDivisionError as error:
                found.append(str(error))
        assert found[1] == (found[0] if isinstance(found[0], str) else pytest.approx(found[0], rel=1e-12))
        assert (counted(x), type(counted(x))) == (counts(x), int)


class Counts:
    def __init__(self):
        self.seen, self.total, self.runs = [0, 0], 0, 0

    def loss(self, x):
        n, s = 0, 0.0
        for v in x:
            if v > 0:
                self.seen[0] += 1
                n += 1
            s += v * v
        self.total += n
        self.runs += 1
        return s


def test_what_becomes_of_the_callers_objects_is_an_effect() -> None:
    ours, plain = Counts(), Counts()
    compiled = compile_grad(ours.loss)
    for x in _inputs(5):
        assert compiled(x) == pytest.approx(plain.loss(x))
        assert vars(ours) == vars(plain) and type(ours.total) is int


def test_an_exception_of_the_users_is_no_refusal() -> None:
    def f(x):
        s = 0.0
        for v in x:
            if v > 100:
                raise ValueError("too large")
            if v > 0:
                s += v
        return s

    compiled = compile_grad(f)
    for x in _inputs(3):
        assert compiled(x) == pytest.approx(f(x))
    with pytest.raises(ValueError, match="too large"):
        compiled(np.full(8, 200.0))
    assert compiled(_inputs(6)[5]) == pytest.approx(f(_inputs(6)[5])) and compiled.stats.compiles == 1


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "select_branches", False)
    compiled = compile_grad(one_or_other)
    for x in _inputs(2)[:2]:
        compiled.grad(x)
    assert compiled.stats.compiles == 2


def turned(x):
    """Rodrigues' formula for small and other angles, by matrix products and an inverse."""
    s = 0.0
    for i in range(0, len(x), 3):
        r = x[i : i + 3]
        angle = np.linalg.norm(r)
        if angle < 1e-8:
            R = np.eye(3) + np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])
        else:
            k = r / angle
            K = np.array([[0.0, -k[2], k[1]], [k[2], 0.0, -k[0]], [-k[1], k[0], 0.0]])
            R = np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
            R = np.linalg.inv(R).T
        s = s + np.sum((R @ np.array([1.0, 2.0, 3.0])) ** 3)
    return s


def test_no_nan_leaks_through_products_of_the_arm_that_is_not_taken():
    x = np.random.default_rng(0).normal(size=24)
    x[[0, 1, 2, 9, 10, 11, 21, 22, 23]] = 0.0
    compiled = compile_grad(turned)
    for _ in range(3):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, turned(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(turned, (x,)), rtol=1e-5, atol=1e-5)
    assert "both arms run" in str(compiled.explain(x, level="all"))
