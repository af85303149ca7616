"""Promotion of float16 and bfloat16: they are dtypes of storage, and all arithmetic on them is float32.

Inputs are converted where they are loaded, results rounded once where they are stored, and nothing in between: sums,
loop carries, Python numbers and the operands of library calls are float32.  Only a cast of an array rounds.
The interpreter keeps to the same rules, node by node (``tracer/ir/evaluate.py``), so a graph means the same with and
without this rewriting.

A value of half precision has up to two forms in the new graph: *held*, a float32, and *stored*, an atom of its own
dtype, which is there where it came in or was cast.  Views of what is stored are stored.  Start reading at
``_Rewriting.node``.  After it, values of half precision are inputs, casts, views of these, rows that loops stack, and,
where the device has products of them (``half_products``), operands and results of those.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...tracer.ir.aval import FLOAT16, FLOAT32, HALF, Aval, held_dtype
from ...tracer.ir.graph import Atom, Graph, Lit, Node, Var
from ...tracer.ir.primitive import LOOP, PRODUCT, VIEW
from ...tracer.ir.site import Site
from ...tracer.ops.control import before_consts, before_rows, loop_view
from ...tracer.ops.elementwise import CAST

# Dtypes that cuBLAS multiplies directly, accumulating in float32.  CuPy's support of bfloat16 is experimental and
# untested here on a GPU: such products are float32.
CUDA_PRODUCTS = frozenset((FLOAT16,))


def in_float32(graph: Graph, half_products: Container[np.dtype] = ()) -> Graph:
    """*graph* with the arithmetic on half-precision values in float32, or itself where there are none.

    *half_products*: matrix products of these dtypes take operands as they are, add up in float32, and round.
    """
    if not _has_halves(graph):
        return graph
    rewriting = _Rewriting(half_products)
    for var in [*graph.inputs, *[v for v, _ in graph.consts]]:
        rewriting.came_in(var)
    for node in graph.nodes:
        rewriting.node(node)
    outputs = [rewriting.stored(a) for a in graph.outputs]
    guards = [
        replace(g, atom=rewriting.held(g.atom), expected=held_dtype(g.atom.aval.dtype).type(g.expected))
        for g in graph.guards
    ]
    return Graph(graph.inputs, rewriting.nodes, outputs, guards, graph.consts)


def _has_halves(graph: Graph) -> bool:
    for node in graph.nodes:
        if any(out.aval.dtype in HALF for out in node.outs):
            return True
        if node.prim.kind == LOOP and _has_halves(node.params["body"]):
            return True
    return any(v.aval.dtype in HALF for v in [*graph.inputs, *[v for v, _ in graph.consts]])


class _Rewriting:
    def __init__(self, half_products: Container[np.dtype]):
        self.half_products = half_products
        self.nodes: list[Node] = []
        self._held: dict[Var, Atom] = {}
        self._stored: dict[Var, Var] = {}

    # ---- the two forms -------------------------------------------------------------------------------------------

    def came_in(self, var: Var) -> None:
        if var.aval.dtype in HALF:
            self._stored[var] = var

    def held(self, atom: Atom) -> Atom:
        """*atom* to compute with."""
        if isinstance(atom, Lit):
            if atom.aval.dtype not in HALF:
                return atom
            return Lit(atom.value, FLOAT32, weak=atom.aval.weak, structural=atom.structural)
        found = self._held.get(atom)
        if found is None and atom in self._stored:
            found = self._held[atom] = self._cast(self._stored[atom], FLOAT32)
        return atom if found is None else found

    def stored(self, atom: Atom) -> Atom:
        """*atom* in its own dtype."""
        if atom.aval.dtype not in HALF:
            return self.held(atom)
        if isinstance(atom, Lit):
            return self._cast(self.held(atom), atom.aval.dtype)
        found = self._stored.get(atom)
        if found is None:
            found = self._stored[atom] = self._cast(self._held[atom], atom.aval.dtype)
        return found

    def _cast(self, x: Atom, dtype: np.dtype, site: Site | None = None) -> Var:
        out = Var(Aval(dtype, x.aval.shape))
        self.nodes.append(Node(CAST, (x,), {"dtype": dtype}, (out,), site))
        return out

    # ---- nodes ---------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        prim, halves = node.prim, [a for a in node.inputs if a.aval.dtype in HALF]
        if prim.kind == LOOP:
            self._loop(node)
        elif prim is CAST:
            self._conversion(node)
        elif halves and (
            (prim.kind == VIEW and all(a in self._stored for a in halves))
            or (prim.kind == PRODUCT and node.out.aval.dtype in self.half_products)
        ):
            inputs = tuple([self.stored(a) if a in halves else self.held(a) for a in node.inputs])
            self.nodes.append(Node(prim, inputs, node.params, node.outs, node.site))
            self._stored[node.out] = node.out
        else:
            inputs = tuple([self.held(a) for a in node.inputs])
            params = {**node.params, "dtype": FLOAT32} if node.params.get("dtype") in HALF else node.params
            self.nodes.append(Node(prim, inputs, params, tuple([self._result(o) for o in node.outs]), node.site))

    def _result(self, out: Var) -> Var:
        """The result *out* of a node, held."""
        if out.aval.dtype not in HALF:
            return out
        held = self._held[out] = Var(Aval(FLOAT32, out.aval.shape, out.aval.weak))
        return held

    def _conversion(self, node: Node) -> None:
        x, out = self.held(node.inputs[0]), node.out
        if out.aval.dtype in HALF and x.aval.weak:  # a Python number, which is not rounded
            self._held[out] = self._cast(x, FLOAT32, node.site)
        elif out.aval.dtype in HALF:
            self.nodes.append(Node(CAST, (x,), node.params, (out,), node.site))
            self._stored[out] = out
        elif x.aval.dtype == out.aval.dtype and isinstance(x, Var):
            self._held[out] = x
        else:
            self.nodes.append(Node(CAST, (x,), node.params, (out,), node.site))

    def _loop(self, node: Node) -> None:
        """Carries are held; consts and xs are as they are outside; rows of ys are stored."""
        view, lead, first = loop_view(node), before_consts(node.params), before_rows(node.params)
        inside = _Rewriting(self.half_products)

        def parameter(var: Var, outside: Atom, carried: bool) -> tuple[Var, Atom]:
            if var.aval.dtype in HALF and (carried or outside not in self._stored):
                return inside._result(var), self.held(outside)
            inside.came_in(var)
            return var, self.stored(outside)

        parameters: list[Var] = []
        operands: list[Atom] = []
        for inner, outer, carried in zip(view.inner, view.outer, (False, True, False), strict=True):
            pairs = [parameter(v, a, carried) for v, a in zip(inner, outer, strict=True)]
            parameters += [v for v, _ in pairs]
            operands += [a for _, a in pairs]
        for step in view.body.nodes:
            inside.node(step)
        asked: Sequence[Any] = [] if view.go_on is None else [inside.held(view.go_on)]
        ends = [inside.held(a) for a in view.ends]
        rows = [inside.stored(a) for a in view.rows]
        body = Graph(parameters, inside.nodes, [*asked, *ends, *rows])
        outs = (*[self._result(o) for o in view.finals], *node.outs[len(view.finals) : first], *view.stacked)
        for out in view.stacked:
            self.came_in(out)
        leading = tuple([self.held(a) for a in node.inputs[:lead]])
        self.nodes.append(Node(node.prim, (*leading, *operands), {**node.params, "body": body}, outs, node.site))
