"""``compile_grad``: functions whose value and gradient are compiled kernels.

A call goes down this ladder until a step answers:

1. the *fast slot* of its mode: the last verified path, with a check of the outside state and a native launch (under 1 µs);
2. the variants of its call key: same state?  then its paths, most recent first; a guard that fails moves on to the next;
3. recording: Python runs once more; the kernel is found by signature or compiled.

A function that can't be proven to be frozen (it draws random numbers, changes what it reads, calls what can't be analysed) stays at step 3
for good: its Python runs in every call, and only the kernel is reused.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from optree import tree_flatten

from ..codegen.interpreter import evaluate
from ..tracer.errors import TracegradError
from ..tracer.site import OWN_FOLDERS
from .calls import TRACED, Call, flatten
from .config import config
from .explain import explain_call
from .inline import inline_call
from .kernels import kernels
from .paths import Path, Variant, bind_path, run_path
from .recording import GRAD, VALUE, VALUE_AND_GRAD, Mode, Recording, record
from .state import Snapshot, StatePlan, analyse
from .stats import Stats


class Slot:
    """The fast path of one mode: ``read`` checks the outside state and gives its arrays, ``launch`` runs the kernel."""

    __slots__ = ("assemble", "launch", "path", "read", "tree")

    def __init__(self, path: Path, read: Callable[..., Any], tree: Any):
        self.path, self.launch, self.read, self.tree = path, path.launch, read, tree
        self.assemble = path.recording.assemble


class CompiledFunction:
    """A function with compiled value and gradient.  Made by :func:`compile_grad`."""

    def __init__(
        self, fn: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False,
        static_argnames: str | Iterable[str] = (), target: str = "cpu",
    ):  # fmt: skip
        if not callable(fn):
            raise TypeError(f"compile_grad needs a function, not {type(fn).__name__}")
        if target != "cpu":
            raise TracegradError(f'target={target!r} is not available in this version; use target="cpu"')
        functools.update_wrapper(self, fn)
        self.__wrapped__ = fn
        self._fn = fn
        self._argnums = argnums if isinstance(argnums, int) else tuple(argnums)
        self._has_aux = has_aux
        self._target = target
        self._static = _static_positions(fn, static_argnames)
        self._names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self._lock = threading.RLock()
        self._plans: dict[Any, StatePlan] = {}
        self._variants: OrderedDict[Any, list[Variant]] = OrderedDict()
        self._slots: dict[Mode, Slot] = {}
        self._live: dict[Any, str] = {}  # call keys whose Python runs each time, and why
        self.stats = Stats(getattr(fn, "__qualname__", repr(fn)))
        self._modes = {kind: Mode(kind, self._argnums, has_aux) for kind in (VALUE, GRAD, VALUE_AND_GRAD)}

    # ---- what users call ---------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's value, from a compiled forward kernel."""
        return self.run(self._modes[VALUE], args, kwargs)

    def grad(self, *args: Any, **kwargs: Any) -> Any:
        """Gradient with respect to ``argnums``, in the structure of those arguments (with ``has_aux``: (gradient, aux)).

        Raises DifferentiationError where an argument is not floating point or the result not a scalar.
        """
        return self.run(self._modes[GRAD], args, kwargs)

    def value_and_grad(self, *args: Any, **kwargs: Any) -> Any:
        """(value, gradient) from one kernel; with ``has_aux`` ((value, aux), gradient).

        ``scipy.optimize.minimize(f.value_and_grad, x0, jac=True)`` takes it as it is.
        """
        return self.run(self._modes[VALUE_AND_GRAD], args, kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """What happens in ``value_and_grad(*args)``: the recorded program with your lines, the adjoint, the kernels and why
        each fusion was or wasn't made, the memory plan, guards, cache hits, timings."""
        return explain_call(self, self._modes[VALUE_AND_GRAD], args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunction(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self.stats.name}>"

    def __reduce__(self) -> Any:
        return (CompiledFunction, (self._fn, self._argnums, self._has_aux, self._names, self._target))

    def _tracegrad_rebuild(self, fn: Callable[..., Any]) -> CompiledFunction:
        """The same compiled function over another body: used when an outer recording replaces captured arrays."""
        return CompiledFunction(fn, self._argnums, self._has_aux, self._names, self._target)

    # ---- the ladder --------------------------------------------------------------------------------------------

    def run(self, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.stats.calls += 1
        slot = self._slots.get(mode)
        if slot is not None:
            arrays = slot.read()
            if arrays is not None:
                if slot.tree is None:
                    found = None if kwargs else slot.launch(*args, *arrays)
                else:
                    leaves, tree = tree_flatten((args, kwargs))
                    found = slot.launch(*leaves, *arrays) if tree == slot.tree else None
                if found is not None and type(found) is not int:
                    return found if slot.assemble is None else slot.assemble(found if type(found) is tuple else (found,))
        return self._descend(mode, args, kwargs)

    def _descend(self, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = flatten(args, kwargs, self._static)
        if TRACED in call.kinds:
            return inline_call(self._fn, mode, call)
        key = (mode, call.key)
        with self._lock:
            if key in self._live:
                return self._run_live(mode, call, self._live[key])
            reason = "first call with arguments of these types and shapes"
            known = self._variants.get(key)
            if known is not None:
                self._variants.move_to_end(key)
                reason = "the outside state that the function reads has changed"
                for variant in known:
                    arrays = variant.snapshot.check(*call.objects)
                    if arrays is None:
                        continue
                    answer, reason = self._try_paths(mode, call, key, variant, arrays)
                    if answer is not None:
                        return answer[0]
                    if key in self._live:
                        return self._run_live(mode, call, self._live[key])
                    break
            return self._record_new(mode, call, key, reason)

    def _try_paths(self, mode: Mode, call: Call, key: Any, variant: Variant, arrays: Sequence[np.ndarray]) -> tuple[tuple[Any] | None, str]:
        """Run the first path whose guards hold: ((result,), "") or (None, why a recording is needed)."""
        reason = ""
        for path in list(variant.paths):
            if not path.verified:
                outcome = self._verify(mode, call, key, variant, path)
                if outcome is not None:
                    return outcome, ""
                if key in self._live:
                    return None, self._live[key]
            found = run_path(path, call, arrays)
            if type(found) is int:
                self.stats.guard_misses += 1
                guard = path.guards[found]
                reason = f"guard missed: {guard.kind}() gave another value than {guard.expected!r} at {guard.site}"
                continue
            variant.paths.remove(path)
            variant.paths.insert(0, path)
            path.runs += 1
            self.stats.hits += 1
            self._install(mode, call, variant, path)
            return (self._finish(path, call, arrays, found),), ""
        return None, reason

    def _verify(self, mode: Mode, call: Call, key: Any, variant: Variant, path: Path) -> tuple[Any] | None:
        """Trust, then verify: record once more and compare.  None: *path* may be used."""
        plan = self._plan(call)
        recording = self._record(mode, call, plan, plan.snapshot(call.objects), "second call: verifies that the recording can be replayed")
        if not recording.changes and plan.provable and recording.same_program(path.recording):
            path.verified = True
            return None
        if recording.changes or not plan.provable:
            return (self._go_live(mode, call, key, recording, _why(recording, plan)),)
        ours, theirs = recording.graph.guards, path.recording.graph.guards
        for mine, old in zip(ours, theirs, strict=False):
            if np.asarray(mine.expected).tobytes() != np.asarray(old.expected).tobytes():
                new = self._keep(call, variant, recording)  # another branch: a path of its own
                return (self._finish(new, call, recording.captured, run_path(new, call, recording.captured)),)
        return (self._go_live(mode, call, key, recording, "two runs with the same arguments and state recorded different programs (a counter, a clock, random numbers?)"),)

    def _record_new(self, mode: Mode, call: Call, key: Any, reason: str) -> Any:
        plan = self._plan(call)
        snapshot = plan.snapshot(call.objects)
        variants = self._variants.setdefault(key, [])
        variant = next((v for v in variants if v.snapshot.key == snapshot.key), None)
        fresh = Variant(snapshot)
        recording = self._record(mode, call, plan, snapshot, reason)
        if recording.changes or not plan.provable:
            return self._go_live(mode, call, key, recording, _why(recording, plan))
        if variant is None:
            variants.insert(0, fresh)
            variant = fresh
            del variants[config.max_variants :]
        if len(variant.paths) >= config.max_paths:
            site = recording.graph.guards[-1].site if recording.graph.guards else None
            return self._go_live(mode, call, key, recording, f"more than {config.max_paths} branch outcomes, the last at {site}")
        path = self._keep(call, variant, recording)
        while len(self._variants) > config.max_variants:
            self._variants.popitem(last=False)
        arrays = recording.captured
        return self._finish(path, call, arrays, run_path(path, call, arrays))

    def _record(self, mode: Mode, call: Call, plan: StatePlan, snapshot: Snapshot, reason: str) -> Recording:
        self.stats.traces += 1
        self.stats.note(reason)
        return record(self._fn, call, mode, plan, snapshot, plan.provable)

    def _keep(self, call: Call, variant: Variant, recording: Recording) -> Path:
        path = self._bound(call, recording)
        variant.paths.insert(0, path)
        return path

    def _bound(self, call: Call, recording: Recording) -> Path:
        program, hit = kernels.get(recording.canonical, recording.arguments)
        if hit:
            self.stats.kernel_hits += 1
        else:
            self.stats.compiles += 1
        return bind_path(recording, program, call)

    # ---- functions that are never frozen -------------------------------------------------------------------------

    def _go_live(self, mode: Mode, call: Call, key: Any, recording: Recording, why: str) -> Any:
        """From now on Python runs in each call of this kind; this call's recording is used as it is."""
        self._live[key] = why
        self.stats.live = why
        self._variants.pop(key, None)
        self._slots.pop(mode, None)
        return self._run_recording(call, recording)

    def _run_live(self, mode: Mode, call: Call, why: str) -> Any:
        self.stats.traces += 1
        plan = self._plan(call)
        snapshot = plan.snapshot(call.objects)
        return self._run_recording(call, record(self._fn, call, mode, plan, snapshot, frozen=False))

    def _run_recording(self, call: Call, recording: Recording) -> Any:
        path = self._bound(call, recording)
        arrays = recording.captured
        found = run_path(path, call, arrays)
        if type(found) is int:
            raise TracegradError("a guard failed on the run that recorded it: kernel and interpreter disagree; please report this")
        return self._finish(path, call, arrays, found)

    # ---- small parts ---------------------------------------------------------------------------------------------

    def _plan(self, call: Call) -> StatePlan:
        objects = call.objects
        key = tuple(type(o) if not callable(o) else o for o in objects)
        try:
            plan = self._plans.get(key)
        except TypeError:  # an unhashable callable
            key, plan = tuple(id(o) for o in objects), None
        if plan is None:
            plan = self._plans[key] = analyse(self._fn, objects, trusted_paths=OWN_FOLDERS)
        return plan

    def _install(self, mode: Mode, call: Call, variant: Variant, path: Path) -> None:
        """Make *path* the fast slot of its mode, where the call is of the plain kind that slots serve."""
        plain = not config.check and not call.objects and not self._static
        if plain:
            variant.snapshot.read()  # builds the specialised checker
            self._slots[mode] = Slot(path, variant.snapshot.read, None if call.is_flat else call.tree)
        else:
            self._slots.pop(mode, None)

    def _finish(self, path: Path, call: Call, arrays: Sequence[np.ndarray], found: Any) -> Any:
        if type(found) is int:
            raise TracegradError("a guard failed on the run that recorded it: kernel and interpreter disagree; please report this")
        if config.check:
            _compare(path, call, arrays, found)
        assemble = path.recording.assemble
        if assemble is None:
            return found
        return assemble(found if isinstance(found, tuple) else (found,))


def _why(recording: Recording, plan: StatePlan) -> str:
    return "; ".join([*plan.reasons, *recording.changes]) or "it changes what it reads"


def _compare(path: Path, call: Call, arrays: Sequence[np.ndarray], found: Any) -> None:
    """TRACEGRAD_CHECK=1: the interpreter's results against the kernel's."""
    data = [x for x, p in zip(call.leaves, call.kinds, strict=True) if p in ("array", "float", "scalar")]
    expected = evaluate(path.recording.graph, [*data, *arrays])
    results = found if isinstance(found, tuple) else (found,)
    for ours, theirs in zip(results, expected, strict=True):
        tolerance = 1e-4 if theirs.dtype == np.float32 else 1e-9
        scale = np.max(np.abs(theirs[np.isfinite(theirs)]), initial=1.0) if theirs.dtype.kind == "f" else 1.0
        if not np.allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            raise TracegradError(f"TRACEGRAD_CHECK: kernel and interpreter disagree by {np.max(np.abs(np.asarray(ours) - theirs))}")


class BoundFunction:
    """A compiled method of one instance."""

    def __init__(self, function: CompiledFunction, instance: Any):
        self.__self__, self.__func__ = instance, function
        self.stats = function.stats

    def _shifted(self, kind: str) -> Mode:
        """argnums count the method's own arguments, without self."""
        argnums = self.__func__._argnums
        moved = argnums + 1 if isinstance(argnums, int) else tuple(a + 1 for a in argnums)
        return Mode(kind, moved, self.__func__._has_aux)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__.run(self._shifted(VALUE), (self.__self__, *args), kwargs)

    def grad(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.grad`; argnums do not count ``self``."""
        return self.__func__.run(self._shifted(GRAD), (self.__self__, *args), kwargs)

    def value_and_grad(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.value_and_grad`; argnums do not count ``self``."""
        return self.__func__.run(self._shifted(VALUE_AND_GRAD), (self.__self__, *args), kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        return explain_call(self.__func__, self._shifted(VALUE_AND_GRAD), (self.__self__, *args), kwargs)


def _static_positions(fn: Callable[..., Any], names: str | Iterable[str]) -> frozenset[int | str]:
    wanted = (names,) if isinstance(names, str) else tuple(names)
    code = getattr(fn, "__code__", None)
    positional = code.co_varnames[: code.co_argcount] if code is not None else ()
    return frozenset(wanted) | {positional.index(n) for n in wanted if n in positional}


def compile_grad(
    fn: Callable[..., Any] | None = None, *, argnums: int | tuple[int, ...] = 0, has_aux: bool = False,
    static_argnames: str | Iterable[str] = (), target: str = "cpu",
) -> Any:  # fmt: skip
    """Compile *fn*, a function of NumPy arrays and floats, and its gradient.

    Usable as ``compile_grad(fn)``, ``@compile_grad`` and ``@compile_grad(argnums=(0, 1))``, on functions and methods.

    :param argnums: the positional argument or arguments that gradients are taken of.
    :param has_aux: the function returns ``(loss, aux)``; aux is handed through.
    :param static_argnames: arguments that are settings: compared by value, never traced.
    :param target: where it runs; ``"cpu"``.
    :returns: a :class:`CompiledFunction` with ``grad``, ``value_and_grad``, ``explain`` and ``stats``.
    """
    if fn is None:
        return lambda f: compile_grad(f, argnums=argnums, has_aux=has_aux, static_argnames=static_argnames, target=target)
    return CompiledFunction(fn, argnums, has_aux, static_argnames, target)


__all__ = ["BoundFunction", "CompiledFunction", "compile_grad"]
