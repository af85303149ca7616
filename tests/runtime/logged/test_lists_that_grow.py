"""A list that each iteration of a loop changes is read in whatever way: the values are those of plain Python."""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from types import SimpleNamespace

import numpy as np
import pytest
from with_source import code_of

from tracegrad import compile_grad

READS = """
len(b) | bool(b) | not b | (1.0 if b else 2.0) | (b and 1.0 or 2.0) | (s in b) | (1.0 in b) | (b == []) | (b < [1.0])
len(b[:]) | len(b[1:]) | len(b + [1.0]) | len([1.0] + b) | len(b * 2) | len([*b]) | len((*b,)) | count(*b)
len(sorted(b)) | b.count(1.0) | len(b.copy()) | sum(b) | sum(v for v in b) | sum([v * 2 for v in b])
sum(map(float, b)) | max(b, default=0.5) | min([1.0, *b]) | len(list(b)) | len(tuple(b)) | len(list(reversed(b)))
len(list(enumerate(b))) | len(list(zip(b, range(99)))) | np.array(b).sum() | np.stack([x[0], *b]).sum() | np.size(b)
np.mean([1.0] + b) | len(copy.copy(b)) | len(copy.deepcopy(b)) | len(list(itertools.islice(b, 3)))
len(list(itertools.chain(b, b))) | functools.reduce(operator.add, b, 0.0) | any(b) | all(b) | (b[-1] if b else 1.0)
(b[0] if b else 1.0) | (b[-1] if len(b) > 2 else 1.0) | (b[k // 2] if b else 1.0) | total(b) | by_while(b) | first(b)
o.b is b | len(o.b) | sum(alias) | len(dict(enumerate(b))) | (b.index(b[0]) if b else 0) | matched(b) | at_five(b)
next(iter(b), 0.0) | (b.pop() if b else b.append(s) or 1.0)
""".strip()
CHANGES = {  # what b is before the loop, and what an iteration does to it
    "appended to": ("[]", "b.append(s)"),
    "outside": ("OUTSIDE", "b.append(s)"),
    "with plain numbers": ("[]", "b.append(1.5)"),
    "through an attribute": ("[]", "o.b.append(s)"),
    "added to": ("[]", "b += [s]"),
    "sometimes": ("[]", "b.append(s) if k % 3 == 0 else None"),
    "taken from": ("[1.0] * 90", "b.pop()"),
    "written": ("[1.0, 2.0, 3.0]", "b[1] = s"),
    "written anywhere": ("[1.0, 2.0, 3.0]", "b[k % 3] = s"),
    "inserted into": ("[]", "b.insert(0, s)"),
}


def count(*values):
    return len(values)


def total(values):
    t = 0.0
    for v in values:
        t = t + v
    return t


def by_while(values):
    i = 0
    while i < len(values):
        i += 1
    return i


def first(values):
    for v in values:
        return v
    return 0.0


def matched(values):
    match values:
        case []:
            return 0.0
        case [_]:
            return 1.0
        case [_, *rest]:
            return 2.0 + len(rest)


def at_five(values):
    try:
        return values[5]
    except IndexError:
        return 0.25


def check(name, reads):
    start, change = CHANGES[name]
    for read in reads:
        space = {
            "np": np, "copy": copy, "functools": functools, "itertools": itertools, "operator": operator,
            "Namespace": SimpleNamespace, "OUTSIDE": [0.5], "count": count, "total": total, "by_while": by_while,
            "first": first, "matched": matched, "at_five": at_five,
        }  # fmt: skip
        text = (
            f"def f(x):\n s = np.sum(x)\n b = {start}\n o = Namespace(b=b)\n alias = b\n for k in range(30):\n"
            f"  s = 0.9 * s + 0.01 * ({read})\n  {change}\n return s\n"
        )
        exec(code_of(text, "growing"), space)
        values = []
        for f in (space["f"], compile_grad(space["f"])):
            space["OUTSIDE"][:] = [0.5]
            values += [outcome(f), outcome(f)]
        assert values[0] is values[2] or np.allclose(values[2:], values[:2], rtol=1e-12), (read, values)


def outcome(f):
    try:
        return f(np.array([0.3, 0.7, 1.1]))
    except IndexError:
        return IndexError


EVERY = [read.strip() for line in READS.split("\n") for read in line.split(" | ")]


@pytest.mark.parametrize("name", ["appended to", "outside"])
def test_lists_that_are_appended_to(name):
    check(name, EVERY[1 + (name == "outside") :: 8])


@pytest.mark.slow
@pytest.mark.parametrize(("k", "name"), enumerate(CHANGES))
def test_lists_that_change(k, name):
    check(name, [read for read in EVERY[k % 4 :: 4] if not (".pop()" in read and name in ("outside", "taken from"))])
