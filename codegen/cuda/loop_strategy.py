"""Strategy for loops on the device: one kernel or calls of the array module, by thread or by block.

Two questions decide it (``way_of``):

- Is the state a batch of trajectories that do not depend on each other (``batch_independence.py``)?  Then each is run
  from end to end by itself, and nobody waits for another one.
- Who runs a loop, a thread or a block?  A block does where a step has much to do.

A ``Way`` is the answer.  Correctness is decided in ``batch_independence.py`` and ``_foreign``, the rest is about speed.
``note`` says it in words, for ``explain``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...tracer.ir.data_classes import NamedTuple, dataclass
from ...tracer.ir.primitive import LOOP, PRODUCT, RECURRENCE, REDUCE
from ...tracer.ir.refusals import Reason, Refusal
from ..cpu.library_calls import native
from ..cpu.loop_plan import CPU_RULES, LoopPlan, Rules, Work, plan_loop
from ..lower.canonical import ONE, Canonical, CanonicalOp, Const, Dim, Operand, Sym
from ..schedule.buffers import buffer_of, elements, rows_from
from ..schedule.dependences import carries, domain, is_call
from ..schedule.loop_tree import LibraryCall, Loop, Schedule, Statement, statements_of
from ..schedule.memory import Sizes, Temporary
from .batch_independence import Batch, Trajectories, batch_of, in_batch, inner_batch, one_of
from .mapping import BLOCK, COLUMNS, THREAD, Extent, Mapping, mapping_of, product
from .offload import has_kernel
from .placing import device_schedule, thread_schedule

REACH = 1 << 16  # elements that a block makes in a step at most
REPEATED = 64  # iterations of a nest that every thread of a block rather does itself than wait for the others


class Sum(NamedTuple):
    """Carry number *carry* that is a sum over trajectories: each stores its own in *shares*, and *reduction* combines
    them."""

    carry: int
    reduction: CanonicalOp
    shares: Sym


@dataclass(frozen=True, slots=True)
class Way:
    """A loop as a kernel: *plan* is run by a thread or a block, for each index of *batch* (ONE: a single loop).

    *axes* are all dims that stand for the batch.  *why* says why not otherwise; *arrays* are the dims of the arrays
    that a block makes in a step.
    """

    by: str
    plan: LoopPlan
    batch: Dim
    axes: Batch
    why: Reason | None
    arrays: tuple[tuple[Dim, ...], ...]
    sums: tuple[Sum, ...] = ()

    @property
    def extent(self) -> Extent:
        units = () if self.batch == ONE else (self.batch,)
        inner = tuple(dict.fromkeys(d for dims in self.arrays for d in dims))
        return Extent(Mapping(self.by, len(units)), units, inner, lonely=self.by == THREAD)

    def too_large(self, sizes: Sizes) -> bool:
        """Whether a step makes more than ``REACH`` elements, so that launches of the whole device are faster."""
        return any(product(dims, sizes) > REACH for dims in self.arrays)

    def temporaries(self, position: int) -> list[tuple[Sym, Temporary]]:
        """Workspace buffers of the loop, item *position* of the program."""
        return [
            (w.sym, Temporary(f"{w.sym!r} of a loop", (self.batch, *w.dims), w.itemsize, position, position))
            for w in self.plan.work
        ]

    def used(self, around: Canonical, schedule: Schedule) -> list[Sym]:
        """The buffers that the kernel takes."""
        held = _held(around, schedule, self.plan.op.ins)
        return list(dict.fromkeys([*held, *self.plan.op.outs, *[w.sym for w in self.plan.work]]))

    def summed(self, around: Canonical, schedule: Schedule, op: CanonicalOp) -> list[Sym]:
        """The buffers that the kernel of its sums takes; *op* is the loop as it was."""
        first = rows_from(op) - op.params["carries"]
        begins = _held(around, schedule, [op.ins[first + s.carry] for s in self.sums])
        results = [op.outs[s.carry] for s in self.sums]
        return list(dict.fromkeys([*begins, *results, *[s.shares for s in self.sums]]))


def _held(around: Canonical, schedule: Schedule, operands: Sequence[Operand]) -> list[Sym]:
    """The buffers of those *operands* that have one."""
    found = [buffer_of(around, schedule.stored, x) for x in operands if isinstance(x, Sym)]
    return [s for s in found if s in schedule.stored or s not in around.producers]


# ---- which way -------------------------------------------------------------------------------------------------


def way_of(around: Canonical, op: CanonicalOp) -> Way | Reason:
    """The kernel strategy of the loop *op* in the program *around*, or the reason why there is none."""
    foreign = _foreign(op)
    if foreign:
        return Refusal.KERNEL_FOREIGN(value=foreign)
    batch = batch_of(op)
    if not isinstance(batch, Reason):
        way = _by_size(around, _from_nothing(one_of(op, batch.axes), batch), batch.dim, batch.axes, None)
        why = _too_wide(op, way.plan, batch.axes)
        if why is None:
            sums = tuple(Sum(k, parts[0], Sym(-1, op.outs[k].dtype, ())) for k, parts in batch.sums.items())
            way.plan.work += [Work(s.shares, (), s.shares.dtype.itemsize) for s in sums]
            return replace(way, sums=sums)
        batch = why.within(f"not for each index of n{batch.dim}: ")
    return _by_size(around, op, ONE, frozenset(), batch)


def _from_nothing(op: CanonicalOp, batch: Trajectories) -> CanonicalOp:
    """The loop *op* with the initial values of its sums over trajectories replaced by the identity."""
    ins, first = list(op.ins), rows_from(op) - op.params["carries"]
    for k, parts in batch.sums.items():
        dtype = op.outs[k].dtype
        ins[first + k] = Const(dtype, dtype.type(parts[0].prim.name == "reduce_and"), None)
    return replace(op, ins=tuple(ins))


def _by_size(around: Canonical, op: CanonicalOp, batch: Dim, axes: Batch, why: Reason | None) -> Way:
    """The strategy of one loop, by a block where that is faster than by a thread."""
    if _worth_sharing(op) and not _asks_a_call(op):
        arrays = tuple(dict.fromkeys(_made(op)))
        return Way(BLOCK, plan_loop(op, around, rules=BLOCK_RULES), batch, axes, why, arrays)
    return Way(THREAD, plan_loop(op, around, rules=THREAD_RULES), batch, axes, why, ())


def _made(op: CanonicalOp, sizes_at: int = 0) -> Iterator[tuple[Dim, ...]]:
    """The dims of the values of the body of *op*, as the whole program numbers them."""
    body = op.params["body"]
    base = sizes_at + body.sizes_at
    for part in body.program.ops:
        yield tuple(base + d for d in part.out.dims if d != ONE)
        if part.prim.kind == LOOP:
            yield from _made(part, base)


def note(op: CanonicalOp, way: Way | Reason) -> str | Reason:
    """The note on loop *op* for ``explain``."""
    if isinstance(way, Reason):
        return way.within(f"{op.out} (loop) is not a kernel: ")
    large = f", or by the array module where it makes more than {REACH} elements in a step" if way.arrays else ""
    who = f"one {way.by}" if way.batch == ONE else f"a {way.by} for each index of n{way.batch}"
    text = f"{op.out} (loop) is a kernel, run by {who}{large}"
    return text if way.why is None else way.why.within(f"{text}: ")


def _foreign(op: CanonicalOp) -> str:
    """Description of an operation in the body of a loop that no kernel can do; "" if there is none."""
    for part in op.params["body"].program.ops:
        if part.prim.kind == LOOP:
            if found := _foreign(part):
                return found
        elif not has_kernel(part) or (is_call(part) and not native(part)):
            return f"{part.out} ({part.prim.name})"
    return ""


def _too_wide(op: CanonicalOp, plan: LoopPlan, batch: Batch) -> Reason | None:
    """The reason why shared values, which each trajectory would compute for itself, rule out a batch, or None.

    Every thread writes shared results; all write the same, so their order does not matter.
    """
    outside = op.params["body"].program
    inner = inner_batch(op, batch)
    shared = {x.number for x in (*outside.inputs, *outside.producers) if not in_batch(x.dims, inner)}
    first = op.params["consts"]
    for sym in plan.program.inputs[first : first + op.params["carries"]]:
        if sym.number in shared and sym not in plan.carried:
            return Refusal.KERNEL_CARRY()
    for sym in plan.schedule.where:
        if sym.number in shared and elements(plan.program, sym.dims) is None:
            return Refusal.KERNEL_WORK(value=sym)
    return None


def _worth_sharing(op: CanonicalOp) -> bool:
    """Whether the body has a nest that many threads finish sooner than one."""
    program = op.params["body"].program
    for part in program.ops:
        if part.prim.kind == LOOP:
            if _worth_sharing(part):
                return True
        elif _iterations(program, part) > REPEATED:
            return True
    return False


def _iterations(program: Canonical, op: CanonicalOp) -> int:
    """Iterations of the scalar body of *op*; a size that is not static counts as large."""
    whole = op.ins if op.prim.kind in (REDUCE, PRODUCT) else ()
    return math.prod(program.static.get(d, REPEATED + 1) for d in {d for x in (*whole, op.out) for d in x.dims})


def _asks_a_call(op: CanonicalOp) -> bool:
    """Whether the condition of this loop, or of one in its body, is the result of a call."""
    program = op.params["body"].program
    asked = op.params["stops"] and is_call(program.producers[program.outputs[0]])
    return asked or any(part.prim.kind == LOOP and _asks_a_call(part) for part in program.ops)


# ---- what lives in registers -----------------------------------------------------------------------------------


def repeated(program: Canonical, item: Loop | Statement) -> bool:
    """Whether every thread of a block computes *item* redundantly."""
    for s in statements_of(item):
        size = math.prod(program.static.get(d, REPEATED + 1) for d in domain(s.op))
        if size > REPEATED or elements(program, s.out.dims) is None:
            return False
    return True


def _slots_of_a_block(program: Canonical, schedule: Schedule, sym: Sym) -> int | None:
    """Small values that all threads of a block hold: redundantly computed ones, and totals of the block."""
    made = schedule.where[sym]
    if isinstance(made, LibraryCall):
        return None
    nest = made.path[0] if made.path else made
    total = made.op.prim.kind != RECURRENCE and carries(made.op) and made.complete == 0
    if isinstance(nest, Statement) or repeated(program, nest):
        return elements(program, sym.dims)
    return elements(program, sym.dims) if total and mapping_of(program, nest).by != COLUMNS else None


def _indexed(program: Canonical, sym: Sym) -> bool:
    """Whether *sym* is read at computed positions (registers have no addresses)."""
    return any(sym in op.ins[:1] for op in program.ops if op.prim.name == "gather")


THREAD_RULES = Rules(
    thread_schedule, CPU_RULES.slots, lambda program, sym: not _indexed(program, sym),
)  # fmt: skip
BLOCK_RULES = Rules(device_schedule, _slots_of_a_block, lambda program, sym: elements(program, sym.dims) == 1)
