"""scipy.sparse.linalg in compiled functions: factors from outside, in loops; singular matrices; what is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sl
from agreement import agree

from tracegrad import UnsupportedError, compile_grad

N = 6
STIFF = sp.diags([1.0, 4.0, -1.5], [-1, 0, 2], shape=(N, N), format="csc")
START = np.linspace(0.2, 1.0, N)


def test_factors_from_outside_serve_in_a_loop() -> None:
    class Stepper:
        def __init__(self, matrix: Any) -> None:
            self.lu, self.solve = sl.splu(matrix), sl.factorized(2.0 * matrix)

        def step(self, u: Any) -> Any:
            return self.lu.solve(u) + self.solve(np.sin(u))

    stepper = Stepper(STIFF)

    @compile_grad
    def f(u: Any, k: Any) -> Any:
        for _ in range(24):
            u = stepper.step(u + k)
        return np.sum(u**2)

    for k in (0.3, 0.4, 0.5):
        agree(f, f.__wrapped__, START, k)
    stepper.lu = sl.splu(STIFF + sp.eye(N, format="csc"))
    agree(f, f.__wrapped__, START, 0.3)
    assert not f.stats.live


@pytest.mark.slow
def test_a_matrix_of_parameters_is_factorised_in_each_call() -> None:
    @compile_grad
    def f(d: Any, b: Any) -> Any:
        system = sp.diags([d[1:], 3.0 + d, -d[:-1]], [-1, 0, 1], format="csc")
        return np.sum(sl.spsolve(system, b) * np.cos(sl.splu(system).solve(b)))

    for scale in (1.0, 1.5):
        agree(f, f.__wrapped__, scale * START, START)
    assert not f.stats.live


def test_singular_matrices() -> None:
    f = compile_grad(lambda d: np.sum(sl.spsolve(sp.diags(d, format="csc"), START)))
    for _ in range(3):
        f.value_and_grad(START)
    with pytest.warns(sl.MatrixRankWarning, match="exactly singular"):
        assert np.isnan(f.value_and_grad(START * 0)[0])

    def guarded(d: Any) -> Any:
        try:
            return np.sum(sl.splu(sp.diags(d, format="csc")).solve(START))
        except RuntimeError:
            return 2.0 * np.sum(d)

    g = compile_grad(guarded)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for d in (START, 2 * START, START * 0, START):
            value, grad = g.value_and_grad(d)
            assert value == pytest.approx(guarded(d))
    np.testing.assert_allclose(grad, -1.0 / START)


def test_what_is_not_supported_is_named() -> None:
    for name, call in {
        "lsqr": lambda d: sl.lsqr(STIFF, d)[0],
        "todense": lambda d: np.asarray(sp.diags(d).todense()),
        "dense traced array": lambda d: sp.csr_matrix(np.outer(d, d)) @ d,
    }.items():
        with pytest.raises(UnsupportedError, match=name):
            compile_grad(lambda d, call=call: np.sum(call(d))).value_and_grad(START)
