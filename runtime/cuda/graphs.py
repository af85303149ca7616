"""CUDA graphs: a program's launches, captured once and replayed as one.

A graph holds the addresses that it was captured with, and the stream.  CuPy's pool gives the same memory again to a
loop that drops its results, so the addresses of a call repeat, or take turns among a few: a graph is kept for each set
that was seen twice.  Its workspace is its own, so a process keeps only the ``MAX_GRAPHS`` that were used last, whatever
the number of programs and shapes, and none when memory runs out.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ...tracer.ir.data_classes import NamedTuple
from ..recent import Recent

MAX_GRAPHS = 64  # of a process
MAX_SEEN = 64  # sets of addresses that are remembered of one program

Key = tuple[int, ...]


class _Graph(NamedTuple):
    graph: Any
    workspace: Any


_lock = threading.Lock()
_used: OrderedDict[tuple[int, Key], weakref.ref[Replays]] = OrderedDict()  # the graphs of all, the last used one last


class Replays:
    """The graphs of one program with one set of sizes."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._seen: Recent[Key, None] = Recent(lambda: MAX_SEEN)
        self._graphs: dict[Key, _Graph] = {}

    def run(self, outside: Sequence[int], allocate: Callable[[], Any], launch: Callable[[Any], None]) -> Any:
        """The workspace of a run on arrays at the addresses *outside*, which *launch* starts, given a workspace."""
        stream = self._xp.cuda.get_current_stream()
        key = (stream.ptr, *outside)
        found = self._graphs.get(key)
        if found is None:
            workspace = allocate()
            if key not in self._seen:
                self._seen.keep(key, None)
                launch(workspace)
                return workspace
            found = self._graphs[key] = self._capture(workspace, launch)
        self._use(key)
        found.graph.launch(stream)
        return found.workspace

    def _capture(self, workspace: Any, launch: Callable[[Any], None]) -> _Graph:
        stream = self._xp.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                launch(workspace)
            finally:
                graph = stream.end_capture()
        return _Graph(graph, workspace)

    def _use(self, key: Key) -> None:
        with _lock:
            _used[id(self), key] = weakref.ref(self)
            _used.move_to_end((id(self), key))
            while len(_used) > MAX_GRAPHS:
                _drop(*_used.popitem(last=False))


def _drop(place: tuple[int, Key], owner: weakref.ref[Replays]) -> None:
    replays = owner()
    if replays is not None:
        replays._graphs.pop(place[1], None)


def forget_graphs() -> bool:
    """Drop all graphs, with their workspaces; whether there were any."""
    with _lock:
        found = bool(_used)
        while _used:
            _drop(*_used.popitem())
    return found
