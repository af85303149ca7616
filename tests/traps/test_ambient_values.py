# ruff: noqa: B039, SIM401  (what must be noticed is a change of the default)
"""Values that stand around a call: context variables and the environment are compared in each call."""

from __future__ import annotations

import contextvars
import os
import threading
from os import environ, getenv

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, 0.5])
NAME = "TRACEGRAD_TEST_AMBIENT"


@pytest.fixture(autouse=True)
def no_trace():
    yield
    os.environ.pop(NAME, None)


def follows(plain, *changes):
    """The compiled function agrees with *plain* after each change, and is replayed in between."""
    f = compile_grad(plain)
    for change in (lambda: None, *changes):
        change()
        for _ in range(3):
            assert f(X) == pytest.approx(plain(X))
        traces = f.stats.traces
        assert f(X) == pytest.approx(plain(X)) and f.stats.traces == traces
    assert f.stats.live == ""


class Config:
    def __init__(self, rate):
        self.rate = rate


def test_a_number_in_a_context_variable():
    rate = contextvars.ContextVar("rate", default=1.0)
    follows(lambda x: np.sum(x) * rate.get(), lambda: rate.set(2.0), lambda: rate.set(3.0), lambda: rate.set(1.0))


def test_a_context_variable_without_a_value():
    rate = contextvars.ContextVar("rate")

    def f(x):
        try:
            return np.sum(x) * rate.get()
        except LookupError:
            return np.sum(x * x) * rate.get(2.0)

    follows(f, lambda: rate.set(3.0))


def test_what_a_context_variable_holds_counts():
    config = contextvars.ContextVar("config", default=Config(1.0))
    follows(lambda x: np.sum(x) * config.get().rate, lambda: setattr(config.get(), "rate", 4.0))
    table = contextvars.ContextVar("table", default={"rate": 1.0})
    follows(lambda x: np.sum(x) * table.get()["rate"], lambda: table.get().update(rate=4.0))
    weights = contextvars.ContextVar("weights", default=np.ones(2))
    follows(lambda x: np.sum(x * weights.get()), lambda: weights.get().__setitem__(0, 4.0))


def test_a_context_variable_of_an_object():
    class Model:
        def __init__(self):
            self.rate = contextvars.ContextVar("rate", default=1.0)

        def f(self, x):
            return np.sum(x) * self.rate.get()

    model = Model()
    follows(model.f, lambda: model.rate.set(2.0))


def test_each_context_has_its_own_value():
    rate = contextvars.ContextVar("rate", default=1.0)
    f, found = compile_grad(lambda x: np.sum(x) * rate.get()), []
    for _ in range(3):
        f(X)

    def other():
        rate.set(5.0)
        found.append(f(X))

    for _ in range(3):
        contextvars.copy_context().run(other)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert f(X) == pytest.approx(X.sum())
    assert found == pytest.approx([5.0 * X.sum()] * 6)


def test_a_function_that_sets_a_context_variable():
    seen = contextvars.ContextVar("seen", default=0)

    def counts(x):
        seen.set(seen.get() + 1)
        return np.sum(x) * seen.get()

    def resets(x):
        token = seen.set(7)
        try:
            return np.sum(x) * seen.get()
        finally:
            seen.reset(token)

    for plain in (counts, resets):
        f = compile_grad(plain)
        seen.set(0)
        want = [plain(X) for _ in range(4)]
        seen.set(0)
        assert [f(X) for _ in range(4)] == pytest.approx(want)
        assert seen.get() == (4 if plain is counts else 0)


@pytest.mark.parametrize(
    "read",
    [
        lambda: os.environ.get(NAME, "1"), lambda: os.getenv(NAME, "1"), lambda: environ.get(NAME, "1"),
        lambda: getenv(NAME, "1"), lambda: environ[NAME] if NAME in environ else "1",
        lambda: dict(os.environ).get(NAME, "1"),
    ],
)  # fmt: skip
def test_the_environment(read):
    def f(x):
        return np.sum(x) * float(read())

    def put(value):
        return lambda: os.environ.__setitem__(NAME, value)

    follows(f, put("2"), put("3"), lambda: os.environ.pop(NAME), put("2"))


def test_an_environment_that_is_as_it_was_is_known():
    f = compile_grad(lambda x: np.sum(x) * float(os.environ.get(NAME, "1")))
    for value in ("2", "3"):
        os.environ[NAME] = value
        assert f(X) == f(X) == pytest.approx(X.sum() * float(value))
    traces = f.stats.traces
    for value in ("2", "3", "2"):
        os.environ[NAME] = "".join([*value])
        os.environ.update(os.environ.copy())
        assert f(X) == f(X) == pytest.approx(X.sum() * float(value))
    assert f.stats.traces == traces


@pytest.mark.parametrize("kind", [dict, lambda names: type(os.environ)(names, str, str, str, str)])
def test_another_mapping_in_place_of_the_environment(kind, monkeypatch):
    f = compile_grad(lambda x: np.sum(x) * float(os.getenv(NAME, "1")))
    assert f(X) == f(X) == f(X) == pytest.approx(X.sum())
    monkeypatch.setattr(os, "environ", kind({NAME: "2"}))
    assert f(X) == f(X) == f(X) == pytest.approx(2 * X.sum())
    monkeypatch.undo()
    assert f(X) == f(X) == pytest.approx(X.sum())


def test_a_function_that_changes_the_environment():
    def plain(x):
        os.environ[NAME] = str(int(os.environ.get(NAME, "0")) + 1)
        return np.sum(x) * int(os.environ[NAME])

    f = compile_grad(plain)
    assert [f(X) for _ in range(4)] == pytest.approx([X.sum() * k for k in (1, 2, 3, 4)])
    assert os.environ[NAME] == "4"
