"""Indices of the standard that PyTorch's tensors do not take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import array_api as xp

KEYS = [
    np.s_[::-1], np.s_[::-1, ::-2], np.s_[-1:0:-1, 1], np.s_[..., 3:0:-1], np.s_[None, ::-1], np.s_[1:1:-1],
]  # fmt: skip
DATA = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_negative_steps_are_views(key: Any) -> None:
    x, wanted = xp.asarray(DATA.copy()), DATA.copy()
    np.testing.assert_array_equal(x[key].numpy(), wanted[key])
    part = x[key]
    part *= 2.0
    wanted[key] *= 2.0
    np.testing.assert_array_equal(x.numpy(), wanted)
    x[key] = xp.ones(part.shape) * 7.0
    wanted[key] = 7.0
    np.testing.assert_array_equal(x.numpy(), wanted)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_negative_steps_have_gradients(key: Any) -> None:
    weights = xp.asarray(np.cos(np.arange(float(DATA[key].size))).reshape(DATA[key].shape))
    wanted = np.zeros_like(DATA)
    wanted[key] = weights.numpy()

    def gradient(x: Any) -> Any:
        x.grad = None
        y = x * 1.0
        y[key] = y[key] * weights * 3.0
        (xp.sum(x[key] * weights) + xp.sum(y)).backward()
        return x.grad

    replayed = tracegrad.compile(gradient)
    for call in (gradient, *[replayed] * 4):
        x = xp.asarray(DATA.copy()).requires_grad_()
        found = call(x).numpy()
        base = np.ones_like(DATA)
        base[key] = 3.0 * weights.numpy()
        np.testing.assert_allclose(found, wanted + base, 1e-12)


def test_a_tensor_that_lies_backwards_goes_on_elsewhere() -> None:
    x = xp.asarray(DATA.copy())[::-1, ::-1]
    assert np.from_dlpack(x).tolist() == DATA[::-1, ::-1].tolist()
    assert xp.reshape(x, (-1,)).tolist() == DATA[::-1, ::-1].reshape(-1).tolist()
    f = tracegrad.compile_grad(lambda a: np.sum(a * np.arange(12.0).reshape(3, 4)))
    assert [float(f(x)) for _ in range(3)] == [float(np.sum(DATA[::-1, ::-1] * DATA))] * 3
    assert x.clone().tolist() == x.tolist()
    with pytest.raises(ValueError, match="step cannot be zero"):
        x[::0]


def test_masks_may_be_empty_along_an_axis() -> None:
    x = xp.zeros((0, 2))
    assert x[xp.zeros((0, 0), dtype=xp.bool)].shape == (0,)
    assert xp.ones((2, 3))[xp.zeros((0,), dtype=xp.bool)].shape == (0, 3)
    with pytest.raises(IndexError, match="does not match"):
        xp.ones((2, 3))[xp.zeros((1,), dtype=xp.bool)]
