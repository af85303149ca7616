"""Random programs that draw random numbers of generators outside: what a call gives, and leaves, is what plain Python
gives and leaves.  ``python draw_programs.py FIRST COUNT`` runs seeds and prints those that fail."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from with_source import code_of

from tracegrad import TracegradError, compile_grad

_HEAD = """
import random
import numpy as np

class Model:
    def __init__(self):
        self.rng, self.n, self.last = np.random.default_rng(11), 0, 0.5
        self.log = []

    def noise(self, s):
        self.n += 1
        return s * 0.5 + self.rng.normal()

rng, old, py, model = np.random.default_rng(1), np.random.RandomState(2), random.Random(3), Model()
TABLE, ROWS = [0.5, -1.0, 2.0, 0.25], np.linspace(-1.0, 1.0, 12).reshape(4, 3)

def helper(s, generator):
    if s > 0.3:
        return s * 0.7 + generator.uniform(0.0, 0.1)
    return s + 0.2 * generator.normal()

def program(x, own):
    s, t, a, kept = x[0], x[1] * 0.5, x * 1.0, []
"""
_NUMBERS = (
    "rng.normal()", "rng.random()", "rng.uniform(-1.0, 1.0)", "old.rand()", "old.randn()", "np.random.rand()",
    "np.random.normal(0.1, 0.5)", "py.random()", "py.gauss(0.0, 1.0)", "random.uniform(0.0, 1.0)", "own.normal()",
    "model.rng.exponential()", "rng.normal(s, 0.1)", "own.normal(t, 0.5)", "rng.choice(TABLE)", "py.choice(TABLE)",
    "a[rng.integers(0, 3)]", "a[np.random.randint(3)]", "ROWS[own.integers(4), 1]", "TABLE[py.randrange(4)]",
    "a[rng.permutation(3)[0]]", "rng.poisson(2.0)", "model.noise(s)", "helper(s, rng)", "helper(t, own)",
)  # fmt: skip
_ARRAYS = (
    "rng.normal(size=3)", "old.randn(3)", "np.random.uniform(size=3)", "own.random(3)", "a[rng.permutation(3)]",
    "ROWS[rng.integers(0, 4)]", "(rng.random(3) < 0.5) * a", "rng.normal(a, 0.1)", "np.random.permutation(3) * 0.1",
    "own.standard_normal(3) * s", "ROWS[own.choice(4, 2, replace=False)].sum(axis=0)",
)  # fmt: skip
_CONDITIONS = ("x[0] > 0.4", "rng.random() < 0.5", "s > t", "own.random() < 0.3", "model.n % 2 == 0", "np.sum(a) > 0")


def text_of(seed: int) -> str:
    """The module of a program."""
    r = random.Random(seed)
    lines = _block(r, 1, r.randint(3, 7), 0)
    return _HEAD + "\n".join([*lines, "    return s + t * 0.3 + np.sum(a) + sum(kept) * 0.01", ""])


def _block(r: random.Random, depth: int, count: int, loops: int) -> list[str]:
    return [line for _ in range(count) for line in _statement(r, depth, loops)]


def _statement(r: random.Random, depth: int, loops: int) -> list[str]:
    pad, kind = "    " * depth, r.random()
    if kind < 0.18 and depth < 4:
        lines = [f"{pad}if {r.choice(_CONDITIONS)}:", *_block(r, depth + 1, r.randint(1, 2), loops)]
        return [*lines, f"{pad}else:", *_block(r, depth + 1, 1, loops)] if r.random() < 0.5 else lines
    if kind < 0.38 and loops < 2:
        count = r.choice((2, 3, 5, 8, 20, 24) if loops == 0 else (2, 3, 6))
        lines = [f"{pad}for k{loops} in range({count}):", *_block(r, depth + 1, r.randint(1, 3), loops + 1)]
        if r.random() < 0.15:
            lines += [f"{pad}    if s > {r.choice((1.0, 3.0))}:", f"{pad}        break"]
        return lines
    number, array = r.choice(_NUMBERS), r.choice(_ARRAYS)
    return [pad + line for line in r.choice((
        [f"s = s * 0.8 + {number}"], [f"t = t * 0.5 - 0.1 * {number}"], [f"a = a * 0.7 + {array}"],
        [f"a[{r.randrange(3)}] = {number}"], [f"kept.append({number})"], [f"model.last = model.last * 0.5 + {number}"],
        ["order = np.arange(3)", "rng.shuffle(order)", "a = a[order]"], [f"s = np.where({number} > 0.2, s, t)"],
        ["rng.shuffle(a)"], [f"s = s + np.sum({array})"], ["np.random.seed(5)"], ["s = s + model.last"],
        ["model.log.append(float(s))"], [f"{number}"],
    ))]  # fmt: skip


class World:
    """One copy of a program and of all that it reads."""

    def __init__(self, seed: int, compiled: bool) -> None:
        space: dict[str, Any] = {"__name__": f"drawn_{seed}"}
        exec(code_of(text_of(seed), f"draws {seed}"), space)
        self.space, self.plain = space, space["program"]
        self.call: Callable[..., Any] = compile_grad(self.plain).value_and_grad if compiled else self.plain

    def run(self) -> list[Any]:
        """Results and states of a few calls."""
        np.random.seed(7)
        random.seed(8)
        own, found = np.random.default_rng(9), list[Any]()
        for k in range(5):
            x = np.array([0.3, 0.6, -0.2]) + 0.15 * k
            given = np.random.default_rng(k) if k == 3 else own
            value = self.call(x, given)
            found.append(float(value[0] if isinstance(value, tuple) else value))
        model = self.space["model"]
        left = [repr(g.bit_generator.state) for g in (self.space["rng"], own, model.rng)]
        left += [repr(self.space["old"].get_state()), repr(np.random.get_state())]
        left += [repr(self.space["py"].getstate()), repr(random.getstate()), model.n]
        return [np.array([*found, float(model.last), *map(float, model.log)]), left]


def failure(seed: int) -> str:
    """What is wrong with the program of a *seed*; "" where nothing is."""
    of_numpy, of_python = np.random.get_state(), random.getstate()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = World(seed, False).run()
            try:
                found = World(seed, True).run()
            except TracegradError as error:
                return f"refused: {error}"
    finally:
        np.random.set_state(of_numpy)
        random.setstate(of_python)
    if found[0].shape != expected[0].shape or not np.allclose(found[0], expected[0], rtol=1e-8, atol=1e-10):
        return f"values: {found[0]}, expected {expected[0]}"
    return "" if found[1] == expected[1] else "the generators, or the model, are left otherwise"


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:3])
    for seed in range(first, first + count):
        if said := failure(seed):
            print(seed, said.splitlines()[0][:300], flush=True)
