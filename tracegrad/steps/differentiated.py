"""Derivatives that a compiled function gives for tensors, as part of the graph of what they depend on.

The results of ``grad(f)(x)`` depend on the tensors among the arguments of *f* and on those that *f* reads elsewhere.
Where gradients of these are wanted, the value and the gradients are results of one ``RerunBackward``.  It is rarely
asked for, and runs the Python of *f* again, so that the call itself is the kernel that it would be without.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..tensors import backward as engine
from ..tensors.backward_pass import collect
from ..tensors.node import TapeNode
from ..tensors.tensor import Tensor, origins
from .step_autograd import LinkedBackward, RerunBackward


class Argument(TapeNode):
    """The origin of an argument with respect to which a function is differentiated: *leaf*, which it stands for."""

    label = "ArgumentBackward"
    plain = False

    def __init__(self, leaf: Tensor):
        super().__init__(None, (), *origins([leaf]), (), (leaf._data,), ())

    def custom_vjp(self, cts: list[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        return cts

    def custom_free(self) -> None:
        """Nothing is saved: another derivative may go this way."""


def derivatives(loss: Tensor, wanted: Sequence[Tensor], own: set[int], connect: bool) -> list[Tensor]:
    """The value of *loss* and its gradients with respect to *wanted*.  With *connect* they stay connected to tensors
    that require gradients; *own*: ids of tensors among *wanted* that stand for no such tensor."""
    node = loss._node
    if not connect:
        return [loss.detach(), *_gradients(loss, wanted, False)]
    if not isinstance(node, LinkedBackward):
        if not _reaches(loss, own):
            return [loss.detach(), *_gradients(loss, wanted, False)]
        found = [loss, *_gradients(loss, wanted, True)]
        return [t if _reaches(t, own) else t.detach() for t in found]
    sources = [t for t in node.wanted if id(t) not in own]
    if not sources:
        return [loss.detach(), *_gradients(loss, wanted, False)]
    run, counters = node.again, node.counters
    assert run is not None

    def again() -> list[Tensor]:
        value = run()[0]
        return [value, *_gradients(value, wanted, True)]

    results = [loss.detach(), *_gradients(loss, wanted, False)]
    RerunBackward(sources, results, counters, again)
    return results


def _gradients(loss: Tensor, wanted: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    found = engine.grad(loss, wanted, create_graph=create_graph, allow_unused=True, materialize_grads=True)
    return [g for g in found if g is not None]


def _reaches(t: Tensor, own: set[int]) -> bool:
    """Whether gradients of *t* arrive at any tensor that is not one of *own*."""
    if t._node is None:
        return t._requires and id(t) not in own
    return any(isinstance(edge, Tensor) and id(edge) not in own for node in collect([t]) for edge in node.edges)
