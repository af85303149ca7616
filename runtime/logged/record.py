"""One call, recorded from a run of converted code whose log is closed.

What the recording was made under is a ``Snapshot`` of what the run has read, and of nothing else.  A run that is not
closed has done nothing outside: it is dropped (None), and the call is answered by a live run (``record/record.py``).
"""

from __future__ import annotations

import itertools
import time
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...codegen.derive.adjoint import vjp
from ...tracer.control.arms import Choices
from ...tracer.ir.errors import (
    MutationError,
    OnlyPythonError,
    OutOfMemoryError,
    TracegradError,
    UnsupportedError,
    unrecordable,
)
from ...tracer.ir.gc_pause import fewer_collections
from ...tracer.ir.graph import Var, structural
from ...tracer.ir.python_version import UNKNOWN
from ...tracer.ir.refusals import Reason, Refusal
from ...tracer.ir.working import Working
from ...tracer.loops.identities import all_unmarked
from ...tracer.loops.list_rows import check_plain_rows
from ...tracer.loops.loop_node import note_loops
from ...tracer.loops.marked import forget_left_loops
from ...tracer.ops.custom import runs_python
from ...tracer.ops.host_call import calls_python
from ...tracer.record.array import STAND_INS, TracedArray
from ...tracer.record.constants import call_method
from ...tracer.record.float_errors import UNWATCHED
from ...tracer.record.integers import ITEMS, Integers
from ...tracer.record.made_arrays import NOW_PLAIN, check_parts
from ...tracer.record.recorder import Recorder, recording
from ...tracer.record.recorder_parts import Taught
from ...tracer.record.retry import MAX_RUNS, Options, Retry, chosen_anew
from ...tracer.record.shown_text import TextOfValues
from ..config import config
from ..cuda.availability import require_cuda
from ..mode import VALUE, Mode
from ..record.arguments import positional_names
from ..record.call_key import COMPLEX_DATA, OBJECT, TENSOR, Call
from ..record.derive import keep, recording_of
from ..record.differentiable import loss_of, name_of, split_aux, unlabelled
from ..record.held_values import holds_traced, refuse_held
from ..record.learned import Learned
from ..record.record import begin, decided, needed, stand_in_of
from ..record.recording import Look, Recording, UserRun
from ..state.checker import snapshot_of
from ..state.snapshot import Snapshot
from ..state.state_graph import StateNode
from ..state.trust import Trust
from .arguments import Given
from .changed import changed
from .draws import DrawnOutside
from .effects import effects_of
from .expressions import ways_of
from .joined import KnownReads, join
from .reads import NotClosedError, ReadLog
from .run import LoggedRun
from .texts import RUNS
from .warned import warnings_refused
from .writes import Varies

_MOST_RUNS = MAX_RUNS
_AS_THEY_ARE = "numbers outside are asked for: the run is made again with these as they are"
_MOST_TRIES = 2  # of calls like one whose log was not closed: the first one may have read a file
_READ_LATER: tuple[Any, ...] = (types.GeneratorType, type(itertools.tee(())[0]))  # in which nothing else can be put


class LoggedRecording(NamedTuple):
    """A recording, the *snapshot* of what its run has read, the same without the objects, and the reads of another
    recording that are among them, with the same inputs in the same order."""

    recording: Recording
    snapshot: Snapshot
    reads: KnownReads | None
    joined: KnownReads | None


class Logged:
    """The knowledge of one function's runs of converted code."""

    without = frozenset((TENSOR,))  # kinds of leaves that no log takes
    #: how runs end that may be made again
    ends: tuple[type[BaseException], ...] = (Retry, NotClosedError, Exception)
    #: what any other run would come to, too, or only plain Python can answer; as if there had been no call
    final: tuple[type[Exception], ...] = (OutOfMemoryError, MutationError, OnlyPythonError)

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.choices = Choices()
        self.refused: dict[Any, Reason] = {}  # call key -> why the log of its runs is not closed
        self.new_call = True  # whether no run of this call has been refused
        self.tries: dict[Any, int] = {}  # call key -> how many such runs there were
        self.contents: set[str] = set()  # labels of arrays and numbers outside that runs need as they are
        self.varying: set[str] = set()  # labels of numbers that are numbers of the run
        self.numbers: dict[str, Any] = {}  # that runs have read, by label
        self.trusts = True  # as ``Options.trusts``
        self.taught = Taught()
        self.doubted: dict[int, Any] = {}  # those of the run under way that have ended a run of it
        self.guesses, self.guessed = True, list[Any]()  # as of a ``Recorder``
        self.found: Any = None  # a container among the arguments that the last run has found outside, too
        self.ended = ""  # how the last run has ended that was dropped, and not refused by name
        self.inputs: set[str] = set()  # labels of the numbers outside that are inputs of the last run
        self.new: list[str] = []  # those that the last run has found to vary

    def record(
        self, call: Call, mode: Mode, learned: Learned,
        others: Sequence[KnownReads] | None = None, paths: int = 0, retried: Callable[[str], object] | None = None,
        look: Look | None = None,
    ) -> LoggedRecording | Options | None:  # fmt: skip
        """The recording of *call*, the options of another call, or None.

        :param others: the reads of recordings of such calls; None where there are none.
        :param paths: the number of these recordings.
        :param retried: told why a run is made again.
        :param look: the recording is to be looked at, and not to be run."""
        if not self.takes(call):
            return None
        self.choices.known_paths, self.found = paths, None
        self.doubted.clear()
        found = self._until_closed(call, mode, learned, others, retried, look)
        if found is None:  # without these loops, too
            for key in self.doubted:
                self.taught.plain_loops.pop(key, None)
        return found

    def _until_closed(
        self, call: Call, mode: Mode, learned: Learned, others: Sequence[KnownReads] | None,
        retried: Callable[[str], object] | None, look: Look | None,
    ) -> LoggedRecording | Options | None:  # fmt: skip
        note, tried = "", frozenset[str]()
        for _ in range(_MOST_RUNS):
            unrecordable.clear()
            self.ended = ""
            try:
                found = self._record(call, mode, learned, others, look)
                self.refused.pop(call.key, None)
                return found
            except NotClosedError as error:
                if error.lasting and self.guesses and self.guessed:
                    self.guesses, note = False, NOW_PLAIN.note
                    continue
                if error.lasting and (tried := self._numbers_as_they_are(tried)):
                    note = _AS_THEY_ARE
                    continue
                if error.lasting:
                    self.guesses = True  # it was not that
                    self.found = getattr(error, "found", None)
                    self.refused[call.key] = error.reason
                    self.tries[call.key] = self.tries.get(call.key, 0) + 1
                    self.new_call = False
                return None
            except Varies as error:
                self.varying.add(error.label)
                note = error.options.note
            except Retry as error:
                note = self.ended = error.options.note
                if not self._follow(error.options):
                    if error.options.ints is not None and call.by_value is not None:
                        return error.options
                    self.refused[call.key] = Refusal.LOG_LEARNS(what=note)
                    return None
            except self.final as error:
                if isinstance(error, TracegradError):
                    unrecordable.discard(error)
                if getattr(error, "final", True):
                    raise
                self.ended = f"it raised {_told(error)}"
                return None
            except Exception as error:  # a run of Python's meets it, too, and may know what to do
                if isinstance(error, UnsupportedError) and error.final:
                    raise
                if tried := self._numbers_as_they_are(tried):
                    note = _AS_THEY_ARE
                    continue
                self.ended = f"it raised {_told(error)}"
                return None
            finally:
                unrecordable.clear()
            if retried is not None:
                retried(note)
        self.refused[call.key] = Refusal.REPLAY_RESTARTS(count=_MOST_RUNS, what=note)
        return None

    def again(self, recorder: Recorder, error: BaseException) -> Retry | None:
        """Why a run that *error* has ended is made again, if it is: loops over symbols may end otherwise, iteration by
        iteration."""
        if isinstance(error, Retry):
            return error
        found = needed(recorder, self.choices, error) if isinstance(error, Exception) else None
        if found is not None or not recorder.open_loops or isinstance(error, OutOfMemoryError):
            return found
        statement = recorder.open_loops[-1].statement
        self.doubted[id(statement)] = statement
        with suppress(Retry):
            recorder.open_loops[-1].give_up(f"a loop over symbols can't go on ({type(error).__name__})")
        return recorder.needed

    def _numbers_as_they_are(self, tried: frozenset[str]) -> frozenset[str]:
        """The numbers outside that the last run had as inputs, which the next one is to have as they are; none where
        that was *tried*, and has not helped."""
        if tried:
            self.contents -= tried
            return frozenset()
        found = frozenset(self.inputs - self.contents)
        self.contents |= found
        return found

    def why(self, call: Call) -> list[Reason]:
        """The reason why the log of the last run of *call* is not closed, if it is not."""
        found = self.refused.get(call.key)
        how = UNKNOWN or self.ended
        ended = [Refusal.LOG_UNSEEN(what=f"all of it: {how}")] if how else []
        return ended if found is None else [found]

    def may_close(self, call: Call) -> bool:
        """Whether such a call was refused, and may be tried once more."""
        return self.new_call and 0 < self.tries.get(call.key, 0) < _MOST_TRIES

    def takes(self, call: Call) -> bool:
        """Whether a run of *call* is tried."""
        known = call.key in self.refused and not self.may_close(call)
        return UNKNOWN is None and self.without.isdisjoint(call.kinds) and not known

    def _record(
        self, call: Call, mode: Mode, learned: Learned, others: Sequence[KnownReads] | None, look: Look | None
    ) -> LoggedRecording:
        before = {} if others is None else self.numbers
        return _CallRun(self, call, mode, learned, before, look).recorded(others or ())

    def begin(self, run: LoggedRun, integers: Integers) -> None:
        """Let *run* know what is outside, and have the elements of arrays that are *integers*."""
        run.recorder.from_outside, run.recorder.items_of = run.reads.met, run.iterable
        if ITEMS not in self.contents:
            run.recorder.int_of = integers.element

    def result(
        self, run: Any, given: Given, integers: Integers, labels: dict[Any, str], settled: Callable[[Any], Any]
    ) -> Any:
        """The result of the function in the *run*, in the form that *settled* gives it.  *labels*: of the inputs."""
        try:
            with warnings_refused(run.refuse):
                out = run.call(self.fn, *given.args, **given.kwargs)
            return settled(out)
        except self.ends as error:
            again = self.again(run.recorder, error)
            if again is None:
                if isinstance(error, Exception):
                    integers.raised()
                raise
            if self.choices.wanted:
                self.choices.learn(run.recorder.guards, run.codes())
            raise by_labels(again, labels) from (None if again is error else error)

    def learn(self, reads: ReadLog, before: dict[str, Any]) -> None:
        """Keep what a run has read of numbers; *before*: those that it knew of."""
        self.new = [f"`{label}`" for label in reads.varying if label not in self.varying and label in before]
        self.varying |= reads.varying
        self.numbers |= reads.numbers

    def _follow(self, options: Options) -> bool:
        """Keep what a run has learned for the next one; whether there is to be one."""
        if options.captured or options.ints is not None:
            return False
        known = len(self.contents), len(self.taught.rows_apart), self.trusts
        self.contents |= options.contents
        self.taught.rows_apart |= options.apart
        self.trusts &= options.trusts
        kept_elsewhere = options.trusts and not (options.contents or options.apart)
        return kept_elsewhere or (len(self.contents), len(self.taught.rows_apart), self.trusts) != known


def _told(error: Exception) -> str:
    """An error by its class, and by its words where they are ours."""
    name = type(error).__name__
    return f"{name} ({str(error).splitlines()[0]})" if isinstance(error, TracegradError) else name


class OutsideInputs:
    """The inputs from outside of one run: by id of the node the stand-in that was *made* and its variable, by variable
    the label."""

    def __init__(self, integers: Integers) -> None:
        self._integers = integers
        self.made: dict[int, Any] = {}
        self.variables: dict[int, Any] = {}
        self.labels: dict[Any, str] = {}

    def of(self, node: StateNode) -> Any:
        """The stand-in for the object of *node* from now on."""
        made = self.made[id(node)] = stand_in_of(node, self._integers, self.add_input)
        var = self.variables[id(node)] = self._integers.recorder.inputs[-1]
        self.labels[var] = node.label
        return made

    def add_input(self, value: Any, name: str, weak: bool) -> Var:
        return self._integers.recorder.add_input(value, name, weak=weak)


class _CallRun:
    """One run of *call*.  ``inputs``: the variables of the leaves that are data, by number; ``wrt``: the numbers of
    those that the result is differentiated by."""

    def __init__(
        self, logged: Logged, call: Call, mode: Mode, learned: Learned, before: dict[str, Any], look: Look | None
    ) -> None:  # fmt: skip
        self.began = time.perf_counter()
        self.logged, self.call, self.mode, self.learned, self.before = logged, call, mode, learned, before
        begun = begin(logged.fn, call, mode, learned, look)
        self.recorder, self.integers, self.inputs = begun.recorder, begun.integers, begun.inputs
        self.names, self.wrt, leaves, recorder = begun.names, begun.wrt, begun.leaves, begun.recorder
        _settings(recorder, logged)
        self.named, self.as_recorded = look is None, look is not None and look.as_recorded
        self.outside = OutsideInputs(self.integers)
        self.reads = ReadLog(Trust(), self._stand_in, logged.contents, logged.varying, before)
        logged.inputs = self.reads.varying
        if call.device is not None:  # arrays outside are used where they lie
            self.reads.arrays = (np.ndarray, require_cuda("a call on the device").modules.xp.ndarray)
        self.run = LoggedRun(self.reads, recorder)
        self.reads.may_draw = call.device is None and COMPLEX_DATA not in call.kinds
        self.drawn = self.run.drawn = DrawnOutside(self.run, recorder, self.integers)
        objects = [k for k, kind in enumerate(call.kinds) if kind == OBJECT]
        self.reads.begin(logged.fn, call.objects, tuple([self.names[k] for k in objects]))
        for k in objects:
            leaves[k] = self.reads.shown_for(leaves[k])
        self.run.over_symbols = not self.as_recorded
        logged.begin(self.run, self.integers)
        self.given = Given(self.reads, call, leaves, positional_names(logged.fn))

    def _stand_in(self, node: StateNode) -> Any:
        made = self.outside.of(node)
        if node.kind == "array":
            self.recorder.captured[id(node.obj)] = made
        return made

    def recorded(self, others: Sequence[KnownReads]) -> LoggedRecording:
        """The run is made; what becomes of it.  *others*: as of ``Logged.record``."""
        try:
            return self._recorded(others)
        except BaseException:
            self.drawn.undo()
            raise

    def _recorded(self, others: Sequence[KnownReads]) -> LoggedRecording:
        recorder, run, name = self.recorder, self.run, name_of(self.logged.fn)
        at_work = Working(f"recording {name}", lambda: len(recorder.nodes))
        with at_work, fewer_collections(), recording(recorder):
            out = self.logged.result(run, self.given, self.integers, self.outside.labels, self._settled)
            self.drawn.over = True
            recorder.notes += self.logged.choices.notes()
            out = unlabelled(out) if self.wrt else out
            if any(map(runs_python, recorder.nodes)):
                rehearse(self.logged.fn, out, self.mode, recorder, [self.inputs[k] for k in self.wrt])
            check(run, recorder, out, self.outside.labels, name if self.mode.kind == VALUE else "")
            self.given.check_twins(out)
            self.integers.refuse()
            run.check_ways()
            untouched = run.untouched()
            joined, order = _joined(self.reads, self.call, others)
            graph = self.reads.graph(untouched, run.places())
            snapshot = snapshot_of(graph, order)
            found = self._recording(out, snapshot)
        run.end()
        if recorder.reasons:
            raise NotClosedError(recorder.reasons[0])
        self.logged.learn(self.reads, self.before)
        run.texts.print_bodies()
        found.log = snapshot
        found.transient = next((Refusal.REPLAY_CHANGES(name=found.label) for found in changed(run, graph)), None)
        return LoggedRecording(found, snapshot, KnownReads(self.reads, snapshot), joined)

    def _settled(self, out: Any) -> Any:
        recorder = self.recorder
        forget_left_loops(recorder)
        check_plain_rows(recorder)
        check_parts(recorder)
        out = all_unmarked(recorder, out)
        out = decided(out, bool(self.wrt)) if recorder.chosen.undecided or recorder.chosen.defers else out
        recorder.settle_premise()
        return out

    def _recording(self, out: Any, snapshot: Snapshot) -> Recording:
        """The recording of the run, which has returned *out*, with loop nodes in it."""
        recorder, call, stand_ins = self.recorder, self.call, self.outside.made
        variables = self.outside.variables
        captured = _in_order(snapshot, recorder, len(self.inputs), stand_ins, variables, self.drawn.inputs)
        stood = {id(node): stand_ins[id(node)] for node in snapshot.inputs}
        effects = effects_of(self.run, snapshot.graph, call, self.given, stood, out, named=self.named)
        out = effects.out
        recorder.float_settings = UNWATCHED
        ran = time.perf_counter()
        note_loops(recorder)
        self.integers.rolled(recorder)
        user_run = UserRun(self.inputs)
        ways = ways_of(snapshot.graph, call) if self.drawn.entries else {}
        user_run.drawn = self.drawn.kept(lambda owner: ways.get(id(self.reads.node_of(owner))))
        kept = user_run.drawn is None and not call.shares and keep(user_run, recorder, out, effects)
        found = recording_of(
            user_run, out, effects, recorder, self.logged.fn, self.learned, call, self.mode, self.wrt, self.names,
            captured, guarded=True, simplified=not self.as_recorded,
        )  # fmt: skip
        found.seconds = {"record": ran - self.began, **found.seconds}
        if kept:
            found.run = user_run
        return found


def rehearse(fn: Callable[..., Any], out: Any, mode: Mode, recorder: Recorder, wrt: Sequence[Var]) -> None:
    """Let rules that are Python, and run whenever a derivative is taken, read what they read while it is logged: the
    derivative that is used is taken later."""
    if wrt:
        _, loss = loss_of(fn, split_aux(fn, out)[0] if mode.has_aux else out, mode)
        vjp(list(recorder.nodes), loss, structural(1, loss.aval.dtype), wrt)


RUNS.add(Logged.result.__code__)


def _settings(recorder: Recorder, logged: Logged) -> None:
    recorder.repeatable, recorder.may_draw, recorder.derives = True, True, True
    recorder.trusts &= logged.trusts
    recorder.call_method = call_method
    recorder.choices = logged.choices if config.select_branches else None
    recorder.taught = logged.taught
    recorder.guesses, logged.guessed = logged.guesses, recorder.guessed


def _joined(
    reads: ReadLog, call: Call, others: Sequence[KnownReads]
) -> tuple[KnownReads | None, Sequence[StateNode]]:  # fmt: skip
    """(those reads among *others* that can be read, too, and are now; the nodes of their inputs, in order)"""
    for known in others:
        now = known.now(call.objects)
        order = None if now is None else join(reads, known, now)
        if order is not None:
            return known, order
    return None, ()


def by_labels(error: Retry, labels: dict[Any, str]) -> Retry:
    """*error* with the labels of the inputs that are to be plain arrays."""
    options = error.options
    if not options.captured or not labels.keys() >= options.captured:
        return error
    named = frozenset([labels[var] for var in options.captured])
    return Retry(replace(options, captured=frozenset(), contents=options.contents | named), error.error)


def check(run: LoggedRun, recorder: Recorder, out: Any, labels: dict[Any, str], name: str = "") -> None:
    """An error unless all that the run has done is in its log.  *name*: that of the function, where plain Python may
    answer in its place."""
    if run.refused is not None:
        raise run.refused
    again = needed(recorder, recorder.choices, None)
    if again is not None:
        raise by_labels(again, labels)
    if recorder.reasons:
        raise NotClosedError(recorder.reasons[0])
    refused = unrecordable.last()
    if refused is not None:
        raise refused
    if recorder.left.hashed:
        raise run.refuse("a traced number that is a key")
    if recorder.left.as_text:
        raise run.refuse("a text that is made of values")
    if recorder.choices is not None and recorder.choices.learn(recorder.guards, run.codes()):
        raise chosen_anew()
    if run.writes and calls_python(recorder.nodes):
        raise run.refuse("code that runs on the host, beside what is written")
    run.settle_objects()
    _check_result(run, out, name)


def _check_result(run: LoggedRun, out: Any, name: str) -> None:
    """An error unless the result consists of values and of what can be made again."""
    stack: list[tuple[Any, frozenset[int]]] = [(out, frozenset())]  # with the ids of what it is in
    arrays = []
    while stack:
        value, around = stack.pop()
        kind = type(value)
        if kind in (list, tuple, dict):
            if id(value) in around:
                raise run.refuse("a result that is in itself")
            around |= {id(value)}
            stack += [(part, around) for part in (value.values() if kind is dict else value)]
        elif kind is np.ndarray:
            if not value.flags.writeable:
                raise run.refuse("an array from outside in the result")
            arrays.append(id(value))
        elif kind in _READ_LATER and name and holds_traced([value]):
            raise refuse_held(name, value)
        elif kind is TextOfValues and run.returns_texts:
            continue
        elif isinstance(value, types.FunctionType | types.ModuleType | type) or kind in (*STAND_INS, TextOfValues):
            raise run.refuse(f"a result of the class {kind.__qualname__}")
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            raise run.refuse("a result with an array of objects")
    if len(set(arrays)) < len(arrays):
        raise run.refuse("one array in two places of the result")


def _in_order(
    snapshot: Snapshot, recorder: Recorder, arguments: int, stand_ins: dict[int, Any], variables: dict[int, Any],
    drawn: Sequence[Any],
) -> list[Any]:  # fmt: skip
    """The values of the inputs after the arguments; the recorder's inputs, of which *variables* are those of nodes, are
    put in the order of the snapshot's arrays, and those that are *drawn* at the end."""
    places = {var: k for k, var in enumerate(recorder.inputs)}
    order = [places[variables[id(node)]] for node in snapshot.inputs]
    own = range(arguments)
    rest = [k for k in range(arguments, len(recorder.inputs)) if k not in order]
    rest.sort(key=lambda k: recorder.inputs[k] in drawn)
    recorder.inputs[:] = [recorder.inputs[k] for k in (*own, *order, *rest)]
    recorder.input_names[:] = [recorder.input_names[k] for k in (*own, *order, *rest)]
    for k, node in enumerate(snapshot.inputs):
        if type(stand_ins[id(node)]) is TracedArray:
            recorder.caller.given[id(stand_ins[id(node)])] = f"arrays[{k}]"
    return [float(x) if type(x) is int else x for x in snapshot.arrays]
