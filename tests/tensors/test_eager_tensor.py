"""Tensors as a user of PyTorch meets them: making them, both spellings of arguments, methods, printing, NumPy's
protocols, and what is refused, in which words.  What is expected here is what PyTorch gives, unless it says otherwise.

Creation in detail: ``test_eager_create.py``; printing: ``test_eager_printing.py``.
"""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import tensor


@pytest.fixture(autouse=True)
def float64_default():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float64)


def raises(kind, message):
    """pytest.raises for exactly this message."""
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def leaf(*data):
    return tensor(list(data), requires_grad=True)


M = [[1.0, 2.0], [3.0, 4.0]]

# ---- making them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (lambda: tensor(M), (2, 2), "float64"),
        (lambda: tensor([1, 2]), (2,), "int64"),
        (lambda: tensor([True]), (1,), "bool"),
        (lambda: tensor(2.5), (), "float64"),
        (lambda: tensor([1, 2], dtype=torch.float32), (2,), "float32"),
        (lambda: tensor(np.ones(2, np.float32)), (2,), "float32"),
        (lambda: torch.Tensor(3, 5), (3, 5), "float64"),
        (lambda: torch.Tensor([1, 2]), (2,), "float64"),
        (lambda: torch.FloatTensor(2, 3), (2, 3), "float32"),
        (lambda: torch.LongTensor([1, 2]), (2,), "int64"),
        (lambda: torch.randn(2, 3), (2, 3), "float64"),
        (lambda: torch.randn((3, 3)), (3, 3), "float64"),
        (lambda: torch.rand(2), (2,), "float64"),
        (lambda: torch.randn_like(torch.ones(2, 3, dtype=torch.float32)), (2, 3), "float32"),
        (lambda: torch.randint(0, 10, (3,)), (3,), "int64"),
        (lambda: torch.randint(10, (2, 2)), (2, 2), "int64"),
        (lambda: torch.randperm(4), (4,), "int64"),
        (lambda: torch.zeros(2, 3), (2, 3), "float64"),
        (lambda: torch.zeros((2, 3)), (2, 3), "float64"),
        (lambda: torch.ones(tensor(M).shape), (2, 2), "float64"),
        (lambda: torch.ones(2, dtype=torch.int32), (2,), "int32"),
        (lambda: torch.full((2,), 3), (2,), "int64"),
        (lambda: torch.full((2,), 3.0), (2,), "float64"),
        (lambda: torch.empty(0, 3), (0, 3), "float64"),
        (lambda: torch.eye(3), (3, 3), "float64"),
        (lambda: torch.arange(5), (5,), "int64"),
        (lambda: torch.arange(0.0, 1.0, 0.25), (4,), "float64"),
        (lambda: torch.linspace(0, 1, 5), (5,), "float64"),
        (lambda: torch.ones_like(tensor([1, 2])), (2,), "int64"),
        (lambda: torch.zeros_like(leaf(1.0, 2.0)), (2,), "float64"),
        (lambda: torch.from_numpy(np.ones((2, 1))), (2, 1), "float64"),
        (lambda: torch.stack([tensor([1.0]), tensor([2.0])]), (2, 1), "float64"),
        (lambda: torch.cat([tensor([1.0]), tensor([2.0, 3.0])]), (3,), "float64"),
        (lambda: torch.where(tensor([True, False]), 1.0, 2.0), (2,), "float64"),
    ],
)
def test_making(make, shape, dtype):
    made = make()
    assert isinstance(made, torch.Tensor) and not made.requires_grad and made.is_leaf and made.grad_fn is None
    assert made.shape == shape and isinstance(made.shape, torch.Size)
    assert made.dtype == np.dtype(dtype)


def test_the_default_dtype_decides_what_floats_are():
    torch.set_default_dtype(torch.float32)
    assert tensor([1.0]).dtype == torch.ones(2).dtype == torch.randn(2).dtype == torch.float32
    assert (tensor([1, 2]) / 2).dtype == torch.float32
    assert torch.from_numpy(np.ones(2)).dtype == torch.float64
    assert repr(tensor([1.0])) == "tensor([1.])"


def test_a_seed_decides_the_numbers():
    torch.manual_seed(0)
    first = torch.randn(3), torch.rand(3), torch.randperm(5)
    torch.manual_seed(0)
    again = torch.randn(3), torch.rand(3), torch.randperm(5)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


# ---- facts ---------------------------------------------------------------------------------------------------------


def test_facts():
    x = torch.zeros(2, 3, 4)
    assert (x.numel(), x.dim(), x.ndim, len(x), x.nelement()) == (24, 3, 3, 2, 24)
    assert x.size() == x.shape == (2, 3, 4) and x.size(1) == x.size(-2) == 3
    assert repr(x.shape) == "Size([2, 3, 4])" and x.shape.numel() == 24
    assert isinstance(x.shape[1:], torch.Size) and x.shape + (5,) == (2, 3, 4, 5)  # noqa: RUF005
    assert x.stride() == (12, 4, 1) and x[0].t().stride() == (1, 4)
    assert x.is_contiguous() and not x[0].t().is_contiguous()
    for y in (x[0].expand(5, 3, 4), x[:, :, :1].expand(2, 3, 5)):  # copies of repeated elements
        assert y.clone().stride() == y.to(torch.float32).stride() == (y.size(1) * y.size(2), y.size(2), 1)
    assert x[0].t().clone().stride() == x[0].t().to(torch.float32).stride() == (1, 4)
    assert str(x.device) == "cpu" and x.device.type == "cpu" and not x.is_cuda
    assert x.element_size() == 8 and x.is_floating_point() and torch.is_tensor(x) and not torch.is_tensor(1)


def test_values():
    x = tensor([[1.0, 2.0], [3.0, 4.5]])
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.5]] and tensor(2).tolist() == 2
    assert type(tensor(2.0).item()) is float and type(tensor(2).item()) is int and type(tensor(True).item()) is bool
    assert (float(tensor(2.5)), int(tensor(2.5)), bool(tensor(0.0)), bool(tensor([3]))) == (2.5, 2, False, True)
    assert list(range(5))[tensor(3)] == 3 and [0] * tensor(2) == [0, 0]
    assert [float(v) for v in tensor([1.0, 2.0])] == [1.0, 2.0]
    assert math.sqrt(tensor(4.0)) == 2.0
    assert 2.0 in x and 7 not in x and tensor(3.0) in x


def test_iteration_gives_views_on_the_tape():
    x = leaf(1.0, 2.0)
    first, second = x
    (first * second).backward()
    assert x.grad.tolist() == [2.0, 1.0] and "UnbindBackward0" in repr(first)


# ---- two spellings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "std", "var", "norm", "argmax", "logsumexp"])
def test_dim_and_axis_mean_the_same(name):
    x = tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]])

    def of(**options):
        found = getattr(x, name)(**options)
        return (found if isinstance(found, torch.Tensor) else found[0]).tolist()

    assert of(dim=1) == of(axis=1) == of(dim=-1)
    assert of(dim=1, keepdim=True) == of(axis=1, keepdims=True) != of(dim=1)
    assert getattr(torch, name)(x, dim=0)[0].tolist() == getattr(torch, name)(x, axis=0)[0].tolist()


def test_dim_and_axis_of_joining():
    x = tensor(M)
    assert torch.cat([x, x], dim=1).tolist() == torch.cat([x, x], axis=1).tolist()
    assert torch.stack([x, x], dim=1).tolist() == torch.stack([x, x], axis=1).tolist()
    assert x.squeeze(dim=0).shape == x.unsqueeze(axis=0).squeeze(axis=0).shape == (2, 2)


def test_sizes_as_numbers_or_as_one_tuple():
    x = torch.arange(6.0)
    assert x.view(2, 3).shape == x.view((2, 3)).shape == x.reshape([2, -1]).shape == x.view(x.view(2, 3).shape).shape
    assert x.view(3, 2).permute(1, 0).shape == x.view(3, 2).permute((1, 0)).shape == (2, 3)
    assert torch.ones(1, 3).expand(2, 3).shape == torch.ones(1, 3).expand((2, 3)).shape
    assert x.repeat(2, 1).shape == x.repeat((2, 1)).shape == (2, 6)


# ---- methods -------------------------------------------------------------------------------------------------------

X = [[-1.0, 4.0], [0.25, 1.0]]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (lambda x: x.T, [[-1.0, 0.25], [4.0, 1.0]]),
        (lambda x: x.t(), [[-1.0, 0.25], [4.0, 1.0]]),
        (lambda x: x.view(4), [-1.0, 4.0, 0.25, 1.0]),
        (lambda x: x.reshape(1, -1), [[-1.0, 4.0, 0.25, 1.0]]),
        (lambda x: x.flatten(), [-1.0, 4.0, 0.25, 1.0]),
        (lambda x: x.sum(), 4.25),
        (lambda x: x.sum(0), [-0.75, 5.0]),
        (lambda x: x.mean(), 1.0625),
        (lambda x: x[0, 1:].norm(), 4.0),
        (lambda x: x.abs(), [[1.0, 4.0], [0.25, 1.0]]),
        (lambda x: abs(x), [[1.0, 4.0], [0.25, 1.0]]),
        (lambda x: x.max(), 4.0),
        (lambda x: x.min(), -1.0),
        (lambda x: x.max(dim=1).indices, [1, 1]),
        (lambda x: x.min(1)[0], [-1.0, 0.25]),
        (lambda x: x.pow(2), [[1.0, 16.0], [0.0625, 1.0]]),
        (lambda x: (x * 0).exp(), [[1.0, 1.0], [1.0, 1.0]]),
        (lambda x: x.abs().log()[1, 1], 0.0),
        (lambda x: x.abs().sqrt(), [[1.0, 2.0], [0.5, 1.0]]),
        (lambda x: x.clamp(0), [[0.0, 4.0], [0.25, 1.0]]),
        (lambda x: x.clamp(min=0, max=1), [[0.0, 1.0], [0.25, 1.0]]),
        (lambda x: x.clip(max=1), [[-1.0, 1.0], [0.25, 1.0]]),
        (lambda x: x.relu(), [[0.0, 4.0], [0.25, 1.0]]),
        (lambda x: (x * 0).sigmoid(), [[0.5, 0.5], [0.5, 0.5]]),
        (lambda x: (x * 0).tanh(), [[0.0, 0.0], [0.0, 0.0]]),
        (lambda x: (x * 0).softmax(dim=1), [[0.5, 0.5], [0.5, 0.5]]),
        (lambda x: x.matmul(tensor([1.0, 1.0])), [3.0, 1.25]),
        (lambda x: x.mm(torch.eye(2)), X),
        (lambda x: x @ torch.eye(2), X),
        (lambda x: x.unsqueeze(0).squeeze(), X),
        (lambda x: x.unsqueeze(-1).shape, (2, 2, 1)),
        (lambda x: x.clone(), X),
        (lambda x: x.detach(), X),
        (lambda x: x.data, X),
        (lambda x: x.zero_(), [[0.0, 0.0], [0.0, 0.0]]),
        (lambda x: x.fill_(3), [[3.0, 3.0], [3.0, 3.0]]),
        (lambda x: x.add_(1), [[0.0, 5.0], [1.25, 2.0]]),
        (lambda x: x.add_(torch.ones(2), alpha=2), [[1.0, 6.0], [2.25, 3.0]]),
        (lambda x: x.mul_(2), [[-2.0, 8.0], [0.5, 2.0]]),
        (lambda x: x.sub_(1), [[-2.0, 3.0], [-0.75, 0.0]]),
        (lambda x: x.copy_(tensor([5, 6])), [[5.0, 6.0], [5.0, 6.0]]),
        (lambda x: x.to(torch.int64), [[-1, 4], [0, 1]]),
        (lambda x: x.float().dtype, np.dtype("float32")),
        (lambda x: x.float().double().dtype, np.dtype("float64")),
        (lambda x: x.long(), [[-1, 4], [0, 1]]),
        (lambda x: x > 0.5, [[False, True], [False, True]]),
        (lambda x: x.eq(4), [[False, True], [False, False]]),
        (lambda x: 2 - x, [[3.0, -2.0], [1.75, 1.0]]),
        (lambda x: 2 / x, [[-2.0, 0.5], [8.0, 2.0]]),
        (lambda x: 2**x, [[0.5, 16.0], [2**0.25, 2.0]]),
        (lambda x: -x + 1, [[2.0, -3.0], [0.75, 0.0]]),
        (lambda x: x // 2, [[-1.0, 2.0], [0.0, 0.0]]),
        (lambda x: x % 3, [[2.0, 1.0], [0.25, 1.0]]),
        (lambda x: x[x > 0.5], [4.0, 1.0]),
        (lambda x: x[[1, 0], [0, 0]], [0.25, -1.0]),
        (lambda x: x[..., None].shape, (2, 2, 1)),
        (lambda x: x.argmax(), 1),
        (lambda x: x.any(), True),
    ],
)
def test_methods(method, expected):
    found = method(tensor(X))
    if isinstance(found, torch.Tensor):
        found = found.tolist()
    assert found == expected


def test_where_nothing_changes_conversions_give_the_tensor_itself():
    x = leaf(1.0, 2.0)
    assert x.to(torch.float64) is x and x.double() is x and x.cpu() is x and x.to("cpu") is x and x.contiguous() is x
    assert x.to(torch.float64, copy=True) is not x
    y = x.float()
    assert y.dtype == torch.float32 and repr(y.grad_fn).startswith("<ToCopyBackward0")
    y.sum().backward()
    assert x.grad.dtype == torch.float64 and x.grad.tolist() == [1.0, 1.0]


def test_tensors_without_axes_count_as_having_one():
    x, at = tensor(2.0, requires_grad=True), torch.zeros((), dtype=torch.int64)
    for _ in range(3):
        x.grad = None
        y = (x * 1).scatter_add(0, at, x * 3) + x.gather(0, at) + x.movedim(0, -1) + x.sum(0) + x.index_select(0, at)
        (y + (x * 1).scatter(0, at, x * 5)).backward()
        assert y.item() == 16.0 and x.grad.item() == 13.0


def test_promotion():
    f32, f64, i64, b = torch.ones(2, dtype=torch.float32), torch.ones(2), tensor([1, 2]), tensor([True, False])
    expected = {
        "float32": [f32 * 2, f32 * 2.5, f32 + i64, f32 * b, f32 * tensor(2.0), f32 * np.float64(2.0)],
        "float64": [f32 + f64, i64 * 2.5, i64 / 2, i64 / i64, b * 0.5, i64 * tensor(2.5), np.float32(2) * f64],
        "int64": [i64 + 1, i64 + True, b + 1, b.sum(), i64**2, i64 // 2, i64 + b],
        "bool": [i64 > 1, b & b, ~b, b | True, b + b],
    }
    for name, found in expected.items():
        assert [str(t.dtype) for t in found] == [name] * len(found)


# ---- printing ------------------------------------------------------------------------------------------------------


def test_printed_forms():
    x = tensor(2.0, requires_grad=True)
    v = tensor([1.0, 2.5], requires_grad=True)
    assert repr(x * 3 + 4) == "tensor(10., grad_fn=<AddBackward0>)"
    assert repr(x) == "tensor(2., requires_grad=True)"
    assert str(v) == "tensor([1.0000, 2.5000], requires_grad=True)"
    assert repr(v.detach()) == "tensor([1.0000, 2.5000])"
    assert repr(v[0]) == "tensor(1., grad_fn=<SelectBackward0>)"
    assert repr((v * v).sum()) == "tensor(7.2500, grad_fn=<SumBackward0>)"
    assert repr(tensor([[1, 2], [3, 4]])) == "tensor([[1, 2],\n        [3, 4]])"
    assert repr(tensor([1.0], dtype=torch.float32)) == "tensor([1.], dtype=tracegrad.float32)"
    assert repr(tensor([])) == "tensor([])"
    assert repr(v.max(dim=0)) == ("max(\nvalues=tensor(2.5000, grad_fn=<MaxBackward0>),\nindices=tensor(1))")
    v.sum().backward()
    assert repr(v.grad) == "tensor([1., 1.])"


def test_formatting():
    x = tensor(3.14159, requires_grad=True)
    assert f"{x:.3f}" == "3.142" and f"{x}" == "3.14159" and f"{tensor(3):04d}" == "0003"
    assert f"{tensor([1.5])}" == "tensor([1.5000])" and "%.2f" % tensor(2.5) == "2.50"  # noqa: UP031
    with raises(TypeError, "unsupported format string passed to Tensor.__format__"):
        f"{tensor([3.14159]):.3f}"


# ---- NumPy ---------------------------------------------------------------------------------------------------------


def test_numpy_functions_are_on_the_tape():
    x = leaf(0.5, 1.0)
    y = np.sin(x) * np.array([2.0, 3.0]) + np.array([1.0, 1.0]) * x
    assert type(y) is torch.Tensor and y.requires_grad
    np.sum(y, axis=0).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.array([2.0, 3.0]) * np.cos([0.5, 1.0]) + 1)
    assert type(np.array([1.0, 2.0]) * tensor([1.0, 2.0])) is torch.Tensor
    assert type(np.float64(2.0) * tensor([1.0])) is torch.Tensor
    assert type(np.concatenate([x, x])) is torch.Tensor and np.concatenate([x, x]).requires_grad
    assert type(np.shape(x)) is not torch.Tensor and np.allclose(x, x)


def test_arrays_of_tensors():
    x = tensor([[1.0, 2.0]])
    assert np.asarray(x) is x.numpy() or np.shares_memory(np.asarray(x), x.numpy())
    assert np.array(x).tolist() == [[1.0, 2.0]] and not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    message = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
    for convert in (np.asarray, np.array, lambda t: t.numpy()):
        with raises(RuntimeError, message):
            convert(leaf(1.0))
    assert leaf(1.0).detach().numpy().tolist() == [1.0] and leaf(1.0).numpy(force=True).tolist() == [1.0]


def test_numpy_functions_without_a_derivative_work_without_gradients_and_say_so_with_them():
    assert np.sort(tensor([2.0, 1.0])).tolist() == [1.0, 2.0]
    assert np.linalg.det(tensor([[2.0, 0.0], [0.0, 3.0]])).item() == pytest.approx(6.0)
    with pytest.raises(torch.UnsupportedError, match=r"np\.spacing"):
        np.spacing(torch.eye(2, requires_grad=True))


def test_in_place_operators_of_arrays_take_tensors_without_gradients_only():
    a = np.ones(2)
    a += tensor([1.0, 2.0])
    assert type(a) is np.ndarray and a.tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match="out="):
        a += leaf(1.0, 2.0)
    assert a.tolist() == [2.0, 3.0]


# ---- identity, copies ----------------------------------------------------------------------------------------------


def test_tensors_are_keys_by_identity():
    x, y = tensor([1.0]), tensor([1.0])
    table = {x: "x", y: "y"}
    assert table[x] == "x" and table[y] == "y" and len({x, y, x}) == 2
    assert hash(x) == hash(x) and x in {x} and tensor([1.0]) not in {x}


def test_deepcopy():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    y.grad.zero_()
    with torch.no_grad():
        y.fill_(7)
    assert y.requires_grad and y.is_leaf and x.tolist() == [1.0, 2.0] and x.grad.tolist() == [2.0, 4.0]
    first, second = copy.deepcopy([x, x])
    assert first is second
    with pytest.raises(RuntimeError, match=r"^Only Tensors created explicitly by the user \(graph leaves\) support"):
        copy.deepcopy(x * 2)


def test_pickle_keeps_data_and_flag_but_no_history():
    x = leaf(1.0, 2.0)
    x.sum().backward()
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == [1.0, 2.0] and y.requires_grad and y.grad is None
    z = pickle.loads(pickle.dumps(x * 2))
    assert z.tolist() == [2.0, 4.0] and z.is_leaf and z.requires_grad
    w = pickle.loads(pickle.dumps(tensor([[1, 2]])[:, 1]))
    assert w.tolist() == [2] and w.dtype == torch.int64


# ---- what is refused, in which words -------------------------------------------------------------------------------

ERRORS = {
    "broadcast": (
        lambda: tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0]),
        RuntimeError, "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    ),
    "broadcast, the last dimension first": (
        lambda: torch.ones(2, 3) * torch.ones(3, 2),
        RuntimeError, "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1",
    ),
    "in place": (
        lambda: tensor([1.0, 2.0]).add_(tensor([1.0, 2.0, 3.0])),
        RuntimeError, "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0",
    ),
    "in place, result too large": (
        lambda: tensor([1.0, 2.0]).add_(torch.ones(3, 2)),
        RuntimeError, "output with shape [2] doesn't match the broadcast shape [3, 2]",
    ),
    "in place, integers": (
        lambda: tensor([1, 2]).add_(1.5),
        RuntimeError, "result type Double can't be cast to the desired output type Long",
    ),
    "in place, integers divided": (
        lambda: tensor([1, 2]).div_(2),
        RuntimeError, "result type Double can't be cast to the desired output type Long",
    ),
    "matrix times vector": (
        lambda: tensor(M) @ tensor([1.0, 2.0, 3.0]),
        RuntimeError, "size mismatch, got input (2), mat (2x2), vec (3)",
    ),
    "matrix times matrix": (
        lambda: tensor(M) @ torch.ones(3, 2),
        RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x2 and 3x2)",
    ),
    "mm of a vector": (lambda: tensor(M).mm(tensor([1.0, 2.0])), RuntimeError, "mat2 must be a matrix"),
    "matmul of a scalar": (
        lambda: tensor(1.0) @ tensor([1.0]),
        RuntimeError, "both arguments to matmul need to be at least 1D, but they are 0D and 1D",
    ),
    "matmul with a number": (
        lambda: torch.ones(2) @ 2, TypeError, "unsupported operand type(s) for @: 'Tensor' and 'int'",
    ),
    "dimension": (
        lambda: tensor([1.0, 2.0]).sum(dim=1),
        IndexError, "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    ),
    "size": (
        lambda: tensor(M).size(2),
        IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    ),
    "dimension twice": (
        lambda: tensor(M).sum(dim=(0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims",
    ),
    "index": (
        lambda: tensor([1.0, 2.0])[2], IndexError, "index 2 is out of bounds for dimension 0 with size 2",
    ),
    "negative index": (
        lambda: tensor(M)[0, -3], IndexError, "index -3 is out of bounds for dimension 1 with size 2",
    ),
    "too many indices": (
        lambda: tensor([1.0])[0, 0], IndexError, "too many indices for tensor of dimension 1",
    ),
    "index of a scalar": (
        lambda: tensor(1.0)[0],
        IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
        "convert a 0-dim tensor to a number",
    ),
    "index by floats": (
        lambda: tensor([1.0])[tensor([0.5])],
        IndexError, "tensors used as indices must be long, int, byte or bool tensors",
    ),
    "index by a mask of another shape": (
        lambda: tensor([1.0, 2.0])[tensor([True, False, True])],
        IndexError, "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor [2] at index "
        "0",
    ),
    "step 0": (lambda: tensor([1.0])[::0], ValueError, "slice step cannot be zero"),
    "bool": (
        lambda: bool(tensor([1.0, 2.0])),
        RuntimeError, "Boolean value of Tensor with more than one value is ambiguous",
    ),
    "bool of nothing": (
        lambda: bool(tensor([])), RuntimeError, "Boolean value of Tensor with no values is ambiguous",
    ),
    "if": (
        lambda: 1 if tensor(M) > 0 else 2,
        RuntimeError, "Boolean value of Tensor with more than one value is ambiguous",
    ),
    "item": (
        lambda: tensor([1.0, 2.0]).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar",
    ),
    "float": (
        lambda: float(tensor([1.0, 2.0])),
        ValueError, "only one element tensors can be converted to Python scalars",
    ),
    "int": (
        lambda: int(tensor([1, 2])), ValueError, "only one element tensors can be converted to Python scalars",
    ),
    "len": (lambda: len(tensor(1.0)), TypeError, "len() of a 0-d tensor"),
    "iteration": (lambda: list(tensor(1.0)), TypeError, "iteration over a 0-d tensor"),
    "view": (
        lambda: torch.ones(4).view(3, 2), RuntimeError, "shape '[3, 2]' is invalid for input of size 4",
    ),
    "view with -1": (
        lambda: torch.ones(4).view(-1, 3), RuntimeError, "shape '[-1, 3]' is invalid for input of size 4",
    ),
    "view with two -1": (
        lambda: torch.ones(4).view(-1, -1), RuntimeError, "only one dimension can be inferred",
    ),
    "view across strides": (
        lambda: tensor(M).t().view(-1),
        RuntimeError, "view size is not compatible with input tensor's size and stride (at least one dimension spans "
        "across two contiguous subspaces). Use .reshape(...) instead.",
    ),
    "t": (lambda: torch.ones(2, 2, 2).t(), RuntimeError, "t() expects a tensor with <= 2 dimensions, but self is 3D"),
    "permute": (
        lambda: tensor(M).permute(1, 1), RuntimeError, "permute(): duplicate dims are not allowed.",
    ),
    "expand": (
        lambda: tensor([1.0, 2.0]).expand(3),
        RuntimeError, "The expanded size of the tensor (3) must match the existing size (2) at non-singleton dimension "
        "0.  Target sizes: [3].  Tensor sizes: [2]",
    ),
    "cat": (
        lambda: torch.cat([torch.ones(2, 3), torch.ones(2, 4)]),
        RuntimeError, "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor "
        "number 1 in the list.",
    ),
    "stack": (
        lambda: torch.stack([torch.ones(1), torch.ones(2)]),
        RuntimeError, "stack expects each tensor to be equal size, but got [1] at entry 0 and [2] at entry 1",
    ),
    "cat of numbers": (
        lambda: torch.cat([1.0, 2.0]), TypeError, "expected Tensor as element 0 in argument 0, but got float",
    ),
    "clamp": (
        lambda: torch.ones(1).clamp(), RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be None",
    ),
    "mean of integers": (
        lambda: tensor([1, 2]).mean(),
        RuntimeError, "mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
        "dtype. Got: Long",
    ),
    "negative powers of integers": (
        lambda: tensor([1, 2]) ** -1, RuntimeError, "Integers to negative integer powers are not allowed.",
    ),
    "text": (lambda: tensor([1.0]) + "a", TypeError, "unsupported operand type(s) for +: 'Tensor' and 'str'"),
    "None": (lambda: tensor([1.0]) * None, TypeError, "unsupported operand type(s) for *: 'Tensor' and 'NoneType'"),
    "order with None": (
        lambda: tensor([1.0]) < None, TypeError, "'<' not supported between instances of 'Tensor' and 'NoneType'",
    ),
    "attribute": (lambda: tensor([1.0]).foo, AttributeError, "'Tensor' object has no attribute 'foo'"),
    "keyword": (
        lambda: tensor([1.0]).sum(foo=1), TypeError, "sum() got an unexpected keyword argument 'foo'",
    ),
    "keyword of a function": (
        lambda: torch.zeros(2, foo=1), TypeError, "zeros() got an unexpected keyword argument 'foo'",
    ),
    "both spellings": (lambda: tensor(M).sum(dim=0, axis=0), TypeError, "dim and axis were both given"),
    "data of text": (lambda: tensor("abc"), TypeError, "new(): invalid data type 'str'"),
    "ragged data": (
        lambda: tensor([[1.0, 2.0], [3.0]]), ValueError, "expected sequence of length 2 at dim 1 (got 1)",
    ),
    "no floats": (
        lambda: tensor([1, 2], requires_grad=True),
        RuntimeError, "only Tensors of floating point dtype can require gradients",
    ),
    "no floats, later": (
        lambda: tensor([1, 2]).requires_grad_(),
        RuntimeError, "only Tensors of floating point dtype can require gradients",
    ),
    "function of a number": (
        lambda: torch.exp(2.0), TypeError, "exp(): argument 'input' (position 1) must be Tensor, not float",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    function, kind, message = ERRORS[name]
    with pytest.raises(kind) as caught:
        function()
    assert str(caught.value) == message


def test_comparing_with_none_is_no_comparison_of_elements():
    x = tensor([1.0])
    assert (x == None) is False and (x != None) is True  # noqa: E711


def test_errors_leave_tensors_as_they_were():
    x = leaf(1.0, 2.0)
    y = x * 1
    for wrong in (lambda: y.add_(torch.ones(3)), lambda: y.copy_(torch.ones(3)), lambda: y.mul_(torch.ones(3, 2))):
        with pytest.raises(RuntimeError):
            wrong()
    assert y.tolist() == [1.0, 2.0] and y._version == 0
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
