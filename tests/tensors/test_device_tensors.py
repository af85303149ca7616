"""Tensors on a CUDA device, on the stand-in for CuPy: what they compute is what tensors on the CPU compute."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from fake_cupy import counts

import tracegrad
from tracegrad import nn, optim

pytestmark = pytest.mark.usefixtures("cupy")
A = np.random.default_rng(1).normal(size=(4, 3))


def cuda(x, **options):
    return tracegrad.tensor(x, device="cuda", **options)


def numbers(t):
    assert t.is_cuda and str(t.device) == "cuda:0"
    return t.detach().cpu().numpy()


def test_to_the_device_and_back():
    t = tracegrad.tensor(A)
    moved = t.cuda()
    assert moved.device == tracegrad.device("cuda:0") and moved.to("cuda:0") is moved and moved.cuda() is moved
    assert t.cpu() is t and t.to("cpu") is t and not t.is_cuda
    np.testing.assert_array_equal(numbers(moved), A)
    np.testing.assert_array_equal(moved.tolist(), A.tolist())
    assert repr(moved[0, 0]).startswith("tensor(")
    assert moved.to(np.float32).dtype == np.float32 and moved.to("cuda", np.float32).is_cuda


def test_numpy_of_a_device_tensor_says_cpu():
    for ask in (lambda t: t.numpy(), np.asarray):
        with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy.*\.cpu\(\)"):
            ask(cuda(A))


def test_backward_runs_on_the_device():
    results = []
    for device in ("cpu", "cuda"):
        x = tracegrad.tensor(A, device=device, requires_grad=True)
        w = tracegrad.tensor(A.T.copy(), device=device, requires_grad=True)
        loss = ((x @ w).tanh() * x.sum(1, keepdim=True)).exp().mean()
        loss.backward()
        assert x.grad.device.type == w.grad.device.type == loss.device.type == device
        results.append([v.detach().cpu().numpy() for v in (loss, x.grad, w.grad)])
    for host, device in zip(*results, strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-12)


def test_forward_and_backward_do_not_wait():
    x = cuda(A, requires_grad=True)
    counts.clear()
    ((x * 2 + 1).relu().sum() / 3).backward()
    assert counts["wait"] == counts["download"] == counts["upload"] == 0
    assert x.grad.is_cuda


def test_gradients_flow_through_copies_between_devices():
    x = tracegrad.tensor(A, requires_grad=True)
    y = x.cuda() * 3
    (y.cpu() * 2).sum().backward()
    assert not x.grad.is_cuda
    np.testing.assert_array_equal(x.grad.numpy(), np.full(A.shape, 6.0))
    assert "ToCopyBackward0" in repr(y.cpu().grad_fn)


def test_operands_on_two_devices():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        cuda(A) + tracegrad.tensor(A)
    assert (cuda(A) + tracegrad.tensor(2.0)).is_cuda  # a number may be anywhere
    assert (2.0 * cuda(A)).is_cuda


def test_second_derivatives():
    x = cuda([0.3, 0.7], requires_grad=True)
    (first,) = tracegrad.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = tracegrad.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(numbers(second), 6 * np.array([0.3, 0.7]))


def test_views_share_memory_and_writes_go_through():
    x = cuda(A)
    x[1] = 7.0
    x.t()[0, 2] = -1.0
    x[:, 1] += 1.0
    expected = A.copy()
    expected[1] = 7.0
    expected.T[0, 2] = -1.0
    expected[:, 1] += 1.0
    np.testing.assert_array_equal(numbers(x), expected)
    with pytest.raises(RuntimeError, match="single memory location"):
        cuda([1.0]).expand(3).copy_(cuda([1.0, 2.0, 3.0]))


def test_indices_on_the_device_are_checked():
    x, at = cuda(A), cuda([0, -1, 2])
    np.testing.assert_array_equal(numbers(x[at]), A[[0, -1, 2]])
    np.testing.assert_array_equal(numbers(x[[0, 2]]), A[[0, 2]])
    np.testing.assert_array_equal(numbers(x[x > 0]), A[A > 0])
    with pytest.raises(IndexError, match="out of bounds"):
        x[cuda([0, 4])]
    x[cuda([1, 1])] = cuda(np.stack([np.zeros(3), np.ones(3)]))
    np.testing.assert_array_equal(numbers(x)[1], np.ones(3))  # the last of two writes to one place


def test_factories():
    assert tracegrad.zeros(2, 3, device="cuda").is_cuda and tracegrad.arange(3, device="cuda:0").is_cuda
    x = cuda(A)
    assert tracegrad.zeros_like(x).is_cuda and x.new_ones(2).is_cuda and tracegrad.rand_like(x).is_cuda
    assert not tracegrad.zeros_like(x, device="cpu").is_cuda
    tracegrad.set_default_device("cuda")
    try:
        assert tracegrad.ones(2).is_cuda and tracegrad.tensor([1.0]).is_cuda and tracegrad.randn(3).is_cuda
        assert not tracegrad.ones(2, device="cpu").is_cuda
        assert tracegrad.get_default_device() == "cuda"
    finally:
        tracegrad.set_default_device(None)
    assert not tracegrad.ones(2).is_cuda


def test_arrays_of_others_are_taken_without_a_copy():
    array = fake_cupy.cupy.array(A)
    t = tracegrad.as_tensor(array)
    t[0, 0] = 5.0
    assert array.get()[0, 0] == 5.0
    assert t.__cuda_array_interface__["data"] == array.__cuda_array_interface__["data"]
    assert t.__dlpack_device__() == (2, 0)
    copy = tracegrad.tensor(array)
    copy[0, 0] = 6.0
    assert array.get()[0, 0] == 5.0


def test_a_host_tensor_has_no_cuda_array_interface():
    assert not hasattr(tracegrad.tensor([1.0]), "__cuda_array_interface__")
    np.testing.assert_array_equal(np.from_dlpack(tracegrad.tensor(A)), A)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)

    def forward(self, x):
        return self.last(self.norm(self.first(x)).relu())


@pytest.mark.parametrize("make", [
    lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.Adam(p, lr=0.01), lambda p: optim.AdamW(p),
    lambda p: optim.RMSprop(p, lr=0.01),
])  # fmt: skip
def test_training(make):
    trained = []
    for device in ("cpu", "cuda"):
        tracegrad.manual_seed(0)
        net = Net().to(device)
        step = make(net.parameters())
        x, y = tracegrad.tensor(A, device=device), tracegrad.tensor([0, 1, 1, 0], device=device)
        for _ in range(3):
            step.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            step.step()
        assert all(t.device.type == device for t in net.state_dict().values())
        trained.append({n: t.detach().cpu().numpy() for n, t in net.state_dict().items()})
    for name, host in trained[0].items():
        np.testing.assert_allclose(trained[1][name], host, rtol=1e-9, atol=1e-12, err_msg=name)
