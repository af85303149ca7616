"""``copy=``, ``device=`` and ``like=`` of ``np.array`` and ``np.asarray``, as other libraries give them."""

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([1.0, 2.0, 3.0])
MODES = np._CopyMode
NEW = np.lib.NumpyVersion(np.__version__) >= "2.0.0"


def likes(x):
    made = [np.zeros(3, like=x), np.ones(3, like=x), np.full(3, 2.0, like=x), np.arange(3.0, like=x)]
    return sum(made) * np.eye(3, like=x)[0] * x + np.asarray([x[0], x[1], 1.0], like=x) * np.array(
        [1.0, 2.0, 3.0], like=x
    )


PROGRAMS = {
    "if needed": lambda x: np.array(x, copy=MODES.IF_NEEDED),
    "always": lambda x: np.array(x, copy=MODES.ALWAYS),
    "never": lambda x: np.array(x, copy=MODES.NEVER),
    "true": lambda x: np.array(x, copy=True) * np.array(x, copy=1),
    "none": lambda x: np.array(x, dtype=float, copy=None, order="K", subok=False, ndmin=2)[0],
    "a list": lambda x: np.array([x[0], x[1]], copy=MODES.IF_NEEDED) * np.array([[x[0], x[1]]], copy=True)[0],
    "asarray": lambda x: np.asarray(x, copy=None) * np.asarray(x, copy=True) + np.asarray(x, copy=False),
    "device": lambda x: np.asarray(x, device="cpu").to_device("cpu") + np.zeros(3, device="cpu"),
    "like": likes,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_numpy_has_it(name):
    if not NEW and name in ("none", "asarray", "device"):
        pytest.skip("the argument is new in NumPy 2")

    def f(x):
        return np.sum(PROGRAMS[name](x) ** 2)

    g = compile_grad(f)
    for _ in range(3):
        value, gradient = g.value_and_grad(X)
    slopes = [(f(X + e) - f(X - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
    assert np.allclose(value, f(X)) and np.allclose(gradient, slopes, atol=1e-5) and not g.stats.live


@pytest.mark.skipif(not NEW, reason="copy=False is new in NumPy 2")
@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.array([x[0]], copy=False),
        lambda x: np.asarray([x[0]], copy=MODES.NEVER),
        lambda x: np.array(x, dtype=np.float32, copy=False),
        lambda x: np.array(np.outer(x, x).T, order="C", copy=MODES.NEVER),
    ],
)
def test_a_copy_that_can_not_be_avoided(make):
    for call in (lambda x: np.sum(make(x)), compile_grad(lambda x: np.sum(make(x)))):
        with pytest.raises(ValueError, match="copy"):
            call(X)


def test_a_copy_is_no_view():
    def f(x, mode):
        y = x * 1
        z = np.array(y, copy=mode)
        z[0] = 10 * x[1]
        return np.sum(y)

    for mode in (MODES.ALWAYS, MODES.IF_NEEDED, True, *((None, False) if NEW else ())):
        g = compile_grad(lambda x, mode=mode: f(x, mode))
        assert all(np.allclose(g.grad(X), [1, 1, 1] if mode in (True, MODES.ALWAYS) else [0, 11, 1]) for _ in range(3))


def test_what_scikit_learn_does_with_arrays():
    validation = pytest.importorskip("sklearn.utils.validation")
    compat = pytest.importorskip("sklearn.externals.array_api_compat.numpy")

    def f(x):
        checked = validation.check_array(x[:, None], dtype=np.float64, copy=True)
        return np.sum(checked[:, 0] * validation.column_or_1d(x) * compat.asarray(x) * compat.asarray(x, copy=True))

    assert all(np.allclose(compile_grad(f).grad(X), 4 * X**3) for _ in range(2))
