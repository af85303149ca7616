"""``tracegrad.compile(step)``: a whole training step (forward, backward, clipping, optimizer) as one compiled unit.

A step is answered as calls of compiled functions are (``runtime/paths/dispatcher.py``), with recordings of the
capture's (``step_recording.py``), whose kernels update parameters and optimizer state in place.  They are made of runs
whose reads are logged (``logged_step.py``).  Where a log is not closed, the first call of a kind runs eagerly, and each
call checks everything that the step's Python could have seen: arguments, the outside state (``runtime/state``,
``state_visitors.py``), branches (as guards in the kernel).  Steps that can't be replayed run eagerly, and
``step.stats.live`` says why: an answer is never stale.

Start reading at ``StepDispatcher``: a step's part of the ladder.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Generic, Protocol, overload

from ..nn.module import Module
from ..runtime.config import config
from ..runtime.launch.binding import argument_records, bind_graph
from ..runtime.mode import MISS, VALUE, Mode
from ..runtime.notebook import function_html
from ..runtime.paths.entry import MAX_TRANSIENT, Endpoint
from ..runtime.paths.fallback import Live
from ..runtime.paths.family import Family, Variant
from ..runtime.paths.int_arguments import FIRST, now_numbers
from ..runtime.paths.paths import Missed, Path, make_path, new_counts
from ..runtime.record.call_key import DEVICE, TENSOR, Call
from ..runtime.state.state_plan import Snapshot, StatePlan
from ..runtime.state.values import partition
from ..runtime.stats import Stats, short_name
from ..runtime.wrapper import P, R, Wrapper
from ..tensors.modes import STATE
from ..tensors.node import epoch
from ..tracer.control.arms import MANY_PATHS
from ..tracer.ir.errors import need_function
from ..tracer.ir.gc_pause import imported_to_stay
from ..tracer.ir.refusals import Reason, Refusal, listed
from ..tracer.ir.tracebacks import shorten
from ..tracer.record.recorder import current_recorder
from ..tracer.record.retry import Options
from .analysed_steps import AnalysedSteps
from .device_program import StepProgram, place_of_step
from .step_recording import TensorRecording, record_tensors, restore_streams, save_streams, scalar_type

_OFTEN = 4  # calls of a kind that could not be recorded, before no more is tried


class CompiledStep(Wrapper, Generic[P, R]):
    """A function of tensors whose effects and results are replayed by one kernel.  Made by :func:`compile`."""

    def __init__(
        self, fn: Callable[P, R], static: frozenset[int | str] = frozenset(), stats: Stats | None = None
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.__wrapped__ = fn
        self._fn, self._static = fn, static
        self.stats = Stats(short_name(fn)) if stats is None else stats
        self._dispatcher = StepDispatcher(fn, static, self.stats)
        self._endpoint = self._dispatcher.endpoint(Mode(VALUE))
        if stats is None:
            self._dispatcher.count_paths()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """As the function itself.  Tensors in the result stay connected to the tensors they depend on, unless the step
        has run their backward."""
        self.stats.calls += self._counted
        if STATE.capture is not None or current_recorder() is not None:
            return self._fn(*args, **kwargs)
        try:
            found = self._endpoint.first(args, kwargs)
            return found if found is not MISS else self._dispatcher.others(self._endpoint, args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    def explain(self, *, level: str = "summary", format: str = "text") -> str:
        """A report on the recordings: a summary, or with *level* ``"all"`` programs with your lines, effects, loops,
        decisions, memory, guards; and why Python runs in every call, where it does.  Levels and *format* are those of
        :meth:`tracegrad.runtime.compiled.CompiledFunction.explain`."""
        return imported_to_stay(".explain", __package__).explain_step(self, level, format)

    def __getattr__(self, name: str) -> Any:
        """An attribute of a compiled module (``parameters``, ``train``)."""
        fn = self.__dict__.get("_fn")
        if isinstance(fn, Module) and not name.startswith("__"):
            return getattr(fn, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _tracegrad_settings(self) -> tuple[Any, ...]:
        return (self._static,)

    def __repr__(self) -> str:
        return f"<compiled step {self.stats.name}>"

    def _repr_html_(self) -> str:
        return function_html(self, "compiled step")

    _counted = 1


class StepDispatcher(AnalysedSteps):
    """The slow path of a step, whose kernels write: a recorded run takes effect before any kernel of another does."""

    cuts = False

    def __init__(self, fn: Callable[..., Any], static: frozenset[int | str], stats: Stats) -> None:
        super().__init__(fn, static, "step", stats)
        self._not_recorded: Counter[Any] = Counter()  # keys of calls -> the times that they could not be recorded
        self._seen: set[Any] = set()  # keys of calls that have run eagerly
        self.logged: Any = None  # what is known of runs of converted code, once there was one
        self._unsettled: set[Any] = set()  # those in which a run has changed state that it reads

    def dispatch(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if STATE.inference or STATE.anomaly:
            return self.fn(*args, **kwargs)
        call = self.flatten(args, kwargs)
        if DEVICE in call.kinds:
            self.stats.live = str(Refusal.STEP_FOREIGN())
            return self.fn(*args, **kwargs)
        call = self.numbers(_keyed(call))
        new = call.by_value is None and call.key not in self._seen
        if new and not (config.log_reads and endpoint.integers.reason(call) == FIRST):
            return self._first_run(endpoint, call)
        return self.answer(endpoint, call)

    def _first_run(self, endpoint: Endpoint, call: Call) -> Any:
        """The answer to the first call of its kind, by its Python alone."""
        if len(self._seen) >= config.max_variants:
            self._seen.clear()
            self._not_recorded.clear()
            self._unsettled.clear()
        self._seen.add(call.key)
        self.stats.note(f"{endpoint.integers.reason(call)}: runs eagerly")
        return self._eagerly(call)

    def _by_log(
        self, endpoint: Endpoint, call: Call, known: Sequence[Variant], variant: Variant | None, reason: str
    ) -> Any:  # fmt: skip
        if not self._logs(call, known):
            return MISS
        found = self.logged.record(call, endpoint.mode, self.plans.get(call), () if known else None)
        if found is None:
            first = call.by_value is None and call.key not in self._seen
            return self._first_run(endpoint, call) if first or self.logged.settles else MISS
        if type(found) is Options:
            return found
        self.stats.traces += 1
        self._seen.add(call.key)
        self.stats.note(now_numbers(self.logged.new) if self.logged.new else reason or endpoint.integers.reason(call))
        try:
            new = self._variant(endpoint, call, Variant(found.snapshot, reads=self.logged))
            return self._keep(endpoint, call, new, found.recording, None, verified=True)
        finally:
            found.snapshot.release()

    def _logs(self, call: Call, known: Sequence[Variant]) -> bool:
        """Whether a run of converted code is tried."""
        if not config.log_reads or len(known) > MAX_TRANSIENT or sum(len(v.paths) for v in known) > MANY_PATHS:
            return False
        if self.logged is None:
            self.logged = import_module(".logged_step", __package__).LoggedStep(self.fn)  # not all calls need it
        return self.logged.takes(call)

    def analysed(self) -> list[str]:
        """Lines on calls whose log is not closed: why the code is analysed for them."""
        refused = {} if self.logged is None else self.logged.refused
        return [f"its code is analysed: {reason}" for reason in dict.fromkeys(refused.values())]

    def unseen(self, call: Call) -> list[Reason]:
        """The reason why no run like *call* has a closed log, if one was tried."""
        return [] if self.logged is None else self.logged.why(call)

    def _find(self, call: Call, known: Sequence[Variant]) -> tuple[Variant | None, Sequence[Any], Snapshot | None]:
        for found in known:
            now = found.snapshot.check(*call.objects) if found.reads is not None else None
            if now is not None and found.alike(call, now):
                return found, now, None
        if self._logs(call, known):
            return None, (), None
        known = [v for v in known if v.reads is None]
        _, snapshot = self.plans.state(call)
        arrays = tuple([float(x) if type(x) is int else x for x in snapshot.arrays])  # as the kernel takes ints
        variant = next((v for v in known if v.snapshot.key == snapshot.key and v.alike(call, arrays)), None)
        return variant, arrays, snapshot

    def _elsewhere(self, endpoint: Endpoint, call: Call, plan: StatePlan, snapshot: Snapshot) -> Any:
        if place_of_step(call, snapshot.graph) is None:
            self.stats.live = str(Refusal.STEP_TWO_DEVICES())
            return self._eagerly(call)
        if (shared := self._shared(endpoint.mode, call, snapshot.graph.nodes)) is not None:
            return self.answer(endpoint, self.numbers(_keyed(shared)))
        if plan.provable:
            return MISS
        snapshot.release()  # the step may be asked whether an object is still there
        return self._unrecorded(endpoint, call, plan.reasons or self.unseen(call))

    def _eagerly(self, call: Call) -> Any:
        args, kwargs = call.arguments
        return self.fn(*args, **kwargs)

    def _record(
        self, endpoint: Endpoint, call: Call, plan: StatePlan, snapshot: Snapshot, capacities: Sequence[int]
    ) -> TensorRecording:
        place = place_of_step(call, snapshot.graph)
        assert place is not None
        return record_tensors(self.fn, call, plan, snapshot, place, capacities)

    def _drop(self, recording: Any) -> None:
        recording.capture.undo()

    def _bind(self, recording: Any, call: Call) -> Path:
        graph, counts = recording.graph, new_counts(recording)
        scalars = [scalar_type(place, call, recording.captured) for place in recording.places]
        program: Any
        with recording.capture.all_or_nothing():
            if recording.on_host is not None:
                on_host = recording.on_host
                program = StepProgram(graph, scalars, on_host.inputs, on_host.results, recording.writes, counts)
                bound = program.launch
                self.stats.count_kernel(program.cached)
            else:
                program = self.kernel(recording, len(recording.places))
                args, donated = argument_records(graph.inputs, scalars), dict(enumerate(recording.writes))
                bound = bind_graph(graph, recording.canonical, program, False, args, counts, donated)
        return make_path(recording, program, bound, counts)

    def _holds(self, path: Path, call: Call, arrays: Sequence[Any]) -> bool:
        recording: Any = path.recording
        return recording.holds(call, arrays)

    def _tell(self, family: Family) -> None:
        for path in family.members:
            path.recording.memory.look()  # type: ignore[attr-defined]
        family.known[0] = epoch()

    def _run(
        self, path: Path, launch: Callable[..., Any], call: Call, arrays: Sequence[Any], recorded: Any = None
    ) -> tuple[Sequence[Any], Any]:
        if recorded is not None:
            with recorded.capture.all_or_nothing():
                values, found = super()._run(path, launch, call, arrays, recorded)
            return [*values, *arrays], found
        recording: Any = path.recording
        before = save_streams(recording.generators)
        try:
            values, found = super()._run(path, launch, call, arrays)
        except BaseException:  # too little memory on a device: as if there had been no call
            restore_streams(before)
            raise
        if type(found) is Missed:
            restore_streams(before)
        return [*values, *arrays], found

    def _by_numpy(self, endpoint: Endpoint, call: Call, recording: Any, path: Path, values: Sequence[Any]) -> Any:
        if recording.write_back is not None:
            return self._take_as_it_is(recording)
        recording.capture.undo()
        recording.release()
        return self._eagerly(call)

    def _not_kept(self, endpoint: Endpoint, call: Call, recording: Any, plan: StatePlan) -> Any:
        if recording.changes and plan.provable and call.key not in self._unsettled:
            self._unsettled.add(call.key)  # state that is made once, when it is first needed
            self.stats.note("recorded, but not kept, since the run changed what it reads")
            return self._take_as_it_is(recording)
        if plan.provable and (
            recording.learns or all(reason.code is Refusal.REPLAY_CAUGHT for reason in recording.changes)
        ):
            plan.look_again()
            return self._run_once(endpoint, call, recording, Live(listed(recording.changes)))
        return super()._not_kept(endpoint, call, recording, plan)

    def _run_live(self, endpoint: Endpoint, call: Call, live: Live) -> Any:
        return self._eagerly(call)

    def _run_once(self, endpoint: Endpoint, call: Call, recording: Any, live: Live) -> Any:
        return self._take_as_it_is(recording)

    def _unrecorded(self, endpoint: Endpoint, call: Call, reasons: Sequence[Reason]) -> Any:
        out = self._eagerly(call)  # which may raise what is the user's own error
        why, lasts = listed(reasons), any(reason.code is not Refusal.STEP_SHARES for reason in reasons[:1])
        with self.lock:
            self._not_recorded[call.key] += 1
            if lasts or self._not_recorded[call.key] >= _OFTEN:
                endpoint.live.keep(call.key, Live(why))
                self.stats.live = why
        self.stats.note(why)
        return out

    def _take_as_it_is(self, recording: Any) -> Any:
        """The result of a recorded run that is not kept, which takes effect by NumPy."""
        out = recording.capture.settle(recording.write_back, recording.returned)
        recording.release()
        return out


def _keyed(call: Call) -> Call:
    """*call*, in whose key stands which of its tensors are one, and whether gradients are enabled."""
    same = partition([x for x, kind in zip(call.leaves, call.kinds, strict=True) if kind == TENSOR])
    call.key = (*call.key, same, STATE.grad)
    return call


class _Options(Protocol):
    """``compile`` with options."""

    def __call__(self, fn: Callable[P, R], /) -> CompiledStep[P, R]: ...


@overload
def compile(fn: None = None, **options: Any) -> _Options: ...


@overload
def compile(fn: Callable[P, R], **options: Any) -> CompiledStep[P, R]: ...


def compile(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile *fn*, a training step or any function of Tensors, as one unit: forward, backward, optimizer update.

    Parameters and optimizer state are updated in place; ``.grad`` is set; tensors that are returned stay connected to
    the tensors they depend on (``compile(model)`` may be used with the rest of the step outside), unless ``backward``
    has run inside.
    ``lr`` and other numbers of the optimizer are read anew in each call.  What the step counts, stores and appends
    outside happens in every call.  Where replaying would not be provably right, it runs eagerly and
    ``step.stats.live`` says why.  Options of ``torch.compile`` are accepted and have no effect.
    """
    if fn is None:
        return compile
    need_function("compile", fn)
    return CompiledStep(fn)


__all__ = ["CompiledStep", "compile"]
