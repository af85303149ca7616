"""Numbers of the outside state that the caller changes: numbers of the run where Python only computes with them."""

from __future__ import annotations

import dataclasses
import json
import types

import numpy as np
import pytest
from int_programs import same

import tracegrad
from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.linspace(0.5, 2.0, 7)
K = 3


class Model:
    def __init__(self, k=3):
        self.k, self.calls, self.last = k, 0, None

    def scaled(self, x):
        return np.sum(x) * self.k + 1 / (self.k**2 + 1), self.k - 1

    def counted(self, x):
        self.calls += self.k
        self.last = 2 * self.k
        return np.sum(x) * self.k


class Slots:
    __slots__ = ("k",)


@dataclasses.dataclass
class Settings:
    k: int = 3
    name: str = "a"


def attribute():
    one = Model()
    return one.scaled, lambda k: setattr(one, "k", k)


def beside_effects():
    one = Model()
    return (lambda x: (one.counted(x), one.calls)), lambda k: setattr(one, "k", k)


def item_of_a_dict():
    config = {"k": 3, "name": "a"}
    return (lambda x: np.sum(x) * config["k"] - config["k"] % 4), lambda k: config.update(k=k)


def item_of_a_list():
    values = [1.5, 3, "a"]
    return (lambda x: np.sum(x) * values[1] + values[0]), lambda k: values.__setitem__(1, k)


def outer_variable():
    k = 3

    def change(new):
        nonlocal k
        k = new

    return (lambda x: np.mean(x) / (k * k + 1) + k // 3), change


def a_global():
    def change(new):
        global K
        K = new

    change(3)
    return (lambda x: helper(x) * K), change


def helper(x):
    return np.sum(x) + K


def in_slots():
    one = Slots()
    one.k = 3
    return (lambda x: np.sum(x) * one.k), lambda k: setattr(one, "k", k)


def of_a_dataclass_in_a_namespace():
    space = types.SimpleNamespace(settings=Settings())
    return (lambda x: (np.sum(x) * space.settings.k, space.settings.name)), lambda k: setattr(space.settings, "k", k)


def several_arguments_deep():
    one = Model()

    def call(x, model=one):
        return np.sum(x) * model.k

    return call, lambda k: setattr(one, "k", k)


COMPUTES = [
    attribute, beside_effects, item_of_a_dict, item_of_a_list, outer_variable, a_global, in_slots,
    of_a_dataclass_in_a_namespace, several_arguments_deep,
]  # fmt: skip


def compiled_over(make, values):
    """The compiled function, which has given what the plain one gives for each of these *values*."""
    (plain, change_plain), (fn, change) = make(), make()
    compiled, found = compile_grad(fn), []
    for k in values:
        change(k)
        found.append(compiled(X))
    for k, result in zip(values, found, strict=True):
        change_plain(k)
        assert same(plain(X), result), k
    return compiled


@pytest.mark.parametrize("make", COMPUTES)
def test_ints_that_vary_are_numbers_of_the_run(make):
    compiled = compiled_over(make, [*range(3, 40), 0, -5, 65535, 3])
    assert compiled.stats.traces <= 4, compiled.stats
    assert any("from now on a number of the run" in reason for reason in compiled.stats.retraces)


@pytest.mark.parametrize("make", COMPUTES)
def test_other_types_and_sizes_are_compared_by_value(make):
    compiled_over(make, [1, 2, 3, 2.5, 4, True, False, 2**31 + 1, 2**62, 5, np.int64(7), 2**31, 70000, 1])


FLOATS = [1.5, 2.25, 3.5, 0.1, -7.0, 0.0, 1e300, 2.5, *[k + 0.125 for k in range(20)], 1.5]


@pytest.mark.parametrize("make", [m for m in COMPUTES if m not in (attribute, beside_effects)])
def test_floats_that_vary_are_numbers_of_the_run(make):
    compiled = compiled_over(make, FLOATS)
    assert compiled.stats.traces <= 4, compiled.stats
    assert any("from now on a number of the run" in reason for reason in compiled.stats.retraces)


@pytest.mark.parametrize("make", COMPUTES)
def test_floats_of_every_kind_are_computed_with_as_plain_ones(make):
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, np.float64(2.5), np.float32(1.5), 3, True, 2.5]
    (plain, change_plain), (fn, change) = make(), make()
    compiled = compile_grad(fn)
    for k in [1.5, 2.5, 3.5, *special, *special]:
        change(k)
        found = compiled(X)
        change_plain(k)
        for a, b in zip(np.atleast_1d(plain(X)), np.atleast_1d(found), strict=True):
            assert a == b or (a != a and b != b), k


FLOATS_ASKED = {
    "branch": lambda self, x: np.sum(x) if self.k > 4 else np.sum(x) * self.k,
    "int": lambda self, x: sum(np.sum(x) for _ in range(int(min(abs(self.k), 9)))) + 0.0,
    "text": lambda self, x: np.sum(x) * len(f"{self.k:.3f}"),
    "json": lambda self, x: np.sum(x) * len(json.dumps({"k": self.k})),
    "key": lambda self, x: np.sum(x) * {1.5: 2, 2.5: 3}.get(self.k, 7),
    "method": lambda self, x: np.sum(x) * (2 if self.k.is_integer() else 3),
    "the very object": lambda self, x: (np.sum(x), self.k),
    "an array": lambda self, x: np.sum(np.array([self.k, 1.0, self.k * 2])) * x[0],
    "division": lambda self, x: np.sum(x) / (self.k - 2.5) if self.k != 2.5 else x[0],
}


@pytest.mark.parametrize("name", FLOATS_ASKED)
def test_floats_that_are_asked_for(name):
    one = Model()
    plain = FLOATS_ASKED[name].__get__(one)
    compiled = compile_grad(plain)
    for _ in range(2):
        for k in FLOATS:
            one.k = k
            assert same(plain(X), compiled(X)), k
    assert not compiled.stats.live


ASKS = {
    "range": lambda self, x: sum(np.sum(x) for _ in range(self.k)),
    "index": lambda self, x: np.sum(x) * [1.0, 2.0, 4.0, 8.0][self.k % 4],
    "json": lambda self, x: np.sum(x) * len(json.dumps({"k": self.k})),
    "text": lambda self, x: np.sum(x) * len(f"{self.k}"),
    "key": lambda self, x: np.sum(x) * {k: k for k in range(50)}[self.k],
    "identity": lambda self, x: np.sum(x) * (100 if self.k is 5 else 1),  # noqa: F632
    "shape": lambda self, x: np.sum(np.ones(self.k)) * x[0],
    "too great": lambda self, x: np.sum(x) + self.k**9 % 1000003,
    "of a float": lambda self, x: sum(np.sum(x) for _ in range(int(self.k / 2))) + 0.0,
}


@pytest.mark.parametrize("name", ASKS)
def test_ints_that_are_asked_for_are_compared_by_value(name):
    one = Model()
    plain = ASKS[name].__get__(one)
    compiled = compile_grad(plain)
    for _ in range(2):
        for k in (1, 2, 3, 5, 8, 13, 21, 5, 34, 1):
            one.k = k
            assert same(plain(X), compiled(X)), k
    assert not compiled.stats.live


def test_exceptions_are_those_of_plain_ints():
    one = Model()

    def checked(x):
        if not 0 <= one.k < 10:
            raise ValueError(f"{one.k} is no digit")
        return np.sum(x) / (one.k - 4)

    compiled = compile_grad(checked)
    for k in (1, 2, 3, 12, 4, 5, 13, 4, 6, -1):
        one.k = k
        seen = []
        for call in (checked, compiled):
            try:
                seen.append(call(X))
            except (ValueError, ZeroDivisionError) as error:
                seen.append(str(error))
        assert same(*seen), k


def test_ints_that_a_step_reads():
    seen = []
    for make in (lambda f: f, tracegrad.compile):
        one, x = Model(), tracegrad.tensor(X)

        def fn(x, one=one):
            one.calls += 1
            one.last = one.k + one.calls
            return (x * one.k).sum() / (one.k + 1), one.k * 2

        step, results = make(fn), []
        for k in [*range(30), 3, 65536]:
            one.k = k
            results.append((step(x), one.last))
        seen.append(results)
    assert same(*seen)
    assert not step.stats.live
    assert step.stats.traces <= 4


RATE = 0.5


def rate_in_a_dict():
    config = {"lr": 0.1, "decay": 1e-3}
    return lambda: (config["lr"], config["decay"]), lambda lr: config.update(lr=lr)


def rate_in_a_dataclass():
    config = Settings(0.1)
    return lambda: (config.k, 0.0), lambda lr: setattr(config, "k", lr)


def a_global_rate():
    def change(lr):
        global RATE
        RATE = lr

    return lambda: (RATE, 1e-3), change


@pytest.mark.parametrize("make", [rate_in_a_dict, rate_in_a_dataclass, a_global_rate])
def test_rates_by_hand_that_a_step_reads(make):
    seen = []
    for wrap in (lambda f: f, tracegrad.compile):
        rates, change = make()
        w, x = tracegrad.tensor(X.copy(), requires_grad=True), tracegrad.tensor(X)

        def fn(x, w=w, rates=rates):
            loss = ((w * x - 1) ** 2).sum()
            loss.backward()
            lr, decay = rates()
            with tracegrad.no_grad():
                w -= lr * (w.grad + decay * w)
            w.grad = None
            return loss.detach()

        step = wrap(fn)
        results = []
        for k in range(20):
            change(0.05 * 0.97**k)
            results.append(step(x).item())
        seen.append((results, w.detach().numpy().copy()))
    np.testing.assert_allclose(seen[1][0], seen[0][0], rtol=1e-12)
    np.testing.assert_allclose(seen[1][1], seen[0][1], rtol=1e-12)
    assert not step.stats.live
    assert step.stats.traces <= 4, step.stats
