"""Objects that hold one traced array each, as tensors of eager code do: registered, since their library stands above.

In a loop the array is what is carried; the object in its place is made by the library.  Its tape, if it has one, is
told of the iterations that are marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..ir.graph import Atom
from ..ir.refusals import Reason
from ..record.array import TracedArray
from ..record.recorder import Recorder


class Holder(Protocol):
    """The knowledge of loops about the objects of one class."""

    def array(self, value: Any) -> TracedArray:
        """The array that *value* holds."""

    def facts(self, value: Any) -> Any:
        """All else that code can see of *value*; None where only *value* itself can stand in its place."""

    def begin(self, value: Any, array: TracedArray) -> Any:
        """The stand-in of *value* in a marked iteration: it holds *array*, the symbol."""

    def end(self, value: Any, array: TracedArray) -> Any:
        """The object that *value*, of a marked iteration, is after the last one: it holds *array*."""

    def begins(self, value: Any) -> bool:
        """Whether *value* stands for another object in the iteration."""

    def rows(self, value: Any, stack: Atom, arrays: Sequence[TracedArray]) -> list[Any]:
        """The objects that *value* is in each iteration: they hold *arrays*, the rows of *stack*."""

    def stacked(self, items: Sequence[Any]) -> Any:
        """An object whose rows *items* are, objects of this class; None where there is none."""

    def row(self, whole: Any, index: Any) -> Any:
        """The row of *whole* at *index*, an integer or the symbol of one, as iteration gives it."""


class IterationTape(Protocol):
    """The notes that the library of holders takes while operations on them are recorded."""

    def begun(self, iteration: Any) -> None:
        """The arrays that *iteration* carries hold their symbols."""

    def closed(self, marked: Any) -> None:
        """The iteration is over, or left."""

    def objection(self, iteration: Any) -> Reason | None:
        """Why no loop node can be made of *iteration*, which is over."""

    def ended(self, iteration: Any) -> None:
        """The loop node is made, and what it gives holds its results."""


HOLDERS: dict[type, Holder] = {}
ROW_ITERATORS: list[type] = []  # classes of iterators over them, which can be taken apart as those of lists can


def array_of(value: Any) -> Any:
    """The traced array that *value* holds; any other value as it is."""
    holder = HOLDERS.get(type(value))
    return value if holder is None else holder.array(value)


def tape_of(recorder: Recorder) -> IterationTape | None:
    """The tape that is told of the iterations in a recording, if there is one."""
    return recorder.tape  # type: ignore[no-any-return]
