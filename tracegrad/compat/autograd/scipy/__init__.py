"""SciPy's own modules, under HIPS autograd's names.  Each is imported when it is asked for."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name not in ("integrate", "linalg", "misc", "signal", "special", "stats"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
