"""A profile in the JSON format of Chrome's traces, which chrome://tracing and ui.perfetto.dev show."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from .disk.location import existing_folder


def write(path: str | os.PathLike[str], spans: Sequence[Any], begun: float, dropped: int) -> None:
    """Write *spans* (``profiling.TimedSpan``) of a profile that has *begun* then; *dropped*: how many were not kept."""
    existing_folder(os.path.dirname(os.path.abspath(path)), "chrome_trace")
    process = os.getpid()
    events: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": process, "args": {"name": "tracegrad"}}]
    events += [
        {
            "name": span.name, "cat": span.kind, "ph": "X", "pid": process, "tid": span.thread,
            "ts": 1e6 * (span.begun - begun), "dur": 1e6 * span.seconds,
            "args": {"line": str(span.site)} if span.site else {},
        }
        for span in spans
    ]  # fmt: skip
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"dropped": dropped}}, file)
