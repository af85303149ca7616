"""Where in the user's source something happened."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import NamedTuple

import numpy
import optree
import scipy


class Site(NamedTuple):
    """A line of the user's source."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}"

    def full(self) -> str:
        return f'File "{self.file}", line {self.line}, in {self.function}'


_ADJOINT = " (adjoint)"


@lru_cache(maxsize=4096)
def adjoint_site(site: Site | None) -> Site | None:
    """The line whose derivative a node belongs to."""
    if site is None or site.function.endswith(_ADJOINT):
        return site
    return site._replace(function=site.function + _ADJOINT)


_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LAYERS = ("tracer", "codegen", "runtime", "tracegrad")
_LIBRARIES = (numpy, scipy, optree)
OWN_FOLDERS: tuple[str, ...] = tuple(os.path.join(_HERE, name) + os.sep for name in _LAYERS)
_LIBRARY_FOLDERS = tuple(os.path.dirname(os.path.abspath(m.__file__)) + os.sep for m in _LIBRARIES if m.__file__)
_internal: dict[str, bool] = {}


def is_internal(filename: str) -> bool:
    """True for source files of tracegrad itself and of the array libraries it answers."""
    known = _internal.get(filename)
    if known is None:
        known = _internal[filename] = os.path.abspath(filename).startswith(OWN_FOLDERS + _LIBRARY_FOLDERS)
    return known


def user_site() -> Site | None:
    """The innermost frame that belongs to the user; None where there is none (our own tests of internals)."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        internal = _internal.get(code.co_filename)  # several frames for each operation: without a call for each
        if internal is None:
            internal = is_internal(code.co_filename)
        if not internal:
            return Site(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def at_site(message: str, site: Site | None = None) -> str:
    """*message* with the user's line in front."""
    site = site or user_site()
    return message if site is None else f"{message}\n  {site.full()}"
