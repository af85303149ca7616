"""A pseudo-terminal, and what stands on it."""

from __future__ import annotations

import os
import re
import threading


class Terminal:
    """A context; ``stream`` writes on the terminal."""

    def __enter__(self) -> Terminal:
        self._master, slave = os.openpty()
        self.stream = os.fdopen(slave, "w")
        self._read: list[bytes] = []
        self._lock = threading.Lock()
        os.set_blocking(self._master, False)
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        os.close(self._master)

    def text(self) -> str:
        """All that was written so far."""
        with self._lock:
            try:
                while found := os.read(self._master, 65_536):
                    self._read.append(found)
            except OSError:  # nothing more, or nobody who writes
                pass
            return b"".join(self._read).decode()

    def screen(self) -> str:
        """The line as it stands there."""
        written = re.split(r"\r\x1b\[2K|\r", self.text())
        return written[-1]
