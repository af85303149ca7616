"""Bad input: each error is tracegrad's own, names the user's file and line and the remedy, and leaves everything
intact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.spatial
from scipy import optimize

import tracegrad
from tracegrad import (
    DifferentiationError,
    MutationError,
    ShapeError,
    TracegradError,
    UnsupportedError,
    autograd,
    compile_grad,
)
from tracegrad.tracer.ir.aval import BFLOAT16
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder, recording

X = np.array([0.3, 1.2, 2.0, 0.7])
HERE = "test_errors.py"


class Foreign:
    """Looks like an array of another library."""

    __module__ = "jax"
    shape = (4,)

    def __array__(self, dtype=None, copy=None):
        return X


def good(x):
    return np.sum(x**2)


def line_of(fn: Callable[..., Any]) -> int:
    """The line in *fn* that is marked as the bad one."""
    source = open(fn.__code__.co_filename).read().splitlines()  # noqa: SIM115
    start = fn.__code__.co_firstlineno
    return next(n for n in range(start, start + 20) if "# bad" in source[n - 1])


buffer = np.zeros(4)
leaked = []


def shapes(x):
    return np.sum(x + np.ones(3))  # bad


def matmul_shapes(x):
    return np.sum(np.ones((2, 3)) @ x)  # bad


def unsupported_function(x):
    return np.sum(np.busday_offset(x, 1))  # bad


def unsupported_scipy(x):
    return np.sum(scipy.spatial.ConvexHull(x).volume)  # bad


def unsupported_method(x):
    return np.sum(x.tobytes())  # bad


def math_function(x):
    return math.ulp(x[0])  # bad


def from_buffer(x):
    return np.sum(np.frombuffer(x, float))  # bad


def object_array(x):
    return np.sum(x * np.array([1, "a", None, 2], dtype=object))  # bad


def writes_to_the_input(x):
    x[0] = 1.0  # bad
    return np.sum(x)


def adds_to_the_input(x):
    x += 1.0  # bad
    return np.sum(x)


def out_into_a_plain_array(x):
    np.multiply(x, 2.0, out=buffer)  # bad
    return np.sum(buffer)


def writes_to_a_captured_array(x):
    buffer[0] = 1.0  # bad
    return np.sum(x * buffer)


def index_out_of_bounds(x):
    return x[7]  # bad


def truth_of_an_array(x):
    return np.sum(x) if x > 0 else 0.0  # bad


def text(x):
    return np.sum(x) + "1"  # bad


def foreign_inside(x):
    return np.sum(x * Foreign())


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        (shapes, ShapeError, ["(4,) (3,)", "reshape"]),
        (matmul_shapes, ShapeError, ["3"]),
        (unsupported_function, UnsupportedError, ["np.busday_offset"]),
        (unsupported_scipy, TracegradError, ["plain NumPy array"]),
        (unsupported_method, UnsupportedError, ["tobytes"]),
        (math_function, UnsupportedError, ["math.ulp", "stop_gradient"]),
        (from_buffer, UnsupportedError, ["frombuffer", "no memory"]),
        (object_array, UnsupportedError, ["object"]),
        (writes_to_the_input, MutationError, ["`x`", "x.copy()"]),
        (adds_to_the_input, MutationError, ["`x`", "x = x + ..."]),
        (out_into_a_plain_array, MutationError, ["buffer", "copy"]),
        (writes_to_a_captured_array, MutationError, ["buffer", "copy"]),
        (index_out_of_bounds, IndexError, ["out of bounds"]),
        (truth_of_an_array, ValueError, ["a.any()"]),
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_errors_inside_the_function(bad, kind, words):
    f = compile_grad(bad)
    for call in (f.value_and_grad, f.grad, f, autograd.grad(bad), f.grad):
        with pytest.raises(kind) as caught:
            call(X)
        message = str(caught.value)
        for word in words:
            assert word in message
        assert f'{HERE}", line {line_of(bad)}, in {bad.__name__}' in message
    np.testing.assert_array_equal(buffer, np.zeros(4))
    np.testing.assert_array_equal(X, [0.3, 1.2, 2.0, 0.7])
    assert compile_grad(good).grad(X) == pytest.approx(2 * X)  # nothing is left behind


def test_foreign_operands():
    f = compile_grad(text)
    for _ in range(2):
        with pytest.raises(TypeError, match="unsupported operand"):
            f.grad(X)


def test_arrays_of_other_libraries_are_what_they_say_they_are():
    f = compile_grad(foreign_inside)
    for _ in range(3):
        np.testing.assert_array_equal(f.grad(X), X)
        assert f(X) == foreign_inside(X)


def raised(call, *args, kind=TracegradError, **kwargs) -> str:
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert HERE in str(caught.value)
    return str(caught.value)


# ---- arguments and results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (np.arange(4), ["`x`", "int64", "astype(float)"]),
        (np.array([True, False]), ["bool", "astype(float)"]),
        (3, ["int 3", "3.0"]),
        (True, ["bool True"]),
        ("text", ["str 'text'"]),
        ({"a": X, "b": 2}, ["x['b']", "int 2"]),
        ([X, [np.arange(2)]], ["x[1][0]", "int64"]),
    ],
)
def test_gradients_of_what_is_no_float(argument, words):
    f = compile_grad(lambda x: 1.0)
    for call in (f.grad, f.value_and_grad, autograd.grad(lambda x: 1.0), f.grad):
        message = raised(call, argument, kind=DifferentiationError)
        for word in words:
            assert word in message


def test_gradient_of_an_object():
    class Options:
        k = 1.0

    message = raised(compile_grad(lambda o: o.k).grad, Options(), kind=DifferentiationError)
    assert "Options" in message and "attribute of its own" in message
    message = raised(compile_grad(good).grad, Foreign(), kind=DifferentiationError)
    assert "jax.Foreign" in message and "np.asarray" in message


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (lambda x: x, ["shape (4,)", "np.sum"]),
        (lambda x: x[:1], ["shape (1,)", "np.sum"]),
        (lambda x: (np.sum(x), x), ["tuple", "has_aux=True"]),
        (lambda x: [np.sum(x)], ["list", "np.sum"]),
        (lambda x: None, ["None", "return"]),
        (lambda x: "text", ["str"]),
        (lambda x: np.argmax(x), ["int64", "return a float"]),
        (lambda x: x[0] > 0, ["bool", "return a float"]),
        (lambda x: True, ["bool"]),
    ],
)
def test_results_that_have_no_gradient(out, words):
    f = compile_grad(out)
    for call in (f.grad, f.value_and_grad, f.grad):
        message = raised(call, X, kind=DifferentiationError)
        assert "test_errors.py:" in message  # where the function is defined
        for word in words:
            assert word in message
    f(X)  # its value can still be had


def test_wrong_argnums():
    f = compile_grad(good, argnums=1)
    message = raised(f.grad, X, kind=DifferentiationError)
    assert "argnums=1" in message and "1 positional argument;" in message
    assert "0 positional arguments" in raised(compile_grad(good).grad, x=X, kind=DifferentiationError)
    assert "argnums=(0, -3)" in raised(compile_grad(good, argnums=(0, -3)).grad, X, kind=DifferentiationError)
    assert "argnums=2" in raised(autograd.grad(good, 2), X, kind=DifferentiationError)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (np.array([1.0, None], dtype=object), ["object"]),
        (
            np.array([1.0], np.longdouble),
            ["longdouble" if np.dtype(np.longdouble).itemsize == 8 else "float128", "astype"],
        ),
        (np.array(["a"]), ["<U1"]),
        (np.ma.masked_array([1.0, 2.0], [True, False]), ["MaskedArray", "np.asarray"]),
        (np.recarray((2,), float), ["recarray", "np.asarray"]),
        (np.datetime64("2020-01-01"), ["datetime64"]),
        (np.float16(1.0), ["float16", "float("]),
        (BFLOAT16.type(1.0), ["bfloat16", "float("]),
    ],
    ids=lambda p: type(p).__name__,
)
def test_arguments_that_are_not_supported(argument, words):
    f = compile_grad(good)
    np.testing.assert_allclose(f.grad(X), 2 * X)
    for call in (f, f.grad, f.value_and_grad, f.grad):
        message = raised(call, argument, kind=UnsupportedError)
        for word in words:
            assert word in message
        np.testing.assert_allclose(f.grad(X), 2 * X)


def test_static_arrays():
    f = compile_grad(lambda x, w: np.sum(x * w), static_argnames="w")
    assert "static" in raised(f.grad, X, X, kind=UnsupportedError)


# ---- traced arrays where they don't belong -------------------------------------------------------------------------


def test_leaked_tracer():
    seen = []

    def keep(value):
        seen.append(value)
        return value

    f = compile_grad(lambda x: np.sum(keep(x * 2)))
    f(X)
    assert type(seen[0]) is np.ndarray  # what can be found is turned into its value

    # one that nobody could find
    recorder = Recorder()
    with recording(recorder):
        y = TracedArray(recorder.add_input(X, "x"), recorder)
    for use in (lambda: y + 1, lambda: np.sum(y), lambda: f(y), lambda: compile_grad(lambda x: x * y)(X)):
        message = raised(use)
        assert "return it from the function" in message or "only inside a function" in message


def test_exceptions_of_the_users_own_pass_through():
    class MyError(Exception):
        pass

    def plain(x):
        if np.sum(x) > 10:
            raise MyError("mine")
        return np.sum(x)

    f = compile_grad(plain)
    for _ in range(3):
        np.testing.assert_allclose(f.grad(X), np.ones(4))
        with pytest.raises(MyError, match="mine"):
            f.grad(X * 10)
    assert f(X) == pytest.approx(X.sum())


def test_wrong_number_of_arguments():
    f = compile_grad(good)
    for _ in range(2):
        with pytest.raises(TypeError, match="positional argument"):
            f(X, X)
        with pytest.raises(TypeError, match="unexpected keyword"):
            f(X, k=2)
        np.testing.assert_allclose(f.grad(X), 2 * X)


def test_target_that_is_not_there():
    assert 'target="cpu"' in raised(compile_grad, good, target="tpu")


def test_parts_of_an_array_that_another_name_makes_take_assignments():
    make = np.zeros

    def loss(x):
        out, other = np.split(make(4), 2)
        out[0] = x[0] * 2.0
        return np.sum(out) + np.sum(other)

    value, gradient = compile_grad(loss).value_and_grad(np.arange(3.0) + 1)
    assert value == 2.0
    np.testing.assert_array_equal(gradient, [2.0, 0.0, 0.0])


def test_tracegrad_zeros_takes_assignments():
    def loss(x):
        out = tracegrad.zeros(3)
        for i in range(3):
            out[i] = x[i] ** 2 * (i + 1)
        return np.sum(out)

    value, gradient = compile_grad(loss).value_and_grad(np.array([1.0, 2.0, 3.0]))
    assert value == 1 + 8 + 27
    np.testing.assert_array_equal(gradient, [2.0, 8.0, 18.0])


NO_PAIRS = {
    "minimize": lambda f, x: optimize.minimize(f, x),
    **{
        name: lambda f, x, name=name: optimize.minimize(f, x, method=name)
        for name in ("BFGS", "L-BFGS-B", "Nelder-Mead", "SLSQP", "trust-constr", "COBYLA")
    },
    "minimize_scalar": lambda f, x: optimize.minimize_scalar(f),
    "basinhopping": lambda f, x: optimize.basinhopping(f, x, niter=1),
    "fmin": lambda f, x: optimize.fmin(f, x, disp=0),
    "fmin_l_bfgs_b": lambda f, x: optimize.fmin_l_bfgs_b(f, x, approx_grad=True),
    "least_squares": lambda f, x: optimize.least_squares(f, x),
    "brentq": lambda f, x: optimize.brentq(f, -1.0, 2.0),
}
PAIRS = {
    "minimize": lambda f, x: optimize.minimize(f, x, jac=True),
    "args": lambda f, x: optimize.minimize(lambda x, a: f(a * x), x, args=(2.0,), jac=True),
    "Nelder-Mead": lambda f, x: optimize.minimize(f, x, jac=True, method="Nelder-Mead"),
    "basinhopping": lambda f, x: optimize.basinhopping(f, x, niter=1, minimizer_kwargs={"jac": True}),
    "fmin_l_bfgs_b": lambda f, x: optimize.fmin_l_bfgs_b(f, x),
    "root_scalar": lambda f, x: optimize.root_scalar(f, x0=0.5, fprime=True),
    "within": lambda f, x: optimize.minimize(lambda x: f(x)[0], x),
}


def pairs():
    """Functions that give value and gradient, of which nothing has been recorded."""

    def squares(x):
        return np.sum((x - 1) ** 2)

    class Fit:
        def __init__(self) -> None:
            self.target = 1.0

        @compile_grad
        def loss(self, x):
            return np.sum((x - self.target) ** 2)

    return compile_grad(squares).value_and_grad, autograd.value_and_grad(squares), Fit().loss.value_and_grad


@pytest.mark.parametrize("name", NO_PAIRS)
def test_a_solver_that_takes_no_gradient_is_told_from_one_that_does(name):
    for f in pairs():
        with pytest.raises(
            TypeError, match=r"write jac=True beside it, as in minimize\(f.value_and_grad, x0, jac=True"
        ):
            NO_PAIRS[name](f, np.zeros(2))


@pytest.mark.parametrize("name", PAIRS)
def test_solvers_that_take_both_are_left_alone(name):
    for f in pairs():
        PAIRS[name](f, np.zeros(2))
