"""The Python operators of the traced array.

``x + y`` between float arrays of one shape and dtype, or of an array and a Python number, takes a short way to the recorder; everything
else goes through the ufunc, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .array import TracedArray, assign_all, call_ufunc
from .ir import Atom, Lit
from .primitive import PRIMITIVES, Primitive
from .recorder import Recorder

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift, "divmod": np.divmod,
}  # fmt: skip
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_UNARY = {"neg": np.negative, "abs": np.absolute, "invert": np.invert, "pos": np.positive}
_DIRECT = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}


def _acceptable(value: Any) -> bool:
    return isinstance(value, (TracedArray, np.ndarray, np.generic, int, float, list, tuple, complex))


def _forward(ufunc: Any) -> Callable[..., Any]:
    return lambda self, other: call_ufunc(ufunc, (self, other), {}) if _acceptable(other) else NotImplemented


def _direct(ufunc: Any, primitive: Primitive, swapped: bool) -> Callable[..., Any]:
    def apply(self: TracedArray, other: Any) -> Any:
        mine = self._atom.aval
        if mine.dtype.kind == "f" and not mine.weak:
            recorder = self._recorder
            kind = type(other)
            if kind is TracedArray:
                theirs = other._atom.aval
                if theirs.dtype is mine.dtype and theirs.shape == mine.shape and not theirs.weak and other._recorder is recorder:
                    inputs = (other.atom, self.atom) if swapped else (self.atom, other.atom)
                    return _fresh(recorder, recorder.emit(primitive, inputs, {})[0], self, other)
            elif kind is float or kind is int:
                number = Lit(other, mine.dtype)
                return _fresh(recorder, recorder.emit(primitive, (number, self.atom) if swapped else (self.atom, number), {})[0], self, None)
        if not _acceptable(other):
            return NotImplemented
        return call_ufunc(ufunc, (other, self) if swapped else (self, other), {})

    return apply


def _fresh(recorder: Recorder, atom: Atom, x: TracedArray, y: TracedArray | None) -> TracedArray:
    result = TracedArray(atom, recorder)
    if len(atom.aval.shape) > 1:
        result._storage.c_order = x.known_c_order() and (y is None or y.known_c_order())
    return result


def _reflected(ufunc: Any) -> Callable[..., Any]:
    return lambda self, other: call_ufunc(ufunc, (other, self), {}) if _acceptable(other) else NotImplemented


def _in_place(ufunc: Any) -> Callable[..., Any]:
    def apply(self: TracedArray, other: Any) -> Any:
        result = call_ufunc(ufunc, (self, other), {})
        storage = self._storage
        if not self.shape and (self.aval.weak or not (self._steps or storage.array0d or storage.owner)):
            return result  # a Python or NumPy scalar: += makes a new one
        return assign_all(self, result)

    return apply


def _install() -> None:
    for name, ufunc in _BINARY.items():
        direct = PRIMITIVES[_DIRECT[name]] if name in _DIRECT else None
        setattr(TracedArray, f"__{name}__", _direct(ufunc, direct, False) if direct else _forward(ufunc))
        setattr(TracedArray, f"__r{name}__", _direct(ufunc, direct, True) if direct else _reflected(ufunc))
        if name != "divmod":
            setattr(TracedArray, f"__i{name}__", _in_place(ufunc))
    for name, ufunc in _COMPARE.items():
        setattr(TracedArray, f"__{name}__", _forward(ufunc))
    for name, ufunc in _UNARY.items():
        setattr(TracedArray, f"__{name}__", lambda self, ufunc=ufunc: call_ufunc(ufunc, (self,), {}))
    TracedArray.__hash__ = None  # type: ignore[assignment]


_install()
