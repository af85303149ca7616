"""The dispatcher: the slow path of calls that no slot has answered.

It goes down until a step answers:

1. the variants of its call key: if what their runs have read is the same, their paths, most recent first; a guard that
   fails moves on to the next;
2. recording: a run of converted code (``runtime/logged/``), made again where it has learned something
   (``tracer/record/retry.py``).  Where its log is closed, it becomes a path, whose kernel is found by signature or
   compiled;
3. Python, in each call like this from then on: of a function, kernels are reused (``fallback.py``); a step runs
   eagerly.

No lock is held while Python or a kernel runs.

``Dispatcher`` is that ladder, over any recordings; ``FunctionDispatcher`` climbs it with those of functions of arrays.
A library of tensors has a dispatcher of its own (``tracegrad/steps/step.py``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence, Set
from functools import cached_property
from importlib import import_module
from typing import Any

from ...codegen.cpu.program import Program
from ...tracer.convert.copies import NotConverted, convert
from ...tracer.ir import forks
from ...tracer.ir.errors import DeviceError, OnlyPythonError, unrecordable
from ...tracer.ir.gc_pause import fewer_collections
from ...tracer.ir.interrupts import put_back, state
from ...tracer.ir.refusals import Reason, Refusal, listed
from ...tracer.ir.settings import AUTOCAST_USE, SETTINGS_CHANGED
from ...tracer.ir.working import Working
from ...tracer.random.stream import DEFAULT
from ...tracer.record.integers import by_value
from ...tracer.record.recorder import current_recorder
from ...tracer.record.retry import MAX_RUNS, Options, Retry
from .. import log, profiling, progress  # noqa: F401  (progress shows what is recorded and compiled)
from ..config import config
from ..cuda.arrays import on_device
from ..cuda.run import for_slot
from ..launch import (
    perf_map,
    sub_kernels,  # noqa: F401  (registers itself)
)
from ..launch.bind import natively
from ..launch.kernel_cache import KNOWN, kernels
from ..mode import MISS, VALUE, Mode
from ..record.arguments import positional_names
from ..record.call_key import TENSOR, TRACED, Call, flatten
from ..record.derive import derived
from ..record.effects import OutsideEffect
from ..record.held_values import HeldError, is_own
from ..record.inline import inline_call
from ..record.learned import Learned
from ..record.reached import Reached
from ..record.record import record, record_pieces
from ..record.recording import Look, Pieces, Recording, are_twins
from ..record.sinks import SINKS, is_sink, sink_parameters
from ..stats import PathStats, Stats
from ..stored import keep
from ..stored.first_call import AROUND, HOST_TARGETS, Answered, First, answers_alone, refuse_solvers_of_numbers
from ..tensor_library import TENSORS, MetTensorsError, TensorForm
from .entry import MAX_TRANSIENT, Endpoint
from .fallback import (
    Live,
    better_plainly,
    branch_outcomes,
    in_pieces,
    tell,
    too_long,
    too_many_programs,
)
from .family import Family, Variant
from .fast_path import make_slot
from .int_arguments import IntArguments, now_numbers
from .paths import (
    Missed,
    Path,
    bind_device_path,
    bind_path,
    compare,
    describe_guard,
    interpret,
    outgrown,
    run_path,
)
from .segments import Segments

_MOST_KEPT = 256  # recordings on disk that a process makes of one function


class Dispatcher:
    """The slow path of one function, whose *static* arguments are settings.

    ``cuts``: calls whose Python runs each time can be run in segments.  Others keep the slots that they have had."""

    cuts = True

    def __init__(self, fn: Callable[..., Any], static: frozenset[int | str], target: str, stats: Stats) -> None:
        self.fn, self.static, self.target, self.stats = fn, static, target, stats
        self.lock = forks.lock()
        self.endpoints: dict[Mode, Endpoint] = {}
        self.integers = IntArguments(fn)
        self.logged: Any = None  # what is known of runs of converted code, once there was one
        _dispatchers.add(self)

    @cached_property
    def _sinks(self) -> dict[str | int, Set[str]]:
        """The parameters that the function only adds to."""
        with fewer_collections():
            return sink_parameters(self.fn, positional_names(self.fn))

    def endpoint(self, mode: Mode) -> Endpoint:
        """The endpoint of *mode*."""
        return self.endpoints.setdefault(mode, Endpoint(mode, self.integers))

    def count_paths(self) -> None:
        """Let the ``stats`` tell of the paths that are kept, as long as this dispatcher lives."""
        this = weakref.ref(self)  # no cycle: recordings let go of the user's arrays at once

        def count() -> list[PathStats]:
            known = this()
            endpoints = () if known is None else tuple(known.endpoints.values())
            return [path.stats(endpoint.mode.kind) for endpoint in endpoints for path in endpoint.paths]

        self.stats.count_paths = count

    def drop_slots(self) -> None:
        """Let no slot answer until its family is installed again."""
        with self.lock:
            for endpoint in self.endpoints.values():
                endpoint.drop_slots()

    def others(self, endpoint: Endpoint | First, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer to a call that the first slot does not know."""
        refuse_solvers_of_numbers(endpoint.mode)
        own = self.endpoint(endpoint.mode) if isinstance(endpoint, First) else endpoint
        for slot in own.slots[1:]:
            found = slot(args, kwargs)
            if found is not MISS:
                return found
        before = state()
        try:
            if not profiling.PROFILES:
                return self.dispatch(own, args, kwargs)
            return profiling.timed_call(self.stats.name, self.dispatch, own, args, kwargs)
        except BaseException as error:
            put_back(before, error)
            if isinstance(error, Retry):  # of a run that nobody makes again
                raise error.error or error from None
            raise

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Mode | None = None) -> Call:
        """The call with these arguments."""
        opaque = self._opaque(args, kwargs)
        return flatten(args, kwargs, self.static, self.target, opaque, self.fn, mode.differentiated if mode else ())

    def _opaque(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
        """The ids of arguments that the function only changes: lists that it appends to."""
        if not any(type(value) in SINKS for value in (*args, *kwargs.values())):
            return []
        given = [(args[k] if k < len(args) else None, uses) for k, uses in self._sinks.items() if type(k) is int]
        given += [(kwargs[name], self._sinks[name]) for name in kwargs if name in self._sinks]
        return [id(value) for value, uses in given if is_sink(value, uses)]

    def numbers(self, call: Call) -> Call:
        """The call with ints that vary as numbers of the run, which sees for itself what is asked of them."""
        with self.lock:
            found = self.integers.numbers(call)
        return found if call.device is None else call

    # ---- the ladder ----------------------------------------------------------------------------------------------

    def answer(self, endpoint: Endpoint, call: Call) -> Any:
        """The answer to *call*, which no slot has given: a run that has learned something is dropped, and made anew."""
        found: Any = None
        for _ in range(MAX_RUNS):
            found = self._attempt(endpoint, call)
            if type(found) is not Options:
                return found
            self.stats.retried(found.note)
            self._follow(call, found)
            if found.ints is not None and call.by_value is not None:
                with self.lock:
                    endpoint.integers.refuse(call, found.ints)
                call = call.by_value
        why = Refusal.REPLAY_RESTARTS(count=MAX_RUNS, what=found.note)
        return self._unrecorded(endpoint, call.by_value or call, (why,))

    def _attempt(self, endpoint: Endpoint, call: Call) -> Any:
        """The same, or the options of another try."""
        with self.lock:
            live = endpoint.live.get(call.key)
            known = tuple(endpoint.variants.find(call.key) or ())
        if live is not None:
            answer = self._by_another_run(endpoint, call, known)
            return self._run_live(endpoint, call, live) if answer is MISS else answer
        answer, reason = self._replay(endpoint, call, known)
        if answer is MISS:
            answer = self._by_log(endpoint, call, known, reason)
        return self._by_python(endpoint, call, reason) if answer is MISS else answer

    def _replay(self, endpoint: Endpoint, call: Call, known: Sequence[Variant]) -> tuple[Any, str]:
        """The answer by what is known of such calls, or MISS and why a recording is needed.  Another way through the
        branches has read other places, all of which may be as they were, too."""
        reason = ""
        for variant, arrays in self._holding(call, known):
            answer, why = self._try_families(endpoint, call, variant, arrays)
            if answer is not MISS:
                return answer, ""
            reason = reason or why
        if known and not reason:
            reason = "the outside state that the function reads has changed"
        return self._derived(endpoint, call), reason

    def _derived(self, endpoint: Endpoint, call: Call) -> Any:
        """The answer to *call* by a recording that is derived from one of another mode; MISS where there is none."""
        return MISS

    def _follow(self, call: Call, options: Options) -> None:
        """Keep what a run has learned for the next one."""

    def _holding(self, call: Call, known: Sequence[Variant]) -> Iterator[tuple[Variant, Sequence[Any]]]:
        """The variants among *known* whose reads are those of now, each with its arrays."""
        for variant in known:
            arrays = variant.snapshot.check(*call.objects)
            if arrays is not None:
                yield variant, arrays

    def _by_log(self, endpoint: Endpoint, call: Call, known: Sequence[Variant], reason: str) -> Any:
        """The answer by a run whose log is closed, which may be replayed from now on; MISS where there is none."""
        answer, found = self._logged(endpoint, call, known)
        if found is None:
            return answer
        recording, snapshot = found.recording, found.snapshot
        self.stats.traces += 1
        self.stats.note(now_numbers(self.logged.new) if self.logged.new else reason or endpoint.integers.reason(call))
        try:
            self._verifies_stored(endpoint, call, recording)
            if recording.transient is not None:
                seen = endpoint.transient.keep(call.key, endpoint.transient.get(call.key, 0) + 1)
                if seen > MAX_TRANSIENT:  # another state in each call, as it seems
                    return self._go_live(endpoint, call, recording, Live(str(recording.transient)))
            mine = next((v for v in known if found.joined is not None and v.reads is found.joined), None)
            if mine is None:
                mine = self._variant(endpoint, call, Variant(snapshot, reads=found.reads))
            else:
                with self.lock:
                    mine.snapshot, mine.reads = snapshot, found.reads
            return self._keep(endpoint, call, mine, recording)
        finally:
            snapshot.release()

    def _by_another_run(self, endpoint: Endpoint, call: Call, known: Sequence[Variant]) -> Any:
        """As ``_by_log``, of a call like one that Python has answered: what made it do so may have been done once."""
        if self.logged is None or not self.logged.may_close(call):
            return MISS
        answer = self._by_log(endpoint, call, known, "what the first call did is not done again")
        if answer is not MISS:
            with self.lock:
                endpoint.live.pop(call.key, None)
                if not endpoint.live:
                    self.stats.live = ""
        return answer

    def unseen(self, call: Call) -> list[Reason]:
        """The reason why no run like *call* has a closed log, if one was tried."""
        return [] if self.logged is None else self.logged.why(call)

    def _variant(self, endpoint: Endpoint, call: Call, new: Variant) -> Variant:
        """The variant of *call* in the state of *new*, which becomes it if there is none."""
        with self.lock:
            variants = endpoint.variants.find(call.key) or []
            variant = next((v for v in variants if v.snapshot.key == new.snapshot.key), None)
            if variant is None:
                variant = new
                variants.insert(0, variant)
                del variants[config.max_states :]
            endpoint.variants.keep(call.key, variants)
        return variant

    def _try_families(self, endpoint: Endpoint, call: Call, variant: Variant, arrays: Sequence[Any]) -> tuple[Any, str]:
        """The result of the first family one of whose paths holds, or MISS and why a recording is needed."""
        reason = "no recording holds for this call"
        families = variant.families
        if config.check:  # which compares the results with those of the very path
            families = [Family(variant, (path,), path.launch) for f in families for path in f.members]
        waiting = list(families)
        for family in waiting:
            path, missed = family.members[0], family.taken(self.stats.calls)
            if missed is None:
                inputs = path.recording.arrays(arrays)
                if inputs is None or not self._holds(path, call, arrays):
                    continue
                inputs, undo = _drawn(path.recording, call, inputs)
                if inputs is None:
                    continue
                draws, start = path.recording.draws, DEFAULT.state
                values, found = self._run(path, family.launch, call, (*inputs, start) if draws else inputs)
                if type(found) is not Missed:
                    with self.lock:
                        _to_front(variant.families, family)
                        _to_front(endpoint.variants.get(call.key, []), variant)
                    if family in families:
                        self._install(endpoint, call, family)
                    if draws and not DEFAULT.advance(start, draws):
                        return Options(), ""  # another thread has drawn these numbers
                    return self._finish(path, call, values, found), ""
                undo()
                missed = found.guard
                if profiling.PROFILES and missed >= 0:  # a slot has told of its own
                    profiling.missed(self.stats.name, describe_guard(family.failed(missed)))
            if family not in families:
                continue  # that of one path, of which the launch of several does not know that it may hold
            self.stats.guard_misses += 1
            if missed >= 0:
                reason = f"guard missed: {describe_guard(family.failed(missed), 'another value than ')}"
                waiting += [Family(variant, (path,), path.launch) for path in family.left(missed)]
        return MISS, reason

    def _keep(
        self, endpoint: Endpoint, call: Call, variant: Variant, recording: Recording, ran: bool = True
    ) -> Any:  # fmt: skip
        """Run the recorded call by its kernel, and keep it as a new path, in place of those that had less room for
        their loops.  Where Python has not *ran* for this call, because the recording is derived from another, the
        answer is MISS if it is to run after all."""
        with self.lock:
            endpoint.forget(variant, [p for p in variant.paths if outgrown(p, recording)])
        why = too_long(recording) if self.cuts else None
        if why is None and too_many_programs(len(variant.paths) + 1):
            why = branch_outcomes(next((g.site for g in reversed(recording.graph.guards)), None))
        if why is not None:
            if not ran:
                return MISS
            live = Live(str(why))
            if self.cuts and call.device is None:
                live = Live(str(why), True, segments=Segments([*[p.recording for p in variant.paths], recording]))
            return self._go_live(endpoint, call, recording, live)
        path = self._bind(recording, call)
        values, found = self._run(path, path.launch, call, recording.captured, recording)
        if type(found) is Missed:
            if not ran:
                return MISS
            if found.guard < 0:
                return self._go_live(endpoint, call, recording, Live(str(Refusal.STEP_LAYOUT())))
            # NumPy and the kernel round differently, and a branch hangs on it: NumPy decides
            self.stats.note("a branch hangs on the last bits of a number, where NumPy and the kernel differ")
            return self._by_numpy(endpoint, call, recording, path, values)
        with self.lock:
            # a sibling that was passed over wrongly is replaced
            endpoint.forget(variant, [p for p in variant.paths if p.told == path.told])
            variant.paths.insert(0, path)
            family = variant.join(path)
        self._install(endpoint, call, family)
        if ran:
            self._store(endpoint, call, path)
        recording.release()
        if recording.draws and not DEFAULT.advance(values[-1], recording.draws):
            return Options()  # as above
        self.stats.derived += not ran
        return self._finish(path, call, values, found, recorded=ran)

    def _install(self, endpoint: Endpoint, call: Call, family: Family) -> None:
        """Make *family* the first of the endpoint's slots, in place of those that have paths of it."""
        self._tell(family)
        path = family.members[0]
        grows = _grows_like_an_argument(path, call, call.arguments[0])
        if config.check or (call.shares and not call.shares_only_objects) or grows or family in endpoint.owners:
            return
        launch, mixed = family.launch, AUTOCAST_USE.begun
        if call.device is not None:
            launch = for_slot(launch, call.operands, len(path.recording.graph.inputs))
        slot = profiling.timed_slot(make_slot(call, family, launch, self.stats), self.stats.name)
        with self.lock:
            if AUTOCAST_USE.begun is not mixed:  # since when a slot has to look at the setting
                return
            endpoint.install(slot, family)

    def _finish(self, path: Path, call: Call, values: Sequence[Any], found: Any, recorded: bool = False) -> Any:
        if config.check and not path.recording.exact:
            compare(path, values, found)
        return path.finish(call, values, found, recorded)

    def _go_live(self, endpoint: Endpoint, call: Call, found: Recording | Pieces, live: Live) -> Any:
        """Make Python run in each call of this kind from now on."""
        if isinstance(found, Recording) and not found.changes and call.by_value is not None:
            self._drop(found)
            return Options(ints={})
        with self.lock:
            endpoint.integers.refuse(call, {})
            endpoint.live.keep(call.key, live)
            if self.cuts:
                dropped = endpoint.variants.pop(call.key, [])
                endpoint.drop_families({path for variant in dropped for path in variant.paths})
        self.stats.live = live.why
        return self._run_once(endpoint, call, found, live)

    # ---- what depends on the kind of recordings -------------------------------------------------------------------

    dispatch: Callable[[Endpoint, tuple[Any, ...], dict[str, Any]], Any]  # the answer to a call that no slot knows
    #: (the answer, or MISS; None), or what a run of converted code gives (``LoggedRecording``), second
    _logged: Callable[[Endpoint, Call, Sequence[Variant]], tuple[Any, Any]]
    _by_python: Callable[[Endpoint, Call, str], Any]  # the answer to a call whose log is not closed
    #: the answer to a call that can't be recorded for replay, by these reasons and those of its plan
    _unrecorded: Callable[[Endpoint, Call, Sequence[Reason]], Any]
    _bind: Callable[[Recording, Call], Path]

    def _drop(self, recording: Recording) -> None:
        """Let go of a run that has had no effects yet, and is made again."""
        if recording.drawn is not None:
            recording.drawn.undo()

    def _verifies_stored(self, endpoint: Endpoint, call: Call, recording: Recording) -> None:
        """Compare *recording* with what has answered such calls from disk."""

    def _store(self, endpoint: Endpoint, call: Call, path: Path) -> None:
        """Keep a path on disk, if it can be."""

    def _holds(self, path: Path, call: Call, arrays: Sequence[Any]) -> bool:
        """Whether *path* may be run, as far as is known beside its guards."""
        return True

    def _tell(self, family: Family) -> None:
        """Tell the slot of *family*, whose paths hold, what they rely on (``Recording.enter``)."""

    def _run(
        self, path: Path, launch: Callable[..., Any], call: Call, arrays: Sequence[Any],
        recorded: Recording | None = None,
    ) -> tuple[Sequence[Any], Any]:  # fmt: skip
        """(the operands, the results or ``Missed``) of *launch*, that of *path* or of its family; *recorded*: the
        recording of this call, if there is one."""
        values = (recorded or path.recording).values(call, arrays)
        return values, run_path(path, profiling.timed_launch(launch), values)

    def kernel(self, recording: Recording, arguments: int) -> Program:
        """The kernel of *recording*, which is counted, and told to the log and to profilers."""
        program, found = kernels.get(recording.canonical, arguments)
        self.stats.count_kernel(found)
        log.compiled(self.stats.name, recording, program, found == KNOWN)
        if config.perf_map:
            for step in [step for step in program.step_names if isinstance(step, str)][:1]:
                perf_map.add(self.stats.name, program.object_code.code, program.code, step)
        return program

    def _by_numpy(self, endpoint: Endpoint, call: Call, recording: Recording, path: Path, values: Sequence[Any]) -> Any:
        """The answer to a recorded call whose own path misses."""
        return self._instead(call, recording)

    def _run_live(self, endpoint: Endpoint, call: Call, live: Live) -> Any:
        """The answer to a call whose Python runs each time."""
        return self._plain(call)

    def _run_once(self, endpoint: Endpoint, call: Call, found: Recording | Pieces, live: Live) -> Any:
        """The answer to a recorded call of that kind."""
        return self._instead(call, found)

    def _instead(self, call: Call, recording: Any) -> Any:
        """The answer of plain Python to a call whose *recording* is not kept."""
        self._drop(recording)
        recording.release()
        return self._plain(call)

    def _plain(self, call: Call) -> Any:
        args, kwargs = call.arguments
        return self.fn(*args, **kwargs)


class FunctionDispatcher(Dispatcher):
    """The slow path of a function of arrays."""

    def __init__(self, fn: Callable[..., Any], static: frozenset[int | str], target: str, stats: Stats) -> None:
        super().__init__(fn, static, target, stats)
        self.answered: Answered = {}  # by plans on disk
        self.learned = Learned()
        self._outside: dict[Any, set[int]] = {}  # by key: numbers of containers that are found outside, too
        self._tensor_form: TensorForm | None = None
        self._reads_tensors = False
        self._kept = 0  # recordings that were to be kept on disk
        self._told = False  # whether a warning has told that Python runs in each call

    def dispatch(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if TENSORS.capturing() or (self._tensor_form is not None and (self._reads_tensors or any(map(_on_host, args)))):
            return self._call_tensors(endpoint, args, kwargs)
        call = self.flatten(args, kwargs, endpoint.mode)
        if call.device is not None and call.device.linked and endpoint.mode.kind == VALUE and TENSORS.grad_enabled():
            return self._call_tensors(endpoint, args, kwargs)  # a value that stays connected
        if TRACED in call.kinds or current_recorder() is not None:
            return inline_call(self.fn, endpoint.mode, call)
        if TENSOR in call.kinds or self._reads_tensors:
            return self._call_tensors(endpoint, args, kwargs)
        call = self._with_objects(endpoint.mode, call)
        if self.logged is not None:
            self.logged.new_call = True
        return self.answer(endpoint, self.numbers(call))

    def _call_tensors(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer where Tensors are among the arguments or in the outside state."""
        form = self._tensor_form
        if form is None:
            form = self._tensor_form = TENSORS.form(self.fn, self.static, self.target, self.stats)
        return form.answer(endpoint.mode, args, kwargs)

    def _meets_tensors(self, endpoint: Endpoint, call: Call) -> Any:
        """The answer to a call that comes to tensors outside."""
        self._reads_tensors = True
        args, kwargs = call.rebuild([TENSORS.wrap(x) if on_device(x) else x for x in call.leaves])
        return self._call_tensors(endpoint, args, kwargs)

    def _with_objects(self, mode: Mode, call: Call) -> Call:
        """*call*, in which the lists and dicts that such a run has found outside, too, are objects of the outside: what
        it does to the one it does to the other.  Those that gradients are taken of stay arguments."""
        places = self._outside.get(call.key)
        if not places:
            return call
        outside = [id(c) for k, c in enumerate(call.containers) if k in places]
        opaque = {*outside, *self._opaque(*call.arguments), *map(id, call.objects)}
        return flatten(*call.arguments, self.static, self.target, opaque, None, mode.differentiated)

    def _finds(self, endpoint: Endpoint, call: Call, found: Any) -> Any:
        """The answer to *call*, whose run has *found* one of its containers outside; MISS where that has to stay an
        argument."""
        args, places = call.arguments[0], endpoint.mode.differentiated
        differentiated = tuple([args[p] for p in places if -len(args) <= p < len(args)])
        kept = flatten(differentiated, {}, target=self.target, differentiated=range(len(differentiated))).containers
        if any(c is found for c in kept):
            return MISS
        there = {k for k, c in enumerate(call.containers) if c is found}
        known = self._outside.setdefault(call.key, set())
        if not there or there <= known:
            return MISS
        known |= there
        return self.answer(endpoint, self._with_objects(endpoint.mode, call))

    def _follow(self, call: Call, options: Options) -> None:
        self.learned.follow(options)

    def _by_python(self, endpoint: Endpoint, call: Call, reason: str) -> Any:
        if call.by_value is not None:
            return by_value({})
        if Reached(self.fn, self.learned.trust, call.objects, methods=False).tensors:
            return self._meets_tensors(endpoint, call)
        if endpoint.mode.kind == VALUE and call.device is None and self._only_plainly(call):
            return self._plainly(endpoint, call, Live(listed(self.unseen(call)), plain=True))
        live = None
        self.stats.traces += 1
        try:
            found = record_pieces(self.fn, call, endpoint.mode, self.learned, in_pieces)
        except Retry as retry:
            return retry.options
        except OnlyPythonError as error:
            live = self._without_recording(endpoint, call, error)
        if live is not None:
            return self._plainly(endpoint, call, live)
        self.stats.note(reason or endpoint.integers.reason(call))
        return self._go_live(endpoint, call, found, Live(listed([*found.changes, *self.unseen(call)])))

    def _only_plainly(self, call: Call) -> bool:
        """Whether values are what plain Python gives: the function's own code has no source, or a cache would keep
        what the run gives."""
        if (refused := self.refused(call)) is not None and refused.code is Refusal.LOG_KEPT:
            return True
        code = getattr(self.fn, "__code__", None)
        return code is not None and not is_own(self.fn) and isinstance(convert(code), NotConverted)

    def _without_recording(self, endpoint: Endpoint, call: Call, error: OnlyPythonError) -> Live:
        """How plain Python answers a call whose run has ended by *error*, and has done nothing outside."""
        if error.done or not self._plain_answers(endpoint, call):
            raise error
        unrecordable.discard(error)
        if isinstance(error, HeldError):
            return Live(str(Refusal.REPLAY_HOLDS(what=error.what)), plain=True)
        self.stats.note(f"plain Python has answered: {str(error).splitlines()[0].partition(':')[0]}")
        return Live("", plain=True)  # of these arguments alone

    def _plain_answers(self, endpoint: Endpoint, call: Call) -> bool:
        """Whether plain Python gives what is asked for."""
        return endpoint.mode.kind == VALUE and call.device is None and not is_own(self.fn)

    def _plainly(self, endpoint: Endpoint, call: Call, live: Live) -> Any:
        """Answer the call by plain Python, and those of its kind from now on, if there is a reason."""
        if live.why:
            if call.by_value is not None:
                return Options(ints={})
            with self.lock:
                endpoint.live.keep(call.key, live)
            self.stats.live = live.why
        return self._run_live(endpoint, call, live)

    def _logged(self, endpoint: Endpoint, call: Call, known: Sequence[Variant]) -> tuple[Any, Any]:
        alike = [v for v, _ in self._holding(call, known) if v.reads is not None]
        others, paths = [v.reads for v in alike] if known else None, sum(len(v.paths) for v in alike)
        found: Any = None
        live: Live | None = None
        try:
            found = self.run_of_copy(call, endpoint.mode, others, paths, self.stats.retried)
        except MetTensorsError as error:
            there = TENSORS.within(error.found).items() if self.target == "cuda" else ()
            for name in [f"{error.label}{within}" for within, t in there if _on_host(t)]:
                raise on_the_host(name) from None
            found = error.with_traceback(None)
        except OnlyPythonError as error:
            error.done = False
            live = self._without_recording(endpoint, call, error)
        if live is not None:
            return self._plainly(endpoint, call, live), None
        if isinstance(found, MetTensorsError):
            return self._meets_tensors(endpoint, call), None
        if found is None and self.logged.found is not None:
            return self._finds(endpoint, call, self.logged.found), None
        return (found, None) if type(found) is Options else (MISS, found)

    def _derived(self, endpoint: Endpoint, call: Call) -> Any:
        for mode, theirs, arrays in self._in_other_modes(endpoint, call):
            for path in tuple(theirs.paths):
                inputs = None if path.recording.drawn is not None else self._inputs(path, call, arrays)
                if inputs is None:
                    continue
                recording = derived(path.recording, mode, endpoint.mode, self.fn, self.learned, call, inputs)
                if recording is None:
                    break
                variant = self._variant(endpoint, call, Variant(theirs.snapshot, reads=theirs.reads))
                return self._keep(endpoint, call, variant, recording, ran=False)
        return MISS

    def _in_other_modes(self, endpoint: Endpoint, call: Call) -> Iterator[tuple[Mode, Variant, Sequence[Any]]]:
        """(mode, variant, arrays of the state) for the other modes in which *call* has been recorded, those with the
        same program first."""
        with self.lock:
            endpoints = [other for other in self.endpoints.values() if other is not endpoint]
            found = [(other.mode, tuple(other.variants.get(call.key, ()))) for other in endpoints]
        for mode, known in sorted(found, key=lambda other: not are_twins(other[0], endpoint.mode)):
            theirs, arrays = next(self._holding(call, known), (None, ()))
            if theirs is not None and not any(_grows_like_an_argument(path, call, ()) for path in theirs.paths):
                yield mode, theirs, arrays

    def _inputs(self, path: Path, call: Call, arrays: Sequence[Any]) -> list[Any] | None:
        """The inputs of *path* after the arguments, if it holds for *call*."""
        found = path.recording.arrays(arrays)
        if found is None or not self._holds(path, call, arrays):
            return None
        inputs = [float(x) if type(x) is int else x for x in found]
        if path.recording.draws:
            inputs.append(DEFAULT.state)
        if path.guards:
            _, result = self._run(path, path.launch, call, inputs)
            path.uncount(result)
            if type(result) is Missed:
                return None
        return inputs

    def run_of_copy(
        self, call: Call, mode: Mode, others: Sequence[Any] | None = None, paths: int = 0,
        retried: Callable[[str], object] | None = None, look: Look | None = None,
    ) -> Any:  # fmt: skip
        """The recording of *call* from a run of converted code, or what ``Logged.record`` gives in its place."""
        if self.logged is None:
            self.logged = import_module("..logged.record", __package__).Logged(self.fn)  # not all calls need it
        return self.logged.record(call, mode, self.learned, others, paths, retried, look)

    def refused(self, call: Call) -> Reason | None:
        """The reason why no run like *call* has a closed log; None where one has, or none was tried."""
        return None if self.logged is None else self.logged.refused.get(call.key)

    def _verifies_stored(self, endpoint: Endpoint, call: Call, recording: Recording) -> None:
        if self.answered and keep.agrees(self.fn, endpoint.mode, call, recording, self.answered) is False:
            keep.warn_of(self.stats.name)

    def _store(self, endpoint: Endpoint, call: Call, path: Path) -> None:
        if self.target not in HOST_TARGETS or self.static or path.program is None or not answers_alone():
            return
        self._kept += 1
        if self._kept > _MOST_KEPT:  # each call may be of another shape
            return
        self.stats.not_kept = keep.keep(self.fn, endpoint.mode, call, path.recording, path.program, self.answered)

    def _bind(self, recording: Recording, call: Call) -> Path:
        if call.device is not None:
            path, known = bind_device_path(recording, call.device.stays)
            self.stats.count_kernel(known)
            return path
        with Working(f"compiling {self.stats.name}"):
            program = self.kernel(recording, recording.arguments)
        return bind_path(recording, program, call)

    def _by_numpy(self, endpoint: Endpoint, call: Call, recording: Recording, path: Path, values: Sequence[Any]) -> Any:
        if recording.draws:  # its Python has had its effects, so it is not run again where another thread has drawn
            DEFAULT.advance(values[-1], recording.draws)
        return self._finish(path, call, values, interpret(recording, call, values), recorded=True)

    def _run_live(self, endpoint: Endpoint, call: Call, live: Live) -> Any:
        if live.plain:
            return self._plain(call)
        self.stats.traces += 1
        wanted = in_pieces if live.segments is None else lambda nodes: True  # as those before it were
        found = record_pieces(self.fn, call, endpoint.mode, self.learned, wanted)
        if self._plain_answers(endpoint, call):
            nodes = found.graph.nodes if isinstance(found, Recording) else found.nodes
            live.plain = better_plainly(nodes)  # from the next call on
        return self._run_found(call, found, live)

    def _run_found(self, call: Call, found: Recording | Pieces, live: Live) -> Any:
        if isinstance(found, Recording):
            return self._run_whole(call, found, live)
        segments = live.segments
        if segments is None:
            segments = live.segments = Segments()
        results, made = profiling.timed_launch(segments.run)(found)
        for how in made or (KNOWN,):
            self.stats.count_kernel(how)
        if not self._told:
            self._told = True
            tell(self.stats.name, live, found)
        return found.assembled(results, call.leaves)

    def _run_once(self, endpoint: Endpoint, call: Call, found: Recording | Pieces, live: Live) -> Any:
        if live.segments is not None:  # nothing of this run can be kept: the next one is the first
            if isinstance(found, Recording):
                self._drop(found)
            return self._run_live(endpoint, call, live)
        return self._run_found(call, found, live)

    def _unrecorded(self, endpoint: Endpoint, call: Call, reasons: Sequence[Reason]) -> Any:
        self.stats.traces += 1
        recording = record(self.fn, call, endpoint.mode, self.learned)
        return self._go_live(endpoint, call, recording, Live(listed([*recording.changes, *reasons])))

    def _run_whole(self, call: Call, recording: Recording, live: Live) -> Any:
        if recording.bound:
            path = recording.bound[0]
            path.launch = natively(path.launch)
            self.stats.count_kernel(KNOWN)
        else:
            hits = self.stats.kernel_hits
            path = self._bind(recording, call)
            if self.stats.kernel_hits == hits:
                live.compiled()
            recording.bound.append(path)
        values, found = self._run(path, path.launch, call, recording.captured)
        if type(found) is Missed:
            found = interpret(recording, call, values)
        if recording.draws:  # as above
            DEFAULT.advance(values[-1], recording.draws)
        return self._finish(path, call, values, found, recorded=True)


AROUND.append(lambda: current_recorder() is None and not TENSORS.capturing())


_dispatchers: weakref.WeakSet[Dispatcher] = weakref.WeakSet()


def _drop_all_slots() -> None:
    for dispatcher in tuple(_dispatchers):
        dispatcher.drop_slots()


SETTINGS_CHANGED.append(_drop_all_slots)
profiling.CHANGED.append(_drop_all_slots)


def _drawn(recording: Recording, call: Call, arrays: Sequence[Any]) -> tuple[Sequence[Any] | None, Callable[[], None]]:
    """The inputs after the arguments with what is drawn outside, and what puts the generators back."""
    return (arrays, lambda: None) if recording.drawn is None else recording.drawn.again(call, arrays)


def _on_host(argument: Any) -> bool:
    """Whether *argument* is a tensor in host memory."""
    return isinstance(argument, TENSORS.types) and not on_device(TENSORS.data(argument))


def on_the_host(name: str) -> DeviceError:
    """The error for a tensor of a call that is to run on a device."""
    return DeviceError.here(f'{name} is a tensor on the CPU, but target="cuda": move it there with .cuda()')


def _grows_like_an_argument(path: Path, call: Call, but: Sequence[Any]) -> bool:
    """Whether a container that grows, and whose contents are not looked at, is of the class of one among the arguments,
    other than those in *but*."""
    effects = [effect for effect in path.recording.effects if isinstance(effect, OutsideEffect)]
    sinks = {effect.sink.kind for effect in effects if effect.sink is not None}
    return any(type(c) in sinks and not any(c is b for b in but) for c in call.containers)


def _to_front(items: list[Any], item: Any) -> None:
    if item in items:
        items.remove(item)
        items.insert(0, item)
