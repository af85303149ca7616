"""Item assignment on traced arrays: value and gradient as with NumPy's own arrays, views and aliases included."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from tracing import Traced, check_gradient, check_value

from tracegrad import compile_grad, stop_gradient
from tracegrad.tracer.ir.errors import BadIndexError, MutationError, ShapeError, TracegradError, UnsupportedError
from tracegrad.tracer.numpy_api import creation


def basic(x: Any, v: Any) -> Any:
    y = np.zeros_like(x)
    y[0] = x[0] * 2
    y[1, 2] = v[0]
    y[2, 1:] = v[1:4]
    return y * x


def rows_in_a_loop(x: Any, v: Any) -> Any:
    out = np.zeros_like(x)
    for i in range(x.shape[0]):
        out[i] = np.sin(x[i]) + (out[i - 1] if i else 0.0)
    return out


def recurrence(x: Any, v: Any) -> Any:
    y = np.zeros_like(v)
    y[0] = v[0]
    for i in range(1, len(v)):
        y[i] = 0.5 * y[i - 1] + v[i]
    return y


def strides(x: Any, v: Any) -> Any:
    y = x.copy()
    y[::2, ::-1] = v[:4]
    y[:, ::2] *= 3
    y[::-1] += 1.0
    return y


def ellipsis_and_newaxis(x: Any, v: Any) -> Any:
    y = np.ones_like(x)
    y[..., 1] = v[:3]
    y[None, 0] += v[:4]
    y[...] *= x
    return y


def broadcasting(x: Any, v: Any) -> Any:
    y = np.empty_like(x)
    y[:] = v[:4]
    y[1:] += v[:1]
    y[:, 1:3] = v[2:4][None, None]
    return y


def whole(x: Any, v: Any) -> Any:
    y = np.zeros_like(x)
    y[:] = x
    z = np.zeros_like(x)
    z[...] = y * 2
    z.fill(v[0])
    return y + z


def views_of_views(x: Any, v: Any) -> Any:
    y = x.copy()
    a = y[1:]
    b = a.T
    c = b[::2]
    c[0] = v[:2]
    a[0, 1] = v[4]
    b[3] *= 2
    return y * y + (a * a).sum() + b.sum() + c.sum()


def view_sees_base(x: Any, v: Any) -> Any:
    y = x.copy()
    row = y[1]
    flat = y.reshape(-1)
    turned = np.flip(y, 1)
    y[1] = v[:4]
    y[0, 0] = v[4]
    return row * 2 + flat[:4] + turned[0]


def base_sees_reshape(x: Any, v: Any) -> Any:
    y = np.zeros((3, 4)) + x.copy()
    y = y.copy()
    y.reshape(2, 6)[1, ::2] = v[:3]
    y.ravel()[0] = v[3]
    y[:, None][:, 0, 1] = v[2:]
    np.squeeze(y[None])[2, 2] = v[0]
    y.flat[5] = v[1]
    return y


def swapped_and_moved(x: Any, v: Any) -> Any:
    y = x.copy()
    np.swapaxes(y, 0, 1)[1] = v[:3]
    np.moveaxis(y, 0, 1)[2, :2] = v[3:]
    for part in np.split(y, 2, axis=1):
        part[0] += 1
    np.diagonal(y.copy())
    return y


def copies_are_apart(x: Any, v: Any) -> Any:
    y = x.copy()
    a, b, c = y.copy(), y[[0, 1]], y[y > -99]
    y[0] = v[:4]
    return a[0] + b[0] + c[:4] + y[0]


def iteration_gives_views(x: Any, v: Any) -> Any:
    y = x.copy()
    for i, row in enumerate(y):
        row[i] = v[i]
    return y


def integer_array(x: Any, v: Any) -> Any:
    y = x.copy()
    y[[2, 0]] = v[:4]
    y[:, [1, -1]] *= 2
    y[[0, 1], [2, 3]] = v[3:]
    y[np.array([[0], [2]]), [0, 1]] = v[:2]
    return y


def repeated_positions(x: Any, v: Any) -> Any:
    y = np.zeros_like(v)
    y[[0, 2, 0]] = v[:3]
    y[[1, 1, 1]] += v[2:]
    return y


def add_at(x: Any, v: Any) -> Any:
    y = np.zeros_like(v)
    np.add.at(y, [0, 2, 0, 0], v[:4])
    np.subtract.at(y, np.array([1, 1]), 2.0)
    z = x.copy()
    np.add.at(z, (slice(None), [1, 1]), v[:2])
    np.add.at(z, 0, v[:4])
    return y.sum() + z * y[0]


def masks(x: Any, v: Any) -> Any:
    y = x.copy()
    y[x > 0.5] = 0.0
    y[x < -0.5] = v[0]
    y[x[:, 0] > 0] *= 2
    y[np.array([True, False, True])] = v[:4]
    y[np.array([True, False, True]), 1] = v[1:3]
    return y


def mask_with_values(x: Any, v: Any) -> Any:
    y = np.zeros_like(v)
    y[v > 0] = v[v > 0] ** 2
    y[v <= 0] = np.arange(np.count_nonzero(v <= 0))
    y[np.array([True, False, True, False, False])] = v[3:]
    return y


def mask_in_place(x: Any, v: Any) -> Any:
    y = x.copy()
    y[y > 0] += 1
    y[y < 0] *= v[0]
    return y


def traced_positions(x: Any, v: Any) -> Any:
    y = np.zeros_like(v)
    y[np.argsort(v)] = v * np.arange(5)
    y[np.argmax(v)] = 7 * v[0]
    y[np.argmin(v)] += v[1]
    z = x.copy()
    z[np.argmax(x[:, 0])][1] = v[3]
    z[np.argmax(x[:, 0]), 1:3] += v[:2]
    z[:, np.argmin(x[0])] = v[:3]
    return y.sum() * z


def functions_that_write(x: Any, v: Any) -> Any:
    y = x.copy()
    np.put(y, [0, 5], v[:2])
    np.copyto(y, v[:4], where=x > 0)
    np.putmask(y, x < -1, 3.0)
    np.fill_diagonal(y, v[0])
    np.put_along_axis(y, np.array([[1], [0], [3]]), v[1], axis=1)
    np.put_along_axis(y, np.array([[2], [2], [1]]), v[:3][:, None], axis=1)
    return y


def in_place_operators(x: Any, v: Any) -> Any:
    y = x.copy()
    alias = y
    y += 1
    y -= v[:4]
    y *= x
    y /= 2.5
    alias[0] **= 2
    y[:] = y @ np.eye(4)
    np.exp(y, out=y)
    np.add(y, 1, out=y[:])
    return alias


def zero_d(x: Any, v: Any) -> Any:
    total = np.zeros_like(v[0])
    alias = total
    total += v[1]
    total[...] += 1
    cell = v.copy()
    one = cell[1, ...]
    one += 5
    number = v[2]
    kept = number
    number += 1  # a NumPy scalar: kept is not changed
    return alias * 2 + cell.sum() + number * kept


def casting(x: Any, v: Any) -> Any:
    y = np.zeros_like(v, dtype=np.float32)
    y[1:] = v[1:]
    n = np.zeros_like(v, dtype=int)
    n[0] = 3
    n[1:] = np.arange(4)
    return y * n


def made_by_tracegrad(x: Any, v: Any) -> Any:
    y = creation.zeros((3, 4))
    y[0] = v[:4]
    z = creation.full(5, v[1])
    z[0] = 1
    w = creation.arange(5.0)
    w[1:] *= v[1:]
    e = creation.eye(3)
    e[0, 0] = v[0]
    a = creation.asarray(y)
    a[1] = 2.0
    return y.sum() + z * w + e.sum() + creation.linspace(0, 1, 5)


def swap(x: Any, v: Any) -> Any:
    y = v.copy()
    y[0], y[1] = y[1], y[0]
    y[[2, 3]] = y[[3, 2]]
    y[1:] = y[:-1]
    y[:] = y[::-1]
    return y


def mutate_argument_of_helper(x: Any, v: Any) -> Any:
    def normalise(a: Any) -> None:
        a -= a.mean()
        a /= a.std()

    y = x.copy()
    normalise(y)
    normalise(y[0])
    return y


PROGRAMS = [
    basic,
    rows_in_a_loop,
    recurrence,
    strides,
    ellipsis_and_newaxis,
    broadcasting,
    whole,
    views_of_views,
    view_sees_base,
    base_sees_reshape,
    swapped_and_moved,
    copies_are_apart,
    iteration_gives_views,
    integer_array,
    repeated_positions,
    add_at,
    masks,
    mask_with_values,
    mask_in_place,
    traced_positions,
    functions_that_write,
    in_place_operators,
    zero_d,
    made_by_tracegrad,
    swap,
    mutate_argument_of_helper,
]


def arguments(seed: int, dtype: str = "float64") -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, (3, 4)).astype(dtype), rng.uniform(-2, 2, 5).astype(dtype)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_value_and_gradient(program: Any, seed: int) -> None:
    check_value(program, arguments(seed))
    check_gradient(program, arguments(seed), tol=5e-6)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not made_by_tracegrad], ids=lambda p: p.__name__)
def test_float32_stays_float32(program: Any) -> None:
    check_value(program, arguments(0, "float32"), rtol=3e-4)


def test_values_are_cast_to_the_target() -> None:
    check_value(casting, arguments(0))


# ---- memory order -------------------------------------------------------------------------------------------------


def test_reshape_of_a_transposed_array_may_be_a_copy() -> None:
    def write(x: Any) -> Any:
        y = x.copy().T
        y.reshape(-1)[0] = 1.0
        return y

    def read(x: Any) -> Any:
        y = x.copy().T
        flat = y.ravel()
        y[0, 0] = 1.0
        return flat

    for f in (write, read):
        with pytest.raises(MutationError, match="copy"):
            Traced(f, [np.ones((2, 3))])


def test_memory_order_of_inputs_is_known() -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        y.reshape(-1)[1] = x[0, 0]
        return y

    check_value(f, [np.ones((2, 3))])
    with pytest.raises(MutationError, match="copy"):
        Traced(f, [np.asfortranarray(np.ones((2, 3)))])
    with pytest.raises(MutationError, match="copy"):  # the layout of x + 1 is that of x
        Traced(lambda x: (x + 1).ravel().__setitem__(0, 1.0), [np.asfortranarray(np.ones((2, 3)))])


def test_shapes_are_assigned() -> None:
    def f(x: Any, w: Any) -> Any:
        columns = np.ascontiguousarray(np.lib.stride_tricks.as_strided(x, (2, 3, 2), (8, 8, 24)))
        columns.shape = (3 * 2, 2)
        out = w.reshape(2, -1).dot(columns)
        out.shape = (2, 1, 2)
        taken = x[[2, 0]] * 2  # of a layout that is not known
        taken.shape = -1
        taken[1] = 7.0
        return out, taken

    check_value(f, [np.arange(12.0).reshape(4, 3), np.arange(12.0)])

    def transposed(x: Any) -> None:
        (x * 2).T.shape = (6,)

    for way in (transposed, lambda x: setattr(x, "shape", (6,))):
        with pytest.raises(MutationError, match="reshape"):
            Traced(way, [np.ones((2, 3))])


def test_what_numpy_makes_an_array_of_is_an_index() -> None:
    def f(x: Any) -> Any:
        labels = np.array([1, 0, 2])
        y = x * 2
        y[range(3), labels] = 0.0
        y[0, range(1, 3)] += 1.0
        return y, x[range(len(labels)), labels], x[range(2, 0, -1)], x[range(0)], y[pandas.Series(labels)]

    pandas = pytest.importorskip("pandas")
    check_value(f, [np.arange(9.0).reshape(3, 3)])
    for wrong in ({1, 2}, "a", object()):
        with pytest.raises(IndexError, match="valid indices"):
            Traced(lambda x, wrong=wrong: x[wrong], [np.ones(3)])


def test_results_of_c_ordered_inputs_are_c_ordered() -> None:
    def f(x: Any) -> Any:
        y = np.where(x > 0, x, 0) * 2 + np.concatenate([x[:1], x[1:]])
        y.ravel()[2] = x[0, 0] * 3
        y[1:].reshape(-1)[::2] += 1
        return y

    check_value(f, [np.arange(6.0).reshape(3, 2)])


LAYOUTS = {
    "copy K": lambda x: x.copy(order="K"),
    "copy A": lambda x: x.copy("A"),
    "copy F": lambda x: x.copy(order="F"),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "np.copy": np.copy,
    "np.copy F": lambda x: np.copy(x, order="F"),
    "astype": lambda x: x.astype(np.float32),
    "astype F": lambda x: x.astype(np.float32, order="F"),
    "zeros_like": np.zeros_like,
    "zeros_like F": lambda x: np.zeros_like(x, order="F"),
    "ufunc F": lambda x: np.multiply(x, 2.0, order="F"),
    "outer": lambda x: np.add.outer(x, x[0]),
    "where": lambda x: np.where(x > 0, x, 0.0),
    "sinc": np.sinc,
    "nan_to_num": np.nan_to_num,
    "isclose": lambda x: np.isclose(x, x + 1),
    "tile once": lambda x: np.tile(x, (1, 1)),
    "tile": lambda x: np.tile(x, (1, 2)),
    "vstack": lambda x: np.vstack([x, x]),
    "hstack": lambda x: np.hstack([x, x]),
    "block": lambda x: np.block([x, x]),
    "pad": lambda x: np.pad(x, 1),
    "pad edge": lambda x: np.pad(x, 1, mode="edge"),
    "triangle": np.tril,
    "triangles": lambda x: np.triu(x[:, :, None] * x[:, None, :]),
    "reshape F": lambda x: np.reshape(x, x.shape[::-1], order="F"),
    "matmul": lambda x: x @ x[:, ::-1].T,
    "dot": lambda x: x.dot(x.T),
    "tensordot": lambda x: np.tensordot(x, x, (0, 0)),
    "inner": lambda x: np.inner(x, x),
    "sum": lambda x: np.sum(x[:, :, None] * x[:, None, :], axis=0),
    "max": lambda x: (x[:, :, None] * x[:, None, :]).max(axis=1),
    "sum where": lambda x: np.sum(x, axis=0, keepdims=True, where=x > 0),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_reshape_of_a_result_is_no_view_where_numpy_copies(name: str) -> None:
    """A write through a reshape is seen in the result as in NumPy, or refused where that is not known."""

    def f(x: Any) -> Any:
        y = LAYOUTS[name](x)
        y.reshape(-1)[1] = True
        return y

    point = np.arange(6.0).reshape(2, 3) / 7 + 0.1
    fixed = name.endswith(" F")
    for x in (point, np.asfortranarray(point), np.broadcast_to(point[0], (2, 3)), point.T[::-1].T):
        try:
            check_value(f, [x])
        except MutationError:
            assert fixed or not x.flags.c_contiguous  # of operands in C order most results are known to be, too


# ---- errors -------------------------------------------------------------------------------------------------------


def _assign(target: Any, index: Any, value: Any) -> None:
    target[index] = value


PLAIN = np.zeros((2, 3))
ERRORS = {
    "input": (lambda x: _assign(x, 0, 1.0), MutationError, "argument 0"),
    "view of input": (lambda x: _assign(x[1:].T, 0, 1.0), MutationError, "copy"),
    "mask of input": (lambda x: _assign(x, x > 0, 1.0), MutationError, "copy"),
    "in place on input": (lambda x: x.__iadd__(1), MutationError, "x = x"),
    "add.at input": (lambda x: np.add.at(x, [0], 1.0), MutationError, "copy"),
    "sort input": (lambda x: x.sort(), MutationError, "copy"),
    "out= input": (lambda x: np.sin(x, out=x), MutationError, "copy"),
    "out= plain": (lambda x: np.sin(x, out=np.zeros((2, 3))), MutationError, "zeros_like"),
    "plain += traced": (lambda x: np.zeros((2, 3)).__iadd__(x), MutationError, "zeros_like"),
    "add.at plain": (lambda x: np.add.at(np.zeros(3), [0], x[0, 0]), MutationError, "zeros_like"),
    "copyto plain": (lambda x: np.copyto(np.zeros((2, 3)), x), MutationError, "np.zeros(n)"),
    "plain[:] = traced": (lambda x: _assign(PLAIN.copy(), slice(None), x), MutationError, "np.zeros(n)"),
    "plain[0] = row": (lambda x: _assign(PLAIN.copy(), 0, x[0]), MutationError, "np.zeros(n)"),
    "broadcast view": (lambda x: _assign(np.broadcast_to(x.copy(), (4, 2, 3)), 0, 1.0), MutationError, "read-only"),
    "diagonal": (lambda x: _assign(np.diagonal(x.copy()), 0, 1.0), MutationError, "read-only"),
    "shape": (lambda x: _assign(x.copy(), slice(None), np.ones(5)), ShapeError, "(5,)"),
    "shape of rows": (lambda x: _assign(x.copy(), [0, 1], np.ones(2)), ShapeError, "(2,)"),
    "mask values": (lambda x: _assign(x.copy(), x > -99, np.ones(4)), ShapeError, "(4,)"),
    "out of bounds": (lambda x: _assign(x.copy(), 2, 1.0), BadIndexError, "bounds"),
    "array out of bounds": (lambda x: _assign(x.copy(), [0, 2], 1.0), BadIndexError, "bounds"),
    "setting shape": (lambda x: setattr(x, "shape", (6,)), MutationError, "reshape"),
    "setting dtype": (lambda x: setattr(x, "dtype", np.float32), MutationError, "astype"),
    "int += float": (lambda x: x.astype(int).__iadd__(0.5), UnsupportedError, "cast"),
    "put_along_axis plain": (
        lambda x: np.put_along_axis(np.zeros((2, 3)), np.array([[0], [1]]), x[:, :1], 1),
        TracegradError,
        "zeros_like",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_refusals_teach(name: str) -> None:
    f, kind, word = ERRORS[name]
    with pytest.raises(kind) as error:
        Traced(lambda x: (f(x), x)[1], [np.arange(6.0).reshape(2, 3)])
    assert word in str(error.value)
    assert "test_assign.py" in str(error.value)


@pytest.mark.parametrize("given", [lambda v: v, stop_gradient])
def test_copies_of_plain_arrays_take_traced_numbers(given: Any) -> None:
    def f(x: Any) -> Any:
        plain = PLAIN[0].copy()
        plain[0] = given(x[0])
        return np.sum(x * plain)

    x, wanted = np.array([2.0, 3.0, 4.0]), PLAIN[0].copy()
    wanted[0] = x[0]
    value, gradient = compile_grad(f).value_and_grad(x)
    assert value == np.sum(x * wanted)
    np.testing.assert_array_equal(gradient, wanted + np.array([x[0] * (given is not stop_gradient), 0.0, 0.0]))


def test_unused_writes_leave_no_nodes() -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        y[0] = np.exp(x[0])
        y[:] = x
        return y

    assert len(Traced(f, [np.ones(3)]).graph.nodes) <= 1
