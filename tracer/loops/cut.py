"""A marked iteration cut out of the recording, as the body of a loop node.

What depends on no symbol stays, before the loop; the rest is emitted again, into the body.  Conditions on which the
iteration rests become one flag that is carried, with one guard after the loop; its value in this run is looked at, and
where it does not hold everything is put back as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.aval import BOOL, FLOAT_KINDS, INT, Aval
from ..ir.graph import Atom, Guard, Lit, Node, Pair, Var, building, lanes, live_nodes, read_vars, strong, structural
from ..ir.refusals import Reason, Refusal
from ..ops.closure_conversion import closed
from ..ops.control import CAPACITY, UNLIMITED, loop
from ..ops.elementwise import F, broadcast_to, cast
from ..ops.indexing import GATHER
from ..ops.reduce import reduce
from ..ops.shape import iota, reshape, take_slice, zeros
from ..reroll.loop_body import Lines
from .fold import Match
from .marked import Marked
from .positions import Form, Reader, bounds
from .whole import Whole

_HELD = "what was asked in each iteration had the same answer", "what was asked had another answer in some iteration"


@dataclass
class Wanted:
    """What is wanted of an iteration.  ``ends``: the atom after it of each symbol that is carried.  ``last``: further
    values, of the last iteration, and what each is where there is none.  ``rows``: values of every iteration, and
    ``earlier`` what they were in the iterations before, the last first.
    ``stops``: whether the loop ends by itself, where ``go_on`` is False or a question has another answer."""

    ends: dict[Var, Atom]
    last: list[tuple[Atom, Atom | None]] = field(default_factory=list)
    rows: list[Atom] = field(default_factory=list)
    earlier: list[Sequence[Atom]] = field(default_factory=list)
    stops: bool = False
    go_on: Atom | None = None


@dataclass
class Found:
    """The results of a loop, in the order of what was wanted.  ``taken``: the number of iterations of one that stops;
    ``asks``: whether it may have stopped before its own end, at a question."""

    finals: dict[Var, Atom]
    last: list[Atom]
    stacked: list[Atom]
    taken: Atom | None = None
    asks: bool = False


class Cut:
    """The nodes of *marked*, apart by whether they depend on its symbols."""

    def __init__(self, marked: Marked, wanted: Wanted) -> None:
        self.marked, self.wanted, self.recorder = marked, wanted, marked.recorder
        self.known: dict[Atom, Atom] = {c.symbol: c.before for c in marked.carries if wanted.ends[c.symbol] is c.symbol}
        self.carries = [c for c in marked.carries if c.symbol not in self.known]
        self.inside: set[Atom] = {c.symbol for c in self.carries} | set(marked.forms)
        self.body: list[Node] = []
        self.outside: dict[int, Node] = {}  # by the id of the node as it was recorded
        symbols = {*self.known, *self.inside}
        for node in self.recorder.nodes[marked.nodes :]:
            if node.outs[0] in symbols:
                continue
            node, before = node.on(tuple([self.known.get(x, x) for x in node.inputs])), node
            if self.inside.isdisjoint(node.inputs):
                self.outside[id(before)] = node
            else:
                self.body.append(node)
                self.inside.update(node.outs)

    def depends(self, atom: Atom) -> bool:
        """Whether *atom* may differ from iteration to iteration."""
        parts = lanes(atom) if isinstance(atom, Pair) else (atom,)
        return any(self.known.get(x, x) in self.inside for x in parts)

    def conditions(self) -> list[Atom] | Reason:
        """What has to hold in every iteration, for what was asked in this one."""
        found: list[Atom] = []
        recorder = self.recorder
        for guard in recorder.guards[self.marked.guards :]:
            if self.depends(guard.atom):
                condition = _condition(guard)
                if isinstance(condition, Reason):
                    return condition
                found.append(condition)
        if recorder.premise is not None and self.depends(recorder.premise):
            found.append(recorder.premise)
        return found


def _condition(guard: Guard) -> Atom | Reason:
    """That *guard* holds, as a value of the iteration."""
    atom, expected, dtype = guard.atom, guard.expected, guard.atom.aval.dtype
    if guard.kind == CAPACITY:
        return Refusal.LOOP_NUMBER(kind=guard.kind, site=guard.site)
    if guard.kind == "bool" and dtype.kind != "b":
        atom, expected, dtype = F.ne(atom, structural(0, dtype)), bool(expected != 0), BOOL
    if dtype.kind == "b":
        return atom if expected else F.logical_not(atom)
    if dtype.kind in FLOAT_KINDS:
        return Refusal.LOOP_NUMBER(kind=guard.kind, site=guard.site)
    return F.eq(atom, Lit(expected, dtype))


def cut(marked: Marked, wanted: Wanted) -> Found | Reason:
    """The loop in the place of the iteration, and of all that would follow; or why there is none, with nothing
    changed."""
    recorder = marked.recorder
    with building(recorder):
        conditions = Cut(marked, wanted).conditions()
    if isinstance(conditions, Reason):
        return conditions
    if wanted.stops and not conditions and marked.length is not None:
        wanted.stops = False
    if wanted.stops and wanted.go_on is None and not conditions:
        return Refusal.LOOP_ENDLESS(site=marked.site)
    parts = Cut(marked, wanted)  # what the conditions have added belongs to the iteration
    before = recorder.items[marked.items :], recorder.premise, recorder.unmet, recorder.site_override
    _take_out(parts)
    try:
        recorder.site_override = marked.site
        with building(recorder):
            found, flags = Body(parts).loop(conditions)
            if not all(recorder.value(flag) for flag in flags):
                _put_back(marked, *before[:3])
                return Refusal.LOOP_ANSWERS(site=_asked_at(parts, before[0]))
            for flag in flags:
                recorder.add_guard(Guard(flag, np.True_, "bool", marked.site, len(recorder.nodes), said=_HELD))
    finally:
        recorder.site_override = before[3]
    return found


def _take_out(parts: Cut) -> None:
    """Leave of the iteration what depends on no symbol."""
    recorder, marked = parts.recorder, parts.marked
    gone: list[Node | Guard] = list(recorder.nodes[marked.nodes :])
    own, asked = {id(node) for node in gone}, {id(guard) for guard in recorder.guards[marked.guards :]}
    gone += recorder.guards[marked.guards :]
    kept: list[Node | Guard] = []
    for item in recorder.items[marked.items :]:
        if isinstance(item, Guard):
            if id(item) in asked and not parts.depends(item.atom):
                kept.append(item)
        elif id(item) in own and id(item) in parts.outside:
            kept.append(parts.outside[id(item)])
    recorder.disown(gone)
    recorder.rewrite(marked.nodes, marked.items, marked.guards, kept)
    for item in kept:
        if isinstance(item, Node):
            recorder.know(item)
        else:
            recorder._guarded.setdefault((item.atom, item.kind), item)
    if recorder.premise is not None and parts.depends(recorder.premise):
        recorder.premise = recorder.unmet = None


def _put_back(marked: Marked, items: Sequence[Node | Guard], premise: Atom | None, unmet: Any) -> None:
    """Undo what was done since the iteration was taken out."""
    recorder = marked.recorder
    recorder.disown([*recorder.nodes[marked.nodes :], *recorder.guards[marked.guards :]])
    earlier = {id(node) for node in recorder.nodes[: marked.nodes]}
    earlier |= {id(guard) for guard in recorder.guards[: marked.guards]}
    kept = [item for item in items if id(item) not in earlier]
    recorder.rewrite(marked.nodes, marked.items, marked.guards, kept)
    for item in kept:
        if isinstance(item, Node):
            recorder.know(item)
        else:
            recorder._guarded.setdefault((item.atom, item.kind), item)
    recorder.premise, recorder.unmet = premise, unmet  # type: ignore[assignment]


def _asked_at(parts: Cut, items: Sequence[Node | Guard]) -> Any:
    return next(
        (item.site for item in items if isinstance(item, Guard) and parts.depends(item.atom)), parts.marked.site
    )


class Body:
    """The body of a loop, emitted anew from the nodes of an iteration."""

    def __init__(self, parts: Cut) -> None:
        self.parts, self.marked, self.recorder = parts, parts.marked, parts.recorder
        self.lines = Lines()
        self.known: dict[Atom, Atom] = dict(parts.known)
        self.carries = [Var(Aval(c.symbol.aval.dtype, c.symbol.aval.shape, c.symbol.aval.weak)) for c in parts.carries]
        self.known.update(zip([c.symbol for c in parts.carries], self.carries, strict=True))
        self.row = Var(Aval(INT, (), weak=True))
        self.known[self.marked.number] = self.row
        self.rows: dict[tuple[Atom, int, int], Var] = {}  # (array from outside, slope, offset): its row
        outer = self.recorder.open_loops
        self.length = _greatest(self.marked.length, outer)
        self.outer = outer

    def loop(self, conditions: Sequence[Atom]) -> tuple[Found, list[Atom]]:
        """The results of the loop, and flags that the *conditions* have held in all of its iterations."""
        parts, wanted = self.parts, self.parts.wanted
        for node in parts.body:
            self._emit(node)
        with building(self.lines):
            ends = [self._ended(wanted.ends[c.symbol], c.symbol.aval) for c in parts.carries]
            last = [self._ended(atom, atom.aval) for atom, _ in wanted.last]
            rows = [self._ended(atom, atom.aval) for atom in wanted.rows]
        inputs, outputs = [*self.carries], [*ends]
        inits = [strong(c.before) for c in parts.carries]
        for atom, (_, otherwise) in zip(last, wanted.last, strict=True):
            inputs.append(Var(Aval(atom.aval.dtype, atom.aval.shape)))
            outputs.append(atom)
            inits.append(_zero(atom.aval) if otherwise is None else strong(otherwise))
        with building(self.lines):
            asked = [self._atom(condition) for condition in conditions]
            go_on = self._go_on(asked) if wanted.stops else None
        at_once, asked = ([], []) if wanted.stops else self._at_once(asked)
        flag = Var(Aval(BOOL, ()))
        if asked:
            with building(self.lines):
                held: Atom = flag
                for condition in asked:
                    held = F.logical_and(held, condition)
            inputs.append(flag)
            outputs.append(held)
            inits.append(structural(True, BOOL))
        before, starts = self._folded(list(zip(inputs, outputs, inits, strict=True)), rows)
        inits = [starts.get(v, init) for v, init in zip(inputs, inits, strict=True)]
        length = min(self.length + before, UNLIMITED)
        every = [*([] if go_on is None else [go_on]), *outputs, *rows]
        nodes = live_nodes(self.lines.nodes, every)
        read = read_vars(nodes, every)
        if self.row in read and self.length >= UNLIMITED:
            with building(self.lines):
                following = F.add(self.row, Lit(1, INT, weak=True, structural=True))
            nodes = live_nodes(self.lines.nodes, [*every, following])
            inputs.append(self.row)
            every.insert(len(outputs) + (go_on is not None), following)
            outputs.append(following)
            inits.append(structural(-before, INT))
        xs = [(row, self._sliced(key, before)) for key, row in self.rows.items() if row in read]
        if self.row in read and self.length < UNLIMITED:
            numbers: Atom = iota(length)
            xs.append((self.row, F.add(numbers, structural(-before, INT)) if before else numbers))
        graph, consts = closed(nodes, every, [*inputs, *[row for row, _ in xs]])
        steps = _steps(self.marked.length, self.outer, before)
        self.marked.folded = before
        results = list(
            loop(graph, consts, inits, [x for _, x in xs], length, steps=steps, stops=go_on is not None)
        )
        count = len(outputs)
        stacked = results[count + wanted.stops :]
        found, flag_after = self._found(results[:count], stacked, bool(asked))
        if wanted.stops:
            found.taken = F.sub(results[count], structural(before, INT)) if before else results[count]
            found.asks = bool(conditions)
        return found, [*at_once, *([] if flag_after is None else [flag_after])]

    def _go_on(self, asked: Sequence[Atom]) -> Atom:
        """Whether an iteration is made: all that is asked in it is answered as in this one."""
        wanted = self.parts.wanted
        every = [*asked, *([] if wanted.go_on is None else [self._atom(wanted.go_on)])]
        found = every[0]
        for other in every[1:]:
            found = F.logical_and(found, other)
        return broadcast_to(found, ()) if isinstance(found, Lit) else found

    def _at_once(self, conditions: Sequence[Atom]) -> tuple[list[Atom], list[Atom]]:
        """(flags that some of the *conditions* hold in all iterations, known before the loop; the other ones)"""
        if self.length >= UNLIMITED or self.marked.length is None or self.marked.length.slopes:
            return [], list(conditions)
        whole = self.whole(0)
        flags, others = [], []
        for condition in conditions:
            if not whole.possible(condition):
                others.append(condition)
                continue
            found, stacked = whole.of(condition)
            flags.append(reduce("all", found, tuple(range(found.aval.ndim))) if stacked else found)
        return flags, others

    def whole(self, before: int) -> Whole:
        """The values of all iterations at once, with so many *before*."""
        keys = {row: key for key, row in self.rows.items()}
        sliced: dict[Var, Atom] = {}

        def rows(var: Var) -> Atom | None:
            if var is self.row and var not in sliced:
                numbers: Atom = iota(self.length + before)
                sliced[var] = F.add(numbers, structural(-before, INT)) if before else numbers
            elif var in keys and var not in sliced:
                sliced[var] = self._sliced(keys[var], before)
            return sliced.get(var)

        makers = {out: node for node in self.lines.nodes for out in node.outs}
        return Whole(self.length + before, makers, rows, set(self.carries))

    def _found(
        self, finals: list[Var], stacked: list[Var], asked: bool
    ) -> tuple[Found, Var | None]:
        parts, wanted = self.parts, self.parts.wanted
        carries = len(parts.carries)
        ends: dict[Var, Atom] = {}
        for carry, final in zip(parts.carries, finals, strict=False):
            aval = carry.symbol.aval
            ends[carry.symbol] = cast(final, aval.dtype, weak=True) if aval.weak else final
        for carry in parts.marked.carries:
            ends.setdefault(carry.symbol, carry.before)
        last: list[Atom] = [
            cast(final, atom.aval.dtype, weak=True) if atom.aval.weak else final
            for final, (atom, _) in zip(finals[carries:], wanted.last, strict=False)
        ]
        held = finals[carries + len(last)] if asked else None
        return Found(ends, last, list(stacked)), held

    def _ended(self, atom: Atom, aval: Aval) -> Atom:
        return cast(strong(self._atom(atom)), aval.dtype)

    def _folded(
        self, carries: Sequence[tuple[Var, Atom, Atom]], rows: Sequence[Atom]
    ) -> tuple[int, dict[Var, Atom]]:
        """(how many iterations before become the first ones of the loop, what the *carries* begin with then)"""
        marked, count = self.marked, len(self.carries)
        starts: dict[Var, Atom] = {}
        earlier = self.parts.wanted.earlier
        most = min([marked.earlier, *map(len, earlier)])
        inside = {out: node for node in self.lines.nodes for out in node.outs}
        places = self.recorder._producers.index(self.recorder.nodes)

        def outside(var: Var) -> Node | None:
            at = places.get(var)
            return None if at is None else self.recorder.nodes[at]

        every = {row: key for key, row in self.rows.items()}
        before = 0
        while before < most and self._in_bounds(every.values(), before + 1):

            def form(atom: Atom, at: int = -1 - before) -> Form | None:
                found = Reader({self.row: Form(0, {self.row: 1})}.get, inside.get).form(atom)
                found = marked.reader(inside).form(atom) if found is None else found
                return None if found is None else found.at(self.row, Form(at))

            moved = {row: (x, slope, offset - slope * before) for row, (x, slope, offset) in every.items()}
            match = Match(self.carries, inside, outside, moved, form, marked.reader().form)
            pairs = [(end, starts.get(v, init)) for v, end, init in carries[:count]]
            if not match.all([*pairs, *[(row, was[before]) for row, was in zip(rows, earlier, strict=True)]]):
                break
            starts.update((v, strong(init)) for v, init in match.bound.items())
            before += 1
        return before, starts

    def _in_bounds(self, rows: Any, before: int) -> bool:
        """Whether *rows* have so many elements *before* those with which they begin."""
        return all(0 <= offset - slope * before < x.aval.shape[0] for x, slope, offset in rows)

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def _atom(self, atom: Atom) -> Atom:
        """*atom* in the body."""
        found = self.known.get(atom)
        if found is not None:
            return found
        form = self.marked.forms.get(atom) if isinstance(atom, Var) else None
        if form is None:
            return atom
        with building(self.lines):
            found = self.known[atom] = value_of(form, self.known)
        return found

    def _emit(self, node: Node) -> None:
        self.lines.site_override = node.site
        if node.prim is GATHER:
            row = self._row_of(*node.inputs)
            if row is not None:
                with building(self.lines):
                    self.known[node.out] = reshape(row, node.out.aval.shape)
                return
        outs = self.lines.emit(node.prim, tuple([self._atom(x) for x in node.inputs]), node.params)
        self.known.update(zip(node.outs, outs, strict=False))

    def _row_of(self, x: Atom, index: Atom) -> Var | None:
        """The row of *x*, an array from outside, at an *index* that is the same number of places further in each
        iteration; else None."""
        if x in self.parts.inside or index.aval.size != 1 or self.length >= UNLIMITED:
            return None
        form = self.form(index)
        slope = None if form is None else form.slopes.get(self.marked.number)
        if form is None or slope is None or len(form.slopes) > 1:
            return None
        ends = form.offset, form.offset + slope * (self.length - 1)
        if min(ends) < 0 or max(ends) >= x.aval.shape[0]:
            return None
        key = x, slope, form.offset
        found = self.rows.get(key)
        if found is None:
            found = self.rows[key] = Var(Aval(x.aval.dtype, x.aval.shape[1:]))
        return found

    def _sliced(self, row: tuple[Atom, int, int], before: int) -> Atom:
        """The array that a loop steps through for *row*, which begins so many iterations *before*."""
        x, slope, offset = row
        rest = x.aval.shape[1:]
        first = (offset - slope * before, *[0] * len(rest))
        return take_slice(x, first, (slope, *[1] * len(rest)), (self.length + before, *rest))

    def form(self, atom: Atom) -> Form | None:
        """The form of a value of the iteration."""
        if not hasattr(self, "_makers"):
            self._makers = {out: node for node in self.parts.body for out in node.outs}
        return self.marked.reader(self._makers).form(atom)


def _greatest(length: Form | None, outer: Sequence[Any]) -> int:
    """The greatest number of iterations."""
    if length is None:
        return UNLIMITED
    high = bounds(length, outer)[1]
    assert high is not None
    return max(high, 0)


def _steps(length: Form | None, outer: Sequence[Any], before: int) -> Atom | None:
    """The number of iterations, with so many *before*, where it may be less than the greatest."""
    if length is None or length.constant is not None:
        return None
    length = length.plus(Form(before))
    steps = cast(value_of(length, {}), INT)
    low = bounds(length, outer)[0]
    if low is None or low < 0:
        steps = F.maximum(steps, structural(0, INT))
    return strong(steps)


def value_of(form: Form, known: dict[Atom, Atom]) -> Atom:
    """The value of *form*, a Python integer."""
    total: Atom | None = None
    for var, slope in form.slopes.items():
        x: Atom = known.get(var, var)
        if slope != 1:
            x = F.mul(x, Lit(slope, INT, weak=True))
        total = x if total is None else F.add(total, x)
    if total is None:
        return Lit(form.offset, INT, weak=True)
    return F.add(total, Lit(form.offset, INT, weak=True)) if form.offset else total


def _zero(aval: Aval) -> Atom:
    return zeros(aval.shape, aval.dtype) if aval.shape else structural(0, aval.dtype)
