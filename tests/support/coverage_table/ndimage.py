"""scipy.ndimage: filters in their modes, and images at coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.ndimage as nd

from .case import Case

IMAGE = np.sin(np.arange(42.0) * 1.7).reshape(7, 6) + np.linspace(0, 1, 6)
KERNEL = np.array([[0.2, -0.4, 1.0], [0.7, 0.3, -0.1]])
WIDE = np.cos(np.arange(20.0)).reshape(5, 4)  # of more elements than are added one by one
LINE = np.sin(np.arange(60.0) ** 1.1)  # longer than what SciPy's own spline filter makes a matrix of
AT = np.array([[0.3, 2.6, 4.7, 5.2, 1.1], [1.4, 0.2, 3.3, 4.6, 2.7]])
BEYOND = np.array([[-3.3, 2.6, 9.7, -0.2], [1.4, -7.2, 4.3, 6.6]])
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")


def _out(image: np.ndarray) -> np.ndarray:
    found = np.empty_like(image)
    nd.sobel(image, output=found)
    return found


def _case(name: str, call: Any, args: list[np.ndarray], label: str = "", **options: Any) -> Case:
    return Case(f"scipy.ndimage.{name}", call, args, label=label, **options)


def _map(order: int, mode: str) -> Any:
    return lambda image, at: nd.map_coordinates(image, at, order=order, mode=mode, cval=0.3)


CASES = [
    *[_case("convolve", lambda x, w, m=m: nd.convolve(x, w, mode=m, cval=0.4), [IMAGE, KERNEL], m) for m in MODES],
    _case("convolve", lambda x, w: nd.convolve(x, w, origin=(0, -1)), [IMAGE, WIDE], "wide"),
    _case("convolve", lambda x: nd.convolve(x, KERNEL[0], axes=(0,)), [IMAGE], "axes"),
    _case("convolve", lambda x: nd.convolve(x + 1j * x**2, KERNEL).imag, [IMAGE], "complex"),
    _case("correlate", lambda x, w: nd.correlate(x, w, mode="nearest", origin=(-1, 0)), [IMAGE, KERNEL]),
    _case("convolve1d", lambda x, w: nd.convolve1d(x, w, axis=0, mode="mirror", origin=-1), [IMAGE, KERNEL[0]]),
    _case("correlate1d", lambda x: nd.correlate1d(x, [1, 0, -2]), [IMAGE]),
    _case("gaussian_filter", lambda x: nd.gaussian_filter(x, (0.6, 2.5), order=(1, 0)), [IMAGE]),
    _case("gaussian_filter", lambda s: nd.gaussian_filter(IMAGE, s, mode="wrap"), [np.array(1.13)], "sigma"),
    _case("gaussian_filter1d", lambda x, s: nd.gaussian_filter1d(x, s, order=2), [IMAGE, np.array(0.9)]),
    _case("uniform_filter", lambda x: nd.uniform_filter(x, (2, 3), mode="constant"), [IMAGE]),
    _case("uniform_filter1d", lambda x: nd.uniform_filter1d(x, 4, axis=0, origin=1), [IMAGE]),
    _case("sobel", lambda x: nd.sobel(x, 0, mode="nearest"), [IMAGE]),
    _case("sobel", _out, [IMAGE], "output"),
    _case("prewitt", nd.prewitt, [IMAGE]),
    _case("laplace", lambda x: nd.laplace(x, mode="wrap"), [IMAGE]),
    _case("gaussian_laplace", lambda x: nd.gaussian_laplace(x, 0.8), [IMAGE]),
    _case("gaussian_gradient_magnitude", lambda x: nd.gaussian_gradient_magnitude(x, 0.7), [IMAGE]),
    _case("generic_laplace", lambda x: nd.generic_laplace(x, nd.sobel), [IMAGE]),
    _case("generic_gradient_magnitude", lambda x: nd.generic_gradient_magnitude(x, nd.sobel), [IMAGE]),
    _case("maximum_filter", lambda x: nd.maximum_filter(x, (2, 3)), [IMAGE]),
    _case("minimum_filter", lambda x: nd.minimum_filter(x, footprint=[[1, 0], [1, 1]], mode="wrap"), [IMAGE]),
    _case("maximum_filter1d", lambda x: nd.maximum_filter1d(x, 3), [IMAGE]),
    _case("minimum_filter1d", lambda x: nd.minimum_filter1d(x, 3), [IMAGE]),
    _case("median_filter", lambda x: nd.median_filter(x, 3), [IMAGE]),
    _case("percentile_filter", lambda x: nd.percentile_filter(x, 30, size=3), [IMAGE]),
    _case("rank_filter", lambda x: nd.rank_filter(x, 2, size=3), [IMAGE]),
    *[_case("map_coordinates", _map(1, m), [IMAGE, BEYOND], m) for m in (*MODES, "grid-wrap", "grid-constant")],
    *[_case("map_coordinates", _map(k, "constant"), [IMAGE, AT], f"order {k}", order=1) for k in (0, 2, 3, 5)],
    _case("map_coordinates", _map(3, "nearest"), [IMAGE, BEYOND], "beyond", order=1),
    *[_case("spline_filter", lambda x, m=m: nd.spline_filter(x, mode=m), [LINE], m) for m in ("reflect", "grid-wrap")],
    _case("shift", lambda x, s: nd.shift(x, s, order=1, mode="mirror"), [IMAGE, np.array([1.3, -0.7])]),
    _case("zoom", lambda x: nd.zoom(x, (1.3, 1.7), mode="grid-wrap", grid_mode=True), [IMAGE]),
    _case("rotate", lambda x: nd.rotate(x, 33.0, order=1), [IMAGE]),
    _case("affine_transform", lambda m: nd.affine_transform(IMAGE, m, (0.317, 0.11), (3, 3), order=2),
          [np.array([[0.8, 0.1], [0.05, 0.7]])], order=1),
    _case("geometric_transform", lambda x: nd.geometric_transform(x, lambda p: (p[0] / 2, p[1] * 0.7), order=1),
          [IMAGE]),
]  # fmt: skip
