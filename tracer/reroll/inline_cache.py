"""Inline cache of the user's operations in a loop that is followed.

While a loop is followed (``loop_follower.py``), an operation of the user's, as ``t[0]`` or ``np.stack([a, b])``, is
still taken apart into items that are checked one by one.  ``learn`` observes it once and makes an *answer*, a function
that recognises the operation by its arguments, and has its result at once.

Why that is right: the functions that come here (``dispatch.py``) are ours, and the items they emit depend on their
arguments alone: numbers, which have to be the same again; types and shapes, which belong to the Vars; and the values,
each of which has to match the slots of the items that took it.  Then they would emit the same items, and these would
pass the follower's own checks.  Other operations are refused here, and are taken apart.

An answer is generated from a text, which many operations share; what differs between them is in the cells of its
closure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from ..ir.graph import Lit, Node, Var
from ..record.array import DIRECT, TracedArray
from ..record.buffers import Storage
from ..record.observer import GETITEM, RunOperation
from ..record.python_numbers import function_of, known_number
from .followed_loop import IterationVar
from .loop_follower import Follower
from .repeats import Carried, Invariant, Local, Rows, Slot, VaryingConstant

Answer = Callable[[Any, tuple[Any, ...], dict[str, Any]], "TracedArray | None"]

# in this folder: a followed operation is none of the user's code, where ``type`` is answered otherwise
_FILE = str(Path(__file__).with_name("<followed operation>"))
_VALUES = (int, float, bool, str, np.float64, np.float32, np.int64)
_SINGLE = (type(None), type(Ellipsis), type, np.dtype)


def learn(follower: Follower, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: RunOperation) -> Any:
    """``run(function, args, kwargs)``, and an answer for the next turn if there can be one."""
    at, turn = follower.at, follower.current[-1]
    follower.tries[at] -= 1
    learning = _Learning(follower, function, args, kwargs)
    result = run(function, args, kwargs)
    if follower.recorder.follow is follower.follow and learning.possible:
        turned = follower.current[-1] - turn
        if (not turned and follower.at > at) or (turned == 1 and not follower.at):
            answer = learning.answer(at, follower.at or len(follower.sources), turned, result)
            if answer is not None:
                follower.asks[at] = answer
    return result


class _Learning:
    """One operation: its arguments, and the text of its answer."""

    def __init__(self, follower: Follower, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.follower, self.function, self.args = follower, function, args
        self.possible = True
        self.premise = follower.recorder.premise  # that it adds to, if it does
        self.known: set[int] = set()  # items whose values, Python's numbers, the answer computes
        self.cells: dict[str, Any] = {"function": function}
        self.lines: list[str] = ["if asked is not function: return None"]
        self.arrays: list[tuple[str, TracedArray, Var]] = []  # (its name in the text, the array, its value)
        self.values: list[tuple[str, Any]] = []  # numbers and the like
        self.late: list[str] = []  # statements behind all tests
        self.stepping: set[str] = set()  # arrays that are rows of another loop
        self._sequence("args", args)
        if kwargs:
            self.lines.append(f"if len(kwargs) != {len(kwargs)}: return None")
            for key, value in kwargs.items():
                name = self._name()
                self.lines.append(f"{name} = kwargs.get({key!r}, kwargs)")
                self._leaf(name, value)
        else:
            self.lines.append("if kwargs: return None")

    # ---- arguments ---------------------------------------------------------------------------------------------

    def _name(self) -> str:
        return f"x{len(self.lines)}"

    def _cell(self, value: Any) -> str:
        name = f"c{len(self.cells)}"
        self.cells[name] = value
        return name

    def _sequence(self, name: str, values: Any) -> None:
        self.lines.append(f"if len({name}) != {len(values)}: return None")
        if len(values) > 64:
            self.possible = False
            return
        names = [f"{name}_{k}" for k in range(len(values))]
        if names:
            self.lines.append(f"{', '.join(names)}, = {name}")
        for part, value in zip(names, values, strict=True):
            self._leaf(part, value)

    def _leaf(self, name: str, value: Any) -> None:
        kind = type(value)
        if kind is TracedArray:
            if value._version != value._storage.version or type(value._atom) is Lit:
                self.possible = False
            self.lines.append(f"if type({name}) is not traced: return None")
            self.lines.append(f"if {name}._version != {name}._storage.version: return None")
            self.arrays.append((name, value, value._atom))  # type: ignore[arg-type]
        elif kind is list or kind is tuple:
            self.lines.append(f"if type({name}) is not {kind.__name__}: return None")
            self._sequence(name, value)
        elif kind is slice:
            self.lines.append(f"if type({name}) is not slice: return None")
            for part in ("start", "stop", "step"):
                self.lines.append(f"{name}_{part} = {name}.{part}")
                self._leaf(f"{name}_{part}", getattr(value, part))
        elif kind in _VALUES:
            self.lines.append(f"if type({name}) is not {self._cell(kind)}: return None")
            self.values.append((name, value))
        elif kind in _SINGLE:
            self.lines.append(f"if {name} is not {self._cell(value)}: return None")
        else:
            self.possible = False

    # ---- what it did -------------------------------------------------------------------------------------------

    def answer(self, at: int, end: int, turned: int, result: Any) -> Answer | None:
        """The answer for an operation that was the items from *at* to *end*; None where there can be none."""
        follower = self.follower
        self._at = at
        self.seen = [follower.current, follower.previous, follower.earlier, follower.oldest][turned:]  # in its turn
        several = type(result) is list or isinstance(result, tuple)
        results = result if several else (result,)
        if not results or any(type(r) is not TracedArray or r._recorder is not follower.recorder for r in results):
            return None
        if not (self._operands(at, end) and self._same_values()):
            return None
        if not (self._numbers(at, end) and self._results(at, end, results)):
            return None
        arrays = "".join(f"array{k}, " for k in range(len(results)))
        made = "" if type(result) in (tuple, list) else self._cell(type(result))
        together = f"[{arrays}]" if type(result) is list else f"{made}({arrays})"
        self.lines.append(f"return {together}" if several else "return array0")
        self.cells |= {"traced": TracedArray, "new": object.__new__, "Storage": Storage, "Var": IterationVar}
        self.cells |= {"recorder": follower.recorder, "follower": follower, "asks": follower.asks, "end": end}
        make = _maker("\n        ".join(self.lines), ", ".join(self.cells))
        return make(*self.cells.values())

    def _operands(self, at: int, end: int) -> bool:
        """Test that the arrays have the values that the items take; collect numbers that differ between turns."""
        steps = self.follower.repeat.steps
        tests: dict[tuple[str, Slot], None] = {}
        for j in range(at, end):
            step = steps[j]
            if step.starts is not None and not self._varying_start(j, at):
                return False
            for o, slot in enumerate(step.slots):
                if isinstance(slot, Local) and slot.item >= at:
                    continue
                if isinstance(slot, VaryingConstant):
                    if not self._direct(at, end) or not self._varying_number(j, o, slot):
                        return False
                    continue
                if isinstance(slot, Rows):
                    if not self._row(j, o):
                        return False
                    continue
                value = self._value(slot)
                if isinstance(value, Lit):
                    continue  # it follows from the numbers given
                names = [name for name, _, atom in self.arrays if atom is value]
                if value is self.premise and self._premised:
                    self.lines.append(f"if recorder.premise is not {self._place(slot)}: return None")
                    continue
                if not names and not isinstance(slot, Invariant):
                    return False
                tests |= {(name, slot): None for name in names}
        for name, slot in tests:
            self.lines.append(f"if {name}._atom is not {self._place(slot)}: return None")
        return len({name for name, _ in tests} | self.stepping) == len(self.arrays)

    def _row(self, j: int, o: int) -> bool:
        """Test that an array has the next of the rows that operand *o* of item *j* steps through."""
        rows = self.follower.rows[j, o]
        names = [name for name, _, atom in self.arrays if atom is rows.atoms[-1]]
        if not names or self.follower.recorder.numbers is not None:
            return False
        goes_on, taken = self._cell(rows.goes_on), rows.place[0] < self._at
        atoms = self._cell(rows.atoms)
        for name in names:
            self.lines.append(
                f"if {name}._atom is not {atoms}[-1]: return None" if taken else
                f"if not {goes_on}({name}._atom): return None"
            )  # fmt: skip
        self.stepping.update(names)
        if rows.place == (j, o):
            self.late.append(f"{self._cell(rows.take)}({names[0]}._atom)")
        return True

    @property
    def _premised(self) -> bool:
        """Whether the operation has added to what is presumed."""
        return self.follower.recorder.premise is not self.premise

    def _numbers(self, at: int, end: int) -> bool:
        """Compute the values that are Python's numbers; what is presumed has to hold."""
        follower, numbers, lines = self.follower, self.follower.recorder.numbers, []
        relied = follower.recorder.unmet is not None  # and nobody asks before the run is over
        if numbers is None:
            return relied or not self._premised
        self.cells["numbers"] = numbers
        for j in range(at, end):
            step, texts = follower.repeat.steps[j], []
            assert isinstance(step.item, Node)
            function = function_of(step.item.prim, step.item.params, step.item.out.aval)
            for o, slot in enumerate(step.slots):
                if isinstance(slot, Local) and slot.item >= at:
                    texts += [f"n{slot.item}"] if slot.item in self.known else []
                elif isinstance(slot, VaryingConstant):
                    texts.append(f"args_{o}")
                else:
                    number = known_number(numbers, self._value(slot))
                    fixed = isinstance(slot, Invariant)
                    texts += [self._cell(number) if fixed else f"numbers[{self._place(slot)}]"] * (number is not None)
            if function is not None and len(texts) == len(step.slots):
                self.known.add(j)
                lines.append(f"    n{j} = {self._cell(function)}({', '.join(texts)})")
        if lines:
            self.lines += ["try:", *lines, "except (ArithmeticError, ValueError, TypeError, KeyError): return None"]
        premise = [j for j in range(at, end) if self.seen[0][j] is follower.recorder.premise and j in self.known]
        self.lines += [f"if n{j} is not True: return None" for j in premise]
        return relied or bool(premise) or not self._premised

    def _place(self, slot: Slot) -> str:
        """The expression by which an answer reads *slot*."""
        follower = self.follower
        if isinstance(slot, Invariant):
            return self._cell(slot.atom)
        assert isinstance(slot, Local | Carried)
        distance = slot.distance if isinstance(slot, Carried) else 0
        values = (follower.current, follower.previous, follower.earlier)[distance]
        return f"{self._cell(values)}[{self._cell(slot.item)}]"

    def _value(self, slot: Slot) -> Any:
        """The value of *slot* in the turn that was observed."""
        if isinstance(slot, Invariant):
            return slot.atom
        assert isinstance(slot, Local | Carried)
        return self.seen[slot.distance if isinstance(slot, Carried) else 0][slot.item]

    def _direct(self, at: int, end: int) -> bool:
        """Whether ``direct_call`` handled the operation, as one item of the arguments as they are."""
        item = self.follower.repeat.steps[at].item
        if end != at + 1 or not isinstance(item, Node) or DIRECT.get(self.function) is not item.prim:
            return False
        avals = [array.aval for _, array, _ in self.arrays]
        alike = all(a.dtype is avals[0].dtype and a.shape == avals[0].shape and not a.weak for a in avals)
        return alike and bool(avals) and avals[0].is_float and len(self.args) == len(item.inputs)

    def _varying_number(self, j: int, o: int, slot: VaryingConstant) -> bool:
        name = f"args_{o}"
        found = [k for k, (n, v) in enumerate(self.values) if n == name and type(v) in (float, int)]
        if not found:
            return False
        del self.values[found[0]]
        convert, numbers = self._cell(slot.like.aval.dtype.type), self._cell(self.follower.numbers[j, o])
        if j in self.follower.twins:
            twin = self._cell(self.follower.numbers[self.follower.twins[j], o])
            self.lines.append(f"if {convert}({name}).tobytes() != {twin}[-1].tobytes(): return None")
        self.late.append(f"{numbers}.append({convert}({name}))")
        return True

    def _varying_start(self, j: int, at: int) -> bool:
        """``x[i]``: the position in the index that the start of the slice follows."""
        step = self.follower.repeat.steps[j]
        index = self.args[1] if self.function is GETITEM else None
        assert step.starts is not None
        axes, shape = self.follower.axes(step.starts), self.args[0].shape
        items = index if type(index) is tuple else (index,)
        if j != at or axes[-1] >= len(items) or any(type(i) not in (int, slice) for i in items[: axes[-1] + 1]):
            return False
        if any(type(i) not in (int, slice, type(Ellipsis)) for i in items[axes[-1] + 1 :]):
            return False
        starts = self.follower.starts[j]
        start = list(map(self._cell, starts[-1]))
        for axis in axes:
            name = "args_1" if type(index) is not tuple else f"args_1_{axis}"
            found = [k for k, (n, v) in enumerate(self.values) if n == name and type(v) is int]
            if not found or items[axis] != starts[-1][axis]:
                return False
            del self.values[found[0]]
            self.lines.append(f"if not 0 <= {name} < {self._cell(shape[axis])}: return None")
            if j in self.follower.twins:
                twin = self._cell(self.follower.starts[self.follower.twins[j]])
                self.lines.append(f"if {name} != {twin}[-1][{axis}]: return None")
            start[axis] = name
        self.late.append(f"{self._cell(starts)}.append(({', '.join(start)},))")
        return True

    def _same_values(self) -> bool:
        for name, value in self.values:
            if isinstance(value, float) and (math.isnan(value) or not value):  # 0.0 is not -0.0
                self.lines.append(f"if repr({name}) != {self._cell(repr(value))}: return None")
            else:
                self.lines.append(f"if {name} != {self._cell(value)}: return None")
        return True

    # ---- what came of it ---------------------------------------------------------------------------------------

    def _results(self, at: int, end: int, results: Sequence[TracedArray]) -> bool:
        """Write the statements that make the results."""
        follower, seen = self.follower, self.seen[0]
        if any(result._version != result._storage.version for result in results):
            return False
        if self.function != GETITEM and any(r.ndim > 1 or r._steps for r in results):
            for name, array, _ in self.arrays:  # the layout of results rests on that of the arrays
                self.lines.append(f"if {name}.known_c_order() is not {array.known_c_order()}: return None")
        self.lines += self.late
        self.cells["current"] = follower.current
        found: dict[Any, str] = {atom: f"{name}._atom" for name, _, atom in self.arrays}  # of values, their texts
        wanted = {result._atom for result in results}
        for j in range(at, end):
            last = all(seen[k] is not seen[j] for k in range(j + 1, end))
            if not (last and seen[j] in wanted) and follower.takers[j] < end:
                continue  # nobody else can see it
            value = follower.fixed[j]
            if j in follower.twins:
                self.lines.append(f"value{j} = current[{self._cell(follower.twins[j])}]")
            elif value is None:
                source, aval = self._cell(follower.sources[j]), self._cell(seen[j].aval)
                self.lines.append(f"value{j} = new(Var)")
                self.lines.append(f"value{j}.aval, value{j}.source, value{j}.iteration = {aval}, {source}, current[-1]")
            else:
                self.lines.append(f"value{j} = {self._cell(value)}")
            self.lines.append(f"current[{self._cell(j)}] = value{j}")
            if j in self.known:
                self.lines.append(f"numbers[value{j}] = n{j}")
            if self._premised and seen[j] is follower.recorder.premise:
                self.lines.append(f"recorder.premise = value{j}")
            found[seen[j]] = f"value{j}"
        for k, result in enumerate(results):
            if result._atom not in found:
                return False
            self.lines.append(f"array{k} = new(traced)")
            if not (self._view(k, result) or self._fresh(k, result, found[result._atom], results[:k])):
                return False
            self.lines.append(f"array{k}._recorder, array{k}._atom = recorder, {found[result._atom]}")
        if end == len(follower.sources):
            self.lines.append("follower.moved(end)")
        else:
            self.lines += ["follower.at = end", "recorder.ask = asks[end]"]
        return True

    def _view(self, k: int, result: TracedArray) -> bool:
        """Write the result as a view of the first array; False if it is none."""
        if not self.arrays:
            return False
        name, base, _ = self.arrays[0]
        steps = base._steps
        if result._storage is not base._storage or len(result._steps) != len(steps) + 1:
            return False
        if result._uncertain is not base._uncertain or any(a is not b for a, b in zip(result._steps, steps)):  # noqa: B905
            return False
        self.lines.append(f"array{k}._storage = {name}._storage")
        self.lines.append(f"array{k}._steps = (*{name}._steps, {self._cell(result._steps[-1])})")
        self.lines.append(f"array{k}._version, array{k}._uncertain = {name}._version, {name}._uncertain")
        return True

    def _fresh(self, k: int, result: TracedArray, value: str, others: Sequence[TracedArray]) -> bool:
        """Write the result, of this *value*, as an array with a buffer of its own; False if it has none."""
        storage = result._storage
        own = all(storage is not array._storage for array in [*[a for _, a, _ in self.arrays], *others])
        plain = not (result._steps or storage.version or result._uncertain or storage.owner)
        if not (own and plain and storage.home is self.follower.recorder):
            return False
        self.lines.append("storage = new(Storage)")
        self.lines.append(f"storage.home, storage.atom, storage.owner, storage.version = recorder, {value}, None, 0")
        self.lines.append(f"storage.c_order, storage.array0d = {storage.c_order}, {storage.array0d}")
        self.lines.append(f"array{k}._storage = storage")
        self.lines.append(f"array{k}._steps, array{k}._version, array{k}._uncertain = (), 0, False")
        return True


@lru_cache(maxsize=4096)
def _maker(body: str, cells: str) -> Any:
    """The function from the values of *cells* to the answer with this *body*."""
    text = f"def make({cells}):\n    def answer(asked, args, kwargs):\n        {body}\n    return answer"
    code: CodeType = compile(text, _FILE, "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    return names["make"]
