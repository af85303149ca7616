"""Everyday lines of NumPy code, wherever people write them: in functions, methods, loops, branches, under derivatives.

The lines stand in a module of their own (``everyday.py``), so all but the first of the contexts call a helper of
another module.
"""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad

pytest.importorskip("attrs")
pytest.importorskip("pandas")

from everyday import IDIOMS, parts

X = np.array([0.4, 0.7, 1.3, 0.9, 0.2])
OTHER = np.array([0.5, 0.6, 1.1, 1.2, 0.3])
DIRECTION = np.array([1.0, -0.5, 0.3, 0.2, 0.7])


def in_a_method(idiom):
    class Model:
        def __init__(self):
            self.scale = 0.5

        def helper(self, p, t):
            return self.scale * idiom(p, t)

        def loss(self, p):
            return self.helper(p, 0.8) + self.helper(p, 1.2)

    return Model().loss


def in_a_loop(idiom):
    def loss(p):
        s = 0.5
        for _ in range(24):
            s = np.tanh(0.1 * idiom(p, s)) + 0.3
        return s

    return loss


def in_a_branch(idiom):
    def loss(p):
        value = idiom(p, 0.6)
        return idiom(p, 2.0) if value > -100.0 else -value

    return loss


def in_a_comprehension(idiom):
    return lambda p: sum([idiom(p, 0.1 * k) for k in range(1, 4)])


CONTEXTS = {
    "function": lambda idiom: lambda p: idiom(p, 0.7),
    "method": in_a_method,
    "loop": in_a_loop,
    "branch": in_a_branch,
    "comprehension": in_a_comprehension,
}
QUICK = ("assigned", "solved", "a dataclass")  # the others are as the first line says: slow
LINES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in IDIOMS]


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("context", CONTEXTS)
def test_line(name, context):
    idiom, argument = IDIOMS[name]
    f = CONTEXTS[context](idiom)
    compiled = compile_grad(f)
    for x in (X, X, OTHER):
        value, gradient = compiled.value_and_grad(argument(x))
        assert type(gradient) is type(argument(x))
        np.testing.assert_allclose(value, f(argument(x)), rtol=1e-12)
        expected = numerical_gradient(lambda y: f(argument(y)), (x,))
        np.testing.assert_allclose(parts(gradient), expected, rtol=2e-5, atol=1e-7)
    assert compiled.stats.live == "" and compiled.stats.compiles <= 2
    if context == "loop" and name != "remembered":  # whose cache is asked in each turn
        assert "= loop[" in str(compiled.explain(argument(X), level="all"))


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("context", [pytest.param("function"), pytest.param("loop", marks=pytest.mark.slow)])
def test_derivative_of_the_derivative(name, context):
    idiom, argument = IDIOMS[name]
    inner = compile_grad(CONTEXTS[context](idiom))

    def slope(p):
        return np.dot(parts(inner.grad(p)), DIRECTION)

    outer = compile_grad(slope)
    for x in (X, OTHER):
        found = parts(outer.grad(argument(x)))
        np.testing.assert_allclose(found, numerical_gradient(lambda y: slope(argument(y)), (x,)), rtol=1e-4, atol=1e-6)
