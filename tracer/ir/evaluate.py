"""Evaluation of nodes, for values that control flow needs in a recording, and as the core of the interpreter.

A ``Backend`` holds the arrays and computes on them.  ``HOST`` is NumPy; the one for CUDA is
``codegen/evaluate/cupy_backend.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any, Protocol

import numpy as np

from .aval import FLOAT32, HALF, held_dtype
from .graph import Atom, Lit, Node, Var
from .primitive import LOOP

Env = MutableMapping[Var, Any]


def read(env: Env, atom: Atom) -> Any:
    """The value of *atom* as it is held: for half precision a float32, or an input array."""
    return atom.value if isinstance(atom, Lit) else env[atom]


def stored(env: Env, atom: Atom) -> np.ndarray:
    """The value of *atom* in its own dtype."""
    return as_stored(np.asarray(read(env, atom)), atom)


def as_stored(value: Any, atom: Atom) -> Any:
    """The array *value* of *atom* in the dtype of *atom*."""
    with np.errstate(over="ignore"):  # to half precision
        return value.astype(atom.aval.dtype, copy=False)


def operand(env: Env, atom: Atom) -> Any:
    """The value of *atom*, held."""
    return as_held(read(env, atom), atom)


def as_held(value: Any, atom: Atom) -> Any:
    """The array or number *value* of *atom*, held."""
    return value.astype(FLOAT32) if atom.aval.dtype in HALF and value.dtype in HALF else value


def params_of(node: Node) -> dict[str, Any]:
    """The params of *node* for evaluation: a half-precision ``dtype`` becomes float32, but for casts, which round
    to half (unless of a Python number)."""
    if node.params.get("dtype") not in HALF or (node.prim.name == "cast" and not node.inputs[0].aval.weak):
        return node.params
    return {**node.params, "dtype": FLOAT32}


def run_nodes(nodes: Iterable[Node], env: Env) -> None:
    """Evaluate *nodes* in order into *env*."""
    with np.errstate(all="ignore"):
        for node in nodes:
            result = node.prim.impl(*[operand(env, a) for a in node.inputs], **params_of(node))
            if len(node.outs) == 1:
                env[node.out] = _as_declared(result, node.out)
            else:
                for out, value in zip(node.outs, result, strict=True):
                    env[out] = _as_declared(value, out)


def _as_declared(value: Any, var: Var) -> np.ndarray:
    array = np.asarray(value)
    dtype = held_dtype(var.aval.dtype)
    if array.dtype != dtype:
        array = array.astype(dtype)
    if array.shape != var.aval.shape:  # all-literal operands give 0-d results
        array = np.broadcast_to(array, var.aval.shape)
    return array


class Backend(Protocol):
    """Storage of arrays, and execution of nodes on them."""

    def asarray(self, value: Any) -> Any:
        """*value*, an array of this backend or of NumPy or a number, as an array that ``run_nodes`` takes."""

    def run_nodes(self, nodes: Iterable[Node], env: Env) -> None:
        """Evaluate *nodes* in order into *env*."""

    def download(self, value: Any) -> np.ndarray:
        """The NumPy array of a value from an ``Env``.  On a device this waits for the value to be computed."""


class _Host:
    """NumPy, in this process; it executes the steps of loops, too (``ops/control.py``)."""

    xp = np
    asarray = array = download = staticmethod(np.asarray)
    read, run_nodes = staticmethod(read), staticmethod(run_nodes)

    def row(self, value: Any) -> Any:
        return value


HOST = _Host()


class Producers:
    """Index of a growing list of nodes: the position of each value's definition."""

    def __init__(self) -> None:
        self._position: dict[Var, int] = {}
        self._nodes: Sequence[Node] = ()
        self._seen = 0
        self._last: Node | None = None

    def index(self, nodes: Sequence[Node]) -> dict[Var, int]:
        """Var -> the position in *nodes* of the node that defines it; reads only nodes added since the last call."""
        seen = self._seen
        if nodes is not self._nodes or seen > len(nodes) or (seen and nodes[seen - 1] is not self._last):
            self._position.clear()  # the list was replaced, or something in it
            seen = 0
        for position in range(seen, len(nodes)):
            for out in nodes[position].outs:
                self._position[out] = position
        self._nodes, self._seen = nodes, len(nodes)
        self._last = nodes[-1] if nodes else None
        return self._position

    def renew(self, count: int) -> None:
        """Read the nodes again, but for the first *count*; the others still define the same values, if not more."""
        if count < self._seen:
            self._seen, self._last = count, self._nodes[count - 1] if count else None

    def find(self, var: Var, nodes: Sequence[Node]) -> int | None:
        """The position of the node that defines *var*, a result that was added to a loop after it was indexed."""
        for position, node in enumerate(nodes):
            if node.prim.kind == LOOP and var in node.outs:
                self._position.update((out, position) for out in node.outs)
                return position
        return None


def demand(
    roots: Sequence[Atom], nodes: Sequence[Node], env: Env, producers: Producers, backend: Backend = HOST
) -> list[Any]:
    """Values of *roots*, with an evaluation of the nodes that they need and *env* does not hold yet.

    The work is in proportion to what is evaluated, however many *nodes* there are.
    """
    missing = [r for r in roots if isinstance(r, Var) and r not in env]
    if missing:
        position = producers.index(nodes)
        todo: set[int] = set()
        while missing:
            var = missing.pop()
            at = position.get(var)
            if at is None:
                at = producers.find(var, nodes)
            if at is not None and at not in todo:  # an undefined value is an error when it is read
                todo.add(at)
                missing += [a for a in nodes[at].inputs if isinstance(a, Var) and a not in env]
        backend.run_nodes([nodes[at] for at in sorted(todo)], env)
    return [read(env, r) for r in roots]
