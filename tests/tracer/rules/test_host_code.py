"""``pure_callback`` and ``primitive``: code that runs on the host, in compiled functions and every transform."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.optimize
import scipy.special
from agreement import agree, numerical_gradient

import tracegrad as tg
from tracegrad import DifferentiationError, ShapeError, TracegradError, UnsupportedError, autograd, compile_grad
from tracegrad.autograd import defjvp, defvjp, primitive

X = np.array([0.3, 1.2, 2.0])
MATRIX = np.array([[2.0, 0.5, 0.0], [0.1, 1.5, 0.3], [0.0, -0.2, 1.0]])
CALLS = []


def solve(b):
    """Host code that reads and changes what is outside of it."""
    CALLS.append(len(CALLS))
    return np.linalg.solve(MATRIX, b)


SHAPE = tg.ShapeDtypeStruct((3,), np.float64)


@tg.custom_vjp
def solution(b):
    return tg.pure_callback(solve, SHAPE, b)


solution.defvjp(
    lambda b: (solution(b), None),
    lambda _, g: (tg.pure_callback(lambda g: np.linalg.solve(MATRIX.T, g), SHAPE, g),),
)


@primitive
def logsumexp(x):
    """Numerically stable log(sum(exp(x))), as in HIPS autograd's tutorial."""
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


defvjp(logsumexp, lambda ans, x: lambda g: np.full(x.shape, g) * np.exp(x - np.full(x.shape, ans)))


@primitive
def scaled(x, y, k=1):
    return {"sum": float(np.sum(x) * y * k), "whole": x * y}


defvjp(
    scaled,
    lambda ans, x, y, k=1: lambda g: g["sum"] * y * k + g["whole"] * y,
    lambda ans, x, y, k=1: lambda g: g["sum"] * ans["sum"] / y + np.sum(g["whole"] * x),
)


def plain_callback(x):
    return np.sum(solution(x) ** 2)


def in_a_loop(x):
    for _ in range(5):
        x = solution(x) + x
    return np.sum(x)


def in_a_scan(x):
    return np.sum(tg.scan(lambda c, row: (solution(c * row), None), x, MATRIX + 1)[0])


def stable(x):
    return logsumexp(x) ** 2 + logsumexp(2 * x)


def rolled_primitive(x):
    for _ in range(6):
        x = x * 0.5 + logsumexp(x)
    return np.sum(x)


def trees(x):
    found = scaled(x, x[1] * 2, k=3)
    return found["sum"] + np.sum(found["whole"] ** 2)


PROGRAMS = [plain_callback, in_a_loop, in_a_scan, stable, rolled_primitive, trees]


@pytest.mark.parametrize("program", PROGRAMS)
def test_in_compiled_functions(program) -> None:
    agree(compile_grad(program), program, X)


@pytest.mark.parametrize("program", [stable, trees])
def test_in_transforms(program) -> None:
    v = np.array([1.0, -0.5, 0.2])
    gradient = autograd.grad(program)
    slope = numerical_gradient(lambda x: float(gradient(x) @ v), (X,))
    np.testing.assert_allclose(autograd.grad(lambda x: gradient(x) @ v)(X), slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(autograd.jvp(program, (X,), (v,))[1], gradient(X) @ v, rtol=1e-9)


def test_a_batch_of_calls() -> None:
    batch = np.stack([X, X + 1, -X, X * 2])
    for f in (logsumexp, lambda x: scaled(x, x[0])["whole"]):
        np.testing.assert_allclose(autograd.vmap(f)(batch), [f(x) for x in batch])
    np.testing.assert_allclose(autograd.vmap(autograd.grad(logsumexp))(batch), scipy.special.softmax(batch, axis=1))
    shapes = []

    def host(x, y):
        shapes.append((x.shape, y.shape))
        return x * y

    def called(method):
        return autograd.vmap(lambda x: tg.pure_callback(host, SHAPE, x, X, vmap_method=method))

    for method, seen in (
        ("sequential", ((3,), (3,))), ("expand_dims", ((4, 3), (1, 3))), ("broadcast_all", ((4, 3), (4, 3))),
    ):  # fmt: skip
        shapes.clear()
        np.testing.assert_allclose(called(method)(batch), batch * X)
        assert seen in shapes
    with pytest.raises(UnsupportedError, match="vmap_method"):
        called(None)(batch)


def test_it_is_replayed_over_what_it_reads_now(monkeypatch) -> None:
    """The code reads arrays, counts and draws: none of it is a reason to run the function's Python again."""
    b = X

    @primitive
    def noisy(x):
        CALLS.append(np.random.random())
        return np.linalg.solve(MATRIX, x) + 0 * np.random.random()

    defvjp(noisy, lambda ans, x: lambda g: np.linalg.solve(MATRIX.T, g))
    compiled = compile_grad(lambda x: np.sum(noisy(x)))
    for _ in range(4):
        assert compiled(b) == pytest.approx(np.sum(np.linalg.solve(MATRIX, b)))
    assert compiled.stats.traces == 1 and not compiled.stats.live
    before = len(CALLS)
    compiled(b)
    assert len(CALLS) == before + 1
    monkeypatch.setitem(globals(), "MATRIX", MATRIX * 2)
    assert compiled(b) == pytest.approx(np.sum(np.linalg.solve(MATRIX, b)))
    assert compiled.grad(b) == pytest.approx(np.linalg.solve(MATRIX.T, np.ones(3)))


def test_local_callbacks_are_replayed() -> None:
    """A function that is made in each run is the same one where its code and constants are; over the user's arrays."""

    def loss(x):
        scale = 3.0
        return np.sum(tg.pure_callback(lambda x: MATRIX @ x * scale, SHAPE, x))

    compiled = compile_grad(loss)
    for _ in range(4):
        assert compiled(X) == pytest.approx(np.sum(MATRIX @ X * 3))
    assert compiled.stats.traces <= 2 and not compiled.stats.live


def test_opaque_solvers() -> None:
    """The escape hatch: a solver of SciPy's that is not looked into, with a rule around it."""

    @tg.custom_jvp
    def root(a):
        return tg.pure_callback(lambda a: scipy.optimize.brentq(lambda x: x**3 + x - a, -9, 9), 1.0, a)

    @root.defjvp
    def _(primals, tangents):
        x = root(*primals)
        return x, tangents[0] / (3 * x**2 + 1)

    def loss(a):
        return root(a) ** 2 * a

    assert root(10.0) == pytest.approx(2.0)
    agree(compile_grad(loss), loss, 10.0)
    assert autograd.grad(autograd.grad(root))(10.0) == pytest.approx(-12.0 / 13**3)


def test_a_result_of_another_shape() -> None:
    size = [3]

    @primitive
    def zeros(x):
        return np.zeros(size[0]) + np.sum(x)

    compiled = compile_grad(lambda x: np.sum(zeros(x)))
    for _ in range(3):
        assert compiled(X) == pytest.approx(3 * np.sum(X))
    size[0] = 5
    assert compiled(X) == pytest.approx(5 * np.sum(X))


def test_forward_rules() -> None:
    @primitive
    def times(x, y):
        return x * y

    defjvp(times, lambda g, ans, x, y: g * y, lambda g, ans, x, y: x * g)
    _, tangent = autograd.jvp(lambda x: times(x, np.sin(x)), (X,), (np.ones(3),))
    np.testing.assert_allclose(tangent, np.sin(X) + X * np.cos(X))
    doubled = primitive(lambda x: 2 * x)
    autograd.def_linear(doubled)
    assert np.all(autograd.jvp(doubled, (X,), (X,))[1] == 2 * X)


# ---- errors ----------------------------------------------------------------------------------------------------------


def call(x, result=SHAPE, host=solve):
    return np.sum(tg.pure_callback(host, result, x))


@pytest.mark.parametrize("run", [lambda f: f(X), lambda f: compile_grad(f)(X)], ids=["plain", "compiled"])
def test_declarations_are_held(run) -> None:
    with pytest.raises(TracegradError, match=r"float64\[3\].*but float64\[4\]"):
        run(partial(call, result=np.zeros(4)))
    with pytest.raises(TracegradError, match=r"float64\[3\].*but float32\[3\]"):
        run(partial(call, result=np.zeros(3, np.float32)))
    with pytest.raises(ShapeError, match="the structure"):
        run(partial(call, result=(SHAPE, SHAPE), host=solve))
    with pytest.raises(TypeError, match="ShapeDtypeStruct"):
        run(partial(call, result="x"))


def test_errors() -> None:
    with pytest.raises(DifferentiationError, match="custom_vjp or custom_jvp"):
        autograd.grad(call)(X)
    with pytest.raises(ZeroDivisionError):
        compile_grad(partial(call, host=lambda x: x / (1 // 0)))(X)
    with pytest.raises(UnsupportedError, match="pass it as an argument"):
        compile_grad(lambda x: np.sum(tg.pure_callback(lambda y: y + x, SHAPE, X * x)))(X)
    with pytest.raises(ValueError, match="vmap_method is one of"):
        tg.pure_callback(solve, SHAPE, X, vmap_method="fast")
    with pytest.raises(NotImplementedError, match="VJP of <lambda> wrt argnums"):
        autograd.grad(primitive(lambda x: x * 2))(1.0)
    with pytest.raises(TypeError, match="is no primitive"):
        defvjp(np.sin, lambda ans, x: lambda g: g)
