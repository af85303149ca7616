"""NumPy's functions that read, write, choose, sort and search."""

from __future__ import annotations

import numpy as np

from .case import Case

V = np.array([0.3, -1.2, 2.1, 0.7])
M = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4]])
S = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4], [1.1, 0.2, 0.5]])
ROW = np.array([0.9, 2.4, -1.7])
X = np.array(0.6)


def _changed(x, change):  # type: ignore[no-untyped-def]
    """A copy of *x* after *change*."""
    y = x.copy()
    change(y)
    return y


CASES = [
    Case("numpy.where", lambda x: np.where(x > 0.5, x * x, -x), [M]),
    Case("numpy.where", lambda x, y: np.where([[True], [False]], x, y), [M, ROW], label="broadcast"),
    Case("numpy.select", lambda x: np.select([x < 0, x < 1], [x**2, np.sin(x)], default=2.0), [M]),
    Case("numpy.choose", lambda x: np.choose([0, 1, 0], [x, 2 * x]), [ROW]),
    Case("numpy.choose", lambda x: np.choose([0, 4, -1], [x, x**2], mode="wrap"), [ROW], label="wrap"),
    Case("numpy.piecewise", lambda x: np.piecewise(x, [x < 0, x >= 1], [lambda v: -v, 3.0, lambda v: v**2]), [M]),
    Case(
        "numpy.piecewise",
        lambda x: np.piecewise(x, x < 0, [lambda v, k: k * v, lambda v, k: k + np.exp(v)], 2.0),
        [V],
        label="else",
    ),
    Case("numpy.take", lambda x: np.take(x, [2, 0, 2]), [V]),
    Case("numpy.take", lambda x: np.take(x, [[0, 1]], axis=-1), [M], label="axis"),
    Case("numpy.take", lambda x: np.take(x, [-1, 5, 2], mode="clip"), [V], label="clip"),
    Case("numpy.take", lambda x: np.take(x, [-1, 5, 2], mode="wrap"), [V], label="wrap"),
    Case("numpy.take_along_axis", lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), [M]),
    Case("numpy.compress", lambda x: np.compress([True, False, True], x, axis=1), [M]),
    Case("numpy.extract", lambda x: np.extract(x > 0.5, x), [M]),
    Case("numpy.put", lambda x: _changed(V * x, lambda y: np.put(y, [0, -1], [x, 2 * x])), [X]),
    Case(
        "numpy.put_along_axis", lambda x: _changed(x, lambda y: np.put_along_axis(y, np.array([[1], [2]]), X, 1)), [M]
    ),
    Case("numpy.putmask", lambda x: _changed(x, lambda y: np.putmask(y, y > 1, y**2)), [M]),
    Case("numpy.place", lambda x: _changed(x, lambda y: np.place(y, M > 0.5, [x[0, 0], 2.0])), [M]),
    Case("numpy.copyto", lambda x, y: _changed(x, lambda z: np.copyto(z, y, where=M > 0.5)), [M, ROW]),
    Case("numpy.fill_diagonal", lambda x, y: _changed(x, lambda z: np.fill_diagonal(z, y)), [S, X]),
    Case("numpy.ix_", lambda x: x[np.ix_([0, 1], [2, 0])] ** 2, [M], 2),
    Case("numpy.diag_indices_from", lambda x: x[np.diag_indices_from(x)], [S], 0),
    Case("numpy.tril_indices_from", lambda x: x[np.tril_indices_from(x, -1)], [S], 0),
    Case("numpy.triu_indices_from", lambda x: x[np.triu_indices_from(x, 1)], [S], 0),
    Case("numpy.nonzero", lambda x: np.nonzero(x > 0), [M], 0),
    Case("numpy.flatnonzero", lambda x: np.flatnonzero(x > 0), [M], 0),
    Case("numpy.argwhere", lambda x: np.argwhere(x > 0), [M], 0),
    Case("numpy.unravel_index", lambda x: np.unravel_index(np.argmax(x), x.shape), [M], 0),
    Case("numpy.ravel_multi_index", lambda x: np.ravel_multi_index((np.argmax(x, 0), [0, 1, 2]), (2, 3)), [M], 0),
    # order
    Case("numpy.sort", np.sort, [M]),
    Case("numpy.sort", lambda x: np.sort(x, axis=None, kind="stable"), [M], label="flat"),
    Case("numpy.sort", lambda x: np.sort(x, axis=0), [M], label="axis"),
    Case("numpy.sort_complex", np.sort_complex, [V]),
    Case("numpy.sort_complex", lambda x: np.sort_complex(x[:2] + 1j * x[2:]), [V], label="complex"),
    Case("numpy.partition", lambda x: np.partition(x, 2)[2], [V]),
    Case("numpy.argsort", np.argsort, [M], 0),
    Case("numpy.argpartition", lambda x: np.argpartition(x, 2)[2], [V], 0),
    Case("numpy.lexsort", lambda x: np.lexsort((x, np.abs(x))), [V], 0),
    Case("numpy.searchsorted", lambda x: np.searchsorted(np.sort(x), [0.0, 1.0]), [V], 0),
    Case("numpy.digitize", lambda x: np.digitize(x, [0.0, 1.0]), [V], 0),
    Case("numpy.argmax", lambda x: np.argmax(x, axis=1), [M], 0),
    Case("numpy.argmin", np.argmin, [M], 0),
    Case("numpy.nanargmax", lambda x: np.nanargmax(x, axis=1), [M], 0),
    Case("numpy.nanargmin", np.nanargmin, [M], 0),
    Case("numpy.count_nonzero", lambda x: np.count_nonzero(x > 0, axis=1), [M], 0),
    Case("numpy.unique", np.unique, [V]),
    Case("numpy.unique", lambda x: np.unique(x, return_counts=True, return_inverse=True), [V], label="counts"),
    Case("numpy.unique", lambda x: np.unique(x[[1, 0, 1]], axis=0, return_counts=True), [M], label="rows"),
    Case("numpy.unique", lambda x: np.unique(x[:, [2, 0, 2]], axis=1), [M], label="columns"),
    Case("numpy.unique_values", np.unique_values, [V]),
    Case("numpy.unique_counts", lambda x: tuple(np.unique_counts(x)), [V]),
    Case("numpy.unique_inverse", lambda x: tuple(np.unique_inverse(x)), [V]),
    Case("numpy.unique_all", lambda x: tuple(np.unique_all(x)), [V]),
    Case("numpy.union1d", np.union1d, [V, ROW]),
    Case("numpy.intersect1d", lambda x: np.intersect1d(x, np.stack([x[0], x[2], x[2] + 1])), [V]),
    Case("numpy.setdiff1d", np.setdiff1d, [V, ROW]),
    Case("numpy.setxor1d", np.setxor1d, [V, ROW]),
    Case("numpy.isin", lambda x: np.isin(x, [0.7, 2.1]), [V], 0),
    # questions
    Case("numpy.all", lambda x: np.all(x > -5, axis=1), [M], 0),
    Case("numpy.any", lambda x: np.any(x > 1, axis=0), [M], 0),
    Case("numpy.allclose", lambda x: np.allclose(x, x + 1e-12), [M], 0),
    Case("numpy.isclose", lambda x: np.isclose(x, 0.3), [M], 0),
    Case("numpy.array_equal", lambda x: np.array_equal(x, 1 * x), [M], 0),
    Case("numpy.array_equiv", lambda x: np.array_equiv(x, x[None]), [M], 0),
    Case("numpy.iscomplex", np.iscomplex, [M], 0),
    Case("numpy.isreal", np.isreal, [M], 0),
    Case("numpy.iscomplexobj", lambda x: np.array(np.iscomplexobj(x)), [M], 0),
    Case("numpy.isrealobj", lambda x: np.array(np.isrealobj(x)), [M], 0),
    Case("numpy.ndim", lambda x: np.array(np.ndim(x)), [M], 0),
    Case("numpy.shape", lambda x: np.array(np.shape(x)), [M], 0),
    Case("numpy.size", lambda x: np.array(np.size(x, 1)), [M], 0),
    Case("numpy.result_type", lambda x: np.ones(2, np.result_type(x, 1j)), [M], 0),
    Case("numpy.common_type", lambda x: np.ones(2, np.common_type(x)), [M], 0),
    Case("numpy.can_cast", lambda x: np.array(np.can_cast(x, complex)), [M], 0),
    Case("numpy.min_scalar_type", lambda x: np.ones(2, np.min_scalar_type(x)), [M], 0),
    Case("numpy.may_share_memory", lambda x: np.array(np.may_share_memory(x, x[0])), [M], 0),
    Case("numpy.shares_memory", lambda x: np.array(np.shares_memory(x, x + 1)), [M], 0),
    Case("numpy.array_repr", lambda x: np.array(len(np.array_repr(x))), [M], 0),
    Case("numpy.array_str", lambda x: np.array(len(np.array_str(x))), [M], 0),
    Case("numpy.array2string", lambda x: np.array(len(np.array2string(x))), [M], 0),
    Case("numpy.einsum_path", lambda x: np.array(len(np.einsum_path("ij,ij->", x, x)[0])), [M], 0),
]
