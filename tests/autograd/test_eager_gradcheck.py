"""``gradcheck``, ``gradgradcheck`` and ``autograd.functional``: answers, structures, messages."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import tracegrad as torch
from tracegrad.autograd import gradcheck, gradgradcheck
from tracegrad.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from tracegrad.autograd.gradcheck import GradcheckError


def tensor(values: Any, requires_grad: bool = True, dtype: Any = None) -> Any:
    return torch.tensor(values, dtype=dtype or torch.float64, requires_grad=requires_grad)


def raises(kind: type[Exception], text: str) -> Any:
    return pytest.raises(kind, match=f"^{re.escape(text)}")


def function(forward: Any, backward: Any) -> Any:
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("MyFn", (torch.autograd.Function,), methods)


def save(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x.sin()


def wrong(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return 10 * g * x


# ---- gradcheck ---------------------------------------------------------------------------------------------------

RIGHT = {
    "one tensor": (lambda x: (x * x).sin(), tensor([0.3, 0.4])),
    "two results": (lambda x, y: (x * y.sum(), x - y), (tensor([0.3, 0.4]), tensor([1.0, 2.0]))),
    "numbers and constants": (lambda x, k, y: x * k * y, (tensor([0.3]), 2.0, tensor([1.0], False))),
    "lists": (lambda x: [x * x], [tensor([0.3])]),
    "a scalar": (lambda x: x**3, tensor(0.4)),
    "nothing": (lambda x: x * x, tensor([])),
    "a constant result": (lambda x: (x * 2, tensor([1.0], False)), tensor([0.3])),
    "a matrix": (lambda x: x.exp().sum(1), tensor([[0.1, 0.2], [0.3, 0.4]])),
}


@pytest.mark.parametrize("case", RIGHT)
def test_right_derivatives(case):
    func, inputs = RIGHT[case]
    tensors = [t for t in (inputs if isinstance(inputs, tuple | list) else [inputs]) if isinstance(t, torch.Tensor)]
    before = [t.tolist() for t in tensors]
    assert gradcheck(func, inputs) is True
    assert gradgradcheck(func, inputs) is True
    assert gradcheck(func, inputs, eps=1e-5, atol=1e-4, rtol=1e-2, fast_mode=True, check_undefined_grad=False)
    assert [t.tolist() for t in tensors] == before and all(t.grad is None for t in tensors)


def test_a_wrong_derivative():
    MyFn = function(save, wrong)
    found = (
        "Jacobian mismatch for output 1 with respect to input 1,\nnumerical:tensor([[0.9553, 0.0000],\n        [0.0000"
    )
    with raises(GradcheckError, found) as error:
        gradcheck(lambda y, x: (x * 2, MyFn.apply(x) * y), (tensor([1.0, 1.0]), tensor([0.3, 0.4])))
    assert str(error.value).endswith("analytical:tensor([[3., 0.],\n        [0., 4.]])\n")
    assert gradcheck(MyFn.apply, tensor([0.3]), raise_exception=False) is False
    assert gradgradcheck(MyFn.apply, tensor([0.3]))  # 10 * g * x is differentiated as it is
    assert issubclass(GradcheckError, RuntimeError)


def test_a_wrong_second_derivative():
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)  # neither argument nor result: a constant
        return y * 1.0

    Inner = function(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    assert gradcheck(Inner.apply, tensor([0.3]))
    with raises(GradcheckError, "Jacobian mismatch for output 0 with respect to input 0,"):
        gradgradcheck(Inner.apply, tensor([0.3]), tensor([1.0]))


def test_backwards_that_are_no_functions_or_not_linear():
    calls = itertools.count()
    drifts = function(lambda ctx, x: x * 1.0, lambda ctx, g: g * (1 + next(calls) * 1e-9))
    with raises(GradcheckError, "Backward is not reentrant, i.e., running backward with same input and grad_output"):
        gradcheck(drifts.apply, tensor([0.3]))
    assert gradcheck(drifts.apply, tensor([0.3]), nondet_tol=1e-6)
    with raises(GradcheckError, "backward not multiplied by grad_output"):
        gradcheck(function(lambda ctx, x: x * 1.0, lambda ctx, g: g * 0 + 1).apply, tensor(0.3))


def test_inputs_that_cannot_be_checked():
    message = (
        "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
    )
    for check in (gradcheck, gradgradcheck):
        with raises(ValueError, message):
            check(lambda x: x * x, tensor([0.3], False))
    with raises(RuntimeError, "The 1th input has a dimension with stride 0. gradcheck only supports inputs that are"):
        gradcheck(lambda x, y: x * y, (tensor([0.3, 0.4]), tensor([1.0]).expand(2).detach().requires_grad_()))
    with raises(GradcheckError, "Numerical gradient for function expected to be zero"):
        gradcheck(lambda x: x.detach() * x.detach(), tensor([0.3]))
    assert gradcheck(lambda x: x.detach() * 0, tensor([0.3]))
    with pytest.warns(UserWarning, match=r"^Input #0 requires gradient and is not a double precision floating point"):
        assert not gradcheck(lambda x: x * x, tensor([0.3], dtype=torch.float32), raise_exception=False)


# ---- autograd.functional -----------------------------------------------------------------------------------------


def cubes(x: Any) -> Any:
    return (x**3).sum()


def test_answers():
    x, v = tensor([1.0, 2.0]), tensor([0.5, -1.0], False)
    assert jacobian(lambda x: x**3, x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert hessian(cubes, x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert [t.tolist() for t in vjp(lambda x: x**3, x, v)] == [[1.0, 8.0], [1.5, -12.0]]
    assert [t.tolist() for t in jvp(lambda x: x**3, x, v)] == [[1.0, 8.0], [1.5, -12.0]]
    assert [t.tolist() for t in vhp(cubes, x, v)] == [9.0, [3.0, -12.0]]
    assert [t.tolist() for t in hvp(cubes, x, v)] == [9.0, [3.0, -12.0]]
    assert x.grad is None


def test_shapes_and_tuples():
    a, b = tensor(np.arange(6.0).reshape(2, 3)), tensor([1.0, 2.0, 3.0])
    found = jacobian(lambda a, b: (a @ b, b.sum()), (a, b))
    assert [[t.shape for t in row] for row in found] == [[(2, 2, 3), (2, 3)], [(2, 3), (3,)]]
    np.testing.assert_allclose(found[0][1].numpy(), a.detach().numpy())
    assert found[1][0].tolist() == np.zeros((2, 3)).tolist()
    assert jacobian(lambda a: (a.sum(),), a)[0].shape == (2, 3)
    second = hessian(lambda a, b: (a @ b).sum() ** 2, (a, b))
    assert [[t.shape for t in row] for row in second] == [[(2, 3, 2, 3), (2, 3, 3)], [(3, 2, 3), (3, 3)]]
    assert jacobian(lambda x: x[:0], b).shape == (0, 3)


def test_create_graph():
    x = tensor([1.0, 2.0])
    plain, linked = jacobian(torch.exp, x), jacobian(torch.exp, x, create_graph=True)
    assert not plain.requires_grad
    (g,) = torch.autograd.grad(linked.sum(), x)
    np.testing.assert_allclose(g.numpy(), np.exp([1.0, 2.0]))
    (third,) = torch.autograd.grad(hessian(cubes, x, create_graph=True).sum(), x)
    assert third.tolist() == [6.0, 6.0]
    for product in (vhp, hvp):
        value, h = product(cubes, x, tensor([1.0, 1.0], False), create_graph=True)
        assert value.requires_grad and torch.autograd.grad(h.sum(), x)[0].tolist() == [6.0, 6.0]


def test_tensors_that_the_function_captures_stay_constant():
    x = tensor([1.0, 2.0])
    assert jacobian(lambda y: x * y, x).tolist() == [[1.0, 0.0], [0.0, 2.0]]


def test_within_no_grad():
    with torch.no_grad():
        assert hessian(cubes, tensor([1.0, 2.0], False)).tolist() == [[6.0, 0.0], [0.0, 12.0]]


ONE, TWO = tensor([1.0, 2.0]), (tensor([1.0, 2.0]), tensor([3.0, 4.0]))
MESSAGES = {
    "The inputs given to jacobian must be either a Tensor or a tuple of Tensors but the given inputs has type": (
        TypeError, lambda: jacobian(cubes, 3),
    ),
    "The outputs of the user-provided function given to vjp must be either a Tensor or a tuple of Tensors but the "
    "value at index 1 has type": (TypeError, lambda: vjp(lambda x: (x, 3.0), ONE)),
    "The vector v can only be None if the user-provided function returns a single Tensor with a single element.": (
        RuntimeError, lambda: vjp(torch.exp, ONE),
    ),
    "The vector v can only be None if the input to the user-provided function is a single Tensor with a single "
    "element.": (RuntimeError, lambda: jvp(torch.exp, ONE)),
    "v is a tuple of invalid length: should be 2 but got 1.": (RuntimeError, lambda: jvp(torch.add, TWO, ONE)),
    "The given v should contain a single Tensor.": (RuntimeError, lambda: vjp(torch.exp, ONE, TWO)),
    "v has invalid size: should be": (RuntimeError, lambda: vhp(cubes, ONE, tensor([1.0]))),
    "Entry 1 in v has invalid size: should be": (RuntimeError, lambda: jvp(torch.add, TWO, (ONE, tensor([1.0])))),
    "The function given to hessian should return a single Tensor": (
        RuntimeError, lambda: hessian(lambda x: (x.sum(),), ONE),
    ),
    "The Tensor returned by the function given to hvp should contain a single element": (
        RuntimeError, lambda: hvp(torch.exp, ONE, ONE),
    ),
    "Output 0 of the user-provided function is independent of input 1. This is not allowed in strict mode.": (
        RuntimeError, lambda: jacobian(lambda x, y: x * 2, TWO, strict=True),
    ),
    "Output 0 of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.": (
        RuntimeError, lambda: vjp(lambda x: tensor([1.0], False), ONE, tensor([1.0]), strict=True),
    ),
    "The output of the user-provided function is independent of input 1. This is not allowed in strict mode.": (
        RuntimeError, lambda: vjp(lambda x, y: cubes(x), TWO, strict=True),
    ),
    "The jacobian of the user-provided function is independent of input 0. This is not allowed in strict mode when "
    "create_graph=True.": (RuntimeError, lambda: jacobian(lambda x: 2 * x, ONE, strict=True, create_graph=True)),
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input 0 is "
    "independent of the input.": (RuntimeError, lambda: vhp(lambda x: x.sum(), ONE, ONE, strict=True)),
    'Expected strategy to be either "forward-mode" or "reverse-mode".': (
        AssertionError, lambda: jacobian(torch.exp, ONE, strategy="sideways"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_messages(message):
    kind, call = MESSAGES[message]
    with raises(kind, message):
        call()


# ---- against PyTorch ---------------------------------------------------------------------------------------------

FUNCTIONS = {
    "elementwise": lambda x: x.exp(),
    "scalar": lambda x: (x * x * x).sum(),
    "linear": lambda x: 2 * x,
    "linear scalar": lambda x: x.sum(),
    "tuple": lambda x: (x * x, x.sum()),
    "one element": lambda x: (x * x).sum().reshape(1),
    "two inputs": lambda x, y: x * y.sum(),
    "two and two": lambda x, y: (x * y.sum(), (x * y).sum()),
    "one of two": lambda x, y: (x * x * x).sum(),
}
INPUTS = {
    "tensor": lambda t: t([1.0, 2.0]),
    "tuple of one": lambda t: (t([1.0, 2.0]),),
    "pair": lambda t: (t([1.0, 2.0]), t([3.0, 0.5])),
    "number": lambda t: t(2.0),
}
VECTORS = {
    "none": lambda t: None,
    "one": lambda t: t([1.0, -2.0]),
    "two": lambda t: (t([1.0, -2.0]), t([0.5, 0.25])),
    "number": lambda t: t(1.5),
    "mixed": lambda t: (t([1.0, -2.0]), t(2.0)),
}


def outcome(module: Any, name: str, func: str, inputs: str, vector: str, options: dict[str, bool], grad: bool) -> Any:
    def make(values: Any) -> Any:
        return module.tensor(values, dtype=module.float64, requires_grad=grad)

    arguments = [FUNCTIONS[func], INPUTS[inputs](make)]
    if name not in ("jacobian", "hessian"):
        arguments.append(VECTORS[vector](make))
    try:
        found = getattr(module.autograd.functional, name)(*arguments, **options)
    except TypeError:
        return "TypeError"
    except RuntimeError as error:
        return str(error).replace("torch.Size", "Size")
    return described(found)


def described(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(described(t) for t in found)
    return tuple(found.shape), np.round(np.array(found.detach().tolist()), 10).tolist(), found.requires_grad


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
def test_everything_is_as_in_pytorch(name):
    oracle = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")
    vectors = ["none"] if name in ("jacobian", "hessian") else list(VECTORS)
    for create_graph, strict, grad in itertools.product([False, True], repeat=3):
        options = {"create_graph": create_graph, "strict": strict}
        for func, inputs, vector in itertools.product(FUNCTIONS, INPUTS, vectors):
            case = name, func, inputs, vector, options, grad
            assert outcome(torch, *case) == outcome(oracle, *case), case


def test_functional_takes_arrays_of_numpy_code():
    """Structures are those of tensors; the code may be any that has gradients."""

    def f(x, y):
        out = np.zeros(2)
        for k in range(2):
            out[k] = x[k] * y[k]
        return out

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    by_x, by_y = jacobian(f, (x, y))
    assert type(by_x) is np.ndarray and (by_x.tolist(), by_y.tolist()) == ([[3, 0], [0, 4]], [[1, 0], [0, 2]])
    assert jacobian(lambda x: f(x, y), x).tolist() == [[3, 0], [0, 4]]
    (dp_x, _), (ds_x, ds_y) = jacobian(lambda x, y: (f(x, y), x + y), (x, y))
    assert dp_x.tolist() == [[3, 0], [0, 4]] and ds_x.tolist() == ds_y.tolist() == [[1, 0], [0, 1]]
    (xx, xy), (_, yy) = hessian(lambda x, y: np.sum(f(x, y) * x), (x, y))
    assert (xx.tolist(), xy.tolist(), yy.tolist()) == ([[6, 0], [0, 8]], [[2, 0], [0, 4]], [[0, 0], [0, 0]])
    with pytest.raises(TypeError, match="must be either a Tensor"):
        jacobian(f, (x, tensor([1.0, 2.0])))
