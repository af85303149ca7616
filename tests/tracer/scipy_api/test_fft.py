"""scipy.fft in compiled functions.  Each function and its forms: ``tests/support/coverage_table/fft.py``."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
from agreement import agree

from tracegrad import compile_grad

X = np.random.default_rng(3).normal(size=(3, 5))


def compressed(x, keep):
    """What is lost of a signal whose cosine transform is cut off."""
    found = scipy.fft.dct(x, norm="ortho")
    rest = scipy.fft.idct(found[:, :keep], n=x.shape[1], norm="ortho")
    return np.sum((x - rest) ** 2) + np.sum(scipy.fft.dst(x, type=1, axis=0) ** 3)


def test_cosine_transforms():
    agree(compile_grad(compressed, static_argnames="keep"), compressed, X, keep=3)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
def test_dtypes_are_scipys(dtype):
    def every(x):
        real = [scipy.fft.rfft(x), scipy.fft.ihfft(x), scipy.fft.fft(x), scipy.fft.irfft(x), scipy.fft.fftn(x)]
        return [*real, scipy.fft.dct(x), scipy.fft.idstn(x), scipy.fft.dct(x, type=4), scipy.fft.hfft(x, norm="ortho")]

    x = (10 * X).astype(dtype)
    for found, expected in zip(compile_grad(every)(x), every(x), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_errors_are_scipys():
    for bad, kind in (
        (lambda x: scipy.fft.fft(x, n=0), ValueError),
        (lambda x: scipy.fft.rfft(x * 1j), TypeError),
        (lambda x: scipy.fft.fftn(x, axes=(0, 5)), ValueError),
        (lambda x: scipy.fft.fft(x, norm="unit"), ValueError),
        (lambda x: scipy.fft.dct(x, type=5), ValueError),
        (lambda x: scipy.fft.dct(x[:, :1], type=1), RuntimeError),
        (lambda x: scipy.fft.fft(x, plan=1), NotImplementedError),
    ):
        for call in (bad, compile_grad(bad)):
            with pytest.raises(kind):
                call(X)
