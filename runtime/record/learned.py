"""The findings of a function's runs that later runs go by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...tracer.record.retry import Options
from ..state.trust import Trust


@dataclass(slots=True)
class Learned:
    """``trusts``: whether no run has met a matrix that has no inverse, or no factors.  ``rows_apart``: code of
    functions whose batches are run row by row (``transforms/vmap.py``).  ``told``: warnings that have been given."""

    trust: Trust = field(default_factory=Trust)
    trusts: bool = True
    rows_apart: set[Any] = field(default_factory=set)
    told: set[str] = field(default_factory=set)

    def follow(self, options: Options) -> None:
        """Make further runs by what one has learned."""
        self.trusts &= options.trusts
        self.rows_apart |= options.apart
