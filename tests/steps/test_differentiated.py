"""Results of ``grad(f)``, ``value_and_grad(f)`` and ``f.grad`` of Tensors stay connected: PyTorch's numbers, any order.

Each program runs several times: eagerly, recorded, verified, replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad
from tracegrad import autograd, compile_grad, nn

torch = pytest.importorskip("torch")
X, V = np.array([0.3, 0.7]), np.array([1.0, -2.0])


def ours(values: np.ndarray | float) -> Any:
    return tracegrad.tensor(values, dtype=tracegrad.float64, requires_grad=True)


def theirs(values: np.ndarray | float) -> Any:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def torch_gradient(f: Callable[..., Any], *wanted: Any) -> Any:
    """(value, gradients) as part of PyTorch's graph."""
    value = f(*wanted)
    return value, torch.autograd.grad(value, wanted, create_graph=True)


def assert_same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("spelling", ["grad", "value_and_grad", "method", "bound"])
def test_gradients_of_gradients(spelling: str) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    compiled = compile_grad(f)
    spellings = {
        "grad": autograd.grad(f),
        "value_and_grad": lambda x: autograd.value_and_grad(f)(x)[1],
        "method": compiled.grad,
        "bound": lambda x: compiled.value_and_grad(x)[1],
    }
    for _ in range(4):
        q, p = ours(X), theirs(X)
        (q * spellings[spelling](q)).sum().backward()
        _, (g,) = torch_gradient(lambda x: (torch.sin(x) * x).sum(), p)
        (p * g).sum().backward()
        assert_same(q.grad, p.grad)
        assert not q.grad.requires_grad


def test_the_value_too() -> None:
    f = compile_grad(lambda x: np.sum(np.exp(x) * x))
    for _ in range(4):
        q, p = ours(X), theirs(X)
        value, g = f.value_and_grad(q)
        (value * g.sum()).backward()
        other, (h,) = torch_gradient(lambda x: (torch.exp(x) * x).sum(), p)
        (other * h.sum()).backward()
        assert_same(q.grad, p.grad)


def test_tensors_of_a_closure_to_the_third_order() -> None:
    w, u = ours(2.0), theirs(2.0)
    g = autograd.grad(lambda x: np.sum(np.sin(w * x) ** 2))
    for _ in range(5):
        w.grad = u.grad = None
        q, p = ours(X), theirs(X)
        y = g(q)
        (z,) = tracegrad.autograd.grad((y * y).sum(), q, create_graph=True)
        z.sum().backward()
        _, (y,) = torch_gradient(lambda x: (torch.sin(u * x) ** 2).sum(), p)
        (z,) = torch.autograd.grad((y * y).sum(), p, create_graph=True)
        z.sum().backward()
        assert_same(w.grad, u.grad)
        assert_same(q.grad, p.grad)


def test_a_closure_alone() -> None:
    w, u = ours(2.0), theirs(2.0)
    for make in (lambda x: tracegrad.tensor(x), lambda x: x):  # plain tensors, arrays
        value_and_grad = autograd.value_and_grad(lambda x: np.sum(np.sin(w * x)))
        for _ in range(4):
            w.grad = u.grad = None
            value, g = value_and_grad(make(X))
            other, (h,) = torch_gradient(lambda x: torch.sin(u * x).sum(), theirs(X))
            if isinstance(g, tracegrad.Tensor):
                value, other = value + (g * g).sum(), other + (h * h).sum()
            value.backward()
            other.backward()
            assert_same(w.grad, u.grad)


def test_grad_of_grad_and_results_of_earlier_operations() -> None:
    twice = autograd.grad(autograd.grad(lambda x: np.sin(x) * x))
    for _ in range(4):
        a, b = ours(0.5), theirs(0.5)
        q, p = a * 2.0, b * 2.0
        (q * twice(q)).backward()
        _, (g,) = torch_gradient(lambda x: torch.sin(x) * x, p)
        (h,) = torch.autograd.grad(g, p, create_graph=True)
        (p * h).backward()
        assert_same(a.grad, b.grad)


def test_trees_and_modules() -> None:
    f = autograd.value_and_grad(lambda p, c: np.sum(p["w"] ** 3) * p["b"] ** 2 * c)
    model = nn.Linear(2, 1, dtype=tracegrad.float64)
    g = autograd.grad(lambda model, x: (model(x) ** 2).sum())
    for _ in range(4):
        tree, other = {"w": ours(X), "b": ours(1.5)}, {"w": theirs(X), "b": theirs(1.5)}
        _, found = f(tree, 2.0)
        (found["w"].sum() + found["b"]).backward()
        _, (by_w, by_b) = torch_gradient(lambda w, b: (w**3).sum() * b**2 * 2.0, other["w"], other["b"])
        (by_w.sum() + by_b).backward()
        assert_same(tree["w"].grad, other["w"].grad)
        assert_same(tree["b"].grad, other["b"].grad)
        model.zero_grad()
        q = ours(X)
        g(model, q)["weight"].sum().backward()
        found = [q.grad, model.weight.grad, model.bias.grad]
        model.zero_grad()
        q = ours(X)
        (by_weight,) = tracegrad.autograd.grad((model(q) ** 2).sum(), model.weight, create_graph=True)
        by_weight.sum().backward()
        for one, two in zip(found, [q.grad, model.weight.grad, model.bias.grad], strict=True):
            assert_same(one, two)


def test_inside_a_compiled_step() -> None:
    g = autograd.grad(lambda x: np.sum(np.sin(x)))
    step = tracegrad.compile(lambda x: (x * g(x)).sum())
    for _ in range(5):
        q = ours(X)
        step(q).backward()
        np.testing.assert_allclose(q.grad.numpy(), np.cos(X) - X * np.sin(X))


def test_functional() -> None:
    f = compile_grad(lambda x: np.sum(np.sin(x)))
    for g in (autograd.grad(lambda x: np.sum(np.sin(x))), f.grad):
        for _ in range(4):
            x, v = tracegrad.tensor(X), tracegrad.tensor(V)
            for product in (autograd.functional.jvp, autograd.functional.vjp):
                np.testing.assert_allclose(product(g, x, v)[1].numpy(), -np.sin(X) * V)
            np.testing.assert_allclose(autograd.functional.jacobian(g, x).numpy(), np.diag(-np.sin(X)))
            q = ours(X)
            autograd.functional.jvp(g, q, v, create_graph=True)[1].sum().backward()
            np.testing.assert_allclose(q.grad.numpy(), -np.cos(X) * V)


def test_no_graph_where_none_is_wanted() -> None:
    f = compile_grad(lambda x: np.sum(np.sin(x)))
    for _ in range(4):
        with tracegrad.no_grad():
            assert not any(t.requires_grad for t in f.value_and_grad(ours(X)))
        assert not any(t.requires_grad for t in f.value_and_grad(tracegrad.tensor(X)))
        assert type(f.grad(X)) is np.ndarray
        assert all(t.requires_grad for t in f.value_and_grad(ours(X)))


def test_overwritten_arguments_are_noticed() -> None:
    f = compile_grad(lambda x: np.sum(np.sin(x)))
    for _ in range(4):
        q = ours(X)
        g = f.grad(q)
        with tracegrad.no_grad():
            q.mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            g.sum().backward()
