"""Loops over symbols in steps of tensors on a device: what the eager step on the host gives, in one recording."""

from __future__ import annotations

import numpy as np
import pytest
from device_steps import host

import tracegrad as torch

N = 20


@pytest.fixture(autouse=True)
def either(way):
    """Both ways of running device code."""


def array(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape) * 0.4


def recurrent(place):
    w = torch.tensor(array(1, 5, 5), device=place, requires_grad=True)
    mean = torch.tensor(array(2, 4, 5), device=place)

    def step(x):
        w.grad, h, ys, loss = None, torch.zeros(4, 5, dtype=x.dtype, device=place), [], 0.0
        for t, row in enumerate(x):
            h = torch.tanh(h @ w + row * (1.0 + t))
            with torch.no_grad():
                mean.mul_(0.9).add_(h * 0.1)
            ys.append(h)
            loss = loss + (h * h).mean()
        (loss + torch.stack(ys).sum() * 0.1).backward()
        return h.detach(), loss.detach()

    return step, torch.tensor(array(0, N, 4, 5), device=place), [w, mean]


def descent(place):
    w = torch.tensor(array(1, 5, 5), device=place, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x):
        for row in x:
            optimizer.zero_grad()
            loss = (torch.tanh(row @ w) ** 2).mean()
            loss.backward()
            optimizer.step()
        return loss.detach(), w.detach() * 1.0

    return step, torch.tensor(array(0, N, 4, 5), device=place), [w]


def plain(t):
    return host(t) if t.is_cuda else t.detach().numpy().copy()


@pytest.mark.parametrize("case", [recurrent, descent])
def test_a_loop_on_a_device_is_the_eager_one_on_the_host(case):
    (eager, x, known), (step, there, ours) = case("cpu"), case("cuda")
    compiled = torch.compile(step)
    for _ in range(4):
        found, expected = compiled(there), eager(x)
        for one, other in zip([*found, *ours], [*expected, *known], strict=True):
            np.testing.assert_allclose(plain(one), plain(other), rtol=1e-9, atol=1e-12)
            assert (one.grad is None) == (other.grad is None)
            if one.grad is not None:
                np.testing.assert_allclose(plain(one.grad), plain(other.grad), rtol=1e-9, atol=1e-12)
    assert compiled.stats.live == "" and "log is not closed" not in compiled.explain(level="all")
    nodes = compiled._endpoint.paths[0].recording.graph.nodes
    assert any(node.prim.kind == "loop" for node in nodes), compiled.explain(level="all")
