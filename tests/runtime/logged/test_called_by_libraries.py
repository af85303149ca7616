"""Functions, classes and objects of the user's that libraries call: what they read is in the log, and a change of it
makes another recording."""

from __future__ import annotations

import dataclasses
import functools
import string
import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from scipy.sparse.linalg import LinearOperator

import tracegrad as tg
from tracegrad import autograd, compile_grad
from tracegrad.autograd import Function, defvjp, primitive

X = np.array([0.3, 0.7, 1.1])
TIMES = np.linspace(0.0, 1.5, 4)
SET = SimpleNamespace(rate=1.5, pair=[1.0, 2.0], array=np.array([1.0, 2.0, 0.5]))


class Scaled(Function):
    """Reads a class, a module's object and an array."""

    factor = 3.0

    @staticmethod
    def forward(ctx: Any, x: Any, power: int = 2) -> Any:
        ctx.save_for_backward(x)
        ctx.power, ctx.pair = power, SET.pair
        return x**power * Scaled.factor

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * ctx.power * x ** (ctx.power - 1) * Scaled.factor * ctx.pair[1] / 2.0, None


@primitive
def lowest(x: Any) -> Any:
    return np.min(x) * 2.0


defvjp(lowest, lambda ans, x: lambda g: np.full(x.shape, g) * SET.rate * (x == ans / 2.0))


class Pair(typing.NamedTuple):
    rate: float
    other: float


PAIR, OTHER = Pair(1.5, 2.0), Pair(25, 5.0)


class Steep(stats.rv_continuous):
    rate = 2.0

    def _pdf(self, x: Any, a: Any) -> Any:
        return self.rate * a * np.exp(-a * self.rate * x)


class Diagonal(LinearOperator):
    def __init__(self, d: Any) -> None:
        self.d = d
        super().__init__(np.dtype(float), (3, 3))

    def _matvec(self, v: Any) -> Any:
        return self.d * v.ravel()


@dataclasses.dataclass
class Params:
    k: float
    c: Any


class Model:
    """Stands for a function, and has methods."""

    def __init__(self) -> None:
        self.w, self.b = np.eye(3) * 0.5, 0.1

    def forward(self, x: Any) -> Any:
        return np.tanh(self.w @ x + self.b)

    def __call__(self, x: Any) -> Any:
        return np.sum(self.forward(x) ** 2)


def falls(t: Any, y: Any) -> Any:
    return y[0] - 0.5


falls.terminal = True  # type: ignore[attr-defined]
STEEP, DIAGONAL, PARAMS, MODEL = Steep(a=0.0, name="steep"), Diagonal(np.ones(3)), Params(1.2, X * 2), Model()


@functools.singledispatch
def weight(value: Any) -> Any:
    return value * SET.rate


@weight.register
def _(value: list) -> Any:
    return sum(value)


@typing.runtime_checkable
class Forward(typing.Protocol):
    def forward(self, x: Any) -> Any: ...


def of_model(model: Model, x: Any) -> Any:
    return np.sum(model.forward(x) ** 2)


def with_event(x: Any) -> Any:
    found = integrate.solve_ivp(lambda t, y: [-x[0] * y[0]], (0.0, 3.0), [1.0], events=falls, t_eval=TIMES[:2])
    return found.y[0, -1] + found.t_events[0].sum() * (1 + found.status)


def decay(y: Any, t: Any, p: Params, x: Any) -> Any:
    return -p.k * y + x[0] * p.c[0]


def set_to(owner: Any, name: str, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(owner, name, value, raising=False)


def registers(patch: pytest.MonkeyPatch) -> None:
    weight.register(np.float64, lambda value: value * 100)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Callable[[pytest.MonkeyPatch], None]]]] = {
    "Function": (
        lambda x: np.sum(Scaled.apply(x) * x),
        [set_to(Scaled, "factor", 2.0), set_to(SET, "pair", [1.0, 5.0]), lambda _: SET.pair.__setitem__(1, 7.0)],
    ),
    "primitive": (lambda x: lowest(x * x) + lowest(x), [set_to(SET, "rate", 2.5)]),
    "distribution": (
        lambda x: np.sum(STEEP.logpdf(x, 1.3)) + STEEP.cdf(x[0], 1.3),
        [
            set_to(STEEP, "rate", 3.0),
            set_to(Steep, "_pdf", lambda self, x, a: a * np.exp(-a * x)),
            set_to(Steep, "_logpdf", lambda self, x, a: -a * x),
        ],
    ),
    "frozen distribution": (lambda x: np.sum(STEEP(1.3).logpdf(x)), [set_to(STEEP, "rate", 3.0)]),
    "operator": (
        lambda x: np.sum(DIAGONAL.matvec(x) * x) + np.sum(DIAGONAL @ x),
        [lambda _: DIAGONAL.d.__setitem__(0, 4.0), set_to(DIAGONAL, "d", X * 3)],
    ),
    "args": (
        lambda x: np.sum(integrate.odeint(decay, 1.0, TIMES, args=(PARAMS, x))),
        [set_to(PARAMS, "k", 0.7), lambda _: PARAMS.c.__setitem__(0, 4.0)],
    ),
    "args that are one object": (
        lambda x: integrate.quad(lambda t, p: np.exp(-t * p.k) * x[0], 0, 1, args=PARAMS)[0],
        [set_to(PARAMS, "k", 0.7)],
    ),
    "an object as a function": (lambda x: autograd.grad(MODEL)(x).sum() + MODEL(x), [set_to(MODEL, "b", 0.4)]),
    "an object as a function of SciPy's": (
        lambda x: optimize.minimize(MODEL, x, method="BFGS").x.sum(),
        [set_to(MODEL, "b", 0.4)],
    ),
    "the gradient of an object": (lambda x: np.sum(autograd.grad(of_model)(MODEL, x).w), [set_to(MODEL, "b", 0.4)]),
    "a Jacobian beside an object": (
        lambda x: np.sum(autograd.jacobian(of_model, 1)(MODEL, x)),
        [set_to(MODEL, "w", np.eye(3))],
    ),
    "a batch of an object": (lambda x: np.sum(autograd.vmap(MODEL)(np.stack([x, 2 * x]))), [set_to(MODEL, "b", 0.4)]),
    "attributes of an event": (with_event, [set_to(falls, "terminal", False), set_to(falls, "direction", 1)]),
    "a list that a callback returns": (
        lambda x: x[0] * tg.cond(x[0] > 0, lambda: SET.pair, lambda: [0.0, 0.0])[1],
        [lambda _: SET.pair.__setitem__(1, 9.0)],
    ),
    "a function that a callback returns": (
        lambda x: np.sum(tg.tree.map(lambda k: lambda v: v * SET.rate * k, [2.0])[0](x)),
        [set_to(SET, "rate", 3.0)],
    ),
    "a named tuple's fields": (
        lambda x: np.sum(x) * float(string.Formatter().format("{0.rate:.0f}{1.rate:.0f}", PAIR, OTHER)),
        [set_to(Pair, "rate", property(lambda pair: pair[1]))],
    ),
    "a method of text": (
        lambda x: np.sum(x) * float(str.format("{0.rate}", PAIR)),
        [set_to(Pair, "rate", property(lambda pair: pair[1]))],
    ),
    "by class": (lambda x: np.sum(weight(x)) + weight([x[0]]) + weight(x[0]), [set_to(SET, "rate", 3.0), registers]),
    "a protocol": (
        lambda x: np.sum(x) * (2.0 if isinstance(MODEL, Forward) and not isinstance(x, typing.SupportsBytes) else 3.0),
        [lambda patch: patch.delattr(Model, "forward")],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_read_is_in_the_log(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, changes = PROGRAMS[name]
    monkeypatch.setattr(SET, "pair", [*SET.pair])
    compiled = compile_grad(function)
    for change in (lambda _: None, *changes):
        change(monkeypatch)
        fresh = compile_grad(lambda x, f=function: f(x))
        for x in (X, X * 1.1):
            np.testing.assert_allclose(compiled(x), fresh(x), rtol=1e-9)
            np.testing.assert_allclose(compiled.grad(x), fresh.grad(x), rtol=1e-9)
        if name not in ("Function", "primitive"):  # which run on traced values, or have rules of their own
            np.testing.assert_allclose(compiled(X), function(X), rtol=1e-4)
        traces = compiled.stats.traces
        compiled(X * 1.05)
        assert not compiled.stats.live and compiled.stats.traces == traces
