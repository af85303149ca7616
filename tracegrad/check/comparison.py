"""An example call as NumPy makes it and as compiled functions make it: values, gradients and times of both."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..runtime.compiled import CompiledFunction
from ..runtime.mode import VALUE_AND_GRAD, Mode
from ..runtime.record.call_key import Call
from ..runtime.record.differentiable import differentiated, leaf_names
from ..runtime.report.look import Looked, look
from ..tracer.ir.errors import DifferentiationError
from ..tracer.ir.trees import tree_leaves
from .differences import Kink, direction, kinks, slope
from .example import Example

_SETTLED = 8  # calls, at most, until a function is replayed
_PATIENCE = 10.0  # seconds of finite differences
_BATCH = 0.05  # seconds over which calls are timed
_NAMED = 8  # arguments


class Comparison:
    """*result*: that of plain Python.  Gradients are taken in all arguments of floats; of the sum of all floats of the
    result, where that is no scalar."""

    def __init__(self, example: Example) -> None:
        fn: Any = example.fn
        static, self._aux = (), False
        if isinstance(fn, CompiledFunction):
            fn, static, self._aux = fn.__wrapped__, fn._names, fn._has_aux
        self.fn, self.args, self.kwargs = fn, example.args, example.kwargs
        with contextlib.suppress(TypeError, ValueError):
            bound = inspect.signature(fn).bind(*self.args, **self.kwargs)
            self.args, self.kwargs = bound.args, bound.kwargs
        self._compile = partial(CompiledFunction, has_aux=self._aux, static_argnames=static)
        self._first_argument = int(example.owned)

    def plain(self) -> Any:
        return self.fn(*self.args, **self.kwargs)

    def prepare(self, result: Any) -> None:
        """Choose what is differentiated."""
        flatten = self._compile(self.fn)._dispatcher.flatten
        self._call = flatten(self.args, self.kwargs)
        places = range(len(self.args))
        able = [k for k in places if k >= self._first_argument and self._is_differentiable(self._call, k)]
        if not able:  # objects, by their own floats
            calls = [(k, flatten(self.args, self.kwargs, Mode(VALUE_AND_GRAD, (k,), self._aux))) for k in places]
            able = [k for k, call in calls if self._is_differentiable(call, k)]
            self._call = flatten(self.args, self.kwargs, Mode(VALUE_AND_GRAD, tuple(able), self._aux))
        self._leaf_names = leaf_names(self.fn, self._call)
        self._mode = Mode(VALUE_AND_GRAD, tuple(able), self._aux)
        self.compiled = self._loss = self._compile(self.fn, tuple(able))
        self._differentiates = bool(able and floats(result))
        self._note = ""
        if not able:
            self._note = "no gradient: no argument is made of floats"
        elif not floats(result):
            self._note = "no gradient: the result has no floats"
        elif not self._aux and not (len(floats([result])) == 1 and np.shape(result) == ()):
            self._loss = CompiledFunction(
                _sum_of(self.fn), tuple(able), static_argnames=self._compile.keywords["static_argnames"]
            )
            self._note = "the result is no scalar: the gradient is that of its sum"

    def _is_differentiable(self, call: Call, position: int) -> bool:
        try:
            return bool(differentiated(call, Mode(VALUE_AND_GRAD, (position,)), leaf_names(self.fn, call)))
        except DifferentiationError:
            return False

    def run(self) -> tuple[Any, Any, float]:
        """(value, gradients or None, seconds of the first call), where it can be from calls that run no Python."""
        value, gradients, traces = None, None, -1
        start = time.perf_counter()
        for turn in range(_SETTLED):
            if self._differentiates:
                value, gradients = self._loss.value_and_grad(*self.args, **self.kwargs)
            if not self._differentiates or self._loss is not self.compiled:
                value = self.compiled(*self.args, **self.kwargs)
            if not turn:
                first = time.perf_counter() - start
            if traces == self._loss.stats.traces + self.compiled.stats.traces:
                break
            traces = self._loss.stats.traces + self.compiled.stats.traces
        return value, gradients, first

    def look(self) -> Looked:
        whole = self._differentiates and self._loss is self.compiled
        mode = (self.compiled._both if whole else self.compiled._value).mode
        return look(self.compiled._dispatcher, mode, self.args, self.kwargs)

    # ---- gradients -----------------------------------------------------------------------------------------------

    def slopes(self, gradients: Any) -> Iterator[tuple[str, bool]]:
        """(a line, whether it is good news): each argument's gradient along one random direction."""
        if self._note:
            yield self._note, True
        if gradients is None:
            return
        rng, began, agreed = np.random.default_rng(0), time.perf_counter(), {}
        places = differentiated(self._call, self._mode, self._leaf_names)
        for done, (place, gradient) in enumerate(zip(places, tree_leaves(gradients), strict=True)):
            if time.perf_counter() - began > _PATIENCE:
                yield f"the gradients of {len(places) - done} more arguments are not compared: a call takes long", True
                break
            name, leaf = self._leaf_names[place], self._call.leaves[place]
            x = np.array(leaf, np.result_type(leaf, np.float64))
            along = direction(x.real, rng)
            if x.dtype.kind == "c":  # the real part of the product is the derivative, by the convention of gradients
                along = along + 1j * direction(x.imag, rng)
            found = slope(partial(self._loss_at, place, x, along), float(np.sum(gradient * along).real))
            if found.agrees:
                agreed[name] = found.deviation if abs(found.gradient) > found.rounding else 0.0
            elif found.settled:
                bent = kinks(partial(self._loss_beside, place, x), gradient, along)
                given = f"{found.differences:.10g}, give or take {found.spread:.1g}, by finite differences"
                if bent:
                    yield _told_kink(name, bent), True
                    continue
                yield f"WRONG GRADIENT of {name}? along a random direction {found.gradient:.10g}; {given}", False
            else:
                yield f"the gradient of {name} can't be compared: finite differences do not settle (a kink?)", True
        if agreed:
            rest = f" and {len(agreed) - _NAMED} more" if len(agreed) > _NAMED else ""
            names = ", ".join(list(agreed)[:_NAMED]) + rest
            yield f"the gradient of {names} agrees with finite differences to {max(*agreed.values(), 1e-16):.0e}", True

    def _loss_beside(self, place: int, start: np.ndarray, offset: np.ndarray) -> float:
        return self._loss_at(place, start, offset, 1.0)

    def _loss_at(self, place: int, start: np.ndarray, along: np.ndarray, t: float) -> float:
        """The loss where one leaf of the call has gone from *start* by *t* in a direction; NaN where that raises."""
        leaves = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in self._call.leaves]
        moved = start + t * along
        leaves[place] = moved if isinstance(leaves[place], np.ndarray) else type(leaves[place])(moved)
        args, kwargs = self._call.rebuild(leaves)
        try:
            result = self.fn(*args, **kwargs)
        except Exception:
            return float("nan")
        return float(sum(np.sum(x, dtype=np.float64) for x in floats(result[0] if self._aux else result)))

    # ---- times ---------------------------------------------------------------------------------------------------

    def times(self) -> dict[str, float]:
        """Seconds of NumPy's call, of the value, and of value and gradient."""
        found = {"NumPy": seconds(self.plain), "value": seconds(partial(self.compiled, *self.args, **self.kwargs))}
        if self._differentiates:
            found["value and gradient"] = seconds(partial(self._loss.value_and_grad, *self.args, **self.kwargs))
        return found


def _told_kink(name: str, found: list[Kink]) -> str:
    """A line about the kinks at the example's own argument."""
    first, more = found[0], f" and {len(found) - 1} more" if len(found) > 1 else ""
    at = name if not first.element else f"{name}[{', '.join(map(str, first.element))}]"
    return (
        f"the gradient of {name} can't be compared: a kink at {at}{more}, where the slope along a random direction is "
        f"{first.left:.4g} on one side and {first.right:.4g} on the other"
    )


def _sum_of(fn: Callable[..., Any]) -> Callable[..., Any]:
    def total(*args: Any, **kwargs: Any) -> Any:
        return sum([np.sum(x) for x in floats(fn(*args, **kwargs))])

    return total


def floats(result: Any) -> list[Any]:
    """The floats and arrays of floats in a result."""
    kinds = [(x, getattr(getattr(x, "dtype", None), "kind", "")) for x in tree_leaves(result)]
    return [x for x, kind in kinds if kind == "f" or isinstance(x, float)]


def same(expected: Any, found: Any) -> bool:
    """Whether all numbers in two results are the same, up to rounding."""
    a, b = tree_leaves(expected), tree_leaves(found)
    return len(a) == len(b) and all(map(_close, a, b))


def _close(a: Any, b: Any) -> bool:
    if not isinstance(a, (int, float, complex, np.generic, np.ndarray)):
        return True
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "fc" or a.shape != b.shape:
        return bool(np.array_equal(a, b))
    tolerance = 1e-9 if a.dtype.itemsize >= 8 else 1e-4
    scale = np.max(np.abs(a[np.isfinite(a)]), initial=0.0)
    return bool(np.allclose(a, b, rtol=tolerance, atol=1e-3 * tolerance * scale, equal_nan=True))


def seconds(run: Callable[[], Any]) -> float:
    """The least of a few batches of calls."""
    run()
    start = time.perf_counter()
    run()
    best = time.perf_counter() - start
    for _ in range(3 if best < _BATCH else 0):
        count = max(1, int(_BATCH / max(best, 1e-7)))
        start = time.perf_counter()
        for _ in range(count):
            run()
        best = min(best, (time.perf_counter() - start) / count)
    return best
