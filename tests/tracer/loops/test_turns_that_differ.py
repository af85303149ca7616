"""Loops one of whose turns is not like the others: it does what Python says.

Each program is compared with plain NumPy, value and gradient, on two calls.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from agreement import numerical_gradient
from selection import some

from tracegrad import compile_grad
from tracegrad.tracer.ir.errors import MutationError
from tracegrad.tracer.numpy_api import dispatch

V = np.array([0.3, -0.7, 0.5, 0.2])
M = np.arange(12.0).reshape(3, 4) / 20.0
TURNS = 70
ODD = 56


def agree(fn, *args):
    f = compile_grad(fn)
    expected, gradient = fn(*args), numerical_gradient(fn, args)
    for _ in range(2):
        value, found = f.value_and_grad(*args)
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found, gradient, rtol=2e-5, atol=2e-6)


def turned(step):
    """A loop over *step* of the state and the number of the turn."""

    def fn(v):
        u = v * 0.5
        for k in range(TURNS):
            u = step(u, k)
        return np.sum(u * u)

    return fn


STEPS = {
    "number": lambda u, k: np.tanh(u * (1.5 if k == ODD else 0.9)) + 0.01,
    "numbers": lambda u, k: np.tanh(u * (k + 0.5)) + 0.01 * k,
    "kind of number": lambda u, k: np.tanh(u + np.where(u[0:1] > 0, 0.1, 0.2)) * (1 if k == ODD else 1.0),
    "sign of zero": lambda u, k: np.tanh(np.copysign(u, -0.0 if k == ODD else 0.0)) * 0.9 + 0.01,
    "not a number": lambda u, k: np.fmax(np.tanh(u) * 0.9, float("nan") if k != ODD else 0.3),
    "exponent": lambda u, k: np.tanh(u ** (3 if k == ODD else 2)) + 0.1,
    "float exponent": lambda u, k: np.tanh(np.abs(u) ** (2.5 if k == ODD else 2)) + 0.1,
    "index": lambda u, k: np.tanh(u + u[1 if k == ODD else 0]),
    "index from the end": lambda u, k: np.tanh(u + u[-1 if k == ODD else 0] * 0.5),
    "index that counts": lambda u, k: np.tanh(u + u[k % 4]),
    "slice": lambda u, k: np.tanh(np.concatenate([u[2:], u[:2]] if k == ODD else [u[1:], u[:1]])),
    "slice that counts": lambda u, k: np.tanh(u + np.sum(u[k % 3 : k % 3 + 2])),
    "step of a slice": lambda u, k: np.tanh(u[:: -1 if k == ODD else 1] * 1.1),
    "new axis": lambda u, k: np.tanh(u + np.sum(u[:, None] * (u[None] if k != ODD else u[None, ::-1]), axis=1)),
    "ellipsis": lambda u, k: np.tanh(u + u[..., 0] * 0.5),
    "axis": lambda u, k: np.tanh(u + np.sum(u[:, None] * M.T, axis=0 if k == ODD else 1).sum()),
    "operands": lambda u, k: np.tanh(u[0] - u if k == ODD else u - u[0]),
    "operator": lambda u, k: np.tanh(u * u[0] if k == ODD else u + u[0]),
    "function": lambda u, k: (np.sin if k == ODD else np.tanh)(u + 0.1),
    "one more": lambda u, k: np.tanh(np.exp(u) if k == ODD else u) * 0.9,
    "length of a list": lambda u, k: np.tanh(np.stack([u, u * 0.5][: 1 if k == ODD else 2]).sum(axis=0)),
    "order of a list": lambda u, k: np.tanh(np.stack([u, u * 0.5][:: -1 if k == ODD else 1])[0] + 0.1),
    "a number in a list": lambda u, k: np.tanh(np.stack([u[0], u[1], u[2], 0.4 if k == ODD else 0.3])),
    "keyword": lambda u, k: np.tanh(np.mean(np.stack([u, u * u]), axis=0, **({"keepdims": True} if k == ODD else {}))),
    "method": lambda u, k: np.tanh((u.reshape(2, 2).T if k == ODD else u.reshape(2, 2)).ravel() * 1.1),
    "one value twice": lambda u, k: (lambda a, b, c: np.tanh(u + a * c - b))(u[0], u[0], u[1:2]),
    "values inside": lambda u, k: np.tanh(u + u[0:1] * u[0] + u[0:1]),
    "the last two turns": lambda u, k: np.tanh(u + u[::-1] * u[k % 2]),
    "plain array": lambda u, k: np.tanh(u + np.array([0.1, 0.2, 0.3, k * 0.01])),
    "unpacked": lambda u, k: (lambda a, b, c, d: np.tanh(np.stack([b, c, d, a])))(*u),
    "reflected": lambda u, k: np.tanh(1.0 - u if k != ODD else u - 1.0),
    "parts": lambda u, k: np.tanh(np.concatenate(np.split(u, 4 if k == ODD else 2)[::-1]) + 0.1),
    "places of parts": lambda u, k: np.tanh(np.concatenate(np.array_split(u, [1 if k == ODD else 2])[::-1]) + 0.1),
    "a list that is changed": lambda u, k: (lambda a: a.reverse() or np.tanh(np.concatenate(a)))(np.split(u, 2)),
    "a choice": lambda u, k: np.tanh(np.where(u > (0.3 if k == ODD else 0.2), u * 1.1, 0.5 - u)),
    "what is chosen": lambda u, k: np.tanh(np.where(u > 0.2, u[::-1] if k == ODD else u, 0.5 - u)),
    "value in an if": lambda u, k: np.tanh(u * 0.9 if u[0] > 0.2 else u * 1.2 + 0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", some(STEPS, quick=12))
def test_what_changes_in_a_turn(name):
    shape = (1,) if name == "keyword" else ()
    step = STEPS[name]
    agree(turned(lambda u, k: step(u, k).reshape(4) if shape else step(u, k)), V)


def stimulated(v):
    """A row is read twice in each turn, and a number is another one for some turns."""
    x = np.zeros((TURNS, 4))
    x[0] = v
    for i in range(1, TURNS):
        current = 3.0 if 50 < i < 60 else 0.5 if i == ODD + 8 else 1.0
        before = x[i - 1]
        x[i] = x[i - 1] + 0.1 * np.tanh(current - before * x[i - 1][::-1])
    return np.sum(x * x)


def rows_read_twice(v, odd, shift):
    x = np.outer(np.cos(np.arange(1.0, TURNS + 1)), v)
    y = 0.0 * v
    for i in range(1, TURNS - 1):
        first, other = x[i - 1], x[i - 1 if i != odd else i + shift]
        y = np.tanh(y + other * 0.1 - first * y)
    return np.sum(y * y)


def number_used_twice(v, odd):
    y = v
    for i in range(TURNS):
        first = np.multiply(v, 0.1 * i)
        other = np.multiply(v, 0.1 * i if i != odd else 1.5)
        y = np.tanh(other + 0.3 * y) - 0.5 * np.sin(first) * y
    return np.sum(y * y)


def constant_used_twice(v, one, two):
    y = v
    for i in range(TURNS):
        first = np.multiply(y, 1.5 if i == one else 0.5)
        other = np.multiply(y, 1.5 if i == two else 0.5)
        y = np.tanh(other + 0.3 * v) - 0.5 * np.sin(first) * y
    return np.sum(y * y)


TWICE = {
    "rows and a stimulus": (stimulated, ()),
    "rows": (rows_read_twice, (0, 0)),
    "another row": (rows_read_twice, (ODD, 1)),
    "numbers": (number_used_twice, (-1,)),
    "another number": (number_used_twice, (ODD,)),
    "the first constant": (constant_used_twice, (ODD, ODD + 3)),
    "the second constant": (constant_used_twice, (ODD + 3, ODD)),
}


@pytest.mark.parametrize("name", some(TWICE, quick=2))
def test_equal_operations_of_a_turn_and_numbers_that_differ_later(name):
    fn, args = TWICE[name]
    agree(fn, V, *args)


def test_rows_are_kept():
    def fn(v):
        u, rows, firsts = v, [], []
        for _ in range(TURNS):
            u = np.tanh(u + u[0])
            rows.append(u)
            firsts.append(u[0])
        return np.sum(np.stack(rows) ** 2) + np.sum(np.stack(firsts[::2])) * rows[7][1] + firsts[-1]

    agree(fn, V)


def test_what_was_written_to_is_read_anew():
    def fn(v):
        u, view = v * 1.0, None
        for k in range(TURNS):
            view = u[1:3]
            if k == ODD:
                u[1] = 0.25
            u = np.tanh(u + np.sum(view) * 0.3)
        return np.sum(u)

    agree(fn, V)


def test_writing_through_what_was_answered():
    def fn(v):
        u = v
        for _ in range(TURNS):
            w = np.tanh(u * 0.9)
            part = w[1:]
            part[0] = u[3]
            u = w + 0.01
        return np.sum(u * u)

    agree(fn, V)


def test_in_place_on_what_was_answered():
    def fn(v):
        u = v
        for _ in range(TURNS):
            w, a = u * 0.9, u[0]
            a += 1.0
            w += a
            u = np.tanh(w)
        return np.sum(u * u)

    agree(fn, V)


def test_a_function_of_math_raises_in_a_turn():
    def fn(v):
        x = v[0]
        for _ in range(TURNS):
            x = x - 0.02
            x = x + 0.001 * math.log(x + 0.9)
        return x

    with pytest.raises(ValueError, match=r"math domain error|expected a positive input") as plain:
        fn(V)
    with pytest.raises(ValueError, match=re.escape(str(plain.value))):
        compile_grad(fn)(V)


def test_a_ufunc_of_python_numbers_has_a_dtype_and_an_operator_has_none():
    """With float32, the one gives float64 and the other does not."""

    def fn(v, h):
        u = v
        for _ in range(TURNS):
            u = np.tanh(v * np.multiply(h, 0.3) + v * (h * 0.3) + np.sum(u) * 0.01)
        return np.sum(u)

    v = V.astype(np.float32)
    f = compile_grad(fn)
    for _ in range(2):
        np.testing.assert_allclose(f(v, 0.7), fn(v, 0.7), rtol=1e-12)


def test_layout_decides_what_a_reshape_is():
    def fn(v):
        u = v
        for k in range(TURNS):
            m = np.tanh(u * 0.9).reshape(2, 2)
            flat = (m.T if k == ODD else m).reshape(4)
            flat[0] = 0.3
            u = m.reshape(4) + 0.01
        return np.sum(u)

    with pytest.raises(MutationError, match="may be a copy"):
        compile_grad(fn).value_and_grad(V)


def test_an_error_in_a_turn_is_at_the_users_line():
    def fn(v):
        u = v
        for k in range(TURNS):
            u = np.tanh(u + u[k // 14])  # the fifth is not there
        return np.sum(u)

    line = fn.__code__.co_firstlineno + 3
    for _ in range(2):
        with pytest.raises(IndexError, match=rf"index 4 is out of bounds[^\n]*\n  .*line {line}, in fn"):
            compile_grad(fn).value_and_grad(V)


def test_objects_of_the_users_in_a_loop_are_seen():
    class Offset:
        __array_ufunc__ = None

        def __radd__(self, other):
            return other + 0.5

    def fn(v):
        u = v
        for k in range(TURNS):
            u = np.tanh(u + (Offset() if k == ODD else 0.5))
        return np.sum(u)

    f = compile_grad(fn)
    for _ in range(3):
        np.testing.assert_allclose(f.value_and_grad(V)[0], fn(V), rtol=1e-12)


@pytest.mark.parametrize(
    "value", [1, 2.5, None, ..., "abc", slice(1, None), [1, (2.0, None)], np.ones(2), np.float64(3)]
)
def test_what_is_plain(value):
    assert dispatch.is_plain(value)


class _Number(float):
    pass


@pytest.mark.parametrize(
    "value", [_Number(1.0), object(), slice(_Number(1.0)), [1, [object()]], len, {"a": 1}, float.real]
)
def test_what_is_not_plain(value):
    assert not dispatch.is_plain(value)
