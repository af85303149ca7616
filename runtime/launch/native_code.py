"""LLVM IR to the address of a function: read from disk, or compiled by llvmlite alone and kept there."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...codegen.cpu.cpython import immortal
from ...codegen.cpu.machine_code import MachineCode, load, loaded
from ...tracer.ir.foreign_code import uninterrupted
from ..disk.generation import key_text
from ..disk.store import store


class NativeText(NamedTuple):
    """LLVM IR, and the addresses of its symbols."""

    text: str
    addresses: dict[str, int]


KIND = "native"


def compile_function(source: NativeText, name: str, level: int = 2) -> int:
    """The address of the function *name* of the machine code of *source*, which lives as long as the process; *level*:
    of LLVM's code generation, which takes three times as long from 1 on."""
    return compile_functions(source, (name,), level)[0]


def compile_functions(source: NativeText, names: tuple[str, ...], level: int = 2) -> list[int]:
    """As :func:`compile_function`, of several."""

    def made() -> list[int]:
        code = immortal(_code_of((*names, str(level), source.text), source.addresses, lambda: source.text, level))
        return [code.address(name) for name in names]

    return uninterrupted(made)


def known_function(
    key: tuple[str, ...], name: str, addresses: Mapping[str, int], text: Callable[[], str], level: int = 2
) -> int:
    """As :func:`compile_function`, of a *text* that nothing but our own sources and the processor decides: it is made
    where nothing is kept under the *key*."""
    return uninterrupted(lambda: immortal(_code_of(key, addresses, text, level)).address(name))


def _code_of(parts: tuple[str, ...], addresses: Mapping[str, int], text: Callable[[], str], level: int) -> MachineCode:
    key = key_text(*parts)
    object_code = None if key is None else store.get(KIND, key)
    if object_code is None:
        object_code = _compiled(text(), level)
        if key is not None:
            store.put(KIND, key, object_code)
    return load(object_code, (), addresses)


def _compiled(text: str, level: int) -> bytes:
    """The object code of *text*."""
    llvm: Any = importlib.import_module("llvmlite.binding")
    with loaded:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=level, jit=True)
        module = llvm.parse_assembly(text)
        module.verify()
        return machine.emit_object(module)
