"""Loops over Python's floats that divide: whether a division raises is one question for all of them, where the loop has
no question of its own; and the exception rises where it would in plain Python."""

from __future__ import annotations

import pytest
from selection import some

from tracegrad import compile_grad

LONG = 3000  # turns


def sums(x, n):
    total = 0.0
    for i in range(n):
        total = total + 1.0 / (x - 0.5 * i) + 1.0 / (2.0 + x)
    return total


def remainders(x, n):
    total, y = 0.0, x
    for _ in range(n):
        y = (y * 1.25) % (x - 0.5) + 1.0
        total = total + y // (x + 1.0)
    return total


def powers(x, n):
    total = 0.0
    for i in range(n):
        total = total + x ** (i * 0.001) + (x + i) ** 0.5
    return total


def caught_in_a_turn(x, n):
    total = 0.0
    for i in range(n):
        try:
            total = total + 1.0 / (x - i)
        except ZeroDivisionError:
            total = total - 1.0
    return total


def caught_outside(x, n):
    total = 0.0
    try:
        for i in range(n):
            total = total + 1.0 / (x - i)
    except ZeroDivisionError:
        return total
    return total * 2.0


def left(x, n):
    total = 0.0
    for i in range(n):
        total = total + 1.0 / (x - i)
        if total > 1e3:
            return -total
    return total


def until(x, n):
    k, t = 0.0, 1.0
    while t > x / n:
        t = t / (x + k) + 1e-9
        k = k + 1.0
    return t + k


def of_an_array_element(x, n):
    total, scale = 0.0, float(x * 2.0)
    for _ in range(n):
        total = total + 1.0 / (scale + total)
    return total


FUNCTIONS = (sums, remainders, powers, caught_in_a_turn, caught_outside, left, until, of_an_array_element)


def outcome(function, *args):
    try:
        return float(function(*args))
    except ArithmeticError as error:
        return type(error), str(error)


@pytest.mark.parametrize("n", some([20, LONG], quick=1))
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_as_in_python(function, n):
    f = compile_grad(function)
    for x in (0.25, 0.25, 0.3, 7.0, 7.0, 0.3, 0.5, LONG / 2, 0.25, 0.0, 0.3):
        got, expected = outcome(f, x, n), outcome(function, x, n)
        assert got == (pytest.approx(expected, rel=1e-9) if isinstance(expected, float) else expected), x
    assert not f.stats.live


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, LONG])
@pytest.mark.parametrize("function", [sums, remainders, powers, of_an_array_element])
def test_one_question(function, n):
    f = compile_grad(function)
    for _ in range(3):
        f(0.3, n)
    (path,) = f.stats.paths
    assert len(path.answers) == 1


def test_the_exception_rises_before_what_comes_after():
    """In the recorded run, too."""
    seen = []

    def f(x, n):
        total = 0.0
        for i in range(n):
            seen.append(i)
            total = total + 1.0 / (x - i)
        return total

    for x in (1.0, LONG - 100.0):
        for function in (f, compile_grad(f)):
            seen.clear()
            with pytest.raises(ZeroDivisionError):
                function(x, LONG)
            assert seen == list(range(int(x) + 1))
