"""Values and gradients inside of numba's jitted code."""

from __future__ import annotations

import warnings

import numba
import numpy as np
import pytest
from ahead_programs import COMPILED, PROGRAMS

from tracegrad import compile_grad

ARGS = PROGRAMS["logistic"][1]


@pytest.fixture(scope="module")
def logistic():
    return COMPILED["logistic"].as_numba(*ARGS)


def test_descent_wholly_in_jitted_code(logistic):
    @numba.njit
    def descend(w, X, s, steps):
        g = np.empty_like(w)
        for _ in range(steps):
            logistic(w, X, s, g)
            w = w - 0.1 * g
        return w

    w = ARGS[0]
    for _ in range(20):
        w = w - 0.1 * COMPILED["logistic"].grad(w, *ARGS[1:])
    assert np.array_equal(descend(*ARGS, 20), w)


@pytest.mark.slow
def test_in_a_parallel_loop(logistic):
    @numba.njit(parallel=True)
    def each(ws, X):
        values, gradients = np.empty(len(ws)), np.empty_like(ws)
        for k in numba.prange(len(ws)):
            values[k] = logistic(ws[k], X, 0.5, gradients[k])
        return values, gradients

    ws = np.random.default_rng(0).normal(size=(16, 10))
    values, gradients = each(ws, ARGS[1])
    for w, value, gradient in zip(ws, values, gradients, strict=True):
        expected = COMPILED["logistic"].value_and_grad(w, ARGS[1], 0.5)
        assert value == expected[0]
        assert np.array_equal(gradient, expected[1])


def test_errors(logistic):
    w, X, s = ARGS
    with pytest.raises(ValueError, match=r"`w` must have the shape \(10,\)"):
        logistic(w[:5].copy(), X, s, np.empty(10))
    with pytest.raises(ValueError, match="shares memory"):
        logistic(w, X, s, w)
    with pytest.raises(numba.TypingError, match="C-contiguous"):
        logistic(w, np.asfortranarray(X), s, np.empty(10))
    read_only = np.empty(10)
    read_only.flags.writeable = False
    with pytest.raises(numba.TypingError, match="a writable array of float64"):
        logistic(w, X, s, read_only)


def test_a_branch_that_goes_another_way():
    x = PROGRAMS["branch"][1][0]
    branch = COMPILED["branch"].as_numba(x, mode="value")
    assert branch(x) == COMPILED["branch"](x)
    with pytest.raises(RuntimeError, match="another way through its branches"):
        branch(-x)


def test_numbers_in_and_out():
    f = compile_grad(lambda x, y: x * y * y, argnums=(0, 1))
    jitted = f.as_numba(0.5, 2.0)
    assert jitted(3, 2.0) == (12.0, 4.0, 12.0)


def test_code_that_calls_it_is_not_kept_in_files(logistic):
    def value(w, X):
        return logistic(w, X, 0.5, np.empty(10))

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        numba.njit(cache=True)(value)(*ARGS[:2])
    assert any("dynamic globals" in str(w.message) for w in found)
