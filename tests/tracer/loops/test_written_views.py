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
