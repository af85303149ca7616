"""Distances of scipy.spatial: values, first and second derivatives, equal points, wrong calls."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient
from scipy.spatial import distance
from scipy.spatial.distance import cdist, pdist, squareform

from tracegrad import UnsupportedError, autograd, compile_grad

RNG = np.random.default_rng(3)
A, B, W, V = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3)), RNG.random(3) + 0.5, RNG.random(6)
INVERSE = np.linalg.inv(np.cov(RNG.normal(size=(9, 3)).T))


def cubes(u, v):
    return np.sum(np.abs(u - v) ** 3)


METRICS = [
    ("euclidean", {}), ("Euclidean", {"w": W}), ("sqeuclidean", {}), ("sqeuclidean", {"w": W}), ("cityblock", {}),
    ("cityblock", {"w": W}), ("minkowski", {"p": 3}), ("minkowski", {"p": 1.5, "w": W}), ("chebyshev", {}),
    ("cosine", {}), ("correlation", {}), ("canberra", {}), ("braycurtis", {}), ("seuclidean", {"V": W}),
    ("seuclidean", {}), ("mahalanobis", {}), ("mahalanobis", {"VI": INVERSE}), (cubes, {}),
]  # fmt: skip


def of_all(x):
    total = 0.0
    for metric, given in METRICS:
        total = total + np.sum(cdist(x, B, metric, **given) ** 2) + V @ pdist(x, metric, **given)
    return total + np.sum((squareform(pdist(x)) + squareform(squareform(cdist(x, x)))) ** 2 * np.arange(4.0))


def of_vectors(x):
    u, v = x[0], B[0]
    names = ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation", "canberra", "braycurtis")
    rest = distance.minkowski(u, v, 3) + distance.mahalanobis(u, v, INVERSE) + distance.seuclidean(v, u, W)
    return rest + sum(getattr(distance, name)(u, v) for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("f", [of_all, of_vectors])
def test_values_and_gradients(f):
    compiled = compile_grad(f)
    for x in (A, A + 0.1, A):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-7)


def test_kernel_of_a_gaussian_process_to_second_order():
    def f(scale):
        x = A * np.exp(scale)
        return np.sum(np.exp(-cdist(x, x, "sqeuclidean")) + cdist(x, x) + squareform(pdist(x)) ** 3)

    slope = autograd.grad(f)
    np.testing.assert_allclose(slope(0.2), (f(0.2 + 1e-6) - f(0.2 - 1e-6)) / 2e-6, rtol=1e-6)
    np.testing.assert_allclose(autograd.grad(slope)(0.2), (slope(0.2 + 1e-6) - slope(0.2 - 1e-6)) / 2e-6, rtol=1e-5)


WRONG = {
    "other columns": lambda x: cdist(x, B[:, :2]),
    "vectors": lambda x: cdist(x[0], B),
    "a name": lambda x: cdist(x, B, "nope"),
    "no square": lambda x: squareform(x),
    "no distances": lambda x: squareform(cdist(x, x) + 1),
    "no triangle": lambda x: squareform(x[0, :2]),
    "rows of a vector": lambda x: pdist(x[0]),
    "a table of vectors": lambda x: distance.cityblock(x, x),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise_as_scipy_does(name):
    with pytest.raises(ValueError) as expected:
        WRONG[name](A)
    with pytest.raises(ValueError) as found:
        compile_grad(WRONG[name])(A)
    assert str(expected.value).split()[:4] == str(found.value).split()[:4]


@pytest.mark.parametrize("name", ["euclidean", "sqeuclidean", "minkowski"])
def test_tables_of_vectors_where_scipy_takes_them(name):
    f = getattr(distance, name)
    compiled = compile_grad(lambda x: np.sum(f(x, np.cos(x)) ** 2))
    try:
        expected = f(A, np.cos(A))
    except ValueError:
        with pytest.raises(ValueError, match="should be 1-D"):
            compiled(A)
    else:
        np.testing.assert_allclose(compiled(A), np.sum(expected**2), rtol=1e-12)


def test_metrics_of_sets_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="jaccard"):
        compile_grad(lambda x: np.sum(cdist(x, B, "jaccard")))(A)
    with pytest.raises(UnsupportedError, match="with weights"):
        compile_grad(lambda x: np.sum(cdist(x, B, "cosine", w=W)))(A)
