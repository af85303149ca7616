"""``compile_grad(target="cuda")`` with kernels: CuPy's stand-in for memory, the simulator for kernels."""

from __future__ import annotations

import gc

import fake_cupy
import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="libdevice comes with numba-cuda: pip install 'tracegrad[cuda]'")

from fake_cupy import counts, runtime
from scipy.signal import lfilter
from simulated import simulated_load

import tracegrad
from tracegrad import autocast, compile_grad, config
from tracegrad.codegen.cuda.assemble import assemble
from tracegrad.runtime.cuda import graphs
from tracegrad.runtime.cuda.load import Loaded, programs
from tracegrad.runtime.paths import dispatcher
from tracegrad.tracer.ir.aval import BFLOAT16, finfo
from tracegrad.tracer.ir.errors import OutOfMemoryError

rng = np.random.default_rng(3)
X, Y, W = rng.normal(size=(20, 3)), np.sign(rng.normal(size=20)), rng.normal(size=3)


@pytest.fixture(autouse=True)
def device(monkeypatch):
    monkeypatch.setattr(programs, "make", simulated_load)
    programs.clear()
    graphs.forget_graphs()
    with fake_cupy.installed() as module:
        yield module
    programs.clear()


def loss(w, X, y):
    return np.mean(np.log1p(np.exp(-y * (X @ w)))) + 1e-3 * np.sum(w * w)


def on_device(*arrays):
    return tuple(fake_cupy.cupy.array(a) for a in arrays)


def host(x):
    assert x.is_cuda
    return x._data.get()


def test_values_and_gradients_of_numpy_arrays():
    f = compile_grad(loss, target="cuda")
    expected = compile_grad(loss).value_and_grad(W, X, Y)
    for _ in range(3):
        value, gradient = f.value_and_grad(W, X, Y)
        assert type(gradient) is np.ndarray
        np.testing.assert_allclose(value, expected[0], rtol=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)


def spectral(x, h):
    """Transforms by CuPy; a recursive filter by NumPy, on the host."""
    X = np.fft.rfft(x, axis=1)
    smooth = np.fft.irfft(X * h, n=x.shape[1], axis=1)
    return (
        np.sum(smooth**3) + np.sum(np.abs(np.fft.ifft2(np.exp(1j * x))) ** 2) + np.sum(lfilter([0.5], [1.0, -0.4], x))
    )


@pytest.mark.slow
def test_fourier_transforms():
    x, h = rng.normal(size=(4, 6)), np.exp(-np.arange(4.0))
    f = compile_grad(spectral, target="cuda")
    expected = compile_grad(spectral).value_and_grad(x, h)
    for _ in range(2):
        for found, wanted in zip(f.value_and_grad(x, h), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("order", [("value", "grad", "both"), ("both", "value", "grad"), ("grad", "grad", "value")])
@pytest.mark.parametrize("fn", [loss, lambda w, X, y: loss(w, X, y) if w[0] > 0 else np.sum(w * w)])
def test_all_modes_have_one_recording(fn, order):
    f, plain = compile_grad(fn, target="auto"), compile_grad(fn)
    for w in (np.abs(W), -np.abs(W)):
        arguments, (expected, slope) = on_device(w, X, Y), plain.value_and_grad(w, X, Y)
        for mode in (*order, *order, "value", "grad", "both"):
            call = {"value": f, "grad": f.grad, "both": f.value_and_grad}[mode](*arguments)
            value, gradient = {"value": (call, None), "grad": (None, call), "both": call}[mode]
            assert value is None or host(value) == pytest.approx(expected, rel=1e-12)
            assert gradient is None or np.allclose(host(gradient), slope, rtol=1e-12)
    branches = 1 if fn is loss else 2
    assert f.stats.traces == branches and f.stats.derived >= branches, f.stats
    ran = [path.runs for path in f.stats.paths]
    assert sum(ran) == f.stats.calls  # asking a path whether it holds is no run


def test_a_call_on_device_arrays_neither_copies_them_nor_waits():
    f = compile_grad(loss, target="auto")
    expected = compile_grad(loss).value_and_grad(W, X, Y)
    arguments = on_device(W, X, Y)
    f.value_and_grad(*arguments)
    counts.clear()
    for _ in range(5):
        value, gradient = f.value_and_grad(*arguments)
    assert counts["wait"] == counts["download"] == counts["upload"] == 0
    np.testing.assert_allclose(host(value), expected[0], rtol=1e-12)
    np.testing.assert_allclose(host(gradient), expected[1], rtol=1e-12)


def test_products_of_arrays_without_elements():
    """Their address on a device is null."""
    x, w = np.ones((0, 3)), np.ones((3, 2))
    f = compile_grad(lambda x, w: np.sum(np.tanh(x @ w)), target="auto", argnums=(0, 1))
    value, gradients = f.value_and_grad(*on_device(x, w))
    assert host(value) == 0.0
    assert host(gradients[0]).shape == (0, 3) and not host(gradients[1]).any()


@pytest.mark.slow
def test_several_kernels_on_the_same_memory_are_replayed_as_a_graph():
    f = compile_grad(loss, target="auto")
    arguments = on_device(W, X, Y)
    expected = f.value_and_grad(*arguments)
    counts.clear()
    for _ in range(15):  # results are dropped, so their memory comes again
        _, gradient = f.value_and_grad(*arguments)
    assert counts["capture"] >= 1 and counts["replay"] >= 5
    np.testing.assert_array_equal(host(gradient), host(expected[1]))
    arguments[0]._a[...] = 2 * W
    np.testing.assert_allclose(host(f.grad(*arguments)), compile_grad(loss).grad(2 * W, X, Y), rtol=1e-12)


@pytest.mark.slow
def test_guards_come_back_in_one_transfer(monkeypatch):
    monkeypatch.setattr(config, "select_branches", False)

    @compile_grad(target="auto")
    def f(x):
        if x.sum() > 0:
            x = x * 2
        if x.max() > 3:
            return np.sum(x**2)
        return np.sum(np.sin(x))

    reference = compile_grad(f.__wrapped__)
    points = [np.array(p) for p in ([1.0, 2.0], [-1.0, -2.0], [0.5, 0.1], [-9.0, 5.0])]
    for _ in range(2):
        for x in (*points, points[3]):
            np.testing.assert_allclose(host(f.grad(*on_device(x))), reference.grad(x), rtol=1e-12)
    (x,) = on_device(points[3])
    counts.clear()
    f.grad(x)  # the path that answered last, with all its guards
    assert counts["download"] == 1


def test_a_new_size_and_a_new_constant_find_the_same_kernels():
    def make(rate):
        return compile_grad(lambda x: np.sum(np.sin(x) ** 2) * rate, target="cuda")

    for n, rate in ((5, 1.0), (50, 1.0), (7, 0.3)):
        x = rng.normal(size=n)
        np.testing.assert_allclose(make(rate).grad(x), rate * np.sin(2 * x), rtol=1e-9, atol=1e-12)
    (cache,) = programs._caches.values()
    assert cache.compiles == 1


def test_what_libdevice_does_not_have_is_done_by_cupy():
    special = pytest.importorskip("scipy.special")
    f = compile_grad(lambda x: np.sum(np.exp(special.digamma(x)) * x), target="cuda")
    x = rng.uniform(1, 2, size=9)
    np.testing.assert_allclose(f(x), np.sum(np.exp(special.digamma(x)) * x), rtol=1e-12)


def test_a_rolled_loop():
    def f(x):
        for _ in range(40):
            x = x + 0.1 * np.sin(x)
        return np.sum(x)

    x = rng.normal(size=4)
    np.testing.assert_allclose(compile_grad(f, target="cuda").grad(x), compile_grad(f).grad(x), rtol=1e-10)


def test_out_of_memory_leaves_the_state_intact():
    f = compile_grad(loss, target="cuda")
    expected = f.grad(W, X, Y)
    pool = fake_cupy.cupy.get_default_memory_pool()
    pool.leave(512)
    with pytest.raises(OutOfMemoryError, match="nothing has been changed"):
        f.grad(W, X, Y)
    pool.set_limit(size=0)
    np.testing.assert_array_equal(f.grad(W, X, Y), expected)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16], ids=["float16", "bfloat16"])
def test_half_precision(dtype):
    def mlp(W1, W2, X):
        return np.mean(np.tanh(X @ W1) @ W2)

    shapes = ((3, 4), (4, 2), (20, 3))
    args = [rng.normal(size=s).astype(dtype) for s in shapes]
    expected = compile_grad(mlp).value_and_grad(*[a.astype(np.float32) for a in args])
    f = compile_grad(mlp, target="cuda")
    for _ in range(3):
        value, gradient = f.value_and_grad(*args)
        assert value.dtype == gradient.dtype == dtype
        eps = float(finfo(dtype).eps)
        np.testing.assert_allclose(float(value), expected[0], rtol=4 * eps, atol=4 * eps)
        np.testing.assert_allclose(gradient.astype(np.float32), expected[1], rtol=4 * eps, atol=4 * eps)


@pytest.mark.slow
def test_autocast_has_programs_of_its_own():
    def product(W, X):
        return np.sum(np.tanh(X @ W) ** 2)

    W, X = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(20, 3)).astype(np.float32)
    f = compile_grad(product, target="cuda")
    exact, mixed = f.value_and_grad(W, X), []
    for _ in range(3):
        with autocast("float16"):
            mixed.append(f.value_and_grad(W, X))
        again = f.value_and_grad(W, X)
        assert again[0] == exact[0] and np.array_equal(again[1], exact[1])
    assert all(m[0] == mixed[0][0] != exact[0] and m[1].dtype == np.float32 for m in mixed)
    np.testing.assert_allclose(mixed[0][1], exact[1], rtol=5e-3, atol=5e-3)


def test_explain_shows_what_is_launched():
    f = compile_grad(loss, target="cuda")
    text = f.explain(W, X, Y, level="all")
    assert "--- on the CUDA device" in text and "blocks of 8 threads" in text and "one CUDA graph" in text
    f.value_and_grad(W, X, Y)
    assert (f.stats.compiles, f.stats.kernel_hits) == (0, 1)  # explain() compiled it
    special = pytest.importorskip("scipy.special")
    assert ": by CuPy" in compile_grad(lambda x: np.sum(special.digamma(x)), target="cuda").explain(W, level="all")


def idle(canonical, arguments, xp):
    """Kernels that do nothing, where only memory is asked about."""
    program = assemble(canonical, arguments)
    nothing = {name: lambda *_: runtime.current.submit(lambda: None) for name in program.kernels}
    return Loaded(program, nothing, dict.fromkeys(program.kernels, 1))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_shapes_and_graphs(monkeypatch):
    monkeypatch.setattr(programs, "make", idle)
    monkeypatch.setattr(graphs, "MAX_GRAPHS", 4)
    f = compile_grad(lambda x: np.sum(np.sin(x)) * np.sum(x), target="auto")
    pool = fake_cupy.cupy.get_default_memory_pool()
    inputs = [on_device(rng.normal(size=10 + k))[0] for k in range(12)]
    held = []
    for _ in range(4):
        for x in inputs:
            for _ in range(8):
                f.grad(x)
        gc.collect()
        held.append(pool.used_bytes())
    assert counts["replay"] > 20 and len(graphs._used) == 4
    assert held[1] == held[2] == held[3]


@pytest.mark.slow
def test_graphs_are_given_up_where_memory_runs_out():
    f = compile_grad(loss, target="auto")
    arguments = on_device(W, X, Y)
    expected = host(f.grad(*arguments))
    for _ in range(12):
        f.grad(*arguments)
    assert graphs._used
    pool = fake_cupy.cupy.get_default_memory_pool()
    (w,) = on_device(2 * W)
    pool.leave(1024)  # too little for another workspace beside the graphs'
    f.grad(w, *arguments[1:])
    assert not graphs._used
    pool.set_limit(size=0)
    np.testing.assert_array_equal(host(f.grad(*arguments)), expected)


def test_a_cached_call_does_not_go_to_the_dispatcher(monkeypatch):
    f = compile_grad(lambda x, s: np.sum(np.sin(x) * s), target="auto")
    (x,) = on_device(W)
    for _ in range(2):
        f.grad(x, 2.0)

    def refuse(*args):
        raise AssertionError("the dispatcher")

    monkeypatch.setattr(dispatcher, "flatten", refuse)
    np.testing.assert_allclose(host(f.grad(x, 3.0)), 3 * np.cos(W), rtol=1e-12)
    np.testing.assert_allclose(host(f.grad(tracegrad.tensor(x), 3.0)), 3 * np.cos(W), rtol=1e-12)


def three_ways(x, s):
    if x.sum() > 0:
        x = x * 2
    if x.max() > 3:
        return np.sum(x**2) * s
    return np.sum(np.sin(x)) * s


def as_number(x):
    scale = float(x[0])
    return np.sum(np.sin(x)) * scale


def no_dispatcher(monkeypatch):
    def refuse(*args):
        raise AssertionError("the dispatcher")

    monkeypatch.setattr(dispatcher, "flatten", refuse)


@pytest.mark.slow
def test_a_cached_call_with_guards_does_not_go_to_the_dispatcher(monkeypatch):
    monkeypatch.setattr(config, "select_branches", False)
    f, reference = compile_grad(three_ways, target="auto"), compile_grad(three_ways)
    points = [np.array(p) for p in ([1.0, 2.0], [-1.0, -2.0], [0.5, 0.1], [-9.0, 5.0])]
    expected = [reference.value_and_grad(x, 3.0) for x in points]
    given = [on_device(x)[0] for x in points]
    for _ in range(3):
        for x in given:
            f.value_and_grad(x, 3.0)
    no_dispatcher(monkeypatch)
    for _ in range(2):  # one after the other, each by way of guards that fail
        for x, (value, gradient) in zip(given, expected, strict=True):
            found = f.value_and_grad(x, 3.0)
            np.testing.assert_allclose(host(found[0]), value, rtol=1e-12)
            np.testing.assert_allclose(host(found[1]), gradient, rtol=1e-12)
    counts.clear()
    f.value_and_grad(given[-1], 3.0)  # the path that answered last, with all its guards
    assert counts["download"] == counts["wait"] == 1
    assert f.stats.traces <= 8 and sum(path.runs for path in f.stats.paths) >= 20


def test_where_no_slot_holds_the_dispatcher_goes_on():
    f, reference = compile_grad(three_ways, target="auto"), compile_grad(three_ways)
    (plus, minus) = on_device(np.array([1.0, 0.5]), np.array([-1.0, -2.0]))
    for _ in range(3):
        f.grad(plus, 1.0)
    traces = f.stats.traces
    for _ in range(3):
        np.testing.assert_allclose(host(f.grad(minus, 1.0)), reference.grad(minus.get(), 1.0), rtol=1e-12)
    assert f.stats.traces == traces + 1 and "guard missed" in str(f.stats)


def test_numbers_that_were_looked_at_are_compared_in_the_slot(monkeypatch):
    f, reference = compile_grad(as_number, target="auto"), compile_grad(as_number)
    one, other = on_device(np.array([1.5, 2.0]), np.array([2.5, 2.0]))
    for x in (one, other, one, other, one):
        np.testing.assert_allclose(host(f.grad(x)), reference.grad(x.get()), rtol=1e-12)
    f.grad(one)
    no_dispatcher(monkeypatch)
    np.testing.assert_allclose(host(f.grad(one)), reference.grad(one.get()), rtol=1e-12)


def test_what_is_not_as_in_the_cached_call():
    f = compile_grad(lambda x: np.sum(np.sin(x)), target="auto")
    (x,) = on_device(W)
    for _ in range(3):
        f.grad(x)
    (longer, single, wide) = on_device(X[:, 0].copy(), W.astype(np.float32), X)
    np.testing.assert_allclose(host(f.grad(longer)), np.cos(X[:, 0]), rtol=1e-12)
    np.testing.assert_allclose(host(f.grad(single)), np.cos(W), rtol=1e-6)
    np.testing.assert_allclose(host(f.grad(wide[:3, 0])), np.cos(X[:3, 0]), rtol=1e-12)  # not contiguous
    assert type(f.grad(W)) is np.ndarray
    leaf = tracegrad.tensor(x, requires_grad=True)
    f(leaf).backward()
    np.testing.assert_allclose(host(leaf.grad), np.cos(W), rtol=1e-12)
