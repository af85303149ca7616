"""Numbers whose class depends on data: ``max(0.0, x[0])``, ``s`` after ``if c: s = s + x[0]`` where it was ``0.0``.

A choice between an int, a float and a ``np.float64`` is one between their values, as float64, and one between their
*ranks* (0, 1, 2), which are recorded beside them.  Arithmetic gives the class of the higher rank, so that an operation
with a ``np.float64`` settles it.  Where the class shows (``type(x)``, a result, text), the rank is asked for, as a
question with a guard; where Python's numbers raise and NumPy's don't, it is presumed that this one is NumPy's or
doesn't raise.  Whatever else is done with such a number ends the run: the choice becomes a question
(``Undecided.refuse``).
"""

from __future__ import annotations

import operator
import sys
from typing import Any, NoReturn

import numpy as np

from ..ir.aval import BOOL, FLOAT, INT
from ..ir.graph import Atom, Lit, literal
from ..ir.refusals import Refusal
from ..ir.site import is_own
from ..ops.elementwise import F, cast
from .array import STAND_INS, UFUNCS, TracedArray, class_of, to_atom, wrap
from .integers import operators
from .recorder import Recorder, current_recorder
from .shown_text import shows_text

Place = tuple[str, int]  # file and line of a choice
_EXACT = 2**53
_CLASSES = (int, float, np.float64)
_FLOATS = frozenset((1, 2))
_MOST_EXPONENT = 64


class Number:
    """The parts of a number: its *value* as float64, its *rank*, which is one of *ranks*; as an int it is at most
    *limit*."""

    __slots__ = ("limit", "rank", "ranks", "value")

    def __init__(self, value: Atom, rank: Atom, ranks: frozenset[int], limit: int) -> None:
        self.value, self.rank, self.ranks, self.limit = value, rank, ranks, limit


def _rank(k: int) -> Lit:
    return Lit(k, INT, structural=True)


def number_of(x: Any) -> Number | None:
    """The parts of *x*, if it is a number of float64."""
    kind = type(x)
    if kind is Undecided:
        return x.number
    if kind is TracedArray:
        kind = class_of(x)
        if kind not in (float, np.float64):
            return None
        return Number(cast(x.atom, FLOAT), _rank(_CLASSES.index(kind)), frozenset((_CLASSES.index(kind),)), 0)
    if kind not in _CLASSES or (kind is int and abs(x) > _EXACT):
        return None
    k = _CLASSES.index(kind)
    return Number(Lit(float(x), FLOAT), _rank(k), frozenset((k,)), abs(x) if kind is int else 0)


def chosen(predicate: Atom, first: Any, second: Any, place: Place) -> Any:
    """*first* where *predicate* holds, else *second*, numbers of any class; None where they are none."""
    a, b = number_of(first), number_of(second)
    recorder = current_recorder()
    if recorder is not None and all(recorder.loops.knows_int(recorder, x) for x in (first, second)):
        return wrap(F.select(predicate, to_atom(first), to_atom(second)))
    if a is None or b is None or recorder is None:
        return None
    value = F.select(predicate, a.value, b.value)
    if a.ranks == b.ranks and len(a.ranks) == 1 and 0 not in a.ranks:
        return wrap(value if 2 in a.ranks else cast(value, FLOAT, weak=True))
    found = Number(value, F.select(predicate, a.rank, b.rank), a.ranks | b.ranks, max(a.limit, b.limit))
    return Undecided(found, recorder, place)


def _class_shown(self: Any) -> Any:
    """The class of the value, for ``isinstance`` in the user's code."""
    return type(self) if is_own(sys._getframe(1).f_code.co_filename) else class_of(self.decided())


class Undecided:
    """A number whose class depends on data.  *place*: the choice that it comes from."""

    __slots__ = ("number", "place", "recorder")
    __array_priority__ = 3000.0

    def __init__(self, number: Number, recorder: Recorder, place: Place) -> None:
        self.number, self.recorder, self.place = number, recorder, place
        recorder.chosen.undecided.add(place)

    # ---- what it stands for

    def refuse(self) -> NoReturn:
        """End the run, in which something is done that needs a number of one class."""
        self.recorder.refuse_choice(self.place, Refusal.CHOICE_CLASS())

    def of_rank(self, k: int) -> TracedArray:
        """This as a number of one class."""
        value = self.number.value
        return wrap(value if k == 2 else cast(value, (INT, FLOAT)[k], weak=True))

    def decided(self) -> TracedArray:
        """The number, after its class was asked for."""
        ranks = self.number.ranks
        if len(ranks) == 1:
            return self.of_rank(*ranks)
        return self.of_rank(int(self.recorder.guard(self.number.rank, "index")))

    def array(self) -> TracedArray:
        """The number among arrays, where a float is as good as another."""
        return self.decided() if 0 in self.number.ranks else self.of_rank(2)

    def as_float(self) -> TracedArray:
        """``float(x)``."""
        return self.of_rank(1)

    _tracegrad_number = as_float

    def plain(self) -> Any:
        """The value in this run, to be kept outside the recording."""
        return _CLASSES[int(self.recorder.value(self.number.rank))](self.recorder.value(self.number.value))

    __class__ = property(_class_shown)  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.of_rank(2))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.decided(), name)

    def _text(self, *how: Any) -> str:
        return self.decided()._text(*how)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        self.refuse()

    __float__ = __int__ = __index__ = __complex__ = __hash__ = __array__ = __round__ = __trunc__ = _refuse
    __floor__ = __ceil__ = __reduce_ex__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = _refuse
    __rdivmod__ = __matmul__ = __rmatmul__ = __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __invert__ = __contains__ = __iter__ = __len__ = _refuse
    __getitem__ = __setitem__ = _refuse

    def __deepcopy__(self, memo: Any) -> Undecided:
        return self

    # ---- arithmetic

    def _made(self, value: Atom, rank: Atom, ranks: frozenset[int], limit: int, signed: bool = False) -> Any:
        if limit > _EXACT:
            self.refuse()
        if ranks == {2}:
            return wrap(value)
        if ranks == {1}:
            return wrap(cast(value, FLOAT, weak=True))
        if signed and 0 in ranks:  # the zero of an int has no sign
            value = F.select(F.eq(rank, _rank(0)), F.add(value, Lit(0.0, FLOAT)), value)
        return Undecided(Number(value, rank, ranks, limit), self.recorder, self.place)

    def _presume(self, x: Number, condition: Atom) -> None:
        """Let the run rest on the number *x* being NumPy's, or on *condition*."""
        if x.ranks == {2}:
            return
        safe = condition if 2 not in x.ranks else F.logical_or(F.eq(x.rank, _rank(2)), condition)
        recorder = self.recorder
        if recorder.arms:
            recorder.presume(safe)
        else:
            recorder.suppose(safe, self.place)

    def _operate(self, name: str, other: Any, reflected: bool) -> Any:
        y = number_of(other)
        if current_recorder() is not self.recorder:
            self.refuse()
        if y is None:
            return self._of_arrays(name, other, reflected)
        a, b = (y, self.number) if reflected else (self.number, y)
        ranks = frozenset(max(i, j) for i in a.ranks for j in b.ranks)
        rank: Atom = _rank(*ranks) if len(ranks) == 1 else F.maximum(a.rank, b.rank)
        if name == "truediv":
            of = Number(a.value, rank, ranks, 0)
            self._presume(of, F.ne(b.value, Lit(0.0, FLOAT)))
            made = F.div(a.value, b.value)
            if 0 in ranks:
                ranks, rank = frozenset(max(k, 1) for k in ranks), F.maximum(rank, _rank(1))
            return self._made(made, rank, ranks, 0)
        if name == "pow":
            return self._power(a, b, other, rank, ranks, reflected)
        limit = a.limit * b.limit if name == "mul" else a.limit + b.limit
        value = getattr(F, name)(a.value, b.value)
        return self._made(value, rank, ranks, limit if 0 in ranks else 0, name == "mul")

    def _power(self, a: Number, b: Number, other: Any, rank: Atom, ranks: frozenset[int], reflected: bool) -> Any:
        if reflected or not (type(other) is float or (type(other) is int and 0 <= other <= _MOST_EXPONENT)):
            self.refuse()
        value = UFUNCS[np.power](a.value, literal(other))
        self._presume(Number(a.value, rank, ranks, 0), F.isfinite(value))
        limit = a.limit**other if type(other) is int else 0
        return self._made(value, rank, ranks, limit if 0 in ranks else 0)

    def _of_arrays(self, name: str, other: Any, reflected: bool) -> Any:
        if not (isinstance(other, TracedArray | np.ndarray) and self._like(other)):
            self.refuse()
        operation = getattr(operator, name)
        return operation(other, self.of_rank(2)) if reflected else operation(self.of_rank(2), other)

    def _like(self, array: Any) -> bool:
        """Whether one float is as good as another beside *array*."""
        return array.dtype == FLOAT or (array.dtype in (INT, BOOL) and self.number.ranks <= _FLOATS)

    def _compare(self, name: str, other: Any) -> Any:
        y = number_of(other)
        if y is None or current_recorder() is not self.recorder:
            if isinstance(other, TracedArray | np.ndarray) and self._like(other):
                return getattr(operator, name)(self.of_rank(2), other)
            self.refuse()
        found = getattr(F, name)(self.number.value, y.value)
        if 2 in (self.number.ranks if len(self.number.ranks) == 1 else y.ranks):
            return wrap(found)
        return UndecidedTruth(found, self)

    def __neg__(self) -> Any:
        x = self.number
        return self._made(F.neg(x.value), x.rank, x.ranks, x.limit, signed=True)

    def __abs__(self) -> Any:
        x = self.number
        return self._made(F.abs(x.value), x.rank, x.ranks, x.limit)

    def __pos__(self) -> Undecided:
        return self

    __copy__ = __pos__

    # ---- NumPy

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        numbers = [x for x in inputs if type(x) is Undecided]
        others = [x for x in inputs if type(x) is not Undecided]
        arrays = TracedArray | np.ndarray | np.generic
        plain = all(type(x) in (int, float) or (isinstance(x, arrays) and self._like(x)) for x in others)
        to_float = "l->l" not in ufunc.types or any(type(x) is not int for x in others)
        if kwargs or method != "__call__" or not plain or (any(0 in x.number.ranks for x in numbers) and not to_float):
            self.refuse()
        return ufunc(*[x.of_rank(2) if type(x) is Undecided else x for x in inputs])

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        def settled(value: Any) -> Any:
            if type(value) in (list, tuple):
                return type(value)([settled(v) for v in value])
            if type(value) is Undecided:
                return value.of_rank(2) if value.number.ranks <= _FLOATS else value.refuse()
            if isinstance(value, TracedArray | np.ndarray | np.generic) and value.dtype not in (FLOAT, BOOL, INT):
                self.refuse()
            return value

        return function(*settled(args), **{name: settled(value) for name, value in kwargs.items()})


class UndecidedTruth:
    """The truth of a comparison, Python's or NumPy's, by the class of the number *of*."""

    __slots__ = ("atom", "of")
    __array_priority__ = 3000.0

    def __init__(self, atom: Atom, of: Undecided) -> None:
        self.atom, self.of = atom, of

    def array(self) -> TracedArray:
        """The truth, where nothing counts but that."""
        return wrap(self.atom)

    def decided(self) -> TracedArray:
        """The truth, after its class was asked for."""
        numpy = class_of(self.of.decided()) is np.float64
        return wrap(self.atom if numpy else cast(self.atom, BOOL, weak=True))

    def plain(self) -> Any:
        """The value in this run, to be kept outside the recording."""
        return (np.bool_ if type(self.of.plain()) is np.float64 else bool)(self.of.recorder.value(self.atom))

    def __bool__(self) -> bool:
        return bool(self.array())

    __class__ = property(_class_shown)  # type: ignore[assignment]

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        self.of.refuse()

    __getattr__ = __array_ufunc__ = __array_function__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = _refuse  # type: ignore[assignment]
    __ge__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __and__ = __rand__ = __or__ = _refuse
    __ror__ = __xor__ = __rxor__ = __invert__ = __neg__ = __repr__ = __str__ = __format__ = __hash__ = _refuse  # type: ignore[assignment]
    __int__ = __float__ = __index__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __array__ = _refuse
    __reduce_ex__ = __abs__ = __pos__ = _refuse  # type: ignore[assignment]


shows_text(Undecided)
operators(Undecided, ("add", "sub", "mul", "truediv", "pow"), ("eq", "ne", "lt", "le", "gt", "ge"))
STAND_INS[Undecided] = Undecided.array
STAND_INS[UndecidedTruth] = UndecidedTruth.decided
