"""Whether the interpreter is one that is known: then objects are looked into, and runs of copies are logged.

Of a version that is not in the table, of a free-threaded build, of another implementation nothing is taken for granted:
functions run their Python in each call, the launcher is Python, and ``doubt()`` says why, once.  A new version gets its
entry after the tests have passed with it.
"""

from __future__ import annotations

import sys
import warnings

VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))


def unknown() -> str | None:
    """The reason why the interpreter is not a known one; None if it is."""
    if sys.implementation.name != "cpython":
        return f"the interpreter is {sys.implementation.name}, not CPython"
    if "t" in getattr(sys, "abiflags", "") or "free-threading" in sys.version:  # `sysconfig` takes 5 ms to say so
        return "this is a free-threaded build of Python"
    if tuple(sys.version_info[:2]) not in VERSIONS:
        return f"Python {sys.version_info[0]}.{sys.version_info[1]} is not one that is known"
    return None


UNKNOWN = unknown()
_said: list[str] = []


def doubt() -> str | None:
    """``UNKNOWN``; the first time it is a warning."""
    if UNKNOWN is not None and not _said:
        _said.append(UNKNOWN)
        first, *_, last = [".".join(map(str, version)) for version in VERSIONS]
        warnings.warn(
            f"tracegrad: {UNKNOWN} (CPython {first} to {last} are): compiled functions run their Python in each call, "
            "which gives the same results and takes longer",
            RuntimeWarning,
            stacklevel=2,
        )
    return UNKNOWN
