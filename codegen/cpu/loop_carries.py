"""Steps and carries of a loop node as LLVM blocks and phis.

A loop has up to three exits: no iteration at all, the iteration whose condition is false, the last one.  A value
behind the loop is a phi over them (``Stepping.last``).
"""

from __future__ import annotations

import llvmlite.ir as ir

from ...tracer.ops.control import before_consts
from ..schedule.buffers import filled
from .hints import REPEATED, give_hint
from .loop_values import LoopValues
from .scalar import I64, PTR, memory_type, to_memory


class Stepping:
    """The control flow of the iterations from *first* to before *n*, at the builder's position; the body begins with
    phis."""

    def __init__(self, b: ir.IRBuilder, first: ir.Value, n: ir.Value):
        self.b, self.n = b, n
        self.before, self.body = b.block, b.append_basic_block("step")
        self.after = b.append_basic_block("steps_done")
        self.left: ir.Block | None = None
        b.cbranch(b.icmp_signed(">", n, first), self.body, self.after)
        b.position_at_end(self.body)
        self.number = b.phi(I64)
        self.number.add_incoming(first, self.before)

    def leave_unless(self, go_on: ir.Value) -> None:
        b = self.b
        self.left, taken = b.block, b.append_basic_block("step_taken")
        b.cbranch(go_on, taken, self.after)
        b.position_at_end(taken)

    def finish(self) -> None:
        b = self.b
        self.following = b.add(self.number, I64(1), flags=("nuw", "nsw"))
        self.number.add_incoming(self.following, b.block)
        self.end = b.block
        give_hint(b.cbranch(b.icmp_signed("<", self.following, self.n), self.body, self.after), REPEATED)
        b.position_at_end(self.after)

    def last(self, kind: ir.Type, none: ir.Value, left: ir.Value, done: ir.Value) -> ir.Value:
        """The exit phi: *none* after no iteration, *left* where the condition was false, *done* after the last."""
        value = self.b.phi(kind)
        value.add_incoming(none, self.before)
        value.add_incoming(done, self.end)
        if self.left is not None:
            value.add_incoming(left, self.left)
        return value


class Carry:
    """One carry of a loop: in stack slots, or in two alternating buffers; *in place* there is one of either."""

    def __init__(self, loop: LoopValues, k: int, n: ir.Value):
        op, program = loop.plan.op, loop.plan.program
        inside = op.params["consts"] + k
        position = before_consts(op.params) + inside
        self.loop, self.n, self.stops = loop, n, op.params["stops"]
        self.before, self.after = program.inputs[inside], program.outputs[self.stops + k]
        self.given = op.ins[position]
        self.fill = filled(loop.frame.program, op, position)
        self.result = loop.result(k)
        self.size = loop.plan.carried.get(self.before)
        self.in_place = self.before in loop.plan.versions

    def start(self) -> None:
        """Initialise the carry before the first iteration."""
        loop, b = self.loop, self.loop.b
        if self.size is not None:
            self.old = loop.slots(self.before, self.size)
            self.new = self.old if self.in_place else loop.slots(self.before, self.size)
            loop.load_small(self.given, self.before, self.old, self.size, self.fill)
            loop.pointers[self.before], loop.pointers[self.after] = self.old, self.new
            return
        if self.in_place:
            loop.pointers[self.before] = loop.pointers[self.after] = self.result
            if self.fill is not None:
                self._each(to_memory(b, loop.frame.numbers.const(self.fill), self.fill.dtype), self.result)
            elif loop.outside(self.given) is not self.result:
                self._each(None, self.result, loop.outside(self.given))
            return
        # The last step should write the result: which buffer the first one writes follows from the number of steps,
        # where that is known; else the final value may have to be copied from the other buffer.
        self.spare = loop.frame.pointer(loop.plan.spares[self.before])
        odd = ir.Constant(ir.IntType(1), 1) if self.stops else b.trunc(self.n, ir.IntType(1))
        self.first = b.select(odd, self.result, self.spare)
        if self.fill is not None:
            self.initial = b.select(odd, self.spare, self.result)
            value = to_memory(b, loop.frame.numbers.const(self.fill), self.fill.dtype)
            self._each(value, self.initial)
        else:
            self.initial = loop.outside(self.given)

    def open(self, before: ir.Block) -> None:
        if self.size is None and not self.in_place:
            b = self.loop.b
            self.reading, self.writing = b.phi(PTR), b.phi(PTR)
            self.reading.add_incoming(self.initial, before)
            self.writing.add_incoming(self.first, before)
            self.loop.pointers[self.before], self.loop.pointers[self.after] = self.reading, self.writing

    def close(self) -> None:
        """Pass the new value on at the end of an iteration."""
        b = self.loop.b
        if self.in_place:
            return
        if self.size is not None:
            self.loop.copy_small(self.new, self.old, self.before, self.size)
            return
        at_result = b.icmp_unsigned("==", self.writing, self.result)
        self.following = b.select(at_result, self.spare, self.result)
        self.reading.add_incoming(self.writing, b.block)
        self.writing.add_incoming(self.following, b.block)

    def merge(self, step: Stepping) -> None:
        """Add the exit phi of the carry's buffer."""
        if self.size is None and self.stops and not self.in_place:
            self.final = step.last(PTR, self.initial, self.reading, self.writing)

    def finish(self) -> None:
        """Put the final value into the result's buffer."""
        loop, b = self.loop, self.loop.b
        if self.size is not None:
            loop.copy_small(self.old, self.result, self.before, self.size)
        elif self.in_place:
            return
        elif self.stops:
            with b.if_then(b.icmp_unsigned("!=", self.final, self.result)):
                self._each(None, self.result, self.final)
        elif self.fill is None:
            with b.if_then(b.icmp_signed("<=", self.n, I64(0))):
                self._each(None, self.result, self.initial)

    def _each(self, value: ir.Value | None, target: ir.Value, source: ir.Value | None = None) -> None:
        """Fill *target* with *value*, or with the elements of *source*."""
        b, kind = self.loop.b, memory_type(self.before.dtype)
        with self.loop.frame.each(self.loop.count(self.before)) as i:
            new = value if source is None else b.load(b.gep(source, [i], source_etype=kind), typ=kind)
            b.store(new, b.gep(target, [i], source_etype=kind))
