"""Plain arrays that recorded code makes, until something traced is written into them.

``np.zeros(n)`` in recorded code gives a ``MadeArray``: a plain array, which serves as index, size and condition as any
other, and knows its *place*, the call that has made it.  It can't hold a traced value.  So where one is to be written
into it, or into what NumPy has made of it, the run ends (``Retry``) and is made again, with a traced array
from that place on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import CodeType, FrameType
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary, ref

import numpy as np

from ..convert.copies import original_code
from ..convert.uses import End, assigned
from ..ir.aval import SUPPORTED, can_cast
from ..ir.errors import MutationError, TracegradError, UnsupportedError
from ..ir.graph import Lit
from ..ir.site import is_own, user_frame
from ..ops.elementwise import broadcast_to, cast
from .array import FUNCTIONS, RECORDED, TracedArray, constant, is_traced, to_atom, wrap_array
from .buffers import ViewStep, moved
from .integers import recorded
from .plain_values import TAKERS
from .recorder import Recorder, current_recorder
from .retry import Options, Retry

PLAIN_METHODS: dict[str, Any] = {}  # name of a method of NumPy's arrays -> the function that takes traced arguments
_Places = WeakKeyDictionary[Any, set[Any]]  # code -> ends of the calls in it
_traced: _Places = WeakKeyDictionary()  # those whose arrays are traced ones
_carried: _Places = WeakKeyDictionary()  # those whose arrays loops replace by traced ones (a guess)
_plain: _Places = WeakKeyDictionary()  # those whose arrays are plain ones until they are found to hold traced values


class CallPlace(NamedTuple):
    """A call or an operator in the user's ``code``: where its text ends."""

    code: CodeType
    end: End


def place_of(frame: FrameType) -> CallPlace:
    """The call that *frame* is in; of a copy, that of the user's code."""
    return CallPlace(original_code(frame.f_code), _ends(frame.f_code)[frame.f_lasti // 2])


@lru_cache(maxsize=1024)
def _ends(code: CodeType) -> list[End]:
    """For each instruction where the text ends that it is of."""
    return [(line, column) for _, line, _, column in code.co_positions()]


_NOW_TRACED = Options("an array that the code makes holds traced values: the run is made again with a traced one")
NOW_PLAIN = Options("an array that the code makes is to be a plain one: the run is made again")


def is_traced_at(place: CallPlace, kind: str, blank: bool = False) -> bool:
    """Whether the array made at *place*, of this *kind* of dtype, is a traced one from the start: it is known to hold
    traced values, or (a guess) it has floats and is written into, and another one of the same code is known, or no run
    can follow; then *blank* ones are in any case."""
    known = _traced.get(place.code, ())
    if place.end in known:
        return True
    recorder = current_recorder()
    if recorder is None or place.end in _plain.get(place.code, ()):
        return False
    outermost = recorder.outermost()
    if not outermost.guesses:
        return False
    if place.end in _carried.get(place.code, ()):
        outermost.guessed.append(place)
        return True
    elsewhere = None if outermost.code is None else outermost.code.names_written
    file = place.code.co_filename
    own = file.endswith(RECORDED) and not outermost.repeatable  # a library's, in which nothing is learned
    guess = (own and kind in ("fbc" if "numpy" in file else "fc")) or (
        kind in "fc" and (known or elsewhere is not None)
    )
    blank &= elsewhere is not None
    if not guess or not (blank or place.end in assigned(_in_its_file(place.code), elsewhere or frozenset())):
        return False
    outermost.guessed.append(place)
    return True


@lru_cache(maxsize=1024)
def _in_its_file(code: CodeType) -> CodeType:
    """*code* by the name of the file in which its source stands."""
    return code.replace(co_filename=code.co_filename.removesuffix(RECORDED))


def begins_as_traced(array: Any) -> Callable[[], object] | None:
    """A function that lets *array*, a plain one in whose place a loop puts a traced one, be a traced one from the next
    run on.  None where it can't be, or (a heuristic) where what the code computes from it might cost more in each call
    than once."""
    place = array.place if type(array) is MadeArray and array.is_filled else None
    if place is None or array.dtype.kind not in "fc" or place.end in _plain.get(place.code, ()):
        return None
    return partial(_carried.setdefault(place.code, set()).add, place.end)


def take_back_guesses(recorder: Recorder, error: TracegradError) -> None:
    """End a run that was refused by *error*, if it rests on guesses, which are taken back."""
    for place in recorder.guessed:
        _plain.setdefault(place.code, set()).add(place.end)
    if recorder.guessed:
        recorder.again(Retry(NOW_PLAIN, error))


def _with_traced(name: str) -> Callable[..., Any]:
    """The method of that name, which with traced arguments is NumPy's function."""

    def method(array: Any, *args: Any, **kwargs: Any) -> Any:
        if any(map(is_traced, (*args, *kwargs.values()))):
            function = getattr(np, name)
            return FUNCTIONS.get(function, function)(array.plain(), *args, **kwargs)
        return getattr(np.ndarray, name)(array, *args, **kwargs)

    return method


def _lane(name: str) -> Any:
    """The attribute of that name, which is written as an array is."""
    return property(vars(np.ndarray)[name].__get__, lambda array, value: getattr(array, name).__setitem__(..., value))


class MadeArray(np.ndarray):
    """A plain array that recorded code has made, or that NumPy has made of one."""

    place: CallPlace | None = None
    is_filled = False  # whether it is what np.zeros, np.ones or np.empty have given

    def __array_finalize__(self, other: Any) -> None:
        self._note(getattr(other, "place", None))

    def _note(self, place: CallPlace | None) -> None:
        recorder = current_recorder()
        known, self.place = self.place, place
        if known is None and place is not None and recorder is not None and recorder.live:
            recorder.made.append(ref(self))

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else self._of(array)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in FUNCTIONS and any(map(is_traced, (*args, *kwargs.values()))):
            return FUNCTIONS[function](*args, **kwargs)
        found = super().__array_function__(function, types, args, kwargs)
        return self._of(found) if type(found) is np.ndarray else found

    def _of(self, array: np.ndarray) -> np.ndarray:
        """*array*, which is made of this one."""
        found = array.view(MadeArray)
        found._note(self.place)
        return found

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """NumPy's, for ``isinstance`` in the user's code."""
        return MadeArray if is_own(sys._getframe(1).f_code.co_filename) else np.ndarray

    def __getitem__(self, index: Any) -> Any:
        found = recorded(index) if self.dtype.kind in "fc" else index  # ints of a table mean what Python has to know
        recorder = current_recorder()
        if is_traced(found) and recorder is not None:
            return part_taken(recorder, self, for_parts(recorder, self)[index])
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if is_traced(recorded(value)) or is_traced(recorded(index)):
            refuse_write(self, "z[...] = t")
        super().__setitem__(index, value)

    @property
    def flat(self) -> Any:
        """NumPy's iterator over the elements."""
        return _Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = value

    real, imag = _lane("real"), _lane("imag")

    def fill(self, value: Any) -> None:
        if is_traced(value):
            refuse_write(self, "fill")
        super().fill(value)

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        if is_traced(values) or is_traced(indices):
            refuse_write(self, "put")
        super().put(indices, values, mode)

    def __repr__(self) -> str:
        return repr(self.plain())

    def __reduce__(self) -> Any:
        return self.plain().__reduce__()

    def plain(self) -> np.ndarray:
        """The array as NumPy's."""
        return self.view(np.ndarray)


def _method_of_plain(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(array: np.ndarray, *args: Any, **kwargs: Any) -> Any:
        return FUNCTIONS[function](array, *args, **kwargs)

    return method


for _name in TAKERS:
    PLAIN_METHODS[_name] = _method_of_plain(_name)
    setattr(MadeArray, _name, _with_traced(_name))


_ARRAYS = (np.ndarray, MadeArray)
_MAY_BE_MADE = (np.ndarray, list, tuple)


class _Flat:
    """``z.flat`` of a plain array."""

    def __init__(self, array: MadeArray) -> None:
        self._array = array
        self._flat = np.ndarray.flat.__get__(array)  # type: ignore[attr-defined]

    def __getitem__(self, index: Any) -> Any:
        return self._flat[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if is_traced(value) or is_traced(index):
            refuse_write(self._array, "z.flat[...] = t")
        self._flat[index] = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._flat, name)

    def __len__(self) -> int:
        return len(self._flat)

    def __iter__(self) -> Any:
        return iter(self._flat)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return self._flat.__array__(*args, **kwargs)


def made(array: np.ndarray, place: CallPlace, is_filled: bool = False) -> Any:
    """*array*, as one that was made at *place*."""
    if current_recorder() is None or array.dtype.kind not in "fiubc":
        return array
    found = array if type(array) is MadeArray else array.view(MadeArray)
    found._note(place)
    found.is_filled = is_filled
    return found


def made_by(array: Any, frame: FrameType) -> Any:
    """The array that a call in *frame* has made: a traced one if it will hold traced values."""
    if not isinstance(array, np.ndarray) or array.dtype not in SUPPORTED:
        return array
    place = place_of(frame)
    if is_traced_at(place, array.dtype.kind):
        return wrap_array(to_atom(array), c_order=bool(array.flags.c_contiguous))
    return made(array, place)


def all_made(held: list[Any], frame: FrameType) -> Any:
    """The value that code in *frame* has found, by a call of code that is not seen, say; the caller has it nowhere but
    in the list *held*.  As ``made_by``, the array, or those of a list or tuple, where nothing else has it, or shows its
    memory."""
    kind, found = type(held[0]), held[0]
    if kind in _ARRAYS:
        del found
        return _made_alone(held, 0, frame)
    if kind not in (list, tuple) or not found or type(found[0]) not in _ARRAYS:
        return found
    del found
    if references(held, 0) > ALONE:
        return held[0]
    every = held.pop()
    return kind([_made_alone(every, k, frame) if type(every[k]) in _ARRAYS else every[k] for k in range(len(every))])


def fresh(found: Any) -> Any:
    """As ``all_made``, in the innermost frame of the user's."""
    held = [found]
    del found
    return fresh_in(held)


def fresh_in(held: list[Any]) -> Any:
    """The same, of what the caller has nowhere but in the list *held*."""
    return all_made(held, user_frame()) if type(held[0]) in _MAY_BE_MADE else held[0]


def _made_alone(held: Sequence[Any], k: int, frame: FrameType) -> Any:
    alone = current_recorder() is not None and references(held, k) <= ALONE and held[k].ndim
    return made_by(held[k], frame) if alone and _owns_memory(held[k]) else held[k]


def _owns_memory(array: np.ndarray) -> bool:
    """Whether nothing else shows the memory of *array*."""
    base = array.base
    if base is None:
        return bool(array.flags.owndata)
    owns = type(base) is np.ndarray and base.base is None
    del base
    return owns and _references_to_base(array) <= ALONE


def references(held: Sequence[Any], k: int) -> int:
    """The references to an element; a variable would count in some versions of Python, and not in others."""
    return sys.getrefcount(held[k])


def _references_to_base(array: np.ndarray) -> int:
    return sys.getrefcount(array.base)


ALONE = references([object()], 0)  # those to an element that nothing else has


def refuse_write(array: Any, what: str) -> NoReturn:
    """End the run in which *what* would write a traced value into a plain *array*."""
    error = MutationError.here(
        f"{what} would write a traced value into a plain NumPy array, which could not carry its gradient; make the "
        "array in the function, by np.zeros(n) or np.zeros_like(x)"
    )
    recorder = current_recorder()
    if type(array) is MadeArray and array.place is not None and recorder is not None:
        _traced.setdefault(array.place.code, set()).add(array.place.end)
        recorder.again(Retry(_NOW_TRACED, error))
    raise error


class OfPlain(str):
    """The owner of a buffer of which views are taken, at positions that only an iteration knows: a plain *array*."""

    __slots__ = ("array",)
    array: np.ndarray

    def __new__(cls, array: np.ndarray) -> OfPlain:
        found = super().__new__(cls, "a plain NumPy array")
        found.array = array
        return found

    def refuse(self) -> NoReturn:
        refuse_write(self.array, "a write into a part of it")

    def view(self, steps: Sequence[tuple[ViewStep, Any, Sequence[Any]]]) -> np.ndarray | None:
        """The view of it through *steps* of arrays of these shapes, at these positions; None where that is not known of
        an array that is not to be a traced one."""
        found = self.array
        for step, shape, positions in steps:
            known = all(isinstance(x, Lit) for x in positions)
            view = getattr(moved(step, positions, shape), "view", None) if known else None
            if view is None:
                if type(self.array) is MadeArray:
                    self.refuse()  # it may be written later, and the view be read then
                return None
            found = view(found)
        return found


def for_parts(recorder: Recorder, array: np.ndarray) -> TracedArray:
    """A traced array in the place of a plain one, of which an iteration takes parts at positions that only it knows."""
    found = wrap_array(constant(np.asarray(array)))
    found._storage.owner = OfPlain(array)
    if recorder.open_loops:
        recorder.open_loops[-1].parts_of.append(array)
    return found


def part_taken(recorder: Recorder, array: np.ndarray, part: TracedArray) -> TracedArray:
    """*part* of what is in the place of a plain *array*; of a view it is noted what the array is now.  An iteration of
    a live run changes none, and keeps no view (loops/after.py)."""
    known = recorder.outermost().loops.parts_taken
    if part._steps and id(array) not in known and not (recorder.live and recorder.open_loops):
        known[id(array)] = array, np.array(array)
    return part


def check_parts(recorder: Recorder) -> None:
    """Have the run made again if a plain array has changed of which a part was taken at a traced position: these are
    in ``parts_taken``, with copies of what they were."""
    for array, before in recorder.loops.parts_taken.values():
        if array.tobytes() != before.tobytes():
            refuse_write(array, "an assignment after a part was taken at a traced position")


def writable(array: Any, what: str) -> TracedArray:
    """*array*, into which *what* writes a traced value, as a traced array."""
    return array if isinstance(array, TracedArray) else refuse_write(array, what)


def assign_all(target: Any, value: Any) -> Any:
    """Write *value* into the whole of *target*, with NumPy's broadcasting and casting for out=."""
    writable(target, "out=")
    atom = to_atom(value)
    if not can_cast(atom.aval.dtype, target.dtype, "same_kind") and not atom.aval.weak:
        raise UnsupportedError.here(
            f"cannot cast {atom.aval.dtype} to {target.dtype} in place; write x = x + ... to change the dtype"
        )
    target._write(broadcast_to(cast(atom, target.dtype), target.shape))
    return target
