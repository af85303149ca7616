"""Threads inside kernels: the same bits whatever their number, and the same results as in one piece; other threads of
Python, signals and forks meanwhile.

Work is divided where there is much of it, so here a chunk of hardly any is worth a thread (``divided``).
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import cases_of, judge_tier
from selection import pairs, seeds, some
from support import (
    F32,
    F64,
    assert_agree,
    assert_same_bits,
    operand_avals,
    operand_values,
    primitive_graph,
    prims,
    rng_for,
    strict_evaluate,
)

import tracegrad
from tracegrad import compile_grad, config
from tracegrad.codegen.cpu import divided as emitted
from tracegrad.codegen.cpu import jit
from tracegrad.codegen.cpu.program import compile_canonical
from tracegrad.codegen.lower.canonical import canonicalise
from tracegrad.codegen.lower.simplify import simplify
from tracegrad.runtime.launch.binding import array_records, bind_graph, launched
from tracegrad.runtime.threads import MOST, Threads, available_cores, threads
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import Graph
from tracegrad.tracer.ir.primitive import LAPACK, PRODUCT, REDUCE

THREADS = (1, 2, 3, 7)
ROWS = 2_000  # above a chunk's worth of partial sums
UNIX = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that send signals")


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch, compiled_anew: None) -> Iterator[None]:
    """Kernels that divide all that they can."""
    monkeypatch.setattr(emitted, "CHUNK_WORK", 1)
    monkeypatch.setattr(emitted, "PARTS", 0)
    monkeypatch.setattr(config, "cache", False)
    monkeypatch.setattr(config, "num_threads", config.num_threads)
    yield


def in_threads(graph: Graph, inputs: list[Any]) -> list[np.ndarray]:
    """The results of the kernel, which must be the same bits for all numbers of threads."""
    graph = simplify(graph)
    canonical = canonicalise(graph)
    run = bind_graph(
        graph, canonical, compile_canonical(canonical, len(graph.inputs)), False, array_records(graph.inputs)
    )
    values = [np.asarray(x, v.aval.dtype).reshape(v.aval.shape) for x, v in zip(inputs, graph.inputs, strict=True)]
    found = []
    for config.num_threads in THREADS:
        results = launched(run, values)
        found.append(results if type(results) is tuple else (results,))
    bits = [[np.asarray(x).tobytes() for x in results] for results in found if type(results[0]) is not int]
    assert all(same == bits[0] for same in bits)
    return list(map(np.asarray, found[0]))


def long_avals(prim: Any, dtype: np.dtype) -> list[Aval] | None:
    """Avals of many rows, where the primitive's rule takes them."""
    shapes = prim.test.get("shapes", ((3, 4),) * len(prim.domain))
    first = {s[0] for s in shapes if s}
    if "params" in prim.test or "index" in prim.test or len(first) != 1 or first == {1}:
        return None
    return operand_avals(prim, dtype, [(ROWS, *s[1:]) if s else s for s in shapes])


PRIMS = prims(lambda p: long_avals(p, F64) is not None)
CASES = [*[(p, F64) for p in PRIMS], *[(p, F32) for p in PRIMS if p.kind == REDUCE]]


@pytest.mark.parametrize("case", some(CASES, quick=20), ids=lambda c: f"{c[0].name}-{c[1]}")
def test_registry(divided, case, monkeypatch):
    """Rows are what they are in one piece, to the last bit; sums are added up in another order, and products within
    small matrices are contracted where LLVM takes several matrices at once."""
    prim, dtype = case
    avals = long_avals(prim, dtype)
    try:
        graph = primitive_graph(prim, avals)
    except Exception:
        pytest.skip("its rule does not take these shapes")
    values = operand_values(prim, avals, rng_for(prim.name))
    found = in_threads(graph, values)
    monkeypatch.setattr(emitted, "CHUNK_WORK", 1 << 60)
    for out, whole in zip(found, in_threads(graph, values), strict=True):
        (assert_agree if prim.kind in (REDUCE, LAPACK, PRODUCT) else assert_same_bits)(out, whole)


@pytest.mark.parametrize("start", seeds(30, quick=0, block=5))
def test_programs(divided, start):
    for seed in range(start, start + 5):
        for name, case in cases_of(seed).items():
            verdict = judge_tier(case, in_threads)
            assert not verdict, f"seed {seed}, {name}: {verdict}\n{case}"


PRODUCTS = [
    (name, *turned, sizes, dtype)
    for sizes, turned, name, dtype in pairs(
        ((700, 70, 9), (9, 700, 70), (70, 9, 700), (3, 3, 40_000), (1, 5000, 64), (130, 130, 130), (0, 3, 4)),
        ((False, False), (True, False), (False, True), (True, True)), ("matmul", "matmulz"), (F64, F32),
    )
]  # fmt: skip


@pytest.mark.parametrize(
    "case",
    some(random.Random(0).sample(PRODUCTS, len(PRODUCTS)), quick=10),
    ids=lambda c: f"{c[0]}-{c[1]:d}{c[2]:d}-{c[3]}-{c[4]}",
)
def test_narrow_products(divided, case):
    """In tiles along the longest of their sizes, for each matrix of a batch."""
    name, ta, tb, (m, n, k), dtype = case
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape).astype(dtype) for shape in ((2, m, k), (2, k, n)))
    if m:
        x[:, 0, k // 2], y[:, k // 2, 0] = np.inf, 0  # no number, or a term 0
    values = [np.ascontiguousarray(np.swapaxes(v, 1, 2)) if turned else v for v, turned in ((x, ta), (y, tb))]
    prim = next(p for p in prims() if p.name == name)
    graph = primitive_graph(prim, [Aval(dtype, v.shape) for v in values], ta=ta, tb=tb)
    with np.errstate(invalid="ignore"):
        (expected,) = strict_evaluate(graph, values)
    (found,) = in_threads(graph, values)
    tolerance = 1e-9 if dtype == F64 else 1e-3
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(ROWS, 5)), RNG.normal(size=ROWS)
MATRICES = RNG.normal(size=(300, 9, 9)) + 9 * np.eye(9)


def logistic(w: Any) -> Any:  # X @ w shares a pass over X with the sum over rows in the gradient
    return np.mean(np.log1p(np.exp(-Y * (X @ w)))) + np.sum(w * w)


def softmax(w: Any) -> Any:  # rows are taken in tiles; sums over rows are kept in memory
    z = X * w
    z = z - z.max(axis=1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return np.sum(p.mean(axis=0) * np.arange(5)) + p.max() - np.prod(p.sum(axis=1)) + np.all(p > 0)


def products(w: Any) -> Any:  # batches: products, factors, straight-line code
    a = MATRICES * np.sum(w)
    return np.sum((a @ MATRICES) ** 2) + np.sum(np.linalg.solve(a, MATRICES)) + np.sum(np.linalg.inv(a[:, :2, :2]))


def newton(w: Any) -> Any:  # a loop for each element, with a carry in each
    out = np.zeros(200)
    for i in range(200):
        x = w[0] * Y[i]
        for _ in range(6):
            x = x - 0.3 * np.tanh(x - Y[i] * w[1])
        out[i] = x
    return np.sum(out**2)


def stencil(w: Any) -> Any:  # ends of the rows in a chunk of their own
    u = np.concatenate([Y * w[0], Y**2 * w[1]])
    return np.sum((u[2:] - 2 * u[1:-1] + u[:-2]) ** 2) + np.sum(np.roll(u, 3) * u)


ROWS_OF = np.sin(np.arange(ROWS) * 1.7)


def indexed(w: Any) -> Any:  # the same rows many times, in their order, by blocks of columns
    table = np.outer(Y[:50], np.tile(w, 8))
    taken = (np.arange(ROWS) * 7919) % 50
    z = np.zeros((60, 40))
    z[taken] = np.sin(table[taken]) * ROWS_OF[:, None]
    np.add.at(z, taken[::-1] + 3, table[taken] * 0.1)
    return np.sum(table[taken] ** 2 * ROWS_OF[:, None]) + np.sum(z * z)


@pytest.mark.parametrize("f", [logistic, softmax, products, newton, stencil, indexed], ids=lambda f: f.__name__)
def test_functions(divided, f):
    w = np.array([0.5, -0.25, 0.75, 1.0, 0.3])
    compiled, found = compile_grad(f), []
    for config.num_threads in (*THREADS, *THREADS):
        value, gradient = compiled.value_and_grad(w)
        found.append(value.tobytes() + gradient.tobytes())
    assert len(set(found)) == 1
    np.testing.assert_allclose(value, f(w), rtol=1e-12)
    for k in range(5):
        step = np.eye(5)[k] * 1e-6
        np.testing.assert_allclose(gradient[k], (f(w + step) - f(w - step)) / 2e-6, rtol=1e-4, atol=1e-4)


def test_a_sum_in_chunks_keeps_its_accuracy(divided):
    x = np.full(100_000, 0.1, np.float32)
    total = compile_grad(lambda x: np.sum(x))(x)
    assert abs(float(total) - np.sum(x.astype(float))) <= 4 * np.spacing(np.float32(1e4))
    assert np.isposinf(compile_grad(lambda x: np.sum(x))(np.where(np.arange(5000) == 7, np.inf, 1.0)))


@pytest.mark.parametrize("name", ["sum", "max", "prod", "all"])
def test_a_total_of_one_element_takes_no_time_of_the_optimiser(divided, monkeypatch, name):
    texts: list[str] = []
    object_code = jit.object_code
    monkeypatch.setattr(jit, "object_code", lambda text, *rest: texts.append(text) or object_code(text, *rest))
    x = np.linspace(0.5, 1.5, ROWS)
    of = {"all": lambda x: 2.0 * np.all(x > 0.1)}.get(name, getattr(np, name))
    np.testing.assert_allclose(compile_grad(of)(x), of(x), rtol=1e-12)
    totals = [line for text in texts for line in text.splitlines() if re.match(r'define .*@"tg_total_', line)]
    assert totals and all(" optnone " in line for line in totals)


def test_extremes_and_nan(divided):
    x = np.sin(np.arange(5000.0))
    both = compile_grad(lambda x: np.max(x) - np.min(x) * 2 + np.prod(1 + x * 1e-6))
    np.testing.assert_allclose(both(x), np.max(x) - np.min(x) * 2 + np.prod(1 + x * 1e-6), rtol=1e-12)
    x[4321] = np.nan
    assert np.isnan(both(x)) and np.isnan(both(x))


# ---- the setting -----------------------------------------------------------------------------------------------------


def test_setting(monkeypatch):
    monkeypatch.setattr(config, "num_threads", config.num_threads)
    config.num_threads = 3
    assert threads.cell.value == config.num_threads == tracegrad.get_num_threads() == 3
    tracegrad.set_num_threads(2)
    assert threads.cell.value == 2
    config.num_threads = 0
    assert config.num_threads == min(available_cores(), MOST)
    with pytest.raises(ValueError, match="0 for all cores, not -1"):
        config.num_threads = -1
    assert config.num_threads == min(available_cores(), MOST)
    assert Threads().set(10_000) == MOST


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")
@pytest.mark.slow
def test_affinity():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import tracegrad; " \
        "print(tracegrad.config.num_threads)"  # fmt: skip
    assert _python(code) == "1"
    assert _python("import tracegrad; print(tracegrad.config.num_threads)", TRACEGRAD_NUM_THREADS="5") == "5"


def test_nothing_is_started_before_it_is_needed():
    code = """
import os, time, numpy as np
os.environ["OPENBLAS_NUM_THREADS"] = "1"
import tracegrad
tracegrad.config.num_threads = 4
f = tracegrad.compile_grad(lambda x: np.sum(np.exp(np.sin(x))))
def count():
    time.sleep(0.1)  # threads that have done their work end
    return len(os.listdir("/proc/self/task"))
before = count()
f(np.ones(100)); f(np.ones(100))
small = count() - before
f(np.ones(2_000_000)); f(np.ones(2_000_000))
print(small, count() - before)
"""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("no list of threads")
    assert _python(code, OPENBLAS_NUM_THREADS="1") == "0 3"


def _python(code: str, **environ: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script.py"  # functions without a source file would run as plain Python
        path.write_text(code)
        done = subprocess.run(
            [sys.executable, str(path)], env={**os.environ, **environ}, capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---- other threads, signals, forks -----------------------------------------------------------------------------------


def work(x: Any) -> Any:
    return np.sum(np.exp(np.sin(x)) * np.cumsum(np.cos(x))) + np.sum(x.reshape(-1, 100).sum(axis=0) ** 2)


def test_threads_of_python_at_once(divided):
    """One nest at a time has the pool, and the workspace; the others run beside it, each in memory of its own."""
    config.num_threads = 3
    inputs = [np.linspace(0, k, 20_000) for k in range(1, 9)]
    f = compile_grad(work)
    expected = [[x.tobytes() for x in f.value_and_grad(inputs[k])] for k in range(8) for _ in range(2)][::2]

    def run(k: int) -> bool:
        return all([x.tobytes() for x in f.value_and_grad(inputs[k])] == expected[k] for _ in range(40))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(8)))


def heavy() -> tuple[Callable[..., Any], np.ndarray]:
    f, x = compile_grad(lambda x: np.sum(np.exp(np.sin(x)) * np.tanh(x))), np.linspace(0, 1, 20_000_000)
    f(x[:4]), f(x[:4])
    f(x), f(x)
    return f, x


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_other_threads_run_meanwhile(count, monkeypatch):
    monkeypatch.setattr(config, "num_threads", count)
    f, x = heavy()
    turns: list[float] = []
    ended = threading.Event()
    other = threading.Thread(target=_tick, args=(turns, ended))
    other.start()
    start = time.perf_counter()
    f(x)
    end = time.perf_counter()
    ended.set()
    other.join()
    assert sum(start < t < end for t in turns) >= 3


def _tick(turns: list[float], ended: threading.Event) -> None:
    while not ended.wait(0.001):
        turns.append(time.perf_counter())


class Interrupt(BaseException):
    """No Exception, like KeyboardInterrupt, for which pytest would end."""


def _interrupt(*_: Any) -> None:
    raise Interrupt


def interrupted(f: Callable[..., Any], *args: Any) -> None:
    """A call that a signal handler ends; the test's time limit is the judge of one that goes on."""
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        with pytest.raises(Interrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            f(*args)
            while True:  # it was quicker than that
                f(*args)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@UNIX
@pytest.mark.parametrize("count", [1, 2])
def test_interrupts_in_nests(divided, count):
    config.num_threads = count
    f, x = compile_grad(work), np.linspace(0, 1, 3_000_000)
    expected = [x.tobytes() for x in [*f.value_and_grad(x), *f.value_and_grad(x)][2:]]
    interrupted(f.value_and_grad, x)
    assert [x.tobytes() for x in f.value_and_grad(x)] == expected


@UNIX
def test_interrupts_in_loops():
    @compile_grad
    def endless(x: Any) -> Any:
        y = x
        while y > 0:
            y = y * 1.0000001 if y < 1e6 else y * 1e-6
        return y

    assert endless(-1.0) == -1.0
    interrupted(endless, 1.0)
    assert endless(-1.0) == -1.0

    @compile_grad
    def powers(a: Any) -> Any:
        b = a
        for _ in range(100_000):
            b = b @ a
            b = b / np.max(np.abs(b))
        return np.sum(b)

    interrupted(powers, RNG.normal(size=(40, 40)))


@UNIX
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_forks(divided):
    """A child has none of the pool's threads, and begins its own."""
    config.num_threads = 3
    f, x = compile_grad(work), np.linspace(0, 1, 20_000)
    expected = [[y.tobytes() for y in f.value_and_grad(x)] for _ in range(2)][1]
    child = os.fork()
    if not child:
        same = all([y.tobytes() for y in f.value_and_grad(x)] == expected for _ in range(3))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [y.tobytes() for y in f.value_and_grad(x)] == expected


@pytest.mark.slow
def test_the_process_ends_while_a_daemon_thread_is_in_a_kernel():
    code = """
import threading, time, numpy as np, tracegrad
f = tracegrad.compile_grad(lambda x: np.sum(np.exp(np.sin(x)) * np.tanh(x)))
x = np.linspace(0, 1, 2_000_000)
f(x), f(x)
def run():
    while True:
        f(x)
threading.Thread(target=run, daemon=True).start()
time.sleep(0.1)
print("done")
"""
    assert _python(code) == "done"
