"""Hooks of the ends of the graph: what runs when the gradient of a leaf has arrived, in PyTorch's order.

Tensor hooks, pre-hooks of ``AccumulateGrad``, the accumulation, post-accumulate hooks, hooks of ``AccumulateGrad``. A
leaf is finished when its last cotangent has arrived, not at the end of the walk.  The same programs run on PyTorch in
``test_eager_oracle.py``.
"""

from __future__ import annotations

import gc

import pytest

import tracegrad as torch
from tracegrad import autograd, tensor
from tracegrad.tensors import compiled_backward
from tracegrad.tensors.compiled_backward import tapes

RUNS = 3  # the first walks, the others are kernels


@pytest.fixture(autouse=True)
def no_tapes():
    compiled_backward.clear()


def leaf(*data):
    return tensor(list(data), requires_grad=True)


def end(t):
    """The ``AccumulateGrad`` of a leaf, as people get it."""
    return t.view_as(t).grad_fn.next_functions[0][0]


def note(log, name):
    return lambda *_: log.append(name)


def hooked(log, **leaves):
    """All four kinds of hooks of each leaf, and what keeps them."""
    ends = []
    for name, t in leaves.items():
        t.register_hook(note(log, f"{name} hook"))
        t.register_post_accumulate_grad_hook(note(log, f"{name} after"))
        ends.append(end(t))
        ends[-1].register_prehook(note(log, f"{name} node before"))
        ends[-1].register_hook(note(log, f"{name} node after"))
    return ends


def in_order(*names):
    return [f"{name} {what}" for name in names for what in ("hook", "node before", "after", "node after")]


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x.sum(), lambda x: (x * x).sum(), lambda x: (x.exp() * x).sum(), lambda x: (x * 2).view(2, 1).sum(),
        lambda x: torch.cat([x, x]).sum(), lambda x: x[0] + x[1], lambda x: torch.linalg.norm(x), lambda x: (x @ x) + 1,
    ],
)  # fmt: skip
def test_the_order_at_a_leaf(forward):
    x, log = leaf(1.0, 2.0), []
    ends = hooked(log, x=x)
    for _ in range(RUNS):
        forward(x).backward()
        assert log == in_order("x")
        log.clear()
    assert ends and tapes.compiled == RUNS - 1


def test_leaves_are_finished_as_their_gradients_arrive():
    a, b, c, log = leaf(1.0), leaf(2.0), leaf(3.0), []
    ends = hooked(log, a=a, b=b, c=c)
    for _ in range(RUNS):
        ((a * b) * c * a).sum().backward()
        assert log == in_order("c", "a", "b") and len(ends) == 3
        log.clear()
    middle = a * b
    middle.register_hook(note(log, "middle"))
    ((middle * c) * a).sum().backward()
    assert log == [*in_order("c"), "middle", *in_order("a", "b")]


def test_an_intermediate_hook_sees_the_gradients_that_are_complete():
    a, b, seen = leaf(1.0), leaf(2.0), []
    for _ in range(RUNS):
        a.grad = b.grad = None
        h = a * 2
        h.register_hook(lambda g: seen.append((a.grad is None, b.grad is None)))
        (h * b).sum().backward()
    assert seen == [(True, False)] * RUNS


def test_gradients_on_their_way():
    x, seen = leaf(1.0, 1.0), []
    node = end(x)
    node.register_prehook(lambda grads: seen.append((grads[0].tolist(), x.grad is None)) or (grads[0] * 10,))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    node.register_hook(lambda into, out: seen.append((into, out[0].tolist(), torch.is_grad_enabled())))
    (x * 2).sum().backward()
    assert seen == [([2.0, 2.0], True), [20.0, 20.0], ((), [20.0, 20.0], False)]


@pytest.mark.parametrize("value", [None, 0.0, 7.0])
def test_a_hook_that_sets_the_gradient_wins(value):
    x = leaf(1.0, 2.0)
    node = end(x)
    node.register_hook(lambda *_: setattr(x, "grad", None if value is None else torch.full((2,), value)))
    for _ in range(RUNS):
        (x * 2).sum().backward()
        assert x.grad is None if value is None else x.grad.tolist() == [value] * 2


def test_an_optimizer_within_the_backward():
    x = leaf(1.0, 2.0)
    node = end(x)

    def update(*_):
        with torch.no_grad():
            x.sub_(0.25 * x.grad)
        x.grad = None

    node.register_hook(update)
    for k in range(1, RUNS + 1):
        (x * x).sum().backward()
        assert x.tolist() == [0.5**k, 2 * 0.5**k] and x.grad is None


def test_a_pre_hook_that_takes_the_gradient_away():
    x, log = leaf(1.0), []
    node = end(x)
    node.register_prehook(lambda grads: (None,))
    x.register_post_accumulate_grad_hook(note(log, "after"))
    node.register_hook(lambda into, out: log.append(out))
    (x * 2).sum().backward()
    assert x.grad is None and log == ["after", (None,)]
    h = x * 2
    h.grad_fn.register_prehook(lambda grads: (None,))
    h.sum().backward()
    assert x.grad is None


def test_hooks_are_removed():
    x, log = leaf(1.0), []
    node = end(x)
    first, second = node.register_hook(note(log, "first")), node.register_hook(note(log, "second"))
    with node.register_prehook(note(log, "before")):
        (x * 2).sum().backward()
    first.remove()
    first.remove()
    (x * 2).sum().backward()
    second.remove()
    (x * 2).sum().backward()
    once = node.register_hook(lambda *_: log.append("once") or once.remove())
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert log == ["before", "first", "second", "second", "once"]


def test_one_end_for_each_leaf_while_somebody_holds_it():
    x, log = leaf(1.0), []
    y = x * x
    (first, _), (second, _) = y.grad_fn.next_functions
    assert first is second is end(x) and first.variable is x and first.next_functions == ()
    first.register_hook(note(log, "held by the graph"))
    first.metadata["note"] = 1
    del first, second
    gc.collect()
    assert end(x).metadata == {"note": 1}
    y.sum().backward()
    assert log == ["held by the graph"]
    del y
    end(x).register_hook(note(log, "held by nobody"))
    (x * 2).sum().backward()
    assert log == ["held by the graph"]


def test_leaves_that_share_memory_have_ends_of_their_own():
    x, log = leaf(1.0), []
    y = x.detach().requires_grad_()
    ends = hooked(log, x=x, y=y)
    assert ends[0] is not ends[1]
    (x * 2).sum().backward()
    (y * x).sum().backward()
    assert log == [*in_order("x"), *in_order("y", "x")]


def test_what_was_asked_for_decides_which_hooks_run():
    x, y, log = leaf(1.0), leaf(2.0), []
    ends = hooked(log, x=x)
    autograd.grad((x * y).sum(), x)
    assert log == ["x hook"] and ends
    log.clear()
    (x * y).sum().backward(inputs=[y])
    assert log == []
    (x * y).sum().backward(inputs=[x])
    assert log == in_order("x")
    log.clear()
    x.backward()
    assert log == in_order("x")
    log.clear()
    z = (x * y).sum()
    x.requires_grad_(False)
    before = x.grad.tolist()
    z.backward()
    assert log == in_order("x") and x.grad.tolist() == before


def test_retained_gradients_are_those_between_tensor_hooks_and_pre_hooks():
    x = leaf(1.0, 1.0)
    h = x * 2
    h.retain_grad()
    h.register_hook(lambda g: g * 3)
    h.grad_fn.register_prehook(lambda grads: (grads[0] * 100,))
    h.sum().backward()
    assert h.grad.tolist() == [3.0, 3.0] and x.grad.tolist() == [600.0, 600.0]


def test_gradients_that_are_asked_for_where_the_walk_goes_on_and_where_it_ends():
    x = leaf(1.0)
    h = x * 2
    h.register_hook(lambda g: g * 3)
    through, to_x = autograd.grad(h.sum(), (h, x), retain_graph=True)
    assert (through.tolist(), to_x.tolist()) == ([1.0], [6.0])
    assert autograd.grad(h.sum(), h)[0].tolist() == [3.0]


@pytest.mark.parametrize(
    ("before", "after", "kind", "message"),
    [
        (lambda grads: grads[0], None, TypeError, "expected tuple, but hook returned 'Tensor'"),
        (lambda grads: (torch.ones(3),), None, RuntimeError, "has changed the size of value"),
        (lambda grads: (grads[0].half(),), None, RuntimeError, "has changed the type of value"),
        (lambda grads: (3,), None, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda grads: grads * 2, None, RuntimeError, "incorrect number of values"),
        (None, lambda into, out: out, RuntimeError, r"incorrect number of values \(got 1, but expected 0\)"),
        (None, lambda into, out: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_hooks_that_return_what_they_may_not(before, after, kind, message):
    x = leaf(1.0, 2.0)
    node = end(x)
    if before is not None:
        node.register_prehook(before)
    if after is not None:
        node.register_hook(after)
    for _ in range(RUNS):
        with pytest.raises(kind, match=message):
            (x * 2).sum().backward()
    assert torch.is_grad_enabled()


def test_in_a_compiled_step():
    x, seen = leaf(1.0, 2.0), []

    @torch.compile
    def step(y):
        x.grad = None
        (x * y).sum().backward()
        return x.grad.sum()

    plain = [step(torch.ones(2)).item() for _ in range(3)]
    node = end(x)
    handle = node.register_hook(lambda *_: seen.append(1) or setattr(x, "grad", torch.full((2,), 5.0)))
    with_hook = [step(torch.ones(2)).item() for _ in range(3)]
    handle.remove()
    node.register_prehook(lambda grads: (grads[0] * 3,))
    before = [step(torch.ones(2)).item() for _ in range(3)]
    del node
    gc.collect()
    assert (plain, with_hook, before) == ([2.0] * 3, [10.0] * 3, [6.0] * 3) and seen == [1] * 3
    assert [step(torch.ones(2)).item() for _ in range(3)] == [2.0] * 3
