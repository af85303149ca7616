"""Recording: a builder that knows the user's line, the real inputs, and what control flow relied on.

Nothing is computed while recording.  Shapes and dtypes are known, so errors rise at the user's line; a *value* is
computed only when Python asks for one (``if``, ``float()``, ``while``), and what it was becomes a guard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np

from ..bytecode.frame_snapshot import Asked
from ..ir.aval import Aval, check_dtype
from ..ir.errors import TracegradError
from ..ir.evaluate import HOST, Backend, Env, Producers, as_stored, demand
from ..ir.graph import Atom, Builder, Graph, Guard, Lit, Node, Var, building, live_nodes, read_vars
from ..ir.primitive import Primitive
from ..ir.site import Site, at_site, user_site
from ..reroll import loop_monitor


class Recorder(Builder):
    """One recording.  ``env`` holds the inputs' values and whatever was computed on demand, where *backend* has it."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[Node | Guard] = []  # what Python asked for, in order; see repeats.py
        self.sites: list[Site | None] = []  # from where
        self.counts: list[int] = []  # how many nodes there were before each item
        self.rolls = False  # whether loops will be looked for when Python has returned (roll.py)
        self.asked: dict[int, Asked] = {}  # the item that asked for a truth value: where that was
        self.answers: dict[tuple[int, int], tuple[bool, list[Asked]]] = {}  # to the same question, the last equal ones
        self.counters: dict[
            Var, tuple[str, int]
        ] = {}  # stands for a Python counter, by how much it grows (induction_variables.py)
        self.look_at = -1  # the number of items at which to look for a loop that can be followed; -1: never
        self.follower: loop_monitor.Follower | None = None
        self.entered: Site | None = None  # where the operation of the user's is that is being recorded, if known
        self.ask: Any = None  # the answer to the operation that comes next in it (inline_cache.py)
        self.turns: list[loop_monitor.Turns] = []  # of loops that were followed
        self._turns_known = 0  # nodes that have been searched for what these define
        self.unrolled: list[str] = []  # why what looked like a loop is none
        self.inputs: list[Var] = []
        self.input_names: list[str] = []
        self.backend: Backend = HOST  # where the values in `env` lie
        self.env: Env = {}
        self.guards: list[Guard] = []
        self.consts: list[tuple[Var, np.ndarray]] = []
        self._const_by_id: dict[int, Var] = {}
        self.captured: dict[int, Any] = {}  # id(outside array) -> its traced stand-in
        self._alive: list[Any] = []
        self._producers = Producers()
        self._guarded: dict[tuple[Atom, str], Guard] = {}
        self.capacities: list[int] = []  # steps that there is room for, of the loops whose adjoint was taken
        self.known_capacities: Sequence[int] = ()  # the same, of a recording that this one is to verify
        self.reasons: list[str] = []  # why this run can't stand for others
        self.may_draw = False  # whether the default stream of random numbers can be an input (stream.py),
        self.stream: Var | None = None  # that input,
        self.stream_state: np.ndarray | None = None  # its value,
        self.draws = 0  # and how often it was drawn from
        self.active = True
        self.parent: Recorder | None = None  # of the body of a loop: the recording around it (body_recorder.py)
        self.watch: Callable[[], Any] | None = None  # around Python of the user's that an adjoint runs (ops/custom.py)

    def site(self) -> Site | None:
        return self.site_override or self.entered or user_site()

    def emit(self, prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> tuple[Var, ...]:
        if self.follower is not None:
            outs = self.follower.follow(prim, inputs, params)
            if outs is not None:
                return outs
            self.unfollow()
        count = len(self.nodes)
        node = self.node(prim, inputs, params)
        self.counts.append(count)
        self.items.append(node)
        self.sites.append(node.site if len(self.nodes) > count else self.site())
        if len(self.items) == self.look_at:
            self._look()
        return node.outs

    def append(self, node: Node) -> None:
        self.unfollow()
        self.counts.append(len(self.nodes))
        super().append(node)
        self.items.append(node)
        self.sites.append(node.site)

    def copy(self) -> Recorder:
        """The same recording, which can be rewritten while this one stays as it is."""
        self.unfollow()
        other = copy(self)
        other.__dict__.update({k: v.copy() for k, v in vars(self).items() if type(v) in (list, dict)})
        other._producers = Producers()
        return other

    # ---- loops that are followed (loop_monitor.py) ------------------------------------------------------------------

    def follow_loops(self) -> None:
        """From now on follow loops that go on for long."""
        self.rolls = True
        self.look_at = len(self.items) + loop_monitor.LONG_RUN

    def _look(self) -> None:
        self.counts.append(len(self.nodes))
        found = loop_monitor.look(self)
        self.counts.pop()
        if isinstance(found, int):
            self.look_at = found
        else:
            self.follower, self.ask = found, found.asks[0]

    def unfollow(self) -> None:
        """Make nodes of the loop that is being followed, if there is one."""
        follower, self.follower, self.ask = self.follower, None, None
        if follower is not None:
            follower.finish()
            self.look_at = len(self.items) + loop_monitor.LOOK_EVERY

    def stop_following(self) -> None:
        """From now on make every node: what is recorded after the loops are rolled, derivatives, stays as it is."""
        self.unfollow()
        self.look_at = -1

    @contextmanager
    def in_full(self) -> Iterator[None]:
        """Every node stays where it is: for who keeps positions among the nodes."""
        self.unfollow()
        before, self.look_at = self.look_at, -1
        try:
            yield
        finally:
            self.look_at = before if before < 0 else len(self.items) + loop_monitor.LOOK_EVERY

    def _read_turns(self, atom: Atom) -> None:
        """Work out what single turns of followed loops have defined and nodes, or *atom*, read."""
        fresh = self.nodes[self._turns_known :]
        self._turns_known = len(self.nodes)
        for a in (atom, *(a for n in fresh for a in n.inputs)):
            if type(a) is not loop_monitor.Row or a in self.env:
                continue
            for turns in self.turns:
                place = turns.place(a)
                if place is None:
                    continue
                written = turns.arrays.get((place[1], 0))
                if written is not None:
                    with building(self):
                        x = written[0].after(written[1], place[0])
                    self.env[a] = self._demand(x)
                else:
                    fixed = turns.fixed.get(place[1])
                    stack = turns.stacks[place[1], 0] if fixed is None else fixed
                    value = self.backend.asarray(self._demand(stack))
                    self.env[a] = value[place[0]] if fixed is None else value

    def drop_guards(self) -> None:
        """Forget what control flow relied on."""
        kept = [k for k, item in enumerate(self.items) if isinstance(item, Node)]
        self.asked.clear()
        self.items, self.sites = [self.items[k] for k in kept], [self.sites[k] for k in kept]
        self.counts = [self.counts[k] for k in kept]
        self.guards.clear()

    def forget(self, start: int) -> None:
        """Drop the items from *start* on: something else stands for them."""
        gone = set(self.nodes[self.counts[start] :])
        self._seen = {key: node for key, node in self._seen.items() if node not in gone}
        del self.nodes[self.counts[start] :]
        self._turns_known = min(self._turns_known, len(self.nodes))
        self.asked = {k: asked for k, asked in self.asked.items() if k < start}
        del self.items[start:], self.sites[start:], self.counts[start:]

    def replace(self, nodes: list[Node], guards: list[Guard]) -> None:
        """Go on with another form of the same program."""
        self.turns = []
        self.nodes, self.items, self.sites, self.counts, self.guards = [], [], [], [], guards
        self.asked.clear()
        self._seen.clear()
        self.adopt(nodes)

    def add_input(self, value: Any, name: str, *, weak: bool = False) -> Var:
        """A new graph input that stands for *value* (an array, or a float)."""
        array = self.backend.asarray(value)
        dtype = check_dtype(array.dtype, name)
        var = Var(Aval(dtype, array.shape, weak))
        self.inputs.append(var)
        self.input_names.append(name)
        self.env[var] = array
        return var

    def const(self, array: np.ndarray) -> Var:
        """An array that the user's Python made: its contents travel with the recording."""
        found = self._const_by_id.get(id(array))
        if found is not None and _same_contents(self.env[found], array):
            return found
        dtype = check_dtype(array.dtype, "an array used in the function")
        kept = np.array(array, dtype=dtype, order="C")  # a copy: the user may go on writing into it
        found = Var(Aval(dtype, array.shape))
        self.consts.append((found, kept))
        self.env[found] = kept
        self._const_by_id[id(array)] = found
        self._alive.append(array)  # keeps id() unique for as long as it is a key
        return found

    def value(self, atom: Atom) -> Any:
        """The value of *atom* in this run as a NumPy array, computed now if need be."""
        return as_stored(self.backend.download(self.value_there(atom)), atom)

    def value_there(self, atom: Atom) -> Any:
        """The same as the backend has it."""
        self.unfollow()
        if self.turns:
            self._read_turns(atom)
        return self._demand(atom)

    def _demand(self, atom: Atom) -> Any:
        return demand([atom], self.nodes, self.env, self._producers, self.backend)[0]

    def guard(self, atom: Atom, kind: str) -> Any:
        """The value of a 0-d *atom*, which control flow is about to rely on."""
        value = np.asarray(self.value(atom))[()]
        if not isinstance(atom, Lit):
            guard = self._guarded.get((atom, kind))
            if guard is None:
                guard = self._guarded[atom, kind] = Guard(atom, value, kind, user_site(), len(self.nodes))
                self.guards.append(guard)
            self.counts.append(len(self.nodes))
            self.items.append(guard)
            self.sites.append(user_site())
        return value

    def note_asked(self, atom: Atom, asked: Asked) -> bool:
        """The truth value of *atom* was asked for from there.  Is that an item?"""
        last = self.items[-1] if self.items else None
        if isinstance(last, Guard) and last.atom is atom:
            self.asked[len(self.items) - 1] = asked
            return True
        return False

    def refuse(self, reason: str) -> None:
        """What looked like a loop is none, for explain()."""
        if reason not in self.unrolled:
            self.unrolled.append(reason)

    def range_of(self, atom: Atom) -> tuple[int, int] | None:
        """The least and the greatest value that the integer *atom* can have, where that is known."""
        return None

    def unrepeatable(self, what: str) -> None:
        """The run does *what*, which no guard covers: it must not be replayed."""
        reason = f"{what} at {user_site()}"
        if reason not in self.reasons:
            self.reasons.append(reason)

    def finish(self, outputs: list[Atom]) -> Graph:
        """The recorded program, without what nothing depends on."""
        self.active = False
        roots = [*outputs, *[g.atom for g in self.guards]]
        nodes = live_nodes(self.nodes, roots)
        used = read_vars(nodes, roots)
        consts = [c for c in self.consts if c[0] in used]
        return Graph(list(self.inputs), nodes, list(outputs), list(self.guards), consts)


_current = threading.local()


def _same_contents(kept: np.ndarray, array: np.ndarray) -> bool:
    """Is *array* still what it was when it was copied?"""
    if kept.shape != array.shape or kept.dtype != array.dtype:
        return False
    return kept.tobytes() == np.ascontiguousarray(array).tobytes()


def current_recorder() -> Recorder | None:
    """The recording in progress in this thread, if any."""
    return getattr(_current, "recorder", None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Make *recorder* the one that NumPy calls on traced arrays write to."""
    previous = getattr(_current, "recorder", None)
    _current.recorder = recorder
    try:
        with building(recorder):
            yield recorder
    finally:
        _current.recorder = previous
        recorder.active, recorder.ask = False, None


def require_recorder(what: str) -> Recorder:
    recorder = current_recorder()
    if recorder is None:
        raise TracegradError(at_site(f"{what} works only inside a function that tracegrad is recording"))
    return recorder
