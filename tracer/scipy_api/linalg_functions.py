"""scipy.linalg: functions of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from ..ir.errors import LinAlgError, ShapeError, UnsupportedError
from ..ir.graph import Atom
from ..numpy_api.linalg import squares
from ..numpy_api.registry import reject
from ..ops.complex import blocks_of, from_blocks
from ..ops.elementwise import F, like, promote
from ..ops.linalg_expm import expm
from ..ops.linalg_functions import logm, sqrtm
from ..ops.reduce import reduce
from ..ops.shape import concat, full, slice_axis
from ..record.array import is_traced, wrap
from ..record.recorder import require_recorder
from .linalg import for_scipy, hooked, in_double


def _square(value: Any) -> Atom:
    (x,) = for_scipy(value)
    if x.aval.ndim < 2:
        raise LinAlgError.here("The input array must be at least two-dimensional")
    squares(x)
    return x


@hooked("expm")
def _expm(A: Any) -> Any:
    A = A.reshape(1, 1) if np.ndim(A) < 2 and np.size(A) == 1 else A
    x = _square(A)
    if x.aval.shape[-1] <= 1:
        return wrap(F.exp(x))
    return wrap(_by_blocks(expm, x))


def _by_blocks(function: Callable[[Atom], Atom], x: Atom) -> Atom:
    """*function* of real matrices, of complex ones too: it commutes with taking their blocks."""
    return from_blocks(function(blocks_of(x)), x.aval.dtype) if x.aval.is_complex else function(x)


@hooked("expm_frechet")
def _expm_frechet(A: Any, E: Any, method: Any = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    x, direction = promote(in_double(_square(A)), in_double(_square(E)))
    if x.aval.shape != direction.aval.shape:
        raise ShapeError.here("expected A and E to be the same shape")
    n, axis = x.aval.shape[-1], x.aval.ndim - 2
    rows = concat([x, direction], axis + 1), concat([full(like(0, x), x.aval.shape), x], axis + 1)
    found = slice_axis(_by_blocks(expm, concat(list(rows), axis)), axis, 0, n)
    along = wrap(slice_axis(found, axis + 1, n, n))
    return (wrap(slice_axis(found, axis + 1, 0, n)), along) if compute_expm else along


def _real(name: str, function: Callable[[Atom], Atom]) -> None:
    def apply(A: Any, disp: Any = True, blocksize: Any = None) -> Any:
        reject(f"scipy.linalg.{name}", "call it without", disp=disp is False)
        x = _square(A)
        x = in_double(x) if name == "logm" else x
        found = _by_blocks(function, x)
        real = reduce("all", F.eq(found, found), tuple(range(found.aval.ndim)))
        if not require_recorder("linear algebra").guard(real, "linalg"):
            raise UnsupportedError.here(
                f"scipy.linalg.{name} of a matrix whose result is complex, or not finite, is not supported"
            )
        return wrap(found)

    hooked(name)(apply)


_real("sqrtm", sqrtm)
_real("logm", logm)


# ---- made of exponentials ------------------------------------------------------------------------------------------


def _waves(A: Any) -> tuple[Any, Any]:
    """Cosine and sine."""
    x = wrap(_square(A))
    ahead = scipy.linalg.expm(1j * x)
    if x.dtype.kind != "c":
        return ahead.real, ahead.imag
    back = scipy.linalg.expm(-1j * x)
    return 0.5 * (ahead + back), -0.5j * (ahead - back)


def _hyperbolic(A: Any) -> tuple[Any, Any]:
    x = wrap(_square(A))
    ahead, back = scipy.linalg.expm(x), scipy.linalg.expm(-x)
    return 0.5 * (ahead + back), 0.5 * (ahead - back)


for _end, _both in (("m", _waves), ("hm", _hyperbolic)):
    hooked(f"cos{_end}")(lambda A, _both=_both: _both(A)[0])
    hooked(f"sin{_end}")(lambda A, _both=_both: _both(A)[1])
    hooked(f"tan{_end}")(lambda A, _both=_both: np.linalg.solve(*_both(A)))


@hooked("signm")
def _signm(A: Any, disp: Any = True) -> Any:
    reject("scipy.linalg.signm", "call it without", disp=disp is False)
    x = wrap(_square(A))
    return np.linalg.solve(scipy.linalg.sqrtm(x @ x), x)


@hooked("fractional_matrix_power")
def _fractional_matrix_power(A: Any, t: Any) -> Any:
    x = wrap(_square(A))
    if not is_traced(t) and t == int(t):
        return np.linalg.matrix_power(x, int(t))
    return scipy.linalg.expm(t * scipy.linalg.logm(x))
