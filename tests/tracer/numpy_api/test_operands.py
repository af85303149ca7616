"""Operands of other classes than arrays, numbers, lists and tuples, beside traced arrays: as NumPy takes them."""

from __future__ import annotations

import array
import copy
import itertools
import operator
from collections import UserList, deque
from fractions import Fraction

import numpy as np
import pytest
from with_source import code_of

from tracegrad import ShapeError, UnsupportedError, compile_grad


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


class Model(Sequence):
    def __call__(self, value):
        return value * self.parts[0]

    def __iter__(self):
        return iter(self.parts)


@pytest.mark.parametrize("call", ["shape", "size", "argmax", "ndim", "sum", "array"])
def test_sequences_that_can_be_called_are_arrays_to_numpy(call):
    space = {"np": np, "model": Model(1.0, 2.0)}
    exec(code_of(f"def f(x):\n return np.sum(x) * 0 + np.{call}(model)\n", call), space)
    assert repr(compile_grad(space["f"])(np.ones(2))) == repr(space["f"](np.ones(2)))


@pytest.mark.parametrize(
    "expression",
    [
        "list(itertools.chain(model, [x[0]]))",
        "list(itertools.accumulate(model, operator.mul))",
        "list(itertools.accumulate(model, func=operator.add, initial=x[0]))",
        "sum(itertools.islice(model, 1))",
        "list(itertools.takewhile(model, [1.0, x[0], 0.0]))",
    ],
)
def test_sequences_that_can_be_called_are_iterated(expression):
    space = {"itertools": itertools, "operator": operator, "model": Model(1.0, 2.0)}
    exec(code_of(f"def f(x):\n return {expression}\n", expression), space)
    f, x = compile_grad(space["f"]), np.ones(2)
    assert repr(f(x)) == repr(f(x)) == repr(space["f"](x))
    assert "it raised" not in str(f.stats.live)


@pytest.mark.parametrize("value", ["np.outer(x, x)", "np.stack([x] * 3)", "x[None]", "x[:, None]", "x", "x[0]"])
@pytest.mark.parametrize("shape", ["2", "(2,)", "(3, 2)", "(1, 2, 2)", "()"])
def test_an_array_is_full_of_what_fits(value, shape):
    space = {"np": np}
    exec(code_of(f"def f(x):\n return np.full({shape}, {value})\n", f"full {shape} {value}"), space)
    x = np.array([0.5, 2.0])
    try:
        expected = space["f"](x)
    except ValueError:
        with pytest.raises(ShapeError, match="could not broadcast input array"):
            compile_grad(space["f"])(x)
    else:
        np.testing.assert_array_equal(compile_grad(space["f"])(x), expected)


@pytest.mark.parametrize("kind", ["list", "dict", "float", "ValueError"])
def test_copies_of_objects_of_subclasses_in_c_raise_nothing(kind):
    space = {"copy": copy}
    exec(code_of(f"class Own({kind}): pass\nown = Own()\nown.a = 2.0\n", f"class {kind}"), space)
    exec(code_of("def f(x):\n return x[0] * copy.copy(own).a + copy.deepcopy(own).a\n", f"copy {kind}"), space)
    f = compile_grad(space["f"])
    assert f(np.array([3.0])) == f(np.array([3.0])) == 8.0
    assert "it raised" not in str(f.stats.live)
