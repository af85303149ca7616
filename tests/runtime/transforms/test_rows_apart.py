"""Python loops that end after other numbers of turns in other rows, in one batch or in batches of batches.

Where a loop can become a node, all rows take it together; else small batches are run row by row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tracegrad import ShapeError, UnsupportedError, autograd, compile_grad, vmap

A, B, C = np.array([0.3, 1.0]), np.array([0.1, 1.0, 3.0]), np.array([0.5, 2.0])


def until(a, b):
    v = a * 1.0
    while v < b:
        v = v * 1.5 + 0.1
    return v * a


def searched(a, b):
    v = a
    for k in range(5):
        if v > b:
            break
        v = v + 0.4 * a * k
    return v


def helper(a, b):
    def grown(v):
        while v < b:
            v = v * 2.0 + 0.1
        return v

    return grown(a) + grown(a * a)


def counted(a, b):
    n = 0
    while a < b:
        a, n = a * 1.5 + 0.2, n + 1
    return a * n


def forever(a, b):
    while True:
        if np.abs(a) > b:
            return a
        a = a * 2.0 + 0.1


def nested(a, b):
    v, n = a, 0.0
    while v < b:
        w = v
        while w < 1.0:
            w = w + 0.3
        v, n = v + w, n + a
    return v + n


FUNCTIONS = [until, searched, helper, counted, forever, nested]
names = pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)


def pairs(f, A=A, B=B):
    return [[f(a, b) for b in B] for a in A]


def both(f):
    return vmap(vmap(f, in_axes=(None, 0)), in_axes=(0, None))


@names
def test_one_batch(f):
    g = vmap(f)
    for order in itertools.permutations(range(3)):
        a, b = np.array([0.3, 1.0, 0.2])[[*order]], B[[*order]]
        np.testing.assert_allclose(g(a, b), [f(x, y) for x, y in zip(a, b, strict=True)], rtol=1e-14)


@names
def test_two_batches(f):
    g = both(f)
    for _ in range(3):
        np.testing.assert_allclose(g(A, B), pairs(f), rtol=1e-14)
    for a, b in ((A[::-1], B), (A, B[::-1]), (A + 1, B), (A, B + 2), (A[:1], B), (A, B[:1])):
        np.testing.assert_allclose(g(a, b), pairs(f, a, b), rtol=1e-14)


@names
def test_three_batches(f):
    g = vmap(lambda c: both(lambda a, b: f(a * c, b))(A, B))
    for _ in range(2):
        np.testing.assert_allclose(g(C), [pairs(lambda a, b, c=c: f(a * c, b)) for c in C], rtol=1e-14)


@names
def test_derivatives(f):
    h, a0, b0 = 1e-6, A + 0.003, B + 0.01
    slopes = [[(f(a + h, b) - f(a - h, b)) / (2 * h) for b in b0] for a in a0]
    np.testing.assert_allclose(both(autograd.grad(f))(a0, b0), slopes, rtol=1e-5)
    total = autograd.grad(lambda a: np.sum(both(f)(a, b0)))(a0)
    np.testing.assert_allclose(total, np.sum(slopes, 1), rtol=1e-5)
    loss = compile_grad(lambda a, b: np.sum(both(f)(a, b) ** 2))
    for b in (B, B + 1, B[::-1]):
        assert loss(A, b) == pytest.approx(np.sum(np.square(pairs(f, A, b))))


def test_trees_axes_and_settings():
    def f(p, scale):
        v = p["x"]
        while v < 1.0:
            v = v + p["y"]
        return {"v": v * scale, "n": np.stack([v, p["y"]])}, scale

    p = {"x": np.array([0.5, 2.0, 0.9]), "y": np.array([0.25, 8.0, 9.0])}
    out, scale = vmap(f, in_axes=(0, None), out_axes=({"v": 0, "n": 1}, None))(p, 10.0)
    np.testing.assert_allclose(out["v"], [10.0, 20.0, 99.0], rtol=1e-12)
    np.testing.assert_allclose(out["n"], np.stack([[1.0, 2.0, 9.9], p["y"]]))
    assert scale == 10.0

    def of_columns(row):
        while row.sum() < 2.0:
            row = row + 1.0
        return row

    found = vmap(of_columns, in_axes=1, out_axes=1)(np.array([[0.0, 2.0], [0.5, 0.5]]))
    assert found.tolist() == [[1.0, 2.0], [1.5, 0.5]]


def test_effects_happen_once_for_each_row():
    seen = []

    def f(a):
        seen.append(1)
        while a < 0.5:
            a = a + 0.15
        return a

    np.testing.assert_allclose(vmap(f)(A), [0.6, 1.0])
    assert len(seen) == 2


def test_what_is_still_an_error():
    def grown(a):
        while a < 1.0:
            a = a + 0.7
        return a

    many = np.linspace(0.0, 2.0, 100)[::-1]
    with pytest.raises(UnsupportedError, match="differs between the rows"):
        vmap(grown)(many)
    with pytest.raises(UnsupportedError, match="differs between the rows"):
        vmap(lambda a: a if a > 0.5 else -a)(A)
    with pytest.raises(UnsupportedError, match="differs between the rows"):
        vmap(lambda a: a * int(a))(A)

    def of_other_shape(a):
        while a.ndim == 0 and a < 0.5:
            a = np.stack([a, a])
        return a

    with pytest.raises(
        (ShapeError, UnsupportedError), match=r"another shape or dtype|differs between the rows|another one in each row"
    ):
        vmap(of_other_shape)(A)
