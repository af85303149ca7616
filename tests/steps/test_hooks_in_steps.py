"""Hooks of tensors, of parameters and of modules in compiled steps: called in each call, and the step is replayed."""

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import nn, optim

X = np.random.default_rng(0).normal(size=(5, 3))
CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def update(t, loss):
    t.opt.zero_grad()
    loss.backward()
    t.opt.step()
    return loss


class Task:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        self.opt, self.log = optim.SGD(self.model.parameters(), lr=0.1), []

    def hidden(self, x, *hooks):
        h = self.model[0](x)
        for hook in hooks:
            h.register_hook(hook)
        return self.model[2](self.model[1](h)).sum()


@case
def replaces_a_gradient(t):
    return lambda x: update(t, t.hidden(x, lambda g: g.clamp(-0.1, 0.1), lambda g: g * 2.0))


@case
def keeps_a_norm(t):
    return lambda x: update(t, t.hidden(x, lambda g: t.log.append(g.norm().item())))


@case
def retains_a_gradient(t):
    def step(x):
        h = t.model[0](x)
        h.retain_grad()
        loss = update(t, t.model[2](t.model[1](h)).sum())
        t.log.append(h.grad.norm().item())
        return loss

    return step


@case
def clips_what_parameters_get(t):
    for p in t.model.parameters():
        p.register_hook(lambda g: g.clamp(-0.05, 0.05))
    return lambda x: update(t, t.model(x).sum())


@case
def updates_in_the_backward(t):
    def descend(p):
        with torch.no_grad():
            p.sub_(0.1 * p.grad)
        p.grad = None

    for p in t.model.parameters():
        p.register_post_accumulate_grad_hook(descend)

    def step(x):
        loss = t.model(x).sum()
        loss.backward()
        return loss

    return step


@case
def of_modules(t):
    t.model[0].register_forward_hook(lambda module, given, out: t.log.append(out.norm().item()))
    t.model[0].register_full_backward_hook(lambda module, before, after: t.log.append(after[0].norm().item()))
    return lambda x: update(t, t.model(x).sum())


@case
def of_each_turn_of_a_loop(t):
    def step(x):
        h = t.model[0](x)
        for _ in range(20):
            h = torch.tanh(h * 1.1)
            h.register_hook(lambda g: g.clamp(-0.1, 0.1))
        return update(t, t.model[2](h).sum())

    return step


def run(name, compiled):
    task = Task()
    step = CASES[name](task)
    step = torch.compile(step) if compiled else step
    results = [step(torch.tensor(X * (k + 1))).item() for k in range(5)]
    return [*results, *task.log, *[p.detach().numpy().copy() for p in task.model.parameters()]], step


@pytest.mark.parametrize("name", CASES)
def test_a_step_with_hooks_is_the_eager_one(name):
    found, step = run(name, True)
    expected, _ = run(name, False)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    assert not step.stats.live and step.stats.traces == 1


def test_a_hook_that_is_added_or_removed_later_counts():
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad.sum().item()

    compiled, x = torch.compile(step), torch.ones(3, dtype=torch.float64)
    for _ in range(3):
        assert compiled(x) == 3.0
    handle = w.register_hook(lambda g: g * 2.0)
    for _ in range(3):
        assert compiled(x) == 6.0
    handle.remove()
    assert compiled(x) == 3.0


def test_an_argument_with_a_hook_is_not_taken_for_one_without():
    def step(x):
        (x * x).sum().backward()
        return x.grad.sum().item()

    compiled = torch.compile(step)
    for _ in range(3):
        assert compiled(torch.ones(2, requires_grad=True)) == 4.0
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: g * 10.0)
    assert compiled(x) == 40.0


def test_results_whose_backward_runs_hooks_stay_eager():
    t = Task()
    step = torch.compile(lambda x: t.hidden(x, lambda g: t.log.append(g.shape[0])))
    for k in range(3):
        loss = step(torch.tensor(X))
        assert len(t.log) == k
        loss.backward()
        assert len(t.log) == k + 1
    assert "step/hooked" in step.stats.live
