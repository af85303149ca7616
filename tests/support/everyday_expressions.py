"""Expressions of Python's everyday: over numbers, containers and objects outside, and over a traced array ``x``.

``outside()`` makes the state that they read, and ``CHANGES`` are what may happen to it between calls.
"""

from __future__ import annotations

import array
import bisect
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import heapq
import itertools
import json
import math
import numbers
import operator
import random
import re
import statistics
import string
import struct
import sys
import textwrap
import types
from typing import Any, NamedTuple

import numpy as np


class Pt(NamedTuple):
    x: float
    y: float


class Ob:
    k = 2.0

    def __init__(self, a: float) -> None:
        self.a, self.l, self.d = a, [1.0], {"k": 2.0}

    def m(self, v: Any) -> Any:
        return self.a * v

    @property
    def prop(self) -> float:
        return self.a + 1


@dataclasses.dataclass
class Dc:
    a: float = 1.0
    b: float = 2.0


class En(enum.Enum):
    A = 1
    B = 2


def op2(a: Any, b: float = 2.0) -> Any:
    return a * b


MODULES = {
    module.__name__.partition(".")[0]: module
    for module in (
        array, bisect, collections, copy, dataclasses, datetime, decimal, enum, fractions, functools, heapq, itertools,
        json, math, numbers, operator, random, re, statistics, string, struct, sys, textwrap, types,
    )
} | {"np": np, "scipy": sys.modules["scipy"]}  # fmt: skip


def outside() -> dict[str, Any]:
    """The state, as the globals of a module."""
    return MODULES | {
        "L": [0.5, 1.5, 2.5], "LL": [[0.5, 1.5], [2.5, 3.5]], "D": {"a": 0.5, "b": 1.5}, "S": {1, 2},
        "IA": np.array([0, 2, 1]), "D2": {0: 1.5, 1: 2.5, 2: 3.5}, "T": Pt(0.5, 1.5), "O": Ob(0.5), "DC": Dc(),
        "Pt": Pt, "Ob": Ob, "En": En, "op2": op2,
    }  # fmt: skip


def _values(s: dict[str, Any]) -> None:
    s["L"][0], s["LL"][0][0], s["D"]["a"], s["O"].a, s["O"].l[0] = 0.75, 0.9, 0.6, 0.8, 3.0
    s["O"].d["k"], s["DC"].a, s["IA"][0], s["D2"][1], s["T"] = 5.0, 4.0, 1, 9.5, Pt(0.7, 1.9)


def _growth(s: dict[str, Any]) -> None:
    s["L"].append(3.5)
    s["LL"][1].append(1.0)
    s["D"]["c"] = 2.5
    s["S"].add(3)
    s["O"].l.append(1.0)


def _others(s: dict[str, Any]) -> None:
    s.update(L=[0.5, 1.5, 2.5], LL=[[0.5, 1.5], [2.5, 3.5]], D={"b": 0.5, "a": 1.5}, S={2, 1}, O=Ob(0.25))


def _order(s: dict[str, Any]) -> None:
    s["L"].reverse()
    s["D"]["b"] = s["D"].pop("b", 0.0) + 0.1
    s["LL"].reverse()
    s["IA"] = np.array([2, 1, 0])


CHANGES = (_values, _growth, _others, _order)
EXPRESSIONS = r"""
sum(itertools.islice(L, 2))
sum(itertools.chain(L, [1.0, 2.0]))
sum(itertools.chain.from_iterable(LL))
list(itertools.accumulate(L))[-1]
list(itertools.accumulate(x))[-1]
list(itertools.accumulate(x, operator.mul))[-1]
sum(a * b for a, b in itertools.product(L, x))
sum(a * b for a, b in itertools.combinations(L, 2))
sum(a * b for a, b in itertools.combinations(x, 2))
sum(a * b for a, b in itertools.permutations(range(3), 2))
sum(a * b for a, b in itertools.pairwise(L))
sum(a * b for a, b in itertools.pairwise(x))
sum(a * b for a, b in itertools.zip_longest(L, x[:2], fillvalue=1.0))
[k for k, g in itertools.groupby([1, 1, 2])] == [1, 2]
sum(itertools.starmap(operator.mul, zip(L, x)))
sum(itertools.takewhile(lambda v: v < 2, L))
sum(itertools.dropwhile(lambda v: v < 2, L))
sum(v for v, _ in zip(itertools.cycle(L), range(7)))
sum(v for v, _ in zip(itertools.count(1), range(7)))
sum(itertools.repeat(2.0, 3))
sum(itertools.compress(L, [1, 0, 1]))
sum(itertools.filterfalse(lambda v: v < 2, L))
sum(sum(t) for t in itertools.tee(L))
sorted(L, key=lambda v: -v)[0]
sorted(L, reverse=True)[0]
sorted(D.items())[0][1]
sorted(D, key=D.get)[0] == 'a'
min(L, key=lambda v: -v)
max(D.values())
max(L, default=0)
min(x)
max(x[0], 0.5)
list(reversed(L))[0]
L[::-1][0]
L[1:][0]
L.index(1.5)
L.count(1.5)
L.copy()[0]
(L + [1.0])[-1]
(L * 2)[-1]
len(L * 2)
1.5 in L
[v * 2 for v in L][0]
{k: v * 2 for k, v in D.items()}['a']
dict(D)['a']
dict(D, z=1.0)['z']
{**D, 'z': 2.0}['z']
(D | {'z': 2.0})['z']
D.get('q', 3.0)
D.get('a')
D.keys() == {'a', 'b'}
list(D)[0] == 'a'
len(D)
sum(D.values())
[*D.items()][0][1]
next(iter(D.values()))
next(iter(L))
tuple(L)[0]
set(['a', 'b']) == {'a', 'b'}
S == {1, 2}
sum(S)
len(S | {5})
S & {1} == {1}
sorted(S)[0]
frozenset(S) == S
1 in S
'ab'.upper() == 'AB'
'a,b'.split(',')[1] == 'b'
','.join(['a', 'b']) == 'a,b'
'x' in 'xyz'
'a' + 'b' == 'ab'
'%s' % 3 == '3'
f'{3:.2f}' == '3.00'
'{}'.format(3) == '3'
int('3') + float('2.5')
'abc'.find('c')
'abc'.replace('a', 'z') == 'zbc'
'abc'.startswith('a')
'abc'[::-1] == 'cba'
ord('a')
T.x
T[0]
T._replace(x=2.0).x
T._asdict()['x']
Pt(1.0, 2.0).x
O.a
O.l[0]
O.d['k']
O.m(2.0)
O.prop
getattr(O, 'a')
getattr(O, 'zz', 1.0)
hasattr(O, 'a')
vars(O)['a']
O.__dict__['a']
isinstance(O, Ob)
type(O) is Ob
type(O).__name__ == 'Ob'
O == O
O is O
Ob(3.0).a
dataclasses.replace(DC, a=2.0).a
dataclasses.asdict(DC)['a']
dataclasses.astuple(DC)[0]
dataclasses.fields(DC)[0].name == 'a'
DC.a
DC == DC
copy.copy(O).a
copy.deepcopy(O).l[0]
copy.deepcopy(L)[0]
functools.partial(operator.mul, 2.0)(x[0])
functools.reduce(operator.add, L)
functools.reduce(lambda a, b: a * b, x)
operator.itemgetter('a')(D)
operator.attrgetter('a')(O)
operator.methodcaller('m', 2.0)(O)
math.fsum(L)
math.prod(L)
math.hypot(*L)
math.dist([1, 2], [3, 4])
statistics.mean(L)
statistics.median(L)
statistics.stdev(L)
collections.Counter('aab')['a']
collections.defaultdict(float, D)['a']
collections.defaultdict(float)['q']
collections.deque(L)[0]
collections.deque(L, maxlen=2)[0]
collections.OrderedDict(D)['a']
collections.ChainMap({'a': 5.0}, D)['a']
collections.namedtuple('N', 'a b')(1.0, 2.0).a
En.A.value
En(1) is En.A
En['A'].value
En.A.name == 'A'
len(En)
[e.value for e in En][0]
np.array(L).sum()
np.asarray(L)[0]
np.stack([x, x]).sum()
np.concatenate([x, L]).sum()
np.sum(L)
np.array([v for v in x]).sum()
np.fromiter((v for v in L), float).sum()
np.polyfit(L, L, 1)[0]
np.linspace(*L[:2], 3)[1]
np.array(list(D.values())).sum()
np.vectorize(lambda v: v * 2)(x).sum()
np.apply_along_axis(lambda v: v * 2, 0, x).sum()
np.fromfunction(lambda i, j: i + j, (2, 2)).sum()
np.random.default_rng(0).normal()
random.Random(0).random()
bool(L)
not L
L and 1.0
any(v > 2 for v in L)
all(v > 2 for v in L)
any(L)
callable(O.m)
hash('a') == hash('a')
hash((1, 2)) == hash((1, 2))
str(3.0) == '3.0'
repr([1]) == '[1]'
round(2.567, 2)
divmod(7, 2)[0]
abs(-3.0)
complex(1, 2).imag
int(3.7)
bin(5) == '0b101'
slice(0, 2).stop
L[slice(0, 2)][0]
range(5)[2]
len(range(3, 9))
bytes([1, 2])[0]
bytearray(b'ab')[0]
memoryview(b'ab')[0]
array.array('d', L)[0]
struct.unpack('d', struct.pack('d', 2.0))[0]
json.loads('[1, 2]')[0]
json.dumps(D) == '{"a": 0.5, "b": 1.5}'
re.match('a(.)', 'ab').group(1) == 'b'
re.sub('a', 'b', 'aa') == 'bb'
bisect.bisect(L, 1.0)
heapq.nsmallest(1, L)[0]
heapq.nlargest(1, L)[0]
decimal.Decimal('1.5') > 1
float(decimal.Decimal('1.5') * 2)
float(fractions.Fraction(1, 3))
datetime.date(2020, 1, 1).year
datetime.timedelta(days=1).total_seconds()
string.ascii_lowercase[0] == 'a'
sys.maxsize > 0
op2.__name__ == 'op2'
op2(x[0])
(lambda v: v + 1)(x[0])
types.SimpleNamespace(a=1.0).a
textwrap.dedent(' a') == 'a'
numbers.Real.__name__ == 'Real'
isinstance(1.0, numbers.Real)
isinstance(x, np.ndarray)
isinstance(x[0], float)
np.isscalar(x[0])
np.ndim(x)
x.shape[0]
x.dtype == np.float64
x.size
len(x)
x.tolist()[0]
x.item(0)
list(x)[0]
float(x[0])
[*x][0]
dict(enumerate(x))[0]
dict(zip('abc', x))['a']
max(x, key=lambda v: v)
sorted(x)[0]
sorted(x, key=lambda v: -v)[0]
x.astype(float).sum()
np.unique(IA).size
np.where(IA > 1)[0].size
IA[0]
x[IA[0]]
x[IA].sum()
D2[IA[0]]
LL[0][0]
LL[IA[0]][0]
np.histogram(L, bins=2)[0][0]
scipy.special.gamma(2.5)
scipy.stats.norm(0, 1).logpdf(x[0])
scipy.optimize.brentq(lambda t: t - 0.3, 0, 1)
scipy.integrate.quad(lambda t: t, 0, 1)[0]
scipy.linalg.solve(np.eye(3), x).sum()
scipy.sparse.eye(3).tocsr().dot(x).sum()
""".strip().split("\n")
