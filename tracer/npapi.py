"""NumPy's functions on traced arrays: ufuncs, reductions, products.

An elementwise primitive whose implementation is a ufunc is found here by itself; only functions composed of several
primitives are spelled out.  Siblings: ``npapi_shape.py`` (shapes and creation), ``npapi_index.py`` (indexing, sorting).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .array import FUNCTIONS, METHODS, UFUNC_METHODS, UFUNCS, TracedArray, assign_all, to_atom, wrap
from .aval import canonical_axes
from .ir import Atom, Lit, elementwise_by_name
from .ops.elementwise import F, cast, promote
from .ops.product import contract_last, matmul
from .ops.reduce import reduce
from .ops.shape import full, transpose
from .primitive import ELEMENTWISE, PRIMITIVES


def implements(*functions: Any, method: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as what *functions* (and the array method) do on traced arrays."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            FUNCTIONS[function] = implementation
        if method is not None:
            METHODS[method] = implementation
        return implementation

    return register


def _register_ufuncs() -> None:
    for primitive in PRIMITIVES.values():
        if primitive.kind == ELEMENTWISE and isinstance(primitive.impl, np.ufunc):
            UFUNCS[primitive.impl] = elementwise_by_name[primitive.name]


_register_ufuncs()


def _power(x: Atom, y: Atom) -> Atom:
    """x ** y.  Small constant integer exponents and one half have their own, cheaper primitives."""
    if isinstance(y, Lit) and x.aval.is_float and float(y.value) == int(y.value if np.isfinite(y.value) else 0) and abs(int(y.value)) <= 16:
        n = int(y.value)
        if y.aval.weak or y.aval.dtype == x.aval.dtype:
            return F.square(x) if n == 2 else x if n == 1 else F.reciprocal(x) if n == -1 else F.integer_pow(x, n=n)
    if isinstance(y, Lit) and x.aval.is_float and y.value == 0.5 and y.aval.weak:
        return F.sqrt(x)
    return F.pow(x, y)


UFUNCS[np.power] = _power
UFUNCS[np.float_power] = lambda x, y: _power(cast(x, np.dtype(float)), y)
UFUNCS[np.fabs] = lambda x: F.abs(*promote(x, floating=True))


def _matmul(x: Atom, y: Atom) -> Atom:
    x, y = promote(x, y)
    if x.aval.ndim == 2 and y.aval.ndim == 2:
        return matmul(x, y)
    if y.aval.ndim == 1:
        return contract_last(x, y)
    if x.aval.ndim == 1 and y.aval.ndim == 2:
        return contract_last(transpose(y, (1, 0)), x)
    raise NotImplementedError


UFUNCS[np.matmul] = _matmul


@implements(np.sum, method="sum")
def _sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None) -> Any:
    x = to_atom(a)
    if x.aval.dtype.kind == "b":
        x = cast(x, np.dtype("int64"))
    return wrap(reduce("sum", x, canonical_axes(axis, x.aval.ndim, "np.sum"), bool(keepdims)))


@implements(np.mean, method="mean")
def _mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, where: Any = None) -> Any:
    x = to_atom(a)
    axes = canonical_axes(axis, x.aval.ndim, "np.mean")
    count = int(np.prod([x.aval.shape[i] for i in axes]))
    (x,) = promote(x, floating=True)
    return wrap(F.div(reduce("sum", x, axes, bool(keepdims)), Lit(count, x.aval.dtype)))


@implements(np.zeros_like)
def _zeros_like(a: Any, dtype: Any = None, order: Any = None, subok: Any = None, shape: Any = None, **_: Any) -> Any:
    x = to_atom(a)
    return wrap(full(Lit(0, np.dtype(dtype) if dtype else x.aval.dtype, structural=True), x.aval.shape if shape is None else shape))


__all__ = ["TracedArray", "assign_all", "UFUNC_METHODS", "implements"]
