"""Compiled programs: the code for one signature, the places of its values, and its steps that NumPy does.

Code that was found on disk needs no emitter and no LLVM; ``assemble.py`` is imported to make other code, or to say
where a program's values lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...tracer.ir.gc_pause import imported_to_stay
from ...tracer.ir.primitive import LOOP
from ..lower.canonical import Canonical, CanonicalOp, Const, Sym
from ..lower.depth import recursion_for
from ..schedule.buffers import buffer_of, counted, filled
from ..schedule.loop_tree import Schedule, ScheduleItem
from ..schedule.memory import Sizes, Temporary, plan
from .cpython import memory_at, word_at
from .machine_code import ObjectCode
from .program_layout import ProgramLayout, results_of

if TYPE_CHECKING:
    from .loop_plan import LoopPlan


def compile_canonical(canonical: Canonical, arguments: int) -> Program:
    """The program of *canonical*, compiled now."""
    layout, steps, object_code, seconds = _assemble().assembled(canonical, arguments)
    return Program(canonical, arguments, steps, layout.temporaries, object_code, layout=layout, seconds=seconds)


def _assemble() -> Any:
    return imported_to_stay(".assemble", __package__)


class Program:
    """Compiled code for one signature. Where the code was found on disk, its :class:`ProgramLayout` is made when it is
    asked for: a launch needs none, unless NumPy does some of the steps."""

    def __init__(
        self, canonical: Canonical, arguments: int, steps: Sequence[str | int], temporaries: list[Temporary],
        object_code: ObjectCode, *, layout: ProgramLayout | None = None, summary: tuple | None = None,
        seconds: dict[str, float] | None = None,
    ) -> None:  # fmt: skip
        """*steps*: names of native functions, and positions of operations for NumPy; *summary*: what that of the layout
        must be."""
        self._given, self._layout, self._summary = canonical, layout, summary
        self.key = canonical.key
        self.arguments = arguments  # how many of the graph's inputs are the caller's; the rest are captured arrays
        self.inputs, self.results = canonical.inputs, results_of(canonical)
        self.temporaries = temporaries
        self.object_code = object_code  # of all steps
        self.code = code = object_code.load()
        self.step_names = steps
        #: Addresses of native functions, and operations for NumPy.
        self.steps: list[int | CanonicalOp] = [
            code.address(step) if isinstance(step, str) else self.canonical.ops[step] for step in steps
        ]
        self.seconds = seconds or {}
        self.from_disk = False

    @property
    def layout(self) -> ProgramLayout:
        if self._layout is None:
            with recursion_for(self._given):
                layout = _assemble().lay_out(self._given, self.arguments)
            if layout.summary != self._summary:
                raise LayoutError("machine code on disk knows other places of values than its signature decides")
            self._layout = layout
        return self._layout

    @property
    def canonical(self) -> Canonical:
        return self.layout.canonical

    @property
    def schedule(self) -> Schedule:
        return self.layout.schedule

    @property
    def guards(self) -> list[Sym]:
        return self.layout.guards

    @property
    def buffer_index(self) -> dict[Sym, int]:
        return self.layout.buffer_index

    @property
    def plans(self) -> dict[CanonicalOp, LoopPlan]:
        return self.layout.plans

    @property
    def bits(self) -> dict[ScheduleItem, int]:
        return self.layout.bits

    @property
    def symbol(self) -> str:
        """The name of its function in its object code, where that is its only step; else nothing."""
        first = self.step_names[0]
        return first if len(self.step_names) == 1 and isinstance(first, str) else ""

    @property
    def address(self) -> int:
        """The address of its function, where that is its only step; else 0."""
        first = self.steps[0]
        return first if len(self.steps) == 1 and isinstance(first, int) else 0

    def plan(self, sizes: Sizes) -> tuple[list[int], int]:
        return plan(self.temporaries, sizes)


class LayoutError(AssertionError):
    """Code that was compiled elsewhere does not belong to the layout made here, though its key is the same."""


# ---- steps that NumPy does ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored value: where its address stands in the table of buffers, its bytes, and its form."""

    offset: int
    nbytes: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def at(self, table: int) -> np.ndarray:
        """The value as an array, in the buffers of the table at this address."""
        return np.ndarray(self.shape, self.dtype, memory_at(word_at(table + self.offset), self.nbytes))


def stored_in(program: Any, canonical: Canonical, x: Sym) -> Stored:
    """The place of a value that *program* stores, for the sizes of *canonical*."""
    shape = tuple(int(canonical.sizes[d]) for d in x.dims)
    buffer = program.buffer_index[buffer_of(program.canonical, program.schedule.stored, x)]
    return Stored(8 * buffer, int(np.prod(shape, dtype=np.int64)) * x.dtype.itemsize, shape, x.dtype)


def host_step(program: Any, op: CanonicalOp, canonical: Canonical) -> Callable[[int], None]:
    """The step *op* of *program* for the sizes and constants of *canonical*, by its NumPy implementation: a function of
    the address of the table of buffers."""
    place = partial(stored_in, program, canonical)
    operands, params = step_operands(program, program.canonical.ops.index(op), canonical, place, np)
    outs = [place(out) for out in op.outs]

    def step(table: int) -> None:
        with np.errstate(all="ignore"):
            found = op.prim.impl(*[x.at(table) if type(x) is Stored else x for x in operands], **params)
            for out, value in zip(outs, found if op.more else (found,), strict=True):
                np.copyto(out.at(table), value, casting="unsafe")

    return step


def step_operands(
    program: Any, position: int, canonical: Canonical, view: Callable[[Sym], Any], xp: Any
) -> tuple[list[Any], dict[str, Any]]:
    """The operands and params with which the implementation of operation *position* is called, for the numbers of
    *canonical*.  *view* gives a stored value, as an array of the module *xp* or what stands for it."""
    sizes, op, mine = canonical.sizes, program.canonical.ops[position], canonical.ops[position]

    def number(x: Const) -> Any:
        if x.slot is None:
            return x.value
        return np.frombuffer(canonical.consts[x.slot :].tobytes()[: x.dtype.itemsize], x.dtype)[0]

    def operand(k: int) -> Any:
        """Operand *k*, also where it has no buffer."""
        x = op.ins[k]
        if isinstance(x, Const):
            return number(x)
        fill, rows = filled(program.canonical, op, k), counted(program.canonical, op, k)
        if fill is not None:
            return xp.full(tuple(int(sizes[d]) for d in x.dims), number(fill), x.dtype)
        if rows is not None:
            return xp.arange(int(sizes[x.dims[0]]), dtype=x.dtype)
        return view(x)

    params = dict(mine.params)
    if op.prim.name == "nonzero":
        params["count"] = int(sizes[op.out.dims[0]])
    if op.prim.kind == LOOP:
        params.update(body=mine.params["body"].graph, length=int(sizes[op.params["length"]]))
    return [operand(k) for k in range(len(op.ins))], params
