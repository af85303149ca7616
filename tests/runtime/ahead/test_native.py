"""C functions in this process: the results of Python's to the last bit, errors as codes, no interpreter."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg
from ahead_programs import COMPILED, PROGRAMS

from tracegrad import UnsupportedError, compile_grad


def called(native, *args):
    """(status, results) of a native function."""
    results = [np.full(p.shape, 7, p.dtype) for p in native.parameters if p.written]
    given = [a if isinstance(a, float) else a.ctypes.data for a in args]
    return native.as_ctypes()(*given, *[r.ctypes.data for r in results]), results


@pytest.mark.parametrize("name", PROGRAMS)
def test_value_and_gradient_have_pythons_bits(name):
    f, args = COMPILED[name], PROGRAMS[name][1]
    status, (value, gradient) = called(f.as_native(*args), *args)
    expected = f.value_and_grad(*args)
    assert status == 0
    assert value.tobytes() == np.asarray(expected[0]).tobytes()
    assert gradient.tobytes() == np.asarray(expected[1]).tobytes()


def test_the_value_alone_and_the_gradient_alone():
    f, args = COMPILED["logistic"], PROGRAMS["logistic"][1]
    status, (value,) = called(f.as_native(*args, mode="value"), *args)
    assert (status, value) == (0, f(*args))
    native = f.as_native(*args, mode="grad")
    assert [p.name for p in native.parameters] == ["w", "X", "s", "grad_w"]
    status, (gradient,) = called(native, *args)
    assert status == 0
    assert np.array_equal(gradient, f.grad(*args))


def test_the_prototype():
    native = COMPILED["logistic"].as_native(*PROGRAMS["logistic"][1])
    declared = "int logistic(const double *w, const double *X, double s, double *value, double *grad_w);"
    assert native.declaration == declared
    assert native.pointer_type == "int (*)(const double *, const double *, double, double *, double *)"


def test_names_are_identifiers():
    f = compile_grad(lambda p, **kw: np.sum(p["class"] * p["θ"]) * kw["2"], argnums=0)
    native = f.lower({"class": np.ones(3), "θ": np.ones(3)}, **{"2": 1.0}).compile().as_native()
    assert all(p.name.isidentifier() and p.name.isascii() for p in native.parameters)
    assert len({p.name for p in native.parameters}) == 6


def test_a_branch_that_goes_another_way():
    f, (x,) = COMPILED["branch"], PROGRAMS["branch"][1]
    assert called(f.as_native(x), -x)[0] == 1


def test_results_that_share_memory():
    f, (x,) = COMPILED["branch"], PROGRAMS["branch"][1]
    function, value = f.as_native(x).as_ctypes(), np.empty(())
    whole = np.arange(1.0, 7.0)
    assert function(whole.ctypes.data, value.ctypes.data, whole[2:].ctypes.data) == -2
    assert function(whole.ctypes.data, whole[:1].ctypes.data, whole[3:].ctypes.data) == -2
    assert function(whole.ctypes.data, value.ctypes.data, whole[3:].ctypes.data) == 0


def test_what_stands_outside_is_as_it_was():
    scale = np.array([1.0, 2.0])
    f = compile_grad(lambda x: np.sum(scale * x))
    native = f.as_native(np.ones(2))
    scale[:] = 5.0
    _, (value, gradient) = called(native, np.ones(2))
    assert (value, gradient.tolist()) == (3.0, [1.0, 2.0])
    assert f(np.ones(2)) == 10.0


def test_threads_run_it_at_once():
    f, args = COMPILED["divided"], PROGRAMS["divided"][1]
    native, expected = f.as_native(*args), f.grad(*args)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: called(native, *args)[1][1].tobytes(), range(8)))
    assert set(found) == {expected.tobytes()}


def test_the_code_lives_as_long_as_what_calls_it():
    function = COMPILED["number"].as_native(0.3).as_ctypes()
    value, slope = ctypes.c_double(), ctypes.c_double()
    assert function(0.3, ctypes.addressof(value), ctypes.addressof(slope)) == 0
    assert value.value == COMPILED["number"](0.3)


def test_a_long_product_asks_no_interpreter():
    """A kernel lets go of the GIL for it, which a function of ctypes does not hold."""
    f, A = compile_grad(lambda A: np.sum(A @ A)), np.ones((260, 260))
    assert called(f.as_native(A, mode="value"), A) == (0, [f(A)])


def test_cffi_calls_it():
    cffi = pytest.importorskip("cffi")
    ffi, (f, args) = cffi.FFI(), (COMPILED["logistic"], PROGRAMS["logistic"][1])
    native = f.as_native(*args)
    function = ffi.cast(native.pointer_type, native.address)
    value, gradient = np.empty(()), np.empty(10)
    w, X, into, out = [ffi.cast("double *", x.ctypes.data) for x in (*args[:2], value, gradient)]
    assert function(w, X, args[2], into, out) == 0
    assert np.array_equal(gradient, f.grad(*args))


TIES = np.array([2.0, -0.0, 1.0, 0.0, np.nan, 2.0, -np.inf, 0.0, np.nan, 1.0])


def sorted_in_turn(x, y):
    for _ in range(30):
        x = np.sort(x * 0.9 + y)[::-1]
    return np.sum(x * np.arange(5.0))


SORTS = {
    "ties": (lambda x: np.sum(np.where(x == x, x, 0)[np.argsort(x)] * np.arange(10.0)), TIES),
    "float32": (lambda x: np.sum(np.sort(x)[::2]), np.cos(np.arange(1000, dtype=np.float32))),
    "rows": (
        lambda x: np.sum(np.sort(x, axis=0) ** 2 * np.arange(6.0)[:, None]),
        np.sin(np.arange(18.0)).reshape(6, 3),
    ),
    "integers": (lambda x, k: np.sum(x[np.argsort(k)] * np.arange(4.0)), np.arange(4.0), np.array([3, -1, 3, 0])),
    "quantile": (lambda x: np.quantile(x, 0.3), np.sin(np.arange(101.0))),
    "mask": (lambda x: np.sum(x[x > 0.5] ** 2), np.sin(np.arange(101.0))),
    "none": (lambda x: np.sum(np.sort(x)), np.empty(0)),
    "in a loop": (sorted_in_turn, np.sin(np.arange(5.0)), np.cos(np.arange(5.0))),
}


@pytest.mark.parametrize("name", SORTS)
def test_sorts_have_code_of_their_own(name):
    f, *args = SORTS[name]
    f = compile_grad(f)
    status, found = called(f.as_native(*args), *args)
    assert status == 0
    for result, wanted in zip(found, f.value_and_grad(*args), strict=True):
        assert result.tobytes() == np.asarray(wanted).tobytes()


def test_a_mask_with_another_number_of_elements():
    f, x = SORTS["mask"]
    assert called(compile_grad(f).as_native(x, mode="value"), -x)[0] == 1


HISTORY = []


def appends(x):
    HISTORY.append(1)
    return np.sum(x * x)


REFUSED = {
    r"NumPy does one of its steps, sqrtm.*\n.*test_native": lambda x: np.sum(scipy.linalg.sqrtm(np.diag(x + 1))),
    "draws random numbers outside": lambda x: np.sum(x * np.random.normal(size=3)),
    "changes something outside": appends,
    "nothing of its result is computed": lambda x: None,
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_has_no_native_function_is_refused(message):
    with pytest.raises(UnsupportedError, match=message):
        compile_grad(REFUSED[message]).as_native(np.arange(3.0), mode="value")


def test_modes_have_names():
    with pytest.raises(ValueError, match='"value_and_grad"'):
        COMPILED["number"].as_native(0.3, mode="both")
