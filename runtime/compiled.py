"""``compile_grad``: functions whose value and gradient are compiled kernels.

A call goes down this ladder until a step answers:

1. the *slots* of what is asked (value, gradient or both): families of the paths that answered last, with a check of
   the outside state and a native launch (under 1 µs);
2. the variants of its call key: same state?  then its paths, most recent first; a guard that fails moves on to the
   next;
3. recording: Python runs once more; the kernel is found by signature or compiled.

A function that can't be proven to be frozen (it draws random numbers, changes what it reads, calls what can't be
analysed) stays at step 3 for good: its Python runs in every call, and only kernels are reused (``live.py``).  No lock
is held while Python or a kernel runs.
"""

from __future__ import annotations

import functools
import sys
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..tracer.autocast import USE
from ..tracer.recorder import current_recorder
from ..tracer.stream import DEFAULT
from .bridge import TensorFunction, call_tensors, check_all_on_device, on_the_host
from .calls import TENSOR, TRACED, Call, flatten
from .config import config
from .cuda.run import for_slot
from .declare import check_function, positions, shifted_positions, static_positions
from .eager import dtypes
from .eager.device import on_cuda
from .eager.modes import STATE
from .eager.tensor import Tensor, make
from .explain import explain_call
from .family import Family, make_family
from .inline import inline_call
from .kernels import kernels
from .live import Live, branch_outcomes, tell, too_long, too_many_programs
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
from .recording import GRAD, VALUE, VALUE_AND_GRAD, Mode, Recording, record, record_pieces
from .segments import Segments
from .siblings import candidates
from .slots import Slot, make_slot
from .state import Snapshot, StatePlan
from .stats import PathStats, Stats

MAX_SLOTS = 4  # families of paths that are tried without looking at the call first
_MISS = object()


@dataclass(eq=False, slots=True)
class Endpoint:
    """One thing that is asked of a function, with all that is known about answering it."""

    mode: Mode
    slots: tuple[Slot, ...] = ()
    owners: tuple[Family, ...] = ()  # the families of the slots
    variants: OrderedDict[Any, list[Variant]] = field(default_factory=OrderedDict)
    live: OrderedDict[Any, Live] = field(default_factory=OrderedDict)  # call keys whose Python runs each time


class CompiledFunction:
    """A function with compiled value and gradient.  Made by :func:`compile_grad`."""

    def __init__(
        self, fn: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
        static_argnames: str | Iterable[str] = (), target: str = "cpu",
    ):  # fmt: skip
        check_function(fn, target)
        functools.update_wrapper(self, fn, updated=())
        self.__wrapped__ = fn
        self._fn = fn
        self._argnums = positions(argnums)
        self._has_aux = has_aux
        self._target = target
        self._names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self._static = static_positions(fn, self._names)
        self._lock = threading.Lock()
        self._plans = PlanCache(fn, may_print=True)
        self._endpoints: dict[Mode, Endpoint] = {}
        self._tensor_form: TensorFunction | None = None
        self._reads_tensors = False
        self._told = False  # that Python has to run in each call
        self.stats = Stats(getattr(fn, "__qualname__", None) or repr(fn))
        self._value, self._grad, self._both = (self._endpoint(Mode(k, self._argnums, has_aux)) for k in _KINDS)
        shifted = shifted_positions(self._argnums)  # of a method, argnums count the arguments after self
        self._bound = tuple([self._endpoint(Mode(k, shifted, has_aux)) for k in _KINDS])
        self.stats.count_paths = functools.partial(_path_stats, self._endpoints)
        _functions.add(self)

    # The body of `run` stands in each of these three: a cached call is so short that one Python call less shows.

    # ---- what users call ---------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's value, from a compiled forward kernel."""
        endpoint = self._value
        self.stats.calls += 1
        for slot in endpoint.slots:
            found = slot(args, kwargs)
            if found is not None:
                return found
        return self._descend(endpoint, args, kwargs)

    def grad(self, *args: Any, **kwargs: Any) -> Any:
        """Gradient with respect to ``argnums``, in the structure of those arguments (with ``has_aux``: (gradient,
        aux)).

        Raises DifferentiationError where an argument is not floating point or the result not a scalar.
        """
        endpoint = self._grad
        self.stats.calls += 1
        for slot in endpoint.slots:
            found = slot(args, kwargs)
            if found is not None:
                return found
        return self._descend(endpoint, args, kwargs)

    def value_and_grad(self, *args: Any, **kwargs: Any) -> Any:
        """(value, gradient) from one kernel; with ``has_aux`` ((value, aux), gradient).

        ``scipy.optimize.minimize(f.value_and_grad, x0, jac=True)`` takes it as it is.
        """
        endpoint = self._both
        self.stats.calls += 1
        for slot in endpoint.slots:
            found = slot(args, kwargs)
            if found is not None:
                return found
        return self._descend(endpoint, args, kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What happens in ``value_and_grad(*args)``: the recorded program with your lines, the adjoint, the kernels
        and why each fusion was or wasn't made, the memory plan, guards, cache hits, timings.  Runs the function's
        Python once."""
        return explain_call(self, self._both.mode, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunction(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self.stats.name}>"

    def __reduce__(self) -> Any:
        name = getattr(self._fn, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self._fn, "__module__", None) or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name  # by name, as plain functions are pickled
        return (CompiledFunction, (self._fn, self._argnums, self._has_aux, self._names, self._target))

    def _tracegrad_rebuild(self, fn: Callable[..., Any]) -> CompiledFunction:
        """The same compiled function over another body: used when an outer recording replaces captured arrays."""
        return CompiledFunction(fn, self._argnums, self._has_aux, self._names, self._target)

    # ---- the ladder --------------------------------------------------------------------------------------------

    def _endpoint(self, mode: Mode) -> Endpoint:
        return self._endpoints.setdefault(mode, Endpoint(mode))

    def run(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a call."""
        self.stats.calls += 1
        for slot in endpoint.slots:
            found = slot(args, kwargs)
            if found is not None:
                return found
        return self._descend(endpoint, args, kwargs)

    def _descend(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if STATE.capture is not None or (
            self._tensor_form is not None
            and (self._reads_tensors or any(isinstance(a, Tensor) and not on_cuda(a._data) for a in args))
        ):
            return self._call_tensors(endpoint, args, kwargs)
        call = flatten(args, kwargs, self._static, self._target)
        if call.device is not None and call.device.linked and endpoint.mode.kind == VALUE and STATE.grad:
            return self._call_tensors(endpoint, args, kwargs)  # a value that stays connected
        if TRACED in call.kinds or current_recorder() is not None:
            return inline_call(self._fn, endpoint.mode, call)
        if TENSOR in call.kinds or self._reads_tensors:
            return self._call_tensors(endpoint, args, kwargs)
        key = call.key
        with self._lock:
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
                if arrays is not None:
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
        misses, tried = self._missed(endpoint, variant)
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
            with self._lock:
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

    def _missed(self, endpoint: Endpoint, variant: Variant) -> tuple[list[tuple[Path, int]], set[Path]]:
        """What the slots have found out in this call: the last miss of each family, and all paths that can't hold."""
        misses: list[tuple[Path, int]] = []
        tried: set[Path] = set()
        for family in endpoint.owners:
            if family.variant is variant and (missed := family.taken(self.stats.calls)) is not None:
                misses.append(missed)
                tried.update(family.members)
        return misses, tried

    def _verify(self, endpoint: Endpoint, call: Call, variant: Variant, path: Path) -> Any:
        """Trust, then verify: record once more and compare.  _MISS: the answer of *path* is right, and it may be
        replayed from now on."""
        plan = self._plans.get(call)
        snapshot = plan.snapshot(call.objects)
        reason = "second call: verifies that the recording can be replayed"
        recording = self._record(endpoint, call, plan, snapshot, reason, path.recording.capacities)
        if recording.changes or not plan.provable:
            return self._go_live(endpoint, call, recording, _why(recording, plan))
        if recording.facts != path.recording.facts:  # control flow that hangs on the last bit: see _keep
            return self._keep(endpoint, call, variant, recording)
        if not recording.same_program(path.recording):
            why = "two runs with the same arguments and state recorded different programs (a counter, a clock?)"
            return self._go_live(endpoint, call, recording, why)
        path.verified = True
        return _MISS

    def _call_tensors(self, endpoint: Endpoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer where Tensors are among the arguments or in the outside state."""
        if self._target == "cuda" and STATE.capture is None:
            check_all_on_device((args, kwargs))
        form = self._tensor_form
        if form is None:
            form = self._tensor_form = TensorFunction(self._fn, self._static, self.stats)
        return call_tensors(form, endpoint.mode, args, kwargs)

    def _record_new(self, endpoint: Endpoint, call: Call, reason: str) -> Any:
        plan = self._plans.get(call)
        snapshot = plan.snapshot(call.objects)
        if snapshot.tensors:
            if self._target == "cuda" and len(snapshot.on_device) < len(snapshot.tensors):
                raise on_the_host(next(n for n in snapshot.tensors.values() if n not in snapshot.on_device))
            self._reads_tensors = True
            args, kwargs = call.rebuild([make(x) if on_cuda(x) else x for x in call.leaves])
            return self._call_tensors(endpoint, args, kwargs)
        recording = self._record(endpoint, call, plan, snapshot, reason)
        if recording.changes or not plan.provable:
            return self._go_live(endpoint, call, recording, _why(recording, plan))
        with self._lock:
            variants = endpoint.variants.setdefault(call.key, [])
            variant = next((v for v in variants if v.snapshot.key == snapshot.key), None)
            if variant is None:
                variant = Variant(snapshot)
                variants.insert(0, variant)
                del variants[config.max_states :]
            while len(endpoint.variants) > config.max_variants:
                endpoint.variants.popitem(last=False)
        return self._keep(endpoint, call, variant, recording)

    def _record(
        self, endpoint: Endpoint, call: Call, plan: StatePlan, snapshot: Snapshot, reason: str,
        capacities: Sequence[int] = (),
    ) -> Recording:  # fmt: skip
        self.stats.traces += 1
        self.stats.note(reason)
        try:
            return record(self._fn, call, endpoint.mode, plan, snapshot if plan.provable else None, capacities)
        finally:
            snapshot.release()

    def _keep(self, endpoint: Endpoint, call: Call, variant: Variant, recording: Recording) -> Any:
        """Run a new path for the first time and keep it, in place of those that had less room for their loops."""
        with self._lock:
            _drop(endpoint, variant, [p for p in variant.paths if outgrown(p, recording)])
        why = too_long(recording)
        if not why and too_many_programs(len(variant.paths) + 1):
            why = branch_outcomes(next((g.site for g in reversed(recording.graph.guards)), None))
        if why:
            live = Live(why)
            if call.device is None:
                live = Live(why, why, segments=Segments([*[p.recording for p in variant.paths], recording]))
            self._set_live(endpoint, call, live)
            return self._run_live(endpoint, call, live)  # nothing of this run can be kept: the next one is the first
        path = self._bind(recording, call)
        arrays = tuple(recording.captured)
        found = run_path(path, call, arrays)
        if type(found) is Missed:  # NumPy and the kernel round differently, and a branch hangs on it: NumPy decides
            self.stats.note("a branch hangs on the last bits of a number, where NumPy and the kernel differ")
            found = interpret(recording, call, arrays)
        else:
            with self._lock:  # a sibling that was passed over wrongly is replaced
                _drop(endpoint, variant, [p for p in variant.paths if p.recording.facts == recording.facts])
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
        """From now on Python runs in each call of this kind; this call's recording is used as it is."""
        live = Live(why)
        self._set_live(endpoint, call, live)
        return self._run_once(call, recording, live)

    def _set_live(self, endpoint: Endpoint, call: Call, live: Live) -> None:
        with self._lock:
            endpoint.live[call.key] = live
            while len(endpoint.live) > config.max_variants:
                endpoint.live.popitem(last=False)
            dropped = endpoint.variants.pop(call.key, [])
            _drop_families(endpoint, {path for variant in dropped for path in variant.paths})
        self.stats.live = live.why

    def _run_live(self, endpoint: Endpoint, call: Call, live: Live) -> Any:
        self.stats.traces += 1
        plan, segments = self._plans.get(call), live.segments
        if segments is None:
            return self._run_once(call, record(self._fn, call, endpoint.mode, plan, None), live)
        found = record_pieces(self._fn, call, endpoint.mode, plan)
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
        """Another thread has drawn the random numbers of this call."""
        args, kwargs = call.rebuild(call.leaves)
        return self._descend(endpoint, args, kwargs)

    # ---- small parts ---------------------------------------------------------------------------------------------

    def _install(self, endpoint: Endpoint, call: Call, variant: Variant, path: Path) -> None:
        """Make the family of *path* the first of the endpoint's slots, in place of those that it takes paths from."""
        if config.check or any(path in family.members for family in endpoint.owners):
            return
        family = make_family(variant, path, endpoint.owners)
        if call.device is not None:
            family.launch = for_slot(family.launch, call.data, len(path.recording.graph.inputs))
        mixed = USE.begun
        slot = make_slot(call, family, self.stats)
        with self._lock:
            if USE.begun is not mixed:  # since when a slot has to look at the setting
                return
            _drop_families(endpoint, set(family.members))
            endpoint.owners = (family, *endpoint.owners)[:MAX_SLOTS]
            endpoint.slots = (slot, *endpoint.slots)[:MAX_SLOTS]

    def drop_slots(self) -> None:
        """Send every call down the ladder (when ``config.check`` has been switched on)."""
        with self._lock:
            for endpoint in self._endpoints.values():
                endpoint.owners = endpoint.slots = ()

    def _finish(self, path: Path, call: Call, arrays: Sequence[np.ndarray], found: Any) -> Any:
        if config.check:
            compare(path, call, arrays, found)
        return found if path.assemble is None else path.assemble(found)


_KINDS = (VALUE, GRAD, VALUE_AND_GRAD)
_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def _drop_all_slots() -> None:
    for function in tuple(_functions):
        function.drop_slots()


config.on_check(_drop_all_slots)
USE.on_begin(_drop_all_slots)
dtypes.on_default_change(_drop_all_slots)  # it is in the call key, which slots do not look at


def _to_front(items: list[Any], item: Any) -> None:
    if items[0] is not item and item in items:
        items.remove(item)
        items.insert(0, item)


def _drop(endpoint: Endpoint, variant: Variant, paths: Sequence[Path]) -> None:
    """*variant* forgets *paths*, and so do the slots.  Call it with the lock."""
    variant.paths[:] = [p for p in variant.paths if p not in paths]
    _drop_families(endpoint, set(paths))


def _drop_families(endpoint: Endpoint, paths: set[Path]) -> None:
    """No slot tries any of *paths* from now on.  Call it with the lock."""
    kept = [(s, f) for s, f in zip(endpoint.slots, endpoint.owners, strict=True) if paths.isdisjoint(f.members)]
    endpoint.slots, endpoint.owners = tuple([s for s, _ in kept]), tuple([f for _, f in kept])


def _path_stats(endpoints: dict[Mode, Endpoint]) -> list[PathStats]:
    return [
        path.stats(endpoint.mode.kind)
        for endpoint in tuple(endpoints.values())
        for variants in tuple(endpoint.variants.values())
        for variant in tuple(variants)
        for path in tuple(variant.paths)
    ]


def _why(recording: Recording, plan: StatePlan) -> str:
    return "; ".join(dict.fromkeys([*plan.reasons, *recording.changes])) or "it changes what it reads"


class BoundFunction:
    """A compiled method of one instance.  argnums do not count ``self``."""

    __slots__ = ("__func__", "__self__")

    def __init__(self, function: CompiledFunction, instance: Any):
        self.__func__ = function
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.__call__`."""
        function = self.__func__
        return function.run(function._bound[0], (self.__self__, *args), kwargs)

    def grad(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.grad`."""
        function = self.__func__
        return function.run(function._bound[1], (self.__self__, *args), kwargs)

    def value_and_grad(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.value_and_grad`."""
        function = self.__func__
        return function.run(function._bound[2], (self.__self__, *args), kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """As :meth:`CompiledFunction.explain`."""
        return explain_call(self.__func__, self.__func__._bound[2].mode, (self.__self__, *args), kwargs)

    @property
    def stats(self) -> Stats:
        return self.__func__.stats

    @property
    def __wrapped__(self) -> types.MethodType:
        return types.MethodType(self.__func__._fn, self.__self__)

    @property
    def __name__(self) -> str:
        return getattr(self.__func__, "__name__", "method")

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return self.__func__.__doc__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundFunction) and self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __repr__(self) -> str:
        return f"<compiled method {self.stats.name} of {self.__self__!r}>"

    def _tracegrad_rebuild(self, method: types.MethodType) -> BoundFunction:
        return BoundFunction(self.__func__._tracegrad_rebuild(method.__func__), method.__self__)


def compile_grad(
    fn: Callable[..., Any] | None = None, *, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    static_argnames: str | Iterable[str] = (), target: str = "cpu",
) -> Any:  # fmt: skip
    """Compile *fn*, a function of NumPy arrays and floats, and its gradient.

    Usable as ``compile_grad(fn)``, ``@compile_grad`` and ``@compile_grad(argnums=(0, 1))``, on functions and methods.

    :param argnums: the positional argument or arguments that gradients are taken of; of a method, ``self`` does not
    count.
    :param has_aux: the function returns ``(loss, aux)``; aux is handed through.
    :param static_argnames: arguments that are settings: compared by value, never traced.
    :param target: where it runs: ``"cpu"``, ``"cuda"``, or ``"auto"``: on the device if an argument lies there.
    :returns: a :class:`CompiledFunction` with ``grad``, ``value_and_grad``, ``explain`` and ``stats``.
    """
    if fn is None:
        return lambda f: compile_grad(
            f, argnums=argnums, has_aux=has_aux, static_argnames=static_argnames, target=target
        )
    return CompiledFunction(fn, argnums, has_aux, static_argnames, target)


__all__ = ["BoundFunction", "CompiledFunction", "Endpoint", "compile_grad"]
