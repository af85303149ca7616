"""Places that loops write are carried, once: also one under two names, as ``v[0]`` and ``v[-1]`` of a list of one."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad

X = np.array([0.7, 0.3, 0.2])


class Cell:
    def __init__(self, h):
        self.h = h


def ends_of_a_list(x):
    v = [x[0]]
    for _ in range(20):
        v[0] = v[-1] * 0.9
        v[-1] = v[0] * 0.5 + x[1]
    return v[0] * x[2]


def swapped_with_itself(x):
    q, v = np.array([0.1, 0.2, 0.3]), [x * 1.0]
    for e in np.linspace(0.1, 1.0, 20):
        q = np.linalg.solve(np.eye(3) + np.diag(q), q)
        v[0], v[-1] = v[-1], v[0]
        q[0] = e
    return np.sum(q * x) + np.sum(v[0] * q)


def attribute_and_item(x):
    cell = Cell(x[0])
    own = vars(cell)
    for _ in range(20):
        own["h"] = cell.h * 0.9 + x[1]
        cell.h = own["h"] * 0.5
    return cell.h * x[2]


class Slots:
    __slots__ = ("count", "h", "unset")

    def __init__(self, h):
        self.h, self.count = h, 0.0


def slots(x):
    cell = Slots(x[0])
    while cell.h > 1e-3:  # more often for the second point
        cell.h = cell.h * 0.8
        cell.count = cell.count + x[1]
    return cell.h * cell.count


@pytest.mark.parametrize("f", [ends_of_a_list, swapped_with_itself, attribute_and_item, slots])
def test_place_is_carried_once(f):
    compiled = compile_grad(f)
    for x in (X, X[::-1] + 2.0):
        value, gradient = compiled.value_and_grad(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        slopes = [(f(x + d) - f(x - d)) / 2e-6 for d in 1e-6 * np.eye(3)]
        assert gradient == pytest.approx(slopes, abs=1e-7)
    assert not compiled.stats.live
    assert compiled.stats.traces == 1
