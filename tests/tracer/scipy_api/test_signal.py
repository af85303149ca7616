"""scipy.signal in compiled functions.  Each function and its forms: ``tests/support/coverage_table/signal.py``."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
from agreement import numerical_gradient
from scipy.signal import lfilter, welch

from tracegrad import UnsupportedError, autograd, compile_grad

RNG = np.random.default_rng(9)
X = RNG.normal(size=40)


def misfit(parameters, x, y):
    """Of a filter with two zeros and two poles, in time and in spectra."""
    b, a = parameters[:3], np.concatenate([[1.0], parameters[3:]])
    found = lfilter(b, a, x)
    frequencies, power = welch(found - y, fs=2.0, nperseg=8)
    return np.mean((found - y) ** 2) + np.sum(frequencies * power)


def test_a_filter_is_fitted():
    f, p = compile_grad(misfit), np.array([0.4, 0.2, -0.1, -0.3, 0.2])
    value, gradient = f.value_and_grad(p, X, np.roll(X, 1))
    np.testing.assert_allclose(value, misfit(p, X, np.roll(X, 1)), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(misfit, (p, X, np.roll(X, 1))), rtol=1e-6)


def test_long_kernels_are_one_operation():
    kernel = np.hanning(21)
    f = compile_grad(lambda w, x: np.sum(np.convolve(x, w, "same") ** 2))
    value, gradient = f.value_and_grad(kernel, X)
    np.testing.assert_allclose(value, np.sum(np.convolve(X, kernel, "same") ** 2), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (kernel, X)), rtol=1e-6)
    assert str(f.explain(kernel, X, level="all")).count("= correlate") <= 4  # recorded, and as it runs


def test_single_precision_and_whole_numbers():
    def every(x):
        filtered = lfilter(np.float32([0.5, 0.5]), np.float32([1.0, -0.3]), x)
        many = lfilter(np.float32([1.0]), np.float32([1.0, *[0.05] * 10]), np.stack([x, 2 * x]))
        return filtered, many, scipy.signal.hilbert(x), scipy.signal.fftconvolve(x, x)

    for dtype in (np.float32, np.int64):
        x = (5 * X).astype(dtype)
        for found, expected in zip(compile_grad(every)(x), every(x), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_errors():
    for bad, kind in (
        (lambda x: scipy.signal.convolve(x, x, mode="most"), ValueError),
        (lambda x: scipy.signal.convolve(x, x[None]), ValueError),
        (lambda x: scipy.signal.savgol_filter(x, 4, 5), ValueError),
        (lambda x: lfilter([1.0], [0.0, 1.0], x)[0], ValueError),
        (lambda x: lfilter([1.0], x - x[0], x)[0], ValueError),
    ):
        for call in (bad, autograd.grad(bad)):
            with pytest.raises(kind):
                call(X)
    with pytest.raises(UnsupportedError, match="no traced state"):
        compile_grad(lambda x: np.abs(lfilter([1.0], [1.0, 0.2j], x, zi=[1j])[0]).sum())(X)
