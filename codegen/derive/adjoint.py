"""Derivatives, graph to graph: reverse mode (vjp) and forward mode (jvp).

Both append ordinary nodes to the builder in force, so derivatives of derivatives need nothing new, and forward and
adjoint are one scheduling problem.  Zero times infinity is zero here: where a cotangent may be exactly 0 because
``where``, ``maximum`` or an index left an element out, or infinite because it passed a singular point, it is
multiplied by ``mulz``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from ...tracer.ir.errors import GraphError
from ...tracer.ir.graph import Atom, Lit, Node, Var, bind, current_builder
from ...tracer.ir.primitive import ELEMENTWISE, LOOP, Primitive
from ...tracer.ir.site import adjoint_site
from ...tracer.ops.elementwise import MINUS, ONE, F, broadcast_to
from .activity import depends_on, reached
from .capacity import give_capacity
from .checkpoints import split
from .loop_adjoint import TooMuch, loop_jvp, loop_vjp, materialise
from .rate import rates_of_change
from .taint import EVERY, NONE, Care, Doubt
from .transpose import LinearPart, given_where, pulled_by_transposing, pushed_by_transposing, transposed


def vjp(nodes: Sequence[Node], output: Atom, cotangent: Atom, wrt: Sequence[Var]) -> list[Atom]:
    """Cotangents of *wrt* for the cotangent of *output*; *nodes* are the program between them, in order."""
    cotangents, _ = vjp_seeded(nodes, [(output, cotangent)], wrt)
    return [materialise(ct, var) for ct, var in zip(cotangents, wrt, strict=True)]


def vjp_seeded(
    nodes: Sequence[Node], seeds: Sequence[tuple[Atom, Atom]], wrt: Sequence[Var], *, careful: bool = False
) -> tuple[list[Atom | None], list[bool]]:
    """As ``vjp``, for several seeds (output, cotangent); None where nothing flows.

    *careful*: the cotangents given may hold exact zeros or infinities.  The second result says the same of those
    returned.
    """
    doubt = EVERY if careful else NONE
    found, doubts = reverse(nodes, [(output, cotangent, doubt) for output, cotangent in seeds], wrt, inner=False)
    return found, [bool(d) for d in doubts]


def reverse(
    nodes: Sequence[Node], seeds: Sequence[tuple[Atom, Atom, Doubt]], wrt: Sequence[Var], *, inner: bool = True
) -> tuple[list[Atom | None], list[Doubt]]:
    """Cotangents of *wrt* (None where nothing flows) and the ``Doubt`` of each; those of the seeds are given.

    *inner*: in the body of a loop, where nobody knows what the cotangents of the seeds depend on.
    """
    active = depends_on(nodes, wrt)
    cotangents: dict[Var, Atom] = {}
    care = Care()
    for output, cotangent, doubt in seeds:
        if isinstance(output, Var) and output in active:
            _add(cotangents, output, cotangent)
            care.add(output, doubt)
    builder = current_builder()
    outer = builder.site_override
    opaque = {cotangent for _, cotangent, _ in seeds if inner and isinstance(cotangent, Var)}
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if not any(o in cotangents and o in active for o in node.outs):
            continue
        builder.site_override = adjoint_site(node.site)
        give_capacity(node)  # which may have more operands and results then
        wants = [isinstance(a, Var) and a in active for a in node.inputs]
        cts = [cotangents.get(o) for o in node.outs]
        contributions: Sequence[Atom | None]
        doubts: list[Doubt] | None = None
        if node.prim.kind == LOOP:
            known = _operands_cotangents(node, cotangents) if inner else None
            found = loop_vjp(node, cts, wants, [care.of([o]) for o in node.outs], reverse, known)
            if isinstance(found, TooMuch):
                parts = split(node, found.nbytes)
                active |= depends_on(parts, active)
                todo += parts
                continue
            contributions, doubts, continued = found
            for k in continued:  # what there was before is in the contribution
                del cotangents[node.inputs[k]]  # type: ignore[arg-type]
        else:
            contributions = _node_vjp(node, cts, wants, bool(care.of(node.outs)), opaque)
        operands: Any = node.inputs
        for k, (atom, contribution, wanted) in enumerate(zip(operands, contributions, wants, strict=True)):
            if contribution is None or not wanted:
                continue
            _add(cotangents, atom, contribution)
            if doubts is None:
                care.pass_on(node, atom)
            else:
                care.add(atom, doubts[k])
    builder.site_override = outer
    return [cotangents.get(var) for var in wrt], [care.of([var]) for var in wrt]


def _add(cotangents: dict[Var, Atom], var: Var, contribution: Atom) -> None:
    previous = cotangents.get(var)
    cotangents[var] = contribution if previous is None else F.add(previous, contribution)


def _operands_cotangents(node: Node, cotangents: Mapping[Any, Atom]) -> list[Atom | None]:
    """The cotangents that operands of *node* have from elsewhere; None for one that it has twice."""
    return [cotangents.get(a) if node.inputs.count(a) == 1 else None for a in node.inputs]


def _node_vjp(
    node: Node, cts: Sequence[Atom | None], wants: Sequence[bool], careful: bool, opaque: Container[Var]
) -> Sequence[Atom | None]:
    prim = node.prim
    if prim.joint:
        found = None if prim.vjp is None else prim.vjp(cts, node.outs, *node.inputs, **node.params)
        if found is None:
            return pulled_by_transposing(node, cts, wants, reverse)
        return [given_where(ct, want) for ct, want in zip(found, wants, strict=True)]
    ct = cts[0]
    assert ct is not None
    if prim.parting is not None and prim.vjp is not None:
        rates = rates_of_change(ct, prim.parting(node.out, *node.inputs, **node.params), opaque, jvp_all)
        return prim.vjp(ct, node.out, *node.inputs, **node.params, rates=rates)
    if prim.vjp is not None:
        return prim.vjp(ct, node.out, *node.inputs, **node.params)
    if prim.transpose is not None:
        return [prim.transpose(ct, node.inputs[0].aval, **node.params) if wants[0] else None]
    if prim.kind != ELEMENTWISE:
        raise GraphError(f"{prim.name} has no derivative rule")
    multiply = _multiply(prim, ct, careful)
    wanted = zip(prim.partials, wants, strict=True)
    return [_through(node, partial, ct, multiply) if partial and asked else None for partial, asked in wanted]


def _multiply(prim: Primitive, x: Atom, careful: bool) -> Callable[[Atom, Atom], Atom]:
    """The product of the cotangent or tangent *x* and a partial of *prim*."""
    if isinstance(x, Lit) and x.is_structural(1):
        return lambda _, factor: factor
    return F.mulz if careful or prim.singular else F.mul


def _through(node: Node, partial: Any, x: Atom, multiply: Callable[[Atom, Atom], Atom]) -> Atom:
    """The cotangent or tangent *x* times a *partial* of *node*."""
    if partial is ONE:
        return x
    if partial is MINUS:
        return F.neg(x)
    return multiply(x, partial(node.out, *node.inputs, **node.params))


def jvp(nodes: Sequence[Node], tangents: dict[Var, Atom], output: Atom) -> Atom:
    """The tangent of *output* for tangents of some Vars."""
    known = jvp_all(nodes, tangents, [output])
    return materialise(known.get(output) if isinstance(output, Var) else None, output)


def jvp_all(
    nodes: Sequence[Node], tangents: Mapping[Var, Atom], outputs: Sequence[Atom] | None = None, *, careful: bool = False
) -> dict[Var, Atom]:
    """The tangents of the values of *nodes* that depend on the Vars in *tangents*: of all, or of those that the
    *outputs* need.

    *careful*: the tangents given may hold exact zeros or infinities where partial derivatives overflow."""
    return forward(nodes, tangents, set(tangents) if careful else set(), outputs)[0]


def forward(
    nodes: Sequence[Node], tangents: Mapping[Var, Atom], doubted: set[Var], outputs: Sequence[Atom] | None
) -> tuple[dict[Var, Atom], set[Var]]:
    """As ``jvp_all``, with the values whose tangents may be infinite, among them those *doubted* before.

    A tangent that passes a singular point may be infinite, and times a partial that is zero it is zero.  Elsewhere an
    ordinary product will do: what ``where`` leaves out is selected away, as values are."""
    known, doubted = dict(tangents), set(doubted)
    active = depends_on(nodes, list(tangents))
    if outputs is not None:
        active = reached(nodes, outputs, active)
    builder = current_builder()
    outer = builder.site_override
    for node in nodes:
        if all(o not in active or o in known for o in node.outs):
            continue
        inner = [known.get(a) if isinstance(a, Var) else None for a in node.inputs]
        if all(t is None for t in inner):
            continue
        builder.site_override = adjoint_site(node.site)
        found: Sequence[Atom | None]
        if node.prim.kind == LOOP:
            found, doubts = loop_jvp(node, inner, [a in doubted for a in node.inputs], forward)
            doubted.update(out for out, doubt in zip(node.outs, doubts, strict=True) if doubt)
        else:
            careful = any(t is not None and a in doubted for a, t in zip(node.inputs, inner, strict=True))
            found = _node_jvp(node, inner, careful or node.prim.name == "mulz")
            if careful or node.prim.singular or node.prim.joint:
                doubted.update(node.outs)
        known.update((out, t) for out, t in zip(node.outs, found, strict=False) if t is not None)
    builder.site_override = outer
    return known, doubted


def _node_jvp(node: Node, tangents: Sequence[Atom | None], careful: bool) -> Sequence[Atom | None]:
    prim = node.prim
    if prim.joint:
        found = None if prim.jvp is None else prim.jvp(tangents, node.outs, *node.inputs, **node.params)
        return pushed_by_transposing(node, tangents, reverse) if found is None else found
    if prim.jvp is not None:
        return [prim.jvp(tangents, node.out, *node.inputs, **node.params)]
    if prim.transpose is not None:
        return [_apply_linear(node, tangents[0])]
    total: Atom | None = None
    for partial, tangent in zip(prim.partials, tangents, strict=True):
        if partial is not None and tangent is not None:
            term = _through(node, partial, tangent, _multiply(prim, tangent, careful))
            total = term if total is None else F.add(total, term)
    return [total]


def _apply_linear(node: Node, tangent: Atom | None) -> Atom | None:
    """A linear map applied to its tangent."""
    if tangent is None:
        return None
    if isinstance(tangent, Lit) and node.inputs[0].aval.shape:
        tangent = broadcast_to(tangent, node.inputs[0].aval.shape)
    return bind(node.prim, tangent, **node.params)


def transpose_linear(
    nodes: Sequence[Node], outputs: Sequence[Atom], inputs: Sequence[Var], cotangents: Sequence[Atom | None],
    what: str = "this function",
) -> list[Atom | None]:  # fmt: skip
    """The transpose of the linear program *nodes* from *inputs* to *outputs*: the cotangents of the inputs for those of
    the outputs; None where nothing flows.  *what* it is, for the error where it is not linear."""
    return transposed(LinearPart(list(inputs), list(nodes), outputs), cotangents, reverse, what)
