"""In-place writes through views of all origins, retained gradients and accumulation: PyTorch's numbers and errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[oracle]'")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def leaf(M: Any, values: Any = None) -> Any:
    given = np.arange(1.0, 7.0).reshape(2, 3) / 4 if values is None else values
    return M.tensor(given, requires_grad=True, dtype=M.float64)


def outcome(program: Callable[..., Any], M: Any, *args: Any) -> Any:
    try:
        return plain(program(M, *args))
    except RuntimeError as error:
        return type(error).__name__, str(error)[:60]


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, (torch.Tensor, tracegrad.Tensor)):
        return np.round(value.detach().numpy(), 9).tolist()
    return value


# ---- writes into views ---------------------------------------------------------------------------------------------


def _custom(M: Any, forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    methods = {"forward": staticmethod(lambda ctx, x: forward(x)), "backward": staticmethod(backward)}
    return type("Fn", (M.autograd.Function,), methods).apply


VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "select": lambda M, y: y[0],
    "unbind": lambda M, y: y.unbind(0)[0],
    "iteration": lambda M, y: next(iter(y)),
    "split": lambda M, y: y.split(1, 0)[0],
    "split sizes": lambda M, y: M.split(y, [1, 1], 0)[0],
    "chunk": lambda M, y: y.chunk(2, 0)[0],
    "tensor_split": lambda M, y: M.tensor_split(y, 2, 0)[0],
    "view of a part": lambda M, y: y.unbind(0)[0].view(-1),
    "part of a view": lambda M, y: y[:].split(1, 0)[0],
    "argument of a Function": lambda M, y: _custom(M, lambda x: x, lambda ctx, g: g)(y),
    "view of a Function": lambda M, y: _custom(M, lambda x: x.view(-1), lambda ctx, g: g.reshape(2, 3))(y),
    "views of a Function": lambda M, y: _custom(M, lambda x: (x[0], x[1]), lambda ctx, *g: M.stack(list(g)))(y)[0],
}


def write_view(M: Any, view: Any) -> Any:
    x = leaf(M)
    y = x * 2
    view(M, y).mul_(3)
    y.sum().backward()
    return x.grad


def write_view_and_use_it(M: Any, view: Any) -> Any:
    x = leaf(M)
    v = view(M, x * 2)
    v.add_(3)
    (v * v).sum().backward()
    return x.grad


def write_base(M: Any, view: Any) -> Any:
    x = leaf(M)
    y = x * 2
    v = view(M, y)
    y.mul_(3)
    (v * v).sum().backward()
    return x.grad


def write_unrecorded(M: Any, view: Any) -> Any:
    x = leaf(M)
    y = x * 2
    v = view(M, y)
    with M.no_grad():
        v.mul_(3)
    (y * y).sum().backward()
    return x.grad, y


def write_unrecorded_and_use_it(M: Any, view: Any) -> Any:
    x = leaf(M)
    v = view(M, x * 2)
    with M.no_grad():
        v.mul_(3)
    v.sum().backward()
    return x.grad


def write_view_made_without_grad(M: Any, view: Any) -> Any:
    x = leaf(M)
    y = x * 2
    with M.no_grad():
        v = view(M, y)
    v.mul_(3)
    return x.grad


def write_of_plain(M: Any, view: Any) -> Any:
    y = leaf(M).detach() * 2
    view(M, y).mul_(3)
    return y


def write_tracked_into_plain(M: Any, view: Any) -> Any:
    y, w = leaf(M).detach() * 2, leaf(M, 2.0)
    view(M, y).mul_(w)
    y.sum().backward()
    return w.grad


def write_view_of_leaf(M: Any, view: Any) -> Any:
    view(M, leaf(M)).mul_(3)


def write_detached(M: Any, view: Any) -> Any:
    x = leaf(M)
    y = x * 2
    view(M, y).detach().mul_(3)
    y.sum().backward()
    return x.grad, y


def ask_after_write(M: Any, view: Any) -> Any:
    y = leaf(M) * 2
    v = view(M, y)
    y.mul_(2)
    return v.requires_grad, v.is_leaf


WRITES = [
    write_view, write_view_and_use_it, write_base, write_unrecorded, write_unrecorded_and_use_it,
    write_view_made_without_grad, write_of_plain, write_tracked_into_plain, write_view_of_leaf, write_detached,
    ask_after_write,
]  # fmt: skip


@pytest.mark.parametrize(("write", "name"), itertools.product(WRITES, VIEWS), ids=lambda x: getattr(x, "__name__", x))
def test_writes(write: Callable[..., Any], name: str) -> None:
    assert outcome(write, tracegrad, VIEWS[name]) == outcome(write, torch, VIEWS[name])


# ---- gradients that are retained -----------------------------------------------------------------------------------


def _retaining(who: str, write: Callable[[Any, Any], Any], use: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def program(M: Any) -> Any:
        x = leaf(M)
        y = x * 2
        v = y[0]
        kept = y if who == "base" else v
        kept.retain_grad()
        write(y, v)
        use(y, v).sum().backward()
        return x.grad, kept.grad, kept.retains_grad

    return program


ACTS: dict[str, Callable[[Any, Any], Any]] = {
    "the view": lambda y, v: v.mul_(3),
    "the base": lambda y, v: y.mul_(3),
    "the other part": lambda y, v: y[1].mul_(3),
    "an item": lambda y, v: y.__setitem__((0, 1), 5.0),
    "twice": lambda y, v: (v.mul_(3), y.add_(1)),
}
USES: dict[str, Callable[[Any, Any], Any]] = {"base": lambda y, v: y * y, "view": lambda y, v: v * v}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("who", ["base", "view"])
def test_retained_gradients(who: str, act: str, use: str) -> None:
    program = _retaining(who, ACTS[act], USES[use])
    assert outcome(program, tracegrad) == outcome(program, torch)


# ---- accumulation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("graphs", list(itertools.product([False, True], repeat=3)))
@pytest.mark.parametrize("powers", [(2, 3, 1), (1, 1, 2), (1, 1, 1)])
def test_gradients_that_others_hold(powers: tuple[int, ...], graphs: tuple[bool, ...], user: bool) -> None:
    def program(M: Any) -> Any:
        x, seen = leaf(M), []
        if user:
            x.grad = M.ones(2, 3, dtype=M.float64)
            seen.append(x.grad)
        for power, create_graph in zip(powers, graphs, strict=True):
            (x**power if power > 1 else x * 3).sum().backward(create_graph=create_graph)
            seen.append(x.grad)
        return seen, [a is b for a, b in itertools.pairwise(seen)]

    assert outcome(program, tracegrad) == outcome(program, torch)


def test_retained_gradients_that_others_hold() -> None:
    def program(M: Any) -> Any:
        x = leaf(M)
        y = x * 2
        y.retain_grad()
        z = (y * y).sum()
        z.backward(retain_graph=True)
        held = y.grad
        z.backward()
        return held, y.grad, held is y.grad

    assert outcome(program, tracegrad) == outcome(program, torch)


@pytest.mark.parametrize("which", ["operand", "result"])
def test_second_derivatives_notice_what_was_overwritten(which: str) -> None:
    def program(M: Any) -> Any:
        x = leaf(M)
        y = x * 1
        z = y.sin() if which == "operand" else y.exp()
        (g,) = M.autograd.grad(z.sum(), y, create_graph=True)
        with M.no_grad():
            (y if which == "operand" else z).mul_(2)
        g.sum().backward()
        return x.grad

    assert outcome(program, tracegrad) == outcome(program, torch)
