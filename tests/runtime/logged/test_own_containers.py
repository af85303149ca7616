"""Objects of the user's subclasses of ``list`` and ``dict``, and ends of lists that grow, in functions and steps."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import tracegrad
from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")


class AttrDict(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class ByCode(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setitem__(self, key, value):
        super().__setitem__(key, value if key == "n" else [value])

    def __contains__(self, key):
        return key == "yes" or super().__contains__(key)


class Missing(dict):
    def __missing__(self, key):
        self[key] = 2.0
        return 3.0

    def add(self, key, value):
        self.setdefault(key, []).append(value)

    def update(self, **more):
        super().update(**more, updated=True)


class Mixin:
    def twice(self, value):
        self.append(value)
        self.append(value * 2)
        return self


class History(Mixin, list):
    def __init__(self, name):
        self.name, self.best = name, np.inf

    def append(self, value):
        self.best = min(self.best, value)
        super().append(value)

    def mean(self, n=None):
        return sum(self[-n:] if n else self) / max(1, len(self))

    def __str__(self):
        return f"{self.name}: {len(self)}"


def attributes(x):
    d.n += 1
    d.v = x[0] * d.n
    d["list"].append(x[1])
    del d["gone"]
    d.gone = d.v
    return sum(d.list[-2:]) + np.sum(d.w * x)


def by_code(x):
    e["n"] = e.n + 1
    e["v"] = x[0]
    return e.v[0] * (2.0 if "yes" in e and "no" not in e else 1.0) + len(e)


def with_missing(x):
    m.add("x", x[0])
    a = m["none"] + m["none"]
    m.update(last=x[1])
    return a * x[0] + len({**m}["x"])


def history(x):
    h.twice(x[0] + 3)
    h.append(x[1] * 1.0)
    print(h, repr(h[-1:]))
    h.extend([x[0]])
    return h.best * h.mean(3)


def all_of_it(x):
    h.append(x[0])
    h[0] = x[1] * 1.0
    if len(h) > 3:
        h.pop(1)
    return h.mean() + sum(value for value in h) + (x[0] in h) + max(h)


def in_place(x):
    global h
    h += [x[0], x[1]]
    h.reverse()
    return np.sum(x) + h[0] + len(h[1:])


def ends(x):
    last = rows[-1] if rows else 0.0
    rows.append(x[0] + 0.5 * last)
    return rows[-1] + rows[-2] + sum(rows[-3:]) if len(rows) > 1 else rows[-1]


def last_arrays(x):
    before = arrays[-1]
    arrays.append(x * 2 + before)
    return np.sum(arrays[-1] * arrays[-2])


PROGRAMS = [attributes, by_code, with_missing, history, all_of_it, in_place, ends, last_arrays]


def _fresh():
    global d, e, m, h, rows, arrays
    d = AttrDict(n=0, v=None, w=np.ones(2), list=[1.0], gone=1)
    e, m, h, rows, arrays = ByCode(n=1), Missing(), History("h"), [], [np.zeros(2)]


def _held():
    return dict(d), dict(e), dict(m), list(h), vars(h), rows, arrays


@pytest.mark.parametrize("function", PROGRAMS)
def test_it_does_what_python_does(function):
    found, calls = [], compile_grad(function)
    for call in (calls, function):
        _fresh()
        found.append([])
        for k in (5, 3, 4, 2, 1, 6, 2, 7, 3):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                value = call(np.arange(2.0) + k)
            found[-1].append((value, out.getvalue()))
        found[-1].append(_held())
    np.testing.assert_equal(found[0], found[1])
    if function not in (all_of_it, in_place):
        assert not calls.stats.live


CHANGES = {
    "an item": (attributes, lambda: d.update(n=10)),
    "a method": (history, lambda: setattr(History, "mean", lambda self, n: 1.0)),
    "a special method": (history, lambda: setattr(History, "__len__", lambda self: 7)),
    "an item method": (by_code, lambda: setattr(ByCode, "__contains__", lambda self, key: False)),
    "a method that was none": (by_code, lambda: setattr(ByCode, "__len__", lambda self: 7)),
    "a missing key": (with_missing, lambda: m.pop("none")),
    "a shorter list": (ends, lambda: rows.clear()),
    "a longer list": (ends, lambda: rows.extend([1.0, 2.0])),
    "another kind of element": (ends, lambda: rows.append(np.ones(()))),
    "another array": (last_arrays, lambda: arrays.append(np.ones((2, 1)))),
    "an array in place": (last_arrays, lambda: arrays[-1].fill(3.0)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_from_outside_are_seen(name):
    function, change = CHANGES[name]
    found = []
    for call in (compile_grad(function), function):
        kept = {cls: dict(vars(cls)) for cls in (History, ByCode, Missing)}
        _fresh()
        found.append([])
        try:
            for k in (5, 3, 4, 2, 1, 6, 2):
                if k == 1:
                    change()
                with contextlib.redirect_stdout(io.StringIO()):
                    found[-1].append(call(np.arange(2.0) + k))
        finally:
            for cls, before in kept.items():
                for name in [name for name in vars(cls) if name not in before]:
                    delattr(cls, name)
                for name in [name for name in before if vars(cls)[name] is not before[name]]:
                    setattr(cls, name, before[name])
        found[-1].append(_held())
    np.testing.assert_equal(found[0], found[1])


def test_a_history_among_the_arguments():
    def function(x, history):
        history.append(x[0])
        return np.sum(x) + history.best + history[-1]

    found = []
    compiled = compile_grad(function)
    for call in (compiled, function):
        one, other = History("a"), History("b")
        found.append([])
        for k in range(8):
            found[-1].append(call(np.arange(2.0) - k, one if k % 3 else other))
        found[-1] += [list(one), vars(one), list(other), vars(other)]
    assert found[0] == found[1] and not compiled.stats.live


def test_steps_keep_histories():
    w = tracegrad.tensor(np.ones(3), requires_grad=True)

    def step(x):
        loss = ((w * x) ** 2).sum()
        loss.backward()
        with tracegrad.no_grad():
            w.sub_(0.1 * w.grad)
            w.grad = None
        slower = len(losses) > 1 and losses[-1] > losses[-2]
        losses.append(loss.item())
        kept.history.append(loss.item())
        kept.n += 1
        kept.slower = slower
        return loss

    found, compiled = [], tracegrad.compile(step)
    for call in (compiled, step):
        w.data[...] = 1.0
        losses, kept = [], AttrDict(history=History("h"), n=0, slower=None)
        values = [call(tracegrad.tensor(np.arange(3.0) / (2 + k % 3))).item() for k in range(9)]
        found.append((values, losses, list(kept.history), kept.history.best, kept.n, kept.slower))
    np.testing.assert_allclose(np.hstack(found[0]), np.hstack(found[1]), rtol=1e-12)
    assert not compiled.stats.live


def test_a_live_run_asks_no_attribute_of_objects_among_the_globals():
    def function(x):
        total = np.sum(x)
        d.list.append(total)
        print(d)  # all of the list is read that grows
        return total

    found = []
    compiled = compile_grad(function)
    for call in (compiled, function):
        _fresh()
        del d["w"]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found.append([call(np.arange(2.0) + k) for k in range(10)])
        found[-1] += [*d.list, out.getvalue()]
    assert found[0] == found[1] and compiled.stats.live
