"""Places: where a replay of a step finds a number, an array or a tensor.

A *place* is one of ``("leaf", position in the call)``, ``("state", position among the snapshot's arrays)``, ``("held",
position of a tensor among these)``, ``("tensor", t)``, ``("grad", place of the tensor)``, ``("fresh", draw,
generator)``.  ``Places`` are those of one run.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..runtime.record.call_key import ARRAY, INTEGER, TENSOR, Call
from ..runtime.record.trees import Source
from ..runtime.state.snapshot import Snapshot
from ..tensors.capture import Capture, Root
from ..tensors.hooks import at_leaf
from ..tensors.tensor import Tensor
from ..tracer.ir.refusals import Reason, Refusal

LEAF, STATE_ARRAY, HELD = "leaf", "state", "held"
Place = tuple[Any, ...]


def key_of(place: Place) -> Hashable:
    """The identity of a place: the draw is made anew by each run."""
    if place[0] == "fresh":
        return "fresh", id(place[2])
    return tuple([key_of(p) if type(p) is tuple else p if type(p) in (int, str) else id(p) for p in place])


def text_at(source: Source, place: Place, texts: Sequence[str]) -> str:
    """The text of the tensor at a place."""
    kind, payload = place
    if kind == "grad":
        return f"{text_at(source, payload, texts)}._grad"
    if kind == HELD:
        return f"arrays[{payload}]"
    return texts[payload] if kind == LEAF else source.constant(payload)


def is_tensor(place: Place, call: Call) -> bool:
    """Whether the memory of a tensor is at *place*."""
    return place[0] in ("tensor", "grad", HELD) or (place[0] == LEAF and call.kinds[place[1]] == TENSOR)


def is_plain(t: Tensor) -> bool:
    """Whether *t* is a tensor without history, and without hooks."""
    return type(t) is Tensor and t._node is None and t._base is None and not (t._requires or at_leaf(t))


def scalar_type(place: Place, call: Call, arrays: Sequence[Any]) -> type | None:
    """The Python type of an input that is a number; None for arrays.  *arrays*: those of the state."""
    kind, payload = place[:2]
    if kind == LEAF and call.kinds[payload] not in (ARRAY, TENSOR):
        return float if call.kinds[payload] == INTEGER else type(call.leaves[payload])
    if kind == STATE_ARRAY and not isinstance(arrays[payload], np.ndarray):
        return type(arrays[payload])
    return None


class Places:
    """Where a replay finds what a run has met.  *proxies*: the tensors that stand for arguments, by leaf; *held*: the
    positions of the tensors from outside that are inputs, by id."""

    def __init__(
        self, capture: Capture, call: Call, snapshot: Snapshot, proxies: dict[int, Tensor], held: dict[int, int]
    ) -> None:
        self._capture, self._call, self._names, self._held = capture, call, snapshot.graph.tensors, held
        self._proxies = proxies
        self._leaf_of = {id(t): k for k, t in proxies.items()}
        self._given = {k: leaf for k, leaf in enumerate(call.leaves) if call.kinds[k] == TENSOR}
        self.position = {var: k for k, var in enumerate(capture.recorder.inputs)}
        self.inputs = [self._of_input(kind, payload) for kind, payload in capture.sources]

    def of(self, t: Tensor) -> Place:
        """The place of a tensor."""
        if id(t) in self._held:
            return HELD, self._held[id(t)]
        return (LEAF, self._leaf_of[id(t)]) if id(t) in self._leaf_of else ("tensor", t)

    def _of_input(self, kind: str, payload: Any) -> Place:
        """The place of an input of the capture."""
        if kind == "root":
            root: Root = payload
            return self.of(root.tensor) if root.owner is None else ("grad", self.of(root.owner))
        return (kind, *payload) if type(payload) is tuple else (kind, payload)

    def objections(self) -> list[Reason]:
        """Reasons against a replay: a tensor that is held shows the memory of another; the next one need not."""
        touched = self._capture.touched
        shared = {id(t._data) for t in touched if id(t) not in self._held}
        return [
            Refusal.REPLAY_CHANGES(name=self._names[id(t)])
            for t in touched
            if id(t) in self._held and id(t._data) in shared
        ]

    @property
    def looked(self) -> list[tuple[Place, bool]]:
        """(the place of a tensor whose ``.grad`` was read, whether it was None)."""
        return [(self.of(t), was_none) for t, was_none in self._capture.looked.values()]

    @property
    def arguments_as(self) -> list[Tensor | None]:
        """For each leaf the tensor that it has to be, if any."""
        return [
            None if k in self._proxies or id(self._given.get(k)) in self._held else self._given.get(k)
            for k in range(len(self._call.leaves))
        ]

    @property
    def held(self) -> list[tuple[int, list[int]]]:
        """(the position of a tensor that is held, the leaves that it is)."""
        return [
            (position, [k for k, leaf in self._given.items() if id(leaf) == key])
            for key, position in self._held.items()
        ]

    def from_outside(self, wanted: Sequence[Tensor]) -> list[Tensor]:
        """The tensors that are the same ones in each replay; *wanted*: those of the link."""
        # a .grad is another tensor from time to time, and is looked at where it is
        met = [r.tensor for r in self._capture.roots if r.owner is None or not is_plain(r.tensor)]
        met += [*[t for t, _ in self._capture.grads.values()], *wanted]
        return list({id(t): t for t in met if id(t) not in self._leaf_of and id(t) not in self._held}.values())

    @property
    def one_memory(self) -> list[tuple[Place, Place]]:
        """(the place of a tensor, that of another one over its array)."""
        looked = self._capture.looked.values()
        grads = {id(t._grad): (t._grad, ("grad", self.of(t))) for t, _ in looked if t._grad is not None}
        seen = [(t, self.of(t)) for t in self._capture.touched if id(t) not in grads or id(t) in self._names]
        pairs = [
            (place, self.inputs[self.position[root.var]])
            for t, place in (*seen, *grads.values())
            if id(t) not in self._held and (root := self._capture.root_of(t))
        ]
        return [(one, other) for one, other in pairs if key_of(one) != key_of(other)]

    @property
    def complexes(self) -> frozenset[int]:
        """The inputs that are lanes of complex tensors."""
        roots = self._capture.roots
        return frozenset(self.position[root.var] for root in roots if root.array.dtype.kind == "c")
