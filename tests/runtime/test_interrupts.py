"""Exceptions of signal handlers at any moment of recording, compiling and running: what is interrupted can be called
again, and is right; nothing of a recording is left in the thread, the process, or the caller's objects."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import ffi

from tracegrad import compile_grad
from tracegrad.codegen.cpu.machine_code import loaded
from tracegrad.runtime.launch.kernel_cache import KernelCache, kernels
from tracegrad.runtime.record import record
from tracegrad.tracer.control import jitted
from tracegrad.tracer.ir import gc_pause, interrupts
from tracegrad.tracer.ir.foreign_code import uninterrupted
from tracegrad.tracer.record import array
from tracegrad.tracer.record.array import TracedArray
from tracegrad.tracer.record.buffers import Storage

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # one that came to a finaliser
]


class Interrupt(BaseException):
    """No Exception, like KeyboardInterrupt, for which pytest would end."""


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """A context that is left by an Interrupt after so many seconds, or before."""

    def handler(*_: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        pass
    finally:
        signal.signal(signal.SIGALRM, before)


class Kept:
    """What functions below read and change."""

    calls = 0

    def __init__(self) -> None:
        self.scale, self.number, self.history, self.last = 2.0, 0, [], None


def branch(x, w, kept):
    return np.sum(np.sin(x) * w) if np.sum(x) > 0 else np.sum(x)


def loop(x, w, kept):
    total = 0.0
    for k in range(40):
        total = total + np.sum(np.tanh(x) * w) * k
    return total


def rows(x, w, kept):
    y = np.zeros(len(x))
    for k in range(len(x)):
        y[k] = x[k] * w[k]
    return np.sum(y * y)


def counts(x, w, kept):
    kept.number += 1
    return kept.scale * np.sum(x * w)


def counts_in_class(x, w, kept):
    Kept.calls += 1
    return kept.scale * np.sum(x * w)


def appends(x, w, kept):
    kept.history.append(1.0)
    return kept.scale * np.sum(x * w)


def keeps(x, w, kept):
    kept.last = np.sum(x)
    return np.sum(x * w) + 0 * time.perf_counter()  # runs in each call


FUNCTIONS = [branch, loop, rows, counts, counts_in_class, appends, keeps]
X, W = np.array([0.3, 0.5, -0.2]), np.array([0.3, 0.2, 0.9])


def process() -> dict[str, Any]:
    """What a recording changes for its time."""
    return {
        "thread": [*interrupts.state()[:1], sys.getprofile(), sys.gettrace(), np.geterr()],
        "collector": (gc.get_threshold(), len(gc.callbacks), dict(gc_pause.RECORDINGS.threads)),
        "numba": dict(jitted.RECORDINGS.threads),
        "locks": [lock._is_owned() for lock in (loaded.lock, kernels.lock, ffi.lib._lock._lock)],
    }


def is_plain(value: Any) -> bool:
    return type(value) in (int, float, np.float64, type(None))


def tries(count: int, seed: int) -> int:
    """Interrupt that many calls at random moments; returns how many were."""
    r = random.Random(seed)
    hit, before = 0, process()
    for attempt in range(count):
        function, kept, text = r.choice(FUNCTIONS), Kept(), f"* {r.random()}"
        scope = {"f": function, "np": np}
        exec(f"def g(x, w, kept):\n    return f(x, w, kept){text} + np.sum(x * w)", scope)  # mostly another kernel
        compiled = compile_grad(scope["g"])
        for _ in range(r.randrange(3)):
            compiled.value_and_grad(X, W, kept)
        numbers, done = (kept.number, len(kept.history), Kept.calls), 0
        with interrupted(10 ** r.uniform(-4, -1.4)):
            for _ in range(12):
                compiled.value_and_grad(X, W, kept)
                done += 1
        hit += done < 12
        assert process() == before, function
        assert all(map(is_plain, (kept.number, kept.last, kept.scale, Kept.calls, *kept.history))), function
        after = kept.number, len(kept.history), Kept.calls
        assert all(b in (a, a + done, a + done + 1) for a, b in zip(numbers, after, strict=True)), function

        def check(compiled=compiled, scope=scope, kept=kept) -> None:
            for _ in range(3):
                value, gradient = compiled.value_and_grad(X, W, kept)
                np.testing.assert_allclose(value, scope["g"](X, W, kept), rtol=1e-12)
                d = 1e-6 * np.array([1.0, -2.0, 3.0])
                expected = (scope["g"](X + d, W, kept) - scope["g"](X - d, W, kept)) / 2
                np.testing.assert_allclose(gradient @ d, expected, rtol=1e-5)

        if attempt % 2:
            check()
        else:  # what this thread holds, another waits for
            with ThreadPoolExecutor(1) as pool:
                pool.submit(check).result(60)
    return hit


def test_interrupted_calls():
    assert tries(25, 0) > 2


@pytest.mark.slow
def test_many_interrupted_calls():
    assert tries(int(os.environ.get("TRACEGRAD_TEST_SEEDS", 150)), 1) > 20


def test_arrays_whose_making_was_interrupted(monkeypatch):
    """They may be in a container that outlives the run; the interrupt is what is raised."""
    begun: list[Any] = []

    class TornStorage(Storage):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            if begun:
                raise Interrupt
            super().__init__(*args, **kwargs)

    def f(x, kept):
        kept.last = {"sum": np.sum(x), "torn": TracedArray.__new__(TracedArray)}
        begun.append(kept.last)
        return np.sum(np.sin(x)) * random.random()

    kept = Kept()
    monkeypatch.setattr(array, "Storage", TornStorage)
    with pytest.raises(Interrupt):
        compile_grad(f).value_and_grad(X, kept)
    assert begun and not any(isinstance(part, TracedArray) for part in (begun[0]["sum"], kept.last))


def counts_live(x, w, kept):
    Kept.calls += 1
    return np.sum(x * w) + 0 * time.perf_counter()


@pytest.mark.parametrize("function", [counts_live, keeps])
def test_an_interrupt_as_what_it_left_is_put_back(monkeypatch, function):
    """It comes before :func:`interrupts.surely` has begun, which is done all the same; the interrupt is what is raised,
    not what a run that was torn seems to have read."""
    real, calls = record.surely, []

    def torn(work: Any) -> Any:
        calls.append(work)
        if len(calls) == 1:
            raise Interrupt
        return real(work)

    kept, compiled = Kept(), compile_grad(function)
    monkeypatch.setattr(record, "surely", torn)
    before = process()
    with pytest.raises(Interrupt):
        compiled.value_and_grad(X, W, kept)
    assert process() == before and all(map(is_plain, (kept.last, kept.scale, kept.number, Kept.calls)))
    np.testing.assert_allclose(compiled.value_and_grad(X, W, kept)[0], function(X, W, kept), rtol=1e-12)


class FakeCanonical:
    ops = ()
    key = "a kernel"


def test_who_waits_for_a_kernel_can_be_interrupted():
    """The kernel is made to its end, and only once."""
    made, go = [], threading.Event()

    def compile(canonical: Any, arguments: int) -> str:
        made.append(threading.get_ident())
        go.wait(60)
        return "program"

    cache: KernelCache[str] = KernelCache(compile)
    with interrupted(0.05):
        cache.get(FakeCanonical(), 1)
        pytest.fail("not interrupted")
    go.set()
    assert cache.get(FakeCanonical(), 1)[0] == "program" and len(made) == 1 and made[0] != threading.get_ident()


def test_errors_and_results_of_work_in_a_thread_of_its_own():
    assert uninterrupted(lambda: uninterrupted(threading.get_ident)) != threading.get_ident()

    def fail() -> None:
        raise ValueError("a text")

    with pytest.raises(ValueError, match="a text"):
        uninterrupted(fail)
    with np.errstate(divide="raise"):
        assert uninterrupted(np.geterr)["divide"] == "raise"


def test_what_is_done_surely_is_done_to_its_end():
    done = []

    def work() -> int:
        done.append(1)
        if len(done) < 3:
            raise Interrupt
        return 5

    with pytest.raises(Interrupt):
        interrupts.surely(work)
    assert len(done) == 3 and interrupts.surely(work) == 5


def test_the_first_of_several_kernels_is_not_waited_for():
    """A kernel that is known, or another, while one is being compiled."""
    go, made = threading.Event(), []

    def compile(canonical: Any, arguments: int) -> str:
        made.append(arguments)
        if arguments == 1:
            go.wait(60)
        return f"program {arguments}"

    cache: KernelCache[str] = KernelCache(compile)
    threads = [threading.Thread(target=cache.get, args=(FakeCanonical(), 1)) for _ in range(3)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60
    while not made and time.monotonic() < deadline:
        time.sleep(0.001)
    assert cache.get(FakeCanonical(), 2) == ("program 2", False) and cache.get(FakeCanonical(), 2)[1]
    go.set()
    for thread in threads:
        thread.join(60)
    assert made == [1, 2] and (cache.hits, cache.compiles) == (3, 2)
