"""``custom_vjp`` and ``custom_jvp``: the examples of JAX's documentation, loops, order two, and wrong rules.

A rule that is right is compared with finite differences; one that is wrong on purpose shows that it is used.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from agreement import agree, numerical_gradient

import tracegrad as tg
from tracegrad import DifferentiationError, ShapeError, TracegradError, UnsupportedError, autograd, compile_grad

X = np.array([0.3, -1.2, 2.0])
Y = np.array([1.5, 0.7, -0.4])
SCALE = 3.0
MATRIX = np.array([[2.0, 0.5, 0.0], [0.1, 1.5, 0.3], [0.0, -0.2, 1.0]])

# ---- functions with rules ------------------------------------------------------------------------------------------


@tg.custom_vjp
def sine(x, y):
    return np.sin(x) * y


def sine_fwd(x, y):
    return sine(x, y), (np.cos(x), np.sin(x), y)


def sine_bwd(res, g):
    cos_x, sin_x, y = res
    return cos_x * g * y, sin_x * g


sine.defvjp(sine_fwd, sine_bwd)


@tg.custom_jvp
def log1pexp(x):
    return np.log(1 + np.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return log1pexp(x), (1 - 1 / (1 + np.exp(x))) * t


@tg.custom_jvp
def product(x, y):
    return np.sin(x) * y


product.defjvps(lambda t, ans, x, y: np.cos(x) * t * y, lambda t, ans, x, y: ans / y * t)


@tg.custom_jvp
def own_exp(x):
    return np.exp(x)


own_exp.defjvps(lambda t, ans, x: ans * t)


@partial(tg.custom_vjp, nondiff_argnums=(0, 2))
def applied(f, x, n):
    for _ in range(n):
        x = f(x)
    return x


def applied_fwd(f, x, n):
    return applied(f, x, n), x


def applied_bwd(f, n, x, g):
    return (g * n * f(x),)


applied.defvjp(applied_fwd, applied_bwd)


@tg.custom_vjp
def norms(point):
    return {"sum": point["a"] + np.sum(point["b"]), "all": (point["b"] ** 2, 7)}


def norms_bwd(point, g):
    return ({"a": g["sum"], "b": g["sum"] + 2 * point["b"] * g["all"][0]},)


norms.defvjp(lambda point: (norms(point), point), norms_bwd)


@tg.custom_jvp
def safe_norm(x):
    return np.sqrt(np.sum(x**2))


@safe_norm.defjvp
def safe_norm_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    norm = safe_norm(x)
    return norm, np.sum(x * t) / np.where(norm == 0, 1.0, norm)


# ---- programs: scalar functions of one array -------------------------------------------------------------------------


def plain(x):
    return np.sum(sine(x, Y) ** 2)


def both_arguments(x):
    return np.sum(sine(x, sine(x * 2, x)))


def forward_rule(x):
    return np.sum(log1pexp(x) * x)


def by_argument(x):
    return np.sum(product(x, x + 3) * own_exp(x))


def trees(x):
    found = norms({"a": x[0] * 2, "b": x})
    return found["sum"] * x[1] + np.sum(found["all"][0] * x) + found["all"][1]


def by_name(x):
    return np.sum(sine(y=x, x=x**2))


def numbers(x):
    return sine(x[0], 2.0) + sine(0.5, x[1]) * log1pexp(x[2])


def rolled(x):
    for _ in range(20):
        x = sine(x, Y) + 0.1 * log1pexp(x)
    return np.sum(x)


def scanned(x):
    return np.sum(tg.scan(lambda c, y: (sine(c, y) + product(c, Y), None), x, MATRIX)[0])


def repeated(x):
    return np.sum(tg.while_loop(lambda c: c[1] < 5, lambda c: (sine(c[0], Y) + log1pexp(c[0]), c[1] + 1), (x, 0))[0])


def branches(x):
    return np.sum(tg.cond(np.sum(x) > 0, lambda x: sine(x, Y), log1pexp, x))


PROGRAMS = (
    plain, both_arguments, forward_rule, by_argument, trees, by_name, numbers, rolled, scanned, repeated, branches,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_right_rules(program) -> None:
    agree(compile_grad(program), program, X)


@pytest.mark.parametrize(
    "program", [plain, by_argument, rolled, scanned, pytest.param(repeated, marks=pytest.mark.slow)]
)
def test_order_two(program) -> None:
    """The gradient of a product with the gradient, by rules of rules."""

    def slope(x):
        return np.sum(autograd.grad(program)(x) * Y)

    gradient = autograd.grad(program)
    expected = numerical_gradient(lambda x: float(np.sum(gradient(x) * Y)), (X,))
    np.testing.assert_allclose(autograd.grad(slope)(X), expected, rtol=1e-5, atol=1e-6)


def test_a_loop_is_rolled() -> None:
    text = compile_grad(rolled).explain(X, level="all")
    assert "loop[" in text and "length=20" in text


def test_plain_calls_are_the_function() -> None:
    assert type(sine(X, Y)) is np.ndarray and log1pexp(0.0) == np.log(2.0)
    assert np.all(autograd.custom_vjp(lambda x: x + 1)(X) == X + 1)  # no rule is needed there


def test_a_stable_derivative() -> None:
    """JAX's first example: the derivative by the formula is NaN."""
    assert autograd.grad(log1pexp)(1000.0) == 1.0
    assert autograd.grad(autograd.grad(log1pexp))(0.0) == pytest.approx(0.25)


def test_safe_norm() -> None:
    assert np.all(autograd.grad(safe_norm)(np.zeros(3)) == 0)
    np.testing.assert_allclose(autograd.grad(safe_norm)(X), X / np.linalg.norm(X))


def test_clip_gradient() -> None:
    @partial(tg.custom_vjp, nondiff_argnums=(0, 1))
    def clip_gradient(lo, hi, x):
        return x

    clip_gradient.defvjp(lambda lo, hi, x: (x, None), lambda lo, hi, _, g: (np.clip(g, lo, hi),))
    gradient = autograd.grad(lambda x: np.sum(np.sin(clip_gradient(-0.5, 0.5, x))))
    np.testing.assert_allclose(gradient(X), np.clip(np.cos(X), -0.5, 0.5))


def branching(x):
    y = x
    for _ in range(4):
        y = np.sin(y) * x + 0.1
    while np.sum(y * y) > 0.2:
        y = 0.7 * y
    y, rows = tg.scan(lambda c, row: (tg.fori_loop(0, 2, lambda k, v: np.sin(v + row), c), np.sum(c)), y, MATRIX)
    return np.sum(y * x) + np.sum(rows) if y[0] > 0.4 else np.sum(y)


def test_a_rule_that_is_transposed_asks_for_primals():
    """Tangents beside them in a loop change nothing: values that do not depend on tangents can be asked for."""

    @tg.custom_jvp
    def fn(x):
        return branching(x)

    fn.defjvp(lambda primals, tangents: autograd.jvp(branching, primals, tangents))
    for x in (X, X * 0.1, X):
        assert np.allclose(autograd.grad(fn)(x), numerical_gradient(branching, [x]), atol=1e-6)


@pytest.mark.parametrize("ask", [lambda t: t[0] > 0, lambda t: float(t[0]) > 0, lambda t: np.asarray([t[0]])[0] > 0])
def test_a_rule_that_is_transposed_does_not_ask_for_tangents(ask):
    @tg.custom_jvp
    def fn(x):
        return np.sum(np.sin(x))

    @fn.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return fn(x), np.sum(np.cos(x) * t) if ask(t) else np.sum(t)

    with pytest.raises(UnsupportedError, match=r"value .* of a cotangent or tangent") as caught:
        autograd.grad(fn)(X)
    assert "test_custom_rules.py" in str(caught.value)
    assert np.allclose(autograd.jvp(fn, (X,), (np.ones(3),))[1], np.sum(np.cos(X)))


def test_python_control_flow() -> None:
    """A rule that asks for values is no program, and runs where a derivative is taken."""

    @tg.custom_vjp
    def f(x):
        return np.sin(x) if x > 0 else np.cos(x)

    def f_bwd(x, g):
        if float(x) > 0:
            return (2 * g,)
        return (3 * g,)

    f.defvjp(lambda x: (f(x), x), f_bwd)
    gradient = autograd.grad(f)
    for _ in range(3):
        assert gradient(1.0) == 2.0 and gradient(-1.0) == 3.0


def test_settings() -> None:
    gradient = autograd.grad(lambda x: np.sum(applied(np.sin, x, 3)))
    np.testing.assert_allclose(gradient(X), 3 * np.sin(X))  # by the rule, which is not the derivative
    named = tg.custom_vjp(lambda x, n: x * n, nondiff_argnames=("n",))
    named.defvjp(lambda x, n: (x * n, None), lambda n, _, g: (10 * n * g,))
    assert autograd.grad(lambda x: named(x, n=3))(1.0) == 30
    assert autograd.grad(lambda x: named(n=2, x=x))(1.0) == 20


def test_none_is_zero_and_integers_have_none() -> None:
    @tg.custom_vjp
    def f(x, k, y):
        return x[k] * y["a"]

    f.defvjp(lambda x, k, y: (f(x, k, y), (x, k)), lambda res, g: (None, None, {"a": np.sum(res[0][res[1]] * g)}))
    found = autograd.grad(lambda x, y: np.sum(f(x, np.array([0, 2]), {"a": y})), argnums=(0, 1))(X, 2.0)
    assert np.all(found[0] == 0) and found[1] == pytest.approx(X[0] + X[2])


def test_complex_numbers() -> None:
    """Cotangents are those of JAX: ``bwd`` of ``z * z`` returns ``2 * z * g``."""

    @tg.custom_vjp
    def square(z):
        return z * z

    square.defvjp(lambda z: (square(z), z), lambda z, g: (2 * z * g,))

    @tg.custom_jvp
    def cube(z):
        return z**3

    cube.defjvps(lambda t, ans, z: 3 * z**2 * t)
    for own, formula in ((square, lambda z: z * z), (cube, lambda z: z**3)):
        gradients = [autograd.grad(lambda x, f=f: np.abs(f(x * (1 + 2j) + 1j)))(0.7) for f in (own, formula)]
        assert gradients[0] == pytest.approx(gradients[1])
        whole = [autograd.grad(lambda z, f=f: np.real(f(z) * (2 - 1j)))(0.3 + 0.4j) for f in (own, formula)]
        assert whole[0] == pytest.approx(whole[1])


def test_a_rule_that_calls_its_own_function() -> None:
    """Of other values than its operands: the program contains itself."""

    @tg.custom_vjp
    def tower(x):
        return np.exp(x)

    tower.defvjp(lambda x: (tower(x), x), lambda x, g: (tower(x + 1.0) * g / np.e,))
    value = autograd.grad(tower)
    for _ in range(3):
        assert value(0.5) == pytest.approx(np.exp(0.5))
        value = autograd.grad(value)

    def loop(x):
        for _ in range(8):
            x = tower(-x)
        return x

    expected = numerical_gradient(loop, (np.float64(0.3),))
    assert autograd.grad(loop)(0.3) == pytest.approx(float(expected), rel=1e-5)


def test_a_fixed_point_by_hand() -> None:
    """JAX's example: the derivative of a fixed point, as one of its own iteration."""

    @partial(tg.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, x):
        return tg.while_loop(lambda c: np.abs(c[0] - c[1]) > 1e-10, lambda c: (c[1], f(a, c[1])), (x, f(a, x)))[1]

    def backward(f, res, star_bar):
        a, star = res

        def step(packed, u):
            a, star, star_bar = packed
            return star_bar + autograd.grad(lambda x: f(a, x))(star) * u

        u = fixed_point(step, (a, star, star_bar), star_bar)
        return autograd.grad(lambda a: f(a, star))(a) * u, np.zeros_like(star)

    def forward(f, a, x):
        star = fixed_point(f, a, x)
        return star, (a, star)

    fixed_point.defvjp(forward, backward)

    def newton_sqrt(a):
        return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)

    assert autograd.grad(newton_sqrt)(2.0) == pytest.approx(0.5 / np.sqrt(2))
    assert compile_grad(newton_sqrt).value_and_grad(2.0) == pytest.approx((np.sqrt(2), 0.5 / np.sqrt(2)))


# ---- replays ---------------------------------------------------------------------------------------------------------


def test_replays_and_watches_what_rules_read(monkeypatch) -> None:
    @tg.custom_vjp
    def f(x):
        return np.sum(x**2)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (SCALE * MATRIX[0] * x * g,))
    compiled = compile_grad(lambda x: f(x) * 2)
    for _ in range(4):
        np.testing.assert_allclose(compiled.value_and_grad(X)[1], 2 * SCALE * MATRIX[0] * X)
    assert compiled.stats.traces == 1 and not compiled.stats.live
    compiled.grad(X)
    compiled(X)
    assert compiled.stats.traces == 1 and compiled.stats.derived >= 2  # from the run that is kept
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    np.testing.assert_allclose(compiled.grad(X), 2 * SCALE * MATRIX[0] * X)
    monkeypatch.setitem(globals(), "MATRIX", MATRIX + 1)
    np.testing.assert_allclose(compiled.grad(X), 2 * SCALE * MATRIX[0] * X)
    f.defvjp(lambda x: (f(x), x), lambda x, g: (7 * g * x,))
    np.testing.assert_allclose(compiled.grad(X), 14 * X)


# ---- wrong rules -----------------------------------------------------------------------------------------------------


def with_rule(fwd=None, bwd=None):
    @tg.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(fwd or (lambda x: (x * 2, x)), bwd or (lambda x, g: (g,)))
    return f


def with_jvp(jvp):
    f = tg.custom_jvp(lambda x: x * 2)
    f.defjvp(jvp)
    return f


WRONG = {
    "a tuple of 1 was expected": with_rule(bwd=lambda x, g: g),
    "a tuple of 2, but a tuple of 1 was expected": with_rule(bwd=lambda x, g: (g, g)),
    r"for argument 0 is float64\[\], but float64\[3\] was expected": with_rule(bwd=lambda x, g: (g[0],)),
    r"is float64\[3,3\], but float64\[3\] was expected: sum over": with_rule(bwd=lambda x, g: (np.outer(g, g),)),
    r"is float32\[3\].*convert it with .astype\(np.float64\)": with_rule(bwd=lambda x, g: (g.astype(np.float32),)),
    "is a str, but": with_rule(bwd=lambda x, g: ("g",)),
    "the fwd of a custom_vjp, returned one array, but a pair": with_rule(fwd=lambda x: x),
    "the structure .*, but that of the function has": with_rule(fwd=lambda x: ((x, x), x)),
    "returned one array, but a pair .result, tangent.": with_jvp(lambda p, t: t[0]),
    r"a tangent that .* is float64\[\], but float64\[3\]": with_jvp(lambda p, t: (p[0], t[0][0])),
    "the result that .* returned is float64": with_jvp(lambda p, t: (p[0][0], t[0])),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_rules(message) -> None:
    """A value needs no rule; a derivative names the rule, and what was found and expected."""
    f = WRONG[message]
    compiled = compile_grad(lambda x: np.sum(f(x)))
    assert compiled(X) == pytest.approx(np.sum(X * 2))
    with pytest.raises(ShapeError, match=message) as error:
        compiled.grad(X)
    assert "test_custom_rules.py" in str(error.value)


def test_closed_over_values_have_no_derivative() -> None:
    def scaled(w):
        f = tg.custom_vjp(lambda x: np.sum(x * w))
        f.defvjp(lambda x: (f(x), None), lambda _, g: (g * w,))
        return f

    np.testing.assert_allclose(autograd.grad(lambda x: scaled(MATRIX[0])(x))(X), MATRIX[0])
    np.testing.assert_allclose(autograd.grad(lambda x, w: scaled(w)(x))(X, Y), Y)
    with pytest.raises(DifferentiationError, match="with respect to a value that it closes over"):
        autograd.grad(lambda x, w: scaled(w)(x), argnums=1)(X, Y)
    second = autograd.grad(lambda x, w: np.sum(autograd.grad(lambda x: scaled(w)(x))(x)), argnums=1)
    assert np.all(second(X, Y) == 1)  # of the gradient, which is w: the rule reads it


def test_other_errors() -> None:
    with pytest.raises(TracegradError, match=r"without a rule: call f.defvjp"):
        compile_grad(tg.custom_vjp(lambda x: x))(1.0)
    with pytest.raises(UnsupportedError, match=r"autograd\.Function for tensors"):
        sine(tg.tensor([1.0], requires_grad=True), X)
    assert sine(tg.tensor([0.0]), 1.0) == 0
    with pytest.raises(ValueError, match="no argument 'z'"):
        tg.custom_jvp(lambda x: x, nondiff_argnames="z")
    with pytest.raises(TypeError, match="by name only"):
        named = tg.custom_vjp(lambda x, *, y: x)
        named.defvjp(lambda x, y: (x, None), lambda _, g: (g,))
        compile_grad(lambda x: named(x, y=1))(1.0)


# ---- other transforms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program", [both_arguments, trees, *[pytest.param(p, marks=pytest.mark.slow) for p in (numbers, rolled, branches)]]
)
def test_transforms(program) -> None:
    """Forward mode, batches, per-example gradients, and the gradient of a batch."""
    v, batch = np.array([0.2, -0.5, 1.0]), np.stack([X, X * 0.5, X + 0.1, -X])
    gradient = autograd.grad(program)
    np.testing.assert_allclose(autograd.jvp(program, (X,), (v,))[1], gradient(X) @ v, rtol=1e-9)
    values, each = np.array([program(x) for x in batch]), np.stack([gradient(x) for x in batch])
    np.testing.assert_allclose(autograd.vmap(program)(batch), values, rtol=1e-9)
    np.testing.assert_allclose(autograd.vmap(gradient)(batch), each, rtol=1e-9)
    squares = autograd.grad(lambda b: np.sum(autograd.vmap(program)(b) ** 2))
    np.testing.assert_allclose(squares(batch), 2 * values[:, None] * each, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(autograd.hessian(program)(X), autograd.jacrev(gradient)(X), rtol=1e-8, atol=1e-10)


def test_a_batch_of_some_arguments() -> None:
    """Cotangents of what is the same in all rows are sums over the rows."""
    batch = np.stack([X, X * 0.5, X + 0.1])

    def total(x, y):
        return np.sum(autograd.vmap(sine, in_axes=(0, None))(x, y) ** 2)

    found = autograd.grad(total, argnums=(0, 1))(batch, Y)
    expected = autograd.grad(lambda x, y: np.sum((np.sin(x) * y) ** 2), argnums=(0, 1))(batch, Y)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b)


def test_what_fwd_computes_again_is_computed_once() -> None:
    """The function and ``fwd`` have a product each; the kernel has one of them."""

    @tg.custom_vjp
    def layer(x, w):
        return np.tanh(x @ w)

    def fwd(x, w):
        y = np.tanh(x @ w)
        return y, (x, w, y)

    layer.defvjp(fwd, lambda res, g: ((g * (1 - res[2] ** 2)) @ res[1].T, res[0].T @ (g * (1 - res[2] ** 2))))
    compiled = compile_grad(lambda x, w: np.sum(layer(x, w) ** 2), argnums=(0, 1))
    text = compiled.explain(MATRIX * np.ones((1, 1)), MATRIX, level="all")
    assert text.partition("--- loops")[2].count("= matmul ") == 3


def test_an_index_out_of_bounds_in_a_rule_is_an_error_in_a_later_call() -> None:
    """The check of the rule is made anew where the derivative is: the run is not made again without end."""

    @tg.custom_vjp
    def pick(x, i):
        return x.sum()

    pick.defvjp(lambda x, i: (x.sum(), (x, i)), lambda kept, g: (np.zeros(3) + g * kept[0][kept[1]].sum(), None))
    gradient = autograd.grad(pick)
    x = np.arange(3.0)
    for _ in range(2):
        np.testing.assert_array_equal(gradient(x, np.array([0, 1])), np.ones(3))
    with pytest.raises(IndexError, match="an index in the rule of pick"):
        gradient(x, np.array([0, 7]))
    np.testing.assert_array_equal(gradient(x, np.array([0, 2])), 2 * np.ones(3))
