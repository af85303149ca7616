"""Distances of scipy.spatial between vectors, rows of one array (``pdist``), and rows of two (``cdist``).

SciPy computes them in C, from plain arrays; here a metric is a formula over the last axis.  Between equal points a norm
has gradient 0, as that of ``np.linalg.norm``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..ir.errors import UnsupportedError
from ..ir.site import at_site
from ..numpy_api.hooks import hook, hook_to_source, when_loaded
from ..numpy_api.shape import as_traced

Metric = Callable[..., Any]
norm = np.linalg.norm


def _wrong(message: str) -> ValueError:
    return ValueError(at_site(message))


def _weighted(d: Any, w: Any, p: Any = 2) -> Any:
    return d if w is None else d * as_traced(w) ** (1 / p)


def _euclidean(u: Any, v: Any, w: Any = None) -> Any:
    return norm(_weighted(u - v, w), axis=-1)


def _sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    return np.sum(_weighted(u - v, w) ** 2, axis=-1)


def _cityblock(u: Any, v: Any, w: Any = None) -> Any:
    return np.sum(_weighted(np.abs(u - v), w, 1), axis=-1)


def _minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    if p <= 0:
        raise _wrong("p must be greater than 0")
    return norm(_weighted(u - v, w, p), ord=p, axis=-1)


def _chebyshev(u: Any, v: Any) -> Any:
    return np.max(np.abs(u - v), axis=-1)


def _cosine(u: Any, v: Any) -> Any:
    return 1.0 - np.sum(u * v, axis=-1) / (norm(u, axis=-1) * norm(v, axis=-1))


def _correlation(u: Any, v: Any) -> Any:
    return _cosine(u - np.mean(u, axis=-1, keepdims=True), v - np.mean(v, axis=-1, keepdims=True))


def _canberra(u: Any, v: Any) -> Any:
    size = np.abs(u) + np.abs(v)
    return np.sum(np.abs(u - v) / np.where(size > 0, size, 1.0), axis=-1)


def _braycurtis(u: Any, v: Any) -> Any:
    return np.sum(np.abs(u - v), axis=-1) / np.sum(np.abs(u + v), axis=-1)


def _seuclidean(u: Any, v: Any, V: Any) -> Any:
    return norm((u - v) / np.sqrt(V), axis=-1)


def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    d = u - v
    square = np.sum((d @ VI) * d, axis=-1)
    return np.where(square > 0, np.sqrt(np.where(square > 0, square, 1.0)), square)


METRICS: dict[str, Metric] = {
    "euclidean": _euclidean, "sqeuclidean": _sqeuclidean, "cityblock": _cityblock, "minkowski": _minkowski,
    "chebyshev": _chebyshev, "cosine": _cosine, "correlation": _correlation, "canberra": _canberra,
    "braycurtis": _braycurtis, "seuclidean": _seuclidean, "mahalanobis": _mahalanobis,
}  # fmt: skip
_WEIGHTED = ("euclidean", "sqeuclidean", "cityblock", "minkowski")


def _metric(metric: Any, rows: Any, where: str, given: dict[str, Any]) -> Metric:
    """The function of pairs of rows; *rows*: all of them."""
    if callable(metric):
        each = partial(metric, **given)
        return lambda u, v: np.stack([each(a, b) for a, b in zip(u, v, strict=True)])
    if not isinstance(metric, str):
        raise TypeError("2nd argument metric must be a string identifier or a function.")
    info = sys.modules["scipy.spatial.distance"]._METRIC_ALIAS.get(metric.lower())
    if info is None:
        raise _wrong(f"Unknown Distance Metric: {metric.lower()}")
    name = info.canonical_name
    if name not in METRICS or (given.get("w") is not None and name not in _WEIGHTED):
        weights = " with weights" if name in METRICS else ""
        raise UnsupportedError.here(
            f"scipy.spatial.distance.{where} of traced arrays with metric={metric!r}{weights} is not supported; write "
            "the distance with NumPy functions"
        )
    if name == "seuclidean" and given.get("V") is None:
        given["V"] = np.var(rows(), axis=0, ddof=1)
    if name == "mahalanobis" and given.get("VI") is None:
        given["VI"] = np.linalg.inv(np.cov(rows().T)).T
    return partial(METRICS[name], **given)


def _floats(x: Any) -> Any:
    array = as_traced(x)
    return array if array.dtype.kind == "f" and array.dtype.itemsize == 8 else array.astype(np.float64)


def _cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **given: Any) -> Any:
    A, B = _floats(XA), _floats(XB)
    for name, array in (("XA", A), ("XB", B)):
        if array.ndim != 2:
            raise _wrong(f"{name} must be a 2-dimensional array.")
    if A.shape[1] != B.shape[1]:
        raise _wrong("XA and XB must have the same number of columns (i.e. feature dimension.)")
    shape, columns = (len(A), len(B)), A.shape[1]
    u, v = (np.broadcast_to(x, (*shape, columns)) for x in (A[:, None], B[None]))
    f = _metric(metric, lambda: np.vstack([A, B]), "cdist", given)
    if callable(metric):
        found = f(u.reshape(-1, columns), v.reshape(-1, columns)).reshape(shape)
    else:
        found = f(A[:, None], B[None])
    return _into(found, out)


def _pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **given: Any) -> Any:
    A = _floats(X)
    if A.ndim != 2:
        raise _wrong("A 2-dimensional array must be passed.")
    i, j = np.triu_indices(len(A), 1)
    return _into(_metric(metric, lambda: A, "pdist", given)(A[i], A[j]), out)


def _into(found: Any, out: Any) -> Any:
    if out is None:
        return found
    out[...] = found
    return out


def _squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    A, kind = as_traced(X), force.lower()
    if A.ndim not in (1, 2):
        raise _wrong(
            f"The first argument must be one or two dimensional array. A {A.ndim}-dimensional array is not permitted"
        )
    if kind in ("tomatrix", "tovector") and A.ndim != (1 if kind == "tomatrix" else 2):
        raise _wrong(f"Forcing '{kind}' but input X is not a distance {'vector' if A.ndim == 2 else 'matrix'}.")
    if A.ndim == 1:
        size = int(np.ceil(np.sqrt(A.size * 2)))
        if size * (size - 1) != A.size * 2:
            raise _wrong(
                "Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= 2."
            )
        places = np.zeros((max(size, 1),) * 2, int)
        upper = np.triu_indices(size, 1)
        places[upper] = places.T[upper] = np.arange(A.size)
        return np.where(np.eye(len(places), dtype=bool), 0.0, A[places]).astype(A.dtype) if A.size else np.zeros((1, 1))
    if A.shape[0] != A.shape[1]:
        raise _wrong("The matrix argument must be square.")
    if checks:
        if not (A == A.T).all():
            raise _wrong("Distance matrix 'X' must be symmetric.")
        if not (np.diagonal(A) == 0).all():
            raise _wrong("Distance matrix 'X' diagonal must be zero.")
    return A[np.triu_indices(len(A), 1)]


def _between(name: str, tables: bool) -> Metric:
    """The distance called *name*; *tables*: of arrays of any rank, along the last axis."""

    def distance(u: Any, v: Any, *args: Any, **given: Any) -> Any:
        a, b = _floats(u), _floats(v)
        if not tables and (a.ndim != 1 or b.ndim != 1):
            raise _wrong("Input vector should be 1-D.")
        if given.get("w") is not None and name not in _WEIGHTED:
            raise UnsupportedError.here(f"scipy.spatial.distance.{name} with w= is not supported on traced arrays")
        return METRICS[name](a, b, *args, **given)

    return distance


@when_loaded("scipy.spatial.distance", "squareform")
def _install(distance: Any) -> None:
    for name, implementation in (("cdist", _cdist), ("pdist", _pdist), ("squareform", _squareform)):
        hook(getattr(distance, name), implementation)
    tables = "_validate_vector" not in distance.minkowski.__code__.co_names  # from SciPy 1.18 on
    for name in METRICS:
        hook(getattr(distance, name), _between(name, tables and name in ("euclidean", "sqeuclidean", "minkowski")))
    hook_to_source(distance.jensenshannon)
