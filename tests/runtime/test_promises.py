"""The nine promises to the user, one test each (and where one has parts, one for each part)."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.special
from agreement import agree, numerical_gradient

from tracegrad import DifferentiationError, TracegradError, UnsupportedError, autograd, compile_grad, config

pytestmark = pytest.mark.usefixtures("fresh_kernels")

X = np.array([0.3, -1.2, 2.0, 0.7])
M = np.arange(12.0).reshape(3, 4) / 6 - 1


def test_1_plain_numpy_code_works():
    def plain(x):
        y = np.sin(x) @ M.T + scipy.special.erf(x[1:])
        rows = [np.sum(row**2) for row in M * x]
        z = np.where(y > 0, y, 0.1 * y).reshape(1, -1)
        return np.linalg.norm(z) + np.mean(np.stack(rows)) + np.sum(np.maximum(x, 0.0)) + x.T.dot(x) + np.cumsum(x)[-1]

    f = compile_grad(plain)
    for x in (X, X, 2 * X):
        agree(f, plain, x)


def test_1_what_is_not_supported_says_so():
    f = compile_grad(lambda x: np.sum(np.busday_offset(x, 1)))
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"np\.busday_offset .*not supported"):
            f.grad(X)


learning_rate = 0.5


def test_2_never_a_stale_answer():
    global learning_rate
    weights = np.ones(4)

    class Config:
        power = 2

    def scaled(x):
        return learning_rate * x**Config.power

    def plain(x):
        return np.sum(scaled(x) * weights)

    f = compile_grad(plain)
    changes = (
        lambda: None,
        lambda: None,
        lambda: globals().update(learning_rate=0.7),
        lambda: weights.__setitem__(0, 5.0),
        lambda: setattr(Config, "power", 3),
        lambda: weights.fill(2.0),
        lambda: globals().update(learning_rate=0.5),
    )
    for change in changes:
        change()
        agree(f, plain, X)
        agree(f, plain, X)
    assert not f.stats.live


def test_2_where_it_cannot_be_proven_python_runs_again():
    calls = itertools.count(1)

    def plain(x):
        return np.sum(x) * next(calls)

    f = compile_grad(plain)
    assert [float(f(X)) for _ in range(3)] == pytest.approx([X.sum(), 2 * X.sum(), 3 * X.sum()])
    assert f.stats.compiles == 1 and f.stats.live.endswith("(state/iterator)")


def test_3_control_flow_on_data():
    def plain(x):
        y = x
        while np.sum(y**2) > 0.5:
            y = y * 0.5 if y[0] > 0 else y * 0.25
        assert np.all(np.isfinite(y))
        return np.sum(y) if float(y[1]) < 0 else np.sum(y[: int(x[2])])

    f = compile_grad(plain)
    for x in (1.1 * X, -1.1 * X, 3.1 * X, 1.1 * X, -1.1 * X):
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(plain(x))
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), atol=1e-7)


@pytest.mark.parametrize("select", [True, False])
def test_3_any_number_of_branches_settles_on_a_few_kernels(select, monkeypatch):
    monkeypatch.setattr(config, "max_paths", 3)
    monkeypatch.setattr(config, "select_branches", select)

    def plain(x):
        y = x
        for k in range(8):
            y = np.sin(y) + 0.1 * x if y[k % 4] > 0 else y * 1.1
        return np.sum(y * y)

    f = compile_grad(plain)
    points = np.random.default_rng(0).normal(size=(120, 4))
    tells = pytest.warns(UserWarning, match=r"compiled \(more than 3 branch outcomes, the last at test_promises.py")
    with nullcontext() if select else tells:
        for x in points[:80]:
            f.value_and_grad(x)
    compiles = f.stats.compiles
    for x in points[80:]:
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(plain(x))
        np.testing.assert_allclose(gradient, numerical_gradient(plain, (x,)), atol=1e-6)
    assert f.stats.compiles == compiles <= (1 if select else 3 + 2 * 8 * 2)


def test_3_which_guard_failed_and_how_often():
    f = compile_grad(lambda x: np.sum(x) if x[0] > 0 else np.sum(x * x))
    for x in (X, X, X, -X, -X, X):
        f(x)
    first, second = f.stats.paths
    assert (first.runs, second.runs) == (4, 2)
    assert list(first.misses) == list(first.answers) and "bool() gave True at test_promises.py" in first.answers[0]


@pytest.mark.slow
def test_4_a_long_python_loop_does_not_make_a_long_compile():
    """50 steps and 20,000 steps are one program: one compilation, and as many lines in its text."""

    @compile_grad
    def decay(x, steps):
        y = x
        for k in range(steps):
            y = y + 0.001 * (np.sin(y) * x - 0.5 * y) + 1e-6 * k
        return np.sum(y)

    def plain(x, steps):
        y = x
        for k in range(steps):
            y = y + 0.001 * (np.sin(y) * x - 0.5 * y) + 1e-6 * k
        return np.sum(y)

    x = np.array([0.3, 1.2, -0.7])
    lengths = set()
    for steps in (50, 20_000, 333, 50):
        value, gradient = decay.value_and_grad(x, steps)
        np.testing.assert_allclose(value, plain(x, steps), rtol=1e-10)
        e = 1e-6 * np.eye(3)
        slopes = [(plain(x + d, steps) - plain(x - d, steps)) / 2e-6 for d in e]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5)
        lengths.add(len(decay.explain(x, steps, level="all").partition("--- loops")[0].splitlines()))
    assert decay.stats.compiles == 1
    assert len(lengths) == 1


def test_5_sizes_rates_and_constants_do_not_recompile():
    rng = np.random.default_rng(0)
    scale = 1.0
    f = compile_grad(lambda w, data, rate: np.mean(np.tanh(data @ w) ** 2) * rate * scale)
    for n, rate, scale in zip(
        range(20, 30), np.linspace(0.1, 1, 10).tolist(), np.linspace(1, 2, 10).tolist(), strict=True
    ):
        w, data = rng.normal(size=30), rng.normal(size=(n, 30))
        t = np.tanh(data @ w)
        gradient = f.grad(w, data, rate)
        np.testing.assert_allclose(gradient, data.T @ (2 * t * (1 - t**2)) / n * rate * scale, rtol=1e-9, atol=1e-12)
    assert f.stats.compiles == 1


def test_6_derivatives_of_derivatives():
    def plain(x):
        return np.sin(x) * np.exp(x / 2)

    derivative = plain
    for order in range(4):
        expected = np.imag((1j + 0.5) ** order * np.exp((1j + 0.5) * 0.8))
        for _ in range(3):
            assert derivative(0.8) == pytest.approx(expected, rel=1e-9)
        derivative = autograd.grad(derivative)


def test_6_hessian_of_a_compiled_function():
    f = compile_grad(lambda x: np.sum(x[:-1] ** 2 * x[1:]) + np.prod(x))
    row = compile_grad(lambda x, v: np.sum(f.grad(x) * v))
    hessian = np.stack([row.grad(X, v) for v in np.eye(4)])
    step = 1e-6
    expected = np.stack([(f.grad(X + step * v) - f.grad(X - step * v)) / (2 * step) for v in np.eye(4)])
    np.testing.assert_allclose(hessian, expected, atol=1e-8)
    np.testing.assert_allclose(hessian, hessian.T)


def test_7_where_does_not_leak_nan():
    def plain(x):
        safe = np.where(x > 0, np.sqrt(x) + np.log(x), 0.0)
        return np.sum(safe) + np.sum(np.where(x == 0, 1.0, np.sin(x) / x))

    x = np.array([-1.0, 0.0, 4.0, 0.25])
    f = compile_grad(plain)
    for _ in range(3):
        value, gradient = f.value_and_grad(x)
        with np.errstate(all="ignore"):
            assert value == pytest.approx(plain(x))
            sinc = np.where(x == 0, 0.0, (np.cos(x) * x - np.sin(x)) / x**2)
            root = np.where(x > 0, 0.5 / np.sqrt(x) + 1 / x, 0.0)
        np.testing.assert_allclose(gradient, root + sinc)


_BITS = """
import numpy as np
from tracegrad import compile_grad
rng = np.random.default_rng(0)
w, X = rng.normal(size=33), rng.normal(size=(4097, 33))
f = compile_grad(lambda w, X: np.mean(np.log1p(np.exp(-(X @ w)))) + np.sum(np.exp(w)) * 1e-3)
first = [r.tobytes() for r in f.value_and_grad(w, X)]
for _ in range(5):
    assert [r.tobytes() for r in f.value_and_grad(w, X)] == first
assert [r.tobytes() for r in f.value_and_grad(w, np.asfortranarray(X))] == first
print(b"".join(first).hex())
"""


def test_8_the_same_inputs_give_the_same_bits():
    def run(threads):
        names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "TRACEGRAD_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        return subprocess.run(
            [sys.executable, "-c", _BITS], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run("1") == run("2") != ""


def test_9_errors_teach():
    def bad_shape(x):
        return np.sum(x + np.ones(3))

    def not_a_scalar(x):
        return x * 2

    def writes(x):
        x[0] = 0.0
        return np.sum(x)

    cases = (
        (bad_shape, X, TracegradError, "reshape"),
        (not_a_scalar, X, DifferentiationError, "np.sum"),
        (writes, X, TracegradError, "x.copy()"),
        (np.sum, np.arange(3), DifferentiationError, "astype(float)"),
    )
    for fn, argument, kind, remedy in cases:
        with pytest.raises(kind) as caught:
            compile_grad(fn).grad(argument)
        message = str(caught.value)
        assert "test_promises.py" in message and remedy in message and "line" in message
