"""Operations on complex values, taken apart into operations on their lanes.

A complex value is a ``Pair`` of real atoms (``ir/graph.py``), which exists while a function is recorded: the graph, its
derivatives and the kernels know real lanes only.  Three kinds of rules say which operations on lanes an operation is:

- *by lane*: views and what is linear over the reals;
- *products*, which are bilinear: ac - bd, ad + bc;
- *formulas* of elementwise functions (``complex_formulas.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Lit, Pair, Var, bind, lanes, structural, take_apart
from ..ir.primitive import PRIMITIVES, VIEW, Primitive
from ..ir.site import at_site
from .complex_formulas import FORMULAS, Lanes, is_zero, minus, plus, zero_of
from .elementwise import F, broadcast_to, cast, like, whole_lanes
from .indexing import ARGSORT, take_along_last
from .shape import concat, full, move_axis, reshape, slice_axis, transpose

# ---- other primitives ----------------------------------------------------------------------------------------------


def _by_lane(prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> Any:
    """*prim* of the lanes of its complex operands, beside the real ones."""
    dtype = next(x.aval.dtype for x in inputs if x.aval.is_complex)
    results: list[Atom] = []
    for k in (0, 1):
        mine = [lanes(x)[k] if x.aval.is_complex else x for x in inputs]
        zero = all(is_zero(lane) for lane, x in zip(mine, inputs, strict=True) if x.aval.is_complex)
        if zero:
            results.append(zero_of(structural(0, COMPLEX[dtype])))
            continue
        for at, (x, y) in enumerate(zip(inputs, mine, strict=True)):
            literal = isinstance(y, Lit) and prim.name in ("broadcast", "select")  # which take it as it is
            if y.aval.shape != x.aval.shape and not literal:
                mine[at] = broadcast_to(y, x.aval.shape)
        results.append(bind(prim, *mine, **params))
    return results


def _matmul(x: Lanes, y: Lanes, params: dict[str, Any]) -> Lanes:
    def product(x: Atom, y: Atom) -> Atom:
        return zero_of(x) if is_zero(x) or is_zero(y) else bind(PRIMITIVES["matmul"], x, y, **params)

    (a, b), (c, d) = x, y
    return minus(product(a, c), product(b, d)), plus(product(a, d), product(b, c))


def _reduced(combine: Callable[[Atom, Atom], Atom], neutral: float | None) -> Callable[..., Any]:
    """A reduction by halves, whose two results are combined elementwise."""

    def apply(x: Atom, axes: tuple[int, ...]) -> Atom:
        shape = x.aval.shape
        kept = tuple(a for a in range(len(shape)) if a not in axes)
        rows = tuple(shape[a] for a in kept)
        x = reshape(transpose(x, (*kept, *axes)), (*rows, math.prod(shape[a] for a in axes)))
        axis, length = len(rows), x.aval.shape[-1]
        if not length:
            return full(like(neutral or 0, x), rows)
        while length > 1:
            half = length // 2
            pair = combine(slice_axis(x, axis, 0, half), slice_axis(x, axis, half, half))
            x = concat([pair, slice_axis(x, axis, length - 1, 1)], axis) if length % 2 else pair
            length = x.aval.shape[-1]
        return reshape(x, rows)

    return apply


def _recurrence(a: Atom, b: Atom, reverse: bool) -> Atom:
    """y[t] = a[t] y[t-1] + b[t]: by lane for a real *a*, else by doubling of the steps that are taken at once."""
    prim = PRIMITIVES["linrec"]
    if is_zero(lanes(a)[1]):
        re, im = whole_lanes(b)
        factor = whole_lanes(a)[0]
        return _pair([bind(prim, factor, x, reverse=reverse) for x in (re, im)], b.aval.dtype)
    axis, length, step = b.aval.ndim - 1, b.aval.shape[-1], 1
    first = (*b.aval.shape[:-1],)
    while step < length:
        edges = [full(like(value, b), (*first, step)) for value in (1, 0)]
        moved = [
            concat([slice_axis(x, axis, step, length - step), edge] if reverse
                   else [edge, slice_axis(x, axis, 0, length - step)], axis)
            for x, edge in zip((a, b), edges, strict=True)
        ]  # fmt: skip
        a, b = a * moved[0], a * moved[1] + b
        step *= 2
    return b


def _argsort(x: Atom, stable: bool) -> Atom:
    """The lexicographic order: by the real lanes, after one by the imaginary lanes."""
    re, im = whole_lanes(x)
    by_im = bind(ARGSORT, im, stable=True)
    by_re = bind(ARGSORT, take_along_last(re, by_im), stable=True)
    return take_along_last(by_im, by_re)


def _argbest(wins: str) -> Callable[..., Any]:
    """The position of the first extreme along an axis."""

    def apply(x: Atom, axes: tuple[int, ...]) -> Atom:
        (axis,) = axes
        moved = move_axis(x, axis, x.aval.ndim - 1)
        order = _argsort(moved if wins == "min" else -moved, stable=True)
        return reshape(slice_axis(order, order.aval.ndim - 1, 0, 1), order.aval.shape[:-1])

    return apply


# ---- matrices by real ones of twice the size -----------------------------------------------------------------------


def blocks_of(x: Atom) -> Atom:
    """The real matrices [[re, -im], [im, re]], whose products and inverses are those of the complex *x*."""
    re, im = whole_lanes(x)
    last = x.aval.ndim - 1
    return concat([concat([re, -im], last), concat([im, re], last)], last - 1)


def from_blocks(x: Atom, dtype: np.dtype) -> Atom:
    """The complex matrices of the real matrices *x*."""
    axis, n = x.aval.ndim - 1, x.aval.shape[-2] // 2
    left = slice_axis(x, axis, 0, x.aval.shape[-1] // 2)
    return _pair([slice_axis(left, axis - 1, k * n, n) for k in (0, 1)], dtype)


def _solution(factors: Atom, b: Atom, trans: bool) -> Atom:
    """The solution for complex columns *b* by the factors of the blocks: with *trans* those are of the adjoint."""
    b = conjugate(b) if trans else b
    rows, n = b.aval.ndim - 2, b.aval.shape[-2]
    found = bind(PRIMITIVES["lu_solve"], factors, concat(whole_lanes(b), rows), trans=trans)
    re, im = (slice_axis(found, rows, k * n, n) for k in (0, 1))
    return Pair(re, -im if trans else im, b.aval.dtype)


RULES: dict[str, Callable[..., Any]] = {
    "matmul": lambda x, y, **params: _pair(_matmul(lanes(x), lanes(y), params), x.aval.dtype),
    "linrec": _recurrence, "argsort": _argsort, "reduce_prod": _reduced(lambda x, y: x * y, 1),
    "reduce_max": _reduced(lambda x, y: F.maximum(x, y), None),
    "reduce_min": _reduced(lambda x, y: F.minimum(x, y), None),
    "lu": lambda x: bind(PRIMITIVES["lu"], blocks_of(x)), "lu_solve": _solution,
    "argmax": _argbest("max"), "argmin": _argbest("min"),
}  # fmt: skip
_BY_LANE = frozenset(("select", "reduce_sum", "scatter", "scatter_add"))


def _apart(prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    formula = FORMULAS.get(prim.name)
    dtype = next(x.aval.dtype for x in inputs if x.aval.is_complex)
    if formula is not None:
        found = formula(*[lanes(x) for x in inputs], **params)
        if type(found) is not tuple:
            return (found,)
        if all(x.aval.weak for x in inputs):  # Python's own numbers
            found = [cast(lane, lane.aval.dtype, weak=True) for lane in found]
        shape = next((x.aval.shape for x in inputs if x.aval.shape), ())
        return (_pair(found, dtype, shape),)
    if prim.kind == VIEW or prim.name in _BY_LANE:
        re, im = _by_lane(prim, inputs, params)
        if isinstance(re, Lit) and isinstance(im, Lit):  # all zeros
            shape = prim.infer(*[x.aval for x in inputs], **params).shape
            re = full(re, shape) if shape else re
        return (Pair(re, im, dtype),)
    rule = RULES.get(prim.name)
    if rule is not None:
        return (rule(*inputs, **params),)
    raise refused(prim.impl, dtype, prim.name)


def _pair(parts: Sequence[Atom], dtype: np.dtype, shape: tuple[int, ...] = ()) -> Pair:
    re, im = parts
    if shape and not (re.aval.shape or im.aval.shape):
        re = full(re, shape)
    return Pair(re, im, dtype)


def refused(function: Any, dtype: np.dtype, name: str) -> Exception:
    """The error for a *function* that has no complex form; NumPy's own, where it has one."""
    if isinstance(function, np.ufunc):
        try:
            function(*[dtype.type(0.5)] * function.nin)
        except TypeError as error:
            return TypeError(at_site(str(error)))
    return UnsupportedError.here(
        f"{name} of complex numbers is not supported; compose it from functions that are, or of np.real and np.imag"
    )


take_apart.append(_apart)


# ---- at the boundary of a graph ------------------------------------------------------------------------------------


def complex_of(buffer: Atom, dtype: np.dtype, weak: bool = False) -> Pair:
    """The complex value of *dtype* whose lanes lie one beside the other in *buffer*, along its last axis."""
    axis = buffer.aval.ndim - 1
    re, im = (reshape(slice_axis(buffer, axis, k, 1), buffer.aval.shape[:-1]) for k in (0, 1))
    if weak:
        re, im = (cast(x, x.aval.dtype, weak=True) for x in (re, im))
    return Pair(re, im, dtype)


def buffer_of(x: Atom) -> Var:
    """The lanes of the complex *x* one beside the other, along a last axis."""
    parts = [reshape(cast(lane, COMPLEX[x.aval.dtype]), (*x.aval.shape, 1)) for lane in whole_lanes(x)]
    return concat(parts, x.aval.ndim)  # type: ignore[return-value]


def conjugate(x: Atom) -> Atom:
    return Pair(lanes(x)[0], F.neg(lanes(x)[1]), x.aval.dtype) if x.aval.is_complex else x


def real_part(x: Atom) -> Atom:
    return whole_lanes(x)[0] if x.aval.is_complex else x


def square_of_size(x: Atom) -> Atom:
    """|x|**2"""
    if not x.aval.is_complex:
        return F.square(x)
    re, im = whole_lanes(x)
    return F.square(re) + F.square(im)


def by_lane(function: Callable[..., Atom], x: Atom, *params: Any) -> Atom:
    """``function(x, *params)`` of real numbers, of each lane of a complex *x*."""
    if not x.aval.is_complex:
        return function(x, *params)
    re, im = [function(lane, *params) for lane in whole_lanes(x)]
    return Pair(re, im, x.aval.dtype)


def taken_apart(atoms: Sequence[Atom]) -> list[Atom]:
    """*atoms* with the whole lanes of complex ones in their place."""
    return [x for atom in atoms for x in (whole_lanes(atom) if atom.aval.is_complex else (atom,))]


def put_together(found: Sequence[Atom], like: Sequence[Atom]) -> list[Atom]:
    """The inverse of ``taken_apart``: values of the dtypes of *like*; more of them stay as they are."""
    values = iter(found)
    pairs: list[Atom] = []
    for atom in like:
        first = next(values)
        pairs.append(Pair(first, next(values), atom.aval.dtype) if atom.aval.is_complex else first)
    return [*pairs, *values]


def real_atoms(atoms: Any) -> list[Atom]:
    """*atoms* with the lanes of complex ones in their place."""
    return [x for atom in atoms for x in (lanes(atom) if atom.aval.is_complex else (atom,))]
