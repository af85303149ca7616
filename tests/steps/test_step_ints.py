"""Int arguments and counters of compiled steps: numbers of the run where Python only computes with them."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from int_programs import differences, same
from selection import seeds

import tracegrad as torch
from tracegrad import nn, optim

CASES = {}


def case(make):
    CASES[make.__name__.replace("_", " ")] = make
    return make


class Task:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Linear(3, 1).double()
        self.opt = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.x, self.steps, self.last, self.log = torch.tensor(np.linspace(0, 1, 6).reshape(2, 3)), 0, None, []

    def update(self, scale=1.0):
        self.opt.zero_grad()
        loss = (self.model(self.x) ** 2).mean() * scale
        loss.backward()
        self.opt.step()
        return loss


@case
def a_schedule(task):
    def step(n):
        for group in task.opt.param_groups:
            group["lr"] = 0.1 * 0.9**n / (1 + n // 10)
        return task.update()

    return step


@case
def scales_the_loss(task):
    return lambda n: task.update(1.0 + n / 7) * n - (n % 4) / (n + 1)


@case
def is_returned(task):
    return lambda n: (task.update(), n, 2 * n + 1, {"epoch": n // 10})


@case
def is_kept(task):
    def step(n):
        loss = task.update()
        task.last = n + 1
        task.log.append((n, n % 5, loss.item()))
        return loss

    return step


@case
def is_printed(task):
    def step(n):
        loss = task.update()
        print(f"epoch {n:3d}/{n + 1}: {loss.item():.6f}", n)
        return loss

    return step


@case
def beside_a_counter(task):
    def step(n):
        task.steps += 1
        task.last = task.steps * n
        return task.update() * (task.steps - n), task.steps

    return step


@case
def the_counter_before_it_counts(task):
    def step(n):
        task.log.append(task.steps)
        task.last = task.steps
        task.steps += 1
        return task.update(), np.sum(task.x) * n

    return step


@case
def decides(task):
    def step(n):
        loss = task.update()
        return loss * n if n > 12 and n % 4 != 3 else loss

    return step


@case
def beside_tensors_of_each_dtype(task):
    whole, single, zero_d = torch.tensor([1, 2, 3]), torch.tensor([0.5, 1.5], dtype=torch.float32), None
    zero_d = single.sum()
    return lambda n: (whole * n, n - whole, single * n, n / single, zero_d * n, task.x + n, whole / (n + 1), single > n)


@pytest.mark.parametrize("name", CASES)
def test_ints_of_steps_are_numbers_of_the_run(name):
    seen = []
    for make in (lambda f: f, torch.compile):
        task, output = Task(), io.StringIO()
        step = make(CASES[name](task))
        with contextlib.redirect_stdout(output):
            results = [step(n) for n in [*range(36), 3, 65536, -20]]
        kept = [results, task.steps, task.last, task.log, [p.detach() for p in task.model.parameters()]]
        seen.append((kept, output.getvalue()))
    assert same(*seen)
    assert not step.stats.live
    assert step.stats.traces <= 8, step.stats


@pytest.mark.parametrize("ask", [
    lambda n, x: x[n % 2], lambda n, x: sum(x.sum() for _ in range(n % 5)), lambda n, x: x.sum(dim=n % 2),
    lambda n, x: x * len(f"{n}"), lambda n, x: x * {0: 2.0, 1: 3.0, None: 0.0}[n % 2], lambda n, x: x.sum() * 2**n,
])  # fmt: skip
def test_ints_that_a_step_asks_for_are_compared_by_value(ask):
    x = torch.tensor(np.linspace(0, 1, 6).reshape(2, 3))
    step = torch.compile(lambda n: ask(n, x))
    for n in (1, 1, 2, 2, 2, 3, 4, 5, 2, 1, 7, 7, 7):
        assert same(ask(n, x), step(n)), n
    assert any("is compared by value" in reason or "asked for at" in reason for reason in step.stats.retraces)


@pytest.mark.slow
@pytest.mark.parametrize("block", seeds(4, quick=1))
def test_random_steps(block):
    with np.errstate(all="ignore"):
        for seed in range(block * 40 + 3, block * 40 + 43, 4):
            found, _, text = differences(seed)
            assert not found, f"seed {seed}\n{text}\n" + "\n".join(found)


@pytest.mark.parametrize("power", [lambda t, n: t**n, torch.pow, lambda t, n: t.detach().clone().pow_(n)])
def test_an_int_that_varies_as_an_exponent(power):
    w, scale = torch.tensor([1.5, -2.0], requires_grad=True), Task()
    scale.n = 2
    step = torch.compile(lambda x: power(w, scale.n).sum() * x)
    for n in (2, 2, 2, 3, 2, 3, 4, 5, 2):
        scale.n = n
        assert same(step(torch.tensor(1.0)).detach(), power(w, n).sum().detach()), n
