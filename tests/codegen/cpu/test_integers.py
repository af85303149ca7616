"""Integer code in the kernel: shifts, wraparound, and Python integers beside arrays, all as in NumPy 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.tracer.ir.errors import UnsupportedError

DTYPES = [np.dtype(f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "u")]
EVERY_DTYPE = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def numbers(dtype: np.dtype) -> np.ndarray:
    """The edges of *dtype* and a few numbers between them."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(dtype.itemsize)
    inner = rng.integers(info.min, info.max, 9, dtype)
    return np.array([0, 1, 5, info.max, info.min, info.max - 1, *inner], dtype)


def check(function: Callable[..., Any], *args: Any) -> None:
    """The kernel gives NumPy's very bits and dtypes, or NumPy's error."""
    compiled = compile_grad(lambda *xs: function(*xs))
    try:
        with np.errstate(all="ignore"):
            expected = function(*args)
    except (OverflowError, TypeError) as error:
        with pytest.raises(type(error)):
            compiled(*args)
        return
    for _ in range(3):
        found = compiled(*args)
        assert np.asarray(found).dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def check_all(functions: list[Callable[..., Any]], x: np.ndarray) -> None:
    """The same for each: one kernel of those for which NumPy has no error."""
    fine = []
    for function in functions:
        try:
            with np.errstate(all="ignore"):
                function(x)
            fine.append(function)
        except (OverflowError, TypeError):
            check(function, x)
    compiled = compile_grad(lambda x: [function(x) for function in fine])
    with np.errstate(all="ignore"):
        expected = [function(x) for function in fine]
    for _ in range(3):
        for one, other in zip(compiled(x), expected, strict=True):
            assert np.asarray(one).dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@EVERY_DTYPE
def test_shifts_by_arrays(dtype: np.dtype) -> None:
    width = 8 * dtype.itemsize
    counts = [0, 1, 2, width - 1, width, width + 1, 100]
    if dtype.kind == "i":
        counts += [-1, -width]
    x, n = np.meshgrid(numbers(dtype), np.array(counts, dtype))
    check(lambda x, n: x << n, x, n)
    check(lambda x, n: x >> n, x, n)
    check(np.left_shift, x[0, 3], n[0, 0])
    check(lambda x: 3 << x, n)
    check(lambda x: 100 >> x, n)


@pytest.mark.slow
@EVERY_DTYPE
def test_shifts_by_numbers(dtype: np.dtype) -> None:
    def shifts(count: int) -> list[Callable[..., Any]]:
        return [lambda x: x << count, lambda x: np.right_shift(x, count), lambda x: x >> dtype.type(count % 100)]

    for count in (0, 1, 7, 8, 31, 32, 63, 64, 200, -1):
        check_all(shifts(count), numbers(dtype))


def test_shifts_of_bools_and_in_place() -> None:
    check(lambda x: np.left_shift(x, x), np.array([True, False]))
    check(lambda x: x << 3, np.array([True, False]))

    def rotated(x: Any) -> Any:
        y = x.copy()
        y <<= 13
        y |= x >> 19
        return y

    check(rotated, numbers(np.dtype("uint32")))


def test_shifts_of_floats_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"left_shift.*\n.*test_integers"):
        compile_grad(lambda x: x << 1)(np.ones(3))


def test_a_count_that_is_a_number_belongs_to_the_program() -> None:
    f = compile_grad(lambda x, n: np.sum(x >> n))
    x = np.arange(100, dtype=np.uint32)
    assert [f(x, n) for n in (1, 2, 3)] == [int(np.sum(x >> n)) for n in (1, 2, 3)]
    assert "right_shift" in f.explain(x, 2, level="all")


ARITHMETIC: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + 1, "sub": lambda x: x - 1, "mul": lambda x: x * 3, "rsub": lambda x: 1 - x,
    "neg": lambda x: -x,
    "invert": lambda x: ~x, "xor": lambda x: x ^ 0x5B, "and": lambda x: x & 0x7F, "or": lambda x: x | 5,
    "square": lambda x: x**2, "cube": lambda x: x**3, "floor_divide": lambda x: x // 3, "remainder": lambda x: x % 7,
    "abs": np.abs, "maximum": lambda x: np.maximum(x, 5), "where": lambda x: np.where(x > 5, x, 0), "sum": np.sum,
    "cumsum": np.cumsum, "wide": lambda x: x.astype(np.uint64) * np.uint64(2**33), "true_divide": lambda x: x / 3,
}  # fmt: skip


@EVERY_DTYPE
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_wraps_around(name: str, dtype: np.dtype) -> None:
    check(ARITHMETIC[name], numbers(dtype))


@pytest.mark.slow
@EVERY_DTYPE
@pytest.mark.parametrize("number", [-1, 127, 128, 255, 256, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, -(2**63)])
def test_python_integers_that_may_not_fit(dtype: np.dtype, number: int) -> None:
    functions = [lambda x: x + number, lambda x: number ^ x]
    for compare in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
        functions += [partial(compare, number), lambda x, compare=compare: compare(x, number)]
    check_all(functions, numbers(dtype))


def test_the_error_of_a_python_integer_names_the_line() -> None:
    with pytest.raises(OverflowError, match=r"Python integer 4294967296 out of bounds for uint32\n.*test_integers"):
        compile_grad(lambda x: x & 2**32)(np.ones(3, np.uint32))


def test_comparing_integers_with_floats() -> None:
    x = numbers(np.dtype("uint32"))
    for number in (0.5, 1e30, -1e30, float("nan"), float("inf")):
        check(lambda x, number=number: x > number, x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floats_to_uint64(dtype: Any) -> None:
    x = np.array([0.0, 0.9, 1.5, 2.0**31, 2.0**32, 2.0**62, 2.0**63, 2.0**63 + 2.0**42, 1.7e19], dtype)
    check(lambda x: x.astype(np.uint64), x)
