"""Lists that only grow from call to call, of which a run reads no more than length, single items and the last few.

Such a list (a node of kind ``history``) is not looked at item by item.  A run is given a ``KeptList`` in its place.  It
holds what the run adds, and gives those parts of what was there that are inputs.  Asked for anything else, it notes
what it was asked for, which the next run has, and answers from the list itself; that run is not kept.  Where what was
asked for has parts, which the run may change, or find on other ways, the run is made again at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...tracer.record.recorder import current_recorder
from ...tracer.record.retry import found_twice
from ..tensor_library import TENSORS
from .values import is_leaf

WHOLE, LENGTH, SOME = "whole", "length", "some"
_MOST_ITEMS = 32  # of a slice
Part = str | int  # WHOLE, LENGTH, SOME (whether it is empty), or the index of an item


def reach(parts: set[Part]) -> int:
    """The length from which on a list has all of these *parts*."""
    return max([int(SOME in parts), *[k + 1 if k >= 0 else -k for k in parts if isinstance(k, int)]])


class KeptList(list):
    """Stands for *original* in a run, empty at first.  *parts*: stand-ins for the parts that are known; *known*: the
    length up to which it is known whether there are so many items."""

    __slots__ = ("_known", "_original", "_parts", "asked", "whole")

    def stand_for(self, original: list[Any], parts: dict[Part, Any], known: int) -> None:
        self._original, self._parts, self._known = original, parts, known
        self.asked: set[Part] = set()
        self.whole = False  # whether it holds what was there, too

    @property
    def __class__(self) -> Any:
        return type(self._original)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("__class__ assignment only supported for mutable types or ModuleType subclasses")

    def _added(self) -> int:
        return list.__len__(self)

    def _part(self, part: Part) -> Any:
        if part in self._parts:
            return self._parts[part]
        self.asked.add(part)
        if part == LENGTH:
            return len(self._original)
        item = self._original[part]  # type: ignore[index]
        self._hand_out([item], part if part < 0 else WHOLE)  # type: ignore[operator]
        return item

    def _hand_out(self, items: list[Any], part: Part) -> None:
        """End the run if *items* have parts; the next one has that *part*."""
        recorder = current_recorder()
        if recorder is not None and not all(map(_has_no_parts, items)):
            self.asked.add(part)
            recorder.again(found_twice(grown={}))  # the run knows which ones

    def take_all(self) -> None:
        if not self.whole:
            self.whole = True
            self.asked.add(WHOLE)
            self._hand_out(self._original, WHOLE)
            list.__setitem__(self, slice(0, 0), self._original)

    def traced_length(self) -> Any:
        """The length, a traced number where that is known."""
        return self._added() if self.whole else self._part(LENGTH) + self._added()

    def __len__(self) -> int:
        if not self.whole:
            self.take_all() if LENGTH in self._parts else self.asked.add(LENGTH)
        return self._added() + (0 if self.whole else len(self._original))

    def __bool__(self) -> bool:
        if self._added():
            return True
        return not self.whole and self._has(SOME)

    def _has(self, part: Part) -> bool:
        """Whether there was such an item."""
        if reach({part}) > self._known:
            self.asked.add(part)
        return reach({part}) <= len(self._original)

    def __getitem__(self, index: Any) -> Any:
        added = self._added()
        if self.whole or (type(index) is int and -added <= index < 0):
            return list.__getitem__(self, index)
        if type(index) is slice and _is_tail(index):  # `losses[-10:]`
            if added < -index.start and not self._has(index.start + added):
                index = slice(-added - len(self._original), index.stop)
            return [self[k] for k in range(index.start, index.stop or 0)]
        if type(index) is not int:
            self.take_all()
            return list.__getitem__(self, index)
        at = index + added if index < 0 else index
        if self._has(at):
            return self._part(at)
        return list.__getitem__(self, index - len(self._original) if index >= 0 else index)

    def __iadd__(self, values: Any) -> Any:  # type: ignore[misc]
        self.extend(values)
        return self

    def __radd__(self, other: Any) -> Any:
        self.take_all()
        return other + list.copy(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self.take_all()
        return list, (list.copy(self),)


def _has_no_parts(item: Any) -> bool:
    """Whether a run may have *item* itself."""
    if type(item) is tuple:
        return all(map(_has_no_parts, item))
    return type(item) is np.ndarray or is_leaf(item) or isinstance(item, TENSORS.types)


@lru_cache(maxsize=256)
def kept_class(cls: type) -> type:
    """The class of such a list in place of one of a subclass of ``list``."""
    return type("KeptList", (KeptList, cls), {"__slots__": ()})


def _is_tail(index: slice) -> bool:
    """Whether a slice takes a few of the last items."""
    start, stop = index.start, index.stop
    last = stop is None or (type(stop) is int and stop < 0)
    return last and index.step is None and type(start) is int and -_MOST_ITEMS <= start < 0


def _of_all(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    def call(self: KeptList, *args: Any, **kwargs: Any) -> Any:
        self.take_all()
        return method(self, *args, **kwargs)

    return call


for _name in (
    "__iter__", "__contains__", "__reversed__", "__setitem__", "__delitem__", "__add__", "__mul__",
    "__rmul__", "__imul__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__repr__", "clear", "copy",
    "count", "index", "insert", "pop", "remove", "reverse", "sort",
):  # fmt: skip
    setattr(KeptList, _name, _of_all(_name))
