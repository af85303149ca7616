"""Batches within a recording: what one row has recorded is done for all rows at once (``codegen/derive/batch.py``).

Python runs on row 0 of each batched array, a variable of its own.  What it asks of a value that differs from row to row
(``if``, ``int``) has to have the same answer in all of them: that is a guard, and an error where it does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...codegen.derive.batch import batch, batch_guards
from ...tracer.ir.aval import FLOAT_KINDS
from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.graph import Atom, Guard, Node, Pair, Var, lanes, structural
from ...tracer.ops.complex import by_lane
from ...tracer.ops.elementwise import F, broadcast_to, whole_lanes
from ...tracer.ops.shape import reshape, slice_axis, zeros
from ...tracer.record.recorder import Recorder


def first_row(stacked: Atom) -> Atom:
    """Row 0 of *stacked*; zeros where there is none."""
    return by_lane(_first_row, stacked)


def _first_row(stacked: Atom) -> Atom:
    shape = stacked.aval.shape[1:]
    if stacked.aval.shape[0]:
        return reshape(slice_axis(stacked, 0, 0, 1), shape)
    return zeros(shape, stacked.aval.dtype) if shape else structural(0, stacked.aval.dtype)


def all_rows(
    recorder: Recorder,
    nodes: Sequence[Node],
    first_guard: int,
    stacked: Mapping[Var, Atom],
    size: int,
    what: str = "vmap",
    apart: Callable[[Guard, UnsupportedError], None] | None = None,
) -> dict[Var, Atom]:
    """The rows of all values of *nodes* that depend on the real variables in *stacked*, which maps them to their rows.
    Guards from number *first_guard* on were recorded with them.  *apart* may end the run where one does not hold in
    all rows."""
    found = batch(nodes, stacked, size)
    asked = [g for g in recorder.guards[first_guard:] if isinstance(g.atom, Var) and g.atom in found]
    if asked:
        before = len(recorder.nodes)
        weak = [weakened(g) for g in asked]
        found |= batch(recorder.nodes[before:], found, size)
        recorder.withdraw(asked)
        for guard in batch_guards(weak, found):
            with recorder.stand_ins.asking():
                held = recorder.value(guard.atom)
            if not held:
                error = UnsupportedError.here(_DIFFERS.format(what), guard.site)
                if apart is not None:
                    apart(guard, error)
                raise error
            recorder.add_guard(guard)
    return found


def weakened(guard: Guard) -> Guard:
    """*guard* on what Python saw: ``if t`` only whether *t* is zero, ``int(t)`` only the integral part."""
    dtype = guard.atom.aval.dtype
    if guard.kind == "bool" and dtype.kind != "b":
        asked = F.ne(guard.atom, structural(0, dtype))
        return replace(guard, atom=asked, expected=np.bool_(guard.expected != 0))
    if guard.kind in ("int", "index") and dtype.kind in FLOAT_KINDS:
        return replace(guard, atom=F.trunc(guard.atom), expected=np.trunc(guard.expected))
    return guard


def rows_of(atom: Atom, found: Mapping[Var, Atom], size: int) -> Atom | None:
    """The rows of *atom*; None where it is the same in all."""
    if not atom.aval.is_complex:
        return found.get(atom) if isinstance(atom, Var) else None
    parts = [(x, found.get(x) if isinstance(x, Var) else None) for x in lanes(atom)]
    if all(rows is None for _, rows in parts):
        return None
    re, im = [_repeated(x, atom.aval.shape, size) if rows is None else rows for x, rows in parts]
    return Pair(re, im, atom.aval.dtype)


def repeated_rows(atom: Atom, found: Mapping[Var, Atom], size: int) -> Atom:
    """The rows of *atom*, repeated where it is the same in all."""
    rows = rows_of(atom, found, size)
    return by_lane(_repeated, atom, atom.aval.shape, size) if rows is None else rows


def _repeated(x: Atom, shape: tuple[int, ...], size: int) -> Atom:
    return broadcast_to(x, (size, *shape))


def rows_by_lane(variables: Sequence[Var], stacked: Sequence[Atom]) -> dict[Var, Atom]:
    """The rows *stacked* of *variables*, for the lanes of complex ones."""
    found: dict[Any, Atom] = {}
    for var, rows in zip(variables, stacked, strict=True):
        complexes = var.aval.is_complex
        found.update(zip(lanes(var), whole_lanes(rows), strict=True) if complexes else [(var, rows)])
    return found


_DIFFERS = (
    "Python asks here for a value that differs between the rows of the batch that {} computes at once (an `if`, a "
    "`while`, int() or float()): choose with np.where(condition, a, b) or tracegrad.cond, or loop with "
    "tracegrad.while_loop"
)
