"""Straight-line code for matrices of at most 8 rows: each size, as LLVM's optimiser makes it for each processor.

LLVM 20 ended the process over rows of 7 elements.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl
from agreement import numerical_gradient
from selection import pairs

from tracegrad import ShapeDtypeStruct, compile_grad

SIZES = range(2, 9)
# one operation of each kind, since a crash that all of them shared was found in the first
PROGRAMS: dict[str, Any] = {
    "det": lambda a, b: np.linalg.det(0.5 * a),
    "slogdet": lambda a, b: np.linalg.slogdet(a)[1],
    "inv": lambda a, b: np.sum(np.cos(np.linalg.inv(a))),
    "solve": lambda a, b: np.sum(np.cos(np.linalg.solve(a, b)) + np.sin(np.linalg.solve(a.T, b))),
    "vector": lambda a, b: np.sum(np.cos(np.linalg.solve(a, b[:, 0]))),
    "cholesky": lambda a, b: np.sum(np.cos(np.linalg.cholesky(a @ a.T + np.eye(len(a), dtype=a.dtype)))),
    "triangular": lambda a, b: np.sum(np.cos(sl.solve_triangular(a, b, lower=True) + sl.solve_triangular(a.T, b))),
    "matmul": lambda a, b: np.sum(np.cos(a @ b) + np.cos(b.T @ a).T),
}


def operands(n: int, columns: int, dtype: Any = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return (rng.normal(size=(n, n)) + 3 * np.eye(n)).astype(dtype), rng.normal(size=(n, columns)).astype(dtype)


# rows of seven of either type ended the process
CASES = sorted({*pairs(PROGRAMS, SIZES, ("d", "f")), *itertools.product(PROGRAMS, [7], "df")})


@pytest.mark.parametrize(
    ("name", "n", "char"), [pytest.param(*case, marks=[pytest.mark.slow] * (case[2] == "f")) for case in CASES]
)
def test_value_and_gradient(name, n, char):
    dtype = {"d": np.float64, "f": np.float32}[char]
    f, (a, b) = PROGRAMS[name], operands(n, n, dtype)
    value, gradient = compile_grad(f).value_and_grad(a, b)
    single = dtype is np.float32
    np.testing.assert_allclose(value, f(a, b), rtol=1e-3 if single else 1e-11)
    expected = numerical_gradient(f, (a.astype(np.float64), b.astype(np.float64)))
    np.testing.assert_allclose(gradient, expected, rtol=1e-2 if single else 1e-6, atol=1e-3 if single else 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "columns", "name"), pairs(SIZES, [1, 3, 5, 6, 7], ["solve", "triangular", "matmul"]))
def test_right_hand_sides_of_another_width(n, columns, name):
    f, (a, b) = PROGRAMS[name], operands(n, columns)
    value, gradient = compile_grad(f, argnums=(0, 1)).value_and_grad(a, b)
    np.testing.assert_allclose(value, f(a, b), rtol=1e-11)
    for k in (0, 1):
        np.testing.assert_allclose(gradient[k], numerical_gradient(f, (a, b), argnum=k), rtol=1e-6, atol=1e-6)


def test_a_batch_within_a_loop_over_many():
    a = np.stack([operands(7, 1)[0] + 0.1 * k for k in range(20)])
    value, gradient = compile_grad(lambda a: np.sum(np.linalg.det(a) ** 2)).value_and_grad(a)
    det, inverse = np.linalg.det(a), np.linalg.inv(a)
    np.testing.assert_allclose(value, np.sum(det**2), rtol=1e-11)
    np.testing.assert_allclose(gradient, 2 * det[:, None, None] ** 2 * np.swapaxes(inverse, 1, 2), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
def test_code_for_other_processors_is_made(cpu, tmp_path):
    specs = [ShapeDtypeStruct(x.shape, x.dtype) for x in operands(7, 7)]
    for name, f in PROGRAMS.items():
        compile_grad(f).export_c(tmp_path, *specs, name=name, cpu=cpu)
