"""Indices as positions: plain or traced integers and masks as non-negative int64 numbers below a size.

Plain ones are checked here and now; for traced ones the check is a guard, unless it is known that they are in bounds.
The number of True elements of a traced mask is a guard too.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..ir.aval import INT
from ..ir.errors import BadIndexError
from ..ir.graph import Atom, Lit
from ..ops.elementwise import F, bind, cast, to_bool
from ..ops.indexing import NONZERO
from ..ops.reduce import reduce
from ..ops.shape import reshape
from ..record.array import TracedArray, constant, is_traced, to_atom, wrap
from ..record.integers import TracedInt
from ..record.recorder import require_recorder
from ..record.undecided import Undecided


def is_index(item: Any) -> bool:
    """Whether *item* is an object of another class that stands for a whole number by its ``__index__``."""
    kind = type(item)
    if kind is int or not hasattr(kind, "__index__") or hasattr(kind, "dtype") or hasattr(kind, "__array__"):
        return False
    return not issubclass(kind, (int, TracedInt, Undecided))


def positions(index: Any, size: int, axis: int, *, mode: str = "raise") -> Atom:
    """*index* (plain or traced integers) as non-negative int64 positions below *size*."""
    if isinstance(index, TracedArray):
        atom = index.atom
        if atom.aval.dtype.kind not in "iu":
            raise BadIndexError.here(
                f"arrays used as indices must be of integer (or boolean) type, not {atom.aval.dtype}"
            )
        return _traced_positions(cast(atom, INT), size, axis, mode)
    if isinstance(index, (Lit,)):
        index = index.value
    if is_traced(index):
        return positions(wrap(to_atom(index)), size, axis, mode=mode)
    array = np.asarray(index)
    if array.dtype.hasobject and all(map(is_index, array.flat)):
        array = np.array(list(map(operator.index, array.flat)), INT).reshape(array.shape)
    if not array.size:
        array = array.astype(INT)
    if array.dtype.kind not in "iu":
        raise BadIndexError.here(f"arrays used as indices must be of integer (or boolean) type, not {array.dtype}")
    stand_in = require_recorder("indexing").captured.get(id(index))
    if stand_in is not None:
        return positions(stand_in, size, axis, mode=mode)
    array = array.astype(INT)
    if mode == "wrap" and size:
        array = array % size
    elif mode == "clip":
        array = np.clip(array, 0, max(size - 1, 0))
    if array.size and (array.min() < -size or array.max() >= size):
        bad = array[(array < -size) | (array >= size)].flat[0]
        raise BadIndexError.here(f"index {bad} is out of bounds for axis {axis} with size {size}")
    normal = np.where(array < 0, array + size, array)
    return constant(normal) if normal.ndim else Lit(normal[()], INT)


def _traced_positions(atom: Atom, size: int, axis: int, mode: str) -> Atom:
    n = Lit(size, INT)
    if mode == "wrap":
        return F.remainder(atom, n)
    if mode == "clip":
        return F.minimum(F.maximum(atom, Lit(0, INT, structural=True)), Lit(max(size - 1, 0), INT))
    known = require_recorder("indexing").range_of(atom)
    if known is not None and known[0] >= 0 and known[1] < size:
        return atom
    fits = F.logical_and(F.ge(atom, F.neg(n)), F.lt(atom, n))
    everywhere = reduce("all", fits, tuple(range(fits.aval.ndim)))
    recorder = require_recorder("indexing")
    if recorder.arms and not recorder.abstract:
        recorder.presume(everywhere)
        return _traced_positions(from_front(atom, size), size, axis, "clip")  # where the arm is not taken
    if not recorder.abstract and not recorder.guard(everywhere, "index"):
        found = np.asarray(recorder.value(atom))
        bad = found[(found < -size) | (found >= size)].flat[0]
        raise BadIndexError.here(f"index {bad} is out of bounds for axis {axis} with size {size}")
    return from_front(atom, size)


def from_front(atom: Atom, size: int) -> Atom:
    """Positions in *size* elements, of which *atom* counts some from the end, as negative numbers."""
    return F.select(F.lt(atom, Lit(0, INT, structural=True)), F.add(atom, Lit(size, INT)), atom)


def true_positions(mask: Any) -> Atom:
    """Flat positions of the True elements of *mask*; for a traced mask their number is a guard."""
    if not isinstance(mask, TracedArray):
        return constant(np.flatnonzero(mask))
    flat = reshape(to_bool(mask.atom), (mask.size,))
    count = require_recorder("a boolean mask").guard(reduce("sum", cast(flat, INT), (0,)), "mask")
    return bind(NONZERO, flat, count=int(count))
