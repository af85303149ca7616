"""Steps as converted code under a log: recorded once, replayed from the second call on, and right whatever changes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import nn, optim

RNG = np.random.default_rng(0)
BATCHES = [(torch.tensor(RNG.normal(size=(8, 4))), torch.tensor(RNG.normal(size=(8, 1)))) for _ in range(3)]
mse = nn.functional.mse_loss
CLOSED, OPEN = {}, {}


def closed(make):
    """A step whose log is closed."""
    CLOSED[make.__name__] = make
    return make


def runs_eagerly(make):
    OPEN[make.__name__] = make
    return make


def update(t, x, y):
    t.opt.zero_grad()
    loss = mse(t.model(x), y)
    loss.backward()
    t.opt.step()
    return loss


class Task:
    """What a step works on."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
        self.opt = optim.Adam(self.model.parameters(), lr=0.05)
        self.log = []


def flat(value):
    if isinstance(value, nn.Parameter):
        return [value.requires_grad, value.is_leaf, *flat(value.data), value._version, *flat(value.grad)]
    if isinstance(value, torch.Tensor):
        return [value.detach().numpy().copy(), str(value.dtype)]
    if isinstance(value, nn.Module):
        own = {name: part for name, part in vars(value).items() if not name.startswith("_")}
        return flat([own, value._buffers, *value.children()])
    if isinstance(value, optim.Optimizer):
        return flat([value.state_dict(), value._opt_called])
    if isinstance(value, Task):
        return flat(vars(value))
    if isinstance(value, dict):
        return [part for key, item in value.items() for part in [str(type(key)), *flat(item)]]
    if isinstance(value, list | tuple):
        return [type(value).__name__, len(value), *[part for item in value for part in flat(item)]]
    return [value] if isinstance(value, int | float | str | type(None)) else []


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, np.ndarray | float):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
        else:
            assert a == b


def as_eager(make, calls=10):
    """The compiled step of *make*, which has been compared with the plain one; each gives (step, what happens to the
    task before call k)."""
    tasks, steps, changes = [], [], []
    for _ in range(2):
        t = Task()
        found = make(t)
        step, change = found if isinstance(found, tuple) else (found, lambda k: None)
        tasks.append(t), steps.append(step), changes.append(change)
    steps[1] = torch.compile(steps[1])
    for k in range(calls):
        outcomes = []
        for t, step, change in zip(tasks, steps, changes, strict=True):
            change(k)
            torch.manual_seed(k)
            try:
                outcomes.append(flat(step(*BATCHES[k % 3])))
            except ValueError as error:
                outcomes.append([str(error).partition("\n")[0]])
            outcomes[-1] += [torch.rand(1).item(), torch.is_grad_enabled(), *flat(t)]
        same(outcomes[1], outcomes[0])
    return steps[1]


@closed
def a_training_step(t):
    return lambda x, y: update(t, x, y)


@closed
def what_a_module_is_given_is_what_it_reads(t):
    class Scaled(nn.Module):
        def forward(self, x):
            return x * self.scale

    t.scaled = Scaled()
    t.scaled.scale = 1.0

    def step(x, y):
        t.scaled.scale = t.model[0].weight.sum().detach()
        return t.scaled(x).sum() + update(t, x, y)

    return step


@closed
def flags_of_modules(t):
    t.model.append(nn.Dropout(0.5))
    t.model.append(nn.BatchNorm1d(1))
    return lambda x, y: update(t, x, y), lambda k: t.model.train(k % 4 < 2)


@closed
def rates_from_outside(t):
    def change(k):
        t.opt.param_groups[0]["lr"] = 0.01 * (1 + k % 3)

    return lambda x, y: update(t, x, y), change


@closed
def rates_that_the_step_sets(t):
    def step(x, y):
        for group in t.opt.param_groups:
            group["lr"] *= 0.9
            t.log.append(group["lr"])
        return update(t, x, y)

    return step


@closed
def a_rate_in_a_tensor(t):
    t.opt = optim.SGD(t.model.parameters(), lr=torch.tensor(0.1))

    def change(k):
        t.opt.param_groups[0]["lr"].fill_(0.1 / (1 + k))

    return lambda x, y: update(t, x, y), change


@closed
def state_that_is_handed_on(t):
    t.h = torch.zeros(8, 6)

    def step(x, y):
        h = torch.tanh(t.model[0](x) + 0.5 * t.h)
        t.h = h.detach()
        return mse(t.model[2](h), y)

    def change(k):
        if k == 6:
            t.h = torch.ones(8, 6)

    return step, change


@closed
def tensors_that_change_places(t):
    t.a, t.b = torch.ones(3), torch.zeros(3)

    def step(x, y):
        t.a.add_(x.sum())
        t.a, t.b = t.b, t.a
        return t.a * 1.0

    return step


@closed
def averages_by_parameter(t):
    t.averages = {p: p.detach().clone() for p in t.model.parameters()}

    def step(x, y):
        loss = update(t, x, y)
        with torch.no_grad():
            for p in t.model.parameters():
                t.averages[p] = 0.9 * t.averages[p] + 0.1 * p
        return loss

    return step


@closed
def gradients_that_are_accumulated(t):
    t.count = 0

    def step(x, y):
        loss = mse(t.model(x), y) / 2
        loss.backward()
        t.count += 1
        if t.count % 2 == 0:
            t.opt.step()
            t.opt.zero_grad()
        return loss

    return step


@closed
def clipped_and_scheduled(t):
    t.scheduler = optim.lr_scheduler.StepLR(t.opt, 3, gamma=0.5)

    def step(x, y):
        t.opt.zero_grad()
        loss = mse(t.model(x), y)
        loss.backward()
        total = nn.utils.clip_grad_norm_(t.model.parameters(), 0.1)
        t.opt.step()
        t.scheduler.step()
        t.log.append((loss.item(), t.scheduler.get_last_lr()[0]))
        return loss, total

    return step


@closed
def statistics_and_draws(t):
    t.model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 1))
    t.opt = optim.SGD(t.model.parameters(), lr=0.1, momentum=0.9)
    return lambda x, y: update(t, x, y)


@closed
def modes_of_gradients(t):
    def step(x, y):
        loss = update(t, x, y)
        with torch.no_grad():
            plain = t.model(x)
            with torch.enable_grad():
                inner = t.model(x)
        with torch.set_grad_enabled(False):
            third = t.model(x)
        return loss, plain.requires_grad, inner.requires_grad, third.requires_grad, plain + third

    return step


@closed
def views_that_leave_together(t):
    def step(x, y):
        z = t.model[0](x).detach()
        t.kept = z[1:]
        return z, z[:, :2], t.kept

    return step


@closed
def a_closure_of_the_step(t):
    t.opt = optim.SGD(t.model.parameters(), lr=0.05)

    def step(x, y):
        def evaluate():
            t.opt.zero_grad()
            loss = mse(t.model(x), y)
            loss.backward()
            return loss

        return t.opt.step(evaluate)

    return step


@closed
def a_buffer_that_is_replaced(t):
    t.model.register_buffer("seen", torch.zeros(1))

    def step(x, y):
        t.model.seen = t.model.seen + x.sum()
        return update(t, x, y), t.model._buffers["seen"]

    return step


@closed
def a_step_of_the_users_optimizer(t):
    class Signs(optim.Optimizer):
        def __init__(self, parameters, lr):
            super().__init__(parameters, {"lr": lr})

        def step(self, closure=None):
            with torch.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is not None:
                            p.sub_(group["lr"] * torch.sign(p.grad))
                            self.state[p].setdefault("steps", 0)
                            self.state[p]["steps"] += 1

    t.opt = Signs(t.model.parameters(), 0.01)
    return lambda x, y: update(t, x, y)


@closed
def state_that_is_loaded(t):
    saved = []

    def change(k):
        if k == 2:
            saved.append([t.opt.state_dict(), {n: p.detach().clone() for n, p in t.model.state_dict().items()}])
        if k == 6:
            t.model.load_state_dict(saved[0][1])
            t.opt.load_state_dict(saved[0][0])

    return lambda x, y: update(t, x, y), change


@closed
def parameters_with_other_memory(t):
    def change(k):
        if k in (3, 6):
            t.model[0].weight.data = torch.full((6, 4), 0.1 * k)

    return lambda x, y: update(t, x, y), change


@closed
def parameters_that_are_frozen(t):
    def change(k):
        t.model[0].weight.requires_grad_(k % 4 < 2)

    return lambda x, y: update(t, x, y), change


@closed
def what_tensors_are_given(t):
    t.model[0].weight.gain = 2.0

    def change(k):
        t.model[0].weight.gain = 2.0 + k // 4

    def step(x, y):
        w = t.model[0].weight
        return update(t, x, y) * w.gain * getattr(w, "other", 1.0)

    return step, change


@closed
def hooks_of_tensors(t):
    t.model[0].bias.register_hook(lambda g: t.log.append(g.shape[0]))
    return lambda x, y: update(t, x, y)


@closed
def hooks_of_modules(t):
    t.model[0].register_full_backward_hook(lambda m, given, out: t.log.append(len(given)))
    return lambda x, y: update(t, x, y)


@runs_eagerly
def all_kinds_of_effects_before_what_is_not_seen(t):
    t.buffer, t.count, t.kept = torch.ones(3), 0, defaultdict(list)

    def step(x, y):
        loss = update(t, x, y)
        t.buffer.mul_(torch.rand(3))
        t.count += 1
        t.kept["a"].append(loss.item())
        t.model.last = t.count
        t.model[0].weight.grad = None
        with torch.no_grad():
            t.same = id(x) == id(x)
        return loss

    return step


@runs_eagerly
def other_memory_within(t):
    def step(x, y):
        t.model[0].weight.data = t.model[0].weight.data * 0.9
        return update(t, x, y)

    return step


@closed
def errors(t):
    t.count = 0

    def step(x, y):
        t.count += 1
        loss = update(t, x, y)
        if t.count % 3 == 0:
            raise ValueError("every third")
        return loss

    return step


@runs_eagerly
def a_flag_that_the_step_sets(t):
    def step(x, y):
        t.model[0].weight.requires_grad_(False)
        loss = update(t, x, y)
        t.model[0].weight.requires_grad_(True)
        return loss

    return step


@closed
def an_argument_that_is_outside_too(t):
    t.x = BATCHES[0][0]
    return lambda x, y: update(t, x, y) + t.x.sum()


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_step_is_the_eager_one(name):
    step = as_eager(CLOSED[name])
    assert not step._dispatcher.logged.refused and step.stats.live == ""
    assert step.stats.traces <= 5, step.stats


@pytest.mark.parametrize("name", OPEN)
def test_a_step_that_is_dropped_has_done_nothing(name):
    step = as_eager(OPEN[name])
    assert step._dispatcher.logged.refused and step.stats.live
    assert f"runs Python each time, without a kernel: {step.stats.live}" in step.explain(level="all")
