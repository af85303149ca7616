"""The analyses of one function's outside state, by the classes of the objects among its arguments."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from ...tracer.ir.gc_pause import fewer_collections
from ..config import config
from ..recent import Recent
from ..record.call_key import OBJECT, Call
from ..record.differentiable import leaf_names
from ..record.trees import classes_in
from ..state.state_plan import Snapshot, StatePlan


class PlanCache:
    """Bounded by ``config.max_plans``."""

    def __init__(self, fn: Callable[..., Any], holders: bool = False) -> None:
        self._fn, self._holders = fn, holders
        self._plans: Recent[Any, StatePlan] = Recent(lambda: config.max_plans)

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, call: Call) -> StatePlan:
        """The analysis of the function for objects of these classes."""
        return self._get(call)[0]

    def state(
        self, call: Call, known: Snapshot | None = None, arrays: Sequence[Any] = ()
    ) -> tuple[StatePlan, Snapshot]:
        """The same, and the outside state as it is now: that of a *known* snapshot with these *arrays*."""
        plan, snapshot = self._get(call)
        if snapshot is None:
            snapshot = plan.snapshot(call.objects) if known is None else plan.again(known, arrays, call.objects)
        return plan, snapshot

    def _get(self, call: Call) -> tuple[StatePlan, Snapshot | None]:
        """(the analysis, the state if it has just been walked)."""
        objects = call.objects
        classes = classes_in(call.tree)
        key = tuple([o if isinstance(o, types.FunctionType | type) else type(o) for o in objects]), classes
        plan = self._plans.find(key)
        if plan is not None:
            return plan, None
        names = leaf_names(self._fn, call) if objects else []
        labels = tuple([n for n, k in zip(names, call.kinds, strict=False) if k == OBJECT])
        with fewer_collections():
            plan = StatePlan(self._fn, labels, True, classes, self._holders)
            snapshot = plan.snapshot(objects)
        return self._plans.keep(key, plan), snapshot
