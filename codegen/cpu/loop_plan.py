"""Storage plans of loop nodes: schedule of the body, stack slots, spare buffers, workspace.

The body goes through the pipeline like a program: its schedule says what is stored.  A carry or a temporary that is
small and static lives in stack slots, which LLVM turns into registers; a large one needs a buffer, which is work space
of the whole program's.  Another target decides this by other ``Rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ...tracer.ir.data_classes import NamedTuple, dataclass
from ...tracer.ir.primitive import LOOP
from ...tracer.ops.control import before_consts, before_rows
from ..lower.canonical import ONE, Body, Canonical, CanonicalOp, Dim, Sym
from ..schedule.buffers import elements, filled, rows_from
from ..schedule.in_place import InPlace, carries_in_place
from ..schedule.loop_tree import LibraryCall, Schedule
from ..schedule.schedule import make_schedule
from ..schedule.tiles import TILE


class Work(NamedTuple):
    """A workspace buffer of a loop, beside its operands and results; *dims* index the sizes of the whole program."""

    sym: Sym
    dims: tuple[Dim, ...]
    itemsize: int


@dataclass(slots=True, eq=False)
class LoopPlan:
    op: CanonicalOp
    program: Canonical
    schedule: Schedule
    spares: dict[Sym, Sym]  # incoming large carry -> its second buffer
    small: dict[Sym, int]  # temporary in stack slots -> its number of elements
    carried: dict[Sym, int]  # incoming carry in stack slots -> its number of elements
    copied: dict[Sym, int]  # loop-invariant operand in stack slots -> its number of elements
    work: list[Work]
    cleared: list[int]  # results whose rows beyond the trip count are zeroed
    nested: dict[CanonicalOp, LoopPlan] = field(default_factory=dict)
    versions: dict[Sym, Sym] = field(default_factory=dict)  # of carries in place: each value -> the incoming one


class Rules(NamedTuple):
    """A target's policy for loop bodies: the schedule, and which values live in stack slots."""

    schedule: Callable[..., Schedule]
    slots: Callable[[Canonical, Schedule, Sym], int | None]  # number of slots of a value; None: it needs a buffer
    copies: Callable[[Canonical, Sym], bool]  # whether a small loop-invariant operand is copied to slots
    in_place: bool = False  # whether carries may be updated in place


CPU_RULES = Rules(
    make_schedule, lambda program, schedule, sym: elements(program, schedule.kept_axes(sym)),
    lambda program, sym: True, in_place=True,
)  # fmt: skip


def results_of(program: Canonical) -> list[Sym]:
    """The outputs of a body, all of which are stored."""
    return [x for x in program.outputs if isinstance(x, Sym)]


def shows_every_row(around: Canonical, op: CanonicalOp, out: Sym) -> bool:
    """Whether the program *around* the loop *op* may read rows of its result *out* beyond the trip count.

    Loops that iterate over *out* with the same trip count do not.
    """
    if out in around.outputs:
        return True
    count = op.outs[op.params["carries"]] if op.params["stops"] else op.ins[0]
    for reader in around.ops:
        stepping = reader.prim.kind == LOOP and reader.params["counted"] and reader.ins[0] is count
        first = rows_from(reader) if stepping else len(reader.ins)
        if out in reader.ins[:first]:
            return True
    return False


def plan_loop(op: CanonicalOp, around: Canonical, sizes_at: int = 0, rules: Rules = CPU_RULES) -> LoopPlan:
    """The plan of loop *op* in the program *around*, whose sizes begin at *sizes_at* in the table of the whole."""
    body: Body = op.params["body"]
    program = body.program
    base = sizes_at + body.sizes_at
    held = carries_in_place(op) if rules.in_place else InPlace({}, set())
    schedule = rules.schedule(program, kept=held.stored) if held.stored else rules.schedule(program)
    plan = LoopPlan(op, program, schedule, {}, {}, {}, {}, [], [], versions=held.versions)
    if op.params["counted"] or op.params["stops"]:
        ys = range(before_rows(op.params), len(op.outs))
        plan.cleared = [k for k in ys if shows_every_row(around, op, op.outs[k])]

    def absolute(dims: Sequence[Dim]) -> tuple[Dim, ...]:
        return tuple(base + d for d in dims if d != ONE)

    first, count = op.params["consts"], op.params["carries"]
    for k, sym in enumerate(program.inputs[:first]):
        position = before_consts(op.params) + k
        size = elements(program, sym.dims)
        no_buffer = not isinstance(op.ins[position], Sym) or filled(around, op, position) is not None
        if size is not None and (no_buffer or rules.copies(program, sym)):
            plan.copied[sym] = size
    ends = program.outputs[op.params["stops"] :]
    for sym, end in zip(program.inputs[first : first + count], ends, strict=False):
        assert isinstance(end, Sym)
        size = rules.slots(program, schedule, end)
        if size is not None:
            plan.carried[sym] = size
        elif sym not in held.versions:
            spare = plan.spares[sym] = Sym(sym.number, sym.dtype, sym.dims)
            plan.work.append(Work(spare, absolute(sym.dims), sym.dtype.itemsize))
    results = set(results_of(program))
    for sym in schedule.where:
        if sym in results or sym in held.versions:
            continue
        rows = TILE if sym in schedule.tiled else 1
        size = rules.slots(program, schedule, sym)
        if size is not None and rows == 1:
            plan.small[sym] = size
        else:
            plan.work.append(Work(sym, absolute(schedule.kept_axes(sym)), sym.dtype.itemsize * rows))
    for item in schedule.body:
        if isinstance(item, LibraryCall) and "body" in item.op.params:
            inner = plan.nested[item.op] = plan_loop(item.op, program, base, rules)
            plan.work += inner.work
    return plan
