"""Long loops in steps: their iterations give what eager code finds, and are one, over symbols, where that is said."""

import numpy as np
import pytest
import test_step_loops
from selection import some
from test_step_loops import parameter, tensor

import tracegrad as torch
from tracegrad import nn

TURNS = 40


def lstm():
    return test_step_loops.lstm(TURNS)


def initial_state():
    """The rows of the states before each turn begin with one that is no turn's."""
    w, h0, x = parameter(1, 5, 5), parameter(2, 4, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = h0.grad = None
        h = h0
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
        (h * h).sum().backward()
        return h.detach()

    return step, x, [w, h0]


def a_turn_that_differs():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            if t == 25:
                h = h * 0.5 + x[0]
        (h * h).sum().backward()
        return h.detach()

    return step, x, [w]


def numbers_of_the_turns():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t] * (t / 7.0)) * 0.9**t + h * 0.5
        h.sum().backward()
        return h.detach()

    return step, x, [w]


def hooks_in_some_turns():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            if t in (11, 30):
                h.register_hook(lambda g: g * 0.5)
        (h * h).sum().backward()
        return h.detach()

    return step, x, [w]


def a_hook_in_each_turn():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            h.register_hook(lambda g: g.clamp(-0.1, 0.1))
        (h * h).sum().backward()
        return h.detach()

    return step, x, [w]


def gradients_of_turns_are_retained():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h, kept = torch.zeros(4, 5, dtype=x.dtype), []
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            if t in (3, 17, 38):
                h.retain_grad()
                kept.append(h)
        (h * h).sum().backward()
        return torch.stack([k.grad for k in kept])

    return step, x, [w]


def detached_in_turns():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h, loss = torch.zeros(4, 5, dtype=x.dtype), 0.0
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            loss = loss + (h * h).sum()
            if t % 10 == 9:
                h = h.detach()
        loss.backward()
        return h

    return step, x, [w]


def detached_in_each_turn():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h, loss = torch.zeros(4, 5, dtype=x.dtype), 0.0
        for t in range(TURNS):
            h = torch.tanh(h.detach() @ w + x[t])
            loss = loss + (h * h).sum()
        loss.backward()
        return h.detach()

    return step, x, [w]


def written_in_place():
    w, x, kept = parameter(1, 5, 5), tensor(0, TURNS, 4, 5), tensor(9, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h, total = torch.zeros(4, 5, dtype=x.dtype), torch.zeros(4, 5, dtype=x.dtype)
        out = torch.zeros(TURNS, 4, 5, dtype=x.dtype)
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            total += h
            out[t] = h * 0.5
            with torch.no_grad():
                kept[t] = h
        ((total**2).sum() + (out**3).sum()).backward()
        return total.detach()

    return step, x, [w, kept]


def left_early():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(1000):
            h = torch.tanh(h @ w + x[t])
            if t == 33:
                break
        h.sum().backward()
        return h.detach()

    return step, x, [w]


def two_loops_over_one_list():
    w, u, x = parameter(1, 5, 5), parameter(2, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = u.grad = None
        h = g = torch.zeros(4, 5, dtype=x.dtype)
        ys = []
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            ys.append(h)
        for y in ys:
            g = torch.tanh(g @ u + y)
        for y in reversed(ys):
            g = torch.tanh(g @ u + y * 0.5)
        g.sum().backward()
        return g.detach()

    return step, x, [w, u]


def every_other_row():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h, ys = torch.zeros(4, 5, dtype=x.dtype), []
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            ys.append(h)
        g = torch.zeros(4, 5, dtype=x.dtype)
        for k in range(TURNS // 2):
            g = torch.tanh(ys[2 * k] @ w + g) * ys[TURNS - 1 - k]
        g.sum().backward()
        return g.detach()

    return step, x, [w]


def gradients_in_turns():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        for t in range(TURNS):
            loss = (torch.tanh(x[t] @ w) ** 2).mean()
            (g,) = torch.autograd.grad(loss, [w])
            with torch.no_grad():
                w.sub_(g * 0.1)
        return loss.detach()

    return step, x, [w]


def derivatives_of_derivatives():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
        (g,) = torch.autograd.grad((h * h).sum(), [w], create_graph=True)
        (g * g).sum().backward()
        return h.detach()

    return step, x, [w]


CASES = [
    lstm, initial_state, a_turn_that_differs, numbers_of_the_turns, hooks_in_some_turns, a_hook_in_each_turn,
    gradients_of_turns_are_retained, detached_in_turns, detached_in_each_turn, written_in_place, left_early,
    two_loops_over_one_list, every_other_row, gradients_in_turns, derivatives_of_derivatives,
]  # fmt: skip


def values(tensors):
    return [t.detach().numpy().copy() for t in tensors]


def gradients(tensors):
    return [t.grad.detach().numpy().copy() for t in tensors if t.grad is not None]


@pytest.mark.parametrize("case", some(CASES, quick=4))
def test_a_step_with_a_long_loop_is_the_eager_one(case):
    (eager, x, known), (step, _, ours) = case(), case()
    step = torch.compile(step)
    for _ in range(4):
        found, expected = step(x), eager(x)
        both = [([found], [expected]), (ours, known)]
        for a, b in [*[(values(a), values(b)) for a, b in both], (gradients(ours), gradients(known))]:
            assert len(a) == len(b)
            for one, other in zip(a, b, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert step.stats.live == "" and step.stats.traces <= 2


def test_a_run_that_is_not_kept_has_the_values_of_its_turns():
    w, x, kept = parameter(1, 5, 5), tensor(0, TURNS, 4, 5), {}

    def step(x):
        w.grad = None
        h, ys = torch.zeros(4, 5, dtype=x.dtype), []
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            ys.append(h)
        kept["first"], kept["late"] = ys[2] * 1.0, ys[-3]
        (h * h).sum().backward()
        kept_too.h, kept_too.rest = ys[20], iter(ys[21:])
        return h.detach()

    class Kept:
        pass

    kept_too = Kept()
    compiled = torch.compile(step)
    for _ in range(4):
        found = [*values([compiled(x), kept["first"], kept["late"], kept_too.h]), *gradients([w])]
        expected = [*values([step(x), kept["first"], kept["late"], kept_too.h]), *gradients([w])]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backward", [False, True])
def test_an_exception_in_a_turn_leaves_what_was_written(backward):
    w, x, total = parameter(1, 5, 5), tensor(0, TURNS, 4, 5), torch.zeros(4, 5, dtype=torch.float64)
    flags = {"fails": False}

    def hook(g):
        if flags["fails"]:
            raise ValueError("in the backward")
        return g

    def step(x, fails):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            with torch.no_grad():
                total.add_(h)
            if t == 3:
                h.register_hook(hook)
            if fails and not backward and t == 35:
                raise ValueError("in the loop")
        flags["fails"] = fails and backward
        h.sum().backward()
        return h.detach()

    compiled, sums = torch.compile(step), []
    for run in (compiled, step):
        total.zero_()
        for fails in (False, True, True, True, False):
            try:
                run(x, fails)
            except ValueError as error:
                assert "in the" in str(error)
            else:
                assert not fails
            sums.append(total.numpy().copy())
    for one, other in zip(sums[:5], sums[5:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_numbers_that_turns_ask_for():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h, log = torch.zeros(4, 5, dtype=x.dtype), []
        for t in range(TURNS):
            h = torch.tanh(h @ w + x[t])
            if t in (20, 36):
                log.append(float(h[0, 0]))
        (h * h).sum().backward()
        return h.detach() * log[0] + log[1]

    compiled = torch.compile(step)
    for _ in range(4):
        found = [*values([compiled(x)]), *gradients([w])]
        expected = [*values([step(x)]), *gradients([w])]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_random_draws_in_turns():
    w, x = parameter(1, 5, 5), tensor(0, TURNS, 4, 5)

    def step(x):
        w.grad = None
        h = torch.zeros(4, 5, dtype=x.dtype)
        for t in range(TURNS):
            h = nn.functional.dropout(torch.tanh(h @ w + x[t]), 0.25)
        (h * h).sum().backward()
        return h.detach()

    results = []
    for run in (torch.compile(step), step):
        torch.manual_seed(3)
        results.append([v for _ in range(4) for v in [*values([run(x)]), *gradients([w])]])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
