"""C++ code (optree, LLVM) that no thread may be in when the interpreter ends, and none may be torn out of.

Up to Python 3.13 a daemon thread that asks for the GIL after the end is unwound by ``pthread_exit``, which aborts the
process where the thread is in a destructor of C++ (pybind/pybind11#2215; optree releases the GIL for its registry's
lock). One that is inside of LLVM meanwhile finds LLVM's globals destroyed. So the end waits for threads that are in
:data:`foreign_code`, and other threads that come later wait for ever, before they hold anything.

Exceptions of signal handlers (KeyboardInterrupt) may come between any two instructions, also behind the one that takes
llvmlite's lock, which nobody would give back then. They come to the thread that they are meant for alone; so LLVM is
called in threads of its own (:func:`uninterrupted`), and who asked waits, interruptibly.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")

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
        running: Callable[[], Any] = sys._current_frames,
    ) -> None:  # fmt: skip
        self.last = thread()
        limit = now() + patience
        # a thread that an exception has ended on its way in or out is not running any more
        while (self.depth.keys() - {self.last}) & running().keys() and now() < limit:
            sleep(0.0005)

    def alone(self, thread: Callable[[], int] = threading.get_ident) -> None:
        """A forked child has this thread only."""
        self.depth = {key: depth for key, depth in self.depth.items() if key == thread()}


foreign_code = _ForeignCode()


class _Work:
    """Something that is done in a thread of its own; ``done`` is locked until it is."""

    __slots__ = ("done", "error", "failed", "found", "run_in", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.run_in, self.work = copy_context().run, work
        self.found: Any = None
        self.error: BaseException | None = None
        self.failed = True
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def run(self) -> None:
        _apart.add(_thread.get_ident())
        try:
            with foreign_code:
                self.found, self.failed = self.run_in(self.work), False
        except BaseException as error:
            self.error = error
        finally:
            _apart.discard(_thread.get_ident())
            self.done.release()


_apart: set[int] = set()  # threads that :func:`uninterrupted` has begun
_awaited: set[_Work] = set()


def uninterrupted(work: Callable[[], T]) -> T:
    """The result of *work*, which is done to its end in a thread of its own. An exception that a signal handler raises
    meanwhile ends the wait for it alone."""
    if foreign_code.last is not None or _thread.get_ident() in _apart:
        with foreign_code:
            return work()
    mine = _Work(work)
    try:
        _awaited.add(mine)
        _thread.start_new_thread(mine.run, ())
        mine.done.acquire()
    finally:
        _awaited.discard(mine)
    if mine.error is not None:
        try:
            raise mine.error
        finally:
            del mine
    return work() if mine.failed else mine.found  # in a forked child, which has this thread only


def _alone() -> None:
    """A forked child has this thread only."""
    foreign_code.alone()
    _apart.intersection_update((_thread.get_ident(),))
    for waited in _awaited:  # by a signal handler that has forked
        if waited.done.locked():
            waited.done.release()


atexit.register(foreign_code.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
