"""Compiled functions against plain NumPy: the value, and the gradient by central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def numerical_gradient(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, argnum: int = 0
) -> Any:
    """Central differences of a scalar function in one argument, a float or a float64 array."""
    x = np.asarray(args[argnum], dtype=np.float64)
    gradient = np.zeros(x.shape)

    def at(y: np.ndarray) -> float:
        value = float(y) if type(args[argnum]) is float else y
        return float(fn(*args[:argnum], value, *args[argnum + 1 :], **(kwargs or {})))

    for index in np.ndindex(x.shape):
        step = 1e-6 * max(1.0, abs(float(x[index])))
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (at(up) - at(down)) / (2 * step)
    return gradient


def agree(compiled: Any, plain: Callable[..., Any], *args: Any, tol: float = 1e-6, **kwargs: Any) -> None:
    """Value, gradient and both together are those of *plain*, which must not change anything."""
    expected = plain(*args, **kwargs)
    gradient = numerical_gradient(plain, args, kwargs)
    value, both = compiled.value_and_grad(*args, **kwargs)
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(both, gradient, rtol=tol, atol=tol)
    np.testing.assert_allclose(compiled(*args, **kwargs), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(compiled.grad(*args, **kwargs), gradient, rtol=tol, atol=tol)
    assert np.shape(both) == np.shape(args[0])


def complex_gradient(fn: Callable[..., Any], z: Any, step: float = 1e-6) -> Any:
    """Central differences du/dx - i du/dy of a real function *fn* of a complex array or number."""
    z = np.asarray(z, np.complex128)
    gradient = np.zeros(z.shape, np.complex128)
    for index in np.ndindex(z.shape):
        slopes = []
        for direction in (step, 1j * step):
            up, down = z.copy(), z.copy()
            up[index] += direction
            down[index] -= direction
            slopes.append(float(fn(up[()]) - fn(down[()])) / (2 * step))
        gradient[index] = complex(slopes[0], -slopes[1])
    return gradient[()]
