"""Recording the body of a loop: a recorder within a recorder.

The body runs once, on traced arrays that stand for any step.  Loop-invariant operations are recorded outside of it.
Asking for a value that depends on the step (``if``, ``float()``) is an error, because there is no single answer.

Positions that are ``a * row + b`` are followed: they are known to be in bounds, and ``x[i]`` of an array from outside
becomes one row of the operands that the loop steps through, whose derivative costs one row too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, INT, Aval
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Graph, Guard, Lit, Pair, Var, any_complex, lanes, live_nodes, pairs_exist, read_vars
from ..ir.primitive import Primitive
from ..ir.refusals import Refusal
from ..ops.closure_conversion import closed
from ..ops.custom import runs_python
from ..ops.indexing import GATHER
from ..ops.shape import RESHAPE, take_slice
from ..record.recorder import Recorder, as_complex
from ..record.retry import chosen_anew

_SAME_POSITION = frozenset({"reshape", "broadcast", "cast", "alias"})


class BodyRecorder(Recorder):
    """The recorder of the body of a loop of *length* steps."""

    hoists = True  # loop-invariant operations are recorded outside
    hint = (
        "of something that differs from step to step in the body of {}, which runs once for all steps: choose with "
        "np.where(condition, a, b) or tracegrad.cond, or write a Python loop instead"
    )

    def __init__(self, parent: Recorder, length: int, what: str) -> None:
        super().__init__()
        self.parent, self.length, self.what = parent, length, what
        self.span = length  # range of the step number, by which positions are bounded
        self.env, self.captured, self.prepares = parent.env, parent.captured, parent.prepares
        self.backend = parent.backend
        self.open_loops, self.loops, self.taught = parent.open_loops, parent.loops, parent.taught
        self.differentiates, self.differentiated = parent.differentiates, parent.differentiated
        self.choices = parent.choices
        self.row = Var(Aval(INT, (), weak=True))  # the number of the step's row
        self.own: set[Var] = {self.row}
        self.affine: dict[Var, tuple[int, int]] = {self.row: (1, 0)}  # Var: (a, b) where it is a * row + b
        self.rows: dict[tuple[Var, int, int], Var] = {}  # (array from outside, a, b): its row
        self.relied: dict[Atom, Callable[[], Exception]] = {}  # the errors of checks that are of no indices
        if length:
            self.loops.int_ranges[self.row] = 0, length - 1

    def fresh(self, aval: Aval) -> Var:
        """A further input of the body."""
        if aval.is_complex:
            lane = Aval(COMPLEX[aval.dtype], aval.shape)
            return Pair(self.fresh(lane), self.fresh(lane), aval.dtype)
        var = Var(Aval(aval.dtype, aval.shape))
        self.own.add(var)
        return var

    # ---- nodes -------------------------------------------------------------------------------------------------

    def emit(self, prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> tuple[Var, ...]:
        own = self.own
        if pairs_exist and any_complex(inputs):
            return self.emit_apart(prim, inputs, params)
        if self.hoists:
            outside = False
            for a in inputs:
                if isinstance(a, Var):
                    if a in own:
                        break
                    outside = True
            else:
                if outside:
                    assert self.parent is not None
                    return self.parent.emit(prim, inputs, params)
        if prim is GATHER and self.hoists:
            row = self._row_of(*inputs)
            if row is not None:
                shape = (*inputs[1].aval.shape, *inputs[0].aval.shape[1:])
                return (row,) if row.aval.shape == shape else self.emit(RESHAPE, (row,), {"shape": shape})
        outs = super().emit(prim, inputs, params)
        own.update(outs)
        if outs[0].aval.dtype.kind == "i":
            position = self._position(prim.name, inputs)
            if position is not None:
                self.affine[outs[0]] = position
        return outs

    def claim(self, values: Sequence[Var]) -> None:
        self.own.update(values)

    def _position(self, name: str, inputs: tuple[Atom, ...]) -> tuple[int, int] | None:
        known = [self._affine(a) for a in inputs]
        if not known or any(k is None for k in known):
            return None
        (a, b), *rest = [k for k in known if k is not None]
        if name in _SAME_POSITION:
            return a, b
        if name == "neg":
            return -a, -b
        if name in ("add", "sub") and rest:
            (c, d), sign = rest[0], 1 if name == "add" else -1
            return a + sign * c, b + sign * d
        return None

    def _affine(self, atom: Atom) -> tuple[int, int] | None:
        if isinstance(atom, Lit):
            return (0, int(atom.value)) if atom.aval.dtype.kind == "i" else None
        return self.affine.get(atom)

    def range_of(self, atom: Atom) -> tuple[int, int] | None:
        known = self.affine.get(atom) if isinstance(atom, Var) else None
        if known is None or not self.span:
            return super().range_of(atom)
        ends = (known[1], known[0] * (self.span - 1) + known[1])
        return min(ends), max(ends)

    def _row_of(self, x: Atom, index: Atom) -> Var | None:
        """The row of *x*, an array from outside, at an *index* that is affine in the step number; else None."""
        if not isinstance(x, Var) or x in self.own or not isinstance(index, Var) or index.aval.size != 1:
            return None
        a, b = self.affine.get(index, (0, 0))
        bounds = self.range_of(index)
        if a not in (1, -1) or bounds is None or bounds[0] < 0 or bounds[1] >= x.aval.shape[0]:
            return None
        found = self.rows.get((x, a, b))
        if found is None:
            found = self.rows[(x, a, b)] = self.fresh(Aval(x.aval.dtype, x.aval.shape[1:]))
        return found

    # ---- what has no answer here -------------------------------------------------------------------------------

    def guard(self, atom: Atom, kind: str) -> Any:
        assert self.parent is not None
        if atom.aval.is_complex:
            return as_complex([self.guard(x, kind) for x in lanes(atom)], atom.aval)[()]
        if self.open_loops and (known := self.open_loops[-1].answer(atom)) is not None:
            return np.bool_(known)
        if isinstance(atom, Var) and atom in self.own:
            if kind == "index" and atom.aval.dtype.kind == "b":
                self._check(atom, kind)
                return True
            if (now := self._now(atom)) is not None:  # of this iteration alone
                self.open_loops[-1].refuse(Refusal.LOOP_ANSWERS(site=self.site()))
                return now[()]
            site, outermost = self.site(), self.outermost()
            choices = self.choices if kind == "bool" and outermost.repeatable else None
            if choices is not None and site is not None and choices.want((site.file, site.line)):
                outermost.again(chosen_anew())
            asks, hint = _ASKS.get(kind, _ASKS["item"]), self.hint.format(self.what)
            if kind in ("item", "index") and atom.aval.dtype.kind in "iu":
                hint += " (is it the index of a plain NumPy array a? write tracegrad.asarray(a)[i])"
            raise UnsupportedError.here(f"{asks} {hint}")
        return self.parent.guard(atom, kind)

    def rely(self, condition: Atom, error: Callable[[], Exception]) -> None:
        if isinstance(condition, Var) and condition in self.own:
            self.relied.setdefault(condition, error)
            self._check(condition, "linalg")
            return
        assert self.parent is not None
        self.parent.rely(condition, error)

    # ---- what has to hold in every step ------------------------------------------------------------------------

    @property
    def checks(self) -> list[Atom]:
        """Bools that have to hold in every step."""
        return [guard.atom for guard in self.guards]

    def _check(self, atom: Atom, kind: str) -> None:
        self.add_guard(Guard(atom, np.True_, kind, self.site(), len(self.nodes)))

    def add_guard(self, guard: Guard) -> None:
        assert self.parent is not None
        if guard.atom in self.own:
            super().add_guard(guard)
        else:
            self.parent.add_guard(guard)

    def holds(self, flag: Atom, conditions: Sequence[Atom]) -> bool:
        assert self.parent is not None
        if flag not in self.own:
            return self.parent.holds(flag, conditions)
        if all(condition in self.relied for condition in conditions):
            self.relied[flag] = self.relied[conditions[0]]
        return True

    def error(self, of_index: Callable[[], Exception]) -> Callable[[], Exception]:
        """The error where a check does not hold, *of_index* where one may be of an index."""
        every = [self.relied.get(check, of_index) for check in self.checks]
        return of_index if of_index in every else every[0]

    def value(self, atom: Atom) -> Any:
        if atom.aval.is_complex:
            return as_complex([self.value(x) for x in lanes(atom)], atom.aval)
        if isinstance(atom, Var) and atom in self.own:
            if (now := self._now(atom)) is not None:
                return now
            raise UnsupportedError.here(f"this asks for the value {self.hint.format(self.what)}")
        assert self.parent is not None
        return self.parent.value(atom)

    def _now(self, atom: Atom) -> np.ndarray | None:
        """The value of *atom* in the iteration of a Python loop that is recorded, if it is a position there."""
        return self.open_loops[-1].now(atom) if self.open_loops else None

    def values(self, atoms: Sequence[Atom]) -> list[Any] | None:
        assert self.parent is not None
        return None if any(x in self.own for x in atoms if isinstance(x, Var)) else self.parent.values(atoms)

    def const(self, array: np.ndarray) -> Var:
        assert self.parent is not None
        return self.parent.const(array)

    def unrepeatable(self, refusal: Refusal, **fields: object) -> None:
        assert self.parent is not None
        self.parent.unrepeatable(refusal, **fields)

    # ---- the finished body -------------------------------------------------------------------------------------

    def close(self, carries: Sequence[Var], xs: dict[Var, Atom], outputs: Sequence[Atom]) -> ClosedBody:
        """The body as a graph.  *xs*: the row and the array for each operand that is stepped through."""
        nodes = live_nodes(self.nodes, outputs)
        for node in nodes:
            if runs_python(node):
                raise UnsupportedError.here(
                    f"a Function with a backward of its own is not supported in the body of {self.what}; "
                    "write a Python loop",
                    node.site,
                )
        every = {**xs, **{row: self._sliced(*place) for place, row in self.rows.items()}}
        read = read_vars(nodes, outputs)
        rows = [row for row in every if row in read]
        graph, consts = closed(nodes, outputs, [*carries, *rows])
        return ClosedBody(graph, consts, [every[row] for row in rows])

    def _sliced(self, x: Var, a: int, b: int) -> Atom:
        rest = x.aval.shape[1:]
        return take_slice(x, (b, *[0] * len(rest)), (a, *[1] * len(rest)), (self.length, *rest))


class BranchRecorder(BodyRecorder):
    """The recorder of a branch, which is a loop of at most one step: nothing is recorded outside."""

    hoists = False
    hint = (
        "of something that is computed in a branch of {}, which is recorded whether it is taken or not: choose with "
        "another tracegrad.cond or np.where(condition, a, b)"
    )

    def __init__(self, parent: Recorder, what: str) -> None:
        super().__init__(parent, 1, what)
        if isinstance(parent, BodyRecorder):  # the step's number stays in bounds in here, too
            self.affine.update(parent.affine)
            self.span = parent.span


class ClosedBody:
    """A finished body: its graph, the atoms from outside that it reads, the arrays whose rows it reads."""

    __slots__ = ("consts", "graph", "xs")

    def __init__(self, graph: Graph, consts: list[Var], xs: list[Atom]):
        self.graph, self.consts, self.xs = graph, consts, xs


_ASKS = {
    "bool": "`if`, `while`, `and` or `not` asks for the truth",
    "item": "float(), int() or .item() asks for the value",
    "mask": "a boolean mask asks for the number of True elements",
    "linalg": "eig, eigvals or the like asks for a property (are all eigenvalues real? what is the rank?)",
}
