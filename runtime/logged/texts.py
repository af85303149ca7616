"""Texts that are made of the run's values: printed, logged or kept, and made anew in each call.

A traced value stands in such a text as a mark (``record/shown_text.py``).  The text is a ``TextOfValues``, no ``str``
of Python's: whatever else than showing, joining or keeping it is tried with it ends the run.  What is printed and
logged is an effect, in order.
"""

from __future__ import annotations

import logging
import re
import sys
import types
from _string import formatter_field_name_split
from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any

import numpy as np

from ...tracer.loops.python_ints import is_python_int
from ...tracer.record.array import TracedArray
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray
from ...tracer.record.recorder import current_recorder
from ...tracer.record.reports import LOG_METHODS, _is_own, _log, _outside, filters, may_raise, warning
from ...tracer.record.shown_text import PRINT, Printed, TextOfValues, Texts
from ..record.kinds import EAGER, PLAIN, TRACED, has_known_text
from ..state.libraries import PRINT_OPTIONS
from .attributes import found_in
from .files import is_file
from .reads import CONTAINERS

_PROBE = "a 'text"
_AS_TEXT = "a text is made of an integer of a loop: the run is made again, iteration by iteration"
RUNS: set[types.CodeType] = set()  # the code of ours that makes a run
_BRACKETS: dict[Any, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}")}
_CONVERSIONS: dict[str, tuple[Callable[[Any], str], str]] = {
    "s": (str, "__str__"), "r": (repr, "__repr__"), "a": (ascii, ""),
}  # fmt: skip
_BY_PERCENT = re.compile(r"(%%|%(?:\([^()]*\))?(?:[sr]|[#0\- +]*\d*(?:\.\d+)?[dioxXeEfFgG]))")
_IN_A_BODY = "<traced {} (recording: its value is known only when the compiled function runs)>"
_MOST_ELEMENTS = 1000  # of an array that is shown


def has_marks(run: Any, text: str) -> bool:
    return bool(run.texts.shown or run.texts.in_bodies) and "<traced" in text


def text_of(run: Any, value: Any, make: Callable[[Any], str] = str, asks: str = "__str__", spec: str = "") -> Any:
    """``make(value)``, where *make* asks *value* for its text by the method *asks*, with *spec* for a format."""
    if type(value) is MadeArray:
        value = value.view(np.ndarray)
    kind = type(value)
    if kind in _BRACKETS and asks and not spec and not has_known_text(run, value):
        return _of_parts(run, value, kind)
    if isinstance(value, BaseException) and found_in(kind, "__str__")[0] in (BaseException, KeyError):
        return _of_exception(run, value, kind, asks, spec)
    if has_own_text(run, kind):
        return _of_object(run, value, kind, asks, spec)
    if kind is TextOfValues:
        if make(_PROBE) != _PROBE:  # a conversion, or a width
            raise run.refuse("a text that is made of values")
        return value
    if kind not in TRACED and has_known_text(run, value):
        return make(run.handed(value, False))
    _look_into(run, value)
    if run.loops and is_python_int(value):
        run.loops[-1].give_up(_AS_TEXT)
    run.no_carry(value, "a text is made of values")
    texts: Texts = run.texts
    if current_recorder() is not run.recorder and kind is TracedArray and asks:
        texts.in_bodies.append(None)
        return TextOfValues(_IN_A_BODY.format(value.aval))
    if current_recorder() is not run.recorder or texts.asked:
        raise run.refuse("a text that is made of values")
    texts.asked = PRINT
    try:
        return marked(run, make(value if kind in TRACED or kind in EAGER else run.handed(value, False)))
    finally:
        texts.asked = ""


def has_own_text(run: Any, kind: type) -> bool:
    """Whether objects of *kind* are the user's, whose text code of theirs makes."""
    return kind not in PLAIN and kind not in CONTAINERS and kind is not TextOfValues and not run.reads.library(kind)


def _of_object(run: Any, value: Any, kind: type, asks: str, spec: str) -> Any:
    """The text of an object of the user's."""
    run.reads.pin(kind)
    for name, other in (("__format__", "__str__"), ("__str__", "__repr__")):
        run.reads.names(name)
        if asks == name and found_in(kind, name)[0] is object and not spec:
            asks = other
    if not asks:
        raise run.refuse("a text that is made of values")
    text = run.special(value, asks, *[spec] * (asks == "__format__"))
    if type(text) not in (str, TextOfValues):
        raise run.refuse(f"{asks} of an object of the class {kind.__qualname__}, which gives no text")
    return text


def _of_exception(run: Any, value: BaseException, kind: type, asks: str, spec: str) -> Any:
    """The text of an exception that the run has made: that of its arguments."""
    if asks not in ("__str__", "__format__") or spec or run.reads.node_of(value) is not None:
        raise run.refuse("a text that is made of values")
    run.reads.pin(kind)
    run.reads.names("__str__")
    args = BaseException.args.__get__(value)  # type: ignore[attr-defined]
    if len(args) != 1:
        return _of_parts(run, args, tuple) if args else ""
    made = (repr, "__repr__") if issubclass(kind, KeyError) else (str, "__str__")
    return text_of(run, args[0], *made)


def _of_parts(run: Any, value: Any, kind: type) -> Any:
    """The text of a list, tuple or dict by those of its parts."""
    held = [*run.iterable(value)]
    parts = [text_of(run, part, repr, "__repr__") for part in held]
    if kind is dict:
        values = [text_of(run, run.item(value, key), repr, "__repr__") for key in held]
        parts = [f"{key}: {part}" for key, part in zip(parts, values, strict=True)]
    if kind is tuple and len(parts) == 1:
        parts = [f"{parts[0]},"]
    first, last = _BRACKETS[kind]
    return marked(run, f"{first}{', '.join(parts)}{last}")


def format_of(run: Any, value: Any, conversion: str, spec: Any) -> Any:
    """The text of a value in an f-string."""
    if type(spec) is str and spec.endswith("n") and has_known_text(run, value):
        run.reads.shows_locale()
    elif type(spec) is not str or spec.endswith("n"):
        raise run.refuse("a text that is made of values")
    if not conversion:
        return text_of(run, value, lambda x: format(x, spec), "__format__", spec)
    make, asks = _CONVERSIONS[conversion]
    text = text_of(run, value, make, asks)
    if type(text) is TextOfValues and spec:  # of the value's text, whose length is not known
        raise run.refuse("a text that is made of values")
    return format(text, spec) if spec else text


def _filled_in(run: Any, template: str, /, *args: Any, **kwargs: Any) -> Any:
    """``template.format(*args, **kwargs)``."""
    found, count = [], 0
    for text, field, spec, conversion in Formatter().parse(template):
        found.append(text)
        if field is None:
            continue
        if "{" in field or "{" in (spec or ""):
            raise run.refuse("a text that is made of values")
        first, parts = formatter_field_name_split(field)
        value = args[count if first == "" else first] if type(first) is int or first == "" else kwargs[first]
        for is_attribute, name in parts:
            value = run.frame.attr(value, name) if is_attribute else run.item(value, name)
        count += first == ""
        found.append(format_of(run, value, conversion or "", spec or ""))
    return marked(run, "".join(found))


def _joined(run: Any, between: str, parts: Any) -> Any:
    """``between.join(parts)``."""
    found = [*run.iterable(parts)]
    if not all(isinstance(part, str) and type(part) in (str, TextOfValues) for part in found):
        raise run.refuse("a text that is made of values")
    return marked(run, str.join(between, found))


TEMPLATES: dict[str, Callable[..., Any]] = {"format": _filled_in, "join": _joined}


def by_percent(run: Any, template: Any, args: Any) -> Any:
    """``template % args``, where texts are shown by ``%s`` and ``%r`` alone."""
    by_name = type(args) is dict
    if type(template) is not str or (isinstance(args, dict) and not by_name):
        raise run.refuse("a text that is made of values")
    pieces = _BY_PERCENT.split(template)
    shown = [how for how in pieces[1::2] if how != "%%"]
    if any("%" in text for text in pieces[::2]) or any((how[1] == "(") is not by_name for how in shown):
        raise run.refuse("a text that is made of values")
    if by_name:
        values = tuple([run.item(args, how[2 : how.index(")")]) for how in shown])
    else:
        values = tuple(run.iterable(args)) if type(args) is tuple else (args,)
    if len(shown) != len(values):
        raise run.refuse("a text that is made of values")
    left = iter(values)
    pieces[1::2] = ["%" if how == "%%" else _by_conversion(run, _kind_of(how), next(left)) for how in pieces[1::2]]
    return marked(run, "".join(pieces))


def _kind_of(how: str) -> str:
    """The part of a conversion that follows the ``%`` and the name there."""
    return how[how.index(")") + 1 :] if how[1] == "(" else how[1:]


def _by_conversion(run: Any, conversion: str, value: Any) -> Any:
    """The text of a value by what follows a ``%``."""
    if conversion in _CONVERSIONS:
        return text_of(run, value, *_CONVERSIONS[conversion])
    if type(value) in EAGER and (conversion[-1] in "eEfFgG" or value.dtype.kind in "iu"):
        value = run.method_of_tensor(value, "item", (), {})
    if type(value) is TracedArray and not value.shape:
        return text_of(run, value, lambda x: x.mark(sys._getframe(), "%", conversion), "")
    if type(value) is TracedInt and conversion[0] not in "#- +" and conversion[-1] in "deEfFgG":
        return format_of(run, value, "", conversion)  # the same, of an integer
    if type(value) not in (int, float, bool):
        raise run.refuse("a text that is made of values")
    return f"%{conversion}" % value


def _look_into(run: Any, value: Any, depth: int = 0) -> None:
    """An error where code that shows *value* would ask for something unseen."""
    kind = type(value)
    if kind in EAGER and value.numel() <= _MOST_ELEMENTS:  # whose text is made of its array, and of facts about it
        return
    if kind in CONTAINERS and run.reads.node_of(value) is None and depth < 10:
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            _look_into(run, part, depth + 1)
        return
    if kind is np.ndarray or isinstance(value, np.generic):
        run.reads.depends(PRINT_OPTIONS)
    elif not has_known_text(run, value) and (kind not in TRACED or kind.__name__ == "MadeArray"):
        raise run.refuse("a text that is made of values")
    if hasattr(kind, "size") and kind in TRACED and value.size > _MOST_ELEMENTS:  # an integer would ask for its value
        raise run.refuse("a text that is made of values")


def marked(run: Any, text: str) -> str:
    """*text*, as one of the run's values if it has marks in it."""
    return TextOfValues(text) if has_marks(run, text) else text


def print_(run: Any, *values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False) -> None:
    """``print``."""
    if not all(type(x) in (str, type(None)) for x in (sep, end)):
        raise run.refuse("print() with such a `sep` or `end`")
    sep, end = " " if sep is None else sep, "\n" if end is None else end
    texts = [text_of(run, value) for value in values]
    if file is not None and not is_file(run, file):
        for k, text in enumerate(texts):
            run.call_method(file, "write", text) if k == 0 else [run.call_method(file, "write", x) for x in (sep, text)]
        run.call_method(file, "write", end)
        if run.test(flush):
            run.call_method(file, "flush")
        return
    printed = Printed(str(sep.join(texts)), end, bool(run.test(flush)), file)
    run.no_carry(printed, "something is printed")
    in_a_body = current_recorder() is not run.recorder
    (run.texts.in_bodies if in_a_body else run.texts.printed).append(printed)


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
    if kwargs.keys() - {"extra"} or (owner is not logging and (node is None or node.kind != "logger")):
        raise run.refuse(f"logging: .{f.__name__}()")
    more = kwargs.get("extra", {})
    if type(more) is not dict or run.reads.node_of(more) is not None or not all(type(name) is str for name in more):
        raise run.refuse(f"logging: .{f.__name__}()")
    rest, more = [kept(run, value) for value in rest], {name: kept(run, value) for name, value in more.items()}
    run.no_carry(more, "something is logged")
    if current_recorder() is not run.recorder:
        raise run.refuse("logging in the body of a loop")
    _log(run.texts, owner, f.__name__, tuple(rest), {"extra": dict(more)} if more else {}, _outside(sys._getframe(1)))


def kept(run: Any, value: Any, depth: int = 0) -> Any:
    """A value that is logged, as it is now."""
    if type(value) in (TracedArray, MadeArray) and value.shape:
        return value.copy()
    kind = type(value)
    if kind in _BRACKETS and depth < 10:  # which the run may change later
        held = [*run.iterable(value)]
        if kind is dict:
            return {key: kept(run, run.item(value, key), depth + 1) for key in held}
        return kind([kept(run, part, depth + 1) for part in held])
    if kind is TextOfValues or kind in TRACED or has_known_text(run, value):
        return value
    raise run.refuse("a text that is made of values")


def is_enabled(run: Any, logger: Any, /, *args: Any, **kwargs: Any) -> Any:
    """``logger.isEnabledFor(level)``, which is asked again in each call."""
    node = run.reads.node_of(logger)
    if node is None or node.kind != "logger" or kwargs or type(args[0]) is not int:
        raise run.refuse("logging: .isEnabledFor()")
    return run.recorder.ask_again(logger.isEnabledFor, *args)


def warn(run: Any, message: Any, category: Any = None, stacklevel: Any = 1, **others: Any) -> None:
    """``warnings.warn``: a warning that is given when the run is over, if the filters are those of its begin."""
    plain = type(message) in (str, TextOfValues) and type(stacklevel) is int and not others
    known = category is None or (
        isinstance(category, type) and issubclass(category, Warning) and run.reads.trust.cls(category)
    )
    if not plain or not known or run.quiet or may_raise() or run.texts.filters is not filters():
        raise run.refuse("a warning")
    run.no_carry(message, "a warning is given")
    recorder = current_recorder()
    if recorder is None or recorder is not run.recorder:
        raise run.refuse("a warning in the body of a loop")
    recorder.ask_again(may_raise)
    frames = list(_users_frames(sys._getframe(1)))
    above = max(0, stacklevel - 1)
    place = frames[above] if above < len(frames) else above - len(frames) + 1
    run.texts.printed.append(warning(str(message), category, place))


def _users_frames(frame: Any) -> Iterator[types.FrameType]:
    """The frames of the run that are the user's, from the inner one on."""
    while frame is not None and frame.f_code not in RUNS:
        if not _is_own(frame):
            yield frame
        frame = frame.f_back
