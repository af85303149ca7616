"""``tracegrad.profile``: counts by line, times, the trace; nothing where nothing is profiled."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

import tracegrad as tg
from tracegrad import compile_grad, config
from tracegrad.runtime import profiling
from tracegrad.runtime.launch import perf_map

X = np.array([0.5, -1.0, 2.0])


def branchy(x):
    if np.sum(x) > 0:
        return np.sum(x * x) * 3.0
    return np.sum(x * 5.0)


def warm(fn):
    f = compile_grad(fn)
    for _ in range(3):
        f.value_and_grad(X)
    return f


def found(p, function):
    return [line for line in p.lines.values() if line.function == function]


def test_calls_that_replay_are_counted_by_line():
    f = warm(branchy)
    bound = f.value_and_grad  # taken before the profile begins
    with tg.profile() as p:
        for _ in range(7):
            bound(X)
        f.value_and_grad(X)
    first, second = sorted(found(p, "branchy"), key=lambda line: line.site.line)
    assert (first.calls, second.calls) == (7, 1) and second.site.line == first.site.line + 1
    assert (first.kernels, first.recordings, first.compiles) == (7, 0, 0)
    assert 0 < first.kernel_seconds <= first.call_seconds
    assert "test_profiling.py" in str(p) and "branchy" in str(p)
    assert f.stats.traces == 1 and f.stats.calls == 11


def test_recordings_and_guards_that_fail_have_reasons():
    f = warm(branchy)
    with tg.profile() as p:
        f.value_and_grad(-X)
    (line,) = found(p, "branchy")
    assert (line.calls, line.recordings, line.guard_misses) == (1, 1, 1)
    assert line.recording_seconds > 0 and line.kernels >= 2
    reasons = " ".join(line.reasons)
    assert "a guard failed: bool() gave True at test_profiling.py" in reasons and "recorded: guard missed" in reasons
    kinds = {event.kind for event in p.events}
    assert {"call", "kernel", "recording"} <= kinds


def test_compiles_are_counted_at_the_line_of_the_call(monkeypatch):
    monkeypatch.setattr(config, "cache", False)
    f = compile_grad(lambda x: np.sum(np.tanh(x) * np.arctan(x) - np.cosh(x)) * 0.3)  # no other test has this one
    with tg.profile() as p:
        f.grad(X)
    (line,) = p.lines.values()
    assert (
        (line.compiles, line.recordings) == (1, 1) and line.compile_seconds > 0 and line.where.startswith("test_prof")
    )


def test_no_call_is_slower_when_nothing_is_profiled():
    f = warm(branchy)
    slot = f._both.first
    with tg.profile():
        f.value_and_grad(X)
        assert f._both.first.func is profiling.timed_call
    f.value_and_grad(X)
    assert type(f._both.first) is type(slot) and not profiling.PROFILES


def test_answers_are_the_same_and_errors_come_through():
    f = warm(branchy)
    expected = f.value_and_grad(X)
    with tg.profile() as p:
        np.testing.assert_array_equal(f.value_and_grad(X)[1], expected[1])
        with pytest.raises(TypeError):
            f.value_and_grad()
        f.value_and_grad(X)
    assert sum(line.calls for line in found(p, "branchy")) == 2


def test_calls_by_a_library_belong_to_the_line_that_called_it():
    f = warm(lambda x: np.sum((x - 1.0) ** 2))
    with tg.profile() as p:
        optimize.minimize(f.value_and_grad, X, jac=True)
    (line,) = [line for line in p.lines.values() if line.calls]
    assert line.site.file == __file__ and line.calls > 1


def test_profiles_within_profiles_and_threads():
    f = warm(branchy)
    with tg.profile() as outer:
        f.value_and_grad(X)
        with tg.profile() as inner:
            thread = threading.Thread(target=lambda: f.value_and_grad(X))
            thread.start()
            thread.join()
        f.value_and_grad(X)
    assert sum(line.calls for line in inner.lines.values()) == 1
    assert sum(line.calls for line in outer.lines.values()) == 3
    assert len({event.thread for event in outer.events}) == 2


def test_steps_are_profiled():
    w = tg.tensor(np.ones(3), requires_grad=True)

    @tg.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad.sum()

    x = tg.tensor(X)
    for _ in range(4):
        step(x)
    with tg.profile() as p:
        step(x)
        step(x)
    assert sum(line.calls for line in p.lines.values()) == 2


def test_chrome_trace(tmp_path):
    f = warm(branchy)
    with tg.profile(max_events=3) as p:
        for _ in range(5):
            f.value_and_grad(X)
    with pytest.raises(FileNotFoundError, match=r"chrome_trace: .*os\.makedirs"):
        p.chrome_trace(tmp_path / "missing" / "trace.json")
    p.chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(events) == 3 and trace["otherData"]["dropped"] == p.dropped > 0 and "were not kept" in str(p)
    assert all(event["dur"] >= 0 and event["ts"] >= 0 and "test_profiling" in event["args"]["line"] for event in events)


def test_perf_map_has_the_names_of_kernels(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "perf_map", True)
    monkeypatch.setattr(perf_map, "path", lambda: str(tmp_path / "perf.map"))
    warm(lambda x: np.sum(np.sin(x) * 0.77))
    if not (tmp_path / "perf.map").exists():
        pytest.skip("kernels are not loaded by elf.py here")
    for line in Path(tmp_path / "perf.map").read_text().splitlines():
        address, size, name = line.split()
        assert int(address, 16) > 0 and int(size, 16) > 0
        assert name.startswith("tracegrad:test_perf_map_has_the_names_of_kernels.<locals>.<lambda>:tg_")
