"""Compiled methods: a compiled function together with the instance that it was taken from."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from .explain import explain_call
from .stats import Stats

if TYPE_CHECKING:
    from .compiled import CompiledFunction


class BoundFunction:
    """A compiled method of one instance.  argnums do not count ``self``."""

    __slots__ = ("__func__", "__self__")

    def __init__(self, function: CompiledFunction, instance: Any):
        self.__func__ = function
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.__call__`."""
        function = self.__func__
        return function.run(function._bound[0], (self.__self__, *args), kwargs)

    def grad(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.grad`."""
        function = self.__func__
        return function.run(function._bound[1], (self.__self__, *args), kwargs)

    def value_and_grad(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.value_and_grad`."""
        function = self.__func__
        return function.run(function._bound[2], (self.__self__, *args), kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """As :meth:`CompiledFunction.explain`."""
        return explain_call(self.__func__, self.__func__._bound[2].mode, (self.__self__, *args), kwargs)

    @property
    def stats(self) -> Stats:
        return self.__func__.stats

    @property
    def __wrapped__(self) -> types.MethodType:
        return types.MethodType(self.__func__._fn, self.__self__)

    @property
    def __name__(self) -> str:
        return getattr(self.__func__, "__name__", "method")

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return self.__func__.__doc__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundFunction) and self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __repr__(self) -> str:
        return f"<compiled method {self.stats.name} of {self.__self__!r}>"

    def _tracegrad_rebuild(self, method: types.MethodType) -> BoundFunction:
        return BoundFunction(self.__func__._tracegrad_rebuild(method.__func__), method.__self__)


__all__ = ["BoundFunction"]
