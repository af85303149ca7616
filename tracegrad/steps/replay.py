"""The replay of a compiled step: one path as straight-line Python that checks, launches, takes effect.

Two data structures: a ``StepVariant`` is one kind of call under one outside state; it holds the ``StepPath`` objects
that its branches have shown.  ``make_replay`` writes the Python for one path, as ``fast_path.py`` does for compiled
functions; the functions after it read and write the inputs of a recording (its ``sources``) without generated code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..codegen.cpu.assemble import Program
from ..runtime.paths.fast_path import call_leaves, check_value
from ..runtime.record.call_key import OBJECT, TENSOR, VALUE, Call, unwrap
from ..runtime.record.trees import Source, make_function
from ..runtime.state.state_plan import Snapshot
from ..tensors.capture import Root, number_at
from ..tensors.modes import STATE
from ..tensors.tensor import Tensor, epoch, make
from ..tracer.record.autocast import SETTING
from .device_program import StepProgram
from .step_autograd import as_array, linked
from .step_recording import LEAF, STATE_ARRAY, Setting, TensorRecording

Replay = Callable[[tuple[Any, ...], dict[str, Any]], Any]
MISS = object()


@dataclass(eq=False, slots=True)
class StepPath:
    """One recording bound to its kernel.  ``replay(args, kwargs)`` gives the result, or ``MISS``."""

    recording: TensorRecording
    program: Program | StepProgram
    launch: Callable[..., Any]
    known: list[int]  # the epoch up to which the facts that it relies on hold
    replay: Replay | None = None
    verified: bool = False


@dataclass(eq=False, slots=True)
class StepVariant:
    """One kind of call under one outside state, with the branches it has taken."""

    snapshot: Snapshot
    paths: list[StepPath] = field(default_factory=list)


def make_replay(fn: Callable[..., Any], call: Call, variant: StepVariant, path: StepPath) -> Replay:
    """The path as straight-line Python: checks, one launch, effects, result."""
    recording = path.recording
    source = Source(otherwise="MISS")
    source.names.update(
        read=variant.snapshot.read, launch=path.launch, STATE=STATE, SETTING=SETTING, epoch=epoch, known=path.known,
        Tensor=Tensor, MISS=MISS, make=make, asarray=np.asarray if recording.on_host is None else as_array, float=float,
    )  # fmt: skip
    source.lines.append(
        f"if epoch() != known[0] or STATE.grad is not {STATE.grad} or STATE.anomaly or STATE.inference "
        f"or SETTING.dtype is not {source.constant(SETTING.dtype)}: return MISS"
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
    launch = f"r = launch({', '.join(operands)})"
    if recording.generators:
        source.lines.append(f"try: {launch}")
        source.lines.append("except BaseException: restore(streams); raise")
        source.lines.append("if r is None or type(r) is int: restore(streams)")
    else:
        source.lines.append(launch)
    source.give_up_if("r is None or type(r) is int")
    for k, times in zip(recording.writes, recording.times, strict=True):
        source.lines.append(f"{_target(source, recording.sources[k], texts)}._counter[0] += {times}")
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
        tensors = [k for k in reads if is_tensor(recording, k, call)]
        counted = [_target(source, recording.sources[k], texts) for k in tensors] if reads else wanted
        source.names.update(linked=linked, link=link, requires=recording.requires, fn=fn)
        lists = (wanted, [f"r[{k}]" for k in recording.payload], [f"x{k}" for k in reads])
        texts_of_lists = [f"[{', '.join(items)}]" for items in (*lists, [f"{t}._counter" for t in counted])]
        source.lines.append(
            f"return linked(link, {recording.text}, requires, {', '.join(texts_of_lists)}, lambda: fn(*args, **kwargs))"
        )
    return make_function("def replay(args, kwargs):", source)


def _alias_checks(source: Source, call: Call, texts: dict[int, str]) -> None:
    """Add conditions on the identity of tensor arguments: each pair is one object or two, as in the recording."""
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


def save_streams(generators: list[Any]) -> list[tuple[Any, Any]]:
    """The states of these random generators, to undo the draws of a run that misses."""
    return [(g, g._stream.bit_generator.state) for g in generators]


def restore_streams(saved: list[tuple[Any, Any]]) -> None:
    for generator, state in saved:
        generator._stream.bit_generator.state = state


def _changed_setting(source: Source, setting: Setting) -> str:
    """The condition under which a number of an optimizer violates the recording's assumption."""
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


def values_of(recording: TensorRecording, call: Call, arrays: tuple[Any, ...], capture: Any) -> list[Any]:
    """The inputs of a recording as they are now; see ``value_of``."""
    inputs = zip(recording.graph.inputs, recording.sources, strict=True)
    return [value_of(var, where, call, arrays, capture) for var, where in inputs]


def value_of(var: Any, where: tuple[str, Any], call: Call, arrays: tuple[Any, ...], capture: Any) -> Any:
    """An input as it is now.  While *capture* is at hand, random numbers are those that the recorded run has drawn."""
    kind, payload = where
    if kind == LEAF:
        leaf = call.leaves[payload]
        return leaf._data if isinstance(leaf, Tensor) else leaf
    if kind == STATE_ARRAY:
        return arrays[payload]
    if kind == "number":
        return float(number_at(payload))
    if kind == "fresh":
        return capture.drawn[var] if capture is not None else np.asarray(payload[0]())
    return (payload.tensor if payload.owner is None else payload.owner._grad)._data


def tensor_at(recording: TensorRecording, k: int, call: Call) -> Tensor:
    kind, payload = recording.sources[k]
    if kind == LEAF:
        return call.leaves[payload]
    return payload.tensor if payload.owner is None else payload.owner._grad


def is_tensor(recording: TensorRecording, k: int, call: Call) -> bool:
    """Whether input k is the memory of a tensor."""
    kind, payload = recording.sources[k]
    return kind == "root" or (kind == LEAF and call.kinds[payload] == TENSOR)


def argument_or(t: Tensor, recording: TensorRecording, call: Call) -> Tensor:
    """*t*, or the argument of this call that it stood for while recording."""
    for position, proxy in recording.proxies.items():
        if proxy is t:
            return call.leaves[position]
    return t
