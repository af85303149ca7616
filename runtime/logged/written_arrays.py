"""Arrays outside into which a run writes, and of which it reads nothing but their shape and dtype.

``losses[k] = loss.item()`` is an effect, in order with what is printed.  Such an array is no input: the run has an
``ArraySink`` in its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tracer.record.array import TracedArray
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray
from ...tracer.record.recorder import current_recorder
from ...tracer.record.reports import Report
from ..record.kinds import TRACED, may_be_written
from .reads import not_closed
from .unseen import unseen
from .writes import Varies

_FACTS = ("shape", "dtype", "size", "ndim")
_NUMBERS = (int, float, complex, bool, *TRACED)
_INDICES = (int, TracedInt, type(None), type(Ellipsis))
_WORDS = "the contents of an array from outside that is written"
_Unseen: Any = unseen("Unseen", _WORDS, but=("__len__", "__getattribute__"))


class ArraySink(_Unseen):  # type: ignore[misc]
    """The stand-in for *array* in a run that writes there."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)


def fact_of(sink: ArraySink, name: str) -> Any:
    """``array.name``."""
    if name not in _FACTS:
        raise not_closed(_WORDS)
    return getattr(sink.array, name)


def becomes_sink(run: Any, shown: Any) -> None:
    """The run is about to write into an array outside, an input so far: it is made again, with a sink instead."""
    for node in run.reads.inputs if run.reads.writes_arrays else ():
        if node.kind == "array" and run.reads.shown_for(node.obj) is shown:
            if not may_be_written(node.obj) or not run.reads.may_vary(node.label):
                raise run.refuse(f"an assignment in `{node.label}`, an array from outside")
            raise run.again(Varies(node.label))


def write_into(run: Any, sink: ArraySink, index: Any, value: Any) -> None:
    """``array[index] = value``."""
    places = index if type(index) is tuple else (index,)
    plain = isinstance(value, np.generic | np.ndarray) or type(value) in _NUMBERS
    known = plain and all(type(part) in _INDICES for place in places for part in _bounds(place))
    if not known or not _may_be_done(run, sink.array, [place for place in places if place is not None], value):
        raise run.refuse("such an assignment in an array from outside")
    if isinstance(value, np.ndarray) or (type(value) in (TracedArray, MadeArray) and value.shape):
        value = value.copy()
    run.no_carry(sink, "an array outside is written")
    if current_recorder() is not run.recorder:
        raise run.refuse("an array outside that is written in the body of a loop")
    run.texts.printed.append(Report(sink.array, "__setitem__", (index, value), {}, None, ("write", "__setitem__")))


def _may_be_done(run: Any, array: np.ndarray, places: list[Any], value: Any) -> bool:
    """Whether the assignment will raise nothing, as it would before what comes after it."""
    dots = next((axis for axis, place in enumerate(places) if place is Ellipsis), len(places))
    if len(places) - (dots < len(places)) > array.ndim:
        return False
    known: list[Any] = []
    for axis, place in enumerate(places):
        if type(place) is TracedInt:
            size = array.shape[axis if axis < dots else axis - len(places)]
            if not (run.test(place >= -size) and run.test(place < size)):
                return False
            place = 0
        elif any(type(part) is TracedInt for part in _bounds(place)):
            if getattr(value, "shape", ()):  # the number of places is not known
                return False
            place = slice(None)
        known.append(place)
    try:
        dtype = np.dtype(int if type(value) is TracedInt else getattr(value, "dtype", type(value)))
        np.empty_like(array)[tuple(known)] = np.zeros(getattr(value, "shape", ()), dtype)
    except Exception:
        return False
    return dtype.kind in "fiub" and array.dtype.kind in "fiubc"


def _bounds(part: Any) -> tuple[Any, ...]:
    return (part.start, part.stop, part.step) if type(part) is slice else (part,)
