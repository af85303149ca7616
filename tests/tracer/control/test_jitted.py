"""Functions that numba compiles, recorded through their Python source, against that source in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import autograd, compile_grad
from tracegrad.tracer.ir.errors import UnsupportedError

X = np.array([0.7, -1.3, 0.4, 2.2])
CALLS = (X, np.array([-0.3, 0.9, 1.4, -2.0]), X, np.array([1.0, 2.0, 3.0, 4.0]))
WEIGHTS = np.array([0.5, 1.5, 2.5, 3.5])
SCALE = 1.5
PROGRAMS: dict[str, Any] = {}


def program(make: Callable[..., Any]) -> Callable[..., Any]:
    """A program that is made of a decorator: numba's, or one that changes nothing."""
    PROGRAMS[make.__name__.replace("_", " ").strip()] = make
    return make


@program
def a_helper_and_one_of_its_own(njit):
    @njit
    def square(x):
        return x * x + math.sin(x) * SCALE

    @njit
    def twice(x):
        return square(square(x)) + WEIGHTS[0] * x

    return lambda x: square(x[0]) + twice(x[1])


@program
def a_branch_in_a_loop(njit):
    @njit
    def relu(x):
        if x > 0:
            return x
        return 0.1 * x

    @njit
    def total(x):
        s = 0.0
        for i in range(x.shape[0]):
            s += relu(x[i]) ** 2
        return s

    return total


@program
def a_matrix_times_a_vector(njit):
    @njit
    def product(a, x):
        n, m = a.shape
        out = np.zeros(n)
        for i in range(n):
            for j in range(m):
                out[i] += a[i, j] * x[j]
        return out

    a = np.arange(20.0).reshape(5, 4)
    return lambda x: np.sum(product(a, x) ** 2)


@program
def writes_into_an_argument(njit):
    @njit
    def slopes(state, out, rate):
        out[0] = rate * (state[1] - state[0])
        out[1] = state[0] * (2.0 - state[2]) - state[1]
        out[2] = state[0] * state[1] - state[2]

    @njit
    def run(x):
        state, k = x[:3].copy(), np.empty(3)
        path = np.empty((10, 3))
        for i in range(10):
            slopes(state, k, x[3])
            state += 0.01 * k
            path[i] = state
        return path

    return lambda x: np.sum(run(x) ** 2)


@program
def rows_in_parallel(njit):
    @njit(parallel=True, fastmath=True)
    def rows(x):
        out = np.zeros(x.shape[0])
        for i in numba.prange(x.shape[0]):
            out[i] = math.exp(-(x[i] ** 2))
        return out

    return lambda x: rows(x).sum()


@program
def newtons_method(njit):
    number = numba.float64 if njit is numba.njit else float

    @njit
    def root(a):
        x = number(1.0)
        for _ in range(50):
            step = (x * x - a) / (2 * x)
            x -= step
            if abs(step) < 1e-12:
                break
        return x, 3

    return lambda x: root(abs(x[0]))[0] * root(2.0)[1]


@program
def recursion(njit):
    @njit
    def power(n, x):
        if n == 0:
            return x
        return power(n - 1, x) * 0.5 + x * x

    return lambda x: power(4, x[0])


@program
def static_methods_and_state(njit):
    class Model:
        def __init__(self):
            self.rate, self.matrix = 2.0, np.arange(12.0).reshape(3, 4)

        @staticmethod
        @njit
        def kernel(a, x, rate):
            return np.sum(a @ x) * rate

        def loss(self, x):
            return self.kernel(self.matrix, x, self.rate)

    return Model().loss


@program
def in_a_dict_and_as_an_argument(njit):
    @njit
    def square(x):
        return x * x

    @njit
    def apply(f, x):
        return f(x) * 2.0

    table = {"square": square}
    return lambda x: table["square"](x[0]) + apply(square, x[1])


@program
def made_in_the_function(njit):
    def loss(x):
        k = x[0] * 2

        @njit
        def inner(y):
            return y * k

        return inner(3.0) + inner(x[1])

    return loss


def _is(f: Any = None, **options: Any) -> Any:
    return f if f is not None else lambda g: g


SLOW = {"writes into an argument", "in a dict and as an argument"}


@pytest.mark.parametrize(
    "make",
    [pytest.param(m, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, m in PROGRAMS.items()],
)
def test_programs(make):
    loss, plain = compile_grad(make(numba.njit)), make(_is)
    for x in CALLS * 2:
        value, gradient = loss.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), rtol=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=1e-5, atol=1e-6)
    traces = loss.stats.traces
    loss.value_and_grad(X)
    assert not loss.stats.live and loss.stats.traces == traces


@numba.njit
def _scaled(x):
    return x * SCALE + WEIGHTS[1]


def test_globals_are_read_as_they_are_now():
    global SCALE
    loss = compile_grad(lambda t: _scaled(t) * 2.0)
    for _ in range(3):
        assert loss.value_and_grad(2.0) == (9.0, 3.0)
    SCALE, WEIGHTS[1] = 2.5, 0.5
    try:
        for _ in range(3):
            assert loss.value_and_grad(2.0) == (11.0, 5.0)
    finally:
        SCALE, WEIGHTS[1] = 1.5, 1.5


def test_explain_says_what_was_recorded_through_its_source():
    text = compile_grad(lambda t: _scaled(t) * 2.0).explain(2.0, level="all")
    assert "`_scaled` is compiled by numba: recorded through its Python source" in text


def test_functions_are_compiled_and_differentiated_as_they_are():
    @numba.njit
    def cube(x, k):
        for _ in range(k):
            x = x * x * x
        return x

    assert compile_grad(cube).value_and_grad(2.0, 1) == (8.0, 12.0)
    assert autograd.grad(autograd.grad(cube))(2.0, 1) == 12.0


def test_plain_data_are_for_the_machine_code():
    runs = []

    @numba.njit
    def table(n):
        out = np.empty(n)
        for i in range(n):
            out[i] = i
        return out

    @numba.njit
    def add_one(a):
        for i in range(len(a)):
            a[i] += 1.0

    def loss(x):
        runs.append(1)
        made = np.zeros(3)
        add_one(made)  # in place, into an array that stays plain
        rows = table(3)
        rows[0] = x[0]  # into one that then is traced
        return np.sum(rows * x[:3]) + made[1] * x[1]

    f = compile_grad(loss)
    for _ in range(3):
        value, gradient = f.value_and_grad(X)
        np.testing.assert_allclose(value, X[0] ** 2 + X[1] + 2 * X[2] + X[1])
        np.testing.assert_allclose(gradient, [2 * X[0], 2.0, 2.0, 0.0])
    assert table.signatures and add_one.signatures
    assert _scaled(1.0) == 3.0  # numba's classes are called as before


def test_declared_signatures_cast_numbers():
    @numba.njit("float32(float32)")
    def single(x):
        return x * x

    @numba.njit(["float64(float64)", "int64(int64)"])
    def either(x):
        return x * x

    value, gradient = compile_grad(lambda t: single(t) + either(3) * t + either(t))(1.1), None
    assert value == float(np.float32(1.1) * np.float32(1.1)) + 9 * 1.1 + 1.1 * 1.1
    gradient = compile_grad(single).grad(1.5)
    assert gradient == 3.0
    with pytest.raises(TypeError, match="declared for"):
        compile_grad(lambda x: single(x))(X)


def test_division_and_math_as_numba_does_them():
    @numba.njit(error_model="numpy")
    def quotient(a, b):
        return a / b

    @numba.njit
    def python_quotient(a, b):
        return a / b

    @numba.njit
    def root(a):
        return math.sqrt(a) + a**0.5

    f = compile_grad(lambda t: quotient(1.0, t))
    assert f(2.0) == 0.5 and f(0.0) == np.inf and f(4.0) == 0.25
    g = compile_grad(lambda t: python_quotient(1.0, t))
    assert g(2.0) == 0.5
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            g(0.0)
    h = compile_grad(lambda t: root(t))
    assert h(4.0) == 4.0 and np.isnan(h(-1.0)) and h(9.0) == 6.0 and not h.stats.paths[0].answers


@pytest.mark.slow
def test_ufuncs():
    def branches(x, y):
        if x > y:
            return x * y
        elif x > 0:
            return math.exp(x)
        return 0.0

    def halved(x):
        while abs(x) > 1.0:
            x = x / 2
        return x * x

    def table(x, k):
        return WEIGHTS[int(k)] * x

    def raises(x):
        if x < -100:
            raise ValueError("too small")
        return math.sqrt(x) if x > 0 else x

    functions = (branches, halved, table, raises)
    made = {f.__name__: (numba.vectorize(f), np.vectorize(f, otypes=[float])) for f in functions}
    declared = numba.vectorize(["float32(float32)", "float64(float64)"])(raises)

    def loss(k):
        def f(x):
            u = made["branches"][k](x, WEIGHTS[::-1]) + made["branches"][k](x[0], 0.5)
            u = u * made["halved"][k](x) + made["table"][k](x, np.arange(4.0)) + made["raises"][k](np.stack([x, 2 * x]))
            return np.sum(u) + (declared if k == 0 else made["raises"][1])(x[0])

        return f

    f, plain = compile_grad(loss(0)), loss(1)
    for x in CALLS:
        value, gradient = f.value_and_grad(x + 0.01)
        np.testing.assert_allclose(value, plain(x + 0.01), rtol=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x + 0.01,)), rtol=1e-5, atol=1e-6)
    one = compile_grad(lambda x: np.sum(made["branches"][0](x, 0.5)))
    assert all(one.value_and_grad(x) and not one.stats.paths[0].answers for x in CALLS)  # chosen by elements
    big = compile_grad(lambda x: np.sum(made["raises"][0](x)))
    big.grad(np.linspace(-1.0, 1.0, 10_000))
    assert compile_grad(declared)(np.float32(4.0)).dtype == np.float32
    with pytest.raises(ValueError, match="too small"):
        big(np.array([-101.0, 2.0]))


def test_branches_of_functions_of_numbers_are_choices():
    """So that one recording is for all data, and its loops repeat."""

    @numba.njit
    def minmod(a, b):
        if a * b <= 0:
            return 0.0
        elif abs(a) < abs(b):
            return a
        return b

    @numba.njit
    def clamped(x, low, high):
        if x < low:
            return low, True
        if x > high:
            return high, True
        return x, True

    @numba.njit
    def root(x):
        if x < -100:
            raise ValueError("too small")
        try:
            return math.sqrt(x) if x > 0 else -x
        except Exception:
            return 0.0

    def make(minmod, clamped, root):
        def total(u):
            s = 0.0
            for i in range(1, len(u) - 1):
                d = minmod(u[i] - u[i - 1], u[i + 1] - u[i])
                c, ok = clamped(u[i], -1.0, 1.5)
                s += max(d, 0.5 * c) ** 2 * ok + min(u[i], c, 0.2) * root(u[i])
            return s

        return total

    f, plain = (
        compile_grad(numba.njit(make(minmod, clamped, root))),
        make(*[g.py_func for g in (minmod, clamped, root)]),
    )
    for seed in range(6):
        x = np.random.default_rng(seed).normal(size=60)
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), rtol=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=1e-5, atol=1e-6)
    assert f.stats.traces == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="too small"):
            f(np.array([1.0, -200.0, 2.0]))


@pytest.mark.slow
def test_other_functions_of_numbers_run_as_they_are():
    @numba.njit
    def side(x):
        if x < 0:
            return 0
        return 2

    @numba.njit
    def halved(x):
        if x > 8.0:
            return halved(x / 2)
        return x * x

    @numba.njit
    def turned(z):
        return z * 1j if z.real > 0 else z

    square = numba.vectorize(lambda z: z * z if z.real > 0 else z)

    def make(side, halved, turned, square):
        def f(x):
            z = x[0] + 1j * x[1]
            return x[side(x[0])] + halved(x[3] * 20) + np.abs(turned(z)) + square(z).real

        return f

    f = compile_grad(make(side, halved, turned, square))
    plain = make(side.py_func, halved.py_func, turned.py_func, np.vectorize(lambda z: z * z if z.real > 0 else z))
    for x in CALLS:
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), rtol=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_generalized_ufuncs_and_callbacks():
    @numba.guvectorize(["(f8[:], f8[:], f8[:])"], "(n),(n)->()")
    def inner(x, y, out):
        out[0] = 0.0
        for i in range(len(x)):
            out[0] += x[i] * y[i]

    @numba.guvectorize(["(f8[:], f8[:])"], "(n)->(n)")
    def squares(x, out):
        s = 0.0
        for i in range(len(x)):
            s += x[i]
            out[i] = s * s

    @numba.cfunc("float64(float64, float64)")
    def callback(x, y):
        return x * math.cos(y)

    def loss(inner, squares):
        def f(x):
            out = np.empty(4)
            squares(x, out)
            return np.sum(inner(np.stack([x, 2 * x]), WEIGHTS)) + np.sum(out) + callback(x[0], x[1])

        return f

    def plain_squares(x, out):
        out[:] = np.cumsum(x) ** 2

    f, plain = compile_grad(loss(inner, squares)), loss(lambda a, b: a @ b, plain_squares)
    for x in CALLS:
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), rtol=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_refused_by_name():
    @numba.stencil
    def around(a):
        return 0.5 * (a[-1] + a[1])

    def typed(x):
        values = numba.typed.List()
        values.append(x[0])
        return values[0]

    for f in (typed, lambda x: np.sum(around(x))):
        with pytest.raises(UnsupportedError, match=r"of numba's own .*\n.*test_jitted.py"):
            compile_grad(f).grad(X)


def test_random_numbers_and_prints_in_compiled_functions(capsys):
    @numba.njit
    def draw(n):
        return np.random.rand(n)

    @numba.njit
    def shout(x):
        print("called with", x)
        return 2.0 * x

    f = compile_grad(lambda t: t * shout(1.0))
    for _ in range(3):
        f.grad(2.0)
    assert capsys.readouterr().out == "called with 1.0\n" * 3
    g = compile_grad(lambda t: t * draw(2).sum())
    assert g(1.0) != g(1.0) and "random" in g.stats.live
