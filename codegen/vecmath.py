"""Vector math: which C functions have vector forms, and how LLVM is told.

glibc's libmvec holds vector versions of the math functions, with errors of at most 4 ulp (1 to 2 in most).  A
declaration carries the attribute ``vector-function-abi-variant``, which LLVM's loop vectoriser reads; the vector
declarations must survive until it runs, which ``llvm.compiler.used`` sees to.  llvmlite cannot spell string
attributes, so the printed module is completed here.  Where libmvec is absent the scalar functions are called: same
results up to those ulps, slower.
"""

from __future__ import annotations

import re

from . import jit

# every function with a vector form in glibc 2.35 and later (sysdeps/x86_64/fpu/libmvec)
ONE_ARGUMENT = (
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "exp exp2 exp10 expm1 log log2 log10 log1p cbrt erf erfc"
).split()
TWO_ARGUMENTS = "pow atan2 hypot".split()

_DECLARATION = re.compile(r'^declare (double|float) @"(\w+)"\(([^)]*)\)\s*$', re.MULTILINE)
_PURE = "nounwind willreturn memory(none)"
_MATH = set(ONE_ARGUMENT) | set(TWO_ARGUMENTS) | {"fmod"}
# (ABI letter, lanes of double): SSE, AVX2, AVX-512
_VARIANTS = (("b", 2), ("d", 4), ("e", 8))


def available() -> list[tuple[str, int]]:
    return list(_VARIANTS) if jit.has_libmvec() else []


def complete(text: str) -> str:
    """*text* (a printed module) with attributes on its math declarations and declarations of their vector forms."""
    vector: dict[str, str] = {}

    def declaration(match: re.Match[str]) -> str:
        kind, symbol, args = match.groups()
        base = symbol[:-1] if kind == "float" and symbol.endswith("f") else symbol
        if base not in _MATH:
            return match.group(0)
        line = f"{match.group(0)} {_PURE}"
        variants = []
        if base in ONE_ARGUMENT or base in TWO_ARGUMENTS:
            count = args.count(kind)
            for letter, doubles in available():
                lanes = doubles * (2 if kind == "float" else 1)
                name = f"_ZGV{letter}N{lanes}{'v' * count}_{symbol}"
                variants.append(f"_ZGV_LLVM_N{lanes}{'v' * count}_{symbol}({name})")
                lane_type = f"<{lanes} x {kind}>"
                vector[name] = f"declare {lane_type} @{name}({', '.join([lane_type] * count)}) {_PURE}"
        return f'{line} "vector-function-abi-variant"="{",".join(variants)}"' if variants else line

    text = _DECLARATION.sub(declaration, text)
    if vector:
        used = ", ".join(f"ptr @{name}" for name in vector)
        text += "\n".join(vector.values())
        text += f'\n@llvm.compiler.used = appending global [{len(vector)} x ptr] [{used}], section "llvm.metadata"\n'
    return text
