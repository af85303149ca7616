"""``a[i]`` and ``a[i] = v`` in a marked iteration, where *i* follows from the number of the iteration: of lists and
plain arrays, which would ask for the number itself, and slices that move, which would do so too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.aval import INT
from ..ir.graph import Atom, Lit, Var
from ..ops.elementwise import F, cast
from ..record.array import TracedArray, wrap, wrap_array
from ..record.buffers import WindowStep
from ..record.integers import TracedInt
from ..record.made_arrays import MadeArray, for_parts, part_taken
from ..record.recorder import Recorder
from . import tables
from .histories import History, is_traced_position, position_in
from .iterables import ListOfLists, RowOfLists, listed
from .marked import Marked
from .positions import Affine, Reader, bounds, is_of, is_within

_AFFINE = frozenset(("add", "sub", "mul", "neg"))


def item(recorder: Recorder, container: Any, index: Any) -> Any:
    """``container[index]``."""
    if recorder.open_loops:
        recorder = recorder.in_force()
        if type(container) is TracedArray:
            return _view(recorder, container, index)
        if isinstance(container, np.ndarray) and _is_traced(index) and type(container) in (np.ndarray, MadeArray):
            return part_taken(recorder, container, _view(recorder, for_parts(recorder, container), index))
        if type(index) is TracedInt and type(container) in (list, tuple):
            index = index.array()
        if type(container) is list:
            if (found := tables.item(recorder, container, index)) is not NotImplemented:
                return found
            index = _from_the_end(recorder, container, index)
            history = _history(recorder, container)
            if history is not None and (found := history.item(index)) is not NotImplemented:
                return found
            recorder.open_loops[-1].reads(container, index)
        if type(container) in (list, tuple) and type(index) is TracedArray and index.aval.dtype.kind in "iu":
            return _of_list(recorder, container, index)
    return container[index]


def _history(recorder: Recorder, container: list[Any]) -> History | None:
    """The history that has the elements of *container*."""
    return next((x for loop in recorder.open_loops if (x := loop.histories.get(id(container))) is not None), None)


def length(recorder: Recorder, container: Any) -> Any:
    """``len(container)``, which counts where an iteration appends to a list."""
    if type(container) is list and recorder.open_loops and id(container) not in recorder.loops.tables:
        marked: Marked = recorder.open_loops[-1]
        form = _length(marked, container)
        if form is not None and form.slopes:
            return marked.integer(form, len(container))
        marked.reads(container)
    return len(container)


def _length(marked: Marked, container: list[Any]) -> Affine | None:
    """The length of a list to which each iteration appends, as far as that is known from iterations before."""
    step = marked.grows.get(id(container))
    return None if step is None else Affine(len(container), {marked.number: step})


def _from_the_end(recorder: Recorder, container: list[Any], index: Any) -> Any:
    """*index* of a list to which each iteration appends, from its end, if the element is always that far from it."""
    marked: Marked = recorder.open_loops[-1]
    if type(index) is not TracedArray or (whole := _length(marked, container)) is None:
        return index
    form = marked.form(index.atom)
    back = None if form is None else form.plus(whole, -1).constant
    return index if back is None or back >= 0 else back


def fill_item(recorder: Recorder, value: Any, container: list[Any], index: Any) -> bool:
    """Whether ``container[index] = value`` is an assignment of the next element of a list that a loop fills; then it is
    done."""
    recorder = recorder.in_force()
    index = index.array() if type(index) is TracedInt else index
    if tables.assigned(recorder, value, container, index):
        return True
    marked: Marked = recorder.open_loops[-1]
    history = _history(recorder, container)
    traced = is_traced_position(index)
    if not traced and not (type(index) is int and history is not None and history.is_whole):
        return False
    if id(container) in recorder.loops.made_anew or id(container) in marked.made:
        return False
    form, now = (marked.form(index.atom), int(recorder.value(index.atom))) if traced else (None, index)
    if form is not None and form.slopes.keys() == {marked.number} and id(container) not in marked.filled:
        marked.filled[id(container)] = container, form, now
    elif traced:
        marked.scattered[id(container)] = container
    for outer in recorder.open_loops[:-1] if traced else ():
        if id(container) not in outer.made:
            outer.scattered[id(container)] = container
    if history is None or history.filling is None or not -len(container) <= now < len(container):
        return False
    return history.assign(value, index, form, now)


def replaced_in_arm(recorder: Recorder, container: Any, index: Any) -> Any:
    """The element of a list that is an array now, which one arm of two replaces; NotImplemented of other lists."""
    recorder = recorder.in_force()
    index = index.array() if type(index) is TracedInt else index
    if type(container) is not list:
        return NotImplemented
    if id(container) in recorder.loops.tables:
        return tables.item(recorder, container, index)
    history = _history(recorder, container)
    if history is not None:
        return history.item(index) if history.is_whole else NotImplemented
    if is_traced_position(index):
        for loop in recorder.open_loops:
            if id(container) not in loop.made:
                loop.scattered[id(container)] = container
    return NotImplemented


def set_item(recorder: Recorder, value: Any, container: Any, index: Any) -> None:
    """``container[index] = value``."""
    if recorder.open_loops and type(container) is TracedArray:
        items = index if type(index) is tuple else (index,)
        windows = windows_in(recorder.in_force(), items, container.aval.shape)
        if len(windows) == 1:
            ((k, step),) = windows.items()
            index = (*items[:k], wrap_array(step.places), *items[k + 1 :])
        elif windows:
            container, index = _through(container, items, windows), ...
    container[index] = value


def _is_traced(index: Any) -> bool:
    if type(index) is tuple:
        return any(map(_is_traced, index))
    if type(index) is slice:
        return _is_traced((index.start, index.stop, index.step))
    return type(index) is TracedArray


def _of_list(recorder: Recorder, container: Any, index: TracedArray) -> Any:
    """The element of a list or tuple of like values, as a row of their stack."""
    source = listed(recorder, list(container)) if index.aval.size == 1 else None
    if source is None or not source.has_rows:
        return container[index]
    form = recorder.open_loops[-1].form(index.atom)
    sure = is_within(form, len(container), recorder.open_loops)
    if sure:
        place: Atom | None = cast(index.atom, INT)
    else:
        place = None if form is not None else position_in(recorder, index, Affine(len(container)))
    if place is None:
        return container[index]
    if isinstance(place, Var):
        recorder.loops.int_ranges[place] = 0, len(container) - 1
    now = int(recorder.value(place))
    return source.element(wrap(cast(place, INT, weak=True)), form if sure else None, now)


def row_gone_over(recorder: Recorder, lists: Sequence[Sequence[Any]], index: TracedArray) -> RowOfLists | None:
    """The one of *lists* at *index*, for a loop that goes over it; None where a list is to be asked for."""
    form = recorder.open_loops[-1].form(index.atom) if index.aval.size == 1 else None
    if form is None or not form.slopes or not is_within(form, len(lists), recorder.open_loops):
        return None
    every = ListOfLists.of(recorder, lists)
    if every is None:
        return None
    place = cast(cast(index.atom, INT), INT, weak=True)
    return RowOfLists(recorder, every, place, form, int(recorder.value(index.atom)))


def _view(recorder: Recorder, array: TracedArray, index: Any) -> Any:
    """``array[index]``, through views of the slices that move, if there are any."""
    items = index if type(index) is tuple else (index,)
    windows = windows_in(recorder, items, array.aval.shape)
    return _through(array, items, windows) if windows else array[index]


def _through(array: TracedArray, items: tuple[Any, ...], windows: dict[int, WindowStep]) -> TracedArray:
    """``array[items]`` as a view, with *windows* in the places of slices."""
    if len(items) > 1:
        array = array[tuple([slice(None) if k in windows else x for k, x in enumerate(items)])]
    for k, step in windows.items():
        step.axis = sum(type(x) is slice for x in items[:k])
        array = array.view(step)
    return array


def windows_in(recorder: Recorder, items: tuple[Any, ...], shape: tuple[int, ...]) -> dict[int, WindowStep]:
    """The steps of views that slices in an index are which move, by their places in it."""
    moving = [k for k, x in enumerate(items) if type(x) is slice and _is_traced(x)]
    if any(x is None or x is Ellipsis or isinstance(x, (np.ndarray, list)) for x in items) or len(items) > len(shape):
        return {}
    if any(type(x) is TracedArray and x.aval.shape for x in items):
        return {}
    steps = {k: _window(recorder, items[k], shape[k]) for k in moving}
    return {k: step for k, step in steps.items() if step is not None}


def _window(recorder: Recorder, moving: slice, size: int) -> WindowStep | None:
    """The step of a slice of constant width; None where it is not known to be within *size*."""
    marked: Marked = recorder.open_loops[-1]
    ends = [_end(marked, x) for x in (moving.start, moving.stop)]
    step = 1 if moving.step is None else moving.step
    if type(step) is not int or step < 1:
        return None
    start = Affine(0) if moving.start is None else ends[0]
    stop = Affine(size) if moving.stop is None else ends[1]
    if start is None or stop is None:
        return None
    width = stop.plus(start, -1).constant
    if width is None or width < 1 or not _is_within(recorder, start, stop, size):
        return None
    low, high = bounds(start, recorder.open_loops)[0], bounds(stop, recorder.open_loops)[1]
    if low is None or high is None or low < 0 or high > size:
        if not _is_said_within(recorder, start, moving, size):
            return None
        low, high = 0, size
    first = moving.start.atom if type(moving.start) is TracedArray else Lit(start.offset, INT)
    found = WindowStep.of(0, first, -(-width // step), step)
    assert isinstance(found.places, Var)
    marked.ranges[found.places] = low, high - 1
    return found


def _end(marked: Marked, x: Any) -> Affine | None:
    """The end *x* of a slice as a position: one that data says by the integer that it is computed from."""
    if type(x) is not TracedArray:
        return None if x is None else Affine(int(x))
    reader = marked.reader()

    def known(var: Var) -> Affine | None:
        found, node = reader.known(var), marked.node_of(var)
        computed = node is not None and node.prim.name in _AFFINE
        return Affine(0, {var: 1}) if found is None and not computed else found

    form = marked.form(x.atom)
    return Reader(known, reader.maker).form(x.atom) if form is None else form


def _is_said_within(recorder: Recorder, start: Affine, moving: slice, size: int) -> bool:
    """Whether data says that a slice from *start* on is within *size*, which is asked."""
    if (
        recorder.arms
        or is_of(start, recorder.open_loops)
        or type(moving.start) is not TracedArray
        or type(moving.stop) is not TracedArray
    ):
        return False
    first, last = [cast(x.atom, INT) for x in (moving.start, moving.stop)]
    begins = F.logical_and(F.ge(first, Lit(0, INT, structural=True)), F.le(first, Lit(size, INT)))
    return bool(recorder.guard(F.logical_and(begins, F.le(last, Lit(size, INT))), "index"))


def _is_within(recorder: Recorder, start: Affine, stop: Affine, size: int) -> bool:
    """Whether a slice is within *size*, so that nothing is cut off.  Where that is not so in all iterations, the loop
    ends before the first one in which it is otherwise."""
    marked: Marked = recorder.open_loops[-1]
    if recorder.arms or not (is_of(start, recorder.open_loops) and is_of(stop, recorder.open_loops)):
        return True  # as far as this knows
    return bool(marked.holds("ge", start, Affine(0)) and marked.holds("le", stop, Affine(size)))
