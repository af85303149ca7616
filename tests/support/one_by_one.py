"""``functools.reduce`` without a loop: what it records is one operation after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def reduced(step: Callable[[Any, Any], Any], values: Sequence[Any], start: Any) -> Any:
    """``reduce(step, values, start)``, by halves."""
    if len(values) < 2:
        return step(start, values[0]) if len(values) else start
    half = len(values) // 2
    return reduced(step, values[half:], reduced(step, values[:half], start))
