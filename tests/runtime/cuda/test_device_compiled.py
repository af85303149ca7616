"""``compile_grad`` on a CUDA device, on the stand-in for CuPy: values and gradients are the CPU's, arrays stay where
they lie, and nothing waits that need not."""

from __future__ import annotations

import gc

import fake_cupy
import numpy as np
import optree
import pytest
from fake_cupy import counts
from scipy.special import erf

import tracegrad
from tracegrad import Tensor, compile_grad
from tracegrad.codegen.evaluate.cupy_exceptions import EXCEPTIONS
from tracegrad.tracer.ir.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("cupy")

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
Y = np.sign(rng.normal(size=20))
W = rng.normal(size=3)


def loss(w, X, y):
    return np.mean(np.log1p(np.exp(-y * (X @ w)))) + 1e-3 * np.sum(w * w)


def on_device(*arrays):
    return tuple(fake_cupy.cupy.array(a) for a in arrays)


def host(x):
    """A device tensor's numbers."""
    assert type(x) is Tensor and x.is_cuda
    return x._data.get()


def test_target_cuda_of_numpy_arrays_gives_numpy_arrays():
    f, reference = compile_grad(loss, target="cuda"), compile_grad(loss)
    expected = reference.value_and_grad(W, X, Y)
    for _ in range(3):
        value, gradient = f.value_and_grad(W, X, Y)
        assert type(gradient) is np.ndarray and isinstance(value, np.float64)
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)
    assert f.stats.traces == 1


@pytest.mark.parametrize("target", ["cuda", "auto"])
def test_results_of_device_arrays_stay_there(target):
    f = compile_grad(loss, target=target)
    expected = compile_grad(loss).value_and_grad(W, X, Y)
    arguments = on_device(W, X, Y)
    for _ in range(3):
        value, gradient = f.value_and_grad(*arguments)
        np.testing.assert_allclose(host(value), expected[0], rtol=1e-12)
        np.testing.assert_allclose(host(gradient), expected[1], rtol=1e-12)
    np.testing.assert_allclose(host(f.grad(*arguments)), expected[1], rtol=1e-12)
    np.testing.assert_allclose(host(f(*arguments)), expected[0], rtol=1e-12)


def test_a_call_on_device_arrays_neither_copies_them_nor_waits():
    f = compile_grad(loss, target="auto")
    arguments = on_device(W, X, Y)
    f.value_and_grad(*arguments)
    counts.clear()
    for _ in range(3):
        f.value_and_grad(*arguments)
    assert counts["wait"] == counts["download"] == counts["upload"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_complex_numbers():
    """Two real lanes, on a device too, where results of device arrays are real."""
    z = X[:4, 0] + 1j * X[:4, 1]

    def loss(z, t):
        w = np.exp(1j * t) * z
        for _ in range(20):
            w = w * 0.9 + np.tanh(z) * 1j
        return np.sum(np.abs(w) ** 2)

    on, off = (compile_grad(loss, target=target, argnums=(0, 1)) for target in ("cuda", "cpu"))
    product = compile_grad(lambda z: z * 1j, target="auto")
    for _ in range(3):
        expected = off.value_and_grad(z, 0.3)
        for ours, theirs in zip(*(optree.tree_leaves(v) for v in (on.value_and_grad(z, 0.3), expected)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
            assert ours.dtype == theirs.dtype
        (there,) = on_device(z)
        np.testing.assert_allclose(host(on(there, 0.3)), expected[0], rtol=1e-12)
        with pytest.raises(UnsupportedError, match="does not give complex results of arrays on a CUDA device"):
            product(there)
        np.testing.assert_allclose(product(z), z * 1j)


def test_auto_follows_the_arguments():
    f = compile_grad(loss, target="auto")
    assert type(f.grad(W, X, Y)) is np.ndarray
    w, *_ = on_device(W)
    assert f.grad(w, X, Y).is_cuda  # the others are uploaded
    assert type(f.grad(W, X, Y)) is np.ndarray


def test_target_cpu_refuses_device_arrays():
    f = compile_grad(loss)
    with pytest.raises(tracegrad.DeviceError, match=r'target="cpu".*target="auto"'):
        f(*on_device(W, X, Y))


def branches(x):
    if np.sum(x) > 0:
        return np.sum(x**2)
    return np.sum(np.exp(x))


def asks_for_numbers(x):
    scale = float(np.max(x))
    return np.sum(np.sin(x)) * scale


def counts_turns(x):
    total = 0.0
    for k in range(40):
        total = total + np.sum(x * k)
    return total


def until(x):
    t = x
    while np.sum(t * t) > 1e-2:
        t = t / 2
    return np.sum(t)


def masked(x):
    return np.sum(x[x > 0] ** 2)


def sorted_(x):
    return np.sum(np.sort(x) * np.arange(x.size))


def written(x):
    out = np.zeros_like(x)
    out[1:] = x[:-1] * 2
    out[0] = np.prod(x)
    return np.sum(np.cumprod(out + 1))


PROGRAMS = [branches, asks_for_numbers, counts_turns, until, masked, sorted_, written]
INPUTS = [np.array([0.5, -0.2, 0.9, 0.4]), np.array([-0.5, -0.2, 0.3, -0.4]), np.array([3.0, 1.0, -2.0, 0.25])]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program, dtype):
    f, reference = compile_grad(program, target="auto"), compile_grad(program)
    for x in [*INPUTS, *INPUTS]:
        expected = reference.value_and_grad(x.astype(dtype))
        value, gradient = f.value_and_grad(*on_device(x.astype(dtype)))
        rtol = 1e-5 if dtype == np.float32 else 1e-10
        np.testing.assert_allclose(host(value), expected[0], rtol=rtol)
        np.testing.assert_allclose(host(gradient), expected[1], rtol=rtol)
        assert (value.dtype, gradient.dtype) == (expected[0].dtype, dtype)


def test_guards_are_read_back_together():
    def several(x):
        total = np.sum(x)
        for k in range(4):
            if total > k:
                total = total * 2
        return total

    f = compile_grad(several, target="auto")
    (x,) = on_device(np.array([0.5, 0.7]))
    for _ in range(2):
        f.grad(x)
    counts.clear()
    f.grad(x)
    assert counts["download"] == counts["wait"] == 1
    assert f.stats.traces == 1


def test_arguments_of_many_kinds():
    def model(params, X, *, power, settings):
        hidden = np.tanh(X @ params["w"] + params["b"])
        return np.sum(hidden**power) * settings[0], {"hidden": hidden, "name": "aux"}

    f = compile_grad(model, target="auto", has_aux=True)
    reference = compile_grad(model, has_aux=True)
    w, X = on_device(W, X_SMALL)
    host_call = reference.value_and_grad({"w": W, "b": 0.5}, X_SMALL, power=2, settings=(1.5,))
    for _ in range(2):
        (value, aux), gradient = f.value_and_grad({"w": w, "b": 0.5}, X, power=2, settings=(1.5,))
        np.testing.assert_allclose(host(value), host_call[0][0])
        np.testing.assert_allclose(host(aux["hidden"]), host_call[0][1]["hidden"])
        assert aux["name"] == "aux"
        np.testing.assert_allclose(host(gradient["w"]), host_call[1]["w"])
        np.testing.assert_allclose(host(gradient["b"]), host_call[1]["b"])


X_SMALL = X[:5]


def test_several_argnums():
    f = compile_grad(loss, target="auto", argnums=(0, 1))
    expected = compile_grad(loss, argnums=(0, 1)).grad(W, X, Y)
    for found, wanted in zip(f.grad(*on_device(W, X, Y)), expected, strict=True):
        np.testing.assert_allclose(host(found), wanted)


def test_captured_arrays_are_read_again_in_each_call():
    weights = np.ones(3)
    f = compile_grad(lambda x: np.sum(weights * x * x), target="auto")
    (x,) = on_device(np.array([1.0, 2.0, 3.0]))
    for scale in (1.0, 1.0, 4.0):
        weights[:] = scale
        np.testing.assert_array_equal(host(f.grad(x)), 2 * scale * np.array([1.0, 2.0, 3.0]))
    assert f.stats.traces == 1


def test_a_function_that_changes_what_it_reads_runs_each_time():
    calls = set()

    def counted(x):
        calls.add(len(calls))
        return np.sum(x) * len(calls)

    f = compile_grad(counted, target="auto")
    (x,) = on_device(np.ones(2))
    assert [host(f(x)).item() for _ in range(3)] == [2.0, 4.0, 6.0]


def test_random_numbers_are_those_of_the_cpu():
    def noisy(x):
        return np.sum(x * tracegrad.random.normal(tracegrad.random.key(3), x.shape))

    (x,) = on_device(np.arange(4.0))
    expected = compile_grad(noisy).grad(np.arange(4.0))
    np.testing.assert_allclose(host(compile_grad(noisy, target="auto").grad(x)), expected, rtol=1e-12)


def test_gradients_that_are_constant_or_the_argument_itself_have_memory_of_their_own():
    f = compile_grad(lambda x: np.sum(x * x) / 2, target="auto")
    (x,) = on_device(np.array([1.0, 2.0]))
    gradient = f.grad(x)
    gradient[0] = 9.0
    assert x.get().tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(host(compile_grad(np.sum, target="auto").grad(x)), np.ones(2))


def test_tensors_on_the_device_are_arguments():
    f = compile_grad(lambda x: np.sum(np.sin(x)), target="auto")
    x = tracegrad.tensor([0.5, 1.0], device="cuda", requires_grad=True)
    np.testing.assert_allclose(host(f.grad(x)), np.cos([0.5, 1.0]))
    f(x).backward()  # the value stays connected
    np.testing.assert_allclose(host(x.grad), np.cos([0.5, 1.0]))


def test_inside_another_compiled_function():
    inner = compile_grad(lambda x: np.sum(x**3), target="cuda")
    outer = compile_grad(lambda x: np.sum(inner.grad(x)), target="auto")
    np.testing.assert_allclose(host(outer.grad(*on_device(np.array([1.0, 2.0])))), 6 * np.array([1.0, 2.0]))


class Foreign:
    """An array of another library: by one of the protocols, in a stream of its own."""

    def __init__(self, array, protocol, stream=77):
        self._array = array
        if protocol == "interface":
            self.__cuda_array_interface__ = array.__cuda_array_interface__ | {"stream": stream}


class ForeignDlpack(Foreign):
    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return (2, 0)


@pytest.mark.parametrize("layout", ["rows", "columns", "backward", "empty"])
def test_arrays_of_other_libraries_are_used_where_they_lie(layout):
    (a,) = on_device(np.arange(12.0).reshape(3, 4))
    array = {"rows": a, "columns": a.T, "backward": a[:, ::-2], "empty": a[:0]}[layout]
    f = compile_grad(lambda x: np.sum(x**2), target="auto")
    expected = 2 * array.get()
    counts.clear(), fake_cupy.log.clear()
    found = f.grad(Foreign(array, "interface"))
    assert counts["upload"] == counts["wait"] == 0
    if layout != "empty":
        assert fake_cupy.log[:2] == [("record", 77), ("wait_event", 0, 77)]  # on the device, not on the host
    np.testing.assert_array_equal(host(found), expected)
    fake_cupy.log.clear()
    np.testing.assert_array_equal(host(f.grad(ForeignDlpack(array, "dlpack"))), expected)
    assert fake_cupy.log == [("dlpack", 0)]  # the producer makes our stream wait


def test_streams_that_need_no_waiting():
    (a,) = on_device(np.ones(2))
    f = compile_grad(np.sum, target="auto")
    for stream in (None, 1):
        fake_cupy.log.clear()
        f.grad(Foreign(a, "interface", stream))
        assert fake_cupy.log == []
    with pytest.raises(TypeError, match="stream 0"):
        f.grad(Foreign(a, "interface", 0))


def test_running_out_of_memory_changes_nothing():
    f = compile_grad(lambda x: np.sum(np.exp(x) * np.sin(x)), target="auto")
    (x,) = on_device(np.ones(2000))
    expected = host(f.grad(x))
    gc.collect()  # what other tests have left in cycles
    before = fake_cupy.pool.used_bytes()
    fake_cupy.pool.set_limit(size=before + 20_000)
    for _ in range(2):
        with pytest.raises(tracegrad.cuda.OutOfMemoryError, match=r"out of memory.*nothing has been changed"):
            f.grad(x)
        assert fake_cupy.pool.used_bytes() == before
    small = f.grad(*on_device(np.ones(3)))
    np.testing.assert_allclose(host(small), expected[:3])
    fake_cupy.pool.set_limit(size=0)
    np.testing.assert_array_equal(host(f.grad(x)), expected)


def test_check_mode_compares_with_numpy(monkeypatch):
    monkeypatch.setattr(tracegrad.config, "check", True)
    f = compile_grad(loss, target="auto")
    for _ in range(2):
        f.value_and_grad(*on_device(W, X, Y))


def test_explain_tells_how_it_runs():
    f = compile_grad(loss, target="auto")
    text = f.explain(*on_device(W, X, Y), level="all")
    assert "CuPy, operation by operation" in text and "runs on the host" not in text


def test_numpy_does_what_cupy_does_not_have(monkeypatch):
    monkeypatch.delattr(fake_cupy.special.module, "erf")  # a ufunc
    monkeypatch.delitem(EXCEPTIONS, "nonzero")  # a function for NumPy alone
    f = compile_grad(lambda w, X: np.sum(erf(X @ w)[X[:, 0] > 0]), target="auto")
    text = f.explain(*on_device(W, X), level="all")
    assert "runs on the host: erf, which CuPy does not have" in text
    assert "runs on the host: nonzero, which CuPy does not have" in text
    value, gradient = f.value_and_grad(*on_device(W, X))
    expected = compile_grad(lambda w, X: np.sum(erf(X @ w)[X[:, 0] > 0])).value_and_grad(W, X)
    np.testing.assert_allclose(host(value), expected[0], rtol=1e-12)
    np.testing.assert_allclose(host(gradient), expected[1], rtol=1e-12)


def test_the_device_reads_pinned_memory_by_itself_so_the_host_waits():
    f = compile_grad(loss, target="auto")
    (w,) = on_device(W)
    for _ in range(2):
        f.grad(w, X, Y)
    counts.clear()
    f.grad(w, X, Y)
    assert counts["upload"] == 2 and counts["wait"] == 0
    fake_cupy.runtime.pinned.add(X.ctypes.data)
    try:
        f.grad(w, X, Y)
    finally:
        fake_cupy.runtime.pinned.clear()
    assert counts["wait"] == 1
