"""``autograd.Function``: operations with a backward of the user's own, on tensors and in functions of NumPy code.

The same definitions (``functions``) run on the tape, in ``compile_grad``, and in PyTorch where it is installed; value,
first and second derivatives have to be the same, also where backward is deliberately not the derivative.
"""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from custom_functions import functions
from selection import some

import tracegrad as torch
from tracegrad import compile_grad
from tracegrad.autograd.function import FunctionCtx, once_differentiable

X = [0.7, 1.3, 2.1]


def tensor(values: Any, requires_grad: bool = True) -> Any:
    return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)


def function(forward: Any, backward: Any = None, **more: Any) -> Any:
    """A Function called MyFn."""
    methods = {"forward": forward, **more} | ({} if backward is None else {"backward": backward})
    return type("MyFn", (torch.autograd.Function,), {name: staticmethod(f) for name, f in methods.items()})


def raises(kind: type[Exception], text: str) -> Any:
    """``pytest.raises`` for a message that begins with *text*."""
    return pytest.raises(kind, match=f"^{re.escape(text)}")


def gradients(apply: Any, *args: Any) -> Any:
    """The gradients of the sum of the first result."""
    out = apply(*args)
    out = out[0] if isinstance(out, tuple) else out
    wanted = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    return torch.autograd.grad(out.sum(), wanted, allow_unused=True)


ON_TAPE = functions(torch, lambda x: x.sin(), lambda x: x.cos())
IN_NUMPY = functions(torch, np.sin, np.cos)
LOSSES = pytest.mark.parametrize("name", ON_TAPE)


def derivatives(module: Any, loss: Any, x: Any) -> list[Any]:
    """Value, gradient, and the gradient of the sum of the gradient (as far as it depends on x)."""
    value = loss(x)
    (first,) = module.autograd.grad(value, x, create_graph=True)
    results = [value, first]
    if first.requires_grad:
        results += module.autograd.grad(first.sum(), x, allow_unused=True)
    return [np.asarray(r.detach().tolist()) for r in results if r is not None]


def assert_all_close(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


# ---- the same in three ways --------------------------------------------------------------------------------------


@LOSSES
def test_derivatives_are_pytorchs(name):
    oracle = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")
    before = oracle.get_default_dtype()
    oracle.set_default_dtype(oracle.float64)
    try:
        loss = functions(oracle, oracle.sin, oracle.cos)[name]
        expected = derivatives(oracle, loss, oracle.tensor(X).requires_grad_())
    finally:
        oracle.set_default_dtype(before)
    found = derivatives(torch, ON_TAPE[name], tensor(X))
    assert len(found) >= len(expected)
    assert_all_close(found, expected)


@LOSSES
def test_backward_runs_as_grad_does(name):
    expected = derivatives(torch, ON_TAPE[name], tensor(X))[1]
    x = tensor(X)
    for _ in range(3):
        x.grad = None
        ON_TAPE[name](x).backward()
        assert_all_close([x.grad.numpy()], [expected])


@LOSSES
def test_in_compiled_functions(name):
    """Also replayed, and the second derivative."""
    expected = derivatives(torch, ON_TAPE[name], tensor(X))
    loss = compile_grad(IN_NUMPY[name])
    second = compile_grad(lambda x: np.sum(loss.grad(x)))
    x = np.array(X)
    for _ in range(3):
        assert_all_close([loss(x), loss.grad(x), second.grad(x)], expected)
        assert_all_close(loss.value_and_grad(x), expected)
    assert not loss.stats.live
    traces = loss.stats.traces
    loss.grad(x + 0.01)
    assert loss.stats.traces == traces


@LOSSES
def test_in_compiled_functions_of_tensors(name):
    expected = derivatives(torch, ON_TAPE[name], tensor(X))
    loss = compile_grad(ON_TAPE[name])
    x = tensor(X)
    for _ in range(3):
        x.grad = None
        value = loss(x)
        value.backward()
        assert_all_close([value.item(), x.grad.numpy()], expected)
    assert not loss.stats.live


# ---- the tape ----------------------------------------------------------------------------------------------------


def saves_input(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def twice_input(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return 2 * x * g


def test_what_the_result_shows():
    MyFn = function(saves_input, twice_input)
    x = tensor([3.0])
    y = MyFn.apply(x)
    assert y.grad_fn.name() == "MyFnBackward" and type(y.grad_fn).__name__ == "MyFnBackward"
    assert y.requires_grad and not y.is_leaf
    assert str(y) == "tensor([9.], grad_fn=<MyFnBackward>)"
    assert y.grad_fn.next_functions[0][0].variable is x
    assert y.grad_fn.saved_tensors[0] is x


def test_attributes_of_the_ctx_are_the_nodes_too():
    seen = []

    def forward(ctx, x, power):
        assert isinstance(ctx, FunctionCtx)
        ctx.inputs, ctx.name, ctx.power = "my own", "names", power
        seen.append(ctx.needs_input_grad)
        return x**power

    y = function(forward, lambda ctx, g: (g * ctx.power, None)).apply(tensor([2.0]), 3)
    assert y.grad_fn.power == 3 and seen == [(True, False)]
    with pytest.raises(AttributeError):
        y.grad_fn.nothing  # noqa: B018
    assert gradients(function(forward, lambda ctx, g: (g * ctx.power, None)).apply, tensor([2.0]), 3)[0].item() == 3


def test_forward_is_not_recorded_and_backward_only_with_create_graph():
    modes = []

    def forward(ctx, x):
        modes.append((torch.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad))
        return x * 2

    def backward(ctx, g):
        modes.append(torch.is_grad_enabled())
        return g * 2

    MyFn, x = function(forward, backward), tensor([1.0])
    MyFn.apply(x).sum().backward()
    torch.autograd.grad(MyFn.apply(x), x, create_graph=True)
    assert modes == [(False, True, False), False, (False, True, False), True]


def test_nothing_is_recorded_where_nothing_requires_gradients():
    MyFn = function(saves_input, twice_input)
    assert MyFn.apply(tensor([1.0], False)).grad_fn is None
    with torch.no_grad():
        assert MyFn.apply(tensor([1.0])).grad_fn is None


def test_results_that_are_no_tensors():
    def forward(ctx, x):
        return x * 2, None, 3

    def backward(ctx, g, nothing, three):
        assert nothing is None and three is None
        return g * 2

    MyFn, x = function(forward, backward), tensor([1.0])
    y, nothing, three = MyFn.apply(x)
    assert nothing is None and three == 3
    assert torch.autograd.grad(y, x)[0].tolist() == [2.0]
    assert function(lambda ctx, x: None, backward).apply(x) is None


@pytest.mark.parametrize("value", [3.0, [1.0], np.ones(2)], ids=lambda v: type(v).__name__)
def test_a_result_that_would_lose_its_gradient(value):
    MyFn = function(lambda ctx, x: value)
    with raises(TypeError, f"MyFn.forward: expected a Tensor or a tuple with Tensors (got {type(value).__name__})"):
        MyFn.apply(tensor([1.0]))
    assert MyFn.apply(tensor([1.0], False)) is value


def test_integer_results_have_no_gradient():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.max(), x.argmax()

    def backward(ctx, g, nothing):
        assert nothing.dtype == torch.int64
        (x,) = ctx.saved_tensors
        return g * (x == x.max())

    x = tensor(X)
    top, at = function(forward, backward).apply(x)
    assert top.requires_grad and not at.requires_grad and at.item() == 2
    top.backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


def test_an_argument_returned_is_a_tensor_of_its_own():
    MyFn = function(lambda ctx, x: x, lambda ctx, g: 3 * g)
    for x in (tensor(X), tensor(X, False)):
        y = MyFn.apply(x)
        assert y is not x and (y.grad_fn is not None) == x.requires_grad
    assert x.grad_fn is None


def test_views_and_doubles_returned():
    Row = function(lambda ctx, x: (x * 2)[1], lambda ctx, g: torch.stack([0 * g, 2 * g, 0 * g]))
    assert gradients(Row.apply, tensor(X))[0].tolist() == [0.0, 2.0, 0.0]

    def twice(ctx, x):
        y = x * 2
        return y, y

    a, b = function(twice, lambda ctx, g, h: 2 * g + 20 * h).apply(x := tensor([1.0]))
    assert torch.autograd.grad(a + 3 * b, x)[0].item() == 62.0


def test_a_view_returned_is_no_part_of_the_tape_after_writes():
    Row = function(lambda ctx, x: x.reshape(3), lambda ctx, g: g.reshape(3, 1))
    x = tensor([[1.0], [2.0], [3.0]])
    y = Row.apply(x)
    assert y.grad_fn.name() == "MyFnBackward"
    with torch.no_grad():
        x.zero_()
    with pytest.raises(RuntimeError, match="Output 0 of MyFn is a view and its base or another view of its base has"):
        _ = y.grad_fn
    with torch.no_grad():
        assert y.detach().tolist() == [0.0, 0.0, 0.0]


def test_gradients_of_other_dtypes_and_shapes_are_fitted():
    x = torch.tensor([1.0, 2.0], dtype=torch.float32, requires_grad=True)
    (g,) = gradients(function(lambda ctx, x: x * 2, lambda ctx, g: torch.ones(3, 2, dtype=torch.float64)).apply, x)
    assert g.dtype == torch.float32 and g.tolist() == [3.0, 3.0]


def test_a_gradient_that_is_a_saved_tensor_is_no_alias():
    x = tensor([2.0])
    MyFn = function(saves_input, lambda ctx, g: ctx.saved_tensors[0])
    MyFn.apply(x).backward()
    MyFn.apply(x).backward()
    assert x.item() == 2.0 and x.grad.item() == 4.0 and not x.grad.requires_grad


def test_vjp_is_another_name_for_backward():
    assert gradients(function(lambda ctx, x: x * 2, vjp=lambda ctx, g: 5 * g).apply, tensor([1.0]))[0].item() == 5.0
    both = function(lambda ctx, x: x * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with raises(RuntimeError, "Implementing both 'backward' and 'vjp' for a custom Function is not"):
        gradients(both.apply, tensor([1.0]))


# ---- messages ----------------------------------------------------------------------------------------------------


def double(ctx: Any, *args: Any) -> Any:
    return args[0] * 2


WRONG_GRADIENTS = {
    "function MyFnBackward returned an incorrect number of gradients (expected 2, got 1)": (
        lambda ctx, g: g, [tensor([1.0, 2.0]), tensor([1.0, 2.0])],
    ),
    "function MyFnBackward returned an incorrect number of gradients (expected 1, got 2)": (
        lambda ctx, g: (g, g), [tensor([1.0, 2.0])],
    ),
    "function MyFnBackward returned a gradient different than None at position 2, but the corresponding forward input "
    "was not a Variable": (lambda ctx, g: (g, g), [tensor([1.0, 2.0]), 3]),
    "Function MyFnBackward returned an invalid gradient at index 0 - got [3] but expected shape compatible with [2]": (
        lambda ctx, g: torch.ones(3), [tensor([1.0, 2.0])],
    ),
    "Function MyFnBackward returned an invalid gradient at index 1 - got [] but expected shape compatible with [2]": (
        lambda ctx, g: (None, None, g.sum()), [tensor([1.0, 2.0]), 3, tensor([1.0, 2.0])],
    ),
    "expected Variable or None (got float)": (lambda ctx, g: 3.0, [tensor([1.0, 2.0])]),
    "expected Variable or None (got list)": (lambda ctx, g: [g], [tensor([1.0, 2.0])]),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG_GRADIENTS)
def test_wrong_gradients(message):
    backward, args = WRONG_GRADIENTS[message]
    with raises(RuntimeError, message):
        gradients(function(double, backward).apply, *args)


def test_further_gradients_may_be_none():
    assert gradients(function(double, lambda ctx, g: (g, None, None)).apply, tensor([1.0]))[0].item() == 1.0


def test_what_is_missing():
    Empty = type("Empty", (torch.autograd.Function,), {})
    with raises(NotImplementedError, "You must implement the forward function for custom"):
        Empty.apply(tensor([1.0]))
    with raises(NotImplementedError, "You must implement either the backward or vjp method for your"):
        gradients(function(double).apply, tensor([1.0]))
    with raises(RuntimeError, "Legacy autograd function with non-static forward method is deprecated"):
        function(double)()(tensor([1.0]))


def test_only_tensors_can_be_saved():
    def forward(ctx, x):
        ctx.save_for_backward(x, 3)
        return x

    with raises(TypeError, "save_for_backward can only save variables, but argument 1 is of type int"):
        function(forward, double).apply(tensor([1.0]))


# ---- freeing, and writes -----------------------------------------------------------------------------------------


def test_a_second_backward():
    y = function(saves_input, twice_input).apply(x := tensor([1.0]))
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 4.0
    for again in (y.backward, lambda: y.grad_fn.saved_tensors):
        with raises(RuntimeError, "Trying to backward through the graph a second time"):
            again()


def test_a_second_backward_where_nothing_was_saved():
    y = function(double, lambda ctx, g: 2 * g).apply(x := tensor([1.0]))
    y.backward()
    y.backward()
    assert x.grad.item() == 4.0


@pytest.mark.parametrize("create_graph", some([True, False], quick=1))
def test_the_graph_has_no_cycles(create_graph):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y, y * 2)
        return y

    y = function(forward, lambda ctx, g: g * ctx.saved_tensors[1]).apply(x := tensor([1.0]))
    node = weakref.ref(y.grad_fn)
    (g,) = torch.autograd.grad(y, x, create_graph=create_graph)
    gc.collect()
    gc.disable()
    try:
        del y, g
        assert node() is None
    finally:
        gc.enable()


def test_saved_tensors_that_were_written():
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    backward = lambda ctx, g: g * ctx.saved_tensors[1]  # noqa: E731
    inplace = "^one of the variables needed for gradient computation has been modified by an inplace operation: "
    y = function(forward, backward).apply(tensor(X))
    y.add_(1)
    with pytest.raises(RuntimeError, match=inplace + r".*which is output 0 of MyFnBackward, is at version 1; expected"):
        y.sum().backward()
    x = tensor(X)
    y = function(forward, backward).apply(x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match=inplace + r".* is at version 1; expected version 0 instead"):
        y.sum().backward()


def test_inference_tensors_cannot_be_saved():
    with torch.inference_mode():
        weight = torch.ones(3)

    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    with raises(RuntimeError, "Inference tensors cannot be saved for backward"):
        function(forward, double).apply(tensor(X), weight)


def test_mark_dirty():
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    AddOne = function(forward, lambda ctx, g: 5 * g)
    x = tensor([1.0])
    y = x * 2
    assert AddOne.apply(y) is y and y.item() == 3.0 and y.grad_fn.name() == "MyFnBackward"
    y.backward()
    assert x.grad.item() == 10.0
    with raises(RuntimeError, "a leaf Variable that requires grad has been used in an in-place operation"):
        AddOne.apply(tensor([1.0]))
    with raises(NotImplementedError, "mark_dirty() of a view is not supported: write into a copy"):
        AddOne.apply((tensor([1.0, 2.0]) * 2)[:1])
    with raises(RuntimeError, "Some elements marked as dirty during the forward method were not returned"):
        function(lambda ctx, x: (ctx.mark_dirty(x), x * 2)[1], double).apply(tensor([1.0]))


# ---- derivatives of derivatives ----------------------------------------------------------------------------------


def test_third_derivatives():
    Square = function(saves_input, twice_input)
    x = tensor(2.0)
    value = Square.apply(x) * x
    for expected in (12.0, 12.0, 6.0):
        (value,) = torch.autograd.grad(value, x, create_graph=True)
        assert value.item() == expected


ONCE = "trying to differentiate twice a function that was marked with @once_differentiable"


def test_once_differentiable():
    Once = function(saves_input, once_differentiable(twice_input))
    x = tensor([3.0])
    assert gradients(Once.apply, x)[0].item() == 6.0
    y = Once.apply(x)
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    assert g.item() == 108.0
    with raises(RuntimeError, ONCE):
        g.backward()
    with raises(RuntimeError, ONCE):
        torch.autograd.grad(g, x)


def test_once_differentiable_in_compiled_functions():
    Once = function(saves_input, once_differentiable(twice_input))
    loss = compile_grad(lambda x: np.sum(Once.apply(x)))
    assert loss.grad(np.array([3.0])).tolist() == [6.0]
    with raises(RuntimeError, ONCE):
        torch.autograd.grad(lambda x: np.sum(loss.grad(x)))(np.array([3.0]))


# ---- compiled functions of NumPy code ----------------------------------------------------------------------------

SCALE = 2.0
WEIGHTS = np.array([1.0, 2.0, 3.0])


def helper(g: Any) -> Any:
    return g * SCALE


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return helper(g) * w, None


scaled = Scaled.apply


def test_outside_state_of_a_backward(monkeypatch):
    f = compile_grad(lambda x: np.sum(scaled(x, WEIGHTS)))
    x = np.ones(3)
    for _ in range(3):
        assert f.grad(x).tolist() == [2.0, 4.0, 6.0]
    traces = f.stats.traces
    WEIGHTS[:] += 1
    try:
        assert f.grad(x).tolist() == [4.0, 6.0, 8.0] and f.stats.traces == traces
    finally:
        WEIGHTS[:] -= 1
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert f.grad(x).tolist() == [10.0, 20.0, 30.0] and f.stats.traces > traces
    assert not f.stats.live


def test_a_branch_in_a_backward():
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.tensor([1.0, 2.0, 3.0]) if x.sum() > 0 else -g

    MyFn = function(saves_input, backward)
    f = compile_grad(lambda x: np.sum(MyFn.apply(x)))
    for _ in range(3):
        assert f.grad(np.ones(3)).tolist() == [1.0, 2.0, 3.0]
        assert f.grad(-np.ones(3)).tolist() == [-1.0, -1.0, -1.0]
    assert not f.stats.live and f.stats.traces == 2


@pytest.mark.parametrize("draw", [np.random.rand, lambda: float(torch.rand(1))])
def test_a_backward_that_draws_random_numbers_is_not_replayed(draw):
    MyFn = function(double, lambda ctx, g: g * draw())
    f = compile_grad(lambda x: np.sum(MyFn.apply(x)))
    assert len({float(f.grad(np.ones(1))[0]) for _ in range(4)}) == 4
    assert "draws random numbers" in f.stats.live


def test_several_results_share_one_backward():
    calls = []

    def backward(ctx, *gs):
        calls.append(len(gs))
        return gs[0] * 2 + gs[1] * 3

    MyFn = function(lambda ctx, x: (x * 2, x * 3), backward)
    grad = torch.autograd.grad(lambda x: np.sum(MyFn.apply(x)[0] * MyFn.apply(x)[1]))
    x = np.array([1.0, 2.0])
    assert grad(x).tolist() == [12.0, 24.0]
    assert calls[:2] == [2, 2]  # one for each apply


def test_kernels_are_shared():
    """The rule is no part of the signature."""

    def make() -> Any:
        MyFn = function(saves_input, twice_input)
        return compile_grad(lambda x: np.sum(MyFn.apply(np.sin(x)) * 17.25))

    first, second = make(), make()
    x = np.array([0.5, 0.25, 0.125])
    assert first.grad(x).tolist() == second.grad(x).tolist()
    assert second.stats.compiles == 0


def test_float32_scalars_and_python_floats():
    MyFn = function(saves_input, twice_input)
    f = compile_grad(lambda x: MyFn.apply(x))
    assert f.value_and_grad(3.0) == (9.0, 6.0)
    value, gradient = f.value_and_grad(np.float32(3.0))
    assert value.dtype == gradient.dtype == np.float32 and gradient == 6.0


def test_what_compiled_functions_refuse():
    def dirty(ctx, x):
        ctx.mark_dirty(x)
        return x

    with raises(NotImplementedError, "mark_dirty() is not supported in a compiled function"):
        compile_grad(lambda x: np.sum(function(dirty, double).apply(x))).grad(np.ones(2))
    with raises(RuntimeError, "function MyFnBackward returned an incorrect number of gradients (expected 1, got 2)"):
        compile_grad(lambda x: np.sum(function(double, lambda ctx, g: (g, g)).apply(x))).grad(np.ones(2))


def test_in_a_compiled_step():
    MyFn = function(saves_input, lambda ctx, g: 20 * ctx.saved_tensors[0] * g)

    def run(compiled: bool) -> list[float]:
        w = tensor([1.0, -2.0])
        optimizer = torch.optim.SGD([w], lr=0.01)

        def step(x):
            optimizer.zero_grad()
            loss = MyFn.apply(w * x).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = torch.compile(step) if compiled else step
        return [step(tensor([1.0, 2.0], False)).item() for _ in range(5)]

    np.testing.assert_allclose(run(True), run(False), rtol=1e-12)


# ---- anomaly detection -------------------------------------------------------------------------------------------


def test_detect_anomaly_names_the_function_and_the_line():
    x = tensor([-1.0, 4.0])
    with pytest.raises(RuntimeError) as error, torch.autograd.detect_anomaly():
        y = torch.sqrt(x)  # here
        y.sum().backward()
    lines = str(error.value).splitlines()
    assert lines[0] == "Function 'SqrtBackward0' returned nan values in its 0th output."
    source = Path(__file__).read_text().splitlines()
    line = next(k for k, text in enumerate(source, 1) if text.strip() == "y = torch.sqrt(x)  # here")
    assert f'File "{__file__}", line {line}, in test_detect_anomaly_names_the_function_and_the_line' in lines[1]
    torch.sqrt(x).sum().backward()
    assert np.isnan(x.grad.numpy()).tolist() == [True, False]


def test_detect_anomaly_in_a_custom_function():
    MyFn = function(lambda ctx, x, y: x * y, lambda ctx, g: (g, g * float("nan")))
    message = "Function 'MyFnBackward' returned nan values in its 1th output."
    with torch.autograd.set_detect_anomaly(True):
        out = MyFn.apply(tensor([1.0]), tensor([2.0]))
        with raises(RuntimeError, message):
            out.backward()
    with torch.autograd.detect_anomaly(check_nan=False):
        MyFn.apply(tensor([1.0]), x := tensor([2.0])).backward()
    assert np.isnan(x.grad.item())
