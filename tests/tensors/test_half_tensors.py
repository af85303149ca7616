"""Tensors of half precision: each operation is computed in float32 and its result rounded."""

from __future__ import annotations

import numpy as np
import pytest
from support import assert_agree

import tracegrad
from tracegrad import compile_grad, nn, optim
from tracegrad.tracer.ir.aval import BFLOAT16, FLOAT16

F = nn.functional
F32 = np.dtype("float32")
DTYPES = pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
rng = np.random.default_rng(4)
DATA = rng.normal(size=(6, 5))

OPERATIONS = {
    "arithmetic": lambda x: (x * 2.5 + 1e-3) / (x * x + 1),
    "matmul": lambda x: x @ x.T,
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: F.log_softmax(x, 0),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(0),
    "norm": lambda x: x.norm(),
    "std": lambda x: x.std(1),
    "exp": lambda x: x.exp(),
    "gelu": lambda x: F.gelu(x),
    "max": lambda x: x.max(dim=1).values,
    "cumsum": lambda x: x.cumsum(1),
    "cat": lambda x: tracegrad.cat([x, 2 * x]),
    "index": lambda x: x[tracegrad.tensor([0, 2, 2])],
    "where": lambda x: tracegrad.where(x > 0, x, 0.5 * x),
    "layer_norm": lambda x: F.layer_norm(x, (5,)),
    "sort": lambda x: x.sort(1).values,
    "view": lambda x: x.view(30)[3:7].clone(),
    "numpy": lambda x: np.sin(x),
}
SEVERAL = {"arithmetic", "view"}  # operations, each of which rounds


@DTYPES
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_the_float32_one_rounded(name, dtype):
    operation = OPERATIONS[name]
    x = tracegrad.tensor(DATA, dtype=dtype, requires_grad=True)
    wide = x.detach().float().requires_grad_()
    found, expected = operation(x), operation(wide)
    assert found.dtype == dtype and expected.dtype == F32
    ulps = 3 if name in SEVERAL else 0
    assert_agree(found.detach().numpy(), expected.detach().numpy().astype(dtype), ulps=ulps)
    weights = tracegrad.tensor(rng.normal(size=found.shape), dtype=dtype)
    for _ in range(4):  # by NumPy, then by a kernel
        x.grad = wide.grad = None
        operation(x).backward(weights)
        operation(wide).backward(weights.float())
        assert x.grad.dtype == dtype
        limit = 4 * float(tracegrad.finfo(dtype).eps) * float(abs(wide.grad).max())
        assert_agree(x.grad.numpy(), wide.grad.numpy().astype(dtype), ulps=1, atol=limit)


def test_dtypes_and_conversions():
    x = tracegrad.tensor([1.5, -2.0, 0.1])
    assert (x.half().dtype, x.bfloat16().dtype, x.half().float().dtype) == (FLOAT16, BFLOAT16, F32)
    assert tracegrad.half is tracegrad.float16 and tracegrad.bfloat16 == BFLOAT16
    assert x.to("bfloat16").dtype == x.to(tracegrad.bfloat16).dtype == BFLOAT16
    assert x.half().type() == "torch.HalfTensor" and x.bfloat16().type() == "torch.BFloat16Tensor"
    assert x.bfloat16().is_floating_point() and x.bfloat16().element_size() == 2
    promoted = [(x.half() + x.bfloat16()), (x.half() + x.float()), (x.half() + 1.5), (x.half() + tracegrad.tensor(2))]
    assert [t.dtype for t in promoted] == [F32, F32, FLOAT16, FLOAT16]
    assert (x.bfloat16() * tracegrad.tensor([1, 2, 3])).dtype == BFLOAT16
    array = x.bfloat16().numpy()
    assert array.dtype == BFLOAT16 and tracegrad.from_numpy(array).dtype == BFLOAT16
    assert x.bfloat16().tolist() == [1.5, -2.0, 0.10009765625] and x.half()[2].item() == 0.0999755859375


def test_printing():
    x = tracegrad.tensor([1.5, -2.0, 0.1])
    assert repr(x.half()) == "tensor([ 1.5000, -2.0000,  0.1000], dtype=tracegrad.float16)"
    assert repr(x.bfloat16().sum()) == "tensor(-0.4004, dtype=tracegrad.bfloat16)"


@DTYPES
def test_in_place_operations_and_views(dtype):
    x = tracegrad.ones(4, dtype=dtype, requires_grad=True)
    y = x * 3
    y[1:3].mul_(0.1)
    y += 1e-3
    y.sum().backward()
    assert x.grad.dtype == dtype
    assert_agree(x.grad.numpy(), np.array([3, 0.3, 0.3, 3]).astype(dtype), ulps=1)


@DTYPES
@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam, optim.RMSprop], ids=lambda o: o.__name__)
def test_optimizers_go_the_same_way_by_numpy_and_by_kernel(optimizer, dtype):
    """The first step of a kind is NumPy's, later ones are a kernel's."""
    start = rng.normal(size=(40,))
    expected = None
    for _ in range(3):
        w = tracegrad.tensor(start, dtype=dtype, requires_grad=True)
        steps = optimizer([w], lr=0.05)
        (w * w).sum().backward()
        steps.step()
        found = w.detach().numpy().copy()
        assert found.dtype == dtype
        expected = found if expected is None else expected
        assert_agree(found, expected, ulps=1)


@DTYPES
def test_random_numbers(dtype):
    tracegrad.manual_seed(0)
    uniform = tracegrad.rand(20_000, dtype=dtype)
    assert uniform.dtype == dtype and uniform.min().item() >= 0 and uniform.max().item() < 1
    assert abs(uniform.float().mean().item() - 0.5) < 0.02
    normal = tracegrad.randn(20_000, dtype=dtype)
    assert normal.dtype == dtype and abs(normal.float().std().item() - 1) < 0.03


@DTYPES
def test_a_compiled_step_and_a_compiled_function(dtype):
    tracegrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)
    x = tracegrad.tensor(DATA, dtype=dtype)
    step = tracegrad.compile(lambda x: (net(x) ** 2).mean())
    results = [step(x) for _ in range(4)]
    assert {r.dtype for r in results} == {dtype}
    for r in results:
        assert_agree(r.detach().numpy(), results[0].detach().numpy(), ulps=2)

    energy = compile_grad(lambda q: np.sum(np.cos(q) * q))
    q = tracegrad.tensor(DATA[0], dtype=dtype, requires_grad=True)
    energy(2.0 * q).backward()
    exact = 2 * (np.cos(2 * DATA[0]) - 2 * DATA[0] * np.sin(2 * DATA[0]))
    assert q.grad.dtype == dtype
    np.testing.assert_allclose(q.grad.float().numpy(), exact, atol=8 * float(tracegrad.finfo(dtype).eps))
