"""Programs of one kind, given as a world, a body and changes between the calls: their runs are closed, and they are as
plain Python, call after call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from worlds import disagreement

HEAD = """
import collections, contextlib, dataclasses, enum, functools, types, warnings
import numpy as np
import tracegrad as tg
from tracegrad import autograd
"""


def check(world: str, body: str, changes: Sequence[str], calls: int = 6, most: int = 0, **settings: Any) -> None:
    """Compare ``f(x)`` of this *body*, which computes ``s``, with plain Python; *changes*: one after every second call.
    *most*: traces, of all modes together; *settings*: further ones of ``disagreement``."""

    def closed(compiled):
        logged, stats = compiled._dispatcher.logged, compiled.stats
        assert not logged.refused and not stats.live, [*map(str, logged.refused.values())]
        assert not most or stats.traces <= most, stats
        kept = [v for e in compiled._dispatcher.endpoints.values() for known in e.variants.values() for v in known]
        assert all(v.reads is not None for v in kept), logged.ended

    text = "".join(f"    {line}\n" for line in ["s = np.sum(x)", *body.split("\n"), "return s"])
    source = f"{HEAD}{world}\ndef f(x):\n{text}"
    found = disagreement(
        source, calls=calls, changes={2 * k + 2: change for k, change in enumerate(changes)}, look=closed,
        **settings,
    )  # fmt: skip
    assert found is None, found
