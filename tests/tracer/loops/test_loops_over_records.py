"""Loops that data ends and that keep their state in records: named tuples, dataclasses, objects of plain classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from agreement import numerical_gradient

from tracegrad import compile_grad, config

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.3, -0.7, 1.1, 0.5])
log = []


class Point(NamedTuple):
    x: float
    v: float


@dataclass(frozen=True)
class State:
    x: float
    v: float

    @property
    def energy(self):
        return self.x**2 + self.v**2

    def step(self, h):
        return State(self.x + h * self.v - 0.3 * h * self.x, self.v - h * self.x - h * self.v)


@dataclass
class Sum:
    x: float
    v: float

    def __post_init__(self):
        self.energy = self.x**2 + self.v**2

    def __add__(self, other):
        return Sum(self.x + other.x, self.v + other.v)

    def __mul__(self, k):
        return Sum(self.x * k, self.v * k)

    __rmul__ = __mul__


class Vector:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __add__(self, other):
        return Vector(self.a + other.a, self.b + other.b)

    def __sub__(self, other):
        return self + -other

    def __mul__(self, k):
        return Vector(self.a * k, self.b * k)

    def __neg__(self):
        return self * -1.0

    def norm(self):
        return math.sqrt(self.a * self.a + self.b * self.b)


class Body:
    scale = 0.9

    def __init__(self, x, inner, tag=None):
        self.x = x
        self.inner = inner
        self.tag = tag


def named_tuple(w):
    s = Point(w[0], w[1])
    while s.x**2 + s.v**2 > 1e-3:
        s = Point(0.9 * s.x + 0.1 * s.v, 0.8 * s.v)
    return s.x * 3 + s.v + w[2]


def frozen_with_break(w):
    s = old = State(w[0], w[1])
    while True:
        new = s.step(0.1)
        change = abs(new.x - s.x) + abs(new.v - s.v)
        old, s = s, new
        if change < 1e-3:
            break
    return old.x * 2 + s.v * s.energy


def operators(w):
    s = Sum(w[0], w[1])
    while s.energy > 1e-3:
        s = 0.5 * (s + Sum(s.v * 0.1, s.x * 0.2))
    return s.x * w[2] + s.energy


def slots(w):
    p, v = Vector(w[0], w[1]), Vector(w[2], w[3])
    while p.norm() > 0.05:
        p = p + v * 0.01 - p * 0.1
        v = -v * 0.5
    return p.a + v.b


def nested(w):
    body = Body(w[2], Point(w[0], w[1]), "a")
    while body.x**2 + body.inner.x**2 > 1e-3:
        body = Body(body.x * body.scale, Point(body.inner.x * 0.8, body.inner.v), body.tag)
    return body.x + body.inner.x + body.inner.v


@pytest.mark.parametrize("f", [
    frozen_with_break, *[pytest.param(f, marks=pytest.mark.slow) for f in (named_tuple, operators, slots, nested)]
])  # fmt: skip
def test_they_stop_by_themselves(f, monkeypatch):
    monkeypatch.setattr(config, "check", True)
    compiled = compile_grad(f)
    for k in (0, 5, 2, -3, 9, 1):
        w = X * (1 + 0.7 * k)
        value, gradient = compiled.value_and_grad(w)
        np.testing.assert_allclose(value, f(w), rtol=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(f, (w,)), rtol=1e-5, atol=1e-6)
    assert compiled.stats.traces == 1 and not compiled.stats.live


class Counted:
    made = 0

    def __init__(self, x):
        self.x = x
        Counted.made += 1


class Told:
    def __init__(self, x):
        self.y = x

    @property
    def x(self):
        log.append("x")
        return self.y

    def __mul__(self, k):
        return Told(self.y * k)


class Moved:
    def __init__(self, x, call=None):
        self.x, self.n, self.call = x, 0, call

    def move(self):
        self.x, self.n = self.x * 0.8, self.n + 1


def counts(w):
    o = Counted(w[0])
    while o.x**2 > 1e-3:
        o = Counted(o.x * 0.8)
    return o.x, Counted.made


def tells(w):
    o = Told(w[0])
    while o.x**2 > 1e-3:
        o = o * 0.8
    return o.y, len(log)


def moves(w):
    o = Moved(w[0])
    while o.x**2 > 1e-3:
        o.move()
    return o.x, o.n


def _told(x):
    log.append(1)
    return x * 0.8


def calls_a_field(w):
    o = Moved(w[0], _told)
    while o.x**2 > 1e-3:
        o = Moved(o.call(o.x), o.call)
    return o.x, len(log)


def calls_a_field_of_others(w):
    others = [Moved(0.0, _told)]
    o = Moved(w[0])
    while o.x**2 > 1e-3:
        o = Moved(others[0].call(o.x))
    return o.x, len(log)


@pytest.mark.parametrize("f", [counts, tells, moves, calls_a_field, calls_a_field_of_others])
def test_what_their_classes_do_happens(f):
    compiled = compile_grad(f, has_aux=True)
    for k in (0, 3, 1, 0, 3):
        found = []
        for call in (f, compiled):
            Counted.made = 0
            log.clear()
            value, done = call(X * (1 + 0.7 * k))
            found.append((float(value), int(done), len(log), Counted.made))
        assert found[0] == pytest.approx(found[1], rel=1e-9)
    Counted.made = 0
    log.clear()


class Star:
    def __init__(self, pos, vel, mass):
        self.pos, self.vel, self.mass = pos, vel, mass


def bodies_that_attract(x, last=False):
    bodies = [Star(x[:3] * (k + 1), x[1:] * 0.1, 1.0 + k) for k in range(3)]
    for _ in range(30):
        for b in bodies:
            force = np.zeros(3)
            for o in bodies:
                if o is not b:
                    d = o.pos - b.pos
                    force = force + o.mass * b.mass * d / (d @ d + 0.1) ** 1.5
            b.vel = b.vel + 0.01 * force / b.mass
        for b in bodies:
            b.pos = b.pos + 0.01 * b.vel
    return sum(np.sum(b.pos**2) * b.mass for b in bodies) + (b.pos[0] * o.vel[1] if last else 0.0)


@pytest.mark.parametrize("last", [False, True])
def test_names_of_objects_whose_attributes_are_carried(last):
    f = compile_grad(bodies_that_attract)
    for x in (X, X * 1.5):
        value, gradient = f.value_and_grad(x, last)
        assert value == pytest.approx(bodies_that_attract(x, last), rel=1e-12)
        assert gradient == pytest.approx(numerical_gradient(bodies_that_attract, (x, last)), rel=1e-5, abs=1e-6)
    assert "30 turns" in f.explain(X, last, level="all")
