"""np.fft in compiled functions.  Each function and its forms: ``tests/support/coverage_table/fft.py``."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, complex_gradient

from tracegrad import compile_grad

RNG = np.random.default_rng(5)


def spectral(x, decay):
    """Filtered by real transforms, and one of a real signal in complex numbers."""
    X = np.fft.rfft(x, norm="ortho")
    smooth = np.fft.irfft(X * np.exp(-decay * np.arange(X.size)), n=x.size, norm="ortho")
    return np.sum(smooth**2) + np.sum(np.abs(np.fft.fft(x)) ** 3) / x.size


@pytest.mark.slow
def test_odd_and_even_lengths():
    f = compile_grad(spectral)
    for n in (31, 32, 33, 31):
        agree(f, spectral, RNG.normal(size=n), 0.3, tol=2e-5)


def transforms(z):
    filtered = np.fft.fft2(z, axes=(0, 2)) * (1 + np.arange(3.0))
    return np.fft.ifft2(filtered, axes=(0, 2)), np.fft.irfft(z, axis=1), np.fft.rfft(z.real, n=9)


@pytest.mark.parametrize(("dtype", "tol"), [(np.complex128, 1e-12), (np.complex64, 1e-5)])
def test_batches_and_single_precision(dtype, tol):
    z = (RNG.normal(size=(4, 5, 3)) + 1j * RNG.normal(size=(4, 5, 3))).astype(dtype)
    for found, expected in zip(compile_grad(transforms)(z), transforms(z), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)
    half = z.real.astype(np.float16)
    g = np.fft.irfft
    assert compile_grad(g)(half).dtype == g(half).dtype and compile_grad(np.fft.fft)(half).dtype == np.complex64


def schroedinger(psi, V, steps):
    """Split-step: a loop with transforms in its body."""
    k = 2 * np.pi * np.fft.fftfreq(psi.size, d=0.5)
    for _ in range(steps):
        psi = np.exp(-0.02j * V) * psi
        psi = np.fft.ifft(np.exp(-0.01j * k**2) * np.fft.fft(psi))
    return np.sum(np.abs(psi) ** 2 * np.arange(psi.size))


def test_a_loop_over_transforms():
    x = np.arange(8) - 3.5
    psi, V = np.exp(-(x**2) / 4 + 1j * x), 0.5 * x**2
    f = compile_grad(schroedinger, argnums=(0, 1))
    for _ in range(3):
        value, (of_psi, of_V) = f.value_and_grad(psi, V, 60)
    np.testing.assert_allclose(value, schroedinger(psi, V, 60), rtol=1e-12)
    np.testing.assert_allclose(of_psi, complex_gradient(lambda z: schroedinger(z, V, 60), psi), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(of_V, complex_gradient(lambda v: schroedinger(psi, v.real, 60), V).real, atol=1e-7)
    assert "rolled: the loop" in str(f.explain(psi, V, 60, level="all"))


def test_errors_are_numpys():
    for bad, kind, words in (
        (lambda x: np.fft.fft(x, n=0), ValueError, "Invalid number of FFT data points"),
        (lambda x: np.fft.fft(x, n=2.5), TypeError, "cannot be interpreted as an integer"),
        (lambda x: np.fft.fft(x, norm="unit"), ValueError, "Invalid norm value"),
        (lambda x: np.fft.rfft(x * 1j), TypeError, "real"),
        (lambda x: np.fft.fft(x, axis=1), IndexError, "out of range"),
    ):
        with pytest.raises(kind, match=words):
            compile_grad(bad)(np.ones(4))
        with pytest.raises(kind):
            bad(np.ones(4))
