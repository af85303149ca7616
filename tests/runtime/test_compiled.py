"""The interface of compiled functions: decorator, results, trees, derivatives of derivatives, and how often something
is compiled."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import tracemalloc
import weakref
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, replace

import numpy as np
import optree
import pytest
import scipy.optimize
from agreement import agree, numerical_gradient

from tracegrad import (
    CompiledFunction,
    DifferentiationError,
    TracegradError,
    UnsupportedError,
    autograd,
    compile_grad,
    config,
)
from tracegrad.codegen.cpu import jit
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.runtime.paths import dispatcher
from tracegrad.runtime.record import derive
from tracegrad.tracer.ir.errors import GraphError

pytestmark = pytest.mark.usefixtures("fresh_kernels")

X = np.array([0.3, -1.2, 2.0, 0.7])
Y = np.array([1.0, 2.0, -0.5, 0.25])


def quadratic(x):
    """The docstring."""
    return np.sum(x**2)


@compile_grad
def at_module_level(x):
    return np.sum(x**2)


# ---- the decorator -------------------------------------------------------------------------------------------------


def test_decorator_with_and_without_arguments():
    f = compile_grad(quadratic)
    assert isinstance(f, CompiledFunction) and f.__name__ == "quadratic" and f.__doc__ == "The docstring."
    assert f.__wrapped__ is quadratic

    @compile_grad(argnums=1)
    def g(x, y):
        return np.sum(x * y**2)

    @compile_grad()
    def h(x):
        return np.sum(x)

    np.testing.assert_allclose(f.grad(X), 2 * X)
    np.testing.assert_allclose(g.grad(X, Y), 2 * X * Y)
    np.testing.assert_allclose(h.grad(X), np.ones(4))
    assert "quadratic" in repr(f)


def test_decorated_with_wrong_things():
    with pytest.raises(TypeError, match="function, not int"):
        compile_grad(3)
    with pytest.raises(TracegradError, match='target="cpu"'):
        compile_grad(quadratic, target="tpu")
    with pytest.raises(TypeError, match="no such argument"):
        compile_grad(quadratic, static_argnames="mode")
    with pytest.raises(TypeError, match="argnums"):
        compile_grad(quadratic, argnums="x")
    with pytest.raises(UnsupportedError, match="generator"):

        @compile_grad
        def stream(x):
            yield x


class Scale:
    def __init__(self, k):
        self.k = k

    @compile_grad
    def loss(self, x):
        """Of a method."""
        return self.k * np.sum(x**2)

    @compile_grad(argnums=(0, -1))
    def two(self, x, y):
        return self.k * np.sum(x * y**2)

    @staticmethod
    @compile_grad
    def static(x):
        return np.sum(x**3)

    def plain(self, x):
        return self.k * np.sum(np.sin(x))


def test_methods():
    a = Scale(3.0)
    for _ in range(4):
        assert a.loss(X) == pytest.approx(3 * np.sum(X**2))
        np.testing.assert_allclose(a.loss.grad(X), 6 * X)
        _value, gradient = a.loss.value_and_grad(X)
        np.testing.assert_allclose(gradient, 6 * X)
        dx, dy = a.two.grad(X, Y)
        np.testing.assert_allclose(dx, 3 * Y**2)
        np.testing.assert_allclose(dy, 6 * X * Y)
        np.testing.assert_allclose(a.static.grad(X), 3 * X**2)
        np.testing.assert_allclose(Scale.static.grad(X), 3 * X**2)
    assert a.loss.__name__ == "loss" and a.loss.__doc__ == "Of a method." and a.loss.stats is Scale.loss.stats
    assert a.loss == a.loss and a.loss != Scale(3.0).loss
    assert a.loss.stats.traces == 1  # of which the value and both gradients are made
    assert "loss" in repr(a.loss)


def test_gradient_of_a_plain_bound_method():
    a, b = Scale(3.0), Scale(5.0)
    for _ in range(3):
        np.testing.assert_allclose(autograd.grad(a.plain)(X), 3 * np.cos(X))
        np.testing.assert_allclose(autograd.grad(b.plain)(X), 5 * np.cos(X))
        np.testing.assert_allclose(autograd.grad(a.loss)(X), 6 * X)
        np.testing.assert_allclose(autograd.grad(a.two, argnums=1)(X, Y), 6 * X * Y)


def test_compiled_bound_method_object():
    a = Scale(2.0)
    f = compile_grad(a.plain)
    for a.k in (2.0, 2.0, 2.0, 4.0, 4.0):
        np.testing.assert_allclose(f.grad(X), a.k * np.cos(X))


def test_argnums():
    def plain(x, y, z):
        return np.sum(x * y**2) + np.sum(z)

    for argnums, expected in ((0, Y**2), (1, 2 * X * Y), (-1, np.ones(2)), (-2, 2 * X * Y)):
        f = compile_grad(plain, argnums=argnums)
        for _ in range(3):
            np.testing.assert_allclose(f.grad(X, Y, np.ones(2)), expected)
            np.testing.assert_allclose(autograd.grad(plain, argnums)(X, Y, np.ones(2)), expected)
    f = compile_grad(plain, argnums=(2, 0))
    for _ in range(3):
        dz, dx = f.grad(X, Y, np.ones(2))
        np.testing.assert_allclose(dz, np.ones(2))
        np.testing.assert_allclose(dx, Y**2)
    (only,) = compile_grad(plain, argnums=[1]).grad(X, Y, np.ones(2))
    np.testing.assert_allclose(only, 2 * X * Y)
    assert compile_grad(plain, argnums=()).grad(X, Y, np.ones(2)) == ()


def test_static_arguments():
    def plain_body(x, power, mode):
        return np.sum(x**power) if mode == "sum" else np.mean(x**power)

    f = compile_grad(plain_body, static_argnames=("power", "mode"))
    for power in (2, 2.0, 3, 2, 2.0, 3):
        for mode in ("sum", "mean"):
            agree(f, plain_body, X, power, mode)
            assert f(X, power=power, mode=mode) == pytest.approx(plain_body(X, power, mode))


def test_static_argument_that_can_change():
    class Settings:
        def __init__(self):
            self.k = 1.0

    f = compile_grad(lambda x, s, names: np.sum(x) * s.k * len(names), static_argnames=["s", "names"])
    s, names = Settings(), ["a"]
    for k in (1.0, 1.0, 2.0, 2.0, 1.0):
        s.k = k
        assert f(X, s, names) == pytest.approx(X.sum() * k * len(names))
        names.append("b")
        assert f(X, s, names) == pytest.approx(X.sum() * k * len(names))


def test_has_aux():
    @compile_grad(has_aux=True)
    def f(x):
        return np.sum(x**2), {"mean": np.mean(x), "n": len(x), "text": "ok", "none": None, "const": np.arange(3)}

    for _ in range(4):
        (value, aux), gradient = f.value_and_grad(X)
        assert value == pytest.approx(np.sum(X**2))
        np.testing.assert_allclose(gradient, 2 * X)
        assert aux["mean"] == pytest.approx(X.mean()) and aux["n"] == 4 and aux["text"] == "ok" and aux["none"] is None
        np.testing.assert_array_equal(aux["const"], [0, 1, 2])
        aux["const"][0] = 9
        gradient, aux = f.grad(X)
        np.testing.assert_allclose(gradient, 2 * X)
        assert aux["mean"] == pytest.approx(X.mean())
        value, aux = f(X)
        assert value == pytest.approx(np.sum(X**2)) and aux["n"] == 4

    @compile_grad(has_aux=True, argnums=(0, 1))
    def g(x, y):
        return np.sum(x * y), (x + y, None)

    for _ in range(3):
        (dx, _dy), (total, nothing) = g.grad(X, Y)
        np.testing.assert_allclose(dx, Y)
        np.testing.assert_allclose(total, X + Y)
        assert nothing is None

    with pytest.raises(DifferentiationError, match=r"\(loss, aux\)"):
        compile_grad(quadratic, has_aux=True).grad(X)


# ---- trees -----------------------------------------------------------------------------------------------------------

Layer = namedtuple("Layer", "w b")


@dataclass
class Params:
    w: np.ndarray
    b: float


optree.register_pytree_node(
    Params, lambda p: ((p.w, p.b), None, ("w", "b")), lambda _, children: Params(*children), namespace="tracegrad"
)


def _total(tree):
    return sum(np.sum(leaf**2) for leaf in optree.tree_leaves(tree, namespace="tracegrad"))


@pytest.mark.parametrize(
    "tree",
    [
        {"w": X, "b": 2.0},
        {"z": X, "a": {"c": Y, "b": (1.0, X)}},
        [X, [Y, 2.0]],
        (X, (Y,), ()),
        Layer(X, 3.0),
        {"layers": [Layer(X, Y), Layer(Y, 1.0)], "nothing": None},
        OrderedDict(b=X, a=Y),
        Params(X, 2.0),
        {"p": Params(Y, 1.0), "q": [X]},
        {1: X, (2, 3): Y},
        {},
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_gradients_have_the_structure_of_the_argument(tree):
    if isinstance(tree, dict) and not tree:
        f = compile_grad(lambda t: 1.0)
    else:
        f = compile_grad(_total)
    for _ in range(4):
        _value, gradient = f.value_and_grad(tree)
        spec = optree.tree_structure(tree, namespace="tracegrad")
        assert type(gradient) is type(tree)
        assert optree.tree_structure(gradient, namespace="tracegrad") == spec
        for found, leaf in zip(
            optree.tree_leaves(gradient, namespace="tracegrad"),
            optree.tree_leaves(tree, namespace="tracegrad"),
            strict=True,
        ):
            np.testing.assert_allclose(found, 2 * np.asarray(leaf))


def test_unregistered_objects_are_settings():
    @dataclass
    class Options:
        k: float
        data: np.ndarray

    f = compile_grad(lambda x, o: np.sum(x * o.data) * o.k)
    o = Options(2.0, Y.copy())
    for _ in range(3):
        np.testing.assert_allclose(f.grad(X, o), 2 * Y)
    o.data[0] = 7.0
    o.k = 1.0
    np.testing.assert_allclose(f.grad(X, o), o.data)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x,
        lambda x: (x, 2 * x),
        lambda x: [x, {"a": x.sum(), "b": 3, "c": "text"}],
        lambda x: None,
        lambda x: "text",
        lambda x: 3.5,
        lambda x: np.arange(4),
        lambda x: (),
        lambda x: {},
        lambda x: Layer(x + 1, None),
        lambda x: x.shape,
        lambda x: np.sum(x),
        lambda x: x > 0,
        lambda x: np.argmax(x),
        lambda x: (np.ones(2), np.float32(2), True),
        lambda x: Y,
        lambda x: {"x": x},
        lambda x: [np.sum(x)],
        lambda x: (np.sum(x),),
    ],
)
def test_value_of_functions_that_return_anything(build):
    f = compile_grad(build)
    expected = build(X)
    for _ in range(4):
        found = f(X)
        assert optree.tree_structure(found, none_is_leaf=True) == optree.tree_structure(expected, none_is_leaf=True)
        for a, b in zip(
            optree.tree_leaves(found, none_is_leaf=True), optree.tree_leaves(expected, none_is_leaf=True), strict=True
        ):
            assert type(a) is type(b), (a, b)
            if isinstance(b, np.ndarray | np.generic):
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=1e-15)
            else:
                assert a == b
    assert not f.stats.live


# ---- results ---------------------------------------------------------------------------------------------------------


def test_result_types():
    f = compile_grad(quadratic)
    for _ in range(4):
        value, gradient = f.value_and_grad(X)
        assert type(value) is np.float64 and type(gradient) is np.ndarray and gradient.dtype == np.float64
        assert gradient.flags.owndata and gradient.flags.writeable
        value, gradient = f.value_and_grad(2.0)
        assert type(value) is np.float64 and type(gradient) is np.float64 and gradient == 4.0
        value, gradient = f.value_and_grad(X.astype(np.float32))
        assert type(value) is np.float32 and gradient.dtype == np.float32
        value, gradient = f.value_and_grad(np.float32(3.0))
        assert type(value) is np.float32 and type(gradient) is np.float32


def test_results_are_fresh():
    f = compile_grad(lambda x: np.sum(x) * 2.0)
    results = [f.grad(X) for _ in range(5)]
    for k, r in enumerate(results):
        np.testing.assert_array_equal(r, np.full(4, 2.0))
        r[:] = k
    assert len({id(r) for r in results}) == 5


def test_float32_stays_float32():
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(5, 3)).astype(np.float32)

    @compile_grad(argnums=(0, 1))
    def f(w, x, rate):
        h = np.tanh(x @ w) * 0.5 + 1
        return np.mean(np.log(h**2 + 1e-3)) * rate + np.var(h)

    for _ in range(3):
        value, (dw, dx) = f.value_and_grad(w, x, 0.1)
        assert value.dtype == dw.dtype == dx.dtype == np.float32
        value64, (dw64, _) = f.value_and_grad(w.astype(float), x.astype(float), 0.1)
        assert value64.dtype == np.float64
        np.testing.assert_allclose(value, value64, rtol=1e-5)
        np.testing.assert_allclose(dw, dw64, rtol=1e-3, atol=1e-5)


def test_functions_of_elements_that_are_one_constant():
    def plain(x):
        zero = np.zeros_like(x)
        return np.sum(np.sin(zero) + np.tanh(zero) * x + np.arctan2(zero, zero + 1.0) + np.hypot(x, zero))

    f = compile_grad(plain)
    for n in (1, 3, 40):
        x = np.linspace(0.5, 2.0, n)
        agree(f, plain, x)


def test_writes_into_overlapping_windows_do_not_double_the_program(compiled_anew, monkeypatch):
    sizes = []
    compile_text = jit.compile_text
    monkeypatch.setattr(jit, "compile_text", lambda text, name: sizes.append(len(text)) or compile_text(text, name))

    def plain(x, n):
        out = x * 1.0
        for i in range(n):
            out[i % 2 : i % 2 + 2] *= 0.5
        return np.sum(np.sin(out))

    for n in (2, 4):
        compile_grad(plain).value_and_grad(np.ones(3), n)
    assert sizes[1] < 2 * sizes[0]
    agree(compile_grad(plain), plain, np.array([0.3, -0.5, 1.0]), 12)


def test_constant_and_unused_arguments():
    f = compile_grad(lambda x, y: np.sum(y), argnums=(0, 1))
    g = compile_grad(lambda x: 3.0)
    h = compile_grad(lambda x: 3)
    for _ in range(3):
        dx, dy = f.grad(X, Y)
        np.testing.assert_array_equal(dx, np.zeros(4))
        np.testing.assert_array_equal(dy, np.ones(4))
        value, gradient = g.value_and_grad(X)
        assert value == 3.0
        np.testing.assert_array_equal(gradient, np.zeros(4))
        assert h.grad(2.0) == 0.0


def test_scipy_minimize_takes_value_and_grad():
    @compile_grad
    def rosenbrock(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    found = scipy.optimize.minimize(rosenbrock.value_and_grad, np.zeros(6), jac=True, method="L-BFGS-B")
    np.testing.assert_allclose(found.x, np.ones(6), atol=1e-3)
    assert rosenbrock.stats.traces == 1 and rosenbrock.stats.compiles == 1

    data = np.linspace(0, 1, 20)
    fit = compile_grad(lambda p, t, y: np.sum((p[0] * np.exp(p[1] * t) - y) ** 2))
    found = scipy.optimize.minimize(
        fit.value_and_grad, np.array([1.0, 0.0]), args=(data, 2 * np.exp(-1.5 * data)), jac=True
    )
    np.testing.assert_allclose(found.x, [2.0, -1.5], atol=1e-4)
    root = scipy.optimize.root_scalar(compile_grad(lambda x: x**3 - 2.0).value_and_grad, fprime=True, x0=1.0)
    assert root.root == pytest.approx(2 ** (1 / 3))


# ---- derivatives as functions ------------------------------------------------------------------------------------


def test_autograd_shares_kernels_with_the_decorated_function():
    f = compile_grad(quadratic)
    before = kernels.compiles
    for _ in range(3):
        np.testing.assert_allclose(f.grad(X), 2 * X)
        np.testing.assert_allclose(autograd.grad(f)(X), 2 * X)
        _value, gradient = autograd.value_and_grad(f)(X)
        np.testing.assert_allclose(gradient, f.value_and_grad(X)[1])
    assert f.stats.traces == 1 and f.stats.compiles <= 1 and kernels.compiles - before <= 1
    assert autograd.grad(f).stats is f.stats
    assert "reduce_sum" in autograd.grad(f).explain(X, level="all") and "grad" in repr(autograd.grad(f))


def test_autograd_on_plain_functions():
    for _ in range(3):
        np.testing.assert_allclose(autograd.grad(quadratic)(X), 2 * X)
    assert autograd.grad(quadratic).stats.traces == 1
    value, gradient = autograd.value_and_grad(lambda x, y: (np.sum(x * y), "aux"), argnums=1, has_aux=True)(X, Y)
    assert value[1] == "aux"
    np.testing.assert_allclose(gradient, X)


def test_second_and_third_derivatives():
    def plain(x):
        return np.sin(x) * x**3

    d1 = autograd.grad(plain)
    d2 = autograd.grad(d1)
    d3 = autograd.grad(d2)
    h = compile_grad(plain)
    for x in (1.3, 0.4, -0.7):
        for _ in range(2):
            assert d1(x) == pytest.approx(np.cos(x) * x**3 + 3 * x**2 * np.sin(x))
            assert d2(x) == pytest.approx(-np.sin(x) * x**3 + 6 * x**2 * np.cos(x) + 6 * x * np.sin(x))
            third = -np.cos(x) * x**3 - 9 * x**2 * np.sin(x) + 18 * x * np.cos(x) + 6 * np.sin(x)
            assert d3(x) == pytest.approx(third)
            assert autograd.grad(lambda x: h.grad(x))(x) == pytest.approx(d2(x))


def test_hessian_vector_product():
    def plain(x):
        return np.sum(np.exp(x[:-1]) * x[1:] ** 2) + np.prod(x)

    v = np.array([0.5, -1.0, 2.0, 0.1])
    f = compile_grad(plain)
    hvp = autograd.grad(lambda x, v: np.sum(autograd.grad(f)(x) * v))
    step = 1e-6
    expected = (f.grad(X + step * v) - f.grad(X - step * v)) / (2 * step)
    for _ in range(3):
        np.testing.assert_allclose(hvp(X, v), expected, rtol=1e-6, atol=1e-7)


def test_a_compiled_function_inside_another():
    inner = compile_grad(lambda x, k: np.sum(np.sin(x) * k))

    def plain(x):
        return np.sum(np.sin(x) * 2.0) ** 2 + x[0]

    outer = compile_grad(lambda x: inner(x, 2.0) ** 2 + x[0])
    for x in (X, X, Y):
        agree(outer, plain, x)
    uses_gradient = compile_grad(lambda x: np.sum(inner.grad(x, 2.0) ** 2))
    both = compile_grad(lambda x: inner.value_and_grad(x, 3.0)[0] + np.sum(inner.value_and_grad(x, 3.0)[1]))
    for _ in range(3):
        np.testing.assert_allclose(uses_gradient.grad(X), -8 * np.cos(X) * np.sin(X), rtol=1e-12)
        np.testing.assert_allclose(both.grad(X), 3 * np.cos(X) - 3 * np.sin(X), rtol=1e-12)


def test_inner_functions_see_captured_arrays_and_plain_arguments():
    data = np.array([1.0, 2.0, 3.0, 4.0])
    inner = compile_grad(lambda z: np.sum(z**2 * data))
    outer = compile_grad(lambda x: inner(np.ones(4)) * np.sum(x) + np.sum(inner.grad(np.ones(4)) * x))
    model = Scale(2.0)
    method = compile_grad(lambda x: np.sum(model.loss.grad(x) * data))
    for step in range(4):
        data[0] = step
        model.k = 1.0 + step // 2
        np.testing.assert_allclose(outer.grad(X), data.sum() + 2 * data)
        np.testing.assert_allclose(method.grad(X), 2 * model.k * data)


def test_gradient_with_respect_to_a_tree_inside():
    f = compile_grad(lambda p: np.sum(p["a"] ** 2 * p["b"]))
    norm = compile_grad(lambda p: sum(np.sum(g**2) for g in f.grad(p).values()))
    p = {"b": X, "a": Y}
    for _ in range(3):
        g = norm.grad(p)
        assert list(g) == ["b", "a"]
        np.testing.assert_allclose(g["b"], 8 * Y**2 * X)
        np.testing.assert_allclose(g["a"], 8 * Y * X**2 + 4 * Y**3)


def test_wrong_argnums_inside():
    f = compile_grad(lambda x, k: np.sum(x) * k, argnums=1)
    outer = compile_grad(lambda x: f.grad(x, 3))
    with pytest.raises(DifferentiationError, match="`k`, int 3"):
        outer(X)


# ---- how often something is compiled -----------------------------------------------------------------------------

rate = 0.1


def test_a_hundred_learning_rates_as_an_argument():
    f = compile_grad(lambda x, lr: np.sum((x - lr * x**3) ** 2))
    for lr in np.linspace(0.01, 2.0, 100):
        f.value_and_grad(X, float(lr))
    assert f.stats.compiles == 1 and f.stats.traces == 1


def test_a_hundred_learning_rates_in_a_global():
    global rate
    f = compile_grad(lambda x: np.sum((x - rate * x**3) ** 2))
    for rate in np.linspace(0.01, 2.0, 100).tolist():
        value, gradient = f.value_and_grad(X)
        assert value == pytest.approx(np.sum((X - rate * X**3) ** 2))
        np.testing.assert_allclose(gradient, 2 * (X - rate * X**3) * (1 - 3 * rate * X**2))
    assert f.stats.compiles <= 2 and f.stats.traces <= 4 and f.stats.guard_misses == 0  # of a constant, of an input


def test_twenty_batch_sizes():
    rng = np.random.default_rng(0)
    w = rng.normal(size=20)
    f = compile_grad(lambda w, X, y: np.mean((X @ w - y) ** 2))
    for n in range(20, 40):
        data, y = rng.normal(size=(n, 20)), rng.normal(size=n)
        _value, gradient = f.value_and_grad(w, data, y)
        np.testing.assert_allclose(gradient, 2 * data.T @ (data @ w - y) / n, rtol=1e-10)
    assert f.stats.compiles == 1


def test_ten_captured_constants():
    functions = []
    for k in range(10):
        f = compile_grad(lambda x, k=k: np.sum(np.cos(x * (k + 0.5))))
        functions.append(f)
        np.testing.assert_allclose(f.grad(X), -(k + 0.5) * np.sin(X * (k + 0.5)), rtol=1e-12)
    assert sum(f.stats.compiles for f in functions) <= 1
    c = 1.5
    g = compile_grad(lambda x: np.sum(np.cosh(x * c)))
    for c in np.linspace(1.5, 3.0, 10).tolist():
        np.testing.assert_allclose(g.grad(X), c * np.sinh(X * c), rtol=1e-12)
    assert g.stats.compiles <= 2 and g.stats.traces <= 4


def test_two_functions_with_one_graph_share_a_kernel():
    f = compile_grad(lambda x: np.sum(np.arctan(x) * 2.0 + x**2))
    g = compile_grad(lambda other: (np.arctan(other) * 7.5 + other**2).sum())
    f.value_and_grad(X)
    g.value_and_grad(np.arange(9.0))
    assert (f.stats.compiles, g.stats.compiles, g.stats.kernel_hits) == (1, 0, 1)


def test_stats():
    f = compile_grad(lambda x: np.sum(np.arcsinh(x)))
    for _ in range(10):
        f.grad(X)
    stats = f.stats
    assert (stats.calls, stats.traces, stats.compiles) == (10, 1, 1) and stats.cache_hits == 9
    assert "10 calls, 1 traces, 1 compiles" in str(stats)
    assert sum(stats.retraces.values()) == 1


# ---- bounds ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_limits():
    before = {n: getattr(config, n) for n in ("max_kernels", "max_paths", "max_variants", "max_states")}
    config.max_kernels, config.max_paths, config.max_variants, config.max_states = 4, 3, 5, 2
    yield
    for name, value in before.items():
        setattr(config, name, value)


def test_caches_are_bounded(small_limits):
    kernels.clear()
    global rate
    f = compile_grad(lambda x: np.sum(x**2) * rate)
    for rate in (1.0, 2.0, 3.0, 4.0, 1.0):
        for n in range(1, 9):
            x = np.arange(float(n))
            np.testing.assert_allclose(f.grad(x), 2 * x * rate)
    assert len(f._grad.variants) <= 5 and all(len(v) <= 2 for v in f._grad.variants.values())
    for k in range(2, 10):
        g = compile_grad(lambda x, k=k: np.sum(x**k))
        np.testing.assert_allclose(g.grad(X), k * X ** (k - 1))
    assert len(kernels) <= 4
    h = compile_grad(lambda x, act: np.sum(act(x)))
    for k in range(6):
        assert h(X, lambda x, k=k: x * k) == pytest.approx(X.sum() * k)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_too_many_branches_go_on_in_python(small_limits):
    def plain(x):
        turns = []  # with a list in it no loop is rolled: each number of turns is an outcome of its own
        while np.sum(x * x) > len(turns):
            turns.append(x)
        return np.sum(x) * len(turns)

    f = compile_grad(plain)
    for scale in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 1.0, 0.5):
        agree(f, plain, X * scale)
    assert "branch outcomes" in f.stats.live and "test_compiled.py" in f.stats.live


def test_settings():
    with pytest.raises(AttributeError, match="no setting"):
        config.max_kernel = 3
    assert "max_paths" in repr(config)


# ---- TRACEGRAD_CHECK ---------------------------------------------------------------------------------------------


@pytest.fixture
def checking():
    yield
    config.check = False


def test_check_mode(checking, monkeypatch):
    compared = []
    real = dispatcher.compare
    monkeypatch.setattr(dispatcher, "compare", lambda *a: (compared.append(1), real(*a)))
    f = compile_grad(lambda x: np.sum(np.exp(x)) if x[0] > 0 else np.sum(x))
    for _ in range(4):
        f.value_and_grad(X)
    assert not compared and f._both.slots
    config.check = True
    assert not f._both.slots
    for _ in range(3):
        f.value_and_grad(X)
        f.grad({"a": X}["a"])
    assert len(compared) == 6
    np.random.seed(0)
    g = compile_grad(lambda x: np.sum(x * np.random.rand()))
    g(X), g(X)
    assert len(compared) == 8
    config.check = False
    f.value_and_grad(X), f.value_and_grad(X)
    assert len(compared) == 8 and f._both.slots


def test_check_mode_reports_a_disagreement(checking, monkeypatch):
    f = compile_grad(lambda x: np.sum(np.exp(x) * 1.25))
    f(X)
    config.check = True
    real = dispatcher.run_path
    monkeypatch.setattr(dispatcher, "run_path", lambda *a: real(*a) * 1.001)
    with pytest.raises(TracegradError, match="disagree"):
        f(X)


def test_check_mode_looks_over_every_graph(checking, monkeypatch):
    """A pass that breaks a graph is named by the node, and only where graphs are looked over."""

    def broken(graph, *args):
        graph = simplify(graph, *args)
        return replace(graph, nodes=[node for node in graph.nodes if node.prim.name != "exp"])

    def fn(x):
        return np.sum(np.sin(np.exp(x)))

    monkeypatch.setattr(derive, "simplify", broken)
    for check, error in ((False, KeyError), (True, GraphError)):
        config.check = check
        with pytest.raises(error) as raised:
            compile_grad(fn)(X)
    assert "node 0 (sin): an operand (f64[4]) is not defined before its use" in str(raised.value)


# ---- pickling, copies, memory --------------------------------------------------------------------------------------


def test_pickle_and_copy():
    f = pickle.loads(pickle.dumps(at_module_level))
    assert f is at_module_level
    assert copy.deepcopy(at_module_level) is at_module_level
    g = pickle.loads(pickle.dumps(compile_grad(quadratic, argnums=(0,))))
    np.testing.assert_allclose(g.grad(X)[0], 2 * X)
    d = pickle.loads(pickle.dumps(autograd.grad(at_module_level)))
    np.testing.assert_allclose(d(X), 2 * X)
    assert pickle.loads(pickle.dumps(Scale.loss)) is Scale.loss


def test_unpickled_arrays_are_served_by_the_fast_path():
    f = compile_grad(quadratic)
    x = pickle.loads(pickle.dumps(X))
    for _ in range(4):
        np.testing.assert_allclose(f.grad(x), 2 * X)
    assert f.stats.traces == 1


def _growth(work, times, before=3, rounds=3):
    """Bytes that *times* calls leave behind in each of *rounds*, after *before* calls that may fill caches.

    The least of them: the memory of the whole process is counted, so another thread's work may add to one round.
    """
    grown = []
    tracemalloc.start()
    for _ in range(before):
        work()
    for _ in range(rounds):
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(times):
            work()
        gc.collect()
        grown.append(tracemalloc.get_traced_memory()[0] - start)
    tracemalloc.stop()
    return min(grown)


@pytest.mark.slow
def test_cached_calls_do_not_leak():
    f = compile_grad(lambda p, x: np.sum(p["w"] * x) if x[0] < 100 else np.sum(x))
    p = {"w": X}
    assert _growth(lambda: f.value_and_grad(p, Y), 5_000) < 5_000
    before = sys.getrefcount(X)
    f.value_and_grad(p, Y)
    assert sys.getrefcount(X) == before


@pytest.mark.slow
def test_retraces_do_not_leak():
    big = {"data": np.zeros(4)}
    f = compile_grad(lambda x: np.sum(x * big["data"]) * big["k"])
    state = iter(range(10**9))

    def work():
        big["k"] = float(next(state))
        big["data"] = np.zeros(4)
        f.grad(X)

    assert _growth(work, 100, before=config.max_states + 10) < 100_000
    assert len(next(iter(f._grad.variants.values()))) <= config.max_states


def test_user_arrays_are_let_go():
    class Holder:
        pass

    holder = Holder()
    holder.data = np.ones(4)
    f = compile_grad(lambda x: np.sum(x * holder.data))
    live = compile_grad(lambda x: np.sum(x * np.random.rand(4) * holder.data))
    x = X.copy()
    for _ in range(4):
        f.grad(x)
        live.grad(x)
    captured, argument = weakref.ref(holder.data), weakref.ref(x)
    del holder.data, x
    gc.collect()
    assert captured() is None and argument() is None


def test_a_long_program():
    """A Python loop of 300 operations; passes that descend along the chain must not run out of stack."""

    def plain(x):
        y = x
        for _ in range(150):
            y = y * y - x
        return np.sum(y)

    f = compile_grad(plain)
    for _ in range(3):
        agree(f, plain, X * 0.1)


def test_numerical_gradient_of_the_helper_itself():
    np.testing.assert_allclose(numerical_gradient(quadratic, (X,)), 2 * X, rtol=1e-6)
