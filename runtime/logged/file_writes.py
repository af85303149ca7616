"""Calls that write into files: effects, in order with what is printed.

What such a call gives is known before it is made only where it is the length of a text that is known.  Else the run
gets an ``Answer``, which is not to be looked at.
"""

from __future__ import annotations

from typing import Any

from ...tracer.ir.refusals import Refusal
from ...tracer.record.recorder import current_recorder
from ...tracer.record.reports import Report
from ...tracer.record.shown_text import TextOfValues
from .files import WRITERS, StandardStream
from .reads import not_closed
from .texts import kept
from .unseen import unseen

#: the class of what a call gives that is made when the run is over
Answer: Any = unseen("Answer", "what a file says that is written, which is asked for")


def write(run: Any, file: Any, name: str, args: Any, kwargs: Any) -> Any:
    """A call of a method of a file or a writer of the module ``csv``: an effect, with the values as they are now."""
    if kwargs or len(args) > 1 or name not in WRITERS[type(file)]:
        raise not_closed(f"`.{name}()` of a file", Refusal.STATE_FILE)
    if name in ("writelines", "writerow", "writerows"):
        given: Any = [*run.iterable(*args)]
        rows = [[*run.iterable(row)] for row in given] if name == "writerows" else given
        given = (kept(run, rows),)
    else:
        given = args
    as_text = given if name == "write" else given[0] if name == "writelines" else ()
    if not all(type(text) in (str, TextOfValues) for text in as_text):
        raise run.refuse("something that is no text is written into a file")
    run.no_carry(given, "a file is written")
    if current_recorder() is not run.recorder:
        raise run.refuse("a file that is written in the body of a loop")
    run.texts.printed.append(Report(file, name, given, {}, None, ("write", name)))
    if name in ("flush", "writelines"):
        return None
    known = name == "write" and type(file) is not StandardStream and type(args[0]) is str
    return len(args[0]) if known else Answer()
