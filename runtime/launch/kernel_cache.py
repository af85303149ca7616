"""The kernel cache of the process: signature -> compiled program.

Bounded by ``config.max_kernels``.  The signature is ``Canonical.key``, which ``canonicalise`` makes
(``codegen/lower/canonical.py``); the key of a call, which comes before, is made in ``runtime/record/call_key.py``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from ...codegen.cpu.program import Program
from ...codegen.lower.canonical import Canonical
from ...codegen.lower.depth import recursion_for
from ...tracer.ir.foreign_code import uninterrupted
from ...tracer.ir.gc_pause import fewer_collections
from ...tracer.ir.working import Working
from ..config import config
from ..disk.programs import program_of
from ..recent import Recent

P = TypeVar("P")

# How a kernel was come by: it was compiled, was in the process already, or was read from disk.  What is no compilation
# is true.
COMPILED, KNOWN, FROM_DISK = False, True, 2


class KernelCache(Generic[P]):
    """A cache whose ``get`` compiles missing kernels. Threads that want one kernel compile it once; others go on
    meanwhile. An exception of a signal handler ends the wait for a kernel, not its compilation: it is there later."""

    def __init__(self, compile: Callable[[Canonical, int], P]) -> None:
        self._compile = compile
        self._programs: Recent[tuple, P] = Recent(lambda: config.max_kernels)
        self._gates: dict[tuple, threading.Lock] = {}  # of kernels that are being compiled
        self.lock = self._programs.lock
        self.hits = 0
        self.compiles = 0

    def get(self, canonical: Canonical, arguments: int) -> tuple[P, int]:
        """(program, how it was come by)"""
        key = (arguments, canonical.key)
        found = self._known(key)
        if found is not None:
            return found, KNOWN
        # the pause of the collector is this thread's: the one that compiles goes on after an interrupt
        with Working("compiling", len(canonical.ops)), fewer_collections():
            return uninterrupted(lambda: self._made(key, canonical, arguments))

    def _known(self, key: tuple) -> P | None:
        with self.lock:
            found = self._programs.find(key)
            self.hits += found is not None
            return found

    def _made(self, key: tuple, canonical: Canonical, arguments: int) -> tuple[P, int]:
        """As :meth:`get`, where the kernel was not there."""
        with self.lock:
            gate = self._gates.setdefault(key, threading.Lock())
        with gate:
            found = self._known(key)
            if found is not None:
                return found, KNOWN
            try:
                with recursion_for(canonical):
                    program = self._compile(canonical, arguments)
                read = getattr(program, "from_disk", False)
                with self.lock:
                    self.compiles += not read
                    return self._programs.keep(key, program), FROM_DISK if read else COMPILED
            finally:
                with self.lock:
                    self._gates.pop(key, None)

    def clear(self) -> None:
        with self.lock:
            self._programs.clear()

    def __len__(self) -> int:
        return len(self._programs)

    def alone(self) -> None:
        """Forget the threads that a forked child does not have; the lock is held."""
        self._gates.clear()
        self.lock.release()


kernels: KernelCache[Program] = KernelCache(program_of)
if hasattr(os, "register_at_fork"):  # a child must not wait for a thread that it does not have
    os.register_at_fork(before=kernels.lock.acquire, after_in_parent=kernels.lock.release, after_in_child=kernels.alone)
