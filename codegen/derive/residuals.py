"""Residuals of a loop's adjoint, and sums that it takes once after the loop instead of in every step.

A backward step runs the forward step again, except for what is dear: the results of products and of reductions over
more than a few elements are not computed again, those of transcendental functions only where storing something would
take longer.  ``residual_cut.py`` finds what to store.

A constant's cotangent is a sum over all steps.  Where a step's share is a matrix product (the gradient of a weight),
the operands of all steps are stacked, and one product after the loop replaces a small one and an addition in each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from ...tracer.ir.graph import Atom, Node, Var
from ...tracer.ir.primitive import ELEMENTWISE, HOST, LAPACK, LOOP, PRODUCT, RECURRENCE, REDUCE, SCATTER
from ...tracer.ir.settings import loop_memory
from ...tracer.ops.control import loop_view
from ...tracer.ops.product import matmul
from ...tracer.ops.shape import reshape, transpose
from .checkpoints import stored_bytes
from .residual_cut import least_stored

SMALL = 16  # elements up to which a result is summed in registers, and reduced again rather than stored
TRANSCENDENTAL = 20  # rough flops of an elementwise operation from which on computing it again has a cost
COPIED = 4  # how much dearer than another value it is to store an array that could be in place
CACHED = 32 << 20  # bytes that are written and read again without going to memory
# rough flops in the time of writing and reading one byte in the cache, in memory, and beyond the budget
IN_CACHE, IN_MEMORY, NO_ROOM = 1, 4, 1_000_000


def values_to_store(
    node: Node, nodes: Sequence[Node], outputs: Sequence[Atom], storable: Mapping[Var, bool], forward: Sequence[Node],
    inner: bool = False,
) -> list[Var]:  # fmt: skip
    """Residuals of one step of the loop *node* with which the adjoint's *nodes* compute *outputs* in the least time.

    *storable* maps each value that can be stored to whether it is stored in any case.  The consts of an *inner* loop
    may be values of a step of the loop around it, which has to store them, or else the elements that are read.
    """
    view = loop_view(node)
    carries, known = view.inner.carries, view.ran is None  # of steps that data counts, most rows are never written
    cached = min(CACHED, loop_memory.budget) if known else loop_memory.budget
    given = [v for v in view.inner.consts if inner and v.aval.size > SMALL]
    again = {out: cost for n in forward for out in n.outs if (cost := _cost(n))}
    again |= dict.fromkeys([*carries, *given], inf)
    written = _written(forward, dict(zip(view.ends, carries, strict=True)))
    for rate, limit in (IN_CACHE, cached), (IN_MEMORY, loop_memory.budget), (NO_ROOM, inf):
        price = {v: 0 if anyway else max(rate * v.aval.nbytes, 1) for v, anyway in storable.items()}
        price |= {v: COPIED * price[v] for v in written if v in price}
        price |= {v: max(rate * v.aval.nbytes // max(node.params["length"], 1), 1) for v in given}
        chosen = least_stored(nodes, outputs, again, price)
        stored = [v for v, anyway in storable.items() if anyway or v in chosen]
        if stored_bytes(node, stored) <= limit:
            break
    return stored


def _written(forward: Sequence[Node], carries: Mapping[Atom, Var]) -> set[Var]:
    """The arrays that a step has written elements into: to store one is to copy it in every step."""
    found: set[Var] = set()
    for node in forward:
        if node.prim.kind == SCATTER or (node.prim.name == "reshape" and node.inputs[0] in found):
            found.add(node.out)
        elif node.prim.kind == LOOP and "body" in node.params:
            found.update(v for v in loop_view(node).finals if v.aval.size > SMALL)
    return found | {carries[v] for v in found if v in carries}


def _cost(node: Node) -> float:
    """Rough flops to compute the results of *node* again; 0 where they are not worth counting."""
    prim = node.prim
    if prim.kind in (REDUCE, RECURRENCE):
        return inf if node.inputs[0].aval.size > SMALL else 0
    if prim.kind == ELEMENTWISE:
        return prim.cost * node.out.aval.size if prim.cost >= TRANSCENDENTAL else 0
    return inf if prim.kind in (PRODUCT, LAPACK, SCATTER, HOST) else 0


class Product(NamedTuple):
    """A step's share of a sum, ``x @ y`` of matrices (x stored transposed with *ta*, y with *tb*), or x ⊗ y."""

    x: Var
    y: Var
    ta: bool
    tb: bool


def as_product(value: Atom, producers: Mapping[Var, Node]) -> Product | None:
    """*value* as a product of matrices, or as an outer product of two vectors."""
    node = producers.get(value) if isinstance(value, Var) else None
    if node is None or node.out.aval.ndim != 2 or node.out.aval.size <= SMALL or len(node.inputs) != 2:
        return None
    x, y = node.inputs
    if node.prim.name == "matmul" and isinstance(x, Var) and isinstance(y, Var):
        return Product(x, y, node.params["ta"], node.params["tb"])
    if node.prim.name != "mul":
        return None
    sides = {}
    for side in (x, y):
        wide = producers.get(side) if isinstance(side, Var) else None
        if wide is None or wide.prim.name != "broadcast" or not isinstance(wide.inputs[0], Var):
            return None
        sides[wide.params["dims"]] = wide.inputs[0]
    return Product(sides[(0,)], sides[(1,)], True, False) if set(sides) == {(0,), (1,)} else None


def sum_of_products(x: Atom, y: Atom, ta: bool, tb: bool) -> Var:
    """The sum over axis 0 of the products of rows of *x* and *y* (see ``Product``), as one product."""
    if x.aval.ndim == 2:
        return matmul(x, y, True, False)
    return matmul(_joined(x, ta), _joined(y, not tb), ta, tb)


def _joined(x: Atom, first: bool) -> Atom:
    """x[t, a, b] with steps t merged into the contracted axis: a if *first*, else b."""
    t, a, b = x.aval.shape
    return reshape(x, (t * a, b)) if first else reshape(transpose(x, (1, 0, 2)), (a, t * b))
