"""Runs that are made again by what they have learned: each kind once, and none for ever."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from with_source import code_of

import tracegrad
from tracegrad import compile_grad, config, vmap
from tracegrad.runtime.logged import record as logged_record
from tracegrad.runtime.record import record
from tracegrad.tracer.record.retry import Options, Retry

X = np.array([0.3, 1.2, 2.0, 0.7, -0.4, 0.9])
TABLE = np.array([2.0, 0.5, 1.0])
s = types.SimpleNamespace(total=0, entry={"v": 1.0}, r=0.5)
log = [s.entry]


@functools.lru_cache
def cached() -> Any:
    return s


def makes_an_array(x):
    z = np.zeros(3)
    z[0] = x[0]
    return np.sum(z)


def reads_a_table(x):
    return np.sum(x) * len(TABLE.tobytes())


def adds_up(x):
    s.total += np.sum(x)
    return np.sum(x * x)


def solves(x):
    try:
        return np.sum(np.linalg.inv(np.zeros((2, 2)) + 0.0 * x[0]))
    except np.linalg.LinAlgError:
        return np.sum(x)


def chooses(x):
    total = 0.0
    for v in x:
        total += v if v > 0.5 else v * v
    return total


def loops_over_rows(x):
    def until(a):
        while a < 3.0:
            if a > 2.9:
                break
            a = a * 1.5 + 0.1
        return a

    return np.sum(vmap(until)(x + 1.0))


def finds_it_twice(x):
    s.entry["v"] = np.sum(x)
    r = log[-1]["v"]
    log.append({"v": 0.5})
    return r


def asks_a_cache(x):
    s.r = np.sum(x)
    return cached().r


#: What is learned: the function, and what ``stats`` says of it.
LEARNED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "traced arrays": (makes_an_array, "holds traced values"),
    "contents": (reads_a_table, "asked for as they are"),
    "counters": (adds_up, "a counter is also changed otherwise"),
    "trusts": (solves, "does not hold"),
    "choices": (chooses, "decided anew"),
    "apart": (loops_over_rows, "row by row"),
    "grown": (finds_it_twice, "on another way than before"),
    "refused": (asks_a_cache, "on another way than before"),
}


@pytest.fixture(autouse=True)
def _choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "select_branches", True)


def run(fn: Callable[..., Any], calls: list[tuple[Any, ...]]) -> list[Any]:
    """What these calls give and leave, from the same state."""
    s.__dict__.update(total=0, entry={"v": 1.0}, r=0.5)
    log[:] = [s.entry]
    return [[fn(*args), s.total, s.r, [one["v"] for one in log]] for args in calls]


def again(f: Any) -> int:
    return sum(count for text, count in f.stats.retraces.items() if "again" in text)


@pytest.mark.parametrize("kind", LEARNED)
def test_each_kind_is_counted_once(kind):
    program, note = LEARNED[kind]
    calls, f = [(X + 0.25 * k,) for k in range(4)], compile_grad(program)
    expected = run(program, calls)
    for found, plain in zip(run(f, calls), expected, strict=True):
        assert found[:3] == pytest.approx(plain[:3], rel=1e-12) and found[3] == pytest.approx(plain[3], rel=1e-12)
    assert sum(count for text, count in f.stats.retraces.items() if note in text) == (
        kind not in ("values", "counters", "grown", "refused")  # which runs that log need not learn
    )
    assert f.stats.retries == again(f) and type(f.stats.retries) is int


def test_ints_are_counted_once():
    def power(x, n):
        return np.sum(x) * range(100)[n]

    f = compile_grad(power)
    for n in (1, 2, 3, 4):
        assert f(X, n) == pytest.approx(power(X, n))
    assert f.stats.retries == 1 == sum("the value of `n` is asked for" in text for text in f.stats.retraces)


def test_ints_from_outside_are_counted_once():
    def power(x):
        return np.sum(x) * range(100)[s.r]

    f = compile_grad(power)
    for s.r in (1, 2, 3, 4):
        assert f(X) == pytest.approx(power(X))
    assert f.stats.retries == 1 == sum("the value of `global s.r` is asked for" in text for text in f.stats.retraces)


def test_many_things_are_learned_in_one_call():
    """One run for each of them, of which no one is on the stack of another."""
    text = "".join(
        f"def make{k}(x):\n    z = np.zeros(2)\n    z[0] = x[{k % 6}]\n    return np.sum(z)\n" for k in range(80)
    )
    space: dict[str, Any] = {"np": np}
    text += "def program(x): return " + " + ".join(f"make{k}(x)" for k in range(80))
    exec(code_of(text, "many"), space)
    f = compile_grad(space["program"])
    assert f(X) == pytest.approx(space["program"](X))
    assert f.stats.retries == 80 and not f.stats.live


# ---- without an end --------------------------------------------------------------------------------------------------


@pytest.fixture
def for_ever(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each run learns something new once it is over; the depths of the stack in which they were made."""
    depths: list[int] = []

    def learned(*of_run: Any) -> Retry:
        depths.append(len(inspect.stack(0)))
        return Retry(Options("something new again"), TypeError("this run has changed something"))

    monkeypatch.setattr(record, "needed", learned)
    monkeypatch.setattr(logged_record, "needed", learned)
    monkeypatch.setattr(logged_record, "_MOST_RUNS", 4)
    monkeypatch.setattr("tracegrad.runtime.paths.dispatcher.MAX_RUNS", 8)
    monkeypatch.setattr("tracegrad.runtime.report.look.MAX_RUNS", 8)
    return depths


def writes(x):
    s.total = s.total * 2.0 + np.sum(x)
    log.append({"v": np.sum(x * x)})
    log[0]["v"] = s.total
    return np.sum(x) * s.total


def test_runs_that_log_end_and_are_counted_too(for_ever):
    f = compile_grad(lambda x: np.sum(x * x) * 1.5)
    for k in range(3):
        assert f.grad(X + k) == pytest.approx(3 * (X + k))
    assert len(for_ever) == f.stats.retries == f.stats.retraces["something new again"] == 4
    assert "replay/restarts" in f.stats.live and "4 runs of one call" in f.stats.live


def test_it_is_looked_at_without_an_end(for_ever):
    f = compile_grad(writes)
    s.__dict__.update(total=0)
    assert "operations" in f.explain(X)
    assert f.stats.retries == 0 and not f.stats.live


def test_a_step_that_never_ends_learning_runs_eagerly(for_ever):
    w, plain = tracegrad.ones(3), np.ones(3)

    def step(k):
        w.mul_(0.5).add_(k)
        s.total += k
        return w.sum().item()

    s.__dict__.update(total=0)
    compiled = tracegrad.compile(step)
    for k in (1.0, 2.0, 3.0, 4.0):
        plain = plain * 0.5 + k
        assert compiled(k) == pytest.approx(np.sum(plain))
    assert s.total == 10.0 and w.tolist() == pytest.approx(plain.tolist())
    assert len(for_ever) >= 3 and "replay/restarts" in compiled.stats.live


def test_the_error_of_a_run_that_cannot_be_made_again_is_the_users(for_ever):
    def fails(x):
        s.total += 1
        raise ValueError(f"after {s.total}")

    f, _ = compile_grad(fails), s.__dict__.update(total=0)
    for k in (1, 2, 3):
        with pytest.raises(ValueError, match=f"after {k}") as caught:
            f(X)
        assert s.total == k and not isinstance(caught.value.__context__, Retry)


# ---- steps -----------------------------------------------------------------------------------------------------------


def test_a_step_is_made_again_once_for_each_thing_it_learns():
    w, plain, f = tracegrad.ones(3), np.ones(3), None

    def step(k):
        z = np.zeros(3)
        z[1] = k
        w.mul_(0.5).add_(tracegrad.tensor(z))
        s.total += k
        return w.sum().item()

    s.__dict__.update(total=0)
    f = tracegrad.compile(step)
    for k in (1.0, 2.0, 3.0, 4.0):
        plain = plain * 0.5 + np.array([0.0, k, 0.0])
        assert f(k) == pytest.approx(np.sum(plain))
    assert s.total == 10.0 and w.tolist() == pytest.approx(plain.tolist())
    assert not f.stats.live and f.stats.retries == again(f) == 2  # a traced array, and a number that varies


def test_a_step_over_one_memory_runs_eagerly_and_is_counted():
    memory = tracegrad.ones(4)
    step = tracegrad.compile(lambda a, b: a.add_(b).sum().item())
    assert [step(memory[:2], memory[1:3]) for _ in range(6)] == [4.0, 7.0, 11.0, 16.0, 22.0, 29.0]
    assert step.stats.retries == 0 and "step/shares" in step.stats.live
