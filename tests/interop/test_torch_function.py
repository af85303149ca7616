"""Compiled functions as nodes of PyTorch's graph, and memory that is shared by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import compile_grad
from tracegrad.interop import as_torch_function

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def model(p: Any, x: Any, k: int = 2) -> Any:
    h = np.tanh(x @ p["w"])
    return {"loss": np.sum(h**k) * p["scale"][0], "h": h, "best": np.argmax(h), "none": None, "text": "t"}


def arguments(dtype: Any) -> Any:
    gen = torch.Generator().manual_seed(0)
    p = {"w": torch.rand(3, generator=gen, dtype=dtype, requires_grad=True)}
    p["scale"] = (torch.full((), 2.0, dtype=dtype, requires_grad=True),)
    return p, torch.rand(4, 3, generator=gen, dtype=dtype)


def in_torch(p: Any, x: Any, k: int = 2) -> Any:
    h = torch.tanh(x @ p["w"])
    return (h**k).sum() * p["scale"][0] + h.sum()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_of_trees(dtype: str, compiled: bool) -> None:
    f = as_torch_function(compile_grad(model) if compiled else model)
    for _ in range(4):
        p, x = arguments(getattr(torch, dtype))
        found = f(p, x, k=3)
        assert found["none"] is None and found["text"] == "t" and found["best"].dtype == torch.int64
        assert found["loss"].dtype == x.dtype and found["h"].requires_grad
        got = torch.autograd.grad(found["loss"] + found["h"].sum(), (p["w"], p["scale"][0]))
        expected = torch.autograd.grad(in_torch(p, x, 3), (p["w"], p["scale"][0]))
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a, b)


def test_second_derivatives() -> None:
    f = as_torch_function(lambda w, x: np.sum(np.tanh(x @ w) ** 2))
    p, x = arguments(torch.float64)
    assert torch.autograd.gradcheck(f, (p["w"], x.requires_grad_()))
    assert torch.autograd.gradgradcheck(f, (p["w"], x))


def test_without_gradients() -> None:
    f = as_torch_function(lambda x: np.sum(x * x))
    t = torch.ones(3)
    assert not f(t).requires_grad and f(t.requires_grad_()).requires_grad
    with torch.no_grad():
        assert not f(t).requires_grad


def test_writes_between_the_passes_are_seen() -> None:
    f = as_torch_function(lambda w, x: np.sum(np.exp(w) * x))
    for which in (0, 1):
        tensors = torch.ones(3, requires_grad=True), torch.ones(3)
        value = f(*tensors)
        with torch.no_grad():
            tensors[which].add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            value.backward()


def test_results_that_are_written() -> None:
    """Into memory that the gradient may need: it has its own."""
    f = as_torch_function(np.exp)
    w = torch.zeros(3, requires_grad=True)
    y = f(w)
    y.mul_(2.0)
    y.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_results_that_are_arguments() -> None:
    x = torch.ones(2, requires_grad=True)
    same = as_torch_function(lambda x: x)(x)
    same.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0] and same.data_ptr() != x.data_ptr()


def test_numbers_of_the_function_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    f = as_torch_function(scaled)
    w = torch.ones(2, requires_grad=True)
    for factor in (2.0, 3.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert torch.autograd.grad(f(w), w)[0].tolist() == [factor, factor]


FACTOR = 1.0


def scaled(w: Any) -> Any:
    return np.sum(w) * FACTOR


def test_what_is_refused() -> None:
    f = as_torch_function(lambda x: np.sum(x * x))
    with pytest.raises(TypeError, match="complex tensors"):
        f(torch.ones(2, dtype=torch.complex64, requires_grad=True))
    with pytest.raises(TypeError, match="BFloat16"):
        f(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
    with pytest.raises(tracegrad.UnsupportedError, match="complex results"):
        as_torch_function(lambda x: np.sum(x) * 1j)(torch.ones(2, requires_grad=True))


# ---- DLPack --------------------------------------------------------------------------------------------------------


def test_dlpack_both_ways() -> None:
    t = tracegrad.tensor([1.0, 2.0])
    theirs = torch.from_dlpack(t)
    theirs[0] = 5.0
    assert t.tolist() == [5.0, 2.0]
    ours = tracegrad.from_dlpack(theirs)
    ours[1] = 7.0
    assert theirs.tolist() == [5.0, 7.0] and np.from_dlpack(ours).tolist() == [5.0, 7.0]
    copied = tracegrad.from_dlpack(theirs, copy=True)
    copied[0] = 0.0
    assert theirs.tolist() == [5.0, 7.0]
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(t.requires_grad_())


def test_read_only_memory_is_copied() -> None:
    class ReadOnly:
        def __init__(self) -> None:
            self.array = np.ones(2)
            self.array.flags.writeable = False

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    given = ReadOnly()
    tracegrad.from_dlpack(given)[0] = 3.0
    assert given.array.tolist() == [1.0, 1.0]
    with pytest.raises(BufferError, match="has to be copied"):
        tracegrad.from_dlpack(given, copy=False)
