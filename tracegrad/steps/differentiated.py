"""Derivatives that a compiled function gives for tensors, as part of the graph of what they depend on.

The results of ``grad(f)(x)`` depend on the tensors among the arguments of *f* and on those that *f* reads elsewhere.
Where gradients of these are wanted, the value and the gradients are results of one ``DerivativeBackward``.  Its
backward is rarely asked for, and runs the Python of *f* again, eagerly, with derivatives on the tape: so any order
comes by itself, and the call itself is the kernel that it would be without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..tensors import backward as engine
from ..tensors.backward_pass import collect
from ..tensors.node import TapeNode
from ..tensors.node_vjp import AGAIN
from ..tensors.tensor import Tensor, origins
from .step_autograd import LinkedBackward, gradients_of_rerun


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


class DerivativeBackward(TapeNode):
    """The value of a compiled function and its gradients as one operation of the eager graph."""

    label = "CompiledGradientBackward"
    plain = False

    def __init__(
        self, sources: Sequence[Tensor], results: Sequence[Tensor], again: Callable[[], Sequence[Tensor]],
        check: Callable[[], None],
    ):  # fmt: skip
        super().__init__(None, (), *origins(sources), (), tuple([r._data for r in results]), ())
        self._sources: Sequence[Tensor] = sources
        self._again: Callable[[], Sequence[Tensor]] | None = again
        self._check = check

    def custom_vjp(self, cts: list[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        again, sources = self._again, self._sources
        if self.freed:  # asked once they are read: another thread may be freeing them
            raise RuntimeError(AGAIN)
        assert again is not None
        self._check()
        return gradients_of_rerun(again, sources, cts, create_graph)

    def custom_free(self) -> None:
        self.freed = True
        self._again = None
        self._sources = ()


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
    run, check = node.again, node.check
    assert run is not None

    def again() -> list[Tensor]:
        value = run()[0]
        return [value, *_gradients(value, wanted, True)]

    results = [loss.detach(), *_gradients(loss, wanted, False)]
    derivative = DerivativeBackward(sources, results, again, check)
    for k, result in enumerate(results):
        result._node, result._out, result._requires = derivative, k, True
    return results


def _gradients(loss: Tensor, wanted: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    found = engine.grad(loss, wanted, create_graph=create_graph, allow_unused=True, materialize_grads=True)
    return [g for g in found if g is not None]


def _reaches(t: Tensor, own: set[int]) -> bool:
    """Whether gradients of *t* arrive at any tensor that is not one of *own*."""
    if t._node is None:
        return t._requires and id(t) not in own
    return any(isinstance(edge, Tensor) and id(edge) not in own for node in collect([t]) for edge in node.edges)
