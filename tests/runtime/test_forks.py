"""Processes that are forked while other threads record, compile and hold locks: the child has none of these threads."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.codegen.lower import depth
from tracegrad.runtime import compiled
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tracer.control import jitted
from tracegrad.tracer.ir import forks, gc_pause

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning"),
]
X = np.array([0.3, 0.5, -0.2])


def in_child(check: Callable[[], object]) -> None:
    """*check*, done in a forked child, which has a minute."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            check()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def process() -> tuple:
    watches = [x for x in gc.callbacks if type(getattr(x, "__self__", None)).__name__ == "Watch"]
    changes = [dict(x.RECORDINGS.threads) for x in (jitted, gc_pause)]
    return gc.get_threshold(), watches, sys.getrecursionlimit(), *changes


def records_and_runs() -> None:
    factor = random.random()
    f = compile_grad(lambda x: np.sum(np.cosh(x) * factor) if x[0] > 0 else np.sum(np.tanh(x)))
    for _ in range(3):
        value, gradient = f.value_and_grad(X)
        np.testing.assert_allclose(value, np.sum(np.cosh(X)) * factor)
        np.testing.assert_allclose(gradient, np.sinh(X) * factor)


def test_while_another_thread_records():
    """What its recording has changed of the process is undone in the child, and goes on here."""
    before, inside, go = process(), threading.Event(), threading.Event()
    main = threading.get_ident()

    def function(x):
        if threading.get_ident() != main:
            inside.set()
            go.wait(60)
        return np.sum(x * x)

    f = compile_grad(function)

    def check() -> None:
        assert process() == before
        records_and_runs()
        assert f(X) == np.sum(X * X)
        assert process() == before

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(f, X)
        assert inside.wait(60)
        during = process()
        try:
            assert during != before
            in_child(check)
            assert process() == during
        finally:
            go.set()
        assert found.result(60) == np.sum(X * X)
    assert process() == before


def test_while_this_thread_records():
    """A function that forks: the child goes on with the recording."""
    before = process()

    def function(x):
        assert process() != before
        in_child(records_and_runs)
        return np.sum(x * x)

    function_of_tests = compile_grad(function)
    assert function_of_tests(X) == np.sum(X * X)
    assert process() == before


def test_while_another_thread_holds_our_locks():
    f, held, go = compile_grad(lambda x: np.sum(x * 7)), threading.Event(), threading.Event()
    f(X)
    locks = [lock for lock in forks._locks if lock not in (compiled._making, kernels.lock)]  # which a fork waits for
    assert f._dispatcher.lock in locks and len(locks) > 8

    def hold() -> None:
        for lock in locks:
            lock.acquire()
        held.set()
        go.wait(60)
        for lock in reversed(locks):
            lock.release()

    def check() -> None:
        assert f(X) == np.sum(X * 7) and f(np.ones(5)) == 35
        records_and_runs()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        in_child(check)
    finally:
        go.set()
        thread.join()


def test_levels_of_recursion_of_other_threads_are_given_back():
    limit, inside, go = sys.getrecursionlimit(), threading.Event(), threading.Event()

    def deep() -> None:
        depth._set(1000)
        inside.set()
        go.wait(60)
        depth._set(0)

    def check() -> None:
        assert sys.getrecursionlimit() == limit

    thread = threading.Thread(target=deep)
    thread.start()
    try:
        assert inside.wait(60) and sys.getrecursionlimit() == limit + 1000
        in_child(check)
        assert sys.getrecursionlimit() == limit + 1000
    finally:
        go.set()
        thread.join()
    assert sys.getrecursionlimit() == limit


def test_changes_that_threads_share():
    told: list[str] = []
    change = forks.SharedChange(lambda: told.append("begin"), lambda: told.append("end"))
    with change.needed(), change.needed(), ThreadPoolExecutor(1) as pool:
        pool.submit(change.set_depth, 2).result()
        pool.submit(change.set_depth, 0).result()
        assert told == ["begin"] and change.depth() == 2
    assert told == ["begin", "end"] and not change.threads


@pytest.mark.slow
def test_while_others_compile():
    """At random moments of two threads that record and compile."""
    stop, r, before = threading.Event(), random.Random(0), process()
    shared = compile_grad(lambda x: np.sum(np.sin(x)) if np.sum(x) > 0 else np.sum(x * 2))

    def background(seed: int) -> None:
        numbers = random.Random(seed)
        for k in range(10_000):
            scope = {"np": np, "factor": numbers.random()}
            exec(
                f"def g(x):\n    return np.sum(np.sin(x) * factor) ** {k % 5 + 1} + np.sum(np.tanh(x)) * {k % 3}", scope
            )
            compile_grad(scope["g"]).value_and_grad(X)
            shared(X * (1 if k % 3 else -1))
            if stop.is_set():
                break

    def check() -> None:
        assert process() == before
        np.testing.assert_allclose(shared.grad(X), np.cos(X))
        records_and_runs()

    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(background, seed) for seed in range(2)]
        try:
            for _ in range(12):
                stop.wait(r.random() * 0.05)
                in_child(check)
        finally:
            stop.set()
        assert [future.result(60) for future in done] == [None, None]
    assert process() == before
