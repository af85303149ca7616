"""Iterables of loops, taken apart: how many items there are, and the item of any iteration as a symbol."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache
from itertools import accumulate, chain
from typing import Any

import numpy as np

from ..ir.graph import Atom, Var
from ..ir.refusals import Refusal
from ..ops.elementwise import cast
from ..record.array import FUNCTIONS, TracedArray, constant, is_traced, wrap, wrap_array
from ..record.made_arrays import MadeArray, for_parts
from ..record.recorder import Recorder, require_recorder
from .holders import HOLDERS, ROW_ITERATORS
from .list_rows import part_of_list, row_of_list
from .marked import Marked
from .positions import Affine, bounds, is_of
from .python_ints import int_in_loop, is_python_int
from .quiet import is_plain
from .tables import RowIterator, TableRow
from .values import Like, Parts, like, parts_of, put_together

_DICT_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_REVERSED_LIST: type = type(reversed([0]))
_ITERATORS: tuple[type, ...] = (
    type(iter(range(0))), type(iter([])), type(iter(())), type(iter(np.zeros(1))), _REVERSED_LIST,
    zip, enumerate, reversed, map,
)  # fmt: skip
_MOST_DEEP = 4  # iterators that take their items from one another


class Iterated:
    """The items of a loop: item *k* is number ``start + k * step`` of what there is."""

    length: Affine
    start: Any = 0
    step = 1
    has_rows = False  # whether an item can be had at a place that data says

    def row(self, index: Any, now: int | None) -> Any:
        """The item at *index*, an integer or a symbol, which is *now* in this iteration; None: data decides."""
        raise NotImplementedError

    def symbol(self, marked: Marked, k: int) -> Any:
        """The item of iteration *k*, and of those that follow."""
        now = self.start + k * self.step
        return self.row(marked.integer(Affine(now, {marked.number: self.step}), now), now)

    def item(self, k: int) -> Any:
        """The item of iteration *k*."""
        now = self.start + k * self.step
        return self.row(now, now)

    def at(self, k: TracedArray) -> Any:
        """The item of iteration *k*, a number that data decides."""
        return self.row(k * self.step + self.start, None)

    def element(self, index: TracedArray, form: Affine | None, now: int) -> Any:
        """The item at *index*, which is *form*, if that is known, and *now* at a certain place; of what has rows."""
        return self.at(index)

    def backwards(self) -> Iterated:
        """The same from the last item to the first."""
        made = copy(self)
        made.start, made.step = self.start + self.step * (self.length.offset - 1), -self.step
        return made

    def is_plain(self) -> bool:
        """Whether the items are plain values."""
        return False

    def has_copies(self) -> bool:
        """Whether copies stand for items."""
        return False


class Counts(Iterated):
    """``range(start, ..., step)``, of which start and length may be affine in the numbers of outer loops, of which
    *outer* is the innermost.  *now*: the start in this iteration, traced where data says it."""

    has_rows = True

    def __init__(self, start: Affine, step: int, length: Affine, now: Any, outer: Marked | None = None) -> None:
        self.start, self.step, self.length, self.now, self.outer = start, step, length, now, outer

    def symbol(self, marked: Marked, k: int) -> Any:
        form = self.start.plus(Affine(k * self.step, {marked.number: self.step}))
        return marked.integer(form, self._now(k))

    def item(self, k: int) -> Any:
        if self.outer is None or not self.start.slopes:
            return self._now(k)
        return self.outer.integer(self.start.plus(Affine(k * self.step)), self._now(k))

    def _now(self, k: int) -> int | Atom:
        """Number *k* in this iteration."""
        now = self.now + k * self.step
        return now.atom if type(now) is TracedArray else now  # type: ignore[no-any-return]

    def at(self, k: TracedArray) -> Any:
        return k * self.step + self.now

    def later(self, by: Affine) -> Counts:
        """The numbers that come *by* places later, of as many fewer iterations; there are none now."""
        return Counts(self.start.plus(by, self.step), self.step, self.length.plus(by, -1), self.now, self.outer)

    def backwards(self) -> Counts:
        last = (self.length.offset - 1) * self.step
        return Counts(self.start.plus(Affine(last)), -self.step, self.length, self.now + last)

    def is_plain(self) -> bool:
        return self.outer is None


class IteratedRows(Iterated):
    """The rows of an array."""

    def __init__(self, array: Any, start: int = 0, step: int = 1, length: Affine | None = None) -> None:
        self.array, self.start, self.step = array, start, step
        self.length = Affine(array.shape[0]) if length is None else length

    def row(self, index: Any, now: int | None) -> Any:
        holder = HOLDERS.get(type(self.array))
        if holder is not None:
            return holder.row(self.array, index)
        return (self.array if type(index) is int else self._traced())[index]

    def _traced(self) -> TracedArray:
        array = self.array
        return array if type(array) is TracedArray else for_parts(require_recorder("a loop"), array)

    def is_plain(self) -> bool:
        return type(self.array) is np.ndarray


class HeldRows(IteratedRows):
    """The *items* of a list, which are the rows of *whole*."""

    def __init__(self, items: Sequence[Any], whole: Any) -> None:
        super().__init__(whole, length=Affine(len(items)))
        self.items = items

    def item(self, k: int) -> Any:
        return self.items[self.start + k * self.step]


class Listed(Iterated):
    """Values of one kind, as rows of their stack."""

    has_rows = True

    def __init__(self, items: Sequence[Any], kind: Like, stacked: Callable[[], Any]) -> None:
        self.items, self.kind, self.length, self.stacked = items, kind, Affine(len(items)), cache(stacked)

    def item(self, k: int) -> Any:
        return self.items[self.start + k * self.step]

    def row(self, index: Any, now: int | None) -> Any:
        form = None if now is None else index._recorder.open_loops[-1].form(index.atom)
        return self.element(index, form, now or 0)

    def element(self, index: TracedArray, form: Affine | None, now: int) -> Any:
        recorder, row = index._recorder, self.stacked()[index]
        if self.kind.kind is int and isinstance(row.atom, Var):
            recorder.loops.int_ranges[row.atom] = min(self.items), max(self.items)
        if self.kind.weak:
            return wrap(weak(row.atom))
        if self.kind.kind is not np.ndarray:
            return wrap(row.atom)
        if form is None:
            return part_of_list(recorder, wrap_array(row.atom), self.items)
        return row_of_list(recorder, row, self.items, form, now)

    def is_plain(self) -> bool:
        return is_plain(self.items)


class Same(Iterated):
    """One value, again and again."""

    has_rows = True

    def __init__(self, value: Any, length: Affine) -> None:
        self.value, self.length = value, length

    def symbol(self, marked: Marked, k: int) -> Any:
        return self.value

    def item(self, k: int) -> Any:
        return self.value

    def at(self, k: TracedArray) -> Any:
        return self.value

    def is_plain(self) -> bool:
        return is_plain(self.value)


class Together(Iterated):
    """``zip`` of several; or *items*, tuples of theirs, or lists, dicts or objects that the run has made, whose parts
    of these *names* they are.  What stands for such an object is made anew of its parts."""

    def __init__(
        self, sources: Sequence[Iterated], items: Sequence[Any] | None = None, names: tuple[Any, ...] | None = None
    ) -> None:
        self.sources, self.items, self.names = sources, items, names
        known = [s.length.constant for s in sources]
        self.length = sources[0].length if None in known else Affine(min(n for n in known if n is not None))
        self.has_rows = names is None and all(s.has_rows for s in sources)

    def symbol(self, marked: Marked, k: int) -> Any:
        parts, loops = tuple([s.symbol(marked, k) for s in self.sources]), marked.recorder.loops
        if self.items is None:
            return parts
        if self.names is None:
            _note_copy(marked, parts)
            return parts
        found = put_together(Parts(type(self.items[0]), self.names, (None,) * len(parts), 0), iter(parts), {})
        marked.made_here(found)
        _note_copy(marked, found)
        # where one is changed, or told from others, the run is made again without this
        loops.made_anew.update({id(x): (x, marked.statement) for x in self.items})
        return found

    def item(self, k: int) -> Any:
        return self.items[k] if self.items is not None else tuple([s.item(k) for s in self.sources])

    def at(self, k: TracedArray) -> Any:
        assert self.names is None  # a loop over copies is not left before its end
        return tuple([s.at(k) for s in self.sources])

    def element(self, index: TracedArray, form: Affine | None, now: int) -> Any:
        return tuple([s.element(index, form, now) for s in self.sources])

    def backwards(self) -> Together:
        items = None if self.items is None else self.items[::-1]
        return Together([s.backwards() for s in self.sources], items, self.names)

    def is_plain(self) -> bool:
        return all(s.is_plain() for s in self.sources)

    def has_copies(self) -> bool:
        return self.names is not None or any(s.has_copies() for s in self.sources)


def _note_copy(marked: Marked, copy: Any) -> None:
    """Note that *copy* stands for an item of a list in the iteration *marked*."""
    if not marked.recorder.live:  # which can't be made again
        loops = marked.recorder.loops
        loops.made_anew[id(copy)] = copy, marked.statement
        loops.copies[id(copy)] = copy, marked.recorder.open_loops[-1]


class RowItems(Iterated):
    """The elements of a row of a table, from number *first* on."""

    def __init__(self, row: TableRow, first: int) -> None:
        self.of, self.start = row, first
        self.length = Affine(row.table.plain.shape[1] - first)

    def row(self, index: Any, now: int | None) -> TracedArray:
        return self.of.table.element(self.of, index)


class SymbolicRange:
    """A ``range`` whose bounds follow from the numbers of the loops around it, and from what data *says*."""

    def __init__(
        self, recorder: Recorder, counts: Counts, plain: range, needs_positive: bool, says: Sequence[Atom]
    ) -> None:
        self.recorder, self.counts, self.plain, self.needs_positive = recorder, counts, plain, needs_positive
        self.says = says

    def refuse_outer(self) -> None:
        """Have no loop node made of the iterations that are marked, in others of which it is another range."""
        open_loops, length = self.recorder.open_loops, self.counts.length
        by_data = not is_of(length, open_loops)
        if by_data:
            self._ask()
        for outer in open_loops:
            if by_data or outer.number in length.slopes:
                outer.refuse(Refusal.LOOP_COUNT(site=self.recorder.site()))

    def _ask(self) -> None:
        """Let the run rest on what data says."""
        for atom in self.says:
            self.recorder.guard(atom, "int")

    def _of_this_iteration(self) -> range:
        self._ask()
        for outer in self.recorder.open_loops:
            outer.refuse(Refusal.LOOP_COUNT(site=self.recorder.site()))
        return self.plain

    def __iter__(self) -> Iterator[Any]:
        self.refuse_outer()
        return map(self.counts.item, range(len(self.plain)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_this_iteration(), name)

    def __eq__(self, other: object) -> bool:
        return self._of_this_iteration() == (other.plain if type(other) is SymbolicRange else other)


def _of_range(name: str) -> Callable[..., Any]:
    return lambda self, *args: getattr(self._of_this_iteration(), name)(*args)


for _name in ("__len__", "__getitem__", "__contains__", "__reversed__", "__hash__", "__repr__"):
    setattr(SymbolicRange, _name, _of_range(_name))


class ListOfLists:
    """Lists or tuples of like values, of several lengths: all their items as one sequence, ``flat``."""

    def __init__(self, lists: Sequence[Sequence[Any]], flat: Iterated) -> None:
        self.lists, self.flat = lists, flat
        self.sizes = [len(x) for x in lists]
        self.starts = [0, *accumulate(self.sizes)][:-1]

    @classmethod
    def of(cls, recorder: Recorder, lists: Sequence[Sequence[Any]]) -> ListOfLists | None:
        """Those of *lists*; None where they hold values of several kinds."""
        source = listed(recorder, list(chain.from_iterable(lists)))
        return None if source is None or not source.has_rows else cls(lists, source)


class RowOfLists(Iterated):
    """One of several lists, by a traced ``index`` that follows from the numbers of open loops; it is the one *at* now.
    Nothing has it but a loop that goes over it, or ``len``."""

    def __init__(self, recorder: Recorder, lists: ListOfLists, index: Atom, form: Affine, at: int) -> None:
        self.recorder, self.form, self.plain, self.flat = recorder, form, lists.lists[at], lists.flat
        self.begins = lists.starts[at]  # now
        least, most = min(lists.sizes), max(lists.sizes)
        self.needs_positive = least == 0
        self.first = self._of(lists.starts, index)
        self.length, self.size = Affine(least), least
        if most > least:
            more = self._of([size - least for size in lists.sizes], index)
            assert isinstance(more.atom, Var)
            recorder.loops.int_ranges[more.atom] = 0, most - least
            self.length, self.size = Affine(least, {more.atom: 1}), more + least

    def _of(self, numbers: Sequence[int], index: Atom) -> TracedArray:
        """The one of *numbers* at *index*, a Python integer."""
        row = wrap_array(constant(np.array(numbers, np.int64)))[wrap(index)].atom
        self.recorder.loops.int_ranges[row] = min(numbers), max(numbers)
        return wrap(weak(row))

    def refuse_outer(self) -> None:
        """Have no loop node made of the iterations that are marked, in others of which it is another list."""
        for outer in self.recorder.open_loops:
            if outer.number in self.form.slopes:
                outer.refuse(Refusal.LOOP_COUNT(site=self.recorder.site()))
                outer.waits = True

    def __iter__(self) -> Iterator[Any]:
        self.refuse_outer()
        return map(self.item, range(len(self.plain)))

    def row(self, index: Any, now: int | None) -> Any:
        assert now is not None  # a list of known length
        place = self.first + index
        self.recorder.loops.int_ranges[place.atom] = 0, self.flat.length.offset - 1
        return self.flat.element(place, None, self.begins + now)


#: what loops go over whose number of iterations follows from the numbers of the loops around
OF_OUTER_LOOPS = (SymbolicRange, RowOfLists)


def symbolic_range(recorder: Recorder, *args: Any) -> Any:
    """``range(*args)``, where integers of open loops are among *args*."""
    if not recorder.open_loops or not any(type(x) is TracedArray for x in args):
        return range(*args)
    recorder = recorder.in_force()
    marked: Marked = recorder.open_loops[-1]
    args = tuple([_python_int(recorder, x) for x in args])
    forms = [_bound_of(marked, x) for x in args]
    step = forms[2].constant if len(forms) > 2 and forms[2] is not None else 1
    start, stop = (Affine(0), forms[0]) if len(forms) == 1 else forms[:2]
    if start is None or stop is None or step not in (1, -1):
        return range(*args)
    plain = range(*[int(recorder.value(x.atom)) if type(x) is TracedArray else x for x in args])
    length = stop.plus(start, -1).times(step)
    if length.constant is not None:
        length = Affine(max(length.constant, 0))
    low, high = bounds(length, recorder.open_loops)
    if high is None:
        return range(*args)
    says = [x.atom for x, form in zip(args, forms, strict=True) if type(x) is TracedArray and _is_of_data(marked, form)]
    now = args[0] if len(args) > 1 and _is_of_data(marked, forms[0]) else plain.start
    counts = Counts(start, step, length, now, marked)
    return SymbolicRange(recorder, counts, plain, low is None or low < 1, says)


def _python_int(recorder: Recorder, x: Any) -> Any:
    """*x*, or the integer of Python's that a range makes of one of NumPy's."""
    if type(x) is not TracedArray or x.aval.shape or x.aval.weak or x.aval.dtype.kind not in "iu":
        return x
    found = int_in_loop(recorder, x.atom)
    return x if found is None else found


def _is_of_data(marked: Marked, form: Affine | None) -> bool:
    """Whether a bound of a range is not known by the numbers of the open loops alone."""
    return form is not None and not is_of(form, marked.recorder.open_loops)


def _bound_of(marked: Marked, x: Any) -> Affine | None:
    """The integer *x* as a bound of a range: one that data decides is a part of its own; None of what has no bounds."""
    if type(x) is not TracedArray:
        return Affine(x)
    form = marked.form(x.atom)
    known = form is None and is_python_int(x) and x.atom in marked.integers
    return Affine(0, {x.atom: 1}) if known else form  # type: ignore[dict-item]


def source_of(recorder: Recorder, iterable: Any, depth: int = 0) -> Iterated | None:
    """The source that *iterable* is, which is not consumed; None where it is not known to be one."""
    kind, recorder = type(iterable), recorder.in_force()
    if kind is range:
        return Counts(Affine(iterable.start), iterable.step, Affine(len(iterable)), iterable.start)
    if kind is SymbolicRange:
        return iterable.counts
    if kind is RowOfLists:
        return iterable
    if kind is RowIterator:
        return RowItems(iterable.row, iterable.at)
    if kind is TracedArray:
        return IteratedRows(iterable) if iterable.aval.shape else None
    if kind in HOLDERS:
        return IteratedRows(iterable) if recorder.tape is not None and iterable.shape else None
    if isinstance(iterable, np.ndarray) and kind in (np.ndarray, MadeArray):
        return IteratedRows(iterable) if iterable.ndim and iterable.dtype.kind in "fiubc" else None
    if kind in (list, tuple) or kind in _DICT_VIEWS:
        return listed(recorder, list(iterable))
    if kind in (dict, set):
        return None
    if (kind in _ITERATORS or kind in ROW_ITERATORS) and depth < _MOST_DEEP:
        return None if depth == 0 and _is_taken_twice(iterable) else _of_iterator(recorder, iterable, depth)
    return None


def _taken_from(iterator: Any, depth: int = 0) -> list[Any]:
    """The iterators from which *iterator* takes its items, itself if it takes them from no other."""
    kind = type(iterator)
    if kind not in (zip, enumerate, map):
        return [iterator] if kind in _ITERATORS or kind in ROW_ITERATORS or kind is RowIterator else []
    if depth > _MOST_DEEP:
        return []
    parts = iterator.__reduce__()[1]
    return [x for part in parts[1 if kind is map else 0 :] for x in _taken_from(part, depth + 1)]


def _is_taken_twice(iterator: Any) -> bool:
    """Whether *iterator* takes items from another one in two ways (`zip(it, it)`)."""
    taken = _taken_from(iterator)
    return len({*map(id, taken)}) < len(taken)


def items_left(iterator: Any) -> list[Any]:
    """How far the iterators are from which *iterator* takes its items: who else takes some changes that."""
    return [x.__reduce__()[2:] if type(x) is RowIterator else operator.length_hint(x) for x in _taken_from(iterator)]


def _of_iterator(recorder: Recorder, iterator: Any, depth: int) -> Iterated | None:
    """The source of an iterator, by what it would be pickled as."""
    kind, reduced = type(iterator), iterator.__reduce__()
    if kind is zip:
        sources = [source_of(recorder, part, depth + 1) for part in reduced[1]]
        found = [s for s in sources if s is not None]
        unlike = len(reduced) > 2 and len({s.length.constant for s in found}) > 1  # strict=True: an error
        return Together(found) if found and len(found) == len(sources) and not unlike else None
    if kind is enumerate:
        source = source_of(recorder, reduced[1][0], depth + 1)
        first = reduced[1][1]
        return None if source is None else Together([Counts(Affine(first), 1, source.length, first), source])
    if kind is map:
        function, *parts = reduced[1]
        array = getattr(function, "__self__", None)
        if type(array) is not TracedArray or function != array.__getitem__ or len(parts) != 1:
            return None
        count = source_of(recorder, parts[0], depth + 1)  # `iter(x)`
        return IteratedRows(array, count.now, count.step, count.length) if type(count) is Counts else None
    whole, at = reduced[1][0], reduced[2] if len(reduced) > 2 and reduced[2] is not None else 0
    if kind in (_REVERSED_LIST, reversed):
        source = source_of(recorder, whole, depth + 1)
        whole_length = None if source is None else source.length.constant
        return None if source is None or whole_length is None or at != whole_length - 1 else source.backwards()
    return source_of(recorder, whole[at:] if at else whole, depth + 1)


def live_parts(iterable: Any, depth: int = 0) -> list[Any]:
    """The lists and views of dicts that *iterable* goes over, which may change under way."""
    kind = type(iterable)
    if kind is list or kind in _DICT_VIEWS:
        return [iterable]
    if kind not in _ITERATORS or depth > _MOST_DEEP:
        return []
    reduced = iterable.__reduce__()[1]
    return [part for inner in reduced for part in live_parts(inner, depth + 1)]


def same_objects(one: Any, other: Any) -> bool:
    """Whether two items, or pairs of a dict's, are the same objects."""
    return one is other or (type(one) is tuple and type(other) is tuple and all(map(operator.is_, one, other)))


def advance(iterator: Any, count: int) -> None:
    """Have *iterator* go on by *count* items, without making them where that is possible."""
    if count <= 0:
        return
    kind, reduced = type(iterator), iterator.__reduce__()
    if kind in (zip, map, enumerate):
        for part in reduced[1] if kind is zip else reduced[1][1:] if kind is map else reduced[1][:1]:
            advance(part, count)
    elif kind in _ITERATORS or kind in ROW_ITERATORS or kind is RowIterator:
        at = reduced[2] if len(reduced) > 2 and reduced[2] is not None else 0
        back = kind in (_REVERSED_LIST, reversed)
        iterator.__setstate__(at - count if back else at + count)


def listed(recorder: Recorder, items: list[Any]) -> Iterated | None:
    """The source that *items* of a list are; None where they are not of one kind."""
    if not items:
        return None
    if all(x is items[0] for x in items):
        return Same(items[0], Affine(len(items)))
    holder = HOLDERS.get(type(items[0]))
    if holder is not None and recorder.tape is not None and all(type(x) in HOLDERS for x in items):
        whole = holder.stacked(items)
        return None if whole is None else HeldRows(items, whole)
    if all(isinstance(x, tuple) and len(x) == len(items[0]) for x in items) and items[0]:
        rows = [*map(recorder.outermost().items_of, items)]
        parts = [listed(recorder, [x[k] for x in rows]) for k in range(len(items[0]))]
        return Together([p for p in parts if p is not None], items) if None not in parts else None
    if all(type(x) is int for x in items):
        return _integers(items)
    kinds: set[Like | None] = {_kind_of(x) for x in items}
    kind = kinds.pop() if len(kinds) == 1 else None
    return _of_parts(recorder, items) if kind is None else Listed(items, kind, lambda: _stack(items))


def _of_parts(recorder: Recorder, items: list[Any]) -> Iterated | None:
    """The source that containers which the run has made are; None where they are others, or are unlike."""
    whole, kind = recorder.outermost(), type(items[0])
    own = not (recorder.live or recorder.tape is not None)
    own = own and all(type(x) is kind and id(x) not in whole.from_outside for x in items)
    rows = [parts_of(x, True) for x in items] if own else [None]
    names = tuple(rows[0] or ())
    if not names or any(row is None or tuple(row) != names for row in rows):
        return None
    columns = [listed(recorder, [row[name] for row in rows if row is not None]) for name in names]
    return None if None in columns else Together([c for c in columns if c is not None], items, names)


def _kind_of(x: Any) -> Like | None:
    """The kind of an array or a float; None of others."""
    if isinstance(x, np.ndarray) and x.ndim and x.dtype.kind in "fiubc":
        return Like(x.dtype, x.shape, False, np.ndarray, True)
    if type(x) is TracedArray or isinstance(x, float):
        return like(x)._replace(c_order=True)
    return None


def _integers(items: list[int]) -> Iterated | None:
    step = items[1] - items[0] if len(items) > 1 else 1
    if step and items == list(range(items[0], items[0] + step * len(items), step)):
        return Counts(Affine(items[0]), step, Affine(len(items)), items[0])
    if max(map(abs, items)) >= 2**31:
        return None
    return Listed(items, like(1)._replace(kind=int), lambda: wrap_array(constant(np.array(items, np.int64))))


def _stack(items: list[Any]) -> TracedArray:
    if is_traced(items):
        return FUNCTIONS[np.stack](items)  # type: ignore[no-any-return]
    return wrap_array(constant(np.stack([np.asarray(x) for x in items])))


def weak(atom: Any) -> Any:
    """*atom* as a Python number."""
    return cast(atom, atom.aval.dtype, weak=True)
