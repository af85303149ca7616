"""Transforms of transforms: what the random compositions (``test_transform_fuzz.py``) have found, and equalities
between compositions that are the same mathematically."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import autograd, vmap

X = np.arange(6.0).reshape(2, 3) * 0.3
V = np.array([0.4, -0.7, 1.1])


def energy(x: Any) -> Any:
    for k in range(5):
        x = np.sin(x) * np.sum(x * x) + 0.1 * k
    return np.sum(x**3)


def field(x: Any) -> Any:
    return np.stack([x[0] * np.sin(x[1]), np.tanh(x[2] * x[0]), np.cumsum(x)[1], np.exp(-x[1])])


EQUAL: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "jvp is a product with jacfwd": (
        lambda: autograd.jvp(field, (V,), (X[1],))[1], lambda: autograd.jacfwd(field)(V) @ X[1],
    ),
    "vjp is a product with jacrev": (
        lambda: autograd.vjp(field, V)[1](np.ones(4))[0], lambda: np.ones(4) @ autograd.jacrev(field)(V),
    ),
    "jacfwd is jacrev": (lambda: autograd.jacfwd(field)(V), lambda: autograd.jacrev(field)(V)),
    "forward over reverse, reverse over forward": (
        lambda: autograd.jacfwd(autograd.jacrev(energy))(V), lambda: autograd.jacrev(autograd.jacfwd(energy))(V),
    ),
    "hessian is reverse over reverse": (
        lambda: autograd.hessian(energy)(V), lambda: autograd.jacrev(autograd.jacrev(energy))(V),
    ),
    "hessian is forward over forward": (
        lambda: autograd.hessian(energy)(V), lambda: autograd.jacfwd(autograd.jacfwd(energy))(V),
    ),
    "hvp": (lambda: autograd.hvp(energy)(V, X[1]), lambda: autograd.hessian(energy)(V) @ X[1]),
    "vhp": (lambda: autograd.vhp(energy)(V, X[1]), lambda: X[1] @ autograd.hessian(energy)(V)),
    "jacfwd is a vmap of jvp": (
        lambda: vmap(lambda e: autograd.jvp(field, (V,), (e,))[1], out_axes=1)(np.eye(3)),
        lambda: autograd.jacfwd(field)(V),
    ),
    "rows of gradients": (
        lambda: vmap(autograd.grad(energy))(X), lambda: np.stack([autograd.grad(energy)(x) for x in X]),
    ),
    "the gradient of a sum of rows": (
        lambda: autograd.grad(lambda x: np.sum(vmap(energy)(x)))(X), lambda: vmap(autograd.grad(energy))(X),
    ),
    "the Jacobian of rows is block-diagonal": (
        lambda: autograd.jacobian(vmap(field))(X)[[0, 1], :, [0, 1]], lambda: vmap(autograd.jacobian(field))(X),
    ),
    "vmap of vmap": (
        lambda: vmap(vmap(lambda a, b: a * np.sin(b), (None, 0)), (0, None))(V, X[1]),
        lambda: V[:, None] * np.sin(X[1]),
    ),
    "axes in and out": (
        lambda: vmap(lambda a: a * V[:2], in_axes=1, out_axes=-1)(X), lambda: X * V[:2, None],
    ),
    "the Hessian of rows": (
        lambda: vmap(autograd.hessian(energy))(X), lambda: np.stack([autograd.hessian(energy)(x) for x in X]),
    ),
    "a derivative within a derivative of the same variable": (
        lambda: autograd.grad(lambda x: x * autograd.grad(lambda y: x * y * y)(2.0))(3.0), lambda: 24.0,
    ),
    "linearize is linear": (
        lambda: (lambda f: f(V) + f(X[1]))(autograd.linearize(field, V)[1]),
        lambda: autograd.jacobian(field)(V) @ (V + X[1]),
    ),
    "a third derivative": (
        lambda: autograd.jacfwd(autograd.jacrev(autograd.grad(lambda x: x[0] * np.sum(np.sin(x * x[1])))))(V),
        lambda: autograd.jacrev(autograd.hessian(lambda x: x[0] * np.sum(np.sin(x * x[1]))))(V),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_equal_by_another_route(name: str) -> None:
    one, other = EQUAL[name]
    expected = other()
    np.testing.assert_allclose(one(), expected, rtol=1e-9, atol=1e-10 * (1 + np.max(np.abs(expected))))


def scaled() -> Any:
    """A function whose tangent rule is twice and three times its derivative."""
    f = tracegrad.custom_jvp(lambda a, b: np.sum(np.sin(a) * b))

    def rule(primals: Any, tangents: Any) -> Any:
        (a, b), (s, t) = primals, tangents
        return f(a, b), 2 * np.sum(np.cos(a) * b * s) + 3 * np.sum(np.sin(a) * t)

    f.defjvp(rule)
    return f


def test_a_tangent_rule_of_rows() -> None:
    """Forward, and transposed; of an operand that is the same in all rows, too."""
    f = scaled()
    rows = vmap(f, in_axes=(0, None))
    each = vmap(autograd.grad(f, (0, 1)), in_axes=(0, None))(X, V)
    np.testing.assert_allclose(each[0], 2 * np.cos(X) * V)
    np.testing.assert_allclose(each[1], 3 * np.sin(X))
    np.testing.assert_allclose(autograd.jacrev(rows, 1)(X, V), 3 * np.sin(X))
    np.testing.assert_allclose(autograd.grad(lambda b: np.sum(rows(X, b)))(V), 3 * np.sum(np.sin(X), axis=0))
    np.testing.assert_allclose(autograd.jacfwd(rows, 1)(X, V), 3 * np.sin(X))
    expected = np.sum(2 * np.cos(X) * V * X + 3 * np.sin(X), axis=1)
    np.testing.assert_allclose(autograd.jvp(rows, (X, V), (X, np.ones(3)))[1], expected)


def test_rules_of_rows_in_loops() -> None:
    f = scaled()

    def looped(x: Any, b: Any) -> Any:
        return np.sum(tracegrad.scan(lambda c, z: (np.sin(c) + z * f(c, b), 0.0), x, np.arange(4.0))[0])

    found = vmap(autograd.grad(looped), in_axes=(0, None))(X, V)
    np.testing.assert_allclose(found, np.stack([autograd.grad(looped)(x, V) for x in X]))


def test_a_loop_that_is_read_for_what_no_row_has() -> None:
    """A rolled loop with values of the rows and others, of which only these are read outside."""
    data = np.cos(np.arange(24.0)).reshape(8, 3)

    def f(h: Any) -> Any:
        t, z = 0.0, np.zeros(12)
        for k in range(8):
            for i in range(3):
                for j in range(3):
                    t = np.sin(t + h[i] * h[j])
            z[k] = np.sin(np.sum(data[k]) + z[k - 1])
        return t + np.sum(z[::2] * z[1::2])

    np.testing.assert_allclose(vmap(f)(X), [f(x) for x in X])


@pytest.mark.parametrize("clip", [False, True])
def test_a_value_that_only_a_derivative_within_has_computed(clip: bool) -> None:
    """``sin`` of the inner gradient is no part of what the function returns, and part of the gradient of that."""

    def f(x: Any, s: float) -> Any:
        return np.sin(np.sum(x / (1 + np.clip(x, -0.7, 0.9) ** 2)) + s if clip else np.sum(x * x) + s)

    def inner(x: Any) -> Any:
        return autograd.grad(f, 1)(x, 0.3)

    expected = autograd.jacrev(autograd.jacrev(inner))(V)
    for hessian in (autograd.hessian(inner), autograd.jacfwd(autograd.grad(inner))):
        np.testing.assert_allclose(hessian(V), expected, rtol=1e-9)
    np.testing.assert_allclose(autograd.sparse_hessian(inner)(V).toarray(), expected, rtol=1e-9)
    np.testing.assert_allclose(autograd.hvp(inner)(V, X[1]), expected @ X[1], rtol=1e-9)
