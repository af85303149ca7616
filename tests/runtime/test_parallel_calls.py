"""Many threads that call, record and compile at once (for a minute in ``make test-long``); memory after many calls and
many programs."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import tracegrad
from tracegrad import autograd, compile_grad, config
from tracegrad.codegen.cpu.machine_code import loaded
from tracegrad.runtime.disk.programs import program_of
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.runtime.record.unwrap_tracers import Holders

THREADS, FUNCTIONS = 8, 50
INPUTS = [np.array(x) for x in ([0.3, 0.5, 0.2], [-0.3, 0.1, -0.2], [0.9, -0.5, 0.2], [0.3, -0.1])]
LONG = bool(os.environ.get("TRACEGRAD_SEEDS"))
SECONDS = 60.0 if LONG else 4.0


class Model:
    def __init__(self, k: float) -> None:
        self.k = k

    def scale(self) -> float:
        return self.k


def function(i: int) -> Callable[..., Any]:
    """One of many functions of ten kinds."""
    k, model = 1.0 + i / 7, Model(1.0 + i / 7)

    def elementwise(x):
        return np.sum(np.sin(x * k))

    def branch(x):
        return np.sum(x * k) if np.sum(x) > 0 else np.sum(x * x) * k

    def loop(x):
        total = 0.0
        for j in range(5 + i):
            total = total + np.sum(np.tanh(x) * k) * j
        return total

    def rows(x):
        y = np.zeros(len(x))
        for j in range(len(x)):
            y[j] = x[j] * k
        return np.sum(y * y)

    def state(x):
        return np.sum(x * model.k) * model.scale()

    def solve(x):
        n = len(x)
        return np.sum(np.linalg.solve(np.eye(n) * (k + 3) + np.outer(x, x), x))

    def until(x):
        while np.sum(x * x) < 10.0 * k:
            x = x * 1.5 + 0.1
        return np.sum(x)

    def special(x):
        return np.sum(scipy.special.erf(x) + scipy.special.logsumexp(x) * k)

    inner = autograd.grad(lambda x: np.sum(x**3) * k)

    def transform(x):
        return np.sum(inner(x) * x)

    def einsum(x):
        return np.sum(np.einsum("i,ij->j", x, np.ones((len(x), 2))) ** 2) * k

    return (elementwise, branch, loop, rows, state, solve, until, special, transform, einsum)[i % 10]


def slope(f: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    return np.array([(f(x + d) - f(x - d)) / 2e-6 for d in 1e-6 * np.eye(len(x))])


def plain_work() -> None:
    """Code of other libraries, which recordings elsewhere must not change; an error; tensors."""
    x = np.linspace(0.1, 1, 4)
    assert np.isclose(scipy.special.logsumexp(x), np.log(np.sum(np.exp(x))))
    found = scipy.linalg.solve(np.eye(4) * 2, x)
    assert type(found) is np.ndarray and np.allclose(found, x / 2)
    t = tracegrad.tensor(x, requires_grad=True)
    (t * t).sum().backward()
    assert np.allclose(t.grad.numpy(), 2 * x)
    with pytest.raises(ZeroDivisionError):
        compile_grad(lambda x: np.sum(x) + 1 // 0)(x)


def run(seconds: float, seed: int, functions: int = FUNCTIONS, threads: int = THREADS, anew: float = 2.5,
        replayed: bool = True, calls: int = 0) -> int:  # fmt: skip
    """Call *functions* in *threads* for so long, all of them made *anew* after some seconds; the number of calls.  On a
    slow machine it goes on, for up to ten times as long, until there were so many *calls*.
    *replayed*: whether none may run its Python in each call."""
    plain = [function(i) for i in range(functions)]
    values = [[float(f(x)) for x in INPUTS] for f in plain]
    slopes = [[slope(f, x) for x in INPUTS] for f in plain]
    errors: list[Any] = []
    total, end = 0, time.monotonic() + seconds
    last = end + 9 * seconds

    def work(compiled: list[Any], counts: list[int], rng: random.Random, until: float) -> None:
        i = j = 0
        try:
            while time.monotonic() < until and not errors:
                i, j, what = rng.randrange(functions), rng.randrange(len(INPUTS)), rng.randrange(4)
                counts[i] += 1
                f, x = compiled[i], INPUTS[j]
                value, gradient = (f(x), None) if what < 2 else (None, f.grad(x)) if what == 2 else f.value_and_grad(x)
                if value is not None:
                    np.testing.assert_allclose(value, values[i][j], rtol=1e-9)
                if gradient is not None:
                    np.testing.assert_allclose(gradient, slopes[i][j], rtol=1e-4, atol=1e-5)
                if rng.random() < 0.01:
                    plain_work()
        except BaseException:
            errors.append((plain[i].__name__, j, traceback.format_exc()))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        while (time.monotonic() < (end if total >= calls else last)) and not errors:
            compiled = [compile_grad(f) for f in plain]
            counts = [[0] * functions for _ in range(threads)]
            until = min(end if total >= calls else last, time.monotonic() + anew)
            running = [
                threading.Thread(target=work, args=(compiled, count, random.Random(f"{seed} {k}"), until), daemon=True)
                for k, count in enumerate(counts)
            ]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join(300)
                assert not thread.is_alive(), "a deadlock"
            called = np.sum(counts, axis=0)
            total += called.sum()
            for f, count in zip(compiled, called, strict=True):
                assert errors or f.stats.calls == count
                assert errors or not (replayed and f.stats.live)
            seed += threads
    finally:
        sys.setswitchinterval(interval)
    assert not errors, errors[0][-1]
    return int(total)


def test_a_second_of_eight_threads():
    assert run(1.0, 0, functions=10) >= THREADS


@pytest.mark.slow
def test_eight_threads_on_fifty_functions():
    assert run(SECONDS, 1, calls=501) > 500


@pytest.mark.slow
def test_where_little_is_kept(monkeypatch):
    """Kernels, variants and paths are dropped all the time."""
    for name, value in (("max_kernels", 6), ("max_variants", 2), ("max_paths", 2)):
        monkeypatch.setattr(config, name, value)
    assert run(min(SECONDS, 20.0), 2, functions=20, replayed=False, calls=21) > 20


# ---- memory ----------------------------------------------------------------------------------------------------------


def resident() -> int:
    """Megabytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


OPERATIONS = "sin cos tanh exp arctan sinh cosh sqrt log1p expm1".split()


def another_program(i: int) -> Any:
    """A function whose kernel no other number has."""
    text = "x"
    for _ in range(4):
        text, i = f"np.{OPERATIONS[i % 10]}({text} * x)", i // 10
    scope = {"np": np}
    exec(f"def f(x):\n    return np.sum({text})", scope)
    return compile_grad(scope["f"])


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_memory_of_many_cached_calls():
    """A million in ``make test-long``.  An object that each of them leaves is seen: 300,000 take 5 MB."""
    count = 250_000 if LONG else 100_000
    x = np.ones(4)
    f = compile_grad(lambda x: np.sum(np.sin(x)) if np.sum(x) > 0 else np.sum(x * x))
    sizes = []
    for _ in range(4):
        for _ in range(count):
            f.value_and_grad(x)
        sizes.append(resident())
    assert f.stats.calls == 4 * count and sizes[-1] <= sizes[0] + 2


@pytest.mark.slow
def test_memory_of_many_programs(monkeypatch):
    """10,000 in ``make test-long``. What is kept: ``max_kernels`` kernels with their code, and facts of a few thousand
    code objects."""
    monkeypatch.setattr(config, "max_kernels", 16)
    monkeypatch.setattr(kernels, "_compile", program_of)  # tests share programs otherwise
    kernels.clear()
    count = 10_000 if LONG else 200
    x, engines = np.ones(4), len(loaded.engines)
    objects = []
    for i in range(count):
        another_program(i)(x)
        if (i + 1) % (count // 4) == 0:
            gc.collect()
            with loaded:  # which frees what is not needed
                pass
            objects.append(len(gc.get_objects()))
            assert len(kernels) <= 16 and len(loaded.engines) <= engines + 16 + 2
    assert objects[-1] - objects[0] < 300 * min(count, 4096)


# ---- what other threads hold for a moment ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*Python runs in each call")
def test_results_that_something_else_holds_for_a_moment(monkeypatch):
    """A run may find references to its arrays, as those of another thread's collection: what holds them is settled, the
    result itself is not, or it would have no gradient."""
    monkeypatch.setattr(config, "max_paths", 1)
    f = compile_grad(lambda x: np.sum(x * 3.0) if np.sum(x) > 0 else np.sum(x * x))
    only, calls = Holders.only, []

    def seen(self: Any, results: list[Any], settled: Any = ()) -> bool:
        calls.append(self)
        return len(calls) < 3 and only(self, results, settled)

    monkeypatch.setattr(Holders, "only", seen)
    for k in range(12):
        x = INPUTS[k % 2]
        value, gradient = f.value_and_grad(x)
        np.testing.assert_allclose(value, np.sum(x * 3.0) if k % 2 == 0 else np.sum(x * x))
        np.testing.assert_allclose(gradient, np.full(3, 3.0) if k % 2 == 0 else 2 * x)
    assert f.stats.live and len(calls) > 3
