"""The traced array: what the user's function sees in place of its array arguments.

``TracedArray`` answers NumPy: operators, ``__array_ufunc__``, ``__array_function__``, methods, indexing, iteration.  Three ideas:

* a *storage* holds the newest value of a buffer (an IR atom).  In-place writes replace the atom: the graph stays functional;
* a *view* is a storage and a chain of steps (slice, reshape, transpose), each of which can be applied and undone, so a
  write through a view reaches its base and every other view of it, as in NumPy;
* asking for a Python value (``if t > 0``) computes it and leaves a guard.

The functions behind ``np.sum`` and its relatives are in ``npapi.py`` and its siblings; they register themselves in the tables here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .aval import Aval, check_dtype
from .errors import MutationError, TracegradError, UnsupportedError
from .ir import Atom, Lit, Var, literal
from .ops.elementwise import F, broadcast_to, cast
from .ops.shape import RESHAPE, TRANSPOSE, UPDATE, bind, reshape, take_slice, transpose
from .recorder import Recorder, current_recorder
from .site import at_site

UFUNCS: dict[Any, Callable[..., Any]] = {}      # np.ufunc -> function of atoms and scalars
UFUNC_METHODS: dict[tuple[Any, str], Callable[..., Any]] = {}  # (np.add, "reduce") -> function of the traced arguments
FUNCTIONS: dict[Any, Callable[..., Any]] = {}   # NumPy function -> function of the user's arguments
METHODS: dict[str, Callable[..., Any]] = {}     # array method -> function(self, *args, **kwargs)
HINTS: dict[str, str] = {}                      # unsupported name -> what to use instead


class Storage:
    """A buffer's newest value.  ``owner`` names a buffer that the caller can see, which must not be written."""

    __slots__ = ("atom", "owner", "version")

    def __init__(self, atom: Atom, owner: str | None = None):
        self.atom = atom
        self.owner = owner
        self.version = 0


class SliceStep:
    """Basic indexing: a strided slice, then a reshape that drops integer axes and inserts new ones."""

    __slots__ = ("inner", "shape", "start", "step")

    def __init__(self, start: tuple[int, ...], step: tuple[int, ...], inner: tuple[int, ...], shape: tuple[int, ...]):
        self.start, self.step, self.inner, self.shape = start, step, inner, shape

    def apply(self, x: Atom) -> Atom:
        return reshape(take_slice(x, self.start, self.step, self.inner), self.shape)

    def put(self, x: Atom, v: Atom) -> Atom:
        return bind(UPDATE, broadcast_to(x, x.aval.shape), broadcast_to(reshape(v, self.inner), self.inner), start=self.start, step=self.step)

    def contiguous(self, before: tuple[int, ...]) -> bool:
        """The selected elements lie in one run: whole trailing axes, step 1, after leading single elements."""
        free = [a for a, n in enumerate(self.inner) if n != 1]
        first = free[0] if free else len(before)
        return all(s == 1 or n == 1 for s, n in zip(self.step, self.inner, strict=True)) and self.inner[first + 1 :] == before[first + 1 :]


class ReshapeStep:
    __slots__ = ("before", "shape")

    def __init__(self, before: tuple[int, ...], shape: tuple[int, ...]):
        self.before, self.shape = before, shape

    def apply(self, x: Atom) -> Atom:
        return bind(RESHAPE, x, shape=self.shape)

    def put(self, x: Atom, v: Atom) -> Atom:
        return reshape(v, self.before)

    def contiguous(self, before: tuple[int, ...]) -> bool:
        return True


class TransposeStep:
    __slots__ = ("perm",)

    def __init__(self, perm: tuple[int, ...]):
        self.perm = perm

    def apply(self, x: Atom) -> Atom:
        return bind(TRANSPOSE, x, perm=self.perm)

    def put(self, x: Atom, v: Atom) -> Atom:
        return transpose(v, tuple(int(p) for p in np.argsort(self.perm)))

    def contiguous(self, before: tuple[int, ...]) -> bool:
        moved = [p for p in self.perm if before[p] != 1]
        return moved == sorted(moved)


Step = SliceStep | ReshapeStep | TransposeStep


class TracedArray:
    """Stands for an array while a function is recorded."""

    __slots__ = ("_atom", "_recorder", "_steps", "_storage", "_uncertain", "_version")
    __array_priority__ = 1000.0

    def __init__(self, atom: Atom, recorder: Recorder, *, owner: str | None = None):
        self._recorder = recorder
        self._storage = Storage(atom, owner)
        self._steps: tuple[tuple[Step, tuple[int, ...]], ...] = ()
        self._atom: Atom = atom
        self._version = 0
        self._uncertain = False  # NumPy may have made a view here or a copy: writing is refused

    # ---- reading and writing the storage -----------------------------------------------------------------------

    @property
    def atom(self) -> Atom:
        """The current value as an IR atom."""
        if not self._recorder.active:
            raise TracegradError(
                at_site("a traced array was used after its function had returned; return it from the function, and do not keep it in a global or an attribute")
            )
        storage = self._storage
        if self._version != storage.version:
            atom = storage.atom
            for step, _ in self._steps:
                atom = step.apply(atom)
            self._atom, self._version = atom, storage.version
        return self._atom

    def _write(self, value: Atom) -> None:
        """Replace the contents by *value* (of this shape and dtype); every view of the buffer sees it."""
        storage = self._storage
        if storage.owner is not None:
            raise MutationError(
                at_site(f"this writes into {storage.owner}, which belongs to the caller; write into a copy: x = x.copy(), or use x = x + ... instead of x += ...")
            )
        if self._uncertain:
            raise MutationError(at_site("this writes through a reshape of a non-contiguous array, which may be a copy in NumPy; write into the original, or reshape a .copy()"))
        atoms = [storage.atom]
        for step, _ in self._steps[:-1]:
            atoms.append(step.apply(atoms[-1]))
        for (step, _), parent in zip(reversed(self._steps), reversed(atoms), strict=True):
            value = step.put(parent, value)
        storage.atom = value
        storage.version += 1

    def _view(self, step: Step) -> TracedArray:
        view = TracedArray.__new__(TracedArray)
        view._recorder = self._recorder
        view._storage = self._storage
        view._steps = (*self._steps, (step, self.shape))
        view._atom = step.apply(self.atom)
        view._version = self._storage.version
        view._uncertain = self._uncertain
        return view

    def _contiguous(self) -> bool:
        return all(step.contiguous(before) for step, before in self._steps)

    def view_reshape(self, shape: tuple[int, ...]) -> TracedArray:
        """reshape, a view where NumPy is sure to make one."""
        if shape == self.shape:
            return self._view(ReshapeStep(shape, shape))
        result = self._view(ReshapeStep(self.shape, shape))
        if not self._contiguous():
            result._uncertain = True
        return result

    def view_transpose(self, perm: tuple[int, ...]) -> TracedArray:
        return self._view(TransposeStep(perm))

    # ---- what NumPy code asks of an array ----------------------------------------------------------------------

    @property
    def aval(self) -> Aval:
        return self._atom.aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self._atom.aval.shape

    @property
    def dtype(self) -> np.dtype:
        return self._atom.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self._atom.aval.shape)

    @property
    def size(self) -> int:
        return self._atom.aval.size

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def T(self) -> TracedArray:
        return self.view_transpose(tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> TracedArray:
        return self.view_transpose((*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    @property
    def real(self) -> TracedArray:
        return self

    @property
    def flat(self) -> Iterator[Any]:
        return iter(self.view_reshape((self.size,)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        return f"<traced {self.aval}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    __hash__ = None  # type: ignore[assignment]

    # ---- values: each one that Python sees is a guard ----------------------------------------------------------

    def _concrete(self, kind: str) -> Any:
        if self.size != 1:
            if kind == "bool":
                raise ValueError(at_site("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"))
            raise TypeError(at_site("only length-1 arrays can be converted to Python scalars"))
        return self._recorder.guard(reshape(self.atom, ()), kind)

    def __bool__(self) -> bool:
        return bool(self._concrete("bool"))

    def __int__(self) -> int:
        return int(self._concrete("int"))

    def __float__(self) -> float:
        return float(self._concrete("float"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.size != 1 or self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self._concrete("index"))

    def __complex__(self) -> complex:
        return complex(self._concrete("float"))

    def __round__(self, ndigits: int | None = None) -> Any:
        return round(float(self), ndigits) if ndigits is not None else round(float(self))

    def item(self, *index: Any) -> Any:
        """The value as a Python number; as with float(), what it was becomes a guard."""
        value = (self[index[0] if len(index) == 1 else index] if index else self)._concrete("item")
        return value.item()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise UnsupportedError(
            at_site(
                "a traced array was handed to code that needs a plain NumPy array (np.asarray, a C extension, item assignment into a plain array); "
                "use NumPy or scipy.special functions on it directly, and make arrays that you assign into with np.zeros_like(x) or tracegrad.zeros(n)"
            )
        )

    # ---- NumPy's protocols -------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if out is not None and not any(isinstance(o, TracedArray) for o in out):
            raise MutationError(
                at_site(f"np.{ufunc.__name__} would write a traced value into a plain NumPy array; make that array with np.zeros_like(x) or tracegrad.zeros(n)")
            )
        if method == "__call__":
            result = _call_ufunc(ufunc, inputs, kwargs)
        else:
            handler = UFUNC_METHODS.get((ufunc, method))
            if handler is None:
                raise unsupported(f"{_public_name(ufunc)}.{method}")
            result = handler(*inputs, **kwargs)
        if out is not None:
            return assign_all(out[0], result)
        return result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = FUNCTIONS.get(func)
        if handler is None:
            raise unsupported(_public_name(func))
        return handler(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        method = METHODS.get(name)
        if method is not None:
            return method.__get__(self)
        if name.startswith("__"):
            raise AttributeError(name)
        if hasattr(np.ndarray, name):
            raise unsupported(f"ndarray.{name}")
        raise AttributeError(f"a traced array has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("shape", "dtype", "strides", "flat"):
            raise MutationError(at_site(f"assigning .{name} of a traced array is not supported; use .reshape() or .astype()"))
        object.__setattr__(self, name, value)

    # indexing is defined in indexing_api.py, which needs the tables above
    def __getitem__(self, index: Any) -> Any:
        return METHODS["__getitem__"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        METHODS["__setitem__"](self, index, value)

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())


# ---- crossing between user values and atoms ----------------------------------------------------------------------


def wrap(atom: Atom, recorder: Recorder | None = None) -> TracedArray:
    """A fresh traced array (its own buffer) with the value *atom*."""
    recorder = recorder or current_recorder()
    assert recorder is not None
    return TracedArray(atom, recorder)


def to_atom(value: Any) -> Atom:
    """Whatever a user may mix with traced arrays, as an atom: scalars stay weak, plain arrays become inputs or constants."""
    if isinstance(value, TracedArray):
        return value.atom
    if isinstance(value, (Var, Lit)):
        return value
    kind = type(value)
    if kind in (float, int, bool):
        return literal(value)
    recorder = current_recorder()
    if isinstance(value, np.ndarray):
        assert recorder is not None
        stand_in = recorder.captured.get(id(value))
        return recorder.const(value) if stand_in is None else stand_in.atom
    if isinstance(value, np.generic):
        check_dtype(value.dtype, f"the scalar {value!r}")
        return literal(value)
    if isinstance(value, (list, tuple)):
        return FUNCTIONS[np.array](value).atom if _holds_traced(value) else recorder_const(np.asarray(value))
    if isinstance(value, (bool, int, float)):
        return literal(float(value) if isinstance(value, float) else int(value))
    if isinstance(value, complex):
        raise UnsupportedError(at_site("complex numbers are not supported; carry real and imaginary parts as two arrays"))
    raise UnsupportedError(at_site(f"a {type(value).__name__} cannot be used with traced arrays; convert it to a number or an array of numbers"))


def recorder_const(array: np.ndarray) -> Atom:
    recorder = current_recorder()
    assert recorder is not None
    if array.dtype == object:
        check_dtype(array.dtype, "an array used in the function")
    return recorder.const(array)


def _holds_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_traced(v) for v in value)
    return isinstance(value, TracedArray)


def is_traced(value: Any) -> bool:
    """True for a traced array, or a list or tuple that holds one."""
    return _holds_traced(value)


def assign_all(target: Any, value: Any) -> Any:
    """Write *value* into the whole of *target*, with NumPy's broadcasting and casting for assignment."""
    if not isinstance(target, TracedArray):
        raise MutationError(at_site("out= must be a traced array here; make it with np.zeros_like(x) or tracegrad.zeros(n)"))
    atom = cast(to_atom(value), target.dtype)
    target._write(broadcast_to(atom, target.shape))
    return target


# ---- ufunc calls -------------------------------------------------------------------------------------------------


def _call_ufunc(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    handler = UFUNCS.get(ufunc)
    if handler is None:
        raise unsupported(_public_name(ufunc))
    dtype = kwargs.pop("dtype", None)
    where = kwargs.pop("where", True)
    for name in ("casting", "order", "subok"):
        kwargs.pop(name, None)
    if kwargs or where is not True:
        extra = ", ".join([*kwargs, *([] if where is True else ["where"])])
        raise UnsupportedError(at_site(f"{_public_name(ufunc)} with {extra}= is not supported; use np.where on the result"))
    atoms = [to_atom(x) for x in inputs]
    if dtype is not None:
        atoms = [cast(a, np.dtype(dtype)) for a in atoms]
    result = handler(*atoms)
    return tuple(wrap(r) for r in result) if isinstance(result, tuple) else wrap(result)


def _public_name(func: Any) -> str:
    module = getattr(func, "__module__", None) or ("numpy" if isinstance(func, np.ufunc) else "")
    name = getattr(func, "__name__", repr(func))
    if isinstance(func, np.ufunc):
        module = "numpy" if getattr(np, name, None) is func else "scipy.special"
    return f"{module}.{name}".replace("numpy.", "np.") if module else name


def unsupported(name: str) -> UnsupportedError:
    short = name.rsplit(".", 1)[-1]
    hint = HINTS.get(name) or HINTS.get(short) or "compose it from supported functions (README lists them), or compute it outside the compiled function and pass the result in"
    return UnsupportedError(at_site(f"{name} is not supported on traced arrays: {hint}"))


# ---- operators ---------------------------------------------------------------------------------------------------

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_UNARY = {"neg": np.negative, "abs": np.absolute, "invert": np.invert}


def _acceptable(value: Any) -> bool:
    return isinstance(value, (TracedArray, np.ndarray, np.generic, int, float, list, tuple, complex))


def _install_operators() -> None:
    def forward(ufunc: Any) -> Callable[..., Any]:
        return lambda self, other: _call_ufunc(ufunc, (self, other), {}) if _acceptable(other) else NotImplemented

    def reflected(ufunc: Any) -> Callable[..., Any]:
        return lambda self, other: _call_ufunc(ufunc, (other, self), {}) if _acceptable(other) else NotImplemented

    def in_place(ufunc: Any) -> Callable[..., Any]:
        def apply(self: TracedArray, other: Any) -> Any:
            result = _call_ufunc(ufunc, (self, other), {})
            if not self.shape and self._storage.owner is None:
                return result  # NumPy's 0-d results are scalars: += makes a new one
            if not self.shape and self.aval.weak:
                return result  # a Python float argument
            if not np.can_cast(result.dtype, self.dtype, "same_kind"):
                raise UnsupportedError(at_site(f"cannot cast {result.dtype} to {self.dtype} in place; write x = x + ... to change the dtype"))
            return assign_all(self, result)

        return apply

    for name, ufunc in _BINARY.items():
        setattr(TracedArray, f"__{name}__", forward(ufunc))
        setattr(TracedArray, f"__r{name}__", reflected(ufunc))
        setattr(TracedArray, f"__i{name}__", in_place(ufunc))
    for name, ufunc in _COMPARE.items():
        setattr(TracedArray, f"__{name}__", forward(ufunc))
    for name, ufunc in _UNARY.items():
        setattr(TracedArray, f"__{name}__", lambda self, ufunc=ufunc: _call_ufunc(ufunc, (self,), {}))
    TracedArray.__pos__ = lambda self: wrap(self.atom)  # type: ignore[attr-defined]
    TracedArray.__hash__ = None  # type: ignore[assignment]


_install_operators()

__all__ = ["FUNCTIONS", "HINTS", "METHODS", "UFUNCS", "UFUNC_METHODS", "F", "TracedArray", "assign_all", "is_traced", "to_atom", "unsupported", "wrap"]
