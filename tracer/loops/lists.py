"""Lists to which each iteration appends: stacked results of the loop, of which the list gets the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.graph import Atom, Pair, lanes
from ..ir.refusals import Reason, Refusal
from ..ops.shape import concat, reshape
from ..record.array import TracedArray, class_of, to_atom
from ..record.stacked_rows import rows_of
from .marked import Marked
from .parts import Cut, LoopResults, Wanted
from .positions import Affine
from .row_writes import value_of
from .values import NUMBERS


class Lists:
    """The lists to which *marked* has appended, if their elements can be stacked; else the ``reason`` why not."""

    def __init__(self, marked: Marked, length: Affine | None, parts: Cut, wanted: Wanted) -> None:
        self.marked, self.length, self.home = marked, length, marked.recorder
        self.reason: Reason | None = None
        self.rows: list[list[tuple[Any, int]]] = []  # of each list: the values, and where the stack of each is
        if not marked.appends:
            return
        count = None if length is None else length.constant
        if count is None or wanted.stops:
            self.reason = Refusal.LOOP_SEEN(what="a list is appended to", site=marked.site)
            return
        for target, *values in marked.appends.values():
            if id(target) in marked.read:
                self.reason = Refusal.LOOP_SEEN(what="a list is read and appended to", site=marked.site)
                return
            if len(target) < len(values) or any(
                a is not b for a, b in zip(target[-len(values) :], values, strict=True)
            ):
                self.reason = Refusal.LOOP_SEEN(what="a list is appended to and changed", site=marked.site)
                return
            found = []
            for k, value in enumerate(values):
                earlier = target[-len(values) + k :: -len(values)][1 : 1 + marked.earlier]
                found.append((value, self._place(value, earlier, parts, wanted)))
            self.rows.append(found)

    def _place(self, value: Any, earlier: Sequence[Any], parts: Cut, wanted: Wanted) -> int:
        """Where the rows of *value* are among those that are wanted; -1 where it is the same each time, or a whole
        number that counts.  *earlier*: what iterations before have appended in its place."""
        if type(value) is not TracedArray:
            if not isinstance(value, (*NUMBERS, int, str, type(None))):
                self.reason = Refusal.LOOP_SEEN(what="an object is appended to a list", site=self.marked.site)
            return -1
        atom = value.atom
        if id(value._storage) in self.marked.written or (value._storage.born < self.marked.serial and value._steps):
            self.reason = Refusal.LOOP_SEEN(
                what="an array that is written is appended to a list", site=self.marked.site
            )
        if not parts.depends(atom) or self._form(value) is not None:
            return -1
        at = len(wanted.rows)
        starts: dict[Atom, Atom] = {c.symbol: c.before for c in self.marked.carries}
        before = [to_atom(x) if isinstance(x, (*NUMBERS, TracedArray)) else None for x in earlier]
        before = [x if x is None else starts.get(x, x) for x in before]
        if isinstance(atom, Pair):
            wanted.rows += lanes(atom)
            wanted.earlier += [(), ()]
        else:
            wanted.rows.append(atom)
            wanted.earlier.append([x for x in before if x is not None] if None not in before else ())
        return at

    def _form(self, value: Any) -> Affine | None:
        """The form of a Python integer."""
        return self.marked.form(value.atom) if type(value) is TracedArray and value.aval.weak else None

    def _integers(self, form: Affine, count: int) -> list[Any]:
        recorder, number = self.marked.recorder, self.marked.number
        found = [form.at(number, Affine(k)) for k in range(count)]
        return [f.offset if not f.slopes else TracedArray(value_of(f, {}), recorder) for f in found]

    def extend(self, results: LoopResults) -> None:
        """Have the lists hold what all iterations have appended."""
        recorder = self.marked.recorder
        for (target, *values), rows in zip(self.marked.appends.values(), self.rows, strict=True):
            assert self.length is not None
            count = self.length.constant or 0
            before = self.marked.folded if any(at >= 0 for _, at in rows) else 0
            woven = self._woven(rows, results, count + before)
            if woven is not None:
                del target[-len(values) * (1 + before) :]
                target.extend(woven)
                continue
            columns: list[Sequence[Any]] = []
            for k, (value, at) in enumerate(rows):
                if at < 0:
                    earlier = target[-len(values) + k :: -len(values)][1 : 1 + before][::-1]
                    form = self._form(value)
                    columns.append([*earlier, *([value] * count if form is None else self._integers(form, count))])
                    continue
                stack: Atom = results.stacked[at]
                if isinstance(value.atom, Pair):
                    stack = Pair(stack, results.stacked[at + 1], value.atom.aval.dtype)
                columns.append(rows_of(stack, value, count + before, recorder))
            del target[-len(values) * (1 + before) :]
            if len(columns) == 1:
                target.extend(columns[0])
            else:
                for each in zip(*columns, strict=True):
                    target.extend(each)

    def _woven(self, rows: Sequence[tuple[Any, int]], results: LoopResults, count: int) -> list[Any] | None:
        """The rows of one stack, where several values of one kind are appended in turn."""
        like = rows[0][0]
        if len(rows) < 2 or not all(at >= 0 and type(x) is TracedArray and x.aval == like.aval for x, at in rows):
            return None
        if like.aval.is_complex or len({class_of(x) for x, _ in rows}) > 1:
            return None
        shape = like.aval.shape
        parts = [reshape(results.stacked[at], (count, 1, *shape)) for _, at in rows]
        return list(rows_of(reshape(concat(parts, 1), (count * len(rows), *shape)), like, count * len(rows), self.home))
