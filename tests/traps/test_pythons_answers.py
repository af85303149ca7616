"""Traps: what Python itself asks of a number.  Recorded code gets Python's answer, or an error at its line."""

from __future__ import annotations

import builtins
import collections
import copy
import dataclasses
import decimal
import fractions
import functools
import json
import math
import operator
import pickle
import statistics
import struct
import time
import typing
import weakref
from builtins import type as kind_of
from json import dumps
from math import isnan

import numpy as np
import optree
import pytest

from tracegrad import UnsupportedError, compile_grad, stop_gradient

pytestmark = pytest.mark.usefixtures("fresh_kernels")

POINTS = (1.5, 2.5, 1.5, -2.0, 3.0, 0.25, float("nan"))
HALVES, NAN = float("1.5"), float("nan")
SOME, NAMED = [HALVES, NAN], {"nan": NAN}
ONES = [1.0]
alias, as_float, has = type, float, hasattr


def attempt(action):
    """What the action gives, or the kind of its error."""
    try:
        return len(str(action()))
    except (TypeError, ValueError) as error:
        return 100 + len(type(error).__name__)


def matched(x):
    match (x, {"x": x}):
        case (float(a), {"x": float(b)}) if a > 2:
            return a * b
        case [1.5 | 2.5, _]:
            return 7.0
        case [int(), _]:
            return 8.0
    return 9.0


def made_by_a_metaclass(x):
    class Meta(type):
        def __new__(cls, name, bases, body):
            make = type.__new__
            return make(cls, name, bases, body | {"half": x / 2}) if x > 2 else type.__new__(cls, name, bases, body)

    class Made(metaclass=Meta):
        half = 1.0

    return Made.half + len(type.mro(Made)) + 4 * isinstance(type, type)


ANSWERS = {
    "a metaclass": made_by_a_metaclass,
    "another name of type": lambda x: alias(x) is float,
    "type of builtins": lambda x: builtins.type(x) is float,
    "type, imported": lambda x: kind_of(x) in (float, np.float64),
    "hasattr of builtins": lambda x: builtins.hasattr(x, "shape") + 2 * has(x, "tolist"),
    "another name of float": lambda x: as_float(x) + builtins.float(x),
    "float is the same": lambda x: float(x) is x,
    "a copy is the same": lambda x: copy.copy(x) is x,
    "not a constant": lambda x: (x + 0 is HALVES) + (2 if x * 1 is not NAN else 3),
    "methods of float": lambda x: float.__add__(x, 1.0) * float.__mul__(x, 2.0),
    "a question of float": lambda x: float.is_integer(x) + 2 * x.is_integer(),
    "text by float": lambda x: len(float.__repr__(x)) + len(float.__format__(x, ".3f")),
    "float from a text": lambda x: float.fromhex("0x1.8p0") * x,
    "special methods": lambda x: x.__float__() + x.__add__(1) + x.__rmul__(2) + x.__abs__() + x.__neg__(),
    "special comparisons": lambda x: x.__lt__(2.0) + 2 * x.__ne__(1.5),
    "methods of a number": lambda x: (2.0).__mul__(x) + (1.5).__rsub__(x) + float.__add__(1.5, x) + (3.0).__mod__(x),
    "comparisons of a number": lambda x: 2.0 if (1.75).__lt__(x) and not (3.0).__eq__(x) else 3.0,
    "filtered by a number": lambda x: len(list(filter((1.75).__lt__, [x, 1.0, 3 * x]))) + any(map((2.5).__le__, [x])),
    "mapped by a number": lambda x: sum(map((2.0).__mul__, [x, 1.0])) + min([x, 1.0], key=(2.0).__sub__),
    "a part of a method": lambda x: functools.partial(float.__ge__, 2.0)(x) + operator.methodcaller("__gt__", x)(2.0),
    "names of classes": lambda x: len(type(x).__name__) + len(x.__class__.__qualname__),
    "operators": lambda x: operator.mul(operator.truediv(x, 2), operator.sub(3, x)) + operator.gt(x, 2),
    "reduce": lambda x: functools.reduce(operator.mul, [x, x, 2.0]),
    "map": lambda x: sum(map(abs, [x, -x])) + sum(kind is float for kind in map(type, [x])),
    "match": matched,
    "isnan": lambda x: (2.0 if math.isnan(x) else 3.0) * (isnan(x) + 1),
    "isfinite": lambda x: math.isfinite(x) + 2 * math.isinf(x),
    "isclose": lambda x: (
        math.isclose(x, 1.5) + 2 * math.isclose(x, 2.4, rel_tol=0.1) + 4 * math.isclose(0, x, abs_tol=1)
    ),
    "isclose to itself": lambda x: math.isclose(x, x) + 2 * math.isclose(x, math.inf),
    "decimals": lambda x: (x == decimal.Decimal("1.5")) + 2 * (x == x and decimal.Decimal(2) < x),
    "fractions": lambda x: (x == fractions.Fraction(3, 2)) + 2 * (x < fractions.Fraction(5, 2)),
    "a list times it": lambda x: attempt(lambda: [1.0, 2.0] * x),
    "it times a tuple": lambda x: attempt(lambda: x * (1.0, 2.0)),
    "json": lambda x: len(dumps({"x": [x, 1]})) + len(json.dumps(x, indent=1)),
    "a bool as an index": lambda x: (2.0, 3.0)[bool(x > 2)] + attempt(lambda: (2, 33)[x > 2]),
    "an index": lambda x: attempt(lambda: [1, 2][x]),
    "in a list": lambda x: (x in [[1.0], 1.5, NAN]) + 2 * (x in (2.5, "a")),
    "keys": lambda x: sorted([x, 2.0, 1.0], key=lambda v: -v)[0] + min(x, 2.0, key=lambda v: (v - 2) ** 2),
}
PYTHONS_OWN = {
    "a list and it": lambda x: attempt(lambda: ONES + x) + attempt(lambda: x - [1.0]),
    "equal to a list": lambda x: (x == [x]) + 2 * (x != []) + 4 * (x == ()),
    "len": lambda x: attempt(lambda: len(x)) + attempt(lambda: list(x)),
}


@pytest.mark.parametrize("kind", [float, np.float64])
@pytest.mark.parametrize("name", [*ANSWERS, *PYTHONS_OWN])
def test_python_gets_its_answers(name, kind):
    if kind is np.float64 and name in PYTHONS_OWN:
        pytest.skip("NumPy's numbers take lists for arrays")
    answer = (ANSWERS | PYTHONS_OWN)[name]
    f = compile_grad(lambda x: answer(x) * x)
    for point in map(kind, POINTS):
        np.testing.assert_allclose(f(point), answer(point) * point, rtol=1e-14)


CLOCK = time.perf_counter


@pytest.mark.parametrize("name", [name for name in ANSWERS if "a number" in name])
def test_live_runs_get_them_too(name):
    answer = ANSWERS[name]
    f = compile_grad(lambda x: answer(x) * x * min(CLOCK(), 1.0) ** 0)
    for point in map(np.float64, POINTS):
        np.testing.assert_allclose(f(point), answer(point) * point, rtol=1e-14)
    assert f.stats.live


SMOOTH = {
    "methods of a number": (lambda x: (3.0).__mul__(x) + sum(map((2.0).__rpow__, [x, x])), 3.0 + 4 * 1.25),
    "methods": (lambda x: float.__mul__(x, x) + x.__float__() * 2, 2 * 1.25 + 2),
    "operators": (lambda x: operator.pow(x, 3) + builtins.float(x), 3 * 1.25**2 + 1),
    "aliases": (lambda x: as_float(x) * (2 if alias(x) is float else 3), 2.0),
    "copies": (lambda x: copy.deepcopy(x) * copy.copy(x), 2.5),
    "questions": (lambda x: x * x if math.isclose(x, 1.25) and not isnan(x) else x, 2.5),
}


@pytest.mark.parametrize("f, gradient", SMOOTH.values(), ids=SMOOTH)
def test_gradients_go_through_them(f, gradient):
    compiled = compile_grad(f)
    for _ in range(3):
        assert compiled.value_and_grad(1.25) == (f(1.25), gradient)


LEAVING = {
    "Decimal": lambda x: float(decimal.Decimal(x)) * x,
    "struct": lambda x: struct.unpack("<d", struct.pack("<d", x))[0] * x,
    "pickle": lambda x: pickle.loads(pickle.dumps([x]))[0] * x,
    "json": lambda x: json.loads(json.dumps({"x": x}))["x"] * x,
    "hex": lambda x: float.fromhex(x.hex()) * x,
    "as_integer_ratio": lambda x: operator.truediv(*float.as_integer_ratio(x)) * x,
    "Fraction": lambda x: float(fractions.Fraction(x)) * x,
    "statistics": lambda x: statistics.harmonic_mean([x, 1.0]) * statistics.quantiles([x, 2.0])[0],
    "hash": lambda x: hash(x) * x,
    "a key": lambda x: {x: 2.0}[x] * x,
}


@pytest.mark.parametrize("name", LEAVING)
def test_a_number_that_leaves_is_an_error_at_its_line(name):
    f = compile_grad(LEAVING[name])
    with pytest.raises(UnsupportedError, match=r"test_pythons_answers\.py"):
        f.grad(1.5)


@pytest.mark.parametrize("name", ["Decimal", "struct", "pickle", "json", "hash", "a key"])
def test_without_a_gradient_it_may_leave(name):
    leaving = LEAVING[name]
    f = compile_grad(lambda x: leaving(stop_gradient(x)) * x)
    for point in (1.5, 2.5, 1.5):
        assert f.value_and_grad(point) == (leaving(point) * point, leaving(point))


def test_the_very_object_is_known_from_an_equal_one():
    def by_default(x, known=NAN):
        return x * (2.0 if x is known else 3.0)

    outer = 2.5

    def by_cell(x):
        return x * (2.0 if x is outer else 3.0)

    equal = {1.5: float("1.5"), 2.5: float("2.5")}
    for f, same in (
        (lambda x: x * (2.0 if x is HALVES else 3.0), HALVES),
        (lambda x: x * (2.0 if x is not np.nan else 3.0), np.nan),
        (lambda x: x * (2.0 if operator.is_(x, HALVES) else 3.0), HALVES),
        (by_default, NAN),
        (by_cell, outer),
        (lambda x: x * (2.0 if any(x is v for v in SOME) else 3.0), HALVES),
        (lambda x: x * (2.0 if x is SOME[1] else 3.0), NAN),
        (lambda x: x * (2.0 if [k for k, v in NAMED.items() if v is x] else 3.0), NAN),
        (lambda x: x * (2.0 if any(map(lambda v: v is x, SOME[:1])) else 3.0), HALVES),  # noqa: C417
    ):
        compiled = compile_grad(f)
        for _ in range(3):
            other = equal.get(same, float("nan"))
            np.testing.assert_equal(compiled(other), f(other))
        np.testing.assert_equal(compiled(same), f(same))
        np.testing.assert_equal(compiled(0.5), f(0.5))


ARRAY = np.arange(3.0)
KNOWN = {id(ARRAY): 2.0, id(HALVES): 3.0}


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: KNOWN.get(id(x), 1.0),
        lambda x: 2.0 if id(x) == next(iter(KNOWN)) else 1.0,
        lambda x: 2.0 if id(x + 0) in KNOWN else 1.0,
        lambda x: 2.0 if "float" in object.__repr__(x) else 1.0,
        lambda x: 2.0 if object.__repr__(x).startswith("<numpy.ndarray object at 0x") else 1.0,
        lambda x: 2.0 if hex(id(x))[2:] in object.__repr__(x) else 1.0,
    ],
)
def test_addresses_are_those_of_the_callers_objects(ask):
    f = compile_grad(lambda x: np.sum(x) * ask(x))
    for value in (ARRAY, HALVES, np.arange(3.0), 2.5, np.float64(1.5), ARRAY):
        for _ in range(2):
            assert f(value) == np.sum(value) * ask(value)


def test_other_floats_may_be_the_same_object():
    def f(x, y, known=NAN, scale=2.5):
        return x * scale if x is y or y is known else x

    compiled = compile_grad(f)
    assert compiled(2.5, 1.0) == 2.5 and compiled(1.0, 2.5, known=NAN) == 1.0 and compiled(NAN, 1.0, HALVES) is not None
    assert compiled(1.0, NAN) == f(1.0, NAN) == 2.5


class Kinds:
    of = type


def asking_for_kinds():
    kinds, of, by_partial = {"of": type}, type, functools.partial(type)
    return (
        lambda x: x if kinds["of"](x) is float else -x,
        lambda x: x if of(x) is float else -x,
        lambda x, of=type: x if of(x) is float else -x,
        lambda x: x if Kinds.of(x) is float else -x,
        lambda x: x if by_partial(x) is float else -x,
    )


def test_type_in_another_place_is_pythons():
    for f in asking_for_kinds():
        compiled = compile_grad(f)
        assert [compiled(x) for x in (1.5, np.float64(1.5), 2.5)] == [1.5, -1.5, 2.5]


# ---- named tuples among the arguments


class Point(typing.NamedTuple):
    x: float
    y: float


class Scaled(collections.namedtuple("Scaled", "a b")):
    scale = 2.0

    @property
    def area(self):
        return self.a * self.b * self.scale


@dataclasses.dataclass
class Pair:
    a: float
    b: float

    @property
    def area(self):
        return self.a * self.b


@pytest.mark.parametrize(
    "f, argument, cls, name, new",
    [
        (lambda p: p.x * p.y, Point(2.0, 3.0), Point, "x", property(lambda p: 10 * p[0])),
        (lambda p: p[0].x, [Point(2.0, 3.0)], Point, "x", property(lambda p: 7 * p[1])),
        (lambda p: p["p"].area, {"p": Scaled(2.0, 3.0)}, Scaled, "area", property(lambda p: p.a + p.b)),
        (lambda p: p.area, Scaled(2.0, 3.0), Scaled, "scale", 5.0),
        (lambda p: p.area, Pair(2.0, 3.0), Pair, "area", property(lambda p: p.a - p.b)),
    ],
    ids=["field", "field in a list", "property", "what a property reads", "property of a dataclass"],
)
def test_what_the_class_of_an_argument_gives_is_guarded(f, argument, cls, name, new, monkeypatch):
    if cls is Pair:
        parts = (lambda p: ((p.a, p.b), None)), (lambda _, parts: Pair(*parts))
        optree.register_pytree_node(Pair, *parts, namespace="tracegrad")
    try:
        compiled = compile_grad(f)
        for _ in range(3):
            assert compiled(argument) == f(argument)
        assert not compiled.stats.live and compiled.stats.traces == 1
        monkeypatch.setattr(cls, name, new)
        for _ in range(3):
            assert compiled(argument) == f(argument)
        monkeypatch.undo()
        assert compiled(argument) == f(argument)
    finally:
        if cls is Pair:
            optree.unregister_pytree_node(Pair, namespace="tracegrad")


def test_dead_weak_references_are_left_alone():
    class Kept:
        pass

    kept, target = Kept(), Kept()
    kept.proxy, kept.last = weakref.proxy(target), None

    def f(x):
        np.random.rand()
        kept.last = [x * 2, kept.proxy, (kept.proxy, x)]
        return x * 3

    compiled = compile_grad(f)
    assert compiled(1.0) == 3.0
    del target
    for point in (1.0, 2.0):
        assert compiled(point) == 3 * point and kept.last[0] == 2 * point and kept.last[2][1] == point


BASES, COUNTS = np.array([4, -4, 1]), np.arange(3)
INTEGER_POWERS = {
    "an int of the caller's": (lambda n: BASES**n, (2, 2, 3, -2, 0, -1, 2)),
    "an array": (lambda n: BASES**n, [np.array([n, 1, 1]) for n in (2, 2, 3, -2, 0, -1, 2)]),
    "other dtypes": (lambda n: np.power(n, n, dtype=np.int32), [np.full(2, n, np.int32) for n in (2, 2, -1, 3, 2)]),
    "caught": (lambda n: attempt(lambda: COUNTS ** (n - 1)) * n, (2, 2, 1, 0, 3, -1)),
    "by a method": (lambda n: BASES.__pow__(n + COUNTS).sum(), (0, 0, 1, -1, 2, -3)),
}


@pytest.mark.parametrize("case", INTEGER_POWERS)
def test_integers_to_negative_powers(case):
    plain, points = INTEGER_POWERS[case]
    f = compile_grad(plain)
    for n in points:
        try:
            expected = plain(n)
        except ValueError:
            with pytest.raises(ValueError, match="negative integer powers"):
                f(n)
            continue
        np.testing.assert_array_equal(f(n), expected)


HUGE = 2**70
HUGE_INTS = {
    "a sum": lambda x: x + HUGE,
    "a product on the left": lambda x: HUGE * x,
    "a quotient": lambda x: (x / HUGE, HUGE / x, HUGE // x, x % HUGE),
    "a comparison": lambda x: (x < HUGE, x >= -HUGE, x == HUGE),
    "its own rounded value": lambda x: x * round(x * 1e30),
    "extremes": lambda x: (max(x, HUGE), min(x, -HUGE)),
    "beside an array": lambda x: (np.ones(2) * x + HUGE, np.maximum(np.ones(2) * x, HUGE)),
}


@pytest.mark.parametrize("case", HUGE_INTS)
def test_ints_that_64_bits_do_not_hold(case):
    plain = HUGE_INTS[case]
    f = compile_grad(plain)
    for x in (1.5, 1.5, -3.0, np.float64(2.5), 1.5):
        for found, expected in zip(np.atleast_1d(f(x)), np.atleast_1d(plain(x)), strict=True):
            np.testing.assert_allclose(np.float64(found), np.float64(expected), rtol=1e-12)


@pytest.mark.parametrize(
    "plain, said",
    [
        (lambda x: math.ulp(x[0]), "stop_gradient"),
    ],
)
def test_functions_of_math_are_answered_with_names_that_exist(plain, said):
    with pytest.raises(UnsupportedError, match="gradient") as raised:
        compile_grad(plain).grad(np.ones(2))
    assert said in str(raised.value) and "np.dist" not in str(raised.value)
