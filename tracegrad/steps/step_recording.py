"""Recording of one run of eager code, for ``compile`` (``step.py``) and compiled functions of tensors
(``functions.py``).

``record_tensors`` runs the function under a ``Capture`` and returns a ``TensorRecording``: the graph, whose results are
the values written to memory, those assigned to ``.grad``, and the returned ones; the source of each of its inputs; and
the text that puts the returned tree together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optree

from ..codegen.lower.canonical import Canonical, canonicalise
from ..codegen.lower.half_precision import CUDA_PRODUCTS
from ..codegen.lower.host_device_split import divide
from ..codegen.lower.simplify import simplify
from ..runtime.cuda.availability import require_cuda
from ..runtime.cuda.silent_backend import Unwatched
from ..runtime.record.call_key import ARRAY, FLOAT, OBJECT, SCALAR, TENSOR, Call
from ..runtime.record.differentiable import leaf_names
from ..runtime.record.gc_pause import fewer_collections
from ..runtime.record.record import sort_guards
from ..runtime.record.recording import equal_statics, same_computation
from ..runtime.record.trees import NAMESPACE, Source, packing
from ..runtime.record.unwrap_tracers import Settled, settle
from ..runtime.state.state_plan import Snapshot, StatePlan
from ..tensors.capture import Capture, capturing
from ..tensors.device import CPU, device, on_cuda
from ..tensors.tensor import Tensor, make
from ..tracer.ir.aval import is_number
from ..tracer.ir.errors import unrecordable
from ..tracer.ir.graph import Atom, Graph, Lit, Var, building
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.ops.elementwise import broadcast_to, cast
from ..tracer.record.array import TracedArray, to_atom
from ..tracer.record.recorder import Recorder
from ..tracer.reroll.roll import rolled
from .state_visitors import optimizer_numbers, tensor_facts
from .step_autograd import Link, as_array, derive, finish

LEAF, STATE_ARRAY = "leaf", "state"


@dataclass(frozen=True, slots=True)
class Setting:
    """A number in an optimizer's group.  Where it is an input, the program relies on whether it is 0 (no momentum, no
    decay); otherwise on its value."""

    group: dict[str, Any]
    key: str
    value: Any
    live: bool

    def holds(self) -> bool:
        now = self.group.get(self.key)
        return _zeros(now) == _zeros(self.value) if self.live else bool(now == self.value)


def _zeros(value: Any) -> Any:
    return tuple([v == 0 for v in value]) if type(value) is tuple else value == 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Flags of the inputs and results of a recording on a CUDA device that lie on the host."""

    inputs: list[bool]
    results: list[bool]


@dataclass(slots=True)
class TensorRecording:
    """``sources[k]`` is the source of input k: ``("leaf", position in the call)``, ``("state", position among the
    snapshot's arrays)``, or as in ``capture.py``.  Results of the graph: ``writes`` (input whose memory takes
    result k), then those of ``grads`` and the returned ones, whose numbers count from after the writes."""

    graph: Graph
    canonical: Canonical
    sources: list[tuple[str, Any]]
    writes: list[int]
    times: list[int]  # number of writes to each of these, which is added to its version
    grads: list[tuple[Tensor, int | None]]  # (tensor, index of the result that becomes its .grad, or None)
    looked: list[tuple[Tensor, bool]]  # (tensor whose .grad was read, whether it was None)
    text: str  # expression of the returned tree, over r and make
    names: dict[str, Any]
    statics: tuple[Any, ...]
    facts: list[tuple[Any, ...]]  # about the tensors from outside
    proxies: dict[int, Tensor]  # position in the call -> the tensor that stood for it
    link: Link | None  # derivative of the returned tensors (``step_autograd.py``)
    payload: list[int]  # the results that go with the link
    requires: list[bool]  # whether each returned tensor requires gradients
    input_names: list[str]
    answers: list[tuple[str, bytes]]  # answers of guards on values and on .grad, in order
    notes: tuple[str | Reason, ...]  # decisions about its loops
    settings: list[Setting]  # facts about numbers of optimizers that the recording relies on
    on_host: Placement | None = None  # inputs and results on the host, in a recording on a CUDA device
    changes: list[Reason] = field(default_factory=list)
    capture: Capture | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors from outside whose memory is read or written."""
        return [payload.tensor for kind, payload in self.sources if kind == "root"]

    def release(self) -> None:
        """Release the values of the run, and the arrays that it found."""
        self.capture = None
        for kind, payload in self.sources:
            if kind == "root":
                payload.release()

    @property
    def generators(self) -> list[Any]:
        """The random generators that a run draws from before it is known whether it will be taken."""
        return list({id(p[1]): p[1] for kind, p in self.sources if kind == "fresh"}.values())

    def same_program(self, other: TensorRecording) -> bool:
        """Whether two recordings denote the same computation on the same tensors."""
        return (
            same_computation(self, other)
            and self.text == other.text
            and self.writes == other.writes
            and self.times == other.times
            and equal_statics(self.statics, other.statics)
            and [(id(t), k) for t, k in self.grads] == [(id(t), k) for t, k in other.grads]
            and [(id(t), k) for t, k in self.looked] == [(id(t), k) for t, k in other.looked]
            and len(self.sources) == len(other.sources)
            and all(_same_source(x, y) for x, y in zip(self.sources, other.sources, strict=True))
            and [g.expected for g in self.graph.guards] == [g.expected for g in other.graph.guards]
        )


def _same_source(a: tuple[str, Any], b: tuple[str, Any]) -> bool:
    if a[0] != b[0]:
        return False
    if a[0] == "root":
        return a[1].place is b[1].place and (a[1].owner is None) is (b[1].owner is None)
    if a[0] == "number":
        return a[1][0] is b[1][0] and a[1][1:] == b[1][1:]
    return a[0] == "fresh" or a[1] == b[1]


def record_tensors(
    fn: Callable[..., Any],
    call: Call,
    plan: StatePlan,
    snapshot: Snapshot,
    place: device = CPU,
) -> tuple[TensorRecording, Any]:
    """(the recording, the function's result).  *place*: the device that it will run on.

    Where the function raises, its effects on tensors so far are kept, and the exception goes on.
    """
    recorder = Recorder()
    if place.type == "cuda":
        recorder.backend = Unwatched(require_cuda("a step on the device"))
    names = leaf_names(fn, call)
    arguments = {id(x): names[k] for k, x in enumerate(call.leaves) if call.kinds[k] == TENSOR}
    capture = Capture(recorder, {**arguments, **snapshot.tensors}, place)
    leaves = list(call.leaves)
    proxies: dict[int, Tensor] = {}
    changes: list[Reason] = []
    unrecordable.last = None
    with fewer_collections(), capturing(capture):
        for k, (leaf, kind) in enumerate(zip(call.leaves, call.kinds, strict=True)):
            if kind in (ARRAY, FLOAT, SCALAR):
                var = capture.add_input(LEAF, leaf, f"the argument `{names[k]}`", k, weak=kind == FLOAT)
                stand_in = TracedArray(var, recorder, owner=f"the argument `{names[k]}`" if kind == ARRAY else None)
                leaves[k] = capture.put(stand_in, CPU)
            elif kind == TENSOR and id(leaf) not in snapshot.tensors:
                leaves[k] = proxies[k] = _argument(capture, leaf, k, names[k])
        stand_ins: dict[int, TracedArray] = {}
        for index, (array, name) in enumerate(zip(snapshot.arrays, snapshot.array_names, strict=True)):
            var = capture.add_input(STATE_ARRAY, array, f"`{name}`", index)
            stand_in = TracedArray(var, recorder, owner=f"`{name}`, an array from outside the function")
            stand_ins[id(array)] = recorder.captured[id(array)] = capture.put(stand_in, CPU)
        substitution = plan.substitute(lambda array, name: stand_ins[id(array)], call.objects, snapshot)
        replaced = iter(substitution.objects)
        for k, kind in enumerate(call.kinds):
            if kind == OBJECT:
                leaves[k] = next(replaced)
        args, kwargs = call.rebuild(leaves)
        try:
            with plan.watch():
                out = substitution.fn(*args, **kwargs)
            derive(capture, out)
        except BaseException:
            capture.settle()
            raise
        finally:
            changes += substitution.changes()
            if changes:
                substitution.writeback(lambda value: _plain(value, capture))
        after = plan.snapshot(call.objects)
        settle(after, Settled(lambda value: _plain(value, capture), {}))
        if unrecordable.last is not None:
            refused, message = unrecordable.last
            capture.settle()
            raise refused(*message)
        changes = changes or plan.changes(snapshot, after)
        recording = _finish(capture, out, proxies, call)
        live = {(id(p[0]), p[1]) for kind, p in recording.sources if kind == "number"}
        recording.settings = [
            Setting(group, key, value, (id(group), key) in live)
            for group, key, value in optimizer_numbers(snapshot.optimizers)
        ]
    recording.changes = [*changes, *recorder.reasons, *recording.changes]
    return recording, out


def _plain(value: Any, capture: Capture) -> Any:
    return capture.value(value)[()] if type(value) is TracedArray else value


def _argument(capture: Capture, t: Tensor, position: int, name: str) -> Tensor:
    """The tensor that stands for an argument in the run; its memory is read where the argument of the call is."""
    proxy = t
    if t._base is not None:
        if t._requires:
            capture.refuse(Refusal.STEP_VIEW, name=name)
        proxy = object.__new__(Tensor)
        proxy._data, proxy._counter = t._data, t._counter
    known = capture.root_of(proxy)
    if known is None:
        capture.raw(proxy)
        capture.sources[-1] = (LEAF, position)
    return proxy


def _finish(capture: Capture, out: Any, proxies: dict[int, Tensor], call: Call) -> TensorRecording:
    recorder = capture.recorder
    capture.check_overlap()
    atoms: list[Atom] = []
    on_host: list[bool] = []  # whether each of them lies on the host
    writes: list[int] = []
    times: list[int] = []
    positions = {var: k for k, var in enumerate(recorder.inputs)}
    for root in capture.roots:
        if root.written:
            writes.append(positions[root.var])
            times.append(max(root.tensor._counter[0] - root.version, 1))
            atoms.append(_shaped(root.contents, root.var))
            on_host.append(not on_cuda(root.array))
    grads: list[tuple[Tensor, int | None]] = []
    changes: list[Reason] = []
    known: set[int] = set()
    for t, grad in capture.grads.values():
        if grad is None:
            grads.append((t, None))
            continue
        known.add(id(grad))
        if grad is t._grad and capture.root_of(grad) is not None:
            continue  # accumulated in place: a write
        if type(grad._data) is not TracedArray:
            changes.append(Refusal.STEP_GRAD())
        if grad._node is not None:
            changes.append(Refusal.STEP_GRAD_GRAPH())
        grads.append((t, len(atoms) - len(writes)))
        atoms.append(capture.raw(grad).atom)
        on_host.append(capture.device_of(capture.raw(grad)).type == "cpu")
    source = Source("o")
    source.names.update(make=make, asarray=np.asarray if capture.device.type == "cpu" else as_array)
    leaves, spec = optree.tree_flatten(out, none_is_leaf=True, namespace=NAMESPACE)
    texts: list[str] = []
    statics: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Tensor) and type(leaf._data) is TracedArray:
            known.add(id(leaf))
            if leaf._grad is not None:
                changes.append(Refusal.STEP_GRAD_OF_RESULT())
            texts.append(f"make(asarray(r[{len(atoms) - len(writes)}]))")
            atoms.append(leaf._data.atom)
            on_host.append(leaf.device.type == "cpu")
        elif isinstance(leaf, TracedArray):
            texts.append(f"r[{len(atoms) - len(writes)}]")
            atoms.append(leaf.atom)
            on_host.append(True)
        elif isinstance(leaf, np.ndarray) and is_number(leaf.dtype):
            texts.append(f"r[{len(atoms) - len(writes)}]")
            atoms.append(to_atom(leaf))
            on_host.append(True)
        else:
            texts.append(source.constant(leaf))
            statics.append(leaf)
    text = packing(source, spec, iter(texts))
    first = len(atoms) - len(writes)
    program = rolled(recorder, atoms if capture.link is None else [*atoms, *capture.link.gradients])
    written = {root.var for root in capture.roots if root.written}
    scalars = [scalar_type(s, call) for s in capture.sources]
    on_device = capture.device.type == "cuda"
    payload, objections = finish(capture.link, program, written, scalars, on_device)
    atoms += payload
    on_host += [not on_device] * len(payload)
    changes += objections
    kept = capture.survivors(known)
    if kept:
        changes.append(Refusal.STEP_KEEPS(shape=list(kept[0].shape)))
    with building(program):
        numbers = sort_guards(program)
    for guard in numbers:
        changes.append(Refusal.STEP_NUMBER(kind=guard.kind, site=guard.site))
    graph = simplify(program.finish(atoms), CUDA_PRODUCTS if on_device else ())
    placement = None
    if on_device:
        placement = Placement([_on_host(where, call) for where in capture.sources], on_host)
        if divide(graph, placement.inputs, placement.results) is None:
            changes.append(Refusal.STEP_HOST())
    tensors = {id(r.tensor): r.tensor for r in capture.roots}
    tensors |= {id(t): t for t, _ in grads}
    tensors |= {id(t): t for t in (capture.link.wanted if capture.link is not None else ())}
    ours = {id(t) for t in proxies.values()}
    facts = [tensor_facts(t) for t in tensors.values() if id(t) not in ours]
    return TensorRecording(
        graph, canonicalise(graph), capture.sources, writes, times, grads, list(capture.looked.values()), text,
        source.names, (spec, *statics), facts, proxies,
        capture.link, list(range(first, first + len(payload))), _linked_results(capture, leaves),
        list(recorder.input_names), _answers(capture), tuple(program.notes), [], placement, changes, capture,
    )  # fmt: skip


def _on_host(where: tuple[str, Any], call: Call) -> bool:
    """Whether an input lies on the host."""
    kind, payload = where
    if kind == "root":
        return not on_cuda(payload.array)
    return not (kind == LEAF and call.kinds[payload] == TENSOR and on_cuda(call.leaves[payload]._data))


def _answers(capture: Capture) -> list[tuple[str, bytes]]:
    guards = [(g.kind, np.asarray(g.expected).tobytes()) for g in capture.recorder.guards]
    return [*guards, *[("grad is None", bytes([was_none])) for _, was_none in capture.looked.values()]]


def _linked_results(capture: Capture, leaves: list[Any]) -> list[bool]:
    """For each returned tensor, whether it is a result of the link."""
    if capture.link is None:
        return []
    return [type(t._data) is TracedArray and t._requires for t in leaves if isinstance(t, Tensor)]


def _shaped(atom: Atom, like: Var) -> Atom:
    """*atom* as an array of the shape and dtype that it is written to."""
    if isinstance(atom, Lit) or atom.aval.dtype != like.aval.dtype:
        atom = cast(atom, like.aval.dtype)
    return broadcast_to(atom, like.aval.shape) if atom.aval.shape != like.aval.shape else atom


def scalar_type(where: tuple[str, Any], call: Call) -> type | None:
    """The Python type of an input that is a number; None for arrays."""
    kind, payload = where
    if kind == LEAF and call.kinds[payload] not in (ARRAY, TENSOR):
        return type(call.leaves[payload])
    return float if kind == "number" else None
