"""NumPy's random numbers in compiled functions: drawn anew by Python in each call, fed to one kernel."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.random import normal

from tracegrad import UnsupportedError, compile_grad
from tracegrad.runtime.config import config

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, -1.2, 2.0])
generator = np.random.default_rng(7)


class Model:
    def __init__(self):
        self.rng = np.random.default_rng(1)

    def loss(self, x):
        return np.sum((x + self.rng.normal(size=3)) ** 2)


FUNCTIONS = {
    "legacy": (lambda x: np.sum((x + np.random.normal(size=3)) ** 2), "np.random.normal"),
    "legacy scalar": (lambda x: np.sum(x * np.random.rand()), "np.random.rand"),
    "imported": (lambda x: np.sum(x * normal(size=x.shape)), "RandomState.normal"),
    "generator of the module": (lambda x: np.sum(x * generator.uniform(size=3)), "numpy.random.Generator"),
    "fresh generator": (lambda x: np.sum(x * np.random.default_rng().uniform(size=3)), "np.random.default_rng"),
    "in self": (Model().loss, "numpy.random.Generator"),
    "Python's": (lambda x: np.sum(x) * random.random(), "random.random"),
    "positions": (lambda x: np.sum(x[np.random.permutation(3)] * np.arange(3)), "np.random.permutation"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fresh_numbers_one_kernel_and_a_reason(name):
    fn, what = FUNCTIONS[name]
    f = compile_grad(fn)
    values = {float(f(X)) for _ in range(30)}
    assert len(values) > (3 if name == "positions" else 28)
    assert f.stats.compiles == 1
    assert what in f.stats.live and "random numbers" in f.stats.live and "tracegrad.random" in f.stats.live
    assert "test_numpy_random.py:" in f.stats.live or name == "in self"
    assert what in f.explain(X)


def test_the_stream_is_numpys():
    f = compile_grad(FUNCTIONS["legacy"][0])
    np.random.seed(3)
    drawn = [np.random.normal(size=3) for _ in range(5)]
    np.random.seed(3)
    for noise in drawn:  # each call draws once, the first included
        value, gradient = f.value_and_grad(X)
        assert value == pytest.approx(np.sum((X + noise) ** 2))
        np.testing.assert_allclose(gradient, 2 * (X + noise))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_branches_on_random_numbers_and_values(monkeypatch):
    monkeypatch.setattr(config, "max_paths", 4)

    def plain(x):
        y = x
        for k in range(6):
            y = np.sin(y) * np.random.rand() if np.random.rand() > 0.5 else y + np.random.normal(size=3)
            if y[k % 3] > 0:
                y = y * 0.5
        return np.sum(y)

    f = compile_grad(plain)
    for seed in range(60):
        np.random.seed(seed)
        value = f(X)
        np.random.seed(seed)
        assert value == pytest.approx(plain(X))
    assert f.stats.traces == 60


def test_parameters_that_are_traced_would_lose_their_gradient():
    for fn in (
        lambda x: np.sum(np.random.normal(x, 1.0)),
        lambda x: np.sum(np.random.normal(loc=x)),
        lambda x: np.sum(generator.normal(x)),
    ):
        f = compile_grad(fn)
        for _ in range(2):
            with pytest.raises(UnsupportedError, match=r"(?s)loc \+ scale .*tracegrad\.random.*test_numpy_random\.py"):
                f.grad(X)
