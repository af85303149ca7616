"""Training steps compiled for a CUDA device, on the stand-in for CuPy: each is one program, whose effects are those of
the eager step.  Each test runs twice: with CuPy's operations and with kernels, which the simulator runs."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from device_steps import X, Y, host, network, on_device, plain_step
from fake_cupy import counts
from test_step import OPTIMIZERS

import tracegrad as torch
from tracegrad import nn, optim
from tracegrad.runtime.cuda import graphs
from tracegrad.tracer.ir.errors import OutOfMemoryError

pytestmark = pytest.mark.usefixtures("way")


def training(make_optimizer, compiled, steps=5, clip=None):
    model = network()
    optimizer = make_optimizer(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    x, y = on_device(X, Y)
    losses = [run(x, y).item() for _ in range(steps)]
    parameters = list(model.parameters())
    state = [t for entry in optimizer.state.values() for t in entry.values()]
    assert {t.device.type for t in state} <= {"cpu", "cuda"} and all(p.grad.is_cuda for p in parameters)
    numbers = [host(p.grad) for p in parameters] + [host(p) for p in parameters]
    numbers += [host(t) if t.is_cuda else t.numpy().copy() for t in state]
    return losses, numbers, [t.device.type for t in state], run


@pytest.mark.slow
@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_training_is_eager_training(name, clip, way):
    if way == "kernels" and (clip is not None) != (name == "adam"):
        pytest.skip("the simulator takes its time")
    eager = training(OPTIMIZERS[name], False, clip=clip)
    compiled = training(OPTIMIZERS[name], True, clip=clip)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-11)
    for ours, theirs in zip(compiled[1], eager[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    assert compiled[2] == eager[2]
    stats = compiled[3].stats
    assert stats.live == "" and stats.traces == 1


def test_a_cached_step_copies_its_numbers_and_does_not_wait(way):
    model = network()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    step = torch.compile(plain_step(model, optimizer))
    (x,) = on_device(X)
    for _ in range(3):
        step(x)
    counts.clear()
    for _ in range(6):
        step(x)
    assert counts["wait"] == counts["download"] == 0
    assert counts["upload"] == (6 if way == "kernels" else 0)


def test_kernels_and_the_copies_into_parameters_are_one_graph(way):
    if way == "operations":
        pytest.skip("there are no kernels")
    w, target = on_device(np.zeros(3), np.arange(3.0))
    w.requires_grad_()
    optimizer = optim.SGD([w], lr=0.25)

    @torch.compile
    def step():
        optimizer.zero_grad()
        ((w - target) ** 2).sum().backward()
        optimizer.step()

    for k in range(40):
        np.testing.assert_allclose(host(w), np.arange(3.0) * (1 - 0.5**k), rtol=1e-12)
        step()
    assert counts["capture"] >= 1 and counts["replay"] >= 10


def test_parameters_keep_their_memory_views_and_versions():
    def trained(compiled):
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        weight = model[0].weight
        memory, alias = weight._data, weight.detach()
        with torch.no_grad():
            view = weight[1:]
        step = plain_step(model, optimizer)
        step = torch.compile(step) if compiled else step
        (x,) = on_device(X)
        versions = []
        for _ in range(5):
            step(x)
            versions.append((weight._version, view._version, weight.grad._version))
        assert weight._data is memory
        np.testing.assert_array_equal(host(view), host(weight)[1:])
        np.testing.assert_array_equal(host(alias), host(weight))
        return versions, host(weight)

    eager, compiled = trained(False), trained(True)
    assert eager[0] == compiled[0]
    np.testing.assert_allclose(compiled[1], eager[1], rtol=1e-11)


def test_a_hundred_learning_rates_are_one_compile(way):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    step = torch.compile(plain_step(model, optimizer))
    (x,) = on_device(X)
    for _ in range(4):
        step(x)
    stats = step.stats
    compiles, traces, weight = stats.compiles, stats.traces, model[0].weight
    for k in range(100 if way == "operations" else 10):
        optimizer.param_groups[0]["lr"] = 1e-3 * (k + 1)
        before = host(weight)
        step(x)
        np.testing.assert_allclose(before - host(weight), 1e-3 * (k + 1) * host(weight.grad), rtol=1e-8, atol=1e-15)
    assert stats.compiles == compiles <= 1 and stats.traces == traces == 1 and not stats.live


def branching():
    """A step with a branch on its loss, the tensors it writes, and the outcome of all its effects."""
    w, total = on_device(np.ones(3), np.zeros(3))
    w.requires_grad_()

    @torch.compile
    def step(x):
        w.grad = None
        loss = (w * x + torch.rand(3, device="cuda") * 1e-3).sum()
        if loss > 0:
            loss = loss * 2.0
        loss.backward()
        with torch.no_grad():
            w.sub_(0.01 * w.grad)
            total.add_(x)
        return loss

    def effects():
        drawn = torch.tensors.random.default_generator._stream.bit_generator.state["state"]
        return host(w).tolist(), host(total).tolist(), host(w.grad).tolist(), w._version, total._version, drawn

    return step, effects


def test_a_failed_guard_leaves_everything_as_it_was(no_recording):
    step, effects = branching()
    plus, minus = on_device(np.ones(3), -np.ones(3))
    for _ in range(4):
        step(plus)
    no_recording()
    before = effects()
    with pytest.raises(AssertionError, match="recorded"):
        step(minus)
    assert effects() == before and step.stats.guard_misses == 1
    counts.clear()
    step(plus)
    assert counts["download"] == counts["wait"] == 1  # the guards
    assert effects() != before


def test_branches_take_turns():
    step, _ = branching()
    plus, minus = on_device(np.ones(3), -np.ones(3))
    for _ in range(4):
        assert step(plus).item() > 4 and step(minus).item() < -2
    assert step.stats.live == "" and step.stats.traces <= 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["recorded", "replayed", "cached"])
def test_running_out_of_memory_leaves_everything_as_it_was(kind):
    model = nn.Linear(64, 64).cuda()
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    @torch.compile
    def step(x):
        return plain_step(model, optimizer)(x + torch.rand(64, device="cuda") * 1e-3)

    (x,) = on_device(np.ones((2, 64)))
    for _ in range({"recorded": 1, "replayed": 2, "cached": 4}[kind]):
        step(x)

    def effects():
        state = [t for entry in optimizer.state.values() for t in entry.values()]
        tensors = [*model.parameters(), *[p.grad for p in model.parameters()], *state]
        found = [(t.detach().cpu().numpy().tolist(), t._version) for t in tensors]
        return found, torch.tensors.random.default_generator._stream.bit_generator.state

    before = effects()
    graphs.forget_graphs()
    fake_cupy.pool.leave(20_000)
    with pytest.raises(OutOfMemoryError, match="nothing has been changed"):
        step(x)
    fake_cupy.pool.set_limit(size=0)
    assert effects() == before
    step(x)
    assert effects() != before
    for _ in range(3):
        step(x)
    assert step.stats.live == ""
