"""Native functions for several sizes: the bits of each, in one function."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from tracegrad import ShapeDtypeStruct, UnsupportedError, compile_grad, eval_shape
from tracegrad.runtime.ahead import entry, lowering


@compile_grad
def loss(w, X, y):
    return np.mean(np.log1p(np.exp(-y * (X @ w))))


@compile_grad
def by_size(x):
    """Its Python looks at the size."""
    if len(x) > 3:
        return np.sum(x**3)
    total = 1.0
    for k in range(len(x)):
        total = total * (x[k] + k)
    return total


def data(n, k=3):
    rng = np.random.default_rng(n)
    return rng.normal(size=k), rng.normal(size=(n, k)), np.sign(rng.normal(size=n))


def specs(*shapes):
    return [ShapeDtypeStruct(shape, float) for shape in shapes]


def with_sizes(native, args, sizes, results):
    made = [np.full(shape, 7.0) for shape in results]
    status = native.as_ctypes()(*[x.ctypes.data for x in args], *sizes, *[x.ctypes.data for x in made])
    return status, made


def test_each_size_has_pythons_bits():
    native = loss.as_native(*specs(3, ("n", 3), "n"), sizes={"n": (1, 10, 501)})
    declared = "const double *w, const double *X, const double *y, int64_t n, double *value, double *grad_w"
    assert native.declaration == f"int loss({declared});"
    for n in (1, 10, 501):
        args = data(n)
        status, found = with_sizes(native, args, [n], [(), 3])
        assert status == 0
        assert [x.tobytes() for x in found] == [np.asarray(x).tobytes() for x in loss.value_and_grad(*args)]
    assert with_sizes(native, data(11), [11], [(), 3])[0] == -3


def test_python_that_looks_at_the_size():
    native = by_size.as_native(*specs("n"), sizes={"n": range(1, 6)})
    for n in range(1, 6):
        x = np.arange(1.0, n + 1)
        status, (value, gradient) = with_sizes(native, (x,), [n], [(), n])
        assert (status, value) == (0, by_size(x))
        assert np.array_equal(gradient, by_size.grad(x))


def test_programs_of_one_kind_share_their_code():
    f = compile_grad(lambda x: np.sum(np.sin(x)))
    texts = [
        f.lower(*specs(20)).compile().as_text("value_and_grad"),
        *[_text(f, sizes) for sizes in ((20, 30), range(20, 60))],
    ]
    assert [text.count("define hidden i64") for text in texts] == [1, 1, 1]


def _text(f, sizes):
    found = lowering.sized_for(f, "value_and_grad", tuple(specs("n")), {"n": sizes})
    return "\n".join(entry.native_text(found.call, "f").others)


def test_two_sizes_and_results_of_other_lengths():
    f = compile_grad(lambda x, y: np.concatenate([x, y, x[1:]]))
    native = f.as_native(*specs("n", "m"), sizes={"n": (2, 5), "m": (1, 5)}, mode="value")
    assert [p.shape for p in native.parameters] == [("n",), ("m",), (), (), ("2*n + m - 1",)]
    x, y, made = np.arange(2.0), np.arange(5.0, 10.0), np.empty(8)
    assert native.as_ctypes()(x.ctypes.data, y.ctypes.data, 2, 5, made.ctypes.data) == 0
    assert np.array_equal(made, f(x, y))


@pytest.mark.slow
def test_in_numba():
    numba = pytest.importorskip("numba")
    slope = loss.as_numba(*specs(3, ("rows", 3), "rows"), sizes={"rows": (4, 50)})

    @numba.njit
    def both(w, X, y, few):
        first, second = np.empty(3), np.empty(3)
        return slope(w, X[:few], y[:few], first) + slope(w, X, y, second), first + second

    w, X, y = data(50)
    value, gradient = both(w, X, y, 4)
    (v, g), (u, h) = loss.value_and_grad(w, X[:4], y[:4]), loss.value_and_grad(w, X, y)
    assert value == v + u
    assert np.array_equal(gradient, g + h)
    with pytest.raises(ValueError, match="for the sizes rows = 4, 50"):
        slope(*data(5), np.empty(3))
    with pytest.raises(ValueError, match=r"`y` must have the shape \(rows,\)"):
        slope(w, X, y[:4], np.empty(3))


MAIN = r"""
#include <stdio.h>
#include "loss.h"
int main(void) {
    double w[3] = {0.1, -0.2, 0.3}, X[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y[3] = {1, -1, 1}, value, grad[3];
    if (loss(w, X, y, 2, &value, grad) != -3) return 1;
    for (int n = 1; n < 4; n += 2) {
        if (loss(w, X, y, n, &value, grad)) return 2;
        printf("%a %a %a %a ", value, grad[0], grad[1], grad[2]);
    }
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_in_c(tmp_path):
    files = loss.export_c(tmp_path, *specs(3, ("n", 3), "n"), sizes={"n": (1, 3)})
    (tmp_path / "main.c").write_text(MAIN)
    subprocess.run(["gcc", "-o", "main", "main.c", files.object, *files.link], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    w, X, y = np.array([0.1, -0.2, 0.3]), np.arange(1.0, 10).reshape(3, 3), np.array([1.0, -1.0, 1.0])
    expected = [number for n in (1, 3) for part in loss.value_and_grad(w, X[:n], y[:n]) for number in np.ravel(part)]
    assert [float.fromhex(x) for x in printed.split()] == expected


def test_errors():
    (named,) = specs(("n", 3))
    with pytest.raises(ValueError, match="the sizes of n, not of m"):
        by_size.as_native(*specs("n"), sizes={"m": (1, 2)})
    with pytest.raises(ValueError, match="at most 1000"):
        by_size.as_native(*specs("n"), sizes={"n": range(2000)})
    for use in (lambda: by_size.lower(*specs("n")), lambda: eval_shape(np.sum, named), lambda: named.size):
        with pytest.raises(UnsupportedError, match="`n` is the name of a size"):
            use()
    ragged = compile_grad(lambda x: x[:, : len(x) ** 2])
    with pytest.raises(UnsupportedError, match=r"lengths \[1, 4, 9\] for the sizes"):
        ragged.as_native(*specs(("n", 10)), sizes={"n": (1, 2, 3)}, mode="value")
    turns = compile_grad(lambda x: np.sin(x).astype(np.float32) if len(x) > 2 else np.sin(x))
    with pytest.raises(UnsupportedError, match="other results with other sizes"):
        turns.as_native(*specs("n"), sizes={"n": (1, 3)}, mode="value")
