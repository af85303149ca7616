"""Value and gradient of a compiled function, beside plain Python and its difference along one direction."""

from __future__ import annotations

import numpy as np

STARTS = [np.array([0.5, 1.0, 1.5]) + 0.1 * k for k in range(3)]
ALONG = np.array([0.6, -0.3, 0.7])


def check(f, compiled, rtol, atol):
    """*compiled* has the value and the slope of *f*, a function of three numbers; *rtol* is that of the value, *atol*
    that of the slope."""
    for x in STARTS:
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=rtol)
        slope = (f(x + 1e-6 * ALONG) - f(x - 1e-6 * ALONG)) / 2e-6
        np.testing.assert_allclose(gradient @ ALONG, slope, rtol=1e-5, atol=atol)
