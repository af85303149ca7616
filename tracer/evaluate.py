"""Running nodes with NumPy: what the recorder asks when control flow needs a value, and the core of the interpreter."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any

import numpy as np

from .ir import Atom, Lit, Node, Var

Env = MutableMapping[Var, Any]


def read(env: Env, atom: Atom) -> Any:
    return atom.value if isinstance(atom, Lit) else env[atom]


def run_nodes(nodes: Iterable[Node], env: Env) -> None:
    """Evaluate *nodes* in order into *env*."""
    with np.errstate(all="ignore"):
        for node in nodes:
            result = node.prim.impl(*[read(env, a) for a in node.inputs], **node.params)
            if len(node.outs) == 1:
                env[node.out] = _as_declared(result, node.out)
            else:
                for out, value in zip(node.outs, result, strict=True):
                    env[out] = _as_declared(value, out)


def _as_declared(value: Any, var: Var) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype != var.aval.dtype:
        array = array.astype(var.aval.dtype)
    if array.shape != var.aval.shape:  # all-literal operands give 0-d results
        array = np.broadcast_to(array, var.aval.shape)
    return array


def demand(roots: Sequence[Atom], nodes: Sequence[Node], env: Env) -> list[Any]:
    """Values of *roots*, evaluating only what they need and *env* does not hold yet."""
    missing = [r for r in roots if isinstance(r, Var) and r not in env]
    if missing:
        needed: set[Var] = set(missing)
        todo = []
        for node in reversed(nodes):
            if any(o in needed and o not in env for o in node.outs):
                todo.append(node)
                needed.update(a for a in node.inputs if isinstance(a, Var) and a not in env)
        run_nodes(reversed(todo), env)
    return [read(env, r) for r in roots]
