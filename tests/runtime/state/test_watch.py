"""The watch over a recorded run: the native filter finds what the callback in Python finds, and no less."""

from __future__ import annotations

import cProfile
import datetime
import gc
import io
import math
import os
import random
import sys
import threading
import time
import weakref
from array import array

import llvmlite.binding
import numpy as np
import pytest
from analysed import analyse

from tracegrad.runtime.state import native_filter, quiet_calls
from tracegrad.runtime.state import watch as state_watch
from tracegrad.runtime.state.native_filter import PairSet
from tracegrad.tracer.ir.refusals import Refusal, listed
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.recorder import Recorder, recording

native_only = pytest.mark.skipif(native_filter.unavailable() is not None, reason=str(native_filter.unavailable()))


class Moment(datetime.datetime):
    pass


class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)


class Made(metaclass=Meta):
    pass


def counting():
    yield from range(3)


def plain_helper():
    return abs(-2)


def raising():
    raise KeyError("not there")


PURE = [
    lambda: math.sin(1.0), lambda: [3, 1].sort(), lambda: {"a": 1}.get("a"), lambda: "abc".upper(), lambda: len([1]),
    lambda: np.sum(np.ones(3)), lambda: np.linalg.norm(np.ones(3)), lambda: dict.fromkeys("ab"),
    lambda: str.maketrans("a", "b"),
    lambda: int.from_bytes(b"ab", "big"), lambda: datetime.datetime(2020, 1, 1).isoformat(), lambda: np.ones(3).sum(),
    lambda: sorted([3, 1], key=lambda v: -v), lambda: object.__new__(object), lambda: sys.getsizeof(1),
    lambda: range(3).index(2),
]  # fmt: skip
IMPURE = [
    time.time, time.perf_counter, random.random, random.Random(3).random, np.random.rand, np.random.default_rng,
    np.random.default_rng(0).normal, lambda: np.random.standard_normal(2), datetime.datetime.now, Moment.now,
    datetime.date.today, os.getcwd, lambda: open(os.devnull).close(), lambda: print(end=""),
    lambda: id(3), lambda: globals(),
    lambda: eval("1"), lambda: list(counting()), counting, plain_helper, Made, threading.Lock, gc.collect,
    io.StringIO("a").read, threading.Lock().locked, lambda: next(iter([1, 2])), sys._getframe,
    lambda: sys.getrefcount(1), lambda: os.urandom(2), lambda: time.strftime("%Y"), lambda: "a b".split(),
]  # fmt: skip


def call(fn):
    return fn()


def codes(seen):
    return [reason.code for reason in seen.reasons]


def reasons_of(run, *args, before=bool):
    """What a watch of ``run(*args)``, *before* which this is called, finds, natively and in Python."""
    found = []
    for native in (True, False):
        plan = analyse(run)
        with pytest.MonkeyPatch.context() as patch:
            if not native:
                patch.setattr(state_watch, "unavailable", lambda: "for this test")
            before()
            with plan.watch() as seen:
                assert (seen._filter is not None) == native
                run(*args)
        found.append(seen.reasons)
    return found


@pytest.mark.slow
@native_only
@pytest.mark.parametrize("fn", PURE + IMPURE, ids=lambda fn: getattr(fn, "__qualname__", repr(fn))[:30])
def test_filter_and_callback_agree(fn):
    gc.collect()  # so that none in the run finds what others have left
    natively, in_python = reasons_of(call, fn)
    assert natively == in_python
    again, _ = reasons_of(call, fn)  # whatever the first run has taught
    assert again == natively


class Cycle:
    def __init__(self, held=None, last=None):
        self.held, self.me = held, self
        if last is not None:
            self.noticed = weakref.finalize(self, last)


class Closing(Cycle):
    def __del__(self):
        threading.Lock().acquire()
        plain_helper()


@pytest.fixture
def few_objects():
    """The collector looks at what a test makes alone."""
    gc.freeze()


@native_only
@pytest.mark.parametrize(
    "make",
    [
        lambda: Cycle(llvmlite.binding.parse_assembly("define i32 @f() { ret i32 1 }")),
        Closing, lambda: Cycle(last=plain_helper), lambda: Cycle(open(os.devnull), time.time),  # noqa: SIM115
    ],
    ids=["LLVM", "a finalizer", "a callback", "a file"],
)  # fmt: skip
def test_what_the_collector_finalizes_is_not_the_functions(make, few_objects):
    def collecting():
        gc.collect()

    for _ in range(2):
        natively, in_python = [[r.code for r in reasons] for reasons in reasons_of(collecting, before=make)]
        assert natively == in_python == [Refusal.CALLS_INTERPRETER]


@native_only
@pytest.mark.parametrize(
    "fn, reason",
    [
        (time.time, "(calls/clock)"), (datetime.datetime.now, "(calls/clock)"), (Moment.now, "(calls/clock)"),
        (np.random.rand, "(calls/numpy-random)"), (random.random, "(calls/random)"), (lambda: id(3), "(calls/memory)"),
        (lambda: open(os.devnull).close(), "(calls/files)"), (lambda: open(os.devnull).close(), "(calls/object)"),
        (lambda: list(counting()), "`counting`"), (plain_helper, "`plain_helper`"), (Made, "`__call__`"),
    ],
)  # fmt: skip
def test_what_is_impure_is_found(fn, reason):
    natively, _ = reasons_of(call, fn)
    assert reason in listed(natively)


@native_only
def test_pure_calls_give_no_reason():
    def pure():
        return [math.sqrt(float(v)) for v in range(4)], {"a": 1}.get("a"), np.sum(np.ones(3)), "a-b".split("-")

    natively, in_python = reasons_of(pure)
    assert natively == in_python == []


@native_only
def test_harmless_in_a_library_is_looked_at_again_in_the_users_code():
    def user():
        return id(3)

    ours = {"__name__": "numpy.made_up"}
    exec(compile("def quiet():\n return id(3)", np.__file__, "exec"), ours)
    assert reasons_of(call, ours["quiet"])[0] == []
    assert reasons_of(call, ours["quiet"])[0] == []  # learned for this code ...
    assert Refusal.CALLS_MEMORY in [reason.code for reason in reasons_of(call, user)[0]]  # ... and for no other


@native_only
def test_each_run_is_told_of_its_own_helpers():
    for _ in range(2):
        natively, in_python = reasons_of(call, plain_helper)
        assert len(natively) == 1 and natively == in_python and natively[0].code is Refusal.CALLS_UNSEEN


@native_only
def test_more_helpers_than_the_first_table_holds():
    helpers = [eval(f"lambda: {k}") for k in range(200)]

    def run():
        return [h() for h in helpers] + [h() for h in helpers]

    natively, in_python = reasons_of(run)
    assert natively == in_python


def test_a_prior_profiler_gets_its_events():
    events = []

    def mine(frame, event, arg):
        events.append((event, frame.f_code.co_name))

    plan = analyse(plain_helper)
    sys.setprofile(mine)
    try:
        with plan.watch():
            plain_helper()
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert ("call", "plain_helper") in events and ("return", "plain_helper") in events


def test_cprofile_goes_on_afterwards():
    profiler = cProfile.Profile()
    profiler.enable()
    with analyse(plain_helper).watch():
        plain_helper()
    math.sqrt(2.0)
    profiler.disable()
    assert any("sqrt" in str(entry.code) for entry in profiler.getstats())


def test_nested_watches_both_see():
    outer, inner = analyse(call), analyse(call)
    with outer.watch() as first:
        before = sys.getprofile()
        with inner.watch() as second:
            call(time.time)
        assert sys.getprofile() is before
        call(plain_helper)
    assert sys.getprofile() is None
    assert {Refusal.CALLS_CLOCK, Refusal.CALLS_UNSEEN} <= set(codes(first))
    assert "`plain_helper`" in listed(first.reasons) and "`plain_helper`" not in listed(second.reasons)
    assert Refusal.CALLS_CLOCK in codes(second)


@native_only
def test_a_profile_that_was_saved_and_set_again_goes_on_watching():
    plan = analyse(call)
    with plan.watch() as seen:
        sys.setprofile(sys.getprofile())
        call(time.time)
    assert Refusal.CALLS_CLOCK in codes(seen)
    with plan.watch() as seen:
        state_watch.restore_profile(sys.getprofile())
        call(time.time)
    assert Refusal.CALLS_CLOCK in codes(seen)


def test_exceptions_pass_through():
    plan = analyse(call)
    with pytest.raises(KeyError), plan.watch() as seen:
        call(raising)
    assert sys.getprofile() is None and "`raising`" in listed(seen.reasons)


def test_an_error_in_the_report_reaches_the_user():
    def report(reason):
        raise RuntimeError(str(reason))

    with pytest.raises(RuntimeError, match="found only"), state_watch.Watch({}, state_watch.Trust(), report):
        call(plain_helper)
    assert sys.getprofile() is None


def test_recursion_and_generators():
    def down(n):
        return n if n == 0 else down(n - 1)

    def run():
        return down(50), sum(v for v in range(5)), [v + 1 for v in range(3)]

    natively, in_python = reasons_of(run) if native_filter.unavailable() is None else ([], [])
    assert natively == in_python == []


def test_the_collectors_callbacks_are_not_the_functions():
    def timed(phase, info):
        time.perf_counter()

    gc.callbacks.append(timed)
    try:
        plan = analyse(plain_helper)
        with plan.watch() as seen:
            gc.collect()
    finally:
        gc.callbacks.remove(timed)
    assert "clock" not in listed(seen.reasons) and "timed" not in listed(seen.reasons)


def test_threads_watch_each_their_own_run():
    found, start = {}, threading.Barrier(4)

    def work(k):
        plan = analyse(call)
        start.wait()
        for _ in range(50):
            with plan.watch() as seen:
                call(time.time if k % 2 else plain_helper)
        found[k] = seen.reasons

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for k in range(4):
        assert len(found[k]) == 1 and found[k][0].code is (Refusal.CALLS_CLOCK if k % 2 else Refusal.CALLS_UNSEEN)


@native_only
def test_what_python_is_asked_does_not_grow_with_the_run(monkeypatch):
    def f(x, steps):
        for _ in range(steps):
            x = np.exp(-x) * 0.5 + x[0] - np.ones(3) * min(steps, 2)
        return x

    asked, ask = [], state_watch.Watch._ask
    monkeypatch.setattr(state_watch.Watch, "_ask", lambda *event: (asked.append(event), ask(*event)))

    def count(steps):
        asked.clear()
        recorder, plan = Recorder(), analyse(f)
        with recording(recorder):
            x = TracedArray(recorder.add_input(np.ones(3), "x"), recorder)
            with plan.watch() as seen:
                f(x, steps)
        assert seen.reasons == []
        return len(asked)

    first = count(2)
    assert first >= count(2) == count(50)


@native_only
def test_quick_parts_are_not_reported_on_where_we_watch():
    events = []

    def quick_part(a, b):
        if b == 0:
            raise KeyError(a)
        return a / b if b > 0 else None

    def outer(a, b):
        return plain_helper() + a + b

    def mine(frame, event, arg):
        events.append(frame.f_code.co_name)

    quiet = quiet_calls.entry(quick_part, outer)
    for watched in (True, False):
        events.clear()
        quiet_calls.mark(watched)
        sys.setprofile(mine)
        try:
            assert quiet(6, 3) == 2
            with pytest.raises(KeyError):
                quiet(1, 0)
            call(plain_helper)
        finally:
            sys.setprofile(None)
            quiet_calls.mark(False)
        assert ("quick_part" in events) == (not watched) and "plain_helper" in events
        events.clear()
        quiet_calls.mark(watched)
        sys.setprofile(mine)
        try:
            assert quiet(a=6, b=-3) == 5
        finally:
            sys.setprofile(None)
            quiet_calls.mark(False)
        assert "outer" in events and "plain_helper" in events  # the open part always is


@native_only
def test_marks_are_of_one_thread_and_go_with_the_watch():
    events = []
    quiet = quiet_calls.entry(plain_helper, plain_helper)

    def work():
        sys.setprofile(lambda frame, event, arg: events.append(frame.f_code.co_name))
        quiet()
        sys.setprofile(None)

    with analyse(plain_helper).watch():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "plain_helper" in events
    events.clear()
    work()
    assert "plain_helper" in events


@pytest.mark.parametrize("traced", [False, True])
def test_what_operators_call_of_the_users_is_watched(traced):
    class Offset:
        def __radd__(self, other):
            return other + 1.0

    def f(x, offset):
        return np.sin(x) * x + offset

    plan, recorder = analyse(f), Recorder()
    if traced:
        before = sys.gettrace()
        sys.settrace(lambda *event: None)
    try:
        with recording(recorder), plan.watch() as seen:
            x = TracedArray(recorder.add_input(np.ones(3), "x"), recorder)
            result = f(x, Offset())
    finally:
        if traced:
            sys.settrace(before)
    assert result.shape == (3,) and [n.prim.name for n in recorder.nodes] == ["sin", "mul", "add"]
    assert "`__radd__`" in listed(seen.reasons)


def test_pair_set_grows_and_starts_anew(monkeypatch):
    monkeypatch.setattr(native_filter, "_MOST_SLOTS", 64)
    cell = array("q", [0])
    pairs = PairSet(cell)
    for k in range(1, 33):
        pairs.add(16 * k, k, k)
    assert len(pairs._kept) == 32 and cell[0] == pairs._words.buffer_info()[0]
    assert {tuple(pairs._words[1 + 2 * s : 3 + 2 * s]) for s in range(64)} - {(0, 0)} == {
        (16 * k, k) for k in range(1, 33)
    }
    pairs.add(16 * 5, 5, None)
    assert len(pairs._kept) == 32
    pairs.add(16 * 40, 0, None)
    assert list(pairs._kept) == [(640, 0)]
