"""How a cotangent changes with values of the forward program: what derivatives at equal eigenvalues are made of.

``tracer/ops/linalg_gaps.py`` says what it is for.  A cotangent is a function of forward values, so its change is
forward mode over the nodes between.  Those stand in a loop of one step or none: they run only where eigenvalues are
equal.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ...tracer.ir.graph import Atom, Builder, Var, building, current_builder, live_nodes, structural
from ...tracer.ir.primitive import LOOP
from ...tracer.ops.closure_conversion import closed
from ...tracer.ops.control import loop
from ...tracer.ops.elementwise import F
from ...tracer.ops.linalg_gaps import NO_RATES, UNKNOWN, Parting, Rates, parting_values
from ...tracer.ops.shape import full, or_zeros
from .activity import depends_on

MOST_NODES = 200  # between the values and the cotangent: about as many are added


def rates_of_change(
    ct: Atom, parting: Parting, opaque: Container[Var], forward: Callable[..., dict[Var, Atom]]
) -> Rates:
    """The changes of *ct* that *parting* asks for: ``UNKNOWN`` where *ct* depends on something *opaque*, or where they
    would take too much.  *forward* is ``jvp_all``."""
    if not isinstance(ct, Var):
        return NO_RATES
    nodes = live_nodes(current_builder().nodes, [ct])
    if ct in opaque or any(a in opaque for n in nodes for a in n.inputs):
        return UNKNOWN
    values, vectors = parting.values, parting.vectors
    with_values, with_vectors = (ct in depends_on(nodes, [v]) for v in (values, vectors))
    active = depends_on(nodes, [values, vectors])
    between = [n for n in nodes if n.outs[0] in active]
    if len(between) > MOST_NODES or any(n.prim.kind == LOOP or n.prim.joint for n in between):
        return UNKNOWN
    with building(Builder()) as body:
        found: list[Atom | None] = [None] * 4
        if with_values:
            found[0] = forward(nodes, {values: parting_values(values)}).get(ct)
            ones = full(structural(1, values.aval.dtype), values.aval.shape)
            found[1] = forward(nodes, {values: ones}).get(ct)
        if with_vectors:
            turned = {vectors: parting.turned()}
            found[2] = forward(nodes, turned).get(ct)
            if isinstance(found[1], Var):
                found[3] = forward([*nodes, *live_nodes(body.nodes, [found[1]])], turned).get(found[1])
    some = [x for x in found if x is not None]
    graph, consts = closed(live_nodes(body.nodes, some), some, [Var(ct.aval) for _ in some])
    results = iter(loop(graph, consts, [or_zeros(None, ct) for _ in some], [], 1, False, steps=parting.any))
    return Rates(*[None if x is None else F.stop_gradient(next(results)) for x in found])
