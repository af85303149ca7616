"""The graph behind tensors, ``backward`` and ``autograd.grad``: what is recorded, what is freed, what accumulates, what
is refused; chains of any length; memory that goes when the last tensor goes.
"""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import autograd, compile_grad, tensor
from tracegrad.tensors import compiled_backward

AGAIN = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


@pytest.fixture(autouse=True)
def no_tapes():
    compiled_backward.clear()


def raises(kind, message):
    """pytest.raises for exactly this message."""
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def leaf(*data):
    return tensor(list(data), requires_grad=True)


def scalar(value):
    return tensor(value, requires_grad=True)


# ---- the graph -----------------------------------------------------------------------------------------------------


def test_requires_grad_is_contagious():
    x, c = leaf(1.0, 2.0), tensor([3.0, 4.0])
    for y in (x + c, c * x, x.sum(), x[0], torch.cat([c, x]), torch.where(c > 3, c, x), c @ x, x.max(), x.clone()):
        assert y.requires_grad and not y.is_leaf and y.grad_fn is not None
    for y in (c * 2, x.detach() * 2, x > 1, x.argmax(), x.long(), x.data + 1, x.shape):
        assert not getattr(y, "requires_grad", False)
    with torch.no_grad():
        y = x * 2
    assert not y.requires_grad and y.is_leaf and y.grad_fn is None


def test_leaves():
    x, c = leaf(1.0), tensor([1.0])
    assert x.is_leaf and x.requires_grad and x.grad_fn is None and x.grad is None
    assert c.is_leaf and not c.requires_grad and c.grad_fn is None
    y = x * 2
    assert not y.is_leaf and y.grad is None
    y.sum().backward()
    assert y.grad is None and x.grad.tolist() == [2.0]
    assert not x.grad.requires_grad and x.grad.is_leaf


def test_nodes_know_where_they_came_from():
    x, w = leaf(1.0, 2.0), scalar(3.0)
    y = (x * w + 1).sum()
    node = y.grad_fn
    assert node.name() == "SumBackward0" and type(node).__name__ == "SumBackward0"
    ((add, _),) = node.next_functions
    (mul, _), (none, _) = add.next_functions
    assert none is None and (add.name(), mul.name()) == ("AddBackward0", "MulBackward0")
    (of_x, _), (of_w, _) = mul.next_functions
    assert of_x.name() == of_w.name() == "AccumulateGrad" and of_x.variable is x and of_w.variable is w
    assert of_x.next_functions == () and y.grad_fn is node and repr(node).startswith("<SumBackward0 object at 0x")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: x + 1, "AddBackward0"), (lambda x: x - 1, "SubBackward0"),
        (lambda x: x * x, "MulBackward0"), (lambda x: x / 2, "DivBackward0"), (lambda x: -x, "NegBackward0"),
        (lambda x: x**2, "PowBackward0"), (lambda x: x @ x, "DotBackward0"), (lambda x: x.exp(), "ExpBackward0"),
        (lambda x: x.sum(), "SumBackward0"), (lambda x: x.sum(0), "SumBackward1"),
        (lambda x: x.mean(), "MeanBackward0"), (lambda x: x[0], "SelectBackward0"), (lambda x: x[:1], "SliceBackward0"),
        (lambda x: x.view(2, 1), "ViewBackward0"), (lambda x: x.clone(), "CloneBackward0"),
        (lambda x: x.relu(), "ReluBackward0"), (lambda x: x.unsqueeze(0), "UnsqueezeBackward0"),
        (lambda x: x.view(2, 1).t(), "TBackward0"), (lambda x: torch.cat([x, x]), "CatBackward0"),
        (lambda x: torch.stack([x, x]), "StackBackward0"), (lambda x: x[[0]], "IndexBackward0"),
        (lambda x: torch.where(x > 0, x, 0.0), "WhereBackward0"), (lambda x: x.softmax(0), "SoftmaxBackward0"),
    ],
)  # fmt: skip
def test_names_of_nodes(make, name):
    assert make(leaf(1.0, 2.0)).grad_fn.name() == name


def test_the_flag_can_be_set_late_and_taken_back():
    x = tensor([1.0, 2.0])
    assert (x * 2).requires_grad is False
    assert x.requires_grad_() is x and x.requires_grad and (x * 2).requires_grad
    x.requires_grad = False
    assert not x.requires_grad and not (x * 2).requires_grad
    y = leaf(1.0) * 2
    assert y.requires_grad_() is y
    message = (
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
        "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
    )
    with raises(RuntimeError, message):
        y.requires_grad = False


def test_a_leaf_that_no_longer_wants_its_gradient_gets_none():
    for _ in range(3):  # interpreted, then compiled
        x, y = leaf(1.0), leaf(2.0)
        z = (x * y).sum()
        x.requires_grad_(False)
        z.backward()
        assert x.grad is None and y.grad.tolist() == [1.0]


def test_a_view_of_plain_data_can_become_a_leaf():
    data = torch.arange(6.0)
    w = data.view(2, 3).requires_grad_()
    for _ in range(4):
        (w * w).sum().backward()
        with torch.no_grad():
            w -= 0.25 * w.grad
        w.grad = None
        assert w.requires_grad and w.is_leaf
    assert w.tolist() == (np.arange(6.0).reshape(2, 3) / 16).tolist() == data.view(2, 3).tolist()
    with raises(RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation."):
        w += 1


# ---- backward ------------------------------------------------------------------------------------------------------


def test_a_scalar_needs_no_gradient():
    x = leaf(1.0, 2.0)
    assert (x * x).sum().backward() is None
    assert x.grad.tolist() == [2.0, 4.0]
    y = leaf(3.0)  # one element counts as a scalar
    (y * y).backward()
    assert y.grad.tolist() == [6.0]


def test_anything_else_does():
    x = leaf(1.0, 2.0)
    with raises(RuntimeError, "grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    assert x.grad is None
    (x * 2).backward(tensor([1.0, 10.0]))
    (x * 2).backward(gradient=tensor([100.0, 1000.0]))
    assert x.grad.tolist() == [202.0, 2020.0]


def test_gradients_that_do_not_fit():
    x = leaf(1.0, 2.0)
    message = "Mismatch in shape: grad_output[0] has a shape of Size([3]) and output[0] has a shape of Size([2])."
    with raises(RuntimeError, message):
        (x * 2).backward(tensor([1.0, 2.0, 3.0]))
    with raises(TypeError, "gradients can be either Tensors or None, but got float"):
        (x * 2).sum().backward([1.0])
    with raises(RuntimeError, "got 1 tensors and 2 gradients"):
        autograd.backward([x.sum()], [None, None])
    assert x.grad is None


def test_without_a_graph():
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    with raises(RuntimeError, message):
        tensor([1.0]).backward()
    with torch.no_grad():
        y = leaf(1.0) * 2
    with raises(RuntimeError, message):
        y.backward()
    with raises(RuntimeError, message):
        y.detach().sum().backward()


def test_gradients_accumulate_in_the_same_tensor():
    x = leaf(1.0, 2.0)
    x.sum().backward()
    first = x.grad
    for _ in range(3):
        (x * x).sum().backward()
        assert x.grad is first
    assert first.tolist() == [7.0, 13.0]
    x.grad.zero_()
    assert first.tolist() == [0.0, 0.0]
    x.grad = None
    x.sum().backward()
    assert x.grad is not first and x.grad.tolist() == [1.0, 1.0]


def test_gradients_belong_to_nobody_else():
    for _ in range(3):
        x, y, seed = leaf(1.0, 2.0), leaf(3.0, 4.0), tensor([1.0, 1.0])
        (x + y).backward(seed)
        x.grad.mul_(5)
        assert y.grad.tolist() == [1.0, 1.0] == seed.tolist()
        seed.zero_()
        assert y.grad.tolist() == [1.0, 1.0]


def test_the_gradient_can_be_assigned():
    x = leaf(1.0, 2.0)
    x.grad = tensor([1.0, 1.0])
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    del x.grad
    assert x.grad is None
    message = (
        "attempting to assign a gradient of size '[1]' to a tensor of size '[2]'. Please ensure that the gradient and "
        "the tensor are the same size"
    )
    with raises(RuntimeError, message):
        x.grad = tensor([1.0])
    with raises(TypeError, "assigned grad expected to be a Tensor or None but got grad of type int"):
        x.grad = 5
    with raises(RuntimeError, "attempting to assign a gradient of dtype int64 to a tensor of dtype float64"):
        x.grad = tensor([1, 2])


def test_the_graph_is_freed():
    for _ in range(3):
        x = leaf(1.0, 2.0)
        y = (x * x).sum()
        y.backward()
        with raises(RuntimeError, AGAIN):
            y.backward()
        with raises(RuntimeError, AGAIN):
            autograd.grad(y, x)
        assert x.grad.tolist() == [2.0, 4.0]


def test_a_freed_part_is_noticed_from_another_root():
    for _ in range(3):
        x = leaf(1.0, 2.0)
        shared = x * x
        a, b = shared.sum(), (shared * 3).sum()
        a.backward()
        with raises(RuntimeError, AGAIN):
            b.backward()


def test_where_nothing_was_saved_backward_runs_again():
    x = leaf(1.0, 2.0)
    y = (x + 1).sum()
    for _ in range(4):
        y.backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_a_retained_graph():
    x = leaf(1.0, 2.0)
    y = (x.exp() * x).sum()
    expected = (np.exp([1.0, 2.0]) * np.array([2.0, 3.0])).tolist()
    for n in range(1, 5):
        y.backward(retain_graph=True)
        np.testing.assert_allclose(x.grad.numpy(), n * np.array(expected), rtol=1e-14)
    y.backward()
    with raises(RuntimeError, AGAIN):
        y.backward()


def test_create_graph():
    x = scalar(2.0)
    y = x**4
    y.backward(create_graph=True)
    assert x.grad.item() == 32.0 and x.grad.requires_grad
    first, x.grad = x.grad, None
    first.backward()
    assert x.grad.item() == 48.0 and not x.grad.requires_grad
    third = autograd.grad(autograd.grad(autograd.grad(x**4, x, create_graph=True)[0], x, create_graph=True)[0], x)
    assert third[0].item() == 48.0


def test_inputs_choose_what_accumulates():
    x, y = leaf(1.0), leaf(2.0)
    h = x * y
    z = (h * y).sum()
    z.backward(inputs=[y, h])
    assert x.grad is None and y.grad.tolist() == [4.0] and h.grad.tolist() == [2.0]
    x.sum().backward(inputs=x)
    assert x.grad.tolist() == [1.0]
    with raises(RuntimeError, "`inputs` argument to `backward()` cannot be empty."):
        x.sum().backward(inputs=[])


def test_several_roots():
    for _ in range(3):
        x = leaf(1.0, 2.0)
        h = x * x
        autograd.backward([h.sum(), h * 3, h], [None, tensor([1.0, 10.0]), tensor([0.0, 1.0])])
        assert x.grad.tolist() == [8.0, 128.0]
    y = leaf(1.0)
    z = y * 2
    autograd.backward([z, z])
    assert y.grad.tolist() == [4.0]
    autograd.backward(y)
    assert y.grad.tolist() == [5.0]


def test_unused_and_shared_parts():
    x, unused = leaf(1.0, 2.0), leaf(3.0)
    h = x * 2
    (h * 5 + unused).sum()  # nobody asks
    y = (h * h + h).sum()
    y.backward()
    assert x.grad.tolist() == [10.0, 18.0] and unused.grad is None


def test_operations_that_are_constant_have_gradient_zero():
    for _ in range(3):
        x = leaf(0.5, 1.5)
        (x.floor() + x.sign() * 2).sum().backward()
        assert x.grad.tolist() == [0.0, 0.0]


def test_dtypes_of_gradients():
    x = torch.ones(2, dtype=torch.float32, requires_grad=True)
    y = leaf(1.0, 2.0)
    for _ in range(3):
        x.grad = y.grad = None
        (x * y).sum().backward()
        assert (x.grad.dtype, y.grad.dtype) == (torch.float32, torch.float64)
        assert x.grad.tolist() == [1.0, 2.0]


# ---- autograd.grad and its relatives -------------------------------------------------------------------------------


def test_grad_returns_and_stores_nothing():
    x, y = leaf(1.0, 2.0), scalar(3.0)
    z = (x * x * y).sum()
    gx, gy = autograd.grad(z, [x, y])
    assert gx.tolist() == [6.0, 12.0] and gy.item() == 5.0 and x.grad is None and y.grad is None
    assert not gx.requires_grad
    (single,) = autograd.grad(x.sum(), x)
    assert single.tolist() == [1.0, 1.0]
    (single,) = autograd.grad(outputs=x.sum(), inputs=[x])
    assert single.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        autograd.grad()
    one, two = autograd.grad((x * 2).sum(), (x, x))
    assert one.tolist() == two.tolist() == [2.0, 2.0]


def test_grad_of_intermediates_and_of_itself():
    x = leaf(1.0, 2.0)
    h = x * 3
    y = (h * h).sum()
    gh, gx, gy = autograd.grad(y, (h, x, y))
    assert gh.tolist() == [6.0, 12.0] and gx.tolist() == [18.0, 36.0] and gy.item() == 1.0


def test_grad_outputs():
    x = leaf(1.0, 2.0)
    assert autograd.grad(x * 2, x, tensor([1.0, 10.0]))[0].tolist() == [2.0, 20.0]
    assert autograd.grad([x * 2, x.sum()], x, grad_outputs=[tensor([1.0, 10.0]), None])[0].tolist() == [3.0, 21.0]
    with raises(RuntimeError, "grad can be implicitly created only for scalar outputs"):
        autograd.grad(x * 2, x)
    with raises(RuntimeError, "got 2 tensors and 1 gradients"):
        autograd.grad([x * 2, x], x, [tensor([1.0, 1.0])])


def test_grad_frees_unless_told_otherwise():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    autograd.grad(y, x, retain_graph=True)
    autograd.grad(y, x)
    with raises(RuntimeError, AGAIN):
        autograd.grad(y, x)


def test_grad_of_what_is_not_in_the_graph():
    x, other = leaf(1.0), leaf(2.0)
    message = (
        "The differentiated Tensor at index 1 appears to not have been used in the graph. Set allow_unused=True if "
        "this is the desired behavior."
    )
    with raises(RuntimeError, message):
        autograd.grad(x.sum(), [x, other])
    assert autograd.grad(x.sum(), [x, other], allow_unused=True)[1] is None
    zeros = autograd.grad(x.sum(), [x, other], materialize_grads=True)[1]
    assert zeros.tolist() == [0.0]
    with raises(RuntimeError, "One of the differentiated Tensors does not require grad"):
        autograd.grad(x.sum(), tensor([1.0]))


def test_grad_with_a_graph_of_its_own():
    x = leaf(1.0, 2.0)
    (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
    penalty = (g.norm() - 1) ** 2
    penalty.backward()
    norm = np.linalg.norm([3.0, 12.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * (norm - 1) * np.array([3.0 * 6, 12.0 * 12]) / norm, rtol=1e-12)


def test_functional_grad_of_functions():
    assert float(autograd.grad(np.sin)(0.0)) == 1.0
    value, gradient = autograd.value_and_grad(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    assert float(value) == 5.0 and gradient.tolist() == [2.0, 4.0]


def test_functions_modes_and_compiled_functions_are_there():
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_tensors[0].tolist() == [1.0, 2.0]
            return 20 * g

    x = leaf(1.0, 2.0)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]
    assert autograd.gradcheck(lambda t: (t * t).sin(), (leaf(0.3, 0.4),))
    assert autograd.functional.jacobian(lambda t: t * t, tensor([1.0, 2.0])).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert autograd.functional.hessian(lambda t: (t**3).sum(), tensor([1.0])).tolist() == [[6.0]]
    with torch.no_grad(), torch.enable_grad():
        assert (x * 2).requires_grad
    with torch.inference_mode():
        assert not (x * 2).requires_grad


def test_a_compiled_function_is_one_node():
    @compile_grad
    def energy(w, x):
        return np.sum(np.tanh(x @ w) ** 2)

    w, x = leaf(0.1, 0.2), tensor([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(3):
        w.grad = None
        (energy(w, x) * 2).backward()
        t = np.tanh(x.numpy() @ [0.1, 0.2])
        np.testing.assert_allclose(w.grad.numpy(), 4 * (t * (1 - t**2)) @ x.numpy(), rtol=1e-12)


def test_a_compiled_step_trains():
    w = leaf(1.0, -2.0)
    optimizer = torch.optim.SGD([w], lr=0.1)

    @torch.compile
    def step(target):
        optimizer.zero_grad()
        loss = ((w - target) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(torch.ones(2)).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and w.requires_grad and w.is_leaf
    np.testing.assert_allclose(w.detach().numpy(), 1 + np.array([0.0, -3.0]) * 0.8**5, atol=1e-12)


# ---- hooks ---------------------------------------------------------------------------------------------------------


def test_hooks_on_leaves_and_intermediates():
    seen = []
    x = leaf(1.0, 2.0)
    h = x * 2
    h.register_hook(lambda g: seen.append(("h", g.tolist())))
    h.register_hook(lambda g: g * 10)
    handle = x.register_hook(lambda g: seen.append(("x", g.tolist())))
    (h * h).sum().backward(retain_graph=True)
    assert seen == [("h", [4.0, 8.0]), ("x", [80.0, 160.0])] and x.grad.tolist() == [80.0, 160.0]
    handle.remove()
    seen.clear()
    (h * h).sum().backward()
    assert seen == [("h", [4.0, 8.0])] and x.grad.tolist() == [160.0, 320.0]


def test_retained_gradients():
    x = leaf(1.0, 2.0)
    h = x * 2
    h.retain_grad()
    h.retain_grad()
    x.retain_grad()
    assert h.retains_grad and not x.retains_grad
    (h * h).sum().backward()
    assert h.grad.tolist() == [4.0, 8.0] and x.grad.tolist() == [8.0, 16.0]
    with raises(RuntimeError, "can't retain_grad on Tensor that has requires_grad=False"):
        tensor([1.0]).retain_grad()
    with raises(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient"):
        tensor([1.0]).register_hook(print)


def test_hooks_that_spoil_the_gradient():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        x.sum().backward()
    y = leaf(1.0, 2.0)
    y.register_hook(lambda g: 3)
    with raises(TypeError, "expected Variable, but hook returned 'int'"):
        y.sum().backward()


def test_hooks_after_accumulation():
    x, seen = leaf(1.0), []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.tolist())))
    for _ in range(2):
        (x * 3).sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    assert seen == [(True, [3.0]), (True, [6.0])]
    with raises(RuntimeError, "post accumulate grad hooks cannot be registered on non-leaf tensors"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_an_error_in_a_hook_passes():
    x = leaf(1.0)
    handle = x.register_hook(lambda g: 1 / 0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            (x * 2).sum().backward()
        assert torch.is_grad_enabled() and x.grad is None
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0]


# ---- long chains, threads ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_chain_of_150000_operations():
    x = leaf(1.0, 2.0)
    y = x
    for _ in range(150_000):
        y = y + 0.5
    (g,) = autograd.grad(y.sum(), x, retain_graph=True)
    assert g.tolist() == [1.0, 1.0]
    node = weakref.ref(y.grad_fn)
    del y  # takes all of it down
    assert node() is None


@pytest.mark.slow
def test_a_chain_of_in_place_operations_and_of_views():
    x = leaf(1.0, 2.0)
    y = x * 1
    for _ in range(20_000):
        y += 0.5
    for _ in range(500):
        y = y.view(1, 2).view(2)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    del y


def test_threads_build_and_walk_graphs_of_their_own():
    shared = torch.arange(20.0).requires_grad_()
    found, start = {}, threading.Barrier(4)

    def work(k):
        start.wait()
        x = torch.arange(20.0).requires_grad_()
        for _ in range(20):
            x.grad = None
            ((x * k).exp() * 0 + x * shared.detach() * k).sum().backward()
        found[k] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {k: [v * k for v in range(20)] for k in range(4)}


@pytest.fixture
def threads():
    """Runs *work(k)* in many threads at once, which take turns all the time; the errors that came back."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def run(work, count=5):
        errors = []

        def guarded(k):
            try:
                work(k)
            except Exception as error:
                errors.append(error)

        workers = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
        for t in workers:
            t.start()
        for t in workers:
            t.join()
        return errors

    yield run
    sys.setswitchinterval(before)


class _Square(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


SHARED = [
    lambda x: x + x**2, lambda x: x.exp().sin(), _Square.apply, lambda x: (x @ x.t()).sum(0), lambda x: x[1:].view(-1),
    lambda x: torch.cat([x, x * x]), torch.compile(lambda x: (x * x).exp()),
]  # fmt: skip


@pytest.mark.parametrize("forward", SHARED)
def test_threads_on_one_tape_succeed_or_hear_that_it_is_freed(threads, forward):
    for _ in range(20):
        x = torch.ones(4, 4, requires_grad=True)
        shared = forward(x)
        errors = threads(lambda k, shared=shared: (shared + shared**2).sum().backward())
        assert len(errors) < 5 and {(type(e), str(e)) for e in errors} <= {(RuntimeError, AGAIN)}


@pytest.mark.parametrize("forward", SHARED)
def test_threads_on_one_tape_that_is_kept(threads, forward):
    x = torch.ones(4, 4, requires_grad=True)
    shared = forward(x)
    (once,) = autograd.grad((shared + shared**2).sum(), x, retain_graph=True)
    assert threads(lambda k: (shared + shared**2).sum().backward(retain_graph=True)) == []
    np.testing.assert_allclose(x.grad.numpy(), 5 * once.numpy(), rtol=1e-12)


def test_threads_differentiate_twice(threads):
    x, found = torch.full((3,), 2.0, requires_grad=True), {}
    shared = x**3

    def work(k):
        (g,) = autograd.grad((shared * x).sum(), x, create_graph=True)
        found[k] = autograd.grad(g.sum(), x, retain_graph=True)[0].tolist()

    for _ in range(10):
        assert threads(work) == [] and found == {k: [48.0] * 3 for k in range(5)}


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("form", [lambda x: x * 1.0, lambda x: x.exp() * 0 + x, lambda x: x[None] + 0 * x.sum()])
def test_no_gradient_of_a_shared_leaf_is_lost(threads, hooked, form):
    for _ in range(5):
        x = torch.zeros(4, requires_grad=True)
        if hooked:
            x.register_hook(lambda g: g * 1)
            x.register_post_accumulate_grad_hook(lambda t: None)
        assert threads(lambda k, x=x: [(form(x) * (k + 1.0)).sum().backward() for _ in range(20)]) == []
        assert x.grad.tolist() == [300.0] * 4


# ---- memory --------------------------------------------------------------------------------------------------------


def _simple():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    z = (y * y).sum()
    return [x, y, z, y.grad_fn, y.detach().numpy()]


def _backwarded():
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    z = (y * y).sum()
    node, array = y.grad_fn, y.detach().numpy()
    z.backward()
    return [x, y, z, node, array, x.grad]


def _failed():
    x = torch.randn(3, requires_grad=True)
    y = x * x
    with pytest.raises(RuntimeError):
        y.backward()
    return [x, y]


def _in_place_and_views():
    x = torch.randn(3, 4, requires_grad=True)
    y = x * 2
    v = y[1:].t()
    v.exp_()
    v[0] = 1.0
    z = y.sum() + v.sum()
    z.backward()
    return [x, y, v, z, v.grad_fn]


def _hooked():
    x = torch.randn(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g)
    y.sum().backward()
    return [x, y, y.grad]


def _twice_differentiated():
    x = torch.randn(3, requires_grad=True)
    y = (x**3).sum()
    (g,) = autograd.grad(y, x, create_graph=True)
    s = g.sum()
    s.backward(retain_graph=True)
    return [x, y, g, s]


def _trained():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(4, 3)).sum()
        loss.backward()
        optimizer.step()
    return [loss, loss.grad_fn]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [_simple, _backwarded, _failed, _in_place_and_views, _hooked, _twice_differentiated, _trained]
)
def test_memory_goes_with_the_last_tensor(make):
    for _ in range(2):
        make()  # what is compiled may have cycles, tensors may not
    gc.collect()
    gc.disable()
    try:
        held = make()
        references = [weakref.ref(v) for v in held]
        del held
        assert [r() for r in references] == [None] * len(references)
    finally:
        gc.enable()


def test_backward_lets_go_of_what_was_saved():
    for _ in range(3):
        x = torch.randn(1000, requires_grad=True)
        y = x.exp()
        saved = weakref.ref(y.detach().numpy())
        z = (y * y).sum()
        del y
        assert saved() is not None
        z.backward()
        assert saved() is None and z.grad_fn is not None


@pytest.mark.slow
def test_a_loop_holds_nothing_back():
    x = torch.randn(50, requires_grad=True)
    gc.collect()

    def step():
        ((x * 2).sin() * x).sum().backward()
        x.grad = None

    for _ in range(5):
        step()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        step()
    assert len(gc.get_objects()) - before < 50
