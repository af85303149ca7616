"""Sites: lines of the user's source."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import warnings
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple


class Site(NamedTuple):
    """A line of the user's source."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line} in {self.function}"

    def full(self) -> str:
        return f'File "{self.file}", line {self.line}, in {self.function}'


OWN = "_tg_"  # begins all names that a converted copy adds to the user's
_ADJOINT = " (adjoint)"
_adjoint_sites: dict[int, tuple[Site, Site]] = {}  # by id of a site, which is kept, too


def adjoint_site(site: Site | None) -> Site | None:
    """The line whose derivative a node belongs to.  Sites of different instructions have different ones."""
    if site is None or site.function.endswith(_ADJOINT):
        return site
    known = _adjoint_sites.get(id(site))
    if known is None:
        if len(_adjoint_sites) >= _MAX_SITES:
            _adjoint_sites.clear()
        known = _adjoint_sites[id(site)] = site, site._replace(function=site.function + _ADJOINT)
    return known[1]


OWN_FOLDER: str = os.path.join(Path(__file__).absolute().parents[2], "")  # the package: all layers
_internal: dict[str, bool] = {}
_passed: dict[str, bool] = {}
_STANDARD = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")
_MAX_SITES = 100_000
# (id of code, instruction): (that code, kept so that the id stays its own; the one Site object of that instruction)
_sites: dict[tuple[int, int], tuple[CodeType, Site]] = {}


@functools.cache
def _internal_folders() -> tuple[str, ...]:
    found = [importlib.util.find_spec(name) for name in ("numpy", "scipy", "optree")]  # which imports none of them
    origins = [spec.origin for spec in found if spec is not None and spec.origin]
    return OWN_FOLDER, *[os.path.dirname(os.path.abspath(origin)) + os.sep for origin in origins]


def is_internal(filename: str) -> bool:
    """True for source files of tracegrad itself and of the array libraries it answers."""
    known = _internal.get(filename)
    if known is None:
        known = _internal[filename] = os.path.abspath(filename).startswith(_internal_folders())
    return known


FOR_THE_USER: set[str] = set()  # source files of ours that do what the user's code says, in its place


def is_own(filename: str) -> bool:
    """As ``is_internal``, but for files that ask in the place of the user's code."""
    return filename not in FOR_THE_USER and is_internal(filename)


def user_site() -> Site | None:
    """The innermost frame that belongs to the user; None where there is none (our own tests of internals).

    One instruction has one Site object, also where a line has several: that tells repetitions in a loop
    from operations that merely stand on the same line."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        passed = _passed.get(code.co_filename)  # several frames for each operation: without a call for each
        if passed is None:
            passed = _passed[code.co_filename] = is_internal(code.co_filename) or _is_labelled(code.co_filename)
        if not passed:
            key = (id(code), frame.f_lasti)
            known = _sites.get(key)
            if known is None:
                if len(_sites) >= _MAX_SITES:
                    _sites.clear()
                known = _sites[key] = code, Site(code.co_filename, frame.f_lineno, code.co_name)
            return known[1]
        frame = frame.f_back  # type: ignore[assignment]
    return None


def user_frame() -> FrameType:
    """The innermost frame that belongs to the user; the outermost one where there is none."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _users_own(site: Site | None) -> Site | None:
    """The line of the user's that has led to *site*, where that is one of the standard library, or of a package."""
    frame: FrameType | None = sys._getframe(2)
    while site is not None and _is_standard(site.file) and frame is not None:
        file = frame.f_code.co_filename
        if not is_internal(file) and not _is_standard(file):
            return Site(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return site


_INSTALLED = f"{os.sep}site-packages{os.sep}"


def _is_labelled(file: str) -> bool:
    """Whether a source file is of a library that calls NumPy with the user's arrays."""
    return any(f"{_INSTALLED}{name}{os.sep}" in file for name in ("pandas", "xarray"))


def _is_standard(file: str) -> bool:
    return f"{_INSTALLED}numba{os.sep}" in file or (file.startswith(_STANDARD) and _INSTALLED not in file)


def is_installed(file: str) -> bool:
    """Whether a source file is of a library: of any, or of Python's."""
    return is_internal(file) or file.startswith(_STANDARD) or _INSTALLED in file or "dist-packages" in file


def warn_at_site(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the user's line; once for each line, as Python's settings have it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and (
        is_internal(frame.f_code.co_filename) or _is_labelled(frame.f_code.co_filename)
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def at_site(message: str, site: Site | None = None) -> str:
    """*message* with the user's line in front."""
    site = site or _users_own(user_site())
    return message if site is None else f"{message}\n  {site.full()}"
