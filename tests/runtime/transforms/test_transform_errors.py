"""Errors of transforms: what does not fit is told at the user's line, with what was found and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import DifferentiationError, ShapeError, UnsupportedError, autograd, vmap

X = np.arange(6.0).reshape(2, 3)
V = X[0]
K = np.arange(3)


def square(a: Any) -> Any:
    return a * a


def total(a: Any) -> Any:
    return np.sum(a**3)


def clipped(a: Any) -> Any:
    return a if a[0] > 1 else -a


def rule_of_wrong_shape() -> Any:
    f = tracegrad.custom_vjp(square)
    f.defvjp(lambda a: (a * a, a), lambda a, ct: (ct[:2],))
    return f


def rule_of_wrong_count() -> Any:
    f = tracegrad.custom_vjp(square)
    f.defvjp(lambda a: (a * a, a), lambda a, ct: (ct, ct))
    return f


def tangent_of_wrong_shape() -> Any:
    f = tracegrad.custom_jvp(square)
    f.defjvp(lambda primals, tangents: (primals[0] ** 2, tangents[0][:2]))
    return f


IN_AXES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "too few": (lambda: vmap(np.multiply, in_axes=(0,))(X, X), ShapeError, "for 1 arguments, but 2"),
    "no such axis": (lambda: vmap(square, in_axes=2)(X), ShapeError, "`a` over axis 2"),
    "no such negative axis": (lambda: vmap(square, in_axes=-3)(X), ShapeError, "`a` over axis -3"),
    "a number": (lambda: vmap(square)(3.0), ShapeError, "a number of float64 has not"),
    "ragged": (lambda: vmap(lambda a, b: a * b, in_axes=(0, 1))(X, X), ShapeError, "`a` has 2, and `b` has 3"),
    "ragged in a tree": (lambda: vmap(lambda p: p)({"a": X, "b": V}), ShapeError, "has 2, and"),
    "nothing mapped": (lambda: vmap(square, in_axes=None)(X), ShapeError, "nothing to map over"),
    "another tree": (lambda: vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": X}), ShapeError, "does not fit"),
    "axis_name": (lambda: vmap(square, axis_name="batch"), UnsupportedError, "no collectives"),
    "another axis_size": (lambda: vmap(square, axis_size=3)(X), ShapeError, "axis_size=3 was given, and `a` has 2"),
    "inside": (lambda: vmap(np.matmul)(X, np.ones((2, 4))), ShapeError, "do not fit"),
}
OUT_AXES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no such axis": (lambda: vmap(square, out_axes=2)(X), ShapeError, "result 0 of square"),
    "None of rows": (lambda: vmap(square, out_axes=None)(X), ShapeError, "differs from row to row"),
    "another tree": (lambda: vmap(lambda a: (a, a), out_axes=(0, 0, 0))(X), ShapeError, "does not fit the result"),
    "no array": (lambda: vmap(lambda a: (a, "text"))(X), UnsupportedError, "str 'text', which has no rows"),
}
VALUES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "if": (lambda: vmap(clipped)(X), UnsupportedError, "np.where"),
    "int": (lambda: vmap(lambda a: a * int(a[0]))(X), UnsupportedError, "differs between the rows"),
    "range": (lambda: vmap(lambda a: sum(range(int(a[0]))) + a)(X), UnsupportedError, "differs between the rows"),
    "a Tensor": (lambda: vmap(square)(tracegrad.ones(3)), DifferentiationError, "pass x.numpy()"),
}
DERIVATIVES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "grad of a vector": (lambda: autograd.grad(square)(V), DifferentiationError, "scalar loss"),
    "grad of rows": (lambda: autograd.grad(vmap(total))(X), DifferentiationError, "shape (2,)"),
    "grad of an integer": (lambda: autograd.grad(total)(K), DifferentiationError, "`a`, an array of int64"),
    "grad of a bool": (lambda: autograd.grad(lambda a: np.sum(a > 0))(V), DifferentiationError, "has no gradient"),
    "hvp of a vector": (lambda: autograd.hvp(square)(V, V), DifferentiationError, "scalar loss"),
    "hvp of another shape": (lambda: autograd.hvp(total)(V, V[:2]), DifferentiationError, "shape (2,)"),
    "jvp of an integer": (lambda: autograd.jvp(square, (K,), (K,)), DifferentiationError, "`a`, an array of int64"),
    "jvp, another shape": (lambda: autograd.jvp(square, (V,), (V[:2],)), DifferentiationError, "tangent of `a`"),
    "jvp, another dtype": (
        lambda: autograd.jvp(square, (V,), (V.astype(np.float32),)), DifferentiationError, "astype(np.float64)",
    ),
    "jvp, another tree": (
        lambda: autograd.jvp(lambda p: p["k"], ({"k": V},), ({"j": V},)), DifferentiationError, "structure",
    ),
    "jvp, too many": (lambda: autograd.jvp(square, (V,), (V, V)), DifferentiationError, "structure of the primals"),
    "jvp, no tuples": (lambda: autograd.jvp(square, V, V), DifferentiationError, "as a tuple"),
    "vjp, another shape": (lambda: autograd.vjp(square, V)[1](V[:2]), DifferentiationError, "cotangent of the value"),
    "vjp, another tree": (lambda: autograd.vjp(lambda a: (a, a), V)[1](V), DifferentiationError, "structure"),
    "vjp of an integer": (lambda: autograd.vjp(square, K), DifferentiationError, "`a`, an array of int64"),
    "vjp to an integer": (lambda: autograd.vjp(np.argsort, V), DifferentiationError, "floating-point results"),
    "jacfwd of an integer": (lambda: autograd.jacfwd(square)(K), DifferentiationError, "`a`, an array of int64"),
    "jacrev to an integer": (lambda: autograd.jacrev(np.argsort)(V), DifferentiationError, "floating-point results"),
    "jacobian of complex": (lambda: autograd.jacfwd(square)(V + 1j), DifferentiationError, "holomorphic=True"),
    "linearize": (lambda: autograd.linearize(square, V)[1](V[:2]), DifferentiationError, "tangent of `a`"),
    "argnums twice": (lambda: autograd.jacobian(np.multiply, (0, -2))(V, V), DifferentiationError, "argument 0 twice"),
    "argnums": (lambda: autograd.jacobian(square, 1)(V), DifferentiationError, "has 1 positional argument"),
}  # fmt: skip
RULES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "vjp, another shape": (lambda: autograd.jacrev(rule_of_wrong_shape())(V), ShapeError, "float64[2], but float64[3]"),
    "vjp, another count": (lambda: autograd.jacrev(rule_of_wrong_count())(V), ShapeError, "a tuple of 2, but"),
    "jvp, another shape": (lambda: autograd.jacfwd(tangent_of_wrong_shape())(V), ShapeError, "but float64[3]"),
    "within vmap": (lambda: vmap(autograd.jacrev(rule_of_wrong_shape()))(X), ShapeError, "but float64[3]"),
}
KINDS = {"in_axes": IN_AXES, "out_axes": OUT_AXES, "vmap": VALUES, "derivatives": DERIVATIVES, "rules": RULES}
CASES = {f"{kind}: {name}": case for kind, cases in KINDS.items() for name, case in cases.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_error_names_the_line_and_what_to_do(name: str) -> None:
    call, kind, text = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert "test_transform_errors.py" in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: vmap(square, in_axes="0"), lambda: vmap(square, in_axes=0.5), lambda: vmap(square, in_axes=True),
        lambda: vmap(3), lambda: autograd.jacobian(3), lambda: autograd.jacobian(square, True),
        lambda: autograd.hvp(total)(V), lambda: tracegrad.vectorize(3),
    ],
)  # fmt: skip
def test_wrong_kinds_of_settings(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_what_is_no_error() -> None:
    """Rows that agree take the branch, and what is the same in all rows needs no axis."""
    np.testing.assert_array_equal(vmap(lambda a: a if a[0] > -1 else -a)(X), X)
    np.testing.assert_array_equal(vmap(lambda a, b: b * 2, in_axes=(0, None), out_axes=None)(X, V), V * 2)
    found, note, nothing = vmap(lambda a: (a, "text", None), out_axes=(0, None, 0))(X)
    assert (note, nothing) == ("text", None)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(vmap(square, in_axes=None, axis_size=2)(V), np.stack([V * V] * 2))
    assert vmap(total)(np.zeros((0, 3))).shape == (0,)
