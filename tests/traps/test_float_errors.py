"""Traps: NumPy is asked to raise floating-point errors.  Recorded code raises them where plain NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad

ZEROS, ONES, LARGE = np.zeros(3), np.ones(3), np.full(3, 1e200)


def within(compute, **settings):
    def plain(x):
        try:
            with np.errstate(**settings):
                return compute(x)
        except FloatingPointError as error:
            return -100.0 - len(str(error))

    return plain


@np.errstate(divide="raise")
def decorated(x):
    return np.sum(np.log(x))


def by_decorator(x):
    try:
        return decorated(x)
    except FloatingPointError:
        return -1.0


def set_and_reset(x):
    before = np.seterr(over="raise")
    try:
        return np.sum(x * x)
    except FloatingPointError:
        return -2.0
    finally:
        np.seterr(**before)


def in_a_loop(x):
    total = 0.0
    for k in range(30):
        try:
            with np.errstate(divide="raise"):
                total = total + np.sum(1.0 / (x + (k - 20.0)))
        except FloatingPointError:
            total = total - 7.0
    return total


class Model:
    def logs(self, x):
        return np.sum(np.log(x))

    def plain(self, x):
        with np.errstate(all="raise"):
            try:
                return self.logs(x)
            except FloatingPointError:
                return np.sum(x)


CASES = {
    "log": within(lambda x: np.sum(np.log(x)), divide="raise"),
    "division": within(lambda x: np.sum(1 / x), divide="raise"),
    "0 / 0": within(lambda x: np.sum(x / x), invalid="raise"),
    "sqrt": within(lambda x: np.sum(np.sqrt(x - 0.5)), invalid="raise"),
    "overflow": within(lambda x: np.sum(x * x), over="raise"),
    "exp": within(lambda x: np.sum(np.exp(x)), all="raise"),
    "underflow": within(lambda x: np.sum(x * 1e-300 * 1e-200), under="raise"),
    "power": within(lambda x: np.sum(x**-1), divide="raise"),
    "another error": within(lambda x: np.sum(np.log(x)), invalid="raise"),
    "ignored": within(lambda x: np.sum(np.log(x)), divide="ignore"),
    "decorator": by_decorator,
    "seterr": set_and_reset,
    "loop": in_a_loop,
    "method": Model().plain,
}


@pytest.mark.parametrize("case", CASES)
def test_errors_are_raised_as_by_numpy(case):
    plain = CASES[case]
    f = compile_grad(plain)
    for _ in range(2):
        for x in (ZEROS, ONES, LARGE, ONES):
            assert float(f(x)) == pytest.approx(float(plain(x)), rel=1e-12, nan_ok=True)
    if case not in ("ignored",):
        assert "(calls/float-errors)" in f.stats.live


def test_settings_around_the_call():
    """Set after paths were recorded, and taken back."""

    def plain(x):
        try:
            return np.sum(np.log(x))
        except FloatingPointError:
            return -1.0

    f = compile_grad(plain)
    for _ in range(3):
        assert f(ZEROS) == -np.inf and f(ONES) == 0.0
    before = np.seterr(all="raise")
    try:
        for _ in range(2):
            assert f(ZEROS) == -1.0 and f(ONES) == 0.0
    finally:
        np.seterr(**before)
    traces = f.stats.traces
    assert f(ZEROS) == -np.inf and f(ONES) == 0.0
    assert f.stats.traces == traces
    with np.errstate(divide="ignore"):  # other settings that raise nothing
        assert f(ZEROS) == -np.inf
    assert f.stats.traces == traces


def test_uncaught_and_with_gradients():
    f = compile_grad(lambda x: np.sum(np.log(x)))
    with np.errstate(all="raise"):
        for _ in range(3):
            with pytest.raises(FloatingPointError, match="divide by zero"):
                f.value_and_grad(ZEROS)
            gradient = f.grad(ONES * 2)
            np.testing.assert_allclose(gradient, 0.5 * ONES)
    gradient = f.grad(ONES * 2)  # and derivatives are no operations of the user's
    np.testing.assert_allclose(gradient, 0.5 * ONES)


def test_a_function_is_called():
    seen = []
    before = np.seterrcall(lambda kind, flag: seen.append(kind))
    try:

        def plain(x):
            with np.errstate(divide="call"):
                return np.sum(np.log(x))

        f = compile_grad(plain)
        for count in (1, 2, 3):
            assert f(ZEROS) == -np.inf and len(seen) == count
    finally:
        np.seterrcall(before)


def test_settings_that_are_restored_by_hand():
    def plain(x):
        old = np.seterr(all="ignore")
        try:
            return np.sum(np.log(x))
        finally:
            np.seterr(**old)

    f, before = compile_grad(plain), np.geterr()
    for x in (ONES, ZEROS, LARGE, ONES):
        assert f(x) == pytest.approx(plain(x), rel=1e-12) and np.geterr() == before
    assert "numpy.seterr" in f.stats.live
