"""The recording of a run under a ``Capture`` that is over (``logged_step.py``): where a replay finds what the run has
met, the results of the kernel, and the kernel with its backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..codegen.lower.canonical import canonicalise
from ..codegen.lower.half_precision import CUDA_PRODUCTS
from ..codegen.lower.host_device_split import divide
from ..codegen.lower.simplify import simplify
from ..codegen.lower.strips import in_strips
from ..runtime.record.call_key import TENSOR, Call
from ..runtime.record.derive import sort_guards
from ..runtime.record.effects import Effects
from ..runtime.record.outputs import leaf_text
from ..runtime.state.snapshot import Snapshot
from ..tensors.capture import Capture
from ..tensors.device import on_cuda
from ..tensors.tensor import Tensor
from ..tracer.ir.graph import Graph, building
from ..tracer.ir.refusals import Refusal
from ..tracer.loops.loop_node import note_loops
from ..tracer.record.array import TracedArray
from ..tracer.record.integers import Integers
from ..tracer.record.recorder import Recorder
from .leaving import Leaving
from .step_autograd import finish
from .step_places import LEAF, Places, is_tensor, scalar_type, text_at
from .step_recording import Memory, Placement, TensorRecording
from .step_results import StepResults
from .tensor_facts import tensor_facts


def finished(
    capture: Capture, fn: Callable[..., Any], out: Any, proxies: dict[int, Tensor], held: dict[int, int], call: Call,
    snapshot: Snapshot, found: Effects, leaving: Leaving, integers: Integers,
) -> TensorRecording:  # fmt: skip
    """The recording of a run that is over, whose log is closed."""
    recorder, link = capture.recorder, capture.link
    places = Places(capture, call, snapshot, proxies, held)
    leaving.text_of = lambda t, source, texts: text_at(source, places.of(t), texts)
    results = StepResults(capture, places, leaving, [leaf_text(k) for k in range(len(call.leaves))])
    results.changes += places.objections()
    results.write_memory()
    results.assign_grads()
    output = results.return_all(out)
    results.take(found)
    captured = [float(x) if type(x) is int else x for x in snapshot.arrays]
    scalars = [scalar_type(place, call, captured) for place in places.inputs]
    first = len(results.atoms)
    program, graph, payload, on_host = _kernel(capture, call, results, scalars, integers)
    wanted = [] if link is None else link.wanted
    reads = [] if link is None or link.backward is None else link.backward.reads
    counted = [places.inputs[k] for k in reads if is_tensor(places.inputs[k], call)]
    return TensorRecording(
        graph, canonicalise(graph), len(places.inputs), captured, output, [],
        list(recorder.input_names), results.changes, tuple(program.capacities), tuple(program.notes),
        effects=results.effects,
        questions=tuple(recorder.answered.questions), places=places.inputs, writes=results.writes, looked=places.looked,
        held=places.held, tensors=[(t, tensor_facts(t)) for t in places.from_outside(wanted)],
        arguments_as=places.arguments_as, link=link, wanted=[places.of(t) for t in wanted],
        complexes=places.complexes, free=_free(places, scalars), memory=_memory(places, results),
        one_memory=places.one_memory, counted=counted if reads else [places.of(t) for t in wanted],
        payload=list(range(first, first + payload)), requires=[] if link is None else results.requires,
        fn=fn, capture=capture, on_host=on_host,
    )  # fmt: skip


def _kernel(
    capture: Capture, call: Call, results: StepResults, scalars: Sequence[type | None], integers: Integers
) -> tuple[Recorder, Graph, int, Placement | None]:
    """(the program that gives the *results*, its graph as it is to be run, the number of results that go with the link,
    what of it lies on the host, on a CUDA device); adds reasons against a replay."""
    link, on_device = capture.link, capture.device.type == "cuda"
    atoms = [*results.written, *results.atoms]
    note_loops(capture.recorder)
    program = capture.recorder.copy()
    integers.rolled(program)
    integers.refuse()
    overwritten = {root.var for root in capture.roots if root.written}
    payload, objections = finish(link, program, overwritten, scalars, on_device)
    results.changes += objections
    with building(program):
        numbers = sort_guards(program)
    results.changes += [Refusal.STEP_NUMBER(kind=guard.kind, site=guard.site) for guard in numbers]
    graph = simplify(program.finish([*atoms, *payload]), CUDA_PRODUCTS if on_device else ())
    if not on_device:
        graph, decisions = in_strips(graph)
        program.notes += decisions
        return program, graph, len(payload), None
    inputs = [_on_host(kind, given, call) for kind, given in capture.sources]
    placement = Placement(inputs, [*results.on_host, *[False] * len(payload)])
    if divide(graph, placement.inputs, placement.results) is None:
        results.changes.append(Refusal.STEP_HOST())
    return program, graph, len(payload), placement


def _free(places: Places, scalars: Sequence[type | None]) -> list[int]:
    """The inputs that are arrays, perhaps others in each call."""
    return [k for k, place in enumerate(places.inputs) if place[0] not in ("tensor", "fresh") and scalars[k] is None]


def _memory(places: Places, results: StepResults) -> Memory:
    """The memory of the tensors that each call finds."""
    always = {k: t for k, (kind, t, *_) in enumerate(places.inputs) if kind == "tensor"}
    always = {k: t for k, t in always.items() if type(t._data) is not TracedArray}
    return Memory([*always.values()], [t for k, t in always.items() if k in results.writes])


def _on_host(kind: str, payload: Any, call: Call) -> bool:
    """Whether an input of the capture lies on the host."""
    if kind == "root":
        return not on_cuda(payload.array)
    return not (kind == LEAF and call.kinds[payload] == TENSOR and on_cuda(call.leaves[payload]._data))
