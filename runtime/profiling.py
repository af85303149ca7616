"""``with tracegrad.profile() as p:`` counts and times calls, recordings, compilations, kernels and guards that failed,
by the user's line.

Where nothing is profiled no call does anything for its sake.  A profile that begins or ends drops all slots
(``paths/entry.py``); those that are made anew while there is one time themselves and their launches.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from ..tracer.ir.gc_pause import imported_to_stay
from ..tracer.ir.site import Site, user_site
from ..tracer.ir.working import DONE, Working
from .mode import MISS
from .stats import FROM_DISK, NOTED

T = TypeVar("T")

PROFILES: list[Profile] = []  # those that are being made
#: Told when the first profile begins and when the last one ends.
CHANGED: list[Callable[[], None]] = []
_lock = threading.Lock()
_clock = time.monotonic


class TimedSpan(NamedTuple):
    """A stretch of time in a thread: *kind* is call, kernel, recording or compiling, or the name of a phase."""

    kind: str
    name: str
    begun: float
    seconds: float
    thread: int
    site: Site | None


@dataclass(slots=True)
class Line:
    """Counts and seconds of the calls of one function at one line of the user's."""

    function: str
    site: Site | None
    calls: int = 0
    call_seconds: float = 0.0
    kernels: int = 0
    kernel_seconds: float = 0.0
    recordings: int = 0
    recording_seconds: float = 0.0
    compiles: int = 0
    compile_seconds: float = 0.0
    from_disk: int = 0
    guard_misses: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def where(self) -> str:
        return f"{os.path.basename(self.site.file)}:{self.site.line}" if self.site else "?"


class Profile:
    """Counts and times of what runs in a ``with`` block, in all threads.  ``lines`` has them by line and function,
    ``events`` each stretch of time, of which *max_events* are kept."""

    def __init__(self, max_events: int = 200_000) -> None:
        self.lines: dict[tuple[str, Site | None], Line] = {}
        self._events: list[tuple[Any, ...]] = []
        self.dropped = 0
        self.seconds = 0.0
        self._most, self._begun = max_events, 0.0

    def __enter__(self) -> Profile:
        with _lock:
            self._begun = _clock()
            PROFILES.append(self)
            first = len(PROFILES) == 1
            if first:
                NOTED.append(_noted)
                DONE.append(_done)
                FROM_DISK.append(_from_disk)
        if first:
            _tell_changed()
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            self.seconds += _clock() - self._begun
            PROFILES.remove(self)
            last = not PROFILES
            if last:
                NOTED.remove(_noted)
                DONE.remove(_done)
                FROM_DISK.remove(_from_disk)
        if last:
            _tell_changed()

    def line(self, function: str, site: Site | None) -> Line:
        """The line of a function's calls at *site*."""
        found = self.lines.get((function, site))
        if found is None:
            found = self.lines[function, site] = Line(function, site)
        return found

    def add(self, event: tuple[Any, ...]) -> None:
        """Keep the fields of an event, if there is room."""
        if len(self._events) < self._most:
            self._events.append(event)
        else:
            self.dropped += 1

    @property
    def events(self) -> list[TimedSpan]:
        """Stretches of time, in the order in which they ended."""
        return [TimedSpan(*event) for event in self._events]

    def __str__(self) -> str:
        rows = [_HEADS, *map(_row, sorted(self.lines.values(), key=lambda found: -found.call_seconds))]
        widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADS))]
        lines = ["  ".join([*map(str.ljust, row[:2], widths), *map(str.rjust, row[2:], widths[2:])]) for row in rows]
        for found in self.lines.values():
            lines += [f"{found.where} {found.function}: {n} x {why}" for why, n in found.reasons.most_common()]
        if self.dropped:
            lines.append(
                f"{self.dropped:,} events were not kept (max_events={self._most:,}); the table has all of them"
            )
        return "\n".join([f"{self.seconds:.3f} s profiled", *map(str.rstrip, lines)])

    __repr__ = __str__

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in the JSON format of Chrome's traces, which chrome://tracing and ui.perfetto.dev show."""
        imported_to_stay(".chrome_trace", __package__).write(path, self.events, self._begun, self.dropped)


def profile(*, max_events: int = 200_000) -> Profile:
    """A context in which calls of compiled functions and steps are counted and timed: ``with profile() as p:``.

    ``print(p)`` is a table by line of the user's; ``p.chrome_trace(path)`` writes a trace.  A call that replays takes
    about four microseconds longer meanwhile, which are in none of the times; and none where nothing is profiled.

    :param max_events: stretches of time kept for the trace; the table counts all.
    """
    return Profile(max_events)


_HEADS = (
    "line", "function", "calls", "total ms", "mean us", "kernels", "kernel ms", "recorded", "ms", "compiled", "ms",
    "guard misses", "from disk",
)  # fmt: skip


def _row(found: Line) -> tuple[str, ...]:
    mean = 1e6 * found.call_seconds / max(found.calls, 1)
    return (
        found.where, found.function, f"{found.calls:,}", f"{1e3 * found.call_seconds:.2f}", f"{mean:.1f}",
        f"{found.kernels:,}", f"{1e3 * found.kernel_seconds:.2f}", str(found.recordings),
        f"{1e3 * found.recording_seconds:.1f}", str(found.compiles), f"{1e3 * found.compile_seconds:.1f}",
        str(found.guard_misses), str(found.from_disk),
    )  # fmt: skip


# ---- what is told ------------------------------------------------------------------------------------------------


class _Call:
    """A call that is being timed, and the launches in it."""

    __slots__ = ("kernels", "name", "seconds", "site")

    def __init__(self, name: str, site: Site | None) -> None:
        self.name, self.site = name, site
        self.kernels: list[tuple[float, float]] = []


_current: ContextVar[_Call | None] = ContextVar("profiled call", default=None)  # other threads compile for it, too


def timed_call(name: str, call: Callable[..., T], *args: Any) -> T:
    """``call(*args)``, timed as a call of the function *name*, or as a part of the one that this is in; what is no
    answer counts for nothing."""
    outer = _current.get()
    if outer is not None:
        return call(*args)
    mine = _Call(name, user_site())
    begun = _clock()
    try:
        _current.set(mine)
        found = call(*args)
        seconds = _clock() - begun
    finally:
        _current.set(None)
    if found is MISS:
        return found
    thread = threading.get_ident()
    with _lock:
        for profile in PROFILES:
            line = profile.line(name, mine.site)
            line.calls += 1
            line.call_seconds += seconds
            profile.add(("call", name, begun, seconds, thread, mine.site))
            for at, length in mine.kernels:
                line.kernels += 1
                line.kernel_seconds += length
                profile.add(("kernel", f"kernel of {name}", at, length, thread, mine.site))
    return found


def timed_slot(slot: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A slot that times itself, where something is profiled."""
    return partial(timed_call, name, slot) if PROFILES else slot


def timed_launch(launch: Callable[..., Any]) -> Callable[..., Any]:
    """A launch that times itself, where something is profiled."""
    return partial(_launched, launch) if PROFILES else launch


def _launched(launch: Callable[..., Any], *values: Any) -> Any:
    begun = _clock()
    found = launch(*values)
    seconds = _clock() - begun
    call = _current.get()
    if call is not None:
        call.kernels.append((begun, seconds))
    return found


def timed_miss(family: Any, name: str, describe: Callable[[Any], str]) -> Callable[[int, int], None]:
    """The function by which a slot of *family* notes that a guard failed: one that counts, where something is
    profiled."""
    if not PROFILES:
        return family.miss

    def miss(call: int, number: int) -> None:
        family.miss(call, number)
        missed(name, describe(family.failed(number)))

    return miss


def _where(name: str) -> tuple[str, Site | None]:
    call = _current.get()
    return (name, user_site()) if call is None else (call.name, call.site)


def missed(name: str, guard: str) -> None:
    """Count a guard that failed."""
    with _lock:
        for profile in PROFILES:
            line = profile.line(*_where(name))
            line.guard_misses += 1
            line.reasons[f"a guard failed: {guard}"] += 1


def _noted(name: str, reason: str) -> None:
    with _lock:
        for profile in PROFILES:
            profile.line(*_where(name)).reasons[f"recorded: {reason}"] += 1


def _from_disk(name: str, seconds: float) -> None:
    site = user_site()
    with _lock:
        for profile in PROFILES:
            line = profile.line(name, site)
            line.calls += 1
            line.call_seconds += seconds
            line.from_disk += 1
            profile.add(("call", name, _clock() - seconds, seconds, threading.get_ident(), site))


def _done(work: Working) -> None:
    seconds = _clock() - work.begun
    first = work.text.partition(" ")[0]
    kind = first if first in ("recording", "compiling") else "phase"
    name, site = _where(work.root.text.rpartition(" ")[2])
    with _lock:
        for profile in PROFILES:
            line = profile.line(name, site)
            if first == "recording":
                line.recordings += 1
                line.recording_seconds += seconds
            elif work.text == "machine code":
                line.compiles += 1
            elif work.text == "compiling":  # of a kernel that was not in memory
                line.compile_seconds += seconds
            profile.add((kind, work.text, work.begun, seconds, threading.get_ident(), site))


def _tell_changed() -> None:
    for tell in CHANGED:
        tell()
