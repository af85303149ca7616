"""NumPy's functions that move, join and make arrays."""

from __future__ import annotations

import numpy as np

from .case import Case

V = np.array([0.3, -1.2, 2.1, 0.7])
M = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4]])
T = np.arange(12.0).reshape(2, 3, 2) / 5 - 0.9
S = np.array([[0.3, -1.2, 2.1], [0.7, 1.6, -0.4], [1.1, 0.2, 0.5]])
ROW = np.array([0.9, 2.4, -1.7])
X, Y = np.array(0.7), np.array(1.9)


def _filled(shape: tuple[int, ...], write):  # type: ignore[no-untyped-def]
    """An array of zeros into which *write* has written."""
    out = np.zeros(shape)
    write(out)
    return out


CASES = [
    # views
    Case("numpy.reshape", lambda x: np.reshape(x, (3, -1)), [M]),
    Case("numpy.reshape", lambda x: np.reshape(x, (3, 2), order="F"), [M], label="order"),
    Case("numpy.ravel", np.ravel, [T]),
    Case("numpy.ravel", lambda x: np.ravel(x, order="F"), [M], label="order"),
    Case("numpy.transpose", np.transpose, [M]),
    Case("numpy.transpose", lambda x: np.transpose(x, (2, 0, 1)), [T], label="axes"),
    Case("numpy.transpose", lambda x: x.transpose(np.array([2, 0, 1])), [T], label="an array of axes"),
    Case("numpy.matrix_transpose", np.matrix_transpose, [T]),
    Case("numpy.swapaxes", lambda x: np.swapaxes(x, 0, -1), [T]),
    Case("numpy.moveaxis", lambda x: np.moveaxis(x, (0, 1), (-1, 0)), [T]),
    Case("numpy.rollaxis", lambda x: np.rollaxis(x, 2), [T]),
    Case("numpy.expand_dims", lambda x: np.expand_dims(x, (0, -1)), [M]),
    Case("numpy.squeeze", lambda x: np.squeeze(x[None, :, None]), [V]),
    Case("numpy.squeeze", lambda x: np.squeeze(x[None, :, None], axis=0), [V], label="axis"),
    Case("numpy.broadcast_to", lambda x: np.broadcast_to(x, (2, 3)), [ROW]),
    Case("numpy.broadcast_arrays", lambda x, y: np.broadcast_arrays(x, y[:, None]), [ROW, V]),
    Case("numpy.flip", np.flip, [M]),
    Case("numpy.flip", lambda x: np.flip(x, axis=(0, 2)), [T], label="axis"),
    Case("numpy.flipud", np.flipud, [M]),
    Case("numpy.fliplr", np.fliplr, [M]),
    Case("numpy.rot90", lambda x: np.rot90(x, 3), [M]),
    Case("numpy.roll", lambda x: np.roll(x, 1), [M]),
    Case("numpy.roll", lambda x: np.roll(x, (1, -1), axis=(0, 1)), [M], label="axis"),
    Case("numpy.diagonal", lambda x: np.diagonal(x, 1), [S]),
    Case("numpy.diagonal", lambda x: np.diagonal(x, axis1=0, axis2=2), [T], label="axes"),
    Case("numpy.trace", lambda x: np.trace(x, offset=-1), [S]),
    Case("numpy.atleast_1d", np.atleast_1d, [X]),
    Case("numpy.atleast_2d", lambda x, y: np.atleast_2d(x, y), [V, X]),
    Case("numpy.atleast_3d", np.atleast_3d, [M]),
    Case("numpy.split", lambda x: np.split(x, 2), [V]),
    Case("numpy.split", lambda x: np.split(x, [1, 3], axis=-1), [M], label="places"),
    Case("numpy.array_split", lambda x: np.array_split(x, 3), [V]),
    Case("numpy.hsplit", lambda x: np.hsplit(x, [1]), [M]),
    Case("numpy.vsplit", lambda x: np.vsplit(x, 2), [M]),
    Case("numpy.dsplit", lambda x: np.dsplit(x, 2), [T]),
    Case("numpy.unstack", lambda x: np.unstack(x, axis=1), [M]),
    Case("numpy.copy", np.copy, [M]),
    Case("numpy.astype", lambda x: np.astype(x, np.complex128) * 1j, [M]),
    Case("numpy.lib.stride_tricks.sliding_window_view", lambda x: np.lib.stride_tricks.sliding_window_view(x, 3), [V]),
    Case(
        "numpy.lib.stride_tricks.sliding_window_view",
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2)),
        [S],
        label="windows",
    ),
    # conversion
    Case("numpy.array", lambda x, y: np.array([[x, 1.0], [y, x * y]]), [X, Y]),
    Case("numpy.array", lambda x: np.array(x, ndmin=2), [V], label="ndmin"),
    Case("numpy.asarray", lambda x, y: np.asarray([x, y, x * y]), [X, Y]),
    Case("numpy.asanyarray", lambda x: np.asanyarray(x) ** 2, [V]),
    Case("numpy.ascontiguousarray", lambda x: np.ascontiguousarray(x.T) ** 2, [M]),
    Case("numpy.asfortranarray", lambda x: np.asfortranarray(x) ** 2, [M]),
    Case("numpy.require", lambda x: np.require(x, np.float64, ["C", "W"]) ** 2, [M]),
    Case("numpy.fromiter", lambda x: np.fromiter((v * v for v in x), float), [V]),
    Case("numpy.fromiter", lambda x: np.fromiter([v * v for v in x], dtype=np.float64, count=3), [V], label="count"),
    Case("numpy.fromfunction", lambda x: np.fromfunction(lambda i, j: x * i + j, (2, 3)), [X]),
    # assembly
    Case("numpy.concatenate", lambda x, y: np.concatenate([x, y[None] * x], axis=0), [M, ROW]),
    Case("numpy.concatenate", lambda x, y: np.concatenate((x, y), axis=None), [M, ROW], label="flat"),
    Case("numpy.stack", lambda x, y: np.stack([x, y * x], axis=-1), [M, ROW]),
    Case("numpy.vstack", lambda x, y: np.vstack([x, y]), [M, ROW]),
    *[Case("numpy.row_stack", lambda x, y: np.row_stack([x, y]), [M, ROW]) for _ in (1,) if hasattr(np, "row_stack")],
    Case("numpy.hstack", lambda x, y: np.hstack([x, y]), [V, ROW]),
    Case("numpy.dstack", lambda x, y: np.dstack([x, x * y]), [M, ROW]),
    Case("numpy.column_stack", lambda x, y: np.column_stack([x, y]), [ROW, S]),
    Case("numpy.block", lambda x, y: np.block([[x, y[:2, None]], [y, np.ones(1)]]), [M, ROW]),
    Case("numpy.append", lambda x, y: np.append(x, y), [M, ROW]),
    Case("numpy.append", lambda x, y: np.append(x, y[None], axis=0), [M, ROW], label="axis"),
    Case("numpy.insert", lambda x, y: np.insert(x, 1, y), [V, X]),
    Case("numpy.insert", lambda x, y: np.insert(x, [0, 2], y, axis=1), [M, X], label="axis"),
    Case("numpy.insert", lambda x, y: np.insert(x, slice(0, 2), y[:2]), [V, ROW], label="slice"),
    Case("numpy.insert", lambda x, y: np.insert(x, 0, [[y], [2 * y]], axis=1), [M, X], label="rows-of-values"),
    Case("numpy.delete", lambda x: np.delete(x, [0, -1]), [V]),
    Case("numpy.delete", lambda x: np.delete(x, 1, axis=1), [M], label="axis"),
    Case("numpy.delete", lambda x: np.delete(x, slice(None, None, 2)), [V], label="slice"),
    Case("numpy.delete", lambda x: np.delete(x, V > 1), [V], label="mask"),
    Case("numpy.tile", lambda x: np.tile(x, (2, 2)), [M]),
    Case("numpy.repeat", lambda x: np.repeat(x, 2), [M]),
    Case("numpy.repeat", lambda x: np.repeat(x, [1, 0, 2], axis=1), [M], label="counts"),
    Case("numpy.resize", lambda x: np.resize(x, (3, 3)), [V]),
    Case("numpy.resize", lambda x: np.resize(x, 3), [M], label="shorter"),
    Case("numpy.trim_zeros", lambda x: np.trim_zeros(np.concatenate([np.zeros(2), x, np.zeros(1)])), [V]),
    Case("numpy.trim_zeros", lambda x: np.trim_zeros(np.append(0.0, x * 0 + x), "f"), [V], label="front"),
    *[
        Case("numpy.pad", lambda x, mode=mode: np.pad(x, (2, 1), mode), [V], label=mode)
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean", "maximum", "minimum")
    ],
    Case("numpy.pad", lambda x: np.pad(x, 2, "median"), [V], label="median"),
    Case("numpy.pad", lambda x: np.pad(x, 1, "empty")[1:-1], [V], label="empty"),
    Case("numpy.pad", lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=3.0), [M], label="axes"),
    Case("numpy.pad", lambda x: np.pad(x, 1, constant_values=(x[0], 2.0)), [V], label="values"),
    Case("numpy.pad", lambda x: np.pad(x, 1, "reflect", reflect_type="odd"), [M], label="odd"),
    Case("numpy.pad", lambda x: np.pad(x, 2, "maximum", stat_length=2), [V], label="stat-length"),
    Case("numpy.pad", lambda x: np.pad(x, ((0, 0), (1, 2)), "linear_ramp", end_values=1.5), [M], label="end-values"),
    *([Case("numpy.pad", lambda x: np.pad(x, {0: 1}), [M], label="dict")] if np.__version__ >= "2.2" else []),
    # by rule
    Case("numpy.zeros_like", lambda x: np.zeros_like(x) + x, [M]),
    Case("numpy.ones_like", lambda x: np.ones_like(x) * x, [M]),
    Case("numpy.empty_like", lambda x: np.add(x, 1.0, out=np.empty_like(x)), [M]),
    Case("numpy.full_like", lambda x, y: np.full_like(x, y) * x, [M, X]),
    Case("numpy.full", lambda x: np.full((2, 2), x), [X]),
    Case("numpy.full", lambda x: np.full((2, 3), x), [ROW], label="row"),
    Case("numpy.zeros", lambda x: _filled((3,), lambda out: out.__setitem__(slice(1, 3), x)), [V[:2]]),
    Case("numpy.ones", lambda x: np.ones((2, 3)) * x, [ROW]),
    Case("numpy.empty", lambda x: np.multiply(x, x, out=np.empty(4)), [V]),
    Case("numpy.eye", lambda x: np.eye(2, 3, k=1) * x, [M]),
    Case("numpy.identity", lambda x: np.identity(3) * x, [ROW]),
    Case("numpy.arange", lambda x: np.arange(4) * x, [V]),
    Case("numpy.arange", lambda x, y: np.arange(x, x + 2.5 * y, y), [X, Y], label="traced"),
    Case("numpy.linspace", lambda x, y: np.linspace(x, y, 5), [X, Y]),
    Case("numpy.linspace", lambda x, y: np.linspace(x, y, 3, endpoint=False, retstep=True), [ROW, X], label="step"),
    Case("numpy.linspace", lambda x, y: np.linspace(x, y, 3, axis=-1), [ROW, X], label="axis"),
    Case("numpy.logspace", lambda x, y: np.logspace(x, y, 4), [X, Y]),
    Case("numpy.logspace", lambda x, y: np.logspace(x, y, 4, base=2.0), [X, Y], label="base"),
    Case("numpy.geomspace", lambda x, y: np.geomspace(x, y, 4), [X, Y]),
    Case("numpy.geomspace", lambda x, y: np.geomspace(x, y, 4, endpoint=False), [X, Y], label="endpoint"),
    Case("numpy.meshgrid", lambda x, y: np.meshgrid(x, y), [V, ROW]),
    Case("numpy.meshgrid", lambda x, y: np.meshgrid(x, y, indexing="ij", sparse=True), [V, ROW], label="sparse"),
    Case("numpy.diag", np.diag, [ROW]),
    Case("numpy.diag", lambda x: np.diag(x, 1), [ROW], label="offset"),
    Case("numpy.diag", lambda x: np.diag(x, -1), [S], label="of-a-matrix"),
    Case("numpy.diagflat", lambda x: np.diagflat(x, 1), [M]),
    Case("numpy.tril", lambda x: np.tril(x, -1), [S]),
    Case("numpy.triu", lambda x: np.triu(x, 1), [T]),
    Case("numpy.tri", lambda x: np.tri(3, k=1) * x, [S]),
    Case("numpy.vander", np.vander, [ROW]),
    Case("numpy.vander", lambda x: np.vander(x, 4, increasing=True), [ROW], label="increasing"),
    Case("numpy.kaiser", lambda x: np.kaiser(5, x), [Y]),
]
