"""Closed logs: the second call is a cached call, code that does not run counts nothing, writes are done in order."""

from __future__ import annotations

import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import tracegrad
from tracegrad import compile_grad
from tracegrad.runtime.logged.warned import warnings_refused

X = np.array([0.5, -1.0, 2.0])
PLOTS = False
RATE = 0.5
module = types.ModuleType("a_module_of_this_test")
module.W = 1.0  # type: ignore[attr-defined]
runs: list[int] = []


def agrees(fn, *args, calls=3):
    """The compiled function, after calls in which value and gradient were those of plain Python."""
    f = compile_grad(fn)
    for _ in range(calls):
        value, gradient = f.value_and_grad(*args)
        np.testing.assert_allclose(value, fn(*args), rtol=1e-12)
        first = args[0]
        slopes = [(fn(first + e, *args[1:]) - fn(first - e, *args[1:])) / 2e-6 for e in 1e-6 * np.eye(np.size(first))]
        np.testing.assert_allclose(np.ravel(gradient), np.ravel(slopes), rtol=1e-5, atol=1e-7)
    return f


def test_the_second_call_runs_no_python():
    def f(x):
        runs.append(1)  # (of plain Python alone: what is appended is an effect)
        return np.sum(np.sin(x) * RATE)

    runs.clear()
    g = compile_grad(f)
    for k in range(1, 5):
        g.value_and_grad(X)
        assert len(runs) == k and g.stats.traces == 1
    assert not g.stats.live


def test_branches_that_never_run_count_nothing():
    def f(x):
        if PLOTS:
            import matplotlib.pyplot as plt

            plt.figure()
            print(locals(), input())
        return np.sum(x * x)

    assert agrees(f, X).stats.traces == 1


def test_state_that_was_read_is_compared_and_no_other():
    holder = types.SimpleNamespace()

    class Model:
        def __init__(self):
            self.scale, self.other, self.bias = 2.0, 1.0, np.ones(3)

    model = Model()

    def f(x):
        return np.sum(x * model.scale + model.bias)

    g = compile_grad(f)
    assert g(X) == f(X) and g.stats.traces == 1
    model.other = holder  # which f does not read
    assert g(X) == f(X) and g.stats.traces == 1
    model.bias = np.arange(3.0)
    assert g(X) == f(X) and g.stats.traces == 1
    model.scale = 3.0
    assert g(X) == f(X) and g.stats.traces == 2
    model.scale = 4.0  # from now on a number of the run
    assert g(X) == f(X) and g.stats.traces == 2


class Point(NamedTuple):
    x: float
    v: float

    def norm(self):
        return self.x**2 + self.v**2


def test_named_tuples_are_read_like_other_objects():
    def f(x):
        state = Point(x[0], x[1])
        for _ in range(30):
            state = Point(0.9 * state.x + state.v, 0.5 * state.v)
        return state.norm() * start.x + start.norm()

    start = Point(1.5, 2.0)
    g = agrees(f, X)
    assert g.stats.traces == 1
    start = Point(2.5, 3.0)
    assert g(X) == pytest.approx(f(X))


def test_what_an_operation_presumes_is_no_answer_to_a_question_on_its_line():
    def f(x, n):
        return np.sum(2.5 / n - x) + 1 / n

    g = compile_grad(f)
    for n in range(1, 6):
        assert g(X, n) == pytest.approx(f(X, n))
    assert g.stats.traces == 2, g.stats


def test_methods_of_arrays_in_machine_code_are_ours():
    assert agrees(lambda x: x.astype(np.float64).sum() * x.dot(x) + x.clip(-0.7, 3.0).max(), X).stats.traces == 1


def test_numbers_of_numpys_that_vary_are_numbers_of_the_run():
    def f(x):
        total.n = total.n + np.sum(x * x)
        return np.sum(x) * rates[0]

    class Total:
        n = 0.0

    total, rates = Total(), [np.float64(0.5)]
    total.n = np.float64(0.0)
    g, expected = compile_grad(f), np.float64(0.0)
    for k in range(5):
        rates[0] = np.float32(rates[0] * 0.5) if k == 3 else rates[0] * 0.5
        expected += np.sum(X * X)
        assert g(X) == pytest.approx(np.sum(X) * rates[0])
        assert total.n == pytest.approx(expected) and type(total.n) is np.float64
    assert g.stats.traces == 3, g.stats  # the third of another dtype


def test_a_module_attribute_that_was_written_is_read_as_a_global():
    space = vars(module)
    exec("def reads(x): return x * W", space)

    def f(x):
        module.W = np.sum(x) * 2.0
        return np.sum(module.reads(x))

    g = compile_grad(f)
    for _ in range(3):
        assert g(X) == f(X) and np.sum(X) * 2.0 == module.W


def test_an_item_is_written_before_its_list_is_swapped():
    def make():
        class S:
            pass

        s = S()
        s.cur, s.prev = [0.0, 1.0], [2.0, 3.0]

        def f(x):
            s.cur[0] = np.sum(x)
            s.cur, s.prev = s.prev, s.cur
            return np.sum(x) * s.prev[1]

        return f, s

    (plain, mine), (fn, theirs) = make(), make()
    g = compile_grad(fn)
    for k in range(5):
        assert g(X + k) == plain(X + k)
        assert (mine.cur, mine.prev) == (theirs.cur, theirs.prev)


def test_the_reason_why_a_log_is_not_closed_is_shown():
    def f(x):
        return np.sum(x) * np.random.default_rng().normal()

    g = compile_grad(f)
    g(X)
    assert "draws random numbers" in g.explain(X) and "(calls/random)" in g.explain(X)


def test_a_branch_on_data_is_two_paths():
    def f(x):
        return np.sum(x) if x[0] > 0 else np.sum(x * x)

    g = compile_grad(f)
    for x in (X, -X, X, -X):
        assert g(x) == f(x)
    assert g.stats.traces == 2


@pytest.mark.parametrize("places", [["a"] * 30, dict.fromkeys(range(30), "a")], ids=["list", "dict"])
def test_a_part_of_a_containers_items_is_compared_item_by_item(places):
    def f(x):
        return np.sum(x) * sum(1.0 for k in range(15, 29) if places[k] == "a")

    g = compile_grad(f)
    for changed in (None, 20, 28, 3):
        if changed is not None:
            places[changed] = "b"
        assert g(X) == g(X) == f(X)
    assert g.stats.traces == 3


def test_states_in_which_other_places_were_read_are_others():
    class First:
        n = 1

    class Second:
        n = 1

    def with_keys(counts, by_cell):
        a = b = 0

        def f(x):
            nonlocal a, b
            key = bool(x[0] > 0)
            if by_cell and key:
                a += 1
                return np.sum(x) * a
            if by_cell:
                b += 1
                return np.sum(x) * b
            counts[key] = counts.get(key, 0) + 1
            return np.sum(x) * counts[key] * (First if key else Second).n

        return f

    for by_cell in (False, True):
        plain, compiled = with_keys({}, by_cell), compile_grad(with_keys({}, by_cell))
        for sign in (1, 1, 1, 1, -1, -1, 1, -1, -1, 1, -1):
            assert compiled(sign * X) == plain(sign * X)
        assert compiled.stats.live == ""


def test_runs_of_several_threads_end_in_any_order():
    before, ended = warnings._showwarnmsg, (None, None, None)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first, second = warnings_refused(ValueError), warnings_refused(ValueError)
        for thread, context in ((one, first), (other, second)):
            thread.submit(context.__enter__).result()
        one.submit(first.__exit__, *ended).result()
        with pytest.warns(UserWarning, match="the user's"):
            one.submit(warnings.warn, "the user's").result()
        with pytest.raises(ValueError, match="a warning"):
            other.submit(warnings.warn, "of the run").result()
        other.submit(second.__exit__, *ended).result()
    assert warnings._showwarnmsg is before


def test_static_arguments_are_given_as_they_are():
    def f(x, how, model):
        total = np.sum(x) if how == "sum" else np.sum(x * x) * len(how)
        return total * model.rate if isinstance(how, str) else total

    model, plain = types.SimpleNamespace(rate=2.0), compile_grad(f, static_argnames=("how", "model"))
    for how in ("sum", "squares", "sum", "squares"):
        for rate in (2.0, 3.0):
            model.rate = rate
            assert plain(np.arange(3.0), how, model) == f(np.arange(3.0), how, model)
    assert plain.stats.live == "" and plain.stats.traces <= 4


def test_names_that_a_library_loads_when_it_is_first_asked_for_them(monkeypatch):
    monkeypatch.delitem(vars(tracegrad), "zeros", raising=False)

    def f(x):
        y = tracegrad.zeros(3)
        y[:2] = x[1:]
        return np.sum(y * y)

    assert agrees(f, X).stats.traces == 1


def test_names_that_a_library_does_not_have(monkeypatch):
    def f(x):
        return np.sum(x * x) * (2.0 if hasattr(np, "a_name_to_come") else 3.0)

    g = agrees(f, X)
    assert g.stats.traces == 1 and not g.stats.live
    monkeypatch.setattr(np, "a_name_to_come", 1.0, raising=False)
    assert g(X) == f(X) == 2 * np.sum(X * X)
