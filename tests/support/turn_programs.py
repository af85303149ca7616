"""Random programs whose loops branch, stop and count by what is asked of arguments and of values of the loop.  Called
in turns with arguments that go other ways they give what plain Python gives, and after some rounds nothing is recorded.

``python turn_programs.py FIRST COUNT`` runs seeds and prints those that fail."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
from with_source import code_of

from tracegrad import compile_grad
from tracegrad.tracer.ir.settings import optimiser

POINTS = np.array([
    [1.0, 0.5, 0.3, 0.2], [-1.0, 0.5, -0.3, 0.2], [0.6, -0.5, 0.3, -0.2], [-0.4, -0.5, -0.3, -0.2], [0.1, 0.9, 0.2, 0.8]
])  # fmt: skip
ROUNDS = 5  # of which the last two record nothing

STARTS = ("x * 1.0", "np.zeros(4)", "x", "w[0]", "np.ones(4)", "w[0] * 1j", "np.zeros(4, complex)")
LENGTHS = (1, 3, 8, 20)
ARMS = (
    "h = h * 0.5", "h = np.linalg.solve(np.eye(4) + 0.1 * w, h)", "h = h + w[1]", "log.append(i); h = h + 0.1",
    "h = h[::-1] * 1.0", "s = s + 'a'; h = h * 0.9", "k = k + 1; h = h - 0.1", "h = np.where(abs(h) > 0.2, h, 0.1 * h)",
    "pass", "h = helper(h)", "h = np.roll(h, k)", "m = max(m, float(len(log)))", "h = np.concatenate([h[1:], h[:1]])",
)  # fmt: skip
CONDITIONS = (
    "h.real.sum() > 0", "abs(h[0]) > abs(h[1])", "x[i % 4] > 0", "np.any(h.real > 1)", "int(x[0] * 2) % 2 == 0",
    "i % 3 == 0 and h[2].real > 0", "len(log) < 3 and x[1] > 0", "k < 5 or h[3].real > 0", "np.argmax(x) == 1",
    "abs(h[0]) < 0.5", "x[2] > x[3]",
)  # fmt: skip
BODIES = (
    "if {c}:\n  {a}\nelse:\n  {b}", "if {c}:\n  {a}", "{a}\nif {c}:\n  {b}\n  break",
    "if {c}:\n  {a}\nelif {d}:\n  {b}\nelse:\n  h = h * 0.8", "t = 'up' if {c} else 'down'\nh = h * RATE[t]",
    "h = h * RATE[k % 2]\nif {c}:\n  k = k + 1", "while ({c}) and k < 30:\n  k = k + 1\n  h = h * 0.7 - 0.01",
    "while k < 30 and ({c}):\n  k += 2\n  h = h * 0.7 - 0.01",
    "n = 0\nwhile ({c}) and n < 7:\n  n += 1\n  h = h * 0.8\nk += n",
    "if {c}:\n  continue\nh = h + 0.1 * w[2]", "for j in range(3):\n  if {d}:\n    h = h * 0.9\nif {c}:\n  {a}",
    "for j in range(k, k + 3):\n  h = h * 0.9 + 0.01 * j\n  if {c}:\n    break\nk = j",
    "k += sum(1 for v in x if v > 0.1 * i)\nh = h * RATE[k % 2]", "if any(v > 0.5 + 0.1 * i for v in x):\n  {a}",
    "j = next((j for j in range(4) if x[j] > 0.25), 3)\nh = h + w[j]",
    "j = max(range(4), key=lambda j: x[j])\nh = h + w[j] * 0.1\nk += j", "log.append(h[0].real)\nif {c}:\n  log.pop()",
    "count['n'] = count.get('n', 0) + 1 if {c} else 0\nh = h * (1 + 0.01 * count['n'])",
    "try:\n  if {c}:\n    raise ValueError('no')\n  {a}\nexcept ValueError:\n  {b}",
    "if ({c}) and i > 1:\n  return np.sum(abs(h)) + k", "h = descend(h, 0)", "k = count_up(h, k)\nh = h * 0.9",
    "n = 0\nfor v in x:\n  if v < 0.1 * k:\n    break\n  n += 1\nelse:\n  h = h * 0.5\nk += n",
    "s = s + ('+' if {c} else '-')\nh = h * (1.0 + 0.01 * s.count('+'))",
    "h = h + np.sum(x[: 1 + k % 4]) * 0.1\nif {c}:\n  k += 1", "k += int(x[i % 4] * 3)\nh = np.roll(h, k)",
    "stack = [0, 1, 2]\nwhile stack and ({c}):\n  k += stack.pop()\n  h = h * 0.8",
    "last, k = k, last + (1 if {c} else 0)\nh = h + 0.01 * k", "k = k + 1 if {c} else k - 1\nh = h + 0.01 * abs(k)",
    "best = h if best is None or ({c}) else best\nh = h * 0.9 + 0.1 * best",
    "prev, h = h, h * 0.7 + 0.1\nif np.sum(abs(prev - h)) < 0.2 + 0.1 * i:\n  {b}\n  break",
    "t = 0.0\nwhile t < 1.0 and ({c}):\n  t += 0.3\n  h = h * 0.9\nm += t",
    "for j, v in enumerate(x):\n  if v > 0.4:\n    h = h + 0.1 * j\n    continue\n  k += j",
    "for v, u in zip(x, w[0]):\n  h = h + v * u if v > u else h - 0.01\nif {c}:\n  {a}",
    "seen.add(int(x[i % 4] * 2))\nh = h * (1 + 0.01 * len(seen))",
    "rows = {{j: w[j] for j in range(4) if x[j] > 0.2}}\nh = h + sum(rows.values(), np.zeros(4))",
    "pair = (h, k) if {c} else (h * 0.5, k + 1)\nh, k = pair",
    "k = (k * 3 + 1) % 7\nh = h + 0.05 * w[k % 4]",
    "k = min(k + 1, 5) if {c} else max(k - 1, 0)\nh = h * (1 + 0.01 * k)",
    "for j in range(k % 4):\n  h = h * 0.9 + 0.01 * j\nk += 1 if {c} else 2",
    "for j in range(SIZES[i]):\n  h = h * 0.9 + 0.02 * j\n{a}",
    "for j in range(ENDS[i], ENDS[i + 1]):\n  if {d}:\n    h = h + 0.1 * w[j % 4]\n  k += j",
    "j = int(np.argmax(x)) if {c} else i % 4\nh = h + 0.1 * w[j]",
    "k = int(abs(h[i % 4]) * 3) % 5\nh = h * 0.9 + 0.1 * RATE[k % 2]",
    "k = int(np.floor(abs(h[0]) * 2))\nfor j in range(k, 0, -1):\n  h = h * 0.8",
    "for j in range(4):\n  h = h * 0.95\n  if abs(h[j]) < 0.1 * i:\n    break\nk += j",
    "last = (last + SIZES[i]) % 4\nh = h + 0.1 * x[last]\n{b}",
    "some = [v for v in (h * 0.1, w[0], w[1]) if v[0].real > 0.05]\nh = h + sum(some)",
)  # fmt: skip
PROGRAM = """import numpy as np
RATE = {{"up": 0.9, "down": 1.1, 0: 0.8, 1: 1.2}}
SIZES = np.array([2, 0, 1, 3, 0, 0, 2, 1, 4, 0, 1, 1, 2, 0, 3, 1, 0, 2, 2, 1])
ENDS = np.concatenate([[0], np.cumsum(SIZES)])
def helper(h):
    return h * 1.5 if h[0].real > 0 else h * 0.5
def descend(h, depth):
    if abs(h[0]) < 0.2 or depth > 3:
        return h
    return descend(h * 0.6, depth + 1) + 0.01 * depth
def count_up(h, k):
    while abs(h[1]) * (1 + 0.1 * k) < 0.8 and k < 9:
        k += 1
    return k
def f(w, x):
    h = {start}; log = []; s = ""; k = last = 0; m = 0.0; count = {{}}; best = None; seen = set()
    for i in range({length}):
        {body}
    return np.sum(abs(h) * w[0]) + sum(log) + len(log) + len(s) + len(seen) + k + m
"""


def text(seed: int) -> str:
    """The program of a seed."""
    draw = random.Random(seed)
    a, b, c, d = [*draw.choices(ARMS, k=2), *draw.choices(CONDITIONS, k=2)]
    parts = [part.format(a=a, b=b, c=c, d=d) for part in draw.choices(BODIES, k=draw.choice((1, 1, 2)))]
    body = "\n".join(parts).replace("\n", "\n        ")
    return PROGRAM.format(start=draw.choice(STARTS), length=draw.choice(LENGTHS), body=body)


def failure(seed: int) -> str:
    """What the program of a seed does otherwise than Python; empty where that is nothing."""
    module: dict[str, Any] = {"__name__": f"turns_{seed}"}
    exec(code_of(text(seed), f"turns {seed}"), module)
    w = np.random.default_rng(seed).random((4, 4)) * 0.5
    expected = [module["f"](w, x) for x in POINTS]
    f, recorded = compile_grad(module["f"]), []
    for _ in range(ROUNDS):
        for x, value in zip(POINTS, expected, strict=True):
            found, _ = f.value_and_grad(w, x)
            if not np.allclose(found, value, rtol=1e-9, atol=1e-9):
                return f"{found} in place of {value}"
        recorded.append(f.stats.traces)
    if f.stats.live:
        return f.stats.live
    return "" if recorded[-1] == recorded[2] else f"recorded {recorded} times"


if __name__ == "__main__":
    optimiser.level = 0
    first, count = map(int, sys.argv[1:3])
    for seed in range(first, first + count):
        if said := failure(seed):
            print(seed, said, flush=True)
