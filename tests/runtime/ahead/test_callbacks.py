"""scipy.LowLevelCallable: what SciPy's compiled code gets is what Python would have got."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
import scipy.integrate
import scipy.ndimage

from tracegrad import UnsupportedError, compile_grad

PARAMETERS = np.array([2.0, 1.0])


@compile_grad
def bump(x):
    return np.exp(-x * x) * np.cos(3 * x)


@compile_grad
def of_three(x, y, z):
    return np.sin(x * y) + z


@compile_grad
def of_vector(x, p):
    return p[0] * np.sum(x**2) + p[1]


@compile_grad
def decay(x, p):
    return np.exp(-p[0] * x)


@compile_grad
def spread(window):
    return np.max(window) - np.min(window)


def test_quad():
    found = bump.as_low_level_callable(0.5)
    assert found.signature == "double (double)"
    assert scipy.integrate.quad(found, 0, 2) == scipy.integrate.quad(bump, 0, 2)
    slope = bump.as_low_level_callable(0.5, mode="grad")
    assert np.isclose(scipy.integrate.quad(slope, 0, 2)[0], bump(2.0) - bump(0.0))


def test_nquad():
    found = of_three.as_low_level_callable(0.5, 0.5, 0.5)
    assert found.signature == "double (int, double *)"
    expected = scipy.integrate.nquad(lambda x, y, z: np.sin(x * y) + z, [[0, 1]] * 3)[0]
    assert np.isclose(scipy.integrate.nquad(found, [[0, 1]] * 3)[0], expected, rtol=1e-13)


def test_arrays_and_users_data():
    found = of_vector.as_low_level_callable(np.zeros(2), PARAMETERS, user_data=PARAMETERS)
    assert found.signature == "double (int, double *, void *)"
    assert np.isclose(scipy.integrate.nquad(found, [[0, 1]] * 2)[0], 2 * 2 / 3 + 1)
    found = decay.as_low_level_callable(0.5, PARAMETERS, user_data=PARAMETERS)
    assert np.isclose(scipy.integrate.quad(found, 0, 1)[0], (1 - np.exp(-2)) / 2)


def test_generic_filter():
    image = np.random.default_rng(0).normal(size=(20, 30))
    found = spread.as_low_level_callable(np.zeros(9), signature="int (double *, npy_intp, double *, void *)")
    filtered = scipy.ndimage.generic_filter(image, found, 3)
    assert np.array_equal(filtered, scipy.ndimage.generic_filter(image, spread, 3))


def test_another_number_of_elements_is_no_number():
    found = of_three.as_low_level_callable(0.5, 0.5, 0.5)
    with pytest.warns(scipy.integrate.IntegrationWarning):
        assert np.isnan(scipy.integrate.nquad(found, [[0, 1]] * 2)[0])


@compile_grad
def doubled(x):
    return x * 2


@pytest.mark.parametrize(
    ("error", "message", "make"),
    [
        (ValueError, "signature: one of", lambda: bump.as_low_level_callable(0.5, signature="void (int)")),
        (UnsupportedError, "one number", lambda: of_three.as_low_level_callable(
            0.5, 0.5, 0.5, signature="double (double)")),
        (UnsupportedError, "one float64 number", lambda: doubled.as_low_level_callable(np.ones(2))),
        (TypeError, "user_data", lambda: decay.as_low_level_callable(0.5, PARAMETERS, user_data=PARAMETERS[:1])),
        (ValueError, "no void", lambda: decay.as_low_level_callable(
            0.5, PARAMETERS, user_data=PARAMETERS, signature="double (double)")),
    ],
)  # fmt: skip
def test_errors(error, message, make):
    with pytest.raises(error, match=message):
        make()
