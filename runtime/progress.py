"""A line on the terminal that says what is recorded or compiled, and how far: after a second, until it is done.

A thread writes it (LLVM runs without the GIL, and everything else lets go of it now and then).  It is begun by the
first work where standard error is a terminal, looks four times a second, and ends when nothing has been done for a
while.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

from ..tracer.ir.foreign_code import foreign_code
from ..tracer.ir.working import BEGUN, ENDED, Working, at_work
from .config import config

AFTER = 1.0  # seconds of one work before it is shown
PAUSE = 0.25  # seconds between two looks
IDLE = 5.0  # seconds without work after which the thread ends


class _Line:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.thread: threading.Thread | None = None
        self.shown: Any = None  # what is on the terminal: a display of rich's, or the stream that has the plain line

    def begun(self) -> None:
        if not self._runs() and config.progress and _is_terminal():
            with self.lock:
                if not self._runs():  # another thread may have begun it
                    self.thread = threading.Thread(target=self._run, name="tracegrad progress", daemon=True)
                    self.thread.start()

    def _runs(self) -> bool:
        thread = self.thread
        return thread is not None and thread.is_alive()

    def ended(self) -> None:
        if self.shown is not None and not at_work():
            with self.lock:
                self._erase()

    def _run(self) -> None:
        idle = time.monotonic()
        while time.monotonic() < idle + IDLE and foreign_code.last is None:
            time.sleep(PAUSE)
            works = at_work()
            if not works:
                continue
            idle = time.monotonic()
            if config.progress and idle >= works[0].begun + AFTER:
                display = _display()
                with self.lock:
                    if works[0] in at_work():  # else it has ended meanwhile
                        self._write(described(works[0]), display)

    def _write(self, text: str, display: Any) -> None:
        try:
            if self.shown is None:
                self.shown = sys.stderr if display is None else display
                if display is not None:
                    display.start()
            if self.shown is sys.stderr:
                room = os.get_terminal_size(sys.stderr.fileno()).columns or 80
                sys.stderr.write(f"\r\x1b[2K{text[: room - 1]}")
                sys.stderr.flush()
            elif hasattr(self.shown, "update"):
                self.shown.update(text, refresh=True)
        except Exception:  # a terminal that is gone: compiling goes on without
            self.shown = None

    def _erase(self) -> None:
        shown, self.shown = self.shown, None
        with suppress(Exception):  # the terminal may be gone
            if hasattr(shown, "stop"):
                shown.stop()
            elif shown is not None:
                shown.write("\r\x1b[2K")
                shown.flush()

    def alone(self) -> None:
        """A forked child has neither the thread nor the line."""
        self.__init__()  # type: ignore[misc]


def described(root: Working) -> str:
    """The line for the work *root*."""
    latest = root.latest
    phase = f": {latest.text}" if latest is not root else ""
    count = latest.operations() or root.operations()
    operations = f", {count:,} operations" if count else ""
    return f"tracegrad: {root.text}{phase}{operations}, {time.monotonic() - root.begun:.0f} s"


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def _display() -> Any:
    """A line of rich's, if it is installed."""
    if line.shown is not None:
        return None
    try:
        rich_console, live = import_module("rich.console"), import_module("rich.live")
    except Exception:
        return None
    console = rich_console.Console(stderr=True, highlight=False, markup=False)
    return live.Live(console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


line = _Line()
BEGUN.append(line.begun)
ENDED.append(line.ended)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=line.alone)
