"""The lines of functions that came here as code.

``cloudpickle`` sends the code of a function, and leaves out which file it is of.  So the lines of a function and of
those that it reaches are sent with it (``sending.py``).  ``source.py`` finds them here by the name and the first line
of the code, and takes nothing for its source that does not give that very code.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from types import CodeType
from typing import NamedTuple

_MOST = 4096  # functions whose lines are known here
_ALIKE = 4  # of one name and first line


class SentLines(NamedTuple):
    """The *lines* of a statement in which a function is made, from the line *start* on (counted from 0).  *imported*:
    the names that its module imports; *functions*: the names and first lines of all functions in it."""

    start: int
    lines: tuple[str, ...]
    imported: tuple[str, ...]
    functions: tuple[tuple[str, int], ...]


_known: OrderedDict[tuple[str, int], list[SentLines]] = OrderedDict()


def keep(sent: Iterable[SentLines]) -> None:
    """Let the *sent* lines be found here."""
    for lines in sent:
        for key in lines.functions:
            others = [other for other in _known.pop(key, ()) if other != lines]
            _known[key] = [lines, *others[: _ALIKE - 1]]
    while len(_known) > _MOST:
        _known.popitem(last=False)


def known_for(code: CodeType) -> list[SentLines]:
    """The lines that were sent here of functions of this name and first line."""
    return _known.get((code.co_name, code.co_firstlineno), [])
