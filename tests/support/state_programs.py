# ruff: noqa: E501  (a row of a table is a line)
"""Random programs that read something outside in one of many ways, while it is changed in one of many ways.

    python tests/support/state_programs.py 0 20000    # hunt: every stale value is printed with its program
    python tests/support/state_programs.py 4711 1     # one seed again, with its source

A program defines an object ``o``, a function ``f`` that reads it, and a list of changes.  It runs in two namespaces, in
plain Python and compiled: three calls, a change, two calls, another change...  Every value, and the type of every
exception, must be plain Python's.  The tables at the top are the grammar: kinds of objects, ways to read, ways to
change, places where the function finds the object.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from with_source import code_of

from tracegrad import compile_grad

HEAD = """
import abc, collections, collections.abc, copy, dataclasses, enum, functools, inspect, math, numbers, operator
import string, types, typing, weakref
from collections import ChainMap, OrderedDict, UserDict, defaultdict, deque, namedtuple
from functools import partial, partialmethod, cached_property, singledispatch
from operator import attrgetter, itemgetter, methodcaller
NAME, OTHER = "rate", "other"
ga, ha, T, sup, og, fmt = getattr, hasattr, type, super, object.__getattribute__, "{0.rate}".format
get_rate, call_go, first_of, get_from = attrgetter("rate"), methodcaller("go"), itemgetter(0), partial(getattr)
class B:
    pass
class B2:
    rate = 5.0
    def go(self): return 6.0
class D(B):
    rate = 8.0
    def go(self): return 9.0
class Marker(abc.ABC):
    pass
class Meta(type):
    pass
@singledispatch
def dispatched(o): return 1.0
@dispatched.register(int)
def _(o): return 2.0
class Box: pass
"""

# ---- the objects: a definition of `o` (and of its class C), and the reads and changes that are its own ----------------

CLASS_CHANGES = [
    "C.rate = V", "del C.rate", "B.rate = V", "C.rate = property(lambda self: V)", "C.go = lambda self: V",
    "B.go = lambda self: V", "C.__getattr__ = lambda self, name: V", "C.__getattribute__ = lambda self, name: V",
    "C.__bases__ = (B2,)", "C.__len__ = lambda self: int(V)", "C.__bool__ = lambda self: V > 2",
    "C.__float__ = lambda self: V", "C.__index__ = lambda self: int(V)", "C.__getitem__ = lambda self, k: (V, V)[0 if k == NAME else k]",
    "C.__iter__ = lambda self: iter([V, V])", "C.__contains__ = lambda self, v: V > 2",
    "C.__eq__ = lambda self, other: V > 2", "C.__call__ = lambda self: V", "C.__format__ = lambda self, spec: str(V)",
    "C.__str__ = lambda self: str(V)", "C.__repr__ = lambda self: str(V)", "C.__enter__ = lambda self: V",
    "C.__exit__ = lambda self, *a: None", "C.__add__ = lambda self, other: V", "C.__neg__ = lambda self: V",
    "C.__lt__ = lambda self, other: V > 2", "C.__match_args__ = (OTHER, NAME)", "C.__match_args__ = (NAME,)",
    "Marker.register(C)", "C.__name__ = f'c{V}'", "C.__doc__ = str(V)", "C.__module__ = f'm{V}'",
    "C.__radd__ = lambda self, other: V", "C.__abs__ = lambda self: V", "C.__round__ = lambda self: V",
    "C.__int__ = lambda self: int(V)", "C.__hash__ = lambda self: int(V)", "C.__missing__ = lambda self, k: V",
    "C.__copy__ = lambda self: V", "C.__dir__ = lambda self: ['rate'] * int(V)", "C.__next__ = lambda self: V",
    "C.__matmul__ = lambda self, other: V", "C.__reversed__ = lambda self: iter([V])", "C.__sub__ = partial(lambda a, b: a, V)",
    "C.__mul__ = C.__add__", "C.__ge__ = lambda self, o: V > 2", "C.helper = staticmethod(lambda: V)",
    "C.made = classmethod(lambda cls: V)", "C.rate = cached_property(lambda self: V)", "C.__len__ = Sized(V)",
    "dispatched.register(C, lambda o: V)", "B.__bases__ = (B2,)", "C.__trunc__ = lambda self: int(V)",
]  # fmt: skip
OWN_CHANGES = [
    "o.rate = V", "setattr(o, 'rate', V)", "o.__dict__['rate'] = V", "vars(o).update(rate=V)", "del o.rate",
    "o.__dict__ = {'rate': V, 'other': 4.0}", "object.__setattr__(o, 'rate', V)", "o.other = V", "o.go = lambda: V",
    "o.__class__ = D", "o.__dict__.clear()", "delattr(o, 'rate')", "o.__doc__ = str(V)", "o.__name__ = f'n{V}'",
]  # fmt: skip
READS = [
    "r = o.rate", "r = getattr(o, 'rate')", "r = getattr(o, 'rate', 7.0)", "r = getattr(o, NAME, 7.0)",
    "r = o.rate if hasattr(o, 'rate') else 7.0", "r = ga(o, 'rate', 7.0)", "r = 3.0 if ha(o, 'rate') else 7.0",
    "try:\n    r = o.rate\nexcept AttributeError:\n    r = 7.0", "try:\n    r = o.rate\nexcept Exception:\n    r = 7.0",
    "r = attrgetter('rate')(o)", "r = operator.attrgetter('rate')(o)", "r = get_rate(o)", "r = get_from(o, 'rate', 7.0)",
    "r = list(map(getattr, [o], ['rate']))[0]", "r = functools.reduce(getattr, ['rate'], o)", "r = og(o, 'rate')",
    "r = object.__getattribute__(o, 'rate')", "r = type(o).rate", "r = o.__class__.rate", "r = T(o).rate",
    "r = vars(o).get('rate', 7.0)", "r = o.__dict__.get('rate', 7.0)", "r = 3.0 if 'rate' in o.__dict__ else 7.0",
    "r = 3.0 if 'rate' in dir(o) else 7.0", "r = float('{0.rate}'.format(o))", "r = float('{o.rate}'.format(o=o))",
    "r = float('{o.rate}'.format_map({'o': o}))", "r = float(f'{o.rate}')", "r = float(f'{o.rate:{o.other}.3f}')",
    "r = float('%s' % o.rate)", "r = float(str.format('{0.rate}', o))", "r = float(fmt(o))",
    "r = float(string.Formatter().format('{0.rate}', o))", "r = inspect.getattr_static(o, 'rate', 7.0)",
    "match o:\n    case object(rate=r):\n        pass\n    case _:\n        r = 7.0", "r = copy.copy(o).rate",
    "r = methodcaller('go')(o)", "r = call_go(o)", "r = o.go()", "g = o.go\nr = g()", "r = super(C, o).rate",
    "r = super(C, o).go()", "r = sup(C, o).rate", "r = 3.0 if isinstance(o, Marker) else 7.0",
    "r = 3.0 if isinstance(o, collections.abc.Sized) else 7.0", "r = 3.0 if issubclass(type(o), Marker) else 7.0",
    "r = 3.0 if isinstance(o, collections.abc.Mapping) else 7.0", "r = 3.0 if isinstance(o, typing.SupportsFloat) else 7.0",
    "r = len(o)", "r = 3.0 if o else 7.0", "r = 3.0 if not o else 7.0", "r = float(o)", "r = o[0]", "r = o['rate']",
    "r = next(iter(o))", "r = 3.0 if 2 in o else 7.0", "r = 3.0 if o == 2 else 7.0", "r = float(format(o, '.3f'))",
    "r = float(f'{o}')", "r = float(str(o))", "r = float(f'{o!r}')", "r = o()", "with o as r:\n    pass", "r = o + 1",
    "r = 1 + o", "r = -o", "r = 3.0 if o < 2 else 7.0", "r = operator.index(o)", "r = abs(o)", "r = round(o)", "r = int(o)",
    "r = dataclasses.replace(o).rate", "r = dataclasses.asdict(o)['rate']", "r = dataclasses.astuple(o)[0]",
    "r = len(o.__name__)", "r = len(type(o).__name__)", "r = len(o.__doc__ or '')", "r = len(o.__module__)",
    "r = 3.0 if 'other' in vars(type(o)) else 7.0", "r = sum(o)", "r = [v for v in o][0]", "a, *_ = o\nr = a", "r = max(o)",
    "r = o.get('rate', 7.0)", "r = dict(o)['rate']", "r = {**o}['rate']", "r = list(o.values())[0]", "r = first_of(o)",
    "match o:\n    case {'rate': r}:\n        pass\n    case _:\n        r = 7.0", "r = sorted(o)[0]", "r = sum(v for v in o)",
    "match o:\n    case [r, *_]:\n        pass\n    case _:\n        r = 7.0", "r = dispatched(o)", "r = o.made()",
    "match o:\n    case C(r):\n        pass\n    case _:\n        r = 7.0", "r = o.helper()", "r = o.value",
    "r = o.args[0]", "r = o.keywords['k']", "r = o.func(1.0)", "r = float('%(rate)s' % o)", "r = '{rate}'.format_map(o)",
    "r = float('{rate}'.format(**o))", "r = len(type(o).__mro__)", "r = len(type(o).__bases__[0].__name__)",
    "r = o @ 1", "r = next(reversed(o))", "r = o - 1", "r = o * 2", "r = 3.0 if o >= 2 else 7.0", "r = math.trunc(o)",
    "r = getattr(getattr(o, '__class__'), 'rate')", "r = next(o)", "r = operator.attrgetter('__class__.rate')(o)",
    "r = o.__wrapped__.rate", "r = o.__func__.rate", "r = o.__self__.rate", "r = 3.0 if callable(o) else 7.0",
    "r = operator.truth(o) + 1.0", "r = 3.0 if any([o]) else 7.0", "r = 3.0 if o and True else 7.0", "r = len(list(o))",
    "r = o.rate if 'rate' in o.__slots__ else 7.0", "r = operator.getitem(o, 0)", "r = operator.length_hint(o)",
    "import operator as op\nr = op.attrgetter('rate')(o)", "from operator import attrgetter as ag\nr = ag('rate')(o)",
    "r = (lambda a, n='rate': getattr(a, n))(o)", "r = 3.0 if 'rate' in o else 7.0", "r = o.maps[0]['rate']", "r = o.data['rate']",
    "r = o.rate\nfor k in range(2):\n    r = r + getattr(o, 'other', 0.5)", "r = sum(getattr(o, n, 1.0) for n in ('rate', 'other'))",
    "r = [getattr(o, n, 1.0) for n in ('other', 'rate')][1]", "r = (o.rate or 7.0)", "r = o.rate if o.other else 7.0",
    "r = eval('o.rate')", "r = type(o).__dict__.get('rate', 7.0)", "r = C.rate", "r = getattr(C, 'rate', 7.0)", "r = C().rate",
    "r = C.__call__(o)", "r = type(o).go(o)", "r = getattr(type(o), '__len__', lambda s: 7.0)(o)", "r = o.rate.real",
]  # fmt: skip
LIST_CHANGES = [
    "o[0] = V",
    "o.append(V)",
    "o.insert(0, V)",
    "o.clear()",
    "o.reverse()",
    "o[:] = [V]",
    "del o[0]",
    "o.pop()",
]
DICT_CHANGES = ["o['rate'] = V", "del o['rate']", "o.clear()", "o.update(rate=V)", "o.pop('rate')", "o[0] = V",
                "o['new'] = V", "o |= {'rate': V}", "o.setdefault('rate', V)"]  # fmt: skip
OBJECTS: dict[str, tuple[str, list[str]]] = {
    "instance": ("class C(B): pass\no = C()\no.rate = 1.5\no.other = 2.0", OWN_CHANGES + CLASS_CHANGES),
    "instance without": ("class C(B): pass\no = C()", OWN_CHANGES + CLASS_CHANGES),
    "class attribute": ("class C(B): rate, other = 1.5, 2.0\no = C()", OWN_CHANGES + CLASS_CHANGES),
    "base attribute": ("class C(B): pass\nB.rate = 1.5\no = C()", OWN_CHANGES + CLASS_CHANGES),
    "diamond": (
        "class L(B):\n    def go(self): return 2.0\nclass R(B): rate = 3.5\nclass C(L, R):\n    def go(self): return super().go()\no = C()",
        [*OWN_CHANGES, *CLASS_CHANGES, "L.rate = V", "R.rate = V", "C.__bases__ = (R, L)", "L.go = lambda self: V", "del L.go"],
    ),
    "slots": ("class C:\n    __slots__ = ('rate', 'other')\no = C()\no.rate = 1.5", OWN_CHANGES + CLASS_CHANGES),
    "slots without": ("class C:\n    __slots__ = ('rate', 'other')\no = C()", OWN_CHANGES + CLASS_CHANGES),
    "property": (
        "class C(B):\n    @property\n    def rate(self): return self._rate * SCALE\no = C()\no._rate, SCALE = 1.5, 1.0",
        [*OWN_CHANGES, *CLASS_CHANGES, "o._rate = V", "SCALE = V", "C.rate = property(lambda self: self._rate + V)"],
    ),
    "descriptor": (
        "class Desc:\n    def __get__(self, o, cls): return self.v\n    def __set__(self, o, v): self.v = v\n"
        "d = Desc()\nd.v = 1.5\nclass C(B): rate = d\no = C()",
        [*OWN_CHANGES, *CLASS_CHANGES, "d.v = V", "Desc.__get__ = lambda self, o, cls: V"],
    ),
    "non-data descriptor": (
        "class Desc:\n    def __get__(self, o, cls): return self.v\nd = Desc()\nd.v = 1.5\nclass C(B): rate = d\no = C()",
        [*OWN_CHANGES, *CLASS_CHANGES, "d.v = V", "Desc.__get__ = lambda self, o, cls: V", "Desc.__set__ = lambda self, o, v: 0"],
    ),
    "cached property": (
        "class C(B):\n    @cached_property\n    def rate(self): return self.raw\no = C()\no.raw = 1.5",
        [*OWN_CHANGES, *CLASS_CHANGES, "o.raw = V"],
    ),
    "methods": (
        "class C(B):\n    rate = 1.5\n    def go(self): return self.rate\n    @staticmethod\n    def helper(): return C.rate\n"
        "    @classmethod\n    def made(cls): return cls.rate\n    def __call__(self): return self.go()\no = C()",
        OWN_CHANGES + CLASS_CHANGES,
    ),
    "super": (
        "class C(D):\n    def go(self): return super().go()\n    @property\n    def rate(self): return super().rate\no = C()",
        [*OWN_CHANGES, *CLASS_CHANGES, "D.rate = V", "D.go = lambda self: V", "del D.go", "D.__bases__ = (B2,)"],
    ),
    "special methods": (
        "class C(B):\n    v = 1.5\n    def __float__(self): return self.v\n    def __len__(self): return int(self.v)\n"
        "    def __getitem__(self, k): return (self.v, 2.0)[0 if k == NAME else k]\n    def __contains__(self, k): return self.v > 2\n"
        "    def __eq__(self, other): return self.v > other\n    def __iter__(self): return iter([self.v, 1.0])\n"
        "    def __call__(self): return self.v\n    def __add__(self, other): return self.v + other\n"
        "    def __enter__(self): return self.v\n    def __exit__(self, *a): return None\n    def __hash__(self): return int(self.v)\n"
        "    def __bool__(self): return self.v > 2\n    def __index__(self): return int(self.v)\n    def __neg__(self): return -self.v\n"
        "    def __lt__(self, other): return self.v < other\n    def __format__(self, spec): return format(self.v, spec)\no = C()",
        [*CLASS_CHANGES, "o.v = V", "C.v = V", "del C.__bool__", "del C.__len__", "del C.__iter__", "del C.__contains__"],
    ),
    "getattr hook": (
        "class C(B):\n    def __getattr__(self, name): return HOOK\nHOOK = 1.5\no = C()",
        [*OWN_CHANGES, *CLASS_CHANGES, "HOOK = V", "del C.__getattr__"],
    ),
    "dataclass": (
        "@dataclasses.dataclass\nclass C:\n    rate: float = 1.5\n    other: float = 2.0\no = C()",
        [*OWN_CHANGES, *CLASS_CHANGES, "o.other = V"],
    ),
    "frozen dataclass": (
        "@dataclasses.dataclass(frozen=True)\nclass C:\n    rate: float = 1.5\n    other: float = 2.0\no = C()",
        OWN_CHANGES + CLASS_CHANGES,
    ),
    "dataclass with slots": (
        "@dataclasses.dataclass(slots=True)\nclass C:\n    rate: float = 1.5\n    other: float = 2.0\no = C()",
        OWN_CHANGES + CLASS_CHANGES,
    ),
    "named tuple": (
        "class C(typing.NamedTuple):\n    rate: float = 1.5\n    other: float = 2.0\n    def go(self): return self.rate\no = C()",
        CLASS_CHANGES,
    ),
    "collections.namedtuple": ("C = namedtuple('C', 'rate other')\no = C(1.5, 2.0)", CLASS_CHANGES),
    "SimpleNamespace": ("o = types.SimpleNamespace(rate=1.5)", [*OWN_CHANGES, "o.new = V"]),
    "SimpleNamespace without": ("o = types.SimpleNamespace()", OWN_CHANGES),
    "function": ("def o(a=1.0): return a\no.rate = 1.5", [*OWN_CHANGES, "o.__defaults__ = (V,)", "o.__code__ = (lambda a=V: a + 1).__code__"]),
    "function without": ("def o(*, a=1.0): return a", [*OWN_CHANGES, "o.__kwdefaults__ = {'a': V}", "o.__kwdefaults__['a'] = V"]),
    "wrapped function": (
        "def inner(a=1.0): return a\ninner.rate = 1.5\n@functools.wraps(inner)\ndef o(): return inner()",
        [*OWN_CHANGES, "inner.rate = V", "o.__wrapped__ = B2", "inner.__defaults__ = (V,)"],
    ),
    "class": ("class o(B):\n    rate = 1.5\n    def go(self=None): return 2.0\nC = o", CLASS_CHANGES),
    "class without": ("class o(B):\n    pass\nC = o", CLASS_CHANGES),
    "metaclass": ("class o(metaclass=Meta): pass\nC = Meta\nMeta.rate = 1.5", ["Meta.rate = V", "o.rate = V", "C.__len__ = lambda cls: int(V)", "C.__call__ = lambda cls: V", "C.__bool__ = lambda cls: V > 2", "C.__getattr__ = lambda cls, n: V", "C.__iter__ = lambda cls: iter([V])"]),
    "enum member": (
        "class C(enum.Enum):\n    A = 1\n    X = 2\n    def __init__(self, v): self.rate = 1.5\n    def go(self): return 2.0\no = C.A",
        [*OWN_CHANGES, "C.go = lambda self: V", "C.__len__ = lambda self: int(V)", "C.__bool__ = lambda self: V > 2", "o._value_ = V",
         "Marker.register(C)", "C.__float__ = lambda self: V", "C.__getattr__ = lambda self, name: V"],
    ),
    "int enum member": ("class C(enum.IntEnum):\n    A = 1\n    X = 2\no = C.A", [*OWN_CHANGES, "C.go = lambda self: V"]),
    "enum with list": ("class C(enum.Enum):\n    A = [1.5]\no = C.A", [*OWN_CHANGES, "o.value[0] = V"]),
    "partial": (
        "o = partial(lambda a, k=0.0: a + k, 1.5, k=2.0)\no.rate = 1.5",
        [*OWN_CHANGES, "o.keywords['k'] = V", "o.__setstate__((o.func, (V,), {}, {'rate': V}))", "o.__setstate__((lambda a: V, (1.0,), {}, None))"],
    ),
    "partial without": ("o = partial(lambda: 1.5)", OWN_CHANGES),
    "bound method": (
        "class C(B):\n    rate = 2.0\n    def go(self): return self.rate\nC.go.rate = 1.5\no = C().go",
        ["C.go.rate = V", "o.__self__.rate = V", "C.rate = V", "o.__func__.rate = V", "del C.go.rate", "C.go.other = V"],
    ),
    "partial method": (
        "class C(B):\n    def at(self, v): return v\n    go = partialmethod(at, 1.5)\no = C()",
        [*CLASS_CHANGES, "C.at = lambda self, v: v + V", "C.go = partialmethod(C.at, V)", "o.go = lambda: V"],
    ),
    "module": ("o = types.ModuleType('m')\no.rate = 1.5", [*OWN_CHANGES, "o.__getattr__ = lambda name: V"]),
    "module without": ("o = types.ModuleType('m')", [*OWN_CHANGES, "o.__getattr__ = lambda name: V", "o.__dir__ = lambda: ['rate']"]),
    "user's module": (
        "o = types.ModuleType('m')\no.__file__ = 'm.py'\no.rate = 1.5",
        [*OWN_CHANGES, "o.__getattr__ = lambda name: V", "o.__class__ = type('M', (types.ModuleType,), {'rate': property(lambda s: V)})"],
    ),
    "user's module without": (
        "o = types.ModuleType('m')\no.__file__ = 'm.py'",
        [*OWN_CHANGES, "o.__getattr__ = lambda name: V", "o.__class__ = type('M', (types.ModuleType,), {'rate': property(lambda s: V)})"],
    ),
    "abstract": (
        "class C(Marker):\n    rate = 1.5\no = C()",
        [*OWN_CHANGES, *CLASS_CHANGES, "Marker.rate = V", "Marker.go = lambda self: V", "collections.abc.Sized.register(C)"],
    ),
    "registered": (
        "class C(B): rate = 1.5\no = C()",
        ["Marker.register(C)", "collections.abc.Mapping.register(C)", "collections.abc.Sized.register(C)", "C.__len__ = lambda s: int(V)",
         "Marker.register(B)", "C.__float__ = lambda s: V", "Marker.__subclasshook__ = classmethod(lambda cls, c: True)"],
    ),
    "list": ("o = [1.5, 2.0]", LIST_CHANGES),
    "deque": ("o = deque([1.5, 2.0], maxlen=3)", LIST_CHANGES),
    "tuple of list": ("o = ([1.5], 2.0)[0]", LIST_CHANGES),
    "set": ("o = {1.5, 3.0}", ["o.add(V)", "o.clear()", "o.discard(1.5)", "o.add(2)"]),
    "dict": ("o = {'rate': 1.5}", DICT_CHANGES),
    "empty dict": ("o = {}", DICT_CHANGES),
    "OrderedDict": ("o = OrderedDict(rate=1.5, other=2.0)", [*DICT_CHANGES, "o.move_to_end('rate')"]),
    "defaultdict": ("o = defaultdict(lambda: 4.0, other=1.5)", [*DICT_CHANGES, "o.default_factory = lambda: V", "o.default_factory = None"]),
    "ChainMap": ("low = {'rate': 1.5}\no = ChainMap({}, low)", [*DICT_CHANGES, "low['rate'] = V", "o.maps.insert(0, {'rate': V})", "o.maps[0]['rate'] = V"]),
    "UserDict": ("o = UserDict(rate=1.5)", [*DICT_CHANGES, "o.data['rate'] = V", "o.data = {'rate': V}"]),
    "user's UserDict": (
        "class C(UserDict):\n    def __missing__(self, k): return 4.0\no = C(other=1.5)", [*DICT_CHANGES, "C.__missing__ = lambda s, k: V", "o.data = {'rate': V}"],
    ),
    "user's dict": ("class C(dict): pass\no = C(rate=1.5)", [*DICT_CHANGES, *OWN_CHANGES, "C.__missing__ = lambda s, k: V", "C.__getitem__ = lambda s, k: V"]),
    "user's list": ("class C(list): pass\no = C([1.5])", [*LIST_CHANGES, "C.__len__ = lambda s: int(V)", "C.__iter__ = lambda s: iter([V])", "o.rate = V"]),
    "user's float": ("class C(float): pass\no = C(1.5)", ["o.rate = V", "C.__float__ = lambda s: V", "C.__add__ = lambda s, t: V", "C.rate = V"]),
    "proxy of a dict": ("low = {'rate': 1.5}\no = types.MappingProxyType(low)", ["low['rate'] = V", "low.clear()", "del low['rate']"]),
    "mapping": (
        "class C(collections.abc.Mapping):\n    def __getitem__(self, k): return self.d[k]\n    def __iter__(self): return iter(self.d)\n"
        "    def __len__(self): return len(self.d)\no = C()\no.d = {'rate': 1.5}",
        ["o.d['rate'] = V", "o.d = {'rate': V, 'b': 1.0}", "C.__getitem__ = lambda s, k: (V, V)[0 if k == NAME else k]", "C.get = lambda s, *a: V", "o.d.clear()"],
    ),
    "sequence": (
        "class C(collections.abc.Sequence):\n    def __getitem__(self, k): return self.d[k]\n    def __len__(self): return len(self.d)\n"
        "o = C()\no.d = [1.5, 2.0]",
        ["o.d[0] = V", "o.d = [V]", "C.__getitem__ = lambda s, k: [V, V][k]", "C.__iter__ = lambda s: iter([V])", "o.d.append(2)", "C.__contains__ = lambda s, v: V > 2"],
    ),
    "weak reference": ("class C(B): rate = 1.5\nt = C()\no = weakref.ref(t)", ["t.rate = V", "C.rate = V", "del t"]),
    "weak proxy": ("class C(B): rate = 1.5\nt = C()\no = weakref.proxy(t)", ["t.rate = V", "C.rate = V"]),
    "iterator": ("base = [1.5, 2.0, 3.0] * 9\no = iter(base)", ["base[:] = [V] * 20", "next(o)", "base.clear()"]),
    "generator": ("def gen():\n    for _ in range(99): yield GEN\nGEN = 1.5\no = gen()", ["GEN = V", "next(o)"]),
    "exception": ("o = ValueError(1.5)\no.rate = 1.5", ["o.args = (V,)", "o.rate = V", "del o.rate"]),
    "singledispatch": ("class C(B): pass\no = C()", ["dispatched.register(C, lambda o: V)", "dispatched.register(B, lambda o: V)", "dispatched.register(object, lambda o: V)"]),
    "callable in special": (
        "class Adder:\n    def __init__(s, v): s.v = v\n    def __call__(s, *a): return s.v\nadd = Adder(1.5)\nclass C(B):\n    __float__ = __add__ = __neg__ = go = add\n"
        "    rate = 1.0\no = C()",
        ["add.v = V", "Adder.__call__ = lambda s, *a: V", "C.__add__ = Adder(V)"],
    ),
    "attrgetter": ("t = types.SimpleNamespace(rate=1.5)\no = partial(attrgetter('rate'), t)", ["t.rate = V", "del t.rate"]),
    "string format": ("t = types.SimpleNamespace(rate=1.5)\no = partial(lambda s, v: float(s.format(v)), '{0.rate}', t)", ["t.rate = V", "del t.rate"]),
    "class made in a call": (
        "class C:\n    def __init_subclass__(cls): cls.rate = HOOK\nHOOK = 1.5\ndef o():\n    class S(C): pass\n    return S.rate",
        ["HOOK = V", "C.__init_subclass__ = classmethod(lambda cls: setattr(cls, 'rate', V))"],
    ),
    "set name": (
        "class Field:\n    def __set_name__(self, owner, name): self.v = HOOK\nHOOK = 1.5\ndef o():\n    class S: field = Field()\n    return S.__dict__['field'].v",
        ["HOOK = V", "Field.__set_name__ = lambda s, owner, name: setattr(s, 'v', V)"],
    ),
    "new": ("class C(B):\n    def __new__(cls): s = object.__new__(cls); s.rate = HOOK; return s\nHOOK = 1.5\no = C", ["HOOK = V", "C.__new__ = lambda cls: B2()", "C.__init__ = lambda s: setattr(s, 'rate', V)"]),
}  # fmt: skip
ANYWHERE = ["NAME = 'other'", "ga = lambda *a: V", "get_rate = attrgetter('other')", "fmt = '{0.other}'.format", "get_from = partial(getattr)",
            "getattr = lambda *a: V", "isinstance = lambda *a: V > 2", "len = lambda a: V", "T = lambda a: B2", "del getattr"]  # fmt: skip

FLATTENED = {
    "list",
    "deque",
    "tuple of list",
    "dict",
    "empty dict",
    "OrderedDict",
    "defaultdict",
    "named tuple",
    "collections.namedtuple",
}  # as arguments they are traced

# ---- the function: where it finds `o` --------------------------------------------------------------------------------

PLACES = {
    "global": "def f(x):\n{body}    return np.sum(x) * (r * 1.0)\n",
    "closure": "def make(o):\n    def f(x):\n{nested}        return np.sum(x) * (r * 1.0)\n    return f\nf = make(o)\n",
    "default": "def f(x, o=o):\n{body}    return np.sum(x) * (r * 1.0)\n",
    "argument": "def f(x, o):\n{body}    return np.sum(x) * (r * 1.0)\n",
    "helper": "def h(o):\n{body}    return r\ndef f(x):\n    return np.sum(x) * (h(o) * 1.0)\n",
    "attribute": "box = Box()\nbox.o = o\ndef f(x):\n    o = box.o\n{body}    return np.sum(x) * (r * 1.0)\n",
    "item": "table = {{'o': [o]}}\ndef f(x):\n    o = table['o'][0]\n{body}    return np.sum(x) * (r * 1.0)\n",
    "method": "class Owner:\n    def f(self, x):\n        o = self.o\n{nested}        return np.sum(x) * (r * 1.0)\n"
    "owner = Owner()\nowner.o = o\nf = owner.f\n",
    "partial": "def g(o, x):\n{body}    return np.sum(x) * (r * 1.0)\nf = partial(g, o)\n",
    "keyword": "def h(*, o):\n{body}    return r\nh2 = partial(h, o=o)\ndef f(x):\n    return np.sum(x) * (h2() * 1.0)\n",
    "loop": "def f(x):\n    s = np.sum(x)\n    for k in range(2):\n{nested}        s = s * (r * 1.0)\n    return s\n",
}
SIZED = "class Sized:\n    def __init__(self, v): self.v = v\n    def __call__(self, *a): return int(self.v)\n"


@dataclass
class StateProgram:
    seed: int
    kind: str
    source: str
    changes: list[str]
    takes_o: bool

    @property
    def text(self) -> str:
        return self.source.removeprefix(HEAD) + "".join([f"\n# then: {change}" for change in self.changes])


@dataclass
class Verdict:
    found: str = ""
    live: bool = False
    raised: bool = False
    values: list[Any] = field(default_factory=list)


def program(seed: int) -> StateProgram | None:
    """The program of a seed; None where plain Python raises in the first call."""
    choose = random.Random(seed)
    for _ in range(60):
        made = _draw(choose, seed)
        space = namespace(made)
        if space is not None and not isinstance(call(space, space["f"], made), str):
            return made
    return None


def _draw(choose: random.Random, seed: int) -> StateProgram:
    kind = choose.choice(list(OBJECTS))
    definition, own = OBJECTS[kind]
    place = choose.choice(list(PLACES))
    if place == "argument" and kind in FLATTENED:
        place = "global"
    body = choose.choice(READS)
    indented = ["".join([f"{' ' * depth}{line}\n" for line in body.split("\n")]) for depth in (4, 8)]
    text = PLACES[place].format(body=indented[0], nested=indented[1])
    changes = []
    for value in choose.sample(["2.5", "3.5", "1.5", "0.5"], 3):
        pool = ANYWHERE if choose.random() < 0.06 else own
        changes.append(choose.choice(pool).replace("V", value))
    if choose.random() < 0.5:  # back to the first state, by the way it has changed
        changes[2] = changes[0].replace(changes[0], choose.choice(own)).replace("V", "1.5")
    return StateProgram(seed, kind, f"{HEAD}{SIZED}{definition}\n{text}", changes, place == "argument")


def namespace(case: StateProgram) -> dict[str, Any] | None:
    space: dict[str, Any] = {"np": np, "__name__": "state_program"}
    try:
        exec(code_of(case.source, f"state program {case.seed}"), space)
    except Exception:
        return None
    return space


def call(space: dict[str, Any], f: Any, case: StateProgram) -> Any:
    """The value of a call, or the name of the exception's class."""
    x = np.ones(3)
    try:
        return float(f(x, space["o"]) if case.takes_o else f(x))
    except Exception as error:
        return type(error).__name__


def change(space: dict[str, Any], text: str) -> None:
    with contextlib.suppress(Exception):
        exec(code_of(text, "a change"), space)


def judge(case: StateProgram) -> Verdict:
    plain, other = namespace(case), namespace(case)
    assert plain is not None and other is not None
    verdict = Verdict()
    f = compile_grad(other["f"])
    for position, text in enumerate(["", *case.changes]):
        change(plain, text)
        change(other, text)
        for k in range(3 if position == 0 else 2):
            want, got = call(plain, plain["f"], case), call(other, f, case)
            verdict.raised |= isinstance(want, str)
            if want != got and not (want != want and got != got):
                said = f"after `{text}`, call {k + 1}: {got}, and plain Python {want}"
                verdict.found = f"{case.kind}: {said}"
                return verdict
    verdict.live = bool(f.stats.live)
    return verdict


def judge_processes(case: StateProgram) -> Verdict:
    """The verdict on first calls, each in another process: the program made anew, after some of its changes."""
    verdict = Verdict()
    for count in (0, 1, 2, 3, 0, 2, 1):
        plain, other = namespace(case), namespace(case)
        assert plain is not None and other is not None
        other["__spec__"] = None  # of a module, as a function that was not sent here has it
        for space in (plain, other):
            for text in case.changes[:count]:
                change(space, text)
        f = compile_grad(other["f"])
        for k in range(2):
            want, got = call(plain, plain["f"], case), call(other, f, case)
            if want != got and not (want != want and got != got):
                said = f"after {count} changes, call {k + 1}: {got}, and plain Python {want}"
                verdict.found = f"{case.kind}: {said}"
                return verdict
        verdict.values.append(f.stats.from_disk)
    return verdict


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore")
    totals: Counter[str] = Counter()
    start = time.perf_counter()
    for seed in range(first, first + count):
        case = program(seed)
        if case is None:
            totals["none"] += 1
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            verdict = judge(case)
        totals += Counter(programs=1, live=verdict.live, raised=verdict.raised, found=bool(verdict.found))
        if verdict.found:
            print(f"{'=' * 100}\nseed {seed}: {verdict.found}\n{case.text}", flush=True)
        if seed % 1000 == 999:
            print(
                f"up to seed {seed}: {dict(totals)}, {(time.perf_counter() - start) / (seed + 1 - first):.3f} s each",
                flush=True,
            )
    if count == 1 and case is not None:
        print(case.text)
    print(dict(totals))
    return 1 if totals["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
