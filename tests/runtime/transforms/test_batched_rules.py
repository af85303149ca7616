"""``vmap`` of rules of the user's own and of host code: each of them composed with derivatives, in both orders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tracegrad as tg
from tracegrad import autograd
from tracegrad.tracer.ir.errors import UnsupportedError

RNG = np.random.default_rng(0)
X, W, PLACES = RNG.normal(size=(5, 3)), RNG.normal(size=3), RNG.integers(0, 3, (5, 2))


@tg.custom_vjp
def reverse(x, w):
    """A derivative that is told apart from the right one."""
    return np.sin(x) * w


reverse.defvjp(
    lambda x, w: (np.sin(x) * w, (x, w)),
    lambda kept, g: (g * 3 * np.cos(kept[0]) * kept[1], g * np.sin(kept[0]) * 2),
)


@tg.custom_jvp
def forward(x, w):
    return np.sin(x) * w


forward.defjvp(
    lambda primals, tangents: (
        np.sin(primals[0]) * primals[1],
        3 * tangents[0] * np.cos(primals[0]) * primals[1] + 2 * np.sin(primals[0]) * tangents[1],
    )
)


@pytest.mark.parametrize("f", [reverse, forward], ids=["custom_vjp", "custom_jvp"])
@pytest.mark.parametrize(
    "in_axes", [(0, None), *[pytest.param(axes, marks=pytest.mark.slow) for axes in ((0, 0), (None, 0))]], ids=str
)
def test_rules_of_rows(f: Any, in_axes: Any) -> None:
    args = tuple(W if axis is None else X if k == 0 else X[::-1].copy() for k, axis in enumerate(in_axes))
    rows = [tuple(a if axis is None else a[b] for a, axis in zip(args, in_axes, strict=True)) for b in range(5)]
    assert_allclose(autograd.vmap(f, in_axes)(*args), [f(*row) for row in rows])

    def energy(x, w):
        return np.sum(f(x, w) ** 2)

    for k, axis in enumerate(in_axes):
        each = [autograd.grad(energy, k)(*row) for row in rows]
        assert_allclose(autograd.vmap(autograd.grad(energy, k), in_axes)(*args), each)
        total = autograd.grad(lambda x, w: np.sum(autograd.vmap(f, in_axes)(x, w) ** 2), k)(*args)
        assert_allclose(total, np.sum(each, axis=0) if axis is None else each)
    tangents = tuple(np.cos(a) for a in args)
    moved = autograd.jvp(autograd.vmap(f, in_axes), args, tangents)[1]
    each = [
        autograd.jvp(f, row, tuple(t if axis is None else t[b] for t, axis in zip(tangents, in_axes, strict=True)))[1]
        for b, row in enumerate(rows)
    ]
    assert_allclose(moved, each)


@pytest.mark.parametrize("f", [reverse, forward], ids=["custom_vjp", "custom_jvp"])
@pytest.mark.slow
def test_rules_in_loops_of_rows(f: Any) -> None:
    def run(x, w):
        return tg.scan(lambda carry, row: (f(carry, w) + row, carry.sum()), x, np.arange(4.0))[0].sum()

    each = [autograd.grad(run)(x, W) for x in X]
    assert_allclose(autograd.vmap(autograd.grad(run), (0, None))(X, W), each)
    assert_allclose(autograd.grad(lambda X: np.sum(autograd.vmap(run, (0, None))(X, W)))(X), each)


def test_what_a_rule_relies_on_holds_in_all_rows() -> None:
    @tg.custom_vjp
    def pick(x, i):
        return x.sum()

    pick.defvjp(lambda x, i: (x.sum(), (x, i)), lambda kept, g: (np.zeros(3) + g * kept[0][kept[1]].sum(), None))
    total = autograd.grad(lambda x, i: np.sum(autograd.vmap(pick)(x, i)))
    assert_allclose(total(X, PLACES), np.repeat([[x[i].sum()] for x, i in zip(X, PLACES, strict=True)], 3, 1))
    beyond = PLACES.copy()
    beyond[3, 1] = 7
    with pytest.raises(tg.TracegradError, match=r"an index in the rule of pick .* is out of bounds"):
        total(X, beyond)


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_calls_of_the_host_in_batches_of_batches(method: str) -> None:
    def f(x, w):
        return tg.pure_callback(lambda x, w: x * 2 + w, tg.ShapeDtypeStruct(x.shape, x.dtype), x, w, vmap_method=method)

    both = autograd.vmap(autograd.vmap(f, (0, None)), (None, 0))
    assert_allclose(both(X, X), X[None] * 2 + X[:, None])


def test_a_call_of_the_host_without_a_method_is_refused() -> None:
    def f(x):
        return tg.pure_callback(np.sin, tg.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.raises(UnsupportedError, match='vmap_method="sequential"'):
        autograd.vmap(f)(X)


def test_an_answer_of_all_rows_in_batches_of_batches() -> None:
    def f(x, w):
        return x * w if x.sum() > -100 else x

    both = autograd.vmap(autograd.vmap(f, (0, None)), (None, 0))
    assert_allclose(both(X, X), X[None] * X[:, None])
    far = X.copy()
    far[3] -= 100
    with pytest.raises(UnsupportedError, match="differs between the rows"):
        both(far, X)
