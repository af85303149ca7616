"""Tracebacks end at the user's line, and hide nothing of a defect."""

from __future__ import annotations

import inspect
import traceback

import numpy as np
import pytest

import tracegrad
from tracegrad import autograd, compile_grad
from tracegrad.tracer.ir.site import OWN_FOLDER
from tracegrad.tracer.ir.tracebacks import VARIABLE, shortened

X = np.arange(1.0, 6.0)


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def own_frames(error):
    return [f.name for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(OWN_FOLDER)]


def raised(call, kind=Exception):
    with pytest.raises(kind) as caught:
        call()
    return caught.value


def misfit(w):
    return np.sum(w * np.ones(3))


class Model:
    @compile_grad
    def loss(self, w):
        return misfit(w)


CALLS = {
    "value": lambda: compile_grad(misfit)(X),
    "grad": lambda: compile_grad(misfit).grad(X),
    "value_and_grad": lambda: compile_grad(misfit).value_and_grad(X),
    "hessian": lambda: compile_grad(misfit).hessian(X),
    "explain": lambda: compile_grad(misfit).explain(X),
    "a method": lambda: Model().loss.grad(X),
    "autograd.grad": lambda: autograd.grad(misfit)(X),
    "a transform": lambda: autograd.jacobian(misfit)(X),
    "vmap": lambda: tracegrad.vmap(misfit)(np.ones((2, 5))),
    "within another": lambda: compile_grad(lambda w: compile_grad(misfit)(w) + 1.0).grad(X),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_last_frame_is_the_users(name):
    error = raised(CALLS[name], tracegrad.ShapeError)
    assert own_frames(error) == []
    assert traceback.extract_tb(error.__traceback__)[-1].name == "misfit"


def test_steps_and_backward():
    @tracegrad.compile
    def step(t):
        return (t * t).backward()

    t = tracegrad.tensor(X, requires_grad=True)
    assert own_frames(raised(lambda: step(t), RuntimeError)) == []
    assert own_frames(raised((t * t).backward, RuntimeError)) == []


def test_the_variable_shows_all(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    assert len(own_frames(raised(CALLS["grad"]))) > 8


def test_exceptions_of_the_users_own_keep_their_frames():
    def inner(w):
        raise KeyError("mine")

    error = raised(lambda: compile_grad(lambda w: inner(w)).grad(X), KeyError)
    assert own_frames(error) == [] and traceback.extract_tb(error.__traceback__)[-1].name == "inner"
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize(
    "call",
    [
        lambda: compile_grad(lambda w, y: np.sum(w * y)).grad(X),  # an argument is missing
        lambda: compile_grad(lambda w: min(set()) * np.sum(w))(X),
        lambda: compile_grad(lambda w: max(w[:0]) + np.sum(w)).grad(X),
        lambda: compile_grad(lambda w: sum(w, "a"))(X),
        lambda: compile_grad(lambda w: int("a") * np.sum(w)).grad(X),
        lambda: compile_grad(lambda w: float("a") * np.sum(w))(X),
    ],
)
def test_an_exception_that_python_raises_gets_no_note(call):
    error = raised(call, (TypeError, ValueError))
    assert own_frames(error) == [] and not hasattr(error, "__notes__")


def test_defects_are_shown_whole(monkeypatch):
    def broken(*args, **kwargs):
        return [][1]

    monkeypatch.setattr("tracegrad.tracer.ops.elementwise.broadcast", broken)
    error = raised(lambda: compile_grad(lambda w: np.sum(w * w)).grad(X), IndexError)
    assert traceback.extract_tb(error.__traceback__)[-1].name == "broken"
    code = broken.__code__.replace(co_filename=OWN_FOLDER + "defect.py")
    monkeypatch.setattr("tracegrad.tracer.ops.elementwise.broadcast", type(broken)(code, {}))
    assert own_frames(raised(lambda: compile_grad(lambda w: np.sum(w * w)).grad(X), IndexError))[-1] == "broken"


def test_internal_contexts_are_not_told():
    """An error that is raised while the library handles one of its own is told alone."""
    error = raised(CALLS["grad"])
    assert "During handling" not in "".join(traceback.format_exception(error))


def test_a_function_for_users_has_the_parameters_of_the_one_within():
    def f(a, /, b=2, *rest, function=3, _c, **others):
        return a, b, rest, function, _c, others

    def g(a, /, b, *, made=4):
        raise ValueError(a, b, made)

    outer = shortened(f)
    assert outer is not f and shortened(outer) is outer and inspect.signature(outer) == inspect.signature(f)
    assert outer(1, _c=0) == f(1, _c=0) == (1, 2, (), 3, 0, {})
    assert outer(1, 5, 6, 7, function=8, _c=9, d=10) == f(1, 5, 6, 7, function=8, _c=9, d=10)
    assert raised(lambda: shortened(g)(1, b=2), ValueError).args == (1, 2, 4)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: '_c'"):
        outer(1)
