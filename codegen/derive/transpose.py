"""Transposes: the reverse form of a linear program from its forward form, and the other way round.

A derivative rule is linear in the cotangents, or in the tangents, that it is given.  So a rule of which only one form
was written has both: it is run on stand-ins (``linear_part``), and reverse mode over the nodes that depend on them
gives the other form, exactly, and of ordinary nodes, which can be derived again.  Whatever does not depend on the
stand-ins is computed where the derivative is wanted.

Reverse mode of a linear program reads none of its values but those that do not depend on the stand-ins, as the
coefficients that a loop computes beside.  Where it would, the program is not linear: an error.  What it reads is
computed with zeros for the stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from ...tracer.ir.aval import Aval
from ...tracer.ir.errors import DifferentiationError, UnsupportedError
from ...tracer.ir.graph import Atom, Graph, Node, Var, current_builder, live_nodes, read_vars
from ...tracer.ir.primitive import LOOP, PRIMITIVES
from ...tracer.ir.site import Site
from ...tracer.ops.control import before_consts, loop_view
from ...tracer.ops.loop_pruning import prune_loops
from ...tracer.record.recorder import Recorder
from .loop_adjoint import materialise
from .taint import EVERY, Doubt

Reverse = Callable[..., tuple[list[Atom | None], list[Doubt]]]


class LinearPart(NamedTuple):
    """The nodes of a program that depend on the stand-ins *given* to it, and what it *found* for them."""

    given: list[Var]
    nodes: list[Node]
    found: Sequence[Any]


class _StandIns:
    """The stand-ins *given* to a rule, *what*, that runs in *recorder*."""

    def __init__(self, recorder: Recorder, given: Sequence[Var], what: str) -> None:
        self.given, self._what = frozenset(given), what
        self._recorder, self._start = recorder, len(recorder.nodes)

    def behind(self, atoms: Sequence[Atom]) -> bool:
        """Whether one of the real *atoms* depends on them."""
        return not influenced(self._recorder.nodes[self._start :], self.given).isdisjoint(atoms)  # type: ignore[arg-type]

    def refuse(self) -> NoReturn:
        """Raise the error where a value that depends on them is asked for."""
        raise UnsupportedError.here(_ASKS.format(self._what))


_ASKS = (
    "this asks for the value (`if`, `while`, float() or the like) of a cotangent or tangent that {} is given, which "
    "has none here: the rule is recorded once for all of them, to be transposed; choose with np.where(condition, a, b)"
)


def linear_part(avals: Sequence[Aval], program: Callable[[Sequence[Var]], Sequence[Any]], what: str) -> LinearPart:
    """*program* run on stand-ins of *avals*; *what* it is, for errors."""
    builder = current_builder()
    given = [Var(Aval(a.dtype, a.shape)) for a in avals]
    for v in given:
        builder.append(Node(PRIMITIVES["alias"], (materialise(None, v),), {}, (v,), builder.site()))
    start = len(builder.nodes)
    if isinstance(builder, Recorder):
        builder.stand_ins.tangents.append(_StandIns(builder, given, what))
        try:
            with builder.differentiating(given):
                found = program(given)
        finally:
            builder.stand_ins.tangents.pop()
    else:
        found = program(given)
    return LinearPart(given, builder.nodes[start:], found)


def transposed(
    part: LinearPart, cotangents: Sequence[Atom | None], reverse: Reverse, what: str, site: Site | None = None
) -> list[Atom | None]:
    """The cotangents of the stand-ins of *part* for the *cotangents* of what was found; None where nothing flows."""
    seeds = [
        (y, materialise(ct, y), EVERY)
        for y, ct in zip(part.found, cotangents, strict=True)
        if y is not None and ct is not None
    ]
    builder = current_builder()
    start = len(builder.nodes)
    found, _ = reverse(part.nodes, seeds, part.given, inner=False)
    results = [x for x in found if x is not None]
    if _reads(builder.nodes[start:], results, influenced(part.nodes, part.given)):
        _refuse(what, part.nodes, site)
    return found


def _reads(nodes: Sequence[Node], results: list[Atom], values: set[Var]) -> bool:
    """Whether *results* need any of *values*: loops may read them for results that nobody needs, and so may theirs."""

    def pruned(graph: Graph) -> Graph:
        return prune_loops(graph, pruned)

    graph, before = Graph([], live_nodes(nodes, results), results), -1
    while not values.isdisjoint(read_vars(graph.nodes, graph.outputs)):
        if before == (before := _size(graph.nodes)):
            return True
        graph = pruned(graph)
    return False


def _size(nodes: Sequence[Node]) -> int:
    """The number of values that *nodes* make, those in the bodies of loops among them."""
    bodies = [node.params["body"].nodes for node in nodes if node.prim.kind == LOOP]
    return sum(len(node.outs) for node in nodes) + sum(map(_size, bodies))


def influenced(nodes: Sequence[Node], sources: Iterable[Var]) -> set[Var]:
    """The values of *nodes* that depend on *sources*, and these."""
    moving = set(sources)
    for node in nodes:
        if moving.isdisjoint(node.inputs):  # type: ignore[arg-type]
            continue
        if node.prim.kind != LOOP:
            moving.update(node.outs)
            continue
        view, lead = loop_view(node), before_consts(node.params)
        inner = {v for v, x in zip(view.body.inputs, node.inputs[lead:], strict=True) if x in moving}
        while True:
            found = influenced(view.body.nodes, inner)
            more = {v for v, end in zip(view.inner.carries, view.ends, strict=True) if end in found} - inner
            if not more:
                break
            inner |= more
        if (view.steps in moving) or (view.go_on in found):
            moving.update(node.outs)
        moving.update(out for out, v in zip(view.finals, view.inner.carries, strict=True) if v in inner)
        moving.update(out for out, row in zip(view.stacked, view.rows, strict=True) if row in found)
    return moving


def _refuse(what: str, nodes: Sequence[Node], site: Site | None) -> NoReturn:
    raise DifferentiationError.here(
        f"{what} is not linear in what it is given, so it has no transpose: write it as a sum of products with values "
        "that do not depend on its cotangents or tangents",
        site or next((n.site for n in nodes if n.site is not None), None),
    )


# ---- rules of which one form was written -----------------------------------------------------------------------------


# the arguments of ``linear_part`` for one form of a rule
Program = tuple[list[Aval], Callable[[Sequence[Var]], Sequence[Any]], str]


def pull_of(node: Node, wanted: Sequence[int]) -> Program:
    """The rule for cotangents of *node*, a joint primitive: of all its floating results, to those of the operands with
    the numbers *wanted*, and None for the others."""
    places = [k for k, out in enumerate(node.outs) if out.aval.is_float]

    def pull(given: Sequence[Var]) -> Sequence[Any]:
        cts: list[Atom | None] = [None] * len(node.outs)
        for k, ct in zip(places, given, strict=True):
            cts[k] = ct
        found = node.prim.vjp(cts, node.outs, *node.inputs, **node.params)  # type: ignore[misc]
        return [given_where(ct, k in wanted) for k, ct in enumerate(found)]

    return [node.outs[k].aval for k in places], pull, f"the derivative rule of {_name(node)}"


def push_of(node: Node, moving: Sequence[int]) -> Program:
    """The rule for tangents of *node*, a joint primitive: of the operands with the numbers *moving*."""

    def push(given: Sequence[Var]) -> Sequence[Any]:
        tangents: list[Atom | None] = [None] * len(node.inputs)
        for k, t in zip(moving, given, strict=True):
            tangents[k] = t
        return node.prim.jvp(tangents, node.outs, *node.inputs, **node.params)  # type: ignore[misc]

    return [node.inputs[k].aval for k in moving], push, f"the derivative rule of {_name(node)}"


def pushed_by_transposing(node: Node, tangents: Sequence[Atom | None], reverse: Reverse) -> list[Atom | None]:
    """The tangents of the results of *node*, a joint primitive, from its rule for cotangents."""
    program = pull_of(node, [k for k, t in enumerate(tangents) if t is not None])
    part = linear_part(*program)
    cotangents = iter(transposed(part, tangents, reverse, program[2], node.site))
    return [next(cotangents) if out.aval.is_float else None for out in node.outs]


def pulled_by_transposing(
    node: Node, cts: Sequence[Atom | None], wants: Sequence[bool], reverse: Reverse
) -> list[Atom | None]:
    """The cotangents of the operands of *node*, a joint primitive, from its rule for tangents."""
    program = push_of(node, [k for k, want in enumerate(wants) if want])
    part = linear_part(*program)
    cotangents = iter(transposed(part, cts, reverse, program[2], node.site))
    return [next(cotangents) if want else None for want in wants]


def given_where(found: Any, wanted: bool) -> Any:
    """The cotangent that a joint rule has *found*, or a function that gives it, where it is *wanted*."""
    return (found() if wanted else None) if callable(found) else found


def _name(node: Node) -> str:
    function = node.params.get("function")
    return str(function) if function is not None else "a function with a derivative of its own"
