"""Sparse matrices of SciPy: products in every format, never stale, loops, what falls back to the contents."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from agreement import agree, numerical_gradient

from tracegrad import compile_grad
from tracegrad.autograd import grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

RNG = np.random.default_rng(3)
BASE = sp.random(4, 6, density=0.6, format="csr", random_state=1)
X = RNG.normal(size=6)
SQUARE = sp.random(5, 5, density=0.6, format="csr", random_state=2)
LAPLACE = sp.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(6, 6), format="csr")


def products(x, S):
    y = S @ x
    wide = np.stack([x, x**2], axis=1)
    total = np.sum(y**2) + x @ (S.T @ y) + np.sum((S @ wide) ** 3) + np.sum((wide.T @ S.T) ** 2)
    return total + np.sum(S.dot(wide[:, :1])) + np.sum((y @ S) ** 2)


def entries(x, S):
    scaled = S.multiply(x)
    tall = S.multiply(np.outer(S @ x, x))
    total = scaled.sum() ** 2 + np.sum((scaled @ x) ** 2) + np.sum(tall.toarray() ** 2)
    return (
        total
        + np.sum(((x[0] * S) @ x) ** 2)
        + np.sum(-S / x[1] @ x)
        + np.sum(S.multiply((S @ x)[:, None]).T @ np.ones(4))
    )


@pytest.mark.parametrize(
    "form", ["csr", "bsr", *[pytest.param(f, marks=pytest.mark.slow) for f in ("csc", "coo", "dia")]]
)
def test_products_have_right_gradients_and_see_what_changes(form):
    S = (sp.csr_array(BASE) if form != "csr" else BASE).asformat(form)
    f = compile_grad(products if form != "bsr" else entries)
    for _ in range(3):
        agree(f, f.__wrapped__, X, S)
    traces = f.stats.traces
    assert traces <= 4 and not f.stats.live
    S.data *= 1.5
    agree(f, f.__wrapped__, X, S)
    assert f.stats.traces == traces
    captured = compile_grad(lambda x: np.sum((S @ x) ** 2))
    for _ in range(3):
        agree(captured, captured.__wrapped__, X)
        S.data += 0.25
    assert captured.stats.traces == 1


@pytest.mark.parametrize("form", ["csr", "dia"])
def test_a_matrix_of_traced_entries(form):
    S = sp.csr_array(BASE).asformat(form)
    np.testing.assert_allclose(grad(entries)(X, S), numerical_gradient(entries, (X, S)), rtol=1e-6)


def test_another_structure_and_indices_that_change_in_place():
    S = SQUARE.copy()
    f, x = compile_grad(lambda x: np.sum(S @ x)), RNG.normal(size=5)

    def check():
        np.testing.assert_allclose(f.grad(x), np.asarray(S.sum(axis=0)).ravel())

    for _ in range(3):
        check()
    S.indices[0] = (S.indices[0] + 1) % 5
    check()
    S.indptr[1] -= 1
    check()
    assert f.stats.traces == 1
    S = sp.csr_matrix(np.eye(5))
    check()
    S.indices[2] = 5
    with pytest.raises(ValueError, match="indices of a sparse matrix"):
        f.grad(x)


def test_programs_with_matrices_made_inside_loops_and_objects():
    class Model:
        def __init__(self):
            self.steps, self.parts = LAPLACE, [SQUARE, sp.csc_array(SQUARE)]

        def heat(self, u):
            for _ in range(40):
                u = u + 0.01 * (self.steps @ u)
            return np.sum(u**2)

        def both(self, x):
            return np.sum(self.parts[0] * x) + np.sum(self.parts[1].dot(x) ** 2) + np.sum((x * self.parts[0]) ** 2)

    model = Model()
    heat = compile_grad(model.heat)
    for _ in range(2):
        agree(heat, model.heat, X)
    assert "40" not in str(heat.stats.live) and not heat.stats.live
    agree(compile_grad(model.both), model.both, X[:5])

    def made(x):
        D = sp.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(5, 5))
        K = sp.csr_matrix((np.array([1.0, 2.0]), (np.array([0, 1]), np.array([2, 3]))), shape=(5, 5))
        return np.sum((D @ x) ** 2) + ((sp.eye(5, format="csr") + K) @ x) @ x

    agree(compile_grad(made), made, X[:5])
    hessian = compile_grad(lambda x: np.sum(grad(lambda y: (y @ (SQUARE @ y)) ** 2)(x) ** 2))
    np.testing.assert_allclose(hessian.grad(X[:5]), numerical_gradient(hessian, (X[:5],)), rtol=1e-5)


def test_what_has_no_recorded_form_is_computed_from_the_contents():
    S = SQUARE.copy()

    def f(x):
        return x @ ((S @ S.T) @ x) + S.diagonal() @ x + np.sum(S[:3, 1:4] @ x[1:4]) + S.max() * np.sum(x) / S.nnz

    compiled, x = compile_grad(f), RNG.normal(size=5)
    for _ in range(2):
        agree(compiled, f, x)
    S.data[:2] *= 3.0
    agree(compiled, f, x)
    assert not compiled.stats.live


def test_types_and_bad_shapes():
    x = X[:5]
    single = grad(lambda x: np.sum(SQUARE.astype(np.float32) @ x))(x.astype(np.float32))
    assert single.dtype == np.float32
    whole, empty = sp.csr_matrix(np.arange(25).reshape(5, 5)), sp.csr_matrix((5, 5))
    np.testing.assert_allclose(
        grad(lambda x: np.sum(whole @ x) + np.sum(empty @ x))(x), np.sum(whole.toarray(), axis=0)
    )
    for bad in (
        lambda x: np.sum(SQUARE @ x[:3]),
        lambda x: np.sum(x[:3] @ SQUARE),
        lambda x: SQUARE.multiply(x[:3]).sum(),
    ):
        for run in (bad, grad(bad)):
            with pytest.raises(ValueError, match=r"dimension mismatch|inconsistent shapes|broadcast"):
                run(x)
    listed = sp.lil_matrix(np.eye(5))
    live = compile_grad(lambda x: np.sum(listed @ x))
    np.testing.assert_allclose(live.grad(x), np.ones(5))
    assert live.stats.live
