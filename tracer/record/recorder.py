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

from ..ir.aval import Aval, check_dtype
from ..ir.errors import TracegradError
from ..ir.evaluate import HOST, Backend, Env, Producers, as_stored, demand
from ..ir.graph import Atom, Builder, Graph, Guard, Lit, Node, Var, building, live_nodes, read_vars
from ..ir.primitive import Primitive
from ..ir.site import Site, at_site, user_site
from .observer import Observer


class Recorder(Builder):
    """One recording.  ``env`` holds the inputs' values and whatever was computed on demand, where *backend* has it."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[Node | Guard] = []  # what Python asked for, in order; see repeats.py
        self.sites: list[Site | None] = []  # from where
        self.counts: list[int] = []  # how many nodes there were before each item
        self.observer: Observer | None = None
        self.look_at = -1  # the number of items at which the observer looks; -1: never
        self.follow: Any = None  # the observer's: sees to an operation in place of this recorder (loop_follower.py)
        self.ask: Any = None  # the observer's: has the result of the user's next operation (inline_cache.py)
        self.entered: Site | None = None  # where the operation of the user's is that is being recorded, if known
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
        if self.follow is not None:
            outs = self.follow(prim, inputs, params)
            if outs is not None:
                return outs
            self.unfollow()
        count = len(self.nodes)
        node = self.node(prim, inputs, params)
        self.counts.append(count)
        self.items.append(node)
        self.sites.append(node.site if len(self.nodes) > count else self.site())
        if len(self.items) == self.look_at:
            assert self.observer is not None
            self.observer.reached()
        return node.outs

    def append(self, node: Node) -> None:
        self.unfollow()
        self.counts.append(len(self.nodes))
        super().append(node)
        self.items.append(node)
        self.sites.append(node.site)

    def copy(self) -> Recorder:
        """The same recording, which can be rewritten while this one stays as it is."""
        assert self.observer is None
        other = copy(self)
        other.__dict__.update({k: v.copy() for k, v in vars(self).items() if type(v) in (list, dict)})
        other._producers = Producers()
        return other

    # ---- what an observer sees to --------------------------------------------------------------------------------

    def unfollow(self) -> None:
        """Make nodes of what the observer has seen to."""
        if self.follow is not None:
            assert self.observer is not None
            self.observer.unfollow()

    @contextmanager
    def in_full(self) -> Iterator[None]:
        """Every node stays where it is: for who keeps positions among the nodes."""
        self.unfollow()
        before, self.look_at = self.look_at, -1
        try:
            yield
        finally:
            if before >= 0:
                assert self.observer is not None
                self.observer.postpone()

    def drop_guards(self) -> None:
        """Forget what control flow relied on."""
        kept = [k for k, item in enumerate(self.items) if isinstance(item, Node)]
        self.items, self.sites = [self.items[k] for k in kept], [self.sites[k] for k in kept]
        self.counts = [self.counts[k] for k in kept]
        self.guards.clear()

    def forget(self, start: int) -> None:
        """Drop the items from *start* on: something else stands for them."""
        gone = set(self.nodes[self.counts[start] :])
        self._seen = {key: node for key, node in self._seen.items() if node not in gone}
        del self.nodes[self.counts[start] :]
        del self.items[start:], self.sites[start:], self.counts[start:]

    def replace(self, nodes: list[Node], guards: list[Guard]) -> None:
        """Go on with another form of the same program."""
        self.nodes, self.items, self.sites, self.counts, self.guards = [], [], [], [], guards
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
        if self.observer is not None:
            self.observer.evaluate(atom)
        return self.demand(atom)

    def demand(self, atom: Atom) -> Any:
        """As ``value_there``, of what nodes define."""
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
