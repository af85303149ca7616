"""Tracebacks that end at the user's line.

An error passes through a dozen frames of the library on its way from the operation that the user wrote to the call that
the user made.  The outermost function of the library leaves them out, and its own: a bare ``raise`` goes on with the
traceback that the exception has, and adds none.  ``TRACEGRAD_FULL_TRACEBACK=1`` in the environment keeps all of them.

Where the library itself may be wrong (an assertion, a missing name, an exception that it did not raise on purpose)
nothing is left out.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, TracebackType
from typing import Any, ParamSpec, TypeVar

from .errors import TracegradError
from .site import OWN_FOLDER, is_internal

_P = ParamSpec("_P")
_R = TypeVar("_R")

VARIABLE = "TRACEGRAD_FULL_TRACEBACK"
_DEFECTS = (AssertionError, NameError, RecursionError, SystemError)  # in code of the library's
_RAISED = (ArithmeticError, LookupError, AttributeError)  # defects unless a ``raise`` has made them

_RUN_WITHIN = ("forward",)  # methods that others run, which shorten
_FILE = OWN_FOLDER + "<for users>"  # in this folder, so that no error is laid at its door
_VARARGS, _VARKEYWORDS = 4, 8  # in co_flags, as `inspect` has them
_SHORTENING = frozenset(("shorten", "for_users"))  # names in functions that do it themselves
_ALONE = _SHORTENING | {"_getframe"}  # names in functions that no other stands around


def shorten(error: Exception) -> None:
    """Leave the library's frames out of the traceback of *error*, and of the exceptions behind it."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        return
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        on_purpose = isinstance(found, TracegradError)
        last = last_frame(found.__traceback__)
        if on_purpose or last is None or _shortens(last) or not _is_defect(found, last):
            found.__traceback__ = _without(found.__traceback__, on_purpose)
        behind = found.__cause__ or found.__context__
        if behind is not None and behind is not found.__cause__ and _is_internal(behind.__traceback__):
            found.__suppress_context__ = True
        found = behind


class _ForUsers:
    """A context in which exceptions are shortened on their way to the user: ``with for_users:``."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            shorten(error)


for_users = _ForUsers()


def shortened(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """*function* for users: its exceptions are shortened. Itself if it sees to that, or looks at its caller's frame."""
    if not _ALONE.isdisjoint(function.__code__.co_names):
        return function
    outermost = _maker(*_parameters(function.__code__))(function)
    outermost.__defaults__, outermost.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return functools.update_wrapper(outermost, function)


def _parameters(code: CodeType) -> tuple[str, str]:
    """The parameters of a function with this code, and the arguments that pass them on, as source."""
    names, count, only = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    places, rest = [*names[:count]], [*names[count + only :]]
    taken = [f"{name}={name}" for name in names[count : count + only]]
    passed, given = [*places], [*names[count : count + only]]
    if code.co_posonlyargcount:
        places.insert(code.co_posonlyargcount, "/")
    if code.co_flags & _VARARGS:
        places.append(f"*{rest.pop(0)}")
        passed.append(places[-1])
    elif only:
        places.append("*")
    if code.co_flags & _VARKEYWORDS:
        given.append(f"**{rest.pop(0)}")
        taken.append(given[-1])
    return ", ".join([*places, *given]), ", ".join([*passed, *taken])


@functools.cache
def _maker(parameters: str, arguments: str) -> Callable[..., Any]:
    """The function that makes one with these parameters around another: a call costs less than with ``*args``."""
    source = f"""
def make(_inner):
    def outermost({parameters}):
        try:
            return _inner({arguments})
        except Exception as error:
            shorten(error)
            raise
    return outermost
"""
    made: dict[str, Any] = {"shorten": shorten}
    exec(compile(source, _FILE, "exec"), made)
    return made["make"]


def shorten_all(space: dict[str, Any], names: Iterable[str]) -> None:
    """Make these functions of a module's *space*, and its classes' methods that users call, ``shortened``."""
    for name in names:
        found = space[name]
        if isinstance(found, FunctionType):
            space[name] = shortened(found)
        elif isinstance(found, type):
            for of_class, method in [*vars(found).items()]:
                called = of_class == "__init__" or not of_class.startswith("_")
                if called and of_class not in _RUN_WITHIN and isinstance(method, FunctionType):
                    setattr(found, of_class, shortened(method))


def _without(trace: TracebackType | None, on_purpose: bool) -> TracebackType | None:
    """*trace* without the library's frames; *on_purpose*: without those of NumPy and SciPy, too, that led to it."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not (is_internal(trace.tb_frame.f_code.co_filename) if on_purpose else _is_own(trace)):
            kept.append(trace)
        trace = trace.tb_next
    result: TracebackType | None = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def last_frame(trace: TracebackType | None) -> TracebackType | None:
    """The innermost frame of *trace*."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _is_own(trace: TracebackType) -> bool:
    """Whether the frame is one of the library's."""
    return trace.tb_frame.f_code.co_filename.startswith(OWN_FOLDER)


def _shortens(trace: TracebackType) -> bool:
    """Whether the frame has shortened the exception, which came from within: functions that do so call each other."""
    return _is_own(trace) and not _SHORTENING.isdisjoint(trace.tb_frame.f_code.co_names)


def is_raise(trace: TracebackType) -> bool:
    """Whether a ``raise`` of the frame has made the exception."""
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == importlib.import_module("opcode").opmap["RAISE_VARARGS"]


def _is_defect(error: BaseException, last: TracebackType) -> bool:
    """Whether *error*, which frame *last* has raised, tells of the library rather than of its use."""
    if not _is_own(last):
        return False
    if isinstance(error, ValueError):  # NumPy's AxisError is an IndexError, too
        return False
    return isinstance(error, _DEFECTS) or (isinstance(error, _RAISED) and not is_raise(last))


def _is_internal(trace: TracebackType | None) -> bool:
    """Whether the frames of *trace* are the library's, NumPy's and SciPy's."""
    while trace is not None:
        if not is_internal(trace.tb_frame.f_code.co_filename):
            return False
        trace = trace.tb_next
    return True
