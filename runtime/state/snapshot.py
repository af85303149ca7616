"""The outside state that a run has read, at one moment: a key, the arrays, a fast checker.  ``checker.py`` makes it."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .state_graph import StateGraph, StateNode
from .values import StateKey

Checker = Callable[..., tuple[Any, ...] | None]
FAIL = ": return None"  # the end of a line that tests something


@dataclass(eq=False)
class Snapshot:
    """The outside state at one moment.

    ``key`` stands for everything guarded by value; ``arrays`` are read again each call: their dtypes, shapes and
    layouts (C-contiguous, or the strides) are in the key, their contents are not. ``check(*objects)`` is the fast path:
    the arrays as they are now, in the same order, or None if the state is another one. ``read(*objects)`` leaves out
    the test of dtypes, shapes and layouts, for a caller that tests these arrays like its arguments.
    """

    graph: StateGraph  # once released, an empty one
    inputs: list[StateNode]  # the nodes of ``arrays`` (until released)
    key: StateKey
    array_names: tuple[str, ...]
    trail: list[tuple[str, Hashable]]  # (label, token) pairs, to tell what has changed
    parameters: list[str]  # of the checker: the objects
    full: list[str]  # its lines
    light: list[str]  # its lines without the tests of the arrays
    found: str  # the expression for the arrays as they are now
    exception: str  # that for the class of exceptions that mean another state
    cells: dict[str, types.CellType]
    main: dict[str, Any]
    bare: set[str]  # the globals of the user's that stand in the lines
    nodes: str  # the expression for the objects of all nodes as they are now, in the graph's order

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return tuple([node.obj for node in self.inputs])

    @cached_property
    def check(self) -> Checker:
        return self.checker("check", self.full, self.found)

    @cached_property
    def read(self) -> Checker:
        return self.checker("read", self.light, self.found)

    def checker(self, name: str, lines: list[str], found: str) -> Checker:
        """The checker of these lines: called with the objects, it returns what is *found*, or None."""
        return self._function(
            f"{name}({', '.join(self.parameters)})", [*self.tested(lines, "None"), f"return {found}"], {}
        )

    def tested(self, lines: list[str], otherwise: str) -> list[str]:
        """The statements of a checker of these *lines*; where the state is another one they return *otherwise*."""
        kept = [
            f" {line.removesuffix(FAIL)}: return {otherwise}" if line.endswith(FAIL) else f" {line}" for line in lines
        ]
        return ["try:", *kept, f"except {self.exception}: return {otherwise}"]

    def reading(self, objects: Sequence[str], otherwise: str, full: bool = False) -> list[str]:
        """The statements that do as ``read`` of these texts, or as ``check``, which is *full*: they set ``arrays``, if
        there are any, or return *otherwise*.  For a :meth:`function`."""
        given = [f"{name} = {text}" for name, text in zip(self.parameters, objects, strict=True)]
        found = [f"arrays = {self.found}"] if self.array_names else []
        return [*given, *self.tested(self.full if full else self.light, otherwise), *found]

    def function(self, head: str, lines: list[str], names: dict[str, Any]) -> Callable[..., Any] | None:
        """A function of these *lines*, with :meth:`reading` among them, and of *names*; None if one of these is a name
        that the state is read by, or one of the user's globals may be taken for a builtin."""
        made = self._function(head, lines, names)
        code = made.__code__
        hidden = not self.bare.isdisjoint((*code.co_varnames, *code.co_freevars))
        return None if hidden or not vars(builtins).keys().isdisjoint({*code.co_names} - self.bare) else made

    def _function(self, head: str, lines: list[str], names: dict[str, Any]) -> types.FunctionType:
        """A function whose *lines* read the state as a checker does, and *names*."""
        cells = self.cells | {name: types.CellType(value) for name, value in names.items()}
        source = "\n  ".join([f" def _tracegrad_{head}:", *lines, ""])  # a name that none of the user's globals has
        code = _compile(source, tuple(sorted(cells)))
        return types.FunctionType(code, self.main, code.co_name, None, tuple([cells[n] for n in code.co_freevars]))

    def release(self) -> None:
        """Let go of the user's arrays and objects; key, names and checker stay."""
        self.graph, self.inputs = StateGraph(), []


@lru_cache(512)
def _compile(source: str, cells: tuple[str, ...]) -> types.CodeType:
    head = "def _outer():\n" + (f" {' = '.join(cells)} = None\n" if cells else "")
    module = compile(head + source, "<tracegrad state check>", "exec")
    outer = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType))
