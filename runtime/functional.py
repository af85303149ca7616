"""Gradients as functions of functions: ``grad(f)``, ``value_and_grad(f)``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .compiled import BoundFunction, CompiledFunction
from .recording import GRAD, VALUE_AND_GRAD, Mode


def _compiled_form(fn: Callable[..., Any]) -> CompiledFunction:
    """The compiled form of *fn*, made once: the gradients of one function share kernels and recordings."""
    if isinstance(fn, CompiledFunction):
        return fn
    # kept on the function itself: it lives exactly as long
    namespace = getattr(fn, "__dict__", None)
    if not isinstance(namespace, dict):
        return CompiledFunction(fn)
    found = namespace.get("__tracegrad__")
    if found is None or found.__wrapped__ is not fn:
        found = CompiledFunction(fn)
        namespace["__tracegrad__"] = found
    return found


class Derivative:
    """A gradient as a function.  Applies to itself: ``grad(grad(f))``."""

    def __init__(self, fn: Callable[..., Any], kind: str, argnums: int | tuple[int, ...], has_aux: bool):
        offset = 0
        if isinstance(fn, BoundFunction):
            self._first: tuple[Any, ...] = (fn.__self__,)
            fn, offset = fn.__func__, 1
        else:
            self._first = ()
        self._function = _compiled_form(fn)
        shifted = argnums + offset if isinstance(argnums, int) else tuple(a + offset for a in argnums)
        self._mode = Mode(kind, shifted, has_aux)
        functools.update_wrapper(self, self._function.__wrapped__, updated=())
        self.__wrapped__ = self._function

    @property
    def stats(self) -> Any:
        return self._function.stats

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function.run(self._mode, (*self._first, *args) if self._first else args, kwargs)

    def _tracegrad_rebuild(self, fn: Callable[..., Any]) -> Derivative:
        rebuilt = Derivative(fn, self._mode.kind, self._mode.argnums, self._mode.has_aux)
        rebuilt._first = self._first
        return rebuilt


def grad(fn: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Derivative:
    """The gradient of *fn*, a function that returns a scalar, with respect to *argnums*.

    *fn* may be decorated with ``compile_grad`` or not; a decorated one shares its kernels.
    """
    return Derivative(fn, GRAD, argnums, has_aux)


def value_and_grad(fn: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Derivative:
    """``(value, gradient)`` of *fn* in one kernel."""
    return Derivative(fn, VALUE_AND_GRAD, argnums, has_aux)
