"""CUDA graphs: a program's launches, captured once and replayed as one.

A graph holds the addresses that it was captured with, and the stream.  CuPy's pool gives the same memory again to a
loop that drops its results, so the addresses of a call repeat, or take turns among a few: a graph is kept for each set
that was seen twice.  Its workspace is its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

MAX_GRAPHS = 8  # of one program
MAX_SEEN = 64  # sets of addresses that are remembered


class _Graph(NamedTuple):
    graph: Any
    workspace: Any


class Replays:
    """The graphs of one program with one set of sizes."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._seen: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._graphs: OrderedDict[tuple[int, ...], _Graph] = OrderedDict()

    def run(self, outside: Sequence[int], allocate: Callable[[], Any], launch: Callable[[Any], None]) -> Any:
        """The workspace of a run on arrays at the addresses *outside*, which *launch* starts, given a workspace."""
        key = (self._xp.cuda.get_current_stream().ptr, *outside)
        found = self._graphs.get(key)
        if found is None:
            workspace = allocate()
            if key not in self._seen:
                self._remember(key)
                launch(workspace)
                return workspace
            found = self._capture(key, workspace, launch)
        self._graphs.move_to_end(key)
        found.graph.launch(self._xp.cuda.get_current_stream())
        return found.workspace

    def _remember(self, key: tuple[int, ...]) -> None:
        self._seen[key] = None
        while len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)

    def _capture(self, key: tuple[int, ...], workspace: Any, launch: Callable[[Any], None]) -> _Graph:
        stream = self._xp.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                launch(workspace)
            finally:
                graph = stream.end_capture()
        found = self._graphs[key] = _Graph(graph, workspace)
        while len(self._graphs) > MAX_GRAPHS:
            self._graphs.popitem(last=False)
        return found
