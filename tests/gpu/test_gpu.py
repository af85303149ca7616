"""On a real CUDA device: what the other tests of this folder show on the stand-in."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from support import F32, F64, operand_avals, operand_values, primitive_graph, prims

import tracegrad
from tracegrad import compile_grad, nn, optim
from tracegrad.codegen.evaluate.interpreter import evaluate
from tracegrad.runtime.cuda.availability import cuda_status

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def backend():
    status = cuda_status()
    if status.backend is None:
        pytest.skip(f"no CUDA device: {status.missing}")
    return status.backend


@pytest.mark.parametrize("dtype", [F64, F32], ids=str)
@pytest.mark.parametrize("prim", prims(), ids=lambda p: p.name)
def test_every_primitive(backend, prim, dtype):
    avals = operand_avals(prim, dtype)
    graph = primitive_graph(prim, avals)
    values = operand_values(prim, avals, np.random.default_rng(zlib.crc32(prim.name.encode())))
    _, found = backend.execute(graph, values)
    single = np.float32 in (graph.outputs[0].aval.dtype, dtype)
    for ours, expected in zip(found, evaluate(graph, values), strict=True):
        assert ours.dtype == expected.dtype
        np.testing.assert_allclose(ours.get(), expected, rtol=1e-5 if single else 1e-12, atol=1e-6 if single else 1e-14)
    assert not backend.host_steps


def test_value_and_gradient_where_the_arguments_lie(backend):
    def loss(w, X):
        return np.mean(np.log1p(np.exp(-(X @ w)))) + np.sum(w * w)

    rng = np.random.default_rng(0)
    w, X = rng.normal(size=5), rng.normal(size=(50, 5))
    f, xp = compile_grad(loss, target="auto"), backend.modules.xp
    expected = f.value_and_grad(w, X)
    arguments = xp.asarray(w), xp.asarray(X)
    for _ in range(3):
        value, gradient = f.value_and_grad(*arguments)
        assert value.is_cuda and gradient.is_cuda
        np.testing.assert_allclose(float(value), expected[0])
        np.testing.assert_allclose(xp.asarray(gradient).get(), expected[1])


def test_arrays_of_other_libraries(backend):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    x = torch.arange(6.0, device="cuda", dtype=torch.float64)
    f = compile_grad(lambda x: np.sum(x * x), target="auto")
    assert torch.equal(torch.from_dlpack(f.grad(x)), 2 * x)


def test_running_out_of_memory(backend):
    pool = backend.modules.xp.get_default_memory_pool()
    x = tracegrad.zeros(1 << 20, device="cuda")
    pool.set_limit(size=pool.total_bytes() + 1000)
    try:
        with pytest.raises(tracegrad.cuda.OutOfMemoryError):
            [x + k for k in range(4)]
    finally:
        pool.set_limit(size=0)
    assert (tracegrad.ones(3, device="cuda") + 1).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam], ids=lambda m: m.__name__)
def test_compiled_training_is_eager_training(make):
    def trained(compiled):
        tracegrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).cuda()
        optimizer = make(model.parameters(), lr=0.05)
        pointers = [p.data_ptr() for p in model.parameters()]

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            if loss > 0.5:
                loss = loss * 0.5
            loss.backward()
            optimizer.step()
            return loss

        step = tracegrad.compile(step) if compiled else step
        rng = np.random.default_rng(0)
        x = tracegrad.tensor(rng.normal(size=(32, 4)), device="cuda")
        losses = [step(x, x.sum(1, keepdim=True)).item() for _ in range(40)]
        assert pointers == [p.data_ptr() for p in model.parameters()]
        return losses, [p.detach().cpu().numpy() for p in model.parameters()], step

    eager, compiled = trained(False), trained(True)
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-8)
    for ours, theirs in zip(compiled[1], eager[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    assert compiled[2].stats.live == "" and compiled[2].stats.traces <= 4


def test_a_step_of_kernels_alone_is_replayed_with_its_writes():
    w = tracegrad.zeros(1000, device="cuda", dtype=tracegrad.float64, requires_grad=True)
    target = tracegrad.arange(1000, device="cuda", dtype=tracegrad.float64)
    optimizer = optim.SGD([w], lr=0.25)

    @tracegrad.compile
    def step():
        optimizer.zero_grad()
        ((w - target) ** 2).sum().backward()
        optimizer.step()

    for k in range(20):
        np.testing.assert_allclose(w.detach().cpu().numpy(), np.arange(1000.0) * (1 - 0.5**k), rtol=1e-12)
        step()
    assert step.stats.live == "" and step.stats.traces == 1


def test_a_step_that_runs_out_of_memory_has_changed_nothing(backend):
    pool = backend.modules.xp.get_default_memory_pool()
    w = tracegrad.ones(1 << 20, device="cuda", requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9)

    @tracegrad.compile
    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    before, version = w.detach().cpu().numpy().copy(), w._version
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 1000)
    try:
        with pytest.raises(tracegrad.cuda.OutOfMemoryError):
            step()
    finally:
        pool.set_limit(size=0)
    np.testing.assert_array_equal(w.detach().cpu().numpy(), before)
    assert w._version == version
    step()
    assert not np.array_equal(w.detach().cpu().numpy(), before)
