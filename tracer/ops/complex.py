"""Operations on complex values, taken apart into operations on their lanes.

A complex value is a ``Pair`` of real atoms (``ir/graph.py``), which exists while a function is recorded: the graph, its
derivatives and the kernels know real lanes only.  Three kinds of rules say which operations on lanes an operation is:

- *by lane*: views and what is linear over the reals;
- *products*, which are bilinear: ac - bd, ad + bc;
- *formulas* of elementwise functions, by the textbook.

Signs of zeros decide on which side of a branch cut a number lies.  So a lane that is zero by construction (that of a
real operand, or of ``1j``) is left out of a formula only where it makes no such difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Lit, Pair, Var, bind, elementwise_by_name, lanes, structural, take_apart
from ..ir.primitive import PRIMITIVES, VIEW, Primitive
from ..ir.site import at_site
from .elementwise import F, by_squaring, cast, like, whole_lanes
from .indexing import ARGSORT, take_along_last
from .shape import concat, full, move_axis, reshape, slice_axis, transpose

Lanes = tuple[Atom, Atom]


# ---- arithmetic in which lanes that are zero vanish ----------------------------------------------------------------


def _is_zero(x: Atom) -> bool:
    return isinstance(x, Lit) and x.structural and bool(x.value == 0)


def _is_one(x: Atom) -> bool:
    return isinstance(x, Lit) and bool(x.value == 1) and (x.structural or x.aval.weak)


def _zero(x: Atom) -> Lit:
    return Lit(0, x.aval.dtype, weak=x.aval.weak, structural=True)


def _times(x: Atom, y: Atom, name: str = "mul") -> Atom:
    if _is_zero(x) or _is_zero(y):
        return _zero(x)
    return y if _is_one(x) else x if _is_one(y) else elementwise_by_name[name](x, y)


def _plus(x: Atom, y: Atom) -> Atom:
    return y if _is_zero(x) else x if _is_zero(y) else F.add(x, y)


def _minus(x: Atom, y: Atom) -> Atom:
    return x if _is_zero(y) else F.neg(y) if _is_zero(x) else F.sub(x, y)


def _choose(condition: Atom, x: Atom, y: Atom) -> Atom:
    return _zero(x) if _is_zero(x) and _is_zero(y) else F.select(condition, x, y)


def _sign_of(x: Atom) -> Atom:
    """1 or -1 by the sign bit of *x*."""
    return F.copysign(like(1, x), x)


# ---- products ------------------------------------------------------------------------------------------------------


def _product(x: Lanes, y: Lanes, name: str = "mul") -> Lanes:
    (a, b), (c, d) = x, y
    re = _minus(_times(a, c, name), _times(b, d, name))
    im = _plus(_times(a, d, name), _times(b, c, name))
    if _is_zero(b) and not _is_zero(d):  # NumPy adds 0 * c
        im = im + F.copysign(_zero(c), c)
    elif _is_zero(d) and not _is_zero(b):
        im = im + F.copysign(_zero(a), a)
    return re, im


def _quotient(x: Lanes, y: Lanes) -> Lanes:
    """By Smith's formula, which does not leave the range of numbers on its way."""
    (a, b), (c, d) = x, y
    if _is_zero(d):
        scale = 1 / c
        return _times(a, scale), _times(b, scale)
    first = F.ge(F.abs(c), F.abs(d))
    p, q = F.select(first, c, d), F.select(first, d, c)
    ratio = q / F.select(F.eq(p, like(0, p)), like(1, p), p)
    scale = 1 / (p + q * ratio)
    u, v = _choose(first, a, b), _choose(first, b, a)
    im = v - _times(u, ratio)
    return (u + _times(v, ratio)) * scale, F.select(first, im, -im) * scale


def _integer_power(x: Lanes, n: int) -> Lanes:
    if n == 0:
        return like(1, x[0]), _zero(x[0])
    if n < 0:
        return _quotient((like(1, x[0]), _zero(x[0])), _integer_power(x, -n))
    return by_squaring(x, n, _product)


def _power(x: Lanes, y: Lanes) -> Lanes:
    """exp(y log x); 0 to a power of positive real part is 0, and to 0 it is 1."""
    (a, b), (c, d) = x, y
    zero = F.logical_and(F.eq(a, like(0, a)), F.eq(b, like(0, b)))
    nothing = F.logical_and(F.eq(c, like(0, c)), F.eq(d, like(0, d)))
    base = F.select(zero, like(1, a), a), b
    re, im = _exp(_product(y, _log(base)))
    inside = F.logical_and(zero, F.logical_not(nothing))
    valid = F.select(F.gt(c, like(0, c)), like(0, c), like(math.nan, c))
    return F.select(inside, valid, re), F.select(inside, valid, im)


# ---- exponentials and logarithms -----------------------------------------------------------------------------------


def _exp(z: Lanes) -> Lanes:
    x, y = z
    if _is_zero(x):
        return F.cos(y), F.sin(y)
    size = F.exp(x)
    if _is_zero(y):
        return size, y
    return size * F.cos(y), F.select(F.eq(y, like(0, y)), y, size * F.sin(y))


def _expm1(z: Lanes) -> Lanes:
    x, y = z
    half = F.sin(y * 0.5)
    return F.expm1(x) * F.cos(y) - 2 * half * half, F.exp(x) * F.sin(y)


def _log_of_size(x: Atom, y: Atom) -> Atom:
    """log |x + iy|, exact where that is near 1."""
    p, q = F.abs(x), F.abs(y)
    first = F.ge(p, q)
    p, q = F.select(first, p, q), F.select(first, q, p)
    near = F.logical_and(F.logical_and(F.gt(p, like(0.5, p)), F.lt(p, like(2, p))), F.le(q, like(2, q)))
    p, q = F.select(near, p, like(1, p)), F.select(near, q, like(0, q))
    return F.select(near, 0.5 * F.log1p((p - 1) * (p + 1) + q * q), F.log(F.hypot(x, y)))


def _log(z: Lanes) -> Lanes:
    x, y = z
    return _log_of_size(x, y), F.arctan2(y, x)


def _log1p(z: Lanes) -> Lanes:
    x, y = z
    return _log_of_size(x + 1, y) if _is_zero(y) else _log1p_of_size(x, y), F.arctan2(y, x + 1)


def _log1p_of_size(x: Atom, y: Atom) -> Atom:
    more = x * (2 + x) + y * y
    near = F.lt(F.abs(more), like(0.5, more))
    return F.select(near, 0.5 * F.log1p(F.select(near, more, like(0, more))), _log_of_size(x + 1, y))


def _scaled(formula: Callable[[Lanes], Lanes], before: float, after: float) -> Callable[[Lanes], Lanes]:
    def apply(z: Lanes) -> Lanes:
        x, y = formula((_times(z[0], like(before, z[0])), _times(z[1], like(before, z[1]))))
        return _times(x, like(after, x)), _times(y, like(after, y))

    return apply


def _sqrt(z: Lanes) -> Lanes:
    x, y = z
    right = F.ge(x, like(0, x))
    p, sign = F.select(right, x, -x), _sign_of(y)
    size = F.sqrt(0.5 * p + 0.5 * F.hypot(x, y))
    double = 2 * F.select(F.eq(size, like(0, size)), like(1, size), size)
    q = y * sign
    small = F.select(F.isinf(q), q, q / double)
    return F.select(right, size, small), sign * F.select(right, small, F.select(F.isinf(q), q, size))


# ---- trigonometric and hyperbolic ----------------------------------------------------------------------------------


def _sin(z: Lanes) -> Lanes:
    x, y = z
    return F.sin(x) * F.cosh(y), F.cos(x) * F.sinh(y)


def _cos(z: Lanes) -> Lanes:
    x, y = z
    return F.cos(x) * F.cosh(y), -(F.sin(x) * F.sinh(y))


def _sinh(z: Lanes) -> Lanes:
    x, y = z
    return F.sinh(x) * F.cos(y), F.cosh(x) * F.sin(y)


def _cosh(z: Lanes) -> Lanes:
    x, y = z
    return F.cosh(x) * F.cos(y), F.sinh(x) * F.sin(y)


def _tanh(z: Lanes) -> Lanes:
    """By Kahan's formula; far from the imaginary axis by its limit."""
    x, y = z
    far = F.gt(F.abs(x), like(20 if x.aval.dtype.itemsize == 8 else 9, x))
    near = F.select(far, like(0, x), x)
    tangent, s = F.tan(y), F.sinh(near)
    beta = 1 + tangent * tangent
    below = 1 + beta * s * s
    rest = 4 * F.sin(y) * F.cos(y) * F.exp(-2 * F.abs(x))
    return F.select(far, _sign_of(x), beta * F.cosh(near) * s / below), F.select(far, rest, tangent / below)


def _arcsin(z: Lanes) -> Lanes:
    """By Kahan's formula, which keeps to NumPy's sides of the branch cuts."""
    x, y = z
    (a, b), (c, d) = _sqrt((1 - x, -y)), _sqrt((1 + x, y))
    return F.arctan2(x, a * c - b * d), F.arcsinh(a * d - b * c)


def _arccos(z: Lanes) -> Lanes:
    x, y = z
    (a, b), (c, d) = _sqrt((1 - x, -y)), _sqrt((1 + x, y))
    return 2 * F.arctan2(a, c), F.arcsinh(b * c - a * d)


def _arccosh(z: Lanes) -> Lanes:
    x, y = z
    (a, b), (c, d) = _sqrt((x - 1, y)), _sqrt((x + 1, y))
    return F.arcsinh(a * c + b * d), 2 * F.arctan2(b, c)


def _arctanh(z: Lanes) -> Lanes:
    x, y = z
    sign = _sign_of(x)
    p = sign * x
    re = 0.25 * F.log1p(4 * p / ((1 - p) * (1 - p) + y * y))
    return sign * re, 0.5 * F.arctan2(2 * y, (1 - x) * (1 + x) - y * y)


def _turned(formula: Callable[[Lanes], Lanes]) -> Callable[[Lanes], Lanes]:
    """-i f(iz), which is the trigonometric function of a hyperbolic one, and the other way round."""

    def apply(z: Lanes) -> Lanes:
        x, y = formula((-z[1], z[0]))
        return y, -x

    return apply


# ---- other elementwise functions -----------------------------------------------------------------------------------


def _sign(z: Lanes) -> Lanes:
    size = F.hypot(*z)
    size = F.select(F.eq(size, like(0, size)), like(1, size), size)
    return z[0] / size, z[1] / size


def _reciprocal(z: Lanes) -> Lanes:
    return _quotient((like(1, z[0]), _zero(z[0])), z)


def _before(name: str) -> Callable[[Lanes, Lanes], Atom]:
    """A comparison, which NumPy makes in lexicographic order."""
    strict = {"le": "lt", "ge": "gt"}.get(name, name)

    def apply(x: Lanes, y: Lanes) -> Atom:
        equal = F.logical_and(F.eq(x[0], y[0]), elementwise_by_name[name](x[1], y[1]))
        return F.logical_or(elementwise_by_name[strict](x[0], y[0]), equal)

    return apply


def _winner(wins: str, skips_nan: bool) -> Callable[[Lanes, Lanes], Lanes]:
    def apply(x: Lanes, y: Lanes) -> Lanes:
        mine = F.logical_or(_before(wins)(x, y), _is_nan(y if skips_nan else x))
        return F.select(mine, x[0], y[0]), F.select(mine, x[1], y[1])

    return apply


def _is_nan(z: Lanes) -> Atom:
    return F.logical_or(F.isnan(z[0]), F.isnan(z[1]))


def _by_parts(name: str) -> Callable[..., Lanes]:
    front = elementwise_by_name[name]
    return lambda *values: (front(*[z[0] for z in values]), front(*[z[1] for z in values]))


# name -> the lanes of the result (or the one real result) from those of the operands
_FORMULAS: dict[str, Callable[..., Any]] = {
    **{name: _by_parts(name) for name in ("neg", "rint", "alias", "stop_gradient")},
    "add": lambda x, y: (_add(x[0], y[0]), _add(x[1], y[1])),
    "sub": lambda x, y: (_sub(x[0], y[0]), _sub(x[1], y[1])),
    "mul": _product, "mulz": lambda x, y: _product(x, y, "mulz"), "div": _quotient, "pow": _power,
    "square": lambda z: _product(z, z), "reciprocal": _reciprocal, "integer_pow": lambda z, n: _integer_power(z, n),
    "abs": lambda z: F.hypot(*z), "sign": _sign, "exp": _exp, "expm1": _expm1, "exp2": _scaled(_exp, math.log(2), 1),
    "log": _log, "log1p": _log1p, "log2": _scaled(_log, 1, 1 / math.log(2)),
    "log10": _scaled(_log, 1, 1 / math.log(10)), "sqrt": _sqrt, "sin": _sin, "cos": _cos, "tan": _turned(_tanh),
    "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "arcsin": _arcsin, "arccos": _arccos, "arctan": _turned(_arctanh),
    "arcsinh": _turned(_arcsin), "arccosh": _arccosh, "arctanh": _arctanh,
    "eq": lambda x, y: F.logical_and(F.eq(x[0], y[0]), F.eq(x[1], y[1])),
    "ne": lambda x, y: F.logical_or(F.ne(x[0], y[0]), F.ne(x[1], y[1])),
    **{name: _before(name) for name in ("lt", "le", "gt", "ge")},
    "maximum": _winner("ge", False), "minimum": _winner("le", False),
    "fmax": _winner("ge", True), "fmin": _winner("le", True),
    "isnan": _is_nan, "isinf": lambda z: F.logical_or(F.isinf(z[0]), F.isinf(z[1])),
    "isfinite": lambda z: F.logical_and(F.isfinite(z[0]), F.isfinite(z[1])),
}  # fmt: skip


def _add(x: Atom, y: Atom) -> Atom:
    return x if _is_zero(x) and _is_zero(y) else F.add(x, y)


def _sub(x: Atom, y: Atom) -> Atom:
    return x if _is_zero(x) and _is_zero(y) else F.sub(x, y)


# ---- other primitives ----------------------------------------------------------------------------------------------


def _by_lane(prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> Any:
    """*prim* of the lanes of its complex operands, beside the real ones."""
    dtype = next(x.aval.dtype for x in inputs if x.aval.is_complex)
    results: list[Atom] = []
    for k in (0, 1):
        mine = [lanes(x)[k] if x.aval.is_complex else x for x in inputs]
        zero = all(_is_zero(lane) for lane, x in zip(mine, inputs, strict=True) if x.aval.is_complex)
        if zero:
            results.append(_zero(structural(0, COMPLEX[dtype])))
            continue
        if prim.name not in ("broadcast", "select"):
            mine = [full(y, x.aval.shape) if isinstance(y, Lit) else y for x, y in zip(inputs, mine, strict=True)]
        results.append(bind(prim, *mine, **params))
    return results


def _matmul(x: Lanes, y: Lanes, params: dict[str, Any]) -> Lanes:
    def product(x: Atom, y: Atom) -> Atom:
        return _zero(x) if _is_zero(x) or _is_zero(y) else bind(PRIMITIVES["matmul"], x, y, **params)

    (a, b), (c, d) = x, y
    return _minus(product(a, c), product(b, d)), _plus(product(a, d), product(b, c))


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
    if _is_zero(lanes(a)[1]):
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


_RULES: dict[str, Callable[..., Any]] = {
    "matmul": lambda x, y, **params: _pair(_matmul(lanes(x), lanes(y), params), x.aval.dtype),
    "linrec": _recurrence, "argsort": _argsort, "reduce_prod": _reduced(lambda x, y: x * y, 1),
    "reduce_max": _reduced(lambda x, y: F.maximum(x, y), None),
    "reduce_min": _reduced(lambda x, y: F.minimum(x, y), None),
    "lu": lambda x: bind(PRIMITIVES["lu"], blocks_of(x)), "lu_solve": _solution,
    "argmax": _argbest("max"), "argmin": _argbest("min"),
}  # fmt: skip
_BY_LANE = frozenset(("select", "reduce_sum", "scatter", "scatter_add"))


def _apart(prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> tuple[Any, ...]:
    formula = _FORMULAS.get(prim.name)
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
    rule = _RULES.get(prim.name)
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


def square_of_size(x: Atom) -> Atom:
    """|x|**2"""
    if not x.aval.is_complex:
        return F.square(x)
    re, im = whole_lanes(x)
    return F.square(re) + F.square(im)


def by_lane(function: Callable[[Atom], Atom], x: Atom) -> Atom:
    """*function* of real numbers, of each lane of a complex *x*."""
    if not x.aval.is_complex:
        return function(x)
    re, im = map(function, whole_lanes(x))
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
