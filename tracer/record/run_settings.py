"""How a run is recorded: what those say who begin it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from typing import Any, Protocol

from ..ir.evaluate import HOST, Backend
from ..ir.graph import Atom
from ..ir.refusals import Reason
from .float_errors import UNWATCHED
from .shown_text import Texts


class RunCode(Protocol):
    """The answers about the user's code before it runs (``runtime/record/reached.py``)."""

    @property
    def names_written(self) -> frozenset[str]:
        """The names of what it writes into."""

    @property
    def asks_identity(self) -> bool:
        """Whether it may ask which of two equal numbers a value is."""

    @property
    def floats(self) -> Collection[float]:
        """The floats that stand in it."""


class RunSettings:
    """The settings of one recording; those of a recorder that nobody has said anything to stand here."""

    # the form of the recording
    abstract = False  # whether it is of avals alone: what is relied on was looked at when there were values
    backend: Backend = HOST  # the backend of its values
    trusts = False  # whether what operations need to hold is looked at once, when the run is over
    differentiates = True  # whether what is being recorded is differentiated
    of_tensors = False  # whether only tensors have gradients here, and no array
    tape: Any = None  # the tape of eager code, which is told of iterations that are marked (loops/holders.py)
    choices: Any = None  # the choices of the code that runs (control/arms.py)
    prepares: Callable[[Any], Any] | None = None  # the form of a function of rules that runs here
    texts: Texts | None = None  # where it is kept what the run prints

    # what may be in place of what the user's code asks for
    call_method: Callable[..., Any] | None = None  # answers methods of arrays from outside (constants.py)
    int_of: Callable[[Atom], Any] | None = None  # the int that an element of an integer array is (integers.py)
    derives = False  # whether results of NumPy's can be inputs; else their sources are needed
    guesses = True  # whether arrays may be traced ones by a guess (made_arrays.py)
    may_draw = False  # whether the default stream of random numbers can be an input (stream.py)

    # the run and its code
    repeatable = False  # whether the run has no effects before it is over
    ends: Callable[[Reason], BaseException] | None = None  # the error by which one that can't be replayed ends at once
    code: RunCode | None = None  # the code that runs, where the run can't be made again
    from_outside: Container[int] = frozenset()  # ids of objects that the run has not made, and of their copies
    items_of: Callable[[Any], Any] = staticmethod(tuple)  # the items of a tuple, as the run has them
    float_settings: Any = UNWATCHED  # settings of floating-point errors that are known not to raise
