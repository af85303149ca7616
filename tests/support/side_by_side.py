"""A program with state, given as text, as plain Python and compiled side by side.

    text, live = failure(SOURCE, ["st.clear()"])                 # '' where nothing differs
    text, live = failure(SOURCE, ["st.clear()"], steps=True)     # as a step of tensors

The text binds ``f(x, k)`` and whatever stands around it.  It runs in two modules of their own; both get the same calls
and, between them, the same changes by others.  Values, exceptions, the whole state with who shares what
(``same_state.py``) and what recordings leave (``leftovers.py``) are compared after every call, gradients with central
differences of plain Python, which goes through all calls again.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from leftovers import leftovers
from same_state import difference
from with_source import code_of

import tracegrad
from tracegrad import compile_grad

HEAD = """
import collections, contextlib, contextvars, copy, dataclasses, enum, functools, itertools, math, operator, sys, types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from functools import cached_property, lru_cache, partial, partialmethod
"""
_LIBRARY = set(HEAD.replace(",", " ").split()) | {"np"}
POINTS = ([0.5, 1.0, 1.5], [1.2, 0.3, 0.9], [0.5, 1.0, 1.5], [0.1, 2.0, 0.7], [1.5, 1.1, 0.4], [1.2, 0.3, 0.9])
KS = 1, 2, 1, 3, 2, 1
DIRECTION = np.array([0.6, -0.3, 0.7])


class Side:
    """One of the two modules."""

    def __init__(self, source: str, number: int, steps: bool) -> None:
        self.module = types.ModuleType(f"made_side_{number}")
        sys.modules[self.module.__name__] = self.module
        self.space = vars(self.module)
        library = "tracegrad" if steps else "numpy"
        exec(code_of(f"{HEAD}import {library} as np\n{source}", f"side_by_side_{number}"), self.space)

    def state(self, result: Any = None) -> dict[str, Any]:
        return {**{n: v for n, v in self.space.items() if n not in _LIBRARY}, "result": result}

    def change(self, statement: str | None) -> None:
        if statement:
            exec(statement, self.space)


@contextlib.contextmanager
def _sides(source: str, steps: bool, *numbers: int) -> Iterator[list[Side]]:
    try:
        yield [Side(source, number, steps) for number in numbers]
    finally:
        for number in numbers:
            sys.modules.pop(f"made_side_{number}", None)


def _outcome(run: Any, *args: Any) -> Any:
    try:
        return run(*args)
    except Exception as error:
        return error


def failure(source: str, changes: Sequence[str] = (), steps: bool = False) -> tuple[str, str]:
    """(what differs first, or nothing, why the function is live).  *changes*: before the fourth call, the sixth and
    the last ones."""
    between = dict(zip((3, 5, 4), changes, strict=False))
    with _sides(source, steps, 1, 2) as (plain, mine):
        f: Any = (tracegrad.compile if steps else compile_grad)(mine.space["f"])
        number = tracegrad.tensor if steps else np.array
        for index, (point, k) in enumerate(zip(POINTS, KS, strict=True)):
            for side in (plain, mine):
                side.change(between.get(index))
            want = _outcome(plain.space["f"], number(point), k)
            with_gradient = not steps and index % 3 == 2 and not isinstance(want, Exception)
            got = _outcome(f.value_and_grad if with_gradient else f, number(point), k)
            gradient = None
            if with_gradient and not isinstance(got, Exception):
                got, gradient = got
            if isinstance(want, Exception):
                want, got = ([type(e).__name__, getattr(e, "args", e)] for e in (want, got))
            found = difference(mine.state(got), plain.state(want)) or "".join(leftovers(mine.state(got))[:1])
            if not found and gradient is not None:
                found = _slope(source, between, index, gradient)
            if found:
                return f"call {index + 1}: {found}", str(f.stats.live)
        return "", str(f.stats.live)


def _slope(source: str, between: dict[int, str], last: int, gradient: Any) -> str:
    values = []
    for step in (1e-5, -1e-5):
        with _sides(source, False, 3) as (side,):
            for index in range(last + 1):
                side.change(between.get(index))
                moved = step * DIRECTION if index == last else 0.0
                values.append(_outcome(side.space["f"], np.array(POINTS[index]) + moved, KS[index]))
    near = (values[last] - values[2 * last + 1]) / 2e-5
    found = float(np.asarray(gradient) @ DIRECTION)
    return "" if abs(near - found) < 1e-3 * (1 + abs(near)) else f"the gradient is {found}, and differences {near}"
