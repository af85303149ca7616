"""Objects that a loop makes anew in each iteration: which of them are one object stays so in it, and after it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from selection import some
from with_source import code_of

from tracegrad import UnsupportedError, compile_grad


@dataclass
class Data:
    x: Any


class Slots:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


class Plain:
    def __init__(self, x: Any, next: Any = None) -> None:
        self.x, self.next = x, next


def two_names_of_a_list(w):
    a = b = [w[0]]
    s = 0.0
    for _ in range(20):
        a[0] = a[0] + 1.0
        s = s + b[0]
        a = b = [a[0] * 0.9]
    return s + w[1]


def two_names_of_an_object(w):
    a = b = Data(w[0])
    s = 0.0
    for _ in range(20):
        a.x = a.x + 1.0
        s = s + b.x
        a = b = Data(a.x * 0.9)
    return s + w[1]


def written_after_the_loop(w):
    a = b = Slots(w[0])
    s = 0.0
    for _ in range(20):
        c = Slots(a.x * 0.9)
        a = b = c
        s = s + b.x
    a.x = a.x + 5.0
    return s + w[1] + b.x + 2.0 * c.x


def one_in_another(w):
    a = Plain(w[0])
    b = Plain(w[1], a)
    for _ in range(20):
        a = Plain(a.x * 0.9 + 0.1)
        b = Plain(b.x + b.next.x, a)
    a.x = a.x * 3.0
    return b.x + b.next.x


def in_itself(w):
    a = Plain(w[0])
    a.next = a
    for _ in range(20):
        c = Plain(a.x * 0.9 + a.next.x * 0.05)
        c.next = c
        a = c
    a.x = a.x + w[1]
    return a.next.next.x


def written_by_way_of_another(w):
    first = Data(w[0])
    total = w[1]
    for _ in range(6):
        a = first
        for _ in range(8):
            first.x = first.x + 0.1
            total = total + a.x
            a = Data(a.x * 0.9)
    return total


def told_apart(w):
    total = w[1]
    for _ in range(6):
        first = a = [w[0]]
        for _ in range(10):
            if a is first:
                total = total + 100.0
            a = [a[0] * 0.9]
        total = total + a[0]
    return total


def told_apart_by_equality(w):
    total = w[1]
    for _ in range(6):
        first = a = Plain(w[0])
        for _ in range(10):
            total = total + (1.0 if a == first else 0.5)
            if a in (first, None):
                total = total + 10.0
            a = Plain(a.x * 0.9)
        total = total + a.x
    return total


def held_by_a_list(w):
    a = Plain(w[0])
    kept = [a]
    for k in range(12):
        if k % 3 == 2:
            a = Plain(a.x * 0.9)
            kept.append(a)
        a.x = a.x + w[1]
    return sum(k.x for k in kept)


def one_of_several(w):
    layers = [Plain(w[0]), Plain(w[1])]
    for _ in range(20):
        m = layers[0]
        m.x = m.x * 0.9 + 0.1
    m.x = m.x + 5.0
    return layers[0].x + layers[1].x


def last_of_a_loop(w):
    s = w[0]
    for _ in range(20):
        s = s * 0.9
        p = q = Slots(s + w[1])
        r = [p]
    q.x = q.x + 1.0
    return p.x + r[0].x


def two_names_after_it(w):
    a = o = Plain(w[1] * 0.8)
    t = n = 0.0
    while n < 9:
        n += 1
        t = t * 0.9 + o.x
        a = o = Plain((w[0] + 0.04) * 0.7)
    o.x = o.x * 0.38 + 0.25
    return t + a.x + 5.0 * o.x


def until_it_is_small(w):
    a = b = Data(w[0])
    n = 0
    while a.x > 0.1:
        a = b = Data(b.x * 0.8)
        n += 1
    a.x = a.x + w[1]
    return b.x * n


PROGRAMS = (
    two_names_of_a_list, two_names_of_an_object, written_after_the_loop, one_in_another, in_itself,
    written_by_way_of_another, told_apart, told_apart_by_equality, held_by_a_list, one_of_several, last_of_a_loop,
    two_names_after_it, until_it_is_small,
)  # fmt: skip


@pytest.mark.parametrize("program", some(PROGRAMS, quick=5))
def test_one_object_stays_one(program):
    f = compile_grad(program)
    for k in range(3):
        w = np.array([1.0 + 0.3 * k, 2.0 - 0.1 * k])
        value, gradient = f.value_and_grad(w)
        assert value == pytest.approx(program(w), rel=1e-12)
        step = 1e-6 * np.eye(2)
        expected = [(program(w + h) - program(w - h)) / 2e-6 for h in step]
        assert gradient == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", [Data, Slots, Plain])
def test_objects_that_are_made_anew_are_carried(kind):
    def decays(w):
        a = kind(w[0])
        while a.x > 1e-3:
            a = kind(a.x * w[1])
        return a.x

    f = compile_grad(decays)
    for x in (3.0, 50.0, 0.7):
        assert f(np.array([x, 0.8])) == pytest.approx(decays(np.array([x, 0.8])), rel=1e-12)
    assert f.stats.traces == 1 and "until it stops by itself" in f.explain(np.array([3.0, 0.8]), level="all")


def nested(x, log, seen):
    for j in range(20):
        log.append([log[-1] if log else 0.5])
        if j > 11:
            return x[0]
    return x[1]


def together(x, log, seen):
    log.append([0.5])
    for _ in range(20):
        log.append([x[0] * 1.0])
        seen.append((log[-1], log[-2]))
    return x[1]


def parts(x, log, seen):
    keep = {"a": [x[0]]}
    for k in range(20):
        keep = {"a": keep["a"], "b": [x[1] * k]}
        seen.append(keep)
    return x[1]


def identities(value, known):
    """*value*, with the numbers of the lists and dicts that were met before."""
    if not isinstance(value, list | tuple | dict):
        return float(value)
    if isinstance(value, list | dict) and id(value) in known:
        return f"number {known[id(value)]}"
    known.setdefault(id(value), len(known))
    items = value.values() if isinstance(value, dict) else value
    return [identities(item, known) for item in items]


@pytest.mark.parametrize("f", [nested, together, parts])
def test_containers_of_a_loop_that_is_no_node_are_those_that_others_hold(f):
    compiled = compile_grad(f)
    for _ in range(2):
        state, plain = [([], []) for _ in range(2)]
        x = np.array([0.5, 1.5])
        assert compiled(x, *state) == f(x, *plain)
        assert identities(state, {}) == identities(plain, {})


TUPLES = {
    "kept": "for k in range(30):\n    s = s * 0.9\n    if k == 40: first = (s, x)\nn = first is out[0]",
    "read": "for k in range(30):\n    s = s * 0.9 + first[0]\n    if k == 40: first = (s, x)\nn = first is out[0]",
    "exchanged": "other = (s, x)\nfor k in range(30):\n    s = s * 0.9 + first[0]\n    first, other = other, first\n"
    "n = first is out[0]",
    "two names": "for k in range(30):\n    first = (first[0] * 0.9, x)\n    last = first\nn = last is first",
    "a dict": "for k in range(30):\n    first = (first[0] * 0.9, x)\n    d['last'] = first\nn = d['last'] is first",
    "inside": "pair = (first, 1.0)\nfor k in range(30): pair = (pair[0], s * 0.9)\nn = pair[0] is first",
    "asked in the loop": "now = first; n = 0\nfor k in range(30):\n    s = s * 0.9 + now[0] * 0.1\n"
    "    if now is first: n += 1\n    now = (s, x)",
    "frozen": "first = out[0] = Frozen(s, x)\nfor k in range(30):\n    s = s * 0.9 + first.a\n"
    "    if k == 40: first = Frozen(s, x)\nn = first is out[0]",
}  # fmt: skip


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any


@pytest.mark.parametrize("before", ["", "time.time()\n"], ids=["logged", "live"])
@pytest.mark.parametrize("name", TUPLES)
def test_a_tuple_that_a_loop_passes_on_is_the_one_from_before(name, before):
    lines = (before + "s, d = x[0], {}\nfirst = (s, x)\nout = [first]\n" + TUPLES[name] + "\nreturn s + n").split("\n")
    space = {"time": time, "Frozen": Frozen}
    exec(code_of("def f(x):\n" + "".join(f"    {line}\n" for line in lines), "tuples"), space)
    f, g = space["f"], compile_grad(space["f"])
    x = np.array([0.5, 0.9, 1.1])
    for k in range(3):
        try:
            found = g(x + k)
        except UnsupportedError as error:
            assert before and "for which a loop has made others" in str(error)
            return
        assert found == pytest.approx(f(x + k), rel=1e-12)
