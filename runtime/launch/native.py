"""Small native helpers: LLVM IR to the address of a function, and a function as a builtin of Python's.

llvmlite alone compiles them, where they are not found on disk. Functions and objects of this process are symbols of the
code, so it is the same in each process; offsets in objects are numbers of the text, which is the key.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from string import Template
from typing import Any, NamedTuple

from ...codegen.cpu.machine_code import MachineCode, immortal, load, loaded
from ...tracer.ir.foreign_code import uninterrupted
from ..disk.generation import key_text
from ..disk.store import store
from .object_layout import python_api

_METH_KEYWORDS, _METH_FASTCALL = 0x0002, 0x0080


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class NativeText(NamedTuple):
    """LLVM IR, and the addresses of its symbols."""

    text: str
    addresses: dict[str, int]


KIND = "native"


def compile_function(source: NativeText, name: str) -> int:
    """The address of the function *name* of the machine code of *source*, which lives as long as the process."""
    return uninterrupted(lambda: immortal(_code_of(source, name)).address(name))


def _code_of(source: NativeText, name: str) -> MachineCode:
    key = key_text(name, source.text)
    object_code = None if key is None else store.get(KIND, key)
    if object_code is None:
        object_code = _compiled(source.text)
        if key is not None:
            store.put(KIND, key, object_code)
    return load(object_code, (), source.addresses)


def _compiled(text: str) -> bytes:
    """The object code of *text*."""
    llvm: Any = importlib.import_module("llvmlite.binding")
    with loaded:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=2, jit=True)
        module = llvm.parse_assembly(text)
        module.verify()
        return machine.emit_object(module)


_FIELD = re.compile(r"^( *)(.*\b(?:load|store) .*, ptr )(%[\w.]+)\[(\w+) ([^\]]+)\]", re.MULTILINE)


def filled(text: str, numbers: Mapping[str, Any], addresses: Mapping[str, int], functions: Iterable[str]) -> NativeText:
    """*text* with ``$name`` replaced: by numbers, by symbols, of functions of CPython's API among them; and fields,
    ``%x = load i64, ptr %table[ptr 3]``, by the two instructions that load or store them."""
    pointers = {**addresses, **{name: python_api(name) for name in functions}}
    first = {address: name for name, address in reversed(pointers.items())}  # LLVM takes two symbols for two places
    symbols = {f"here:{name}": address for address, name in first.items()}
    fields: dict[str, Any] = {name: f'@"here:{first[address]}"' for name, address in pointers.items()}
    declared = "\n".join(f'@"{symbol}" = external global %somewhere' for symbol in symbols)
    place = itertools.count()

    def in_two(m: re.Match[str]) -> str:
        at = f"%field.{next(place)}"
        return f"{m[1]}{at} = getelementptr {m[4]}, ptr {m[3]}, i64 {m[5]}\n{m[1]}{m[2]}{at}"

    body = _FIELD.sub(in_two, Template(text).substitute(fields | dict(numbers)))
    return NativeText(f"%somewhere = type opaque\n{declared}\n{body}", symbols)


def builtins_of(
    address: int, name: bytes, doc: bytes, *, keywords: bool = False
) -> Callable[[object], Callable[..., Any]]:
    """``self -> builtin``: builtins of the C function ``f(self, args, nargs)`` at *address*; with *keywords*, it takes
    their names as well."""
    method = immortal(_MethodDef(name, address, _METH_FASTCALL | (_METH_KEYWORDS if keywords else 0), doc))
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    at = ctypes.addressof(method)
    return lambda self: new(at, self, None)
