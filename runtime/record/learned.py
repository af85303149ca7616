"""The findings of a function's runs that later runs go by."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...tracer.record.recorder_parts import Taught
from ...tracer.record.retry import Options
from ..state.trust import Trust
from .known_programs import KnownPrograms


@dataclass(slots=True)
class Learned:
    """``trusts``: whether no run has met a matrix that has no inverse, or no factors.  ``taught``: by loops, and by
    batches of functions (``transforms/vmap.py``).  ``told``: warnings that have been given.  ``programs``: those of
    live runs."""

    trust: Trust = field(default_factory=Trust)
    trusts: bool = True
    taught: Taught = field(default_factory=Taught)
    told: set[str] = field(default_factory=set)
    programs: KnownPrograms = field(default_factory=KnownPrograms)

    def follow(self, options: Options) -> None:
        """Make further runs by what one has learned."""
        self.trusts &= options.trusts
        self.taught.rows_apart |= options.apart
