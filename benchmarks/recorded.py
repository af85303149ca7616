"""What a call of a compiled function records: the graph that its kernels are made of, with the arrays to run it on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.runtime.logged.record import Logged
from tracegrad.runtime.mode import VALUE_AND_GRAD, Mode
from tracegrad.runtime.record.call_key import flatten
from tracegrad.runtime.record.learned import Learned
from tracegrad.runtime.record.recording import Recording


def recorded(
    fn: Callable[..., Any], args: tuple[Any, ...], argnums: int | tuple[int, ...] = 0, kind: str = VALUE_AND_GRAD
) -> tuple[Recording, list[np.ndarray]]:
    """(the recording of *kind* of *fn* on *args*, its graph's inputs)."""
    call = flatten(args, {})
    found = Logged(fn).record(call, Mode(kind, argnums), Learned()).recording
    given = zip([*call.data, *found.captured], found.graph.inputs, strict=True)
    return found, [np.asarray(x, v.aval.dtype) for x, v in given]
