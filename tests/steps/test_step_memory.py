"""Steps of which tensors share memory, tensors that they hand out, and history that they change: as eager ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracegrad as torch

pytestmark = pytest.mark.usefixtures("fresh_kernels")

Values = Callable[..., torch.Tensor]
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def trained(w: torch.Tensor, compiled: Compile) -> Callable[..., Any]:
    opt = torch.optim.SGD([w], lr=0.1)

    @compiled
    def step(x: torch.Tensor) -> Any:
        opt.zero_grad()
        loss = ((w * x) ** 2).sum()
        loss.backward()
        opt.step()
        return loss.item(), (x * 2.0).sum()

    return step


# ---- memory that arguments, parameters, gradients and the outside state share ---------------------------------------


def a_row_of_the_parameter(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3, 2).requires_grad_()
    step = trained(w, compiled)
    for k in range(8):
        yield step(w.detach()[k % 3] if k in (1, 4, 5) else draw(2)), w


def the_parameter_at_times(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()
    step = trained(w, compiled)
    for k in range(9):
        yield step(w.detach() if k in (1, 2, 3, 7) else draw(3)), w


def the_parameter_by_numpy(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()
    step = trained(w, compiled)
    for k in range(9):
        yield step(torch.from_numpy(w.detach().numpy()) if k > 5 else draw(3)), w


def an_array_of_the_parameter(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()
    step = trained(w, compiled)

    @compiled
    def from_array(x: Any) -> Any:
        return step(torch.from_numpy(x))

    for k in range(9):
        yield from_array(w.detach().numpy() if k > 5 else draw(3).numpy()), w


def two_arguments(compiled: Compile, draw: Values) -> Iterator[Any]:
    @compiled
    def step(a: torch.Tensor, b: torch.Tensor) -> Any:
        a.add_(1.0)
        b.mul_(2.0)
        return (a + b).sum()

    for k in range(9):
        x = draw(4)
        yield step(*[(x[:2], x[2:]), (x, x[:]), (x[:3], x[1:]), (x, x)][k % 4]), x


def neighbours(compiled: Compile, draw: Values) -> Iterator[Any]:
    rows = draw(9, 2)

    @compiled
    def step(before: torch.Tensor, after: torch.Tensor) -> None:
        after.copy_(torch.tanh(before))
        before.add_(1.0)

    for k in range(8):
        step(rows[k], rows[k + 1])
        yield rows


def the_gradient_as_argument(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()

    @compiled
    def step(g: torch.Tensor) -> Any:
        with torch.no_grad():
            w.sub_(0.1 * g + 0.05 * w.grad)
        w.grad.zero_()
        return g.sum()

    for k in range(10):
        (w * draw(3)).sum().backward()
        yield step(w.grad if k in (1, 2, 3, 8) else draw(3)), w


def data_that_comes_to_be_shared(compiled: Compile, draw: Values) -> Iterator[Any]:
    a, b = draw(3), draw(3)

    @compiled
    def step(x: torch.Tensor) -> Any:
        a.mul_(2.0)
        return (b * x).sum()

    for k in range(9):
        if k == 5:
            b.data = a.data
        yield step(torch.ones(3)), a, b


def state_that_comes_to_be_shared(compiled: Compile, draw: Values) -> Iterator[Any]:
    state = {"x": draw(3)}
    w = draw(3)

    @compiled
    def step() -> Any:
        w.mul_(1.5)
        return (state["x"] * 2.0).sum()

    for k in range(9):
        if k in (4, 7):
            state["x"] = w.detach() if k == 4 else w[:]
        yield step()


def a_gradient_that_is_the_parameter(compiled: Compile, draw: Values) -> Iterator[Any]:
    a, b = draw(3).requires_grad_(), draw(3).requires_grad_()

    @compiled
    def step(x: torch.Tensor) -> Any:
        (a * x).sum().backward()
        with torch.no_grad():
            b.sub_(a.grad)
        return b.sum()

    for k in range(9):
        if k in (4, 6):
            a.grad = b.detach() if k == 4 else None
        yield step(draw(3)), a.grad


def memory_that_is_stored_and_shared(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(4).requires_grad_()
    kept = {"tail": draw(2), "calls": 0}

    @compiled
    def step(x: torch.Tensor) -> Any:
        kept["tail"] = w.detach()[2:]
        kept["calls"] += 1
        x.add_(1.0)
        return (w * 2.0).sum().item()

    for k in range(7):
        yield step(w.detach()[1:3] if k % 3 else draw(2)), kept["tail"], kept["calls"], w


def views_that_are_kept(compiled: Compile, draw: Values) -> Iterator[Any]:
    w, rows = draw(6).requires_grad_(), draw(3, 4)
    kept: dict[str, Any] = {}

    @compiled
    def step(x: torch.Tensor) -> Any:
        kept["tail"] = w[3:].detach()
        kept["column"] = rows.t()[1].detach()
        kept["odd"] = rows.view(-1)[1::2].view(2, 3).detach()
        kept["first"] = w.detach()[:1]
        with torch.no_grad():
            rows.add_(x)
            w.mul_(2.0)
        return (w * 2.0).sum().item()

    for _ in range(6):
        yield step(draw(4)), dict(kept)
        with torch.no_grad():
            kept["tail"].add_(1.0)
            kept["column"].mul_(3.0)
            kept["odd"].sub_(1.0)
        yield w, rows, dict(kept)


def memory_by_other_means_than_views(compiled: Compile, draw: Values) -> Iterator[Any]:
    data = np.zeros(6)
    a, b = torch.from_numpy(data[:4]), torch.from_numpy(data[2:])

    @compiled
    def step() -> Any:
        a.add_(1.0)
        return b.sum()

    for _ in range(6):
        yield step()


# ---- tensors that a step hands out, and those that it has put elsewhere ---------------------------------------------


def the_gradient_returned(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()

    @compiled
    def step(x: torch.Tensor) -> Any:
        w.grad = None
        (w * w * x).sum().backward()
        return w.grad, {"again": w.grad}

    for _ in range(5):
        g, again = step(draw(3))
        yield g is w.grad, again["again"] is g
        g.mul_(10.0)
        yield w.grad


def the_gradient_that_was_there(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()
    w.grad = torch.zeros(3)

    @compiled
    def step(x: torch.Tensor) -> Any:
        (w * x).sum().backward()
        return w.grad

    for k in range(8):
        if k == 5:
            w.grad = torch.ones(3)
        g = step(draw(3))
        yield g is w.grad, g.clone()


def the_argument_returned(compiled: Compile, draw: Values) -> Iterator[Any]:
    @compiled
    def step(x: torch.Tensor) -> Any:
        x.mul_(2.0)
        return x, x.detach(), x.view(-1)[1:]

    one, rows = draw(2), draw(9, 2)
    for x in (one, one, one, *[rows[k] for k in range(6)]):
        same, alias, tail = step(x)
        alias.add_(1.0)
        tail.sub_(3.0)
        yield same is x, x.clone()


def a_result_in_two_places(compiled: Compile, draw: Values) -> Iterator[Any]:
    @compiled
    def step(x: torch.Tensor) -> Any:
        y = x * 2.0
        first, second = (x + 1.0).chunk(2)
        return y, [y], y.view(2, 2)[1], first, second[:1]

    for _ in range(5):
        y, others, part, first, second = step(draw(4))
        y.add_(1.0)
        part.mul_(3.0)
        yield others[0] is y, y, first, second


def a_loss_in_two_places(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()

    @compiled
    def step(x: torch.Tensor) -> Any:
        loss = (w * x).sum()
        return loss, {"loss": loss}

    for _ in range(5):
        w.grad = None
        loss, log = step(draw(3))
        (loss * 2.0).backward()
        yield log["loss"] is loss, w.grad


def the_parameters_memory(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()
    opt = torch.optim.SGD([w], lr=0.1)
    kept = []

    @compiled
    def step(x: torch.Tensor) -> Any:
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        return w.detach(), w.detach()[1:]

    for _ in range(5):
        kept += step(draw(3))
        yield [t.clone() for t in kept]


def one_gradient_of_two(compiled: Compile, draw: Values) -> Iterator[Any]:
    a, b = draw(3).requires_grad_(), draw(3).requires_grad_()

    @compiled
    def step(x: torch.Tensor) -> Any:
        a.grad = b.grad = None
        ((a + b) * x).sum().backward()
        a.grad = b.grad = a.grad + b.grad

    for _ in range(5):
        step(draw(3))
        a.grad.add_(1.0)
        yield a.grad is b.grad, b.grad


def other_memory_and_no_gradient(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()

    @compiled
    def step(x: torch.Tensor) -> Any:
        ((w * x) ** 2).sum().backward()
        w.data = w.data - 0.1 * w.grad
        w.grad = None

    for _ in range(6):
        step(draw(3))
        yield w, w.grad


def a_write_that_has_no_recorded_form(compiled: Compile, draw: Values) -> Iterator[Any]:
    a = draw(4, 4)

    @compiled
    def step(x: torch.Tensor) -> Any:
        part = a.t()[1:3].reshape(-1)[:3]
        part.add_(x)
        a.view(-1)[::5] = 0.0
        return part

    for _ in range(5):
        yield step(draw(3)), a


# ---- history that a step reads and changes ---------------------------------------------------------------------------


def views_as_arguments(compiled: Compile, draw: Values) -> Iterator[Any]:
    w, weight = draw(3, 2).requires_grad_(), draw(2).requires_grad_()

    @compiled
    def cell(x: torch.Tensor) -> Any:
        return torch.tanh(x * weight)

    for k in range(6):
        h = w * 2.0
        (cell(h[k % 3]).sum() + cell(w[k % 2]).sum() + cell(h[0].expand(2, 2)).sum()).backward()
        yield w.grad.clone(), weight.grad.clone()


def a_hessian_through_a_compiled_function(compiled: Compile, draw: Values) -> Iterator[Any]:
    matrix = draw(3, 3)

    @compiled
    def f(x: torch.Tensor) -> Any:
        return torch.tanh(matrix @ x).pow(2).sum()

    for _ in range(5):
        yield torch.autograd.functional.hessian(f, draw(3)), torch.autograd.functional.jacobian(f, draw(3))


def a_write_into_what_has_history(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()

    @compiled
    def double(x: torch.Tensor) -> Any:
        x.mul_(2.0)
        return x.sum()

    for k in range(6):
        w.grad = None
        y = w * 3.0
        total = double(y if k % 2 else y[1:])
        (total + (y * y).sum()).backward()
        yield w.grad, y


def values_with_history_written(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()
    buffer = torch.zeros(3)

    @compiled
    def step(x: torch.Tensor, into: torch.Tensor) -> Any:
        buffer.mul_(0.5).add_(w * x)
        into.copy_(w * x)

    for k in range(6):
        into = torch.zeros(3)
        step(draw(3), into)
        into.sum().backward()
        yield buffer, buffer.requires_grad, into, into.requires_grad, w.grad.clone()
        if k % 2:
            buffer.sum().backward()
            buffer.detach_()
            yield w.grad.clone()


def an_activation_in_place(compiled: Compile, draw: Values) -> Iterator[Any]:
    w = draw(3).requires_grad_()

    @compiled
    def step(h: torch.Tensor) -> Any:
        return torch.nn.functional.relu(h, inplace=True) * 2.0

    for _ in range(5):
        h = w * draw(3)
        step(h).sum().backward()
        yield h, w.grad.clone()


def a_leaf_of_its_own(compiled: Compile, draw: Values) -> Iterator[Any]:
    @compiled
    def step(x: torch.Tensor) -> Any:
        leaf = (x * 2.0).detach().requires_grad_()
        return leaf, leaf * 3.0

    @compiled
    def alone(x: torch.Tensor) -> Any:
        return (x.detach().clone().requires_grad_() * x).sum()

    for _ in range(5):
        leaf, result = step(draw(3))
        result.sum().backward()
        alone(draw(3)).backward()
        yield leaf.grad, leaf.is_leaf


def plain(found: Any) -> Any:
    if isinstance(found, torch.Tensor):
        return found.detach().numpy().copy()
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    return [plain(part) for part in found] if isinstance(found, list | tuple) else found


def outcomes(program: Callable[..., Iterator[Any]], compiled: Compile) -> list[Any]:
    rng = np.random.default_rng(0)
    return [plain(found) for found in program(compiled, lambda *shape: torch.tensor(rng.normal(size=shape)))]


PROGRAMS = [
    a_row_of_the_parameter, the_parameter_at_times, the_parameter_by_numpy, an_array_of_the_parameter, two_arguments,
    neighbours, the_gradient_as_argument, data_that_comes_to_be_shared, state_that_comes_to_be_shared,
    a_gradient_that_is_the_parameter, memory_that_is_stored_and_shared,
    views_that_are_kept, memory_by_other_means_than_views, the_gradient_returned,
    the_gradient_that_was_there, the_argument_returned, a_result_in_two_places, a_loss_in_two_places,
    the_parameters_memory, one_gradient_of_two, other_memory_and_no_gradient, a_write_that_has_no_recorded_form,
    views_as_arguments, a_hessian_through_a_compiled_function, a_write_into_what_has_history,
    values_with_history_written, an_activation_in_place, a_leaf_of_its_own,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program: Callable[..., Iterator[Any]]) -> None:
    found, expected = outcomes(program, torch.compile), outcomes(program, lambda fn: fn)
    for k, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_equal(_rounded(one), _rounded(other), err_msg=f"call {k}")


def _rounded(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_rounded(part) for part in found]
    return found if isinstance(found, bool) or found is None else np.round(found, 9)


def test_what_is_replayed_and_what_is_not() -> None:
    """Memory that is not written, or of which other parts are, is no reason to run eagerly."""
    rows = torch.zeros(40, 2)

    @torch.compile
    def step(before, after):
        after.copy_(before + 1.0)

    for k in range(30):
        step(rows[k], rows[k + 1])
    assert step.stats.traces <= 2 and not step.stats.live and rows[30, 0] == 30.0
    for _ in range(6):
        step(rows[:4], rows[1:5])
    assert "share memory" in step.stats.live
