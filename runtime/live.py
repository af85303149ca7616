"""Kinds of call whose Python runs each time: why, and how the programs that it records are run.

As long as the programs are few, each is one kernel.  A kind of call that has shown more than ``max_paths`` programs,
because it goes another way through its branches again and again, is run in segments from then on.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from .config import config
from .recording import Pieces
from .segments import Segments

_ADVICE = "choose with np.where(condition, a, b) there, or compute in a loop that stays one (tracegrad.scan)"


@dataclass(eq=False, slots=True)
class Live:
    why: str
    programs: int = 0  # kernels compiled for whole programs
    segments: Segments | None = None

    def compiled(self) -> None:
        """One more program needed a kernel of its own."""
        self.programs += 1
        if too_many_programs(self.programs) and self.segments is None:
            self.segments = Segments()

    def describe(self) -> str:
        """How a call runs, in one line."""
        how = "reuses the kernel" if self.segments is None else "reuses the kernels of its segments"
        return f"a call like this runs Python each time and {how}: {self.why}"


def too_many_programs(count: int) -> bool:
    """Is it time to stop compiling each of *count* programs as a whole?  A heuristic: either way is right."""
    return count > config.max_paths


def branch_outcomes(site: Any) -> str:
    """Why a kind of call with too many paths goes live."""
    return f"more than {config.max_paths} branch outcomes, the last at {site}"


def tell(name: str, pieces: Pieces, segments: Segments) -> None:
    """Warn, at the line of the last branch that takes the program apart."""
    guard = segments.answers.last(pieces.guards)
    if guard is not None and guard.site is not None:
        message = (
            f"{name} has taken more than {config.max_paths} ways through its branches, the last at {guard.site}: "
            f"Python now runs in each call, and what lies between the branches is compiled; {_ADVICE}"
        )
        warnings.warn_explicit(message, UserWarning, guard.site.file, guard.site.line)


__all__ = ["Live", "branch_outcomes", "tell", "too_many_programs"]
