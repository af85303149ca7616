"""Every function of NumPy that can be called with traced arrays is recorded, through its own source perhaps, or refused
by name."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient
from coverage_table import all_cases
from coverage_table.no_derivative import BY_NATURE, DATA_ONLY
from numpy import maximum
from selection import NUMPY_NOW
from tracing import check_gradient, check_value

from tracegrad import compile_grad
from tracegrad.tracer.ir.errors import UnsupportedError
from tracegrad.tracer.record.array import FUNCTIONS, HINTS, UFUNCS

X = np.array([0.7, 1.3, 0.4, 2.2])
A = np.outer(X, X) + np.diag([1.0, 2.0, 3.0, 4.0])
COUNTS = np.array([0, 1, 1, 0])
MODULES = (np, np.linalg, np.fft, np.emath, np.lib.stride_tricks, np.polynomial.polynomial)
OVERRIDABLE = type(np.mean), np.ufunc


def written(make, *args, **kwargs):
    """What a function that writes leaves in its first argument."""

    def call(function, a):
        z = make(a)
        function(z, *[arg(a) if callable(arg) else arg for arg in args], **kwargs)
        return z

    return call


@np.vectorize
def bent(t):
    return np.sin(t) if t > 1 else t


# programs of X beside the calls of the table of test domains
PROGRAMS = {
    "histogram of rows": lambda a: np.histogramdd(A, bins=[[0.0, 2.0, 9.0]] * 4)[0].sum() * a,
    "choose": lambda a: np.choose(COUNTS, [a, a**2]) + np.choose((a > 1).astype(int), [a, 2.0], mode="clip"),
    "lexsort": lambda a: a[np.lexsort((a, COUNTS))],
    "ravel_multi_index": lambda a: a[np.ravel_multi_index((np.argmax(a.reshape(2, 2), axis=0), [0, 1]), (2, 2))],
    "unravel_index": lambda a: np.outer(a, a)[np.unravel_index(np.argmax(np.outer(a, a)), (4, 4))],
    "unique": lambda a: np.unique(np.append(np.stack([a, a]), [np.nan, np.nan]))[:-1],
    "vectorize": lambda a: np.vectorize(lambda t: t @ t, signature="(n)->()")(np.outer(a, a)) + bent(a),
    "fromiter": lambda a: np.fromiter((t * t for t in a), dtype=float, count=3),
    "frompyfunc": lambda a: np.frompyfunc(lambda s, t: s * t if s > 1 else t, 2, 1)(a, 2.0).astype(float),
    "sliding windows": lambda a: np.lib.stride_tricks.sliding_window_view(np.outer(a, a), (2, 3)),
    "as_strided": lambda a: np.lib.stride_tricks.as_strided(a, (3, 2), (a.strides[0], a.strides[0])),
    "arange": lambda a: np.arange(a[0], a[3] - 0.1, 0.5) * np.arange(3.0),
    "indices": lambda a: np.indices((2, 2))[0] * a.reshape(2, 2) + np.mgrid[0:2, 0:2][1] * np.ogrid[a[0] : a[1] : 2j],
    "layout": lambda a: np.asfortranarray(np.outer(a, a)) * np.require(a, float, "C") + np.asarray_chkfinite(a),
    "polynomials": lambda a: (
        np.polynomial.Polynomial(a).deriv()(2.0)
        + np.polynomial.Chebyshev(a)(0.4)
        + np.polynomial.legendre.legval(a, [1.0, 2.0])
        + np.polynomial.hermite_e.hermeval(0.2, a)
        + np.polynomial.chebyshev.chebvander(a, 2).sum(axis=1)
        + np.poly1d(a)(2.0)
        + np.poly1d([1.0, 2.0])(a)
    ),
    "accumulate": lambda a: np.stack([np.maximum.accumulate(a), np.logaddexp.accumulate(a), np.fmin.accumulate(a)]),
    "reduceat": lambda a: np.append(np.add.reduceat(a, [0, 2, 1]), np.maximum.reduceat(np.outer(a, a), [1, 2], axis=1)),
    "at": lambda a: (
        written(np.ones_like, [0, 1, 1, 1], lambda a: a)(np.multiply.at, a)
        + written(np.zeros_like, [0, 1, 1, 2], lambda a: a)(np.maximum.at, a)
    ),
    "writing": lambda a: np.concatenate(
        [
            written(np.zeros_like, [True, False, True, True], lambda a: a[:2])(np.place, a),
            written(np.zeros_like, [True, False, True, True], lambda a: a[:2])(np.putmask, a),
            written(np.zeros_like, [1, 2, 3], lambda a: a[:2])(np.put, a),
            written(lambda a: np.outer(a, a), lambda a: a[:2])(np.fill_diagonal, a).ravel(),
            np.divide(1.0, a, out=np.zeros_like(a), where=a > 0.5),
        ]
    ),
    "where and initial": lambda a: np.stack(
        [
            np.sum(a, where=[True, False, True, True], initial=2.0),
            np.prod(a, where=a > 0.5, initial=a[1]),
            np.max(a, initial=0.5, where=a < 1.0),
            np.min(a[:0], initial=3.0) * a[0],
            np.mean(a, where=a > 0.5),
            np.var(a, where=a > 0.5, ddof=1),
            np.std(np.stack([a, 2 * a]), axis=0, where=[[True], [False]])[1] + a[0],
            np.any(a > 2, where=[True, True, True, False]) * a[0],
            np.maximum.reduce(a, initial=0.0),
        ]
    ),
    "methods of plain arrays": lambda a: (
        np.eye(4).dot(a) + np.arange(4.0).clip(a[2], a[0]) + np.ones(4).take(COUNTS * 2)
    ),
    "wrapped diagonal": lambda a: written(lambda a: a[:1] * np.ones((8, 2)), 2.0, wrap=True)(np.fill_diagonal, a),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name):
    check_value(PROGRAMS[name], [X])
    check_gradient(PROGRAMS[name], [X], tol=2e-5)


@NUMPY_NOW
def test_every_function_is_recorded_or_refused_by_name():
    """Recorded is what the table of test domains has rows of."""
    known = {case.name for case in all_cases()} | BY_NATURE | DATA_ONLY
    missing = set()
    for module in MODULES:
        for name, function in vars(module).items():
            if isinstance(function, OVERRIDABLE) and function not in FUNCTIONS and function not in UFUNCS:
                full = f"{getattr(function, '__module__', 'numpy')}.{function.__name__}"
                if full not in known and name not in HINTS:
                    missing.add(full)
    assert sorted(missing) == []


@NUMPY_NOW
def test_every_method_is_recorded_or_refused_by_name():
    def asked(name):
        try:
            compile_grad(lambda a: (getattr(a, name), np.sum(a))[1]).grad(A)
        except UnsupportedError as error:
            return name in HINTS and HINTS[name] in str(error)
        return True

    assert [name for name in dir(np.ndarray) if not name.startswith("_") and not asked(name)] == []


def test_numbers_of_elements():
    """A 0-d truth value as an index is a question."""

    def f(a):
        t = a[0]
        return np.i0(t) + np.piecewise(t, [t < 1, t >= 1], [lambda s: s**2, 3.0]) + np.sum(t[t > 1])

    compiled = compile_grad(f)
    for x in (X, X, 2 * X):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)


def test_arrays_that_numpys_code_fills_elsewhere():
    def f(a):
        return sum(np.pad(a, 2, mode)[:5] @ a[[0, 1, 2, 3, 0]] for mode in ("mean", "linear_ramp", "maximum"))

    compiled = compile_grad(f)
    for x in (X, X, 2 * X):
        np.testing.assert_allclose(compiled.grad(x), numerical_gradient(f, (x,)), rtol=1e-5)


def test_lists_that_code_has_made():
    """Methods of ufuncs, and functions that are recorded through their source, of lists and of names of globals."""

    def f(a):
        rows = [a, 2.0 * a]
        above = [row > 1.0 for row in rows]
        coefficients = []
        for k in range(3):
            coefficients.append(a[k])
        kept = np.where(np.logical_or.reduce(above), a, 0.0)
        return np.sum(maximum.reduce(rows) * kept) + np.polyint(coefficients)[0] + np.sum(np.fft.fft(rows).real)

    compiled = compile_grad(f)
    for x in (X, X, 2 * X):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(compiled.grad(x), numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-7)


def test_windows_are_views():
    def f(a):
        z = a.copy()
        windows = np.lib.stride_tricks.sliding_window_view(z, 2)
        pairs = np.lib.stride_tricks.as_strided(z, (2, 2), (16, 8))
        z[1] = a[0] * 3
        z.shape = (2, 2)
        return np.sum(windows[:2] * pairs) * z[1, 1]

    compiled = compile_grad(f)
    for x in (X, X, 2 * X):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)


def test_refused_by_name():
    refused = {
        "masked": lambda a: np.sum(np.ma.masked_array(a, COUNTS)),
        "asmatrix": lambda a: np.sum(np.asmatrix(a)),
        "flags": lambda a: float(np.asfortranarray(np.outer(a, a)).flags.owndata),
        "spacing": lambda a: np.spacing(a)[0],
        "resize": lambda a: a.copy().resize((2, 2)),
    }
    for f in refused.values():
        with pytest.raises(UnsupportedError, match=r"(?s)traced.*test_every_function\.py"):
            compile_grad(f).grad(X)
