"""The tape: one ``TapeNode`` for each recorded operation, linked from results to operands.

``Tensor.grad_fn`` is the node that made the tensor.  A node's edges lead to the nodes of its operands, or to the
operand itself where that is a leaf.  Nodes hold raw arrays, never tensors of their own results, so the graph has no
cycles and goes when its last tensor goes; chains of any length are taken down without recursion.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Container, Sequence
from typing import Any

from ..tracer.ir.aval import Aval
from ..tracer.ir.site import Site
from .modes import STATE
from .op import EagerOp

_sequence = itertools.count()
_epoch = [0]


def changed() -> None:
    """Count a change of tensors or modules that compiled steps rely on without checking it (``step.py``)."""
    _epoch[0] += 1


def epoch() -> int:
    return _epoch[0]


class RemovableHandle:
    """The result of ``register_hook`` and its relatives; ``remove()`` takes the hook away.  Hooks of leaves and of
    modules are *counted*: steps rely on them."""

    _ids = itertools.count()

    def __init__(self, hooks: OrderedDict[int, Any], counted: bool):
        self.id = next(RemovableHandle._ids)
        self._hooks = hooks
        self._counted = counted

    def remove(self) -> None:
        if self._hooks.pop(self.id, None) is not None and self._counted:
            changed()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class TapeNode:
    """One operation that was recorded.

    ``edges[k]`` is the origin of operand k: a ``TapeNode`` (its result ``edge_outs[k]``), a leaf Tensor, or None where
    no gradient is wanted.  ``inputs`` and ``outputs`` are raw arrays (after the buffers are freed: avals), ``versions``
    the version counters of their tensors with their values then.
    """

    op: EagerOp | None
    label = "Node"  # the name that grad_fn shows; each operation has a class of its own
    plain = True  # its derivative is op.vjp, so that it can be part of a compiled backward
    logged = False  # else: its derivative is code of the user's that the log of a run sees
    freed = False
    tensor_hooks: dict[int, OrderedDict[int, Any]] | None = None  # of the results, by position
    retained: dict[int, Any] | None = None  # weak references to results whose .grad is kept
    hooks: OrderedDict[int, Any] | None = None
    pre_hooks: OrderedDict[int, Any] | None = None
    site: Site | None = None
    avals: tuple[Aval, ...] | None = None  # of the inputs, once the derivative has run
    reaches: Sequence[Container[int]] | None = None  # for each result: the operands it depends on, where not on all
    ends: tuple[AccumulateGrad, ...] = ()  # those that were asked for: their hooks live as long as this node
    counted = False  # whether steps rely on the hooks

    def __init__(
        self, op: EagerOp | None, statics: tuple[Any, ...], edges: tuple[Any, ...], edge_outs: tuple[int, ...],
        inputs: tuple[Any, ...], outputs: tuple[Any, ...], versions: tuple[Any, ...],
    ):  # fmt: skip
        self.op = op
        self.statics = statics
        self.edges = edges
        self.edge_outs = edge_outs
        self.inputs: Any = inputs
        self.outputs: Any = outputs
        self.versions = versions  # ((counter, count) or None for each input, then for each output)
        self.sequence = next(_sequence)

    def saved(self, k: int) -> Any:
        """The saved value *k*: operands first, then results."""
        count = len(self.edges)
        return self.inputs[k] if k < count else self.outputs[k - count]

    def overwritten(self, k: int) -> bool:
        """Whether the saved value *k* has been written to since."""
        version = self.versions[k]
        return version is not None and version[0][0] != version[1]

    def edges_of(self, out: int) -> list[tuple[int, Any, int]]:
        """(which operand, its origin, its result there) for the operands that result *out* depends on."""
        operands = None if self.reaches is None else self.reaches[out]
        return [
            (k, edge, self.edge_outs[k])
            for k, edge in enumerate(self.edges)
            if edge is not None and (operands is None or k in operands)
        ]

    def name(self) -> str:
        """``AddBackward0`` and the like."""
        return self.label

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, which of its results) for each operand; leaves are ``AccumulateGrad`` nodes, constants None."""
        ends = {id(edge): accumulator(edge) for edge in self.edges if not (edge is None or isinstance(edge, TapeNode))}
        if ends:
            self.ends = (*ends.values(),)
        return tuple([
            (None, 0) if edge is None else (ends.get(id(edge), edge), out)
            for edge, out in zip(self.edges, self.edge_outs, strict=True)
        ])  # fmt: skip

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own notes."""
        return self.__dict__.setdefault("_metadata", {})

    def register_hook(self, hook: Any) -> RemovableHandle:
        """``hook(grad_inputs, grad_outputs)`` runs after this node's backward and may replace the former."""
        if self.hooks is None:
            self.hooks = OrderedDict()
        return registered(self.hooks, hook, self.counted)

    def register_prehook(self, hook: Any) -> RemovableHandle:
        """``hook(grad_outputs)`` runs before this node's backward and may replace them."""
        if self.pre_hooks is None:
            self.pre_hooks = OrderedDict()
        return registered(self.pre_hooks, hook, self.counted)

    def __repr__(self) -> str:
        return f"<{self.label} object at {hex(id(self))}>"


def registered(hooks: OrderedDict[int, Any], hook: Any, counted: bool) -> RemovableHandle:
    """The handle of *hook*, which is now the last of *hooks*."""
    not_in_a_loop("a hook is registered")
    handle = RemovableHandle(hooks, counted)
    hooks[handle.id] = hook
    if counted:
        changed()
    return handle


def not_in_a_loop(what: str) -> None:
    """In a step that is being recorded, let the loop under way run iteration by iteration: *what* happens is of one."""
    capture = STATE.capture
    if capture is not None and capture.recorder.open_loops:
        capture.recorder.open_loops[-1].refuse_seen(what)


class AccumulateGrad(TapeNode):
    """The end of the graph: adds to the ``.grad`` of ``variable``.  There is one for each leaf (``accumulator``), while
    somebody holds it."""

    label = "AccumulateGrad"
    counted = True

    def __init__(self, variable: Any):
        super().__init__(None, (), (), (), (), (), ())
        self.variable = variable

    def __del__(self) -> None:
        if self.hooks or self.pre_hooks:
            changed()


def accumulator(leaf: Any) -> AccumulateGrad:
    """The end of the graph at *leaf*, the one that exists or a new one."""
    found = None if leaf._end is None else leaf._end()
    if found is None:
        found = AccumulateGrad(leaf)
        leaf._end = weakref.ref(found)
    return found


def next_sequence() -> int:
    """A new sequence number, below those of all later nodes."""
    return next(_sequence)


@functools.cache
def node_class(name: str) -> type[TapeNode]:
    """The class of nodes that show *name*."""
    return type(name, (TapeNode,), {"label": name})
