"""Writing into tensors: in-place operations, item assignment, views of views, memory shared with NumPy, what may be
overwritten between forward and backward, and what is refused.  Values and gradients are checked against the same
computation without writing.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import tensor
from tracegrad.tensors import compiled_backward

LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation."
OVERWRITTEN = "one of the variables needed for gradient computation has been modified by an inplace operation"
NO_GRAD_VIEW = "A view was created in no_grad mode and is being modified inplace with grad mode enabled."


@pytest.fixture(autouse=True)
def no_tapes():
    compiled_backward.clear()


def raises(kind, message):
    """pytest.raises for exactly this message."""
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def leaf(*data):
    return tensor([float(v) for v in data], requires_grad=True)


def grid(requires_grad=False):
    return torch.arange(6.0).view(2, 3).clone().requires_grad_(requires_grad)


def weights(t):
    return tensor(1.0 + np.arange(t.numel()).reshape(tuple(t.shape)))


def gradients(function, *leaves):
    """The gradients of a weighted sum of what *function* gives, three times: interpreted, compiled, compiled."""
    found = []
    for _ in range(3):
        copies = [t.detach().clone().requires_grad_() for t in leaves]
        results = function(*copies)
        total = sum((r * weights(r)).sum() for r in (results if isinstance(results, tuple) else (results,)))
        total.backward()
        found.append([np.zeros(c.shape) if c.grad is None else c.grad.numpy() for c in copies])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    return found[0]


def agree(written, pure, *leaves):
    """*written* (with writes) and *pure* (without) have the same values and gradients."""
    one, two = written(*[t.clone() for t in leaves]), pure(*leaves)
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (one, two)], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-14)
    for a, b in zip(gradients(written, *leaves), gradients(pure, *leaves), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


# ---- the training loop by hand -------------------------------------------------------------------------------------


def test_gradient_descent_under_no_grad():
    w = leaf(1, 2, 3)
    same, losses = w, []
    for _ in range(30):
        loss = ((w - 1) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad.zero_()
        losses.append(loss.item())
    assert w is same and w.is_leaf and w.requires_grad and w.grad_fn is None and w._version == 30
    assert losses == sorted(losses, reverse=True) and losses[-1] < 1e-4


def test_gradient_descent_through_data():
    w = leaf(1, 2)
    for _ in range(2):
        w.grad = None
        (w * w).sum().backward()
        w.data -= 0.25 * w.grad
        w.data.mul_(1)
    assert w.tolist() == [0.25, 0.5] and w.requires_grad


# ---- leaves --------------------------------------------------------------------------------------------------------

WRITES = {
    "add_": lambda t: t.add_(1), "iadd": lambda t: t.__iadd__(1), "mul_": lambda t: t.mul_(2),
    "zero_": lambda t: t.zero_(), "fill_": lambda t: t.fill_(1), "copy_": lambda t: t.copy_(torch.ones(t.shape)),
    "exp_": lambda t: t.exp_(), "item": lambda t: t.__setitem__(Ellipsis, 1.0),
    "first": lambda t: t.__setitem__(0, 1.0), "mask": lambda t: t.__setitem__(t.detach() > 0, 1.0),
    "index": lambda t: t.__setitem__(tensor([0]), 1.0), "clamp_": lambda t: t.clamp_(0),
    "normal_": lambda t: t.normal_(), "index_add_": lambda t: t.index_add_(0, tensor([0]), torch.ones(t[:1].shape)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_leaves_that_require_gradients_cannot_be_written(name):
    x = leaf(1, 2, 3)
    message = VIEW_OF_LEAF if name in ("item", "first") else LEAF
    with raises(RuntimeError, message):
        WRITES[name](x)
    with raises(RuntimeError, VIEW_OF_LEAF):
        WRITES[name](x[1:])
    with raises(RuntimeError, VIEW_OF_LEAF):
        WRITES[name](x.view(3, 1).t()[0])
    assert x.tolist() == [1.0, 2.0, 3.0] and x._version == 0
    for target in (x, x[1:], x.detach(), x.data):
        with torch.no_grad():
            WRITES[name](target)
    assert x.is_leaf and x.requires_grad


def test_assigning_an_item_to_itself_is_a_write_too():
    x = leaf(1, 2)
    with raises(RuntimeError, VIEW_OF_LEAF):
        x[0] = x[0]
    with raises(RuntimeError, VIEW_OF_LEAF):
        x[0] += 1


def test_in_place_operations_give_the_tensor_itself():
    x = tensor([1.0, 4.0])
    y = x
    for call in (
        lambda: x.add_(1), lambda: x.sub_(1), lambda: x.mul_(2), lambda: x.div_(2), lambda: x.pow_(2),
        lambda: x.sqrt_(), lambda: x.neg_(), lambda: x.abs_(), lambda: x.clamp_(max=3), lambda: x.copy_(x * 1),
        lambda: x.zero_(), lambda: x.fill_(2),
    ):  # fmt: skip
        before = x._version
        assert call() is x and x._version == before + 1
    y += 1
    y *= 2
    y -= 1
    y /= 5
    y **= 2
    assert y is x and x.tolist() == [1.0, 1.0] and x.dtype == torch.float64


# ---- intermediates -------------------------------------------------------------------------------------------------


def test_writing_an_intermediate_moves_its_history():
    x = leaf(1, 2)
    y = x * 3
    before = y.grad_fn
    y.add_(1)
    assert repr(y.grad_fn).startswith("<AddBackward0") and y.grad_fn.next_functions[0][0] is before
    assert repr(y) == "tensor([4., 7.], grad_fn=<AddBackward0>)"
    y[0] = 10.0
    assert repr(y) == "tensor([10.,  7.], grad_fn=<CopySlices>)"


def test_a_constant_that_is_written_with_something_tracked_becomes_tracked():
    x, c = leaf(1, 2), torch.zeros(2)
    assert not c.requires_grad
    c += x
    assert c.requires_grad and not c.is_leaf
    c.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("written", "pure"),
    [
        (lambda x: (x * 1).add_(2).mul_(3), lambda x: (x + 2) * 3),
        (lambda x: (x * 1).exp_().mul_(2), lambda x: x.exp() * 2),
        (lambda x: (x * 1).mul_(x), lambda x: x * x),
        (lambda x: (x * 1).pow_(3), lambda x: x**3),
        (lambda x: (x * 2).sigmoid_().tanh_().sin_(), lambda x: (x * 2).sigmoid().tanh().sin()),
        (lambda x: (x * 1).div_(x + 5), lambda x: x / (x + 5)),
        (lambda x: (x * 1).clamp_(1, 3).relu_(), lambda x: x.clamp(1, 3).relu()),
        (lambda x: (x * 1).zero_() + x, lambda x: x * 1),
        (lambda x: (x * 1).fill_(3) * x, lambda x: x * 3),
        (lambda x: (x * 1).copy_(x.exp()), lambda x: x.exp()),
        (lambda x: torch.zeros(2, 3).copy_(x[0]), lambda x: x[0].expand(2, 3)),
        (lambda x: (x * 1).sub_(x.sum()), lambda x: x - x.sum()),
        (lambda x: (x * 1).masked_fill_(x.detach() > 2, 7.0), lambda x: torch.where(x > 2, 7.0, x)),
        (lambda x: (x * 1).add_(x, alpha=3), lambda x: x * 4),
        (lambda x: (x + 1).sqrt_().log_(), lambda x: (x + 1).sqrt().log()),
    ],
)
def test_in_place_is_as_out_of_place(written, pure):
    agree(written, pure, grid())


# ---- item assignment -----------------------------------------------------------------------------------------------


def put(index, value):
    def written(x, v):
        y = x * 1
        y[index] = value(v)
        return y

    def pure(x, v):
        mask = np.zeros((2, 3))
        mask[index if not isinstance(index, torch.Tensor) else index.numpy()] = 1
        where = tensor(mask)
        filled = torch.zeros(2, 3)
        filled[index] = value(v)
        return x * (1 - where) + filled * where

    return written, pure


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, lambda v: v), ((0, 1), lambda v: v[0]), (slice(None), lambda v: v), ((slice(None), 1), lambda v: v[:2]),
        ((slice(None), slice(None, None, 2)), lambda v: v[:2]), (Ellipsis, lambda v: v * 2), (-1, lambda v: v[0]),
        ((slice(None), [0, 2]), lambda v: v[1:]), (([0, 1], [2, 0]), lambda v: v[:2]), ([1], lambda v: v),
        (0, lambda v: 5.0), ((Ellipsis, 0), lambda v: v[:1]), ((1, slice(1, None)), lambda v: v[:2].exp()),
    ],
)  # fmt: skip
def test_assigned_items_have_the_gradient_and_what_was_there_has_none(index, value):
    agree(*put(index, value), grid(), tensor([10.0, 20.0, 30.0]))


def test_item_assignment_by_masks_and_tensors():
    x, v = grid().requires_grad_(), leaf(10, 20)
    y = x * 1
    y[x > 3.5] = v
    y[tensor([0, 0]), tensor([1, 2])] = v * 2
    assert y.tolist() == [[0.0, 20.0, 40.0], [3.0, 10.0, 20.0]]
    (y * weights(y)).sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0], [4.0, 0.0, 0.0]] and v.grad.tolist() == [5 + 4.0, 6 + 6.0]


def test_item_assignment_builds_a_result_in_a_loop():
    for _ in range(3):
        x = leaf(1, 2, 3)
        out = torch.zeros(3)
        total = tensor(0.0)
        for k in range(3):
            total = total + x[k] ** 2
            out[k] = total
        out.sum().backward()
        assert out.tolist() == [1.0, 5.0, 14.0] and x.grad.tolist() == [6.0, 8.0, 6.0]


def test_plain_item_assignment():
    x = torch.zeros(2, 3)
    x[0] = tensor([1.0, 2.0, 3.0])
    x[:, 1] = 7
    x[1, 0] = np.float64(2.5)
    x[1, 2] = True
    x[x > 2.9] += 1
    x[0, 0] -= 3
    assert x.tolist() == [[-2.0, 8.0, 4.0], [2.5, 8.0, 1.0]]
    n = tensor([1, 2])
    n[0] = 2.7
    assert n.tolist() == [2, 2]
    with raises(IndexError, "index 5 is out of bounds for dimension 0 with size 2"):
        x[5] = 1
    with pytest.raises(TypeError):
        x[0] = "a"
    with pytest.raises(RuntimeError):
        x[0] = tensor([1.0, 2.0])


# ---- views ---------------------------------------------------------------------------------------------------------

VIEWS = {
    "row": lambda t: t[0], "last row": lambda t: t[-1], "slice": lambda t: t[:, 1:], "step": lambda t: t[:, ::2],
    "select": lambda t: t.select(1, 2), "narrow": lambda t: t.narrow(1, 0, 2), "view": lambda t: t.view(6),
    "view as": lambda t: t.view(3, 2), "reshape": lambda t: t.reshape(-1), "flatten": lambda t: t.flatten(),
    "t": lambda t: t.t(), "T": lambda t: t.T, "transpose": lambda t: t.transpose(0, 1),
    "permute": lambda t: t.permute(1, 0), "unsqueeze": lambda t: t.unsqueeze(1), "squeeze": lambda t: t[:1].squeeze(),
    "whole": lambda t: t[...], "None": lambda t: t[None], "diagonal": lambda t: t.diagonal(),
    "chunk": lambda t: t.chunk(3, 1)[1], "split": lambda t: t.split(2, 1)[0], "unbind": lambda t: t.unbind(1)[2],
    "of a view": lambda t: t.t()[1:].t()[1], "of views": lambda t: t.view(6)[1:].view(5, 1)[::2].squeeze(),
    "element": lambda t: t[1, 2], "expand of one": lambda t: t.view(1, 6).expand(1, 6),
}  # fmt: skip
COPIES = {
    "clone": lambda t: t.clone(), "reshape across strides": lambda t: t.t().reshape(-1),
    "flatten across strides": lambda t: t.t().flatten(), "index": lambda t: t[[0, 1]], "mask": lambda t: t[t > -1],
    "contiguous": lambda t: t.t().contiguous(), "cat": lambda t: torch.cat([t]), "to": lambda t: t.to(torch.float32),
    "repeat": lambda t: t.repeat(1, 1), "flip": lambda t: t.flip(0), "tensor": lambda t: tensor(t.numpy()),
    "gather": lambda t: t.gather(1, tensor([[0], [1]])), "sum": lambda t: t.sum(0), "abs": lambda t: t.abs(),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name):
    x = grid()
    v = VIEWS[name](x)
    assert np.shares_memory(v.numpy(), x.numpy())
    v += 100
    assert x._version == v._version == 1 and (x >= 100).sum() == v.numel()
    x.zero_()
    assert v._version == 2 and not v.any()


@pytest.mark.parametrize("name", COPIES)
def test_copies_do_not(name):
    x = grid()
    c = COPIES[name](x)
    c += 100
    assert x.tolist() == grid().tolist() and x._version == 0 and not np.shares_memory(c.numpy(), x.numpy())


SEVERAL = {"unbind", "split", "chunk"}  # functions that give several views, which may not be written


@pytest.mark.parametrize("name", sorted(set(VIEWS) - SEVERAL))
def test_writing_through_a_view_changes_the_base_and_its_gradient(name):
    view = VIEWS[name]

    def written(x):
        y = x * 1
        view(y).mul_(3)
        return y

    def pure(x):
        factor = torch.ones(2, 3)
        view(factor).fill_(3)
        return x * factor

    agree(written, pure, grid())


@pytest.mark.parametrize("name", sorted(set(VIEWS) - SEVERAL))
def test_older_views_see_what_is_written_to_the_base(name):
    view = VIEWS[name]

    def written(x):
        y = x * 1
        v = view(y)
        y.mul_(x + 1)
        return v, v * v

    agree(written, lambda x: (view(x * (x + 1)), view(x * (x + 1)) ** 2), grid())


@pytest.mark.parametrize("name", sorted(set(VIEWS) - SEVERAL))
def test_older_views_see_what_is_written_to_another_view(name):
    view = VIEWS[name]

    def written(x):
        y = x * 1
        v = view(y)
        y[:, 1:].mul_(x[:, :2])
        y.t()[0] += 5
        return v, y

    def pure(x):
        y = torch.cat([x[:, :1] + 5, x[:, 1:] * x[:, :2]], 1)
        return view(y), y

    agree(written, pure, grid())


@pytest.mark.parametrize("name", sorted(set(VIEWS) - SEVERAL))
def test_views_of_a_constant_that_becomes_tracked(name):
    view = VIEWS[name]
    base = torch.zeros(2, 3)
    v, u = view(base), view(base)
    w = tensor(2.0, requires_grad=True)
    v += w
    assert v.requires_grad and base.requires_grad and u.requires_grad and not u.is_leaf
    (u * 3).sum().backward()
    assert w.grad.item() == 3 * u.numel()


def test_operations_on_stale_views_are_recorded():
    for use in (lambda v: v * 3, lambda v: torch.cat([v, v]), lambda v: np.multiply(v, 3), lambda v: v.max(0)[0],
                lambda v: v[0], lambda v: torch.zeros(2).copy_(v), lambda v: torch.stack([v])):  # fmt: skip
        base, w = torch.ones(3), tensor(2.0, requires_grad=True)
        v = base[:2]
        base.mul_(w)
        assert use(v).requires_grad
        c, v = torch.ones(2), base.detach()[:2]
        assert not use(v).requires_grad and not c.requires_grad


def test_a_view_of_an_overwritten_view():
    def written(x):
        y = x * 2
        a = y[1]
        b = a[1:]
        a.mul_(10)
        c = y.view(6)
        b.add_(x[0, 1:])
        c[0] = x.sum()
        return a, b, c, y

    def pure(x):
        y = x * 2
        last = torch.cat([y[1, :1] * 10, y[1, 1:] * 10 + x[0, 1:]])
        y = torch.cat([x.sum().view(1), y[0, 1:], last]).view(2, 3)
        return y[1], y[1, 1:], y.view(6), y

    agree(written, pure, grid())


def test_what_is_written_twice():
    def written(x):
        y = x * 2
        y[0].mul_(y[1].clone())
        y[1].add_(y[0])
        y.sub_(y.sum())
        return y

    def pure(x):
        a, b = x * 2
        a = a * b
        y = torch.stack([a, b + a])
        return y - y.sum()

    agree(written, pure, grid())


def test_overlapping_reads_and_writes():
    x = torch.arange(5.0)
    x[1:] += x[:-1]
    assert x.tolist() == [0.0, 1.0, 3.0, 5.0, 7.0]
    y = torch.arange(4.0)
    y[1:] = y[:-1]
    assert y.tolist() == [0.0, 0.0, 1.0, 2.0]

    def written(x):
        y = x * 1
        y[:, 1:].add_(y[:, :-1])
        return y

    agree(written, lambda x: torch.cat([x[:, :1], x[:, 1:] + x[:, :-1]], 1), grid())


def test_expanded_tensors_cannot_be_written():
    x = tensor([[1.0], [2.0]]).expand(2, 3)
    message = (
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation."
    )
    for write in (
        lambda: x.add_(1), lambda: x.mul_(torch.ones(3)), lambda: x.__setitem__((0, 0), 5.0), lambda: x.zero_(),
        lambda: x.__setitem__(x > 0, 5.0), lambda: x.__setitem__([0], 5.0),
    ):  # fmt: skip
        with raises(RuntimeError, message):
            write()
    y = x.clone()
    y[0] = 0.0
    assert y.tolist() == [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]] and x.tolist() == [[1.0] * 3, [2.0] * 3]


def test_views_in_graphs_that_are_retained():
    x = grid().requires_grad_()
    y = x * 2
    v = y[0]
    v.mul_(3)
    s = (y * weights(y)).sum()
    for n in range(1, 5):
        s.backward(retain_graph=True)
        assert x.grad.tolist() == [[6.0 * n, 12.0 * n, 18.0 * n], [8.0 * n, 10.0 * n, 12.0 * n]]


def test_second_derivatives_through_writes():
    x = leaf(1, 2, 3)
    y = x**3
    y[1:] *= x[:-1]
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert g.tolist() == [3.0 + 8.0, 12.0 + 27.0, 54.0]
    assert h.tolist() == [6.0 + 12.0, 12.0 + 12.0 + 27.0, 36.0 + 27.0]


# ---- no_grad, detach, data, NumPy ----------------------------------------------------------------------------------


def test_a_view_of_a_view_that_was_written_under_no_grad():
    x = torch.zeros(3, requires_grad=True)

    def write():
        with torch.no_grad():
            column = x.view(3, 1)
            column += 1
            column[:, 0].mul_(2)
            x.view(3, 1)[..., 0] += 0.5

    compiled = torch.compile(write)
    for k in range(4):
        (compiled if k else write)()
    assert x.tolist() == [37.5] * 3


def test_views_made_without_gradients():
    x = leaf(1, 2, 3)
    y = x * 2
    with torch.no_grad():
        v = y[1:]
        v.zero_()  # both inside: allowed, and not on the tape
    assert y.tolist() == [2.0, 0.0, 0.0]
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    y = x * 2
    with torch.no_grad():
        v = y[1:]
    with pytest.raises(RuntimeError, match=re.escape(NO_GRAD_VIEW)):
        v += 1
    with pytest.raises(RuntimeError, match=re.escape(NO_GRAD_VIEW)):
        v[:1] += 1
    base = torch.zeros(3)
    with torch.no_grad():
        v = base[1:]
    v += 1
    with pytest.raises(RuntimeError, match=re.escape(NO_GRAD_VIEW)):
        v += x[1:]
    assert base.tolist() == [0.0, 1.0, 1.0] and not base.requires_grad


def test_detached_tensors_share_memory_and_version():
    x = leaf(1, 2)
    y = x * 3
    d = y.detach()
    assert not d.requires_grad and d.is_leaf and np.shares_memory(d.numpy(), y.detach().numpy())
    d.add_(1)
    assert y.tolist() == [4.0, 7.0] and y._version == d._version == 1
    y.sum().backward()  # adding needs no value
    assert x.grad.tolist() == [3.0, 3.0]
    for _ in range(3):
        y = x.exp()
        y.detach().zero_()
        with pytest.raises(RuntimeError, match=OVERWRITTEN):
            y.sum().backward()


def test_data_shares_memory_but_not_the_version():
    for _ in range(3):
        x = leaf(1, 2)
        y = x.exp()
        y.data.zero_()
        assert y._version == 0 and y.tolist() == [0.0, 0.0]
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 0.0]  # silently wrong, as in PyTorch: that is what .data is


def test_detach_in_place():
    x = leaf(1, 2)
    y = x * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match=r"^Can't detach views in-place. Use detach\(\) instead."):
        x[0].detach_()


def test_replaced_data():
    for _ in range(3):
        x = leaf(1, 2)
        x.data = tensor([5.0, 6.0, 7.0])
        assert x.requires_grad and x.tolist() == [5.0, 6.0, 7.0]
        (x * x).sum().backward()
        assert x.grad.tolist() == [10.0, 12.0, 14.0]
    with raises(TypeError, "Variable data has to be a tensor, but got int"):
        x.data = 5


def test_what_was_saved_before_data_was_replaced_stays():
    for _ in range(3):  # PyTorch would read the new data here
        x = leaf(2)
        y = x * x
        x.data = tensor([3.0])
        z = x * x
        (y + z).sum().backward()
        assert x.grad.tolist() == [10.0]


def test_numpy_arrays_share_memory_both_ways():
    a = np.zeros(3)
    t = torch.from_numpy(a)
    a[0] = 1.0
    t[1] = 2.0
    t.numpy()[2] = 3.0
    t.add_(10)
    assert a.tolist() == t.tolist() == [11.0, 12.0, 13.0] and t.numpy() is not None
    v = t[1:]
    v.numpy()[:] = 0.0
    assert a.tolist() == [11.0, 0.0, 0.0]
    w = t.clone().requires_grad_()
    w.detach().numpy()[0] = 7.0
    assert w.tolist() == [7.0, 0.0, 0.0]
    c = tensor(a)
    a[:] = -1
    assert c.tolist() == [11.0, 0.0, 0.0]


def test_arrays_are_read_when_they_are_used():
    a, w = np.ones(2), leaf(1, 1)
    x = torch.from_numpy(a)
    for k in range(4):
        a[:] = k
        (g,) = torch.autograd.grad((w * x).sum(), w)
        w.grad = None
        (w * x).sum().backward()
        assert g.tolist() == w.grad.tolist() == [k, k]


# ---- versions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil",
    [
        lambda h: h.add_(1), lambda h: h.zero_(), lambda h: h[0].mul_(2), lambda h: h.__setitem__(0, 1.0),
        lambda h: h.detach().add_(1), lambda h: h.view(-1).t().fill_(0), lambda h: h.copy_(h * 2),
        lambda h: h.__imul__(h.detach().clone()),
    ],
)  # fmt: skip
def test_a_saved_value_that_was_overwritten_is_noticed(spoil):
    for _ in range(3):
        x = leaf(1, 2)
        h = x * 2
        y = h * h
        spoil(h)
        with pytest.raises(RuntimeError, match=OVERWRITTEN):
            y.sum().backward()
        assert x.grad is None


def test_the_message_says_what_and_when():
    x = leaf(1, 2)
    h = x * 2
    y = h * h
    h += 1
    h += 1
    message = (
        f"{OVERWRITTEN}: [tensor of shape [2]], which is output 0 of MulBackward0, is at version 2; expected version 0 "
        "instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient"
    )
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}"):
        y.sum().backward()


def test_a_leaf_updated_between_forward_and_backward_is_noticed():
    for _ in range(3):
        w = leaf(1, 2)
        y = (w * w).sum()
        with torch.no_grad():
            w -= 0.1
        with pytest.raises(RuntimeError, match=OVERWRITTEN):
            y.backward()


def test_one_value_saved_before_and_after_a_write():
    for make in (lambda w: w, lambda w: w * 1):
        for _ in range(4):  # the compiled backward reads it once, but must look twice
            w = leaf(2)
            t = make(w)
            y = t * t
            with torch.no_grad():
                t.mul_(2)
            z = t * t
            with pytest.raises(RuntimeError, match=OVERWRITTEN):
                (y + z).sum().backward()


def test_writes_that_no_derivative_reads_are_no_error():
    for _ in range(3):
        x = leaf(1, 2)
        h = x * 2
        y = h + h  # needs no value
        z = h.exp()  # saves its result
        h.zero_()
        (y + z).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 4 + 2 * np.exp([2.0, 4.0]))


def test_versions_count_writes():
    x = torch.zeros(3)
    v, d, c, data = x[1:], x.detach(), x.clone(), x.data
    x.add_(1)
    v.mul_(2)
    d.zero_()
    x[0] = 1
    data.fill_(3)
    assert (x._version, v._version, d._version, c._version, data._version) == (4, 4, 4, 0, 1)
    assert (x + 1)._version == 0
    x.numpy()[0] = 5
    assert x._version == 4
