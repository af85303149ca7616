"""NumPy's floating-point errors as exceptions: ``np.errstate(divide="raise")``, ``np.seterr(all="raise")``.

While a setting asks for more than a warning, each operation is computed by NumPy as soon as it is recorded, so that
``FloatingPointError`` rises where it would in plain NumPy.  Such runs are not replayed: whether one raises depends on
every element of every operand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy._core.umath import _extobj_contextvar  # type: ignore[attr-defined]

from ..ir.interrupts import kept

_QUIET = frozenset(("ignore", "warn"))

VARIABLE = _extobj_contextvar  # of the settings in force
settings = VARIABLE.get  # settings(None): an object for the settings in force, None for the first ones
UNWATCHED = object()  # in place of settings: they are not looked at


def _put_back(before: Any) -> None:
    if settings(None) is not before:
        if before is None:  # as they are in the beginning
            np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
            np.seterrcall(None)
        else:
            VARIABLE.set(before)


kept(lambda: settings(None), _put_back, users=True)


def quiet_settings() -> object:
    """The settings in force, if they raise nothing; else a new object, which is in force nowhere."""
    return object() if raising() else settings(None)


def raising() -> bool:
    """Whether NumPy is to do more than warn of some floating-point error, in this thread and context."""
    return settings(None) is not None and not _QUIET.issuperset(np.geterr().values())
