"""SciPy's own ``scipy.integrate``."""

import sys

import scipy.integrate

sys.modules[__name__] = scipy.integrate
