# ruff: noqa: N801  (classes are cases, named in words)
"""Counters that the function also reads: inputs of the program, about which Python's control flow asks."""

from __future__ import annotations

import decimal
import json
import math

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, 0.5, -0.2, 0.9])
REPLAYED, LIVE = {}, {}


def case(table):
    def add(cls):
        table[cls.__name__.replace("_", " ").strip()] = cls
        return cls

    return add


replayed, live = case(REPLAYED), case(LIVE)


class Counter:
    start = 0

    def __init__(self):
        self.n = self.start
        self.log = []


@replayed
class prints_each_tenth_time(Counter):
    def f(self, x):
        self.n += 1
        loss = np.sum(x * x)
        if self.n % 10 == 0:
            print(f"iteration {self.n:3d}: {loss:.6f}", self.n)
        return loss


@replayed
class after_some_calls(Counter):
    def f(self, x):
        self.n += 1
        return np.sum(x) if self.n > 15 else np.sum(x * x)


@replayed
class counts_down(Counter):
    start = 12

    def f(self, x):
        self.n -= 1
        return np.sum(x * x) if self.n <= 0 else np.sum(x)


@replayed
class a_schedule(Counter):
    def f(self, x):
        self.n = self.n + 1
        return np.sum(x * x) * 0.9**self.n / (1 + self.n) * min(1.0, self.n / 10)


@replayed
class is_written_down(Counter):
    def f(self, x):
        loss = np.sum(x * x)
        self.log.append((self.n, loss))
        self.n += 1
        self.log.append(self.n)
        return loss


@replayed
class is_kept_with_the_best(Counter):
    def __init__(self):
        super().__init__()
        self.best, self.best_n = math.inf, 0

    def f(self, x):
        self.n += 1
        loss = np.sum(x * x)
        if loss < self.best:
            self.best, self.best_n = loss, self.n
        return loss


@replayed
class is_an_int(Counter):
    def f(self, x):
        self.n += 1
        self.log.append((type(self.n).__name__, isinstance(self.n, int), type(self.n) is int))
        return np.sum(x * x)


@replayed
class starts_again(Counter):
    def f(self, x):
        self.n += 1
        if self.n == 7:
            self.n = 0
        return np.sum(x * x) * self.n


@replayed
class counts_in_a_loop(Counter):
    def f(self, x):
        total = 0.0
        for k in range(30):
            self.n += 1
            total = total + np.sum(x) * k
        return total * 2.0 if self.n > 400 else total


@replayed
class of_a_helper(Counter):
    def tick(self):
        self.n += 1
        return self.n

    def f(self, x):
        return np.sum(x) if self.tick() % 3 == 0 else np.sum(x * x)


@replayed
class among_milestones(Counter):
    def f(self, x):
        self.n += 1
        return np.sum(x) * 2.0 if self.n in (3, 7, 11) else np.sum(x)


@replayed
class divides(Counter):
    def f(self, x):
        self.n += 1
        return np.sum(x) / (self.n - 5) if self.n != 5 else np.sum(x)


@replayed
class arithmetic(Counter):
    def f(self, x):
        self.n += 3
        return np.sum(x) * (self.n * (self.n + 1) // 2 % 11 - abs(-self.n) + (self.n & 3))


@replayed
class the_item_of_a_dict(Counter):
    def __init__(self):
        super().__init__()
        self.counts = {"calls": 0, "total": 0.0}

    def f(self, x):
        self.counts["calls"] += 1
        self.counts["total"] += np.sum(x)
        return np.sum(x * x) if self.counts["calls"] % 4 else self.counts["total"]


@replayed
class a_running_mean(Counter):
    def __init__(self):
        super().__init__()
        self.mean = 0.0

    def f(self, x):
        self.n += 1
        self.mean += (np.sum(x) - self.mean) / self.n
        return np.sum(x * x)


@replayed
class an_outer_variable(Counter):
    def __init__(self):
        super().__init__()
        n = 0

        def bump():
            nonlocal n
            n += 1

        def f(x):
            bump()
            return np.sum(x * x) * (2.0 if n % 4 == 0 else 1.0)

        self.f = f


calls = 0


@replayed
class a_global(Counter):
    def __init__(self):
        global calls
        calls = 0
        super().__init__()

    def f(self, x):
        global calls
        calls += 1
        if calls % 4 == 0:
            print(calls)
        return np.sum(x * x)


@live
class an_index(Counter):
    table = tuple(float(k) for k in range(100))

    def f(self, x):
        self.n += 1
        return np.sum(x) * self.table[self.n]


@live
class the_end_of_a_range(Counter):
    def f(self, x):
        self.n += 1
        total = 0.0
        for k in range(self.n):
            total = total + x[k % 4]
        return total


@live
class a_key(Counter):
    def __init__(self):
        super().__init__()
        self.losses = {}

    def f(self, x):
        self.n += 1
        self.losses[self.n] = np.sum(x)
        return np.sum(x * x)


@live
class more_than_64_bits(Counter):
    start = 55

    def f(self, x):
        self.n += 1
        return np.sum(x) * (2**self.n) / (self.n * 10**18)


@live
class a_negative_power(Counter):
    def f(self, x):
        self.n += 1
        return np.sum(x) * 10**-self.n


@replayed
class a_function_of_math(Counter):
    def f(self, x):
        self.n += 1
        return np.sum(x) / math.sqrt(self.n)


@live
class a_function_that_takes_ints_alone(Counter):
    def f(self, x):
        self.n += 1
        self.log.append(json.dumps(self.n))
        return np.sum(x) * float(decimal.Decimal(self.n))


@live
class a_method_of_ints(Counter):
    def f(self, x):
        self.n += 1
        return np.sum(x) * self.n.bit_length()


@pytest.mark.parametrize("name", [*REPLAYED, *LIVE])
def test_counters_that_are_read(name, capsys):
    plain, recorded = ((REPLAYED | LIVE)[name]() for _ in range(2))
    inputs = [X * (1 + 0.01 * k) * (-1) ** k for k in range(45)]
    want = [plain.f(x) for x in inputs]
    printed = capsys.readouterr().out
    if name == "a global":
        a_global()
    compiled = compile_grad(recorded.f)
    traces = []
    for x, expected in zip(inputs, want, strict=True):
        assert compiled(x) == pytest.approx(expected, rel=1e-12)
        traces.append(compiled.stats.traces)
    assert capsys.readouterr().out == printed
    assert plain.n == recorded.n and type(plain.n) is type(recorded.n)
    assert len(plain.log) == len(recorded.log)
    for entry, known in zip(recorded.log, plain.log, strict=True):
        numbers = isinstance(known, tuple) and not isinstance(known[0], str)
        assert entry == (pytest.approx(known, rel=1e-12) if numbers else known)
        assert type(entry) is type(known)
    assert getattr(plain, "best_n", 0) == getattr(recorded, "best_n", 0)
    assert (compiled.stats.live == "") == (name in REPLAYED)
    assert name in LIVE or traces[-1] == traces[25] < 9


def test_another_value_from_outside_counts():
    one = prints_each_tenth_time()
    compiled = compile_grad(one.f)
    compiled(X), compiled(X), compiled(X)
    one.n = 2**40
    assert compiled(X) == pytest.approx(X @ X) and one.n == 2**40 + 1
    one.n = 2**70
    assert compiled(X) == pytest.approx(X @ X) and one.n == 2**70 + 1
    one.n = 1.5
    assert compiled(X) == pytest.approx(X @ X) and one.n == 2.5
    one.n = True
    assert compiled(X) == pytest.approx(X @ X) and one.n == 2 and type(one.n) is int


def test_a_counter_that_is_returned_is_an_int():
    class Counts(Counter):
        def f(self, x):
            self.n += 1
            return np.sum(x * x), self.n

    one = Counts()
    compiled = compile_grad(one.f)
    found = [compiled(X)[1] for _ in range(5)]
    assert found == [1, 2, 3, 4, 5] and {type(n) for n in found} == {int}


def test_a_method_of_a_class_that_reads_the_global_sees_it():
    class Fixed:
        @classmethod
        def read(cls):
            return calls

    class Counts:
        def f(self, x):
            global calls
            calls += 1
            return np.sum(x) * Fixed.read()

    global calls
    for run in (Counts().f, compile_grad(Counts().f)):
        calls = 0
        assert [run(X) for _ in range(6)] == pytest.approx([X.sum() * k for k in range(1, 7)])
        assert calls == 6
    calls = 0
