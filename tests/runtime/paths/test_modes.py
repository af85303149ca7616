"""What the modes of a function, and numbers of Python's and of NumPy's, have in common is recorded or compiled once."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

X = np.array([1.0, 2.0, 3.0])
W = np.array([0.5, 1.5, -1.0])

FUNCTIONS = {
    "sum": lambda x: np.sum(x * x),
    "captured": lambda x: np.sum(W * np.exp(x)),
    "number": lambda x: np.sum(np.sin(x)) * float(x[1]) * round(x[0]),
    "loop": lambda x: sum(np.sum(x) * k for k in range(40)),
    "scalar": lambda x: x[0] / x[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("first", ["grad", "value_and_grad"])
def test_a_gradient_and_the_value_with_it_are_one_recording(name, first):
    f = compile_grad(FUNCTIONS[name])
    expected = compile_grad(FUNCTIONS[name]).value_and_grad(X)
    second = "value_and_grad" if first == "grad" else "grad"
    for x in (X, X.copy(), X.copy()):
        for mode in (first, second):
            found = getattr(f, mode)(x)
            value, gradient = found if mode == "value_and_grad" else (expected[0], found)
            assert value == expected[0]
            np.testing.assert_array_equal(gradient, expected[1])
    assert (f.stats.traces, f.stats.compiles) == (2, 1 if f.stats.compiles else 0), f.stats


def test_so_are_their_branches_and_what_they_hand_through():
    def f(x, scale):
        loss = np.sum(x * x) * scale
        return (loss, {"scale": scale, "kind": "up"}) if x[0] > 0 else (-loss, {"scale": x, "kind": "down"})

    compiled = compile_grad(f, has_aux=True)
    for _ in range(2):
        compiled.grad(X, 2.0)
        compiled.grad(-X, 2.0)
    traces = compiled.stats.traces
    (value, aux), gradient = compiled.value_and_grad(X, 3.0)
    assert (value, aux, gradient.tolist()) == (42.0, {"scale": 3.0, "kind": "up"}, [6.0, 12.0, 18.0])
    (value, aux), gradient = compiled.value_and_grad(-X, 3.0)
    assert (value, aux["kind"], aux["scale"].tolist()) == (-42.0, "down", [-1.0, -2.0, -3.0])
    assert gradient.tolist() == [6.0, 12.0, 18.0]
    assert compiled.stats.traces == traces == 4


def test_state_that_has_changed_is_not_taken_over():
    state = {"rate": 2.0, "of": np.ones(3)}
    f = compile_grad(lambda x: np.sum(x * state["of"]) * state["rate"])
    for _ in range(2):
        assert f.value_and_grad(X)[0] == 12.0
    state["of"] = np.full(3, 2.0)
    assert f.grad(X).tolist() == [4.0, 4.0, 4.0]
    state["rate"] = 3.0
    assert f.grad(X).tolist() == [6.0, 6.0, 6.0]
    assert f.value_and_grad(X)[0] == 36.0


def test_effects_happen_in_both_modes():
    seen = []

    def f(x):
        seen.append(np.sum(x))
        return np.sum(x * x)

    compiled = compile_grad(f)
    for k in range(4):
        compiled.value_and_grad(X + k)
        compiled.grad(X - k)
    assert seen == [6.0, 6.0, 9.0, 3.0, 12.0, 0.0, 15.0, -3.0]


NUMBERS = {
    "square": lambda a: a * a + 2.0,
    "ufuncs": lambda a: np.sin(a) * a + np.log1p(a * a),
    "branch": lambda a: a * 2.0 if a > 0.0 else -a,
    "converted": lambda a: np.float64(a) * 3.0 - a,
    "where": lambda a: np.where(a > 0.0, np.sqrt(a), 0.0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_python_and_of_numpy_share_a_kernel(name):
    for mode in ("__call__", "grad", "value_and_grad"):
        f = compile_grad(NUMBERS[name])
        for value in (1.5, np.float64(1.5), 0.5, np.float64(0.5), 0.25, np.float64(0.25)):
            found = getattr(f, mode)(value)
            if mode == "__call__":
                assert np.isclose(found, NUMBERS[name](value), rtol=1e-14)
        assert f.stats.traces == 4
        assert f.stats.compiles <= 1, f.stats
