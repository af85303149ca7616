"""The scheduler: which values are stored, which recomputed, and which loops are fused.

The result is a loop tree (``loop_tree.py``).  Values that are no roots of it are inlined into their readers.  Roots are
placed one by one, in program order, into the existing loops wherever that is legal: they then share the loops' memory
traffic, and a row that one of them reduces is at hand for the next (softmax, layer norm, X @ w followed by X.T @ r).
``Placer`` is about what is correct; what is worth storing is decided apart, in ``worth_storing``.  Both leave named
reasons for ``explain()``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ...tracer.ir.primitive import ELEMENTWISE, REDUCE, VIEW
from ...tracer.ir.refusals import Reason, Refusal
from ..lower.canonical import ONE, Canonical, CanonicalOp, Dim, Sym
from .affine import depends_on, loop_var
from .buffers import buffer_of, counted, filled
from .cuts import MAX_ARRAYS, MAX_SCALARS, MAX_VALUES, cuts
from .dependences import Mask, Reads, carries, completion, domain, is_call, reads, reduced_depths
from .functions import functions_of
from .index_maps import Condition, Indices
from .loop_tree import (
    LibraryCall,
    Loop,
    PartWindow,
    ResultRun,
    Schedule,
    ScheduleItem,
    Statement,
    last_statement,
)
from .tiles import ROW_FLOPS, TILE, segments_of, tile_storage, worth_tiling

MAX_TRIED = 32  # loops that a root may enter which are looked at, the last ones first
MAX_STATEMENTS = 64  # of one loop: LLVM takes more than twice as long for twice as many
MAX_NOTES = 8  # refusals of one root that are told
RECOMPUTE_FLOPS = 40  # an inlined value costing more than this in all its extra evaluations is stored
SCALAR_FLOPS = 400  # the threshold for a value without axes, in extra functions of the kernel
PIECE_FLOPS = 8  # the same, in extra functions for one row of statements: most lie in a buffer that all of these have
CHOICE_FLOPS = 10  # of reading what was put together: the conditions are seldom decided where it is inlined
SHORT = 4  # iterations that are not worth a loop of their own
MANY_STORED = 100  # values for one of which no further attempt is made
MAX_SHORT = 16  # conditions of one loop that hold in so few
REDUNDANT_FLOPS = 3  # the threshold per iteration of a loop that the value does not depend on


# ---- placing ---------------------------------------------------------------------------------------------------


class Placer:
    """Builds the loop tree.  One instance per attempt."""

    recompute_flops = RECOMPUTE_FLOPS
    most_scalars: int | None = MAX_SCALARS  # values without axes that a root evaluates

    def __init__(self, program: Canonical, stored: set[Sym]):
        self.program = program
        self.stored = stored
        self.outputs = {x for x in program.outputs if isinstance(x, Sym)}
        self.body: list[ScheduleItem] = []
        self.where: dict[Sym, Statement | LibraryCall] = {}
        self.reads: dict[Sym, Reads] = {}
        self.known: dict[Sym, Reads] = {}  # reads that an attempt before has found, and that are the same now
        self.made: dict[int, set[Sym]] = {}  # id of a loop -> the stored values that it makes
        self.streamed: dict[int, set[Sym]] = {}  # id of a loop -> the arrays that it reads or writes
        self.memory: dict[int, set[Sym]] = {}  # id of a loop -> those of them that are not at hand
        self.evaluated: dict[int, int] = {}  # id of a loop -> the values that are evaluated in it
        self.notes: list[str | Reason] = []
        self._places: dict[int, tuple[list[ScheduleItem], int]] = {}  # id of an item -> the body that it is in, where
        self._loops: dict[tuple[int, Dim], list[Loop]] = {}  # id of a body, dim -> the loops over it, in order
        self._refused = 0  # of the root that is being placed

    def run(self) -> None:
        for op in self.program.ops:
            if not any(out in self.stored for out in op.outs):
                continue
            if is_call(op):
                self._append(self.body, call := LibraryCall(op))
                self.where.update(dict.fromkeys(op.outs, call))
                continue
            statement = Statement(op, complete=completion(op))
            self.reads[op.out] = self.known.get(op.out) or reads(self.program, op, self.stored)
            self._place(statement)
            self.where[op.out] = statement

    def _append(self, body: list[ScheduleItem], item: ScheduleItem) -> None:
        self._places[id(item)] = body, len(body)
        body.append(item)
        if isinstance(item, Loop):
            self._loops.setdefault((id(body), item.dim), []).append(item)

    def _place(self, statement: Statement) -> None:
        dims = domain(statement.op)
        makers = [self.where[sym] for sym, _ in self.reads[statement.out].stored if sym in self.where]
        paths: list[list[ScheduleItem]] = [[*m.path, m] if isinstance(m, Statement) else [m] for m in makers]
        body: list[ScheduleItem] = self.body
        self._refused = 0
        for depth, dim in enumerate(dims):
            loop = self._best_loop(body, self._earliest(body, paths, depth), statement, dim, depth)
            if loop is None:
                loop = Loop(dim)
                self.made[id(loop)], self.streamed[id(loop)], self.memory[id(loop)] = set(), set(), set()
                self.evaluated[id(loop)] = 0
                self._append(body, loop)
            statement.path.append(loop)
            body = loop.body
        self._append(body, statement)
        mine = {sym for sym, _ in self.reads[statement.out].stored if sym.dims} | {statement.out}
        for loop in statement.path:
            self.made[id(loop)].add(statement.out)
            self.streamed[id(loop)] |= mine
            self.memory[id(loop)] |= self._in_memory(loop, mine)
            self.evaluated[id(loop)] += len(self.reads[statement.out].inlined)

    def _best_loop(
        self, body: list[ScheduleItem], first: int, statement: Statement, dim: Dim, depth: int
    ) -> Loop | None:
        """The loop that *statement* shares most arrays with, of those in *body* from *first* on that it may enter; the
        last of equals."""
        needed = {sym for sym, _ in self.reads[statement.out].stored}
        best, most = None, -1
        for loop in self._loops.get((id(body), dim), [])[: -MAX_TRIED - 1 : -1]:
            if self._places[id(loop)][1] < first:
                break
            if self._may_enter(loop, statement, depth):
                shared = len(needed & self.streamed[id(loop)])
                if shared > most:
                    best, most = loop, shared
        return best

    def _earliest(self, body: list[ScheduleItem], paths: list[list[ScheduleItem]], depth: int) -> int:
        """Position in *body* from which on a root may stand that needs what lies on *paths*: at or after the last of
        these."""
        found = [self._places[id(path[depth])] for path in paths if depth < len(path)]
        return max([position for home, position in found if home is body], default=0)

    def _may_enter(self, loop: Loop, statement: Statement, depth: int) -> bool:
        """Whether *statement* may be appended to the body of *loop*."""
        mine = self.reads[statement.out]
        inside = self.made[id(loop)]
        for sym, at in mine.stored:
            if sym not in inside:
                continue
            producer = self.where[sym]
            assert isinstance(producer, Statement)
            if producer.complete <= depth:
                return self._refuse(Refusal.FUSE_FINISHED, statement, producer)
            if at is None or not self._same_row(producer, at, depth):
                return self._refuse(Refusal.FUSE_ROW, statement, producer)
        arrays = self._in_memory(loop, {s for s, _ in mine.stored}) | {statement.out}
        evaluated = self.evaluated[id(loop)] + len(mine.inlined)
        full = len(inside) >= MAX_STATEMENTS or evaluated > 2 * MAX_VALUES
        if full or len(self.memory[id(loop)] | arrays) > MAX_ARRAYS:
            return self._refuse(Refusal.FUSE_ARRAYS, statement, last_statement(loop))
        return True

    def _in_memory(self, loop: Loop, values: set[Sym]) -> set[Sym]:
        """Those of *values* that *loop* reads or writes in memory, and has not at hand."""
        return {x for x in values if x in self.outputs or x not in self.made[id(loop)]}

    def _same_row(self, producer: Statement, at: Indices, depth: int) -> bool:
        """Whether *at* in the producer's value is the current iteration of the loops down to *depth*, inclusive."""
        place = 0
        for d, index in zip(producer.out.dims, at, strict=True):
            if d == ONE:
                continue
            if place > depth:
                return True
            if index != loop_var(place):
                return False
            place += 1
        return place > depth

    def _refuse(self, refusal: Refusal, statement: Statement, other: Statement) -> bool:
        self._refused += 1
        if self._refused <= MAX_NOTES:
            self.notes.append(refusal(value=_named(statement.op), other=_named(other.op)))
        return False


def _named(op: CanonicalOp) -> str:
    return f"{op.out} ({op.prim.name})"


# ---- what is worth storing ---------------------------------------------------------------------------------------


def _initially_stored(program: Canonical) -> set[Sym]:
    stored = {out for op in program.ops if carries(op) or is_call(op) for out in op.outs}
    stored |= {x for x in program.outputs if isinstance(x, Sym)}
    for op in program.ops:
        if is_call(op):
            stored |= {
                buffer_of(program, set(), x)
                for k, x in enumerate(op.ins)
                if isinstance(x, Sym) and not filled(program, op, k) and not counted(program, op, k)
            }
    return stored & program.producers.keys()


def interior(program: Canonical, loop: Loop, depth: int, known: dict[Sym, Reads]) -> list[Condition]:
    """The conditions by which an innermost *loop* is split, into an interior and edges.  In the interior those hold
    that are not ``short``.

    None where they exclude each other: rows of one array that are read one by one have no interior in common.
    """
    if loop.dim in program.static or any(isinstance(item, Loop) for item in loop.body):
        return []
    found: dict[Condition, None] = {}
    latest: dict[frozenset, int] = {}  # offset of the loop variable -> begin of the interior
    first_end: dict[frozenset, int] = {}  # offset of the loop variable -> end of the interior
    for item in loop.body:
        for condition in known[item.out].conditions if isinstance(item, Statement) else ():
            kind, index, bound = condition
            mine = [c for t, c in index.terms if t == ("i", depth)]
            if kind == "mod" or mine not in ([1], [-1]) or any(t[0] not in "is" for t, _ in index.terms):
                continue
            found[condition] = None
            if bound in program.static and not short(program, condition):
                size = program.static[bound]
                begin = -index.const if mine == [1] else index.const - size + 1
                latest[index.terms] = max(begin, latest.get(index.terms, begin))
                first_end[index.terms] = min(begin + size, first_end.get(index.terms, begin + size))
    several = sum(short(program, c) for c in found) > MAX_SHORT
    return [] if several or any(latest[terms] >= first_end[terms] for terms in latest) else list(found)


def short(program: Canonical, condition: Condition) -> bool:
    """Whether *condition* holds in a few iterations only, as those at the ends of a roll do."""
    return program.static.get(condition[2], SHORT + 1) <= SHORT


class Evaluations:
    """How often, and where, the values that are inlined would be evaluated."""

    def __init__(self, program: Canonical, placer: Placer) -> None:
        self.program, self.placer = program, placer
        self.uses: dict[Sym, set[tuple[int, Indices, Mask]]] = {}  # loop, position, mask in its interior
        self.redundant: set[Sym] = set()
        self.forced: set[Sym] = set()
        self.per_row: set[Sym] = set()  # evaluated once a row, between inner loops
        self.masked: set[Sym] = set()  # evaluated under conditions in a loop that is not unrolled, single elements too
        self.homes: dict[Sym, set[tuple[int, int]]] = {}  # value without axes -> the functions that evaluate it
        self._interiors: dict[int, set[Condition]] = {0: set()}  # id of a loop -> its conditions
        function = functions_of(placer.body, placer.reads)
        for sym, found in placer.reads.items():
            statement = placer.where[sym]
            assert isinstance(statement, Statement)
            self.forced |= set(found.forced)
            for (value, at), masks in found.inlined.items():
                if value not in placer.stored:
                    self.homes.setdefault(value, set()).add(
                        function[statement.path[0] if statement.path else statement]
                    )
                    self._note(statement, value, at, masks)

    def _note(self, statement: Statement, value: Sym, at: Indices, masks: Iterable[Mask]) -> None:
        """*statement* evaluates *value* at a position, under each of *masks*."""
        path, static = statement.path, self.program.static
        if _copied_first(self.program, statement, self.program.producers[value], at):
            self.forced.add(value)
        home = id(path[-1]) if path else 0
        if home not in self._interiors:
            self._interiors[home] = set(interior(self.program, path[-1], len(path) - 1, self.placer.reads))
        for mask in masks:
            inner = tuple(c for c in mask if c not in self._interiors[home])
            self.uses.setdefault(value, set()).add((home, at, inner))
            if inner and home and path[-1].dim not in static:
                self.masked.add(value)
        depth = max((depends_on(i) for i in at), default=0)
        rank = sum(d != ONE for d in value.dims)
        if depth > rank:
            self.redundant.add(value)
        if depth == rank == 1 and len(path) > 1 and path[0].dim not in static:
            self.per_row.add(value)

    def too_dear(self, value: Sym, cost: int, broadcast: bool) -> bool:
        """Whether to evaluate *value* so, each time at this *cost*, is dearer than a buffer."""
        if not value.wide and value in self.homes:
            rows = len({row for row, _ in self.homes[value]})
            if (rows - 1) * cost > SCALAR_FLOPS or (len(self.homes[value]) - rows) * cost > PIECE_FLOPS:
                return True
        if broadcast or not (value.wide or value in self.masked):
            return False
        again = (len(self.uses.get(value, ())) - 1) * cost > self.placer.recompute_flops
        redundant = value in self.redundant and cost > REDUNDANT_FLOPS
        return again or redundant or (value in self.per_row and cost >= ROW_FLOPS)


def worth_storing(program: Canonical, placer: Placer) -> set[Sym]:
    """Inlined values whose recomputation would cost more than a buffer."""
    evaluations = Evaluations(program, placer)
    costs: dict[Sym, int] = {}
    flagged: set[Sym] = set()
    consumers: dict[Sym, set[Sym]] = {}
    for op in program.ops:
        sources = [x for x in op.ins if isinstance(x, Sym)]
        for x in sources:
            consumers.setdefault(x, set()).add(op.out)
        if op.out in placer.stored or is_call(op):
            continue
        own = op.prim.cost if op.prim.kind == ELEMENTWISE else CHOICE_FLOPS if op.prim.name == "concat" else 0
        cost = costs[op.out] = own + sum(costs.get(x, 0) for x in sources)
        if evaluations.too_dear(op.out, cost, op.prim.name == "broadcast"):
            flagged.add(op.out)
    # a value whose only reader is stored too would be evaluated once: leave it inlined
    return evaluations.forced | {s for s in flagged if not (len(consumers[s]) == 1 and consumers[s] <= flagged)}


def _copied_first(program: Canonical, statement: Statement, op: CanonicalOp, at: Indices) -> bool:
    """Whether *statement* reads the view *op* again and again, each time in steps of another axis than the last one in
    memory: it had better be copied in the order in which it is read."""
    if op.prim.name == "transpose" and op.params["perm"][-1] != len(at) - 1:
        across = at[-1]
    elif op.prim.kind == VIEW and _short_last(program, op.out):
        across = at[-2]  # of what is copied, the last axis is the outermost in memory: ``Schedule.turned``
    else:
        return False
    depths = [k for k, loop in enumerate(statement.path) if loop.dim not in program.static]
    return (
        bool(depths)
        and across == loop_var(depths[-1])
        and any(all(loop_var(k) != index for index in at) for k in depths)
    )


def _short_last(program: Canonical, sym: Sym) -> bool:
    """Whether the last axis of *sym* is static and short, and another one is not static."""
    if len(sym.dims) < 2 or not 1 < program.static.get(sym.dims[-1], 0) <= SHORT:
        return False
    return any(d not in program.static for d in sym.dims)


# ---- the whole ---------------------------------------------------------------------------------------------------


def stable_placement(
    program: Canonical, place: type[Placer] = Placer, kept: Collection[Sym] = (), in_parts: Collection[Sym] = ()
) -> Placer:
    """The loop tree by *place*, with all that is worth storing stored, and *kept* in any case, but not the results
    that are written *in_parts*."""
    stored = (_initially_stored(program) | set(kept)).difference(in_parts)
    stored |= cuts(program, stored, place.most_scalars)
    known: dict[Sym, Reads] = {}
    while True:
        placer = place(program, stored)
        placer.known = known
        placer.run()
        more = worth_storing(program, placer) - stored
        if len(more) <= len(stored) // MANY_STORED and not any(found.forced for found in placer.reads.values()):
            break
        stored = stored | more
        known = {root: found for root, found in placer.reads.items() if not _evaluates(found, more)}
    for sym in sorted(stored, key=lambda s: s.number):
        op = program.producers[sym]
        if op.prim.kind in (ELEMENTWISE, VIEW) and sym not in placer.outputs and sym not in kept:
            placer.notes.append(Refusal.FUSE_COST(value=_named(op)))
    return placer


def _evaluates(found: Reads, values: Collection[Sym]) -> bool:
    """Whether a root with these reads evaluates one of *values*."""
    return any(value in values for value, _ in found.inlined) or any(value in values for value in found.forced)


def make_schedule(
    program: Canonical, tiles: bool = True, kept: Collection[Sym] = (), windows: Mapping[Sym, PartWindow] | None = None,
    runs: Mapping[Sym, ResultRun] | None = None,
) -> Schedule:  # fmt: skip
    """The schedule of *program*; *tiles* of rows serve vectorisation, *kept* values are stored.

    *windows*, *runs*: the parts of results that are written where they belong (``parts.py``)."""
    windows, runs = dict(windows or {}), dict(runs or {})
    placer = stable_placement(
        program, kept=[*kept, *windows], in_parts=dict.fromkeys(run.whole for run in runs.values())
    )
    contracted = contractions(program, placer, windows)
    tiled: set[Sym] = set()
    for item in placer.body:
        if tiles and isinstance(item, Loop) and worth_tiling(program, placer.reads, item):
            item.segments = segments_of(item)
            tiled |= tile_storage(placer.reads, item, contracted)
            placer.notes.append(
                f"loop over n{item.dim}: taken in tiles of {TILE} rows, so that the work per row is vectorised"
            )
    return Schedule(
        placer.body, placer.stored, placer.where, placer.reads, contracted, tiled, placer.notes,
        windows=windows, runs=runs, turned=_turned(program, placer, {*windows, *kept, *contracted}),
        functions=functions_of(placer.body, placer.reads),
    )  # fmt: skip


def contractions(program: Canonical, placer: Placer, windows: Collection[Sym] = ()) -> dict[Sym, int]:
    """Temporaries used only within the loops that make them: storage for their inner axes is enough."""
    result: dict[Sym, int] = {}
    readers = _readers(placer)
    for sym, producer in _own(program, placer, windows):
        if not producer.path:
            continue
        shared = producer.complete
        for statement, at in readers.get(sym, []):
            common = 0
            for mine, theirs in zip(producer.path, statement.path, strict=False):
                if mine is not theirs:
                    break
                common += 1
            shared = 0 if at is None else min(shared, common)
        if shared:
            result[sym] = shared
    return result


def _turned(program: Canonical, placer: Placer, others: Collection[Sym]) -> set[Sym]:
    """Temporaries with a short last axis, none of the *others*, which lie with this axis outermost in memory: those to
    which a loop around adds again and again, and those that are read again and again, without shuffles then."""
    result: set[Sym] = set()
    readers = _readers(placer)
    for sym, producer in _own(program, placer, others):
        if not _short_last(program, sym) or any(at is None for _, at in readers.get(sym, [])):
            continue
        if producer.op.prim.kind == VIEW:
            again = any(_copied_first(program, s, producer.op, at) for s, at in readers.get(sym, []) if at is not None)
        else:
            depths, inner = (
                reduced_depths(producer.op) if producer.op.prim.kind == REDUCE else (),
                len(producer.path) - 2,
            )
            again = bool(depths) and max(depths) < inner
        if again:
            result.add(sym)
    return result


def _own(program: Canonical, placer: Placer, others: Collection[Sym]) -> Iterator[tuple[Sym, Statement]]:
    """The temporaries that nests alone make and read, but for the *others*, each with the statement that makes it."""
    outputs = {x for x in (*program.outputs, *others) if isinstance(x, Sym)}
    called = {
        buffer_of(program, placer.stored, x) for op in program.ops if is_call(op) for x in op.ins if isinstance(x, Sym)
    }
    for sym, producer in placer.where.items():
        if isinstance(producer, Statement) and sym not in outputs and sym not in called:
            yield sym, producer


def _readers(placer: Placer) -> dict[Sym, list[tuple[Statement, Indices | None]]]:
    """The statements that read each stored value, and where (None: flat)."""
    found: dict[Sym, list[tuple[Statement, Indices | None]]] = {}
    for sym, reads_of in placer.reads.items():
        statement = placer.where[sym]
        assert isinstance(statement, Statement)
        for value, at in reads_of.stored:
            found.setdefault(value, []).append((statement, at))
    return found
