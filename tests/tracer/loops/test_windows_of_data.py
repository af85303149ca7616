"""Slices of constant width that begin where data says, in loops: windows of arrays, read and written."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

PLACES = np.random.default_rng(0).integers(0, 9, 90)
POINTS = [np.array([0.713, 0.417, 0.329, 0.531]), np.array([-0.217, 0.911, 0.633, 0.127])]


def read(x, n):
    h, t = np.concatenate([x, x * 2, x * 3]), 0.0
    for i in range(n):
        k = int(PLACES[i])
        t = t * 0.9 + np.sum(h[k : k + 3] * h[k + 1 : k + 4])
    return t


def written(x, n):
    h = np.zeros(12) + x[0]
    for i in range(n):
        k = int(PLACES[i])
        h[k : k + 3] = h[k : k + 3] * 0.9 + 0.1 * x[1:]
    return np.sum(h * h)


def computed(x, n):
    h = np.zeros(12) + x[0]
    for i in range(n):
        k = int(abs(h[i % 12]) * 7) % 8
        h[k + 1 : k + 4] += 0.05 * x[:3]
    return np.sum(h * h)


def rows(x, n):
    m, t = np.outer(np.arange(12.0), x), x[0]
    for i in range(n):
        k = PLACES[i] + 1
        t = t * 0.9 + 0.01 * np.sum(m[k - 1 : k + 1, 1:3])
    return t


@pytest.mark.parametrize("plain", [read, written, computed, rows], ids=lambda f: f.__name__)
def test_the_loop_is_one_node(plain):
    f = compile_grad(plain)
    for n in (30, 80):
        for x in (*POINTS, *POINTS):
            value, gradient = f.value_and_grad(x, n)
            np.testing.assert_allclose(value, plain(x, n), rtol=1e-9)
            np.testing.assert_allclose(gradient, numerical_gradient(lambda u, n=n: plain(u, n), (x,)), 2e-5, 1e-6)
        assert "rolled: the loop" in f.explain(x, n, level="all").replace("not-rolled", "")
    assert not f.stats.live


def cut_off(x, n):
    h, t = np.concatenate([x, x * 2]), x[0]
    for i in range(n):
        k = int(PLACES[i])
        t = t * 0.9 + np.sum(h[k : k + 3])  # of which there are fewer at the end
    return t


def from_the_end(x, n):
    h, t = np.concatenate([x, x * 2]), x[0]
    for i in range(n):
        k = int(PLACES[i]) - 4
        t = t * 0.9 + np.sum(h[k : k + 2])
    return t


def of_other_widths(x, n):
    h, t = np.concatenate([x, x * 2, x * 3]), x[0]
    for i in range(n):
        k = int(PLACES[i])
        t = t * 0.9 + np.sum(h[k : k + 1 + i % 3]) + np.sum(h[k : 2 * k])
    return t


def under_a_condition(x, n):
    h, t = np.concatenate([x, x * 2]), x[0]
    for i in range(n):
        k = int(PLACES[i])
        t = t * 0.9 + (np.sum(h[k : k + 3]) if k < 5 else h[0])
    return t


@pytest.mark.parametrize("plain", [cut_off, from_the_end, of_other_widths, under_a_condition], ids=lambda f: f.__name__)
def test_others_are_what_they_are_in_plain_python(plain):
    f = compile_grad(plain)
    for n in (30, 80):
        for x in (*POINTS, *POINTS):
            value, gradient = f.value_and_grad(x, n)
            np.testing.assert_allclose(value, plain(x, n), rtol=1e-9)
            np.testing.assert_allclose(gradient, numerical_gradient(lambda u, n=n: plain(u, n), (x,)), 2e-5, 1e-6)
