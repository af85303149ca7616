"""Recordings of runs of eager code, for ``compile`` (``step.py``) and compiled functions of tensors
(``functions.py``), and their replays.

The results of a ``TensorRecording`` are the values written to memory, those assigned to ``.grad``, and the returned
ones; it has the place of each of its inputs (``step_places.py``) and the facts that it relies on.  ``step_finished.py``
makes it of a run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..runtime.launch.comparisons import distinct
from ..runtime.record.arguments import shows_memory
from ..runtime.record.call_key import INTEGER, TENSOR, Call
from ..runtime.record.effects import OutsideEffect
from ..runtime.record.recording import Recording
from ..runtime.record.trees import Source, make_function
from ..tensors.capture import Capture, overlap
from ..tensors.hooks import at_leaf
from ..tensors.modes import STATE
from ..tensors.node import epoch
from ..tensors.op import for_kernel
from ..tensors.tensor import Tensor
from .step_autograd import Link, linked
from .step_places import LEAF, STATE_ARRAY, Place, is_plain, key_of, text_at
from .tensor_facts import tensor_facts


@dataclass(frozen=True, slots=True)
class Placement:
    """Flags of the inputs and results of a recording on a CUDA device that lie on the host."""

    inputs: list[bool]
    results: list[bool]


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
    exact: ClassVar[bool] = True

    def release(self) -> None:
        super().release()
        self.capture = None

    @property
    def generators(self) -> list[Any]:
        """The random generators that a run draws from before it is known whether it will be taken."""
        return list({id(place[2]): place[2] for place in self.places if place[0] == "fresh"}.values())

    @property
    def plain(self) -> bool:
        return False

    @property
    def facts(self) -> list[Any]:
        return [*super().facts, *self.premises]

    @property
    def relies_on(self) -> Hashable:
        places = [*self.places, *[place for place, _ in self.looked]]
        return (*map(key_of, places), *map(id, self.arguments_as), *[(k, *own) for k, own in self.held], *self.premises)

    @property
    def premises(self) -> list[Hashable]:
        looked = [none for _, none in self.looked]
        same = [(key_of(one), key_of(other)) for one, other in self.one_memory]
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
        for effect in self.effects:
            if isinstance(effect, OutsideEffect) and effect.sink is not None and effect.sink.kind is np.ndarray:
                there = effect.sink.place(source, texts)
                for place in [place for place in self.places if place[0] == STATE_ARRAY]:
                    source.give_up_if(f"{source.constant(shows_memory)}(arrays[{place[1]}], {there})")
        tensors = [k for k, kind in enumerate(call.kinds) if kind == TENSOR]
        self._check_arguments(source, call, texts, tensors)
        self._check_grads(source, texts)
        for k, own in self.held:
            for given in tensors:
                source.give_up_if(f"{texts[given]} is {'not ' if given in own else ''}arrays[{k}]")
        for one, other in self.one_memory:
            source.give_up_if(f"{text_at(source, one, texts)}._data is not {text_at(source, other, texts)}._data")
        if self.writes and self.free:
            self._check_memory(source, call, texts)

    def _check_arguments(self, source: Source, call: Call, texts: Sequence[str], tensors: Sequence[int]) -> None:
        """Each tensor among the arguments is one like that of the recording, and each pair one object or two."""
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
        for a, b in itertools.combinations(tensors, 2):
            same = call.leaves[a] is call.leaves[b]
            source.give_up_if(f"{texts[a]} is {'not ' if same else ''}{texts[b]}")

    def _check_grads(self, source: Source, texts: Sequence[str]) -> None:
        """Each ``.grad`` is there or not, as it was; those that are inputs are plain, and no two show one memory."""
        for place, was_none in self.looked:
            source.give_up_if(f"{text_at(source, place, texts)}._grad is {'not ' if was_none else ''}None")
        grads = [text_at(source, place, texts) for place in self.places if place[0] == "grad"]
        for grad in grads:
            source.give_up_if(f"not {source.constant(is_plain)}({grad})")
        if len(grads) > 1:
            source.give_up_if(f"not {source.constant(distinct)}({', '.join([f'{g}._data' for g in grads])})")

    def _check_memory(self, source: Source, call: Call, texts: Sequence[str]) -> None:
        """Nothing that the kernel writes lies in the memory of an array that may be another one in each call."""
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
        return f"{text_at(source, place, texts)}._data"

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
            [text_at(source, place, texts) for place in self.wanted],
            [f"r[{k}]" for k in self.payload],
            [operands[k] for k in self._reads],
            [f"{text_at(source, place, texts)}._counter" for place in self.counted],
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
