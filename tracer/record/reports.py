"""Log records and warnings of runs: given in each call, once the values in them are known.

What a run reports is kept among its texts (``shown_text.py``).  Later the very method is called, by a function that
looks like the user's line to whoever asks for the caller (``caller_at``).  Levels, filters and handlers are asked then.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any

from ..ir.site import OWN_FOLDER
from .shown_text import Texts

LOG_METHODS = frozenset(("debug", "info", "warning", "warn", "error", "critical", "fatal", "log"))


@dataclass(slots=True)
class Report:
    """A call of ``owner.name`` by ``caller``, or by itself; ``key`` is equal for the same one."""

    owner: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    caller: Callable[..., Any] | None
    key: Hashable


def names_below(space: Any) -> dict[str, Any]:
    """The user's own globals, where code may be shown others, *space*."""
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


def _log(texts: Texts, logger: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> None:
    code = frame.f_code
    caller = caller_at(code.co_filename, frame.f_lineno, code.co_name)
    key = ("log", id(logger), name, code.co_filename, frame.f_lineno)
    texts.printed.append(Report(logger, name, args, kwargs, caller, key))


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
            place = frame.f_code.co_filename, frame.f_lineno, names_below(frame.f_globals)
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


def warning(message: str, category: Any, place: FrameType | int) -> Report:
    """The report of a warning at the line of a frame, or at that number of frames above the recorded function."""
    category = UserWarning if category is None else category
    if isinstance(place, int):
        return Report(_Warning(category, place), "give", (message,), {}, None, ("warn", category, place))
    file, line = place.f_code.co_filename, place.f_lineno
    found = _Warning(category, (file, line, names_below(place.f_globals)))
    return Report(found, "give", (message,), {}, None, ("warn", category, (file, line)))


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
