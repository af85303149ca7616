"""Machine code in memory: who owns it, and when it is freed.

Callables whose code is not Python's (builtins, ctypes functions) do not own that code. Two rules keep them from running
what is gone.

* A kernel's code is owned by a :class:`MachineCode`, which each callable that can run it refers to, by references that
  the garbage collector never cuts (``bind.py``). It is freed when the last of them is gone, so dropping kernels frees
  memory.
* What the process has one of (the launcher, its workspace, definitions of builtins) is ``immortal`` (``cpython.py``).
  When the interpreter ends, modules are emptied in no useful order, and builtins outlive the module that made them:
  finalisers may still call them, and the last collections look into their definitions.

Nothing else is imported for it where ``elf.py`` can load the code; else llvmlite is, and never numba.
"""

from __future__ import annotations

import _thread
import contextlib
import importlib
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...tracer.ir.foreign_code import foreign_code
from .cpython import immortal
from .elf import UnsupportedObjectError, image, undefined_symbols
from .symbols import address_of


class Engine(Protocol):
    """The owner of machine code: an image, or an engine of LLVM's."""

    def get_function_address(self, name: str) -> int: ...


class MachineCode(NamedTuple):
    """Loaded machine code, which is freed with the last reference to the handle.

    Nothing here is ever emptied by the garbage collector: it does not know of plain ndarrays, and leaves tuples alone.
    So callables of a cycle that is being taken apart, which a finaliser may call, still have their code.
    """

    handle: np.ndarray

    def address(self, function: str) -> int:
        """Entry point of *function*, which must be there."""
        return loaded.engines[int(self.handle)].get_function_address(function)


class ObjectCode(NamedTuple):
    """Machine code that is not loaded; *symbols* are the names with a colon among those that it wants addresses for."""

    code: bytes
    symbols: tuple[str, ...]

    def load(self) -> MachineCode:
        """Raises UnknownSymbolError where this process lacks something that it calls."""
        return load(self.code, self.symbols)


class _Loaded:
    """The engines of the process. One that is not needed any more is freed at once, in a thread that nothing interrupts
    in the middle of LLVM. The methods that finalisers call use no globals, since the module may have been emptied by
    then."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.serial = itertools.count()
        self.engines: dict[int, Engine] = {}
        self.handles: dict[int, weakref.ref[np.ndarray]] = {}
        self.dead: list[Engine] = []

    def add(self, engine: Engine) -> MachineCode:
        number = next(self.serial)
        handle = np.array(number)
        self.engines[number], self.handles[number] = engine, weakref.ref(handle, lambda _: self.drop(number))
        return MachineCode(handle)

    def drop(
        self, number: int, ends: Callable[[], bool] = sys.is_finalizing,
        start: Callable[..., object] = _thread.start_new_thread, code: Any = foreign_code,
    ) -> None:  # fmt: skip
        del self.handles[number]
        self.dead.append(self.engines.pop(number))
        if len(self.dead) == 1 and code.last is None and not ends():
            start(self.sweep, ())

    def sweep(self) -> None:
        """Free the engines that are not needed."""
        with self:
            pass

    def release(self) -> None:
        try:
            while self.dead:
                self.dead.pop()
        finally:
            self.lock.release()

    def __enter__(self) -> None:
        foreign_code.__enter__()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
        foreign_code.__exit__()


loaded = immortal(_Loaded())
_held: list[list[Any]] = []  # the locks that a fork waits for


def _before_fork() -> None:
    """A child must not begin with LLVM in the middle of something; llvmlite has a lock of its own, once it is there."""
    lib = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    own = getattr(getattr(lib, "_lock", None), "_lock", None)
    locks = [loaded.lock] if own is None else [loaded.lock, own]
    for lock in locks:
        lock.acquire()
    _held.append(locks)


def _after_fork() -> None:
    for lock in reversed(_held.pop()):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def load(
    object_code: bytes, symbols: Iterable[str] = (), addresses: Mapping[str, int] = MappingProxyType({})
) -> MachineCode:
    """Link *object_code* into the process. What it lacks has one of *addresses*, else a name that ``symbols.py`` knows;
    the names with a colon among these are *symbols*.

    Raises:
        UnknownSymbolError: it wants an address that nothing has in this process.
    """

    def address(name: str) -> int:
        return addresses.get(name) or address_of(name)

    symbols = tuple(symbols)
    for name in symbols:  # what provides one may load code of its own
        address(name)
    with loaded:
        try:
            return loaded.add(image(object_code, address))
        except UnsupportedObjectError:
            return loaded.add(_linked_by_llvm(object_code, {name: address(name) for name in (*symbols, *addresses)}))


def _linked_by_llvm(object_code: bytes, addresses: Mapping[str, int]) -> Engine:
    """An engine of LLVM's. A symbol that it does not find ends the process, so they are looked up before."""
    llvm: Any = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, address in addresses.items():
        llvm.add_symbol(name, address)
    with contextlib.suppress(UnsupportedObjectError):
        for name in undefined_symbols(object_code):
            if not llvm.address_of_symbol(name):
                llvm.add_symbol(name, address_of(name))
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
    engine.finalize_object()
    return engine
