"""Constructs of Python around traced code: recursion, generators, comprehensions, try, closures, text."""

from __future__ import annotations

import functools
import itertools
from contextlib import contextmanager

import numpy as np
import pytest
from agreement import agree

from tracegrad import compile_grad

X = np.array([0.3, -1.2, 2.0, 0.7])
POINTS = (X, X, -X, 2 * X, -X, X)


def check(plain, points=POINTS, **kwargs):
    """*plain* agrees with NumPy, and its calls end up in kernels."""
    f = compile_grad(plain)
    for x in (*points, *points):  # a path is recorded in its first and its second call
        agree(f, plain, x, **kwargs)
    assert not f.stats.live
    traces = f.stats.traces
    for x in points:
        f.value_and_grad(x)
    assert f.stats.traces == traces
    return f


# ---- functions -----------------------------------------------------------------------------------------------------


def power(x, n):
    return np.ones_like(x) if n == 0 else x * power(x, n - 1)


def halve(x, depth=0):
    """Recursion whose depth the data decide."""
    return depth + np.sum(x) if np.sum(x * x) < 0.1 else halve(x * 0.5, depth + 1)


def even(x, n):
    return np.sum(x) if n == 0 else odd(np.sin(x), n - 1)


def odd(x, n):
    return np.prod(x) if n == 0 else even(np.cos(x), n - 1)


def tree_sum(x):
    middle = len(x) // 2
    return x[0] ** 2 if len(x) == 1 else np.tanh(tree_sum(x[:middle])) + 2 * tree_sum(x[middle:])


@pytest.mark.parametrize(
    "plain",
    [lambda x: np.sum(power(x, 5)), halve, lambda x: even(x, 3), lambda x: odd(x, 3), tree_sum],
    ids=["counted", "on data", "mutual", "mutual, other end", "halves"],
)
def test_recursion(plain):
    check(plain)


def test_recursion_within_a_function():
    def plain(x):
        def walk(y, n):
            return y if n == 0 else walk(np.sin(y) + x, n - 1)

        return np.sum(walk(x, 4) ** 2)

    check(plain)


def test_closures_and_nested_functions():
    def plain(x):
        total = 0.0
        scale = 2.0

        def add(y):
            nonlocal total
            total = total + np.sum(y) * scale

        def make(k):
            def apply(y, shift=0.5):
                return y * k + shift

            return apply

        for k, apply in enumerate([make(k) for k in range(3)]):
            add(apply(x) ** (k + 1))
        scale = functools.reduce(lambda a, b: a * b, [x[0], x[1], 3.0])
        add(x)
        return total

    check(plain)


def test_early_returns_in_loops():
    def plain(x):
        y = x
        for k in range(6):
            y = y * 1.5
            if np.max(y) > 4.0:
                return np.sum(y) * k
            if np.sum(y) < -20.0:
                break
        else:
            return np.sum(y * y)
        return -np.sum(y)

    check(plain, (X, -X, 0.1 * X, 3 * X, -10 * X, -X, X))


# ---- iteration -----------------------------------------------------------------------------------------------------


def steps(x, n):
    for k in range(n):
        x = np.sin(x) + 0.1 * k
        yield x


def test_generators():
    def plain(x):
        def squares(values):
            yield from (v * v for v in values)

        total = sum(np.sum(y) for y in steps(x, 3))
        for a, b in zip(squares(x), itertools.islice(steps(x, 10), 4), strict=True):
            total = total + a * np.prod(b)
        first = next(y for y in steps(x, 20) if np.sum(y) > -10)
        return total + np.sum(first)

    check(plain)


def test_a_generator_that_is_sent_values():
    def running():
        total, count = 0.0, 0
        while True:
            value = yield total / max(count, 1)
            total, count = total + value, count + 1

    def plain(x):
        mean = running()
        next(mean)
        values = [mean.send(v * v) for v in x]
        mean.close()
        return values[-1] * values[0]

    check(plain)


def test_comprehensions():
    def plain(x):
        squares = [v * v for v in x if v != 0]
        named = {k: np.sin(v) for k, v in enumerate(x)}
        table = [[x[i] * x[j] for j in range(i)] for i in range(4)]
        pairs = sum(sum(row) for row in table if row)
        kept = {k for k in named if k % 2}
        return sum(squares) + sum(named[k] for k in sorted(kept)) + pairs + sum(v for v in (*squares, *named.values()))

    check(plain)


def test_unpacking_and_matching():
    def plain(x):
        first, *rest, last = x
        match len(rest):
            case 2:
                value = rest[0] * rest[1]
            case _:
                value = first
        if (biggest := np.max(x)) > 1:
            value = value + biggest
        return value * first + last

    check(plain)


# ---- exceptions and contexts ---------------------------------------------------------------------------------------


class TooLargeError(Exception):
    def __init__(self, value):
        self.value = value


def checked(y):
    if np.sum(y) > 1.0:
        raise TooLargeError(y * 0.5)
    return y


def test_exceptions_are_control_flow():
    def plain(x):
        log = []
        try:
            y = checked(x * 2)
        except TooLargeError as error:
            y = error.value + 1.0
            log.append("large")
        else:
            y = y * y
        finally:
            log.append("done")
        return np.sum(y) * len(log)

    check(plain)


def test_finally_and_nested_handlers():
    def inner(x, log):
        try:
            if x[0] > 0:
                raise ValueError("first")
            return np.sum(x)
        finally:
            log.append(np.sum(x * x))

    def plain(x):
        log = []
        try:
            try:
                value = inner(x, log)
            except KeyError:
                value = np.sum(x) * 100
        except (ValueError, TypeError) as error:
            value = np.prod(x) if str(error) == "first" else 0.0
        return value + sum(log)

    check(plain)


def test_an_exception_leaves_nothing_behind():
    def plain(x):
        if x[0] > 1:
            raise ValueError("x[0] is too large")
        return np.sum(x * x)

    f = compile_grad(plain)
    for x in (X, X, X):
        agree(f, plain, x)
    for _ in range(3):
        with pytest.raises(ValueError, match="too large"):
            f.grad(5 * X)
        agree(f, plain, X)
    assert not f.stats.live


def test_context_managers():
    @contextmanager
    def scaled(x, by):
        yield x * by

    def plain(x):
        with scaled(x, 2.0) as y, np.errstate(all="ignore"):
            total = np.sum(np.sqrt(np.abs(y)))
        return total

    check(plain, points=(X, X, 2 * X))


# ---- text ----------------------------------------------------------------------------------------------------------


def test_printing_shows_values_and_stays_compiled(capsys):
    @compile_grad
    def f(x):
        y = np.sin(x)
        print("y is", y, f"{y}, {np.sum(y):.3f}", [y])
        return np.sum(y)

    first = f(X)
    shown = capsys.readouterr().out
    assert shown.startswith("y is [") and f"{first:.3f} [array([" in shown
    f(X)
    assert capsys.readouterr().out == shown
    assert f(X) == first
    assert capsys.readouterr().out == shown
    assert f(2 * X) == pytest.approx(np.sum(np.sin(2 * X)))
    assert capsys.readouterr().out != shown
    assert f.stats.live == "" and f.stats.traces == 1


def test_printing_to_a_stream_written_in_python(monkeypatch):
    """As in a notebook, whose stdout uses threads and clocks."""
    import sys
    import time

    class Stream:
        text = ""

        def write(self, text):
            Stream.text += f"{time.time() > 0 and text}"

        def flush(self):
            pass

    f = compile_grad(lambda x: (print("sum", np.sum(x)), np.sum(x) * 2)[1])
    monkeypatch.setattr(sys, "stdout", Stream())
    for _ in range(4):
        assert f(X) == pytest.approx(2 * X.sum())
    assert Stream.text.count("sum 1.") == 4 and f.stats.live == ""


def test_formats_are_pythons():
    def texts(x, k):
        return f"{k:.2f}", f"{x!s:>10}", f"{x!r}", f"{x[0]:8.3e}", str(k), format(x, ""), ", ".join(map(str, x))

    f = compile_grad(lambda x, k: (np.sum(x) * k, texts(x, k)))
    for k in (2.0, 3.0, 2.0, 2.0):
        value, found = f(X + k, k)
        assert value == pytest.approx(k * (X + k).sum()) and found == texts(X + k, k)
    assert "a text that is made of values" in f.stats.live


def test_a_traced_array_after_its_recording():
    kept = []
    compile_grad(lambda x: (kept.append(x), np.sum(x))[1])(X)
    assert isinstance(kept[0], np.ndarray)


def test_other_output_still_runs_each_time(tmp_path):
    path = tmp_path / "log"

    def plain(x):
        with open(path, "a") as file:
            file.write("called\n")
        return np.sum(x)

    f = compile_grad(plain)
    for _ in range(3):
        f(X)
    assert path.read_text().count("called") == 3 and "(calls/files)" in f.stats.live
