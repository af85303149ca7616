"""Function transforms ``grad(f)`` and ``value_and_grad(f)``."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, Generic, Never

from ...tracer.ir.errors import need_function
from ...tracer.ir.tracebacks import for_users, shorten
from ..compiled import BoundFunction, CompiledFunction, explained
from ..declare import positions, refuse_arguments, shifted_positions
from ..memo import OWNERS, kept
from ..mode import GRAD, VALUE, VALUE_AND_GRAD, Mode
from ..stats import Stats
from ..stored.first_call import First
from ..wrapper import P, R, Wrapper


def _compiled_form(fn: Callable[..., Any]) -> CompiledFunction:
    """The compiled form of *fn*, made once: the gradients of one function share kernels and recordings."""
    if isinstance(fn, CompiledFunction):
        return fn
    return kept(fn, VALUE, lambda: CompiledFunction(fn, target="auto"))


class Derivative(Wrapper, Generic[P, R]):
    """A gradient as a function.  Applies to itself: ``grad(grad(f))``."""

    def __init__(
        self, fn: Callable[..., Any], kind: str, argnums: int | Sequence[int], has_aux: bool, holomorphic: bool = False
    ):
        with for_users:
            need_function(kind, fn)
        inner = fn
        self._kind, self._argnums, self._has_aux, self._holomorphic = kind, positions(argnums), has_aux, holomorphic
        self._first: tuple[Any, ...] = ()
        if isinstance(fn, BoundFunction | types.MethodType):
            self._first = (fn.__self__,)
            inner = fn.__func__
        self._function = _compiled_form(inner)
        self._endpoint = self._function.endpoint(
            Mode(kind, shifted_positions(self._argnums, len(self._first)), has_aux, holomorphic)
        )
        functools.update_wrapper(self, self._function._fn, updated=())
        self.__wrapped__ = fn if self._first else self._function

    @property
    def stats(self) -> Stats:
        return self._function.stats

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        endpoint = self._endpoint
        if type(endpoint) is First:  # until there is a dispatcher
            endpoint = self._endpoint = self._function.endpoint(endpoint.mode)
        try:
            return self._function.run(endpoint, self._first + args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """As :meth:`CompiledFunction.explain`, for this derivative."""
        return explained(self._function, self._endpoint.mode, self._first + args, kwargs)

    def __repr__(self) -> str:
        return f"<{self._kind} of {self._function.stats.name}>"

    def _repr_html_(self) -> str:
        return self._function._repr_html_()

    def _tracegrad_settings(self) -> tuple[Any, ...]:
        return self._kind, self._argnums, self._has_aux, self._holomorphic


OWNERS.append(Derivative)


def _derivative(fn: Callable[P, Any], *settings: Any) -> Derivative[P, Any]:
    return kept(fn, settings, lambda: Derivative(fn, *settings))


def grad(
    fn: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Derivative[P, Any]:
    """The gradient of *fn*, which returns a real scalar, as a function; with *holomorphic* the derivative of one that
    takes and returns complex numbers.  A function decorated with ``compile_grad`` shares its kernels."""
    return _derivative(fn, GRAD, positions(argnums), has_aux, holomorphic)


def value_and_grad(
    fn: Callable[P, R], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
    **unknown: Never,
) -> Derivative[P, tuple[R, Any]]:  # fmt: skip
    """``(value, gradient)`` of *fn* in one kernel; *holomorphic* as in :func:`grad`.

        value, (of_w, of_b) = value_and_grad(loss, argnums=(0, 1))(w, b, x)
        (value, aux), gradient = value_and_grad(lambda w: (loss(w), w @ x), has_aux=True)(w)

    :raises DifferentiationError: where an argument is no float, or the result is no scalar.
    """
    if unknown:
        with for_users:
            refuse_arguments("value_and_grad", unknown, fn)
    return _derivative(fn, VALUE_AND_GRAD, positions(argnums), has_aux, holomorphic)
