"""The knowledge of a step's tape about one iteration that is recorded over symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..tensors.capture import Capture
from ..tensors.node import TapeNode, next_sequence
from ..tensors.tensor import Tensor
from ..tracer.ir.graph import Atom
from ..tracer.record.array import TracedArray


class _Known(NamedTuple):
    """A tensor as it was before an iteration."""

    tensor: Tensor
    node: TapeNode | None
    requires: bool
    grad: Tensor | None
    version: int


class TapedIteration:
    """The knowledge of the tape about one marked iteration."""

    def __init__(self, marked: Any, capture: Capture) -> None:
        self.marked, self.since, self.made = marked, next_sequence(), len(capture._made)
        self.starts: dict[TapeNode, Atom] = {}  # nodes that begin its tape, and the atoms of what they stand for
        self.symbols: dict[int, tuple[Tensor, Tensor]] = {}  # by id: a tensor over a symbol, the one it stands for
        self.stopped: dict[Atom, TracedArray] = {}
        tensors = [t for t in (r() for r in capture._made) if t is not None]
        outside = [root.tensor for root in capture.roots]
        self.known = [_Known(t, t._node, t._requires, t._grad, t._counter[0]) for t in (*tensors, *outside)]
        self.grads = dict(capture.grads)
        self.kept: dict[int, Tensor] = {}  # tensors that stay what they are, and whose history goes on
        self.ends: list[tuple[Tensor, Tensor]] = []  # tensors after the loop, and those of the iteration
        self.rows: list[tuple[Atom, Tensor, Sequence[Tensor]]] = []  # a stack, a tensor of the iteration, its rows
        self.memo: dict[int, tuple[Tensor, Tensor]] = {}
        self.iterated: list[tuple[Tensor, int]] = []  # what it is a row of, and its version then

    def is_new(self, t: Tensor, capture: Capture) -> bool:
        """Whether the iteration has made *t*."""
        return any(r() is t for r in capture._made[self.made :])
