"""Draws of the default stream in loops over symbols: each iteration has its own numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad, random

X = np.ones(2)


def each(x):
    s = 0.0
    for _ in range(30):
        s = s + x[0] * random.normal(shape=())
    return s


def nested(x):
    s = 0.0
    for _ in range(6):
        s = s + random.uniform(shape=())
        for _ in range(20):
            s = s * 0.9 + x[0] * random.normal(shape=()) + random.uniform(shape=(2,)).sum()
    return s + random.normal(shape=())


def while_small(x):
    s = x[0]
    while s < 10:
        s = s + random.uniform(shape=())
    return s


def left(x):
    s = x[0] * 1.0
    for _ in range(200):
        s = s + random.uniform(shape=())
        if s > 20:
            break
    return s * random.uniform(shape=())


def sometimes(x):
    s = 0.0
    for t in range(40):
        if t % 2 == 0:
            s = s + x[0] * random.normal(shape=())
    return s


def in_a_function(x):
    def helper():
        return random.normal(shape=(2,)) @ x

    return sum([helper() for _ in range(30)])


@pytest.mark.parametrize("plain", [each, nested, while_small, left, sometimes, in_a_function])
def test_each_iteration_has_its_own_numbers(plain):
    found = []
    for call in (plain, compile_grad(plain)):
        random.seed(0)
        found.append([float(call(X)) for _ in range(4)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10)
