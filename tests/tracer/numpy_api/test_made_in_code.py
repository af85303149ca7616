"""Arrays that plain code makes and fills with traced values, and lists of traced values where NumPy takes arrays."""

from __future__ import annotations

import functools
import gc
import itertools
import math
import operator
import weakref
from typing import Any

import numpy as np
import pytest
from agreement import numerical_gradient
from tracing import Traced

from tracegrad import compile_grad

X = np.array([0.7, 1.3, 0.4, 2.2])
A = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 1.5]])
PROGRAMS: dict[str, Any] = {}


def program(f):
    PROGRAMS[f.__name__.replace("_", " ").strip()] = f
    return f


# ---- arrays that are assigned into ----------------------------------------------------------------------------------


@program
def items(a):
    z = np.zeros(3)
    z[0] = a[0]
    z[1] = a[1] * z[0]
    z[2] = 2.0
    return np.sum(z**2)


@program
def rows_and_columns(a):
    m = np.zeros((2, 2, 4))
    m[0, 0] = a
    m[1, ..., 1] = [a[0], a[1]]
    m[:, 1, :] += a
    return np.sum(m**2)


@program
def a_loop(a):
    z = np.zeros(40)
    z[0] = a[0]
    for k in range(1, 40):
        z[k] = 0.9 * z[k - 1] + np.sin(a[k % 4])
    return z @ z


@program
def nested_loops(a):
    z = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            z[i, j] = a[i] * a[j] if i != j else 1.0
    return np.sum(z @ A)


def fill(out, a):
    out[:] = a * 2


@program
def in_a_helper(a):
    z = np.empty(4)
    fill(z, a)
    return float(np.dot(z, z))


class Grid:
    def __init__(self, n):
        self.z = np.zeros(n)

    def set(self, k, v):
        self.z[k] = v


@program
def in_an_object(a):
    grid = Grid(4)
    for k in range(4):
        grid.set(k, a[k] ** 3)
    v = grid.z[1:]
    v += 1.0
    return np.sum(grid.z)


@program
def through_a_view(a):
    m = np.eye(3)
    column = m[1:, 2]
    column[:] = a[1:3]
    m.T[1, 0] = a[0]
    return np.trace(m @ m.T)


@program
def mask(a):
    z = np.zeros_like(np.arange(4.0))
    z += a
    z[z > 0.5] = 2 * a[0]
    return np.sum(z)


@program
def out_argument(a):
    z = np.empty(4)
    np.multiply(a, a, out=z)
    np.copyto(z[:2], a[2:])
    return np.sum(z * a)


@program
def computed_from_plain_ones(a):
    w = np.linspace(0.0, 1.0, 4) * 2 + np.ones(4)
    v = w.copy()
    w[1] = a[0] * v[2]
    return np.sum(w * v)


@program
def full_of_a_traced_value(a):
    return np.sum(np.full((2, 2), a[0]) * np.full(2, [a[1], a[2]]))


@program
def accumulated(a):
    z = np.zeros(3)
    np.add.at(z, [0, 1, 1, 2], a)
    return z @ z


@program
def sometimes(a):
    z = np.ones(4)
    if a[0] > 0.5:
        z[1] = a[1]
    return np.sum(z * a)


@program
def in_a_nested_function(a):
    def square(v):
        out = np.zeros(len(v))
        for k, x in enumerate(v):
            out[k] = x * x
        return out

    return np.sum(square(a) * [square(a[:2])[1], 1.0, 2.0, 3.0])


@program
def imported_inside(a):
    import numpy as np

    z = np.zeros(4)
    z[2:] = a[:2]
    return np.sum(z**2)


# ---- arrays that stay plain -----------------------------------------------------------------------------------------


@program
def as_indices(a):
    at = np.array([0, 2])
    powers = np.ones(4, int)
    powers[1] = 2
    total = 0.0
    for k in np.arange(4):
        total = total + a[k] * k
    return np.sum(a[at] ** 2) + np.sum(a**powers) + total


@program
def in_conditions(a):
    c = np.zeros(4)
    c[0] = 1.0
    c[1:] = 2.0
    total = 0.0
    for k in range(int(c.sum())):
        total = total + (a[k % 4] if c[k % 4] > 1 else a[0] ** 2)
    return total


@program
def methods_with_traced_arguments(a):
    z = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, 3.0]])
    k = np.searchsorted(a[:3], 0.5)
    rows = np.arange(6.0).reshape(2, 3).take(np.argsort(a)[:2])
    return np.sum(z.dot(a[:3]) ** 2) + np.linspace(0, 1, 4).dot(a) + rows @ a[:2] + np.eye(3).dot(a[1:])[k]


# ---- lists ----------------------------------------------------------------------------------------------------------


@program
def array_of_a_list(a):
    v = np.array([a[0], a[1] ** 2, 3.0])
    return np.sum(v * v) + np.sum(np.asarray([[a[0], 1], [2, a[1]]]).T.flatten())


@program
def array_of_a_comprehension(a):
    return np.sum(np.array([a[k] ** 2 for k in range(3)]))


@program
def a_lambda(a):
    f = lambda t: np.array([t, t * t])  # noqa: E731
    return np.sum(f(a[0]) * f(a[1]))


@program
def reductions_of_lists(a):
    history = []
    x = a[0]
    for _ in range(5):
        history.append(x)
        x = x - 0.1 * np.sin(x)
    return np.std(history) + np.mean([a[0], 2 * a[2]]) + np.max([a[0], a[2]]) + np.sum(np.diff(np.array(history)))


def pair(a):
    return [a[0], a[1] * 2]


@program
def lists_from_elsewhere(a):
    point = {"u": pair(a)}
    return np.mean(pair(a)) + np.sqrt(pair(a))[0] + np.dot(point["u"], point["u"])


@program
def linear_algebra_of_lists(a):
    m = [[a[0], 1.0], [2.0, a[1]]]
    path = [(a[0], a[1]), (a[1], a[2])]
    return np.trace(np.matmul(m, m)) + np.linalg.norm([a[0], a[1]]) + np.linalg.norm(np.diff(path, axis=0), axis=1)[0]


@program
def functions_of_lists(a):
    return (
        np.interp(0.3, [0.0, 1.0], [a[0], a[1]])
        + np.average([a[0], a[1]], weights=[0.3, a[2]])
        + np.polyval([a[0], a[1], a[2]], 2.0)
        + np.clip([a[0], -a[1]], -1, 1).sum()
        + np.abs([a[0], -a[1]]).sum()
        + np.outer([a[0], 1.0], [a[1], 2.0]).sum()
        + np.cross([a[0], 0.0, 0.0], [0.0, a[1], 1.0])[2]
    )


@program
def sequences_of_arrays(a):
    return np.concatenate([[a[0]], a]).sum() + np.hstack([a[0], a[1:]]) @ a + np.r_[a[0], a[1:], 2.0].sum()


@program
def columns(a):
    return np.sum(np.c_[a, a**2] ** 2)


@program
def folds(a):
    return functools.reduce(operator.mul, [a[0], a[1]]) + list(itertools.accumulate([a[0], a[1], a[2]]))[-1]


# ---- NumPy's own Python ---------------------------------------------------------------------------------------------

SOURCES = {
    "unwrap": lambda a: np.sum(np.unwrap(a * 4) * a),
    "apply_along_axis": lambda a: np.apply_along_axis(lambda r: r / np.sum(r), 0, a)[0],
    "apply_along rows": lambda a: np.apply_along_axis(np.sum, 1, a.reshape(2, 2))[0] ** 2,
    "apply_over_axes": lambda a: np.apply_over_axes(np.sum, a.reshape(2, 2), [0, 1])[0, 0] ** 2,
    "piecewise": lambda a: np.piecewise(a, [a < 0.5, a >= 0.5], [lambda t: -t, lambda t: t**2]).sum(),
    "sliding windows": lambda a: np.sum(np.lib.stride_tricks.sliding_window_view(a, 2) ** 2),
    "sliding windows of two axes": lambda a: np.sum(
        np.lib.stride_tricks.sliding_window_view(np.outer(a, a), (2, 3)) ** 2
    ),
    "corrcoef": lambda a: np.corrcoef(a[:3], a[1:])[0, 1],
    "nanmedian": lambda a: np.nanmedian(a),
    "nancumsum": lambda a: np.nancumsum(a)[2] ** 2,
    "nanquantile": lambda a: np.nanquantile(a, 0.3),
    "geomspace": lambda a: np.geomspace(a[0], a[1], 4)[2],
    "i0": lambda a: np.i0(a).sum(),
    "resize": lambda a: np.sum(np.resize(a, (3, 3)) ** 2),
    "poly": lambda a: np.poly(a).sum(),
    "polyder": lambda a: np.polyder(a)[0] + np.polyint(a)[1],
    "polynomial": lambda a: np.polynomial.polynomial.polyval(0.5, a) + np.polynomial.Polynomial([1.0, 2.0, 3.0])(a[0]),
    "vectorize": lambda a: np.sum(np.vectorize(lambda t: t**2 if t > 0.5 else t)(a)),
    "fromfunction": lambda a: np.fromfunction(lambda i, j: i * a[0] + j, (2, 2)).sum(),
    "ix_": lambda a: np.sum(np.outer(a, a)[np.ix_([0, 1], [1, 2])]),
    "integers": lambda a: np.sum(a[np.int64(a * 0)] * np.int32(3 * a)) + np.sum(a * np.bool_(a)) * np.int64(7 * a[1]),
    "einsum_path": lambda a: a[len(np.einsum_path("i,i", a, a)[0])] ** 2,
}


@pytest.mark.parametrize("name", [*PROGRAMS, *SOURCES])
def test_plain_numpy(name):
    f = (PROGRAMS | SOURCES)[name]
    compiled = compile_grad(f)
    for x in (X, X, X * 1.1, X[::-1].copy()):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (x,)), rtol=1e-5, atol=1e-7)
    assert compiled.stats.live == ""


@pytest.mark.parametrize("name", ["items", "in a helper", "a loop", "lists from elsewhere", "unwrap", "a lambda"])
def test_second_order(name):
    f = (PROGRAMS | SOURCES)[name]
    direction = np.array([1.0, -0.5, 0.3, 0.2])

    def slope(x):
        return np.dot(compile_grad(f).grad(x), direction)

    found = compile_grad(lambda x: np.dot(compile_grad(f).grad(x), direction)).grad(X)
    np.testing.assert_allclose(found, numerical_gradient(slope, (X,)), rtol=1e-5, atol=1e-6)


def test_what_they_hand_out_is_numpys_own():
    kept = []

    def f(a, log):
        z = np.zeros(2)
        log.append(np.arange(3))
        kept.append(np.ones(2))
        return z, np.array([a, a]), isinstance(z, np.ndarray), type(z) is np.ndarray

    compiled = compile_grad(f)
    for _ in range(4):
        log: list[Any] = []
        z, pair, *facts = compiled(2.0, log)
        assert type(z) is type(pair) is type(log[0]) is type(kept[-1]) is np.ndarray and facts == [True, True]
        z[0] = 5.0
    assert len(kept) == 4


def test_a_run_that_is_made_again_has_its_effects_once():
    seen = []

    def f(a):
        seen.append("begun")
        z = make(3)
        z[0] = a[0]
        return np.sum(z)

    def make(n):
        return np.zeros(n, dtype="float64")

    compiled = compile_grad(f)
    for count in range(1, 5):
        compiled.grad(X)
        assert len(seen) == count


def test_functions_made_by_a_run_have_their_own_globals():
    kept = {}

    def f(a):
        g = lambda t: np.array([t, t])  # noqa: E731
        kept["g"] = g
        return np.sum(g(a[0]))

    compiled = compile_grad(f)
    for _ in range(3):
        compiled.grad(X)
        assert type(kept["g"](1.0)) is np.ndarray
    assert kept["g"].__globals__ is globals()


@pytest.mark.filterwarnings("ignore:Setting the shape on a NumPy array")  # of NumPy 2.5
def test_plain_arrays_beside_traced_ones_stay_plain():
    """Those of one function are guessed to be like the first; where one has to be plain, the guess is taken back."""

    def f(a):
        z = np.zeros(3)
        z[0] = a[0] ** 2
        knots = np.zeros(4)
        knots[1:] = [1.0, 2.0, 4.0]
        knots.shape = (2, 2)
        return np.sum(z) * knots[1, 1] + {4.0: a[1]}[knots[1, 1]]

    compiled = compile_grad(f)
    for x in (X, X, 2 * X):
        np.testing.assert_allclose(compiled.grad(x), numerical_gradient(f, (x,)), rtol=1e-6)
    assert compiled.stats.live == ""


def test_tables_of_plain_numbers_are_constants():
    def f(a):
        table = np.zeros(100)
        for k in range(100):
            table[k] = 0.5**k
        return np.sum(table[:4] * a)

    assert len(Traced(f, [X]).graph.nodes) <= 3


def _of_test(x):
    z = np.zeros(3)
    z[0] = math.sin(x[0])
    assert z[0] is not None and len(z) == 3, f"not {z}"
    return z.sum() * np.array([x[0], x[1] ** 2]).sum()


def test_asserts_that_pytest_rewrites_hide_nothing():
    """They put ``locals()`` into the code, of the test around a function, too."""

    def loss(x):
        total = _of_test(x) + math.exp(x[1])
        assert 0 < total < 100 and np.all(np.isfinite(x))
        return total * len(vars()) + len(dir()) + len(locals())

    assert "locals" in _of_test.__code__.co_names
    f = compile_grad(_of_test)
    for k in range(3):
        x = np.array([0.5, 0.3]) + k
        assert abs(f(x) - _of_test(x)) < 1e-12
        np.testing.assert_allclose(f.grad(x), numerical_gradient(_of_test, (x,)), rtol=1e-6)
        np.testing.assert_allclose(compile_grad(loss)(x), loss(x))
    assert f.stats.live == ""


EXECUTED = """
import math
import numpy as np

def helper(t):
    return math.exp(-t)

def f(a):
    z = np.zeros(2)
    z[0] = helper(a[0])
    return np.sum(z) + np.sum(np.array([math.sin(v) for v in a])) + sum((lambda t: math.cos(t))(v) for v in a)

def maker(a):
    return lambda t: math.exp(t) * np.array([1.0, 2.0])
"""


@pytest.mark.parametrize("copied", [False, True])
def test_code_of_no_module(copied):
    """Code that was executed in a dict has no source: its Python runs in each call, and finds the recorded functions,
    too."""
    space: dict[str, Any] = {"__name__": "some.text"}
    exec(compile(EXECUTED, "<a text>", "exec"), space)
    if copied:
        assert compile_grad(space["f"])(X) == space["f"](X)
        space = dict(space)
        exec(compile(EXECUTED, "<a text>", "exec"), space)
    compiled = compile_grad(space["f"])
    for x in (X, X, 2.0 * X):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, space["f"](x), rtol=1e-13)
        np.testing.assert_allclose(gradient, numerical_gradient(space["f"], (x,)), rtol=1e-6)
    assert "there is no source" in compiled.stats.live and "there is no source" in str(compiled.explain(X))
    made = compile_grad(space["maker"])(X)
    assert made.__globals__ is space and made(0.0)[1] == 2.0


def test_dicts_of_executed_code_are_not_kept():
    class Mark:
        pass

    gone = []
    for _ in range(3):
        space: dict[str, Any] = {"mark": Mark()}
        exec(compile(EXECUTED, "<a text>", "exec"), space)
        compile_grad(space["f"]).grad(X)
        gone.append(weakref.ref(space["mark"]))
        del space
    gc.collect()
    assert not any(mark() for mark in gone)
