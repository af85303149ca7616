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

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from ...tracer.ir.graph import Atom, Builder, Graph, Lit, Node, Var, building, current_builder, live_nodes, structural
from ...tracer.ir.primitive import LOOP
from ...tracer.ops.closure_conversion import needed_carries
from ...tracer.ops.control import LoopView, add_results, before_consts, before_rows, loop, loop_view
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
    adjoint = _LoopAdjoint(node, cts, wants, doubts, known)
    adjoint.derive(reverse_mode)
    return adjoint.store() or adjoint.contributions(adjoint.run())


def _pick(values: Sequence[Any], places: Iterable[int]) -> list[Any]:
    return [values[k] for k in places]


class _LoopAdjoint:
    """The adjoint of one loop.  ``carries``, ``consts``, ``xs``, ``rows``: the places of those of its carries, operands
    and stacked results that have cotangents in some step."""

    def __init__(
        self, node: Node, cts: Sequence[Atom | None], wants: Sequence[bool], doubts: Sequence[Doubt],
        known: Sequence[Atom | None] | None,
    ) -> None:  # fmt: skip
        self.node, self.cts, self.doubts, self.known = node, cts, doubts, known
        self.view = view = loop_view(node)
        body, inner = view.body, view.inner
        self.lead, self.first = before_consts(node.params), before_rows(node.params)
        active, _ = loop_activity(node, wants)
        self.rows = [k for k, y in enumerate(view.rows) if cts[self.first + k] is not None and y in active]
        # the carries whose cotangents are not zero in every step
        self.carries, needed = needed_carries(
            inner.carries,
            [k for k, v in enumerate(inner.carries) if cts[k] is not None and v in active],
            lambda moving: reached(body.nodes, [*_pick(view.ends, moving), *_pick(view.rows, self.rows)], active),
        )
        wanted = {v for v, want in zip(body.inputs, wants[self.lead :], strict=True) if want and v in needed}
        self.consts = [k for k, v in enumerate(inner.consts) if v in wanted]
        self.xs = [k for k, v in enumerate(inner.xs) if v in wanted]
        self.sources = [*_pick(inner.carries, self.carries), *_pick(inner.consts, self.consts)]
        self.sources += _pick(inner.xs, self.xs)
        self.ct_carries = [Var(v.aval) for v in _pick(inner.carries, self.carries)]
        self.ct_rows = [Var(v.aval) for v in _pick(view.rows, self.rows)]

    def derive(self, reverse_mode: Reverse) -> None:
        """Make the backward body: new cotangents of the carries, sums for consts, cotangents of rows of xs.  A sum of
        products over the steps is one product after the loop."""
        view, inner = self.view, self.view.inner
        rows = zip(self.rows, self.ct_rows, strict=True)
        self.builder, self.forward, found, self.delicate = _derived(
            view.body, list(zip(_pick(view.ends, self.carries), self.ct_carries, strict=True)),
            [(view.rows[k], ct, self.doubts[self.first + k]) for k, ct in rows], self.sources,
            [ZEROS if self.cts[k] is None else self.doubts[k] for k in self.carries], reverse_mode,
        )  # fmt: skip
        with building(self.builder):
            grads = iter(found)
            new_cts = [materialise(next(grads), v) for v in _pick(inner.carries, self.carries)]
            shares = {k: ct for k in self.consts if (ct := next(grads)) is not None}
            self.products = self._products(shares)
            self.summed = [k for k in shares if k not in self.products]
            self.sums = [Var(v.aval) for v in _pick(inner.consts, self.summed)]
            totals = [F.add(v, materialise(shares[k], v)) for k, v in zip(self.summed, self.sums, strict=True)]
            ct_xs = [materialise(next(grads), v) for v in _pick(inner.xs, self.xs)]
        self.outputs = [*new_cts, *totals, *ct_xs]

    def _products(self, shares: Mapping[int, Atom]) -> dict[int, Any]:
        """The shares of consts that are products whose factors have rows."""
        if self.view.ran is not None:
            return {}
        producers = {out: n for n in self.builder.nodes for out in n.outs}
        found = {k: as_product(ct, producers) for k, ct in shares.items()}
        consts = self.view.inner.consts
        return {k: p for k, p in found.items() if p is not None and not {p.x, p.y} & set(consts)}

    def store(self) -> TooMuch | None:
        """Choose what the forward loop stores, and have it do that, unless it is too much."""
        node, inner, forward = self.node, self.view.inner, self.forward
        factors = dict.fromkeys(v for p in self.products.values() for v in (p.x, p.y))
        storable = [*inner.carries, *[out for n in forward for out in n.outs[_unstored(n) :]]]
        given = {*self.view.body.inputs, *self.ct_rows, *storable}  # values with rows, and loop-invariant ones
        self.made = [v for v in factors if v not in given]
        self.outputs += self.made
        anyway = {v: v in factors for v in storable}
        inside = self.known is not None
        stored = values_to_store(node, self.builder.nodes, self.outputs, anyway, forward, inner=inside)
        if may_split(node) and worth_splitting(node, [*stored, *self.made]):
            return TooMuch(stored_bytes(node, [*stored, *self.made]))
        self.nodes = live_nodes(_without(self.builder.nodes, set(stored)), self.outputs)
        if any(out in stored for n in forward if n.prim.kind == LOOP for out in n.outs):
            body = self.view.body
            node.params = {**node.params, "body": Graph(body.inputs, fresh(forward), body.outputs)}
        self.trajectory: dict[Var, Atom] = dict(zip(stored, add_results(node, stored), strict=True))
        return None

    def run(self) -> Sequence[Atom]:
        """The results of the backward loop."""
        node, inner, outer = self.node, self.view.inner, self.view.outer
        read = {a for n in self.nodes for a in n.inputs} | {a for a in self.outputs if isinstance(a, Var)}
        consts = [k for k, v in enumerate(inner.consts) if v in read]
        xs = [k for k, v in enumerate(inner.xs) if v in read]
        saved = [v for v in self.trajectory if v in read]
        inputs = [*_pick(inner.consts, consts), *self.ct_carries, *self.sums, *saved]
        inputs += [*_pick(inner.xs, xs), *self.ct_rows]
        known, lead = self.known, self.lead
        self.before = [known[lead + k] if known and inner.consts[k].shape else None for k in self.summed]
        starts = [materialise(self.cts[k], inner.carries[k]) for k in self.carries]
        starts += [materialise(ct, v) for v, ct in zip(self.sums, self.before, strict=True)]
        row_cts = [materialise(self.cts[self.first + k], node.outs[self.first + k]) for k in self.rows]
        results = loop(
            Graph(inputs, self.nodes, self.outputs), _pick(outer.consts, consts), starts,
            [*[self.trajectory[v] for v in saved], *_pick(outer.xs, xs), *row_cts],
            node.params["length"], not node.params["reverse"], steps=self.view.ran,
        )  # fmt: skip
        self.stacked = {**self.trajectory, **dict(zip(inner.xs, outer.xs, strict=True))}
        self.stacked.update(zip(self.ct_rows, row_cts, strict=True))
        self.stacked.update(zip(self.made, results[len(results) - len(self.made) :], strict=True))
        return results

    def contributions(self, results: Sequence[Atom]) -> tuple[list[Atom | None], list[Doubt], list[int]]:
        """The result of ``loop_vjp``, of the *results* of the backward loop."""
        body, inner, lead = self.view.body, self.view.inner, self.lead
        found: list[Atom | None] = [None] * len(body.inputs)
        before_xs = len(inner.consts) + len(inner.carries)
        places = [*[len(inner.consts) + k for k in self.carries], *self.summed, *[before_xs + k for k in self.xs]]
        for place, result in zip(places, results, strict=False):
            found[place] = result
        for k, p in self.products.items():
            found[k] = sum_of_products(self.stacked[p.x], self.stacked[p.y], p.ta, p.tb)
        # with no iteration, and in rows beyond the trip count, cotangents are exactly zero
        sure = self.view.ran is None and self.node.params["length"] > 0
        infinite = any(d.infinite for d in self.doubts)
        held = [NONE if sure else Doubt(zeros=True, infinite=infinite)] * len(body.inputs)
        for v, doubt in zip(self.sources, self.delicate, strict=True):
            place = body.inputs.index(v)
            held[place] = held[place].also(doubt)
        continued = [lead + k for k, ct in zip(self.summed, self.before, strict=True) if ct is not None]
        return [None] * lead + found, [NONE] * lead + held, continued


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
    active, results = loop_activity(node, [t is not None for t in tangents])
    moving = [k for k, v in enumerate(inner.carries) if v in active]
    rows = [k for k, out in enumerate(view.stacked) if out in results]
    lead = before_consts(node.params)
    tangents, doubts = tangents[lead:], doubts[lead:]
    given = {v for v, t in zip(body.inputs, tangents, strict=True) if t is not None and v.aval.is_float}
    consts = [k for k, v in enumerate(inner.consts) if v in given]
    xs = [k for k, v in enumerate(inner.xs) if v in given]
    # of each part: the inputs of the body, the operands, the places of those that have tangents, where they begin
    parts = list(zip(inner, outer, (consts, moving, xs), (0, first, first + count), strict=True))
    dots = {v: Var(v.aval) for values, _, places, _ in parts for v in _pick(values, places)}
    doubted = set(compress(body.inputs, doubts))
    builder, dot_ends, held = _pushed(view, dots, doubted, moving, rows, forward_mode)
    asked = [] if view.go_on is None else [view.go_on]
    outputs = [*asked, *view.ends, *dot_ends]
    inputs = [x for values, _, places, _ in parts for x in (*values, *[dots[v] for v in _pick(values, places)])]
    given_consts, given_carries, given_xs = [
        [*values, *[materialise(tangents[begin + k], values[k]) for k in places]] for _, values, places, begin in parts
    ]
    found = loop(
        Graph(inputs, live_nodes(builder.nodes, outputs), outputs), given_consts, given_carries, given_xs,
        node.params["length"], node.params["reverse"], steps=view.steps, stops=bool(asked),
    )  # fmt: skip
    pushed_out = [*found[count : count + len(moving)], *found[count + len(moving) + len(asked) :]]
    dotted: list[Atom | None] = [None] * len(node.outs)
    places = [*moving, *[before_rows(node.params) + k for k in rows]]
    for place, value in zip(places, pushed_out, strict=True):
        dotted[place] = value
    within = dict(zip(places, [*_pick(inner.carries, moving), *_pick(view.rows, rows)], strict=True))
    return dotted, [within.get(place) in held for place in range(len(node.outs))]


def _pushed(
    view: LoopView, dots: Mapping[Var, Atom], doubted: set[Var], moving: Sequence[int], rows: Sequence[int],
    forward_mode: Forward,
) -> tuple[Builder, list[Atom], set[Var]]:  # fmt: skip
    """(a body under construction, the tangents of what it ends with, the values whose tangents may be infinite)

    *moving* carries and *rows* have tangents, *dots* are those of the inputs.  What is *doubted* of a carry at the end
    of a step is so at the begin of the next: so the body is derived again until there is no more."""
    wanted = [*_pick(view.ends, moving), *_pick(view.rows, rows)]
    while True:
        with building(Builder()) as builder:
            builder.adopt(fresh(view.body.nodes))
            pushed, held = forward_mode(list(builder.nodes), dots, doubted, wanted)
            like = [*_pick(view.inner.carries, moving), *_pick(view.rows, rows)]
            ends = [materialise(_tangent(pushed, x), v) for x, v in zip(wanted, like, strict=True)]
        more = {v for v, end in zip(view.inner.carries, view.ends, strict=True) if end in held} - doubted
        if not more:
            return builder, ends, held
        doubted |= more


def _tangent(pushed: dict[Var, Atom], value: Any) -> Atom | None:
    return pushed.get(value) if isinstance(value, Var) else None
