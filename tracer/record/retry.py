"""A run that is to be made again, and what it has learned for the next one.

Some things show only while a function runs: that an array from outside is wanted as it is, that an array which the code
makes will hold traced values.  Such a run ends by a ``Retry``.  It has no effect, and its ``Options`` are followed
(``Learned.follow``, ``Logged``) before the next run of the one loop in ``Dispatcher.answer``, which ends after
``MAX_RUNS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..ir.errors import UnsupportedError
from ..ir.graph import Var
from ..ir.site import Site

MAX_RUNS = 256  # of one call: each helper that makes an array, or array from outside may take one


@dataclass(frozen=True, slots=True)
class Options:
    """The findings of a run, and what ``stats`` says of them (*note*; nothing where that is told otherwise)."""

    note: str = ""
    captured: frozenset[Var] = frozenset()  # inputs that are wanted as plain arrays or numbers, until they have names
    contents: frozenset[str] = frozenset()  # arrays and numbers from outside that are wanted as they are
    trusts: bool = True  # whether what operations need to hold is looked at once, when the run is over
    apart: frozenset[Any] = frozenset()  # code of functions whose batches are run row by row
    ints: Mapping[int, Site | None] | None = None  # arguments that are compared by value; all, where there are none


class Retry(BaseException):
    """The run is to be made again by these *options*; *error* is raised where that can't be.  No ``except`` clause of
    the function's is to see it."""

    def __init__(self, options: Options, error: Exception | None = None) -> None:
        super().__init__(options.note)
        self.options, self.error = options, error


def chosen_anew() -> Retry:
    """A choice, both of whose arms have run, is to be a question; or questions are to be choices (control/arms.py)."""
    return Retry(
        Options("which branches run both arms was decided anew: the run is made again"),
        UnsupportedError.here("this run of both arms of an `if` is made again"),
    )
