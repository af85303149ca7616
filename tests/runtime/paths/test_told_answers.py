"""What `f.stats` and `explain()` say of branches in loops, batches and premises is what Python was told there."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tracegrad import autograd, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")


def never(w):
    h = w
    for _ in range(50):
        h = 0.9 * h
        if h[0] > 10:
            h = h * 0.5
    return np.sum(h)


def always(w):
    h = w
    for _ in range(50):
        h = 0.9 * h
        if h[0] < 10:
            h = h * 0.5
    return np.sum(h)


def in_a_while(w):
    h = w
    while h[0] > 1e-3:
        h = 0.9 * h
        if h[0] > 10:
            h = h * 0.5
    return np.sum(h)


def two_questions(w):
    h = w
    for _ in range(50):
        h = 0.9 * h
        if not (h[0] > 10 or h[1] > 20):
            h = h * 0.99
        if h[1] > 30:
            h = h * 2
    return np.sum(h)


def no_break(w):
    h = w
    for _ in range(60):
        h = 0.97 * h
        if h[0] > 10:
            break
    return np.sum(h)


def a_number(w):
    h = w
    for _ in range(40):
        h = 0.9 * h
        h = h * 0.5 if h[0] else h * 2
    return np.sum(h)


def loops_in_loops(w):
    s = 0.0
    for _ in range(12):
        for _ in range(12):
            w = w * 0.99
            if w[0] > 3:
                s = s + w[1]
    return np.sum(w) + s


def of_each_row(w):
    def row(r):
        return np.sum(r) if r[0] > 10 else np.sum(r * r)

    return np.sum(autograd.vmap(row)(w))


def an_int(w):
    return np.sum(w) * int(w[0] * 2)


CASES = {
    never: "bool() gave False in each iteration",
    always: "bool() gave True in each iteration",
    in_a_while: "bool() gave False in each iteration",
    two_questions: "bool() gave False in each iteration",
    no_break: "bool() gave False in each iteration",
    a_number: "bool() gave True in each iteration",
    loops_in_loops: "bool() gave False in each iteration",
    of_each_row: "bool() gave False in each row",
    an_int: "int() gave 2",
}


@pytest.mark.parametrize("function", CASES)
def test_answers_are_those_that_were_given(function):
    f, w = compile_grad(function), np.ones((4, 3) if function is of_each_row else 3)
    for _ in range(3):
        f.value_and_grad(w)
    (path,) = f.stats.paths
    said = [text.partition(" at ")[0] for text in path.answers]
    assert CASES[function] in said
    other = {"False": "True", "True": "False"}
    wrong = re.sub("False|True", lambda found: other[found[0]], CASES[function])
    assert wrong == CASES[function] or wrong not in said
    assert CASES[function] in f.explain(w, level="all")


def test_a_miss_says_what_was_other():
    f = compile_grad(never)
    for _ in range(3):
        f(np.ones(3))
    f(np.full(3, 20.0))
    line = never.__code__.co_firstlineno + 4
    missed = f"another value than False in some iteration at test_told_answers.py:{line} in never"
    assert missed in " ".join(f.stats.retraces)
