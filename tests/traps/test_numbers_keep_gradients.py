"""Traps: a traced value becomes a Python number.  Its gradient goes on with it, or an error names the line."""

from __future__ import annotations

import math
import operator
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.spatial
from agreement import numerical_gradient
from numpy import float64

import tracegrad
from tracegrad import UnsupportedError, autograd, compile_grad, stop_gradient

X = np.array([0.3, -1.2, 2.2])
WEIGHTS = np.array([1.0, 2.0, 3.0])


class Model:
    def __init__(self):
        self.history = []

    def loss(self, w):
        return float(np.sum((w - 3) ** 2))

    def strict(self, w):
        v = np.float64(w[0])
        return v * v * (2.0 if type(v) is np.float64 and isinstance(np.float64(1), np.floating) else 1.0)

    @property
    def scale(self):
        return 2.0

    def scaled(self, w):
        return float(w[0]) ** 2 * self.scale


class Boxed:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)


def helper(v):
    return float(v) * 2


def scale(p):
    factor = float(np.exp(p[0]))
    return np.sum(factor * p**2)


def halved(w):
    s = float(np.sum(w * w))
    while s > 0.1:
        s = s / 2
    return s


def branch(w):
    return np.sum(w * w) if float(w[0]) > 0 else np.sum(w)


model = Model()
NUMBERS = {
    "float": lambda w: float(np.sum((w - 3) ** 2)),
    "item": lambda w: np.sum((w - 3) ** 2).item(),
    "item of an index": lambda w: w.item(0) * w.item(2),
    "in between": scale,
    "method": model.loss,
    "method with a property": model.scaled,
    "helper": lambda w: helper(w[0]) + helper(w[1] * w[2]),
    "__float__": lambda w: np.sum(w * w).__float__(),
    "an object's __float__": lambda w: float(Boxed(np.sum(w * w))),
    "float64": lambda w: np.float64(np.sum(w * w)),
    "float64 by its name": lambda w: float64(np.sum(w * w)) * float64(2),
    "double of an array": lambda w: np.sum(np.double(w) * w.astype(np.float64)),
    "float64 over a captured array": lambda w: np.float64(np.sum(w * WEIGHTS)),
    "float64 in a method": model.strict,
    "map": lambda w: sum(map(float, w * w)),
    "generator": lambda w: sum(float(v) ** 2 for v in w),
    "tolist": lambda w: sum(v * v for v in w.tolist()),
    "tolist of a number": lambda w: np.sum(w * w).tolist(),
    "methodcaller": lambda w: operator.methodcaller("item")(np.sum(w * w)),
    "max": lambda w: max(float(w[0]), float(w[1])) ** 2,
    "abs": lambda w: abs(float(w[1])) * float(w[0]),
    "round to digits": lambda w: round(np.sum(w), 2) + np.sum(w),
    "while": halved,
    "if": branch,
    "a plain list's sort": lambda w: sorted(w.tolist(), key=float)[0],
    "float as a value": lambda w: (lambda convert: convert(w[0]))(float) * w[1],
    "linspace": lambda w: np.sum(np.linspace(0.0, float(w[2]), 5) ** 2),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_keep_their_gradients(case):
    plain = NUMBERS[case]
    f = compile_grad(plain)
    for x in (X, X, X * 1.01, X, X * 0.97):
        value, gradient = f.value_and_grad(x)
        assert float(value) == pytest.approx(float(plain(x)), rel=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=1e-5, atol=1e-5)
        assert isinstance(f(x), float)
    assert f.stats.live is None or not f.stats.live
    second = autograd.grad(lambda w: np.sum(autograd.grad(plain)(w) ** 2))
    assert np.all(np.isfinite(second(X)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_numbers_of_other_dtypes(dtype):
    """float(t) of a float32 is a Python float: it does not widen what it meets."""
    f = compile_grad(lambda w: np.sum(w * float(w[0])))
    x = X.astype(dtype)
    value, gradient = f.value_and_grad(x)
    assert value.dtype == dtype and gradient.dtype == dtype
    np.testing.assert_allclose(gradient, x[0] + np.array([np.sum(x), 0, 0]), rtol=1e-2)


def test_a_python_float_behaves_as_one():
    def plain(w):
        v = float(w[0])
        return v * (2.0 if type(v) is float and not hasattr(v, "shape") and isinstance(w[0].item(), float) else 1.0)

    assert compile_grad(plain)(X) == plain(X)


class Number(float):
    pass


LEAKS = {
    "math of a float": lambda w: math.ulp(float(w[0])) * w[1],
    "a key": lambda w: {0.3: 2.0}.get(float(w[0]), 1.0) * w[1],
    "a set": lambda w: float(float(w[0]) in {0.3, 1.0}) * w[1],
    "ulp": lambda w: math.ulp(w[0]) * w[1],
    "a subclass of float": lambda w: float.__new__(Number, w[0]) * w[1],
    "C code called by NumPy": lambda w: len(np.format_float_positional(w[0])) * w[1],
    "a scale in NumPy's C code": lambda w: len(np.format_float_scientific(w[0] * 2.0)) * w[1],
}


@pytest.mark.parametrize("case", LEAKS)
def test_a_number_that_leaves_is_an_error(case):
    f = compile_grad(LEAKS[case])
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"gradient[\s\S]*test_numbers_keep_gradients.py"):
            f.value_and_grad(X)


@pytest.mark.parametrize(
    "leak, message",
    [
        (lambda w: scipy.optimize.direct(lambda s: s[0], [(0, w[2])]).x[0], "gradient"),
        (
            lambda w: scipy.optimize.direct(lambda s: (s[0] - w[2]) ** 2, [(0, 9)]).x[0],
            r"scipy\.optimize\.direct needs plain NumPy arrays",
        ),
        (lambda w: scipy.spatial.cKDTree(w.reshape(-1, 1)).maxes[0], "plain NumPy array"),
    ],
)
def test_other_refusals_are_what_is_raised(leak, message):
    f = compile_grad(leak)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=message):
            f.value_and_grad(X)


@pytest.mark.parametrize("name", ["as_integer_ratio", "hex"])
def test_methods_that_give_plain_numbers_are_refused(name):
    def plain(w):
        try:
            return len(str(getattr(float(w[0]), name)())) * w[1]
        except AttributeError:
            return np.sum(w)

    with pytest.raises(UnsupportedError, match=rf"float.{name} is not supported"):
        compile_grad(plain)(X)


def test_a_number_that_leaves_is_no_error_that_can_be_caught():
    def plain(w):
        try:
            return math.ulp(w[0])
        except TypeError:
            return np.sum(w)

    with pytest.raises(UnsupportedError, match="gradient"):
        compile_grad(plain).grad(X)


MEANT = {
    "math": lambda w, s: math.gamma(s(w[0])) * np.sum(w),
    "float": lambda w, s: float(s(np.exp(w[0]))) * np.sum(w),
    "a key": lambda w, s: {0.3: 2.0}.get(float(s(w[0])), 1.0) * np.sum(w),
    "a tree": lambda w, s: s({"a": w[0], "b": [w[1]]})["b"][0] * np.sum(w),
    "into a plain array": lambda w, s: np.sum(put(np.zeros(3), s(w[0])) * w),
}


def put(array, value):
    array[1] = value
    return array


@pytest.mark.parametrize("case", MEANT)
def test_stop_gradient_says_that_it_is_meant(case):
    plain = MEANT[case]
    f = compile_grad(lambda w: plain(w, stop_gradient))
    for x in (X, X, X * 1.5, X):
        constants: list = []
        value = plain(x, lambda v, kept=constants: kept.append(v) or v)
        got, gradient = f.value_and_grad(x)
        assert got == pytest.approx(value, rel=1e-12)
        numeric = numerical_gradient(lambda w, c=constants[0]: plain(w, lambda v: c), (x,))
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6)


def test_stop_gradient_elsewhere():
    assert stop_gradient(2.0) == 2.0 and stop_gradient([X])[0] is X
    t = tracegrad.tensor([1.0, 2.0], requires_grad=True)
    assert not stop_gradient(t).requires_grad


QUESTIONS = {
    "int": lambda w: int(w[2]) * np.sum(w),
    "round": lambda w: round(w[2]) * np.sum(w),
    "floor": lambda w: math.floor(w[2]) * np.sum(w),
    "ceil": lambda w: math.ceil(float(w[2])) * np.sum(w),
    "is_integer": lambda w: (2 + float(w[2]).is_integer()) * np.sum(w),
    "trunc": lambda w: math.trunc(w[2]) * np.sum(w),
}


@pytest.mark.parametrize("case", QUESTIONS)
def test_integers_are_questions(case):
    plain = QUESTIONS[case]
    f = compile_grad(plain)
    for x in (X, X, X * 1.001, X + 1.3, X):
        np.testing.assert_allclose(f.value_and_grad(x)[0], plain(x), rtol=1e-12)
        np.testing.assert_allclose(f.grad(x), np.full(3, plain(x) / np.sum(x)), rtol=1e-12)
    assert f.stats.traces <= 6  # x and a hundredth of a percent more are one path


UNCONNECTED = {
    "a constant": lambda w: 3.0,
    "int": lambda w: float(int(np.sum(w))),
    "round": lambda w: round(np.sum(w)) * 1.0,
    "a comparison": lambda w: 1.0 if np.sum(w) > 0 else 2.0,
    "a length": lambda w: float(len(w)),
}


@pytest.mark.filterwarnings("ignore:the loss that")
@pytest.mark.parametrize("case", UNCONNECTED)
def test_a_loss_that_does_not_depend_on_its_argument_warns_once(case):
    plain = UNCONNECTED[case]
    f = compile_grad(plain)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(4):
            np.testing.assert_array_equal(f.value_and_grad(X)[1], np.zeros(3))
        count = len(found)
    warning, *_ = [w for w in found if "does not depend on `w`" in str(w.message)]
    assert warning.filename == __file__ and count == 1
    assert "does not depend on `w`" in autograd.grad(plain).explain(X, level="all")


def test_a_loss_that_depends_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for plain in (lambda w, b: np.sum(w), lambda w, b: np.sum(np.sign(w)), lambda w, b: np.sum(stop_gradient(w))):
            autograd.grad(plain, (0, 1))(X, X)


@pytest.mark.parametrize(
    "number", [lambda v: float(v > 9), lambda v: float(bool(np.isnan(v))), lambda v: float(len("ab") > 3)]
)
def test_a_truth_is_no_number_read_from_text(number, capsys):
    @compile_grad
    def f(x):
        total = np.sum(x * x)
        print("loss", total, f"{total:.1f}")
        return total + number(total)

    for k in (0.2, 1.0, 0.0, 2.0, 0.2):
        assert f.value_and_grad(np.full(1, k))[1].tolist() == [2 * k]
    assert capsys.readouterr().out.count("loss") == 5
