"""Containers that a step writes outside, and that are among its arguments in some calls."""

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import compile_grad, nn


def task():
    return torch.ones(3, dtype=torch.float64, requires_grad=True), torch.ones(3, dtype=torch.float64)


def test_a_list_that_grows_outside_and_stands_in_an_argument():
    w, x = task()
    log = [x]

    def step(batch):
        loss = (w * batch["x"][0]).sum().detach()
        log.append(loss)
        return loss * len(batch["x"])

    compiled = torch.compile(step)
    for k in range(3):
        assert compiled({"x": [x]}).item() == 3.0 and len(log) == k + 2
    for _ in range(2):
        log[:] = [x]
        assert compiled({"x": log}).item() == 6.0 and len(log) == 2
    assert "an argument that is also found as" in compiled.stats.live


@pytest.mark.parametrize("by_name", [False, True])
def test_a_dict_that_is_written_outside_and_is_an_argument(by_name):
    w, x = task()
    seen = {}

    def step(x, metrics):
        seen["n"] = metrics.get("n", 0) + 1
        metrics["loss"] = (w * x).sum().item()

    compiled = torch.compile(step)

    def call(metrics):
        compiled(x, metrics=metrics) if by_name else compiled(x, metrics)

    for _ in range(5):
        metrics = {}
        call(metrics)
        assert metrics == {"loss": 3.0} and seen == {"n": 1}
    assert not compiled.stats.live and compiled.stats.traces == 1
    seen.clear()
    call(seen)
    assert seen == {"n": 1, "loss": 3.0}


def reads(name):
    return open(name).read()


def test_functions_of_arrays_that_come_to_tensors(tmp_path):
    torch.manual_seed(0)
    file, w, model, x = tmp_path / "text", task()[0].detach(), nn.Linear(3, 1).double(), np.arange(3.0)
    file.write_text("2.0")
    for f, gradient in [
        (lambda x: (x * w).sum(), [1.0, 1.0, 1.0]),
        (lambda x: (x * w).sum() * float(reads(file)), [2.0, 2.0, 2.0]),  # whose log is not closed
    ]:
        compiled = compile_grad(f)
        for _ in range(3):
            assert type(compiled(x)) is torch.Tensor and compiled(x).item() == f(x).item()
            np.testing.assert_array_equal(compiled.grad(x), gradient)
    of_model = compile_grad(lambda x: model(torch.as_tensor(x)).sum())
    for _ in range(3):
        assert of_model(x).item() == pytest.approx(model(torch.tensor(x)).sum().item())


def test_an_argument_that_the_step_finds_outside_too():
    w, x = task()
    step = torch.compile(lambda p: ((w + p) * x).sum().item())
    other = torch.full((3,), 5.0, dtype=torch.float64, requires_grad=True)
    for _ in range(3):
        assert step(w) == 6.0
    for _ in range(3):
        assert step(other) == 18.0 and step(w) == 6.0
    assert not step.stats.live and step.stats.traces <= 3
