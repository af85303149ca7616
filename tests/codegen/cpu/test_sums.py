"""The rounding error of sums does not grow with their length: that of NumPy's pairwise sums is the measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from tracegrad import autograd, compile_grad

N = 3_000_000
X, Y = np.random.default_rng(0).random((2, N), dtype=np.float32)
SUMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "sum": (np.sum, (N,)),
    "mean": (np.mean, (N,)),
    "var": (np.var, (N,)),
    "norm": (np.linalg.norm, (N,)),
    "fused": (lambda x: np.sum(np.sin(x) ** 2), (N,)),
    "logsumexp": (logsumexp, (N,)),
    "every second": (lambda x: np.sum(x[::2]), (N,)),
    "all of a matrix": (np.sum, (1000, N // 1000)),
    "all of a transposed matrix": (lambda x: np.sum(x.T), (N // 1000, 1000)),
    "all of short rows": (np.sum, (N // 3, 3)),
    "all of three axes": (np.sum, (30, 100, N // 3000)),
    "rows": (lambda x: np.sum(x, axis=1), (3, N // 3)),
    "means of rows": (lambda x: np.mean(x, axis=1), (3, N // 3)),
    "norms of rows": (lambda x: np.linalg.norm(x, axis=1), (3, N // 3)),
    "fused rows": (lambda x: np.log(np.sum(np.exp(x), axis=1)), (3, N // 3)),
    "rows of parts": (lambda x: np.sum(np.stack([x[0], x[1] * x[2], x[2]]) * x, axis=1), (3, N // 3)),
    "softmax of rows": (lambda x: np.mean(np.exp(x - x.max(1, keepdims=True)), axis=1), (3, N // 3)),
    "variances of rows": (lambda x: np.var(x, axis=1), (3, N // 3)),
    "differences": (lambda x: np.sum((x[:2000, None] - x[None, :3000]) ** 2), (N,)),
}


@pytest.mark.parametrize("name", SUMS)
def test_the_error_of_float32_is_that_of_the_result(name: str) -> None:
    f, shape = SUMS[name]
    x = X.reshape(shape)
    exact = f(x.astype(np.float64))
    np.testing.assert_allclose(compile_grad(f)(x), exact, rtol=2.5e-7)


def test_a_product_and_its_gradient() -> None:
    exact = np.sum(X.astype(np.float64) * Y)
    value, g = compile_grad(lambda w, x, y: np.sum(w * x * y)).value_and_grad(np.float32(1), X, Y)
    np.testing.assert_allclose([value, g], exact, rtol=2.5e-7)


def test_float64() -> None:
    x = np.full(N, 0.1)
    exact = N * 0.1000000000000000055511151231257827  # the number that 0.1 is
    for shape in ((N,), (3000, -1), (-1, 3)):
        np.testing.assert_allclose(compile_grad(np.sum)(x.reshape(shape)), exact, rtol=4e-15)


@pytest.mark.parametrize("shape", [(5000,), (2, 2500), (2500, 2), (50, 100)], ids=str)
def test_infinities_and_nan(shape: tuple[int, ...]) -> None:
    f, g = compile_grad(np.sum), compile_grad(lambda x: np.sum(x, axis=-1))
    for places, values in (([7], [np.inf]), ([4000], [-np.inf]), ([7, 4000], [np.inf, -np.inf]), ([4999], [np.nan])):
        x = np.ones(5000)
        x[places] = values
        x = x.reshape(shape)
        np.testing.assert_array_equal(f(x), np.sum(x))
        np.testing.assert_array_equal(g(x), np.sum(x, axis=-1))
    huge = np.full(5000, 1e305)
    assert f(huge.reshape(shape)) == np.inf


@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 1025, 2048, 5000])
def test_lengths_around_those_of_partial_sums(n: int) -> None:
    x = np.arange(1.0, n + 1)
    total = n * (n + 1) / 2
    assert compile_grad(np.sum)(x) == total
    np.testing.assert_array_equal(compile_grad(lambda x: x.sum(axis=1))(np.stack([x, 2 * x])), [total, 2 * total])
    assert compile_grad(np.sum)(np.stack([x, x], axis=1)) == 2 * total
    np.testing.assert_array_equal(autograd.grad(lambda x: np.sum(x * x))(x), 2 * x)


def test_equal_bits_each_time() -> None:
    f = compile_grad(lambda x: np.sum(np.exp(x)))
    assert len({float(f(X)) for _ in range(5)}) == 1


@pytest.mark.parametrize("n", [1, 63, 1023, 1025, 3000])
@pytest.mark.parametrize("axis", [1, 2])
def test_sums_over_parts_that_were_put_together(n: int, axis: int) -> None:
    """Turns of the short loop over the parts are written out; the rest is as it was."""
    rng = np.random.default_rng(n)
    x, a, b = rng.standard_normal((5, n)), rng.standard_normal(n), rng.standard_normal(n)

    def parts(x: Any, a: Any, b: Any) -> Any:
        d = x[:, None, :] - np.stack([a, b, a * b, x[0]])[None]
        q = np.sum(d * d, axis=axis)
        return np.sum(np.log(q + 1.0) * np.max(q, axis=1, keepdims=True))

    def by_hand(x: Any, a: Any, b: Any) -> Any:
        rows = [[np.sum((v - part) ** 2) for part in (a, b, a * b, x[0])] for v in x]
        if axis == 1:
            rows = [sum((v - part) ** 2 for part in (a, b, a * b, x[0])) for v in x]
        q = np.array(rows)
        return np.sum(np.log(q + 1.0) * np.max(q, axis=1, keepdims=True))

    value, gradients = compile_grad(parts, argnums=(0, 1, 2)).value_and_grad(x, a, b)
    np.testing.assert_allclose(value, by_hand(x, a, b), rtol=1e-12)
    step = 1e-6
    for k, (given, g) in enumerate(zip((x, a, b), gradients, strict=True)):
        direction = rng.standard_normal(given.shape)
        moved = [[v + sign * step * direction if j == k else v for j, v in enumerate((x, a, b))] for sign in (1, -1)]
        slope = (by_hand(*moved[0]) - by_hand(*moved[1])) / (2 * step)
        np.testing.assert_allclose(np.sum(g * direction), slope, rtol=1e-6)
