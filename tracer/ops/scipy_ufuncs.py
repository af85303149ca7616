"""The names of scipy.special, its ufuncs as they are.

With ``SCIPY_ARRAY_API=1`` SciPy has functions in their place, which ask the namespace of their arguments; they answer
arrays by these ufuncs, and tables of rows are keyed by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special


def __getattr__(name: str) -> Any:
    found = getattr(scipy.special, name)
    behind = getattr(found, "__wrapped__", found)
    return behind if isinstance(behind, np.ufunc) else found
