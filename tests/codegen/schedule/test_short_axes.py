"""Loops over short inner axes, whose sizes are part of the kernel, with loads that have conditions.

LLVM 22 vectorises ``pad(W) + pad(W)`` over such an axis into loads from wrong addresses; the emitter asks it not to.
"""

import numpy as np
import pytest

from tracegrad import compile_grad

SIZES = [2, 3, 4, 5, 8, 9, 12, 16, 17]


@pytest.mark.parametrize("shift", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_two_shifts_of_one_array(rows, shift):
    for columns in SIZES:
        if shift >= columns:
            continue
        W = 1.0 + np.arange(rows * (columns - shift) * 1.0).reshape(rows, columns - shift)
        x = np.random.default_rng(0).normal(size=(rows, columns))

        @compile_grad
        def f(x, W=W):
            return np.sum((x[:, shift:] - x[:, :-shift]) * W)

        expected = np.zeros_like(x)
        expected[:, shift:] += W
        expected[:, :-shift] -= W
        for _ in range(3):
            np.testing.assert_array_equal(f.grad(x), expected)


def test_differences_along_several_short_axes():
    x = np.random.default_rng(1).normal(size=(3, 5, 4))
    weights = [np.random.default_rng(k).normal(size=np.diff(x, axis=k).shape) for k in range(3)]

    @compile_grad
    def f(x):
        return sum(np.sum(np.diff(x, axis=k) * weights[k]) for k in range(3))

    expected = np.zeros_like(x)
    for k, w in enumerate(weights):
        after, before = ([slice(None)] * 3 for _ in range(2))
        after[k], before[k] = slice(1, None), slice(None, -1)
        expected[tuple(after)] += w
        expected[tuple(before)] -= w
    f.grad(x)
    np.testing.assert_allclose(f.grad(x), expected, rtol=1e-12)
