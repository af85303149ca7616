"""CPython's versions: one row for each, with all that code here has to know of how they differ.

Instructions are read in the form of 3.11 (``instructions.py``), to which a row translates; a few memory layouts and
habits of the interpreter are beside it.  ``PYTHON`` is the row of the interpreter that runs, or None: of a version that
is not in the table, of a free-threaded build, of another implementation nothing is taken for granted.  Then no bytecode
is read and no object is looked into: functions run their Python in each call, the launcher is Python, and
``doubt()`` says why, once.  A new version is a new row, after its tests have passed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class PythonVersion:
    """The differences of a version from what is written for 3.11."""

    same: Mapping[str, str] = field(default_factory=dict)  # instruction -> the one that it is another name of
    pairs: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # instruction -> the two that it does at once
    null_above: bool = False  # a NULL, or self, is pushed after the callable, not before
    counts_constants: bool = False  # None, True and False have counts of references
    writes_locals: bool = True  # assigning an item of ``frame.f_locals`` assigns the variable


_3_11 = PythonVersion(counts_constants=True, writes_locals=False)
_3_12 = replace(
    _3_11,
    same={"LOAD_FAST_CHECK": "LOAD_FAST"},
    pairs={"RETURN_CONST": ("LOAD_CONST", "RETURN_VALUE")},
    counts_constants=False,
)
_3_13 = replace(
    _3_12,
    pairs={
        **_3_12.pairs,
        "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
    },
    null_above=True,
    writes_locals=True,
)
_3_14 = replace(
    _3_13,
    same={
        **_3_13.same,
        "LOAD_FAST_BORROW": "LOAD_FAST",
        "LOAD_SMALL_INT": "LOAD_CONST",
        "LOAD_COMMON_CONSTANT": "LOAD_CONST",
        "NOT_TAKEN": "NOP",
    },
    pairs={
        **{name: pair for name, pair in _3_13.pairs.items() if name != "RETURN_CONST"},
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    },
)
VERSIONS = {(3, 11): _3_11, (3, 12): _3_12, (3, 13): _3_13, (3, 14): _3_14}


def unknown() -> str | None:
    """The reason why the interpreter that runs has no row; None if it has."""
    if sys.implementation.name != "cpython":
        return f"the interpreter is {sys.implementation.name}, not CPython"
    if "t" in getattr(sys, "abiflags", "") or "free-threading" in sys.version:  # `sysconfig` takes 5 ms to say so
        return "this is a free-threaded build of Python"
    if tuple(sys.version_info[:2]) not in VERSIONS:
        return f"Python {sys.version_info[0]}.{sys.version_info[1]} is not one that is known"
    return None


_unknown = unknown()
PYTHON = VERSIONS[sys.version_info[:2]] if _unknown is None else None
_NEWEST = [*VERSIONS.values()][-1]
FORM = PYTHON or _NEWEST  # to read instructions by, where it is not relied upon
_said: list[str] = []


def doubt() -> str | None:
    """The reason why nothing is taken for granted of this interpreter, or None; the first time it is a warning."""
    if _unknown is not None and not _said:
        _said.append(_unknown)
        first, *_, last = [".".join(map(str, version)) for version in VERSIONS]
        warnings.warn(
            f"tracegrad: {_unknown} (CPython {first} to {last} are): compiled functions run their Python in each call, "
            "which gives the same results and takes longer",
            RuntimeWarning,
            stacklevel=2,
        )
    return _unknown
