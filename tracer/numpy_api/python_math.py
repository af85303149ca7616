"""The functions of ``math`` and ``cmath`` on traced numbers, as recorded code sees them (``record/shown_names.py``).

Each is a number of Python computed by a ufunc, and raises where that of ``math`` does: whether it raises is a question,
as ``if`` asks one, and the exception is the one that ``math`` raises for the numbers of this run.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ..ir.graph import Atom, Pair
from ..ir.late_modules import LateModule
from ..ir.own_attributes import in_class
from ..ir.site import at_site
from ..ops.elementwise import F, cast
from ..record.array import FUNCTIONS, WIDE, TracedArray, wrap_array
from ..record.recorder import Recorder, current_recorder
from ..record.shown_names import in_compiled_code, show_functions
from .assemble import nested_atom
from .python_numbers import holds

special: Any = LateModule("scipy.special")

_TOTAL = frozenset((  # which raise for no number
    "atan", "tanh", "asinh", "fabs", "degrees", "radians", "erf", "erfc", "cbrt", "atan2", "copysign", "hypot",
    "nextafter",
))  # fmt: skip


def _number(value: Any) -> Any:
    """*value* as a Python float where it is traced; else as it is."""
    if type(value) is TracedArray:
        return value.number()
    number = in_class(type(value), "_tracegrad_number")
    return value if number is None else number(value)


def _function(plain: Any, compute: Callable[..., Any]) -> Any:
    """The function *plain* of ``math``, computed by *compute* of traced numbers."""
    total = plain.__name__ in _TOTAL and plain.__module__ == "math"

    def function(*args: Any) -> Any:
        numbers = [_number(value) for value in args]
        if TracedArray not in map(type, numbers):
            return plain(*args)
        if plain.__module__ == "math" and any(type(x) is TracedArray and x.aval.is_complex for x in numbers):
            raise TypeError(at_site("must be real number, not complex"))
        found = compute(*numbers)
        if type(found) is not TracedArray:  # an exponent was the only traced one, and is asked for
            return float(found)
        found = found.number()
        recorder = current_recorder()
        if total or recorder is None or recorder.parent is not None or in_compiled_code():
            return found
        atoms = [number.atom for number in numbers if type(number) is TracedArray]
        if recorder.presume(F.isfinite(found.atom), *atoms):
            return found
        if _raises(recorder, found.atom, atoms):
            plain(*[recorder.value(x.atom).item() if type(x) is TracedArray else x for x in numbers])
        return found

    return function


def _raises(recorder: Recorder, found: Atom, atoms: Sequence[Atom]) -> bool:
    """Whether ``math`` raises where NumPy gives *found*, which is not finite."""
    holds(recorder, F.isfinite(found))
    if holds(recorder, F.isnan(found)):
        return not any(holds(recorder, F.isnan(x)) for x in atoms)
    return all(holds(recorder, F.isfinite(x)) for x in atoms)


def _log(x: Any, base: Any = None) -> Any:
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _ldexp(x: Any, exponent: Any) -> Any:
    return np.multiply(x, 2.0 ** int(exponent))


def _hypot(*coordinates: Any) -> Any:
    return np.abs(coordinates[0]) if len(coordinates) == 1 else reduce(np.hypot, coordinates)


def _remainder(x: Any, y: Any) -> Any:
    return np.subtract(x, np.multiply(np.rint(np.true_divide(x, y)), y))


def _dist(p: Iterable[Any], q: Iterable[Any], /) -> Any:
    p, q = list(p), list(q)
    if TracedArray not in map(type, map(_number, [*p, *q])):
        return math.dist(p, q)
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    return _FUNCTIONS["hypot"](*[_number(a) - _number(b) for a, b in zip(p, q, strict=True)])


def _fsum(values: Iterable[Any], /) -> Any:
    values = list(values)
    if TracedArray not in map(type, map(_number, values)):
        return math.fsum(values)
    return FUNCTIONS[np.sum](wrap_array(nested_atom([_number(v) for v in values]))).number()


def _modf(x: Any, /) -> Any:
    number = _number(x)
    if type(number) is not TracedArray:
        return math.modf(x)
    parts: Any = np.modf(wrap_array(cast(number.atom, number.atom.aval.dtype)))
    return tuple([part.number() for part in parts])


def _frexp(x: Any, /) -> Any:
    number = _number(x)
    if type(number) is not TracedArray:
        return math.frexp(x)
    parts: Any = np.frexp(wrap_array(cast(number.atom, number.atom.aval.dtype)))
    return parts[0].number(), int(parts[1])


def _test(ufunc: Any, module: Any = math) -> Any:
    plain = getattr(module, ufunc.__name__)

    def test(value: Any, /) -> bool:
        number = in_class(type(value), "_tracegrad_number")
        value = value if number is None else number(value)
        return bool(ufunc(value)) if type(value) is TracedArray and value.size == 1 else plain(value)

    return test


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> bool:
    if TracedArray not in map(type, (a, b, rel_tol, abs_tol)):
        module = cmath if complex in (type(a), type(b)) else math
        return module.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    if rel_tol < 0 or abs_tol < 0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if np.isinf(a) or np.isinf(b):
        return False
    apart = abs(b - a)
    return bool(apart <= abs(rel_tol * b)) or bool(apart <= abs(rel_tol * a)) or bool(apart <= abs_tol)


def _special(name: str) -> Callable[..., Any]:
    return lambda x: getattr(special, name)(x)


_COMPUTED: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": _log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "cbrt": np.cbrt, "pow": np.power, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "fabs": np.absolute,
    "degrees": np.degrees, "radians": np.radians, "hypot": _hypot, "copysign": np.copysign, "fmod": np.fmod,
    "remainder": _remainder, "ldexp": _ldexp, "gamma": _special("gamma"), "lgamma": _special("gammaln"),
    "erf": _special("erf"), "erfc": _special("erfc"), "nextafter": np.nextafter,
}  # fmt: skip


def _of_complex(ufunc: Any) -> Any:
    """*ufunc* of numbers that are made complex."""
    return lambda x: ufunc(wrap_array(cast(x.atom, WIDE, weak=True)))


def _clog(z: Any, base: Any = None, /) -> Any:
    return np.log(z + 0j) if base is None else np.log(z + 0j) / np.log(base + 0j)


def _phase(z: Any, /) -> Any:
    if type(z) is not TracedArray:
        return cmath.phase(z)
    found: Any = np.arctan2(z.imag, z.real)
    return found.number()


def _polar(z: Any, /) -> Any:
    return (abs(z), _phase(z)) if type(z) is TracedArray else cmath.polar(z)


def _rect(r: Any, phi: Any, /) -> Any:
    if TracedArray not in map(type, (r, phi)):
        return cmath.rect(r, phi)
    re, im = (np.multiply(r, f(phi)).number() for f in (np.cos, np.sin))
    return wrap_array(Pair(re.atom, im.atom, WIDE)).number()


_OF_COMPLEX = {
    "exp": np.exp, "log10": np.log10, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh,
}  # fmt: skip
_FUNCTIONS = {name: _function(getattr(math, name), compute) for name, compute in _COMPUTED.items()}
show_functions(
    math,
    {
        **_FUNCTIONS,
        **{f.__name__: _test(f) for f in (np.isnan, np.isinf, np.isfinite)},
        "isclose": _isclose, "dist": _dist, "fsum": _fsum, "modf": _modf, "frexp": _frexp,
    },
)  # fmt: skip
show_functions(
    cmath,
    {
        **{name: _function(getattr(cmath, name), _of_complex(ufunc)) for name, ufunc in _OF_COMPLEX.items()},
        **{f.__name__: _test(f, cmath) for f in (np.isnan, np.isinf, np.isfinite)},
        "log": _function(cmath.log, _clog), "phase": _phase, "polar": _polar, "rect": _rect, "isclose": _isclose,
    },
)  # fmt: skip
