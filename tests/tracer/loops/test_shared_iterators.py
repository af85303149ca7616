"""Loops over iterators from which the code takes items elsewhere, too."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from selection import some
from with_source import code_of

import tracegrad as torch
from tracegrad import compile_grad

A = np.linspace(-1.0, 1.0, 60)
BODIES = [
    "it = iter(A)\nfor a in it: s = s * 0.9 + a * next(it)",
    "for a, b in zip(*[iter(A)] * 2): s = s * 0.9 + a * b",
    "it = iter(range(60))\nfor k in it:\n    s = s * 0.9 + k * 0.01\n    if k % 3 == 0: next(it)",
    "it = iter(A)\nfor a in it:\n    for b in it:\n        s = s * 0.95 + a * b\n        break",
    "it = iter(A)\nfor a, (k, b) in zip(it, enumerate(it)): s = s * 0.9 + a * b + k",
    "it = iter(A)\nfor k, a in enumerate(it): s = s * 0.9 + a + sum(itertools.islice(it, 2)) * k",
    "it = zip(A, range(60))\nfor a, k in it:\n    b, j = next(it)\n    s = s * 0.9 + a * b + j * 0.01",
    "it, other = iter(A), iter(range(60))\nfor a, k in zip(it, other): s = s * 0.9 + a * k; next(other, 0)",
    "it = iter(list(A))\nfor a in it:\n    b, c = next(it, 0.0), next(it, 0.0)\n    s = s * 0.9 + a * b * c",
    "it = iter(x * A)\nfor a in it: s = s * 0.9 + a * next(it)",
    "it = iter([x * k for k in range(40)])\nfor a in it: s = s * 0.9 + a * 0.1 * next(it)",
    "it = reversed(list(A))\nfor a in it: s = s * 0.9 + a * next(it)",
    "it = iter(A)\ndef take(): return next(it)\nfor a in it: s = s * 0.9 + a * take()",
    "rows = iter(A.reshape(20, 3))\nfor row in rows: s = s * 0.9 + row @ next(rows)",
    "it = iter(A)\nfor a in it:\n    s = s * 0.9 + a\n    if s > 0.2: break\nfor a in it: s -= a * next(it, 0.5)",
    "it = iter(A)\nfor k in range(20): s = s * 0.9 + next(it) * k\ns = s + sum(it)",
    "it = iter(A)\nfor k in range(20):\n    for a in it:\n        s = s * 0.9 + a\n        if a > -0.5: break",
]


@pytest.mark.parametrize("before", ["", "time.time()\n"], ids=["logged", "live"])
@pytest.mark.parametrize("body", some(BODIES, quick=9))
def test_items_taken_elsewhere_are_not_those_of_the_loop(body, before):
    lines = "\n    ".join(["s = x", *(before + body).split("\n"), "return s"])
    space = {"np": np, "A": A, "itertools": itertools, "time": time}
    exec(code_of(f"def f(x):\n    {lines}\n", "iterators"), space)
    plain, ours = space["f"], compile_grad(space["f"])
    for x in (0.5, 0.5, -0.3):
        value, gradient = ours.value_and_grad(x)
        assert value == pytest.approx(plain(x), rel=1e-12)
        assert gradient == pytest.approx((plain(x + 1e-6) - plain(x - 1e-6)) / 2e-6, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("rows", [iter, lambda x: iter(x.unbind()), lambda x: zip(*[iter(x)] * 2, strict=False)])
def test_rows_of_tensors(rows):
    def found(wrap):
        w = torch.tensor(np.full((3, 3), 0.3), requires_grad=True)

        def step(x):
            w.grad, h, it = None, x[0], rows(x)
            for a in it:
                a, b = a if isinstance(a, tuple) else (a, next(it))
                h = torch.tanh(h @ w + a * b)
            h.sum().backward()
            return h.detach()

        run = wrap(step)
        for _ in range(2):
            h = run(torch.tensor(A.reshape(20, 3)))
        return h, w.grad

    for one, other in zip(found(torch.compile), found(lambda step: step), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
