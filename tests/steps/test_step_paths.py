"""Steps are answered by the dispatcher of functions: paths, families, arguments in the place of others."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as torch
from tracegrad.tracer.ir.trees import tree_leaves


def parameter(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_paths_of_a_step_are_tried_in_one_launch():
    w = parameter(1.0, 2.0, 3.0)

    def step(x):
        w.grad = None
        y = (w * x).sum()
        if x.sum() > 0:
            y = y * 2
        y.backward()
        return y.detach()

    compiled = torch.compile(step)
    up, down = torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64), torch.tensor([-1.0, 2.0, -3.0], dtype=torch.float64)
    for x in (up, down) * 4:
        found, grad = compiled(x).item(), w.grad.tolist()
        assert (found, grad) == (step(x).item(), w.grad.tolist())
    assert compiled.stats.traces in (2, 4) and compiled.stats.live == ""
    (family,) = compiled._endpoint.owners
    assert len(family.members) == 2 and "2 of the paths are tried in one launch" in compiled.explain(level="all")
    assert sum(path.runs for path in compiled.stats.paths) in (7, 8)
    misses = compiled.stats.guard_misses
    for x in (up, down) * 4:
        compiled(x)
    assert compiled.stats.guard_misses == misses  # the launcher went from one to the other


def a_view(t):
    return t[:2]


def a_view_in_two_places(t):
    found = t[:2]
    return found, found


def a_detached_one(t):
    return t.detach()


def its_grad(t):
    return t.grad


@pytest.mark.parametrize("give", [a_view, a_view_in_two_places, a_detached_one, its_grad])
def test_each_branch_gives_what_shows_memory_of_its_own_tensor(give):
    p, q = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])
    p.grad, q.grad = torch.tensor([4.0, 5.0, 6.0]), torch.tensor([7.0, 8.0, 9.0])

    def step(x):
        y = x + 0 * (p + q + p.grad + q.grad).sum()  # both read all
        return give(p if y.sum() > 0 else q), y

    compiled = torch.compile(step)
    for sign in (1, 1, -1, -1, 1, -1, 1, 1, -1):
        x = torch.tensor([float(sign)])
        found, expected = [tree_leaves(f(x)) for f in (compiled, step)]
        assert [t.tolist() for t in found] == [t.tolist() for t in expected]
    assert compiled.stats.live == ""


def test_paths_that_write_otherwise_have_launches_of_their_own():
    w, v = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)

    def step(x):
        if x.sum() > 0:
            w.add_(x)
        else:
            v.sub_(x)

    compiled = torch.compile(step)
    total = np.zeros(3), np.zeros(3)
    for k in range(12):
        x = np.array([1.0, 2.0, 3.0]) * (-1) ** k
        compiled(torch.tensor(x))
        total[k % 2][...] += x * (-1) ** k
    assert (w.tolist(), v.tolist()) == (total[0].tolist(), total[1].tolist())
    assert compiled.stats.traces in (2, 4) and len(compiled._endpoint.owners) == 2


def test_an_argument_that_is_outside_state_too():
    w = torch.tensor([1.0, 2.0, 3.0])
    compiled = torch.compile(lambda x: (x * w).sum())
    other = torch.tensor([5.0, 6.0, 7.0])
    for x, expected in [(w, 14.0)] * 4 + [(other, 38.0), (w, 14.0), (other, 38.0)] * 3:
        assert compiled(x).item() == expected


@pytest.mark.parametrize("zero", [False, True])
def test_the_gradient_of_an_argument_is_that_of_the_calls(zero):
    def step(p):
        if zero:
            p.grad = None
        (p * p).sum().backward()

    compiled = torch.compile(step)
    found, expected = [parameter(1.0, 2.0), parameter(3.0, 4.0)], [parameter(1.0, 2.0), parameter(3.0, 4.0)]
    for k in (0, 0, 0, 0, 1, 1, 0, 1, 1, 0):
        compiled(found[k])
        step(expected[k])
        for a, b in zip(found, expected, strict=True):
            assert (a.grad is None) is (b.grad is None) and (a.grad is None or a.grad.tolist() == b.grad.tolist())


def test_the_default_dtype_is_looked_at_by_each_call():
    compiled = torch.compile(lambda x: x.sum() + torch.ones(()))
    x, before = torch.tensor([1, 2]), torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64) * 4:
            torch.set_default_dtype(dtype)
            assert compiled(x).dtype == dtype
    finally:
        torch.set_default_dtype(before)


def test_a_list_among_the_arguments_is_the_callers():
    w = parameter(1.0, 2.0)

    def step(x, history, known):
        history.append(3)
        known["count"] = known.get("count", 0) + 1
        return (w * x).sum().detach()

    compiled, history, known = torch.compile(step), [], {}
    for _ in range(5):
        compiled(torch.tensor([1.0, 1.0], dtype=torch.float64), history, known)
    assert history == [3] * 5 and known == {"count": 5}


def returned(model, optimizer, loss):
    optimizer.step()
    return loss.item()


def compared(model, optimizer, loss):
    if loss.item() > 0.9:
        optimizer.step()
    return loss.detach()


def compared_as_float(model, optimizer, loss):
    value = float(loss)
    if 0.5 < value * 2 <= 1.9 or value != value:
        optimizer.step()
    return loss.detach()


def scaled(model, optimizer, loss):
    factor = min(loss.item() * 0.5, 0.7)
    for p in model.parameters():
        p.grad *= factor
    optimizer.step()
    return loss.detach()


def in_containers(model, optimizer, loss):
    optimizer.step()
    return {"loss": loss.item(), "more": [max(loss.item(), 0.9), -float(loss)], "n": 3}


def of_its_type(model, optimizer, loss):
    optimizer.step()
    value = loss.item()
    return type(value).__name__, isinstance(value, float), loss.item() ** 2


def listed(model, optimizer, loss):
    optimizer.step()
    return loss.tolist(), model.bias.detach().tolist()


def asked(model, optimizer, loss):
    optimizer.step()
    return int(loss.item() * 2), bool(loss.item() > 0.5)


@pytest.mark.parametrize(
    "use", [returned, compared, compared_as_float, scaled, in_containers, of_its_type, listed, asked]
)
def test_the_number_in_a_tensor_is_one_of_the_program(use):
    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

        def step(x, y):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            return use(model, optimizer, loss)

        return step

    rng = np.random.default_rng(1)
    batches = [[torch.tensor(rng.normal(size=(5, n))) for n in (4, 3)] for _ in range(3)]
    eager, compiled = make(), torch.compile(make())
    for k in range(16):
        expected, found = eager(*batches[k % 3]), compiled(*batches[k % 3])
        for a, b in zip(*map(leaves, (expected, found)), strict=True):
            assert type(a) is type(b) and (a == b or a == pytest.approx(b, rel=1e-9))
    assert compiled.stats.live == "" and compiled.stats.traces < 10


def leaves(tree):
    if isinstance(tree, torch.Tensor):
        return [tree.item()]
    if isinstance(tree, dict):
        return [*tree, *leaves(list(tree.values()))]
    return [x for part in tree for x in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]
