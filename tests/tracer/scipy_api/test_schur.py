"""scipy.linalg.schur, with its derivative; toeplitz and hankel of batches."""

import warnings

import numpy as np
import pytest
import scipy.linalg as sl

from tracegrad import DifferentiationError, UnsupportedError, autograd, compile_grad, vmap

pytestmark = [pytest.mark.usefixtures("fresh_kernels"), pytest.mark.filterwarnings("ignore:Beginning in SciPy")]
rng = np.random.default_rng(3)
W = rng.normal(size=(6, 6))
PAIR = np.array([[1.0, 2.0], [-2.0, 1.0]])  # with complex eigenvalues


def with_real_eigenvalues(n):
    vectors = np.eye(n) + 0.2 * rng.normal(size=(n, n))
    return vectors @ np.diag(np.arange(1.0, n + 1) + 0.2 * rng.normal(size=n)) @ np.linalg.inv(vectors)


def slopes(f, a):
    found = np.zeros_like(a)
    for k in np.ndindex(a.shape):
        e = np.zeros_like(a)
        e[k] = 1e-6
        found[k] = (f(a + e) - f(a - e)) / 2e-6
    return found


def both(a):
    t, z = sl.schur(a)
    n = a.shape[-1]
    return np.sum(t * W[:n, :n]) + np.sum(np.sin(z) * W.T[:n, :n])


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_value_and_gradient(n):
    f = compile_grad(both)
    for _ in range(3):
        a = with_real_eigenvalues(n)
        value, gradient = f.value_and_grad(a)
        np.testing.assert_allclose(value, both(a), rtol=1e-9)
        np.testing.assert_allclose(gradient, slopes(both, a), atol=1e-4)
    assert not f.stats.live and f.stats.compiles == 1
    of_values = compile_grad(lambda a: np.sum(np.diag(sl.schur(a)[0]) ** 3))  # whichever signs the vectors have
    single = of_values.grad(a.astype(np.float32))
    assert single.dtype == np.float32 and np.allclose(single, of_values.grad(a), rtol=1e-2, atol=0.1)


def test_second_derivatives_batches_and_rows():
    a, many = with_real_eigenvalues(3), np.stack([with_real_eigenvalues(3) for _ in range(2)])
    g = compile_grad(both)

    def inner(x):
        return np.sum(autograd.grad(both)(x) * W[:3, :3])

    second = slopes(lambda x: np.sum(g.grad(x) * W[:3, :3]), a)
    np.testing.assert_allclose(compile_grad(inner).grad(a), second, atol=1e-3, rtol=1e-3)
    for x in many:
        np.testing.assert_allclose(autograd.jacfwd(both)(x), g.grad(x), atol=1e-8)
    np.testing.assert_allclose(compile_grad(both).grad(many), [g.grad(x) for x in many], atol=1e-9)
    np.testing.assert_allclose(vmap(g.grad)(many), [g.grad(x) for x in many], atol=1e-9)


@pytest.mark.parametrize("sort", ["lhp", "rhp", "iuc", "ouc"])
def test_sorted_eigenvalues(sort):
    a = with_real_eigenvalues(4) - 2.1 * np.eye(4)

    def f(a):
        t, z, count = sl.schur(a, sort=sort)
        return (np.sum(t * W[:4, :4]) + z[0, 0]) * count

    g = compile_grad(f)
    assert np.isclose(g(a), f(a)) and np.allclose(g.grad(a), slopes(f, a), atol=1e-4)


def test_complex_eigenvalues_have_values_alone():
    g = compile_grad(both)
    for _ in range(2):
        assert np.isclose(g(PAIR), both(PAIR))
        with pytest.raises(DifferentiationError, match="all eigenvalues are real"):
            g.grad(PAIR)
        a = with_real_eigenvalues(2)
        assert np.allclose(g.grad(a), slopes(both, a), atol=1e-4)
    found = vmap(autograd.grad(both))(np.stack([PAIR, a]))
    assert np.isnan(found[0]).all() and np.allclose(found[1], slopes(both, a), atol=1e-4)
    assert np.allclose(vmap(lambda a: sl.schur(a)[0])(np.stack([PAIR, a])), [sl.schur(x)[0] for x in (PAIR, a)])
    h = compile_grad(lambda a: np.sum(np.abs(sl.schur(a, output="complex")[0])))
    assert np.isclose(h(PAIR), np.sum(np.abs(sl.schur(PAIR, output="complex")[0])))
    with pytest.raises(DifferentiationError, match=r"scipy.linalg.schur has no derivative"):
        h.grad(PAIR)
    with pytest.raises(UnsupportedError, match="sorts by one of lhp"):
        compile_grad(lambda a: sl.schur(a, sort=lambda x: x > 0)[0])(PAIR)


def test_what_scipy_refuses():
    for a, error in ((np.ones((2, 3)), ValueError), (np.full((2, 2), np.nan), ValueError)):
        for call in (sl.schur, compile_grad(lambda a: sl.schur(a)[0])):
            with pytest.raises(error):
                call(a)


BATCHES = {
    "toeplitz": lambda x: sl.toeplitz(x),
    "toeplitz of two": lambda x: sl.toeplitz(x, x[:, ::-1] * 2),
    "toeplitz of one row": lambda x: sl.toeplitz(x[0], x),
    "toeplitz of further axes": lambda x: sl.toeplitz(x[:, None], x[:, :2]),
    "hankel": lambda x: sl.hankel(x),
    "hankel of two": lambda x: sl.hankel(x, x * 2),
    "hankel of one column": lambda x: sl.hankel(x[0], x),
    "solution": lambda x: sl.solve_toeplitz((x + np.array([9.0, 0, 0]), x), x[0]),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_as_scipy_has_them(name):
    make, x = BATCHES[name], np.arange(6.0).reshape(2, 3) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            plain = make(x)
        except ValueError:
            pytest.skip("this SciPy has no batches here")
        weights = np.cos(np.arange(plain.size)).reshape(plain.shape)

        def f(x):
            return np.sum(make(x) ** 2 * weights)

        np.testing.assert_allclose(compile_grad(make)(x), plain)
        np.testing.assert_allclose(compile_grad(f).grad(x), slopes(f, x), atol=1e-4)
