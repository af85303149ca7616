"""Recording of one loop: its body, its carries, and its node in the recording around it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import optree

from ..ir.aval import INT, Aval, can_cast
from ..ir.errors import BadIndexError, ShapeError, TracegradError, UnsupportedError
from ..ir.graph import Atom, Lit, Var, building, structural
from ..ir.trees import tree_flatten, tree_unflatten
from ..ops.complex import put_together, taken_apart
from ..ops.control import UNLIMITED, loop
from ..ops.elementwise import F, cast
from ..ops.shape import iota
from ..record.array import TracedArray, to_atom, wrap
from ..record.recorder import Recorder, recording
from .body_recorder import BodyRecorder
from .trees import (
    as_result,
    check_truth,
    function_name,
    named,
    remedy,
    shown,
    strong,
    structure_text,
    truth,
)


class LoopRecording:
    """One loop in the recording in progress."""

    def __init__(self, parent: Recorder, what: str, f: Callable[..., Any], init: Any, length: int, reverse: bool):
        self.parent, self.what, self.f, self.length, self.reverse = parent, what, f, length, reverse
        leaves, self.spec = tree_flatten(init)
        self.inits = [strong(x) for x in leaves]
        self.body = BodyRecorder(parent, length, what)
        self.carries = [self.body.fresh(a.aval) for a in self.inits]

    def run(self, leaves: Sequence[Any], spec: Any) -> tuple[Any, Any]:
        """(carry, ys) of a scan or a map over *leaves*."""
        xs: dict[Var, Atom] = {}
        rows = []
        with recording(self.body):
            for x in leaves:
                row = self._counted(x)
                if row is None:
                    with building(self.parent):
                        atom = to_atom(x)
                    row = self.body.fresh(Aval(atom.aval.dtype, atom.aval.shape[1:]))
                    xs[row] = atom
                rows.append(TracedArray(row, self.body, owner="a row of xs"))
            x = tree_unflatten(spec, rows)
            if self.what == "map":
                carry, y = (), self.f(x)
            else:
                carry, y = pair(self.f(self._carry(), x), self.f)
            ends = self._ends(carry)
            stacked, structure = tree_flatten(y)
            ys = [strong(v) for v in stacked]
        found = self._loop(xs, ends, ys)
        results = [as_result(v) for v in found]
        count = len(self.carries)
        return tree_unflatten(self.spec, results[:count]), tree_unflatten(structure, results[count:])

    def run_counted(self, lower: int) -> Any:
        """The last carry of a loop over a number from *lower* on."""
        with recording(self.body):
            number: Atom = self.body.row
            if lower:
                number = F.add(number, Lit(lower, INT, weak=True))
            ends = self._ends(self.f(wrap(number, self.body), self._carry()))
        return tree_unflatten(self.spec, [as_result(v) for v in self._loop({}, ends, [])])

    def run_while(self, cond_fun: Callable[[Any], Any]) -> Any:
        """The last carry of a loop that goes on for as long as *cond_fun* says so."""
        with recording(self.body):
            asked_for = cond_fun(self._carry())
            check_truth(asked_for, f"the condition of {self.what}", cond_fun)
            go_on = truth(asked_for)
            asked = len(self.body.checks)
            ends = self._ends(self.f(self._carry()))
        found = finish_loop(self.body, self.carries, self.inits, ends, go_on=go_on, asked=asked)
        return tree_unflatten(self.spec, [as_result(v) for v in found[: len(self.carries)]])

    def _carry(self) -> Any:
        return tree_unflatten(self.spec, [as_result(v) for v in self.carries])

    def _counted(self, x: Any) -> Var | None:
        """The number of the row in place of an array that counts up or down by 1."""
        if not isinstance(x, np.ndarray) or x.dtype != INT or x.ndim != 1 or not self.length:
            return None
        if self.parent.captured.get(id(x)) is not None:
            return None  # an array from outside: it may change
        step = int(x[1] - x[0]) if len(x) > 1 else 1
        if step not in (1, -1) or not np.array_equal(x, np.arange(x[0], x[0] + step * self.length, step)):
            return None
        row: Atom = cast(self.body.row, INT)
        if step == -1:
            row = F.neg(row)
        found = F.add(row, Lit(int(x[0]), INT)) if x[0] or isinstance(row, Lit) else row
        assert isinstance(found, Var)
        return found

    def _ends(self, carry: Any) -> list[Atom]:
        """The carry at the end of a step, which has to be like the one at its beginning."""
        leaves, spec = tree_flatten(carry)
        root = self._parameter()
        if spec != self.spec:
            raise UnsupportedError.here(
                f"the carry of {self.what} changes its structure: `{root}` starts as {structure_text(self.spec)} "
                f"and comes back from {function_name(self.f)} as {structure_text(spec)}"
            )
        result = []
        for value, var, accessor in zip(leaves, self.carries, optree.treespec_accessors(spec), strict=True):
            atom, before = to_atom(value), var.aval
            fits = atom.aval.dtype == before.dtype or (
                atom.aval.weak and can_cast(atom.aval.dtype, before.dtype, "same_kind")
            )
            if atom.aval.shape != before.shape or not fits:
                raise ShapeError.here(
                    f"the carry {named(root, accessor)} of {self.what} starts as {shown(before)} and comes back "
                    f"from {function_name(self.f)} as {shown(atom.aval)}: {remedy(before, atom.aval)}"
                )
            result.append(cast(atom, before.dtype))
        return result

    def _parameter(self) -> str:
        """The name of the carry in the user's function."""
        try:
            names = list(inspect.signature(self.f).parameters)
        except (TypeError, ValueError):
            return "carry"
        position = 1 if self.what == "fori_loop" else 0
        return names[position] if position < len(names) else "carry"

    def _loop(self, xs: dict[Var, Atom], ends: list[Atom], ys: list[Atom]) -> list[Atom]:
        return finish_loop(self.body, self.carries, self.inits, ends, ys, xs, reverse=self.reverse)


def finish_loop(
    body: BodyRecorder, carried: Sequence[Var], inits: Sequence[Atom], ends: Sequence[Atom],
    ys: Sequence[Atom] = (), xs: Mapping[Var, Atom] = MappingProxyType({}), *, reverse: bool = False,
    steps: Atom | None = None, go_on: Atom | None = None, asked: int = 0,
) -> list[Atom]:  # fmt: skip
    """The results of the loop over *body* (final carries, number of steps where it can stop, stacked *ys*), appended
    to the recording around it.

    Bounds checks of indices accumulate in one more carry, a bool: all in bounds so far.  The first *asked* checks
    belong to the loop's condition; it stops where one fails.
    """
    parent = body.parent
    assert parent is not None
    like = [*ends, *([] if go_on is None else [go_on]), *ys]
    with building(body):
        ends, ys = taken_apart(ends), taken_apart(ys)
    with building(parent):
        inits, rows = taken_apart(inits), zip(taken_apart([*xs]), taken_apart([*xs.values()]), strict=True)
    carries: Any = taken_apart(carried)
    count = len(carries)
    if body.checks:
        with building(body):
            held = body.fresh(Aval(np.dtype(bool), ()))
            before, after = _all(body.checks[:asked]), _all(body.checks)
            if go_on is not None:  # a step is taken to say so
                wrong = F.logical_not(before) if asked else structural(False, np.dtype(bool))
                go_on = F.logical_and(held, F.logical_or(go_on, wrong))
            ends.append(F.logical_and(held, after))
        carries.append(held)
        inits.append(structural(True, np.dtype(bool)))
    with building(parent):
        every: dict[Any, Atom] = dict(rows)
        if body.length < UNLIMITED:
            every[body.row] = iota(body.length)
        outputs = [*([] if go_on is None else [go_on]), *ends, *ys]
        closed = body.close(carries, every, outputs)
        found = list(
            loop(
                closed.graph, closed.consts, inits, closed.xs, body.length, reverse,
                steps=steps, stops=go_on is not None,
            )
        )  # fmt: skip
        if body.checks:
            try:
                inside = bool(parent.guard(found.pop(count), "index"))
            except IndexError:  # NumPy, while it looked
                inside = False
            if not inside:
                index = f"an index in the body of {body.what} is out of bounds in some step"
                raise body.error(lambda: BadIndexError.here(index))()
    return put_together(found, like)


def _all(checks: Sequence[Atom]) -> Atom:
    """Whether all *checks* hold."""
    result: Atom = structural(True, np.dtype(bool))
    for k, check in enumerate(checks):
        result = F.logical_and(result, check) if k else check
    return result


def pair(result: Any, f: Any) -> tuple[Any, Any]:
    if not (isinstance(result, tuple) and len(result) == 2):
        raise TracegradError.here(
            f"scan needs a function that returns (carry, y), but {function_name(f)} returned "
            f"{type(result).__name__}; return (carry, None) if there is nothing to stack"
        )
    return result
