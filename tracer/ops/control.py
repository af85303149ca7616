"""Loops: ``loop`` runs a body once for each row of its operands, whatever their number.

The body is a graph of its own; it stands in the params:

    body(consts..., carries..., rows of xs...) -> [go on,] new carries..., rows of ys...

Operands of the node are the consts (the same in every step), the carries as they start, and the xs, whose axis 0 has
*length* rows.  Results are the carries after the last step, then the ys, stacked along axis 0.  With *reverse* the
steps go from the last row to the first; row i of the ys still belongs to row i of the xs.

How many of the *length* rows are run may be known only when it runs:

- *counted*: the first operand is ``steps`` (int64, 0-d), and rows 0 to steps - 1 are run, in either direction;
- *stops*: the first output of the body is a 0-d bool.  Where it is False the step is not taken, what else the body
  gave is dropped, and the loop ends.  The number of steps taken (int64, 0-d) is a result, right after the carries.

Rows of the ys that no step wrote are zeros.  A loop without ys may have the *length* ``UNLIMITED``.

The derivative takes a derivative of the body, so it stands with the adjoint (``codegen/derive/loop_adjoint.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..ir.aval import INT, Aval
from ..ir.axes import unrelated
from ..ir.errors import GraphError
from ..ir.evaluate import HOST, Backend, Env
from ..ir.graph import Atom, Graph, Node, Var, current_builder, live_nodes
from ..ir.primitive import LOOP, Primitive, register

CAPACITY = "capacity"  # the kind of guard on the capacity of a loop
UNLIMITED = 2**62  # the length of a loop that stops by itself and keeps no rows
_BOOL = Aval(np.dtype(bool), ())
_STEPS = Aval(INT, ())


class LoopOperands(NamedTuple):
    """A sequence parallel to the inputs of a body, split by their kinds."""

    consts: Sequence[Any]
    carries: Sequence[Any]
    xs: Sequence[Any]


class LoopView(NamedTuple):
    """A loop node taken apart: values of the body, and operands and results of the node."""

    body: Graph
    inner: LoopOperands  # inputs of the body
    outer: LoopOperands  # operands of the node
    steps: Atom | None  # the operand with the trip count, where it is *counted*
    go_on: Atom | None  # value of the body, where it *stops*
    ends: Sequence[Atom]  # values of the body: the carries after a step
    rows: Sequence[Atom]  # values of the body: the rows of ys
    finals: Sequence[Var]  # results of the node: the carries after the last step
    taken: Var | None  # result of the node, where it *stops*
    stacked: Sequence[Var]  # results of the node: the ys

    @property
    def ran(self) -> Atom | None:
        """The trip count, where it is not the *length*; else None."""
        return self.steps if self.taken is None else self.taken


def before_consts(params: dict[str, Any]) -> int:
    """The number of operands before the consts."""
    return int(params.get("counted", False))


def before_rows(params: dict[str, Any]) -> int:
    """The number of results before the ys, which is that of the body's outputs before their rows."""
    return params["carries"] + int(params.get("stops", False))


def parts(items: Sequence[Any], consts: int, carries: int) -> LoopOperands:
    return LoopOperands(items[:consts], items[consts : consts + carries], items[consts + carries :])


def loop_view(node: Node) -> LoopView:
    params = node.params
    body, consts, carries = params["body"], params["consts"], params["carries"]
    lead, rows = before_consts(params), before_rows(params)
    stops = rows - carries
    return LoopView(
        body, parts(body.inputs, consts, carries), parts(node.inputs[lead:], consts, carries),
        node.inputs[0] if lead else None, body.outputs[0] if stops else None,
        body.outputs[stops:rows], body.outputs[rows:],
        node.outs[:carries], node.outs[carries] if stops else None, node.outs[rows:],
    )  # fmt: skip


def split_body(body: Graph) -> tuple[list[Node], list[Node]]:
    """The nodes of the body of a loop that stops: those of the condition, and the rest."""
    first = live_nodes(body.nodes, body.outputs[:1])
    known = set(first)
    return first, [n for n in body.nodes if n not in known]


def _infer(
    *avals: Aval, body: Graph, consts: int, carries: int, length: int, reverse: bool, counted: bool = False,
    stops: bool = False,
) -> tuple[Aval, ...]:  # fmt: skip
    if counted and not (avals and avals[0].like(_STEPS)):
        raise GraphError("the first operand of a counted loop is its number of steps, an int64")
    avals = avals[counted:]
    outputs = [y.aval for y in body.outputs]
    if stops and (reverse or not (outputs and outputs[0].like(_BOOL))):
        raise GraphError("the first output of the body of a loop that stops is a bool; such a loop goes forward")
    outputs = outputs[stops:]
    if len(avals) != len(body.inputs) or consts + carries > len(avals) or len(outputs) < carries:
        raise GraphError(f"loop of {len(avals)} operands over a body of {len(body.inputs)}")
    if body.consts or body.guards:
        raise GraphError("the body of a loop has no arrays of its own, and no guards")
    if length >= UNLIMITED and (len(outputs) > carries or not (counted or stops)):
        raise GraphError("a loop without a limit has to end by itself, and stacks nothing")
    given, inner = parts(avals, consts, carries), parts([v.aval for v in body.inputs], consts, carries)
    _check_body(given, inner, outputs, length)
    finals = [Aval(a.dtype, a.shape) for a in given.carries]
    stacked = [Aval(y.dtype, (length, *y.shape)) for y in outputs[carries:]]
    return (*finals, *[_STEPS] * stops, *stacked)


def _check_body(given: LoopOperands, inner: LoopOperands, outputs: Sequence[Aval], length: int) -> None:
    """An error unless a body of *inner* inputs and these *outputs* can run over the operands."""
    for outside, inside in zip([*given.consts, *given.carries], [*inner.consts, *inner.carries], strict=True):
        if not outside.like(inside):
            raise GraphError(f"loop: an operand is {outside}, in the body {inside}")
    for outside, inside in zip(given.xs, inner.xs, strict=True):
        if not outside.like(Aval(inside.dtype, (length, *inside.shape))):
            raise GraphError(f"loop of {length} steps: an operand of rows is {outside}, in the body {inside}")
    for before, after in zip(inner.carries, outputs, strict=False):
        if not before.like(after):
            raise GraphError(f"loop: a carry begins a step as {before} and ends it as {after}")


class Stepper(Backend, Protocol):
    """A backend that can execute the steps of a loop."""

    @property
    def xp(self) -> Any:
        """NumPy, or a module like it."""

    def array(self, value: Any) -> Any:
        """An operand of rows as an array."""

    def row(self, value: Any) -> Any:
        """A value of the body in a form that can be assigned to a row."""

    def read(self, env: Env, atom: Atom) -> Any: ...


class LongLoopError(Exception):
    """A loop takes more steps than it was to be given."""


def run_steps(
    stepper: Stepper, values: Sequence[Any], body: Graph, consts: int, carries: int, length: int, reverse: bool,
    counted: bool = False, stops: bool = False, most: int = UNLIMITED,
) -> list[Any]:  # fmt: skip
    """The results of a loop over *values*, one step after the other.  LongLoopError, where it takes *most* of them."""
    bound = min(max(int(stepper.download(values[0])), 0), length) if counted else length
    given = parts(values[counted:], consts, carries)
    xs = [stepper.array(x) for x in given.xs]
    state = list(given.carries)
    make = stepper.xp.zeros if counted or stops else stepper.xp.empty
    ys = [make((length, *y.aval.shape), y.aval.dtype) for y in body.outputs[stops + carries :]]
    asking, working = split_body(body) if stops else ([], body.nodes)
    taken = 0
    while taken < bound:
        if taken == most:
            raise LongLoopError
        i = bound - 1 - taken if reverse else taken
        env: Env = dict(zip(body.inputs, [*given.consts, *state, *[x[i] for x in xs]], strict=True))
        stepper.run_nodes(asking, env)
        if stops and not stepper.download(stepper.read(env, body.outputs[0])):
            break
        stepper.run_nodes(working, env)
        results = [stepper.read(env, out) for out in body.outputs[stops:]]
        state = results[:carries]
        for y, result in zip(ys, results[carries:], strict=True):
            y[i] = stepper.row(result)
        taken += 1
    return [*state, *[np.int64(taken)] * stops, *ys]


SHORT = 64  # steps of a loop that is never long
_FEW = 8
MANY = 200_000  # operations of a loop in NumPy, in whose time it is compiled
compiled_loops: list[Callable[[list[np.ndarray], dict[str, Any]], list[Any]]] = []  # how a long one is run instead


def _operations(body: Graph) -> int:
    """Roughly the number of operations of a step; loops in it are taken to have few steps."""
    inner = [n.params for n in body.nodes if n.prim.kind == LOOP]
    return 1 + len(body.nodes) + sum(min(p["length"], _FEW) * _operations(p["body"]) for p in inner)


def _impl(*values: Any, **params: Any) -> Any:
    arrays = [np.asarray(v) for v in values]
    try:
        outs = run_steps(
            HOST, arrays, **params, most=MANY // _operations(params["body"]) if compiled_loops else UNLIMITED
        )
    except LongLoopError:
        outs = compiled_loops[0](arrays, params) or run_steps(HOST, arrays, **params)
    return outs[0] if len(outs) == 1 else tuple(outs)


def _rule(*_: Any, **__: Any) -> Any:
    raise GraphError("the derivative of a loop is taken by codegen/derive/loop_adjoint.py")


# vjp: only to say that there is one
LOOP_OVER: Primitive = register(
    Primitive("loop", LOOP, _impl, _infer, vjp=_rule, jvp=_rule, axes=unrelated, sizes=("length",))
)


def loop(
    body: Graph, consts: Sequence[Atom], inits: Sequence[Atom], xs: Sequence[Atom], length: int, reverse: bool = False,
    *, steps: Atom | None = None, stops: bool = False,
) -> tuple[Var, ...]:  # fmt: skip
    """The results of *body* run *length* times: final carries, [the number of steps taken, if it *stops*,] stacked ys.

    With *steps* (int64, 0-d) only that many of the *length* rows are run.
    """
    if not body.outputs:
        return ()
    params: dict[str, Any] = {
        "body": body, "consts": len(consts), "carries": len(inits), "length": length, "reverse": reverse,
    }  # fmt: skip
    if steps is not None:
        params["counted"] = True
    if stops:
        params["stops"] = True
    leading = () if steps is None else (steps,)
    return current_builder().emit(LOOP_OVER, (*leading, *consts, *inits, *xs), params)


def add_results(node: Node, rows: Sequence[Atom]) -> list[Var]:
    """Stacked values of *rows*, which are values of the body of the loop *node*, as further results of it.

    The node itself grows: its earlier results stay what they were, and forward pass and adjoint share one loop.
    """
    body, first = node.params["body"], before_rows(node.params)
    found = []
    for row in rows:
        known = [k for k, y in enumerate(body.outputs) if k >= first and y is row]
        if not known:
            known = [len(body.outputs)]
            body = Graph(body.inputs, body.nodes, [*body.outputs, row])
            node.outs = (*node.outs, Var(Aval(row.aval.dtype, (node.params["length"], *row.aval.shape))))
            current_builder().claim(node.outs[-1:])
        found.append(node.outs[known[0]])
    node.params = {**node.params, "body": body}
    return found
