"""Special methods of the user's classes are asked as Python asks them, in runs that are logged and in live ones."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest

from tracegrad import compile_grad

X = np.array([0.7, 1.3, 0.4])


class Number:
    """Its methods ask what only recorded code can answer for a traced value."""

    def __init__(self, v):
        self.v = v

    def _plain(self):
        z = np.zeros(1)
        z[0] = self.v
        return float(z[0])

    def __radd__(self, other):
        return Number(other + self._plain())

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
    "a hook without a value": refused(lambda x: Hooked().r),
    "a context that ends an error": quiet,
    "a context that does not": loud,
    "a context that can't be left": refused(lambda x: exec_with(OnlyEnters())),
    "texts": lambda x: x[0] * len(f"{Shown()}{Shown()!r}{Shown()!s:>12}" + str(Shown())),
    "a format of no text": refused(lambda x: f"{Shown():>3}"),
}  # fmt: skip


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
