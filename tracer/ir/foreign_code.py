"""C++ code (optree, LLVM) that no thread may be in when the interpreter ends.

Up to Python 3.13 a daemon thread that asks for the GIL after the end is unwound by ``pthread_exit``, which aborts the
process where the thread is in a destructor of C++ (pybind/pybind11#2215; optree releases the GIL for its registry's
lock). One that is inside of LLVM meanwhile finds LLVM's globals destroyed. So the end waits for threads that are in
:data:`foreign_code`, and other threads that come later wait for ever, before they hold anything.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable

#: Seconds that the end waits at most: the flatten function of a user's node class may block.
PATIENCE = 60.0


class _ForeignCode:
    """A context that threads may be in together, and any number of times, until the interpreter ends. Its hooks use no
    globals, since the module may have been emptied by then."""

    def __init__(self) -> None:
        self.depth: dict[int, int] = {}
        self.last: int | None = None  # the thread that ends the interpreter

    def __enter__(self) -> None:
        thread = threading.get_ident()
        depth = self.depth[thread] = self.depth.get(thread, 0) + 1
        if depth == 1 and self.last not in (None, thread):  # asked once we are counted, so that the end can't miss us
            del self.depth[thread]
            threading.Event().wait()

    def __exit__(self, *_: object) -> None:
        thread = threading.get_ident()
        self.depth[thread] -= 1
        if not self.depth[thread]:
            del self.depth[thread]

    def end(
        self, thread: Callable[[], int] = threading.get_ident, now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep, patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self.last = thread()
        limit = now() + patience
        while self.depth.keys() - {self.last} and now() < limit:
            sleep(0.0005)

    def alone(self, thread: Callable[[], int] = threading.get_ident) -> None:
        """A forked child has this thread only."""
        self.depth = {key: depth for key, depth in self.depth.items() if key == thread()}


foreign_code = _ForeignCode()
atexit.register(foreign_code.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=foreign_code.alone)
