"""``compile_grad`` functions of Tensors, and of Modules."""

import numpy as np
import pytest

import tracegrad as torch
from tracegrad import compile_grad, nn

RNG = np.random.default_rng(1)


def tensor(*shape, requires_grad=True):
    return torch.tensor(RNG.normal(size=shape), requires_grad=requires_grad)


def test_a_numpy_function_of_tensors_is_one_node_of_the_graph():
    @compile_grad
    def loss(w, x):
        return np.mean(np.tanh(x @ w) ** 2)

    w, x = tensor(3), tensor(5, 3, requires_grad=False)
    plain = compile_grad(lambda w, x: np.mean(np.tanh(x @ w) ** 2))
    for _ in range(5):
        w.grad = None
        h = w * 2.0
        out = loss(h, x)
        assert isinstance(out, torch.Tensor) and out.requires_grad and out.grad_fn is not None
        (out * 3.0).backward()
        value, g = plain.value_and_grad(2.0 * w.detach().numpy(), x.numpy())
        np.testing.assert_allclose(out.item(), value, rtol=1e-12)
        np.testing.assert_allclose(w.grad.numpy(), 6.0 * g, rtol=1e-12)
    assert out.grad_fn.name() == "CompiledFunctionBackward"
    assert out.grad_fn.next_functions[0][0] is h.grad_fn
    assert loss.stats.live == "" and loss.stats.traces <= 2


def test_results_that_are_no_scalars():
    f = compile_grad(lambda x: (np.sin(x), np.cos(x[:2])))
    x = tensor(4)
    for _ in range(5):
        x.grad = None
        s, c = f(x)
        (s.sum() + 2.0 * c.sum()).backward()
        expected = np.cos(x.detach().numpy())
        expected[:2] -= 2.0 * np.sin(x.detach().numpy()[:2])
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


def looping(x, w, v):
    h = q = x
    for _ in range(20):
        h, q = torch.tanh(h @ w), torch.tanh(q @ v)
    return h, q


@pytest.mark.parametrize("function", [lambda x, w, v: ((x @ w).sum(), torch.tanh(x @ v)), looping])
def test_a_result_has_no_gradient_for_what_only_another_depends_on(function):
    def grads(function, which):
        x, w, v = (torch.tensor(np.full((3, 3), k / 10), requires_grad=k > 1) for k in (1, 2, 3))
        for _ in range(2):
            found = torch.autograd.grad(function(x, w, v)[which].sum(), [w, v], allow_unused=True)
        function(x, w, v)[which].sum().backward()
        return [*found, w.grad, v.grad]

    compiled = torch.compile(function)
    for which in (0, 1):
        found, wanted = grads(compiled, which), grads(function, which)
        assert [g is None for g in found] == [g is None for g in wanted] == [which == 1, which == 0] * 2
        for one, other in zip(found, wanted, strict=True):
            if other is not None:
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_derivatives_of_derivatives_through_a_compiled_node():
    f = compile_grad(lambda x: np.sum(x**3))
    x = tensor(3)
    for _ in range(5):
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        np.testing.assert_allclose(g.detach().numpy(), 3.0 * x.detach().numpy() ** 2, rtol=1e-12)
        np.testing.assert_allclose(h.numpy(), 6.0 * x.detach().numpy(), rtol=1e-12)


def test_branches():
    @compile_grad
    def f(x):
        return x.sum() * 2.0 if x.sum() > 0 else -x.sum()

    for sign, slope in [(1.0, 2.0), (-1.0, -1.0)] * 5:
        x = torch.full((3,), sign, requires_grad=True)
        f(x).backward()
        assert x.grad.tolist() == [slope] * 3


def test_a_module_in_the_closure():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    @compile_grad
    def loss(x, y):
        return nn.functional.mse_loss(model(x), y)

    x, y = tensor(6, 3, requires_grad=False), tensor(6, 1, requires_grad=False)
    for _ in range(5):
        model.zero_grad()
        out = loss(x, y)
        out.backward()
        ours = [p.grad.numpy().copy() for p in model.parameters()]
        model.zero_grad()
        expected = nn.functional.mse_loss(model(x), y)
        expected.backward()
        np.testing.assert_allclose(out.item(), expected.item(), rtol=1e-12)
        for a, p in zip(ours, model.parameters(), strict=True):
            np.testing.assert_allclose(a, p.grad.numpy(), rtol=1e-11, atol=1e-14)
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(0.1 * p.grad)
    assert loss.stats.live == "" and loss.stats.traces <= 2


def test_a_module_as_an_argument():
    model = nn.Linear(3, 1)

    @compile_grad
    def loss(model, x):
        return model(x).pow(2).mean()

    x = tensor(6, 3, requires_grad=False)
    for _ in range(4):
        value, grads = loss.value_and_grad(model, x)
        model.zero_grad()
        expected = model(x).pow(2).mean()
        expected.backward()
        assert list(grads) == ["weight", "bias"]
        np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-12)
        np.testing.assert_allclose(grads["weight"].detach().numpy(), model.weight.grad.numpy(), rtol=1e-12)
        np.testing.assert_allclose(loss.grad(model, x)["bias"].detach().numpy(), model.bias.grad.numpy(), rtol=1e-12)


def test_gradients_have_the_structure_of_the_arguments():
    f = compile_grad(lambda p, x: np.sum(np.exp(p["w"] * x)) + p["b"], argnums=(0, 1))
    w, b, x = tensor(2), np.array(0.5), tensor(2)
    for _ in range(4):
        value, (gp, gx) = f.value_and_grad({"w": w, "b": b}, x)
        e = np.exp(w.detach().numpy() * x.detach().numpy())
        np.testing.assert_allclose(value.item(), e.sum() + 0.5)
        np.testing.assert_allclose(gp["w"].detach().numpy(), e * x.detach().numpy())
        assert type(gp["b"]) is np.float64 and gp["b"] == 1.0
        np.testing.assert_allclose(gx.detach().numpy(), e * w.detach().numpy())
        assert w.grad is None and x.grad is None


def test_under_no_grad_there_is_no_graph():
    f = compile_grad(lambda x: np.sum(x * x))
    x = tensor(3)
    for _ in range(4):
        with torch.no_grad():
            assert not f(x).requires_grad
        assert f(x).requires_grad
        assert not f(x.detach()).requires_grad


def test_the_graph_is_freed_and_overwritten_operands_are_noticed():
    f = compile_grad(lambda x: np.sum(np.exp(x)))
    x = tensor(3)
    for _ in range(4):
        out = f(x)
        out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()
    g = compile_grad(lambda x: np.exp(x))
    for _ in range(4):
        y = x * 1.0
        out = g(y)
    y.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_compiled_functions_inside_a_compiled_step():
    f = compile_grad(lambda x: np.sum(np.tanh(x) ** 2))
    w = tensor(4)

    @torch.compile
    def step():
        w.grad = None
        f(w * 2.0).backward()
        return f(w)

    for _ in range(5):
        value = step()
        t = np.tanh(2.0 * w.detach().numpy())
        np.testing.assert_allclose(w.grad.numpy(), 4.0 * t * (1.0 - t * t), rtol=1e-12)
        np.testing.assert_allclose(value.item(), np.sum(np.tanh(w.detach().numpy()) ** 2))
    assert step.stats.live == ""


def test_errors_name_the_line():
    f = compile_grad(lambda x: np.sin(x))
    with pytest.raises(torch.DifferentiationError, match=r"needs a scalar loss(.|\n)*test_functions.py"):
        f.grad(tensor(3))
    with pytest.raises(torch.DifferentiationError, match="int64"):
        compile_grad(lambda x: np.sum(x)).grad(torch.tensor([1, 2]))


def test_numbers_of_every_kind_as_arguments():
    f = compile_grad(lambda x, a: np.exp(x * a))
    for number in (2.0, np.float64(2.0), np.float32(2.0), 2):
        for _ in range(4):
            x = torch.tensor([0.1, 0.2], requires_grad=True)
            f(x, number).sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), 2.0 * np.exp([0.2, 0.4]), rtol=1e-7)


def test_derivatives_of_derivatives_beside_an_argument_that_is_returned():
    def function(x, w):
        return x, torch.tanh(x @ w), w

    def found(function):
        x, w = (torch.tensor(np.full((3, 3), k / 10), requires_grad=True) for k in (1, 2))
        for _ in range(2):
            same, result, weights = function(x, w)
            assert same is x and weights is w
        grads = torch.autograd.grad((result * result).sum(), [x, w], create_graph=True)
        return torch.autograd.grad(sum((g * g).sum() for g in grads), [x, w])

    for one, other in zip(found(torch.compile(function)), found(function), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
