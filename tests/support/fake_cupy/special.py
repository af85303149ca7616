"""The stand-in's ``cupyx.scipy.special``: what is used of it, with CuPy's numbers where they are not SciPy's."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import scipy.special

from .functions import ufunc

NAMES = "betaln erf erfc erfinv ndtr ndtri gammaln pseudo_huber psi rel_entr xlogy zeta".split()

module = types.ModuleType("cupyx.scipy.special")
for _name in NAMES:
    setattr(module, _name, ufunc(getattr(scipy.special, _name)))


def _xlog1py(x: Any, y: Any) -> Any:
    return np.where(np.asarray(x) == 0, np.zeros_like(y), x * np.log1p(y))  # of NaN too


module.xlog1py = ufunc(_xlog1py)  # type: ignore[attr-defined]
module.expit = ufunc(lambda x: 1 / (1 + np.exp(-x)))  # type: ignore[attr-defined]
module.logit = ufunc(lambda x: np.log(x / (1 - x)))  # type: ignore[attr-defined]
