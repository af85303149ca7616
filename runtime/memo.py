"""The compiled form and the transforms of a function, kept on the function itself: they live exactly as long."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ..tracer.ir.site import OWN
from .wrapper import LinesOf

MEMO = "__tracegrad_transforms__"  # the attribute of the function; not one of the user's
OWNERS: list[type] = [types.FunctionType, functools.partial]  # classes of functions that have it


class _Memo(dict[Any, Any]):
    """The things kept on the function *owner*, by their keys: no other function's, and none of another process, to
    which its *lines* go."""

    def __init__(self, owner: Callable[..., Any] | None, lines: LinesOf | None = None) -> None:
        super().__init__()
        self.owner, self._lines = owner, lines or LinesOf(owner)

    def __reduce__(self) -> Any:
        return _Memo, (None, self._lines)


def kept(fn: Callable[..., Any], key: Any, make: Callable[[], Any]) -> Any:
    """``make()``, made once for *fn* and *key*."""
    try:
        found = fn.__dict__[MEMO]
        if found.owner is fn:
            return found[key]
    except (AttributeError, KeyError, TypeError):
        pass
    made = make()
    is_copy = type(fn) is types.FunctionType and OWN in fn.__code__.co_freevars  # whose attributes are the user's own
    if isinstance(fn, tuple(OWNERS)) and not is_copy:
        found = fn.__dict__.get(MEMO)
        if found is None or found.owner is not fn:  # functools.wraps has copied it
            found = fn.__dict__[MEMO] = _Memo(fn)
        found[key] = made
    return made
