"""What inputs cost that take turns between two paths with a common beginning: ``python -m benchmarks.prefixes``.

A call whose input goes another way than the one before first runs the kernel of that one, up to the branch.  Steps
that both paths have in common are then done (``runtime/paths/shared_prefix.py``).  Shown are processor times, medians:
a call on each path alone, a call on each in turn, and how much more that is.  ``--apart`` lets each path run all of its
steps.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad import compile_grad
from tracegrad.runtime.paths import family
from tracegrad.runtime.paths.shared_prefix import Merged, merge

ROUNDS = 200


def products(w: Any, v: Any, x: Any) -> Any:
    """Two products and tanh of them, then the branch; all 256 x 256."""
    h = np.tanh(np.tanh(x @ w) @ w)
    h = h @ v if np.sum(h) > 0.0 else 2.0 * h
    return np.sum(h * h)


def softmax(w: Any, x: Any) -> Any:
    """w: (500, 500), x: (500,)."""
    z = w @ x
    p = np.exp(z - np.max(z))
    p = p / np.sum(p)
    entropy = -np.sum(p * np.log(p))
    return entropy if entropy > 5.0 else np.sum(p * p)


def recurrence(w: Any, x: Any) -> Any:
    """A loop of 1,000 turns over 8 elements, then the branch."""
    h = x
    for _ in range(1000):
        h = np.tanh(w * h)
    return np.sum(h) * 2.0 if h[0] > 0.0 else np.sum(h * h)


def fused(w: Any, x: Any) -> Any:
    """The beginning shares its pass over 100,000 elements with what is behind the branch: nothing can be left out."""
    z = np.tanh(w * x)
    return np.sum(z * z) if np.sum(z) > 0.0 else np.sum(np.exp(z))


def cases() -> list[tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]]:
    rng = np.random.default_rng(0)
    w, v, x = (rng.standard_normal((256, 256)) / scale for scale in (16, 16, 1))
    square, long = rng.standard_normal((500, 500)), rng.standard_normal(100_000)
    ones = np.ones(8)
    return [
        (products, (w, v, x), (w, v, -x)),
        (softmax, (0.01 * square, np.ones(500)), (0.3 * square, np.ones(500))),
        (recurrence, (1.5 * ones, ones), (1.5 * ones, -ones)),
        (fused, (long, long), (-long, long)),
    ]


def seconds(call: Callable[..., Any], *inputs: tuple[Any, ...]) -> float:
    """Of a round that goes through *inputs*."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for args in inputs:
            call(*args)
        found.append(time.process_time() - start)
    return statistics.median(found)


def unmerged(paths: Any, following: Any, table: Any) -> Merged:
    """The same members, of which each runs all of its steps."""
    merged = merge(paths, following, table)
    merged.done = [[0] * len(row) for row in merged.done]
    return merged


def main() -> None:
    if "--apart" in sys.argv:
        family.merge = unmerged  # type: ignore[assignment]
    print("value and gradient, us    one path   the other   in turn   more than both")
    for fn, one, other in cases():
        f = compile_grad(fn)
        for _ in range(3):
            f.value_and_grad(*one), f.value_and_grad(*other)
        alone = [seconds(f.value_and_grad, args) for args in (one, other)]
        both = seconds(f.value_and_grad, one, other)
        print(f"{fn.__name__:22} " + "".join(f"{1e6 * t:12.1f}" for t in (*alone, both, both - sum(alone))))


if __name__ == "__main__":
    main()
