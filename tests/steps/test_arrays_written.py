"""``losses[k] = loss.item()`` in a step: an array outside that is only written is written anew by each replay."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad
from tracegrad import tensor

STEPS = 12


class Trainer:
    def __init__(self):
        self.w = tensor(np.ones(3), requires_grad=True)
        self.losses, self.table, self.k = np.zeros(STEPS + 3), np.zeros((STEPS + 3, 4), np.float32), 0
        self.factor, self.view = np.ones(3), None

    def update(self, x):
        loss = ((self.w * x) ** 2).sum()
        loss.backward()
        with tracegrad.no_grad():
            self.w.sub_(0.1 * self.w.grad)
            self.w.grad = None
        return loss


def by_counter(t, x, k):
    loss = t.update(x)
    t.losses[t.k] = loss.item()
    t.k += 1
    return loss


def by_argument(t, x, k):
    loss = t.update(x)
    t.losses[k] = float(loss)
    t.losses[-1] = len(t.losses) + t.losses.shape[0] + t.losses.size
    return loss


def rows(t, x, k):
    loss = t.update(x)
    t.table[k, 0] = k
    t.table[k, 1:] = [loss.item(), 2.0, 3.0] if t.losses.dtype == np.int8 else loss.item()
    t.table[k + 1 : k + 3] = t.w.detach().numpy()[0]
    return loss


def an_array_later_changed(t, x, k):
    values = np.arange(4.0)
    t.table[k] = values
    values += 1
    t.table[k + 1] = values
    return t.update(x)


def read_too(t, x, k):
    loss = t.update(x)
    t.losses[k] = loss.item()
    return loss * (1.0 + t.losses[: k + 1].sum())


def added_to(t, x, k):
    loss = t.update(x)
    t.losses[k % 3] += loss.item()
    return loss


def whole(t, x, k):
    loss = t.update(x)
    t.losses[:] = loss.item()
    t.losses[...] = 2.0
    return loss


def out_of_range(t, x, k):
    loss = t.update(x)
    t.k += 1
    t.losses[5 * k] = loss.item()
    t.k += 1
    return loss


def another_reads_it(t, x, k):
    t.losses[0] = float(k)
    return t.update(x) * (t.losses if t.view is None else t.view)[0]


def in_a_loop(t, x, k):
    loss = t.update(x)
    for j in range(3):
        t.table[k, j] = loss.item() * j
    return loss


def one_branch(t, x, k):
    loss = t.update(x)
    if loss.item() > 1:
        t.losses[k] = loss.item()
    return loss


CLOSED = [by_counter, by_argument, an_array_later_changed, whole, in_a_loop, one_branch]
OTHERS = [rows, read_too, added_to, out_of_range, another_reads_it]


def _run(function, compiled, change=lambda t, k: None):
    t, found = Trainer(), []
    step = tracegrad.compile(lambda x, k: function(t, x, k)) if compiled else lambda x, k: function(t, x, k)
    rng = np.random.default_rng(0)
    for k in range(STEPS):
        change(t, k)
        try:
            found.append(step(tensor(rng.normal(size=3)), k).item())
        except (IndexError, ValueError) as error:
            found.append(type(error).__name__)
    return [found, t.losses, t.table, t.w.detach().numpy(), t.k], step


@pytest.mark.parametrize("function", [*CLOSED, *OTHERS])
def test_it_writes_what_python_writes(function):
    found, step = _run(function, True)
    expected, _ = _run(function, False)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12) if function is not out_of_range else None
    if function is out_of_range:
        assert [x for x in found[0] if type(x) is str] == [x for x in expected[0] if type(x) is str]
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)
    if function in CLOSED:
        assert not step.stats.live


def _another(t, k):
    if k == 5:
        t.losses, t.table = np.ones(STEPS + 3), np.ones((STEPS + 3, 4), np.float32)


def _longer(t, k):
    if k == 5:
        t.losses = np.ones(STEPS + 9)


def _a_view(t, k):
    if k == 5:
        t.losses, t.table = np.ones(2 * STEPS + 6)[::2], np.ones((STEPS + 3, 4)).T[::-1].T
    if k == 8:
        t.view = t.losses


def _fixed(t, k):
    t.losses.flags.writeable = k not in (5, 6)


@pytest.mark.parametrize("function", [by_counter, by_argument, another_reads_it])
@pytest.mark.parametrize("change", [_another, _longer, _a_view, _fixed])
def test_another_array_is_written_as_python_writes_it(function, change):
    found, _ = _run(function, True, change)
    expected, _ = _run(function, False, change)
    if change is _fixed:
        assert [type(x) for x in found[0]] == [type(x) for x in expected[0]]
    else:
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


def test_an_array_that_is_an_argument_too():
    w, losses = tensor(np.ones(3), requires_grad=True), np.ones(8)

    def program(x, k, given):
        losses[k] = (w * x).sum().item() + given[0]
        return (w * x).sum() * given[k]

    found = []
    for call in (tracegrad.compile(program), program):
        losses[...] = 1.0
        given = [losses if k > 3 else np.ones(8) for k in range(8)]
        found.append([[call(tensor(np.arange(3.0)), k, given[k]).item() for k in range(8)], losses.copy()])
    np.testing.assert_allclose(np.hstack(found[0]), np.hstack(found[1]), rtol=1e-12)


def test_steps_that_run_eagerly_for_any_number_are_recorded_for_none():
    """The second number has the same reason as the first: the third is not tried."""
    w, sums = tensor(np.ones(3), requires_grad=True), np.zeros(20)

    def step(x, k):
        loss = (w * x).sum() * k
        sums[k] += loss.item()
        return loss

    compiled, x = tracegrad.compile(step), tensor(np.arange(3.0))
    tried = []
    for k in range(1, 20):
        assert float(compiled(x, k)) == 3.0 * k
        tried.append(compiled._dispatcher.logged.tries.copy())
    assert sums.tolist() == [3.0 * k for k in range(20)]
    assert "an array from outside that is written" in compiled.stats.live
    assert sum(tried[-1].values()) == sum(tried[3].values()) <= 4
