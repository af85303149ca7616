"""Recordings of runs of eager code, for ``compile`` (``step.py``) and compiled functions of tensors
(``functions.py``).

``finished`` makes a ``TensorRecording`` of a run under a ``Capture`` (``logged_step.py``): a recording whose results
are the values written to memory, those assigned to ``.grad``, and the returned ones, with the place of each of its
inputs and the facts that it relies on.

A *place* says where a replay finds a number, an array or a tensor: ``("leaf", position in the call)``, ``("state",
position among the snapshot's arrays)``, ``("held", position of a tensor among these)``, ``("tensor", t)``, ``("grad",
place of the tensor)``, ``("fresh", draw, generator)``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from ..codegen.lower.canonical import canonicalise
from ..codegen.lower.half_precision import CUDA_PRODUCTS
from ..codegen.lower.host_device_split import divide
from ..codegen.lower.simplify import simplify
from ..codegen.lower.strips import in_strips
from ..runtime.logged.reads import NotClosedError, not_closed
from ..runtime.record.call_key import ARRAY, FLOAT, INTEGER, SCALAR, TENSOR, Call
from ..runtime.record.complex_data import as_result, text_of
from ..runtime.record.derive import sort_guards
from ..runtime.record.effects import Effects, Expression, OutsideEffect
from ..runtime.record.held_values import holds_traced
from ..runtime.record.outputs import Output, data_of, leaf_text, packed
from ..runtime.record.recording import Effect, Recording
from ..runtime.record.trees import Source, make_function
from ..runtime.state.snapshot import Snapshot
from ..runtime.state.values import distinct
from ..tensors.backward_pass import collect
from ..tensors.capture import Capture, overlap
from ..tensors.device import CPU, on_cuda
from ..tensors.hooks import at_leaf
from ..tensors.modes import STATE
from ..tensors.node import epoch
from ..tensors.op import for_kernel
from ..tensors.tensor import Tensor, make
from ..tracer.ir.aval import Aval
from ..tracer.ir.graph import Atom, Lit, Var, building
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.ops.elementwise import broadcast_to, cast
from ..tracer.record.array import TracedArray
from ..tracer.record.constants import call_method
from ..tracer.record.integers import Integers
from ..tracer.record.recorder import Recorder
from ..tracer.record.shown_text import Shown
from ..tracer.reroll.roll import rolled
from .leaving import Leaving, tensor_of
from .step_autograd import Link, as_array, finish, linked, tensors_in
from .tensor_facts import tensor_facts

LEAF, STATE_ARRAY, HELD = "leaf", "state", "held"
Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Flags of the inputs and results of a recording on a CUDA device that lie on the host."""

    inputs: list[bool]
    results: list[bool]


@dataclass(frozen=True, slots=True)
class MemoryWritten:
    """The kernel has written into the memory of a tensor, whose version goes up by *times*."""

    place: Place
    times: int

    @property
    def key(self) -> Hashable:
        return "written", _key(self.place), self.times

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        if not recorded:
            source.lines.append(f"{_text(source, self.place, texts)}._counter[0] += {self.times}")


@dataclass(frozen=True, slots=True)
class GradAssigned:
    """A result of the kernel becomes the ``.grad`` of a tensor; None: it has none from then on."""

    place: Place
    result: int | None
    aval: Aval | None = None

    @property
    def key(self) -> Hashable:
        return "grad", _key(self.place), self.result

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        value = "None" if self.aval is None else tensor_of(source, text_of(self.aval, source, f"r[{self.result}]"))
        source.lines.append(f"{_text(source, self.place, texts)}._grad = {value}")


@dataclass(frozen=True, slots=True)
class TensorMade:
    """A tensor that stands in several places, or shares its memory with another one that leaves the run."""

    name: str
    made: Expression

    @property
    def key(self) -> Hashable:
        return "made", self.name

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        self.made(source, texts)


@dataclass(kw_only=True)
class TensorRecording(Recording):
    """Results of the graph: ``writes`` (input whose memory takes result k), then those of ``GradAssigned`` effects and
    the returned ones, whose numbers count from after the writes."""

    places: list[Place]  # of the inputs
    writes: list[int]
    looked: list[tuple[Place, bool]]  # (tensor whose .grad was read, whether it was None)
    held: list[tuple[int, list[int]]]  # (a tensor's position in the state, the leaves that it is)
    tensors: list[tuple[Tensor, tuple[Any, ...]]]  # from outside, and the facts about them
    arguments_as: list[Tensor | None]  # for each leaf the tensor that it has to be, if any
    complexes: frozenset[int]  # inputs that are lanes of complex tensors
    free: list[int]  # inputs that are arrays, perhaps others in each call
    memory: Memory  # of the other tensors
    one_memory: list[tuple[Place, Place]]  # an argument, and another tensor over its array
    link: Link | None  # derivative of the returned tensors (``step_autograd.py``)
    wanted: list[Place]  # the tensors of the link
    counted: list[Place]  # those that must not be written to before its backward
    payload: list[int]  # the results that go with the link
    requires: list[bool]  # whether each returned tensor requires gradients
    fn: Callable[..., Any]
    capture: Capture | None
    on_host: Placement | None  # inputs and results on the host, of a recording on a CUDA device
    _check: Callable[..., bool] | None = None  # of ``holds``
    _written: Callable[..., list[Any]] | None = None  # the containers outside that it writes
    _read: Callable[..., list[Any]] | None = None  # of ``values``

    def release(self) -> None:
        super().release()
        self.capture = None

    @property
    def generators(self) -> list[Any]:
        """The random generators that a run draws from before it is known whether it will be taken."""
        return list({id(place[2]): place[2] for place in self.places if place[0] == "fresh"}.values())

    @property
    def exact(self) -> bool:
        return True

    @property
    def plain(self) -> bool:
        return False

    @property
    def facts(self) -> list[Any]:
        return [*super().facts, *self.premises]

    @property
    def relies_on(self) -> Hashable:
        places = [*self.places, *[place for place, _ in self.looked]]
        return (*map(_key, places), *map(id, self.arguments_as), *[(k, *own) for k, own in self.held], *self.premises)

    @property
    def premises(self) -> list[Hashable]:
        looked = [none for _, none in self.looked]
        same = [(_key(one), _key(other)) for one, other in self.one_memory]
        return [*super().premises, *looked, *same, *[facts for _, facts in self.tensors]]

    def holds(self, call: Call, arrays: Sequence[Any]) -> bool:
        """Whether the facts hold for *call*, whose key and state (*arrays*) are those of the recording."""
        if self._check is None:
            source = Source(otherwise="False")
            self.check(source, call, _leaves(call))
            source.lines.append("return True")
            self._check = make_function("def holds(leaves, args, arrays):", source)
            sinks = [e.sink for e in self.effects if isinstance(e, OutsideEffect) and e.sink is not None]
            source = Source()
            owners = [sink.place(source, _leaves(call)) for sink in sinks]
            owners = [text for text in owners if not text.startswith(("args[", "kwargs["))]  # arguments themselves
            if owners:
                source.lines.append(f"return [{', '.join(owners)}]")
                self._written = make_function("def written(leaves, args, kwargs, arrays):", source)
        if any(tensor_facts(t) != facts for t, facts in self.tensors):
            return False
        self.memory.look()
        if not (self.memory.disjoint and self._check(call.leaves, call.arguments[0], arrays)):
            return False
        if not call.containers or self._written is None:
            return True
        written = set(map(id, self._written(call.leaves, *call.arguments, arrays)))
        return written.isdisjoint(map(id, call.containers))  # what is written outside is no argument

    def values(self, call: Call, arrays: Sequence[Any]) -> list[Any]:
        read = self._read
        if read is None:
            source, leaves = Source(), _leaves(call)
            operands = self._operands(source, call, leaves)
            if self.capture is not None:  # what the recorded run has drawn
                drawn = self.capture.drawn
                for k, var in enumerate(self.graph.inputs):
                    if var in drawn:
                        operands[k] = source.constant(drawn[var])
            source.lines.append(f"return [{', '.join(operands)}]")
            read = make_function("def values(leaves, arrays):", source)
            self._read = None if self.capture is not None else read
        return read(call.leaves, arrays)

    # ---- a replay as text ----------------------------------------------------------------------------------------

    def enter(self, source: Source) -> None:
        source.names.update(epoch=epoch, STATE=STATE)
        source.give_up_if(f"epoch() != known[0] or STATE.grad is not {STATE.grad} or STATE.anomaly or STATE.inference")

    def check(self, source: Source, call: Call, texts: Sequence[str]) -> None:
        super().check(source, call, texts)
        tensors = [k for k, kind in enumerate(call.kinds) if kind == TENSOR]
        for k in tensors:
            leaf, fixed = call.leaves[k], self.arguments_as[k]
            kind = source.constant(type(leaf))
            source.give_up_if(
                f"{source.constant(type)}({texts[k]}) is not {kind} or {texts[k]}._requires is not {leaf._requires}"
            )
            if fixed is not None:
                source.give_up_if(f"{texts[k]} is not {source.constant(fixed)}")
            elif leaf._requires:
                source.give_up_if(f"{source.constant(at_leaf)}({texts[k]})")
        for a, b in itertools.combinations(tensors, 2):  # each pair is one object or two, as in the recording
            same = call.leaves[a] is call.leaves[b]
            source.give_up_if(f"{texts[a]} is {'not ' if same else ''}{texts[b]}")
        for place, was_none in self.looked:
            source.give_up_if(f"{_text(source, place, texts)}._grad is {'not ' if was_none else ''}None")
        grads = [_text(source, place, texts) for place in self.places if place[0] == "grad"]
        for grad in grads:
            source.give_up_if(f"not {source.constant(_is_plain)}({grad})")
        if len(grads) > 1:
            source.give_up_if(f"not {source.constant(distinct)}({', '.join([f'{g}._data' for g in grads])})")
        for k, own in self.held:
            for given in tensors:
                source.give_up_if(f"{texts[given]} is {'not ' if given in own else ''}arrays[{k}]")
        for one, other in self.one_memory:
            source.give_up_if(f"{_text(source, one, texts)}._data is not {_text(source, other, texts)}._data")
        if self.writes and self.free:
            operands = {k: self._operand(source, self.places[k], call, _each(call, texts)) for k in self.free}
            written = [text for k, text in operands.items() if k in self.writes]
            read = [text for k, text in operands.items() if k not in self.writes]
            both = ", ".join(["".join([f"{text}, " for text in each]).join("()") for each in (written, read)])
            shared = f"not {source.constant(self.memory.apart)}({both})"
            if not written:
                number, changed = source.constant(id), source.constant(self.memory.changed)
                near = [f"{number}({x} if {x}.base is None else {x}.base) in {changed}" for x in read]
                shared = f"({' or '.join(near)}) and {shared}"
            source.give_up_if(shared)

    def operands(self, source: Source, call: Call, texts: Sequence[str]) -> list[str]:
        if self.generators:
            source.names.update(save=save_streams, restore=restore_streams, generators=self.generators)
            source.lines.append("streams = save(generators)")
        operands = self._operands(source, call, _each(call, texts))
        for k in self._reads:
            source.lines.append(f"x{k} = {operands[k]}")
            operands[k] = f"x{k}"
        return operands

    @property
    def _reads(self) -> list[int]:
        """The inputs that the backward of the result reads."""
        return [] if self.link is None or self.link.backward is None else self.link.backward.reads

    def _operand(self, source: Source, place: Place, call: Call, texts: Sequence[str]) -> str:
        kind, payload = place[:2]
        if kind == LEAF:
            kind, text = call.kinds[payload], texts[payload]
            return f"{text}._data" if kind == TENSOR else f"{text} + 0.0" if kind == INTEGER else text
        if kind == STATE_ARRAY:
            return f"arrays[{payload}]"
        if kind == "fresh":
            source.names["asarray"] = np.asarray
            return f"asarray({source.constant(payload)}())"
        return f"{_text(source, place, texts)}._data"

    def _operands(self, source: Source, call: Call, texts: Sequence[str]) -> list[str]:
        """The texts of the inputs as the kernel takes them."""
        operands = [self._operand(source, place, call, texts) for place in self.places]
        for k in self.complexes:
            operands[k] = f"{source.constant(for_kernel)}({operands[k]})"
        return operands

    def arrays_among(self, call: Call) -> str:
        return f"values[{len(self.places)}:]"

    def launch(self, source: Source, statement: str) -> str:
        if not self.generators:
            return super().launch(source, statement)
        source.lines += [f"try: {statement}", "except BaseException: restore(streams); raise"]
        return "restore(streams); "

    def result(self, source: Source, texts: Sequence[str], operands: Sequence[str]) -> str:
        text = super().result(source, texts, operands)
        link = self.link
        if link is None:
            return text
        source.names.update(linked=linked, link=link, requires=self.requires, fn=self.fn)
        lists = (
            [_text(source, place, texts) for place in self.wanted],
            [f"r[{k}]" for k in self.payload],
            [operands[k] for k in self._reads],
            [f"{_text(source, place, texts)}._counter" for place in self.counted],
        )
        given = ", ".join([f"[{', '.join(items)}]" for items in lists])
        return f"linked(link, {text}, requires, {given}, lambda: fn(*args, **kwargs))"


class Memory:
    """The memory of the tensors from outside that a recording always finds: *tensors*, of which some are *written*."""

    def __init__(self, tensors: Sequence[Tensor], written: Sequence[Tensor]) -> None:
        among = {*map(id, written)}
        self._written, self._read = written, [t for t in tensors if id(t) not in among]
        self.changed: set[int] = set()  # ids of arrays that show what is written
        self.look()

    def look(self) -> None:
        """See where it is: a tensor may have got other memory (``t.data = ...``)."""
        self.changed.clear()
        self.changed.update(*[_owners(t._data) for t in self._written])
        self._owners = self.changed.union(*[_owners(t._data) for t in self._read])
        self.disjoint = overlap(self._arrays(), [True] * len(self._written)) is None

    def apart(self, written: Sequence[Any], read: Sequence[Any]) -> bool:
        """Whether nothing that is written, of these arrays or at all, lies in the memory of another array."""
        owners = {id(x if x.base is None else x.base) for x in written}
        others = [id(x if x.base is None else x.base) for x in read]
        own = len(owners) == len(written) and self._owners.isdisjoint(owners) and owners.isdisjoint(others)
        if own and self.changed.isdisjoint(others):
            return True
        return overlap([*written, *self._arrays(), *read], [True] * (len(written) + len(self._written))) is None

    def _arrays(self) -> list[Any]:
        """All of it, what is written first."""
        return [t._data for t in (*self._written, *self._read)]


def _owners(array: Any) -> Iterator[int]:
    """The ids of *array* and of the objects whose memory it shows."""
    while array is not None:
        yield id(array)
        array = getattr(array, "base", None)


def _key(place: Place) -> Hashable:
    """The identity of a place: the draw is made anew by each run."""
    if place[0] == "fresh":
        return "fresh", id(place[2])
    return tuple([_key(p) if type(p) is tuple else p if type(p) in (int, str) else id(p) for p in place])


def _text(source: Source, place: Place, texts: Sequence[str]) -> str:
    """The text of the tensor at a place."""
    kind, payload = place
    if kind == "grad":
        return f"{_text(source, payload, texts)}._grad"
    if kind == HELD:
        return f"arrays[{payload}]"
    return texts[payload] if kind == LEAF else source.constant(payload)


def _each(call: Call, texts: Sequence[str]) -> Sequence[str]:
    """The texts of the leaves, where these are positional arrays and numbers alone, too."""
    return [f"args[{k}]" for k in range(len(call.leaves))] if texts[:1] == ["*args"] else texts


def _leaves(call: Call) -> list[str]:
    return [f"leaves[{k}]" for k in range(len(call.leaves))]


def save_streams(generators: list[Any]) -> list[tuple[Any, Any]]:
    """The states of these random generators, to undo the draws of a run that misses."""
    return [(g, g._stream.bit_generator.state) for g in generators]


def restore_streams(saved: list[tuple[Any, Any]]) -> None:
    for generator, state in saved:
        generator._stream.bit_generator.state = state


def recorder_of_tensors() -> Recorder:
    """A recorder for a run of eager code."""
    recorder = Recorder()
    recorder.rolls = recorder.of_tensors = recorder.repeatable = True
    recorder.call_method = call_method
    return recorder


def arguments_of(
    capture: Capture, integers: Integers, call: Call, names: Sequence[str], tensors: Collection[int]
) -> tuple[list[Any], dict[int, Tensor]]:
    """(the leaves of the call as a run gets them, the tensors among them that stand for arguments, by position);
    *tensors*: the ids of those that do, while others are the very tensors that a replay has to be given."""
    recorder, leaves = capture.recorder, list(call.leaves)
    proxies: dict[int, Tensor] = {}
    for k, (leaf, kind) in enumerate(zip(call.leaves, call.kinds, strict=True)):
        if kind in (ARRAY, FLOAT, SCALAR):
            var = capture.add_input(LEAF, leaf, f"the argument `{names[k]}`", k, weak=kind == FLOAT)
            stand_in = TracedArray(var, recorder, owner=f"the argument `{names[k]}`" if kind == ARRAY else None)
            leaves[k] = capture.put(stand_in, CPU)
        elif kind == INTEGER:
            var = capture.add_input(LEAF, float(leaf), f"the argument `{names[k]}`", k, weak=True)
            leaves[k] = integers.stand_in(var, leaf, k)
        elif kind == TENSOR and id(leaf) in tensors:
            leaves[k] = proxies[k] = _argument(capture, leaf, k, names[k])
    return leaves, proxies


def _argument(capture: Capture, t: Tensor, position: int, name: str) -> Tensor:
    """The tensor that stands for an argument in the run; its memory is read where the argument of the call is."""
    proxy = t
    if at_leaf(t):
        raise not_closed(f"`{name}`, an argument with hooks")
    if t._base is not None:
        if t._requires:
            raise NotClosedError(Refusal.STEP_VIEW(name=name))
        proxy = object.__new__(Tensor)
        proxy._data, proxy._counter = t._data, t._counter
        capture.originals[id(proxy)] = t
    known = capture.root_of(proxy)
    if known is None:
        capture.raw(proxy)
        capture.sources[-1] = (LEAF, position)
    return proxy


def finished(
    capture: Capture, fn: Callable[..., Any], out: Any, proxies: dict[int, Tensor], held: dict[int, int], call: Call,
    snapshot: Snapshot, found: Effects, leaving: Leaving, integers: Integers,
) -> TensorRecording:  # fmt: skip
    """The recording of a run that is over, whose log is closed."""
    recorder = capture.recorder
    leaf_of = {id(t): k for k, t in proxies.items()}

    def place_of(t: Tensor) -> Place:
        if id(t) in held:
            return HELD, held[id(t)]
        return (LEAF, leaf_of[id(t)]) if id(t) in leaf_of else ("tensor", t)

    leaving.text_of = lambda t, source, texts: _text(source, place_of(t), texts)
    places: list[Place] = []
    for kind, payload in capture.sources:
        if kind == "root":
            places.append(place_of(payload.tensor) if payload.owner is None else ("grad", place_of(payload.owner)))
        else:
            places.append((kind, *payload) if type(payload) is tuple else (kind, payload))
    effects: list[Effect] = []
    changes: list[Reason] = []
    shared = {id(t._data) for t in capture.touched if id(t) not in held}
    for t in capture.touched:
        if id(t) in held and id(t._data) in shared:  # the next one need not show the same memory
            changes.append(Refusal.REPLAY_CHANGES(name=snapshot.graph.tensors[id(t)]))
    written: list[Atom] = []
    results: list[Atom] = []
    on_host: list[bool] = []  # whether each of these lies on the host
    writes: list[int] = []
    positions = {var: k for k, var in enumerate(recorder.inputs)}
    for root in capture.roots:
        if root.written:
            writes.append(positions[root.var])
            effects.append(MemoryWritten(places[writes[-1]], max(root.tensor._counter[0] - root.version, 1)))
            written.append(_shaped(root.contents, root.var))
            on_host.append(not on_cuda(root.array))
    known: set[int] = set()
    made: dict[int, int] = {}  # id of a tensor that is in several places: its result
    for t, grad in capture.grads.values():
        if grad is None:
            effects.append(GradAssigned(place_of(t), None))
            continue
        known.add(id(grad))
        if grad is t._grad and capture.root_of(grad) is not None:
            continue  # accumulated in place: a write
        if type(grad._data) is not TracedArray:
            changes.append(Refusal.STEP_GRAD())
        if grad._node is not None:
            changes.append(Refusal.STEP_GRAD_GRAPH())
        atom = capture.raw(grad).atom
        effects.append(GradAssigned(place_of(t), made.setdefault(id(grad), len(results)), atom.aval))
        if made[id(grad)] == len(results):
            results.append(as_result(atom))
            on_host.append(capture.device_of(capture.raw(grad)).type == "cpu")
    source = Source("o")
    source.names.update(make=make, asarray=np.asarray if capture.device.type == "cpu" else as_array)
    chains: list[Any] = []  # the operations by which returned views show memory from outside; parts of texts
    leaf_texts = [leaf_text(k) for k in range(len(call.leaves))]
    returned: dict[int, int] = {}
    link, connected = capture.link, []  # for each tensor in the result, whether it requires gradients

    def found_before(t: Tensor) -> str | None:
        """The text of a ``.grad`` that was there before the run, and is still in its place."""
        owner = next((r.owner for r in capture.roots if r.tensor is t and r.owner is not None), None)
        if owner is None:
            return None
        if capture.grads.get(id(owner), (owner, t))[1] is not t:
            changes.append(Refusal.STEP_GRAD())
        return _text(source, ("grad", place_of(owner)), leaf_texts)

    def composed(text: str) -> tuple[None, str] | None:
        """The text of a returned text, if traced arrays stand in it."""
        pieces = [] if recorder.texts is None else recorder.texts.pieces(text)
        if len(pieces) < 2:
            return None
        parts = []
        for piece in pieces:
            if isinstance(piece, str):
                parts.append(repr(piece))
            else:
                number = ".item()" if piece.value.aval.weak else ""
                parts.append(f"{source.constant(Shown(None, piece.how, piece.spec).write)}(r[{len(results)}]{number})")
                results.append(piece.value.atom)
                on_host.append(True)
        chains.append([piece if isinstance(piece, str) else (repr(piece.how), piece.spec) for piece in pieces])
        return None, f"''.join(({', '.join(parts)},))"

    def data(leaf: Any) -> tuple[Atom | None, str] | None:
        if isinstance(leaf, str):
            return composed(leaf)
        if not isinstance(leaf, Tensor):
            is_float = isinstance(leaf, TracedArray) and leaf.atom.aval.weak and leaf.atom.aval.is_float
            form = ".item()" if is_float else ""
            datum = data_of(leaf)
            on_host.extend([True] * (datum is not None))
            return None if datum is None else (datum[0], datum[1] + form)
        traced = type(leaf._data) is TracedArray
        connected.append(traced and leaf._requires)
        if not traced:
            if id(leaf) in leaf_of:
                return None, leaf_texts[leaf_of[id(leaf)]]
            text = f"arrays[{held[id(leaf)]}]" if id(leaf) in held else found_before(leaf)
            return None if text is None else (None, text)
        shown = leaving.shown(leaf)
        if shown is not None:
            known.update((id(leaf), id(leaf._base)))
            chains.append([(op.name, *map(repr, given)) for op, given in leaf._chain])
            if stands[id(leaf)] == 1 and id(leaf) not in leaving.aliases:
                return None, shown(source, leaf_texts)
            name, made_once = leaving.named_alias(leaf, shown)
            effects.append(TensorMade(name, made_once))
            return None, name
        if leaf._grad is not None:
            changes.append(Refusal.STEP_GRAD_OF_RESULT())
        memory = leaving.leaves(leaf)
        known.update((id(leaf), id(leaf._base)))
        if stands[id(leaf)] == len(memory.leaving) == 1 and id(leaf) not in made:
            on_host.append(leaf.device.type == "cpu")
            index = returned.setdefault(id(leaf._data), len(results))
            return leaf._data.atom, f"t{index}" if id(leaf) in leaving.tensors else "make(asarray({}))"
        atom = memory.base.atom
        index = made.get(id(leaf), returned.setdefault(id(memory.base), len(results)))
        if index == len(results):
            results.append(as_result(atom))
            on_host.append(capture.device_of(memory.base).type == "cpu")
        array: Expression = lambda source, texts: text_of(atom.aval, source, f"r[{index}]")  # noqa: E731
        memory.array = memory.array or array
        name = memory.name(leaf, f"t{index}")
        effects.append(TensorMade(name, lambda source, texts: memory.text(leaf, source, array(source, texts))))
        chains.append([(op.name, *map(repr, given)) for op, given in memory.leaving[id(leaf)][1]])
        return None, name

    parts = tensors_in(out)
    stands = Counter(map(id, parts))
    for part in parts:
        if type(part._data) is TracedArray:
            leaving.leaves(part)
    text, statics = packed(out, source, results, returned, data)
    holders = [part for part in statics if isinstance(part, FunctionType) and holds_traced([part])]
    changes += [Refusal.REPLAY_RETURNS(what=type(part).__name__) for part in holders]
    shown = len(results)
    found.place(results, returned)
    added = [array for array, k in zip(found.arrays, found.indices, strict=True) if k >= shown]
    on_host += [capture.device_of(array).type == "cpu" for array in added]
    effects += found.effects
    first = len(results)
    program = rolled(recorder, [*written, *results, *([] if link is None else link.gradients)])
    integers.rolled(program)
    integers.refuse()
    captured = [float(x) if type(x) is int else x for x in snapshot.arrays]
    scalars = [scalar_type(place, call, captured) for place in places]
    on_device = capture.device.type == "cuda"
    overwritten = {root.var for root in capture.roots if root.written}
    payload, objections = finish(link, program, overwritten, scalars, on_device)
    atoms = [*written, *results, *payload]
    on_host += [not on_device] * len(payload)
    changes += objections
    with building(program):
        numbers = sort_guards(program)
    for guard in numbers:
        changes.append(Refusal.STEP_NUMBER(kind=guard.kind, site=guard.site))
    graph = simplify(program.finish(atoms), CUDA_PRODUCTS if on_device else ())
    if not on_device:
        graph, decisions = in_strips(graph)
        program.notes += decisions
    placement = None
    if on_device:
        placement = Placement([_on_host(kind, payload, call) for kind, payload in capture.sources], on_host)
        if divide(graph, placement.inputs, placement.results) is None:
            changes.append(Refusal.STEP_HOST())
    reads = [] if link is None or link.backward is None else link.backward.reads
    wanted = [] if link is None else [place_of(t) for t in link.wanted]
    counted = [places[k] for k in reads if _is_tensor(places[k], call)] if reads else wanted
    # a .grad is another tensor from time to time, and is looked at where it is
    tensors = [r.tensor for r in capture.roots if r.owner is None or not _is_plain(r.tensor)]
    tensors += [t for t, _ in capture.grads.values()]
    tensors += [] if link is None else link.wanted
    others = {id(t): t for t in tensors if id(t) not in leaf_of and id(t) not in held}
    given = {k: leaf for k, leaf in enumerate(call.leaves) if call.kinds[k] == TENSOR}
    fixed = [None if k in proxies or id(given.get(k)) in held else given.get(k) for k in range(len(call.leaves))]
    own = [(position, [k for k, leaf in given.items() if id(leaf) == key]) for key, position in held.items()]
    looked = [(place_of(t), was_none) for t, was_none in capture.looked.values()]
    grads = {id(t._grad): (t._grad, ("grad", place_of(t))) for t, _ in capture.looked.values() if t._grad is not None}
    seen = [(t, place_of(t)) for t in capture.touched if id(t) not in grads or id(t) in snapshot.graph.tensors]
    met = [(r, place) for t, place in (*seen, *grads.values()) if id(t) not in held and (r := capture.root_of(t))]
    at = [(place, places[positions[root.var]]) for root, place in met]
    one_memory = [pair for pair in at if _key(pair[0]) != _key(pair[1])]
    free = [k for k, place in enumerate(places) if place[0] != "tensor" and scalars[k] is None and place[0] != "fresh"]
    complexes = frozenset(positions[root.var] for root in capture.roots if root.array.dtype.kind == "c")
    always = {k: t for k, (kind, t, *_) in enumerate(places) if kind == "tensor" and type(t._data) is not TracedArray}
    memory = Memory([*always.values()], [t for k, t in always.items() if k in writes])
    output = Output(text, source.names, False, (*statics, repr(chains)))
    return TensorRecording(
        graph, canonicalise(graph), len(places), captured, output, [],
        list(recorder.input_names), changes, tuple(program.capacities), tuple(program.notes), effects=effects,
        answers=[(g.kind, g.answer) for g in recorder.guards],
        questions=tuple(recorder.questions), places=places, writes=writes, looked=looked,
        held=own, tensors=[(t, tensor_facts(t)) for t in others.values()], arguments_as=fixed,
        link=link, wanted=wanted, complexes=complexes, free=free, memory=memory, one_memory=one_memory,
        counted=counted, payload=list(range(first, first + len(payload))), requires=[] if link is None else connected,
        fn=fn, capture=capture, on_host=placement,
    )  # fmt: skip


def _on_host(kind: str, payload: Any, call: Call) -> bool:
    """Whether an input of the capture lies on the host."""
    if kind == "root":
        return not on_cuda(payload.array)
    return not (kind == LEAF and call.kinds[payload] == TENSOR and on_cuda(call.leaves[payload]._data))


def _is_plain(t: Tensor) -> bool:
    """Whether *t* is a tensor without history, and without hooks."""
    return type(t) is Tensor and t._node is None and t._base is None and not (t._requires or at_leaf(t))


def _freed(t: Tensor) -> bool:
    """Whether the backward of *t* has run."""
    return any(node.freed for node in collect([t]))


def _is_tensor(place: Place, call: Call) -> bool:
    """Whether the memory of a tensor is at *place*."""
    return place[0] in ("tensor", "grad", HELD) or (place[0] == LEAF and call.kinds[place[1]] == TENSOR)


def _shaped(atom: Atom, like: Var) -> Atom:
    """*atom* as an array of the shape and dtype that it is written to."""
    if isinstance(atom, Lit) or atom.aval.dtype != like.aval.dtype:
        atom = cast(atom, like.aval.dtype)
    return broadcast_to(atom, like.aval.shape) if atom.aval.shape != like.aval.shape else atom


def scalar_type(place: Place, call: Call, arrays: Sequence[Any]) -> type | None:
    """The Python type of an input that is a number; None for arrays.  *arrays*: those of the state."""
    kind, payload = place[:2]
    if kind == LEAF and call.kinds[payload] not in (ARRAY, TENSOR):
        return float if call.kinds[payload] == INTEGER else type(call.leaves[payload])
    if kind == STATE_ARRAY and not isinstance(arrays[payload], np.ndarray):
        return type(arrays[payload])
    return None
