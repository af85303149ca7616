"""Nests that are like one another are written once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tracegrad import compile_grad
from tracegrad.codegen.cpu import loop_node
from tracegrad.codegen.cpu.loop_node import LoopFrame
from tracegrad.codegen.schedule.likeness import Likeness
from tracegrad.codegen.schedule.loop_tree import statements_of
from tracegrad.codegen.schedule.schedule import MAX_STATEMENTS
from tracegrad.runtime.launch.kernel_cache import kernels

RNG = np.random.default_rng(0)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def layers(n):
    """Layers of differing widths."""
    rng = np.random.default_rng(1)
    widths = rng.integers(17, 40, n + 1)
    weights = [0.1 * rng.standard_normal((a, b)) for a, b in pairwise(widths)]

    def f(weights, x):
        for w in weights:
            x = np.tanh(x @ w)
        return np.sum(x**2)

    return f, (weights, rng.standard_normal((20, widths[0])))


def kinds(n):
    """Statements of a few kinds, on short vectors, in no order."""
    rng = np.random.default_rng(2)
    order = rng.integers(0, 3, n).tolist()

    def f(s, k):
        def step(s, at):  # which calls itself: no loop
            kind = order[at]
            if kind == 0:
                s = s + np.array([k[0] * s[1], -k[1] * np.sin(s[0])])
            elif kind == 1:
                s = np.tanh(s * k[2]) - k[3] * s
            else:
                s = s / (1.0 + np.sum(s * s)) + 0.25
            return step(s, at + 1) if at + 1 < n else s

        return np.sum(step(s, 0))

    return f, (np.array([0.3, 0.4]), np.array([0.1, 0.2, 0.3, 0.4]))


def padded(n):
    """Differences of arrays of differing lengths, with numbers of their own."""
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(int(m)) for m in rng.integers(30, 60, n)]
    numbers = rng.uniform(0, 1, n).tolist()
    return lambda arrays: sum(np.sum(np.diff(a) ** 2 * c) for a, c in zip(arrays, numbers, strict=True)), (arrays,)


@pytest.mark.parametrize("made", [layers, padded, pytest.param(kinds, marks=pytest.mark.slow)])
def test_like_nests_have_the_same_text(made, monkeypatch, fresh_kernels):
    """What a likeness says is what writing it once more would find."""
    like, checked = LoopFrame._like, []

    def found(self, key, write):
        shared = like(self, key, write)
        if len(self.divided) < loop_node.MOST_DIVIDED:
            again = write()
            assert again.function is shared.function and again.may_end == shared.may_end
            assert key.positions(again.asked) == key.positions(shared.asked)
            checked.append(again)
        return shared

    monkeypatch.setattr(LoopFrame, "_like", found)
    f, arguments = made(24)
    np.testing.assert_allclose(compile_grad(f).value_and_grad(*arguments)[0], f(*arguments), rtol=1e-10)
    assert checked


def nests_of(made, sizes, monkeypatch):
    """(nests that were written, nests that are called) in the programs that *made* gives of each of *sizes*."""
    written, called, like = [], [], LoopFrame._like

    def watched(self, key, write):
        called.append(key)
        return like(self, key, lambda: written.append(key) or write())

    monkeypatch.setattr(LoopFrame, "_like", watched)
    counts = []
    for n in sizes:
        f, arguments = made(n)
        written.clear(), called.clear()
        np.testing.assert_allclose(compile_grad(f).value_and_grad(*arguments)[0], f(*arguments), rtol=1e-10)
        counts.append((len(written), len(called)))
    return counts


@pytest.mark.parametrize("made", [layers, pytest.param(padded, marks=pytest.mark.slow)])
def test_the_number_of_nests_that_are_written_does_not_grow(made, monkeypatch, fresh_kernels):
    (few, small), (more, large) = counts = nests_of(made, (40, 80), monkeypatch)
    assert large > small and more <= few + 6, counts


@pytest.mark.slow
def test_nests_of_statements_in_no_order_are_mostly_known(monkeypatch, fresh_kernels):
    """They fuse in ever new ways; of the nests that more statements add, a quarter at most is written."""
    (few, small), (more, large) = counts = nests_of(kinds, (40, 80), monkeypatch)
    assert large > small + 40 and more - few <= (large - small) / 4, counts


def test_what_tells_nests_apart(monkeypatch, fresh_kernels):
    """Numbers of the program, dtypes, known sizes, signs of zeros."""
    keys = []
    made = Likeness.__init__

    def init(self, *args):
        made(self, *args)
        keys.append(self.key)

    monkeypatch.setattr(Likeness, "__init__", init)

    def key(f, *args):
        keys.clear()
        kernels.clear()
        compile_grad(f)(*args)
        return keys[0]

    x, short = RNG.standard_normal(50), RNG.standard_normal((50, 3))
    first = key(lambda x: np.sum(x**2 * 0.5), x)
    assert first == key(lambda x: np.sum(x**2 * 0.7), x)
    assert first != key(lambda x: np.sum(x**3 * 0.5), x)
    assert first != key(lambda x: np.sum(x**2 * 0.5), x.astype(np.float32))
    assert key(lambda x: np.sum(np.sin(x)), short) != key(lambda x: np.sum(np.sin(x)), short[:, :2].copy())
    assert key(lambda x: np.sum(x[3:] ** 2 * 0.5), x) != first


def test_a_loop_has_so_many_statements_at_most(monkeypatch, fresh_kernels):
    """LLVM takes long over a loop of a thousand sums."""
    longest, nest = [], LoopFrame._nest

    def watched(self, body, name):
        longest.append(max(len(statements_of(item)) for item in body))
        return nest(self, body, name)

    monkeypatch.setattr(LoopFrame, "_nest", watched)
    numbers = np.random.default_rng(1).uniform(0, 1, 150).tolist()

    def f(x):
        return sum(np.sum(np.sin(x) * c if k % 3 else np.cos(x * c)) ** 2 * (k % 5 + 1) for k, c in enumerate(numbers))

    np.testing.assert_allclose(compile_grad(f).value_and_grad(RNG.standard_normal(60))[0] > 0, True)
    assert longest and max(longest) <= MAX_STATEMENTS


@pytest.mark.slow
def test_like_nests_of_a_loops_body_are_written_once(monkeypatch, fresh_kernels):
    """As the layers of a recurrent network are."""
    written, called, like = [], [], LoopFrame._like

    def watched(self, key, write):
        called.append(key.key)
        return like(self, key, lambda: written.append(1) or write())

    monkeypatch.setattr(LoopFrame, "_like", watched)
    counts = []
    for layers in (4, 6):
        weights = 0.3 * RNG.standard_normal((2 * layers, 56))
        states = RNG.standard_normal((2 * layers, 14))

        def f(weights, states, text):
            for x in text:
                after = []
                for k in range(0, len(weights), 2):
                    hidden, cell = states[k], states[k + 1]
                    gates = np.concatenate([x, hidden, x, hidden]) * weights[k] + weights[k + 1]
                    forget, ingate, outgate, change = np.split(gates, 4)
                    cell = cell * sigmoid(forget) + sigmoid(ingate) * np.tanh(change)
                    x = sigmoid(outgate) * np.tanh(cell)
                    after += [x, cell]
                states = np.stack(after)
            return np.sum(x**2)

        text = RNG.standard_normal((30, 14))
        written.clear(), called.clear()
        value, gradient = compile_grad(f).value_and_grad(weights, states, text)
        counts.append((len(written), len(called)))
        np.testing.assert_allclose(value, f(weights, states, text), rtol=1e-10)
        ahead = RNG.standard_normal(weights.shape)
        slope = (f(weights + 1e-6 * ahead, states, text) - f(weights - 1e-6 * ahead, states, text)) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * ahead), slope, rtol=1e-5, atol=1e-6)
    assert counts[1][0] <= counts[0][0] + 2 and counts[1][1] > counts[0][1] + 2, counts
