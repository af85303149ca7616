"""What is looked at on a GPU: value and gradient of losses that are large, launch-bound or full of matrix products.

Each is a ``Workload`` made for a size: ``WORKLOADS[name](n)``; ``FULL`` has the sizes of a real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from .workload import Workload
from .workloads import black_scholes, logistic, mlp, rosenbrock

COLUMNS = 4096  # of the matrices whose rows are normalised


def softmax(x, y):
    e = np.exp(x - np.max(x, 1, keepdims=True))
    return np.sum(e / np.sum(e, 1, keepdims=True) * y)


def softmax_by_hand(x, y):
    e = np.exp(x - np.max(x, 1, keepdims=True))
    p = e / np.sum(e, 1, keepdims=True)
    each = np.sum(p * y, 1, keepdims=True)
    return np.sum(each), p * (y - each)


def layer_norm(x, gain, bias, y):
    centred = x - np.mean(x, 1, keepdims=True)
    scale = np.sqrt(np.mean(centred * centred, 1, keepdims=True) + 1e-5)
    return np.sum((centred / scale * gain + bias) * y)


def small(x):
    return np.sum(np.sin(x) * x)


def small_by_hand(x):
    s = np.sin(x)
    return np.sum(s * x), s + np.cos(x) * x


def torch_layer_norm() -> Callable[..., Any]:
    from torch.nn import functional

    return lambda x, gain, bias, y: (functional.layer_norm(x, x.shape[1:], gain, bias) * y).sum()


def torch_softmax() -> Callable[..., Any]:
    return lambda x, y: (x.softmax(1) * y).sum()


def _options(n: int, dtype: str) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    spans = ((80.0, 120.0), (80.0, 120.0), (0.25, 2.0), (0.15, 0.5))
    kind = np.float32 if dtype == "float32" else np.float64
    return tuple(rng.random(n, kind) * kind(high - low) + kind(low) for low, high in spans)


def _numbers(n: int, dtype: str) -> tuple[np.ndarray, ...]:
    return (np.random.default_rng(0).random(n, np.float32 if dtype == "float32" else np.float64),)


def _matrices(n: int, with_scales: bool) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((-(-n // COLUMNS), COLUMNS), np.float32) for _ in range(2))
    scales = (np.ones(COLUMNS, np.float32), np.zeros(COLUMNS, np.float32)) if with_scales else ()
    return (x, *scales, y)


def _samples(n: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 100))
    return 0.1 * rng.standard_normal(100), X, np.where(X @ rng.standard_normal(100) > 0.0, 1.0, -1.0)


def _network(batch: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    layers = [
        ((rng.standard_normal(shape) * math.sqrt(2.0 / shape[0])).astype(np.float32), np.zeros(shape[1], np.float32))
        for shape in pairwise(mlp.LAYERS)
    ]
    return layers, rng.random((batch, mlp.LAYERS[0]), np.float32), rng.integers(0, mlp.LAYERS[-1], batch)


def _sized(
    name: str, fn: Callable[..., Any], make: Callable[..., tuple[Any, ...]], argnums: Any, more: dict[str, Any], n: int
) -> Workload:
    return Workload(name=name, group=name, fn=fn, make_args=partial(make, n), argnums=argnums, **more)


def _row(
    name: str, fn: Callable[..., Any], make: Callable[..., tuple[Any, ...]], argnums: Any, tolerance: float = 1e-6,
    **more: Any,
) -> Callable[[int], Workload]:  # fmt: skip
    """*more*: further fields of the ``Workload``."""
    return partial(_sized, name, fn, make, argnums, {"tolerance": tolerance, **more})


def _rows() -> list[Callable[[int], Workload]]:
    priced = {"fn": black_scholes.black_scholes, "argnums": (0, 2, 3), "hand_gradient": black_scholes.by_hand}
    valley = {"fn": rosenbrock.rosenbrock, "argnums": 0, "hand_gradient": rosenbrock.by_hand}
    options, numbers = (lambda dtype, make=make: partial(make, dtype=dtype) for make in (_options, _numbers))
    plain, scaled = (partial(_matrices, with_scales=flag) for flag in (False, True))
    return [
        _row("black_scholes_f64", make=options("float64"), **priced),
        _row("black_scholes_f32", make=options("float32"), tolerance=1e-3, **priced),
        _row("rosenbrock_f64", make=numbers("float64"), **valley),
        _row("rosenbrock_f32", make=numbers("float32"), tolerance=1e-3, **valley),
        _row("softmax_f32", softmax, plain, 0, 1e-3, hand_gradient=softmax_by_hand, spellings={"torch": torch_softmax}),
        _row("layer_norm_f32", layer_norm, scaled, (0, 1, 2), 1e-3, spellings={"torch": torch_layer_norm}),
        _row("logistic_f64", logistic.loss, _samples, 0, hand_gradient=logistic.by_hand),
        _row(
            "mlp_f32", mlp.loss, _network, 0, 1e-3, hand_gradient=mlp.by_hand, spellings={"torch": mlp.torch_spelling}
        ),
        _row("small_f64", small, numbers("float64"), 0, hand_gradient=small_by_hand),
    ]


WORKLOADS: dict[str, Callable[[int], Workload]] = {make.args[0]: make for make in _rows()}  # type: ignore[attr-defined]
FULL = {
    "black_scholes_f64": 10**8, "black_scholes_f32": 10**8, "rosenbrock_f64": 10**8, "rosenbrock_f32": 10**8,
    "softmax_f32": 2**27, "layer_norm_f32": 2**27, "logistic_f64": 10**6, "mlp_f32": 4096, "small_f64": 1000,
}  # fmt: skip
