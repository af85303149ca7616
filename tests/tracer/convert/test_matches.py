"""``match`` statements of copies do what CPython does, pattern by pattern."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import enum

import numpy as np
import pytest
from converted import copied, deeply, outcome

LOG: list[object] = []


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Point:
    x: object
    y: object = 0


class Plain:
    __match_args__ = ("a", "missing")

    def __init__(self, a):
        self.a = a


class Wrong:
    __match_args__ = ["a"]  # noqa: RUF012


class Row(collections.UserList):
    pass


class Asked(collections.abc.Sequence):
    """Says what it is asked, and has other items where one goes through it."""

    def __init__(self, items, others):
        self.items, self.others = items, others

    def __len__(self):
        LOG.append("len")
        return len(self.items)

    def __getitem__(self, k):
        LOG.append(k)
        return self.items[k]

    def __iter__(self):
        LOG.append("iter")
        return iter(self.others)


class Table(collections.UserDict):
    pass


Pair = collections.namedtuple("Pair", "left right")


def noted(x):
    LOG.append(x)
    return x


def values(x):
    match noted(x):
        case 1 | 2:
            return "one or two"
        case -1.5:
            return "negative"
        case "a" | b"a":
            return "text"
        case None:
            return "none"
        case True | False:
            return "truth"
        case Color.RED:
            return "red"
        case 3 + 4j:
            return "complex"
    return "no case"


def sequences(x):
    match x:
        case []:
            return "empty"
        case [a]:
            return "one", a
        case [1, *rest] if noted(len(rest)) > 1:
            return "rest", rest
        case (a, (b, *_, c), *rest):
            return "nested", a, b, c, rest
        case [*before, "end"]:
            return "end", before
        case [_, _]:
            return "two"
        case [*_]:
            return "any"
        case other:
            return "other", type(other).__name__


def asked(x):
    match x:
        case []:
            return "empty"
        case [_, _, _, _]:
            return "four"
        case [1, *_, 2]:
            return "ends"
        case [_, a, *_] if noted(a) == 7:
            return "second", a
        case [*_, b, _] if noted(b) == 8:
            return "last but one", b
        case [a, *rest]:
            return "rest", a, rest
    return "none"


def asked_for_all(x):
    match x:
        case [*every]:
            return every


def mappings(x):
    match x:
        case {} if len(x) == 0:
            return "empty"
        case {"a": 1, Color.RED: y}:
            return "red", y
        case {"a": [p, q], **rest}:
            return "parts", p, q, rest
        case {"b": {"c": c}}:
            return "nested", c
        case {"b": b} if b:
            return "b", b
        case {}:
            return "any"
    return "none"


def classes(x):
    match x:
        case Point(0, y=y):
            return "on the axis", y
        case Point(x=px, y=Point() as inner):
            return "inner", px, inner
        case Point(px, py) if px == py:
            return "diagonal", px
        case Plain(a, b):
            return "both", a, b
        case Plain(a):
            return "plain", a
        case str(text) | bytes(text):
            return "text", text
        case int() | float() as number:
            return "number", number
        case Pair(left, [right, *_]) | Pair(right, left):
            return "pair", left, right
        case list([a, *_]):
            return "list", a
        case {"kind": Color(name=name), "at": (int() | None) as at}:
            return name, at
    return "none"


def errors(x):
    match x:
        case Wrong(a):
            return a
        case Point(a, b, c):
            return a, b, c
        case values():
            return "no class"


def loops(xs):
    total, seen, last = 0, [], "unbound"
    for x in xs:
        match x:
            case ("add", n):
                total += n
            case ("skip",):
                continue
            case ("stop", *last):
                break
            case {"n": n} | [_, n]:
                seen.append(n)
        seen.append(total)
    return total, seen, last


def captures_of_cases_that_fail(x):
    a = b = "before"
    match x:
        case [a, b] if noted(a) > noted(b):
            return "first", a, b
        case [a, 5]:
            return "second", a, b
    return a, b


def in_cells(x):
    out = []

    def show():
        return a, total

    total = 0
    match x:
        case [a, *_] | {"a": a}:
            out.append(show)
        case a:
            pass
    total = 1
    return [f() for f in out], (lambda: a)()


def store_a_global(x):
    global made
    match x:
        case {"made": made}:
            pass
    return made


made = "nothing"

CALLS = {
    values: [1, 2.0, -1.5, "a", b"a", None, True, 0, Color.RED, Color.BLUE, 3 + 4j, [1], np.float64(2.0)],
    sequences: [
        [], (), [7], [1, 2], [1, 2, 3], (0, [1, 2], 3), [0, (1, 5, 2)], [5, "end"], [5, 6, 7], {1, 2}, "ab", range(3),
        collections.deque([1, 2, 3]), Row([4, 5]), Pair(1, [2, 3]), np.ones(2), b"ab", {},
    ],
    asked: [
        Asked([], [1]), Asked([1] * 4, ()), Asked([1, 5, 2], ()), Asked([1, 7, 3], ()), Asked([1, 8, 3], ()),
        Asked([3], [4, 5]), Asked([3, 4], [4]), Asked([3, 4], ()), [1, 7], {1}, (5, 8, 3), np.ones(3),
    ],
    asked_for_all: [Asked([1, 2], [3]), Asked([], ()), [5], 3],
    mappings: [
        {}, {"a": 1, Color.RED: 5}, {"a": [1, 2], "z": 3}, {"b": {"c": 4, "d": 5}}, {"b": 0}, {"b": 7}, [],
        collections.defaultdict(list), collections.OrderedDict(a=(1, 2)), Table(b=3), collections.Counter("ab"),
    ],
    classes: [
        Point(0, 3), Point(0.0), Point(1, Point(2)), Point(4, 4), Point(4, 5), Plain(3), "t", b"t", 5, 2.5, True,
        Pair(1, [2, 3]), Pair(1, 2), [9, 8], {"kind": Color.RED, "at": None}, {"kind": 3, "at": None}, None,
        np.float64(1.0),
    ],
    errors: [Wrong(), Point(1), 3],
    loops: [[("add", 1), ("skip",), {"n": 5}, ("add", 2), [0, 9], ("stop", 1, 2), ("add", 50)], [], [3]],
    captures_of_cases_that_fail: [[1, 5], [5, 1], [1, 4], 3],
    in_cells: [[1, 2], {"a": 3}, 5],
    store_a_global: [{}, {"made": 3}, {}],
}  # fmt: skip


@pytest.mark.parametrize("f", CALLS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("form", [copied, deeply])
def test_a_match_does_the_same(f, form):
    global made
    for x in CALLS[f]:
        found = []
        before = made
        for one in (f, form(f)):
            LOG.clear()
            made = before
            found.append((repr(outcome(one, x)), repr(LOG), made))
        assert found[0] == found[1], x
