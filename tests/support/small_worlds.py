"""A small module of state with one function, as plain Python and compiled: results, state, and who shares an object."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
from same_state import difference
from with_source import code_of

from tracegrad import compile_grad

SETUP = """
import types
from collections import deque
import numpy as np
h, h2, log, d = [], [0.5, 1.0], [], dict(a=0.5, b=1.0, c=2.0)
box = types.SimpleNamespace(now=None, array=np.ones(3), last=deque([1.0, 2.0], 4), v=0.5, n=0)
def f(x):
    s, y, z, q, p, n = np.sum(x * x), x * 2, x * 3, [], [], 0
{body}
    return [s, y, z, q, p, n]
"""


def _module(setup: str, body: str) -> dict[str, Any]:
    module = types.ModuleType("made_small")
    source = setup + SETUP.format(body="".join(f"    {line}\n" for line in body.split("\n")))
    exec(code_of(source, "a small world"), vars(module))
    return vars(module)


def as_in_python(body: str, setup: str = "", calls: int = 3) -> None:
    """Fail unless *body*, in a function of ``x``, does in so many *calls* what it does in plain Python."""
    plain, mine = _module(setup, body), _module(setup, body)
    f = compile_grad(mine["f"])
    for k in range(calls):
        x, other = (np.array([0.5, 1.0, 1.5]) + k for _ in range(2))
        states = [
            {**{name: world[name] for name in ("h", "h2", "log", "d", "box")}, "result": function(given), "x": given}
            for world, function, given in ((mine, f, x), (plain, plain["f"], other))
        ]
        found = difference(states[0], states[1])
        assert not found, f"call {k + 1}: {found}"
