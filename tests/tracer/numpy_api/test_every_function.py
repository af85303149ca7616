"""Every function of NumPy that can be called with traced arrays is recorded, through its own source perhaps, or refused
by name."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import numerical_gradient
from tracing import check_gradient, check_value

from tracegrad import compile_grad
from tracegrad.tracer.ir.errors import UnsupportedError
from tracegrad.tracer.record.array import FUNCTIONS, HINTS, UFUNCS

X = np.array([0.7, 1.3, 0.4, 2.2])
A = np.outer(X, X) + np.diag([1.0, 2.0, 3.0, 4.0])
COUNTS = np.array([0, 1, 1, 0])
MODULES = {
    "np": np,
    "np.linalg": np.linalg,
    "np.fft": np.fft,
    "np.emath": np.emath,
    "np.lib.stride_tricks": np.lib.stride_tricks,
    "np.polynomial.polynomial": np.polynomial.polynomial,
}
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


# name -> a function of X, which is recorded through NumPy's own Python, or has a form for these arguments only
PROGRAMS = {
    "apply_along_axis": lambda a: np.apply_along_axis(np.sum, 1, a.reshape(2, 2)),
    "apply_over_axes": lambda a: np.apply_over_axes(np.sum, a.reshape(2, 2), [0]),
    "arccos": lambda a: np.emath.arccos(a / 3),
    "arcsin": lambda a: np.emath.arcsin(a / 3),
    "arctanh": lambda a: np.emath.arctanh(a / 3),
    "angle": lambda a: np.angle(a) + a,
    "corrcoef": lambda a: np.corrcoef(a[:3], a[1:]),
    "diag_indices_from": lambda a: np.outer(a, a)[np.diag_indices_from(A)],
    "einsum_path": lambda a: np.einsum("i,i", a, a, optimize=np.einsum_path("i,i", a, a)[0]),
    "fftshift": np.fft.fftshift,
    "geomspace": lambda a: np.geomspace(a[0], a[1], 4),
    "histogram": lambda a: np.histogram(X, bins=2, weights=a)[0],
    "histogram2d": lambda a: np.histogram2d(X, X, bins=[[0, 1, 3], [0, 3]], weights=a)[0],
    "histogramdd": lambda a: np.histogramdd(A, bins=[[0.0, 2.0, 9.0]] * 4)[0].sum() * a,
    "histogram_bin_edges": lambda a: np.histogram_bin_edges(a, bins=3),
    "i0": np.i0,
    "ifftshift": lambda a: np.fft.ifftshift(a[:3]),
    "imag": lambda a: np.imag(a) + a,
    "intersect1d": lambda a: np.intersect1d(a, a[:2]),
    "isin": lambda a: np.where(np.isin(np.round(a), [1.0, 2.0]), a, 0.0),
    "isneginf": lambda a: np.where(np.isneginf(a), 0.0, a),
    "isposinf": lambda a: np.where(np.isposinf(a), 0.0, a),
    "ix_": lambda a: np.outer(a, a)[np.ix_([0, 1], [2])],
    "linalg.cross": lambda a: np.linalg.cross(a[:3], a[1:]),
    "linalg.matmul": lambda a: np.linalg.matmul(A, a),
    "linalg.matrix_transpose": lambda a: np.linalg.matrix_transpose(np.outer(a, A[0])),
    "linalg.outer": lambda a: np.linalg.outer(a, a),
    "linalg.tensordot": lambda a: np.linalg.tensordot(A, a, axes=1),
    "log": lambda a: np.emath.log(a),
    "log10": lambda a: np.emath.log10(a),
    "log2": lambda a: np.emath.log2(a),
    "logn": lambda a: np.emath.logn(3, a),
    "nanargmax": lambda a: a[np.nanargmax(a)],
    "nanargmin": lambda a: a[np.nanargmin(a)],
    "nancumprod": np.nancumprod,
    "nancumsum": np.nancumsum,
    "nanpercentile": lambda a: np.nanpercentile(a, 30),
    "nanquantile": lambda a: np.nanquantile(a, 0.3),
    "piecewise": lambda a: np.piecewise(a, [a < 1, a >= 1], [0.5, lambda t: t**2]),
    "poly": np.poly,
    "polyadd": lambda a: np.polyadd(a, a[:2]),
    "polyder": np.polyder,
    "polydiv": lambda a: np.polydiv(a, a[:2])[0],
    "polygrid2d": lambda a: np.polynomial.polynomial.polygrid2d(a[:2], X, A),
    "polyint": np.polyint,
    "polysub": lambda a: np.polysub(a, a[:2]),
    "polyval2d": lambda a: np.polynomial.polynomial.polyval2d(a, X, A),
    "power": lambda a: np.emath.power(a, 2),
    "real_if_close": np.real_if_close,
    "resize": lambda a: np.resize(a, (3, 2)),
    "setdiff1d": lambda a: np.setdiff1d(a, [5.0]),
    "setxor1d": lambda a: np.setxor1d(a, a[:2]),
    "roots": lambda a: np.roots(np.array([1.0, -1.0, -1.0]) * a[:3]),
    "sort_complex": lambda a: np.sort_complex(a).real,
    "sqrt": lambda a: np.emath.sqrt(a),
    "tensorinv": lambda a: np.linalg.tensorinv((np.outer(a, a) + A).reshape(2, 2, 4)),
    "tril_indices_from": lambda a: np.outer(a, a)[np.tril_indices_from(A)],
    "trim_zeros": np.trim_zeros,
    "triu_indices_from": lambda a: np.outer(a, a)[np.triu_indices_from(A, 1)],
    "union1d": lambda a: np.union1d(a, a[:2]),
    "unique_all": lambda a: np.unique_all(np.stack([a, a]))[0],
    "unique_counts": lambda a: np.unique_counts(np.stack([a, a]))[1] * a,
    "unique_inverse": lambda a: np.unique_inverse(np.stack([a, a]))[1] * a,
    "unique_values": lambda a: np.sort(np.unique_values(np.stack([a, a]))),
    "unwrap": lambda a: np.unwrap(a * 4),
    # what has a form of its own
    "choose": lambda a: np.choose(COUNTS, [a, a**2]) + np.choose((a > 1).astype(int), [a, 2.0], mode="clip"),
    "gradient": lambda a: np.stack([np.gradient(a, X), np.gradient(a, edge_order=2), np.gradient(a)]),
    "interp": lambda a: np.interp([0.5, 5.5, -1.0], [0.0, 1.0, 3.0, 2.0], a, period=4.0),
    "kaiser": lambda a: np.kaiser(4, a[0]) + np.kaiser(4, 2.0) * a,
    "lexsort": lambda a: a[np.lexsort((a, COUNTS))],
    "linalg.vecdot": lambda a: np.linalg.vecdot(A, a, axis=0),
    "median": lambda a: np.nanmedian(a.reshape(2, 2), axis=1),
    "nanstd": lambda a: np.append(np.nanstd(np.where(a > 2, np.nan, a)), np.nanvar(a.reshape(2, 2), axis=0, ddof=1)),
    "polymul": lambda a: np.polymul(a, a[:2]),
    "ravel_multi_index": lambda a: a[np.ravel_multi_index((np.argmax(a.reshape(2, 2), axis=0), [0, 1]), (2, 2))],
    "unravel_index": lambda a: np.outer(a, a)[np.unravel_index(np.argmax(np.outer(a, a)), (4, 4))],
    "unique": lambda a: np.unique(np.append(np.stack([a, a]), [np.nan, np.nan]))[:-1],
    "unique options": lambda a: np.unique(np.stack([a, a]), return_inverse=True, return_counts=True)[2] * a,
    "cov": lambda a: np.cov(a[:3], a[1:], aweights=[1.0, 2.0, 3.0]),
    "percentile": lambda a: np.percentile(a, [25, 75], method="nearest"),
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
PIECES = ("piecewise", "i0", "unwrap")


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name):
    check_value(PROGRAMS[name], [X])
    check_gradient(PROGRAMS[name], [X], tol=2e-5)


def test_every_function_is_recorded_or_refused_by_name():
    missing = []
    for title, module in MODULES.items():
        for name in dir(module):
            function = getattr(module, name)
            if isinstance(function, OVERRIDABLE) and function not in FUNCTIONS and function not in UFUNCS:
                short = f"{title.removeprefix('np.')}.{name}"
                if not {name, short} & (PROGRAMS.keys() | HINTS.keys()):
                    missing.append(f"{title}.{name}")
    assert missing == []


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
        "nested_iters": lambda a: np.frexp(a)[0][0],
        "resize": lambda a: a.copy().resize((2, 2)),
    }
    for f in refused.values():
        with pytest.raises(UnsupportedError, match=r"(?s)traced.*test_every_function\.py"):
            compile_grad(f).grad(X)
