"""Elementwise primitives: one row each.

A row gives the NumPy implementation, the local partials as expressions of ``(out, *inputs)``, the scalar lowering as an
expression over a scalar emitter ``s`` (``codegen/cpu/scalar.py`` and its CUDA twin provide it; ``UFUNC`` calls NumPy's
or SciPy's own code), and the domain that its tests draw from.  Functions of scipy.special have rows in
``special_lowered.py``, where kernels compute them in code of their own, and in the tables of ``special.py``.

Subgradients at kinks, the same in every tier: ``abs`` and ``sign`` 0 at 0; ``maximum``/``minimum`` one half each
at ties; ``hypot``, ``arctan2`` and norms 0 at the origin.  In the adjoint zero times infinity is zero (``mulz``), so
an element that ``where``, ``maximum`` or indexing left out contributes exactly 0, and ``sqrt(sum(x*x))`` has gradient
0 at 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.exceptions import ComplexWarning

from ..ir.aval import (
    BOOL,
    COMPLEX,
    FLOAT,
    FLOAT32,
    FLOAT_KINDS,
    HALF,
    INEXACT_KINDS,
    INT,
    Aval,
    broadcast_shapes,
    check_dtype,
    is_float,
    promote_dtypes,
)
from ..ir.axes import Axes, Params, Shape, Shapes
from ..ir.errors import GraphError, UnsupportedError
from ..ir.graph import Atom, Lit, Pair, Var, bind, elementwise_by_name, lanes, literal, structural
from ..ir.primitive import ELEMENTWISE, PRIMITIVES, VIEW, Primitive, register
from ..ir.site import at_site, warn_at_site

UFUNC = "ufunc"  # lower by calling the inner loop of the NumPy or SciPy ufunc itself
ONE = "one"  # the partial is 1: the cotangent passes
MINUS = "minus"  # the partial is -1

REAL = ((-3.0, 3.0),)
POSITIVE = ((0.1, 4.0),)
UNIT = ((-0.9, 0.9),)
PROBABILITY = ((0.05, 0.95),)
INT8 = np.dtype("int8")

# dtype rules: operands and NumPy's promotion
FLOATING = "floating"  # integers and bools become float64
ANY = "any"  # any dtype, kept
TO_BOOL = "to_bool"  # any dtype; the result is bool
BOOLEAN = "boolean"  # operands become bool
INTEGRAL = "integral"  # integers and bools only
SHIFT = "shift"  # as INTEGRAL, but bools become int8
ARITHMETIC = "arithmetic"  # as ANY, but bools become int8
SIGNED = "signed"  # as ANY, but not for bools
ROUNDING = "rounding"  # integers and bools are returned as they are
FRACTIONAL = "fractional"  # floats only: NumPy's results for integers are hardly meant


# ---- shape and dtype rules -------------------------------------------------------------------------------------


def _common_shape(avals: tuple[Aval, ...]) -> tuple[int, ...]:
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.shape and a.shape != shape:
            if shape:
                raise GraphError(f"elementwise operands of unequal shapes {sorted({v.shape for v in avals} - {()})}")
            shape = a.shape
    return shape


def infer_same(*avals: Aval, **_: Any) -> Aval:
    dtype, weak = avals[0].dtype, True
    for a in avals:
        if a.dtype is not dtype and a.dtype != dtype:
            raise GraphError(f"elementwise operands of unequal dtypes {[str(a) for a in avals]}")
        weak = weak and a.weak
    shape = _common_shape(avals)
    for a in avals:  # nearly always that of an operand
        if a.weak == weak and a.shape == shape:
            return a
    return Aval(dtype, shape, weak)


def infer_predicate(*avals: Aval, **_: Any) -> Aval:
    return Aval(BOOL, _common_shape(avals), infer_same(*avals).weak)


def infer_select(cond: Aval, a: Aval, b: Aval) -> Aval:
    if cond.dtype != BOOL or a.dtype != b.dtype:
        raise GraphError(f"select of {cond}, {a}, {b}")
    return Aval(a.dtype, _common_shape((cond, a, b)), a.weak and b.weak)


# ---- the promoting front door ----------------------------------------------------------------------------------


def as_atom(x: Any) -> Atom:
    """A Var, a Lit, or a Python or NumPy scalar as an atom."""
    if isinstance(x, (Var, Lit)):
        return x
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return literal(x)
    raise GraphError(f"{type(x).__name__} is no atom")


def cast(x: Atom, dtype: np.dtype, *, weak: bool = False) -> Atom:
    """*x* as *dtype*; constants are converted here and now."""
    if x.aval.dtype == dtype and x.aval.weak == weak:
        return x
    if dtype.kind == "c" or x.aval.dtype.kind == "c":
        return _cast_complex(x, dtype, weak)
    if isinstance(x, Lit):
        if x.aval.weak and x.aval.dtype.kind in "iu" and not fits(x, dtype):
            raise OverflowError(at_site(f"Python integer {x.value} out of bounds for {dtype}"))
        return Lit(x.value, dtype, weak=weak, structural=x.structural)
    check_dtype(dtype, "the result")
    if weak and not x.aval.shape:
        return bind(CAST, x, dtype=dtype, weak=True)
    if x.aval.dtype == dtype and not x.aval.shape and x.aval.weak:
        return bind(CAST, x, dtype=dtype)
    return bind(CAST, x, dtype=dtype) if x.aval.dtype != dtype else x


def _cast_complex(x: Atom, dtype: np.dtype, weak: bool) -> Atom:
    """``cast`` from or to a complex dtype."""
    if dtype == BOOL:
        return F.ne(x, like(0, x))
    if dtype.kind != "c":
        raise UnsupportedError.here(f"a complex number would become one of {dtype}: write z.real, or np.abs(z)")
    lane = COMPLEX[dtype]
    if x.aval.dtype.kind == "c":
        re, im = lanes(x)
        return Pair(cast(re, lane, weak=weak), cast(im, lane, weak=weak), dtype)
    return Pair(cast(x, lane, weak=weak), Lit(0, lane, weak=weak, structural=True), dtype)


def cast_with_warning(x: Atom, dtype: np.dtype) -> Atom:
    """*x* as the user wants it to be of *dtype*: of complex numbers NumPy drops the imaginary part, and warns."""
    if x.aval.dtype.kind == "c" and dtype.kind not in "cb":
        if x.aval.weak:
            raise TypeError(at_site("float() argument must be a string or a real number, not 'complex'"))
        warn_at_site("Casting complex values to real discards the imaginary part", ComplexWarning)
        x = whole_lanes(x)[0]
    return cast(x, dtype)


def whole_lanes(x: Atom) -> list[Atom]:
    """The lanes of the complex *x*, each of its shape."""
    return [a if a.aval.shape == x.aval.shape else broadcast_to(a, x.aval.shape) for a in lanes(x)]


def whole_reals(x: Atom) -> list[Atom]:
    """The values that programs have for *x*, each of its shape."""
    return whole_lanes(x) if x.aval.is_complex else [x]


def rounded(x: Atom) -> Atom:
    """*x* rounded to its dtype, where that is of half precision."""
    return bind(CAST, cast(x, FLOAT32), dtype=x.aval.dtype) if x.aval.dtype in HALF else x


def fits(x: Lit, dtype: np.dtype) -> bool:
    """Whether *dtype* holds the integer *x* (floats take them all)."""
    return dtype.kind not in "iu" or bool(np.iinfo(dtype).min <= int(x.value) <= np.iinfo(dtype).max)


def promote(*operands: Any, floating: bool = False) -> tuple[Atom, ...]:
    """Operands cast to their common dtype (NumPy 2 rules); with *floating*, integers become float64."""
    atoms = [as_atom(x) for x in operands]
    dtype, weak = promote_dtypes(*[a.aval for a in atoms])
    if floating and dtype.kind not in INEXACT_KINDS:
        dtype = FLOAT
    return tuple(cast(a, dtype, weak=weak) if a.aval.dtype != dtype else a for a in atoms)


def broadcast_to(x: Atom, shape: tuple[int, ...]) -> Var:
    """NumPy's broadcast of *x* to *shape* as an explicit node."""
    if isinstance(x, Var) and x.aval.shape == shape:
        return x
    offset = len(shape) - len(x.aval.shape)
    return bind(BROADCAST, x, shape=shape, dims=tuple(range(offset, len(shape))))


def broadcast(*atoms: Atom, what: str = "operands") -> tuple[Atom, ...]:
    """Operands of one shape; 0-d literals stay as they are."""
    first = atoms[0].aval.shape
    if all(a.aval.shape == first for a in atoms):
        return atoms
    shape = broadcast_shapes(*[a.aval.shape for a in atoms], what=what)
    return tuple(a if isinstance(a, Lit) else broadcast_to(a, shape) for a in atoms)


_INSTEAD = {
    "sub": "use ^ or np.logical_xor, or convert: x.astype(int) - y",
    "neg": "use ~ or np.logical_not, or convert: -x.astype(int)",
    "sign": "convert it: np.sign(x.astype(int))",
}


def _apply_rule(name: str, rule: str, atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """The operands converted by NumPy's own dtype rule, or an error where it has none."""
    kind = atoms[0].aval.dtype.kind
    if rule in (INTEGRAL, SHIFT) and kind in FLOAT_KINDS:
        raise UnsupportedError.here(f"{name} needs integers or bools, not {atoms[0].aval.dtype}")
    if rule == SIGNED and kind == "b":
        raise UnsupportedError.here(f"NumPy has no {name} of bools: {_INSTEAD[name]}")
    if rule == FRACTIONAL and kind not in INEXACT_KINDS:
        raise UnsupportedError.here(
            f"{name} of integers is an integer division in NumPy, 0 almost everywhere: write 1 / x"
        )
    if rule in (ARITHMETIC, SHIFT) and kind == "b":
        return tuple(cast(a, INT8) for a in atoms)
    return atoms


def _define_front(row: Primitive, arity: int, rule: str) -> None:
    floating = rule == FLOATING
    special = rule not in (FLOATING, ANY, TO_BOOL)

    def apply(*operands: Any, **params: Any) -> Any:
        if rule == BOOLEAN:
            atoms = tuple(to_bool(as_atom(x)) for x in operands)
        else:
            atoms = promote(*operands, floating=floating)
            if special:
                atoms = _apply_rule(row.name, rule, atoms)
                if rule == ROUNDING and atoms[0].aval.dtype.kind not in INEXACT_KINDS:
                    return atoms[0]
        if arity > 1:
            atoms = broadcast(*atoms, what=f"operands of {row.name}")
        return bind(row, *atoms, **params)

    apply.__name__ = row.name
    elementwise_by_name[row.name] = apply


def to_bool(x: Atom) -> Atom:
    if x.aval.dtype == BOOL:
        return x
    return F.ne(x, Lit(0, x.aval.dtype, structural=True))


def row(
    name: str,
    impl: Callable[..., Any],
    *partials: Any,
    lower: Any = UFUNC,
    domain: tuple[tuple[float, float], ...] = REAL,
    rule: str = FLOATING,
    arity: int = 0,
    **more: Any,
) -> Primitive:
    """Define one elementwise primitive."""
    arity = arity or len(partials) or len(domain)
    infer = more.pop("infer", infer_predicate if rule == TO_BOOL else infer_same)
    primitive = register(
        Primitive(name, ELEMENTWISE, impl, infer, partials=partials, lower=lower, domain=domain, **more)
    )
    _define_front(primitive, arity, rule)
    return primitive


class _Functions:
    """``F.exp(x)``: the promoting function of each row, by name."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return elementwise_by_name[name]
        except KeyError:
            raise AttributeError(name) from None


F = _Functions()


def like(value: float, x: Atom) -> Lit:
    """A structural constant of x's dtype."""
    return structural(value, x.aval.dtype)


def libm(name: str) -> Callable[..., Any]:
    """Lower to the C math function *name* (and its vector forms, where there are any)."""
    return lambda s, *x: s.call(name, *x)


def intrinsic(name: str) -> Callable[..., Any]:
    return lambda s, *x: s.intrinsic(name, *x)


# ---- arithmetic ------------------------------------------------------------------------------------------------

row("add", np.add, ONE, ONE, lower=lambda s, x, y: s.add(x, y), domain=REAL * 2, rule=ANY)
row("sub", np.subtract, ONE, MINUS, lower=lambda s, x, y: s.sub(x, y), domain=REAL * 2, rule=SIGNED)
row(
    "mul", np.multiply, lambda o, x, y: y, lambda o, x, y: x,
    lower=lambda s, x, y: s.mul(x, y), domain=REAL * 2, rule=ANY,
)  # fmt: skip
row(
    "div", np.true_divide, lambda o, x, y: 1 / y, lambda o, x, y: -o * (1 / y),
    lower=lambda s, x, y: s.div(x, y), domain=(*REAL, (0.3, 3.0)), cost=4,
)  # fmt: skip
row("neg", np.negative, MINUS, lower=lambda s, x: s.neg(x), rule=SIGNED)
row("abs", np.absolute, lambda o, x: F.sign(x), lower=lambda s, x: s.abs(x), rule=ANY)
row("sign", np.sign, None, lower=lambda s, x: s.sign(x), rule=SIGNED)
row("square", np.square, lambda o, x: 2 * x, lower=lambda s, x: s.mul(x, x), rule=ARITHMETIC)
row(
    "reciprocal", np.reciprocal, lambda o, x: -o * o,
    lower=lambda s, x: s.div(s.const(1), x), domain=POSITIVE, rule=FRACTIONAL, cost=4,
)  # fmt: skip
row(
    "floor_divide", np.floor_divide, None, None,
    lower=lambda s, x, y: s.floor_divide(x, y), domain=(*REAL, (0.3, 3.0)), rule=ARITHMETIC, cost=8,
)  # fmt: skip
row(
    "remainder", np.remainder, ONE, lambda o, x, y: -F.floor_divide(x, y),
    lower=lambda s, x, y: s.remainder(x, y), domain=(*REAL, (0.3, 3.0)), rule=ARITHMETIC, cost=8,
)  # fmt: skip
row(
    "fmod", np.fmod, ONE, lambda o, x, y: -F.trunc(x / y),
    lower=lambda s, x, y: s.fmod(x, y), domain=(*REAL, (0.3, 3.0)), rule=ARITHMETIC, cost=8,
)  # fmt: skip


def by_squaring(x: Any, n: int, mul: Callable[[Any, Any], Any]) -> Any:
    """x**n for n > 0, by products in one order: the same bits in every tier."""
    result = None
    while True:
        if n & 1:
            result = x if result is None else mul(result, x)
        n >>= 1
        if not n:
            return result
        x = mul(x, x)


def _integer_pow(x: Any, n: int, xp: Any = np) -> Any:
    if n < 0:
        return (1 / _integer_pow(x, -n, xp)).astype(x.dtype)
    return by_squaring(x, n, operator.mul) if n else xp.ones_like(x)


def _lower_integer_pow(s: Any, x: Any, n: int) -> Any:
    if n < 0:
        return s.div(s.const(1), _lower_integer_pow(s, x, -n))
    return by_squaring(x, n, s.mul) if n else s.const(1)


row(
    "integer_pow", _integer_pow, lambda o, x, n: like(0, x) if n == 0 else n * F.integer_pow(x, n=n - 1),
    lower=_lower_integer_pow, domain=POSITIVE, rule=ARITHMETIC, cost=3, test={"params": {"n": 3}},
)  # fmt: skip


def _pow_exponent(o: Any, x: Any, y: Any) -> Any:
    """x**y log(x); 0 where a power of 0 is 0 or 1, for all exponents from there on."""
    return F.select(F.logical_and(F.eq(x, like(0, x)), F.ge(y, like(0, y))), like(0, x), o * F.log(x))


row(
    "pow", np.power, lambda o, x, y: F.mulz(y, F.pow(x, y - like(1, y))), _pow_exponent,
    lower=lambda s, x, y: s.pow(x, y), domain=(*POSITIVE, *REAL), rule=ARITHMETIC, singular=True, cost=40,
)  # fmt: skip
row("sqrt", np.sqrt, lambda o, x: like(0.5, o) / o, lower=intrinsic("sqrt"), domain=POSITIVE, singular=True, cost=4)
row("cbrt", np.cbrt, lambda o, x: 1 / (like(3, o) * o * o), lower=libm("cbrt"), domain=POSITIVE, singular=True, cost=20)


row("nextafter", np.nextafter, ONE, None, domain=REAL * 2, cost=20)


def _ldexp_impl(x: Any, n: Any, xp: Any = np) -> Any:
    return xp.ldexp(x, xp.minimum(xp.maximum(n, -5000), 5000).astype(np.int32))


def _infer_ldexp(x: Aval, n: Aval) -> Aval:
    if not x.is_float or n.dtype != INT:
        raise GraphError(f"ldexp of {x} and {n}")
    return Aval(x.dtype, _common_shape((x, n)), x.weak)


def _lower_ldexp(s: Any, x: Any, n: Any) -> Any:
    """x * 2**n by factors that are normal numbers, of which only the last rounds."""
    limits = np.finfo(s.dtype)
    top, least = limits.maxexp - 1, limits.minexp
    bottom = least + limits.nmant + 1  # two such steps leave no bit that a third could round once more
    n = s.whole(n)
    for _ in range(2):
        high, low = s.cmp(">", n, s.const(top)), s.cmp("<", n, s.const(least))
        x = s.mul(x, s.select(high, s.const(2.0**top), s.select(low, s.const(2.0**bottom), s.const(1))))
        n = s.sub(n, s.select(high, s.const(top), s.select(low, s.const(bottom), s.const(0))))
    n = s.select(s.cmp(">", n, s.const(top)), s.const(top), s.select(s.cmp("<", n, s.const(least)), s.const(least), n))
    return s.mul(x, s.power_of_two(n))


def _ldexp_of_one(x: Atom, n: Atom) -> Var:
    return F.ldexp(like(1, x), n)


register(
    Primitive(
        "ldexp", ELEMENTWISE, _ldexp_impl, _infer_ldexp, partials=(lambda o, x, n: _ldexp_of_one(x, n), None),
        lower=_lower_ldexp, domain=REAL * 2, cost=8, test={"kinds": "fi"},
    )
)  # fmt: skip


def _ldexp(x: Any, n: Any) -> Var:
    x, n = promote(x, floating=True)[0], cast(as_atom(n), INT)
    return bind(PRIMITIVES["ldexp"], *broadcast(x, n, what="operands of ldexp"))


elementwise_by_name["ldexp"] = _ldexp

# ---- exponentials and logarithms -------------------------------------------------------------------------------

row("exp", np.exp, lambda o, x: o, lower=libm("exp"), cost=20)
row("exp2", np.exp2, lambda o, x: like(math.log(2), o) * o, lower=libm("exp2"), cost=20)
row("expm1", np.expm1, lambda o, x: o + like(1, o), lower=libm("expm1"), cost=20)
row("log", np.log, lambda o, x: 1 / x, lower=libm("log"), domain=POSITIVE, cost=20)
row("log2", np.log2, lambda o, x: like(1 / math.log(2), x) / x, lower=libm("log2"), domain=POSITIVE, cost=20)
row("log10", np.log10, lambda o, x: like(1 / math.log(10), x) / x, lower=libm("log10"), domain=POSITIVE, cost=20)
row("log1p", np.log1p, lambda o, x: 1 / (1 + x), lower=libm("log1p"), domain=POSITIVE, cost=20)


def _expit_impl(x: Any, xp: Any = np) -> Any:
    with np.errstate(over="ignore"):
        return 1 / (1 + xp.exp(-x))


row(
    "expit", _expit_impl, lambda o, x: o * (1 - o),
    lower=lambda s, x: s.div(s.const(1), s.add(s.const(1), s.call("exp", s.neg(x)))), cost=25,
)  # fmt: skip


def _softmax_pair(x: Atom, y: Atom, scale: float = 1) -> Var:
    # equal infinities would give inf - inf; at equal finite x and y the second derivative must stay
    distance = x - y if scale == 1 else (x - y) * like(scale, x)
    return F.select(F.logical_and(F.eq(x, y), F.isinf(x)), like(0.5, x), F.expit(distance))


def _lower_logaddexp(exp: str, scale: float) -> Callable[..., Any]:
    """log(e**x + e**y) in the base of *exp*, whose natural logarithm is *scale*."""

    def lower(s: Any, x: Any, y: Any) -> Any:
        high = s.select(s.cmp(">", x, y), x, y)
        more = s.call("log1p", s.call(exp, s.neg(s.abs(s.sub(x, y)))))
        result = s.add(high, more if scale == 1 else s.mul(more, s.const(1 / scale)))
        result = s.select(s.cmp("==", x, y), s.add(x, s.const(math.log(2) / scale)), result)  # equal infinities too
        return s.select(s.either(s.isnan(x), s.isnan(y)), s.add(x, y), result)

    return lower


row(
    "logaddexp", np.logaddexp, lambda o, x, y: _softmax_pair(x, y), lambda o, x, y: _softmax_pair(y, x),
    lower=_lower_logaddexp("exp", 1), domain=REAL * 2, cost=45,
)  # fmt: skip
row(
    "logaddexp2", np.logaddexp2,
    lambda o, x, y: _softmax_pair(x, y, math.log(2)), lambda o, x, y: _softmax_pair(y, x, math.log(2)),
    lower=_lower_logaddexp("exp2", math.log(2)), domain=REAL * 2, cost=45,
)  # fmt: skip

# ---- trigonometric and hyperbolic ------------------------------------------------------------------------------

row("sin", np.sin, lambda o, x: F.cos(x), lower=libm("sin"), cost=20)
row("cos", np.cos, lambda o, x: -F.sin(x), lower=libm("cos"), cost=20)
row("tan", np.tan, lambda o, x: 1 + o * o, lower=libm("tan"), domain=UNIT, cost=20)
row("arcsin", np.arcsin, lambda o, x: 1 / F.sqrt(1 - x * x), lower=libm("asin"), domain=UNIT, singular=True, cost=20)
row("arccos", np.arccos, lambda o, x: -1 / F.sqrt(1 - x * x), lower=libm("acos"), domain=UNIT, singular=True, cost=20)
row("arctan", np.arctan, lambda o, x: 1 / (1 + x * x), lower=libm("atan"), cost=20)
row("sinh", np.sinh, lambda o, x: F.cosh(x), lower=libm("sinh"), cost=20)
row("cosh", np.cosh, lambda o, x: F.sinh(x), lower=libm("cosh"), cost=20)
row("tanh", np.tanh, lambda o, x: 1 - o * o, lower=libm("tanh"), cost=20)
row("arcsinh", np.arcsinh, lambda o, x: 1 / F.sqrt(1 + x * x), lower=libm("asinh"), cost=20)
row(
    "arccosh", np.arccosh, lambda o, x: 1 / F.sqrt(x * x - 1),
    lower=libm("acosh"), domain=((1.2, 4.0),), singular=True, cost=20,
)  # fmt: skip
row("arctanh", np.arctanh, lambda o, x: 1 / (1 - x * x), lower=libm("atanh"), domain=UNIT, cost=20)
row(
    "arctan2", np.arctan2, lambda o, y, x: _over_square(x, x, y), lambda o, y, x: -_over_square(y, x, y),
    lower=libm("atan2"), domain=POSITIVE * 2, cost=30,
)  # fmt: skip
row(
    "hypot", np.hypot, lambda o, x, y: _over(x, o), lambda o, x, y: _over(y, o),
    lower=libm("hypot"), domain=POSITIVE * 2, cost=20,
)  # fmt: skip


def _over(x: Atom, radius: Atom) -> Var:
    """x / radius, 0 where that is 0."""
    zero = F.eq(radius, like(0, radius))
    return F.select(zero, like(0, x), x / F.select(zero, like(1, radius), radius))


def _over_square(z: Atom, x: Atom, y: Atom) -> Var:
    """z / (x**2 + y**2), 0 at the origin; the squares may leave the range of numbers."""
    radius = F.hypot(x, y)
    return _over(_over(z, radius), radius)


def root(x: Atom) -> Var:
    """The square root of a sum of squares: its derivatives of all orders are 0 where it is."""
    zero = F.eq(x, like(0, x))
    return F.select(zero, like(0, x), F.sqrt(F.select(zero, like(1, x), x)))


# ---- rounding, comparing, choosing -----------------------------------------------------------------------------

row("floor", np.floor, None, lower=intrinsic("floor"), rule=ROUNDING)
row("ceil", np.ceil, None, lower=intrinsic("ceil"), rule=ROUNDING)
row("trunc", np.trunc, None, lower=intrinsic("trunc"), rule=ROUNDING)
row("rint", np.rint, None, lower=intrinsic("rint"))
row(
    "copysign", np.copysign, lambda o, x, y: F.sign(x) * F.copysign(like(1, y), y), None,
    lower=intrinsic("copysign"), domain=REAL * 2,
)  # fmt: skip


def _lower_fraction(s: Any, x: Any) -> Any:
    rest = s.select(s.isinf(x), s.const(0), s.sub(x, s.intrinsic("trunc", x)))
    return s.intrinsic("copysign", rest, x)


row(
    "fraction", lambda x, xp=np: xp.copysign(xp.where(xp.isinf(x), x.dtype.type(0), x - xp.trunc(x)), x), ONE,
    lower=_lower_fraction,
)  # fmt: skip

for _name, _impl, _symbol in (
    ("eq", np.equal, "=="), ("ne", np.not_equal, "!="), ("lt", np.less, "<"),
    ("le", np.less_equal, "<="), ("gt", np.greater, ">"), ("ge", np.greater_equal, ">="),
):  # fmt: skip
    row(
        _name, _impl, None, None,
        lower=lambda s, x, y, _symbol=_symbol: s.cmp(_symbol, x, y), domain=REAL * 2, rule=TO_BOOL,
    )  # fmt: skip

row("isnan", np.isnan, None, lower=lambda s, x: s.isnan(x), rule=TO_BOOL, infer=lambda x: Aval(BOOL, x.shape))
row("isinf", np.isinf, None, lower=lambda s, x: s.isinf(x), rule=TO_BOOL, infer=lambda x: Aval(BOOL, x.shape))
row("isfinite", np.isfinite, None, lower=lambda s, x: s.isfinite(x), rule=TO_BOOL, infer=lambda x: Aval(BOOL, x.shape))

_BOOLS: dict[str, Any] = {"domain": REAL * 2, "rule": BOOLEAN, "test": {"kinds": "bb"}}
_INTS: dict[str, Any] = {"domain": REAL * 2, "rule": INTEGRAL, "test": {"kinds": "ii"}}
row("logical_and", np.logical_and, None, None, lower=lambda s, x, y: s.both(x, y), **_BOOLS)
row("logical_or", np.logical_or, None, None, lower=lambda s, x, y: s.either(x, y), **_BOOLS)
row("logical_xor", np.logical_xor, None, None, lower=lambda s, x, y: s.differ(x, y), **_BOOLS)
row("logical_not", np.logical_not, None, lower=lambda s, x: s.invert(x), rule=BOOLEAN, test={"kinds": "b"})
row("bitwise_and", np.bitwise_and, None, None, lower=lambda s, x, y: s.both(x, y), **_INTS)
row("bitwise_or", np.bitwise_or, None, None, lower=lambda s, x, y: s.either(x, y), **_INTS)
row("bitwise_xor", np.bitwise_xor, None, None, lower=lambda s, x, y: s.differ(x, y), **_INTS)
row("left_shift", np.left_shift, None, None, lower=lambda s, x, n: s.shift_left(x, n), **_INTS | {"rule": SHIFT})
row("right_shift", np.right_shift, None, None, lower=lambda s, x, n: s.shift_right(x, n), **_INTS | {"rule": SHIFT})
row("invert", np.invert, None, lower=lambda s, x: s.invert(x), rule=INTEGRAL, test={"kinds": "i"})


def _select_impl(c: Any, a: Any, b: Any, xp: Any = np) -> Any:
    return xp.where(xp.asarray(c), a, b)


SELECT: Primitive = register(
    Primitive(
        "select", ELEMENTWISE, _select_impl, infer_select,
        vjp=lambda ct, out, c, a, b: (None, F.select(c, ct, like(0, ct)), F.select(c, like(0, ct), ct)),
        jvp=lambda tangents, out, c, a, b: F.select(c, _zero_if_none(tangents[1], a), _zero_if_none(tangents[2], b)),
        lower=lambda s, c, a, b: s.select(c, a, b), masking=True, domain=REAL * 3, test={"kinds": "bff"},
    )
)  # fmt: skip


def _zero_if_none(tangent: Atom | None, primal: Atom) -> Atom:
    return like(0, primal) if tangent is None else tangent


def _select(cond: Any, a: Any, b: Any) -> Var:
    a, b = promote(a, b)
    return bind(SELECT, *broadcast(to_bool(as_atom(cond)), a, b, what="operands of where"))


elementwise_by_name["select"] = _select


def _pick(name: str, impl: Callable[..., Any], wins: str, lower: Callable[..., Any]) -> None:
    """maximum and its relatives: the winner takes the cotangent, a tie splits it in halves, NaN goes to NaN."""

    def first(x: Atom, y: Atom) -> Var:
        beats = F.ne(x, x) if name in ("maximum", "minimum") else F.ne(y, y)  # which NaN is passed on
        return F.logical_or(elementwise_by_name[wins](x, y), beats)

    def vjp(ct: Atom, out: Atom, x: Atom, y: Atom) -> tuple[Var, Var]:
        mine, tie = first(x, y), F.eq(x, y)
        half, zero = ct * like(0.5, ct), like(0, ct)
        return F.select(tie, half, F.select(mine, ct, zero)), F.select(tie, half, F.select(mine, zero, ct))

    def jvp(tangents: Any, out: Atom, x: Atom, y: Atom) -> Var:
        tx, ty = _zero_if_none(tangents[0], x), _zero_if_none(tangents[1], y)
        mine = first(x, y)
        return F.select(F.eq(x, y), like(0.5, x) * (tx + ty), F.select(mine, tx, ty))

    primitive = register(
        Primitive(
            name, ELEMENTWISE, impl, infer_same, vjp=vjp, jvp=jvp,
            lower=lower, masking=True, domain=REAL * 2, cost=2,
        )
    )  # fmt: skip
    _define_front(primitive, 2, ANY)


_pick("maximum", np.maximum, "gt", lambda s, x, y: s.select(s.either(s.cmp(">", x, y), s.isnan(x)), x, y))
_pick("minimum", np.minimum, "lt", lambda s, x, y: s.select(s.either(s.cmp("<", x, y), s.isnan(x)), x, y))
_pick("fmax", np.fmax, "gt", lambda s, x, y: s.select(s.either(s.cmp(">=", x, y), s.isnan(y)), x, y))
_pick("fmin", np.fmin, "lt", lambda s, x, y: s.select(s.either(s.cmp("<=", x, y), s.isnan(y)), x, y))


def _mulz_impl(x: Any, y: Any, xp: Any = np) -> Any:
    x, y = xp.asarray(x), xp.asarray(y)
    with np.errstate(invalid="ignore"):
        product = xp.multiply(x, y)
    return xp.where((x == 0) | (y == 0), product.dtype.type(0), product)


def _lower_mulz(s: Any, x: Any, y: Any) -> Any:
    zero = s.either(s.cmp("==", x, s.const(0)), s.cmp("==", y, s.const(0)))
    return s.select(zero, s.const(0), s.mul(x, y))


row(
    "mulz", _mulz_impl, lambda o, x, y: y, lambda o, x, y: x,
    lower=_lower_mulz, domain=REAL * 2, masking=True,
)  # fmt: skip

# the identity: under a name of its own (that a checkpoint policy may know), and with derivative 0
row("alias", lambda x, name=None, xp=np: xp.asarray(x), ONE, lower=lambda s, x, name=None: x, rule=ANY, cost=0)
row("stop_gradient", lambda x, xp=np: xp.asarray(x), None, lower=lambda s, x: x, rule=ANY)

# ---- conversion and broadcasting (broadcast lives here because every row above needs it) ---------------------------

CAST: Primitive = register(
    Primitive(
        "cast", ELEMENTWISE, lambda x, dtype, weak=False: np.asarray(x).astype(dtype),
        lambda x, dtype, weak=False: Aval(dtype, x.shape, weak),  # weak: to a Python number, float(x)
        transpose=lambda ct, x, dtype, weak=False: cast(ct, x.dtype) if is_float(dtype) and is_float(x.dtype) else None,
        lower=lambda s, x, dtype, weak=False: s.cast(x, dtype), domain=REAL,
        test={"params": {"dtype": np.dtype("float32")}},
    )
)  # fmt: skip


def _broadcast_impl(x: Any, shape: tuple[int, ...], dims: tuple[int, ...], xp: Any = np) -> Any:
    x = xp.asarray(x)
    expanded = [1] * len(shape)
    for axis, dim in enumerate(dims):
        expanded[dim] = x.shape[axis]
    return xp.broadcast_to(x.reshape(expanded), shape)


def _broadcast_infer(x: Aval, shape: tuple[int, ...], dims: tuple[int, ...]) -> Aval:
    if len(dims) != len(x.shape) or any(x.shape[a] not in (1, shape[d]) for a, d in enumerate(dims)):
        raise GraphError(f"broadcast of {x} to {shape} along {dims}")
    return Aval(x.dtype, shape, x.weak and not shape)


def _broadcast_transpose(ct: Atom, x: Aval, shape: tuple[int, ...], dims: tuple[int, ...]) -> Atom:
    stretched = tuple(d for a, d in enumerate(dims) if x.shape[a] == 1 and shape[d] != 1)
    new = tuple(d for d in range(len(shape)) if d not in dims)
    summed = bind(PRIMITIVES["reduce_sum"], ct, axes=tuple(sorted(new + stretched))) if new or stretched else ct
    if summed.aval.shape != x.shape:
        return bind(PRIMITIVES["reshape"], summed, shape=x.shape)
    return summed


def _broadcast_axes(shapes: Shapes, shape: Shape, params: Params) -> Axes:
    return Axes((tuple([d if n == shape[d] else None for n, d in zip(shapes[0], params["dims"], strict=True)]),))


BROADCAST: Primitive = register(
    Primitive(
        "broadcast", VIEW, _broadcast_impl, _broadcast_infer, transpose=_broadcast_transpose, axes=_broadcast_axes,
        sizes=("shape",), domain=REAL, test={"params": {"shape": (2, 3, 4), "dims": (2,)}, "shapes": ((4,),)},
    )
)  # fmt: skip
