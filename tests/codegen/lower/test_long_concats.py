"""Arrays that are put together from many parts: right, and in time for each part."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad
from tracegrad.codegen.lower import long_concats
from tracegrad.tracer.ops.shape import CONCAT

RNG = np.random.default_rng(5)
W = np.array([0.3, -0.7, 0.2])
LOSSES = {
    "stack": lambda w, xs: np.sum((np.stack(xs) * w) ** 2),
    "last axis": lambda w, xs: np.sum((w @ np.stack(xs, axis=1)) ** 2),
    "vectors": lambda w, xs: np.sum(np.tanh(np.concatenate([w, *xs]) * w[0])),
    "columns": lambda w, xs: np.sum(np.diff(np.column_stack(xs), axis=1) ** 2 * w[1]),
    "items": lambda w, xs: np.sum(np.array([w[0] * x[0] + (x[1] if k % 3 else w[2]) for k, x in enumerate(xs)]) ** 2),
    "nested": lambda w, xs: np.sum(np.array([[x[1], w[1], x[0]] for x in xs]) @ w),
    "slices": lambda w, xs: np.sum(np.stack(xs)[3:90:2, 1] * w[0]) + np.sum(np.stack(xs)[::-1] ** 2 @ w),
    "mean": lambda w, xs: np.sum((np.stack(xs) - np.mean(np.stack(xs), axis=0)) ** 2 @ w),
}


@pytest.mark.parametrize("count", [33, 70, 130])
@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients(name, count):
    loss, xs = LOSSES[name], [RNG.normal(size=3) for _ in range(count)]
    f = compile_grad(loss, argnums=(0, 1))
    for _ in range(2):
        value, (of_w, of_xs) = f.value_and_grad(W, xs)
        np.testing.assert_allclose(value, loss(W, xs), rtol=1e-12)
        np.testing.assert_allclose(of_w, numerical_gradient(lambda w: loss(w, xs), (W,)), rtol=1e-4, atol=1e-5)
    for k in (0, 31, 32, count - 1):
        change = lambda x, k=k: loss(W, [*xs[:k], x, *xs[k + 1 :]])  # noqa: E731
        np.testing.assert_allclose(of_xs[k], numerical_gradient(change, (xs[k],)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(f(W, xs), loss(W, xs), rtol=1e-12)


def test_no_loop_asks_for_more_than_a_few_dozen_parts(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "tracegrad.codegen.lower.simplify.in_levels", lambda g: seen.append(long_concats.in_levels(g)) or seen[-1]
    )
    compile_grad(LOSSES["stack"])(W, [RNG.normal(size=3) for _ in range(1100)])
    lengths = [len(node.inputs) for node in seen[-1].nodes if node.prim is CONCAT]
    assert max(lengths) == long_concats.MAX_JOINED
    assert sum(lengths) < 1200
