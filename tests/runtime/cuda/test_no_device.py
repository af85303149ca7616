"""Where there is no CUDA device to use: importing works, and asking for one is one error that says what is missing."""

from __future__ import annotations

import subprocess
import sys

import fake_cupy
import numpy as np
import pytest

import tracegrad
from tracegrad import DeviceError, compile_grad, nn
from tracegrad.runtime.cuda import availability

X = np.array([1.0, 2.0])


def loss(x):
    return np.sum(x * x)


ASKING = {
    "a compiled function": lambda: compile_grad(loss, target="cuda")(X),
    "its gradient": lambda: compile_grad(loss, target="cuda").value_and_grad(X),
    "Tensor.cuda": lambda: tracegrad.tensor([1.0]).cuda(),
    "Tensor.to": lambda: tracegrad.tensor([1.0]).to("cuda:0"),
    "a factory": lambda: tracegrad.zeros(3, device="cuda"),
    "the default": lambda: tracegrad.set_default_device("cuda"),
    "a module": lambda: nn.Linear(2, 3).cuda(),
    "waiting": tracegrad.cuda.synchronize,
    "a name": tracegrad.cuda.get_device_name,
}


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
def test_one_error_says_what_is_missing(no_cuda, ask):
    words = r"needs a CUDA device: CuPy is not installed: pip install 'tracegrad\[cuda\]'"
    with pytest.raises(DeviceError, match=words):
        ask()


def test_asking_whether_there_is_one(no_cuda):
    cuda = tracegrad.cuda
    assert not cuda.is_available() and cuda.device_count() == 0 and cuda.memory_allocated() == 0
    cuda.empty_cache()


def test_naming_a_target_needs_no_device(no_cuda):
    f = compile_grad(loss, target="cuda")
    with pytest.raises(DeviceError):
        f.grad(X)
    np.testing.assert_array_equal(compile_grad(loss, target="auto").grad(X), 2 * X)
    assert str(tracegrad.device("cuda:1")) == "cuda:1"


def fail(*_):
    raise fake_cupy.runtime.CUDARuntimeError("cudaErrorInsufficientDriver")


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("driverGetVersion", lambda: 0, "there is no NVIDIA driver"),
        ("driverGetVersion", fail, "does not answer"),
        ("getDeviceCount", fail, r"cannot be used \(cudaErrorInsufficientDriver\)"),
        ("getDeviceCount", lambda: 0, "sees no device: check CUDA_VISIBLE_DEVICES"),
    ],
)
def test_what_may_be_missing(cupy, monkeypatch, name, answer, words):
    monkeypatch.setattr(cupy.cuda.runtime, name, answer)
    availability.cuda_status.cache_clear()
    with pytest.raises(DeviceError, match=words):
        tracegrad.tensor([1.0]).cuda()


def test_a_device_that_is_too_old(cupy, monkeypatch):
    monkeypatch.setattr(cupy.cuda.Device, "compute_capability", "61")
    availability.cuda_status.cache_clear()
    with pytest.raises(DeviceError, match=r"compute capability 6\.1, and 7\.5 is the least"):
        tracegrad.tensor([1.0]).cuda()


def test_another_device_than_the_current_one(cupy):
    with pytest.raises(RuntimeError, match="invalid device ordinal 3"):
        tracegrad.zeros(2, device="cuda:3")


def test_importing_does_not_import_cupy():
    script = "import sys, tracegrad; tracegrad.device('cuda'); print('cupy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
