"""Results of compiled functions: the very objects that plain Python returns, where it returns what it was given."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import autograd, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

X, W = np.arange(3.0), np.ones(4)


class Model:
    def __init__(self):
        self.w = np.arange(4.0)

    def both(self, x):
        return {"w": self.w, "loss": np.sum(self.w) * x, "x": [x]}


model = Model()
GIVEN = {
    "an argument": (lambda x: x, [(X,), (X[::2],), (X.astype("f4"),), (np.arange(3),), (np.array(2.0),)]),
    "a number": (lambda x: x, [(2.5,), (np.float64(2.5),), (np.float32(2.5),)]),
    "others": (lambda x, y: (y, np.sum(x), x), [(X, W), (2.5, X), (X, X)]),
    "in containers": (lambda d: {"\0000\0": d["a"], "new": [d["b"] * 2, d["b"]]}, [({"a": X, "b": 3.0},)]),
    "a list of the caller's": (lambda xs: xs, [([X, W, 2.5],)]),
    "a choice": (lambda x, y: x if np.sum(x) > np.sum(y) else y, [(X, W), (W, X * 2), (X, W)]),
    "from outside": (lambda x: W, [(X,)]),
    "of self": (model.both, [(X,), (2.0,)]),
    "with what is computed": (lambda x: (x * 2.0, x), [(X,), (1.5,)]),
}


def parts(value):
    if isinstance(value, dict | list | tuple):
        return [p for v in (value.values() if isinstance(value, dict) else value) for p in parts(v)]
    return [value]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("case", GIVEN)
def test_what_was_given_is_returned_itself(case, live):
    plain, calls = GIVEN[case]
    f = compile_grad((lambda *args: (0.0 * id(args), plain(*args))[1]) if live else plain)
    for _ in range(3):
        for args in calls:
            found, expected = parts(f(*args)), parts(plain(*args))
            known = {id(x) for x in [*parts(args), W, model.w]}
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
                assert one is other or id(other) not in known


def test_an_array_in_two_places_is_one():
    f = compile_grad(lambda x: (lambda y: [y, {"again": y}, y.copy()])(x * 2.0))
    for _ in range(3):
        y, again, other = parts(f(X))
        assert y is again and other is not y


def test_the_auxiliary_result_is_what_was_given():
    f = autograd.value_and_grad(lambda x, y: (np.sum(x * y), (y, x)), has_aux=True)
    for _ in range(3):
        (value, (second, first)), gradient = f(X, X * 2.0 if _ else X)
        assert first is X and np.array_equal(second, gradient) and value == np.sum(X * gradient)


def test_copies_and_views_have_memory_of_their_own():
    f = compile_grad(lambda x: (x.copy(), +x, x[1:], x.T, x.reshape(3, 1)))
    for _ in range(3):
        assert not any(np.shares_memory(part, X) for part in f(X))


def test_what_cannot_be_written_to_stays_so():
    frozen = X.copy()
    frozen.flags.writeable = False
    f = compile_grad(lambda x: x)
    for _ in range(3):
        assert f(frozen) is frozen
