"""NumPy work of a compiled function in other threads: refused at the user's line, also where nobody looks at them."""

from __future__ import annotations

import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tracegrad
from tracegrad import UnsupportedError, autograd, compile_grad

X = np.array([1.0, 2.0, 3.0])


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as found:
        yield found


def mapped(x, pool):
    return sum(pool.map(lambda v: np.sum(v * v), [x, 2 * x]))


def error_unseen(x, pool):
    return np.sum(x) if pool.submit(lambda: x * 2).exception() else 100 * np.sum(x)


def result_unseen(x, pool):
    pool.submit(np.sum, x)
    pool.shutdown()
    return np.sum(x)


def branch(x, pool):
    return np.sum(x) * pool.submit(lambda: 2.0 if x[0] > 0 else 3.0).result()


def number(x, pool):
    total = np.sum(x)
    return total * pool.submit(lambda: float(total)).result()


def truth(x, pool):
    total = np.sum(x)
    return total if pool.submit(lambda: bool(total)).result() else -total


def write(x, pool):
    y = np.zeros(3)

    def put():
        y[0] = x[0]

    pool.submit(put).result()
    return np.sum(y)


def thread_of_its_own(x, pool):
    found = []
    thread = threading.Thread(target=lambda: found.append(np.sum(x * x)))
    thread.start()
    thread.join()
    return found[0] if found else 7 * np.sum(x)


REFUSED = [mapped, error_unseen, result_unseen, branch, number, truth, write, thread_of_its_own]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "f",
    [mapped, error_unseen, result_unseen, branch, number, truth, write, thread_of_its_own],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("form", ["value", "gradient", "autograd"])
def test_work_in_another_thread_is_refused(f, form, pool):
    compiled = compile_grad(lambda x: f(x, pool))
    call = {"value": compiled, "gradient": compiled.value_and_grad, "autograd": autograd.grad(lambda x: f(x, pool))}
    with pytest.raises(UnsupportedError, match=r"in another thread[^\0]*pool.map"):
        call[form](X)
    np.testing.assert_allclose(compile_grad(lambda x: np.sum(x * x)).grad(X), 2 * X)  # nothing is left behind


def test_the_error_names_the_line(pool):
    with pytest.raises(UnsupportedError, match=r"test_threads\.py.*in <lambda>"):
        compile_grad(lambda x: mapped(x, pool))(X)


def test_what_needs_no_recording_may_be_done_in_threads(pool):
    f = compile_grad(lambda x: np.sum(x) * pool.submit(lambda: x.shape[0] + np.sum(np.ones(2))).result())
    for _ in range(4):
        assert f(X) == 30 and f.grad(X).tolist() == [5, 5, 5]


def test_compiled_functions_are_called_in_threads(pool):
    f = compile_grad(lambda x: np.sum(np.sin(x) * x))
    for result in pool.map(f, [X + k for k in range(30)]):
        assert np.isfinite(result)
    values = [float(v) for v in pool.map(f, [X] * 30)]
    assert values == [values[0]] * 30 and values[0] == pytest.approx(np.sum(np.sin(X) * X))


def test_tensors_of_a_step_may_be_computed_in_threads(pool):
    w = tracegrad.tensor(X, requires_grad=True)

    @tracegrad.compile
    def step(x):
        loss = pool.submit(lambda: (w * x).sum()).result()
        loss.backward()
        return loss

    for k in range(5):
        w.grad = None
        assert step(tracegrad.tensor(X + k)).item() == np.sum(X * (X + k))
        assert w.grad.tolist() == (X + k).tolist()


def test_functions_that_run_in_many_threads_at_once():
    """Code that is shown other names makes functions, which several threads record."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for k in range(6):

            def f(x, k=k):
                def inner(v):
                    return v * k if isinstance(v, np.ndarray) else float(v)

                return np.sum(inner(x)) + sum([max(v, 0.5) for v in x]) + (1.0 if type(x) is np.ndarray else 2.0)

            with ThreadPoolExecutor(4) as found:
                values = list(found.map(lambda _, f=f: compile_grad(f)(X), range(8)))
            np.testing.assert_allclose(values, [f(X)] * 8)
    finally:
        sys.setswitchinterval(interval)


def test_numbers_that_come_to_vary_in_several_threads_at_once():
    """What one thread learns between two looks of another one is no change that its run has made."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for k in range(15):

            @compile_grad
            def f(x, settings, k=k):
                return np.sum(x) * settings.rate + k

            def work(seed, f=f, k=k):
                settings = types.SimpleNamespace()
                for turn in range(6):
                    settings.rate = (1.0, 2.5, 3.5)[(seed + turn) % 3]
                    assert f(X, settings) == 6 * settings.rate + k

            with ThreadPoolExecutor(4) as found:
                list(found.map(work, range(4)))
            assert not f.stats.live and f.stats.calls == 24
    finally:
        sys.setswitchinterval(interval)
