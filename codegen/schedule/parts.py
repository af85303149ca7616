"""Results that are put together from parts, each of which is written where it belongs.

A result that is a concatenation needs no loop of its own, which would read all parts again: each part is a statement
that writes into the result, and that is placed with what computes it.  A *run* is a stretch of the result that has its
own pointer: a part of the leading axis, or an array of several columns, whose parts are a *window* of it each.
``find_parts`` is about what is correct; what is worth it is decided apart, in ``worth_it`` and ``scattered``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import field, replace

from ...tracer.ir.data_classes import dataclass
from ..lower.canonical import COPY, ONE, Canonical, CanonicalOp, Dim, Operand, Sym
from .loop_tree import PartWindow, ResultRun, Schedule, Statement
from .schedule import make_schedule

MAX_PARTS = 64  # of one result along an inner axis, and of one run
MAX_PASSES = 2  # loops that go through the rows of one run, each writing some columns


@dataclass(slots=True)
class _Part:
    """One operand of a concatenation: ``column`` is its number among several along ``axis`` of an array."""

    value: Operand
    dims: tuple[Dim, ...]  # of the array that the run holds
    axis: int = 0
    extents: tuple[Dim, ...] = ()  # of all operands along the axis
    column: int = 0

    @property
    def own_dims(self) -> tuple[Dim, ...]:
        return tuple([self.extents[self.column] if a == self.axis else d for a, d in enumerate(self.dims)])


@dataclass(slots=True)
class InParts:
    """*program* with the parts of results as operations of their own."""

    program: Canonical
    windows: dict[Sym, PartWindow] = field(default_factory=dict)
    runs: dict[Sym, ResultRun] = field(default_factory=dict)


def schedule_in_parts(program: Canonical) -> tuple[Canonical, Schedule]:
    """(the program with parts of results as operations, its schedule)."""
    found = find_parts(program, lambda _, runs: worth_it(program, runs))
    schedule = make_schedule(found.program, windows=found.windows, runs=found.runs)
    refused = scattered(found.program, schedule)
    if not refused:
        return found.program, schedule
    # with other results in parts, the rest is placed as it was
    found = find_parts(program, lambda x, runs: x not in refused and worth_it(program, runs))
    return found.program, make_schedule(found.program, windows=found.windows, runs=found.runs)


# ---- what is correct ---------------------------------------------------------------------------------------------


def find_parts(program: Canonical, wanted: Callable[[Sym, list[list[_Part]]], bool]) -> InParts:
    """The results of *program* that are put together and read by nothing else, taken apart where they are *wanted*."""
    read = {x for op in program.ops for x in op.ins}
    results = program.outputs[: program.results]
    found = InParts(program)
    number = itertools.count(1 + max([out.number for op in program.ops for out in op.outs], default=0))
    copies: list[CanonicalOp] = []
    for x in results:
        op = program.producers.get(x) if isinstance(x, Sym) else None
        if op is None or not isinstance(x, Sym) or op.prim.name != "concat" or x in read:
            continue
        runs = [*_runs(program, op)]
        if not wanted(x, runs):
            continue
        before: Sym | None = None
        for parts in runs:
            dims, axis = parts[0].dims, parts[0].axis
            run = Sym(next(number), x.dtype, dims)
            found.runs[run] = ResultRun(x, before, dims[:1] if axis else parts[0].extents, dims[1:])
            before = run
            for part in parts:
                out = Sym(next(number), x.dtype, part.own_dims)
                copies.append(CanonicalOp(COPY, (part.value,), {}, out, op.site))
                found.windows[out] = PartWindow(run, part.axis, part.extents, part.column)
    if copies:
        producers = {**program.producers, **{op.out: op for op in copies}}
        found.program = replace(program, ops=[*program.ops, *copies], producers=producers)
    return found


def _runs(program: Canonical, op: CanonicalOp) -> Iterator[list[_Part]]:
    """The runs of the concatenation *op*, one after the other in memory, by their parts."""
    axis = op.params["axis"]
    if any(d != ONE for d in op.out.dims[:axis]):
        extents = tuple([x.dims[axis] for x in op.ins])
        yield [_Part(x, op.out.dims, axis, extents, k) for k, x in enumerate(op.ins)]
        return
    many = len(op.ins) > MAX_PARTS
    together: list[Operand] = []  # of sizes that are known, so that they need no pointers of their own
    for x in op.ins:
        inner = _joined(program, x)
        if together and (inner is not None or x.dims[0] not in program.static or len(together) == MAX_PARTS):
            yield _stretch(together)
            together = []
        if inner is not None:
            yield from _runs(program, inner)
        elif many and x.dims[0] in program.static:
            together.append(x)
        else:
            yield _stretch([x])
    if together:
        yield _stretch(together)


def _stretch(together: list[Operand]) -> list[_Part]:
    """The parts of a run of arrays that are joined along the first axis."""
    extents = tuple([x.dims[0] for x in together])
    return [_Part(x, x.dims, 0, extents, k) for k, x in enumerate(together)]


def _joined(program: Canonical, x: Operand) -> CanonicalOp | None:
    """The concatenation that *x* is, in the same order of elements."""
    while isinstance(x, Sym) and (op := program.producers.get(x)) is not None:
        if op.prim.name == "concat":
            return op
        if op.prim.name not in ("reshape", "alias"):
            return None
        x = op.ins[0]
    return None


# ---- what is worth it --------------------------------------------------------------------------------------------


def worth_it(program: Canonical, runs: list[list[_Part]]) -> bool:
    """Whether the parts of a result had better be written in the loops of their own (a heuristic)."""
    parts = [part for parts in runs for part in parts]
    if len(parts) > MAX_PARTS:  # along the first axis there are as many stores as elements
        return not any(part.axis for part in parts)
    if all(d in program.static for part in parts for d in part.own_dims):
        return False
    # single columns in rows of unknown length: stores at a distance that LLVM does not know
    return all(len({d in program.static for d in part.extents}) <= 1 for part in parts)


def scattered(program: Canonical, schedule: Schedule) -> set[Sym]:
    """Results of which many loops would write a few columns each, going through all of the memory each time."""
    passes: dict[Sym, set[int]] = {}
    for part, window in schedule.windows.items():
        statement = schedule.where[part]
        assert isinstance(statement, Statement)
        narrow = len(window.extents) > 1 and window.extents[window.column] in program.static
        if narrow and any(d != ONE for d in window.run.dims[: window.axis]):
            passes.setdefault(window.run, set()).add(id(statement.path[0]) if statement.path else 0)
    return {schedule.runs[run].whole for run, loops in passes.items() if len(loops) > MAX_PASSES}
