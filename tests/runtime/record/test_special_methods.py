"""Special methods of the user's classes are asked as Python asks them, in runs that are logged and in live ones."""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import operator
import time
import types

import numpy as np
import pytest
from leftovers import leftovers

from tracegrad import compile_grad

X = np.array([0.7, 1.3, 0.4])


def plain_value(number):
    """The value of a number, by what only recorded code can do with a traced one."""
    z = np.zeros(1)
    z[0] = number.v
    return float(z[0])


class Number:
    """Its methods ask what only recorded code can answer for a traced value."""

    def __init__(self, v):
        self.v = v

    _plain = plain_value

    def __radd__(self, other):
        return Number((sum(other) if isinstance(other, list) else other) + self._plain())

    def __rsub__(self, other):
        return NotImplemented

    def __mul__(self, other):
        return NotImplemented if isinstance(other, str) else Number(self._plain() * other)

    def __lt__(self, other):
        return self._plain() < other

    def __gt__(self, other):
        return self._plain() > other

    def __eq__(self, other):
        return NotImplemented if other is None else self._plain() == other

    __hash__ = None

    def __getitem__(self, k):
        if k > 2:
            raise IndexError(k)
        return self._plain() * k


class Above(Number):
    def __radd__(self, other):
        return Number(100.0 + self.v)

    def __add__(self, other):
        return Number(200.0 + self.v)


class NotForArrays(Number):
    __array_ufunc__ = None

    def __rmul__(self, other):
        return Number(self._plain() * float(other) + 1.0)


class Counts:
    def __init__(self, n):
        self.n, self.begun = n, 0

    def __iter__(self):
        self.begun += 1
        return self

    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return float(self.n)


class Length:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


class Truth(Length):
    def __bool__(self):
        return self.n


class Hooked:
    @property
    def p(self):
        raise AttributeError("of the property")

    def __getattr__(self, name):
        return 3.0 if name in ("p", "q") else object.__getattribute__(self, name)


class Entered:
    def __init__(self, quiet):
        self.quiet = quiet

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return self.quiet


class OnlyEnters:
    def __enter__(self):
        return self


class Shown:
    def __str__(self):
        return "as a text"

    def __repr__(self):
        return "Shown()"


class NoItems:
    __iter__ = None

    def __getitem__(self, k):
        return 1.0


class Doubled:
    def __get__(self, obj, kind=None):
        return 5.0 if obj is None else obj.held * 2.0

    def __set__(self, obj, value):
        obj.held = Number(value)._plain() + 1.0

    def __delete__(self, obj):
        obj.held = Number(obj.held)._plain() * 100.0


class Owner:
    d = Doubled()
    held = 1.0

    @property
    def p(self):
        return Number(self.held)._plain()

    @p.setter
    def p(self, value):
        self.held = Number(value)._plain() * 3.0

    @p.deleter
    def p(self):
        self.held = 7.0

    @property
    def only_read(self):
        return 1.0


class Inherits(Owner):
    @property
    def p(self):
        return super().p + 0.25

    @classmethod
    def of_class(cls):
        return super().__new__(cls).d + super().d


class Meta(type):
    def __getattr__(cls, name):
        return 2.5 if name == "from_meta" else super().__getattribute__(name)


class ByMeta(metaclass=Meta):
    pass


class Bare:
    def __getattribute__(self, name):
        if name == "a":
            return 4.0
        raise AttributeError(name)

    def __getattr__(self, name):
        return 6.0


def sorted_in_place(x):
    numbers, others = [x[0], x[2], x[1]], [Vector(v) for v in x]
    numbers.sort(key=float, reverse=True)
    others.sort()
    return numbers[0] + 2.0 * numbers[2] + 3.0 * others[0].v


class Made:
    def __new__(cls, v):
        made = Number(v) if v > 0.5 else object.__new__(cls)
        made.kind = cls.__name__
        return made

    def __init__(self, v):
        self.v = v * 10.0


class NoInit:
    def __init__(self, v):
        self.v = v
        return 1


class Vector:
    """All that code in C may ask."""

    def __init__(self, v):
        self.v = v

    _plain = plain_value

    def __abs__(self):
        return self._plain() + 1.0

    def __round__(self, digits=None):
        return self._plain() * (2.0 if digits is None else digits)

    def __divmod__(self, other):
        return self._plain(), other

    def __rdivmod__(self, other):
        return other, self._plain()

    def __pow__(self, other, modulus=None):
        return self._plain() * other + (0.0 if modulus is None else modulus)

    def __rpow__(self, other):
        return self._plain() * other * 2.0

    def __matmul__(self, other):
        return self._plain() * 3.0

    def __iadd__(self, other):
        self.v = self._plain() + other
        return self

    def __invert__(self):
        return self._plain() * 5.0

    def __pos__(self):
        return self

    def __eq__(self, other):
        return isinstance(other, Vector) and self._plain() == other._plain()

    def __hash__(self):
        return 1

    def __lt__(self, other):
        return self._plain() < other._plain()

    def __len__(self):
        return 2

    def __getitem__(self, k):
        if type(k) is slice:
            return self._plain() * (k.stop or 1)
        if not -2 <= k < 2:
            raise IndexError(k)
        return self._plain() * (k + 1)

    def __setitem__(self, k, value):
        self.v = Number(value)._plain() * (k + 1)

    def __delitem__(self, k):
        self.v = self._plain() * 100.0 + k

    def __reversed__(self):
        return iter([self._plain(), 0.5])

    def __call__(self, k=1.0, *more, by=1.0):
        return self._plain() * k * by + len(more)

    def __copy__(self):
        return Vector(self._plain() * 2.0)

    def __int__(self):
        return 3

    def __index__(self):
        return 1

    def __floor__(self):
        return 2

    def __format__(self, spec):
        return f"[{spec}]"


class Text(str):
    __slots__ = ()

    def __ne__(self, other):
        return True

    __hash__ = str.__hash__


class Steps:
    def __next__(self):
        raise StopIteration


class Noted:
    def __radd__(self, other):
        return NotImplemented


def joined_to(values, x):
    values += Number(x)
    return values.v


class Whole:
    def __radd__(self, other):
        return NotImplemented

    def __iadd__(self, other):
        return NotImplemented

    def __add__(self, other):
        return 3.0


class Members(type):
    def __instancecheck__(cls, obj):
        return getattr(obj, "member", False)

    def __call__(cls, *args):
        return super().__call__(*args).v + 1.0


class OfMembers(metaclass=Members):
    def __init__(self, v):
        self.v = v


def unpacked(x):
    a, b = Vector(x[0])
    c, *d = Vector(x[1])
    return a + 10.0 * b + 100.0 * c + 1000.0 * d[0] + sum([*Vector(x[2])]) + sum((lambda *k: k)(*Vector(x[0])))


def changed(x):
    v, n = Vector(x[0]), Vector(x[1])
    v[1] = x[2]
    first = v.v
    del v[3]
    before = n
    n += 2.0
    return first + v.v + n.v * (2.0 if n is before else 3.0)


def in_place_of_all(x):
    w, values = Whole(), [1.0]
    w += 1.0
    values += Vector(x[0])
    return x[0] * w + sum(values)


def attributes(x):
    o = Owner()
    o.d = x[0]
    first = o.d
    o.p = x[1]
    second = o.p if Inherits.p is vars(Inherits)["p"] else 0.0
    del o.d
    third = o.held
    del o.p
    return first + 10 * second + 100 * third + o.held + Owner.d


def iterator_of_its_own(x):
    c = Counts(3)
    it = iter(c)
    first = next(it)
    return x[0] * first * (2.0 if it is c else 3.0) * it.begun + sum(c)


def refused(function):
    """The class and the words of the error that *function* raises."""

    def case(x):
        try:
            function(x)
        except Exception as error:
            return x[0] * len(f"{type(error).__name__}: {error}")
        return x[0] * 0.5

    return case


def in_place(x):
    n = Number(x[0])
    n *= x[1]
    return n.v


def quiet(x):
    with Entered(True) as e:
        raise ValueError(e)
    return x[0] * 2.0


def loud(x):
    with contextlib.suppress(KeyError), Entered(0):
        raise KeyError(1)
    return x[0] * 3.0


def iterated(x):
    return sum(Number(x[0])) + sum(2.0 * v for v in Number(x[1])) + max(*Number(x[2]))


def compared(x):
    a, b = Number(x[0]), Number(x[1])
    found = [a < 1.0, 1.0 < b, a == 0.7, a != 0.7, a == None]  # noqa: E711, SIM300
    return x[0] * (1.0 + sum(2.0**k * bool(answer) for k, answer in enumerate(found)))


CASES = {
    "a number of NumPy's before": lambda x: (np.float64(2.0) + Number(x[0])).v,
    "a number of NumPy's after": refused(lambda x: Length(1) + np.float64(2.0)),
    "numbers of NumPy's": lambda x: (Number(x[0]) * np.float64(2.0)).v + (np.float64(2.0) + Number(x[1])).v,
    "a text before": lambda x: x[0] * (2.0 if np.float64(1.0) != Text("a") else 3.0),
    "a list before": lambda x: joined_to([1.0], x[0]) + sum([1.0, 2.0] * Vector(x[1])),
    "a list before, by no method": refused(lambda x: operator.iadd([1.0], Noted())),
    "no iteration by steps alone": refused(lambda x: [*Steps()]),
    "a sequence and no number": refused(lambda x: [1.0] * Length(2)),
    "an object that is not called": refused(lambda x: Length(2)()),
    "a number of Python's before": lambda x: (2.0 + Number(x[0])).v,
    "a subclass is asked first": lambda x: (Number(x[0]) + Above(x[1])).v,
    "one class is asked once": refused(lambda x: Number(x[0]) + Number(x[1])),
    "an object that arrays leave alone": lambda x: (np.float64(2.0) * NotForArrays(x[0])).v,
    "an array beside an object": lambda x: (np.arange(2.0) + Number(x[0]))[1].v,
    "comparisons": compared,
    "a number of NumPy's is compared": lambda x: x[0] * (2.0 if np.float64(1.0) < Number(x[1]) else 3.0),
    "in place": in_place,
    "in place, by no method": refused(lambda x: exec_in_place(Number(x[0]))),
    "no operator": refused(lambda x: Number(x[0]) * "a"),
    "no reflected operator": refused(lambda x: 1.0 - Number(x[0])),
    "no comparison": refused(lambda x: Length(1) < Length(2)),
    "no order": refused(lambda x: Length(1) >= 2),
    "an iterator is itself": iterator_of_its_own,
    "iteration by items": iterated,
    "no iteration": refused(lambda x: [*NoItems()]),
    "no number": refused(lambda x: [*Length(3)]),
    "a length": lambda x: x[0] * len(Length(3)),
    "a negative length": refused(lambda x: len(Length(-1))),
    "a length that is none": refused(lambda x: len(Length("a"))),
    "a truth by the length": lambda x: x[0] * (2.0 if Length(3) else 3.0) * (2.0 if not Length(0) else 3.0),
    "a truth that is none": refused(lambda x: x[0] if Truth(1) else x[1]),
    "a negative length as a truth": refused(lambda x: x[0] if Length(-2) else x[1]),
    "a property that has no value": lambda x: x[0] * Hooked().p + Hooked().q,
    "descriptors": attributes,
    "a property above": lambda x: x[0] * Inherits().p,
    "a descriptor of a class": lambda x: x[0] * Inherits.of_class(),
    "a property without a setter": refused(lambda x: setattr(Owner(), "only_read", x[0])),
    "an attribute by the metaclass": lambda x: x[0] * ByMeta.from_meta,
    "no attribute by the metaclass": refused(lambda x: ByMeta.nothing),
    "all attributes by hooks": lambda x: x[0] * Bare().a * Bare().b,
    "another class is made": lambda x: x[0] * (Made(x[0]).v + 10.0 * (type(Made(x[0])) is Number) + Made(x[2]).v),
    "no result of an initialiser": refused(lambda x: NoInit(x[0])),
    "numbers": lambda x: abs(Vector(x[0])) + 10 * round(Vector(x[1])) + round(Vector(x[2]), 2) + (+Vector(x[0])).v,
    "two numbers": lambda x: sum(divmod(Vector(x[0]), 2.0)) + 10 * sum(divmod(3.0, Vector(x[1]))) + (~Vector(x[2])),
    "powers": lambda x: Vector(x[0]) ** 2.0 + pow(Vector(x[1]), 3.0, 4.0) + 2.0 ** Vector(x[2]) + Vector(x[0]) @ x,
    "integers": lambda x: x[0] * (int(Vector(1)) + 10 * operator.index(Vector(1)) + 100 * math.floor(Vector(1))),
    "an index": lambda x: x[Vector(1)] + [1.0, 2.0][Vector(1)] + len("ab"[: Vector(1)]),
    "items": lambda x: Vector(x[0])[1] + 10 * Vector(x[1])[:3] + 100 * Vector(x[2])[-1],
    "no item": refused(lambda x: Vector(x[0])[5]),
    "changes": changed,
    "unpacked": unpacked,
    "too many": refused(lambda x: one_of(Vector(x[0]))),
    "iterators in C": lambda x: sum(a * b for a, b in zip(Vector(x[0]), [2.0, 3.0], strict=True))
    + sum(map(float, Vector(x[1]))) + sum(k * v for k, v in enumerate(Vector(x[2]), 1))
    + sum(reversed(Vector(x[0]))) + max(Vector(x[1])),
    "in order": lambda x: sum(k * v.v for k, v in enumerate(sorted([Vector(x[0]), Vector(x[1]), Vector(x[2])])))
    + min([Vector(x[1]), Vector(x[2])]).v + max(Vector(x[0]), Vector(x[1])).v
    + max(x, key=lambda v: Vector(-v)) + sum([Number(x[0]), Number(x[1])][:1], 2.0).v,
    "sorted in place": sorted_in_place,
    "contained": lambda x: x[0] * (2.0 if x[0] in Vector(x[0]) else 3.0) * (2.0 if 9.0 not in Vector(x[0]) else 3.0),
    "called": lambda x: Vector(x[0])(2.0) + 10 * Vector(x[1])(3.0, 1, 2, by=2.0) + sum(map(Vector(x[2]), [1.0, 2.0])),
    "copies": lambda x: copy.copy(Vector(x[0])).v + copy.deepcopy(Whole()).__add__(1),
    "formats": lambda x: x[0] * len(f"{Vector(x[0]):abc}" + format(Vector(x[0]), "de") + f"{Vector(x[0]):f}"),
    "in place of all": in_place_of_all,
    "no operator in place": refused(lambda x: operator.iadd(1.0, Whole())),
    "functions of operators": lambda x: (operator.add(2.0, Number(x[0]))).v
    + functools.reduce(operator.mul, [Number(x[0]), 2.0, 3.0]).v + operator.getitem(Vector(x[1]), 1),
    "truths": lambda x: (Vector(x[0]) and x[1]) + (Length(0) or x[2]) + x[0] * (1.0 if not Length(0) else 2.0),
    "a chain": lambda x: x[0] * (2.0 if 0.1 < Number(x[0]) < 0.9 else 3.0),
    "a class that answers": lambda x: x[0] * (2.0 if isinstance(Truth(1), OfMembers) else 3.0),
    "a class that is called": lambda x: OfMembers(x[0]) * 2.0,
    "a default": lambda x: x[0] * getattr(Length(1), "none", 4.0) * (2.0 if hasattr(Hooked(), "p") else 3.0),
    "a hook without a value": refused(lambda x: Hooked().r),
    "a context that ends an error": quiet,
    "a context that does not": loud,
    "a context that can't be left": refused(lambda x: exec_with(OnlyEnters())),
    "texts": lambda x: x[0] * len(f"{Shown()}{Shown()!r}{Shown()!s:>12}" + str(Shown())),
    "a format of no text": refused(lambda x: f"{Shown():>3}"),
}  # fmt: skip


def one_of(v):
    (a,) = v
    return a


def exec_in_place(n):
    n += "a"
    return n


def exec_with(manager):
    with manager:
        return 1.0


@pytest.mark.parametrize("live", [False, True], ids=["logged", "live"])
@pytest.mark.parametrize("name", CASES)
def test_values_are_pythons(name, live):
    case = CASES[name]

    def f(x):
        return case(x) * 1.0 + (0.0 * time.perf_counter() if live else 0.0)

    compiled = compile_grad(f)
    for x in (X, X * 1.01, X):
        assert compiled(x) == pytest.approx(f(x), rel=1e-12)


LOGGED = {
    "an iterator of its own": iterator_of_its_own,
    "a property that has no value": CASES["a property that has no value"],
    "two numbers": CASES["two numbers"],
    "powers": CASES["powers"],
    "numbers": CASES["numbers"],
    "reversed": lambda x: sum(reversed(Vector(x[0]))) + next(reversed(Counted([x[1], x[2]]))),
}


class Counted:
    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, k):
        return self.values[k]


@pytest.mark.parametrize("name", LOGGED)
def test_the_log_holds_what_is_asked(name):
    case = LOGGED[name]
    compiled = compile_grad(lambda x: case(x) * 1.0)
    for x in (X, X * 1.01, X):
        assert compiled(x) == pytest.approx(case(x), rel=1e-12)
    assert not compiled.stats.live


KEPT = {
    "zip": lambda: zip(Counts(3), [1.0, 2.0, 3.0], strict=True),
    "map": lambda: map(abs, Counts(3)),
    "enumerate": lambda: enumerate(Counts(3)),
    "an iterator": lambda: iter(Counts(3)),
    "items": lambda: iter(Counted([1.0, 2.0, 3.0])),
    "reversed": lambda: reversed(Counted([1.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("name", KEPT)
def test_iterators_that_are_kept_go_through_the_users_objects(name):
    make, kept, plain = KEPT[name], types.SimpleNamespace(it=None), KEPT[name]()

    def f(x):
        kept.it = make()
        found = next(kept.it)
        return (found if type(found) is float else found[1]) * np.sum(x) + 0.0 * time.perf_counter()

    first = next(plain)
    assert compile_grad(f)(X) == pytest.approx((first if type(first) is float else first[1]) * X.sum())
    assert not leftovers({"kept": kept})
    assert [*kept.it] == [*plain]
