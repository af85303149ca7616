"""What the adjoint of a loop stores: the minimum cut against all others, and what is computed again in real loops."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from agreement import agree

import tracegrad as tg
from tracegrad import compile_grad, config
from tracegrad.codegen.derive import residuals
from tracegrad.codegen.derive.residual_cut import least_stored
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.tracer.ir.aval import Aval
from tracegrad.tracer.ir.graph import Node, Var
from tracegrad.tracer.ir.primitive import LOOP

RNG = np.random.default_rng(3)
FLOAT = np.dtype(float)
V20 = RNG.uniform(0.2, 1.0, 20)


@pytest.fixture
def budget():
    """``budget(bytes)`` sets the memory that a loop may take; every compiled call is compared with the interpreter."""
    before = config.loop_memory, config.check
    config.check = True
    kernels.clear()

    def set_to(nbytes):
        config.loop_memory = nbytes

    yield set_to
    config.loop_memory, config.check = before


# ---- the cut itself ------------------------------------------------------------------------------------------------


class _Step:
    """A random step: values computed from one another, some dear, some not to be stored, some of them read."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.inputs = [Var(Aval(FLOAT, ())) for _ in range(2)]
        self.nodes, values = [], list(self.inputs)
        self.price = {self.inputs[0]: rng.randint(1, 5)}  # a carry; the other input is at hand
        self.again = {self.inputs[0]: math.inf}
        for _ in range(rng.randint(3, 9)):
            ins = tuple(rng.choice(values) for _ in range(rng.randint(1, 2)))
            outs = tuple(Var(Aval(FLOAT, ())) for _ in range(rng.choice((1, 1, 1, 2))))
            self.nodes.append(Node(None, ins, {}, outs, None))
            values += outs
            if rng.random() < 0.8:
                self.price.update((out, rng.choice((1, 2, 3, 8))) for out in outs)
                costs = (0, 0, math.inf) if len(outs) > 1 else (0, 0, math.inf, 1, 2, 4)
                if cost := rng.choice(costs):
                    self.again.update((out, cost) for out in outs)
        self.outputs = rng.sample(values, 2)

    def cost(self, stored):
        """Of storing *stored* and computing the rest of what the outputs need."""
        total, needed = sum(self.price[v] for v in stored), set(self.outputs) - set(stored)
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.outs):
                total += self.again.get(node.out, 0)
                needed |= set(node.inputs) - set(stored)
        return math.inf if self.inputs[0] in needed else total

    def least(self):
        chosen = itertools.chain.from_iterable(
            itertools.combinations(self.price, size) for size in range(len(self.price) + 1)
        )
        return min(map(self.cost, chosen))


@pytest.mark.parametrize("seeds", [range(k, k + 50) for k in range(0, 300, 50)])
def test_no_other_choice_is_cheaper(seeds):
    for seed in seeds:
        step = _Step(seed)
        stored = least_stored(step.nodes, step.outputs, step.again, step.price)
        assert step.cost(stored) == step.least() < math.inf, seed


def test_of_equal_cuts_the_one_that_leaves_least_to_do():
    carry, a, b = (Var(Aval(FLOAT, ())) for _ in range(3))
    nodes = [Node(None, (carry,), {}, (a,), None), Node(None, (a,), {}, (b,), None)]
    price, again = {carry: 8, a: 8, b: 8}, {carry: math.inf}
    assert least_stored(nodes, [b], again, price) == {b}
    assert least_stored(nodes, [a, b], again, price) == {a}


# ---- in loops ------------------------------------------------------------------------------------------------------


def bodies(f, *args):
    """The bodies of the loops in the program of *f*'s gradient, the forward one first, as lists of primitives' names;
    and the gradient."""
    gradient = f.grad(*args)
    ((path,),) = [v.paths for e in f._dispatcher.endpoints.values() for vs in e.variants.values() for v in vs]
    loops = [op for op in path.program.canonical.ops if op.prim.kind == LOOP]
    return [[n.prim.name for n in op.params["body"].graph.nodes] for op in loops], gradient


def waves(w):
    """A body in which both sine and cosine are at hand, of one argument."""

    def step(c, x):
        angle = c * w + x
        return np.sin(angle) * np.cos(angle), None

    return np.sum(tg.scan(step, np.ones(20), np.outer(np.linspace(0.1, 1.0, 30), np.ones(20)))[0])


def test_transcendental_functions_are_not_computed_again(budget):
    budget(10**9)
    f = compile_grad(waves)
    (forward, backward), _ = bodies(f, V20)
    assert forward.count("sin") == forward.count("cos") == 1
    assert "sin" not in backward and "cos" not in backward
    agree(f, waves, V20)


def test_where_memory_is_short_they_are_and_nothing_is_checkpointed(budget):
    """One array a step fits, two do not: the carry is stored instead of sine and cosine."""
    budget(30 * 20 * 8)
    f = compile_grad(waves)
    (_, backward), gradient = bodies(f, V20)
    assert "sin" in backward and "cos" in backward
    budget(10**9)
    np.testing.assert_allclose(gradient, compile_grad(waves).grad(V20), rtol=1e-12)
    budget(30 * 20 * 8 - 1)
    assert bodies(compile_grad(waves), V20)[0][0] == ["loop"], "over chunks"


def newton(M):
    """Sine, cosine and the step would be stored, or the carry alone."""

    def step(E, _):
        return E - (E - 0.3 * np.sin(E) - M) / (1.0 - 0.3 * np.cos(E)), None

    return np.sum(tg.scan(step, M, np.arange(4.0))[0])


def test_what_is_written_to_memory_has_its_price_too(budget, monkeypatch):
    budget(10**9)
    (_, cached), gradient = bodies(compile_grad(newton), V20)
    assert "sin" not in cached and "cos" not in cached
    monkeypatch.setattr(residuals, "CACHED", 0)
    (_, large), found = bodies(compile_grad(newton), V20)
    assert "sin" in large and "cos" in large
    np.testing.assert_allclose(found, gradient, rtol=1e-12)


def gated(p, xs):
    """One gate, as in a recurrent network: h and c, of which only h is read in the end."""

    def step(carry, x):
        h, c = carry
        z = h @ p + x
        gate = 1.0 / (1.0 + np.exp(-z[:, :20]))
        c = gate * c + np.tanh(z[:, 20:])
        return (gate * np.tanh(c), c), None

    (h, _), _ = tg.scan(step, (np.ones((3, 20)), np.ones((3, 20))), xs)
    return np.sum(h * h)


def test_a_recurrent_network_stores_what_it_needs_and_multiplies_plainly(budget):
    """Of exp, 1 + exp, 1 / (1 + exp) one is stored; no cotangent but the first of c is zero."""
    budget(10**9)
    p, xs = RNG.standard_normal((20, 40)) * 0.2, RNG.standard_normal((6, 3, 40))
    f = compile_grad(gated)
    (_, backward), _ = bodies(f, p, xs)
    assert not {"exp", "tanh", "mulz"} & set(backward)
    (program,) = [
        v.paths[0].program for e in f._dispatcher.endpoints.values() for vs in e.variants.values() for v in vs
    ]  # fmt: skip
    forward = next(op for op in program.canonical.ops if op.prim.kind == LOOP)
    # h for the product, c, exp, two tanh
    assert len(forward.outs) - forward.params["carries"] == 5
    agree(f, gated, p, xs)


def test_the_second_derivative_is_that_of_a_loop_that_stores_less(budget):
    def curvature():
        first = compile_grad(waves)
        return compile_grad(lambda w: np.sum(first.grad(w) * np.cos(np.arange(20.0)))).grad(V20)

    budget(10**9)
    found = curvature()
    budget(30 * 20 * 8)
    np.testing.assert_allclose(curvature(), found, rtol=1e-10, atol=1e-12)


def test_a_carry_that_nobody_reads_in_the_end_has_no_share_in_the_last_step(budget):
    """The cotangent of b is exactly 0 there, and the derivative of its logarithm infinite: together they are 0."""
    budget(10**9)
    xs = np.array([1.0, 2.0, 0.0])

    def loss(w):
        def step(carry, x):
            a, b = carry
            return (a + b, np.log(w * x)), None

        with np.errstate(divide="ignore"):
            (a, _), _ = tg.scan(step, (np.zeros(()), np.zeros(())), xs)
        return a

    assert compile_grad(loss).grad(1.5) == pytest.approx(2 / 1.5)


def test_what_a_step_leaves_out_has_no_share_in_the_step_before(budget):
    """In the last step `where` leaves b out; in the one before it, the derivative of its logarithm is infinite."""
    budget(10**9)
    xs = np.array([1.0, 0.0, 2.0])

    def loss(w):
        def step(carry, x):
            _, b = carry
            return (np.where(x > 0.5, w, b), np.log(w * x)), None

        with np.errstate(divide="ignore"):
            (a, b), _ = tg.scan(step, (np.zeros(()), np.zeros(())), xs)
        return a + b

    assert compile_grad(loss).grad(1.5) == pytest.approx(1 + 1 / 1.5)
