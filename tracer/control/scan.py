"""Loops that are compiled: ``scan``, ``fori_loop`` and ``map``, with JAX's argument order.

While a function is recorded each is one node of the program, whatever the number of steps; otherwise each is a plain
Python loop over NumPy arrays, so the same code runs either way.  Carries, rows and results may be trees of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import optree

from ..ir.errors import ShapeError
from ..ir.trees import tree_flatten, tree_unflatten
from ..record.recorder import Recorder, recording
from .loop_recording import LoopRecording, pair
from .trees import array_recorder, copied, named

Carry = TypeVar("Carry")


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """(the last carry, all results stacked along axis 0) of ``carry, y = f(carry, x)`` for every row x of *xs*.

    The carry keeps its structure, shapes and dtypes.  *xs* is an array or a tree of arrays of equal length, or None
    with *length*; with *reverse* the steps go from the last row to the first.
    """
    leaves, spec = tree_flatten(xs)
    count = _length(leaves, spec, length)
    recorder = array_recorder(init, xs)
    if recorder is not None:
        return LoopRecording(recorder, "scan", f, init, count, reverse).run(leaves, spec)
    if not count:
        with recording(Recorder()) as recorder:
            _, ys = LoopRecording(recorder, "scan", f, init, count, reverse).run(leaves, spec)
            empty = [np.zeros(y.shape, y.dtype) for y in tree_flatten(ys)[0]]
            return copied(init), tree_unflatten(tree_flatten(ys)[1], empty)
    carry, rows, structure = copied(init), [], None
    for i in range(count - 1, -1, -1) if reverse else range(count):
        carry, y = pair(f(carry, tree_unflatten(spec, [x[i] for x in leaves])), f)
        row, structure = tree_flatten(y)
        rows.append(row)
    if reverse:
        rows.reverse()
    return carry, tree_unflatten(structure, [np.stack(column) for column in zip(*rows, strict=True)])


def fori_loop(lower: int, upper: int, body: Callable[[Any, Carry], Carry], init: Carry) -> Carry:
    """The carry after ``carry = body(i, carry)`` for i from *lower* up to, but not including, *upper*."""
    lower, upper = int(lower), int(upper)
    recorder = array_recorder(init)
    if recorder is not None:
        return LoopRecording(recorder, "fori_loop", body, init, max(upper - lower, 0), False).run_counted(lower)
    carry = copied(init)
    for i in range(lower, upper):
        carry = body(i, carry)
    return carry


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """The results of *f* for every row of *xs* (an array or a tree of arrays), stacked along axis 0."""
    leaves, spec = tree_flatten(xs)
    count = _length(leaves, spec, None)
    recorder = array_recorder(xs)
    if recorder is not None:
        return LoopRecording(recorder, "map", f, (), count, False).run(leaves, spec)[1]
    return scan(lambda _, x: ((), f(x)), (), xs)[1]


def _length(leaves: Sequence[Any], spec: Any, length: Any) -> int:
    """The number of steps."""
    given = None if length is None else int(length)
    if given is not None and given < 0:
        raise ShapeError.here(f"a loop of length {given}: a length is not negative")
    found: int | None = None
    for x, accessor in zip(leaves, optree.treespec_accessors(spec), strict=True):
        shape = getattr(x, "shape", None)
        if not shape:
            what = type(x).__name__ if shape is None else "an array without axes"
            raise ShapeError.here(
                f"{named('xs', accessor)} has no rows to step through: it is {what}; pass np.asarray(...)"
            )
        if found is not None and shape[0] != found:
            raise ShapeError.here(
                f"the arrays of xs have unequal lengths: {found} and, for {named('xs', accessor)}, {shape[0]}"
            )
        found = int(shape[0])
    if found is None and given is None:
        raise ShapeError.here("a scan over nothing needs to know how often: pass xs or length=")
    if given is not None and found is not None and given != found:
        raise ShapeError.here(f"length={given}, but xs has {found} rows")
    return given if found is None else found  # type: ignore[return-value]
