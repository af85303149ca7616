"""The analysis of a function's outside state, made at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracegrad.runtime.state.state_plan import StatePlan


def analyse(fn: Callable[..., Any], objects: tuple[Any, ...] = ()) -> StatePlan:
    """The plan of a callable, whose state has been walked once."""
    plan = StatePlan(fn)
    plan.snapshot(objects)
    return plan
