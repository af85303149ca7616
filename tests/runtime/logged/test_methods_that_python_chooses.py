"""Which method of the user's an operator or a call of a class runs is Python's choice, and its order."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")


class Base:
    """Its two ways to subtract tell which one has run."""

    def __init__(self, value):
        self.value = value

    def __sub__(self, other):
        return Base(self.value - other.value)

    def __rsub__(self, other):
        return Base(other.value - self.value + 100.0)


class Derived(Base):
    pass


class Overriding(Base):
    def __rsub__(self, other):
        return Base(other.value - self.value + 1000.0)


class OnlyReflected:
    def __init__(self, value):
        self.value = value

    def __radd__(self, other):
        return OnlyReflected(self.value + other.value)


class GreaterAlone:
    def __lt__(self, other):
        return NotImplemented

    def __gt__(self, other):
        return True


class Shape:
    size = 1.0

    def __new__(cls, size):
        return object.__new__(Square)

    def __init__(self, size):
        self.size = size


class Square(Shape):
    def __init__(self, size):
        self.size = size * 2.0


class Given:
    def __new__(cls, size):
        return [size]

    def __init__(self, size):
        raise RuntimeError("of no object of the class")


def an_inherited_method(w):
    return (Base(w[0]) - Derived(w[1])).value


def a_method_that_overrides(w):
    return (Base(w[0]) - Overriding(w[1])).value


def no_reflected_method_of_the_same_class(w):
    try:
        return (OnlyReflected(w[0]) + OnlyReflected(w[1])).value
    except TypeError:
        return w[0] * 3.0


def the_other_comparison_of_the_same_class(w):
    return w[0] * (2.0 if GreaterAlone() < GreaterAlone() else 1.0)


def an_object_of_a_derived_class(w):
    return Shape(w[0]).size + w[1]


def an_object_of_another_class(w):
    return Given(w[0])[0] + w[1]


@pytest.mark.parametrize(
    "fn",
    [
        an_inherited_method, a_method_that_overrides, no_reflected_method_of_the_same_class,
        the_other_comparison_of_the_same_class, an_object_of_a_derived_class, an_object_of_another_class,
    ],
)  # fmt: skip
def test_python_chooses_the_method(fn):
    compiled = compile_grad(fn)
    for w in (np.array([5.0, 3.0]), np.array([2.0, 7.0])):
        assert compiled.value_and_grad(w)[0] == fn(w)
    if fn is not no_reflected_method_of_the_same_class:  # whose error ends the recording
        assert not compiled.stats.live


class Above:
    rate = property(lambda self: 2.0)

    @classmethod
    def found(cls):
        return cls

    @staticmethod
    def twice(x):
        return 2.0 * x

    def times(self, x):
        return x * 3.0


class Below(Above):
    def __new__(cls):
        return super().__new__(cls)

    @classmethod
    def found(cls):
        return super().found(), super().rate, super().twice, super().times


def test_super_of_a_class_finds_what_the_class_has():
    def f(x):
        cls, rate, twice, times = Below.found()
        assert cls is Below and type(rate) is property and type(Below()) is Below
        return np.sum(twice(x) * times(None, x))

    g = compile_grad(f)
    for _ in range(3):
        assert g(np.arange(3.0)) == f(np.arange(3.0))
    assert not g.stats.live
