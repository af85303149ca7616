"""Compiled steps, and compiled functions of tensors and modules, on a CUDA device: what they give is what the CPU gives
(on the stand-in for CuPy)."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest

import tracegrad
from tracegrad import DeviceError, compile_grad, nn, optim

pytestmark = pytest.mark.usefixtures("cupy")
A = np.random.default_rng(1).normal(size=(4, 3))


def model(device):
    tracegrad.manual_seed(0)
    return nn.Linear(3, 2).to(device)


def trained(device, given):
    net = model(device)
    x, y = tracegrad.tensor(A, device=device), tracegrad.tensor(A[:, :2], device=device)
    step_of = optim.Adam(net.parameters(), lr=0.1)

    @tracegrad.compile
    def step(*batch):
        a, b = batch or (x, y)
        step_of.zero_grad()
        loss = ((net(a) - b) ** 2).mean()
        loss.backward()
        step_of.step()
        return loss

    losses = [step(x, y) if given else step() for _ in range(4)]
    assert all(loss.device.type == device for loss in losses)
    return [float(loss) for loss in losses], step


@pytest.mark.parametrize("given", [True, False], ids=["arguments", "from outside"])
def test_a_compiled_step_is_one_program(given):
    expected, _ = trained("cpu", given)
    found, step = trained("cuda", given)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert step.stats.live == "" and step.stats.traces == 1


def test_a_step_whose_model_moves_to_the_device():
    net = model("cpu")
    step = tracegrad.compile(lambda x: net(x).sum())
    host = [float(step(tracegrad.tensor(A))) for _ in range(3)]
    net.cuda()
    assert step(tracegrad.tensor(A, device="cuda")).is_cuda
    assert float(step(tracegrad.tensor(A, device="cuda"))) == pytest.approx(host[0])


@pytest.mark.parametrize("target", ["auto", "cuda"])
def test_functions_that_read_a_module(target):
    results = []
    for device in ("cpu", "cuda"):
        net = model(device)
        f = compile_grad(lambda x, net=net: (net(x) ** 2).sum(), target=target if device == "cuda" else "cpu")
        g = compile_grad(lambda net, x: (net(x) ** 2).sum(), target=target if device == "cuda" else "cpu")
        x = tracegrad.tensor(A, device=device)
        for _ in range(2):
            value, gradient = f.value_and_grad(x)
            parameters = g.grad(net, x)
        assert {t.device.type for t in (value, gradient, *parameters.values())} == {device}
        results.append([t.detach().cpu().numpy() for t in (value, gradient, *parameters.values())])
    for host, device in zip(*results, strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-10)


def test_target_cuda_does_not_copy_tensors():
    f = compile_grad(lambda w: (w**2).sum(), target="cuda")
    with pytest.raises(DeviceError, match=r"a tensor on the CPU.*\.cuda\(\)"):
        f.grad(tracegrad.ones(3))
    net = model("cpu")
    with pytest.raises(DeviceError, match=r"`?net.*a tensor on the CPU"):
        compile_grad(lambda x: net(x).sum(), target="cuda").grad(tracegrad.tensor(A, device="cuda"))


def test_an_optimizer_that_runs_out_of_memory_has_changed_nothing():
    net = nn.Linear(64, 64).cuda()
    step = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x = tracegrad.ones(2, 64, device="cuda")
    for _ in range(2):
        step.zero_grad()
        net(x).sum().backward()
        step.step()
    before = {n: t.cpu().numpy().copy() for n, t in net.state_dict().items()}
    fake_cupy.pool.leave(20_000)
    with pytest.raises(tracegrad.cuda.OutOfMemoryError):
        step.step()
    for name, t in net.state_dict().items():
        np.testing.assert_array_equal(t.cpu().numpy(), before[name])
    fake_cupy.pool.set_limit(size=0)
    step.step()
    assert not np.array_equal(net.weight.detach().cpu().numpy(), before["weight"])
