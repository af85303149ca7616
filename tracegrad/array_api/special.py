"""Special functions: the ufuncs of ``scipy.special``, which take Tensors and have their derivatives.

No part of the standard, yet: SciPy asks a namespace for ``special`` (with ``SCIPY_ARRAY_API=1``), and otherwise turns
tensors into NumPy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tracer.ops import scipy_ufuncs


def __getattr__(name: str) -> Any:
    found = getattr(scipy_ufuncs, name, None)
    if not isinstance(found, np.ufunc):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has the ufuncs of scipy.special")
    return found


def __dir__() -> list[str]:
    return [name for name in dir(scipy_ufuncs.scipy.special) if isinstance(getattr(scipy_ufuncs, name), np.ufunc)]
