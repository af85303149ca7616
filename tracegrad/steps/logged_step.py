"""One call of a step, recorded from a run of converted code whose log is closed.

Two logs are kept of one run: of Python's objects by a ``StepRun``, of tensors by the ``Capture``.  What they hold
becomes one ``TensorRecording`` (``step_finished.py``), which may be replayed from the next call on.  A run that is not
closed is undone, and has done nothing outside.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..runtime.config import config
from ..runtime.cuda.availability import current_device, require_cuda
from ..runtime.logged.arguments import Given
from ..runtime.logged.changed import changed
from ..runtime.logged.effects import effects_of
from ..runtime.logged.joined import KnownReads
from ..runtime.logged.reads import NotClosedError, not_closed
from ..runtime.logged.record import Logged, LoggedRecording, OutsideInputs, check
from ..runtime.logged.writes import Varies
from ..runtime.mode import Mode
from ..runtime.record.arguments import positional_names
from ..runtime.record.call_key import COMPLEX_DATA, CONVERTED, DEVICE, OBJECT, TENSOR, TRACED, Call
from ..runtime.record.differentiable import leaf_names
from ..runtime.record.learned import Learned
from ..runtime.record.recording import Look
from ..runtime.state.checker import snapshot_of
from ..runtime.state.state_graph import Leaf, StateGraph, StateNode
from ..tensors import dtypes
from ..tensors.capture import Capture, capturing
from ..tensors.device import CPU, device
from ..tensors.modes import STATE
from ..tracer.ir.errors import OutOfMemoryError
from ..tracer.ir.gc_pause import fewer_collections
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.ir.settings import AUTOCAST
from ..tracer.record.array import TracedArray
from ..tracer.record.constants import call_method
from ..tracer.record.integers import Integers
from ..tracer.record.recorder import Recorder
from ..tracer.record.retry import Options, Retry
from .device_program import has_leaves_on_host, is_given_there
from .leaving import Leaving
from .loop_tape import LoopTape
from .step_arguments import arguments_of
from .step_autograd import derive
from .step_finished import finished
from .step_places import HELD, STATE_ARRAY
from .step_reads import ElsewhereError, FoundTensorError, StepReads
from .step_recording import TensorRecording
from .step_run import StepRun
from .tensor_facts import tensor_facts

_OF_DEVICES = (Refusal.STEP_DEVICE, Refusal.STEP_MIXED)  # what only a run on the device can do
_THREAD = ("grad", "inference", "anomaly", "check_nan")


class TransientError(NotClosedError):
    """The run has changed what it reads: its recording would hold for no call that is like it."""

    lasting = False


class LoggedStep(Logged):
    """The knowledge of one step's runs of converted code."""

    without = frozenset((COMPLEX_DATA, CONVERTED, DEVICE, TRACED))
    final = (OutOfMemoryError,)
    ends = (Retry, Exception)

    def __init__(self, fn: Any) -> None:
        super().__init__(fn)
        # (key of calls, place that a run has read and changed, whether it may be read so again)
        self.unsettled: set[tuple[Any, str, bool]] = set()
        self.settles = False  # whether the last run has
        self.there: set[Any] = set()  # keys of calls whose tensors from outside lie on a device

    def takes(self, call: Call) -> bool:
        return super().takes(call) and not call.repeated

    def why(self, call: Call) -> list[Reason]:
        taken = self.without.isdisjoint(call.kinds) and not call.repeated
        return super().why(call) if taken else [Refusal.LOG_UNSEEN(what="an argument of this kind")]

    def record(self, call: Call, *given: Any, **named: Any) -> LoggedRecording | Options | None:
        self.settles = False
        if len(self.refused) + len(self.unsettled) + len(self.there) > 2 * config.max_variants:
            self.refused.clear()
            self.unsettled.clear()
            self.there.clear()
        return super().record(call, *given, **named)

    def _record(
        self, call: Call, mode: Mode, learned: Learned, others: Sequence[KnownReads] | None, look: Look | None
    ) -> LoggedRecording:
        before = {} if others is None else self.numbers
        given_there, outside, turned = is_given_there(call), set[int](), False
        there = given_there or call.key in self.there
        while True:
            try:
                return self._run_with(outside, there, call, before)
            except FoundTensorError as error:
                outside.add(id(error.found))
            except ElsewhereError as error:
                if given_there:
                    raise
                if turned:
                    raise NotClosedError(error.reason) from None
                self.there ^= {call.key}
                there, turned = not there, True

    def _run_with(self, outside: set[int], there: bool, call: Call, before: dict[str, Any]) -> LoggedRecording:
        """The recording of a run on the device, if it is *there*, or on the host; *outside*: ids of arguments that are
        found outside, too.

        :raises ElsewhereError: where the other one is to be tried."""
        recorder = Recorder()
        recorder.of_tensors = recorder.repeatable = True
        recorder.call_method = call_method
        recorder.trusts, recorder.taught = self.trusts, self.taught
        place = device("cuda", current_device()) if there else CPU
        if there:
            recorder.backend = require_cuda("a step on the device")
        names = leaf_names(self.fn, call)
        tensors = [k for k, kind in enumerate(call.kinds) if kind == TENSOR and id(call.leaves[k]) not in outside]
        arguments = {id(call.leaves[k]): names[k] for k in tensors}
        capture = Capture(recorder, arguments, place)
        try:
            with fewer_collections(), capturing(capture), _undone(capture) as facts:
                return self._run(capture, call, names, arguments, before, facts)
        except NotClosedError as error:
            if there or error.reason.code not in _OF_DEVICES:
                raise
            raise ElsewhereError(error.reason) from None

    def _run(
        self, capture: Capture, call: Call, names: Sequence[str], arguments: dict[int, str], before: dict[str, Any],
        facts: list[Any],
    ) -> LoggedRecording:  # fmt: skip
        recorder = capture.recorder
        integers = Integers(recorder)
        integers.names = names
        leaves, proxies = arguments_of(capture, integers, call, names, arguments)
        stand_ins = _OutsideInputs(capture, integers)
        there = capture.device is not CPU
        reads = StepReads(stand_ins.of, self.contents, self.varying, before, arguments, there)
        self.inputs = reads.varying
        reads.facts = facts
        reads.begin(self.fn, call.objects, tuple([names[k] for k, kind in enumerate(call.kinds) if kind == OBJECT]))
        run = StepRun(reads, recorder)
        capture.tape = recorder.tape = LoopTape(capture)
        run.capture, capture.log, capture.names = capture, run, ChainMap(arguments, reads.tensors)
        self.begin(run, integers)
        given = Given(reads, call, leaves, positional_names(self.fn))

        def settled(out: Any) -> Any:
            derive(capture, out)
            return out

        out = self.result(run, given, integers, stand_ins.labels, settled)
        check(run, recorder, out, stand_ins.labels)
        integers.refuse()
        run.check_ways()
        graph = reads.graph(run.untouched(), run.places())
        if there:
            _check_place(capture, call, graph)
        self._check_changed(call, run, graph)
        snapshot = snapshot_of(graph)
        place = {id(node): k for k, node in enumerate(snapshot.inputs)}
        order = [place[id(node)] for node in reads.inputs]
        capture.sources = [(kind, order[k]) if kind == STATE_ARRAY else (kind, k) for kind, k in capture.sources]
        leaving = Leaving(capture, snapshot.graph.tensors, [*call.leaves, *snapshot.arrays])
        if (objection := leaving.objection()) is not None:
            raise not_closed(str(objection))
        stood = {id(node): stand_ins.made[id(node)] for node in snapshot.inputs}
        effects = effects_of(run, graph, call, given, stood, out, leaving)
        _check_sinks(capture, graph, [*call.leaves, *snapshot.arrays])
        held = {id(node.obj): place[id(node)] for node in reads.inputs if node.kind == HELD}
        recording = finished(capture, self.fn, effects.out, proxies, held, call, snapshot, effects, leaving, integers)
        _rest_on(recording, facts, recorder)
        self.learn(reads, before)
        self.unsettled = {one for one in self.unsettled if one[0] != call.key or one[2]}  # the others have settled
        return LoggedRecording(recording, snapshot, None, None)

    def _check_changed(self, call: Call, run: StepRun, graph: StateGraph) -> None:
        """An error where the run has changed what it reads: a lasting one where the next such run may do so, too."""
        for what, may_come_again in _changed(run, graph):
            if (call.key, what, may_come_again) not in self.unsettled:
                self.unsettled.add((call.key, what, may_come_again))
                self.settles = True
                raise TransientError(not_closed(what).reason)
            if not may_come_again:
                raise not_closed(f"{what}, which it reads and changes")


class _OutsideInputs(OutsideInputs):
    """The same of a step, whose inputs the capture has; a tensor is there itself."""

    def __init__(self, capture: Capture, integers: Integers) -> None:
        super().__init__(integers)
        self._capture = capture

    def of(self, node: StateNode) -> Any:
        if node.kind == HELD:
            self.made[id(node)] = node.obj
            return node.obj
        made = super().of(node)
        if isinstance(made, TracedArray):
            self._capture.put(made, CPU)
        return made

    def add_input(self, value: Any, name: str, weak: bool) -> Any:
        return self._capture.add_input(STATE_ARRAY, value, name, len(self.made), weak=weak)


def _rest_on(recording: TensorRecording, facts: list[Any], recorder: Recorder) -> None:
    """Have *recording* rest on the facts about tensors that the run has found, as they still are; an error where it may
    not be replayed."""
    if recorder.reasons or recording.changes:
        raise NotClosedError([*recorder.reasons, *recording.changes][0])
    if any(tensor_facts(t) != known for t, known in facts) or recorder.needed is not None:
        raise not_closed("a change of a tensor from outside")
    known = {id(t) for t, _ in recording.tensors}
    recording.tensors += [(t, fact) for t, fact in facts if id(t) not in known]


def _check_sinks(capture: Capture, graph: StateGraph, read: Sequence[Any]) -> None:
    """An error where an array outside that the run writes shows memory that it reads."""
    arrays = [x for x in (*read, *[root.array for root in capture.roots]) if type(x) is np.ndarray]
    for node in graph.nodes:
        written = node.kind == "sink" and type(node.obj) is np.ndarray
        if written and any(np.may_share_memory(node.obj, x) for x in arrays):
            raise not_closed(f"an assignment in `{node.label}`, an array whose memory it reads")


def _check_place(capture: Capture, call: Call, graph: StateGraph) -> None:
    """An error where a run for the device is none."""
    if "cuda" not in capture.met:
        raise ElsewhereError(not_closed("tensors on the host alone").reason)
    if has_leaves_on_host(call, graph):
        raise NotClosedError(Refusal.STEP_TWO_DEVICES())


@contextmanager
def _undone(capture: Capture) -> Iterator[list[Any]]:
    """A context in which a run that ends by an exception has done nothing outside; gives the list for the facts about
    tensors, as they are found."""
    thread = _modes()
    facts: list[Any] = []
    try:
        yield facts
        if _modes() != thread:
            raise not_closed("a mode that is left set")
    except BaseException:
        capture.undo()
        *modes, AUTOCAST.dtype, _ = thread
        for name, value in zip(_THREAD, modes, strict=True):
            setattr(STATE, name, value)
        raise


def _modes() -> list[Any]:
    """The modes of this thread in which operations run."""
    return [*[getattr(STATE, name) for name in _THREAD], AUTOCAST.dtype, dtypes.get_default_dtype()]


def _changed(run: StepRun, graph: StateGraph) -> Iterator[tuple[str, bool]]:
    """(place, whether what was read there may be there again) of what the run has read and then changed, so that the
    next run like it reads something else.

    :raises Varies: where that is to be an input."""
    for t, was_none in run.capture.looked.values():
        now = run.capture.grads.get(id(t), (t, t._grad))[1]
        if was_none != (now is None):
            name = graph.tensors.get(id(t), "a tensor's")
            yield f"`{name}.grad`", True
    found = list(changed(run, graph))
    for label, read, value in found:
        before = read.obj if isinstance(read, StateNode) else read.value
        if run.reads.may_vary(label) and run.varies(before, value):
            raise Varies(label)
    for label, read, _ in found:
        yield f"`{label}`", isinstance(read, Leaf)
