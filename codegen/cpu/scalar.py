"""Scalar bodies: the ``lower`` column of the primitive table as LLVM IR.

A ``Scalars`` object is the ``s`` that a row's lowering is written against: arithmetic on values of one dtype.  bools
are ``i1`` in registers and one byte in memory; float16 and bfloat16 ``float`` in registers and 16 bits in memory.
Function calls go to libm by name (``vecmath.py`` says which have vector forms), or to the C code of a NumPy or SciPy
ufunc (``c_functions.py``); ``cuda/libdevice.py`` sends them elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ...tracer.ir.aval import BFLOAT16, COMPLEX, FLOAT16, FLOAT_KINDS, HALF
from ...tracer.ops.special import UfuncOutput
from . import vecmath
from .c_functions import CFunction, c_function
from .hints import PLAIN, give_hint
from .symbols import ufunc_symbols

I1, I8, I16, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
_UINT64 = np.dtype("uint64")
_INT64 = np.dtype("int64")


def register_type(dtype: np.dtype) -> ir.Type:
    """The type of a value of *dtype* in a register."""
    if dtype.kind in FLOAT_KINDS:
        return F64 if dtype.itemsize == 8 else F32
    return I1 if dtype.kind == "b" else ir.IntType(8 * dtype.itemsize)


def memory_type(dtype: np.dtype) -> ir.Type:
    """The type of an element of *dtype* in memory.  bfloat16 is an integer: LLVM 7, by which PTX is made, lacks it."""
    if dtype.kind == "b":
        return I8
    return {FLOAT16: F16, BFLOAT16: I16}.get(dtype) or register_type(dtype)


def to_memory(builder: ir.IRBuilder, value: ir.Value, dtype: np.dtype) -> ir.Value:
    """*value* as it is stored; of half precision it is rounded to the nearest, ties to even."""
    if dtype.kind == "b":
        return builder.zext(value, I8)
    if dtype == FLOAT16:
        return builder.fptrunc(value, F16)
    return _to_bfloat16(builder, value) if dtype == BFLOAT16 else value


def from_memory(builder: ir.IRBuilder, value: ir.Value, dtype: np.dtype) -> ir.Value:
    if dtype.kind == "b":
        return builder.icmp_unsigned("!=", value, I8(0))
    if dtype == FLOAT16:
        return builder.fpext(value, F32)
    if dtype == BFLOAT16:  # the upper half of a float32
        return builder.bitcast(builder.shl(builder.zext(value, I32), I32(16)), F32)
    return value


def _to_bfloat16(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    bits = b.bitcast(value, I32)
    odd = b.and_(b.lshr(bits, I32(16)), I32(1))
    nearest = b.lshr(b.add(bits, b.add(odd, I32(0x7FFF))), I32(16))  # a carry goes into the exponent, as it should
    quiet = b.or_(b.lshr(bits, I32(16)), I32(0x40))  # a NaN stays one, whatever the lower half was
    return b.trunc(b.select(b.fcmp_unordered("uno", value, value), quiet, nearest), I16)


def rounded(b: ir.IRBuilder, x: ir.Value, dtype: np.dtype) -> ir.Value:
    """The float *x* (float32 or float64) as a register of half precision has it: one that *dtype* can hold."""
    return from_memory(b, to_memory(b, x if x.type == F32 else _to_odd(b, x), dtype), dtype)


def _to_odd(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The double *x* as a float that rounds to half precision as *x* itself does.

    It is rounded toward zero, and what is lost makes it odd: so it is never halfway between two numbers where *x* is
    not.
    """
    nearest = b.fptrunc(x, F32)
    back = b.fpext(nearest, F64)
    beyond = b.fcmp_ordered(">", _magnitude(b, back), _magnitude(b, x))
    toward_zero = b.sub(b.bitcast(nearest, I32), b.zext(beyond, I32))
    inexact = b.zext(b.fcmp_ordered("!=", back, x), I32)
    return b.bitcast(b.or_(toward_zero, inexact), F32)


def _magnitude(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """|x| of a double without a function, which the device has under another name."""
    return b.bitcast(b.and_(b.bitcast(x, I64), I64(2**63 - 1)), F64)


def constant(dtype: np.dtype, value: Any) -> ir.Constant:
    kind = register_type(dtype)
    if dtype.kind in FLOAT_KINDS:
        return ir.Constant(kind, float(dtype.type(value)))
    return ir.Constant(kind, int(value))


class Scalars:
    """Arithmetic on values of one dtype, at the builder's position; *wide*: elements of an array."""

    def __init__(self, builder: ir.IRBuilder, dtype: np.dtype, out: np.dtype, wide: bool = True):
        self.b = builder
        self.wide = wide
        self.dtype = dtype
        self.out = out
        self.is_float = dtype.kind in FLOAT_KINDS
        self.is_bool = dtype.kind == "b"
        self.signed = dtype.kind == "i"
        self.div, self.select = builder.fdiv, builder.select
        self.both, self.either, self.differ, self.invert = builder.and_, builder.or_, builder.xor, builder.not_

    # ---- constants and arithmetic ------------------------------------------------------------------------------

    def const(self, value: float) -> ir.Constant:
        return constant(self.dtype, value)

    def add(self, x: Any, y: Any) -> Any:
        if self.is_bool:
            return self.b.or_(x, y)
        return self.b.fadd(x, y) if self.is_float else self.b.add(x, y)

    def sub(self, x: Any, y: Any) -> Any:
        return self.b.fsub(x, y) if self.is_float else self.b.sub(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        if self.is_bool:
            return self.b.and_(x, y)
        return self.b.fmul(x, y) if self.is_float else self.b.mul(x, y)

    def neg(self, x: Any) -> Any:
        return self.b.fneg(x) if self.is_float else self.b.neg(x)

    def abs(self, x: Any) -> Any:
        if self.is_float:
            return self.intrinsic("fabs", x)
        return self.select(self.cmp("<", x, self.const(0)), self.neg(x), x) if self.signed else x

    def sign(self, x: Any) -> Any:
        one, zero = self.const(1), self.const(0)
        if not self.is_float:
            minus = self.const(-1) if self.signed else zero
            return self.select(self.cmp(">", x, zero), one, self.select(self.cmp("<", x, zero), minus, zero))
        positive = self.select(self.cmp(">", x, zero), one, self.select(self.cmp("==", x, zero), zero, x))
        return self.select(self.cmp("<", x, zero), self.const(-1), positive)  # nan stays nan

    def floor_divide(self, x: Any, y: Any) -> Any:
        return self._divmod(x, y)[0]

    def remainder(self, x: Any, y: Any) -> Any:
        return self._divmod(x, y)[1]

    def _divmod(self, x: Any, y: Any) -> tuple[Any, Any]:
        return self._float_divmod(x, y) if self.is_float else self._int_divmod(x, y)

    def fmod(self, x: Any, y: Any) -> Any:
        if self.is_float:
            return self.call("fmod", x, y)
        trap = self.cmp("==", y, self.const(0))
        if self.signed:
            trap = self.b.or_(trap, self.cmp("==", y, self.const(-1)))  # INT_MIN % -1 traps too
        safe = self.select(trap, self.const(1), y)
        return self.b.srem(x, safe) if self.signed else self.b.urem(x, safe)

    def _float_divmod(self, x: Any, y: Any) -> tuple[Any, Any]:
        """NumPy's npy_divmod: the remainder has the divisor's sign, the quotient is rounded from an exact division."""
        zero = self.const(0)
        mod = self.call("fmod", x, y)
        quotient = self.div(self.sub(x, mod), y)
        opposite = self.b.xor(self.cmp("<", y, zero), self.cmp("<", mod, zero))
        nonzero = self.cmp("!=", mod, zero)
        adjust = self.b.and_(nonzero, opposite)
        mod_adjusted = self.select(adjust, self.add(mod, y), mod)
        mod_final = self.select(self.cmp("==", mod, zero), self.intrinsic("copysign", zero, y), mod_adjusted)
        quotient = self.select(adjust, self.sub(quotient, self.const(1)), quotient)
        floor = self.intrinsic("floor", quotient)
        floor = self.select(
            self.cmp(">", self.sub(quotient, floor), self.const(0.5)), self.add(floor, self.const(1)), floor
        )
        signed_zero = self.intrinsic("copysign", zero, self.div(x, y))
        whole = self.select(self.cmp("==", quotient, zero), signed_zero, floor)
        by_zero = self.cmp("==", y, zero)
        return self.select(by_zero, self.div(x, y), whole), self.select(by_zero, mod, mod_final)

    def _int_divmod(self, x: Any, y: Any) -> tuple[Any, Any]:
        zero, one = self.const(0), self.const(1)
        by_zero = self.cmp("==", y, zero)
        safe = self.select(by_zero, one, y)
        if not self.signed:
            return self.select(by_zero, zero, self.b.udiv(x, safe)), self.select(by_zero, zero, self.b.urem(x, safe))
        minus_one = self.cmp("==", safe, self.const(-1))  # INT_MIN / -1 traps
        safe = self.select(minus_one, one, safe)
        quotient, rest = self.b.sdiv(x, safe), self.b.srem(x, safe)
        adjust = self.b.and_(
            self.cmp("!=", rest, zero), self.b.xor(self.cmp("<", rest, zero), self.cmp("<", safe, zero))
        )
        quotient = self.select(adjust, self.sub(quotient, one), quotient)
        rest = self.select(adjust, self.add(rest, safe), rest)
        quotient = self.select(minus_one, self.neg(x), quotient)
        return self.select(by_zero, zero, quotient), self.select(by_zero, zero, rest)

    def pow(self, x: Any, y: Any) -> Any:
        return self.call("pow", x, y) if self.is_float else self.ufunc(np.power, x, y)

    def whole(self, n: Any) -> Any:
        """The int64 *n* as a float."""
        return convert(self.b, n, _INT64, self.dtype)

    def power_of_two(self, n: Any) -> Any:
        """2**n of a whole float *n*, where that is a normal number."""
        limits = np.finfo(self.dtype)
        bits = ir.IntType(8 * self.dtype.itemsize)
        biased = self.b.fptosi(self.add(n, self.const(limits.maxexp - 1)), bits)
        return self.b.bitcast(self.b.shl(biased, bits(limits.nmant)), n.type)

    # ---- comparing and choosing --------------------------------------------------------------------------------

    def cmp(self, symbol: str, x: Any, y: Any) -> Any:
        if self.is_float:
            return self.b.fcmp_unordered(symbol, x, y) if symbol == "!=" else self.b.fcmp_ordered(symbol, x, y)
        return self.b.icmp_signed(symbol, x, y) if self.signed else self.b.icmp_unsigned(symbol, x, y)

    def isnan(self, x: Any) -> Any:
        return self.b.fcmp_unordered("uno", x, x) if self.is_float else I1(0)

    def isinf(self, x: Any) -> Any:
        return self.cmp("==", self.intrinsic("fabs", x), self.const(np.inf)) if self.is_float else I1(0)

    def isfinite(self, x: Any) -> Any:
        return self.cmp("<", self.intrinsic("fabs", x), self.const(np.inf)) if self.is_float else I1(1)

    def shift_left(self, x: Any, n: Any) -> Any:
        """x << n; 0 where n is not below the width (as an unsigned number), as in NumPy."""
        return self.select(self._below_width(n), self.b.shl(x, n), self.const(0))

    def shift_right(self, x: Any, n: Any) -> Any:
        """x >> n; only the sign is left where n is not below the width."""
        if self.signed:
            return self.b.ashr(x, self.select(self._below_width(n), n, self.const(8 * self.dtype.itemsize - 1)))
        return self.select(self._below_width(n), self.b.lshr(x, n), self.const(0))

    def _below_width(self, n: Any) -> Any:
        return self.b.icmp_unsigned("<", n, self.const(8 * self.dtype.itemsize))

    def pack(self, high: Any, low: Any) -> Any:
        """The uint64 whose halves are two uint32."""
        return self.b.or_(self.b.shl(self.b.zext(high, I64), I64(32)), self.b.zext(low, I64))

    def same_bits(self, x: Any, y: Any) -> Any:
        if self.is_float:
            kind = ir.IntType(8 * self.dtype.itemsize)
            x, y = self.b.bitcast(x, kind), self.b.bitcast(y, kind)
        return self.b.icmp_unsigned("==", x, y)

    # ---- functions ---------------------------------------------------------------------------------------------

    def intrinsic(self, name: str, *args: Any) -> Any:
        """An LLVM intrinsic; integers go through unchanged (floor of an integer is itself)."""
        if not self.is_float:
            return args[0]
        kind = args[0].type
        suffix = "f64" if kind == F64 else "f32"
        return self.b.call(declare(self.b.module, f"llvm.{name}.{suffix}", kind, *[kind] * len(args)), args)

    def call(self, name: str, *args: Any) -> Any:
        """A C math function of double or float."""
        kind = args[0].type
        symbol = vecmath.symbol_for(name if kind == F64 else name + "f", self.wide)
        return self.b.call(declare(self.b.module, symbol, kind, *[kind] * len(args)), args)

    def ufunc(self, function: Any, *args: Any) -> Any:
        """One element of a NumPy or SciPy ufunc."""
        return call_ufunc(self.b, function, args, [self.dtype] * len(args), self.out)

    def output(self, output: UfuncOutput, args: Sequence[Any], dtypes: Sequence[np.dtype], calls: Any) -> Any:
        """One element of an output of a ufunc of scipy.special."""
        return call_ufunc(self.b, output, args, dtypes, self.out, calls)

    def cast(self, x: Any, dtype: np.dtype) -> Any:
        return convert(self.b, x, self.dtype, dtype)


def convert(b: ir.IRBuilder, x: Any, source: np.dtype, target: np.dtype) -> Any:
    """*x* of *source* as *target*, with C's semantics as in NumPy's astype."""
    if source == target:
        return x
    kind = register_type(target)
    if target.kind == "b":
        return (
            b.fcmp_unordered("!=", x, ir.Constant(x.type, 0.0))
            if source.kind in FLOAT_KINDS
            else b.icmp_unsigned("!=", x, ir.Constant(x.type, 0))
        )
    if source.kind in FLOAT_KINDS:
        if target in HALF:
            return rounded(b, x, target)
        if target.kind in FLOAT_KINDS:
            return x if x.type == kind else b.fpext(x, kind) if kind == F64 else b.fptrunc(x, kind)
        # through int64, as NumPy does on this hardware: nan and out of range give the minimum
        minimum = I64(-(2**63))
        wide = b.fpext(x, F64) if x.type == F32 else x
        if target == _UINT64:  # its upper half is out of int64's range
            upper = b.and_(b.fcmp_ordered(">=", wide, F64(2.0**63)), b.fcmp_ordered("<", wide, F64(2.0**64)))
            wide = b.select(upper, b.fsub(wide, F64(2.0**63)), wide)
        fits = b.and_(b.fcmp_ordered(">=", wide, F64(-(2.0**63))), b.fcmp_ordered("<", wide, F64(2.0**63)))
        whole = b.select(fits, b.fptosi(b.select(fits, wide, F64(0.0)), I64), minimum)
        if target == _UINT64:
            return b.select(upper, b.xor(whole, minimum), whole)
        return whole if target.itemsize == 8 else b.trunc(whole, kind)
    if target.kind in FLOAT_KINDS:
        number = b.sitofp(x, kind) if source.kind == "i" else b.uitofp(x, kind)
        return rounded(b, number, target) if target in HALF else number
    width, wanted = x.type.width, kind.width
    if wanted < width:
        return b.trunc(x, kind)
    if wanted > width:
        return b.sext(x, kind) if source.kind == "i" else b.zext(x, kind)
    return x


def cell(entry: ir.IRBuilder, b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A place in the function's frame, which holds *value* from here on; *entry* is at the function's begin."""
    place = entry.alloca(value.type)
    b.store(value, place)
    return place


@contextmanager
def ranging(b: ir.IRBuilder, first: ir.Value, end: ir.Value, step: ir.Value, hint: str = PLAIN) -> Iterator[ir.Value]:
    """A context for a loop over *first*, *first* + *step*, ... below *end*, none of them negative: code written inside
    is its body."""
    before, body, after = b.block, b.append_basic_block("each"), b.append_basic_block("end")
    b.cbranch(b.icmp_signed("<", first, end), body, after)
    b.position_at_end(body)
    i = b.phi(I64)
    i.add_incoming(first, before)
    yield i
    following = b.add(i, step, flags=("nuw", "nsw"))
    i.add_incoming(following, b.block)
    back = b.cbranch(b.icmp_signed("<", following, end), body, after)
    give_hint(back, hint)
    b.position_at_end(after)


def least(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The smaller of two signed integers."""
    return b.select(b.icmp_signed("<", x, y), x, y)


def counting(b: ir.IRBuilder, n: ir.Value, hint: str = PLAIN) -> AbstractContextManager[ir.Value]:
    """A context for a loop over 0 <= i < n."""
    return ranging(b, I64(0), n, I64(1), hint)


def declare(module: ir.Module, name: str, result: ir.Type, *args: ir.Type) -> ir.Function:
    found = module.globals.get(name)
    return found if found is not None else ir.Function(module, ir.FunctionType(result, args), name)


def unique_name(module: ir.Module, stem: str) -> str:
    """A name that nothing in *module* has, the same in each process."""
    return module.get_unique_name(f"{stem}_{len(module.globals)}")


def as_text(function: ir.Function) -> str:
    """The text of a *function* that is complete.  Its module prints this as it stands, and the instructions are gone at
    once: they refer to each other in circles, and the garbage collector would go through those of a long program."""
    text = function.module.globals[function.name] = str(function)
    for block in function.blocks:
        block.instructions.clear()
    function.blocks.clear()
    return text


def outside(module: ir.Module, name: str | None) -> ir.Value:
    """The address of something outside of the kernel (``symbols.py``), or null."""
    if name is None:
        return ir.Constant(PTR, None)
    found = module.globals.get(name)
    return found if found is not None else ir.GlobalVariable(module, I8, name)


def lower(
    builder: ir.IRBuilder, prim: Any, args: list[Any], dtypes: list[np.dtype], out: np.dtype, wide: bool,
    params: dict[str, Any], scalars: type[Scalars] = Scalars, calls: MutableMapping[Any, Any] | None = None,
) -> Any:  # fmt: skip
    """The value of primitive *prim* on register values *args*; *scalars*: whose functions it calls; *calls*: results of
    calls of ufuncs that are at hand."""
    dtype = dtypes[-1] if prim.name == "select" else dtypes[0]
    s = scalars(builder, dtype, out, wide)
    rule: Callable[..., Any] | str = prim.lower
    if rule == "ufunc":
        if isinstance(prim.impl, UfuncOutput):
            return s.output(prim.impl, args, dtypes, calls)
        return s.ufunc(prim.impl, *args)
    return rule(s, *args, **params)  # type: ignore[operator]


# ---- functions of NumPy's and SciPy's ufuncs -----------------------------------------------------------------------


def call_ufunc(
    b: ir.IRBuilder, function: Any, args: Sequence[Any], dtypes: Sequence[np.dtype], out: np.dtype,
    calls: MutableMapping[Any, Any] | None = None,
) -> Any:  # fmt: skip
    """One element of a ufunc, or of an ``UfuncOutput`` of one (whose complex operands are given by their lanes).

    *calls*: the results of calls that are at hand here."""
    place, narrow = 0, False
    if isinstance(function, UfuncOutput):
        output, function = function, function.function
        loop, narrow = output.loops[tuple(dtypes)][0], output.narrow
        place = output.number if output.lane is None else 2 * output.number + output.lane
    else:
        loop = f"{''.join(d.char for d in dtypes)}->{out.char}"
        if loop not in function.types:
            loop = "d" * len(args) + "->d"
    scalar, used = c_function(function, loop), loop
    if scalar is None and not narrow and (wide := loop.translate(_WIDENED)) in function.types:
        scalar, used = c_function(function, wide), wide
    ins, outs = (used if scalar else loop).split("->")
    kinds, results = _in_memory(ins), _in_memory(outs)
    # the outputs of one call are read by several rows (ops/special.py)
    known = {} if calls is None else calls
    key = (function, loop, *args)
    if key not in known:
        args = [convert(b, a, d, kind) for a, d, kind in zip(args, dtypes, kinds, strict=True)]
        if scalar:
            known[key] = _call_c(b, scalar, args, results)
        else:
            known[key] = _call_loop(b, function, f"{ins}->{outs}", args, kinds, results)
    return convert(b, known[key][place], results[place], out)


_WIDENED = str.maketrans("fF", "dD")


def _in_memory(chars: str) -> list[np.dtype]:
    """The dtypes of the numbers that values of dtypes *chars* are in memory: two for a complex one."""
    dtypes = map(np.dtype, chars)
    return [part for d in dtypes for part in ([COMPLEX[d]] * 2 if d in COMPLEX else [d])]


def _call_c(b: ir.IRBuilder, function: CFunction, args: Sequence[Any], results: Sequence[np.dtype]) -> list[Any]:
    """The results of a C function of one element."""
    name = function.symbol
    flag = [I32(0)] if function.flag else []
    kind = memory_type(results[0])
    if not function.pointers:
        returned = kind if len(results) == 1 else ir.LiteralStructType([kind] * 2)  # a complex number
        call = declare(b.module, name, returned, *[a.type for a in args], *[f.type for f in flag])
        for attribute in ("readnone", "nounwind"):  # but for SciPy's error state, which is left as it is
            call.attributes.add(attribute)
        value = b.call(call, [*args, *flag])
        return [value] if len(results) == 1 else [b.extract_value(value, k) for k in range(2)]
    size = len(results) // function.pointers
    with b.goto_entry_block():
        slots = [b.alloca(kind, size) for _ in range(function.pointers)]
    b.call(declare(b.module, name, ir.VoidType(), *[a.type for a in args], *[PTR] * len(slots)), [*args, *slots])
    cells = [b.gep(slot, [I64(k)], source_etype=kind) for slot in slots for k in range(size)]
    return [b.load(place, typ=kind) for place in cells]


def _call_loop(
    b: ir.IRBuilder, function: Any, loop: str, args: Sequence[Any], kinds: Sequence[np.dtype],
    results: Sequence[np.dtype],
) -> list[Any]:  # fmt: skip
    """The results of the inner loop of a ufunc for one element."""
    name, data = ufunc_symbols(function, loop)
    target = declare(b.module, name, ir.VoidType(), PTR, PTR, PTR, PTR)
    sizes = [1 + (c in "FD") for c in loop.replace("->", "")]
    ends = list(itertools.accumulate(sizes, initial=0))
    every = [*kinds, *results]
    with b.goto_entry_block():
        slots = [b.alloca(memory_type(every[at]), size) for at, size in zip(ends, sizes, strict=False)]
        pointers = b.alloca(PTR, len(slots))
        dims = b.alloca(I64)
        steps = b.alloca(I64, len(slots))
    cells = [
        b.gep(slot, [I64(k)], source_etype=memory_type(every[at])) if k else slot
        for slot, at, size in zip(slots, ends, sizes, strict=False)
        for k in range(size)
    ]
    for slot_, arg, kind in zip(cells, args, kinds, strict=False):
        b.store(to_memory(b, arg, kind), slot_)
    for k, slot in enumerate(slots):
        b.store(slot, b.gep(pointers, [I64(k)], source_etype=PTR))
        b.store(I64(0), b.gep(steps, [I64(k)], source_etype=I64))
    b.store(I64(1), dims)
    b.call(target, [pointers, dims, steps, outside(b.module, data)])
    return [
        from_memory(b, b.load(place, typ=memory_type(kind)), kind)
        for place, kind in zip(cells[len(kinds) :], results, strict=True)
    ]
