"""Hot tapes: a backward whose graph has been seen before runs as one compiled kernel.

The *signature* of a tape is its operations, their wiring, and the shapes of its inputs.  The first
backward with a signature goes node by node; from the second on a ``BackwardPlan`` holds a kernel made of the same local
derivatives (``op.py``), inlined into one graph from (saved values, cotangents) to the gradients of the leaves.

Compiling is bounded: each new kernel costs a credit, and credits come back as compiled backwards run, so a loop whose
shape changes every time settles on the interpreter.  ``tapes`` counts all this and names what was refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..runtime.config import config
from ..runtime.launch.binding import compiled, launched
from ..runtime.recent import Recent
from ..runtime.record.complex_data import as_result
from ..tracer.ir.aval import COMPLEX, Aval
from ..tracer.ir.graph import Atom, Pair, Var, pairs_exist, structural
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.ops.elementwise import F, broadcast_to
from ..tracer.ops.shape import zeros
from ..tracer.record.recorder import Recorder, recording
from .device import on_cuda
from .node import TapeNode
from .op import LocalVjp, aval_for_kernel, aval_of, for_kernel, from_kernel, value_in_kernel
from .tensor import Tensor

MAX_NODES = 2000  # a longer tape would compile for seconds
MAX_CREDIT = 64.0
RETURN = 1 / 16  # of a credit, for each compiled backward that runs

_Source = tuple[int, int]  # (position of a node, position among its inputs followed by its outputs)


@dataclass(slots=True)
class BackwardPlan:
    """A compiled backward.  ``launch`` takes ``sources``, then the seeds; values at ``same`` are sources again, saved
    by another node (perhaps at another time: they are checked for overwriting too)."""

    launch: Callable[..., Any]
    sources: list[_Source]
    same: list[tuple[int, int, int]]  # (position of the node, that among its inputs and outputs, index of the source)
    single: bool
    given: list[Aval]  # of the gradients
    released: list[tuple[bool, tuple[Any, ...], tuple[Any, ...]]]  # per node: (saves anything, its inputs and outputs
    # from then on: avals, or None in the place of each)


@dataclass(slots=True)
class TapeStats:
    """Statistics of eager backwards: how many ran ``compiled`` and ``interpreted``, kernels ``compiles``, tapes by
    ``refused`` reason."""

    compiled: int = 0
    interpreted: int = 0
    compiles: int = 0
    refused: Counter[Reason] = field(default_factory=Counter)
    credit: float = MAX_CREDIT / 2

    def __repr__(self) -> str:
        reasons = "".join(f"\n  not compiled: {n}x {why}" for why, n in self.refused.most_common())
        return (
            f"{self.compiled} backwards compiled, {self.interpreted} interpreted; {self.compiles} kernels made{reasons}"
        )


tapes = TapeStats()
_plans: Recent[Any, BackwardPlan | None] = Recent(lambda: config.max_tapes)  # by signature; None: seen once


def walked(why: Reason) -> None:
    """Count a backward that goes node by node for the reason *why*, whatever its tape is."""
    tapes.interpreted += 1
    tapes.refused[why] += 1


def clear() -> None:
    """Forget every tape and every count."""
    _plans.clear()
    tapes.__init__()  # type: ignore[misc]


def backward(
    nodes: Sequence[TapeNode], roots: Sequence[Tensor], seeds: Sequence[Tensor | None], retain: bool
) -> list[tuple[Tensor, Any]] | None:
    """(leaf, its gradient as an array) for each leaf; None where the tape has to be walked node by node."""
    if any(map(on_cuda, [root._data for root in roots])):
        walked(Refusal.BACKWARD_DEVICE())
        return None
    found = signature(nodes, roots, seeds)
    if isinstance(found, Reason):
        walked(found)
        return None
    key, leaves = found
    with _plans.lock:
        seen = key in _plans
        plan = _plans.keep(key, _plans.get(key))
    if not seen:
        tapes.interpreted += 1
        return None
    if plan is None:
        if tapes.credit < 1:
            walked(Refusal.BACKWARD_SHAPES())
            return None
        plan = _compile(key, nodes, roots, seeds, leaves)
    grads = None if plan is None else _launch(plan, nodes, seeds)
    if plan is None or grads is None:
        walked(Refusal.BACKWARD_FREED() if any(node.freed for node in nodes) else Refusal.BACKWARD_OVERWRITTEN())
        return None
    if not retain:
        for node, (saves, inputs, outputs) in zip(nodes, plan.released, strict=True):
            if saves:
                node.freed = True  # before they go: another thread reads them first, then this
            node.inputs, node.outputs = inputs, outputs
    tapes.compiled += 1
    if tapes.credit < MAX_CREDIT:
        tapes.credit += RETURN
    return list(zip(leaves, grads, strict=True))


def signature(
    nodes: Sequence[TapeNode], roots: Sequence[Tensor], seeds: Sequence[Tensor | None]
) -> tuple[Any, list[Tensor]] | Reason:
    """(key, leaves in the order in which they are met), or the reason why the tape has no compiled form."""
    if len(nodes) > MAX_NODES:
        return Refusal.BACKWARD_LONG(count=MAX_NODES)
    index = {node: k for k, node in enumerate(nodes)}
    leaves: list[Tensor] = []
    leaf_index: dict[int, int] = {}
    key: list[Any] = []
    for node in nodes:
        inputs = node.inputs
        hooked = node.tensor_hooks is not None or node.hooks or node.pre_hooks
        if node.freed or not node.plain or hooked or node.retained is not None:
            return _refusal(node)
        key.append(node.op)
        if node.statics:
            key.append(node.statics)
        for edge, out, value in zip(node.edges, node.edge_outs, inputs, strict=True):
            if edge is None:
                key.append((value.dtype, value.shape) if hasattr(value, "dtype") else type(value))
            elif isinstance(edge, TapeNode):
                key.append((index[edge], out) if out else index[edge])
            else:
                k = leaf_index.get(id(edge))
                if k is None:
                    k = leaf_index[id(edge)] = len(leaves)
                    leaves.append(edge)
                    key.append((value.dtype, value.shape))
                key.append(-1 - k)
    for root, seed in zip(roots, seeds, strict=True):
        if root._node is None:
            return Refusal.BACKWARD_LEAF()
        key.append((index[root._node], root._out, seed is None))
    return tuple(key), leaves


def _refusal(node: TapeNode) -> Reason:
    if node.freed:
        return Refusal.BACKWARD_FREED()
    if not node.plain:
        return Refusal.BACKWARD_PYTHON(operation=node.label)
    if node.retained is not None:
        return Refusal.BACKWARD_RETAIN()
    return Refusal.BACKWARD_HOOK()


def _compile(
    key: Any,
    nodes: Sequence[TapeNode],
    roots: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    leaves: Sequence[Tensor],
) -> BackwardPlan | None:
    """The plan for tapes like this one; None where another thread has freed it."""
    held = [(node.inputs, node.outputs) for node in nodes]
    if any(node.freed for node in nodes):
        return None
    recorder = Recorder()
    with recording(recorder):
        sources, same, inputs, outputs, released = _adjoint(nodes, held, roots, seeds, leaves)
    recorder.inputs = inputs
    single, given = len(outputs) == 1, [aval_of(leaf._data) for leaf in leaves]
    launch, hit = compiled(recorder.finish(outputs), single=single)
    if not hit:
        tapes.compiles += 1
        tapes.credit -= 1
    made = BackwardPlan(launch, sources, same, single, given, released)
    _plans.keep(key, made)
    return made


def _adjoint(
    nodes: Sequence[TapeNode],
    held: Sequence[tuple[Any, Any]],
    roots: Sequence[Tensor],
    seeds: Sequence[Tensor | None],
    leaves: Sequence[Tensor],
) -> tuple[list[_Source], list[tuple[int, int, int]], list[Var], list[Atom], list[Any]]:
    """The backward of the whole tape, recorded: (saved values that it reads, repetitions of those, its inputs, the
    leaves' gradients, the saved values of each node).  *held*: the inputs and outputs of each node."""
    adjoint = _TapeAdjoint(nodes, held)
    given = [var for root, seed in zip(roots, seeds, strict=True) for var in adjoint.seed(root, seed)]
    released = [adjoint.pull_back(position) for position in range(len(nodes))]
    found = [adjoint.of_leaves.get(id(leaf)) for leaf in leaves]
    outputs = [
        as_result(_zeros(aval_of(leaf._data)) if g is None else g) for leaf, g in zip(leaves, found, strict=True)
    ]
    return adjoint.sources, adjoint.same, [*adjoint.inputs, *given], outputs, released


class _TapeAdjoint:
    """The backward of *nodes* while it is recorded: ``cotangents`` of their results, by (number of the node, result),
    and those of leaves, by id."""

    def __init__(self, nodes: Sequence[TapeNode], held: Sequence[tuple[Any, Any]]) -> None:
        self._nodes, self._held = nodes, held
        self._index = {node: k for k, node in enumerate(nodes)}
        self.cotangents: dict[tuple[int, int], Atom] = {}
        self.of_leaves: dict[int, Atom] = {}
        self._careful: set[tuple[int, int]] = set()
        self.sources: list[_Source] = []
        self.inputs: list[Var] = []
        self.same: list[tuple[int, int, int]] = []
        self._known: dict[Any, tuple[Any, int]] = {}  # name -> (the array, which source)

    def seed(self, root: Tensor, cotangent: Tensor | None) -> list[Var]:
        """Begin at *root*; the inputs for its *cotangent*."""
        assert root._node is not None
        aval = aval_of(root._data)
        place = self._index[root._node], root._out
        if cotangent is None:
            _add(self.cotangents, place, broadcast_to(structural(1, aval.dtype), aval.shape))
            return []
        given = Var(aval_for_kernel(aval))
        _add(self.cotangents, place, value_in_kernel(given, aval))
        return [given]

    def pull_back(self, position: int) -> tuple[Any, ...]:
        """Go on from the results of a node to its operands; its saved values, as they are once they are released."""
        node, (operands, results) = self._nodes[position], self._held[position]
        assert node.op is not None
        avals = tuple([aval_of(x) for x in operands])
        marked = any((position, k) in self._careful for k in range(len(results)))
        local: LocalVjp = node.op.vjp(avals, node.statics, tuple([e is not None for e in node.edges]), marked)
        cts = [self.cotangents.get((position, k)) for k in local.seeded]
        if local.gives and any(ct is not None for ct in cts):
            saved = [*local.saved_in, *[len(node.edges) + k for k in local.saved_out]]
            values = [self._residual(position, k) for k in saved]
            values += [_zeros(local.outs[k]) if ct is None else ct for k, ct in zip(local.seeded, cts, strict=True)]
            for k, g, mark in zip(local.gives, local.splice(values), local.careful, strict=True):
                self._flows(node.edges[k], node.edge_outs[k], g, mark)
        saves = bool(local.saved_in or local.saved_out)
        return (True, (None,) * len(avals), (None,) * len(local.outs)) if saves else (False, avals, local.outs)

    def _flows(self, edge: Any, out: int, cotangent: Atom, mark: bool) -> None:
        """A *cotangent* flows to where an operand comes from."""
        if not isinstance(edge, TapeNode):
            _add(self.of_leaves, id(edge), cotangent)
            return
        place = self._index[edge], out
        _add(self.cotangents, place, cotangent)
        if mark:
            self._careful.add(place)

    def _residual(self, position: int, k: int) -> Atom:
        """The saved value k of a node; an array that several nodes saved is one input."""
        node, (operands, results) = self._nodes[position], self._held[position]
        count = len(node.edges)
        edge = node.edges[k] if k < count else None
        name: Any = (position, k)
        if k >= count:
            name = ("result", position, k - count)
        elif isinstance(edge, TapeNode):
            name = ("result", self._index[edge], node.edge_outs[k])
        elif edge is not None:
            name = ("leaf", id(edge))
        value = operands[k] if k < count else results[k - count]
        aval, found = aval_of(value), self._known.get(name)
        if found is not None and found[0] is value:
            self.same.append((position, k, found[1]))
            return value_in_kernel(self.inputs[found[1]], aval)
        if found is None:
            self._known[name] = (value, len(self.inputs))
        self.inputs.append(Var(aval_for_kernel(aval)))
        self.sources.append((position, k))
        return value_in_kernel(self.inputs[-1], aval)


def _add(sums: dict[Any, Atom], place: Any, cotangent: Atom) -> None:
    sums[place] = F.add(sums[place], cotangent) if place in sums else cotangent


def _zeros(aval: Aval) -> Atom:
    if not aval.is_complex:
        return zeros(aval.shape, aval.dtype)
    lane = COMPLEX[aval.dtype]
    return Pair(zeros(aval.shape, lane), structural(0, lane), aval.dtype)


def _launch(plan: BackwardPlan, nodes: Sequence[TapeNode], seeds: Sequence[Tensor | None]) -> Sequence[Any] | None:
    """The gradients; None where a saved value has been written to since (the walk node by node names it) or freed by
    another thread, or where one array of the plan is two."""
    values: list[Any] = []
    for position, k in plan.sources:
        value = nodes[position].saved(k)
        if value is None or nodes[position].overwritten(k):
            return None
        values.append(value)
    for position, k, which in plan.same:
        if nodes[position].overwritten(k) or nodes[position].saved(k) is not values[which]:
            return None
    values += [seed._data for seed in seeds if seed is not None]
    if pairs_exist:
        values = [x if type(x) is float or type(x) is int else for_kernel(x) for x in values]
    found = launched(plan.launch, values)
    grads = (found,) if plan.single else found
    return [from_kernel(g, aval) for g, aval in zip(grads, plan.given, strict=True)]
