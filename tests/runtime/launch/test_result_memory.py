"""Memory of large results that is kept for the next: arrays of it are as any others, and no two share any."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

from tracegrad import compile_grad
from tracegrad.codegen.cpu import cpython
from tracegrad.runtime.launch import bind, result_memory

pytestmark = pytest.mark.skipif(
    not (bind.NATIVE and result_memory.is_large(result_memory.LEAST)), reason="the launcher keeps no memory here"
)
OURS, NUMPYS = "tracegrad_results", "default_allocator"
sizes = itertools.count(result_memory.LEAST + 8, 8)  # bytes of large arrays; each test has its own


@compile_grad
def cubes(x):
    return np.sum(x * x * x)


def gradient(nbytes: int, value: float = 1.0) -> np.ndarray:
    """Of the launcher's making: the first two calls are recorded."""
    x = np.full(nbytes // 8, value)
    cubes.grad(x), cubes.grad(x)
    found = cubes.grad(x)
    np.testing.assert_array_equal(found, np.full(nbytes // 8, 3 * value * value))
    return found


def capsule(address: int) -> ctypes.py_object:
    return ctypes.cast(address, ctypes.py_object)


set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(cpython.numpy_api()["PyDataMem_SetHandler"])


@contextlib.contextmanager
def handler(address: int):
    before = set_handler(capsule(address))
    try:
        yield
    finally:
        set_handler(before)


def empty(nbytes: int) -> np.ndarray:
    """An array as the launcher makes it, whose pages nobody has touched."""
    with handler(result_memory.handler_cell.value):
        return np.empty(nbytes // 8)


def address(a: np.ndarray) -> int:
    return a.__array_interface__["data"][0]


def kept() -> list[tuple[int, int]]:
    """(address, bytes) of what is kept."""
    words = list(result_memory.kept)
    return [(at, n) for at, n in zip(words[::2], words[1::2], strict=True) if at]


def test_the_next_result_has_the_memory_of_the_last_one_that_is_gone():
    nbytes = next(sizes)
    x, y = np.full(nbytes // 8, 2.0), np.full(nbytes // 8, -3.0)
    first = gradient(nbytes)
    assert get_handler_name(first) == OURS and first.flags.owndata and first.flags.writeable
    second = cubes.grad(x)
    assert address(second) != address(first)
    there = address(first)
    del first
    third = cubes.grad(y)
    assert address(third) == there
    assert (second == 12).all() and (third == 27).all()


def test_small_results_and_the_arrays_of_others_are_numpys():
    small = gradient(result_memory.LEAST - 8)
    assert get_handler_name(small) == NUMPYS
    gradient(next(sizes))
    assert get_handler_name(np.empty(next(sizes) // 8)) == NUMPYS


def test_a_kept_result_is_never_written_by_a_later_call():
    nbytes = next(sizes)
    found = [gradient(nbytes, value) for value in (1.0, 2.0, 3.0)]
    for value, a in zip((1.0, 2.0, 3.0), found, strict=True):
        assert (a == 3 * value * value).all()
    views = [a[::2] for a in found]
    del a, found
    gradient(nbytes, 5.0)
    assert [v[0] for v in views] == [3.0, 12.0, 27.0]


def test_a_result_can_be_resized():
    nbytes = next(sizes)
    a = gradient(nbytes)
    a.resize(nbytes // 8 * 2, refcheck=False)
    assert (a[: nbytes // 8] == 3).all() and (a[nbytes // 8 :] == 0).all()
    a.resize(10, refcheck=False)
    del a
    assert all(n >= result_memory.LEAST for _, n in kept())
    gradient(nbytes, 2.0)


def test_what_is_kept_has_a_limit_and_the_oldest_go_first():
    each = result_memory.MOST // 8 + 4096
    for k in range(20):
        a = empty(each + 8 * k)
        last = address(a)
        del a
        assert sum(n for _, n in kept()) == result_memory.total.value <= result_memory.MOST
    assert last in dict(kept()) and len(kept()) == 7
    assert {n for _, n in kept()} == {each + 8 * k for k in range(13, 20)}
    before = kept()
    a = empty(result_memory.MOST + 8)
    del a
    assert kept() == before  # what is larger than all is not kept
    for _ in range(result_memory.BLOCKS + 3):
        a = empty(next(sizes))
        del a
    assert len(kept()) == result_memory.BLOCKS and sum(n for _, n in kept()) == result_memory.total.value


def test_no_two_arrays_share_memory_whatever_is_made_and_dropped():
    rng = np.random.default_rng(0)
    few = [next(sizes) for _ in range(3)]
    alive: list[np.ndarray] = []
    for _ in range(400):
        if alive and rng.random() < 0.5:
            del alive[rng.integers(len(alive))]
        else:
            a = empty(few[rng.integers(3)])
            a[:2] = a[-2:] = address(a)
            alive.append(a)
        assert all(a[0] == a[1] == a[-2] == a[-1] == address(a) for a in alive)
        spans = sorted([(address(a), a.nbytes) for a in alive] + kept())
        assert all(at + n <= after for (at, n), (after, _) in itertools.pairwise(spans))


def test_the_handler_that_a_user_has_set_is_used():
    nbytes = next(sizes)
    x = np.ones(nbytes // 8)
    gradient(nbytes)
    with handler(id(cpython.memory_handler(b"users", *cpython.default_allocator()))):
        found = cubes.grad(x)
        assert get_handler_name(found) == "users" and get_handler_name(np.ones(9)) == "users"
    assert get_handler_name(np.ones(9)) == NUMPYS
    assert get_handler_name(cubes.grad(x)) == OURS
    assert (found == 3).all()
    del found


def test_threads_get_memory_of_their_own():
    nbytes = next(sizes)
    gradient(nbytes)
    wrong: list[float] = []

    def work(value: float) -> None:
        x = np.full(nbytes // 8, value)
        for _ in range(25):
            found = cubes.grad(x)
            if not (found == 3 * value * value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_is_counted_while_an_array_has_it():
    nbytes = next(sizes)
    gradient(nbytes)
    x = np.ones(nbytes // 8)
    cubes.grad(x)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        found = cubes.grad(x)
        assert nbytes <= tracemalloc.get_traced_memory()[0] - before < nbytes + 5000
        del found
        assert tracemalloc.get_traced_memory()[0] - before < 5000
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_its_own():
    nbytes = next(sizes)
    gradient(nbytes)
    pid = os.fork()
    if pid == 0:
        try:
            ok = (gradient(nbytes, 2.0) == 12).all() and (gradient(nbytes, 3.0) == 27).all()
        except BaseException:
            ok = False
        os._exit(0 if ok else 1)
    assert (gradient(nbytes, 4.0) == 48).all()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_process_ends_while_results_are_alive():
    code = """
import sys
import numpy as np
from tracegrad import compile_grad
f = compile_grad(lambda x: np.sum(x * x))
x = np.ones(1_000_000)
for _ in range(3):
    sys.result = f.grad(x)
class Late:
    def __del__(self, f=f, x=x):
        self.result = f.grad(x)
        sys.stdout.write(str(self.result[0]))
sys.late = Late()
sys.cycle = [f.grad(x)]
sys.cycle.append(sys.cycle)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout in ("2.0", "")
