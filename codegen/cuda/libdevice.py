"""Elementwise primitives on the device: NVIDIA's libdevice in place of libm, LLVM intrinsics and ufuncs.

Everything else that a row's ``lower`` says is shared: ``DeviceScalars`` is ``Scalars`` but for the three methods that
call functions.  ``__nv_exp`` is for float64, ``__nv_expf`` for float32.  CUDA's documented errors are 1 or 2 ulp for
most functions and at most 5; ``tests/codegen/cuda/test_libdevice.py`` has a table of what was found.

What libdevice does not have (the digamma function, the Hurwitz zeta function) has no device lowering, nor have powers
of signed integers, where NumPy raises an error for negative exponents: ``has_device_lowering`` says so, and such rows
are done between kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ...tracer.ir.aval import Aval
from ...tracer.ir.errors import DeviceError
from ...tracer.ir.primitive import ELEMENTWISE, Primitive
from ...tracer.ops import scipy_ufuncs as sp
from ..cpu.scalar import Scalars, declare, lower, register_type

# intrinsics and C functions that libdevice has under the same name
INTRINSICS = frozenset("fabs copysign floor ceil trunc rint sqrt".split())
FUNCTIONS = frozenset(
    "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh "
    "exp exp2 expm1 log log2 log10 log1p pow cbrt hypot fmod erf erfc".split()
)


def symbol(name: str, kind: ir.Type) -> str:
    """libdevice's name of a function of doubles or floats."""
    return f"__nv_{name}" if isinstance(kind, ir.DoubleType) else f"__nv_{name}f"


class DeviceScalars(Scalars):
    """Arithmetic on the device.  Raises DeviceError for a function that it does not have."""

    def intrinsic(self, name: str, *args: Any) -> Any:
        if not self.is_float:
            return args[0]
        if name not in INTRINSICS:
            raise DeviceError(f"the intrinsic {name} has no form on the device")
        return self._libdevice(name, *args)

    def call(self, name: str, *args: Any) -> Any:
        if name not in FUNCTIONS:
            raise DeviceError(f"the function {name} has no form on the device")
        return self._libdevice(name, *args)

    def ufunc(self, function: Any, *args: Any) -> Any:
        rule = _UFUNCS.get(function)
        if rule is None:
            raise DeviceError(f"{function.__name__} has no form on the device")
        return rule(self, *args)

    def output(self, output: Any, args: Any, dtypes: Any, calls: Any) -> Any:
        raise DeviceError(f"{output.function.__name__} has no form on the device")

    def _libdevice(self, name: str, *args: Any) -> Any:
        kind = args[0].type
        return self.b.call(declare(self.b.module, symbol(name, kind), kind, *[kind] * len(args)), args)

    def power(self, x: Any, n: Any) -> Any:
        """x**n of unsigned integers by squaring, modulo the width."""
        if self.dtype.kind != "u":
            raise DeviceError(
                f"NumPy's power of {self.dtype} raises an error for negative exponents: not on the device"
            )
        b, kind = self.b, register_type(self.dtype)
        before, body, after = b.block, b.append_basic_block("power"), b.append_basic_block("power_done")
        b.branch(body)
        b.position_at_end(body)
        result, square, rest = (b.phi(kind) for _ in range(3))
        factor = b.select(b.trunc(rest, ir.IntType(1)), square, self.const(1))
        product, next_square, next_rest = b.mul(result, factor), b.mul(square, square), b.lshr(rest, self.const(1))
        for phi, first, then in ((result, self.const(1), product), (square, x, next_square), (rest, n, next_rest)):
            phi.add_incoming(first, before)
            phi.add_incoming(then, body)
        b.cbranch(b.icmp_unsigned("!=", next_rest, self.const(0)), body, after)
        b.position_at_end(after)
        return product

    def erfinv(self, x: Any) -> Any:
        """SciPy has 0.0 at -0.0, where libdevice has -0.0."""
        return self.add(self._libdevice("erfinv", x), self.const(0))

    def gammaln(self, x: Any) -> Any:
        """SciPy has -inf at -inf, where C has inf."""
        lowest = self.const(-np.inf)
        return self.select(self.cmp("==", x, lowest), lowest, self._libdevice("lgamma", x))


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.power: DeviceScalars.power,
    sp.erfinv: DeviceScalars.erfinv,
    sp.gammaln: DeviceScalars.gammaln,
}

_known: dict[tuple[str, tuple[np.dtype, ...]], bool] = {}


def has_device_lowering(prim: Primitive, dtypes: Sequence[np.dtype], params: Mapping[str, Any] | None = None) -> bool:
    """Whether a kernel can compute the elementwise *prim* on operands of *dtypes*.

    The functions that it calls do not depend on the values of its *params*; without any, those of its tests serve.
    """
    if prim.kind != ELEMENTWISE:
        return False
    key = prim.name, tuple(dtypes)
    if key not in _known:
        given = dict(prim.test.get("params", {}) if params is None else params)
        out = prim.infer(*[Aval(d, ()) for d in dtypes], **given).dtype
        kinds = [register_type(d) for d in dtypes]
        function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), kinds), "probe")
        builder = ir.IRBuilder(function.append_basic_block())
        try:
            lower(builder, prim, list(function.args), list(dtypes), out, True, given, DeviceScalars)
            _known[key] = True
        except DeviceError:
            _known[key] = False
    return _known[key]
