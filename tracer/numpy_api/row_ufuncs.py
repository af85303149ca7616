"""Rows as ufuncs: the elementwise primitives whose implementation is a ufunc, under that ufunc.

NumPy's are registered by ``ufuncs.py``, those of scipy.special by ``special_ufuncs.py`` when one of them is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..ir.aval import BOOL, FLOAT, HALF, INEXACT_KINDS, SUPPORTED, promote_dtypes
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, elementwise_by_name
from ..ir.primitive import ELEMENTWISE, PRIMITIVES
from ..ops.elementwise import cast, promote
from ..record.array import DIRECT, UFUNCS


def loop_dtypes(ufunc: Any, atoms: tuple[Atom, ...]) -> list[np.dtype]:
    """The dtypes to which NumPy would cast the operands."""
    if any(a.aval.dtype in HALF for a in atoms):  # bfloat16 with integers: NumPy has no rule
        return [promote_dtypes(*[a.aval for a in atoms])[0]] * len(atoms)
    given = [_PYTHON_KIND.get(a.aval.dtype.kind, a.aval.dtype) if a.aval.weak else a.aval.dtype for a in atoms]
    try:
        found = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
    except TypeError as error:
        raise UnsupportedError.here(f"np.{ufunc.__name__}: {error}") from None
    # bool and 8-bit operands of a float function give float16 in NumPy; here they give float64
    return [d if d in SUPPORTED - HALF else FLOAT for d in found[: len(atoms)]]


_PYTHON_KIND: dict[str, Any] = {"f": float, "i": int, "u": int}
_ON_BOOLS = {
    "add": "logical_or",
    "mul": "logical_and",
    "maximum": "logical_or",
    "minimum": "logical_and",
    "fmax": "logical_or",
    "fmin": "logical_and",
}


def _typed(ufunc: Any, name: str) -> Callable[..., Any]:
    """The function of a row, with NumPy's own choice of dtypes for whatever is not all floats."""
    front = elementwise_by_name[name]

    def apply(*atoms: Atom) -> Atom:
        for atom in atoms:
            if atom.aval.dtype.kind not in INEXACT_KINDS:
                break
        else:
            return front(*atoms)
        if all(atom.aval.weak for atom in atoms) or any(atom.aval.is_complex for atom in atoms):
            return front(*atoms)
        dtypes = loop_dtypes(ufunc, atoms)
        converted = tuple(cast(a, d) for a, d in zip(atoms, dtypes, strict=True))
        if dtypes[0] == BOOL and name in _ON_BOOLS:
            return elementwise_by_name[_ON_BOOLS[name]](*converted)
        if dtypes[0] == BOOL and name == "abs":
            return atoms[0]
        return front(*converted)

    return apply


def register_ufuncs(others: Mapping[Any, str] = MappingProxyType({})) -> None:
    """Make the rows of ufuncs that are not known yet answer calls of theirs; *others*: ufuncs of rows by name."""
    known = [(primitive.impl, primitive) for primitive in PRIMITIVES.values()]
    for ufunc, primitive in [*known, *[(ufunc, PRIMITIVES[name]) for ufunc, name in others.items()]]:
        if primitive.kind == ELEMENTWISE and isinstance(ufunc, np.ufunc) and ufunc not in UFUNCS:
            UFUNCS[ufunc] = _typed(ufunc, primitive.name)
            if primitive.vjp is not None or any(primitive.partials):
                DIRECT[ufunc] = primitive


def as_floating(x: Atom) -> Atom:
    return promote(x, floating=True)[0]
