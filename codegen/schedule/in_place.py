"""Carries of a loop that are updated in place: one buffer from the first step to the last.

A carry may be where its new value comes from the old one by indexed writes, and by loops that update theirs in place,
and everything that reads a version of it does so before the next write.  Views of a version, which are evaluated where
they are read, are stored for that.  Then a step costs what it writes, whatever the size of the array.

The step at which a loop stops has no effect: what its condition depends on is never written in place.
"""

from __future__ import annotations

from typing import NamedTuple

from ...tracer.ir.primitive import LOOP, SCATTER
from ...tracer.ops.control import before_consts
from ..lower.canonical import Body, Canonical, CanonicalOp, Operand, Sym
from .buffers import filled
from .dependences import is_call


class InPlace(NamedTuple):
    """Of the body of one loop: carries in place by their ``versions`` (the incoming one is that of its own), and the
    views of versions that have to be ``stored``."""

    versions: dict[Sym, Sym]
    stored: set[Sym]


def carries_in_place(op: CanonicalOp) -> InPlace:
    """The carries of the loop *op* that can be updated in place."""
    body: Body = op.params["body"]
    program, held = body.program, InPlace({}, set())
    first, stops = op.params["consts"], op.params["stops"]
    asking = _ops_behind(program, program.outputs[0]) if stops else set()
    for k in range(op.params["carries"]):
        before, end = program.inputs[first + k], program.outputs[stops + k]
        writes = _writes(program, before, end) if isinstance(end, Sym) else None
        views = None if writes is None else _views(program, before, writes, stops + k)
        if writes is not None and views is not None and asking.isdisjoint([write.op for write in writes]):
            held.versions.update(dict.fromkeys([before, *[version for _, _, version in writes]], before))
            held.stored.update(views)
    return held


def _ops_behind(program: Canonical, output: Operand) -> set[CanonicalOp]:
    """The operations that an output of a body is computed by."""
    found: set[CanonicalOp] = set()
    stack = [output]
    while stack:
        op = program.producers.get(stack.pop())  # type: ignore[arg-type]
        if op is not None and op not in found:
            found.add(op)
            stack += op.ins
    return found


class Write(NamedTuple):
    """A call whose operand at *position* is a version of an array, and its result the next *version*."""

    op: CanonicalOp
    position: int
    version: Sym


def _writes(program: Canonical, before: Sym, end: Sym) -> list[Write] | None:
    """The writes that make *end* of *before*, in order; None where it is made otherwise, or not at all."""
    writes: list[Write] = []
    at = end
    while at is not before:
        op = program.producers.get(at)
        if op is None:
            return None
        if op.prim.name == "reshape" and writes:
            at = op.ins[0]  # type: ignore[assignment]
            continue
        position = _written(op, at)
        x = None if position is None else op.ins[position]
        if position is None or not isinstance(x, Sym) or filled(program, op, position) is not None:
            return None
        writes.append(Write(op, position, at))
        at = x
    return writes[::-1] or None


def _written(op: CanonicalOp, version: Sym) -> int | None:
    """The operand of *op* that becomes *version* in place."""
    if op.prim.kind == SCATTER:
        return 0
    if op.prim.kind != LOOP or version not in op.outs[: op.params["carries"]]:
        return None
    carry = op.params["consts"] + op.outs.index(version)
    inside = op.params["body"].program.inputs[carry]
    return before_consts(op.params) + carry if inside in carries_in_place(op).versions else None


def _views(program: Canonical, before: Sym, writes: list[Write], output: int) -> set[Sym] | None:
    """The views of versions that are to be stored; None where a version is read after it was overwritten."""
    order = {op: k for k, op in enumerate(program.ops)}
    version_of = {version: k + 1 for k, (_, _, version) in enumerate(writes)} | {before: 0}  # aliases included
    found: set[Sym] = set()
    for op in program.ops:
        for position, x in enumerate(op.ins):
            version = version_of.get(x) if isinstance(x, Sym) else None
            if version is None:
                continue
            overwrites = writes[version] if version < len(writes) else None
            if overwrites is not None and overwrites[:2] == (op, position):
                continue
            if op.prim.name == "reshape":
                version_of[op.out] = version
                continue
            if overwrites is not None and order[op] >= order[overwrites.op]:
                return None
            if not is_call(op) and overwrites is not None:
                found.add(op.out)
    shown = [k for k, x in enumerate(program.outputs) if x in version_of]
    return found if shown == [output] else None
