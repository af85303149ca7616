"""Ints that are numbers of the run: what Python computes with them is recorded, what it asks is answered.

A ``TracedInt`` stands for an int, an argument or one of the outside state, while a function is recorded.  A kernel
holds it as a float64, in which ints up to 2**53 are exact: bounds are known while recording, so what could leave them
is not recorded.  With floats and float arrays it is the Python float of its value; what is returned, stored or printed
of it is an int again (``array``).  Comparisons and truth are questions, as those of traced floats.

An element of an integer array is such an int, too (``correct += (guess == y).sum().item()``): its bounds are known
from what it is made of, or are a guard, and where its value is asked for, that is a guard.

Everything else that Python may do with an int (an index, a length, a text that it reads, a key, an operand of integer
arrays) *asks for the value*: it gets the plain int, and ``Integers.asked`` notes the line.  The dispatcher drops such a
recording and makes another in which that int is compared by value.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from threading import get_ident
from types import FrameType
from typing import Any

import numpy as np

from ..ir.aval import FLOAT, FLOAT32, INT
from ..ir.errors import TracegradError
from ..ir.graph import Atom, Lit, Node, Var, literal
from ..ir.own_attributes import in_class
from ..ir.primitive import LOOP
from ..ir.site import Site, user_site
from ..ops.elementwise import F, cast
from ..ops.shape import reshape
from .array import UFUNCS, TracedArray, shown_to, wrap
from .recorder import Recorder, current_recorder
from .retry import Options, Retry
from .shown_text import Shown, shows_text

Place = int | str  # of an int: the number of a leaf, the label of a part of the outside state
LIMITS = (2**16, 2**31)  # of the magnitudes of inputs
_EXACT = 2**53
_MOST_FACTORS = 64  # of a power that is recorded
_SMALL = (2, 3, 1, 0, -1)  # exponents of arrays that have kernels of their own
_PLAIN_INTS = (int, bool)
_EXACT_DTYPES = (FLOAT, FLOAT32)
_FEW = 32  # values of an int, for each of which there is a path
ITEMS = "an item of an array"  # the place of ints that are elements of arrays
_RECENT = 16  # nodes among which the one that made an element is looked for
_SAME = frozenset(("reshape", "stop_gradient"))


def limit_of(value: int) -> int:
    """The bound of the magnitude of *value* that a recording relies on; 0 where there is none."""
    return next((limit for limit in LIMITS if -limit <= value <= limit), 0)


def by_value(asked: Mapping[Place, Site | None], names: Sequence[str] = ()) -> Options:
    """Ints that can't be numbers of the run: those that are *asked* for (a leaf by its number, one of the outside state
    by its label), or all arguments.  *names*: of the leaves."""
    note = "ints that vary are compared by value: another program, or an error, came of them as numbers"
    if asked:
        told = {names[k] if type(k) is int else k: site for k, site in asked.items()}
        parts = [
            f"the value of `{k}` is asked for at {v}" if v else f"`{k}` is compared by value" for k, v in told.items()
        ]
        note = "; ".join(parts)
    outside = frozenset(place for place in asked if type(place) is str)
    arguments = {place: site for place, site in asked.items() if type(place) is int}
    return Options(note, contents=outside, ints=arguments if arguments or not outside else None)


class Integers:
    """The ints of one recording that are numbers of the run.

    ``places``: theirs.  ``names``: of the leaves of the call.  ``asked``: those whose values were asked for, with the
    user's line.  ``made``: what was computed from them.  ``has_items``: whether some are elements of arrays."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.places: list[Place] = []
        self.names: Sequence[str] = ()
        self.asked: dict[Place, Site | None] = {}
        self.made: list[Var] = []
        self.has_items = False

    def stand_in(self, var: Var, value: int, place: Place) -> TracedInt:
        """The stand-in of an int that is the input *var*, a float."""
        limit = limit_of(value)
        self.places.append(place)
        self.recorder.integers.add(var)
        return TracedInt(self, var, -limit, limit, frozenset((place,)), False)

    def element(self, atom: Atom) -> TracedInt | None:
        """The int that an element of an integer array is; None where a float64 may not hold it."""
        atom = reshape(atom, ())
        made, bounds = cast(atom, FLOAT, weak=True), _bounds(self.recorder.nodes, atom)
        if bounds is None:
            limit = limit_of(int(self.recorder.value(atom)))
            if not limit:
                return None
            bounds = -limit, limit
            self.recorder.guard(F.logical_and(F.ge(made, _float(-limit)), F.le(made, _float(limit))), "bool")
        if isinstance(made, Var):
            self.made.append(made)
        self.has_items = True
        return TracedInt(self, made, *bounds, frozenset((ITEMS,)), False)

    def refuse(self) -> None:
        """Have the recording dropped if a value was asked for."""
        if self.asked:
            raise Retry(by_value(self.asked, self.names))

    def raised(self) -> None:
        """Have elements of arrays compared by value where the run has raised an exception: C code may want ints."""
        if self.has_items:
            self.ask([ITEMS])
            self.refuse()

    def ask(self, places: Iterable[Place]) -> None:
        """Have them compared by value."""
        self.asked |= {place: None for place in places if place not in self.asked}

    def rolled(self, program: Recorder) -> None:
        """Ask for all values where a computation has become part of a loop of *program* that ends by data: its turns
        may be more than were recorded, and bounds are known of those alone."""
        nodes = program.nodes
        if self.made and any(map(_stops, nodes)) and not set(self.made) <= {out for node in nodes for out in node.outs}:
            self.ask([*self.places, *[ITEMS] * self.has_items])
            self.refuse()


def _bounds(nodes: Sequence[Node], atom: Atom) -> tuple[int, int] | None:
    """Bounds of an integer that is a count or a position, from the last of the *nodes*."""
    count = 1
    for node in reversed(nodes[-_RECENT:]):
        if node.outs[0] is not atom:
            continue
        atom, name = node.inputs[0], node.prim.name
        if name == "reduce_sum":
            count *= atom.aval.size // max(1, node.outs[0].aval.size)
        elif name == "cast" and atom.aval.dtype.kind == "b":
            return 0, count
        elif name in ("argmax", "argmin"):
            return 0, count * atom.aval.size
        elif name not in _SAME:
            return None
    return None


def _stops(node: Node) -> bool:
    """Whether there is a loop that ends by data in *node*."""
    body = node.params.get("body") if node.prim.kind == LOOP else None
    return body is not None and (bool(node.params.get("stops")) or any(map(_stops, body.nodes)))


def recorded(value: Any) -> Any:
    """*value*, or a list of it with traced numbers for those ints of the recording that it is or holds; a plain array
    would ask for them."""
    if type(value) is TracedInt:
        return value.array()
    if isinstance(value, (list, tuple)) and not _PLAIN_NUMBERS.issuperset(map(type, value)):
        parts = [recorded(v) for v in value]
        return parts if any(a is not b for a, b in zip(parts, value, strict=True)) else value
    return value


class TracedInt:
    """An int between *low* and *high*, computed from the ints at *places*.  ``_signed``: its zero may be -0.0 in
    ``atom``."""

    __slots__ = ("_array", "_high", "_home", "_low", "_places", "_signed", "atom")
    __array_priority__ = 2000.0

    def __init__(self, home: Integers, atom: Atom, low: int, high: int, places: frozenset[Place], signed: bool) -> None:
        self._home, self.atom, self._low, self._high = home, atom, low, high
        self._places, self._signed = places, signed
        self._array: TracedArray | None = None

    @property
    def recorder(self) -> Recorder:
        return self._home.recorder

    # ---- its value ---------------------------------------------------------------------------------------------

    def asked(self) -> int:
        """The plain int, which the recording then depends on: by a guard, where one of the outside state has few."""
        self._check()
        if ITEMS in self._places:
            return int(self.recorder.guard(self.atom, "int"))
        few = self._high - self._low < _FEW and not any(type(place) is int for place in self._places)
        if few and current_recorder() is self.recorder:
            return int(self.recorder.guard(self.array().atom, "int"))
        return self._by_value()

    def _by_value(self) -> int:
        """The plain int, which the recording is dropped for."""
        for place in self._places:
            self._home.asked.setdefault(place, user_site())
        return self.plain()

    def plain(self) -> int:
        """The value in this run, to be kept outside the recording."""
        return int(self.recorder.value(self.atom))

    def array(self) -> TracedArray:
        """This as a traced number, a Python int: what a run returns, stores or shows."""
        recorder = self.recorder
        if current_recorder() is not recorder:
            return wrap(Lit(self.asked(), INT, weak=True))
        if self._array is None:
            self._check()
            if isinstance(self.atom, Var):
                recorder.loops.int_ranges[self.atom] = self._low, self._high  # as the integer's
            self._array = wrap(cast(self.atom, INT, weak=True), recorder)
        return self._array

    def number(self) -> TracedArray:
        """The Python float of this value."""
        self._check()
        if self._signed and self._low <= 0 <= self._high:
            return wrap(F.select(F.eq(self.atom, _float(0)), _float(0), self.atom))
        return TracedArray(self.atom, self.recorder)

    _tracegrad_number = number

    def _check(self) -> None:
        recorder = self.recorder
        if not recorder.active:
            raise TracegradError.here(
                "an int of a compiled function was kept, and used after the function had returned"
            )
        if recorder.thread != get_ident():
            raise recorder.in_another_thread()

    def _holds(self, condition: Atom) -> bool:
        """The answer to a question about this value."""
        if isinstance(condition, Lit):
            return bool(condition.value)
        self._check()
        return bool(self.recorder.guard(condition, "bool"))

    def _equals(self, value: int) -> bool:
        if current_recorder() is not self.recorder:
            return self.asked() == value
        return self._low <= value <= self._high and self._holds(F.eq(self.atom, _float(value)))

    def __bool__(self) -> bool:
        return not self._equals(0)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the value that it stands for, for ``isinstance``."""
        return int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.asked(), name)

    def __index__(self) -> int:
        return self.asked()

    __int__ = __trunc__ = __index__

    def __hash__(self) -> int:
        self.recorder.keep_as_key()
        return hash(self.asked())

    def __float__(self) -> float:
        return float(self.asked())

    def __complex__(self) -> complex:
        return complex(self.asked())

    def __round__(self, ndigits: Any = None) -> Any:
        return self if ndigits is None else round(self.asked(), ndigits)

    def __floor__(self) -> TracedInt:
        return self

    __ceil__ = __pos__ = __copy__ = __floor__

    def __deepcopy__(self, memo: Any) -> TracedInt:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (int, (self.asked(),))

    def _text(self, frame: FrameType, how: str, spec: str = "") -> str:
        recorder = self.recorder
        if current_recorder() is recorder and (texts := shown_to(recorder, frame)) is not None:
            return texts.mark(self.array(), how, spec)
        return Shown(None, how, spec).write(self.asked())

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.asked(), dtype)

    def __dir__(self) -> Any:
        return dir(int)

    # ---- arithmetic of ints ------------------------------------------------------------------------------------

    def _with(self, other: Any) -> TracedInt | None:
        """*other* as an int of this recording; None where it is none, or nothing can be recorded here."""
        if current_recorder() is not self.recorder:
            return None
        if type(other) is TracedInt:
            return other if other._home is self._home else None
        if type(other) in _PLAIN_INTS and abs(other) < _EXACT:
            return TracedInt(self._home, _float(int(other)), int(other), int(other), frozenset(), False)
        return None

    def _made(self, ufunc: Any, others: tuple[TracedInt, ...], bounds: tuple[int, ...], signed: bool) -> Any:
        """The result of *ufunc* between *bounds*; None where a float64 may not hold it."""
        if max(map(abs, bounds)) >= _EXACT:
            return None
        self._check()
        return self._of(UFUNCS[ufunc](*[x.atom for x in others]), others, bounds, signed)

    def _of(self, atom: Atom, others: tuple[TracedInt, ...], bounds: tuple[int, ...], signed: bool) -> TracedInt:
        if isinstance(atom, Var):
            self._home.made.append(atom)
        places = frozenset[Place]().union(*[x._places for x in others])
        return TracedInt(self._home, atom, min(bounds), max(bounds), places, signed)

    def _compute(self, name: str, x: TracedInt, y: TracedInt) -> Any:
        """``x name y``; None where it has to be computed by Python."""
        a, b, most = (x._low, x._high), (y._low, y._high), max(abs(y._low), abs(y._high))
        signed = x._signed or y._signed
        if name == "add":
            return self._made(np.add, (x, y), (a[0] + b[0], a[1] + b[1]), signed)
        if name == "sub":
            return self._made(np.subtract, (x, y), (a[0] - b[1], a[1] - b[0]), signed)
        if name == "mul":
            return self._made(np.multiply, (x, y), tuple([p * q for p in a for q in b]), True)
        if name == "pow":
            return self._power(x, y)
        if name in _BITS:
            return self._bits(name, x, y)
        if name not in ("floordiv", "mod", "divmod", "truediv") or y._equals(0):
            return None
        if name == "truediv":
            return operator.truediv(x.number(), y.number())
        reach = max(abs(a[0]), abs(a[1]))
        quotient = self._made(np.floor_divide, (x, y), (-reach, reach), True)
        rest = self._made(np.remainder, (x, y), (1 - most if b[0] < 0 else 0, most - 1 if b[1] > 0 else 0), True)
        return {"floordiv": quotient, "mod": rest, "divmod": (quotient, rest)}[name]

    def _power(self, x: TracedInt, y: TracedInt) -> Any:
        exponent = y._low
        if y._places or not 0 <= exponent <= _MOST_FACTORS:
            return None
        result: Any = 1
        for _ in range(exponent):
            result = x if type(result) is int else self._compute("mul", result, x)
            if result is None:
                return None
        return result

    def _bits(self, name: str, x: TracedInt, y: TracedInt) -> Any:
        if name in ("lshift", "rshift"):
            factor = None if y._places or not 0 <= y._low <= _MOST_FACTORS else self._with(1 << y._low)
            return None if factor is None else self._compute("mul" if name == "lshift" else "floordiv", x, factor)
        most = 1 << max(abs(k) for k in (x._low, x._high, y._low, y._high)).bit_length()
        bounds = (0 if min(x._low, y._low) >= 0 else -most, most - 1)
        if most >= _EXACT:
            return None
        self._check()
        made = UFUNCS[_BITS[name]](x.array().atom, y.array().atom)
        return self._of(cast(made, FLOAT, weak=True), (x, y), bounds, False)

    def __neg__(self) -> Any:
        return self._operate("sub", 0, True)

    def __invert__(self) -> Any:
        return self._operate("sub", -1, True)

    def __pow__(self, other: Any, *modulus: Any) -> Any:
        if modulus:
            return pow(self.asked(), _plain(other), *map(_plain, modulus))
        return self._operate("pow", other, False)

    def __rpow__(self, other: Any) -> Any:
        return self._operate("pow", other, True)

    def __abs__(self) -> Any:
        if current_recorder() is not self.recorder:
            return abs(self.asked())
        return self._made(np.absolute, (self,), (0, max(abs(self._low), abs(self._high))), False)

    # ---- other operands ----------------------------------------------------------------------------------------

    def _partner(self, other: Any) -> bool:
        """Whether *other* computes with this as with a Python float."""
        kind = type(other)
        if kind is float or kind is np.float64 or kind is np.float32:
            return True
        if kind is TracedArray:
            return other.aval.dtype in _EXACT_DTYPES
        return issubclass(kind, np.ndarray) and other.dtype in _EXACT_DTYPES

    def _operate(self, name: str, other: Any, reflected: bool) -> Any:
        y, operation = self._with(other), divmod if name == "divmod" else getattr(operator, f"__{name}__")
        if y is not None:
            found = self._compute(name, *((y, self) if reflected else (self, y)))
            if found is not None:
                return found
        elif name in _OF_FLOATS and self._partner(other):
            if name == "pow" and reflected and isinstance(other, (TracedArray, np.ndarray)):
                return operation(other, self._exponent())
            return operation(other, self.number()) if reflected else operation(self.number(), other)
        elif in_class(type(other), "_tracegrad_traced"):  # a tensor, which knows what an int is for it
            return NotImplemented
        plain = other.asked() if type(other) is TracedInt else other
        return operation(plain, self.asked()) if reflected else operation(self.asked(), plain)

    def _exponent(self) -> Any:
        """This as the exponent of an array: a small one as it is."""
        low, high = min(_SMALL), max(_SMALL)
        if current_recorder() is self.recorder and self._holds(
            F.logical_and(F.ge(self.atom, _float(low)), F.le(self.atom, _float(high)))
        ):
            return next(k for k in _SMALL if self._equals(k))
        return self.number()

    def _compare(self, name: str, other: Any) -> Any:
        ufunc, operation = _COMPARISONS[name], getattr(operator, name)
        if in_class(type(other), "_tracegrad_traced"):
            return NotImplemented
        if type(other) is TracedArray and self._partner(other):
            return operation(self.number(), other)
        y = self._with(other)
        if y is not None:
            return self._holds(UFUNCS[ufunc](self.atom, y.atom))
        if type(other) is float and current_recorder() is self.recorder:
            return self._holds(UFUNCS[ufunc](self.atom, literal(other)))
        if self._partner(other):
            return operation(self.number(), other)
        if not isinstance(other, (int, float, complex, np.generic, np.ndarray, TracedArray)) and not _is_number(other):
            return NotImplemented
        return operation(self.asked(), other.asked() if type(other) is TracedInt else other)

    # ---- NumPy -------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and current_recorder() is not None:
            others = [x for x in inputs if type(x) is not TracedInt]
            if len(inputs) == 1 and ufunc in _TO_FLOAT:
                return ufunc(wrap(cast(self.number().atom, FLOAT)))
            if ufunc in _BINARY and others and self._partner(others[0]):
                if ufunc is np.power and inputs[1] is self:
                    return ufunc(inputs[0], self._exponent())
                return ufunc(*[x.number() if x is self else x for x in inputs])
        given = {name: _plain(value) for name, value in kwargs.items()}
        return getattr(ufunc, method)(*[_plain(x) for x in inputs], **given)


def _plain(value: Any) -> Any:
    if type(value) is TracedInt:
        return value.asked()
    return type(value)([_plain(v) for v in value]) if type(value) in (list, tuple) else value


def _float(value: int) -> Lit:
    return literal(float(value))


def _is_number(value: Any) -> bool:
    return hasattr(type(value), "__float__") or hasattr(type(value), "__index__")


def operators(kind: Any, names: Iterable[str], comparisons: Iterable[str]) -> None:
    """Let objects of the class *kind* answer these operators by ``_operate(name, other, reflected)``, and these by
    ``_compare(name, other)``."""
    for name in names:
        setattr(kind, f"__{name}__", lambda self, other, *, name=name: self._operate(name, other, False))
        setattr(kind, f"__r{name}__", lambda self, other, *, name=name: self._operate(name, other, True))
    for name in comparisons:
        setattr(kind, f"__{name}__", lambda self, other, *, name=name: self._compare(name, other))


_PLAIN_NUMBERS = {int, float, bool}
_COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": None, "rshift": None}
_OF_FLOATS = frozenset(("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod"))
_BINARY = frozenset((
    np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.power, np.maximum, np.minimum,
    *_COMPARISONS.values(),
))  # fmt: skip
_TO_FLOAT = frozenset((
    np.sqrt, np.cbrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sin, np.cos, np.tan, np.tanh,
    np.sinh, np.cosh, np.arctan, np.arcsin, np.arccos, np.arcsinh, np.deg2rad, np.rad2deg, np.radians, np.degrees,
))  # fmt: skip
shows_text(TracedInt)
operators(TracedInt, "add sub mul truediv floordiv mod divmod and or xor lshift rshift matmul".split(), _COMPARISONS)
