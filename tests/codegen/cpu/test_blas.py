"""The BLAS of products: NumPy's own, or SciPy's where that one has no names that we know."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad, config
from tracegrad.codegen.cpu import symbols
from tracegrad.codegen.cpu.cpython import capsule_address

RNG = np.random.default_rng(0)


@pytest.fixture
def forgotten():
    """The addresses that are found are forgotten, before the test and behind it."""
    symbols.address_of.cache_clear()
    yield
    symbols.address_of.cache_clear()


@pytest.mark.parametrize("name", ["dgemm", "sgemm"])
def test_an_unknown_blas_of_numpys_is_replaced_by_scipys(name, monkeypatch, forgotten):
    scipys = capsule_address(symbols.capsules("scipy.linalg.cython_blas")[name])
    assert symbols.address_of(symbols.blas_symbol(name))
    symbols.address_of.cache_clear()
    monkeypatch.setattr(symbols, "_BLAS_NAMES", ("no_such_{}",))
    assert symbols.address_of(symbols.blas_symbol(name)) == scipys
    symbols.address_of.cache_clear()
    monkeypatch.setattr(symbols, "_numpys_blas", lambda: None)
    assert symbols.address_of(symbols.blas_symbol(name)) == scipys


@pytest.mark.parametrize("known", [True, False], ids=["NumPy's", "SciPy's"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_right_with_integers_of_64_bits_and_of_32(known, dtype, monkeypatch, forgotten, compiled_anew):
    monkeypatch.setattr(config, "cache", False)
    if not known:
        monkeypatch.setattr(symbols, "_BLAS_NAMES", ())
    for m, n, k in ((70, 130, 90), (1, 200, 300), (65, 1, 64), (200, 30, 20), (0, 3, 4)):
        x, y, w = [RNG.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (m, n))]
        value, (dx, dy) = compile_grad(lambda x, y, w: np.sum((x @ y) * w), argnums=(0, 1)).value_and_grad(x, y, w)
        tolerance = 1e-12 if dtype is np.float64 else 2e-4
        np.testing.assert_allclose(value, np.sum((x @ y) * w), rtol=10 * tolerance, atol=100 * tolerance)
        np.testing.assert_allclose(dx, w @ y.T, rtol=tolerance, atol=10 * tolerance)
        np.testing.assert_allclose(dy, x.T @ w, rtol=tolerance, atol=10 * tolerance)
