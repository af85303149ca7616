"""Log records and warnings of recorded code: given in each call, once the values in them are known.

Recorded code finds a ``KeptLogger`` in place of a logger, and ``warn`` in place of ``warnings.warn``; both keep what is
reported among the texts of the run (``shown_text.py``).  Later the very method is called, by a function that looks like
the user's line to whoever asks for the caller (``caller_at``).  Levels, filters and handlers are asked then.
"""

from __future__ import annotations

import logging
import sys
import types
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any

from ..bytecode.settled_text import LOG_METHODS, REPORTERS, WRITES, is_dropped
from ..bytecode.shown_names import show_functions
from ..ir.refusals import Refusal
from ..ir.site import OWN_FOLDER
from .array import TracedArray
from .integers import TracedInt
from .recorder import current_recorder
from .shown_text import Texts
from .stands_for import StandsFor

_NEEDS_FRAMES = ("exc_info", "stack_info", "stacklevel")


@dataclass(slots=True)
class Report:
    """A call of ``owner.name`` by ``caller``, or by itself; ``key`` is equal for the same one."""

    owner: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    caller: Callable[..., Any] | None
    key: Hashable

    def give(self, plain: Callable[[Any], Any]) -> None:
        """Make the call; *plain* gives the plain form of a value."""
        args, kwargs = plain(self.args), {name: plain(value) for name, value in self.kwargs.items()}
        call = getattr(self.owner, self.name)
        call(*args, **kwargs) if self.caller is None else self.caller(call, args, kwargs)


def _kept() -> Texts | None:
    """The texts of the recording, where it keeps them."""
    recorder = current_recorder()
    return None if recorder is None or recorder.parent is not None else recorder.texts


def _unkept(refusal: Refusal, what: str) -> None:
    recorder = current_recorder()
    if recorder is not None:
        recorder.unrepeatable(refusal, what=what)


def _space(frame: FrameType) -> dict[str, Any]:
    """The user's own globals of a frame, which may be shown others."""
    space: Any = frame.f_globals
    while hasattr(space, "_below"):
        space = space._below
    return space


@lru_cache(maxsize=1024)
def caller_at(filename: str, line: int, name: str) -> Callable[..., Any]:
    """A function that makes a call at this line, to whoever looks at the stack."""
    text = "\n" * (line - 1) + "def make(call, args, kwargs): return call(*args, **kwargs)"
    module = compile(text, filename, "exec", dont_inherit=True)
    code = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return types.FunctionType(code.replace(co_name=name), {})


# ---- logs ----------------------------------------------------------------------------------------------------------


class KeptLogger(StandsFor):
    """Stands for a logger while a function is recorded."""

    _what = "a logger that stands for another"

    def __getattr__(self, name: str) -> Any:
        texts = _kept()
        if name in LOG_METHODS and texts is not None:
            return lambda *args, **kwargs: _log(texts, self._real, name, args, kwargs, sys._getframe(1))
        recorder = current_recorder()
        if name == "isEnabledFor" and recorder is not None and texts is not None:
            return lambda level: recorder.ask_again(self._real.isEnabledFor, level)
        _unkept(Refusal.CALLS_LOG, f"Logger.{name}")
        return getattr(self._real, name)


def _log(texts: Texts, logger: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> None:
    code = frame.f_code
    if any(kwargs.get(option) for option in _NEEDS_FRAMES):
        _unkept(Refusal.CALLS_LOG, f"Logger.{name}")
    caller = caller_at(code.co_filename, frame.f_lineno, code.co_name)
    key = ("log", id(logger), name, code.co_filename, frame.f_lineno)
    texts.printed.append(Report(logger, name, args, kwargs, caller, key))


def _get_logger(name: str | None = None) -> Any:
    logger = logging.getLogger(name)
    return logger if _kept() is None else KeptLogger(logger)


def _of_module(name: str) -> Callable[..., None]:
    def log(*args: Any, **kwargs: Any) -> None:
        frame, texts = sys._getframe(1), _kept()
        if texts is None:
            caller_at(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)(
                getattr(logging, name), args, kwargs
            )
        else:
            _log(texts, logging, name, args, kwargs, frame)

    return log


REPORTERS.add(KeptLogger)
_functions = {name: _of_module(name) for name in LOG_METHODS if name in vars(logging)}
show_functions(logging, {"getLogger": _get_logger, **_functions})


# ---- files ---------------------------------------------------------------------------------------------------------


_FILES = frozenset(("TextIOWrapper", "StringIO", "BufferedWriter", "BytesIO", "FileIO", "BufferedRandom"))


# Methods of files that tell of what was written to them, or end it.


class KeptFile(StandsFor):
    """Stands for a file, or a writer into one, while a function is recorded."""

    _what = "a file"

    def __getattr__(self, name: str) -> Any:
        texts = _kept()
        if texts is None or not (name == "flush" or name in WRITES):
            _unkept(Refusal.CALLS_FILES, f"{type(self._real).__name__}.{name}")
            return getattr(self._real, name)

        def write(*args: Any, **kwargs: Any) -> Any:
            if name in ("write", "writerow") and not is_dropped(sys._getframe(1)):  # what is returned is of the text
                _unkept(Refusal.CALLS_FILES, f"{type(self._real).__name__}.{name}")
                return getattr(self._real, name)(*map(_seen, args), **kwargs)
            report = Report(self._real, name, args, kwargs, None, ("write", id(self._real), name))
            return texts.printed.append(report)

        return write

    def __iter__(self) -> Any:
        return iter(self.__getattr__("__iter__")())

    def __enter__(self) -> Any:
        self.__getattr__("__enter__")()
        return self

    def __exit__(self, *given: Any) -> Any:
        return self.__getattr__("__exit__")(*given)


def _seen(value: Any) -> Any:
    """The same with plain values in place of traced ones, for a file that is given it at once."""
    if isinstance(value, list | tuple):
        return [*map(_seen, value)]
    if isinstance(value, dict):
        return {key: _seen(part) for key, part in value.items()}
    return value.shown() if type(value) is TracedArray else value.asked() if type(value) is TracedInt else value


REPORTERS.add(KeptFile)


# ---- warnings ------------------------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class _Warning:
    """A warning of ``category``; ``place``: file, line and globals, or how many frames above the caller of the compiled
    function it belongs."""

    category: Any
    place: tuple[str, int, dict[str, Any]] | int

    def give(self, message: Any) -> None:
        place = self.place
        if isinstance(place, int):
            frame, above = _outside(sys._getframe(1)), place
            while above > 1 and frame.f_back is not None:
                frame, above = frame.f_back, above - 1
            place = frame.f_code.co_filename, frame.f_lineno, _space(frame)
        file, line, space = place
        registry = space.setdefault("__warningregistry__", {})
        warnings.warn_explicit(message, self.category, file, line, space.get("__name__") or "<string>", registry)


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((OWN_FOLDER, "<tracegrad"))


def _outside(frame: FrameType) -> FrameType:
    """The nearest frame that is none of ours, from *frame* on."""
    while _is_own(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **others: Any) -> None:
    """``warnings.warn`` in recorded code."""
    frame: FrameType = sys._getframe(1)
    above, left = stacklevel - 1, False
    while above > 0 and frame.f_back is not None and not left:
        left = _is_own(frame.f_back)
        if not left:
            frame, above = frame.f_back, above - 1
    category = type(message) if isinstance(message, Warning) else UserWarning if category is None else category
    place = above if left else (frame.f_code.co_filename, frame.f_lineno, _space(frame))
    found, texts = _Warning(category, place), _kept()
    plain = type(message) is str and isinstance(category, type) and issubclass(category, Warning)
    if texts is None or source is not None or others or not plain or texts.filters is not filters() or may_raise():
        _unkept(Refusal.CALLS_WARN, "warnings.warn")
        if others or not plain or source is not None:
            warnings.warn(message, category, stacklevel + 1, source, **others)
        else:
            found.give(message)
        return
    recorder = current_recorder()
    assert recorder is not None
    recorder.ask_again(may_raise)
    texts.printed.append(_report(found, message))


def warning(message: str, category: Any, place: FrameType | int) -> Report:
    """The report of a warning at the line of a frame, or at that number of frames above the recorded function."""
    at = place if isinstance(place, int) else (place.f_code.co_filename, place.f_lineno, _space(place))
    return _report(_Warning(UserWarning if category is None else category, at), message)


def _report(found: _Warning, message: str) -> Report:
    place = found.place if isinstance(found.place, int) else found.place[:2]
    return Report(found, "give", (message,), {}, None, ("warn", found.category, place))


def filters() -> Any:
    """The list of filters in force, another one within ``catch_warnings``."""
    found = getattr(warnings, "_get_filters", None)
    return warnings.filters if found is None else found()


_harmless: tuple[Any, ...] | None = None  # filters that make no warning an error


def may_raise() -> bool:
    """Whether a warning may be an error now."""
    global _harmless
    now = (getattr(warnings, "defaultaction", ""), *filters())
    if now == _harmless:
        return False
    if now[0] == "error" or any(entry[0] == "error" for entry in now[1:]):
        return True
    _harmless = now
    return False


show_functions(warnings, {"warn": warn})
