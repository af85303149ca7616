"""Paths: which ones a call tries, how often each ran, and which guard failed."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.runtime.launch import bind
from tracegrad.runtime.paths import dispatcher, entry

X = np.array([0.3, -1.2, 2.0, 0.7])


def tree(x):
    y = x * 2.0
    if x[0] > 0:
        return np.sum(y) if x[1] > 0 else np.sum(y) * 3
    if x[1] > 0:
        return np.sum(y * y)
    return np.sum(y) - x[2] if x[2] > 0 else np.sum(y) + x[3]


LINE = tree.__code__.co_firstlineno
SIGNS = [(1, 1, 1), (1, -1, 1), (-1, 1, 1), (-1, -1, 1), (-1, -1, -1)]


def at(signs):
    return np.array([*signs, 0.5])


def counted(f):
    """(runs, misses) by the answers of each path."""
    return {p.answers: (p.runs, sum(p.misses.values())) for p in f.stats.paths}


@pytest.fixture(params=["native", "python"])
def launcher(request, monkeypatch):
    monkeypatch.setattr(bind, "NATIVE", bind.NATIVE and request.param == "native")


def test_runs_are_counted_in_the_fast_path_too(launcher):
    f = compile_grad(tree)
    for signs, times in ((SIGNS[0], 10), (SIGNS[3], 7), (SIGNS[0], 5), (SIGNS[1], 3)):
        for _ in range(times):
            f.grad(at(signs))
    runs = sorted((p.runs for p in f.stats.paths), reverse=True)
    assert runs == [15, 7, 3] == [p.runs for p in f.stats.paths]
    busiest = f.stats.paths[0]
    assert busiest.mode == "grad" and busiest.answers == (
        f"bool() gave True at test_paths.py:{LINE + 2} in tree",
        f"bool() gave True at test_paths.py:{LINE + 3} in tree",
    )
    assert busiest.misses == dict.fromkeys(busiest.answers, 1)  # the first call of each sibling
    text = str(f.stats)
    assert f"15 runs of grad where {busiest.answers[0]}; {busiest.answers[1]}" in text
    assert f"1 x missed: {busiest.answers[1]}" in text and text in f.explain(X, level="all").replace(
        "value_and_grad ", ""
    )


def test_numbers_that_differ_are_misses_not_runs(launcher):
    f = compile_grad(lambda x: np.sum(x) * int(10.0 * x[0]))
    for _ in range(4):
        f(X)
    g = 2 * X
    for x in (g, g, g, X, g):
        assert f(x) == pytest.approx(np.sum(x) * int(10.0 * x[0]))
    first, second = sorted(f.stats.paths, key=lambda p: p.answers[0])
    assert (first.runs, second.runs) == (5, 4) and f.stats.calls == 9
    assert first.misses and all("int() gave " in text for text in first.misses)


def test_counts_of_a_function_that_numpy_runs_partly():
    f = compile_grad(lambda x: np.sum(np.sort(x) * x) if x[0] > 0 else np.sum(x))
    for x in (X, X, X, -X, -X, X):
        f(x)
    assert sorted(p.runs for p in f.stats.paths) == [2, 4]


@pytest.fixture
def launches(monkeypatch):
    """The paths that the dispatcher ran."""
    ran = []
    real = dispatcher.run_path
    monkeypatch.setattr(dispatcher, "run_path", lambda path, *rest: (ran.append(path), real(path, *rest))[1])
    return ran


@pytest.fixture
def no_slots(monkeypatch):
    monkeypatch.setattr(entry, "MAX_SLOTS", 0)


def kernel_runs(f):
    return sum(runs + misses for runs, misses in counted(f).values())


@pytest.mark.usefixtures("no_slots", "launcher")
def test_a_miss_leads_to_the_path_that_parts_there():
    f = compile_grad(tree)
    for signs in (*SIGNS, *SIGNS):
        f(at(signs))
    f(at(SIGNS[4]))
    for signs, most in ((SIGNS[3], 2), (SIGNS[2], 2), (SIGNS[0], 3), (SIGNS[1], 2), (SIGNS[4], 4)):
        before = kernel_runs(f)
        assert f(at(signs)) == pytest.approx(tree(at(signs)))
        assert kernel_runs(f) - before <= most  # one more for each question that has to be answered anew
    assert f.stats.traces == len(SIGNS) and not f.stats.live


@pytest.mark.usefixtures("no_slots", "launcher")
def test_a_way_not_taken_before_is_found_out_by_few_runs():
    def plain(x):
        total = np.sum(x)
        for k in range(5):
            total = total * 1.5 if x[k] > 0 else total + k
        return total

    f = compile_grad(plain)
    for k in range(16):  # every way through the first four branches, all with x[4] > 0
        x = np.array([1.0 if k >> i & 1 else -1.0 for i in range(4)] + [1.0])
        for _ in range(2):
            assert f(x) == pytest.approx(plain(x))
    before = kernel_runs(f)
    x = np.array([1.0, -1.0, 1.0, -1.0, -1.0])
    assert f(x) == pytest.approx(plain(x))
    assert kernel_runs(f) - before <= 6  # one for each question, and the new path; not seventeen
    assert f.stats.traces == 17


def test_a_slot_that_missed_is_not_run_again(launches):
    f = compile_grad(tree)
    for _ in range(3):
        f(at(SIGNS[0]))
    launches.clear()
    f(at(SIGNS[2]))
    assert len(launches) == 1  # the new path; that the first one failed was known from its slot
    assert f.stats.guard_misses == 1
    (_, misses) = counted(f)[f.stats.paths[0].answers]
    assert misses == 1


def test_int_guards_have_more_than_two_answers():
    def plain(x):
        return np.sum(x[: int(x[0])]) if x[1] > 0 else np.sum(x)

    f = compile_grad(plain)
    points = [np.array([k, s, 5.0, 6.0]) for s in (1.0, -1.0) for k in (1.0, 2.0, 3.0)]
    for x in points * 4:
        assert f(x) == pytest.approx(plain(x))
    assert f.stats.traces == 4  # four paths
    assert sum(p.runs for p in f.stats.paths) == f.stats.calls


@pytest.mark.parametrize("begins_traced", [False, True])
def test_branches_that_every_turn_takes_are_paths_that_stay(begins_traced):
    """The guards of rolled loops all expect True: what they ask for tells them apart, from each other and from guards
    of single iterations."""

    @compile_grad
    def f(w, x):
        h = w * 0.0 if begins_traced else np.zeros(3)
        for row in x:
            h = np.tanh(h + w * row)
            if np.sum(row) > 0:
                h = h * 0.5
        return np.sum(h)

    w, up = np.array([0.1, 0.2, 0.3]), np.ones((24, 3))
    mixed = np.where(np.arange(24)[:, None] % 3 == 0, up, -up)
    for x in (up, -up, mixed) * 3:
        f.value_and_grad(w, x)
    assert f.stats.traces == 3 and f.stats.live == ""
    assert sorted(path.runs for path in f.stats.paths) == [3, 3, 3]


def test_floats_that_numpy_is_told_tell_paths_apart():
    f = compile_grad(lambda x: np.sum(np.nan_to_num(x, nan=float(x[0])) * x[1]))
    points = [np.array([k, 2.0, np.nan]) for k in (1.0, 3.0)]
    for x in points * 3:
        assert f(x) == pytest.approx((x[0] + 2.0 + x[0]) * 2.0)
    assert [path.runs for path in f.stats.paths] == [3, 3] and f.stats.traces == 2
