"""Machine code in memory: who owns it, and when it is freed.

Callables whose code is not Python's (builtins, ctypes functions) do not own that code. Two rules keep them from running
what is gone.

* A kernel's code is owned by a :class:`MachineCode`, which each callable that can run it refers to, by references that
  the garbage collector never cuts (``bind.py``). It is freed when the last of them is gone, so dropping kernels frees
  memory.
* What the process has one of (the launcher, its workspace, definitions of builtins) is :func:`immortal`. When the
  interpreter ends, modules are emptied in no useful order, and builtins outlive the module that made them: finalisers
  may still call them, and the last collections look into their definitions.

numba need not be imported here: llvmlite is enough.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import weakref
from typing import NamedTuple, TypeVar

import llvmlite.binding as llvm
import numpy as np

from ...tracer.ir.foreign_code import foreign_code

T = TypeVar("T")

_incref = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


def immortal(value: T) -> T:
    """*value*, which is never freed, and never emptied by the garbage collector: a reference to it is given away."""
    _incref(value)
    return value


class MachineCode(NamedTuple):
    """Loaded machine code, which is freed with the last reference to the handle.

    Nothing here is ever emptied by the garbage collector: it does not know of plain ndarrays, and leaves tuples alone.
    So callables of a cycle that is being taken apart, which a finaliser may call, still have their code.
    """

    handle: np.ndarray

    def address(self, function: str) -> int:
        """Entry point of *function*, which must be there."""
        return loaded.engines[int(self.handle)].get_function_address(function)


class _Loaded:
    """The engines of the process. One that is not needed any more is freed at once, unless LLVM is at work: then after
    that. The methods that finalisers call use no globals, since the module may have been emptied by then."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.serial = itertools.count()
        self.engines: dict[int, llvm.ExecutionEngine] = {}
        self.handles: dict[int, weakref.ref[np.ndarray]] = {}
        self.dead: list[llvm.ExecutionEngine] = []

    def add(self, engine: llvm.ExecutionEngine) -> MachineCode:
        number = next(self.serial)
        handle = np.array(number)
        self.engines[number], self.handles[number] = engine, weakref.ref(handle, lambda _: self.drop(number))
        return MachineCode(handle)

    def drop(self, number: int) -> None:
        del self.handles[number]
        self.dead.append(self.engines.pop(number))
        if self.lock.acquire(blocking=False):
            self.release()

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
if hasattr(os, "register_at_fork"):  # a child must not begin with LLVM in the middle of something
    os.register_at_fork(
        before=loaded.lock.acquire, after_in_parent=loaded.lock.release, after_in_child=loaded.lock.release
    )


def load(object_code: bytes) -> MachineCode:
    """Link *object_code* into the process; what it lacks are symbols of the process and of ``llvm.add_symbol``."""
    with loaded:
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        engine.finalize_object()
        return loaded.add(engine)
