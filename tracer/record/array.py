"""The traced array, which the user's function gets in place of its array arguments.

``TracedArray`` answers NumPy: operators, ``__array_ufunc__``, ``__array_function__``, methods, indexing, iteration.
Its contents live in a ``Storage`` and are reached through view steps (``buffers.py``); asking for a Python value
(``if t > 0``) computes it and leaves a guard.

The functions behind ``np.sum`` and its relatives are in ``ufuncs.py`` and its siblings; they register themselves in
the tables here."""

from __future__ import annotations

import dis
import math
import operator
import os
import sys
from _abc import _abc_init  # type: ignore[import-not-found]
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.aval import FLOAT, Aval, check_dtype
from ..ir.class_flags import SEQUENCE
from ..ir.debuggers import looks_on
from ..ir.errors import MutationError, OnlyPythonError, TracegradError, UnsupportedError
from ..ir.graph import Atom, Lit, Pair, Var, literal
from ..ir.refusals import Refusal
from ..ir.site import FOR_THE_USER, OWN_FOLDER, at_site, is_own
from ..ops.complex import real_atoms
from ..ops.elementwise import F, broadcast_to, cast, rounded
from ..ops.shape import reshape, slice_axis
from .buffers import LaneStep, ReshapeStep, Storage, TransposeStep, ViewStep, put_through
from .plain_values import array_refusal, called_by_name, check_number_allowed
from .recorder import Recorder, current_recorder
from .shown_text import PRINT, Shown, Texts, shows_text

UFUNCS: dict[Any, Callable[..., Any]] = {}  # np.ufunc -> function of atoms and scalars
UFUNC_METHODS: dict[tuple[Any, str], Callable[..., Any]] = {}  # (np.add, "reduce") -> function(ufunc, *arguments)
FUNCTIONS: dict[Any, Callable[..., Any]] = {}  # NumPy function -> function of the user's arguments
DIRECT: dict[Any, Any] = {}  # np.ufunc -> the primitive that it is, on float operands of one shape
METHODS: dict[str, Callable[..., Any]] = {}  # array method -> function(self, *args, **kwargs)
STAND_INS: dict[type, Callable[[Any], TracedArray]] = {}  # kinds of traced numbers -> the traced array of one
HINTS: dict[str, str] = {}  # unsupported name -> what to use instead
WIDE = np.dtype("complex128")
MAX_AXES = 64  # of an array, as NumPy has it
_MOST_SHOWN = 256  # elements of an array whose text may be guarded
_ENTRIES = os.path.join("numpy_api", "dispatch.py")  # entries of the user's operations
RECORDED = " (recorded)"  # after the name of a file of NumPy's: its code is recorded as the user's is
_ARRAYS_MATCH = bool(np.ndarray.__flags__ & SEQUENCE)  # from NumPy 2.5 on
_GET_LEN = dis.opmap["GET_LEN"]
_AFTER = (
    "a traced array was used after its function had returned; return it from the function, and do not keep it in a "
    "global or an attribute"
)
_NANS = (
    "a container compares two NaNs here (`in`, index, count, `==` of lists), and asks whether they are one object, "
    "which is not known of an argument or of a number that is stored outside: test for it by math.isnan or np.isnan"
)
_BRANCHES = ("POP_JUMP", "JUMP_IF", "UNARY_NOT", "TO_BOOL")
_NO_SEQUENCE = (
    "`case [...]` asks here if a traced number is a sequence, which cannot be answered: with this version of NumPy "
    "arrays are; put `case float():` before it, or ask by np.ndim(x)"
)


# Attributes that arrays of other libraries have.
_OTHERS = {
    "at": ": x.at[i].set(v) is JAX's; write y = x.copy(), then y[i] = v (y[i] += v for .add)",
    "detach": ": write tracegrad.stop_gradient(x)",
    "numpy": ": it is a NumPy array; leave .numpy() out",
    "cpu": ": it is a NumPy array; leave .cpu() out",
    "backward": ": take the gradient outside, by f.grad(...)",
    "grad": ": take the gradient outside, by f.grad(...)",
    "requires_grad": ": argnums says what gradients are taken of",
    "unsqueeze": ": write x[:, None], or np.expand_dims(x, axis)",
    "view": ": write x.reshape(...), or x.view() without arguments",
    "permute": ": write x.transpose(...)",
    "block_until_ready": ": leave it out",
}


def _is_ours(frame: FrameType) -> bool:
    """Whether *frame* runs code of this package that does not act for the user's."""
    filename = frame.f_code.co_filename
    return filename.startswith(OWN_FOLDER) and filename not in FOR_THE_USER


class _NoMethods:
    """A class without methods: ``__hash__``, which all objects have, is None."""

    __hash__ = None  # type: ignore[assignment]


class _StandIn(type):
    """The class of ``TracedArray``.  ``isinstance(t, Iterable)`` asks ``t.__class__`` and then the type itself, whose
    classes it goes through for methods.  Only the former may answer, so none are found."""

    @property
    def __mro__(cls) -> tuple[type, ...]:  # type: ignore[override]
        return (_NoMethods, object)

    @property  # type: ignore[misc]
    def __dict__(cls) -> Any:  # type: ignore[override]
        """As ever; but where a metaclass has one of its own, ``inspect.getattr_static`` passes the class over, which
        the instance checks of protocols ask from Python 3.12 on."""
        return type.__dict__["__dict__"].__get__(cls)


class Flags:
    """``x.flags``, as far as they can be known."""

    def __init__(self, **known: bool) -> None:
        vars(self).update(known, contiguous=known["c_contiguous"], forc=True, fnc=False, aligned=True)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, {"C": "c_contiguous", "F": "f_contiguous", "A": "aligned"}.get(name, name.lower()))

    def __getattr__(self, name: str) -> Any:
        raise unsupported(f"flags.{name}")


class TracedArray(metaclass=_StandIn):
    """Stands for an array while a function is recorded."""

    __slots__ = ("_atom", "_recorder", "_steps", "_storage", "_uncertain", "_version")
    __array_priority__ = 1000.0

    def __init__(self, atom: Atom, recorder: Recorder, *, owner: str | None = None):
        self._storage = storage = Storage(atom, owner, home=current_recorder())
        self._steps: tuple[tuple[ViewStep, tuple[int, ...]], ...] = ()
        self._atom: Atom = atom
        self._version = 0
        self._uncertain = False  # a view or a copy in NumPy: to write to it, or to its base, is an error
        if owner is not None:
            contents = recorder.env.get(atom) if isinstance(atom, Var) else None
            storage.c_order = contents is None or contents.flags.c_contiguous
        self._recorder = recorder  # the last: see `_complete`

    @property
    def _complete(self) -> bool:
        """Whether it has been made to its end, which an interrupt may prevent."""
        try:
            return self._recorder is not None
        except AttributeError:
            return False

    # ---- reading and writing the storage -----------------------------------------------------------------------

    @property
    def atom(self) -> Atom:
        """The current value as an IR atom."""
        if not self._recorder.active:
            raise TracegradError.here(_AFTER)
        if self._recorder.thread != get_ident():
            raise self._recorder.in_another_thread()
        storage = self._storage
        if self._version != storage.version:
            if self._uncertain:
                raise MutationError.here(_UNCERTAIN.format("reads", "was written since it was made"))
            atom = storage.atom
            for step, _ in self._steps:
                atom = step.apply(atom)
            self._atom, self._version = atom, storage.version
        return self._atom

    def _write(self, value: Atom, chosen: bool = False) -> None:
        """Replace the contents by *value* (of this shape and dtype); every view of the buffer sees it.  Within an arm
        of a choice, where that is taken; *chosen*: so *value* is already."""
        storage = self._storage
        if storage.owner is not None:
            if (refuse := getattr(storage.owner, "refuse", None)) is not None:
                refuse()
            error = MutationError.here(
                f"this writes into {storage.owner}, which belongs to the caller; write into a copy: x = x.copy(), "
                "or use x = x + ... instead of x += ..."
            )
            error.final = storage.owner != A_PART  # a run without that loop may write
            raise error
        if self._uncertain:
            raise MutationError.here(_UNCERTAIN.format("writes", "may be a copy in NumPy"))
        current = current_recorder()
        if current is not None and current.parent is not None and storage.home is not current:
            raise MutationError.here(_FROM_OUTSIDE)
        if current is not None and id(storage) in current.chosen.frozen:
            current.refuse_choice(current.chosen.frozen[id(storage)][1], Refusal.CHOICE_WRITTEN())
        if current is not None and current.open_loops:
            current.open_loops[-1].writes(storage)
        if current is not None and current.arms and not chosen:
            value = F.select(current.within(), broadcast_to(value, self._atom.aval.shape), self.atom)
        storage.atom = put_through(self._steps, storage.atom, value)
        storage.version += 1

    def view(self, *given: Any, **named: Any) -> TracedArray:
        """The view of this array through a step (``ndarray.view`` where the user's code calls it)."""
        if named or len(given) != 1 or given[0] is None or isinstance(given[0], (str, type, np.dtype)):
            return METHODS["view"](self, *given, **named)
        step: ViewStep = given[0]
        moves = type(step) in (ReshapeStep, TransposeStep, LaneStep)
        if moves and not self._atom.aval.shape and class_of(self) is not np.ndarray:
            atom = step.apply(self.atom)
            if not atom.aval.shape:  # NumPy's scalars stay scalars; a Python number becomes an array
                becomes_array = atom.aval.weak and type(step) is not LaneStep
                return wrap_array(cast(atom, atom.aval.dtype)) if becomes_array else wrap(atom, self._recorder)
        result = TracedArray.__new__(TracedArray)
        result._storage = self._storage
        result._atom = step.apply(self.atom)
        result._steps = (*self._steps, (step, self.shape))
        result._version = self._storage.version
        result._uncertain = self._uncertain
        result._recorder = _innermost(self._recorder)
        return result

    def known_c_order(self) -> bool:
        """True where NumPy's array is sure to be C-contiguous."""
        if not (self._storage.c_order or self._storage.atom.aval.ndim <= 1):
            return False
        return not self._steps or all(step.contiguous(before) for step, before in self._steps)

    def view_reshape(self, shape: tuple[int, ...], *, certain: bool = False) -> TracedArray:
        """reshape: a view where NumPy is sure to make one (or where the caller is *certain* of it)."""
        result = self.view(ReshapeStep(self.shape, shape))
        if not certain and shape != self.shape and not self.known_c_order():
            result._uncertain = True
        return result

    def view_transpose(self, perm: tuple[int, ...]) -> TracedArray:
        return self.view(TransposeStep(perm))

    # ---- what NumPy code asks of an array ----------------------------------------------------------------------

    @property
    def aval(self) -> Aval:
        return self._atom.aval

    @property
    def shape(self) -> tuple[int, ...]:
        aval = self._atom.aval
        if aval.weak:
            self.of_arrays("shape")
        return aval.shape

    @shape.setter
    def shape(self, value: Any) -> None:
        owned = self._storage.owner is not None and not self._steps  # a view is an object of the run's
        if owned or not all(step.contiguous(before) for step, before in self._steps):
            raise MutationError.here("assigning .shape of this traced array is not supported; use x = x.reshape(...)")
        found = METHODS["reshape"](self, value)  # never a copy: where memory lies otherwise, NumPy raises
        self._steps, self._atom, self._version = found._steps, found._atom, found._version

    @property
    def dtype(self) -> np.dtype:
        aval = self._atom.aval
        if aval.weak:
            self.of_arrays("dtype")
        return aval.dtype

    @dtype.setter
    def dtype(self, value: Any) -> None:
        raise MutationError.here("assigning .dtype of a traced array is not supported; use x = x.astype(...)")

    @property
    def ndim(self) -> int:
        aval = self._atom.aval
        if aval.weak:
            self.of_arrays("ndim")
        return len(aval.shape)

    @property
    def size(self) -> int:
        aval = self._atom.aval
        if aval.weak:
            self.of_arrays("size")
        return aval.size

    @property
    def itemsize(self) -> int:
        self.of_arrays("itemsize")
        return self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        self.of_arrays("strides")
        if not self.known_c_order():
            raise unsupported("ndarray.strides")
        return tuple([self.dtype.itemsize * math.prod(self.shape[k + 1 :]) for k in range(self.ndim)])

    @property
    def flags(self) -> Any:
        self.of_arrays("flags")
        if sys._getframe(1).f_code.co_filename.endswith(RECORDED):  # which makes a copy, or takes a way in Python
            return Flags(c_contiguous=False, f_contiguous=False, writeable=False)
        if not self.known_c_order():
            raise unsupported("ndarray.flags")
        return Flags(c_contiguous=True, f_contiguous=sum(n != 1 for n in self.shape) <= 1 or not self.size)

    @property
    def nbytes(self) -> int:
        self.of_arrays("nbytes")
        return self.size * self.itemsize

    @property
    def T(self) -> TracedArray:  # noqa: N802
        self.of_arrays("T")
        return self.view_transpose(tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> TracedArray:  # noqa: N802
        self.of_arrays("mT")
        if self.ndim < 2:
            raise ValueError(at_site("matrix transpose with ndim < 2 is undefined"))
        return self.view_transpose((*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    @property
    def real(self) -> TracedArray:
        return self.view(LaneStep(0)) if self._atom.aval.is_complex else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> TracedArray:
        if self._atom.aval.is_complex:
            return self.view(LaneStep(1))
        return wrap(
            broadcast_to(Lit(0, self.dtype, weak=self._atom.aval.weak, structural=True), self.shape), self._recorder
        )

    @imag.setter
    def imag(self, value: Any) -> None:
        if not self._atom.aval.is_complex:
            raise TypeError(at_site("array does not have imaginary part to set"))
        self.imag[...] = value

    @property
    def flat(self) -> TracedArray:
        """The elements in C order; writing into it writes into the array, however it lies in memory."""
        self.of_arrays("flat")
        return self.view_reshape((self.size,), certain=True)

    @flat.setter
    def flat(self, value: Any) -> None:
        values = FUNCTIONS[np.array](value)
        self.flat[...] = values if values.size == 1 else np.resize(values, self.size)

    @property
    def device(self) -> str:
        self.of_arrays("device")
        return "cpu"

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return np

    def __len__(self) -> int:
        if not self.shape:
            frame = sys._getframe(1)
            if _ARRAYS_MATCH and frame.f_code.co_code[frame.f_lasti] == _GET_LEN and class_of(self) is not np.ndarray:
                raise UnsupportedError.here(_NO_SEQUENCE)
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return map(self.__getitem__, range(self.shape[0]))

    def _text(self, frame: FrameType, how: str, spec: str = "") -> str:
        """The text that *frame* asks for, by ``repr``, ``str`` or a format: a mark where only the outside will see it,
        else that of the value in this run, with a guard."""
        recorder = self._recorder
        if not recorder.active:
            return f"<traced {self.aval}>"
        asked = "" if recorder.texts is None else recorder.texts.asked
        if is_own(frame.f_code.co_filename) and not asked:
            return f"<traced {self.aval} (recording: its value is known only when the compiled function runs)>"
        array0d = not self._atom.aval.shape and class_of(self) is np.ndarray
        mark = None if array0d and how == "repr" else self.mark(frame, how, spec)
        return Shown(None, how, spec).write(self.shown()) if mark is None else mark

    def mark(self, frame: FrameType, how: str | Callable[[Any], str], spec: str = "") -> str | None:
        """The mark for the text that *frame* asks for, where only the outside will see it; else None."""
        texts = shown_to(self._recorder, frame) if self._recorder.active else None
        return None if texts is None else texts.mark(wrap(self.atom, self._recorder), how, spec)

    def shown(self) -> Any:
        """The plain value in this run, to be seen by people: with a guard on each element."""
        recorder, atom = self._recorder, self.atom
        if atom.aval.is_inexact:
            recorder.left.as_text += real_atoms([atom])
        if atom.aval.size > _MOST_SHOWN:
            recorder.unrepeatable(Refusal.CALLS_TEXT, count=atom.aval.size)
            return np.array(recorder.value(atom))
        flat = reshape(atom, (atom.aval.size,))
        elements = [
            recorder.guard(rounded(reshape(slice_axis(flat, 0, k, 1), ())), "item") for k in range(atom.aval.size)
        ]
        if class_of(self) is not np.ndarray:
            return elements[0].item() if atom.aval.weak else elements[0]
        return np.array(elements, atom.aval.dtype).reshape(atom.aval.shape)

    @property
    def __class__(self) -> Any:
        """The class of NumPy's value, for ``isinstance`` in the user's code; ``TracedArray`` for our own."""
        name = sys._getframe(1).f_code.co_filename
        return TracedArray if is_own(name) and not name.endswith(RECORDED) else class_of(self)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise UnsupportedError.here("the class of a traced array cannot be changed")

    def of_arrays(self, name: str) -> None:
        """An error where the user's code asks a Python number for an attribute (or item) that it does not have."""
        if not self._atom.aval.weak:
            return
        frame = sys._getframe(2)
        while frame.f_code.co_filename.endswith(_ENTRIES) and frame.f_back is not None:
            frame = frame.f_back
        if not is_own(frame.f_code.co_filename):
            kind = class_of(self)
            if name == "__getitem__":
                raise TypeError(f"'{kind.__name__}' object is not subscriptable")
            if not has_attribute(kind, name):
                raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}'")

    def __hash__(self) -> int:
        kind = class_of(self)
        if kind is np.ndarray:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        if self._atom.aval.is_inexact and self._recorder.has_gradient(self.atom):
            raise UnsupportedError.here(
                "a traced number as a key of a dict or set would lose its gradient; use a key that is no float, or "
                "tracegrad.stop_gradient(t) where a number without a gradient is meant"
            )
        found = self._concrete("item").item()
        if found != found:  # it hashes by its identity
            raise OnlyPythonError.here(_NANS)
        self._recorder.keep_as_key()
        return hash(found)

    # ---- values: each one that Python sees is a guard ----------------------------------------------------------

    def _check_one_element(self, kind: str) -> None:
        if self._atom.aval.size != 1:
            if kind == "bool":
                raise ValueError(
                    at_site(
                        "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all(), "
                        "or np.where(condition, a, b) to choose element by element"
                    )
                )
            raise TypeError(
                at_site(
                    "only length-1 arrays can be converted to Python scalars: float(), int() and the functions of math "
                    "take one number; those of NumPy take arrays"
                )
            )

    def _concrete(self, kind: str) -> Any:
        self._check_one_element(kind)
        atom = rounded(reshape(self.atom, ()))
        if looks_on():
            return np.asarray(self._recorder.value(atom))[()]
        return self._recorder.guard(atom, kind)

    def __bool__(self) -> bool:
        found = bool(self._concrete("bool"))
        if not found:
            self._tell_nans_apart(sys._getframe(1))
        return found

    def _tell_nans_apart(self, frame: FrameType) -> None:
        """Guard that two numbers which a container has found unequal are not both NaN: then it would have asked if
        they are one object, which stand-ins can't tell."""
        recorder, atom = self._recorder, self._atom
        last = recorder.nodes[-1] if recorder.nodes else None
        if last is None or last.prim.name != "eq" or last.out is not atom or last.inputs[0] is last.inputs[1]:
            return
        given = [x for x in last.inputs if isinstance(x, Var) and x.aval.weak and x in recorder.inputs]
        plain = [x for x in last.inputs if isinstance(x, Lit) and x.value != x.value]
        if not given or len(given) + len(plain) < 2:  # another number is an object of its own
            return
        if dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(_BRANCHES):  # on what `==` has given
            return
        unequal = [F.ne(x, x) for x in given]
        if recorder.guard(F.logical_and(*unequal) if len(unequal) == 2 else unequal[0], "bool"):
            raise OnlyPythonError.here(_NANS)

    def __int__(self) -> int:
        return int(self._concrete("int"))

    def __float__(self) -> Any:
        """The plain number, for C code: an error where its gradient would be lost."""
        if self._atom.aval.is_float and not _is_ours(sys._getframe(1)):
            if called_by_name("__float__"):
                return self.number()
            if looks_on():
                return float(self._concrete("float"))
            self._recorder.left.as_text.append(self.atom)  # by "%.3f" % t
            check_number_allowed(lambda: self._recorder.has_gradient(self.atom))
        return float(self._concrete("float"))

    def number(self) -> TracedArray:
        """``float(t)``: the value as a Python float, which keeps its gradient."""
        self._check_one_element("float")
        if self._atom.aval.weak and self._atom.aval.dtype in (FLOAT, WIDE):
            return self
        if self._atom.aval.is_complex:
            return wrap(cast(reshape(self.atom, ()), WIDE, weak=True), self._recorder)
        return wrap(cast(reshape(self.atom, ()), FLOAT, weak=True), self._recorder)

    def __index__(self) -> int:
        kind = class_of(self)
        if kind in (float, np.float64, np.float32):
            shown = kind.__name__ if kind is float else f"numpy.{kind.__name__}"
            raise TypeError(f"'{shown}' object cannot be interpreted as an integer")
        if kind is bool:
            return int(bool(self))
        if self.dtype.kind not in "iu" or self.size != 1 or self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self._concrete("index"))

    def __complex__(self) -> complex:
        self._check_one_element("complex")
        if self._recorder.has_gradient(self.atom):
            raise UnsupportedError.here(
                "this needs a plain complex number, which would lose the gradient; write complex(z) itself, or z + 0j"
            )
        return complex(self._concrete("item"))

    def __round__(self, ndigits: int | None = None) -> Any:
        if self._atom.aval.is_complex:
            raise TypeError(at_site(f"type {class_of(self).__name__} doesn't define __round__ method"))
        if ndigits is None:
            return self._asked_integer(F.rint)
        if not self._atom.aval.is_inexact:
            return round(self._concrete("item").item(), ndigits)
        found = FUNCTIONS[np.round](self, ndigits)
        return found.number() if self._atom.aval.weak else found

    def is_integer(self) -> bool:
        """Whether the number is an integer, which is a question (of Python's and NumPy's scalars)."""
        if class_of(self) is np.ndarray:
            raise AttributeError("'numpy.ndarray' object has no attribute 'is_integer'")
        atom = self.atom
        return bool(wrap(F.logical_and(F.isfinite(atom), F.eq(F.floor(atom), atom)), self._recorder))

    def __trunc__(self) -> int:
        return int(self)

    def __floor__(self) -> Any:
        return self._asked_integer(F.floor)

    def __ceil__(self) -> Any:
        return self._asked_integer(F.ceil)

    def _asked_integer(self, rounding: Callable[[Atom], Atom]) -> Any:
        """The integer to which the value is rounded, which is a question as that of int() is."""
        if self._atom.aval.is_float:
            return wrap(rounding(rounded(reshape(self.atom, ()))), self._recorder)._tracegrad_int()
        return self._tracegrad_int()

    def item(self, *index: Any) -> Any:
        """The value as a Python number: a float keeps its gradient, an integer is a number of the run; a bool is a
        question, and so is all that our own code asks for (a Tensor's item)."""
        if len(index) == 1 and not isinstance(index[0], tuple):
            index = np.unravel_index(operator.index(index[0]), self._atom.aval.shape)
        value = self[index[0] if len(index) == 1 else index] if index else self
        if value._atom.aval.is_inexact and not _is_ours(sys._getframe(1)):
            return value.number()
        return value._tracegrad_int() if value._atom.aval.dtype.kind in "iu" else value._concrete("item").item()

    def _tracegrad_int(self) -> Any:
        """``int(t)`` in recorded code: an integer is a number of the run, where the recorder takes it, or a loop."""
        recorder = self._recorder
        take, found = recorder.int_of, None
        self._check_one_element("int")
        here = current_recorder() is recorder
        if here and recorder.open_loops and recorder.parent is None:
            found = recorder.loops.int_in_loop(recorder, self.atom)
        if found is None and take is not None and here and self._atom.aval.dtype.kind in "iu":
            found = take(self.atom)
        return int(self._concrete("int")) if found is None else found

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        aval = self._atom.aval
        if (not aval.shape or self._recorder.live) and not (aval.is_inexact and self._recorder.has_gradient(self.atom)):
            if aval.shape:
                return np.array(self._recorder.value(self.atom), dtype)  # of this run alone
            return np.asarray(self._concrete("item"), dtype)  # no gradient is lost, and the value is guarded
        if looks_on():
            return np.array(self._recorder.value(self.atom), dtype)
        error = array_refusal()
        raise self._recorder.refused(self.atom, error)

    def __getattr__(self, name: str) -> Any:
        if name in TracedArray.__slots__:
            raise AttributeError(name)  # it is not complete
        self.of_arrays(name)
        method = METHODS.get(name)
        if method is not None:
            call = self._recorder.call_method
            return method.__get__(self) if call is None else partial(call, name, self)
        kind = class_of(self)
        if name.startswith("__") and not (kind is float and has_attribute(float, name)):
            raise AttributeError(name)
        if kind is not np.ndarray and has_attribute(kind, name):
            if not self._atom.aval.is_inexact:  # a method of ints
                value = self._concrete("item")
                return getattr(value.item() if self._atom.aval.weak else value, name)
            raise self._recorder.refused(self.atom, unsupported(f"{kind.__name__}.{name}"))
        if has_attribute(np.ndarray, name):
            raise self._recorder.refused(self.atom, unsupported(f"ndarray.{name}"))
        raise no_attribute(self, name)

    if TYPE_CHECKING:  # dispatch.py makes these

        def _operator(self, other: Any) -> Any: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _operator
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = _operator

        def __eq__(self, other: Any) -> Any: ...
        def __ne__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __invert__(self) -> Any: ...

        def __getitem__(self, index: Any) -> Any: ...  # index.py

    def __setitem__(self, index: Any, value: Any) -> None:
        if not self._atom.aval.shape and (kind := class_of(self)) is not np.ndarray:
            raise TypeError(at_site(f"'{kind.__name__}' object does not support item assignment"))
        METHODS["__setitem__"](self, index, value)

    def __delitem__(self, index: Any) -> None:
        raise ValueError(at_site("cannot delete array elements"))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __copy__(self) -> Any:
        return METHODS["copy"](self, "K") if class_of(self) is np.ndarray else self

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()


shows_text(TracedArray)
_UNCERTAIN = (
    "this {} through a reshape of an array that may lie in memory in another order than C, and {}: whether NumPy makes "
    "a view or a copy "
    "here depends on that; reshape a .copy(), or write into the original"
)


A_PART = "what a loop has taken of another array"  # an owner of buffers
_FROM_OUTSIDE = (
    "the body of a loop writes into an array from outside of it; make the array a carry, or return the row as y and "
    "let scan stack it"
)


def shown_to(recorder: Recorder, frame: FrameType) -> Texts | None:
    """The texts that keep what *frame* asks the text of, where only the outside will see it."""
    texts = recorder.texts
    if texts is None:
        return None
    return texts if is_own(frame.f_code.co_filename) and texts.asked == PRINT else None


def class_of(t: TracedArray) -> type:
    """The class of the value that *t* stands for: a Python number, a NumPy scalar, or an array."""
    aval = t._atom.aval
    if aval.weak:
        return _PYTHON_CLASS[aval.dtype.kind]
    storage = t._storage
    scalar = not (aval.shape or t._steps or storage.array0d or storage.owner)
    return aval.dtype.type if scalar else np.ndarray


def truth_of(x: Any, asked: Callable[[Any], Any]) -> Any:
    """The one object that a traced truth is, by what it is when it is *asked*; *x* where that is none."""
    kind = class_of(x) if type(x) is TracedArray and x._atom.aval.dtype.kind == "b" else None
    return kind(asked(x)) if kind in (bool, np.bool_) else x


def no_attribute(t: TracedArray, name: str) -> AttributeError:
    """The error for an attribute that the class of *t* does not have."""
    kind = class_of(t)
    there = f": np.{name}(x, ...) is a function of NumPy" if callable(getattr(np, name, None)) else ""
    there = _OTHERS.get(name, there)
    shown = kind.__name__ if kind.__module__ == "builtins" else f"numpy.{kind.__name__}"
    return AttributeError(at_site(f"'{shown}' object has no attribute {name!r}{there}"), name=name, obj=t)


_PYTHON_CLASS: dict[str, type] = {"f": float, "i": int, "u": int, "b": bool, "c": complex}


OF_TRACED: set[str] = set()  # names of attributes that traced values have for users, and plain ones have not


def has_attribute(kind: type, name: str) -> bool:
    """Whether traced numbers or arrays, of class *kind* to users, have an attribute."""
    return name in OF_TRACED or any(name in base.__dict__ for base in kind.__mro__)


if _ARRAYS_MATCH:
    TracedArray.__abc_tpflags__ = SEQUENCE  # type: ignore[attr-defined]
    _abc_init(TracedArray)

# ---- crossing between user values and atoms ----------------------------------------------------------------------


def _innermost(recorder: Any) -> Any:
    """The recording that a new array belongs to: within the body of a loop, the body's."""
    current = current_recorder()
    return current if recorder is None or (current is not None and current.parent is not None) else recorder


def wrap(atom: Atom, recorder: Recorder | None = None) -> TracedArray:
    """A fresh traced array (its own buffer) with the value *atom*."""
    recorder = _innermost(recorder)
    if recorder is None:
        raise TracegradError.here(_AFTER)
    return TracedArray(atom, recorder)


def wrap_array(atom: Atom, *, c_order: bool = True) -> TracedArray:
    """As ``wrap``, for results that NumPy gives as an array even when 0-d, and lays out in C order."""
    result = wrap(atom)
    result._storage.array0d = True
    result._storage.c_order = c_order
    return result


def in_c_order(value: Any) -> bool:
    """True where NumPy's array is sure to be C-contiguous.  An atom has no layout: its array may have any."""
    if isinstance(value, TracedArray):
        return value.known_c_order()
    if isinstance(value, Var):
        return value.aval.ndim <= 1
    return not isinstance(value, np.ndarray) or bool(value.flags.c_contiguous)


def made_in_c_order(order: Any, *operands: Any) -> bool:
    """True where a copy, or an elementwise result, of *operands* in *order* is sure to be C-contiguous."""
    return order == "C" or (order != "F" and all(map(in_c_order, operands)))


def wrap_as(atom: Atom, *operands: Any, order: Any = "K") -> TracedArray:
    """As ``wrap``, for a result that lies in memory as its *operands* do, or in *order*."""
    result = wrap(atom)
    if len(atom.aval.shape) > 1:
        result._storage.c_order = made_in_c_order(order, *operands)
    return result


def to_atom(value: Any) -> Atom:
    """*value*, anything that may be mixed with traced arrays, as an atom: Python numbers stay weak, plain arrays become
    inputs or constants."""
    if isinstance(value, TracedArray):
        return value.atom
    kind = type(value)
    if kind is float or kind is int or kind is bool:
        return literal(value)
    if isinstance(value, (Var, Lit)):
        return value
    if isinstance(value, np.ndarray):
        if kind is not np.ndarray and _priority(kind) > 0.0:  # its operators are its own
            raise UnsupportedError.here(f"a {kind.__name__} cannot be used with traced arrays; pass np.asarray(x)")
        return constant(value)
    if isinstance(value, np.generic):
        check_dtype(value.dtype, f"the scalar {value!r}")
        return literal(value)
    if isinstance(value, (list, tuple)):
        return FUNCTIONS[np.array](value).atom if is_traced(value) else constant(np.asarray(value))
    if isinstance(value, (bool, int, float)):
        return literal(float(value) if isinstance(value, float) else int(value))
    if isinstance(value, complex):
        return literal(complex(value))
    if kind in STAND_INS:
        return STAND_INS[kind](value).atom
    if hasattr(value, "__cuda_array_interface__"):
        raise UnsupportedError.here(
            f"a {kind.__name__} on a CUDA device, from outside the function: pass it as an argument"
        )
    if hasattr(kind, "__array__"):
        return constant(np.asarray(value))
    raise UnsupportedError.here(
        f"a {type(value).__name__} cannot be used with traced arrays; convert it to a number or an array of numbers"
    )


def to_atoms(operands: Sequence[Any]) -> list[Atom]:
    """As ``to_atom`` for each of the *operands*; an int that 64 bits do not hold is a float beside floats."""
    try:
        return [to_atom(x) for x in operands]
    except OverflowError:
        if not any(type(x) is TracedArray and x.aval.is_float for x in operands):
            raise
        return [to_atom(float(x) if type(x) is int else x) for x in operands]


def constant(array: np.ndarray) -> Atom:
    """The Var of a plain array: a constant that the function made, or the stand-in of a captured one."""
    recorder = current_recorder()
    if recorder is None:
        raise TracegradError.here(_AFTER)
    stand_in = recorder.captured.get(id(array))
    if stand_in is not None:
        return stand_in.atom
    if check_dtype(array.dtype.newbyteorder("="), "an array used in the function") != array.dtype:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim == 0:
        return literal(array[()])
    if array.dtype.kind == "c":
        re, im = recorder.constants.lanes_of(array)
        return Pair(constant(re), constant(im), array.dtype)
    return recorder.const(array)


def outranks(kind: type) -> bool:
    """Whether *kind* takes precedence over traced arrays in operations (as an eager Tensor does)."""
    return _priority(kind) > TracedArray.__array_priority__


def _priority(kind: type) -> float:
    found = getattr(kind, "__array_priority__", 0.0)  # a descriptor in NumPy's own types
    return found if isinstance(found, (int, float)) else 0.0


def is_traced(value: Any, depth: int = 0) -> bool:
    """True for a traced array, or a list or tuple that holds one."""
    if isinstance(value, (list, tuple)):
        return depth <= MAX_AXES and any(is_traced(v, depth + 1) for v in value)
    return isinstance(value, TracedArray) or type(value) in STAND_INS


def public_name(func: Any) -> str:
    """The name under which the user knows *func*: np.sum, scipy.special.erf."""
    module = getattr(func, "__module__", None) or ("numpy" if isinstance(func, np.ufunc) else "")
    name = getattr(func, "__name__", repr(func))
    if isinstance(func, np.ufunc):
        module = "numpy" if getattr(np, name, None) is func else "scipy.special"
        name = name.lstrip("_")  # of those that a function in Python calls
    return f"{module}.{name}".replace("numpy.", "np.") if module else name


def unsupported(name: str) -> UnsupportedError:
    """The error for a function that has no recorded form, with the nearest alternative."""
    short = name.rsplit(".", 1)[-1]
    hint = (
        HINTS.get(name)
        or HINTS.get(short)
        or "compose it from supported functions (docs/coverage.md lists them), or compute it outside the compiled "
        "function and pass the result in"
    )
    return UnsupportedError.here(f"{name} is not supported on traced arrays: {hint}")
