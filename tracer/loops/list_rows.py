"""Arrays of a list as rows of their stack: in a marked iteration a row stands for one array of the list.

It is of the buffer of that array, so that writes reach it, but read as the row as long as it is not written.  No loop
node is made of an iteration that writes into an array of the list.  After the loop the array itself stands in its
place; where nobody knows which one it is, none of them may be written any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.graph import Atom
from ..record.array import A_PART, TracedArray, class_of
from ..record.buffers import Storage
from ..record.recorder import Recorder, require_recorder
from .positions import Affine
from .python_ints import in_plain_iterations

_PART_WRITTEN = "an array is written of which a loop has a part: the run is made again, with that loop as it is"
_CHANGED = "an array of a list is changed that a loop goes over: the run is made again, with that loop as it is"


class OfLoop(str):
    """The owner of a buffer that a loop has taken of another array: where it is written the run is made again, with
    that loop recorded iteration by iteration."""

    __slots__ = ("statement",)
    statement: Any

    def __new__(cls, statement: Any) -> OfLoop:
        found = super().__new__(cls, A_PART)
        found.statement = statement
        return found

    def refuse(self) -> None:
        in_plain_iterations(require_recorder("a write"), self.statement, _PART_WRITTEN)


class ListRow(NamedTuple):
    """The *array* that stands for the one of *items* at ``form``."""

    array: TracedArray
    items: Sequence[Any]
    form: Affine

    def after(self, form: Affine) -> Any:
        """The array of the list at *form*; None where that is not one position."""
        return None if form.constant is None else self.items[form.constant]


def read_as(recorder: Recorder, array: TracedArray, atom: Atom) -> TracedArray:
    """An array of the buffer of *array*, so that it can be written into as that one, but read as *atom* as long as it
    is not."""
    found = TracedArray.__new__(TracedArray)
    found._storage, found._steps, found._uncertain = array._storage, array._steps, array._uncertain
    found._atom, found._version, found._recorder = atom, array._storage.version, recorder
    return found


def row_of_list(recorder: Recorder, row: TracedArray, items: Sequence[Any], form: Affine, now: int) -> TracedArray:
    """The array with the value of *row*, which is that of the array of *items* at *form*, *now* at a certain place."""
    item = items[now]
    if type(item) is not TracedArray:
        item = TracedArray(row.atom, recorder)
        item._storage = Storage(row.atom, A_PART, home=recorder, c_order=True, array0d=True)
        note_plain(recorder, items)
    found = read_as(recorder, item, row.atom)
    for loop in recorder.open_loops:
        loop.rows[id(found)] = ListRow(found, items, form)
    return found


def part_of_list(recorder: Recorder, row: TracedArray, items: Sequence[Any]) -> TracedArray:
    """The array with the value of *row*, which is that of one of the arrays *items*; data decides which."""
    statement = recorder.open_loops[-1].statement if recorder.open_loops else None
    row._storage.owner = A_PART if statement is None else OfLoop(statement)
    freeze(recorder, items, statement)
    return row


def freeze(recorder: Recorder, items: Iterable[Any], statement: Any) -> None:
    """The arrays *items*, of which the loop of this *statement* has parts, may not be written any more."""
    for item in items:
        if type(item) is TracedArray and class_of(item) is np.ndarray and item._storage.owner is None:
            item._storage.owner = A_PART if statement is None else OfLoop(statement)
    note_plain(recorder, items)


def note_plain(recorder: Recorder, items: Iterable[Any]) -> None:
    """Note the plain arrays among *items*, which nothing can keep from being changed."""
    known = recorder.loops.plain_rows
    for item in items:
        if isinstance(item, np.ndarray) and id(item) not in known:
            known[id(item)] = item, item.tobytes(), recorder.open_loops[-1].statement if recorder.open_loops else None


def check_plain_rows(recorder: Recorder) -> None:
    """Have the run made again where plain arrays were changed that stood in lists that loops have gone over."""
    for array, contents, statement in recorder.loops.plain_rows.values():
        if statement is not None and array.tobytes() != contents:
            in_plain_iterations(recorder, statement, _CHANGED)


def writes_list(marked: Any) -> bool:
    """Whether the iteration *marked* writes into an array of a list of which it has a row."""
    written = marked.written
    return bool(written) and any(
        type(item) is TracedArray and id(item._storage) in written
        for items in {id(row.items): row.items for row in marked.rows.values()}.values()
        for item in items
    )
