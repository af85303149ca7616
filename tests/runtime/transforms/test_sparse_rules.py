"""Sparsity patterns through rules of the user's own and through cumulative sums: no more entries than there are where
their programs show it, and never fewer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.autograd import defvjp as define
from tracegrad.autograd import hessian, jacfwd, primitive, sparse_hessian, sparse_jacobian
from tracegrad.codegen.derive import sparsity

X = np.random.default_rng(5).uniform(0.3, 1.5, 6)
DENSE = 36


def pushed(rule: Any, function: Any = lambda x: np.sin(x)) -> Any:
    """*function* with *rule*, which gives the tangent of x -> sin(x) of a tangent and x."""
    f = tg.custom_jvp(lambda x: function(x))
    f.defjvp(lambda primals, tangents: (f(*primals), rule(tangents[0], primals[0])))
    return f


def pulled(rule: Any, function: Any = lambda x: np.sin(x)) -> Any:
    f = tg.custom_vjp(lambda x: function(x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (rule(ct, x),))
    return f


@primitive
def host_sine(x: Any) -> Any:
    return np.sin(x)


define(host_sine, lambda ans, x: lambda g: g * np.cos(x))


def two_results() -> Any:
    """(x[1:] y[:-1], sum of x) of two operands, with a rule for cotangents."""
    f = tg.custom_vjp(lambda x, y: (x[1:] * y[:-1], np.sum(x)))

    def bwd(kept: Any, cts: Any) -> Any:
        x, y = kept
        return np.pad(cts[0] * y[:-1], (1, 0)) + cts[1], np.pad(cts[0] * x[1:], (0, 1))

    f.defvjp(lambda x, y: (f(x, y), (x, y)), bwd)
    return lambda z: np.concatenate([np.atleast_1d(part) for part in f(z, z * z)])


def symbolic() -> Any:
    f = tg.custom_jvp(lambda x, y: np.sin(x) * y)

    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), np.sin(x) * dy if type(dx) is tg.SymbolicZero else np.cos(x) * y * dx

    f.defjvp(rule, symbolic_zeros=True)
    return lambda z: f(z[1:], z[:-1])


SINE = pushed(lambda t, x: np.cos(x) * t)
FUNCTIONS: dict[str, tuple[Any, int]] = {  # and the entries of the pattern
    "custom_jvp": (lambda x: SINE(x) * x[::-1], 12),
    "a rule that moves": (pushed(lambda t, x: np.roll(np.cos(x) * t, 1), lambda x: np.roll(np.sin(x), 1)), 6),
    "custom_vjp": (pulled(lambda ct, x: np.cos(x) * ct), 6),
    "a rule that moves back": (pulled(lambda ct, x: np.cos(x) * np.roll(ct, -1), lambda x: np.roll(np.sin(x), 1)), 6),
    "primitive": (lambda x: host_sine(x) * x, 6),
    "checkpoint": (tg.checkpoint(lambda x: np.sin(x[1:]) * x[:-1]), 10),
    "two results": (two_results(), 5 * 2 + 6),
    "symbolic zeros": (symbolic(), 10),
    "within a rule": (pushed(lambda t, x: SINE(x + 1) * 0 + np.cos(x) * t), 6),
    "in a loop": (lambda x: tg.scan(lambda c, row: (c + 1.0, SINE(row) * c), 1.0, x)[1], 6),
    # what derivatives do not show
    "stop_gradient": (pushed(lambda t, x: np.cos(x) * t + 0.1 * tg.stop_gradient(t)[::-1]), DENSE),
    "a comparison": (pushed(lambda t, x: np.where(t[::-1] != 0, 2.0, 1.0) * np.cos(x) * t), DENSE),
    "a loop in the rule": (
        pushed(lambda t, x: tg.scan(lambda c, row: (c, row * 1.0), 0.0, np.cos(x) * t)[1]), DENSE
    ),
    "cumsum": (lambda x: np.cumsum(x**2), 21),
    "cumsum of columns": (lambda x: np.cumsum((x**2).reshape(3, 2), axis=0).ravel(), 12),
    "cumsum from the end": (lambda x: np.cumsum(x[::-1] ** 2)[::-1], 21),
    "cumprod": (np.cumprod, 21),
    "differences of it": (lambda x: np.cumsum(x[1:] * x[:-1]), 20),
}  # fmt: skip


HEAVY = ("within a rule", "in a loop", "a loop in the rule", "cumprod", "primitive", "differences of it")


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x in HEAVY else x for x in FUNCTIONS])
def test_patterns(name: str) -> None:
    function, entries = FUNCTIONS[name]
    found = sparse_jacobian(function)(X)
    np.testing.assert_allclose(found.toarray(), jacfwd(function)(X), atol=1e-12)
    assert found.nnz == entries


def test_hessians_of_rules() -> None:
    for f in (SINE, FUNCTIONS["custom_vjp"][0], FUNCTIONS["checkpoint"][0]):
        loss = lambda x, f=f: np.sum(f(x) ** 2)  # noqa: E731
        found = sparse_hessian(loss)(X)
        np.testing.assert_allclose(found.toarray(), hessian(loss)(X), atol=1e-12)
        assert found.nnz <= 16


def test_long_cumulative_sums_are_dense_along_their_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparsity, "_TRIANGLE", 5)
    found = sparse_jacobian(lambda x: np.cumsum(x.reshape(3, 2), axis=0).ravel())(X)
    assert found.nnz == 18
