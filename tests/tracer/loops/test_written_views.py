"""A view that the last iteration has written, and nothing has read since, is read after the loop."""

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

X = np.array([0.4, -0.7, 1.1])


def scaled(x, w, m, j):
    w[-1] *= 0.5


def constant(x, w, m, j):
    w[-1] = 0.5


def whole(x, w, m, j):
    w *= 0.5


def sliced(x, w, m, j):
    w[1:] += x[1:]


def of_the_whole(x, w, m, j):
    m[j + 1, 2] = x[0]


@pytest.mark.parametrize("write", [scaled, constant, whole, sliced, of_the_whole], ids=lambda f: f.__name__)
def test_values_are_those_of_python(write):
    def fn(x):
        m = np.zeros((24, 3)) + x
        for j in range(20):
            w = m[j + 1]
            write(x, w, m, j)
        return w.sum() * 0.1 + m.sum()

    compiled = compile_grad(fn)
    value, gradient = compiled.value_and_grad(X)
    np.testing.assert_allclose(value, fn(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(fn, (X,)), rtol=1e-6)
    assert not compiled.stats.live


# ---- views of an array that the last iteration has made ------------------------------------------------------------


def view_of_the_last(x):
    z = np.zeros(24) + x[1]
    for _ in range(20):
        z = z * 0.99
        w = z[::2]
    z[1:4] = x[0]
    return w.sum() + z.sum()


def view_that_is_carried(x):
    z = np.zeros(24) + x[1]
    w, s = z[::2], 0.0
    for _ in range(20):
        s = s + w[0]
        z = z * 0.99
        w = z[::2]
    np.add(z[1:4], x[0], out=z[1:4])
    return w.sum() + z.sum() + s


def view_in_a_dict(x):
    z, d = np.zeros(24) + x[1], {}
    for _ in range(20):
        z = z * 0.99
        d["w"] = z[::2]
    z[1:4] = x[0]
    return d["w"].sum() + z.sum()


def view_written(x):
    z = np.zeros(24) + x[1]
    for _ in range(20):
        z = z * 0.99
        w = z[::2]
    w[1:4] = x[0]
    return w.sum() + z.sum()


@pytest.mark.parametrize("fn", [view_of_the_last, view_that_is_carried, view_in_a_dict, view_written])
def test_a_view_stays_one_after_the_loop(fn):
    value, gradient = compile_grad(fn)(X), compile_grad(fn).grad(X)
    np.testing.assert_allclose(value, fn(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(fn, (X,)), rtol=1e-6)
