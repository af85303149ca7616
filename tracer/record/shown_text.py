"""Text that recorded code prints or keeps: it is made anew in each call, once the values in it are known.

The text of a traced array is a mark with a number there, by which it is found again in whatever has been made of it;
``pieces`` takes a text apart.  What the run prints is kept in ``printed``, to be printed with the values once they are
there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_MARK = re.compile(r"<traced \(recording: \.\.\.\) #(\d+)>")
PRINT, VALUE = "print", "value"


class TextOfValues(str):
    """A text with marks in it, as converted code has it: no code but what shows, joins or keeps it may look at it."""

    __slots__ = ()


@dataclass(slots=True)
class Shown:
    """A traced array as it was when its text was made, and how: by ``str``, ``repr``, a format, or a function."""

    value: Any
    how: str | Callable[[Any], str]  # "str", "repr", "format" or "%"
    spec: str = ""

    def write(self, value: Any) -> str:
        """The text of *value* in place of the traced array."""
        if not isinstance(self.how, str):
            return self.how(value)
        if self.how == "%":
            return f"%{self.spec}" % value
        return format(value, self.spec) if self.how == "format" else repr(value) if self.how == "repr" else str(value)


def shows_text(kind: Any) -> None:
    """Let the text of an object of this class be what its ``_text`` gives the frame that asks: by ``repr``, ``str`` or
    a format."""
    kind.__repr__ = lambda self: self._text(sys._getframe(1), "repr")
    kind.__str__ = lambda self: self._text(sys._getframe(1), "str")
    kind.__format__ = lambda self, spec: self._text(sys._getframe(1), "format", spec)


@dataclass(slots=True)
class Printed:
    """One call of ``print``: its text, and what else it was given."""

    text: str
    end: str
    flush: bool
    file: Any = None


@dataclass(slots=True)
class Texts:
    shown: list[Shown] = field(default_factory=list)
    printed: list[Any] = field(default_factory=list)  # in order: Printed, and the reports of `reports.py`
    in_bodies: list[Printed | None] = field(default_factory=list)  # printed once, as a body is recorded; None: a text
    asked: str = ""  # PRINT, VALUE: text of a traced array that our own code asks for
    filters: Any = None  # of warnings, when the run began

    def mark(self, value: Any, how: str | Callable[[Any], str], spec: str = "") -> str:
        """The mark for the text of *value*."""
        self.shown.append(Shown(value, how, spec))
        return f"<traced (recording: ...) #{len(self.shown) - 1}>"

    def pieces(self, text: str) -> list[str | Shown]:
        """*text* with the traced arrays that stand in it."""
        parts = _MARK.split(text)
        return [self.shown[int(part)] if k % 2 else part for k, part in enumerate(parts)]

    def print_bodies(self) -> None:
        """Print what the bodies of loops, branches and rules print, which run once for all that they stand for."""
        for one in self.in_bodies:
            if one is not None:
                print(one.text, end=one.end, flush=one.flush, file=one.file)
