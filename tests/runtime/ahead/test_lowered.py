"""``f.lower(*specs).compile()``: f's results without its Python, for one kind of call."""

from __future__ import annotations

import numpy as np
import pytest
from ahead_programs import COMPILED, PROGRAMS

from tracegrad import DifferentiationError, ShapeDtypeStruct, UnsupportedError, compile_grad

RUNS = []


@compile_grad
def network(p, X, *, power):
    z = np.tanh(X @ p["w"] + p["b"])
    return np.mean(z**power), {"z": z, "power": power, "all": [z[0], None]}


W = {"w": np.linspace(-1, 1, 3), "b": 0.5}
X = np.arange(12.0).reshape(4, 3)


def same(one, other):
    """Whether two trees of results are the same, bits and types."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name):
    f, args = COMPILED[name], PROGRAMS[name][1]
    specs = [ShapeDtypeStruct(a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in args]
    compiled = f.lower(*(args if name in ("branch", "until", "picked") else specs)).compile()
    assert same(compiled(*args), f(*args))
    assert same(compiled.value_and_grad(*args), f.value_and_grad(*args))
    assert same(compiled.grad(*args), f.grad(*args))


def test_trees_settings_and_auxiliary_results():
    f = compile_grad(network.__wrapped__, has_aux=True)
    compiled = f.lower(W, X, power=2).compile()
    assert same(compiled.value_and_grad(W, X, power=2), f.value_and_grad(W, X, power=2))
    assert same(compiled.grad(W, X, power=2), f.grad(W, X, power=2))


def test_several_arguments():
    f = compile_grad(lambda a, b: np.sum(a * b), argnums=(0, 1))
    compiled = f.lower(np.ones(3), np.ones(3)).compile()
    assert same(compiled.value_and_grad(np.arange(3.0), np.ones(3)), f.value_and_grad(np.arange(3.0), np.ones(3)))


class Model:
    def __init__(self, scale):
        self.scale = np.array(scale)

    @compile_grad
    def loss(self, x):
        return np.sum(self.scale * x**2)


@compile_grad
def of_model(x, model):
    return np.sum(model.scale * x)


def test_both_arms_of_an_if_are_in_the_program():
    (x,), other = PROGRAMS["arms"][1], np.linspace(-9, 9, 12)
    f = COMPILED["arms"]
    for spec in (x, ShapeDtypeStruct(x.shape, x.dtype)):
        compiled = f.lower(spec).compile()
        assert same(compiled.value_and_grad(other), f.value_and_grad(other))
        assert compiled.call("value").graph.guards == []


def test_methods_and_objects_are_as_they_were():
    model, x = Model([1.0, 2.0]), np.ones(2)
    method, function = model.loss.lower(x).compile(), of_model.lower(x, model).compile()
    expected = model.loss.value_and_grad(x), of_model(x, model)
    model.scale[:] = 7.0
    assert same((method.value_and_grad(x), function(x, model)), expected)
    with pytest.raises(TypeError, match="not the object"):
        function(x, Model([1.0, 2.0]))


def test_floating_point_errors():
    def divided(x, how):
        with np.errstate(divide=how):
            return np.sum(np.where(x > 0, np.log(x), 0.0))

    assert compile_grad(divided).lower(np.ones(2), "ignore").compile()(np.zeros(2), "ignore") == 0.0
    with pytest.raises(UnsupportedError, match="floating-point errors"):
        compile_grad(divided).lower(np.ones(2), "raise")


def test_arrays_that_numpy_makes_of_the_outside_state():
    import scipy.sparse

    matrix = scipy.sparse.eye_array(3, format="csr") * 2.0

    @compile_grad
    def form(x):
        return x @ (matrix @ x)

    x = np.arange(3.0)
    assert same(form.lower(x).compile().value_and_grad(x), form.value_and_grad(x))


def test_its_python_does_not_run():
    @compile_grad
    def counted(x):
        return np.sum(x * x) if RUNS else np.sum(x)

    compiled = counted.lower(np.ones(2)).compile()
    RUNS.append(1)
    assert compiled(np.full(2, 3.0)) == 6.0
    RUNS.clear()


def test_without_a_gradient():
    compiled = compile_grad(lambda x: x * 2).lower(np.ones(3)).compile()
    assert same(compiled(np.ones(3)), np.full(3, 2.0))
    with pytest.raises(DifferentiationError):
        compiled.grad(np.ones(3))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((W, X[:2]), "`X` is an array of float64 and shape"),
        ((W, X.astype(np.float32)), "not an array of float32"),
        ((W, list(X)), "not a list"),
        (({"w": W["w"]}, X), "a dict with the keys"),
        (({"w": W["w"], "b": 1}, X), "`p\\['b'\\]` is a float here"),
        ((W,), "a tuple of 2"),
        ((W, X.view(np.matrix)), "`X` is an array"),
    ],
)
def test_other_arguments(args, message):
    compiled = compile_grad(network.__wrapped__, has_aux=True).lower(W, X, power=2).compile()
    with pytest.raises(TypeError, match=message):
        compiled(*args, power=2)


def test_other_settings_and_branches():
    compiled = compile_grad(network.__wrapped__, has_aux=True).lower(W, X, power=2).compile()
    with pytest.raises(TypeError, match="3 among the arguments was 2"):
        compiled(W, X, power=3)
    (x,) = PROGRAMS["branch"][1]
    with pytest.raises(UnsupportedError, match="another way through its branches") as error:
        COMPILED["branch"].lower(x).compile()(-x)
    assert "in branch" in str(error.value)
    with pytest.raises(UnsupportedError):  # at the branch: a spec has no values
        COMPILED["branch"].lower(ShapeDtypeStruct(3, np.float64))


def test_layouts():
    f = COMPILED["products"]
    A, B = PROGRAMS["products"][1]
    assert same(f.lower(A, B).compile()(A.T, B[::-1]), f(np.ascontiguousarray(A.T), np.ascontiguousarray(B[::-1])))


def test_what_there_is_to_see():
    args = PROGRAMS["logistic"][1]
    lowered = COMPILED["logistic"].lower(*args)
    assert "exp" in lowered.as_text()
    assert len(lowered.as_text("value_and_grad")) > len(lowered.as_text())
    compiled = lowered.compile()
    assert 'define i32 @"logistic"' in compiled.as_text()
    memory = compiled.memory_analysis("value_and_grad")
    assert memory.arguments == 8 * (10 + 5000 + 1)
    assert memory.results == 8 * 11
    assert memory.constants == 80
    assert memory.code > 0
    assert "X: an array of float64 and shape (500, 10)" in repr(compiled)
