"""Native functions: a fixed call as a C function in this process, for whoever takes an address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...codegen.cpu import jit
from ...codegen.cpu.host_rows import without_numpy
from ...codegen.cpu.machine_code import MachineCode, load
from ...codegen.cpu.native_entry import EntryText, NotNativeError, Sized, defined_in, entry_text, table_text
from ...codegen.lower.canonical import canonicalise
from ...codegen.lower.depth import recursion_for
from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.site import at_site
from .fixed import FixedCall, identifier
from .sizes import Size, SizedCall

_C_TYPES = {
    "float64": ("double", ctypes.c_double), "float32": ("float", ctypes.c_float), "bool": ("uint8_t", ctypes.c_uint8),
    "complex128": ("double", ctypes.c_double), "complex64": ("float", ctypes.c_float),
    **{f"{u}int{n}": (f"{u}int{n}_t", getattr(ctypes, f"c_{u}int{n}")) for u in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip


@dataclass(frozen=True)
class CParameter:
    """A parameter of a C function: a number by value, or memory of *shape*; *written*: for a result; *is_size*: one of
    the sizes that shapes may name.  A complex number is two numbers in memory, never a value."""

    name: str
    dtype: np.dtype
    shape: tuple[Size, ...]
    by_value: bool = False
    written: bool = False
    is_size: bool = False
    kind: str = "array"  # of an argument: "array", or that of a number

    @property
    def declaration(self) -> str:
        kind = _C_TYPES[self.dtype.name][0]
        if self.by_value:
            return f"{kind} {self.name}"
        return f"{kind} *{self.name}" if self.written else f"const {kind} *{self.name}"

    @property
    def c_type(self) -> Any:
        return _C_TYPES[self.dtype.name][1] if self.by_value else ctypes.c_void_p


def parameters(call: FixedCall | SizedCall) -> list[CParameter]:
    """The parameters of the C function for *call*: its arguments that are data, its sizes, then its results.

    Raises:
        UnsupportedError: C has no type for one of them.
    """
    calls, names = ([call], ()) if isinstance(call, FixedCall) else ([*call.calls.values()], call.names)
    fixed = calls[0]

    def shape(shapes: Sequence[tuple[int, ...]]) -> tuple[Size, ...]:
        return shapes[0] if isinstance(call, FixedCall) else call.shape(shapes)

    given = [
        CParameter(x.name, x.dtype, shape([other.operands[k].shape for other in calls]), x.by_value, kind=x.kind)
        for k, x in enumerate(fixed.operands)
    ]
    given += [CParameter(name, np.dtype(np.int64), (), by_value=True, is_size=True) for name in names]
    made = [
        CParameter(name, dtype, shape([x.results[k][2] for x in calls]), written=True)
        for k, (name, dtype, _) in fixed.results.items()
    ]
    if not made:
        raise UnsupportedError(f"{fixed.name} can't be a native function: nothing of its result is computed")
    taken: set[str] = {*names}
    found = []
    for p in (*given, *made):
        if p.dtype.name not in _C_TYPES:
            raise UnsupportedError(f"{fixed.name} can't be a native function: `{p.name}` is of dtype {p.dtype}")
        plain = base = p.name if p.is_size else identifier(p.name)
        for k in range(2, len(taken) + 3):
            if plain not in taken or p.is_size:
                break
            plain = f"{base}_{k}"
        taken.add(plain)
        found.append(replace(p, name=plain))
    return found


def native_text(call: FixedCall | SizedCall, name: str, more: str = "") -> EntryText:
    """LLVM IR of the C function *name* for *call*; *more*: of functions that call it.

    Raises:
        UnsupportedError: it has steps for which there is none.
    """
    table = {(): call} if isinstance(call, FixedCall) else call.calls
    fixed = next(iter(table.values()))
    numbers = [x.by_value for x in fixed.operands]
    unused = sorted(set(range(len(fixed.graph.outputs))).difference(fixed.result_names))
    rows = []
    for sizes, own in table.items():
        graph = without_numpy(own.graph)
        canonical = own.canonical if graph is own.graph else canonicalise(graph)
        rows.append(Sized(sizes, canonical, [array for _, array in graph.consts]))
    try:
        with recursion_for(rows[0].canonical):
            if isinstance(call, FixedCall):
                return entry_text(rows[0].canonical, numbers, rows[0].consts, name, more, unused)
            return table_text(rows, numbers, name, unused)
    except NotNativeError as error:
        raise UnsupportedError(at_site(f"{fixed.name} can't be a native function: {error}", error.site)) from None


class NativeFunction:
    """A C function in this process, whose code lives as long as this object, or what it has made.

    ``address`` is its address, ``declaration`` its C prototype: ``ffi.cast(f.pointer_type, f.address)`` calls it by
    cffi, ``f.as_ctypes()`` by ctypes.  It needs no interpreter, and threads may run it at once.
    """

    def __init__(self, fixed: FixedCall | SizedCall) -> None:
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


class LoadedEntry(NamedTuple):
    """Machine code of a function in this process, with that of *others* that it calls."""

    code: MachineCode
    others: tuple[MachineCode, ...]

    def address(self, name: str) -> int:
        return self.code.address(name)


def loaded(native: EntryText) -> LoadedEntry:
    """The machine code of *native*, in this process."""
    others = tuple([jit.compile_text(text, "tg_entry").load() for text in native.others])
    places: dict[str, int] = {}
    for code, text in zip(others, native.others, strict=True):
        places |= {name: code.address(name) for name in defined_in(text)}
    made = jit.compile_text(native.text, "tg_entry")
    return LoadedEntry(load(made.code, made.symbols, places), others)
