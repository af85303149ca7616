"""Plain objects as differentiated arguments: their class in the gradient, sharing, settings, what is refused."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optree
import pytest

from tracegrad import DifferentiationError, UnsupportedError, compile_grad
from tracegrad.autograd import grad, value_and_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

X = np.array([0.5, -1.0, 2.0])
B = np.array([1.0, 2.0, -0.5])


class Scaled:
    """What all the classes below have in common."""

    __slots__ = ()
    a: Any
    b: Any

    def energy(self, x):
        return self.a**2 * np.sum(self.b * x**2)


@dataclass
class Data(Scaled):
    a: float
    b: np.ndarray
    n: int = 3
    name: str = "spring"
    extra: object = None
    on: bool = True
    tags: list = field(default_factory=lambda: ["x", "y"])

    def __post_init__(self):
        if not isinstance(self.b, np.ndarray):
            raise TypeError("only arrays")


@dataclass(frozen=True)
class Frozen(Scaled):
    a: float
    b: np.ndarray


@dataclass(frozen=True, slots=True)
class Slotted(Scaled):
    a: float
    b: np.ndarray


class Own(Scaled):
    def __init__(self, a, b):
        if not isinstance(a, float):
            raise TypeError("only floats")
        self.a, self._b = a, b

    @property
    def b(self):
        return self._b


class OwnSlots(Scaled):
    __slots__ = ("__weakref__", "a", "b", "unset")

    def __init__(self, a, b):
        self.a, self.b = a, b


class Namespace(types.SimpleNamespace):
    energy = Scaled.energy


def of_attrs(frozen):
    attr = pytest.importorskip("attr")
    make = attr.frozen if frozen else attr.define
    return make(type("OfAttrs", (Scaled,), {"__annotations__": {"a": float, "b": np.ndarray}, "__slots__": ()}))


def of_pydantic(frozen):
    pydantic = pytest.importorskip("pydantic", minversion="2")

    class Model(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, frozen=frozen, validate_assignment=True)
        a: float = pydantic.Field(gt=0.0)
        b: np.ndarray
        n: int = 2

        def energy(self, x):
            return self.a**2 * np.sum(self.b * x**self.n)

    return lambda a, b: Model(a=a, b=b)


def energy(p, x):
    return p.energy(x)


@pytest.mark.parametrize(
    "make",
    [
        Data, Frozen, Slotted, Own, OwnSlots, lambda a, b: Namespace(a=a, b=b),
        lambda a, b: of_attrs(False)(a, b), lambda a, b: of_attrs(True)(a, b),
        lambda a, b: of_pydantic(False)(a, b), lambda a, b: of_pydantic(True)(a, b),
    ],
    ids="dataclass frozen slots class class-with-slots namespace attrs attrs-frozen pydantic pydantic-frozen".split(),
)  # fmt: skip
def test_the_gradient_is_of_the_class_of_the_argument(make):
    f = compile_grad(energy)
    p = make(2.0, B)
    for _ in range(3):
        value, g = f.value_and_grad(p, X)
        assert type(g) is type(p)
        np.testing.assert_allclose(value, energy(p, X))
        np.testing.assert_allclose(g.a, 2 * p.a * np.sum(p.b * X**2))
        np.testing.assert_allclose(g.b, p.a**2 * X**2)
    assert f.stats.traces == 1 and not f.stats.live
    B[:] *= 1.5  # seen, by the kernel of before
    np.testing.assert_allclose(f.grad(p, X).a, 2 * p.a * np.sum(B * X**2))
    B[:] /= 1.5
    assert f.stats.traces == 1
    np.testing.assert_allclose(f(p, X), energy(p, X))
    assert p.a == 2.0 and p.b is B


def test_what_has_no_gradient_is_none_there_and_counts_by_its_value():
    f = compile_grad(lambda p, x: p.a**p.n * np.sum(p.b * x) * len(p.tags) * (2.0 if p.on else 1.0))
    for n, on in [(3, True), (2, True), (3, False), (2, True), (3, True)]:
        p = Data(2.0, B, n, on=on)
        g = f.grad(p, X)
        np.testing.assert_allclose(g.a, n * p.a ** (n - 1) * np.sum(B * X) * 2 * (2.0 if on else 1.0))
        assert (g.n, g.name, g.extra, g.on, g.tags) == (None, None, None, None, [None, None])
    chosen = types.SimpleNamespace(k=2.0, rows=np.array([0, 2]), how=np.tanh, pair=(1, 0.5), half=np.float32(2.0))
    g = grad(lambda c, x: c.how(c.k) * np.sum(x[c.rows]) * c.pair[1] * c.half)(chosen, X)
    np.testing.assert_allclose(g.k, (1 - np.tanh(2.0) ** 2) * 2.5 * 0.5 * 2.0)
    assert g.rows is None and g.how is None and g.pair[0] is None and g.half.dtype == np.float32
    parsed = argparse.Namespace(rate=0.5, out="file")
    assert vars(grad(lambda args: args.rate**2)(parsed)) == {"rate": 1.0, "out": None}


def test_objects_in_containers_and_in_each_other():
    @dataclass
    class Link:
        length: float
        angle: float

    class Robot:
        def __init__(self, links, base):
            self.links, self.base, self.info = links, base, {"gain": 2.0, "name": "arm"}

        def tip(self):
            x, y, heading = self.base.x, self.base.y, 0.0
            for link in self.links:
                heading = heading + link.angle
                x, y = x + link.length * np.cos(heading), y + link.length * np.sin(heading)
            return np.array([x, y]) * self.info["gain"]

    def miss(robot, target):
        return np.sum((robot.tip() - target) ** 2)

    def robot(angles):
        return Robot([Link(1.0, t) for t in angles], types.SimpleNamespace(x=0.1, y=0.2))

    angles, target, f = np.array([0.3, -0.4, 0.9]), np.array([1.0, 2.0]), compile_grad(miss)
    for _ in range(3):
        g = f.grad(robot(angles), target)
    for k, step in enumerate(1e-6 * np.eye(3)):
        found = (miss(robot(angles + step), target) - miss(robot(angles - step), target)) / 2e-6
        np.testing.assert_allclose(g.links[k].angle, found, rtol=1e-6)
    assert type(g) is Robot and type(g.links[0]) is Link and type(g.base) is types.SimpleNamespace
    assert g.info["name"] is None and g.info["gain"] != 0.0 and f.stats.traces == 1
    first, second = grad(lambda both: both[0].a * both[1]["p"].a)([Data(2.0, B), {"p": Data(3.0, B)}])
    assert (first.a, second["p"].a) == (3.0, 2.0)
    by = grad(lambda p, k, q: p.a * k * q.a, (0, 2))(Data(2.0, B), 5.0, Own(3.0, B))
    assert (by[0].a, by[1].a) == (15.0, 10.0)


def test_an_object_in_two_places_has_one_gradient():
    @dataclass
    class Joint:
        angle: float
        parent: object = None

        def heading(self):
            return self.angle + (self.parent.heading() if self.parent is not None else 0.0)

    def arm(angles):
        joints = []
        for t in angles:
            joints.append(Joint(t, joints[-1] if joints else None))
        return types.SimpleNamespace(joints=joints)

    def reach(a):
        return sum(np.cos(joint.heading()) for joint in a.joints)

    angles, f = np.array([0.1, 0.2, 0.3]), compile_grad(reach)
    for _ in range(3):
        g = f.grad(arm(angles))
    heading = np.cumsum(angles)
    expected = [-np.sum(np.sin(heading[k:])) for k in range(3)]
    np.testing.assert_allclose([joint.angle for joint in g.joints], expected)
    np.testing.assert_allclose(g.joints[2].parent.angle, expected[1])
    assert "which is among the arguments twice" in f.stats.live
    inner = grad(lambda s: grad(reach)(arm([0.1 * s, 0.2 * s, 0.3 * s])).joints[0].angle)
    np.testing.assert_allclose(inner(1.0), -np.sum(np.cos(heading) * heading))
    tied = types.SimpleNamespace(one=Own(2.0, B))
    tied.two = tied.one
    apart = types.SimpleNamespace(one=Own(2.0, B), two=Own(3.0, B))
    h = compile_grad(lambda t: t.one.a * t.two.a)
    for _ in range(4):
        assert h.grad(tied).one.a == 4.0 and h.grad(apart).one.a == 3.0


def test_derivatives_of_methods_and_of_derivatives():
    class Well:
        depth = 3.0

        def __init__(self, k):
            self.k = k

        @functools.cached_property
        def cube(self):
            return self.k**3

        @property
        def square(self):
            return self.k**2

        def energy(self, x):
            return self.depth * self.cube * x**2 + self.twice().square

        def twice(self):
            return Well(self.k * 2)

    well = Well(2.0)
    d = grad(Well.energy)
    for _ in range(3):  # the cube is computed from `k` each time
        np.testing.assert_allclose(d(well, 0.5).k, 3 * 12 * 0.25 + 16.0)
    second = grad(lambda w: d(w, 0.5).k)
    np.testing.assert_allclose(second(well).k, 3 * 12 * 0.25 + 8.0)
    Well.depth = 1.0
    np.testing.assert_allclose(d(well, 0.5).k, 12 * 0.25 + 16.0)
    through = grad(lambda a: value_and_grad(Well.energy)(Well(a), 0.5)[1].k)
    np.testing.assert_allclose(through(2.0), 12 * 0.25 + 8.0)


def test_what_changes_in_an_object_between_calls_is_seen():
    f = compile_grad(lambda p: p.a**2 * getattr(p, "factor", 1.0))
    p = Namespace(a=1.0)
    for a in (1.0, 2.0, 3.0):
        p.a = a
        assert f.grad(p).a == 2 * a
    p.factor = 5.0
    assert [f.grad(p).a for _ in range(2)] == [30.0, 30.0]
    del p.factor
    assert f.grad(p).a == 6.0
    p.a = np.array([1.0, 2.0])
    with pytest.raises(DifferentiationError, match="scalar loss"):
        f.grad(p)
    p.a = np.array(4.0)
    assert f.grad(p).a == 8.0
    q = OwnSlots(2.0, B)
    g = compile_grad(lambda q: q.a**2 if not hasattr(q, "unset") else q.a**3)
    assert [g.grad(q).a for _ in range(3)] == [4.0] * 3
    q.unset = "no more"
    assert [g.grad(q).a for _ in range(3)] == [12.0] * 3


def test_what_a_function_does_to_an_object_is_done_to_the_argument():
    def settle(p):
        p.a = p.a * 2
        p.log = [*getattr(p, "log", []), p.n]
        return p.a**2

    f, seen, plain = compile_grad(settle), Namespace(a=1.0, n=1), Namespace(a=1.0, n=1)
    for _ in range(4):
        assert f.value_and_grad(seen)[0] == settle(plain)
        assert (seen.a, seen.log) == (plain.a, plain.log)
    slotted = OwnSlots(1.0, B)
    assert compile_grad(lambda q: setattr(q, "a", q.a * 3) or q.a**2).grad(slotted).a == 18.0 and slotted.a == 3.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        grad(lambda p: setattr(p, "a", 1.0) or p.a)(Frozen(1.0, B))


def test_a_class_that_is_registered_stays_what_its_owner_has_made_of_it():
    @functools.partial(optree.dataclasses.dataclass, namespace="tracegrad")
    class Registered:
        a: float
        n: int = optree.dataclasses.field(default=2, pytree_node=False)

    p = types.SimpleNamespace(inner=Registered(2.0), k=3.0)
    g = grad(lambda p: p.inner.a**p.inner.n * p.k)(p)
    assert (g.inner.a, g.inner.n, g.k) == (12.0, 2, 4.0)


def test_what_can_not_be_differentiated_is_named():
    @dataclass
    class Pair:
        a: float
        b: float

    def product(p):
        return p.a * p.b

    with pytest.raises(DifferentiationError, match=r"`p\.a`, int 1: only floats have gradients; pass 1\.0"):
        grad(product)(Pair(1, 2.0))
    with pytest.raises(DifferentiationError, match=r"type SimpleNamespace: it has no attribute of its own"):
        grad(product)(types.SimpleNamespace(a=1, b=2))
    loop = types.SimpleNamespace(a=1.0)
    loop.me = loop
    with pytest.raises(UnsupportedError, match="the argument `p` contains itself"):
        grad(product)(loop)
    with pytest.raises(DifferentiationError, match="an object of type dict_keys"):
        grad(product)({}.keys())


def test_numbers_of_frozen_objects_vary_in_values_too():
    f = compile_grad(energy)
    for make in (Frozen, Slotted):
        for k in range(8):
            p = make(1.0 + k, B * k)
            np.testing.assert_allclose(f(p, X), energy(p, X))
    assert f.stats.traces <= 8 and not f.stats.live
