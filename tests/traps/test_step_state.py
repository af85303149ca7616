"""Traps: compiled steps, while modules and optimizers are changed past their attributes: as eager steps, every time."""

from __future__ import annotations

import types

import numpy as np
import pytest
from same_state import difference
from selection import some

import tracegrad as torch
from tracegrad import nn

pytestmark = pytest.mark.usefixtures("fresh_kernels")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
        self.scale = 1.0
        self.table = {"rate": 1.0}
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x):
        return self.body(x) * self.scale * self.table["rate"] + self.shift


def train(change, compiled, make):
    torch.manual_seed(0)
    model = Net()
    opt = make(model.parameters())

    def step(x):
        opt.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        opt.step()
        return loss

    run = torch.compile(step) if compiled else step
    losses = []
    for k in range(12):
        if k in (5, 8):
            change(model, opt, k)
        losses.append(run(torch.ones(4, 3) * (0.1 * k + 0.1)).item())
    values = [p.detach().numpy().copy() for p in model.parameters()]
    return losses, values, run


def adam(params):
    return torch.optim.Adam(params, lr=0.01)


def momentum(params):
    return torch.optim.SGD(params, lr=0.01, momentum=0.9)


def as_eager(change, make=adam):
    losses, values, run = train(change, True, make)
    expected, parameters, _ = train(change, False, make)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    for a, b in zip(values, parameters, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)
    without, _, _ = train(lambda model, opt, k: None, False, make)
    assert expected != without, "the change changes nothing"
    return run


def other_linear():
    torch.manual_seed(7)
    return nn.Linear(3, 2)


def hook(module, args, output):
    return output * 2.0


def doubled(parameter):
    parameter.grad.mul_(2.0)


def write(target, key, value):
    target[key] = value


MODULES = {
    "a module in _modules": lambda m, o, k: write(m.body._modules, "1", nn.ReLU() if k == 5 else nn.Tanh()),
    "a layer in _modules": lambda m, o, k: write(m.body._modules, "2", other_linear()),
    "a module less": lambda m, o, k: m.body._modules.pop("1", None),
    "a module more": lambda m, o, k: write(m.body._modules, f"{k}", nn.Sigmoid()),
    "an attribute in __dict__": lambda m, o, k: write(m.__dict__, "scale", 0.1 * k),
    "a module in __dict__": lambda m, o, k: write(m.__dict__, "body", nn.Linear(3, 2)),
    "a method in __dict__": lambda m, o, k: write(m.body[1].__dict__, "forward", lambda x: x * k),
    "a buffer in __dict__": lambda m, o, k: write(m.__dict__, "shift", torch.ones(2) * k),
    "a new __dict__": lambda m, o, k: setattr(m, "__dict__", {**m.__dict__, "scale": 0.1 * k}),
    "a dict of the module's": lambda m, o, k: write(m.table, "rate", 0.1 * k),
    "a hook in _forward_hooks": lambda m, o, k: write(m.body[1]._forward_hooks, k, (hook, False, False)),
    "a hook": lambda m, o, k: m.body[1].register_forward_hook(hook),
    "a method of the instance": lambda m, o, k: setattr(m.body[1], "forward", lambda x: x * k),
    "another class": lambda m, o, k: setattr(m.body[1], "__class__", nn.Sigmoid if k == 5 else nn.Softsign),
    "requires_grad_": lambda m, o, k: m.body[0].weight.requires_grad_(k != 5),
    "an attribute in __dict__, and back": lambda m, o, k: write(m.__dict__, "scale", 3.0 if k == 5 else 1.0),
}
OPTIMIZERS = {
    "step": lambda m, o, k: setattr(o, "step", lambda: None) if k == 5 else delattr(o, "step"),
    "step in __dict__": lambda m, o, k: write(o.__dict__, "step", lambda: None),
    "zero_grad": lambda m, o, k: setattr(o, "zero_grad", lambda: None),
    "state.clear": lambda m, o, k: o.state.clear(),
    "a new state": lambda m, o, k: setattr(o, "state", type(o.state)(dict)),
    "an entry of the state": lambda m, o, k: o.state.pop(m.body[0].weight),
    "a tensor of the state": lambda m, o, k: write(
        o.state[m.body[0].weight],
        "exp_avg" if "exp_avg" in o.state[m.body[0].weight] else "momentum_buffer",
        torch.ones(3, 3),
    ),
    "a group": lambda m, o, k: write(o.param_groups, 0, {**o.param_groups[0], "lr": 0.1 * k}),
    "the list of groups": lambda m, o, k: setattr(o, "param_groups", [{**g, "lr": 0.3} for g in o.param_groups]),
    "other parameters": lambda m, o, k: write(o.param_groups[0], "params", o.param_groups[0]["params"][: k - 5]),
    "a parameter less": lambda m, o, k: o.param_groups[0]["params"].pop(),
    "lr": lambda m, o, k: write(o.param_groups[0], "lr", 0.1 * k),
    "weight decay": lambda m, o, k: write(o.param_groups[0], "weight_decay", 0.1 * (k - 5)),
    "a hook of step": lambda m, o, k: o.register_step_pre_hook(lambda opt, args, kwargs: doubled(m.body[0].weight)),
    "maximize": lambda m, o, k: write(o.param_groups[0], "maximize", k == 5),
}


@pytest.mark.parametrize("name", some(MODULES, quick=4))
def test_module(name):
    as_eager(MODULES[name])


@pytest.mark.parametrize("make", some([adam, momentum], quick=1))
@pytest.mark.parametrize("name", some(OPTIMIZERS, quick=8))
def test_optimizer(name, make):
    as_eager(OPTIMIZERS[name], make)


def test_a_class_of_the_library_is_patched(monkeypatch):
    def change(model, opt, k):
        monkeypatch.setattr(nn.Tanh, "forward", lambda self, x: x * k)

    def plain(model, opt, k):
        change(model, opt, k)

    original = nn.Tanh.forward
    losses, _, _ = train(plain, True, adam)
    monkeypatch.setattr(nn.Tanh, "forward", original)
    expected, _, _ = train(plain, False, adam)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)


def test_attributes_of_tensors():
    def run(compiled):
        p = torch.ones(3, requires_grad=True)
        step = lambda x: (p * x).sum() * getattr(p, "rate", 1.0)  # noqa: E731
        f = torch.compile(step) if compiled else step
        found = []
        for k in range(9):
            if k in (4, 6):
                p.rate = float(k)
            if k == 8:
                del p.rate
            found.append(f(torch.ones(3)).item())
        return found

    assert run(True) == run(False)


def test_what_is_equal_is_replayed():
    def change(model, opt, k):
        model.__dict__["scale"] = float("1.0")
        model.__dict__["scale"] = float("1.0")

    losses, _, run = train(change, True, adam)
    expected, _, _ = train(change, False, adam)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    assert run.stats.traces <= 2
    assert not run.stats.live


#: What a step stores and returns that shows the same memory.
MEMORY = {
    "a view twice": "y = (x * 2)[:]; return [y, y]",
    "two views": "b = x * 2; return [b[:2], b[1:]]",
    "a base and a view": "b = x * 2; return [b, b[:2]]",
    "two equal views": "b = x * 2; return [b[1:], b[1:]]",
    "a base and a view, stored": "b = x * 2; s.a, s.b = b, b[:2]; return b.sum()",
    "two views, stored": "b = x * 2; s.a, s.b = b[1:], b[:2]; return b.sum()",
    "a view stored, the base returned": "b = x * 2; s.a = b[:2]; return b",
    "a base stored, the view returned": "b = x * 2; s.a = b; return b[:2]",
    "a view stored and returned": "s.a = (x * 2)[:2]; return s.a",
    "a view stored twice": "s.a = (x * 2)[1:]; s.b = [s.a]; return s.a.sum()",
    "a view stored, another returned": "b = x * 2; s.a = b[:2]; return b[1:]",
    "views of views": "y = (x * 2)[1:]; s.a = y[1:]; return y, y[:1]",
    "a view of two that are stored": "b = x * 2; s.a, s.b = b[1:], b; return s.a[0]",
    "transposed": "b = (x * 2).reshape(1, -1); s.a = b.T; return b, s.a, b.T",
    "rows": "b = torch.outer(x, x); s.a = list(b); return b",
    "complex": "b = torch.complex(x, x); s.a = b[1:]; return b",
    "written before it leaves": "b = x * 2; s.a = b[1:]; s.a.add_(1.0); s.b = b; return b.sum()",
    "detached": "b = x * 2; s.a = b.detach(); return b",
    "a view, detached": "b = x * 2; s.a = b[1:].detach(); return b",
    "a view of what is detached": "b = x * 2; s.a = b.detach()[1:]; s.b = b; return b.sum()",
    "detached twice": "b = x * 2; s.a, s.b = b.detach(), b.detach(); return b.sum()",
    "its data": "b = x * 2; s.a = b.data; return b",
    "of what is outside, twice": "s.a = W.detach(); s.b = [s.a]; return x.sum()",
    "of what is outside, stored and returned": "s.a = W.detach(); return s.a, [s.a]",
    "of what is outside, returned twice": "y = W.detach(); return [y, y]",
    "of what is outside, again and again": "s.a = W if s.a is None else s.a.detach(); s.b = s.a; return x.sum()",
    "of this call and of the last": "old, s.a = s.a, x * 2; s.b = s.a[1:]; return [old, s.b]",
}


@pytest.mark.parametrize("name", MEMORY)
def test_tensors_that_leave_a_step_share_memory(name):
    """In replays, too: what others write into one shows in the other."""
    sides = []
    for compiled in (True, False):
        space = {"torch": torch, "s": types.SimpleNamespace(a=None, b=None), "W": torch.ones(3)}
        exec(f"def f(x): {MEMORY[name]}", space)
        sides.append((torch.compile(space["f"]) if compiled else space["f"], space["s"]))

    def tensors(value):
        if isinstance(value, torch.Tensor):
            return [value]
        return [t for part in value for t in tensors(part)] if isinstance(value, list | tuple) else []

    for k in range(5):
        mine, plain = ({"result": f(torch.ones(3) * (k + 1)), "a": s.a, "b": s.b} for f, s in sides)
        assert difference(mine, plain) == ""
        left = [tensors(list(side.values())) for side in (mine, plain)]
        for number, pair in enumerate(zip(*left, strict=True)):
            for t in pair:
                t.mul_(number + 2)
        assert difference(mine, plain) == ""
