"""Rolling and following meet what looks alike by chance: found by random programs (``loop_programs.py``), reduced."""

from __future__ import annotations

import numpy as np
import pytest
from loop_programs import configured
from test_loop_traps import DATA, follow

from tracegrad import compile_grad

CONFIGURATIONS = ("as_is", "eager")


@pytest.fixture(autouse=True, params=CONFIGURATIONS)
def configuration(request):
    with configured(request.param, 0):
        yield request.param


def test_an_operation_of_some_turn_is_one_that_every_turn_has():
    """``DATA[7 * i % 40]`` is ``DATA[3]`` in one turn, and made there first."""

    def make(np):
        def fn(x):
            a = np.outer(np.sin(DATA[:, 0]), x)
            h = x
            for i in range(40):
                h = np.tanh(0.5 * h + a[(7 * i + 3) % 40] - 0.3 * a[3])
            return np.sum(h)

        return fn

    follow(make)


def test_what_one_loop_varies_another_one_keeps():
    def make(np):
        def fn(x):
            h = x
            for i in range(20):
                h = np.tanh(h + np.sin(x * DATA[i]))
            for _ in range(20):
                h = np.tanh(h - np.sin(x * DATA[2]) * 0.4)
            for i in range(19, -1, -1):
                h = np.tanh(h * 0.7 + np.sin(x * DATA[i]) * np.cos(x))
            return np.sum(h * np.sin(x * DATA[7]))

        return fn

    follow(make)


def test_a_branch_that_always_asks_the_same():
    def make(np):
        def fn(x):
            rows = []
            for i in range(20):
                if np.sum(x) > -100.0:
                    rows.append(np.sin(x * DATA[i]))
            return np.sum(np.stack(rows))

        return fn

    follow(make)


def test_numbers_that_begin_with_zero_and_fall():
    """0.0, -1.0, -2.0: as steps of a line the first would be 0 * -1.0, which is -0.0."""

    def make(np):
        def fn(x):
            h = x
            for i in range(20):
                h = np.tanh(h * 0.5 + np.arctan(1.0 / (x * float(-i))) * 0.1)
            return np.sum(h)

        return fn

    with np.errstate(divide="ignore", invalid="ignore"):
        follow(make, inputs=[np.abs(DATA[k]) + 0.5 for k in range(3)])


def test_a_number_in_a_comprehension():
    """Whole arrays take the place of a loop: the cotangent of the number is the sum over all rows."""

    def make(np):
        def fn(x):
            c = x[0]
            scaled = [c * k + DATA[k, 0] for k in range(20)]
            total = c * 0.5
            for m, y in zip(scaled[1:], scaled, strict=False):
                total = np.sin(total + m - y)
            return total + np.sum(np.stack([np.sin(c * row) for row in DATA]))

        return fn

    follow(make)


def test_the_same_loop_of_loops_twice():
    """Turns of loops that are steps of another loop; the second time, some are known already."""

    def make(np):
        def g(h, x):
            for j in range(6):
                h = np.tanh(h + x * j * 0.1)
            return h

        def fn(x):
            h = k = x
            for i in range(20):
                h = g(h, DATA[i])
            for i in range(20):
                k = g(k, DATA[i])
            return np.sum(h * k)

        return fn

    follow(make)


def test_a_turn_of_an_inner_loop_is_read_in_the_outer_one():
    def make(np):
        def fn(x):
            h, kept = x, []
            for i in range(20):
                ys = []
                for j in range(6):
                    h = np.tanh(h * 0.9 + x * j * 0.1)
                    ys.append(h)
                h = h + ys[2] * DATA[i]
                kept.append(ys[1])
            return np.sum(h) + np.sum(np.stack(kept)) + np.sum(kept[4])

        return fn

    follow(make)


def test_slices_that_grow():
    """Not even the first turn has the settings of the third."""

    def make(np):
        def fn(x):
            rows = np.outer(np.cos(DATA[:, 0]), x)
            return sum(np.sin(np.sum(rows[:i])) for i in range(1, 20))

        return fn

    follow(make)


def test_code_that_llvm_breaks():
    """Its vectoriser of straight-line code puts a load behind its use."""
    table = np.cos(np.arange(32.0).reshape(8, 4) * 1.7 + 0.3)

    def f(h, xs, c):
        a, t = np.tanh(h), 0.0
        for i in range(18):
            t = np.sin(t + np.sum(xs[:4] * c) + np.sum((table[1] * i)[:2] * c))
            a = np.tanh(a - table[1] * i)
        return np.sum(a) + t

    args = (table[2], table, 0.3)
    assert compile_grad(f, argnums=(0, 1, 2)).value_and_grad(*args)[0] == pytest.approx(f(*args), rel=1e-12)


def test_a_turn_that_is_broken_off_is_read_with_the_others():
    """Backwards: the rows of the loop begin with one that the loop has not."""

    def make(np):
        def fn(x):
            data = np.outer(np.cos(DATA[:20, 0]), x)
            a, b = np.tanh(x), x * 0.5
            kept, rows = [np.tanh(row * 0.5 + a) for row in data], []
            for i in range(0, 20, 2):
                a, b = np.tanh(b + data[i]), a
                rows.append(np.tanh(x * data[i]))
            return np.sum(np.stack(rows[::-1])[:3]) + np.sum(a * b) + np.sum(kept[2])

        return fn

    with configured("eager", 2):
        follow(make)


def test_derivatives_of_stacks_of_rows():
    """The adjoint of a stack slices row after row, after the loops have become nodes."""

    def make(np):
        def fn(x):
            a, rows = np.tanh(x), [x]
            for i in range(18):
                rows += [a * 0.5, DATA[1] * i * x[0]]
            return np.sum(np.sin(np.stack(rows)))

        return fn

    with configured("eager", 1):
        follow(make)
