"""What tests of steps on the device have in common."""

from __future__ import annotations

import numpy as np

import tracegrad as torch
from tracegrad import nn

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 4))
Y = RNG.normal(size=(6, 1))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).cuda()


def host(t):
    assert t.is_cuda
    return t.detach()._data.get().copy()


def on_device(*arrays):
    return [torch.tensor(a, device="cuda") for a in arrays]


def plain_step(model, optimizer):
    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step
