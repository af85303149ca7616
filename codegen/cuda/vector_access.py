"""Elementwise nests with 16-byte loads and stores: a thread takes several neighbouring units at a time, its *lanes*.

One load instruction then brings four float32 or two float64, so fewer warps keep the memory busy.  ``lanes_of`` says
for which nests: short bodies without loops, in which each unit is an element of its own.  ``LaneEmitter`` writes the
body once for each lane.  An array is *streamed* where it is read or written at the unit's own position: its lanes are
one vector.  All else is read lane by lane, as everywhere.  Sums over the units stay as they are: in which order numbers
are added must not depend on where an array lies, and libNVVM unrolls their loops, which has as many loads under way.

Results have the alignment that vectors need, a caller's arrays may not: that is looked at when the kernel runs.  The
loop over single units, which does what is left over at the end, then does everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ...tracer.ir.aval import FLOAT16
from ...tracer.ir.primitive import ELEMENTWISE
from ..cpu.hints import ROLLED
from ..cpu.scalar import I64, from_memory, memory_type, ranging, to_memory
from ..lower.canonical import ONE, Canonical, Dim, Sym
from ..schedule.affine import loop_var
from ..schedule.dependences import carries
from ..schedule.index_maps import Condition, Indices
from ..schedule.loop_tree import Loop, Schedule, Statement
from .kernels import KernelEmitter
from .mapping import THREAD, Mapping, prefix

VECTOR = 16  # bytes that a thread loads at once
MOST = 4  # lanes
LANE_FLOPS = 64  # work of a unit up to which its code is written several times


def streamed(x: Sym, at: Indices | None, dims: Sequence[Dim]) -> bool:
    """Whether *at* is the position of the unit itself, in loops over *dims*."""
    if at is None or [d for d in x.dims if d != ONE] != list(dims):
        return False
    return [i for d, i in zip(x.dims, at, strict=True) if d != ONE] == [loop_var(k) for k in range(len(dims))]


def _touched(schedule: Schedule, statement: Statement, dims: Sequence[Dim]) -> set[Sym]:
    """The streamed arrays of *statement*."""
    return {statement.out} | {x for x, at in schedule.reads[statement.out].stored if streamed(x, at, dims)}


def lanes_of(program: Canonical, schedule: Schedule, nest: Loop, mapping: Mapping) -> int:
    """The number of units that a thread takes at a time; 1: no vectors."""
    loops = prefix(nest)
    body = loops[-1].body
    if mapping.by != THREAD or mapping.partial or mapping.loops != len(loops):
        return 1
    statements = [s for s in body if isinstance(s, Statement)]
    if len(statements) != len(body) or any(carries(s.op) for s in statements):
        return 1
    inlined = {(x, at) for s in statements for x, at in schedule.reads[s.out].inlined}
    producers = [program.producers[x] for x, _ in inlined]
    if sum(op.prim.cost for op in producers if op.prim.kind == ELEMENTWISE) > LANE_FLOPS:
        return 1
    dims = [loop.dim for loop in loops]
    widest = max(x.dtype.itemsize for s in statements for x in _touched(schedule, s, dims))
    return min(VECTOR // widest, MOST)


def _pack(b: ir.IRBuilder, elements: Sequence[ir.Value], dtype: np.dtype) -> ir.Value:
    """The *elements* of neighbouring units, as they are in memory, in one register."""
    if dtype != FLOAT16:
        vector: ir.Value = ir.Constant(ir.VectorType(memory_type(dtype), len(elements)), ir.Undefined)
        for k, element in enumerate(elements):
            vector = b.insert_element(vector, element, ir.IntType(32)(k))
        return vector
    word = _register(dtype, len(elements))
    packed: ir.Value = word(0)
    for k, element in enumerate(elements):
        packed = b.or_(packed, b.shl(b.zext(b.bitcast(element, ir.IntType(16)), word), word(16 * k)))
    return packed


def _unpack(b: ir.IRBuilder, register: ir.Value, lane: int, dtype: np.dtype) -> ir.Value:
    """The element of one lane of a register of ``_pack``."""
    if dtype != FLOAT16:
        return b.extract_element(register, ir.IntType(32)(lane))
    bits = b.trunc(b.lshr(register, register.type(16 * lane)), ir.IntType(16))
    return b.bitcast(bits, memory_type(dtype))


def _register(dtype: np.dtype, lanes: int) -> ir.Type:
    """A vector; of float16 an integer, since libNVVM of CUDA 13.0 fails on conversions of vectors of four halves."""
    return ir.IntType(16 * lanes) if dtype == FLOAT16 else ir.VectorType(memory_type(dtype), lanes)


class LaneEmitter(KernelEmitter):
    """A kernel whose ``over_threads`` takes ``lanes`` units at a time."""

    lanes = 1
    dims: Sequence[Dim] = ()
    lane: int | None = None  # the one whose body is being written
    group_start: ir.Value  # its first unit
    prologue: ir.IRBuilder  # code that the lanes share, in front of the first
    loaded: dict[Sym, ir.Value]  # vectors
    held: dict[Sym, list[ir.Value]]  # elements that the lanes will store

    def over_threads(self, loops: Sequence[Loop]) -> None:
        if self.lanes == 1:
            super().over_threads(loops)
            return
        b = self.b
        self.dims = [loop.dim for loop in loops]
        first, step = b.add(b.mul(self.block, self.threads), self.thread), b.mul(self.threads, self.blocks)
        count = self.count(self.dims)
        groups = b.select(self._aligned(loops[-1].body), b.udiv(count, I64(self.lanes)), I64(0))
        with ranging(b, first, groups, step, ROLLED) as group:
            self._group(loops, b.mul(group, I64(self.lanes), flags=("nsw",)))
        rest = b.add(b.mul(groups, I64(self.lanes), flags=("nsw",)), first)
        self.units(loops, rest, step, lambda: self.items(loops[-1].body), ROLLED)

    def _aligned(self, body: Sequence[Any]) -> ir.Value:
        """Whether all streamed arrays are aligned for vector access (i1)."""
        b = self.b
        used = set().union(*[_touched(self.schedule, s, self.dims) for s in body])
        wrong: ir.Value = I64(0)
        for x in sorted(used, key=lambda sym: sym.number):
            address = b.ptrtoint(self.pointer[x], I64)
            wrong = b.or_(wrong, b.and_(address, I64(self.lanes * x.dtype.itemsize - 1)))
        return b.icmp_unsigned("==", wrong, I64(0))

    def _group(self, loops: Sequence[Loop], start: ir.Value) -> None:
        """The units from *start* on, one for each lane."""
        b, body = self.b, loops[-1].body
        b.branch(inside := b.append_basic_block("lanes"))
        prologue = ir.IRBuilder(b.block)
        prologue.position_before(b.block.terminator)
        self.prologue, self.group_start = prologue, start
        self.held, self.loaded = {}, {}
        b.position_at_end(inside)
        outer: dict[Any, ir.Value] = {}
        for lane in range(self.lanes):
            self.lane = lane
            unit = prologue.add(start, I64(lane), flags=("nsw",))
            indices: list[ir.Value] = []
            for loop in reversed(loops[1:]):
                indices.insert(0, prologue.urem(unit, self.size(loop.dim)))
                unit = prologue.udiv(unit, self.size(loop.dim))
            self.loops += [unit, *indices]
            self.homes += [prologue] * len(loops)
            self.scopes += [outer, *({} for _ in range(2 * len(loops) - 1))]
            self.items(body)
            del self.loops[-len(loops) :], self.homes[-len(loops) :], self.scopes[-2 * len(loops) :]
        self.lane = None
        for x, values in self.held.items():
            b.store(_pack(b, values, x.dtype), self._place(b, x), align=self.lanes * x.dtype.itemsize)

    def _place(self, b: ir.IRBuilder, x: Sym) -> ir.Value:
        kind = memory_type(x.dtype)
        return b.gep(self.pointer[x], [self.group_start], inbounds=True, source_etype=kind)

    def _compute(self, x: Sym, at: Indices, mask: tuple[Condition, ...], top: bool = False) -> ir.Value:
        if self.lane is None or mask or top or not self._stored(x) or not streamed(x, at, self.dims):
            return super()._compute(x, at, mask, top)
        if x not in self.loaded:
            kind = _register(x.dtype, self.lanes)
            self.loaded[x] = self.prologue.load(
                self._place(self.prologue, x), typ=kind, align=self.lanes * x.dtype.itemsize
            )
        return from_memory(self.b, _unpack(self.b, self.loaded[x], self.lane, x.dtype), x.dtype)

    def store(self, x: Sym, at: Indices, value: ir.Value) -> None:
        if self.lane is None:
            super().store(x, at, value)
            return
        self.held.setdefault(x, []).append(to_memory(self.b, value, x.dtype))
