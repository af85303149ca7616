"""Plain arrays and lists that code in C changes, in iterations of loops and in arms: all of it is done."""

import operator

import numpy as np
import pytest

from tracegrad import compile_grad

X = np.array([1.0, 2.0, 3.0])


def by_out(z):
    np.add(z, 1.0, out=z)


def by_place(z):
    np.multiply(z + 1, 1, z)


def by_copy(z):
    np.copyto(z, z + 1.0)


def by_fill(z):
    z.fill(z[0] + 2.0)


def by_item(z):
    z[0] = z[0] + 1.0


def by_flat(z):
    z.flat[1] += 1.0


def by_view(z):
    z.T[...] = z + 1


def by_put(z):
    np.put(z, [0], z[0] + 1)


def by_add_at(z):
    np.add.at(z, [0, 0], 1.0)


def by_operator(z):
    z += 1


WRITES = [by_out, by_place, by_copy, by_fill, by_item, by_flat, by_view, by_put, by_add_at, by_operator]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("kept", [False, True])
def test_arrays_that_are_changed_in_each_iteration(write, kept):
    def f(x):
        z, total = np.zeros(3), 0.0
        for _ in range(100):
            write(z)
            if kept:
                total = total + (x * z).sum()
        return (x * z).sum() + total

    g = compile_grad(f)
    for _ in range(3):
        np.testing.assert_allclose(g(X), f(X))


@pytest.mark.parametrize("write", WRITES)
def test_arrays_that_are_changed_in_an_arm(write):
    def f(x):
        z, total = np.zeros(3), 0.0
        for k in range(8):
            if x[k % 3] * (-1) ** k > 0:
                write(z)
                total = total + x[0]
            else:
                total = total - x[1]
        return (x * z).sum() + total

    g = compile_grad(f)
    for x in (X, -X, X, X * [1, -1, 1]):
        np.testing.assert_allclose(g(x), f(x))


def appends(items):
    list.append(items, items[-1] + 1.0)


def sets(items):
    operator.setitem(items, 0, items[0] + 1.0)


@pytest.mark.parametrize("change", [appends, sets])
def test_lists_that_code_in_c_changes(change):
    def in_a_loop(x):
        items = [0.0]
        for _ in range(100):
            change(items)
        return x[0] * items[-1] * len(items)

    def in_an_arm(x):
        items = [1.0]
        for k in range(8):
            if x[k % 3] * (-1) ** k > 0:
                change(items)
        return x[0] * items[-1] * len(items)

    for f in (in_a_loop, in_an_arm):
        g = compile_grad(f)
        for x in (X, -X, X, X * [1, -1, 1]):
            np.testing.assert_allclose(g(x), f(x))
