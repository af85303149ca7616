"""The results of the kernel of a step: the values that it writes to memory, those that it assigns to ``.grad``, and
those that it returns, in this order, with the effects that take them and the text of what is returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..runtime.record.complex_data import as_result, text_of
from ..runtime.record.effects import Effects, Expression
from ..runtime.record.held_values import holds_traced
from ..runtime.record.outputs import Output, data_of, packed
from ..runtime.record.recording import Effect
from ..runtime.record.trees import Source
from ..tensors.capture import Capture
from ..tensors.device import on_cuda
from ..tensors.tensor import Tensor, make
from ..tracer.ir.graph import Atom, Lit, Var
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.ops.elementwise import broadcast_to, cast
from ..tracer.record.array import TracedArray
from ..tracer.record.shown_text import Shown
from .leaving import Leaving
from .step_autograd import as_array, tensors_in
from .step_effects import GradAssigned, MemoryWritten, TensorMade
from .step_places import HELD, LEAF, Places, key_of, text_at

_Datum = tuple[Atom | None, str]  # as `packed` takes it: the atom of a result, if it is one, and the form of its text


class StepResults:
    """The results of one run.  *texts*: those of the leaves of the call."""

    def __init__(self, capture: Capture, places: Places, leaving: Leaving, texts: Sequence[str]) -> None:
        self._capture, self._places, self._leaving, self._texts = capture, places, leaving, texts
        self.written: list[Atom] = []
        self.atoms: list[Atom] = []  # the other results, whose numbers count from after the writes
        self.on_host: list[bool] = []  # whether each of all these lies on the host
        self.writes: list[int] = []  # the inputs whose memory takes the written ones
        self.effects: list[Effect] = []
        self.changes: list[Reason] = []  # reasons against a replay
        self.requires: list[bool] = []  # whether each returned tensor requires gradients
        self._grads: dict[int, int] = {}  # id of a tensor that becomes a `.grad` -> its result
        self._returned: dict[int, int] = {}  # id of a traced array -> its result
        self._stands: Counter[int] = Counter()  # id of a tensor -> in how many places of what is returned it stands
        self._chains: list[Any] = []  # whose memory returned tensors show, and by which operations; parts of texts
        self._source = Source("o")
        self._source.names.update(make=make, asarray=np.asarray if capture.device.type == "cpu" else as_array)

    def write_memory(self) -> None:
        """Have the kernel write what the run has written into tensors from outside."""
        for root in self._capture.roots:
            if root.written:
                k = self._places.position[root.var]
                self.writes.append(k)
                times = max(root.tensor._counter[0] - root.version, 1)
                self.effects.append(MemoryWritten(self._places.inputs[k], times))
                self.written.append(_shaped(root.contents, root.var))
                self.on_host.append(not on_cuda(root.array))

    def assign_grads(self) -> None:
        """Have each tensor get the ``.grad`` that the run has given it."""
        for t, grad in self._capture.grads.values():
            place = self._places.of(t)
            if grad is None:
                self.effects.append(GradAssigned(place, None))
                continue
            if grad is t._grad and self._capture.root_of(grad) is not None:
                continue  # accumulated in place: a write
            if type(grad._data) is not TracedArray:
                self.changes.append(Refusal.STEP_GRAD())
            if grad._node is not None:
                self.changes.append(Refusal.STEP_GRAD_GRAPH())
            data = self._capture.raw(grad)
            index = self._grads.setdefault(id(grad), len(self.atoms))
            self.effects.append(GradAssigned(place, index, data.atom.aval))
            if index == len(self.atoms):
                self._add(data)

    def return_all(self, out: Any) -> Output:
        """The text of what the run returns."""
        parts = tensors_in(out)
        self._stands = Counter(map(id, parts))
        for part in parts:
            if type(part._data) is TracedArray:
                self._leaving.leaves(part)
        text, statics = packed(out, self._source, self.atoms, self._returned, self._data)
        holders = [part for part in statics if isinstance(part, FunctionType) and holds_traced([part])]
        self.changes += [Refusal.REPLAY_RETURNS(what=type(part).__name__) for part in holders]
        return Output(text, self._source.names, False, (*statics, repr(self._chains)))

    def take(self, found: Effects) -> None:
        """Add the effects on Python's objects, and the results that they need."""
        shown = len(self.atoms)
        found.place(self.atoms, self._returned)
        added = [array for array, k in zip(found.arrays, found.indices, strict=True) if k >= shown]
        self.on_host += [self._capture.device_of(array).type == "cpu" for array in added]
        self.effects += found.effects

    def _add(self, data: TracedArray) -> None:
        """Add a result, which lies where the array does."""
        self.atoms.append(as_result(data.atom))
        self.on_host.append(self._capture.device_of(data).type == "cpu")

    # ---- what is returned: each leaf ------------------------------------------------------------------------------

    def _data(self, leaf: Any) -> _Datum | None:
        if isinstance(leaf, str):
            return self._text(leaf)
        if not isinstance(leaf, Tensor):
            return self._array(leaf)
        traced = type(leaf._data) is TracedArray
        self.requires.append(traced and leaf._requires)
        if not traced:
            return self._found(leaf)
        return self._shown(leaf) or self._made(leaf)

    def _text(self, text: str) -> _Datum | None:
        """A text in which traced arrays stand is composed of their texts."""
        texts = self._capture.recorder.texts
        pieces = [] if texts is None else texts.pieces(text)
        if len(pieces) < 2:
            return None
        parts = []
        for piece in pieces:
            if isinstance(piece, str):
                parts.append(repr(piece))
                continue
            number = ".item()" if piece.value.aval.weak else ""
            write = self._source.constant(Shown(None, piece.how, piece.spec).write)
            parts.append(f"{write}(r[{len(self.atoms)}]{number})")
            self.atoms.append(piece.value.atom)
            self.on_host.append(True)
        self._chains.append([piece if isinstance(piece, str) else (repr(piece.how), piece.spec) for piece in pieces])
        return None, f"''.join(({', '.join(parts)},))"

    def _array(self, leaf: Any) -> _Datum | None:
        """A number or an array of NumPy's."""
        datum = data_of(leaf)
        if datum is None:
            return None
        self.on_host.append(True)
        is_float = isinstance(leaf, TracedArray) and leaf.atom.aval.weak and leaf.atom.aval.is_float
        return datum[0], datum[1] + (".item()" if is_float else "")

    def _found(self, t: Tensor) -> _Datum | None:
        """A tensor that was there before the run: an argument, one that is held, or a ``.grad`` in its place."""
        place = self._places.of(t)
        if place[0] in (LEAF, HELD):
            return None, text_at(self._source, place, self._texts)
        owner = next((r.owner for r in self._capture.roots if r.tensor is t and r.owner is not None), None)
        if owner is None:
            return None
        if self._capture.grads.get(id(owner), (owner, t))[1] is not t:
            self.changes.append(Refusal.STEP_GRAD())
        there = "grad", self._places.of(owner)
        self._chains.append(key_of(there))
        return None, text_at(self._source, there, self._texts)

    def _shown(self, t: Tensor) -> _Datum | None:
        """A tensor that the run made over the memory of one from outside."""
        shown = self._leaving.shown(t)
        if shown is None:
            return None
        root, chain = shown.args
        self._chains.append((key_of(self._places.of(root)), _operations(chain)))
        if self._stands[id(t)] == 1 and id(t) not in self._leaving.aliases:
            return None, shown(self._source, self._texts)
        name, made_once = self._leaving.named_alias(t, shown)
        self.effects.append(TensorMade(name, made_once))
        return None, name

    def _made(self, t: Tensor) -> _Datum:
        """A tensor over memory that the run made, which others may show, too."""
        if t._grad is not None:
            self.changes.append(Refusal.STEP_GRAD_OF_RESULT())
        memory = self._leaving.leaves(t)
        if self._stands[id(t)] == len(memory.leaving) == 1 and id(t) not in self._grads:
            self.on_host.append(t.device.type == "cpu")
            index = self._returned.setdefault(id(t._data), len(self.atoms))
            return t._data.atom, f"t{index}" if id(t) in self._leaving.tensors else "make(asarray({}))"
        atom = memory.base.atom
        index = self._grads.get(id(t), self._returned.setdefault(id(memory.base), len(self.atoms)))
        if index == len(self.atoms):
            self._add(memory.base)
        array: Expression = lambda source, texts: text_of(atom.aval, source, f"r[{index}]")  # noqa: E731
        memory.array = memory.array or array
        name = memory.name(t, f"t{index}")
        self.effects.append(TensorMade(name, lambda source, texts: memory.text(t, source, array(source, texts))))
        self._chains.append(_operations(memory.leaving[id(t)][1]))
        return None, name


def _operations(chain: Sequence[tuple[Any, Sequence[Any]]]) -> list[tuple[str, ...]]:
    """The operations that lead to a view, as their equality has them."""
    return [(op.name, *map(repr, given)) for op, given in chain]


def _shaped(atom: Atom, like: Var) -> Atom:
    """*atom* as an array of the shape and dtype that it is written to."""
    if isinstance(atom, Lit) or atom.aval.dtype != like.aval.dtype:
        atom = cast(atom, like.aval.dtype)
    return broadcast_to(atom, like.aval.shape) if atom.aval.shape != like.aval.shape else atom
