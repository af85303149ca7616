"""Vector math for the hand-written numba kernels: glibc's libmvec, or the scalar functions where it is absent.

Each name is callable in ``@njit`` code on a float64. In a loop that LLVM vectorises, the call becomes one of
libmvec's vector variants, because the declaration carries the ``vector-function-abi-variant`` attribute.
Errors are at most about 4 ulp.
"""

from __future__ import annotations

import math
import platform
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
from numba import njit, types
from numba.extending import intrinsic

#: (letter of the vector ABI, elements per register): SSE, AVX2, AVX-512
_WIDTHS = (("b", 2), ("d", 4), ("e", 8))
_DOUBLE = ir.DoubleType()
_USED = "llvm.compiler.used"


def _load() -> bool:
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        llvm.load_library_permanently("libmvec.so.1")
    except RuntimeError:
        return False
    return llvm.address_of_symbol("_ZGVdN4v_erf") is not None  # erf came with glibc 2.35


#: whether the functions below are vectorised
AVAILABLE = _load()


def _declare(module: ir.Module, name: str) -> ir.Function:
    """Declare scalar `name` with its vector variants in the module, once."""
    scalar = module.globals.get(name)
    if scalar is None:
        scalar = ir.Function(module, ir.FunctionType(_DOUBLE, [_DOUBLE]), name)
    mark = f"_ZGVdN4v_{name}"
    if mark in module.globals:
        return scalar
    variants = ",".join(f"_ZGV_LLVM_N{n}v_{name}(_ZGV{letter}N{n}v_{name})" for letter, n in _WIDTHS)
    for attribute in (f'"vector-function-abi-variant"="{variants}"', "nounwind", "willreturn", "memory(none)"):
        set.add(scalar.attributes, attribute)  # llvmlite's own add() knows only a short list of names
    vectors = []
    for letter, n in _WIDTHS:
        vector = ir.VectorType(_DOUBLE, n)
        vectors.append(ir.Function(module, ir.FunctionType(vector, [vector]), f"_ZGV{letter}N{n}v_{name}"))
    # The variants must be in the module's one llvm.compiler.used array, or they are dropped before the vectoriser.
    pointer = ir.IntType(8).as_pointer()
    used = module.globals.pop(_USED, None)
    kept = list(used.initializer.constant) if used is not None else []
    kept += [vector.bitcast(pointer) for vector in vectors]
    array = ir.Constant(ir.ArrayType(pointer, len(kept)), kept)
    if used is not None:
        module.scope._useset.discard(_USED)
    used = ir.GlobalVariable(module, array.type, _USED)
    used.linkage, used.section, used.initializer = "appending", "llvm.metadata", array
    return scalar


def _vectorised(name: str, fallback: Any) -> Any:
    if not AVAILABLE:
        return njit(inline="always")(fallback)

    @intrinsic
    def function(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            # LLVM prefers 256-bit registers on some CPUs that have 512: with vector math the wide ones win.
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
            return builder.call(_declare(builder.module, name), arguments)

        return types.float64(types.float64), generate

    return function


exp = _vectorised("exp", lambda x: math.exp(x))
log = _vectorised("log", lambda x: math.log(x))
log1p = _vectorised("log1p", lambda x: math.log1p(x))
erf = _vectorised("erf", lambda x: math.erf(x))
sin = _vectorised("sin", lambda x: math.sin(x))
cos = _vectorised("cos", lambda x: math.cos(x))
tanh = _vectorised("tanh", lambda x: math.tanh(x))

#: options of njit: sums may be reordered and products contracted, while NaN and infinity keep their meaning; a division
#: by zero is no exception, or loops that divide would not be vectorised
FAST: dict[str, Any] = {"fastmath": {"contract", "reassoc", "nsz", "arcp"}, "error_model": "numpy"}
