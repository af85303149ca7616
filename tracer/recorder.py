"""Recording: a builder that knows the user's line, the real inputs, and what control flow relied on.

Nothing is computed while recording.  Shapes and dtypes are known, so errors rise at the user's line; a *value* is
computed only when Python asks for one (``if``, ``float()``, ``while``), and what it was becomes a guard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .aval import Aval, check_dtype
from .errors import TracegradError
from .evaluate import Env, Producers, demand
from .ir import Atom, Builder, Graph, Guard, Lit, Var, building, live_nodes, read_vars
from .site import Site, at_site, user_site


class Recorder(Builder):
    """One recording.  ``env`` holds the inputs' values and whatever was computed on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Var] = []
        self.input_names: list[str] = []
        self.env: Env = {}
        self.guards: list[Guard] = []
        self.consts: list[tuple[Var, np.ndarray]] = []
        self._const_by_id: dict[int, Var] = {}
        self.captured: dict[int, Any] = {}  # id(outside array) -> its traced stand-in
        self._alive: list[Any] = []
        self._producers = Producers()
        self._guarded: set[tuple[Atom, str]] = set()
        self.reasons: list[str] = []  # why this run can't stand for others
        self.may_draw = False  # whether the default stream of random numbers can be an input (stream.py),
        self.stream: Var | None = None  # that input,
        self.stream_state: np.ndarray | None = None  # its value,
        self.draws = 0  # and how often it was drawn from
        self.active = True
        self.parent: Recorder | None = None  # of the body of a loop: the recording around it (body.py)
        self.watch: Callable[[], Any] | None = None  # around Python of the user's that an adjoint runs (ops/custom.py)

    def site(self) -> Site | None:
        return self.site_override or user_site()

    def add_input(self, value: Any, name: str, *, weak: bool = False) -> Var:
        """A new graph input that stands for *value* (an array, or a float)."""
        array = np.asarray(value)
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
        """The value of *atom* in this run, computed now if need be."""
        return demand([atom], self.nodes, self.env, self._producers)[0]

    def guard(self, atom: Atom, kind: str) -> Any:
        """The value of a 0-d *atom*, which control flow is about to rely on."""
        value = np.asarray(self.value(atom))[()]
        if not isinstance(atom, Lit) and (atom, kind) not in self._guarded:
            self._guarded.add((atom, kind))
            self.guards.append(Guard(atom, value, kind, user_site(), len(self.nodes)))
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
        recorder.active = False


def require_recorder(what: str) -> Recorder:
    recorder = current_recorder()
    if recorder is None:
        raise TracegradError(at_site(f"{what} works only inside a function that tracegrad is recording"))
    return recorder
