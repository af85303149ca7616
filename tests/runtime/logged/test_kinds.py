"""Kinds of programs whose logged runs have been wrong, each as small as it gets: as plain Python, call after call."""

from __future__ import annotations

import pytest
from worlds import disagreement

from tracegrad.runtime.launch.kernel_cache import kernels

WORLD = """
import collections, contextlib, copy, functools, itertools, operator, types, typing
import numpy as np
L, M, D, S = [0.5, 1.5], [1.0], {"a": 0.5}, {1, 2}
LL, T, E = [L, M], (L, M), {"l": L}
Point = collections.namedtuple("Point", "u v")
point = Point(0.5, 1.5)
class Held:
    pass
class Named(collections.UserDict):
    pass
class Own:
    rate = 2.0
    def __init__(self, v=0.5): self.v = v
    def __eq__(self, other): return self.v == other.v
    def __hash__(self): return 1
    def __bool__(self): return self.v > 0.2
    def __index__(self): return int(self.v)
    def __radd__(self, other): return other + self.v
o, p, named = Own(), Own(1.5), Named(a=1.0)
G, space = 0.5, types.ModuleType("space")
def store(v):
    global G
    G = v
def f(x):
"""

# what a library keeps of a container from outside is that container
KEPT = {
    "a namespace": "ns = types.SimpleNamespace(a=L)\nns.a.append(1.0)",
    "a dict of keywords": "d = dict(a=L)\nd['a'].append(1.0)",
    "a deque": "q = collections.deque([L])\nq[0].append(1.0)",
    "an ordered dict": "d = collections.OrderedDict(a=L)\nd['a'].append(1.0)",
    "copy.copy": "c = copy.copy([L])\nc[0].append(1.0)",
    "repeat": "for l in itertools.repeat(L, 2): l.append(1.0)",
    "chain": "for l in itertools.chain([L]): l.append(1.0)",
    "list.copy": "c = list.copy([L])\nc[0].append(1.0)",
    "a sum of lists": "c = LL + []\nc[0].append(1.0)",
    "a list twice": "c = LL * 2\nc[2].append(1.0)",
    "a list behind another": "c = [3] + LL\nc[1].append(1.0)",
    "a tuple behind another": "c = T + (1,)\nc[0].append(1.0)",
    ".copy()": "c = LL.copy()\nc[0].append(1.0)",
    "a dict with another": "c = E | {'b': 1}\nc['l'].append(1.0)",
    "a default of get": "{}.get('q', L).append(1.0)",
    "a default of setdefault": "{}.setdefault('q', L).append(1.0)",
    "a default of pop": "{}.pop('q', L).append(1.0)",
    "a method that is called back": "with contextlib.ExitStack() as stack: stack.callback(L.append, 1.0)",
}

# iterations and views that are under way see what is written
UNDER_WAY = {
    "a list that grows": "for v in L:\n    s = s + v\n    if len(L) < 4: L.append(2.0)",
    "a list that shrinks": "for v in L:\n    s = s + v\n    L.pop()\nL.extend([1.0, 2.0])",
    "items that are set": "for i, v in enumerate(L): L[i] = v * 0.5 + s",
    "a dict that grows": "try:\n    for k in D: D[k + 'z'] = 1.0\nexcept RuntimeError:\n    s = s * 9.0\nD.pop('az')",
    "keys": "k = D.keys()\nD['q'] = 1.0\ns = s + len(k)\ndel D['q']",
    "items": "k = D.items()\nD['q'] = 1.0\ns = s + len(k)\nD.pop('q')",
    "values": "k = D.values()\nD['a'] = s\ns = s + sum(k)",
    "items that set their keys": "for k, v in D.items(): D[k] = v * 0.9 + s",
    "zip": "z = zip(L, L)\nL.append(3.0)\ns = s + len(list(z))\nL.pop()",
    "iter": "z = iter(L)\nL.append(3.0)\ns = s + len(list(z))\nL.pop()",
    "a list that extends itself": "L.extend(L)\nif len(L) > 6: L.clear()",
}

# code that is not seen asks nothing of what is outside: (body, changes)
UNSEEN = {
    "a copy of an object with a list": (
        "c = Held()\nc.l = L\ns = s * copy.deepcopy(c).l[0]", ["L[0] = 2.5"]),
    "an iterator over lists": ("s = s * sum(itertools.chain.from_iterable(l for l in LL))", ["L[0] = 2.5"]),
    "pairs of an iterator": ("s = s * dict(l for l in [L, M + M])[0.5]", ["L[1] = 2.5"]),
    "truth by a library's length": ("s = s * (operator.truth(named) + 1.0)", ["del named['a']", "named['b'] = 2.0"]),
    "attributes in a format": ("s = s * float(str.format('{0.rate}', Own))", ["Own.rate = 3.0"]),
    "a named tuple that iterates": ("s = s * next(iter(point))", ["Point.__iter__ = lambda self: iter([2.5])"]),
    "a named tuple with items": ("s = s * max(*point)", ["Point.__getitem__ = lambda self, k: 9.0"]),
    "not equal": ("s = s * (2.0 if o != p else 3.0)", ["o.v = 1.5"]),
    "keys of a dict": ("d = {o: 1.0}\nd[p] = 2.0\ns = s * len(d)", ["o.v = 1.5"]),
    "elements of a set": ("s = s * len({o, p})", ["o.v = 1.5"]),
    "a set that grows": ("d = set()\nd.add(o)\nd.update([p])\ns = s * len(d)", ["o.v = 1.5"]),
    "truth in filter": ("s = s * len(list(filter(None, [o, p, 0])))", ["o.v = 0.1"]),
    "an index": ("s = s * L[o]", ["o.v = 1.1"]),
    "an index of an array": ("s = s * x[o]", ["o.v = 1.1"]),
    "a protocol": (
        "s = s * (2.0 if isinstance(space, typing.SupportsFloat) else 3.0)",
        ["space.__getattr__ = lambda name: 1.5"],
    ),
    "a range": ("s = s + len(range(p))", ["p.v = 3.1"]),
    "a slice": ("s = s * len(L[o:])", ["o.v = 1.1"]),
    "how often a list": ("s = s * len([1] * p)", ["p.v = 3.1"]),
    "keys of an order": ("s = s * min(LL, key=lambda l: l)[0]", ["L[0] = 7.5", "M[0] = 9.5"]),
}  # fmt: skip

# iterations over symbols, of what is written under way
LOOPS = {
    "a global variable": "global G\nfor i in range(40): G = G * 0.9 + s\ns, G = G, 0.5",
    "a global of a condition": "global G\nwhile G < 60.0: G = G + 1.0\ns, G = s + G, 0.5",
    "a variable around": (
        "k = 0\ndef add(v):\n    nonlocal k\n    k += 1\n    return v + 1\nfor i in range(30): s = add(s)\ns = s + k"
    ),
    "positions of an outer loop": "for i in range(40):\n    for j in range(i, min(i + 4, 40)): s = np.sin(s - 0.1 * j)",
    "two conditions": "i = 0\nwhile i < 40 and s < 9.1:\n    i += 1\n    s = s + 0.25",
    "a helper's global": "for i in range(40): store(G * 0.9 + s)\ns = s + G\nstore(0.5)",
    "a list that grows": "q = list(range(40))\nfor v in q:\n    s = s + v\n    if len(q) < 45: q.append(1)",
    "a list outside that grows": (
        "L.extend([0.1] * 38)\nfor v in L:\n    s = s + v\n    if len(L) < 45: L.append(0.7)\ndel L[2:]"
    ),
    "items ahead": "q = [s * k for k in range(40)]\nfor i in range(35): q[i + 5] = q[i] * 0.5 + 1.0\ns = q[39] + q[3]",
    "items ahead of zip": "q = [s] * 40\nfor i, v in zip(range(35), q): q[i + 5] = v * 0.5\ns = q[39]",
}


def check(body, changes=()):
    text = "".join(f"    {line}\n" for line in ["s = np.sum(x)", *body.split("\n"), "return s * (len(L) + 1.0)"])
    found = disagreement(WORLD + text, calls=5, changes={2 * k + 2: change for k, change in enumerate(changes)})
    assert found is None, found


@pytest.fixture(autouse=True)
def fresh():
    yield
    kernels.clear()


@pytest.mark.parametrize("name", KEPT)
def test_what_a_library_keeps(name):
    check(KEPT[name])


@pytest.mark.parametrize("name", UNDER_WAY)
def test_iterations_under_way(name):
    check(UNDER_WAY[name])


@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_not_seen(name):
    check(*UNSEEN[name])


@pytest.mark.parametrize("name", LOOPS)
def test_what_loops_write(name):
    check(LOOPS[name])
