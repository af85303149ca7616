"""SciPy's own ``scipy.linalg``."""

import sys

import scipy.linalg

sys.modules[__name__] = scipy.linalg
