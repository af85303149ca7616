"""``tracegrad.compile(step)``: a whole training step (forward, backward, clipping, optimizer) as one compiled unit.

The first call of a kind runs eagerly: optimizers make their state.  The second is recorded (``step_recording.py``)
and run as a kernel that updates parameters and optimizer state in place; the third is recorded again, and only where
both denote the same program does the kernel stand for the Python from then on.  Each later call checks everything that
the step's Python could have seen: arguments, the outside state (``runtime/state``, ``state_visitors.py``), branches (as
guards in the kernel).  Steps that can't be replayed run eagerly, and ``step.stats.live`` says why: an answer is never
stale.

Start reading at ``CompiledStep.__call__``.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..codegen.cpu.assemble import Program
from ..nn.module import Module
from ..runtime.config import config
from ..runtime.cuda.availability import current_device
from ..runtime.launch.binding import argument_records, bind_program
from ..runtime.launch.kernel_cache import kernels
from ..runtime.paths.fallback import branch_outcomes
from ..runtime.paths.plan_cache import PlanCache
from ..runtime.record.call_key import DEVICE, TENSOR, Call, flatten
from ..runtime.record.trees import Source, make_function
from ..runtime.state.state_plan import Snapshot, StatePlan
from ..runtime.stats import Stats
from ..tensors.device import CPU, device, on_cuda
from ..tensors.modes import STATE
from ..tensors.tensor import epoch, make
from ..tracer.ir.refusals import Reason, Refusal, listed
from ..tracer.record.recorder import current_recorder
from .device_program import StepProgram
from .explain import explain_step
from .replay import (
    MISS,
    Replay,
    StepPath,
    StepVariant,
    argument_or,
    is_tensor,
    make_replay,
    restore_streams,
    save_streams,
    tensor_at,
    values_of,
)
from .state_visitors import tensor_facts
from .step_autograd import as_array, linked
from .step_recording import TensorRecording, record_tensors, scalar_type


class CompiledStep:
    """A function of tensors whose effects and results are replayed by one kernel.  Made by :func:`compile`."""

    def __init__(
        self, fn: Callable[..., Any], static: frozenset[int | str] = frozenset(), stats: Stats | None = None
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.__wrapped__ = fn
        self._fn = fn
        self.stats = Stats(getattr(fn, "__qualname__", None) or repr(fn)) if stats is None else stats
        self._replays: tuple[Replay, ...] = ()
        self._variants: OrderedDict[Any, StepVariant] = OrderedDict()
        self._seen: set[Any] = set()
        self._live: dict[Any, str] = {}
        self._unsettled: set[Any] = set()  # keys of calls in which a run has changed state that it reads
        self._plans = PlanCache(fn)
        self._static = static

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the function itself.  Tensors in the result stay connected to the tensors they depend on, unless the step
        has run their backward."""
        self.stats.calls += self._counted
        if STATE.capture is not None or current_recorder() is not None:
            return self._fn(*args, **kwargs)
        for replay in self._replays:
            found = replay(args, kwargs)
            if found is not MISS:
                return found
        return self._dispatch(args, kwargs)

    def explain(self) -> str:
        """A report on the recordings: programs with your lines, effects, loops, decisions, memory, guards; and why
        Python runs in every call, where it does."""
        return explain_step(self)

    def __getattr__(self, name: str) -> Any:
        """An attribute of a compiled module (``parameters``, ``train``)."""
        fn = self.__dict__.get("_fn")
        if isinstance(fn, Module) and not name.startswith("__"):
            return getattr(fn, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<compiled step {self.stats.name}>"

    _counted = 1

    # ---- dispatch ----------------------------------------------------------------------------------------------

    def _dispatch(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if STATE.inference or STATE.anomaly:
            return self._fn(*args, **kwargs)
        call = flatten(args, kwargs, self._static, "step")
        if DEVICE in call.kinds:
            self.stats.live = str(Refusal.STEP_FOREIGN())
            return self._fn(*args, **kwargs)
        key = (call.key, _aliases(call), STATE.grad)
        if key in self._live:
            return self._fn(*args, **kwargs)
        if key not in self._seen:
            if len(self._seen) >= config.max_variants:
                self._seen.clear()
                self._unsettled.clear()
            self._seen.add(key)
            self.stats.note("first call with arguments of these types and shapes: runs eagerly")
            return self._fn(*args, **kwargs)
        plan = self._plans.get(call)
        snapshot = plan.snapshot(call.objects)
        place = _place(call, snapshot)
        if place is None:
            self.stats.live = str(Refusal.STEP_TWO_DEVICES())
            return self._fn(*args, **kwargs)
        state_key = (key, snapshot.key)
        variant = self._variants.get(state_key)
        if variant is None:
            variant = self._variants[state_key] = StepVariant(snapshot)
            while len(self._variants) > config.max_states:
                self._variants.popitem(last=False)
        else:
            self._variants.move_to_end(state_key)
            arrays = tuple(snapshot.arrays)
            for path in variant.paths:
                if not path.verified or not _facts_hold(path.recording):
                    continue
                found = self._run(path, call, arrays)
                if found is not MISS:
                    path.known[0] = epoch()
                    self._install(call, variant, path)
                    return found
        return self._record(key, variant, call, plan, snapshot, place)

    def _record(
        self, key: Any, variant: StepVariant, call: Call, plan: StatePlan, snapshot: Snapshot, place: device
    ) -> Any:
        """Record this call, and run it by its kernel."""
        self.stats.traces += 1
        before = [p for p in variant.paths if not p.verified]
        recording, out = record_tensors(self._fn, call, plan, snapshot, place)
        arrays = tuple(snapshot.arrays)
        snapshot.release()
        capture = recording.capture
        assert capture is not None
        if recording.changes and plan.provable and key not in self._unsettled:
            self._unsettled.add(key)  # state that is made once, when it is first needed
            self.stats.note("recorded, but not kept, since the run changed what it reads")
            return self._take_as_it_is(recording, out)
        if recording.changes or not plan.provable:
            return self._go_live(key, [*plan.reasons, *recording.changes], recording, out)
        match = next((p for p in before if p.recording.same_program(recording)), None)
        if match is None:
            if any(p.recording.answers == recording.answers for p in before):
                return self._go_live(key, [Refusal.REPLAY_DIFFERS()], recording, out)
            if len(variant.paths) >= config.max_paths:
                last = next((g.site for g in reversed(recording.graph.guards)), None)
                return self._go_live(key, [branch_outcomes(last)], recording, out)
            self.stats.note("recorded: a new path" if variant.paths else "recorded for the first time")
            with capture.all_or_nothing():
                match = self._bind(recording, call)
            variant.paths.insert(0, match)
        else:
            self.stats.note("recorded again: verifies that the recording can be replayed")
            match.verified = True
        values = values_of(recording, call, arrays, capture)
        with capture.all_or_nothing():
            found = match.launch(*values)
        if found is None or type(found) is int:  # a branch on the last bit, or memory in an unusual layout
            capture.settle()
            recording.release()
            if found is None:
                self._live[key] = self.stats.live = str(Refusal.STEP_LAYOUT())
            return out
        recording.release()
        self._assign_gradients(recording, call, found)
        if match.verified:
            match.known[0] = epoch()
            self._install(call, variant, match)
        return self._deliver(recording, call, found, values)

    def _go_live(self, key: Any, reasons: list[Reason], recording: TensorRecording, out: Any) -> Any:
        """Make calls of this kind run eagerly from now on; this one has run, and takes effect."""
        while len(self._live) >= config.max_variants:
            self._live.pop(next(iter(self._live)))
        self._live[key] = self.stats.live = listed(reasons)
        return self._take_as_it_is(recording, out)

    def _take_as_it_is(self, recording: TensorRecording, out: Any) -> Any:
        """Let a recorded run that is not kept take effect, by NumPy."""
        assert recording.capture is not None
        recording.capture.settle()
        recording.release()
        return out

    def _bind(self, recording: TensorRecording, call: Call) -> StepPath:
        scalars = [scalar_type(s, call) for s in recording.sources]
        program: Program | StepProgram
        if recording.on_host is not None:
            on_host = recording.on_host
            program = StepProgram(recording.graph, scalars, on_host.inputs, on_host.results, recording.writes)
            bound, hit = program.launch, program.cached
        else:
            program, hit = kernels.get(recording.canonical, len(recording.sources))
            args = argument_records(recording.graph.inputs, scalars)
            donated = dict(enumerate(recording.writes))
            bound = bind_program(recording.graph, recording.canonical, program, args, donated)
        if hit:
            self.stats.kernel_hits += 1
        else:
            self.stats.compiles += 1
        return StepPath(recording, program, bound, [epoch()])

    def _run(self, path: StepPath, call: Call, arrays: tuple[Any, ...]) -> Any:
        recording = path.recording
        for t, was_none in recording.looked:
            if (t._grad is None) is not was_none:
                return MISS
        before = save_streams(recording.generators)
        try:
            values = values_of(recording, call, arrays, None)
            found = path.launch(*values)
        except BaseException:  # too little memory on a device: as if there had been no call
            restore_streams(before)
            raise
        if found is None or type(found) is int:
            restore_streams(before)
            self.stats.guard_misses += 1
            return MISS
        self._assign_gradients(recording, call, found)
        for k, times in zip(recording.writes, recording.times, strict=True):
            tensor_at(recording, k, call)._counter[0] += times
        return self._deliver(recording, call, found, values)

    def _assign_gradients(self, recording: TensorRecording, call: Call, found: Any) -> None:
        for t, result in recording.grads:
            argument_or(t, recording, call)._grad = None if result is None else make(as_array(found[result]))

    def _deliver(self, recording: TensorRecording, call: Call, found: Any, values: list[Any]) -> Any:
        source = Source()
        source.names = dict(recording.names)
        source.lines = [f"return {recording.text}"]
        tree = make_function("def assemble(r):", source)(found)
        link = recording.link
        if link is None:
            return tree
        args, kwargs = call.rebuild(call.leaves)
        wanted = [argument_or(t, recording, call) for t in link.wanted]
        reads = [] if link.backward is None else link.backward.reads
        counters = [tensor_at(recording, k, call)._counter for k in reads if is_tensor(recording, k, call)]
        return linked(
            link, tree, recording.requires, wanted, [found[k] for k in recording.payload], [values[k] for k in reads],
            counters if reads else [t._counter for t in wanted], lambda: self._fn(*args, **kwargs),
        )  # fmt: skip

    # ---- the fast path -----------------------------------------------------------------------------------------

    def _install(self, call: Call, variant: StepVariant, path: StepPath) -> None:
        if path.replay is None:
            path.replay = make_replay(self._fn, call, variant, path)
        others = tuple([r for r in self._replays if r is not path.replay])
        self._replays = (path.replay, *others)[:4]


def _place(call: Call, snapshot: Snapshot) -> device | None:
    """The device of a step: CUDA where one of its tensors lies there.  None: tensors on the host, too, require
    gradients."""
    tensors = [x for x, kind in zip(call.leaves, call.kinds, strict=True) if kind == TENSOR]
    if not snapshot.on_device and not any(on_cuda(t._data) for t in tensors):
        return CPU
    if snapshot.leaves_on_host or any(t._requires and not on_cuda(t._data) for t in tensors):
        return None
    return device("cuda", current_device())


def _facts_hold(recording: TensorRecording) -> bool:
    tensors = [*recording.tensors, *[t for t, _ in recording.grads]]
    now = {id(t): tensor_facts(t) for t in tensors}
    return all(now.get(f[0], f) == f for f in recording.facts) and all(s.holds() for s in recording.settings)


def _aliases(call: Call) -> tuple[int, ...]:
    """For each tensor argument the index of the first one that is the same object."""
    first: dict[int, int] = {}
    leaves = enumerate(zip(call.leaves, call.kinds, strict=True))
    return tuple([first.setdefault(id(x), k) for k, (x, kind) in leaves if kind == TENSOR])


def compile(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile *fn*, a training step or any function of Tensors, as one unit: forward, backward, optimizer update.

    Parameters and optimizer state are updated in place; ``.grad`` is set; tensors that are returned stay connected to
    the tensors they depend on (``compile(model)`` may be used with the rest of the step outside), unless ``backward``
    has run inside.
    ``lr`` and other numbers of the optimizer are read anew in each call.  Where replaying would not be provably right
    (the step prints, keeps what it computes in a list, reads ``loss.item()``), it runs eagerly and ``step.stats.live``
    says why.  Options of ``torch.compile`` are accepted and have no effect.
    """
    if fn is None:
        return compile
    return CompiledStep(fn)


__all__ = ["CompiledStep", "compile"]
