"""Ways through the branches that read different places share a state and a launch; both arms of an `if` run."""

import numpy as np
import pytest

from tracegrad import autograd, compile_grad

A, B, ITEMS, WEIGHTS = 2.0, 3.0, [4.0, 5.0], np.array([1.0, 2.0, 3.0])
ROWS = [[0.5, 1.0], [1.5, 2.0]]


def shifted(x):
    return np.cos(x) * ITEMS[0]


def way(x):
    if x.sum() > 0:
        if x[0] > 1:
            return (np.sin(x) * WEIGHTS).sum() * A
        return (np.exp(x) * B).sum()
    return shifted(x).sum() * ITEMS[1]


WAYS = [np.array(x) for x in ([2.0, 1, 1], [0.5, 1, 1], [-9.0, 1, 1])]


@pytest.fixture
def compiled():
    f = compile_grad(way)
    for x in WAYS:
        f(x)
    return f


def test_each_way_is_recorded_once(compiled):
    for x in [*WAYS, *reversed(WAYS)] * 3:
        np.testing.assert_allclose(compiled(x), way(x))
    assert compiled.stats.traces == len(WAYS)
    for x in WAYS:
        autograd.value_and_grad(compiled)(x)
    assert "3 of the paths are tried in one launch" in compiled.explain(WAYS[0], level="all")


@pytest.mark.parametrize(("name", "value"), [("A", 7.0), ("B", -1.0), ("WEIGHTS", np.array([0.0, 1.0, -1.0]))])
def test_a_place_that_one_way_reads_counts_for_it(compiled, monkeypatch, name, value):
    monkeypatch.setitem(globals(), name, value)
    for x in WAYS * 2:
        np.testing.assert_allclose(compiled(x), way(x))


@pytest.mark.parametrize("k", [0, 1])
def test_so_do_items(compiled, monkeypatch, k):
    monkeypatch.setitem(globals(), "ITEMS", [*ITEMS])
    ITEMS[k] = -3.0
    for x in WAYS * 2:
        np.testing.assert_allclose(compiled(x), way(x))


def test_so_do_functions(compiled, monkeypatch):
    monkeypatch.setitem(globals(), "shifted", lambda x: x * x)
    for x in WAYS * 2:
        np.testing.assert_allclose(compiled(x), way(x))


def test_a_way_with_other_inputs_has_a_state_of_its_own():
    f = compile_grad(lambda x: (x * WEIGHTS).sum() if x[0] > 0 else x.sum())
    for x in [-WAYS[0], WAYS[0], -WAYS[0], WAYS[0]]:
        np.testing.assert_allclose(f(x), f.__wrapped__(x))
    assert f.stats.traces == 2


# ---- both arms


def summed(x):
    s = 0.0
    for k in range(len(x)):
        v = x[k]
        if v > 0 and v < 2:
            s = s + v * v
        elif v < -1:
            continue
        else:
            s -= np.sin(v)
        s = s * 1.01
    return s


def chosen(x):
    out = []
    for v in x:
        if not v > 0:
            y = -v
        elif 1 < v < 2 or v > 3:
            y = v * v
        else:
            y = np.exp(v) if v > 0.5 else 0.5
        out.append(y * 2.0)
    return np.stack(out).sum()


def with_items(x):
    parts = [x[0], x[1], x[0] * x[1]]
    total = x[0] * 0.0
    for k in range(len(x)):
        if x[k] > 0:
            parts[1] = parts[0] * x[k]
            total += parts[1]
        else:
            own = []
            own.append(x[k])
            total = total + own[0]
    return total + parts[1]


def returns(x):
    def part(v):
        if v > 1:
            return v
        if v < -1:
            return -v
        return v * v

    return sum(part(v) for v in x)


@pytest.mark.parametrize("function", [summed, chosen, with_items, returns])
@pytest.mark.parametrize("size", [6, 200])
def test_both_arms_run_where_a_question_has_several_answers(function, size):
    random, f = np.random.default_rng(3), compile_grad(function)
    for _ in range(5):
        x = random.normal(size=size) * 2
        value, gradient = autograd.value_and_grad(f)(x)
        np.testing.assert_allclose(value, function(x), rtol=1e-9)
        steps = np.eye(size)[: min(size, 8)] * 1e-6
        numeric = [(function(x + e) - function(x - e)) / 2e-6 for e in steps]
        np.testing.assert_allclose(gradient[: len(steps)], numeric, atol=1e-5, rtol=1e-5)
    assert f.stats.traces <= 2, f.stats
    assert f.stats.live == ""


def test_what_an_arm_does_outside_makes_a_question_of_the_choice():
    seen = []

    def f(x):
        s = 0.0
        for k in range(6):
            if x[k] > 0:
                seen.append(k)
                s = s + x[k]
        return s

    g = compile_grad(f)
    x = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0])
    for turn in range(3):
        assert g(x) == 6.0
        assert seen == [0, 2, 4] * (turn + 1)


def test_an_object_that_both_arms_may_give_is_not_asked_which_it_is():
    def f(x, y):
        kept = x * 2
        for k in range(6):
            if y[k] > 0:
                kept = x
        return x.sum() if kept is x else y.sum()

    g = compile_grad(f)
    x = np.ones(6)
    for y in (np.array([-1.0, -1, 1, -1, 1, 1]), -np.ones(6), np.array([-1.0, -1, 1, -1, 1, 1])):
        assert g(x, y) == f(x, y)


def test_states_that_have_read_the_same_of_other_objects_are_told_apart(monkeypatch):
    """Two lists of one length, of which one item is read: of the first, or of the second."""
    made: list[float] = []

    def reads_one_of_them(x):
        ROWS[0], ROWS[1] = ROWS[1], ROWS[0]
        made.append(1.0)
        return np.sum(x) + ROWS[len(made) % 2][0]

    f = compile_grad(reads_one_of_them)
    x = np.ones(3)
    for call in range(12):
        if call % 5 == 0:
            monkeypatch.setitem(globals(), "ROWS", [[0.5, 1.0], [1.5, 2.0]])
        swapped = ROWS[::-1]
        assert f(x) == 3.0 + swapped[len(made) % 2][0]
        assert swapped == ROWS
