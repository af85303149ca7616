"""Builtins that go over values, as Python: their copies' loops run over symbols, as the user's do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...tracer.ir.site import FOR_THE_USER


def added(one: Any, other: Any) -> Any:
    """``operator.add``."""
    return one + other


def reduced(step: Callable[[Any, Any], Any], values: Iterable[Any], result: Any) -> Any:
    """``functools.reduce``; with ``added``, ``sum``."""
    for value in values:
        result = step(result, value)
    return result


def each_folded(
    step: Callable[[Any, Any], Any], result: Any, function: Callable[[Any], Any], values: Iterable[Any]
) -> Any:
    """``reduce(step, map(function, values), result)``."""
    for value in values:
        result = step(result, function(value))
    return result


def together_folded(
    step: Callable[[Any, Any], Any], result: Any, function: Callable[..., Any], *values: Iterable[Any]
) -> Any:
    """The same, of several iterables."""
    for together in zip(*values, strict=False):
        result = step(result, function(*together))
    return result


def each(function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """``list(map(...))``."""
    return [function(value) for value in values]


def each_together(function: Callable[..., Any], *values: Iterable[Any]) -> list[Any]:
    """``list(map(...))`` of several iterables."""
    return [function(*together) for together in zip(*values, strict=False)]


class Callback:
    """A *function* that C calls, as *run* calls it."""

    __slots__ = ("function", "run")

    def __init__(self, run: Any, function: Callable[..., Any]) -> None:
        self.run, self.function = run, function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.run.call(self.function, *args, **kwargs)


FOR_THE_USER.add(__file__)
