"""``ufunc.at`` and ``reduceat`` at positions that are constants or arguments: values, gradients, ties, ragged rows."""

import numpy as np
import pytest
from selection import pairs

from tracegrad import autograd, compile_grad, vmap

pytestmark = pytest.mark.usefixtures("fresh_kernels")
rng = np.random.default_rng(5)
WEIGHTS = rng.normal(size=60)
UFUNCS = [np.add, np.multiply, np.maximum, np.minimum, np.logaddexp]
STARTS = [[0, 2, 4], [1, 3, 3, 5], [0, 0, 0], [4, 1, 5, 2], [6], [0, 6, 6], [0, 1, 2, 3, 4, 4, 4, 5, 6, 6]]
named = lambda value: getattr(value, "__name__", str(value))  # noqa: E731
TIES = np.array([1.0, 1.0, 0.5, 2.0, 2.0, 2.0])


def slopes(f, x, *rest, step=1e-6):
    found = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[k] = step
        found[k] = (f(x + e, *rest) - f(x - e, *rest)) / (2 * step)
    return found


def check(f, x, positions):
    """Value and gradient with the positions as an argument, and as constants."""
    for g, args in ((compile_grad(f), (x, positions)), (compile_grad(lambda x: f(x, positions)), (x,))):
        for _ in range(3):
            value, gradient = g.value_and_grad(*args)
        np.testing.assert_allclose(value, f(x, positions), rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes(f, x, positions), atol=1e-5)
        assert not g.stats.live


@pytest.mark.parametrize(
    "starts, ufunc, where", pairs(STARTS, UFUNCS, [((7,), 0), ((2, 7), 1), ((2, 7, 2), -2)]), ids=named
)
def test_reduceat(ufunc, starts, where):
    shape, axis = where

    def f(x, starts):
        found = ufunc.reduceat(x, starts, axis=axis)
        return np.sum(found * WEIGHTS[: found.size].reshape(found.shape))

    check(f, rng.normal(size=shape), np.array(starts))


INDICES = [
    ((5,), np.array([0, 2, 0, 4])),
    ((5, 2), np.array([1, 1, 1])),
    ((4,), np.array([], int)),
    ((4,), np.array([[0, 1], [1, 3]])),
    ((4,), np.array([-1, 3])),
    ((3, 4), (np.array([0, 0, 2]), np.array([1, 1, 3]))),
    ((4, 3), (slice(None), np.array([2, 2, 0]))),
    ((4, 3), (1, np.array([0, 0]))),
    ((4, 3), np.array([True, False, True, True])),
    ((4,), slice(1, 3)),
    ((4,), -1),
]


@pytest.mark.parametrize(
    "where, ufunc, made", pairs(INDICES, [*UFUNCS, np.subtract, np.divide], [False, True]), ids=named
)
def test_at(ufunc, where, made):
    shape, index = where
    base = rng.uniform(0.5, 2, size=shape)
    count = base[index].shape

    def f(x, index):
        out = np.full(shape, 1.5)
        if not made:
            out[...] = base * x.ravel()[0]
        ufunc.at(out, index, x[: count[0]] if count else x[0])
        return np.sum(out * WEIGHTS[: out.size].reshape(shape))

    x = rng.uniform(0.5, 2, size=(max(count[0], 1), *count[1:]) if count else (1,))
    if isinstance(index, np.ndarray) and index.dtype != bool:
        check(f, x, index)
    else:
        g = compile_grad(lambda x: f(x, index))
        np.testing.assert_allclose(g.grad(x), slopes(f, x, index), atol=1e-5)


def by_reduceat(x, starts, row):
    e = np.exp(x - np.maximum.reduceat(x, starts)[row])
    return np.sum((e / np.add.reduceat(e, starts)[row]) ** 2)


def by_at(x, starts, row):
    top, total = np.full(len(starts), -np.inf), np.zeros(len(starts))
    np.maximum.at(top, row, x)
    e = np.exp(x - top[row])
    np.add.at(total, row, e)
    return np.sum((e / total[row]) ** 2)


def by_product(x, starts, row):
    product = np.ones(len(starts))
    np.multiply.at(product, row, x)
    return np.sum(np.sin(product) * np.minimum.reduceat(x, starts))


@pytest.mark.parametrize("f", [by_reduceat, by_at, by_product])
def test_ragged_rows(f):
    """In one program for any rows of these sizes; in float32; with second derivatives, through zeros, too."""
    g = compile_grad(f)
    for k in range(5):
        starts = np.r_[0, np.sort(rng.choice(np.arange(1, 30), 5, replace=False))]
        x, row = rng.normal(size=30), np.repeat(np.arange(6), np.diff(np.r_[starts, 30]))
        traces = g.stats.traces
        np.testing.assert_allclose(g.grad(x, starts, row), slopes(f, x, starts, row), atol=1e-5)
        assert k < 2 or g.stats.traces == traces
    x32 = x.astype(np.float32)
    assert g.grad(x32, starts, row).dtype == np.float32
    np.testing.assert_allclose(g.grad(x32, starts, row), g.grad(x, starts, row), atol=1e-4)
    x[[0, 1, 7]] = 0
    inner = compile_grad(lambda x: np.sum(WEIGHTS[:30] * autograd.grad(f)(x, starts, row)))
    second = slopes(lambda x: np.sum(WEIGHTS[:30] * g.grad(x, starts, row)), x + 1e-3 * (f is not by_product))
    np.testing.assert_allclose(inner.grad(x + 1e-3 * (f is not by_product)), second, atol=1e-4)


def test_ties_are_shared_as_those_of_max():
    starts, row = np.array([0, 3, 4]), np.array([0, 0, 0, 1, 2, 2])

    def at(x, row):
        out = np.full(3, 1.0)
        np.maximum.at(out, row, x)
        return np.sum(out)

    g = compile_grad(lambda x, starts: np.sum(np.maximum.reduceat(x, starts)))
    assert np.allclose(g.grad(TIES, starts), [0.5, 0.5, 0, 1, 0.5, 0.5])
    assert np.allclose(compile_grad(at).grad(TIES, row), [1 / 3, 1 / 3, 0, 1, 0.5, 0.5])
    nan = TIES * np.array([1, np.nan, 1, 1, 1, 1])
    assert np.isnan(g(nan, starts)) and np.allclose(g.grad(nan, starts), [0, 1, 0, 1, 0.5, 0.5])


def test_rows_of_a_batch():
    rows = np.array([[0, 0, 0, 1, 2, 2], [2, 2, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]])
    starts, x = np.array([[0, 3, 4], [0, 1, 2], [0, 2, 5]]), rng.normal(size=(3, 6))

    def at(x, row):
        out = np.zeros(3)
        np.minimum.at(out, row, x)
        return out

    np.testing.assert_allclose(vmap(at)(x, rows), [at(a, b) for a, b in zip(x, rows, strict=True)])
    found = vmap(lambda x, s: np.maximum.reduceat(x, s))(x, starts)
    np.testing.assert_allclose(found, [np.maximum.reduceat(a, b) for a, b in zip(x, starts, strict=True)])


def test_integers():
    def f(x, starts, n):
        out = np.array([3, 1, 2])
        np.maximum.at(out, starts, n)
        return np.sum(x * np.maximum.reduceat(n, starts) * np.minimum.reduceat(n * 2, starts) * out)

    args = np.ones(3), np.array([0, 1, 1]), np.array([5, 4, 9])
    g = compile_grad(f)
    for _ in range(3):
        assert g(*args) == f(*args)


def test_floats_into_integers():
    def f(x, n):
        out, top = np.array([3, 4, 5]), np.array([0, -3, 2])
        np.multiply.at(out, [0, 0, 2], x)
        np.maximum.at(top, n, x)
        return np.sum(out * np.array([1, 10, 100])) + np.sum(top)

    x, n = np.array([0.5, 1.7, -2.6]), np.array([1, 1, 0])
    assert all(compile_grad(f)(x, n) == f(x, n) for _ in range(2))


@pytest.mark.parametrize(
    "f, error",
    [
        (lambda x, s: np.maximum.reduceat(x, s + 5), IndexError),
        (lambda x, s: np.maximum.reduceat(x, s - 1), IndexError),
        (lambda x, s: np.maximum.at(x * 1, s + 9, x[:3]), IndexError),
        (lambda x, s: np.multiply.at(x * 1, s, x[:2]), ValueError),
    ],
)
def test_errors_are_those_of_numpy(f, error):
    x, s = rng.normal(size=5), np.array([0, 2, 3])
    for call in (f, compile_grad(lambda x, s: (f(x, s), np.sum(x))[1])):
        with pytest.raises(error):
            call(x, s)
