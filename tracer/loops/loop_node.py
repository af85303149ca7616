"""The loop node of a marked iteration, or whole arrays in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir.aval import BOOL, INT, Aval
from ..ir.graph import Atom, Lit, Var, building, live_nodes, read_vars, strong, structural
from ..ir.primitive import LOOP
from ..ir.refusals import Reason
from ..ops.closure_conversion import closed
from ..ops.control import UNLIMITED, loop
from ..ops.elementwise import F, broadcast_to, cast
from ..ops.reduce import reduce
from ..ops.shape import reshape, slice_axis, zeros
from ..record.recorder import Recorder
from .body import IterationBody
from .fold import folded
from .parts import Cut, LoopResults
from .positions import Affine, bounds
from .python_ints import known_range
from .row_writes import PlacewiseArray, Search, final, value_of

_SURE = 64  # iterations that are not taken for none


@dataclass
class Outputs:
    """Parallel: inputs of a body that are carried, what they end as, and what they begin with; then stacked
    ``rows``."""

    inputs: list[Var] = field(default_factory=list)
    ends: list[Atom] = field(default_factory=list)
    inits: list[Atom] = field(default_factory=list)
    rows: list[Atom] = field(default_factory=list)

    def carry(self, var: Var, end: Atom, init: Atom) -> None:
        self.inputs.append(var)
        self.ends.append(end)
        self.inits.append(init)


#: that some conditions have held in all iterations; the numbers of these
Flag = tuple[Atom, list[int]]


def make_loop(parts: Cut, conditions: Sequence[Atom]) -> tuple[LoopResults, list[Flag]]:
    """The results of the loop, and flags that the *conditions* have held in all of its iterations."""
    wanted, marked = parts.wanted, parts.marked
    body = IterationBody(parts)
    pairs = [(body.ended(wanted.ends[s], s.aval), var, body.starts[s]) for s, var in body.carries.items()]
    rows = [body.ended(atom, atom.aval) for atom in wanted.rows]
    before, starts = folded(body, pairs, rows)
    marked.folded = before
    by_symbol = {s: starts[var] for s, var in body.carries.items() if var in starts}
    written = _written(body, conditions, before)
    if before or written:
        body = IterationBody(parts, written, before, by_symbol)
    found, flags = _NodeMaker(body, conditions).make()
    if before and conditions and found.taken is not None:
        with parts.recorder.stand_ins.asking():
            answered = parts.recorder.value(found.taken) >= 0
        if not answered:
            marked.folded = 0  # in an iteration before, a question had another answer
            return _NodeMaker(IterationBody(parts), conditions).make()
    return found, flags


def _written(body: IterationBody, conditions: Sequence[Atom], before: int) -> list[PlacewiseArray]:
    """The carries that are arrays which are written place by place."""
    parts, length = body.parts, body.marked.length
    wanted = parts.wanted
    if wanted.stops or length is None or length.slopes:
        return []
    ends: list[Atom] = [*wanted.ends.values(), *[atom for atom, _ in wanted.last], *wanted.rows, *conditions]
    nodes = live_nodes(parts.body, ends)
    loops = [*body.recorder.open_loops, body.marked]
    search = Search(
        nodes, ends, body.recorder.loops.spots, body.form, body.marked.number, body.length + before, loops
    )  # fmt: skip
    found = {symbol: search.find(symbol, wanted.ends[symbol]) for symbol in body.carries if symbol.aval.shape}
    notes, of_lists = body.recorder.notes, [x for h in body.marked.histories.values() for x in h.symbols]
    of_lists += [symbol for _, symbol in body.marked.tables]
    told = [why for symbol, why in found.items() if isinstance(why, Reason) and symbol not in of_lists]
    notes += [reason for reason in told if reason not in notes]
    return [w for w in found.values() if isinstance(w, PlacewiseArray)]


def note_loops(recorder: Recorder) -> None:
    """Note the loop nodes of a run that is over, for ``explain()``."""
    for node in recorder.nodes if recorder.loops.iterations else ():
        if node.prim.kind == LOOP and "body" in node.params:
            length = f"{node.params['length']} turns"
            if node.params.get("stops") or node.params["length"] >= UNLIMITED:
                length = f"turns until {'it stops by itself' if node.params.get('stops') else 'an end that data says'}"
            note = f"rolled: the loop at {node.site}, {len(node.params['body'].nodes)} operations a turn, {length}"
            if note not in recorder.notes:
                recorder.notes.append(note)


class _NodeMaker:
    """One loop, over *body*."""

    def __init__(self, body: IterationBody, conditions: Sequence[Atom]) -> None:
        self.body, self.parts, self.wanted = body, body.parts, body.parts.wanted
        self.out = Outputs()
        with building(body.lines):
            self.asked = [body.atom(condition) for condition in conditions]
        self.flags: list[Flag] = []

    def make(self) -> tuple[LoopResults, list[Flag]]:
        body, wanted, out = self.body, self.wanted, self.out
        for symbol, var in body.carries.items():
            out.carry(var, body.ended(wanted.ends[symbol], symbol.aval), body.starts[symbol])
        for atom, otherwise in wanted.last:
            init = _zero(atom.aval) if otherwise is None else strong(otherwise)
            out.carry(Var(Aval(atom.aval.dtype, atom.aval.shape)), body.ended(atom, atom.aval), init)
        for (written, k, back), (var, init) in body.backs.items():
            end = body.value(written, k) if back == 1 else body.backs[written, k, back - 1][0]
            with building(body.lines):
                out.carry(var, cast(strong(end), var.aval.dtype), init)
        out.rows = [body.ended(atom, atom.aval) for atom in wanted.rows]
        stacks = {w: self._stacks(w) for w in body.written.values()}
        go_on = self._go_on() if wanted.stops else None
        held = self._held() if self.asked and not wanted.stops else None
        finals, taken, stacked = self._whole() or self._node(go_on)
        if held is not None:
            self.flags.append((finals[held[0]], held[1]))
        found = self._found(finals, stacked)
        count = body.length + body.before
        for w, places in stacks.items():
            rows = [None if at is None else stacked[at] for at in places]
            found.finals[w.symbol] = final(w, body.starts[w.symbol], rows, -body.before, count)
        if taken is not None:
            found.taken = F.sub(taken, structural(body.before, INT)) if body.before else taken
            found.asks = bool(self.asked)
        return found, self.flags

    def _stacks(self, written: PlacewiseArray) -> list[int | None]:
        """Where the values of its writes are among the rows; None where a later write takes the place."""
        places = [place for _, place in written.writes]
        found: list[int | None] = []
        for k, place in enumerate(places):
            if place in places[k + 1 :]:
                found.append(None)
                continue
            found.append(len(self.out.rows))
            value = self.body.value(written, k)
            self.out.rows.append(self.body.ended(value, value.aval))
        return found

    # ---- what is asked ---------------------------------------------------------------------------------------------

    def _go_on(self) -> Atom:
        """Whether an iteration is made: all that is asked in it is answered as in this one."""
        with building(self.body.lines):
            found, *others = [*self.asked, *([] if self.wanted.go_on is None else [self.body.atom(self.wanted.go_on)])]
            for other in others:
                found = F.logical_and(found, other)
            return broadcast_to(found, ()) if isinstance(found, Lit) else found

    def _held(self) -> tuple[int, list[int]] | None:
        """(where the flag is, among the carries, that those conditions have held of which no array operation tells;
        the numbers of these); None where there is no such flag."""
        left, marked = list(range(len(self.asked))), self.body.marked
        if marked.length is not None and not marked.length.slopes:
            whole = self.body.whole(set(self.out.inputs))
            left = [k for k in left if not whole.possible(self.asked[k])]
            for k, condition in enumerate(self.asked):
                if k not in left:
                    x, stacked = whole.of(condition)
                    self.flags.append((reduce("all", x, tuple(range(x.aval.ndim))) if stacked else x, [k]))
        if not left:
            return None
        flag = Var(Aval(BOOL, ()))
        held: Atom = flag
        with building(self.body.lines):
            for k in left:
                held = F.logical_and(held, self.asked[k])
        self.out.carry(flag, held, structural(True, BOOL))
        return len(self.out.inputs) - 1, left

    # ---- the node --------------------------------------------------------------------------------------------------

    def _whole(self) -> tuple[list[Atom], None, list[Atom]] | None:
        """The results as whole arrays, where no iteration depends on another."""
        body, out = self.body, self.out
        length = body.marked.length
        if self.wanted.stops or length is None or length.slopes or not out.rows:
            return None
        every = [*out.ends, *out.rows]
        whole = body.whole(set(out.inputs))
        if not all(map(whole.possible, every)):
            return None
        count = body.length + body.before
        stacked, finals = [], []
        for row in out.rows:
            x, has_rows = whole.of(row)
            stacked.append(x if has_rows else broadcast_to(x, (count, *row.aval.shape)))
        for end in out.ends:
            x, has_rows = whole.of(end)
            finals.append(reshape(slice_axis(x, 0, count - 1, 1), end.aval.shape) if has_rows else x)
        return finals, None, stacked

    def _node(self, go_on: Atom | None) -> tuple[list[Atom], Atom | None, list[Atom]]:
        """(the carries after the last iteration, the number of iterations of a loop that stops, stacked rows)"""
        body, out = self.body, self.out
        first = [] if go_on is None else [go_on]
        count, unlimited = len(out.ends), body.length >= UNLIMITED
        every = [*first, *out.ends, *out.rows]
        nodes = live_nodes(body.lines.nodes, every)
        read = read_vars(nodes, every)
        if body.row in read and unlimited:
            with building(body.lines):
                out.carry(
                    body.row, F.add(body.row, Lit(1, INT, weak=True, structural=True)), structural(-body.before, INT)
                )
            every = [*first, *out.ends, *out.rows]
            nodes = live_nodes(body.lines.nodes, every)
        xs = [(row, body.sliced(key)) for key, row in body.rows.items() if row in read]
        if body.row in read and not unlimited:
            xs.append((body.row, body.numbers()))
        graph, consts = closed(nodes, every, [*out.inputs, *[row for row, _ in xs]])
        results: list[Atom] = list(
            loop(
                graph, consts, out.inits, [x for _, x in xs], min(body.length + body.before, UNLIMITED),
                steps=self._steps(), stops=go_on is not None,
            )
        )  # fmt: skip
        carried = len(out.ends)
        taken = None if go_on is None else results[carried]
        return results[:count], taken, results[carried + len(first) :]

    def _steps(self) -> Atom | None:
        """The number of iterations, where it may be less than the greatest."""
        body = self.body
        length = body.marked.length
        if length is None or length.constant is not None:
            return None
        length = length.plus(Affine(body.before))
        steps = cast(value_of(length, {}), INT)
        low = bounds(length, body.recorder.open_loops)[0]
        # iterations that become the first ones of a loop around this one may have fewer than that loop knows of
        return strong(F.maximum(steps, structural(0, INT)) if low is None or low < _SURE else steps)

    def _found(self, finals: Sequence[Atom], stacked: Sequence[Atom]) -> LoopResults:
        body, wanted = self.body, self.wanted
        ends: dict[Var, Atom] = {}
        for symbol, end in zip(body.carries, finals, strict=False):
            ends[symbol] = cast(end, symbol.aval.dtype, weak=True) if symbol.aval.weak else end
        for carry in self.parts.marked.carries.values():
            ends.setdefault(carry.symbol, carry.before)
        last = [
            self._last(end, atom, otherwise)
            for end, (atom, otherwise) in zip(finals[len(body.carries) :], wanted.last, strict=False)
        ]
        return LoopResults(ends, last, list(stacked[: len(wanted.rows)]))

    def _last(self, end: Atom, atom: Atom, otherwise: Atom | None) -> Atom:
        """*end*, which is *atom* in the last iteration, or *otherwise* where there is none."""
        if not atom.aval.weak:
            return end
        ranges = self.body.recorder.loops.int_ranges
        first = (0, 0) if otherwise is None else known_range(self.body.recorder, otherwise)
        if isinstance(atom, Var) and isinstance(end, Var) and atom in ranges and first is not None:
            ranges[end] = min(first[0], ranges[atom][0]), max(first[1], ranges[atom][1])
        return cast(end, atom.aval.dtype, weak=True)


def _zero(aval: Aval) -> Atom:
    return zeros(aval.shape, aval.dtype) if aval.shape else structural(0, aval.dtype)
