"""Integers that Python takes out of arrays and tensors are numbers of the run: counts, positions and labels are added,
stored, printed and compared as Python's ints, and one whose value is asked for is asked for in each call."""

from __future__ import annotations

import collections
import io
import json
from contextlib import redirect_stdout

import numpy as np
import pytest
from int_programs import same

import tracegrad
from tracegrad import compile_grad, tensor

pytestmark = pytest.mark.usefixtures("fresh_kernels")

COUNTED = {
    "added": lambda o, n: o.add(n),
    "an average": lambda o, n: (n / 8, 100.0 * n / 8, 2 * n // 3, n % 5, divmod(n, 3), -n, abs(n - 4)),
    "stored": lambda o, n: o.store(n),
    "appended": lambda o, n: o.log.append((n, n + 1)),
    "of a dict": lambda o, n: o.counts.__setitem__("n", o.counts["n"] + n),
    "printed": lambda o, n: print(f"{n}/8", n, str(n), f"{100 * n / 8:.1f}%"),
    "returned": lambda o, n: {"n": n, "type": type(n).__name__, "is": isinstance(n, int)},
    "of floats": lambda o, n: (n * 0.5, n**2, 2.5 - n, float(n) / 3),
    "bits": lambda o, n: (n & 3, n | 8, n ^ 5, n << 2, n >> 1, ~n),
    "best": lambda o, n: o.compare(n),
}
ASKED = {
    "compared": lambda o, n: "many" if n > 4 else "few" if n else "none",
    "an index": lambda o, n: "abcdefghijklmnopqrstuvwxyz"[n % 9],
    "a range": lambda o, n: list(range(n % 4)),
    "a key": lambda o, n: o.table.__setitem__(n, o.table.get(n, 0) + 1),
    "text": lambda o, n: len(f"{n:03d}") + len(str(n * 1000)),
    "json": lambda o, n: json.dumps({"n": n}),
    "hash": lambda o, n: hash(n),
    "method": lambda o, n: (n.bit_length(), n.to_bytes(4, "big").hex()),
    "a set": lambda o, n: sorted({n, 3, 4}),
    "identity": lambda o, n: n is o.last,
}


class Owner:
    def __init__(self):
        self.total, self.last, self.log, self.counts, self.best = 0, None, [], {"n": 0}, -1
        self.table = collections.defaultdict(int)

    def store(self, n):
        self.last = n

    def compare(self, n):
        if n > self.best:
            self.best = n

    def add(self, n):
        self.total += n
        return self.total


def of_arrays(use, how):
    def make(wrap):
        owner = Owner()
        fn = wrap(lambda x: (np.sum(x), use(owner, how(x > 0))))
        return owner, fn, lambda x: fn(x)

    return make


def of_tensors(use, how):
    def make(wrap):
        owner = Owner()
        fn = wrap(lambda x: (x.sum(), use(owner, how(x > 0))))
        return owner, fn, lambda x: fn(tensor(x))

    return make


WAYS = {
    "item": (of_tensors, lambda found: found.sum().item()),
    "int": (of_tensors, lambda found: int(found.sum())),
    "position": (of_tensors, lambda found: found.long().argmax().item()),
    "no bounds": (of_tensors, lambda found: ((found.long() * 3).sum() - 5).item() + 5),
    "array's item": (of_arrays, lambda found: np.sum(found).item()),
    "array's int": (of_arrays, lambda found: int(np.sum(found))),
}


def rows(count=12, seed=0):
    return list(np.random.default_rng(seed).normal(size=(count, 8)))


def compared(make, inputs):
    """The compiled function, which has done with *inputs* what the plain one does."""
    seen = []
    for wrap in (lambda f: f, tracegrad.compile if make.__qualname__.startswith("of_tensors") else compile_grad):
        text = io.StringIO()
        with redirect_stdout(text):
            owner, fn, call = make(wrap)
            found = [call(x) for x in inputs]
        seen.append((found, vars(owner), text.getvalue()))
    for part, (plain, compiled) in enumerate(zip(*seen, strict=True)):
        assert same(plain, compiled), (part, plain, compiled)
    return fn


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", COUNTED)
def test_what_is_only_computed_with(use, way):
    family, how = WAYS[way]
    fn = compared(family(COUNTED[use], how), rows(16))
    assert not fn.stats.live
    assert fn.stats.traces <= 6, fn.stats


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", ASKED)
def test_what_is_asked_for_is_todays(use, way):
    family, how = WAYS[way]
    compared(family(ASKED[use], how), rows(16, seed=1))


def test_magnitudes_that_no_float_holds():
    def fn(x):
        return x.max().item() + 1, x.min().item() * 3

    step = tracegrad.compile(fn)
    for value in (1, 2, 3, 2**31 - 1, 2**31, 2**53 + 1, 2**62, -(2**40), 5, 2**53 + 3, 7):
        x = tensor(np.array([value, 0, -1]))
        assert step(x) == fn(x), value


def test_a_list_of_them():
    def fn(x, labels, kept):
        kept.extend((labels * (x > 0)).tolist())
        return labels.tolist()[0] + 1, (x > 0).long().reshape(2, 4).tolist()

    step, seen = tracegrad.compile(fn), [[], []]
    for k, x in enumerate(rows(10)):
        labels = np.arange(8) + k
        assert same(step(tensor(x), tensor(labels), seen[0]), fn(tensor(x), tensor(labels), seen[1]))
        assert same(*seen)
    assert not step.stats.live and step.stats.traces <= 3, step.stats


@pytest.mark.slow
def test_a_loop_that_ends_by_data():
    def fn(x):
        total, turns = 0, 0
        while (x > 0).any():
            total += (x > 0).sum().item()
            x = x - 1
            turns += 1
        return total, turns, "all" if total == 24 else "some", x.sum()

    step = tracegrad.compile(fn)
    for high in (3, 1, 3, 3, 40, 7, 3, 12, 2000, 3):
        x = tensor(np.full(8, float(high)))
        assert same(step(x), fn(x)), high


def test_an_exception_of_the_functions_own_is_raised_once():
    def fn(x):
        count = (x > 0).sum().item()
        if count > 6:
            raise ValueError(f"{count} of {len(x)}")
        return x.sum(), count

    step, seen = tracegrad.compile(fn), []
    for x in rows(30, seed=2):
        for call in (fn, step):
            try:
                seen.append(call(tensor(x)))
            except ValueError as error:
                seen.append(str(error))
    assert same(seen[::2], seen[1::2])
    assert not step.stats.live


def counts_rows(x):
    total, best, found = 0, -1, []
    for row in x:
        n = int(np.sum(row > 0))
        total += n
        if n > best:
            best = n
        found.append(n)
    return np.sum(x) * total, total % 7, best, found


def counts_until(x):
    s, count = np.sum(np.abs(x)), 0
    while s > 0.1:
        s = s * 0.7
        count += int((x > s).sum())
    return s * count, count


def grows_beyond_a_float(x):
    product = 1
    for row in x:
        product = product * (int(np.sum(row > 0)) + 1) + np.argmax(row).item()
    return product


def indexes(x):
    s = 0.0
    for row in x:
        s = s + row[np.argmax(row).item()] + x[int(np.sum(row > 0))][0]
    return s


@pytest.mark.parametrize("fn", [counts_rows, counts_until, grows_beyond_a_float, indexes])
def test_items_in_loops(fn):
    f = compile_grad(fn)
    for x in np.random.default_rng(2).normal(size=(8, 24, 6)):
        assert same(f(x), fn(x))
