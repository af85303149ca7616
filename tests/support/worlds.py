"""Programs in worlds of their own: two modules made from texts, in one of which a function runs in plain Python, in the
other compiled.

Start reading at ``disagreement``: values, gradients (by differences of plain runs), the whole state with the identity
of the objects in it, and that no traced object is left there, call after call.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from with_source import code_of

import tracegrad
from tracegrad import compile_grad

POINTS = [
    np.array(p) for p in ([0.5, 0.25, 1], [0.75, 0.5, 1], [1, 2, 1.5], [0.2, 0.1, 0.4], [2.0, 1, 1], [0.3, 0.6, 0.9])
]
POINTS += [0.8 * p for p in reversed(POINTS)]
MODES = ("value_and_grad", "step")
_count = itertools.count()
_STEP = 1e-6


class World:
    """The modules ``m`` and its user, made from texts; the user's defines ``f(x, ...)``, and may define ``ARGS``, a
    function that makes the other arguments."""

    def __init__(self, source: str, module: str = "") -> None:
        name = f"world_{next(_count)}"
        self.names = name, f"{name}_m"
        self.user, self.m = map(types.ModuleType, self.names)
        sys.modules.update(zip(self.names, (self.user, self.m), strict=True))
        exec(code_of(module, self.names[1]), self.m.__dict__)
        self.user.__dict__["m"] = self.m
        exec(code_of(source.replace("MODULE", self.names[1]), name), self.user.__dict__)
        self.args = getattr(self.user, "ARGS", tuple)()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *given: object) -> None:
        for name in self.names:
            sys.modules.pop(name, None)

    def do(self, change: str | None) -> None:
        if change:
            exec(code_of(change, "a change"), self.user.__dict__)

    def state(self) -> tuple[list[Any], list[str]]:
        """(all that can be reached, with numbers for objects; where traced objects are)."""
        view = _View(self.names)
        spaces = [("args", self.args), *[(n, v) for m in (self.m, self.user) for n, v in list(vars(m).items())]]
        hidden = ("f", "ARGS", "m")
        return [(n, view.of(v, n)) for n, v in spaces if n not in hidden and not n.startswith("__")], view.traced


class _View:
    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._seen, self.traced = names, dict[int, tuple[int, Any]](), list[str]()

    def of(self, value: Any, at: str) -> Any:
        kind = type(value)
        if kind.__module__.startswith("tracegrad") and not hasattr(value, "_tracegrad_rebuild"):
            self.traced.append(f"{at}: {kind.__name__}")
        if isinstance(value, float | np.floating):
            return kind.__name__, f"{float(value):.8g}"
        if isinstance(value, int | str | None):
            return kind.__name__, value
        known = self._seen.setdefault(id(value), (len(self._seen), value))
        if known[0] < len(self._seen) - 1:
            return "the same as", known[0]
        return (kind.__name__, self._parts(value, at))

    def _parts(self, value: Any, at: str) -> Any:
        kind = type(value)
        if isinstance(value, np.ndarray):
            return str(value.dtype), [f"{v:.8g}" for v in value.ravel()]
        if isinstance(value, list | tuple | deque):
            return [self.of(v, f"{at}[{k}]") for k, v in enumerate(value)]
        if isinstance(value, set | frozenset):
            known = all(isinstance(v, int | str | float) for v in value)  # whose order is the same in all worlds
            return [self.of(v, at) for v in value] if known else sorted(type(v).__name__ for v in value)
        if isinstance(value, dict):
            return [(self.of(k, f"a key of {at}"), self.of(v, f"{at}[{k!r}]")) for k, v in value.items()]
        if isinstance(value, types.MethodType):
            return self.of(value.__self__, at)
        if isinstance(value, types.FunctionType):
            if value.__module__ not in self._names:
                return value.__name__
            cells = [self.of(c.cell_contents, f"{at} cell") for c in value.__closure__ or ()]
            return cells, self.of(value.__defaults__, f"{at} default"), self._attributes(vars(value), at)
        if isinstance(value, type):
            return self._attributes(vars(value), at) if value.__module__ in self._names else value.__name__
        if kind.__module__ in self._names or kind is types.SimpleNamespace:
            slots = {n: getattr(value, n) for n in getattr(kind, "__slots__", ()) if hasattr(value, n)}
            return self._attributes({**getattr(value, "__dict__", {}), **slots}, at)
        return None

    def _attributes(self, store: Any, at: str) -> Any:
        plain = {n: v for n, v in dict(store).items() if not n.startswith("__") and n != "__wrapped__"}
        kept = {
            n: v for n, v in plain.items() if not isinstance(v, types.MemberDescriptorType | property | staticmethod)
        }
        return [(n, self.of(v, f"{at}.{n}")) for n, v in kept.items()]


def disagreement(
    source: str, module: str = "", *, mode: str = "value_and_grad", changes: dict[int, str] | None = None,
    calls: int = 6, look: Callable[[Any], None] = lambda compiled: None,
    for_slopes: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> str | None:  # fmt: skip
    """The first difference from plain Python in so many *calls*, before some of which the world *changes*, or None.
    *look*: at the compiled function, in the end; *for_slopes*: a context of the plain runs whose differences the
    gradient is compared with, of which there are many."""
    changes = changes or {}

    def run_plain(last: int, x: np.ndarray) -> float:
        with for_slopes(), World(source, module) as world:
            for k in range(last + 1):
                world.do(changes.get(k))
                value = world.user.f(x if k == last else POINTS[k].copy(), *world.args)
            return float(value)

    with World(source, module) as plain, World(source, module) as ours:
        compiled = (tracegrad.compile if mode == "step" else compile_grad)(ours.user.f)
        for k in range(calls):
            plain.do(changes.get(k))
            ours.do(changes.get(k))
            expected = plain.user.f(POINTS[k].copy(), *plain.args)
            found = getattr(compiled, "__call__" if mode == "step" else mode)(POINTS[k].copy(), *ours.args)
            value, gradient = (found, None) if mode == "step" else found
            if not np.allclose(float(value), expected, rtol=1e-7, atol=1e-9):
                return f"call {k}: {value} in place of {expected}"
            state, traced = ours.state()
            if traced:
                return f"call {k} leaves {traced}"
            other = [(a, b) for a, b in zip(plain.state()[0], state, strict=True) if a != b]
            if other:
                return f"call {k} leaves {other[0][1]} in place of {other[0][0]}"
            if gradient is not None:
                along = np.cos(k + 2.0 * np.arange(len(POINTS[k])))  # each pair of runs begins anew, at call 0
                ahead, behind = (run_plain(k, POINTS[k] + side * along) for side in (_STEP, -_STEP))
                slope = (ahead - behind) / (2 * _STEP)
                if not abs(gradient @ along - slope) <= 1e-4 * (1 + np.abs(gradient) @ np.abs(along)):
                    return f"call {k}: gradient {gradient}, along {along} {gradient @ along} in place of {slope}"
        look(compiled)
    return None
