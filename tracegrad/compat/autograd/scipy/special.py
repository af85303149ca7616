"""SciPy's own ``scipy.special``."""

import sys

import scipy.special

sys.modules[__name__] = scipy.special
