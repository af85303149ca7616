"""NumPy and SciPy at the ends of the range of numbers: infinities, zeros of both signs, subnormal and huge numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sp
from selection import some

from tracegrad import autograd, compile_grad
from tracegrad.tracer.ops.special import SPECIAL
from tracegrad.tracer.record.array import UFUNCS

INF, NAN = np.inf, np.nan
EXTREMES = [0.0, 1.0, 0.5, 1.5, 2.0, 7.25, INF, 1e-310, 5e-324, 1e-200, 1e-20, 1e-8, 1e10, 1e15, 1e16, 1e200, 1.7e308]
EXTREMES += [0.3, 20.0, 100.0, 709.0, 745.0, 1 - 1e-10, 0.5 + 1e-12]
VALUES = np.array([NAN, *EXTREMES, *[-x for x in EXTREMES]])
WITHIN = np.finfo(np.float32)
SUMS_OF_PRODUCTS = ("convolve", "convolve with zeros", "correlate")
NOT_COMPARED = ("fmax", "fmin")  # of zeros of two signs NumPy itself gives either, by the width of its vectors


def ufuncs() -> list[Any]:
    """Of floats; those with rows in tables of scipy.special are SciPy's own code (tests/tracer/ops/test_special.py)."""
    own = [u for u in UFUNCS if u not in SPECIAL and not u.signature]
    floats = [u for u in own if any(set(t.split("->")[0]) <= set("dl") for t in u.types)]
    return sorted((u for u in floats if "d" in "".join(u.types)), key=lambda u: u.__name__)


def operands(ufunc: Any, dtype: Any) -> list[np.ndarray]:
    values = VALUES.astype(dtype)
    found = [np.ascontiguousarray(x.ravel()) for x in np.meshgrid(*[values] * ufunc.nin, indexing="ij")]
    if ufunc is np.ldexp:
        powers = np.array([0, 1, -1, 30, -149, 200, 1100, -1074, -1100, 2000, -2200, 10**6])
        found = [x.ravel() for x in np.meshgrid(values, powers, indexing="ij")]
    return found


def agree(found: Any, expected: Any, tolerance: float) -> np.ndarray:
    """Elements that agree, to *tolerance* relative; subnormal results may be a few numbers off."""
    if expected.dtype.kind != "f":
        return np.asarray(found == expected)
    limits = np.finfo(expected.dtype)
    difference = np.abs(np.subtract(found, expected, dtype=float))
    allowed = np.where(np.abs(expected) < limits.tiny, 64 * float(limits.smallest_subnormal), 0)
    near = np.isfinite(found) & np.isfinite(expected)
    close = difference <= np.maximum(tolerance * np.abs(expected, dtype=float), allowed)
    return (found == expected) | (np.isnan(found) & np.isnan(expected)) | (near & close)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", some([np.float64, np.float32], quick=1), ids=lambda d: d.__name__)
@pytest.mark.parametrize("ufunc", ufuncs(), ids=lambda u: u.__name__)
def test_ufuncs(ufunc: Any, dtype: Any) -> None:
    xs = operands(ufunc, dtype)
    try:
        expected = ufunc(*xs)
    except TypeError:
        pytest.skip("not of floats")
    found = compile_grad(lambda *xs: ufunc(*xs))(*xs)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for one, other in pairs:
        assert one.dtype == other.dtype
        good = agree(one, other, 1e-9 if dtype == np.float64 else 1e-5)
        if ufunc in (sp.kl_div, sp.ndtr):  # cancels in float32, where SciPy takes float64; has digits that SciPy loses
            good |= (np.abs(one - other) <= 1e-4 * np.abs(other)) | (other >= 1e38) | (np.abs(other) < 1e-300)
        if one.dtype.kind == "f" and ufunc.__name__ not in NOT_COMPARED:
            good &= (np.signbit(one) == np.signbit(other)) | np.isnan(other)
        assert good.all(), [(*[x[i] for x in xs], one[i], other[i]) for i in np.flatnonzero(~good)[:5]]


ARRAYS = [
    [INF, 2, -1], [1, INF, 0.0], [0, INF, 3], [INF, -INF, 1], [-INF, -INF], [INF], [0.0], [1e300, 1e300, 1e-300],
    [1e-310, 1e-310, 1.0], [NAN, 1, 2], [1, NAN, INF], [2.5, -1.25, 3, 0, 7], [-INF, 0, 1], [1e308, 1e308, -1e308],
    [1e-200, 1e200, 1e-200, 1e200], [1e16, 1, -1e16],
]  # fmt: skip
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "cumprod": np.cumprod,
    "cumprod of columns": lambda x: np.cumprod(np.stack([x, x]), axis=0),
    "cumulative_prod": lambda x: np.multiply.accumulate(x),
    "cumsum": np.cumsum,
    "prod": np.prod,
    "convolve": lambda x: np.convolve(x, x),
    "convolve with zeros": lambda x: np.convolve(x, [1.0, 0.0, -1.0]),
    "correlate": lambda x: np.correlate(x, x, "full"),
    "interp": lambda x: np.interp(x, [0.0, 1.0, 2.0], [3.0, 4.0, INF]),
    "interp of heights": lambda x: np.interp([0.5, INF, -INF, NAN], np.arange(len(x) * 1.0), x),
    "quantile": lambda x: np.quantile(x, 0.3),
    "percentile": lambda x: np.percentile(x, [10, 60]),
    "median": np.median,
    "softmax": sp.softmax,
    "log_softmax": sp.log_softmax,
    "logsumexp": sp.logsumexp,
    "modf": lambda x: np.stack(np.modf(x)),
    "mean": np.mean,
    "var": np.var,
    "norm": np.linalg.norm,
    "diff": np.diff,
    "trapezoid": lambda x: np.sum((x[1:] + x[:-1]) / 2),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    for values in ARRAYS:
        x = np.array(values)
        found, expected = compile_grad(FUNCTIONS[name])(x), FUNCTIONS[name](x)
        if name in SUMS_OF_PRODUCTS and np.all(np.isfinite(x)):
            within = np.isfinite(FUNCTIONS[name](np.abs(x)))  # elsewhere inf - inf, unless BLAS adds without rounding
            found, expected = found[within], expected[within]
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=str(values))


def test_products_are_in_order() -> None:
    x = np.exp(np.random.default_rng(0).normal(size=5000) * 20)  # parts of the product are no numbers
    for part in (x, x[::3], x[:77]):
        np.testing.assert_array_equal(compile_grad(np.prod)(part), np.prod(part))


def test_signs_of_zeros() -> None:
    for f, values in ((np.cumsum, [-0.0, -0.0, 0.0]), (np.cumprod, [-9.0, 0.0, 7.0]), (np.cumprod, [-0.0, 1.0])):
        x = np.array(values)
        np.testing.assert_array_equal(np.signbit(compile_grad(f)(x)), np.signbit(f(x)))


@pytest.mark.parametrize(
    ("values", "element", "expected"),
    [
        ([1, INF, INF], 0, [1, 0, 0]),
        ([2, 3, INF], 1, [3, 2, 0]),
        ([2, 0, 5], 2, [0, 10, 0]),
        ([0, 0, 3], 1, [0, 0, 0]),
        ([INF, 2, -1], 0, [1, 0, 0]),
    ],
)
def test_gradient_of_cumprod(values: list[float], element: int, expected: list[float]) -> None:
    x = np.array(values, float)
    np.testing.assert_array_equal(autograd.grad(lambda x: np.cumprod(x)[element])(x), expected)
    masked = autograd.grad(lambda x: np.sum(np.where(np.arange(3) == element, np.cumprod(x), 0.0)))
    np.testing.assert_array_equal(masked(x), expected)


ORIGINS: dict[str, Callable[[Any], Any]] = {
    "std": np.std,
    "std of a column": lambda x: np.sum(np.std(np.stack([x, x]), axis=0)),
    "norm": np.linalg.norm,
    "norm of rows": lambda x: np.sum(np.linalg.norm(np.stack([x, 2 * x]), axis=1)),
    "frobenius": lambda x: np.linalg.norm(np.stack([x, x])),
    "hypot": lambda x: np.sum(np.hypot(x, 3 * x)),
    "arctan2": lambda x: np.sum(np.arctan2(x, 2 * x)),
    "var": np.var,
}


@pytest.mark.filterwarnings("ignore:the loss that:UserWarning")
@pytest.mark.parametrize("size", some([1, 3], quick=1))
@pytest.mark.parametrize("name", ORIGINS)
def test_derivatives_where_a_root_is_zero(name: str, size: int) -> None:
    f = ORIGINS[name]
    for order in range(1, 4):
        if name == "var" and order == 2 and size > 1:
            break  # the only one of them that is smooth: its second derivative is not 0
        f = autograd.grad(lambda x, f=f: np.sum(f(x)))
        np.testing.assert_array_equal(f(np.zeros(size)), np.zeros(size), err_msg=f"{name}, order {order}")


def test_std_of_one_element_has_second_derivative_zero() -> None:
    first = autograd.grad(lambda x: np.sum(np.std(x)))
    np.testing.assert_array_equal(autograd.grad(lambda x: np.sum(first(x)))(np.array([2.0])), [0.0])


def test_gradient_of_arctan2_far_out() -> None:
    for scale in (1e-200, 1e-10, 1e200):
        by_y, by_x = autograd.grad(lambda y, x: np.arctan2(y, x), (0, 1))(3 * scale, 4 * scale)
        np.testing.assert_allclose([by_y * scale, by_x * scale], [4 / 25, -3 / 25])


POINTS = [(1e10, 2.0), (1.0, 1e-200), (1e-5, 1e5), (3.0, 3.0 + 1e-9), (1e-300, 1e7), (2.0, 1e-310)]


@pytest.mark.parametrize(("x", "y"), POINTS)
def test_gradients_of_composed_functions_at_extremes(x: float, y: float) -> None:
    with np.errstate(over="ignore"):
        by_x, by_y = autograd.grad(lambda x, y: sp.rel_entr(x, y), (0, 1))(x, y)
        np.testing.assert_allclose([by_x, by_y], [np.log(x) - np.log(y) + 1, -np.divide(x, y)], rtol=1e-13)
        by_delta, by_r = autograd.grad(lambda d, r: sp.pseudo_huber(d, r), (0, 1))(x, y)
        np.testing.assert_allclose(by_r, y / np.hypot(1, np.divide(y, x)), rtol=1e-13)
        ratio = np.divide(y, x)
        root = np.hypot(1, ratio)
        expected = x * (ratio**2 / (1 + root)) ** 2 / root if root < 1e75 else y
        np.testing.assert_allclose(by_delta, expected, rtol=1e-13)
