"""Nests in the body of a loop: in the loop's own function, or where there is much in them in functions of their own."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.codegen.cpu import jit, loop_node
from tracegrad.runtime.launch.kernel_cache import kernels


def waves(n):
    """*n* fields that diffuse and drive each other around a ring; of 4 each has its own constants."""

    def f(fields, rates):
        for _ in range(12):
            fields = [
                u + rates[k % 4] * (np.roll(u, 1, axis=0) + np.roll(u, -1, axis=1) - 2.0 * u) * np.tanh(fields[k - 1])
                for k, u in enumerate(fields)
            ]
        return sum(np.sum(u * u) for u in fields)

    rng = np.random.default_rng(n)
    return f, ([rng.normal(size=(5, 7)) for _ in range(n)], np.array([0.1, 0.2, 0.05, 0.15]))


def compiled(monkeypatch, n):
    """(the result of a call, the LLVM text of its kernel)"""
    texts = []
    emitted = jit._emitted
    monkeypatch.setattr(jit, "_emitted", lambda text, *rest, **more: texts.append(text) or emitted(text, *rest, **more))
    f, arguments = waves(n)
    return compile_grad(f, argnums=(0, 1)).value_and_grad(*arguments), max(texts, key=len)


@pytest.mark.parametrize("n", [2, 6])
def test_the_results_are_the_same_with_functions_for_nests(monkeypatch, n):
    found = []
    for limit in (0, 10**9):
        monkeypatch.setattr(loop_node, "MOST_INLINED", limit)
        kernels.clear()
        found.append(compiled(monkeypatch, n))
    (value, gradients), text = found[0]
    (expected, known), inlined = found[1]
    assert "alwaysinline" in inlined and text.count("alwaysinline") < inlined.count("alwaysinline")
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    for one, other in zip([*gradients[0], gradients[1]], [*known[0], known[1]], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)
