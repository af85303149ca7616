"""Loops of which no loop node can be made, or not of all iterations: values and gradients are those of plain Python all
the same, and what Python does (exceptions, `break`, objects that others hold) is what it would do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from converted_loops import converted
from tracing import check_gradient, check_value, leaves, recorder_after

from tracegrad.tracer.record.array import TracedArray, to_atom
from tracegrad.tracer.record.recorder import Recorder, recording
from tracegrad.tracer.record.retry import Retry

RNG = np.random.default_rng(8)
V = RNG.normal(size=30)


def notes_of(f: Callable[..., Any], *args: Any) -> list[str]:
    """What a recording of *f* notes."""
    before, function = Recorder(), converted(f)
    while True:
        recorder = recorder_after(before)
        try:
            with recording(recorder):
                given = [TracedArray(recorder.add_input(a, "argument"), recorder, owner="argument") for a in args]
                recorder.finish([to_atom(leaf) for leaf in leaves(function(*given))])
            return [str(note) for note in recorder.notes]
        except Retry:
            continue


def data_decides(x):
    s = 0.0
    for i in range(30):
        if x[i] > 0:
            s = s * 0.9 + x[i]
        else:
            s = s - 0.1 * x[i]
    return s


def parity(x):
    s = 0.0
    for i in range(30):
        if i % 2 == 0:
            s = s * 0.9 + x[i]
        else:
            s = np.sin(s)
    return s


def uneven_numbers(x):
    s, k = 0.0, 1
    for i in range(30):
        k = k * 2 % 29
        s = s * 0.9 + x[k] * i
    return s, k


def modes(x):
    s, mode = 0.0, "a"
    for i in range(30):
        s = s + x[i] if mode == "a" else s * 0.5
        mode = "b" if mode == "a" else "a"
    return s


def grows(x):
    h = x[:2] * 1.0
    for i in range(30):
        h = np.concatenate([h * 0.9, x[i : i + 1]])
    return np.sum(h**2)


def list_changed(x):
    done = [x[0], x[1]]
    for i in range(30):
        done.append(x[i] * 2.0)
        done[0] = done[0] * 0.9 + x[i]
    return done[0] + done[7], len(done)


REFUSED = {
    data_decides: "loop/answers", parity: "loop/answers", modes: "loop/value",
    grows: "loop/kind", list_changed: "loop/seen",
}  # fmt: skip


@pytest.mark.parametrize("f", REFUSED)
def test_refused(f):
    check_value(converted(f), [V])
    check_gradient(converted(f), [V])
    assert any(re.search(rf"\({REFUSED[f]}\)", note) for note in notes_of(f, V)), notes_of(f, V)


# ---- what Python does ----------------------------------------------------------------------------------------------


def broken(x):
    s = 0.0
    for i in range(30):
        s = s * 0.9 + x[i] ** 2
        if s > 2.0:
            break
    else:
        s = s * 100.0
    return s, i


def converges(x):
    y = x[0] ** 2 + 2.0
    for i in range(100):  # noqa: B007
        step = (y * y - 2.0) / (2.0 * y)
        y = y - step
        if np.abs(step) < 1e-12:
            break
    return y, i


def finds(x):
    s = 0.0
    for i, v in enumerate(x):
        s = s + v**2 * 0.3
        if s > 1.5:
            break
        if i == 28:
            s = s * 2.0
    else:
        return s * 3.0
    return s, i, v


def broken_by_number(x):
    s = 0.0
    for i in range(1000):
        if i == 25:
            break
        s = s * 0.9 + x[i]
    return s, i


def returned(x):
    s = 0.0
    for i in range(30):
        s = s * 0.9 + x[i] ** 2
        if s > 2.0:
            return s * 2.0
    return s


def caught(x):
    s = 0.0
    for i in range(30):
        try:
            if i == 7:
                raise ValueError
            s = s * 0.9 + x[i]
        except ValueError:
            s = s * 2.0
    return s


def out_of_bounds(x):
    s = 0.0
    try:
        for i in range(40):
            s = s * 0.9 + x[i]
    except IndexError:
        s = s * 2.0
    return s, i


def other_name(x):
    h = x * 1.0
    first = h
    for _ in range(30):
        h = np.sin(h) + first[0]
    return np.sum(h) + np.sum(first)


def other_name_in_place(x):
    h = x * 1.0
    first = h
    for i in range(30):
        h *= 0.9
        h += x[i] * first[1]
    return np.sum(h) + np.sum(first)


def view_of_what_is_written(x):
    z = np.zeros_like(x)
    tail = z[20:]
    s = 0.0
    for i in range(30):
        z[i] = x[i] * 2.0 + s
        s = s * 0.5 + np.sum(tail)
    return s + np.sum(tail)


def previous_row(x):
    D = np.outer(x, x)
    row = D[0]
    for i in range(1, 30):
        D[i] = D[i] * 0.5 + row
        row = D[i]
    row *= 2.0
    return np.sum(D * D) + np.sum(row)


def row_after(x):
    D = np.outer(x, x)
    s = 0.0
    for row in D:
        s = s * 0.9 + row[3]
    row *= 2.0
    for i in range(30):
        part = D[i, 3:]
        s = s * 0.9 + np.sum(part)
    part += 1.0
    return s + np.sum(D * D) + np.sum(row)


def two_names_of_one(x):
    a = b = x * 1.0
    for _ in range(30):
        a = b = np.sin(a) + b * 0.1
    a += 1.0
    return np.sum(a * b)


def nothing_to_do(x):
    s = x[0]
    for _ in range(0):
        s = s * 2.0
    for v in x[:0]:
        s = s + v
    return s


def inner_while(x):
    s = 0.0
    for i in range(30):
        t, n = x[i] * 0.3 + 1.5, 0
        while n < 20:
            t = np.cos(t)
            n += 1
        s = s * 0.5 + t
    return s, n


def inner_converges(x):
    s = 0.0
    for i in range(30):
        t = x[i]
        while np.abs(t) > 0.01:
            t = t * 0.5
        s = s * 0.9 + t
    return s


def iterator_goes_on(x):
    it = iter(list(range(30)))
    s = 0.0
    for i in it:
        s = s * 0.9 + x[i]
    rest = list(it)
    pairs = zip(range(30), x, strict=True)
    for i, v in pairs:
        s = np.sin(s) + v * i * 0.01
        if i == 20:
            break
    return s, len(rest), sum(k for k, _ in pairs)


def generator(x):
    def items():
        for i in range(30):
            yield i * 0.1

    s = 0.0
    for v in items():
        s = s * v + x[3]
    return s


def three_deep(x):
    M = np.outer(x[:20], x[:20]) * 0.1
    P = np.zeros_like(M)
    for i in range(20):
        for j in range(20):
            for k in range(20):
                P[i, j] += M[i, k] * M[k, j]
    return np.sum(P * M)


def lower_solve(x):
    L = np.outer(x, x) * 0.1
    y = np.zeros_like(x)
    for i in range(30):
        t = x[i]
        for j in range(i):
            t = t - L[i, j] * y[j]
        y[i] = t / (3.0 + L[i, i])
    return np.sum(y)


def last_of_none(x):
    s, j, t = 0.0, 7, 1.0
    for i in range(30):
        for j in range(i - 3):
            t = x[j] * 2.0
        s = s * 0.9 + x[i] * j * 0.1 + t
        t = 0.5
    return s, j


def diagonal(x):
    D = np.outer(x, x) * 0.1
    for i in range(1, 29):
        D[i, i] = D[i - 1, i - 1] * 0.5 + D[i + 1, i]
        D[i, i + 1] = D[i, i] + D[i, 0]
    return np.sum(D)


def swapped(x):
    a, b = np.zeros_like(x), x * 1.0
    for _ in range(30):
        a[1:] = b[:-1] * 0.9
        a, b = b, a
    return np.sum(a) + 2.0 * np.sum(b)


AS_PYTHON_DOES = (
    broken, converges, finds, broken_by_number, returned, caught, out_of_bounds, other_name, other_name_in_place,
    view_of_what_is_written, previous_row, row_after, two_names_of_one, nothing_to_do, inner_while, inner_converges,
    iterator_goes_on, generator, three_deep, lower_solve, last_of_none, diagonal, swapped, uneven_numbers,
)  # fmt: skip


@pytest.mark.parametrize("f", AS_PYTHON_DOES)
def test_as_python_does(f):
    for x in (V, np.abs(V) * 0.3 + 0.1):
        check_value(converted(f), [x])
        check_gradient(converted(f), [x])
