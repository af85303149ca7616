"""Derivatives of loops: the adjoint of a loop is a loop that runs the other way.

    forward    body(consts, carries, rows of xs) -> carries, rows of ys
    backward   body'(consts, [cotangents of carries, sums for consts], [carries as they came in, xs, cotangents of ys])
                   -> [cotangents of carries, sums for consts], cotangents of xs

The backward body holds the forward body's nodes, run again, and its adjoint; what no cotangent needs is not in it.
Of a loop that runs some of its rows (counted, or until it stops) the adjoint runs as many; forward mode counts or stops
as it does.
Only the incoming carries that it reads, and what is dear to compute again, are stored by the forward loop, which gets
them as further results (``add_results``): a sum is not.  The derivative is made of loops, so it can be derived again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...tracer.ir.data_classes import NamedTuple
from ...tracer.ir.graph import Atom, Builder, Graph, Lit, Node, Var, building, current_builder, live_nodes, structural
from ...tracer.ir.primitive import LOOP
from ...tracer.ops.closure_conversion import needed_carries
from ...tracer.ops.control import add_results, before_consts, before_rows, loop, loop_view
from ...tracer.ops.elementwise import F, broadcast_to
from ...tracer.ops.shape import zeros
from .activity import loop_activity, reached
from .checkpoints import may_split, stored_bytes, worth_splitting
from .residuals import as_product, sum_of_products, values_to_store
from .taint import EVERY, NONE, ZEROS, Doubt

# reverse and forward of adjoint.py
Reverse = Callable[..., tuple[list[Atom | None], list[Doubt]]]
Forward = Callable[[Sequence[Node], Mapping[Var, Atom], set[Var], Sequence[Atom]], tuple[dict[Var, Atom], set[Var]]]


class TooMuch(NamedTuple):
    """A loop would store more than ``config.loop_memory``."""

    nbytes: int


def materialise(ct: Atom | None, var: Atom) -> Atom:
    """*ct* as a value of *var*'s shape: zeros where there is none."""
    if ct is None:
        return zeros(var.aval.shape, var.aval.dtype) if var.aval.shape else structural(0, var.aval.dtype)
    if isinstance(ct, Lit) and var.aval.shape:
        return broadcast_to(ct, var.aval.shape)
    return ct


def fresh(nodes: Sequence[Node]) -> list[Node]:
    """Copies of *nodes* for another body, whose loops may get results (``add_results``) of their own."""
    return [Node(n.prim, n.inputs, n.params, n.outs, n.site) if n.prim.kind == LOOP else n for n in nodes]


def loop_vjp(
    node: Node, cts: Sequence[Atom | None], wants: Sequence[bool], doubts: Sequence[Doubt], reverse_mode: Reverse,
    known: Sequence[Atom | None] | None,
) -> tuple[list[Atom | None], list[Doubt], list[int]] | TooMuch:  # fmt: skip
    """Cotangents of the operands and their doubts; *cts* are those of the results, with *doubts*.

    *known*, in the body of another loop, are cotangents that operands have from elsewhere.  Sums for consts that are
    arrays go on from there; the third result are the operands of which that is so.

    Raises ``TooMuch``, with nothing changed, where the loop should be split first.
    """
    view = loop_view(node)
    body, inner, outer, ends, rows = view.body, view.inner, view.outer, view.ends, view.rows
    count, length = len(inner.carries), node.params["length"]
    lead, first = before_consts(node.params), before_rows(node.params)
    active, _ = loop_activity(node, wants)
    known_rows = [k for k, y in enumerate(rows) if cts[first + k] is not None and y in active]
    # the carries whose cotangents are not zero in every step
    carries, needed = needed_carries(
        inner.carries,
        [k for k in range(count) if cts[k] is not None and inner.carries[k] in active],
        lambda moving: reached(body.nodes, [*(ends[k] for k in moving), *(rows[k] for k in known_rows)], active),
    )
    wanted = dict(zip(body.inputs, wants[lead:], strict=True))
    consts = [k for k, v in enumerate(inner.consts) if wanted[v] and v in needed]
    xs = [k for k, v in enumerate(inner.xs) if wanted[v] and v in needed]
    ct_carries = [Var(inner.carries[k].aval) for k in carries]
    ct_rows = [Var(rows[k].aval) for k in known_rows]
    sources = [*[inner.carries[k] for k in carries], *[inner.consts[k] for k in consts], *[inner.xs[k] for k in xs]]
    builder, forward, found, delicate = _derived(
        body, [*zip([ends[k] for k in carries], ct_carries, strict=True)],
        [(rows[k], ct, doubts[first + k]) for k, ct in zip(known_rows, ct_rows, strict=True)],
        sources, [ZEROS if cts[k] is None else doubts[k] for k in carries], reverse_mode,
    )  # fmt: skip
    with building(builder):
        grads = iter(found)
        new_cts = [materialise(next(grads), inner.carries[k]) for k in carries]
        shares = {k: ct for k in consts if (ct := next(grads)) is not None}
        producers = {out: n for n in builder.nodes for out in n.outs}
        products = {k: p for k, ct in shares.items() if (p := as_product(ct, producers)) is not None}
        products = {k: p for k, p in products.items() if not {p.x, p.y} & set(inner.consts) and view.ran is None}
        summed = [k for k in shares if k not in products]
        sums = [Var(inner.consts[k].aval) for k in summed]
        totals = [F.add(v, materialise(shares[k], v)) for k, v in zip(summed, sums, strict=True)]
        ct_xs = [materialise(next(grads), inner.xs[k]) for k in xs]

    factors = dict.fromkeys(v for p in products.values() for v in (p.x, p.y))
    storable = [*inner.carries, *[out for n in forward for out in n.outs[_unstored(n) :]]]
    given = {*body.inputs, *ct_rows, *storable}  # values with rows, and loop-invariant ones
    made = [v for v in factors if v not in given]
    outputs = [*new_cts, *totals, *ct_xs, *made]
    anyway = {v: v in factors for v in storable}
    stored = values_to_store(node, builder.nodes, outputs, anyway, forward, inner=known is not None)
    if may_split(node) and worth_splitting(node, [*stored, *made]):
        return TooMuch(stored_bytes(node, [*stored, *made]))
    nodes = live_nodes(_without(builder.nodes, set(stored)), outputs)
    read = {a for n in nodes for a in n.inputs} | {a for a in outputs if isinstance(a, Var)}
    kept = [k for k, v in enumerate(inner.consts) if v in read]
    if any(out in stored for n in forward if n.prim.kind == LOOP for out in n.outs):
        node.params = {**node.params, "body": Graph(body.inputs, fresh(forward), body.outputs)}
    trajectory = dict(zip(stored, add_results(node, stored), strict=True))
    saved = [v for v in stored if v in read]
    kept_xs = [k for k, v in enumerate(inner.xs) if v in read]
    inputs = [
        *[inner.consts[k] for k in kept], *ct_carries, *sums, *saved, *[inner.xs[k] for k in kept_xs], *ct_rows,
    ]  # fmt: skip
    before = [known[lead + k] if known and inner.consts[k].shape else None for k in summed]
    starts = [
        *[materialise(cts[k], inner.carries[k]) for k in carries],
        *[materialise(ct, v) for v, ct in zip(sums, before, strict=True)],
    ]
    row_cts = [materialise(cts[first + k], node.outs[first + k]) for k in known_rows]
    results = loop(
        Graph(inputs, nodes, outputs),
        [outer.consts[k] for k in kept], starts,
        [*[trajectory[v] for v in saved], *[outer.xs[k] for k in kept_xs], *row_cts],
        length, not node.params["reverse"], steps=view.ran,
    )  # fmt: skip
    contributions: list[Atom | None] = [None] * len(body.inputs)
    places = [*[len(inner.consts) + k for k in carries], *summed, *[len(inner.consts) + count + k for k in xs]]
    for place, result in zip(places, results, strict=False):
        contributions[place] = result
    stacked: dict[Var, Atom] = {**trajectory, **dict(zip(inner.xs, outer.xs, strict=True))}
    stacked.update(zip(ct_rows, row_cts, strict=True))
    stacked.update(zip(made, results[len(places) :], strict=True))
    for k, p in products.items():
        contributions[k] = sum_of_products(stacked[p.x], stacked[p.y], p.ta, p.tb)
    # with no iteration, and in rows beyond the trip count, cotangents are exactly zero
    sure = view.ran is None and length > 0
    held = [NONE if sure else Doubt(zeros=True, infinite=any(d.infinite for d in doubts))] * len(body.inputs)
    for v, doubt in zip(sources, delicate, strict=True):
        place = body.inputs.index(v)
        held[place] = held[place].also(doubt)
    continued = [lead + k for k, ct in zip(summed, before, strict=True) if ct is not None]
    return [None] * lead + contributions, [NONE] * lead + held, continued


def _unstored(node: Node) -> int:
    """How many results of *node* are not stored for its adjoint: the carries of a loop."""
    return before_rows(node.params) if node.prim.kind == LOOP else 0


def _without(nodes: Sequence[Node], stored: set[Var]) -> list[Node]:
    """*nodes* that define none of the *stored* values."""
    kept = []
    for n in nodes:
        if n.prim.kind == LOOP and not stored.isdisjoint(n.outs):
            n = Node(n.prim, n.inputs, n.params, tuple([Var(o.aval) if o in stored else o for o in n.outs]), n.site)
        if stored.isdisjoint(n.outs):
            kept.append(n)
    return kept


def _derived(
    body: Graph, ends: Sequence[tuple[Atom, Var]], rows: Sequence[tuple[Atom, Var, Doubt]], sources: Sequence[Var],
    doubts: Sequence[Doubt], reverse_mode: Reverse,
) -> tuple[Builder, list[Node], list[Atom | None], list[Doubt]]:  # fmt: skip
    """(a body under construction, its forward nodes, cotangents of *sources*, their doubts)

    *ends* and *rows* are results of the body with their cotangents; *sources* begin with the carries that belong to
    *ends*, and *doubts* is what the cotangents of these may hold when the loop begins.  What a step gives them is what
    the next one gets: so the body is derived again until no step gives more than was expected.
    """
    notes = current_builder().notes
    expected = list(doubts)
    while True:
        with building(Builder()) as builder:
            builder.notes = notes
            builder.adopt(fresh(body.nodes))
            forward = list(builder.nodes)
            seeds = [(end, ct, doubt) for (end, ct), doubt in zip(ends, expected, strict=True)]
            found, held = reverse_mode(forward, [*seeds, *rows], sources)
        given = [ZEROS if ct is None else doubt for ct, doubt in zip(found, held, strict=True)]
        wider = [a.also(b) for a, b in zip(expected, given, strict=False)]
        if wider == expected:
            return builder, forward, found, held  # type: ignore[return-value]
        expected = wider if expected == list(doubts) else [EVERY] * len(expected)


def loop_jvp(
    node: Node, tangents: Sequence[Atom | None], doubts: Sequence[bool], forward_mode: Forward
) -> tuple[list[Atom | None], list[bool]]:
    """Tangents of the results of the loop *node*, and whether they may be infinite, as *doubts* says of those given:
    one loop that carries values and tangents."""
    view = loop_view(node)
    body, inner, outer = view.body, view.inner, view.outer
    count, first = len(inner.carries), len(inner.consts)
    given = [t is not None for t in tangents]
    active, results = loop_activity(node, given)
    moving = [k for k, v in enumerate(inner.carries) if v in active]
    rows = [k for k, out in enumerate(view.stacked) if out in results]
    lead = before_consts(node.params)
    tangents, given, doubts = tangents[lead:], given[lead:], doubts[lead:]
    consts = [k for k in range(first) if given[k] and inner.consts[k].aval.is_float]
    xs = [k for k, v in enumerate(inner.xs) if given[first + count + k] and v.aval.is_float]
    sources = [*[inner.consts[k] for k in consts], *[inner.carries[k] for k in moving], *[inner.xs[k] for k in xs]]
    dots = {v: Var(v.aval) for v in sources}
    doubted = {v for v, doubt in zip(body.inputs, doubts, strict=True) if doubt}
    wanted = [*[view.ends[k] for k in moving], *[view.rows[k] for k in rows]]
    while True:
        with building(Builder()) as builder:
            builder.adopt(fresh(body.nodes))
            pushed, held = forward_mode(list(builder.nodes), dots, doubted, wanted)
            ends = [materialise(_tangent(pushed, view.ends[k]), inner.carries[k]) for k in moving]
            stacked = [materialise(_tangent(pushed, view.rows[k]), view.rows[k]) for k in rows]
        more = {v for v, end in zip(inner.carries, view.ends, strict=True) if end in held} - doubted
        if not more:
            break
        doubted |= more
    asked = [] if view.go_on is None else [view.go_on]
    outputs = [*asked, *view.ends, *ends, *stacked]
    inputs = [
        *inner.consts, *[dots[inner.consts[k]] for k in consts],
        *inner.carries, *[dots[inner.carries[k]] for k in moving],
        *inner.xs, *[dots[inner.xs[k]] for k in xs],
    ]  # fmt: skip
    found = loop(
        Graph(inputs, live_nodes(builder.nodes, outputs), outputs),
        [*outer.consts, *[materialise(tangents[k], outer.consts[k]) for k in consts]],
        [*outer.carries, *[materialise(tangents[first + k], outer.carries[k]) for k in moving]],
        [*outer.xs, *[materialise(tangents[first + count + k], outer.xs[k]) for k in xs]],
        node.params["length"], node.params["reverse"], steps=view.steps, stops=bool(asked),
    )  # fmt: skip
    pushed_out = [*found[count : count + len(moving)], *found[count + len(moving) + len(asked) :]]
    dotted: list[Atom | None] = [None] * len(node.outs)
    places = [*moving, *[before_rows(node.params) + k for k in rows]]
    for place, value in zip(places, pushed_out, strict=True):
        dotted[place] = value
    within = dict(zip(places, [*[inner.carries[k] for k in moving], *[view.rows[k] for k in rows]], strict=True))
    return dotted, [within.get(place) in held for place in range(len(node.outs))]


def _tangent(pushed: dict[Var, Atom], value: Any) -> Atom | None:
    return pushed.get(value) if isinstance(value, Var) else None
