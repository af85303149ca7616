"""scipy.ndimage in compiled functions; its functions one by one are in the table of test domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.ndimage as nd
from agreement import numerical_gradient

from tracegrad import compile_grad

IMAGE = np.sin(np.arange(63.0) * 1.7).reshape(9, 7)


@pytest.mark.slow
def test_an_image_is_registered_and_deblurred() -> None:
    seen = nd.gaussian_filter(IMAGE, 1.1)

    @compile_grad(argnums=(0, 1, 2))
    def misfit(image: Any, moved: Any, sigma: Any) -> Any:
        blurred = nd.gaussian_filter(image, sigma)  # of nine elements or, further away, of more than fifteen
        back = nd.shift(blurred, moved, order=1, mode="nearest")
        return np.sum((back - seen) ** 2) + 0.1 * np.sum(np.hypot(nd.sobel(image, 0), 1.0 + nd.laplace(image)))

    for sigma in (0.9, 0.95, 2.3):
        args = IMAGE + 0.1, np.array([0.31, -0.22]), sigma
        value, grads = misfit.value_and_grad(*args)
        assert value == pytest.approx(misfit.__wrapped__(*args), rel=1e-12)
        for k, grad in enumerate(grads):
            np.testing.assert_allclose(grad, numerical_gradient(misfit.__wrapped__, args, argnum=k), atol=2e-7)


def test_a_filter_of_whole_numbers_is_data() -> None:
    mask = (IMAGE > 0).astype(int)
    f = compile_grad(lambda x: np.sum(x * nd.maximum_filter(mask, 3) * nd.uniform_filter(mask, 3)))
    for _ in range(2):
        _, grad = f.value_and_grad(IMAGE)
        np.testing.assert_array_equal(grad, nd.maximum_filter(mask, 3) * nd.uniform_filter(mask, 3))
