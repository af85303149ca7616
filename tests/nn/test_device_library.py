"""The library around tensors on a CUDA device (on the stand-in for CuPy): modules, losses, optimizers, random numbers,
functions of functions.  Each case gives the same on the CPU and on the device, or the same kind of error."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import autograd, nn, optim

T: Any = tracegrad
F: Any = nn.functional
pytestmark = [pytest.mark.usefixtures("cupy"), pytest.mark.filterwarnings("ignore")]

rng = np.random.default_rng(0)
X, IMG, SEQ = rng.normal(size=(4, 6)), rng.normal(size=(2, 3, 8, 8)), rng.normal(size=(2, 3, 8))


def t(array: Any, device: str, requires_grad: bool = False) -> Any:
    return T.tensor(array, device=device, requires_grad=requires_grad)


def clipped(d: str) -> Any:
    net = nn.Linear(6, 2).to(d)
    (net(t(X, d)) * 100).sum().backward()
    return [nn.utils.clip_grad_norm_(net.parameters(), 1.0), net.weight.grad]


def loaded(d: str) -> Any:
    net = nn.Linear(6, 2).to(d)
    net.load_state_dict(nn.Linear(6, 2).state_dict())  # of a module on the host
    return net.weight


def by_lbfgs(d: str) -> Any:
    w = t(np.array([1.0, 2.0]), d, True)
    steps = optim.LBFGS([w], lr=0.5)

    def closure() -> Any:
        steps.zero_grad()
        loss = ((w - 3) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        steps.step(closure)
    return w


def optimised(d: str, make: Any) -> Any:
    w = t(X, d, True)
    steps = make([w])
    for _ in range(3):
        steps.zero_grad()
        ((w - 3) ** 2).sum().backward()
        steps.step()
    return w


class Square(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def by_function(d: str) -> Any:
    x = t(X, d, True)
    Square.apply(x).sum().backward()
    return x.grad


def hooked(d: str) -> Any:
    x = t(X, d, True)
    y = x * 2
    y.register_hook(lambda g: g * 3)
    y.retain_grad()
    y.sum().backward()
    return [x.grad, y.grad]


def written(d: str) -> Any:
    x = t(X, d, True)
    with T.no_grad():
        x -= 0.1
        x.mul_(2)
        x.fill_(3.0)
        x.add_(t(X, d), alpha=2)
    return x


def assigned(d: str) -> Any:
    x = t(X, d)
    x[x > 0] = -1.0
    x[1:3, ::2] = 5.0
    x[[0, 2]] = t(X[[1, 3]], d)
    x[:, [1, 1]] = 7.0
    return x


def written_through_views(d: str) -> Any:
    leaf = t(X, d, True)
    x = leaf * 1
    x[0].mul_(2)
    x.diagonal().add_(1)
    x.t()[1].exp_()
    x.sum().backward()
    return [x, leaf.grad]


def twice(d: str) -> Any:
    x = t(X, d, True)
    y = (x**2).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


def watched(d: str) -> Any:
    with autograd.detect_anomaly():
        x = t(X, d, True)
        (x * 2).sum().backward()
        return x.grad


CASES = {
    "conv2d": lambda d: nn.Conv2d(3, 4, 3, padding=1).to(d)(t(IMG, d, True)),
    "conv1d": lambda d: nn.Conv1d(3, 4, 3).to(d)(t(SEQ, d, True)),
    "maxpool": lambda d: F.max_pool2d(t(IMG, d, True), 2),
    "avgpool": lambda d: F.avg_pool2d(t(IMG, d, True), 2),
    "adaptive": lambda d: F.adaptive_avg_pool2d(t(IMG, d, True), (2, 2)),
    "bn2d": lambda d: nn.BatchNorm2d(3).to(d)(t(IMG, d, True)),
    "ln": lambda d: nn.LayerNorm(6).to(d)(t(X, d, True)),
    "gn": lambda d: nn.GroupNorm(1, 3).to(d)(t(IMG, d, True)),
    "embedding": lambda d: nn.Embedding(5, 3).to(d)(t(np.array([0, 4, 2]), d)),
    "embedding oob": lambda d: nn.Embedding(5, 3).to(d)(t(np.array([0, 5, 2]), d)),
    "dropout": lambda d: F.dropout(t(X, d, True), 0.5),
    "ce": lambda d: F.cross_entropy(t(X, d, True), t(np.array([0, 1, 5, 2]), d)),
    "ce oob": lambda d: F.cross_entropy(t(X, d, True), t(np.array([0, 1, 6, 2]), d)),
    "ce smooth": lambda d: F.cross_entropy(
        t(X, d, True), t(np.array([0, 1, 5, 2]), d), label_smoothing=0.1, weight=t(np.ones(6), d)
    ),
    "nll": lambda d: F.nll_loss(F.log_softmax(t(X, d, True), 1), t(np.array([0, 1, 5, 2]), d)),
    "mse": lambda d: F.mse_loss(t(X, d, True), t(X * 2, d)),
    "bce": lambda d: F.binary_cross_entropy_with_logits(t(X, d, True), t((X > 0) * 1.0, d)),
    "huber": lambda d: F.smooth_l1_loss(t(X, d, True), t(X * 2, d)),
    "kl": lambda d: F.kl_div(F.log_softmax(t(X, d, True), 1), F.softmax(t(X, d), 1), reduction="batchmean"),
    "one_hot": lambda d: F.one_hot(t(np.array([0, 2, 1]), d), 4),
    "one_hot n": lambda d: F.one_hot(t(np.array([0, 2, 1]), d)),
    "clip": clipped,
    "vec": lambda d: nn.utils.parameters_to_vector(nn.Linear(6, 2).to(d).parameters()),
    "gradcheck": lambda d: autograd.gradcheck(lambda x: (x.sin() * x).sum(), (t(X, d, True),)),
    "gradgradcheck": lambda d: autograd.gradgradcheck(lambda x: (x.sin() * x).sum(), (t(X[0], d, True),)),
    "jacobian": lambda d: autograd.functional.jacobian(lambda x: x**2, t(X[0], d)),
    "hessian": lambda d: autograd.functional.hessian(lambda x: (x**3).sum(), t(X[0], d)),
    "deepcopy": lambda d: copy.deepcopy(nn.Linear(6, 2).to(d))(t(X, d)),
    "detach": lambda d: t(X, d, True).detach(),
    "state dict of the host": loaded,
    "np.sin": lambda d: np.sin(t(X, d, True)),
    "np.add": lambda d: np.add(t(X, d, True), 2.0),
    "np.concatenate": lambda d: np.concatenate([t(X, d, True), t(X, d)]),
    "normal_": lambda d: T.zeros(3, device=d).normal_(),
    "uniform_": lambda d: T.zeros(3, device=d).uniform_(),
    "init": lambda d: nn.init.xavier_uniform_(T.zeros(3, 4, device=d)),
    "linear device": lambda d: nn.Linear(3, 2, device=d).weight,
    "lbfgs": by_lbfgs,
    "rmsprop": lambda d: optimised(d, lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True)),
    "amsgrad": lambda d: optimised(d, lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.1)),
    "nesterov": lambda d: optimised(d, lambda p: optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True)),
    "dampening": lambda d: optimised(d, lambda p: optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.1)),
    "function": by_function,
    "hook": hooked,
    "no grad": written,
    "multinomial": lambda d: T.multinomial(t(np.abs(X), d), 2),
    "bernoulli": lambda d: T.bernoulli(T.full((3,), 0.5, device=d)),
    "normal tensor": lambda d: T.normal(t(X, d), 1.0),
    "randint": lambda d: T.randint(0, 5, (3,), device=d),
    "iter": lambda d: list(t(X, d))[1],
    "contains": lambda d: 0.5 in t([0.5, 1.0], d),
    "item": lambda d: t(3.5, d).item(),
    "format": lambda d: f"{t(3.5, d):.2f}",
    "repr": lambda d: repr(t(X, d)),
    "pow int": lambda d: t([1, 2, 3], d) ** 2,
    "floordiv": lambda d: t([1.0, -2.0, 3.0], d) // 2,
    "matmul batch": lambda d: t(IMG, d, True) @ t(IMG, d),
    "stack host scalar": lambda d: T.stack([t(1.0, d), t(2.0, d)]),
    "setitem mask": assigned,
    "inplace view": written_through_views,
    "retain": twice,
    "compile_grad grad": lambda d: autograd.grad(lambda x: (x**2).sum())(t(X, d)),
    "anomaly": watched,
}


def flat(value: Any) -> list[Any]:
    return [v for part in value for v in flat(part)] if isinstance(value, tuple | list) else [value]


@pytest.mark.parametrize("name", CASES)
def test_the_device_gives_what_the_cpu_gives(name):
    outcomes: list[Any] = []
    for device in ("cpu", "cuda"):
        T.manual_seed(0)
        try:
            outcomes.append(flat(CASES[name](device)))
        except Exception as error:
            outcomes.append(error)
    expected, found = outcomes
    if isinstance(expected, Exception) or isinstance(found, Exception):
        assert type(expected) is type(found), (expected, found)
        return
    for a, b in zip(expected, found, strict=True):
        if not isinstance(a, T.Tensor):
            assert a == b
            continue
        assert b.is_cuda and (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        np.testing.assert_allclose(b.detach().cpu().numpy(), a.detach().numpy(), rtol=1e-7)
