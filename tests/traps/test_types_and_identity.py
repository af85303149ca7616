"""Traps: questions that C answers from an object itself.  Recorded code goes the way that plain Python goes."""

from __future__ import annotations

import collections.abc as abc
import functools
import numbers
import operator
import types
import typing

import numpy as np
import pytest
from with_source import code_of

from tracegrad import UnsupportedError, compile_grad

CAPTURED = np.arange(3.0)


class Kinds:
    def is_float(self, v):
        return type(v) is float

    def __call__(self, v):
        return {float: 1, np.ndarray: 2, np.float64: 3, np.float32: 4}.get(type(v), 0)


kinds = Kinds()


@functools.singledispatch
def single(v):
    return 0


@single.register
def _(v: float):
    return 1


@single.register
def _(v: np.ndarray):
    return 2


def answers(v, attempt):
    """1 where the attempt succeeds; else a number for its error."""
    try:
        attempt(v)
    except AttributeError:
        return 2
    except TypeError:
        return 3
    except IndexError:
        return 4
    return 1


def matched(v):
    match v:
        case int():
            return 1
        case float():
            return 3
        case abc.Sized():
            return 4
        case numbers.Real():
            return 5
    return 6


def write(v):
    v[0] = 1.0


TYPES = {
    "type is": lambda v: type(v) is np.ndarray,
    "type ==": lambda v: type(v) == np.float64,  # noqa: E721
    "type in": lambda v: type(v) in (float, np.float32),
    "type of type": lambda v: isinstance(type(v), type) and type(v) is float,
    "a union with type": lambda v: isinstance(type(v), type | np.dtype) and isinstance(float, np.dtype | type),
    "issubclass": lambda v: issubclass(type(v), numbers.Number),
    "issubdtype": lambda v: np.issubdtype(type(v), np.floating),
    "name": lambda v: len(type(v).__name__) + 10 * len(v.__class__.__name__),
    "in a method": lambda v: kinds.is_float(v),
    "in a call": lambda v: kinds(v),
    "in a table": lambda v: {float: lambda w: 1, np.ndarray: lambda w: 2}.get(type(v), lambda w: 3)(v),
    "first in a list that is asked": lambda v: [float, np.ndarray, object].count(type(v)),
    "in a generator": lambda v: all(type(q) is float for q in [v]),
    "under another name": lambda v: (lambda kind: kind(v))(type) is float,
    "as a function": lambda v: next(map(type, [v])) is float,
    "__class__": lambda v: v.__class__ is float,
    "attrgetter": lambda v: operator.attrgetter("__class__")(v) is float,
    "isinstance float": lambda v: isinstance(v, (int, float)),
    "isinstance generic": lambda v: isinstance(v, np.generic),
    "Iterable": lambda v: isinstance(v, abc.Iterable),
    "Sized": lambda v: isinstance(v, abc.Sized),
    "Container": lambda v: isinstance(v, abc.Container),
    "Sequence": lambda v: isinstance(v, abc.Sequence),
    "Hashable": lambda v: isinstance(v, abc.Hashable),
    "Number": lambda v: isinstance(v, numbers.Number),
    "SupportsIndex": lambda v: isinstance(v, typing.SupportsIndex),
    "SupportsFloat": lambda v: isinstance(v, typing.SupportsFloat),
    "hasattr shape": lambda v: hasattr(v, "shape"),
    "hasattr __len__": lambda v: hasattr(v, "__len__"),
    "hasattr __iter__": lambda v: hasattr(v, "__iter__"),
    "hasattr tolist": lambda v: hasattr(v, "tolist"),
    "hasattr is_integer": lambda v: hasattr(v, "is_integer"),
    "getattr": lambda v: getattr(v, "ndim", 7),
    "isscalar": lambda v: np.isscalar(v),
    "iterable": lambda v: np.iterable(v),
    "callable": lambda v: callable(v),
    "singledispatch": lambda v: single(v),
    "match": matched,
    "len": lambda v: answers(v, len),
    "iter": lambda v: answers(v, iter),
    "item": lambda v: answers(v, lambda w: w[0]),
    "shape": lambda v: answers(v, lambda w: w.shape),
    "sum": lambda v: answers(v, lambda w: w.sum()),
    "is None": lambda v: v is None,
}
VALUES = {
    "float": (2.0, lambda x: x),
    "float64": (np.float64(2.0), lambda x: x),
    "float32": (np.float32(2.0), lambda x: x),
    "element": (np.full(2, 3.0), lambda x: x[0]),
    "computed": (np.full(2, 3.0), np.sum),
    "view": (np.ones(2), lambda x: x[0:]),
    "array": (np.ones(2), lambda x: x),
    "0-d": (np.array(2.0), lambda x: x),
    "of floats": (2.0, lambda x: x * 2.0 + 1.0),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("question", TYPES)
def test_a_type_is_that_of_the_value(question, kind):
    ask, (value, part) = TYPES[question], VALUES[kind]

    def plain(x):
        return np.sum(x) * (1.0 + 2.0 * ask(part(x)))

    f = compile_grad(plain)
    for _ in range(2):
        assert float(f(value)) == float(plain(value))


MATCHES = """
def f(x):
    match part(x):
        case [a, b]:
            return np.sum(x) * 2.0 + a * b
    return np.sum(x)
"""


@pytest.mark.parametrize("kind", VALUES)
def test_what_a_sequence_is_in_a_match(kind):
    """Arrays are sequences from NumPy 2.5 on, and numbers are none, which traced ones can't say without a source."""
    value, part = VALUES[kind]
    sequences = bool(np.ndarray.__flags__ & 32)
    number = not isinstance(part(value), np.ndarray)
    for code in (code_of(MATCHES, "a match"), compile(MATCHES, "<nowhere>", "exec")):
        space = {"np": np, "part": part}
        exec(code, space)
        f = compile_grad(space["f"])
        for _ in range(2):
            if sequences and not number and not np.ndim(part(value)):
                with pytest.raises(TypeError, match="unsized"):  # as plain Python
                    f(value)
            else:
                assert float(f(value)) == float(space["f"](value))
    if sequences and number:
        with pytest.raises(UnsupportedError, match="if a traced number is a sequence"):
            f.grad(value)


TRUTHS = {
    "is True": lambda x: (x > 1.0) is True,
    "is np.True_": lambda x: (x > 1.0) is np.True_,
    "np.False_ is not": lambda x: np.False_ is not (x < 1.0),
    "of a sum": lambda x: (np.sum(x) > 1.0) is True,
    "of a sum, NumPy's": lambda x: (np.sum(x) > 1.0) is np.True_,
    "isfinite": lambda x: np.isfinite(x / 2.0) is np.True_,
    "isnan": lambda x: np.isnan(x) is np.False_,
    "signbit": lambda x: np.False_ is np.signbit(x - 1.0),
    "logical_and": lambda x: np.logical_and(x > 1.0, x < 3.0) is np.True_,
    "logical_not": lambda x: np.logical_not(x - 0.5) is not np.False_,
    "greater": lambda x: np.greater(x, 1.0) is np.True_,
    "any": lambda x: np.any(x > 1.0) is np.True_,
    "all, a method": lambda x: (x + np.zeros(2) > 1.0).all() is np.True_,
    "reduce": lambda x: np.logical_or.reduce(x + np.zeros(2) > 1.0) is np.True_,
    "an element": lambda x: (x + np.arange(2.0) > 1.0)[0] is np.True_,
    "each": lambda x: any(b is np.False_ for b in x + np.arange(2.0) > 1.0),
    "isclose": lambda x: np.isclose(x, 2.5) is np.True_,
    "isreal": lambda x: np.isreal(x) is np.True_,
    "of two questions": lambda x: (x > 1.0) is (x > 0.0),
    "under another name": lambda x: (x > 1.0) is TRUE,
    "under another name, Python's": lambda x: bool(x > 1.0) is HOLDS.yes,
}
TRUE, HOLDS = np.True_, types.SimpleNamespace(yes=True)


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.array])
@pytest.mark.parametrize("name", TRUTHS)
def test_comparisons_are_the_objects_that_python_gives(name, kind):
    def plain(x):
        return x * (2.0 if TRUTHS[name](x) else 1.0)

    f = compile_grad(plain)
    for x in (0.5, 2.5, 2.5, 0.5, 3.5):
        assert float(f(kind(x))) == float(plain(kind(x)))


@pytest.mark.parametrize("value", [2.0, np.float64(2.0)])
def test_scalars_take_no_assignment(value):
    def plain(x):
        return x * answers(x, write)

    assert float(compile_grad(plain)(value)) == plain(value)


def test_types_where_python_runs_each_time():
    """A function that is not replayed sees the same types."""
    seen = []

    def plain(x):
        seen.append(1)
        return np.sum(x) * (2.0 if type(x[0]) is np.float64 and not hasattr(x[0], "__len__") else 1.0)

    f = compile_grad(plain)
    for _ in range(3):
        assert float(f(np.ones(3))) == 6.0


def test_types_under_a_profiler():
    import sys

    f = compile_grad(lambda a: a * (2.0 if type(a) is float else 1.0))
    before, events = sys.getprofile(), []
    sys.setprofile(lambda *event: events.append(event[1]))
    try:
        assert f(3.0) == 6.0
    finally:
        sys.setprofile(before)
    assert events


# ---- identity ------------------------------------------------------------------------------------------------------


class Holder:
    def __init__(self):
        self.w = np.arange(3.0) + 1

    def plain(self, x):
        return np.sum(x) * (2.0 if x is self.w else 1.0)


holder = Holder()
X, Y = np.ones(3), np.ones(3)
IDENTITY = {
    "is": (lambda x, y: np.sum(x * y) * (2.0 if x is y else 1.0), (X, X), (X, Y), (Y, Y)),
    "is not": (lambda x, y: np.sum(x * y) * (2.0 if x is not y else 1.0), (X, Y), (X, X)),
    "of self": (holder.plain, (holder.w,), (X,), (holder.w,)),
    "in a dict": (
        lambda d: np.sum(d["a"]) * (2.0 if d["a"] is d["b"] else 1.0),
        ({"a": X, "b": X},),
        ({"a": X, "b": Y},),
    ),
    "among many": (
        lambda *xs: np.sum(xs[0]) * (2.0 if any(xs[0] is v for v in xs[1:]) else 1.0),
        (X, Y, X),
        (X, Y, Y),
    ),
    "operator": (lambda x, y: np.sum(x) * (2.0 if operator.is_(x, y) else 1.0), (X, X), (X, Y)),
    "id": (lambda x, y: np.sum(x) * (2.0 if id(x) == id(y) else 1.0), (X, X), (X, Y)),
    "floats": (lambda a, b: a * (2.0 if a is b else 1.0), (2.5, 2.5), (2.5, float("2.5"))),
    "memory": (lambda x, y: np.sum(x) * (2.0 if np.shares_memory(x, y) else 1.0), (X, X), (X, Y), (X[:2], X[1:])),
    "own views": (
        lambda x: (
            np.sum(x)
            * (2.0 if np.shares_memory(x[:2], x[1:]) else 1.0)
            * (3.0 if np.shares_memory(x[:1], x[1:]) else 1.0)
        ),
        (X,),
    ),
    "conversions": (
        lambda x: np.sum(x) * (2.0 if np.squeeze(x) is x else 1.0) * (3.0 if x[:] is x else 1.0),
        (X,),
    ),
}


def flagged(a):
    flag = a < 1.0
    return (2.0 if flag is False else 3.0) if positive(a) is True else a


def positive(a):
    return a > 0


IDENTITY |= {
    "is True": (lambda a: a * (2.0 if (a > 0) is True else 1.0), (2.0,), (-2.0,), (np.float64(2.0),)),
    "is not False": (lambda a: a * (2.0 if (a >= 1.5) is not False else 1.0), (2.0,), (-2.0,)),
    "flags": (lambda a: flagged(a) * a, (2.0,), (0.5,), (-1.0,)),
}


@pytest.mark.parametrize("case", IDENTITY)
def test_identity_is_that_of_the_arguments(case):
    plain, *calls = IDENTITY[case]
    f = compile_grad(plain)
    for _ in range(2):
        for args in calls:
            for _ in range(3):
                assert float(f(*args)) == float(plain(*args))


def test_identity_that_is_not_asked_for_costs_no_recording():
    f = compile_grad(lambda x, y: np.sum(x * y) * (2.0 if x is None else 1.0))
    for args in ((X, Y), (X, Y), (X, X), (Y, Y)):
        f(*args)
    assert f.stats.traces == 1
    np.testing.assert_array_equal(f.grad(X, X), X)


def test_partial_derivative_at_one_object():
    f = compile_grad(lambda x, y: np.sum(x * y) * (2.0 if x is y else 1.0))
    np.testing.assert_array_equal(f.grad(X, Y), Y)
    np.testing.assert_array_equal(f.grad(X, X), 2 * X)  # the arguments are one, of which one is varied


# ---- errors of Python's floats -------------------------------------------------------------------------------------

ZERO, OVER, BOTH = ZeroDivisionError, OverflowError, (ZeroDivisionError, OverflowError)


def divided(a):
    a /= a - 1
    return a


def raised(a):
    a **= 3
    return a


ERRORS = {
    "1 / a": (lambda a: 1.0 / a, ZERO, (0.0,), (2.0,), (-0.0,)),
    "expression": (lambda a: 1 / (a * a - 4), ZERO, (2.0,), (3.0,)),
    "/=": (divided, ZERO, (1.0,), (2.0,)),
    "%": (lambda a: a % (a - 1), ZERO, (1.0,), (2.5,)),
    "//": (lambda a: a // (a - 1), ZERO, (1.0,), (2.5,)),
    "divmod": (lambda a: divmod(a, a - 1)[1], ZERO, (1.0,), (2.5,)),
    "** -1": (lambda a: a**-1, ZERO, (0.0,), (2.5,)),
    "** -2": (lambda a: a**-2, BOTH, (0.0,), (2.5,), (1e-200,)),
    "** 2": (lambda a: a**2, OVER, (1e200,), (2.5,), (float("inf"),)),
    "**=": (raised, OVER, (1e200,), (2.0,)),
    "2 **": (lambda a: 2.0**a, OVER, (5000.0,), (2.5,), (float("inf"),)),
    "10 **": (lambda a: 10**a, OVER, (5000.0,), (2.5,)),
    "a ** b": (lambda a, b: a**b, BOTH, (2.0, 3.0), (0.0, -1.0), (1e300, 2.0), (-2.0, 3.0)),
    "int": (lambda a: int(a), (OverflowError, ValueError), (float("inf"),), (float("nan"),), (2.7,)),
    "of NumPy": (lambda a: np.true_divide(1.0, a), ZERO, (0.0,), (2.0,)),
    "float64": (lambda a: 1.0 / a, ZERO, (np.float64(0.0),), (np.float64(2.0),)),
    "element": (lambda a: 1.0 / a[0], ZERO, (np.zeros(2),), (np.ones(2),)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("caught", [True, False])
@pytest.mark.parametrize("case", ERRORS)
def test_errors_of_floats_are_pythons(case, caught):
    compute, errors, *calls = ERRORS[case]

    def catching(*args):
        try:
            return compute(*args)
        except errors:
            return -1.0

    def outcome(function, args):
        try:
            return float(function(*args))
        except ArithmeticError as error:
            return type(error), str(error)
        except ValueError as error:
            return type(error), str(error)

    plain = catching if caught else compute
    f = compile_grad(plain)
    for _ in range(2):
        for args in calls:
            for _ in range(3):
                got, expected = outcome(f, args), outcome(plain, args)
                assert got == (pytest.approx(expected, rel=1e-14) if isinstance(expected, float) else expected)


def test_a_complex_power_is_refused():
    f = compile_grad(lambda a: a ** (1 / 3))
    assert f(8.0) == pytest.approx(2.0)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="complex in Python"):
            f(-8.0)
    assert f(8.0) == pytest.approx(2.0)


SCALARS = {
    "reshape": lambda v: v.reshape(()),
    "np.reshape": lambda v: np.reshape(v, ()),
    "T": lambda v: v.T,
    "transpose": lambda v: np.transpose(v),
    "copy": lambda v: v.copy(),
    "astype": lambda v: v.astype(np.float32),
    "np.astype": lambda v: np.astype(v, np.float32),
    "ellipsis": lambda v: v[...],
    "np.copy": lambda v: np.copy(v),
    "broadcast_to": lambda v: np.broadcast_to(v, ()),
    "one element": lambda v: v.reshape(1),
}
PYTHONS = {
    "reshape": lambda v: np.reshape(v, ()),
    "transpose": lambda v: np.transpose(v),
    "copy": lambda v: np.copy(v),
    "clip": lambda v: np.clip(v, 0, 1),
    "round": lambda v: np.round(v),
    "real": lambda v: np.real(v),
    "sin": lambda v: np.sin(v),
}


@pytest.mark.parametrize("kind, name", [(np.float64, name) for name in SCALARS] + [(float, name) for name in PYTHONS])
def test_what_becomes_of_a_scalar(kind, name):
    change = SCALARS[name] if kind is np.float64 else PYTHONS[name]
    found = []

    def f(v):
        w = change(v)
        found.append(type(w))
        return np.sum(w) * (2.0 if type(w) is np.ndarray else 3.0 if type(w) is float else 5.0)

    compiled = compile_grad(f)
    for value in (0.5, 1.25, 0.5):
        assert compiled(kind(value)) == f(kind(value))
    assert len(set(found)) == 1


COUNTED = {
    "a sum of truths": lambda a, n: ((a > 0) + (a > 1) + (n > 2)) * a,
    "a difference": lambda a, n: ((a > 0) - (n > 5)) * a,
    "a product": lambda a, n: (a > 0) * (n > 2),
    "a quotient": lambda a, n: (n > 5) / ((a > 0) + 1),
    "a power": lambda a, n: a ** ((a > 0) + (n > 0)),
    "bits": lambda a, n: (~(a > 0), (a > 0) & True, False | (n > 0), (a > 0) << 2, (a > 0) ^ (n > 0)),
    "signs": lambda a, n: (-(a > 0), +(a > 0), abs(n > 2)),
    "a literal": lambda a, n: (a * True, False + a, True / a, a**True, divmod(a, True), a > True, a == True),  # noqa: E712
    "isinstance": lambda a, n: isinstance(a, float) * a + any([a > 0]) * n,
    "float32 beside it": lambda a, n: np.ones(2, np.float32) * (a * True) * ((a > 0) + (n > 0)),
    "small ints beside it": lambda a, n: (np.ones(2, np.int8) + True, np.ones(2, np.int8) * (a > 0)),
    "NumPy's functions": lambda a, n: (np.add(a > 0, n > 0), np.multiply(a > 0, True), np.logical_and(a > 0, n > 0)),
    "NumPy's truth": lambda a, n: (a * np.True_, (a > 0) & np.True_),
    "an imaginary part": lambda a, n: (a.imag, a.real),
    "a division that raises": lambda a, n: 1.0 / ((a > 5) * True + (a > 9)),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTED)
def test_pythons_truths_are_ints_where_they_are_counted(case):
    plain = COUNTED[case]
    kinds = lambda values: [(type(v), getattr(v, "dtype", None)) for v in values]  # noqa: E731
    told = lambda a, n: (plain(a, n), kinds(plain(a, n)) if type(plain(a, n)) is tuple else type(plain(a, n)))  # noqa: E731
    f, g = compile_grad(plain), compile_grad(lambda a, n: told(a, n)[1] == seen[0])
    for a, n in ((2.5, 3), (2.5, 3.0), (-2.5, 0.5), (0.5, True), (2.5, 3), (7.5, False)):
        try:
            expected, seen = plain(a, n), [told(a, n)[1]]
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                f(a, n)
            continue
        found = f(a, n)
        for one, other in zip(*(v if type(v) is tuple else (v,) for v in (found, expected)), strict=True):
            np.testing.assert_array_equal(one, other)
            assert isinstance(one, np.ndarray) == isinstance(other, np.ndarray)
            assert np.asarray(one).dtype == np.asarray(other).dtype
        assert g(a, n)


ITERATORS = """
its[1] in its | its[0] in (its[0], 1.0) | its[0] == its[0] | its[0] == its[1] | its.index(its[1]) | its.count(its[0])
tuple(its) == (its[0], its[1]) | [its] == [its] | {"a": its[0]} != {"a": its[0]} | its.remove(its[0]) or len(its)
{its[0]: 2.0}.get(its[0], 5.0) | {its[0]: 2.0}.pop(its[0]) | {its[0]: 2.0}[its[0]] | its[1] in {*its} | made in [made]
len(set(its) & {its[0]}) | (its[0], 1).index(its[0]) | operator.contains(its, its[1]) | operator.countOf(its, its[1])
operator.indexOf(its, its[1]) | [sum(i) for i in list(its)][1] | next(zip(*its))[1] | sum(i is its[1] for i in its)
"""


@pytest.mark.parametrize("case", ITERATORS.strip().replace("\n", " | ").split(" | "))
def test_iterators_are_compared_as_what_they_are(case):
    text = f"def f(x):\n its, made = [iter(x), iter([x[0], 2.0])], (v for v in x)\n return x[0] * ({case})\n"
    space = {"operator": operator}
    exec(code_of(text, case), space)
    f = compile_grad(space["f"])
    for x in (np.array([2.0, 3.0]), np.array([4.0, 0.5])):
        assert f(x) == space["f"](x)
    assert not f.stats.live
