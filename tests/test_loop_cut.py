"""What the adjoint of a loop stores: the minimum cut against all others, and what is computed again in real loops."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from agreement import agree

import tracegrad as tg
from tracegrad import compile_grad, config
from tracegrad.codegen.loop_cut import least_stored
from tracegrad.runtime.kernels import kernels
from tracegrad.tracer.aval import Aval
from tracegrad.tracer.ir import Node, Var
from tracegrad.tracer.primitive import LOOP

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
        for _ in range(rng.randint(3, 9)):
            ins = tuple(rng.choice(values) for _ in range(rng.randint(1, 2)))
            outs = tuple(Var(Aval(FLOAT, ())) for _ in range(rng.choice((1, 1, 1, 2))))
            self.nodes.append(Node(None, ins, {}, outs, None))
            values += outs
        self.price = {self.inputs[0]: rng.randint(1, 5)}  # a carry; the other input is at hand
        self.dear = {self.inputs[0]}
        for node in self.nodes:
            if rng.random() < 0.8:
                self.price.update((out, rng.choice((1, 2, 3, 8))) for out in node.outs)
                if rng.random() < 0.3:
                    self.dear.update(node.outs)
        self.outputs = rng.sample(values, 2)

    def has_all(self, stored):
        """Can the outputs be computed from *stored* and what is at hand?"""
        known = {self.inputs[1], *stored}
        for node in self.nodes:
            if self.dear.isdisjoint(node.outs) and known.issuperset(node.inputs):
                known.update(node.outs)
        return known.issuperset(self.outputs)

    def least(self):
        chosen = itertools.chain.from_iterable(
            itertools.combinations(self.price, size) for size in range(len(self.price) + 1)
        )
        return min(sum(self.price[v] for v in stored) for stored in chosen if self.has_all(stored))


@pytest.mark.parametrize("seeds", [range(k, k + 50) for k in range(0, 300, 50)])
def test_no_other_choice_is_cheaper(seeds):
    for seed in seeds:
        step = _Step(seed)
        stored = least_stored(step.nodes, step.outputs, step.dear, step.price)
        assert step.has_all(stored), seed
        assert sum(step.price[v] for v in stored) == step.least(), seed


def test_of_equal_cuts_the_one_that_leaves_least_to_do():
    carry, a, b = (Var(Aval(FLOAT, ())) for _ in range(3))
    nodes = [Node(None, (carry,), {}, (a,), None), Node(None, (a,), {}, (b,), None)]
    assert least_stored(nodes, [b], {carry}, {carry: 8, a: 8, b: 8}) == {b}
    assert least_stored(nodes, [a, b], {carry}, {carry: 8, a: 8, b: 8}) == {a}


# ---- in loops ------------------------------------------------------------------------------------------------------


def bodies(f, *args):
    """The bodies of the loops in the program of *f*'s gradient, the forward one first, as lists of primitives' names;
    and the gradient."""
    gradient = f.grad(*args)
    ((path,),) = [v.paths for e in f._endpoints.values() for vs in e.variants.values() for v in vs]
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
        v.paths[0].program for e in f._endpoints.values() for vs in e.variants.values() for v in vs
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
