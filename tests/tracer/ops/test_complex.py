"""Functions of complex numbers: values on a grid with branch cuts, zeros and signed zeros; gradients of both orders."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from agreement import complex_gradient, numerical_gradient

from tracegrad import autograd, compile_grad

_REAL = [-30.0, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 30.0]
GRID = np.array([complex(a, b) for a in _REAL for b in _REAL])
RNG = np.random.default_rng(3)
POINTS = np.array([0.7 + 0.4j, -0.6 + 0.9j, -1.3 - 0.2j, 0.2 - 1.6j, 2.1 + 0.1j])

GROUPS: dict[str, tuple[Any, ...]] = {
    "exponentials": (np.exp, np.expm1, np.exp2, np.log, np.log2, np.log10, np.log1p, np.sqrt),
    "trigonometric": (np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh),
    "inverse": (np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh),
    "algebraic": (
        np.square, np.reciprocal, np.abs, np.sign, np.conj, np.negative, np.angle, np.real, np.imag,
        lambda z: z**3, lambda z: z**-2, lambda z: z**0.5, lambda z: z ** (0.3 - 0.2j), lambda z: 2.0**z,
        lambda z: 1j * z - 2.0 * z, lambda z: (3 - 1j) / (z + 4), lambda z: z / (2 - 5j), lambda z: z * np.conj(z),
    ),
}  # fmt: skip
SLOW = pytest.mark.slow


def _with_slow(quick: str) -> list[Any]:
    return [quick, *[pytest.param(name, marks=SLOW) for name in GROUPS if name != quick]]


def _all(functions: Any) -> Any:
    return lambda z: [f(z) for f in functions]


@pytest.mark.parametrize("name", _with_slow("exponentials"))
def test_values_on_a_grid(name: str) -> None:
    """To within 1e-13 of NumPy's, on the same side of each branch cut; single precision likewise."""
    plain = _all(GROUPS[name])
    compiled = compile_grad(plain)
    with np.errstate(all="ignore"):
        for z, limit in ((GRID, 1e-13), (GRID.astype(np.complex64), 2e-6)):
            for k, (ours, theirs) in enumerate(zip(compiled(z), plain(z), strict=True)):
                assert ours.dtype == theirs.dtype
                finite = np.isfinite(theirs)
                assert not np.isfinite(ours[~finite]).any(), (k, z[~finite])
                error = np.abs(ours - theirs)[finite] / np.maximum(np.abs(theirs[finite]), 1e-30)
                assert error.max() < limit, (k, z[finite][error.argmax()], error.max())


@pytest.mark.parametrize("name", _with_slow("trigonometric"))
def test_gradients_of_both_orders(name: str) -> None:
    functions = GROUPS[name]
    weights = RNG.normal(size=(2, len(functions), len(POINTS)))

    def loss(z: Any) -> Any:
        total = 0.0
        for f, u, v in zip(functions, *weights, strict=True):
            w = f(z)
            total = total + np.sum(u * np.real(w) + v * np.imag(w))
        return total

    compiled = compile_grad(loss)
    gradient = compiled.grad(POINTS)
    assert gradient.dtype == np.complex128
    np.testing.assert_allclose(gradient, complex_gradient(loss, POINTS), rtol=1e-6, atol=1e-6)
    single = compiled.grad(POINTS.astype(np.complex64))
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, gradient, rtol=3e-4, atol=3e-4)

    def slope(z: Any) -> Any:
        return np.sum(np.abs(autograd.grad(loss)(z)) ** 2)

    found = compile_grad(slope).grad(POINTS)
    expected = complex_gradient(lambda z: np.sum(np.abs(compiled.grad(z)) ** 2), POINTS)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@SLOW
def test_two_operands() -> None:
    """With complex and real operands, arrays and numbers, in all of NumPy's dtypes of results."""
    w, x = RNG.normal(size=100) + 1j * RNG.normal(size=100), RNG.normal(size=100)
    ufuncs = (
        np.add, np.subtract, np.multiply, np.divide, np.power, np.equal, np.not_equal, np.less, np.less_equal,
        np.greater, np.greater_equal, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or,
    )  # fmt: skip

    def run(z: Any, w: Any, x: Any) -> Any:
        found = [f(a, b) for f in ufuncs for a, b in ((z, w), (x, w), (w, x), (w, 2.0), (3, w), (w, 1 - 2j))]
        return [*found, z + 0, w * np.float32(2), x * (1 + 1j), np.float64(2) * w, x[0] * 1j, 1j * x, w**2]

    z = GRID + 0.25
    compiled = compile_grad(run)
    for w_ in (w, w.astype(np.complex64)):
        for ours, theirs in zip(compiled(z, w_, x), run(z, w_, x), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-12 if w_ is w else 1e-5)


def test_zeros_of_a_real_operand_have_numpys_signs() -> None:
    """They decide on which side of a branch cut a product lies."""
    z = np.array([complex(a, b) for a in (-2.0, 3.0) for b in (0.0, -0.0)])

    def run(z: Any, t: Any) -> Any:
        return [np.sqrt(v) for v in (-1 * z, 2.0 * z, z * t, 1 - z, z - 1, -z, z * (-1 + 0j), z.conj(), z + 0j, 1j * z)]

    for t in (-1.0, 2.0):
        for ours, theirs in zip(compile_grad(run)(z, t), run(z, t), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-14)


def test_extreme_numbers() -> None:
    """Quotients, sizes and logarithms do not leave the range of numbers on their way."""
    z = np.array([1e300 + 1e300j, 1e-300 - 1e-300j, -1e200 + 1e-200j, 1e-8 + 1j, 1 + 1e-12j])

    def run(z: Any) -> Any:
        return np.abs(z), z / z, 1 / z, np.log(z), np.sqrt(z), np.tanh(z)

    compiled = compile_grad(run)
    for ours, theirs in zip(compiled(z), run(z), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    rising = compile_grad(lambda z: np.sum(np.exp(z).imag)).grad(np.array([3 + 0j, 3 - 0j]))
    np.testing.assert_allclose(rising, -1j * np.exp(3), rtol=1e-14)


@SLOW
def test_reductions_and_order() -> None:
    z = (RNG.normal(size=(3, 5)).round(1) + 1j * RNG.normal(size=(3, 5)).round(1)) * [1, 1, 0, 1j, 1]
    functions = (
        np.sum, np.mean, np.prod, np.var, np.std, np.max, np.min, np.any, np.all, np.cumsum, np.cumprod,
        np.count_nonzero, np.argmax, np.argmin, np.linalg.norm, np.nansum, np.ptp, np.sort, np.median, np.average,
        np.diff, np.gradient,
    )  # fmt: skip

    def run(z: Any) -> Any:
        found = [f(z, axis=1) for f in functions if f is not np.gradient]
        return [*found, *[f(z[1]) for f in functions], np.trace(z), np.prod(z), np.linalg.norm(z, "fro"), np.cov(z)]

    for ours, theirs in zip(compile_grad(run)(z), run(z), strict=True):
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


@SLOW
def test_structure_and_products() -> None:
    a, b = (RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)) for _ in range(2))

    def run(a: Any, b: Any) -> Any:
        v, w = a[0], b[:, 1]
        return [
            a @ b, a @ w, v @ b, np.dot(v, w), np.vdot(a, b), np.inner(a, b), np.outer(v, w), np.kron(a, b),
            np.einsum("ij,kj->ik", a, b.conj()), np.tensordot(a, b, 1), np.convolve(v, w), np.correlate(v, w, "full"),
            np.cross(v, w), np.linalg.matrix_power(a, 3), np.linalg.multi_dot([a, b, a]), a @ b.real, b.imag @ a,
            np.stack([v, w.real]), np.concatenate([v, w]), np.where(a.real > 0, a, b.real), np.roll(a, 1, 0),
            np.pad(v, 1), np.tile(v, 2), np.flip(a), np.diag(a), np.diag(v), np.tril(a), np.repeat(w, 2), a.T.conj(),
            np.broadcast_to(v, (2, 3)), a[[0, 2]], a[a.real > 0], np.take(a, [1, 0], axis=1), a.reshape(9)[::2],
            np.polyval([1, 2j, 3], v), np.linspace(v[0], w[1], 4), np.interp(0.5, [0, 1], [0, 2]) * v,
            np.array([v[0], 2.0, 1j * w[0]]), np.vander(v, 3), np.trapezoid(v), np.fromiter((1, 2), float) * v[:2],
            np.vecdot(a, b), np.vecmat(v, b), np.matvec(a, w), a.view(float), np.nanvar(a), np.nanstd(v),
            np.real_if_close(v), np.nan_to_num(v), np.isclose(a, b), np.allclose(a, a), np.round(a, 2),
            np.isrealobj(a), np.iscomplexobj(a.real), np.iscomplex(v), np.isreal(v), np.array_equal(a, b),
            a.astype(np.complex64), np.zeros_like(a), np.ones_like(a), np.full_like(a, 2j), a.sum(0), a.dtype.kind,
        ]  # fmt: skip

    for ours, theirs in zip(compile_grad(run)(a, b), run(a, b), strict=True):
        if isinstance(theirs, str):
            assert ours == theirs
            continue
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)


def test_what_numpy_refuses() -> None:
    """The exception is NumPy's, at the user's line."""
    z = np.array([1 + 1j, 2.0])
    for f in (np.floor, np.cbrt, np.signbit, np.arctan2, np.hypot, np.floor_divide, np.remainder, np.logaddexp):
        operands = (z,) * f.nin
        with pytest.raises(TypeError) as expected:
            f(*operands)
        with pytest.raises(TypeError) as found:
            compile_grad(lambda z, f=f: f(*(z,) * f.nin))(z)
        assert str(found.value).startswith(str(expected.value))
        assert "test_complex.py" in str(found.value)


def test_the_imaginary_part_is_dropped_as_numpy_does() -> None:
    z = np.array([1 + 1j, 2.0])
    for f in (lambda z: z.astype(float), lambda z: np.zeros(2) + z.real, lambda z: np.sum(z.astype(bool))):
        with warnings.catch_warnings(record=True) as expected:
            warnings.simplefilter("always")
            theirs = f(z)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            np.testing.assert_array_equal(compile_grad(f)(z), theirs)
        assert {w.category for w in found} == {w.category for w in expected}
    with pytest.raises(TypeError, match="float"):
        compile_grad(lambda z: float(z))(1 + 1j)


@SLOW
def test_matrices() -> None:
    """Solutions, inverses, exponentials and eigenvalues of complex matrices, by real ones of twice the size."""
    A, b = RNG.normal(size=(2, 3, 3)) + 1j * RNG.normal(size=(2, 3, 3)), RNG.normal(size=(3, 2)) + 0.5j

    def run(A: Any, b: Any) -> Any:
        return [
            np.linalg.solve(A, b), np.linalg.solve(A[0], b[:, 0].real), np.linalg.solve(A.real, b), np.linalg.inv(A),
            np.linalg.matrix_power(A, -2), np.linalg.det(A), np.linalg.det(A[:, :2, :2]), np.linalg.tensorinv(A[0], 1),
        ]  # fmt: skip

    for a in (A, A.astype(np.complex64)):
        for ours, theirs in zip(compile_grad(run)(a, b), run(a, b), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-11 if a is A else 1e-3)

    def voltages(parts: Any) -> Any:
        R, L, C = parts
        w = 3.0
        Y = np.array([[1 / R + 1j * w * C, -1j * w * C], [-1j * w * C, 1j * w * C + 1 / (1j * w * L)]])
        v = np.linalg.solve(Y, np.array([1.0, 0.0]))
        return np.abs(v[1]) + np.angle(v[0]) + np.abs(np.linalg.det(np.linalg.inv(Y)))

    parts = np.array([2.0, 0.5, 0.1])
    compiled = compile_grad(voltages)
    value, gradient = compiled.value_and_grad(parts)
    np.testing.assert_allclose(value, voltages(parts), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(voltages, (parts,)), rtol=1e-6)

    functions = (
        lambda A: np.abs(scipy.linalg.expm(-0.3j * (A + A.conj().T)) @ A[0])[1],
        lambda A: np.sum(np.abs(np.linalg.pinv(A[:, :2])) ** 2),
        lambda A: np.sum(np.linalg.eigvalsh(A) ** 2 * [1.0, 2.0, 3.0]),
        lambda A: np.sum(np.abs(scipy.linalg.toeplitz(A[0]) @ A[1])),
    )
    for f in functions:
        value, gradient = compile_grad(f).value_and_grad(A[0])
        np.testing.assert_allclose(value, f(A[0]), rtol=1e-10)
        np.testing.assert_allclose(gradient, complex_gradient(f, A[0]), rtol=1e-5, atol=1e-7)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        compile_grad(lambda A: np.linalg.inv(A))(np.ones((2, 2)) * 1j)


@pytest.mark.slow
def test_a_lane_that_is_a_constant():
    """``x + 1j`` has one number as its imaginary lane: views and others see an array of it."""
    x, A = np.array([0.7, -1.3, 2.1, 0.4]), np.arange(8.0).reshape(2, 4) - 3

    def f(x):
        total = 0.0
        for z in (x + 1j, 2j - x, x + np.complex128(1j), x * 0 + 1j, np.full(4, x[0] + 1j)):
            square = z.reshape(2, 2)
            parts = (
                z[0], z[::-2], z[[0, 2]], z[None], z[x > 0], square.T[1], np.diag(z), np.roll(z, 1), np.pad(z, 1),
                np.concatenate([z, x]), np.cumsum(square, 1), A @ z, np.outer(z, x), z.prod(), np.tile(z, 2),
                np.where(x > 0, z, 1j), np.linalg.inv(square + 5 * np.eye(2)), np.sort(z), np.stack([t * t for t in z]),
            )  # fmt: skip
            for part in parts:
                total = total + np.sum(np.real(part) * 0.3 + np.imag(part) ** 2) + np.max(np.abs(part))
        return total

    value, gradient = compile_grad(f).value_and_grad(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5)


def test_second_derivatives_on_the_axes():
    """Where one lane is 0, whose square has a second derivative nevertheless."""

    def gradient(z):
        return autograd.grad(lambda z: np.sum((np.log(z) * np.log1p(z)).real ** 2))(z)

    def size(z):
        return np.sum(np.abs(gradient(z)) ** 2)

    points = np.array([0.7 + 0j, 0.3j, -0.6j, 1.5 + 0j])
    np.testing.assert_allclose(autograd.grad(size)(points), complex_gradient(size, points, step=1e-5), rtol=1e-5)
