"""Global value numbering across programs: steps with equal numbers compute the same bits, and run once.

Paths of one function that part at a branch have the same beginning.  Each has a kernel of its own, in which steps are
fused as suits that path; but what both need before the branch is often one and the same loop nest, library call or
loop over a body, on the same operands.  ``step_keys`` numbers the steps of a program, so that steps with one number
are the same code on the same bits: the same operations on the same arguments, constants and sizes, in the same loops,
with the same values stored.  So it makes no difference to any result whose step has run.

Numbers are given by interning into one dict: one for each *value* (what is computed, wherever), then one for each
*step* (how: the loops, and the steps behind the stored values that it reads).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tracer.ir.digests import blake2b
from ...tracer.ir.primitive import LOOP
from ..lower.canonical import Body, Canonical, CanonicalOp, Dim, Operand, Sym
from ..schedule.early_exit import stored_reads
from ..schedule.loop_tree import Loop, ScheduleItem, Statement, produces
from .program import Program

Table = dict[Any, int]


def step_keys(program: Program, numbers: Canonical, consts: Sequence[np.ndarray], table: Table) -> list[int]:
    """A number for each step of *program*, run with the sizes and constants of *numbers* and the constant arrays
    *consts*.  Numbers of programs with the same arguments may be compared where they come from the same *table*."""
    return _ValueNumbering(program, numbers, consts, table).steps()


def products(program: Program) -> dict[ScheduleItem, list[Sym]]:
    """The stored values of each item of the schedule that other items can read, in program order."""
    outs = [out for op in program.canonical.ops for out in op.outs if _whole(program, out)]
    order = {out: k for k, out in enumerate(outs)}
    return {item: sorted(produces(item) & order.keys(), key=order.__getitem__) for item in program.schedule.body}


def _whole(program: Program, sym: Sym) -> bool:
    """Whether *sym* is stored as a whole, not a row or a tile at a time."""
    return not program.schedule.contracted.get(sym, 0) and sym not in program.schedule.tiled


class _ValueNumbering:
    def __init__(self, program: Program, numbers: Canonical, consts: Sequence[np.ndarray], table: Table):
        self.program, self.canonical, self.numbers, self.table = program, program.canonical, numbers, table
        self.values: dict[Sym, int] = {}
        split = program.arguments
        for k, sym in enumerate(self.canonical.inputs):
            kind = ("argument", k) if k < split else ("array", _digest(consts[k - split]))
            self.values[sym] = self.intern((*kind, sym.dtype.str, self.shape(sym)))
        for op in self.canonical.ops:
            what = (op.prim.name, self.params(op), tuple([self.operand(x) for x in op.ins]))
            for k, out in enumerate(op.outs):
                self.values[out] = self.intern((*what, k, out.dtype.str, self.shape(out)))

    def intern(self, what: Any) -> int:
        return self.table.setdefault(what, len(self.table))

    def shape(self, x: Sym) -> tuple[int, ...]:
        return tuple([int(self.numbers.sizes[d]) for d in x.dims])

    def operand(self, x: Operand) -> Any:
        if isinstance(x, Sym):
            return self.values[x]
        bits = np.asarray(x.value).tobytes() if x.slot is None else self.numbers.consts[x.slot].tobytes()
        return (x.dtype.str, bits, x.slot is None)

    def params(self, op: CanonicalOp) -> Any:
        if op.prim.kind == LOOP:
            return self.loop_params(op)
        found = []
        for name, value in sorted(op.params.items()):
            if name == "start":
                value = tuple([v if isinstance(v, int) else int(self.numbers.sizes[v[1]]) for v in value])
            found.append((name, value.str if isinstance(value, np.dtype) else value))
        return tuple(found)

    def loop_params(self, op: CanonicalOp) -> Any:
        body: Body = op.params["body"]
        part, numbers = body.program, self.numbers
        sizes = numbers.sizes[body.sizes_at : body.sizes_at + len(part.sizes)].tobytes()
        consts = numbers.consts[body.consts_at : body.consts_at + len(part.consts)].tobytes()
        rest = tuple([op.params[name] for name in ("consts", "carries", "reverse", "counted", "stops")])
        return (part.key, sizes, consts, int(numbers.sizes[op.params["length"]]), rest)

    def steps(self) -> list[int]:
        result: list[int] = []
        maker: dict[Sym, int] = {}  # of each stored value: its step
        for item in self.program.schedule.body:
            dims: dict[Dim, int] = {}
            inside = produces(item)
            read = stored_reads(self.canonical, self.program.schedule, item)
            before = {(self.values[x], maker.get(x, -1)) for x in read if x not in inside}
            key = self.intern(("step", self.structure(item, dims), frozenset(before)))
            maker.update(dict.fromkeys(inside, key))
            result.append(key)
        return result

    def structure(self, item: ScheduleItem, dims: dict[Dim, int]) -> Any:
        """*item* as nested tuples; *dims* are numbered as they are met."""
        schedule = self.program.schedule

        def number(d: Dim) -> tuple[int, int, bool]:
            return dims.setdefault(d, len(dims)), int(self.numbers.sizes[d]), d in self.canonical.static

        if isinstance(item, Loop):
            parts = tuple([len(part) for part in item.segments])
            return ("loop", number(item.dim), parts, tuple([self.structure(inner, dims) for inner in item.body]))
        if isinstance(item, Statement):
            out = item.out
            kept = schedule.contracted.get(out, 0), out in schedule.tiled
            return ("statement", self.values[out], tuple([number(d) for d in out.dims]), kept)
        plan = self.program.plans.get(item.op)
        cleared = () if plan is None else tuple(plan.cleared)
        return ("call", tuple([self.values[out] for out in item.op.outs]), cleared)


def _digest(array: np.ndarray) -> bytes:
    return blake2b(np.ascontiguousarray(array).data.cast("B") if array.size else b"", digest_size=32).digest()
