"""Loops of plain numbers run as they are: Python computes them once, when the run is recorded, and exactly.

A loop is quiet as long as the names that it reads hold plain values alone, and its iterations record nothing.  Long
ones are not: a kernel does in a millisecond what Python does in a second (a heuristic)."""

from __future__ import annotations

import types
from types import FrameType
from typing import Any

import numpy as np

from ..record.array import TracedArray
from ..record.made_arrays import MadeArray
from ..record.recorder import Recorder

_LONG = 20_000  # iterations
_LOOKED_AT = 64  # elements of a container
_PLAIN = frozenset((
    int, float, complex, bool, str, bytes, type(None), range, types.ModuleType, types.BuiltinFunctionType, type,
    np.ufunc, np.ndarray, MadeArray,
))  # fmt: skip


class Quiet:
    """Whether *loop* in *frame* is quiet so far; *length*: the number of its iterations, 0 where nobody knows, None
    where it goes over other values than plain ones."""

    def __init__(self, recorder: Recorder, frame: FrameType, loop: Any, length: int | None) -> None:
        self.recorder, self.nodes, self.left = recorder, len(recorder.nodes), _LONG
        if length is None or length > _LONG or not _reads_plain(frame, loop.reads):
            self.left = 0

    def lasts(self) -> bool:
        """Whether the next iteration is expected to record nothing, as those before it."""
        if self.left:
            self.left = self.left - 1 if len(self.recorder.nodes) == self.nodes else 0
        return self.left > 0


def _reads_plain(frame: FrameType, names: tuple[str, ...] | None) -> bool:
    if names is None:
        return False
    local, space = frame.f_locals, frame.f_globals
    for name in names:
        value = local[name] if name in local else space.get(name)  # None: of a builtin
        if not is_plain(value) or (type(value) is np.ndarray and name not in local):  # one from outside is traced
            return False
    return True


def is_plain(value: Any) -> bool:
    kind = type(value)
    if kind in (list, tuple):
        return all(is_plain(x) for x in value[:_LOOKED_AT])
    return kind in _PLAIN or (kind is not TracedArray and issubclass(kind, np.generic))
