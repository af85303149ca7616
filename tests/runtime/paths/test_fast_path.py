"""Slots read the outside state in their own lines, with the user's globals as theirs: names of the two do not mix."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from with_source import code_of

from tracegrad import compile_grad

NAMES = ("r", "args", "kwargs", "arrays", "launch", "missed", "stats", "MISS", "stream", "state", "v1", "k0", "read")


def compiled(text, **names):
    """(the compiled function f of *text*, its globals)"""
    space = {"np": np, "__name__": "slots_of_tests", **names}
    exec(code_of(text, "a slot"), space)
    return compile_grad(space["f"]), space


def answers(f, *args):
    return [float(f(*args)) for _ in range(4)]


@pytest.mark.parametrize("name", NAMES)
def test_a_global_that_is_called_as_a_variable_of_the_slot(name):
    f, space = compiled(f"def f(x):\n    return np.sin(x) * {name}", **{name: 2.0})
    assert answers(f, 0.5) == [2.0 * np.sin(0.5)] * 4
    traces = f.stats.traces
    assert answers(f, 0.5) == [2.0 * np.sin(0.5)] * 4
    assert f.stats.traces == traces
    space[name] = 3.0
    assert answers(f, 0.5) == [3.0 * np.sin(0.5)] * 4
    del space[name]
    with pytest.raises(NameError):
        f(0.5)


@pytest.mark.parametrize("name", NAMES)
def test_an_array_that_is_called_as_a_variable_of_the_slot(name):
    f, space = compiled(f"def f(x):\n    return np.sum(x * {name})", **{name: np.ones(3)})
    for k in range(6):
        space[name] = np.full(3, k + 1.0)
        assert float(f(0.5)) == 1.5 * (k + 1.0)
    assert f.stats.traces == 1


@pytest.mark.parametrize("read_by_the_function", [True, False])
@pytest.mark.parametrize("name", ["type", "len", "int", "float", "Exception"])
def test_a_builtin_is_shadowed(name, read_by_the_function):
    """Each is one that slots use: for a list of arguments, for a failed guard, for whatever reading may raise."""
    calls = []

    def shadow(*args):
        calls.append(args)
        return getattr(builtins, name)(*args)

    line = f"{name}('1')\n    " if read_by_the_function else ""
    f, space = compiled(f"def f(xs, y):\n    {line}return xs[0] * y if y > 0.0 else xs[1] * y")
    expected = [2.0, -3.0, 4.0, -6.0] * 3
    assert [float(f([1.0, 1.5], y)) for y in (2.0, -2.0, 4.0, -4.0) * 3] == expected
    space[name] = shadow
    assert [float(f([1.0, 1.5], y)) for y in (2.0, -2.0, 4.0, -4.0) * 3] == expected
    assert bool(calls) is read_by_the_function


def test_code_and_defaults_of_helpers_are_seen_by_slots():
    text = """
def helper(x, scale=2.0):
    return np.sin(x) * scale

def f(x):
    return helper(x) + helper(x, 1.0)
"""
    f, space = compiled(text)
    assert answers(f, 0.5) == pytest.approx([3.0 * np.sin(0.5)] * 4)
    space["helper"].__defaults__ = (4.0,)
    assert answers(f, 0.5) == pytest.approx([5.0 * np.sin(0.5)] * 4)
    space["helper"].__code__ = (lambda x, scale: x * scale).__code__
    assert answers(f, 0.5) == pytest.approx([2.5] * 4)
    space["f"].__code__ = (lambda x: x).__code__
    assert answers(f, 0.5) == [0.5] * 4


def test_columns_and_transposes_are_answered_by_slots(monkeypatch):
    """Arrays that are not in C order, among the arguments and captured, beside branches, in turns with others."""

    class Settings:
        pass

    settings, table = Settings(), np.arange(1.0, 13.0).reshape(3, 4)

    def plain(x, settings):
        return np.sum(x * x * settings.scale) if x[0, 0] > 0 else np.sum(x * settings.scale**2)

    f = compile_grad(plain)
    arrays = [table[:, :3], table[:, :3].copy(), -table[:, 1:].T, -table[:3, :3].copy()]
    settings.scale = table[:, 1]
    for x in arrays * 3:
        f.value_and_grad(x, settings)
    slow = []
    monkeypatch.setattr(f._dispatcher, "others", lambda *given: slow.append(given))
    for x in arrays * 2:
        for settings.scale in (table[:, 1], table[:, 2].copy(), table[0, 1:]):
            value, gradient = f.value_and_grad(x, settings)
            np.testing.assert_allclose(value, plain(x, settings), rtol=1e-12)
            wanted = 2 * x * settings.scale if x[0, 0] > 0 else np.broadcast_to(settings.scale**2, (3, 3))
            np.testing.assert_allclose(gradient, wanted, rtol=1e-12)
    assert slow == []
