"""Following of a long Python loop: its operations are checked against the previous turn instead of recorded.

Recording an operation means to infer its type, look for an equal one, make a node and find the user's line.  Where a
loop has been going on for long and its blocks are proven to repeat, it suffices to check that the operation is the
block's at this place, with the operands that its slots (``repeats.py``) name.  One generated function for each step
does that.  Nothing is assumed: at the first operation that differs, recording goes on as before.

A ``Follower`` keeps the values of each iteration and the numbers that differ; when the loop is over, ``finish`` puts a
loop node in the place of all iterations, those recorded before included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.graph import Atom, Lit, Node, Var, building, identity
from ..ir.primitive import PRIMITIVES
from ..ir.site import own_site
from ..record.python_numbers import note_number
from ..record.recorder import Recorder
from .followed_loop import FollowedLoop, IterationVar
from .followed_rows import FollowedRows, rewriter_of
from .loop_body import Block
from .prove import number_slot
from .repeats import Carried, Invariant, Key, Local, Repeat, Rows, Slot, Step, VaryingConstant, is_spread, varying_axes
from .rewrite import fold_items

_FILE = str(Path(__file__).with_name("<followed loop>"))  # none of the user's code
TRIES = 2  # operations that are learned at one place

Follow = Callable[[Any, tuple[Atom, ...], dict[str, Any]], "tuple[Var, ...] | None"]


class Follower:
    """The follower of *repeat*, at the end of whose last block the recording stands.

    The values of the last turns are in lists by item: ``current``, ``previous``, ``earlier`` and ``oldest``, which
    stay the same objects.  Their last element is the number of the turn.  ``None``: nobody can have seen the value.
    """

    def __init__(self, recorder: Recorder, repeat: Repeat, before: Sequence[FollowedLoop] = ()):
        self.recorder, self.repeat = recorder, repeat
        self.rewriter = rewriter_of(before, recorder.const)  # of values of those *before*, read row by row
        start, period = repeat.start, repeat.period
        self.recorded: list[list[Any]] = [recorder.items[at : at + period] for at in range(start, repeat.end, period)]
        counts = recorder.counts[start:]  # and that of the end
        self.nodes_before = counts[0]
        self.fresh = [after > before for before, after in pairwise(counts)]
        self.numbers: dict[tuple[int, int], list[Any]] = {}  # (item, operand): numbers that differ
        self.starts: dict[int, list[Any]] = {}  # item: starts that differ
        for j, step in enumerate(repeat.steps):
            for o, slot in enumerate(step.slots):
                if isinstance(slot, VaryingConstant):
                    self.numbers[j, o] = list(slot.values)
            if step.starts is not None:
                self.starts[j] = [tuple(start) for start in step.starts.tolist()]
        self.spread = any(is_spread(step) for step in repeat.steps)
        self.loop = FollowedLoop(repeat.trips, repeat.steps[0].item.site)
        self.rows = self._rows()
        self.twins = self._twins()
        self.fixed = [self.recorded[0][j].outs[0] if step.fixed else None for j, step in enumerate(repeat.steps)]
        self.sources = [(self.loop, j) for j in range(period)]
        lists: list[list[Any]] = [[node.outs[0] for node in block] for block in self.recorded[:-4:-1]]
        self.previous, self.earlier, self.oldest = ([*outs, repeat.trips - 1 - k] for k, outs in enumerate(lists))
        self.blank: list[Any] = [None] * period
        self.current: list[Any] = [*self.blank, repeat.trips]
        self.at = 0
        self.follow = self._follow()
        self.asks: list[Any] = [None] * period  # answers to whole operations of the user's (inline_cache.py)
        self.tries = [TRIES] * period  # operations beginning at each item that may still be learned
        self.takers = self._takers()

    def axes(self, starts: np.ndarray) -> list[int]:
        """The axes along which a slice with *starts* so far may move: all, where nested loops write into an array."""
        return list(range(starts.shape[1])) if self.spread else varying_axes(starts)

    # ---- while the loop goes on --------------------------------------------------------------------------------

    def _follow(self) -> Follow:
        """The results of an operation, if it is the next one of the block; None if it is not."""
        prims = [step.item.prim for step in self.repeat.steps]  # type: ignore[union-attr]
        self.names = self._names()
        checks, row = self._checks(range(len(prims))), self.row

        def follow(prim: Any, inputs: tuple[Atom, ...], params: dict[str, Any]) -> tuple[Var, ...] | None:
            j = self.at
            if prim is not prims[j]:
                return None
            if not checks[j](inputs, params):
                if not self._varies(j, inputs):
                    return None
                (checks[j],) = self._checks((j,))
                if not checks[j](inputs, params):
                    return None
            out = self.current[j] = row(j, self.current)
            if self.recorder.numbers is not None:
                note_number(self.recorder.numbers, prim, inputs, params, out)
            self.moved(j + 1)
            return (out,)

        return follow

    def _varies(self, j: int, inputs: tuple[Atom, ...]) -> bool:
        """Whether a constant of item *j* was the same in all turns so far, and is another number now: from then on it
        is one that differs."""
        step, turn, found = self.repeat.steps[j], self.current[-1], False
        if step.fixed or j in self.twins or j in self.twins.values() or len(inputs) != len(step.slots):
            return False
        for o, (slot, x) in enumerate(zip(step.slots, inputs, strict=True)):
            if isinstance(slot, Invariant) and isinstance(slot.atom, Lit) and isinstance(x, Lit):
                varying, held = number_slot(slot.atom, [slot.atom, slot.atom, slot.atom, x])
                if isinstance(varying, VaryingConstant) and held == 4:
                    step.slots[o], found = varying, True
                    self.numbers[j, o] = [slot.atom.value] * turn
        if found:  # answers know the constant
            self.asks[:], self.tries[:] = [None] * len(self.asks), [TRIES] * len(self.tries)
        return found

    def _twins(self) -> dict[int, int]:
        """Item -> the earlier item of its block that is equal in all turns: such items define nothing of their own."""
        twins: dict[int, int] = {}
        known: dict[Any, int] = {}
        for j, step in enumerate(self.repeat.steps):
            node = step.item
            assert isinstance(node, Node)
            if step.fixed:
                continue
            slots: list[Any] = list(step.slots)
            for o, slot in enumerate(slots):
                if isinstance(slot, Local | Carried):
                    slots[o] = slot._replace(item=twins.get(slot.item, slot.item))
                elif isinstance(slot, Invariant):
                    slots[o] = identity(slot.atom)
                elif isinstance(slot, Rows):
                    slots[o] = self.rows[j, o]
                elif isinstance(slot, VaryingConstant):
                    slots[o] = slot.like.aval, slot.like.structural, slot.values.tobytes()
            params = node.params if step.starts is None else {**node.params, "start": tuple(self.starts[j])}
            first = known.setdefault((node.prim, tuple(slots), tuple(params.values())), j)
            if first != j:
                twins[j] = first
        return twins

    def _rows(self) -> dict[tuple[int, int], FollowedRows]:
        """The rows of each slot that has some, by (item, operand); equal ones are the same object."""
        rows: dict[tuple[int, int], FollowedRows] = {}
        known: dict[Any, FollowedRows] = {}
        recorded: set[Var] | None = None
        for j, step in enumerate(self.repeat.steps):
            for o, slot in enumerate(step.slots):
                if isinstance(slot, Rows):
                    if recorded is None:
                        recorded = {node.outs[0] for block in self.recorded for node in block}
                    key = tuple(map(id, slot.atoms))
                    found = known.get(key)
                    if found is None:
                        found = known[key] = FollowedRows((j, o), slot, self.rewriter, self.loop, recorded)
                    rows[j, o] = found
        return rows

    def row(self, j: int, outs: list[Any]) -> Var:
        """The value of item *j* in the turn of *outs*."""
        out: Var | None = outs[self.twins[j]] if j in self.twins else self.fixed[j]
        if out is None:
            out = IterationVar(self.repeat.steps[j].item.out.aval)  # type: ignore[union-attr]
            out.source, out.iteration = self.sources[j], outs[-1]
        return out

    def moved(self, at: int) -> None:
        """Go on to item *at* of this turn."""
        if at == len(self.sources):
            at = 0
            self.turned()
        self.at = at
        self.recorder.ask = self.asks[at]

    def _takers(self) -> list[int]:
        """The last reader of each item's value; beyond the block for one of a later turn."""
        takers = [-1] * len(self.sources)
        for j, step in enumerate(self.repeat.steps):
            for slot in step.slots:
                if isinstance(slot, Local):
                    takers[slot.item] = max(takers[slot.item], j)
                elif isinstance(slot, Carried):
                    takers[slot.item] = len(takers)
        for j, first in reversed(self.twins.items()):
            takers[first] = max(takers[first], j, takers[j])
        return takers

    def turned(self) -> None:
        """Go on to the next turn."""
        current = self.current
        self.oldest[:] = self.earlier
        self.earlier[:] = self.previous
        self.previous[:] = current
        current[:-1] = self.blank
        current[-1] += 1

    def _names(self) -> dict[str, Any]:
        """The globals of the functions that check."""
        names: dict[str, Any] = {"Lit": Lit}
        names |= {"current": self.current, "previous": self.previous, "earlier": self.earlier}
        for rows in self.rows.values():
            j, o = rows.place
            names[f"r{j}_{o}"], names[f"fits{j}_{o}"], names[f"take{j}_{o}"] = rows.atoms, rows.fits, rows.take
        return names

    def _checks(self, items: Sequence[int]) -> list[Callable[..., bool]]:
        """For each of *items* a function: whether an operation is that step, with the operands of its slots."""
        source: list[str] = []
        for j in items:
            source.append(f"def step{j}(inputs, params):")
            source += ["    " + line for line in self._lines(j, self.repeat.steps[j], self.names)]
        exec(compile("\n".join(source), _FILE, "exec"), self.names)
        return [self.names[f"step{j}"] for j in items]

    def _lines(self, j: int, step: Step, names: dict[str, Any]) -> list[str]:
        """The body of a function: whether the operation is this *step*."""
        node = step.item
        assert isinstance(node, Node)
        lines, at_end = [], []
        count = len(node.inputs)
        operands = "".join(f"x{o}, " for o in range(count))
        lines.append(f"if len(inputs) != {count}: return False")
        if count:
            lines.append(f"{operands}= inputs")
        for o, slot in enumerate(step.slots):
            test = self._test(j, o, slot, names)
            lines.append(f"if {test}: return False")
            if isinstance(slot, VaryingConstant):
                names[f"n{j}_{o}"] = self.numbers[j, o]
                at_end.append(f"n{j}_{o}.append(x{o}.value)")
                if j in self.twins:
                    names[f"n{j}_{o}t"] = self.numbers[self.twins[j], o]
                    lines.append(f"if x{o}.value.tobytes() != n{j}_{o}t[-1].tobytes(): return False")
            elif isinstance(slot, Rows) and self.rows[j, o].place == (j, o):
                at_end.append(f"take{j}_{o}(x{o})")
        if step.starts is not None:
            names[f"s{j}"], axes = self.starts[j], self.axes(step.starts)
            names[f"p{j}"] = {k: v for k, v in node.params.items() if k != "start"}
            lines.append('start = params["start"]')
            if len(axes) == 1:  # of several all may move
                names[f"f{j}"] = node.params["start"][: axes[0]], node.params["start"][axes[0] + 1 :]
                lines.append(f"if (start[:{axes[0]}], start[{axes[0] + 1}:]) != f{j}: return False")
            lines += [f"if params[{k!r}] != p{j}[{k!r}]: return False" for k in names[f"p{j}"]]
            if j in self.twins:
                names[f"t{j}"] = self.starts[self.twins[j]]
                lines.append(f"if start != t{j}[-1]: return False")
            at_end.append(f"s{j}.append(start)")
        elif node.params:
            names[f"p{j}"] = node.params
            lines.append(f"if params != p{j}: return False")
        else:
            lines.append("if params: return False")
        return [*lines, *at_end, "return True"]

    def _test(self, j: int, o: int, slot: Slot, names: dict[str, Any]) -> str:
        """An expression that is true where operand *o* does not match *slot*."""
        x, name = f"x{o}", f"k{j}_{o}"
        if isinstance(slot, Local):
            return f"{x} is not current[{slot.item}]"
        if isinstance(slot, Carried):
            return f"{x} is not {'previous' if slot.distance == 1 else 'earlier'}[{slot.item}]"
        if isinstance(slot, Rows):
            item, operand = self.rows[j, o].place
            if item != j:
                return f"{x} is not r{item}_{operand}[-1]"
            return f"{x} is not x{operand}" if operand != o else f"not fits{j}_{o}({x})"
        like = slot.like if isinstance(slot, VaryingConstant) else slot.atom if isinstance(slot, Invariant) else None
        assert like is not None
        if isinstance(like, Var):
            names[name] = like
            return f"{x} is not {name}"
        names[name + "t"] = like.aval
        kind = (
            f"type({x}) is not Lit or {x}.structural is not {like.structural} or "
            f"({x}.aval is not {name}t and {x}.aval != {name}t)"
        )
        if isinstance(slot, VaryingConstant):
            return kind
        value = like.value
        plain = bool(value == value) and bool(value != 0)
        names[name] = value if plain else value.tobytes()
        return f"{kind} or {x}.value{'' if plain else '.tobytes()'} != {name}"

    # ---- when it is over -----------------------------------------------------------------------------------------

    def finish(self) -> FollowedLoop | None:
        """Put a loop node in the place of all iterations, and record the items of an unfinished one.  The result is
        None if all is recorded."""
        recorder, repeat, loop, first = self.recorder, self.repeat, self.loop, self.recorded[0]
        period, trips = len(repeat.steps), self.current[-1]
        lists = [self.current, self.previous, self.earlier, self.oldest]
        self._fill(self.current, self.at)
        self._fill(self.previous, period)
        partial = self._nodes(lists, self.at)
        if trips > repeat.trips:
            steps = [self._complete(j, step, trips) for j, step in enumerate(repeat.steps)]
            ending = self._nodes(lists[1:], period, trips - 1)
            recorder.forget(repeat.start)
            keys: list[Key] = []
            every = (node for block in self.recorded for node in block)
            item = [self.twins.get(j, j) for j in range(period)]
            own = {node.outs[0]: (k // period, item[k % period]) for k, node in enumerate(every) if self.fresh[k]}
            for j, step in enumerate(steps):
                if not step.fixed:
                    if j not in self.twins:
                        keys.append((j, 0))
                elif first[j].outs[0] in own:  # another item may have defined it first, by chance
                    del own[first[j].outs[0]]
                    recorder.append(first[j])
                    recorder.know(first[j])
            for var, (iteration, j) in own.items():
                if type(var) is IterationVar:  # of a loop within this one
                    var.source, var.iteration = self.sources[j], iteration
            loop.recorded = own
            last = {key: self.previous[key[0]] for key in keys}
            body = Block(steps, first, trips, self._stacks(steps, trips), recorder.const, fold_items)
            before, recorder.site_override = recorder.site_override, steps[0].item.site
            with building(recorder):
                made = body.make(recorder, keys, last)
                if not made.mapped:
                    for node in ending:
                        loop.defined.add(node.out)
                        recorder.know(node)
                for key, (array, k) in made.arrays.items():
                    x, var = array.after(k, trips - 1), last[key]
                    loop.defined.add(var)
                    recorder.append(Node(PRIMITIVES["alias"], (x,), {}, (var,), steps[key[0]].item.site))
            recorder.site_override = before
            loop.end(trips, made, {j: var for j, var in enumerate(self.fixed) if var is not None})
        for node in partial:
            recorder.append(node)
        return loop if trips > repeat.trips else None

    def _fill(self, outs: list[Any], count: int) -> None:
        """Make Vars for the values of the first *count* items of a turn that have none yet."""
        for j in range(count):
            if outs[j] is None:
                outs[j] = self.row(j, outs)

    def _stacks(self, steps: Sequence[Step], trips: int) -> Callable[[Slot], Atom]:
        """A function that gives the rows of a slot of *steps* as one array."""
        recorder, rewriter = self.recorder, self.rewriter
        for j, step in enumerate(steps):
            for o, slot in enumerate(step.slots):
                if isinstance(slot, Rows):
                    rewriter.parts[id(slot)] = [*self.rows[j, o].parts(trips)]

        def stack(slot: Slot) -> Atom:
            site = recorder.site_override
            recorder.site_override = own_site(site)
            found = rewriter.stack(slot)
            recorder.site_override = site
            return found

        return stack

    def _complete(self, j: int, step: Step, trips: int) -> Step:
        """*step* with the starts and constants of all turns."""
        slots = [
            VaryingConstant(slot.like, np.array(self.numbers[j, o][:trips], slot.values.dtype))
            if isinstance(slot, VaryingConstant) else Rows(self.rows[j, o].atoms[:trips])
            if isinstance(slot, Rows) else slot
            for o, slot in enumerate(step.slots)
        ]  # fmt: skip
        starts = None if step.starts is None else np.array(self.starts[j][:trips])
        return Step(step.item, slots, starts, None, step.fixed)

    def _nodes(self, turns: Sequence[Sequence[Var]], count: int, turn: int = -1) -> list[Node]:
        """The first *count* nodes of the first of *turns*, latest first; *turn*: the index of its numbers."""
        nodes = []
        for j, step in enumerate(self.repeat.steps[:count]):
            node = step.item
            assert isinstance(node, Node)
            if step.fixed or j in self.twins:
                continue
            operands: list[Atom] = []
            for o, slot in enumerate(step.slots):
                if isinstance(slot, Local):
                    operands.append(turns[0][slot.item])
                elif isinstance(slot, Carried):
                    operands.append(turns[slot.distance][slot.item])
                elif isinstance(slot, VaryingConstant):
                    operands.append(Lit(self.numbers[j, o][turn], slot.like.aval.dtype, weak=slot.like.aval.weak))
                elif isinstance(slot, Rows):
                    operands.append(self.rows[j, o].atoms[turn])
                else:
                    assert isinstance(slot, Invariant)
                    operands.append(slot.atom)
            params = node.params if step.starts is None else {**node.params, "start": self.starts[j][turn]}
            nodes.append(Node(node.prim, tuple(operands), params, (turns[0][j],), node.site))
        return nodes
