"""The compiled form and the transforms of a function, kept on the function itself: they live exactly as long."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ..tracer.ir.gc_pause import imported_to_stay

MEMO = "__tracegrad_transforms__"  # the attribute of the function; not one of the user's
OWNERS: list[type] = [types.FunctionType, functools.partial]  # classes of functions that have it


class _Memo(dict[Any, Any]):
    """The things kept on the function *owner*, by their keys: no other function's, and none of another process, to
    which the lines of the functions go that the owner reaches: a function that has a memo may be sent as code."""

    def __init__(self, owner: Callable[..., Any] | None, lines: Any = ()) -> None:
        super().__init__()
        self.owner, self._lines = owner, lines  # those that have come with it

    def __reduce__(self) -> Any:
        if self.owner is None:
            return _received, (self._lines,)
        return _received, (imported_to_stay("..tracer.convert.sending", __package__).lines_for(self.owner),)


def _received(lines: Any) -> _Memo:
    imported_to_stay("..tracer.convert.sent_texts", __package__).keep(lines)
    return _Memo(None, lines)


def memo_of(fn: Callable[..., Any]) -> _Memo | None:
    """The memo of *fn*, where it can have one of its own."""
    if not isinstance(fn, tuple(OWNERS)):
        return None
    found = fn.__dict__.get(MEMO)
    if found is not None and found.owner is not fn and getattr(found.owner, "__dict__", None) is fn.__dict__:
        return None  # a copy has the attributes of its function
    if found is None or found.owner is not fn:  # functools.wraps has copied it
        found = fn.__dict__[MEMO] = _Memo(fn)
    return found


def kept(fn: Callable[..., Any], key: Any, make: Callable[[], Any]) -> Any:
    """``make()``, made once for *fn* and *key*."""
    try:
        found = fn.__dict__[MEMO]
        if found.owner is fn:
            return found[key]
    except (AttributeError, KeyError, TypeError):
        pass
    made = make()
    if (memo := memo_of(fn)) is not None:
        memo[key] = made
    return made
