"""The kernel cache of the process: signature -> compiled program.

Bounded by ``config.max_kernels``.  The signature is ``Canonical.key``, which ``canonicalise`` makes
(``codegen/lower/canonical.py``); the key of a call, which comes before, is made in ``runtime/record/call_key.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Generic, TypeVar

from ...codegen.cpu.assemble import Program, compile_canonical
from ...codegen.lower.canonical import Canonical
from ...tracer.ir.foreign_code import foreign_code
from ..config import config
from ..recent import Recent

P = TypeVar("P")


class KernelCache(Generic[P]):
    """A cache whose ``get`` compiles missing kernels; two threads that want one kernel compile it once."""

    def __init__(self, compile: Callable[[Canonical, int], P]) -> None:
        self._compile = compile
        self._programs: Recent[tuple, P] = Recent(lambda: config.max_kernels)
        self.lock = self._programs.lock
        self.hits = 0
        self.compiles = 0

    def get(self, canonical: Canonical, arguments: int) -> tuple[P, bool]:
        """(program, was it there already)"""
        key = (arguments, canonical.key)
        with foreign_code, self.lock:
            found = self._programs.find(key)
            if found is not None:
                self.hits += 1
                return found, True
            program = self._deeply(canonical, arguments)
            self.compiles += 1
            return self._programs.keep(key, program), False

    def _deeply(self, canonical: Canonical, arguments: int) -> P:
        """Compile with a raised recursion limit: passes descend along chains of operations (a long Python loop)."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + 20 * _operations(canonical))
        try:
            return self._compile(canonical, arguments)
        finally:
            sys.setrecursionlimit(limit)

    def clear(self) -> None:
        with self.lock:
            self._programs.clear()

    def __len__(self) -> int:
        return len(self._programs)


def _operations(canonical: Canonical) -> int:
    """The number of operations, those of loops' bodies included."""
    bodies = [op.params["body"].program for op in canonical.ops if "body" in op.params]
    return len(canonical.ops) + sum(_operations(body) for body in bodies)


kernels: KernelCache[Program] = KernelCache(compile_canonical)
if hasattr(os, "register_at_fork"):  # a child must not wait for a thread that it does not have
    os.register_at_fork(
        before=kernels.lock.acquire, after_in_parent=kernels.lock.release, after_in_child=kernels.lock.release
    )
