"""The kernel cache of the process: signature -> compiled program.

Bounded, least recently used first out, thread-safe.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict

from ..codegen.canonical import Canonical
from ..codegen.program import Program, compile_canonical
from .config import config


class KernelCache:
    """``get`` compiles what it does not hold; two threads that want one kernel compile it once."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._programs: OrderedDict[tuple, Program] = OrderedDict()
        self.hits = 0
        self.compiles = 0

    def get(self, canonical: Canonical, arguments: int) -> tuple[Program, bool]:
        """(program, was it there already)"""
        key = (arguments, canonical.key)
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                self._programs.move_to_end(key)
                self.hits += 1
                return found, True
            program = _compile(canonical, arguments)
            self.compiles += 1
            self._programs[key] = program
            while len(self._programs) > config.max_kernels:
                self._programs.popitem(last=False)
            return program, False

    def clear(self) -> None:
        with self._lock:
            self._programs.clear()

    def __len__(self) -> int:
        return len(self._programs)


def _compile(canonical: Canonical, arguments: int) -> Program:
    """The passes descend along chains of operations: a long Python loop makes a deep one."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 20 * _operations(canonical))
    try:
        return compile_canonical(canonical, arguments)
    finally:
        sys.setrecursionlimit(limit)


def _operations(canonical: Canonical) -> int:
    """How many operations there are, those of loops' bodies included."""
    bodies = [op.params["body"].program for op in canonical.ops if "body" in op.params]
    return len(canonical.ops) + sum(_operations(body) for body in bodies)


kernels = KernelCache()
