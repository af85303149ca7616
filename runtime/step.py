"""``tracegrad.compile(step)``: a whole training step (forward, backward, clipping, optimizer) as one compiled unit.

The first call of a kind runs eagerly: optimizers make their state.  The second is recorded (``tensor_recording.py``)
and run as a kernel that updates parameters and optimizer state in place; the third is recorded again, and only where
both denote the same program does the kernel stand for the Python from then on.  Each later call checks what the step's
Python could have seen: arguments, the outside state (``state*.py``, ``state_eager.py``), branches (as guards in the
kernel).  What can't be replayed runs eagerly, and ``step.stats.live`` says why: an answer is never stale.

Start reading at ``CompiledStep.__call__``.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..codegen.program import Program
from ..tracer.recorder import current_recorder
from ..tracer.site import OWN_FOLDERS
from .binding import argument_records, bind_program
from .calls import OBJECT, TENSOR, VALUE, Call, flatten, unwrap
from .config import config
from .eager.capture import Root, number_at
from .eager.modes import STATE
from .eager.tensor import Tensor, epoch, make
from .explain import explain_step
from .kernels import kernels
from .linked import linked
from .nn.module import Module
from .recording import leaf_names
from .slots import call_leaves, check_value
from .state import Snapshot, StatePlan, analyse
from .state_eager import tensor_facts
from .stats import Stats
from .tensor_recording import LEAF, STATE_ARRAY, Setting, TensorRecording, record_tensors, scalar_type
from .trees import Source, make_function

_Replay = Callable[[tuple[Any, ...], dict[str, Any]], Any]
_MISS = object()


@dataclass(eq=False, slots=True)
class StepPath:
    """One recording bound to its kernel.  ``replay(args, kwargs)`` gives the result, or ``_MISS``."""

    recording: TensorRecording
    program: Program
    launch: Callable[..., Any]
    replay: _Replay | None = None
    verified: bool = False


@dataclass(eq=False, slots=True)
class StepVariant:
    """One kind of call under one outside state, with the branches it has taken."""

    snapshot: Snapshot
    known: list[int]  # the epoch up to which the facts hold
    paths: list[StepPath] = field(default_factory=list)
    calls: int = 0


class CompiledStep:
    """A function of tensors whose effects and results are replayed by one kernel.  Made by :func:`compile`."""

    def __init__(
        self, fn: Callable[..., Any], static: frozenset[int | str] = frozenset(), stats: Stats | None = None
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.__wrapped__ = fn
        self._fn = fn
        self.stats = Stats(getattr(fn, "__qualname__", None) or repr(fn)) if stats is None else stats
        self._replays: tuple[_Replay, ...] = ()
        self._variants: OrderedDict[Any, StepVariant] = OrderedDict()
        self._seen: set[Any] = set()
        self._live: dict[Any, str] = {}
        self._unsettled: set[Any] = set()  # kinds of call of which a run has changed what it reads
        self._plans: dict[Any, StatePlan] = {}
        self._static = static

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As the function itself.  Tensors in the result stay connected to what they depend on, unless the step has
        run their backward."""
        self.stats.calls += self._counted
        if STATE.capture is not None or current_recorder() is not None:
            return self._fn(*args, **kwargs)
        for replay in self._replays:
            found = replay(args, kwargs)
            if found is not _MISS:
                return found
        return self._descend(args, kwargs)

    def explain(self) -> str:
        """What has been recorded: programs with your lines, effects, loops, decisions, memory, guards; and why Python
        runs in every call, where it does."""
        return explain_step(self)

    def __getattr__(self, name: str) -> Any:
        """A compiled module passes on what it is asked as a module (``parameters``, ``train``)."""
        fn = self.__dict__.get("_fn")
        if isinstance(fn, Module) and not name.startswith("__"):
            return getattr(fn, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<compiled step {self.stats.name}>"

    _counted = 1

    # ---- the ladder --------------------------------------------------------------------------------------------

    def _descend(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if STATE.inference or STATE.anomaly:
            return self._fn(*args, **kwargs)
        call = flatten(args, kwargs, self._static)
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
        plan = self._plan(call)
        snapshot = plan.snapshot(call.objects)
        state_key = (key, snapshot.key)
        variant = self._variants.get(state_key)
        if variant is None:
            variant = self._variants[state_key] = StepVariant(snapshot, [epoch()])
            while len(self._variants) > config.max_states:
                self._variants.popitem(last=False)
        else:
            self._variants.move_to_end(state_key)
            arrays = tuple(snapshot.arrays)
            for path in variant.paths:
                if not path.verified or not _facts_hold(path.recording):
                    continue
                found = self._run(path, call, arrays)
                if found is not _MISS:
                    variant.known[0] = epoch()
                    self._install(call, variant, path)
                    return found
        return self._record(key, variant, call, plan, snapshot)

    def _record(self, key: Any, variant: StepVariant, call: Call, plan: StatePlan, snapshot: Snapshot) -> Any:
        """This call is recorded, and run by its kernel."""
        self.stats.traces += 1
        before = [p for p in variant.paths if not p.verified]
        recording, out = record_tensors(self._fn, call, plan, snapshot)
        arrays = tuple(snapshot.arrays)
        snapshot.release()
        capture = recording.capture
        assert capture is not None
        if recording.changes and plan.provable and key not in self._unsettled:
            self._unsettled.add(key)  # state that is made once, when it is first needed
            self.stats.note("recorded, but not kept, since the run changed what it reads")
            return self._take_as_it_is(recording, out)
        if recording.changes or not plan.provable:
            return self._go_live(key, _listed([*plan.reasons, *recording.changes]), recording, out)
        match = next((p for p in before if p.recording.same_program(recording)), None)
        if match is None:
            facts = [g.expected for g in recording.graph.guards]
            if any([g.expected for g in p.recording.graph.guards] == facts for p in before):
                why = "two runs with the same arguments and state recorded different programs (a counter, a clock?)"
                return self._go_live(key, why, recording, out)
            if len(variant.paths) >= config.max_paths:
                return self._go_live(key, f"more than {config.max_paths} branch outcomes", recording, out)
            self.stats.note("recorded: a new path" if variant.paths else "recorded for the first time")
            match = self._bind(recording, call)
            variant.paths.insert(0, match)
        else:
            self.stats.note("recorded again: verifies that the recording can be replayed")
            match.verified = True
        values = [
            _value(var, s, call, arrays, capture)
            for var, s in zip(recording.graph.inputs, recording.sources, strict=True)
        ]
        found = match.launch(*values)
        recording.capture = None
        if found is None or type(found) is int:  # a branch on the last bit, or memory in an unusual layout
            recording.capture = capture
            capture.settle()
            recording.capture = None
            if found is None:
                self._live[key] = self.stats.live = "a tensor that the step writes is not C-contiguous"
            return out
        self._assign_gradients(recording, call, found)
        if match.verified:
            variant.known[0] = epoch()
            self._install(call, variant, match)
        return self._deliver(recording, call, found, values)

    def _go_live(self, key: Any, why: str, recording: TensorRecording, out: Any) -> Any:
        """From now on calls of this kind run eagerly; this one has run, and takes effect."""
        while len(self._live) >= config.max_variants:
            self._live.pop(next(iter(self._live)))
        self._live[key] = why or "it changes what it reads"
        self.stats.live = self._live[key]
        return self._take_as_it_is(recording, out)

    def _take_as_it_is(self, recording: TensorRecording, out: Any) -> Any:
        """Let a recorded run that is not kept take effect, by NumPy."""
        assert recording.capture is not None
        recording.capture.settle()
        recording.capture = None
        return out

    def _bind(self, recording: TensorRecording, call: Call) -> StepPath:
        program, hit = kernels.get(recording.canonical, len(recording.sources))
        if hit:
            self.stats.kernel_hits += 1
        else:
            self.stats.compiles += 1
        args = argument_records(recording.graph.inputs, [scalar_type(s, call) for s in recording.sources])
        donated = dict(enumerate(recording.writes))
        bound = bind_program(recording.graph, recording.canonical, program, args, donated)
        return StepPath(recording, program, bound)

    def _run(self, path: StepPath, call: Call, arrays: tuple[Any, ...]) -> Any:
        recording = path.recording
        for t, was_none in recording.looked:
            if (t._grad is None) is not was_none:
                return _MISS
        before = save_streams(recording.generators)
        values = [
            _value(var, s, call, arrays, None) for var, s in zip(recording.graph.inputs, recording.sources, strict=True)
        ]
        found = path.launch(*values)
        if found is None or type(found) is int:
            restore_streams(before)
            self.stats.guard_misses += 1
            return _MISS
        self._assign_gradients(recording, call, found)
        for k in recording.writes:
            _tensor_at(recording, k, call)._counter[0] += 1
        return self._deliver(recording, call, found, values)

    def _assign_gradients(self, recording: TensorRecording, call: Call, found: Any) -> None:
        for t, result in recording.grads:
            _argument_or(t, recording, call)._grad = None if result is None else make(np.asarray(found[result]))

    def _deliver(self, recording: TensorRecording, call: Call, found: Any, values: list[Any]) -> Any:
        source = Source()
        source.names = dict(recording.names)
        source.lines = [f"return {recording.text}"]
        tree = make_function("def assemble(r):", source)(found)
        link = recording.link
        if link is None:
            return tree
        args, kwargs = call.rebuild(call.leaves)
        wanted = [_argument_or(t, recording, call) for t in link.wanted]
        reads = [] if link.backward is None else link.backward.reads
        counters = [_tensor_at(recording, k, call)._counter for k in reads if _is_tensor(recording, k, call)]
        return linked(
            link, tree, recording.requires, wanted, [found[k] for k in recording.payload], [values[k] for k in reads],
            counters if reads else [t._counter for t in wanted], lambda: self._fn(*args, **kwargs),
        )  # fmt: skip

    def _plan(self, call: Call) -> StatePlan:
        objects = call.objects
        key = tuple([type(o) for o in objects])
        plan = self._plans.get(key)
        if plan is None:
            names = leaf_names(self._fn, call) if objects else []
            labels = tuple([n for n, k in zip(names, call.kinds, strict=False) if k == OBJECT])
            plan = self._plans[key] = analyse(self._fn, objects, labels=labels, trusted_paths=OWN_FOLDERS)
        return plan

    # ---- the fast path -----------------------------------------------------------------------------------------

    def _install(self, call: Call, variant: StepVariant, path: StepPath) -> None:
        if path.replay is None:
            path.replay = self._make_replay(call, variant, path)
        others = tuple([r for r in self._replays if r is not path.replay])
        self._replays = (path.replay, *others)[:4]

    def _make_replay(self, call: Call, variant: StepVariant, path: StepPath) -> _Replay:
        """The path as straight-line Python: checks, one launch, effects, result."""
        recording = path.recording
        source = Source(otherwise="MISS")
        known = variant.known
        source.names.update(
            read=variant.snapshot.read, launch=path.launch, STATE=STATE, epoch=epoch, known=known, Tensor=Tensor,
            MISS=_MISS, make=make, asarray=np.asarray, float=float,
        )  # fmt: skip
        source.lines.append(
            f"if epoch() != known[0] or STATE.grad is not {STATE.grad} or STATE.anomaly or STATE.inference: return MISS"
        )
        texts: dict[int, str] = {}
        objects: list[str] = []
        for k, (leaf, kind, text) in enumerate(zip(call.leaves, call.kinds, call_leaves(source, call), strict=True)):
            texts[k] = text
            if kind == VALUE:
                check_value(source, text, unwrap(leaf))
            elif kind == OBJECT:
                objects.append(text)
            elif kind == TENSOR:
                kind_of = source.constant(type(leaf))
                source.give_up_if(f"type({text}) is not {kind_of} or {text}._requires is not {leaf._requires}")
        _alias_checks(source, call, texts)
        arrays = f"read({', '.join(objects)})"
        if variant.snapshot.array_names:
            source.lines.append(f"arrays = {arrays}")
            source.give_up_if("arrays is None")
        else:
            source.give_up_if(f"{arrays} is None")
        for setting in recording.settings:
            source.give_up_if(_changed_setting(source, setting))
        for t, was_none in recording.looked:
            source.give_up_if(f"{source.constant(t)}._grad is {'not ' if was_none else ''}None")
        operands = [_operand(source, s, texts, call) for s in recording.sources]
        if recording.generators:
            source.names.update(save=save_streams, restore=restore_streams, generators=recording.generators)
            source.lines.append("streams = save(generators)")
        link = recording.link
        reads = [] if link is None or link.backward is None else link.backward.reads
        for k in reads:
            source.lines.append(f"x{k} = {operands[k]}")
            operands[k] = f"x{k}"
        source.lines.append(f"r = launch({', '.join(operands)})")
        if recording.generators:
            source.lines.append("if r is None or type(r) is int: restore(streams)")
        source.give_up_if("r is None or type(r) is int")
        for k in recording.writes:
            source.lines.append(f"{_target(source, recording.sources[k], texts)}._counter[0] += 1")
        positions = {id(t): k for k, t in recording.proxies.items()}
        for t, result in recording.grads:
            target = texts[positions[id(t)]] if id(t) in positions else source.constant(t)
            value = "None" if result is None else f"make(asarray(r[{result}]))"
            source.lines.append(f"{target}._grad = {value}")
        source.names.update(recording.names)
        if link is None:
            source.lines.append(f"return {recording.text}")
        else:
            proxies = {id(t): k for k, t in recording.proxies.items()}
            wanted = [texts[proxies[id(t)]] if id(t) in proxies else source.constant(t) for t in link.wanted]
            tensors = [k for k in reads if _is_tensor(recording, k, call)]
            counted = [_target(source, recording.sources[k], texts) for k in tensors] if reads else wanted
            source.names.update(linked=linked, link=link, requires=recording.requires, fn=self._fn)
            lists = (wanted, [f"r[{k}]" for k in recording.payload], [f"x{k}" for k in reads])
            texts_of_lists = [f"[{', '.join(items)}]" for items in (*lists, [f"{t}._counter" for t in counted])]
            source.lines.append(
                f"return linked(link, {recording.text}, requires, {', '.join(texts_of_lists)}, "
                "lambda: fn(*args, **kwargs))"
            )
        return make_function("def replay(args, kwargs):", source)


def _alias_checks(source: Source, call: Call, texts: dict[int, str]) -> None:
    """The same tensor twice among the arguments, or not."""
    tensors = [k for k, kind in enumerate(call.kinds) if kind == TENSOR]
    for i, a in enumerate(tensors):
        for b in tensors[i + 1 :]:
            same = call.leaves[a] is call.leaves[b]
            source.give_up_if(f"{texts[a]} is {'not ' if same else ''}{texts[b]}")


def _operand(source: Source, where: tuple[str, Any], texts: dict[int, str], call: Call) -> str:
    kind, payload = where
    if kind == LEAF:
        return f"{texts[payload]}._data" if call.kinds[payload] == TENSOR else texts[payload]
    if kind == STATE_ARRAY:
        return f"arrays[{payload}]"
    if kind == "number":
        at = f"{source.constant(payload[0])}[{payload[1]!r}]" + (f"[{payload[2]}]" if len(payload) == 3 else "")
        return f"float({at})"
    if kind == "fresh":
        return f"asarray({source.constant(payload[0])}())"
    return f"{_tensor_text(source, payload)}._data"


def _listed(reasons: list[str]) -> str:
    """The first few reasons, and how many more there are."""
    unique = list(dict.fromkeys(reasons))
    rest = len(unique) - 3
    return "; ".join(unique[:3]) + (f"; and {rest} more" if rest > 0 else "")


def save_streams(generators: list[Any]) -> list[tuple[Any, Any]]:
    """Where these random generators stand, so that a run which misses can be as if it had not drawn."""
    return [(g, g._stream.bit_generator.state) for g in generators]


def restore_streams(saved: list[tuple[Any, Any]]) -> None:
    for generator, state in saved:
        generator._stream.bit_generator.state = state


def _changed_setting(source: Source, setting: Setting) -> str:
    """The condition under which a number of an optimizer is no longer what the recording relies on."""
    at = f"{source.constant(setting.group)}[{setting.key!r}]"
    if not setting.live:
        return f"{at} != {source.constant(setting.value)}"
    if type(setting.value) is not tuple:
        return f"{at} {'!=' if setting.value == 0 else '=='} 0"
    tests = [f"{at}[{k}] {'!=' if v == 0 else '=='} 0" for k, v in enumerate(setting.value)]
    return " or ".join(tests)


def _target(source: Source, where: tuple[str, Any], texts: dict[int, str]) -> str:
    """The text of the tensor that an input is read from."""
    kind, payload = where
    return texts[payload] if kind == LEAF else _tensor_text(source, payload)


def _tensor_text(source: Source, root: Root) -> str:
    return f"{source.constant(root.owner)}._grad" if root.owner is not None else source.constant(root.tensor)


def _value(var: Any, where: tuple[str, Any], call: Call, arrays: tuple[Any, ...], capture: Any) -> Any:
    """What an input is now.  While *capture* is at hand, random numbers are those that the recorded run has drawn."""
    kind, payload = where
    if kind == LEAF:
        leaf = call.leaves[payload]
        return leaf._data if isinstance(leaf, Tensor) else leaf
    if kind == STATE_ARRAY:
        return arrays[payload]
    if kind == "number":
        return float(number_at(payload))
    if kind == "fresh":
        return capture.recorder.env[var] if capture is not None else np.asarray(payload[0]())
    return (payload.tensor if payload.owner is None else payload.owner._grad)._data


def _tensor_at(recording: TensorRecording, k: int, call: Call) -> Tensor:
    kind, payload = recording.sources[k]
    if kind == LEAF:
        return call.leaves[payload]
    return payload.tensor if payload.owner is None else payload.owner._grad


def _is_tensor(recording: TensorRecording, k: int, call: Call) -> bool:
    """Is input k the memory of a tensor?"""
    kind, payload = recording.sources[k]
    return kind == "root" or (kind == LEAF and call.kinds[payload] == TENSOR)


def _argument_or(t: Tensor, recording: TensorRecording, call: Call) -> Tensor:
    """*t*, or the argument of this call that it stood for while recording."""
    for position, proxy in recording.proxies.items():
        if proxy is t:
            return call.leaves[position]
    return t


def _facts_hold(recording: TensorRecording) -> bool:
    tensors = [*recording.tensors, *[t for t, _ in recording.grads]]
    now = {id(t): tensor_facts(t) for t in tensors}
    return all(now.get(f[0], f) == f for f in recording.facts) and all(s.holds() for s in recording.settings)


def _aliases(call: Call) -> tuple[int, ...]:
    """Which tensor arguments are the same object, and which share memory with a different layout of objects."""
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
