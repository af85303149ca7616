"""Whole Python programs made by Hypothesis: branches, loops, early returns and in-place writes over NumPy arrays.

A program is data, a list of instructions; ``run`` is the user's function that obeys them, so its Python control flow
is what the recorder sees.  Each program is called with several inputs, so that replays, guard misses and siblings all
happen; every answer must be plain NumPy's, and every gradient that of central differences.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from selection import TIMES

from tracegrad import compile_grad

EXAMPLES = 25 * TIMES
REGISTERS = 3

UNARY = {
    "sin": np.sin,
    "tanh": np.tanh,
    "bell": lambda v: np.exp(-v * v),
    "shift": lambda v: np.concatenate([v[1:], v[:1] * 0.5]),
    "reverse": lambda v: v[::-1],
    "centre": lambda v: v - np.mean(v),
    "root": lambda v: np.sqrt(1.0 + v * v),
    "running": lambda v: np.cumsum(v) / len(v),
}
BINARY = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "ratio": lambda a, b: a / (1.0 + b * b),
    "choose": lambda a, b: np.where(a > b, a, 0.5 * b),
    "scaled": lambda a, b: a * np.sum(b * b) / (1.0 + np.sum(b * b)),
}

register = st.integers(0, REGISTERS - 1)
simple = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), register, register),
    st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY)), register, register, register),
    st.tuples(st.just("write"), register, register),
    st.tuples(st.just("add in place"), register, st.sampled_from([0.25, -0.5])),
)


def blocks(inner: st.SearchStrategy) -> st.SearchStrategy:
    body = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), register, st.sampled_from([-0.5, 0.0, 0.5]), body, body),
        st.tuples(st.just("for"), st.integers(0, 3), body),
        st.tuples(st.just("while"), register, body),
        st.tuples(st.just("return early"), register, register),
    )


programs = st.lists(st.recursive(simple, blocks, max_leaves=6), min_size=1, max_size=5)


class Done(Exception):  # noqa: N818  (no error: a return)
    """An early return: raised and caught inside the user's function."""

    def __init__(self, result):
        self.result = result


def obey(program, values, taken):
    for step in program:
        kind = step[0]
        if kind == "unary":
            _, name, source, target = step
            values[target] = UNARY[name](values[source])
        elif kind == "binary":
            _, name, first, second, target = step
            values[target] = BINARY[name](values[first], values[second])
        elif kind == "write":
            _, source, target = step
            copy = values[target].copy()
            copy[1:] = values[source][:-1] * 0.5
            values[target] = copy
        elif kind == "add in place":
            _, target, amount = step
            copy = values[target] * 1.0
            copy += amount
            values[target] = copy
        elif kind == "if":
            _, source, bound, yes, no = step
            outcome = bool(np.sum(values[source]) > bound)
            taken.append(outcome)
            obey(yes if outcome else no, values, taken)
        elif kind == "for":
            for _ in range(step[1]):
                obey(step[2], values, taken)
        elif kind == "while":
            rounds = 0
            while rounds < 3 and np.max(values[step[1]]) > 0.4:
                values[step[1]] = values[step[1]] * 0.6
                obey(step[2], values, taken)
                rounds += 1
            taken.append(rounds)
        else:
            _, source, result = step
            outcome = bool(values[source][0] > 0.3)
            taken.append(outcome)
            if outcome:
                raise Done(values[result])


def make(program):
    def run(x):
        values = [x, x * 0.5, np.sin(x)]
        try:
            obey(program, values, [])
            result = values[0] * values[1] + values[2]
        except Done as done:
            result = done.result
        return np.sum(result * result)

    return run


def branches(program, x):
    values, taken = [x, x * 0.5, np.sin(x)], []
    with contextlib.suppress(Done):
        obey(program, values, taken)
    return taken


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs, st.integers(0, 2**31))
def test_plain_python_compiled(program, seed):
    rng = np.random.default_rng(seed)
    plain = make(program)
    compiled = compile_grad(plain)
    inputs = [rng.uniform(-1.2, 1.2, 4) for _ in range(3)]
    assume(all(np.isfinite(plain(x)) for x in inputs))
    for x in (inputs[0], inputs[0], inputs[1], inputs[2], inputs[1], inputs[0]):
        value, gradient = compiled.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), rtol=1e-11, atol=1e-11)
        direction, step = rng.normal(size=4), 1e-6
        ahead, behind = x + step * direction, x - step * direction
        if branches(program, ahead) == branches(program, behind) == branches(program, x):
            slope = (plain(ahead) - plain(behind)) / (2 * step)
            scale = 1.0 + abs(slope) + np.max(np.abs(gradient))
            assert abs(gradient @ direction - slope) < 1e-6 * scale
