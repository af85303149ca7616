"""Padded rows in loops, which run turn by turn: ``np.pad`` asks for its widths."""

import numpy as np
import pytest
from test_rolling import V, X, agree, checked  # noqa: F401

pytestmark = pytest.mark.slow

N = 40


def padded(row, t, size=N):
    return np.pad(row, ((t, size - len(row) - t), (0, 0)))


def test_a_sum_of_padded_rows():
    def fn(v):
        total, h = np.zeros((N, 3)), v
        for t in range(N):
            h = np.tanh(h + X[t])
            total = total + padded(h[None], t)
        return np.sum(total * X) + np.sum(total**2)

    agree(fn, V)


def test_backwards_and_the_pad_first():
    def fn(v):
        total, h = X * 1.0, v
        for t in reversed(range(N)):
            h = np.tanh(h + X[t])
            total = padded(h[None] * v, t) + total
        return np.sum(total**2)

    agree(fn, V)


def test_two_pads_in_a_turn():
    def fn(v):
        total, h = X * v, v
        for t in range(N):
            h = np.tanh(h + X[t])
            total = total + padded(h[None], t)
            total = total + padded(np.sin(h)[None], t)
        return np.sum(total**2)

    agree(fn, V)


def test_rows_that_overlap():
    def fn(v):
        total, h = np.zeros((N, 3)), v
        for t in range(N - 1):
            h = np.tanh(h + X[t])
            total = total + padded(np.stack([h, h * v]), t)
        return np.sum(total**2)

    agree(fn, V)


def test_a_sum_that_is_read_as_a_whole_agrees():
    def fn(v):
        total, h, seen = np.zeros((N, 3)), v, 0.0
        for t in range(N):
            h = np.tanh(h + X[t])
            total = total + padded(h[None], t)
            seen = seen + np.sum(np.tanh(total))
        return seen + np.sum(total**2)

    agree(fn, V)


def test_pads_that_are_not_added():
    def fn(v):
        x, h = X * v, v
        for t in range(N):
            p = padded(h[None], t)
            x = np.tanh(x * (p + 0.5)) + p
            h = np.sin(h + x[t])
        return np.sum(x**2) + np.sum(h)

    agree(fn, V)


def test_a_pad_that_is_kept_beside_its_sum():
    def fn(v):
        total, h, kept = np.zeros((N, 3)), v, []
        for t in range(N):
            h = np.tanh(h + X[t])
            p = padded(h[None], t)
            kept.append(p)
            total = total + p
        return np.sum(total**2) + np.sum(np.stack(kept) ** 3) + np.sum(kept[-1]) + np.sum(kept[7] * X)

    agree(fn, V)


def test_integers():
    def fn(v):
        count, h = np.zeros((N, 3), int), v
        for t in range(N):
            h = np.tanh(h + X[t])
            count = count + padded((h > 0).astype(int)[None] + t, t)
        return np.sum(h) + float(N) * np.sum(v * count[3]) + np.sum(count)

    agree(fn, V)
