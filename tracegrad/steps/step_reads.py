"""The log of what a step reads (``runtime/logged/reads.py``), with tensors, modules and optimizers.

Modules and optimizers count by their identity, and each attribute that is read of them is a read of that place, as of
any other object: their classes' code is converted as the user's is.  A tensor counts by its identity, too; its contents
and its ``.grad`` are the capture's (``tensors/capture.py``), and of its facts changes count in the epoch.  Floats of an
optimizer's groups are numbers of the run from the beginning: schedules change them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from ..nn.module import Module
from ..nn.parameter import Parameter
from ..optim.lr_scheduler import LRScheduler
from ..optim.optimizer import Optimizer
from ..runtime.logged.reads import FoundOutsideError, NotClosedError, ReadLog, not_closed
from ..runtime.logged.written_arrays import ArraySink
from ..runtime.state.state_graph import Edge, Leaf, StateNode
from ..runtime.state.trust import Trust
from ..tensors.device import on_cuda
from ..tensors.hooks import end_of
from ..tensors.tensor import Tensor
from .tensor_facts import held_facts, tensor_facts

#: modules whose code is converted; all other code of the library works on tensors alone
CONVERTED = frozenset([
    *[f"tracegrad.nn.{name}" for name in "activations containers conv hooks layers loading losses module norm".split()],
    *[f"tracegrad.optim.{name}" for name in "adam lr_scheduler optimizer rmsprop sgd".split()],
])  # fmt: skip
HOLDERS = (Module, Optimizer, LRScheduler)


class StepTrust(Trust):
    """Trust in libraries, but for the code that is converted."""

    def cls(self, cls: type) -> bool:
        return cls.__module__ not in CONVERTED and super().cls(cls)

    def owns(self, obj: Any) -> bool:
        return (isinstance(obj, type) or not is_converted(obj)) and super().owns(obj)


def is_converted(fn: Any) -> bool:
    """Whether a function is of the code that is converted."""
    return fn.__globals__.get("__name__") in CONVERTED


class ElsewhereError(NotClosedError):
    """The run is to be made again for the other device: its tensors do not lie where it was to run."""

    lasting = False


class FoundTensorError(FoundOutsideError):
    """The run is to be made again with an argument as the very tensor that it is: the step finds that outside, too."""

    lasting = False


class StepReads(ReadLog):
    """The reads of one run of a step; *arguments*: ids of the tensors among its arguments that stand for others;
    *there*: it is to run on a device."""

    writes_arrays = True
    array_sink = ArraySink

    def __init__(
        self, stand_in: Callable[[StateNode], Any], contents: Collection[str], varying: Collection[str] = (),
        before: Mapping[str, Any] = MappingProxyType({}), arguments: Collection[int] = (), there: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(StepTrust(), stand_in, contents, {*varying}, before)
        self.arguments, self.there = arguments, there
        self.facts: list[tuple[Tensor, tuple[Any, ...]]] = []  # of the tensors that were read
        self._live: set[int] = set()  # ids of containers whose floats are numbers of the run

    def read(self, owner: StateNode, how: str, arg: Any, value: Any, label: str) -> Any:
        groups = how == "attr" and arg == "param_groups" and isinstance(owner.obj, Optimizer)
        if groups or id(owner.obj) in self._live:
            if type(value) is float:
                self._varying.add(label)  # type: ignore[attr-defined]
            elif type(value) in (list, tuple, dict):
                self._live.add(id(value))
        return super().read(owner, how, arg, value, label)

    def _object(self, value: Any, kind: type, label: str) -> Leaf | StateNode:
        if isinstance(value, Tensor):
            return self._tensor(value, kind, label)
        if isinstance(value, HOLDERS):
            self.pin(kind)
            made = self._graph.node("pinned", value, label)
            self._instances[id(made)] = set(), set()
            return made
        return super()._object(value, kind, label)

    def _tensor(self, t: Tensor, kind: type, label: str) -> StateNode:
        if id(t) in self.arguments:
            raise FoundTensorError(f"`{label}`, a tensor that is an argument, too", t)
        if kind not in (Tensor, Parameter):
            raise not_closed(f"`{label}`, a tensor of the class {kind.__qualname__}")
        if end_of(t) is not None:
            raise not_closed(f"`{label}`, a tensor with hooks at its node")
        if on_cuda(t._data):
            if not self.there:
                raise ElsewhereError(not_closed(f"`{label}`, a tensor on a device").reason)
        elif t._requires:
            self._graph.leaves_on_host.append(label)
        self._graph.tensors[id(t)] = label.removeprefix("global ").removeprefix("closure ")
        if label in self._varying and (known := held_facts(t)) is not None:
            made = self._graph.node("held", t, label, extra=(held_facts, known))
            self.varying.add(label)
            self.inputs.append(made)
            self._stand_in(made)
            return made
        made = self._graph.node("const", t, label)
        facts = tensor_facts(t)
        self.facts.append((t, facts))
        made.edges.append(Edge("quiet", "facts", self._graph.leaf(facts)))
        for name in ("_hooks", "_after"):
            self._hooks(made, name, getattr(t, name) or {})
        return made

    def _hooks(self, tensor: StateNode, name: str, hooks: dict[int, Any]) -> None:
        """The hooks of a tensor, which a backward may call."""
        if hooks:
            self.read(tensor, "attr", name, hooks, f"{tensor.label}.{name}")
            owner = self.node_of(hooks)
            assert owner is not None
            for key, hook in hooks.items():
                self.read(owner, "key", key, hook, f"a hook of {tensor.label}")

    @property
    def tensors(self) -> dict[int, str]:
        """The names of the tensors that were read, by id."""
        return self._graph.tensors
