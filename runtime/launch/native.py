"""Small native helpers: LLVM IR to the address of a function, and a function as a builtin of Python's.

llvmlite alone compiles them: a process which finds all its kernels on disk need not import numba. Addresses of
functions and objects of this process are written into the IR as numbers, which spares a linker and its tables.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from string import Template
from typing import Any

import llvmlite.binding as llvm

from ...codegen.cpu.machine_code import immortal, load
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


def compile_function(text: str, name: str) -> int:
    """The address of the function *name* of the machine code of *text*, which lives as long as the process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=2, jit=True)
    module = llvm.parse_assembly(text)
    module.verify()
    return immortal(load(machine.emit_object(module))).address(name)


_FIELD = re.compile(r"^( *)(.*\b(?:load|store) .*, ptr )(%[\w.]+)\[(\w+) ([^\]]+)\]", re.MULTILINE)


def filled(text: str, numbers: Mapping[str, int], addresses: Mapping[str, int], functions: Iterable[str]) -> str:
    """*text* with ``$name`` replaced: by numbers, by constant pointers, to functions of CPython's API among them; and
    fields, ``%x = load i64, ptr %table[ptr 3]``, by the two instructions that load or store them."""
    pointers = {**addresses, **{name: python_api(name) for name in functions}}
    fields: dict[str, Any] = {name: f"inttoptr (i64 {address} to ptr)" for name, address in pointers.items()}
    place = itertools.count()

    def in_two(m: re.Match[str]) -> str:
        at = f"%field.{next(place)}"
        return f"{m[1]}{at} = getelementptr {m[4]}, ptr {m[3]}, i64 {m[5]}\n{m[1]}{m[2]}{at}"

    return _FIELD.sub(in_two, Template(text).substitute(fields | dict(numbers)))


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
