"""Tensors that show a part of another one's memory: in loops of steps, and after them, as in eager steps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from with_source import code_of

import tracegrad as torch

LOOPS = [  # what an iteration does, and what follows the loop
    ("V[j:j+1].mul_(2.0)", ""), ("V[j:j+1][0].mul_(2.0)", ""), ("V[j:j+1, 1].mul_(2.0)", ""),
    ("V[j:j+1].copy_(A * t)", ""), ("V[j:j+2].add_(t)", ""), ("V[j:j+2] += t", ""), ("V[j:j+2] = t", ""),
    ("s = V[j:j+2]; s.add_(t)", ""), ("s = V[j:j+2]; V.add_(t); t = t + s.sum() * 0.001", ""),
    ("V[j, 1:].add_(t)", ""), ("V[:, j % 3].add_(t)", ""), ("s = V[j:j+2]", "s.add_(1.0)"),
    ("s = V[j:j+2]", "box.w = s"), ("box.w = V[j:j+2]", ""), ("box.w = V[j]", ""), ("box.w = A[1:]", ""),
    ("box.w = U", ""), ("box.l = [A[:1]]", ""), ("box.d[0] = A[1:]", ""), ("box.l.append(V[j:j+2])", ""),
    ("row = V[j]", "box.w = row"), ("q = A * t; w = q[1:]", "q.add_(1.0); t = t + w.sum()"),
    ("q = A * t; w = q[1:]", "w.add_(1.0); t = t + q.sum()"), ("q = A * t; box.own = q; box.w = q[1:]", ""),
    ("box.own = box.w = A * t", ""), ("q = A * t; a, b = q[:1], q[1:]; t = t + a.sum() * b.sum()", ""),
]  # fmt: skip


def world(body, after, compiled):
    text = f"""
def f(x):
    t = x[0]
    for j in range(20):
        t = t * 0.9
        {body}
    {after or "pass"}
    return t
"""
    space = {"V": torch.ones(22, 3), "A": torch.ones(3), "box": SimpleNamespace(own=torch.zeros(3), w=None, l=[], d={})}
    space["U"] = space["V"][1]
    exec(code_of(text, f"step {body} {after}"), space)
    return (torch.compile(space["f"]) if compiled else space["f"]), space


def left(space):
    """The values of all tensors, before and after others write into the whole ones."""
    box, found = space["box"], []
    tensors = [t for t in (space["V"], space["A"], box.own, box.w, *box.l[-2:], *box.d.values()) if t is not None]
    for t in (*tensors, None):
        found.append([x.tolist() for x in tensors])
        if t is not None:
            t.mul_(1.25).add_(0.5)
    return found


@pytest.mark.parametrize("body, after", LOOPS)
def test_memory_is_shared_as_in_an_eager_step(body, after):
    (eager, there), (step, here) = world(body, after, False), world(body, after, True)
    for k in range(3):
        x = torch.tensor([0.5 + k, 1.0, 2.0])
        np.testing.assert_allclose(step(x).numpy(), eager(x).numpy(), rtol=1e-5)
        for mine, wanted in zip(left(here), left(there), strict=True):
            for a, b in zip(mine, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5)
