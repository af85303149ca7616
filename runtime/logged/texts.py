"""Texts that are made of the run's values: printed, logged or kept, and made anew in each call.

A traced value stands in such a text as a mark (``record/shown_text.py``).  The text is a ``TextOfValues``, no ``str``
of Python's: whatever else than showing, joining or keeping it is tried with it ends the run.  What is printed and
logged is an effect, in order.
"""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ...tracer.bytecode.settled_text import LOG_METHODS
from ...tracer.record.recorder import current_recorder
from ...tracer.record.reports import _log, _outside
from ...tracer.record.shown_text import PRINT, Printed, TextOfValues, Texts
from ..state.libraries import PRINT_OPTIONS
from .kinds import TRACED, has_known_text
from .reads import CONTAINERS

_PROBE = "a 'text"
_MOST_ELEMENTS = 1000  # of an array that is shown


def has_marks(run: Any, text: str) -> bool:
    return bool(run.texts.shown) and "<traced" in text


def text_of(run: Any, value: Any, make: Callable[[Any], str] = str) -> Any:
    """``make(value)``, where *make* asks *value* for its text."""
    kind = type(value)
    if kind is TextOfValues:
        if make(_PROBE) != _PROBE:  # a conversion, or a width
            raise run.refuse("a text that is made of values")
        return value
    if kind not in TRACED and has_known_text(value):
        return make(run.handed(value, False))
    _look_into(run, value)
    run.no_carry(value, "a text is made of values")
    texts: Texts = run.texts
    if current_recorder() is not run.recorder or texts.asked:
        raise run.refuse("a text that is made of values")
    texts.asked = PRINT
    try:
        return marked(run, make(value if kind in TRACED else run.handed(value, False)))
    finally:
        texts.asked = ""


def _look_into(run: Any, value: Any, depth: int = 0) -> None:
    """An error where code that shows *value* would ask for something unseen."""
    kind = type(value)
    if kind in CONTAINERS and run.reads.node_of(value) is None and depth < 10:
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            _look_into(run, part, depth + 1)
        return
    if kind is np.ndarray or isinstance(value, np.generic):
        run.reads.depends(PRINT_OPTIONS)
    elif not has_known_text(value) and (kind not in TRACED or kind.__name__ == "MadeArray"):
        raise run.refuse("a text that is made of values")
    if hasattr(kind, "size") and kind in TRACED and value.size > _MOST_ELEMENTS:  # an integer would ask for its value
        raise run.refuse("a text that is made of values")


def marked(run: Any, text: str) -> str:
    """*text*, as one of the run's values if it has marks in it."""
    return TextOfValues(text) if has_marks(run, text) else text


def print_(run: Any, *values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False) -> None:
    """``print``."""
    if file is not None or not all(type(x) in (str, type(None)) for x in (sep, end)):
        raise run.refuse("print() into a file")
    text = (" " if sep is None else sep).join([text_of(run, value) for value in values])
    _note(run, Printed(str(text), "\n" if end is None else end, bool(run.test(flush))))


def _note(run: Any, printed: Any) -> None:
    run.no_carry(printed, "something is printed")
    if current_recorder() is not run.recorder:
        raise run.refuse("print() in the body of a loop")
    run.texts.printed.append(printed)


def log_method(f: Any) -> str:
    """The name of the method of loggers, or of the function of ``logging``, that *f* is; "" for others."""
    name = getattr(f, "__name__", "")
    if name not in LOG_METHODS:
        return ""
    return name if f is vars(logging.Logger).get(name) or f is vars(logging).get(name) else ""


def log(run: Any, f: types.FunctionType, args: Any, kwargs: Any) -> None:
    """A call of such a method or function: a record, which is made when the run is over."""
    owner, rest = (args[0], args[1:]) if f is vars(logging.Logger).get(f.__name__) else (logging, args)
    node = None if owner is logging else run.reads.node_of(owner)
    if kwargs or (owner is not logging and (node is None or node.kind != "logger")):
        raise run.refuse(f"logging: .{f.__name__}()")
    for value in rest:
        if type(value) is not TextOfValues and type(value) not in TRACED and not has_known_text(value):
            raise run.refuse("a text that is made of values")
    run.no_carry(rest, "something is logged")
    if current_recorder() is not run.recorder:
        raise run.refuse("logging in the body of a loop")
    _log(run.texts, owner, f.__name__, rest, {}, _outside(sys._getframe(1)))
