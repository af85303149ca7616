"""Interface of observers of a recording.

The monitor of long loops (``reroll/loop_monitor.py``) is the one implementation.  Recording knows this interface only,
so the room ``record`` stands below ``reroll``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..ir.graph import Atom

RunOperation = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
GETITEM = "[]"  # stands for a function where ``x[i]`` is the operation


class Observer(Protocol):
    """Observer of one recording.  It may set these of the recorder: ``look_at``, the number of items at which to call
    ``reached``; ``follow``, which handles primitives in place of the recorder; ``ask``, which may have the result of
    an operation of the user's."""

    def reached(self) -> None:
        """The recording has ``look_at`` items."""

    def postpone(self) -> None:
        """Set a later ``look_at``."""

    def operation(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: RunOperation) -> Any:
        """``run(function, args, kwargs)``, one operation of the user's, while ``follow`` is set."""

    def unfollow(self) -> None:
        """Emit the operations that ``follow`` has handled as nodes, and unset it."""

    def evaluate(self, atom: Atom) -> None:
        """Put into ``env`` the values of ``follow``'s operations that *atom*, or a new node, reads."""

    def forget(self, start: int) -> None:
        """Forget what was asked from item *start* of the recording on."""

    def answered(self, atom: Atom, answer: bool) -> None:
        """Control flow has asked for the truth value of *atom*."""
