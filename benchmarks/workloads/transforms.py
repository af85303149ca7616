"""Derivatives other than a gradient: Hessians, products with them, per-example gradients, a sparse Hessian.

numba by hand is the derivative written out, in one pass, with its result in a new array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..peer import Peer, Prepared
from ..workload import Workload, map_leaves
from . import mlp
from .rosenbrock import rosenbrock

Result = tuple[float, list[np.ndarray]]


def _arrays(*results: Any) -> Result:
    return 0.0, [np.asarray(result) for result in results]


def _bands(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Diagonal and upper diagonal of the Hessian of Rosenbrock's function."""
    diagonal = np.zeros(len(x))
    diagonal[:-1] = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    diagonal[1:] += 200.0
    return diagonal, -400.0 * x[:-1]


def _row(name: str, make_args: Callable[[], tuple[Any, ...]], expected: Any, prepared: Any, **more: Any) -> Workload:
    return Workload(
        name=name,
        group="transforms",
        fn=rosenbrock,
        make_args=make_args,
        expected=lambda: _arrays(*expected(*make_args())),
        prepared={peer: _prepare(peer, maker, make_args) for peer, maker in prepared.items()},
        **more,
    )


def _prepare(
    name: str, maker: Callable[..., Any], make_args: Callable[[], tuple[Any, ...]]
) -> Callable[[Any], Prepared]:
    """What *maker* gives for a peer is a function of the arguments, whose result is one array or several."""

    def prepare(peer: Any) -> Prepared:
        args = make_args()
        if name == "jax":
            jax = peer.jax
            step, block = jax.jit(maker(peer)), jax.block_until_ready
            here = block(map_leaves(jax.device_put, args))
            return Prepared(lambda: block(step(*here)), _flat)
        step = maker(peer)
        return Prepared(lambda: step(*args), _flat)

    return prepare


def _flat(result: Any) -> Result:
    from ..workload import leaves

    if hasattr(result, "tocsr"):  # a sparse matrix: its three bands
        return _arrays(result.diagonal(), result.diagonal(1), result.diagonal(-1))
    return _arrays(*leaves(result))


# ---- Rosenbrock's function -------------------------------------------------------------------------------------------


@cache
def _point(n: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-2.0, 2.0, n)


def _jax_rosenbrock(peer: Any) -> Callable[..., Any]:
    jnp = peer.jax.numpy
    return lambda x: jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _dense(x: np.ndarray) -> list[np.ndarray]:
    diagonal, upper = _bands(x)
    return [np.diag(diagonal) + np.diag(upper, 1) + np.diag(upper, -1)]


def _tracegrad_hessian(_: Peer) -> Callable[..., Any]:
    from tracegrad import autograd

    return autograd.hessian(rosenbrock)


def _numba_hessian(_: Peer) -> Callable[..., Any]:
    from numba import njit

    @njit(fastmath=True)
    def hessian(x):
        n = x.size
        h = np.zeros((n, n))
        for i in range(n - 1):
            h[i, i] += 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 2.0
            h[i, i + 1] = h[i + 1, i] = -400.0 * x[i]
            h[i + 1, i + 1] = 200.0
        return h

    return hessian


def _tracegrad_hvp(_: Peer) -> Callable[..., Any]:
    from tracegrad import compile_grad

    return compile_grad(rosenbrock).hvp


def _jax_hvp(peer: Any) -> Callable[..., Any]:
    f = peer.jax.grad(_jax_rosenbrock(peer))
    return lambda x, v: peer.jax.jvp(f, (x,), (v,))[1]


def _numba_hvp(_: Peer) -> Callable[..., Any]:
    from numba import njit

    @njit(fastmath=True)
    def product(x, v):
        n = x.size
        out = np.empty(n)
        out[0] = (1200.0 * x[0] * x[0] - 400.0 * x[1] + 2.0) * v[0] - 400.0 * x[0] * v[1]
        for i in range(1, n - 1):
            diagonal = 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 202.0
            out[i] = diagonal * v[i] - 400.0 * (x[i] * v[i + 1] + x[i - 1] * v[i - 1])
        out[n - 1] = 200.0 * v[n - 1] - 400.0 * x[n - 2] * v[n - 2]
        return out

    return product


def _product(x: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    diagonal, upper = _bands(x)
    product = diagonal * v
    product[:-1] += upper * v[1:]
    product[1:] += upper * v[:-1]
    return [product]


def _tracegrad_sparse_hessian(_: Peer) -> Callable[..., Any]:
    from tracegrad import autograd

    return autograd.sparse_hessian(rosenbrock)


def _jax_sparse_hessian(peer: Any) -> Callable[..., Any]:
    """Three products with seeds of every third column, and the bands read off them."""
    jax = peer.jax
    jnp = jax.numpy
    gradient = jax.grad(_jax_rosenbrock(peer))

    def bands(x: Any) -> Any:
        n = x.shape[0]
        column = jnp.arange(n) % 3
        seeds = (column == jnp.arange(3)[:, None]).astype(x.dtype)
        _, push = jax.linearize(gradient, x)
        products = jax.vmap(push)(seeds)
        rows = jnp.arange(n)
        diagonal = products[column, rows]
        upper = products[column[1:], rows[:-1]]
        lower = products[column[:-1], rows[1:]]
        return diagonal, upper, lower

    return bands


def _numba_sparse_hessian(_: Peer) -> Callable[..., Any]:
    """The values of the matrix in CSR order; its pattern is made once."""
    from numba import njit
    from scipy.sparse import csr_array

    @njit(fastmath=True)
    def fill(x):
        n = x.size
        values = np.empty(3 * n - 2)
        values[0] = 1200.0 * x[0] * x[0] - 400.0 * x[1] + 2.0
        values[1] = -400.0 * x[0]
        for i in range(1, n - 1):
            values[3 * i - 1] = -400.0 * x[i - 1]
            values[3 * i] = 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 202.0
            values[3 * i + 1] = -400.0 * x[i]
        values[3 * n - 4] = -400.0 * x[n - 2]
        values[3 * n - 3] = 200.0
        return values

    patterns: dict[int, Any] = {}

    def hessian(x: np.ndarray) -> Any:
        n = len(x)
        if n not in patterns:
            rows = np.repeat(np.arange(n), 3)
            columns = rows + np.tile([-1, 0, 1], n)
            inside = (columns >= 0) & (columns < n)
            pattern = csr_array((np.ones(3 * n - 2), (rows[inside], columns[inside])), shape=(n, n))
            patterns[n] = pattern.indices, pattern.indptr
        return csr_array((fill(x), *patterns[n]), shape=(n, n))

    return hessian


def _three_bands(x: np.ndarray) -> list[np.ndarray]:
    diagonal, upper = _bands(x)
    return [diagonal, upper, upper]


# ---- a small function ------------------------------------------------------------------------------------------------


def small(x):
    return np.sum(np.sin(x) * x**2)


def _tracegrad_small_jvp(_: Peer) -> Callable[..., Any]:
    from tracegrad import autograd

    return lambda x, v: autograd.jvp(small, (x,), (v,))


def _jax_small(peer: Any) -> Callable[..., Any]:
    jnp = peer.jax.numpy
    return lambda x: jnp.sum(jnp.sin(x) * x**2)


def _jax_small_jvp(peer: Any) -> Callable[..., Any]:
    return lambda x, v: peer.jax.jvp(_jax_small(peer), (x,), (v,))


def _small_slope(x: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    return [small(x), np.dot(np.cos(x) * x**2 + 2.0 * x * np.sin(x), v)]


def _small_hessian(x: np.ndarray) -> list[np.ndarray]:
    return [np.diag(-np.sin(x) * x**2 + 4.0 * x * np.cos(x) + 2.0 * np.sin(x))]


def _tracegrad_small_hessian(_: Peer) -> Callable[..., Any]:
    from tracegrad import autograd

    return autograd.hessian(small)


# ---- a network's gradient for each example ---------------------------------------------------------------------------


@cache
def _network() -> tuple[Any, ...]:
    return mlp.WORKLOADS[0].make_args()


def example_loss(layers, x, label):
    h = x
    for W, b in layers[:-1]:
        h = np.maximum(h @ W + b, 0.0)
    W, b = layers[-1]
    z = h @ W + b
    z = z - np.max(z)
    return np.log(np.sum(np.exp(z))) - z[label]


def _tracegrad_examples(_: Peer) -> Callable[..., Any]:
    import tracegrad
    from tracegrad import autograd

    return tracegrad.vmap(autograd.grad(example_loss), in_axes=(None, 0, 0))


def _jax_examples(peer: Any) -> Callable[..., Any]:
    from ..workload import rebind

    jax = peer.jax
    return jax.vmap(jax.grad(rebind(example_loss, np=jax.numpy)), in_axes=(None, 0, 0))


def _examples(layers: Any, X: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """In NumPy, for all examples at once, in float64."""
    layers = [(W.astype(float), b.astype(float)) for W, b in layers]
    inputs = [X.astype(float)]
    for W, b in layers[:-1]:
        inputs.append(np.maximum(inputs[-1] @ W + b, 0.0))
    z = inputs[-1] @ layers[-1][0] + layers[-1][1]
    d = np.exp(z - z.max(axis=1, keepdims=True))
    d /= d.sum(axis=1, keepdims=True)
    d[np.arange(len(labels)), labels] -= 1.0
    found: list[np.ndarray] = []
    for (W, _), h in zip(reversed(layers), reversed(inputs), strict=True):
        found[:0] = [h[:, :, None] * d[:, None, :], d]
        d = (d @ W.T) * (h > 0.0)
    return found


SMALL_POINT = np.linspace(0.1, 1.0, 4)

WORKLOADS = [
    _row(
        "jvp_small_4",
        lambda: (SMALL_POINT, SMALL_POINT[::-1].copy()),
        _small_slope,
        {"tracegrad": _tracegrad_small_jvp, "jax": _jax_small_jvp},
    ),
    _row(
        "hessian_small_4",
        lambda: (SMALL_POINT,),
        _small_hessian,
        {"tracegrad": _tracegrad_small_hessian, "jax": lambda peer: peer.jax.hessian(_jax_small(peer))},
    ),
    _row(
        "hessian_rosenbrock_50",
        lambda: (_point(50),),
        _dense,
        {
            "tracegrad": _tracegrad_hessian,
            "jax": lambda peer: peer.jax.hessian(_jax_rosenbrock(peer)),
            "numba": _numba_hessian,
        },
    ),
    _row(
        "hvp_rosenbrock_1e3",
        lambda: (_point(1_000), _point(1_000)[::-1].copy()),
        _product,
        {"tracegrad": _tracegrad_hvp, "jax": _jax_hvp, "numba": _numba_hvp},
    ),
    _row(
        "sparse_hessian_rosenbrock_1e5",
        lambda: (_point(100_000),),
        _three_bands,
        {"tracegrad": _tracegrad_sparse_hessian, "jax": _jax_sparse_hessian, "numba": _numba_sparse_hessian},
        reasons={"jax": "three products and the bands of them, spelled by hand"},
    ),
    _row(
        "examples_mlp_784_256_256_10_f32",
        _network,
        _examples,
        {"tracegrad": _tracegrad_examples, "jax": _jax_examples},
        tolerance=2e-5,
    ),
]
