"""The exceptions for users.  Each message has the user's line, the cause, and a replacement to write."""

from __future__ import annotations

import threading
from typing import Any, Self

import numpy as np

from .debuggers import looks_on
from .site import Site, at_site


class TracegradError(Exception):
    """Base of every error that tracegrad raises on purpose."""

    __module__ = "tracegrad"

    @classmethod
    def here(cls, message: str, site: Site | None = None) -> Self:
        """The error of this class with the user's line (or that of *site*) behind its *message*."""
        return cls(at_site(message, site))


_Refused = tuple[type[TracegradError], tuple[object, ...]]
_REFUSALS = 100  # kept of a thread


class _Unrecordable:
    """The refusals of each thread, as classes and their arguments (an exception would keep its frames alive)."""

    def __init__(self) -> None:
        self._by_thread: dict[int, list[_Refused]] = {}

    def last(self) -> TracegradError | None:
        """The last one of this thread, made again."""
        found = self._by_thread.get(threading.get_ident())
        if not found:
            return None
        refused, arguments = found[-1]
        return refused(*arguments)

    def clear(self) -> None:
        """Forget those of this thread."""
        self._by_thread.pop(threading.get_ident(), None)

    def add(self, error: TracegradError, thread: int | None = None) -> None:
        """Note *error*, as one of *thread* (default: this one)."""
        found = self._by_thread.setdefault(threading.get_ident() if thread is None else thread, [])
        del found[:-_REFUSALS]
        found.append((type(error), error.args))

    def discard(self, error: TracegradError) -> None:
        """Forget *error* of this thread: the operation has been done in another way."""
        found = self._by_thread.get(threading.get_ident())
        if found and found[-1] == (type(error), error.args):
            found.pop()


unrecordable = _Unrecordable()


class UnrecordableError(TracegradError):
    """Base of refused operations, which plain NumPy would do: raised again if the recorded function catches it."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if not looks_on():
            unrecordable.add(self)


class UnsupportedError(UnrecordableError, TypeError):
    """An operation that has no recorded form: naming it beats a value without a gradient.  *final*: it has none in any
    other run, either."""

    __module__ = "tracegrad"

    final = False


class OnlyPythonError(UnsupportedError):
    """A question that plain Python can answer and no recording can.  *done*: the run has had its effects."""

    __module__ = "tracegrad"

    done, final = True, True

    def __reduce__(self) -> Any:
        return UnsupportedError, self.args


OnlyPythonError.__name__ = OnlyPythonError.__qualname__ = UnsupportedError.__name__


class ShapeError(TracegradError, ValueError):
    """Operands that do not fit together."""

    __module__ = "tracegrad"


class LinAlgError(TracegradError, np.linalg.LinAlgError):
    """A matrix that has no inverse or no such factors, or is no square one: NumPy's words."""

    __module__ = "tracegrad"


class DifferentiationError(TracegradError, TypeError):
    """A gradient that does not exist: of an integer input, or of a non-scalar result."""

    __module__ = "tracegrad"


class MutationError(UnrecordableError, ValueError):
    """A write that the caller would see (or would wrongly not see): into an input or a captured array.  *final*: in
    any other run, too."""

    __module__ = "tracegrad"

    final = False


class BadIndexError(TracegradError, IndexError):
    """An index out of bounds, or of a kind that NumPy does not accept."""

    __module__ = "tracegrad"


class GraphError(TracegradError, ValueError):
    """A malformed graph: a defect of tracegrad or of hand-written IR text."""

    __module__ = "tracegrad"


class DeviceError(TracegradError, RuntimeError):
    """A device that is not there, something for it that is not installed, or arrays that lie on the wrong one."""

    __module__ = "tracegrad"


class OutOfMemoryError(DeviceError, MemoryError):
    """A device has no memory left for a call, which has changed nothing."""

    __module__ = "tracegrad"


def need_function(what: str, fn: Any) -> None:
    """Raise where *fn* is no function, or object that is called."""
    if isinstance(fn, type):
        name = fn.__name__
        there = f"pass an object of it, {name}(...)" if _has_call(fn) else "its methods can be decorated one by one"
        raise TypeError(at_site(f"{what} needs a function, not the class {name}: {there}"))
    if not callable(fn):
        raise TypeError(f"{what} needs a function, not {type(fn).__name__}")


def _has_call(cls: type) -> bool:
    """Whether objects of the class are called."""
    return any("__call__" in vars(base) for base in cls.__mro__)
