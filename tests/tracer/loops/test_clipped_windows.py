"""Windows that are cut off at the edges of an array: the iterations away from the edges are one loop node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient
from selection import some

from tracegrad import compile_grad, make_graph

X = np.array([0.5, 0.9, 1.1])


def signal(x, n):
    return np.linspace(0, 1, n) ** 2 * x[0] + np.sin(np.arange(n)) * x[1]


def image(x, n):
    return np.outer(np.linspace(0, 1, n), np.cos(np.arange(n))) * x[0] + x[1]


def cut_at_both_ends(x, n):
    s, out = signal(x, n), np.zeros(n)
    for i in range(n):
        out[i] = np.mean(s[max(i - 3, 0) : i + 4])
    return np.sum(out**2)


def cut_with_min(x, n):
    s, out = signal(x, n), np.zeros(n)
    for i in range(n):
        lo, hi = max(0, i - 2), min(n, i + 3)
        out[i] = s[lo:hi].max() - s[lo:hi].sum() / (hi - lo)
    return np.sum(out**2)


def cut_at_the_end(x, n):
    s, total = signal(x, n), 0.0
    for i in range(n):
        total = total * 0.9 + np.sum(s[i : i + 5] ** 2)
    return total


def backwards(x, n):
    s, total = signal(x, n), 0.0
    for i in range(n - 1, -1, -1):
        total = total * 0.9 + np.sum(s[max(i - 2, 0) : i + 2])
    return total


def every_other(x, n):
    s, total = signal(x, n), 0.0
    for i in range(n):
        total = total * 0.9 + np.sum(s[i : i + 6 : 2])
    return total


def with_a_stride(x, n):
    s, total = signal(x, n), 0.0
    for i in range(0, 2 * n, 2):
        total = total * 0.9 + np.sum(s[i // 2 : i + 4]) + np.sum(s[max(i - n, 0) : i - n + 3])
    return total


def appended(x, n):
    s, out = signal(x, n), []
    for i in range(n):
        out.append(np.mean(s[max(i - 9, 0) : i + 1]))
    return np.sum(np.array(out) ** 2)


def negative_starts(x, n):
    s, total = signal(x, n), 0.0
    for i in range(n):
        total = total * 0.9 + np.sum(s[i - 3 : i + 4])
    return total


def written(x, n):
    s = np.zeros(n + 2)
    for i in range(n):
        s[i : i + 4] = s[i : i + 4] + x[0] * i
    return np.sum(s**2)


def of_an_image(x, n):
    img, out = image(x, n), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = np.mean(img[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2])
    return np.sum(out**2)


def of_an_image_with_min(x, n):
    img, out = image(x, n), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            w = img[max(0, i - 1) : min(n, i + 2), max(0, j - 1) : min(n, j + 2)]
            out[i, j] = img[i, j] * 0.5 + w.sum() / w.size
    return np.sum(out**2)


def of_a_triangle(x, n):
    img, total = image(x, n), 0.0
    for i in range(n):
        for j in range(i):
            total = total * 0.9 + np.sum(img[j, j : j + 4]) + np.max(img[i, max(i - 2, 0) : i + 1])
    return total


LINES = (
    cut_at_both_ends, cut_with_min, cut_at_the_end, backwards, every_other, with_a_stride, appended, negative_starts,
    written,
)  # fmt: skip
IMAGES = of_an_image, of_an_image_with_min, of_a_triangle


def check(f: Any, n: int) -> None:
    compiled = compile_grad(lambda x: f(x, n))
    for x in (X, X * 0.7):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x, n), rtol=1e-11)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x, n)), rtol=1e-5, atol=1e-5)
    assert not compiled.stats.live


@pytest.mark.parametrize("f", some(LINES, quick=6))
def test_windows_of_a_line(f):
    check(f, 40)


@pytest.mark.parametrize("f", [cut_at_both_ends, cut_with_min, cut_at_the_end, backwards, every_other, appended])
def test_the_number_of_positions_does_not_count(f):
    few, many = (len(make_graph(lambda x, n=n: f(x, n))(X).graph.nodes) for n in (40, 400))
    assert few == many < 150


@pytest.mark.parametrize("f", IMAGES)
def test_windows_of_an_image(f):
    check(f, 20)


@pytest.mark.parametrize("f", [of_an_image, of_an_image_with_min])
def test_the_size_of_an_image_does_not_count(f):
    few, many = (len(make_graph(lambda x, n=n: f(x, n))(X).graph.nodes) for n in (20, 80))
    assert few == many < 400


def limits(x, n):
    found = []
    for i in range(n):
        a, b, c, d = max(i - 3, 0), max(0, i - 3), min(i + 3, n), min(True, i)
        found.append(x[0] * a + x[1] * b + x[2] * c + d * x[0])
        if type(a) is not int or type(d) not in (int, bool):
            return 0.0 * x[0]
    return np.sum(np.array(found) ** 2)


def test_limits_of_numbers_of_iterations():
    check(limits, 30)
