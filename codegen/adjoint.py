"""Derivatives, graph to graph: reverse mode (vjp) and forward mode (jvp).

Both append ordinary nodes to the builder in force, so derivatives of derivatives need nothing new, and forward and
adjoint are one scheduling problem.  Zero times infinity is zero here: where a cotangent may be exactly 0 because
``where``, ``maximum`` or an index left an element out, or infinite because it passed a singular point, it is
multiplied by ``mulz``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..tracer.errors import GraphError
from ..tracer.ir import Atom, Lit, Node, Var, bind, current_builder, structural
from ..tracer.ops.elementwise import MINUS, ONE, F, broadcast_to
from ..tracer.ops.shape import zeros
from ..tracer.primitive import CUSTOM, ELEMENTWISE, differentiable
from ..tracer.site import adjoint_site


def depends_on(nodes: Sequence[Node], sources: Sequence[Var]) -> set[Var]:
    """The Vars through which a derivative with respect to *sources* can flow."""
    active = set(sources)
    for node in nodes:
        if (
            differentiable(node.prim)
            and node.out.aval.is_float
            and any(a in active for a in node.inputs if isinstance(a, Var))
        ):
            active.update(node.outs)
    return active


def vjp(nodes: Sequence[Node], output: Atom, cotangent: Atom, wrt: Sequence[Var]) -> list[Atom]:
    """Cotangents of *wrt* for the cotangent of *output*; *nodes* are the program between them, in order."""
    cotangents, _ = vjp_seeded(nodes, [(output, cotangent)], wrt)
    return [_materialise(ct, var) for ct, var in zip(cotangents, wrt, strict=True)]


def vjp_seeded(
    nodes: Sequence[Node], seeds: Sequence[tuple[Atom, Atom]], wrt: Sequence[Var], *, careful: bool = False
) -> tuple[list[Atom | None], list[bool]]:
    """As ``vjp``, from several (output, cotangent) pairs; None where nothing flows.

    *careful*: the cotangents given may hold exact zeros or infinities.  The second result says the same of those
    returned.
    """
    active = depends_on(nodes, wrt)
    cotangents: dict[Var, Atom] = {}
    guarded_vars: set[Var] = set()  # cotangents that may hold exact zeros or infinities
    for output, cotangent in seeds:
        if isinstance(output, Var) and output in active:
            known = cotangents.get(output)
            cotangents[output] = cotangent if known is None else F.add(known, cotangent)
            if careful:
                guarded_vars.add(output)
    builder = current_builder()
    outer = builder.site_override
    for node in reversed(nodes):
        if node.out not in active or not any(o in cotangents for o in node.outs):
            continue
        builder.site_override = adjoint_site(node.site)
        guarded = any(o in guarded_vars for o in node.outs)
        wants = [isinstance(a, Var) and a in active for a in node.inputs]
        cts = [cotangents.get(o) for o in node.outs]
        for atom, contribution in zip(node.inputs, _node_vjp(node, cts, wants, guarded), strict=True):
            if contribution is None or not isinstance(atom, Var) or atom not in active:
                continue
            previous = cotangents.get(atom)
            cotangents[atom] = contribution if previous is None else F.add(previous, contribution)
            if guarded or node.prim.masking or node.prim.singular:
                guarded_vars.add(atom)
    builder.site_override = outer
    return [cotangents.get(var) for var in wrt], [var in guarded_vars for var in wrt]


def _materialise(ct: Atom | None, var: Var) -> Atom:
    if ct is None:
        return zeros(var.aval.shape, var.aval.dtype) if var.aval.shape else structural(0, var.aval.dtype)
    if isinstance(ct, Lit) and var.aval.shape:
        return broadcast_to(ct, var.aval.shape)
    return ct


def _node_vjp(node: Node, cts: Sequence[Atom | None], wants: Sequence[bool], careful: bool) -> Sequence[Atom | None]:
    prim = node.prim
    if prim.kind == CUSTOM and prim.vjp is not None:
        return prim.vjp(cts, node.outs, *node.inputs, **node.params)
    ct = cts[0]
    assert ct is not None
    if prim.vjp is not None:
        return prim.vjp(ct, node.out, *node.inputs, **node.params)
    if prim.transpose is not None:
        return [prim.transpose(ct, node.inputs[0].aval, **node.params) if wants[0] else None]
    if prim.kind != ELEMENTWISE:
        raise GraphError(f"{prim.name} has no derivative rule")
    multiply = F.mulz if careful or prim.singular else F.mul
    result: list[Atom | None] = []
    for partial, wanted in zip(prim.partials, wants, strict=True):
        if partial is None or not wanted:
            result.append(None)
        elif partial is ONE:
            result.append(ct)
        elif partial is MINUS:
            result.append(F.neg(ct))
        else:
            factor = partial(node.out, *node.inputs, **node.params)
            result.append(_times(multiply, ct, factor))
    return result


def _times(multiply: object, ct: Atom, factor: Atom) -> Atom:
    if isinstance(ct, Lit) and ct.is_structural(1):
        return factor
    return multiply(ct, factor)  # type: ignore[operator]


def jvp(nodes: Sequence[Node], tangents: dict[Var, Atom], output: Atom) -> Atom:
    """The tangent of *output* for tangents of some Vars."""
    known = dict(tangents)
    active = depends_on(nodes, list(tangents))
    for node in nodes:
        if node.out not in active or node.out in known:
            continue
        inner = [known.get(a) if isinstance(a, Var) else None for a in node.inputs]
        if all(t is None for t in inner):
            continue
        tangent = _node_jvp(node, inner)
        if tangent is not None:
            known[node.out] = tangent
    found = known.get(output) if isinstance(output, Var) else None
    if found is None:
        return zeros(output.aval.shape, output.aval.dtype)
    return broadcast_to(found, output.aval.shape) if isinstance(found, Lit) else found


def _node_jvp(node: Node, tangents: Sequence[Atom | None]) -> Atom | None:
    prim = node.prim
    if prim.jvp is not None:
        return prim.jvp(tangents, node.out, *node.inputs, **node.params)
    if prim.transpose is not None:
        return _apply_linear(node, tangents[0])
    total: Atom | None = None
    for partial, tangent in zip(prim.partials, tangents, strict=True):
        if partial is None or tangent is None:
            continue
        if partial is ONE:
            term: Atom = tangent
        elif partial is MINUS:
            term = F.neg(tangent)
        else:
            term = F.mulz(tangent, partial(node.out, *node.inputs, **node.params))
        total = term if total is None else F.add(total, term)
    return total


def _apply_linear(node: Node, tangent: Atom | None) -> Atom | None:
    """A linear map applied to its tangent."""
    if tangent is None:
        return None
    if isinstance(tangent, Lit) and node.inputs[0].aval.shape:
        tangent = broadcast_to(tangent, node.inputs[0].aval.shape)
    return bind(node.prim, tangent, **node.params)
