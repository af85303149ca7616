"""Random functions with loops: values as of plain Python, gradients as of the same code without loop nodes."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest
from converted_loops import converted
from random_loops import Program
from tracing import Traced, check_value


def function(seed: int) -> tuple[Any, str]:
    """The random function of *seed*, and its text."""
    text = Program(seed).text()
    name = f"<random loops {seed}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), scope)
    return scope["f"], text


def check(seed: int) -> None:
    f, text = function(seed)
    x = np.random.default_rng(seed).uniform(0.2, 0.9, 20)
    g, ones = converted(f, text), [np.ones(())]
    check_value(g, [x])
    (found,), (wanted,) = Traced(g, [x], ones).grads, Traced(f, [x], ones).grads
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed: int) -> None:
    check(seed)
