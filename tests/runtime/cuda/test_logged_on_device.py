"""Functions on a device as converted code under a log: replayed from the second call on; what they read and write
outside is as NumPy leaves it, on the host."""

from __future__ import annotations

from types import SimpleNamespace

import fake_cupy
import numpy as np
import pytest
from fake_cupy import counts

import tracegrad
from tracegrad import Tensor, compile_grad
from tracegrad.tracer.ir.errors import OutOfMemoryError

X = np.array([1.0, 2.0, 3.0])


pytestmark = pytest.mark.usefixtures("way")


class Foreign:
    """An array of another library."""

    def __init__(self, array):
        self._array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | {"stream": None}


def on_device(array):
    return fake_cupy.cupy.array(array)


FORMS = {
    "cupy": on_device,
    "tensor": lambda a: tracegrad.tensor(a, device="cuda"),
    "foreign": lambda a: Foreign(on_device(a)),
    "numpy": lambda a: a,  # target="cuda" takes it there
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_kept_outside_is_what_numpy_keeps(form):
    kept = SimpleNamespace(total=0.0, last=None, seen=[], double=None, again=None)

    def f(x):
        value = np.sum(x)
        kept.total = kept.total + value
        kept.seen.append(value)
        kept.last = x
        kept.double = kept.again = x * 2
        return value

    compiled = compile_grad(f, target="cuda")
    for k in range(5):
        x = FORMS[form](X * (k + 1))
        found = compiled(x)
        assert type(found) is (np.float64 if form == "numpy" else Tensor)
        assert kept.last is x and kept.double is kept.again and type(kept.double) is np.ndarray
        np.testing.assert_array_equal(kept.double, 2 * X * (k + 1))
    assert {type(v) for v in [kept.total, *kept.seen]} == {np.float64}
    assert (kept.total, kept.seen) == (90.0, [6.0, 12.0, 18.0, 24.0, 30.0])
    assert compiled.stats.traces == 2 and not compiled.stats.live  # the total becomes a number of the run


def test_what_is_read_outside_counts_in_each_call():
    state = SimpleNamespace(scale=np.ones(3), rate=0.5, squared=False)

    def f(x):
        x = x * state.scale * state.rate
        return np.sum(x * x) if state.squared else np.sum(x)

    compiled, x = compile_grad(f, target="auto"), on_device(X)

    def called():
        found = compiled(x)
        assert found.is_cuda
        return found.item()

    assert [called() for _ in range(3)] == [3.0] * 3 and compiled.stats.traces == 1
    state.scale[:] = 2.0
    assert called() == 6.0
    state.scale = np.full(3, 4.0)
    assert called() == 12.0 and compiled.stats.traces == 1
    state.squared = True
    assert [called() for _ in range(2)] == [56.0] * 2 and compiled.stats.traces == 2
    state.rate = 1.0
    assert [called() for _ in range(2)] == [224.0] * 2
    assert not compiled.stats.live


def test_texts_are_printed_in_each_call(capsys):
    def f(x):
        print(f"sum {np.sum(x):.1f}")
        return x * 2

    compiled = compile_grad(f, target="auto")
    for k in range(3):
        compiled(on_device(X * k))
    assert capsys.readouterr().out == "sum 0.0\nsum 6.0\nsum 12.0\n"
    assert compiled.stats.traces == 1 and not compiled.stats.live


def test_a_replay_copies_no_more_than_what_lies_on_the_host():
    offsets, kept = np.ones(3), []

    def f(x, y):
        kept.append(np.sum(x))
        return np.sum(x * y + offsets)

    compiled, x = compile_grad(f, target="auto"), on_device(X)
    for _ in range(2):
        compiled(x, X)
    counts.clear()
    compiled(x, X)
    assert counts["upload"] == 2 and counts["download"] == 1
    assert compiled.stats.traces == 1 and kept == [6.0] * 3


def test_gradients_and_branches_are_replayed():
    taken = []

    def f(x):
        taken.append(1)
        return np.sum(x**3) if np.sum(x) > 0 else np.sum(x)

    compiled = compile_grad(f, target="auto")
    for k in (1, 1, -1, -1, 1, -1):
        found = compiled.grad(on_device(X * k))
        np.testing.assert_allclose(found._data.get(), 3 * X**2 if k > 0 else np.ones(3))
    assert compiled.stats.traces == 2 and not compiled.stats.live and len(taken) == 6


def test_too_little_memory_in_a_first_run_is_no_reason_to_run_python_later():
    kept = []

    def f(x):
        kept.append(1)
        y = np.exp(x) * np.sin(x)
        return np.sum(y) if np.sum(y) > 0 else np.sum(x)

    compiled, x = compile_grad(f, target="auto"), on_device(np.ones(2000))
    fake_cupy.pool.leave(8_000)
    with pytest.raises(OutOfMemoryError, match="nothing has been changed"):
        compiled(x)
    assert kept == []
    fake_cupy.pool.set_limit(size=0)
    for _ in range(3):
        compiled(x)
    assert kept == [1] * 3 and compiled.stats.traces == 1 and not compiled.stats.live


def test_arrays_outside_are_used_where_they_lie(way):
    state = SimpleNamespace(weights=on_device(X), parts=[on_device(np.ones(3))], kept=None)

    def f(x):
        state.kept = state.weights
        return np.sum(x * state.weights + state.parts[0]), {"weights": state.weights}

    compiled, x = compile_grad(f, target="auto"), on_device(X)

    def called():
        value, found = compiled(x)
        assert state.kept is state.weights and found["weights"].is_cuda
        np.testing.assert_array_equal(found["weights"]._data.get(), state.weights.get())
        return value.item()

    assert [called() for _ in range(3)] == [17.0] * 3 and compiled.stats.traces == 1
    counts.clear()
    compiled(x)
    assert counts["upload"] == counts["download"] == counts["wait"] == 0
    state.weights[0] = 5.0
    assert called() == 21.0
    state.weights = on_device(2 * X)
    assert called() == 31.0 and compiled.stats.traces == 1 and not compiled.stats.live
    state.weights = on_device(X.astype(np.float32))
    assert [called() for _ in range(2)] == [17.0] * 2 and compiled.stats.traces == 2
    state.weights = X
    found, _ = compiled(x)
    assert found.item() == 17.0 and compiled.stats.traces == 3


def test_arrays_outside_in_gradients_branches_and_numbers():
    weights, rate = on_device(X), [2.0]

    def f(x):
        scale = weights * rate[0] if np.max(weights) > 2 else weights
        rate[0] = rate[0] + 1.0
        return np.sum(scale * x * x)

    compiled, expected, x = compile_grad(f, target="auto"), compile_grad(f), on_device(X)
    for k in range(5):
        weights[2] = 3.0 if k < 3 else 0.5
        before, host = rate[0], weights.get()
        found = compiled.grad(x)._data.get()
        scale = host * before if host.max() > 2 else host
        np.testing.assert_allclose(found, 2 * scale * X)
        assert rate == [before + 1.0]
    assert not compiled.stats.live and expected.stats.traces == 0


def test_arrays_on_a_device_are_no_inputs_of_calls_on_the_host():
    weights = on_device(X)
    compiled = compile_grad(lambda x: np.sum(x * weights), target="auto")
    for _ in range(2):
        with pytest.raises(TypeError):
            compiled(X)
    assert compiled(on_device(X)).item() == 14.0


def test_arrays_of_numpy_outside_may_get_another_shape_or_dtype():
    state = SimpleNamespace(weights=X)
    compiled, x = compile_grad(lambda x: np.sum(x * state.weights, axis=-1), target="auto"), on_device(X)
    for weights in (X, X, 2 * X, np.ones((2, 3)), np.ones((2, 3)), X.astype(np.float32), X, np.arange(6.0)[::2], X):
        state.weights = weights
        for _ in range(2):
            np.testing.assert_array_equal(compiled(x)._data.get(), np.sum(X * weights, axis=-1))
