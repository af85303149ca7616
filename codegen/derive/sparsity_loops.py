"""Sparsity patterns of loops.

A short loop is run step by step. ...
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...tracer.ir.graph import Atom, Node, Var
from ...tracer.ops.control import LoopView, loop_view
from .index_sets import IndexSets, nothing, stacked, union
from .sparsity import EVERYTHING, Analysis, Everything, Known, Sets, joined

STEPS = 16  # of a loop that is run step by step


def loop_sets(analysis: Analysis, node: Node) -> None:
    """Find the sets of the results of the loop *node*."""
    length = node.params["length"]
    if length <= STEPS:
        _step_by_step(analysis, node)
    else:
        _closed(analysis, node)


def _step_by_step(analysis: Analysis, node: Node) -> None:
    view = loop_view(node)
    length = node.params["length"]
    steps = range(length)[::-1] if node.params["reverse"] else range(length)
    ends: list[Sets] = [analysis.of(x) for x in view.outer.carries]
    finals: list[list[Sets]] = [[sets] for sets in ends]
    rows: list[list[Sets]] = [[()] * length for _ in view.stacked]
    for i in steps:
        inner = _inside(analysis, view, i)
        for v, sets in zip(view.inner.carries, ends, strict=True):
            if sets and v.aval.is_float:
                inner.sets[v] = sets
        inner.run(view.body.nodes)
        ends = [inner.of(x) for x in view.ends]
        for found, sets in zip(finals, ends, strict=True):
            found.append(sets)
        for k, x in enumerate(view.rows):
            rows[k][i] = inner.of(x)
    for out, found in zip(view.finals, finals, strict=True):
        if out.aval.is_float:
            analysis.give(out, joined(found) if view.ran is not None else found[-1])
    for out, found in zip(view.stacked, rows, strict=True):
        if out.aval.is_float:
            analysis.give(out, _rows(found, out))


def _rows(found: Sequence[Sets], out: Var) -> Sets:
    size = out.aval.size // max(len(found), 1)
    parts: list[IndexSets] = []
    for sets in found:
        if isinstance(sets, Everything):
            return EVERYTHING
        parts.append(union(sets) if sets else nothing(size))
    return (stacked(parts),) if any(found) else ()


def _inside(analysis: Analysis, view: LoopView, step: int | None) -> Analysis:
    """An analysis of the body: with the sets of consts, and of the rows of xs in *step*, or in any."""
    outer: dict[Var, Atom] = dict(zip(view.inner.consts, view.outer.consts, strict=True))
    rows: dict[Var, Atom] = dict(zip(view.inner.xs, view.outer.xs, strict=True))

    def known(var: Var) -> np.ndarray | None:
        if var in outer:
            return analysis.known.value(outer[var])
        value = analysis.known.value(rows[var]) if var in rows and step is not None else None
        return None if value is None else value[step]

    inner = Analysis(Known(view.body.nodes, known), analysis.loop_rule)
    for v, x in outer.items():
        inner.sets[v] = analysis.of(x)
    for v, x in rows.items():
        inner.sets[v] = _row(analysis.of(x), v.aval.size, step)
    return inner


def _row(sets: Sets, size: int, step: int | None) -> Sets:
    """Row *step* of a value whose rows have this *size*; None: all rows at once."""
    if isinstance(sets, Everything) or not sets:
        return sets
    if step is not None:
        places = np.arange(step * size, (step + 1) * size)
        return tuple([s.taken(places) for s in sets])
    whole = union(sets)
    return (whole.grouped(np.arange(len(whole)).reshape(-1, size).T),)


def _closed(analysis: Analysis, node: Node) -> None:
    for out in node.outs:
        if out.aval.is_float:
            analysis.give(out, analysis.mixed(node.inputs, out))
