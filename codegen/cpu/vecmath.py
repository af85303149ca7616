"""Vector math: the functions of glibc's libmvec, used so that one element has one value.

libmvec holds vector versions of the C math functions, with errors of at most 4 ulp (1 to 2 in most).  Vectors and
libm differ in the last bits, and so do vectors of different widths.  If a loop used vectors and its last few elements
libm, a value computed in two loops could differ from itself: ``x == max(x)`` would be false, and the gradient of the
maximum wrong.  So array elements always go through one width: the function ``tg_vec_exp`` is one lane of the vector
function, and tells LLVM's vectoriser (by the attribute ``vector-function-abi-variant``) to use all lanes where it can.
Values without axes are computed once, and use libm.  Where libmvec or a function of it is absent, libm serves all.

llvmlite cannot spell string attributes: the printed module is completed here.
"""

from __future__ import annotations

import functools
import re

import llvmlite.binding as llvm

from . import jit

# every function with a vector form in glibc 2.35 and later (sysdeps/x86_64/fpu/libmvec)
ONE_ARGUMENT = (
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "exp exp2 exp10 expm1 log log2 log10 log1p cbrt erf erfc"
).split()
TWO_ARGUMENTS = "pow atan2 hypot".split()

PREFIX = "tg_vec_"
_DECLARATION = re.compile(r'^declare (double|float) @"(\w+)"\(([^)]*)\)\s*$', re.MULTILINE)
_PURE = "nounwind willreturn memory(none)"
_MATH = {*ONE_ARGUMENT, *TWO_ARGUMENTS, "fmod"}
# CPU feature, ABI letter, lanes of double: widest first
_WIDTHS = (("avx512f", "e", 8), ("avx2", "d", 4), ("sse2", "b", 2))


@functools.cache
def _width(cpu: str | None) -> tuple[str, int] | None:
    """(ABI letter, lanes of double) of the one vector width that code for this processor uses."""
    if not jit.HAS_LIBMVEC:
        return None
    features = llvm.get_host_cpu_features() if cpu is None else {jit.CPUS[cpu]: True}
    return next(((letter, lanes) for feature, letter, lanes in _WIDTHS if features.get(feature)), None)


def variant(symbol: str) -> tuple[str, int] | None:
    """(name, lanes) of the vector form of *symbol*, if this machine has it, for the processor that code is made for."""
    return _variant(symbol, jit.cpu())


@functools.cache
def _variant(symbol: str, cpu: str | None) -> tuple[str, int] | None:
    single = symbol.endswith("f") and symbol not in _MATH
    base = symbol[:-1] if single else symbol
    arguments = 1 if base in ONE_ARGUMENT else 2 if base in TWO_ARGUMENTS else 0
    width = _width(cpu)
    if width is None or not arguments:
        return None
    letter, lanes = width[0], width[1] * (2 if single else 1)
    name = f"_ZGV{letter}N{lanes}{'v' * arguments}_{symbol}"
    return (name, lanes) if llvm.address_of_symbol(name) else None


def symbol_for(symbol: str, wide: bool) -> str:
    """The function called for *symbol*: one lane of the vector function for array elements (*wide*), else libm's."""
    return PREFIX + symbol if wide and variant(symbol) else symbol


def complete(text: str) -> str:
    """*text* (a printed module) with attributes on its math declarations, and the lane functions defined."""
    vectors: dict[str, str] = {}
    kept: list[str] = []  # lanes too: a function used by calls alone loses arguments that LLVM finds to be constant

    def declaration(match: re.Match[str]) -> str:
        kind, symbol, args = match.groups()
        if not symbol.startswith(PREFIX):
            base = symbol[:-1] if kind == "float" and symbol.endswith("f") else symbol
            return f"{match.group(0)} {_PURE}" if base in _MATH else match.group(0)
        found = variant(symbol[len(PREFIX) :])
        assert found is not None
        name, lanes = found
        count = args.count(kind)
        vectors[name] = f"declare <{lanes} x {kind}> @{name}({', '.join([f'<{lanes} x {kind}>'] * count)}) {_PURE}"
        kept.extend((name, symbol))
        return _lane_function(symbol, kind, count, name, lanes)

    text = _DECLARATION.sub(declaration, text)
    if vectors:
        used = ", ".join(f"ptr @{name}" for name in kept)
        text += "\n".join(vectors.values())
        text += f'\n@llvm.compiler.used = appending global [{len(kept)} x ptr] [{used}], section "llvm.metadata"\n'
    return text


def _lane_function(symbol: str, kind: str, count: int, name: str, lanes: int) -> str:
    """A scalar function that is one lane of vector function *name*, and is known to the vectoriser as such."""
    vector = f"<{lanes} x {kind}>"
    mapping = f"_ZGV_LLVM_N{lanes}{'v' * count}_{symbol}({name})"
    lines = [f"define internal {kind} @{symbol}({', '.join(f'{kind} %x{k}' for k in range(count))}) noinline {_PURE}"]
    lines[0] += f' "vector-function-abi-variant"="{mapping}" "prefer-vector-width"="512" {{'
    for k in range(count):
        lines.append(f"  %i{k} = insertelement {vector} poison, {kind} %x{k}, i64 0")
        lines.append(f"  %v{k} = shufflevector {vector} %i{k}, {vector} poison, <{lanes} x i32> zeroinitializer")
    lines.append(f"  %r = call {vector} @{name}({', '.join(f'{vector} %v{k}' for k in range(count))})")
    lines += [f"  %s = extractelement {vector} %r, i64 0", f"  ret {kind} %s", "}"]
    return "\n".join(lines)
