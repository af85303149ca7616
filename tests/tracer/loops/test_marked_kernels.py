"""Loops over symbols as kernels: the results of the interpreter, and what was recorded does not depend on the number of
iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compiled_graph import CompiledGraph
from converted_loops import converted
from test_for_loops import CASES
from test_random_loops import function
from tracing import Traced, leaves


def check_compiled(f: Any, *args: Any) -> None:
    """Value and gradient of *f* from a kernel are those of the interpreter."""
    weights = [np.ones(np.shape(leaf)) for leaf in leaves(f(*[np.array(a) for a in args]))]
    traced = Traced(f, args, weights)
    compiled = CompiledGraph(traced.graph)
    found = compiled.run(args)
    assert compiled.failed == -1
    for result, wanted in zip(found, [*traced.values, *traced.grads], strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("f", "arg"), CASES[::4])
def test_compiled(f, arg):
    check_compiled(converted(f), np.asarray(arg))


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_program_compiled(seed):
    f, text = function(seed)
    check_compiled(converted(f, text), np.random.default_rng(seed).uniform(0.2, 0.9, 20))


def state(x, n):
    for _ in range(n):
        x = x + 0.001 * np.sin(x)
    return x


def buffer(x, n):
    z = np.zeros_like(x, shape=(n,))
    for i in range(1, n):
        z[i] = z[i - 1] * 0.9 + x / i
    return np.sum(z)


def history(x, n):
    hs = [x]
    for i in range(n):
        hs.append(np.sin(hs[-1]) + 0.1 * i)
    return np.sum(np.stack(hs))


def nest(x, n):
    D = np.zeros_like(x, shape=(n, n))
    for i in range(1, n):
        for j in range(1, i):
            D[i, j] = D[i - 1, j - 1] + D[i, j - 1] * x
    return np.sum(D)


def until(x, n):
    k = 0
    while k < n and x < 1e9:
        x = x * 1.0001
        k += 1
    return x


@pytest.mark.parametrize("f", [state, buffer, history, nest, until])
def test_as_many_nodes_for_any_number_of_iterations(f):
    sizes = (40, 80) if f is nest else (40, 400)  # NumPy goes through all iterations
    counts = [len(Traced(lambda x, n=n: converted(f)(x, n), [np.array(0.3)], [np.ones(())]).graph.nodes) for n in sizes]
    assert counts[0] == counts[1] < 60
