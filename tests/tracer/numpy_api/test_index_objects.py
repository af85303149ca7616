"""Objects with ``__index__`` where NumPy takes whole numbers: in indices, slices, axes, shapes and counts."""

import enum

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([1.0, 2.0, 3.0])


class Place:
    def __init__(self, k):
        self.k = k

    def __index__(self):
        return self.k


class Axis(enum.IntEnum):
    ROWS = 0
    COLUMNS = 1


ZERO, ONE, TWO = map(Place, range(3))
TABLE = {"k": TWO}


def table(x):
    return np.outer(x, x * x)


def written(x):
    y, z = np.zeros(3), np.zeros((3, 3))
    y[ONE], y[TWO:], z[ONE, TWO], z[ONE, [0, 1]] = x[0], x[1:2], x[2], x[1]
    y[ZERO] += x[2]
    z[Axis.COLUMNS, Axis.ROWS] -= x[0]
    np.add.at(y, ONE, x[0])
    np.put(y, TWO, x[1])
    return np.append(y * x, z)


def counted(x):
    total = x[0]
    for k in range(ONE, Place(3)):
        total = total + k * x[k]
    return total * [x[0], x[1], x[2]][ONE]


PROGRAMS = {
    "item": lambda x: x[ONE] * x[Place(-1)],
    "items": lambda x: table(x)[ONE, TWO] + table(x)[ONE][TWO] + table(x)[ONE, ...][0] + table(x)[:, ONE][2],
    "slice": lambda x: np.concatenate([x[ONE:TWO], x[::TWO], x[:ONE]]),
    "new axis": lambda x: table(x)[None, ONE, ..., None] * x[(ONE,)],
    "integer": lambda x: x[np.int8(1)] * x[np.uint16(2)] + x[np.intp(0)] + x[np.array(1)] + np.sum(x[True]),
    "enum": lambda x: x[Axis.COLUMNS] * np.sum(x[Axis.COLUMNS :]) + table(x).sum(axis=Axis.ROWS),
    "held": lambda x: x[TABLE["k"]] * x,
    "written": written,
    "counted": counted,
    "method": lambda x: x.item(ONE) * x.take(TWO) + table(x).item(ONE, TWO) + table(x).flat[ONE],
    "take": lambda x: np.take(x, [ZERO, TWO]) * np.take(table(x), ONE, axis=ONE)[0],
    "roll": lambda x: np.roll(table(x), ONE, axis=ONE) * X,
    "axis": lambda x: np.mean(table(x), axis=ONE) + np.max(table(x), axis=ONE) + np.cumsum(table(x), axis=ONE)[0],
    "axes": lambda x: table(x).sum(axis=(ZERO, ONE)) + np.linalg.norm(table(x), axis=ONE),
    "moved": lambda x: np.moveaxis(table(x), ZERO, ONE) * X + table(x).transpose(ONE, ZERO).swapaxes(ZERO, ONE),
    "shape": lambda x: table(x).reshape(Place(9)) * 2 + x.reshape(ONE, Place(3)).reshape((Place(-1),))[0],
    "made": lambda x: np.zeros(Place(3)) + x * np.full(Place(3), 2.0) + np.ones((Place(3),)),
    "joined": lambda x: np.stack([x, x * x], axis=ONE) * np.array_split(x, Place(3))[0] + np.array(x, ndmin=TWO)[0, 0],
    "sorted": lambda x: np.sort(table(x), axis=ONE) * X + np.repeat(x, TWO).sum(),
    "power": lambda x: np.linalg.matrix_power(table(x) / 9, TWO) * np.diag(table(x), ONE).sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_object_is_the_number_that_it_stands_for(name):
    def f(x):
        return np.sum(np.sin(PROGRAMS[name](x)))

    g = compile_grad(f)
    for k in range(3):
        x = X + 0.1 * k
        value, gradient = g.value_and_grad(x)
        slopes = [(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
        assert np.allclose(value, f(x)) and np.allclose(gradient, slopes, atol=1e-5)


def test_another_number_is_another_program():
    place = Place(0)
    g = compile_grad(lambda x: x[place] ** 2)
    for k in (0, 0, 0, 2, 2, 1):
        place.k = k
        assert np.allclose(g.grad(X), 2 * X * (np.arange(3) == k))


@pytest.mark.parametrize(
    "index", [Place(3), Place(-4), (Place(0), Place(0)), [Place(0)], 1.0, "a", object()], ids=lambda i: type(i).__name__
)
def test_what_numpy_refuses(index):
    for call in (lambda x: x[index], compile_grad(lambda x: x[index])):
        with pytest.raises(IndexError):
            call(X)
