"""The dispatcher: the slow path of calls that no slot has answered.

It goes down until a step answers:

1. the variants of its call key: if the state is the same, its paths, most recent first; a guard that fails moves on
   to the next;
2. recording: Python runs once more; the kernel is found by signature or compiled.

A function that can't be proven to be frozen (it draws random numbers, changes what it reads, calls what can't be
analysed) stays at step 2 for good: its Python runs in every call, and only kernels are reused (``fallback.py``).  No
lock is held while Python or a kernel runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...tracer.ir.errors import DeviceError
from ...tracer.ir.refusals import Refusal, listed
from ...tracer.ir.site import at_site
from ...tracer.random.stream import DEFAULT
from ...tracer.record.autocast import USE
from ...tracer.record.recorder import current_recorder
from ..config import config
from ..cuda.arrays import on_device
from ..cuda.run import for_slot
from ..launch.kernel_cache import kernels
from ..record.call_key import TENSOR, TRACED, Call, flatten
from ..record.identity import partition
from ..record.inline import inline_call
from ..record.record import record, record_pieces
from ..record.recording import VALUE, Mode, Recording
from ..state.state_plan import Snapshot, StatePlan
from ..stats import PathStats, Stats
from ..tensor_library import TENSORS, TensorForm
from .entry import Endpoint
from .fallback import Live, branch_outcomes, tell, too_long, too_many_programs
from .family import make_family
from .fast_path import make_slot
from .paths import (
    Missed,
    Path,
    Variant,
    bind_device_path,
    bind_path,
    compare,
    describe_guard,
    interpret,
    outgrown,
    run_path,
)
from .plan_cache import PlanCache
from .segments import Segments
from .siblings import candidates

_MISS = object()


class Dispatcher:
    """The slow path of one function, whose *static* arguments are settings."""

    def __init__(self, fn: Callable[..., Any], static: frozenset[int | str], target: str, stats: Stats):
        self.fn, self.static, self.target, self.stats = fn, static, target, stats
        self.lock = threading.Lock()
        self.endpoints: dict[Mode, Endpoint] = {}
        self.plans = PlanCache(fn, may_print=True)
        self._tensor_form: TensorForm | None = None
        self._reads_tensors = False
        self._told = False  # whether a warning has told that Python runs in each call

    def endpoint(self, mode: Mode) -> Endpoint:
        """The endpoint of *mode*."""
        return self.endpoints.setdefault(mode, Endpoint(mode))

    def path_stats(self) -> list[PathStats]:
        """Counts of all paths that are kept."""
        return [found for endpoint in tuple(self.endpoints.values()) for found in endpoint.path_stats()]

    def drop_slots(self) -> None:
        """Let no slot answer until its family is installed again."""
        with self.lock:
            for endpoint in self.endpoints.values():
                endpoint.drop_slots()

    def dispatch(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if TENSORS.capturing() or (self._tensor_form is not None and (self._reads_tensors or any(map(_on_host, args)))):
            return self._call_tensors(endpoint, args, kwargs)
        call = flatten(args, kwargs, self.static, self.target, fn=self.fn)
        if call.device is not None and call.device.linked and endpoint.mode.kind == VALUE and TENSORS.grad_enabled():
            return self._call_tensors(endpoint, args, kwargs)  # a value that stays connected
        if TRACED in call.kinds or current_recorder() is not None:
            return inline_call(self.fn, endpoint.mode, call)
        if TENSOR in call.kinds or self._reads_tensors:
            return self._call_tensors(endpoint, args, kwargs)
        return self._answer(endpoint, call)

    def _answer(self, endpoint: Endpoint, call: Call) -> Any:
        key = call.key
        with self.lock:
            live = endpoint.live.get(key)
            known = tuple(endpoint.variants.get(key, ()))
            if known:
                endpoint.variants.move_to_end(key)
        if live is not None:
            return self._run_live(endpoint, call, live)
        reason = "first call with arguments of these types and shapes"
        if known:
            reason = "the outside state that the function reads has changed"
            for variant in known:
                arrays = variant.snapshot.check(*call.objects)
                if arrays is not None and variant.alike(call, arrays):
                    answer, reason = self._try_paths(endpoint, call, variant, arrays)
                    if answer is not _MISS:
                        return answer
                    break
        return self._record_new(endpoint, call, reason)

    def _try_paths(
        self, endpoint: Endpoint, call: Call, variant: Variant, arrays: Sequence[np.ndarray]
    ) -> tuple[Any, str]:
        """The result of the first path whose guards hold, or _MISS and why a recording is needed."""
        reason = "no recording has been kept for this state"
        misses, tried = endpoint.missed(variant, self.stats.calls)
        self.stats.guard_misses += len(misses)
        for path in candidates([p for p in tuple(variant.paths) if p not in tried], misses):
            draws, start = path.recording.draws, DEFAULT.state
            inputs = (*arrays, start) if draws else arrays
            found = run_path(path, call, inputs)
            if type(found) is Missed:
                self.stats.guard_misses += 1
                misses.append((path, found.guard))
                continue
            if not path.verified:
                answer = self._verify(endpoint, call, variant, path)
                if answer is not _MISS:
                    return answer, ""
            with self.lock:
                _to_front(variant.paths, path)
                variants = endpoint.variants.get(call.key)
                if variants is not None:
                    _to_front(variants, variant)
            self._install(endpoint, call, variant, path)
            if draws and not DEFAULT.advance(start, draws):
                return self._again(endpoint, call), ""
            return self._finish(path, call, inputs, found), ""
        if misses:
            path, failed = misses[-1]
            reason = f"guard missed: {describe_guard(path.guards[failed], 'another value than ')}"
        return _MISS, reason

    def _verify(self, endpoint: Endpoint, call: Call, variant: Variant, path: Path) -> Any:
        """Trust, then verify: record once more and compare.  _MISS: the answer of *path* is right, and it may be
        replayed from now on."""
        plan = self.plans.get(call)
        snapshot = plan.snapshot(call.objects)
        reason = "second call: verifies that the recording can be replayed"
        recording = self._record(endpoint, call, plan, snapshot, reason, path.recording.capacities)
        if recording.changes or not plan.provable:
            return self._go_live(endpoint, call, recording, _why(recording, plan))
        if recording.facts != path.recording.facts:  # control flow that hangs on the last bit: see _keep
            return self._keep(endpoint, call, variant, recording)
        if not recording.same_program(path.recording):
            return self._go_live(endpoint, call, recording, str(Refusal.REPLAY_DIFFERS()))
        path.verified = True
        return _MISS

    def _call_tensors(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer where Tensors are among the arguments or in the outside state."""
        form = self._tensor_form
        if form is None:
            form = self._tensor_form = TENSORS.form(self.fn, self.static, self.target, self.stats)
        return form.answer(endpoint.mode, args, kwargs)

    def _record_new(self, endpoint: Endpoint, call: Call, reason: str) -> Any:
        plan = self.plans.get(call)
        snapshot = plan.snapshot(call.objects)
        if snapshot.tensors:
            if self.target == "cuda" and len(snapshot.on_device) < len(snapshot.tensors):
                raise on_the_host(next(n for n in snapshot.tensors.values() if n not in snapshot.on_device))
            self._reads_tensors = True
            args, kwargs = call.rebuild([TENSORS.wrap(x) if on_device(x) else x for x in call.leaves])
            return self._call_tensors(endpoint, args, kwargs)
        data = [*call.data, *snapshot.arrays]
        same = partition(data) if plan.asks_identity and len(data) > 1 and call.device is None else None
        shared = self._shared(endpoint.mode, call, snapshot)
        if shared is not None:
            return self._answer(endpoint, shared)
        recording = self._record(endpoint, call, plan, snapshot, reason)
        if recording.changes or not plan.provable:
            return self._go_live(endpoint, call, recording, _why(recording, plan))
        with self.lock:
            variants = endpoint.variants.setdefault(call.key, [])
            variant = next((v for v in variants if v.snapshot.key == snapshot.key and v.same == same), None)
            if variant is None:
                variant = Variant(snapshot, same)
                variants.insert(0, variant)
                del variants[config.max_states :]
            while len(endpoint.variants) > config.max_variants:
                endpoint.variants.popitem(last=False)
        return self._keep(endpoint, call, variant, recording)

    def _shared(self, mode: Mode, call: Call, snapshot: Snapshot) -> Call | None:
        """The call with the lists and dicts among its arguments that the function reads as outside state, too, as
        objects of that state: what it does to the one it does to the other.  None where there are none.  (Those that
        gradients are taken of stay arguments.)"""
        if not call.containers:
            return None
        args = call.arguments[0]
        differentiated = () if mode.kind == VALUE else [args[p] for p in mode.positions if -len(args) <= p < len(args)]
        kept = {id(c) for c in flatten(tuple(differentiated), {}, target=self.target).containers}
        opaque = snapshot.containers.intersection(map(id, call.containers)) - kept
        return flatten(*call.arguments, self.static, self.target, opaque) if opaque else None

    def _record(
        self, endpoint: Endpoint, call: Call, plan: StatePlan, snapshot: Snapshot, reason: str,
        capacities: Sequence[int] = (),
    ) -> Recording:  # fmt: skip
        self.stats.traces += 1
        self.stats.note(reason)
        try:
            return record(self.fn, call, endpoint.mode, plan, snapshot if plan.provable else None, capacities)
        finally:
            snapshot.release()

    def _keep(self, endpoint: Endpoint, call: Call, variant: Variant, recording: Recording) -> Any:
        """Run a new path for the first time and keep it, in place of those that had less room for their loops."""
        with self.lock:
            endpoint.forget(variant, [p for p in variant.paths if outgrown(p, recording)])
        why = too_long(recording)
        if why is None and too_many_programs(len(variant.paths) + 1):
            why = branch_outcomes(next((g.site for g in reversed(recording.graph.guards)), None))
        if why is not None:
            live = Live(str(why))
            if call.device is None:
                live = Live(str(why), True, segments=Segments([*[p.recording for p in variant.paths], recording]))
            self._set_live(endpoint, call, live)
            return self._run_live(endpoint, call, live)  # nothing of this run can be kept: the next one is the first
        path = self._bind(recording, call)
        arrays = tuple(recording.captured)
        found = run_path(path, call, arrays)
        if type(found) is Missed:  # NumPy and the kernel round differently, and a branch hangs on it: NumPy decides
            self.stats.note("a branch hangs on the last bits of a number, where NumPy and the kernel differ")
            found = interpret(recording, call, arrays)
        else:
            with self.lock:  # a sibling that was passed over wrongly is replaced
                endpoint.forget(variant, [p for p in variant.paths if p.recording.facts == recording.facts])
                variant.paths.insert(0, path)
        recording.captured.clear()
        if recording.draws and not DEFAULT.advance(arrays[-1], recording.draws):
            return self._again(endpoint, call)
        return self._finish(path, call, arrays, found)

    def _bind(self, recording: Recording, call: Call) -> Path:
        if call.device is not None:
            path, hit = bind_device_path(recording, call.device.stays)
        else:
            program, hit = kernels.get(recording.canonical, recording.arguments)
            path = bind_path(recording, program, call)
        if hit:
            self.stats.kernel_hits += 1
        else:
            self.stats.compiles += 1
        return path

    # ---- functions that are never frozen -------------------------------------------------------------------------

    def _go_live(self, endpoint: Endpoint, call: Call, recording: Recording, why: str) -> Any:
        """Make Python run in each call of this kind from now on; this call's recording is used as it is."""
        live = Live(why)
        self._set_live(endpoint, call, live)
        return self._run_once(call, recording, live)

    def _set_live(self, endpoint: Endpoint, call: Call, live: Live) -> None:
        with self.lock:
            endpoint.live[call.key] = live
            while len(endpoint.live) > config.max_variants:
                endpoint.live.popitem(last=False)
            dropped = endpoint.variants.pop(call.key, [])
            endpoint.drop_families({path for variant in dropped for path in variant.paths})
        self.stats.live = live.why

    def _run_live(self, endpoint: Endpoint, call: Call, live: Live) -> Any:
        plan, segments = self.plans.get(call), live.segments
        if call.containers and (shared := self._shared(endpoint.mode, call, plan.snapshot(call.objects))) is not None:
            return self._answer(endpoint, shared)
        self.stats.traces += 1
        if segments is None:
            return self._run_once(call, record(self.fn, call, endpoint.mode, plan, None), live)
        found = record_pieces(self.fn, call, endpoint.mode, plan)
        if isinstance(found, Recording):
            return self._run_once(call, found, live)
        results, compiles = segments.run(found)
        self.stats.compiles += compiles
        self.stats.kernel_hits += not compiles
        if not self._told:
            self._told = True
            tell(self.stats.name, live, found)
        return found.assembled(results)

    def _run_once(self, call: Call, recording: Recording, live: Live) -> Any:
        compiles = self.stats.compiles
        path = self._bind(recording, call)
        if self.stats.compiles != compiles:
            live.compiled()
        found = run_path(path, call, recording.captured)
        if type(found) is Missed:
            found = interpret(recording, call, recording.captured)
        if recording.draws:  # its Python has had its effects, so it is not run again where another thread has drawn
            DEFAULT.advance(recording.captured[-1], recording.draws)
        return self._finish(path, call, recording.captured, found)

    def _again(self, endpoint: Endpoint, call: Call) -> Any:
        """Answer the call anew, since another thread has drawn its random numbers."""
        return self.dispatch(endpoint, *call.arguments)

    def _install(self, endpoint: Endpoint, call: Call, variant: Variant, path: Path) -> None:
        """Make the family of *path* the first of the endpoint's slots, in place of those that it takes paths from."""
        if config.check or call.shares or any(path in family.members for family in endpoint.owners):
            return
        family = make_family(variant, path, endpoint.owners)
        if call.device is not None:
            family.launch = for_slot(family.launch, call.data, len(path.recording.graph.inputs))
        mixed = USE.begun
        slot = make_slot(call, family, self.stats)
        with self.lock:
            if USE.begun is not mixed:  # since when a slot has to look at the setting
                return
            endpoint.install(slot, family)

    def _finish(self, path: Path, call: Call, arrays: Sequence[np.ndarray], found: Any) -> Any:
        if config.check:
            compare(path, call, arrays, found)
        return found if path.assemble is None else path.assemble(found)


def _on_host(argument: Any) -> bool:
    """Whether *argument* is a tensor in host memory."""
    return isinstance(argument, TENSORS.types) and not on_device(TENSORS.data(argument))


def on_the_host(name: str) -> DeviceError:
    """The error for a tensor of a call that is to run on a device."""
    return DeviceError(at_site(f'{name} is a tensor on the CPU, but target="cuda": move it there with .cuda()'))


def _to_front(items: list[Any], item: Any) -> None:
    if items[0] is not item and item in items:
        items.remove(item)
        items.insert(0, item)


def _why(recording: Recording, plan: StatePlan) -> str:
    return listed([*plan.reasons, *recording.changes])


__all__ = ["Dispatcher", "on_the_host"]
