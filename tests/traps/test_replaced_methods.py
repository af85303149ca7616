"""Traps: containers and objects of the user's classes, whose special methods are replaced once they were read."""

from __future__ import annotations

import functools
from collections import deque
from typing import NamedTuple

import numpy as np
import pytest

from tracegrad import compile_grad


class Named(NamedTuple):
    a: float = 1.5
    b: float = 2.0


class OwnTuple(tuple):
    __slots__ = ()


class OwnList(list):
    pass


class OwnDeque(deque):
    pass


CONTAINERS = [Named(), OwnTuple((1.5, 2.0)), OwnList([1.5, 2.0]), OwnDeque([1.5, 2.0])]
READS = {
    "reversed": lambda x, o: np.sum(x) * next(reversed(o)),
    "a reversed loop": lambda x, o: sum(v * np.sum(x) for v in reversed(o)),
    "iter": lambda x, o: np.sum(x) * next(iter(o)),
    "a loop": lambda x, o: sum(v * np.sum(x) for v in o),
    "an item": lambda x, o: o[0] * np.sum(x),
    "len": lambda x, o: len(o) * np.sum(x),
    "in": lambda x, o: (1.5 in o) * np.sum(x),
    "truth": lambda x, o: (2.0 if o else 3.0) * np.sum(x),
    "sum": lambda x, o: sum(o) * np.sum(x),
    "list": lambda x, o: list(o)[-1] * np.sum(x),
    "zip": lambda x, o: next(a * np.sum(x) for a, _ in zip(o, o, strict=True)),
    "sorted": lambda x, o: sorted(o)[0] * np.sum(x),
}
METHODS = {
    "__getitem__": lambda self, k: 3.5,
    "__iter__": lambda self: iter([7.0, 8.0]),
    "__len__": lambda self: 1,
    "__reversed__": lambda self: iter([9.0]),
    "__contains__": lambda self, v: False,
    "__bool__": lambda self: False,
}


@pytest.mark.parametrize("o", CONTAINERS, ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("how", READS)
def test_a_special_method_that_is_replaced(o, how, monkeypatch):
    for name, method in METHODS.items():

        def f(x):
            return READS[how](x, o)

        compiled, x = compile_grad(f), np.array([0.5, 1.0])
        for _ in range(2):
            assert compiled(x) == f(x)
        with monkeypatch.context() as patch:
            patch.setattr(type(o), name, method, raising=False)
            try:
                expected = f(x)
            except (IndexError, ValueError, TypeError) as error:
                with pytest.raises(type(error)):
                    compiled(x)
            else:
                assert compiled(x) == expected, name


@functools.singledispatch
def weight(value):
    return 1.0


@weight.register
def _(value: list):
    return 4.0


def test_singledispatch_asks_the_object_for_its_class():
    class Other:
        pass

    def f(x):
        return np.sum(x) * weight(other)

    other, compiled, x = Other(), compile_grad(f), np.ones(2)
    assert [compiled(x), compiled(x)] == [2.0, 2.0]
    Other.__getattribute__ = lambda self, name: list if name == "__class__" else object.__getattribute__(self, name)
    assert compiled(x) == f(x) == 8.0
