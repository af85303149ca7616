"""Files and streams outside that a run writes into.

Each call of a method that writes is an effect, in order with what is printed (``file_writes.py``).  The run reads
nothing of what a file holds, so any file of the class may stand in the place of the one that it has found.
``sys.stdout`` is looked up when the effect is done, as `print` does.
"""

from __future__ import annotations

import csv
import io
import sys
from typing import Any

_IO = ("write", "writelines", "flush")
_CSV = ("writerow", "writerows")
#: classes of files -> the methods that write
WRITERS: dict[type, tuple[str, ...]] = {io.StringIO: _IO, io.TextIOWrapper: _IO, type(csv.writer(io.StringIO())): _CSV}


class StandardStream:
    """The file that stands in the module ``sys`` under a name when it is written to."""

    def __init__(self, name: str) -> None:
        self._name = name

    def write(self, text: str) -> Any:
        return getattr(sys, self._name).write(text)

    def writelines(self, lines: Any) -> None:
        getattr(sys, self._name).writelines(lines)

    def flush(self) -> None:
        getattr(sys, self._name).flush()


WRITERS[StandardStream] = _IO
STREAMS = {name: StandardStream(name) for name in ("stdout", "stderr", "__stdout__", "__stderr__")}


def is_file(run: Any, value: Any) -> bool:
    """Whether *value* is a file or a stream from outside."""
    kind = type(value)
    return kind is StandardStream or (kind in WRITERS and run.reads.node_of(value) is not None)
