"""The C code behind a ufunc of NumPy or SciPy: its inner loops, and SciPy's function of one element.

The inner loop of a ufunc of SciPy asks the processor for its floating-point state and clears it, which takes as long as
ten multiplications: nothing for a million elements in one call, much for one.  The functions of one element that these
loops call are those of ``scipy.special.cython_special``, SciPy's interface for compiled code; their addresses and C
signatures stand in its capsules.  Where there is none of floats, SciPy's loop computes in double, too.
"""

from __future__ import annotations

import functools
import platform
import re
import sys
from typing import Any, NamedTuple

from .cpython import capsule_signature
from .symbols import capsule_symbol, capsules


class CFunction(NamedTuple):
    """SciPy's function of one element: floats, doubles, complex doubles and longs in; results are returned, or written
    through pointers."""

    symbol: str
    flag: bool  # whether a last int argument is expected, 0
    pointers: int  # to which the results are written; 0 where the one result is returned


_C_TYPES = {"d": ("double",), "f": ("float",), "l": ("long", "Py_ssize_t")}
# where a complex double is passed and returned in two registers of doubles
if sys.platform != "win32" and platform.machine() in ("x86_64", "aarch64", "arm64"):
    _C_TYPES["D"] = ("__pyx_t_double_complex",)
_FLAG = "int __pyx_skip_dispatch"


@functools.cache
def _by_name() -> dict[str, list[tuple[str, str]]]:
    """Name -> (C signature, name in full) of each of its variants."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, capsule in capsules("scipy.special.cython_special").items():
        plain = re.sub(r"^__pyx_fuse_\d+(_\d+)?", "", name)
        found.setdefault(plain, []).append((capsule_signature(capsule), name))
    return found


@functools.cache
def c_function(function: Any, signature: str) -> CFunction | None:
    """SciPy's C function of one element of a ufunc; None where there is none of these types."""
    ins, outs = signature.split("->")
    name: str = function.__name__
    if not set(ins + outs) <= _C_TYPES.keys() or getattr(sys.modules.get("scipy.special"), name, None) is not function:
        return None  # np.expm1 is no scipy.special.expm1
    for c_signature, variant in _by_name().get(name, ()):
        result, _, rest = c_signature.partition(" (")
        types = rest.removesuffix(")").split(", ")
        flag = types[-1] == _FLAG
        types = types[: len(types) - flag]
        pointers = [f"{_C_TYPES[outs[0]][0]} *"] * len(outs) if len(outs) > 1 else []
        if result != ("void" if pointers else _C_TYPES[outs][0]) or types[len(ins) :] != pointers:
            continue
        if all(t in _C_TYPES[c] for t, c in zip(types, ins, strict=False)):
            return CFunction(capsule_symbol("scipy.special.cython_special", variant), flag, len(pointers))
    return None
