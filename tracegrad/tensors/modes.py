"""The modes of this thread: recording gradients or not, inference, anomaly detection, a capture.

``STATE`` is the one data structure.  ``no_grad`` and its relatives are context managers, decorators (of generators
too: the mode then holds while the generator runs, not while it waits) and, where PyTorch has it so, plain calls.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any


class _State(threading.local):
    grad = True  # operations on tensors that require gradients are recorded
    inference = False  # results can never be recorded
    anomaly = False  # each node remembers the user's line, and backward looks for NaN
    check_nan = True
    capture: Any = None  # the capture in progress (``capture.py``): arrays are traced, not computed


STATE = _State()


class _Mode:
    """A change of ``STATE`` that is undone on leaving; instances may be entered again and nested."""

    _state: Any = STATE  # whose attributes it changes
    _names: tuple[str, ...] = ("grad",)

    def __init__(self) -> None:
        self._before: list[tuple[Any, ...]] = []

    def _values(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._before.append(tuple([getattr(self._state, n) for n in self._names]))
        for name, value in zip(self._names, self._values(), strict=True):
            setattr(self._state, name, value)
        return None

    def __exit__(self, *exc: object) -> None:
        for name, value in zip(self._names, self._before.pop(), strict=True):
            setattr(self._state, name, value)

    def clone(self) -> _Mode:
        return type(self)()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator."""
        if inspect.isgeneratorfunction(fn):
            return _around_generator(self.clone, fn)

        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return fn(*args, **kwargs)

        return inner


def _around_generator(mode: Callable[[], _Mode], fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = fn(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(next, generator)
        try:
            while True:
                with mode():
                    try:
                        item = resume()
                    except StopIteration as stop:
                        return stop.value
                try:
                    sent = yield item
                except GeneratorExit:
                    raise
                except BaseException as error:
                    resume = functools.partial(generator.throw, error)
                else:
                    resume = functools.partial(generator.send, sent)
        finally:
            with mode():
                generator.close()

    return inner


class _Decorates(type):
    """Metaclass for ``@no_grad`` without parentheses, as PyTorch allows it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]):
            return super().__call__()(args[0])
        return super().__call__(*args, **kwargs)


class no_grad(_Mode, metaclass=_Decorates):  # noqa: N801
    """Operations inside are not recorded."""

    def _values(self) -> tuple[Any, ...]:
        return (False,)


class enable_grad(_Mode, metaclass=_Decorates):  # noqa: N801
    """Operations inside are recorded, also within ``no_grad``."""

    def _values(self) -> tuple[Any, ...]:
        return (True,)


class set_grad_enabled(_Mode):  # noqa: N801
    """``set_grad_enabled(flag)`` takes effect at once; as a context manager it is undone on leaving."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._mode = bool(mode)
        self._previous = STATE.grad
        self._pending = True
        STATE.grad = self._mode

    def _values(self) -> tuple[Any, ...]:
        return (self._mode,)

    def __enter__(self) -> Any:
        super().__enter__()
        if self._pending:  # undo the call itself too
            self._before[-1] = (self._previous,)
            self._pending = False

    def clone(self) -> _Mode:
        previous = STATE.grad
        made = set_grad_enabled(self._mode)
        STATE.grad = previous
        made._previous = previous
        return made

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        STATE.grad = self._previous
        return super().__call__(fn)


class inference_mode(_Mode):  # noqa: N801
    """As ``no_grad``; tensors made inside can never take part in a recording."""

    _names = ("grad", "inference")

    def __new__(cls, mode: Any = True) -> Any:
        if callable(mode):
            return cls()(mode)
        return super().__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        super().__init__()
        self._mode = bool(mode)

    def _values(self) -> tuple[Any, ...]:
        return (not self._mode, self._mode)

    def clone(self) -> _Mode:
        return inference_mode(self._mode)


class detect_anomaly(_Mode):  # noqa: N801
    """Backward raises where a NaN appears, and names the line of the forward operation that made it."""

    _names = ("anomaly", "check_nan")

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__()
        self._check_nan = check_nan

    def _values(self) -> tuple[Any, ...]:
        return (True, self._check_nan)

    def clone(self) -> _Mode:
        return detect_anomaly(self._check_nan)


class set_detect_anomaly(detect_anomaly):  # noqa: N801
    """``set_detect_anomaly(flag)`` takes effect at once; as a context manager it is undone on leaving."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        self._mode = bool(mode)
        self._previous = (STATE.anomaly, STATE.check_nan)
        STATE.anomaly, STATE.check_nan = self._values()

    def _values(self) -> tuple[Any, ...]:
        return (self._mode, self._check_nan)

    def __exit__(self, *exc: object) -> None:
        self._before.pop()
        STATE.anomaly, STATE.check_nan = self._previous


def is_grad_enabled() -> bool:
    return STATE.grad


def is_inference_mode_enabled() -> bool:
    return STATE.inference


__all__ = [
    "enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip
