"""Native functions: a fixed call as a C function in this process, for whoever takes an address."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...codegen.cpu import jit
from ...codegen.cpu.host_rows import without_numpy
from ...codegen.cpu.machine_code import MachineCode
from ...codegen.cpu.native_entry import EntryText, NotNativeError, entry_text
from ...codegen.lower.canonical import canonicalise
from ...codegen.lower.depth import recursion_for
from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.site import at_site
from .fixed import FixedCall, identifier

_C_TYPES = {
    "float64": ("double", ctypes.c_double), "float32": ("float", ctypes.c_float), "bool": ("uint8_t", ctypes.c_uint8),
    **{f"{u}int{n}": (f"{u}int{n}_t", getattr(ctypes, f"c_{u}int{n}")) for u in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class CParameter:
    """A parameter of a C function: a number by value, or memory of *shape*; *written*: for a result."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    by_value: bool = False
    written: bool = False

    @property
    def declaration(self) -> str:
        kind = _C_TYPES[self.dtype.name][0]
        if self.by_value:
            return f"{kind} {self.name}"
        return f"{kind} *{self.name}" if self.written else f"const {kind} *{self.name}"

    @property
    def c_type(self) -> Any:
        return _C_TYPES[self.dtype.name][1] if self.by_value else ctypes.c_void_p


def parameters(fixed: FixedCall) -> list[CParameter]:
    """The parameters of the C function for *fixed*: its arguments that are data, then its results.

    Raises:
        UnsupportedError: C has no type for one of them.
    """
    given = [(x.name, x.dtype, x.shape, x.kind != "array", False) for x in fixed.operands]
    avals = [atom.aval for atom in fixed.graph.outputs]
    made = [(name, avals[k].dtype, avals[k].shape, False, True) for k, name in fixed.result_names.items()]
    if not made:
        raise UnsupportedError(f"{fixed.name} can't be a native function: nothing of its result is computed")
    taken: set[str] = set()
    found = []
    for name, dtype, shape, by_value, written in (*given, *made):
        if dtype.name not in _C_TYPES:
            raise UnsupportedError(f"{fixed.name} can't be a native function: `{name}` is of dtype {dtype}")
        plain = base = identifier(name)
        for k in range(2, len(taken) + 3):
            if plain not in taken:
                break
            plain = f"{base}_{k}"
        taken.add(plain)
        found.append(CParameter(plain, dtype, shape, by_value, written))
    return found


def native_text(fixed: FixedCall, name: str, more: str = "") -> EntryText:
    """LLVM IR of the C function *name* for *fixed*; *more*: of functions that call it.

    Raises:
        UnsupportedError: it has steps for which there is none.
    """
    numbers = [x.kind != "array" for x in fixed.operands]
    consts = [array for _, array in fixed.graph.consts]
    unused = set(range(len(fixed.graph.outputs))).difference(fixed.result_names)
    try:
        graph = without_numpy(fixed.graph)
        canonical = fixed.canonical if graph is fixed.graph else canonicalise(graph)
        with recursion_for(canonical):
            return entry_text(canonical, numbers, consts, name, more, sorted(unused))
    except NotNativeError as error:
        raise UnsupportedError(at_site(f"{fixed.name} can't be a native function: {error}", error.site)) from None


class NativeFunction:
    """A C function in this process, whose code lives as long as this object, or what it has made.

    ``address`` is its address, ``declaration`` its C prototype: ``ffi.cast(f.pointer_type, f.address)`` calls it by
    cffi, ``f.as_ctypes()`` by ctypes.  It needs no interpreter, and threads may run it at once.
    """

    def __init__(self, fixed: FixedCall) -> None:
        self._fixed = fixed
        self.parameters = parameters(fixed)
        self.name = fixed.plain_name
        self._code = loaded(native_text(fixed, "tg_entry"))
        self.address = self._code.address("tg_entry")

    @property
    def declaration(self) -> str:
        """The prototype in C."""
        return f"int {self.name}({', '.join([p.declaration for p in self.parameters])});"

    @property
    def pointer_type(self) -> str:
        """The type of a pointer to it, in C."""
        return f"int (*)({', '.join([p.declaration.rpartition(p.name)[0].strip() for p in self.parameters])})"

    def as_ctypes(self) -> Any:
        """As a function of ctypes, which does not hold the GIL while it runs; arrays are given as ``x.ctypes.data``."""
        function: Any = ctypes.CFUNCTYPE(ctypes.c_int, *[p.c_type for p in self.parameters])(self.address)
        function.code = self._code
        return function

    def __repr__(self) -> str:
        return f"<native function {self.declaration}>"


def loaded(native: EntryText) -> MachineCode:
    """The machine code of *native*, in this process."""
    return jit.compile_text(native.text, "tg_entry").load()
