"""scipy.special."""

from __future__ import annotations

import numpy as np
import scipy.special as sp

from .case import Case

CASES = [
    Case("scipy.special.logsumexp", sp.logsumexp, [np.array([0.3, -1.2, 2.0])]),
]
