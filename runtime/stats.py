"""Counters of one compiled function."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..tracer.ir.gc_pause import imported_to_stay

_MAX_REASONS = 64  # kept apart
_MAX_SHOWN = 32  # paths

#: Told of each recording: the function's name, and why it was made.
NOTED: list[Callable[[str, str], None]] = []
#: Told of calls that recordings on disk answer: the function's name, and the seconds that it took.
FROM_DISK: list[Callable[[str, float], None]] = []


def short_name(fn: Any) -> str:
    """The name of a function, or the text of what is called as one: a partial has that of what it holds, which may have
    none."""
    if name := getattr(fn, "__qualname__", None):
        return str(name)
    try:
        return repr(fn)
    except Exception:
        return f"a {type(fn).__name__}"


@dataclass(slots=True, frozen=True)
class PathStats:
    """Counters of one path: its mode, how often it ``runs``, the ``answers`` of the control flow that it
    stands for, with lines, and ``misses``: which of them was the first that was not given, and how often."""

    mode: str
    runs: int
    answers: tuple[str, ...]
    misses: dict[str, int]

    def __str__(self) -> str:
        plural = "s" * (self.runs != 1)
        lines = [f"{self.runs} run{plural} of {self.mode} where {'; '.join(self.answers) or 'nothing decided'}"]
        return "\n    ".join([*lines, *[f"{count} x missed: {answer}" for answer, count in self.misses.items()]])


@dataclass(slots=True)
class Stats:
    """``calls`` of the function; ``traces`` (runs of its Python); ``compiles`` of new kernels; ``kernel_hits``
    (recordings whose kernel was there already); ``kernels_from_disk`` (recordings whose kernel an earlier process has
    compiled); recordings ``derived`` from those of another mode, without running Python; ``guard_misses`` that the slow
    path met; ``retries``: runs that were dropped, and made again by what they had learned; ``retraces``: why Python
    ran, with counts; ``live``: why it runs in every call, if it does; ``from_disk``: calls that recordings of other
    processes have answered; ``not_kept``: why its recordings are not for others; ``paths``: those that are kept, the
    busiest first."""

    name: str
    calls: int = 0
    traces: int = 0
    compiles: int = 0
    kernel_hits: int = 0
    kernels_from_disk: int = 0
    guard_misses: int = 0
    retries: int = 0
    derived: int = 0
    live: str = ""
    from_disk: int = 0
    not_kept: str = ""
    retraces: Counter[str] = field(default_factory=Counter)
    count_paths: Callable[[], list[PathStats]] = field(default=list, repr=False)

    def note(self, reason: str) -> None:
        for tell in NOTED:
            tell(self.name, reason)
        if reason not in self.retraces and len(self.retraces) >= _MAX_REASONS:
            reason = "other reasons"
        self.retraces[reason] += 1

    def retried(self, reason: str) -> None:
        """Count a run that is dropped, for this *reason*, where it is not told otherwise."""
        self.retries += 1
        if reason:
            self.note(reason)

    def count_kernel(self, found: int) -> None:
        """Count the kernel of a recording; *found*: how it was come by (``launch/kernel_cache.py``)."""
        self.compiles += not found
        self.kernel_hits += found == 1
        self.kernels_from_disk += found > 1

    @property
    def cache_hits(self) -> int:
        """Calls answered without running Python, and recordings whose kernel was found."""
        return self.calls - self.traces + self.kernel_hits

    def __reduce__(self) -> Any:
        """As they stand now: a copy, or one in another process, counts no more."""
        return _copied, ({name: getattr(self, name) for name in self.__slots__[:-1]}, self.paths)

    @property
    def paths(self) -> list[PathStats]:
        return sorted(self.count_paths(), key=lambda path: -path.runs)

    def _repr_html_(self) -> str:
        return imported_to_stay(".notebook", __package__).stats_html(self)

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.calls} calls, {self.traces} traces, {self.compiles} compiles, "
            f"{self.kernel_hits} kernel cache hits, {self.guard_misses} guard misses"
            + f", {self.derived} derived from recordings of another mode"
            * bool(self.derived)
        ]
        lines += [f"  {count} x {reason}" for reason, count in self.retraces.most_common()]
        paths = [path for path in self.paths if path.answers]
        lines += [f"  {path}" for path in paths[:_MAX_SHOWN]]
        lines += [f"  and {len(paths) - _MAX_SHOWN} paths that ran less often"] * (len(paths) > _MAX_SHOWN)
        if self.kernels_from_disk:
            lines.append(f"  {self.kernels_from_disk} x kernel read from disk")
        if self.from_disk:
            lines.append(f"  {self.from_disk} x answered by a recording on disk")
        if self.not_kept:
            lines.append(f"  not kept on disk: {self.not_kept}")
        if self.live:
            lines.append(f"  Python runs in every call: {self.live}")
        return "\n".join(lines)


def _copied(counters: dict[str, Any], paths: list[PathStats]) -> Stats:
    return Stats(**counters, count_paths=functools.partial(list, paths))
