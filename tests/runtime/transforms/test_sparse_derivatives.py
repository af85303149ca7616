"""``sparse_jacobian`` and ``sparse_hessian`` as users have them: equal to the dense derivatives, in SciPy's solvers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import least_squares, minimize

import tracegrad
from tracegrad import autograd, compile_grad
from tracegrad.autograd import hessian, jacobian, sparse_hessian, sparse_jacobian
from tracegrad.tracer.ir.errors import DifferentiationError

RNG = np.random.default_rng(3)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def residuals(x):
    return np.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])


def same(found, dense, tolerance=1e-12):
    assert type(found) is sp.csr_array
    assert found.has_canonical_format
    np.testing.assert_allclose(found.toarray(), np.asarray(dense).reshape(found.shape), rtol=tolerance, atol=tolerance)


def colors(transform, *args) -> int:
    line = next(line for line in transform.explain(*args, level="all").splitlines() if " entries, " in line)
    return int(line.partition(" colors")[0].rpartition(" ")[2])


def test_hessian_of_a_chain():
    x = RNG.uniform(-2, 2, 30)
    found = sparse_hessian(rosenbrock)
    for _ in range(3):
        matrix = found(x)
        same(matrix, hessian(rosenbrock)(x))
        x = x + 0.1
    assert matrix.nnz == 88
    assert colors(found, x) == 3
    assert not matrix.indices.flags.writeable and found(x).indices is matrix.indices  # one pattern
    matrix.data[0] = 7.0  # the entries are the caller's
    same(found(x), hessian(rosenbrock)(x))


def test_jacobian_of_a_chain():
    x = RNG.uniform(-2, 2, 20)
    found = sparse_jacobian(residuals)
    same(found(x), jacobian(residuals)(x))
    assert colors(found, x) == 2


def test_loops():
    def chained(x):
        return tracegrad.fori_loop(
            0, len(x) - 1, lambda i, t: t + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2, 0.0
        )

    def handed_on(x):
        return tracegrad.scan(lambda c, v: ((v, c[0]), c[0] * np.sin(c[1]) * v), (x[0], x[1]), x)[1]

    def filled(x):
        def body(i, r):
            r[i] = x[i + 1] * x[i]
            return r

        return tracegrad.fori_loop(0, len(x) - 1, body, np.zeros(len(x)))

    x = RNG.uniform(-1, 1, 25)
    same(sparse_hessian(chained)(x), hessian(chained)(x))
    assert sparse_hessian(chained)(x).nnz == 73
    for f, count in ((handed_on, 73), (filled, 48)):
        same(sparse_jacobian(f)(x), jacobian(f)(x))
        assert sparse_jacobian(f)(x).nnz == count, f


@pytest.mark.slow
def test_carries_that_grow():
    def heat(x):
        def step(c, _):
            return c + np.concatenate([[0.0], 0.1 * np.sin(c[2:] - 2.0 * c[1:-1] + c[:-2]), [0.0]]), c[0]

        return tracegrad.scan(step, x, np.zeros(12))[0]

    def until(x):
        return tracegrad.while_loop(lambda c: c[0] < 12.0, lambda c: (c[0] + 1.0, np.sin(c[1]) * x), (0.0, x))[1]

    x = RNG.uniform(-1, 1, 8)
    for f in (heat, until):
        same(sparse_jacobian(f)(x), jacobian(f)(x))
    assert sparse_jacobian(until)(x).nnz == 8


def test_positions_that_are_data():
    def picked(x, index):
        return x[index] * x[index + 1]

    x = RNG.uniform(1, 2, 9)
    found, dense = sparse_jacobian(picked), jacobian(picked)
    for _ in range(3):  # each pattern is kept
        for index in ([0, 1, 2], [5, 5, 7], [2, 0, 1]):
            same(found(x, np.array(index)), dense(x, np.array(index)))
    before = found.stats.traces
    same(found(x, np.array([5, 5, 7])), dense(x, np.array([5, 5, 7])))
    assert found.stats.traces == before


def test_positions_that_depend_on_the_point():
    def ordered(x):
        return np.sort(x) ** 2 + x[np.argmax(x)]

    found = sparse_jacobian(ordered)
    for _ in range(4):
        x = RNG.uniform(0, 1, 5)
        same(found(x), jacobian(ordered)(x))


def test_branches():
    def either(x):
        return np.where(x[:-1] > 0, x[1:] ** 2, x[:-1] ** 3)

    found = sparse_jacobian(either)
    for _ in range(4):
        x = RNG.uniform(-1, 1, 7)
        same(found(x), jacobian(either)(x))


def test_several_arguments_and_results():
    def f(a, b, c):
        return {"first": a * b[0] + c, "second": np.stack([np.sin(c), c * b[1]])}

    a, b, c = RNG.standard_normal(4), RNG.standard_normal(2), RNG.standard_normal(4)
    found = sparse_jacobian(f, argnums=(0, 1, 2))(a, b, c)
    dense = jacobian(f, argnums=(0, 1, 2))(a, b, c)
    same(found, np.vstack([np.hstack([np.reshape(part, (-1, part.shape[-1])) for part in dense[k]]) for k in dense]))
    assert sparse_jacobian(f, argnums=2)(a, b, c).shape == (12, 4)


def test_shared_parameters_of_many_rows():
    """Rows are told apart by copies: a cotangent of all rows at once, however many use a parameter."""

    def fit(p, group, t):
        mine = p[group]
        return mine[:, 0] * np.exp(-mine[:, 1] * t) + mine[:, 2]

    p, t, group = RNG.uniform(0.5, 2, (4, 3)), np.linspace(0, 4, 40), RNG.integers(0, 4, 40)
    found = sparse_jacobian(fit)
    same(found(p, group, t), jacobian(fit)(p, group, t))
    assert colors(found, p, group, t) == 1
    assert "cotangents of rows" in found.explain(p, group, t, level="all")


@pytest.mark.slow
def test_many_colors_are_the_turns_of_a_loop():
    def rows(x):
        return np.concatenate([np.sin(x) * np.sum(x**2), x**2])

    x = RNG.standard_normal(16)
    same(sparse_jacobian(rows)(x), jacobian(rows)(x))

    def wide(x):
        return np.prod(np.sin(x)) + np.sum(x**3)

    same(sparse_hessian(wide)(x), hessian(wide)(x), 1e-10)

    def reduced(x):
        return np.sum(np.sin(x).reshape(2, -1) * np.cumsum(x.reshape(2, -1), axis=1), axis=1)

    x = RNG.standard_normal(60)
    same(sparse_jacobian(reduced)(x), jacobian(reduced)(x), 1e-10)


def test_empty_patterns():
    x = RNG.standard_normal(4)
    nothing = sparse_jacobian(lambda x: np.floor(x))(x)
    assert nothing.shape == (4, 4) and nothing.nnz == 0
    linear = sparse_hessian(lambda x: np.sum(3.0 * x))(x)
    assert linear.shape == (4, 4) and linear.nnz == 0
    none = sparse_jacobian(lambda x: x[:0] ** 2)(x)
    assert none.shape == (0, 4)
    assert linear @ x @ x == 0.0


def test_single_precision():
    x = RNG.uniform(-2, 2, 12).astype(np.float32)
    found = sparse_hessian(rosenbrock)(x)
    assert found.dtype == np.float32
    same(found, hessian(rosenbrock)(x), 1e-4)


def test_within_a_compiled_function_and_of_one():
    f = compile_grad(residuals)

    @compile_grad
    def normal(x, v):
        matrix = sparse_jacobian(f)(x)
        return matrix.T @ (matrix @ v)

    x, v = RNG.uniform(-1, 1, 10), RNG.standard_normal(10)
    dense = jacobian(f)(x)
    for _ in range(3):
        np.testing.assert_allclose(normal(x, v), dense.T @ (dense @ v))


@pytest.mark.slow
def test_derivative_of_the_entries():
    x = RNG.uniform(-1, 1, 6)
    found = jacobian(lambda x: sparse_hessian(rosenbrock)(x).data)(x)
    dense = jacobian(lambda x: hessian(rosenbrock)(x))(x)
    matrix = sparse_hessian(rosenbrock)(x).tocoo()
    np.testing.assert_allclose(found, dense[matrix.coords[0], matrix.coords[1]], atol=1e-12)


def test_pickle():
    found = pickle.loads(pickle.dumps(sparse_hessian(rosenbrock)))
    same(found(np.ones(5)), hessian(rosenbrock)(np.ones(5)))


# ---- SciPy's solvers ---------------------------------------------------------------------------------------------


def test_least_squares():
    found = least_squares(residuals, np.full(40, -0.5), jac=sparse_jacobian(residuals), tr_solver="lsmr")
    np.testing.assert_allclose(found.x, 1.0, atol=1e-5)


def test_trust_constr():
    f = compile_grad(rosenbrock)
    found = minimize(f.value_and_grad, np.zeros(10), jac=True, hess=sparse_hessian(f), method="trust-constr")
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)


# ---- errors ------------------------------------------------------------------------------------------------------


def test_errors():
    x = np.ones(3)
    with pytest.raises(DifferentiationError, match="scalar"):
        sparse_hessian(residuals)(x)
    with pytest.raises(DifferentiationError, match="int"):
        sparse_jacobian(residuals)(np.arange(3))
    with pytest.raises(DifferentiationError, match="floating-point results"):
        sparse_jacobian(lambda x: None)(x)
    with pytest.raises(DifferentiationError, match="real numbers"):
        sparse_jacobian(lambda x: np.exp(1j * x))(x)
    with pytest.raises(DifferentiationError, match="no pattern of zeros"):
        sparse_jacobian(lambda x: x * np.sum(x**2))(np.ones(2100))
    with pytest.raises(TypeError, match="needs a function"):
        sparse_jacobian(3)
    with pytest.raises(DifferentiationError, match="Tensor"):
        sparse_jacobian(residuals)(tracegrad.ones(3))
    assert autograd.sparse_jacobian is sparse_jacobian


def test_parts_of_one_vector_that_many_rows_read():
    """As bundle adjustment has its unknowns: groups that rows look up, and a part with an element for each row."""

    def errors(unknowns, group, seen):
        cameras, weights = unknowns[:12].reshape(4, 3), unknowns[12:]
        mine = cameras[group]
        found = np.stack([mine[:, 0] * seen[:, 1] + mine[:, 2], np.sin(mine[:, 1]) * seen[:, 0]], axis=1)
        return np.concatenate([(weights[:, None] * found).ravel(), 1.0 - weights**2])

    group, seen = RNG.integers(0, 4, 30), RNG.standard_normal((30, 2))
    found, dense = sparse_jacobian(errors), jacobian(errors)
    for _ in range(3):
        unknowns = RNG.standard_normal(42)
        same(found(unknowns, group, seen), dense(unknowns, group, seen))
    assert colors(found, unknowns, group, seen) == 3
