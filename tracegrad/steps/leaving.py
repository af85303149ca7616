"""Tensors that a run leaves somewhere outside, or returns, as expressions over what its kernel gives
(``runtime/logged/expressions.py`` has those of all other values)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..runtime.record.effects import Expression, Known
from ..runtime.record.trees import Source, made_once
from ..tensors.capture import Capture
from ..tensors.inplace import detach, views
from ..tensors.tensor import Tensor, make
from ..tracer.ir.errors import unrecordable
from ..tracer.ir.refusals import Reason, Refusal
from ..tracer.record.array import TracedArray
from .step_autograd import as_array


@dataclass(slots=True)
class MadeMemory:
    """The tensors that leave a run and show the memory of one array that it made, all of it or a part."""

    base: TracedArray
    leaving: dict[int, tuple[Tensor, tuple[Any, ...]]]  # by id: a tensor, the operations that lead to it
    owner: int = 0  # the id of the tensor that has the array, if that leaves
    array: Expression | None = None  # for all of it, where two or more leave

    def name(self, t: Tensor, base: str) -> str:
        owner = self.owner or next((key for key, (_, chain) in self.leaving.items() if not chain), 0)
        return base if id(t) == owner else f"{base}v{list(self.leaving).index(id(t))}"

    def text(self, t: Tensor, source: Source, result: str) -> str:
        """The name of one of them over the *result* that is the base: it may be kept outside and returned, too."""
        base = tensor_of(source, result)
        name = self.name(t, base)
        if name != base:
            chain = self.leaving[id(t)][1]
            made = f"{source.constant(views)}({base}, {source.constant(chain)})" if chain else base
            made = made if t._base is not None else f"{source.constant(detach)}({made})"
            made_once(source, name, made)
        return name


class Leaving:
    """The tensors that leave one run: *known* are ids of those from outside, *arrays* those that it has found there."""

    def __init__(self, capture: Capture, known: Collection[int], arrays: Iterable[Any]) -> None:
        self._arrays = [x for x in arrays if type(x) is np.ndarray]
        self._capture, self._known = capture, known
        self.aliases: dict[int, Tensor] = {}  # others, which show memory from outside
        self.text_of: Callable[[Tensor, Source, Sequence[str]], str]  # the text of a tensor from outside
        self.tensors: dict[int, Tensor] = {}  # those that the run has left somewhere, by id
        self._memories: dict[int, MadeMemory] = {}  # by id of the buffer, or of a tensor that shares none

    def objection(self) -> Reason | None:
        """Why the run can't be recorded: it did what has no recorded form, or reads memory that it writes by another
        tensor or array (a kernel reads everything before it writes)."""
        refused = unrecordable.last()
        if refused is not None:
            return Refusal.STEP_REFUSED(error=refused)
        root = self._capture.check_overlap(self._arrays)
        if root is None:
            return None
        recorder = self._capture.recorder
        return Refusal.STEP_SHARES(name=recorder.input_names[recorder.inputs.index(root.var)])

    def expression(self, value: Any, result: Callable[[TracedArray], Known]) -> Known | None:
        """As ``OtherValues`` in ``runtime/record/effects.py``."""
        if not isinstance(value, Tensor):
            return None
        if type(value._data) is not TracedArray:
            known = id(value) in self._known
            return (("object", id(value)), lambda source, texts: source.constant(value)) if known else None
        is_grad = any(value is grad for _, grad in self._capture.grads.values())
        if type(value) is not Tensor or value._grad is not None or is_grad:
            return None
        shown = None if value._base is not None else self.shown(value)
        if shown is not None:
            name, alias = self.named_alias(value, shown)
            return ("memory", id(shown.args[0]), name), alias
        if any(root.traced._storage is value._data._storage for root in self._capture.roots):
            return None
        self.tensors[id(value)] = value
        memory = self.leaves(value)
        if len(memory.leaving) > 1:
            key, array = result(memory.base)
            memory.array = array
            key = (key, list(memory.leaving).index(id(value)))
        else:
            key, array = result(value._data)

        def made(source: Source, texts: Sequence[str]) -> str:
            if memory.array is None:
                return tensor_of(source, array(source, texts))
            return memory.text(value, source, memory.array(source, texts))

        return ("tensor", key), made

    def named_alias(self, t: Tensor, shown: Expression) -> tuple[str, Expression]:
        """(the name of a tensor that shows memory from outside, its expression, which makes it once)."""
        self.aliases[id(t)] = t
        name = f"a{list(self.aliases).index(id(t))}"

        def made(source: Source, texts: Sequence[str]) -> str:
            return made_once(source, name, shown(source, texts))

        return name, made

    def leaves(self, t: Tensor) -> MadeMemory:
        """The memory of a tensor that the run made, which leaves it."""
        alone = t._requires and t._base is not None  # its history is its own
        base, chain = (t._data, ()) if alone else self._capture.shown_by(t)
        memory = self._memories.setdefault(id(t) if alone else id(base._storage), MadeMemory(base, {}))
        memory.leaving[id(t)] = t, chain
        if t._base is None and not self._capture.is_alias(t):
            memory.owner = id(t)
        return memory

    def shown(self, t: Tensor) -> partial[str] | None:
        """The text of *t*, made by the run and without history, where it shows the memory of a tensor from outside."""
        base, chain = self._capture.raw(t if t._base is None else t._base), t._chain
        if self._capture.is_alias(t):
            base, chain = self._capture.shown_by(t)
        root = next((r for r in self._capture.roots if r.traced is base and r.owner is None), None)
        return None if root is None or t._requires else partial(self._shown, root.tensor, chain)

    def _shown(self, t: Tensor, chain: Any, source: Source, texts: Sequence[str]) -> str:
        shown = f"{source.constant(detach)}({self.text_of(t, source, texts)})"
        return f"{source.constant(views)}({shown}, {source.constant(chain)})" if chain else shown


def tensor_of(source: Source, result: str) -> str:
    """The name of the tensor over *result*, which is made once: it may be kept outside and returned, too."""
    name = f"t{result.partition('r[')[2].partition(']')[0]}"
    source.names.update(make=make, asarray=as_array)
    return made_once(source, name, f"make(asarray({result}))")
