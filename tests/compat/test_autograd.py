"""Programs written for HIPS autograd, with the import changed."""

from __future__ import annotations

import array
import importlib
import math
import subprocess
import sys
from collections import OrderedDict
from functools import partial

import numpy
import pytest
import scipy

import tracegrad.compat.autograd.numpy as np
import tracegrad.compat.autograd.numpy.random as npr
from tracegrad import compile_grad
from tracegrad.autograd import grad as function_grad
from tracegrad.compat.autograd import (
    checkpoint,
    core,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_jvp_reversemode,
    make_vjp,
    multigrad_dict,
    tensor_jacobian_product,
    value_and_grad,
)
from tracegrad.compat.autograd.extend import (
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    primitive,
    vspace,
)
from tracegrad.compat.autograd.misc import flatten
from tracegrad.compat.autograd.misc.fixed_points import fixed_point
from tracegrad.compat.autograd.misc.optimizers import adam, rmsprop, sgd
from tracegrad.compat.autograd.numpy.numpy_boxes import ArrayBox
from tracegrad.compat.autograd.numpy.numpy_vjps import replace_zero, unbroadcast_f
from tracegrad.compat.autograd.test_util import check_grads
from tracegrad.compat.autograd.tracer import getval, isbox

SURFACE = {
    "": "grad elementwise_grad jacobian hessian value_and_grad make_vjp primitive isinstance list dict tuple type",
    "core": "primitive defvjp defvjp_argnum defvjp_argnums defjvp defjvp_argnums vspace VSpace make_vjp primitive_vjps",
    "extend": "primitive defvjp defvjp_argnum defvjp_argnums defjvp defjvp_argnum def_linear vspace VSpace Box "
    "notrace_primitive register_notrace",
    "tracer": "primitive notrace_primitive isbox getval Box",
    "builtins": "isinstance list dict tuple type",
    "util": "subvals subval",
    "wrap_util": "wraps unary_to_nary",
    "test_util": "check_grads check_vjp check_equivalent combo_check scalar_close",
    "misc": "flatten const_graph",
    "misc.flatten": "flatten flatten_func",
    "misc.optimizers": "sgd rmsprop adam unflatten_optimizer",
    "misc.fixed_points": "fixed_point",
    "misc.tracers": "const_graph",
    "differential_operators": "make_vjp make_jvp grad jacobian",
    "numpy.numpy_boxes": "ArrayBox",
    "numpy.numpy_vjps": "unbroadcast unbroadcast_f replace_zero repeat_to_match_shape",
    "scipy": "special stats linalg integrate signal",
    "scipy.signal": "convolve fftconvolve",
    "scipy.misc": "logsumexp",
}


@pytest.mark.parametrize("module", SURFACE)
def test_names(module: str) -> None:
    found = importlib.import_module(f"tracegrad.compat.autograd{module and '.'}{module}")
    assert [name for name in SURFACE[module].split() if not hasattr(found, name)] == []


@pytest.mark.slow
def test_numpy_and_scipy_are_themselves() -> None:
    assert np is numpy and npr is numpy.random
    script = (
        "import sys, tracegrad\n"
        "assert not any(name.startswith('tracegrad.compat') for name in sys.modules)\n"
        "import tracegrad.compat.autograd as autograd\n"
        "assert 'scipy.stats' not in sys.modules and autograd.numpy is sys.modules['numpy']\n"
        "import tracegrad.compat.autograd.scipy.stats.norm as norm\n"
        "from tracegrad.compat.autograd.scipy.stats import norm as again\n"
        "from tracegrad.compat.autograd.scipy.special import logsumexp\n"
        "import tracegrad.compat.autograd.scipy.linalg as la, scipy\n"
        "assert norm is again is scipy.stats.norm and la is scipy.linalg and logsumexp is scipy.special.logsumexp\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_readme() -> None:
    def tanh(x):
        y = np.exp(-2.0 * x)
        return (1.0 - y) / (1.0 + y)

    assert grad(tanh)(1.0) == pytest.approx(0.419974341614026)
    x = np.linspace(-2, 2, 5)
    first = elementwise_grad(tanh)
    assert np.allclose(first(x), 1 - np.tanh(x) ** 2)
    assert np.allclose(elementwise_grad(first)(x), -2 * np.tanh(x) * (1 - np.tanh(x) ** 2))
    assert grad(tanh).__name__ == "grad_of_tanh_wrt_argnum_0"


def f(x, c=1.0):
    return c * np.sum(np.sin(x) ** 2 * np.roll(x, 1))


def g(x):
    return np.tanh(x[:2] * x[2])


X, V = np.array([0.3, -0.7, 1.1]), np.array([1.0, 2.0, -1.0])


def differences(h, x=X, eps=1e-6):
    return np.stack([(h(x + eps * e) - h(x - eps * e)) / (2 * eps) for e in np.eye(len(x))], -1)


@pytest.mark.slow
def test_operators() -> None:
    H, J = differences(grad(f)), differences(g)
    close = lambda a, b: np.allclose(a, b, atol=1e-7)  # noqa: E731
    assert close(grad(f)(X), differences(f)) and close(value_and_grad(f)(X, c=2.0)[1], 2 * grad(f)(X))
    assert close(hessian(f)(X), H) and close(jacobian(g)(X), J)
    assert hessian(g)(X).shape == (2, 3, 3) and close(hessian(g)(X), differences(jacobian(g)))
    assert close(hessian_vector_product(f)(X, V), H @ V) and close(hessian_tensor_product(f)(X, V), H @ V)
    assert close(tensor_jacobian_product(g)(X, V[:2]), V[:2] @ J)
    vjp, value = make_vjp(g)(X)
    assert close(value, g(X)) and close(vjp(V[:2]), V[:2] @ J)
    assert close(make_jvp(g)(X)(V)[1], J @ V) and close(make_jvp_reversemode(g)(X)(V), J @ V)
    hvp, gradient = make_hvp(f)(X)
    assert close(hvp(V), H @ V) and close(gradient, grad(f)(X))
    assert close(make_ggnvp(g)(X)(V), J.T @ (J @ V))
    assert close(make_ggnvp(g, lambda y: np.sum(y**4))(X)(V), J.T @ (12 * g(X) ** 2 * (J @ V)))
    assert close(grad(lambda x: np.sum(jacobian(g)(x) ** 2))(X), differences(lambda x: np.sum(jacobian(g)(x) ** 2)))
    assert deriv(np.sin)(0.5) == pytest.approx(np.cos(0.5))


def test_arguments_are_trees() -> None:
    def loss(params, scale, data=X):
        (W, b), extra = params["layer"], params["extra"]
        return scale * np.sum((W @ data + b) ** 2) + extra[0] ** 2

    params = {"layer": (np.ones((2, 3)), 0.5), "extra": [3.0]}
    found = grad(loss)(params, 2.0)
    assert list(found) == list(params) and type(found["layer"]) is tuple and type(found["extra"]) is list
    r = 2 * 2.0 * (X.sum() + 0.5)
    assert np.allclose(found["layer"][0], r * np.array([X, X])) and found["extra"][0] == 6.0
    by_scale, by_params = grad(loss, (1, 0))(params, 2.0)
    assert by_scale == pytest.approx(r * r / 8) and np.allclose(by_params["layer"][1], 2 * r)
    flat, unflatten = flatten(params)
    assert flat[0] == 3.0 and unflatten(flat)["layer"][1] == 0.5
    assert np.allclose(grad(lambda v: loss(unflatten(v), 2.0))(flat), flatten(found)[0])
    assert grad_named(loss, "scale")(params, 2.0) == pytest.approx(r * r / 8)
    found = multigrad_dict(lambda a, b=2.0, *c, **d: a * b * c[0] * d["e"])(3.0, 4.0, 5.0, e=6.0)
    assert found == OrderedDict(a=120.0, b=90.0, c=(72.0,), d={"e": 60.0})


def test_values_as_that_library_has_them() -> None:
    assert grad(lambda x: np.sum(x, keepdims=True))(X).tolist() == [1, 1, 1]
    value, gradient = value_and_grad(lambda x: np.sum(x**2, keepdims=True))(X)
    assert value.shape == (1,) and np.allclose(gradient, 2 * X)
    assert grad(lambda x: np.sum(x**2))(np.array([1, 2])).tolist() == [2.0, 4.0]
    gradient, aux = grad_and_aux(lambda x: (np.sum(x), {"square": x**2}))(X)
    assert gradient.tolist() == [1, 1, 1] and np.allclose(aux["square"], X**2)
    with pytest.warns(UserWarning, match="does not depend"):
        assert grad(lambda x: 1.0)(2.0) == 0.0
    z = 3.0 + 4.0j
    assert grad(lambda z: np.abs(z) ** 2)(z) == 2 * np.conj(z)
    assert np.allclose(holomorphic_grad(lambda z: z**3)(z), 3 * z**2)
    assert np.allclose(make_vjp(lambda z: z**3)(z)[0](2j), 2j * 3 * z**2)
    assert np.allclose(make_jvp(lambda z: z**3)(z)(2j)[1], 2j * 3 * z**2)
    assert isbox(1.0) is False and getval(2.0) == 2.0 and vspace(X).size == 3 and vspace(z).size == 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: grad(lambda x: 2 * x)(X), "Grad only applies to real scalar-output functions"),
        (lambda: value_and_grad(lambda x: x * 1j)(1.0), "real scalar-output functions"),
        (lambda: elementwise_grad(lambda x: x * 1j)(X), "real-output functions"),
        (lambda: grad(f)(3), "only floats have gradients"),
        (lambda: jacobian(g)(3), "Can't differentiate w.r.t. type <class 'int'>"),
        (lambda: jacobian(lambda x: x * 1j)(X), "complex"),
        (lambda: grad(f, "x")(X), "argnum"),
    ],
)
def test_errors(call, text) -> None:
    with pytest.raises(TypeError, match=text):
        call()


def test_training() -> None:
    inputs, targets = np.array([[0.5, 1.0], [0.9, -1.0], [0.7, 0.3], [-0.4, 1.0]]), np.array([1, 0, 1, 0])

    def loss(weights, _):
        p = 0.5 * (np.tanh(inputs @ weights["w"] + weights["b"]) + 1)
        return -np.sum(np.log(p * targets + (1 - p) * (1 - targets)))

    start, seen = {"w": np.zeros(2), "b": 0.0}, []
    gradient = grad(loss)
    for optimize in (sgd, rmsprop, adam):
        found = optimize(gradient, start, num_iters=30, step_size=0.05, callback=lambda p, i, g: seen.append(i))
        assert loss(found, 0) < 0.9 * loss(start, 0)
    assert seen == [*range(30)] * 3


def test_methods_share_kernels() -> None:
    class Model:
        def __init__(self, rate):
            self.w, self.calls, self.rate = np.zeros(3), 0, rate

        def loss(self, w, y):
            self.calls += 1
            return np.sum((w - y) ** 2) / 2

        def fit(self):
            for _ in range(2):
                self.w = self.w - self.rate * grad(self.loss)(self.w, X)
            return self.w

    for rate in (0.5, 0.25, 0.125):
        model = Model(rate)
        assert np.allclose(model.fit(), X * (1 - (1 - rate) ** 2)) and model.calls == 2
        assert np.allclose(hessian_vector_product(model.loss)(X, X, V), V)
        assert np.allclose(jacobian(model.loss, 1)(X, 2 * X), X) and np.allclose(
            make_vjp(model.loss)(2 * X, X)[0](1.0), X
        )
    assert function_grad(Model.loss).stats.traces == 1


def test_closures_made_in_each_call() -> None:
    calls = []

    def slope(a, x):
        def inner(y):
            calls.append(None)
            return a * y**3

        return grad(inner)(x) * grad(lambda a: grad(lambda x: a * x**2)(x))(a)

    for a in (1.0, 2.0, 3.0):
        assert slope(a, 2.0) == pytest.approx(12 * a * 4)
    assert grad(slope)(1.5, 2.0) == pytest.approx(48) and calls
    assert grad(checkpoint(lambda x: np.sin(x) ** 2))(0.5) == pytest.approx(np.sin(1.0))


def test_no_gradient_is_lost_at_a_constant() -> None:
    """C code that asks an inner function's argument for a plain number, where that is a constant of the recording."""
    by_c = lambda y: array.array("d", [y])[0] * y  # noqa: E731
    for operator in (function_grad, grad, deriv):
        with pytest.raises(TypeError, match="lose its gradient"):
            grad(lambda x, of=operator: x * of(by_c)(3.0))(1.0)


def test_vjp_of_a_function_that_draws() -> None:
    vjp, _ = make_vjp(lambda x: x * npr.randn(3))(X)
    with pytest.raises(Exception, match="another value in vjp"):
        vjp(V)

    def noisy(x):
        return x * npr.randn(3)

    npr.seed(0)
    scale = npr.randn(3)
    npr.seed(0)
    assert np.allclose(jacobian(noisy)(X), np.diag(scale))  # one draw for all rows


@primitive
def logsumexp(x):
    """Numerically stable log(sum(exp(x))), as in the library's tutorial."""
    assert type(x) is np.ndarray
    max_x = np.max(x)
    return max_x + np.log(np.sum(np.exp(x - max_x)))


defvjp(logsumexp, lambda ans, x: lambda g: np.full(x.shape, g) * np.exp(x - np.full(x.shape, ans)))


def test_primitive() -> None:
    y = np.array([1.5, 6.7, 1e-10])
    p = np.exp(y - logsumexp(y))
    loss = lambda y: logsumexp(y) ** 2  # noqa: E731
    compiled = compile_grad(logsumexp)
    for _ in range(4):
        assert np.allclose(grad(logsumexp)(y), p) and np.allclose(compiled.grad(y), p)
    assert compiled.stats.traces == 1  # it is replayed
    with pytest.raises(TypeError, match="no primitive"):
        defvjp(np.exp, lambda ans, x: lambda g: g * ans)
    assert np.allclose(hessian(logsumexp)(y), np.diag(p) - np.outer(p, p))
    assert np.allclose(jacobian(lambda y: np.array([logsumexp(y), logsumexp(2 * y)]))(y)[0], p)
    check_grads(loss, modes=["rev"])(y)


def test_primitive_of_trees_and_complex_numbers() -> None:
    @primitive
    def both(pair, k, data, power=2):
        a, b = pair
        return {"u": a * data**power, "v": (b * k).real}, len(data)

    def vjp(ans, pair, k, data, power=2):
        return lambda g: (np.sum(g[0]["u"] * data**power), g[0]["v"] * k)

    defvjp(both, vjp, None)

    def loss(a, b):
        found, n = both((a, b), 3.0, X)
        return n * (np.sum(found["u"]) + found["v"] ** 2)

    by_a, by_b = grad(loss, (0, 1))(2.0, 1 + 2j)
    assert by_a == pytest.approx(3 * np.sum(X**2)) and by_b == pytest.approx(3 * 2 * 3 * 3)
    with pytest.raises(NotImplementedError, match=r"VJP of both wrt argnums \(2,\) not defined"):
        grad(lambda x: np.sum(both((1.0, 1j), 3.0, x)[0]["u"]))(X)


def test_rules_as_people_write_them() -> None:
    """Broadcasting, objects as arguments, a rule that calls the primitive again, ``x._value``."""
    polynomial = np.polynomial.Polynomial([1.0, 2.0, 3.0, 4.0])

    @primitive
    def interpolate(x, interpolator, order):
        return interpolator.deriv(order)(x) if order else interpolator(x)

    defvjp(interpolate, lambda ans, x, p, order: lambda g: g * interpolate(x, p, order + 1))
    power = primitive(np.power)
    defvjp(
        power,
        lambda ans, x, y: unbroadcast_f(x, lambda g: g * y * x ** np.where(y, y - 1, 1.0)),
        lambda ans, x, y: unbroadcast_f(y, lambda g: g * np.log(replace_zero(x, 1.0)) * ans),
    )

    def total(x, y):
        plain = x._value if isinstance(x, ArrayBox) else x
        return np.sum(power(x, y)) + np.sum(plain)

    assert np.allclose(elementwise_grad(elementwise_grad(interpolate))(X, polynomial, 0), polynomial.deriv(2)(X))
    by_x, by_y = grad(total, (0, 1))(X**2, 1.5)
    assert np.allclose(by_x, 1.5 * np.abs(X)) and by_y == pytest.approx(np.sum(np.log(X**2) * np.abs(X) ** 3))


def cube_of(*rules: str):
    """x³ y as a primitive with the derivatives of 2 x³ y, by the *rules* asked for."""

    @primitive
    def cube(x, y):
        return numpy.asarray(x) ** 3 * y

    if "vjp" in rules:
        defvjp(cube, lambda ans, x, y: lambda g: g * 6 * x**2 * y, lambda ans, x, y: lambda g: np.sum(g * 2 * x**3))
    if "jvp" in rules:
        defjvp(cube, lambda g, ans, x, y: g * 6 * x**2 * y, lambda g, ans, x, y: g * 2 * ans / y)
    return cube


@pytest.mark.parametrize("rules", [("vjp",), ("jvp",), ("vjp", "jvp")], ids=str)
def test_rules_of_either_form(rules) -> None:
    """A primitive with one of ``defvjp`` and ``defjvp`` has derivatives of both kinds, to any order."""
    cube, y = cube_of(*rules), 1.5
    first = lambda x: 6 * x**2 * y * np.cos(2 * x) - 2 * np.sin(2 * x) * x**3 * y  # noqa: E731

    def h(x, y):
        return cube(x, y) * np.cos(2 * x)

    value, tangent = make_jvp(h)(X, y)(V)
    assert np.allclose(value, X**3 * y * np.cos(2 * X)) and np.allclose(tangent, first(X) * V)
    assert np.allclose(make_vjp(h)(X, y)[0](V), first(X) * V)
    assert np.allclose(make_jvp(h, 1)(X, y)(1.0)[1], 2 * X**3 * np.cos(2 * X))
    assert np.allclose(jacobian(h)(X, y), np.diag(first(X)))
    second = lambda x: (  # noqa: E731
        (12 * x * y * np.cos(2 * x) - 12 * x**2 * y * np.sin(2 * x)) - 12 * x**2 * y * np.sin(2 * x)
        - 4 * np.cos(2 * x) * x**3 * y
    )  # fmt: skip
    if rules == ("vjp",):  # the value in the rule has its own rule again
        found = hessian(lambda x: np.sum(h(x, y)))(X)
        assert np.allclose(found, np.diag(second(X)), atol=1e-9)
        assert np.allclose(hessian_vector_product(lambda x: np.sum(h(x, y)))(X, V), second(X) * V)
    assert make_jvp_reversemode(h)(X, y)(V) == pytest.approx(first(X) * V)


def test_linear_primitives() -> None:
    @primitive
    def doubled(x):
        return 2 * numpy.asarray(x)

    def_linear(doubled)
    assert make_jvp(doubled)(X)(V)[1].tolist() == (2 * V).tolist()
    with pytest.raises(NotImplementedError, match=r"VJP of doubled wrt argnums \(0,\) not defined"):
        grad(lambda x: np.sum(doubled(x)))(X)

    @primitive
    def scaled(c, x, unused):
        return c * numpy.asarray(x)

    defjvp(scaled, lambda g, ans, c, x, o: g * x, "same", None)
    assert np.allclose(make_jvp(lambda x: scaled(3.0, x, 0.0))(X)(V)[1], 3 * V)
    assert np.allclose(make_jvp(lambda c: scaled(c, X, 1.0))(3.0)(0.5)[1], 0.5 * X)
    assert np.allclose(make_jvp(lambda o: scaled(2.0, X, o))(3.0)(0.5)[1], 0 * X)
    defvjp(scaled, None, lambda ans, c, x, o: lambda g: c * g)
    assert np.allclose(jacobian(lambda x: scaled(3.0, x, 0.0))(X), 3 * np.eye(3))


def test_tangents_by_number_of_argument_and_of_trees() -> None:
    @primitive
    def both(x, y):
        return {"product": x * y, "sum": (x + y, 3)}

    defjvp_argnums(both, lambda argnums, gs, ans, args, kwargs: {
        "product": sum(g * args[1 - k] for k, g in zip(argnums, gs, strict=True)), "sum": (sum(gs), 0)})  # fmt: skip

    def h(x):
        found = both(x, np.sin(x))
        return found["product"] + 2 * found["sum"][0]

    expected = V * (np.sin(X) + X * np.cos(X) + 2 + 2 * np.cos(X))
    assert np.allclose(make_jvp(h)(X)(V)[1], expected)
    assert np.allclose(make_vjp(h)(X)[0](V), expected)  # by transposing the rule
    square = primitive(lambda z: z * z)
    defjvp_argnum(square, lambda argnum, g, ans, args, kwargs: 2 * args[0] * g)
    assert np.allclose(make_jvp(square)(1 + 2j)(1j)[1], 2 * (1 + 2j) * 1j)
    assert np.allclose(make_vjp(square)(1 + 2j)[0](1j), 2 * (1 + 2j) * 1j)
    bad = primitive(lambda x: x * 1.0)
    defjvp(bad, lambda g, ans, x: np.concatenate([g, g]))
    with pytest.raises(ValueError, match=r"the tangent that the jvp of <lambda> returned .*6"):
        make_jvp(bad)(X)(V)
    power = primitive(lambda x, n, *, k=0.0: x**n + k)
    defjvp(power, lambda g, ans, x, n, k=0.0: n * x ** (n - 1) * g)
    assert make_jvp(power)(2.0, 3.0, k=1.0)(1.0)[1] == 12.0  # the other tangents are not asked for
    with pytest.raises(NotImplementedError, match=r"JVP of <lambda> wrt argnums \(1,\) not defined"):
        make_jvp(power, 1)(2.0, 3.0)(1.0)
    with pytest.raises(NotImplementedError, match="JVP of <lambda> wrt argnums given by name not defined"):
        make_jvp(lambda k: power(2.0, 3.0, k=k))(1.0)(1.0)
    with pytest.raises(TypeError, match="no primitive"):
        defjvp(np.sin, lambda g, ans, x: g)


def test_primitive_without_a_rule() -> None:
    @primitive
    def twice(x, n):
        return 2 * x * n

    assert grad(lambda x, y: x * twice(2.0, y) if y is None else x)(3.0, 1.0) == 1.0
    with pytest.raises(NotImplementedError, match=r"VJP of twice wrt argnums \(0,\) not defined"):
        grad(twice)(1.0, 2.0)
    defvjp_argnum(twice, lambda argnum, ans, args, kwargs: lambda g: g * 2 * args[1 - argnum])
    assert grad(twice, (0, 1))(3.0, 5.0) == (10.0, 6.0)


def test_rules_of_functions_that_are_no_primitives() -> None:
    """They are kept and not asked: such a function is differentiated through, as in HIPS autograd."""

    class Model:
        def solve(self, x):
            return x**3

        def __call__(self, x):
            return x * x

    def solve(x, y):
        return x * y**2

    def wrong(ans, *args):
        return lambda g: 100.0 * g

    model = Model()
    for fun in (solve, lambda x: x, model, model.solve, Model, partial(solve, 2.0)):
        defvjp(fun, wrong, None)
        defvjp_argnum(fun, lambda argnum, ans, args, kwargs: wrong(ans))
        defvjp_argnums(fun, lambda argnums, ans, args, kwargs: wrong(ans))
        defjvp(fun, lambda g, ans, *args: 100.0 * g, None)
        defjvp_argnum(fun, lambda argnum, g, ans, args, kwargs: 100.0 * g)
        def_linear(fun)
        assert fun in core.primitive_vjps and fun in core.primitive_jvps
    assert grad(solve, (0, 1))(3.0, 2.0) == (4.0, 12.0) and grad(model)(3.0) == 6.0 and grad(model.solve)(1.0) == 3.0
    decorated = primitive(solve)  # a function of its own, whose rules are its own
    with pytest.raises(NotImplementedError, match="VJP of solve"):
        grad(decorated)(3.0, 2.0)
    for library in (np.sin, np.linalg.norm, scipy.special.erf, scipy.linalg.expm, np.dot, abs, math.sin):
        with pytest.raises(TypeError, match="is no primitive"):
            defvjp(library, wrong)
        with pytest.raises(TypeError, match="is no primitive"):
            defjvp(library, wrong)


def test_parts_of_the_package_are_its_attributes() -> None:
    """``import autograd as ag``, then ``@ag.primitive`` and ``ag.extend.defvjp``."""
    script = (
        "import tracegrad.compat.autograd as ag\n"
        "@ag.primitive\n"
        "def double(x): return 2 * x\n"
        "ag.extend.defvjp(double, lambda ans, x: lambda g: 2 * g)\n"
        "ag.extend.defjvp(double, lambda g, ans, x: 2 * g)\n"
        "assert ag.grad(double)(1.0) == 2.0 and ag.core.vspace(1.0).size == 1 and not ag.tracer.isbox(1.0)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_rule_that_is_wrong_is_found() -> None:
    @primitive
    def foo(x):
        return x * 2.0

    defvjp(foo, lambda ans, x: lambda g: g * 2.001)
    with pytest.raises(AssertionError, match=r"\(VJP\) check of foo failed"):
        check_grads(foo, modes=["rev"])(1.0)


@pytest.mark.slow
def test_fixed_point() -> None:
    def newton(a):
        return lambda x: 0.5 * (x + a / x)

    def sqrt(a, guess=10.0):
        return fixed_point(newton, a, guess, lambda x, y: np.abs(x - y), 1e-9)

    assert grad(sqrt)(2.0) == pytest.approx(0.5 / np.sqrt(2.0))
    assert grad(grad(sqrt))(2.0) == pytest.approx(-0.25 * 2.0**-1.5, rel=1e-5)
