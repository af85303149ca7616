"""Results of compiled steps that stay connected to the tensors they depend on.

Where a step returns tensors whose gradients can still be asked for (a forward pass, a loss without its backward), the
recording also holds what their backward needs, and one ``LinkedBackward`` node leads from the results to the tensors
from outside.  A single scalar comes with its gradients, from the same kernel.  Other results come with *residuals*:
values of the forward that the backward reads and that are not merely elementwise; the backward is a kernel of its own,
compiled when it is first needed.  With ``create_graph`` the step's Python runs again, eagerly.

Start reading at ``derive``, which runs inside the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..codegen.lower.canonical import canonicalise
from ..codegen.lower.half_precision import CUDA_PRODUCTS
from ..codegen.lower.simplify import simplify
from ..runtime.cuda.run import program_of
from ..runtime.launch.binding import argument_records, compiled, launched
from ..runtime.record.complex_data import array_of, as_result
from ..tensors import backward as engine
from ..tensors.apply import apply
from ..tensors.backward_pass import collect, origins_of
from ..tensors.capture import Capture
from ..tensors.device import on_cuda
from ..tensors.hooks import at_leaf, at_node
from ..tensors.modes import STATE, enable_grad
from ..tensors.node import TapeNode, next_sequence
from ..tensors.node_vjp import AGAIN
from ..tensors.on_device import filled
from ..tensors.op import aval_for_kernel, for_kernel, value_in_kernel
from ..tensors.ops_basic import MUL
from ..tensors.tensor import Tensor, make, origins, raw
from ..tracer.ir.aval import Aval
from ..tracer.ir.graph import Atom, Graph, Node, Var, read_vars
from ..tracer.ir.primitive import ELEMENTWISE, VIEW
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.ir.trees import tree_leaves
from ..tracer.ops.elementwise import broadcast_to, cast
from ..tracer.record.array import TracedArray
from ..tracer.record.recorder import Recorder


@dataclass(eq=False, slots=True)
class Link:
    """The derivative of results with respect to the tensors ``wanted``.  Without ``cotangents`` the payload of a run is
    the ``gradients`` of one scalar (of those ``given``); with them it is residuals, and ``gradients`` are atoms over
    inputs, residuals and cotangents."""

    wanted: list[Tensor]
    given: list[bool] = field(default_factory=list)
    cotangents: list[Var] = field(default_factory=list)
    gradients: list[Atom] = field(default_factory=list)
    residuals: list[Var] = field(default_factory=list)
    backward: Backward | None = None
    reaches: list[set[int]] = field(default_factory=list)  # for each result: those of wanted that it depends on


@dataclass(eq=False, slots=True)
class Backward:
    """The backward of a recording: a graph over some of its inputs (``reads``), residuals and cotangents."""

    graph: Graph
    reads: list[int]
    scalars: list[type | None]
    on_device: bool = False
    launch: Callable[..., Any] | None = None

    def run(self, values: Sequence[Any]) -> Sequence[Any]:
        if self.launch is None:
            if self.on_device:
                on_device = program_of(self.graph, canonicalise(self.graph), len(self.graph.inputs))
                self.launch = lambda *given: on_device.execute(given)[1]
                return self.launch(*values)
            self.launch, _ = compiled(self.graph, argument_records(self.graph.inputs, self.scalars))
        return launched(self.launch, values)


def as_array(result: Any) -> Any:
    """A result of a program as an array: programs on the host give 0-d results as scalars."""
    return result if on_cuda(result) else np.asarray(result)


def tensors_in(tree: Any) -> list[Tensor]:
    leaves = tree_leaves(tree, none_is_leaf=True)
    return [x for x in leaves if isinstance(x, Tensor)]


def derive(capture: Capture, out: Any) -> None:
    """Sets ``capture.link`` where results of *out*, which the step has returned, stay connected."""
    if not STATE.grad:
        return
    connected = [t for t in tensors_in(out) if type(t._data) is TracedArray and t.requires_grad]
    results = [t for t in connected if t._node is not None]
    if len(results) < len(connected):
        capture.refuse(Refusal.STEP_LEAF)
    wanted = [t for t in capture.touched if t.requires_grad and type(t._data) is not TracedArray]
    if not results or any(node.freed for node in collect(results, capture.since)):
        return
    if not wanted:
        capture.refuse(Refusal.STEP_LEAF)
        return
    if any(map(at_leaf, wanted)) or any(map(at_node, collect(results, capture.since))):
        capture.refuse(Refusal.STEP_HOOKED)
    try:
        capture.link = _link(capture, results, wanted)
    except RuntimeError as error:  # an operand was overwritten: for eager code an error when the backward is asked for
        capture.refuse(Refusal.STEP_BACKWARD, error=str(error).partition(":")[0])


def _link(capture: Capture, results: list[Tensor], wanted: list[Tensor]) -> Link:
    """The link from *results* to *wanted*."""
    if len(results) == 1 and raw(results[0]).size == 1:
        found = engine.partial_gradients(results, wanted, None, capture.since)
        atoms = [as_result(raw(g).atom) for g in found if g is not None]
        return Link(wanted, [g is not None for g in found], gradients=atoms)
    recorder = capture.recorder
    avals = [Aval(raw(r).dtype, raw(r).shape) for r in results]
    cotangents = [Var(aval_for_kernel(aval)) for aval in avals]
    for var in cotangents:
        recorder.env[var] = np.zeros(var.aval.shape, var.aval.dtype)
    seeds = [make(TracedArray(value_in_kernel(v, aval), recorder)) for v, aval in zip(cotangents, avals, strict=True)]
    found = engine.partial_gradients(results, wanted, seeds, capture.since)
    atoms = [_fitted(g) for g in found if g is not None]
    behind = [origins_of(r, capture.since) for r in results]
    reaches = [{k for k, t in enumerate(wanted) if (t._node or t, t._out) in read} for read in behind]
    return Link(wanted, [g is not None for g in found], cotangents, atoms, reaches=reaches)


def _fitted(gradient: Tensor) -> Atom:
    data = raw(gradient)
    atom = data.atom
    if atom.aval.is_complex:
        return as_result(atom)
    return atom if isinstance(atom, Var) else broadcast_to(cast(atom, data.dtype), data.shape)


def finish(
    link: Link | None, recorder: Recorder, written: set[Var], scalars: Sequence[type | None], on_device: bool
) -> tuple[list[Atom], list[Reason]]:
    """(the payload that goes with the results, reasons against replaying).  *recorder* has the program as it is to
    be run, *on_device* or on the host; *scalars*: types of inputs that are numbers."""
    if link is None:
        return [], []
    if not link.cotangents:
        return list(link.gradients), []
    nodes = _split(link, recorder.nodes)
    used = read_vars(nodes, link.gradients)
    reads = [k for k, var in enumerate(recorder.inputs) if var in used]
    inputs = [recorder.inputs[k] for k in reads]
    consts = [c for c in recorder.consts if c[0] in used]
    graph = Graph([*inputs, *link.residuals, *link.cotangents], nodes, list(link.gradients), [], consts)
    if on_device:
        graph = simplify(graph, CUDA_PRODUCTS)
    arrays: list[type | None] = [None] * (len(graph.inputs) - len(reads))
    link.backward = Backward(graph, reads, [scalars[k] for k in reads] + arrays, on_device)
    overwritten = written & set(inputs)
    return list(link.residuals), [Refusal.STEP_OVERWRITES()] * bool(overwritten)


def _split(link: Link, nodes: Sequence[Node]) -> list[Node]:
    """The nodes of the backward, recomputed ones included; values that it reads of other nodes become the link's
    residuals."""
    after: set[Var] = set(link.cotangents)  # values that depend on a cotangent
    dear: set[Var] = set()
    for node in nodes:
        if not after.isdisjoint(node.inputs):
            after.update(node.outs)
        elif node.prim.kind not in (ELEMENTWISE, VIEW):
            dear.update(node.outs)
    read: set[Atom] = set(link.gradients)
    kept: list[Node] = []
    for node in reversed(nodes):
        if not read.isdisjoint(node.outs) and dear.isdisjoint(node.outs):
            kept.append(node)
            read.update(node.inputs)
    link.residuals = [out for node in nodes for out in node.outs if out in dear and out in read]
    return kept[::-1]


def gradients_of_rerun(
    again: Callable[[], Sequence[Tensor]], wanted: Sequence[Tensor], cts: Sequence[Tensor | None], create_graph: bool
) -> list[Tensor | None]:
    """The gradients with respect to *wanted* of the results of Python that runs *again*, eagerly; *cts*: theirs."""
    since = next_sequence()
    with enable_grad():
        results = again()
    pairs = [(r, ct) for r, ct in zip(results, cts, strict=True) if ct is not None and r.requires_grad]
    if not pairs:
        return [None] * len(wanted)
    return engine.partial_gradients([r for r, _ in pairs], wanted, [ct for _, ct in pairs], since, create_graph)


class RerunBackward(TapeNode):
    """*results* as those of one operation of the eager graph over *wanted*: their derivative runs Python *again*,
    eagerly, with derivatives on the tape, so that any order comes by itself."""

    label = "CompiledGradientBackward"
    plain = False

    def __init__(
        self, wanted: Sequence[Tensor], results: Sequence[Tensor], counters: Sequence[tuple[Any, int]],
        again: Callable[[], Sequence[Tensor]],
    ):  # fmt: skip
        super().__init__(None, (), *origins(wanted), (), tuple([r._data for r in results]), ())
        self.wanted: Sequence[Tensor] = wanted
        self.counters = counters
        self.again: Callable[[], Sequence[Tensor]] | None = again
        for k, result in enumerate(results):
            result._node, result._out, result._requires = self, k, True

    def custom_vjp(self, cts: list[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        again, wanted = self.again, self.wanted
        if self.freed:  # asked once they are read: another thread may be freeing them
            raise RuntimeError(AGAIN)
        assert again is not None
        self.check()
        return gradients_of_rerun(again, wanted, cts, create_graph)

    def check(self) -> None:
        for counter, count in self.counters:
            if counter[0] != count:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"an operand of a compiled function is at version {counter[0]}; expected version {count} instead."
                )

    def custom_free(self) -> None:
        self.freed = True
        self.again = None
        self.wanted = ()


class LinkedBackward(RerunBackward):
    """A compiled step as one operation of the eager graph."""

    label = "CompiledFunctionBackward"

    def __init__(
        self, link: Link, wanted: Sequence[Tensor], results: Sequence[Tensor], payload: Sequence[Any],
        operands: Sequence[Any], counters: Sequence[Any], again: Callable[[], Sequence[Tensor]],
    ):  # fmt: skip
        super().__init__(wanted, results, [(c, c[0]) for c in counters], again)
        self.link: Link | None = link
        self.reaches = link.reaches or None
        self.payload = payload
        self.operands = operands  # the inputs that the backward reads

    def custom_vjp(self, cts: list[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        link, wanted, payload, operands = self.link, self.wanted, self.payload, self.operands
        if create_graph or self.freed:
            return super().custom_vjp(cts, create_graph)
        assert link is not None
        kinds = [t._data.dtype.kind for t, given in zip(wanted, link.given, strict=True) if given]
        if link.cotangents:
            self.check()
            assert link.backward is not None
            beside = next(ct._data for ct in cts if ct is not None)
            seeds = [
                filled(0, v.aval.shape, v.aval.dtype, beside) if ct is None else for_kernel(ct._data)
                for v, ct in zip(link.cotangents, cts, strict=True)
            ]
            residuals = [as_array(r) for r in payload]
            found = [make(g) for g in _gradients(link.backward.run([*operands, *residuals, *seeds]), kinds)]
        else:
            found = [apply(MUL, (cts[0], make(g))) for g in _gradients(payload, kinds)]
        gradients = iter(found)
        return [next(gradients) if given else None for given in link.given]

    def custom_free(self) -> None:
        super().custom_free()
        self.link = None
        self.payload = self.operands = ()


def _gradients(results: Sequence[Any], kinds: Sequence[str]) -> list[Any]:
    """The gradients that *results* of a program are, of dtypes of these *kinds*."""
    arrays = [as_array(g) for g in results]
    return [np.asarray(array_of(g)) if kind == "c" else g for g, kind in zip(arrays, kinds, strict=True)]


def linked(
    link: Link, out: Any, requires: Sequence[bool], wanted: Sequence[Tensor], payload: Sequence[Any],
    operands: Sequence[Any], counters: Sequence[Any], again: Callable[[], Any],
) -> Any:  # fmt: skip
    """*out*, whose tensors that require gradients are made the results of one node."""

    def results_of(out: Any) -> list[Tensor]:  # without what was given, or read, and is a result as well
        return [t for t, r in zip(tensors_in(out), requires, strict=False) if r]

    results = results_of(out)
    LinkedBackward(link, wanted, results, payload, operands, counters, lambda: results_of(again()))
    return out
