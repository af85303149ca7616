"""The operands of loops of many rows: which differ from row to row, and how their rows lie in memory.

A carry differs where it begins so, or becomes so in a step: ``row_spread`` is the fixed point.  What is the same in all
rows, as the time of an integration, stays so.

The rows of an array of which a step reads or writes elements stand *second*, (m, n, ...), behind the axis of positions:
what the step reads at one position of all rows lies side by side then, and is written so (``batched_indexing.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...tracer.ir.aval import Ints
from ...tracer.ir.graph import Atom, Node, Var
from ...tracer.ir.primitive import LOOP, SCATTER
from ...tracer.ops.control import LoopView, before_consts, loop_view
from ...tracer.ops.shape import move_axis, reshape


class RowSpread(NamedTuple):
    """Where a loop's values differ from row to row."""

    values: set[Var]  # of the body
    ragged: bool
    outs: list[bool]  # results of the node


def dependent(nodes: Sequence[Node], sources: set[Var]) -> set[Var]:
    """*sources* and the values of *nodes* that depend on them."""
    found = set(sources)
    for node in nodes:
        given = [isinstance(a, Var) and a in found for a in node.inputs]
        if not any(given):
            continue
        if node.prim.kind == LOOP:
            found.update(out for out, differs in zip(node.outs, row_spread(node, given).outs, strict=True) if differs)
        else:
            found.update(node.outs)
    return found


def row_spread(node: Node, given: Sequence[bool]) -> RowSpread:
    """How the rows spread in the loop *node*, of whose operands those in *given* differ."""
    view, lead = loop_view(node), before_consts(node.params)
    body, carries = view.body, view.inner.carries
    sources = {v for v, differs in zip(body.inputs, given[lead:], strict=True) if differs}
    ragged = any(given[:lead])
    while True:
        values = dependent(body.nodes, sources)
        ragged = ragged or view.go_on in values
        ends = zip(carries, view.ends, strict=True)
        more = {v for v, end in ends if (ragged and end is not v) or end in values} - sources
        if not more:
            break
        sources |= more
    outs = [v in sources for v in carries]
    outs += [ragged] * (view.taken is not None) + [ragged or row in values for row in view.rows]
    return RowSpread(values, ragged, outs)


# ---- how rows lie --------------------------------------------------------------------------------------------------


def second(x: Atom, shape: Ints) -> Atom:
    """The rows *x*, (n, ...), of values that are indexed in this *shape*, as they lie in memory."""
    return move_axis(reshape(x, (x.aval.shape[0], *shape)), 0, 1)


def first(x: Atom, shape: Ints) -> Atom:
    """The rows of values of this *shape*, (n, *shape), which lie in memory as *x*."""
    found = move_axis(x, 1, 0)
    return reshape(found, (found.aval.shape[0], *shape))


def indexed(view: LoopView) -> dict[Var, Ints]:
    """The consts and carries of a body of which steps read, write or add to elements, and the shape in which they do:
    values are reshaped for it."""
    of: dict[Atom, Var] = {v: v for v in (*view.inner.consts, *view.inner.carries)}  # and their versions
    found, made = dict[Var, Ints](), set[Atom]()  # made: arrays that begin as others, of which elements are written
    for node in view.body.nodes:
        if node.prim.kind == LOOP:
            _note_loop(node, of, found, made)
            continue
        if not node.inputs:
            continue
        x, name, writes = node.inputs[0], node.prim.name, node.prim.kind == SCATTER
        if name == "add" and node.inputs[1] in of:
            x = node.inputs[1]
        sums = name == "add" and not made.isdisjoint(node.inputs)
        if x in of and (writes or sums or name == "gather"):
            found.setdefault(of[x], x.aval.shape)
        if x in of and (writes or sums or name == "reshape"):
            of[node.out] = of[x]
        elif writes or sums or (name == "reshape" and x in made):
            made.add(node.out)
    return found


def _note_loop(node: Node, of: dict[Atom, Var], found: dict[Var, Ints], made: set[Atom]) -> None:
    """The same of a loop in the body."""
    view = loop_view(node)
    inside = indexed(view)
    given = (*view.outer.consts, *view.outer.carries)
    for v, x in zip((*view.inner.consts, *view.inner.carries), given, strict=True):
        if v in inside and x in of:
            found.setdefault(of[x], inside[v])
    for v, x, out in zip(view.inner.carries, view.outer.carries, view.finals, strict=True):
        if x in of:
            of[out] = of[x]
        elif v in inside:
            made.add(out)
