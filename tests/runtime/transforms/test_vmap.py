"""``vmap``: equal to stacked calls, for axes of all kinds; Python's questions; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
from numpy.testing import assert_allclose

import tracegrad
from tracegrad import ShapeError, UnsupportedError, autograd, compile_grad, vmap

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3))
W = RNG.normal(size=(3, 3))
PLACES = np.array([0, 2, 1, 0, 2])
POSITIVE = np.array([2.0, 3.0, 9.0, 100.0, 1e4])


def written(x: Any, i: Any) -> Any:
    z = np.zeros(3)
    z[i] = x[0]
    z[1] += x[1]
    return z


def python_loop(x: Any) -> Any:
    y = x
    for k in range(20):
        y = np.sin(y) + 0.1 * k * x
    return y


def root(a: Any) -> Any:
    return tracegrad.while_loop(lambda x: abs(x * x - a) > 1e-10, lambda x: 0.5 * (x + a / x), a)


def two_arms(x: Any) -> Any:
    return tracegrad.cond(x.sum() > 0, lambda: x * 2, lambda: -x)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: np.sin(x) * x[::-1], (X,)),
        (lambda x, i: x[i] * 2, (X, PLACES)),
        (lambda i: W[i], (PLACES,)),
        (written, (X, PLACES)),
        (np.sort, (X,)),
        (np.argmax, (X,)),
        (np.median, (X,)),
        (lambda x: np.convolve(x, np.array([1.0, 2.0])), (X,)),
        (np.fft.rfft, (X,)),
        (lambda x: np.einsum("i,j->ij", x, x) @ W, (X,)),
        (lambda x: np.linalg.solve(W + np.diag(x), x), (X,)),
        (lambda x: np.linalg.svd(W + np.diag(x))[1], (X,)),
        (lambda x: np.linalg.eigvalsh(W + W.T + np.diag(x)), (X,)),
        (scipy.special.erf, (X,)),
        (python_loop, (X,)),
        (root, (POSITIVE,)),
        (two_arms, (X,)),
        (lambda x: tracegrad.scan(lambda c, r: (c * r + 1, c), 0.0, x)[1], (X,)),
        (lambda x: tracegrad.fori_loop(0, 5, lambda i, c: c * x + i, x), (X,)),
        (autograd.grad(lambda x: np.sum(np.tanh(W @ x))), (X,)),
        (autograd.grad(root), (POSITIVE,)),
        (autograd.hessian(lambda x: np.sum(x**3) * x[0]), (X,)),
        (lambda v: autograd.jvp(np.sin, (X[0],), (v,))[1], (np.eye(3),)),
        (lambda a: scipy.optimize.brentq(lambda x: x**3 - a, 0, 100), (POSITIVE,)),
        (lambda a: scipy.integrate.quad(lambda x: np.exp(-a * x), 0, 1)[0], (POSITIVE[:2],)),
        (lambda x: x.sum().item() * 2, (X,)),
        (lambda x: 3.0, (X,)),
    ],
)
def test_equal_to_stacked_calls(f: Callable[..., Any], args: Any) -> None:
    one = compile_grad(f)
    found = vmap(f)(*args)
    assert_allclose(found, np.stack([one(*row) for row in zip(*args, strict=True)]), rtol=1e-12, atol=1e-14)


def test_axes() -> None:
    assert_allclose(vmap(lambda a, b: a * b, in_axes=(1, None), out_axes=1)(X, 2.0), 2 * X)
    assert_allclose(vmap(lambda x: x.sum(), in_axes=-1)(X), X.sum(0))
    params = {"w": W, "b": X}
    assert_allclose(vmap(lambda p: p["w"] @ p["b"], in_axes=({"w": None, "b": 0},))(params), X @ W.T)
    found = vmap(lambda x: {"a": x, "s": x.sum()}, out_axes={"a": 1, "s": 0})(X)
    assert_allclose(found["a"], X.T)
    assert_allclose(found["s"], X.sum(1))
    assert_allclose(vmap(lambda x, y=None: x * y)(X, y=X), X * X)
    assert vmap(np.sin)(np.zeros((0, 3))).shape == (0, 3)
    assert vmap(lambda: np.ones(2), axis_size=4)().shape == (4, 2)
    value, same = vmap(lambda x: (x, W), out_axes=(0, None))(X)
    assert value.shape == (5, 3) and same is W
    z = X + 1j
    assert_allclose(vmap(lambda z: z * z.conj() * 1j)(z), z * z.conj() * 1j)


def test_nested_and_differentiated() -> None:
    assert_allclose(vmap(vmap(lambda a, b: a @ b, (None, 0)), (0, None))(X, X), X @ X.T)

    def total(w: Any) -> Any:
        return np.sum(vmap(autograd.grad(lambda x: np.sum((w @ x) ** 2)))(X) ** 2)

    gram = 2 * W.T @ W
    assert_allclose(autograd.grad(total)(W), 4 * W @ (gram @ X.T @ X + X.T @ X @ gram))
    _, pullback = autograd.vjp(np.sin, X[0])
    assert_allclose(vmap(pullback)(np.eye(3))[0], np.diag(np.cos(X[0])))


def by_sign(x: Any) -> Any:
    if x.sum() > 0:
        return x**2
    return -x


def test_questions_of_python_have_one_answer_in_all_rows() -> None:
    f = vmap(by_sign)
    for _ in range(3):
        assert_allclose(f(np.abs(X)), X**2)
        assert_allclose(f(-np.abs(X)), np.abs(X))
    mixed = np.abs(X) * np.array([[1.0], [1], [-1], [1], [1]])
    for rows in (mixed, -mixed, mixed[::-1]):
        with pytest.raises(UnsupportedError, match=r"np\.where.*tracegrad\.cond") as caught:
            f(rows)
        assert "by_sign" in str(caught.value)
    # code of the standard library that such a run calls has the module's globals in a local variable
    assert type(W) is np.ndarray


@pytest.mark.slow
def test_a_loop_has_room_for_the_row_that_needs_most() -> None:
    def slow(a: Any) -> Any:
        return tracegrad.while_loop(lambda x: x < a, lambda x: x * 1.0001, 1.0 + 0 * a) * a

    f, limits = vmap(autograd.grad(slow)), np.array([1.5, 1.2, 1.3])
    expected = [compile_grad(slow).grad(a) for a in limits]
    assert_allclose(f(limits), expected)
    assert_allclose(f(limits), expected)
    more = np.array([1.2, 2.0, 1.3])
    assert_allclose(f(more), [compile_grad(slow).grad(a) for a in more])


KEPT: list[Any] = []


def keeps(x: Any) -> Any:
    KEPT.append(x)
    return x * 2


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: vmap(lambda a, b: a * b)(np.ones(3), np.ones(4)), ShapeError, "`a` has 3, and `b` has 4"),
        (lambda: vmap(lambda a, b: a * b)(np.ones(3), 2.0), ShapeError, "`b` over axis 0.*in_axes=None"),
        (lambda: vmap(lambda a: a, in_axes=1)(np.ones(3)), ShapeError, "over axis 1"),
        (lambda: vmap(lambda a, b: a * b, in_axes=(0,))(X, X), ShapeError, r"in_axes=\(0,\) is for 1 argument"),
        (lambda: vmap(lambda a: a, in_axes=({"w": 0},))(X), ShapeError, "in_axes does not fit argument 0"),
        (lambda: vmap(lambda a: a, out_axes=(0, 0))(X), ShapeError, "out_axes does not fit the result"),
        (lambda: vmap(lambda a: a, out_axes=None)(X), ShapeError, "differs from row to row"),
        (lambda: vmap(lambda a: a, out_axes=3)(X), ShapeError, "2 axes with that of the batch"),
        (lambda: vmap(lambda a: "text")(X), UnsupportedError, "returned str 'text'"),
        (lambda: vmap(lambda a: a, in_axes=None)(X), ShapeError, "axis_size"),
        (lambda: vmap(lambda a: a, axis_size=4)(X), ShapeError, "axis_size=4 was given"),
        (lambda: vmap(keeps)(X), UnsupportedError, "return it from the function"),
        (lambda: vmap(lambda a: a * int(a[0] * 100))(X), UnsupportedError, "differs between the rows"),
    ],
)
def test_errors_name_the_users_line(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        call()
    assert "test_vmap.py" in str(caught.value)
