"""Losses that are sums over chunks of data of Dask: value and gradient from any number of workers, with the same bits.

Each chunk's value and gradient are a task; two by two they are added, in a tree whose shape the number of chunks
decides.  A worker gets the function and the parameters once, and finds its kernels on disk.  What a lost worker had is
computed again by Dask.  Start reading at ``ChunkedLoss.value_and_grad``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .optim.functional import GradientTransformation, apply_updates
from .runtime.transforms.gradient import value_and_grad
from .saving import load, save
from .tracer.ir.trees import tree_flatten, tree_unflatten

__all__ = ["ChunkedLoss", "fit"]


class ChunkedLoss:
    """``sum(loss(params, *chunk) for chunk in chunks)``, and its gradient by *params*.

        total = ChunkedLoss(loss, X, y, client=client)
        value, gradient = total.value_and_grad(params)

    :param loss: a function of NumPy code, ``loss(params, *chunk) -> a number``, compiled or plain.
    :param data: arrays of Dask, in chunks along their first axis; dataframes and series of Dask; lists of batches,
        delayed or plain.  All have the same number of chunks.  A chunk of a dataframe is a dict of its columns as
        arrays, one of a series an array.
    :param client: of ``dask.distributed``; the chunks are computed at once, and stay on the workers.  None computes all
        in this process, with the same bits.
    :raises ValueError: where chunks do not fit together.
    """

    def __init__(self, loss: Callable[..., Any], *data: Any, client: Any = None) -> None:
        dask = importlib.import_module("dask")
        columns = [_chunks(x) for x in data]
        if len({len(column) for column in columns}) != 1 or not columns[0]:
            raise ValueError(
                f"data in {', '.join([str(len(c)) for c in columns]) or 'no'} chunks: all need the same number"
            )
        rows = [x.chunks[0] for x in data if hasattr(x, "chunks")]
        if any(sizes != rows[0] for sizes in rows):
            raise ValueError(f"chunks of {rows[0]} rows beside {next(r for r in rows if r != rows[0])}: use x.rechunk")
        self._client, self._loss = client, loss
        tasks = [[dask.delayed(_as_arrays)(chunk) for chunk in column] for column in columns]
        if client is None:
            self._columns = [list(dask.compute(*column, scheduler="synchronous")) for column in tasks]
        else:
            self._columns = [client.compute(column) for column in tasks]
            self._loss = client.submit(_sent, loss, pure=False)  # one object on each worker, which is recorded once

    def __call__(self, params: Any) -> Any:
        """The value."""
        return self._summed(_value, params)

    def grad(self, params: Any) -> Any:
        """The gradient, in the structure of *params*."""
        return self.value_and_grad(params)[1]

    def value_and_grad(self, params: Any) -> tuple[Any, Any]:
        """(value, gradient): *params* is a tree of floats and float arrays."""
        return self._summed(_value_and_grad, params)

    def _summed(self, of_chunk: Callable[..., Any], params: Any) -> Any:
        client, count = self._client, len(self._columns[0])
        if client is None:
            return _in_a_tree(
                [of_chunk(self._loss, params, *chunk) for chunk in zip(*self._columns, strict=True)], _added
            )
        sent = client.submit(_sent, params, pure=False)
        parts = client.map(of_chunk, [self._loss] * count, [sent] * count, *self._columns, pure=False)
        return _in_a_tree(parts, lambda a, b: client.submit(_added, a, b, pure=False)).result()


def fit(
    loss: Callable[..., Any], params: Any, optimizer: GradientTransformation, steps: int,
    checkpoint: str | os.PathLike[str] | None = None, every: int = 1,
    callback: Callable[[int, Any, Any], Any] | None = None,
) -> Any:  # fmt: skip
    """The parameters after *steps* steps of *optimizer* down *loss*.

    :param loss: has ``value_and_grad(params)``: a :class:`ChunkedLoss`, or a compiled function.
    :param optimizer: of ``tracegrad.optim.functional``.
    :param checkpoint: a file (``.npz``, ``.safetensors``) that has the parameters, the optimizer's state and the number
        of steps after each *every* steps.  Where it is there, the run goes on from it, with the same bits.
    :param callback: ``callback(steps done, value, params)``.
    """
    now = {"params": params, "state": optimizer.init(params), "steps": 0}
    if checkpoint is not None and os.path.exists(checkpoint):
        now = load(checkpoint)
    while now["steps"] < steps:
        value, gradient = loss.value_and_grad(now["params"])  # type: ignore[attr-defined]
        updates, state = optimizer.update(gradient, now["state"], now["params"])
        now = {"params": apply_updates(now["params"], updates), "state": state, "steps": now["steps"] + 1}
        if checkpoint is not None and (now["steps"] % every == 0 or now["steps"] == steps):
            save(now, checkpoint)
        if callback is not None:
            callback(now["steps"], value, now["params"])
    return now["params"]


def _chunks(data: Any) -> list[Any]:
    if not hasattr(data, "to_delayed"):
        return list(data)
    if any(count != 1 for count in getattr(data, "numblocks", ())[1:]):
        raise ValueError(
            f"an array in {data.numblocks} chunks is cut along other axes than the first: use x.rechunk((n, -1))"
        )
    return list(np.ravel(data.to_delayed()))


def _in_a_tree(parts: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
    """The sum of *parts*, neighbours first: its shape depends on their number alone."""
    while len(parts) > 1:
        paired = [add(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*paired, *parts[2 * len(paired) :]]
    return parts[0]


# ---- tasks -------------------------------------------------------------------------------------------------------


def _sent(value: Any) -> Any:
    return value


def _value(loss: Callable[..., Any], params: Any, *chunk: Any) -> Any:
    return loss(params, *chunk)


def _value_and_grad(loss: Callable[..., Any], params: Any, *chunk: Any) -> Any:
    return value_and_grad(loss)(params, *chunk)


def _added(a: Any, b: Any) -> Any:
    leaves, structure = tree_flatten(a)
    return tree_unflatten(structure, [np.add(x, y) for x, y in zip(leaves, structure.flatten_up_to(b), strict=True)])


def _as_arrays(chunk: Any) -> Any:
    """Columns in place of what pandas has: a compiled function takes arrays as data, and an object as a setting."""
    if hasattr(chunk, "columns"):
        return {name: chunk[name].to_numpy() for name in chunk.columns}
    return chunk.to_numpy() if hasattr(chunk, "to_numpy") else chunk
