"""Registration of NumPy functions, and conversion of their arguments."""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..ops.elementwise import cast, cast_with_warning, promote
from ..ops.shape import reshape
from ..record.array import FUNCTIONS, METHODS, UFUNCS, TracedArray, to_atom
from ..record.autocast import widened
from ..record.made_arrays import assign_all


def implements(*functions: Any, method: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the implementation of *functions* (and of the array method)."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = implementation
        if method is not None:
            METHODS[method] = implementation
        return implementation

    return register


def handler_of(ufunc: Any) -> Callable[..., Any] | None:
    """The function of atoms that *ufunc* is. Those of scipy.special are known once one of them is asked for."""
    found = UFUNCS.get(ufunc)
    if found is None and "scipy.special" in sys.modules:
        importlib.import_module(".special_ufuncs", __package__)
        found = UFUNCS.get(ufunc)
    return found


def atom_of(value: Any) -> Atom:
    """*value* as NumPy's np.asarray would see it: Python scalars have a dtype of their own."""
    atom = to_atom(value)
    return cast(atom, atom.aval.dtype) if atom.aval.weak else atom


def float_atom(value: Any, dtype: Any = None) -> Atom:
    """*value* as a float atom: integers and bools become float64, within autocast half precision float32."""
    atom = widened(atom_of(value))
    return cast_with_warning(atom, np.dtype(dtype)) if dtype is not None else promote(atom, floating=True)[0]


def reject(what: str, hint: str, **given: Any) -> None:
    """Raise for each argument in *given* that was passed."""
    for name, value in given.items():
        if value is not None and value is not False and value is not np._NoValue:
            raise UnsupportedError.here(f"{what} with {name}= is not supported: {hint}")


def into(result: Any, out: Any) -> Any:
    """*result*, or *out* filled with it."""
    return result if out is None else assign_all(out, result)


def one_axis(axis: Any, ndim: int, what: str) -> int:
    """*axis* as a non-negative int."""
    try:
        axis = int(axis) if isinstance(axis, TracedArray) else operator.index(axis)
    except TypeError:
        raise UnsupportedError.here(f"{what}: axis must be an integer, not {axis!r}") from None
    if not -ndim <= axis < ndim:
        raise ShapeError.here(f"{what}: axis {axis} is out of bounds for array of dimension {ndim}")
    return int(axis) % ndim


def along_axis(a: Any, axis: Any, what: str) -> tuple[Atom, int]:
    """(*a* as an atom, *axis* as a non-negative int); flat, where *axis* is None."""
    x = atom_of(a)
    if axis is None:
        return reshape(x, (x.aval.size,)), 0
    return x, one_axis(axis, x.aval.ndim, what)


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape argument as a tuple of ints; traced sizes are guarded."""
    if isinstance(shape, (list, tuple)) or (isinstance(shape, np.ndarray) and shape.ndim):
        return tuple(int(n) for n in shape)
    return (int(shape),)
