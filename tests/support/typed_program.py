"""A user's program with annotations, which mypy --strict and pyright accept: tests/project/test_typing.py.

``assert_type`` says what a checker infers; a line with ``type: ignore`` is one that it has to refuse.
"""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import tracegrad
from tracegrad import CompiledFunction, autograd, compile_grad, nn, optim, vmap
from tracegrad.autograd import hessian, hvp, jacobian, jvp, linearize, value_and_grad, vjp

Array = NDArray[np.float64]


@compile_grad
def loss(w: Array, X: Array, rate: float = 1.0) -> float:
    return float(np.sum((X @ w) ** 2) * rate)


@compile_grad(argnums=(0, 1), static_argnames="power")
def scaled(w: Array, scale: float, power: int) -> float:
    return float(np.sum(w * scale) ** power)


@compile_grad(has_aux=True)
def with_aux(w: Array) -> tuple[float, Array]:
    return float(np.sum(w)), w


class Model:
    def __init__(self, X: Array) -> None:
        self.X = X

    @compile_grad
    def loss(self, w: Array) -> float:
        return float(np.sum(self.X @ w))


def values(w: Array, X: Array) -> None:
    assert_type(loss(w, X), float)
    assert_type(loss(w, X, rate=2.0), float)
    value, gradient = loss.value_and_grad(w, X)
    assert_type(value, float)
    step: Array = w - 0.1 * gradient
    again: Array = loss.grad(step, X)
    print(loss.hessian(again, X), loss.jacobian(w, X), loss.hvp(w, step, X))
    report: str = loss.explain(w, X)
    print(report, loss.stats.calls)
    scaled.value_and_grad(w, 2.0, power=3)
    (of_loss, aux), of_w = with_aux.value_and_grad(w)
    assert_type(of_loss, float)
    assert_type(aux, Array)
    print(of_w)


def refused(w: Array, X: Array) -> None:
    loss(w)  # type: ignore[call-arg]
    loss.grad(w, X, speed=2.0)  # type: ignore[call-arg]
    loss.value_and_grad(w, "X")  # type: ignore[arg-type]
    Model(X).loss.grad(w, w)  # type: ignore[call-arg]
    autograd.grad(loss)(w)  # type: ignore[call-arg]
    tracegrad.ones(3).cumsumm(0)  # type: ignore[attr-defined]
    tracegrad.ones(3).diagonal(offest=1)  # type: ignore[call-arg]
    tracegrad.cumsum(tracegrad.ones(3), "0")  # type: ignore[arg-type]


def methods(w: Array, X: Array) -> None:
    model = Model(X)
    assert_type(model.loss(w), float)
    assert_type(model.loss.value_and_grad(w), tuple[float, Any])
    assert_type(Model.loss(model, w), float)
    gradient: Array = model.loss.grad(w)
    print(gradient)


def transforms(w: Array, X: Array) -> None:
    def residuals(w: Array, X: Array) -> Array:
        return X @ w

    of_w: Array = autograd.grad(loss)(w, X)
    assert_type(value_and_grad(loss)(w, X, 2.0), tuple[float, Any])
    matrix: Array = jacobian(residuals)(w, X)
    second: Array = hessian(loss)(w, X)
    product: Array = hvp(loss)(w, w, X)
    rows: Array = vmap(residuals, (None, 0))(w, X)
    assert_type(jvp(residuals, (w, X), (w, X)), tuple[Array, Array])
    value, push = linearize(residuals, w, X)
    assert_type(value, Array)
    out, pull = vjp(residuals, w, X)
    (cotangent, _) = pull(out)
    print(of_w, matrix, second, product, rows, push(w, X), cotangent)


@tracegrad.custom_vjp
def clipped(x: Array) -> Array:
    return np.asarray(np.clip(x, -1.0, 1.0))


clipped.defvjp(lambda x: (clipped(x), None), lambda res, g: (g,))


@tracegrad.checkpoint
def layer(w: Array, x: Array) -> Array:
    return np.tanh(w @ x)


def fits(f: Callable[[Array], float], x: Array) -> float:
    return f(x)


def rules(x: Array) -> None:
    assert_type(clipped(x), Array)
    assert_type(layer(x, x), Array)
    compiled: CompiledFunction[[Array], float] = compile_grad(lambda x: float(np.sum(x)))
    print(fits(compiled, x), fits(Model(x).loss, x))


def steps() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    @tracegrad.compile
    def step(inputs: tracegrad.Tensor) -> tracegrad.Tensor:
        optimizer.zero_grad()
        cost: tracegrad.Tensor = (model(inputs) ** 2).mean()
        cost.backward()
        optimizer.step()
        return cost

    print(step(tracegrad.randn(5, 3)).item(), step.stats.calls)


def tensors() -> None:
    x = tracegrad.randn(3, requires_grad=True)
    assert_type((2.0 * x - x[0]).exp().sum(), tracegrad.Tensor)
    assert_type(tracegrad.zeros(3), tracegrad.Tensor)
    assert_type(tracegrad.sin(x), tracegrad.Tensor)
    assert_type(x.cumsum(dim=0), tracegrad.Tensor)
    assert_type(tracegrad.sum(x, axis=(0,), keepdims=True), tracegrad.Tensor)
    assert_type(tracegrad.allclose(x, x), bool)
    assert_type(x.chunk(2), tuple[tracegrad.Tensor, ...])
    assert_type(x.grad, tracegrad.Tensor | None)
