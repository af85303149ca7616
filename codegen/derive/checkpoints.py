"""Checkpointing of loops whose residuals would take too much memory.

The reverse mode stores something of each of n steps.  Where that is more than ``config.loop_memory``, the loop is
written as a loop over chunks of about √n steps, before its adjoint is derived: the outer loop stores what it carries
at the start of each chunk, and its adjoint runs one chunk again and stores its steps.  Memory for 2 √n steps instead of
n, for one more forward pass.  The steps that are left over are a loop of their own.

The number of a step is not stored, but computed from the chunk's and the step's within it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tracer.ir.aval import INT, Aval
from ...tracer.ir.graph import Atom, Builder, Graph, Lit, Node, Var, building, current_builder
from ...tracer.ir.settings import loop_memory
from ...tracer.ops.control import LoopOperands, loop, loop_view
from ...tracer.ops.elementwise import F, cast
from ...tracer.ops.shape import concat, iota, reshape, slice_axis

LEAST = 16  # steps of a loop that is worth to be split


def stored_bytes(node: Node, rows: Sequence[Var]) -> int:
    """Bytes of the values of *rows* in all steps of the loop *node*."""
    return node.params["length"] * sum(v.aval.nbytes for v in rows)


def may_split(node: Node) -> bool:
    """Whether the loop can be split into chunks (not if it runs only some of its rows)."""
    return loop_view(node).ran is None and node.params["length"] >= LEAST


def worth_splitting(node: Node, rows: Sequence[Var]) -> bool:
    """Whether the residuals of the loop exceed the budget."""
    return stored_bytes(node, rows) > loop_memory.budget


def split(node: Node, nbytes: int) -> list[Node]:
    """The nodes that take the place of the loop *node* of the builder in force, with the same results.

    *nbytes* is what the loop would have stored, for ``explain()``.
    """
    builder = current_builder()
    place = next(k for k, n in enumerate(builder.nodes) if n is node)
    numbers = {n.out for n in builder.nodes[:place] if n.prim.name == "iota"}
    with building(Builder()) as new:
        new.site_override = node.site
        results = _Split(node, numbers).results()
    renamed = dict(zip(results, node.outs, strict=True))
    nodes = []
    for n in new.nodes:
        n.inputs = tuple([renamed.get(a, a) if isinstance(a, Var) else a for a in n.inputs])
        n.outs = tuple([renamed.get(o, o) for o in n.outs])
        nodes.append(n)
        builder.claim(n.outs)
    builder.nodes[place : place + 1] = nodes
    size = _chunk(node.params["length"])
    builder.notes.append(
        f"the loop of {node.params['length']} steps at {node.site} has checkpoints every {size} steps, where "
        f"everything would take {nbytes} bytes and config.loop_memory is {loop_memory.budget}: its reverse mode runs "
        "the steps between two of them once more"
    )
    return nodes


def _chunk(length: int) -> int:
    return max(math.isqrt(length), 2)


class _Split:
    """The loop *node* in chunks; *numbers* are values that count from 0."""

    def __init__(self, node: Node, numbers: set[Var]):
        view = loop_view(node)
        self.body, self.inner, self.outer = view.body, view.inner, view.outer
        self.reverse = node.params["reverse"]
        self.length = node.params["length"]
        self.size = _chunk(self.length)
        self.chunks = self.length // self.size
        self.head = self.chunks * self.size
        self.counted = [k for k, x in enumerate(view.outer.xs) if x in numbers]

    def results(self) -> list[Atom]:
        """The results of the whole loop: carries, then ys."""
        count, rest = len(self.inner.carries), self.length - self.head
        carries: Sequence[Atom] = self.outer.carries
        first: list[Atom] = []
        last: list[Atom] = []
        parts = [*["rest"] * bool(rest), "head"]
        for part in parts if self.reverse else reversed(parts):
            if part == "head":
                found = self._in_chunks(carries)
                first = [reshape(y, (self.head, *y.aval.shape[2:])) for y in found[count:]]
            else:
                xs = [slice_axis(x, 0, self.head, rest) for x in self.outer.xs]
                found = self._steps(LoopOperands(self.outer.consts, carries, xs), rest, Lit(self.head, INT))
                last = list(found[count:])
            carries = found[:count]
        ys = [concat([a, b], 0) for a, b in zip(first, last, strict=True)] if rest else first
        return [*carries, *ys]

    def _in_chunks(self, carries: Sequence[Atom]) -> Sequence[Var]:
        inside = LoopOperands(
            [Var(v.aval) for v in self.inner.consts], [Var(v.aval) for v in self.inner.carries],
            [Var(Aval(v.aval.dtype, (self.size, *v.aval.shape))) for v in self.inner.xs],
        )  # fmt: skip
        number, size = Var(Aval(INT, ())), Var(Aval(INT, ()))
        with building(Builder()) as builder:
            outputs = self._steps(inside, self.size, F.mul(number, size))
        rows = [k for k in range(len(inside.xs)) if k not in self.counted]
        inputs = [*inside.consts, size, *inside.carries, *[inside.xs[k] for k in rows], number]
        xs = [slice_axis(x, 0, 0, self.head) for x in (self.outer.xs[k] for k in rows)]
        xs = [reshape(x, (self.chunks, self.size, *x.aval.shape[1:])) for x in xs]
        return loop(
            Graph(inputs, builder.nodes, list(outputs)), [*self.outer.consts, Lit(self.size, INT)], carries,
            [*xs, iota(self.chunks)], self.chunks, self.reverse,
        )  # fmt: skip

    def _steps(self, operands: LoopOperands, length: int, start: Atom) -> Sequence[Var]:
        """*length* steps, the first of which has the number *start*."""
        base, step = Var(Aval(INT, ())), Var(Aval(INT, ()))
        inner = self.inner
        with building(Builder()) as builder:
            number = F.add(base, step)
            numbered = {inner.xs[k]: cast(number, inner.xs[k].aval.dtype) for k in self.counted}
        body, inputs = self.body, [*inner.consts]
        consts, xs = list(operands.consts), [x for k, x in enumerate(operands.xs) if k not in self.counted]
        rows = [v for k, v in enumerate(inner.xs) if k not in self.counted]
        if self.counted:

            def renamed(a: Atom) -> Atom:
                return numbered.get(a, a) if isinstance(a, Var) else a

            nodes = [Node(n.prim, tuple([renamed(a) for a in n.inputs]), n.params, n.outs, n.site) for n in body.nodes]
            body = Graph([], [*builder.nodes, *nodes], [renamed(a) for a in body.outputs])
            inputs, consts = [*inputs, base], [*consts, start]
            rows, xs = [*rows, step], [*xs, iota(length)]
        graph = Graph([*inputs, *inner.carries, *rows], body.nodes, body.outputs)
        return loop(graph, consts, operands.carries, xs, length, self.reverse)
