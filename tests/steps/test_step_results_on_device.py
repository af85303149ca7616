"""What compiled steps on the device give, on the stand-in for CuPy: results that stay connected, what lies where."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from device_steps import RNG, X, Y, host, network, on_device, plain_step
from fake_cupy import counts
from selection import seeds, some
from test_step_fuzz import looping
from test_step_fuzz import run as random_step

import tracegrad as torch
from tracegrad import nn, optim

pytestmark = pytest.mark.usefixtures("way")


# ---- results that stay connected -----------------------------------------------------------------------------------


def test_a_compiled_model_with_the_rest_of_the_step_outside():
    def run(compiled):
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.3), nn.Linear(5, 3)).cuda()
        torch.manual_seed(0)
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn(*p.shape, device="cuda"))
        forward = torch.compile(model) if compiled else model
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        labels, x = torch.tensor([0, 1, 2] * 2, device="cuda"), torch.tensor(X, device="cuda")
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(forward(x), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, forward

    eager, _ = run(False)
    compiled, forward = run(True)
    np.testing.assert_allclose(compiled, eager, rtol=1e-10)
    assert forward.stats.live == "" and forward.stats.traces == 1


def test_gradients_of_several_results_and_of_a_scalar():
    w = torch.tensor(RNG.normal(size=(3, 2)), device="cuda", requires_grad=True)
    several = torch.compile(lambda x, h: ((x @ w).tanh(), (h * w).sum(0), x.exp()))
    scalar = torch.compile(lambda x: (x @ w).tanh().sum())

    def gradients(x, f, g):
        for t in (x, w):
            t.grad = None
        a, _, c = f(x, w * 2.0)
        (a.sum() + c[0].sum() + 3.0 * g(x)).backward()
        return host(x.grad), host(w.grad)

    for _ in range(4):
        x = torch.tensor(RNG.normal(size=(4, 3)), device="cuda", requires_grad=True)
        ours, theirs = gradients(x, several, scalar), gradients(x, several.__wrapped__, scalar.__wrapped__)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)
    assert several.stats.live == scalar.stats.live == "" and scalar.stats.traces == 1


def test_derivatives_of_derivatives_and_operands_that_are_overwritten():
    w = torch.tensor([0.3, 0.7], device="cuda", requires_grad=True)
    (x,) = on_device(np.ones(2))
    f = torch.compile(lambda x: (x * w) ** 3)
    for _ in range(4):
        (g,) = torch.autograd.grad(f(x).sum(), w, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), w)
        np.testing.assert_allclose(host(h), 6.0 * host(w), rtol=1e-12)
    y = f(x)
    with torch.no_grad():
        w.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# ---- what lies where -----------------------------------------------------------------------------------------------


def same_places(function, *args, traces=1):
    """*function* compiled gives what it gives eagerly, and where; it is not live."""
    step = torch.compile(function)
    for _ in range(4):
        torch.manual_seed(1)
        expected = function(*args)
        torch.manual_seed(1)
        found = step(*args)
        for ours, theirs in zip(found, expected, strict=True):
            assert type(ours) is type(theirs)
            if isinstance(ours, torch.Tensor):
                assert (ours.device, ours.dtype, ours.shape) == (theirs.device, theirs.dtype, theirs.shape)
                ours, theirs = ours.detach().cpu().numpy(), theirs.detach().cpu().numpy()
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert step.stats.live == "" and step.stats.traces == traces
    return step


def test_tensors_made_in_a_step_lie_where_they_were_asked_for():
    (x,) = on_device(X)
    count = torch.tensor(3.0)

    def step(x):
        y = torch.ones_like(x) * x.new_full((4,), 2.0) + torch.rand_like(x)
        here, there = torch.zeros(3), torch.full((2,), 1.5, device="cuda")
        copy = torch.tensor(x)
        if (y.device.type, here.device.type, there.is_cuda, copy.is_cuda) != ("cuda", "cpu", True, True):
            return ()
        return y, here, there, copy, count + 1, count * x, x.sum() * 2, torch.arange(3, device="cuda"), here + count

    same_places(step, x)


def test_numbers_and_arguments_as_results_and_as_what_is_written():
    w, count = torch.tensor(3.0, device="cuda"), torch.tensor(2.0)
    twins = w.clone(), count.clone()

    def step(x, w, count):
        one, half, same = torch.ones((), device="cuda"), torch.tensor(0.5), x.clone()
        w.fill_(7.0)
        count.fill_(5.0)
        return one, half, same, w * 1.0, torch.zeros((2,), device="cuda")

    compiled = torch.compile(step)
    for _ in range(4):
        (x,) = on_device(RNG.normal(size=3))
        for ours, theirs in zip(compiled(x, w, count), step(x, *twins), strict=True):
            assert ours.device == theirs.device and ours.cpu().tolist() == theirs.cpu().tolist()
        assert (w.item(), count.item(), w._version) == (7.0, 5.0, twins[0]._version)
    assert compiled.stats.live == "" and compiled.stats.traces == 1


def test_a_guard_that_the_host_can_answer_asks_nothing_of_the_device(no_recording):
    (x,) = on_device(X)
    count = torch.tensor(1.0)

    @torch.compile
    def step(x):
        if count > 3:
            return x * 2.0
        return x * 3.0

    for _ in range(4):
        step(x)
    counts.clear()
    found = step(x)
    assert counts["wait"] == counts["download"] == 0
    np.testing.assert_allclose(host(found), 3.0 * X)
    count.fill_(4.0)
    no_recording()
    counts.clear()
    with pytest.raises(AssertionError, match="recorded"):
        step(x)
    assert counts["wait"] == counts["kernel"] == 0


def test_batches_of_numpy_and_of_the_host_are_uploaded():
    (w,) = on_device(RNG.normal(size=(4, 2)))
    offsets = np.array([0.5, -0.5])

    def step(a, t, scale):
        x = torch.tensor(a, device="cuda")
        y = t.cuda()
        return x @ w * scale + torch.as_tensor(offsets, device="cuda"), y * 2.0, t + 1.0, a.mean()

    step = same_places(step, X, torch.tensor(Y), 2.0)
    offsets[0] = 7.0
    out = host(step(X, torch.tensor(Y), 3.0)[0])
    np.testing.assert_allclose(out, X @ host(w) * 3.0 + [7.0, -0.5], rtol=1e-12)


def test_devices_that_meet_are_the_error_of_eager_code():
    (x,) = on_device(X)
    other = torch.ones(4)

    @torch.compile
    def step(x):
        if x.sum() > 0:
            return x * other
        return x * 2.0

    small = x * 0.0
    for _ in range(3):
        step(small)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least two"):
        step(small + 1.0)
    np.testing.assert_array_equal(host(step(small)), np.zeros_like(X))


@pytest.mark.parametrize("what", ["leaf", "copy", "foreign"])
def test_what_runs_operation_by_operation_says_why(what):
    (x,) = on_device(X)
    leaf = torch.ones(3, requires_grad=True) if what == "leaf" else None
    foreign = fake_cupy.cupy.array(Y)

    @torch.compile
    def step(x, y):
        out = x.sum()
        if what == "leaf":
            return out, (leaf * 2.0).sum()
        if what == "copy":
            return out, x.cpu() * 2.0
        return out, torch.as_tensor(y).sum()

    reason = {"leaf": "requiring gradients, on the host", "copy": "copies a tensor to another device"}
    for _ in range(4):
        first, second = step(x, foreign if what == "foreign" else None)
        assert first.is_cuda and second.is_cuda == (what == "foreign")
        np.testing.assert_allclose(host(first), X.sum(), rtol=1e-12)
    assert reason.get(what, "arrays on a CUDA device that are no tensors") in step.stats.live


def test_state_that_is_made_in_a_recorded_call_lies_where_eager_code_puts_it():
    p = torch.tensor(np.ones(3), device="cuda", requires_grad=True)
    late = torch.tensor(np.ones(3), device="cuda", requires_grad=True)
    optimizer = optim.Adam([p, late], lr=0.1)
    joins = [False]

    @torch.compile
    def step():
        optimizer.zero_grad()
        loss = (p * p).sum() + ((late * late).sum() if joins[0] else 0.0)
        loss.backward()
        optimizer.step()

    for k in range(8):
        joins[0] = k > 3
        step()
    assert optimizer.state[late]["step"].item() == 4.0
    places = [[t.device.type for t in optimizer.state[q].values()] for q in (p, late)]
    assert places[0] == places[1] == ["cpu", "cuda", "cuda"]
    assert step.stats.live == ""


def test_running_statistics_and_buffers():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).cuda()
    twin = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).cuda()
    twin.load_state_dict(model.state_dict())
    step = torch.compile(lambda x: model(x).sum())
    (x,) = on_device(X)
    for _ in range(4):
        np.testing.assert_allclose(host(step(x)), host(twin(x).sum()), rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        np.testing.assert_allclose(host(ours), host(theirs), rtol=1e-12)
    assert step.stats.live == ""


def test_autocast_and_gradients_that_accumulate():
    def run(compiled):
        model = network().to(torch.float32)
        (x,) = on_device(X.astype(np.float32))

        def step(x):
            with torch.autocast("float16"):
                loss = model(x).float().pow(2).mean()
            (loss * 64.0).backward()
            return loss

        step = torch.compile(step) if compiled else step
        losses = [step(x).item() for _ in range(4)]
        return losses, [host(p.grad) for p in model.parameters()], step

    eager, compiled = run(False), run(True)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=5e-3)
    for ours, theirs in zip(compiled[1], eager[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-2, atol=2e-2)
    assert compiled[2].stats.live == ""


def test_explain_shows_both_parts():
    model = network()
    step = torch.compile(plain_step(model, optim.Adam(model.parameters())))
    (x,) = on_device(X)
    for _ in range(3):
        step(x)
    text = step.explain(level="all")
    assert "on the CUDA device" in text and "on the host, before" in text and "writes `" in text


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, quick=1))
def test_random_steps(seed, way):
    if way == "kernels" and seed > 2:
        pytest.skip("the simulator takes its time")
    random_step(seed, device="cuda")


@pytest.mark.parametrize("seed", seeds(3, quick=1))
def test_random_steps_with_loops(seed, way):
    if way == "kernels" and seed > 1:
        pytest.skip("the simulator takes its time")
    random_step(seed, looping, "cuda")


def test_a_step_with_nothing_for_the_device_to_do():
    (x,) = on_device(X)
    count = torch.tensor(2.0)

    @torch.compile
    def step(x):
        with torch.no_grad():
            count.add_(1.0)
        return count * 2.0

    assert [step(x).item() for _ in range(5)] == [6.0, 8.0, 10.0, 12.0, 14.0]
    assert step.stats.live == "" and step.stats.traces == 1


@pytest.mark.parametrize("dtype", some([torch.float16, torch.bfloat16], quick=1), ids=["float16", "bfloat16"])
def test_half_precision(dtype):
    def trained(compiled):
        model = network().to(dtype)
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        step = plain_step(model, optimizer)
        step = torch.compile(step) if compiled else step
        x = torch.tensor(X, device="cuda", dtype=dtype)
        losses = [step(x).item() for _ in range(4)]
        assert {p.dtype for p in model.parameters()} == {dtype}
        return losses, step

    (eager, _), (compiled, step) = trained(False), trained(True)
    np.testing.assert_allclose(compiled, eager, rtol=0.05)
    assert step.stats.live == "" and step.stats.traces == 1


def test_memory_in_another_order_is_read_and_not_written():
    array = fake_cupy.cupy.array(np.arange(6.0).reshape(2, 3))
    t, total = torch.as_tensor(array.T), torch.zeros(3, 2, device="cuda")

    @torch.compile
    def reading(x):
        with torch.no_grad():
            total.add_(x)

    @torch.compile
    def writing():
        with torch.no_grad():
            t.mul_(2.0)

    for k in range(1, 5):
        reading(t)
        np.testing.assert_array_equal(host(total), k * array.get().T)
    assert reading.stats.live == ""
    for k in range(1, 5):
        writing()
        np.testing.assert_array_equal(array.get(), 2.0**k * np.arange(6.0).reshape(2, 3))
    assert "not C-contiguous" in writing.stats.live
