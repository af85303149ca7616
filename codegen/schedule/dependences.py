"""Dependences of roots: the values that each evaluates, at which positions, and under which conditions.

A *root* is a value that is stored.  Everything between it and the stored values that it is made of is inlined:
evaluated in the root's loops at positions that the index maps in between give (``index_maps.py``).  ``Reads`` lists
both.

An inlined value is evaluated once for each position, and for each *mask*: the conditions under which it is asked for,
those of the pads, updates and concatenations on the way, outermost first.  (What was evaluated under the first few
conditions of a mask will do for the whole.)  Where such steps follow each other, the number of paths to a value grows
exponentially; ``reads`` goes from a root to its operands in the reverse order of the program, so that it has all of
a value's readers before it goes on to what the value is made of, and stops where there are too many.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import field

from ...tracer.ir.data_classes import dataclass
from ...tracer.ir.primitive import ELEMENTWISE, HOST, LAPACK, LOOP, PRODUCT, RECURRENCE, REDUCE, SCATTER, VIEW
from ..lower.canonical import ONE, Canonical, CanonicalOp, Const, Dim, Operand, Sym
from .affine import ZERO, Index, add, constant, loop_var, term
from .index_maps import Condition, Indices, known, read

MAX_EVALUATIONS = 32  # evaluations of a value by one root, above which it is stored

Mask = tuple[Condition, ...]

# ---- what a root is --------------------------------------------------------------------------------------------


def carries(op: CanonicalOp) -> bool:
    """Whether the root has an accumulator (a reduction or a recurrence)."""
    return op.prim.kind in (REDUCE, RECURRENCE)


def is_call(op: CanonicalOp) -> bool:
    return op.prim.kind in (PRODUCT, LAPACK, SCATTER, HOST, LOOP)


def domain(op: CanonicalOp) -> tuple[Dim, ...]:
    """The loops of a root, outermost first: a reduction's operand's axes, else its own.  Sizes of 1 need none."""
    source = op.ins[0] if op.prim.kind == REDUCE else op.out
    return tuple(d for d in source.dims if d != ONE)


def domain_indices(op: CanonicalOp) -> Indices:
    """The position in the domain's array at an iteration of its loops; a reverse recurrence runs downward."""
    source = op.ins[0] if op.prim.kind == REDUCE else op.out
    result: list[Index] = []
    depth = 0
    for d in source.dims:
        if d == ONE:
            result.append(ZERO)
        else:
            result.append(loop_var(depth))
            depth += 1
    if op.prim.kind == RECURRENCE and op.params["reverse"] and source.dims[-1] != ONE:
        result[-1] = add(add(term(("s", source.dims[-1])), constant(-1)), loop_var(depth - 1), -1)
    return tuple(result)


def reduced_depths(op: CanonicalOp) -> set[int]:
    """The loop depths that a reduction sums over."""
    depth, result = 0, set()
    for axis, d in enumerate(op.ins[0].dims):
        if d != ONE:
            if axis in op.params["axes"]:
                result.add(depth)
            depth += 1
    return result


def completion(op: CanonicalOp) -> int:
    """The loop depth at which a root's element is final."""
    loops = len(domain(op))
    if op.prim.kind == REDUCE:
        return min(reduced_depths(op), default=loops)
    if op.prim.kind == RECURRENCE:
        return loops - 1 if op.out.dims[-1] != ONE else loops
    return loops


# ---- what a root reads -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reads:
    """Reads of one root: stored values with their positions (None: read flat), inlined ones with their masks."""

    stored: dict[tuple[Sym, Indices | None], None] = field(default_factory=dict)
    inlined: dict[tuple[Sym, Indices], dict[Mask, None]] = field(default_factory=dict)
    conditions: dict[Condition, None] = field(default_factory=dict)  # by which a loop may be split
    # inlined values that must be stored: they would have to be read flat, or be evaluated too often.  Their operands
    # are not listed
    forced: list[Sym] = field(default_factory=list)


def root_operands(op: CanonicalOp, at: Indices) -> list[tuple[Operand, Indices]]:
    """The operands that a root's loop body evaluates, and where."""
    if op.prim.kind == REDUCE or op.prim.kind == RECURRENCE:
        return [(x, at) for x in op.ins]
    return [(op.out, at)]


def reads(program: Canonical, op: CanonicalOp, stored: set[Sym]) -> Reads:
    """The reads of *op*, with *stored* as the roots."""
    result = Reads()
    asked: dict[Sym, dict[Indices, dict[Mask, None]]] = {}  # inlined values whose readers are not all known yet
    queue: list[tuple[int, Sym]] = []

    def ask(x: Operand, at: Indices, mask: Mask, top: bool = False) -> None:
        if isinstance(x, Const):
            return
        if not top and (x in stored or x not in program.producers):
            result.stored[x, at] = None
            return
        if x not in asked:
            asked[x] = {}
            heapq.heappush(queue, (-x.number, x))
        asked[x].setdefault(at, {})[mask if at else ()] = None  # a value without axes needs no conditions

    for x, at in root_operands(op, domain_indices(op)):
        ask(x, at, (), top=x is op.out)
    while queue:
        _, x = heapq.heappop(queue)
        producer = program.producers[x]
        found = {at: _weakest(masks) for at, masks in asked.pop(x).items()}
        if sum(map(len, found.values())) > MAX_EVALUATIONS and _multiplies(producer):
            result.forced.append(x)
            continue
        for at, masks in found.items():
            result.inlined[x, at] = masks
            for mask in masks:
                _ask_operands(program, producer, at, mask, stored, result, ask)
    return result


def _ask_operands(
    program: Canonical, op: CanonicalOp, at: Indices, mask: Mask, stored: set[Sym], result: Reads,
    ask: Callable[..., None],
) -> None:  # fmt: skip
    """Request the operands of an inlined *op* at one position."""
    if op.prim.kind == ELEMENTWISE:
        for x in op.ins:
            if isinstance(x, Sym):
                ask(x, at if x.dims else (), mask)
    elif op.prim.kind == VIEW and op.prim.name != "iota":
        for choice in read(op, at):
            x = choice.operand
            held = [known(c, program.static) for c in choice.conditions]
            if False in held:
                continue
            open_ones = [c for c, h in zip(choice.conditions, held, strict=True) if h is None]
            if not choice.remains:
                result.conditions.update(dict.fromkeys(open_ones))
            if choice.indices is not None:
                ask(x, choice.indices, (*mask, *(c for c in open_ones if c not in mask)))
            else:
                assert isinstance(x, Sym)
                if x in stored or x not in program.producers:
                    result.stored[x, None] = None
                else:
                    result.forced.append(x)
        if op.prim.name == "gather":
            index = op.ins[1]
            ask(index, at[: len(index.dims)], mask)


def _weakest(masks: dict[Mask, None]) -> dict[Mask, None]:
    """The *masks* that have no proper prefix among them."""
    if len(masks) == 1:
        return masks
    return {m: None for m in masks if not any(m[:k] in masks for k in range(len(m)))}


def _multiplies(op: CanonicalOp) -> bool:
    """Whether one evaluation of *op* evaluates several operands."""
    return op.prim.kind == ELEMENTWISE or op.prim.name in ("concat", "update")
