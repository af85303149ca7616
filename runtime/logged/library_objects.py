"""Objects of NumPy's and SciPy's classes that stand outside: sparse matrices, splines, frozen distributions.

Their code is not converted, and reads all of them.  So all that such an object holds is read when it is found.  Where
it holds data, the run gets a *twin* over the run's arrays and over copies of its containers; where it does not, the
object itself.  What the library has put into a twin is written to the object when the run is over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tracer.ir.own_attributes import attributes_of
from ...tracer.record.recorder import Recorder
from ..record.kinds import PLAIN
from ..state.contents import set_attribute
from ..state.state_graph import StateNode
from .handing import Handing, is_as_it_was
from .reads import CONTAINERS, ReadLog
from .writes import WrittenNames


class LibraryObjects(Handing):
    """The part of a run that knows objects of libraries."""

    def __init__(self, reads: ReadLog, recorder: Recorder) -> None:
        super().__init__(reads, recorder)
        reads.twin = self._twin
        self.twins: dict[int, tuple[Any, Any]] = {}  # id of a twin -> (it, the object outside)
        self._before: list[tuple[Any, StateNode, dict[str, Any], list[tuple[Any, Any]], list[Any]]] = []

    def _twin(self, node: StateNode, as_twin: bool) -> None:
        """Read all of the object of *node*, for which the run gets a twin, or itself."""
        value = node.obj
        made = object.__new__(type(value)) if as_twin else value
        if as_twin:
            self.reads.shows(value, made)
            self.twins[id(made)] = made, value
        copies, self._copies = self._copies, []
        arrays: list[Any] = []
        try:
            unread = () if as_twin else self.reads.unread(value)
            for name, part in attributes_of(value).items():
                if name in unread:
                    continue
                shown = self.reads.read(node, "attr", name, part, f"{node.label}.{name}")
                if as_twin:
                    set_attribute(made, name, self._part_of_twin(shown, arrays))
                elif type(shown) is not np.ndarray:
                    self.handed(shown, False)  # which reads all of it
            self._before.append((made, node, attributes_of(made), self._copies, arrays))
        finally:
            self._copies = copies

    def _part_of_twin(self, shown: Any, arrays: list[Any]) -> Any:
        if type(shown) is np.ndarray:  # code in C may ask for one that can be written to
            kept = shown.copy(order="K")
            arrays.append((kept, shown))
            return kept
        if type(shown) in CONTAINERS or (type(shown) not in PLAIN and not self.reads.library(type(shown))):
            return self.handed(shown, True)
        return shown

    def settle_objects(self) -> None:
        """Note what libraries have put into the twins; an error where that has no place outside."""
        for node, copy in self.reads.data:
            if not node.extra(copy):
                raise self.refuse(f"`{node.label}`, which the run changes")
        for made, node, before, copies, arrays in self._before:
            same = all(np.array_equal(kept, shown, equal_nan=kept.dtype.kind in "fc") for kept, shown in arrays)
            if not same or not all(is_as_it_was(*copy) for copy in copies):
                raise self.refuse(f"`{node.label}`, which the run changes")
            now = attributes_of(made)
            changed = {name: value for name, value in now.items() if before.get(name, now) is not value}
            if before.keys() - now.keys() or (changed and made is node.obj):
                raise self.refuse(f"`{node.label}`, which the run changes")
            if changed:
                written = self.writes.setdefault(id(node.obj), WrittenNames(node.obj))
                assert isinstance(written, WrittenNames)
                written.values.update(changed)
