"""Special functions: the ufuncs of ``scipy.special``, which take Tensors and have their derivatives.

No part of the standard, yet: SciPy asks a namespace for ``special`` (with ``SCIPY_ARRAY_API=1``), and otherwise turns
tensors into NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special


def _ufunc(name: str) -> Any:
    found = getattr(scipy.special, name, None)
    found = getattr(found, "__wrapped__", found)  # by a function that asks the namespace
    return found if isinstance(found, np.ufunc) else None


def __getattr__(name: str) -> Any:
    found = _ufunc(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has the ufuncs of scipy.special")
    return found


def __dir__() -> list[str]:
    return [name for name in dir(scipy.special) if _ufunc(name) is not None]
