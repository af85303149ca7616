"""Loops over lists of lists, dicts and objects that the run has made: a copy stands for each, made of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from selection import some

from tracegrad import compile_grad, make_graph

X = np.array([0.5, 0.9, 1.1])
OUTSIDE = [[0.1 * k, 0.2] for k in range(30)]


class Body:
    def __init__(self, pos: Any, mass: Any) -> None:
        self.pos, self.mass = pos, mass

    @property
    def weight(self) -> Any:
        return self.mass * 9.81

    def energy(self) -> Any:
        return self.mass * np.sum(self.pos**2)

    def move(self, by: Any) -> None:
        self.pos = self.pos + by


@dataclass
class Node:
    value: Any
    near: list[Any] = field(default_factory=list)


def bodies(x, n=30):
    found = []
    for k in range(n):
        found.append(Body(x * np.cos(0.1 * k), 1.0 + 0.1 * k + x[0]))
    return found


def methods_called(x):
    return sum(b.energy() + b.weight for b in bodies(x))


def in_a_loop(x):
    s = 0.0
    for b in bodies(x):
        s = np.tanh(s + b.energy() * 0.1) + b.pos[1]
    return s


def with_numbers(x):
    s = 0.0
    for k, (b, y) in enumerate(zip(bodies(x), np.linspace(0, 1, 30), strict=True)):
        s = s * 0.9 + b.energy() * y + k
    return s


def from_the_end(x):
    s = 0.0
    for b in reversed(bodies(x)):
        s = s * 0.9 + b.energy()
    return s


def until_it_is_large(x):
    s = 0.0
    for b in bodies(x):
        s = s + b.energy()
        if s > 20.0:
            break
    return s


def pairs_of_lists(x):
    rows = [[x[0] * k, x[1] + k] for k in range(30)]
    s = 0.0
    for a, b in rows:
        s = np.sin(s + a * b)
    return s


def dicts(x):
    rows = [{"n": k, "w": x[0] * k, "v": x * k} for k in range(30)]
    s = 0.0
    for row in rows:
        s = np.sin(s + row["w"] * row["n"]) + np.sum(row["v"])
    return s


ROLLED = (methods_called, in_a_loop, with_numbers, from_the_end, pairs_of_lists, dicts)

# ---- which object is which, and what is changed, is as in Python ---------------------------------------------------


def moved_in_the_loop(x):
    found = bodies(x)
    for b in found:
        b.move(0.1 * x)
    return sum(b.energy() for b in found)


def written_by_index(x):
    found, s = bodies(x), 0.0
    for k, b in enumerate(found):
        found[k].mass = found[k].mass * 2.0
        s = s + b.mass
    return s


def another_written(x):
    found, s = bodies(x), 0.0
    for b in found:
        found[20].pos = found[20].pos + 0.1 * b.pos
        s = s + b.energy()
    return s + found[20].energy()


def arrays_written(x):
    found = bodies(x)
    for b in found:
        b.pos += 0.1
    return sum(b.energy() for b in found)


def told_by_identity(x):
    found, s = bodies(x), 0.0
    for b in found:
        if b is not found[7]:
            s = s * 0.9 + b.energy()
    return s


def all_pairs(x):
    found, s = bodies(x, 18), 0.0
    for a in found:
        for b in found:
            if a is not b:
                s = s + np.tanh(a.pos @ b.pos)
    return s


def last_kept(x):
    found, best = bodies(x), None
    for b in found:
        best = b
    best.mass = best.mass * 3.0
    return sum(b.energy() for b in found)


def largest_kept(x):
    found = bodies(x)
    best = found[0]
    for b in found:
        if b.energy() > best.energy():
            best = b
    best.mass = best.mass * 3.0
    return sum(b.energy() for b in found)


def put_into_others(x):
    found, held = bodies(x), []
    for b in found:
        held.append((b, b.mass))
    found[3].mass = found[3].mass * 4.0
    held[5][0].mass = held[5][0].mass * 5.0
    return sum(b.energy() * m for b, m in held) + sum(b.energy() for b in found)


def keys_of_a_dict(x):
    found, s = bodies(x), 0.0
    seen = {b: 0.1 * k for k, b in enumerate(found)}
    for b in found:
        s = s + b.energy() * seen[b]
    return s


def numbers_by_id(x):
    found, s = bodies(x), 0.0
    seen = {id(b): 0.1 * k for k, b in enumerate(found)}
    for b in found:
        s = s + b.energy() * seen[id(b)]
    return s


def in_a_set(x):
    found, s = bodies(x), 0.0
    odd = set(found[::2])
    for b in found:
        s = s * 0.9 + (b.energy() if b in odd else 0.0)
    return s


def found_in_a_list(x):
    found, s = bodies(x), 0.0
    for b in found:
        s = s * 0.9 + b.energy() * found.index(b)
    return s


def one_part_of_all(x):
    shared = [x[0]]
    nodes = [Node(x[1] * k, shared) for k in range(30)]
    s = 0.0
    for n in nodes:
        s = np.sin(s + n.value * n.near[0])
    shared[0] = x[2]
    return s + nodes[3].near[0]


def one_part_of_all_changed(x):
    shared = [x[0]]
    nodes = [Node(x[1] * k, shared) for k in range(30)]
    s = 0.0
    for n in nodes:
        shared[0] = shared[0] * 0.9
        s = np.sin(s + n.value * n.near[0])
    return s


def parts_changed(x):
    nodes = [Node(x[1] * k, [x[0]]) for k in range(30)]
    s = 0.0
    for n in nodes:
        nodes[4].near[0] = nodes[4].near[0] + 1.0
        s = s * 0.9 + n.value * n.near[0]
    return s


def parts_grow(x):
    nodes = [Node(x[1] * k, [x[0]]) for k in range(30)]
    for n in nodes:
        n.near.append(n.value)
    return sum(n.near[-1] * n.near[0] for n in nodes)


def from_outside(x):
    s = 0.0
    for a, b in OUTSIDE:
        s = np.sin(s + a * x[0] + b)
    return s


def outside_in_a_list_of_the_run(x):
    rows, s = list(OUTSIDE), 0.0
    for row in rows:
        s = np.sin(s + row[0] * x[0] + row[1])
    return s


def tuples_told_by_identity(x):
    pairs, s = [(x[0] * k, x[1]) for k in range(30)], 0.0
    for q in pairs:
        s = s * 0.9 + q[0]
        row = q
    return s + sum(q is pairs[2] for q in pairs) + sum(q is row for q in pairs) * x[2]


def set_by_hand(x):
    found, s = bodies(x), 0.0
    for k, b in enumerate(found):
        setattr(found[(k + 1) % 30], "mass", b.mass * 0.5)  # noqa: B010
        s = s * 0.9 + b.energy()
    return s


def its_dict_changed(x):
    found, s = bodies(x), 0.0
    for k, b in enumerate(found):
        vars(found[(k + 1) % 30])["mass"] = b.mass * 0.5
        s = s * 0.9 + b.energy()
    return s


AS_PYTHON = (
    moved_in_the_loop, written_by_index, another_written, arrays_written, told_by_identity, all_pairs, last_kept,
    largest_kept, put_into_others, keys_of_a_dict, numbers_by_id, in_a_set, found_in_a_list, one_part_of_all,
    one_part_of_all_changed, parts_changed, parts_grow, from_outside, outside_in_a_list_of_the_run, until_it_is_large,
    set_by_hand, its_dict_changed, tuples_told_by_identity,
)  # fmt: skip


def check(f: Any) -> None:
    compiled, move = compile_grad(f), np.array([0.6, -0.3, 0.7])
    for given in (X, X * 0.7):
        OUTSIDE[3][1] += 0.1
        for _ in range(2):
            value, gradient = compiled.value_and_grad(given.copy())
            np.testing.assert_allclose(value, f(given.copy()), rtol=1e-12)
        slope = (f(given + 1e-6 * move) - f(given - 1e-6 * move)) / 2e-6
        np.testing.assert_allclose(np.sum(gradient * move), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("f", some(ROLLED, quick=3))
def test_loops_over_containers_are_loop_nodes(f):
    check(f)
    assert len(make_graph(f)(X).graph.nodes) < 90


@pytest.mark.parametrize("f", some(AS_PYTHON, quick=10))
def test_containers_are_those_of_python(f):
    check(f)


# ---- what the caller gets is one object -----------------------------------------------------------------------------


def last_of_a_list(x, kept):
    found = bodies(x)
    s = 0.0
    for b in found:
        s = s + b.energy()
    return b, found, s


def kept_in_a_list(x, kept):
    found, s = bodies(x), 0.0
    for b in found:
        s = s + b.energy()
        kept.append(b)
    return kept[-1], found, s


def kept_first(x, kept):
    found, s, first = bodies(x), 0.0, None
    for k, b in enumerate(reversed(found)):
        s = s + b.energy()
        if k == 0:
            first = b
    return first, found, s


def kept_in_a_set(x, kept):
    found, s, seen = bodies(x), 0.0, set()
    for b in found[-1:] * 20:
        s = s + b.energy()
        seen.add(b)
    for b in found:
        s = s + b.energy()
        seen.add(b)
    return next(iter(seen & {found[-1]})), found, s + len(seen)


def kept_in_an_object(x, kept):
    found, s, keeper = bodies(x), 0.0, Body(None, None)
    for b in found:
        s = s + b.energy()
        keeper.pos = b
    return keeper.pos, found, s


def returned(x, kept):
    found, s = bodies(x), 0.0
    for b in found:
        s = s + b.energy()
        if b.mass > 1.2 + 0.1 * 28:
            return b, found, s
    return None, found, s


def raised(x, kept):
    found, s = bodies(x), 0.0
    try:
        for b in found:
            s = s + b.energy()
            kept.append(b)
            [][len(kept)]
    except IndexError:
        return b, found[:1], s


@pytest.mark.parametrize(
    "f", [last_of_a_list, kept_in_a_list, kept_first, kept_in_a_set, kept_in_an_object, returned, raised]
)
def test_the_caller_gets_one_object(f):
    compiled = compile_grad(f)
    for given in (X, X * 0.7):
        for _ in range(2):
            one, found, s = compiled(given, [])
            expected = f(given, [])
            assert (one is found[-1]) == (expected[0] is expected[1][-1])
            np.testing.assert_allclose(s, expected[2], rtol=1e-12)
