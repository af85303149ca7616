"""Integers of loops in all that Python does with an integer: one run, the values of plain Python, whatever the loop."""

from __future__ import annotations

import math
import operator
import random
import statistics
from functools import reduce
from types import SimpleNamespace

import numpy as np
import pytest
from with_source import code_of

from tracegrad import compile_grad

LIST, TUPLE, TABLE = [0.5, 1.5, 2.5], (0.5, 1.5, 2.5), {0: 0.5, 1: 1.5, 2: 2.5}
ARRAY, INDICES = np.array(LIST), [(7 * k) % 13 for k in range(30)]
EXPRESSIONS = """
pow(k, 2, 7) | math.comb(k, 2) | math.gcd(k, 6) | math.ldexp(1.0, k % 4) | divmod(k, 3)[1] | round(k, -1)
len(bin(k)) | k.bit_length() | len("a" * k) | len([0] * k) | len(range(k)) | sum(range(k)) | max(range(k + 1))
reduce(operator.add, range(k + 1)) | (3 in range(k)) | list(range(k))[-1:] == [2] | sum([i for i in range(k)])
any(i == k for i in range(3)) | sum(2.0 * i for i in range(k)) | sum(map(float, range(k))) | 2 ** k % 11
k << 1 | hash(k) % 7 | LIST[k % 3] | LIST[k % 2 :][0] | TUPLE[k % 3] | TABLE[k % 3] | TABLE.get(k % 3, 0.5)
(k in TABLE) | (k in LIST) | {k: 1}[k] | {k, 1, 2} == {1, 2} | len(str(k)) | len(f"{k}") | float(str(k))
"%d" % k == "3" | chr(97 + k % 3) == "a" | "abc"[k % 3] == "b" | isinstance(k, int) | type(k) is int | k.real
ARRAY[: k % 3].sum() | np.ones((k % 3 + 1, 2)).sum() | np.linspace(0, 1, k + 2)[1] | np.roll(ARRAY, k)[0]
x[k % 3] ** k | (-1) ** k | 0.9 ** k | np.random.default_rng(k).normal() | random.Random(k).random()
int.__add__(k, 2) | statistics.mean([k, 2]) | dict(zip(range(3), LIST))[k % 3] | range(k) == range(3) | bool(range(k))
setattr(BOX, "last", k) or BOX.last
"""  # fmt: skip
LOOPS = {
    "range": "for k in range(30):\n  s = s * 0.5 + ({})",
    "while": "k = 0\n while k < 30:\n  s = s * 0.5 + ({})\n  k += 1",
    "list": "for k in INDICES:\n  s = s * 0.5 + ({})",
    "pairs": "for k, w in enumerate(INDICES):\n  s = s * 0.5 + w * ({})",
    "nested": "for j in range(6):\n  for k in range(j, 12):\n   s = s * 0.5 + ({})",
    "comprehension": "s = s + sum([0.5 ** (k % 5) * ({}) for k in range(30)])",
}
SPACE = {
    "math": math, "operator": operator, "random": random, "statistics": statistics, "reduce": reduce, "np": np,
    "LIST": LIST, "TUPLE": TUPLE, "TABLE": TABLE, "ARRAY": ARRAY, "INDICES": INDICES, "BOX": SimpleNamespace(last=0),
}  # fmt: skip


def check(loop):
    texts = [text.strip() for line in EXPRESSIONS.strip().split("\n") for text in line.split(" | ")]
    source = [f"def f{k}(x):\n s = np.sum(x)\n {LOOPS[loop].format(text)}\n return s\n" for k, text in enumerate(texts)]
    space, wrong = dict(SPACE), []
    exec(code_of("\n".join(source), loop), space)
    for k, text in enumerate(texts):
        fn = space[f"f{k}"]
        x = np.array([0.3, 0.7, 1.1])
        f = compile_grad(fn)
        found = [f(x), f(x)]
        if not np.allclose(found, fn(x), rtol=1e-12) or f.stats.traces > 1 or f.stats.live:
            wrong.append((text, found, fn(x), f.stats.traces, f.stats.live))
    assert not wrong


def test_counters_of_ranges():
    check("range")


@pytest.mark.slow
@pytest.mark.parametrize("loop", [name for name in LOOPS if name != "range"])
def test_integers_of_other_loops(loop):
    check(loop)
