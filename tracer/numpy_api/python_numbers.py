"""Arithmetic of Python's own floats, which raises where NumPy's gives inf or nan: ``1.0 / a``, ``2.0 ** a``.

Whether it raises is a question, as ``if`` asks one: the answer of this run is a guard.  The exception is the one that
Python raises for the numbers of this run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Lit, literal
from ..ir.primitive import PRIMITIVES
from ..ops.elementwise import F, like, promote
from ..record.array import UFUNCS, TracedArray, to_atoms, wrap
from ..record.recorder import Recorder, current_recorder
from ..record.shown_names import in_compiled_code

_DIVISIONS: dict[Any, Callable[[Any, Any], Any]] = {
    np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.divmod: divmod,
}
_NE = PRIMITIVES["ne"]
_NUMBERS = (float, int, bool, complex)
CHECKED = frozenset((*_DIVISIONS, np.power))  # operators that may raise


def python_operator(ufunc: Any, inputs: tuple[Any, Any], quick: bool = False) -> Any:
    """The result of an operator of ``CHECKED`` between Python numbers; None where another operand is among them, and,
    if *quick*, where it is not known that it does not raise."""
    if not all(x._atom.aval.weak if type(x) is TracedArray else type(x) in _NUMBERS for x in inputs):
        return None
    recorder = current_recorder()
    atoms = tuple(to_atoms(inputs))
    floats = any(a.aval.is_inexact for a in atoms)
    if recorder is None or recorder.parent is not None or not (floats or ufunc is not np.power):
        return None
    if in_compiled_code() and ufunc is np.power:
        return None
    x, y = atoms
    return (_checked_power if ufunc is np.power else _checked_division)(recorder, ufunc, x, y, quick)


def _checked_division(recorder: Recorder, ufunc: Any, x: Atom, y: Atom, quick: bool) -> Any:
    condition = literal(y.value != 0) if isinstance(y, Lit) else recorder.emit(_NE, (y, like(0, y)), {})[0]
    if not recorder.presume(condition, x, y, evaluate=not quick):
        if quick:
            return None
        holds(recorder, condition)
        is_complex, is_float = (any(getattr(a.aval, kind) for a in (x, y)) for kind in ("is_complex", "is_inexact"))
        zero = 0j if is_complex else 0.0 if is_float else 0
        _DIVISIONS[ufunc](zero, zero)
    result = UFUNCS[ufunc](x, y)
    return tuple([wrap(r) for r in result]) if isinstance(result, tuple) else wrap(result)


def _checked_power(recorder: Recorder, ufunc: Any, x: Atom, y: Atom, quick: bool) -> Any:
    result = UFUNCS[ufunc](x, y)
    if not recorder.presume(F.isfinite(result), x, y, evaluate=not quick):
        if quick:
            return None
        holds(recorder, F.isfinite(result))
        finite = [F.isfinite(v) for v in promote(x, y, floating=True) if not isinstance(v, Lit)]
        if _finite(x) and _finite(y) and holds(recorder, _all(*finite)):
            _refuse_power(recorder, x, y, result)
    return wrap(result)


def _refuse_power(recorder: Recorder, x: Atom, y: Atom, result: Atom) -> None:
    """The error of a power of finite numbers that is not finite itself."""
    if result.aval.is_complex:
        recorder.value(x).item() ** recorder.value(y).item()
        return
    if holds(recorder, F.isnan(result)):
        raise UnsupportedError.here(
            "a power of a negative number is complex in Python, and of its own dtype: write complex(a) ** b for that, "
            "or -((-a) ** b) for the real root, or np.cbrt(a), or test the sign before"
        )
    holds(recorder, literal(x.value != 0) if isinstance(x, Lit) else F.ne(x, like(0, x)))
    operator.pow(recorder.value(x).item(), recorder.value(y).item())


def _finite(x: Atom) -> bool:
    return not isinstance(x, Lit) or bool(np.isfinite(x.value))


def _all(*conditions: Atom) -> Atom:
    first, *rest = conditions
    for other in rest:
        first = F.logical_and(first, other)
    return first


def holds(recorder: Recorder, condition: Atom) -> bool:
    return bool(recorder.guard(condition, "bool"))
