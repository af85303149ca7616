"""Branches that are compiled: ``cond`` and ``switch``, with JAX's argument order.

While a function is recorded and the choice is a traced value, each branch is a loop of one step or none
(``ops/control.py``), which carries the results: only the branch that is chosen runs, and derivatives of all orders are
those of loops.  Otherwise the chosen function is simply called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import optree

from ..ir.aval import INT, Aval, can_cast, promote_types
from ..ir.errors import ShapeError, TracegradError, UnsupportedError
from ..ir.graph import Atom, building, structural
from ..ir.trees import tree_flatten, tree_unflatten
from ..ops.elementwise import F, cast
from ..ops.shape import zeros
from ..record.array import TracedArray, to_atom
from ..record.recorder import Recorder, recording
from .body_recorder import BranchRecorder
from .loop_recording import finish_loop
from .trees import (
    array_recorder,
    as_result,
    check_truth,
    function_name,
    named,
    shown,
    structure_text,
    truth,
)


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """``true_fun(*operands)`` if *pred* else ``false_fun(*operands)``; only that one runs.

    Both give the same structure, shapes and dtypes.  What a branch writes into an operand stays its own.
    """
    check_truth(pred, "the predicate of cond")
    recorder = array_recorder(pred, operands)
    if recorder is None or not isinstance(pred, TracedArray):
        return (true_fun if pred else false_fun)(*_private(operands))
    chosen = truth(pred)
    return _record(recorder, "cond", [true_fun, false_fun], [chosen, F.logical_not(chosen)], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; only that one runs.  An *index* out of range means the first or the last branch.

    All give the same structure, shapes and dtypes.  What a branch writes into an operand stays its own.
    """
    if not branches:
        raise TracegradError.here("switch needs at least one branch")
    kind = getattr(getattr(index, "dtype", None), "kind", "i")
    if getattr(index, "shape", ()) != () or kind not in "iu" or not hasattr(index, "__index__"):
        raise ShapeError.here("the index of switch has to be one integer; convert it with .astype(int)")
    last = len(branches) - 1
    recorder = array_recorder(index, operands)
    if recorder is None or not isinstance(index, TracedArray):
        return branches[min(max(int(index), 0), last)](*_private(operands))
    at = cast(index.atom, INT)
    chosen = [F.eq(at, structural(k, INT)) for k in range(last + 1)]
    chosen[0], chosen[last] = F.le(at, structural(0, INT)), F.ge(at, structural(last, INT))
    if not last:
        chosen = [structural(True, np.dtype(bool))]
    return _record(recorder, "switch", list(branches), chosen, operands)


def _private(operands: Sequence[Any]) -> Any:
    """*operands* with arrays of their own, which a branch may write into."""

    def own(x: Any) -> Any:
        if isinstance(x, TracedArray):
            return as_result(x.atom)
        return x.copy() if isinstance(x, np.ndarray) else x

    leaves, spec = tree_flatten(tuple(operands))
    return tree_unflatten(spec, [own(x) for x in leaves])


def _record(
    recorder: Recorder, what: str, functions: Sequence[Callable[..., Any]], chosen: Sequence[Atom],
    operands: Sequence[Any],
) -> Any:  # fmt: skip
    """The result of that of *functions* whose bool in *chosen* is True."""
    bodies = [BranchRecorder(recorder, what) for _ in functions]
    results, structures = [], []
    for f, body in zip(functions, bodies, strict=True):
        with recording(body):
            leaves, spec = tree_flatten(f(*_private(operands)))
            results.append([to_atom(v) for v in leaves])
            structures.append(spec)
    for f, spec in zip(functions, structures, strict=True):
        if spec != structures[0]:
            raise UnsupportedError.here(
                f"the branches of {what} have to give the same structure, but {function_name(functions[0])} "
                f"returned {structure_text(structures[0])} and {function_name(f)} {structure_text(spec)}"
            )
    places = optree.treespec_accessors(structures[0])
    avals = [
        _common(what, functions, column, place)
        for column, place in zip(zip(*results, strict=True), places, strict=True)
    ]
    with building(recorder):
        values: list[Atom] = [zeros(a.shape, a.dtype) if a.shape else structural(0, a.dtype) for a in avals]
    for body, atoms, choice in zip(bodies, results, chosen, strict=True):
        with building(body):
            ends = [cast(atom, aval.dtype) for atom, aval in zip(atoms, avals, strict=True)]
        with building(recorder):
            steps = cast(choice, INT)
        values = finish_loop(body, [body.fresh(a) for a in avals], values, ends, steps=steps)
    return tree_unflatten(structures[0], [as_result(v) for v in values])


def _common(what: str, functions: Sequence[Any], atoms: Sequence[Atom], place: Any) -> Aval:
    """The common aval of the *atoms* of all branches at one *place* of the result; Python numbers adapt."""
    fixed = [a.aval.dtype for a in atoms if not a.aval.weak]
    dtype = fixed[0] if fixed else reduce(promote_types, [a.aval.dtype for a in atoms])
    for f, atom in zip(functions, atoms, strict=True):
        fits = atom.aval.dtype == dtype or (atom.aval.weak and can_cast(atom.aval.dtype, dtype, "same_kind"))
        if not fits or atom.aval.shape != atoms[0].aval.shape:
            expected = Aval(dtype, atoms[0].aval.shape)
            remedy = (
                f".astype(np.{dtype})" if atom.aval.shape == atoms[0].aval.shape else "np.broadcast_to or np.reshape"
            )
            raise ShapeError.here(
                f"the branches of {what} have to give the same shapes and dtypes, but {named('result', place)} is "
                f"{shown(expected)} in one and {shown(atom.aval)} in {function_name(f)}: convert it with {remedy}"
            )
    return Aval(dtype, atoms[0].aval.shape)
