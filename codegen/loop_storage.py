"""What the adjoint of a loop stores, and what it adds up after the loop instead of in every step.

A backward step runs the forward step again, except for what is *dear*: the results of products, of reductions over more
than a few elements, of transcendental functions.  What is stored, so that none of these is computed again, is the
matter of ``loop_cut.py``.

A constant's cotangent is a sum over all steps.  Where a step's share is a matrix product (the gradient of a weight),
the operands of all steps are stacked, and one product after the loop replaces a small one and an addition in each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..tracer.ir import Atom, Node, Var
from ..tracer.ops.product import matmul
from ..tracer.ops.shape import reshape, transpose
from ..tracer.primitive import ELEMENTWISE, HOST, PRODUCT, RECURRENCE, REDUCE, SCATTER
from .loop_cut import least_stored

SMALL = 16  # elements: what is no larger is summed in registers, and reduced again rather than stored
TRANSCENDENTAL = 20  # rough flops from which on an elementwise operation is dearer than writing and reading its result


def values_to_store(
    nodes: Sequence[Node], outputs: Sequence[Atom], storable: Mapping[Var, bool], carries: Sequence[Var],
    forward: Sequence[Node], too_much: Callable[[list[Var]], bool],
) -> list[Var]:  # fmt: skip
    """The values that a step of the forward loop stores, so that *nodes* compute *outputs* and nothing dear again.

    *storable* says of each value that can be stored whether it is in any case.  Loops within the body are run again;
    so are transcendental functions, where *too_much* says that their results are.
    """
    price = {v: 0 if anyway else max(v.aval.size * v.aval.dtype.itemsize, 1) for v, anyway in storable.items()}
    for least in (False, True):
        dear = {*carries, *[out for node in forward if _is_dear(node, least) for out in node.outs]}
        chosen = least_stored(nodes, outputs, dear, price)
        stored = [v for v, anyway in storable.items() if anyway or v in chosen]
        if not too_much(stored):
            break
    return stored


def _is_dear(node: Node, least: bool) -> bool:
    prim = node.prim
    if prim.kind in (REDUCE, RECURRENCE):
        return node.inputs[0].aval.size > SMALL
    if prim.kind == ELEMENTWISE:
        return not least and prim.cost >= TRANSCENDENTAL
    return prim.kind in (PRODUCT, SCATTER, HOST)


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
    """x[t, a, b] with the steps t joined to the axis that is summed over: a where it is the *first*, else b."""
    t, a, b = x.aval.shape
    return reshape(x, (t * a, b)) if first else reshape(transpose(x, (1, 0, 2)), (a, t * b))


__all__ = ["Product", "as_product", "sum_of_products", "values_to_store"]
