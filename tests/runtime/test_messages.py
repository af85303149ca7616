"""Arguments and attributes of other libraries, classes and lists: what is found, and what to write, in the message."""

import dataclasses

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import autograd, compile_grad

X = np.array([1.0, 2.0, 3.0])


def loss(x, n=2):
    return np.sum(x**n)


class Model:
    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return np.sum(self.w * x)


class Plain:
    pass


@dataclasses.dataclass
class Weights:
    w: float

    def __call__(self, x):
        return np.sum(self.w * x)


TAKERS = {
    "compile_grad": compile_grad, "compile": tg.compile, "grad": autograd.grad, "vmap": tg.vmap,
    "value_and_grad": autograd.value_and_grad, "jacobian": autograd.jacobian, "hessian": autograd.hessian,
    "jacfwd": autograd.jacfwd, "jacrev": autograd.jacrev, "elementwise_grad": autograd.elementwise_grad,
    "hvp": autograd.hvp, "checkpoint": tg.checkpoint, "custom_vjp": tg.custom_vjp, "custom_jvp": tg.custom_jvp,
}  # fmt: skip


@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.parametrize("cls", [Model, Plain, Weights, dict, np.ndarray], ids=lambda c: c.__name__)
def test_a_class_is_no_function(name, cls):
    with pytest.raises(TypeError, match=rf"{name} needs a function, not the class {cls.__name__}: ") as found:
        TAKERS[name](cls)
    assert ("pass an object of it" in str(found.value)) == (cls in (Model, Weights))
    with pytest.raises(TypeError, match="needs a function, not int"):
        compile_grad(3)


def test_an_object_that_is_called_is_one():
    for model in (Model(2.0), Weights(2.0)):
        assert np.allclose(compile_grad(model).grad(X), 2) and np.allclose(autograd.grad(model)(X), 2)
        assert np.allclose(tg.vmap(model)(np.stack([X, X])), 12)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: compile_grad(loss, static_argnums=1), "`static_argnums`: name the settings: static_argnames=('n',)"),
        (
            lambda: compile_grad(static_argnums=(1,))(loss),
            "`static_argnums`: name the settings: static_argnames=('n',)",
        ),
        (lambda: compile_grad(loss, argnum=0), "compile_grad has no argument `argnum`: write argnums=0"),
        (lambda: compile_grad(loss, backend="gpu"), '`backend`: write target="cpu", "cuda" or "auto"'),
        (lambda: compile_grad(loss, nopython=True), "`nopython`: leave it out"),
        (lambda: compile_grad(loss, colour="red"), "compile_grad has no argument `colour`"),
        (lambda: autograd.grad(loss, argnum=0), "grad has no argument `argnum`: write argnums=0"),
        (lambda: autograd.value_and_grad(loss, wrt=0), "value_and_grad has no argument `wrt`: write argnums=0"),
        (lambda: autograd.jacobian(loss, argnum=0), "jacobian has no argument `argnum`"),
        (lambda: autograd.hessian(loss, argnum=0), "hessian has no argument `argnum`"),
        (lambda: autograd.elementwise_grad(loss, argnum=0), "elementwise_grad has no argument `argnum`"),
        (lambda: tg.vmap(loss, in_dims=0), "vmap has no argument `in_dims`: write in_axes=0"),
    ],
)
def test_arguments_of_other_libraries(call, words):
    with pytest.raises(TypeError) as found:
        call()
    assert words in str(found.value)


@pytest.mark.parametrize(
    "name, words",
    [
        ("gradient", "write f.grad(...)"), ("backward", "write f.grad(...)"), ("jac", "write f.jacobian(...)"),
        ("hess", "write f.hessian(...)"), ("value_and_gradient", "write f.value_and_grad(...)"),
        ("forward", "write f(...)"),
    ],
)  # fmt: skip
def test_names_of_other_libraries(name, words):
    class Holder:
        @compile_grad
        def loss(self, x):
            return np.sum(x)

    for f in (compile_grad(loss), Holder().loss):
        with pytest.raises(AttributeError) as found:
            getattr(f, name)
        assert repr(name) in str(found.value) and words in str(found.value)
        assert not hasattr(f, name)
    assert name not in dir(compile_grad(loss))


@pytest.mark.parametrize("name", ["at", "detach", "numpy", "backward", "unsqueeze", "permute", "block_until_ready"])
def test_attributes_of_other_arrays(name):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as found:
        compile_grad(lambda x: np.sum(getattr(x, name)))(X)
    assert 'File "' in str(found.value)
    assert not compile_grad(lambda x: hasattr(x, name))(X)


@pytest.mark.parametrize(
    "f",
    [
        lambda w: w @ w, lambda w: np.sum(w**2), lambda w: np.sum(2.0 * w), lambda w: w.sum(), lambda w: -w,
        lambda w: np.sum(w - 1), lambda w: w.shape[0],
    ],
)  # fmt: skip
@pytest.mark.parametrize("numbers", [[1.0, 2.0], (1.0, 2.0), [[1.0, 2.0], [3.0, 4.0]]], ids=str)
def test_lists_of_numbers(f, numbers):
    for call in (compile_grad(f).grad, compile_grad(f)):
        with pytest.raises((TypeError, AttributeError)) as found:
            call(numbers)
        kind = type(numbers).__name__
        assert str(found.value).endswith(f": the argument `w` is a {kind}; pass np.array(w)")


def test_errors_of_the_users_own_stay_as_they_are():
    def f(w):
        if isinstance(w, list):
            raise TypeError("a 'list' is not for me")
        return np.sum(w)

    with pytest.raises(TypeError) as found:
        compile_grad(f)([1.0])
    assert found.value.args == ("a 'list' is not for me",)


class Held:
    def __init__(self, value):
        self.value = value


class HeldInSlots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize("cls", [Held, HeldInSlots])
@pytest.mark.parametrize("within", [lambda x: x, lambda x: (1.0, x), lambda x: {"a": [x]}])
def test_results_that_are_objects_have_no_tangents(cls, within):
    def f(x):
        return within(cls(x * 2))

    for call in (lambda: autograd.jvp(f, (np.ones(3),), (np.ones(3),)), lambda: autograd.linearize(f, np.ones(3))):
        with pytest.raises(tg.DifferentiationError, match=f"returned an object of {cls.__name__}, which holds values"):
            call()

    def loss(x):
        tg.checkpoint(f)(x)
        return np.sum(x)

    with pytest.raises(tg.UnsupportedError, match=f"checkpoint of f returned an object of {cls.__name__}"):
        compile_grad(loss).grad(np.ones(3))
