"""Threads of a GPU in LLVM IR: indices, barriers, shuffles, and ranges divided among threads.

A ``ThreadEmitter`` uses seven functions of a GPU (``INTRINSICS``): thread and block indices, barrier, shuffle, shared
memory.  ``ptx.py`` defines them for a GPU, ``tests/support/simulator.py`` on the CPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import llvmlite.ir as ir

from ..cpu.loop_nest import ItemEmitter
from ..cpu.scalar import I32, I64, PTR, declare, ranging
from ..lower.canonical import Canonical, Sym
from ..schedule.index_maps import Indices
from ..schedule.loop_tree import Schedule
from .libdevice import DeviceScalars
from .mapping import Geometry

VOID = ir.VoidType()
INTRINSICS: dict[str, tuple[ir.Type, ...]] = {  # result, arguments
    "tg_thread": (I32,),  # index of the thread in its block
    "tg_threads": (I32,),  # threads of a block
    "tg_block": (I32,),  # index of the block
    "tg_blocks": (I32,),
    "tg_barrier": (VOID,),  # barrier and memory fence of the block
    "tg_shuffle": (I32, I32, I32),  # (value, mask): xor shuffle within the warp
    "tg_shared": (PTR,),  # shared memory of the block: two 8-byte places for each warp
}


class ThreadEmitter(ItemEmitter):
    """The CPU's emitter of items, as one of many threads."""

    scalars = DeviceScalars

    def __init__(
        self, program: Canonical, schedule: Schedule, module: ir.Module, name: str, used: list[Sym],
        geometry: Geometry, aliased: set[Sym] = frozenset(), inline: bool = False,  # type: ignore[assignment]
    ):  # fmt: skip
        super().__init__(program, schedule, module, name, used, inline=inline)
        self.geometry = geometry
        if not inline:
            self.function.linkage = ""
            self.function.attributes.discard("noinline")
        # No noalias where one thread writes and another reads, nor for calls in a loop: LLVM 7 takes noalias of one
        # call there for a promise about all of them together.
        for sym in used if inline else aliased:
            self.pointer[sym].attributes.discard("noalias")
        self.thread, self.threads, self.block, self.blocks = (
            self.entry.zext(self.intrinsic(f"tg_{name}", at=self.entry), I64)
            for name in ("thread", "threads", "block", "blocks")
        )
        self.cooperating = False  # all threads of the block are here, with the same values
        self.slots: frozenset[Sym] = frozenset()  # values of which each thread has its own copy
        self.written = False  # some thread may have written to memory since the last barrier

    def intrinsic(self, name: str, *args: ir.Value, at: ir.IRBuilder | None = None) -> Any:
        b = at or self.b
        return b.call(declare(b.module, name, *INTRINSICS[name]), args)

    def barrier(self) -> None:
        self.intrinsic("tg_barrier")

    def shuffle(self, value: ir.Value, mask: int) -> ir.Value:
        """The *value* of the thread in this warp whose number differs by *mask*."""
        b, kind = self.b, value.type
        if isinstance(kind, (ir.FloatType, ir.DoubleType)):
            whole = ir.IntType(32 if isinstance(kind, ir.FloatType) else 64)
            return b.bitcast(self.shuffle(b.bitcast(value, whole), mask), kind)
        if kind.width == 64:
            low, high = b.trunc(value, I32), b.trunc(b.lshr(value, I64(32)), I32)
            low, high = (self.intrinsic("tg_shuffle", part, I32(mask)) for part in (low, high))
            return b.or_(b.shl(b.zext(high, I64), I64(32)), b.zext(low, I64))
        wide = value if kind.width == 32 else b.zext(value, I32)
        moved = self.intrinsic("tg_shuffle", wide, I32(mask))
        return moved if kind.width == 32 else b.trunc(moved, kind)

    def first_thread(self) -> Any:
        """A context in which only the block's first thread is."""
        return self.b.if_then(self.b.icmp_signed("==", self.thread, I64(0)))

    def store(self, x: Sym, at: Indices, value: ir.Value) -> None:
        if not self.cooperating or x in self.slots:
            super().store(x, at, value)
            return
        with self.first_thread():
            super().store(x, at, value)

    def alone(self) -> Any:
        """A context in which only the first thread of all is."""
        return self.b.if_then(self.b.icmp_signed("==", self.b.or_(self.block, self.thread), I64(0)))

    # ---- ranges ----------------------------------------------------------------------------------------------------

    def spread(self, count: ir.Value) -> AbstractContextManager[ir.Value]:
        """All threads of all blocks over 0 <= i < count."""
        b = self.b
        first = b.add(b.mul(self.block, self.threads), self.thread)
        return ranging(b, first, count, b.mul(self.threads, self.blocks))

    def shared_out(self, count: ir.Value) -> AbstractContextManager[ir.Value]:
        """The threads of the block over 0 <= i < count."""
        return ranging(self.b, self.thread, count, self.threads)
