"""Interface of observers of a recording.

The monitor of loops (``reroll/loop_monitor.py``) is the one implementation.  Recording knows this interface only, so
the room ``record`` stands below ``reroll``.
"""

from __future__ import annotations

from typing import Protocol

from ..ir.graph import Atom


class Observer(Protocol):
    """Observer of one recording."""

    def forget(self, start: int) -> None:
        """Forget what was asked from item *start* of the recording on."""

    def answered(self, atom: Atom, answer: bool) -> None:
        """Control flow has asked for the truth value of *atom*."""
