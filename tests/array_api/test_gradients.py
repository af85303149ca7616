"""Functions of the namespace are differentiated, on the tape and in compiled functions and steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import array_api as xp
from tracegrad import autograd

SMOOTH: dict[str, Callable[[Any], Any]] = {
    "sin": lambda x: xp.sin(x),
    "add": lambda x: xp.add(2, xp.multiply(x, 3.0)),
    "pow": lambda x: xp.pow(x, 2) + xp.pow(2.0, x) + xp.pow(x, x),
    "divide": lambda x: xp.divide(1, x),
    "atan2": lambda x: xp.atan2(x, 2.0),
    "logaddexp": lambda x: xp.logaddexp(x, -x),
    "hypot": lambda x: xp.hypot(x, x + 1),
    "where": lambda x: xp.where(x > 1, x * x, 0.0),
    "clip": lambda x: xp.clip(x, 0.7, xp.asarray(1.2)),
    "sum": lambda x: xp.sum(x, axis=1, dtype=xp.float64) ** 2,
    "prod": lambda x: xp.prod(x, axis=(0,)),
    "max": lambda x: xp.max(x, axis=1, keepdims=True) * x,
    "mean": lambda x: xp.mean(x, axis=0) ** 3,
    "std": lambda x: xp.std(x, axis=1, correction=1),
    "var": lambda x: xp.var(x, axis=-1),
    "cumulative_sum": lambda x: xp.cumulative_sum(x, axis=1, include_initial=True) ** 2,
    "cumulative_prod": lambda x: xp.cumulative_prod(x, axis=0),
    "diff": lambda x: xp.diff(x, axis=1, prepend=x[:, :1] * 2) ** 2,
    "matmul": lambda x: xp.matmul(x, xp.matrix_transpose(x)),
    "tensordot": lambda x: xp.tensordot(x, x, axes=((0,), (0,))),
    "vecdot": lambda x: xp.vecdot(x, x * x),
    "concat": lambda x: xp.concat([x, x * x], axis=1),
    "stack": lambda x: xp.stack([x, xp.exp(x)]),
    "reshape": lambda x: xp.reshape(x, (3, 2)) ** 2,
    "reshape copy": lambda x: xp.reshape(x, (3, 2), copy=True) ** 2,
    "permute_dims": lambda x: xp.permute_dims(x, (1, 0)) * xp.asarray([1.0, 2.0]),
    "flip": lambda x: xp.flip(x) * x,
    "roll": lambda x: xp.roll(x, (1, 1), axis=(0, 1)) * x,
    "repeat": lambda x: xp.repeat(x, xp.asarray([2, 1]), axis=0) ** 2,
    "tile": lambda x: xp.tile(x, (2, 1)) ** 2,
    "broadcast_to": lambda x: xp.broadcast_to(x, (4, 2, 3)) ** 2,
    "unstack": lambda x: xp.unstack(x, axis=1)[1] ** 2,
    "expand_dims": lambda x: xp.squeeze(xp.expand_dims(x, axis=1), axis=1) ** 2,
    "moveaxis": lambda x: xp.moveaxis(x, 0, 1) ** 2,
    "take": lambda x: xp.take(x, xp.asarray([0, 2, 2]), axis=1) ** 2,
    "take_along_axis": lambda x: xp.take_along_axis(x, xp.asarray([[2], [0]]), axis=1) ** 2,
    "sort": lambda x: xp.sort(x, axis=1, descending=True) * xp.asarray([1.0, 2.0, 3.0]),
    "unique_values": lambda x: xp.unique_values(x) * xp.arange(1.0, 7.0),
    "tril": lambda x: xp.tril(x) ** 2,
    "astype": lambda x: xp.astype(x, xp.float64, copy=True) ** 2,
    "asarray": lambda x: xp.asarray(x, copy=True) ** 2,
    "asarray of tensors": lambda x: xp.asarray([[x[0, 0], 1.0], [2, x[1, 2] * x[0, 0]]]) ** 2,
    "asarray of rows": lambda x: xp.asarray([x[1, :], x[0, :]], dtype=xp.float64) ** 2,
    "full": lambda x: xp.full((2, 2), x[0, 0]) ** 2 + xp.full_like(x[:, :2], x[1, 1]),
    "linspace": lambda x: xp.linspace(x[0, 0], 2.0, 4) ** 2,
    "meshgrid": lambda x: xp.meshgrid(x[0, :], x[1, :])[0] ** 2,
    "cholesky": lambda x: xp.linalg.cholesky(xp.matmul(x, x.T)),
    "inv": lambda x: xp.linalg.inv(xp.matmul(x, x.T)),
    "solve": lambda x: xp.linalg.solve(xp.matmul(x, x.T), x),
    "slogdet": lambda x: xp.linalg.slogdet(xp.matmul(x, x.T)).logabsdet,
    "eigvalsh": lambda x: xp.linalg.eigvalsh(xp.matmul(x, x.T)),
    "svd": lambda x: xp.linalg.svd(x, full_matrices=False).S,
    "qr": lambda x: xp.linalg.qr(x.T).R ** 2,
    "pinv": lambda x: xp.linalg.pinv(x),
    "vector_norm": lambda x: xp.linalg.vector_norm(x, axis=1),
    "matrix_norm": lambda x: xp.linalg.matrix_norm(x),
    "cross": lambda x: xp.linalg.cross(x, x * x),
    "trace": lambda x: xp.linalg.trace(x) ** 2,
    "diagonal": lambda x: xp.linalg.diagonal(x) ** 2,
}
if hasattr(xp, "complex128"):
    SMOOTH |= {
        "rfft": lambda x: xp.abs(xp.fft.rfft(x, axis=1)),
        "ifftn": lambda x: xp.real(xp.fft.ifftn(x + 2j * x)) ** 2,
        "irfft": lambda x: xp.fft.irfft(xp.astype(x, xp.complex128) * 1j, axis=1),
        "conj": lambda x: xp.imag(xp.conj(xp.exp(xp.multiply(x, 1j)))),
        "vecdot of complex": lambda x: xp.abs(xp.vecdot(x + 1j, 1j * x)),
    }
POINT = np.asarray([[0.5, 1.25, 0.75], [1.5, 0.9, 2.0]])


def numeric(f: Callable[[Any], Any], at: np.ndarray) -> np.ndarray:
    """Central differences of the weighted sum of *f*'s results."""
    result, step = np.empty_like(at), 1e-6
    for k in np.ndindex(at.shape):
        low, high = at.copy(), at.copy()
        low[k] -= step
        high[k] += step
        result[k] = (weighted(f, xp.asarray(high)).item() - weighted(f, xp.asarray(low)).item()) / (2 * step)
    return result


def weighted(f: Callable[[Any], Any], x: Any) -> Any:
    found = xp.reshape(f(x), (-1,))
    return xp.sum(found * xp.cos(xp.arange(float(found.shape[0]))))


@pytest.mark.parametrize("name", SMOOTH)
def test_backward(name: str) -> None:
    x = xp.asarray(POINT.copy()).requires_grad_()
    weighted(SMOOTH[name], x).backward()
    np.testing.assert_allclose(x.grad.numpy(), numeric(SMOOTH[name], POINT), 1e-5, 1e-6)


def standardised(x: Any) -> Any:
    """Code of a library that knows nothing of tracegrad."""
    space = x.__array_namespace__()
    centered = (x - space.mean(x, axis=0)) / space.std(x, axis=0, correction=1)
    return space.sum(space.tanh(centered) * x)


def test_a_compiled_step_replays_it() -> None:
    x = xp.asarray(POINT.copy()).requires_grad_()

    @tracegrad.compile
    def step() -> Any:
        x.grad = None
        loss = standardised(x)
        loss.backward()
        return loss

    for scale in (1.0, 2.0, 0.5, 3.0):
        with tracegrad.no_grad():
            x.mul_(scale)
        loss = step()
        y = x.detach().clone().requires_grad_()
        wanted = standardised(y)
        wanted.backward()
        np.testing.assert_allclose(loss.item(), wanted.item(), 1e-12)
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-9, 1e-12)
    assert step.stats.live == ""
    assert step.stats.traces == 1


def test_a_compiled_function_takes_it() -> None:
    """NumPy code has NumPy's namespace; functions of ours take its arrays while it is recorded."""

    @tracegrad.compile_grad
    def f(x: Any) -> Any:
        return standardised(x) + xp.sum(xp.concat([xp.sin(x), x * 0.5])) + xp.sum(xp.reshape(x, (-1,)) ** 2)

    value, gradient = f.value_and_grad(POINT)
    x = xp.asarray(POINT.copy()).requires_grad_()
    wanted = standardised(x) + xp.sum(xp.concat([xp.sin(x), x * 0.5])) + xp.sum(xp.reshape(x, (-1,)) ** 2)
    wanted.backward()
    np.testing.assert_allclose(value, wanted.item(), 1e-12)
    np.testing.assert_allclose(gradient, x.grad.numpy(), 1e-9)


def test_derivatives_of_derivatives() -> None:
    x = xp.asarray([0.5, 1.5]).requires_grad_()
    (first,) = autograd.grad(xp.sum(xp.sin(x) * xp.pow(x, 3)), x, create_graph=True)
    (second,) = autograd.grad(xp.sum(first), x)
    at = np.asarray([0.5, 1.5])
    np.testing.assert_allclose(second.numpy(), (6 * at - at**3) * np.sin(at) + 6 * at**2 * np.cos(at), 1e-12)


def test_writes_go_through_views() -> None:
    x = xp.asarray(POINT.copy())
    xp.permute_dims(x, (1, 0))[0, :] = 7.0
    assert x[:, 0].tolist() == [7.0, 7.0]


def test_a_loop_that_data_ends_may_call_it() -> None:
    """Its functions change nothing, so all numbers of turns are one recording."""

    @tracegrad.compile
    def grown(x: Any) -> Any:
        while xp.sum(x) < 100.0:
            x = xp.multiply(x, 1.5)
        return x

    for start in (1.0, 1.0, 1.0, 2.0, 5.0, 0.01):
        wanted = np.full(2, start)
        while wanted.sum() < 100.0:
            wanted *= 1.5
        np.testing.assert_allclose(grown(xp.asarray([start, start])).numpy(), wanted, 1e-12)
    assert grown.stats.traces == 1
