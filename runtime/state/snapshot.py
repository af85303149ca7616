"""The outside state that a run has read, at one moment: a key, the arrays, a fast checker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .checker import Checker, Digest
from .state_graph import StateGraph, StateNode


class Snapshot:
    """The outside state at one moment.

    ``key`` stands for everything guarded by value; ``arrays`` are read again each call: their dtypes, shapes and
    layouts (C-contiguous, or the strides) are in the key, their contents are not. ``check(*objects)`` is the fast path:
    the arrays as they are now, in the same order, or None if the state is another one. ``read(*objects)`` leaves out
    the test of dtypes, shapes and layouts, for a caller that tests these arrays like its arguments.
    """

    check: Checker
    read: Checker
    __slots__ = (
        "_digest", "_trail", "array_names", "arrays", "check", "graph", "inputs", "key", "read",
    )  # fmt: skip

    def __init__(self, made: Digest, inputs: list[StateNode], graph: StateGraph) -> None:
        self._digest = made
        self.graph = graph  # once released, an empty one
        self._trail = made.trail
        self.key = made.key
        self.inputs = inputs  # the nodes of ``arrays`` (until released)
        self.arrays: tuple[np.ndarray, ...] = tuple([node.obj for node in inputs])
        self.array_names = made.names

    def __getattr__(self, name: str) -> Checker:
        """``check`` and ``read`` are compiled when they are first asked for."""
        if name == "check":
            self.check = self._digest.checker(self._digest.full)
            return self.check
        if name == "read":
            self.read = self._digest.checker(self._digest.light)
            return self.read
        raise AttributeError(name)

    def reading(self, objects: Sequence[str], otherwise: str) -> list[str]:
        """The statements that do as ``read`` of these texts: they set ``arrays``, if there are any, or return
        *otherwise*.  For a :meth:`function`."""
        digest = self._digest
        given = [f"{name} = {text}" for name, text in zip(digest.parameters, objects, strict=True)]
        found = [f"arrays = {digest.found}"] if self.array_names else []
        return [*given, *digest.reading(digest.light, otherwise), *found]

    def function(self, head: str, lines: list[str], names: dict[str, Any]) -> Callable[..., Any] | None:
        """A function of these *lines*, with :meth:`reading` among them, and of *names*; None if one of these is a name
        that the state is read by."""
        made = self._digest.function(head, lines, names)
        return None if self._digest.hides(made.__code__) else made

    def release(self) -> None:
        """Let go of the user's arrays and objects; key, names and checker stay."""
        self.graph, self.arrays, self.inputs = StateGraph(), (), []
