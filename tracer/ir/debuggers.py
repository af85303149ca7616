"""Code that a debugger or a console runs within the user's function: it looks at values, and is no part of the program.

Traced values give it plain numbers without a guard, and an operation that it is refused does not fail the call."""

from __future__ import annotations

import os
import sys
from types import FrameType

from .site import OWN_FOLDER

_STANDARD = os.path.dirname(os.path.abspath(os.__file__))
_FILES = frozenset(os.path.join(_STANDARD, f"{name}.py") for name in ("bdb", "pdb", "code"))
_PACKAGES = frozenset((
    "IPython", "ipdb", "pudb", "pdbpp", "pydevd", "_pydevd_bundle", "debugpy", "wdb", "rpdb", "remote_pdb", "web_pdb",
    "ptpython", "bpython",
))  # fmt: skip


def looks_on() -> bool:
    """Whether a debugger, a console or the hook of ``breakpoint()`` stands between the code that calls one of ours and
    the function that is recorded."""
    hook = None if sys.breakpointhook is sys.__breakpointhook__ else _code_of(sys.breakpointhook)
    if hook is None and "bdb" not in sys.modules and "code" not in sys.modules and "IPython" not in sys.modules:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        frame = frame.f_back
    while frame is not None and not frame.f_code.co_filename.startswith(OWN_FOLDER):
        code = frame.f_code
        if code is hook or code.co_filename in _FILES:
            return True
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _PACKAGES:
            return True
        frame = frame.f_back
    return False


def _code_of(hook: object) -> object:
    """The code of a function, a method, or an object that is called."""
    functions = hook, getattr(hook, "__func__", None), vars(type(hook)).get("__call__")
    return next((found for f in functions if (found := getattr(f, "__code__", None)) is not None), None)
