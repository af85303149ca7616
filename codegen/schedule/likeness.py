"""Likeness of loop nests and calls: two that differ in nothing but buffers, sizes and numbers have the same key.

So the code of a nest need not be written to find that it has been written before.  A call depends on its operation, and
on its operands as ``buffers.py`` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..lower.canonical import ONE, Canonical, CanonicalOp, Const, Dim, Operand, Sym
from .buffers import buffer_of, filled
from .loop_tree import Loop, Schedule, ScheduleItem, Statement, statements_of

Named = Sym | Const | Dim


class Likeness:
    """``key``: all that code of *body*, nests or a call, depends on, where buffers, run-time constants and sizes are
    numbered in the order in which they are met; ``named``: what has these numbers."""

    def __init__(self, program: Canonical, schedule: Schedule, body: Sequence[ScheduleItem]):
        self.program, self.schedule = program, schedule
        self.named: list[Named] = []
        self._numbers: dict[Any, int] = {}
        self._pending: list[Sym] = []
        self._roots = {s.out for item in body for s in statements_of(item)}
        tokens: list[Any] = [self._item(item) for item in body]
        for sym in self._pending:  # which grows
            tokens.append(self._value(sym))
        self.key = tuple(tokens)

    def positions(self, wanted: Sequence[Named]) -> list[int]:
        """The numbers of *wanted*."""
        return [self._numbers[_identity(x)] for x in wanted]

    def _number(self, x: Named) -> int:
        identity = _identity(x)
        found = self._numbers.get(identity)
        if found is None:
            found = self._numbers[identity] = len(self.named)
            self.named.append(x)
            if isinstance(x, Sym):
                self._pending.append(x)
        return found

    def _item(self, item: ScheduleItem) -> Any:
        if isinstance(item, Loop):
            segments = tuple([len(segment) for segment in item.segments])
            return (self._dim(item.dim), segments, *[self._item(i) for i in item.body])
        if isinstance(item, Statement):
            return self._number(item.out)
        op = item.op
        ins = [self._buffer(op, k) for k in range(len(op.ins))]
        return op.prim, self._params(op), tuple(ins), tuple([self._number(x) for x in op.outs])

    def _buffer(self, call: CanonicalOp, position: int) -> Any:
        """An operand of a *call*: its buffer, or the constant that fills it."""
        x = call.ins[position]
        if isinstance(x, Const):
            return self._operand(x)
        fill = filled(self.program, call, position)
        buffer = self._number(buffer_of(self.program, self.schedule.stored, x))
        return x.dtype, self._dims(x.dims), buffer, None if fill is None else self._operand(fill)

    def _dim(self, dim: Dim) -> Any:
        return dim if dim == ONE else (self._number(dim), self.program.static.get(dim))

    def _dims(self, dims: Sequence[Dim]) -> Any:
        return tuple([self._dim(d) for d in dims])

    def _value(self, x: Sym) -> Any:
        schedule = self.schedule
        window = schedule.windows.get(x)
        place = window and (self._number(window.run), window.axis, self._dims(window.extents), window.column)
        at_hand = x in schedule.scalars.at_hand
        kept = x in schedule.stored, schedule.contracted.get(x), x in schedule.tiled, place, at_hand
        producer = self.program.producers.get(x)
        written = producer is not None and (x in self._roots or x not in schedule.stored)
        return x.dtype, self._dims(x.dims), kept, self._op(producer) if producer is not None and written else None

    def _op(self, op: CanonicalOp) -> Any:
        return op.prim, self._params(op), tuple([self._operand(x) for x in op.ins])

    def _params(self, op: CanonicalOp) -> Any:
        params = [
            (name, tuple([s if isinstance(s, int) else self._dim(s[1]) for s in value]))
            if name == "start"
            else (name, value, repr(value))  # 0.0 and -0.0 are equal
            for name, value in op.params.items()
        ]
        return tuple(params)

    def _operand(self, x: Operand) -> Any:
        if isinstance(x, Const) and x.slot is None:
            return x.dtype, np.asarray(x.value).tobytes()
        return self._number(x) if isinstance(x, Sym) else (x.dtype, self._number(x))


def _identity(x: Named) -> Any:
    return (x.slot, x.dtype) if isinstance(x, Const) else x
