"""Hints for unsupported functions: alternatives by name.  Others raise with a general hint."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..record.array import HINTS, is_traced, unsupported
from ..record.constants import by_numpy
from ..record.shown_names import show_functions
from .hooks import hook, when_loaded

_MASKED = (
    "masked_array MaskedArray masked_where masked_invalid masked_equal masked_greater masked_less masked_inside "
    "masked_outside masked_values"
)

# hint -> the names that it is for
_SHARED = {
    "convert to plain integers before the compiled function, where they have no gradient to lose": (
        "packbits unpackbits gcd lcm bitwise_count byteswap"
    ),
    "return the array from the function and write it outside": (
        "save savetxt savez savez_compressed tofile tobytes dump dumps"
    ),
    "a traced array has no memory": "data ctypes base frombuffer setflags getfield setfield",
    "dates are no numbers: count days outside the compiled function and pass them in": (
        "busday_count busday_offset is_busday datetime_as_string isnat"
    ),
    "use a plain array, and np.where with the mask": _MASKED,
    "use a plain array, and @ for products": "matrix asmatrix bmat",
}

HINTS.update({name: hint for hint, names in _SHARED.items() for name in names.split()})
HINTS.update(
    {
        "polyfit": "solve it outside, or minimise the squared residual of np.polyval",
        "spacing": "use np.finfo(float).eps * np.abs(x)",
        "resize_": "make a new array",
        "strides": "its memory layout is not known here; write x = x.copy() before, or use reshape and transpose",
        "flags": "its memory layout is not known here; write x = x.copy() before, or leave the test out",
        "resize": "np.resize gives a new array",
        "nested_iters": "write nested loops over np.ndindex(x.shape)",
        "as_strided": "use np.lib.stride_tricks.sliding_window_view, slices or index arrays",
    }
)

_OF_MATRICES = {
    "use np.linalg.eig, or np.linalg.eigh of a symmetric matrix: w, v = np.linalg.eigh(a); (v * f(w)) @ v.T": (
        "rsf2csf cdf2rdf hessenberg funm expm_cond"
    ),
    "use scipy.linalg.solve(a, b, assume_a='sym'), or scipy.linalg.cholesky of a positive definite matrix": "ldl",
    "use scipy.linalg.eig(a, b), or eigh(a, b) of symmetric matrices": "qz ordqz",
    "use scipy.linalg.qr, svd or solve of the whole matrix": (
        "cossin qr_delete qr_insert qr_update matrix_balance clarkson_woodruff_transform"
    ),
}
HINTS.update({f"scipy.linalg.{name}": hint for hint, names in _OF_MATRICES.items() for name in names.split()})


def _refused(name: str, function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args) or is_traced(tuple(kwargs.values())):
            return by_numpy(unsupported(name), function, args, kwargs)
        return function(*args, **kwargs)

    return call


def _refuse(module: Any, names: str, title: str) -> None:
    """Refuse traced arguments of functions and classes that would convert them at once."""
    found: dict[int, Any] = {}  # some have two names
    for name in names.split():
        found.setdefault(id(getattr(module, name)), _refused(f"{title}.{name}", getattr(module, name)))
    show_functions(module, {name: found[id(getattr(module, name))] for name in names.split()})


_refuse(np, "matrix asmatrix bmat frombuffer", "np")


@when_loaded("numpy.ma", "masked_array", "masked_values")
def _refuse_masked(ma: Any) -> None:
    _refuse(ma, _MASKED, "np.ma")


@when_loaded("scipy.linalg", "clarkson_woodruff_transform")
def _refuse_functions_of_matrices(linalg: Any) -> None:
    for name in " ".join(_OF_MATRICES.values()).split():
        function = getattr(linalg, name, None)
        hook(function, _refused(f"scipy.linalg.{name}", function))
