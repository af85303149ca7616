# ruff: noqa: B007, B020, C416, C417, UP031  (loop variables are the state that the functions read)
"""Traps: what a function reads changes between calls, or its control flow does.  The answer is right every time.

Each test compares several calls with plain NumPy and finite differences (``agree``).  Where a function changes its
own state, plain Python runs on a twin.  Asserts are as users write them (PYTEST_DONT_REWRITE): see test_packages.py.
"""

from __future__ import annotations

import math
import numbers
import threading
import types
from collections import OrderedDict

import numpy as np
import pytest
from agreement import agree, numerical_gradient

from tracegrad import MutationError, UnsupportedError, autograd, compile_grad, stop_gradient

pytestmark = pytest.mark.usefixtures("fresh_kernels")

X = np.array([0.3, -1.2, 2.0, 0.7])

learning_rate = 0.1
matrix = np.arange(16.0).reshape(4, 4) / 10
counter = 0
scale_of = lambda x: x * 2.0  # noqa: E731


@pytest.fixture(autouse=True)
def fresh_globals():
    before = dict(globals())
    yield
    globals().update({k: before[k] for k in ("learning_rate", "matrix", "counter", "scale_of")})


# ---- captured values ---------------------------------------------------------------------------------------------


def test_captured_global_learning_rate():
    global learning_rate

    def plain(x):
        return np.sum(x - learning_rate * x**2)

    f = compile_grad(plain)
    for learning_rate in (0.1, 0.1, 0.2, 0.2, 0.1, 0.3):
        agree(f, plain, X)
    assert f.stats.compiles == 4  # kernels for the value and the gradient, with the rate as a constant and as a number


def test_closure_variable_is_rebound():
    rate = 1.0

    def plain(x):
        return np.sum(np.sin(x) * rate)

    f = compile_grad(plain)
    for rate in (1.0, 1.0, 2.5, 2.5, 1.0):
        agree(f, plain, X)


class Model:
    def __init__(self, k: float = 2.0, w: np.ndarray | None = None):
        self.k = k
        self.w = np.ones(4) if w is None else w

    def plain(self, x):
        return np.sum((x * self.w) ** 2) * self.k

    loss = compile_grad(plain)


def test_attribute_of_self():
    model = Model()
    for model.k in (2.0, 2.0, 3.0, 3.0, 2.0):
        agree(model.loss, model.plain, X)


def test_array_attribute_replaced_and_changed_in_place():
    model = Model()
    agree(model.loss, model.plain, X)
    agree(model.loss, model.plain, X)
    model.w = np.arange(4.0)
    agree(model.loss, model.plain, X)
    model.w[2] = 7.0
    agree(model.loss, model.plain, X)


def test_two_instances():
    a, b = Model(1.0), Model(5.0, np.array([1.0, 2.0, 3.0, 4.0]))
    before = Model.loss.stats.compiles
    for model in (a, b, a, b, b, a):
        agree(model.loss, model.plain, X)
    assert (
        Model.loss.stats.compiles - before <= 4
    )  # of the value and the gradient, each with the number as an input, too


def test_flag_of_a_settings_object():
    cfg = types.SimpleNamespace(flag=True, power=2)

    def plain(x):
        return np.sum(x**cfg.power) if cfg.flag else np.sum(np.abs(x))

    f = compile_grad(plain)
    for cfg.flag, cfg.power in ((True, 2), (True, 2), (False, 2), (False, 2), (True, 3), (True, 2)):
        agree(f, plain, X)


def test_arrays_in_a_settings_object():
    cfg = types.SimpleNamespace(weights=[np.arange(4.0), np.ones(4)], power=2)

    def plain(x):
        return sum(np.sum(w * x**cfg.power) for w in cfg.weights)

    f = compile_grad(plain)
    agree(f, plain, X)
    agree(f, plain, X)
    cfg.weights.append(np.full(4, 0.5))
    agree(f, plain, X)
    cfg.weights[0][1] = 7.0
    agree(f, plain, X)


def test_settings_object_as_an_argument():
    def plain(x, cfg):
        return np.sum(x * cfg.scale) if cfg.scale > 1 else np.sum(x**2)

    f = compile_grad(plain)
    cfg = types.SimpleNamespace(scale=0.5)
    for cfg.scale in (0.5, 0.5, 2.0, 2.0, 0.5):
        agree(f, plain, X, cfg)
    agree(f, plain, X, types.SimpleNamespace(scale=4.0))


def test_list_item():
    lr = [0.5, 1.0]

    def plain(x):
        return np.sum(x * lr[0]) + lr[-1] * np.sum(x**2)

    f = compile_grad(plain)
    for value in (0.5, 0.5, 0.7, 0.7):
        lr[0] = value
        agree(f, plain, X)
    lr.append(9.0)
    agree(f, plain, X)
    del lr[1]
    agree(f, plain, X)


def test_dict_value():
    options = {"a": 1.0, "b": {"c": 2.0}}

    def plain(x):
        return np.sum(x * options["a"]) ** 2 * options["b"]["c"] + options.get("bias", 0.0)

    f = compile_grad(plain)
    for options["a"] in (1.0, 1.0, 2.0):
        agree(f, plain, X)
    options["b"]["c"] = -1.0
    agree(f, plain, X)
    options["bias"] = 3.0
    agree(f, plain, X)
    options["b"] = {"c": 0.25}
    agree(f, plain, X)


def test_captured_array_changed_in_place():
    data = np.array([1.0, 2.0, 3.0, 4.0])

    def plain(x):
        return np.sum((x - data) ** 2)

    f = compile_grad(plain)
    for step in range(4):
        data[step] += 1.0
        agree(f, plain, X)
    assert f.stats.traces == 1  # for all that is asked


def test_captured_array_of_another_shape_dtype_and_layout():
    data = np.ones((3, 4))

    def plain(x):
        return np.sum(np.sin(data * x)) / len(data)

    f = compile_grad(plain)
    for data in (
        np.ones((3, 4)),
        np.ones((3, 4)),
        np.full((5, 4), 2.0),
        np.ones((1, 4)),
        np.ones(4),
        np.arange(12).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(24.0).reshape(3, 8)[:, ::2],
        np.arange(12.0).reshape(3, 4)[::-1],
        np.ones((3, 4), np.float32),
        np.array(2.0).reshape(1),
    ):
        agree(f, plain, X, tol=2e-6)
        agree(f, plain, X, tol=2e-6)


def test_global_array_replaced():
    global matrix

    def plain(x):
        return np.sum(np.tanh(matrix @ x))

    f = compile_grad(plain)
    for matrix in (matrix, matrix, matrix.T, -matrix, np.eye(4), np.ones((2, 4))):
        agree(f, plain, X)


def test_helper_redefined():
    global scale_of

    def plain(x):
        return np.sum(scale_of(x) ** 2)

    f = compile_grad(plain)
    for scale_of in (scale_of, scale_of, lambda x: x * 3.0, np.sin, lambda x: x + learning_rate):
        agree(f, plain, X)


def test_helper_reads_a_global_that_changes():
    global learning_rate

    def inner(x):
        return x * learning_rate

    def outer(x):
        return inner(x) + 1

    def plain(x):
        return np.sum(outer(x) ** 2)

    f = compile_grad(plain)
    for learning_rate in (0.1, 0.1, 0.4, 0.4):
        agree(f, plain, X)


def test_default_argument_mutated():
    def plain(x, weights=[1.0, 2.0], table={"k": 1.0}):  # noqa: B006
        return np.sum(x) * weights[0] + np.sum(x**2) * weights[1] * table["k"]

    f = compile_grad(plain)
    agree(f, plain, X)
    agree(f, plain, X)
    plain.__defaults__[0][0] = 5.0
    agree(f, plain, X)
    plain.__defaults__[1]["k"] = -2.0
    agree(f, plain, X)
    plain.__defaults__ = ([0.0, 1.0], {"k": 1.0})
    agree(f, plain, X)


def test_method_monkeypatched():
    class Net:
        def act(self, x):
            return np.tanh(x)

        def plain(self, x):
            return np.sum(self.act(x) * 2)

        loss = compile_grad(plain)

    net = Net()
    agree(net.loss, net.plain, X)
    agree(net.loss, net.plain, X)
    Net.act = lambda self, x: np.sin(x)
    agree(net.loss, net.plain, X)
    net.act = lambda x: x**3
    agree(net.loss, net.plain, X)
    del net.act
    agree(net.loss, net.plain, X)


def test_property_and_class_attribute():
    class Net:
        factor = 2.0
        base = 1.0

        @property
        def scale(self):
            return self.base * self.factor

        def plain(self, x):
            return np.sum(x**2) * self.scale

        loss = compile_grad(plain)

    net = Net()
    agree(net.loss, net.plain, X)
    agree(net.loss, net.plain, X)
    Net.factor = 3.0
    agree(net.loss, net.plain, X)
    net.base = 10.0
    agree(net.loss, net.plain, X)


def test_class_as_an_argument():
    class Settings:
        k = 2.0

    def plain(x, settings):
        return np.sum(x) ** 2 * settings.k

    f = compile_grad(plain)
    for Settings.k in (2.0, 2.0, 3.0, 3.0):
        agree(f, plain, X, Settings)


def test_function_as_an_argument():
    gain = 2.0

    def amplify(x):
        return gain * x

    def plain(x, act):
        return np.sum(act(x) ** 2)

    f = compile_grad(plain)
    for act in (np.sin, np.cos, amplify, amplify, np.sin):
        agree(f, plain, X, act)
    gain = 3.0
    agree(f, plain, X, amplify)


# ---- control flow ------------------------------------------------------------------------------------------------


def test_branch_flips_and_both_paths_are_kept():
    def plain(x):
        if np.sum(x) > 0:
            return np.sum(x**2)
        return np.sum(np.sin(x))

    f = compile_grad(plain)
    for x in (X, -X, X, -X):
        agree(f, plain, x)
    traces = f.stats.traces
    for x in (X, -X, 2 * X, -3 * X, X, -X):
        agree(f, plain, x)
    assert f.stats.traces == traces
    assert f.stats.guard_misses and not f.stats.live


def test_branch_on_a_captured_array():
    data = np.ones(4)

    def plain(x):
        return np.sum(x * data) if data.sum() > 0 else np.sum(x**2)

    f = compile_grad(plain)
    for value in (1.0, 1.0, -1.0, -1.0, 2.0):
        data[:] = value
        agree(f, plain, X)


def test_while_loop_with_a_changing_trip_count():
    def plain(x):
        y, n = x, 0
        while np.sum(y * y) > 1.0:
            y = y * 0.5
            n += 1
        return np.sum(y) + n

    f = compile_grad(plain)
    for scale in (1.0, 10.0, 0.1, 10.0, 50.0, 1.0, 0.1):
        agree(f, plain, X * scale)
        agree(f, plain, X * scale)
    assert not f.stats.live


def test_int_float_and_item_of_traced_values():
    def by_int(x):
        return np.sum(x**2) * int(np.sum(np.abs(x)))

    def by_float(x):
        return np.sum(x) * float(np.max(x))

    def by_item(x):
        return np.sum(x[: int(x[2].item())])

    def gradient_by_float(x):
        return x.max() + np.sum(x) * (x == x.max())

    for plain, truth in ((by_int, lambda x: 2 * x * int(np.abs(x).sum())), (by_float, gradient_by_float)):
        f = compile_grad(plain)
        for x in (X, X, X * 1.01, X * 3, X):  # finite differences don't hold an int() constant
            for _ in range(2):
                value, gradient = f.value_and_grad(x)
                assert value == pytest.approx(plain(x), rel=1e-12)
                np.testing.assert_allclose(gradient, truth(x), rtol=1e-12)
    f = compile_grad(by_item)
    for scale in (1.2, 1.2, 1.2, 0.7, 1.9, 1.2):
        agree(f, by_item, X * scale)


def test_a_float_guard_is_replayed():
    """A plain number is a guard on bits: the kernel is held to its own rounding, not to NumPy's."""

    def plain(x):
        return np.sum(x**2) * math.ldexp(stop_gradient(np.sum(np.exp(x))), 0)

    rng = np.random.default_rng(1)
    f = compile_grad(plain)
    a, b = rng.normal(size=1000), rng.normal(size=1000)
    for x in (a, b, a, b, a, b):
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(plain(x), rel=1e-12)
        np.testing.assert_allclose(gradient, 2 * x * np.exp(x).sum(), rtol=1e-12)
    traces = f.stats.traces
    for x in (a, b):
        assert f.value_and_grad(x)[0] == pytest.approx(plain(x), rel=1e-12)
    assert f.stats.traces == traces and not f.stats.live


def test_truth_of_a_float():
    def plain(x):
        return np.sum(x**2) if np.sum(x) else np.sum(x**3)

    f = compile_grad(plain)
    for x in (X, 2 * X, 3 * X, np.array([1.0, -1.0, 2.0, -2.0]), X):
        expected = 2 * x if np.sum(x) else 3 * x**2
        np.testing.assert_allclose(f.grad(x), expected)
    assert f.stats.traces <= 4  # the branch depends on zero or not, not on the number


def test_int_and_float_of_the_same_value():
    def plain(x):
        t = np.sum(x)
        return np.sum(x**2) * int(t) + float(t)

    f = compile_grad(plain)
    for k in range(1, 6):
        x = X * (1 + k / 100)
        for _ in range(2):
            assert f(x) == pytest.approx(plain(x), rel=1e-12)


def test_nan_in_a_guard():
    def plain(x):
        if np.sum(x) > 0:
            return np.sum(x**2)
        return np.sum(np.nan_to_num(x) * 3)

    f = compile_grad(plain)
    bad = X.copy()
    bad[1] = np.nan
    for x in (X, bad, X, bad, bad, X):
        value, gradient = f.value_and_grad(x)
        assert value == pytest.approx(plain(x))
        expected = 2 * x if np.sum(x) > 0 else np.where(np.isnan(x), 0.0, 3.0)
        np.testing.assert_allclose(gradient, expected)

    def by_number(x):
        return np.sum(x[1:]) * float(x[0])

    g = compile_grad(by_number)
    for first in (1.0, np.nan, np.nan, 1.0, np.nan):
        x = X.copy()
        x[0] = first
        np.testing.assert_equal(g(x), by_number(x))


def test_assert_and_exceptions_in_the_function():
    def plain(x):
        assert np.all(x > -100), "too small"
        if np.any(x > 50):
            raise ValueError("too large")
        try:
            return np.sum(x**2) / len(x)
        finally:
            pass

    f = compile_grad(plain)
    for _ in range(2):
        agree(f, plain, X)
        with pytest.raises(ValueError, match="too large"):
            f.value_and_grad(X * 50)
        with pytest.raises(AssertionError, match="too small"):
            f.grad(X - 1000)
    agree(f, plain, X * 2)


def test_recursion():
    def power(x, n):
        return np.ones(4) if n == 0 else x * power(x, n - 1)

    def plain(x, n):
        return np.sum(power(x, n))

    f = compile_grad(plain)
    for n in (0, 3, 3, 5, 2, 3):
        agree(f, plain, X, n)


def test_recursion_of_a_compiled_function():
    @compile_grad
    def f(x, n):
        return np.sum(x) if n == 0 else np.sum(x * f(x, n - 1))

    for n in (0, 2, 2, 3, 2):
        s = X.sum()
        assert f(X, n) == pytest.approx(s ** (n + 1))
        np.testing.assert_allclose(f.grad(X, n), (n + 1) * s**n * np.ones(4))


def test_comprehensions_generators_and_local_classes():
    def plain(x):
        class Local:
            factor = 2.0

        parts = [xi**2 * k for k, xi in enumerate(x)]
        named = {k: p for k, p in enumerate(parts)}
        return sum(p for p in named.values()) * Local.factor + sum(map(lambda v: np.sin(v), x))

    f = compile_grad(plain)
    for x in (X, X, 2 * X):
        agree(f, plain, x)


def test_one_shot_generator_outside_the_function():
    def plain_of(stream):
        return lambda x: np.sum(x) * next(stream)

    f = compile_grad(plain_of(iter([1.0, 2.0, 3.0, 4.0])))
    assert [f(X) for _ in range(4)] == pytest.approx([X.sum() * k for k in (1, 2, 3, 4)])
    assert f.stats.live


def test_a_branch_on_the_last_bits():
    """NumPy and a kernel may add in another order; whichever decides, the answer is one of the two branches, whole."""
    f = compile_grad(lambda x: np.sum(x) + 5 if np.sum(x) > 0 else np.sum(x * 2) - 7)
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=1000)
        x[-1] -= np.sum(x)
        value, gradient = f.value_and_grad(x)
        assert min(abs(value - 5), abs(value + 7)) < 1e-9
        np.testing.assert_array_equal(gradient, np.full(1000, 1.0 if value > 0 else 2.0))


def test_text_made_of_traced_values():
    """Text made of a Python number is guarded as the number is; other text shows a value only where it is kept."""

    def plain(x):
        s = float(np.sum(x))
        return np.sum(x) * len(f"{s:.3f}") + len("%s" % s) + len(f"{s:.2e}")

    f = compile_grad(plain)
    for scale in (1, 1, 10, 1000, 1000, 1):
        assert f(X * scale) == pytest.approx(plain(X * scale))
    assert "a text that is made of values" in f.stats.live

    seen = []

    @compile_grad
    def power(x, k):
        seen[:] = [f"{k}", f"{x:.3f}", str(x * k)]
        return x * k

    for k in (1.5, 1.5, 1.25, 2.0):
        assert power(2.0, k) == 2.0 * k
        assert seen == [f"{k}", "2.000", str(2.0 * k)]  # what is kept outside has the values


def test_isinstance_sees_what_numpy_would_have():
    def plain(x, k):
        first = x[0]
        flags = [
            isinstance(x, np.ndarray),
            isinstance(k, float),
            isinstance(k, np.floating),
            isinstance(first, np.floating),
            isinstance(np.sum(x), np.ndarray),
            isinstance(np.argmax(x), np.integer),
            isinstance(x > 0, np.ndarray),
            isinstance(matrix, np.ndarray),
            isinstance(k, numbers.Real),
            np.isscalar(first),
        ]
        return np.sum(x) + sum(2.0**i for i, flag in enumerate(flags) if flag)

    f = compile_grad(plain)
    for k in (1.0, np.float64(1.0), np.float32(1.0), np.array(1.0)):
        for _ in range(3):
            assert f(X, k) == pytest.approx(plain(X, k)), k


def test_scalars_can_be_rebound():
    def plain(x):
        x += 1.0
        x *= x
        return x

    f = compile_grad(plain)
    for x in (2.0, np.float64(3.0), 2.0, np.float64(2.0)):
        for _ in range(3):
            assert f(x) == plain(x)


def test_an_error_of_ours_is_not_swallowed():
    def plain(x):
        try:
            return np.sum(np.busday_offset(x, 1))
        except Exception:
            return 0.0 * np.sum(x)

    f = compile_grad(plain)
    for _ in range(3):
        with pytest.raises(UnsupportedError, match=r"np\.busday_offset"):
            f.grad(X)

    def legitimate(x):
        try:
            return np.sum(x + np.ones(3))
        except ValueError:
            return np.sum(x)

    g = compile_grad(legitimate)
    for _ in range(3):
        agree(g, legitimate, X)


# ---- functions that are never frozen -----------------------------------------------------------------------------


def test_random_numbers():
    def plain(x):
        return np.sum(x * np.random.rand(4)) + np.random.normal()

    f = compile_grad(plain)
    for seed in (1, 1, 2, 2, 3):
        np.random.seed(seed)
        expected = plain(X)
        np.random.seed(seed)
        assert f(X) == pytest.approx(expected, rel=1e-12)
        np.random.seed(seed)
        weights = np.random.rand(4)
        np.random.seed(seed)
        np.testing.assert_allclose(f.grad(X), weights)
    assert len({float(f(X)) for _ in range(5)}) == 5
    assert not f.stats.live


def test_random_generator_outside():
    rng = np.random.default_rng(3)
    twin = np.random.default_rng(3)
    f = compile_grad(lambda x: np.sum(x * rng.normal(size=4)))
    for _ in range(4):
        np.testing.assert_allclose(f.grad(X), twin.normal(size=4))


check, read, slot = 2.0, [3.0], lambda x: x * 0.5


def test_globals_with_names_of_our_own():
    global check

    def plain(x):
        return slot(np.sum(x)) * check * read[0]

    f = compile_grad(plain)
    for check in (2.0, 2.0, 5.0, 5.0):
        assert f(X) == pytest.approx(plain(X))
        assert f.value_and_grad(X)[0] == pytest.approx(plain(X))
    assert not f.stats.live


def test_global_call_counter():
    global counter

    def plain(x):
        global counter
        counter += 1
        return np.sum(x) * counter

    f = compile_grad(plain)
    counter = 0
    assert [f(X) for _ in range(4)] == pytest.approx([X.sum() * k for k in (1, 2, 3, 4)])
    assert counter == 4 and not f.stats.live and f.stats.traces == 1


def test_nonlocal_counter_and_schedule():
    step = 0

    def plain(x):
        nonlocal step
        step += 1
        return np.sum(x**2) / step

    f = compile_grad(plain)
    for k in range(1, 6):
        np.testing.assert_allclose(f.grad(X), 2 * X / k)
    assert step == 5


def test_counter_by_list_append():
    seen = []

    def plain(x):
        seen.append(float(np.sum(x)))
        return np.sum(x**2) * len(seen)

    f = compile_grad(plain)
    for k in range(1, 6):
        np.testing.assert_allclose(f.grad(X * k), 2 * X * k * k)
    assert seen == pytest.approx([X.sum() * k for k in range(1, 6)])


class Counting:
    def __init__(self):
        self.calls = 0
        self.last = None
        self.history = []
        self.w = np.ones(4)

    @compile_grad
    def loss(self, x):
        self.calls += 1
        value = np.sum(self.w * x**2)
        self.last = value
        self.history.append((self.calls, value))
        return value * self.calls


def test_counter_on_self_and_traced_values_kept_there():
    model = Counting()
    for k in range(1, 5):
        np.testing.assert_allclose(model.loss.grad(X * k), 2 * X * k * k)
        assert model.calls == k
        assert type(model.last) is np.float64 and model.last == pytest.approx((X**2).sum() * k**2)
    assert [n for n, _ in model.history] == [1, 2, 3, 4]
    assert [v for _, v in model.history] == pytest.approx([(X**2).sum() * k**2 for k in (1, 2, 3, 4)])


kept = None


def test_traced_value_kept_in_a_global_and_read_again():
    global kept

    def plain(x):
        global kept
        kept = np.sum(x) if kept is None else 0.5 * kept + np.sum(x)
        return kept * np.sum(x)

    f = compile_grad(plain)
    kept = None
    running = None
    for k in range(1, 6):
        s = (X * k).sum()
        running = s if running is None else 0.5 * running + s
        assert f(X * k) == pytest.approx(running * s)
        assert kept == pytest.approx(running)


def test_state_changed_before_an_exception_stays_changed():
    model = Counting()
    model.fail = True

    @compile_grad
    def f(x):
        model.calls += 1
        model.w = model.w * 2
        if model.fail:
            raise RuntimeError("stop")
        return np.sum(x * model.w)

    with pytest.raises(RuntimeError):
        f.grad(X)
    assert model.calls == 1
    np.testing.assert_array_equal(model.w, 2 * np.ones(4))
    model.fail = False
    np.testing.assert_allclose(f.grad(X), 4 * np.ones(4))
    np.testing.assert_allclose(f.grad(X), 8 * np.ones(4))
    assert model.calls == 3


def test_cache_in_a_dict():
    cache = {}

    def plain(x, key):
        if key not in cache:
            cache[key] = len(cache) + 1.0
        return np.sum(x) * cache[key]

    f = compile_grad(plain)
    for key, factor in (("a", 1), ("b", 2), ("a", 1), ("c", 3), ("b", 2)):
        assert f(X, key) == pytest.approx(X.sum() * factor)


def test_captured_array_written_by_the_function_is_refused():
    buffer = np.zeros(4)

    def plain(x):
        buffer[:] = x * 2
        return np.sum(buffer)

    f = compile_grad(plain)
    for _ in range(2):
        with pytest.raises(MutationError, match="buffer"):
            f(X)
    np.testing.assert_array_equal(buffer, np.zeros(4))


# ---- arguments ---------------------------------------------------------------------------------------------------


def test_the_same_array_twice():
    def plain(x, y):
        return np.sum(x * y**2)

    f = compile_grad(plain, argnums=(0, 1))
    for y in (X, X, X + 1, X, X[::-1], X):
        dx, dy = f.grad(X, y)
        np.testing.assert_allclose(dx, y**2)
        np.testing.assert_allclose(dy, 2 * X * y)


def test_argument_that_is_also_captured():
    data = X.copy()

    def plain(x):
        return np.sum(x * data)

    f = compile_grad(plain)
    for x in (X, data, data, X):
        np.testing.assert_allclose(f.grad(x), data)


@pytest.mark.parametrize("case", range(8))
def test_layouts(case):
    base = np.arange(24.0).reshape(4, 6) / 7 + 0.1
    arrays = [
        base,
        np.asfortranarray(base),
        base[::-1],
        base[:, ::-1],
        np.arange(96.0).reshape(8, 12)[::2, ::2] / 9,
        base.T.copy().T,
        np.frombuffer(b"\0" + base.tobytes(), np.uint8)[1:].view(np.float64).reshape(4, 6),
        np.broadcast_to(base[0], (4, 6)),
    ]

    def plain(x):
        return np.sum(np.sin(x) * x[::-1]) + np.sum(x.reshape(-1)[:3])

    f = compile_grad(plain)
    for x in (base, arrays[case], base, arrays[case], arrays[case]):
        agree(f, plain, x)


def test_layout_decides_whether_a_reshape_is_a_view():
    def plain(x):
        y = np.copy(x, order="K")
        z = y.reshape(-1)
        z[0] = 5.0
        return np.sum(y**2)

    f = compile_grad(plain)
    c_order = np.arange(1.0, 7.0).reshape(2, 3)
    f_order = np.asfortranarray(c_order)
    expected = {True: 25.0 + np.sum(c_order**2) - 1, False: np.sum(c_order**2)}
    for x in (c_order, c_order, c_order, f_order, f_order):
        try:
            value = f(x)
        except MutationError:
            assert x is f_order  # refusing is right too: never a wrong number
        else:
            assert value == pytest.approx(expected[x is c_order])


def test_zero_dimensional_and_empty_arrays():
    def plain(x):
        return np.sum(x**2) + 1.0

    f = compile_grad(plain)
    for x in (np.array(3.0), np.zeros(0), np.zeros((0, 3)), np.zeros((2, 0)), np.ones((1, 1)), np.array(2.0)):
        for _ in range(3):
            agree(f, plain, x)


def test_float32_and_float64():
    def plain(x):
        return np.sum(np.sin(x) * np.float32(2.0))

    f = compile_grad(plain)
    for dtype in (np.float64, np.float32, np.float64, np.float32, np.float32):
        x = X.astype(dtype)
        value, gradient = f.value_and_grad(x)
        assert value.dtype == dtype and gradient.dtype == dtype
        np.testing.assert_allclose(value, plain(x), rtol=1e-6)
        np.testing.assert_allclose(gradient, 2 * np.cos(x), rtol=1e-6)


def test_int_float_and_numpy_scalars():
    def plain(x, k):
        return np.sum(x * k) + (1.0 if isinstance(k, int) else 2.0) * k

    f = compile_grad(plain)
    for k in (2, 2.0, 2, 3, 3.0, np.float64(2.0), np.float32(2.0), True, 2, np.int64(2), 2.5):
        for _ in range(3):
            assert f(X, k) == pytest.approx(X.sum() * k + (1.0 if isinstance(k, int) else 2.0) * k)

    def precision(x, k):
        return x * k

    g = compile_grad(precision)
    x = np.ones(3, np.float32)
    for k, dtype in (
        (2.0, np.float32),
        (np.float64(2.0), np.float64),
        (np.float32(2.0), np.float32),
        (2.0, np.float32),
    ):
        assert g(x, k).dtype == dtype


def test_large_ints_and_other_values():
    def plain(x, n, name="mean", axis=None, where=slice(0, 2)):
        y = x[where] * n
        return np.mean(y, axis=axis) if name == "mean" else np.sum(y, axis=axis)

    f = compile_grad(plain)
    for n in (10**6, 10**6 + 0, int("1000000"), 10**7, 3):
        for name in ("mean", "".join(["su", "m"]), "me" + "an"):
            for where in (slice(0, 2), slice(1, None), slice(0, 2)):
                agree(f, plain, X, n, name=name, where=where, tol=1e-5 * n)


def test_signed_zero_and_nan_values_are_told_apart():
    def plain(x, pair):
        return np.sum(x) * np.copysign(1.0, pair[0])

    f = compile_grad(plain, static_argnames="pair")
    for pair in ((0.0,), (-0.0,), (0.0,), (-0.0,), (0,), (True,), (1,)):
        assert f(X, pair) == pytest.approx(plain(X, pair))


def test_dict_with_reordered_keys():
    def plain(params):
        total = 0.0
        for value in params.values():
            total = total * 2.0 + np.sum(value)
        return total

    f = compile_grad(plain)
    a, b = np.ones(2), np.full(3, 5.0)
    for params in ({"a": a, "b": b}, {"b": b, "a": a}, {"a": a, "b": b}, OrderedDict(b=b, a=a), {"b": b, "a": a}):
        for _ in range(3):
            value, gradient = f.value_and_grad(params)
            assert value == pytest.approx(plain(params))
            assert list(gradient) == list(params) and type(gradient) is type(params)
            last = list(params)[-1]
            for key in params:
                np.testing.assert_allclose(gradient[key], 1.0 if key == last else 2.0)


def test_trees_of_other_structure():
    def plain(tree, k=1.0):
        a, rest = tree
        return np.sum(a) * k + sum(np.sum(r) * (i + 2) for i, r in enumerate(rest))

    f = compile_grad(plain)
    v = np.ones(2)
    for tree in ((v, [v]), (v, [v, v]), [v, (v,)], (v, ()), (v, [v]), (v, [1.0]), (v, [None] * 0)):
        for _ in range(3):
            assert f(tree) == pytest.approx(plain(tree))
            assert f(tree, k=2.0) == pytest.approx(plain(tree, k=2.0))


def test_keyword_and_default_arguments():
    def plain(x, scale=2.0, *, shift=0.0, mode="a"):
        y = np.sum(x * scale) + shift
        return y if mode == "a" else y**2

    f = compile_grad(plain)
    for _ in range(2):
        agree(f, plain, X)
        agree(f, plain, X, 3.0)
        agree(f, plain, X, scale=3.0)
        agree(f, plain, X, shift=1.0, mode="b")
        agree(f, plain, X, mode="b", shift=1.5)
        agree(f, plain, X, 4.0, mode="a")


def test_star_arguments():
    def plain(*arrays, **named):
        return sum(np.sum(a) * (i + 1) for i, a in enumerate(arrays)) + sum(np.sum(v**2) for v in named.values())

    f = compile_grad(plain)
    for _ in range(3):
        agree(f, plain, X)
        agree(f, plain, X, X)
        agree(f, plain, X, X, X, extra=X)
        agree(f, plain, X, other=X)


def test_shapes_change():
    def plain(x):
        return np.sum(x**2) / len(x) + x.shape[0]

    f = compile_grad(plain)
    for n in (3, 5, 1, 3, 5, 7, 1):
        agree(f, plain, np.arange(float(n)))


# ---- inside the function -----------------------------------------------------------------------------------------


def test_plain_array_changed_between_uses():
    def plain(x):
        w = np.arange(4.0)
        total = np.sum(x * w)
        w[:] = 1.0
        total = total + np.sum(x * w)
        w += 2.0
        return total * np.sum(x * w)

    f = compile_grad(plain)
    for x in (X, X, 2 * X):
        agree(f, plain, x)


def test_plain_array_that_depends_on_a_global():
    global learning_rate

    def plain(x):
        w = np.full(4, learning_rate)
        w[0] = 1.0
        return np.sum(w * x**2)

    f = compile_grad(plain)
    for learning_rate in (0.1, 0.1, 0.9, 0.9):
        agree(f, plain, X)


def test_results_alias_what_they_alias_in_python():
    f = compile_grad(lambda x: x + 0.0)
    g = compile_grad(lambda x: (x, x * 1.0, x.copy(), matrix))
    for _ in range(3):
        y = f(X)
        y[0] = 99.0
        a, b, c, d = g(X)
        b[1] = c[2] = 77.0
        assert a is X and d is matrix and X[0] == 0.3
        np.testing.assert_array_equal(g(X)[1], X)


def test_inner_derivative_of_the_same_value():
    """grad of grad at one point: the two arguments have one value, and are still two."""

    @compile_grad
    def f(x):
        return autograd.grad(lambda a: autograd.grad(lambda b: a * b)(x))(x)

    @compile_grad
    def g(x):
        return autograd.grad(lambda a: a * autograd.grad(lambda b: a * b**2)(x))(x)

    for x in (2.0, 3.0):
        assert f(x) == pytest.approx(1.0)
        assert g(x) == pytest.approx(4 * x**2)


# ---- threads -----------------------------------------------------------------------------------------------------


def test_threads_with_different_values():
    def plain(x, k):
        y = x
        while np.sum(y * y) > 1.0:
            y = y * 0.5
        return np.sum(np.sin(y) * k)

    f = compile_grad(plain)
    rng = np.random.default_rng(0)
    cases = [(rng.normal(size=n) * s, k) for n in (3, 4) for s in (0.1, 3.0) for k in (1.0, 2.0)]
    expected = [(plain(x, k), numerical_gradient(plain, (x, k))) for x, k in cases]
    errors = []

    def work(offset):
        try:
            for i in range(60):
                j = (i * 3 + offset) % len(cases)
                value, gradient = f.value_and_grad(*cases[j])
                np.testing.assert_allclose(value, expected[j][0], rtol=1e-10)
                np.testing.assert_allclose(gradient, expected[j][1], rtol=1e-5, atol=1e-6)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_thread_changes_the_state_between_calls():
    settings = types.SimpleNamespace(k=1.0)
    f = compile_grad(lambda x: np.sum(x) * settings.k)
    for k in (1.0, 2.0, 3.0):
        thread = threading.Thread(target=lambda k=k: setattr(settings, "k", k))
        thread.start()
        thread.join()
        assert f(X) == pytest.approx(X.sum() * k)
