"""Random straight-line programs with `if`s on their values: what families of paths are tried on.

python tests/support/branching.py 0 500    # hunt: seeds 0 to 499
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from with_source import code_of

from tracegrad import compile_grad

N, INPUTS, CALLS = 30, 8, 48

STEPS = (
    "v = np.tanh(w @ v)",
    "v = v * x + {c}",
    "v = np.exp(-v * v) / (1.0 + np.sum(v * v))",
    "v = v - 0.9 * np.mean(v)",  # of exact zeros rounding would decide which side they are on
    "s = s + np.sum(v * x)",
    "s = s + np.max(v) * {c}",
    "v = v @ w * {c}",
    "for _ in range(12): v = np.sin(v) * 0.9 + {c} * x",
    "v = np.cumsum(v) * 0.1",
    "u = np.tanh({c} * x); v = v + u * u",
    "v = np.where(v > {c}, v * 0.5, x)",
)
QUESTIONS = ("np.sum(v) > {c}", "v[0] > v[3]", "s > {c}", "np.max(np.abs(v)) > 0.8", "np.sum(w[0] * v) > 0.0")


def source(seed: int) -> str:
    rng = random.Random(seed)
    lines = ["def f(x, w):", "    v, s = x * 1.0, 0.0"]

    def number() -> float:
        return round(rng.uniform(-1.0, 1.0), 2)

    def block(indent: str, depth: int) -> None:
        for _ in range(rng.randint(1, 4)):
            if depth and rng.random() < 0.4:
                lines.append(f"{indent}if {rng.choice(QUESTIONS).format(c=number())}:")
                block(indent + "    ", depth - 1)
                if rng.random() < 0.6:
                    lines.append(f"{indent}else:")
                    block(indent + "    ", depth - 1)
            else:
                lines.append(indent + rng.choice(STEPS).format(c=number()))

    block("    ", 2)
    block("    ", 2)
    lines.append("    return s + np.sum(v * v)")
    return "\n".join(lines) + "\n"


def function(seed: int) -> Callable[..., Any]:
    space: dict[str, Any] = {"np": np, "__name__": "branching", "__spec__": None}
    exec(code_of(source(seed), f"branching {seed}"), space)
    return space["f"]


def check(seed: int) -> tuple[int, int]:
    """Inputs in random order through one function give the bits that a function of its own gives for each.  Returns
    (paths, steps that they share)."""
    plain, rng = function(seed), np.random.default_rng(seed)
    scale = (0.3, 1.0, 2.0)
    inputs = [(scale[k % 3] * rng.normal(size=N), rng.normal(size=(N, N)) / 5) for k in range(INPUTS)]
    alone = [compile_grad(plain).value_and_grad(*args) for args in inputs]
    for args, (value, _) in zip(inputs, alone, strict=True):
        np.testing.assert_allclose(value, plain(*args), rtol=1e-8, atol=1e-10)
    f = compile_grad(plain)
    order = [*range(INPUTS), *range(INPUTS), *rng.integers(0, INPUTS, CALLS).tolist()]
    for call, k in enumerate(order):
        value, gradient = f.value_and_grad(*inputs[k])
        assert value == alone[k][0] and gradient.tobytes() == alone[k][1].tobytes(), (seed, call, k, value, alone[k][0])
    merged = [family.merged for family in f._both.owners if family.merged is not None]
    return len(f.stats.paths), sum(m.shared for m in merged)


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    found = [check(seed) for seed in range(first, first + count)]
    print(f"{count} programs, {sum(p for p, _ in found)} paths, {sum(s for _, s in found)} steps shared: no difference")
