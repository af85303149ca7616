"""``compile_grad`` on a CUDA device, on the stand-in for CuPy: values and gradients are the CPU's, arrays stay where
they lie, and nothing waits that need not."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from fake_cupy import counts

import tracegrad
from tracegrad import Tensor, compile_grad

pytestmark = pytest.mark.usefixtures("cupy")

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
Y = np.sign(rng.normal(size=20))
W = rng.normal(size=3)


def loss(w, X, y):
    return np.mean(np.log1p(np.exp(-y * (X @ w)))) + 1e-3 * np.sum(w * w)


def on_device(*arrays):
    return tuple(fake_cupy.cupy.array(a) for a in arrays)


def host(x):
    """A device tensor's numbers."""
    assert type(x) is Tensor and x.is_cuda
    return x._data.get()


def test_target_cuda_of_numpy_arrays_gives_numpy_arrays():
    f, reference = compile_grad(loss, target="cuda"), compile_grad(loss)
    expected = reference.value_and_grad(W, X, Y)
    for _ in range(3):
        value, gradient = f.value_and_grad(W, X, Y)
        assert type(gradient) is np.ndarray and isinstance(value, np.float64)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)
    assert f.stats.traces == 2


@pytest.mark.parametrize("target", ["cuda", "auto"])
def test_results_of_device_arrays_stay_there(target):
    f = compile_grad(loss, target=target)
    expected = compile_grad(loss).value_and_grad(W, X, Y)
    arguments = on_device(W, X, Y)
    for _ in range(3):
        value, gradient = f.value_and_grad(*arguments)
        np.testing.assert_allclose(host(value), expected[0], rtol=1e-12)
        np.testing.assert_allclose(host(gradient), expected[1], rtol=1e-12)
    np.testing.assert_allclose(host(f.grad(*arguments)), expected[1], rtol=1e-12)
    np.testing.assert_allclose(host(f(*arguments)), expected[0], rtol=1e-12)


def test_a_call_on_device_arrays_neither_copies_them_nor_waits():
    f = compile_grad(loss, target="auto")
    arguments = on_device(W, X, Y)
    f.value_and_grad(*arguments)
    counts.clear()
    for _ in range(3):
        f.value_and_grad(*arguments)
    assert counts["wait"] == counts["download"] == counts["upload"] == 0


def test_auto_follows_the_arguments():
    f = compile_grad(loss, target="auto")
    assert type(f.grad(W, X, Y)) is np.ndarray
    w, *_ = on_device(W)
    assert f.grad(w, X, Y).is_cuda  # the others are uploaded
    assert type(f.grad(W, X, Y)) is np.ndarray


def test_target_cpu_refuses_device_arrays():
    f = compile_grad(loss)
    with pytest.raises(tracegrad.DeviceError, match=r'target="cpu".*target="auto"'):
        f(*on_device(W, X, Y))
