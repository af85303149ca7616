"""Tables: lists of equally long lists of floats, as dynamic programs and eliminations have them, whose elements are
read and assigned at positions that follow from the numbers of iterations, or from data: ``T[t][k] = f(T[t - 1][j])``.

In a marked iteration all of a table is one array, which is carried, and kernels have it in place.  A row of it by a
traced index is another list, which stands for that row.  The lists hold nothing while the array does; what reads them
otherwise gets the elements first.  After the loop the lists hold the elements that were assigned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.aval import FLOAT, INT
from ..ir.graph import Atom, Lit, Node, strong
from ..ir.refusals import Refusal
from ..ops.elementwise import broadcast_to, cast
from ..ops.shape import concat, reshape
from ..record.array import FUNCTIONS, TracedArray, class_of, constant, wrap
from ..record.buffers import PickStep, Storage
from ..record.recorder import Recorder
from ..record.stacked_rows import rows_of
from .histories import is_traced_position, position_in
from .positions import Affine, bounds
from .python_ints import in_plain_iterations
from .row_writes import value_of
from .values import atom_of

_OTHERWISE = (
    "a table of lists is used otherwise than element by element: the run is made again, with that loop as it is"
)
NO_NUMBER = "a number of a table is a Python float in some iterations: the run is made again, with that loop as it is"
_MOST_READ = 4096  # elements that are read at once
_MOST_PLACES = 2**22  # that are looked at, one after the other
_EXACT = 2**53  # from here on not all integers are floats


class _Hidden:
    """The object that stands in the lists of a table for elements that its array has."""


_HIDDEN = _Hidden()


class TableRow(NamedTuple):
    """A row of *table*, number ``place``, which is ``form`` in the numbers of loops; ``shown`` is the list."""

    table: Table
    place: Atom
    form: Affine | None
    shown: list[Any]


class Assignment(NamedTuple):
    """A *value* that is assigned at such a ``row`` and ``column``, in these open *loops*; None: anywhere."""

    value: Atom
    row: Affine | None
    column: Affine | None
    loops: Sequence[Any]


class Table:
    """The list *target* of *rows*, whose elements are those of an array of this *atom* in the *loops* that are open,
    the outermost first.  *plain*: where they are numbers of Python's."""

    def __init__(
        self, recorder: Recorder, target: list[Any], atom: Atom, plain: np.ndarray, loops: Sequence[Any]
    ) -> None:
        self.recorder, self.target, self.loops, self.plain = recorder, target, loops, plain
        self.rows: list[list[Any]] = list(target)
        self.before = [list(row) for row in self.rows]
        self.storage = Storage(atom, home=recorder, c_order=True, array0d=True)
        self.storage.born = loops[0].serial - 1
        self.writes: list[Assignment] = []
        self.numbers: set[Atom] = set()  # elements that were read
        self.stand_ins: list[list[Any]] = []  # for rows
        self.shown: list[TableRow] = []  # those whose lists hold the elements
        known = recorder.loops.tables
        known[id(target)] = self
        for k, row in enumerate(self.rows):
            known[id(row)] = TableRow(self, Lit(k, INT), Affine(k), row)
            row[:] = [_HIDDEN] * plain.shape[1]
        for loop in loops:
            self.carry(loop)
        loops[0].own_tables.append(self)

    def carry(self, loop: Any) -> None:
        """Have the iteration *loop* carry the array."""
        symbol = loop.carried(self.storage.atom)
        loop.tables.append((self, symbol))
        self.storage.atom = symbol
        self.storage.version += 1

    # ---- rows and elements -----------------------------------------------------------------------------------------

    def row(self, index: TracedArray) -> list[Any]:
        """The list that stands for the row at *index*."""
        found = self.stand_in(*self._position(index, len(self.rows)))
        self.recorder.open_loops[-1].table_rows.append(found)
        return found

    def stand_in(self, place: Atom, form: Affine | None) -> list[Any]:
        """The list that stands for row *place*."""
        found = [_HIDDEN] * self.plain.shape[1]
        loops = self.recorder.loops
        loops.tables[id(found)] = TableRow(self, place, form, found)
        loops.made_anew[id(found)] = found, self.loops[0].statement
        self.stand_ins.append(found)
        return found

    def element(self, row: TableRow, index: Any) -> TracedArray:
        place, _ = self._position(index, self.plain.shape[1])
        atom = PickStep((0, 1), (row.place, place)).apply(self.storage.atom)
        self.numbers.add(atom)
        return wrap(atom)

    def assign(self, row: TableRow, index: Any, value: Any) -> None:
        """``row[index] = value``."""
        if _kind(value) != "float64":
            self.refuse()
        place, form = self._position(index, self.plain.shape[1])
        atom = strong(atom_of(value))
        self.recorder.open_loops[-1].writes(self.storage)
        put = PickStep((0, 1), (row.place, place)).put(self.storage.atom, broadcast_to(atom, (1,)))
        self.storage.atom = put
        self.storage.version += 1
        loops = self.recorder.open_loops
        self.writes.append(Assignment(atom, row.form, form, loops[loops.index(self.loops[0]) :]))
        self._hide()

    def _position(self, index: Any, size: int) -> tuple[Atom, Affine | None]:
        """*index* as a position among *size*, and its form, if it is known."""
        if type(index) is int and -size <= index < size:
            return Lit(index % size, INT), Affine(index % size)
        if type(index) is not TracedArray:
            self.refuse()
        loops = self.recorder.open_loops
        form = loops[-1].form(index.atom)
        if form is not None:
            low, high = bounds(form, loops)
            if high is not None and high < 0:
                form = form.plus(Affine(size))
                index = wrap(value_of(form, {}))
            elif low is None or low < 0:
                form = None
        place = position_in(self.recorder, index, Affine(size))
        if place is None:
            self.refuse()
        return place, form  # type: ignore[return-value]

    def refuse(self) -> Any:
        """Have the run made again, with the loop of the table iteration by iteration."""
        in_plain_iterations(self.recorder, self.loops[0].statement, _OTHERWISE)

    # ---- the lists -------------------------------------------------------------------------------------------------

    def show(self, row: TableRow) -> None:
        """Have the list of *row* hold the elements, for what reads it."""
        count = self.plain.shape[1]
        if count > _MOST_READ or self.recorder.arms:
            self.refuse()
        if row.shown[0] is _HIDDEN:
            row.shown[:] = [self.element(row, k) for k in range(count)]
            self.shown.append(row)

    def _hide(self) -> None:
        """The lists hold elements no more, which have changed."""
        for row in self.shown:
            row.shown[:] = [_HIDDEN] * len(row.shown)
        self.shown = []

    def settle(self) -> None:
        """The outermost loop is over: the lists hold what the array does."""
        known, shape = self.recorder.loops.tables, self.plain.shape
        written = np.zeros(shape, bool)
        for write in self.writes:
            written[_places(write)] = True
        if written.any():
            flat = reshape(self.storage.atom, (written.size,))
            found = rows_of(flat, wrap(Lit(np.float64(0.0), FLOAT)), written.size, self.recorder)
            for k, j in np.argwhere(written).tolist():
                self.before[k][j] = found[k * shape[1] + j]
        for row, items in zip(self.rows, self.before, strict=True):
            row[:] = items
        for x in (self.target, *self.rows, *self.stand_ins):
            del known[id(x)]
        self.recorder.loops.table_arrays[id(self.target)] = self.target, self.before, self.storage.atom


class RowIterator:
    """An iterator over the elements of a row, from number *at* on."""

    def __init__(self, row: TableRow, at: int = 0) -> None:
        self.row, self.at, self.count = row, at, row.table.plain.shape[1]

    def __iter__(self) -> RowIterator:
        return self

    def __next__(self) -> TracedArray:
        if self.at >= self.count:
            raise StopIteration
        self.at += 1
        return self.row.table.element(self.row, self.at - 1)

    def __reduce__(self) -> Any:
        return RowIterator, (self.row,), self.at

    def __setstate__(self, at: int) -> None:
        self.at = at


def _places(write: Assignment) -> Any:
    """Where the elements are at which *write* puts its values, in all iterations."""
    forms = [write.row, write.column]
    values: dict[Any, np.ndarray] = {}
    for k, loop in enumerate(write.loops):
        lengths = [x.length for x in write.loops[k + 1 :] if not x.alone and x.length is not None]
        if not any(form is not None and loop.number in form.slopes for form in (*forms, *lengths)):
            continue
        size = len(next(iter(values.values()), (0,)))
        counts = np.ones(size, int) if loop.alone else _evaluated(loop.length, values, size)
        if counts is None or counts.clip(0).sum() > _MOST_PLACES:
            return slice(None)
        counts = counts.clip(0)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        values = {number: np.repeat(x, counts) for number, x in values.items()}
        values[loop.number] = np.arange(len(before)) - before
    size = len(next(iter(values.values()), (0,)))
    found = [_evaluated(form, values, size) for form in forms]
    return tuple([slice(None) if x is None else x for x in found])


def _evaluated(form: Affine | None, values: dict[Any, np.ndarray], size: int) -> np.ndarray | None:
    """*form* at these *values* of numbers; None where it is not known."""
    if form is None or not form.slopes.keys() <= values.keys():
        return None
    return sum((values[number] * slope for number, slope in form.slopes.items()), np.full(size, form.offset))


# ---- which lists are tables ----------------------------------------------------------------------------------------


def _kind(x: Any) -> str:
    """The kind of an element: a number of Python's, a ``np.float64``, or neither."""
    if type(x) is TracedArray:
        ok = x.aval.dtype == FLOAT and not x.aval.shape and not x.aval.weak and class_of(x) is np.float64
        return "float64" if ok else ""
    if type(x) is int:
        return "plain" if abs(x) < _EXACT else ""
    return "plain" if type(x) is float else "float64" if type(x) is np.float64 else ""


def table_of(recorder: Recorder, target: Any, learn: bool = True) -> Table | None:
    """The table that *target* is in the iterations that are marked; None where it is none.  *learn*: where it was read
    before, in another way, the next iteration may begin with it."""
    state = recorder.loops
    known = state.tables.get(id(target))
    if known is not None or recorder.live or not _is_table(target):  # in a live run nobody tells of reads of lists
        return known if type(known) is Table else None
    ids = {id(target), *map(id, target)}
    outside = recorder.outermost().from_outside  # whose elements are read one by one
    if any(key in outside for key in ids):
        return None
    if recorder.arms or recorder.parent is not None or not ids.isdisjoint(state.made_anew) or ids & state.tables.keys():
        return None
    loops = _loops_of(recorder, target, ids, learn)
    kinds = [[_kind(x) for x in row] for row in target] if loops else [[""]]
    if any("" in row for row in kinds) or all(type(x) is int for row in target for x in row):
        return None
    return Table(recorder, target, _array_of(recorder, target), np.array(kinds) == "plain", loops)


def _is_table(target: Any) -> bool:
    """Whether *target* is a list of different lists of one length."""
    if type(target) is not list or not target or type(target[0]) is not list or not target[0]:
        return False
    same = all(type(x) is list and len(x) == len(target[0]) for x in target)
    return same and len({id(target), *map(id, target)}) == len(target) + 1


def _loops_of(recorder: Recorder, target: list[Any], ids: set[int], learn: bool) -> list[Any]:
    """The innermost of the open loops before whose iterations *target* was made, and in which it was not used."""
    found: list[Any] = []
    for loop in reversed(recorder.open_loops):
        if not ids.isdisjoint(loop.made):
            break
        used = (loop.appends, loop.filled, loop.scattered, loop.histories, loop.read.keys() - {id(target)})
        if not all(ids.isdisjoint(x) for x in used) or any(id(x.owner) in ids for x in loop.places.values()):
            for x in recorder.open_loops[: recorder.open_loops.index(loop) + 1] if learn else ():
                x.refuse(Refusal.LOOP_SEEN(what="a table is read in several ways", site=recorder.site()))
                x.learned_tables[id(target)] = target
            break
        found.insert(0, loop)
    return found


def _array_of(recorder: Recorder, target: list[list[Any]]) -> Atom:
    """The elements of *target* as one array."""
    known = recorder.loops.table_arrays.get(id(target))
    if known is not None and all(
        len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
        for a, b in zip(target, known[1], strict=True)
    ):
        return known[2]  # type: ignore[no-any-return]
    items = [x for row in target for x in row]
    parts: list[Atom] = []
    k = 0
    while k < len(items):
        traced, first = type(items[k]) is TracedArray, k
        while k < len(items) and (type(items[k]) is TracedArray) == traced:
            k += 1
        run = items[first:k]
        parts.append(FUNCTIONS[np.stack](run).atom if traced else constant(np.array(run, np.float64)))
    whole = parts[0] if len(parts) == 1 else concat(parts, 0)
    return reshape(whole, (len(target), len(target[0])))


# ---- what the front end asks ---------------------------------------------------------------------------------------


def item(recorder: Recorder, container: list[Any], index: Any) -> Any:
    """``container[index]`` of a table, or of a row of one; NotImplemented of other lists."""
    known = recorder.loops.tables.get(id(container))
    _check(recorder, known)
    if known is None and type(index) is TracedArray:
        known = _as_row(recorder, container)
    if type(known) is TableRow:
        return known.table.element(known, index) if _is_position(index) else NotImplemented
    if type(index) is int and -len(container) <= index < len(container) and type(found := container[index]) is list:
        recorder.loops.tables_of_rows[id(found)] = found, container
        return found if known is not None else NotImplemented
    if type(index) is not TracedArray or not _is_position(index):
        return NotImplemented
    table = known or table_of(recorder, container)
    if table is not None:
        return table.row(index)
    if any(id(container) in loop.learned_tables for loop in recorder.open_loops):
        return container[int(recorder.value(index.atom))]
    return NotImplemented


def assigned(recorder: Recorder, value: Any, container: list[Any], index: Any) -> bool:
    """Whether ``container[index] = value`` was done, in a row of a table."""
    known = recorder.loops.tables.get(id(container))
    _check(recorder, known)
    if type(known) is Table:
        known.refuse()
    if known is None and type(index) is TracedArray:
        known = _as_row(recorder, container)
    if type(known) is not TableRow:
        return False
    if not _is_position(index):
        known.table.refuse()
    known.table.assign(known, index, value)
    return True


def _as_row(recorder: Recorder, container: list[Any]) -> TableRow | None:
    """*container* as a row of the table from which it was taken; None where it is none."""
    row, target = recorder.loops.tables_of_rows.get(id(container), (None, None))
    if row is not container or not any(x is row for x in target) or table_of(recorder, target) is None:
        return None
    return recorder.loops.tables[id(container)]  # type: ignore[no-any-return]


def _check(recorder: Recorder, known: Table | TableRow | None) -> None:
    """Have the run made again where a table is used in a body of its own."""
    table = known.table if isinstance(known, TableRow) else known
    if table is not None and table.recorder is not recorder:
        table.refuse()


def _is_position(index: Any) -> bool:
    return type(index) is int or is_traced_position(index)


def looked_at(recorder: Recorder, obj: Any, changed: bool = False) -> bool:
    """Whether *obj*, which is about to be read as a whole, or *changed*, is a table or a row of one."""
    known = recorder.loops.tables.get(id(obj))
    if known is None:
        return False
    table: Table = known if type(known) is Table else known.table
    if changed:
        table.refuse()
    if type(known) is TableRow:
        table.show(known)
    return True


def row_iterator(recorder: Recorder, obj: Any) -> RowIterator | None:
    """An iterator over the elements of the row *obj* of a table; None of other lists."""
    known = recorder.loops.tables.get(id(obj))
    return RowIterator(known._replace(shown=[])) if type(known) is TableRow else None


# ---- Python's floats -----------------------------------------------------------------------------------------------

_FREE = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
_KEEPS = frozenset(("alias", "cast", "stop_gradient", "reshape", "broadcast", "neg", "abs"))
_PICKS = frozenset(("select", "maximum", "minimum"))
_SUMS = frozenset(("add", "sub", "mul"))
_FUNCTIONS = frozenset("exp log log1p expm1 sqrt sin cos tan tanh sinh cosh arctan".split())


def maybe_floats(nodes: Iterable[Node], numbers: set[Atom]) -> set[Atom] | None:
    """All values of *nodes* that are floats of Python's where *numbers* are; None where more than their class depends
    on that."""
    found, widened = set(numbers), set[Atom]()  # values of other dtypes, beside which a ``np.float64`` is float64
    for node in nodes:
        name, out = node.prim.name, node.outs[0]
        if name in _KEEPS and any(x in widened or _is_of_other_float(x) for x in node.inputs):
            widened.update(node.outs)
        if found.isdisjoint(node.inputs):
            continue
        others = [x for x in node.inputs if x not in found]
        if any(x in widened or _is_of_other_float(x) for x in (*node.inputs, *node.outs)):
            return None
        if out.aval.shape or name in _FREE or name in _FUNCTIONS:
            continue
        if name in _KEEPS or name in _PICKS:
            found.update(node.outs)
        elif name in _SUMS or name == "div":
            if any(not x.aval.weak for x in others):
                continue  # of a ``np.float64``
            if name == "div" and not (isinstance(node.inputs[1], Lit) and node.inputs[1].value):
                return None
            found.update(node.outs)
        else:
            return None
    return found


def _is_of_other_float(x: Atom) -> bool:
    return x.aval.dtype.kind in "fc" and x.aval.dtype != FLOAT


# ---- lists that stand for rows, when an iteration is over ----------------------------------------------------------


def held_rows(marked: Any, names: Any, dead: Iterable[str]) -> list[list[Any]]:
    """The lists that stand for rows in *marked*, which is over, and that more may show than the *names* which are
    *dead*."""
    if not marked.table_rows:
        return []
    known = marked.recorder.loops.tables
    lists = list(marked.table_rows)
    first: TableRow = known[id(lists[0])]
    alone = first.table.stand_in(first.place, None)  # which nothing shows
    marked.table_rows.append(alone)
    lists.append(alone)
    del alone
    counts = [sys.getrefcount(lists[k]) for k in range(len(lists))]
    marked.table_rows.pop()
    each = 2 if type(names) is dict else 1  # such a dict is another place
    shown = [each * sum(names.get(name) is lists[k] for name in dead) for k in range(len(lists) - 1)]
    return [lists[k] for k, more in enumerate(shown) if counts[k] > counts[-1] + more]


def stand_alone(marked: Any) -> None:
    """The iteration *marked*, which is over, stands for itself: its tables are lists again, and what else may show a
    row of one shows that row as long as neither is changed."""
    recorder = marked.recorder
    known, anew = recorder.loops.tables, recorder.loops.made_anew
    statement = marked.statement
    dead = [name for name in statement.unread if name not in statement.carried]
    held = held_rows(marked, marked.frame.f_locals, dead)
    rows = [known[id(x)] for x in held]
    places = [None if row.table.loops[0] is not marked else int(recorder.value(row.place)) for row in rows]
    for table in marked.own_tables:
        table.settle()
    for row, place in zip(rows, places, strict=True):
        if place is None:
            form = None if row.form is None else row.form.at(marked.number, Affine(0))
            known[id(row.shown)] = row._replace(form=form)
            recorder.open_loops[-1].table_rows.append(row.shown)
        else:
            real = row.table.rows[place]
            row.shown[:] = real
            anew[id(real)] = real, statement


def row_after(row: TableRow, marked: Any, length: Affine | None) -> Any:
    """A function that gives the list that *row*, of the iteration *marked*, is in the last of *length* iterations; None
    where nobody knows which one it is."""
    if row.form is None or (length is None and marked.number in row.form.slopes):
        return None
    form = row.form if length is None else row.form.at(marked.number, length.plus(Affine(-1)))
    if form.constant is not None:
        return lambda _: row.table.rows[form.offset]
    if row.table.loops[0] is marked:
        return None

    def make(_: Any) -> list[Any]:
        found = row.table.stand_in(cast(value_of(form, {}), INT), form)
        marked.recorder.open_loops[-1].table_rows.append(found)
        return found

    return make
