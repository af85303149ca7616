"""Kinds of writes whose runs are closed: of sets, classes, functions, dicts by objects; a change between calls is seen."""

# ruff: noqa: E501  (a row of a table is a line)
from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest
from closed_kinds import check

from tracegrad import compile_grad
from tracegrad.runtime.launch.kernel_cache import kernels

# what is outside, what the function does with it, changes between calls, the most traces
WRITES = {
    # ---- sets
    "a set that is added to": ("seen = {'b'}", "seen.add('a')\nseen.discard('b')\nseen.update(['c', 'd'])", ["seen.clear()", "seen = {'q'}"], 1),
    "a set that is added to and read": (
        "seen, names = set(), ['a', 'b']",
        "for n in names:\n    if n not in seen: s = s * 2.0\n    seen.add(n)\ns = s * len(seen)",
        ["seen.discard('a')", "names.append('q')", "seen = {'b'}"], 0),
    "a set of classes": (
        "class A: pass\nclass B: pass\nkinds, a = {A}, B()", "kinds.add(type(a))\ns = s * (B in kinds) + (A in kinds)", ["kinds.discard(A)", "a = A()"], 0),
    "a set of objects": (
        "class A: pass\na, b = A(), A()\nmet = {a}", "met.add(b)\ns = s * 2.0 if a in met else s\nmet.discard(a)", ["met.add(a)", "a, b = b, a", "met = set()"], 0),
    "two names of one set": (
        "one = {1}\ntwo = one", "one.add(2)\ns = s * (2 in two) + len(two)\ntwo.discard(1)\none.add(1)", ["two = {1}", "one = two", "two = {5, 1}"], 0),
    "a set in an object": (
        "class A:\n    def __init__(self): self.seen = set()\na, b = A(), A()", "a.seen.add(1.5)\ns = s + (1.5 in b.seen)", ["b.seen = a.seen", "a, b = b, a"], 0),
    "a set in place": (
        "o = types.SimpleNamespace(seen={1, 2})\nmore, core = {3}, frozenset((2, 3))", "o.seen |= more\no.seen -= core\ns = s * len(o.seen)", ["more.add(7)", "o.seen |= {9, 2}", "core = frozenset()"], 0),
    "a set that lacks what is removed": (
        "seen = {1}", "try: seen.remove(1)\nexcept KeyError: s = s * 3.0", ["seen.add(1)", "seen.add(2)"], 0),
    "a set that is emptied": ("seen = {1, 2}", "s = s * len(seen)\nseen.clear()\nseen.add(5)", ["seen.add(7)"], 0),
    # ---- classes
    "a counter of a class": ("class M: n = 0", "M.n += 1\ns = s * M.n", ["M.n = 7", "M.n = 0.5"], 0),
    "a counter that is not read otherwise": (
        "class M:\n    n = 0\n    def loss(self, x):\n        type(self).n += 1\n        return np.sum(x * x)\nm = M()", "s = m.loss(x)", ["M.n = 7", "class N(M): pass\nm = N()"], 0),
    "a counter by a class method": (
        "class M:\n    n = 0\n    @classmethod\n    def tick(cls): cls.n += 1\nclass N(M): pass", "M.tick()\nN.tick()\ns = s * (N.n + 2 * M.n)", ["M.n = 5", "del N.n"], 0),
    "the last value in a class": (
        "class M: last, before = None, 0.0", "v = s + 0.5 * M.before\nM.last = M.before = v\ns = v", ["M.before = 2.0", "M.last = 'x'"], 0),
    "an array in a class": ("class M: mean = np.zeros(3)", "M.mean = 0.9 * M.mean + 0.1 * x\ns = np.sum(M.mean ** 2)", ["M.mean = np.ones(3)", "M.mean[0] = 2.0"], 0),
    "an object in a class": (
        "class S:\n    def __init__(self): self.n, self.values = 0, []\nclass M: stats = S()", "M.stats.n += 1\nM.stats.values.append(s)\ns = s * M.stats.n", ["M.stats = S()", "M.stats.n = 4"], 0),
    "what an object has of its class": (
        "class M:\n    n = 1\nclass N(M): pass\na, b = N(), N()", "M.n = 2.0 * s\nb.n = 3.0\ns = s + a.n * b.n + super(N, a).n * N.n", ["a.n = 5.0", "N.n = 4.0", "del N.n"], 0),
    "a class by two names": ("class M: n = 1.0\nK = M", "M.n = s\ns = s * K.n", ["class K: n = 4.0", "K = M"], 0),
    # ---- functions and modules
    "a counter of a function": (
        "def g(x):\n    g.calls += 1\n    return x * g.rate\ng.calls, g.rate = 0, 2.0", "s = g(s) + g(s)", ["g.rate = 3.0", "g.calls = 10", "h = g\ndef g(x): return h(x)\ng.rate = 1.0"], 0),
    "a counter of a decorated method": (
        "def counted(f):\n    @functools.wraps(f)\n    def g(*a):\n        g.calls += 1\n        return f(*a)\n    g.calls = 0\n    return g\n"
        "class M:\n    @counted\n    def loss(self, x): return np.sum(x * x)\nm = M()", "s = m.loss(x)", ["M.loss.calls = 9"], 0),
    # ---- dicts and lists
    "slices of lists that were written": (
        "a, b = [1.0, 2.0, 3.0], [3.0, 4.0, 5.0]", "own = [0.0] * 3\na[0] = s\nb[1:] = a[:2]\nown[:] = a\nb[:1] = b[:1]\ns = s + sum(own) + sum(b)", ["a, b = b, a", "b = a", "a = [0.5] * 3"], 0),
    "a list that is put into itself": (
        "o = types.SimpleNamespace(cur=[1.0, 2.0], prev=[3.0, 4.0])", "o.prev = o.cur\no.cur[0] = 0.5 * s\no.cur, o.prev = o.prev, o.cur\no.prev[:] = o.cur\ns = s + o.cur[0]", ["o.prev = [5.0, 6.0]", "o.cur[1] = 7.0"], 0),
    "a dict by objects that gets more": (
        "class K: pass\nk, j = K(), K()\nd = {k: 2.0}", "d[j] = s\ns = s * d[k] + d[j]", ["del d[j]", "k, j = j, k", "d = {k: 3.0}"], 0),
    "a dict that is only set by objects": ("class K: pass\nk, d = K(), {}", "d[k] = s\nd[K] = 2.0", ["k = K()", "d = {}"], 1),
    "a dict by members that is written": (
        "class K(enum.Enum):\n    A = 1\n    B = 2\nd = {}", "d[K.A] = s\ns = s * d[K.A] + len(d)", ["d[K.B] = 1.0", "d = {K.B: 2.0}"], 0),
    "a dict by objects of the run": ("class K: pass\nd = {}", "k = K()\nd[k] = s\ns = s * d[k]", ["d.clear()"], 0),
    "an ordered dict": (
        "d = collections.OrderedDict(a=2.0)", "d['b'] = s\nd.move_to_end('a')\ns = s * d['a'] + len(d) * d.get('c', 2.0)", ["d['a'] = 3.0", "d['c'] = 1.0\nd.move_to_end('c', last=False)", "del d['b']"], 0),
    "the least recent of an ordered dict": (
        "d = collections.OrderedDict(a=2.0, b=3.0)", "k, v = d.popitem(last=False)\ns = s * v\nd[k] = v", ["d['c'] = 1.0", "d.move_to_end('a')"], 0),
    "a deque": (
        "q = collections.deque([1.0, 2.0], maxlen=3)", "s = s * q.popleft()\nq.append(s)\nq.appendleft(2.5)\ns = s + q[0] * q[-1] + len(q)", ["q.append(9.0)", "q = collections.deque([4.0])"], 0),
    "a counter that is updated": (
        "c, more = collections.Counter('aab'), {'a': 2}", "c.update('bc')\nc.update(more, d=1)\ns = s * c['a'] + c['d']", ["more['a'] = 5", "c['d'] = 1.5"], 0),
    "a method that is bound beforehand": (
        "rows, seen = [1.0], {}\nput, have = rows.append, types.SimpleNamespace(seen=seen.update)", "put(s)\nhave.seen(a=s)\ns = s * rows[0] + len(rows)",
        ["rows[0] = 3.0", "put = [].append", "seen['a'] = 1.0\nhave.seen = seen.setdefault\nhave.seen = seen.update"], 0),
    "containers of other classes that are stored": (
        "class A: pass\na, keep = A(), {}",
        "q = collections.deque([s, 1.0], maxlen=2)\na.q, a.d = q, collections.OrderedDict(b=q, a=s)\nkeep['n'] = collections.Counter(k=2)\n"
        "keep['t'] = collections.defaultdict(list, z=[s])\na.at = slice(1, None)", ["a.q = None", "keep.clear()"], 0),
    "a deque that only grows": ("q = collections.deque(maxlen=3)", "q.append(s)\nq.extend([1.0, s])", ["q.clear()", "q = collections.deque()"], 1),
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    yield
    kernels.clear()


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_is_closed(name):
    world, body, changes, most = WRITES[name]
    check(world, body, changes, 2 * len(changes) + 3 if len(changes) < 2 else 6, most)


RESULTS = {
    "an ordered dict": lambda x: OrderedDict(b=x * 2.0, a=x[0]),
    "a bounded deque": lambda x: deque([x * 2.0, x], 3),
    "defaults": lambda x: defaultdict(list, a=x * 2.0),
    "a count": lambda x: Counter(a=x[0] * 2.0, b=3),
    "slices": lambda x: [slice(x[0], 2), x],
    "within others": lambda x: {"a": [deque([x]), OrderedDict(k=[x * 2.0])]},
    "one in two places": lambda x: (lambda q: [q, {"q": q}, q])(deque([x[0]])),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_that_is_closed(name):
    plain, compiled, found = RESULTS[name], compile_grad(RESULTS[name]), []
    for k in range(3):
        x = np.arange(3.0) + k
        found.append(compiled(x))
        assert repr(found[-1]) == repr(plain(x)) and type(found[-1]) is type(plain(x))
    assert found[0] is not found[1] and compiled.stats.traces == 1 and not compiled._dispatcher.logged.refused
    if name == "one in two places":
        assert found[2][0] is found[2][1]["q"] is found[2][2]
    if name == "slices":
        assert found[2][1] is x


def test_an_array_that_the_code_makes_is_one_wherever_it_is_left():
    class Held:
        last = None

    held = Held()

    def f(x):
        made = np.ones(3) * 0.5
        held.one = [made]
        held.other = Held.last = made
        return np.sum(x), made

    g = compile_grad(f)
    for k in range(3):
        _, made = g(np.ones(2) + k)
        assert held.one[0] is held.other is Held.last is made and made.tolist() == [0.5] * 3
        made[0] = 7.0
    assert g.stats.traces == 1 and not g._dispatcher.logged.refused
