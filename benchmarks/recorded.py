"""What a call of a compiled function records: the graph that its kernels are made of, with the arrays to run it on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.runtime.mode import VALUE_AND_GRAD, Mode
from tracegrad.runtime.paths.plan_cache import PlanCache
from tracegrad.runtime.record.call_key import flatten
from tracegrad.runtime.record.record import record
from tracegrad.runtime.record.recording import Recording


def recorded(
    fn: Callable[..., Any], args: tuple[Any, ...], argnums: int | tuple[int, ...] = 0, kind: str = VALUE_AND_GRAD
) -> tuple[Recording, list[np.ndarray]]:
    """(the recording of *kind* of *fn* on *args*, its graph's inputs)."""
    call = flatten(args, {})
    plan = PlanCache(fn).get(call)
    found = record(fn, call, Mode(kind, argnums), plan, plan.snapshot(call.objects))
    given = zip([*call.data, *found.captured], found.graph.inputs, strict=True)
    return found, [np.asarray(x, v.aval.dtype) for x, v in given]
