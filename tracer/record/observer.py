"""The interface between a recording and who looks on at it.

The monitor of long loops (``reroll/loop_monitor.py``) is the one observer there is.  Recording knows this interface
only, so the room ``record`` stands below ``reroll``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..ir.graph import Atom

RunOperation = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
GETITEM = "[]"  # stands for a function where ``x[i]`` is the operation


class Observer(Protocol):
    """Looks on at one recording, and may set these of its recorder: ``look_at``, a number of items; ``follow``, which
    sees to operations in place of the recorder; ``ask``, which has the result of an operation of the user's."""

    def reached(self) -> None:
        """The recording has ``look_at`` items."""

    def postpone(self) -> None:
        """Set a later ``look_at``."""

    def operation(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: RunOperation) -> Any:
        """``run(function, args, kwargs)``, one operation of the user's, while ``follow`` is set."""

    def unfollow(self) -> None:
        """Make nodes of what ``follow`` has seen to, and unset it."""

    def evaluate(self, atom: Atom) -> None:
        """Put into ``env`` what *atom*, or a node that is new, reads of operations that ``follow`` has seen to."""

    def answered(self, atom: Atom, answer: bool) -> None:
        """Control flow has asked for the truth value of *atom*."""


__all__ = ["GETITEM", "Observer", "RunOperation"]
