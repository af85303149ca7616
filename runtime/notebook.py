"""Cells of a notebook: ``_repr_html_`` of compiled functions and steps, of ``f.stats`` and of arrays."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

EDGE = 4  # elements shown at either end of an axis
_STYLE = "border-collapse:collapse;font:13px system-ui,sans-serif;text-align:left"
_CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:top;border:0"


def table(heading: str, rows: Iterable[tuple[str, Any]], below: str = "") -> str:
    """A table of names and values under a heading; *below* is HTML."""
    cells = "".join(
        f'<tr><th style="{_CELL};font-weight:400;opacity:.65">{html.escape(name)}</th>'
        f'<td style="{_CELL}">{html.escape(str(value))}</td></tr>'
        for name, value in rows
        if value not in ("", None)
    )
    caption = f'<div style="font:600 13px system-ui,sans-serif;margin-bottom:3px">{html.escape(heading)}</div>'
    return f'<div>{caption}<table style="{_STYLE}">{cells}</table>{below}</div>'


def folded(heading: str, lines: Sequence[str]) -> str:
    """Lines under a heading that opens; nothing where there are none."""
    if not lines:
        return ""
    text = html.escape("\n".join(lines))
    return (
        f'<details style="font:13px system-ui,sans-serif"><summary>{html.escape(heading)}</summary>'
        f'<pre style="margin:4px 0;font-size:12px">{text}</pre></details>'
    )


def stats_html(stats: Any) -> str:
    """The counters of a function, and why it was recorded."""
    return _counters(stats, stats.name, [])


def function_html(function: Any, kind: str) -> str:
    """A compiled function or step: where it is defined, and its counters."""
    fn = getattr(function, "__wrapped__", None)
    code = getattr(fn, "__code__", None)
    where = f"{_short(code.co_filename)}:{code.co_firstlineno}" if code is not None else ""
    first = (getattr(fn, "__doc__", None) or "").strip().partition("\n")[0]
    return _counters(function.stats, f"{kind} {function.stats.name}", [("", first), ("defined", where)])


def _short(file: str) -> str:
    """A path, from the working directory where it is in it."""
    try:
        found = os.path.relpath(file)
    except (OSError, ValueError):  # no working directory, another drive
        return file
    return file if found.startswith("..") else found


def _counters(stats: Any, heading: str, rows: list[tuple[str, Any]]) -> str:
    rows = [
        *rows,
        ("calls", f"{stats.calls:,}"),
        ("recordings", f"{stats.traces:,}" + (f", {stats.derived:,} derived" if stats.derived else "")),
        (
            "kernels",
            f"{stats.compiles:,} compiled, {stats.kernel_hits:,} found"
            + f", {stats.kernels_from_disk:,} read from disk" * bool(stats.kernels_from_disk),
        ),
        ("guards that failed", f"{stats.guard_misses:,}" if stats.guard_misses else ""),
        ("answered from disk", f"{stats.from_disk:,}" if stats.from_disk else ""),
        ("not kept on disk", stats.not_kept),
        ("Python in every call", stats.live),
    ]
    reasons = [f"{count} x {reason}" for reason, count in stats.retraces.most_common()]
    paths = [str(path) for path in stats.paths if path.answers]
    below = folded("why it was recorded", reasons)
    return table(heading, rows, below + folded(f"{len(paths)} path{'s' * (len(paths) != 1)}", paths))


def array_html(heading: str, facts: Iterable[tuple[str, Any]], values: np.ndarray) -> str:
    """An array: facts, range and elements, those at the ends of its axes where it is large."""
    rows = [*facts]
    if values.size and values.dtype.kind in "fiu":
        shown = values.astype(np.float64) if values.dtype.kind == "f" else values
        finite = shown[np.isfinite(shown)] if values.dtype.kind == "f" else shown
        if finite.size > 1:
            rows.append(("range", f"{_number(finite.min())} to {_number(finite.max())}, mean {_number(finite.mean())}"))
        if finite.size < values.size:
            rows.append(("not finite", f"{values.size - finite.size:,} of {values.size:,}"))
    return table(heading, rows, _elements(values))


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)


def _elements(values: np.ndarray) -> str:
    if values.ndim == 0:
        return f'<div style="font:12px monospace">{html.escape(_number(values[()]))}</div>'
    if values.size == 0:
        return ""
    plane = values.reshape(1, -1) if values.ndim == 1 else values.reshape((-1, *values.shape[-2:]))[0]
    rows, columns = _shown(plane.shape[0]), _shown(plane.shape[1])
    cell = "padding:1px 8px;text-align:right;border:1px solid #8883"
    body = "".join(
        "<tr>"
        + "".join([f'<td style="{cell}">{"…" if None in (r, c) else _number(plane[r, c])}</td>' for c in columns])
        + "</tr>"
        for r in rows
    )
    note = ""
    if values.ndim > 2:
        count = math.prod(values.shape[:-2])
        note = f'<div style="opacity:.65;font:12px system-ui">the first of {count:,}</div>'
    return f'<table style="{_STYLE};font-family:monospace;font-size:12px;margin-top:4px">{body}</table>{note}'


def _shown(length: int) -> list[int | None]:
    if length <= 2 * EDGE + 1:
        return list(range(length))
    return [*range(EDGE), None, *range(length - EDGE, length)]
