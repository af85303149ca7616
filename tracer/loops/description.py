"""Facts that are known of a loop statement before it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class LoopStatement:
    """A loop statement.  ``assigned``: local names that it may assign; ``carried``: those of them that an iteration may
    read before it assigns them.  ``stored``: names whose items the body assigns."""

    assigned: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    line: int = 0
    end_line: int = 0
    target_names: tuple[str, ...] = ()
    has_break: bool = False
    has_return: bool = False
    has_yield: bool = False
    stored: tuple[str, ...] = ()
