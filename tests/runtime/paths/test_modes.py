"""What the modes of a function, and numbers of Python's and of NumPy's, have in common is recorded or compiled once."""

from __future__ import annotations

import gc
import itertools
import warnings
import weakref

import numpy as np
import pytest
from selection import some

from tracegrad import DifferentiationError, UnsupportedError, autograd, compile_grad, random, stop_gradient
from tracegrad.tracer.record.recorder import Recorder

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
    assert (f.stats.traces, f.stats.compiles) == (1, 1 if f.stats.compiles else 0), f.stats


MODES = {"value": "__call__", "grad": "grad", "both": "value_and_grad"}
PLAIN = {
    **FUNCTIONS,
    "while": lambda x: _doubled(x),
    "break": lambda x: _ended(x),
    "branch": lambda x: np.sum(np.sqrt(x)) if x[0] > 0.5 else np.sum(x) * 3.0,
    "key": lambda x: {1.0: 2.0}.get(stop_gradient(x[0]), 3.0) * np.sum(x * x),
    "derived": lambda x: np.sum(np.linalg.inv(np.diag(W)) @ x * x),
    "identity": lambda x: np.sum(x * x) * (2.0 if x is W else 3.0),
    "sorted": lambda x: np.sum(np.sort(x)[::-1] * W),
    "constant": lambda x: np.sum(x * np.arange(3.0)) + 1.0,
}
LIVE = "key", "identity"  # their logs are not closed: Python runs in each call


def _doubled(x):
    turns = 0.0
    while np.sum(x) < 50.0:
        x, turns = x * 1.5, turns + 1.0
    return np.sum(x) * turns


def _ended(x):
    for turn in range(100):  # noqa: B007
        x = x * 1.25
        if np.sum(x) > 60.0:
            break
    return np.sum(x) * (turn + 1) ** 2


def _answer(f, mode, *args):
    return getattr(f, MODES[mode])(*args)


def _equal(found, expected):
    found, expected = [x if type(x) is tuple else (x,) for x in (found, expected)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


ORDERS = [("value", "grad", "both"), ("both", "value", "grad"), ("value", "value", "both"), ("grad", "grad", "value")]


@pytest.mark.parametrize("order", some(ORDERS, quick=2))
@pytest.mark.parametrize("name", some(PLAIN, quick=4))
def test_python_runs_as_often_as_for_one_mode(name, order):
    expected = {mode: _answer(compile_grad(PLAIN[name]), mode, X) for mode in MODES}
    f = compile_grad(PLAIN[name])
    for mode in (*order, *order, *MODES):
        _equal(_answer(f, mode, X.copy()), expected[mode])
    if name in LIVE:
        assert f.stats.live
    else:
        assert f.stats.traces == 1 and not f.stats.live, f.stats
        assert f.stats.derived >= 1 and "derived from recordings of another mode" in str(f.stats)
    for mode in MODES:  # other numbers, for which the program may not be the same
        for x in (X * 0.125, X * 0.125, X * 3.0):
            _equal(_answer(f, mode, x), _answer(compile_grad(PLAIN[name]), mode, x))


def test_so_do_gradients_with_respect_to_other_arguments():
    f = compile_grad(lambda x, a, scale: np.sum(x * a) ** 2 * scale)
    for _ in range(2):
        f(X, W, 2.0)
    assert f.grad(X, W, 2.0).tolist() == (4.0 * np.sum(X * W) * W).tolist()
    assert autograd.grad(f, 1)(X, W, 2.0).tolist() == (4.0 * np.sum(X * W) * X).tolist()
    of_all = autograd.value_and_grad(f, (0, 2))(X, W, 3.0)
    assert of_all[1][1] == np.sum(X * W) ** 2
    assert (f.stats.traces, f.stats.derived) == (1, 3), f.stats


def test_ints_that_are_numbers_of_the_run_are_so_in_all_modes():
    f = compile_grad(lambda x, n: (np.sum(x * n) / (n + 1), n * 2), has_aux=True)
    for n in range(2, 30):
        assert f(X, n) == (pytest.approx(6.0 * n / (n + 1), rel=1e-14), 2 * n)
    for n in range(2, 30):
        gradient, aux = f.grad(X, n)
        np.testing.assert_allclose(gradient, np.full(3, n / (n + 1)), rtol=1e-14)
        assert type(aux) is int and aux == 2 * n
    assert (f.stats.traces, f.stats.derived) == (2, 1), f.stats


def test_each_branch_is_derived_when_a_call_takes_it():
    f = compile_grad(lambda x: np.sum(x * x) if x[0] > 0 else np.sum(np.exp(x)) if x[1] > 0 else -np.sum(x))
    points = [X, X * [-1, 1, 1], -X]
    for x in points * 2:
        f(x)
    assert f.stats.traces == 3
    for x, expected in zip(points * 2, [2 * X, np.exp(points[1]), -np.ones(3)] * 2, strict=True):
        np.testing.assert_allclose(f.grad(x), expected)
    assert (f.stats.traces, f.stats.derived) == (3, 3), f.stats
    runs = [path.runs for path in f.stats.paths if path.mode == "value"]
    assert runs == [2, 2, 2]  # asking which holds is no run


class Model:
    def __init__(self):
        self.calls, self.history, self.log, self.last = 0, [], {}, None

    def loss(self, x):
        self.calls += 1
        value = np.sum(x * x)
        self.history.append(value)
        self.log["loss"] = value * 2.0
        self.last = x + 1.0
        return value


@pytest.mark.parametrize("order", [*ORDERS, ("value", "grad", "value"), ("both", "value", "value")])
def test_effects_happen_once_in_each_call(order):
    model, twin = Model(), Model()
    compiled = compile_grad(Model.loss, argnums=1)
    for k, mode in enumerate(order * 2):
        _answer(compiled, mode, model, X + k)
        twin.loss(X + k)
        assert (model.calls, model.history, model.log) == (twin.calls, twin.history, twin.log)
        assert model.last.tolist() == twin.last.tolist()
    assert compiled.stats.traces <= 2 + 2 * (len(set(order)) > 1), compiled.stats


def test_random_numbers_go_on_in_all_modes():
    def f(x):
        return np.sum(x * random.normal(shape=(3,)))

    def run(made, order):
        random.seed(3)
        return [_answer(made[mode], mode, X) for mode in order]

    one, order = compile_grad(f), ["value", "value", "both", "grad", "value", "both"]
    apart = {mode: compile_grad(f) for mode in MODES}
    for mode in MODES:
        for _ in range(2):
            _answer(apart[mode], mode, X)
    for a, b in zip(run(dict.fromkeys(MODES, one), order), run(apart, order), strict=True):
        _equal(a, b)
    assert one.stats.traces == 1


def _of_text(x):
    return np.sum(x) * float(f"{x[0]:.3f}")


ERRORS = {
    "no_scalar": (lambda x: x * 2.0, (X,)),
    "no_result": (lambda x: None, (X,)),
    "an_int": (lambda x: np.sum(np.ones(x)), (3,)),
    "ints": (lambda x: np.sum(x), (np.arange(3),)),
    "text": (_of_text, (X,)),
    "one_list_twice": (lambda x, y: np.sum(x[0] * y[0]), ([X],) * 2),
    "no_position": (lambda *, x=X: np.sum(x), ()),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_that_only_a_gradient_has(name):
    fn, args = ERRORS[name]
    f = compile_grad(fn)
    for _ in range(2):
        value = f(*args)

    def outcome(of):
        try:
            return np.asarray(of.grad(*args)).tolist()
        except (DifferentiationError, UnsupportedError) as error:
            return type(error), str(error)

    expected, *found = [outcome(of) for of in (compile_grad(fn), f, f)]
    assert found == [expected] * 2
    assert name == "one_list_twice" or isinstance(expected, tuple)
    np.testing.assert_array_equal(f(*args), value)


def test_a_loss_that_does_not_depend_on_its_argument_is_told_of_when_it_is_derived():
    f = compile_grad(lambda x: np.sum(W * 2.0) + 0.0 * int(x[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            f(X)
    with pytest.warns(UserWarning, match="does not depend on `x`") as told:
        for _ in range(3):
            assert not f.grad(X).any()
    assert len(told) == 1 and told[0].filename == __file__ and f.stats.traces == 1


def test_another_program_in_the_second_run_is_not_verified_by_another_mode():
    """What Python does in secret, and so differently, is noticed whichever mode is asked for."""
    for order in itertools.product(MODES, repeat=3):
        numbers = itertools.count(1)
        secret = _Secret(lambda numbers=numbers: float(next(numbers)))
        f = compile_grad(lambda x, secret=secret: np.sum(x) * abs(secret))
        for mode in order:
            f_, expected = _answer(f, mode, X), secret.last
            value = f_[0] if mode == "both" else f_[0] * 6.0 if mode == "grad" else f_
            assert value == 6.0 * secret.last and secret.last == expected


class _Secret:
    def __init__(self, number):
        self.number, self.last = number, 0.0

    def __abs__(self):
        self.last = self.number()
        return self.last


def recorders():
    return {id(one) for one in gc.get_objects() if type(one) is Recorder}


@pytest.mark.slow  # looks through all objects of the process
def test_what_is_kept_holds_no_arguments():
    model, before = Model(), recorders()
    f = compile_grad(Model.loss, argnums=1)
    for mode in ("value", "both", "grad", "value"):
        x = np.arange(1000.0)
        gone = weakref.ref(x)
        _answer(f, mode, model, x)
        del x
        model.history.clear()
        gc.collect()
        assert gone() is None
        assert recorders() <= before


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
    assert compiled.stats.traces == traces == 2


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
        assert f.stats.traces == 2
        assert f.stats.compiles <= 1, f.stats
