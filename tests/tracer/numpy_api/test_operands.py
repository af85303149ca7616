"""Operands of other classes than arrays, numbers, lists and tuples, beside traced arrays: as NumPy takes them."""

from __future__ import annotations

import array
import operator
from collections import UserList, deque
from fractions import Fraction

import numpy as np
import pytest
from with_source import code_of

from tracegrad import UnsupportedError, compile_grad


class Sequence:
    def __init__(self, *parts):
        self.parts = parts

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, index):
        return self.parts[index]


class Vector(Sequence):
    def __mul__(self, other):
        return Vector(*[part * other for part in self.parts])

    __rmul__ = __mul__


class Last(Vector):
    __array_priority__ = 100.0


class Alone(Vector):
    __array_ufunc__ = None


class Convertible:
    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0, 3.0])


OTHERS = {
    "deque": deque([0.5, 2.0, 3.0]), "range": range(3), "array": array.array("d", [0.5, 2.0, 0.0]),
    "a list of the user's": UserList([0.5, 1.0, 2.0]),
    "a sequence": Sequence(0.5, 1.0, 3.0), "a vector": Vector(0.5, 2.0, 1.0), "one that goes before": Last(0.5, 2.0),
    "one apart": Alone(0.5, 2.0), "what becomes an array": Convertible(), "text": "abc", "none": None,
    "dict": {1: 2.0}, "set": {0.5, 2.0}, "function": len, "object": object(), "slice": slice(3),
}  # fmt: skip
OPERATORS = ["==", "!=", "<", "+", "-", "*", "/", "**"]


def shown(value):
    return [type(value).__name__, [shown(part) for part in value.parts]] if isinstance(value, Sequence) else repr(value)


def outcome(f, x):
    try:
        return shown(f(x))
    except (TypeError, ValueError) as error:
        return "TypeError" if isinstance(error, TypeError) else "ValueError"


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("operand", ["x", "x[0]"])
def test_operators_take_what_numpy_takes(name, operand):
    x = np.array([0.5, 2.0, 3.0])
    for symbol in OPERATORS:
        for expression in (f"{operand} {symbol} other", f"other {symbol} {operand}"):
            space = {"other": OTHERS[name]}
            exec(code_of(f"def f(x):\n return {expression}\n", f"{name} {expression}"), space)
            assert outcome(compile_grad(space["f"]), x) == outcome(space["f"], x), expression


@pytest.mark.parametrize("symbol", [operator.add, operator.mul, operator.sub, operator.pow])
def test_sequences_of_traced_values_are_operands(symbol):
    def f(x):
        return np.sum(x * symbol(x, deque([x[1], 2.0, x[0]])))

    x = np.array([0.5, 2.0, 3.0])
    value, gradient = compile_grad(f).value_and_grad(x)
    assert value == f(x)
    steps = 1e-6 * np.eye(3)
    np.testing.assert_allclose(gradient, [(f(x + h) - f(x - h)) / 2e-6 for h in steps], rtol=1e-6, atol=1e-6)


def test_arrays_are_not_compared_with_exact_numbers():
    with pytest.raises(UnsupportedError, match="comparison of an array with an object of the class Fraction"):
        compile_grad(lambda x: np.sum(x == Fraction(1, 2)))(np.ones(2))
