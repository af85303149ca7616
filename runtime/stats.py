"""Counters of one compiled function."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_MAX_REASONS = 64  # kept apart


@dataclass(slots=True)
class Stats:
    """``calls`` of the function; ``traces`` (runs of its Python); ``compiles`` of new kernels; ``kernel_hits``
    (recordings whose kernel was there already); ``guard_misses``; ``retraces``: why Python ran, with counts;
    ``live``: why it runs in every call, if it does."""

    name: str
    calls: int = 0
    traces: int = 0
    compiles: int = 0
    kernel_hits: int = 0
    guard_misses: int = 0
    live: str = ""
    retraces: Counter[str] = field(default_factory=Counter)

    def note(self, reason: str) -> None:
        if reason not in self.retraces and len(self.retraces) >= _MAX_REASONS:
            reason = "other reasons"
        self.retraces[reason] += 1

    @property
    def cache_hits(self) -> int:
        """Calls answered without running Python, and recordings whose kernel was found."""
        return self.calls - self.traces + self.kernel_hits

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.calls} calls, {self.traces} traces, {self.compiles} compiles, "
            f"{self.kernel_hits} kernel cache hits, {self.guard_misses} guard misses"
        ]
        lines += [f"  {count} x {reason}" for reason, count in self.retraces.most_common()]
        if self.live:
            lines.append(f"  Python runs in every call: {self.live}")
        return "\n".join(lines)
