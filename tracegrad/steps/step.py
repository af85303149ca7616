"""``tracegrad.compile(step)``: a whole training step (forward, backward, clipping, optimizer) as one compiled unit.

A step is answered as calls of compiled functions are (``runtime/paths/dispatcher.py``), with recordings of the
capture's (``step_recording.py``), whose kernels update parameters and optimizer state in place.  They are made of runs
whose reads are logged (``logged_step.py``).  Where a log is not closed, the step runs eagerly, and ``step.stats.live``
says why: an answer is never stale.

Start reading at ``StepDispatcher``: a step's part of the ladder.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Generic, Protocol, overload

from ..nn.module import Module
from ..runtime.launch.binding import argument_records, bind_graph
from ..runtime.mode import MISS, VALUE, Mode
from ..runtime.notebook import function_html
from ..runtime.paths.dispatcher import Dispatcher
from ..runtime.paths.entry import MAX_TRANSIENT, Endpoint
from ..runtime.paths.fallback import Live
from ..runtime.paths.family import Family, Variant
from ..runtime.paths.paths import Missed, Path, make_path, new_counts
from ..runtime.record.call_key import DEVICE, TENSOR, Call
from ..runtime.state.values import partition
from ..runtime.stats import Stats, short_name
from ..runtime.wrapper import P, R, Wrapper
from ..tensors.modes import STATE
from ..tensors.node import epoch
from ..tracer.ir.errors import need_function
from ..tracer.ir.gc_pause import imported_to_stay
from ..tracer.ir.refusals import Reason, Refusal, listed
from ..tracer.ir.tracebacks import shorten
from ..tracer.record.integers import by_value
from ..tracer.record.recorder import current_recorder
from ..tracer.record.retry import Options
from .device_program import StepProgram
from .step_places import scalar_type
from .step_recording import restore_streams, save_streams


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


class StepDispatcher(Dispatcher):
    """The slow path of a step, whose kernels write: a recorded run takes effect before any kernel of another does."""

    cuts = False

    def __init__(self, fn: Callable[..., Any], static: frozenset[int | str], stats: Stats) -> None:
        super().__init__(fn, static, "step", stats)

    def dispatch(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if STATE.inference or STATE.anomaly:
            return self.fn(*args, **kwargs)
        call = self.flatten(args, kwargs)
        if DEVICE in call.kinds:
            self.stats.live = str(Refusal.STEP_FOREIGN())
            return self.fn(*args, **kwargs)
        if self.logged is not None:
            self.logged.new_call = True
        return self.answer(endpoint, self.numbers(_keyed(call)))

    def _logged(self, endpoint: Endpoint, call: Call, known: Sequence[Variant]) -> tuple[Any, Any]:
        unused = [v for v in known if all(path.counts[0] < 2 for path in v.paths)]  # none has answered a later call
        if len(unused) > MAX_TRANSIENT:
            return MISS, None
        if self.logged is None:
            self.logged = import_module(".logged_step", __package__).LoggedStep(self.fn)  # not all calls need it
        found = self.logged.record(call, endpoint.mode, None, () if known else None, 0, self.stats.retried)
        if found is None and self.logged.settles:
            self.stats.note("runs eagerly, since the run changes what it reads")
            return self._plain(call), None
        return (found, None) if type(found) is Options else (MISS, found)

    def _by_python(self, endpoint: Endpoint, call: Call, reason: str) -> Any:
        why = self.unseen(call)
        if call.by_value is not None and not endpoint.integers.are_no_matter(call, listed(why)):
            return by_value({})
        return self._unrecorded(endpoint, call, why or [Refusal.STEP_STATES()])

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

    def _unrecorded(self, endpoint: Endpoint, call: Call, reasons: Sequence[Reason]) -> Any:
        out = self._plain(call)  # which may raise what is the user's own error
        why = listed(reasons)
        if all(reason.code is not Refusal.STEP_STATES for reason in reasons):
            with self.lock:
                endpoint.live.keep(call.key, Live(why, plain=True))
                endpoint.integers.runs_python(call, why)
        self.stats.live = why
        self.stats.note(why)
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
